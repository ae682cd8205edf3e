/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The sampled minibatch as a schedule (runtime/plan/schedule.h). A step is P x B seeds and the neighbours sampled
 * around them (runtime/minibatch/step.c). The ring slots keep --depth steps in flight.
 */
#ifndef SL_RUNTIME_MINIBATCH_MINIBATCH_H
#define SL_RUNTIME_MINIBATCH_MINIBATCH_H

#include "runtime/minibatch/sizes.h"
#include "runtime/plan/schedule.h"

/* The schedule's own state. */
struct sl_minibatch {
    struct sl_steps steps;
    /* Sizes summed over the steps of the epoch in hand: this rank's, and at rank 0 also the gathered sums of all
     * ranks. */
    struct sl_step_sizes sums;
    /* Rows looked up in the feature caches, and hits, in the last gathered epoch. Rank 0 has the sum over all ranks. */
    struct sl_row_cache_tally wanted;
    /* With a vertex budget: the steps since the batch changed. All ranks have the same. */
    struct sl_budget budget;
};

extern const struct sl_schedule_kind sl_minibatch;

#endif
