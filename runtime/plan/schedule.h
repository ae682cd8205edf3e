/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How an epoch runs: a table of operations over the session's data (runtime/train/session.h). Schedules: sampled
 * minibatches (runtime/minibatch/minibatch.h) and full-graph training (runtime/pipe/pipeline.c).
 */
#ifndef SL_RUNTIME_PLAN_SCHEDULE_H
#define SL_RUNTIME_PLAN_SCHEDULE_H

#include <stdbool.h>
#include <stdio.h>

#include "codelets/ends/optimize.h"
#include "runtime/plan/plan.h"

/* Types of higher folders, by name only. */
struct sl_machine;
struct sl_metrics_epoch;
struct sl_model;
struct sl_shards;
struct sl_tensor;
struct sl_tensors;
struct sl_transport;

/* Inputs of a schedule, all borrowed from the session. */
struct sl_work {
    /* A schedule fills in feature_cache if left open. */
    struct sl_settings *settings;
    const struct sl_plan *plan;
    struct sl_run *run;
    struct sl_shards *shards;
    /* array of the plan's replicas */
    struct sl_model *model;
    struct sl_transport *transport;
    /* Most bytes of task data on one GPU, without dense features and without buffers of the schedule. */
    uint64_t gpu_bytes;
};

/* Most tensors of a schedule in a checkpoint. */
#define SL_SCHEDULE_TENSORS (SL_MAX_MODEL_LAYERS + 8)

struct sl_schedule_kind;

struct sl_schedule {
    const struct sl_schedule_kind *kind;
    /* state of the kind, made by its open */
    void *own;
    /* buffers for GPUs that the system refused to lock in memory */
    uint32_t n_refused;
};

/* One thread calls all operations, in the order of the steps. Steps count over the whole run. `own` is
 * sl_schedule.own.
 *
 * A collective operation is called by all ranks, after sl_ranks_drain. */
struct sl_schedule_kind {
    const char *name;
    /* An epoch is one step over all training vertices: no step is sampled. Parts consist of pieces, which are summed
     * separately (partition/partition.h), and belong to no home. */
    bool whole_graph;
    /* Sums read vertex factors, whatever the model (runtime/model/kinds.h). */
    bool reads_factors;
    /* Several ranks have no common operation in a step: they agree to stop when an epoch ends. */
    bool agrees_late;
    /* What to try if there is too little memory: a literal. */
    const char *advice;

    /* Decide the options that are open: GPUs, PEs, groups, chunks, placement. Collective. SL_EINVAL, SL_EIO. */
    enum sl_status (*decide)(struct sl_settings *settings, const struct sl_machine *machine);

    /* Refuse settings that n_ranks > 1 ranks cannot run. Open options are 0. SL_EINVAL. */
    enum sl_status (*check_ranks)(const struct sl_settings *settings, uint32_t n_ranks);

    /* Prepare for the steps from first_step on. SL_EINVAL, SL_ENOTSUP, SL_ENOMEM, SL_ESTARPU. After a failure the
     * session still calls close on out->own. */
    enum sl_status (*open)(const struct sl_work *work, uint64_t first_step, struct sl_schedule *out);

    /* Wait for the tasks and release everything. */
    void (*close)(void *own);

    /* Submit all tasks of a step, with this step's Adam. The graph writes the mean loss of the step's seeds to `loss`
     * (one double). Returns the failure of an earlier task, if any. */
    enum sl_status (*advance)(void *own, uint64_t step, const struct sl_adam *adam, starpu_data_handle_t loss);

    /* Steps in flight, n: after step i is submitted, the loss of step i - n is ready. */
    uint32_t (*in_flight)(const void *own);

    /* Add the other ranks' counts of the current epoch to rank 0's. Collective. SL_EIO. NULL: a single rank. */
    enum sl_status (*gather)(void *own);

    /* checkpoint false: bring the current model to all ranks. true: bring all data for `save` to rank 0.
     * Collective. SL_EIO, SL_EINVAL, SL_ESTARPU, SL_ENOMEM. NULL: the data are already in place. */
    enum sl_status (*share)(void *own, bool checkpoint);

    /* Fill in the current epoch's vertices, edges, bytes and cache hits. Its tasks are done, and rank 0 has gathered.
     * SL_ESTARPU. */
    enum sl_status (*tally)(void *own, struct sl_metrics_epoch *out);

    /* Begin a new epoch: reset the counts. */
    void (*turn)(void *own);

    /* With a vertex budget, when an epoch is complete: the seeds of a step of the next epoch, the same on all ranks. If
     * the caller changes the plan's batch it calls `resize`, while no task is running. SL_EINVAL, SL_ENOMEM. NULL: an
     * epoch is one step. */
    uint64_t (*next_batch)(void *own);
    enum sl_status (*resize)(void *own);

    /* Append the schedule's state to a checkpoint, at rank 0: at most SL_SCHEDULE_TENSORS tensors. A checkpoint may
     * fall in the middle of an epoch. The schedule keeps owning the data. No task is running. SL_ENOMEM, SL_ESTARPU,
     * SL_EFILE. */
    enum sl_status (*save)(void *own, struct sl_tensor *tensors, uint32_t *n);

    /* Read the state back from a checkpoint. The same conditions and codes as save. */
    enum sl_status (*load)(void *own, const struct sl_tensors *checkpoint);

    /* Print the schedule's decisions for people: whole lines. */
    void (*describe)(const void *own, FILE *stream);
};

/* The schedule that the settings name (runtime/train/schedules.c). */
const struct sl_schedule_kind *sl_schedule_of(const struct sl_settings *settings);

extern const struct sl_schedule_kind sl_pipeline; /* runtime/pipe/pipeline.c: a step is an epoch */

#endif
