/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The ring of slots: a step taken in hand, its sizes, and the clearing up after it. Opening and closing are in runtime/minibatch/step.h.
 */
#ifndef SL_RUNTIME_RING_H
#define SL_RUNTIME_RING_H

#include "runtime/minibatch/step.h"

/* Take the step in hand: what sl_step_sizes and the layers work on. */
void sl_step_take(struct sl_steps *steps, uint64_t step);

/* Wait for the counts of the step in hand, copy them, split every PE's levels into chunks, and add up the sizes. */
enum sl_status sl_step_sizes(struct sl_steps *steps, uint64_t step, struct sl_step_sizes *sizes_out);

/* Keep the rows that are left for the slot's next step, and begin the lists of partials anew, after success or failure. */
void sl_step_drop(struct sl_steps *steps);

#endif
