/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * R-GCN (Schlichtkrull et al. 2018), with a mean for each relation: z = h_self W_0 + sum over relations r of
 * mean_r(h) W_r + b. A relation without in-edges adds nothing. The passes are GraphSAGE's (sage.h):
 *
 *   summing first      the sum of a row has R slabs [ mean_1(h) | .. | mean_R(h) ]; W has the W_r one above the other
 *   projecting first   y = h W has R slabs [ h W_1 | .. | h W_R ]; W has the W_r side by side
 *
 * With one relation this is sage, to the bit.
 *
 * With features of edges (--edge-features concat) W_r has further rows for them, the matrix of relation r in `edges`.
 * With --edge-features add each relation has an encoder of its own (sage.c).
 *
 * With --bases, W_r = sum over bases b of C[r, b] V_b. Sums mix the means of all relations by the components C before
 * they meet a matrix (codelets/sums/relate.h). So they have B slabs instead of R, and the V_b take the place of the
 * W_r. */
#include "runtime/model/kinds.h"
#include "runtime/model/sage.h"
#include "runtime/model/sums.h"

static void rows(const struct sl_layer *layer, struct sl_layer_order *order)
{
    sl_declare_convolution(layer, order);
    if (!order->project_first) {
        order->row[SL_ROWS_SUM].width *= layer->n_relations;
        order->row[SL_ROWS_GA].width *= layer->n_relations;
    }
}

/* The layout of the weights follows the order, so evaluations keep the order of training. */
static void shape(const struct sl_settings *settings, struct sl_layer *layer)
{
    (void)settings;
    if (layer->n_relations > 1) {
        layer->training.travels *= layer->training.project_first ? layer->n_relations : 1;
        layer->evaluation = layer->training;
    }
}

/* Names and shapes as in DGL's RelGraphConv and PyTorch Geometric's RGCNConv. */
#define MATRICES(stack)                                                                                                \
    [SL_SAGE_SELF] = {SL_SHAPE_MATRIX, {{"layers.#.loop_weight", false}, {"convs.#.root", false}}, .key = 0},          \
    [SL_SAGE_NEIGH] = {stack, {{"layers.#.linear_r.W", false}, {"convs.#.weight", false}}, .key = 1},                  \
    [SL_SAGE_BIAS] = {                                                                                                 \
        SL_SHAPE_VECTOR, {{"layers.#.h_bias", false}, {"convs.#.bias", false}}, .key = 2, .is_output_bias = true}
#define PASSES .name = "rgcn", .reads_narrow = true, .forward = sl_sage_forward, .backward = sl_sage_backward

const struct sl_layer_kind sl_rgcn = {
    PASSES,
    .parameter = {MATRICES(SL_SHAPE_RELATIONS), [SL_SAGE_EDGES] = {SL_SHAPE_EDGE_RELATIONS,
                                                                   {{"layers.#.edge_weight", false},
                                                                    {"convs.#.edge_weight", false}},
                                                                   .key = 6}},
    .n_parameters = SL_SAGE_EDGES + 1,
    .sum = &sl_sum_relation,
    .rows = rows,
    .shape = shape,
};

const struct sl_layer_kind sl_rgcn_adding = {
    PASSES,
    .parameter = {MATRICES(SL_SHAPE_RELATIONS), [SL_SAGE_EDGES] = {.shape = SL_SHAPE_EDGE_PRODUCTS},
                  [SL_SAGE_ENCODER] = {SL_SHAPE_EDGE_ENCODERS,
                                       {{"layers.#.edge_encoder", false}, {"convs.#.edge_encoder", false}},
                                       .key = 6,
                                       .by_derived = true}},
    .n_parameters = SL_SAGE_ENCODER + 1,
    .sum = &sl_sum_relation,
    .rows = rows,
    .shape = shape,
    SL_SAGE_DERIVES,
};

/* ---- with bases ---- */

static void rows_of_bases(const struct sl_layer *layer, struct sl_layer_order *order)
{
    sl_declare_convolution(layer, order);
    if (order->project_first) {
        order->row[SL_ROWS_PROJECTED].end = SL_UNTIL_BACKWARD;
        return;
    }
    order->row[SL_ROWS_SUM].width *= layer->n_bases;
    order->row[SL_ROWS_GA] =
        (struct sl_layer_row){layer->level, layer->n_in * layer->n_bases, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
}

static void shape_of_bases(const struct sl_settings *settings, struct sl_layer *layer)
{
    (void)settings;
    layer->training.travels *= layer->training.project_first ? layer->n_bases : 1;
    layer->evaluation = layer->training;
}

/* Names and shapes as in RelGraphConv with the regularizer "basis", and in RGCNConv with num_bases. */
const struct sl_layer_kind sl_rgcn_bases = {
    PASSES,
    .parameter = {MATRICES(SL_SHAPE_BASES), [SL_SAGE_COMPONENTS] = {SL_SHAPE_COMPONENTS,
                                                                    {{"layers.#.linear_r.coeff", false},
                                                                     {"convs.#.comp", false}},
                                                                    .key = 5}},
    .n_parameters = SL_SAGE_COMPONENTS + 1,
    .sum = &sl_sum_bases,
    .rows = rows_of_bases,
    .shape = shape_of_bases,
};
