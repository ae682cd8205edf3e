/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The table of models. */
#include "runtime/model/kinds.h"

#include "runtime/model/activation.h"

const struct sl_model_kind *sl_model_kind(int model)
{
    static const struct sl_model_kind kinds[] = {
        [SL_MODEL_SAGE] = {"sage", &sl_sage, NULL, NULL},
        [SL_MODEL_GCN] = {"gcn", &sl_gcn, NULL, NULL},
        [SL_MODEL_GAT] = {"gat", &sl_gat, NULL, NULL},
        [SL_MODEL_GCNII] = {"gcnii", &sl_gcnii, &sl_activated_in, &sl_linear_out},
        [SL_MODEL_RESGCN] = {"resgcn", &sl_resgcn, &sl_linear_in, &sl_normed_out},
    };
    return &kinds[model];
}

uint32_t sl_model_layers(const struct sl_settings *settings)
{
    const struct sl_model_kind *kind = sl_model_kind(settings->model);
    return settings->layers + (kind->first != NULL) + (kind->last != NULL);
}

enum sl_status sl_layer_run(const struct sl_at *at)
{
    enum sl_status st = SL_OK;
    for (uint32_t v = 0; at->layer->kind->derive != NULL && v < at->pass->plan->n_replicas; v++) {
        SL_TRY(st, at->layer->kind->derive(at, v), done);
    }
    SL_TRY(st, at->layer->kind->forward(at), done);
    st = at->layer->hidden ? sl_activate(at) : SL_OK;
done:
    return st;
}

enum sl_status sl_layer_run_back(const struct sl_at *at)
{
    enum sl_status st;
    SL_TRY(st, at->layer->hidden ? sl_deactivate(at) : SL_OK, done);
    st = at->layer->kind->backward(at);
done:
    return st;
}
