/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of folders in the raw layout of the Open Graph Benchmark (data/raw.h). */
#include "data/reader.h"

static enum sl_status find(const struct sl_request *request, struct sl_raw_files *out)
{
    enum sl_status st = SL_OK;
    *out = (struct sl_raw_files){0};
    SL_CHECK(sl_reader_refuse_two(request->path));
    st = sl_raw_find(request->path, request->features, request->split, request->need, out);
    if (st == SL_EINVAL && request->split == NULL && request->usual_split != NULL) {
        st = sl_raw_find(request->path, request->features, request->usual_split, request->need, out);
    }
    out->targets = request->targets;
    return st;
}

const struct sl_reader sl_reader_ogb = {
    .name = "a folder in OGB's layout", .recognise = sl_raw_is_folder, .find = find, .read = sl_raw_read};
