/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A vertex' own row times a learned number e (GIN; Xu et al. 2019), and its adjoint.
 *   before: codelets/sampling/exchange.h, or dense.h if the layer projects first
 *   after:  codelets/sums/aggregate.h adds to OUT
 *
 *   forward   OUT[i] (+)= e X[i].
 *   backward  GE = sum over i and j of G[i][j] X[i][j].  GX[i] += e G[i].
 *
 * X, OUT, G, GX: rows of F columns, row-major; X and GX may begin at any row. e, GE [1 x 1]. Products are in sl_real,
 * also if X or OUT is bf16. GE: a row's products are added in sl_real, the rows in double.
 */
#ifndef SL_CODELETS_EPSILON_H
#define SL_CODELETS_EPSILON_H

#include "codelets/grid.h"
#include "support/dtype.h"
#include "tasks/task.h"

/* GE = the sum of all products of G and X, [n_rows x n_columns]. On a GPU the sum has another order, a fixed one. The
 * other kernel is sl_blend. */
SL_DECLARE_LAUNCHER(void, sl_epsilon_gradient, uint32_t n_rows, uint32_t n_columns, const sl_real *g,
                    enum sl_dtype x_dtype, const void *x, sl_real *ge_out);

/* ---- submissions: local, one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* Rows x_row0 .. of x into all rows of out. beta 0 overwrites, beta 1 adds. */
enum sl_status sl_epsilon_forward_submit(const struct sl_task_args *head, starpu_data_handle_t e,
                                         starpu_data_handle_t x, uint32_t x_row0, int beta, starpu_data_handle_t out);

/* ge: the partial gradient of this chunk, a number for each segment of head->runs, overwritten. */
enum sl_status sl_epsilon_gradient_submit(const struct sl_task_args *head, starpu_data_handle_t g,
                                          starpu_data_handle_t x, uint32_t x_row0, starpu_data_handle_t ge);

/* Rows gx_row0 .. of gx (sl_real) += e g. */
enum sl_status sl_epsilon_backward_submit(const struct sl_task_args *head, starpu_data_handle_t e,
                                          starpu_data_handle_t g, starpu_data_handle_t gx, uint32_t gx_row0);

#endif
