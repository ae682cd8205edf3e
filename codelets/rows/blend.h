/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Blend: scale rows of one matrix, and overwrite rows of another or add to them. Skip connections and their gradients
 * are blends, and so is the mean of several terms.
 *   before, after: any task with rows; the caller names the time category
 *
 *   OUT[out_row0 + i] = beta OUT[out_row0 + i] + a X[x_row0 + i], i < n_rows; beta is 0 or 1
 *
 * The factor is a, or a learned number e (GIN; Xu et al. 2019). Its gradient from G, that of OUT, is
 *
 *   GE = sum over i and j of G[i][j] X[x_row0 + i][j]
 *
 * The adjoint is a blend again: GX[x_row0 + i] += a GOUT[out_row0 + i]. With beta 0 the old OUT has no gradient; with
 * beta 1 its gradient is GOUT.
 */
#ifndef SL_CODELETS_BLEND_H
#define SL_CODELETS_BLEND_H

#include <stddef.h>

#include "codelets/grid.h"
#include "support/dtype.h"
#include "tasks/task.h"

/* out[i] = beta out[i] + a x[i] for n entries, consecutive rows. beta 0: out is not read. x and out do not overlap. a
 * is rounded to sl_real first. factor: the place of another factor, in the device's memory. NULL: a. x and out may have
 * different dtypes. Computed in sl_real, rounded once. The same bits on both devices. */
SL_DECLARE_LAUNCHER(void, sl_blend, enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n, double a,
                    const sl_real *factor, const void *x, int beta, void *out);

/* GE = the sum of all products of G and X, [n_rows x n_columns]. A row's products are added in sl_real, the rows in
 * double. On a GPU the sum has another order, a fixed one. */
SL_DECLARE_LAUNCHER(void, sl_blend_gradient, uint32_t n_rows, uint32_t n_columns, const sl_real *g,
                    enum sl_dtype x_dtype, const void *x, sl_real *ge_out);

#ifndef SL_KERNELS_ONLY
/* ---- submissions: local, one thread submits; the errors of sl_view_submit. ---- */

/* Rows of a matrix from row0 on. */
struct sl_blend_rows {
    starpu_data_handle_t handle;
    uint32_t row0;
};

/* x and out are different matrices with the same number of columns, each of sl_real or bf16. If beta is 0 and n_rows is
 * all of OUT, OUT may be uninitialised. Otherwise its other rows keep their contents. */
enum sl_status sl_blend_submit(const struct sl_task_args *head, enum sl_stage stage, uint32_t n_rows, double a,
                               struct sl_blend_rows x, int beta, struct sl_blend_rows out);

/* The same with e [1 x 1] in place of a. */
enum sl_status sl_blend_learned_submit(const struct sl_task_args *head, enum sl_stage stage, uint32_t n_rows,
                                       starpu_data_handle_t e, struct sl_blend_rows x, int beta,
                                       struct sl_blend_rows out);

/* ge: the partial gradient of e for all rows of g, a number for each segment of head->runs, overwritten. */
enum sl_status sl_blend_gradient_submit(const struct sl_task_args *head, starpu_data_handle_t g, struct sl_blend_rows x,
                                        starpu_data_handle_t ge);

/* OUT = 0; OUT is sl_real. */
enum sl_status sl_blend_clear_submit(const struct sl_task_args *head, enum sl_stage stage, starpu_data_handle_t out);
#endif

#endif
