/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of a dataset in one safetensors file. The arrays have the names of PyG's Data or of
 * OGB: edge_index [2, E], edge_weight [E], x [N, F] (with x_scale if int8), y [N] or [N, K], train_mask, val_mask and
 * test_mask [N] (or train, valid and test with ids), num_nodes. data/raw.c has the list. */
#include "data/reader.h"
#include "support/memory.h"
#include "support/text.h"

static bool recognise(const char *path)
{
    return sl_text_ends_in(path, ".safetensors") && sl_raw_has_edges(path);
}

static enum sl_status find(const struct sl_dataset_options *request, struct sl_raw_files *out)
{
    SL_OWNED(sl_raw_files_free)
    struct sl_raw_files found = {.need = request->need, .edge_features = request->edge_features};
    *out = (struct sl_raw_files){0};
    for (int i = 0; i < SL_RAW_N_FILES; i++) {
        if (i >= SL_RAW_TRAIN && i <= SL_RAW_TEST && sl_raw_reads_no_split(request->split)) {
            continue;
        }
        if (i == SL_RAW_EDGE_FEATURES && !request->edge_features) {
            continue;
        }
        SL_CHECK(sl_raw_take_array(request->dataset, (enum sl_raw_file)i, &found));
    }
    const struct sl_reader_tables tables = {.features = found.paths[SL_RAW_FEATURES] != NULL,
                                            .labels = found.paths[SL_RAW_LABELS] != NULL,
                                            .split = found.paths[SL_RAW_TRAIN] != NULL,
                                            .place = "add arrays y, train_mask, val_mask and test_mask"};
    if (found.paths[SL_RAW_EDGES] == NULL) {
        return sl_reader_refuse(request->dataset);
    }
    SL_CHECK(sl_raw_note_arrays(request->dataset, &found));
    SL_CHECK(sl_reader_start(sl_reader_arrays.name, request, &tables, &found));
    *out = SL_TAKE(found);
    return SL_OK;
}

const struct sl_reader sl_reader_arrays = {
    .name = "a file of arrays", .recognise = recognise, .find = find, .read = sl_raw_read};
