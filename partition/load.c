/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Loading a dataset: find its files or recipe, try the cache, else build it from raw tables. */
#include "partition/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "partition/cache.h"
#include "partition/features.h"
#include "partition/generate.h"
#include "partition/raw.h"
#include "support/file.h"
#include "support/memory.h"

#define DEFAULT_DATASET "arxiv"

/* ---- Finding the folder ------------------------------------------------------------------------------------------ */

/* The folders of the data path, in order, with the defaults filled in. */
static enum sl_status data_path(const struct sl_dataset_options *options, char **out)
{
    const char *given = options->data_path;
    if (given != NULL && given[0] != '\0') {
        return sl_strdup(given, out);
    }
    const char *environment = getenv("STARLING_DATA");
    const char *home = getenv("HOME");
    environment = environment != NULL ? environment : "";
    return sl_format(out, "%s%s./data%s%s%s", environment, environment[0] != '\0' ? ":" : "", home != NULL ? ":" : "",
                     home != NULL ? home : "", home != NULL ? "/.local/share/starling" : "");
}

static enum sl_status is_dataset(const char *folder, bool *out)
{
    char *raw;
    enum sl_status st = sl_path_join(folder, "raw", &raw);
    if (st == SL_OK) {
        *out = sl_folder_exists(raw);
        sl_free(raw);
    }
    return st;
}

/* Find the dataset's folder under `root`. Possible names: NAME, ogbn-NAME, ogbn_NAME, and NAME without such a
 * prefix. *out stays NULL if there is none. */
static enum sl_status find_under(const char *root, const char *name, char **out)
{
    static const char *const prefixes[] = {"", "ogbn-", "ogbn_"};
    const char *stem = strncmp(name, "ogbn-", 5) == 0 || strncmp(name, "ogbn_", 5) == 0 ? name + 5 : name;
    for (int i = -1; i < 3; i++) {
        char *folder;
        bool found = false;
        const char *prefix = i < 0 ? "" : prefixes[i];
        enum sl_status st = sl_format(&folder, "%s/%s%s", root, prefix, i < 0 ? name : stem);
        if (st == SL_OK) {
            st = is_dataset(folder, &found);
            if (st == SL_OK && found) {
                *out = folder;
                return SL_OK;
            }
            sl_free(folder);
        }
        if (st != SL_OK) {
            return st;
        }
    }
    return SL_OK;
}

static enum sl_status find_on_path(const char *name, char *path, char **out)
{
    enum sl_status st = SL_OK;
    char *rest = path;
    char *root;
    while (st == SL_OK && *out == NULL && (root = strsep(&rest, ":")) != NULL) {
        if (root[0] != '\0') {
            st = find_under(root, name, out);
        }
    }
    return st;
}

static const char *dataset_of(const struct sl_dataset_options *options)
{
    return options->dataset != NULL && options->dataset[0] != '\0' ? options->dataset : DEFAULT_DATASET;
}

/* Find the dataset's folder: by name on the data path, else as a path. *out stays NULL if there is none. *searched
 * gets the data path, for messages. */
static enum sl_status find_folder(const struct sl_dataset_options *options, char **out, char **searched)
{
    const char *name = dataset_of(options);
    bool here = false;
    char *path = NULL;
    enum sl_status st;
    SL_TRY(st, data_path(options, searched), done);
    if (strchr(name, '/') == NULL) {
        SL_TRY(st, sl_strdup(*searched, &path), done);
        SL_TRY(st, find_on_path(name, path, out), done);
    }
    if (*out == NULL) {
        SL_TRY(st, is_dataset(name, &here), done);
        if (here) {
            st = sl_strdup(name, out);
        }
    }
done:
    sl_free(path);
    return st;
}

/* The last component of a folder's path. */
static void name_from_folder(const char *folder, char *out, size_t bytes)
{
    char *real = realpath(folder, NULL);
    const char *path = real != NULL ? real : folder;
    const char *slash = strrchr(path, '/');
    snprintf(out, bytes, "%s", slash != NULL && slash[1] != '\0' ? slash + 1 : path);
    free(real);
}

/* ---- A dataset's origin ------------------------------------------------------------------------------------------ */

/* The origin of a dataset: a folder of files, or a recipe of the generator. */
struct origin {
    char *folder; /* NULL: the generator */
    struct sl_raw_files files;
    struct sl_recipe recipe;
    char name[64];
    /* Checksum of the dataset's path and form. It is part of the cache file's name. */
    uint64_t identity;
    /* `identity` with the sizes and times of the files. It is the cache's key. */
    uint64_t state;
};

static void free_origin(struct origin *origin)
{
    sl_free(origin->folder);
    sl_raw_files_free(&origin->files);
}

static uint64_t sum_text(uint64_t sum, const char *text)
{
    return sl_checksum(sum, text, strlen(text) + 1);
}

/* Add a path in its absolute form, the same from every working folder. */
static uint64_t sum_path(uint64_t sum, const char *path)
{
    char *real = realpath(path, NULL);
    sum = sum_text(sum, real != NULL ? real : path);
    free(real);
    return sum;
}

static void identify_files(const struct sl_dataset_options *options, struct origin *origin)
{
    const uint64_t numbers[] = {options->directed, (uint64_t)options->normalize};
    uint64_t sum = sl_checksum(1, numbers, sizeof numbers);
    uint64_t state = 0;
    sum = sum_text(sum_path(sum, origin->folder), origin->files.split);
    for (int i = 0; i < SL_RAW_N_FILES; i++) {
        const char *path = origin->files.paths[i];
        struct stat info = {0};
        if (path != NULL && stat(path, &info) == 0) {
            const uint64_t numbers_of_file[] = {(uint64_t)i, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                                                (uint64_t)info.st_mtim.tv_nsec};
            state = sum_path(sl_checksum(state, numbers_of_file, sizeof numbers_of_file), path);
        }
    }
    const char *features = origin->files.paths[SL_RAW_FEATURES];
    if (features != NULL) {
        sum = sum_path(sum, features);
    }
    origin->identity = sum;
    origin->state = sl_checksum(state, &origin->identity, sizeof origin->identity);
}

static void identify_recipe(const struct sl_dataset_options *options, struct origin *origin)
{
    const struct sl_recipe *r = &origin->recipe;
    const uint64_t numbers[] = {options->directed,
                                (uint64_t)options->normalize,
                                r->n_vertices,
                                r->n_edges,
                                r->n_features,
                                r->n_classes,
                                r->n_train,
                                r->n_valid,
                                r->n_test,
                                r->sparse,
                                r->seed};
    uint64_t sum = sl_checksum(2, numbers, sizeof numbers);
    sum = sl_checksum(sum, &r->homophily, sizeof r->homophily);
    origin->identity = sum_text(sum_text(sum, r->name), r->split);
    origin->state = origin->identity;
}

/* Use the generator's stand-in for a dataset without a folder. */
static enum sl_status use_recipe(const struct sl_dataset_options *options, const char *searched, struct origin *origin)
{
    const char *name = dataset_of(options);
    struct sl_recipe *recipe = &origin->recipe;
    if (!sl_recipe_find(name, recipe)) {
        return sl_fail(SL_ENOTFOUND, "dataset '%s' is not in %s: name its folder, give --data-path, or take one of %s",
                       name, searched, sl_recipe_names);
    }
    if (options->features != NULL) {
        return sl_fail(SL_ENOTFOUND, "dataset '%s' is not in %s, so --features %s has no folder to be in", name,
                       searched, options->features);
    }
    if (options->split != NULL && strcmp(options->split, recipe->split) != 0) {
        return sl_fail(SL_EINVAL, "%s has no split '%s'; --split can be one of: %s", recipe->name, options->split,
                       recipe->split);
    }
    recipe->seed = options->seed;
    snprintf(origin->name, sizeof origin->name, "%s", recipe->name);
    identify_recipe(options, origin);
    return SL_OK;
}

static enum sl_status use_folder(const struct sl_dataset_options *options, struct origin *origin)
{
    enum sl_status st = sl_raw_find(origin->folder, options->features, options->split, &origin->files);
    if (st == SL_OK) {
        name_from_folder(origin->folder, origin->name, sizeof origin->name);
        identify_files(options, origin);
    }
    return st;
}

static enum sl_status find_origin(const struct sl_dataset_options *options, struct origin *out)
{
    char *searched = NULL;
    struct origin origin = {0};
    enum sl_status st = find_folder(options, &origin.folder, &searched);
    if (st == SL_OK && origin.folder != NULL) {
        st = use_folder(options, &origin);
    } else if (st == SL_OK) {
        st = use_recipe(options, searched, &origin);
    }
    sl_free(searched);
    if (st != SL_OK) {
        free_origin(&origin);
        return st;
    }
    *out = origin;
    return SL_OK;
}

/* ---- The cache file's name --------------------------------------------------------------------------------------- */

/* The user's cache folder; *out stays NULL if there is no home folder. */
static enum sl_status users_cache(char **out)
{
    const char *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (xdg != NULL && xdg[0] == '/') {
        return sl_path_join(xdg, "starling", out);
    }
    if (home != NULL && home[0] == '/') {
        return sl_path_join(home, ".cache/starling", out);
    }
    return SL_OK;
}

/* The folder for cache files; *out stays NULL if there is to be no cache. */
static enum sl_status cache_folder(const struct sl_dataset_options *options, const struct origin *origin, char **out)
{
    const char *given = options->cache;
    if (given != NULL && strcmp(given, "none") == 0) {
        return SL_OK;
    }
    if (given != NULL && given[0] != '\0') {
        return sl_strdup(given, out);
    }
    if (origin->folder != NULL && sl_folder_writable(origin->folder)) {
        return sl_path_join(origin->folder, "starling-cache", out);
    }
    return users_cache(out);
}

/* The name of a cache file, "FOLDER/NAME-IDENTITYstem"; *out stays NULL if there is to be no cache. */
static enum sl_status cache_file(const struct sl_dataset_options *options, const struct origin *origin,
                                 const char *stem, char **out)
{
    char *folder = NULL;
    enum sl_status st = cache_folder(options, origin, &folder);
    if (st == SL_OK && folder != NULL) {
        st = sl_format(out, "%s/%s-%016llx%s", folder, origin->name, (unsigned long long)origin->identity, stem);
    }
    sl_free(folder);
    return st;
}

enum sl_status sl_dataset_cache_file(const struct sl_dataset_options *options, const char *stem, char **out)
{
    struct origin origin;
    char *tail;
    *out = NULL;
    enum sl_status st = find_origin(options, &origin);
    if (st != SL_OK) {
        return st;
    }
    st = sl_format(&tail, "-%s.slc", stem);
    if (st == SL_OK) {
        st = cache_file(options, &origin, tail, out);
        sl_free(tail);
    }
    free_origin(&origin);
    return st;
}

/* ---- From raw tables to a dataset -------------------------------------------------------------------------------- */

enum sl_status sl_dataset_make(const char *name, struct sl_raw *raw, bool directed, enum sl_normalize normalize,
                               struct sl_dataset *out)
{
    *out = (struct sl_dataset){0};
    enum sl_status st = sl_graph_build(raw->n_vertices, raw->n_edges, raw->from, raw->to, !directed, &out->graph);
    if (st != SL_OK) {
        return st;
    }
    sl_free(raw->from);
    sl_free(raw->to);
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->split, sizeof out->split, "%s", raw->split);
    out->n_classes = sl_raw_count_classes(raw);
    out->features = raw->features;
    out->labels = raw->labels;
    out->train = raw->train;
    out->valid = raw->valid;
    out->test = raw->test;
    *raw = (struct sl_raw){0};
    if (normalize == SL_NORMALIZE_ROW) {
        sl_features_normalize_rows(&out->features);
    }
    return SL_OK;
}

static enum sl_status load_uncached(const struct sl_dataset_options *options, const struct origin *origin,
                                    struct sl_dataset *out)
{
    struct sl_raw raw;
    enum sl_status st;
    if (origin->folder != NULL) {
        st = sl_raw_read(&origin->files, &raw);
    } else {
        st = sl_generate(&origin->recipe, &raw);
    }
    if (st != SL_OK) {
        return st;
    }
    st = sl_dataset_make(origin->name, &raw, options->directed, options->normalize, out);
    sl_raw_free(&raw);
    if (st == SL_OK) {
        out->synthetic = origin->folder == NULL;
    }
    return st;
}

static bool read_cache(const char *file, bool low_memory, uint64_t key, struct sl_dataset *out)
{
    if (low_memory) {
        return sl_cache_read_dataset_low_memory(file, key, out);
    }
    return sl_cache_read_dataset(file, key, out);
}

enum sl_status sl_dataset_load(const struct sl_dataset_options *options, struct sl_dataset *out)
{
    struct origin origin;
    char *file = NULL;
    *out = (struct sl_dataset){0};
    enum sl_status st = find_origin(options, &origin);
    if (st != SL_OK) {
        return st;
    }
    SL_TRY(st, cache_file(options, &origin, ".slc", &file), done);
    if (file != NULL && read_cache(file, options->low_memory, origin.state, out)) {
        goto done;
    }
    SL_TRY(st, load_uncached(options, &origin, out), done);
    if (file != NULL) {
        sl_cache_write_dataset(file, origin.state, out);
    }
done:
    sl_free(file);
    free_origin(&origin);
    return st;
}
