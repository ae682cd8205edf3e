/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stages of several ranks: what a crew (runtime/plan/plan.h) takes in of the crew before it and gives back, chunk by chunk, from the rank
 * that has the chunk's way here to the one that has it there, as soon as it is there:
 *
 *   forward   what the crew's first layer takes in; and, where that layer or a later one reads the first of all layers again, its output
 *   back      their gradients, in sl_real, as within a rank: stages change no figure
 *
 * Each rank has the weights of its own layers, and their moments; the others' are of the last sl_pipe_stages_share.
 */
#ifndef SL_RUNTIME_PIPE_STAGES_H
#define SL_RUNTIME_PIPE_STAGES_H

#include "runtime/pipe/pipe.h"

/* Whether layer i or one after it reads again the output of the first layer, which is not the one before i. */
bool sl_pipe_reads_first(const struct sl_model *model, uint32_t i);

/* Once layers have stages: which are this crew's. */
void sl_pipe_stages_find(struct sl_pipe *pipe);

/* Whether this crew has the last layer. */
static inline bool sl_pipe_has_last(const struct sl_pipe *pipe)
{
    return pipe->end_layer == pipe->work.model->n_layers;
}

/* The ranks of the crew that has the last layer. */
struct sl_rank_range sl_pipe_loss_ranks(const struct sl_pipe *pipe);

/* Submit, for the chunks in hand. A layer that is the crew's first gets what it takes in before it runs, and gives back the gradient of
 * that after it has run back; one that is the last gives its output, and gets the gradient. At other layers, and where there is no such
 * crew, nothing. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_stages_receive(const struct sl_layer_pass *lp, bool back);
enum sl_status sl_pipe_stages_send(const struct sl_layer_pass *lp, bool back);

/* A slot is through: rows that are only here to come or go. */
void sl_pipe_stages_done(const struct sl_layer_pass *lp);

/* All crews' weights at every rank; or, for a checkpoint, with the moments at rank 0. Collective, after sl_ranks_drain. SL_EIO, SL_EINVAL,
 * SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_stages_share(struct sl_pipe *pipe, bool checkpoint);

#endif
