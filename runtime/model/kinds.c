/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The table of models: the layer in the middle, and the layers at the ends. */
#include "runtime/model/kinds.h"

#include <string.h>

const struct sl_model_kind *sl_model_kind(int model)
{
    static const struct sl_model_kind kinds[] = {
        [SL_MODEL_SAGE] = {"sage", &sl_sage, NULL, NULL, &sl_sage_adding},
        [SL_MODEL_GCN] = {"gcn", &sl_gcn},
        [SL_MODEL_GAT] = {"gat", &sl_gat, NULL, NULL, &sl_gat},
        [SL_MODEL_GATV2] = {"gatv2", &sl_gatv2},
        [SL_MODEL_GCNII] = {"gcnii", &sl_gcnii, &sl_activated_in, &sl_linear_out},
        [SL_MODEL_GIN] = {"gin", &sl_gin},
        [SL_MODEL_RESGCN] = {"resgcn", &sl_resgcn, &sl_linear_in, &sl_normed_out},
        [SL_MODEL_RGCN] = {"rgcn", &sl_rgcn, NULL, NULL, &sl_rgcn_adding},
        [SL_MODEL_RGAT] = {"rgat", &sl_rgat, NULL, NULL, &sl_rgat},
    };
    return &kinds[model];
}

const struct sl_layer_kind *sl_model_first(const struct sl_settings *settings)
{
    return settings->input_layer ? &sl_vectors_in : sl_model_kind(settings->model)->first;
}

uint32_t sl_model_layers(const struct sl_settings *settings)
{
    const struct sl_model_kind *kind = sl_model_kind(settings->model);
    return sl_settings_hops(settings) + settings->output_layers + (sl_model_first(settings) != NULL) +
           (kind->last != NULL);
}

bool sl_model_reads_factors(const struct sl_settings *settings)
{
    return sl_model_kind(settings->model)->layer->sum->factor != NULL;
}

bool sl_model_reads_relations(const struct sl_settings *settings)
{
    return sl_model_kind(settings->model)->layer->sum->by_relation;
}

bool sl_model_adds_features(const struct sl_settings *settings, uint32_t n_features)
{
    return settings->residual && sl_model_first(settings) == NULL && settings->layers + settings->output_layers > 1 &&
           settings->hidden == n_features;
}

bool sl_model_reads_narrow(const struct sl_settings *settings, uint32_t n_features, enum sl_dtype dtype)
{
    const struct sl_model_kind *kind = sl_model_kind(settings->model);
    const struct sl_layer_kind *first = sl_model_first(settings);
    const struct sl_layer_kind *layer = first != NULL ? first : kind->layer;
    return layer->reads_narrow && sl_dtype_size(dtype) == 2 && !sl_model_adds_features(settings, n_features);
}

/* ---- rows that layers of several kinds have ---- */

/* The output and its gradient; before them an activation's rows. */
static void declare_output(const struct sl_layer *layer, struct sl_layer_row *row)
{
    const uint32_t level = layer->level;
    const uint32_t n = layer->n_out;
    if (layer->hidden) {
        enum sl_row_end end = layer->norm == SL_NORM_NONE ? SL_UNTIL_FORWARD : SL_UNTIL_BACKWARD;
        row[SL_ROWS_Z] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, end};
        row[SL_ROWS_GATE] =
            (struct sl_layer_row){level, n, sl_activate_gate_dtype(layer->activation), SL_UNTIL_BACKWARD};
        row[SL_ROWS_H] = (struct sl_layer_row){level, n, layer->row_dtype, SL_UNTIL_BACKWARD};
        row[SL_ROWS_GH] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_CHUNK};
        row[SL_ROWS_GZ] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    } else {
        /* Logits, or rows that later layers add to. */
        row[layer->last ? SL_ROWS_Z : SL_ROWS_H] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
        row[layer->last ? SL_ROWS_GZ : SL_ROWS_GH] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    }
    if (layer->keeps) {
        row[SL_ROWS_GINITIAL] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    }
}

static void declare_activated_input(const struct sl_layer *layer, struct sl_layer_row *row)
{
    row[SL_ROWS_BEFORE] = (struct sl_layer_row){layer->from, layer->n_in, layer->row_dtype, SL_UNTIL_BACKWARD};
    row[SL_ROWS_GATE_BEFORE] = (struct sl_layer_row){
        layer->from, layer->n_in, sl_activate_gate_dtype(sl_layer_input_activation(layer)), SL_UNTIL_BACKWARD};
    row[SL_ROWS_GBEFORE] = (struct sl_layer_row){layer->from, layer->n_in, SL_DTYPE_REAL, SL_UNTIL_CHUNK};
}

void sl_layer_declare_rows(const struct sl_layer *layer, struct sl_layer_order *order)
{
    memset(order->row, 0, sizeof order->row);
    declare_output(layer, order->row);
    order->product = layer->hidden || layer->last ? SL_ROWS_GZ : SL_ROWS_GH;
    order->travelling = SL_ROWS_INPUT;
    if (layer->activates_input) {
        declare_activated_input(layer, order->row);
        order->travelling = SL_ROWS_BEFORE;
    }
    if (sl_layer_aggregates(layer)) {
        order->row[SL_ROWS_GBACK] =
            (struct sl_layer_row){layer->level, order->travels, layer->row_dtype, SL_UNTIL_BACKWARD};
    }
    if (layer->n_edge_features > 0) {
        order->row[SL_ROWS_EDGES] = (struct sl_layer_row){layer->level, sl_layer_slabs(layer) * layer->n_edge_features,
                                                          SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    }
    if (layer->kind->rows != NULL) {
        layer->kind->rows(layer, order);
    }
}

void sl_declare_sum(const struct sl_layer *layer, struct sl_layer_order *order)
{
    order->returning = SL_ROWS_GA;
    order->row[SL_ROWS_SUM] = (struct sl_layer_row){layer->level, layer->n_in, layer->row_dtype, SL_UNTIL_BACKWARD};
    if (!layer->first) { /* features have no gradient */
        order->row[SL_ROWS_GA] = (struct sl_layer_row){layer->level, layer->n_in, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    }
}

void sl_declare_projected(const struct sl_layer *layer, enum sl_row_end end, struct sl_layer_order *order)
{
    order->travelling = SL_ROWS_PROJECTED;
    order->returning = order->product;
    order->row[SL_ROWS_PROJECTED] = (struct sl_layer_row){layer->from, order->travels, layer->row_dtype, end};
    order->row[SL_ROWS_GY] = (struct sl_layer_row){layer->from, order->travels, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
}

void sl_declare_convolution(const struct sl_layer *layer, struct sl_layer_order *order)
{
    if (order->project_first) {
        sl_declare_projected(layer, SL_UNTIL_FORWARD, order);
    } else {
        sl_declare_sum(layer, order);
    }
}
