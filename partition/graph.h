/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The graph as the in-edges of each vertex (CSC).
 *   before: an edge list from a reader or the generator     after: partition/partition.h renumbers it
 */
#ifndef SL_PARTITION_GRAPH_H
#define SL_PARTITION_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/column.h"
#include "support/real.h"
#include "support/status.h"

/* N vertices, E directed edges. Messages flow from source to destination. The in-neighbours of v are
 * sources[offsets[v]] .. sources[offsets[v + 1] - 1]: distinct, and ascending in the dataset's ids. */
struct sl_graph {
    uint32_t n_vertices;
    uint64_t n_edges;
    uint64_t *offsets;  /* N + 1 */
    sl_vertex *sources; /* E */
    /* float32 [E x 1], finite and not negative: the weight of each edge, in the order of `sources`. Or empty. */
    struct sl_column weights;
};

/* Build a graph from `n` edges from[i] -> to[i], in two counting passes. `reverse` adds the reverse of each edge.
 * Duplicates are removed, and a self loop stays once. `from` and `to` stay the caller's. SL_EINVAL: an id is not
 * below n_vertices (message: the edge). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_graph_build(uint32_t n_vertices, uint64_t n, const sl_vertex *from, const sl_vertex *to, bool reverse,
                              struct sl_graph *out);

/* *out: the reverse of every edge is in the graph, too. SL_ENOMEM. */
enum sl_status sl_graph_is_symmetric(const struct sl_graph *graph, bool *out);

/* List the edges; the caller frees both arrays (sl_free). Without `once`: all edges, ordered by destination. With
 * `once`, for a symmetric graph: each pair of opposite edges gives the edge from the lower id, ordered by source.
 * SL_ENOMEM. */
enum sl_status sl_graph_list_edges(const struct sl_graph *graph, bool once, uint64_t *n_out, sl_vertex **from_out,
                                   sl_vertex **to_out);

/* Release the arrays and empty the struct. An empty struct is allowed. */
void sl_graph_free(struct sl_graph *graph);

#endif
