/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Blocks of a sampled minibatch as the source of a pass (runtime/model/pass.h): rows are packed for the PEs of the group that asked
 * for them, go through the transport (runtime/exchange/transport.h), and are aggregated over the sampled edges.
 */
#ifndef SL_RUNTIME_MINIBATCH_SAMPLED_H
#define SL_RUNTIME_MINIBATCH_SAMPLED_H

#include "runtime/model/pass.h"

/* The pass' owner is a struct sl_steps. */
extern const struct sl_block_source sl_sampled;

#endif
