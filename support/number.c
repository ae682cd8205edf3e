/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers in text. If digits and exponent are few, one multiplication or division of two exact doubles gives the
 * nearest double (Clinger 1990, "How to read floating point numbers accurately"). The C library reads all other
 * numbers. */
#include "support/number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "support/decimal.h"

#define EXACT_INTEGER ((uint64_t)1 << 53) /* doubles hold every integer up to this */
#define EXACT_POWER 22                    /* doubles hold every power of ten up to this */

static const double powers[EXACT_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                               1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

const char *sl_number_u64(const char *p, const char *end, uint64_t *out)
{
    uint64_t value = 0;
    const char *start = p;
    for (; p < end && is_digit(*p); p++) {
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            return NULL;
        }
    }
    if (p == start) {
        return NULL;
    }
    *out = value;
    return p;
}

/* Read a number with the C library, in the C locale, from a NUL-terminated copy of the text. */
static const char *read_slowly(const char *p, const char *end, double *out)
{
    char copy[1024];
    size_t n = 0;
    while (n < sizeof copy - 1 && p + n < end && p[n] > ' ' && p[n] < 127 && p[n] != ',') {
        n++;
    }
    if (n == 0 || n == sizeof copy - 1 || memchr(p, 'x', n) != NULL || memchr(p, 'X', n) != NULL) {
        return NULL;
    }
    memcpy(copy, p, n);
    copy[n] = '\0';
    char *stop;
    *out = sl_decimal_read(copy, &stop);
    return stop == copy ? NULL : p + (stop - copy);
}

/* Append digits to *mantissa. *digits counts all digits; the mantissa is valid while there are at most 19. */
static inline const char *read_digits(const char *p, const char *end, uint64_t *mantissa, int *digits)
{
    const char *start = p;
    uint64_t m = *mantissa;
    while (p < end && is_digit(*p)) {
        m = m * 10 + (uint64_t)(*p++ - '0');
    }
    *mantissa = m;
    *digits += p - start > 1000 ? 1000 : (int)(p - start);
    return p;
}

const char *sl_number_real(const char *p, const char *end, double *out)
{
    const char *start = p;
    bool negative = p < end && *p == '-';
    uint64_t mantissa = 0;
    int digits = 0;
    p += p < end && (*p == '-' || *p == '+');
    p = read_digits(p, end, &mantissa, &digits);
    int fraction = 0;
    if (p < end && *p == '.') {
        p = read_digits(p + 1, end, &mantissa, &fraction);
    }
    digits += fraction;
    int exponent = -fraction;
    if (digits == 0 || digits > 19) {
        return read_slowly(start, end, out);
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        uint64_t e;
        bool minus = p + 1 < end && p[1] == '-';
        p = sl_number_u64(p + 1 + (p + 1 < end && (p[1] == '-' || p[1] == '+')), end, &e);
        if (p == NULL || e > 400) {
            return read_slowly(start, end, out);
        }
        exponent += minus ? -(int)e : (int)e;
    }
    if (mantissa > EXACT_INTEGER || exponent < -EXACT_POWER || exponent > EXACT_POWER) {
        return read_slowly(start, end, out);
    }
    double value = (double)mantissa;
    value = exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
    *out = negative ? -value : value;
    return p;
}

const char *sl_number_whole(const char *p, const char *end, uint64_t *out)
{
    const char *stop = sl_number_u64(p, end, out);
    if (stop != NULL && (stop == end || (*stop != '.' && *stop != 'e' && *stop != 'E'))) {
        return *out < EXACT_INTEGER ? stop : NULL;
    }
    double value;
    stop = sl_number_real(p, end, &value);
    if (stop == NULL || !(value >= 0 && value < (double)EXACT_INTEGER) || value != floor(value)) {
        return NULL;
    }
    *out = (uint64_t)value;
    return stop;
}
