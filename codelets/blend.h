/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Blend: rows of one matrix, scaled, put in place of rows of another or added to them. Skip connections and their gradients are
 * made of it, and the mean of several terms.
 *   before, after: whatever has such rows; the caller says which stage the time counts for
 *
 *   OUT[out_row0 + i] = beta OUT[out_row0 + i] + a X[x_row0 + i], i < n_rows; beta is 0 or 1
 *
 * The adjoint is a blend again: GX[x_row0 + i] += a GOUT[out_row0 + i]; with beta 0 nothing of OUT before is left, and with beta 1
 * its gradient is GOUT itself.
 */
#ifndef SL_CODELETS_BLEND_H
#define SL_CODELETS_BLEND_H

#include <stddef.h>

#include "codelets/rows.h"
#include "codelets/task.h"
#include "support/bf16.h"
#include "support/real.h"
#include "support/status.h"

/* out[i] = beta out[i] + a x[i], n entries: rows that lie one after the other. With beta 0 out is not read. x and out do not
 * overlap. a is rounded to sl_real first. */
void sl_blend_cpu(size_t n, double a, const sl_real *x, int beta, sl_real *out);

/* The same in bf16: computed as sl_real and rounded once. */
void sl_blend_bf16_cpu(size_t n, double a, const sl_bf16 *x, int beta, sl_bf16 *out);

/* The same of x in sl_real. */
void sl_blend_rounded_cpu(size_t n, double a, const sl_real *x, int beta, sl_bf16 *out);

#ifdef SL_CUDA
/* The same bits on the stream's device, of such numbers, and n entries of zeros. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_blend_cuda(cudaStream_t stream, enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n,
                                         double a, const void *x, int beta, void *out);
SL_EXTERN_C enum sl_status sl_blend_clear_cuda(cudaStream_t stream, size_t n, sl_real *out);
#endif

#ifndef SL_KERNELS_ONLY
/* ---- submissions: local, one thread submits. SL_EINVAL on shapes (message: both), SL_ESTARPU, SL_ENOMEM. ---- */

/* The rows of a matrix from row0 on. */
struct sl_blend_rows {
    starpu_data_handle_t handle;
    uint32_t row0;
};

/* x and out: matrices of as many columns, not the same one; of sl_real or of bf16, or x of sl_real and out of bf16. Where all rows of OUT are overwritten (beta 0, n_rows its number of rows) nothing need have written it before; else its
 * other rows, or what is added to, stay. */
enum sl_status sl_blend_submit(const struct sl_task_args *head, enum sl_stage stage, uint32_t n_rows, double a,
                               struct sl_blend_rows x, int beta, struct sl_blend_rows out);

/* OUT = 0, of sl_real. */
enum sl_status sl_blend_clear_submit(const struct sl_task_args *head, enum sl_stage stage, starpu_data_handle_t out);
#endif

#endif
