/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Inductive inference (Hamilton, Ying, Leskovec 2017): new vertices beside a loaded graph. Their neighbourhood becomes
 * a small graph of its own. An evaluation of it gives them the rows that they would have in the whole graph.
 */
#ifndef SL_RUNTIME_FULL_INDUCTIVE_H
#define SL_RUNTIME_FULL_INDUCTIVE_H

#include "data/dataset.h"
#include "partition/partition.h"
#include "runtime/store/shards.h"

/* New vertices and their edges, in the terms of the model. `dataset` has the ends of these edges: first n_touched
 * vertices of the loaded graph, then the new ones. touched: dataset ids of the former, ascending. Features are of the
 * new ones alone. Edges have weights, relations and features if those of the loaded graph have. */
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

/* Copy the vertices within n_hops in-edges of the new ones, and the lists of all but the last hop. A list keeps the
 * order that it has in the whole graph, where new vertices come last, so sums have the same bits. An exception: the
 * model reads no relations of a typed graph; then new sources end each list. Vertices of the last hop have no list, but
 * the factors of the whole graph.
 *
 * all: of one process; used until sl_inductive_close. factor: that of the model's sums (sl_shards_weigh). SL_ENOMEM. On
 * failure *out is empty. */
enum sl_status sl_inductive_open(const struct sl_shards *all, const struct sl_added *added, uint32_t n_hops,
                                 double (*factor)(double d), struct sl_inductive *out);

/* Wait for the readers, unregister, free. An empty struct is allowed. */
void sl_inductive_close(struct sl_inductive *inductive);

#endif
