/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Forward, activate; and back. */
#include "runtime/model/run.h"

#include "runtime/model/activation.h"

enum sl_status sl_layer_derive(const struct sl_at *at)
{
    enum sl_status st = SL_OK;
    for (uint32_t v = 0; st == SL_OK && at->layer->kind->derive != NULL && v < at->pass->plan->n_replicas; v++) {
        st = sl_plan_trains(at->pass->plan, v) ? at->layer->kind->derive(at, v) : SL_OK;
    }
    return st;
}

enum sl_status sl_layer_run(const struct sl_at *at)
{
    enum sl_status st;
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
