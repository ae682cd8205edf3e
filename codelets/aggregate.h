/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 7, aggregate: a weighted sum of each destination's sampled in-neighbours, and its adjoint.
 *   before: codelets/exchange.h packs what other PEs own      after: codelets/dense.h, or activate where a layer projects first
 *
 * The mean (GraphSAGE):
 *   forward     M[d] (+)= 1/deg(d) * sum over edges e of d of X[source(e)]      (a destination without edges: zero)
 *   backward    GX[t]   = sum over edges e with source(e) = t of GM[dest(e)] / deg(dest(e))
 *
 * Symmetric weights (GCN; Kipf, Welling 2017, of a graph where each vertex has one self loop), of a scale s and two numbers of each
 * vertex v, which no sample changes: f_v = 1 / sqrt(in-degree without a self loop + 1) and list_v, the length of its list of
 * in-neighbours:
 *   forward     M[d] (+)= s f_d^2 X_own[d] + sum over edges e of d of w(e) X[source(e)]
 *   backward    GX[t]   = s f_t^2 GM[t] (t a destination) + sum over edges e with source(e) = t of w(e) GM[dest(e)]
 *   w(e)        = s f_d list_d / deg(d) f_u where e goes from u to d, and 0 where u is d
 * deg(d) counts the block's edges of d, so that the sum over a uniform sample of the list is right on average. X_own[d] is the own
 * row of d: frontiers nest (codelets/rows.h), row r of the block's destinations is row r of the level below.
 *
 * Sources are addressed by position among the block's T distinct sources, owner by owner (codelets/sample.h): the PE's own are
 * rows of its next frontier, or of its part's table, found through the inverse that merge wrote; another owner's are the rows of the
 * buffer it packed.
 * Backward has two submissions: `backward` fills the buffer that goes back to an owner, `accumulate` adds at the owner what all
 * PEs of the group send, in PE order, each row's terms in a fixed order, without atomics.
 * Sums run along the edges in order, in sl_real; so they do where X, or what a sum is written to, is of bf16 (rounded once,
 * when all its terms are added).
 */
#ifndef SL_CODELETS_AGGREGATE_H
#define SL_CODELETS_AGGREGATE_H

#include "codelets/rows.h"
#include "codelets/task.h"
#ifdef SL_CUDA
#include <cusparse.h>
#endif

/* Most chunks that all parts together may have in evaluation. */
#define SL_MAX_FULL_CHUNKS 1024

/* ---- blocks, for kernels and launchers: whose memory the arrays are in is whose processor runs ---- */

/* Symmetric weights. */
struct sl_weights {
    const sl_real *factors;        /* [N x 2] by renumbered id: f, list */
    const sl_vertex *destinations; /* ids by row of the frontier; NULL: row r has id first + r */
    const sl_vertex *sources;      /* ids by position; NULL: positions are ids */
    sl_vertex first;
    sl_real scale;
};

static inline SL_HOST_DEVICE sl_vertex sl_weights_destination(const struct sl_weights *weights, uint32_t row)
{
    return weights->destinations != NULL ? weights->destinations[row] : weights->first + row;
}
static inline SL_HOST_DEVICE sl_vertex sl_weights_source(const struct sl_weights *weights, uint32_t position)
{
    return weights->sources != NULL ? weights->sources[position] : position;
}
/* f of a source: what its edge has besides the share of the destination. */
static inline SL_HOST_DEVICE sl_real sl_weights_factor(const struct sl_weights *weights, sl_vertex id)
{
    return weights->factors[2 * (size_t)id];
}
/* s f list / deg of a destination of degree > 0: what its edges have in common. */
static inline SL_HOST_DEVICE sl_real sl_weights_share(const struct sl_weights *weights, sl_vertex id, uint64_t degree)
{
    const sl_real *number = weights->factors + 2 * (size_t)id;
    return weights->scale * number[0] * (number[1] / (sl_real)degree);
}
/* s f^2. */
static inline SL_HOST_DEVICE sl_real sl_weights_self(const struct sl_weights *weights, sl_vertex id)
{
    sl_real f = weights->factors[2 * (size_t)id];
    return weights->scale * f * f;
}

/* A block's destinations row0 .. row0 + n_rows - 1: the edges of destination d are sources[offsets[d]] ..
 * sources[offsets[d + 1] - 1]. */
struct sl_edges {
    uint32_t row0, n_rows;
    const uint32_t *offsets;          /* of the whole block */
    const uint32_t *sources;          /* positions */
    const struct sl_weights *weights; /* NULL: the mean */
};

/* A block by source: the destinations of position t are back_rows[back_offsets[t]] .. back_rows[back_offsets[t + 1] - 1]. */
struct sl_transposed {
    const uint32_t *back_offsets, *back_rows;
    const uint32_t *edge_offsets;
    const struct sl_weights *weights; /* NULL: the mean */
};

/* Rows row0 .. row0 + n_rows - 1 of the owner's frontier, whose gradients are summed. */
struct sl_gradient {
    uint32_t row0, n_rows, n_columns;
    sl_real *rows;   /* [n_rows x n_columns], the first is row row0 */
    uint64_t *begun; /* CPU: a bit a row, of 64 a word: it holds a sum, and not yet anything; NULL: all rows do */
};

/* ---- kernels, CPU ---- */

/* The sources of a block by position: positions first[q] .. first[q + 1] - 1 are the items of view[q], in order. */
struct sl_sources {
    uint32_t n_owners;
    const uint32_t *first; /* n_owners + 1 */
    const struct sl_view *view;
    const struct sl_view
        *own; /* own rows, by row, which symmetric sums add to; NULL: they are the sources at the destinations' ids */
};

/* beta 0: overwrite; beta 1: add. m_out [n_rows x n_columns]. */
void sl_aggregate_forward_cpu(const struct sl_edges *edges, uint32_t n_columns, const struct sl_sources *x, int beta,
                              sl_real *m_out);

/* The same where all rows of x are of bf16. */
void sl_aggregate_forward_bf16_cpu(const struct sl_edges *edges, uint32_t n_columns, const struct sl_sources *x,
                                   int beta, sl_real *m_out);

/* Items t0 .. t0 + n - 1 of the transposed block, into out [n x n_columns], overwritten. gm: rows of GM, all chunks. */
void sl_aggregate_backward_cpu(const struct sl_transposed *block, uint32_t t0, uint32_t n, uint32_t n_columns,
                               const struct sl_view *gm, sl_real *out);

/* Rows that have not begun become zeros. What follows begins those that it adds to. */
void sl_accumulate_end_cpu(const struct sl_gradient *g);

/* Symmetric weights: to each row of g that is a destination, those below n_gm, add its own term. */
void sl_accumulate_self_cpu(const struct sl_weights *weights, uint32_t n_gm, const struct sl_view *gm,
                            const struct sl_gradient *g);

/* To the row inverse[i] of g, if that is one of its rows, add sent[i], for each of n items in order. */
void sl_accumulate_sent_cpu(uint32_t n, const uint32_t *inverse, const sl_real *sent, const struct sl_gradient *g);

void sl_accumulate_sent_bf16_cpu(uint32_t n, const uint32_t *inverse, const sl_bf16 *sent, const struct sl_gradient *g);

/* The same for the PE's own sources t0 .. t0 + n - 1, straight from the transposed block. */
void sl_accumulate_own_cpu(const struct sl_transposed *block, uint32_t t0, uint32_t n, const uint32_t *inverse,
                           const struct sl_view *gm, const struct sl_gradient *g);

#ifdef SL_CUDA
/* ---- launchers: arrays are in the memory of the stream's device, structs and arrays of them are the host's and read before the
 * call returns. SL_ECUDA. Sums run along the list, as on the CPU, up to 256 terms; a longer list is added in slices, whose number
 * depends on the width alone, and then slice by slice. Rows are of sl_real unless an enum sl_dtype says bf16; then so are those
 * that a pointer to sl_real is to. ---- */

/* Rows in chunks, for a kernel's parameters. */
struct sl_device_rows {
    uint32_t n_chunks;
    uint32_t shift; /* row r is row (r & mask) of chunk r >> shift */
    const sl_real *chunk[SL_MAX_CHUNKS];
};

/* The sources of a block by position: first[q] .. first[q + 1] - 1 are the rows of packed[q], in order, but for q = own, where
 * position first[own] + i is the row of `rows` that entry i of requester own in the own inverse says. */
struct sl_device_sources {
    uint32_t n_owners, own;
    const uint32_t *inverse; /* a list by PE (codelets/sample.h) */
    struct sl_device_rows rows;
    const sl_real *packed[SL_MAX_PES]; /* NULL where own or empty */
    uint32_t first[SL_MAX_PES + 1];
    enum sl_dtype dtype; /* all rows */
};

/* m_of: bf16 only where the sources are of bf16. */
SL_EXTERN_C enum sl_status sl_aggregate_forward_cuda(cudaStream_t stream, const struct sl_edges *edges,
                                                     uint32_t n_columns, const struct sl_device_sources *x, int beta,
                                                     enum sl_dtype m_dtype, void *m_out);

/* The mean by cuSPARSE's SpMM, of a copy of all source rows, which are of sl_real. Waits for the stream once, to read the number of edges. Fewer than
 * 2^31 edges and sources. The same input gives the same bits, but not the kernel's above. */
SL_EXTERN_C enum sl_status sl_aggregate_forward_cusparse(cudaStream_t stream, cusparseHandle_t handle,
                                                         const struct sl_edges *edges, uint32_t n_columns,
                                                         const struct sl_device_sources *x, int beta, sl_real *m_out);

/* For all of n_owners at once: items t0[k] .. t0[k] + n[k] - 1 into packed_out[k], all of such numbers. */
SL_EXTERN_C enum sl_status sl_aggregate_backward_cuda(cudaStream_t stream, const struct sl_transposed *block,
                                                      const struct sl_device_rows *gm, uint32_t n_columns,
                                                      uint32_t n_owners, const uint32_t *t0, const uint32_t *n,
                                                      enum sl_dtype dtype, sl_real *const *packed_out);

/* Where the items of a PE go: entry i of `requester` in the owner's inverse, a list of n_parts PEs' entries. */
struct sl_asked {
    const uint32_t *inverse;
    uint32_t n_parts, requester;
};

/* Accumulate: clear g, with symmetric weights overwrite what is a destination by its own term, then each PE's share in turn. beta 0: a
 * row that gets something is overwritten, which saves reading it where it is known to be zero. */
SL_EXTERN_C enum sl_status sl_accumulate_clear_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                                    sl_real *g_out);
SL_EXTERN_C enum sl_status sl_accumulate_self_cuda(cudaStream_t stream, const struct sl_weights *weights, uint32_t n_gm,
                                                   const struct sl_device_rows *gm, const struct sl_gradient *g);
SL_EXTERN_C enum sl_status sl_accumulate_sent_cuda(cudaStream_t stream, uint32_t n, const struct sl_asked *asked,
                                                   enum sl_dtype dtype, const void *sent, int beta,
                                                   const struct sl_gradient *g);
SL_EXTERN_C enum sl_status sl_accumulate_own_cuda(cudaStream_t stream, const struct sl_transposed *block, uint32_t t0,
                                                  uint32_t n, const struct sl_asked *asked,
                                                  const struct sl_device_rows *gm, int beta,
                                                  const struct sl_gradient *g);

/* The rows of one part of the graph. */
struct sl_device_part {
    uint32_t n_chunks, shift;
    uint32_t width;              /* of a row */
    const sl_real *const *chunk; /* on the host: where the columns in hand of each chunk begin on the device */
};

/* Evaluation: destinations row0 .. row0 + n_rows - 1 of a part. */
struct sl_full_edges {
    uint32_t row0, n_rows;
    const uint64_t *offsets; /* all of the part's; offsets[0] is where `sources` begins */
    const sl_vertex *sources;
    uint32_t n_parts;
    const uint32_t *first;            /* n_parts + 1 ids */
    const struct sl_weights *weights; /* NULL: the mean */
};

/* n_columns columns of rows of width m_width, from m_out on. of, m_of: the parts' rows, and the sums', as above. At most
 * SL_MAX_FULL_CHUNKS chunks. */
SL_EXTERN_C enum sl_status sl_aggregate_full_cuda(cudaStream_t stream, const struct sl_full_edges *edges,
                                                  uint32_t n_columns, enum sl_dtype dtype,
                                                  const struct sl_device_part *parts, int beta, uint32_t m_width,
                                                  enum sl_dtype m_dtype, void *m_out);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. ---- */

/* Symmetric weights as handles; they must live as a submission's others do. */
struct sl_edge_weights {
    starpu_data_handle_t factors;  /* sl_real [N x 2] by renumbered id, read only: f, list */
    starpu_data_handle_t frontier; /* the destinations' ids by row; NULL in evaluation */
    starpu_data_handle_t
        request;  /* the sources' ids by position, a list by owner (codelets/sample.h); NULL in evaluation */
    double scale; /* s */
};

/* The sources of one PE's block as handles. */
struct sl_source_handles {
    uint32_t n_owners;                     /* G */
    uint32_t own;                          /* which owner this PE is */
    const uint32_t *first;                 /* G + 1 positions */
    const struct sl_rows *rows;            /* own rows of the next level, all chunks, or of the part */
    starpu_data_handle_t inverse;          /* own; entry position - first[own] of requester own is the row */
    const struct sl_slice *packed;         /* G; none where own or empty */
    const struct sl_edge_weights *weights; /* NULL: the mean */
};

/* Of which numbers all rows are that a sum over sources, or over whole parts, adds: sl_real where there are none. SL_EINVAL: some are of
 * bf16 and others not. */
enum sl_status sl_sources_dtype(const char *name, const struct sl_source_handles *x, enum sl_dtype *dtype);
enum sl_status sl_parts_dtype(const char *name, uint32_t n_parts, const struct sl_rows *rows, enum sl_dtype *dtype);

/* Destinations row0 .. row0 + D - 1 into chunk m [D x F]; n_edges: roughly how many, for the model. The sources' rows are
 * all of one precision; those of m are of bf16 only where the sources' are. */
enum sl_status sl_aggregate_forward_submit(const struct sl_task_args *head, starpu_data_handle_t edge_offsets,
                                           starpu_data_handle_t edge_sources, uint32_t row0, uint64_t n_edges,
                                           const struct sl_source_handles *sources, int beta, starpu_data_handle_t m);

/* What goes back to other owners: the block by source, and the gradients of its destinations. */
struct sl_returned {
    starpu_data_handle_t edge_offsets, back_offsets, back_rows;
    const struct sl_rows *gm;              /* all chunks of GM */
    uint64_t n_edges;                      /* roughly how many there are to all these owners, for the model */
    uint32_t n_parts;                      /* G, of the request; with weights only */
    const struct sl_edge_weights *weights; /* NULL: the mean */
};

/* One task for all of n_owners: for each, items t0 .. of the transposed block into packed, n rows of width F, which may be
 * of bf16. */
enum sl_status sl_aggregate_backward_submit(const struct sl_task_args *head, const struct sl_returned *returned,
                                            uint32_t n_owners, const uint32_t *t0, const struct sl_slice *packed);

/* What an owner adds up: its own block's share and what the other PEs of the group sent. */
struct sl_accumulate {
    starpu_data_handle_t edge_offsets, back_offsets, back_rows; /* own block */
    uint32_t t0, n_own;                                         /* own sources: positions t0 .. t0 + n_own - 1 */
    const struct sl_rows *gm;                                   /* own GM, all chunks; may have no rows */
    uint32_t n_peers;                                           /* G */
    uint32_t own;                                               /* index of this PE among them */
    starpu_data_handle_t inverse;                               /* own: the rows that each PE asked for */
    const struct sl_slice *sent;                                /* G: their gradients; none where own or empty */
    const struct sl_edge_weights *weights;                      /* NULL: the mean */
};

/* Clear chunk g (rows row0 .. of the frontier), with weights add the destinations' own terms, and add all shares: PE 0's first,
 * then PE 1's, .. */
enum sl_status sl_accumulate_submit(const struct sl_task_args *head, const struct sl_accumulate *shares, uint32_t row0,
                                    starpu_data_handle_t g);

/* Columns that sums are taken of: columns first .. first + n - 1 of the sums, those from at[q] on of part q's rows. */
struct sl_full_columns {
    uint32_t first, n;
    const uint32_t *start; /* n_parts */
};

/* Evaluation over whole parts: what the sums over a part's lists read. */
struct sl_full_sources {
    starpu_data_handle_t offsets, sources; /* of the part: 64-bit offsets, ids */
    starpu_data_handle_t first;            /* n_parts + 1 ids */
    uint32_t n_parts;
    const struct sl_rows *rows;            /* n_parts: each part's, all chunks */
    uint64_t n_edges;                      /* roughly how many the destinations have, for the model */
    sl_vertex first_id;                    /* of the part; with weights only */
    const struct sl_edge_weights *weights; /* NULL: the mean */
    struct sl_full_columns columns;
};

/* Destinations row0 .. row0 + D - 1 of the part into chunk m [D x F], or into some of its columns: with beta 0 those from column 0 on come
 * first, and begin the chunk anew. Precisions as above. */
enum sl_status sl_aggregate_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                        uint32_t row0, int beta, starpu_data_handle_t m);

#endif
