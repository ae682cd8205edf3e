/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Submits one layer of the step in hand: forward, backward, update. The layer's kind (runtime/model/kinds.h) says
 * what is computed.
 */
#ifndef SL_RUNTIME_MINIBATCH_LAYER_H
#define SL_RUNTIME_MINIBATCH_LAYER_H

#include "codelets/optimize.h"
#include "runtime/minibatch/steps.h"

/* Forward pass, backward pass, and Adam with the exchange of gradients before it. A single thread submits, in order.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_layer_forward(struct sl_steps *steps, uint32_t i);
enum sl_status sl_layer_backward(struct sl_steps *steps, uint32_t i);
enum sl_status sl_layer_update(struct sl_steps *steps, uint32_t i, const struct sl_adam *adam);

#endif
