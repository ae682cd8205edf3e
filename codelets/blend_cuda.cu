/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows scaled, and stored or added: a thread for an entry, or for four. */
#include "codelets/bf16.cuh"

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

/* T: what an item is stored as. */
template <typename T>
static __global__ void blend(size_t n_items, sl_real a, const T *__restrict__ x, int beta, T *__restrict__ out)
{
    for (size_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        auto item = scaled(a, sl_wide(x[i]));
        sl_store(beta == 0 ? item : sum_of(sl_wide(out[i]), item), out + i);
    }
}

template <typename T>
static enum sl_status start(cudaStream_t stream, size_t n_items, double a, const void *x, int beta, void *out)
{
    return sl_start("sl_blend", stream, sl_blocks(n_items), blend<T>, n_items, (sl_real)a, (const T *)x, beta,
                    (T *)out);
}

enum sl_status sl_blend_cuda(cudaStream_t stream, enum sl_entries of, size_t n, double a, const void *x, int beta,
                             void *out)
{
    bool quads = n % 4 == 0 && (sl_quad_address(of, x) | sl_quad_address(of, out)) % sizeof(float4) == 0;
    if (of == SL_OF_BF16) {
        return quads ? start<ushort4>(stream, n / 4, a, x, beta, out) : start<sl_bf16>(stream, n, a, x, beta, out);
    }
    return quads ? start<float4>(stream, n / 4, a, x, beta, out) : start<float>(stream, n, a, x, beta, out);
}

enum sl_status sl_blend_clear_cuda(cudaStream_t stream, size_t n, sl_real *out)
{
    return sl_cuda_status(cudaMemsetAsync(out, 0, n * sizeof *out, stream), "sl_blend_clear");
}
