/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Loading a dataset.
 */
#ifndef SL_DATA_LOAD_H
#define SL_DATA_LOAD_H

#include "data/raw.h"

/* Load a dataset. The cache is used if its file is valid. Otherwise the dataset is read from its files, and the
 * cache is written. The generator makes a dataset for a name that ends in -synthetic. It also makes a stand-in for
 * "arxiv" or "products" if the data path has neither a folder nor an archive of the name. A folder without data, or an
 * archive, is an error. Notices (sl_on_notice): a stand-in, tables that are not used, and work that takes long.
 * SL_ENOTFOUND: no such dataset (message: the folders searched, the datasets there, the nearest name). SL_EFILE: a file
 * is wrong or missing (message: file, line, expected content). SL_EINVAL: an option is wrong. SL_ENOMEM, SL_EIO. On
 * failure *out is empty. */
enum sl_status sl_dataset_load(const struct sl_dataset_options *options, struct sl_dataset *out);

/* Make a dataset of raw tables. The dataset takes over the tables, and *raw is left empty. `directed` false: add the
 * reverse of every edge. scaling: as in the options. SL_EINVAL: an edge has an id out of range; SL_NORMALIZE_COLUMN of
 * a typed graph. SL_ENOMEM.
 * On failure *out is empty, and *raw still owns its tables, whose features may be normalized. */
enum sl_status sl_dataset_make(const char *name, struct sl_raw *raw, bool directed, enum sl_normalize normalize,
                               const struct sl_scaling *scaling, struct sl_dataset *out);

/* The name of a file, in the cache folder, for data derived from a dataset. The stem "metis-4-seed-1" gives
 * FOLDER/NAME-HASH-metis-4-seed-1.slc, a file for sl_partition_make. *out (sl_free) is NULL if the options say
 * that no cache is kept. If there is no such dataset, the call fails like sl_dataset_load. */
enum sl_status sl_dataset_cache_file(const struct sl_dataset_options *options, const char *stem, char **out);

/* The same for a dataset of arrays, which has contents in place of a path: `key` is a hash of them. The folder is
 * `cache`, as in the options; by default the user's cache folder, for graphs whose partition takes a while. */
enum sl_status sl_dataset_cache_file_of_arrays(const char *cache, uint64_t key, uint32_t n_vertices, const char *stem,
                                               char **out);

#endif
