/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers of rows in kernels: stored as sl_real or as sl_bf16, which a kernel is a template of, and computed with as V: a float,
 * or four where width and addresses allow it. What is stored is rounded then, once.
 *
 * Rows that are only copied are bytes, whatever they hold, and go in the widest units that fit them.
 */
#ifndef SL_CODELETS_BF16_CUH
#define SL_CODELETS_BF16_CUH

#include "codelets/kernel.cuh"
#include "codelets/rows.h"

/* What a V of numbers that are stored as E is in memory: sl_stored<E, V>::type. */
template <typename E, typename V> struct sl_stored {
    typedef V type;
};
template <> struct sl_stored<sl_bf16, float> {
    typedef sl_bf16 type;
};
template <> struct sl_stored<sl_bf16, float4> {
    typedef ushort4 type;
};

/* E, as the host names it. */
template <typename E> static inline enum sl_dtype sl_dtype_of()
{
    return sizeof(E) == sizeof(sl_bf16) ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
}

/* What is computed with. */
static inline __device__ float sl_wide(float x)
{
    return x;
}

static inline __device__ float4 sl_wide(float4 x)
{
    return x;
}

static inline __device__ float sl_wide(sl_bf16 x)
{
    return sl_bf16_real(x);
}

static inline __device__ float4 sl_wide(ushort4 x)
{
    return make_float4(sl_bf16_real(x.x), sl_bf16_real(x.y), sl_bf16_real(x.z), sl_bf16_real(x.w));
}

static inline __device__ float sl_plus(float a, float b)
{
    return a + b;
}

static inline __device__ float4 sl_plus(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

static inline __device__ float sl_times(float a, float x)
{
    return a * x;
}

static inline __device__ float4 sl_times(float a, float4 x)
{
    return make_float4(a * x.x, a * x.y, a * x.z, a * x.w);
}

static inline __device__ void sl_store(float x, float *to)
{
    *to = x;
}

static inline __device__ void sl_store(float4 x, float4 *to)
{
    *to = x;
}

static inline __device__ void sl_store(float x, sl_bf16 *to)
{
    *to = sl_bf16_of(x);
}

static inline __device__ void sl_store(float4 x, ushort4 *to)
{
    *to = make_ushort4(sl_bf16_of(x.x), sl_bf16_of(x.y), sl_bf16_of(x.z), sl_bf16_of(x.w));
}

/* An address such that four numbers of the kind may be had there at a time where it is a multiple of sizeof(float4). */
static inline uintptr_t sl_quad_address(enum sl_dtype dtype, const void *numbers)
{
    return (uintptr_t)numbers * (dtype == SL_DTYPE_BF16 ? sizeof(float4) / sizeof(ushort4) : 1);
}

/* Bytes of the widest unit, of a float4, a float and an sl_bf16, in which rows can be copied; sizes: the bytes of all that is copied,
 * or skipped, and all addresses, or'ed. */
static inline size_t sl_copy_unit(uintptr_t sizes)
{
    if (sizes % sizeof(float4) == 0) {
        return sizeof(float4);
    }
    return sizes % sizeof(float) == 0 ? sizeof(float) : sizeof(sl_bf16);
}

#endif
