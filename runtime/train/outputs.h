/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a run is asked to leave behind, and the weights it begins with: --save, --predict, --embed, --load.
 */
#ifndef SL_RUNTIME_TRAIN_OUTPUTS_H
#define SL_RUNTIME_TRAIN_OUTPUTS_H

#include "runtime/train/session.h"

/* Refuse --save, --predict, --embed and --metrics files whose folder is missing or cannot be written, and make the --checkpoint
 * folder, before any work is done. SL_EIO. */
enum sl_status sl_outputs_check(const struct sl_settings *settings);

/* At the end of training: the model becomes that of the best evaluation, or what it is where there was none (of several replicas
 * their average). SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_outputs_settle(struct sl_session *session);

/* Write --save, --predict and --embed, once the model is settled. With several ranks all call it and rank 0 writes, which gets the
 * others' rows a few at a time. SL_EIO, SL_ENOMEM, a failure of the inference. */
enum sl_status sl_outputs_write(struct sl_session *session);

/* The classes that the model in --load tells apart; 0: no --load, or they cannot be told. SL_EFILE, SL_EIO, SL_ENOMEM. */
enum sl_status sl_outputs_count_classes(const struct sl_settings *settings, uint32_t *out);

/* Load --load into the model. SL_EFILE, SL_EIO. */
enum sl_status sl_outputs_load_model(struct sl_session *session);

#endif
