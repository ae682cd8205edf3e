/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The sampled minibatch as a schedule (runtime/plan/schedule.h): a step is P B seeds and what is sampled around them
 * (runtime/minibatch/step.h); the ring of slots keeps --depth of them in flight.
 */
#ifndef SL_RUNTIME_MINIBATCH_MINIBATCH_H
#define SL_RUNTIME_MINIBATCH_MINIBATCH_H

#include "runtime/minibatch/step.h"
#include "runtime/plan/schedule.h"

/* What the schedule owns. */
struct sl_minibatch {
    struct sl_steps steps;
    struct sl_step_sizes sums;  /* of the epoch in hand; this rank's, and at rank 0 what it has taken over */
    struct sl_hot_tally wanted; /* of the feature caches in the epoch that was gathered last; of all ranks at rank 0 */
};

extern const struct sl_schedule_kind sl_minibatch;

/* Those of an open schedule of this kind, for tests and benches that look inside. */
static inline struct sl_steps *sl_minibatch_steps(const struct sl_schedule *schedule)
{
    return &((struct sl_minibatch *)schedule->own)->steps;
}

#endif
