/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Columns. */
#include "data/column.h"

#include <math.h>

#include "support/convert.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/parallel.h"

#define GRAIN 256 /* blocks of entries that one thread checks at a time */

struct sl_column sl_column_take(enum sl_dtype dtype, uint64_t n_rows, uint32_t width, void *data)
{
    return (struct sl_column){
        .dtype = dtype, .hold = SL_HOLD_OWNED, .n_rows = n_rows, .width = width, .scale = 1, .data = data};
}

const float *sl_column_floats(const struct sl_column *column, uint64_t first, uint32_t n, float *block)
{
    const char *from = (const char *)column->data + sl_dtype_bytes(column->dtype, first);
    if (column->dtype == SL_DTYPE_F32) {
        return (const float *)(const void *)from;
    }
    sl_convert_to_floats(column->dtype, column->scale, n, from, block);
    return block;
}

struct search {
    const struct sl_column *column;
    uint64_t n;
    _Atomic uint64_t found;
};

static void search_blocks(void *context, uint64_t begin, uint64_t end)
{
    struct search *search = context;
    float block[SL_COLUMN_BLOCK];
    for (uint64_t i = begin * SL_COLUMN_BLOCK; i < search->n && i < end * SL_COLUMN_BLOCK; i += SL_COLUMN_BLOCK) {
        uint32_t n = (uint32_t)sl_min_u64(SL_COLUMN_BLOCK, search->n - i);
        const float *x = sl_column_floats(search->column, i, n, block);
        for (uint32_t k = 0; k < n; k++) {
            if (!isfinite(x[k])) {
                sl_parallel_lower(&search->found, i + k);
                return;
            }
        }
    }
}

uint64_t sl_column_first_infinite(const struct sl_column *column)
{
    struct search search = {.column = column, .n = column->n_rows * column->width};
    atomic_store(&search.found, search.n);
    sl_parallel_for((search.n + SL_COLUMN_BLOCK - 1) / SL_COLUMN_BLOCK, GRAIN, search_blocks, &search);
    return atomic_load(&search.found);
}

void sl_column_free(struct sl_column *column)
{
    if (column->hold == SL_HOLD_OWNED) {
        sl_free(column->data);
    }
    *column = (struct sl_column){0};
}
