/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A dataset as its files have it: an edge list and tables, before a graph is built. Read from and written to a folder
 * in the raw layout of the Open Graph Benchmark; made by the generator too.
 *
 *   raw/edge.csv.gz            source,destination
 *   raw/node-feat.csv.gz       the features of one vertex a line
 *   raw/node-label.csv.gz      the class of one vertex a line
 *   split/NAME/train.csv.gz, valid.csv.gz, test.csv.gz             one id a line
 *   raw/num-node-list.csv.gz   N            raw/num-edge-list.csv.gz   number of edges
 * The two counts may be missing: N is then the number of labels or feature rows, or the largest id + 1.
 * A `.csv` or NumPy's `.npy` does instead of each `.csv.gz`, but for the counts. edge.npy has shape (2, E) or (E, 2); a split may be
 * a mask. raw/data.npz with edge_index, and node_feat and num_nodes_list, replaces the first two files, and raw/node-label.npz with
 * node_label the third.
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
    uint32_t n_dropped; /* vertices of the split that had no label (SL_RAW_FOR_INFERENCE) */
};

/* What a command needs of a dataset. */
enum sl_raw_need {
    SL_RAW_FOR_TRAINING,  /* all of it */
    SL_RAW_FOR_INFERENCE, /* labels and split may be missing. Vertices of the split without a label are left out of it */
    SL_RAW_FOR_LOOKS      /* features, too, may be missing */
};

/* The files a dataset is read from. */
enum sl_raw_file {
    SL_RAW_NODE_COUNT,
    SL_RAW_EDGE_COUNT,
    SL_RAW_EDGES,
    SL_RAW_BINARY, /* raw/data.npz, instead of the edges */
    SL_RAW_FEATURES,
    SL_RAW_LABELS,
    SL_RAW_TRAIN,
    SL_RAW_VALID,
    SL_RAW_TEST,
    SL_RAW_N_FILES
};

struct sl_raw_files {
    enum sl_raw_need need;
    char split[64];              /* "": none */
    char *paths[SL_RAW_N_FILES]; /* NULL: not there, and not needed */
    char unused[160];            /* a table of the edges that is not read, "raw/edge-feat.csv.gz"; "": none */
};

/* Find the files of the dataset in `folder`: `features` names another feature file, relative to the folder; `split`
 * NULL means the only one there is. SL_EFILE: a file is missing (message: which; for features, that --features names
 * another). SL_EINVAL: the split is not there, or not the only one (message: the names). SL_ENOMEM. On failure *out is
 * empty. */
enum sl_status sl_raw_find(const char *folder, const char *features, const char *split, enum sl_raw_need need,
                           struct sl_raw_files *out);

/* Does the folder look like a dataset: has it a folder `raw`? */
bool sl_raw_is_folder(const char *folder);

void sl_raw_files_free(struct sl_raw_files *files);

/* Read the files. Ids are in range, every table that is there has N rows, the lists of the split are sorted, pairwise disjoint and
 * their vertices have labels. SL_EFILE, SL_EIO, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_raw_read(const struct sl_raw_files *files, struct sl_raw *out);

/* Write the layout above (CSV, gzip) to `folder`, which is made. Reading it back gives the same, to the bit. Tables
 * that are not there (features, labels, and with an empty name the split) are left out. SL_EIO, SL_ENOMEM. */
enum sl_status sl_raw_write(const struct sl_raw *raw, const char *folder);

/* Write a dataset likewise: the graph's edges, of each pair of opposite edges only one unless `directed`. SL_EIO,
 * SL_ENOMEM. */
enum sl_status sl_raw_write_dataset(const struct sl_dataset *dataset, bool directed, const char *folder);

/* Check what sl_raw_read promises with all tables there, of data that came from elsewhere; `where` starts the messages. SL_EFILE,
 * SL_ENOMEM. */
enum sl_status sl_raw_check(const struct sl_raw *raw, const char *where);

void sl_raw_free(struct sl_raw *raw);

/* The largest label + 1. */
uint32_t sl_raw_count_classes(const struct sl_raw *raw);

#endif
