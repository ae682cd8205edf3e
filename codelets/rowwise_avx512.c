/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Products of rows by AVX-512. */
#include "codelets/rowwise.h"

#ifdef SL_ROWWISE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f")))
#define LANES 16
#define ROWS 9
#define VECTORS 3
typedef __m512 vector;
typedef __mmask16 some;

TARGET SL_INLINE some choose(uint32_t n)
{
    return (some)((1U << n) - 1);
}

TARGET SL_INLINE vector load(const float *from)
{
    return _mm512_loadu_ps(from);
}

TARGET SL_INLINE vector load_some(const float *from, some lanes)
{
    return _mm512_maskz_loadu_ps(lanes, from);
}

TARGET SL_INLINE void store(float *to, vector x)
{
    _mm512_storeu_ps(to, x);
}

TARGET SL_INLINE void store_some(float *to, some lanes, vector x)
{
    _mm512_mask_storeu_ps(to, lanes, x);
}

TARGET SL_INLINE vector repeat(float x)
{
    return _mm512_set1_ps(x);
}

TARGET SL_INLINE vector fused(vector a, vector b, vector c)
{
    return _mm512_fmadd_ps(a, b, c);
}

#include "codelets/rowwise_kernel.inc"

void sl_rowwise_avx512(const struct sl_rowwise_stretch *stretch)
{
    multiply_stretch(stretch);
}
#endif
