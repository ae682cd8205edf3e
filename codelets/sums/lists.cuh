/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums over lists of rows on a device, with one kernel for all, sl_sum_lists. An item has a list of terms, a row and a
 * weight each, and an output row. A group of lanes serves one item and one tile of its columns. The lanes look up as
 * many rows as there are lanes, one each, and exchange the addresses. So loads of SL_IN_FLIGHT rows are in flight
 * before the first row is added. Terms are added in the order of the list. A list longer than SL_LONG_LIST would delay
 * a whole kernel. So the groups of a block take a slice of it each, and the sums of the slices are added in order. The
 * result depends on the list and on the width alone, never on the grid.
 */
#ifndef SL_CODELETS_LISTS_CUH
#define SL_CODELETS_LISTS_CUH

#include "codelets/bf16.cuh"
#include "codelets/sums/sources.cuh"

#define SL_LONG_LIST 256 /* most terms that a group adds alone */
#define SL_IN_FLIGHT 4   /* rows in flight per lane */

/* ---- lists ---- */

/* One item: terms begin .. end - 1, with this weight unless the terms have their own. out NULL: nothing to do. Lists
 * with symmetric weights also give the vertex of the item, and some a row to add before the terms. */
struct sl_item {
    uint64_t begin, end;
    void *out;
    sl_real weight;
    sl_vertex id;
    sl_real self_weight;
    const void *self;
};

/* Properties of a list. source, target: the stored types of its rows and of its sums. sums: it sums rows, else it moves
 * them. weighs_terms: terms have their own weights. adds_self: an item has a row before its terms. of: what is added of
 * vector `column` of a row, x. */
template <typename S, typename T> struct sl_plain_list {
    typedef S source;
    typedef T target;
    static const bool sums = true;
    static const bool weighs_terms = false;
    static const bool adds_self = false;

    template <typename V> __device__ V of(const struct sl_item &, uint32_t, V x) const
    {
        return x;
    }
};

/* ---- sums ---- */

/* The work of a lane: a vector of V's width among the columns of its group's item, if active. */
struct sl_tile {
    uint32_t n_columns, column;
    bool active;
};

/* A V in memory, among the rows of a list or among its sums. */
template <typename List, typename V> using sl_source_of = typename sl_stored<typename List::source, V>::type;
template <typename List, typename V> using sl_target_of = typename sl_stored<typename List::target, V>::type;

/* sum + the n terms of an item from `begin` on, in order. A row NULL is no term. All lanes of a warp call it together,
 * whatever their n. */
template <typename V, uint32_t LANES, typename List>
static inline __device__ V sl_add_terms(const List &list, const struct sl_tile &tile, const struct sl_item &it,
                                        uint64_t begin, uint32_t n, V sum)
{
    static_assert(LANES % SL_IN_FLIGHT == 0, "the lanes' terms are added SL_IN_FLIGHT at a time");
    const uint32_t lane = sl_lane() % LANES;
    const uint32_t lane0 = sl_lane() - lane;
    const uint32_t most = sl_group_max<LANES>(n);
    for (uint32_t done = 0; done < most; done += LANES) {
        const typename List::source *my_row = nullptr;
        sl_real my_weight = it.weight;
        if (done + lane < n) {
            my_row = list.row(it, begin + done + lane, tile.n_columns, &my_weight);
        }
        for (uint32_t k = 0; k < LANES && done + k < most; k += SL_IN_FLIGHT) {
            sl_source_of<List, V> x[SL_IN_FLIGHT];
            bool adds[SL_IN_FLIGHT];
            SL_UNROLL
            for (uint32_t u = 0; u < SL_IN_FLIGHT; u++) {
                const sl_source_of<List, V> *row =
                    (const sl_source_of<List, V> *)__shfl_sync(SL_ALL_LANES, (unsigned long long)my_row, lane0 + k + u);
                adds[u] = tile.active && row != nullptr;
                if (adds[u]) {
                    x[u] = __ldg(row + tile.column);
                }
            }
            SL_UNROLL
            for (uint32_t u = 0; u < SL_IN_FLIGHT; u++) {
                sl_real w = List::weighs_terms ? __shfl_sync(SL_ALL_LANES, my_weight, lane0 + k + u) : it.weight;
                if (adds[u]) {
                    sum = sl_plus(sum, sl_times(w, list.of(it, tile.column, sl_wide(x[u]))));
                }
            }
        }
    }
    return sum;
}

/* The row before an item's terms. */
template <typename V, typename List>
static inline __device__ V sl_own_term(const List &list, const struct sl_tile &tile, const struct sl_item &it)
{
    const V x = sl_wide(__ldg((const sl_source_of<List, V> *)it.self + tile.column));
    return sl_times(it.self_weight, list.of(it, tile.column, x));
}

/* Add an item's list, or nothing if the block takes the list. */
template <typename V, uint32_t LANES, typename List>
static inline __device__ void sl_sum_alone(const List &list, const struct sl_tile &tile, const struct sl_item &it,
                                           int beta)
{
    const bool leaves = it.end - it.begin > SL_LONG_LIST;
    const bool writes = tile.active && it.out != nullptr && !leaves;
    sl_target_of<List, V> *out = (sl_target_of<List, V> *)it.out + tile.column;
    V sum = sl_nothing(V());
    if (writes && beta) {
        sum = sl_wide(*out);
    }
    if constexpr (List::adds_self) {
        sum = writes ? sl_plus(sum, sl_own_term<V>(list, tile, it)) : sum;
    }
    const uint32_t n = leaves ? 0 : (uint32_t)(it.end - it.begin);
    sum = sl_add_terms<V, LANES>(list, tile, it, it.begin, n, sum);
    if (writes) {
        sl_store(sum, out);
    }
}

/* Add a long list: each group of the block takes a slice. part: room for one V per thread. All threads call it
 * together. */
template <typename V, uint32_t LANES, typename List>
static inline __device__ void sl_sum_together(const List &list, const struct sl_tile &tile, const struct sl_item &it,
                                              int beta, V *part)
{
    const uint32_t n_groups = SL_THREADS / LANES;
    const uint32_t group = threadIdx.x / LANES;
    const uint64_t length = it.end - it.begin;
    const uint64_t begin = length * group / n_groups;
    const uint32_t n = (uint32_t)(length * (group + 1) / n_groups - begin);
    part[threadIdx.x] = sl_add_terms<V, LANES>(list, tile, it, it.begin + begin, n, sl_nothing(V()));
    __syncthreads();
    if (group == 0 && tile.active) {
        sl_target_of<List, V> *out = (sl_target_of<List, V> *)it.out + tile.column;
        V sum = beta ? sl_wide(*out) : sl_nothing(V());
        if constexpr (List::adds_self) {
            sum = sl_plus(sum, sl_own_term<V>(list, tile, it));
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
    sl_sum_lists(const List list, uint32_t n_items, uint32_t n_columns, uint32_t n_vectors, int beta)
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
        const struct sl_tile tile = {n_columns, column, column < n_vectors};
        struct sl_item it = {0, 0, nullptr, 0, 0, 0, nullptr};
        if (group < n_items - item0) {
            it = list.item_of(item0 + group, n_columns);
        }
        sl_sum_alone<V, LANES>(list, tile, it, beta);
        if (!__syncthreads_or(it.end - it.begin > SL_LONG_LIST)) {
            continue;
        }
        if (lane == 0) {
            is_long[group] = it.end - it.begin > SL_LONG_LIST;
        }
        __syncthreads();
        for (uint32_t i = 0; i < n_groups; i++) {
            if (is_long[i]) {
                sl_sum_together<V, LANES>(list, tile, list.item_of(item0 + i, n_columns), beta, part);
            }
        }
    }
}

/* ---- rows that are copied, or added once ---- */

template <typename V, uint32_t LANES, typename Pairs>
static __global__ void sl_move_rows(const Pairs pairs, uint32_t n, uint32_t n_columns, uint32_t n_vectors, int beta)
{
    const uint32_t lane = threadIdx.x % LANES;
    for (uint64_t i = sl_thread() / LANES; i < n; i += sl_n_threads() / LANES) {
        V *to = (V *)pairs.to((uint32_t)i, n_columns);
        if (to == nullptr) {
            continue;
        }
        const sl_source_of<Pairs, V> *from = (const sl_source_of<Pairs, V> *)pairs.from((uint32_t)i, n_columns);
        for (uint32_t c = lane; c < n_vectors; c += LANES) {
            to[c] = beta ? sl_plus(to[c], sl_wide(__ldg(from + c))) : sl_wide(__ldg(from + c));
        }
    }
}

/* ---- launches ---- */

/* One kernel. work: a list to sum, or rows to move. */
template <typename V, uint32_t LANES, typename Work>
static inline enum sl_status sl_launch_lists(const char *name, cudaStream_t stream, const Work &work, uint32_t n,
                                             uint32_t n_columns, uint32_t n_vectors, int beta)
{
    uint64_t n_blocks = ((uint64_t)n * LANES + SL_THREADS - 1) / SL_THREADS;
    if constexpr (Work::sums) {
        n_blocks *= (n_vectors + LANES - 1) / LANES;
        return sl_start(name, stream, sl_blocks(n_blocks * SL_THREADS), sl_sum_lists<V, LANES, Work>, work, n,
                        n_columns, n_vectors, beta);
    } else {
        return sl_start(name, stream, sl_blocks(n_blocks * SL_THREADS), sl_move_rows<V, LANES, Work>, work, n,
                        n_columns, n_vectors, beta);
    }
}

/* As few lanes as a row of n_wanted vectors needs: narrow rows share a warp. */
template <typename V, typename Work>
static inline enum sl_status sl_launch_in(const char *name, cudaStream_t stream, const Work &work, uint32_t n,
                                          uint32_t n_columns, uint32_t n_wanted, int beta)
{
    uint32_t n_vectors = n_columns / (uint32_t)(sizeof(V) / sizeof(sl_real));
    if (n_wanted <= 8) {
        return sl_launch_lists<V, 8>(name, stream, work, n, n_columns, n_vectors, beta);
    }
    if (n_wanted <= 16) {
        return sl_launch_lists<V, 16>(name, stream, work, n, n_columns, n_vectors, beta);
    }
    return sl_launch_lists<V, 32>(name, stream, work, n, n_columns, n_vectors, beta);
}

/* n items, n_columns columns of rows of m_width. The lanes are those that all m_width columns get: the slices of a long
 * list depend on m_width alone. addresses: the addresses of all rows read or written, or'ed. */
template <typename Work>
static inline enum sl_status sl_start_some(const char *name, cudaStream_t stream, const Work &work, uint32_t n,
                                           uint32_t n_columns, uint32_t m_width, int beta, uintptr_t addresses)
{
    const uint32_t n_wanted = m_width % 4 == 0 ? m_width / 4 : m_width;
    if (n_columns % 4 == 0 && addresses % sizeof(float4) == 0) {
        return sl_launch_in<float4>(name, stream, work, n, n_columns, n_wanted, beta);
    }
    return sl_launch_in<float>(name, stream, work, n, n_columns, n_wanted, beta);
}

/* All columns. */
template <typename Work>
static inline enum sl_status sl_start_lists(const char *name, cudaStream_t stream, const Work &work, uint32_t n,
                                            uint32_t n_columns, int beta, uintptr_t addresses)
{
    return sl_start_some(name, stream, work, n, n_columns, n_columns, beta, addresses);
}

#endif
