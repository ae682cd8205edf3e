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

/* Vertices that stay. */
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

/* ---- policies by the book ---- */

struct entry {
    uint32_t vertex, slot, hits;
    bool joined; /* the main queue in this step */
};

struct queue {
    uint32_t n;
    struct entry *at; /* the oldest first; of lru, in order of use; of clock, by slot */
};

/* main: the only queue of all but s3-fifo. wanted: by vertex, whether it is in the frontier. */
struct book {
    enum sl_row_cache_policy policy;
    uint32_t n_slots, tenth, n_used, hand, n_freed;
    bool in_main; /* s3-fifo: the main queue gives way in this step */
    uint32_t *freed;
    uint8_t *wanted;
    struct queue small, main, ghost;
};

static struct entry take(struct queue *queue, uint32_t i)
{
    struct entry entry = queue->at[i];
    memmove(queue->at + i, queue->at + i + 1, (--queue->n - i) * sizeof entry);
    return entry;
}

static struct entry *find(const struct queue *queue, uint32_t vertex)
{
    for (uint32_t i = 0; i < queue->n; i++) {
        if (queue->at[i].vertex == vertex) {
            return &queue->at[i];
        }
    }
    return NULL;
}

static int by_slot(const void *a, const void *b)
{
    return (int)((const struct entry *)a)->slot - (int)((const struct entry *)b)->slot;
}

/* Rows that joined the main queue in one step are ordered by slot. */
static void order_joined(struct queue *main)
{
    uint32_t n = 0;
    while (n < main->n && main->at[main->n - 1 - n].joined) {
        n++;
    }
    qsort(main->at + main->n - n, n, sizeof *main->at, by_slot);
}

/* S3-FIFO, algorithm 1: a turn of EVICTS, if the small queue has a tenth, else of EVICTM. Rows of the frontier stay. */
static void pop_s3(struct book *b)
{
    const bool full = b->small.n >= b->tenth;
    bool stuck = !full; /* the frontier has all rows of the main queue */
    for (uint32_t i = 0; i < b->main.n; i++) {
        stuck &= b->wanted[b->main.at[i].vertex];
    }
    for (uint32_t i = 0; stuck && i < b->main.n; i++) {
        b->main.at[i].hits = 0;
        b->main.at[i].joined = true;
    }
    if (!full && !b->in_main) {
        order_joined(&b->main);
        b->in_main = true;
    }
    const bool small = full || stuck;
    struct entry e = take(small ? &b->small : &b->main, 0);
    if (b->wanted[e.vertex] || (full && e.hits > 1) || (!small && e.hits > 0)) {
        e.hits = small || e.hits == 0 ? 0 : e.hits - 1;
        e.joined = true;
        b->main.at[b->main.n++] = e;
        return;
    }
    b->freed[b->n_freed++] = e.slot;
    if (small) {
        b->ghost.at[b->ghost.n++] = e;
    }
}

/* The hand looks at one row. */
static void pass_hand(struct book *b)
{
    b->hand = b->hand == b->main.n ? 0 : b->hand;
    struct entry *e = &b->main.at[b->hand];
    if (e->vertex == SL_NONE || (e->hits > 0 && b->policy != SL_ROW_CACHE_LRU) || b->wanted[e->vertex]) {
        e->hits = 0;
        b->hand++;
        return;
    }
    b->freed[b->n_freed++] = e->slot;
    if (b->policy == SL_ROW_CACHE_CLOCK) {
        e->vertex = SL_NONE;
        b->hand++;
    } else {
        take(&b->main, b->hand);
    }
}
/* Missing row j of the step takes its slot. */
static void enter(struct book *b, uint32_t vertex, uint32_t slot, bool ghost)
{
    struct entry e = {vertex, slot, b->policy == SL_ROW_CACHE_CLOCK, ghost};
    struct queue *queue = b->policy == SL_ROW_CACHE_S3_FIFO && !ghost ? &b->small : &b->main;
    if (b->policy == SL_ROW_CACHE_CLOCK) {
        b->main.at[slot] = e;
        b->main.n += slot == b->main.n;
    } else {
        queue->at[queue->n++] = e;
    }
}

static int by_number(const void *a, const void *b)
{
    return (int)*(const uint32_t *)a - (int)*(const uint32_t *)b;
}

/* The slots that the frontier's missing rows may take: those that never had a row, then those that give way. */
static void make_room(struct book *b, uint32_t n)
{
    const uint32_t n_ghosts = b->ghost.n;
    b->n_freed = 0;
    b->in_main = false;
    while (b->n_freed < n) {
        if (b->n_used < b->n_slots) {
            b->freed[b->n_freed++] = b->n_used++;
        } else if (b->policy == SL_ROW_CACHE_S3_FIFO) {
            pop_s3(b);
        } else {
            pass_hand(b);
        }
    }
    b->hand = b->hand == b->main.n ? 0 : b->hand;
    qsort(b->freed, n, sizeof *b->freed, by_number);
    qsort(b->ghost.at + n_ghosts, b->ghost.n - n_ghosts, sizeof *b->ghost.at, by_slot);
}

/* Returns the hits. */
static uint32_t book_want(struct book *b, uint32_t n_part, uint32_t n, const sl_vertex *ids)
{
    FREED uint32_t *missing = need(n, sizeof *missing);
    FREED bool *ghosts = need(n, sizeof *ghosts);
    const uint32_t most = b->policy == SL_ROW_CACHE_S3_FIFO ? 3 : 1;
    uint32_t n_missing = 0;
    memset(b->wanted, 0, n_part);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t vertex = ids[i] - FIRST;
        struct entry *e = find(&b->main, vertex);
        e = e == NULL ? find(&b->small, vertex) : e;
        b->wanted[vertex] = 1;
        if (e != NULL) {
            e->hits += e->hits < most;
        } else {
            ghosts[n_missing] = find(&b->ghost, vertex) != NULL;
            missing[n_missing++] = vertex;
        }
    }
    const uint32_t n_free = b->n_slots - (n - n_missing);
    const uint32_t n_entering = n_missing < n_free ? n_missing : n_free;
    make_room(b, n_entering);
    for (uint32_t j = 0; j < n_entering; j++) {
        if (ghosts[j]) {
            find(&b->ghost, missing[j])->vertex = SL_NONE;
        }
        enter(b, missing[j], b->freed[j], ghosts[j]);
    }
    while (b->ghost.n > b->n_slots - b->tenth) {
        take(&b->ghost, 0);
    }
    for (uint32_t i = 0; i < n && b->policy == SL_ROW_CACHE_LRU; i++) {
        struct entry *e = find(&b->main, ids[i] - FIRST);
        if (e != NULL) {
            struct entry last = take(&b->main, (uint32_t)(e - b->main.at));
            b->main.at[b->main.n++] = last;
        }
    }
    b->hand = b->policy == SL_ROW_CACHE_LRU ? 0 : b->hand;
    order_joined(&b->main);
    for (uint32_t i = 0; i < b->main.n; i++) {
        b->main.at[i].joined = false;
    }
    return n - n_missing;
}

static void check_book(enum sl_row_cache_policy policy, uint32_t n_part, uint32_t n_slots, uint32_t n_most)
{
    OWNED(free_case) struct case_ c = make_case(n_part, n_slots);
    struct book b = {.policy = policy, .n_slots = n_slots, .tenth = (n_slots + 9) / 10};
    struct entry *entries = need(4 * n_part, sizeof *entries);
    uint64_t n_hits = 0;
    b.small.at = entries;
    b.main.at = entries + n_part;
    b.ghost.at = entries + 2 * n_part;
    b.freed = need(n_slots, sizeof *b.freed);
    b.wanted = need(n_part, 1);
    sl_row_cache_fill_cpu(&c.cache, n_part, 0, NULL, c.table);
    for (uint64_t step = 0; step < (n_most == 1 ? 3000 : 60); step++) {
        uint32_t n = step == 7 ? 0 : draw_frontier(&c, step, n_most);
        sl_row_cache_want_cpu(&c.cache, policy, step, n, c.ids, FIRST, c.table, &c.tally);
        n_hits += book_want(&b, n_part, n, c.ids);
        assert_int_equal(c.tally.hits, n_hits);
        for (uint32_t v = 0; v < n_part; v++) {
            const struct entry *e = find(&b.main, v);
            e = e == NULL ? find(&b.small, v) : e;
            const uint32_t s = c.cache.slot_of[v];
            assert_int_equal(s < n_slots, e != NULL);
            assert_true(e == NULL || (e->slot == s && c.cache.slot[s].vertex == v));
            assert_true(e == NULL || memcmp(c.cache.rows + (size_t)s * COLUMNS, c.table + (size_t)v * COLUMNS,
                                            COLUMNS * sizeof(sl_real)) == 0);
        }
    }
    assert_true(n_hits > 0);
    free(entries);
    free(b.freed);
    free(b.wanted);
}

TEST(policies)
{
    for (int policy = 0; policy < SL_N_ROW_CACHE_POLICIES; policy++) {
        if (policy == SL_ROW_CACHE_DEGREE) {
            continue;
        }
        check_book(policy, 200, 50, 1); /* one request after the other, as published */
        check_book(policy, 200, 50, 30);
        check_book(policy, 200, 50, 300);
        check_book(policy, 200, 200, 60);
        check_book(policy, 40, 1, 10);
        check_book(policy, 1500, 700, 400);
    }
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
    assert_memory_equal(&c.tally, &wanted.tally, sizeof c.tally);
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
        {SL_ROW_CACHE_S3_FIFO, 0, 200, 50, 40, 0, 0.3},
        {SL_ROW_CACHE_S3_FIFO, 3, 3000, 1200, 900, 0, 0},
        {SL_ROW_CACHE_SIEVE, 0, 200, 50, 40, 7, 0},
        {SL_ROW_CACHE_SIEVE, 3, 3000, 1200, 900, 0, 0},
        {SL_ROW_CACHE_CLOCK, 0, 200, 50, 300, 0, 0},
        {SL_ROW_CACHE_CLOCK, 3, 3000, 1200, 900, 0, 0},
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
