/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Chunks of the full graph as the source of a pass (runtime/model/pass.h): fresh and historical rows, and the adjoint.
 */
#ifndef SL_RUNTIME_PIPE_SOURCE_H
#define SL_RUNTIME_PIPE_SOURCE_H

#include "runtime/model/pass.h"

/* What other chunks read of a chunk's rows, there and back: those that are packed, or the layer's own. The layer aggregates. */
struct sl_rows *sl_pipe_sent(const struct sl_layer_pass *lp, uint32_t q);
struct sl_rows *sl_pipe_returned(const struct sl_layer_pass *lp, uint32_t q);

/* The pass' owner is a struct sl_pipe. */
extern const struct sl_block_source sl_pipe_source;

#endif
