/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * GraphSAGE with the mean aggregator (Hamilton et al. 2017): z = h_self W_self + mean(h) W_neigh + b.
 *
 *   summing first      forward: h travels; m = mean(h); z = h_self W_self + b + m W_neigh
 *                      backward: ga = gz W_neigh^T travels back; gh = adjoint of the mean, then += gz W_self^T on the
 *                      self rows
 *   projecting first   forward: y = h W_neigh travels; z = h_self W_self + b + mean(y)
 *                      backward: gz travels back; gy = adjoint of the mean; gh = gy W_neigh^T, then += gz W_self^T
 *
 * With features e of edges (--edge-features concat) a message is [ h | e ], and W_neigh has the rows W_edge below: z +=
 * mean(e) W_edge. With --edge-features add a message is h + e E, and W_edge = E W_neigh is derived once a step. */
#include "runtime/model/sage.h"

#include "codelets/rows/derive.h"
#include "runtime/model/kinds.h"
#include "runtime/model/sums.h"

enum { SELF = SL_SAGE_SELF, NEIGH = SL_SAGE_NEIGH, BIAS = SL_SAGE_BIAS };

/* ---- forward ---- */

/* z = h_self W_self + b. Without a backward pass, a layer that sums first skips this: `finish` does it after the sum,
 * so that z takes memory later. */
static enum sl_status begin(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    bool first = lp->pass->training || sl_layer_pass_order(lp)->project_first;
    if (first) {
        return sl_multiply(lp, p, sl_layer_pass_chunk_row(lp, p, lp->level, c), SELF, sl_layer_pass_value(lp, p, BIAS),
                           0, sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c]);
    }
    return SL_OK;
}

/* z from the complete sum. */
static enum sl_status finish(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    if (lp->pass->training) {
        return sl_product(lp, p, c, SL_ROWS_SUM, NEIGH, SL_NO_PARAMETER, 1, SL_ROWS_Z);
    }
    SL_CHECK(sl_product(lp, p, c, SL_ROWS_SUM, NEIGH, BIAS, 0, SL_ROWS_Z));
    return sl_multiply(lp, p, sl_layer_pass_chunk_row(lp, p, lp->level, c), SELF, NULL, 1,
                       sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c]);
}

/* Attention may read features of edges in its scores alone. */
static bool sums_edges(const struct sl_layer_pass *lp)
{
    return sl_layer_pass_row(lp, SL_ROWS_EDGES)->width > 0;
}

/* The share of the features of edges: z += mean(e) W_edge. */
static enum sl_status add_edges(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    if (!lp->layer->kind->sum->sums_edges) {
        SL_CHECK(lp->pass->source->sum_edges(lp, p, c, sl_layer_pass_rows(lp, p, SL_ROWS_EDGES)->chunk[c]));
    }
    return sl_product(lp, p, c, SL_ROWS_EDGES, SL_SAGE_EDGES, SL_NO_PARAMETER, 1, SL_ROWS_Z);
}

static enum sl_status sum_rows(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    if (sl_layer_pass_order(lp)->project_first) {
        return lp->pass->source->sum(lp, p, c, 1, sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c]);
    }
    SL_CHECK(lp->pass->source->sum(lp, p, c, 0, sl_layer_pass_rows(lp, p, SL_ROWS_SUM)->chunk[c]));
    if (sl_layer_pass_ends(lp)) {
        return finish(lp, p, c);
    }
    return SL_OK;
}

static enum sl_status combine(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    SL_CHECK(sum_rows(lp, p, c));
    if (sl_layer_pass_ends(lp) && sums_edges(lp)) {
        return add_edges(lp, p, c);
    }
    return SL_OK;
}

enum sl_status sl_sage_forward(const struct sl_layer_pass *lp)
{
    return sl_convolve(lp, NEIGH, begin, combine);
}

/* ---- backward ---- */

/* The gradients of W_self and of the bias. */
static enum sl_status self_gradient(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    uint32_t row = sl_layer_pass_chunk_row(lp, p, lp->level, c);
    return sl_multiply_back(lp, p, row, SELF, BIAS, sl_layer_pass_rows(lp, p, SL_ROWS_GZ)->chunk[c]);
}

/* The gradients of W_edge. */
static enum sl_status edge_gradient(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    return sl_weight_gradient(lp, p, c, SL_ROWS_EDGES, SL_ROWS_GZ, SL_SAGE_EDGES, SL_NO_PARAMETER);
}

/* On the self rows: gh += gz W_self^T; then, with a residual, += gh of the output. */
static enum sl_status self_rows(const struct sl_layer_pass *lp, uint32_t p)
{
    SL_CHECK(sl_self_rows_back(lp, p, SL_ROWS_GZ, SELF));
    if (lp->layer->residual) {
        return sl_residual_back(lp, p);
    }
    return SL_OK;
}

enum sl_status sl_sage_backward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_convolve_gradients(lp, NEIGH, SL_NO_PARAMETER));
    SL_CHECK(sl_each_chunk(lp, self_gradient));
    if (sums_edges(lp)) {
        SL_CHECK(sl_each_chunk(lp, edge_gradient));
    }
    for (uint32_t k = 0, p = 0; lp->layer->returns && sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(sl_convolve_back(lp, p, NEIGH));
        if (lp->i > 0) {
            SL_CHECK(self_rows(lp, p));
        }
    }
    return SL_OK;
}

/* Names and shapes as in SAGEConv of both libraries. DGL puts the bias with the self matrix, PyTorch Geometric with
 * the neighbour matrix. */
#define MATRICES                                                                                                       \
    [SELF] = {SL_SHAPE_MATRIX, {{"layers.#.fc_self.weight", true}, {"convs.#.lin_r.weight", true}}, .key = 0},         \
    [NEIGH] = {SL_SHAPE_MATRIX, {{"layers.#.fc_neigh.weight", true}, {"convs.#.lin_l.weight", true}}, .key = 1},       \
    [BIAS] = {                                                                                                         \
        SL_SHAPE_VECTOR, {{"layers.#.fc_self.bias", 0}, {"convs.#.lin_l.bias", 0}}, .key = 2, .is_output_bias = true}
#define PASSES                                                                                                         \
    .name = "sage", .sum = &sl_sum_mean, .reads_narrow = true, .rows = sl_declare_convolution,                         \
    .forward = sl_sage_forward, .backward = sl_sage_backward

const struct sl_layer_kind sl_sage = {
    PASSES,
    .parameter = {MATRICES, [SL_SAGE_EDGES] = {SL_SHAPE_EDGES,
                                               {{"layers.#.fc_edge.weight", true}, {"convs.#.lin_edge.weight", true}},
                                               .key = 6}},
    .n_parameters = SL_SAGE_EDGES + 1,
};

const struct sl_layer_kind sl_sage_adding = {
    PASSES,
    .parameter = {MATRICES, [SL_SAGE_EDGES] = {.shape = SL_SHAPE_EDGE_PRODUCTS},
                  [SL_SAGE_ENCODER] = {SL_SHAPE_EDGE_ENCODERS,
                                       {{"layers.#.edge_encoder.weight", true}, {"convs.#.edge_encoder.weight", true}},
                                       .key = 6,
                                       .by_derived = true}},
    .n_parameters = SL_SAGE_ENCODER + 1,
    SL_SAGE_DERIVES,
};

/* ---- features of edges that are added to rows ---- */

static struct sl_derive_encoded_layer encoded_of(const struct sl_layer *layer)
{
    return (struct sl_derive_encoded_layer){.n_slabs = sl_layer_slabs(layer),
                                            .e = layer->parameter[SL_SAGE_ENCODER].value_handle,
                                            .w = layer->parameter[NEIGH].value_handle};
}

enum sl_status sl_sage_derive(const struct sl_layer_pass *lp, uint32_t replica)
{
    const struct sl_layer *layer = &lp->pass->model[replica].layer[lp->i];
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, replica));
    const struct sl_derive_encoded_layer from = encoded_of(layer);
    return sl_derive_encoded_submit(&head, &from, layer->parameter[SL_SAGE_EDGES].value_handle);
}

enum sl_status sl_sage_derive_back(const struct sl_layer_pass *lp, uint32_t replica)
{
    const struct sl_layer *layer = &lp->pass->model[replica].layer[lp->i];
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, replica));
    const struct sl_derive_encoded_layer from = encoded_of(layer);
    return sl_derive_encoded_backward_submit(&head, &from, layer->parameter[SL_SAGE_EDGES].gradient_handle,
                                             layer->parameter[SL_SAGE_ENCODER].gradient_handle,
                                             layer->parameter[NEIGH].gradient_handle);
}
