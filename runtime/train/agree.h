/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Start of a session with several ranks (tasks/ranks.h): all ranks must do the same. With one rank these
 * functions do nothing.
 *
 * Rank 0 decides open options and writes the files.
 */
#ifndef SL_RUNTIME_TRAIN_AGREE_H
#define SL_RUNTIME_TRAIN_AGREE_H

#include "runtime/train/session.h"

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

#endif
