/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Bias: write one row into every row; the adjoint sums columns. A layer whose aggregation follows its product uses it,
 * because no product can add the bias there. dense.h adds its own bias, with the kernels declared here.
 *   before: the parameters, codelets/ends/optimize.h      after: the operation that adds to Z
 *
 *   forward   Z[i] = b for all rows i.
 *   backward  GB = sum of the rows of GZ.
 *
 * Z, GZ [D x H], row-major; b, GB [1 x H].
 */
#ifndef SL_CODELETS_BIAS_H
#define SL_CODELETS_BIAS_H

#include "codelets/grid.h"
#include "tasks/task.h"

/* ---- kernels: no argument aliases another. With many rows, a GPU adds the double sums in another order, a fixed
 * one. ---- */

/* Z = b in every row. b NULL: zeros. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_bias_forward, uint32_t n_rows, uint32_t n_columns, const sl_real *b,
                    sl_real *z_out);

/* GB = beta GB + column sums of GZ. beta 0: GB is not read. n_rows may be 0. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_bias_backward, uint32_t n_rows, uint32_t n_columns, const sl_real *gz, int beta,
                    sl_real *gb_out);

/* Column sums of a matrix with any row stride and, if wanted, one weight for each `width` columns of a row.
 *
 *   sum[c] = sum_i weight[i weight_stride + c / width] g[i stride + c].
 *
 * Slabs of 64 rows are added in sl_real, in row order. The sums of the slabs are added in double. */
struct sl_column_sums {
    uint32_t n_rows, n_columns;
    const sl_real *g; /* in the device's memory, as weight */
    size_t stride;    /* from one row of g to the next; n_columns or more */
    /* NULL: all weights are 1, and weight_stride and width are not read. */
    const sl_real *weight;
    size_t weight_stride;
    uint32_t width; /* 1 or more */
};

/* sums_out [n_columns] = beta sums_out + the sums. beta 0: sums_out is not read. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_column_sums, const struct sl_column_sums *s, int beta, sl_real *sums_out);

/* ---- submissions: local, one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* z is overwritten. */
enum sl_status sl_bias_forward_submit(const struct sl_task_args *head, starpu_data_handle_t b, starpu_data_handle_t z);

/* gb: the partial gradient of this chunk, overwritten. */
enum sl_status sl_bias_backward_submit(const struct sl_task_args *head, starpu_data_handle_t gz,
                                       starpu_data_handle_t gb);

#endif
