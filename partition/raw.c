/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The raw layout of the Open Graph Benchmark: finding, reading and checking the files. raw_write.c writes them. */
#include "partition/raw.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "partition/csv.h"
#include "partition/features.h"
#include "partition/npy.h"
#include "support/file.h"
#include "support/memory.h"

#define MAX_SPLITS 64
#define MAX_EDGES ((uint64_t)1 << 40)

/* ---- Finding the files ------------------------------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *suffix)
{
    size_t n = strlen(path);
    size_t m = strlen(suffix);
    return n >= m && strcasecmp(path + n - m, suffix) == 0;
}

/* The first of the `n` names that is a file in `folder`; *out stays NULL if there is none. */
static enum sl_status find_one(const char *folder, const char *const *names, int n, char **out)
{
    for (int i = 0; i < n; i++) {
        char *path;
        enum sl_status st = sl_path_join(folder, names[i], &path);
        if (st != SL_OK) {
            return st;
        }
        if (sl_file_exists(path)) {
            *out = path;
            return SL_OK;
        }
        sl_free(path);
    }
    return SL_OK;
}

/* The file STEM.csv.gz or STEM.csv. SL_EFILE: neither is there. */
static enum sl_status find_table(const char *folder, const char *stem, char **out)
{
    char names[2][160];
    snprintf(names[0], sizeof names[0], "%s.csv.gz", stem);
    snprintf(names[1], sizeof names[1], "%s.csv", stem);
    enum sl_status st = find_one(folder, (const char *const[]){names[0], names[1]}, 2, out);
    if (st == SL_OK && *out == NULL) {
        st = sl_fail(SL_EFILE, "%s: expected a file %s, found none", folder, names[0]);
    }
    return st;
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

/* The names of the folders in `folder`, sorted; at most MAX_SPLITS. */
static int list_folders(const char *folder, char names[MAX_SPLITS][64])
{
    int n = 0;
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir != NULL && n < MAX_SPLITS && (entry = readdir(dir)) != NULL) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && length < (int)sizeof path && strlen(entry->d_name) < sizeof names[n] &&
            sl_folder_exists(path)) {
            memcpy(names[n++], entry->d_name, strlen(entry->d_name) + 1);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    qsort(names, (size_t)n, sizeof names[0], compare_names);
    return n;
}

/* Choose the split: by name, or the only one. */
static enum sl_status choose_split(const char *folder, const char *wanted, char *out, size_t bytes)
{
    char names[MAX_SPLITS][64];
    char path[4096];
    char list[600] = "";
    if ((size_t)snprintf(path, sizeof path, "%s/split", folder) >= sizeof path) {
        return sl_fail(SL_EINVAL, "%.64s...: the path is too long", folder);
    }
    int n = list_folders(path, names);
    for (int i = 0; i < n; i++) {
        append_name(list, sizeof list, names[i]);
        bool is_chosen = n == 1;
        if (wanted != NULL) {
            is_chosen = strcmp(wanted, names[i]) == 0;
        }
        if (is_chosen) {
            snprintf(out, bytes, "%.63s", names[i]);
            return SL_OK;
        }
    }
    if (n == 0) {
        return sl_fail(SL_EFILE, "%s: expected a folder with train, valid and test, found none", path);
    }
    if (wanted != NULL) {
        return sl_fail(SL_EINVAL, "%s has no split '%s'; --split can be one of: %s", folder, wanted, list);
    }
    return sl_fail(SL_EINVAL, "%s has more than one split; choose with --split one of: %s", folder, list);
}

static enum sl_status find_split(const char *folder, const char *wanted, struct sl_raw_files *files)
{
    static const char *const names[] = {"train", "valid", "test"};
    enum sl_status st = choose_split(folder, wanted, files->split, sizeof files->split);
    for (int i = 0; i < 3 && st == SL_OK; i++) {
        char stem[128];
        snprintf(stem, sizeof stem, "split/%s/%s", files->split, names[i]);
        st = find_table(folder, stem, &files->paths[SL_RAW_TRAIN + i]);
    }
    return st;
}

/* A file in derived/ that may hold the features, or "FILE". */
static void suggest_features(const char *folder, char *out, size_t bytes)
{
    snprintf(out, bytes, "FILE");
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/derived", folder) >= sizeof path) {
        return;
    }
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, "node-feat", 9) == 0) {
            snprintf(out, bytes, "derived/%s", entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static enum sl_status find_features(const char *folder, const char *wanted, struct sl_raw_files *files)
{
    static const char *const usual[] = {"raw/node-feat.csv.gz", "raw/node-feat.csv", "raw/node-feat.npy"};
    char **out = &files->paths[SL_RAW_FEATURES];
    enum sl_status st;
    if (wanted != NULL) {
        st = find_one(folder, &wanted, 1, out);
    } else {
        st = find_one(folder, usual, 3, out);
    }
    if (st != SL_OK || *out != NULL) {
        return st;
    }
    if (wanted != NULL) {
        return sl_fail(SL_EFILE, "%s: no feature file '%s' there; --features is relative to the dataset's folder",
                       folder, wanted);
    }
    if (files->paths[SL_RAW_BINARY] != NULL) {
        return SL_OK; /* data.npz holds the features */
    }
    char suggestion[300];
    suggest_features(folder, suggestion, sizeof suggestion);
    return sl_fail(SL_EFILE, "%s: no features (raw/node-feat.csv.gz); name another file with --features %s", folder,
                   suggestion);
}

static enum sl_status find_graph(const char *folder, struct sl_raw_files *files)
{
    static const char *const binary[] = {"raw/data.npz"};
    static const char *const text[] = {"raw/edge.csv.gz", "raw/edge.csv"};
    enum sl_status st = find_one(folder, text, 2, &files->paths[SL_RAW_EDGES]);
    if (st == SL_OK && files->paths[SL_RAW_EDGES] == NULL) {
        st = find_one(folder, binary, 1, &files->paths[SL_RAW_BINARY]);
        if (st == SL_OK && files->paths[SL_RAW_BINARY] == NULL) {
            st = sl_fail(SL_EFILE, "%s: no dataset: expected a file raw/edge.csv.gz or raw/data.npz", folder);
        }
        return st;
    }
    if (st != SL_OK) {
        return st;
    }
    SL_TRY(st, find_table(folder, "raw/num-node-list", &files->paths[SL_RAW_NODE_COUNT]), done);
    SL_TRY(st, find_table(folder, "raw/num-edge-list", &files->paths[SL_RAW_EDGE_COUNT]), done);
done:
    return st;
}

static enum sl_status find_labels(const char *folder, struct sl_raw_files *files)
{
    static const char *const binary[] = {"raw/node-label.npz", "raw/node-label.npy"};
    char **out = &files->paths[SL_RAW_LABELS];
    enum sl_status st = find_one(folder, binary, 2, out);
    if (st == SL_OK && *out == NULL) {
        st = find_table(folder, "raw/node-label", out);
    }
    return st;
}

enum sl_status sl_raw_find(const char *folder, const char *features, const char *split, struct sl_raw_files *out)
{
    *out = (struct sl_raw_files){0};
    enum sl_status st;
    SL_TRY(st, find_graph(folder, out), fail);
    SL_TRY(st, find_features(folder, features, out), fail);
    SL_TRY(st, find_labels(folder, out), fail);
    SL_TRY(st, find_split(folder, split, out), fail);
    return SL_OK;
fail:
    sl_raw_files_free(out);
    return st;
}

void sl_raw_files_free(struct sl_raw_files *files)
{
    for (int i = 0; i < SL_RAW_N_FILES; i++) {
        sl_free(files->paths[i]);
    }
    *files = (struct sl_raw_files){0};
}

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

static bool holds(const struct sl_ids *ids, sl_vertex v)
{
    uint32_t low = 0;
    uint32_t high = ids->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ids->ids[middle] < v) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < ids->n && ids->ids[low] == v;
}

/* Check one list of ids: in range, ascending, with labels, and in no earlier list. */
static enum sl_status check_list(const struct sl_raw *raw, const char *where, int list)
{
    static const char *const names[] = {"train", "valid", "test"};
    const struct sl_ids *lists[] = {&raw->train, &raw->valid, &raw->test};
    const struct sl_ids *ids = lists[list];
    for (uint32_t i = 0; i < ids->n; i++) {
        sl_vertex v = ids->ids[i];
        if (v >= raw->n_vertices || (i > 0 && v <= ids->ids[i - 1])) {
            return sl_fail(SL_EFILE, "%s: split '%s', %s: expected ascending ids below %u, found %u", where, raw->split,
                           names[list], raw->n_vertices, v);
        }
        if (raw->labels[v] < 0) {
            return sl_fail(SL_EFILE, "%s: split '%s': vertex %u of %s has no label", where, raw->split, v, names[list]);
        }
        for (int other = 0; other < list; other++) {
            if (holds(lists[other], v)) {
                return sl_fail(SL_EFILE, "%s: split '%s': vertex %u is both in %s and in %s", where, raw->split, v,
                               names[other], names[list]);
            }
        }
    }
    return SL_OK;
}

enum sl_status sl_raw_check(const struct sl_raw *raw, const char *where)
{
    if (raw->features.n_rows != raw->n_vertices) {
        return sl_fail(SL_EFILE, "%s: expected features of %u vertices, found %u", where, raw->n_vertices,
                       raw->features.n_rows);
    }
    enum sl_status st = SL_OK;
    for (int list = 0; list < 3 && st == SL_OK; list++) {
        st = check_list(raw, where, list);
    }
    return st;
}

uint32_t sl_raw_count_classes(const struct sl_raw *raw)
{
    int32_t most = -1;
    for (uint64_t v = 0; v < raw->n_vertices; v++) {
        most = raw->labels[v] > most ? raw->labels[v] : most;
    }
    return (uint32_t)(most + 1);
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static enum sl_status read_text_graph(const struct sl_raw_files *files, struct sl_raw *raw)
{
    uint64_t n = 0;
    enum sl_status st = sl_csv_read_count(files->paths[SL_RAW_NODE_COUNT], &n);
    if (st == SL_OK && n >= SL_NONE) {
        st = sl_fail(SL_EFILE, "%s:1: expected at most %u vertices, found %llu", files->paths[SL_RAW_NODE_COUNT],
                     SL_NONE - 1, (unsigned long long)n);
    }
    if (st == SL_OK) {
        st = sl_csv_read_count(files->paths[SL_RAW_EDGE_COUNT], &raw->n_edges);
    }
    if (st == SL_OK && raw->n_edges > MAX_EDGES) {
        st = sl_fail(SL_EFILE, "%s:1: expected at most 2^40 edges, found %llu", files->paths[SL_RAW_EDGE_COUNT],
                     (unsigned long long)raw->n_edges);
    }
    if (st != SL_OK) {
        return st;
    }
    raw->n_vertices = (uint32_t)n;
    return sl_csv_read_edges(files->paths[SL_RAW_EDGES], raw->n_vertices, raw->n_edges, &raw->from, &raw->to);
}

static enum sl_status read_features(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const char *path = files->paths[SL_RAW_FEATURES];
    if (path == NULL) {
        return sl_npy_read_features(files->paths[SL_RAW_BINARY], "node_feat", raw->n_vertices, &raw->features);
    }
    if (ends_in(path, ".npy") || ends_in(path, ".npz")) {
        return sl_npy_read_features(path, "node_feat", raw->n_vertices, &raw->features);
    }
    return sl_csv_read_features(path, raw->n_vertices, &raw->features);
}

static enum sl_status read_labels(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const char *path = files->paths[SL_RAW_LABELS];
    if (ends_in(path, ".npy") || ends_in(path, ".npz")) {
        return sl_npy_read_labels(path, "node_label", raw->n_vertices, &raw->labels);
    }
    return sl_csv_read_labels(path, raw->n_vertices, &raw->labels);
}

static enum sl_status read_graph(const struct sl_raw_files *files, struct sl_raw *raw)
{
    const char *binary = files->paths[SL_RAW_BINARY];
    if (binary == NULL) {
        return read_text_graph(files, raw);
    }
    return sl_npy_read_graph(binary, &raw->n_vertices, &raw->n_edges, &raw->from, &raw->to);
}

enum sl_status sl_raw_read(const struct sl_raw_files *files, struct sl_raw *out)
{
    *out = (struct sl_raw){0};
    enum sl_status st;
    snprintf(out->split, sizeof out->split, "%s", files->split);
    SL_TRY(st, read_graph(files, out), fail);
    SL_TRY(st, read_labels(files, out), fail);
    SL_TRY(st, sl_csv_read_ids(files->paths[SL_RAW_TRAIN], out->n_vertices, &out->train), fail);
    SL_TRY(st, sl_csv_read_ids(files->paths[SL_RAW_VALID], out->n_vertices, &out->valid), fail);
    SL_TRY(st, sl_csv_read_ids(files->paths[SL_RAW_TEST], out->n_vertices, &out->test), fail);
    SL_TRY(st, read_features(files, out), fail);
    SL_TRY(st, sl_raw_check(out, files->paths[SL_RAW_TRAIN]), fail);
    return SL_OK;
fail:
    sl_raw_free(out);
    return st;
}

void sl_raw_free(struct sl_raw *raw)
{
    sl_free(raw->from);
    sl_free(raw->to);
    sl_features_free(&raw->features);
    sl_free(raw->labels);
    sl_free(raw->train.ids);
    sl_free(raw->valid.ids);
    sl_free(raw->test.ids);
    *raw = (struct sl_raw){0};
}
