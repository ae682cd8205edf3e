/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Dropout masks of many columns at once: Philox in parallel lanes, one lane for each group of 8 columns. */
#include "codelets/rows/dropout.h"

#include "support/philox.h"

#define LANES (SL_DROPOUT_BLOCK / 8)
#define OCTETS (LANES / 8)

/* The draws of the lanes: lane l draws for group[l / 8] + l % 8 of vertex[l / 8]. */
struct lanes {
    uint32_t vertex[OCTETS], group[OCTETS];
    struct sl_philox_common philox;
};

/* ---- any processor ---- */

static inline void keep_lanes(const struct lanes *lanes, uint32_t threshold, uint8_t *keep_out)
{
    uint32_t x[4][LANES];
    for (uint32_t l = 0; l < LANES; l++) {
        x[0][l] = lanes->vertex[l / 8];
        x[1][l] = lanes->group[l / 8] + l % 8;
        x[2][l] = lanes->philox.step;
        x[3][l] = lanes->philox.place;
    }
    sl_philox(&lanes->philox, LANES, x[0], x[1], x[2], x[3]);
    for (uint32_t l = 0; l < LANES; l++) {
        for (uint32_t w = 0; w < 4; w++) {
            keep_out[8 * l + 2 * w] = (x[w][l] & 0xffff) >= threshold;
            keep_out[8 * l + 2 * w + 1] = (x[w][l] >> 16) >= threshold;
        }
    }
}

/* ---- x86-64 ---- */

#if SL_HAVE_X86
#define VECTORS SL_PHILOX_VECTORS

__attribute__((target("avx2"))) static void keep_lanes_avx2(const struct lanes *lanes, uint32_t n_octets,
                                                            uint32_t threshold, uint8_t *keep_out)
{
    const __m256i below = _mm256_set1_epi16((short)(threshold - 1));
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i even = _mm256_setr_epi64x(0, 1, 2, 3);
    const __m256i odd = _mm256_setr_epi64x(4, 5, 6, 7);
    for (uint32_t l = 0; l < 8 * n_octets; l += 4 * VECTORS) {
        __m256i x0[VECTORS], x1[VECTORS], x2[VECTORS], x3[VECTORS];
        for (uint32_t v = 0; v < VECTORS; v++) {
            uint32_t octet = (l + 4 * v) / 8;
            x0[v] = _mm256_set1_epi64x(lanes->vertex[octet]);
            x1[v] = _mm256_add_epi64(_mm256_set1_epi64x(lanes->group[octet]), v % 2 == 0 ? even : odd);
            x2[v] = _mm256_set1_epi64x(lanes->philox.step);
            x3[v] = _mm256_set1_epi64x(lanes->philox.place);
        }
        sl_philox_avx2(&lanes->philox, x0, x1, x2, x3);
        /* a and b hold four 16-bit numbers per lane. A number becomes 1 if it is at least the threshold, else 0. */
        for (int v = 0; v < VECTORS; v++) {
            __m256i a = _mm256_blend_epi32(x0[v], _mm256_slli_epi64(x1[v], 32), 0xaa);
            __m256i b = _mm256_blend_epi32(x2[v], _mm256_slli_epi64(x3[v], 32), 0xaa);
            a = _mm256_min_epu16(_mm256_subs_epu16(a, below), one);
            b = _mm256_min_epu16(_mm256_subs_epu16(b, below), one);
            __m256i keep = _mm256_shuffle_epi32(_mm256_packus_epi16(a, b), _MM_SHUFFLE(3, 1, 2, 0));
            _mm256_storeu_si256((__m256i *)(keep_out + 8 * (l + 4 * v)), keep);
        }
    }
}

/* The same with vectors of twice the length: all lanes at once. */
__attribute__((target("avx512f,avx512bw"))) static void keep_lanes_avx512(const struct lanes *lanes, uint32_t threshold,
                                                                          uint8_t *keep_out)
{
    const __m512i below = _mm512_set1_epi16((short)(threshold - 1));
    const __m512i one = _mm512_set1_epi16(1);
    __m512i x0[VECTORS], x1[VECTORS], x2[VECTORS], x3[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        x0[v] = _mm512_set1_epi64(lanes->vertex[v]);
        x1[v] = _mm512_add_epi64(_mm512_set1_epi64(lanes->group[v]), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        x2[v] = _mm512_set1_epi64(lanes->philox.step);
        x3[v] = _mm512_set1_epi64(lanes->philox.place);
    }
    sl_philox_avx512(&lanes->philox, x0, x1, x2, x3);
    for (int v = 0; v < VECTORS; v++) {
        __m512i a = _mm512_mask_blend_epi32(0xaaaa, x0[v], _mm512_slli_epi64(x1[v], 32));
        __m512i b = _mm512_mask_blend_epi32(0xaaaa, x2[v], _mm512_slli_epi64(x3[v], 32));
        a = _mm512_min_epu16(_mm512_subs_epu16(a, below), one);
        b = _mm512_min_epu16(_mm512_subs_epu16(b, below), one);
        __m512i keep = _mm512_shuffle_epi32(_mm512_packus_epi16(a, b), _MM_SHUFFLE(3, 1, 2, 0));
        _mm512_storeu_si512(keep_out + 64 * v, keep);
    }
}
#endif

/* ---- for all ---- */

/* Fill the octets in row order, columns ascending. Octets behind the last row are unused. Returns the number of
 * octets. */
static inline uint32_t fill_lanes(const struct sl_draw *draw, uint32_t n_rows, const uint32_t *vertices, uint32_t first,
                                  uint32_t n, struct lanes *out)
{
    uint32_t o = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        for (uint32_t c = 0; c < n; c += 64, o++) {
            out->vertex[o] = vertices[r];
            out->group[o] = (first + c) / 8;
        }
    }
    for (uint32_t idle = o; idle < OCTETS; idle++) {
        out->vertex[idle] = 0;
        out->group[idle] = 0;
    }
    out->philox = sl_philox_common(draw);
    return o;
}

void sl_dropout_keep(const struct sl_draw *draw, uint32_t n_rows, const uint32_t *vertices, uint32_t threshold,
                     uint32_t first, uint32_t n, uint8_t keep_out[SL_DROPOUT_BLOCK])
{
    struct lanes lanes;
    uint32_t n_octets = fill_lanes(draw, n_rows, vertices, first, n, &lanes);
#if SL_HAVE_X86
    if (threshold > 0 && __builtin_cpu_supports("avx512bw")) {
        keep_lanes_avx512(&lanes, threshold, keep_out);
        return;
    }
    if (threshold > 0 && __builtin_cpu_supports("avx2")) {
        keep_lanes_avx2(&lanes, n_octets, threshold, keep_out);
        return;
    }
#endif
    (void)n_octets;
    keep_lanes(&lanes, threshold, keep_out);
}
