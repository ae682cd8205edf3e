/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Readers of files that are a whole dataset, as a table. Each reader has a file in partition/readers/. partition/load.h
 * uses them, so all programs read the same files. A folder in OGB's layout is read by partition/raw.h.
 */
#ifndef SL_PARTITION_READER_H
#define SL_PARTITION_READER_H

#include <stdbool.h>

#include "partition/raw.h"

struct sl_reader {
    const char *name; /* of the kind of file, "a METIS graph" */
    /* True if the reader reads the file at `path`. The file exists. */
    bool (*probe)(const char *path);
    /* Read the file, with the guarantees of sl_raw_read. Absent tables are empty, absent labels unknown. SL_EFILE
     * (message: the file, the line if it has lines, the expected content), SL_EIO, SL_ENOMEM. On failure *out is
     * empty. */
    enum sl_status (*read)(const char *path, struct sl_raw *out);
    /* The tables that such a file can have, besides its graph. */
    bool has_features, has_labels, has_split;
};

extern const struct sl_reader sl_reader_metis;
extern const struct sl_reader sl_reader_mtx;

/* The reader of a file. NULL: there is none. */
const struct sl_reader *sl_reader_of(const char *path);

/* Refuse the file if it lacks a table that `need` asks for. `made`: features are made, not read. SL_EFILE (message: the
 * absent table). */
enum sl_status sl_reader_check(const struct sl_reader *reader, const char *path, enum sl_raw_need need, bool made);

#endif
