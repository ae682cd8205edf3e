/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the tests of kernels share: numbers that look random, comparisons that say which entry differs, and tolerances.
 */
#ifndef SL_TESTS_KERNEL_H
#define SL_TESTS_KERNEL_H

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/random.h"
#include "support/real.h"
#include "tests/support/test.h"

#define MAYBE_UNUSED __attribute__((unused))

#ifdef SL_REAL_DOUBLE
#define EPSILON DBL_EPSILON
#define REAL_SIZE "double"
#else
#define EPSILON FLT_EPSILON
#define REAL_SIZE "float"
#endif

/* Memory that a test may well die of not having; at least one byte, so that sanitizers see the first overrun. */
static MAYBE_UNUSED void *need(size_t count, size_t size)
{
    if (count > (size_t)PTRDIFF_MAX / size) {
        abort(); /* gcc takes it for possible, and warns */
    }
    void *block = calloc(count > 0 ? count : 1, size);
    assert_non_null(block);
    return block;
}

/* Number i of the sequence `seed`, in [-1, 1). */
static MAYBE_UNUSED double noise(uint64_t seed, size_t i)
{
    struct sl_draw draw = {.seed = seed, .purpose = SL_FOR_GENERATOR};
    return 2 * sl_random_unit(&draw, (uint32_t)i, (uint32_t)((uint64_t)i >> 32)) - 1;
}

static MAYBE_UNUSED void fill(size_t n, uint64_t seed, sl_real *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (sl_real)noise(seed, i);
    }
}

/* n numbers of [-1, 1), to be given to free(). */
static MAYBE_UNUSED sl_real *noisy(size_t n, uint64_t seed)
{
    sl_real *x = need(n, sizeof *x);
    fill(n, seed, x);
    return x;
}

/* n copies of a number that no kernel computes, so that entries left unwritten are seen. */
static MAYBE_UNUSED sl_real *poisoned(size_t n)
{
    sl_real *x = need(n, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = (sl_real)-12345.5;
    }
    return x;
}

static MAYBE_UNUSED void expect_near_at(const char *label, size_t i, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance)) {
        fail_msg("%s[%zu] (%s): got %.17g, expected %.17g, off by %.3g, allowed %.3g", label, i, REAL_SIZE, got, wanted,
                 fabs(got - wanted), tolerance);
    }
}

static MAYBE_UNUSED void expect_near(const char *label, double got, double wanted, double tolerance)
{
    expect_near_at(label, 0, got, wanted, tolerance);
}

/* Each entry within the tolerance. */
static MAYBE_UNUSED void expect_rows(const char *label, size_t n, const sl_real *got, const double *wanted,
                                     double tolerance)
{
    for (size_t i = 0; i < n; i++) {
        expect_near_at(label, i, (double)got[i], wanted[i], tolerance);
    }
}

/* The same bits. */
static MAYBE_UNUSED void expect_same(const char *label, size_t n, size_t size, const void *got, const void *wanted)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp((const char *)got + i * size, (const char *)wanted + i * size, size) != 0) {
            fail_msg("%s[%zu] (%s): the bits differ", label, i, REAL_SIZE);
        }
    }
}

/* What a task and the CPU kernel made of the same: the same bits or, where tasks may run CUDA code, nearly. */
static MAYBE_UNUSED void expect_agreement(const char *label, size_t n, const sl_real *got, const sl_real *wanted,
                                          double tolerance)
{
#ifdef SL_CUDA
    for (size_t i = 0; i < n; i++) {
        expect_near_at(label, i, (double)got[i], (double)wanted[i], tolerance);
    }
#else
    (void)tolerance;
    expect_same(label, n, sizeof *got, got, wanted);
#endif
}

/* <x, y> in double. */
static MAYBE_UNUSED double inner(size_t n, const sl_real *x, const sl_real *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)y[i];
    }
    return sum;
}

/* What rounding may do to a sum of `length` products of numbers up to `size`: each of the length additions may lose
 * half an epsilon of the sum so far, which is at most length * size; random signs keep it near its root. 8 leaves
 * room for both. */
static MAYBE_UNUSED double rounding(size_t length, double size)
{
    return 8 * EPSILON * sqrt((double)length + 1) * size + 2 * EPSILON * size;
}

/* The message names both of two things. */
static MAYBE_UNUSED void expect_message(const char *message, const char *one, const char *other)
{
    if (strstr(message, one) == NULL || strstr(message, other) == NULL) {
        fail_msg("the message \"%s\" should name \"%s\" and \"%s\"", message, one, other);
    }
}

#endif
