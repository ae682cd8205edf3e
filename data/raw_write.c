/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing the raw layout: tables as .npy, counts and names as text. */
#include <stdio.h>
#include <string.h>

#include "data/features.h"
#include "data/generate/generate.h"
#include "data/npy.h"
#include "data/raw.h"
#include "support/file.h"
#include "support/memory.h"

/* ---- Files ------------------------------------------------------------------------------------------------------- */

enum sl_status sl_raw_check_place(const char *folder, const char *stem, const char *ending)
{
    static const char *const endings[] = {".csv.gz", ".csv", ".npy", ".npz"};
    SL_FREED char *there = NULL;
    SL_CHECK(sl_raw_find_file(folder, stem, 4, endings, &there));
    SL_FAIL_IF(there != NULL && strcmp(there + strlen(folder) + 1 + strlen(stem), ending) != 0, SL_EFILE,
               "%.300s: the table is there already; remove it, or write to another folder", there);
    return SL_OK;
}

/* Open FOLDER/STEM + ending. */
static enum sl_status open_file(const char *folder, const char *stem, const char *ending, struct sl_writer *out)
{
    SL_FREED char *path = NULL;
    SL_CHECK(sl_raw_check_place(folder, stem, ending));
    SL_CHECK(sl_format(&path, "%s/%s%s", folder, stem, ending));
    SL_CHECK(sl_folder_make_parents(path));
    return sl_writer_open(path, out);
}

/* Begin the array STEM.npy of rows x columns items. columns 0: of one dimension. */
static enum sl_status open_array(const char *folder, const char *stem, enum sl_dtype dtype, uint64_t rows,
                                 uint64_t columns, struct sl_writer *out)
{
    char header[SL_NPY_HEADER_BYTES];
    SL_CHECK(open_file(folder, stem, ".npy", out));
    sl_npy_header(dtype, rows, columns, header);
    (void)sl_writer_put(out, header, sizeof header); /* sl_writer_close reports errors */
    return SL_OK;
}

static enum sl_status write_array(const char *folder, const char *stem, enum sl_dtype dtype, uint64_t rows,
                                  uint64_t columns, const void *data, size_t bytes)
{
    struct sl_writer writer;
    SL_CHECK(open_array(folder, stem, dtype, rows, columns, &writer));
    (void)sl_writer_put(&writer, data, bytes);
    return sl_writer_close(&writer);
}

/* Put ids as numbers from `first` on. */
static void put_ids(struct sl_writer *writer, const sl_vertex *ids, uint64_t n, sl_vertex first)
{
    for (uint64_t i = 0; i < n; i++) {
        const sl_vertex id = ids[i] - first;
        (void)sl_writer_put(writer, &id, sizeof id);
    }
}

static enum sl_status write_ids(const char *folder, const char *stem, const struct sl_ids *ids, sl_vertex first)
{
    struct sl_writer writer;
    SL_CHECK(open_array(folder, stem, SL_DTYPE_U32, ids->n, 0, &writer));
    put_ids(&writer, ids->ids, ids->n, first);
    return sl_writer_close(&writer);
}

/* The lists of the split. place: "TYPE/" or "". */
static enum sl_status write_split(const struct sl_raw *raw, const char *folder, const char *place, sl_vertex first)
{
    for (int i = 0; i < SL_N_LISTS && raw->data.split[0] != '\0'; i++) {
        char stem[200];
        snprintf(stem, sizeof stem, "split/%s/%s%s", raw->data.split, place, sl_list_names[i]);
        SL_CHECK(write_ids(folder, stem, &raw->data.lists[i], first));
    }
    return SL_OK;
}

/* n edges from edge `first` of the list, as a row of sources and a row of destinations. from, to: the first ids. */
static enum sl_status write_edges(const struct sl_raw *raw, const char *folder, const char *stem,
                                  const uint64_t range[2], const sl_vertex ends[2])
{
    struct sl_writer writer;
    const uint64_t n = range[1] - range[0];
    SL_CHECK(open_array(folder, stem, SL_DTYPE_U32, 2, n, &writer));
    put_ids(&writer, raw->from + range[0], n, ends[0]);
    put_ids(&writer, raw->to + range[0], n, ends[1]);
    return sl_writer_close(&writer);
}

static enum sl_status write_targets(const struct sl_raw *raw, const char *folder, const char *stem, uint32_t first)
{
    const struct sl_targets *t = &raw->data.targets;
    const bool classes = t->type == SL_TARGET_CLASS;
    const uint64_t rows = t->n_rows - first;
    return write_array(folder, stem, classes ? SL_DTYPE_I32 : SL_DTYPE_F32, rows, t->width > 1 ? t->width : 0,
                       t->numbers + (uint64_t)first * t->width, rows * t->width * SL_TARGET_BYTES);
}

/* The features of the vertices from `first` on, without the columns before `first`, which stand for other vertices. A
 * sparse table is written with its zeros. */
static enum sl_status write_features(const struct sl_raw *raw, const char *folder, const char *stem, uint32_t first)
{
    const struct sl_features *features = &raw->data.features;
    const uint32_t width = features->n_columns;
    const uint32_t written = width - first;
    struct sl_writer writer;
    SL_FREED float *row = NULL;
    SL_CHECK(sl_alloc(width, sizeof *row, "a row of features", &row));
    SL_CHECK(open_array(folder, stem, SL_DTYPE_F32, features->n_rows - first, written, &writer));
    for (uint64_t v = first; v < features->n_rows; v++) {
        sl_features_row(features, v, row);
        (void)sl_writer_put(&writer, row + first, written * sizeof *row);
    }
    return sl_writer_close(&writer);
}

/* ---- The layouts ------------------------------------------------------------------------------------------------- */

enum sl_status sl_raw_write(const struct sl_raw *raw, const char *folder)
{
    const uint64_t all[2] = {0, raw->n_edges};
    const sl_vertex ends[2] = {0, 0};
    struct sl_writer writer;
    SL_CHECK(open_file(folder, "raw/num-node-list", ".csv", &writer));
    fprintf(writer.stream, "%u\n", raw->n_vertices);
    SL_CHECK(sl_writer_close(&writer));
    SL_CHECK(write_edges(raw, folder, "raw/edge", all, ends));
    if (raw->weights != NULL) {
        SL_CHECK(write_array(folder, "raw/edge-weight", SL_DTYPE_F32, raw->n_edges, 0, raw->weights,
                             raw->n_edges * sizeof(float)));
    }
    if (raw->data.targets.data != NULL) {
        SL_CHECK(write_targets(raw, folder, "raw/node-label", 0));
    }
    if (raw->data.features.n_columns > 0) {
        SL_CHECK(write_features(raw, folder, "raw/node-feat", 0));
    }
    return write_split(raw, folder, "", 0);
}

static const char *type_name(const struct sl_recipe *recipe, uint32_t t)
{
    return t < recipe->n_types ? recipe->other[t].name : recipe->type;
}

/* Relation r of the recipe; the last is the own edges. */
static struct sl_recipe_relation relation_of(const struct sl_recipe *recipe, uint32_t r)
{
    struct sl_recipe_relation own = {
        .source = recipe->n_types, .destination = recipe->n_types, .n_edges = recipe->n_edges};
    if (r < recipe->n_relations) {
        return recipe->between[r];
    }
    snprintf(own.name, sizeof own.name, "%s", recipe->relation);
    return own;
}

static enum sl_status write_types(const struct sl_recipe *recipe, const char *folder)
{
    struct sl_writer writer;
    SL_CHECK(open_file(folder, "raw/num-node-dict", ".csv", &writer));
    for (uint32_t i = 0; i <= recipe->n_types; i++) {
        fprintf(writer.stream, "%s%c", type_name(recipe, i), i < recipe->n_types ? ',' : '\n');
    }
    for (uint32_t i = 0; i <= recipe->n_types; i++) {
        fprintf(writer.stream, "%u%c", i < recipe->n_types ? recipe->other[i].n : recipe->n_vertices,
                i < recipe->n_types ? ',' : '\n');
    }
    SL_CHECK(sl_writer_close(&writer));
    SL_CHECK(open_file(folder, "raw/triplet-type-list", ".csv", &writer));
    for (uint32_t r = 0; r <= recipe->n_relations; r++) {
        const struct sl_recipe_relation relation = relation_of(recipe, r);
        fprintf(writer.stream, "%s,%s,%s\n", type_name(recipe, relation.source), relation.name,
                type_name(recipe, relation.destination));
    }
    return sl_writer_close(&writer);
}

enum sl_status sl_recipe_write(const struct sl_recipe *recipe, const struct sl_raw *raw, const char *folder)
{
    struct sl_link_ends ends[SL_RECIPE_TYPES + 1];
    uint64_t range[2] = {0, 0};
    char stem[200];
    if (recipe->n_types == 0) {
        return sl_raw_write(raw, folder);
    }
    SL_CHECK(write_types(recipe, folder));
    sl_recipe_ends(recipe, ends);
    const sl_vertex own = ends[recipe->n_relations].first[0];
    for (uint32_t r = 0; r <= recipe->n_relations; r++) {
        const struct sl_recipe_relation relation = relation_of(recipe, r);
        range[0] = range[1];
        range[1] += relation.n_edges;
        snprintf(stem, sizeof stem, "raw/relations/%s___%s___%s/edge", type_name(recipe, relation.source),
                 relation.name, type_name(recipe, relation.destination));
        SL_CHECK(write_edges(raw, folder, stem, range, ends[r].first));
    }
    snprintf(stem, sizeof stem, "raw/node-label/%s/node-label", recipe->type);
    SL_CHECK(write_targets(raw, folder, stem, own));
    snprintf(stem, sizeof stem, "raw/node-feat/%s/node-feat", recipe->type);
    SL_CHECK(write_features(raw, folder, stem, own));
    snprintf(stem, sizeof stem, "%s/", recipe->type);
    return write_split(raw, folder, stem, own);
}
