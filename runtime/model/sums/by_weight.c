/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums with one weight per edge, or with none. */
#include <math.h>

#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

static enum sl_status forward(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk, int beta,
                              starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, chunk->p);
    uint32_t row = sl_layer_pass_chunk_row(lp, chunk->p, lp->level, chunk->c);
    return sl_aggregate_forward_submit(&head, chunk->block, row, chunk->n_edges, &chunk->sources, beta, out);
}

static enum sl_status backward(const struct sl_layer_pass *lp, const struct sl_sum_back *back)
{
    struct sl_task_args head = sl_layer_pass_head(lp, back->p);
    return sl_aggregate_backward_submit(&head, back->block, sl_layer_pass_returns(lp, back->p), back->weights,
                                        back->n_edges, back->n_owners, back->t0, back->sent);
}

static enum sl_status accumulate(const struct sl_layer_pass *lp, const struct sl_sum_shares *shares, uint32_t c,
                                 uint32_t row, starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, shares->p);
    struct sl_accumulate added = {.block = shares->block,
                                  .from = shares->from,
                                  .gm = sl_layer_pass_returns(lp, shares->p),
                                  .weights = shares->weights};
    (void)c;
    return sl_accumulate_submit(&head, &added, row, out);
}

static enum sl_status full(const struct sl_layer_pass *lp, uint32_t q, uint32_t row,
                           const struct sl_full_sources *edges, int beta, starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, q);
    return sl_aggregate_full_submit(&head, edges, row, beta, out);
}

/* The mean over in-neighbours. */
const struct sl_sum_kind sl_sum_mean = {
    .name = "mean",
    .pull = SL_PULL_MEAN,
    .pull_back = SL_PULL_MEAN_BACK,
    .in_place = true,
    .forward = forward,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};

static double one(double in_degree)
{
    (void)in_degree;
    return 1;
}

/* The sum over in-neighbours and the vertex itself: all weights are 1. A self loop of the dataset adds nothing. */
const struct sl_sum_kind sl_sum_plain = {
    .name = "plain",
    .factor = one,
    .pull = SL_PULL_SYMMETRIC,
    .pull_back = SL_PULL_SYMMETRIC,
    .forward = forward,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};

static double symmetric(double in_degree)
{
    return 1 / sqrt(in_degree + 1);
}

/* The graph convolution's sum (Kipf, Welling 2017): in-neighbour u of v has the weight f_u f_v, v itself f_v^2. */
const struct sl_sum_kind sl_sum_symmetric = {
    .name = "symmetric",
    .factor = symmetric,
    .pull = SL_PULL_SYMMETRIC,
    .pull_back = SL_PULL_SYMMETRIC,
    .forward = forward,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};
