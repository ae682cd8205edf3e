/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Writing the raw layout: each number as the shortest text with the same value. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "data/generate/generate.h"
#include "data/raw.h"
#include "support/decimal.h"
#include "support/file.h"
#include "support/memory.h"

#define BUFFER_BYTES 65536
#define MAX_NUMBER_BYTES 40
#define DECIMALS 1e4 /* most features in use have at most four decimals */

/* A gzip file being written. */
struct text {
    struct sl_writer writer;
    gzFile file;
    size_t used;
    int failed;
    char buffer[BUFFER_BYTES];
};

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static void flush(struct text *text)
{
    text->failed |= text->used > 0 && gzwrite(text->file, text->buffer, (unsigned)text->used) <= 0;
    text->used = 0;
}

static inline void put_char(struct text *text, char c)
{
    if (text->used == BUFFER_BYTES) {
        flush(text);
    }
    text->buffer[text->used++] = c;
}

static void put_digits(struct text *text, uint64_t value)
{
    char digits[20];
    int n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0) {
        put_char(text, digits[--n]);
    }
}

/* A number with up to four decimals: scaled / 10^4. */
static void put_decimal(struct text *text, int64_t scaled)
{
    uint64_t magnitude = scaled < 0 ? -(uint64_t)scaled : (uint64_t)scaled;
    uint64_t fraction = magnitude % 10000;
    if (scaled < 0) {
        put_char(text, '-');
    }
    put_digits(text, magnitude / 10000);
    if (fraction > 0) {
        put_char(text, '.');
    }
    for (uint64_t unit = 1000; fraction > 0; unit /= 10) {
        put_char(text, (char)('0' + fraction / unit));
        fraction %= unit;
    }
}

static void put_float(struct text *text, float x)
{
    double scaled = rint(x * DECIMALS);
    if (fabs(scaled) < 1e15 && (float)(scaled / DECIMALS) == x) {
        put_decimal(text, (int64_t)scaled);
        return;
    }
    char number[MAX_NUMBER_BYTES];
    sl_decimal_write(x, 9, number, sizeof number);
    for (const char *p = number; *p != '\0'; p++) {
        put_char(text, *p);
    }
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static enum sl_status open_text(const char *folder, const char *name, struct text *text)
{
    char *path;
    enum sl_status st = SL_OK;
    SL_CHECK(sl_path_join(folder, name, &path));
    SL_TRY(st, sl_folder_make_parents(path), free_path);
    SL_TRY(st, sl_writer_open(path, &text->writer), free_path);
    int fd = dup(fileno(text->writer.stream));
    text->file = NULL;
    if (fd >= 0) {
        text->file = gzdopen(fd, "wb1");
    }
    text->used = 0;
    text->failed = 0;
    if (text->file == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        sl_writer_abort(&text->writer);
        st = sl_fail(SL_ENOMEM, "%s: no memory to compress it", path);
    }
free_path:
    sl_free(path);
    return st;
}

static enum sl_status close_text(struct text *text)
{
    flush(text);
    text->failed |= gzclose(text->file) != Z_OK;
    if (text->failed) {
        enum sl_status st = sl_fail(SL_EIO, "%s: cannot write; is the disk full?", text->writer.path);
        sl_writer_abort(&text->writer);
        return st;
    }
    return sl_writer_close(&text->writer);
}

static void put_count(struct text *text, uint64_t count)
{
    put_digits(text, count);
    put_char(text, '\n');
}

static void put_edges(struct text *text, const struct sl_raw *raw)
{
    for (uint64_t e = 0; e < raw->n_edges; e++) {
        put_digits(text, raw->from[e]);
        put_char(text, ',');
        put_count(text, raw->to[e]);
    }
}

static void put_weights(struct text *text, const struct sl_raw *raw)
{
    const float *weights = raw->weights.data;
    for (uint64_t e = 0; e < raw->n_edges; e++) {
        put_float(text, weights[e]);
        put_char(text, '\n');
    }
}

static void put_unknown(struct text *text)
{
    put_char(text, 'n');
    put_char(text, 'a');
    put_char(text, 'n');
}

/* The name of a class, quoted if it has commas, quotes or blanks around it. */
static void put_name(struct text *text, const char *names, int32_t class)
{
    for (; class > 0; class --) {
        names = strchr(names, '\n') + 1;
    }
    const size_t n = strcspn(names, "\n");
    const bool quoted =
        memchr(names, ',', n) != NULL || memchr(names, '"', n) != NULL || names[0] == ' ' || names[n - 1] == ' ';
    if (quoted) {
        put_char(text, '"');
    }
    for (size_t i = 0; i < n; i++) {
        if (names[i] == '"') {
            put_char(text, '"');
        }
        put_char(text, names[i]);
    }
    if (quoted) {
        put_char(text, '"');
    }
}

static void put_targets(struct text *text, const struct sl_raw *raw)
{
    const struct sl_targets *t = &raw->targets;
    for (uint64_t i = 0; i < (uint64_t)t->n_rows * t->width; i++) {
        if (t->type == SL_TARGET_CLASS && t->classes[i] >= 0 && raw->class_names != NULL) {
            put_name(text, raw->class_names, t->classes[i]);
        } else if (t->type == SL_TARGET_CLASS && t->classes[i] >= 0) {
            put_digits(text, (uint64_t)t->classes[i]);
        } else if (t->type == SL_TARGET_NUMBER && !isnan(t->numbers[i])) {
            put_float(text, t->numbers[i]);
        } else {
            put_unknown(text);
        }
        put_char(text, (i + 1) % t->width == 0 ? '\n' : ',');
    }
}

/* One row of a CSR table, with its zeros. */
static void put_sparse_row(struct text *text, const struct sl_features *features, uint64_t row)
{
    uint64_t k = features->offsets[row];
    for (uint32_t c = 0; c < features->n_columns; c++) {
        if (k < features->offsets[row + 1] && features->columns[k] == c) {
            put_float(text, features->values[k++]);
        } else {
            put_char(text, '0');
        }
        put_char(text, c + 1 < features->n_columns ? ',' : '\n');
    }
}

static void put_dense_row(struct text *text, const struct sl_features *features, uint64_t row)
{
    float number;
    for (uint32_t c = 0; c < features->n_columns; c++) {
        put_float(text, *sl_column_floats(&features->dense, row * features->n_columns + c, 1, &number));
        put_char(text, c + 1 < features->n_columns ? ',' : '\n');
    }
}

static void put_features(struct text *text, const struct sl_raw *raw)
{
    const struct sl_features *features = &raw->features;
    for (uint64_t row = 0; row < features->n_rows; row++) {
        if (features->dense.data != NULL) {
            put_dense_row(text, features, row);
        } else {
            put_sparse_row(text, features, row);
        }
    }
}

static void put_ids(struct text *text, const struct sl_ids *ids)
{
    for (uint32_t i = 0; i < ids->n; i++) {
        put_count(text, ids->ids[i]);
    }
}

/* ---- The layout of typed datasets -------------------------------------------------------------------------------- */

/* A typed dataset being written. */
struct typed_text {
    const struct sl_raw *raw;
    const struct sl_recipe *recipe;
    const char *folder;
    uint32_t own; /* id of the first vertex of the recipe's own type */
    struct text *text;
};

static void put_word(struct text *text, const char *word, char end)
{
    for (; *word != '\0'; word++) {
        put_char(text, *word);
    }
    put_char(text, end);
}

static const char *type_name(const struct sl_recipe *recipe, uint32_t t)
{
    return t < recipe->n_types ? recipe->other[t].name : recipe->type;
}

static uint32_t type_first(const struct sl_recipe *recipe, uint32_t type)
{
    uint32_t first = 0;
    for (uint32_t t = 0; t < type; t++) {
        first += recipe->other[t].n;
    }
    return first;
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

static enum sl_status write_types(const struct typed_text *t)
{
    const struct sl_recipe *recipe = t->recipe;
    SL_CHECK(open_text(t->folder, "raw/num-node-dict.csv.gz", t->text));
    for (uint32_t i = 0; i <= recipe->n_types; i++) {
        put_word(t->text, type_name(recipe, i), i < recipe->n_types ? ',' : '\n');
    }
    for (uint32_t i = 0; i < recipe->n_types; i++) {
        put_digits(t->text, recipe->other[i].n);
        put_char(t->text, ',');
    }
    put_count(t->text, recipe->n_vertices);
    SL_CHECK(close_text(t->text));
    SL_CHECK(open_text(t->folder, "raw/triplet-type-list.csv.gz", t->text));
    for (uint32_t r = 0; r <= recipe->n_relations; r++) {
        const struct sl_recipe_relation relation = relation_of(recipe, r);
        put_word(t->text, type_name(recipe, relation.source), ',');
        put_word(t->text, relation.name, ',');
        put_word(t->text, type_name(recipe, relation.destination), '\n');
    }
    return close_text(t->text);
}

/* The edges of relation r, from edge `first` of the list. */
static enum sl_status write_relation(const struct typed_text *t, uint32_t r, uint64_t first)
{
    const struct sl_recipe_relation relation = relation_of(t->recipe, r);
    const uint32_t source = type_first(t->recipe, relation.source);
    const uint32_t destination = type_first(t->recipe, relation.destination);
    char name[160];
    snprintf(name, sizeof name, "raw/relations/%s___%s___%s/edge.csv.gz", type_name(t->recipe, relation.source),
             relation.name, type_name(t->recipe, relation.destination));
    SL_CHECK(open_text(t->folder, name, t->text));
    for (uint64_t e = first; e < first + relation.n_edges; e++) {
        put_digits(t->text, t->raw->from[e] - source);
        put_char(t->text, ',');
        put_count(t->text, t->raw->to[e] - destination);
    }
    return close_text(t->text);
}

/* The own columns of one vertex, with their zeros. */
static void put_own_row(const struct typed_text *t, uint32_t v)
{
    const struct sl_features *features = &t->raw->features;
    const float *dense = sl_features_floats(features);
    uint64_t k = dense == NULL ? features->offsets[v] : 0;
    for (uint32_t c = t->own; c < features->n_columns; c++) {
        if (dense != NULL) {
            put_float(t->text, dense[(size_t)v * features->n_columns + c]);
        } else if (k < features->offsets[v + 1] && features->columns[k] == c) {
            put_float(t->text, features->values[k++]);
        } else {
            put_char(t->text, '0');
        }
        put_char(t->text, c + 1 < features->n_columns ? ',' : '\n');
    }
}

static enum sl_status write_own(const struct typed_text *t)
{
    char name[160];
    snprintf(name, sizeof name, "raw/node-label/%s/node-label.csv.gz", t->recipe->type);
    SL_CHECK(open_text(t->folder, name, t->text));
    for (uint32_t v = t->own; v < t->raw->n_vertices; v++) {
        put_count(t->text, (uint64_t)t->raw->targets.classes[v]);
    }
    SL_CHECK(close_text(t->text));
    snprintf(name, sizeof name, "raw/node-feat/%s/node-feat.csv.gz", t->recipe->type);
    SL_CHECK(open_text(t->folder, name, t->text));
    for (uint32_t v = t->own; v < t->raw->n_vertices; v++) {
        put_own_row(t, v);
    }
    return close_text(t->text);
}

static enum sl_status write_own_split(const struct typed_text *t)
{
    static const char *const names[] = {"train", "valid", "test"};
    const struct sl_ids *lists[] = {&t->raw->train, &t->raw->valid, &t->raw->test};
    enum sl_status st = SL_OK;
    for (int i = 0; i < 3 && st == SL_OK; i++) {
        char name[160];
        snprintf(name, sizeof name, "split/%s/%s/%s.csv.gz", t->raw->split, t->recipe->type, names[i]);
        SL_CHECK(open_text(t->folder, name, t->text));
        for (uint32_t k = 0; k < lists[i]->n; k++) {
            put_count(t->text, lists[i]->ids[k] - t->own);
        }
        st = close_text(t->text);
    }
    return st;
}

static enum sl_status write_typed(const struct typed_text *t)
{
    uint64_t first = 0;
    SL_CHECK(write_types(t));
    for (uint32_t r = 0; r <= t->recipe->n_relations; r++) {
        SL_CHECK(write_relation(t, r, first));
        first += relation_of(t->recipe, r).n_edges;
    }
    SL_CHECK(write_own(t));
    return write_own_split(t);
}

/* ---- The layout -------------------------------------------------------------------------------------------------- */

static enum sl_status write_count(const char *folder, const char *name, uint64_t count, struct text *text)
{
    SL_CHECK(open_text(folder, name, text));
    put_count(text, count);
    return close_text(text);
}

static enum sl_status write_table(const char *folder, const char *name, const struct sl_raw *raw,
                                  void (*put)(struct text *text, const struct sl_raw *raw), struct text *text)
{
    SL_CHECK(open_text(folder, name, text));
    put(text, raw);
    return close_text(text);
}

static enum sl_status write_split(const char *folder, const struct sl_raw *raw, struct text *text)
{
    static const char *const names[] = {"train", "valid", "test"};
    const struct sl_ids *lists[] = {&raw->train, &raw->valid, &raw->test};
    for (int i = 0; i < 3; i++) {
        char name[128];
        snprintf(name, sizeof name, "split/%s/%s.csv.gz", raw->split, names[i]);
        SL_CHECK(open_text(folder, name, text));
        put_ids(text, lists[i]);
        SL_CHECK(close_text(text));
    }
    return SL_OK;
}

static enum sl_status write_all(const struct sl_raw *raw, const char *folder, struct text *text)
{
    SL_CHECK(write_count(folder, "raw/num-node-list.csv.gz", raw->n_vertices, text));
    SL_CHECK(write_count(folder, "raw/num-edge-list.csv.gz", raw->n_edges, text));
    SL_CHECK(write_table(folder, "raw/edge.csv.gz", raw, put_edges, text));
    if (raw->weights.data != NULL) {
        SL_CHECK(write_table(folder, "raw/edge-weight.csv.gz", raw, put_weights, text));
    }
    if (raw->targets.data != NULL) {
        SL_CHECK(write_table(folder, "raw/node-label.csv.gz", raw, put_targets, text));
    }
    if (raw->features.n_columns > 0) {
        SL_CHECK(write_table(folder, "raw/node-feat.csv.gz", raw, put_features, text));
    }
    if (raw->split[0] != '\0') {
        SL_CHECK(write_split(folder, raw, text));
    }
    return SL_OK;
}

/* recipe NULL: a dataset of one type. */
static enum sl_status write_plainly(const struct sl_raw *raw, const struct sl_recipe *recipe, const char *folder)
{
    SL_IN_C_LOCALE;
    struct text *text;
    enum sl_status st = SL_OK;
    SL_CHECK(sl_alloc(1, sizeof *text, "a text buffer", &text));
    if (recipe == NULL) {
        st = write_all(raw, folder, text);
    } else {
        const struct typed_text typed = {raw, recipe, folder, type_first(recipe, recipe->n_types), text};
        st = write_typed(&typed);
    }
    sl_free(text);
    return st;
}

enum sl_status sl_raw_write(const struct sl_raw *raw, const char *folder)
{
    return write_plainly(raw, NULL, folder);
}

enum sl_status sl_recipe_write(const struct sl_recipe *recipe, const struct sl_raw *raw, const char *folder)
{
    return write_plainly(raw, recipe->n_types > 0 ? recipe : NULL, folder);
}

enum sl_status sl_raw_write_dataset(const struct sl_dataset *dataset, bool directed, const char *folder)
{
    return sl_raw_write_dataset_by(sl_raw_write, dataset, directed, folder);
}

enum sl_status sl_raw_write_dataset_by(enum sl_status (*write)(const struct sl_raw *raw, const char *path),
                                       const struct sl_dataset *dataset, bool directed, const char *path)
{
    struct sl_raw raw = {.n_vertices = dataset->graph.n_vertices,
                         .features = dataset->features,
                         .targets = dataset->targets,
                         .train = dataset->train,
                         .valid = dataset->valid,
                         .test = dataset->test,
                         .class_names = dataset->class_names};
    memcpy(raw.split, dataset->split, sizeof raw.split);
    const struct sl_graph *graph = &dataset->graph;
    bool once = !directed;
    float *weights = NULL;
    enum sl_status st = SL_OK;
    if (graph->n_relations > 0) {
        return sl_fail(SL_EINVAL,
                       "%s: found a typed dataset, which can be converted to a binary copy only (--to cache)", path);
    }
    if (once && graph->weights.data != NULL) {
        /* If the weights of two directions differ, the list has both. */
        SL_TRY(st, sl_graph_is_symmetric(graph, &once), done);
    }
    SL_TRY(st, sl_graph_list_edges(graph, once, &raw.n_edges, &raw.from, &raw.to), done);
    if (graph->weights.data != NULL) {
        SL_TRY(st, sl_graph_list_weights(graph, once, &weights), free_edges);
        raw.weights = sl_column_take(SL_DTYPE_F32, raw.n_edges, 1, weights);
    }
    st = write(&raw, path);
    sl_free(weights);
free_edges:
    sl_free(raw.from);
    sl_free(raw.to);
done:
    return st;
}
