/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Forward, activate; and back. */
#include "runtime/model/run.h"

#include "runtime/model/activation.h"

enum sl_status sl_layer_derive(const struct sl_layer_pass *lp)
{
    enum sl_status st = SL_OK;
    for (uint32_t v = 0; st == SL_OK && lp->layer->kind->derive != NULL && v < lp->pass->plan->n_replicas; v++) {
        st = sl_plan_trains(lp->pass->plan, v) ? lp->layer->kind->derive(lp, v) : SL_OK;
    }
    return st;
}

enum sl_status sl_layer_run(const struct sl_layer_pass *lp)
{
    enum sl_status st;
    SL_TRY(st, lp->layer->kind->forward(lp), done);
    st = lp->layer->hidden ? sl_activate(lp) : SL_OK;
done:
    return st;
}

enum sl_status sl_layer_run_back(const struct sl_layer_pass *lp)
{
    enum sl_status st;
    SL_TRY(st, lp->layer->hidden ? sl_deactivate(lp) : SL_OK, done);
    st = lp->layer->kind->backward(lp);
done:
    return st;
}
