/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows scaled, and stored or added: a thread for an entry, or for four. */
#include "codelets/kernel.cuh"

#include "codelets/blend.h"

static __device__ float scaled(float a, float x)
{
    return a * x;
}

static __device__ float4 scaled(float a, float4 x)
{
    return make_float4(a * x.x, a * x.y, a * x.z, a * x.w);
}

static __device__ float sum_of(float x, float y)
{
    return x + y;
}

static __device__ float4 sum_of(float4 x, float4 y)
{
    return make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

template <typename T>
static __global__ void blend(size_t n_items, sl_real a, const T *__restrict__ x, int beta, T *__restrict__ out)
{
    for (size_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        T item = scaled(a, x[i]);
        out[i] = beta == 0 ? item : sum_of(out[i], item);
    }
}

enum sl_status sl_blend_cuda(cudaStream_t stream, size_t n, double a, const sl_real *x, int beta, sl_real *out)
{
    const char *name = "sl_blend";
    if (sl_in_quads(n, x, out, NULL)) {
        return sl_start(name, stream, sl_blocks(n / 4), blend<float4>, n / 4, (sl_real)a, (const float4 *)x, beta,
                        (float4 *)out);
    }
    return sl_start(name, stream, sl_blocks(n), blend<float>, n, (sl_real)a, x, beta, out);
}

enum sl_status sl_blend_clear_cuda(cudaStream_t stream, size_t n, sl_real *out)
{
    return sl_cuda_status(cudaMemsetAsync(out, 0, n * sizeof *out, stream), "sl_blend_clear");
}
