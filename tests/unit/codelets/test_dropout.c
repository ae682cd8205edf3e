/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/dropout.h: the mask of many columns is that of one group at a time, and keeps as many entries as it
 * should. */
/* The source, not the header: this processor takes but one of its ways to draw, and all are tested. */
#include "codelets/rows/dropout.c"
#include "tests/support/kernel.h"

/* Any first column and number of columns, seeds and steps beyond 32 bits. */
TEST(test_same_as_bits)
{
    for (uint32_t n = 1; n <= SL_DROPOUT_BLOCK; n += n < 20 ? 1 : 7) {
        struct sl_draw draw = {.seed = UINT64_C(0x123456789abcdef0) + n,
                               .step = UINT64_C(0xfedc00001234) - n,
                               .purpose = SL_FOR_DROPOUT,
                               .hop = n % 256};
        uint32_t first = 8 * (n * 37 % 1000);
        uint32_t vertex = 0xfffffff0u - n;
        uint32_t threshold = n * 257;
        uint8_t keep[SL_DROPOUT_BLOCK];
        memset(keep, 9, sizeof keep);
        sl_dropout_keep(&draw, 1, &vertex, threshold, first, n, keep);
        for (uint32_t c = 0; c < n; c++) {
            uint16_t bits[8];
            sl_dropout_bits(&draw, vertex, (first + c) / 8, bits);
            assert_int_equal(keep[c], bits[(first + c) % 8] >= threshold);
        }
    }
}

/* Rows side by side, from one to as many as there is room for, of vertices in no order: each has its own mask. */
TEST(test_rows)
{
    for (uint32_t n = 1; n <= SL_DROPOUT_BLOCK; n += n < 20 ? 1 : 3) {
        for (uint32_t n_rows = 1; n_rows <= sl_dropout_rows(n); n_rows++) {
            struct sl_draw draw = {.seed = UINT64_C(0xfedcba9876543210) * n, .step = n_rows, .purpose = SL_FOR_DROPOUT};
            uint32_t vertices[SL_DROPOUT_ROWS];
            uint8_t keep[SL_DROPOUT_BLOCK];
            for (uint32_t r = 0; r < n_rows; r++) {
                vertices[r] = (r + 1) * 2654435769u;
            }
            sl_dropout_keep(&draw, n_rows, vertices, 40000, 16, n, keep);
            for (uint32_t i = 0; i < n_rows * n; i++) {
                uint32_t r = i / n;
                uint32_t c = i % n;
                uint32_t mask = sl_dropout_mask(&draw, vertices[r], 2 + c / 8, 40000);
                assert_int_equal(keep[r * sl_dropout_stride(n) + c], mask >> c % 8 & 1);
            }
        }
    }
}

/* Each way to draw for all lanes that this processor knows. */
TEST(test_ways)
{
    for (uint32_t k = 0; k < 300; k++) {
        struct sl_draw draw = {.seed = UINT64_C(0x9e3779b97f4a7c15) * k,
                               .step = UINT64_C(0xabcdef012345) * k % (UINT64_C(1) << 48),
                               .purpose = SL_FOR_DROPOUT,
                               .hop = k % 256};
        uint32_t vertices[SL_DROPOUT_ROWS] = {k, 0xffffffffu - k, k * k, 17};
        uint32_t threshold = 1 + k * 218;
        uint8_t keep[3][SL_DROPOUT_BLOCK];
        struct lanes lanes;
        int n_ways = 1;
        fill_lanes(&draw, SL_DROPOUT_ROWS, vertices, 64 * k, 64, &lanes);
        keep_lanes(&lanes, threshold, keep[0]);
#if SL_HAVE_X86
        if (__builtin_cpu_supports("avx2")) {
            keep_lanes_avx2(&lanes, OCTETS, threshold, keep[n_ways++]);
        }
        if (__builtin_cpu_supports("avx512bw")) {
            keep_lanes_avx512(&lanes, threshold, keep[n_ways++]);
        }
#endif
        for (int w = 0; w < n_ways; w++) {
            for (uint32_t i = 0; i < SL_DROPOUT_BLOCK; i++) {
                uint32_t mask = sl_dropout_mask(&draw, vertices[i / 64], 8 * k + i % 64 / 8, threshold);
                assert_int_equal(keep[w][i], mask >> i % 8 & 1);
            }
        }
    }
}

/* Bits of a group in a mask. */
TEST(test_mask)
{
    struct sl_draw draw = {.seed = 3, .step = 4, .purpose = SL_FOR_DROPOUT, .hop = 2};
    for (uint32_t v = 0; v < 200; v++) {
        uint16_t bits[8];
        sl_dropout_bits(&draw, v, 5, bits);
        for (uint32_t i = 0; i < 8; i++) {
            assert_int_equal(sl_dropout_mask(&draw, v, 5, bits[i]) >> i & 1, 1);
            assert_int_equal(sl_dropout_mask(&draw, v, 5, bits[i] + 1u) >> i & 1, 0);
        }
    }
}

/* Nothing is dropped below 0, all below 65536. */
TEST(test_extremes)
{
    struct sl_draw draw = {.seed = 5, .step = 6, .purpose = SL_FOR_DROPOUT, .hop = 0};
    for (uint32_t v = 0; v < 2000; v++) {
        uint8_t none[SL_DROPOUT_BLOCK], all[SL_DROPOUT_BLOCK];
        sl_dropout_keep(&draw, 1, &v, 0, 0, SL_DROPOUT_BLOCK, none);
        sl_dropout_keep(&draw, 1, &v, 65536, 0, SL_DROPOUT_BLOCK, all);
        for (int c = 0; c < SL_DROPOUT_BLOCK; c++) {
            assert_int_equal(none[c], 1);
            assert_int_equal(all[c], 0);
        }
    }
}

/* An entry whose bits equal the threshold is kept. */
TEST(test_threshold_itself)
{
    struct sl_draw draw = {.seed = 5, .step = 6, .purpose = SL_FOR_DROPOUT, .hop = 0};
    for (uint32_t n = 8; n <= SL_DROPOUT_BLOCK; n *= 4) {
        for (uint32_t c = 0; c < n; c++) {
            uint8_t keep[SL_DROPOUT_BLOCK];
            uint16_t bits[8];
            sl_dropout_bits(&draw, c, c / 8, bits);
            sl_dropout_keep(&draw, 1, &c, bits[c % 8], 0, n, keep);
            assert_int_equal(keep[c], 1);
            sl_dropout_keep(&draw, 1, &c, bits[c % 8] + 1u, 0, n, keep);
            assert_int_equal(keep[c], 0);
        }
    }
}

/* The share kept, and that every part of the counter matters: masks that differ in one of them agree by chance only. */
TEST(test_share_kept)
{
    struct sl_draw draw = {.seed = 1, .step = 2, .purpose = SL_FOR_DROPOUT, .hop = 3};
    struct sl_draw others[] = {draw, draw, draw, draw};
    uint32_t threshold = sl_dropout_threshold(0.3);
    uint32_t kept = 0;
    uint32_t same[4] = {0};
    others[1].seed++;
    others[2].step++;
    others[3].hop++;
    enum { VERTICES = 400 };
    for (uint32_t v = 0; v < VERTICES; v++) {
        uint8_t keep[SL_DROPOUT_BLOCK];
        sl_dropout_keep(&draw, 1, &v, threshold, 0, SL_DROPOUT_BLOCK, keep);
        for (int o = 0; o < 4; o++) {
            uint8_t other[SL_DROPOUT_BLOCK];
            uint32_t vertex = o == 0 ? v + VERTICES : v;
            sl_dropout_keep(&others[o], 1, &vertex, threshold, 0, SL_DROPOUT_BLOCK, other);
            for (int c = 0; c < SL_DROPOUT_BLOCK; c++) {
                same[o] += keep[c] == other[c];
            }
        }
        for (int c = 0; c < SL_DROPOUT_BLOCK; c++) {
            kept += keep[c];
        }
    }
    const double n = VERTICES * (double)SL_DROPOUT_BLOCK;
    expect_near("share kept", kept / n, 0.7, 5 * sqrt(0.21 / n));
    for (int o = 0; o < 4; o++) {
        expect_near_at("share of equal choices", (size_t)o, same[o] / n, 0.58, 5 * sqrt(0.25 / n));
    }
}

TEST_MAIN(NULL, NULL)
