/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/row_cache.h: what is kept and what gives way, against a list in order of use; and gather through it. */
#include "codelets/row_cache.h"

#include "codelets/dropout.h"
#include "codelets/gather.h"
#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

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
    uint8_t *taken = need(c->n_part, 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_most; i++) {
        double u = (noise(70 + step, i) + 1) / 2;
        uint32_t vertex = (uint32_t)(u * u * c->n_part);
        if (!taken[vertex]) {
            taken[vertex] = 1;
            c->ids[n++] = FIRST + vertex;
        }
    }
    free(taken);
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
    struct case_ c = make_case(n_part, n_slots);
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
    free_case(&c);
}

static void test_lru(void **state)
{
    (void)state;
    check_lru(200, 50, 30);
    check_lru(200, 50, 300); /* frontiers larger than the cache */
    check_lru(200, 200, 60); /* all fit */
    check_lru(40, 1, 10);
    check_lru(6000, 3000, 900);
    check_lru(50, 10, 0);
}

/* Most used vertices stay, whatever is wanted. */
static void test_degree(void **state)
{
    (void)state;
    struct case_ c = make_case(90, 20);
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
    free_case(&c);
}

#ifdef SL_CUDA
/* Step by step the same cache as on the CPU, slot for slot; its rows are of n_columns of bf16, at most COLUMNS of
 * sl_real; 0: of these. */
static void check_launchers(enum sl_row_cache_policy policy, uint64_t first_step, uint32_t n_part, uint32_t n_slots,
                            uint32_t n_most, uint32_t n_columns)
{
    struct case_ c = make_case(n_part, n_slots);
    if (n_columns > 0) {
        c.cache.n_columns = n_columns;
        c.cache.element = sizeof(sl_bf16);
    }
    struct sl_row_cache cache = c.cache;
    size_t row_bytes = n_columns > 0 ? n_columns * sizeof(sl_bf16) : COLUMNS * sizeof(sl_real);
    size_t table_bytes = n_part * row_bytes;
    uint32_t n_fixed = policy == SL_ROW_CACHE_DEGREE ? n_slots / 2 : 0;
    uint32_t *vertices = need(n_slots, sizeof *vertices);
    uint32_t *slot_of = need(n_part, sizeof *slot_of);
    struct sl_row_cache_slot *slots = need(n_slots, sizeof *slots);
    char *rows = need(n_slots, row_bytes);
    struct sl_row_cache_tally tally = {0};
    sl_real *table;
    for (uint32_t s = 0; s < n_fixed; s++) {
        vertices[s] = (s * 7 + 1) % n_part;
    }
    assert_int_equal(cudaMallocHost((void **)&table, table_bytes), cudaSuccess);
    memcpy(table, c.table, table_bytes);
    cache.slot_of = device_room(n_part * sizeof *slot_of);
    cache.slot = device_room(n_slots * sizeof *slots);
    cache.rows = device_room(n_slots * row_bytes);
    uint32_t *fixed = on_device(vertices, n_slots * sizeof *vertices);
    struct sl_row_cache_tally *tally_on_device = on_device(&tally, sizeof tally);
    sl_row_cache_fill_cpu(&c.cache, n_part, n_fixed, vertices, c.table);
    expect_launched(sl_row_cache_fill_cuda(NULL, &cache, n_part, n_fixed, fixed, table));
    for (uint64_t step = first_step; step < first_step + 8; step++) {
        uint32_t n = step == first_step + 3 ? 0 : draw_frontier(&c, step, n_most);
        sl_vertex *ids = on_device(c.ids, n * sizeof *ids);
        sl_row_cache_want_cpu(&c.cache, policy, step, n, c.ids, FIRST, c.table, &c.tally);
        expect_launched(sl_row_cache_want_cuda(NULL, &cache, policy, step, n, ids, FIRST, table, tally_on_device));
        cudaFree(ids);
    }
    from_device(slot_of, cache.slot_of, n_part * sizeof *slot_of);
    from_device(slots, cache.slot, n_slots * sizeof *slots);
    from_device(rows, cache.rows, n_slots * row_bytes);
    from_device(&tally, tally_on_device, sizeof tally);
    expect_same("slot of", n_part, sizeof *slot_of, slot_of, c.cache.slot_of);
    for (uint32_t s = 0; s < n_slots; s++) {
        assert_int_equal(slots[s].wanted, c.cache.slot[s].wanted);
        assert_int_equal(slots[s].vertex, c.cache.slot[s].vertex);
        if (slots[s].vertex != SL_NONE) {
            assert_memory_equal(rows + s * row_bytes, (char *)c.table + slots[s].vertex * row_bytes, row_bytes);
        }
    }
    assert_int_equal(tally.rows, c.tally.rows);
    assert_int_equal(tally.hits, c.tally.hits);
    cudaFree(fixed);
    cudaFreeHost(table);
    free(vertices);
    free(slot_of);
    free(slots);
    free(rows);
    free_case(&c);
}

static void test_launcher(void **state)
{
    (void)state;
    need_device();
    check_launchers(SL_ROW_CACHE_LRU, 0, 200, 50, 30, 0);
    check_launchers(SL_ROW_CACHE_LRU, 0, 200, 50, 300, 0);
    check_launchers(SL_ROW_CACHE_LRU, 0, 3000, 1200, 900, 0);
    check_launchers(SL_ROW_CACHE_LRU, 4091, 3000, 1200, 900,
                    0); /* the times of wanting get one more digit on the way */
    check_launchers(SL_ROW_CACHE_LRU, UINT32_MAX - 20, 200, 50, 30, 0);
    check_launchers(SL_ROW_CACHE_LRU, 0, 40, 1, 10, 0);
    check_launchers(SL_ROW_CACHE_DEGREE, 0, 200, 50, 100, 0);
    check_launchers(SL_ROW_CACHE_LRU, 0, 200, 50, 30, 7);
    check_launchers(SL_ROW_CACHE_DEGREE, 0, 200, 50, 100, 8);
}
#endif

/* ---- submissions ---- */

static struct sl_row_cache_handles handles_of(const struct case_ *c, struct sl_row_cache_tally *tally)
{
    return (struct sl_row_cache_handles){
        .slot_of = vector_of(c->cache.slot_of, c->n_part, sizeof *c->cache.slot_of),
        .slots = vector_of(c->cache.slot, c->n_slots, sizeof *c->cache.slot),
        .rows = rows_of(c->cache.rows, c->n_slots, COLUMNS),
        .tally = vector_of(tally, 1, sizeof *tally),
    };
}

/* Tasks give what the kernels give, and gather the same rows with and without the cache. */
static void check_submissions(enum sl_row_cache_policy policy, double dropout)
{
    struct case_ c = make_case(120, 25);
    struct case_ wanted = make_case(120, 25);
    uint32_t vertices[] = {3, 119, 0, 7, 8, 9, 1, 2, 50};
    uint32_t n_fixed = policy == SL_ROW_CACHE_DEGREE ? 9 : 0;
    sl_vertex *dataset_ids = need(FIRST + 120, sizeof *dataset_ids);
    sl_real *x = poisoned((size_t)120 * COLUMNS);
    sl_real *plain = poisoned((size_t)120 * COLUMNS);
    struct sl_row_cache_handles cache = handles_of(&c, &c.tally);
    bool pinned = starpu_memory_pin(c.table, 120 * COLUMNS * sizeof *c.table) == 0;
    assert_true(pinned || !fixture_on_gpu); /* a GPU reads it there; without one CUDA refuses */
    starpu_data_handle_t table = rows_of(c.table, 120, COLUMNS);
    starpu_data_handle_t fixed = vector_of(vertices, 9, sizeof *vertices);
    starpu_data_handle_t all_ids = vector_of(dataset_ids, FIRST + 120, sizeof *dataset_ids);
    for (uint32_t v = 0; v < FIRST + 120; v++) {
        dataset_ids[v] = v * 3 + 1;
    }
    sl_row_cache_fill_cpu(&wanted.cache, 120, n_fixed, vertices, wanted.table);
    expect_ok(sl_row_cache_fill_submit(&head, &cache, n_fixed, n_fixed > 0 ? fixed : NULL, table));
    for (uint64_t step = 0; step < 6; step++) {
        struct sl_task_args now = head;
        now.step = step;
        uint32_t n = draw_frontier(&c, step, 60);
        struct sl_feature_rows rows = {
            .n_columns = COLUMNS,
            .dtype = SL_DTYPE_REAL,
            .table = c.table,
            .first = FIRST,
            .ids = c.ids,
            .threshold = sl_dropout_threshold(dropout),
            .draw = {.seed = 4, .step = step, .purpose = SL_FOR_DROPOUT, .hop = head.hop},
            .dataset_ids = dataset_ids,
        };
        starpu_data_handle_t frontier = vector_of(c.ids, n, sizeof *c.ids);
        starpu_data_handle_t out = rows_of(x, n, COLUMNS);
        sl_row_cache_want_cpu(&wanted.cache, policy, step, n, c.ids, FIRST, wanted.table, &wanted.tally);
        sl_gather_cpu(&rows, n, plain);
        struct sl_feature_handles features = {.table = table,
                                              .dtype = SL_DTYPE_REAL,
                                              .first = FIRST,
                                              .frontier = frontier,
                                              .cache = &cache,
                                              .dropout = dropout,
                                              .seed = 4,
                                              .dataset_ids = all_ids};
        expect_ok(sl_row_cache_want_submit(&now, &cache, policy, n, frontier, FIRST, table));
        expect_ok(sl_gather_submit(&now, &features, 0, out));
        starpu_data_unregister(out);
        starpu_data_unregister(frontier);
        expect_same("X", (size_t)n * COLUMNS, sizeof *x, x, plain);
    }
    const starpu_data_handle_t handles[] = {cache.slot_of, cache.slots, cache.rows, cache.tally, table, fixed, all_ids};
    UNREGISTER(handles);
    expect_no_failure();
    assert_int_equal(c.tally.rows, wanted.tally.rows);
    assert_int_equal(c.tally.hits, wanted.tally.hits);
    expect_same("slot of", 120, sizeof *c.cache.slot_of, c.cache.slot_of, wanted.cache.slot_of);
    expect_same("slots", 25, sizeof *c.cache.slot, c.cache.slot, wanted.cache.slot);
    if (pinned) {
        starpu_memory_unpin(c.table, 120 * COLUMNS * sizeof *c.table);
    }
    free(x);
    free(plain);
    free(dataset_ids);
    free_case(&c);
    free_case(&wanted);
}

static void test_submissions(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        check_submissions(SL_ROW_CACHE_LRU, 0);
        check_submissions(SL_ROW_CACHE_LRU, 0.3);
        check_submissions(SL_ROW_CACHE_DEGREE, 0);
        fixture_stop();
    }
}

static void test_failure(void **state)
{
    (void)state;
    fixture_start(1);
    struct case_ c = make_case(30, 8);
    struct sl_row_cache_handles cache = handles_of(&c, &c.tally);
    starpu_data_handle_t table = rows_of(c.table, 30, COLUMNS);
    fixture_fail(); /* from here on nothing is done */
    c.cache.slot_of[2] = 77;
    expect_ok(sl_row_cache_fill_submit(&head, &cache, 0, NULL, table));
    const starpu_data_handle_t handles[] = {cache.slot_of, cache.slots, cache.rows, cache.tally, table};
    UNREGISTER(handles);
    expect_unwritten("slots", 1, sizeof c.cache.slot_of[2], &c.cache.slot_of[2], &(uint32_t){77});
    free_case(&c);
    fixture_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lru),         cmocka_unit_test(test_degree),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),
#endif
        cmocka_unit_test(test_submissions), cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
