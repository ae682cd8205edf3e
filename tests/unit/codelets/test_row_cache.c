/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/row_cache.h: what is kept and what gives way, against a list in order of use; and gather through it. */
#include "codelets/rows/row_cache.h"

#include "codelets/rows/dropout.h"
#include "codelets/rows/gather.h"
#include "tests/support/starpu_fixture.h"

#define FIRST 500
#define COLUMNS 5

/* A cache over the test's own memory, and the table behind it. */
struct case_ {
    uint32_t n_part, n_slots;
    sl_real *table;
    struct sl_row_cache cache;
    struct sl_row_cache_tally tally;
    sl_vertex *ids; /* a frontier */
};

static struct case_ make_case(uint32_t n_part, uint32_t n_slots)
{
    struct case_ c = {.n_part = n_part, .n_slots = n_slots};
    c.table = noisy((size_t)n_part * COLUMNS, 3);
    c.ids = need(n_part, sizeof *c.ids);
    c.cache = (struct sl_row_cache){.n_slots = n_slots, .n_columns = COLUMNS, .element = sizeof(sl_real)};
    c.cache.slot_of = need(n_part, sizeof *c.cache.slot_of);
    c.cache.slot = need(n_slots, sizeof *c.cache.slot);
    c.cache.rows = poisoned((size_t)n_slots * COLUMNS);
    return c;
}

static void free_case(struct case_ *c)
{
    free(c->table);
    free(c->ids);
    free(c->cache.slot_of);
    free(c->cache.slot);
    free(c->cache.rows);
}

/* A frontier of distinct vertices that depends on the step, drawn more often from the first ones. Returns its size. */
static uint32_t draw_frontier(struct case_ *c, uint64_t step, uint32_t n_most)
{
    FREED uint8_t *taken = need(c->n_part, 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_most; i++) {
        double u = (noise(70 + step, i) + 1) / 2;
        uint32_t vertex = (uint32_t)(u * u * c->n_part);
        if (!taken[vertex]) {
            taken[vertex] = 1;
            c->ids[n++] = FIRST + vertex;
        }
    }
    return n;
}

/* The cache by the book: vertices in order of use, the latest last. */
struct list {
    uint32_t n, n_slots;
    uint32_t *vertex;
};

static uint32_t list_find(const struct list *list, uint32_t vertex)
{
    uint32_t i = 0;
    while (i < list->n && list->vertex[i] != vertex) {
        i++;
    }
    return i;
}

static void list_remove(struct list *list, uint32_t i)
{
    memmove(list->vertex + i, list->vertex + i + 1, (list->n - i - 1) * sizeof *list->vertex);
    list->n--;
}

/* Returns the hits. Rows are in use together: first those that are there move to the end, then the others push out
 * what is at the front, as long as that is not of this frontier; last, all of the frontier that are there are in
 * its order. */
static uint32_t list_want(struct list *list, uint32_t n, const sl_vertex *ids)
{
    uint32_t n_hits = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = list_find(list, ids[i] - FIRST);
        if (at < list->n) {
            list_remove(list, at);
            list->vertex[list->n++] = ids[i] - FIRST;
            n_hits++;
        }
    }
    uint32_t n_old = list->n - n_hits; /* at the front: not of this frontier */
    uint32_t n_free = list->n_slots - list->n;
    for (uint32_t i = 0; i < n && (n_free > 0 || n_old > 0); i++) {
        if (list_find(list, ids[i] - FIRST) < list->n) {
            continue;
        }
        if (n_free > 0) {
            n_free--;
        } else {
            list_remove(list, 0);
            n_old--;
        }
        list->vertex[list->n++] = ids[i] - FIRST;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = list_find(list, ids[i] - FIRST);
        if (at < list->n) {
            list_remove(list, at);
            list->vertex[list->n++] = ids[i] - FIRST;
        }
    }
    return n_hits;
}

/* The cache holds exactly the list's vertices, with their rows, and its two tables agree. */
static void expect_list(const struct case_ *c, const struct list *list)
{
    uint32_t n_held = 0;
    for (uint32_t v = 0; v < c->n_part; v++) {
        uint32_t s = c->cache.slot_of[v];
        assert_int_equal(s != SL_NONE, list_find(list, v) < list->n);
        if (s != SL_NONE) {
            assert_true(s < c->n_slots);
            assert_int_equal(c->cache.slot[s].vertex, v);
            assert_memory_equal(c->cache.rows + (size_t)s * COLUMNS, c->table + (size_t)v * COLUMNS,
                                COLUMNS * sizeof(sl_real));
            n_held++;
        }
    }
    assert_int_equal(n_held, list->n);
    for (uint32_t s = 0; s < c->n_slots; s++) {
        assert_true(c->cache.slot[s].vertex == SL_NONE || c->cache.slot_of[c->cache.slot[s].vertex] == s);
    }
}

static void check_lru(uint32_t n_part, uint32_t n_slots, uint32_t n_most)
{
    OWNED(free_case) struct case_ c = make_case(n_part, n_slots);
    struct list list = {.n_slots = n_slots, .vertex = need(n_slots + 1, sizeof *list.vertex)};
    uint64_t n_rows = 0;
    uint64_t n_hits = 0;
    sl_row_cache_fill_cpu(&c.cache, n_part, 0, NULL, c.table);
    for (uint64_t step = 0; step < 40; step++) {
        uint32_t n = step == 7 ? 0 : draw_frontier(&c, step, n_most);
        sl_row_cache_want_cpu(&c.cache, SL_ROW_CACHE_LRU, step, n, c.ids, FIRST, c.table, &c.tally);
        n_rows += n;
        n_hits += list_want(&list, n, c.ids);
        expect_list(&c, &list);
    }
    assert_int_equal(c.tally.rows, n_rows);
    assert_int_equal(c.tally.hits, n_hits);
    assert_true(n_most == 0 || n_hits > 0);
    free(list.vertex);
}

TEST(lru)
{
    check_lru(200, 50, 30);
    check_lru(200, 50, 300); /* frontiers larger than the cache */
    check_lru(200, 200, 60); /* all fit */
    check_lru(40, 1, 10);
    check_lru(6000, 3000, 900);
    check_lru(50, 10, 0);
}

/* Most used vertices stay, whatever is wanted. */
TEST(degree)
{
    OWNED(free_case) struct case_ c = make_case(90, 20);
    uint32_t vertices[20];
    struct list list = {.n = 20, .n_slots = 20, .vertex = vertices};
    uint32_t n_hits = 0;
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < 20; i++) {
        vertices[i] = (i * 37 + 11) % 90;
    }
    sl_row_cache_fill_cpu(&c.cache, 90, 20, vertices, c.table);
    for (uint64_t step = 0; step < 5; step++) {
        uint32_t n = draw_frontier(&c, step, 60);
        for (uint32_t i = 0; i < n; i++) {
            n_hits += list_find(&list, c.ids[i] - FIRST) < 20;
        }
        n_rows += n;
        sl_row_cache_want_cpu(&c.cache, SL_ROW_CACHE_DEGREE, step, n, c.ids, FIRST, c.table, &c.tally);
        expect_list(&c, &list);
    }
    assert_int_equal(c.tally.rows, n_rows);
    assert_int_equal(c.tally.hits, n_hits);
}

/* ---- tasks ---- */

/* What a cache is for. bf16_columns: its rows have so many columns of bf16; 0: COLUMNS of sl_real. */
struct use {
    enum sl_row_cache_policy policy;
    uint64_t first_step;
    uint32_t n_part, n_slots, n_most, bf16_columns;
    double dropout;
};

/* Gather the frontier's rows through the cache. They are those of the table. */
static void check_gather(const struct use *use, const struct case_ *c, const struct sl_row_cache_handles *cache,
                         starpu_data_handle_t table, starpu_data_handle_t frontier, uint32_t n, uint64_t step)
{
    FREED sl_vertex *dataset_ids = need(FIRST + use->n_part, sizeof *dataset_ids);
    FREED sl_real *x = poisoned((size_t)n * COLUMNS);
    FREED sl_real *plain = poisoned((size_t)n * COLUMNS);
    struct sl_task_args now = head;
    for (uint32_t v = 0; v < FIRST + use->n_part; v++) {
        dataset_ids[v] = v * 3 + 1;
    }
    starpu_data_handle_t h[] = {vector_of(dataset_ids, FIRST + use->n_part, sizeof *dataset_ids),
                                rows_of(x, n, COLUMNS)};
    const struct sl_feature_handles features = {.table = table,
                                                .first = FIRST,
                                                .frontier = frontier,
                                                .cache = cache,
                                                .dropout = use->dropout,
                                                .seed = 4,
                                                .dataset_ids = h[0]};
    const struct sl_feature_rows rows = {
        .n_columns = COLUMNS,
        .dtype = SL_DTYPE_REAL,
        .table = c->table,
        .first = FIRST,
        .ids = c->ids,
        .threshold = sl_dropout_threshold(use->dropout),
        .draw = {.seed = 4, .step = step, .purpose = SL_FOR_DROPOUT, .hop = head.hop},
        .dataset_ids = dataset_ids,
    };
    now.step = step;
    expect_ok(sl_gather_submit(&now, &features, 0, h[1]));
    UNREGISTER(h);
    sl_gather_cpu(&rows, n, SL_DTYPE_REAL, plain);
    expect_same("X", (size_t)n * COLUMNS, sizeof *x, x, plain);
}

/* Step by step the kernels' cache, slot for slot. */
static void check_tasks(const struct use *use)
{
    struct case_ c = make_case(use->n_part, use->n_slots), wanted = make_case(use->n_part, use->n_slots);
    const uint32_t n_columns = use->bf16_columns > 0 ? use->bf16_columns : COLUMNS;
    const enum sl_dtype dtype = use->bf16_columns > 0 ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
    const size_t row_bytes = sl_dtype_bytes(dtype, n_columns), table_bytes = use->n_part * row_bytes;
    const uint32_t n_fixed = use->policy == SL_ROW_CACHE_DEGREE ? use->n_slots / 2 : 0;
    FREED uint32_t *vertices = need(use->n_slots, sizeof *vertices);
    const bool pinned = starpu_memory_pin(c.table, table_bytes) == 0;
    assert_true(pinned || !fixture_on_gpu); /* a GPU reads it there; without one CUDA refuses */
    for (uint32_t i = 0; i < use->n_slots; i++) {
        vertices[i] = (i * 7 + 1) % use->n_part;
    }
    wanted.cache.n_columns = n_columns;
    wanted.cache.element = (uint32_t)sl_dtype_size(dtype);
    struct sl_row_cache_handles cache = {
        .slot_of = vector_of(c.cache.slot_of, use->n_part, sizeof *c.cache.slot_of),
        .slots = vector_of(c.cache.slot, use->n_slots, sizeof *c.cache.slot),
        .rows = sl_matrix_over(c.cache.rows, use->n_slots, n_columns, dtype),
        .tally = vector_of(&c.tally, 1, sizeof c.tally),
    };
    starpu_data_handle_t table = sl_matrix_over(c.table, use->n_part, n_columns, dtype);
    starpu_data_handle_t fixed = vector_of(vertices, use->n_slots, sizeof *vertices);
    sl_row_cache_fill_cpu(&wanted.cache, use->n_part, n_fixed, vertices, wanted.table);
    expect_ok(sl_row_cache_fill_submit(&head, &cache, n_fixed, n_fixed > 0 ? fixed : NULL, table));
    for (uint64_t step = use->first_step; step < use->first_step + 8; step++) {
        struct sl_task_args now = head;
        const uint32_t n = draw_frontier(&c, step, use->n_most);
        starpu_data_handle_t frontier = vector_of(c.ids, n, sizeof *c.ids);
        now.step = step;
        sl_row_cache_want_cpu(&wanted.cache, use->policy, step, n, c.ids, FIRST, wanted.table, &wanted.tally);
        expect_ok(sl_row_cache_want_submit(&now, &cache, use->policy, n, frontier, FIRST, table));
        if (use->bf16_columns == 0) {
            check_gather(use, &c, &cache, table, frontier, n, step);
        }
        starpu_data_unregister(frontier);
    }
    const starpu_data_handle_t handles[] = {cache.slot_of, cache.slots, cache.rows, cache.tally, table, fixed};
    UNREGISTER(handles);
    expect_no_failure();
    assert_int_equal(c.tally.rows, wanted.tally.rows);
    assert_int_equal(c.tally.hits, wanted.tally.hits);
    expect_same("slot of", use->n_part, sizeof *c.cache.slot_of, c.cache.slot_of, wanted.cache.slot_of);
    expect_same("slots", use->n_slots, sizeof *c.cache.slot, c.cache.slot, wanted.cache.slot);
    for (uint32_t s = 0; s < use->n_slots; s++) {
        const uint32_t vertex = c.cache.slot[s].vertex;
        const char *row = (const char *)c.cache.rows + s * row_bytes;
        assert_true(vertex == SL_NONE || memcmp(row, (char *)c.table + vertex * row_bytes, row_bytes) == 0);
    }
    if (pinned) {
        starpu_memory_unpin(c.table, table_bytes);
    }
    free_case(&c);
    free_case(&wanted);
}

TEST(tasks)
{
    static const struct use uses[] = {
        {SL_ROW_CACHE_LRU, 0, 200, 50, 30, 0, 0},
        {SL_ROW_CACHE_LRU, 0, 200, 50, 300, 0, 0.3},
        {SL_ROW_CACHE_LRU, 4091, 3000, 1200, 900, 0, 0}, /* the times of wanting get one more digit on the way */
        {SL_ROW_CACHE_LRU, UINT32_MAX - 20, 200, 50, 30, 0, 0},
        {SL_ROW_CACHE_LRU, 0, 40, 1, 10, 0, 0},
        {SL_ROW_CACHE_DEGREE, 0, 200, 50, 100, 0, 0},
        {SL_ROW_CACHE_LRU, 0, 200, 50, 30, 7, 0},
        {SL_ROW_CACHE_DEGREE, 0, 200, 50, 100, 8, 0},
    };
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
            check_tasks(&uses[i]);
        }
        fixture_stop();
    }
}

TEST_MAIN(NULL, NULL)
