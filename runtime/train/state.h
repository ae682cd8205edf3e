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

#endif
