/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A warp for each row and SL_WARP columns of it; along the list, in order, as on the CPU. */
#include "codelets/kernel.cuh"

#include "codelets/pull.h"

#define PARAMETER_BYTES 4096 /* that a kernel may have */

static_assert(sizeof(struct sl_pull_lists) + sizeof(struct sl_pull_parts) + 64 <= PARAMETER_BYTES,
              "the kernel takes both by value");

/* What the row of vertex u is multiplied by in the sum of vertex id; 0 where it is not read. */
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

/* The entry of a vertex' row. */
static __device__ sl_real entry_of(const struct sl_pull_lists &lists, const struct sl_pull_parts &parts,
                                   uint32_t n_columns, sl_vertex u, uint32_t part, uint32_t column)
{
    return __ldg(parts.rows[part] + (size_t)(u - __ldg(lists.first + part)) * n_columns + column);
}

static __device__ sl_real pull_entry(const struct sl_pull_lists &lists, const struct sl_pull_parts &parts,
                                     uint32_t n_columns, uint32_t d, uint32_t column, sl_real sum)
{
    const sl_vertex id = lists.first_id + d;
    const uint64_t begin = __ldg(lists.offsets + d);
    const uint64_t end = __ldg(lists.offsets + d + 1);
    const sl_vertex *list = lists.vertices + (begin - __ldg(lists.offsets));
    const uint64_t n = end - begin;
    sl_real share = 0;
    if (lists.weights == SL_PULL_SYMMETRIC) {
        const sl_real f = __ldg(lists.factors + 2 * (size_t)id);
        const uint32_t part = __ldg(lists.part_of + id);
        share = lists.scale * f;
        if (parts.factor[part] != 0) {
            sum += parts.factor[part] * (share * f) * entry_of(lists, parts, n_columns, id, part, column);
        }
    } else if (lists.weights == SL_PULL_MEAN && n > 0) {
        share = 1 / (sl_real)n;
    }
    for (uint64_t e = 0; e < n; e++) {
        const sl_vertex u = __ldg(list + e);
        const uint32_t part = __ldg(lists.part_of + u);
        if (parts.factor[part] != 0) {
            sum += weight_of(lists, parts, id, share, u, part) * entry_of(lists, parts, n_columns, u, part, column);
        }
    }
    return sum;
}

static __global__ void pull(struct sl_pull_lists lists, struct sl_pull_parts parts, uint32_t n_columns, int beta,
                            sl_real *out)
{
    const uint32_t n_strips = (n_columns + SL_WARP - 1) / SL_WARP;
    for (uint64_t i = sl_warp(); i < (uint64_t)lists.n_rows * n_strips; i += sl_n_warps()) {
        const uint32_t d = (uint32_t)(i / n_strips);
        const uint32_t column = (uint32_t)(i % n_strips) * SL_WARP + sl_lane();
        if (column < n_columns) {
            sl_real *to = out + (size_t)d * n_columns + column;
            *to = pull_entry(lists, parts, n_columns, d, column, beta ? *to : 0);
        }
    }
}

enum sl_status sl_pull_cuda(cudaStream_t stream, const struct sl_pull_lists *lists, const struct sl_pull_parts *parts,
                            uint32_t n_columns, int beta, sl_real *out)
{
    uint64_t n_strips = (n_columns + SL_WARP - 1) / SL_WARP;
    return sl_start("sl_pull", stream, sl_warp_blocks(lists->n_rows * n_strips), pull, *lists, *parts, n_columns, beta,
                    out);
}
