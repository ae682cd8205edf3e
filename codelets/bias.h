/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Bias: one row in every row, and its adjoint, the sums of columns. For what has no product of its own to bring the bias along, as
 * an aggregation that comes after its layer's product; codelets/dense.h does its own with the kernels here.
 *   before: the parameters, codelets/optimize.h      after: whatever adds to Z
 *
 *   forward   Z[i] = b for all rows i
 *   backward  GB = sum of the rows of GZ
 *
 * Z, GZ [D x H], row major; b, GB [1 x H].
 */
#ifndef SL_CODELETS_BIAS_H
#define SL_CODELETS_BIAS_H

#include "codelets/task.h"
#include "support/real.h"
#include "support/status.h"

/* ---- kernels, CPU: no argument aliases another ---- */

/* Z = b in every row; b NULL: zeros. */
void sl_bias_forward_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *b, sl_real *z_out);

/* GB = beta GB + column sums of GZ; beta 0: GB is not read. n_rows may be 0. */
void sl_bias_backward_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *gz, int beta, sl_real *gb_out);

/* Sums of the columns of a matrix whose rows may be longer and weighted, a weight for each `width` columns:
 *   sum[c] = sum_i weight[i weight_stride + c / width] g[i stride + c]
 * 64 rows at a time are added up in sl_real, in their order, and these sums in double. */
struct sl_column_sums {
    uint32_t n_rows, n_columns;
    const sl_real *g;
    size_t stride;         /* from a row of g to the next, n_columns or more */
    const sl_real *weight; /* NULL: all are 1; then weight_stride and width are not read */
    size_t weight_stride;
    uint32_t width; /* 1 or more */
};

/* sums [n_columns] = beta sums + the sums; beta 0: not read. */
void sl_column_sums_cpu(const struct sl_column_sums *s, int beta, sl_real *sums_out);

#ifdef SL_CUDA
/* ---- the same on the stream's device, whose memory all pointers are of, those in *s too; the struct is the host's. The sums in
 * double take another order than the CPU's where there are many rows, a fixed one. SL_ECUDA. ---- */

SL_EXTERN_C enum sl_status sl_bias_forward_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                                const sl_real *b, sl_real *z_out);
SL_EXTERN_C enum sl_status sl_bias_backward_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                                 const sl_real *gz, int beta, sl_real *gb_out);
SL_EXTERN_C enum sl_status sl_column_sums_cuda(cudaStream_t stream, const struct sl_column_sums *s, int beta,
                                               sl_real *sums_out);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL on shapes (message: both), SL_ESTARPU, SL_ENOMEM. ---- */

/* z is overwritten. */
enum sl_status sl_bias_forward_submit(const struct sl_task_args *head, starpu_data_handle_t b, starpu_data_handle_t z);

/* gb: the partial gradient of this chunk alone, overwritten. */
enum sl_status sl_bias_backward_submit(const struct sl_task_args *head, starpu_data_handle_t gz,
                                       starpu_data_handle_t gb);

#endif
