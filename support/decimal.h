/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Numbers in options, files and messages have a decimal point, whatever the locale of the program. Thread safe.
 */
#ifndef SL_SUPPORT_DECIMAL_H
#define SL_SUPPORT_DECIMAL_H

#include <stddef.h>

/* Like strtod in the C locale. */
double sl_decimal_read(const char *text, char **end_out);

/* Write the value as "%.*g" with `digits` digits, cut at bytes - 1 characters. */
void sl_decimal_write(double value, int digits, char *out, size_t bytes);

/* Write the value with as few digits, from `digits` to 17, as read back as the same number. */
void sl_decimal_shortest(double value, int digits, char *out, size_t bytes);

/* A thread's locale, to return to. */
struct sl_locale {
    void *own;    /* the thread's locale */
    void *caller; /* the program's locale, inside the library; NULL: outside */
};

/* From here to the end of the block, this thread works in the C locale. Functions of the public API, tasks and threads
 * of the library begin with it. StarPU then reads and writes its files with a decimal point. */
#define SL_IN_C_LOCALE                                                                                                 \
    struct sl_locale sl_locale_before __attribute__((cleanup(sl_locale_return), unused)) = sl_locale_enter()

/* From here to the end of the block, this thread has the locale of the library's caller again: for callbacks. */
#define SL_IN_CALLERS_LOCALE                                                                                           \
    struct sl_locale sl_locale_inside __attribute__((cleanup(sl_locale_return), unused)) = sl_locale_leave()

struct sl_locale sl_locale_enter(void);
struct sl_locale sl_locale_leave(void);
void sl_locale_return(struct sl_locale *to);

#endif
