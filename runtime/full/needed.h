/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The vertices that the scores need: the scored vertices, and all vertices from which a path of at most L edges leads
 * to a scored vertex. Each layer needs a hop less than the layer before. The last layer computes the scored vertices
 * alone.
 *
 * The needed vertices of a part are numbered by their number of hops, then by id. So the rows within h hops are the
 * first rows of the part, as frontiers nest (tasks/rows.h). A list keeps its order, so sums have the bits of an
 * evaluation of all vertices.
 *
 * If the first layer sums features where they lie (sl_feature_source_in_place), its sources keep their ids, and the
 * vertices of the last hop get no numbers.
 */
#ifndef SL_RUNTIME_FULL_NEEDED_H
#define SL_RUNTIME_FULL_NEEDED_H

#include "runtime/model/model.h"
#include "runtime/objective/collect.h"
#include "runtime/store/shards.h"

struct sl_needed {
    const struct sl_shards *all;
    /* Shards of the numbered vertices. Ids are numbers, and `iota` has the ids in `all`. Only scored vertices have
     * targets and sets. */
    struct sl_shards shards;
    struct sl_partition partition;
    uint32_t n_hops;  /* of numbered vertices */
    uint32_t *n_rows; /* [n_parts x (n_hops + 1)]: vertices of a part within 0, 1, .. hops. NULL: empty */
    /* If the first layer sums features where they lie: its lists by part, with sources that are ids in `all`. ids: of
     * each part's rows. NULL: the first layer reads the lists of the shards. */
    struct sl_part_handles *first_lists;
    starpu_data_handle_t *ids;
    struct sl_graph first_graph;
};

/* Find the vertices that the rows of chosen vertices need or, if chosen is NULL, the objective's scores. Above, chosen
 * vertices count as scored. One process has all parts. Leaves *out empty if all vertices should be evaluated: the
 * needed rows save less than a quarter of all sums, or less memory than the copies take. SL_ENOMEM. On failure *out is
 * empty. */
enum sl_status sl_needed_open(const struct sl_shards *shards, const struct sl_model *model,
                              const struct sl_chosen *chosen, struct sl_needed *out);

/* Wait for the readers, unregister, free. An empty struct is allowed. */
void sl_needed_close(struct sl_needed *needed);

/* Number of vertices of part q within `hops` hops that have a number. */
static inline uint32_t sl_needed_rows(const struct sl_needed *needed, uint32_t q, uint32_t hops)
{
    const uint32_t most = hops < needed->n_hops ? hops : needed->n_hops;
    return needed->n_rows[(size_t)q * (needed->n_hops + 1) + most];
}

#endif
