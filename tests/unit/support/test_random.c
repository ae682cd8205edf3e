/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/random.h: the generator's published answers, where each field goes, and the arithmetic made of its bits. */
#include "support/random.h"

#include "tests/support/kernel.h"

/* ---- Philox 4x32-10, the known answers that come with Random123 ---- */

struct known_answer {
    struct sl_draw where;
    uint32_t vertex, draw;
    uint32_t wanted[4];
};

TEST(test_known_answers)
{
    const struct known_answer answers[] = {
        {{.seed = 0}, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{.seed = UINT64_MAX, .step = 0xffffffffffff, .purpose = 0xff, .hop = 0xff},
         UINT32_MAX,
         UINT32_MAX,
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{.seed = 0x299f31d0a4093822, .step = 0x734413198a2e, .purpose = 0x03, .hop = 0x70},
         0x243f6a88,
         0x85a308d3,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        uint32_t got[4];
        sl_random4(&answers[i].where, answers[i].vertex, answers[i].draw, got);
        for (int j = 0; j < 4; j++) {
            assert_int_equal(got[j], answers[i].wanted[j]);
        }
    }
}

/* ---- every field counts, and none runs into another ---- */

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

TEST(test_every_field_counts)
{
    uint64_t seen[400];
    size_t n = 0;
    for (uint64_t i = 0; i < 64; i++) { /* one bit at a time */
        struct sl_draw seed = {.seed = UINT64_C(1) << i};
        seen[n++] = sl_random_u64(&seed, 0, 0);
        struct sl_draw none = {0};
        if (i < 32) {
            seen[n++] = sl_random_u64(&none, 1u << i, 0);
            seen[n++] = sl_random_u64(&none, 0, 1u << i);
        }
        struct sl_draw step = {.step = UINT64_C(1) << i};
        if (i < 48) {
            seen[n++] = sl_random_u64(&step, 0, 0);
        }
        struct sl_draw hop = {.hop = 1u << i % 8};
        struct sl_draw purpose = {.purpose = 1u << i % 8};
        if (i < 8) {
            seen[n++] = sl_random_u64(&hop, 0, 0);
            seen[n++] = sl_random_u64(&purpose, 0, 0);
        }
    }
    qsort(seen, n, sizeof *seen, compare_u64);
    for (size_t i = 1; i < n; i++) {
        assert_true(seen[i - 1] != seen[i]);
    }
}

TEST(test_pure)
{
    struct sl_draw draw = {.seed = 5, .step = 6, .purpose = SL_FOR_SAMPLING, .hop = 2};
    uint32_t bits[4];
    sl_random4(&draw, 7, 8, bits);
    assert_true(sl_random_u64(&draw, 7, 8) == ((uint64_t)bits[0] << 32 | bits[1]));
    assert_true(sl_random_unit(&draw, 7, 8) == (double)(sl_random_u64(&draw, 7, 8) >> 11) / 9007199254740992.);
}

/* ---- uniform numbers ---- */

#define BINS 20

/* Sum of squared deviations over the expected count. */
static double chi_square(const uint32_t *counts, uint32_t n_bins, double expected)
{
    double sum = 0;
    for (uint32_t i = 0; i < n_bins; i++) {
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
}

/* With 19 degrees of freedom, one in a million lies above 62 and below 2.3. */
static void expect_uniform(const uint32_t counts[BINS], double expected)
{
    double chi = chi_square(counts, BINS, expected);
    if (!(chi > 2.3 && chi < 62)) {
        fail_msg("chi-square of %d bins is %g", BINS, chi);
    }
}

TEST(test_units_are_uniform)
{
    struct sl_draw draw = {.seed = 1, .purpose = SL_FOR_KAPPA};
    uint32_t by_vertex[BINS] = {0};
    uint32_t by_draw[BINS] = {0};
    uint32_t open[BINS] = {0};
    for (uint32_t i = 0; i < 100000; i++) {
        by_vertex[(int)(BINS * sl_random_unit(&draw, i, 0))]++;
        by_draw[(int)(BINS * sl_random_unit(&draw, 0, i))]++;
        open[(int)(BINS * sl_random_open(&draw, i, 1))]++;
    }
    expect_uniform(by_vertex, 100000. / BINS);
    expect_uniform(by_draw, 100000. / BINS);
    expect_uniform(open, 100000. / BINS);
}

/* Whatever the bits, neither 0 nor 1 comes out: both have no normal quantile. */
TEST(test_open_unit)
{
    assert_true(sl_unit_open(0) > 0 && sl_unit_open(0) < 0x1p-52);
    assert_true(sl_unit_open(UINT64_MAX) < 1 && sl_unit_open(UINT64_MAX) > 1 - 0x1p-52);
    assert_true(isfinite(sl_normal_quantile(sl_unit_open(0))));
    assert_true(isfinite(sl_normal_quantile(sl_unit_open(UINT64_MAX))));
    assert_true(sl_unit_open(0) == 1 - sl_unit_open(UINT64_MAX));
    expect_near("the middle", sl_unit_open(UINT64_C(1) << 63), 0.5, 0x1p-52);
}

TEST(test_below)
{
    struct sl_draw draw = {.seed = 2, .purpose = SL_FOR_SAMPLING};
    uint32_t counts[BINS] = {0};
    for (uint32_t i = 0; i < 25000; i++) {
        uint32_t bits[4];
        sl_random4(&draw, i, 0, bits);
        for (int j = 0; j < 4; j++) {
            uint32_t value = sl_random_below(bits[j], BINS);
            assert_true(value < BINS);
            counts[value]++;
            assert_int_equal(sl_random_below(bits[j], 1), 0);
        }
    }
    expect_uniform(counts, 100000. / BINS);
    assert_int_equal(sl_random_below(0, UINT32_MAX), 0);
    assert_int_equal(sl_random_below(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
    assert_int_equal(sl_random_below(UINT32_MAX, 13001), 13000);
    assert_int_equal(sl_random_below(1u << 31, 10), 5);
}

/* ---- the logarithm ---- */

/* Within one unit in the last place of what the C library has with more digits. */
static double expect_ln(double x)
{
    double got = sl_ln(x);
    long double wanted = logl(x);
    double place = fabs((double)wanted);
    double ulp = nextafter(place, INFINITY) - place;
    if (!(fabsl((long double)got - wanted) <= ulp)) {
        fail_msg("ln(%a) is %a, expected %a", x, got, (double)wanted);
    }
    return got;
}

TEST(test_ln)
{
    struct sl_draw draw = {.seed = 3, .purpose = SL_FOR_KAPPA};
    uint32_t n_equal = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        double u = sl_random_open(&draw, i, 0);
        n_equal += expect_ln(0.02425 * u) == log(0.02425 * u); /* where quantiles ask for it */
        expect_ln(0.5 + u);                                    /* on both sides of 1 */
        expect_ln(ldexp(0.5 + u / 2, (int)(i % 2000) - 1000));
    }
    assert_true(n_equal > 190000); /* the last bit is the C library's nearly always */
    assert_true(sl_ln(1) == 0);
    for (int k = -1022; k <= 1023; k++) { /* where the reduction changes over: powers of two, and their roots */
        double roots[] = {ldexp(1, k), ldexp(sqrt(0.5), k), ldexp(nextafter(sqrt(0.5), 0), k)};
        for (int i = 0; i < 3 && roots[i] >= 0x1p-1022; i++) {
            expect_ln(roots[i]);
        }
    }
    assert_true(expect_ln(0x1p-53) < 0 && isfinite(expect_ln(0x1.fffffffffffffp1023)));
}

/* To the bit what it was when these lines were written: edges of LABOR with kappa are stored nowhere, and must not
 * change with the compiler, the C library or the device. */
TEST(test_ln_is_fixed)
{
    struct sl_draw draw = {.seed = 4, .purpose = SL_FOR_KAPPA};
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 100000; i++) {
        double values[] = {sl_ln(sl_random_open(&draw, i, 0)), sl_normal_quantile(sl_random_open(&draw, i, 1))};
        for (int k = 0; k < 2; k++) {
            uint64_t bits;
            memcpy(&bits, &values[k], sizeof bits);
            sum = (sum ^ bits) * UINT64_C(0x100000001b3);
        }
    }
    assert_true(sum == UINT64_C(0x97e214a2bfaf4be1));
}

/* ---- the normal quantile ---- */

TEST(test_known_quantiles)
{
    const double known[][2] = {
        {0.5, 0},
        {0.75, 0.6744897501960817},
        {0.9, 1.2815515655446004},
        {0.95, 1.6448536269514722},
        {0.975, 1.959963984540054},
        {0.99, 2.3263478740408408},
        {0.999, 3.090232306167813},
        {0.9999, 3.7190164854556804},
        {1 - 1e-6, 4.753424308817088},
        {0.25, -0.6744897501960817},
        {0.1, -1.2815515655446004},
        {0.025, -1.959963984540054},
        {0.01, -2.3263478740408408},
        {1e-6, -4.753424308822899},
        {1e-10, -6.361340902404056},
        {1e-15, -7.941345326170998},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        expect_near_at("quantile", i, sl_normal_quantile(known[i][0]), known[i][1], 1.2e-9 * fabs(known[i][1]));
    }
}

/* Phi(quantile(u)) is u again. A relative error of 1.2e-9 in x moves Phi(x) by the density times that. */
static void expect_inverse(double u)
{
    double x = sl_normal_quantile(u);
    double density = exp(-x * x / 2) / sqrt(2 * M_PI);
    expect_near("Phi", erfc(-x / sqrt(2)) / 2, u, 1.2e-9 * fabs(x) * density + 1e-14 * u);
}

TEST(test_quantile_inverts)
{
    for (int i = 1; i < 4000; i++) {
        double u = i / 4000.;
        expect_inverse(u);
        expect_near_at("symmetry", (size_t)i, sl_normal_quantile(1 - u), -sl_normal_quantile(u), 8e-9);
    }
    for (double u = 1e-3; u > 1e-16; u /= 1.7) {
        expect_inverse(u);
    }
}

TEST(test_quantile_is_monotone)
{
    double last = -INFINITY;
    for (double u = 0x1p-53; u < 1e-3; u *= 1.001) {
        assert_true(sl_normal_quantile(u) > last);
        last = sl_normal_quantile(u);
    }
    for (int i = 101; i < 99900; i++) {
        assert_true(sl_normal_quantile(i / 1e5) > last);
        last = sl_normal_quantile(i / 1e5);
    }
    /* Where the pieces meet, a step of 1e-9 must not go back. */
    const double seams[] = {0.02425, 1 - 0.02425};
    for (int s = 0; s < 2; s++) {
        for (int i = -50; i < 50; i++) {
            double u = seams[s] + i * 1e-9;
            assert_true(sl_normal_quantile(u + 1e-9) > sl_normal_quantile(u) - 1e-12);
        }
    }
}

TEST_MAIN(NULL, NULL)
