/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A vertex' own row times a learned number e (GIN; Xu et al. 2019): the gradient of e. The products e X and e G are
 * blends (codelets/rows/blend.h).
 *
 *   GE = sum over i and j of G[i][j] X[i][j]
 *
 * X, G: rows of F columns, row-major; X may begin at any row. GE [1 x 1]. Products are in sl_real, also if X is bf16. A
 * row's products are added in sl_real, the rows in double.
 */
#ifndef SL_CODELETS_EPSILON_H
#define SL_CODELETS_EPSILON_H

#include "codelets/grid.h"
#include "support/dtype.h"
#include "tasks/task.h"

/* GE = the sum of all products of G and X, [n_rows x n_columns]. On a GPU the sum has another order, a fixed one. */
SL_DECLARE_LAUNCHER(void, sl_epsilon_gradient, uint32_t n_rows, uint32_t n_columns, const sl_real *g,
                    enum sl_dtype x_dtype, const void *x, sl_real *ge_out);

/* ge: the partial gradient of this chunk, a number for each segment of head->runs, overwritten. Local; one thread
 * submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_epsilon_gradient_submit(const struct sl_task_args *head, starpu_data_handle_t g,
                                          starpu_data_handle_t x, uint32_t x_row0, starpu_data_handle_t ge);

#endif
