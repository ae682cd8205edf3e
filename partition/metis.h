/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The call of METIS. No other file includes metis.h of METIS.
 */
#ifndef SL_PARTITION_METIS_H
#define SL_PARTITION_METIS_H

#include <stdint.h>

#include "data/dataset.h"

/* Cut the dataset's graph into n_parts parts by METIS's multilevel k-way method (Karypis, Kumar 1998). The graph
 * counts as undirected and without self loops. Vertices, in-degrees, training and validation vertices are balanced
 * to 3 %, and few edges are cut. parts[N] gets each vertex's part. If n_parts >= N, vertex v is part v. Otherwise no
 * part is empty: a part that METIS leaves empty takes half of the largest part.
 *
 * Not thread safe: on failure METIS writes to standard output, so the call redirects standard output and error.
 * SL_EMETIS: METIS failed, or its integers are too small for the graph (message: METIS's own). SL_ENOMEM. */
enum sl_status sl_metis_partition(const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed, uint32_t *parts);

#endif
