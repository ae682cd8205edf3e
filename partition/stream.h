/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Cut a graph that METIS has no memory or no integers for. Vertices join the cluster of most of their neighbours (label
 * propagation; Raghavan et al. 2007; with a limit of the clusters' sizes: Meyerhenke, Sanders, Schulz 2014). METIS cuts
 * the graph of the clusters. Then single vertices move to the part of most of their neighbours. A pass reads each list
 * once.
 */
#ifndef SL_PARTITION_STREAM_H
#define SL_PARTITION_STREAM_H

#include <stdint.h>

#include "data/dataset.h"

/* Cut the dataset's graph into n_parts parts, with few edges between them. Moves keep four loads within 5 %: vertices,
 * in-degrees, training and validation vertices. parts[N] gets each vertex's part. Parts may be empty.
 *
 * Memory: 16 bytes a vertex, 36 a neighbour of the vertex with most, and twice the graph of the clusters. A graph that
 * is not symmetric in edges, weights and relations is first joined with its reverse. That takes 24 bytes an edge.
 *
 * Equal seeds give equal parts, with any number of threads. Not thread safe, as sl_metis_partition. SL_EMETIS: METIS
 * failed. SL_ENOMEM. */
enum sl_status sl_stream_partition(const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed, uint32_t *parts);

#endif
