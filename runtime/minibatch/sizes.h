/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Makes a step the step in hand, and reads the sizes of its sample.
 */
#ifndef SL_RUNTIME_MINIBATCH_SIZES_H
#define SL_RUNTIME_MINIBATCH_SIZES_H

#include "runtime/minibatch/steps.h"

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
    /* Bytes exchanged between PEs. */
    uint64_t id_bytes, row_bytes, row_gradient_bytes, weight_bytes;
    /* Bytes of the feature rows read. */
    uint64_t feature_bytes;
};

/* Make `step` the step in hand, which sl_step_sizes and the layers work on. */
void sl_step_begin(struct sl_steps *steps, uint64_t step);

/* Wait for the counts of the step in hand and copy them. For each PE whose replica this rank trains, split the rows of
 * each level into chunks. Assign each PE its rows in the teams' exchange buffers. Add up the sizes. Call
 * sl_replicas_plan first. The failure of an earlier task, SL_ESTARPU. */
enum sl_status sl_step_sizes(struct sl_steps *steps, uint64_t step, struct sl_step_sizes *sizes_out);

#endif
