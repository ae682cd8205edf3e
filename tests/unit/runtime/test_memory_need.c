/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/train/memory_need: for every model, about what the pool came to hold, and not absurdly more.
 */
#include "tests/support/run_fixture.h"

#include "data/load.h"

#include "runtime/machine/pool.h"
#include "runtime/train/memory_need.h"

#define TOO_LITTLE 0.7 /* of what was taken: which chunks there are together depends on the load (0.798 was seen) */
#define TOO_MUCH 4     /* times what was taken */
#define N_TRIES 3      /* a loaded machine may have fewer steps in flight: the most of so many runs counts */
#define N_STEPS 4

/* What is not the same in every run. */
struct variant {
    const char *name;
    uint32_t n_columns, hidden, depth, chunks, group_size, batch_size;
    bool sparse, residual;
    int norm;
    enum sl_dtype dtype; /* of dense features */
};

static const struct variant variants[] = {
    {"dense", 100, 64, 2, 2, 2, 700, false, false, SL_NORM_NONE, SL_DTYPE_F32},
    {"narrow features", 24, 64, 1, 1, 1, 1500, false, true, SL_NORM_BATCH, SL_DTYPE_F32},
    {"sparse", 150, 64, 2, 3, 2, 700, true, false, SL_NORM_LAYER, SL_DTYPE_F32},
    {"sparse made dense", 64, 64, 1, 2, 1, 1500, true, true, SL_NORM_NONE, SL_DTYPE_F32},
    {"features ahead", 500, 512, 4, 1, 1, 150, false, false, SL_NORM_NONE, SL_DTYPE_F32},
    {"teams", 100, 64, 2, 1, 32, 40, false, false, SL_NORM_LAYER, SL_DTYPE_F32},
    {"not kept", 600, 512, 2, 2, 1, 1500, false, false, SL_NORM_NONE, SL_DTYPE_F32},
    {"int8", 600, 64, 2, 2, 2, 700, false, false, SL_NORM_NONE, SL_DTYPE_I8},
    {"float16", 600, 64, 2, 2, 2, 700, false, false, SL_NORM_NONE, SL_DTYPE_F16},
    {"float16 added", 512, 512, 2, 2, 1, 700, false, true, SL_NORM_NONE, SL_DTYPE_F16},
};

static int precision; /* --precision of what is estimated */

static void make_settings(int model, const struct variant *v, struct sl_settings *out)
{
    settings_with("layers=2 fanout=15,15", out); /* nearly all vertices */
    out->model = model;
    out->precision = precision;
    out->hidden = v->hidden;
    out->heads = attends(model) || model == SL_MODEL_RGAT ? 4 : out->heads;
    out->pes = out->group_size = v->group_size;
    out->batch_size = v->batch_size;
    out->chunks = v->chunks;
    out->depth = v->depth;
    out->residual = v->residual && model != SL_MODEL_GCNII && model != SL_MODEL_RESGCN; /* those have some */
    out->norm = model == SL_MODEL_RESGCN ? SL_NORM_NONE : v->norm;
}

/* The sizes of a step. */
static struct sl_reach reach_of(const struct sl_settings *settings, const struct sl_dataset *dataset)
{
    struct sl_reach reach;
    expect_ok(sl_reach_expect(settings, dataset, &reach));
    return reach;
}

static void expect_between(const char *model, const char *variant, const char *label, uint64_t taken, uint64_t need)
{
    if ((double)need < TOO_LITTLE * (double)taken || need > TOO_MUCH * taken) {
        fail_msg("%s, %s: %s took %llu bytes, estimated at %llu", model, variant, label, (unsigned long long)taken,
                 (unsigned long long)need);
    }
}

/* Replace dense features by a narrow dtype's: small finite numbers. */
static void narrow_features(enum sl_dtype dtype, struct sl_features *features)
{
    const size_t n = (size_t)features->n_rows * features->n_columns;
    uint8_t *items = need_owned(n, sl_dtype_size(dtype));
    for (size_t i = 0; i < n * sl_dtype_size(dtype); i++) {
        items[i] = (uint8_t)(i * 37 % 59);
    }
    sl_column_free(&features->dense);
    features->dense = sl_column_take(dtype, features->n_rows, features->n_columns, items);
    features->dense.scale = 0.01f;
}

/* Whether the run converts the features of an evaluation into rows. */
static bool converts(const struct world *w)
{
    return !sl_feature_source_empty(&w->shards.features) && !sl_feature_source_in_place(&w->shards.features);
}

/* Steps, and in a pool of its own an evaluation. */
static void compare(const struct sl_dataset *dataset, int model, const struct variant *v)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_scores scores;
    const struct sl_inference nothing = {0};
    struct outcome outcome;
    struct world w;
    make_settings(model, v, &settings);
    machine_up(NULL, 2);
    world_open(dataset, &settings, N_STEPS, &w);
    struct sl_memory_run of = {.n_workers = 2};
    of.reach = reach_of(&settings, dataset);
    struct sl_memory_need need = sl_memory_need(&settings, dataset, &of);
    uint64_t trained = 0;
    for (int i = 0; i < N_TRIES && TOO_MUCH * trained < need.training; i++) {
        world_run(&w, N_STEPS, &outcome);
        uint64_t taken = sl_pool_bytes();
        trained = taken > trained ? taken : trained;
        world_close(&w);
        machine_down();
        outcome_free(&outcome);
        machine_up(NULL, 2);
        world_open(dataset, &settings, N_STEPS, &w);
    }
    uint64_t before = sl_pool_bytes();
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &nothing, &scores));
    uint64_t evaluated = sl_pool_bytes() - before;
    uint64_t row = sl_dtype_bytes(sl_settings_row_dtype(&settings), v->n_columns);
    if (converts(&w)) { /* on a loaded machine one PE's rows may be gone before the other's come */
        assert_true(evaluated >= row * 3000 / 3 && need.evaluation >= row * 3000);
    }
    if (v->dtype != SL_DTYPE_F32) { /* a GPU has copies of the tables, too */
        assert_true(sl_memory_need_gpu(&settings, dataset, &of.reach, 1).evaluation >
                    row * 3000 + sl_feature_source_bytes(&w.shards.features) + SL_GPU_PIECES_BYTES);
    }
    world_close(&w);
    machine_down();
    const char *name = sl_model_kind(model)->name;
    expect_between(name, v->name, "training", trained, need.training);
    expect_between(name, v->name, "evaluation", evaluated, need.evaluation);
    row = v->dtype == SL_DTYPE_F32 ? row : sl_dtype_bytes(v->dtype, v->n_columns);
    uint64_t data = 4 * dataset->graph.n_edges + (v->sparse && !settings.residual ? 8 : row) * 3000;
    assert_true(need.data > data);
    assert_true(need.memory > need.data + trained); /* with the process itself */
}

/* A build with a sanitizer has no pool, which would count what is taken. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_WITHOUT_POOL() skip()
#else
#define SKIP_WITHOUT_POOL() ((void)0)
#endif

TEST(test_models)
{
    SKIP_WITHOUT_POOL();
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const struct variant *v = &variants[i];
        struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                    .n_vertices = 3000,
                                    .n_columns = v->n_columns,
                                    .n_classes = 7,
                                    .sparse = v->sparse,
                                    .seed = 5};
        struct graph_shape typed = shape;
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        typed.n_relations = 4;
        make_dataset(&shape, &dataset);
        if (v->dtype != SL_DTYPE_F32) {
            narrow_features(v->dtype, &dataset.features);
        }
        for (int model = SL_MODEL_SAGE; model <= SL_MODEL_RESGCN; model++) {
            compare(&dataset, model, v);
        }
        make_typed(&typed, &dataset.graph);
        forget_partitions();
        compare(&dataset, SL_MODEL_RGCN, v);
        compare(&dataset, SL_MODEL_RGAT, v);
        forget_partitions();
    }
    assert_int_equal(sl_memory_live(), 0);
}

static uint64_t weighted_data(const struct sl_dataset *dataset, int edge_weights)
{
    struct sl_settings settings;
    struct sl_memory_run of = {.n_workers = 2};
    make_settings(SL_MODEL_SAGE, &variants[0], &settings);
    settings.edge_weights = edge_weights;
    of.reach = reach_of(&settings, dataset);
    uint64_t bytes = sl_memory_need(&settings, dataset, &of).data;
    sl_settings_free(&settings);
    return bytes;
}

/* Parts have the weights that the run uses. */
TEST(test_edge_weights)
{
    static const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 300, .n_columns = 100, .n_classes = 7, .weighted = true, .seed = 5};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    uint64_t weighted = weighted_data(&dataset, SL_EDGE_WEIGHTS_PROBABILITY);
    assert_int_equal(weighted - weighted_data(&dataset, SL_EDGE_WEIGHTS_NONE), sizeof(float) * dataset.graph.n_edges);
    assert_int_equal(weighted, weighted_data(&dataset, SL_EDGE_WEIGHTS_FACTOR));
}

/* In bf16 what is taken is less, and so is the estimate. */
TEST(test_bf16)
{
    static const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 3000, .n_columns = 100, .n_classes = 7, .seed = 5};
    struct sl_dataset dataset;
    struct sl_memory_need need[2];
    SKIP_WITHOUT_POOL();
    make_dataset(&shape, &dataset);
    for (int model = SL_MODEL_SAGE; model <= SL_MODEL_RESGCN; model++) {
        for (precision = SL_PRECISION_FLOAT; precision <= SL_PRECISION_BF16; precision++) {
            OWNED(sl_settings_free) struct sl_settings settings;
            make_settings(model, &variants[0], &settings);
            struct sl_memory_run of = {.n_workers = 2};
            of.reach = reach_of(&settings, &dataset);
            need[precision] = sl_memory_need(&settings, &dataset, &of);
        }
        assert_int_equal(need[0].data - need[1].data, (sizeof(sl_real) - sizeof(sl_bf16)) * 100 * 3000);
        assert_true(need[1].training < 0.85 * (double)need[0].training);
        assert_true(need[1].evaluation < 0.85 * (double)need[0].evaluation);
        precision = SL_PRECISION_BF16;
        compare(&dataset, model, &variants[0]);
        precision = SL_PRECISION_FLOAT;
    }
    forget_partitions();
    sl_dataset_free(&dataset);
    assert_int_equal(sl_memory_live(), 0);
}

/* The same on the full graph, whether or not rows are computed again. */
TEST(test_pipe_bf16)
{
    static const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 3000, .n_columns = 100, .n_classes = 7, .seed = 5};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    for (int model = SL_MODEL_SAGE; model <= SL_MODEL_RESGCN; model++) {
        for (int recompute = 0; recompute < 2 && !attends(model); recompute++) {
            double rows[2];
            for (precision = SL_PRECISION_FLOAT; precision <= SL_PRECISION_BF16; precision++) {
                OWNED(sl_settings_free) struct sl_settings settings;
                make_settings(model, &variants[0], &settings);
                settings.schedule = SL_SCHEDULE_PIPE;
                settings.layers = 12;
                settings.hidden = 512; /* no handle is kept */
                settings.stages = 2;
                settings.ways = 1;
                settings.pes = settings.group_size = 8;
                settings.history_every = 1;
                settings.recompute = recompute;
                struct sl_memory_run of = {.n_workers = 2};
                rows[precision] = (double)sl_memory_need(&settings, &dataset, &of).training;
            }
            assert_true(rows[1] < 0.93 * rows[0] && rows[1] > 0.5 * rows[0]); /* partial gradients are the same */
        }
    }
    precision = SL_PRECISION_FLOAT;
}

#define N_DEEP 12 /* layers */
#define DEEP_WIDTH 512

/* Of a deep pipeline of 8 chunks in two stages, which are timed or cut as asked. */
static struct sl_memory_need deep_need(const struct sl_dataset *dataset, int model, bool timed)
{
    struct sl_settings settings;
    make_settings(model, &variants[0], &settings);
    settings.schedule = SL_SCHEDULE_PIPE;
    settings.layers = N_DEEP;
    settings.hidden = DEEP_WIDTH; /* no handle is kept */
    settings.stages = 2;
    settings.ways = 1;
    settings.pes = settings.group_size = 8;
    settings.epochs = 0; /* no history */
    settings.history_every = 1;
    settings.n_stages_cut = timed ? 0 : 1;
    settings.stages_cut[0] = N_DEEP / 2;
    struct sl_memory_run of = {.n_workers = 2};
    struct sl_memory_need need = sl_memory_need(&settings, dataset, &of);
    sl_settings_free(&settings);
    return need;
}

/* Stages that are cut evenly need what timed stages need. In an evaluation the sums that GCNII computes ahead are
 * there, of all layers. */
TEST(test_deep)
{
    static const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 3000, .n_columns = 100, .n_classes = 7, .seed = 5};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    for (precision = SL_PRECISION_FLOAT; precision <= SL_PRECISION_BF16; precision++) {
        const double row = precision == SL_PRECISION_BF16 ? sizeof(sl_bf16) : sizeof(sl_real);
        struct sl_memory_need timed = deep_need(&dataset, SL_MODEL_SAGE, true);
        struct sl_memory_need asked = deep_need(&dataset, SL_MODEL_SAGE, false);
        struct sl_memory_need begun = deep_need(&dataset, SL_MODEL_GCNII, true);
        assert_true(timed.training == asked.training);
        assert_true((double)begun.evaluation > (N_DEEP + 1) * row * DEEP_WIDTH * 3000);
        assert_true((double)timed.evaluation < 6 * sizeof(sl_real) * DEEP_WIDTH * 3000);
    }
    precision = SL_PRECISION_FLOAT;
}

/* With a --vertex-budget a step may come to as many links as have as many vertices. If the negatives' candidates are
 * fewer than the budget, all links may come together. */
TEST(test_link_budget)
{
    enum { N = 3000, N_LINKS = 20000, BUDGET = 2000, NEGATIVES = 2 };
    static const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = N, .n_columns = 4, .n_classes = 7, .seed = 5};
    static sl_vertex ends[2][N_LINKS];
    struct sl_link_ends few = {{0, 0}, {10, 10}};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_settings_free) struct sl_settings settings;
    make_dataset(&shape, &dataset);
    for (uint32_t i = 0; i < N_LINKS; i++) {
        ends[0][i] = i * 7 % 10;
        ends[1][i] = i * 11 % 10;
    }
    dataset.links.list[SL_LINKS_TRAIN] = (struct sl_links){.from = ends[0], .to = ends[1], .n = N_LINKS};
    make_settings(SL_MODEL_SAGE, &variants[0], &settings);
    settings.objective = SL_OBJECTIVE_LINK;
    settings.negatives = NEGATIVES;
    settings.fanout[0] = settings.fanout[1] = 1;
    settings.batch_size = 10;
    settings.group_size = 1;
    settings.vertex_budget = BUDGET;
    struct sl_reach most = reach_of(&settings, &dataset);
    uint32_t n_links = (uint32_t)(most.vertices[0] / (2 + NEGATIVES));
    settings.vertex_budget = 0;
    settings.batch_size = n_links;
    assert_true(n_links < N_LINKS && reach_of(&settings, &dataset).vertices[3] >= BUDGET);
    settings.batch_size = n_links / 2;
    assert_true(reach_of(&settings, &dataset).vertices[3] < 1.2 * BUDGET);
    settings.vertex_budget = BUDGET;
    dataset.links.n_relations = 1;
    dataset.links.ends = &few;
    assert_true(reach_of(&settings, &dataset).vertices[0] == (2 + NEGATIVES) * (double)N_LINKS);
    dataset.links = (struct sl_link_split){0};
}

/* The second of two ranks has nearly all edges, the first nearly none: known once parts are made. What neither
 * touches is the other's. */
TEST(test_ranks)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 3000, .n_columns = 24, .n_classes = 7};
    struct sl_plan plan = {
        .n_pes = 2, .n_parts = 2, .n_groups = 1, .n_replicas = 1, .n_ranks = 2, .rank = 1, .first_pe = 1, .end_pe = 2};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    OWNED(sl_settings_free) struct sl_settings settings;
    uint32_t parts[3000];
    make_dataset(&shape, &dataset);
    const uint64_t *offsets = dataset.graph.offsets;
    double average = (double)dataset.graph.n_edges / 3000;
    for (uint32_t v = 0; v < 3000; v++) {
        parts[v] = (double)(offsets[v + 1] - offsets[v]) > average / 3;
    }
    make_partition(&dataset.graph, 2, parts, &partition);
    make_settings(SL_MODEL_SAGE, &variants[0], &settings);
    uint64_t bytes = 4 * (partition.graph.n_edges - partition.graph.offsets[partition.first[1]]);
    uint64_t others = 4 * partition.graph.offsets[partition.first[1]];
    struct sl_memory_run of = {.reach = reach_of(&settings, &dataset), .n_workers = 2};
    uint64_t all = sl_memory_need(&settings, &dataset, &of).data;
    of.converts = true;
    of.plan = &plan;
    struct sl_memory_need even = sl_memory_need(&settings, &dataset, &of);
    of.partition = &partition;
    struct sl_memory_need full = sl_memory_need(&settings, &dataset, &of);
    plan = (struct sl_plan){.n_pes = 2, .n_parts = 2, .n_groups = 1, .n_replicas = 1, .n_ranks = 2, .end_pe = 1};
    struct sl_memory_need empty = sl_memory_need(&settings, &dataset, &of);
    double expected = 0.625 * (double)(bytes + others); /* of parts that are a quarter over the average */
    assert_true((double)bytes > 1.2 * expected && partition.first[1] < 3000 / 4);
    assert_true((double)(full.memory - even.memory) > (double)bytes - expected);
    assert_true(empty.memory < even.memory);
    assert_true(empty.untouched > bytes && full.untouched > others && empty.untouched > full.untouched);
    assert_true(empty.untouched < all && empty.memory + empty.untouched > all);
    settings.feature_cache = 100; /* rows of each PE, however few vertices its part has */
    struct sl_memory_need cached = sl_memory_need(&settings, &dataset, &of);
    double caches = 1.0 * 100 * (sizeof(sl_real) * shape.n_columns + 16);
    assert_true(fabs((double)(cached.memory - empty.memory) - caches) <= 2 && cached.untouched == empty.untouched);
}

/* Of two ranks with a stage each the one that has more layers needs more, and that is what both are said to need. */
TEST(test_crews)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 3000, .n_columns = 24, .n_classes = 7};
    struct sl_plan plan = {
        .n_pes = 8, .n_parts = 4, .n_groups = 2, .n_replicas = 1, .n_ranks = 2, .n_ways = 1, .n_crews = 2, .end_pe = 4};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_memory_run of = {.n_workers = 2, .converts = true, .plan = &plan};
    OWNED(sl_settings_free) struct sl_settings settings;
    uint64_t bytes[2];
    make_dataset(&shape, &dataset);
    make_settings(SL_MODEL_RESGCN, &variants[0], &settings);
    settings.schedule = SL_SCHEDULE_PIPE;
    settings.layers = 8;
    settings.stages = 2;
    settings.ways = 1;
    settings.pes = 4;
    settings.history_every = 1;
    settings.n_stages_cut = 1;
    for (uint32_t uneven = 0; uneven < 2; uneven++) {
        settings.stages_cut[0] = uneven ? 1 : 4;
        bytes[uneven] = sl_memory_need(&settings, &dataset, &of).memory;
    }
    uint64_t row =
        sizeof(sl_real) * 3000 * settings.hidden; /* seven layers' share of output, sums and history, not four's */
    assert_true(bytes[1] > bytes[0] + 3 * row);
}

int main(void)
{
    return wants_gpu() ? 77 : run_listed_tests(NULL, NULL);
}
