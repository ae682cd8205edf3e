/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What an epoch of full-graph training sends between stages and between ways, whether or not they live apart: counted from the graph and
 * the layers, as the schedule is always the same.
 *
 *   stages   each row of what the first layer of a stage takes in, once forward, and its gradient back, which is of sl_real; where
 *            layers read the first one's output again, each stage but the first gets that, too
 *   ways     for each layer that aggregates, each row that out-neighbours in other ways read, once for each such way; and back each
 *            gradient that in-neighbours in other ways read, which in a graph with edges in both directions are as many
 *   weights  each stage's, summed over its ways and given back to all: 2 (W - 1) times
 */
#ifndef SL_RUNTIME_PIPE_TRAFFIC_H
#define SL_RUNTIME_PIPE_TRAFFIC_H

#include "runtime/pipe/pipe.h"

struct sl_pipe_traffic {
    uint64_t mirrors;      /* M(W): pairs of a vertex and another way that has an out-neighbour of it */
    uint64_t mirrors_back; /* that has an in-neighbour of it */
    uint64_t stages;       /* bytes, both directions */
    uint64_t rows, row_gradients;
    uint64_t weights;
};

/* The way of a chunk. */
uint32_t sl_pipe_way(const struct sl_pipe *pipe, uint32_t q);

/* Of one epoch, of all ranks. Collective, as sl_ranks_sum. SL_EIO, SL_ENOMEM. */
enum sl_status sl_pipe_count(const struct sl_pipe *pipe, struct sl_pipe_traffic *out);

#endif
