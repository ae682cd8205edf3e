/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A text in memory, read line by line.
 */
#ifndef SL_DATA_TEXT_LINES_H
#define SL_DATA_TEXT_LINES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "support/status.h"

struct sl_text {
    const char *path; /* for messages */
    const char *p;    /* start of the next line */
    const char *end;
    uint64_t line; /* number of the current line, from 1 */
    char *data;    /* of sl_lines_read_text, else NULL */
};

static inline bool sl_text_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static inline const char *sl_text_skip_blanks(const char *p, const char *stop)
{
    while (p < stop && sl_text_is_blank(*p)) {
        p++;
    }
    return p;
}

/* The next line, as [*start, *stop). False at the end of the text. */
static inline bool sl_text_next(struct sl_text *text, const char **start, const char **stop)
{
    if (text->p >= text->end) {
        return false;
    }
    const char *newline = memchr(text->p, '\n', (size_t)(text->end - text->p));
    *start = text->p;
    *stop = text->end;
    text->p = text->end;
    if (newline != NULL) {
        *stop = newline;
        text->p = newline + 1;
    }
    text->line++;
    return true;
}

/* The number of ends of line in a string. */
static inline uint64_t sl_text_count_lines(const char *text)
{
    uint64_t n = 0;
    while ((text = strchr(text, '\n')) != NULL) {
        n++;
        text++;
    }
    return n;
}

/* Whether the bytes are UTF-8, as the texts of a model's file. */
static inline bool sl_text_is_utf8(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        const unsigned char first = (unsigned char)text[i];
        const size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        uint32_t code = more == 0 ? first : first & (0x3fu >> more);
        if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || n - i <= more) {
            return false;
        }
        for (size_t k = 1; k <= more; k++) {
            if ((text[i + k] & 0xc0) != 0x80) {
                return false;
            }
            code = code << 6 | (text[i + k] & 0x3fu);
        }
        if ((more == 2 && code < 0x800) || (more == 3 && code < 0x10000) || code > 0x10ffff ||
            (code >= 0xd800 && code < 0xe000)) {
            return false;
        }
        i += more + 1;
    }
    return true;
}

/* SL_EFILE with the line's number. `expected` continues "expected ". */
static inline enum sl_status sl_text_refuse(const struct sl_text *text, const char *expected)
{
    return sl_fail(SL_EFILE, "%.300s:%llu: expected %s", text->path, (unsigned long long)text->line, expected);
}

#endif
