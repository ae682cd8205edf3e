/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph attention (Velickovic et al. 2018). u = h W, cut into heads. Per head, z = sum of a u over the in-neighbours
 * and the vertex itself; then heads stand side by side and b is added. a is the softmax of LeakyReLU(attn_dst . u_dst
 * + attn_src . u_src) (codelets/sums/attend.h). With --skip, z += h_self W_skip. With features f of edges
 * (--edge-features concat) the score of an edge has the further term attn_edge . (f W_edge), as in PyTorch Geometric's
 * GATConv with edge_dim and fill_value 0. With --edge-features add the message is u + f W_edge besides, as in DGL's
 * EdgeGATConv. The vertex' own term has no features.
 *
 *   derive    W' = [W | W attn_src | W attn_dst], once a step: one product then computes u and both scores. And
 *             W_edge attn_edge: its product with f is the score of an edge. add: W_edge, spread over the heads
 *   forward   U = h W' travels; z = h_self W_skip + b + attention of U. add: z += S W_edge, S being the sums of a f
 *   backward  add: gS = gz W_edge^T. The gradients of U travel back, and those of W_edge attn_edge are summed;
 *             gh = gU W'^T, then += gz W_skip^T on the self rows */
#include "codelets/rows/bias.h"
#include "codelets/rows/derive.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sage.h"
#include "runtime/model/sums.h"

enum { WEIGHT, BIAS, SOURCE, TARGET, SKIP, DERIVED, EDGES, EDGE_SOURCE, MESSAGES, SCORES, N_PARAMETERS };

/* ---- W' ---- */

/* W' of one replica, and what it is computed from. from[3] and on: with features of edges, the same of their scores and
 * messages. */
struct derivation {
    const struct sl_parameter *derived, *scores, *messages, *from[5];
    struct sl_derive_attention_layer layer, edges, spread;
};

static struct derivation find_derivation(const struct sl_layer_pass *lp, uint32_t replica)
{
    const struct sl_layer *layer = &lp->pass->model[replica].layer[lp->i];
    const uint32_t n_slabs = sl_layer_slabs(layer);
    struct derivation d = {.derived = &layer->parameter[sl_layer_derived(layer, SL_SHAPE_DERIVED)]};
    for (int k = 0, n = 0; k < SL_MAX_OWN_PARAMETERS; k++) {
        if (layer->kind->parameter[k].by_derived) {
            d.from[n++] = &layer->parameter[k];
        }
    }
    if (layer->n_edge_features > 0) {
        d.scores = &layer->parameter[sl_layer_derived(layer, SL_SHAPE_EDGE_SCORES)];
        d.edges = (struct sl_derive_attention_layer){/* the heads of all relations */
                                                     .n_heads = layer->n_heads,
                                                     .n_slabs = 1,
                                                     .w = d.from[3]->value_handle,
                                                     .src = d.from[4]->value_handle};
    }
    if (layer->adds_edges) {
        d.messages = &layer->parameter[sl_layer_derived(layer, SL_SHAPE_EDGE_MESSAGES)];
        d.spread =
            (struct sl_derive_attention_layer){.n_heads = layer->n_heads / n_slabs, .n_slabs = n_slabs, .w = d.edges.w};
    }
    d.layer = (struct sl_derive_attention_layer){.n_heads = layer->n_heads / n_slabs,
                                                 .n_slabs = n_slabs,
                                                 .w = d.from[0]->value_handle,
                                                 .src = d.from[1]->value_handle,
                                                 .dst = d.from[2]->value_handle};
    return d;
}

static enum sl_status derive(const struct sl_layer_pass *lp, uint32_t replica)
{
    struct derivation d = find_derivation(lp, replica);
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, replica));
    if (d.scores != NULL) {
        SL_CHECK(sl_derive_scores_submit(&head, &d.edges, d.scores->value_handle));
    }
    if (d.messages != NULL) {
        SL_CHECK(sl_derive_spread_submit(&head, &d.spread, d.messages->value_handle));
    }
    return sl_derive_attention_submit(&head, &d.layer, d.derived->value_handle);
}

static enum sl_status derive_back(const struct sl_layer_pass *lp, uint32_t replica)
{
    struct derivation d = find_derivation(lp, replica);
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, replica));
    if (d.scores != NULL) {
        SL_CHECK(sl_derive_scores_backward_submit(&head, &d.edges, d.scores->gradient_handle,
                                                  d.from[3]->gradient_handle, d.from[4]->gradient_handle));
    }
    if (d.messages != NULL) {
        SL_CHECK(sl_derive_spread_backward_submit(&head, &d.spread, d.messages->gradient_handle,
                                                  d.from[3]->gradient_handle));
    }
    return sl_derive_attention_backward_submit(&head, &d.layer, d.derived->gradient_handle, d.from[0]->gradient_handle,
                                               d.from[1]->gradient_handle, d.from[2]->gradient_handle);
}

/* ---- forward, backward ---- */

static enum sl_status begin(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    starpu_data_handle_t z = sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c];
    if (lp->layer->skips) {
        return sl_multiply(lp, p, sl_layer_pass_chunk_row(lp, p, lp->level, c), SKIP, sl_layer_pass_value(lp, p, BIAS),
                           0, z);
    }
    return sl_bias(lp, p, BIAS, z);
}

static enum sl_status combine(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    SL_CHECK(lp->pass->source->sum(lp, p, c, 1, sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c]));
    if (lp->layer->adds_edges) {
        return sl_product(lp, p, c, SL_ROWS_EDGES, MESSAGES, SL_NO_PARAMETER, 1, SL_ROWS_Z);
    }
    return SL_OK;
}

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_project(lp, DERIVED, SL_NO_PARAMETER));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_SCALES));
    return sl_sum_chunks(lp, SL_ROWS_Z, begin, combine);
}

/* The gradients of W_skip and of the bias. */
static enum sl_status skip_gradient(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    return sl_multiply_back(lp, p, sl_layer_pass_chunk_row(lp, p, lp->level, c), SKIP, BIAS,
                            sl_layer_pass_returns(lp, p)->chunk[c]);
}

/* The gradient of W_edge attn_edge. */
static enum sl_status score_gradient(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    starpu_data_handle_t gv = NULL;
    SL_CHECK(sl_layer_pass_partial(lp, p, sl_layer_derived(lp->layer, SL_SHAPE_EDGE_SCORES), &gv));
    return sl_bias_backward_submit(&head, sl_layer_pass_rows(lp, p, SL_ROWS_GINNER)->chunk[c], gv);
}

/* gS, of the features in messages. */
static enum sl_status message_gradient(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    return sl_product_back(lp, p, c, SL_ROWS_GZ, sl_layer_derived(lp->layer, SL_SHAPE_EDGE_MESSAGES), SL_ROWS_GEDGES);
}

/* The gradient of W_edge, by messages. */
static enum sl_status edge_gradient(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    return sl_weight_gradient(lp, p, c, SL_ROWS_EDGES, SL_ROWS_GZ, MESSAGES, SL_NO_PARAMETER);
}

static enum sl_status self_rows(const struct sl_layer_pass *lp, uint32_t p)
{
    if (lp->layer->skips) {
        SL_CHECK(sl_self_rows_back(lp, p, sl_layer_pass_order(lp)->returning, SKIP));
    }
    if (lp->layer->residual) {
        return sl_residual_back(lp, p);
    }
    return SL_OK;
}

/* The layer's backward pass around `inner`, which runs `sides`. */
static enum sl_status with_scores(const struct sl_layer_pass *lp, enum sl_status (*inner)(const struct sl_layer_pass *))
{
    const bool featured = lp->layer->n_edge_features > 0;
    if (featured) {
        SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GINNER));
    }
    if (lp->layer->adds_edges) {
        SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GEDGES));
        SL_CHECK(sl_each_chunk(lp, message_gradient));
    }
    SL_CHECK(inner(lp));
    if (featured) {
        SL_CHECK(sl_each_chunk(lp, score_gradient));
    }
    return SL_OK;
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    SL_CHECK(with_scores(lp, lp->pass->source->send_back));
    if (lp->layer->adds_edges) {
        SL_CHECK(sl_each_chunk(lp, edge_gradient));
    }
    if (lp->layer->skips) {
        SL_CHECK(sl_each_chunk(lp, skip_gradient));
    } else {
        SL_CHECK(sl_bias_back(lp, BIAS));
    }
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(sl_convolve_back(lp, p, DERIVED));
        if (lp->i > 0) {
            SL_CHECK(self_rows(lp, p));
        }
    }
    return SL_OK;
}

static void rows(const struct sl_layer *layer, struct sl_layer_order *order)
{
    const uint32_t level = layer->level;
    const uint32_t n = layer->n_heads;
    sl_declare_projected(layer, SL_UNTIL_BACKWARD, order);
    order->row[SL_ROWS_SCALES] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    order->row[SL_ROWS_SIDES] = (struct sl_layer_row){level, 4 * n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    order->row[SL_ROWS_EDGES].width = 0; /* scores read the features in place */
    if (layer->n_edge_features > 0) {
        order->row[SL_ROWS_GINNER] =
            (struct sl_layer_row){level, n * layer->n_edge_features, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    }
    if (layer->adds_edges) {
        order->row[SL_ROWS_EDGES] = order->row[SL_ROWS_GEDGES] = order->row[SL_ROWS_GINNER];
    }
}

static void shape(const struct sl_settings *settings, struct sl_layer *layer)
{
    const uint32_t n_slabs = sl_layer_slabs(layer);
    layer->skips = settings->skip;
    layer->n_heads = n_slabs * (layer->last ? 1 : settings->heads);
    layer->training = layer->evaluation =
        (struct sl_layer_order){.project_first = true, .travels = n_slabs * layer->n_out + 2 * layer->n_heads};
}

/* Names and shapes as in GATConv of both libraries. */
const struct sl_layer_kind sl_gat = {
    .name = "gat",
    .parameter =
        {[WEIGHT] = {SL_SHAPE_MATRIX,
                     {{"layers.#.fc.weight", true}, {"convs.#.lin.weight", true}},
                     .key = 1,
                     .by_derived = true},
         [BIAS] = {SL_SHAPE_VECTOR, {{"layers.#.bias", 0}, {"convs.#.bias", 0}}, .key = 2, .is_output_bias = true},
         [SOURCE] = {SL_SHAPE_HEADS, {{"layers.#.attn_l", 0}, {"convs.#.att_src", 0}}, .key = 5, .by_derived = true},
         [TARGET] = {SL_SHAPE_HEADS, {{"layers.#.attn_r", 0}, {"convs.#.att_dst", 0}}, .key = 6, .by_derived = true},
         [SKIP] = {SL_SHAPE_SKIP, {{"layers.#.res_fc.weight", true}, {"convs.#.res.weight", true}}, .key = 7},
         [DERIVED] = {.shape = SL_SHAPE_DERIVED},
         [EDGES] = {SL_SHAPE_EDGES,
                    {{"layers.#.fc_edge.weight", true}, {"convs.#.lin_edge.weight", true}},
                    .key = 8,
                    .by_derived = true},
         [EDGE_SOURCE] =
             {SL_SHAPE_EDGE_HEADS, {{"layers.#.attn_edge", 0}, {"convs.#.att_edge", 0}}, .key = 9, .by_derived = true},
         [MESSAGES] = {.shape = SL_SHAPE_EDGE_MESSAGES},
         [SCORES] = {.shape = SL_SHAPE_EDGE_SCORES}},
    .n_parameters = N_PARAMETERS,
    .sum = &sl_sum_attention,
    .reads_narrow = true,
    .shape = shape,
    .rows = rows,
    .forward = forward,
    .backward = backward,
    .derive = derive,
    .derive_back = derive_back,
};

/* ---- attention by relation ---- */

/* R-GAT: graph attention for each relation, and a matrix for the vertex itself. z = h_self W_0 + b + sum over
 * relations r of attention_r(h W_r). A relation's attention is over its in-edges, not over the vertex itself. A
 * relation without in-edges adds nothing. The passes are GraphSAGE's (sage.h), projecting first:
 *
 *   derive    W' has a slab [W_r | W_r attn_src_r | W_r attn_dst_r] for each relation
 *   forward   U = h W' travels; z = h_self W_0 + b + attention of U (codelets/sums/attend.h)
 *   backward  the gradients of U travel back; gh = gU W'^T, then += gz W_0^T on the self rows
 *
 * Features of edges enter scores and messages as above, by matrices and vectors of the edge's relation. */

enum {
    R_DERIVED = SL_SAGE_NEIGH,
    R_MESSAGES = SL_SAGE_EDGES,
    R_WEIGHT,
    R_SOURCE,
    R_TARGET,
    R_EDGES,
    R_EDGE_SOURCE,
    R_SCORES,
    R_PARAMETERS
};

static enum sl_status forward_by_relation(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_SCALES));
    return sl_sage_forward(lp);
}

static enum sl_status backward_by_relation(const struct sl_layer_pass *lp)
{
    return with_scores(lp, sl_sage_backward);
}

/* Names as in rgcn.c, attention vectors as above. An array of all relations is a stack of those of GATConv. */
const struct sl_layer_kind sl_rgat = {
    .name = "rgat",
    .parameter =
        {[SL_SAGE_SELF] = {SL_SHAPE_MATRIX, {{"layers.#.loop_weight", false}, {"convs.#.root", false}}, .key = 0},
         [R_DERIVED] = {.shape = SL_SHAPE_DERIVED},
         [SL_SAGE_BIAS] =
             {SL_SHAPE_VECTOR, {{"layers.#.h_bias", false}, {"convs.#.bias", false}}, .key = 2, .is_output_bias = true},
         [R_WEIGHT] = {SL_SHAPE_RELATIONS,
                       {{"layers.#.linear_r.W", false}, {"convs.#.weight", false}},
                       .key = 1,
                       .by_derived = true},
         [R_SOURCE] =
             {SL_SHAPE_HEADS, {{"layers.#.attn_l", false}, {"convs.#.att_src", false}}, .key = 5, .by_derived = true},
         [R_TARGET] =
             {SL_SHAPE_HEADS, {{"layers.#.attn_r", false}, {"convs.#.att_dst", false}}, .key = 6, .by_derived = true},
         [R_EDGES] = {SL_SHAPE_EDGE_SLABS,
                      {{"layers.#.edge_weight", false}, {"convs.#.edge_weight", false}},
                      .key = 8,
                      .by_derived = true},
         [R_EDGE_SOURCE] =
             {SL_SHAPE_EDGE_HEADS, {{"layers.#.attn_edge", 0}, {"convs.#.att_edge", 0}}, .key = 9, .by_derived = true},
         [R_MESSAGES] = {.shape = SL_SHAPE_EDGE_MESSAGES},
         [R_SCORES] = {.shape = SL_SHAPE_EDGE_SCORES}},
    .n_parameters = R_PARAMETERS,
    .sum = &sl_sum_attention_by_relation,
    .reads_narrow = true,
    .rows = rows,
    .shape = shape,
    .forward = forward_by_relation,
    .backward = backward_by_relation,
    .derive = derive,
    .derive_back = derive_back,
};
