/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The inside of a trainer, shared by trainer.c (the loop) and trainer_state.c (what is kept and what is written).
 */
#ifndef SL_RUNTIME_TRAINER_STATE_H
#define SL_RUNTIME_TRAINER_STATE_H

#include "partition/partition.h"
#include "runtime/full/evaluate.h"
#include "runtime/machine/machine.h"
#include "runtime/minibatch/step.h"
#include "runtime/report/trace.h"
#include "runtime/train/memory_need.h"
#include "runtime/train/trainer.h"

/* How far a run has come; all of it is in its checkpoints. */
struct sl_progress_state {
    uint64_t step;       /* the next one; counts over the whole run */
    uint64_t best_epoch; /* 0: nothing evaluated yet */
    double best_valid_acc;
    double test_acc_at_best;
    uint64_t n_worse;          /* evaluations since the best one */
    double seconds;            /* training, of the epochs that are done */
    double epoch_seconds;      /* training, of the epoch in hand up to `step` */
    struct sl_step_sizes sums; /* of the epoch in hand */
};

struct sl_trainer {
    struct sl_settings *settings;
    struct sl_plan plan;
    struct sl_machine machine;
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct sl_shards shards;
    struct sl_model
        model; /* what is scored and saved: with several replicas their average, as of the last evaluation */
    struct sl_model *replica; /* what is trained: n_replicas of them, or the model itself */
    uint32_t n_replicas;
    struct sl_run run;
    struct sl_door door;
    struct sl_steps steps;
    struct sl_trace trace;
    bool run_ready;
    uint64_t memory_bytes;
    struct sl_gpu_need gpu_need; /* what a GPU may have to hold at a time */
    uint32_t n_unplaced;         /* ranges of the tables that the system would not put on a NUMA node */
    uint32_t n_unpinned;         /* large tables and buffers that GPUs fetch from unlocked memory */
    struct sl_progress_state state;
    double *losses;                    /* n_per_epoch: of the epoch in hand */
    starpu_data_handle_t *loss_handle; /* over them */
    uint32_t n_reported;               /* steps of the epoch whose loss has been reported */
    sl_real *best;                     /* weights of the best evaluation; NULL until the first */
};

/* Adam at a step, which counts over the whole run, as t does: the moments' bias is corrected once, not once an epoch. */
struct sl_adam sl_trainer_adam(const struct sl_settings *settings, uint64_t step, uint32_t n_per_epoch);

/* With several replicas: the model becomes their average, which they do not notice. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_trainer_average(struct sl_trainer *trainer);

/* Save the state to --checkpoint. No task is running. SL_EIO, SL_ENOMEM. */
enum sl_status sl_trainer_save_state(struct sl_trainer *trainer);

/* Take pes, group size and chunks that the command line leaves open from the checkpoint, and refuse options that would not go
 * on exactly. Before the trainer decides them. SL_EINVAL: an option differs (message: both values). SL_EFILE. */
enum sl_status sl_trainer_match_settings(struct sl_settings *settings, const struct sl_tensors *checkpoint);

/* Fill model, best weights and state from a checkpoint; then, once the ring is open, the losses of the epoch in hand.
 * SL_EFILE. On failure the trainer is not to be trained. */
enum sl_status sl_trainer_load_state(struct sl_trainer *trainer, const struct sl_tensors *checkpoint);
enum sl_status sl_trainer_load_losses(struct sl_trainer *trainer, const struct sl_tensors *checkpoint);

/* Refuse --save, --predict, --embed and --metrics files whose folder is missing or cannot be written, and make the --checkpoint
 * folder, before any work is done. SL_EIO. */
enum sl_status sl_trainer_check_files(const struct sl_settings *settings);

/* Write --save, --predict and --embed, from the best weights. SL_EIO, SL_ENOMEM, a failure of the inference. */
enum sl_status sl_trainer_write_files(struct sl_trainer *trainer);

/* Load --load into the model. SL_EFILE, SL_EIO. */
enum sl_status sl_trainer_load_model(struct sl_trainer *trainer);

#endif
