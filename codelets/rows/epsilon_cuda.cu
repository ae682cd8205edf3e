/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The gradient of a learned number: blocks sum stretches in double, then one block adds the blocks' sums in order. */
#include "codelets/bf16.cuh"

#include "codelets/rows/epsilon.h"

#define STRETCH 8192 /* numbers that a block sums at a time */

/* The sum over the block's threads. Threads wait for each other, before and after. */
static __device__ double block_sum(double sum)
{
    __shared__ double part[SL_THREADS];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = SL_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
        __syncthreads();
    }
    sum = part[0];
    __syncthreads();
    return sum;
}

template <typename X>
static __global__ void sum_products(size_t n, const sl_real *__restrict__ g, const X *__restrict__ x, double *partial)
{
    for (size_t k = blockIdx.x; k * STRETCH < n; k += gridDim.x) {
        const size_t first = k * STRETCH;
        const size_t end = n - first < STRETCH ? n : first + STRETCH;
        double sum = 0;
        for (size_t i = first + threadIdx.x; i < end; i += SL_THREADS) {
            sum += (double)(g[i] * sl_wide(x[i]));
        }
        sum = block_sum(sum);
        if (threadIdx.x == 0) {
            partial[k] = sum;
        }
    }
}

static __global__ void sum_partials(size_t n, const double *partial, sl_real *ge)
{
    double sum = 0;
    for (size_t i = threadIdx.x; i < n; i += SL_THREADS) {
        sum += partial[i];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        *ge = (sl_real)sum;
    }
}

enum sl_status sl_epsilon_gradient_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, const sl_real *g,
                                        enum sl_dtype x_dtype, const void *x, sl_real *ge_out)
{
    const char *name = "sl_epsilon_gradient";
    const size_t n = (size_t)n_rows * n_columns;
    const size_t n_blocks = (n + STRETCH - 1) / STRETCH;
    sl_scratch scratch(stream);
    SL_CHECK(scratch.take(n_blocks * sizeof(double), "the partial sums of products"));
    if (n > 0) {
        SL_CHECK(sl_by_dtype(x_dtype, [&](auto entry) {
            typedef decltype(entry) X;
            return sl_start(name, stream, (unsigned)n_blocks, sum_products<X>, n, g, (const X *)x,
                            scratch.as<double>());
        }));
    }
    return sl_start(name, stream, 1, sum_partials, n_blocks, scratch.as<double>(), ge_out);
}
