/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 8, dense: a product of rows with a weight matrix, and its two adjoints.
 *   before: codelets/aggregate.h (or the rows themselves, where a layer projects first)     after: codelets/activate.h
 *
 *   forward          Z  = X W (+ bias)        or  Z  += X W
 *   backward, input  GX = GZ W^T              or  GX += GZ W^T
 *   backward, weight GW = X^T GZ (GB = sum of the rows of GZ)
 *
 * X [D x F] rows, W [F x H], Z [D x H], all row major; weights are kept input by output, the transpose of what DGL stores, so
 * that a column of sparse features meets one row. A GraphSAGE layer is two such products, of the self rows and of the mean.
 *
 * Sparse: X is not a buffer but the CSR feature rows of the vertices frontier[0 .. D), read where they are; input dropout is
 * applied on the way. GEMM: codelets/gemm.h; on a GPU cuBLAS, in float, of bf16 or, if so asked, in TF32, with a handle per
 * worker, so that the same product gives the same bits each time.
 */
#ifndef SL_CODELETS_DENSE_H
#define SL_CODELETS_DENSE_H

#include "codelets/rows.h"
#include "codelets/task.h"
#include "support/bf16.h"
#include "support/random.h"
#include "support/real.h"
#include "support/status.h"

#ifdef SL_CUDA
#include <cublas_v2.h> /* cublasHandle_t */
#include <stdbool.h>
#endif

/* CSR feature rows of the part that starts at id `first`, in StarPU's hands. */
struct sl_sparse {
    starpu_data_handle_t offsets;     /* uint64, n_part + 1; relative to the part's first entry */
    starpu_data_handle_t columns;     /* uint32 */
    starpu_data_handle_t values;      /* float */
    starpu_data_handle_t frontier;    /* ids (renumbered), at least row0 + n_rows */
    starpu_data_handle_t dataset_ids; /* of all N vertices; read only where dropout > 0 */
    uint32_t first;                   /* the part's first id */
    uint32_t max_row;                 /* entries of the part's fullest row, or more */
    double dropout;                   /* of the input: probability that an entry is dropped */
    uint64_t seed;                    /* of dropout */
};

/* ---- kernels, CPU: all shapes as above, ld = number of columns, no argument aliases another; failures as sl_gemm's ---- */

/* beta 0: Z = X W + bias (bias may be NULL); beta 1: Z += X W (bias must be NULL). n_rows may be 0. */
enum sl_status sl_dense_forward_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *x, const sl_real *w,
                                    const sl_real *bias, int beta, sl_real *z_out);

/* GX = beta GX + GZ W^T. */
enum sl_status sl_dense_backward_input_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *gz,
                                           const sl_real *w, int beta, sl_real *gx_out);

/* GW = X^T GZ; GB (may be NULL) = column sums of GZ. Both are overwritten. */
enum sl_status sl_dense_backward_weight_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *x,
                                            const sl_real *gz, sl_real *gw_out, sl_real *gb_out);

/* What a sparse kernel reads: rows ids[0 .. n_rows) of CSR features; dropout as in codelets/gather.h. */
struct sl_sparse_rows {
    const uint64_t *offsets;
    const uint32_t *columns;
    const float *values;
    const sl_vertex *ids;         /* renumbered ids of the rows wanted */
    const sl_vertex *dataset_ids; /* of all vertices; read only where dropout > 0 */
    uint32_t first;               /* id of CSR row 0 */
    uint32_t max_row;             /* no row has more entries; only sl_dense_sparse_backward_weight_cuda reads it */
    double dropout;               /* probability that an entry is dropped */
    struct sl_draw draw;          /* SL_FOR_DROPOUT, step, hop = L */
};

/* The same products of factors in bf16, added up in float: X is held so, the others are rounded. SL_ENOMEM. */
enum sl_status sl_dense_forward_bf16_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_bf16 *x,
                                         const sl_real *w, const sl_real *bias, int beta, sl_real *z_out);
enum sl_status sl_dense_backward_input_bf16_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *gz,
                                                const sl_real *w, int beta, sl_real *gx_out);
enum sl_status sl_dense_backward_weight_bf16_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_bf16 *x,
                                                 const sl_real *gz, sl_real *gw_out, sl_real *gb_out);

void sl_dense_sparse_forward_cpu(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_out, const sl_real *w,
                                 const sl_real *bias, int beta, sl_real *z_out);

/* beta 0: GW [n_in x n_out] is cleared first; beta 1: added to. GB as above, the same beta. */
void sl_dense_sparse_backward_weight_cpu(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                         const sl_real *gz, int beta, sl_real *gw_out, sl_real *gb_out);

#ifdef SL_CUDA
/* ---- the same on the stream's device, whose memory all pointers are of; the struct of a sparse kernel is the host's. SL_ECUDA: what
 * CUDA or cuBLAS refused. ---- */

/* By whom a product is computed: a handle of the stream's device, used for that stream alone. With tf32 the factors are rounded to 10
 * bits after the point as they are multiplied, on devices that have units for that (compute capability 8; others multiply in float);
 * sums are float. */
struct sl_dense_cuda {
    cudaStream_t stream;
    cublasHandle_t cublas;
    bool tf32;
};

SL_EXTERN_C enum sl_status sl_dense_forward_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in,
                                                 uint32_t n_out, const sl_real *x, const sl_real *w,
                                                 const sl_real *bias, int beta, sl_real *z_out);
SL_EXTERN_C enum sl_status sl_dense_backward_input_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in,
                                                        uint32_t n_out, const sl_real *gz, const sl_real *w, int beta,
                                                        sl_real *gx_out);
SL_EXTERN_C enum sl_status sl_dense_backward_weight_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in,
                                                         uint32_t n_out, const sl_real *x, const sl_real *gz,
                                                         sl_real *gw_out, sl_real *gb_out);

/* Of factors in bf16, which tensor cores multiply (compute capability 8; cuBLAS refuses others), added up in float. X is held so, the
 * others are rounded, in memory that is taken for the time of the task: 2 bytes a number of theirs. Z may be of bf16, too, where it is
 * overwritten: 16384 rows at a time are computed in float, and rounded. */
SL_EXTERN_C enum sl_status sl_dense_forward_bf16_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in,
                                                      uint32_t n_out, const sl_bf16 *x, const sl_real *w,
                                                      const sl_real *bias, int beta, enum sl_dtype z_dtype,
                                                      void *z_out);
SL_EXTERN_C enum sl_status sl_dense_backward_input_bf16_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in,
                                                             uint32_t n_out, const sl_real *gz, const sl_real *w,
                                                             int beta, sl_real *gx_out);
SL_EXTERN_C enum sl_status sl_dense_backward_weight_bf16_cuda(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in,
                                                              uint32_t n_out, const sl_bf16 *x, const sl_real *gz,
                                                              sl_real *gw_out, sl_real *gb_out);

/* Z of bf16 is overwritten: each number is computed in float and rounded. */
SL_EXTERN_C enum sl_status sl_dense_sparse_forward_cuda(cudaStream_t stream, const struct sl_sparse_rows *x,
                                                        uint32_t n_rows, uint32_t n_out, const sl_real *w,
                                                        const sl_real *bias, int beta, enum sl_dtype z_dtype,
                                                        void *z_out);

/* Rows are taken a tile at a time, so many as 2^23 entries are the most of (one row may have more): 8 bytes for each of those,
 * and up to 32 MiB of counts, are taken for the time of the task, however large the part. */
SL_EXTERN_C enum sl_status sl_dense_sparse_backward_weight_cuda(cudaStream_t stream, const struct sl_sparse_rows *x,
                                                                uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                                                const sl_real *gz, int beta, sl_real *gw_out,
                                                                sl_real *gb_out);
#endif

/* ---- submissions: local to this process, not thread safe (one thread submits). Handles live until StarPU has run the task.
 * SL_EINVAL: shapes of the handles contradict each other (message: both). SL_ESTARPU, SL_ENOMEM. ---- */

/* Rows row0 .. row0 + D - 1 of chunk x (at least that many rows), D = rows of z. bias may be NULL. x, and z where it is
 * overwritten, may be of bf16. */
enum sl_status sl_dense_forward_submit(const struct sl_task_args *head, starpu_data_handle_t x, uint32_t row0,
                                       starpu_data_handle_t w, starpu_data_handle_t bias, int beta,
                                       starpu_data_handle_t z);

/* Rows row0 .. of gx are written (beta 0: gx must have exactly D rows and row0 = 0) or added to (beta 1). The factors are
 * rounded to bf16 where the run's products are of those. */
enum sl_status sl_dense_backward_input_submit(const struct sl_task_args *head, starpu_data_handle_t gz,
                                              starpu_data_handle_t w, int beta, starpu_data_handle_t gx, uint32_t row0);

/* gw [F x H], gb [1 x H] or NULL: partial gradients of this chunk alone, overwritten. x may be of bf16, as above. */
enum sl_status sl_dense_backward_weight_submit(const struct sl_task_args *head, starpu_data_handle_t x, uint32_t row0,
                                               starpu_data_handle_t gz, starpu_data_handle_t gw,
                                               starpu_data_handle_t gb);

/* The same with sparse features, which are float: row0 addresses the frontier. */
enum sl_status sl_dense_sparse_forward_submit(const struct sl_task_args *head, const struct sl_sparse *x, uint32_t row0,
                                              starpu_data_handle_t w, starpu_data_handle_t bias, int beta,
                                              starpu_data_handle_t z);
enum sl_status sl_dense_sparse_backward_weight_submit(const struct sl_task_args *head, const struct sl_sparse *x,
                                                      uint32_t row0, starpu_data_handle_t gz, int beta,
                                                      starpu_data_handle_t gw, starpu_data_handle_t gb);

#endif
