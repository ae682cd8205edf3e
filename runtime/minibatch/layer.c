/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A step's layers: the model's, over the step's blocks, and what becomes of their gradients. */
#include "runtime/minibatch/layer.h"

#include "runtime/model/run.h"

enum sl_status sl_layer_forward(struct sl_steps *s, uint32_t i)
{
    struct sl_at at = sl_pass_at(&s->pass, i);
    return sl_layer_run(&at);
}

/* All of this layer is done with, but GH of its input, which is the next layer's output. */
static void step_down(const struct sl_at *at)
{
    for (uint32_t p = 0; p < at->pass->plan->n_pes; p++) {
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
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; !summed && r < s->plan->n_replicas; r++) {
        struct sl_task_args head = sl_step_head(s, at->pass->step, sl_plan_first_of(s->plan, r), 0);
        struct sl_door_sum sum = {.parameter = at->i * SL_N_PARAMETERS + (uint32_t)k,
                                  .lists = sl_step_partials(s, at->i, r, k),
                                  .sum = s->model[r].layer[at->i].parameter[k].gradient_handle};
        SL_TRY(st, sl_door_add(s->door, &head, &sum), done);
    }
done:
    return st;
}

static enum sl_status optimise(const struct sl_at *at, int k, const struct sl_adam *adam)
{
    struct sl_steps *s = at->pass->owner;
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; r < s->plan->n_replicas; r++) {
        const struct sl_parameter *parameter = &s->model[r].layer[at->i].parameter[k];
        struct sl_task_args head = sl_step_head(s, at->pass->step, sl_plan_first_of(s->plan, r), 0);
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
    for (uint32_t v = 0; v < at->pass->plan->n_replicas; v++) {
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
        SL_TRY(st, sl_replicas_mix_gradients(&s->replicas, step, i, k), done);
        SL_TRY(st, optimise(&at, k, adam), done);
        SL_TRY(st, sl_replicas_mix_weights(&s->replicas, step, i, k), done);
    }
done:
    return st;
}
