/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The state of a run in its checkpoints.
 */
#ifndef SL_RUNTIME_TRAIN_STATE_H
#define SL_RUNTIME_TRAIN_STATE_H

#include "runtime/train/session.h"

/* With several replicas: the model becomes their average, which they do not notice. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_state_average(struct sl_session *session);

/* Save the state to --checkpoint. No task is running. SL_EIO, SL_ENOMEM. */
enum sl_status sl_state_save(struct sl_session *session);

/* Take pes, group size and chunks that the command line leaves open from the checkpoint, and refuse options that would not go
 * on exactly. Before the session decides them. dataset: the name of arrays, in place of the option's; NULL: there are none.
 * SL_EINVAL: an option differs (message: both values). SL_EFILE. */
enum sl_status sl_state_match(struct sl_settings *settings, const char *dataset, const struct sl_tensors *checkpoint);

/* Fill model, best weights and state from a checkpoint; then, once the schedule is open, what the epoch in hand has come to.
 * SL_EFILE. On failure the session is not to be trained. */
enum sl_status sl_state_load(struct sl_session *session, const struct sl_tensors *checkpoint);
enum sl_status sl_state_load_epoch(struct sl_session *session, const struct sl_tensors *checkpoint);

#endif
