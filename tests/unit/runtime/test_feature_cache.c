/* gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/store/feature_cache: where the features are kept, decided by made-up sizes of GPUs, and runs whose GPUs
 * are too small for them. (What a cache holds is tested with codelets/rows/row_cache.h.)
 */
#include "tests/support/run_fixture.h"

#include "data/load.h"

#include "runtime/train/memory_need.h"

#define GB UINT64_C(1000000000)

/* ---- the decision ---- */

/* 512 bytes a row; a part's table takes 512 MB. */
static const struct sl_feature_room plain = {.device_bytes = 2 * GB,
                                             .other_bytes = GB,
                                             .n_pes = 1,
                                             .n_parts = 4,
                                             .part_rows = 1000000,
                                             .row_bytes = 128 * sizeof(sl_real)};

TEST(test_fits)
{
    struct sl_feature_room room = plain;
    assert_true(sl_feature_room_wanted(&room) == 512000000 * sizeof(sl_real) / 4);
    assert_int_equal(sl_feature_room_rows(&room), 0);
    room.device_bytes = room.other_bytes + sl_feature_room_wanted(&room); /* just */
    assert_int_equal(sl_feature_room_rows(&room), 0);
    room.device_bytes--;
    assert_in_range(sl_feature_room_rows(&room), 1, room.part_rows - 1);
    room.part_rows = 0; /* nothing always fits */
    room.device_bytes = 0;
    assert_int_equal(sl_feature_room_rows(&room), 0);
}

/* Parts of several PEs add up; PEs of one part share its table, and have a cache each. */
TEST(test_several_pes)
{
    struct sl_feature_room room = plain;
    uint64_t part = sl_feature_room_wanted(&room);
    room.other_bytes = 0;
    for (room.n_pes = 1; room.n_pes <= 12; room.n_pes++) {
        uint32_t n_parts = room.n_pes < 4 ? room.n_pes : 4;
        assert_true(sl_feature_room_wanted(&room) == n_parts * part);
        room.device_bytes = n_parts * part;
        assert_int_equal(sl_feature_room_rows(&room), 0);
        room.device_bytes--;
        assert_in_range(sl_feature_room_rows(&room), 1, room.part_rows - 1);
    }
}

/* What is chosen takes no more than there is, and one row more a PE would; more room is more rows. */
TEST(test_what_is_left)
{
    struct sl_feature_room room = plain;
    uint32_t last = 1;
    room.part_rows = 100000000; /* 51 GB */
    for (room.n_pes = 1; room.n_pes <= 4; room.n_pes++) {
        last = 1;
        for (room.device_bytes = GB / 2; room.device_bytes < 40 * GB; room.device_bytes += GB / 2) {
            uint32_t n = sl_feature_room_rows(&room);
            uint64_t row = room.row_bytes + sizeof(struct sl_row_cache_slot);
            uint64_t taken = room.other_bytes + room.n_pes * ((uint64_t)room.part_rows * 4 + n * row);
            assert_true(n >= last && n < room.part_rows);
            assert_true(n == 1 || taken <= room.device_bytes);
            assert_true(n == 1 || taken >= room.device_bytes - room.device_bytes / 5); /* the rest is for the search */
            last = n;
        }
        assert_true(last > 1);
    }
    room.device_bytes = room.other_bytes / 2; /* not even the rest fits: the table stays in main memory all the same */
    assert_int_equal(sl_feature_room_rows(&room), 1);
}

/* ---- the estimate it is made by ---- */

static const struct graph_shape shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 3000, .n_columns = 100, .n_classes = 5, .seed = 3};
static struct sl_dataset dataset;

static void make_settings(uint32_t pes, uint32_t group_size, struct sl_settings *out)
{
    settings_with("layers=2 hidden=16 fanout=5,5 batch-size=32 chunks=2", out);
    out->pes = pes;
    out->group_size = group_size;
}

/* More GPUs have less each; what fits no GPU is more than its parts. */
TEST(test_need)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    make_settings(4, 4, &settings);
    expect_ok(sl_settings_check(&settings));
    struct sl_gpu_need one = sl_memory_need_gpu(&settings, &dataset, 1);
    struct sl_gpu_need two = sl_memory_need_gpu(&settings, &dataset, 2);
    struct sl_gpu_need four = sl_memory_need_gpu(&settings, &dataset, 4);
    struct sl_gpu_need many = sl_memory_need_gpu(&settings, &dataset, 8);
    assert_true(one.training > two.training && two.training > four.training && four.training == many.training);
    uint64_t pieces = SL_GPU_PIECES_BYTES;
    assert_true(one.training > pieces + 4 * dataset.graph.n_edges + 12 * 3000);
    assert_true(one.training < pieces + sl_memory_need(&settings, &dataset, NULL, 2, SL_PARTITION_NONE));
    /* The first layer narrows: projected rows and what comes of them. */
    assert_true(four.evaluation > pieces + (16 + 16) * 3000 * sizeof(sl_real));
    assert_true(four.evaluation < pieces + (100 + 16) * 3000 * sizeof(sl_real));
    /* Now the features themselves: of all rows of a sample where there may be a cache, else of destinations. */
    settings.hidden = 400;
    struct sl_gpu_need open = sl_memory_need_gpu(&settings, &dataset, 4);
    settings.feature_cache = 1;
    assert_int_equal(sl_memory_need_gpu(&settings, &dataset, 4).training, open.training);
    settings.feature_cache = 0;
    assert_true(sl_memory_need_gpu(&settings, &dataset, 4).training < open.training);
    settings.feature_cache = SL_FEATURE_CACHE_AUTO;
    assert_true(sl_memory_need_gpu(&settings, &dataset, 4).evaluation > pieces + (100 + 400) * 3000 * sizeof(sl_real));
}

/* ---- runs ---- */

/* What the last run went by: its share of a GPU, and the bytes of all its slots. */
static struct sl_feature_room last_room;
static uint64_t last_slots;

static int precision = SL_PRECISION_FLOAT; /* of the next run */

/* A run on GPUs of so many bytes, made up: none of them is there. 0: a run without GPUs. rows_out: of each PE's
 * cache. */
static void run_on(uint64_t gpu_bytes, uint32_t n_gpus, uint32_t pes, uint32_t feature_cache, struct outcome *out,
                   uint32_t *rows_out)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_row_cache_tally tally;
    OWNED(world_close) struct world w;
    make_settings(pes, pes, &settings);
    settings.feature_cache = feature_cache;
    settings.precision = precision;
    made_up_gpus.n = n_gpus;
    made_up_gpus.bytes = gpu_bytes;
    world_open(&dataset, &settings, 3, &w);
    made_up_gpus.n = 0;
    world_run(&w, 3, out);
    *rows_out = w.steps->cache.n_rows;
    last_room = w.steps->cache.room;
    last_slots = w.steps->slot[0].n_bytes + w.steps->slot[1].n_bytes;
    assert_int_equal(w.steps->cache.n_pes, *rows_out > 0 ? pes : 0);
    assert_int_equal(w.steps->cache.chosen, *rows_out > 0 && feature_cache == SL_FEATURE_CACHE_AUTO);
    expect_ok(sl_feature_cache_tally(&w.steps->cache, &tally));
    assert_int_equal(tally.rows > 0, *rows_out > 0);
}

/* By itself a run keeps its features in main memory where its GPUs are too small, and nowhere else; the losses are
 * the same. */
TEST(test_chosen)
{
    uint32_t rows;
    if (sl_gpus_built() && sl_gpus_count() == 0) {
        skip(); /* memory that was not locked: CUDA tells */
    }
    const uint64_t table = 3000 * 100 * sizeof(sl_real);
    for (uint32_t pes = 1; pes <= 4; pes *= 2) {
        OWNED(outcome_free) struct outcome want;
        run_on(0, 0, pes, SL_FEATURE_CACHE_AUTO, &want, &rows);
        assert_int_equal(rows, 0);
        const struct {
            uint64_t bytes;
            uint32_t feature_cache;
            uint32_t least, most;
        } cases[] = {{100 * GB, SL_FEATURE_CACHE_AUTO, 0, 0},
                     {table, SL_FEATURE_CACHE_AUTO, 1, 2999},
                     {table, 0, 0, 0},
                     {1, SL_FEATURE_CACHE_AUTO, 1, 1},
                     {100 * GB, 7, 7, 7}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            OWNED(outcome_free) struct outcome got;
            run_on(cases[i].bytes, 1, pes, cases[i].feature_cache, &got, &rows);
            assert_in_range(rows, cases[i].least, cases[i].most);
            assert_memory_equal(got.loss, want.loss, 3 * sizeof *got.loss);
            expect_same("parameter", got.n_entries, sizeof *got.parameters, got.parameters, want.parameters);
        }
    }
}

/* More rows than a GPU can hold at once: StarPU would wait for room without end. */
TEST(test_too_many_rows)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_shards_close) struct sl_shards shards;
    struct sl_feature_cache cache;
    struct sl_run small = {.gpu_bytes = 1000 * 100 * sizeof(sl_real)};
    make_settings(2, 2, &settings);
    settings.epochs = 1;
    expect_ok(sl_settings_check(&settings));
    expect_ok(sl_shards_open(&dataset, partition_of(&dataset, &settings), SL_FEATURES_AS_THEY_ARE, SL_DTYPE_REAL, NULL,
                             &shards));
    struct sl_plan plan = sl_plan_make(&settings, shards.n_train);
    settings.feature_cache = 0; /* a part has half of 3000 */
    assert_int_equal(sl_feature_cache_open(&settings, &plan, &small, &shards, 0, &cache), SL_ENOMEM);
    expect_message(sl_message(), "--feature-cache", "auto");
    settings.feature_cache = 1001;
    assert_int_equal(sl_feature_cache_open(&settings, &plan, &small, &shards, 0, &cache), SL_ENOMEM);
    expect_message(sl_message(), "1001 rows", "expected");
    assert_int_equal(cache.n_rows, 0);
    settings.epochs = 0; /* nothing is gathered */
    settings.feature_cache = 0;
    expect_ok(sl_feature_cache_open(&settings, &plan, &small, &shards, 0, &cache));
}

/* With more GPUs each has fewer PEs, parts and slots, and so room. */
TEST(test_more_gpus)
{
    struct outcome got;
    uint32_t rows;
    OWNED(sl_settings_free) struct sl_settings settings;
    if (sl_gpus_built() && sl_gpus_count() == 0) {
        skip();
    }
    make_settings(4, 4, &settings);
    expect_ok(sl_settings_check(&settings));
    uint64_t others = gpu_bytes_of(&settings, &dataset, 4);
    run_on(100 * GB, 4, 4, SL_FEATURE_CACHE_AUTO, &got, &rows);
    outcome_free(&got);
    assert_true(last_room.n_pes == 1 && last_room.n_parts == 4 && last_room.row_bytes == 100 * sizeof(sl_real));
    assert_true(last_room.device_bytes == 100 * GB && last_room.part_rows >= 750 && last_room.part_rows < 1000);
    assert_int_equal(last_room.other_bytes, others + last_slots / 4);
    uint64_t bytes = last_room.other_bytes + 3000 * 100 * sizeof(sl_real) * 4 / 10; /* a part fits, and not two */
    run_on(bytes, 4, 4, SL_FEATURE_CACHE_AUTO, &got, &rows);
    outcome_free(&got);
    assert_int_equal(rows, 0);
    for (uint32_t n_gpus = 1; n_gpus <= 3; n_gpus++) { /* with three, one of them has two parts */
        run_on(bytes, n_gpus, 4, SL_FEATURE_CACHE_AUTO, &got, &rows);
        outcome_free(&got);
        assert_true(rows > 0 && last_room.n_pes == (n_gpus == 1 ? 4 : 2));
    }
}

/* Where half of the features' rows in float fit, all of them do in bf16. */
TEST(test_rounded)
{
    struct outcome got;
    uint32_t rows;
    if (sl_gpus_built() && sl_gpus_count() == 0) {
        skip();
    }
    needs_bf16();
    for (precision = SL_PRECISION_FLOAT; precision <= SL_PRECISION_BF16; precision++) {
        run_on(100 * GB, 1, 2, SL_FEATURE_CACHE_AUTO, &got, &rows);
        outcome_free(&got);
        run_on(last_room.other_bytes + 3000 * 100 * sizeof(sl_bf16) * 11 / 10, 1, 2, SL_FEATURE_CACHE_AUTO, &got,
               &rows);
        outcome_free(&got);
        assert_int_equal(rows > 0, precision == SL_PRECISION_FLOAT);
    }
    precision = SL_PRECISION_FLOAT;
}

/* A table that the system did not lock: refused at the start, in one line that says what to try. */
TEST(test_unlocked_table)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_run_free) struct sl_run run_here;
    OWNED(sl_shards_close) struct sl_shards shards;
    struct sl_feature_cache cache;
    make_settings(2, 2, &settings);
    settings.feature_cache = 10;
    expect_ok(sl_settings_check(&settings));
    expect_ok(sl_shards_open(&dataset, partition_of(&dataset, &settings), SL_FEATURES_AS_THEY_ARE, SL_DTYPE_REAL, NULL,
                             &shards));
    expect_ok(sl_run_init(&run_here));
    run_here.n_gpus = 1;
    run_here.gpu_bytes = 100 * GB;
    struct sl_plan plan = sl_plan_make(&settings, shards.n_train);
    uint64_t others = gpu_bytes_of(&settings, &dataset, 1);
    assert_false(shards.features.pinned); /* nobody asked */
    assert_int_equal(sl_feature_cache_open(&settings, &plan, &run_here, &shards, others, &cache), SL_ENOTSUP);
    expect_message(sl_message(), "--feature-cache: expected", "ulimit -l");
    expect_message(sl_message(), "container", "--feature-cache 0");
    assert_null(strchr(sl_message(), '\n'));
    assert_true(strlen(sl_message()) < 255);
    assert_true(cache.n_pes == 0 && cache.n_rows == 0 && cache.pe == NULL);
    settings.feature_cache = SL_FEATURE_CACHE_AUTO; /* they fit: it need not be locked */
    expect_ok(sl_feature_cache_open(&settings, &plan, &run_here, &shards, others, &cache));
    assert_int_equal(cache.n_pes, 0);
    run_here.gpu_bytes = 1000;
    assert_int_equal(sl_feature_cache_open(&settings, &plan, &run_here, &shards, others, &cache), SL_ENOTSUP);
}

/* How often vertex v is a source of an edge. */
static uint32_t uses_of(const struct sl_graph *graph, uint32_t v)
{
    uint32_t n = 0;
    for (uint64_t e = 0; e < graph->n_edges; e++) {
        n += graph->sources[e] == v;
    }
    return n;
}

/* By degree, a PE's cache holds the rows of its part that are most often a source: none outside is one more often. */
TEST(test_by_degree)
{
    enum { ROWS = 20 };
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    settings_with("layers=2 hidden=8 fanout=3,3 pes=2 group-size=2 batch-size=8 chunks=1 feature-cache-policy=degree",
                  &settings);
    settings.feature_cache = ROWS;
    world_open(&dataset, &settings, 1, &w);
    for (uint32_t p = 0; p < 2; p++) {
        const struct sl_shard *part = &w.shards.part[p];
        uint32_t least = UINT32_MAX;
        uint32_t n_more = 0;
        assert_true(part->end - part->first > ROWS);
        for (uint32_t i = 0; i < ROWS; i++) {
            uint32_t n = uses_of(&w.partition->graph, part->first + w.steps->cache.vertices[p][i]);
            least = n < least ? n : least;
        }
        for (uint32_t v = part->first; v < part->end; v++) {
            n_more += uses_of(&w.partition->graph, v) > least;
        }
        assert_true(n_more < ROWS);
    }
}

/* Where CPUs share the work of a GPU, a cache is made and used on the GPU alone: main memory never has room for it. */
TEST(test_stays_on_its_gpu)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(outcome_free) struct outcome got;
    OWNED(world_close) struct world w;
    bool gpus_first = machine.gpus_first;
    if (!wants_gpu()) {
        skip();
    }
    make_settings(2, 2, &settings);
    settings.feature_cache = 200;
    machine.gpus_first = false;
    world_open(&dataset, &settings, 4, &w);
    machine.gpus_first = gpus_first;
    world_run(&w, 4, &got);
    for (uint32_t p = 0; p < 2; p++) {
        const starpu_data_handle_t lists[] = {w.steps->cache.pe[p].slot_of, w.steps->cache.pe[p].slots,
                                              w.steps->cache.pe[p].rows};
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
            int allocated = 0;
            int valid = 0;
            int requested = 0;
            starpu_data_query_status(lists[i], STARPU_MAIN_RAM, &allocated, &valid, &requested);
            assert_false(allocated || valid);
        }
    }
}

static int up(void **state)
{
    make_dataset(&shape, &dataset);
    return group_up(state);
}

static int down(void **state)
{
    forget_partitions();
    sl_dataset_free(&dataset);
    return group_down(state);
}

TEST_MAIN(up, down)
