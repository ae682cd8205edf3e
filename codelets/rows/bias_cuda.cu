/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Column sums: slabs of rows first, each in float as on the CPU, then the slabs in double. */
#include "codelets/kernel.cuh"

#include "codelets/rows/bias.h"

#define WARPS (SL_THREADS / SL_WARP) /* per block */
#define SLAB 64                      /* rows */

template <bool weighted> static __global__ void sum_slabs(struct sl_column_sums s, uint32_t n_slabs, sl_real *partial)
{
    for (uint64_t i = sl_thread(); i < (uint64_t)n_slabs * s.n_columns; i += sl_n_threads()) {
        uint32_t row = (uint32_t)(i / s.n_columns) * SLAB;
        uint32_t column = (uint32_t)(i % s.n_columns);
        uint32_t n = s.n_rows - row < SLAB ? s.n_rows - row : SLAB;
        const sl_real *from = s.g + row * s.stride + column;
        const sl_real *weight = weighted ? s.weight + row * s.weight_stride + column / s.width : NULL;
        sl_real sum = 0;
#pragma unroll 8
        for (uint32_t r = 0; r < n; r++) {
            sum += weighted ? weight[r * s.weight_stride] * from[r * s.stride] : from[r * s.stride];
        }
        partial[i] = sum;
    }
}

/* One block for SL_WARP columns. Each warp adds consecutive slabs, the first warp then adds the warps' sums. */
static __global__ void sum_partials(uint32_t n_slabs, uint32_t n_columns, const sl_real *partial, int beta,
                                    sl_real *sums)
{
    __shared__ double stretch[WARPS][SL_WARP];
    const uint32_t warp = threadIdx.x / SL_WARP;
    const uint32_t length = (n_slabs + WARPS - 1) / WARPS;
    const uint32_t begin = warp * length < n_slabs ? warp * length : n_slabs;
    const uint32_t end = n_slabs - begin < length ? n_slabs : begin + length;
    for (uint64_t c0 = (uint64_t)blockIdx.x * SL_WARP; c0 < n_columns; c0 += (uint64_t)gridDim.x * SL_WARP) {
        uint64_t c = c0 + sl_lane();
        double sum = 0;
#pragma unroll 4
        for (uint32_t s = begin; s < end; s++) {
            sum += c < n_columns ? (double)partial[(size_t)s * n_columns + c] : 0;
        }
        stretch[warp][sl_lane()] = sum;
        __syncthreads();
        if (warp == 0 && c < n_columns) {
            for (uint32_t k = 1; k < WARPS; k++) {
                sum += stretch[k][sl_lane()];
            }
            sums[c] = (sl_real)(beta == 0 ? sum : sum + (double)sums[c]);
        }
        __syncthreads();
    }
}

enum sl_status sl_column_sums_cuda(cudaStream_t stream, const struct sl_column_sums *s, int beta, sl_real *sums_out)
{
    const char *name = "the sums of columns";
    uint32_t n_slabs = s->n_rows / SLAB + (s->n_rows % SLAB > 0);
    uint64_t n = (uint64_t)n_slabs * s->n_columns;
    sl_scratch scratch(stream);
    SL_CHECK(scratch.take(n * sizeof *sums_out, "the partial sums of columns"));
    if (n > 0) {
        SL_CHECK(sl_start(name, stream, sl_blocks(n), s->weight == NULL ? sum_slabs<false> : sum_slabs<true>, *s,
                          n_slabs, scratch.as<sl_real>()));
    }
    return sl_start(name, stream, sl_blocks((uint64_t)s->n_columns * WARPS), sum_partials, n_slabs, s->n_columns,
                    scratch.as<sl_real>(), beta, sums_out);
}
