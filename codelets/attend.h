/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 7, attend: graph attention (Velickovic et al. 2018, "Graph Attention Networks", section 2.1) over a block, and its adjoint.
 *   before: codelets/exchange.h packs what other PEs own      after: codelets/activate.h
 *
 * A row of U [H + 2K] is [ u | el | er ]: K heads of H / K columns each, side by side, then for each head el = a_src . u and
 * er = a_dst . u, which a dense product has made. Destination d attends, head by head, to the sources s of its edges and to itself
 * once; an edge from itself is passed over:
 *
 *   forward     x = er_d + el_s,  e = x where x > 0, else 0.2 x,  lse_d = ln sum exp(e),  a = exp(e - lse_d)
 *               Z[d] (+)= sum a u_s                        (a destination without edges: its own u)
 *   backward    da = gz_d . u_s,  c_d = sum a da,  gx = a (da - c_d) (1 where x > 0, else 0.2)
 *               GU[s] = sum over destinations of [ a gz_d | gx | 0 ], and GU[d] gets [ 0 | 0 | sum gx ]
 *
 * where gz is the gradient of Z. No number is kept by edge: a comes again from lse. Backward has three submissions: `sides` gathers
 * by destination what a source needs to know of it, [ er | lse | c | ger = sum gx ], 4K numbers; `backward` fills the buffers
 * that go back to other owners, by source; `accumulate` adds at the owner its destinations' own terms, then what all PEs of the
 * group send, in PE order, without atomics.
 *
 * Sources are addressed as in codelets/aggregate.h. Destination i of a PE is row i of its own rows of U, since frontiers nest; an
 * edge from itself is one whose source is that row. The rows of a chunk of destinations lie within one chunk of U.
 * Sums run along the edges in order, the destination's own term first, in sl_real; so they do where rows of U are of bf16,
 * scores too, and what is sent back (rounded once, when all its terms are added).
 */
#ifndef SL_CODELETS_ATTEND_H
#define SL_CODELETS_ATTEND_H

#include "codelets/aggregate.h"
#include "codelets/sample.h"
#include "support/exp.h"

/* Most heads, K. */
#define SL_MAX_HEADS 64

/* H = n_columns in K = n_heads of the same width. */
struct sl_heads {
    uint32_t n_columns, n_heads;
};

/* ---- arithmetic of one row and of one edge and head, host and device; x = er + el ---- */

/* Numbers in a row of U. */
static inline SL_HOST_DEVICE uint32_t sl_heads_row(struct sl_heads heads)
{
    return heads.n_columns + 2 * heads.n_heads;
}

/* e, x where that is positive and else a fifth of it (both are looked at, so that compilers vectorise). */
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

/* a, at most 1 also where lse was rounded down, so that what is exponentiated is above 0 by that. */
static inline SL_HOST_DEVICE sl_real sl_attend_weight(sl_real x, sl_real lse)
{
    sl_real a = sl_exp_nonpositive(sl_attend_score(x) - lse);
    return a > 1 ? 1 : a;
}

/* ---- kernels, CPU ---- */

/* Destinations 0 .. n_rows - 1, whose edges are sources[offsets[d]] .. sources[offsets[d + 1] - 1]. */
struct sl_attend_rows {
    struct sl_heads heads;
    uint32_t n_rows;
    const uint32_t *offsets;    /* n_rows + 1 */
    const uint32_t *sources;    /* positions of x */
    const struct sl_sources *x; /* rows of U */
    const void *self;           /* the destinations' own rows of U, [n_rows x (H + 2K)], where x has them too */
};

/* z_out [n_rows x H], beta 0: overwrite, 1: add; lse_out [n_rows x K]. */
void sl_attend_forward_cpu(const struct sl_attend_rows *rows, int beta, sl_real *z_out, sl_real *lse_out);

/* The same where all rows of U are of bf16, here and below. */
void sl_attend_forward_bf16_cpu(const struct sl_attend_rows *rows, int beta, sl_real *z_out, sl_real *lse_out);

/* gz [n_rows x H], lse as forward left it; sides_out [n_rows x 4K]. */
void sl_attend_sides_cpu(const struct sl_attend_rows *rows, const sl_real *gz, const sl_real *lse, sl_real *sides_out);

void sl_attend_sides_bf16_cpu(const struct sl_attend_rows *rows, const sl_real *gz, const sl_real *lse,
                              sl_real *sides_out);

/* The transposed block, and its destinations' gradients. */
struct sl_attend_back {
    struct sl_heads heads;
    const uint32_t *offsets; /* by source */
    const uint32_t *rows;    /* the destinations */
    struct sl_view gz;       /* rows of H */
    struct sl_view sides;    /* rows of 4K */
};

/* Items t0 .. t0 + n - 1, none of which is a destination, into gu_out [n x (H + 2K)], overwritten; u [n x (H + 2K)]: their rows. */
void sl_attend_backward_cpu(const struct sl_attend_back *block, uint32_t n, uint32_t t0, const sl_real *u,
                            sl_real *gu_out);

void sl_attend_backward_bf16_cpu(const struct sl_attend_back *block, uint32_t n, uint32_t t0, const sl_bf16 *u,
                                 sl_real *gu_out);

/* Add destinations row0 .. row0 + n_rows - 1's own terms, and their er's gradient; u, gu: row row0. */
void sl_attend_self_cpu(const struct sl_attend_back *block, uint32_t row0, uint32_t n_rows, const sl_real *u,
                        sl_real *gu);

void sl_attend_self_bf16_cpu(const struct sl_attend_back *block, uint32_t row0, uint32_t n_rows, const sl_bf16 *u,
                             sl_real *gu);

/* Add what the PE's own sources t0 .. t0 + n - 1 get from its own block: of item i, to row inverse[i] of its frontier where that is
 * one of row0 .. row0 + n_rows - 1; u, gu: row row0. */
void sl_attend_own_cpu(const struct sl_attend_back *block, uint32_t n, uint32_t t0, const uint32_t *inverse,
                       uint32_t row0, uint32_t n_rows, const sl_real *u, sl_real *gu);

void sl_attend_own_bf16_cpu(const struct sl_attend_back *block, uint32_t n, uint32_t t0, const uint32_t *inverse,
                            uint32_t row0, uint32_t n_rows, const sl_bf16 *u, sl_real *gu);

#ifdef SL_CUDA
/* ---- launchers: pointers are to the stream's device, structs and arrays of them are the host's and read before the call
 * returns. SL_ECUDA. The order of sums depends on the lists and on H and K alone: sums of rows run along the list, as on the CPU, up
 * to 256 terms, and slice by slice of a longer list; sums of exponentials and products go lane by lane. Rows of U are of bf16 where
 * an enum sl_dtype says so (codelets/aggregate.h), as are those sent back. ---- */

struct sl_attend_device_rows {
    struct sl_heads heads;
    uint32_t n_rows;
    const uint32_t *offsets, *sources;
    const struct sl_device_sources *x; /* the host's */
    const void *self;                  /* of x->of, too */
};

SL_EXTERN_C enum sl_status sl_attend_forward_cuda(cudaStream_t stream, const struct sl_attend_device_rows *rows,
                                                  int beta, sl_real *z_out, sl_real *lse_out);

SL_EXTERN_C enum sl_status sl_attend_sides_cuda(cudaStream_t stream, const struct sl_attend_device_rows *rows,
                                                const sl_real *gz, const sl_real *lse, sl_real *sides_out);

struct sl_attend_device_back {
    struct sl_heads heads;
    const uint32_t *offsets, *rows;
    struct sl_device_rows gz, sides;
};

/* For all of n_owners at once: items t0[k] .. t0[k] + n[k] - 1, whose rows are u[k], into gu_out[k]. */
SL_EXTERN_C enum sl_status sl_attend_backward_cuda(cudaStream_t stream, const struct sl_attend_device_back *block,
                                                   uint32_t n_owners, const uint32_t *n, const uint32_t *t0,
                                                   enum sl_dtype dtype, const sl_real *const *u,
                                                   sl_real *const *gu_out);

/* These overwrite their rows, which were cleared. of: u's. */
SL_EXTERN_C enum sl_status sl_attend_self_cuda(cudaStream_t stream, const struct sl_attend_device_back *block,
                                               uint32_t row0, uint32_t n_rows, enum sl_dtype dtype, const void *u,
                                               sl_real *gu);

/* A PE's own sources: entry i of `requester` in the inverse of n_parts PEs says which row item t0 + i is. */
struct sl_attend_device_own {
    uint32_t n, t0;
    uint32_t n_parts, requester;
    const uint32_t *inverse;
};

SL_EXTERN_C enum sl_status sl_attend_own_cuda(cudaStream_t stream, const struct sl_attend_device_back *block,
                                              const struct sl_attend_device_own *own, uint32_t row0, uint32_t n_rows,
                                              enum sl_dtype dtype, const void *u, sl_real *gu);

/* Evaluation: destinations row0 .. row0 + n_rows - 1 of part `part`; the rest as for sl_aggregate_full_cuda. */
struct sl_attend_device_full {
    struct sl_heads heads;
    uint32_t n_rows, row0;
    const uint64_t *offsets;
    const sl_vertex *sources;
    uint32_t n_parts;
    const uint32_t *first;
    const struct sl_device_part *parts;
    enum sl_dtype dtype; /* all rows of U */
    const void *self;
};

SL_EXTERN_C enum sl_status sl_attend_full_cuda(cudaStream_t stream, const struct sl_attend_device_full *rows, int beta,
                                               sl_real *z_out);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL: widths that do not fit each other, H no multiple of K, K above
 * SL_MAX_HEADS, too many chunks or owners, destinations in several chunks of U. SL_ESTARPU, SL_ENOMEM. ---- */

/* Destinations row0 .. row0 + D - 1 into chunks z [D x H] and lse [D x K]; sources->rows: of U, as all packed ones of one
 * precision; n_edges: roughly how many, for the model. */
enum sl_status sl_attend_forward_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                        uint64_t n_edges, const struct sl_source_handles *sources, int beta,
                                        starpu_data_handle_t z, starpu_data_handle_t lse);

/* The same destinations' chunk of sides [D x 4K], from theirs of GZ [D x H] and lse. */
enum sl_status sl_attend_sides_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                      uint64_t n_edges, const struct sl_source_handles *sources,
                                      starpu_data_handle_t gz, starpu_data_handle_t lse, starpu_data_handle_t sides);

/* What a source has to know of the destinations: all chunks of both, of the same rows; may have none. */
struct sl_attend_gradients {
    const struct sl_rows *gz;    /* [D x H] */
    const struct sl_rows *sides; /* [D x 4K] */
};

/* What goes back to other owners, one task for all of them: for each, items t0 .. of the transposed block into gu, n rows of width
 * H + 2K; u: what that owner packed, of the same precision. n_edges: roughly how many there are to all of them, for the model. */
enum sl_status sl_attend_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                         const struct sl_attend_gradients *gradients, uint64_t n_edges,
                                         uint32_t n_owners, const uint32_t *t0, const struct sl_slice *u,
                                         const struct sl_slice *gu);

/* What an owner adds up: its own block's share and what the other PEs of the group sent. */
struct sl_attend_shares {
    const struct sl_block *block; /* own; its inverse: the rows that each PE asked for */
    struct sl_attend_gradients gradients;
    uint32_t t0, n_own;          /* own sources: positions t0 .. t0 + n_own - 1 */
    uint32_t n_peers;            /* G */
    uint32_t own;                /* index of this PE among them */
    const struct sl_slice *sent; /* G: their gradients; none where own or empty */
};

/* Clear chunk gu, add the own terms of the destinations among its rows (row0 .. of the frontier), then all shares: PE 0's first,
 * then PE 1's, .. u: the chunk of U of the same rows. */
enum sl_status sl_attend_accumulate_submit(const struct sl_task_args *head, const struct sl_attend_shares *shares,
                                           uint32_t row0, starpu_data_handle_t u, starpu_data_handle_t gu);

/* A part of the graph, whose vertices are destinations with all their edges. */
struct sl_attend_part {
    starpu_data_handle_t offsets; /* uint64 */
    starpu_data_handle_t sources; /* ids */
    starpu_data_handle_t first;   /* of all n_parts parts, and the end */
    uint32_t n_parts, part;
};

/* Evaluation over whole parts: destinations row0 .. of the part; part q of the graph is rows[q] of U, all chunks. */
enum sl_status sl_attend_full_submit(const struct sl_task_args *head, const struct sl_attend_part *part, uint32_t row0,
                                     uint64_t n_edges, uint32_t n_heads, const struct sl_rows *rows, int beta,
                                     starpu_data_handle_t z);

#endif
