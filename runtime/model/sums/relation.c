/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The mean over in-neighbours of each relation, as it is or mixed by the components of bases
 * (codelets/sums/relate.h). */
#include "codelets/sums/relate.h"

#include "runtime/model/sage.h"
#include "runtime/model/sums.h"

/* The components of PE p's replica. NULL: the layer has no bases. */
static starpu_data_handle_t components(const struct sl_layer_pass *lp, uint32_t p)
{
    return lp->layer->n_bases > 0 ? sl_layer_pass_value(lp, p, SL_SAGE_COMPONENTS) : NULL;
}

static enum sl_status forward(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk, int beta,
                              starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, chunk->p);
    uint32_t row = sl_layer_pass_chunk_row(lp, chunk->p, lp->level, chunk->c);
    return sl_relate_forward_submit(&head, chunk->block, row, chunk->n_edges, &chunk->sources, components(lp, chunk->p),
                                    beta, out);
}

static enum sl_status gradient(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk)
{
    struct sl_task_args head = sl_layer_pass_head(lp, chunk->p);
    uint32_t row = sl_layer_pass_chunk_row(lp, chunk->p, lp->level, chunk->c);
    starpu_data_handle_t gc;
    SL_CHECK(sl_layer_pass_partial(lp, chunk->p, SL_SAGE_COMPONENTS, &gc));
    return sl_relate_components_submit(&head, chunk->block, row, chunk->n_edges, &chunk->sources,
                                       sl_layer_pass_returns(lp, chunk->p)->chunk[chunk->c], gc);
}

static enum sl_status backward(const struct sl_layer_pass *lp, const struct sl_sum_back *back)
{
    struct sl_task_args head = sl_layer_pass_head(lp, back->p);
    return sl_relate_backward_submit(&head, back->block, sl_layer_pass_returns(lp, back->p), components(lp, back->p),
                                     back->n_edges, back->n_owners, back->t0, back->sent);
}

static enum sl_status accumulate(const struct sl_layer_pass *lp, const struct sl_sum_shares *shares, uint32_t c,
                                 uint32_t row, starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, shares->p);
    struct sl_relate_shares added = {.block = shares->block,
                                     .from = shares->from,
                                     .gm = sl_layer_pass_returns(lp, shares->p),
                                     .c = components(lp, shares->p)};
    (void)c;
    return sl_relate_accumulate_submit(&head, &added, row, out);
}

static enum sl_status full(const struct sl_layer_pass *lp, uint32_t q, uint32_t row,
                           const struct sl_full_sources *edges, int beta, starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, q);
    return sl_relate_full_submit(&head, edges, row, components(lp, q), beta, out);
}

const struct sl_sum_kind sl_sum_relation = {
    .name = "relation",
    .in_place = true,
    .whole_rows = true,
    .by_relation = true,
    .forward = forward,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};

const struct sl_sum_kind sl_sum_bases = {
    .name = "bases",
    .in_place = true,
    .rereads = true,
    .whole_rows = true,
    .by_relation = true,
    .forward = forward,
    .gradient = gradient,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};
