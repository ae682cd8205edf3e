/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lines of a text file, plain or gzip, handed in blocks to several threads.
 *
 * Inflating is serial, reading numbers is not: the caller inflates and cuts the text at line ends while threads work on
 * the blocks. What the lines hold is the business of csv.c.
 */
#ifndef SL_PARTITION_LINES_H
#define SL_PARTITION_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "support/status.h"

/* Whole lines of a file: every line, also the last, ends in a newline, and text[bytes] is NUL. */
struct sl_lines {
    const char *path;
    const char *text;
    size_t bytes;
    uint64_t first_line; /* of the file, counted from 0; messages count from 1 */
    uint64_t n_lines;
};

/* Read `path` and call `body` for each block of lines. The first block is done before any other starts, by the caller;
 * the others in any order, several at a time. After a failure no new block is handed out, and of several failing blocks
 * the first one's status and message count. *n_out gets the number of lines. A UTF-8 byte order mark and blank lines
 * after max_lines are left out. SL_EIO: it cannot be opened or read. SL_EFILE: damaged or truncated gzip; more than
 * max_lines lines, if `body` takes the first max_lines; a line of over 1 GiB. SL_ENOMEM. Whatever `body` returns. */
enum sl_status sl_lines_read(const char *path, uint64_t max_lines,
                             enum sl_status (*body)(void *context, const struct sl_lines *lines), void *context,
                             uint64_t *n_out);

#endif
