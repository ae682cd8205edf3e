/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers of rows in kernels. A kernel is a template of the stored type, sl_real or sl_bf16. It computes with V: a
 * float, or four floats if width and addresses allow. A result is rounded once, when it is stored.
 *
 * Rows that are only copied are bytes of any type, copied in the widest units that fit.
 */
#ifndef SL_CODELETS_BF16_CUH
#define SL_CODELETS_BF16_CUH

#include "codelets/kernel.cuh"
#include "tasks/rows.h"

/* sl_stored<E, V>::type: a V in memory, if its numbers are stored as E. */
template <typename E, typename V> struct sl_stored {
    typedef V type;
};
template <> struct sl_stored<sl_bf16, float> {
    typedef sl_bf16 type;
};
template <> struct sl_stored<sl_bf16, float4> {
    typedef ushort4 type;
};

/* E as an enum sl_dtype. Any other E is an error of the compiler. */
template <typename E> inline enum sl_dtype sl_dtype_of();
template <> inline enum sl_dtype sl_dtype_of<sl_real>() { return SL_DTYPE_REAL; }
template <> inline enum sl_dtype sl_dtype_of<sl_bf16>() { return SL_DTYPE_BF16; }

/* Start the kernel for a dtype of rows: start(E()), E being the stored type. start is a generic lambda, which has E as
 * decltype of its argument. */
template <typename Start> static inline enum sl_status sl_by_dtype(enum sl_dtype dtype, Start start)
{
    switch (dtype) {
    case SL_DTYPE_REAL: return start(sl_real());
    case SL_DTYPE_BF16: return start(sl_bf16());
    default: return sl_fail(SL_EINTERNAL, "found rows of %s, expected float32 or bfloat16", sl_dtype_name(dtype));
    }
}

/* The same for rows and for a result, of the rows' dtype or in sl_real: start(E(), R()). */
template <typename Start>
static inline enum sl_status sl_by_dtypes(enum sl_dtype rows, enum sl_dtype result, Start start)
{
    return sl_by_dtype(rows, [&](auto e) { return result == rows ? start(e, e) : start(e, sl_real()); });
}

/* The value to compute with. */
template <typename V> static inline __device__ V sl_wide(V x)
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

/* Zero, of the argument's type. */
static inline __device__ float sl_nothing(float)
{
    return 0;
}

static inline __device__ float4 sl_nothing(float4)
{
    return make_float4(0, 0, 0, 0);
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

template <typename V> static inline __device__ void sl_store(V x, V *to)
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

/* Maps an address to a value that is a multiple of sizeof(float4) if four numbers of `dtype` can be read there at a
 * time. */
static inline uintptr_t sl_quad_address(enum sl_dtype dtype, const void *numbers)
{
    return (uintptr_t)numbers * (sizeof(float) / sl_dtype_size(dtype));
}

/* Start a copy of rows in the widest units that fit: start(U()), U being float4, float or sl_bf16. sizes: all
 * addresses, and the bytes of everything copied or skipped, or'ed. */
template <typename Start> static inline enum sl_status sl_by_copy_unit(uintptr_t sizes, Start start)
{
    if (sizes % sizeof(float4) == 0) {
        return start(float4());
    }
    return sizes % sizeof(float) == 0 ? start(float()) : start(sl_bf16());
}

#endif
