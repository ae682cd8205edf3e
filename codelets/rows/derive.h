/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Derive: compute a matrix from trained parameters, once a step. The products with rows (codelets/rows/dense.h) then
 * use the matrix and need not know its parts. The adjoint brings the gradient of the matrix back to the parameters.
 *   before: codelets/ends/optimize.h      after: dense.h
 *   backward, before: codelets/ends/reduce.h adds the partial gradients of OUT      after: codelets/ends/optimize.h
 *
 *   identity (GCNII, Chen et al. 2020): OUT = a I + b W, all [H x H]
 *     backward                          GW = b GOUT
 *
 *   attention (GAT, Velickovic et al. 2018): OUT = [ W | W A_src | W A_dst ], W [F x H], OUT [F x (H + 2 K)], K heads
 *   of D = H / K columns. A product with OUT gives a vertex' row and, for each head, its scores as source and as
 *   destination.
 *     (W A_src)[f, k] = sum_j W[f, k D + j] src[k D + j], src [1 x H]; W A_dst is the same with dst
 *     backward, k = c / D               GW[f, c] = GOUT[f, c] + GOUT[f, H + k] src[c] + GOUT[f, H + K + k] dst[c]
 *                                       GSRC[c]  = sum_f GOUT[f, H + k] W[f, c]
 *                                       GDST[c]  = sum_f GOUT[f, H + K + k] W[f, c]
 *     With R relations this holds for each. W [F x RH], src and dst [1 x RH], and OUT [F x R(H + 2 K)] have R slabs
 *     side by side.
 *
 *   scores (features of edges, codelets/sums/attend.h): V = (W A_src)^T, V [K x F], of the same W and src with R = 1.
 *   R relations of K heads are RK heads: the W_r and the src_r stand side by side
 *     backward, k = c / D               GW[f, c] = GV[k, f] src[c],  GSRC[c] = sum_f GV[k, f] W[f, c]
 *
 *   spread (features of edges in messages, attend.h): OUT [RKF x H] of W [F x RH] has a row for each relation, head and
 *   row of W. It has the head's columns of the row, and zeros. A row s [RKF] has F numbers for each relation and head.
 *   In s OUT each head's numbers are multiplied by the head's columns of W_r, and relations are added up
 *     backward, k = c / D               GW[f, r H + c] += GOUT[(r K + k) F + f, c]
 *
 *   encoded (features of edges that are added to rows): OUT_r = E_r W_r for each of R relations. E [RF x N] and OUT
 *   [RF x H] have the R matrices one above the other; W [RN x H] too, or W [N x RH] has them side by side
 *     backward                          GE_r = GOUT_r W_r^T,  GW_r += E_r^T GOUT_r
 *
 * All matrices are row-major. Gradients are overwritten, but for GW of spread and encoded, which are added to.
 */
#ifndef SL_CODELETS_DERIVE_H
#define SL_CODELETS_DERIVE_H

#include "codelets/rows/bias.h"
#include "support/real.h"
#include "support/status.h"
#include "tasks/task.h"

/* ---- kernels: no argument aliases another. OUT of identity, and GW, have the same bits on both devices. Other sums
 * have another order on a GPU, a fixed one. ---- */

/* n: H. The adjoint is sl_blend on H * H entries (codelets/rows/blend.h). */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_identity, uint32_t n, double a, double b, const sl_real *w, sl_real *out);

/* Parameters of one layer, in the device's memory. */
struct sl_derive_attention {
    uint32_t n_rows;          /* F */
    uint32_t n_columns;       /* H */
    uint32_t n_heads;         /* K >= 1, divides H */
    uint32_t n_slabs;         /* R >= 1 */
    const sl_real *w;         /* F x RH */
    const sl_real *src, *dst; /* RH each */
};

/* out [F x R(H + 2 K)]. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_attention, const struct sl_derive_attention *a, sl_real *out);

/* gout [F x R(H + 2 K)]. Overwrites gw [F x RH], gsrc and gdst [RH]. Sums over F as in codelets/rows/bias.h. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_attention_backward, const struct sl_derive_attention *a,
                    const sl_real *gout, sl_real *gw_out, sl_real *gsrc_out, sl_real *gdst_out);

/* v_out [K x F]. a: n_slabs is 1; dst is not read, here and below. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_scores, const struct sl_derive_attention *a, sl_real *v_out);

/* gv [K x F]. Overwrites gw [F x H] and gsrc [H]. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_scores_backward, const struct sl_derive_attention *a, const sl_real *gv,
                    sl_real *gw_out, sl_real *gsrc_out);

/* out [RKF x H]. Of a, src and dst are not read, here and below. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_spread, const struct sl_derive_attention *a, sl_real *out);

/* gout [RKF x H]. Adds to gw [F x RH]. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_spread_backward, const struct sl_derive_attention *a, const sl_real *gout,
                    sl_real *gw);

struct sl_derive_encoded {
    uint32_t n_slabs; /* R >= 1 */
    uint32_t n_rows;  /* F */
    uint32_t n_in;    /* N */
    uint32_t n_out;   /* H */
    size_t slab, row; /* entries from one matrix of W to the next, and from one row of a matrix to the next */
    const sl_real *e; /* RF x N */
    const sl_real *w; /* RN x H, or N x RH */
};

/* out [RF x H]. Sums over N run in order. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_encoded, const struct sl_derive_encoded *a, sl_real *out);

/* gout [RF x H]. Overwrites ge [RF x N]; adds to gw, which has the shape of W, in the order of F. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_derive_encoded_backward, const struct sl_derive_encoded *a, const sl_real *gout,
                    sl_real *ge_out, sl_real *gw);

/* ---- submissions: local, one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* w, out: [H x H]. */
enum sl_status sl_derive_identity_submit(const struct sl_task_args *head, double a, double b, starpu_data_handle_t w,
                                         starpu_data_handle_t out);

/* Parameters of one layer, read only. */
struct sl_derive_attention_layer {
    uint32_t n_heads;              /* K */
    uint32_t n_slabs;              /* R */
    starpu_data_handle_t w;        /* F x RH */
    starpu_data_handle_t src, dst; /* 1 x RH; scores have no dst, spread has neither */
};

/* out: [F x R(H + 2 K)]. */
enum sl_status sl_derive_attention_submit(const struct sl_task_args *head,
                                          const struct sl_derive_attention_layer *layer, starpu_data_handle_t out);

/* gout [F x R(H + 2 K)]; gw [F x RH], gsrc and gdst [1 x RH]. The parameters must have the values of the forward task:
 * submit before the update. */
enum sl_status sl_derive_attention_backward_submit(const struct sl_task_args *head,
                                                   const struct sl_derive_attention_layer *layer,
                                                   starpu_data_handle_t gout, starpu_data_handle_t gw,
                                                   starpu_data_handle_t gsrc, starpu_data_handle_t gdst);

/* v: [1 x KF]. */
enum sl_status sl_derive_scores_submit(const struct sl_task_args *head, const struct sl_derive_attention_layer *layer,
                                       starpu_data_handle_t v);

/* gv [1 x KF]; gw [F x H], gsrc [1 x H]. Submit before the update. */
enum sl_status sl_derive_scores_backward_submit(const struct sl_task_args *head,
                                                const struct sl_derive_attention_layer *layer, starpu_data_handle_t gv,
                                                starpu_data_handle_t gw, starpu_data_handle_t gsrc);

/* out: [RKF x H]. */
enum sl_status sl_derive_spread_submit(const struct sl_task_args *head, const struct sl_derive_attention_layer *layer,
                                       starpu_data_handle_t out);

/* gout [RKF x H]; gw [F x RH], which has a value already. */
enum sl_status sl_derive_spread_backward_submit(const struct sl_task_args *head,
                                                const struct sl_derive_attention_layer *layer,
                                                starpu_data_handle_t gout, starpu_data_handle_t gw);

/* Parameters of one layer, read only. */
struct sl_derive_encoded_layer {
    uint32_t n_slabs;          /* R */
    starpu_data_handle_t e, w; /* RF x N; RN x H, or N x RH */
};

/* out: [RF x H]. */
enum sl_status sl_derive_encoded_submit(const struct sl_task_args *head, const struct sl_derive_encoded_layer *layer,
                                        starpu_data_handle_t out);

/* gout [RF x H]; ge [RF x N]; gw as w, which has a value already. Submit before the update. */
enum sl_status sl_derive_encoded_backward_submit(const struct sl_task_args *head,
                                                 const struct sl_derive_encoded_layer *layer, starpu_data_handle_t gout,
                                                 starpu_data_handle_t ge, starpu_data_handle_t gw);

#endif
