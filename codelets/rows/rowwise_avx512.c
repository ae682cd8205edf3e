/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Products of rows by AVX-512. */
#include "codelets/rows/rowwise.h"

#ifdef SL_ROWWISE_X86
#include <immintrin.h>

typedef __m512 vector;
typedef __mmask16 some;
#define MULTIPLY sl_rowwise_avx512
#define TARGET __attribute__((target("avx512f")))
#define LANES 16
#define ROWS 9
#define VECTORS 3
#define choose(n) ((some)((1U << (n)) - 1))
#define load _mm512_loadu_ps
#define load_some(from, lanes) _mm512_maskz_loadu_ps(lanes, from)
#define store _mm512_storeu_ps
#define store_some _mm512_mask_storeu_ps
#define repeat _mm512_set1_ps
#define fused _mm512_fmadd_ps

#include "codelets/rows/rowwise_kernel.inc"
#endif
