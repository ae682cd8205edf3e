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
    enum sl_status st;
    SL_TRY(st, lp->layer->kind->forward(lp), done);
    if (lp->layer->hidden) {
        st = sl_activate(lp);
    }
done:
    return st;
}

enum sl_status sl_layer_run_back(const struct sl_layer_pass *lp)
{
    enum sl_status st;
    if (lp->layer->hidden) {
        SL_TRY(st, sl_deactivate(lp), done);
    }
    st = lp->layer->kind->backward(lp);
done:
    return st;
}
