/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Attention over in-neighbours and the vertex itself, static or dynamic, and attention over the in-neighbours of each
 * relation (codelets/sums/attend.h). A layer of dynamic attention has computed the rows R in SL_ROWS_T. */
#include "codelets/sums/attend.h"
#include "runtime/model/gatv2.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

/* The chunk of a role of PE p's destinations. NULL: the layer has no such rows. */
static starpu_data_handle_t chunk_of(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role, uint32_t c)
{
    return sl_layer_pass_row(lp, role)->width > 0 ? sl_layer_pass_rows(lp, p, role)->chunk[c] : NULL;
}

/* A. NULL: attention is static. */
static starpu_data_handle_t weights_of(const struct sl_layer_pass *lp, uint32_t p)
{
    return lp->layer->kind->sum == &sl_sum_dynamic ? sl_layer_pass_value(lp, p, SL_GATV2_ATTENTION) : NULL;
}

/* The features of PE p's edges. rows: of each edge of a part, among the part's rows of features. */
static struct sl_edge_score_handles features_of(const struct sl_layer_pass *lp, uint32_t p, starpu_data_handle_t rows)
{
    const struct sl_shard *part = &lp->pass->shards->part[sl_plan_part(lp->pass->plan, p)];
    if (lp->layer->n_edge_features == 0) {
        return (struct sl_edge_score_handles){NULL, NULL, NULL};
    }
    const int scores = sl_layer_derived(lp->layer, SL_SHAPE_EDGE_SCORES);
    return (struct sl_edge_score_handles){part->edge_table, sl_layer_pass_value(lp, p, scores), rows};
}

/* Those of a block. */
static struct sl_edge_score_handles scores_of(const struct sl_layer_pass *lp, uint32_t p)
{
    return features_of(lp, p, lp->pass->shards->part[sl_plan_part(lp->pass->plan, p)].graph.rows);
}

/* features: the role of S, or of its gradient. */
static struct sl_attend_targets targets_of(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk,
                                           enum sl_role features)
{
    return (struct sl_attend_targets){.block = chunk->block,
                                      .row0 = sl_layer_pass_chunk_row(lp, chunk->p, lp->level, chunk->c),
                                      .n_edges = chunk->n_edges,
                                      .sources = &chunk->sources,
                                      .operands = {chunk_of(lp, chunk->p, SL_ROWS_T, chunk->c),
                                                   weights_of(lp, chunk->p), scores_of(lp, chunk->p),
                                                   chunk_of(lp, chunk->p, features, chunk->c)}};
}

static enum sl_status forward(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk, int beta,
                              starpu_data_handle_t out)
{
    struct sl_task_args head = sl_layer_pass_head(lp, chunk->p);
    const struct sl_attend_targets to = targets_of(lp, chunk, SL_ROWS_EDGES);
    return sl_attend_forward_submit(&head, &to, beta, out, chunk_of(lp, chunk->p, SL_ROWS_SCALES, chunk->c));
}

static enum sl_status sides(const struct sl_layer_pass *lp, const struct sl_sum_chunk *chunk)
{
    struct sl_task_args head = sl_layer_pass_head(lp, chunk->p);
    const struct sl_attend_targets to = targets_of(lp, chunk, SL_ROWS_GEDGES);
    struct sl_attend_sides out = {.sides = chunk_of(lp, chunk->p, SL_ROWS_SIDES, chunk->c),
                                  .gr = chunk_of(lp, chunk->p, SL_ROWS_GT, chunk->c)};
    starpu_data_handle_t sums = chunk_of(lp, chunk->p, SL_ROWS_GINNER, chunk->c);
    if (to.operands.a != NULL) {
        out.ga = sums;
    } else {
        out.gv = sums;
    }
    return sl_attend_sides_submit(&head, &to, sl_layer_pass_returns(lp, chunk->p)->chunk[chunk->c],
                                  chunk_of(lp, chunk->p, SL_ROWS_SCALES, chunk->c), &out);
}

static struct sl_attend_gradients gradients_of(const struct sl_layer_pass *lp, uint32_t p)
{
    const bool adds = sl_layer_pass_row(lp, SL_ROWS_GEDGES)->width > 0;
    return (struct sl_attend_gradients){sl_layer_pass_returns(lp, p), sl_layer_pass_rows(lp, p, SL_ROWS_SIDES),
                                        adds ? sl_layer_pass_rows(lp, p, SL_ROWS_GEDGES) : NULL, weights_of(lp, p),
                                        scores_of(lp, p)};
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
    const uint32_t c = sl_layer_pass_place(lp, q, row).chunk;
    const struct sl_attend_operands operands = {chunk_of(lp, q, SL_ROWS_T, c), weights_of(lp, q),
                                                features_of(lp, q, edges->edge_rows),
                                                chunk_of(lp, q, SL_ROWS_EDGES, c)};
    return sl_attend_full_submit(&head, edges, q, row, lp->layer->n_heads, &operands, beta, out);
}

const struct sl_sum_kind sl_sum_attention = {
    .name = "attention",
    .rereads = true,
    .whole_rows = true,
    .sums_edges = true,
    .forward = forward,
    .sides = sides,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};

const struct sl_sum_kind sl_sum_dynamic = {
    .name = "dynamic attention",
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
    .sums_edges = true,
    .forward = forward,
    .sides = sides,
    .backward = backward,
    .accumulate = accumulate,
    .full = full,
};
