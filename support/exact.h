/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums that do not depend on the order of their terms. Multiples of a unit add exactly up to 2^53 units.
 */
#ifndef SL_SUPPORT_EXACT_H
#define SL_SUPPORT_EXACT_H

#include <math.h>

#include "support/random.h" /* SL_HOST_DEVICE */

/* x rounded to a multiple of the unit, a power of two; more coarsely if x is above 2^51 units. */
static inline SL_HOST_DEVICE double sl_round_to(double x, double unit)
{
    const double shift = 6755399441055744.0 * unit; /* 1.5 * 2^52: doubles near it are a unit apart */
    return (x + shift) - shift;
}

/* A sum of at most 2^18 terms with a total below 2^33, in two parts that are both exact. A larger sum has the usual
 * rounding. A term keeps 2^-55 of absolute precision. */
struct sl_exact {
    double whole, rest;
};

static inline void sl_exact_add(struct sl_exact *sum, double x)
{
    const double whole = sl_round_to(x, 0x1p-20);
    sum->whole += whole;
    if (isfinite(x)) {
        sum->rest += sl_round_to(x - whole, 0x1p-55);
    }
}

static inline void sl_exact_add_sum(struct sl_exact *sum, struct sl_exact other)
{
    sum->whole += other.whole;
    sum->rest += other.rest;
}

static inline double sl_exact_value(struct sl_exact sum)
{
    return sum.whole + sum.rest;
}

#endif
