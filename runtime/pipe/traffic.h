/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The bytes that an epoch of full-graph training sends between stages and between ways, wherever these run. The bytes
 * are counted from the graph and the layers, since every epoch sends the same.
 *
 *   stages   each input row of a stage's first layer, once forward, and its gradient (sl_real) once backward. If
 *            layers read the output of the model's first layer again, each stage except the first gets these rows,
 *            too.
 *   ways     per aggregating layer, forward: each row that out-neighbours in other ways read, once per such way.
 *            Backward: each gradient that in-neighbours in other ways read. In a symmetric graph the two numbers are
 *            equal.
 *   weights  each stage's weights, summed over the ways and returned to all: 2 (W - 1) times.
 */
#ifndef SL_RUNTIME_PIPE_TRAFFIC_H
#define SL_RUNTIME_PIPE_TRAFFIC_H

#include "runtime/pipe/pipe.h"

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
