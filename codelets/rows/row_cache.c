/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A selection finds the slots to replace, instead of a list in order of use: a GPU cannot keep such a list, and CPU
 * and GPU must replace the same slots. */
#include "codelets/rows/row_cache.h"

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

/* The k-th smallest key, k >= 1. Determines one digit after the other from the most significant, among the slots that
 * agree with the digits so far. */
static uint64_t kth_key(const struct sl_row_cache *cache, const struct sl_row_cache_turn *turn, uint32_t k)
{
    uint64_t prefix = 0;
    uint64_t mask = 0;
    for (int shift = 5 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        uint32_t count[1 << DIGIT_BITS] = {0};
        uint32_t digit = 0;
        for (uint32_t s = 0; s < cache->n_slots; s++) {
            uint64_t key = sl_row_cache_key(turn, s, &cache->slot[s]);
            count[key >> shift & ((1u << DIGIT_BITS) - 1)] += (key & mask) == prefix;
        }
        for (; count[digit] < k; digit++) {
            k -= count[digit];
        }
        prefix |= (uint64_t)digit << shift;
        mask |= (uint64_t)((1u << DIGIT_BITS) - 1) << shift;
    }
    return prefix;
}

/* Empty a slot. */
static void leave(const struct sl_row_cache *cache, const struct sl_row_cache_turn *turn,
                  const struct sl_row_cache_slot *slot, struct sl_row_cache_queue *queue)
{
    if (slot->vertex == SL_NONE) {
        return;
    }
    cache->slot_of[slot->vertex] = SL_NONE;
    if (turn->policy == SL_ROW_CACHE_S3_FIFO && (slot->use & SL_CACHE_MAIN) == 0) {
        cache->slot_of[slot->vertex] = sl_row_cache_ghost(turn, queue->n_ghosts++);
    }
}

/* Load the first n_admitted missing rows of the frontier, each into the next slot that gives way. */
static void admit(const struct sl_row_cache *cache, const struct sl_row_cache_turn *turn, uint32_t n_admitted,
                  const sl_vertex *ids, uint32_t first, const sl_real *table, struct sl_row_cache_queue *queue)
{
    const uint64_t latest = n_admitted > 0 ? kth_key(cache, turn, n_admitted) : 0;
    const uint64_t hand = sl_row_cache_hand(turn, latest);
    bool newer = false; /* than the last row that gave way */
    uint32_t i = 0;
    for (uint32_t s = 0; s < cache->n_slots && (n_admitted > 0 || turn->policy != SL_ROW_CACHE_LRU); s++) {
        struct sl_row_cache_slot *slot = &cache->slot[s];
        if (n_admitted == 0 || sl_row_cache_key(turn, s, slot) > latest) {
            newer |= slot->wanted >= hand;
            sl_row_cache_stay(turn, latest, s, slot);
            continue;
        }
        leave(cache, turn, slot, queue);
        while (cache->slot_of[ids[i] - first] < cache->n_slots) {
            i++;
        }
        const uint32_t vertex = ids[i] - first;
        const bool ghost = sl_row_cache_is_ghost(turn, cache->slot_of[vertex]);
        *slot = sl_row_cache_enter(turn, s, vertex, i, queue->end - turn->queue->end, ghost);
        queue->end += !ghost;
        cache->slot_of[vertex] = s;
        load_row(cache, s, vertex, table);
        n_admitted--;
    }
    queue->hand = turn->policy != SL_ROW_CACHE_SIEVE || newer ? hand : 0;
}

void sl_row_cache_want_cpu(const struct sl_row_cache *cache, enum sl_row_cache_policy policy, uint64_t step, uint32_t n,
                           const sl_vertex *ids, uint32_t first, const sl_real *table, struct sl_row_cache_tally *tally)
{
    const struct sl_row_cache_queue before = tally->queue;
    const struct sl_row_cache_turn turn = {policy, cache->n_slots, (step + 1) << 32, &before};
    uint32_t n_hits = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = cache->slot_of[ids[i] - first];
        if (s >= cache->n_slots) {
            continue;
        }
        n_hits++;
        if (policy != SL_ROW_CACHE_DEGREE) {
            sl_row_cache_touch(&turn, i, &cache->slot[s]);
        }
    }
    tally->rows += n;
    tally->hits += n_hits;
    if (policy != SL_ROW_CACHE_DEGREE && n > 0) {
        uint32_t n_free = cache->n_slots - n_hits; /* slots not used by this frontier */
        admit(cache, &turn, sl_min_u32(n - n_hits, n_free), ids, first, table, &tally->queue);
    }
}

/* ---- operations ---- */

struct row_cache {
    struct sl_task_args head;
    struct sl_matrix slot_of, slots, rows, table;
    struct sl_matrix vertices;        /* fill: to load; optional */
    struct sl_matrix tally, frontier; /* want */
    enum sl_row_cache_policy policy;
    uint32_t first;
};

static struct sl_row_cache kernel_view(const struct row_cache *v)
{
    return (struct sl_row_cache){.n_slots = v->rows.n_rows,
                                 .n_columns = v->rows.n_columns,
                                 .slot_of = v->slot_of.data,
                                 .slot = v->slots.data,
                                 .rows = v->rows.data,
                                 .element = (uint32_t)sl_dtype_size(v->rows.dtype)};
}

static enum sl_status fill(const void *view, const void *stream)
{
    const struct row_cache *v = view;
    struct sl_row_cache cache = kernel_view(v);
    return SL_RUN(stream, sl_row_cache_fill, &cache, v->slot_of.n_rows, v->vertices.n_rows, v->vertices.data,
                  v->table.data);
}

static enum sl_status want(const void *view, const void *stream)
{
    const struct row_cache *v = view;
    struct sl_row_cache cache = kernel_view(v);
    return SL_RUN(stream, sl_row_cache_want, &cache, v->policy, v->head.step, v->frontier.n_rows, v->frontier.data,
                  v->first, v->table.data, v->tally.data);
}

#define HERE STARPU_SPECIFIC_NODE_LOCAL
#define MAIN STARPU_SPECIFIC_NODE_CPU

static struct sl_operation fill_op = {
    SL_OPERATION(fill_op, "sl_row_cache_fill", SL_STAGE_GATHER),
    SL_BODY(fill, struct row_cache),
    .codelet.specific_nodes = 1,
    .codelet.nodes = {HERE, HERE, HERE, MAIN, HERE},
    .role = {{"slot of", STARPU_W, offsetof(struct row_cache, slot_of), "N", SL_INTS_32},
             {"slots", STARPU_W, offsetof(struct row_cache, slots), "S", SL_ANY},
             {"rows", STARPU_W, offsetof(struct row_cache, rows), "S x F", SL_ANY},
             {"table", STARPU_R, offsetof(struct row_cache, table), "N x F", SL_ANY},
             {"vertices", STARPU_R | SL_OPTIONAL, offsetof(struct row_cache, vertices), "?", SL_INTS_32}},
};

static struct sl_operation want_op = {
    SL_OPERATION(want_op, "sl_row_cache_want", SL_STAGE_GATHER),
    SL_BODY(want, struct row_cache),
    .codelet.specific_nodes = 1,
    .codelet.nodes = {HERE, HERE, HERE, MAIN, HERE, HERE},
    .role = {{"slot of", STARPU_R | SL_OR_RW, offsetof(struct row_cache, slot_of), "N", SL_INTS_32},
             {"slots", STARPU_R | SL_OR_RW, offsetof(struct row_cache, slots), "S", SL_ANY},
             {"rows", STARPU_R | SL_OR_RW, offsetof(struct row_cache, rows), "S x F", SL_ANY},
             {"table", STARPU_R, offsetof(struct row_cache, table), "N x F", SL_ANY},
             {"tally", STARPU_RW, offsetof(struct row_cache, tally), "?", SL_ANY},
             {"frontier", STARPU_R, offsetof(struct row_cache, frontier), "?", SL_INTS_32}},
};

/* ---- submissions ---- */

static struct row_cache view_of(const struct sl_task_args *head, const struct sl_row_cache_handles *cache,
                                starpu_data_handle_t table, uint32_t n_rows)
{
    struct row_cache v = {.head = *head,
                          .slot_of = sl_matrix_of(cache->slot_of),
                          .slots = sl_matrix_of(cache->slots),
                          .rows = sl_matrix_of(cache->rows),
                          .table = sl_matrix_of(table)};
    assert(v.rows.dtype == v.table.dtype);
    v.head.work = 2 * sl_dtype_bytes(v.table.dtype, (size_t)n_rows * v.table.n_columns);
    return v;
}

enum sl_status sl_row_cache_fill_submit(const struct sl_task_args *head, const struct sl_row_cache_handles *cache,
                                        uint32_t n_fixed, starpu_data_handle_t vertices, starpu_data_handle_t table)
{
    struct row_cache v = view_of(head, cache, table, n_fixed);
    assert(n_fixed <= v.rows.n_rows);
    if (n_fixed > 0) {
        v.vertices = sl_matrix_rows(vertices, 0, n_fixed);
    }
    v.head.work += 4 * (uint64_t)v.table.n_rows;
    return sl_view_submit(&fill_op, &v, SL_PRIORITY_NORMAL);
}

enum sl_status sl_row_cache_want_submit(const struct sl_task_args *head, const struct sl_row_cache_handles *cache,
                                        enum sl_row_cache_policy policy, uint32_t n_rows, starpu_data_handle_t frontier,
                                        uint32_t first, starpu_data_handle_t table)
{
    struct row_cache v = view_of(head, cache, table, n_rows);
    v.slot_of.is_kept = policy != SL_ROW_CACHE_DEGREE;
    v.slots.is_kept = v.slot_of.is_kept;
    v.rows.is_kept = v.slot_of.is_kept;
    v.tally = sl_matrix_of(cache->tally);
    v.frontier = sl_matrix_rows(frontier, 0, n_rows);
    v.policy = policy;
    v.first = first;
    assert(sl_handle_element(cache->tally) == sizeof(struct sl_row_cache_tally));
    return sl_view_submit(&want_op, &v, SL_PRIORITY_COMPUTE);
}
