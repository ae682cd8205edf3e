/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 2, partition: cut the vertices into parts and renumber them so that a part is a range of ids.
 *   before: partition/dataset.h     after: codelets/sample.h reads a part's in-edges
 *
 * From here on `id` means the renumbered id unless a name says dataset_id.
 */
#ifndef SL_PARTITION_PARTITION_H
#define SL_PARTITION_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/dataset.h"

enum sl_partition_method { SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE };

/* Part q of G holds the ids first[q] .. first[q + 1] - 1, and is a run of n_pieces / G pieces, of which piece k holds piece[k] ..
 * piece[k + 1] - 1. Within a piece vertices keep the order of their dataset ids, or have that of sl_partition_make_of_pieces.
 * graph is the whole graph in new numbers: in-neighbour lists hold new ids, but keep the order of the dataset's ids,
 * because draws address positions in them and sums run along them. Of a process that holds some parts alone (sl_partition_make_held) the
 * lists of the others are not there, and of their offsets only those where parts begin; memory that nobody touches costs nothing. */
struct sl_partition {
    uint32_t n_parts;
    uint32_t n_pieces;      /* a multiple of G */
    uint32_t *first;        /* G + 1 */
    uint32_t *piece;        /* n_pieces + 1 */
    sl_vertex *dataset_ids; /* N: new id -> dataset's id */
    sl_vertex *new_ids;     /* N: dataset's id -> new id */
    struct sl_graph graph;
    uint64_t n_cut;    /* edges whose ends lie in different parts */
    double balance[4]; /* largest part over mean part, of: vertices, in-edges, train, valid; 1 is perfect */
};

/* Partition the dataset's vertices into n_parts (>= 1). SL_PARTITION_METIS: METIS k-way, constraints (1, in-degree,
 * is-train, is-valid), imbalance 3 %, objective cut, on the undirected graph without self loops (Karypis, Kumar 1998).
 * SL_PARTITION_RANDOM: a permutation by hash, stratified over train, valid, test and rest. SL_PARTITION_NONE: equal
 * ranges of the dataset's order. One part is always the identity. `cache_file` (or NULL) names a file to read the parts
 * from, if it is valid, or to write them to. Deterministic for a seed. Parts may be empty when n_parts > N. METIS's own
 * output is caught. SL_EINVAL: n_parts is 0 or over 65535. SL_EMETIS. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_partition_make(const struct sl_dataset *dataset, enum sl_partition_method method, uint32_t n_parts,
                                 uint64_t seed, const char *cache_file, struct sl_partition *out);

/* The same, with the edges of those parts q alone for which held[q]; NULL: of all. */
enum sl_status sl_partition_make_held(const struct sl_dataset *dataset, enum sl_partition_method method,
                                      uint32_t n_parts, uint64_t seed, const char *cache_file, const bool *held,
                                      struct sl_partition *out);

#define SL_PARTITION_PIECES 32

/* How many pieces sl_partition_make_of_pieces makes. */
uint32_t sl_partition_pieces(enum sl_partition_method method, uint32_t n_vertices, uint32_t n_parts);

/* For training on the whole graph, the same, but for two things. Where SL_PARTITION_PIECES is a multiple of n_parts, METIS makes so many
 * pieces of a graph of at least as many vertices each, and every part is a run of them: ids, and what is summed piece by piece, are the
 * same for each such n_parts, 1 among them. (METIS' k-way parts begin as those of a recursive bisection, so that runs of them share edges.)
 * Elsewhere a part is a piece. And within a piece vertices are in breadth-first order, along in-edges inside it from the least dataset id,
 * so that rows that are summed together lie together. The file is of the pieces. */
enum sl_status sl_partition_make_of_pieces(const struct sl_dataset *dataset, enum sl_partition_method method,
                                           uint32_t n_parts, uint64_t seed, const char *cache_file, const bool *held,
                                           struct sl_partition *out);

/* The part that owns an id, by binary search. */
static inline uint32_t sl_partition_owner(const uint32_t *first, uint32_t n_parts, sl_vertex id)
{
    uint32_t low = 0;
    uint32_t high = n_parts;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (first[middle] <= id) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Release all of it and empty the struct; an empty one is allowed. */
void sl_partition_free(struct sl_partition *partition);

#endif
