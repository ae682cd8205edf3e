/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Readers of datasets, as a table. A dataset is a file or a folder. Each reader has a file in data/readers/.
 * data/load.h uses them, so all programs read the same datasets.
 */
#ifndef SL_DATA_READER_H
#define SL_DATA_READER_H

#include <stdbool.h>

#include "data/raw.h"

struct sl_reader {
    const char *name; /* of the kind of dataset, "a file of arrays" */
    /* True if the dataset is of this kind. */
    bool (*recognise)(const char *path);
    /* Find the files, and refuse a dataset that lacks a table. SL_EFILE: a table is missing. SL_EINVAL: the request has
     * a feature file or a split that the dataset cannot have. SL_EIO, SL_ENOMEM. On failure *out is empty. */
    enum sl_status (*find)(const struct sl_dataset_options *request, struct sl_raw_files *out);
    /* Read the files, with the guarantees of sl_raw_read. Absent tables are empty, absent labels unknown. SL_EFILE
     * (message: the file, the line if it has lines, the expected content), SL_EIO, SL_ENOMEM. On failure *out is
     * empty. */
    enum sl_status (*read)(const struct sl_raw_files *files, struct sl_raw *out);
    /* The names and ends of the relations, as `relations` and `ends` of struct sl_dataset; sl_free. NULL: this kind has
     * none. SL_EFILE, SL_EIO, SL_ENOMEM. */
    enum sl_status (*describe_relations)(const struct sl_raw_files *files, char **names, struct sl_link_ends **ends);
};

extern const struct sl_reader sl_reader_arrays;
extern const struct sl_reader sl_reader_ogb;
extern const struct sl_reader sl_reader_table;
extern const struct sl_reader sl_reader_typed;

/* The reader of a file or folder. NULL: there is none. */
const struct sl_reader *sl_reader_of(const char *path);

/* The tables of a dataset besides its graph, for a reader of another layout than OGB's. */
struct sl_reader_tables {
    bool features, labels, split;
    const char *place; /* for labels and a split: "training needs a folder with them" */
};

#define SL_READER_SPLIT "file" /* the name of the split of such a dataset */

/* Refuse what the dataset cannot give, and set the members of *files that the request decides. Paths stay. SL_EFILE,
 * SL_EINVAL. */
enum sl_status sl_reader_start(const char *name, const struct sl_dataset_options *request,
                               const struct sl_reader_tables *tables, struct sl_raw_files *files);

/* Refuse a file that no reader knows. The message has the command that makes a dataset of it. Always SL_EFILE. */
enum sl_status sl_reader_refuse(const char *path);

/* Refuse a folder with raw that has a table edges, too. SL_EFILE. */
enum sl_status sl_reader_refuse_two(const char *folder);

#endif
