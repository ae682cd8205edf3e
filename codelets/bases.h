/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Bases: the matrices of all relations as sums of shared matrices (Schlichtkrull et al. 2018, equation 3).
 *   before: codelets/optimize.h      after: codelets/dense.h
 *   backward, before: codelets/reduce.h      after: codelets/optimize.h
 *
 *   W_r = sum over b of C[r, b] V_b,  r < R, b < B; W_r and V_b are [n_in x n_out]
 *   backward   GV_b = sum over r of C[r, b] GW_r,  GC[r, b] = sum of all entries of GW_r * V_b
 *
 * W has the R matrices one above the other or side by side, and V the B matrices likewise. Gradients are overwritten.
 * Sums run in order of b or r, in sl_real; GC is summed row by row, then in double.
 */
#ifndef SL_CODELETS_BASES_H
#define SL_CODELETS_BASES_H

#include "support/random.h" /* SL_HOST_DEVICE */
#include "support/real.h"
#include "support/status.h"
#include "tasks/task.h"

struct sl_bases {
    uint32_t n_in, n_out;
    uint32_t n_relations, n_bases; /* R, B */
    uint32_t side_by_side;         /* true or false; no bool, because tools check kernel arguments word by word */
    const sl_real *v;              /* V */
    const sl_real *c;              /* [R x B] */
};

/* The first entry of row i of matrix k, of n matrices. */
static inline SL_HOST_DEVICE size_t sl_bases_row(const struct sl_bases *bases, uint32_t n, uint32_t k, uint32_t i)
{
    return bases->side_by_side ? ((size_t)i * n + k) * bases->n_out : ((size_t)k * bases->n_in + i) * bases->n_out;
}

/* ---- kernels, CPU ---- */

void sl_bases_cpu(const struct sl_bases *bases, sl_real *w_out);
void sl_bases_backward_cpu(const struct sl_bases *bases, const sl_real *gw, sl_real *gv_out, sl_real *gc_out);

#ifdef SL_CUDA
/* The same on the stream's device. The pointers in *bases are to device memory. W and GV have the bits of the CPU. The
 * sums of GC have another order, a fixed one. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_bases_cuda(cudaStream_t stream, const struct sl_bases *bases, sl_real *w_out);
SL_EXTERN_C enum sl_status sl_bases_backward_cuda(cudaStream_t stream, const struct sl_bases *bases, const sl_real *gw,
                                                  sl_real *gv_out, sl_real *gc_out);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL: shapes do not fit. SL_ESTARPU, SL_ENOMEM. ---- */

/* The parameters, read only. */
struct sl_bases_layer {
    bool side_by_side;
    starpu_data_handle_t v, c;
};

enum sl_status sl_bases_submit(const struct sl_task_args *head, const struct sl_bases_layer *layer,
                               starpu_data_handle_t w);

/* The parameters must have the values of the forward task: submit before the update. */
enum sl_status sl_bases_backward_submit(const struct sl_task_args *head, const struct sl_bases_layer *layer,
                                        starpu_data_handle_t gw, starpu_data_handle_t gv, starpu_data_handle_t gc);

#endif
