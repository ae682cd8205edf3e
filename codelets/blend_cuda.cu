/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Scale rows, and store or add them: one thread per entry, or per four entries. */
#include "codelets/bf16.cuh"

#include "codelets/blend.h"

/* X, Out: stored type of an item. */
template <typename X, typename Out>
static __global__ void blend(size_t n_items, sl_real a, const X *__restrict__ x, int beta, Out *__restrict__ out)
{
    for (size_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        auto item = sl_times(a, sl_wide(x[i]));
        sl_store(beta == 0 ? item : sl_plus(sl_wide(out[i]), item), out + i);
    }
}

/* X, Out: stored type of a number. */
template <typename X, typename Out>
static enum sl_status start(cudaStream_t stream, size_t n, double a, const void *x, int beta, void *out)
{
    typedef typename sl_stored<X, float4>::type x_quad;
    typedef typename sl_stored<Out, float4>::type out_quad;
    const uintptr_t addresses = sl_quad_address(sl_dtype_of<X>(), x) | sl_quad_address(sl_dtype_of<Out>(), out);
    if (n % 4 == 0 && addresses % sizeof(float4) == 0) {
        return sl_start("sl_blend", stream, sl_blocks(n / 4), blend<x_quad, out_quad>, n / 4, (sl_real)a,
                        (const x_quad *)x, beta, (out_quad *)out);
    }
    return sl_start("sl_blend", stream, sl_blocks(n), blend<X, Out>, n, (sl_real)a, (const X *)x, beta, (Out *)out);
}

enum sl_status sl_blend_cuda(cudaStream_t stream, enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n, double a,
                             const void *x, int beta, void *out)
{
    /* X has the dtype of OUT, or is sl_real. */
    return sl_by_dtypes(out_dtype, x_dtype, [&](auto out_entry, auto x_entry) {
        return start<decltype(x_entry), decltype(out_entry)>(stream, n, a, x, beta, out);
    });
}

enum sl_status sl_blend_clear_cuda(cudaStream_t stream, size_t n, sl_real *out)
{
    return sl_cuda_status(cudaMemsetAsync(out, 0, n * sizeof *out, stream), "sl_blend_clear");
}
