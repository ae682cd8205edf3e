/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * State shared by the epochs of full-graph training. runtime/pipe/epoch.h describes the method.
 */
#ifndef SL_RUNTIME_PIPE_PIPE_H
#define SL_RUNTIME_PIPE_PIPE_H

#include "runtime/model/pass.h"
#include "runtime/pipe/boundary.h"
#include "runtime/pipe/chunk_graph.h"
#include "runtime/plan/schedule.h"
#include "runtime/sync/replicas.h"

struct sl_pipe {
    /* Its plan is `plan`. */
    struct sl_work work;
    /* The plan of this rank's crew, and the plan of all crews. */
    struct sl_plan plan;
    const struct sl_plan *whole;
    /* This crew's layers: first_layer .. end_layer - 1 (stages.h). */
    uint32_t first_layer, end_layer;
    /* No messages: this rank measures its layers (sl_pipe_time). */
    bool alone;
    /* A layer runs a second time in the backward pass (recompute.h). */
    bool recomputing;
    /* An exact pass (exact_loss.h). Its messages have tags of their own. */
    bool aside;
    struct sl_pipe_graph graph;
    /* With --recompute and several slots. Otherwise empty. */
    struct sl_pipe_boundary boundary;
    /* The order of the chunks in this epoch. */
    struct sl_pipe_order order;
    /* The pass of an epoch; each chunk is a PE. */
    struct sl_pass pass;
    /* A single replica. */
    struct sl_replicas replicas;
    /* [layer][chunk], the four one after the other in memory. If sl_pipe_packs: boundary rows of this epoch's
     * travelling rows, and of the returning gradients. */
    struct sl_rows *sent;
    struct sl_rows *returned;
    /* If sl_pipe_keeps_sums: sums of boundary vertices. */
    struct sl_rows *summed;
    /* Travelling rows of the snapshot's epoch. Empty before the first snapshot. */
    struct sl_rows *history;
    /* The pieces of each chunk (partition/partition.h). */
    struct sl_runs *runs;
    /* [layer][parameter]. */
    struct sl_partials *gradients;
    struct sl_partials losses;
    /* The stage of each layer (deal.c). */
    uint32_t stage[SL_MAX_MODEL_LAYERS];
    /* R: epochs between snapshots of the history. */
    uint32_t history_every;
    double gradient_factor;
    /* By first layer of a segment (recompute.h). */
    starpu_data_handle_t token[SL_MAX_MODEL_LAYERS][2];
    /* A guard checks the losses, so a loss that is not finite does not end the run. */
    bool watched;
};

/* Whether chunks read packed boundary rows of each other. Otherwise chunks read all rows in place. */
static inline bool sl_pipe_packs(const struct sl_pipe *pipe)
{
    return pipe->boundary.chunk != NULL && pipe->order.n_slots > 1;
}

/* Whether the travelling rows of the epoch in hand become history. */
static inline bool sl_pipe_is_snapshot(const struct sl_pipe *pipe)
{
    return pipe->order.n_slots > 1 && (pipe->pass.step + 1) % pipe->history_every == 0;
}

/* Whether sums of boundary vertices are kept for the backward pass, which then runs layers again without rows of
 * other chunks. So the old history can be freed while the new one grows. Only a snapshot's epoch has room for the
 * sums; any other epoch stores the history and its own travelling rows. */
static inline bool sl_pipe_keeps_sums(const struct sl_pipe *pipe)
{
    return sl_pipe_packs(pipe) && sl_pipe_is_snapshot(pipe);
}

/* The block source (runtime/model/pass.h) of full-graph training: chunks that read fresh and historical rows, and the
 * adjoint. The pass' owner is a struct sl_pipe. */
extern const struct sl_block_source sl_pipe_source;

/* The rows of chunk q that other chunks read, forward and backward: packed boundary rows, or the layer's own rows.
 * Only for a layer that aggregates. */
struct sl_rows *sl_pipe_sent(const struct sl_layer_pass *lp, uint32_t q);
struct sl_rows *sl_pipe_returned(const struct sl_layer_pass *lp, uint32_t q);

#endif
