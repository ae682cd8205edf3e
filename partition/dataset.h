/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 1, dataset: graph, features, labels and split, from files, from the binary cache or from the generator.
 *   before: files (partition/load.h)     after: partition/partition.h
 *
 * All ids in here are the dataset's own.
 */
#ifndef SL_PARTITION_DATASET_H
#define SL_PARTITION_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/graph.h"

#define SL_MAX_CLASSES 65536 /* as many as --hidden; a label beyond is some other number */

/* The features of n_rows vertices, n_columns each. Held dense, or, where under 10 % are non-zero, as CSR. Exactly one
 * of the two forms is there: `dense` is NULL or `offsets` is. Stored as float whatever sl_real is. */
struct sl_features {
    uint32_t n_rows;
    uint32_t n_columns;
    float *dense;      /* n_rows x n_columns, row major */
    uint64_t *offsets; /* n_rows + 1 */
    uint32_t *columns; /* ascending within a row */
    float *values;
};

/* The largest magnitudes of features: [0] in `column`, [1] in all other columns. */
struct sl_feature_range {
    uint32_t column;
    float largest[2];
};

/* Ids of a split's part, ascending, no duplicates. */
struct sl_ids {
    uint32_t n;
    sl_vertex *ids;
};

struct sl_dataset {
    char name[64];               /* "ogbn-arxiv", "arxiv-synthetic" */
    bool synthetic;              /* made by the generator */
    struct sl_graph graph;       /* N vertices */
    struct sl_features features; /* N rows */
    struct sl_feature_range range;
    uint32_t n_classes;               /* 1 + the largest label; at most SL_MAX_CLASSES */
    int32_t *labels;                  /* N; -1: unknown. Every vertex of the three lists below has a label. */
    char split[64];                   /* the split's name */
    struct sl_ids train, valid, test; /* pairwise disjoint */
    void *mapping;                    /* private: the memory map the arrays point into, or NULL */
    uint64_t mapping_bytes;
    bool low_memory;   /* private: of the map, little stays in memory (partition/load.h) */
    const float *lent; /* private: a dense table that is another's (partition/arrays.h) */
};

/* Of a dataset that is loaded sparingly: give back what has been read of the cache file so far, which is read again where it is needed.
 * Of others nothing. */
void sl_dataset_drop_pages(const struct sl_dataset *dataset);

#endif
