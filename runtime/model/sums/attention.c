/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Attention over in-neighbours and the vertex itself, and attention over the in-neighbours of each relation
 * (codelets/sums/attend.h). */
#include "codelets/sums/attend.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

static enum sl_status forward(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk, int beta,
                              starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, chunk->p);
    uint32_t row = sl_layer_pass_chunk_row(lp, chunk->p, lp->level, chunk->c);
    return sl_attend_forward_submit(&head, chunk->block, row, chunk->n_edges, &chunk->sources, beta, out,
                                    sl_layer_pass_rows(lp, chunk->p, SL_ROWS_SCALES)->chunk[chunk->c]);
}

static enum sl_status sides(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk)
{
    struct sl_task_args head = sl_layer_pass_head(lp, chunk->p);
    uint32_t row = sl_layer_pass_chunk_row(lp, chunk->p, lp->level, chunk->c);
    return sl_attend_sides_submit(&head, chunk->block, row, chunk->n_edges, &chunk->sources,
                                  sl_layer_pass_returns(lp, chunk->p)->chunk[chunk->c],
                                  sl_layer_pass_rows(lp, chunk->p, SL_ROWS_SCALES)->chunk[chunk->c],
                                  sl_layer_pass_rows(lp, chunk->p, SL_ROWS_SIDES)->chunk[chunk->c]);
}

static struct sl_attend_gradients gradients_of(const struct sl_layer_pass *lp, uint32_t p)
{
    return (struct sl_attend_gradients){sl_layer_pass_returns(lp, p), sl_layer_pass_rows(lp, p, SL_ROWS_SIDES)};
}

static enum sl_status backward(const struct sl_layer_pass *lp, const struct sl_sum_back *back)
{
    struct sl_task_args head = sl_layer_pass_head(lp, back->p);
    struct sl_attend_gradients gradients = gradients_of(lp, back->p);
    return sl_attend_backward_submit(&head, back->block, &gradients, back->n_edges, back->n_owners, back->t0,
                                     back->packed, back->sent);
}

static enum sl_status accumulate(const struct sl_layer_pass *lp, const struct sl_sum_shares *shares, uint32_t c,
                                 uint32_t row, starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, shares->p);
    struct sl_attend_shares added = {shares->block, gradients_of(lp, shares->p), shares->from};
    return sl_attend_accumulate_submit(&head, &added, row, sl_layer_pass_travels(lp, shares->p)->chunk[c], out);
}

static enum sl_status full(const struct sl_layer_pass *lp, uint32_t q, uint32_t row,
                           const struct sl_full_sources *edges, int beta, starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, q);
    return sl_attend_full_submit(&head, edges, q, row, lp->layer->n_heads, beta, out);
}

const struct sl_sum_kind sl_sum_attention = {
    .name = "attention",
    .rereads = true,
    .whole_rows = true,
    .forward = forward,
    .sides = sides,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};

const struct sl_sum_kind sl_sum_attention_by_relation = {
    .name = "attention by relation",
    .rereads = true,
    .whole_rows = true,
    .by_relation = true,
    .forward = forward,
    .sides = sides,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};
