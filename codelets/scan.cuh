/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Prefix sums in one launch. The same kernel makes the numbers and uses the sums.
 *
 * Blocks take consecutive shares of the items, in the order in which they start. A block adds the numbers of its share
 * and tells the other blocks the sum. Then it waits for the sums of the blocks before it. All of these have started, so
 * a launch needs no more room on the GPU than one block does. Numbers are integers: any order of additions gives the
 * same sums.
 *
 * Merrill and Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, 2016. They look back block by block;
 * here a block reads all sums before its own, at most SL_SCAN_BLOCKS.
 */
#ifndef SL_CODELETS_SCAN_CUH
#define SL_CODELETS_SCAN_CUH

#include "codelets/kernel.cuh"

/* What the blocks of a launch tell each other, from launch to launch of one stream. */
#define SL_SCAN_BLOCKS 512
struct sl_scan {
    uint64_t sum[SL_SCAN_BLOCKS]; /* of a block's share; in the upper half, the launch */
    uint32_t n_started;           /* blocks of the launch; 0 between launches */
};

/* The sum of x over the threads of the block before this one; *sum_out: over all. sums: shared. All threads call. */
static inline __device__ uint32_t sl_sum_before(uint32_t x, uint32_t sums[SL_WARPS], uint32_t *sum_out)
{
    const uint32_t warp = threadIdx.x / SL_WARP;
    const uint32_t sum = sl_warp_sum_to(x);
    if (sl_lane() + 1 == SL_WARP) {
        sums[warp] = sum;
    }
    __syncthreads();
    uint32_t before = sum - x;
    *sum_out = 0;
    for (uint32_t w = 0; w < SL_WARPS; w++) {
        before += w < warp ? sums[w] : 0;
        *sum_out += sums[w];
    }
    __syncthreads();
    return before;
}

/* The sum of an earlier block of this launch. */
static inline __device__ uint32_t sl_sum_of_block(const struct sl_scan *scan, uint32_t block, uint32_t launch)
{
    const volatile uint64_t *told = &scan->sum[block];
    uint64_t sum;
    do {
        sum = *told;
    } while (sum >> 32 != launch);
    return (uint32_t)sum;
}

/* items.number(i): the number of item i. items.take(i, before, number): uses the sum of the numbers before it. A number
 * is asked for again after other items have been taken. */
template <typename Items>
static __global__ void sl_scan_items(uint64_t n, const Items items, struct sl_scan *scan, uint32_t launch)
{
    __shared__ uint32_t sums[SL_WARPS];
    __shared__ uint32_t block;
    if (threadIdx.x == 0) {
        block = atomicAdd(&scan->n_started, 1u);
        if (block + 1 == gridDim.x) { /* no other will ask */
            scan->n_started = 0;
        }
    }
    __syncthreads();
    const uint64_t n_rounds = (n + SL_THREADS - 1) / SL_THREADS;
    const uint64_t share = (n_rounds + gridDim.x - 1) / gridDim.x * SL_THREADS;
    const uint64_t begin = sl_least(block * share, n);
    const uint64_t end = sl_least(begin + share, n);
    uint32_t number = 0;
    uint32_t sum = 0;
    for (uint64_t i = begin + threadIdx.x; i < end; i += SL_THREADS) {
        number = items.number(i);
        sum += number;
    }
    uint32_t total;
    sl_sum_before(sum, sums, &total);
    if (threadIdx.x == 0) {
        *(volatile uint64_t *)&scan->sum[block] = (uint64_t)launch << 32 | total;
    }
    sum = 0;
    for (uint32_t b = threadIdx.x; b < block; b += SL_THREADS) {
        sum += sl_sum_of_block(scan, b, launch);
    }
    uint32_t before;
    sl_sum_before(sum, sums, &before);
    for (uint64_t i = begin + threadIdx.x; i - threadIdx.x < end; i += SL_THREADS) {
        if (share > SL_THREADS) {
            number = i < end ? items.number(i) : 0;
        }
        const uint32_t here = sl_sum_before(number, sums, &total);
        if (i < end) {
            items.take(i, before + here, number);
        }
        before += total;
    }
}

/* For the next launch on the stream: what its blocks share, and a number above 0 that no launch before it has. */
static inline enum sl_status sl_scan_begin(const char *name, cudaStream_t stream, struct sl_scan **scan_out,
                                           uint32_t *launch_out)
{
    struct sl_arena *arena = sl_arena_of(stream);
    if (arena->scan == nullptr) {
        SL_CHECK(sl_cuda_status(cudaMallocAsync((void **)&arena->scan, sizeof *arena->scan, stream), name));
        arena->n_scans = UINT32_MAX;
    }
    if (arena->n_scans == UINT32_MAX) {
        SL_CHECK(sl_cuda_status(cudaMemsetAsync(arena->scan, 0, sizeof *arena->scan, stream), name));
        arena->n_scans = 0;
    }
    *scan_out = arena->scan;
    *launch_out = ++arena->n_scans;
    return SL_OK;
}

/* Take the items 0 .. n - 1. SL_ECUDA. */
template <typename Items>
static enum sl_status sl_scan_each(const char *name, cudaStream_t stream, uint64_t n, const Items &items)
{
    struct sl_scan *scan;
    uint32_t launch;
    if (n == 0) {
        return SL_OK;
    }
    SL_CHECK(sl_scan_begin(name, stream, &scan, &launch));
    return sl_start(name, stream, sl_least(sl_blocks(n), (unsigned)SL_SCAN_BLOCKS), sl_scan_items<Items>, n, items,
                    scan, launch);
}

struct sl_sums_in_place {
    uint32_t *x;

    __device__ uint32_t number(uint64_t i) const
    {
        return x[i];
    }
    __device__ void take(uint64_t i, uint32_t before, uint32_t) const
    {
        x[i] = before;
    }
};

/* x[i] becomes x[0] + .. + x[i - 1], modulo 2^32. SL_ECUDA. */
static inline enum sl_status sl_exclusive_sum(cudaStream_t stream, uint64_t n, uint32_t *x)
{
    return sl_scan_each("sl_exclusive_sum", stream, n, sl_sums_in_place{x});
}

#endif
