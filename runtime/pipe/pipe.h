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
    struct sl_work work;
    struct sl_pipe_graph graph;
    struct sl_pipe_boundary boundary; /* with --recompute and several slots; else empty */
    struct sl_pipe_order order;       /* of the epoch in hand */
    struct sl_pass pass;              /* a PE for each chunk */
    struct sl_pass_group group;       /* unused: no norm is over a batch here */
    struct sl_replicas replicas;      /* one */
    struct sl_rows *history;          /* [layer][chunk]: what travelled in the snapshot's epoch; empty: none */
    struct sl_rows *sent;             /* likewise: where sl_pipe_packs, boundary rows of what travels in the epoch, */
    struct sl_rows *returned;         /* and of what travels back */
    struct sl_partials *gradients;    /* [layer][parameter] */
    struct sl_partials losses;
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

#endif
