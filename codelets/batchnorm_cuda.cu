/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Moments of slabs of rows, one slab per warp and one column per lane, joined in a fixed order. All other kernels have
 * one thread per column. */
#include "codelets/kernel.cuh"

#include "codelets/batchnorm.h"

#define SLAB_ROWS 32                   /* rows per warp, in registers */
#define N_WARPS (SL_THREADS / SL_WARP) /* per block */
#define BLOCK_ROWS (N_WARPS * SLAB_ROWS)
#define AT_ONCE 256 /* chunks or groups per launch */

static uint32_t n_blocks_of(uint32_t n_rows)
{
    return (uint32_t)(((uint64_t)n_rows + BLOCK_ROWS - 1) / BLOCK_ROWS);
}

/* Tiles of one warp's width. */
static inline __host__ __device__ uint32_t n_tiles_of(uint32_t n_columns)
{
    return (uint32_t)(((uint64_t)n_columns + SL_WARP - 1) / SL_WARP);
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
    __shared__ struct sl_moments part[N_WARPS][SL_WARP];
    struct sl_moments all = {0, 0, 0};
    part[threadIdx.x / SL_WARP][sl_lane()] = mine;
    __syncthreads();
    if (threadIdx.x < SL_WARP) {
        for (uint32_t w = 0; w < N_WARPS; w++) {
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
    const uint32_t n_tiles = n_tiles_of(n_columns);
    const uint32_t warp = threadIdx.x / SL_WARP;
    for (uint64_t b = blockIdx.x; b < (uint64_t)n_blocks * n_tiles; b += gridDim.x) {
        const uint64_t block = b / n_tiles;
        const uint64_t begin = block * BLOCK_ROWS + warp * SLAB_ROWS;
        const uint64_t end = begin + SLAB_ROWS < n_rows ? begin + SLAB_ROWS : n_rows;
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
    const uint32_t share = (n_blocks + N_WARPS - 1) / N_WARPS;
    const uint32_t warp = threadIdx.x / SL_WARP;
    const uint32_t end = (warp + 1) * share < n_blocks ? (warp + 1) * share : n_blocks;
    for (uint32_t t = blockIdx.x; t < n_tiles_of(n_columns); t += gridDim.x) {
        const uint32_t c = t * SL_WARP + sl_lane();
        struct sl_moments m = {0, 0, 0};
        if (c < n_columns) {
            for (uint32_t b = warp * share; b < end; b++) {
                uint64_t rows = n_rows - (uint64_t)b * BLOCK_ROWS;
                struct sl_moments next = {(double)(rows < BLOCK_ROWS ? rows : BLOCK_ROWS),
                                          partial[(size_t)b * 2 * n_columns + c],
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

/* ---- a thread a column ---- */

/* Chunks: moments and row counts, or sums. Groups: statistics or sums. */
struct parts {
    const double *pair[AT_ONCE];
    uint32_t counts[AT_ONCE];
};

/* Join n more chunks to the moments in `unbiased`, of `before` rows. last: write the statistics. */
static __global__ void merge_kernel(uint32_t n, uint32_t n_columns, struct parts parts, double before, bool last,
                                    sl_real *__restrict__ statistics_out, double *__restrict__ unbiased)
{
    for (uint64_t c = sl_thread(); c < n_columns; c += sl_n_threads()) {
        struct sl_moments all = {before, 0, 0};
        if (before > 0) {
            all.mean = unbiased[c];
            all.m2 = unbiased[n_columns + c];
        }
        for (uint32_t i = 0; i < n; i++) {
            struct sl_moments next = {(double)parts.counts[i], parts.pair[i][c], parts.pair[i][n_columns + c]};
            all = sl_moments_join(all, next);
        }
        if (last) {
            statistics_out[c] = (sl_real)all.mean;
            statistics_out[n_columns + c] = sl_batchnorm_rstd(all.m2 / all.count);
        }
        unbiased[c] = all.mean;
        unbiased[n_columns + c] = last ? sl_moments_unbiased(all) : all.m2;
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

/* Add the sums of n more chunks or groups to sum_out (more), or store them (first launch). */
static __global__ void sum_kernel(uint32_t n, uint32_t n_columns, struct parts parts, bool more,
                                  double *__restrict__ sum_out)
{
    for (uint64_t c = sl_thread(); c < 2 * (uint64_t)n_columns; c += sl_n_threads()) {
        double sum = more ? sum_out[c] : 0;
        for (uint32_t i = 0; i < n; i++) {
            sum += parts.pair[i][c];
        }
        sum_out[c] = sum;
    }
}

/* more: as sum_kernel. */
static __global__ void gradient_kernel(uint32_t n, uint32_t n_columns, struct parts sums, bool more,
                                       sl_real *__restrict__ gw, sl_real *__restrict__ gb)
{
    for (uint64_t c = sl_thread(); c < n_columns; c += sl_n_threads()) {
        sl_real slope = more ? gw[c] : 0;
        sl_real offset = more ? gb[c] : 0;
        for (uint32_t i = 0; i < n; i++) {
            slope += (sl_real)sums.pair[i][c];
            offset += (sl_real)sums.pair[i][n_columns + c];
        }
        gw[c] = slope;
        gb[c] = offset;
    }
}

static __global__ void fixed_kernel(uint32_t n_columns, const sl_real *__restrict__ running,
                                    sl_real *__restrict__ statistics)
{
    for (uint64_t c = sl_thread(); c < n_columns; c += sl_n_threads()) {
        statistics[c] = running[c];
        statistics[n_columns + c] = sl_batchnorm_rstd((double)running[n_columns + c]);
    }
}

/* ---- launchers ---- */

enum sl_status sl_batchnorm_moments_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, const sl_real *z,
                                         double *moments_out)
{
    const char *name = "sl_batchnorm_moments";
    uint32_t n_blocks = n_blocks_of(n_rows);
    uint64_t n_tiles = n_tiles_of(n_columns);
    sl_scratch partial(stream);
    enum sl_status st;
    SL_TRY(st, partial.take((size_t)n_blocks * 2 * n_columns * sizeof(double), name), failed);
    SL_TRY(st,
           sl_start(name, stream, sl_blocks(n_blocks * n_tiles * SL_THREADS), slabs_kernel, n_rows, n_columns, z,
                    n_blocks, partial.as<double>()),
           failed);
    st = sl_start(name, stream, sl_blocks(n_tiles * SL_THREADS), join_kernel, n_rows, n_columns, n_blocks,
                  partial.as<double>(), moments_out);
failed:
    return st;
}

/* The next chunks or groups, from `first` on; their number in *n_out. */
static struct parts next_parts(uint32_t n, uint32_t first, const double *const *pairs, uint32_t *n_out)
{
    struct parts parts = {};
    *n_out = n - first < AT_ONCE ? n - first : AT_ONCE;
    for (uint32_t i = 0; i < *n_out; i++) {
        parts.pair[i] = pairs[first + i];
    }
    return parts;
}

enum sl_status sl_batchnorm_merge_cuda(cudaStream_t stream, uint32_t n, uint32_t n_columns,
                                       const double *const *moments, const uint32_t *counts, sl_real *statistics_out,
                                       double *unbiased_out)
{
    const char *name = "sl_batchnorm_merge";
    double before = 0;
    enum sl_status st = SL_OK;
    for (uint32_t first = 0, now = 0; st == SL_OK && first < n; first += now) {
        struct parts parts = next_parts(n, first, moments, &now);
        double rows = 0;
        for (uint32_t i = 0; i < now; i++) {
            parts.counts[i] = counts[first + i];
            rows += counts[first + i];
        }
        st = sl_start(name, stream, sl_blocks(n_columns), merge_kernel, now, n_columns, parts, before, first + now == n,
                      statistics_out, unbiased_out);
        before += rows;
    }
    return st;
}

enum sl_status sl_batchnorm_sum_cuda(cudaStream_t stream, uint32_t n, uint32_t n_columns, const double *const *sums,
                                     double *sum_out)
{
    enum sl_status st = SL_OK;
    uint32_t first = 0;
    do {
        uint32_t now;
        struct parts parts = next_parts(n, first, sums, &now);
        st = sl_start("sl_batchnorm_sum", stream, sl_blocks(2 * (uint64_t)n_columns), sum_kernel, now, n_columns, parts,
                      first > 0, sum_out);
        first += now;
    } while (st == SL_OK && first < n);
    return st;
}

enum sl_status sl_batchnorm_running_cuda(cudaStream_t stream, uint32_t n, uint32_t n_columns,
                                         const double *const *unbiased, sl_real *running)
{
    const char *name = "sl_batchnorm_running";
    sl_scratch sum(stream);
    enum sl_status st;
    SL_TRY(st, sum.take(2 * (size_t)n_columns * sizeof(double), name), failed);
    SL_TRY(st, sl_batchnorm_sum_cuda(stream, n, n_columns, unbiased, sum.as<double>()), failed);
    st = sl_start(name, stream, sl_blocks(2 * (uint64_t)n_columns), running_kernel, n, n_columns, sum.as<double>(),
                  running);
failed:
    return st;
}

enum sl_status sl_batchnorm_gradient_cuda(cudaStream_t stream, uint32_t n, uint32_t n_columns,
                                          const double *const *sums, sl_real *gw_out, sl_real *gb_out)
{
    enum sl_status st = SL_OK;
    uint32_t first = 0;
    do {
        uint32_t now;
        struct parts parts = next_parts(n, first, sums, &now);
        st = sl_start("sl_batchnorm_gradient", stream, sl_blocks(n_columns), gradient_kernel, now, n_columns, parts,
                      first > 0, gw_out, gb_out);
        first += now;
    } while (st == SL_OK && first < n);
    return st;
}

enum sl_status sl_batchnorm_fixed_cuda(cudaStream_t stream, uint32_t n_columns, const sl_real *running,
                                       sl_real *statistics_out)
{
    return sl_start("sl_batchnorm_fixed", stream, sl_blocks(n_columns), fixed_kernel, n_columns, running,
                    statistics_out);
}
