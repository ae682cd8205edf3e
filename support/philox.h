/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Philox 4x32-10 (support/random.h) for many counters at once: SIMD lanes, one lane per counter.
 *
 * Most callers use sl_random4_lanes. The rounds below are for callers that make counters, or use words, in vectors.
 * Word i of all counters is in x<i>; the result replaces it. With AVX2 and AVX-512 a lane has 64 bits, because 32-bit
 * multiplication gives 64 bits. The upper half of a lane is ignored on input and undefined on output. Compilers do
 * not vectorise this by themselves, hence the intrinsics. The rounds are inlined: compile the caller for the same
 * instruction set.
 */
#ifndef SL_SUPPORT_PHILOX_H
#define SL_SUPPORT_PHILOX_H

#include <stdint.h>

#include "support/random.h"
#include "support/real.h"

#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define SL_HAVE_X86 1
#else
#define SL_HAVE_X86 0
#endif

#define SL_PHILOX_LANES 32

/* Compute sl_random4(where, vertices[l], draw) for every lane l. Word i goes to words_out[i][l]. Uses AVX-512 or AVX2
 * if the processor has it; the bits are the same. */
void sl_random4_lanes(const struct sl_draw *where, const uint32_t vertices[SL_PHILOX_LANES], uint32_t draw,
                      uint32_t words_out[4][SL_PHILOX_LANES]);

/* ---- rounds ---- */

#define SL_PHILOX_ROUNDS 10

/* Values common to all lanes: the key, and words 2 and 3 of the counter, as in sl_random4. */
struct sl_philox_common {
    uint32_t key0, key1;
    uint32_t step, place;
};

static inline struct sl_philox_common sl_philox_common(const struct sl_draw *where)
{
    return (struct sl_philox_common){.key0 = (uint32_t)where->seed,
                                     .key1 = (uint32_t)(where->seed >> 32),
                                     .step = (uint32_t)where->step,
                                     .place = (uint32_t)(where->step >> 32) | where->hop << 16 | where->purpose << 24};
}

/* n lanes, on any processor. */
SL_INLINE void sl_philox(const struct sl_philox_common *common, uint32_t n, uint32_t *x0, uint32_t *x1, uint32_t *x2,
                         uint32_t *x3)
{
    uint32_t key0 = common->key0;
    uint32_t key1 = common->key1;
    for (int round = 0; round < SL_PHILOX_ROUNDS; round++) {
        for (uint32_t l = 0; l < n; l++) {
            uint64_t p = (uint64_t)PHILOX_M4x32_0 * x0[l];
            uint64_t q = (uint64_t)PHILOX_M4x32_1 * x2[l];
            x0[l] = (uint32_t)(q >> 32) ^ x1[l] ^ key0;
            x1[l] = (uint32_t)q;
            x2[l] = (uint32_t)(p >> 32) ^ x3[l] ^ key1;
            x3[l] = (uint32_t)p;
        }
        key0 += PHILOX_W32_0;
        key1 += PHILOX_W32_1;
    }
}

#if SL_HAVE_X86
#define SL_PHILOX_VECTORS 4 /* independent vectors, which hide the latency of multiplications */

/* 16 lanes. */
__attribute__((target("avx2"))) SL_INLINE void
sl_philox_avx2(const struct sl_philox_common *common, __m256i x0[SL_PHILOX_VECTORS], __m256i x1[SL_PHILOX_VECTORS],
               __m256i x2[SL_PHILOX_VECTORS], __m256i x3[SL_PHILOX_VECTORS])
{
    const __m256i m0 = _mm256_set1_epi64x(PHILOX_M4x32_0);
    const __m256i m1 = _mm256_set1_epi64x(PHILOX_M4x32_1);
    __m256i key0 = _mm256_set1_epi64x(common->key0);
    __m256i key1 = _mm256_set1_epi64x(common->key1);
#pragma GCC unroll 10
    for (int round = 0; round < SL_PHILOX_ROUNDS; round++) {
        for (int v = 0; v < SL_PHILOX_VECTORS; v++) {
            __m256i p = _mm256_mul_epu32(x0[v], m0);
            __m256i q = _mm256_mul_epu32(x2[v], m1);
            x0[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(q, 32), x1[v]), key0);
            x1[v] = q;
            x2[v] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p, 32), x3[v]), key1);
            x3[v] = p;
        }
        key0 = _mm256_add_epi64(key0, _mm256_set1_epi64x(PHILOX_W32_0));
        key1 = _mm256_add_epi64(key1, _mm256_set1_epi64x(PHILOX_W32_1));
    }
}

#define SL_EXCLUSIVE_OR 0x96 /* truth table of a three-way exclusive or, for a ternary instruction */

/* 32 lanes. */
__attribute__((target("avx512f"))) SL_INLINE void
sl_philox_avx512(const struct sl_philox_common *common, __m512i x0[SL_PHILOX_VECTORS], __m512i x1[SL_PHILOX_VECTORS],
                 __m512i x2[SL_PHILOX_VECTORS], __m512i x3[SL_PHILOX_VECTORS])
{
    const __m512i m0 = _mm512_set1_epi64(PHILOX_M4x32_0);
    const __m512i m1 = _mm512_set1_epi64(PHILOX_M4x32_1);
    __m512i key0 = _mm512_set1_epi64(common->key0);
    __m512i key1 = _mm512_set1_epi64(common->key1);
#pragma GCC unroll 10
    for (int round = 0; round < SL_PHILOX_ROUNDS; round++) {
        for (int v = 0; v < SL_PHILOX_VECTORS; v++) {
            __m512i p = _mm512_mul_epu32(x0[v], m0);
            __m512i q = _mm512_mul_epu32(x2[v], m1);
            x0[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(q, 32), x1[v], key0, SL_EXCLUSIVE_OR);
            x1[v] = q;
            x2[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p, 32), x3[v], key1, SL_EXCLUSIVE_OR);
            x3[v] = p;
        }
        key0 = _mm512_add_epi64(key0, _mm512_set1_epi64(PHILOX_W32_0));
        key1 = _mm512_add_epi64(key1, _mm512_set1_epi64(PHILOX_W32_1));
    }
}
#endif

#endif
