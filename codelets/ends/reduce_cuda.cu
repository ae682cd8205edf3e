/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The ordered sum: each thread sums some entries, partial sum after partial sum. The addresses of the partial sums
 * are kernel parameters, so a launch takes only some of them. Later launches continue from the result so far, in the
 * same order. */
#include "codelets/bf16.cuh"

#include "codelets/ends/reduce.h"

#define AT_ONCE 256 /* partial sums per launch: 2 of the 4 KiB of parameters */
#define IN_FLIGHT 8 /* partial sums that a thread loads at a time */

struct addresses {
    const void *partial[AT_ONCE];
};

/* The neutral element of addition: even the sign of a zero stays. */
static __device__ float nothing(float)
{
    return -0.0f;
}

static __device__ float4 nothing(float4)
{
    return make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
}

/* out = partial_0 + .. + partial_(n-1); with `more`: out += partial_0, then += partial_1 .. */
template <typename T>
static __global__ void sum_partials(struct addresses partials, uint32_t n, bool more, size_t n_items, T *out)
{
    for (size_t i = sl_thread(); i < n_items; i += sl_n_threads()) {
        T sum = more ? out[i] : static_cast<const T *>(partials.partial[0])[i];
        for (uint32_t k = more ? 0 : 1; k < n; k += IN_FLIGHT) {
            T item[IN_FLIGHT];
#pragma unroll
            for (uint32_t j = 0; j < IN_FLIGHT; j++) { /* past the end: load the last again, but do not add it */
                item[j] = static_cast<const T *>(partials.partial[k + j < n ? k + j : n - 1])[i];
            }
#pragma unroll
            for (uint32_t j = 0; j < IN_FLIGHT; j++) {
                sum = sl_plus(sum, k + j < n ? item[j] : nothing(T()));
            }
        }
        out[i] = sum;
    }
}

static bool all_aligned(uint32_t n, const sl_real *const *partials, const sl_real *out)
{
    uintptr_t bits = (uintptr_t)out;
    for (uint32_t k = 0; k < n; k++) {
        bits |= (uintptr_t)partials[k];
    }
    return bits % sizeof(float4) == 0;
}

enum sl_status sl_reduce_cuda(cudaStream_t stream, uint32_t n, size_t n_entries, const sl_real *const *partials,
                              sl_real *out)
{
    const char *name = "sl_reduce";
    bool quads = n_entries % 4 == 0 && all_aligned(n, partials, out);
    size_t n_items = quads ? n_entries / 4 : n_entries;
    if (n == 0) {
        return sl_cuda_status(cudaMemsetAsync(out, 0, n_entries * sizeof *out, stream), name);
    }
    for (uint32_t first = 0; first < n; first += AT_ONCE) {
        struct addresses table = {};
        uint32_t count = sl_least<uint32_t>(n - first, AT_ONCE);
        for (uint32_t k = 0; k < count; k++) {
            table.partial[k] = partials[first + k];
        }
        if (quads) {
            SL_CHECK(sl_start(name, stream, sl_blocks(n_items), sum_partials<float4>, table, count, first > 0, n_items,
                              (float4 *)out));
        } else {
            SL_CHECK(
                sl_start(name, stream, sl_blocks(n_items), sum_partials<float>, table, count, first > 0, n_items, out));
        }
    }
    return SL_OK;
}
