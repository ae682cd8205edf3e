/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rounding slab by slab. */
#include "codelets/rows/rounded.h"

#include "support/memory.h"
#include "support/minmax.h"

/* Between the slab's rows of `out` and its room. */
static void convert(const struct sl_rounded *slab, bool widens)
{
    const bool adjacent = slab->out_width == slab->n_columns;
    const size_t n = adjacent ? (size_t)slab->n * slab->n_columns : slab->n_columns;
    for (uint32_t r = 0; r < (adjacent ? 1 : slab->n); r++) {
        sl_bf16 *out = slab->out + (size_t)(slab->first + r) * slab->out_width;
        sl_real *room = slab->room + (size_t)r * slab->n_columns;
        if (widens) {
            sl_bf16_widen(n, out, room);
        } else {
            sl_bf16_round(n, room, out);
        }
    }
}

bool sl_rounded_next(struct sl_rounded *slab, enum sl_status *st)
{
    if (slab->room == NULL) {
        const size_t most = sl_min_u32(slab->n_rows, slab->n_each);
        *st = sl_alloc(most * slab->n_columns, sizeof *slab->room, slab->name, &slab->room);
    } else if (*st == SL_OK) {
        convert(slab, false);
    }
    slab->first += slab->n;
    slab->n = sl_min_u32(slab->n_rows - slab->first, slab->n_each);
    if (*st != SL_OK || slab->n == 0) {
        sl_free(slab->room);
        slab->room = NULL;
        return false;
    }
    if (slab->beta) {
        convert(slab, true);
    }
    return true;
}
