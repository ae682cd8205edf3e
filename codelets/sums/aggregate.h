/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Aggregate: a weighted sum over the sampled in-neighbours of each destination, and its adjoint.
 *   before: codelets/sampling/exchange.h packs rows of other PEs
 *   after:  codelets/rows/dense.h, or codelets/rows/activate.h if the layer projects first
 *
 * Mean (GraphSAGE).
 *
 *   forward     M[d] (+)= 1/deg(d) * sum over edges e of d of X[source(e)].     A destination without edges: zero.
 *   backward    GX[t]   = sum over edges e with source(e) = t of GM[dest(e)] / deg(dest(e)).
 *
 * Symmetric weights (GCN; Kipf, Welling 2017; each vertex has one self loop). s is a scale. Two numbers of a vertex v
 * depend on the graph alone. f_v = 1 / sqrt(in-degree without a self loop + 1). list_v is the length of v's list of
 * in-neighbours.
 *
 *   forward     M[d] (+)= s f_d^2 X_own[d] + sum over edges e of d of w(e) X[source(e)].
 *   backward    GX[t]   = s f_t^2 GM[t] (t a destination) + sum over edges e with source(e) = t of w(e) GM[dest(e)].
 *   w(e)        = s f_d list_d / deg(d) f_u for an edge e from u to d, and 0 if u is d.
 *
 * deg(d) counts the edges of d in the block, so that the sum over a uniform sample is unbiased. X_own[d] is the row of
 * d itself. Frontiers nest (tasks/rows.h): row r of the block's destinations is row r of the level below.
 *
 * Edge weights. Edges may have weights w_e of the dataset (data/graph.h). Every term of an edge is then multiplied
 * by w_e. The terms of vertices themselves have weight 1. The divisors stay as they are.
 *
 *   mean        sum of w_e X[source(e)], divided by deg(d), the number of edges. DGL's SAGEConv with edge_weight
 *               computes the same (u_mul_e, then fn.mean). It is not divided by the sum of weights.
 *   symmetric   f_v = 1 / sqrt(sum of the weights of v's in-edges without a self loop + 1), as PyG's gcn_norm with
 *               edge_weight. A self loop of the dataset counts nothing, weighted or not. PyG keeps its weight.
 *
 * A sample is uniform, so s list_d / deg(d) keeps the sum unbiased.
 *
 * codelets/sums/sources.h says what a position is, and where its row is.
 *
 * Backward has two submissions. `backward` fills the buffers that go back to the owners. `accumulate`, at the owner,
 * adds the buffers of all PEs of the group in PE order. The terms of a row have a fixed order, and no sum uses atomics.
 *
 * Sums run along the edges in order, in sl_real, also if X or the result is bf16. A bf16 result is rounded once, after
 * its last term.
 */
#ifndef SL_CODELETS_AGGREGATE_H
#define SL_CODELETS_AGGREGATE_H

#include <string.h>

#include "codelets/sums/sources.h"

struct cusparseContext;

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

/* A block by source. The destinations of position t are back_rows[back_offsets[t]] .. back_rows[back_offsets[t + 1] -
 * 1]. */
struct sl_transposed {
    const uint32_t *back_offsets, *back_rows;
    const uint32_t *edge_offsets;
    const struct sl_weights *weights; /* NULL: the mean */
    const float *back_weights;        /* edge weights, as `back_rows`; NULL: 1 */
    const uint16_t *back_relations;   /* the same; of sums by relation */
    const uint16_t *relations;        /* of the edges of each destination */
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

/* Row `row` of g, to add to, on a CPU. Clears the row before its first term: it is then in the cache for the addition.
 */
SL_INLINE sl_real *sl_gradient_row(const struct sl_gradient *g, uint32_t row)
{
    sl_real *out = g->rows + (size_t)row * g->n_columns;
    const uint64_t bit = (uint64_t)1 << row % 64;
    if (g->begun != NULL && (g->begun[row / 64] & bit) == 0) {
        memset(out, 0, g->n_columns * sizeof *out);
        g->begun[row / 64] |= bit;
    }
    return out;
}

/* The rows of the frontier that the items of a PE go to: the entries of `requester` in the owner's inverse, a list of
 * n_parts PEs. */
struct sl_asked {
    const uint32_t *inverse;
    uint32_t n_parts, requester;
};

/* ---- kernels for both devices. On a CPU: SL_ENOMEM. On a device, arrays of numbers are in its memory. Structs,
 * and arrays of structs or pointers, are in host memory; the call reads them before it returns. SL_ECUDA.
 *
 * On a device, sums of up to 256 terms run along the list, as on the CPU. A longer list is cut into slices: each slice
 * is summed, then the sums of the slices are added in order. The number of slices depends on the width alone. Rows are
 * sl_real unless an enum sl_dtype says bf16. ---- */

/* n_columns columns of n_rows sums that are m_width wide; m_out is the first of the columns. beta 0: overwrite, beta 1:
 * add. m_dtype is bf16 only if the sources are. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_aggregate_forward, const struct sl_edges *edges, uint32_t n_columns, int beta,
                    uint32_t m_width, enum sl_dtype m_dtype, void *m_out);

/* For n_owners owners: gradients of positions t0[k] .. t0[k] + n[k] - 1 overwrite packed_out[k], all of `dtype`. gm:
 * rows of GM. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_aggregate_backward, const struct sl_transposed *block,
                    const struct sl_chunks *gm, uint32_t n_columns, uint32_t n_owners, const uint32_t *t0,
                    const uint32_t *n, enum sl_dtype dtype, void *const *packed_out);

/* Steps of accumulate. Begin: on a CPU, allocate g->begun; on a device, clear g. With symmetric weights, then add the
 * self term to each row of g that is a destination: a row below n_gm. Then add the terms of each PE in turn: of the
 * rows that a PE sent, and of the own sources, positions t0 .. t0 + n - 1. Item i goes to entry i of `asked`. Rows
 * outside g are skipped. beta, on a device: 0 overwrites the rows that get a sum. This saves a read if the rows are
 * known to be zero. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_accumulate_begin, struct sl_gradient *g);
SL_DECLARE_LAUNCHER(void, sl_accumulate_self, const struct sl_weights *weights, uint32_t n_gm,
                    const struct sl_chunks *gm, const struct sl_gradient *g);
SL_DECLARE_LAUNCHER(void, sl_accumulate_sent, uint32_t n, const struct sl_asked *asked, enum sl_dtype dtype,
                    const void *sent, int beta, const struct sl_gradient *g);
SL_DECLARE_LAUNCHER(void, sl_accumulate_own, const struct sl_transposed *block, uint32_t t0, uint32_t n,
                    const struct sl_asked *asked, const struct sl_chunks *gm, int beta, const struct sl_gradient *g);

/* The mean by cuSPARSE's SpMM, from a copy of all source rows (sl_real). Waits once for the stream, to read the number
 * of edges. Needs fewer than 2^31 edges and sources. The same input gives the same bits, but not the bits of
 * sl_aggregate_forward_cuda. */
SL_EXTERN_C enum sl_status sl_aggregate_forward_cusparse(cudaStream_t stream, struct cusparseContext *handle,
                                                         const struct sl_edges *edges, uint32_t n_columns, int beta,
                                                         sl_real *m_out);

#ifndef SL_KERNELS_ONLY
/* ---- edges as operands, of all sums ---- */

/* By source, with the gradients at the destinations. backward writes `packed`, accumulate adds up the shares. */
struct sl_back_operands {
    struct sl_matrix edge_offsets, relations, offsets, rows, back_relations, weights;
    struct sl_chunks gm;
    struct sl_matrices packed; /* numbers: the first position of each */
    struct sl_shares shares;
};
struct sl_back_operands sl_back_of(const struct sl_block *block, const struct sl_rows *gm);
struct sl_transposed sl_transposed_in(const struct sl_back_operands *operands);

/* Rows of tables of roles, for members of a view. An operation that needs no relations or weights leaves them out. */
#define SL_BACK_ROLES(view, back, gm_shape)                                                                            \
    {"edge offsets", STARPU_R | SL_OPTIONAL, offsetof(view, back.edge_offsets), "?", SL_INTS_32},                      \
        {"relations", STARPU_R | SL_OPTIONAL, offsetof(view, back.relations), "?", SL_INTS_16},                        \
        {"back offsets", STARPU_R, offsetof(view, back.offsets), "?", SL_INTS_32},                                     \
        {"back rows", STARPU_R, offsetof(view, back.rows), "?", SL_INTS_32},                                           \
        {"back relations", STARPU_R | SL_OPTIONAL, offsetof(view, back.back_relations), "?", SL_INTS_16},              \
        {"edge weights", STARPU_R | SL_OPTIONAL, offsetof(view, back.weights), "?", SL_FLOATS},                        \
    {                                                                                                                  \
        "the sums' gradient", STARPU_R | SL_REPEATED, offsetof(view, back.gm.each), gm_shape                           \
    }
#define SL_PACKED_ROLE(view, back)                                                                                     \
    {                                                                                                                  \
        "packed", STARPU_W | SL_OR_RW | SL_REPEATED, offsetof(view, back.packed), "? x F", SL_ROWS                     \
    }

/* ---- the body of all operations that add up shares ---- */

/* What differs from operation to operation. view: the operation's. */
struct sl_share_adders {
    /* Add the terms of destinations themselves. NULL: there are none. */
    enum sl_status (*self)(const void *view, const void *stream, const struct sl_gradient *g);
    /* Add the terms of the PE's own block. */
    enum sl_status (*own)(const void *view, const void *stream, const struct sl_asked *asked, int beta,
                          const struct sl_gradient *g);
    bool overwrites; /* on a device, the first share may overwrite the cleared rows */
};

/* Clear the gradient, then add the self terms, then the shares of all PEs in PE order. */
enum sl_status sl_accumulate(const void *view, const void *stream, const struct sl_shares *shares,
                             const struct sl_share_adders *add);
#endif

/* ---- submissions: local, one thread submits. Errors of sl_view_submit. ---- */

/* The factors of vertices, for symmetric weights, as handles. They live until StarPU has run the task. */
struct sl_vertex_factors {
    /* sl_real [N x 2] by renumbered id, read only: f, list. */
    starpu_data_handle_t factors;
    /* Ids of the destinations by row. NULL in evaluation. */
    starpu_data_handle_t frontier;
    /* Ids of the sources by position, a list by owner (codelets/sampling/sample.h). NULL in evaluation. */
    starpu_data_handle_t request;
    uint32_t n_parts; /* PEs with entries in the request */
    double scale;     /* s */
};

/* Sums of destinations row0 .. row0 + D - 1 into chunk m [D x F]. The block may have edge weights. n_edges: a rough
 * count, for the performance model. All sources have the same dtype. m is bf16 only if the sources are. */
enum sl_status sl_aggregate_forward_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                           uint64_t n_edges, const struct sl_source_handles *sources, int beta,
                                           starpu_data_handle_t m);

/* Submit one task for n_owners owners. For owner k, the task writes the gradients of n consecutive positions, from
 * t0[k] on, into the n rows of packed[k]. A row has F columns of sl_real or bf16. gm: GM, all chunks. weights: NULL:
 * the mean. n_edges: to all the owners, a rough count. */
enum sl_status sl_aggregate_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                            const struct sl_rows *gm, const struct sl_vertex_factors *weights,
                                            uint64_t n_edges, uint32_t n_owners, const uint32_t *t0,
                                            const struct sl_slice *packed);

/* The terms that an owner adds up: from its own block, and from the other PEs of the group. */
struct sl_accumulate {
    const struct sl_block *block; /* own; its inverse: the rows that each PE requested */
    struct sl_share_sources from;
    const struct sl_rows *gm;                /* own GM, all chunks; may have no rows */
    const struct sl_vertex_factors *weights; /* NULL: the mean */
};

/* Clear chunk g, rows row0 .. of the frontier. With weights, add the self terms of the destinations. Then add the
 * terms of all PEs in PE order. */
enum sl_status sl_accumulate_submit(const struct sl_task_args *head, const struct sl_accumulate *shares, uint32_t row0,
                                    starpu_data_handle_t g);

/* Sums of destinations row0 .. row0 + D - 1 of the part into chunk m [D x F], or into some of its columns. If a chunk
 * takes several tasks with beta 0, the task of column 0 comes first: it discards the old contents of the chunk. dtypes
 * as for sl_aggregate_forward_submit. */
enum sl_status sl_aggregate_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                        uint32_t row0, int beta, starpu_data_handle_t m);

#endif
