/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The table of models: the layer in the middle, and the layers at the ends. */
#include "runtime/model/kinds.h"

#include "runtime/model/sums.h"

const struct sl_model_kind *sl_model_kind(int model)
{
    static const struct sl_model_kind kinds[] = {
        [SL_MODEL_SAGE] = {"sage", &sl_sage, NULL, NULL},
        [SL_MODEL_GCN] = {"gcn", &sl_gcn, NULL, NULL},
        [SL_MODEL_GAT] = {"gat", &sl_gat, NULL, NULL},
        [SL_MODEL_GCNII] = {"gcnii", &sl_gcnii, &sl_activated_in, &sl_linear_out},
        [SL_MODEL_GIN] = {"gin", &sl_gin, NULL, NULL},
        [SL_MODEL_RESGCN] = {"resgcn", &sl_resgcn, &sl_linear_in, &sl_normed_out},
        [SL_MODEL_RGCN] = {"rgcn", &sl_rgcn, NULL, NULL},
        [SL_MODEL_RGAT] = {"rgat", &sl_rgat, NULL, NULL},
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
    return sl_settings_hops(settings) + (sl_model_first(settings) != NULL) + (kind->last != NULL);
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
    return settings->residual && sl_model_first(settings) == NULL && settings->layers > 1 &&
           settings->hidden == n_features;
}

bool sl_model_reads_narrow(const struct sl_settings *settings, uint32_t n_features, enum sl_dtype dtype)
{
    const struct sl_model_kind *kind = sl_model_kind(settings->model);
    const struct sl_layer_kind *first = sl_model_first(settings);
    const struct sl_layer_kind *layer = first != NULL ? first : kind->layer;
    return layer->reads_narrow && sl_dtype_size(dtype) == 2 && !sl_model_adds_features(settings, n_features);
}
