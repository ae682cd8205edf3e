/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The raw layout of the Open Graph Benchmark: finding, reading and checking the files. raw_write.c writes them. */
#include "data/raw.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/csv.h"
#include "data/features.h"
#include "data/links.h"
#include "data/made_features.h"
#include "data/npy.h"
#include "data/random_split.h"
#include "data/text_lines.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/text.h"

/* What reading takes at the least: of a vertex its offset and label; of an edge both ends and its place in a list. */
#define VERTEX_BYTES 12
#define EDGE_BYTES (3 * sizeof(sl_vertex))
#define MAX_EDGES ((uint64_t)1 << 40)
#define MAX_ID_BYTES ((size_t)1 << 40)
#define N_NAMES 6 /* at most, of a table's array */

/* ---- Finding the files ------------------------------------------------------------------------------------------- */

enum sl_status sl_raw_find_file(const char *folder, const char *stem, int n_endings, const char *const *endings,
                                char **out)
{
    SL_FREED char *found = NULL;
    *out = NULL;
    for (int i = 0; i < n_endings; i++) {
        SL_FREED char *path = NULL;
        SL_CHECK(sl_format(&path, "%s/%s%s", folder, stem, endings[i]));
        if (sl_file_exists(path)) {
            SL_FAIL_IF(found != NULL, SL_EFILE,
                       "%.300s: the table is there twice, also as %.300s; expected one of them", found, path);
            found = SL_TAKE(path);
        }
    }
    *out = SL_TAKE(found);
    return SL_OK;
}

bool sl_raw_has_file(const char *folder, const char *stem, int n_endings, const char *const *endings)
{
    char path[4096];
    bool there = false;
    for (int i = 0; i < n_endings && !there; i++) {
        const int n = snprintf(path, sizeof path, "%s/%s%s", folder, stem, endings[i]);
        there = n < (int)sizeof path && sl_file_exists(path);
    }
    return there;
}

void sl_raw_note_unused(struct sl_raw_files *files, const char *format, ...)
{
    char line[400];
    const size_t used = strlen(files->unused);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (used + strlen(line) + sizeof "and more\n\n" < sizeof files->unused) {
        snprintf(files->unused + used, sizeof files->unused - used, "%s\n", line);
    } else if (used < 9 || strcmp(files->unused + used - 9, "and more\n") != 0) {
        snprintf(files->unused + used, sizeof files->unused - used, "and more\n");
    }
}

/* The names of a table's array in a file of several: PyG's, then OGB's, then others. */
static const char *const array_names[SL_RAW_N_FILES][N_NAMES] = {
    [SL_RAW_NODE_COUNT] = {"num_nodes", "num_nodes_list"},
    [SL_RAW_EDGES] = {"edge_index"},
    [SL_RAW_FEATURES] = {"x", "node_feat"},
    [SL_RAW_LABELS] = {"y", "node_label"},
    [SL_RAW_TRAIN] = {"train_mask", "train", "train_idx"},
    [SL_RAW_VALID] = {"val_mask", "valid_mask", "valid", "val", "valid_idx", "val_idx"},
    [SL_RAW_TEST] = {"test_mask", "test", "test_idx"},
    [SL_RAW_WEIGHTS] = {"edge_weight"},
    [SL_RAW_EDGE_FEATURES] = {"edge_attr", "edge_feat"},
    [SL_RAW_NODE_IDS] = {"node_ids"},
};

bool sl_raw_has_edges(const char *path)
{
    const char *name;
    return sl_npy_find(path, array_names[SL_RAW_EDGES], N_NAMES, &name) != SL_OK || name != NULL;
}

enum sl_status sl_raw_take_array(const char *path, enum sl_raw_file table, struct sl_raw_files *files)
{
    const char *name = NULL;
    if (files->paths[table] == NULL) {
        SL_CHECK(sl_npy_find(path, array_names[table], N_NAMES, &name));
    }
    if (name != NULL) {
        SL_CHECK(sl_strdup(path, &files->paths[table]));
    }
    return SL_OK;
}

/* Whether an array is a table, or tells what tables tell, too. A file of arrays has all tables: a split in it that is
 * not read was not asked for. */
static bool is_table(const char *name)
{
    static const char *const others[] = {"num_nodes",      "num_nodes_list", "num_edges",
                                         "num_edges_list", "x_scale",        "class_names"};
    bool found = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        found |= strcmp(name, others[i]) == 0;
    }
    for (int i = 0; i < SL_RAW_N_FILES * N_NAMES; i++) {
        const char *known = array_names[i / N_NAMES][i % N_NAMES];
        found |= known != NULL && strcmp(name, known) == 0;
    }
    return found;
}

enum sl_status sl_raw_note_arrays(const char *path, struct sl_raw_files *files)
{
    struct sl_tensors tensors;
    SL_CHECK(sl_safetensors_map(path, &tensors));
    for (uint32_t i = 0; i < tensors.n; i++) {
        if (!is_table(tensors.tensors[i].name)) {
            sl_raw_note_unused(files, "%.280s: array '%.60s'", path, tensors.tensors[i].name);
        }
    }
    sl_tensors_free(&tensors);
    return SL_OK;
}

static bool is_binary(const char *path)
{
    return sl_text_ends_in(path, ".npy") || sl_text_ends_in(path, ".safetensors");
}

/* The name of a table's array. A file of one array needs the name only for messages. */
static enum sl_status name_array(const char *path, enum sl_raw_file table, const char **out)
{
    static const char *const usual[SL_RAW_N_FILES] = {
        [SL_RAW_NODE_COUNT] = "count",    [SL_RAW_EDGE_COUNT] = "count",
        [SL_RAW_EDGES] = "edge",          [SL_RAW_FEATURES] = "node_feat",
        [SL_RAW_LABELS] = "node_label",   [SL_RAW_TRAIN] = "ids",
        [SL_RAW_VALID] = "ids",           [SL_RAW_TEST] = "ids",
        [SL_RAW_WEIGHTS] = "edge_weight", [SL_RAW_EDGE_FEATURES] = "edge_feat",
    };
    enum sl_status st = sl_npy_find(path, array_names[table], N_NAMES, out);
    *out = sl_text_or(*out, usual[table]);
    return st;
}

/* The first of the `n` names that is a file in `folder`; *out stays NULL if there is none. */
static enum sl_status find_one(const char *folder, const char *const *names, int n, char **out)
{
    for (int i = 0; i < n; i++) {
        SL_FREED char *path = NULL;
        SL_CHECK(sl_path_join(folder, names[i], &path));
        if (sl_file_exists(path)) {
            *out = SL_TAKE(path);
            return SL_OK;
        }
    }
    return SL_OK;
}

enum sl_status sl_raw_find_table(const char *folder, const char *stem, bool needed, char **out)
{
    static const char *const endings[] = {".csv.gz", ".csv", ".npy"};
    static const char *const archive[] = {".npz"};
    SL_FREED char *found = NULL;
    SL_FREED char *packed = NULL;
    *out = NULL;
    SL_CHECK(sl_raw_find_file(folder, stem, 3, endings, &found));
    SL_CHECK(sl_raw_find_file(folder, stem, 1, archive, &packed));
    SL_FAIL_IF(packed != NULL, SL_EFILE,
               "%.300s: training does not read .npz; make a dataset of the folder: " SL_RAW_CONVERT, packed, folder);
    SL_FAIL_IF(found == NULL && needed, SL_EFILE, "%s: expected a file %s.csv.gz (or .csv, .npy), found none", folder,
               stem);
    *out = SL_TAKE(found);
    return SL_OK;
}

/* Append a name to a list of bounded length. */
static void append_name(char *list, size_t bytes, const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, bytes - used, "%s%.63s", used > 0 ? ", " : "", name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

void sl_raw_list_folder(const char *folder, bool (*fits)(const char *path), struct sl_raw_names *names)
{
    const int most = sizeof names->name / sizeof names->name[0];
    DIR *dir = NULL;
    for (const char *name; (name = sl_folder_next(folder, &dir)) != NULL;) {
        char path[4096];
        const size_t length = (size_t)snprintf(path, sizeof path, "%s/%s", folder, name);
        if (names->n < most && length < sizeof path && strlen(name) < sizeof names->name[0] && fits(path)) {
            memcpy(names->name[names->n++], name, strlen(name) + 1);
        }
    }
    qsort(names->name, (size_t)names->n, sizeof names->name[0], compare_names);
}

/* Choose the split `wanted`, or the only one. */
static enum sl_status choose_named(const char *folder, const char *wanted, bool needed, char out[64])
{
    struct sl_raw_names names = {.n = 0};
    char path[4096];
    char list[600] = "";
    SL_FAIL_IF((size_t)snprintf(path, sizeof path, "%s/split", folder) >= sizeof path, SL_EINVAL,
               "%.64s...: the path is too long", folder);
    sl_raw_list_folder(path, sl_folder_exists, &names);
    const int n = names.n;
    for (int i = 0; i < n; i++) {
        append_name(list, sizeof list, names.name[i]);
        bool is_chosen = n == 1;
        if (wanted != NULL) {
            is_chosen = strcmp(wanted, names.name[i]) == 0;
        }
        if (is_chosen) {
            snprintf(out, 64, "%.63s", names.name[i]);
            return SL_OK;
        }
    }
    if (n == 0 && wanted == NULL && !needed) {
        return SL_OK;
    }
    SL_FAIL_IF(n == 0, SL_EFILE,
               "%s: expected a folder with train, valid and test, found none; or draw a "
               "split: " SL_RANDOM_SPLIT_OF_VERTICES,
               path);
    SL_FAIL_IF(wanted != NULL, SL_EINVAL, "%s has no split '%s'; --split can be one of: %s, or random:60,20,20", folder,
               wanted, list);
    return sl_fail(SL_EINVAL, "%s has more than one split; choose with --split one of: %s", folder, list);
}

/* Choose a split of the folder: the split asked for, the only one, or the usual one. `out` stays if none is asked for,
 * or there is none and it is not `needed`. */
static enum sl_status choose_split(const struct sl_dataset_options *request, bool needed, char out[64])
{
    if (sl_raw_reads_no_split(request->split)) {
        return SL_OK;
    }
    enum sl_status st = choose_named(request->dataset, request->split, needed, out);
    if (st == SL_EINVAL && request->split == NULL && request->usual_split != NULL) {
        st = choose_named(request->dataset, request->usual_split, needed, out);
    }
    return st;
}

enum sl_status sl_raw_find_train(const struct sl_dataset_options *request, char **out)
{
    char split[64] = "";
    char stem[128];
    *out = NULL;
    SL_CHECK(choose_split(request, false, split));
    snprintf(stem, sizeof stem, "split/%s/train", split);
    return split[0] != '\0' ? sl_raw_find_table(request->dataset, stem, false, out) : SL_OK;
}

/* Whether the folder has a list of training links: pairs, not vertices. */
static enum sl_status find_training_links(const struct sl_dataset_options *request, bool *found)
{
    SL_FREED char *path = NULL;
    SL_OWNED(sl_links_free) struct sl_links links = {0};
    enum sl_status st = SL_OK;
    SL_CHECK(sl_raw_find_train(request, &path));
    if (path != NULL) {
        st = sl_links_read(path, SL_NONE, &links);
    }
    *found = links.n > 0;
    return st == SL_EFILE ? SL_OK : st; /* a list of vertices */
}

/* Name a split_dict.pt, which OGB's newer tools write and no reader reads. st is SL_OK, the split was found: note it.
 * SL_EFILE, lists are missing: fail by it. Else return st. */
static enum sl_status tell_torch_split(const char *folder, enum sl_status st, struct sl_raw_files *files)
{
    char inside[128];
    snprintf(inside, sizeof inside, "split/%s/split_dict.pt", files->split);
    const char *const names[] = {inside, "split/split_dict.pt", "split_dict.pt", "raw/split_dict.pt"};
    SL_FREED char *path = NULL;
    if (st != SL_OK && st != SL_EFILE) {
        return st;
    }
    const enum sl_status found = find_one(folder, names, 4, &path);
    if (found != SL_OK || path == NULL) {
        return st == SL_OK ? found : st;
    }
    SL_FAIL_IF(st == SL_EFILE, SL_EFILE,
               "%.300s: training does not read this form; make a dataset of the folder: " SL_RAW_CONVERT
               ", or draw a split: " SL_RANDOM_SPLIT_OF_VERTICES,
               path, folder);
    sl_raw_note_unused(files, "%.300s", path);
    return SL_OK;
}

enum sl_status sl_raw_find_split(const struct sl_dataset_options *request, const char *type, struct sl_raw_files *files)
{
    const char *folder = request->dataset;
    const bool links = files->need == SL_RAW_FOR_LINKS;
    const bool needed = files->need == SL_RAW_FOR_TRAINING || links;
    if (sl_raw_reads_no_split(request->split)) {
        return SL_OK;
    }
    enum sl_status st = choose_split(request, needed, files->split);
    const int n = links ? SL_N_LINK_FILES : SL_LINKS_TEST + 1;
    for (int i = 0; i < n && st == SL_OK && files->split[0] != '\0' && (links || type != NULL); i++) {
        char stem[600];
        const bool may_lack = i > SL_LINKS_TEST || (i > 0 && files->may_lack_links);
        snprintf(stem, sizeof stem, "split/%s/%s%s", files->split, links ? "" : type, sl_links_name((uint32_t)i));
        st = sl_raw_find_table(folder, stem, needed && !may_lack, &files->paths[SL_RAW_TRAIN + i]);
    }
    return tell_torch_split(folder, st, files);
}

/* A file in derived/ that may hold the features, or "FILE". */
static void suggest_features(const char *folder, char *out, size_t bytes)
{
    snprintf(out, bytes, "FILE");
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/derived", folder) >= sizeof path) {
        return;
    }
    DIR *dir = NULL;
    for (const char *name; (name = sl_folder_next(path, &dir)) != NULL;) {
        if (strncmp(name, "node-feat", 9) == 0) {
            snprintf(out, bytes, "derived/%s", name);
        }
    }
}

static enum sl_status find_features(const char *folder, const char *wanted, struct sl_raw_files *files)
{
    char **out = &files->paths[SL_RAW_FEATURES];
    struct sl_made_features made;
    SL_CHECK(sl_made_features_parse(wanted, &made));
    files->no_features = made.kind != SL_MADE_NOT;
    bool given = wanted != NULL && !files->no_features;
    if (given) {
        SL_CHECK(find_one(folder, &wanted, 1, out));
    } else {
        SL_CHECK(sl_raw_find_table(folder, "raw/node-feat", false, out));
    }
    SL_FAIL_IF(given && *out == NULL, SL_EFILE,
               "%s: no feature file '%s' there; --features is relative to the dataset's folder", folder, wanted);
    if (*out != NULL || files->no_features || files->need == SL_RAW_FOR_LOOKS) {
        return SL_OK;
    }
    char suggestion[300];
    suggest_features(folder, suggestion, sizeof suggestion);
    return sl_fail(SL_EFILE,
                   "%s: no features (raw/node-feat.csv.gz); name another file with --features %s, or make "
                   "features: --features " SL_FEATURE_WORDS,
                   folder, suggestion);
}

/* List the entries of a folder for a message: "raw, split". */
static void list_entries(const char *folder, char *out, size_t bytes)
{
    DIR *dir = NULL;
    out[0] = '\0';
    for (const char *name; (name = sl_folder_next(folder, &dir)) != NULL;) {
        if (strlen(out) + 80 < bytes) {
            append_name(out, bytes, name);
        }
    }
}

static enum sl_status find_graph(const char *folder, struct sl_raw_files *files)
{
    static const char *const ids[] = {"raw/node-id.csv"};
    SL_FREED char *archive = NULL;
    SL_CHECK(sl_raw_find_table(folder, "raw/data", false, &archive)); /* refuses data.npz */
    SL_CHECK(sl_raw_find_table(folder, "raw/edge", false, &files->paths[SL_RAW_EDGES]));
    SL_CHECK(find_one(folder, ids, 1, &files->paths[SL_RAW_NODE_IDS]));
    if (files->need != SL_RAW_FOR_LINKS && files->paths[SL_RAW_EDGES] == NULL) {
        char inside[300];
        list_entries(folder, inside, sizeof inside);
        return sl_fail(
            SL_EFILE,
            "%.300s: no dataset: expected a file raw/edge.csv.gz (or .csv, .npy), found %s%s; of another form make "
            "one: " SL_RAW_CONVERT,
            folder, inside[0] != '\0' ? inside : "nothing", sl_raw_is_folder(folder) ? " and no edges in raw" : "",
            folder);
    }
    SL_CHECK(sl_raw_find_table(folder, "raw/edge-weight", false, &files->paths[SL_RAW_WEIGHTS]));
    if (files->edge_features) {
        SL_CHECK(sl_raw_find_table(folder, "raw/edge-feat", false, &files->paths[SL_RAW_EDGE_FEATURES]));
    }
    SL_CHECK(sl_raw_find_table(folder, "raw/num-node-list", false, &files->paths[SL_RAW_NODE_COUNT]));
    return sl_raw_find_table(folder, "raw/num-edge-list", false, &files->paths[SL_RAW_EDGE_COUNT]);
}

/* Whether a path is a table that is read, or a folder of one. */
static bool is_used(const char *path, const struct sl_raw_files *files)
{
    const size_t n = strlen(path);
    bool used = false;
    for (uint32_t i = 0; i < SL_RAW_N_FILES + files->n_more; i++) {
        const char *table = i < SL_RAW_N_FILES ? files->paths[i] : files->more[i - SL_RAW_N_FILES];
        used |= table != NULL && strncmp(table, path, n) == 0 && (table[n] == '\0' || table[n] == '/');
    }
    return used;
}

/* Whether a name begins with a word; '-' and '_' are the same. */
static bool begins(const char *name, const char *word)
{
    while (*word != '\0' && (*name == *word || (*name == '_' && *word == '-'))) {
        name++;
        word++;
    }
    return *word == '\0';
}

void sl_raw_note_others(struct sl_raw_files *files, const char *const *words, const char *folder, ...)
{
    DIR *dir = NULL;
    char path[4096];
    va_list arguments;
    va_start(arguments, folder);
    const size_t n = (size_t)vsnprintf(path, sizeof path, folder, arguments);
    va_end(arguments);
    for (const char *name; n < sizeof path && (name = sl_folder_next(path, &dir)) != NULL; path[n] = '\0') {
        bool noted = false;
        for (int i = 0; words[i] != NULL; i++) {
            noted |= begins(name, words[i]);
        }
        noted &= n + 1 + strlen(name) < sizeof path;
        snprintf(path + n, sizeof path - n, "/%s", name);
        if (noted && !is_used(path, files)) {
            sl_raw_note_unused(files, "%.380s", path);
        }
    }
}

/* Note the tables that are not read. Features and labels elsewhere are the caller's choice. */
static void note_unused(const char *folder, const char *features, struct sl_raw_files *files)
{
    static const char *const lists[] = {"train", "val", "test", NULL};
    static const char *const tables[] = {SL_RAW_EDGE_TABLES, "edge-reltype", "node-label", "node-feat", NULL};
    static const char *const without_features[] = {SL_RAW_EDGE_TABLES, "edge-reltype", "node-label", NULL};
    sl_raw_note_others(files, features != NULL ? without_features : tables, "%s/raw", folder);
    if (files->split[0] != '\0') {
        sl_raw_note_others(files, lists, "%s/split/%s", folder, files->split);
    }
}

bool sl_raw_is_folder(const char *folder)
{
    char raw[4096];
    return (size_t)snprintf(raw, sizeof raw, "%s/raw", folder) < sizeof raw && sl_folder_exists(raw);
}

enum sl_status sl_raw_find(const struct sl_dataset_options *request, struct sl_raw_files *out)
{
    const char *folder = request->dataset;
    const bool labels = request->need == SL_RAW_FOR_TRAINING;
    SL_OWNED(sl_raw_files_free)
    struct sl_raw_files found = {
        .need = request->need, .targets = request->targets, .edge_features = request->edge_features};
    *out = (struct sl_raw_files){0};
    if (request->need == SL_RAW_FOR_PAIRS) {
        bool links;
        SL_CHECK(find_training_links(request, &links));
        found.need = links ? SL_RAW_FOR_LINKS : SL_RAW_FOR_INFERENCE;
        found.may_lack_links = true;
    }
    SL_CHECK(find_graph(folder, &found));
    SL_CHECK(find_features(folder, request->features, &found));
    SL_CHECK(sl_raw_find_table(folder, "raw/node-label", labels, &found.paths[SL_RAW_LABELS]));
    SL_CHECK(sl_raw_find_split(request, "", &found));
    if (found.need != SL_RAW_FOR_LINKS) {
        note_unused(folder, request->features, &found);
    }
    *out = SL_TAKE(found);
    return SL_OK;
}

void sl_raw_files_free(struct sl_raw_files *files)
{
    for (int i = 0; i < SL_RAW_N_FILES; i++) {
        sl_free(files->paths[i]);
    }
    for (uint32_t i = 0; i < files->n_more; i++) {
        sl_free(files->more[i]);
    }
    sl_free(files->more);
    *files = (struct sl_raw_files){0};
}

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

/* Check one list of ids: in range, ascending, with labels, and in no earlier list. */
static enum sl_status check_list(const struct sl_raw *raw, const char *where, int list)
{
    const struct sl_dataset *data = &raw->data;
    const struct sl_ids *ids = &data->lists[list];
    for (uint32_t i = 0; i < ids->n; i++) {
        sl_vertex v = ids->ids[i];
        SL_FAIL_IF(v >= raw->n_vertices || (i > 0 && v <= ids->ids[i - 1]), SL_EFILE,
                   "%s: split '%s', %s: expected ascending ids below %u, found %u", where, data->split,
                   sl_list_names[list], raw->n_vertices, v);
        SL_FAIL_IF(!sl_targets_known(&data->targets, v), SL_EFILE, "%s: split '%s': vertex %u of %s has no label",
                   where, data->split, v, sl_list_names[list]);
        for (int other = 0; other < list; other++) {
            SL_FAIL_IF(sl_ids_hold(&data->lists[other], v), SL_EFILE,
                       "%s: split '%s': vertex %u is both in %s and in %s", where, data->split, v, sl_list_names[other],
                       sl_list_names[list]);
        }
    }
    return SL_OK;
}

/* ---- Tables, text or arrays -------------------------------------------------------------------------------------- */

static enum sl_status read_count(const char *path, enum sl_raw_file table, uint64_t *out)
{
    const char *name;
    if (!is_binary(path)) {
        return sl_csv_read_count(path, out);
    }
    SL_CHECK(name_array(path, table, &name));
    return sl_npy_read_count(path, name, (uint64_t)1 << 53, out);
}

static enum sl_status count_array(const char *path, enum sl_raw_file table, struct sl_npy_counts *out)
{
    const char *name;
    SL_CHECK(name_array(path, table, &name));
    return sl_npy_count(path, name, out);
}

/* The rows of a table. SL_NONE: there is no table. */
static enum sl_status count_rows(const char *path, enum sl_raw_file table, uint64_t *out)
{
    struct sl_npy_counts counts = {.rows = SL_NONE};
    if (path != NULL && !is_binary(path)) {
        return sl_csv_count_lines(path, out);
    }
    SL_CHECK(path != NULL ? count_array(path, table, &counts) : SL_OK);
    *out = counts.rows;
    return SL_OK;
}

enum sl_status sl_raw_count_features(const char *path, struct sl_raw_sizes *sizes)
{
    struct sl_npy_counts counts;
    if (is_binary(path)) {
        SL_CHECK(count_array(path, SL_RAW_FEATURES, &counts));
        sizes->feature_bytes += counts.feature_bytes;
    }
    return SL_OK;
}

enum sl_status sl_raw_count_edges(const char *path, const char *count, struct sl_raw_sizes *sizes)
{
    struct sl_npy_counts counts;
    uint64_t n = 0;
    if (is_binary(path)) {
        SL_CHECK(count_array(path, SL_RAW_EDGES, &counts));
        n = counts.items / 2;
    } else if (count != NULL) {
        SL_CHECK(read_count(count, SL_RAW_EDGE_COUNT, &n));
    }
    sizes->n_edges += sl_min_u64(n, MAX_EDGES); /* more are refused where they are read */
    return SL_OK;
}

/* Append ": 7 edges" to a message; 0: their number is not known. */
static void append_size(uint64_t n, const char *what, size_t bytes, char *end)
{
    if (n > 0) {
        snprintf(end, bytes, ": %llu %s", (unsigned long long)n, what);
    }
}

enum sl_status sl_raw_check_sizes(const struct sl_raw_files *files, const char *where, const struct sl_raw_sizes *sizes)
{
    char label[512];
    uint64_t bytes = sizes->n_vertices * VERTEX_BYTES + sizes->n_edges * EDGE_BYTES + sizes->feature_bytes;
    if (files->least != NULL) {
        bytes = sl_max_u64(bytes, files->least(sizes, files->context));
    }
    const int n = snprintf(label, sizeof label, "%.400s", where);
    append_size(sizes->n_vertices, "vertices", sizeof label - (size_t)n, label + n);
    append_size(sizes->n_edges, "edges", sizeof label - strlen(label), label + strlen(label));
    return sl_memory_check(bytes, label);
}

static enum sl_status read_edge_array(const char *path, const char *count, uint32_t limit, uint64_t *n_edges,
                                      sl_vertex **from_out, sl_vertex **to_out)
{
    const char *name;
    uint64_t n;
    SL_CHECK(name_array(path, SL_RAW_EDGES, &name));
    SL_CHECK(sl_npy_read_edges(path, name, limit, n_edges, from_out, to_out));
    if (count != NULL) {
        SL_CHECK(read_count(count, SL_RAW_EDGE_COUNT, &n));
        SL_FAIL_IF(n != *n_edges, SL_EFILE, "%.300s: expected %llu, the edges of %.300s, found %llu", count,
                   (unsigned long long)*n_edges, path, (unsigned long long)n);
    }
    return SL_OK;
}

static enum sl_status read_edge_lines(const char *path, const char *count, uint32_t limit, uint64_t *n_edges,
                                      sl_vertex **from_out, sl_vertex **to_out)
{
    if (count != NULL) {
        SL_CHECK(read_count(count, SL_RAW_EDGE_COUNT, n_edges));
    } else {
        SL_CHECK(sl_csv_count_lines(path, n_edges));
    }
    SL_FAIL_IF(*n_edges > MAX_EDGES, SL_EFILE, "%s:1: expected at most 2^40 edges, found %llu", sl_text_or(count, path),
               (unsigned long long)*n_edges);
    return sl_csv_read_edges(path, limit, *n_edges, from_out, to_out);
}

enum sl_status sl_raw_read_edges(const char *path, const char *count, uint32_t *n_vertices, uint64_t *n_edges,
                                 sl_vertex **from_out, sl_vertex **to_out)
{
    const uint32_t limit = sl_min_u32(*n_vertices, SL_NONE - 1);
    if (is_binary(path)) {
        SL_CHECK(read_edge_array(path, count, limit, n_edges, from_out, to_out));
    } else {
        SL_CHECK(read_edge_lines(path, count, limit, n_edges, from_out, to_out));
    }
    if (*n_vertices == SL_NONE) {
        *n_vertices = 0;
        for (uint64_t e = 0; e < *n_edges; e++) {
            *n_vertices = sl_max_u32(*n_vertices, sl_max_u32((*from_out)[e], (*to_out)[e]) + 1);
        }
    }
    return SL_OK;
}

static enum sl_status read_numbers(const char *path, enum sl_raw_file table, uint32_t n_rows, struct sl_features *out)
{
    const char *name;
    if (!is_binary(path)) {
        return sl_csv_read_features(path, n_rows, out);
    }
    SL_CHECK(name_array(path, table, &name));
    return sl_npy_read_features(path, name, n_rows, out);
}

enum sl_status sl_raw_read_features(const char *path, uint32_t n_rows, struct sl_features *out)
{
    return read_numbers(path, SL_RAW_FEATURES, n_rows, out);
}

enum sl_status sl_raw_read_edge_features(const char *path, uint64_t first, uint64_t n, uint64_t n_edges,
                                         struct sl_edge_features *out)
{
    SL_OWNED(sl_features_free) struct sl_features table = {0};
    SL_FAIL_IF(n_edges > INT32_MAX, SL_EFILE, "%.300s: expected features of at most 2^31 - 1 edges, found %llu edges",
               path, (unsigned long long)n_edges);
    SL_CHECK(read_numbers(path, SL_RAW_EDGE_FEATURES, (uint32_t)n, &table));
    if (out->values == NULL) {
        out->n_rows = n_edges;
        out->n_columns = table.n_columns;
        SL_CHECK(
            sl_alloc((size_t)n_edges * out->n_columns + 1, sizeof *out->values, "features of edges", &out->values));
    }
    SL_FAIL_IF(table.n_columns != out->n_columns, SL_EFILE,
               "%.300s: expected %u columns, as the edges of the first relation have, found %u", path, out->n_columns,
               table.n_columns);
    for (uint64_t e = 0; e < n; e++) {
        sl_features_row(&table, e, out->values + (size_t)(first + e) * out->n_columns);
    }
    return SL_OK;
}

enum sl_status sl_raw_read_targets(const char *path, uint32_t n_rows, enum sl_target_choice choice,
                                   struct sl_targets *out, char **names)
{
    const char *name;
    if (!is_binary(path)) {
        return sl_csv_read_targets(path, n_rows, choice, out, names);
    }
    SL_CHECK(name_array(path, SL_RAW_LABELS, &name));
    return sl_npy_read_targets(path, name, n_rows, choice, out);
}

enum sl_status sl_raw_read_weights(const char *path, uint64_t n_edges, float **out)
{
    const char *name;
    if (!is_binary(path)) {
        return sl_csv_read_weights(path, n_edges, out);
    }
    SL_CHECK(name_array(path, SL_RAW_WEIGHTS, &name));
    return sl_npy_read_weights(path, name, n_edges, out);
}

enum sl_status sl_raw_read_ids(const char *path, enum sl_raw_file table, uint32_t n_vertices, struct sl_ids *out)
{
    const char *name;
    if (path == NULL) {
        return sl_alloc(0, sizeof *out->ids, "split", &out->ids);
    }
    if (!is_binary(path)) {
        return sl_csv_read_ids(path, n_vertices, out);
    }
    SL_CHECK(name_array(path, table, &name));
    return sl_npy_read_ids(path, name, n_vertices, out);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Count N by the rows of a table. Arrays come first, because their headers tell. SL_NONE: there is no table. */
static enum sl_status count_by_tables(const struct sl_raw_files *files, uint64_t *out)
{
    const char *labels = files->paths[SL_RAW_LABELS];
    const char *features = files->paths[SL_RAW_FEATURES];
    uint64_t n;
    if (features == NULL || (labels != NULL && is_binary(labels))) {
        return count_rows(labels, SL_RAW_LABELS, out);
    }
    SL_CHECK(count_rows(features, SL_RAW_FEATURES, out));
    if (labels == NULL || is_binary(features)) {
        return SL_OK;
    }
    SL_CHECK(count_rows(labels, SL_RAW_LABELS, &n));
    SL_FAIL_IF(*out > n, SL_EFILE, "%.200s:1: expected %llu lines, as %.200s has, found %llu; is line 1 a header?",
               features, (unsigned long long)n, labels, (unsigned long long)*out);
    return SL_OK;
}

/* Find N. SL_NONE: only the edges tell. */
static enum sl_status count_vertices(const struct sl_raw_files *files, uint32_t *out)
{
    const char *path = files->paths[SL_RAW_NODE_COUNT];
    uint64_t n = 0;
    if (path != NULL) {
        SL_CHECK(read_count(path, SL_RAW_NODE_COUNT, &n));
        SL_FAIL_IF(n >= SL_NONE, SL_EFILE, "%s:1: expected at most %u vertices, found %llu", path, SL_NONE - 1,
                   (unsigned long long)n);
    } else {
        SL_CHECK(count_by_tables(files, &n));
        SL_FAIL_IF(n > SL_NONE, SL_EFILE, "%s: expected tables of at most %u vertices, found %llu rows",
                   sl_text_or(files->paths[SL_RAW_EDGES], files->split), SL_NONE - 1, (unsigned long long)n);
    }
    *out = (uint32_t)n;
    return SL_OK;
}

enum sl_status sl_raw_weigh_links(const struct sl_raw *raw, const struct sl_link_split *split, float **out)
{
    const struct sl_links *train = &split->list[SL_LINKS_TRAIN];
    struct sl_link_split exact = *split; /* the two directions of a pair have weights of their own */
    SL_OWNED(sl_graph_free) struct sl_graph graph = {0};
    SL_FREED struct sl_link_entry *sorted = NULL;
    size_t n = 0;
    exact.directed = true;
    SL_CHECK(sl_raw_graph(raw, false, &graph));
    SL_CHECK(sl_links_sort(&exact, SL_LINKS_TRAIN, SL_LINKS_TRAIN + 1, &sorted, &n));
    SL_CHECK(sl_alloc(n, sizeof **out, "edge weights", out));
    for (size_t k = 0; k < n; k++) {
        const uint32_t i = sorted[k].place;
        const uint32_t relation = train->relation != NULL ? train->relation[i] : 0;
        const bool again =
            k > 0 && sorted[k].pair == sorted[k - 1].pair && sorted[k].relation == sorted[k - 1].relation;
        uint64_t e = sl_graph_find_edge(&graph, train->from[i], train->to[i], relation);
        if (e == SL_NO_EDGE && raw->relations == NULL) {
            e = sl_graph_find_edge(&graph, train->to[i], train->from[i], relation);
        }
        const float weight = e != SL_NO_EDGE ? graph.weights[e] : 1;
        (*out)[i] = again ? 0 : weight;
    }
    return SL_OK;
}

/* The weights of pairs to train on, from raw/edge and raw/edge-weight. */
static enum sl_status read_link_weights(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const char *edges = files->paths[SL_RAW_EDGES];
    const char *weights = files->paths[SL_RAW_WEIGHTS];
    SL_OWNED(sl_raw_free) struct sl_raw listed = {.n_vertices = raw->n_vertices};
    if (edges == NULL || weights == NULL || raw->n_relations > 0) {
        return SL_OK;
    }
    SL_CHECK(sl_raw_read_edges(edges, files->paths[SL_RAW_EDGE_COUNT], &listed.n_vertices, &listed.n_edges,
                               &listed.from, &listed.to));
    SL_CHECK(sl_raw_read_weights(weights, listed.n_edges, &listed.weights));
    return sl_raw_weigh_links(&listed, &raw->data.links, &raw->weights);
}

/* Read the lists of links. The training links become the edges. */
static enum sl_status read_links(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const struct sl_links *train = &raw->data.links.list[SL_LINKS_TRAIN];
    struct sl_links edges = {0};
    SL_FAIL_IF(raw->n_vertices == SL_NONE, SL_EFILE,
               "%s: expected raw/num-node-list.csv.gz or a table of the vertices beside a split of "
               "links, found none",
               files->paths[SL_RAW_TRAIN]);
    SL_CHECK(sl_links_read_split(files->paths + SL_RAW_TRAIN, raw->n_vertices, &raw->data.links));
    SL_CHECK(sl_links_copy(train, &edges));
    raw->n_edges = edges.n;
    raw->from = edges.from;
    raw->to = edges.to;
    sl_free(edges.relation);
    raw->n_relations = raw->data.links.n_relations;
    if (train->relation != NULL) {
        SL_CHECK(sl_alloc(train->n, sizeof *raw->relations, "relations of edges", &raw->relations));
        for (uint32_t i = 0; i < train->n; i++) {
            raw->relations[i] = (uint16_t)train->relation[i];
        }
    }
    return read_link_weights(files, raw);
}

static enum sl_status read_graph(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const char *edges = files->paths[SL_RAW_EDGES];
    const char *features = files->no_features ? NULL : files->paths[SL_RAW_FEATURES];
    const bool links = files->need == SL_RAW_FOR_LINKS;
    SL_CHECK(count_vertices(files, &raw->n_vertices));
    struct sl_raw_sizes sizes = {.n_vertices = raw->n_vertices != SL_NONE ? raw->n_vertices : 0};
    SL_CHECK(features != NULL ? sl_raw_count_features(features, &sizes) : SL_OK);
    SL_CHECK(links ? SL_OK : sl_raw_count_edges(edges, files->paths[SL_RAW_EDGE_COUNT], &sizes));
    SL_CHECK(sl_raw_check_sizes(files, sl_text_or(edges, files->split), &sizes));
    if (links) {
        return read_links(files, raw);
    }
    return sl_raw_read_edges(edges, files->paths[SL_RAW_EDGE_COUNT], &raw->n_vertices, &raw->n_edges, &raw->from,
                             &raw->to);
}

static enum sl_status read_targets(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const char *path = files->paths[SL_RAW_LABELS];
    if (path == NULL || files->need == SL_RAW_FOR_LINKS) {
        return sl_targets_make_unknown(raw->n_vertices, &raw->data.targets);
    }
    return sl_raw_read_targets(path, raw->n_vertices, files->targets, &raw->data.targets, &raw->data.class_names);
}

/* Read the names of the classes beside numbers of classes in a file of arrays, if it has names. */
static enum sl_status read_class_names(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const char *path = files->paths[SL_RAW_LABELS];
    const char *name = NULL;
    if (raw->data.class_names != NULL || path == NULL || raw->data.targets.type != SL_TARGET_CLASS) {
        return SL_OK;
    }
    SL_CHECK(sl_npy_find(path, (const char *const[]){"class_names"}, 1, &name));
    if (name == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_npy_read_lines(path, name, &raw->data.class_names));
    const uint64_t n = sl_text_count_lines(raw->data.class_names);
    SL_FAIL_IF(n < raw->data.targets.n_classes || n > SL_MAX_CLASSES, SL_EFILE,
               "%s: class_names: expected a name for each of %u classes, found %llu", path, raw->data.targets.n_classes,
               (unsigned long long)n);
    sl_targets_widen(&raw->data.targets, (uint32_t)n);
    return SL_OK;
}

/* Read the ids of the vertices, if starling convert has left some. */
static enum sl_status read_vertex_names(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const char *path = files->paths[SL_RAW_NODE_IDS];
    const char *name;
    size_t bytes;
    if (path == NULL) {
        return SL_OK;
    }
    if (is_binary(path)) {
        SL_CHECK(name_array(path, SL_RAW_NODE_IDS, &name));
        SL_CHECK(sl_npy_read_lines(path, name, &raw->data.vertex_names));
    } else {
        SL_CHECK(sl_file_read(path, MAX_ID_BYTES, &raw->data.vertex_names, &bytes));
    }
    const uint64_t n = sl_text_count_lines(raw->data.vertex_names);
    SL_FAIL_IF(n != raw->n_vertices, SL_EFILE, "%.300s: expected the ids of %u vertices, a line each, found %llu lines",
               path, raw->n_vertices, (unsigned long long)n);
    return SL_OK;
}

/* Remove vertices without a known target from a list. Returns their number. */
static uint32_t drop_unknown(const struct sl_targets *targets, struct sl_ids *ids)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ids->n; i++) {
        ids->ids[n] = ids->ids[i];
        n += sl_targets_known(targets, ids->ids[i]);
    }
    uint32_t dropped = ids->n - n;
    ids->n = n;
    return dropped;
}

enum sl_status sl_raw_settle(const struct sl_raw_files *files, const char *where, struct sl_raw *raw)
{
    for (int i = 0; i < SL_N_LISTS; i++) {
        if (files->need != SL_RAW_FOR_TRAINING) {
            raw->n_dropped += drop_unknown(&raw->data.targets, &raw->data.lists[i]);
        }
        SL_CHECK(check_list(raw, where, i));
    }
    return SL_OK;
}

enum sl_status sl_raw_read(const struct sl_raw_files *files, struct sl_raw *out)
{
    SL_OWNED(sl_raw_free) struct sl_raw raw = {0};
    *out = (struct sl_raw){0};
    snprintf(raw.data.split, sizeof raw.data.split, "%s", files->split);
    SL_CHECK(read_graph(files, &raw));
    if (files->need != SL_RAW_FOR_LINKS && files->paths[SL_RAW_WEIGHTS] != NULL) {
        SL_CHECK(sl_raw_read_weights(files->paths[SL_RAW_WEIGHTS], raw.n_edges, &raw.weights));
    }
    if (files->need != SL_RAW_FOR_LINKS && files->paths[SL_RAW_EDGE_FEATURES] != NULL) {
        SL_CHECK(sl_raw_read_edge_features(files->paths[SL_RAW_EDGE_FEATURES], 0, raw.n_edges, raw.n_edges,
                                           &raw.data.edge_features));
    }
    SL_CHECK(read_targets(files, &raw));
    SL_CHECK(read_class_names(files, &raw));
    SL_CHECK(read_vertex_names(files, &raw));
    for (int i = 0; i < SL_N_LISTS; i++) {
        const enum sl_raw_file table = (enum sl_raw_file)(SL_RAW_TRAIN + i);
        const char *path = files->need != SL_RAW_FOR_LINKS ? files->paths[table] : NULL;
        SL_CHECK(sl_raw_read_ids(path, table, raw.n_vertices, &raw.data.lists[i]));
    }
    if (files->paths[SL_RAW_FEATURES] != NULL && !files->no_features) {
        SL_CHECK(sl_raw_read_features(files->paths[SL_RAW_FEATURES], raw.n_vertices, &raw.data.features));
    }
    SL_CHECK(sl_raw_settle(files, sl_text_or(files->paths[SL_RAW_TRAIN], files->split), &raw));
    *out = SL_TAKE(raw);
    return SL_OK;
}

enum sl_status sl_raw_graph(const struct sl_raw *raw, bool reverse, struct sl_graph *out)
{
    const struct sl_edge_list edges = {.n_vertices = raw->n_vertices,
                                       .n = raw->n_edges,
                                       .from = raw->from,
                                       .to = raw->to,
                                       .weights = raw->weights,
                                       .relations = raw->relations,
                                       .n_relations = raw->n_relations,
                                       .reverse = reverse,
                                       .features = raw->data.edge_features.values,
                                       .n_columns = raw->data.edge_features.n_columns};
    return sl_graph_build_list(&edges, out);
}

void sl_raw_free(struct sl_raw *raw)
{
    sl_free(raw->from);
    sl_free(raw->to);
    sl_free(raw->relations);
    sl_free(raw->weights);
    sl_dataset_free(&raw->data);
    *raw = (struct sl_raw){0};
}
