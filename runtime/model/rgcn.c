/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * R-GCN (Schlichtkrull et al. 2018), with a mean for each relation: z = h_self W_0 + sum over relations r of
 * mean_r(h) W_r + b. A relation without in-edges adds nothing. The passes are GraphSAGE's (sage.h):
 *
 *   summing first      the sum of a row has R slabs [ mean_1(h) | .. | mean_R(h) ]; W has the W_r one above the other
 *   projecting first   y = h W has R slabs [ h W_1 | .. | h W_R ]; W has the W_r side by side
 *
 * With one relation this is sage, to the bit. With --bases the W_r are derived from shared matrices
 * (codelets/bases.h). */
#include "codelets/bases.h"
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

/* ---- with bases ---- */

enum { BASES = SL_SAGE_PARAMETERS, COMPONENTS, N_PARAMETERS };

static struct sl_bases_layer bases_of(const struct sl_layer_pass *lp, const struct sl_parameter *p)
{
    return (struct sl_bases_layer){lp->layer->training.project_first, p[BASES].value_handle,
                                   p[COMPONENTS].value_handle};
}

static enum sl_status derive(const struct sl_layer_pass *lp, uint32_t replica)
{
    const struct sl_parameter *p = lp->pass->model[replica].layer[lp->i].parameter;
    struct sl_bases_layer layer = bases_of(lp, p);
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, replica));
    return sl_bases_submit(&head, &layer, p[SL_SAGE_NEIGH].value_handle);
}

static enum sl_status derive_back(const struct sl_layer_pass *lp, uint32_t replica)
{
    const struct sl_parameter *p = lp->pass->model[replica].layer[lp->i].parameter;
    struct sl_bases_layer layer = bases_of(lp, p);
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, replica));
    return sl_bases_backward_submit(&head, &layer, p[SL_SAGE_NEIGH].gradient_handle, p[BASES].gradient_handle,
                                    p[COMPONENTS].gradient_handle);
}

/* Names and shapes as in RelGraphConv with the regularizer "basis", and in RGCNConv with num_bases. */
const struct sl_layer_kind sl_rgcn_bases = {
    .name = "rgcn",
    .parameter = {[SL_SAGE_SELF] = {SL_SHAPE_MATRIX,
                                    {{"layers.#.loop_weight", false}, {"convs.#.root", false}},
                                    .key = 0},
                  [SL_SAGE_NEIGH] = {.shape = SL_SHAPE_DERIVED},
                  [SL_SAGE_BIAS] = {SL_SHAPE_VECTOR,
                                    {{"layers.#.h_bias", false}, {"convs.#.bias", false}},
                                    .key = 2,
                                    .is_output_bias = true},
                  [BASES] = {SL_SHAPE_BASES,
                             {{"layers.#.linear_r.W", false}, {"convs.#.weight", false}},
                             .key = 1,
                             .by_derived = true},
                  [COMPONENTS] = {SL_SHAPE_COMPONENTS,
                                  {{"layers.#.linear_r.coeff", false}, {"convs.#.comp", false}},
                                  .key = 5,
                                  .by_derived = true}},
    .n_parameters = N_PARAMETERS,
    .derived = SL_SAGE_NEIGH,
    .sum = &sl_sum_relation,
    .reads_narrow = true,
    .rows = rows,
    .shape = shape,
    .forward = sl_sage_forward,
    .backward = sl_sage_backward,
    .derive = derive,
    .derive_back = derive_back,
};
