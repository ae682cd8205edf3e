/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/dropout.h: the mask of many columns is that of one group at a time, and keeps as many entries as it should. */
#include "codelets/dropout.h"

#include "tests/kernel.h"

/* Any first column and number of columns, seeds and steps beyond 32 bits. */
static void test_same_as_bits(void **state)
{
    (void)state;
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
        sl_dropout_keep(&draw, vertex, threshold, first, n, keep);
        for (uint32_t c = 0; c < n; c++) {
            uint16_t bits[8];
            sl_dropout_bits(&draw, vertex, (first + c) / 8, bits);
            assert_int_equal(keep[c], bits[(first + c) % 8] >= threshold);
        }
    }
}

/* An entry whose bits equal the threshold is kept. */
static void test_threshold_itself(void **state)
{
    (void)state;
    struct sl_draw draw = {.seed = 5, .step = 6, .purpose = SL_FOR_DROPOUT, .hop = 0};
    for (uint32_t n = 8; n <= SL_DROPOUT_BLOCK; n *= 4) {
        for (uint32_t c = 0; c < n; c++) {
            uint8_t keep[SL_DROPOUT_BLOCK];
            uint16_t bits[8];
            sl_dropout_bits(&draw, c, c / 8, bits);
            sl_dropout_keep(&draw, c, bits[c % 8], 0, n, keep);
            assert_int_equal(keep[c], 1);
            sl_dropout_keep(&draw, c, bits[c % 8] + 1u, 0, n, keep);
            assert_int_equal(keep[c], 0);
        }
    }
}

/* The share kept, and that every part of the counter matters: masks that differ in one of them agree by chance only. */
static void test_share_kept(void **state)
{
    (void)state;
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
        sl_dropout_keep(&draw, v, threshold, 0, SL_DROPOUT_BLOCK, keep);
        for (int o = 0; o < 4; o++) {
            uint8_t other[SL_DROPOUT_BLOCK];
            sl_dropout_keep(&others[o], o == 0 ? v + VERTICES : v, threshold, 0, SL_DROPOUT_BLOCK, other);
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

static void test_check(void **state)
{
    (void)state;
    const double bad[] = {-0.1, 1, 1.5, 0.999999, NAN, INFINITY};
    uint32_t threshold = 77;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sl_dropout_check("sl_test", bad[i], &threshold), SL_EINVAL);
        assert_int_equal(threshold, 77);
    }
    expect_message(sl_message(), "sl_test", "inf");
    assert_int_equal(sl_dropout_check("sl_test", 0.5, &threshold), SL_OK);
    assert_int_equal(threshold, 32768);
    expect_near("scale of a half", sl_dropout_scale(threshold), 2, 0);
    assert_int_equal(sl_dropout_check("sl_test", 0, &threshold), SL_OK);
    assert_int_equal(threshold, 0);
    expect_near("scale of nothing", sl_dropout_scale(threshold), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_bits),
        cmocka_unit_test(test_threshold_itself),
        cmocka_unit_test(test_share_kept),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
