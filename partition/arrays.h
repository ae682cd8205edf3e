/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A dataset made of arrays in memory, instead of files.
 */
#ifndef SL_PARTITION_ARRAYS_H
#define SL_PARTITION_ARRAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "support/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A graph with features, labels and a split. Edges are a list, or rows: the in-neighbours of vertex v are
 * sources[offsets[v]] .. sources[offsets[v + 1] - 1]. */
struct sl_arrays {
    const char *name; /* at most 63 bytes; NULL: "arrays" */
    uint32_t n_vertices;
    uint64_t n_edges;
    const uint32_t *sources;      /* n_edges */
    const uint32_t *destinations; /* n_edges; NULL: offsets are there */
    const uint64_t *offsets;      /* n_vertices + 1; NULL: destinations are there */
    bool directed;                /* do not add reverse edges */
    uint32_t n_features;
    const float *features; /* n_vertices x n_features, row major, finite */
    uint32_t n_classes;    /* below 2^31; 0: 1 + the largest label */
    const int32_t *labels; /* n_vertices: 0 .. n_classes - 1, or -1 where unknown */
    /* Vertices of the split, each at most once in all three, with labels. valid and test may be empty */
    uint32_t n_train, n_valid, n_test;
    const uint32_t *train, *valid, *test;
};

struct sl_dataset;

/* Check the arrays and make a dataset of them. The features are borrowed until the dataset is deleted, and never written; of the other
 * arrays there are copies, in which duplicate edges are dropped and the split is in order. A dataset serves any number of sessions.
 * SL_EINVAL: the message names the array and the entry. SL_ENOMEM. On failure *out is NULL. */
SL_API enum sl_status sl_dataset_new(const struct sl_arrays *arrays, struct sl_dataset **out);
SL_API void sl_dataset_delete(struct sl_dataset *dataset);

#ifdef __cplusplus
}
#endif

#endif
