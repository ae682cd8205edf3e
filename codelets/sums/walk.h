/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums over edges on a CPU. A list is a range of entries; an entry is a row and its weight. Rows are scattered in
 * memory, so a walk over lists looks up and prefetches a row SL_ROWS_AHEAD entries or more before it is added:
 *
 *     for (uint64_t e = begin; e < end; e = stop) {
 *         stop = sl_walk_stop(e, end);
 *         for (ahead = sl_walk_ahead(&walk, stop); walk.known < ahead; walk.known++) {
 *             (look up entry walk.known into *sl_walk_term(&walk, walk.known), and prefetch its row)
 *         }
 *         (complete the weights of entries e .. stop - 1)
 *         sl_walk_add(dtype, &walk, e, stop, n_columns, out);
 *     }
 *
 * Entries are added in order, four at a time: the output row is read and written once for four of them.
 */
#ifndef SL_CODELETS_WALK_H
#define SL_CODELETS_WALK_H

#include <stdbool.h>

#include "support/minmax.h"
#include "tasks/rows.h"

#define SL_ROWS_AHEAD 24
#define SL_RING 64 /* entries that are looked up; a power of two */

struct sl_term {
    const void *row;
    sl_real weight;
    sl_vertex id; /* of the row's vertex, if the weight depends on it */
};

/* A walk over lists, from the first entry to the last. */
struct sl_walk {
    uint64_t n, known; /* the end of all entries, and of those that are looked up */
    struct sl_term ring[SL_RING];
};

SL_INLINE struct sl_term *sl_walk_term(struct sl_walk *walk, uint64_t e)
{
    return &walk->ring[e % SL_RING];
}

/* The end of the entries that are added next, of those from e on. */
SL_INLINE uint64_t sl_walk_stop(uint64_t e, uint64_t end)
{
    return sl_min_u64(end, e + SL_RING - SL_ROWS_AHEAD);
}

/* The end of the entries that are looked up before those up to `stop` are added. */
SL_INLINE uint64_t sl_walk_ahead(const struct sl_walk *walk, uint64_t stop)
{
    return sl_min_u64(walk->n, stop + SL_ROWS_AHEAD);
}

/* out += weight times columns c0 .. c0 + n_columns - 1 of a row. */
SL_INLINE void sl_add_row(enum sl_dtype dtype, uint32_t n_columns, sl_real *restrict out, const void *restrict row,
                          uint32_t c0, sl_real weight)
{
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] += weight * sl_entry(dtype, row, c0 + j);
    }
}

/* The same for n rows, in order; n: a constant, at most four. */
SL_INLINE void sl_add_rows(enum sl_dtype dtype, uint32_t n, uint32_t n_columns, sl_real *restrict out,
                           const void *const *rows, uint32_t c0, const sl_real *weights)
{
    const void *row[4];
    sl_real weight[4];
    for (uint32_t k = 0; k < n; k++) { /* in registers */
        row[k] = rows[k];
        weight[k] = weights[k];
    }
    for (uint32_t j = 0; j < n_columns; j++) {
        sl_real sum = out[j];
        for (uint32_t k = 0; k < n; k++) {
            sum += weight[k] * sl_entry(dtype, row[k], c0 + j);
        }
        out[j] = sum;
    }
}

/* out += entries e .. e + n - 1, in order; n: a constant, at most four. */
SL_INLINE void sl_walk_add_some(enum sl_dtype dtype, struct sl_walk *walk, uint64_t e, uint32_t n, uint32_t n_columns,
                                sl_real *restrict out)
{
    const void *row[4];
    sl_real weight[4];
    for (uint32_t k = 0; k < n; k++) {
        row[k] = sl_walk_term(walk, e + k)->row;
        weight[k] = sl_walk_term(walk, e + k)->weight;
    }
    sl_add_rows(dtype, n, n_columns, out, row, 0, weight);
}

/* out += entries e .. stop - 1, in order. */
SL_INLINE void sl_walk_add(enum sl_dtype dtype, struct sl_walk *walk, uint64_t e, uint64_t stop, uint32_t n_columns,
                           sl_real *out)
{
    for (; e + 4 <= stop; e += 4) {
        sl_walk_add_some(dtype, walk, e, 4, n_columns, out);
    }
    switch (stop - e) {
    case 1: sl_walk_add_some(dtype, walk, e, 1, n_columns, out); return;
    case 2: sl_walk_add_some(dtype, walk, e, 2, n_columns, out); return;
    case 3: sl_walk_add_some(dtype, walk, e, 3, n_columns, out); return;
    }
}

#endif
