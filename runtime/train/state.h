/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Saving and loading the state of a run in checkpoints.
 */
#ifndef SL_RUNTIME_TRAIN_STATE_H
#define SL_RUNTIME_TRAIN_STATE_H

#include "runtime/train/session.h"

/* Set the model to the average of the replicas; the replicas do not change. With a single replica: bring the
 * current model to all ranks. Collective. SL_ESTARPU, SL_ENOMEM, or a status of the schedule's share. */
enum sl_status sl_state_average(struct sl_session *session);

/* Save the state to --checkpoint; rank 0 writes. Collective. No task is running. SL_EIO, SL_ENOMEM. */
enum sl_status sl_state_save(struct sl_session *session);

/* Whether an option may have another value when a run resumes. */
enum sl_resume_rule {
    SL_RESUME_FIXED,     /* no: the value must be the checkpoint's; options left open take it over */
    SL_RESUME_SAME_DATA, /* yes, if graph, features, labels and split have the same contents */
    SL_RESUME_FREE,      /* yes: no figure depends on it */
    SL_RESUME_UNKNOWN    /* no option has this name */
};
enum sl_resume_rule sl_state_rule(const char *option);

/* Check the settings against the checkpoint: the run must continue exactly. Open values of pes, group-size and
 * chunks come from the checkpoint, and of split if the dataset is read from files. Call this before the session loads
 * the dataset. given: the dataset is the caller's arrays.
 * SL_EINVAL: an option differs (the message has both values). SL_EFILE. */
enum sl_status sl_state_match(struct sl_settings *settings, bool given, const struct sl_tensors *checkpoint);

/* Load model, best weights and progress from a checkpoint. SL_EINVAL: the checkpoint is of other data. SL_EFILE. After a failure the session must not be
 * trained. */
enum sl_status sl_state_load(struct sl_session *session, const struct sl_tensors *checkpoint);

/* Load the losses and the schedule's counts of the current epoch, after the schedule is open. SL_EFILE, as above. */
enum sl_status sl_state_load_epoch(struct sl_session *session, const struct sl_tensors *checkpoint);

#endif
