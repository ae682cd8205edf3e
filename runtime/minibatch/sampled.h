/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The block source (runtime/model/pass.h) of a sampled minibatch. Owners pack the requested rows for the PEs of their
 * group. The transport (runtime/exchange/transport.h) carries the rows. The requesting PEs aggregate them over the
 * sampled edges.
 */
#ifndef SL_RUNTIME_MINIBATCH_SAMPLED_H
#define SL_RUNTIME_MINIBATCH_SAMPLED_H

#include "runtime/model/pass.h"

/* The pass' owner is a struct sl_steps. */
extern const struct sl_block_source sl_sampled;

#endif
