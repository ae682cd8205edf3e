/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Dense: a product of rows with a weight matrix, and its two adjoints.
 *   before: codelets/sums/aggregate.h, or the rows themselves if a layer projects first     after: activate.h
 *
 *   forward          Z  = X W (+ bias)        or  Z  += X W.
 *   backward, input  GX = GZ W^T              or  GX += GZ W^T.
 *   backward, weight GW = X^T GZ (GB = sum of the rows of GZ).
 *
 * X [D x F] rows, W [F x H], Z [D x H], all row-major. Weights are stored input by output, the transpose of DGL's
 * layout, so that a column of sparse features selects one row of W. A GraphSAGE layer has two such products, of the
 * self rows and of the mean.
 *
 * Sparse X is not a buffer: the kernels read the CSR feature rows of the vertices frontier[0 .. D) in place, and apply
 * input dropout on the way. Dense products use codelets/rows/gemm.h on a CPU. On a GPU they use cuBLAS, in float, bf16
 * or, on request, TF32. Each worker has its own cuBLAS handle, so that the same product gives the same bits each time.
 */
#ifndef SL_CODELETS_DENSE_H
#define SL_CODELETS_DENSE_H

#include "support/bf16.h"
#include "support/random.h"
#include "support/real.h"
#include "support/status.h"
#include "tasks/rows.h"
#include "tasks/task.h"

#include <stdbool.h>

/* Handles of the CSR feature rows of the part that starts at id `first`. */
struct sl_sparse {
    starpu_data_handle_t offsets;     /* uint64, n_part + 1; relative to the part's first entry */
    starpu_data_handle_t columns;     /* uint32 */
    starpu_data_handle_t values;      /* float */
    starpu_data_handle_t frontier;    /* renumbered ids, at least row0 + n_rows */
    starpu_data_handle_t dataset_ids; /* all N vertices; read only if dropout > 0 */
    uint32_t first;                   /* the part's first id */
    uint32_t max_row;                 /* upper bound of the entries in a row of the part */
    double dropout;                   /* probability that an input entry is dropped */
    uint64_t seed;                    /* of dropout */
};

/* ---- kernels: shapes as above, leading dimension = number of columns, no argument aliases another. Errors as for
 * sl_gemm. ---- */

/* beta 0: Z = X W + bias; bias may be NULL. beta 1: Z += X W; bias must be NULL. n_rows may be 0. dtype: of the factors
 * of a product, SL_DTYPE_REAL or SL_DTYPE_BF16. X is stored in it, other factors are rounded to it; sums are sl_real.
 * z_dtype: SL_DTYPE_REAL, or SL_DTYPE_BF16 if X is bf16 and Z is overwritten. SL_ENOMEM. */
enum sl_status sl_dense_forward_cpu(enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x,
                                    const sl_real *w, const sl_real *bias, int beta, enum sl_dtype z_dtype,
                                    void *z_out);

/* GX = beta GX + GZ W^T. */
enum sl_status sl_dense_backward_input_cpu(enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                           const sl_real *gz, const sl_real *w, int beta, sl_real *gx_out);

/* GW = X^T GZ; GB = column sums of GZ, unless gb_out is NULL. Both are overwritten. */
enum sl_status sl_dense_backward_weight_cpu(enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                            const void *x, const sl_real *gz, sl_real *gw_out, sl_real *gb_out);

/* Input of a sparse kernel: CSR feature rows of the vertices ids[0 .. n_rows). Dropout as in codelets/rows/gather.h. */
struct sl_sparse_rows {
    const uint64_t *offsets;
    const uint32_t *columns;
    const float *values;
    const sl_vertex *ids;         /* renumbered */
    const sl_vertex *dataset_ids; /* all vertices; read only if dropout > 0 */
    uint32_t first;               /* id of CSR row 0 */
    /* No row has more entries. Only sl_dense_sparse_backward_weight_cuda reads it. */
    uint32_t max_row;
    double dropout;      /* probability that an entry is dropped */
    struct sl_draw draw; /* SL_FOR_DROPOUT, step, hop = L */
};

/* A bf16 Z is overwritten: each number is computed in float and rounded. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_dense_sparse_forward, const struct sl_sparse_rows *x, uint32_t n_rows,
                    uint32_t n_out, const sl_real *w, const sl_real *bias, int beta, enum sl_dtype z_dtype,
                    void *z_out);

/* beta 0: GW [n_in x n_out] is overwritten; beta 1: added to. The same for GB, unless gb_out is NULL. A GPU takes a
 * tile of rows at a time, at most 2^23 entries unless one row has more. The scratch memory of the task is 8 bytes per
 * entry of a tile and up to 32 MiB of counts, however large the part. */
SL_DECLARE_LAUNCHER(void, sl_dense_sparse_backward_weight, const struct sl_sparse_rows *x, uint32_t n_rows,
                    uint32_t n_in, uint32_t n_out, const sl_real *gz, int beta, sl_real *gw_out, sl_real *gb_out);

/* Dense products on the queue's device. Pointers are to device memory. SL_ECUDA: CUDA or cuBLAS failed.
 * bf16 factors are multiplied by tensor cores; cuBLAS refuses devices below compute capability 8. Rounded factors lie
 * in scratch memory of the task, 2 bytes per number. Of a bf16 Z, 16384 rows at a time are computed in float, then
 * rounded. */
SL_EXTERN_C enum sl_status sl_dense_forward_cuda(struct sl_queue blas, enum sl_dtype dtype, uint32_t n_rows,
                                                 uint32_t n_in, uint32_t n_out, const void *x, const sl_real *w,
                                                 const sl_real *bias, int beta, enum sl_dtype z_dtype, void *z_out);
SL_EXTERN_C enum sl_status sl_dense_backward_input_cuda(struct sl_queue blas, enum sl_dtype dtype, uint32_t n_rows,
                                                        uint32_t n_in, uint32_t n_out, const sl_real *gz,
                                                        const sl_real *w, int beta, sl_real *gx_out);
SL_EXTERN_C enum sl_status sl_dense_backward_weight_cuda(struct sl_queue blas, enum sl_dtype dtype, uint32_t n_rows,
                                                         uint32_t n_in, uint32_t n_out, const void *x,
                                                         const sl_real *gz, sl_real *gw_out, sl_real *gb_out);

/* ---- submissions: local, one thread submits. Handles live until StarPU has run the task. SL_ENOTSUP: over 2^31 - 1
 * rows or columns. SL_ESTARPU, SL_ENOMEM. ---- */

/* Rows row0 .. row0 + D - 1 of chunk x; D: rows of z. bias may be NULL. x may be bf16; z may be bf16 if it is
 * overwritten. */
enum sl_status sl_dense_forward_submit(const struct sl_task_args *head, starpu_data_handle_t x, uint32_t row0,
                                       starpu_data_handle_t w, starpu_data_handle_t bias, int beta,
                                       starpu_data_handle_t z);

/* Rows row0 .. row0 + D - 1 of gx. beta 0 overwrites them; then gx has exactly D rows and row0 is 0. beta 1 adds. The
 * factors are rounded to bf16 if the run uses bf16 products. */
enum sl_status sl_dense_backward_input_submit(const struct sl_task_args *head, starpu_data_handle_t gz,
                                              starpu_data_handle_t w, int beta, starpu_data_handle_t gx, uint32_t row0);

/* Partial gradients of this chunk, overwritten: gw [F x H], gb [1 x H] or NULL, for each segment of head->runs. x may
 * be bf16, as above. */
enum sl_status sl_dense_backward_weight_submit(const struct sl_task_args *head, starpu_data_handle_t x, uint32_t row0,
                                               starpu_data_handle_t gz, starpu_data_handle_t gw,
                                               starpu_data_handle_t gb);

/* The same with sparse features, which are float. row0 is an index into the frontier. */
enum sl_status sl_dense_sparse_forward_submit(const struct sl_task_args *head, const struct sl_sparse *x, uint32_t row0,
                                              starpu_data_handle_t w, starpu_data_handle_t bias, int beta,
                                              starpu_data_handle_t z);

/* A weight gradient. If most rows are zero, `touched` marks the others. beta 0 then clears only the marked rows, and
 * head->runs has at most one segment. */
struct sl_sparse_gradient {
    starpu_data_handle_t gw;      /* [F x H] for each segment of head->runs */
    starpu_data_handle_t touched; /* int8 [1 x F]: 1 if a row may differ from zero. NULL: any row may */
    bool fresh;                   /* gw and touched have never been written; only with touched */
};
enum sl_status sl_dense_sparse_backward_weight_submit(const struct sl_task_args *head, const struct sl_sparse *x,
                                                      uint32_t row0, starpu_data_handle_t gz, int beta,
                                                      const struct sl_sparse_gradient *gradient,
                                                      starpu_data_handle_t gb);

#endif
