/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a session of several ranks (codelets/ranks.h) sees to at its start: that all do the same. With one rank all of this does nothing.
 *
 * What is done by rank 0 alone, for all: what is left open is decided, and files are written.
 */
#ifndef SL_RUNTIME_TRAIN_RANKS_H
#define SL_RUNTIME_TRAIN_RANKS_H

#include "runtime/train/session.h"

/* Refuse what is not there over several ranks. SL_ENOTSUP. */
enum sl_status sl_ranks_check_settings(const struct sl_settings *settings);

/* All ranks are of one version, with the same options: those that say where files are and what one machine has may differ. Collective.
 * SL_EINVAL, naming the first that differs from rank 0's. */
enum sl_status sl_ranks_match_settings(const struct sl_settings *settings);

/* Rank 0's PEs, group size, chunks and placement, once it has decided them. Collective. SL_EINVAL: fewer PEs than ranks. */
enum sl_status sl_ranks_take_decisions(struct sl_settings *settings);

/* A number for how many edges each vertex has and how many are cut, labels, split and parts, of all vertices. Left out, as reading all of
 * them takes long, is where edges come from, and features but for how many. 0 with one rank. */
uint64_t sl_ranks_hash_data(const struct sl_dataset *dataset, const struct sl_partition *partition);

/* All have the same of these; the same step to go on from. Collective. SL_EFILE. */
enum sl_status sl_ranks_match_data(const struct sl_session *session);
enum sl_status sl_ranks_match_step(const struct sl_session *session);

/* The largest of all ranks' numbers, at rank 0. Collective. SL_EIO. */
enum sl_status sl_ranks_max(uint64_t mine, uint64_t *most_out);

/* Before work that leaves a file behind which others find, and after it: rank 0 works first. */
enum sl_status sl_ranks_rank0_first(void);
enum sl_status sl_ranks_rank0_done(void);

#endif
