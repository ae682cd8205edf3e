/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines of a text file, plain or gzip, delivered in blocks to several threads.
 *
 * Inflating is serial, parsing is parallel: one thread inflates the text and cuts it at line ends, while others parse
 * the blocks before it (csv.c).
 */
#ifndef SL_DATA_LINE_READER_H
#define SL_DATA_LINE_READER_H

#include <stddef.h>
#include <stdint.h>

#include "data/text_lines.h"
#include "support/memory.h"
#include "support/status.h"

/* Whole lines of a file. Every line ends in a newline, the last one too. */
struct sl_lines {
    const char *path;
    const char *text;
    size_t bytes;
    /* Number of the first line, counted from 0. Messages count from 1. */
    uint64_t first_line;
    uint64_t n_lines;
};

/* The end of the line at `p`, without its line end and the blanks before it. *next gets the start of the next line. */
static inline const char *sl_lines_end(const struct sl_lines *lines, const char *p, const char **next)
{
    const char *end = memchr(p, '\n', (size_t)(lines->text + lines->bytes - p));
    *next = end + 1;
    while (end > p && sl_text_is_blank(end[-1])) {
        end--;
    }
    return end;
}

/* Read `path` and call `body` for each block of lines. The caller's thread processes the first block before any
 * other block starts. The other blocks run in any order, several at a time. After a failure no new block starts. If
 * several blocks fail, the status and message of the first in the file count. *n_out gets the number of lines. The
 * reader leaves out a UTF-8 byte order mark, and blank lines after the first max_lines. SL_EIO: the file cannot be
 * opened or read. SL_EFILE: damaged or truncated gzip; more than max_lines lines, if `body` accepts the first
 * max_lines; a line of over 1 GiB. SL_ENOMEM. Otherwise the status of `body`. */
enum sl_status sl_lines_read(const char *path, uint64_t max_lines,
                             enum sl_status (*body)(void *context, const struct sl_lines *lines), void *context,
                             uint64_t *n_out);

/* Read a whole file, plain or gzip, or with first_line at least its first line. The text begins behind a byte order
 * mark, and has a NUL at its end. The caller frees *out (sl_lines_free). SL_EIO, SL_EFILE, SL_ENOMEM as above. */
enum sl_status sl_lines_read_text(const char *path, bool first_line, struct sl_text *out);

static inline void sl_lines_free(struct sl_text *text)
{
    sl_free(text->data);
}

#endif
