/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What full-graph training needs of the graph beside the shards, whose parts are its chunks: out-neighbours, which chunks meet, and
 * the labels of the training vertices alone.
 */
#ifndef SL_RUNTIME_PIPE_GRAPH_H
#define SL_RUNTIME_PIPE_GRAPH_H

#include "runtime/store/shards.h"

/* The lists of a chunk's vertices, by renumbered id. */
struct sl_pipe_lists {
    starpu_data_handle_t offsets, vertices; /* uint64, n + 1; uint32 */
    uint64_t n_edges;
};

struct sl_pipe_chunk {
    struct sl_pipe_lists in, out;
    starpu_data_handle_t labels; /* int32, of the training vertices; -1 elsewhere */
};

struct sl_pipe_graph {
    uint32_t n_chunks;           /* K: the shards' parts */
    struct sl_graph transposed;  /* by renumbered id; empty where the graph is symmetric */
    uint16_t *part_of;           /* N */
    starpu_data_handle_t parts;  /* over it */
    int32_t *train_labels;       /* N */
    bool *meets;                 /* [K x K]: entry q K + s: a vertex of s is an in-neighbour of one of q */
    struct sl_pipe_chunk *chunk; /* K */
};

/* The shards are borrowed; their vertices are weighed (sl_shards_weigh). SL_ENOMEM. What there is then is for close. */
enum sl_status sl_pipe_graph_open(const struct sl_shards *shards, struct sl_pipe_graph *out);

/* A vector that tasks only read, of n elements that outlive it; an empty one is registered with one that nobody reads. */
starpu_data_handle_t sl_pipe_readable(const void *memory, uint64_t n, size_t element);

/* Wait for the readers, release. An empty struct is allowed. */
void sl_pipe_graph_close(struct sl_pipe_graph *graph);

#endif
