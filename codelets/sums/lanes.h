/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums over the columns of a row on a CPU: lane by lane, then the lanes in pairs, then the remaining columns. The order
 * depends on the number of columns alone.
 */
#ifndef SL_CODELETS_LANES_H
#define SL_CODELETS_LANES_H

#include <string.h>

#include "tasks/handle.h"
#include "tasks/rows.h"

#define SL_LANES 8
#define SL_VECTOR __attribute__((vector_size(SL_LANES * sizeof(sl_real))))

/* Entries c .. c + SL_LANES - 1 of a row. */
SL_INLINE void sl_take_lanes(enum sl_dtype dtype, const void *row, uint32_t c, sl_real SL_VECTOR *lane)
{
    if (dtype == SL_DTYPE_REAL) {
        memcpy(lane, (const sl_real *)row + c, sizeof *lane);
        return;
    }
    for (uint32_t l = 0; l < SL_LANES; l++) {
        (*lane)[l] = sl_entry(dtype, row, c + l);
    }
}

SL_INLINE sl_real sl_add_lanes(const sl_real SL_VECTOR *x)
{
    return (((*x)[0] + (*x)[4]) + ((*x)[2] + (*x)[6])) + (((*x)[1] + (*x)[5]) + ((*x)[3] + (*x)[7]));
}

/* The sum of x[c] * y[y0 + c]. */
SL_INLINE sl_real sl_dot(enum sl_dtype dtype, uint32_t n, const sl_real *x, const void *y, uint32_t y0)
{
    sl_real SL_VECTOR lane = {0};
    sl_real SL_VECTOR a;
    sl_real SL_VECTOR b;
    uint32_t c = 0;
    for (; c + SL_LANES <= n; c += SL_LANES) {
        sl_take_lanes(SL_DTYPE_REAL, x, c, &a);
        sl_take_lanes(dtype, y, y0 + c, &b);
        lane += a * b;
    }
    sl_real sum = sl_add_lanes(&lane);
    for (; c < n; c++) {
        sum += x[c] * sl_entry(dtype, y, y0 + c);
    }
    return sum;
}

#endif
