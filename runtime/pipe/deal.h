/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Layers dealt to stages, in order: as --stages-cut says, or by the time that they take, so that the slowest stage is as fast as can be.
 * Which stage a layer is in changes no figure: it says where it runs (--placement home), what --recompute keeps, and what the metrics
 * count as bytes between stages.
 */
#ifndef SL_RUNTIME_PIPE_DEAL_H
#define SL_RUNTIME_PIPE_DEAL_H

#include "runtime/pipe/pipe.h"

/* n layers with their seconds, in order, to as many stages, none of them empty: the least of all possible largest sums, and of those ways the
 * one with the least sum of squares. n_stages in 1 .. n <= SL_MAX_MODEL_LAYERS. stage_out [n]. */
void sl_pipe_deal(uint32_t n, const double *seconds, uint32_t n_stages, uint32_t *stage_out);

/* Fill in pipe->stage, and which layers are of this rank's stages. Where it has to be measured, the largest chunk goes through all layers and
 * back, twice, and what comes of it is forgotten; layers of the same kind and shape are taken as equally slow; rank 0 does, for all.
 * Collective, as sl_ranks_broadcast. No task is running. SL_ESTARPU, SL_ENOMEM, SL_EIO, and the tasks' own. */
enum sl_status sl_pipe_deal_layers(struct sl_pipe *pipe);

#endif
