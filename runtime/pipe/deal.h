/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Distributes the layers over the stages, in order: as --stages-cut says, or by measured time so that the slowest
 * stage is as fast as possible. The distribution changes no result. It determines the worker of a layer (with
 * --placement home), the rows that --recompute keeps, and the bytes that the metrics count between stages.
 */
#ifndef SL_RUNTIME_PIPE_DEAL_H
#define SL_RUNTIME_PIPE_DEAL_H

#include "runtime/pipe/pipe.h"

/* Distribute n layers that take `seconds` [n] over n_stages stages, in order, no stage empty. The largest sum of
 * seconds of a stage is minimal. Among equal distributions the sum of squares is minimal. 1 <= n_stages <= n <=
 * SL_MAX_MODEL_LAYERS. stage_out [n]. SL_ENOMEM. */
enum sl_status sl_pipe_deal(uint32_t n, const double *seconds, uint32_t n_stages, uint32_t *stage_out);

/* Set pipe->stage, and the first and last layer of this rank's crew. If layers must be measured, rank 0 sends its
 * largest chunk through all layers, forward and backward, twice, and discards the results. Layers of the same kind
 * and shape count as equally slow. Rank 0 broadcasts the stages. Collective, as sl_ranks_broadcast. No task may be
 * running. SL_ESTARPU, SL_ENOMEM, SL_EIO, the failure of a task. */
enum sl_status sl_pipe_deal_layers(struct sl_pipe *pipe);

#endif
