/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums over in-neighbours. A kind of sum is a table in a file of its own (runtime/model/sums). A kind of layer names
 * its sum (runtime/model/layer.h); the block sources (runtime/model/pass.h) find the rows of a sum and call the table.
 */
#ifndef SL_RUNTIME_MODEL_SUMS_H
#define SL_RUNTIME_MODEL_SUMS_H

#include "codelets/sampling/sample.h"
#include "codelets/sums/aggregate.h"
#include "codelets/sums/pull.h"

struct sl_layer_pass; /* runtime/model/pass.h */

/* The input of a sum over PE p's block, for the rows of chunk c of the output level. */
struct sl_sum_chunk {
    uint32_t p, c;
    const struct sl_block *block;
    /* Estimated number of edges into the chunk. */
    uint64_t n_edges;
    struct sl_source_handles sources;
};

/* The input of the gradients that PE p returns to the owners of its source rows. */
struct sl_sum_back {
    uint32_t p;
    const struct sl_block *block;
    /* Estimated number of edges to the owners. */
    uint64_t n_edges;
    const struct sl_vertex_factors *weights; /* NULL: the sum reads no vertex factors */
    /* By owner: the first position, the rows that the owner packed, and the gradients that go back. */
    uint32_t n_owners;
    const uint32_t *t0;
    const struct sl_slice *packed, *sent;
};

/* The input of the gradients that owner p adds up. */
struct sl_sum_shares {
    uint32_t p;
    const struct sl_block *block;
    struct sl_share_sources from;
    const struct sl_vertex_factors *weights; /* as above */
};

/* Submissions are local, from one thread, in order. They return SL_EINVAL, SL_ESTARPU or SL_ENOMEM on failure. */
struct sl_sum_kind {
    const char *name;
    /* f of a vertex (codelets/sums/aggregate.h). in_degree: in-neighbours without the vertex itself, or the sum of the
     * weights of their edges. NULL: the sum over a minibatch or over whole parts reads no vertex factors. */
    double (*factor)(double in_degree);
    /* The weights along in-edges and out-edges of graph chunks (runtime/pipe). */
    enum sl_pull_weights pull, pull_back;
    /* The sum can read the part's feature table in place of gathered rows. */
    bool in_place;
    /* The backward pass reads the travelled rows again. */
    bool rereads;
    /* A column of the result depends on other columns of the rows. */
    bool whole_rows;
    /* The sum reads the relations of edges: it needs a typed graph (data/graph.h). */
    bool by_relation;
    /* forward and full fill SL_ROWS_EDGES, too, if the layer has these rows. */
    bool sums_edges;

    /* Sum over a minibatch's block: out = sum if beta is 0, out += sum if beta is 1. */
    enum sl_status (*forward)(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk, int beta,
                              starpu_data_handle_t out);
    /* The adjoint. sides: numbers of each destination of PE p that the gradients need; NULL if there are none.
     * sources: PE p's source rows; block and estimated edges of each chunk as in forward. */
    enum sl_status (*sides)(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk);
    /* The gradients of the parameters that the sum reads, from the sum's gradient; NULL if it reads none. Members of
     * chunk as in `sides`. */
    enum sl_status (*gradient)(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk);
    enum sl_status (*backward)(const struct sl_layer_pass *lp, const struct sl_sum_back *back);
    /* Add up chunk c of the input level, which begins with row `row`. */
    enum sl_status (*accumulate)(const struct sl_layer_pass *lp, const struct sl_sum_shares *shares, uint32_t c,
                                 uint32_t row, starpu_data_handle_t out);

    /* Sum over all in-edges of part q: destinations from `row` on. */
    enum sl_status (*full)(const struct sl_layer_pass *lp, uint32_t q, uint32_t row,
                           const struct sl_full_sources *edges, int beta, starpu_data_handle_t out);
};

extern const struct sl_sum_kind sl_sum_mean;      /* the mean */
extern const struct sl_sum_kind sl_sum_symmetric; /* the graph convolution's weights, with the vertex itself */
extern const struct sl_sum_kind sl_sum_plain;     /* the sum, with the vertex itself */
extern const struct sl_sum_kind sl_sum_attention; /* codelets/sums/attend.h */
extern const struct sl_sum_kind sl_sum_dynamic;   /* codelets/sums/dynamic.h; beta is 0 */
extern const struct sl_sum_kind sl_sum_relation;  /* a mean for each relation, codelets/sums/relate.h */
extern const struct sl_sum_kind sl_sum_bases;     /* sums of these means, one for each base */
extern const struct sl_sum_kind sl_sum_attention_by_relation;

#endif
