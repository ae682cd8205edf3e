/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One minibatch as StarPU tasks: the spine. Read step.c from sl_step_sample on: it is the table of stages, in order.
 *
 * PEs and groups are the plan's (runtime/plan/plan.h), levels and hops those of runtime/minibatch/steps.h. One thread submits, strictly
 * in step order, because StarPU orders accesses by submission.
 */
#ifndef SL_RUNTIME_MINIBATCH_STEP_H
#define SL_RUNTIME_MINIBATCH_STEP_H

#include "codelets/optimize.h"
#include "runtime/minibatch/sizes.h"

/* Submit step `step`'s whole work and the sampling of the step that will use its slot next:
 * waits for its sizes (which holds up no worker: later samples and earlier compute are already in the graph), submits the
 * compute phase (waiting for rows kept from the step that used the slot before; with --depth 1 that is the end of the last step),
 * then the sampling phase of step + depth. Calls come in step order. adam: this step's. loss: one double, the step's mean loss over
 * its seeds, written by the graph. Returns the failure of an earlier task where there is one. */
enum sl_status sl_step_submit(struct sl_steps *steps, uint64_t step, const struct sl_adam *adam,
                              starpu_data_handle_t loss, struct sl_step_sizes *sizes_out);

/* The two phases on their own, for tests that look in between. */
enum sl_status sl_step_sample(struct sl_steps *steps, uint64_t step);
enum sl_status sl_step_compute(struct sl_steps *steps, uint64_t step, const struct sl_adam *adam,
                               starpu_data_handle_t loss, struct sl_step_sizes *sizes_out);

#endif
