/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * All-reduce of a gradient, as the ordered sum of the partial gradients of PEs and chunks.
 *   before: backward, codelets/rows/dense.h and codelets/rows/activate.h      after: codelets/ends/optimize.h
 *
 *   out = partial_0 + partial_1 + .. + partial_(n-1), entry by entry, always in this order
 *
 * If rows are in segments (struct sl_runs), one handle has several partials, one below the other.
 */
#ifndef SL_CODELETS_REDUCE_H
#define SL_CODELETS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"
#include "tasks/task.h"

/* Sum n partials of n_entries each into out. n = 0: out is cleared. The same bits on both devices. */
SL_DECLARE_LAUNCHER(void, sl_reduce, uint32_t n, size_t n_entries, const sl_real *const *partials, sl_real *out);

/* Submit the sum of all partials of n handles. Each handle has one or more matrices of out's shape. n may be 0: out is
 * cleared. Local; one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_reduce_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *partials,
                                starpu_data_handle_t out);

/* The sum of partials that note their touched rows. touched, out_touched: int8 [1 x rows], one for each partial and one
 * for the sum. fresh: the sum's rows have not been written. Errors as above. */
struct sl_touched_sum {
    uint32_t n;
    const starpu_data_handle_t *partials, *touched;
    starpu_data_handle_t out, out_touched;
    bool fresh;
};
enum sl_status sl_reduce_touched_submit(const struct sl_task_args *head, const struct sl_touched_sum *sum);

#endif
