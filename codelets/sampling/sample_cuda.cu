/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Seeds and sampled blocks. A destination has one thread; with LABOR one warp, or one block if its list is long. An
 * edge has one thread, which searches its destination, so that no vertex of high degree delays the others. */
#include "codelets/sampling/marks.cuh"
#include "codelets/sampling/sample.h"

/* One warp counts the positive weights of a destination. */
static __global__ void count_positive(struct sl_sample_part part, struct sl_sample_rule rule, uint32_t max_rows,
                                      const uint32_t *n_rows, const sl_vertex *frontier, uint32_t *n_edges_out)
{
    for (uint64_t d = sl_warp(); d <= max_rows; d += sl_n_warps()) {
        uint32_t n = 0;
        if (d < *n_rows) {
            const struct sl_neighbours from = sl_neighbours_of(&part, frontier[d]);
            const float *weights = part.weights + from.first;
            for (uint32_t base = 0; base < from.degree; base += SL_WARP) {
                const uint32_t i = base + sl_lane();
                n += (uint32_t)__popc(__ballot_sync(SL_ALL_LANES, i < from.degree && weights[i] > 0));
            }
        }
        if (sl_lane() == 0) {
            n_edges_out[d] = sl_sample_count(&rule, n);
        }
    }
}

/* Number of edges of a vertex. */
static inline __device__ uint32_t count_of(const struct sl_sample_part &part, const struct sl_sample_rule &rule,
                                           sl_vertex vertex)
{
    const struct sl_neighbours from = sl_neighbours_of(&part, vertex);
    if (part.fanouts == nullptr) {
        return sl_sample_count(&rule, from.degree);
    }
    uint32_t n = 0;
    for (struct sl_edge_run run = {}; run.end < from.degree;) {
        run = sl_run_at(part.relations + from.first, run.end, from.degree);
        const struct sl_sample_rule own = sl_sample_rule_of(&rule, part.fanouts[run.relation]);
        uint32_t degree = run.end - run.begin;
        for (uint32_t i = run.begin; rule.method == SL_SAMPLE_WEIGHTED && i < run.end; i++) {
            degree -= !(part.weights[from.first + i] > 0);
        }
        n += sl_sample_count(&own, degree);
    }
    return n;
}

/* Number of edges of each destination; 0 for entries past the last destination. */
static __global__ void count_edges(struct sl_sample_part part, struct sl_sample_rule rule, uint32_t max_rows,
                                   const uint32_t *n_rows, const sl_vertex *frontier, uint32_t *n_edges_out)
{
    for (uint64_t d = sl_thread(); d <= max_rows; d += sl_n_threads()) {
        n_edges_out[d] = d < *n_rows ? count_of(part, rule, frontier[d]) : 0;
    }
}

/* ---- neighbor ---- */

#define SHARED_PICKS 32 /* above this number, picks are stored in the edge array itself */

static __global__ void draw_neighbor(struct sl_sample_part part, struct sl_draw draw, uint32_t k, uint32_t n_rows,
                                     const sl_vertex *frontier, const uint32_t *edge_offsets, uint32_t *edges)
{
    __shared__ uint32_t shared[SHARED_PICKS * SL_THREADS];
    for (uint64_t d = sl_thread(); d < n_rows; d += sl_n_threads()) {
        uint32_t degree = sl_neighbours_of(&part, frontier[d]).degree;
        uint32_t vertex = part.dataset_ids[frontier[d]];
        uint32_t *row = edges + edge_offsets[d];
        if (degree > k && k > SHARED_PICKS) {
            sl_pick_neighbor(&draw, vertex, degree, k, 1, row);
        } else if (degree > k) {
            sl_pick_neighbor(&draw, vertex, degree, k, SL_THREADS, shared + threadIdx.x);
            for (uint32_t i = 0; i < k; i++) {
                row[i] = shared[i * SL_THREADS + threadIdx.x];
            }
        }
    }
}

static __global__ void draw_replaced(struct sl_sample_part part, struct sl_draw draw, uint32_t n_rows,
                                     const sl_vertex *frontier, const uint32_t *edge_offsets, uint32_t *edges)
{
    for (uint64_t d = sl_thread(); d < n_rows; d += sl_n_threads()) {
        sl_pick_replaced(&draw, part.dataset_ids[frontier[d]], sl_neighbours_of(&part, frontier[d]).degree,
                         edge_offsets[d + 1] - edge_offsets[d], edges + edge_offsets[d]);
    }
}

/* Write the positions of a run that is taken whole, or move drawn positions from the run's beginning to that of the
 * list. One of n_threads threads. */
static inline __device__ void place_run(bool whole, const struct sl_edge_run &run, uint32_t n, uint32_t self,
                                        uint32_t n_threads, uint32_t *edges)
{
    for (uint32_t i = self; i < n; i += n_threads) {
        edges[i] = run.begin + (whole ? i : edges[i]);
    }
}

/* By relation: neighbor and replaced. A thread draws the runs of a destination. */
static __global__ void draw_runs(struct sl_sample_part part, struct sl_sample_rule rule, struct sl_draw draw,
                                 uint32_t n_rows, const sl_vertex *frontier, const uint32_t *edge_offsets,
                                 uint32_t *edges)
{
    for (uint64_t d = sl_thread(); d < n_rows; d += sl_n_threads()) {
        const struct sl_neighbours from = sl_neighbours_of(&part, frontier[d]);
        const uint32_t vertex = part.dataset_ids[frontier[d]];
        uint32_t *row = edges + edge_offsets[d];
        for (struct sl_edge_run run = {}; run.end < from.degree;) {
            run = sl_run_at(part.relations + from.first, run.end, from.degree);
            const struct sl_sample_rule own = sl_sample_rule_of(&rule, part.fanouts[run.relation]);
            const struct sl_draw own_draw = sl_sample_draw_of(&draw, run.relation);
            const uint32_t degree = run.end - run.begin;
            const uint32_t n = sl_sample_count(&own, degree);
            const bool replaced = rule.method == SL_SAMPLE_REPLACED && own.fanout != UINT32_MAX;
            if (replaced) {
                sl_pick_replaced(&own_draw, vertex, degree, n, row);
            } else if (n < degree) {
                sl_pick_neighbor(&own_draw, vertex, degree, n, 1, row);
            }
            place_run(!replaced && n == degree, run, n, 0, 1, row);
            row += n;
        }
    }
}

/* ---- LABOR: the k smallest keys of a list, by a group of threads: a warp or a block ----
 *
 * Keys become integers of the same order. A radix selection finds the k-th smallest key, digit by digit from the
 * most significant. It ends when all keys with the prefix found so far are wanted, or when no digit is left. The
 * group then lists the smaller keys, and the first of the keys with the prefix, in the order of their positions. */

#define KEPT 4             /* keys that a thread stores; further keys are recomputed */
#define LONG_LIST 512      /* in-neighbours from which a block draws */
#define N_DIGITS (1u << 8) /* digits of eight bits */

template <unsigned GROUP> struct labor_room {
    uint64_t key[KEPT * GROUP];
    uint32_t n_with[N_DIGITS]; /* number of keys with this next digit */
    uint32_t digit, n_below;   /* digit of the k-th smallest key, and number of keys with a smaller digit */
    uint32_t n_flags[GROUP / SL_WARP];
};

struct labor_list {
    struct sl_neighbours from;
    const sl_vertex *dataset_ids;
    struct sl_labor_turn turn;
};

/* The same with the keys of weights (codelets/sampling/labor.h). */
struct weighted_list {
    struct sl_neighbours from;
    const sl_vertex *dataset_ids;
    struct sl_draw draw;
    uint32_t vertex; /* dataset id */
    const float *weights;
    const uint16_t *relations; /* NULL: none */
};

template <unsigned GROUP> static inline __device__ void wait_for_group()
{
    if (GROUP == SL_WARP) {
        __syncwarp();
    } else {
        __syncthreads();
    }
}

/* A key as an integer of the same order. A uniform key (sine 0) is a multiple of 2^-53 below 1. Other keys are
 * ordered by their bits, with both zeros equal. */
static inline __device__ uint64_t ordered_key(const struct labor_list &list, uint32_t position)
{
    double key = sl_labor_key(&list.turn, list.dataset_ids[list.from.ids[position]]);
    if (list.turn.sine == 0) {
        return (uint64_t)(key * 0x1p64);
    }
    uint64_t bits;
    key += 0.0;
    memcpy(&bits, &key, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* The bits of a positive number have its order. Weight 0: the largest key. */
static inline __device__ uint64_t ordered_key(const struct weighted_list &list, uint32_t position)
{
    const float w = list.weights[position];
    if (!(w > 0)) {
        return UINT64_MAX;
    }
    const uint32_t relation = list.relations == nullptr ? 0 : list.relations[position];
    const struct sl_draw own = sl_sample_draw_of(&list.draw, relation);
    double key = sl_weighted_key(&own, list.vertex, list.dataset_ids[list.from.ids[position]], w);
    uint64_t bits;
    memcpy(&bits, &key, sizeof bits);
    return bits;
}

/* A thread reads only positions that it stored itself, so no barrier is needed. */
template <unsigned GROUP, typename List>
static inline __device__ uint64_t key_of(const List &list, const struct labor_room<GROUP> *room, uint32_t position)
{
    return position < KEPT * GROUP ? room->key[position] : ordered_key(list, position);
}

/* One warp searches the digit of the want-th smallest key, want >= 1. */
template <unsigned GROUP> static inline __device__ void find_digit(struct labor_room<GROUP> *room, uint32_t want)
{
    const uint32_t lane = sl_lane();
    uint32_t digit = N_DIGITS / SL_WARP * lane;
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_DIGITS / SL_WARP; i++) {
        n += room->n_with[digit + i];
    }
    uint32_t below = n;
    for (uint32_t distance = 1; distance < SL_WARP; distance *= 2) {
        uint32_t x = __shfl_sync(SL_ALL_LANES, below, (int)((lane - distance) % SL_WARP));
        below += lane >= distance ? x : 0;
    }
    below -= n;
    if (below < want && want - below <= n) {
        while (want - below > room->n_with[digit]) {
            below += room->n_with[digit++];
        }
        room->digit = digit;
        room->n_below = below;
    }
}

/* Number of threads of the group before this one that set the flag; *n_out: number in the whole group. All threads
 * of the group call. */
template <unsigned GROUP>
static inline __device__ uint32_t count_before(bool flag, struct labor_room<GROUP> *room, uint32_t *n_out)
{
    const uint32_t warp = threadIdx.x % GROUP / SL_WARP;
    const unsigned flags = __ballot_sync(SL_ALL_LANES, flag);
    uint32_t before = (uint32_t)__popc(flags & ((1u << sl_lane()) - 1));
    uint32_t n = (uint32_t)__popc(flags);
    if (GROUP > SL_WARP) {
        if (sl_lane() == 0) {
            room->n_flags[warp] = n;
        }
        __syncthreads();
        n = 0;
        for (uint32_t w = 0; w < GROUP / SL_WARP; w++) {
            before += w < warp ? room->n_flags[w] : 0;
            n += room->n_flags[w];
        }
        __syncthreads();
    }
    *n_out = n;
    return before;
}

/* k < degree. */
template <unsigned GROUP, typename List>
static __device__ void draw_labor(const List &list, uint32_t k, struct labor_room<GROUP> *room, uint32_t *picked_out)
{
    const uint32_t self = threadIdx.x % GROUP;
    const uint32_t degree = list.from.degree;
    uint64_t prefix = 0; /* leading bits of the k-th smallest key, down to bit `shift` */
    unsigned shift = 64;
    uint32_t want = k; /* number of wanted keys among the keys with the prefix */
    uint32_t n_equal;  /* number of keys with the prefix */
    for (uint32_t i = self; i < degree && i < KEPT * GROUP; i += GROUP) {
        room->key[i] = ordered_key(list, i);
    }
    do {
        for (uint32_t digit = self; digit < N_DIGITS; digit += GROUP) {
            room->n_with[digit] = 0;
        }
        wait_for_group<GROUP>();
        for (uint32_t i = self; i < degree; i += GROUP) {
            uint64_t key = key_of(list, room, i);
            if (shift == 64 || key >> shift == prefix) {
                atomicAdd(&room->n_with[key >> (shift - 8) & (N_DIGITS - 1)], 1u);
            }
        }
        wait_for_group<GROUP>();
        if (self < SL_WARP) {
            find_digit(room, want);
        }
        wait_for_group<GROUP>();
        shift -= 8;
        prefix = prefix << 8 | room->digit;
        want -= room->n_below;
        n_equal = room->n_with[room->digit];
        wait_for_group<GROUP>();
    } while (n_equal > want && shift > 0);

    uint32_t n_less = 0;
    n_equal = 0;
    for (uint32_t base = 0; n_less + n_equal < k; base += GROUP) {
        const uint32_t i = base + self;
        const uint64_t key = i < degree ? key_of(list, room, i) >> shift : UINT64_MAX;
        uint32_t n_less_here;
        uint32_t n_equal_here;
        uint32_t less = n_less + count_before(i < degree && key < prefix, room, &n_less_here);
        uint32_t equal = n_equal + count_before(i < degree && key == prefix, room, &n_equal_here);
        if (i < degree && (key < prefix || (key == prefix && equal < want))) {
            picked_out[less + sl_least(equal, want)] = i;
        }
        n_less += n_less_here;
        n_equal += n_equal_here;
        n_equal = sl_least(n_equal, want);
    }
}

/* The list of in-neighbours, or of a run of them, by either kind of keys. vertex: dataset id. */
struct labor_keys {
    struct sl_labor_turn turn;

    __device__ struct labor_list list_of(const struct sl_sample_part &part, const struct sl_sample_rule &rule,
                                         const struct sl_neighbours &from, uint32_t vertex) const
    {
        return {from, part.dataset_ids, sl_labor_turn_of(&turn, &rule, vertex)};
    }
};

struct weighted_keys {
    struct sl_draw draw;

    __device__ struct weighted_list list_of(const struct sl_sample_part &part, const struct sl_sample_rule &,
                                            const struct sl_neighbours &from, uint32_t vertex) const
    {
        const uint16_t *relations = part.relations == nullptr ? nullptr : part.relations + from.first;
        return {from, part.dataset_ids, draw, vertex, part.weights + from.first, relations};
    }
};

template <typename Keys>
static __global__ void draw_short(struct sl_sample_part part, struct sl_sample_rule rule, const Keys keys,
                                  uint32_t n_rows, const sl_vertex *frontier, const uint32_t *edge_offsets,
                                  uint32_t *edges)
{
    __shared__ struct labor_room<SL_WARP> room[SL_WARPS];
    for (uint64_t d = sl_warp(); d < n_rows; d += sl_n_warps()) {
        const struct sl_neighbours from = sl_neighbours_of(&part, frontier[d]);
        const uint32_t n = edge_offsets[d + 1] - edge_offsets[d];
        if (n > 0 && n < from.degree && from.degree < LONG_LIST) {
            const auto list = keys.list_of(part, rule, from, part.dataset_ids[frontier[d]]);
            draw_labor(list, n, &room[threadIdx.x / SL_WARP], edges + edge_offsets[d]);
        }
    }
}

/* A block checks as many destinations as it has threads, then draws for the destinations with long lists. */
template <typename Keys>
static __global__ void draw_long(struct sl_sample_part part, struct sl_sample_rule rule, const Keys keys,
                                 uint32_t n_rows, const sl_vertex *frontier, const uint32_t *edge_offsets,
                                 uint32_t *edges)
{
    __shared__ struct labor_room<SL_THREADS> room;
    __shared__ uint32_t n_long;
    __shared__ uint32_t long_row[SL_THREADS];
    for (uint64_t d0 = (uint64_t)blockIdx.x * blockDim.x; d0 < n_rows; d0 += sl_n_threads()) {
        const uint64_t d = d0 + threadIdx.x;
        if (threadIdx.x == 0) {
            n_long = 0;
        }
        __syncthreads();
        const uint32_t degree = d < n_rows ? sl_neighbours_of(&part, frontier[d]).degree : 0;
        const uint32_t n = d < n_rows ? edge_offsets[d + 1] - edge_offsets[d] : 0;
        if (n > 0 && n < degree && degree >= LONG_LIST) {
            long_row[atomicAdd(&n_long, 1u)] = (uint32_t)d; /* in any order, since each has its own edges */
        }
        __syncthreads();
        for (uint32_t i = 0; i < n_long; i++) {
            const sl_vertex id = frontier[long_row[i]];
            const auto list = keys.list_of(part, rule, sl_neighbours_of(&part, id), part.dataset_ids[id]);
            const uint32_t *offsets = edge_offsets + long_row[i];
            draw_labor(list, offsets[1] - offsets[0], &room, edges + offsets[0]);
        }
        __syncthreads();
    }
}

/* Number of in-neighbours that can be drawn. All threads of the group call. */
template <unsigned GROUP>
static inline __device__ uint32_t drawable(const struct labor_list &list, struct labor_room<GROUP> *)
{
    return list.from.degree;
}

template <unsigned GROUP>
static inline __device__ uint32_t drawable(const struct weighted_list &list, struct labor_room<GROUP> *room)
{
    uint32_t n = 0;
    for (uint32_t base = 0; base < list.from.degree; base += GROUP) {
        const uint32_t i = base + threadIdx.x % GROUP;
        uint32_t n_here;
        count_before(i < list.from.degree && list.weights[i] > 0, room, &n_here);
        n += n_here;
    }
    return n;
}

/* By relation: a group of threads draws the runs of a destination. Warps leave long runs to blocks. */
template <unsigned GROUP, typename Keys>
static __device__ void draw_labor_runs(const struct sl_sample_part &part, const struct sl_sample_rule &rule,
                                       const Keys &keys, sl_vertex destination, struct labor_room<GROUP> *room,
                                       uint32_t *row)
{
    const struct sl_neighbours from = sl_neighbours_of(&part, destination);
    for (struct sl_edge_run run = {}; run.end < from.degree;) {
        run = sl_run_at(part.relations + from.first, run.end, from.degree);
        const struct sl_sample_rule own = sl_sample_rule_of(&rule, part.fanouts[run.relation]);
        const struct sl_neighbours ids = {from.ids + run.begin, run.end - run.begin, from.first + run.begin};
        const auto list = keys.list_of(part, rule, ids, part.dataset_ids[destination]);
        const uint32_t n = sl_sample_count(&own, drawable(list, room));
        const bool is_long = n < list.from.degree && list.from.degree >= LONG_LIST;
        if (is_long == (GROUP > SL_WARP)) {
            if (n > 0 && n < list.from.degree) {
                draw_labor(list, n, room, row);
            }
            wait_for_group<GROUP>();
            place_run(n == list.from.degree, run, n, threadIdx.x % GROUP, GROUP, row);
            wait_for_group<GROUP>();
        }
        row += n;
    }
}

template <typename Keys>
static __global__ void draw_runs_short(struct sl_sample_part part, struct sl_sample_rule rule, const Keys keys,
                                       uint32_t n_rows, const sl_vertex *frontier, const uint32_t *edge_offsets,
                                       uint32_t *edges)
{
    __shared__ struct labor_room<SL_WARP> room[SL_WARPS];
    for (uint64_t d = sl_warp(); d < n_rows; d += sl_n_warps()) {
        draw_labor_runs(part, rule, keys, frontier[d], &room[threadIdx.x / SL_WARP], edges + edge_offsets[d]);
    }
}

template <typename Keys>
static __global__ void draw_runs_long(struct sl_sample_part part, struct sl_sample_rule rule, const Keys keys,
                                      uint32_t n_rows, const sl_vertex *frontier, const uint32_t *edge_offsets,
                                      uint32_t *edges)
{
    __shared__ struct labor_room<SL_THREADS> room;
    for (uint64_t d = blockIdx.x; d < n_rows; d += gridDim.x) {
        if (sl_neighbours_of(&part, frontier[d]).degree >= LONG_LIST) {
            draw_labor_runs(part, rule, keys, frontier[d], &room, edges + edge_offsets[d]);
        }
    }
}

/* ---- edges; their distinct sources are marked in a bitmap ---- */

/* The destination of an edge: the last destination whose edges begin at or before e. */
static inline __device__ uint32_t row_of_edge(uint32_t n_rows, const uint32_t *edge_offsets, uint32_t e)
{
    uint32_t low = 0;
    uint32_t high = n_rows;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (edge_offsets[middle] <= e) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Replace drawn positions, or whole lists, by ids, and mark the ids. `placed`: all edges are positions. Also writes the
 * destination of each edge. */
static __global__ void take_edges(struct sl_sample_part part, bool placed, uint32_t n_rows, uint32_t n_edges,
                                  const sl_vertex *frontier, const uint32_t *edge_offsets, uint64_t *words,
                                  uint32_t *edges, uint32_t *rows_out)
{
    for (uint64_t e = sl_thread(); e < n_edges; e += sl_n_threads()) {
        uint32_t d = row_of_edge(n_rows, edge_offsets, (uint32_t)e);
        struct sl_neighbours from = sl_neighbours_of(&part, frontier[d]);
        bool all = !placed && from.degree == edge_offsets[d + 1] - edge_offsets[d];
        sl_vertex id = from.ids[all ? (uint32_t)e - edge_offsets[d] : edges[e]];
        edges[e] = id;
        rows_out[e] = d;
        sl_mark(words, id);
    }
}

/* Mark the sources of edges that are ids. Also writes the destination of each edge. */
static __global__ void mark_edges(uint32_t n_rows, uint32_t n_edges, const uint32_t *edge_offsets,
                                  const uint32_t *edges, uint64_t *words, uint32_t *rows_out)
{
    for (uint64_t e = sl_thread(); e < n_edges; e += sl_n_threads()) {
        rows_out[e] = row_of_edge(n_rows, edge_offsets, (uint32_t)e);
        sl_mark(words, edges[e]);
    }
}

/* Replace drawn positions, or whole lists, by ids, and excluded edges by self loops if loops are wanted. Flags the
 * edges that stay; one more entry, for the total. */
static __global__ void flag_kept(struct sl_sample_part part, bool placed, uint32_t n_rows, uint32_t n_edges,
                                 const sl_vertex *frontier, const uint32_t *edge_offsets, uint32_t *edges,
                                 uint32_t *flags_out)
{
    for (uint64_t e = sl_thread(); e <= n_edges; e += sl_n_threads()) {
        flags_out[e] = 0;
        if (e < n_edges) {
            uint32_t d = row_of_edge(n_rows, edge_offsets, (uint32_t)e);
            struct sl_neighbours from = sl_neighbours_of(&part, frontier[d]);
            bool all = !placed && from.degree == edge_offsets[d + 1] - edge_offsets[d];
            edges[e] = from.ids[all ? (uint32_t)e - edge_offsets[d] : edges[e]];
            const bool gone = sl_is_excluded(&part.excluded, edges[e], frontier[d]);
            flags_out[e] = !gone || part.excluded.loops != 0;
            edges[e] = gone ? frontier[d] : edges[e];
        }
    }
}

/* Copy items with a place of their own: places[e + 1] > places[e]. */
template <typename T> static __global__ void keep_items(uint32_t n, const uint32_t *places, const T *from, T *to)
{
    for (uint64_t e = sl_thread(); e < n; e += sl_n_threads()) {
        if (places[e + 1] > places[e]) {
            to[places[e]] = from[e];
        }
    }
}

static __global__ void move_offsets(uint32_t max_rows, const uint32_t *places, uint32_t *offsets)
{
    for (uint64_t d = sl_thread(); d <= max_rows; d += sl_n_threads()) {
        offsets[d] = places[offsets[d]];
    }
}

/* The value of each edge. Edges are drawn positions, or not written if whole lists are taken. values: of the part's
 * edges. */
template <typename T>
static __global__ void take_values(struct sl_sample_part part, const T *values, bool placed, uint32_t n_rows,
                                   uint32_t n_edges, const sl_vertex *frontier, const uint32_t *edge_offsets,
                                   const uint32_t *edges, T *values_out)
{
    for (uint64_t e = sl_thread(); e < n_edges; e += sl_n_threads()) {
        uint32_t d = row_of_edge(n_rows, edge_offsets, (uint32_t)e);
        struct sl_neighbours from = sl_neighbours_of(&part, frontier[d]);
        bool all = !placed && from.degree == edge_offsets[d + 1] - edge_offsets[d];
        values_out[e] = values[from.first + (all ? (uint32_t)e - edge_offsets[d] : edges[e])];
    }
}

static __global__ void rank_edges(uint32_t n_edges, uint32_t n_words, const uint64_t *words, const uint32_t *ranks,
                                  uint32_t *edges)
{
    for (uint64_t e = sl_thread(); e < n_edges; e += sl_n_threads()) {
        edges[e] = sl_rank_of(n_words, words, ranks, edges[e]);
    }
}

/* After the edges are sorted by source: the first edge of each source. */
static __global__ void find_borders(uint32_t n_edges, const uint32_t *sorted, uint32_t *back_offsets_out)
{
    for (uint64_t e = sl_thread(); e < n_edges; e += sl_n_threads()) {
        if (e == 0 || sorted[e] != sorted[e - 1]) {
            back_offsets_out[sorted[e]] = (uint32_t)e;
        }
        if (e + 1 == n_edges) {
            back_offsets_out[sorted[e] + 1] = n_edges;
        }
    }
}

/* ---- the launcher ---- */

/* Common data of the steps of one call. */
struct sample_call {
    cudaStream_t stream;
    struct sl_sample_part part;
    const struct sl_sample_rule *rule;
    uint32_t n_rows, n_edges, n_words;
    const sl_vertex *frontier;
    const uint32_t *edge_offsets;
    uint64_t *words;
    uint32_t *ranks;
};

/* Whether all edges hold positions, also those of lists that are taken whole. */
static bool are_placed(const struct sample_call *call)
{
    return call->rule->method == SL_SAMPLE_REPLACED || call->part.fanouts != nullptr;
}

/* Draw positions by keys: a warp for a list, or a block for a long one. */
template <typename Keys>
static enum sl_status draw_by(const struct sample_call *call, const Keys &keys, uint32_t *edges)
{
    const bool by_relation = call->part.fanouts != nullptr;
    const auto draw_in_warps = by_relation ? draw_runs_short<Keys> : draw_short<Keys>;
    const auto draw_in_blocks = by_relation ? draw_runs_long<Keys> : draw_long<Keys>;
    SL_CHECK(sl_start("sl_sample: by keys", call->stream, sl_warp_blocks(call->n_rows), draw_in_warps, call->part,
                      *call->rule, keys, call->n_rows, call->frontier, call->edge_offsets, edges));
    return sl_start("sl_sample: by keys", call->stream, sl_blocks(call->n_rows), draw_in_blocks, call->part,
                    *call->rule, keys, call->n_rows, call->frontier, call->edge_offsets, edges);
}

/* Draw positions for the destinations that do not take their whole list. */
static enum sl_status draw_edges(const struct sample_call *call, const struct sl_draw *draw, uint32_t *edges)
{
    const unsigned n_blocks = sl_blocks(call->n_rows);
    if (call->rule->method == SL_SAMPLE_WEIGHTED) {
        return draw_by(call, weighted_keys{*draw}, edges);
    }
    if (sl_sample_by_keys(call->rule)) {
        return draw_by(call, labor_keys{sl_labor_turn(draw->seed, draw->step, draw->hop, call->rule)}, edges);
    }
    if (call->part.fanouts != nullptr) {
        return sl_start("sl_sample: by relation", call->stream, n_blocks, draw_runs, call->part, *call->rule, *draw,
                        call->n_rows, call->frontier, call->edge_offsets, edges);
    }
    if (call->rule->method == SL_SAMPLE_NEIGHBOR) {
        return sl_start("sl_sample: neighbor", call->stream, n_blocks, draw_neighbor, call->part, *draw,
                        call->rule->fanout, call->n_rows, call->frontier, call->edge_offsets, edges);
    }
    if (call->rule->method == SL_SAMPLE_REPLACED) {
        return sl_start("sl_sample: replaced", call->stream, n_blocks, draw_replaced, call->part, *draw, call->n_rows,
                        call->frontier, call->edge_offsets, edges);
    }
    return SL_OK;
}

/* The values of all edges, if they are wanted. */
template <typename T>
static enum sl_status take_all(const struct sample_call *call, const T *values, const struct sl_sample_block *block,
                               T *out)
{
    if (out == nullptr) {
        return SL_OK;
    }
    return sl_start("sl_sample: values", call->stream, sl_blocks(call->n_edges), take_values<T>, call->part, values,
                    are_placed(call), call->n_rows, call->n_edges, call->frontier,
                    (const uint32_t *)block->edge_offsets, (const uint32_t *)block->edge_sources, out);
}

/* Copy the kept items of `from`, if it is not NULL, over its first items. room: n_edges words. */
template <typename T>
static enum sl_status keep_in_place(const struct sample_call *call, const uint32_t *places, T *from, void *room)
{
    if (from == nullptr) {
        return SL_OK;
    }
    SL_CHECK(sl_start("sl_sample: excluded", call->stream, sl_blocks(call->n_edges), keep_items<T>, call->n_edges,
                      places, (const T *)from, (T *)room));
    return sl_cuda_status(
        cudaMemcpyAsync(from, room, (size_t)call->n_edges * sizeof *from, cudaMemcpyDeviceToDevice, call->stream),
        "sl_sample: excluded");
}

/* Drop the excluded edges. The others become ids. Waits for the stream, for the number of edges left. */
static enum sl_status drop_excluded(struct sample_call *call, const uint32_t *n_rows,
                                    const struct sl_sample_block *block)
{
    const uint32_t n = call->n_edges;
    sl_scratch scratch(call->stream);
    SL_CHECK(scratch.take((2 * (size_t)n + 1) * sizeof(uint32_t), "sl_sample: excluded"));
    SL_CHECK(sl_start("sl_sample: excluded", call->stream, sl_blocks((uint64_t)n + 1), flag_kept, call->part,
                      are_placed(call), call->n_rows, n, call->frontier, block->edge_offsets, block->edge_sources,
                      scratch.as<uint32_t>()));
    SL_CHECK(sl_exclusive_sum(call->stream, n + 1, scratch.as<uint32_t>()));
    uint32_t *room = scratch.as<uint32_t>() + (size_t)n + 1;
    SL_CHECK(keep_in_place(call, scratch.as<uint32_t>(), block->edge_sources, room));
    SL_CHECK(keep_in_place(call, scratch.as<uint32_t>(), block->edge_weights, room));
    SL_CHECK(keep_in_place(call, scratch.as<uint32_t>(), block->edge_relations, room));
    SL_CHECK(sl_start("sl_sample: excluded", call->stream, sl_blocks((uint64_t)block->max_rows + 1), move_offsets,
                      block->max_rows, scratch.as<uint32_t>(), block->edge_offsets));
    return sl_read_sizes("sl_sample: its sizes", call->stream, n_rows, &call->n_rows,
                         block->edge_offsets + block->max_rows, &call->n_edges);
}

/* Rank and list all marked sources. Edges become positions among the sources. */
static enum sl_status list_sources(const struct sample_call *call, const struct sl_sample_sizes *sizes, uint32_t *edges,
                                   uint32_t *request_out)
{
    cudaStream_t stream = call->stream;
    const unsigned edge_blocks = sl_blocks(call->n_edges);
    const unsigned word_blocks = sl_blocks(call->n_words);
    SL_CHECK(sl_rank_words("sl_sample: marks", stream, call->n_words, call->words, call->ranks));
    SL_CHECK(sl_start("sl_sample: request", stream, word_blocks, sl_list_marked, call->n_words, call->words,
                      call->ranks, call->part.n_parts, call->part.first, request_out, sizes->positions, call->n_edges,
                      sizes->n_edges));
    SL_CHECK(sl_start("sl_sample: sources", stream, edge_blocks, rank_edges, call->n_edges, call->n_words, call->words,
                      call->ranks, edges));
    return sl_cuda_status(cudaMemsetAsync(call->words, 0, (size_t)call->n_words * sizeof *call->words, stream),
                          "sl_sample: marks");
}

/* Bits needed for the numbers 0 .. n - 1; at least one. */
static int bits_below(uint64_t n)
{
    int n_bits = 1;
    while (n > UINT64_C(1) << n_bits) {
        n_bits++;
    }
    return n_bits;
}

/* Transpose the block by a stable sort of the edges. */
static enum sl_status transpose(const struct sample_call *call, uint32_t n_vertices, const uint32_t *rows,
                                uint32_t *sorted, const struct sl_sample_block *block)
{
    const uint32_t *sources = block->edge_sources;
    uint32_t *back_offsets_out = block->back_offsets;
    uint32_t most = sl_least(n_vertices, call->n_edges);
    if (call->n_edges == 0) {
        return sl_cuda_status(cudaMemsetAsync(back_offsets_out, 0, sizeof *back_offsets_out, call->stream),
                              "sl_sample: back offsets");
    }
    const int n_bits = bits_below(most);
    SL_CHECK(sl_sort_pairs(call->stream, call->n_edges, n_bits, sources, rows, sorted, block->back_rows));
    if (block->edge_weights != nullptr) { /* a weight is sorted as a word of four bytes */
        SL_CHECK(sl_sort_pairs(call->stream, call->n_edges, n_bits, sources,
                               (const uint32_t *)(const void *)block->edge_weights, sorted,
                               (uint32_t *)(void *)block->back_weights));
    }
    if (block->edge_relations != nullptr) {
        SL_CHECK(sl_sort_pairs(call->stream, call->n_edges, n_bits, sources, block->edge_relations, sorted,
                               block->back_relations));
    }
    return sl_start("sl_sample: back offsets", call->stream, sl_blocks(call->n_edges), find_borders, call->n_edges,
                    sorted, back_offsets_out);
}

/* Mark and list the sources of edges that are ids, and transpose the block. room: 2 n_edges words. */
static enum sl_status mark_and_close(const struct sample_call *call, uint32_t n_vertices, uint32_t *room,
                                     const struct sl_sample_sizes *sizes, const struct sl_sample_block *block)
{
    SL_CHECK(sl_start("sl_sample: edges", call->stream, sl_blocks(call->n_edges), mark_edges, call->n_rows,
                      call->n_edges, call->edge_offsets, block->edge_sources, call->words, room));
    SL_CHECK(list_sources(call, sizes, block->edge_sources, block->request));
    return transpose(call, n_vertices, room, room + call->n_edges, block);
}

enum sl_status sl_block_close_cuda(cudaStream_t stream, const struct sl_sample_part *part, uint32_t n_rows,
                                   uint32_t n_edges, const struct sl_sample_marks *marks,
                                   const struct sl_sample_sizes *sizes, const struct sl_sample_block *block)
{
    struct sample_call call = {stream,       *part,
                               nullptr,      n_rows,
                               n_edges,      sl_n_words(marks->n_vertices),
                               nullptr,      block->edge_offsets,
                               marks->words, marks->ranks};
    sl_scratch scratch(stream);
    SL_CHECK(scratch.take(2 * sizeof(uint32_t) * (size_t)n_edges, "a block's edges"));
    return mark_and_close(&call, marks->n_vertices, scratch.as<uint32_t>(), sizes, block);
}

enum sl_status sl_sample_cuda(cudaStream_t stream, const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                              const struct sl_draw *draw, const sl_vertex *frontier,
                              const struct sl_sample_marks *marks, const struct sl_sample_sizes *sizes,
                              const struct sl_sample_block *block)
{
    const uint32_t max_rows = block->max_rows;
    const uint32_t *n_rows = sizes->n_rows;
    struct sample_call call = {
        stream,       *part,       rule, 0, 0, sl_n_words(marks->n_vertices), frontier, block->edge_offsets,
        marks->words, marks->ranks};
    sl_scratch scratch(stream);
    if (rule->method == SL_SAMPLE_WEIGHTED && part->fanouts == nullptr) {
        SL_CHECK(sl_start("sl_sample: degrees", stream, sl_warp_blocks((uint64_t)max_rows + 1), count_positive, *part,
                          *rule, max_rows, n_rows, frontier, block->edge_offsets));
    } else {
        SL_CHECK(sl_start("sl_sample: degrees", stream, sl_blocks((uint64_t)max_rows + 1), count_edges, *part, *rule,
                          max_rows, n_rows, frontier, block->edge_offsets));
    }
    SL_CHECK(sl_exclusive_sum(stream, max_rows + 1, block->edge_offsets));
    SL_CHECK(sl_read_sizes("sl_sample: its sizes", stream, n_rows, &call.n_rows, block->edge_offsets + max_rows,
                           &call.n_edges));
    SL_CHECK(scratch.take(2 * sizeof(uint32_t) * (size_t)call.n_edges, "sl_sample: edges"));
    SL_CHECK(draw_edges(&call, draw, block->edge_sources));
    SL_CHECK(take_all(&call, part->weights, block, block->edge_weights));
    SL_CHECK(take_all(&call, part->relations, block, block->edge_relations));
    if (part->excluded.table != nullptr) {
        SL_CHECK(drop_excluded(&call, n_rows, block));
        return mark_and_close(&call, marks->n_vertices, scratch.as<uint32_t>(), sizes, block);
    }
    SL_CHECK(sl_start("sl_sample: edges", stream, sl_blocks(call.n_edges), take_edges, call.part, are_placed(&call),
                      call.n_rows, call.n_edges, frontier, call.edge_offsets, call.words, block->edge_sources,
                      scratch.as<uint32_t>()));
    SL_CHECK(list_sources(&call, sizes, block->edge_sources, block->request));
    return transpose(&call, marks->n_vertices, scratch.as<uint32_t>(), scratch.as<uint32_t>() + call.n_edges, block);
}

/* ---- the epoch's order ---- */

static __global__ void hash_ids(struct sl_draw draw, uint32_t n, const sl_vertex *dataset_ids, const sl_vertex *new_ids,
                                uint64_t *hashes_out, sl_vertex *ids_out)
{
    for (uint64_t i = sl_thread(); i < n; i += sl_n_threads()) {
        hashes_out[i] = sl_random_u64(&draw, dataset_ids[i], 0);
        ids_out[i] = new_ids[dataset_ids[i]];
    }
}

enum sl_status sl_permute_cuda(cudaStream_t stream, uint64_t seed, uint64_t epoch, uint32_t n,
                               const sl_vertex *train_dataset_ids, const sl_vertex *new_ids,
                               struct sl_permute_key *keys, sl_vertex *order_out)
{
    const char *name = "sl_permute";
    struct sl_draw draw = {seed, epoch, SL_FOR_PERMUTATION, 0};
    uint64_t *hashes = (uint64_t *)(void *)keys; /* a struct sl_permute_key is as large as two hashes */
    sl_scratch ids(stream);
    SL_CHECK(ids.take((size_t)n * sizeof(sl_vertex), name));
    SL_CHECK(sl_start(name, stream, sl_blocks(n), hash_ids, draw, n, train_dataset_ids, new_ids, hashes,
                      ids.as<sl_vertex>()));
    return sl_sort_pairs(stream, n, 64, hashes, ids.as<sl_vertex>(), hashes + n, order_out);
}

/* ---- seeds ---- */

static __global__ void forget_rows(const uint32_t *n_old, const sl_vertex *frontier, uint32_t first, uint32_t *row_of)
{
    for (uint64_t r = sl_thread(); r < *n_old; r += sl_n_threads()) {
        row_of[frontier[r] - first] = SL_NONE;
    }
}

static inline __device__ bool is_between(sl_vertex id, uint32_t first, uint32_t end)
{
    return id >= first && id < end;
}

/* 1 for ids of the part, else 0; one more entry, for the total. */
static __global__ void flag_seeds(uint32_t n, const sl_vertex *order, uint32_t first, uint32_t end, uint32_t *flags_out)
{
    for (uint64_t i = sl_thread(); i <= n; i += sl_n_threads()) {
        flags_out[i] = i < n && is_between(order[i], first, end);
    }
}

static __global__ void place_seeds(uint32_t n, const sl_vertex *order, uint32_t first, uint32_t end,
                                   const uint32_t *rows, sl_vertex *frontier_out, uint32_t *row_of_out,
                                   uint32_t *n_rows_out, bool stop, uint32_t *stop_out)
{
    for (uint64_t i = sl_thread(); i <= n; i += sl_n_threads()) {
        if (i == n) {
            *n_rows_out = rows[n];
            *stop_out = stop;
        } else if (is_between(order[i], first, end)) {
            frontier_out[rows[i]] = order[i];
            row_of_out[order[i] - first] = rows[i];
        }
    }
}

enum sl_status sl_seed_cuda(cudaStream_t stream, uint32_t n, const sl_vertex *order, uint32_t n_hops, bool stop,
                            uint32_t *counts, const struct sl_frontier *frontier)
{
    const char *name = "sl_seed";
    const uint32_t first = frontier->first;
    const uint32_t end = first + frontier->n_part;
    const unsigned n_blocks = sl_blocks((uint64_t)n + 1);
    sl_scratch rows(stream);
    SL_CHECK(rows.take(((size_t)n + 1) * sizeof(uint32_t), name));
    SL_CHECK(sl_start(name, stream, sl_few_blocks(frontier->n_part), forget_rows, counts + sl_counts_rows(n_hops),
                      frontier->ids, first, frontier->row_of));
    SL_CHECK(sl_start(name, stream, n_blocks, flag_seeds, n, order, first, end, rows.as<uint32_t>()));
    SL_CHECK(sl_exclusive_sum(stream, n + 1, rows.as<uint32_t>()));
    return sl_start(name, stream, n_blocks, place_seeds, n, order, first, end, rows.as<uint32_t>(), frontier->ids,
                    frontier->row_of, counts + sl_counts_rows(0), stop, counts + sl_counts_stop(n_hops));
}
