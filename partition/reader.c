/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The table of readers. */
#include "partition/reader.h"

#include <stddef.h>

#include "partition/made_features.h"

static const struct sl_reader *const readers[] = {&sl_reader_metis, &sl_reader_mtx};

const struct sl_reader *sl_reader_of(const char *path)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (readers[i]->probe(path)) {
            return readers[i];
        }
    }
    return NULL;
}

enum sl_status sl_reader_check(const struct sl_reader *reader, const char *path, enum sl_raw_need need, bool made)
{
    if (need == SL_RAW_FOR_TRAINING && !(reader->has_labels && reader->has_split)) {
        return sl_fail(SL_EFILE, "%.300s: found %s, expected labels and a split too: training needs a folder with them",
                       path, reader->name);
    }
    if (need != SL_RAW_FOR_LOOKS && !made && !reader->has_features) {
        return sl_fail(SL_EFILE, "%.300s: found %s, which has no features; --features can be " SL_FEATURE_WORDS, path,
                       reader->name);
    }
    return SL_OK;
}
