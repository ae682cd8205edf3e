/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Products of rows by AVX2. */
#include "codelets/rowwise.h"

#ifdef SL_ROWWISE_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS 6
#define VECTORS 2
typedef __m256 vector;
typedef __m256i some;

TARGET SL_INLINE some choose(uint32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

TARGET SL_INLINE vector load(const float *from)
{
    return _mm256_loadu_ps(from);
}

TARGET SL_INLINE vector load_some(const float *from, some lanes)
{
    return _mm256_maskload_ps(from, lanes);
}

TARGET SL_INLINE void store(float *to, vector x)
{
    _mm256_storeu_ps(to, x);
}

TARGET SL_INLINE void store_some(float *to, some lanes, vector x)
{
    _mm256_maskstore_ps(to, lanes, x);
}

TARGET SL_INLINE vector repeat(float x)
{
    return _mm256_set1_ps(x);
}

TARGET SL_INLINE vector fused(vector a, vector b, vector c)
{
    return _mm256_fmadd_ps(a, b, c);
}

#include "codelets/rowwise_kernel.inc"

void sl_rowwise_avx2(const struct sl_rowwise_stretch *stretch)
{
    multiply_stretch(stretch);
}
#endif
