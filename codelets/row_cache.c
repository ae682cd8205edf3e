/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A selection finds the slots to replace, instead of a list in order of use: a GPU cannot keep such a list, and CPU
 * and GPU must replace the same slots. */
#include "codelets/row_cache.h"

#include <assert.h>
#include <string.h>

#include "support/minmax.h"
#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

static inline void load_row(const struct sl_row_cache *cache, uint32_t s, uint32_t vertex, const sl_real *table)
{
    size_t bytes = (size_t)cache->n_columns * cache->element;
    memcpy((char *)cache->rows + s * bytes, (const char *)table + vertex * bytes, bytes);
}

void sl_row_cache_fill_cpu(const struct sl_row_cache *cache, uint32_t n_part, uint32_t n_fixed,
                           const uint32_t *vertices, const sl_real *table)
{
    memset(cache->slot_of, 0xff, (size_t)n_part * sizeof *cache->slot_of); /* SL_NONE */
    for (uint32_t s = 0; s < cache->n_slots; s++) {
        cache->slot[s] = (struct sl_row_cache_slot){.wanted = s, .vertex = SL_NONE};
    }
    for (uint32_t s = 0; s < n_fixed; s++) {
        cache->slot[s].vertex = vertices[s];
        cache->slot_of[vertices[s]] = s;
        load_row(cache, s, vertices[s], table);
    }
}

#define DIGIT_BITS 11 /* digit width of the radix selection; 64 bits are six digits */

/* The k-th smallest time of use, k >= 1. Determines one digit after the other from the most significant, among the
 * slots that agree with the digits so far. */
static uint64_t kth_wanted(const struct sl_row_cache *cache, uint32_t k)
{
    uint64_t prefix = 0;
    uint64_t mask = 0;
    for (int shift = 5 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        uint32_t count[1 << DIGIT_BITS] = {0};
        uint32_t digit = 0;
        for (uint32_t s = 0; s < cache->n_slots; s++) {
            uint64_t wanted = cache->slot[s].wanted;
            count[wanted >> shift & ((1u << DIGIT_BITS) - 1)] += (wanted & mask) == prefix;
        }
        for (; count[digit] < k; digit++) {
            k -= count[digit];
        }
        prefix |= (uint64_t)digit << shift;
        mask |= (uint64_t)((1u << DIGIT_BITS) - 1) << shift;
    }
    return prefix;
}

/* Load the first n_admitted missing rows of the frontier, each into the next slot whose last use is not after
 * `latest`. */
static void admit(const struct sl_row_cache *cache, uint64_t now, uint32_t n_admitted, uint64_t latest,
                  const sl_vertex *ids, uint32_t first, const sl_real *table)
{
    uint32_t s = 0;
    for (uint32_t i = 0; n_admitted > 0; i++) {
        uint32_t vertex = ids[i] - first;
        if (cache->slot_of[vertex] != SL_NONE) {
            continue;
        }
        while (cache->slot[s].wanted > latest) {
            s++;
        }
        if (cache->slot[s].vertex != SL_NONE) {
            cache->slot_of[cache->slot[s].vertex] = SL_NONE;
        }
        cache->slot[s] = (struct sl_row_cache_slot){.wanted = now | i, .vertex = vertex};
        cache->slot_of[vertex] = s;
        load_row(cache, s, vertex, table);
        n_admitted--;
    }
}

void sl_row_cache_want_cpu(const struct sl_row_cache *cache, enum sl_row_cache_policy policy, uint64_t step, uint32_t n,
                           const sl_vertex *ids, uint32_t first, const sl_real *table, struct sl_row_cache_tally *tally)
{
    uint64_t now = (step + 1) << 32;
    uint32_t n_hits = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = cache->slot_of[ids[i] - first];
        if (s == SL_NONE) {
            continue;
        }
        n_hits++;
        if (policy == SL_ROW_CACHE_LRU) {
            cache->slot[s].wanted = now | i;
        }
    }
    tally->rows += n;
    tally->hits += n_hits;
    uint32_t n_free = cache->n_slots - n_hits; /* slots not used by this frontier */
    uint32_t n_admitted = sl_min_u32(n - n_hits, n_free);
    if (policy == SL_ROW_CACHE_LRU && n_admitted > 0) {
        admit(cache, now, n_admitted, kth_wanted(cache, n_admitted), ids, first, table);
    }
}

/* ---- arguments ---- */

struct row_cache_args {
    struct sl_task_args head;
    enum sl_row_cache_policy policy;
    uint32_t n; /* vertices to load, or rows of the frontier */
    uint32_t first;
};

/* ---- implementations ---- */

enum { SLOT_OF, SLOTS, ROWS, TABLE, FILL_VERTICES };
enum { WANT_TALLY = 4, WANT_FRONTIER };

static struct sl_row_cache row_cache_of(void *slot_of, void *slots, void *rows)
{
    return (struct sl_row_cache){.n_slots = sl_buffer_rows(rows),
                                 .n_columns = sl_buffer_columns(rows),
                                 .slot_of = sl_buffer_data(slot_of),
                                 .slot = sl_buffer_data(slots),
                                 .rows = sl_buffer_data(rows),
                                 .element = (uint32_t)sl_buffer_element(rows)};
}

static enum sl_status fill_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct row_cache_args *args = cl_arg;
    struct sl_row_cache cache = row_cache_of(buffers[SLOT_OF], buffers[SLOTS], buffers[ROWS]);
    return SL_RUN(stream, sl_row_cache_fill, &cache, sl_buffer_columns(buffers[SLOT_OF]), args->n,
                  args->n > 0 ? sl_buffer_data(buffers[FILL_VERTICES]) : NULL, sl_buffer_data(buffers[TABLE]));
}

static enum sl_status want_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct row_cache_args *args = cl_arg;
    struct sl_row_cache cache = row_cache_of(buffers[SLOT_OF], buffers[SLOTS], buffers[ROWS]);
    return SL_RUN(stream, sl_row_cache_want, &cache, args->policy, args->head.step, args->n,
                  sl_buffer_data(buffers[WANT_FRONTIER]), args->first, sl_buffer_data(buffers[TABLE]),
                  sl_buffer_data(buffers[WANT_TALLY]));
}

/* ---- operations ---- */

#define HERE STARPU_SPECIFIC_NODE_LOCAL
#define MAIN STARPU_SPECIFIC_NODE_CPU

static struct sl_operation fill_op = {
    SL_OPERATION(fill_op, "sl_row_cache_fill", SL_STAGE_GATHER),
    SL_BOTH(fill_task),
    .codelet.specific_nodes = 1,
    .codelet.nodes = {HERE, HERE, HERE, MAIN, HERE},
    .role = {{"slot of", STARPU_W},
             {"slots", STARPU_W},
             {"rows", STARPU_W},
             {"table", STARPU_R},
             {"vertices", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation want_op = {
    SL_OPERATION(want_op, "sl_row_cache_want", SL_STAGE_GATHER),
    SL_BOTH(want_task),
    .codelet.specific_nodes = 1,
    .codelet.nodes = {HERE, HERE, HERE, MAIN, HERE, HERE},
    .role = {{"slot of", STARPU_R | SL_OR_RW},
             {"slots", STARPU_R | SL_OR_RW},
             {"rows", STARPU_R | SL_OR_RW},
             {"table", STARPU_R},
             {"tally", STARPU_RW},
             {"frontier", STARPU_R}},
};

/* ---- submissions ---- */

static void check_cache(const struct sl_row_cache_handles *cache, starpu_data_handle_t table)
{
    assert(sl_handle_columns(cache->slot_of) == sl_handle_rows(table));
    assert(sl_handle_columns(cache->slots) == sl_handle_rows(cache->rows));
    assert(sl_handle_columns(cache->rows) == sl_handle_columns(table));
    assert(sl_handle_element(cache->rows) == sl_handle_element(table));
}

static uint64_t row_bytes(uint64_t n, starpu_data_handle_t table)
{
    return 2 * n * sl_handle_columns(table) * sl_handle_element(table);
}

enum sl_status sl_row_cache_fill_submit(const struct sl_task_args *head, const struct sl_row_cache_handles *cache,
                                        uint32_t n_fixed, starpu_data_handle_t vertices, starpu_data_handle_t table)
{
    struct row_cache_args args = {.head = *head, .n = n_fixed};
    struct sl_task task;
    check_cache(cache, table);
    assert(n_fixed <= sl_handle_rows(cache->rows));
    assert(n_fixed <= 0 || sl_handle_columns(vertices) >= n_fixed);
    args.head.work = row_bytes(n_fixed, table) + 4 * (uint64_t)sl_handle_rows(table);
    sl_task_begin(&task, &fill_op);
    sl_task_add(&task, SLOT_OF, cache->slot_of, STARPU_W);
    sl_task_add(&task, SLOTS, cache->slots, STARPU_W);
    sl_task_add(&task, ROWS, cache->rows, STARPU_W);
    sl_task_add(&task, TABLE, table, STARPU_R);
    if (n_fixed > 0) {
        sl_task_add(&task, FILL_VERTICES, vertices, STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL);
}

enum sl_status sl_row_cache_want_submit(const struct sl_task_args *head, const struct sl_row_cache_handles *cache,
                                        enum sl_row_cache_policy policy, uint32_t n_rows, starpu_data_handle_t frontier,
                                        uint32_t first, starpu_data_handle_t table)
{
    struct row_cache_args args = {.head = *head, .policy = policy, .n = n_rows, .first = first};
    enum starpu_data_access_mode mode = policy == SL_ROW_CACHE_LRU ? STARPU_RW : STARPU_R;
    struct sl_task task;
    check_cache(cache, table);
    assert(n_rows <= sl_handle_columns(frontier));
    assert(sl_handle_element(cache->tally) == sizeof(struct sl_row_cache_tally));
    args.head.work = row_bytes(n_rows, table);
    sl_task_begin(&task, &want_op);
    sl_task_add(&task, SLOT_OF, cache->slot_of, mode);
    sl_task_add(&task, SLOTS, cache->slots, mode);
    sl_task_add(&task, ROWS, cache->rows, mode);
    sl_task_add(&task, TABLE, table, STARPU_R);
    sl_task_add(&task, WANT_TALLY, cache->tally, STARPU_RW);
    sl_task_add(&task, WANT_FRONTIER, frontier, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
