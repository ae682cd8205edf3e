/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Start of a session with several ranks (codelets/ranks.h): all ranks must do the same. With one rank these
 * functions do nothing.
 *
 * Rank 0 decides open options and writes the files.
 */
#ifndef SL_RUNTIME_TRAIN_RANKS_H
#define SL_RUNTIME_TRAIN_RANKS_H

#include "runtime/train/session.h"

/* Refuse settings not supported with several ranks. SL_EINVAL. */
enum sl_status sl_ranks_check_settings(const struct sl_settings *settings);

/* Compare program, version and options of all ranks, before the first collective work. A table in ranks.c says how each
 * option compares: most must be equal; paths of outputs must be given by all ranks or by none; a few belong to one
 * machine. Collective. SL_EINVAL: the message names the first different option. */
enum sl_status sl_ranks_match_settings(const struct sl_settings *settings);

/* Take over rank 0's decisions on PEs, group size, chunks and placement. Collective. SL_EINVAL: fewer PEs than
 * ranks. */
enum sl_status sl_ranks_take_decisions(struct sl_settings *settings);

/* Compare the contents of the datasets of all ranks: graph, features, labels and split (partition/identity.h).
 * Collective. SL_EFILE: the message names the first part that differs. */
enum sl_status sl_ranks_match_data(const struct sl_session *session);

/* A hash of the part of every vertex and of the number of cut edges. 0 with one rank. */
uint64_t sl_ranks_hash_parts(const struct sl_dataset *dataset, const struct sl_partition *partition);

/* Compare the hashes of the parts of all ranks. Collective. SL_EFILE: a hash differs. */
enum sl_status sl_ranks_match_parts(const struct sl_session *session);

/* Compare the initial weights of all ranks. Collective. SL_EFILE: they differ. SL_ENOMEM. */
enum sl_status sl_ranks_match_model(struct sl_session *session);

/* Compare the steps from which the ranks resume. Collective. SL_EFILE: a step differs. */
enum sl_status sl_ranks_match_step(const struct sl_session *session);

/* The maximum of a number over the ranks, at rank 0; undefined elsewhere. Collective. SL_EIO. */
enum sl_status sl_ranks_max(uint64_t mine, uint64_t *most_out);

/* Called before and after work whose output file later ranks reuse (a cache): rank 0 works first, then the rest.
 * Collective. */
enum sl_status sl_ranks_rank0_first(void);
enum sl_status sl_ranks_rank0_done(void);

#endif
