/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Loops of conversion: one for each pair of dtypes. */
#include "support/convert.h"

#define SAME(x, scale) (x)
#define HALF(x, scale) sl_f16_float(x)
#define BRAIN(x, scale) sl_bf16_float(x)
#define SCALED(x, scale) sl_i8_float((x), (scale))

/* The float of a bfloat16, also in the double build. */
SL_INLINE float sl_bf16_float(sl_bf16 x)
{
    return (float)sl_bf16_real(x);
}

/* Define NAME: out[i] = TO(VALUE(in[i], scale)). */
#define LOOP(name, from_type, to_type, VALUE, TO)                                                                      \
    SL_CLONES static void name(float scale, size_t n, const void *from, to_type *to)                                   \
    {                                                                                                                  \
        const from_type *restrict in = from;                                                                           \
        to_type *restrict out = to;                                                                                    \
        (void)scale;                                                                                                   \
        for (size_t i = 0; i < n; i++) {                                                                               \
            out[i] = TO(VALUE(in[i], scale));                                                                          \
        }                                                                                                              \
    }

LOOP(f32_to_floats, float, float, SAME, (float))
LOOP(f16_to_floats, sl_f16, float, HALF, (float))
LOOP(bf16_to_floats, sl_bf16, float, BRAIN, (float))
LOOP(i8_to_floats, int8_t, float, SCALED, (float))
LOOP(f32_to_reals, float, sl_real, SAME, (sl_real))
LOOP(f16_to_reals, sl_f16, sl_real, HALF, (sl_real))
LOOP(bf16_to_reals, sl_bf16, sl_real, BRAIN, (sl_real))
LOOP(i8_to_reals, int8_t, sl_real, SCALED, (sl_real))
LOOP(f32_to_bf16, float, sl_bf16, SAME, sl_bf16_of)
LOOP(f16_to_bf16, sl_f16, sl_bf16, HALF, sl_bf16_of)
LOOP(i8_to_bf16, int8_t, sl_bf16, SCALED, sl_bf16_of)

void sl_convert_to_floats(enum sl_dtype dtype, float scale, size_t n, const void *from, float *to)
{
    switch (dtype) {
    case SL_DTYPE_F16: f16_to_floats(scale, n, from, to); break;
    case SL_DTYPE_BF16: bf16_to_floats(scale, n, from, to); break;
    case SL_DTYPE_I8: i8_to_floats(scale, n, from, to); break;
    default: f32_to_floats(scale, n, from, to);
    }
}

void sl_convert_to_reals(enum sl_dtype dtype, float scale, size_t n, const void *from, sl_real *to)
{
    switch (dtype) {
    case SL_DTYPE_F16: f16_to_reals(scale, n, from, to); break;
    case SL_DTYPE_BF16: bf16_to_reals(scale, n, from, to); break;
    case SL_DTYPE_I8: i8_to_reals(scale, n, from, to); break;
    default: f32_to_reals(scale, n, from, to);
    }
}

void sl_convert_to_bf16(enum sl_dtype dtype, float scale, size_t n, const void *from, sl_bf16 *to)
{
    switch (dtype) {
    case SL_DTYPE_F16: f16_to_bf16(scale, n, from, to); break;
    case SL_DTYPE_BF16: memcpy(to, from, n * sizeof *to); break;
    case SL_DTYPE_I8: i8_to_bf16(scale, n, from, to); break;
    default: f32_to_bf16(scale, n, from, to);
    }
}
