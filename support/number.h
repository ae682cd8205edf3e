/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers in text, fast: for all readers of text.
 *
 * Each function reads one number from `p` on, before `end`. The result is the end of the number, or NULL if no such
 * number is there. `end` must point at a byte that is part of no number: a line's newline, or a final NUL. The
 * functions do not depend on the locale.
 */
#ifndef SL_SUPPORT_NUMBER_H
#define SL_SUPPORT_NUMBER_H

#include <stdint.h>

/* Decimal digits only. NULL also if the value is over 2^64 - 1. */
const char *sl_number_u64(const char *p, const char *end, uint64_t *out);

/* A real number in decimal or scientific notation, "nan" or "inf" with any sign. *out gets the nearest double. */
const char *sl_number_real(const char *p, const char *end, double *out);

/* A non-negative integer, written `3`, `3.0` or `3e0`. NULL also if the value is 2^53 or more. */
const char *sl_number_whole(const char *p, const char *end, uint64_t *out);

#endif
