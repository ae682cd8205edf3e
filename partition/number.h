/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers in text, fast: what the readers of CSV and METIS files share.
 *
 * Each function reads one number that starts at `p` and ends before `end`, and returns where it stopped, or NULL where
 * there is no such number. `end` must point at a byte that is part of no number (a line's newline, or a final NUL). No
 * function depends on the locale.
 */
#ifndef SL_PARTITION_NUMBER_H
#define SL_PARTITION_NUMBER_H

#include <stdint.h>

/* Decimal digits only; NULL also where the value is over 2^64 - 1. */
const char *sl_number_u64(const char *p, const char *end, uint64_t *out);

/* A real number in decimal or scientific notation, "nan" or "inf" with any sign; the double nearest to the text. */
const char *sl_number_real(const char *p, const char *end, double *out);

/* A non-negative integer, written as `3`, `3.0` or `3e0`; NULL also from 2^53 on. */
const char *sl_number_whole(const char *p, const char *end, uint64_t *out);

#endif
