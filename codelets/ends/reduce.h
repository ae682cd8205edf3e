/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * All-reduce of a gradient, as the sum of the partial gradients of PEs and chunks.
 *   before: backward, codelets/rows/dense.h and codelets/rows/activate.h      after: codelets/ends/optimize.h
 *
 *   out = sum of the partials, entry by entry, in the order of a tree over the PEs (codelets/ends/tree.h)
 *
 * If rows are in segments (struct sl_runs), one handle has several partials, one below the other. Segment k of a handle
 * belongs to leaf + k.
 */
#ifndef SL_CODELETS_REDUCE_H
#define SL_CODELETS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"
#include "tasks/task.h"

/* Sum n partials of n_entries each into out. leaf: ascending. n = 0: out is cleared. The same bits on both devices. The
 * kernel of GPUs is in optimize_cuda.cu. */
SL_DECLARE_LAUNCHER(void, sl_reduce, uint32_t n, size_t n_entries, const sl_real *const *partials, const uint32_t *leaf,
                    sl_real *out);

/* Entries first .. end - 1 of such a sum, on a CPU: out has end - first. */
void sl_reduce_range(uint32_t n, size_t first, size_t end, const sl_real *const *partials, const uint32_t *leaf,
                     sl_real *out);

/* Inside a task: list the partials [n_rows x n_columns] in matrices first .. end - 1, in the order of their sum.
 * Returns their number. */
uint32_t sl_reduce_list(const struct sl_matrices *matrices, uint32_t first, uint32_t end, uint32_t n_rows,
                        uint32_t n_columns, const sl_real **partials, uint32_t *leaf);

/* Submit the sum of all partials of n handles. Each handle has one or more matrices of out's shape. leaf: of each
 * handle, in any order. n may be 0: out is cleared. Local; one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_reduce_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *partials,
                                const uint32_t *leaf, starpu_data_handle_t out);

/* The sum of partials that note their touched rows. leaf: ascending. A note is an int8 [1 x rows]: touched has one for
 * each partial, out_touched is the sum's. fresh: the sum's rows have not been written. Errors as above. */
struct sl_touched_sum {
    uint32_t n;
    const starpu_data_handle_t *partials, *touched;
    const uint32_t *leaf;
    starpu_data_handle_t out, out_touched;
    bool fresh;
};
enum sl_status sl_reduce_touched_submit(const struct sl_task_args *head, const struct sl_touched_sum *sum);

#endif
