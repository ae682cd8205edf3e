/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the epochs of full-graph training share (runtime/pipe/epoch.h has the method).
 */
#ifndef SL_RUNTIME_PIPE_PIPE_H
#define SL_RUNTIME_PIPE_PIPE_H

#include "runtime/model/pass.h"
#include "runtime/pipe/boundary.h"
#include "runtime/pipe/graph.h"
#include "runtime/pipe/order.h"
#include "runtime/schedule/schedule.h"
#include "runtime/sync/replicas.h"

struct sl_pipe {
    struct sl_work work;             /* its plan is `plan` */
    struct sl_plan plan;             /* of this rank's crew */
    const struct sl_plan *whole;     /* of all crews */
    uint32_t first_layer, end_layer; /* of this crew (stages.h) */
    bool alone;                      /* nothing comes from other ranks, nor goes to them */
    bool recomputing;                /* a layer runs that has run before (recompute.h) */
    bool aside;                      /* an exact pass (exact.h): its messages have tags of their own */
    struct sl_pipe_graph graph;
    struct sl_pipe_boundary boundary; /* with --recompute and several slots; else empty */
    struct sl_pipe_order order;       /* of the epoch in hand */
    struct sl_pass pass;              /* a PE for each chunk */
    struct sl_pass_group group;       /* unused: no norm is over a batch here */
    struct sl_replicas replicas;      /* one */
    struct sl_rows *history;          /* [layer][chunk]: what travelled in the snapshot's epoch; empty: none */
    struct sl_rows *sent;             /* likewise: where sl_pipe_packs, boundary rows of what travels in the epoch, */
    struct sl_rows *returned;         /* and of what travels back */
    struct sl_rows *summed;           /* and, where sl_pipe_keeps_sums, of the sums */
    struct sl_runs *runs;             /* of each chunk: its pieces (partition/partition.h) */
    struct sl_partials *gradients;    /* [layer][parameter] */
    struct sl_partials losses;
    uint32_t *turn_end,
        *turn_end_back; /* partials of this rank's chunks after each slot of the epoch, forward and back */
    uint32_t stage[SL_MAX_MODEL_LAYERS]; /* of each layer (deal.h) */
    uint32_t history_every;              /* R */
    double gradient_factor;
    starpu_data_handle_t token[SL_MAX_MODEL_LAYERS][2]; /* of the segment that begins with a layer (recompute.h) */
    bool watched; /* a guard looks at the losses: one that is no finite number does not end the run */
};

/* Whether chunks read of each other boundary rows that are packed; else all rows where they are. */
static inline bool sl_pipe_packs(const struct sl_pipe *pipe)
{
    return pipe->boundary.chunk != NULL && pipe->order.n_slots > 1;
}

/* Whether what travels in the epoch in hand is history for the next ones. */
static inline bool sl_pipe_is_snapshot(const struct sl_pipe *pipe)
{
    return pipe->order.n_slots > 1 && (pipe->pass.step + 1) % pipe->history_every == 0;
}

/* Whether sums of boundary vertices are kept for the way back, where layers run again: then it needs no rows of other chunks, and
 * their old history goes as the new one comes. Any other epoch has history and what travels in it by then, and no room for sums. */
static inline bool sl_pipe_keeps_sums(const struct sl_pipe *pipe)
{
    return sl_pipe_packs(pipe) && sl_pipe_is_snapshot(pipe);
}

#endif
