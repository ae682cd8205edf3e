/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The graph as full-graph training needs it, beside the shards: out-neighbours, the pairs of chunks that share edges,
 * and the targets of training vertices only. Chunks are the shards' parts. With several ranks a rank has this for its
 * own chunks: the chunks of its PEs in the crew's plan.
 */
#ifndef SL_RUNTIME_PIPE_CHUNK_GRAPH_H
#define SL_RUNTIME_PIPE_CHUNK_GRAPH_H

#include "runtime/full/halo_lists.h"

/* Neighbour lists of a chunk's vertices. Entries are numbers (struct sl_pipe_side). */
struct sl_pipe_lists {
    /* uint64 [n + 1]; uint32 [n_edges]. */
    starpu_data_handle_t offsets, vertices;
    uint64_t n_edges;
    /* float [n_edges]. NULL: sums do not use weights. */
    starpu_data_handle_t weights;
};

/* The numbers of vertices in the lists of in-edges, or of out-edges. In a crew of one rank a vertex's number is its
 * renumbered id. In a crew of several ranks it is the vertex's number in a halo. Chunk s has numbers from first_of[s]
 * on. */
struct sl_pipe_side {
    /* NULL: all chunks are own chunks. */
    const struct sl_halo *halo;
    /* K + 1. Borrowed, as are first and factors. */
    const uint32_t *first_of;
    /* Handle of first_of. */
    starpu_data_handle_t first;
    /* By number: codelets/sums/aggregate.h. */
    starpu_data_handle_t factors;
    /* By number: the chunk. NULL for out-edges with the same numbers as in-edges. */
    uint16_t *part_of;
    /* Handle of part_of. */
    starpu_data_handle_t parts;
};

struct sl_pipe_chunk {
    struct sl_pipe_lists in, out;
    /* As struct sl_shard's. Targets of vertices outside the training set are unknown. */
    starpu_data_handle_t targets;
};

struct sl_pipe_graph {
    /* K: the shards' parts. */
    uint32_t n_chunks;
    /* Empty if the graph is symmetric: then the graph equals its transpose (chunk_graph.c). */
    struct sl_graph transposed;
    /* Halo of `transposed`, if the crew has several ranks. */
    struct sl_halo halo;
    /* Halo of in-edges, if there are several crews of several ranks. A single crew uses the shards' halo. */
    struct sl_halo in_halo;
    /* In-edges of own chunks by number. Its arrays belong to the shards. With in_halo, `sources` is a copy, because
     * evaluation gives the sources of the shards other numbers. */
    struct sl_graph numbered;
    sl_vertex *sources;
    struct sl_pipe_side in, out;
    /* [N x width], filled in for own chunks. */
    void *train_targets;
    /* [K x K]: entry q K + s says whether an edge leads from chunk s to chunk q. Filled in if q or s is an own
     * chunk. */
    bool *meets;
    /* [K], filled in for own chunks. */
    struct sl_pipe_chunk *chunk;
};

/* Build the graph. The plan is a crew's plan (sl_plan_of_crew). The shards are borrowed; call sl_shards_weigh first.
 * With one crew of several ranks, the shards' halo stays entered for the rest of the run, as nobody samples.
 * Collective, as sl_ranks_broadcast. SL_EIO, SL_ENOMEM; SL_EINVAL as sl_pipe_transpose. On failure, too, call
 * sl_pipe_graph_close. */
enum sl_status sl_pipe_graph_open(const struct sl_plan *plan, const struct sl_shards *shards,
                                  struct sl_pipe_graph *out);

/* Wait for the readers, free everything. An empty struct is allowed. */
void sl_pipe_graph_close(struct sl_pipe_graph *graph);

/* The pipeline slots of GNNPipe. Way w of W owns chunks w K/W .. (w + 1) K/W - 1 of K. It takes its chunks in a
 * random order, drawn anew for each way and epoch (technique 1; Chen, Chen, Qian 2023), or in ascending order. Slot t
 * consists of the t-th chunk of every way. */
struct sl_pipe_order {
    uint32_t n_chunks; /* K, a multiple of W */
    uint32_t n_ways;   /* W */
    uint32_t n_slots;  /* K / W */
    uint32_t *chunk;   /* [slot][way]; owned by the caller */
    uint32_t *slot_of; /* by chunk; owned by the caller */
};

/* Draw the order of an epoch, a function of (seed, epoch, way) only. shuffle false: ascending order. */
void sl_pipe_order_draw(struct sl_pipe_order *order, bool shuffle, uint64_t seed, uint64_t epoch);

/* Compute slot_of from `chunk`. sl_pipe_order_draw does this itself. */
void sl_pipe_order_invert(struct sl_pipe_order *order);

#endif
