/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The exponential of non-positive numbers, for softmax. Compilers can vectorise it. CUDA uses the same function, so
 * host and device round alike.
 */
#ifndef SL_SUPPORT_EXP_H
#define SL_SUPPORT_EXP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "support/random.h" /* SL_HOST_DEVICE */
#include "support/real.h"

/* e^x for x <= 0; NaN stays NaN. In float the relative error is below 2e-7 for x >= -87; smaller x give 0 (e^-87 is
 * 1.6e-38).
 *
 * Method: x = n ln 2 + r with |r| <= ln 2 / 2, and e^x = 2^n times the Taylor polynomial of degree 7 in r. Adding 1.5
 * 2^23 leaves the integer n in the low bits of the sum. ln 2 is split into two parts (Cody and Waite, "Software
 * Manual for the Elementary Functions", 1980). */
static inline SL_HOST_DEVICE sl_real sl_exp_nonpositive(sl_real x)
{
#ifdef SL_REAL_DOUBLE
    return exp(x);
#else
    const float round = 12582912.0f; /* 1.5 * 2^23 */
    float y = x < -87.0f ? -87.0f : x;
    float shifted = y * 1.44269504f + round;
    float n = shifted - round;
    float r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    uint32_t bits;
    float power;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 23) + 0x3f800000u;
    memcpy(&power, &bits, sizeof power);
    return p * (x < -87.0f ? 0 : power);
#endif
}

#endif
