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

/* Scores on samples: a sum reads `fanout` in-neighbours of a vertex, uniformly and without replacement, or all. Sums
 * with vertex factors are scaled to stay unbiased (codelets/sums/aggregate.h). */
struct sl_score_sample {
    uint64_t seed;
    const uint32_t *fanout; /* [layers], input side first; SL_FANOUT_ALL: all */
};

/* In-neighbour lists of the numbered vertices. */
struct sl_needed_lists {
    struct sl_graph graph;
    struct sl_part_handles *part; /* [n_parts] */
};

struct sl_needed {
    const struct sl_shards *all;
    const struct sl_score_sample *sample; /* NULL: all in-neighbours */
    uint32_t n_layers;                    /* that sum over edges */
    /* Shards of the numbered vertices, without their lists. Ids are numbers, and `iota` has the ids in `all`. Only
     * scored vertices have targets and sets. */
    struct sl_shards shards;
    struct sl_partition partition;
    uint32_t n_hops;  /* of numbered vertices */
    uint32_t *n_rows; /* [n_parts x (n_hops + 1)]: vertices of a part within 0, 1, .. hops. NULL: empty */
    /* With samples, by hop: lists[0] is of the last layer. Without, all hops share lists[0]. If the first layer sums
     * features where they lie, the last lists are its own, with sources that are ids in `all`. */
    uint32_t n_lists;
    struct sl_needed_lists *lists;
    /* If the first layer sums features where they lie: ids in `all` of each part's rows. Else NULL. */
    starpu_data_handle_t *ids;
};

#define SL_NEEDED_MOST 0.75 /* of the edges of an evaluation of all vertices */

/* Find the vertices that the rows of chosen vertices need or, if chosen is NULL, the objective's scores. Above, chosen
 * vertices count as scored. One process has all parts. sample: borrowed; NULL: sums read all in-neighbours. Then *out
 * stays empty if all vertices should be evaluated: the needed rows save less than a quarter of all sums, or less memory
 * than the copies take. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_needed_open(const struct sl_shards *shards, const struct sl_model *model,
                              const struct sl_chosen *chosen, const struct sl_score_sample *sample,
                              struct sl_needed *out);

/* Wait for the readers, unregister, free. An empty struct is allowed. */
void sl_needed_close(struct sl_needed *needed);

/* Number of vertices of part q within `hops` hops that have a number. */
static inline uint32_t sl_needed_rows(const struct sl_needed *needed, uint32_t q, uint32_t hops)
{
    const uint32_t most = hops < needed->n_hops ? hops : needed->n_hops;
    return needed->n_rows[(size_t)q * (needed->n_hops + 1) + most];
}

/* Whether the first layer sums features where they lie. */
static inline bool sl_needed_reads_table(const struct sl_needed *needed)
{
    return needed->n_hops < needed->n_layers;
}

/* The lists of a layer whose outputs are `hop` hops before those of the last layer. */
static inline const struct sl_needed_lists *sl_needed_lists_of(const struct sl_needed *needed, uint32_t hop)
{
    const bool first_layer = sl_needed_reads_table(needed) && hop == needed->n_layers - 1;
    const uint32_t shared = first_layer ? needed->n_lists - 1 : 0;
    return &needed->lists[needed->sample != NULL ? hop : shared];
}

#endif
