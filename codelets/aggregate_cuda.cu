/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Weighted sums over sampled in-neighbours, and the transposed sums, on a device.
 *
 * All sums use one kernel, sum_lists. An item has a list of terms, a row and a weight each, and an output row. A group
 * of lanes serves one item and one tile of its columns. The lanes look up as many rows as there are lanes, one each,
 * and exchange the addresses. So loads of UNROLL rows are in flight before the first row is added. Terms are added in
 * the order of the list, as on the CPU and with the same bits. A list longer than LONG would delay a whole kernel. So
 * the groups of a block take a slice of it each, and the sums of the slices are added in order. The result depends on
 * the list and on the width alone, never on the grid. */
#include <type_traits>

#include "codelets/bf16.cuh"
#include "codelets/sources.cuh"

#include "codelets/aggregate.h"
#include "codelets/sample.h"

#define LONG 256   /* most terms that a group adds alone */
#define UNROLL 4   /* rows in flight per lane */
#define TARGETS 64 /* owners per launch of the backward kernel */

/* ---- one or four columns at a time ---- */

static inline __device__ float nothing(float)
{
    return 0;
}

static inline __device__ float4 nothing(float4)
{
    return make_float4(0, 0, 0, 0);
}

/* ---- lists ---- */

/* One item: terms begin .. end - 1, with this weight unless the terms have their own. out NULL: nothing to do. Lists
 * with symmetric weights also give the vertex of the item, and some a row to add before the terms. */
struct item {
    uint64_t begin, end;
    void *out;
    sl_real weight;
    sl_vertex id;
    sl_real self_weight;
    const void *self;
};

/* Properties of a list: the stored types of its rows and of its sums; whether it sums rows or moves them; whether terms
 * have weights of their own; whether an item has a row before its terms. */
template <typename S, typename T> struct plain_list {
    typedef S source;
    typedef T target;
    static const bool sums = true;
    static const bool weighs_terms = false;
    static const bool adds_self = false;
};

/* Destinations of a block, from row row0 on. offsets: from row row0 on. */
template <typename S, typename T> struct block_means : plain_list<S, T> {
    const uint32_t *offsets;
    const uint32_t *edge_sources;
    T *m;
    struct sl_device_sources x;

    __device__ struct item item_of(uint32_t d, uint32_t n_columns) const
    {
        uint32_t begin = __ldg(offsets + d);
        uint32_t end = __ldg(offsets + d + 1);
        return {begin, end, m + (size_t)d * n_columns, 1 / (sl_real)(end - begin), 0, 0, nullptr};
    }
    __device__ const S *row(const struct item &, uint64_t e, uint32_t n_columns, sl_real *) const
    {
        return sl_source_row<S>(x, __ldg(edge_sources + e), n_columns);
    }
};

/* The weight of an edge, from the item's factor, the other vertex' factor and its id. */
static inline __device__ sl_real weight_of(const struct item &it, sl_real other, sl_vertex id)
{
    return id == it.id ? 0 : it.weight * other;
}

/* The same destinations with symmetric weights. */
template <typename S, typename T> struct block_sums : plain_list<S, T> {
    static const bool weighs_terms = true;
    static const bool adds_self = true;
    struct block_means<S, T> block;
    struct sl_weights weights;
    uint32_t row0;

    __device__ struct item item_of(uint32_t d, uint32_t n_columns) const
    {
        struct item it = block.item_of(d, n_columns);
        it.id = sl_weights_destination(&weights, row0 + d);
        it.weight = sl_weights_share(&weights, it.id, it.end - it.begin);
        it.self_weight = sl_weights_self(&weights, it.id);
        it.self = sl_chunk_row<S>(block.x.rows, row0 + d, n_columns);
        return it;
    }
    __device__ const S *row(const struct item &it, uint64_t e, uint32_t n_columns, sl_real *weight) const
    {
        const uint32_t position = __ldg(block.edge_sources + e);
        const sl_vertex id = sl_weights_source(&weights, position);
        *weight = weight_of(it, sl_weights_factor(&weights, id), id);
        return sl_source_row<S>(block.x, position, n_columns);
    }
};

/* Destinations of a whole part. */
template <typename S, typename T> struct part_means : plain_list<S, T> {
    const uint64_t *offsets; /* of the part; `sources` begins at the first */
    const sl_vertex *sources;
    T *m;
    uint32_t m_width;
    uint32_t row0;
    struct sl_device_parts parts;
    uint32_t width[SL_MAX_PES];

    __device__ struct item item_of(uint32_t i, uint32_t) const
    {
        uint64_t origin = __ldg(offsets);
        uint64_t begin = __ldg(offsets + row0 + i) - origin;
        uint64_t end = __ldg(offsets + row0 + i + 1) - origin;
        return {begin, end, m + (size_t)i * m_width, 1 / (sl_real)(end - begin), 0, 0, nullptr};
    }
    __device__ const S *row(const struct item &, uint64_t e, uint32_t, sl_real *) const
    {
        return row_of(__ldg(sources + e));
    }
    __device__ const S *row_of(sl_vertex id) const
    {
        const uint32_t q = parts.part_of(id);
        return parts.row<S>(q, id, width[q]);
    }
};

/* The same destinations with symmetric weights. */
template <typename S, typename T> struct part_sums : plain_list<S, T> {
    static const bool weighs_terms = true;
    static const bool adds_self = true;
    struct part_means<S, T> part;
    struct sl_weights weights;

    __device__ struct item item_of(uint32_t i, uint32_t n_columns) const
    {
        struct item it = part.item_of(i, n_columns);
        it.id = sl_weights_destination(&weights, part.row0 + i);
        it.weight = sl_weights_share(&weights, it.id, it.end - it.begin);
        it.self_weight = sl_weights_self(&weights, it.id);
        it.self = part.row_of(it.id);
        return it;
    }
    __device__ const S *row(const struct item &it, uint64_t e, uint32_t, sl_real *weight) const
    {
        const sl_vertex id = __ldg(part.sources + e);
        *weight = weight_of(it, sl_weights_factor(&weights, id), id);
        return part.row_of(id);
    }
};

/* Any of these lists, with a weight for each edge. */
template <typename List> struct edge_weighted : List {
    static const bool weighs_terms = true;
    const float *edge_weights;

    __device__ const typename List::source *row(const struct item &it, uint64_t e, uint32_t n_columns,
                                                sl_real *weight) const
    {
        const typename List::source *found = List::row(it, e, n_columns, weight);
        *weight *= __ldg(edge_weights + e);
        return found;
    }
};

/* A block by source. The terms are gradients of destinations, each divided by the degree. */
struct transposed_means {
    const uint32_t *back_offsets;
    const uint32_t *back_rows;
    const uint32_t *edge_offsets;
    struct sl_device_rows gm;

    __device__ void begin(uint32_t, struct item *) const
    {
    }
    __device__ uint32_t degree(uint32_t d) const
    {
        return __ldg(edge_offsets + d + 1) - __ldg(edge_offsets + d);
    }
    __device__ const sl_real *row(const struct item &, uint64_t e, uint32_t n_columns, sl_real *weight) const
    {
        uint32_t d = __ldg(back_rows + e);
        *weight = 1 / (sl_real)degree(d);
        return sl_chunk_row<sl_real>(gm, d, n_columns);
    }
};

/* The same with symmetric weights. */
struct transposed_sums : transposed_means {
    struct sl_weights weights;

    __device__ void begin(uint32_t t, struct item *it) const
    {
        it->id = sl_weights_source(&weights, t);
        it->weight = sl_weights_factor(&weights, it->id);
    }
    __device__ const sl_real *row(const struct item &it, uint64_t e, uint32_t n_columns, sl_real *weight) const
    {
        const uint32_t d = __ldg(back_rows + e);
        const sl_vertex id = sl_weights_destination(&weights, d);
        *weight = weight_of(it, sl_weights_share(&weights, id, degree(d)), id);
        return sl_chunk_row<sl_real>(gm, d, n_columns);
    }
};

/* Either of these, with a weight for each edge. */
template <typename Transposed> struct back_weighted : Transposed {
    const float *back_weights;

    __device__ const sl_real *row(const struct item &it, uint64_t e, uint32_t n_columns, sl_real *weight) const
    {
        const sl_real *found = Transposed::row(it, e, n_columns, weight);
        *weight *= __ldg(back_weights + e);
        return found;
    }
};

/* Gradients that go back to other owners. Items first[k] .. first[k + 1] - 1 are positions t0[k] and on, and rows of
 * packed[k]. */
template <typename Transposed, typename T> struct sent_gradients : plain_list<sl_real, T> {
    static const bool weighs_terms = true;
    Transposed block;
    uint32_t t0[TARGETS];
    uint32_t first[TARGETS + 1];
    T *packed[TARGETS];

    __device__ struct item item_of(uint32_t i, uint32_t n_columns) const
    {
        uint32_t k = 0;
        while (i >= first[k + 1]) {
            k++;
        }
        uint32_t row = i - first[k];
        const uint32_t *bounds = block.back_offsets + t0[k] + row;
        struct item it = {__ldg(bounds), __ldg(bounds + 1), packed[k] + (size_t)row * n_columns, 0, 0, 0, nullptr};
        block.begin(t0[k] + row, &it);
        return it;
    }
    __device__ const sl_real *row(const struct item &it, uint64_t e, uint32_t n_columns, sl_real *weight) const
    {
        return block.row(it, e, n_columns, weight);
    }
};

/* A PE's own sources, from position t0 on. Sources outside the rows of g are skipped. */
template <typename Transposed> struct own_gradients : plain_list<sl_real, sl_real> {
    static const bool weighs_terms = true;
    Transposed block;
    struct sl_asked asked;
    struct sl_gradient g;
    uint32_t t0;

    __device__ struct item item_of(uint32_t i, uint32_t n_columns) const
    {
        uint32_t row = __ldg(sl_list_of(asked.inverse, asked.n_parts, asked.requester) + i) -
                       g.row0; /* a row below row0 wraps, and is too large */
        if (row >= g.n_rows) {
            return {0, 0, nullptr, 0, 0, 0, nullptr};
        }
        const uint32_t *bounds = block.back_offsets + t0 + i;
        struct item it = {__ldg(bounds), __ldg(bounds + 1), g.rows + (size_t)row * n_columns, 0, 0, 0, nullptr};
        block.begin(t0 + i, &it);
        return it;
    }
    __device__ const sl_real *row(const struct item &it, uint64_t e, uint32_t n_columns, sl_real *weight) const
    {
        return block.row(it, e, n_columns, weight);
    }
};

/* Self terms of the destinations: items without a list. */
struct self_gradients : plain_list<sl_real, sl_real> {
    static const bool adds_self = true;
    struct sl_weights weights;
    struct sl_device_rows gm;
    struct sl_gradient g;

    __device__ struct item item_of(uint32_t i, uint32_t n_columns) const
    {
        const sl_vertex id = sl_weights_destination(&weights, g.row0 + i);
        return {0,
                0,
                g.rows + (size_t)i * n_columns,
                0,
                id,
                sl_weights_self(&weights, id),
                sl_chunk_row<sl_real>(gm, g.row0 + i, n_columns)};
    }
    __device__ const sl_real *row(const struct item &, uint64_t, uint32_t, sl_real *) const
    {
        return nullptr;
    }
};

/* ---- sums ---- */

/* The work of a lane: a vector of V's width among the columns of its group's item, if active. */
struct tile {
    uint32_t n_columns, column;
    bool active;
};

/* A V in memory, among the rows of a list or among its sums. */
template <typename List, typename V> using source_of = typename sl_stored<typename List::source, V>::type;
template <typename List, typename V> using target_of = typename sl_stored<typename List::target, V>::type;

/* sum + the n terms of an item from `begin` on, in order. All lanes of a warp call it together, whatever their n. */
template <typename V, uint32_t LANES, typename List>
static inline __device__ V add_terms(const List &list, const struct tile &tile, const struct item &it, uint64_t begin,
                                     uint32_t n, V sum)
{
    static_assert(LANES % UNROLL == 0, "the lanes' terms are added UNROLL at a time");
    const uint32_t lane = sl_lane() % LANES;
    const uint32_t lane0 = sl_lane() - lane;
    const uint32_t most = sl_group_max<LANES>(n);
    for (uint32_t done = 0; done < most; done += LANES) {
        const typename List::source *my_row = nullptr;
        sl_real my_weight = it.weight;
        if (done + lane < n) {
            my_row = list.row(it, begin + done + lane, tile.n_columns, &my_weight);
        }
        for (uint32_t k = 0; k < LANES && done + k < most; k += UNROLL) {
            source_of<List, V> x[UNROLL];
            SL_UNROLL
            for (uint32_t u = 0; u < UNROLL; u++) {
                const source_of<List, V> *row =
                    (const source_of<List, V> *)__shfl_sync(SL_ALL_LANES, (unsigned long long)my_row, lane0 + k + u);
                if (tile.active && done + k + u < n) {
                    x[u] = __ldg(row + tile.column);
                }
            }
            SL_UNROLL
            for (uint32_t u = 0; u < UNROLL; u++) {
                sl_real w = List::weighs_terms ? __shfl_sync(SL_ALL_LANES, my_weight, lane0 + k + u) : it.weight;
                if (tile.active && done + k + u < n) {
                    sum = sl_plus(sum, sl_times(w, sl_wide(x[u])));
                }
            }
        }
    }
    return sum;
}

/* The row before an item's terms. */
template <typename V, typename List> static inline __device__ V own_term(const struct tile &tile, const struct item &it)
{
    return sl_times(it.self_weight, sl_wide(__ldg((const source_of<List, V> *)it.self + tile.column)));
}

/* Add an item's list, or nothing if the block takes the list. */
template <typename V, uint32_t LANES, typename List>
static inline __device__ void sum_alone(const List &list, const struct tile &tile, const struct item &it, int beta)
{
    const bool leaves = it.end - it.begin > LONG;
    const bool writes = tile.active && it.out != nullptr && !leaves;
    target_of<List, V> *out = (target_of<List, V> *)it.out + tile.column;
    V sum = nothing(V());
    if (writes && beta) {
        sum = sl_wide(*out);
    }
    if constexpr (List::adds_self) {
        sum = writes ? sl_plus(sum, own_term<V, List>(tile, it)) : sum;
    }
    const uint32_t n = leaves ? 0 : (uint32_t)(it.end - it.begin);
    sum = add_terms<V, LANES>(list, tile, it, it.begin, n, sum);
    if (writes) {
        sl_store(sum, out);
    }
}

/* Add a long list: each group of the block takes a slice. part: room for one V per thread. All threads call it
 * together. */
template <typename V, uint32_t LANES, typename List>
static inline __device__ void sum_together(const List &list, const struct tile &tile, const struct item &it, int beta,
                                           V *part)
{
    const uint32_t n_groups = SL_THREADS / LANES;
    const uint32_t group = threadIdx.x / LANES;
    const uint64_t length = it.end - it.begin;
    const uint64_t begin = length * group / n_groups;
    const uint32_t n = (uint32_t)(length * (group + 1) / n_groups - begin);
    part[threadIdx.x] = add_terms<V, LANES>(list, tile, it, it.begin + begin, n, nothing(V()));
    __syncthreads();
    if (group == 0 && tile.active) {
        target_of<List, V> *out = (target_of<List, V> *)it.out + tile.column;
        V sum = beta ? sl_wide(*out) : nothing(V());
        if constexpr (List::adds_self) {
            sum = sl_plus(sum, own_term<V, List>(tile, it));
        }
        for (uint32_t k = 0; k < n_groups; k++) {
            sum = sl_plus(sum, part[k * LANES + threadIdx.x]);
        }
        sl_store(sum, out);
    }
    __syncthreads();
}

/* Block b has tile b / n_blocks of the items of block b % n_blocks. b < 2^32: the rows of a launch have fewer than 2^38
 * numbers (StarPU's limit, times the chunks). */
template <typename V, uint32_t LANES, typename List>
static __global__ void __launch_bounds__(SL_THREADS, 3)
    sum_lists(const List list, uint32_t n_items, uint32_t n_columns, uint32_t n_vectors, int beta)
{
    const uint32_t n_groups = SL_THREADS / LANES;
    __shared__ bool is_long[n_groups];
    __shared__ V part[SL_THREADS];
    const uint32_t group = threadIdx.x / LANES;
    const uint32_t lane = threadIdx.x % LANES;
    const uint32_t n_blocks = (uint32_t)(((uint64_t)n_items + n_groups - 1) / n_groups);
    const uint32_t n_tiles = (n_vectors + LANES - 1) / LANES;
    for (uint32_t b = blockIdx.x; b < n_blocks * n_tiles; b += gridDim.x) {
        const uint32_t item0 = b % n_blocks * n_groups;
        const uint32_t column = b / n_blocks * LANES + lane;
        const struct tile tile = {n_columns, column, column < n_vectors};
        struct item it = {0, 0, nullptr, 0, 0, 0, nullptr};
        if (group < n_items - item0) {
            it = list.item_of(item0 + group, n_columns);
        }
        sum_alone<V, LANES>(list, tile, it, beta);
        if (!__syncthreads_or(it.end - it.begin > LONG)) {
            continue;
        }
        if (lane == 0) {
            is_long[group] = it.end - it.begin > LONG;
        }
        __syncthreads();
        for (uint32_t i = 0; i < n_groups; i++) {
            if (is_long[i]) {
                sum_together<V, LANES>(list, tile, list.item_of(item0 + i, n_columns), beta, part);
            }
        }
    }
}

/* ---- rows that are copied, or added once ---- */

/* The rows that a PE sent. Entry i says which row of g item i goes to; rows outside g are skipped. */
template <typename S> struct sent_rows {
    typedef S source;
    static const bool sums = false;
    struct sl_asked asked;
    const S *sent;
    struct sl_gradient g;

    __device__ const S *from(uint32_t i, uint32_t n_columns) const
    {
        return sent + (size_t)i * n_columns;
    }
    __device__ sl_real *to(uint32_t i, uint32_t n_columns) const
    {
        uint32_t row = __ldg(sl_list_of(asked.inverse, asked.n_parts, asked.requester) + i) - g.row0;
        return row < g.n_rows ? g.rows + (size_t)row * n_columns : nullptr;
    }
};

/* The sources of a block, in order of position. */
struct source_rows {
    typedef sl_real source;
    static const bool sums = false;
    sl_real *copy;
    struct sl_device_sources x;

    __device__ const sl_real *from(uint32_t i, uint32_t n_columns) const
    {
        return sl_source_row<sl_real>(x, i, n_columns);
    }
    __device__ sl_real *to(uint32_t i, uint32_t n_columns) const
    {
        return copy + (size_t)i * n_columns;
    }
};

template <typename V, uint32_t LANES, typename Pairs>
static __global__ void move_rows(const Pairs pairs, uint32_t n, uint32_t n_columns, uint32_t n_vectors, int beta)
{
    const uint32_t lane = threadIdx.x % LANES;
    for (uint64_t i = sl_thread() / LANES; i < n; i += sl_n_threads() / LANES) {
        V *to = (V *)pairs.to((uint32_t)i, n_columns);
        if (to == nullptr) {
            continue;
        }
        const source_of<Pairs, V> *from = (const source_of<Pairs, V> *)pairs.from((uint32_t)i, n_columns);
        for (uint32_t c = lane; c < n_vectors; c += LANES) {
            to[c] = beta ? sl_plus(to[c], sl_wide(__ldg(from + c))) : sl_wide(__ldg(from + c));
        }
    }
}

/* ---- launches ---- */

/* All row addresses, or'ed. Four numbers can be read at a time if the lowest four bits are zero. */
static uintptr_t address_bits(enum sl_dtype dtype, const struct sl_device_rows *rows)
{
    uintptr_t bits = 0;
    for (uint32_t c = 0; c < rows->n_chunks; c++) {
        bits |= sl_quad_address(dtype, rows->chunk[c]);
    }
    return bits;
}

static uintptr_t address_bits(const struct sl_device_sources *x)
{
    uintptr_t bits = address_bits(x->dtype, &x->rows);
    for (uint32_t q = 0; q < x->n_owners; q++) {
        bits |= sl_quad_address(x->dtype, x->packed[q]);
    }
    return bits;
}

/* One kernel. work: a list to sum, or rows to move. */
template <typename V, uint32_t LANES, typename Work>
static enum sl_status launch(const char *name, cudaStream_t stream, const Work &work, uint32_t n, uint32_t n_columns,
                             uint32_t n_vectors, int beta)
{
    uint64_t n_blocks = ((uint64_t)n * LANES + SL_THREADS - 1) / SL_THREADS;
    if constexpr (Work::sums) {
        n_blocks *= (n_vectors + LANES - 1) / LANES;
        return sl_start(name, stream, sl_blocks(n_blocks * SL_THREADS), sum_lists<V, LANES, Work>, work, n, n_columns,
                        n_vectors, beta);
    } else {
        return sl_start(name, stream, sl_blocks(n_blocks * SL_THREADS), move_rows<V, LANES, Work>, work, n, n_columns,
                        n_vectors, beta);
    }
}

/* As few lanes as a row of n_wanted vectors needs: narrow rows share a warp. */
template <typename V, typename Work>
static enum sl_status launch_in(const char *name, cudaStream_t stream, const Work &work, uint32_t n, uint32_t n_columns,
                                uint32_t n_wanted, int beta)
{
    uint32_t n_vectors = n_columns / (uint32_t)(sizeof(V) / sizeof(sl_real));
    if (n_wanted <= 8) {
        return launch<V, 8>(name, stream, work, n, n_columns, n_vectors, beta);
    }
    if (n_wanted <= 16) {
        return launch<V, 16>(name, stream, work, n, n_columns, n_vectors, beta);
    }
    return launch<V, 32>(name, stream, work, n, n_columns, n_vectors, beta);
}

/* n items. addresses: the addresses of all rows read or written, or'ed. */
template <typename Work>
static enum sl_status start(const char *name, cudaStream_t stream, const Work &work, uint32_t n, uint32_t n_columns,
                            int beta, uintptr_t addresses)
{
    if (n_columns % 4 == 0 && addresses % sizeof(float4) == 0) {
        return launch_in<float4>(name, stream, work, n, n_columns, n_columns / 4, beta);
    }
    return launch_in<float>(name, stream, work, n, n_columns, n_columns, beta);
}

/* The same for n_columns columns of rows of m_width, with the lanes that all m_width columns would get: long lists then
 * have the same slices. */
template <typename Work>
static enum sl_status start_some(const char *name, cudaStream_t stream, const Work &work, uint32_t n,
                                 uint32_t n_columns, uint32_t m_width, int beta, uintptr_t addresses)
{
    const uint32_t n_wanted = m_width % 4 == 0 ? m_width / 4 : m_width;
    if (n_columns % 4 == 0 && addresses % sizeof(float4) == 0) {
        return launch_in<float4>(name, stream, work, n, n_columns, n_wanted, beta);
    }
    return launch_in<float>(name, stream, work, n, n_columns, n_wanted, beta);
}

/* ---- launchers ---- */

/* Launch a list of edges as it is, or with the weights of its edges. */
template <typename Launch, typename List>
static enum sl_status start_edges(const float *edge_weights, const Launch &launch, const List &list)
{
    if (edge_weights == nullptr) {
        return launch(list);
    }
    return launch(edge_weighted<List>{list, edge_weights});
}

/* The same for a block by source. */
template <typename Launch, typename Transposed>
static enum sl_status start_back(const float *back_weights, const Launch &launch, const Transposed &block)
{
    if (back_weights == nullptr) {
        return launch(block);
    }
    return launch(back_weighted<Transposed>{block, back_weights});
}

/* S: stored type of the rows. T: of the sums. */
template <typename S, typename T>
static enum sl_status sum_block(cudaStream_t stream, const struct sl_edges *edges, uint32_t n_columns,
                                const struct sl_device_sources *x, int beta, uintptr_t addresses, void *m_out)
{
    const char *name = "sl_aggregate_forward";
    struct block_means<S, T> means = {
        {}, edges->offsets + edges->row0, edges->sources, (T *)m_out, *x
    };
    auto sum = [&](const auto &list) { return start(name, stream, list, edges->n_rows, n_columns, beta, addresses); };
    if (edges->weights == nullptr) {
        return start_edges(edges->edge_weights, sum, means);
    }
    struct block_sums<S, T> sums = {
        {}, means, *edges->weights, edges->row0
    };
    return start_edges(edges->edge_weights, sum, sums);
}

enum sl_status sl_aggregate_forward_cuda(cudaStream_t stream, const struct sl_edges *edges, uint32_t n_columns,
                                         const struct sl_device_sources *x, int beta, enum sl_dtype m_dtype,
                                         void *m_out)
{
    const uintptr_t addresses = address_bits(x) | sl_quad_address(m_dtype, m_out);
    return sl_by_dtypes(x->dtype, m_dtype, [&](auto s, auto t) {
        return sum_block<decltype(s), decltype(t)>(stream, edges, n_columns, x, beta, addresses, m_out);
    });
}

/* Gradients of stored type T, to at most TARGETS owners. */
template <typename T, typename Transposed>
static enum sl_status send_back(cudaStream_t stream, const Transposed &block, uint32_t n_columns, uint32_t n_targets,
                                const uint32_t *t0, const uint32_t *n, sl_real *const *packed_out)
{
    struct sent_gradients<Transposed, T> list = {
        {}, block, {}, {},
        {
        }
    };
    uintptr_t addresses = address_bits(SL_DTYPE_REAL, &block.gm);
    for (uint32_t k = 0; k < n_targets; k++) {
        list.t0[k] = t0[k];
        list.first[k + 1] = list.first[k] + n[k];
        list.packed[k] = (T *)packed_out[k];
        addresses |= sl_quad_address(sl_dtype_of<T>(), packed_out[k]);
    }
    return start("sl_aggregate_backward", stream, list, list.first[n_targets], n_columns, 0, addresses);
}

template <typename T>
static enum sl_status send_all_back(cudaStream_t stream, const struct sl_transposed *block,
                                    const struct transposed_means &means, uint32_t n_columns, uint32_t n_owners,
                                    const uint32_t *t0, const uint32_t *n, sl_real *const *packed_out)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; k < n_owners && st == SL_OK; k += TARGETS) {
        uint32_t n_targets = n_owners - k < TARGETS ? n_owners - k : TARGETS;
        auto send = [&](const auto &list) {
            return send_back<T>(stream, list, n_columns, n_targets, t0 + k, n + k, packed_out + k);
        };
        if (block->weights == nullptr) {
            st = start_back(block->back_weights, send, means);
        } else {
            st = start_back(block->back_weights, send, transposed_sums{means, *block->weights});
        }
    }
    return st;
}

enum sl_status sl_aggregate_backward_cuda(cudaStream_t stream, const struct sl_transposed *block,
                                          const struct sl_device_rows *gm, uint32_t n_columns, uint32_t n_owners,
                                          const uint32_t *t0, const uint32_t *n, enum sl_dtype dtype,
                                          sl_real *const *packed_out)
{
    struct transposed_means means = {block->back_offsets, block->back_rows, block->edge_offsets, *gm};
    return sl_by_dtype(dtype, [&](auto t) {
        return send_all_back<decltype(t)>(stream, block, means, n_columns, n_owners, t0, n, packed_out);
    });
}

enum sl_status sl_accumulate_clear_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, sl_real *g_out)
{
    size_t bytes = (size_t)n_rows * n_columns * sizeof *g_out;
    return sl_cuda_status(cudaMemsetAsync(g_out, 0, bytes, stream), "sl_accumulate");
}

enum sl_status sl_accumulate_self_cuda(cudaStream_t stream, const struct sl_weights *weights, uint32_t n_gm,
                                       const struct sl_device_rows *gm, const struct sl_gradient *g)
{
    struct self_gradients list = {{}, *weights, *gm, *g};
    uint32_t n = n_gm <= g->row0 ? 0 : n_gm - g->row0 < g->n_rows ? n_gm - g->row0 : g->n_rows;
    return start("sl_accumulate", stream, list, n, g->n_columns, 0,
                 address_bits(SL_DTYPE_REAL, gm) | (uintptr_t)g->rows);
}

template <typename S>
static enum sl_status add_sent(cudaStream_t stream, uint32_t n, const struct sl_asked *asked, const void *sent,
                               int beta, const struct sl_gradient *g, uintptr_t addresses)
{
    struct sent_rows<S> rows = {
        *asked, (const S *)sent, *g
    };
    return start("sl_accumulate", stream, rows, n, g->n_columns, beta, addresses);
}

enum sl_status sl_accumulate_sent_cuda(cudaStream_t stream, uint32_t n, const struct sl_asked *asked,
                                       enum sl_dtype dtype, const void *sent, int beta, const struct sl_gradient *g)
{
    const uintptr_t addresses = sl_quad_address(dtype, sent) | (uintptr_t)g->rows;
    return sl_by_dtype(dtype,
                       [&](auto s) { return add_sent<decltype(s)>(stream, n, asked, sent, beta, g, addresses); });
}

enum sl_status sl_accumulate_own_cuda(cudaStream_t stream, const struct sl_transposed *block, uint32_t t0, uint32_t n,
                                      const struct sl_asked *asked, const struct sl_device_rows *gm, int beta,
                                      const struct sl_gradient *g)
{
    const char *name = "sl_accumulate";
    uintptr_t addresses = address_bits(SL_DTYPE_REAL, gm) | (uintptr_t)g->rows;
    struct transposed_means means = {block->back_offsets, block->back_rows, block->edge_offsets, *gm};
    auto add = [&](const auto &by_source) {
        struct own_gradients<std::decay_t<decltype(by_source)>> list = {
            {}, by_source, *asked, *g, t0
        };
        return start(name, stream, list, n, g->n_columns, beta, addresses);
    };
    if (block->weights == nullptr) {
        return start_back(block->back_weights, add, means);
    }
    return start_back(block->back_weights, add, transposed_sums{means, *block->weights});
}

/* S: stored type of the rows. T: of the sums. */
template <typename S, typename T>
static enum sl_status sum_parts(cudaStream_t stream, const struct sl_full_edges *edges, uint32_t n_columns,
                                const struct sl_device_part *parts, int beta, uint32_t m_width, void *m_out)
{
    const char *name = "sl_aggregate_full";
    struct part_means<S, T> list = {
    };
    uintptr_t addresses = sl_quad_address(sl_dtype_of<T>(), m_out) | m_width * sizeof(sl_real);
    for (uint32_t q = 0; q < edges->n_parts; q++) {
        list.width[q] = parts[q].width;
        addresses |= parts[q].width * sizeof(sl_real); /* every row must begin at an address for four numbers */
        for (uint32_t c = 0; c < parts[q].n_chunks; c++) {
            addresses |= sl_quad_address(sl_dtype_of<S>(), parts[q].chunk[c]);
        }
    }
    sl_scratch chunks(stream);
    enum sl_status st = sl_send_parts(name, stream, edges->n_parts, edges->first, parts, &chunks, &list.parts);
    if (st != SL_OK) {
        return st;
    }
    list.offsets = edges->offsets;
    list.sources = edges->sources;
    list.m = (T *)m_out;
    list.m_width = m_width;
    list.row0 = edges->row0;
    auto sum = [&](const auto &of_edges) {
        return start_some(name, stream, of_edges, edges->n_rows, n_columns, m_width, beta, addresses);
    };
    if (edges->weights == nullptr) {
        return start_edges(edges->edge_weights, sum, list);
    }
    return start_edges(edges->edge_weights, sum, part_sums<S, T>{{}, list, *edges->weights});
}

enum sl_status sl_aggregate_full_cuda(cudaStream_t stream, const struct sl_full_edges *edges, uint32_t n_columns,
                                      enum sl_dtype dtype, const struct sl_device_part *parts, int beta,
                                      uint32_t m_width, enum sl_dtype m_dtype, void *m_out)
{
    return sl_by_dtypes(dtype, m_dtype, [&](auto s, auto t) {
        return sum_parts<decltype(s), decltype(t)>(stream, edges, n_columns, parts, beta, m_width, m_out);
    });
}

/* ---- cuSPARSE ---- */

static enum sl_status cusparse_status(cusparseStatus_t error, const char *call)
{
    if (error == CUSPARSE_STATUS_SUCCESS) {
        return SL_OK;
    }
    return sl_fail(SL_ECUDA, "%s: cuSPARSE failed: %s", call, cusparseGetErrorString(error));
}

/* The block in cuSPARSE's form: offsets from 0, and a weight for each edge. */
static __global__ void weigh_edges(uint32_t n_rows, const uint32_t *offsets, uint32_t *offsets_out, sl_real *weights)
{
    const uint32_t origin = __ldg(offsets);
    for (uint64_t d = sl_warp(); d <= n_rows; d += sl_n_warps()) {
        const uint32_t begin = __ldg(offsets + d);
        const uint32_t end = d < n_rows ? __ldg(offsets + d + 1) : begin;
        if (sl_lane() == 0) {
            offsets_out[d] = begin - origin;
        }
        for (uint32_t e = begin + sl_lane(); e < end; e += SL_WARP) {
            weights[e - origin] = 1 / (sl_real)(end - begin);
        }
    }
}

/* M = beta M + A X. Its descriptors are released with it. */
struct product {
    cusparseSpMatDescr_t a = nullptr;
    cusparseDnMatDescr_t x = nullptr;
    cusparseDnMatDescr_t m = nullptr;

    ~product()
    {
        if (m != nullptr) {
            cusparseDestroyDnMat(m);
        }
        if (x != nullptr) {
            cusparseDestroyDnMat(x);
        }
        if (a != nullptr) {
            cusparseDestroySpMat(a);
        }
    }
};

/* CSR algorithm 3 is the one that gives the same bits each time. */
static enum sl_status multiply(cudaStream_t stream, cusparseHandle_t handle, const struct product *p, int beta)
{
    const char *name = "sl_aggregate_forward by cuSPARSE";
    const cusparseOperation_t as_is = CUSPARSE_OPERATION_NON_TRANSPOSE;
    const cusparseSpMMAlg_t algorithm = CUSPARSE_SPMM_CSR_ALG3;
    const float one = 1;
    const float old = beta ? 1 : 0;
    size_t bytes = 0;
    sl_scratch buffer(stream);
    enum sl_status st;
    SL_TRY(st, cusparse_status(cusparseSetStream(handle, stream), name), done);
    SL_TRY(st,
           cusparse_status(cusparseSpMM_bufferSize(handle, as_is, as_is, &one, p->a, p->x, &old, p->m, CUDA_R_32F,
                                                   algorithm, &bytes),
                           name),
           done);
    SL_TRY(st, buffer.take(bytes, name), done);
    st = cusparse_status(
        cusparseSpMM(handle, as_is, as_is, &one, p->a, p->x, &old, p->m, CUDA_R_32F, algorithm, buffer.as<void>()),
        name);
done:
    return st;
}

/* The first and the last edge of the block. Waits for the stream. */
static enum sl_status read_bounds(cudaStream_t stream, uint32_t n_rows, const uint32_t *offsets, uint32_t bounds[2])
{
    const char *name = "sl_aggregate_forward by cuSPARSE: the number of edges";
    enum sl_status st;
    SL_TRY(st, sl_cuda_status(cudaMemcpyAsync(&bounds[0], offsets, 4, cudaMemcpyDeviceToHost, stream), name), done);
    SL_TRY(st, sl_cuda_status(cudaMemcpyAsync(&bounds[1], offsets + n_rows, 4, cudaMemcpyDeviceToHost, stream), name),
           done);
    st = sl_cuda_status(cudaStreamSynchronize(stream), name);
done:
    return st;
}

enum sl_status sl_aggregate_forward_cusparse(cudaStream_t stream, cusparseHandle_t handle, const struct sl_edges *edges,
                                             uint32_t n_columns, const struct sl_device_sources *x, int beta,
                                             sl_real *m_out)
{
    const uint32_t n_rows = edges->n_rows;
    const uint32_t *offsets = edges->offsets + edges->row0;
    const uint32_t *edge_sources = edges->sources;
    const char *name = "sl_aggregate_forward by cuSPARSE";
    const uint32_t n_sources = x->first[x->n_owners];
    struct product p;
    uint32_t bounds[2];
    sl_scratch rows(stream);
    sl_scratch weights(stream);
    sl_scratch own_offsets(stream);
    enum sl_status st;
    SL_TRY(st, read_bounds(stream, n_rows, offsets, bounds), done);
    if (bounds[0] == bounds[1]) {
        if (beta) {
            return SL_OK;
        }
        return sl_accumulate_clear_cuda(stream, n_rows, n_columns, m_out);
    }
    SL_TRY(st, rows.take((size_t)n_sources * n_columns * sizeof(sl_real), name), done);
    SL_TRY(st, weights.take((size_t)(bounds[1] - bounds[0]) * sizeof(sl_real), name), done);
    SL_TRY(st, own_offsets.take(((size_t)n_rows + 1) * sizeof(uint32_t), name), done);
    SL_TRY(st,
           start(name, stream, source_rows{rows.as<sl_real>(), *x}, n_sources, n_columns, 0,
                 address_bits(x) | (uintptr_t)rows.as<sl_real>()),
           done);
    SL_TRY(st,
           sl_start(name, stream, sl_warp_blocks((uint64_t)n_rows + 1), weigh_edges, n_rows, offsets,
                    own_offsets.as<uint32_t>(), weights.as<sl_real>()),
           done);
    SL_TRY(
        st,
        cusparse_status(cusparseCreateCsr(&p.a, n_rows, n_sources, bounds[1] - bounds[0], own_offsets.as<void>(),
                                          const_cast<uint32_t *>(edge_sources + bounds[0]), weights.as<void>(),
                                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F),
                        name),
        done);
    SL_TRY(st,
           cusparse_status(cusparseCreateDnMat(&p.x, n_sources, n_columns, n_columns, rows.as<void>(), CUDA_R_32F,
                                               CUSPARSE_ORDER_ROW),
                           name),
           done);
    SL_TRY(st,
           cusparse_status(
               cusparseCreateDnMat(&p.m, n_rows, n_columns, n_columns, m_out, CUDA_R_32F, CUSPARSE_ORDER_ROW), name),
           done);
    st = multiply(stream, handle, &p, beta);
done:
    return st;
}
