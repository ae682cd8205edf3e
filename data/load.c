/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Loading a dataset: find its files or recipe, try the cache, else build it from raw tables. */
#include "data/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/cache.h"
#include "data/features.h"
#include "data/generate/generate.h"
#include "data/leaks.h"
#include "data/made_features.h"
#include "data/names.h"
#include "data/random_split.h"
#include "data/reader.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/nearest.h"
#include "support/text.h"

#define DEFAULT_DATASET "arxiv"
#define PATH_BYTES 4096
#define LEAST_CACHED 16384 /* vertices: METIS cuts smaller graphs at once */

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
    environment = sl_text_or(environment, "");
    return sl_format(out, "%s%s./data%s%s%s", environment, environment[0] != '\0' ? ":" : "", home != NULL ? ":" : "",
                     sl_text_or(home, ""), home != NULL ? "/.local/share/starling" : "");
}

/* What else may be there: a download that was not unpacked, another folder, or another file. The last says most. */
enum found { FOUND_NOTHING, FOUND_ARCHIVE, FOUND_FOLDER, FOUND_FILE };

/* What there is of a dataset: strings of sl_alloc, or NULL. */
struct finding {
    char *dataset; /* a file or folder that a reader recognises */
    const struct sl_reader *reader;
    char *other; /* the first of what says most */
    enum found said;
};

static void free_finding(struct finding *finding)
{
    sl_free(finding->dataset);
    sl_free(finding->other);
}

static enum found what_is_at(const char *path, bool archive)
{
    if (sl_folder_exists(path)) {
        return archive ? FOUND_NOTHING : FOUND_FOLDER;
    }
    const enum found found = archive ? FOUND_ARCHIVE : FOUND_FILE;
    return sl_file_exists(path) ? found : FOUND_NOTHING;
}

/* Note what is at a path, or its archive. */
static enum sl_status look_at(const char *stem, struct finding *out)
{
    static const char *const endings[] = {"", ".zip", ".tar.gz", ".tgz"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings && out->dataset == NULL; i++) {
        SL_FREED char *path = NULL;
        SL_CHECK(sl_format(&path, "%s%s", stem, endings[i]));
        const enum found found = what_is_at(path, i > 0);
        out->reader = found != FOUND_NOTHING ? sl_reader_of(path) : NULL;
        if (out->reader != NULL) {
            out->dataset = SL_TAKE(path);
        } else if (found > out->said) {
            sl_free(out->other);
            out->other = SL_TAKE(path);
            out->said = found;
        }
    }
    return SL_OK;
}

/* Look for the dataset under `root`. Possible names: NAME, ogbn-NAME, ogbn_NAME, and NAME without such a prefix. */
static enum sl_status find_under(const char *root, const char *name, struct finding *out)
{
    static const char *const prefixes[] = {"", "ogbn-", "ogbn_"};
    const char *stem = strncmp(name, "ogbn-", 5) == 0 || strncmp(name, "ogbn_", 5) == 0 ? name + 5 : name;
    for (int i = -1; i < 3 && out->dataset == NULL; i++) {
        SL_FREED char *path = NULL;
        SL_CHECK(sl_format(&path, "%s/%s%s", root, i < 0 ? "" : prefixes[i], i < 0 ? name : stem));
        SL_CHECK(look_at(path, out));
    }
    return SL_OK;
}

/* The next folder of the data path; `rest` is what is left of it. False: none is left. */
static bool next_root(const char **rest, char root[PATH_BYTES])
{
    *rest += strspn(*rest, ":");
    const size_t n = strcspn(*rest, ":");
    snprintf(root, PATH_BYTES, "%.*s", (int)n, *rest);
    *rest += n;
    return n > 0;
}

static const char *dataset_of(const struct sl_dataset_options *options)
{
    return options->dataset != NULL && options->dataset[0] != '\0' ? options->dataset : DEFAULT_DATASET;
}

/* Look for a dataset: by name on the data path, else as a path. */
static enum sl_status find_dataset(const char *name, const char *searched, struct finding *out)
{
    char root[PATH_BYTES];
    const char *rest = strchr(name, '/') == NULL ? searched : "";
    while (out->dataset == NULL && next_root(&rest, root)) {
        SL_CHECK(find_under(root, name, out));
    }
    return out->dataset == NULL ? look_at(name, out) : SL_OK;
}

/* The last component of a path. */
static void name_from_path(const char *path, char *out, size_t bytes)
{
    char *real = realpath(path, NULL);
    const char *whole = sl_text_or(real, path);
    const char *slash = strrchr(whole, '/');
    snprintf(out, bytes, "%s", slash != NULL && slash[1] != '\0' ? slash + 1 : whole);
    free(real);
}

/* ---- A dataset's origin ------------------------------------------------------------------------------------------ */

/* The origin of a dataset: a file or folder, or a recipe of the generator. */
struct origin {
    char *path;                     /* or NULL */
    const struct sl_reader *reader; /* of the path */
    struct sl_raw_files files;
    struct sl_recipe recipe;
    struct sl_made_features made; /* instead of the features of the files or the recipe */
    bool stand_in;                /* the recipe's data replace a real dataset */
    char name[64];
    /* Checksum of the dataset's path and form. It is part of the cache file's name. */
    uint64_t identity;
    /* `identity` with the sizes and times of the files. It is the cache's key. */
    uint64_t state;
};

static void free_origin(struct origin *origin)
{
    sl_free(origin->path);
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
    sum = sum_text(sum, sl_text_or(real, path));
    free(real);
    return sum;
}

/* Add made features, if any. */
static uint64_t sum_made(uint64_t sum, const struct sl_made_features *made, uint64_t seed)
{
    const uint64_t numbers[] = {(uint64_t)made->kind, made->n_columns, made->kind == SL_MADE_RANDOM ? seed : 0};
    return made->kind != SL_MADE_NOT ? sl_checksum(sum, numbers, sizeof numbers) : sum;
}

/* Add a file's kind, size, time and path. NULL, or no such file: nothing. */
static uint64_t sum_file(uint64_t state, uint64_t kind, const char *path)
{
    struct stat info = {0};
    if (path == NULL || stat(path, &info) != 0) {
        return state;
    }
    const uint64_t numbers[] = {kind, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                                (uint64_t)info.st_mtim.tv_nsec};
    return sum_path(sl_checksum(state, numbers, sizeof numbers), path);
}

/* Add statistics of another dataset, if any. */
static uint64_t sum_scaling(uint64_t sum, const struct sl_dataset_options *options)
{
    const struct sl_scaling *scaling = options->scaling;
    if (scaling == NULL || scaling->n == 0 || options->normalize != SL_NORMALIZE_COLUMN) {
        return sum;
    }
    sum = sl_checksum(sum, scaling->mean, scaling->n * sizeof *scaling->mean);
    return sl_checksum(sum, scaling->scale, scaling->n * sizeof *scaling->scale);
}

static void identify_files(const struct sl_dataset_options *options, struct origin *origin)
{
    const uint64_t numbers[] = {options->directed, (uint64_t)options->normalize};
    uint64_t sum = sum_scaling(sl_checksum(1, numbers, sizeof numbers), options);
    uint64_t state = 0;
    sum = sum_text(sum_path(sum, origin->path), origin->files.split);
    for (int i = 0; i < SL_RAW_N_FILES; i++) {
        state = sum_file(state, (uint64_t)i, origin->files.paths[i]);
    }
    for (uint32_t i = 0; i < origin->files.n_more; i++) {
        state = sum_file(state, SL_RAW_N_FILES, origin->files.more[i]);
    }
    const char *features = origin->files.paths[SL_RAW_FEATURES];
    if (origin->made.kind == SL_MADE_NOT && features != NULL) {
        sum = sum_path(sum, features);
    }
    if (options->targets == SL_TARGETS_NUMBERS) {
        sum = sum_text(sum, "numbers");
    }
    if (origin->files.edge_features) {
        sum = sum_text(sum, "edge features");
    }
    if (sl_raw_needs_links(options->need)) {
        sum = sum_text(sum, "links");
    }
    origin->identity = sum_made(sum, &origin->made, options->feature_seed);
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
    uint64_t sum = sum_scaling(sl_checksum(2, numbers, sizeof numbers), options);
    sum = sl_checksum(sum, &r->homophily, sizeof r->homophily);
    sum = sum_text(sum_text(sum, r->name), r->split);
    if (r->n_types > 0) {
        sum = sl_checksum(sum, r->other, sizeof r->other);
        for (uint32_t i = 0; i < r->n_relations; i++) {
            const struct sl_recipe_relation *b = &r->between[i];
            const uint64_t ends[] = {b->source, b->destination, b->n_edges};
            sum = sl_checksum(sl_checksum(sum, ends, sizeof ends), &b->same_class, sizeof b->same_class);
        }
    }
    origin->identity = sum_made(sum, &origin->made, options->feature_seed);
    origin->state = origin->identity;
}

#define LIST_BYTES 400

static bool is_dataset(const char *path)
{
    return sl_reader_of(path) != NULL;
}

/* "; did you mean cora? On the data path: citeseer, cora", for the end of a message. */
static void list_datasets(const char *name, const char *searched, char out[LIST_BYTES])
{
    struct sl_raw_names names = {.n = 0};
    struct sl_nearest near = {.typed = name, .distance = SIZE_MAX};
    char root[PATH_BYTES];
    size_t used;
    while (next_root(&searched, root)) {
        sl_raw_list_folder(root, is_dataset, &names);
    }
    for (int i = 0; i < names.n + sl_recipe_n; i++) {
        const char *known = i < names.n ? names.name[i] : sl_recipe_name(i - names.n);
        sl_nearest_offer(&near, known, known);
    }
    if (near.answer != NULL) {
        used = (size_t)snprintf(out, LIST_BYTES, "; did you mean %s? On the data path: ", near.answer);
    } else {
        used = (size_t)snprintf(out, LIST_BYTES, "; on the data path: ");
    }
    if (names.n == 0) {
        snprintf(out + used, LIST_BYTES - used, "no dataset");
    }
    for (int i = 0; i < names.n && used + 72 < LIST_BYTES; i++) {
        bool last = i + 1 < names.n && used + 144 >= LIST_BYTES;
        used += (size_t)snprintf(out + used, LIST_BYTES - used, "%s%s%s", i > 0 ? ", " : "", names.name[i],
                                 last ? ", .." : "");
    }
}

/* OGB's own place for downloads: ./dataset. */
static enum sl_status look_in_ogb_folder(const char *name, char *out, size_t bytes)
{
    SL_OWNED(free_finding) struct finding finding = {0};
    out[0] = '\0';
    if (strchr(name, '/') == NULL) {
        SL_CHECK(find_under("dataset", name, &finding));
    }
    if (finding.dataset != NULL) {
        snprintf(out, bytes, " (but %.200s is there: --data-path dataset)", finding.dataset);
    }
    return SL_OK;
}

static enum sl_status refuse_missing(const char *name, const char *searched)
{
    char list[LIST_BYTES];
    char elsewhere[300];
    list_datasets(name, searched, list);
    SL_CHECK(look_in_ogb_folder(name, elsewhere, sizeof elsewhere));
    SL_FAIL_IF(strchr(name, '/') != NULL, SL_ENOTFOUND, "dataset '%.300s': no such folder", name);
    return sl_fail(SL_ENOTFOUND, "dataset '%.100s' is not in %.250s%s%s; or give --data-path, a folder, or one of %s",
                   name, searched, elsewhere, list, sl_recipe_names);
}

/* The generator's dataset of a name, if the generator has it. */
static enum sl_status use_recipe(const struct sl_dataset_options *options, const char *searched, struct origin *origin)
{
    const char *name = dataset_of(options);
    struct sl_recipe *recipe = &origin->recipe;
    if (!sl_recipe_find(name, recipe)) {
        return refuse_missing(name, searched);
    }
    SL_FAIL_IF(options->features != NULL && origin->made.kind == SL_MADE_NOT, SL_ENOTFOUND,
               "dataset '%s' is not in %s, so --features %s has no folder to be in", name, searched, options->features);
    const bool named = options->split != NULL && options->split[0] != '\0';
    SL_FAIL_IF(named && strcmp(options->split, recipe->split) != 0, SL_EINVAL,
               "%s has no split '%s'; --split can be one of: %s, or random:60,20,20", recipe->name, options->split,
               recipe->split);
    recipe->seed = options->seed;
    snprintf(origin->name, sizeof origin->name, "%s", recipe->name);
    identify_recipe(options, origin);
    origin->stand_in = strcmp(name, recipe->name) != 0;
    return SL_OK;
}

static enum sl_status check_outputs(const struct sl_dataset_options *options, const struct sl_raw_files *files)
{
    for (size_t o = 0; o < sizeof options->outputs / sizeof *options->outputs; o++) {
        bool same = false;
        for (uint32_t i = 0; i < SL_RAW_N_FILES + files->n_more; i++) {
            const char *path = i < SL_RAW_N_FILES ? files->paths[i] : files->more[i - SL_RAW_N_FILES];
            same |= sl_file_same(options->outputs[o], path);
        }
        SL_FAIL_IF(same, SL_EINVAL, "%.300s: found a file of the dataset, expected another name for an output",
                   options->outputs[o]);
    }
    return SL_OK;
}

/* Takes the path over. */
static enum sl_status use_dataset(const struct sl_dataset_options *options, char *path, const struct sl_reader *reader,
                                  struct origin *origin)
{
    struct sl_dataset_options request = *options;
    request.dataset = path;
    origin->path = path;
    origin->reader = reader;
    SL_CHECK(reader->find(&request, &origin->files));
    SL_CHECK(check_outputs(options, &origin->files));
    origin->files.least = options->least;
    origin->files.context = options->context;
    name_from_path(path, origin->name, sizeof origin->name);
    identify_files(options, origin);
    return SL_OK;
}

/* A folder of the dataset's name that no reader knows: it may have a split alone, if --features names the features.
 * Else the message names the missing file and the other datasets. Takes the path over. */
static enum sl_status use_half(const struct sl_dataset_options *options, char *path, const char *searched,
                               struct origin *origin)
{
    const char *name = dataset_of(options);
    char list[LIST_BYTES];
    char why[SL_MESSAGE_BYTES];
    const enum sl_status st = use_dataset(options, path, &sl_reader_ogb, origin);
    if (st != SL_EFILE || strchr(name, '/') != NULL) {
        return st;
    }
    snprintf(why, sizeof why, "%s", sl_message());
    list_datasets(name, searched, list);
    return sl_fail(st, "%.550s%s", why, list);
}

static enum sl_status choose_origin(const struct sl_dataset_options *options, const char *searched,
                                    struct finding *finding, struct origin *out)
{
    if (finding->dataset != NULL) {
        return use_dataset(options, SL_TAKE(finding->dataset), finding->reader, out);
    }
    if (finding->said == FOUND_FOLDER) {
        return use_half(options, SL_TAKE(finding->other), searched, out);
    }
    if (finding->other != NULL) {
        return sl_reader_refuse(finding->other);
    }
    return use_recipe(options, searched, out);
}

static enum sl_status find_origin(const struct sl_dataset_options *options, struct origin *out)
{
    SL_FREED char *searched = NULL;
    SL_OWNED(free_finding) struct finding finding = {0};
    SL_OWNED(free_origin) struct origin origin = {0};
    SL_CHECK(sl_made_features_parse(options->features, &origin.made));
    SL_CHECK(data_path(options, &searched));
    SL_CHECK(find_dataset(dataset_of(options), searched, &finding));
    SL_CHECK(choose_origin(options, searched, &finding, &origin));
    *out = SL_TAKE(origin);
    return SL_OK;
}

/* Give notice of a stand-in and of unused tables, also if the dataset comes from the cache. */
static void tell(const struct sl_dataset_options *options, const struct origin *origin)
{
    if (origin->stand_in) {
        sl_notify(
            SL_NOTICE_WARNING,
            "--dataset %s: no such dataset on the data path: the data are SYNTHETIC (%s, generated); for the real ones "
            "give --data-path or $STARLING_DATA",
            dataset_of(options), origin->name);
    }
    for (const char *line = origin->files.unused; *line != '\0';) {
        const int n = (int)strcspn(line, "\n");
        const char *features = strstr(line, "/edge-feat.");
        const bool wanted = features != NULL && features < line + n;
        sl_notify(SL_NOTICE_WARNING, "%.*s: is not used%s", n, line, wanted ? " without --edge-features" : "");
        line += n + 1;
    }
}

/* The options of the files, and the split to draw. A split left open is drawn if the usual one was. */
static enum sl_status settle_split(const struct sl_dataset_options *given, struct sl_dataset_options *out,
                                   struct sl_random_split *rule)
{
    *out = *given;
    SL_CHECK(sl_random_split_parse(sl_text_or(given->split, given->usual_split), given->split_seed, rule));
    out->draw_links = rule->wanted && (given->draw_links || sl_raw_needs_links(given->need));
    if (rule->wanted) {
        out->split = "";
        out->usual_split = NULL;
    }
    if (out->draw_links && sl_raw_needs_links(given->need)) {
        out->need = SL_RAW_FOR_INFERENCE;
    }
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

/* The folder for cache files, `given` or beside the data at `path` (NULL: none); *out stays NULL if there is to be no
 * cache. */
static enum sl_status cache_folder(const char *given, const char *path, char **out)
{
    if (given != NULL && strcmp(given, "none") == 0) {
        return SL_OK;
    }
    if (given != NULL && given[0] != '\0') {
        return sl_strdup(given, out);
    }
    if (path != NULL && sl_folder_writable(path)) {
        return sl_path_join(path, "starling-cache", out);
    }
    return users_cache(out);
}

/* The name of a cache file, "FOLDER/NAME-IDENTITYstem"; *out stays NULL if there is to be no cache. */
static enum sl_status cache_file(const struct sl_dataset_options *options, const struct origin *origin,
                                 const char *stem, char **out)
{
    SL_FREED char *folder = NULL;
    SL_CHECK(cache_folder(options->cache, origin->path, &folder));
    if (folder == NULL) {
        return SL_OK;
    }
    return sl_format(out, "%s/%s-%016llx%s", folder, origin->name, (unsigned long long)origin->identity, stem);
}

enum sl_status sl_dataset_cache_file(const struct sl_dataset_options *options, const char *stem, char **out)
{
    struct sl_dataset_options settled;
    struct sl_random_split rule;
    SL_OWNED(free_origin) struct origin origin = {0};
    SL_FREED char *tail = NULL;
    *out = NULL;
    SL_CHECK(settle_split(options, &settled, &rule));
    SL_CHECK(find_origin(&settled, &origin));
    if (rule.wanted) {
        origin.identity = sum_text(sl_checksum(origin.identity, &rule.seed, sizeof rule.seed), rule.name);
        origin.identity += settled.draw_links;
    }
    SL_CHECK(sl_format(&tail, "-%s.slc", stem));
    return cache_file(options, &origin, tail, out);
}

enum sl_status sl_dataset_cache_file_of_arrays(const char *cache, uint64_t key, uint32_t n_vertices, const char *stem,
                                               char **out)
{
    SL_FREED char *folder = NULL;
    *out = NULL;
    if (sl_text_or(cache, "")[0] != '\0' || n_vertices >= LEAST_CACHED) {
        SL_CHECK(cache_folder(cache, NULL, &folder));
    }
    if (folder == NULL) {
        return SL_OK;
    }
    return sl_format(out, "%s/arrays-%016llx-%s.slc", folder, (unsigned long long)key, stem);
}

/* ---- From raw tables to a dataset -------------------------------------------------------------------------------- */

/* Normalize the features, and measure them. The statistics are those of `scaling`, or else of these features. */
static enum sl_status finish_features(enum sl_normalize normalize, const struct sl_scaling *scaling,
                                      struct sl_dataset *dataset)
{
    dataset->normalized = normalize;
    sl_scaling_free(&dataset->scaling);
    if (scaling != NULL && normalize == SL_NORMALIZE_COLUMN) {
        SL_CHECK(sl_scaling_copy(scaling, &dataset->scaling));
    }
    if (dataset->features.n_rows > 0) {
        SL_CHECK(sl_features_normalize(&dataset->features, normalize, &dataset->scaling));
    }
    return sl_features_measure(&dataset->features, &dataset->range);
}

enum sl_status sl_dataset_make(const char *name, struct sl_raw *raw, bool directed, enum sl_normalize normalize,
                               const struct sl_scaling *scaling, struct sl_dataset *out)
{
    struct sl_dataset *data = &raw->data;
    const bool typed = raw->n_relations > 0 && (data->links.n_relations == 0 || data->links.own_ids);
    *out = (struct sl_dataset){0};
    SL_FAIL_IF(normalize == SL_NORMALIZE_COLUMN && typed, SL_EINVAL,
               "--normalize-features column cannot be used with the typed graph %s: each type has its own "
               "features; use row or none",
               name);
    SL_CHECK(finish_features(normalize, scaling, data));
    SL_CHECK(sl_raw_graph(raw, !directed, &data->graph));
    snprintf(data->name, sizeof data->name, "%s", name);
    data->directed = directed;
    *out = *data;
    *data = (struct sl_dataset){0};
    sl_raw_free(raw);
    return SL_OK;
}

static enum sl_status read_or_generate(const struct sl_dataset_options *options, const struct origin *origin,
                                       struct sl_raw *out)
{
    const struct sl_raw_files none = {.least = options->least, .context = options->context};
    const struct sl_recipe *recipe = &origin->recipe;
    struct sl_raw_sizes sizes = {.n_relations = recipe->n_types > 0 ? recipe->n_relations + 1 : 0};
    if (origin->reader != NULL) {
        return origin->reader->read(&origin->files, out);
    }
    sl_recipe_total(recipe, &sizes.n_vertices, &sizes.n_edges);
    if (!recipe->sparse) {
        sizes.feature_bytes = (uint64_t)recipe->n_vertices * recipe->n_features * sizeof(float);
    }
    SL_CHECK(sl_raw_check_sizes(&none, origin->name, &sizes));
    sl_notify(SL_NOTICE_PROGRESS, "generating %s: %llu vertices, %llu edges", origin->name,
              (unsigned long long)sizes.n_vertices, (unsigned long long)sizes.n_edges);
    return sl_generate(&origin->recipe, out);
}

/* Make features of the graph, in place of the dataset's own. */
static enum sl_status make_features(const struct sl_dataset_options *options, const struct sl_made_features *made,
                                    struct sl_dataset *dataset)
{
    struct sl_features features = {0};
    SL_CHECK(sl_made_features_make(made, &dataset->graph, dataset->vertex_names, options->feature_seed, &features));
    sl_features_free(&dataset->features);
    dataset->features = features;
    SL_CHECK(sl_features_settle(&dataset->features));
    return finish_features(options->normalize, options->scaling, dataset);
}

/* Write a nodes.csv of ids, an id a line. */
static enum sl_status put_ids(struct sl_writer *writer, const char *ids)
{
    SL_CHECK(sl_writer_put(writer, "id\n", strlen("id\n")));
    for (size_t n = 0; *ids != '\0'; ids += n + 1) {
        n = strcspn(ids, "\n");
        SL_CHECK(sl_names_put(writer, (struct sl_text_cell){ids, n}));
        SL_CHECK(sl_writer_put(writer, "\n", 1));
    }
    return SL_OK;
}

/* Save the ids of the file beside the cache. A failed write is no failure. */
static enum sl_status save_names(const struct sl_dataset_options *options, const struct origin *origin,
                                 const struct sl_raw *raw)
{
    struct sl_writer writer;
    SL_FREED char *path = NULL;
    SL_CHECK(cache_file(options, origin, "-ids.csv", &path));
    if (path != NULL && sl_folder_make_parents(path) == SL_OK && sl_writer_open(path, &writer) == SL_OK) {
        bool put = put_ids(&writer, raw->data.vertex_names) == SL_OK;
        if (sl_writer_close(&writer) == SL_OK && put) {
            sl_notify(SL_NOTICE_PROGRESS, "%s: the ids of its %u vertices are in %s, in the order of their numbers",
                      origin->name, raw->n_vertices, path);
        }
    }
    return SL_OK;
}

static enum sl_status load_uncached(const struct sl_dataset_options *options, const struct origin *origin,
                                    bool *whole_out, struct sl_dataset *out)
{
    SL_OWNED(sl_raw_free) struct sl_raw raw = {0};
    const bool made = origin->made.kind != SL_MADE_NOT;
    SL_CHECK(read_or_generate(options, origin, &raw));
    if (raw.numbered && raw.data.vertex_names != NULL) {
        SL_CHECK(save_names(options, origin, &raw));
    }
    if (raw.n_dropped > 0) {
        sl_notify(SL_NOTICE_WARNING, "%s: %u vertices of the split '%s' have no label: they have no share in scores",
                  origin->name, raw.n_dropped, raw.data.split);
    }
    bool all_known = raw.n_dropped == 0;
    raw.data.links.directed = options->directed;
    SL_CHECK(sl_dataset_make(origin->name, &raw, options->directed, made ? SL_NORMALIZE_NONE : options->normalize,
                             options->scaling, out));
    SL_CHECK(sl_leaks_settle(out, options->drop_leaks, origin->name));
    if (made) {
        SL_CHECK(make_features(options, &origin->made, out));
    }
    *whole_out = all_known && out->features.n_rows == out->graph.n_vertices;
    out->synthetic = origin->reader == NULL;
    return SL_OK;
}

/* Note what the cache file does not say. */
static enum sl_status describe(const struct sl_dataset_options *options, const struct origin *origin,
                               struct sl_dataset *out)
{
    out->directed = options->directed;
    out->normalized = options->normalize;
    out->feature_seed = options->feature_seed;
    out->counts_edges = origin->made.kind == SL_MADE_DEGREE;
    if (origin->made.kind == SL_MADE_ONEHOT) { /* the columns stand for the vertices in this order */
        const char *names = sl_text_or(out->vertex_names, "");
        const char *types = sl_text_or(out->types, "");
        out->feature_seed = sl_checksum(sl_checksum(0, names, strlen(names)), types, strlen(types));
    }
    out->serial = sl_dataset_serial();
    if (options->features != NULL && options->features[0] != '\0') {
        SL_CHECK(sl_strdup(options->features, &out->feature_words));
    }
    if (origin->reader == NULL && origin->recipe.n_types > 0) {
        SL_CHECK(sl_alloc((size_t)origin->recipe.n_relations + 1, sizeof *out->ends, "ends of relations", &out->ends));
        sl_recipe_ends(&origin->recipe, out->ends);
    }
    if (origin->reader != NULL && origin->reader->describe_relations != NULL) {
        return origin->reader->describe_relations(&origin->files, &out->relations, &out->ends);
    }
    return SL_OK;
}

/* Load a dataset with the split of its files, from the cache or else from its origin. */
static enum sl_status load_origin(const struct sl_dataset_options *options, const struct origin *origin,
                                  struct sl_dataset *out)
{
    SL_FREED char *file = NULL;
    bool whole = false; /* complete for every need, and so fit for the cache */
    const bool counting = options->draw_links && origin->made.kind == SL_MADE_DEGREE; /* made anew after the split */
    if (!sl_raw_needs_links(options->need) && !counting) {                            /* the cache has no links */
        SL_CHECK(cache_file(options, origin, ".slc", &file));
    }
    if (file == NULL || !sl_cache_read_dataset(file, origin->state, options->low_memory, out)) {
        SL_CHECK(load_uncached(options, origin, &whole, out));
    }
    if (file != NULL && whole) {
        (void)sl_cache_write_dataset(file, origin->state, out); /* the next load can do without */
    }
    return SL_OK;
}

/* Draw the split. Features that count edges are made of the graph without links to find. */
static enum sl_status draw_split(const struct sl_dataset_options *options, const struct origin *origin,
                                 const struct sl_random_split *rule, struct sl_dataset *out)
{
    const bool counts = out->counts_edges;
    if (!options->draw_links) {
        return sl_random_split_vertices(rule, out);
    }
    out->counts_edges = false;
    SL_CHECK(sl_random_split_links(rule, out));
    out->counts_edges = counts;
    return counts ? make_features(options, &origin->made, out) : SL_OK;
}

enum sl_status sl_dataset_load(const struct sl_dataset_options *given, struct sl_dataset *out)
{
    struct sl_dataset_options options;
    SL_OWNED(free_origin) struct origin origin = {0};
    SL_OWNED(sl_dataset_free) struct sl_dataset dataset = {0};
    struct sl_random_split rule;
    *out = (struct sl_dataset){0};
    SL_CHECK(settle_split(given, &options, &rule));
    SL_CHECK(find_origin(&options, &origin));
    SL_FAIL_IF(origin.made.kind == SL_MADE_NONE && options.need != SL_RAW_FOR_LOOKS, SL_EINVAL,
               "--features: found none, expected features for the model: a file, " SL_FEATURE_WORDS);
    tell(&options, &origin);
    SL_CHECK(load_origin(&options, &origin, &dataset));
    SL_CHECK(describe(&options, &origin, &dataset));
    if (rule.wanted) {
        SL_CHECK(draw_split(&options, &origin, &rule, &dataset));
    }
    *out = SL_TAKE(dataset);
    return SL_OK;
}
