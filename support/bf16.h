/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * bfloat16: the upper half of a float, with the range of a float and 8 bits of precision (--precision bf16). Rows
 * take half the bytes. It is a storage format: numbers are rounded when stored (to nearest, ties to even) and
 * computed on as floats.
 */
#ifndef SL_SUPPORT_BF16_H
#define SL_SUPPORT_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "support/real.h"

typedef uint16_t sl_bf16;

/* Round to bf16. Infinities stay infinite, NaN stays NaN. */
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

/* Convert n numbers. The arrays do not overlap. */
void sl_bf16_round(size_t n, const sl_real *from, sl_bf16 *to);
void sl_bf16_widen(size_t n, const sl_bf16 *from, sl_real *to);

#endif
