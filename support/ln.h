/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A natural logarithm with the same bits on host and device. It uses additions, multiplications and one division
 * (compile without contraction). The libraries' logarithms differ in the last bit, which may change a sampling
 * decision.
 */
#ifndef SL_SUPPORT_LN_H
#define SL_SUPPORT_LN_H

#include <stdint.h>
#include <string.h>

#include "support/real.h"

/* ln x for positive, normal, finite x. The error is below 1 unit in the last place.
 *
 * Method: x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and s = f / (2 + f). Then ln(1 + f) = 2 atanh(s) = 2 s +
 * s r with r = 2/3 s^2 + 2/5 s^4 + ... (ten terms; the remainder is below 2^-61). The form 2 s = f - f^2/2 + s f^2/2
 * keeps the digits of f. ln 2 is split into two parts such that k times the first part is exact (Cody and Waite,
 * "Software Manual for the Elementary Functions", 1980). */
static inline SL_HOST_DEVICE double sl_ln(double x)
{
    const uint64_t one = UINT64_C(0x3ff0000000000000);
    const uint64_t root = UINT64_C(0x3fe6a09e667f3bcd); /* sqrt(1/2) */
    const double ln2_high = 0x1.62e42feep-1;
    const double ln2_low = 0x1.a39ef35793c76p-33;
    uint64_t bits;
    double m;
    memcpy(&bits, &x, sizeof bits);
    bits += one - root;
    double k = (double)((int)(bits >> 52) - 1023);
    bits = (bits & UINT64_C(0xfffffffffffff)) + root;
    memcpy(&m, &bits, sizeof m);
    double f = m - 1;
    double half = 0.5 * f * f;
    double s = f / (2 + f);
    double z = s * s;
    double r = 2.0 / 21;
    r = r * z + 2.0 / 19;
    r = r * z + 2.0 / 17;
    r = r * z + 2.0 / 15;
    r = r * z + 2.0 / 13;
    r = r * z + 2.0 / 11;
    r = r * z + 2.0 / 9;
    r = r * z + 2.0 / 7;
    r = r * z + 2.0 / 5;
    r = r * z + 2.0 / 3;
    r = r * z;
    return k * ln2_high - ((half - (s * (half + r) + k * ln2_low)) - f);
}

#endif
