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
