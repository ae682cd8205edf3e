/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/number.h against the C library, and where numbers end. */
#include "support/number.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* Equal to the bit, NaNs among themselves. */
static void assert_real(const char *text)
{
    double value = 0;
    char *stop;
    double expected = strtod(text, &stop);
    const char *end = text + strlen(text);
    const char *got = sl_number_real(text, end, &value);
    if (got != stop || !(value == expected || (isnan(value) && isnan(expected))) ||
        signbit(value) != signbit(expected)) {
        fail_msg("'%s': expected %.17g, found %.17g, %td bytes read", text, expected, value,
                 got == NULL ? -1 : got - text);
    }
}

TEST(reals_as_strtod)
{
    const char *texts[] = {"0",
                           "-0",
                           "1",
                           "-1",
                           "+1",
                           "3.0",
                           "0.1",
                           ".5",
                           "5.",
                           "-0.000123",
                           "1e3",
                           "1E+3",
                           "1e-3",
                           "1e22",
                           "1e23",
                           "123456789012345678",
                           "9007199254740993",
                           "1234567890123456789012345",
                           "0.1234567890123456789012",
                           "1e308",
                           "1e309",
                           "1e-320",
                           "4.9e-324",
                           "1e-400",
                           "2.2250738585072011e-308",
                           "nan",
                           "-nan",
                           "inf",
                           "-inf",
                           "8.589973e-05",
                           "-1.797693134862315807e308",
                           "00012",
                           "0.00000000000000000000000000000001"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_real(texts[i]);
    }
}

TEST(random_reals_as_strtod)
{
    uint64_t x = 88172645463325252u;
    char text[64];
    for (int i = 0; i < 40000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        switch (i % 4) {
        case 0: snprintf(text, sizeof text, "%.9g", (double)(float)ldexp((double)(x >> 40), -(int)(x % 40))); break;
        case 1: snprintf(text, sizeof text, "%" PRIu64 "e%d", x >> (x % 60), (int)(x % 600) - 300); break;
        case 2: snprintf(text, sizeof text, "-%" PRIu64 ".%" PRIu64, x >> 50, x >> (x % 50)); break;
        default: snprintf(text, sizeof text, "%.17g", ldexp((double)x, -(int)(x % 1000))); break;
        }
        assert_real(text);
    }
}

TEST(reals_refused)
{
    const char *texts[] = {"", " 1", "-", "+", ".", "e5", "x", "0x10", ",", "--1", "1e", "1e+"};
    double value;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *end = texts[i] + strlen(texts[i]);
        const char *stop = sl_number_real(texts[i], end, &value);
        if (stop == end) {
            fail_msg("'%s' was read as %g", texts[i], value);
        }
    }
}

/* `end` counts, not what stands behind it. */
TEST(stops_at_end)
{
    const char *text = "12345678901234567890123.5e7";
    double value;
    uint64_t whole;
    for (size_t n = 1; n <= strlen(text); n++) {
        const char *stop = sl_number_real(text, text + n, &value);
        assert_true(stop == NULL || stop <= text + n);
    }
    assert_ptr_equal(sl_number_u64(text, text + 3, &whole), text + 3);
    assert_int_equal(whole, 123);
    assert_null(sl_number_real(text, text, &value));
    assert_null(sl_number_u64(text, text, &whole));
    assert_null(sl_number_whole(text, text, &whole));
}

TEST(integers)
{
    uint64_t value;
    const char *most = "18446744073709551615";
    assert_ptr_equal(sl_number_u64(most, most + 20, &value), most + 20);
    assert_true(value == UINT64_MAX);
    const char *more = "18446744073709551616";
    assert_null(sl_number_u64(more, more + 20, &value));
    const char *far = "99999999999999999999999999";
    assert_null(sl_number_u64(far, far + 26, &value));
    const char *negative = "-1";
    assert_null(sl_number_u64(negative, negative + 2, &value));
}

TEST(wholes)
{
    const struct {
        const char *text;
        int64_t value; /* -1: refused */
    } cases[] = {{"3", 3},
                 {"3.0", 3},
                 {"3.", 3},
                 {"3e0", 3},
                 {"3E2", 300},
                 {"0", 0},
                 {"0.0", 0},
                 {"3.5", -1},
                 {"-3", -1},
                 {"1e30", -1},
                 {"nan", -1},
                 {"inf", -1},
                 {"1e-1", -1},
                 {"9007199254740992", -1},
                 {"9007199254740991", 9007199254740991},
                 {"18446744073709551616", -1},
                 {"1e15", 1000000000000000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t value = 77;
        const char *end = cases[i].text + strlen(cases[i].text);
        const char *stop = sl_number_whole(cases[i].text, end, &value);
        if (cases[i].value < 0 ? stop == end : stop != end || value != (uint64_t)cases[i].value) {
            fail_msg("'%s' was read as %" PRIu64, cases[i].text, value);
        }
    }
}

/* A user's decimal comma changes nothing. */
TEST(ignores_the_locale)
{
    double value = 0;
    const char *text = "1.2345678901234567890123";
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL && setlocale(LC_NUMERIC, "fr_FR.UTF-8") == NULL) {
        skip();
    }
    const char *stop = sl_number_real(text, text + strlen(text), &value);
    setlocale(LC_NUMERIC, "C");
    assert_ptr_equal(stop, text + strlen(text));
    assert_true(value == 1.2345678901234567890123);
}

TEST_MAIN(NULL, NULL)
