/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The files of a run: --save, --predict, --embed, and the initial weights of --load.
 */
#ifndef SL_RUNTIME_TRAIN_OUTPUTS_H
#define SL_RUNTIME_TRAIN_OUTPUTS_H

#include "runtime/train/session.h"

/* Read --pairs into the session, if given. The dataset is there. SL_EFILE, SL_EIO, SL_ENOMEM. */
enum sl_status sl_outputs_read_pairs(struct sl_session *session);

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

/* Score pairs of vertices from the vectors of the vertices evaluated by this rank. pairs: dataset ids, and relations of
 * the model. out: [pairs->n], at rank 0. Collective. SL_ESTARPU, SL_EIO, SL_ENOMEM. */
enum sl_status sl_outputs_score_pairs(struct sl_session *session, const struct sl_links *pairs, const sl_real *vectors,
                                      sl_real *out);

#endif
