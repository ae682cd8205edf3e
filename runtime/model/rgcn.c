/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * R-GCN (Schlichtkrull et al. 2018), with a mean for each relation: z = h_self W_0 + sum over relations r of
 * mean_r(h) W_r + b. A relation without in-edges adds nothing. The passes are GraphSAGE's (sage.h):
 *
 *   summing first      the sum of a row has R slabs [ mean_1(h) | .. | mean_R(h) ]; W has the W_r one above the other
 *   projecting first   y = h W has R slabs [ h W_1 | .. | h W_R ]; W has the W_r side by side
 *
 * With one relation this is sage, to the bit. */
#include "runtime/model/kinds.h"
#include "runtime/model/rows.h"
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
const struct sl_layer_kind sl_rgcn = {
    .name = "rgcn",
    .parameter =
        {[SL_SAGE_SELF] = {SL_SHAPE_MATRIX, {{"layers.#.loop_weight", false}, {"convs.#.root", false}}, .key = 0},
         [SL_SAGE_NEIGH] = {SL_SHAPE_RELATIONS, {{"layers.#.linear_r.W", false}, {"convs.#.weight", false}}, .key = 1},
         [SL_SAGE_BIAS] = {SL_SHAPE_VECTOR,
                           {{"layers.#.h_bias", false}, {"convs.#.bias", false}},
                           .key = 2,
                           .is_output_bias = true}},
    .n_parameters = SL_SAGE_PARAMETERS,
    .sum = &sl_sum_relation,
    .reads_narrow = true,
    .rows = rows,
    .shape = shape,
    .forward = sl_sage_forward,
    .backward = sl_sage_backward,
};
