/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stages over several ranks. A crew (runtime/plan/plan.h) receives rows from the crew before it and returns
 * gradients, chunk by chunk, as soon as they exist. The rank that has the chunk's way in one crew sends to the rank
 * that has the same way in the neighbouring crew:
 *
 *   forward   the input of the crew's first layer; and the output of the model's first layer, if this layer or a
 *             later one reads it again
 *   backward  the gradients of both, in sl_real as within a rank, so that stages change no result
 *
 * A rank has current weights and moments for its own layers only. For all remaining layers it has the weights of the
 * last sl_pipe_stages_share.
 */
#ifndef SL_RUNTIME_PIPE_STAGES_H
#define SL_RUNTIME_PIPE_STAGES_H

#include "runtime/pipe/pipe.h"

/* Whether layer i or a later layer reads the output of the first layer again. False if the first layer directly
 * precedes layer i. */
bool sl_pipe_reads_first(const struct sl_model *model, uint32_t i);

/* Set first_layer and end_layer from the stages of the layers. */
void sl_pipe_stages_find(struct sl_pipe *pipe);

/* Whether this crew has the last layer. */
static inline bool sl_pipe_has_last(const struct sl_pipe *pipe)
{
    return pipe->end_layer == pipe->work.model->n_layers;
}

/* The ranks of the crew with the last layer, which compute the loss. */
struct sl_rank_range sl_pipe_loss_ranks(const struct sl_pipe *pipe);

/* Submit the messages between crews, for the chunks in hand. Call receive before the layer runs, and send after it
 * has run, forward and backward. The crew's first layer receives its input and sends back the input's gradient. The
 * crew's last layer sends its output and receives the output's gradient. Inner layers, and ends without a
 * neighbouring crew, do nothing. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_stages_receive(const struct sl_layer_pass *lp, bool back);
enum sl_status sl_pipe_stages_send(const struct sl_layer_pass *lp, bool back);

/* Release a slot's rows that were only received or sent. Call after the crew's first layer has run backward. */
void sl_pipe_stages_done(const struct sl_layer_pass *lp);

/* Gather the weights of all crews at every rank; for a checkpoint, weights and moments at rank 0 only. Collective,
 * after sl_ranks_drain. SL_EIO, SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_stages_share(struct sl_pipe *pipe, bool checkpoint);

/* ---- deal.c ---- */

/* Distributes the layers over the stages, in order: as --stages-cut says, or by measured time so that the slowest
 * stage is as fast as possible. The distribution changes no result. It determines the worker of a layer (with
 * --placement home), the rows that --recompute keeps, and the bytes that the metrics count between stages. */

/* Distribute n layers that take `seconds` [n] over n_stages stages, in order, no stage empty. The largest sum of
 * seconds of a stage is minimal. Among equal distributions the sum of squares is minimal. 1 <= n_stages <= n <=
 * SL_MAX_MODEL_LAYERS. stage_out [n]. SL_ENOMEM. */
enum sl_status sl_pipe_deal(uint32_t n, const double *seconds, uint32_t n_stages, uint32_t *stage_out);

/* Set pipe->stage, and the first and last layer of this rank's crew. If layers must be measured, rank 0 sends its
 * largest chunk through all layers, forward and backward, twice, and discards the results. Layers of the same kind
 * and shape count as equally slow. Rank 0 broadcasts the stages. Collective, as sl_ranks_broadcast. No task may be
 * running. SL_ESTARPU, SL_ENOMEM, SL_EIO, the failure of a task. */
enum sl_status sl_pipe_deal_layers(struct sl_pipe *pipe);

/* ---- traffic.c ---- */

/* The bytes that an epoch of full-graph training sends between stages and between ways, wherever these run. The bytes
 * are counted from the graph and the layers, since every epoch sends the same.
 *
 *   stages   each input row of a stage's first layer, once forward, and its gradient (sl_real) once backward. If
 *            layers read the output of the model's first layer again, each stage except the first gets these rows,
 *            too.
 *   ways     per aggregating layer, forward: each row that out-neighbours in other ways read, once per such way.
 *            Backward: each gradient that in-neighbours in other ways read. In a symmetric graph the two numbers are
 *            equal.
 *   weights  each stage's weights, summed over the ways and returned to all: 2 (W - 1) times. */

struct sl_pipe_traffic {
    /* M(W): pairs of a vertex and another way with an out-neighbour of the vertex; with an in-neighbour. */
    uint64_t mirrors;
    uint64_t mirrors_back;
    /* Bytes, both directions. */
    uint64_t stages;
    /* Bytes between ways. */
    uint64_t rows, row_gradients;
    uint64_t weights;
};

/* The way of a chunk. */
uint32_t sl_pipe_way(const struct sl_pipe *pipe, uint32_t q);

/* Count the traffic of one epoch of all ranks. Collective, as sl_ranks_sum. SL_EIO, SL_ENOMEM. */
enum sl_status sl_pipe_count(const struct sl_pipe *pipe, struct sl_pipe_traffic *out);

#endif
