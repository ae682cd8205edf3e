/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Chunks of the full graph as the source of a pass (runtime/model/pass.h): fresh and historical rows, and the adjoint.
 */
#ifndef SL_RUNTIME_PIPE_SOURCE_H
#define SL_RUNTIME_PIPE_SOURCE_H

#include "runtime/model/pass.h"

/* The pass' owner is a struct sl_pipe. */
extern const struct sl_source sl_pipe_source;

#endif
