/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The inside of a session (runtime/starling.h): it opens and owns the machine, data, model and transport; how an epoch runs is its
 * schedule's (runtime/schedule/schedule.h). Epochs are in loop.c, checkpoints in state.c, what is left behind in outputs.c.
 */
#ifndef SL_RUNTIME_TRAIN_SESSION_H
#define SL_RUNTIME_TRAIN_SESSION_H

#include <stdatomic.h>

#include "partition/partition.h"
#include "runtime/files/checkpoint.h"
#include "runtime/full/halo.h"
#include "runtime/machine/machine.h"
#include "runtime/report/progress.h"
#include "runtime/report/trace.h"
#include "runtime/schedule/schedule.h"
#include "runtime/starling.h"
#include "runtime/train/memory_need.h"

/* How far a run has come; all of it is in its checkpoints. */
struct sl_progress_state {
    uint64_t step;       /* the next one; counts over the whole run */
    uint64_t best_epoch; /* 0: nothing evaluated yet */
    double best_valid_acc;
    double test_acc_at_best;
    uint64_t n_worse;     /* evaluations since the best one */
    double seconds;       /* training, of the epochs that are done */
    double epoch_seconds; /* training, of the epoch in hand up to `step` */
};

/* Where training reports to, while it does. */
struct sl_reports {
    struct sl_report to;
    bool talks; /* lines for people go to to.stream */
    struct sl_metrics metrics;
    struct sl_progress progress;
};

struct sl_session {
    struct sl_settings *settings; /* borrowed */
    struct sl_plan plan;
    struct sl_machine machine;
    struct sl_dataset loaded;         /* where the session has loaded it itself */
    const struct sl_dataset *dataset; /* that, or the caller's; gone when it is laid out in shards */
    char name[64], split[64];         /* the dataset's */
    bool synthetic;
    struct sl_feature_range range; /* of the dataset */
    uint32_t n_empty_classes;      /* that no vertex has */
    uint64_t data_hash;            /* of all of it and its parts: sl_ranks_match_data */
    bool given;                    /* the caller's, made of arrays */
    struct sl_partition partition;
    struct sl_shards shards;
    struct sl_halo halo; /* with several ranks */
    struct sl_model
        model; /* what is scored and saved: with several replicas their average, as of the last evaluation */
    struct sl_model *replica; /* what is trained: the plan's n_replicas of them, or the model itself */
    uint32_t n_replicas;      /* made so far */
    struct sl_run run;
    struct sl_transport transport;
    struct sl_schedule schedule;
    struct sl_trace trace;
    bool run_ready;
    struct sl_checkpoint_lock lock; /* on the --checkpoint folder */
    uint64_t memory_bytes;          /* an upper bound of what the run needs; at rank 0, the rank that needs most */
    struct sl_gpu_need gpu_need;    /* what a GPU may have to hold at a time */
    uint32_t n_unplaced;            /* ranges of the tables that the system would not put on a NUMA node */
    uint32_t n_unpinned;            /* large tables and buffers that GPUs fetch from unlocked memory */
    struct sl_progress_state state;
    double *losses;                    /* n_per_epoch: of the epoch in hand */
    starpu_data_handle_t *loss_handle; /* over them */
    uint64_t sent_bytes;               /* to other ranks, up to the epoch in hand */
    struct sl_waits waits[SL_MAX_PES]; /* of each rank, in the epoch in hand, at rank 0 */
    struct sl_waits waited;            /* of all ranks, in all epochs, at rank 0 */
    uint32_t n_reported;               /* steps of the epoch whose loss has been reported */
    sl_real *best;                     /* weights of the best evaluation; NULL until the first */
    struct sl_reports reports;
    bool begun;       /* sl_session_train was called */
    bool settled;     /* and the model is the one it has come to */
    atomic_bool stop; /* asked to */
};

#endif
