/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The mean over in-neighbours of each relation (codelets/relate.h). */
#include "codelets/relate.h"

#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

static enum sl_status forward(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk, int beta,
                              starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, chunk->p);
    uint32_t row = sl_layer_pass_chunk_row(lp, chunk->p, lp->level, chunk->c);
    return sl_relate_forward_submit(&head, chunk->block, row, chunk->n_edges, &chunk->sources, beta, out);
}

static enum sl_status backward(const struct sl_layer_pass *lp, const struct sl_sum_back *back)
{
    struct sl_task_args head = sl_layer_pass_head(lp, back->p);
    return sl_relate_backward_submit(&head, back->block, sl_layer_pass_returns(lp, back->p), back->n_edges,
                                     back->n_owners, back->t0, back->sent);
}

static enum sl_status accumulate(const struct sl_layer_pass *lp, const struct sl_sum_shares *shares, uint32_t c,
                                 uint32_t row, starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, shares->p);
    struct sl_relate_shares added = {.block = shares->block,
                                     .t0 = shares->t0,
                                     .n_own = shares->n_own,
                                     .gm = sl_layer_pass_returns(lp, shares->p),
                                     .n_peers = shares->n_peers,
                                     .own = shares->own,
                                     .sent = shares->sent};
    (void)c;
    return sl_relate_accumulate_submit(&head, &added, row, out);
}

static enum sl_status full(const struct sl_layer_pass *lp, uint32_t q, uint32_t row,
                           const struct sl_full_sources *edges, int beta, starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, q);
    return sl_relate_full_submit(&head, edges, row, beta, out);
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
