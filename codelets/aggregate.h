/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Aggregate: a weighted sum over the sampled in-neighbours of each destination, and its adjoint.
 *   before: codelets/exchange.h packs rows of other PEs      after: codelets/dense.h, or activate if it projects first
 *
 * Mean (GraphSAGE):
 *   forward     M[d] (+)= 1/deg(d) * sum over edges e of d of X[source(e)]      (a destination without edges: zero)
 *   backward    GX[t]   = sum over edges e with source(e) = t of GM[dest(e)] / deg(dest(e))
 *
 * Symmetric weights (GCN; Kipf, Welling 2017; each vertex has one self loop). s is a scale. Two numbers of each vertex
 * v depend on the graph alone, not on the sample: f_v = 1 / sqrt(in-degree without a self loop + 1), and list_v, the
 * length of its list of in-neighbours.
 *   forward     M[d] (+)= s f_d^2 X_own[d] + sum over edges e of d of w(e) X[source(e)]
 *   backward    GX[t]   = s f_t^2 GM[t] (t a destination) + sum over edges e with source(e) = t of w(e) GM[dest(e)]
 *   w(e)        = s f_d list_d / deg(d) f_u for an edge e from u to d, and 0 if u is d
 * deg(d) counts the edges of d in the block, so that the sum over a uniform sample is unbiased. X_own[d] is the row of
 * d itself. Frontiers nest (tasks/rows.h): row r of the block's destinations is row r of the level below.
 *
 * Edge weights. Edges may have weights w_e of the dataset (data/graph.h). Every term of an edge is then multiplied
 * by w_e. The terms of vertices themselves have weight 1. The divisors stay as they are:
 *   mean        sum of w_e X[source(e)] over deg(d), the number of edges, as DGL's SAGEConv with edge_weight computes
 *               it (u_mul_e, then fn.mean). It is not divided by the sum of weights.
 *   symmetric   f_v = 1 / sqrt(sum of the weights of v's in-edges without a self loop + 1), as PyG's gcn_norm with
 *               edge_weight. A self loop of the dataset counts nothing, weighted or not; PyG keeps its weight.
 * A sample is uniform, so s list_d / deg(d) keeps the sum unbiased.
 *
 * codelets/sources.h says what a position is, and where its row is.
 *
 * Backward has two submissions. `backward` fills the buffers that go back to the owners. `accumulate`, at the owner,
 * adds the buffers of all PEs of the group in PE order. The terms of a row have a fixed order, and no sum uses atomics.
 *
 * Sums run along the edges in order, in sl_real, also if X or the result is bf16. A bf16 result is rounded once, after
 * its last term.
 */
#ifndef SL_CODELETS_AGGREGATE_H
#define SL_CODELETS_AGGREGATE_H

#include "codelets/sources.h"
#ifdef SL_CUDA
#include <cusparse.h>
#endif

/* ---- blocks, for kernels and launchers. Arrays are in the memory of the processor that runs the kernel. ---- */

/* Symmetric weights. */
struct sl_weights {
    const sl_real *factors; /* [N x 2] by renumbered id: f, list */
    /* Ids by row of the frontier. NULL: row r has id first + r. */
    const sl_vertex *destinations;
    /* Ids by position. NULL: positions are ids. */
    const sl_vertex *sources;
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
/* f of a source: the factor of an edge that depends on its source. */
static inline SL_HOST_DEVICE sl_real sl_weights_factor(const struct sl_weights *weights, sl_vertex id)
{
    return weights->factors[2 * (size_t)id];
}
/* s f list / deg of a destination with degree > 0: the factor that all its edges share. */
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

/* Destinations row0 .. row0 + n_rows - 1 of a block. The edges of destination d are sources[offsets[d]] ..
 * sources[offsets[d + 1] - 1]. */
struct sl_edges {
    uint32_t row0, n_rows;
    const uint32_t *offsets;          /* of the whole block */
    const uint32_t *sources;          /* positions */
    const struct sl_weights *weights; /* NULL: the mean */
    const float *edge_weights;        /* of the whole block, as `sources`; NULL: 1 */
};

/* A block by source. The destinations of position t are back_rows[back_offsets[t]] .. back_rows[back_offsets[t + 1] -
 * 1]. */
struct sl_transposed {
    const uint32_t *back_offsets, *back_rows;
    const uint32_t *edge_offsets;
    const struct sl_weights *weights; /* NULL: the mean */
    const float *back_weights;        /* edge weights, as `back_rows`; NULL: 1 */
};

/* Rows row0 .. row0 + n_rows - 1 of the owner's frontier, to which gradients are added. */
struct sl_gradient {
    uint32_t row0, n_rows, n_columns;
    /* [n_rows x n_columns], from row row0 on. */
    sl_real *rows;
    /* CPU: one bit per row, 64 to a word; 1: the row is a sum, 0: its memory is undefined. NULL: every row is a
     * sum. */
    uint64_t *begun;
};

/* The gradient in a task's buffer. */
struct sl_gradient sl_gradient_of(uint32_t row0, void *buffer);

/* ---- kernels, CPU ---- */

/* m_out [n_rows x n_columns]. beta 0: overwrite, beta 1: add. dtype: of the rows of x. */
void sl_aggregate_forward_cpu(enum sl_dtype dtype, const struct sl_edges *edges, uint32_t n_columns,
                              const struct sl_sources *x, int beta, sl_real *m_out);

/* Gradients of positions t0 .. t0 + n - 1 of the transposed block. Overwrites out [n x n_columns]. gm: rows of GM, all
 * chunks. */
void sl_aggregate_backward_cpu(const struct sl_transposed *block, uint32_t t0, uint32_t n, uint32_t n_columns,
                               const struct sl_view *gm, sl_real *out);

/* Clear the rows that have no sum yet. Call it last: the kernels below initialise only the rows that they add to. */
void sl_accumulate_end_cpu(const struct sl_gradient *g);

/* Symmetric weights: add the self term to each row of g that is a destination, that is, a row below n_gm. */
void sl_accumulate_self_cpu(const struct sl_weights *weights, uint32_t n_gm, const struct sl_view *gm,
                            const struct sl_gradient *g);

/* Add sent[i] to row inverse[i] of the frontier, for i = 0 .. n - 1 in order. Skips rows outside g.
 * dtype: of sent. */
void sl_accumulate_sent_cpu(enum sl_dtype dtype, uint32_t n, const uint32_t *inverse, const void *sent,
                            const struct sl_gradient *g);

/* The same for the rows from another PE, inside a task, in the dtype of their buffer. */
void sl_accumulate_slice_cpu(const struct sl_slice_args *sent, void *buffers[], const uint32_t *inverse,
                             const struct sl_gradient *g);

/* The same for the PE's own sources, positions t0 .. t0 + n - 1. Reads the transposed block instead of a buffer. */
void sl_accumulate_own_cpu(const struct sl_transposed *block, uint32_t t0, uint32_t n, const uint32_t *inverse,
                           const struct sl_view *gm, const struct sl_gradient *g);

#ifdef SL_CUDA
/* ---- launchers. Arrays are in the memory of the stream's device. Structs, and arrays of structs or pointers, are the
 * host's; the call reads them before it returns. SL_ECUDA.
 *
 * Sums of up to 256 terms run along the list, as on the CPU. A longer list is cut into slices: each slice is summed,
 * then the sums of the slices are added in order. The number of slices depends on the width alone. Rows are sl_real
 * unless an enum sl_dtype says bf16; then a pointer to sl_real points to bf16 rows. ---- */

/* m_dtype is bf16 only if the sources are bf16. */
SL_EXTERN_C enum sl_status sl_aggregate_forward_cuda(cudaStream_t stream, const struct sl_edges *edges,
                                                     uint32_t n_columns, const struct sl_device_sources *x, int beta,
                                                     enum sl_dtype m_dtype, void *m_out);

/* The mean by cuSPARSE's SpMM, from a copy of all source rows (sl_real). Waits once for the stream, to read the number
 * of edges. Needs fewer than 2^31 edges and sources. The same input gives the same bits, but not the bits of
 * sl_aggregate_forward_cuda. */
SL_EXTERN_C enum sl_status sl_aggregate_forward_cusparse(cudaStream_t stream, cusparseHandle_t handle,
                                                         const struct sl_edges *edges, uint32_t n_columns,
                                                         const struct sl_device_sources *x, int beta, sl_real *m_out);

/* For n_owners owners in one launch: gradients of positions t0[k] .. t0[k] + n[k] - 1 into packed_out[k], all of
 * `dtype`. */
SL_EXTERN_C enum sl_status sl_aggregate_backward_cuda(cudaStream_t stream, const struct sl_transposed *block,
                                                      const struct sl_device_rows *gm, uint32_t n_columns,
                                                      uint32_t n_owners, const uint32_t *t0, const uint32_t *n,
                                                      enum sl_dtype dtype, sl_real *const *packed_out);

/* The rows of the frontier that the items of a PE go to: the entries of `requester` in the owner's inverse, a list of
 * n_parts PEs. */
struct sl_asked {
    const uint32_t *inverse;
    uint32_t n_parts, requester;
};

/* Steps of accumulate: clear g; with symmetric weights overwrite the destinations by their self terms; add the terms of
 * each PE in turn. beta 0 overwrites the rows that get a sum, and saves a read if they are known to be zero. */
SL_EXTERN_C enum sl_status sl_accumulate_clear_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                                    sl_real *g_out);
SL_EXTERN_C enum sl_status sl_accumulate_self_cuda(cudaStream_t stream, const struct sl_weights *weights, uint32_t n_gm,
                                                   const struct sl_device_rows *gm, const struct sl_gradient *g);
SL_EXTERN_C enum sl_status sl_accumulate_sent_cuda(cudaStream_t stream, uint32_t n, const struct sl_asked *asked,
                                                   enum sl_dtype dtype, const void *sent, int beta,
                                                   const struct sl_gradient *g);
/* Add the rows from another PE, inside a task. */
enum sl_status sl_accumulate_slice_cuda(cudaStream_t stream, const struct sl_slice_args *sent, void *buffers[],
                                        const struct sl_asked *asked, int beta, const struct sl_gradient *g);
SL_EXTERN_C enum sl_status sl_accumulate_own_cuda(cudaStream_t stream, const struct sl_transposed *block, uint32_t t0,
                                                  uint32_t n, const struct sl_asked *asked,
                                                  const struct sl_device_rows *gm, int beta,
                                                  const struct sl_gradient *g);

/* Evaluation: destinations row0 .. row0 + n_rows - 1 of a part. */
struct sl_full_edges {
    uint32_t row0, n_rows;
    /* Offsets of the whole part; `sources` begins at offsets[0]. */
    const uint64_t *offsets;
    const sl_vertex *sources;
    uint32_t n_parts;
    const uint32_t *first;            /* n_parts + 1 ids */
    const struct sl_weights *weights; /* NULL: the mean */
    const float *edge_weights;        /* as `sources`; NULL: 1 */
    const uint16_t *relations;        /* the same; of sums by relation */
};

/* n_columns columns of rows that are m_width wide; m_out is the first of the columns. dtype: the parts' rows; m_dtype:
 * the sums, bf16 only if the rows are. At most SL_MAX_FULL_CHUNKS chunks. */
SL_EXTERN_C enum sl_status sl_aggregate_full_cuda(cudaStream_t stream, const struct sl_full_edges *edges,
                                                  uint32_t n_columns, enum sl_dtype dtype,
                                                  const struct sl_device_part *parts, int beta, uint32_t m_width,
                                                  enum sl_dtype m_dtype, void *m_out);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL: shapes or dtypes that do not fit, too many owners, parts or
 * chunks. SL_ESTARPU, SL_ENOMEM. ---- */

/* The factors of vertices, for symmetric weights, as handles. They live until StarPU has run the task. */
struct sl_vertex_factors {
    /* sl_real [N x 2] by renumbered id, read only: f, list. */
    starpu_data_handle_t factors;
    /* Ids of the destinations by row. NULL in evaluation. */
    starpu_data_handle_t frontier;
    /* Ids of the sources by position, a list by owner (codelets/sample.h). NULL in evaluation. */
    starpu_data_handle_t request;
    double scale; /* s */
};

/* Sums of destinations row0 .. row0 + D - 1 into chunk m [D x F]. n_edges: a rough count, for the performance model.
 * All sources have the same dtype. m is bf16 only if the sources are. */
enum sl_status sl_aggregate_forward_submit(const struct sl_task_args *head, starpu_data_handle_t edge_offsets,
                                           starpu_data_handle_t edge_sources, uint32_t row0, uint64_t n_edges,
                                           const struct sl_source_handles *sources, int beta, starpu_data_handle_t m);

/* The input of backward: the block by source, and the gradients of its destinations. */
struct sl_returned {
    starpu_data_handle_t edge_offsets, back_offsets, back_rows;
    const struct sl_rows *gm;                /* GM, all chunks */
    uint64_t n_edges;                        /* to all the owners, a rough count for the performance model */
    uint32_t n_parts;                        /* G, of the request; only with weights */
    const struct sl_vertex_factors *weights; /* NULL: the mean */
    starpu_data_handle_t back_weights;       /* float, as back_rows; NULL: 1 */
};

/* Submit one task for n_owners owners. For owner k, the task writes the gradients of n consecutive positions, from
 * t0[k] on, into the n rows of packed[k]. A row has F columns of sl_real or bf16. */
enum sl_status sl_aggregate_backward_submit(const struct sl_task_args *head, const struct sl_returned *returned,
                                            uint32_t n_owners, const uint32_t *t0, const struct sl_slice *packed);

/* The terms that an owner adds up: from its own block, and from the other PEs of the group. */
struct sl_accumulate {
    starpu_data_handle_t edge_offsets, back_offsets, back_rows; /* own block */
    struct sl_share_sources from;
    const struct sl_rows *gm;                /* own GM, all chunks; may have no rows */
    starpu_data_handle_t inverse;            /* own: the rows that each PE requested */
    const struct sl_vertex_factors *weights; /* NULL: the mean */
    starpu_data_handle_t back_weights;       /* float, as back_rows; NULL: 1 */
};

/* Clear chunk g, rows row0 .. of the frontier. With weights, add the self terms of the destinations. Then add the
 * terms of all PEs in PE order. */
enum sl_status sl_accumulate_submit(const struct sl_task_args *head, const struct sl_accumulate *shares, uint32_t row0,
                                    starpu_data_handle_t g);

/* The columns to sum: columns first .. first + n - 1 of the sums, columns start[q] .. start[q] + n - 1 of part q's
 * rows. */
struct sl_full_columns {
    uint32_t first, n;
    const uint32_t *start; /* n_parts */
};

/* The input of evaluation over whole parts. */
struct sl_full_sources {
    starpu_data_handle_t offsets, sources; /* of the part: 64-bit offsets, ids */
    starpu_data_handle_t first;            /* n_parts + 1 ids */
    uint32_t n_parts;
    const struct sl_rows *rows;              /* n_parts: rows of each part, all chunks */
    uint64_t n_edges;                        /* of the destinations, a rough count for the performance model */
    sl_vertex first_id;                      /* of the part; only with weights */
    const struct sl_vertex_factors *weights; /* NULL: the mean */
    starpu_data_handle_t edge_weights;       /* of the part: float, as `sources`; NULL: 1 */
    starpu_data_handle_t edge_relations;     /* the same: uint16, of sums by relation */
    struct sl_full_columns columns;
};

/* Sums of destinations row0 .. row0 + D - 1 of the part into chunk m [D x F], or into some of its columns. If a chunk
 * takes several tasks with beta 0, the task of column 0 comes first: it discards the old contents of the chunk. dtypes
 * as for sl_aggregate_forward_submit. */
enum sl_status sl_aggregate_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                        uint32_t row0, int beta, starpu_data_handle_t m);

#endif
