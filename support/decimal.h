/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers in options and files, with a decimal point whatever the program's locale has. Thread safe.
 */
#ifndef SL_SUPPORT_DECIMAL_H
#define SL_SUPPORT_DECIMAL_H

#include <stddef.h>

/* As strtod. */
double sl_decimal_read(const char *text, char **end_out);

/* Write "%.*g" of the value, with so many digits; cut at bytes - 1. */
void sl_decimal_write(double value, int digits, char *out, size_t bytes);

#endif
