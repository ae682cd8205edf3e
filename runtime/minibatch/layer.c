/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A step's layers: the model's, over the step's blocks, and what becomes of their gradients. */
#include "runtime/minibatch/layer.h"

#include "runtime/model/run.h"
#include "runtime/sync/update.h"

enum sl_status sl_layer_forward(struct sl_steps *s, uint32_t i)
{
    struct sl_at at = sl_pass_at(&s->pass, i);
    enum sl_status st;
    SL_TRY(st, sl_layer_derive(&at), done);
    st = sl_layer_run(&at);
done:
    return st;
}

/* All of this layer is done with, but GH of its input, which is the next layer's output. */
static void step_down(const struct sl_at *at)
{
    for (uint32_t p = at->pass->plan->first_pe; p < at->pass->plan->end_pe; p++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            sl_at_done(at, p, role == SL_ROWS_H ? SL_ROWS_INPUT : (enum sl_role)role);
        }
    }
    at->pass->source->returned(at);
}

enum sl_status sl_layer_backward(struct sl_steps *s, uint32_t i)
{
    struct sl_at at = sl_pass_at(&s->pass, i);
    enum sl_status st;
    SL_TRY(st, sl_layer_run_back(&at), done);
    step_down(&at);
done:
    return st;
}

enum sl_status sl_layer_update(struct sl_steps *s, uint32_t i, const struct sl_adam *adam)
{
    const struct sl_update update = {s->door, &s->replicas, NULL};
    struct sl_at at = sl_pass_at(&s->pass, i);
    return sl_update_layer(&update, &at, adam);
}
