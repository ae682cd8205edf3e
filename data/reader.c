/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The table of readers, and checks that several of them share. */
#include "data/reader.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "data/made_features.h"
#include "data/random_split.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/safetensors.h"
#include "support/text.h"

static const struct sl_reader *const readers[] = {&sl_reader_typed, &sl_reader_ogb, &sl_reader_arrays,
                                                  &sl_reader_table};

const struct sl_reader *sl_reader_of(const char *path)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        if (readers[i]->recognise(path)) {
            return readers[i];
        }
    }
    return NULL;
}

static enum sl_status check_tables(const char *name, const struct sl_dataset_options *request,
                                   const struct sl_reader_tables *tables, bool made)
{
    const bool no_split = sl_raw_reads_no_split(request->split);
    SL_FAIL_IF(request->need == SL_RAW_FOR_LINKS, SL_EFILE,
               "%.300s: found %s, expected links to find; draw them by " SL_RANDOM_SPLIT_OF_LINKS
               ", or list them in a folder with split/NAME/train.csv, valid.csv and test.csv",
               request->dataset, name);
    SL_FAIL_IF(request->need == SL_RAW_FOR_TRAINING && !tables->labels, SL_EFILE,
               "%.300s: found %s, expected labels %s: %s", request->dataset, name, no_split ? "too" : "and a split too",
               tables->place);
    SL_FAIL_IF(request->need == SL_RAW_FOR_TRAINING && !tables->split && !no_split, SL_EFILE,
               "%.300s: found %s, expected a split too: " SL_RANDOM_SPLIT_OF_VERTICES ", or %s", request->dataset, name,
               tables->place);
    SL_FAIL_IF(request->need != SL_RAW_FOR_LOOKS && !made && !tables->features, SL_EFILE,
               "%.300s: found %s, which has no features; --features can be " SL_FEATURE_WORDS, request->dataset, name);
    SL_FAIL_IF(request->split != NULL && !no_split && !tables->split, SL_EINVAL,
               "%.300s: found %s, which has no split; leave out --split, or draw one: " SL_RANDOM_SPLIT_OF_VERTICES,
               request->dataset, name);
    SL_FAIL_IF(request->split != NULL && !no_split && strcmp(request->split, SL_READER_SPLIT) != 0, SL_EINVAL,
               "%.300s has no split '%s'; leave out --split, or draw one: " SL_RANDOM_SPLIT_OF_VERTICES,
               request->dataset, request->split);
    SL_FAIL_IF(request->features != NULL && !made, SL_EINVAL,
               "%.300s: a file has no folder for --features %.200s; it can be " SL_FEATURE_WORDS, request->dataset,
               request->features);
    return SL_OK;
}

enum sl_status sl_reader_start(const char *name, const struct sl_dataset_options *request,
                               const struct sl_reader_tables *tables, struct sl_raw_files *files)
{
    struct sl_made_features made;
    SL_CHECK(sl_made_features_parse(request->features, &made));
    SL_CHECK(check_tables(name, request, tables, made.kind != SL_MADE_NOT));
    files->need = request->need;
    files->targets = request->targets;
    files->no_features = made.kind != SL_MADE_NOT;
    snprintf(files->split, sizeof files->split, "%s",
             tables->split && !sl_raw_reads_no_split(request->split) ? SL_READER_SPLIT : "");
    return SL_OK;
}

enum sl_status sl_reader_refuse(const char *path)
{
    static const char *const archives[] = {".zip", ".tar", ".tar.gz", ".tgz"};
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        SL_FAIL_IF(sl_text_ends_in(path, archives[i]), SL_EFILE,
                   "%.300s: found an archive, expected a dataset; unpack it, and give the folder", path);
    }
    if (sl_text_ends_in(path, ".safetensors")) {
        struct sl_tensors tensors;
        SL_CHECK(sl_safetensors_map(path, &tensors)); /* a damaged file says so */
        sl_tensors_free(&tensors);
        return sl_fail(SL_EFILE, "%.300s: found no array edge_index, expected a dataset; a model goes to --load", path);
    }
    return sl_fail(SL_EFILE, "%.300s: training does not read this form; make a dataset of it: " SL_RAW_CONVERT, path,
                   path);
}

enum sl_status sl_reader_refuse_two(const char *folder)
{
    SL_FAIL_IF(sl_reader_table.recognise(folder), SL_EFILE,
               "%.300s: found both raw and a table edges, two forms of a dataset; expected one of them", folder);
    return SL_OK;
}
