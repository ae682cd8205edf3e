/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The row cache on a device. As on the CPU, the replaced slots are the slots whose key is not above the k-th smallest,
 * in the order of their indices. k is the number of missing rows to load; only the device knows k. */
#include "codelets/bf16.cuh"
#include "codelets/rows/row_cache.h"
#include "codelets/scan.cuh"

/* ---- filling ---- */

static __global__ void clear_slots(struct sl_row_cache cache)
{
    for (uint64_t s = sl_thread(); s < cache.n_slots; s += sl_n_threads()) {
        cache.slot[s] = {s, SL_NONE, 0};
    }
}

/* The cache as kernels see it. If alignment allows, a narrow row is copied as fewer floats. */
static struct sl_row_cache in_units(const struct sl_row_cache *cache, const void *table)
{
    const size_t row_bytes = (size_t)cache->n_columns * cache->element;
    struct sl_row_cache units = *cache;
    if ((row_bytes | (uintptr_t)table | (uintptr_t)cache->rows) % sizeof(float) == 0) {
        units.n_columns = (uint32_t)(row_bytes / sizeof(float));
        units.element = sizeof(float);
    }
    return units;
}

template <typename T> static __device__ void copy_row(uint32_t n, const T *from, T *to)
{
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        to[c] = from[c];
    }
}

/* One warp copies a row of the table into a slot. */
static __device__ void load_row(const struct sl_row_cache &cache, uint32_t s, uint32_t vertex, const sl_real *table)
{
    const size_t from = (size_t)vertex * cache.n_columns;
    const size_t to = (size_t)s * cache.n_columns;
    switch (cache.element) {
    case 1: copy_row(cache.n_columns, (const uint8_t *)table + from, (uint8_t *)cache.rows + to); break;
    case 2: copy_row(cache.n_columns, (const sl_bf16 *)table + from, (sl_bf16 *)cache.rows + to); break;
    default: copy_row(cache.n_columns, table + from, cache.rows + to);
    }
}

static __global__ void put_vertices(struct sl_row_cache cache, uint32_t n, const uint32_t *vertices,
                                    const sl_real *table)
{
    for (uint64_t s = sl_warp(); s < n; s += sl_n_warps()) {
        if (sl_lane() == 0) {
            cache.slot[s].vertex = vertices[s];
            cache.slot_of[vertices[s]] = (uint32_t)s;
        }
        load_row(cache, (uint32_t)s, vertices[s], table);
    }
}

enum sl_status sl_row_cache_fill_cuda(cudaStream_t stream, const struct sl_row_cache *cache, uint32_t n_part,
                                      uint32_t n_fixed, const uint32_t *vertices, const sl_real *table)
{
    const char *name = "sl_row_cache_fill";
    const sl_real *mapped;
    SL_CHECK(sl_mapped(table, name, &mapped));
    SL_CHECK(
        sl_cuda_status(cudaMemsetAsync(cache->slot_of, 0xff, (size_t)n_part * sizeof *cache->slot_of, stream), name));
    SL_CHECK(sl_start(name, stream, sl_blocks(cache->n_slots), clear_slots, *cache));
    return sl_start(name, stream, sl_warp_blocks(n_fixed), put_vertices, in_units(cache, mapped), n_fixed, vertices,
                    mapped);
}

/* ---- looking rows up ---- */

/* missing [n + 1]: 1 if the row is not cached, else 0; the last entry is 0. fresh [n + 1]: the same without ghosts. */
static __global__ void mark_missing(struct sl_row_cache cache, struct sl_row_cache_turn turn, uint32_t n,
                                    const sl_vertex *ids, uint32_t first, uint32_t *missing, uint32_t *fresh)
{
    for (uint64_t i = sl_thread(); i <= n; i += sl_n_threads()) {
        uint32_t s = i < n ? cache.slot_of[ids[i] - first] : 0;
        missing[i] = s >= cache.n_slots;
        fresh[i] = s >= cache.n_slots && !sl_row_cache_is_ghost(&turn, s);
        if (turn.policy != SL_ROW_CACHE_DEGREE && i < n && s < cache.n_slots) {
            sl_row_cache_touch(&turn, i, &cache.slot[s]);
        }
    }
}

static __global__ void count_rows(uint32_t n, const uint32_t *n_missing, struct sl_row_cache_tally *tally)
{
    if (sl_thread() == 0) {
        tally->rows += n;
        tally->hits += n - *n_missing;
    }
}

#define DIGIT_BITS 11 /* digit width of the radix selection */
#define N_DIGITS (1u << DIGIT_BITS)

/* Search for the k-th smallest key, one digit after the other from the most significant. */
struct selection {
    uint64_t prefix;  /* digits found so far; at the end the key itself, 0 without a search */
    uint64_t mask;    /* bits of the digits found so far */
    uint32_t k;       /* rank among the slots that agree with prefix; 0: no search */
    uint32_t newer;   /* 1: a row that stays is newer than the last that gave way */
    uint32_t n_fresh; /* rows that entered and were no ghosts */
    uint32_t count[N_DIGITS];
};

/* What is known after the missing rows are numbered. missing, fresh: exclusive prefix sums. */
struct admission {
    uint32_t n; /* rows of the frontier */
    const uint32_t *missing;
    const uint32_t *fresh;

    /* Number of missing rows to load: at most the number of slots that the frontier does not use. */
    __device__ uint32_t n_admitted(uint32_t n_slots) const
    {
        uint32_t n_free = n_slots - (n - missing[n]);
        return sl_least(missing[n], n_free);
    }
};

/* Launched with one block. */
static __global__ void begin_selection(struct sl_row_cache cache, struct admission in, struct selection *found)
{
    for (uint32_t d = threadIdx.x; d < N_DIGITS; d += SL_THREADS) {
        found->count[d] = 0;
    }
    if (threadIdx.x == 0) {
        found->prefix = 0;
        found->mask = 0;
        found->newer = 0;
        found->n_fresh = 0;
        found->k = in.n_admitted(cache.n_slots);
    }
}

/* Histogram of the digits at `shift`, over the keys that agree with the prefix. */
static __global__ void count_digits(struct sl_row_cache cache, struct sl_row_cache_turn turn, int shift,
                                    struct selection *found)
{
    __shared__ uint32_t count[N_DIGITS];
    const uint64_t prefix = found->prefix;
    const uint64_t mask = found->mask;
    for (uint32_t d = threadIdx.x; d < N_DIGITS; d += SL_THREADS) {
        count[d] = 0;
    }
    __syncthreads();
    for (uint64_t s = sl_thread(); s < cache.n_slots; s += sl_n_threads()) {
        uint64_t key = sl_row_cache_key(&turn, (uint32_t)s, &cache.slot[s]);
        if ((key & mask) == prefix) {
            atomicAdd(&count[key >> shift & (N_DIGITS - 1)], 1u);
        }
    }
    __syncthreads();
    for (uint32_t d = threadIdx.x; d < N_DIGITS; d += SL_THREADS) {
        if (count[d] > 0) {
            atomicAdd(&found->count[d], count[d]);
        }
    }
}

/* Launched with one block; each thread scans a range of digits. Find the digit of the k-th smallest key, then clear
 * the counts for the next digit. */
static __global__ void pick_digit(int shift, struct selection *found)
{
    const uint32_t length = N_DIGITS / SL_THREADS;
    __shared__ uint32_t totals[SL_THREADS];
    const uint32_t k = found->k;
    uint32_t *count = found->count + threadIdx.x * length;
    uint32_t before = 0;
    uint32_t sum = 0;
    for (uint32_t d = 0; d < length; d++) {
        sum += count[d];
    }
    totals[threadIdx.x] = sum;
    __syncthreads(); /* also: all threads have read k */
    for (uint32_t t = 0; t < threadIdx.x; t++) {
        before += totals[t];
    }
    if (before < k && k <= before + sum) { /* true in one thread if k > 0 */
        uint32_t d = 0;
        for (; before + count[d] < k; d++) {
            before += count[d];
        }
        found->k = k - before;
        found->prefix |= (uint64_t)(threadIdx.x * length + d) << shift;
        found->mask |= (uint64_t)(N_DIGITS - 1) << shift;
    }
    for (uint32_t d = 0; d < length; d++) {
        count[d] = 0;
    }
}

static __device__ bool gives_way(const struct selection *found, uint64_t key)
{
    return found->k > 0 && key <= found->prefix;
}

/* Slots of the small queue that give way enter the ghost queue. */
static __device__ bool haunts(const struct sl_row_cache_turn &turn, const struct sl_row_cache_slot &slot)
{
    return turn.policy == SL_ROW_CACHE_S3_FIFO && slot.vertex != SL_NONE && (slot.use & SL_CACHE_MAIN) == 0;
}

/* position, ghost [S + 1]: 1 if the slot gives way, and if its vertex enters the ghost queue. The last entries are 0.
 */
static __global__ void mark_free(struct sl_row_cache cache, struct sl_row_cache_turn turn,
                                 const struct selection *found, uint32_t *position, uint32_t *ghost)
{
    for (uint64_t s = sl_thread(); s <= cache.n_slots; s += sl_n_threads()) {
        const bool gives = s < cache.n_slots && gives_way(found, sl_row_cache_key(&turn, (uint32_t)s, &cache.slot[s]));
        position[s] = gives;
        ghost[s] = gives && haunts(turn, cache.slot[s]);
    }
}

/* Empty and list the slots that give way; all others stay. position, ghost: exclusive prefix sums. */
static __global__ void list_free(struct sl_row_cache cache, struct sl_row_cache_turn turn, struct selection *found,
                                 const uint32_t *position, const uint32_t *ghost, uint32_t *freed)
{
    const uint64_t hand = sl_row_cache_hand(&turn, found->prefix);
    for (uint64_t s = sl_thread(); s < cache.n_slots; s += sl_n_threads()) {
        struct sl_row_cache_slot *slot = &cache.slot[s];
        if (position[s + 1] == position[s]) {
            if (slot->wanted >= hand) {
                atomicOr(&found->newer, 1u);
            }
            sl_row_cache_stay(&turn, found->prefix, (uint32_t)s, slot);
            continue;
        }
        freed[position[s]] = (uint32_t)s;
        if (slot->vertex != SL_NONE) {
            const bool haunting = ghost[s + 1] > ghost[s];
            const uint64_t number = turn.queue->n_ghosts + ghost[s];
            cache.slot_of[slot->vertex] = haunting ? sl_row_cache_ghost(&turn, number) : SL_NONE;
        }
    }
}

/* No two rows get the same slot, and no replaced vertex is in this frontier. Warps therefore never write the same
 * entries. */
static __global__ void take_in(struct sl_row_cache cache, struct sl_row_cache_turn turn, struct admission in,
                               const sl_vertex *ids, uint32_t first, const uint32_t *freed, const sl_real *table,
                               struct selection *found)
{
    const uint32_t n_admitted = in.n_admitted(cache.n_slots);
    for (uint64_t i = sl_warp(); i < in.n; i += sl_n_warps()) {
        uint32_t j = in.missing[i];
        if (in.missing[i + 1] == j || j >= n_admitted) {
            continue;
        }
        uint32_t s = freed[j];
        uint32_t vertex = ids[i] - first;
        if (sl_lane() == 0) {
            const bool ghost = in.fresh[i + 1] == in.fresh[i];
            cache.slot[s] = sl_row_cache_enter(&turn, s, vertex, i, in.fresh[i], ghost);
            cache.slot_of[vertex] = s;
            if (j + 1 == n_admitted) {
                found->n_fresh = in.fresh[i + 1];
            }
        }
        load_row(cache, s, vertex, table);
    }
}

static __global__ void move_queue(struct sl_row_cache_turn turn, const struct selection *found,
                                  const uint32_t *n_ghosts, struct sl_row_cache_queue *queue)
{
    if (sl_thread() == 0) {
        const uint64_t hand = sl_row_cache_hand(&turn, found->prefix);
        queue->hand = turn.policy != SL_ROW_CACHE_SIEVE || found->newer != 0 ? hand : 0;
        queue->end += found->n_fresh;
        queue->n_ghosts += *n_ghosts;
    }
}

/* Find the largest key of the slots to replace. With lru, skips leading digits that are zero in all times up to the
 * present step. */
static enum sl_status select_latest(const char *name, cudaStream_t stream, const struct sl_row_cache *cache,
                                    const struct sl_row_cache_turn &turn, const struct admission &in,
                                    struct selection *found)
{
    const uint64_t most = turn.policy == SL_ROW_CACHE_LRU ? turn.now | UINT32_MAX : UINT64_MAX;
    int shift = 0;
    SL_CHECK(sl_start(name, stream, 1, begin_selection, *cache, in, found));
    while (shift + DIGIT_BITS < 64 && most >> (shift + DIGIT_BITS) > 0) {
        shift += DIGIT_BITS;
    }
    for (; shift >= 0; shift -= DIGIT_BITS) {
        SL_CHECK(sl_start(name, stream, sl_few_blocks(cache->n_slots), count_digits, *cache, turn, shift, found));
        SL_CHECK(sl_start(name, stream, 1, pick_digit, shift, found));
    }
    return SL_OK;
}

/* Find the slots to replace, and fill them. Working memory: 8 bytes per slot, and 4 bytes per replaced slot. */
static enum sl_status admit(cudaStream_t stream, const struct sl_row_cache *cache, const struct sl_row_cache_turn &turn,
                            const struct admission &in, const sl_vertex *ids, uint32_t first, const sl_real *table,
                            struct sl_row_cache_queue *queue)
{
    const char *name = "sl_row_cache_want";
    const size_t n_slots = cache->n_slots;
    sl_scratch room(stream);
    unsigned n_blocks = sl_blocks(n_slots + 1);
    SL_CHECK(room.take(
        sizeof(struct selection) + (2 * (n_slots + 1) + sl_least<size_t>(in.n, n_slots)) * sizeof(uint32_t), name));
    struct selection *found = room.as<struct selection>();
    uint32_t *position = (uint32_t *)(found + 1);
    uint32_t *ghost = position + n_slots + 1;
    uint32_t *freed = ghost + n_slots + 1;
    SL_CHECK(select_latest(name, stream, cache, turn, in, found));
    SL_CHECK(sl_start(name, stream, n_blocks, mark_free, *cache, turn, found, position, ghost));
    SL_CHECK(sl_exclusive_sum(stream, cache->n_slots + 1, position));
    SL_CHECK(sl_exclusive_sum(stream, cache->n_slots + 1, ghost));
    SL_CHECK(sl_start(name, stream, n_blocks, list_free, *cache, turn, found, position, ghost, freed));
    SL_CHECK(sl_start(name, stream, sl_warp_blocks(in.n), take_in, in_units(cache, table), turn, in, ids, first, freed,
                      table, found));
    return sl_start(name, stream, 1, move_queue, turn, found, ghost + n_slots, queue);
}

enum sl_status sl_row_cache_want_cuda(cudaStream_t stream, const struct sl_row_cache *cache,
                                      enum sl_row_cache_policy policy, uint64_t step, uint32_t n, const sl_vertex *ids,
                                      uint32_t first, const sl_real *table, struct sl_row_cache_tally *tally)
{
    const char *name = "sl_row_cache_want";
    const struct sl_row_cache_turn turn = {policy, cache->n_slots, (step + 1) << 32, &tally->queue};
    const sl_real *mapped;
    sl_scratch room(stream);
    SL_CHECK(sl_mapped(table, name, &mapped));
    SL_CHECK(room.take(2 * ((size_t)n + 1) * sizeof(uint32_t), name));
    uint32_t *missing = room.as<uint32_t>();
    uint32_t *fresh = missing + n + 1;
    SL_CHECK(
        sl_start(name, stream, sl_blocks((uint64_t)n + 1), mark_missing, *cache, turn, n, ids, first, missing, fresh));
    SL_CHECK(sl_exclusive_sum(stream, n + 1, missing));
    SL_CHECK(sl_start(name, stream, 1, count_rows, n, missing + n, tally));
    if (policy == SL_ROW_CACHE_DEGREE || n == 0) {
        return SL_OK;
    }
    SL_CHECK(sl_exclusive_sum(stream, n + 1, fresh));
    return admit(stream, cache, turn, {n, missing, fresh}, ids, first, mapped, &tally->queue);
}
