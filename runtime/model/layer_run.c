/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A layer's forward pass is its kind's and then the activation; the backward pass reverses this. */
#include "runtime/model/layer_run.h"

#include "runtime/model/activation.h"

enum sl_status sl_layer_derive(const struct sl_layer_pass *lp)
{
    enum sl_status st = SL_OK;
    if (lp->layer->kind->derive != NULL) {
        for (uint32_t v = 0; st == SL_OK && v < lp->pass->plan->n_replicas; v++) {
            if (sl_plan_trains(lp->pass->plan, v)) {
                st = lp->layer->kind->derive(lp, v);
            }
        }
    }
    return st;
}

enum sl_status sl_layer_run(const struct sl_layer_pass *lp)
{
    SL_CHECK(lp->layer->kind->forward(lp));
    if (lp->layer->hidden) {
        return sl_activate(lp);
    }
    return SL_OK;
}

enum sl_status sl_layer_run_back(const struct sl_layer_pass *lp)
{
    if (lp->layer->hidden) {
        SL_CHECK(sl_deactivate(lp));
    }
    return lp->layer->kind->backward(lp);
}
