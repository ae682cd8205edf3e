/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Moments of slabs of rows, one slab per warp and one column per lane, joined in a fixed order; and the running
 * statistics. */
#include "codelets/kernel.cuh"

#include "codelets/rows/batchnorm.h"

#define SLAB_ROWS 32 /* rows per warp, in registers */
#define BLOCK_ROWS (SL_WARPS * SLAB_ROWS)

static uint32_t n_blocks_of(uint32_t n_rows)
{
    return (uint32_t)(((uint64_t)n_rows + BLOCK_ROWS - 1) / BLOCK_ROWS);
}

/* Moments of n rows (at most SLAB_ROWS) of the column at z. */
static inline __device__ struct sl_moments slab_moments(uint32_t n, uint32_t n_columns, const sl_real *z)
{
    struct sl_moments m = {(double)n, 0, 0};
    sl_real x[SLAB_ROWS];
    for (uint32_t i = 0; i < SLAB_ROWS; i++) {
        x[i] = i < n ? z[(size_t)i * n_columns] : 0;
    }
    for (uint32_t i = 0; i < SLAB_ROWS; i++) {
        m.mean += (double)x[i];
    }
    m.mean /= n > 0 ? n : 1;
    for (uint32_t i = 0; i < SLAB_ROWS; i++) {
        double deviation = i < n ? (double)x[i] - m.mean : 0;
        m.m2 += deviation * deviation;
    }
    return m;
}

/* Join the moments of a block's warps, lane by lane in warp order. Only the first warp gets the result. */
static inline __device__ struct sl_moments join_warps(struct sl_moments mine)
{
    __shared__ struct sl_moments part[SL_WARPS][SL_WARP];
    struct sl_moments all = {0, 0, 0};
    part[threadIdx.x / SL_WARP][sl_lane()] = mine;
    __syncthreads();
    if (threadIdx.x < SL_WARP) {
        for (uint32_t w = 0; w < SL_WARPS; w++) {
            all = sl_moments_join(all, part[w][sl_lane()]);
        }
    }
    __syncthreads();
    return all;
}

/* Block b: columns of tile b % n_tiles, rows of block b / n_tiles. partial_out: 2 F for each block of rows. */
static __global__ void slabs_kernel(uint32_t n_rows, uint32_t n_columns, const sl_real *__restrict__ z,
                                    uint32_t n_blocks, double *__restrict__ partial_out)
{
    const uint32_t n_tiles = sl_tiles(n_columns);
    const uint32_t warp = threadIdx.x / SL_WARP;
    for (uint64_t b = blockIdx.x; b < (uint64_t)n_blocks * n_tiles; b += gridDim.x) {
        const uint64_t block = b / n_tiles;
        const uint64_t begin = block * BLOCK_ROWS + warp * SLAB_ROWS;
        const uint64_t end = sl_least<uint64_t>(begin + SLAB_ROWS, n_rows);
        const uint32_t c = (uint32_t)(b % n_tiles) * SL_WARP + sl_lane();
        struct sl_moments m = {0, 0, 0};
        if (c < n_columns && begin < end) {
            m = slab_moments((uint32_t)(end - begin), n_columns, z + (size_t)begin * n_columns + c);
        }
        m = join_warps(m);
        if (warp == 0 && c < n_columns) {
            partial_out[block * 2 * n_columns + c] = m.mean;
            partial_out[(block * 2 + 1) * n_columns + c] = m.m2;
        }
    }
}

/* Join the blocks of rows of one column: each warp its share in order, then the warps in order. */
static __global__ void join_kernel(uint32_t n_rows, uint32_t n_columns, uint32_t n_blocks,
                                   const double *__restrict__ partial, double *__restrict__ moments_out)
{
    const uint32_t share = (n_blocks + SL_WARPS - 1) / SL_WARPS;
    const uint32_t warp = threadIdx.x / SL_WARP;
    const uint32_t end = sl_least((warp + 1) * share, n_blocks);
    for (uint32_t t = blockIdx.x; t < sl_tiles(n_columns); t += gridDim.x) {
        const uint32_t c = t * SL_WARP + sl_lane();
        struct sl_moments m = {0, 0, 0};
        if (c < n_columns) {
            for (uint32_t b = warp * share; b < end; b++) {
                uint64_t rows = sl_least<uint64_t>(n_rows - (uint64_t)b * BLOCK_ROWS, BLOCK_ROWS);
                struct sl_moments next = {(double)rows, partial[(size_t)b * 2 * n_columns + c],
                                          partial[((size_t)b * 2 + 1) * n_columns + c]};
                m = sl_moments_join(m, next);
            }
        }
        m = join_warps(m);
        if (warp == 0 && c < n_columns) {
            moments_out[c] = m.mean;
            moments_out[n_columns + c] = m.m2;
        }
    }
}

/* sum: over n groups. */
static __global__ void running_kernel(uint32_t n, uint32_t n_columns, const double *__restrict__ sum,
                                      sl_real *__restrict__ running)
{
    for (uint64_t c = sl_thread(); c < 2 * (uint64_t)n_columns; c += sl_n_threads()) {
        running[c] = sl_batchnorm_move(running[c], sum[c], n);
    }
}

/* ---- launchers ---- */

enum sl_status sl_batchnorm_moments_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, const sl_real *z,
                                         double *moments_out)
{
    const char *name = "sl_batchnorm_moments";
    uint32_t n_blocks = n_blocks_of(n_rows);
    uint64_t n_tiles = sl_tiles(n_columns);
    sl_scratch partial(stream);
    SL_CHECK(partial.take((size_t)n_blocks * 2 * n_columns * sizeof(double), name));
    SL_CHECK(sl_start(name, stream, sl_blocks(n_blocks * n_tiles * SL_THREADS), slabs_kernel, n_rows, n_columns, z,
                      n_blocks, partial.as<double>()));
    return sl_start(name, stream, sl_blocks(n_tiles * SL_THREADS), join_kernel, n_rows, n_columns, n_blocks,
                    partial.as<double>(), moments_out);
}

enum sl_status sl_batchnorm_running_cuda(cudaStream_t stream, uint32_t n, uint32_t n_columns,
                                         const double *const *unbiased, sl_real *running)
{
    const char *name = "sl_batchnorm_running";
    sl_scratch sum(stream);
    SL_CHECK(sum.take(2 * (size_t)n_columns * sizeof(double), name));
    SL_CHECK(sl_batchnorm_sum_cuda(stream, n, n_columns, unbiased, sum.as<double>()));
    return sl_start(name, stream, sl_blocks(2 * (uint64_t)n_columns), running_kernel, n, n_columns, sum.as<double>(),
                    running);
}
