/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Relate: means over in-neighbours, one for each relation, and their adjoint. Schlichtkrull et al. 2018, "Modeling
 * Relational Data with Graph Convolutional Networks", equation 2. Its c is the number of in-neighbours.
 *   before: codelets/sampling/exchange.h packs rows of other PEs
 *   after:  codelets/rows/dense.h, or codelets/rows/activate.h if the layer projects first
 *
 * Each edge has a relation, a number from 0. The edges of a destination are ordered by relation, so a relation's edges
 * are a run. n(d, r) is the length of d's run of relation r.
 *
 * Either the rows or the sums are R slabs of F columns side by side, one slab for each of R relations. The other side
 * is F wide. With R = 1 both are F wide, and the kernels are those of the mean, to the bit (codelets/sums/aggregate.h).
 *
 *   sums of slabs   M[d, r]  (+)= 1/n(d, r) * sum over edges e of d with relation r of X[source(e)].
 *     backward      GX[t]      = sum over edges e with source t of GM[dest(e), r(e)] / n(dest(e), r(e)).
 *   rows of slabs   M[d]     (+)= sum over edges e of d of X[source(e), r(e)] / n(d, r(e)).
 *     backward      GX[t, r]   = sum over edges e with source t and relation r of GM[dest(e)] / n(dest(e), r).
 *
 * A relation without edges at d gives a slab of zeros.
 *
 * Edges may have weights w_e of the dataset (data/graph.h). Every term of an edge is then multiplied by w_e. The
 * divisor stays n(d, r), as in the weighted mean of codelets/sums/aggregate.h.
 *
 * With components C [R x B] the slabs are those of B bases instead (the same paper, equation 3), and F is the width of
 * a base. The number of relations then costs no columns.
 *
 *   sums of slabs   M[d, b]  (+)= sum over relations r of C[r, b] * mean of X[source(e)] over d's edges of r.
 *   rows of slabs   M[d]     (+)= sum over r and b of C[r, b] * mean of X[source(e), b] over d's edges of r.
 *   backward        the transpose, and GC[r, b] = sum over d of <the mean over d's edges of r, GM[d, b] or GM[d]>.
 *
 * codelets/sums/sources.h says what a position is, and where its row is. Backward has two submissions, as in
 * codelets/sums/aggregate.h. `backward` fills the buffers that go back to the owners. `accumulate` adds the buffers at
 * the owner in PE order. No sum uses atomics. Sums run along the edges in order, in sl_real, also if X or the result is
 * bf16. A bf16 result is rounded once. GC: products of a run in sl_real, their sums in double, in order.
 */
#ifndef SL_CODELETS_RELATE_H
#define SL_CODELETS_RELATE_H

#include "codelets/sampling/sample.h"
#include "codelets/sums/aggregate.h"

/* Slabs of n columns. Slab k begins at column k * x_step of a row and at column k * m_step of a sum. */
struct sl_slabs {
    uint32_t n;
    uint32_t x_width, m_width; /* of a row, of a sum */
    uint32_t x_step, m_step;   /* n, or 0 if that side has one slab */
    uint32_t n_bases;          /* B, if there are components */
    const sl_real *c;          /* C [R x B]. NULL: slabs are those of relations */
};

/* The slabs of rows and sums of these widths: one is a multiple of the other. */
static inline SL_HOST_DEVICE struct sl_slabs sl_slabs_of(uint32_t x_width, uint32_t m_width)
{
    struct sl_slabs slabs = {x_width < m_width ? x_width : m_width, x_width, m_width, 0, 0, 0, NULL};
    slabs.x_step = x_width > m_width ? slabs.n : 0;
    slabs.m_step = m_width > x_width ? slabs.n : 0;
    return slabs;
}

/* n(d, r) of a destination with the entries begin .. end - 1. One loop searches for both
 * ends of the run, so that a device waits for both reads at once. */
static inline SL_HOST_DEVICE uint64_t sl_relation_count(const uint16_t *relations, uint64_t begin, uint64_t end,
                                                        uint32_t relation)
{
    uint64_t first = begin;
    uint64_t stop = begin;
    for (uint64_t n = end - begin; n > 0; n /= 2) { /* first and stop are at most n entries on */
        const uint64_t half = n - n / 2;
        if (relations[first + half - 1] < relation) {
            first += half;
        }
        if (relations[stop + half - 1] <= relation) {
            stop += half;
        }
    }
    return stop - first;
}

/* ---- kernels. Arrays are in the memory of the processor that runs the kernel. ---- */

/* For both devices. On a CPU: SL_ENOMEM. On a device, the call starts kernels on the stream; SL_ECUDA. There, terms are
 * added in the order of the list (codelets/sums/lists.cuh), each with its component's weight. Rows and results are
 * sl_real, unless an enum sl_dtype says bf16. */

/* Sums m_out [n_rows x m_width]. beta 0: overwrite, beta 1: add. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_relate_forward, const struct sl_edges *edges, const struct sl_slabs *slabs,
                    int beta, enum sl_dtype m_dtype, void *m_out);

/* Gradients of positions t0 .. t0 + n - 1. Overwrites out [n x x_width]. gm: rows of GM, all chunks. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_relate_backward, const struct sl_transposed *block, const struct sl_chunks *gm,
                    const struct sl_slabs *slabs, uint32_t t0, uint32_t n, enum sl_dtype dtype, void *out);

/* Add the gradients of the PE's own sources, positions t0 .. t0 + n - 1, to the rows of g. Rows outside g are
 * skipped. */
SL_DECLARE_LAUNCHER(void, sl_relate_own, const struct sl_transposed *block, const struct sl_chunks *gm,
                    const struct sl_slabs *slabs, uint32_t t0, uint32_t n, const struct sl_asked *asked,
                    const struct sl_gradient *g);

/* GC of these destinations overwrites gc_out [n_relations x B]. gm: their rows of GM. On a device, the sums have
 * another order, a fixed order. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_relate_components, const struct sl_edges *edges, const struct sl_slabs *slabs,
                    const sl_real *gm, uint32_t n_relations, sl_real *gc_out);

/* ---- submissions: local, one thread submits. c: the components, or NULL. Errors of sl_view_submit. ---- */

/* Sums of destinations row0 .. row0 + D - 1 into chunk m [D x m_width]. The block has the relations. It may have
 * weights, which all submissions then read. */
enum sl_status sl_relate_forward_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                        uint64_t n_edges, const struct sl_source_handles *sources,
                                        starpu_data_handle_t c, int beta, starpu_data_handle_t m);

/* Submit one task for n_owners owners, as sl_aggregate_backward_submit. gm: GM [D x m_width], all chunks. packed[k]:
 * rows of width x_width, of sl_real or bf16. */
enum sl_status sl_relate_backward_submit(const struct sl_task_args *head, const struct sl_block *block,
                                         const struct sl_rows *gm, starpu_data_handle_t c, uint64_t n_edges,
                                         uint32_t n_owners, const uint32_t *t0, const struct sl_slice *packed);

/* The terms that an owner adds up. Members as in struct sl_accumulate. */
struct sl_relate_shares {
    const struct sl_block *block;
    struct sl_share_sources from;
    const struct sl_rows *gm;
    starpu_data_handle_t c;
};

/* Clear chunk g [rows x x_width], rows row0 .. of the frontier, then add the terms of all PEs in PE order. */
enum sl_status sl_relate_accumulate_submit(const struct sl_task_args *head, const struct sl_relate_shares *shares,
                                           uint32_t row0, starpu_data_handle_t g);

/* gc [R x B]: GC of destinations row0 .. row0 + D - 1, whose rows of GM are chunk gm [D x m_width]. Sources as in
 * forward. */
enum sl_status sl_relate_components_submit(const struct sl_task_args *head, const struct sl_block *block, uint32_t row0,
                                           uint64_t n_edges, const struct sl_source_handles *sources,
                                           starpu_data_handle_t gm, starpu_data_handle_t gc);

/* Evaluation: destinations row0 .. row0 + D - 1 of the part into chunk m [D x m_width]. All columns of rows and
 * sums are read. */
enum sl_status sl_relate_full_submit(const struct sl_task_args *head, const struct sl_full_sources *sources,
                                     uint32_t row0, starpu_data_handle_t c, int beta, starpu_data_handle_t m);

#endif
