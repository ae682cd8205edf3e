/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Words of many counters that differ in their vertex. */
#include "support/philox.h"

#define LANES SL_PHILOX_LANES

/* ---- any processor ---- */

static void words_plain(const struct sl_philox_common *common, const uint32_t *vertices, uint32_t draw,
                        uint32_t words_out[4][LANES])
{
    for (uint32_t l = 0; l < LANES; l++) {
        words_out[0][l] = vertices[l];
        words_out[1][l] = draw;
        words_out[2][l] = common->step;
        words_out[3][l] = common->place;
    }
    sl_philox(common, LANES, words_out[0], words_out[1], words_out[2], words_out[3]);
}

/* ---- x86-64 ---- */

#if SL_HAVE_X86
#define VECTORS SL_PHILOX_VECTORS

/* The lower halves of eight lanes. */
__attribute__((target("avx2"))) SL_INLINE void store_avx2(uint32_t *out, __m256i first, __m256i second)
{
    __m256i mixed = _mm256_blend_epi32(first, _mm256_slli_epi64(second, 32), 0xaa);
    __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    _mm256_storeu_si256((__m256i *)out, _mm256_permutevar8x32_epi32(mixed, order));
}

__attribute__((target("avx2"))) static void words_avx2(const struct sl_philox_common *common, const uint32_t *vertices,
                                                       uint32_t draw, uint32_t words_out[4][LANES])
{
    for (uint32_t l = 0; l < LANES; l += 4 * VECTORS) {
        __m256i x[4][VECTORS];
        for (uint32_t v = 0; v < VECTORS; v++) {
            x[0][v] = _mm256_cvtepu32_epi64(_mm_loadu_si128((const __m128i *)(vertices + l + 4 * v)));
            x[1][v] = _mm256_set1_epi64x(draw);
            x[2][v] = _mm256_set1_epi64x(common->step);
            x[3][v] = _mm256_set1_epi64x(common->place);
        }
        sl_philox_avx2(common, x[0], x[1], x[2], x[3]);
        for (uint32_t w = 0; w < 4; w++) {
            for (uint32_t v = 0; v < VECTORS; v += 2) {
                store_avx2(words_out[w] + l + 4 * v, x[w][v], x[w][v + 1]);
            }
        }
    }
}

__attribute__((target("avx512f"))) static void words_avx512(const struct sl_philox_common *common,
                                                            const uint32_t *vertices, uint32_t draw,
                                                            uint32_t words_out[4][LANES])
{
    for (uint32_t l = 0; l < LANES; l += 8 * VECTORS) {
        __m512i x[4][VECTORS];
        for (uint32_t v = 0; v < VECTORS; v++) {
            x[0][v] = _mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)(vertices + l + 8 * v)));
            x[1][v] = _mm512_set1_epi64(draw);
            x[2][v] = _mm512_set1_epi64(common->step);
            x[3][v] = _mm512_set1_epi64(common->place);
        }
        sl_philox_avx512(common, x[0], x[1], x[2], x[3]);
        for (uint32_t w = 0; w < 4; w++) {
            for (uint32_t v = 0; v < VECTORS; v++) {
                _mm256_storeu_si256((__m256i *)(words_out[w] + l + 8 * v), _mm512_cvtepi64_epi32(x[w][v]));
            }
        }
    }
}
#endif

/* ---- for all ---- */

void sl_random4_lanes(const struct sl_draw *where, const uint32_t vertices[SL_PHILOX_LANES], uint32_t draw,
                      uint32_t words_out[4][SL_PHILOX_LANES])
{
    const struct sl_philox_common common = sl_philox_common(where);
#if SL_HAVE_X86
    if (__builtin_cpu_supports("avx512f")) {
        words_avx512(&common, vertices, draw, words_out);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        words_avx2(&common, vertices, draw, words_out);
        return;
    }
#endif
    words_plain(&common, vertices, draw, words_out);
}
