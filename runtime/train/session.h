/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The inside of a session (runtime/starling.h). A session opens and owns the machine, data, model and transport.
 * Its schedule runs the epochs (runtime/plan/schedule.h). open.c opens and closes sessions, loop.c trains, state.c
 * has checkpoints, outputs.c output files.
 */
#ifndef SL_RUNTIME_TRAIN_SESSION_H
#define SL_RUNTIME_TRAIN_SESSION_H

#include <stdatomic.h>

#include "data/identity.h"
#include "partition/partition.h"
#include "runtime/exchange/transport.h"
#include "runtime/files/checkpoint.h"
#include "runtime/full/halo_lists.h"
#include "runtime/machine/machine.h"
#include "runtime/model/model.h"
#include "runtime/objective/objective.h"
#include "runtime/plan/schedule.h"
#include "runtime/report/progress.h"
#include "runtime/report/trace.h"
#include "runtime/starling.h"
#include "runtime/store/shards.h"
#include "runtime/train/adapt.h"
#include "runtime/train/claims.h"
#include "runtime/train/memory_need.h"

/* Progress of a run; stored in checkpoints. */
struct sl_progress_state {
    uint64_t step;         /* the next step, counted over the whole run */
    uint64_t best_epoch;   /* 0: none yet */
    struct sl_scores best; /* of the best epoch; if there is none, of the last evaluation */
    uint64_t n_worse;      /* evaluations since best_epoch */
    double seconds;        /* training time of the completed epochs */
    double epoch_seconds;  /* training time of the current epoch up to `step` */
};

/* Where training reports to. */
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
    /* the dataset, if loaded by the session */
    struct sl_dataset loaded;
    /* `loaded` or the caller's dataset, in the terms of the model of --load */
    struct sl_adapted adapted;
    /* of `adapted`; NULL once its data are in shards */
    const struct sl_dataset *dataset;
    /* the same as it was given or loaded */
    const struct sl_dataset *source;
    /* [n_relations]: the model's relation of each of the dataset's, without reverses; NULL: the same */
    uint32_t *relation_of;
    uint32_t n_relations;
    /* its facts, without tables */
    struct sl_dataset facts;
    /* the ids of the vertices, a line each, for --predict FILE.csv; NULL: not wanted, or numbers */
    char *vertex_names;
    /* of the dataset */
    char name[64], split[64];
    bool synthetic;
    /* of the dataset's features */
    struct sl_feature_range range;
    /* of the data, if the run has checkpoints or several ranks */
    struct sl_identity identity;
    /* the dataset is the caller's, made of arrays */
    bool given;
    struct sl_partition partition;
    struct sl_objective objective;
    struct sl_links pairs; /* of --pairs, dataset ids */
    struct sl_links asked; /* the same as in the file, for --predict FILE.csv */
    struct sl_ids listed;  /* of --predict-vertices, dataset ids; n 0: all */
    struct sl_shards shards;
    struct sl_halo halo; /* with several ranks */
    /* The model for scores and files. With several replicas: their average at the last evaluation. */
    struct sl_model model;
    /* The models in training: the plan's n_replicas, or &model. */
    struct sl_model *replica;
    uint32_t n_replicas; /* made so far */
    struct sl_run run;
    struct sl_transport transport;
    struct sl_schedule schedule;
    struct sl_trace trace;
    bool run_ready;
    struct sl_claims claims;        /* on the outputs */
    struct sl_checkpoint_lock lock; /* on the --checkpoint folder */
    uint32_t n_made;                /* folders of --checkpoint that were not there */
    /* Estimated peak memory in bytes, of a rank. */
    uint64_t memory_bytes;
    /* most bytes on a GPU */
    struct sl_gpu_need gpu_need;
    /* table ranges with refused NUMA placement */
    uint32_t n_unplaced;
    /* large tables and buffers for GPUs in unlocked memory */
    uint32_t n_unpinned;
    struct sl_progress_state state;
    /* losses of the current epoch's steps: n_per_epoch */
    double *losses;
    /* handles of the losses */
    starpu_data_handle_t *loss_handle;
    /* bytes sent to other ranks before the current epoch */
    uint64_t sent_bytes;
    /* [R], at rank 0: message times of each rank in the current epoch */
    struct sl_waits *waits;
    /* rank 0: message times of all ranks in all epochs */
    struct sl_waits waited;
    /* steps of the current epoch whose loss has been reported */
    uint32_t n_reported;
    /* weights of the evaluation of state.best; NULL before the first evaluation */
    sl_real *best;
    /* a score that selects was not defined, and a warning said so */
    bool told_undefined;
    struct sl_reports reports;
    bool rests;       /* the workers sleep */
    bool limited;     /* sl_memory_limit holds for the session */
    bool resumes;     /* from a checkpoint */
    bool moved;       /* features have other columns than in the dataset (sl_adapted.moved) */
    bool begun;       /* sl_session_train was called */
    bool settled;     /* the model is final (sl_outputs_settle) */
    atomic_bool stop; /* sl_session_stop was called */
};

/* The losses of an epoch's steps, and their handles. No task uses them. SL_ENOMEM. */
enum sl_status sl_session_open_losses(struct sl_session *session);
void sl_session_close_losses(struct sl_session *session);

/* Set the model to what the program sees: while several replicas are trained, their average. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_session_current_model(struct sl_session *session);

/* Idle workers look for tasks without end. Between the caller's calls the workers of a single process sleep:
 * sl_session_rest waits for all tasks first, and without GPUs it returns free compute buffers to the system. The
 * workers of several ranks stay awake, since messages come at any time. sl_session_wake returns the session if its
 * workers slept, otherwise NULL, for SL_OWNED(sl_session_rest_again). */
struct sl_session *sl_session_wake(struct sl_session *t);
void sl_session_rest(struct sl_session *t);
void sl_session_rest_again(struct sl_session **slept);

/* Adam's numbers for a step of an epoch, counted from 0. Both `step` and Adam's t count over the whole run, so bias
 * correction does not restart with an epoch. */
struct sl_adam sl_session_adam(const struct sl_settings *settings, uint64_t epoch, uint64_t step);

/* The session that answers of a loaded model leave open for the next call, until the next session opens: a process has
 * one session. NULL: none. sl_kept_close allows none. */
void sl_kept_keep(struct sl_session *session);
struct sl_session *sl_kept_session(void);
void sl_kept_close(void);

/* ---- outputs.c: --save, --predict, --embed, and the initial weights of --load ---- */

/* Read --pairs and --predict-vertices into the session, if given. The dataset is there. SL_EFILE, SL_EIO, SL_ENOMEM. */
enum sl_status sl_outputs_read_lists(struct sl_session *session);

/* At the end of training: set the model to the model of the best evaluation. Without an evaluation the model does
 * not change; several replicas are averaged. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_outputs_settle(struct sl_session *session);

/* Before training: check that the disks have room for --save, --predict and --embed. Only rank 0. SL_EIO. */
enum sl_status sl_outputs_check_room(const struct sl_session *session);

/* Write --save, --predict and --embed, after sl_outputs_settle. Collective: rank 0 writes, and receives rows from
 * all ranks a window at a time. SL_EIO, SL_ENOMEM, a failure of the inference. */
enum sl_status sl_outputs_write(struct sl_session *session);

/* Write the model with its description to an open file, after sl_outputs_settle. SL_EIO, SL_ENOMEM. */
enum sl_status sl_outputs_put_model(struct sl_session *session, struct sl_writer *writer);

/* Load the arrays of --load, which the settings have read, into the model. SL_EFILE. */
enum sl_status sl_outputs_load_model(struct sl_session *session);

struct sl_chosen; /* runtime/objective/collect.h */

/* Choose vertices, or ends of pairs, for sl_evaluate: n dataset ids, of rows of n_columns. The caller closes *out.
 * pairs: dataset ids, and relations of the model. SL_ENOMEM. */
enum sl_status sl_outputs_choose(const struct sl_session *session, uint32_t n_columns, uint32_t n,
                                 const sl_vertex *vertices, struct sl_chosen *out);
enum sl_status sl_outputs_choose_ends(const struct sl_session *session, const struct sl_links *pairs,
                                      struct sl_chosen *out);

/* Score pairs of vertices from the outputs of their ends, which sl_evaluate has filled in. out: [pairs->n], at rank 0.
 * Collective. SL_ESTARPU, SL_EIO, SL_ENOMEM. */
enum sl_status sl_outputs_score_pairs(struct sl_session *session, const struct sl_links *pairs, struct sl_chosen *ends,
                                      sl_real *out);

struct sl_inference; /* runtime/full/evaluate.h */

/* Run the current model on shards, the session's or others (sl_evaluate). The time does not count for an epoch. */
enum sl_status sl_session_infer(struct sl_session *session, const struct sl_shards *shards,
                                const struct sl_inference *wanted, struct sl_scores *scores_out);

/* Outputs and hidden rows of new vertices beside the session's dataset (sl_model_predict_new). NULL: not wanted. */
enum sl_status sl_session_rows_of_new(struct sl_session *session, const struct sl_dataset *dataset,
                                      const struct sl_arrays *arrays, float *logits, float *embeddings);

/* Rows of n vertices, dataset ids, in their order: outputs or, if `hidden`, hidden rows, [n x n_columns]. As
 * sl_session_evaluate. */
enum sl_status sl_session_rows(struct sl_session *session, bool hidden, uint32_t n, const sl_vertex *vertices,
                               uint32_t n_columns, float *out);

/* ---- state.c: saving and loading the state of a run in checkpoints ---- */

/* Set the model to the average of the replicas; the replicas do not change. With a single replica: bring the
 * current model to all ranks. Collective. SL_ESTARPU, SL_ENOMEM, or a status of the schedule's share. */
enum sl_status sl_state_average(struct sl_session *session);

/* Save the state to --checkpoint; rank 0 writes. Collective. No task is running. SL_EIO, SL_ENOMEM. */
enum sl_status sl_state_save(struct sl_session *session);

/* Check the settings against the checkpoint: the run must continue exactly (support/option.h). Open values of
 * pes, group-size and chunks come from the checkpoint. Call this before the session decides open options.
 * SL_EINVAL: an option differs (the message has both values). SL_EFILE. */
enum sl_status sl_state_match(struct sl_settings *settings, const struct sl_tensors *checkpoint);

/* Check the session's identity and its class weights against the checkpoint. SL_EINVAL: other data (the message names
 * the part and its two identities). SL_EFILE. */
enum sl_status sl_state_match_data(const struct sl_session *session, const struct sl_tensors *checkpoint);

/* The name of the split that the run in the checkpoint began with; NULL: unknown. */
const char *sl_state_split(const struct sl_tensors *checkpoint);

/* Load model, best weights and progress from a checkpoint. SL_EFILE. After a failure the session must not be
 * trained. */
enum sl_status sl_state_load(struct sl_session *session, const struct sl_tensors *checkpoint);

/* Load the losses and the schedule's counts of the current epoch, after the schedule is open. SL_EFILE, as above. */
enum sl_status sl_state_load_epoch(struct sl_session *session, const struct sl_tensors *checkpoint);

/* ---- agree.c: with several ranks (tasks/ranks.h) all must do the same; with one these functions do nothing. Rank 0
 * decides open options and writes the files ---- */

/* Refuse settings not supported with several ranks. SL_EINVAL. */
enum sl_status sl_ranks_check_settings(const struct sl_settings *settings);

/* Compare programs, versions, options (support/option.h) and the contents of --load. given: the program has
 * passed a dataset of its own. Collective. SL_EINVAL: the message names the first difference. */
enum sl_status sl_ranks_match_settings(const struct sl_settings *settings, bool given);

/* Compare the checkpoints that the ranks resume from; an empty struct: none. Collective. SL_EINVAL: other steps or
 * weights. */
enum sl_status sl_ranks_match_checkpoint(const struct sl_tensors *checkpoint);

/* Take over rank 0's decisions on PEs, group size, chunks and placement. Collective. SL_EINVAL: fewer PEs than
 * ranks. */
enum sl_status sl_ranks_take_decisions(struct sl_settings *settings);

/* Compare the identities of the datasets (graph, features, labels and split) and the contents of --class-weights and
 * --pairs. Collective. SL_EINVAL: the message names the part. */
enum sl_status sl_ranks_match_data(const struct sl_session *session);

/* Compare the partitions. Collective. SL_EINVAL. */
enum sl_status sl_ranks_match_parts(const struct sl_session *session);

/* The maximum of a number over the ranks, at rank 0; undefined elsewhere. Collective. SL_EIO. */
enum sl_status sl_ranks_max(uint64_t mine, uint64_t *most_out);

/* Called before and after work whose output file later ranks reuse (a cache): rank 0 works first, then the rest.
 * Collective. */
enum sl_status sl_ranks_rank0_first(void);
enum sl_status sl_ranks_rank0_done(void);

/* ---- metadata.c ---- */

/* The metadata of a model's file and of a checkpoint: all that changes an output (runtime/plan/model_file.h). */

/* Metadata, and storage for their strings. */
struct sl_labels {
    struct sl_metadata *entry;
    uint32_t n, capacity;
};

/* Add an entry; the strings are copied. A real number gets all its digits. SL_ENOMEM. */
enum sl_status sl_labels_add(struct sl_labels *labels, const char *key, const char *value);
enum sl_status sl_labels_add_whole(struct sl_labels *labels, const char *key, uint64_t value);
enum sl_status sl_labels_add_real(struct sl_labels *labels, const char *key, double value);

/* Add the description of the session's model. with_options: also the options of the model, which a checkpoint has
 * already. SL_ENOMEM. */
enum sl_status sl_labels_add_model(struct sl_labels *labels, const struct sl_session *session, bool with_options);

/* Release all. An empty struct is allowed. */
void sl_labels_free(struct sl_labels *labels);

#endif
