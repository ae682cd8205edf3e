/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What full-graph training needs of the graph beside the shards, whose parts are its chunks: out-neighbours, which chunks meet, and
 * the labels of the training vertices alone. With several ranks that is of own chunks, those of the PEs here of the crew's plan.
 */
#ifndef SL_RUNTIME_PIPE_GRAPH_H
#define SL_RUNTIME_PIPE_GRAPH_H

#include "runtime/full/halo.h"

/* The lists of a chunk's vertices, by their numbers (struct sl_pipe_side). */
struct sl_pipe_lists {
    starpu_data_handle_t offsets, vertices; /* uint64, n + 1; uint32 */
    uint64_t n_edges;
};

/* In-edges, or out-edges: what vertices are called in lists. Where the crew is one rank it is their renumbered ids; else the numbers of a
 * halo, among which chunk s begins at first_of[s]. */
struct sl_pipe_side {
    const struct sl_halo *halo;   /* NULL: all chunks are own */
    const uint32_t *first_of;     /* K + 1; borrowed, as the next two */
    starpu_data_handle_t first;   /* over it */
    starpu_data_handle_t factors; /* codelets/aggregate.h, by number */
    uint16_t *part_of;            /* by number; of out-edges NULL where in-edges have the same */
    starpu_data_handle_t parts;   /* over it */
};

struct sl_pipe_chunk {
    struct sl_pipe_lists in, out;
    starpu_data_handle_t labels; /* int32, of the training vertices; -1 elsewhere */
};

struct sl_pipe_graph {
    uint32_t n_chunks;          /* K: the shards' parts */
    struct sl_graph transposed; /* empty where the graph itself has the same lists (transpose.h) */
    struct sl_halo halo;        /* of the transposed, where the crew is of several ranks */
    struct sl_halo in_halo;     /* where there are several such crews; else the shards' is the same */
    struct sl_graph numbered;   /* the in-edges of own chunks, by number; its arrays are the shards', but for */
    sl_vertex *sources;         /* these, with in_halo: evaluation walks along the edges of other chunks there */
    struct sl_pipe_side in, out;
    int32_t *train_labels; /* N, of own chunks */
    bool *meets; /* [K x K]: entry q K + s: a vertex of s is an in-neighbour of one of q; one of them is own */
    struct sl_pipe_chunk *chunk; /* K, the own ones filled in */
};

/* The plan is a crew's (sl_plan_of_crew). The shards are borrowed; their vertices are weighed (sl_shards_weigh), and where there is one
 * crew, of several ranks, their halo stays entered, as nobody samples. Collective, as sl_ranks_broadcast.
 * SL_EIO, SL_ENOMEM, SL_EINVAL as sl_pipe_transpose. What there is then is for close. */
enum sl_status sl_pipe_graph_open(const struct sl_plan *plan, const struct sl_shards *shards,
                                  struct sl_pipe_graph *out);

/* A vector that tasks only read, of n elements that outlive it; an empty one is registered with one that nobody reads. */
starpu_data_handle_t sl_pipe_readable(const void *memory, uint64_t n, size_t element);

/* Wait for the readers, release. An empty struct is allowed. */
void sl_pipe_graph_close(struct sl_pipe_graph *graph);

#endif
