/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 1, dataset: loading and letting go.
 */
#ifndef SL_PARTITION_LOAD_H
#define SL_PARTITION_LOAD_H

#include "partition/raw.h"

enum sl_normalize { SL_NORMALIZE_NONE, SL_NORMALIZE_ROW /* sl_features_normalize_rows */ };

/* What to load, as the command line says it. Strings stay the caller's. */
struct sl_dataset_options {
    const char *dataset; /* a name looked up on the data path, or a folder */
    const char
        *data_path;    /* folders separated by ':'; NULL: $STARLING_DATA, then ./data, then ~/.local/share/starling */
    const char *split; /* NULL: the only one there is */
    const char *features;  /* a file relative to the dataset's folder; NULL: raw/node-feat.csv.gz (or .npy, .npz) */
    const char *cache;     /* a folder, "none", or NULL: beside the data if writable, else the user's cache folder */
    enum sl_raw_need need; /* what may be missing */
    bool directed;         /* do not add reverse edges */
    enum sl_normalize normalize;
    uint64_t seed; /* of the generator */
    bool
        low_memory; /* for a process that needs a part of it: little of a cache file is in memory at a time. A dataset that is not in
                      the cache, or may not be, is in memory as ever */
};

/* Load a dataset: from the cache if it has a valid copy, else from the files, and then write the cache. Only two kinds of names are
 * generated: names that end in -synthetic, and "arxiv" and "products" if no such dataset is on the path. A folder or archive of that
 * name that is no whole dataset is an error.
 * Notices (sl_on_notice): data that are synthetic without being asked for, tables that are not used, and work that takes long.
 * SL_ENOTFOUND: no such dataset (message: the data path, the datasets on it, the nearest name). SL_EFILE: a file is wrong or missing
 * (file, line, what was expected). SL_EINVAL: options. SL_ENOMEM, SL_EIO. On failure *out is empty. */
enum sl_status sl_dataset_load(const struct sl_dataset_options *options, struct sl_dataset *out);

/* Make a dataset of raw tables, which move into it: *raw is left empty. `directed`: do not add reverse edges.
 * SL_EINVAL: an edge's id is out of range. SL_ENOMEM. On failure *out is empty and *raw still owns its tables. */
enum sl_status sl_dataset_make(const char *name, struct sl_raw *raw, bool directed, enum sl_normalize normalize,
                               struct sl_dataset *out);

/* The name of a file for what is derived from the dataset that `options` mean, in the folder of the cache:
 * "metis-4-seed-1" gives FOLDER/NAME-HASH-metis-4-seed-1.slc. For sl_partition_make. *out (sl_free) is NULL where there
 * is to be no cache. As sl_dataset_load fails where there is no such dataset. */
enum sl_status sl_dataset_cache_file(const struct sl_dataset_options *options, const char *stem, char **out);

/* Release all of it and empty the struct; an empty one is allowed. */
void sl_dataset_free(struct sl_dataset *dataset);

#endif
