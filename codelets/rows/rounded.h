/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows that a CPU computes in sl_real. If the output is sl_real, one slab has all rows, in place. If the output is
 * bf16, a slab has some rows in other memory, and is rounded into the output at its end:
 *
 *     struct sl_rounded slab = sl_rounded_begin(..);
 *     while (sl_rounded_next(&slab, &st)) {
 *         (compute rows slab.first .. slab.first + slab.n - 1 into slab.room)
 *     }
 */
#ifndef SL_CODELETS_ROUNDED_H
#define SL_CODELETS_ROUNDED_H

#include <stdbool.h>
#include <stdint.h>

#include "support/dtype.h"
#include "support/status.h"

struct sl_rounded {
    const char *name;    /* of the rows, in the message if there is no memory */
    uint32_t n_each;     /* rows of a slab */
    enum sl_dtype dtype; /* SL_DTYPE_REAL or SL_DTYPE_BF16 */
    uint32_t n_rows, n_columns;
    void *out;
    uint32_t out_width; /* from row to row of `out`: n_columns, unless it is set to more */
    int beta;           /* 1: the room of a slab begins with the old rows. 0, unless it is set: with anything */
    uint32_t first, n;  /* the slab */
    sl_real *room;      /* its first row */
    uint32_t width;     /* from row to row of the room */
    bool has_begun;
};

static inline struct sl_rounded sl_rounded_begin(const char *name, uint32_t n_each, enum sl_dtype dtype,
                                                 uint32_t n_rows, uint32_t n_columns, void *out)
{
    return (struct sl_rounded){.name = name,
                               .n_each = n_each,
                               .dtype = dtype,
                               .n_rows = n_rows,
                               .n_columns = n_columns,
                               .out = out,
                               .out_width = n_columns};
}

/* Round the rows of the slab, and go on to the next. False: there is no further one, or *st, the status of the slab's
 * computation, is not SL_OK. Sets *st at the first call: SL_ENOMEM. Call it until it returns false. */
bool sl_rounded_next(struct sl_rounded *slab, enum sl_status *st);

#endif
