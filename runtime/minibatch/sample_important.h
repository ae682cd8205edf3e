/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * LABOR-1 and further: sampling by importance (codelets/importance.h). It takes the place of `sample` in step.c.
 */
#ifndef SL_RUNTIME_MINIBATCH_SAMPLE_IMPORTANT_H
#define SL_RUNTIME_MINIBATCH_SAMPLE_IMPORTANT_H

#include "runtime/minibatch/steps.h"

/* Submit the sampling of a hop. The blocks of all PEs of this rank are then closed. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_step_sample_important(struct sl_steps *steps, uint64_t step, uint32_t hop, struct sl_slot *slot);

#endif
