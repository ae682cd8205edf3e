/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Outputs and targets of a set of the split, gathered from all ranks for scores.
 */
#ifndef SL_RUNTIME_OBJECTIVE_COLLECT_H
#define SL_RUNTIME_OBJECTIVE_COLLECT_H

#include "runtime/objective/objective.h"

/* An output and its known target. */
struct sl_pair {
    sl_real z;
    float y;
};

/* Gather the known entries of a set (SL_SET_VALID, ..), column by column, at rank 0, and call `add` for each column
 * with its pairs, sorted by z, then by y: sums do not depend on how vertices are split. Other ranks call it with no or
 * with their own pairs. The shards' targets are numbers. Collective. SL_ENOMEM, SL_EIO, SL_ESTARPU, the failure of a
 * task. */
enum sl_status sl_outputs_columns(const struct sl_outputs *outputs, uint8_t set,
                                  void (*add)(void *context, struct sl_pair *pairs, size_t n), void *context);

/* Gather n pairs of each rank at rank 0, rank by rank: *n_out pairs (sl_free). Collective. SL_ENOMEM, SL_EIO. */
enum sl_status sl_pairs_gather(const struct sl_pair *mine, size_t n, struct sl_pair **out, size_t *n_out);

/* Area under the ROC curve: the probability that an entry with y = 1 has a larger z than an entry with y = 0. Ties
 * count half. NaN without both kinds, and if a z is nan. Sorts the pairs. */
double sl_pairs_area(struct sl_pair *pairs, size_t n);

/* Average precision as in scikit-learn: sum over the distinct z, from the largest down, of precision times the rise of
 * recall. NaN without both kinds, and if a z is nan. Sorts the pairs. */
double sl_pairs_precision(struct sl_pair *pairs, size_t n);

/* The rank of an entry with y = 1 is 1 more than the number of entries with y = 0 and a larger z. Ties count half. */
struct sl_pair_ranks {
    double mrr;                  /* mean of 1 / rank */
    double hits1, hits3, hits10; /* fractions of ranks up to 1, 3 and 10 */
};

/* Ranks of all entries with y = 1. All NaN without both kinds, and if a z is nan. Sorts the pairs. */
struct sl_pair_ranks sl_pairs_ranks(struct sl_pair *pairs, size_t n);

#endif
