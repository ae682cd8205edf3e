/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A dataset as its files have it: an edge list and tables, before a graph is built. Read from and written to a folder
 * in the raw layout of the Open Graph Benchmark; made by the generator too.
 *
 *   raw/num-node-list.csv.gz   N            raw/num-edge-list.csv.gz   number of edges
 *   raw/edge.csv.gz            source,destination
 *   raw/node-feat.csv.gz       the features of one vertex a line
 *   raw/node-label.csv.gz      the class of one vertex a line
 *   split/NAME/train.csv.gz, valid.csv.gz, test.csv.gz             one id a line
 * or, binary, raw/data.npz with edge_index, node_feat and num_nodes_list, and raw/node-label.npz with node_label.
 * A `.csv` does instead of each `.csv.gz`, and raw/node-feat.npy instead of the features.
 */
#ifndef SL_PARTITION_RAW_H
#define SL_PARTITION_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/dataset.h"

struct sl_raw {
    uint32_t n_vertices;
    uint64_t n_edges;
    sl_vertex *from; /* E, each edge as the file has it */
    sl_vertex *to;
    struct sl_features features; /* N rows */
    int32_t *labels;             /* N; -1: unknown */
    char split[64];
    struct sl_ids train, valid, test;
};

/* The files a dataset is read from. */
enum sl_raw_file {
    SL_RAW_NODE_COUNT,
    SL_RAW_EDGE_COUNT,
    SL_RAW_EDGES,
    SL_RAW_BINARY, /* raw/data.npz, instead of the three above */
    SL_RAW_FEATURES,
    SL_RAW_LABELS,
    SL_RAW_TRAIN,
    SL_RAW_VALID,
    SL_RAW_TEST,
    SL_RAW_N_FILES
};

struct sl_raw_files {
    char split[64];
    char *paths[SL_RAW_N_FILES]; /* NULL: not needed */
};

/* Find the files of the dataset in `folder`: `features` names another feature file, relative to the folder; `split`
 * NULL means the only one there is. SL_EFILE: a file is missing (message: which; for features, that --features names
 * another). SL_EINVAL: the split is not there, or not the only one (message: the names). SL_ENOMEM. On failure *out is
 * empty. */
enum sl_status sl_raw_find(const char *folder, const char *features, const char *split, struct sl_raw_files *out);

void sl_raw_files_free(struct sl_raw_files *files);

/* Read the files. Ids are in range, every table has N rows, the lists of the split are sorted, pairwise disjoint and
 * their vertices have labels. SL_EFILE, SL_EIO, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_raw_read(const struct sl_raw_files *files, struct sl_raw *out);

/* Write the layout above (CSV, gzip) to `folder`, which is made. Reading it back gives the same, to the bit. Tables
 * that are not there (features, labels, and with an empty name the split) are left out. SL_EIO, SL_ENOMEM. */
enum sl_status sl_raw_write(const struct sl_raw *raw, const char *folder);

/* Write a dataset likewise: the graph's edges, of each pair of opposite edges only one unless `directed`. SL_EIO,
 * SL_ENOMEM. */
enum sl_status sl_raw_write_dataset(const struct sl_dataset *dataset, bool directed, const char *folder);

/* Check what sl_raw_read promises, of data that came from elsewhere; `where` starts the messages. SL_EFILE,
 * SL_ENOMEM. */
enum sl_status sl_raw_check(const struct sl_raw *raw, const char *where);

void sl_raw_free(struct sl_raw *raw);

/* The largest label + 1. */
uint32_t sl_raw_count_classes(const struct sl_raw *raw);

#endif
