/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Partition: cut the vertices into parts, and renumber them so that a part is a range of ids.
 *   before: data/dataset.h     after: codelets/sampling/sample.h reads a part's in-edges
 *
 * From here on `id` means the new id, unless a name says dataset_id.
 */
#ifndef SL_PARTITION_PARTITION_H
#define SL_PARTITION_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "data/dataset.h"
#include "support/compare.h"

/* As --partition lists them. */
enum sl_partition_method { SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE, SL_PARTITION_STREAM };

/* A partition into G parts. Part q has the ids first[q] .. first[q + 1] - 1. A part consists of n_pieces / G
 * consecutive pieces; piece k has piece[k] .. piece[k + 1] - 1. Within a piece vertices keep the order of their
 * dataset ids, or are breadth first (of_pieces).
 *
 * `graph` is the whole graph in new ids. An in-neighbour list keeps the order of the dataset's ids, because random
 * draws address list positions and sums run along a list.
 *
 * If a process has only some parts (`held`), the lists of all further parts are absent, with
 * offsets only at the start of each part. The arrays have full size, but untouched pages take no memory. */
struct sl_partition {
    uint32_t n_parts;
    uint32_t n_pieces;      /* a multiple of G */
    uint32_t *first;        /* G + 1 */
    uint32_t *piece;        /* n_pieces + 1 */
    sl_vertex *dataset_ids; /* N: new id -> dataset's id */
    sl_vertex *new_ids;     /* N: dataset's id -> new id */
    struct sl_graph graph;
    uint64_t n_cut; /* edges between different parts */
    /* Largest part over mean part, by: vertices, in-edges, train, valid. 1 is perfect. */
    double balance[4];
};

#define SL_PARTITION_PIECES 32

/* How to cut a dataset. */
struct sl_partition_rule {
    enum sl_partition_method method;
    uint32_t n_parts; /* 1 .. 65535 */
    uint64_t seed;    /* equal seeds give equal parts */
    /* If this file is valid, the parts are read from it. Else they are computed and written to it. NULL: no file */
    const char *cache_file;
    const bool *held; /* the in-neighbour lists of part q are there only if held[q]. NULL: all parts */
    bool of_pieces;   /* for training on the whole graph: in pieces, and breadth first */
};

/* The number of pieces of a partition of_pieces. */
uint32_t sl_partition_pieces(enum sl_partition_method method, uint32_t n_vertices, uint32_t n_parts);

/* Partition the dataset's vertices.
 *    SL_PARTITION_METIS    METIS k-way (Karypis, Kumar 1998) on the undirected graph without self loops.
 *                          Constraints: 1, in-degree, is-train, is-valid; imbalance 3 %; objective: cut.
 *    SL_PARTITION_RANDOM   a permutation by hash, stratified over train, valid, test and rest
 *    SL_PARTITION_NONE     equal ranges of the dataset's order
 *    SL_PARTITION_STREAM   clusters that METIS cuts (partition/stream.h), for large graphs
 * One part is always the identity. Parts may be empty if n_parts > N. METIS's own output is captured.
 *
 * of_pieces. If METIS is the method, n_parts divides SL_PARTITION_PIECES and the graph has at least
 * SL_PARTITION_PIECES^2 vertices, then METIS makes SL_PARTITION_PIECES pieces, and each part is a sequence of pieces.
 * Ids, and sums made piece by piece, are then equal for all such n_parts, 1 included. (METIS's k-way method starts
 * from a recursive bisection, so neighbouring pieces share edges.) Otherwise each part is one piece. The file stores
 * the pieces. Vertices of a piece are in breadth-first order along in-edges inside the piece, from the smallest dataset
 * id. Rows of one sum then lie close together.
 *
 * SL_EINVAL: n_parts is 0 or over 65535. SL_EMETIS. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_partition_make(const struct sl_dataset *dataset, const struct sl_partition_rule *rule,
                                 struct sl_partition *out);

/* The owner of an id, by binary search in first[n_parts + 1]. */
static inline uint32_t sl_partition_owner(const uint32_t *first, uint32_t n_parts, sl_vertex id)
{
    return sl_range_of(first, n_parts, id);
}

/* Release all arrays and empty the struct. An empty struct is allowed. */
void sl_partition_free(struct sl_partition *partition);

#endif
