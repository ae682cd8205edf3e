/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The call of METIS. No other file includes metis.h of METIS.
 */
#ifndef SL_PARTITION_METIS_H
#define SL_PARTITION_METIS_H

#include <stdint.h>

#include "data/dataset.h"

/* What is balanced: vertices, in-degrees, training and validation vertices. */
enum { SL_N_LOADS = 4 };

/* Cut the dataset's graph into n_parts parts by METIS's multilevel k-way method (Karypis, Kumar 1998). The graph
 * counts as undirected and without self loops. Vertices, in-degrees, training and validation vertices are balanced
 * to 3 %, and few edges are cut. parts[N] gets each vertex's part. Parts may be empty.
 *
 * Not thread safe: on failure METIS writes to standard output, so the call redirects standard output and error.
 * SL_EMETIS: METIS failed, or its integers are too small for the graph (message: METIS's own). SL_ENOMEM. */
enum sl_status sl_metis_partition(const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed, uint32_t *parts);

/* Clusters of vertices and the edges between them. A list does not have its own cluster. If q is in the list of r, r is
 * in the list of q. */
struct sl_cluster_graph {
    uint32_t n;
    uint64_t *offsets;             /* n + 1 */
    uint32_t *neighbours, *edges;  /* by entry of the lists: the other cluster, and the number of edges between them */
    uint64_t (*loads)[SL_N_LOADS]; /* by cluster */
};

/* The same for a graph of clusters: the best of n_tries cuts, or of bisections if there are few parts. parts[n] gets
 * each cluster's part. */
enum sl_status sl_metis_cut(const struct sl_cluster_graph *graph, uint32_t n_parts, uint32_t n_tries, uint64_t seed,
                            uint32_t *parts);

/* Bytes of a directed edge: the graph, and coarser graphs with weights. 68 were measured for 198 M edges. */
#define SL_METIS_EDGE_BYTES 64

/* METIS counts fewer directed edges than this. */
uint64_t sl_metis_most_edges(void);

/* *out: the graph, if it is symmetric. Else `both` gets the union of the graph and its reverse, and *out is `both`.
 * SL_ENOMEM. */
enum sl_status sl_metis_undirected(const struct sl_graph *graph, struct sl_graph *both, const struct sl_graph **out);

#endif
