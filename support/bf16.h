/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * bfloat16: the upper half of a float, with its range and 8 bits of precision; rows of half the bytes (--precision bf16).
 * Nothing is computed in it: a number is rounded where it is stored, to the nearest, of two equally near to the even one, and
 * read as a float.
 */
#ifndef SL_SUPPORT_BF16_H
#define SL_SUPPORT_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "support/real.h"

typedef uint16_t sl_bf16;

/* Infinities stay, what is not a number stays none. */
static inline SL_HOST_DEVICE sl_bf16 sl_bf16_of(sl_real x)
{
    float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    uint32_t quiet = bits | 0x400000;
    return (sl_bf16)(((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded) >> 16);
}

static inline SL_HOST_DEVICE sl_real sl_bf16_real(sl_bf16 x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (sl_real)value;
}

/* n numbers; the arrays do not overlap. */
void sl_bf16_round(size_t n, const sl_real *from, sl_bf16 *to);
void sl_bf16_widen(size_t n, const sl_bf16 *from, sl_real *to);

#endif
