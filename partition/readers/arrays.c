/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of a dataset in one file of arrays, .safetensors or .npz. The arrays have the names of PyG's Data or of
 * OGB: edge_index [2, E], edge_weight [E], x [N, F] (with x_scale if int8), y [N] or [N, K], train_mask, val_mask and
 * test_mask [N] (or train, valid and test with ids), num_nodes. partition/raw.c has the list. */
#include <stdio.h>

#include "partition/reader.h"
#include "support/memory.h"

static bool recognise(const char *path)
{
    return (sl_reader_ends_in(path, ".safetensors") || sl_reader_ends_in(path, ".npz")) &&
           sl_raw_array(path, SL_RAW_EDGES) != NULL;
}

static enum sl_status find(const struct sl_request *request, struct sl_raw_files *out)
{
    const char *path = request->path;
    const struct sl_reader_tables tables = {.features = sl_raw_array(path, SL_RAW_FEATURES) != NULL,
                                            .labels = sl_raw_array(path, SL_RAW_LABELS) != NULL,
                                            .split = sl_raw_array(path, SL_RAW_TRAIN) != NULL,
                                            .place = "add arrays y, train_mask, val_mask and test_mask"};
    enum sl_status st = sl_reader_start(sl_reader_arrays.name, request, &tables, out);
    for (int i = 0; i < SL_RAW_N_FILES && st == SL_OK; i++) {
        if (sl_raw_array(path, (enum sl_raw_file)i) != NULL) {
            st = sl_strdup(path, &out->paths[i]);
        }
    }
    if (st != SL_OK) {
        sl_raw_files_free(out);
        return st;
    }
    const char *unused = sl_raw_unused_array(path);
    if (unused != NULL) {
        snprintf(out->unused, sizeof out->unused, "%.300s: %s", path, unused);
    }
    return SL_OK;
}

const struct sl_reader sl_reader_arrays = {
    .name = "a file of arrays", .recognise = recognise, .find = find, .read = sl_raw_read};
