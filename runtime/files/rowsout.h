/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing rows of numbers: as .npy, or as .csv with a header and names in front.
 */
#ifndef SL_RUNTIME_FILES_ROWSOUT_H
#define SL_RUNTIME_FILES_ROWSOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

/* The columns in front of the numbers. Names are a line each. */
struct sl_csvout {
    const char *vertex_names; /* ids of the vertices; NULL: their numbers */
    const char *names;        /* of the columns; NULL: numbers from 0, after `word` */
    const char *word;         /* "class": class0, class1, .. */
    bool best;                /* vertices: a column `class`, the name or number of the largest entry */
    /* Row i is of vertices[i]; NULL: of vertex i. Pairs: row i is of from[i] -> to[i]; NULL: no pairs. */
    const sl_vertex *vertices;
    const sl_vertex *from, *to;
    const uint32_t *relation; /* of pairs, or NULL */
    uint32_t n_vertices;
};

/* Write n_rows x n_columns to `path`, atomically, as CSV, or without a form as .npy (format version 1.0, little-endian
 * float32, row-major), for numpy.load. CSV of vertices: `id`, `class` if wanted, and the columns. Of pairs: `source`,
 * `target`, `relation` if there are some, `score`. Numbers have 9 digits: reading them as float gives the same bits.
 * fetch(context, i) returns row i: n_columns numbers on the host, valid until the next call. Rows are fetched once
 * each, in ascending order. If fetch fails, it sets the message (sl_fail) and returns NULL, and the status is SL_EIO.
 * SL_EIO, SL_ENOMEM; `path` is then unchanged. */
enum sl_status sl_rows_write(const char *path, const struct sl_csvout *form, uint64_t n_rows, uint32_t n_columns,
                             const sl_real *(*fetch)(void *context, uint64_t row), void *context);

#endif
