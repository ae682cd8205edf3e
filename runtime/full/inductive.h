/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Inductive inference (Hamilton, Ying, Leskovec 2017): new vertices beside a loaded graph. Their neighbourhood becomes
 * a small graph of its own, in which an evaluation gives the new vertices the rows that they would have in the whole
 * graph with them.
 */
#ifndef SL_RUNTIME_FULL_INDUCTIVE_H
#define SL_RUNTIME_FULL_INDUCTIVE_H

#include "data/dataset.h"
#include "partition/partition.h"
#include "runtime/store/shards.h"

/* The edges of new vertices. `dataset` has the graph of all vertices of these edges: first the n_touched vertices of
 * the loaded graph, whose dataset ids ascend, then the new ones. Its features are of the new ones alone. All is in the
 * terms of the model. Edges have weights, relations and features if those of the loaded graph have. */
struct sl_added {
    const struct sl_dataset *dataset;
    uint32_t n_touched;
    const sl_vertex *touched;
};

struct sl_inductive {
    struct sl_dataset dataset; /* the new vertices, then the vertices around them */
    struct sl_partition partition;
    struct sl_shards shards;
};

/* Copy all vertices within n_hops in-edges of the new ones, and the in-edges of all but the last hop. Lists keep the
 * order that they have in the whole graph with the new vertices behind all others, so its sums are equal to the bit.
 * (If the model reads no relations of a typed graph, new sources come last.)
 * Vertices of the last hop have no list, but the factors of the whole graph. factor: of the model's sums
 * (sl_shards_weigh). all: of one process, held until sl_inductive_close. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_inductive_open(const struct sl_shards *all, const struct sl_added *added, uint32_t n_hops,
                                 double (*factor)(double d), struct sl_inductive *out);

/* Wait for the readers, unregister, free. An empty struct is allowed. */
void sl_inductive_close(struct sl_inductive *inductive);

#endif
