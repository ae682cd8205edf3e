/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Splits drawn by chance: --split random:60,20,20, percentages of training, validation and test.
 *
 * Each vertex or link has a random number of its own (support/random.h): of the seed and the dataset's ids. The lists
 * take the smallest numbers first. So they are the same on every machine, for all partitions and ranks, and for every
 * form of the files.
 */
#ifndef SL_DATA_RANDOM_SPLIT_H
#define SL_DATA_RANDOM_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"

/* For messages. */
#define SL_RANDOM_SPLIT_OF_VERTICES "--split random:60,20,20"
#define SL_RANDOM_SPLIT_OF_LINKS "--split random:80,10,10"

struct sl_random_split {
    bool wanted;      /* false: the text names a split */
    uint64_t part[3]; /* of training, validation, test: millionths of a percent */
    char name[64];    /* the text */
    uint64_t seed;
};

/* Parse the value of --split. NULL, or any text that does not begin with "random:": not wanted. SL_EINVAL: not three
 * percentages above 0 that sum to 100. On failure *out is unchanged. */
enum sl_status sl_random_split_parse(const char *text, uint64_t seed, struct sl_random_split *out);

/* Split the vertices with a known target, and replace the dataset's split. Each class is split by itself, and the
 * three lists have the sizes nearest to the percentages of all. SL_EINVAL: a list would be empty. SL_ENOMEM. On failure
 * the dataset is unchanged. */
enum sl_status sl_random_split_vertices(const struct sl_random_split *rule, struct sl_dataset *dataset);

/* Split the edges into links, and take the links to find out of the graph, in both directions. An edge and its reverse
 * go together; of a graph with both directions of all edges, the link from the lower id is listed. Self loops stay
 * edges. A graph that is not typed loses the weights of its edges. Of a typed graph, each relation is split by itself.
 * If a relation has the reverses of another's edges and no other edges, the second of them only loses edges.
 * SL_EINVAL: a list would be empty, a relation would have links to find but none to train on, or the features count
 * the edges. SL_ENOMEM. On failure the dataset is unchanged. */
enum sl_status sl_random_split_links(const struct sl_random_split *rule, struct sl_dataset *dataset);

#endif
