/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Attend: graph attention over a block, and its adjoint (Velickovic et al. 2018, "Graph Attention Networks",
 * section 2.1).
 *   before: codelets/sampling/exchange.h packs rows of other PEs      after: codelets/rows/activate.h
 *
 * A row of U [H + 2K] is [ u | el | er ]: K heads of H / K columns each, side by side, then el = a_src . u of each
 * head, then er = a_dst . u of each head. A dense product computes all three. For each head, destination d attends to
 * the sources s of its edges and once to itself. An edge from d to d is skipped.
 *
 *   forward     x = er_d + el_s,  e = x if x > 0, else 0.2 x,  lse_d = ln sum exp(e),  a = exp(e - lse_d).
 *               Z[d] (+)= sum a u_s.                       A destination without edges: its own u.
 *   backward    da = gz_d . u_s,  c_d = sum a da,  gx = a (da - c_d) (1 if x > 0, else 0.2).
 *               GU[s] = sum over destinations of [ a gz_d | gx | 0 ].  GU[d] gets [ 0 | 0 | sum gx ] as well.
 *
 * gz is the gradient of Z. Nothing is stored by edge: backward computes a again, from lse. Backward has three
 * submissions.
 *
 *   sides       collects for each destination the 4K numbers that its sources need, [ er | lse | c | ger = sum gx ].
 *   backward    fills the buffers that go back to other owners, source by source.
 *   accumulate  at the owner: adds the own terms of its destinations. Then it adds the buffers of all PEs of the group
 *               in PE order.
 *
 * No sum uses atomics. An evaluation on a CPU adds in double: exponentials would show the order of their terms most.
 *
 * With R relations, destination d has one list for each: its edges of this relation, also those from d to d. It does
 * not attend to itself. Z[d] is the sum over all relations. A row of U has R slabs [ u_r | el_r | er_r ] side by side.
 * A row of lse has R slabs of K. A row of sides has R slabs of 4K. A relation without edges at d has zeros there, and
 * adds nothing.
 *
 * Edges with relations may have weights w of the dataset (data/graph.h). The softmax does not read them. Z is the sum
 * of w a u_s, as in DGL's GATConv with edge_weight. In backward da = w (gz_d . u_s), and GU[s] gets w a gz_d.
 *
 * Weights that correct a sample (`of_sample` of struct sl_block) are in the softmax: w = 1 / p up to a factor of the
 * list, lse_d = ln sum w exp(e), and a = w exp(e - lse). Z is the sum of a u_s, and backward is that without weights.
 * So numerator and denominator each estimate the sum over all in-neighbours without bias.
 *
 * Edges may have rows f [F] of features. Then x = er_d + el_s + V f of the edge, V [K x F], or V [RK x F] with the K
 * rows of each relation. The own term has no features, and Z does not read them, as in PyTorch Geometric's GATConv with
 * edge_dim and fill_value 0. GV = sum over edges of gx f^T. Sides collects gv_d [RK x F], the sum over the edges of a
 * destination.
 *
 * If features are in the messages too, a message is u_s + f B, each head with a B of its own. Z does not have the sum
 * of a f B: forward collects S_d [RK x F], the sum of a f (w a f with weights), and a dense product with B adds to Z.
 * Sides and backward read the gradient GS, and da = gz . u_s + gs . f.
 *
 * Sources have positions as in codelets/sums/aggregate.h. Frontiers nest: destination i of a PE is row i of its own
 * rows of U. An edge from that row is an edge from d to d. The rows of a chunk of destinations lie within one chunk of
 * U.
 *
 * Sums run along the edges in order, the destination's own term first. They are in sl_real, also if rows and scores of
 * U, or the gradients that go back, are bf16. A bf16 gradient is rounded once, after its last term.
 */
#ifndef SL_CODELETS_ATTEND_H
#define SL_CODELETS_ATTEND_H

#include "codelets/sampling/sample.h"
#include "codelets/sums/aggregate.h"
#include "support/exp.h"
#include "support/ln.h"

/* Most heads (K). */
#define SL_MAX_HEADS 64

/* K = n_heads heads of the same width, H = n_columns in all. R = n_relations, or 0: edges have no relations. */
struct sl_heads {
    uint32_t n_columns, n_heads;
    uint32_t n_relations;
};

/* ---- arithmetic of one row and of one edge and head, host and device; x = er + el ---- */

/* Features of edges in scores. */
struct sl_edge_scores {
    uint32_t n_columns;   /* F */
    const sl_real *table; /* rows of F */
    const sl_real *v;     /* [RK x F] */
    const uint32_t *rows; /* the rows of the edges, in the order of their lists */
    sl_real *s;           /* forward: S [n_rows x RKF], overwritten. NULL: messages have no features */
    const sl_real *gs;    /* sides: GS of the same shape. NULL likewise */
};

/* Number of slabs. */
static inline SL_HOST_DEVICE uint32_t sl_heads_slabs(struct sl_heads heads)
{
    return heads.n_relations > 0 ? heads.n_relations : 1;
}

/* Columns of a slab of U, of a row of U, and of a row of lse. */
static inline SL_HOST_DEVICE uint32_t sl_heads_slab(struct sl_heads heads)
{
    return heads.n_columns + 2 * heads.n_heads;
}
static inline SL_HOST_DEVICE uint32_t sl_heads_row(struct sl_heads heads)
{
    return sl_heads_slabs(heads) * sl_heads_slab(heads);
}
static inline SL_HOST_DEVICE uint32_t sl_heads_scores(struct sl_heads heads)
{
    return sl_heads_slabs(heads) * heads.n_heads;
}

/* Columns of a row of sides: 4RK, or H + 2K of dynamic attention. */
static inline SL_HOST_DEVICE uint32_t sl_attend_side(struct sl_heads heads, bool dynamic)
{
    return dynamic ? heads.n_columns + 2 * heads.n_heads : 4 * sl_heads_scores(heads);
}

/* e: x if x is positive, else a fifth of x. Both values are computed so that compilers vectorise. */
static inline SL_HOST_DEVICE sl_real sl_attend_score(sl_real x)
{
    sl_real fifth = (sl_real)0.2 * x;
    return x > fifth ? x : fifth;
}

/* de / dx. */
static inline SL_HOST_DEVICE sl_real sl_attend_slope(sl_real x)
{
    return x > 0 ? 1 : (sl_real)0.2;
}

/* exp(e - lse). Rounding can leave lse too small and the exponent above 0; the result is therefore cut at 1. */
static inline SL_HOST_DEVICE sl_real sl_attend_share(sl_real e, sl_real lse)
{
    sl_real a = sl_exp_nonpositive(e - lse);
    return a > 1 ? 1 : a;
}

/* ln w of edge e, which the score gets. shares NULL: 0. */
static inline SL_HOST_DEVICE sl_real sl_attend_bonus(const float *shares, uint64_t e)
{
    return shares == NULL ? 0 : (sl_real)sl_ln((double)shares[e]);
}

/* a. */
static inline SL_HOST_DEVICE sl_real sl_attend_weight(sl_real x, sl_real bonus, sl_real lse)
{
    return sl_attend_share(sl_attend_score(x) + bonus, lse);
}

/* ---- kernels for both devices. On a CPU: SL_ENOMEM. On a device, pointers are to device memory. Structs and arrays of
 * pointers are in host memory; the call reads them before it returns. SL_ECUDA. There, the order of a sum depends on
 * the lists, H and K alone. A sum of rows runs along its list, as on the CPU, up to 128 terms. A longer list is summed
 * slice by slice. Sums of exponentials and of products go lane by lane. One launch serves all relations. ---- */

/* z_out [n_rows x H], beta 0: overwrite, 1: add. lse_out [n_rows x RK], overwritten. The sources' rows are rows of U;
 * the own rows of the destinations are in one chunk. Only edges with relations have weights. */
SL_DECLARE_LAUNCHER(void, sl_attend_forward, struct sl_heads heads, const struct sl_edges *edges, int beta,
                    sl_real *z_out, sl_real *lse_out);

/* gz [n_rows x H]; lse: the result of forward. Overwrites sides_out [n_rows x 4RK] and, with features of edges, gv_out
 * [n_rows x RKF]. */
SL_DECLARE_LAUNCHER(void, sl_attend_sides, struct sl_heads heads, const struct sl_edges *edges, const sl_real *gz,
                    const sl_real *lse, sl_real *sides_out, sl_real *gv_out);

/* The same as forward for destinations of a part, in evaluation. */
SL_DECLARE_LAUNCHER(void, sl_attend_full, struct sl_heads heads, const struct sl_edges *edges, int beta,
                    sl_real *z_out);

/* The transposed block, and the gradients of its destinations. */
struct sl_attend_back {
    struct sl_heads heads;
    const uint32_t *offsets;       /* by source */
    const uint32_t *rows;          /* the destinations */
    const struct sl_chunks *gz;    /* rows of width H */
    const struct sl_chunks *sides; /* rows of width sl_attend_side */
    const struct sl_chunks *gs;    /* rows of width RKF. NULL: messages have no features */
    const uint16_t *relations;     /* as `rows`; only with relations */
    const float *weights, *shares; /* as `rows`; only with relations. NULL: 1 */
    const sl_real *a;              /* of dynamic attention */
    struct sl_edge_scores scores;  /* their rows as `rows`; v NULL: none */
};

/* For n_owners owners: gradients of positions t0[k] .. t0[k] + n[k] - 1 overwrite gu_out[k]. None of them is a
 * destination of the block. u[k]: their rows. u and gu_out [n[k] x R(H + 2K)] have this dtype. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_attend_backward, const struct sl_attend_back *block, uint32_t n_owners,
                    const uint32_t *n, const uint32_t *t0, enum sl_dtype dtype, void *const *u, void *const *gu_out);

/* Add the own terms and the gradient of er for the first n_rows rows of g, which are destinations. u: the rows of U of
 * g's rows, of this dtype. On a device, the rows are overwritten; the caller has cleared them. */
SL_DECLARE_LAUNCHER(void, sl_attend_self, const struct sl_attend_back *block, uint32_t n_rows, enum sl_dtype dtype,
                    const void *u, const struct sl_gradient *g);

/* Add the gradients of the PE's own sources, positions t0 .. t0 + n - 1, from its own block. Rows outside g are
 * skipped. */
SL_DECLARE_LAUNCHER(void, sl_attend_own, const struct sl_attend_back *block, uint32_t t0, uint32_t n,
                    const struct sl_asked *asked, enum sl_dtype dtype, const void *u, const struct sl_gradient *g);

/* ---- submissions, also of dynamic attention (codelets/sums/dynamic.h): local, one thread submits. Edges have
 * relations if the block has; R then follows from the widths. Edges with relations have weights if the block has.
 * Dynamic attention reads neither. The destinations are within one chunk of U. Errors of sl_view_submit. ---- */

/* The features of a part's edges, for static attention. v NULL: none. */
struct sl_edge_score_handles {
    starpu_data_handle_t table; /* [? x F] */
    starpu_data_handle_t v;     /* [1 x RKF] */
    starpu_data_handle_t rows;  /* uint32: of the part's edges; blocks have their own */
};

/* Of dynamic attention: a chunk r [D x H] of the destinations, and a [1 x H]. NULL: static attention, which may have
 * features of edges. s: chunk [D x RKF] of S, or of GS for sides. NULL: messages have no features. */
struct sl_attend_operands {
    starpu_data_handle_t r, a;
    struct sl_edge_score_handles scores;
    starpu_data_handle_t s;
};

/* Destinations row0 .. row0 + D - 1 of a block. sources->rows: rows of U; the packed rows have the same dtype. */
struct sl_attend_targets {
    const struct sl_block *block;
    uint32_t row0;
    uint64_t n_edges; /* a rough count, for the performance model */
    const struct sl_source_handles *sources;
    struct sl_attend_operands operands;
};

/* z [D x H] and lse [D x RK]. Dynamic attention: beta is 0. */
enum sl_status sl_attend_forward_submit(const struct sl_task_args *head, const struct sl_attend_targets *to, int beta,
                                        starpu_data_handle_t z, starpu_data_handle_t lse);

/* What sides computes. gr and ga [D x H]: of dynamic attention, else NULL. gv [D x RKF]: of features of edges. */
struct sl_attend_sides {
    starpu_data_handle_t sides; /* [D x sl_attend_side] */
    starpu_data_handle_t gr, ga, gv;
};

/* The sides of the same destinations, from their chunks of GZ [D x H] and lse. */
enum sl_status sl_attend_sides_submit(const struct sl_task_args *head, const struct sl_attend_targets *to,
                                      starpu_data_handle_t gz, starpu_data_handle_t lse,
                                      const struct sl_attend_sides *out);

/* Inputs of `backward` at the destinations: all chunks of GZ, sides and GS, with the same number of rows, maybe 0. */
struct sl_attend_gradients {
    const struct sl_rows *gz;    /* [D x H] */
    const struct sl_rows *sides; /* [D x sl_attend_side] */
    const struct sl_rows *gs;    /* [D x RKF]. NULL: messages have no features */
    starpu_data_handle_t a;      /* of dynamic attention, else NULL */
    struct sl_edge_score_handles scores;
};

/* Submit one task for n_owners owners. For owner k, the task writes the gradients of n consecutive positions, from
 * t0[k] on, into the n rows of gu[k]. gu[k] has the width of U. u[k] has the rows that the owner packed, of the same
 * dtype. n_edges is the number of edges to all the owners; the performance model takes a rough count, too. */
enum sl_status sl_attend_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                         const struct sl_attend_gradients *gradients, uint64_t n_edges,
                                         uint32_t n_owners, const uint32_t *t0, const struct sl_slice *u,
                                         const struct sl_slice *gu);

/* The terms that an owner adds up: from its own block, and from the other PEs of the group. */
struct sl_attend_shares {
    const struct sl_block *block; /* own; its inverse: the rows that each PE requested */
    struct sl_attend_gradients gradients;
    struct sl_share_sources from;
};

/* Clear chunk gu, rows row0 .. of the frontier. If a row is a destination, add its own term. Then add the terms of all
 * PEs in PE order. u: the chunk of U with the same rows. */
enum sl_status sl_attend_accumulate_submit(const struct sl_task_args *head, const struct sl_attend_shares *shares,
                                           uint32_t row0, starpu_data_handle_t u, starpu_data_handle_t gu);

/* Evaluation over whole parts: destinations row0 .. row0 + D - 1 of part `part` into chunk z [D x H]. n_scores: RK. The
 * sources' rows are rows of U. */
enum sl_status sl_attend_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                     uint32_t part, uint32_t row0, uint32_t n_scores,
                                     const struct sl_attend_operands *operands, int beta, starpu_data_handle_t z);

#endif
