/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The C locale of one thread. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strtod_l */
#endif
#include "support/decimal.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static locale_t c_locale; /* for all threads, never freed */
static _Thread_local locale_t caller;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t find_c_locale(void)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    pthread_once(&made, make_c_locale);
    return c_locale;
}

struct sl_locale sl_locale_enter(void)
{
    struct sl_locale before = {uselocale(find_c_locale()), caller};
    if (caller == (locale_t)0) {
        caller = before.own;
    }
    return before;
}

struct sl_locale sl_locale_leave(void)
{
    struct sl_locale before = {uselocale(caller), caller};
    caller = (locale_t)0;
    return before;
}

void sl_locale_return(struct sl_locale *to)
{
    uselocale(to->own);
    caller = to->caller;
}

double sl_decimal_read(const char *text, char **end_out)
{
    return strtod_l(text, end_out, find_c_locale());
}

void sl_decimal_write(double value, int digits, char *out, size_t bytes)
{
    SL_IN_C_LOCALE;
    snprintf(out, bytes, "%.*g", digits, value);
}

void sl_decimal_shortest(double value, int digits, char *out, size_t bytes)
{
    do {
        sl_decimal_write(value, digits++, out, bytes);
    } while (digits <= 17 && sl_decimal_read(out, NULL) != value);
}
