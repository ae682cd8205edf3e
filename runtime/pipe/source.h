/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The block source (runtime/model/pass.h) of full-graph training: chunks that read fresh and historical rows, and the
 * adjoint.
 */
#ifndef SL_RUNTIME_PIPE_SOURCE_H
#define SL_RUNTIME_PIPE_SOURCE_H

#include "runtime/model/pass.h"

/* The rows of chunk q that other chunks read, forward and backward: packed boundary rows, or the layer's own rows.
 * Only for a layer that aggregates. */
struct sl_rows *sl_pipe_sent(const struct sl_layer_pass *lp, uint32_t q);
struct sl_rows *sl_pipe_returned(const struct sl_layer_pass *lp, uint32_t q);

/* The pass' owner is a struct sl_pipe. */
extern const struct sl_block_source sl_pipe_source;

#endif
