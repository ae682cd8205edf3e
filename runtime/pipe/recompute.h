/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --recompute: of a slot's forward only what travels and what each stage takes in is kept; on the way back a stage's layers run again just
 * before their adjoints. A stage has no more than two slots' rows again at a time: the next slot waits for the one but one before it.
 */
#ifndef SL_RUNTIME_PIPE_RECOMPUTE_H
#define SL_RUNTIME_PIPE_RECOMPUTE_H

#include "runtime/pipe/pipe.h"

/* Layer i of the chunks of a slot. */
struct sl_at sl_pipe_at(struct sl_pipe *pipe, uint32_t i, uint32_t slot);

/* Whether a layer aggregates; the role of what travels then, whose rows may become history. */
bool sl_pipe_aggregates(const struct sl_at *at);
enum sl_role sl_pipe_travelling(const struct sl_at *at);

/* What stages wait for, where --recompute is on. */
void sl_pipe_recompute_open(struct sl_pipe *pipe);
void sl_pipe_recompute_close(struct sl_pipe *pipe);

/* All without --recompute do nothing; submissions, in order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */

/* The next layer has been submitted: keep of this one what has to be kept. */
void sl_pipe_forget(struct sl_pipe *pipe, const struct sl_at *at);

/* Before layer i's adjoint: where the layer is its stage's last, run the stage again. After it: the stage is free where it was the first. */
enum sl_status sl_pipe_recompute(struct sl_pipe *pipe, uint32_t i, uint32_t slot);
enum sl_status sl_pipe_recomputed(struct sl_pipe *pipe, uint32_t i, uint32_t slot);

#endif
