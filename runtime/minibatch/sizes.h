/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A step taken in hand, and its sizes.
 */
#ifndef SL_RUNTIME_MINIBATCH_SIZES_H
#define SL_RUNTIME_MINIBATCH_SIZES_H

#include "runtime/minibatch/steps.h"

/* What a step's sample turned out to be, summed over this rank's PEs; what is of no PE but the step's (seeds on a ring, weights) is
 * rank 0's. */
struct sl_step_sizes {
    uint32_t n_seeds;                                               /* m, of all ranks */
    uint64_t vertices[SL_MAX_LAYERS + 1];                           /* by level */
    uint64_t edges[SL_MAX_LAYERS];                                  /* by hop */
    uint64_t id_bytes, row_bytes, row_gradient_bytes, weight_bytes; /* between PEs */
    uint64_t feature_bytes;                                         /* gathered */
};

/* Take the step in hand: what sl_step_sizes and the layers work on. */
void sl_step_begin(struct sl_steps *steps, uint64_t step);

/* Wait for the counts of the step in hand, copy them, split the levels of every PE whose replica this rank trains into chunks, and add
 * up the sizes. The rounds of the
 * step are planned. */
enum sl_status sl_step_sizes(struct sl_steps *steps, uint64_t step, struct sl_step_sizes *sizes_out);

#endif
