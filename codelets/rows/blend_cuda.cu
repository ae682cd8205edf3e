/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Scale rows, and store or add them: one thread per entry, or per four entries. */
#include "codelets/bf16.cuh"

#include "codelets/rows/blend.h"

/* X, Out: stored type of an item. */
template <typename X, typename Out>
static __global__ void blend(size_t n_items, sl_real a, const sl_real *factor, const X *__restrict__ x, int beta,
                             Out *__restrict__ out)
{
    const sl_real scale = factor == nullptr ? a : *factor;
    for (size_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        auto item = sl_times(scale, sl_wide(x[i]));
        sl_store(beta == 0 ? item : sl_plus(sl_wide(out[i]), item), out + i);
    }
}

/* X, Out: stored type of a number. */
template <typename X, typename Out>
static enum sl_status start(cudaStream_t stream, size_t n, sl_real a, const sl_real *factor, const void *x, int beta,
                            void *out)
{
    typedef typename sl_stored<X, float4>::type x_quad;
    typedef typename sl_stored<Out, float4>::type out_quad;
    const uintptr_t addresses = sl_quad_address(sl_dtype_of<X>(), x) | sl_quad_address(sl_dtype_of<Out>(), out);
    if (n % 4 == 0 && addresses % sizeof(float4) == 0) {
        return sl_start("sl_blend", stream, sl_blocks(n / 4), blend<x_quad, out_quad>, n / 4, a, factor,
                        (const x_quad *)x, beta, (out_quad *)out);
    }
    return sl_start("sl_blend", stream, sl_blocks(n), blend<X, Out>, n, a, factor, (const X *)x, beta, (Out *)out);
}

enum sl_status sl_blend_cuda(cudaStream_t stream, enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n, double a,
                             const sl_real *factor, const void *x, int beta, void *out)
{
    return sl_by_dtype(x_dtype, [&](auto x_entry) {
        return sl_by_dtype(out_dtype, [&](auto out_entry) {
            return start<decltype(x_entry), decltype(out_entry)>(stream, n, (sl_real)a, factor, x, beta, out);
        });
    });
}

/* ---- the gradient of a learned factor: blocks sum stretches in double, then one block adds the blocks' sums in order
 * ---- */

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

enum sl_status sl_blend_gradient_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, const sl_real *g,
                                      enum sl_dtype x_dtype, const void *x, sl_real *ge_out)
{
    const char *name = "sl_blend_gradient";
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
