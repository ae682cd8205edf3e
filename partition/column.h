/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A column of a dataset: a table with a dtype and an owner. A row belongs to a vertex or to an edge.
 */
#ifndef SL_PARTITION_COLUMN_H
#define SL_PARTITION_COLUMN_H

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

/* Bytes of the table. */
static inline uint64_t sl_column_bytes(const struct sl_column *column)
{
    return sl_dtype_bytes(column->dtype, (size_t)column->n_rows * column->width);
}

/* Take over an array of sl_alloc. */
struct sl_column sl_column_take(enum sl_dtype dtype, uint64_t n_rows, uint32_t width, void *data);

/* Free an owned table, and empty the struct. An empty struct is allowed. */
void sl_column_free(struct sl_column *column);

#endif
