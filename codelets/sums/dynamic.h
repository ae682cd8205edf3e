/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Dynamic attention over a block, and its adjoint (Brody et al. 2022, "How Attentive are Graph Attention Networks?",
 * equation 7, GATv2).
 *   before: codelets/sampling/exchange.h packs rows of other PEs      after: codelets/rows/activate.h
 *
 * Sources have rows U [H], and destinations have rows R [D x H]: K heads of H / K columns each, side by side. A [1 x H]
 * weighs the columns. For each head, destination d attends to the sources s of its edges and once to itself. An edge
 * from d to d is skipped.
 *
 *   forward     x = u_s + r_d,  y = x if x > 0, else 0.2 x,  e = sum over the head's columns of A y,
 *               lse_d = ln sum exp(e),  a = exp(e - lse_d).     Z[d] = sum a u_s.
 *   backward    da = gz_d . u_s,  c_d = sum a da,  ge = a (da - c_d),  gx = ge A (1 if x > 0, else 0.2).
 *               GU[s] = sum over destinations of (a gz_d + gx).  GR[d] = sum over sources of gx.
 *               GA = sum over destinations of ga_d, with ga_d = sum over sources of ge y.
 *
 * gz is the gradient of Z. Nothing is stored by edge: backward computes e again. Backward has three submissions.
 *
 *   sides       for each destination [ r | lse | c ], which its sources need, and the rows GR and ga.
 *   backward    fills the buffers that go back to other owners, source by source.
 *   accumulate  at the owner: adds the own terms of its destinations. Then it adds the buffers of all PEs of the group
 *               in PE order.
 *
 * Sums over a list run along its edges in order, the destination's own term first: in double on a CPU in forward, so
 * that an evaluation hardly ever shows the order of a list, otherwise in sl_real. No sum uses atomics. Rows of U, and
 * the gradients that go back, may be bf16; a bf16 gradient is rounded once, after its last term. Positions, frontiers
 * and chunks are as in codelets/sums/attend.h.
 */
#ifndef SL_CODELETS_DYNAMIC_H
#define SL_CODELETS_DYNAMIC_H

#include "codelets/sums/attend.h"

/* ---- kernels; heads have no relations. Submissions are those of codelets/sums/attend.h. ---- */

/* The destinations of edges: their rows of R [n_rows x H], and A [H]. */
struct sl_dynamic {
    struct sl_heads heads;
    const struct sl_edges *edges;
    const sl_real *r, *a;
};

/* Overwrites z_out [n_rows x H] and, unless NULL, lse_out [n_rows x K]. The own rows of the destinations are in one
 * chunk. On a CPU: SL_ENOMEM. On a device: SL_ECUDA. The same holds for all launchers here. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_dynamic_forward, const struct sl_dynamic *to, sl_real *z_out, sl_real *lse_out);

/* gz [n_rows x H]; lse: the result of forward. Overwrites sides_out [n_rows x (H + 2K)], gr_out and ga_out
 * [n_rows x H]. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_dynamic_sides, const struct sl_dynamic *to, const sl_real *gz,
                    const sl_real *lse, sl_real *sides_out, sl_real *gr_out, sl_real *ga_out);

/* Gradients of positions t0 .. t0 + n - 1, whose rows are u [n x H], overwrite gu_out [n x H]. None of them is a
 * destination of the block. Both have this dtype. block->relations and weights are not read, here and below. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_dynamic_backward, const struct sl_attend_back *block, uint32_t n, uint32_t t0,
                    enum sl_dtype dtype, const void *u, void *gu_out);

/* Add the own terms of the first n_rows rows of g, which are destinations. u: the rows of U of g's rows. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_dynamic_self, const struct sl_attend_back *block, uint32_t n_rows,
                    enum sl_dtype dtype, const void *u, const struct sl_gradient *g);

/* Add the gradients of the PE's own sources, positions t0 .. t0 + n - 1, from its own block. Rows outside g are
 * skipped. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_dynamic_own, const struct sl_attend_back *block, uint32_t t0, uint32_t n,
                    const struct sl_asked *asked, enum sl_dtype dtype, const void *u, const struct sl_gradient *g);

#endif
