/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Columns. */
#include "partition/column.h"

#include "support/memory.h"

struct sl_column sl_column_take(enum sl_dtype dtype, uint64_t n_rows, uint32_t width, void *data)
{
    return (struct sl_column){
        .dtype = dtype, .hold = SL_HOLD_OWNED, .n_rows = n_rows, .width = width, .scale = 1, .data = data};
}

void sl_column_free(struct sl_column *column)
{
    if (column->hold == SL_HOLD_OWNED) {
        sl_free(column->data);
    }
    *column = (struct sl_column){0};
}
