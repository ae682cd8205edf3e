/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The dropout mask for many columns at once: Philox 4x32-10 on lanes side by side, a lane for each group of 8 columns. With AVX2
 * or AVX-512 a lane is 64 bits wide, because the multiplication of two 32-bit numbers is; what its upper half holds matters to
 * nobody. Compilers do not find that by themselves, hence the intrinsics. */
#include "codelets/dropout.h"

#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>
#define HAVE_X86 1
#else
#define HAVE_X86 0
#endif

#define LANES (SL_DROPOUT_BLOCK / 8)
#define OCTETS (LANES / 8)
#define ROUNDS 10

/* What the lanes draw for: lane l for group[l / 8] + l % 8 of vertex[l / 8]. */
struct lanes {
    uint32_t vertex[OCTETS], group[OCTETS];
    uint32_t step, place; /* counter words 2 and 3 */
    uint32_t key0, key1;
};

/* ---- any processor ---- */

/* The words of all lanes, lane by lane: sl_random4 for each. */
static inline void philox_lanes(const struct lanes *lanes, uint32_t words_out[4 * LANES])
{
    uint32_t x0[LANES], x1[LANES], x2[LANES], x3[LANES];
    uint32_t key0 = lanes->key0;
    uint32_t key1 = lanes->key1;
    for (uint32_t l = 0; l < LANES; l++) {
        x0[l] = lanes->vertex[l / 8];
        x1[l] = lanes->group[l / 8] + l % 8;
        x2[l] = lanes->step;
        x3[l] = lanes->place;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t l = 0; l < LANES; l++) {
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
    for (uint32_t l = 0; l < LANES; l++) {
        words_out[4 * l] = x0[l];
        words_out[4 * l + 1] = x1[l];
        words_out[4 * l + 2] = x2[l];
        words_out[4 * l + 3] = x3[l];
    }
}

static inline void keep_lanes(const struct lanes *lanes, uint32_t threshold, uint8_t *keep_out)
{
    uint32_t words[4 * LANES];
    philox_lanes(lanes, words);
    for (uint32_t i = 0; i < 4 * LANES; i++) {
        keep_out[2 * i] = (words[i] & 0xffff) >= threshold;
        keep_out[2 * i + 1] = (words[i] >> 16) >= threshold;
    }
}

/* ---- x86-64 ---- */

#if HAVE_X86
#define VECTORS 4 /* drawn for side by side, so that none waits for its own multiplications */

__attribute__((target("avx2"))) static void keep_lanes_avx2(const struct lanes *lanes, uint32_t n_octets,
                                                            uint32_t threshold, uint8_t *keep_out)
{
    const __m256i m0 = _mm256_set1_epi64x(PHILOX_M4x32_0);
    const __m256i m1 = _mm256_set1_epi64x(PHILOX_M4x32_1);
    const __m256i below = _mm256_set1_epi16((short)(threshold - 1));
    const __m256i one = _mm256_set1_epi16(1);
    const __m256i even = _mm256_setr_epi64x(0, 1, 2, 3);
    const __m256i odd = _mm256_setr_epi64x(4, 5, 6, 7);
    for (uint32_t l = 0; l < 8 * n_octets; l += 4 * VECTORS) {
        __m256i x0[VECTORS], x1[VECTORS], x2[VECTORS], x3[VECTORS];
        __m256i key0 = _mm256_set1_epi64x(lanes->key0);
        __m256i key1 = _mm256_set1_epi64x(lanes->key1);
        for (uint32_t v = 0; v < VECTORS; v++) {
            uint32_t octet = (l + 4 * v) / 8;
            x0[v] = _mm256_set1_epi64x(lanes->vertex[octet]);
            x1[v] = _mm256_add_epi64(_mm256_set1_epi64x(lanes->group[octet]), v % 2 == 0 ? even : odd);
            x2[v] = _mm256_set1_epi64x(lanes->step);
            x3[v] = _mm256_set1_epi64x(lanes->place);
        }
#pragma GCC unroll 10
        for (int round = 0; round < ROUNDS; round++) {
            for (int v = 0; v < VECTORS; v++) {
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
        /* Four 16-bit numbers of a lane in each of a and b; those of at least the threshold become 1, the others 0. */
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

#define EXCLUSIVE_OR 0x96 /* of three numbers, to a ternary instruction */

/* The same with vectors twice as long: all lanes at once. */
__attribute__((target("avx512f,avx512bw"))) static void keep_lanes_avx512(const struct lanes *lanes, uint32_t threshold,
                                                                          uint8_t *keep_out)
{
    const __m512i m0 = _mm512_set1_epi64(PHILOX_M4x32_0);
    const __m512i m1 = _mm512_set1_epi64(PHILOX_M4x32_1);
    const __m512i below = _mm512_set1_epi16((short)(threshold - 1));
    const __m512i one = _mm512_set1_epi16(1);
    __m512i x0[VECTORS], x1[VECTORS], x2[VECTORS], x3[VECTORS];
    __m512i key0 = _mm512_set1_epi64(lanes->key0);
    __m512i key1 = _mm512_set1_epi64(lanes->key1);
    for (int v = 0; v < VECTORS; v++) {
        x0[v] = _mm512_set1_epi64(lanes->vertex[v]);
        x1[v] = _mm512_add_epi64(_mm512_set1_epi64(lanes->group[v]), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        x2[v] = _mm512_set1_epi64(lanes->step);
        x3[v] = _mm512_set1_epi64(lanes->place);
    }
#pragma GCC unroll 10
    for (int round = 0; round < ROUNDS; round++) {
        for (int v = 0; v < VECTORS; v++) {
            __m512i p = _mm512_mul_epu32(x0[v], m0);
            __m512i q = _mm512_mul_epu32(x2[v], m1);
            x0[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(q, 32), x1[v], key0, EXCLUSIVE_OR);
            x1[v] = q;
            x2[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p, 32), x3[v], key1, EXCLUSIVE_OR);
            x3[v] = p;
        }
        key0 = _mm512_add_epi64(key0, _mm512_set1_epi64(PHILOX_W32_0));
        key1 = _mm512_add_epi64(key1, _mm512_set1_epi64(PHILOX_W32_1));
    }
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

enum sl_status sl_dropout_check(const char *name, double rate, uint32_t *threshold_out)
{
    if (!(rate >= 0 && rate < 1) || sl_dropout_threshold(rate) > 65535) {
        return sl_fail(SL_EINVAL, "%s: dropout %.9g; expected at least 0 and at most 0.9999", name, rate);
    }
    *threshold_out = sl_dropout_threshold(rate);
    return SL_OK;
}

/* Octets in order of rows, and of columns within a row; those behind the last draw for nobody. Returns their number. */
static inline uint32_t fill_lanes(const struct sl_draw *where, uint32_t n_rows, const uint32_t *vertices,
                                  uint32_t first, uint32_t n, struct lanes *out)
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
    out->step = (uint32_t)where->step;
    out->place = (uint32_t)(where->step >> 32) | where->hop << 16 | where->purpose << 24;
    out->key0 = (uint32_t)where->seed;
    out->key1 = (uint32_t)(where->seed >> 32);
    return o;
}

void sl_dropout_keep(const struct sl_draw *where, uint32_t n_rows, const uint32_t *vertices, uint32_t threshold,
                     uint32_t first, uint32_t n, uint8_t keep_out[SL_DROPOUT_BLOCK])
{
    struct lanes lanes;
    uint32_t n_octets = fill_lanes(where, n_rows, vertices, first, n, &lanes);
#if HAVE_X86
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
