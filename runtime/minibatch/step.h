/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One minibatch as StarPU tasks. To follow a step, read step.c from sl_step_submit on.
 *
 * runtime/plan/plan.h defines PEs and groups, runtime/minibatch/steps.h levels and hops. A single thread submits,
 * strictly in step order, because StarPU orders accesses to a handle by submission.
 */
#ifndef SL_RUNTIME_MINIBATCH_STEP_H
#define SL_RUNTIME_MINIBATCH_STEP_H

#include "codelets/optimize.h"
#include "runtime/minibatch/sizes.h"

/* Submit the compute phase of step `step`, and then the sampling phase of step + depth, which is the next step in the
 * same slot.
 *
 * The call waits for the sizes of the step's sample. Workers stay busy meanwhile, since later samples and earlier
 * compute phases are already submitted. The call also waits until the previous step of the slot no longer uses
 * its rows. With --depth 1 it waits for the end of the previous step. Call for each step in order.
 *
 * adam: this step's coefficients. loss: a double; tasks set it to the step's mean loss over its seeds. Returns the
 * failure of an earlier task, or SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_step_submit(struct sl_steps *steps, uint64_t step, const struct sl_adam *adam,
                              starpu_data_handle_t loss, struct sl_step_sizes *sizes_out);

/* The two phases of sl_step_submit in separate calls, for tests that check the sample before the compute phase. */
enum sl_status sl_step_sample(struct sl_steps *steps, uint64_t step);
enum sl_status sl_step_compute(struct sl_steps *steps, uint64_t step, const struct sl_adam *adam,
                               starpu_data_handle_t loss, struct sl_step_sizes *sizes_out);

#endif
