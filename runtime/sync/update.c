/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Reduce, mix, optimise, mix: one parameter after the other. */
#include "runtime/sync/replicas.h"

/* Head of the tasks for replica r, which its first PE runs. */
static struct sl_task_args head_of(const struct sl_layer_pass *lp, uint32_t r)
{
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, r));
    head.hop = 0;
    return head;
}

/* Whether the sum of the partial gradients has notes of its touched rows. A mixed gradient has none. */
static bool notes_touched(const struct sl_update *u, const struct sl_layer_pass *lp, const struct sl_partials *lists)
{
    return lists->touched != NULL && u->transport->kind->sums_touched && lp->pass->plan->n_replicas == 1;
}

/* The gradient of parameter k in each replica: the sum of its partial gradients. Batch norm computes its own
 * gradients. */
static enum sl_status reduce(const struct sl_update *u, const struct sl_layer_pass *lp, int k)
{
    if (lp->layer->norm == SL_NORM_BATCH && (k == SL_NORM_WEIGHT || k == SL_NORM_BIAS)) {
        return SL_OK;
    }
    for (uint32_t r = 0; r < lp->pass->plan->n_replicas; r++) {
        if (!sl_plan_trains(lp->pass->plan, r)) {
            continue;
        }
        struct sl_task_args head = head_of(lp, r);
        struct sl_partials *lists = lp->pass->source->lists(lp, r, k);
        const bool notes = notes_touched(u, lp, lists);
        struct sl_transport_sum sum = {.parameter = lp->i * SL_MAX_PARAMETERS + (uint32_t)k,
                                       .replica = r,
                                       .ranks = sl_plan_trainers(lp->pass->plan, r),
                                       .lists = lists,
                                       .notes = notes,
                                       .fresh = !lists->summed,
                                       .sum = lp->pass->model[r].layer[lp->i].parameter[k].gradient_handle};
        SL_CHECK(sl_transport_add(u->transport, &head, &sum));
        lists->summed = notes;
    }
    return SL_OK;
}

/* A step reads few rows of a matrix that multiplies sparse features. */
static bool steps_by_rows(const struct sl_layer_pass *lp, int k)
{
    return k < SL_MAX_OWN_PARAMETERS && lp->layer->kind->parameter[k].by_rows && lp->i == 0 &&
           lp->pass->shards->is_sparse;
}

static enum sl_status optimise(const struct sl_update *u, const struct sl_layer_pass *lp, int k,
                               const struct sl_adam *adam)
{
    for (uint32_t r = 0; r < lp->pass->plan->n_replicas; r++) {
        if (!sl_plan_trains(lp->pass->plan, r)) {
            continue;
        }
        const struct sl_parameter *parameter = &lp->pass->model[r].layer[lp->i].parameter[k];
        const struct sl_partials *lists = lp->pass->source->lists(lp, r, k);
        const struct sl_task_args head = head_of(lp, r);
        struct sl_optimize_handles handles = {.gradient = parameter->gradient_handle,
                                              .w = parameter->value_handle,
                                              .m = parameter->moment1_handle,
                                              .v = parameter->moment2_handle,
                                              .by_rows = steps_by_rows(lp, k)};
        if (handles.by_rows && notes_touched(u, lp, lists)) {
            handles.touched = lists->sum_touched;
        }
        SL_CHECK(sl_optimize_submit(&head, adam, &handles));
    }
    return SL_OK;
}

/* The gradients of the derived parameters, then those of the parameters that they were derived from. */
static enum sl_status underive(const struct sl_update *u, const struct sl_layer_pass *lp)
{
    SL_CHECK(reduce(u, lp, lp->layer->kind->derived));
    if (lp->layer->n_edge_features > 0) {
        SL_CHECK(reduce(u, lp, lp->layer->kind->derived_scores));
    }
    for (uint32_t r = 0; r < lp->pass->plan->n_replicas; r++) {
        if (sl_plan_trains(lp->pass->plan, r)) {
            SL_CHECK(lp->layer->kind->derive_back(lp, r));
        }
    }
    return SL_OK;
}

enum sl_status sl_update_layer(const struct sl_update *u, const struct sl_layer_pass *lp, const struct sl_adam *adam)
{
    uint64_t step = lp->pass->step;
    if (lp->layer->kind->derive != NULL) {
        SL_CHECK(underive(u, lp));
    }
    for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
        if (!sl_parameter_trained(&lp->layer->parameter[k])) {
            continue;
        }
        if (k >= SL_MAX_OWN_PARAMETERS || !lp->layer->kind->parameter[k].by_derived) {
            SL_CHECK(reduce(u, lp, k));
        }
        SL_CHECK(sl_replicas_mix_gradients(u->replicas, step, lp->i, k));
        SL_CHECK(optimise(u, lp, k, adam));
        SL_CHECK(sl_replicas_mix_weights(u->replicas, step, lp->i, k));
    }
    return SL_OK;
}
