/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 1, dataset: graph, features, labels and split, from files, from the binary cache or from the generator.
 *   before: files               after: partition/partition.h
 *
 * All ids in here are the dataset's own.
 */
#ifndef SL_PARTITION_DATASET_H
#define SL_PARTITION_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/graph.h"

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

/* Ids of a split's part, ascending, no duplicates. */
struct sl_ids {
    uint32_t n;
    sl_vertex *ids;
};

struct sl_dataset {
    char name[64];                    /* "ogbn-arxiv", "arxiv-synthetic" */
    bool synthetic;                   /* made by the generator */
    struct sl_graph graph;            /* N vertices */
    struct sl_features features;      /* N rows */
    uint32_t n_classes;               /* 1 + the largest label */
    int32_t *labels;                  /* N; -1: unknown. Every vertex of the three lists below has a label. */
    char split[64];                   /* the split's name */
    struct sl_ids train, valid, test; /* pairwise disjoint */
    void *mapping;                    /* private: the memory map the arrays point into, or NULL */
    uint64_t mapping_bytes;
    const float *lent; /* private: a dense table that is another's (partition/arrays.h) */
};

struct sl_raw; /* partition/raw.h */

enum sl_normalize { SL_NORMALIZE_NONE, SL_NORMALIZE_ROW };

/* What to load, as the command line says it. Strings stay the caller's. */
struct sl_dataset_options {
    const char *dataset; /* a name looked up on the data path, or a folder */
    const char
        *data_path;    /* folders separated by ':'; NULL: $STARLING_DATA, then ./data, then ~/.local/share/starling */
    const char *split; /* NULL: the only one there is */
    const char *features; /* a file relative to the dataset's folder; NULL: raw/node-feat.csv.gz (or .npy, .npz) */
    const char *cache;    /* a folder, "none", or NULL: beside the data if writable, else the user's cache folder */
    bool directed;        /* do not add reverse edges */
    enum sl_normalize normalize;
    uint64_t seed; /* of the generator */
};

/* Load a dataset: from the cache where a valid one is there, else from the files (and then write the cache), else, for
 * a name that is nowhere on the path and that the generator knows, from the generator ("arxiv" gives arxiv-synthetic).
 * SL_ENOTFOUND: no such dataset (message: where it was looked for). SL_EFILE: a file is wrong (file, line, what was
 * expected). SL_EINVAL: options. SL_ENOMEM, SL_EIO. On failure *out is empty. */
enum sl_status sl_dataset_load(const struct sl_dataset_options *options, struct sl_dataset *out);

/* Make a dataset of raw tables, which move into it: *raw is left empty. `directed`: do not add reverse edges.
 * SL_EINVAL: an edge's id is out of range. SL_ENOMEM. On failure *out is empty and *raw as it was. */
enum sl_status sl_dataset_make(const char *name, struct sl_raw *raw, bool directed, enum sl_normalize normalize,
                               struct sl_dataset *out);

/* The name of a file for what is derived from the dataset that `options` mean, in the folder of the cache:
 * "metis-4-seed-1" gives FOLDER/NAME-HASH-metis-4-seed-1.slc. For sl_partition_make. *out (sl_free) is NULL where there
 * is to be no cache. As sl_dataset_load fails where there is no such dataset. */
enum sl_status sl_dataset_cache_file(const struct sl_dataset_options *options, const char *stem, char **out);

/* Release the memory of the graph's edges and of the features, which nobody may read from here on; the counts, the labels and the
 * split stay. Of a mapped cache file the pages are let go. */
void sl_dataset_shed(struct sl_dataset *dataset);

/* Release all of it and empty the struct; an empty one is allowed. */
void sl_dataset_free(struct sl_dataset *dataset);

#endif
