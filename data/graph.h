/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The graph as the in-edges of each vertex (CSC). In a typed graph each edge has a relation, a number from 0. The
 * vertices of a type have consecutive ids, so a relation also tells the types of its ends (data/readers/typed.c).
 *   before: an edge list from a reader or the generator     after: partition/partition.h renumbers it
 */
#ifndef SL_DATA_GRAPH_H
#define SL_DATA_GRAPH_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

/* N vertices, E directed edges. Messages flow from source to destination. The in-neighbours of v are
 * sources[offsets[v]] .. sources[offsets[v + 1] - 1]: distinct, and ascending in the dataset's ids. In a typed graph
 * they are ordered by relation, then by id, and a source comes once for each relation. */
struct sl_graph {
    uint32_t n_vertices;
    uint64_t n_edges;
    uint64_t *offsets;    /* N + 1 */
    sl_vertex *sources;   /* E */
    float *weights;       /* E, finite and not negative, in the order of `sources`. NULL: none */
    uint16_t *relations;  /* E, below n_relations, in the order of `sources`. NULL: the graph is not typed */
    uint32_t n_relations; /* 0: the graph is not typed */
    uint32_t *rows;       /* E: the edge's row in the table of edge features. NULL: edges have no features */
};

/* A table of numbers of edges, row-major and finite. NULL: edges have no features. */
struct sl_edge_features {
    uint64_t n_rows;
    uint32_t n_columns;
    float *values;
};

/* A list of edges from[i] -> to[i]. The arrays stay the caller's. */
struct sl_edge_list {
    uint32_t n_vertices;
    uint64_t n;
    const sl_vertex *from, *to;
    const float *weights;      /* n; NULL: none */
    const uint16_t *relations; /* n, below n_relations; NULL: the graph is not typed */
    uint32_t n_relations;
    bool reverse;    /* each edge stands for both directions */
    float *features; /* n x n_columns, finite: a row for each edge. NULL: none. Rows of duplicates change */
    uint32_t n_columns;
};

/* Build a graph from `n` edges from[i] -> to[i], in two counting passes. `reverse` adds the reverse of each edge.
 * Duplicates are removed, and a self loop stays once. The arrays stay the caller's. weights[i] belongs to edge i; NULL:
 * no weights.
 *
 * Duplicates. The weight of an edge u -> v is the sum of the weights of all listed u -> v, in the order of the list, in
 * double, rounded to float at the end. PyG's coalesce and SciPy's sum_duplicates add, too.
 * Reverses. If the list has only u -> v, then `reverse` gives v -> u the same weight. If the list has both directions,
 * each direction keeps the sum of its own entries: a list with every edge from both ends does not double.
 * Features. The same rules: rows of duplicates add up in the row of the first, and a reverse has the row of its edge.
 *
 * SL_EINVAL: an id is not below n_vertices; a weight is negative, infinite or nan, or a sum is no float (message: the
 * edge). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_graph_build(uint32_t n_vertices, uint64_t n, const sl_vertex *from, const sl_vertex *to,
                              const float *weights, bool reverse, struct sl_graph *out);

/* Most relations of a typed graph, reverse relations among them. */
#define SL_MAX_RELATIONS 65535

/* Build a graph of a list. Without relations: as above. Of a typed graph the reverse of an edge of relation r has
 * relation n_relations + r, so that the graph then has 2 n_relations, and the weight of its edge. Edges that are equal
 * in both ends and the relation are one, and their weights add up. SL_EINVAL as above, or too many relations (message:
 * the number), or 2^31 edges with features. SL_ENOMEM. */
enum sl_status sl_graph_build_list(const struct sl_edge_list *edges, struct sl_graph *out);

/* *out: the reverse of every edge is in the graph, too, with the same weight and relation. SL_ENOMEM. */
enum sl_status sl_graph_is_symmetric(const struct sl_graph *graph, bool *out);

/* List the edges; the caller frees both arrays (sl_free). Without `once`: all edges, ordered by destination. With
 * `once`, for a symmetric graph: each pair of opposite edges gives the edge from the lower id, ordered by source.
 * SL_ENOMEM. */
enum sl_status sl_graph_list_edges(const struct sl_graph *graph, bool once, uint64_t *n_out, sl_vertex **from_out,
                                   sl_vertex **to_out);

#define SL_NO_EDGE UINT64_MAX

/* The place in `sources` of the edge from -> to; of a typed graph, of the edge of a relation. SL_NO_EDGE: there is
 * none. */
uint64_t sl_graph_find_edge(const struct sl_graph *graph, sl_vertex from, sl_vertex to, uint32_t relation);

/* Copy a graph without the edges e with dropped[e] != 0. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_graph_copy_rest(const struct sl_graph *graph, const unsigned char *dropped, struct sl_graph *out);

/* Give `sources`, and the further arrays that `like` has, room for n edges. SL_ENOMEM: the graph may have some of them.
 */
enum sl_status sl_graph_alloc_edges(uint64_t n, const struct sl_graph *like, struct sl_graph *graph);

/* Copy the weights, relations and rows of n edges, from edge `first` of a graph to edge `place` of another, which has
 * some of these arrays. */
void sl_graph_copy_edges(const struct sl_graph *from, uint64_t first, uint64_t n, const struct sl_graph *to,
                         uint64_t place);

/* Release the arrays and empty the struct. An empty struct is allowed. */
void sl_graph_free(struct sl_graph *graph);

#define SL_WEIGHT_EXPECTED "the weight of an edge, a finite number of 0 or more"

/* True if x can be the weight of an edge: finite and not negative. */
static inline bool sl_weight_is_valid(float x)
{
    return x >= 0 && x <= FLT_MAX;
}

#endif
