/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Decides which rows of a slot are kept.
 *
 * Travelling rows are kept for later slots only. Exact mode has no later slots, so the rows are dropped once the
 * layer has run. With --recompute a slot keeps, beyond this, only the input of each segment of layers. A segment is a
 * stage, or about sqrt(layers) layers of a long stage. In the backward pass a segment's layers run again just before
 * their adjoints.
 *
 * The recomputed rows of a segment exist for at most two slots at a time: a slot waits for the slot two before it.
 * One slot at a time is enough if there are enough segments to occupy all workers. And a segment waits for the
 * segment after it.
 */
#ifndef SL_RUNTIME_PIPE_RECOMPUTE_H
#define SL_RUNTIME_PIPE_RECOMPUTE_H

#include "runtime/pipe/pipe.h"

/* Layer i with this rank's chunks of a slot in hand. */
struct sl_layer_pass sl_pipe_layer(struct sl_pipe *pipe, uint32_t i, uint32_t slot);

bool sl_pipe_aggregates(const struct sl_layer_pass *lp);

/* For a layer that aggregates: the role of the travelling rows, which may become history. */
enum sl_role sl_pipe_travelling(const struct sl_layer_pass *lp);

/* Whether returning gradients are rounded first, because rows are bf16; the role of the returning gradients. */
bool sl_pipe_rounds(const struct sl_layer_pass *lp);
enum sl_role sl_pipe_returning(const struct sl_layer_pass *lp);

/* Create and close the tokens that order segments. Tokens exist only with --recompute. */
void sl_pipe_recompute_open(struct sl_pipe *pipe);
void sl_pipe_recompute_close(struct sl_pipe *pipe);

/* Drop the rows of a layer that need not be kept. Call after the next layer, or the loss, has been submitted. */
void sl_pipe_drop_layer(struct sl_pipe *pipe, const struct sl_layer_pass *lp);

/* sl_pipe_recompute, before layer i's adjoint: if the layer is the last of its segment, submit the segment's forward
 * pass again. sl_pipe_recomputed, after the adjoint: if the layer is the first of its segment, release the segment
 * for the next slots. Both do nothing without --recompute. A single thread submits, in order. SL_EINVAL, SL_ESTARPU,
 * SL_ENOMEM. */
enum sl_status sl_pipe_recompute(struct sl_pipe *pipe, uint32_t i, uint32_t slot);
enum sl_status sl_pipe_recomputed(struct sl_pipe *pipe, uint32_t i, uint32_t slot);

#endif
