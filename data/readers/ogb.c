/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of folders in the raw layout of the Open Graph Benchmark (data/raw.h). */
#include "data/reader.h"

static enum sl_status find(const struct sl_dataset_options *request, struct sl_raw_files *out)
{
    *out = (struct sl_raw_files){0};
    SL_CHECK(sl_reader_refuse_two(request->dataset));
    return sl_raw_find(request, out);
}

const struct sl_reader sl_reader_ogb = {
    .name = "a folder in OGB's layout", .recognise = sl_raw_is_folder, .find = find, .read = sl_raw_read};
