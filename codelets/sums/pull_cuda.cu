/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One warp for each row and each SL_WARP items of the row; an item is one or four columns. Each lane looks up one term
 * of SL_WARP, and then all lanes load its row, several rows at a time. A warp adds along the list, in order, as on the
 * CPU. */
#include <string.h>

#include "codelets/bf16.cuh"
#include "codelets/sums/sources.cuh"

#include "codelets/sums/pull.h"

#define UNROLL 8 /* rows in flight per lane */

/* struct sl_pull_parts as a kernel parameter: the addresses of the rows are in device memory. */
struct device_parts {
    const sl_real *const *rows;
    sl_real factor[SL_MAX_PARTS];
};

/* Weight of the row of u in the sum of vertex `id`; 0 if the row is not read. */
static __device__ sl_real weight_of(const struct sl_pull_lists &lists, const struct device_parts &parts, sl_vertex id,
                                    sl_real share, sl_vertex u, uint32_t part)
{
    const sl_real factor = parts.factor[part];
    switch (lists.weights) {
    case SL_PULL_MEAN: return factor * share;
    case SL_PULL_MEAN_BACK: return factor / __ldg(lists.factors + 2 * (size_t)u + 1);
    case SL_PULL_SYMMETRIC: break;
    }
    return u == id ? 0 : factor * (share * __ldg(lists.factors + 2 * (size_t)u));
}

/* The row of u, of items stored as S. */
template <typename S>
static __device__ const S *row_of(const struct sl_pull_lists &lists, const struct device_parts &parts, uint32_t n_items,
                                  sl_vertex u, uint32_t part)
{
    return (const S *)parts.rows[part] + (size_t)(u - __ldg(lists.first + part)) * n_items;
}

/* One row of a sum with its weight; row NULL: not read. */
template <typename S> struct term {
    const S *row;
    sl_real weight;
};

template <bool WEIGHTED, typename S>
static __device__ struct term<S> term_of(const struct sl_pull_lists &lists, const struct device_parts &parts,
                                         uint32_t n_items, sl_vertex id, sl_real share, uint64_t edge) {
    const sl_vertex u = __ldg(lists.vertices + edge);
    const uint32_t part = __ldg(lists.part_of + u);
    if (parts.factor[part] == 0) {
        return {nullptr, 0};
    }
    sl_real weight = weight_of(lists, parts, id, share, u, part);
    if constexpr (WEIGHTED) {
        weight *= __ldg(lists.edge_weights + edge);
    }
    return {row_of<S>(lists, parts, n_items, u, part), weight};
}

/* Add item i of the terms that the lanes of a warp hold, in the order of the lanes. An item from n_items on is none. */
template <typename V, typename S>
static __device__ V add_terms(const struct term<S> &mine, uint32_t n, uint32_t n_items, uint32_t i, V sum)
{
    for (uint32_t k = 0; k < n; k += UNROLL) {
        const S *rows[UNROLL];
        V items[UNROLL];
        SL_UNROLL
        for (uint32_t q = 0; q < UNROLL; q++) {
            rows[q] = (const S *)__shfl_sync(SL_ALL_LANES, (unsigned long long)mine.row, k + q);
            items[q] = rows[q] != nullptr && i < n_items ? sl_wide(__ldg(rows[q] + i)) : V();
        }
        SL_UNROLL
        for (uint32_t q = 0; q < UNROLL; q++) {
            const sl_real weight = __shfl_sync(SL_ALL_LANES, mine.weight, k + q);
            if (rows[q] != nullptr) {
                sum = sl_plus(sum, sl_times(weight, items[q]));
            }
        }
    }
    return sum;
}

/* Item i of row d, by all lanes of a warp. V: type of a sum; S: storage type of a row's item. WEIGHTED: edges have
 * weights. */
template <bool WEIGHTED, typename V, typename S>
static __device__ V pull_item(const struct sl_pull_lists &lists, const struct device_parts &parts, uint32_t n_items,
                              uint32_t d, uint32_t i, V sum)
{
    const sl_vertex id = lists.first_id + d;
    const uint64_t first = __ldg(lists.offsets + d) - __ldg(lists.offsets);
    const uint64_t n = __ldg(lists.offsets + d + 1) - __ldg(lists.offsets + d);
    sl_real share = 0;
    if (lists.weights == SL_PULL_SYMMETRIC) {
        const sl_real f = __ldg(lists.factors + 2 * (size_t)id);
        const uint32_t part = __ldg(lists.part_of + id);
        const sl_real factor = parts.factor[part];
        share = lists.scale * f;
        if (factor != 0 && i < n_items) {
            const S *own = row_of<S>(lists, parts, n_items, id, part);
            sum = sl_plus(sum, sl_times(factor * (share * f), sl_wide(__ldg(own + i))));
        }
    } else if (lists.weights == SL_PULL_MEAN && n > 0) {
        share = 1 / (sl_real)n;
    }
    for (uint64_t done = 0; done < n; done += SL_WARP) {
        const uint32_t here = n - done < SL_WARP ? (uint32_t)(n - done) : SL_WARP;
        struct term<S> mine = {
            nullptr, 0
        };
        if (sl_lane() < here) {
            mine = term_of<WEIGHTED, S>(lists, parts, n_items, id, share, first + done + sl_lane());
        }
        sum = add_terms(mine, here, n_items, i, sum);
    }
    return sum;
}

/* T: storage type of an item of the sums. */
template <bool WEIGHTED, typename V, typename S, typename T>
static __global__ void pull(struct sl_pull_lists lists, struct device_parts parts, uint32_t n_items, int beta, T *out)
{
    const uint32_t n_strips = (n_items + SL_WARP - 1) / SL_WARP;
    for (uint64_t k = sl_warp(); k < (uint64_t)lists.n_rows * n_strips; k += sl_n_warps()) {
        const uint32_t d = (uint32_t)(k / n_strips);
        const uint32_t i = (uint32_t)(k % n_strips) * SL_WARP + sl_lane();
        T *to = out + (size_t)d * n_items + i;
        const V before = beta && i < n_items ? sl_wide(*to) : V();
        const V sum = pull_item<WEIGHTED, V, S>(lists, parts, n_items, d, i, before);
        if (i < n_items) {
            sl_store(sum, to);
        }
    }
}

/* Launch with items of type V. */
template <typename V, typename E, typename Out>
static enum sl_status start(cudaStream_t stream, const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                            uint32_t n_parts, uint32_t n_columns, int beta, void *out)
{
    typedef typename sl_stored<E, V>::type source;
    typedef typename sl_stored<Out, V>::type target;
    const uint32_t n_items = n_columns / (sizeof(V) / sizeof(float));
    const uint64_t n_strips = (n_items + SL_WARP - 1) / SL_WARP;
    auto kernel = pull<false, V, source, target>;
    if (lists->edge_weights != nullptr) {
        kernel = pull<true, V, source, target>;
    }
    sl_scratch rows(stream);
    SL_CHECK(sl_send_pointers("sl_pull", stream, parts->rows, n_parts, &rows));
    struct device_parts sent = {rows.as<const sl_real *>(), {}};
    memcpy(sent.factor, parts->factor, n_parts * sizeof *sent.factor);
    return sl_start("sl_pull", stream, sl_warp_blocks(lists->n_rows * n_strips), kernel, *lists, sent, n_items, beta,
                    (target *)out);
}

/* E, Out: storage types of an element of the rows and of the sums. */
template <typename E, typename Out>
static enum sl_status start_of(cudaStream_t stream, const struct sl_pull_lists *lists,
                               const struct sl_pull_parts *parts, uint32_t n_parts, uint32_t n_columns, int beta,
                               void *out)
{
    uintptr_t addresses = sl_quad_address(sl_dtype_of<Out>(), out);
    for (uint32_t q = 0; q < n_parts; q++) {
        if (parts->factor[q] != 0) {
            addresses |= sl_quad_address(sl_dtype_of<E>(), parts->rows[q]);
        }
    }
    if (n_columns % 4 == 0 && addresses % sizeof(float4) == 0) {
        return start<float4, E, Out>(stream, lists, parts, n_parts, n_columns, beta, out);
    }
    return start<float, E, Out>(stream, lists, parts, n_parts, n_columns, beta, out);
}

enum sl_status sl_pull_cuda(cudaStream_t stream, const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                            uint32_t n_parts, enum sl_dtype dtype, uint32_t n_columns, int beta,
                            enum sl_dtype out_dtype, void *out)
{
    return sl_by_dtypes(dtype, out_dtype, [&](auto e, auto sum) {
        return start_of<decltype(e), decltype(sum)>(stream, lists, parts, n_parts, n_columns, beta, out);
    });
}
