/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A column of a dataset: a table with a dtype and an owner. A row belongs to a vertex or to an edge.
 */
#ifndef SL_DATA_COLUMN_H
#define SL_DATA_COLUMN_H

#include <stdint.h>

#include "support/dtype.h"
#include "support/status.h"

enum sl_column_hold {
    SL_HOLD_OWNED,    /* sl_column_free frees `data` (sl_free) */
    SL_HOLD_BORROWED, /* of the caller, for as long as the dataset lives */
    SL_HOLD_MAPPED    /* inside a map of a file, which the dataset unmaps */
};

/* [n_rows x width] entries, row-major. An empty struct is an absent column. */
struct sl_column {
    enum sl_dtype dtype;
    enum sl_column_hold hold;
    uint64_t n_rows;
    uint32_t width;
    float scale; /* of int8: a number is scale * entry */
    void *data;  /* NULL: there is no such column */
};

/* Bytes of n rows. */
static inline uint64_t sl_column_bytes_of(const struct sl_column *column, uint64_t n)
{
    return sl_dtype_bytes(column->dtype, (size_t)n * column->width);
}

/* Take over an array of sl_alloc. */
struct sl_column sl_column_take(enum sl_dtype dtype, uint64_t n_rows, uint32_t width, void *data);

/* The address of a row. */
static inline void *sl_column_row(const struct sl_column *column, uint64_t row)
{
    return (char *)column->data + sl_column_bytes_of(column, row);
}

#define SL_COLUMN_BLOCK 256 /* entries to convert at a time */

/* n entries as floats, from entry `first` of the whole table. Returns the table's memory if the dtype is float32, else
 * `block`, which has room for n. The dtype is one of support/convert.h. */
const float *sl_column_floats(const struct sl_column *column, uint64_t first, uint32_t n, float *block);

/* The index of the first entry that is not finite, or the number of entries. */
uint64_t sl_column_first_infinite(const struct sl_column *column);

/* Free an owned table, and empty the struct. An empty struct is allowed. */
void sl_column_free(struct sl_column *column);

#endif
