/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The call of METIS; the only file that knows it is metis.c.
 */
#ifndef SL_PARTITION_METIS_H
#define SL_PARTITION_METIS_H

#include <stdint.h>

#include "partition/dataset.h"

/* Cut the dataset's graph, taken as undirected and without self loops, into n_parts parts of balanced vertices,
 * in-degrees, training and validation vertices (3 %), with few edges between them (Karypis, Kumar 1998, multilevel
 * k-way). parts[N] gets each vertex's part. Where there are no more vertices than parts, vertex v is part v. Not thread
 * safe: METIS writes on standard output in bad cases, so that is turned away while it runs. SL_EMETIS: METIS gave up,
 * or its integers are too small for the graph (message: what it said). SL_ENOMEM. */
enum sl_status sl_metis_partition(const struct sl_dataset *dataset, uint32_t n_parts, uint64_t seed, uint32_t *parts);

#endif
