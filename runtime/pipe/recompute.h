/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Which rows of a slot stay. What travels is for later slots alone; in exact mode, where there are none, it goes as soon as the layer has
 * run. --recompute keeps besides only what each segment of layers takes in, a stage or, where stages are long, some sqrt(layers) of them;
 * on the way back a segment's layers run again just before their adjoints. A segment has no more than two slots' rows again at a time, the
 * next slot waits for the one but one before it; or one slot's, where segments are enough for all workers. And a segment waits for the
 * one after it.
 */
#ifndef SL_RUNTIME_PIPE_RECOMPUTE_H
#define SL_RUNTIME_PIPE_RECOMPUTE_H

#include "runtime/pipe/pipe.h"

/* Layer i of the chunks of a slot, of those that are this rank's. */
struct sl_layer_pass sl_pipe_layer(struct sl_pipe *pipe, uint32_t i, uint32_t slot);

/* Whether a layer aggregates; the role of what travels then, whose rows may become history; whether what travels back is rounded
 * first, as rows are of bf16; the role of what travels back. */
bool sl_pipe_aggregates(const struct sl_layer_pass *lp);
enum sl_role sl_pipe_travelling(const struct sl_layer_pass *lp);
bool sl_pipe_rounds(const struct sl_layer_pass *lp);
enum sl_role sl_pipe_returning(const struct sl_layer_pass *lp);

/* What stages wait for, where --recompute is on. */
void sl_pipe_recompute_open(struct sl_pipe *pipe);
void sl_pipe_recompute_close(struct sl_pipe *pipe);

/* Submissions, in order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */

/* The next layer, or the loss, has been submitted: keep of this one what has to be kept. */
void sl_pipe_drop_layer(struct sl_pipe *pipe, const struct sl_layer_pass *lp);

/* Before layer i's adjoint: where the layer is its segment's last, run the segment again. After it: where it was the first, the segment is
 * free. Without --recompute nothing. */
enum sl_status sl_pipe_recompute(struct sl_pipe *pipe, uint32_t i, uint32_t slot);
enum sl_status sl_pipe_recomputed(struct sl_pipe *pipe, uint32_t i, uint32_t slot);

#endif
