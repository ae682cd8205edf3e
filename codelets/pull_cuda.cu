/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One warp for each row and each SL_WARP items of the row; an item is one or four columns. A warp adds along the
 * list, in order, as on the CPU. */
#include "codelets/bf16.cuh"

#include "codelets/pull.h"

#define PARAMETER_BYTES 4096 /* limit of a kernel's parameters */

static_assert(sizeof(struct sl_pull_lists) + sizeof(struct sl_pull_parts) + 64 <= PARAMETER_BYTES,
              "the kernel takes both by value");

/* Weight of the row of u in the sum of vertex `id`; 0 if the row is not read. */
static __device__ sl_real weight_of(const struct sl_pull_lists &lists, const struct sl_pull_parts &parts, sl_vertex id,
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

/* Item i of u's row, stored as S. */
template <typename S>
static __device__ auto item_of(const struct sl_pull_lists &lists, const struct sl_pull_parts &parts, uint32_t n_items,
                               sl_vertex u, uint32_t part, uint32_t i)
{
    const S *rows = (const S *)parts.rows[part];
    return sl_wide(__ldg(rows + (size_t)(u - __ldg(lists.first + part)) * n_items + i));
}

/* V: type of a sum; S: storage type of a row's item. WEIGHTED: edges have weights. */
template <bool WEIGHTED, typename V, typename S>
static __device__ V pull_item(const struct sl_pull_lists &lists, const struct sl_pull_parts &parts, uint32_t n_items,
                              uint32_t d, uint32_t i, V sum)
{
    const sl_vertex id = lists.first_id + d;
    const uint64_t begin = __ldg(lists.offsets + d);
    const uint64_t end = __ldg(lists.offsets + d + 1);
    const uint64_t first = begin - __ldg(lists.offsets);
    const sl_vertex *list = lists.vertices + first;
    const uint64_t n = end - begin;
    sl_real share = 0;
    if (lists.weights == SL_PULL_SYMMETRIC) {
        const sl_real f = __ldg(lists.factors + 2 * (size_t)id);
        const uint32_t part = __ldg(lists.part_of + id);
        share = lists.scale * f;
        if (parts.factor[part] != 0) {
            sum = sl_plus(sum,
                          sl_times(parts.factor[part] * (share * f), item_of<S>(lists, parts, n_items, id, part, i)));
        }
    } else if (lists.weights == SL_PULL_MEAN && n > 0) {
        share = 1 / (sl_real)n;
    }
    for (uint64_t e = 0; e < n; e++) {
        const sl_vertex u = __ldg(list + e);
        const uint32_t part = __ldg(lists.part_of + u);
        if (parts.factor[part] != 0) {
            sl_real weight = weight_of(lists, parts, id, share, u, part);
            if constexpr (WEIGHTED) {
                weight *= __ldg(lists.edge_weights + first + e);
            }
            sum = sl_plus(sum, sl_times(weight, item_of<S>(lists, parts, n_items, u, part, i)));
        }
    }
    return sum;
}

/* T: storage type of an item of the sums. */
template <bool WEIGHTED, typename V, typename S, typename T>
static __global__ void pull(struct sl_pull_lists lists, struct sl_pull_parts parts, uint32_t n_items, int beta, T *out)
{
    const uint32_t n_strips = (n_items + SL_WARP - 1) / SL_WARP;
    for (uint64_t k = sl_warp(); k < (uint64_t)lists.n_rows * n_strips; k += sl_n_warps()) {
        const uint32_t d = (uint32_t)(k / n_strips);
        const uint32_t i = (uint32_t)(k % n_strips) * SL_WARP + sl_lane();
        if (i < n_items) {
            T *to = out + (size_t)d * n_items + i;
            sl_store(pull_item<WEIGHTED, V, S>(lists, parts, n_items, d, i, beta ? sl_wide(*to) : V()), to);
        }
    }
}

/* Launch with items of type V. */
template <typename V, typename E, typename Out>
static enum sl_status start(cudaStream_t stream, const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                            uint32_t n_columns, int beta, void *out)
{
    typedef typename sl_stored<E, V>::type source;
    typedef typename sl_stored<Out, V>::type target;
    const uint32_t n_items = n_columns / (sizeof(V) / sizeof(float));
    const uint64_t n_strips = (n_items + SL_WARP - 1) / SL_WARP;
    auto kernel = pull<false, V, source, target>;
    if (lists->edge_weights != nullptr) {
        kernel = pull<true, V, source, target>;
    }
    return sl_start("sl_pull", stream, sl_warp_blocks(lists->n_rows * n_strips), kernel, *lists, *parts, n_items, beta,
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
        return start<float4, E, Out>(stream, lists, parts, n_columns, beta, out);
    }
    return start<float, E, Out>(stream, lists, parts, n_columns, beta, out);
}

enum sl_status sl_pull_cuda(cudaStream_t stream, const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                            uint32_t n_parts, enum sl_dtype dtype, uint32_t n_columns, int beta,
                            enum sl_dtype out_dtype, void *out)
{
    return sl_by_dtypes(dtype, out_dtype, [&](auto e, auto sum) {
        return start_of<decltype(e), decltype(sum)>(stream, lists, parts, n_parts, n_columns, beta, out);
    });
}
