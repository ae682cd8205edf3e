/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How an epoch runs: a table of operations over what the session has opened. The session (runtime/train/session.h) calls them; the
 * sampled minibatch (runtime/minibatch/minibatch.h) is one schedule.
 */
#ifndef SL_RUNTIME_PLAN_SCHEDULE_H
#define SL_RUNTIME_PLAN_SCHEDULE_H

#include <stdio.h>

#include "codelets/optimize.h"
#include "runtime/plan/plan.h"

/* Types of higher folders, by name only. */
struct sl_metrics_epoch;
struct sl_model;
struct sl_shards;
struct sl_tensor;
struct sl_tensors;
struct sl_transport;

/* What a schedule works on, all of it borrowed. */
struct sl_work {
    struct sl_settings *settings; /* what they leave open and the schedule decides is filled in: feature_cache */
    const struct sl_plan *plan;
    struct sl_run *run;
    struct sl_shards *shards;
    struct sl_model *model; /* the plan's replicas of it, in a row */
    struct sl_transport *transport;
    uint64_t
        gpu_bytes; /* that tasks' data takes of one GPU at the most, without dense features and what the schedule keeps */
};

/* Most tensors that a schedule adds to a checkpoint. */
#define SL_SCHEDULE_TENSORS (SL_MAX_MODEL_LAYERS + 8)

struct sl_schedule_kind;

struct sl_schedule {
    const struct sl_schedule_kind *kind;
    void *own;          /* the kind's */
    uint32_t n_refused; /* buffers that GPUs fetch from, and that the system did not lock in memory */
};

/* `own` is what open has put there. One thread calls, in the order of the steps, which count over the whole run. */
struct sl_schedule_kind {
    const char *name;

    /* Prepare for the steps from first_step on. SL_EINVAL, SL_ENOTSUP, SL_ENOMEM, SL_ESTARPU. What there is then is for close. */
    enum sl_status (*open)(const struct sl_work *work, uint64_t first_step, struct sl_schedule *out);

    /* Wait for the tasks, release. */
    void (*close)(void *own);

    /* Submit a step's whole work, with this step's Adam. loss: one double, the mean over the step's seeds, written by the graph.
     * Returns the failure of an earlier task where there is one. */
    enum sl_status (*advance)(void *own, uint64_t step, const struct sl_adam *adam, starpu_data_handle_t loss);

    /* Steps in flight: when a step has been submitted, the loss of the step so many before it is there. */
    uint32_t (*in_flight)(const void *own);

    /* Rank 0 takes over what the other ranks have counted of the epoch in hand. All ranks call, after sl_ranks_drain. SL_EIO. NULL: there
     * is one rank. */
    enum sl_status (*gather)(void *own);

    /* The model as it is, at all ranks; or, for a checkpoint, with all that `save` needs of the other ranks at rank 0. All ranks call,
     * after sl_ranks_drain. SL_EIO, SL_EINVAL, SL_ESTARPU, SL_ENOMEM. NULL: so it is at any time. */
    enum sl_status (*share)(void *own, bool checkpoint);

    /* What the epoch in hand has come to, once its tasks are done and rank 0 has taken over: vertices, edges, bytes, cache. SL_ESTARPU. */
    enum sl_status (*tally)(void *own, struct sl_metrics_epoch *out);

    /* An epoch has ended: count anew. */
    void (*turn)(void *own);

    /* What a checkpoint in the middle of an epoch has to hold, at rank 0: append at most SL_SCHEDULE_TENSORS, whose data stay
     * the schedule's; read them again. No task is running. SL_ENOMEM, SL_ESTARPU, SL_EFILE. */
    enum sl_status (*save)(void *own, struct sl_tensor *tensors, uint32_t *n);
    enum sl_status (*load)(void *own, const struct sl_tensors *checkpoint);

    /* What was decided, for people: whole lines. */
    void (*describe)(const void *own, FILE *stream);
};

#endif
