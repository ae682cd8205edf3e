/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A step's layers: the model's, over the step's blocks, and what becomes of their gradients. */
#include "runtime/minibatch/layer.h"

#include "codelets/reduce.h"
#include "runtime/model/kinds.h"
#include "runtime/plan/plan.h"

enum sl_status sl_layer_forward(struct sl_steps *s, uint32_t i)
{
    struct sl_at at = sl_pass_at(&s->pass, i);
    return sl_layer_run(&at);
}

/* All of this layer is done with, but GH of its input, which is the next layer's output. */
static void step_down(const struct sl_at *at)
{
    for (uint32_t p = 0; p < at->pass->n_pes; p++) {
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

/* ---- synchronise, optimise ---- */

/* Each replica's gradient of parameter k: the sum of its partials, unless batch norm has left it. */
static enum sl_status reduce(const struct sl_at *at, int k)
{
    struct sl_steps *s = at->pass->owner;
    bool summed = at->layer->norm == SL_NORM_BATCH && (k == SL_NORM_WEIGHT || k == SL_NORM_BIAS);
    uint32_t n_pes = s->n_pes / s->n_replicas;
    enum sl_status st = SL_OK;
    if (!summed && s->crossing.share != NULL) {
        return sl_crossing_gradient(s, at->pass->step, at->i, k);
    }
    for (uint32_t p = 0; !summed && p < s->n_pes; p += n_pes) {
        struct sl_partials *partials = at->pass->source->partials(at, p, k);
        const struct sl_layer *layer = &s->model[sl_step_replica(s, p)].layer[at->i];
        struct sl_task_args head = sl_step_head(s, at->pass->step, p, 0);
        SL_TRY(st, sl_reduce_submit(&head, partials->n, partials->handle, layer->parameter[k].gradient_handle), done);
    }
done:
    return st;
}

static enum sl_status optimise(const struct sl_at *at, int k, const struct sl_adam *adam)
{
    struct sl_steps *s = at->pass->owner;
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; r < s->n_replicas; r++) {
        const struct sl_parameter *parameter = &s->model[r].layer[at->i].parameter[k];
        struct sl_task_args head = sl_step_head(s, at->pass->step, r * (s->n_pes / s->n_replicas), 0);
        SL_TRY(st,
               sl_optimize_submit(&head, adam, parameter->gradient_handle, parameter->value_handle,
                                  parameter->moment1_handle, parameter->moment2_handle),
               done);
    }
done:
    return st;
}

/* The gradient of SL_DERIVED, and from it those of the parameters it was made of. */
static enum sl_status underive(const struct sl_at *at)
{
    enum sl_status st;
    SL_TRY(st, reduce(at, SL_DERIVED), done);
    for (uint32_t v = 0; v < at->pass->n_replicas; v++) {
        SL_TRY(st, at->layer->kind->derive_back(at, v), done);
    }
done:
    return st;
}

enum sl_status sl_layer_update(struct sl_steps *s, uint64_t step, uint32_t i, const struct sl_adam *adam)
{
    struct sl_at at = sl_pass_at(&s->pass, i);
    enum sl_status st = SL_OK;
    SL_TRY(st, at.layer->kind->derive != NULL ? underive(&at) : SL_OK, done);
    for (int k = 0; k < SL_N_PARAMETERS; k++) {
        if (!sl_parameter_trained(&at.layer->parameter[k])) {
            continue;
        }
        SL_TRY(st, at.layer->kind->parameter[k].by_derived ? SL_OK : reduce(&at, k), done);
        SL_TRY(st, sl_replicas_mix_gradients(s, step, i, k), done);
        SL_TRY(st, optimise(&at, k, adam), done);
        SL_TRY(st, sl_replicas_mix_weights(s, step, i, k), done);
    }
done:
    return st;
}
