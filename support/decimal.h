/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Conversion of numbers in options and files. The decimal separator is a point in every locale. Thread safe.
 */
#ifndef SL_SUPPORT_DECIMAL_H
#define SL_SUPPORT_DECIMAL_H

#include <stddef.h>

/* Like strtod in the C locale. */
double sl_decimal_read(const char *text, char **end_out);

/* Write the value as "%.*g" with `digits` digits, cut at bytes - 1 characters. */
void sl_decimal_write(double value, int digits, char *out, size_t bytes);

#endif
