/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums of weighted rows on a CPU, for the sums over edges of a block. Rows are scattered in memory, so a row is
 * prefetched SL_ROWS_AHEAD terms before it is added. Terms are added in order.
 */
#ifndef SL_CODELETS_ADD_ROWS_H
#define SL_CODELETS_ADD_ROWS_H

#include "tasks/rows.h"

#define SL_ROWS_AHEAD 24

/* out += weight times columns c0 .. c0 + n_columns - 1 of a row. */
SL_INLINE void sl_add_row(enum sl_dtype dtype, uint32_t n_columns, sl_real *restrict out, const void *restrict row,
                          uint32_t c0, sl_real weight)
{
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] += weight * sl_entry(dtype, row, c0 + j);
    }
}

/* The same for four rows, in order: the output row is read and written once. */
SL_INLINE void sl_add_four(enum sl_dtype dtype, uint32_t n_columns, sl_real *restrict out, const void *const row[4],
                           uint32_t c0, const sl_real weight[4])
{
    const void *restrict ra = row[0];
    const void *restrict rb = row[1];
    const void *restrict rc = row[2];
    const void *restrict rd = row[3];
    const sl_real a = weight[0];
    const sl_real b = weight[1];
    const sl_real c = weight[2];
    const sl_real d = weight[3];
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] = (((out[j] + a * sl_entry(dtype, ra, c0 + j)) + b * sl_entry(dtype, rb, c0 + j)) +
                  c * sl_entry(dtype, rc, c0 + j)) +
                 d * sl_entry(dtype, rd, c0 + j);
    }
}

#endif
