/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Products of rows by AVX2. */
#include "codelets/rows/rowwise.h"

#ifdef SL_ROWWISE_X86
#include <immintrin.h>

typedef __m256 vector;
typedef __m256i some;
#define MULTIPLY sl_rowwise_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define ROWS 6
#define VECTORS 2
#define choose(n) _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define load _mm256_loadu_ps
#define load_some _mm256_maskload_ps
#define store _mm256_storeu_ps
#define store_some _mm256_maskstore_ps
#define repeat _mm256_set1_ps
#define fused _mm256_fmadd_ps

#include "codelets/rows/rowwise_kernel.inc"
#endif
