/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Seeds and sampled blocks. A destination has one thread; with LABOR one warp, or one block if its list is long. An
 * edge has one thread, which searches its destination, so that no vertex of high degree delays the others. */
#include "codelets/cub.cuh"
#include "codelets/sampling/marks.cuh"
#include "codelets/sampling/sample.h"

/* What the kernels of one call share: a kernel parameter. */
struct drawing {
    struct sl_sample_part part;
    struct sl_sample_rule rule;
    const sl_vertex *frontier;
    const uint32_t *edge_offsets;
    uint32_t *edges; /* positions in the lists of in-neighbours, then ids, then positions among the sources */
    const uint32_t *n_rows;
    uint32_t max_rows; /* offsets of later rows equal the number of edges */
    uint32_t placed;   /* a bool, without padding: all edges get positions, also those of lists that are taken whole */
};

static inline __device__ uint32_t n_edges_of(const struct drawing &g)
{
    return g.edge_offsets[g.max_rows];
}

/* One warp counts the positive weights of a destination. */
static __global__ void count_positive(struct drawing g, uint32_t *n_edges_out)
{
    for (uint64_t d = sl_warp(); d <= g.max_rows; d += sl_n_warps()) {
        const struct sl_neighbours from =
            d < *g.n_rows ? sl_neighbours_of(&g.part, g.frontier[d]) : sl_neighbours{nullptr, 0, 0};
        const float *weights = g.part.weights + from.first;
        uint32_t n = 0;
        for (struct sl_edge_run run = {}; sl_next_run(&g.part, &from, &run);) {
            const struct sl_sample_rule own = sl_rule_of_run(&g.part, &g.rule, &run);
            uint32_t n_here = 0;
            for (uint32_t base = run.begin; base < run.end; base += SL_WARP) {
                const uint32_t i = base + sl_lane();
                n_here += (uint32_t)__popc(__ballot_sync(SL_ALL_LANES, i < run.end && weights[i] > 0));
            }
            n += sl_sample_count(&own, n_here);
        }
        if (sl_lane() == 0) {
            n_edges_out[d] = n;
        }
    }
}

/* Number of edges of a vertex, unless weights choose them. */
static inline __device__ uint32_t count_of(const struct drawing &g, sl_vertex vertex)
{
    const struct sl_neighbours from = sl_neighbours_of(&g.part, vertex);
    uint32_t n = 0;
    for (struct sl_edge_run run = {}; sl_next_run(&g.part, &from, &run);) {
        const struct sl_sample_rule own = sl_rule_of_run(&g.part, &g.rule, &run);
        n += sl_sample_count(&own, run.end - run.begin);
    }
    return n;
}

/* Offsets of edges by destination. Entries past the last destination have no edges. */
struct edge_offsets {
    struct drawing g;
    uint32_t *offsets_out;

    __device__ uint32_t number(uint64_t d) const
    {
        return d < *g.n_rows ? count_of(g, g.frontier[d]) : 0;
    }
    __device__ void take(uint64_t d, uint32_t before, uint32_t) const
    {
        offsets_out[d] = before;
    }
};

/* ---- neighbor ---- */

#define SHARED_PICKS 32 /* above this number, picks are stored in the edge array itself */

static __global__ void draw_neighbor(struct drawing g, struct sl_draw draw)
{
    __shared__ uint32_t shared[SHARED_PICKS * SL_THREADS];
    const uint32_t k = g.rule.fanout;
    for (uint64_t d = sl_thread(); d < *g.n_rows; d += sl_n_threads()) {
        uint32_t degree = sl_neighbours_of(&g.part, g.frontier[d]).degree;
        uint32_t vertex = g.part.dataset_ids[g.frontier[d]];
        uint32_t *row = g.edges + g.edge_offsets[d];
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

/* Write the positions of a run that is taken whole, or move drawn positions from the run's beginning to that of the
 * list. One of n_threads threads. */
static inline __device__ void place_run(bool whole, const struct sl_edge_run &run, uint32_t n, uint32_t self,
                                        uint32_t n_threads, uint32_t *edges)
{
    for (uint32_t i = self; i < n; i += n_threads) {
        edges[i] = run.begin + (whole ? i : edges[i]);
    }
}

/* replaced, and neighbor by relation. A thread draws the runs of a destination. */
static __global__ void draw_runs(struct drawing g, struct sl_draw draw)
{
    for (uint64_t d = sl_thread(); d < *g.n_rows; d += sl_n_threads()) {
        const struct sl_neighbours from = sl_neighbours_of(&g.part, g.frontier[d]);
        const uint32_t vertex = g.part.dataset_ids[g.frontier[d]];
        uint32_t *row = g.edges + g.edge_offsets[d];
        for (struct sl_edge_run run = {}; sl_next_run(&g.part, &from, &run);) {
            const struct sl_sample_rule own = sl_rule_of_run(&g.part, &g.rule, &run);
            const struct sl_draw own_draw = sl_sample_draw_of(&draw, run.relation);
            const uint32_t degree = run.end - run.begin;
            const uint32_t n = sl_sample_count(&own, degree);
            const bool replaced = own.method == SL_SAMPLE_REPLACED && own.fanout != UINT32_MAX;
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
    uint32_t below = sl_warp_sum_to(n) - n;
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

/* A group of threads draws the runs of destination d. Warps leave long runs to blocks. */
template <unsigned GROUP, typename Keys>
static __device__ void draw_by_keys(const struct drawing &g, const Keys &keys, uint64_t d,
                                    struct labor_room<GROUP> *room)
{
    const struct sl_neighbours from = sl_neighbours_of(&g.part, g.frontier[d]);
    const uint32_t *offsets = g.edge_offsets + d;
    uint32_t *row = g.edges + offsets[0];
    for (struct sl_edge_run run = {}; sl_next_run(&g.part, &from, &run);) {
        const struct sl_sample_rule own = sl_rule_of_run(&g.part, &g.rule, &run);
        const uint32_t degree = run.end - run.begin;
        const struct sl_neighbours ids = {from.ids + run.begin, degree, from.first + run.begin};
        const auto list = keys.list_of(g.part, g.rule, ids, g.part.dataset_ids[g.frontier[d]]);
        const uint32_t n = g.placed ? sl_sample_count(&own, drawable(list, room)) : offsets[1] - offsets[0];
        const bool is_long = n < degree && degree >= LONG_LIST;
        if (is_long == (GROUP > SL_WARP)) {
            if (n > 0 && n < degree) {
                draw_labor(list, n, room, row);
            }
            if (g.placed) {
                wait_for_group<GROUP>();
                place_run(n == degree, run, n, threadIdx.x % GROUP, GROUP, row);
                wait_for_group<GROUP>();
            }
        }
        row += n;
    }
}

template <typename Keys> static __global__ void draw_short(struct drawing g, const Keys keys)
{
    __shared__ struct labor_room<SL_WARP> room[SL_WARPS];
    for (uint64_t d = sl_warp(); d < *g.n_rows; d += sl_n_warps()) {
        draw_by_keys(g, keys, d, &room[threadIdx.x / SL_WARP]);
    }
}

/* A block checks as many destinations as it has threads, then draws for the destinations with long lists. */
template <typename Keys> static __global__ void draw_long(struct drawing g, const Keys keys)
{
    __shared__ struct labor_room<SL_THREADS> room;
    __shared__ uint32_t n_long;
    __shared__ uint32_t long_row[SL_THREADS];
    for (uint64_t d0 = (uint64_t)blockIdx.x * blockDim.x; d0 < *g.n_rows; d0 += sl_n_threads()) {
        const uint64_t d = d0 + threadIdx.x;
        if (threadIdx.x == 0) {
            n_long = 0;
        }
        __syncthreads();
        const uint32_t degree = d < *g.n_rows ? sl_neighbours_of(&g.part, g.frontier[d]).degree : 0;
        const uint32_t n = d < *g.n_rows ? g.edge_offsets[d + 1] - g.edge_offsets[d] : 0;
        if (n > 0 && n < degree && degree >= LONG_LIST) {
            long_row[atomicAdd(&n_long, 1u)] = (uint32_t)d; /* in any order, since each has its own edges */
        }
        __syncthreads();
        for (uint32_t i = 0; i < n_long; i++) {
            draw_by_keys(g, keys, long_row[i], &room);
        }
        __syncthreads();
    }
}

/* ---- edges; their distinct sources are marked in a bitmap ---- */

/* The destination of an edge: the last destination whose edges begin at or before e. */
static inline __device__ uint32_t row_of_edge(const struct drawing &g, uint32_t e)
{
    uint32_t low = 0;
    uint32_t high = g.max_rows;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (g.edge_offsets[middle] <= e) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The entry of edge e of destination d among the part's edges. The edge is a position in the list of in-neighbours, or
 * not written if the whole list is taken. */
static inline __device__ uint64_t entry_of_edge(const struct drawing &g, uint32_t d, uint32_t e)
{
    const struct sl_neighbours from = sl_neighbours_of(&g.part, g.frontier[d]);
    const uint32_t first = g.edge_offsets[d];
    const bool whole = !g.placed && from.degree == g.edge_offsets[d + 1] - first;
    return from.first + (whole ? e - first : g.edges[e]);
}

/* Replace drawn positions, or whole lists, by ids, and mark the ids. Also writes the destination of each edge.
 * rows_out: NULL: not wanted. */
static __global__ void take_edges(struct drawing g, uint64_t *words, uint32_t *rows_out)
{
    for (uint64_t e = sl_thread(); e < n_edges_of(g); e += sl_n_threads()) {
        const uint32_t d = row_of_edge(g, (uint32_t)e);
        const sl_vertex id = g.part.sources[entry_of_edge(g, d, (uint32_t)e)];
        g.edges[e] = id;
        if (rows_out != nullptr) {
            rows_out[e] = d;
        }
        sl_mark(words, id);
    }
}

/* The same if edges are ids already. */
static __global__ void mark_edges(struct drawing g, uint64_t *words, uint32_t *rows_out)
{
    for (uint64_t e = sl_thread(); e < n_edges_of(g); e += sl_n_threads()) {
        if (rows_out != nullptr) {
            rows_out[e] = row_of_edge(g, (uint32_t)e);
        }
        sl_mark(words, g.edges[e]);
    }
}

/* Replace drawn positions, or whole lists, by ids, and excluded edges by self loops if loops are wanted. Flags the
 * edges that stay; more entries, at least one, for the total. */
static __global__ void flag_kept(struct drawing g, uint32_t max_edges, uint32_t *flags_out)
{
    for (uint64_t e = sl_thread(); e <= max_edges; e += sl_n_threads()) {
        flags_out[e] = 0;
        if (e < n_edges_of(g)) {
            const uint32_t d = row_of_edge(g, (uint32_t)e);
            const sl_vertex id = g.part.sources[entry_of_edge(g, d, (uint32_t)e)];
            const bool gone = sl_is_excluded(&g.part.excluded, id, g.frontier[d]);
            flags_out[e] = !gone || g.part.excluded.loops != 0;
            g.edges[e] = gone ? g.frontier[d] : id;
        }
    }
}

/* Copy items with a place of their own: places[e + 1] > places[e]. */
template <typename T> static __global__ void keep_items(struct drawing g, const uint32_t *places, const T *from, T *to)
{
    for (uint64_t e = sl_thread(); e < n_edges_of(g); e += sl_n_threads()) {
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

/* The value of each edge. values: of the part's edges. */
template <typename T> static __global__ void take_values(struct drawing g, const T *values, T *values_out)
{
    for (uint64_t e = sl_thread(); e < n_edges_of(g); e += sl_n_threads()) {
        values_out[e] = values[entry_of_edge(g, row_of_edge(g, (uint32_t)e), (uint32_t)e)];
    }
}

/* Edges become positions among the sources. Entries behind them, if there are any, become n_after. Also the positions
 * of the owners, and the sizes. */
static __global__ void rank_edges(struct drawing g, uint32_t n_entries, uint32_t n_after, uint32_t n_words,
                                  const uint64_t *words, const uint32_t *ranks, uint32_t *request_out,
                                  struct sl_sample_sizes sizes)
{
    for (uint64_t e = sl_thread(); e < n_entries; e += sl_n_threads()) {
        g.edges[e] = e < n_edges_of(g) ? sl_rank_of(n_words, words, ranks, g.edges[e]) : n_after;
    }
    for (uint64_t q = sl_thread(); q <= g.part.n_parts; q += sl_n_threads()) {
        request_out[q] = sl_rank_of(n_words, words, ranks, g.part.first[q]);
        if (sizes.positions != nullptr) {
            sizes.positions[q] = request_out[q];
        }
        *sizes.n_edges = n_edges_of(g);
    }
}

/* After the edges are sorted by source: the first edge of each source. */
static __global__ void find_borders(struct drawing g, const uint32_t *sorted, uint32_t *back_offsets_out)
{
    const uint32_t n_edges = n_edges_of(g);
    if (n_edges == 0 && sl_thread() == 0) {
        back_offsets_out[0] = 0;
    }
    for (uint64_t e = sl_thread(); e < n_edges; e += sl_n_threads()) {
        if (e == 0 || sorted[e] != sorted[e - 1]) {
            back_offsets_out[sorted[e]] = (uint32_t)e;
        }
        if (e + 1 == n_edges) {
            back_offsets_out[sorted[e] + 1] = n_edges;
        }
    }
}

/* Edges of `neighbor`, as ids that are marked, and their offsets and destinations. A thread draws for a destination,
 * for fanouts up to SHARED_PICKS. */
struct neighbor_edges {
    struct drawing g;
    struct sl_draw draw;
    uint32_t *offsets_out;
    uint64_t *words;
    uint32_t *rows_out; /* NULL: not wanted */

    __device__ uint32_t number(uint64_t d) const
    {
        return d < *g.n_rows ? sl_least(sl_neighbours_of(&g.part, g.frontier[d]).degree, g.rule.fanout) : 0;
    }
    __device__ void take(uint64_t d, uint32_t before, uint32_t n) const
    {
        __shared__ uint32_t shared[SHARED_PICKS * SL_THREADS];
        uint32_t *picks = shared + threadIdx.x;
        offsets_out[d] = before;
        if (n == 0) {
            return;
        }
        const struct sl_neighbours from = sl_neighbours_of(&g.part, g.frontier[d]);
        if (from.degree > n) {
            sl_pick_neighbor(&draw, g.part.dataset_ids[g.frontier[d]], from.degree, n, SL_THREADS, picks);
        }
        for (uint32_t i = 0; i < n; i++) {
            const sl_vertex id = from.ids[from.degree > n ? picks[i * SL_THREADS] : i];
            g.edges[before + i] = id;
            if (rows_out != nullptr) {
                rows_out[before + i] = (uint32_t)d;
            }
            sl_mark(words, id);
        }
    }
};

/* ---- the launcher ---- */

/* With more edges than this at most, for each row or in all, the host waits for their number. */
#define MANY_EDGES 64
#define LARGE_BLOCK ((uint32_t)4 << 20)

/* Common data of the steps of one call. */
struct sample_call {
    cudaStream_t stream;
    const struct sl_sample_marks *marks;
    const struct sl_sample_sizes *sizes;
    const struct sl_sample_block *block;
    struct drawing g;
    uint32_t max_edges; /* the host does not know their number */
};

static enum sl_status place_edges(const struct sample_call *call, uint32_t *offsets_out)
{
    const char *name = "sl_sample: degrees";
    const uint64_t n = (uint64_t)call->g.max_rows + 1;
    if (call->g.rule.method == SL_SAMPLE_WEIGHTED) {
        SL_CHECK(sl_start(name, call->stream, sl_warp_blocks(n), count_positive, call->g, offsets_out));
        return sl_exclusive_sum(call->stream, n, offsets_out);
    }
    return sl_scan_each(name, call->stream, n, edge_offsets{call->g, offsets_out});
}

/* Draw positions by keys: a warp for a list, or a block for a long one. */
template <typename Keys> static enum sl_status draw_by(const struct sample_call *call, const Keys &keys)
{
    const char *name = "sl_sample: by keys";
    SL_CHECK(sl_start(name, call->stream, sl_warp_blocks(call->g.max_rows), draw_short<Keys>, call->g, keys));
    return sl_start(name, call->stream, sl_blocks(call->g.max_rows), draw_long<Keys>, call->g, keys);
}

/* Draw positions for the destinations that do not take their whole list. */
static enum sl_status draw_edges(const struct sample_call *call, const struct sl_draw *draw)
{
    const struct sl_sample_rule *rule = &call->g.rule;
    const unsigned n_blocks = sl_blocks(call->g.max_rows);
    if (rule->method == SL_SAMPLE_WEIGHTED) {
        return draw_by(call, weighted_keys{*draw});
    }
    if (sl_sample_by_keys(rule)) {
        return draw_by(call, labor_keys{sl_labor_turn(draw->seed, draw->step, draw->hop, rule)});
    }
    if (call->g.placed) {
        return sl_start("sl_sample: runs", call->stream, n_blocks, draw_runs, call->g, *draw);
    }
    if (rule->method == SL_SAMPLE_NEIGHBOR) {
        return sl_start("sl_sample: neighbor", call->stream, n_blocks, draw_neighbor, call->g, *draw);
    }
    return SL_OK;
}

/* The values of all edges, if they are wanted. */
template <typename T> static enum sl_status take_all(const struct sample_call *call, const T *values, T *out)
{
    if (out == nullptr) {
        return SL_OK;
    }
    return sl_start("sl_sample: values", call->stream, sl_blocks(call->max_edges), take_values<T>, call->g, values,
                    out);
}

/* Copy the kept items of `from`, if it is not NULL, over its first items. room: n_edges words. */
template <typename T>
static enum sl_status keep_in_place(const struct sample_call *call, const uint32_t *places, T *from, void *room)
{
    const char *name = "sl_sample: excluded";
    const uint32_t n = call->max_edges;
    if (from == nullptr) {
        return SL_OK;
    }
    SL_CHECK(sl_start(name, call->stream, sl_blocks(n), keep_items<T>, call->g, places, (const T *)from, (T *)room));
    return sl_cuda_status(cudaMemcpyAsync(from, room, (size_t)n * sizeof *from, cudaMemcpyDeviceToDevice, call->stream),
                          name);
}

/* Drop the excluded edges. The others become ids. */
static enum sl_status drop_excluded(const struct sample_call *call)
{
    const char *name = "sl_sample: excluded";
    const struct sl_sample_block *block = call->block;
    const size_t n = call->max_edges;
    sl_scratch scratch(call->stream);
    SL_CHECK(scratch.take((2 * n + 1) * sizeof(uint32_t), name));
    uint32_t *places = scratch.as<uint32_t>();
    SL_CHECK(sl_start(name, call->stream, sl_blocks(n + 1), flag_kept, call->g, call->max_edges, places));
    SL_CHECK(sl_exclusive_sum(call->stream, n + 1, places));
    SL_CHECK(keep_in_place(call, places, block->edge_sources, places + n + 1));
    SL_CHECK(keep_in_place(call, places, block->edge_weights, places + n + 1));
    SL_CHECK(keep_in_place(call, places, block->edge_relations, places + n + 1));
    SL_CHECK(keep_in_place(call, places, block->edge_rows, places + n + 1));
    return sl_start(name, call->stream, sl_blocks((uint64_t)block->max_rows + 1), move_offsets, block->max_rows, places,
                    block->edge_offsets);
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

/* Rank and list all marked sources. Edges become positions among the sources. All max_edges entries are sorted: those
 * behind the edges become n_after, which is more than any position. */
static enum sl_status list_sources(const struct sample_call *call, uint32_t n_after)
{
    const char *name = "sl_sample: sources";
    const struct drawing *g = &call->g;
    const uint32_t n_words = sl_n_words(call->marks->n_vertices);
    uint64_t *words = call->marks->words;
    uint32_t *ranks = call->marks->ranks;
    SL_CHECK(sl_list_marked(name, call->stream, n_words, words, g->part.n_parts, ranks, call->block->request));
    SL_CHECK(sl_start(name, call->stream, sl_blocks(call->max_edges), rank_edges, *g, call->max_edges, n_after, n_words,
                      words, ranks, call->block->request, *call->sizes));
    return sl_cuda_status(cudaMemsetAsync(words, 0, (size_t)n_words * sizeof *words, call->stream), name);
}

/* Memory for the transpose, if it is wanted: 2 max_edges words, first the destination of each edge. */
static enum sl_status take_room(const struct sample_call *call, sl_scratch *scratch)
{
    if (call->block->back_offsets == nullptr) {
        return SL_OK;
    }
    return scratch->take(2 * sizeof(uint32_t) * (size_t)call->max_edges, "sl_sample: edges");
}

/* List the marked sources, and transpose the block, if that is wanted, by a stable sort of the edges. */
static enum sl_status close_block(const struct sample_call *call, uint32_t *room)
{
    const struct sl_sample_block *block = call->block;
    const uint32_t n = call->max_edges;
    const uint32_t n_after = sl_least(call->marks->n_vertices, n);
    const int n_bits = bits_below((uint64_t)n_after + 1);
    SL_CHECK(list_sources(call, n_after));
    if (block->back_offsets == nullptr) {
        return SL_OK;
    }
    uint32_t *sorted = room + n;
    SL_CHECK(sl_sort_pairs(call->stream, n, n_bits, call->g.edges, room, sorted, block->back_rows));
    if (block->edge_weights != nullptr) { /* a weight is sorted as a word of four bytes */
        SL_CHECK(sl_sort_pairs(call->stream, n, n_bits, call->g.edges,
                               (const uint32_t *)(const void *)block->edge_weights, sorted,
                               (uint32_t *)(void *)block->back_weights));
    }
    if (block->edge_relations != nullptr) {
        SL_CHECK(sl_sort_pairs(call->stream, n, n_bits, call->g.edges, block->edge_relations, sorted,
                               block->back_relations));
    }
    if (block->back_edges != nullptr) {
        SL_CHECK(sl_sort_pairs(call->stream, n, n_bits, call->g.edges, block->edge_rows, sorted, block->back_edges));
    }
    return sl_start("sl_sample: back offsets", call->stream, sl_blocks(n), find_borders, call->g, sorted,
                    block->back_offsets);
}

/* The same if edges are ids that are not marked yet. */
static enum sl_status mark_and_close(const struct sample_call *call, uint32_t *room)
{
    SL_CHECK(sl_start("sl_sample: edges", call->stream, sl_blocks(call->max_edges), mark_edges, call->g,
                      call->marks->words, room));
    return close_block(call, room);
}

/* Whether edges are drawn, read and marked in one launch: they carry nothing, and are few for each destination. */
static bool takes_at_once(const struct sample_call *call)
{
    const struct drawing *g = &call->g;
    const struct sl_sample_block *block = call->block;
    const bool plain =
        block->edge_weights == nullptr && block->edge_relations == nullptr && block->edge_rows == nullptr;
    return call->max_edges <= LARGE_BLOCK && g->rule.method == SL_SAMPLE_NEIGHBOR && g->rule.fanout <= SHARED_PICKS &&
           !g->placed && plain && g->part.excluded.table == nullptr;
}

enum sl_status sl_block_close_cuda(cudaStream_t stream, const struct sl_sample_part *part, uint32_t n_rows,
                                   uint32_t n_edges, const struct sl_sample_marks *marks,
                                   const struct sl_sample_sizes *sizes, const struct sl_sample_block *block)
{
    (void)n_rows;
    const struct drawing g = {*part,           {},   nullptr, block->edge_offsets, block->edge_sources, sizes->n_rows,
                              block->max_rows, false};
    const struct sample_call call = {stream, marks, sizes, block, g, n_edges};
    sl_scratch scratch(stream);
    SL_CHECK(take_room(&call, &scratch));
    return mark_and_close(&call, scratch.as<uint32_t>());
}

enum sl_status sl_sample_cuda(cudaStream_t stream, const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                              const struct sl_draw *draw, const sl_vertex *frontier,
                              const struct sl_sample_marks *marks, const struct sl_sample_sizes *sizes,
                              const struct sl_sample_block *block)
{
    const uint32_t max_rows = block->max_rows;
    const bool placed = rule->method == SL_SAMPLE_REPLACED || part->fanouts != nullptr;
    struct sample_call call = {
        stream,
        marks,
        sizes,
        block,
        {*part, *rule, frontier, block->edge_offsets, block->edge_sources, sizes->n_rows, max_rows, placed},
        block->max_edges};
    sl_scratch scratch(stream);
    if (takes_at_once(&call)) {
        SL_CHECK(take_room(&call, &scratch));
        const struct neighbor_edges edges = {call.g, *draw, block->edge_offsets, marks->words, scratch.as<uint32_t>()};
        SL_CHECK(sl_scan_each("sl_sample: neighbor", stream, (uint64_t)max_rows + 1, edges));
        return close_block(&call, scratch.as<uint32_t>());
    }
    SL_CHECK(place_edges(&call, block->edge_offsets));
    if (call.max_edges / MANY_EDGES > max_rows || call.max_edges > LARGE_BLOCK) {
        SL_CHECK(sl_read_size("sl_sample: its size", stream, block->edge_offsets + max_rows, &call.max_edges));
    }
    SL_CHECK(take_room(&call, &scratch));
    SL_CHECK(draw_edges(&call, draw));
    SL_CHECK(take_all(&call, part->weights, block->edge_weights));
    SL_CHECK(take_all(&call, part->relations, block->edge_relations));
    SL_CHECK(take_all(&call, part->rows, block->edge_rows));
    if (part->excluded.table != nullptr) {
        SL_CHECK(drop_excluded(&call));
        return mark_and_close(&call, scratch.as<uint32_t>());
    }
    SL_CHECK(sl_start("sl_sample: edges", stream, sl_blocks(call.max_edges), take_edges, call.g, marks->words,
                      scratch.as<uint32_t>()));
    return close_block(&call, scratch.as<uint32_t>());
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

/* The ids of the part become the frontier; one more item, for the total. */
struct seed_rows {
    uint32_t n, stop;
    const sl_vertex *order;
    uint32_t first, end;
    sl_vertex *frontier_out;
    uint32_t *row_of_out, *n_rows_out, *stop_out;

    __device__ uint32_t number(uint64_t i) const
    {
        return i < n && is_between(order[i], first, end);
    }
    __device__ void take(uint64_t i, uint32_t before, uint32_t number) const
    {
        if (i == n) {
            *n_rows_out = before;
            *stop_out = stop;
        } else if (number > 0) {
            frontier_out[before] = order[i];
            row_of_out[order[i] - first] = before;
        }
    }
};

enum sl_status sl_seed_cuda(cudaStream_t stream, uint32_t n, const sl_vertex *order, uint32_t n_hops, bool stop,
                            uint32_t *counts, const struct sl_frontier *frontier)
{
    const char *name = "sl_seed";
    const uint32_t first = frontier->first;
    const uint32_t end = first + frontier->n_part;
    SL_CHECK(sl_start(name, stream, sl_few_blocks(frontier->n_part), forget_rows, counts + sl_counts_rows(n_hops),
                      frontier->ids, first, frontier->row_of));
    const struct seed_rows rows = {n,
                                   stop,
                                   order,
                                   first,
                                   end,
                                   frontier->ids,
                                   frontier->row_of,
                                   counts + sl_counts_rows(0),
                                   counts + sl_counts_stop(n_hops)};
    return sl_scan_each(name, stream, (uint64_t)n + 1, rows);
}
