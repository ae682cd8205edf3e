/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Makes a step the step in hand, and reads the sizes of its sample.
 */
#ifndef SL_RUNTIME_MINIBATCH_SIZES_H
#define SL_RUNTIME_MINIBATCH_SIZES_H

#include "codelets/ends/optimize.h"
#include "runtime/minibatch/steps.h"
#include "runtime/report/metrics.h"

/* Sizes of a step's sample, summed over the PEs of this rank. Rank 0 also counts bytes of the step that belong to no
 * PE: seeds on a ring, and weights. */
struct sl_step_sizes {
    /* Seeds of all ranks. */
    uint32_t n_seeds;
    /* Rows of the last level, of all PEs with all-reduce. */
    uint64_t n_inputs;
    /* By level. */
    uint64_t vertices[SL_MAX_LAYERS + 1];
    /* By hop. */
    uint64_t edges[SL_MAX_LAYERS];
    /* Exchanged between PEs; `features`: of the feature rows read. */
    struct sl_metrics_bytes bytes;
};

/* Make `step` the step in hand, which sl_step_sizes and the layers work on. */
void sl_step_begin(struct sl_steps *steps, uint64_t step);

/* Wait for the counts of the step in hand and copy them. For each PE whose replica this rank trains, split the rows of
 * each level into chunks. Assign each PE its rows in the teams' exchange buffers. Add up the sizes. Call
 * sl_replicas_plan first. The failure of an earlier task, SL_ESTARPU. */
enum sl_status sl_step_sizes(struct sl_steps *steps, uint64_t step, struct sl_step_sizes *sizes_out);

/* ---- the vertex budget ---- */

/* A vertex budget: steps have as many seeds as make N input vertices in a minibatch, on average. Samplers that reach
 * fewer vertices then train on more seeds a step (Balin and Catalyurek, NeurIPS 2023, arXiv 2210.13339, compare
 * samplers so; DGL's example of LABOR changes its batch after an epoch, too).
 *
 * The input vertices of a step grow with its seeds, but not faster than in proportion. So batch N / mean is on the same
 * side of the right batch as `batch`, and nearer. */

/* The steps since the batch changed: their number, the mean of their input vertices, and the sum of the squares of the
 * deviations from the mean. Doubles only: a checkpoint has them as one array. */
struct sl_budget {
    double n, mean, squares;
};

/* Count a step, whose minibatches have this many input vertices each, on average. */
void sl_budget_add(struct sl_budget *budget, double n_inputs);

/* The seeds of the next steps: batch N / mean, from 1 to n_train, if the mean is wrong by more than 3 standard errors;
 * otherwise `batch`. Fewer than two steps say nothing. */
uint64_t sl_budget_batch(const struct sl_budget *budget, uint32_t n_wanted, uint64_t batch, uint32_t n_train);

/* ---- step.c ---- */

/* One minibatch as StarPU tasks. To follow a step, read step.c from sl_step_submit on.
 *
 * runtime/plan/plan.h defines PEs and groups, runtime/minibatch/steps.h levels and hops. A single thread submits,
 * strictly in step order, because StarPU orders accesses to a handle by submission. */

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
