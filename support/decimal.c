/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The C locale during one call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strtod_l */
#endif
#include "support/decimal.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

double sl_decimal_read(const char *text, char **end_out)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(text, end_out, plain);
    freelocale(plain);
    return value;
}

void sl_decimal_write(double value, int digits, char *out, size_t bytes)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = uselocale(plain);
    snprintf(out, bytes, "%.*g", digits, value);
    uselocale(before);
    freelocale(plain);
}
