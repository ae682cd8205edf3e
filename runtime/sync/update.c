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

/* A step reads few rows of a matrix that multiplies sparse features. */
static bool steps_by_rows(const struct sl_layer_pass *lp, int k)
{
    return k < SL_MAX_OWN_PARAMETERS && lp->layer->kind->parameter[k].by_rows && lp->i == 0 &&
           lp->pass->shards->is_sparse;
}

/* Batch norm computes its own gradients, and a derived parameter's are the gradients of others. */
static bool has_partials(const struct sl_layer_pass *lp, int k)
{
    if (k >= SL_MAX_OWN_PARAMETERS) {
        return lp->layer->norm != SL_NORM_BATCH;
    }
    return !lp->layer->kind->parameter[k].by_derived;
}

/* Whether a term of a derived parameter's gradient is added to the sum of k's partial gradients. */
static bool is_also_derived(const struct sl_layer_pass *lp, int k)
{
    return k > 0 && k == lp->layer->kind->also_derived;
}

/* Whether the task of Adam's step can sum partial gradients: all partials are in this process, and nothing is mixed. */
static bool sums_here(const struct sl_update *u, const struct sl_layer_pass *lp)
{
    return u->transport->kind->sums_here && lp->pass->plan->n_replicas == 1;
}

/* Whether it does for parameter k. */
static bool sums_in_step(const struct sl_update *u, const struct sl_layer_pass *lp, int k)
{
    return sums_here(u, lp) && has_partials(lp, k) && !steps_by_rows(lp, k) && !is_also_derived(lp, k);
}

/* The gradient of parameter k in each replica: the sum of its partial gradients. */
static enum sl_status reduce(const struct sl_update *u, const struct sl_layer_pass *lp, int k)
{
    for (uint32_t r = 0; r < lp->pass->plan->n_replicas; r++) {
        if (!sl_plan_trains(lp->pass->plan, r)) {
            continue;
        }
        struct sl_task_args head = head_of(lp, r);
        struct sl_partials *lists = lp->pass->source->lists(lp, r, k);
        const bool notes = lists->touched != NULL && sums_here(u, lp);
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

static struct sl_optimize_handles array_of(const struct sl_update *u, const struct sl_layer_pass *lp, uint32_t r, int k)
{
    static const uint32_t one[] = {0};
    const struct sl_parameter *p = &lp->pass->model[r].layer[lp->i].parameter[k];
    const struct sl_partials *lists = lp->pass->source->lists(lp, r, k);
    struct sl_optimize_handles array = {.w = p->value_handle,
                                        .m = p->moment1_handle,
                                        .v = p->moment2_handle,
                                        .n = 1,
                                        .partials = &p->gradient_handle,
                                        .leaf = one,
                                        .by_rows = steps_by_rows(lp, k)};
    if (lists->summed) {
        array.touched = lists->sum_touched;
    }
    if (sums_in_step(u, lp, k)) {
        array.sum = p->gradient_handle;
        array.n = lists->n;
        array.partials = lists->handle;
        array.leaf = lists->leaf;
    }
    return array;
}

/* A step of Adam for parameters first .. end - 1. */
static enum sl_status optimise(const struct sl_update *u, const struct sl_layer_pass *lp, int first, int end,
                               const struct sl_adam *adam)
{
    for (uint32_t r = 0; r < lp->pass->plan->n_replicas; r++) {
        const struct sl_task_args head = head_of(lp, r);
        struct sl_optimize_handles arrays[SL_MAX_PARAMETERS];
        uint32_t n = 0;
        for (int k = first; k < end && sl_plan_trains(lp->pass->plan, r); k++) {
            if (sl_parameter_trained(&lp->layer->parameter[k])) {
                arrays[n] = array_of(u, lp, r, k);
                if (arrays[n].by_rows) {
                    SL_CHECK(sl_optimize_submit(&head, adam, 1, &arrays[n]));
                } else {
                    n++;
                }
            }
        }
        if (n > 0) {
            SL_CHECK(sl_optimize_submit(&head, adam, n, arrays));
        }
    }
    return SL_OK;
}

/* The gradients of the derived parameters, then those of the parameters that they were derived from. */
static enum sl_status underive(const struct sl_update *u, const struct sl_layer_pass *lp)
{
    const struct sl_layer_kind *kind = lp->layer->kind;
    for (int k = 0; k < (int)kind->n_parameters; k++) {
        if (sl_shape_is_derived(kind->parameter[k].shape) && lp->layer->parameter[k].n_rows > 0) {
            SL_CHECK(reduce(u, lp, k));
        }
    }
    if (kind->also_derived > 0) {
        SL_CHECK(reduce(u, lp, kind->also_derived));
    }
    for (uint32_t r = 0; r < lp->pass->plan->n_replicas; r++) {
        if (sl_plan_trains(lp->pass->plan, r)) {
            SL_CHECK(kind->derive_back(lp, r));
        }
    }
    return SL_OK;
}

/* Mixing needs each parameter's step by itself. So do CPU workers, which share the parameters of a layer. A GPU takes a
 * layer's parameters in one task. */
enum sl_status sl_update_layer(const struct sl_update *u, const struct sl_layer_pass *lp, const struct sl_adam *adam)
{
    const bool together = lp->pass->run->has_cuda && sums_here(u, lp);
    uint64_t step = lp->pass->step;
    if (lp->layer->kind->derive != NULL) {
        SL_CHECK(underive(u, lp));
    }
    for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
        if (!sl_parameter_trained(&lp->layer->parameter[k])) {
            continue;
        }
        if (has_partials(lp, k) && !sums_in_step(u, lp, k) && !is_also_derived(lp, k)) {
            SL_CHECK(reduce(u, lp, k));
        }
        SL_CHECK(sl_replicas_mix_gradients(u->replicas, step, lp->i, k));
        if (!together) {
            SL_CHECK(optimise(u, lp, k, k + 1, adam));
        }
        SL_CHECK(sl_replicas_mix_weights(u->replicas, step, lp->i, k));
    }
    return together ? optimise(u, lp, 0, SL_MAX_PARAMETERS, adam) : SL_OK;
}
