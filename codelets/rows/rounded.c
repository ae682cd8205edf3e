/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rounding slab by slab. Rows of sl_real are one slab. */
#include "codelets/rows/rounded.h"

#include "support/memory.h"
#include "support/minmax.h"

/* Between the slab's rows of `out` and its room. */
static void convert(const struct sl_rounded *slab, bool widens)
{
    const bool adjacent = slab->out_width == slab->n_columns;
    const size_t n = adjacent ? (size_t)slab->n * slab->n_columns : slab->n_columns;
    for (uint32_t r = 0; r < (adjacent ? 1 : slab->n); r++) {
        sl_bf16 *out = (sl_bf16 *)slab->out + (size_t)(slab->first + r) * slab->out_width;
        sl_real *room = slab->room + (size_t)r * slab->n_columns;
        if (widens) {
            sl_bf16_widen(n, out, room);
        } else {
            sl_bf16_round(n, room, out);
        }
    }
}

static enum sl_status begin(struct sl_rounded *slab)
{
    if (slab->dtype == SL_DTYPE_REAL) {
        slab->n_each = slab->n_rows;
        slab->width = slab->out_width;
        slab->room = slab->out;
        return SL_OK;
    }
    slab->n_each = sl_min_u32(slab->n_rows, slab->n_each);
    slab->width = slab->n_columns;
    return sl_alloc((size_t)slab->n_each * slab->n_columns, sizeof *slab->room, slab->name, &slab->room);
}

bool sl_rounded_next(struct sl_rounded *slab, enum sl_status *st)
{
    const bool rounds = slab->dtype != SL_DTYPE_REAL;
    if (!slab->has_begun) {
        slab->has_begun = true;
        *st = begin(slab);
    } else if (rounds && *st == SL_OK) {
        convert(slab, false);
    }
    slab->first += slab->n;
    slab->n = sl_min_u32(slab->n_rows - slab->first, slab->n_each);
    if (*st != SL_OK || slab->n == 0) {
        if (rounds) {
            sl_free(slab->room);
        }
        return false;
    }
    if (rounds && slab->beta) {
        convert(slab, true);
    }
    return true;
}
