/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/convert.h: every float16, bfloat16 and int8, against the values that the formats define. */
#include <math.h>
#include <stdlib.h>

#include "support/convert.h"
#include "tests/support/test.h"

#define ALL 65536

static const enum sl_dtype narrow[] = {SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};

/* The value of a float with `exponent_bits` and `fraction_bits`. */
static double decode(uint32_t bits, int exponent_bits, int fraction_bits)
{
    int top = (1 << exponent_bits) - 1;
    int bias = top / 2;
    int exponent = (int)(bits >> fraction_bits) & top;
    double fraction = (double)(bits & ((1u << fraction_bits) - 1));
    double value;
    if (exponent == top) {
        value = fraction != 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
        value = ldexp(fraction, 1 - bias - fraction_bits);
    } else {
        value = ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    }
    return bits >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}

static double expected(enum sl_dtype dtype, uint32_t i, float scale)
{
    if (dtype == SL_DTYPE_I8) {
        return (double)((float)(int8_t)(uint8_t)i * scale);
    }
    return dtype == SL_DTYPE_F16 ? decode(i, 5, 10) : decode(i, 8, 7);
}

static void make_all(enum sl_dtype dtype, uint16_t *out)
{
    for (uint32_t i = 0; i < ALL; i++) {
        if (dtype == SL_DTYPE_I8) {
            ((uint8_t *)out)[i] = (uint8_t)i;
        } else {
            out[i] = (uint16_t)i;
        }
    }
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

TEST(every_number_has_its_value)
{
    static uint16_t table[ALL];
    static float floats[ALL];
    static sl_real reals[ALL];
    static sl_bf16 rounded[ALL];
    const float scale = 0.3f;
    for (int k = 0; k < 3; k++) {
        make_all(narrow[k], table);
        sl_convert_to_floats(narrow[k], scale, ALL, table, floats);
        sl_convert_to_reals(narrow[k], scale, ALL, table, reals);
        sl_convert_to_bf16(narrow[k], scale, ALL, table, rounded);
        for (uint32_t i = 0; i < ALL; i++) {
            double value = expected(narrow[k], i, scale);
            assert_true(same((double)floats[i], value));
            assert_true(same((double)reals[i], value));
            assert_true(isnan(value) || rounded[i] == sl_bf16_of((sl_real)value));
        }
    }
}

/* Tables of float32 keep their values, and are rounded as sl_bf16_of does. */
TEST(float32)
{
    const float x[] = {0, -0.0f, 1, 0.1f, -3.4e38f, 1e-45f};
    float floats[6];
    sl_real reals[6];
    sl_bf16 rounded[6];
    sl_convert_to_floats(SL_DTYPE_F32, 1, 6, x, floats);
    sl_convert_to_reals(SL_DTYPE_F32, 1, 6, x, reals);
    sl_convert_to_bf16(SL_DTYPE_F32, 1, 6, x, rounded);
    for (int i = 0; i < 6; i++) {
        assert_true(same((double)floats[i], (double)x[i]) && same((double)reals[i], (double)x[i]));
        assert_int_equal(rounded[i], sl_bf16_of((sl_real)x[i]));
    }
}

TEST_MAIN(NULL, NULL)
