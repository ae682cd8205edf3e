/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The model's layers over the step's blocks, and the update of their parameters. */
#include "runtime/minibatch/layer.h"

#include "runtime/model/run.h"
#include "runtime/sync/update.h"

enum sl_status sl_layer_forward(struct sl_steps *s, uint32_t i)
{
    struct sl_layer_pass lp = sl_pass_layer(&s->pass, i);
    enum sl_status st;
    SL_TRY(st, sl_layer_derive(&lp), done);
    st = sl_layer_run(&lp);
done:
    return st;
}

/* Release the layer's rows and its input. The layer above has already released H, as its own input. GH of the input
 * stays: the layer below reads it. */
static void step_down(const struct sl_layer_pass *lp)
{
    for (uint32_t p = lp->pass->plan->first_pe; p < lp->pass->plan->end_pe; p++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            sl_layer_pass_done(lp, p, role == SL_ROWS_H ? SL_ROWS_INPUT : (enum sl_role)role);
        }
    }
    lp->pass->source->returned(lp);
}

enum sl_status sl_layer_backward(struct sl_steps *s, uint32_t i)
{
    struct sl_layer_pass lp = sl_pass_layer(&s->pass, i);
    enum sl_status st;
    SL_TRY(st, sl_layer_run_back(&lp), done);
    step_down(&lp);
done:
    return st;
}

enum sl_status sl_layer_update(struct sl_steps *s, uint32_t i, const struct sl_adam *adam)
{
    const struct sl_update update = {s->transport, &s->replicas, NULL};
    struct sl_layer_pass lp = sl_pass_layer(&s->pass, i);
    return sl_update_layer(&update, &lp, adam);
}
