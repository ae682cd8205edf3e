/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines for people, at most 80 columns wide.
 */
#ifndef SL_SUPPORT_LINES_H
#define SL_SUPPORT_LINES_H

#include <stdint.h>
#include <stdio.h>

#define SL_LINE_COLUMNS 80
#define SL_LINE_INDENT 10 /* columns of the label */

/* Print "machine   2 workers, ..": a label in ten columns, then the text. A text that is too long goes on in the next
 * line, below the first, after a comma, semicolon or colon if possible. A word that is too long for a line stays whole.
 */
__attribute__((format(printf, 3, 4))) void sl_print_line(FILE *stream, const char *label, const char *format, ...);

/* The noun for a count: sl_noun(1, "PE", "PEs") is "PE". */
static inline const char *sl_noun(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

#endif
