/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One layer of the step in hand as submissions: stages 6 to 8 forward, 10 backward, 11 and 12. What a layer computes is its kind's (runtime/model/kinds.h).
 */
#ifndef SL_RUNTIME_MINIBATCH_LAYER_H
#define SL_RUNTIME_MINIBATCH_LAYER_H

#include "codelets/optimize.h"
#include "runtime/minibatch/steps.h"

/* Submissions: one thread, in order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_layer_forward(struct sl_steps *steps, uint32_t i);
enum sl_status sl_layer_backward(struct sl_steps *steps, uint32_t i);
enum sl_status sl_layer_update(struct sl_steps *steps, uint32_t i, const struct sl_adam *adam);

#endif
