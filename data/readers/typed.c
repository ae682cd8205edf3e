/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of typed datasets: folders in OGB's layout of heterogeneous graphs.
 *
 *   raw/num-node-dict.csv.gz                       a line of type names, a line of their numbers of vertices
 *   raw/triplet-type-list.csv.gz                   one relation a line: source type, name, destination type
 *   raw/relations/SOURCE___NAME___DESTINATION/edge.csv.gz    source,destination; ids from 0 within each type
 *   raw/relations/SOURCE___NAME___DESTINATION/edge-weight.csv.gz    their weights, a line each; optional
 *   raw/relations/SOURCE___NAME___DESTINATION/edge-feat.csv.gz      their features; read if wanted: of all relations
 *   raw/relations/SOURCE___NAME___DESTINATION/num-edge-list.csv.gz  their number; optional
 *   raw/node-feat/TYPE/node-feat.csv.gz            features of a type's vertices; a type may have none
 *   raw/nodetype-has-feat.csv.gz, nodetype-has-label.csv.gz  a line of type names, a line of True and False; optional
 *   raw/node-label/TYPE/node-label.csv.gz          labels of one type
 *   split/NAME/TYPE/train.csv.gz, valid.csv.gz, test.csv.gz  ids within this type
 *
 * Each file may be a `.csv` file; edges, weights, features, labels and ids may be arrays (.npy). Vertices of a type
 * have consecutive ids, types in the order of num-node-dict. Relation r is line r of triplet-type-list. The relation's
 * edges have the number r, their reverses R + r. If a relation has weights, the edges of relations without have weight
 * 1.
 *
 * For --objective link the split lists triples: split/NAME/train.csv.gz, valid.csv.gz and test.csv.gz, perhaps
 * valid_neg.csv.gz and test_neg.csv.gz (data/links.h). Labels are not read. A training link that is an edge of raw/ has
 * the weight of that edge, any other the weight 1.
 *
 * Features. If all types have features of one width, types share the columns. Else each type with features has columns
 * of its own, and each vertex of a type without features has one column, which is 1. A first layer's matrix then has,
 * in the rows of these columns, a projection for each type and a trained vector for each vertex without features. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/line_reader.h"
#include "data/links.h"
#include "data/made_features.h"
#include "data/reader.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/number.h"

#define MAX_TYPES 4096
#define MAX_NAME 200

/* ---- Lines of small tables --------------------------------------------------------------------------------------- */

/* The lines of a table, as strings. */
struct table {
    struct sl_text text;
    uint64_t n;  /* without blank lines at the end */
    char **line; /* most + 1; NULL behind the last */
};

static void free_table(struct table *table)
{
    sl_lines_free(&table->text);
    sl_free(table->line);
}

/* Read a table of `most` lines or fewer. The caller frees *out, also on failure. SL_EFILE: a line has a byte 0, as
 * UTF-16 has. */
static enum sl_status read_table(const char *path, uint64_t most, struct table *out)
{
    const char *start;
    const char *stop;
    SL_CHECK(sl_lines_read_text(path, false, &out->text));
    SL_CHECK(sl_alloc_zero(most + 1, sizeof *out->line, "lines of a table", &out->line));
    for (uint64_t i = 0; sl_text_next(&out->text, &start, &stop); i++) {
        if (memchr(start, '\0', (size_t)(stop - start)) != NULL) {
            return sl_text_refuse(&out->text, "text in UTF-8, found a byte 0");
        }
        if (sl_text_skip_blanks(start, stop) < stop) {
            out->n = i + 1;
        }
        SL_FAIL_IF(out->n > most, SL_EFILE, "%s:%llu: expected %llu lines, found more", path,
                   (unsigned long long)out->n, (unsigned long long)most);
        if (i < most) {
            out->line[i] = (char *)(uintptr_t)start;
            out->line[i][stop - start] = '\0';
        }
    }
    return SL_OK;
}

/* The next cell of a line, without blanks around it. *rest is NULL after the last. */
static char *next_cell(char **rest)
{
    char *cell = strsep(rest, ",");
    cell += strspn(cell, " \t");
    for (size_t n = strlen(cell); n > 0 && sl_text_is_blank(cell[n - 1]); n--) {
        cell[n - 1] = '\0';
    }
    return cell;
}

/* ---- The types and relations ------------------------------------------------------------------------------------- */

/* The tables of a relation, and those of a type, by the names of their files. */
enum { EDGES, WEIGHTS, COUNT, EDGE_FEATURES, N_OF_RELATION };
enum { FEATURES, LABELS, N_OF_TYPE };
static const char *const relation_tables[N_OF_RELATION] = {"edge", "edge-weight", "num-edge-list", "edge-feat"};
static const char *const type_tables[N_OF_TYPE] = {"node-feat", "node-label"};

struct type {
    char name[MAX_NAME];
    uint32_t n, first;       /* vertices, and the id of the first */
    char *tables[N_OF_TYPE]; /* paths; NULL: none */
};

struct relation {
    char *name;                  /* "SOURCE,NAME,DESTINATION" and an end of line */
    uint32_t ends[2];            /* the types of the source and of the destination */
    char *tables[N_OF_RELATION]; /* paths; NULL: none */
    struct sl_raw edges;         /* until those of all relations are joined */
};

struct typed {
    uint32_t n_types, n_relations;
    struct type *types;
    struct relation *relations;
    struct sl_features *features; /* by type, when they are read; empty: none */
    uint32_t n_vertices;
    bool reads_edge_features; /* a relation has some, and they are wanted */
};

static void free_typed(struct typed *typed)
{
    for (uint32_t t = 0; typed->features != NULL && t < typed->n_types; t++) {
        sl_features_free(&typed->features[t]);
    }
    for (uint32_t t = 0; typed->types != NULL && t < typed->n_types; t++) {
        for (int i = 0; i < N_OF_TYPE; i++) {
            sl_free(typed->types[t].tables[i]);
        }
    }
    for (uint32_t r = 0; typed->relations != NULL && r < typed->n_relations; r++) {
        sl_free(typed->relations[r].name);
        sl_raw_free(&typed->relations[r].edges);
        for (int i = 0; i < N_OF_RELATION; i++) {
            sl_free(typed->relations[r].tables[i]);
        }
    }
    sl_free(typed->features);
    sl_free(typed->types);
    sl_free(typed->relations);
}

static const char *const endings[] = {".csv.gz", ".csv"}; /* of small tables */
#define N_ENDINGS 2

/* The small table STEM.csv.gz or STEM.csv in a folder. *out: NULL if there is none. Errors as sl_raw_find_file. */
static enum sl_status find_table(const char *folder, const char *stem, char **out)
{
    return sl_raw_find_file(folder, stem, N_ENDINGS, endings, out);
}

static enum sl_status need_table(const char *folder, const char *stem, char **out)
{
    SL_CHECK(find_table(folder, stem, out));
    SL_FAIL_IF(*out == NULL, SL_EFILE, "%s: expected a file %s.csv.gz (or .csv), found none", folder, stem);
    return SL_OK;
}

static bool type_of(const struct typed *typed, const char *name, uint32_t *out)
{
    for (uint32_t t = 0; t < typed->n_types; t++) {
        if (strcmp(typed->types[t].name, name) == 0) {
            *out = t;
            return true;
        }
    }
    return false;
}

/* Read a line of names of types and a line with a cell for each, and call `body` for each type. what: the cells, for
 * messages. column: of marks, the table that they are about. */
static enum sl_status read_pairs(const char *path, const char *what, int column, struct typed *typed,
                                 enum sl_status (*body)(const char *path, const char *name, const char *cell,
                                                        int column, struct typed *typed))
{
    SL_OWNED(free_table) struct table table = {0};
    SL_CHECK(read_table(path, 2, &table));
    char *names = table.line[0];
    char *cells = table.line[1];
    while (names != NULL && cells != NULL) {
        const char *name = next_cell(&names);
        SL_CHECK(body(path, name, next_cell(&cells), column, typed));
    }
    SL_FAIL_IF(names != NULL, SL_EFILE, "%s: expected as many %s as types, found fewer", path, what);
    SL_FAIL_IF(cells != NULL, SL_EFILE, "%s: expected as many %s as types, found more", path, what);
    return SL_OK;
}

/* Add a type, from its name and the text of its number of vertices. */
static enum sl_status add_type(const char *path, const char *name, const char *count, int column, struct typed *typed)
{
    const char *end = count + strlen(count);
    uint32_t other;
    uint64_t n = 0;
    (void)column;
    SL_FAIL_IF(sl_number_whole(count, end, &n) != end || n >= SL_NONE, SL_EFILE,
               "%s:2: type '%s': expected a number of vertices below %u, found '%.60s'", path, name, SL_NONE, count);
    if (name[0] == '\0' || strchr(name, '/') != NULL || strlen(name) >= MAX_NAME || type_of(typed, name, &other)) {
        return sl_fail(SL_EFILE, "%s:1: found '%.60s', expected distinct names of types, without '/'", path, name);
    }
    SL_FAIL_IF(typed->n_types == MAX_TYPES || typed->n_vertices + n >= SL_NONE, SL_EFILE,
               "%s: expected at most %d types and %u vertices", path, MAX_TYPES, SL_NONE - 1);
    struct type *type = &typed->types[typed->n_types++];
    *type = (struct type){.n = (uint32_t)n, .first = typed->n_vertices};
    snprintf(type->name, sizeof type->name, "%s", name);
    typed->n_vertices += type->n;
    return SL_OK;
}

static enum sl_status read_types(const char *path, struct typed *typed)
{
    SL_CHECK(sl_alloc_zero(MAX_TYPES, sizeof *typed->types, "types", &typed->types));
    SL_CHECK(read_pairs(path, "numbers", 0, typed, add_type));
    SL_FAIL_IF(typed->n_vertices == 0, SL_EFILE, "%s:2: found no vertices, expected a type that has some", path);
    return SL_OK;
}

/* Read line `r` of the relations, and find the relation's edges. */
static enum sl_status read_relation(const char *folder, const struct table *table, uint32_t r, struct typed *typed)
{
    struct relation *relation = &typed->relations[r];
    char *rest = table->line[r];
    const char *field[3];
    char stem[3 * MAX_NAME + 64];
    for (int i = 0; i < 3; i++) {
        field[i] = "";
        if (rest != NULL) {
            field[i] = next_cell(&rest);
        }
    }
    SL_FAIL_IF(rest != NULL || field[2][0] == '\0', SL_EFILE,
               "%s:%u: expected a source type, a name and a destination type, separated by commas", table->text.path,
               r + 1);
    for (int i = 0; i < 3; i += 2) {
        SL_FAIL_IF(!type_of(typed, field[i], &relation->ends[i / 2]), SL_EFILE,
                   "%s:%u: found type '%.60s', expected a type of raw/num-node-dict", table->text.path, r + 1,
                   field[i]);
    }
    SL_FAIL_IF(strchr(field[1], '/') != NULL || strlen(field[1]) >= MAX_NAME, SL_EFILE,
               "%s:%u: found '%.60s', expected the name of a relation, without '/'", table->text.path, r + 1, field[1]);
    SL_CHECK(sl_format(&relation->name, "%s,%s,%s\n", field[0], field[1], field[2]));
    for (int i = 0; i < N_OF_RELATION; i++) {
        snprintf(stem, sizeof stem, "raw/relations/%s___%s___%s/%s", field[0], field[1], field[2], relation_tables[i]);
        SL_CHECK(sl_raw_find_table(folder, stem, i == EDGES, &relation->tables[i]));
    }
    return SL_OK;
}

/* Refuse relation r if it is listed before. */
static enum sl_status refuse_twice(const char *path, uint32_t r, const struct relation *relations)
{
    for (uint32_t i = 0; i < r; i++) {
        SL_FAIL_IF(strcmp(relations[i].name, relations[r].name) == 0, SL_EFILE,
                   "%.300s:%u: the relation is there twice, also in line %u; expected one of them", path, r + 1, i + 1);
    }
    return SL_OK;
}

static enum sl_status read_relations(const char *folder, const char *path, struct typed *typed)
{
    SL_OWNED(free_table) struct table table = {0};
    SL_CHECK(read_table(path, SL_MAX_RELATIONS, &table));
    SL_FAIL_IF(table.n == 0, SL_EFILE, "%s: expected one relation a line, found none", path);
    typed->n_relations = (uint32_t)table.n;
    SL_CHECK(sl_alloc_zero(table.n, sizeof *typed->relations, "relations", &typed->relations));
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        SL_CHECK(read_relation(folder, &table, r, typed));
        SL_CHECK(refuse_twice(path, r, typed->relations));
    }
    return SL_OK;
}

/* Find the features and labels of a type. */
static enum sl_status find_columns(const char *folder, struct type *type)
{
    char stem[2 * MAX_NAME];
    for (int i = 0; i < N_OF_TYPE; i++) {
        snprintf(stem, sizeof stem, "raw/%s/%s/%s", type_tables[i], type->name, type_tables[i]);
        SL_CHECK(sl_raw_find_table(folder, stem, false, &type->tables[i]));
    }
    return SL_OK;
}

/* A type has the table that its mark says it has. */
static enum sl_status check_mark(const char *path, const char *name, const char *mark, int column, struct typed *typed)
{
    const char *table = type_tables[column];
    const bool wanted = strcmp(mark, "True") == 0;
    uint32_t t;
    SL_FAIL_IF(!type_of(typed, name, &t), SL_EFILE, "%s:1: found type '%.60s', expected a type of raw/num-node-dict",
               path, name);
    const bool found = typed->types[t].tables[column] != NULL;
    SL_FAIL_IF(!wanted && strcmp(mark, "False") != 0, SL_EFILE,
               "%s:2: type '%s': expected True or False, found '%.60s'", path, name, mark);
    SL_FAIL_IF(wanted && !found, SL_EFILE,
               "%s: type '%s' has True, expected a file raw/%s/%s/%s.csv.gz (or .csv, .npy), found none", path, name,
               table, name, table);
    SL_FAIL_IF(!wanted && found, SL_EFILE, "%s: type '%s' has False, expected no file, found one in raw/%s/%s", path,
               name, table, name);
    return SL_OK;
}

/* Compare what a file of marks says with the tables there are; nothing to compare without the file. */
static enum sl_status check_marks(const char *folder, const char *stem, int column, struct typed *typed)
{
    SL_FREED char *path = NULL;
    SL_CHECK(find_table(folder, stem, &path));
    if (path == NULL) {
        return SL_OK;
    }
    return read_pairs(path, "marks", column, typed, check_mark);
}

/* The folder of a path to raw/FILE. */
static enum sl_status folder_of(const char *path, char **out)
{
    const char *end = strrchr(path, '/');
    const char *start = end - strlen("/raw");
    return sl_format(out, "%.*s", (int)(start - path), path);
}

/* Read the types and relations, and find their tables. The caller frees *out, also on failure. */
static enum sl_status open_typed(const struct sl_raw_files *files, struct typed *out)
{
    const char *relations = files->paths[SL_RAW_EDGES];
    SL_FREED char *folder = NULL;
    SL_CHECK(folder_of(relations, &folder));
    SL_CHECK(read_types(files->paths[SL_RAW_NODE_COUNT], out));
    SL_CHECK(read_relations(folder, relations, out));
    for (uint32_t t = 0; t < out->n_types; t++) {
        SL_CHECK(find_columns(folder, &out->types[t]));
    }
    SL_CHECK(check_marks(folder, "raw/nodetype-has-feat", FEATURES, out));
    return check_marks(folder, "raw/nodetype-has-label", LABELS, out);
}

/* The type that has labels. NULL: none. SL_EFILE: several. */
static enum sl_status find_target(const char *path, const struct typed *typed, const struct type **out)
{
    *out = NULL;
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const struct type *type = &typed->types[t];
        if (type->tables[LABELS] != NULL) {
            SL_FAIL_IF(*out != NULL, SL_EFILE, "%s: types '%s' and '%s' have labels, expected one type with labels",
                       path, (*out)->name, type->name);
            *out = type;
        }
    }
    return SL_OK;
}

/* ---- Finding ----------------------------------------------------------------------------------------------------- */

static bool recognise(const char *path)
{
    return sl_raw_has_file(path, "raw/triplet-type-list", N_ENDINGS, endings);
}

/* Note tables, so that the binary copy is made anew if one of them changes. */
static enum sl_status note_tables(char *const *tables, int n, struct sl_raw_files *files)
{
    for (int i = 0; i < n; i++) {
        if (tables[i] != NULL) {
            SL_CHECK(sl_strdup(tables[i], &files->more[files->n_more]));
            files->n_more++;
        }
    }
    return SL_OK;
}

static enum sl_status note_all(const struct typed *typed, struct sl_raw_files *files)
{
    const int n_tables = files->edge_features ? N_OF_RELATION : EDGE_FEATURES; /* the last is read if it is wanted */
    const size_t most = N_OF_RELATION * (size_t)typed->n_relations + N_OF_TYPE * (size_t)typed->n_types;
    SL_CHECK(sl_alloc_zero(most, sizeof *files->more, "names of tables", &files->more));
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        SL_CHECK(note_tables(typed->relations[r].tables, n_tables, files));
    }
    for (uint32_t t = 0; t < typed->n_types; t++) {
        SL_CHECK(note_tables(typed->types[t].tables, N_OF_TYPE, files));
    }
    return SL_OK;
}

/* Note the entries of a folder that are no types. */
static void note_other_types(const char *folder, const char *table, const struct typed *typed,
                             struct sl_raw_files *files)
{
    char path[4096];
    uint32_t type;
    DIR *dir = NULL;
    snprintf(path, sizeof path, "%s/raw/%s", folder, table);
    for (const char *name; (name = sl_folder_next(path, &dir)) != NULL;) {
        if (!type_of(typed, name, &type)) {
            sl_raw_note_unused(files, "%.280s/%.100s", path, name);
        }
    }
}

/* Note tables of the relations and types that are not read. */
static void note_unused(const char *folder, const struct typed *typed, struct sl_raw_files *files)
{
    static const char *const edge_tables[] = {SL_RAW_EDGE_TABLES, "num-node", NULL};
    static const char *const plain[] = {"edge", "node-feat", "node-label", "num-edge", "num-node-list", NULL};
    static const char *const all[] = {"", NULL};
    sl_raw_note_others(files, plain, "%s/raw", folder);
    sl_raw_note_others(files, all, "%s/raw/relations", folder);
    for (int i = 0; i < N_OF_TYPE; i++) {
        for (uint32_t t = 0; t < typed->n_types; t++) {
            sl_raw_note_others(files, all, "%s/raw/%s/%s", folder, type_tables[i], typed->types[t].name);
        }
        note_other_types(folder, type_tables[i], typed, files);
    }
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        const char *edges = typed->relations[r].tables[EDGES];
        sl_raw_note_others(files, edge_tables, "%.*s", (int)(strrchr(edges, '/') - edges), edges);
    }
}

/* Note the lists of a split that are not of the type with labels, or have other names. */
static void note_other_lists(const char *folder, const char *type, struct sl_raw_files *files)
{
    static const char *const words[] = {"train", "val", "test", NULL};
    static const char *const all[] = {"", NULL};
    sl_raw_note_others(files, all, "%s/split/%s", folder, files->split);
    sl_raw_note_others(files, words, "%s/split/%s/%s", folder, files->split, type);
}

/* Find the lists of the type with labels, `target`, or of links. */
static enum sl_status find_split(const struct sl_dataset_options *request, const struct type *target,
                                 struct sl_raw_files *files)
{
    char type[MAX_NAME + 1];
    if (target == NULL) {
        return sl_raw_find_split(request, NULL, files);
    }
    snprintf(type, sizeof type, "%s/", target->name);
    SL_CHECK(sl_raw_find_split(request, type, files));
    if (files->split[0] != '\0') {
        note_other_lists(request->dataset, target->name, files);
    }
    return SL_OK;
}

static enum sl_status find(const struct sl_dataset_options *request, struct sl_raw_files *out)
{
    SL_OWNED(sl_raw_files_free)
    struct sl_raw_files found = {
        .need = request->need, .targets = request->targets, .edge_features = request->edge_features};
    SL_OWNED(free_typed) struct typed typed = {0};
    const struct type *target = NULL;
    struct sl_made_features made;
    *out = (struct sl_raw_files){0};
    SL_CHECK(sl_reader_refuse_two(request->dataset));
    SL_CHECK(sl_made_features_parse(request->features, &made));
    found.no_features = made.kind != SL_MADE_NOT;
    SL_FAIL_IF(request->features != NULL && !found.no_features, SL_EINVAL,
               "%.300s: --features: found '%.100s', expected " SL_FEATURE_WORDS " with a typed dataset",
               request->dataset, request->features);
    SL_CHECK(need_table(request->dataset, "raw/triplet-type-list", &found.paths[SL_RAW_EDGES]));
    SL_CHECK(need_table(request->dataset, "raw/num-node-dict", &found.paths[SL_RAW_NODE_COUNT]));
    SL_CHECK(open_typed(&found, &typed));
    if (request->need == SL_RAW_FOR_PAIRS) {
        SL_FREED char *links = NULL;
        SL_CHECK(sl_raw_find_train(request, &links));
        found.need = links != NULL ? SL_RAW_FOR_LINKS : SL_RAW_FOR_INFERENCE;
        found.may_lack_links = true;
    }
    if (found.need != SL_RAW_FOR_LINKS) {
        SL_CHECK(find_target(request->dataset, &typed, &target));
    }
    SL_FAIL_IF(target == NULL && request->need == SL_RAW_FOR_TRAINING, SL_EFILE,
               "%.300s: expected a file raw/node-label/TYPE/node-label.csv.gz (or .csv, .npy), found none",
               request->dataset);
    SL_CHECK(note_all(&typed, &found));
    note_unused(request->dataset, &typed, &found);
    SL_CHECK(find_split(request, target, &found));
    *out = SL_TAKE(found);
    return SL_OK;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

/* Change ids within a type to ids of the whole graph. */
static enum sl_status place_ends(const char *path, const struct type *type, uint64_t n, sl_vertex *ids)
{
    for (uint64_t i = 0; i < n; i++) {
        SL_FAIL_IF(ids[i] >= type->n, SL_EFILE, "%s:%llu: expected an id of type '%s', below %u, found %u", path,
                   (unsigned long long)i + 1, type->name, type->n, ids[i]);
        ids[i] += type->first;
    }
    return SL_OK;
}

static enum sl_status read_edges(const struct typed *typed, struct relation *relation)
{
    const char *path = relation->tables[EDGES];
    struct sl_raw *out = &relation->edges;
    out->n_vertices = typed->n_vertices;
    SL_CHECK(sl_raw_read_edges(path, relation->tables[COUNT], &out->n_vertices, &out->n_edges, &out->from, &out->to));
    SL_CHECK(place_ends(path, &typed->types[relation->ends[0]], out->n_edges, out->from));
    return place_ends(path, &typed->types[relation->ends[1]], out->n_edges, out->to);
}

/* The weights of a relation's edges. path NULL: 1. */
static enum sl_status read_weights(const char *path, uint64_t n, float *out)
{
    SL_FREED float *weights = NULL;
    if (path == NULL) {
        for (uint64_t i = 0; i < n; i++) {
            out[i] = 1;
        }
        return SL_OK;
    }
    SL_CHECK(sl_raw_read_weights(path, n, &weights));
    memcpy(out, weights, n * sizeof *out);
    return SL_OK;
}

/* Make room for weights if a relation has some. */
static enum sl_status make_weights(const struct typed *typed, struct sl_raw *raw)
{
    bool weighted = false;
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        weighted |= typed->relations[r].tables[WEIGHTS] != NULL;
    }
    return weighted ? sl_alloc(raw->n_edges, sizeof *raw->weights, "edge weights", &raw->weights) : SL_OK;
}

static enum sl_status read_edge_features(const struct relation *relation, uint64_t first, uint64_t n,
                                         struct sl_raw *raw)
{
    const char *path = relation->tables[EDGE_FEATURES];
    SL_FAIL_IF(path == NULL, SL_EFILE,
               "%.300s: expected a table edge-feat beside it, as other relations have, found none; give all relations "
               "features of the edges, or leave out --edge-features",
               relation->tables[EDGES]);
    return sl_raw_read_edge_features(path, first, n, raw->n_edges, &raw->data.edge_features);
}

/* Put the edges of all relations one after another, and release them. */
static enum sl_status join_edges(const struct typed *typed, struct sl_raw *raw)
{
    uint64_t first = 0;
    SL_CHECK(sl_alloc(raw->n_edges, sizeof *raw->from, "graph edges", &raw->from));
    SL_CHECK(sl_alloc(raw->n_edges, sizeof *raw->to, "graph edges", &raw->to));
    SL_CHECK(sl_alloc(raw->n_edges, sizeof *raw->relations, "relations of edges", &raw->relations));
    SL_CHECK(make_weights(typed, raw));
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        struct sl_raw *own = &typed->relations[r].edges;
        const uint64_t n = own->n_edges;
        memcpy(raw->from + first, own->from, n * sizeof *raw->from);
        memcpy(raw->to + first, own->to, n * sizeof *raw->to);
        sl_raw_free(own);
        if (raw->weights != NULL) {
            SL_CHECK(read_weights(typed->relations[r].tables[WEIGHTS], n, raw->weights + first));
        }
        if (typed->reads_edge_features) {
            SL_CHECK(read_edge_features(&typed->relations[r], first, n, raw));
        }
        for (const uint64_t end = first + n; first < end; first++) {
            raw->relations[first] = (uint16_t)r;
        }
    }
    return SL_OK;
}

static enum sl_status check_sizes(const struct sl_raw_files *files, const struct typed *typed)
{
    struct sl_raw_sizes sizes = {.n_vertices = typed->n_vertices, .n_relations = typed->n_relations};
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        char *const *tables = typed->relations[r].tables;
        SL_CHECK(sl_raw_count_edges(tables[EDGES], tables[COUNT], &sizes));
    }
    for (uint32_t t = 0; t < typed->n_types && !files->no_features; t++) {
        const char *features = typed->types[t].tables[FEATURES];
        SL_CHECK(features != NULL ? sl_raw_count_features(features, &sizes) : SL_OK);
    }
    return sl_raw_check_sizes(files, files->paths[SL_RAW_EDGES], &sizes);
}

static enum sl_status read_graph(const struct typed *typed, struct sl_raw *raw)
{
    raw->n_vertices = typed->n_vertices;
    raw->n_relations = typed->n_relations;
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        SL_CHECK(read_edges(typed, &typed->relations[r]));
        raw->n_edges += typed->relations[r].edges.n_edges;
    }
    return join_edges(typed, raw);
}

/* Keep the edges of relations without training links, in their order. trained: by relation. */
static void keep_edges(const bool *trained, struct sl_raw *raw)
{
    uint64_t n = 0;
    for (uint64_t e = 0; e < raw->n_edges; e++) {
        raw->from[n] = raw->from[e];
        raw->to[n] = raw->to[e];
        raw->relations[n] = raw->relations[e];
        if (raw->weights != NULL) {
            raw->weights[n] = raw->weights[e];
        }
        n += !trained[raw->relations[e]];
    }
    raw->n_edges = n;
}

/* The training links are all edges of their relations: validation and test links may be among the edges of raw/. */
static enum sl_status put_links(const struct typed *typed, const struct sl_links *train, struct sl_raw *raw)
{
    SL_FREED bool *trained = NULL;
    SL_FREED float *of_links = NULL;
    if (raw->weights != NULL) {
        SL_CHECK(sl_raw_weigh_links(raw, &raw->data.links, &of_links));
    }
    SL_CHECK(sl_alloc_zero(typed->n_relations, sizeof *trained, "relations", &trained));
    for (uint32_t i = 0; i < train->n; i++) {
        trained[train->relation[i]] = true;
    }
    keep_edges(trained, raw);
    const uint64_t n_all = raw->n_edges + train->n;
    if (of_links != NULL) {
        SL_CHECK(sl_realloc(&raw->weights, n_all, sizeof *raw->weights, "edge weights"));
        memcpy(raw->weights + raw->n_edges, of_links, train->n * sizeof *of_links);
    }
    SL_CHECK(sl_realloc(&raw->from, n_all, sizeof *raw->from, "graph edges"));
    SL_CHECK(sl_realloc(&raw->to, n_all, sizeof *raw->to, "graph edges"));
    SL_CHECK(sl_realloc(&raw->relations, n_all, sizeof *raw->relations, "relations of edges"));
    for (uint32_t i = 0; i < train->n; i++, raw->n_edges++) {
        raw->from[raw->n_edges] = train->from[i];
        raw->to[raw->n_edges] = train->to[i];
        raw->relations[raw->n_edges] = (uint16_t)train->relation[i];
    }
    return SL_OK;
}

/* The ends of each relation. */
static enum sl_status list_ends(const struct typed *typed, struct sl_link_ends **out)
{
    SL_CHECK(sl_alloc(typed->n_relations, sizeof **out, "ends of relations", out));
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        const struct type *heads = &typed->types[typed->relations[r].ends[0]];
        const struct type *tails = &typed->types[typed->relations[r].ends[1]];
        (*out)[r] = (struct sl_link_ends){{heads->first, tails->first}, {heads->n, tails->n}};
    }
    return SL_OK;
}

static enum sl_status read_links(const struct sl_raw_files *files, const struct typed *typed, struct sl_raw *raw)
{
    struct sl_link_split *split = &raw->data.links;
    SL_CHECK(list_ends(typed, &split->ends));
    split->n_relations = typed->n_relations;
    split->own_ids = true;
    SL_CHECK(sl_links_read_split(files->paths + SL_RAW_TRAIN, typed->n_vertices, split));
    return put_links(typed, &split->list[SL_LINKS_TRAIN], raw);
}

/* Targets of one type become targets of all vertices. */
static enum sl_status read_targets(const struct sl_raw_files *files, const struct typed *typed,
                                   const struct type *target, struct sl_raw *raw)
{
    if (target == NULL) {
        return sl_targets_make_unknown(typed->n_vertices, &raw->data.targets);
    }
    SL_CHECK(sl_raw_read_targets(target->tables[LABELS], target->n, files->targets, &raw->data.targets,
                                 &raw->data.class_names));
    return sl_targets_place(target->first, typed->n_vertices, &raw->data.targets);
}

static enum sl_status read_ids(const char *path, enum sl_raw_file table, const struct type *target, struct sl_ids *out)
{
    SL_CHECK(sl_raw_read_ids(target != NULL ? path : NULL, table, target != NULL ? target->n : 0, out));
    for (uint32_t i = 0; i < out->n; i++) {
        out->ids[i] += target->first;
    }
    return SL_OK;
}

/* ---- Features ---------------------------------------------------------------------------------------------------- */

/* Describe the types and their columns (data/dataset.h). */
static enum sl_status describe_types(const struct typed *typed, char **out)
{
    const size_t bytes = (size_t)typed->n_types * (MAX_NAME + 32) + 1;
    size_t used = 0;
    SL_CHECK(sl_alloc_zero(bytes, 1, "names of types", out));
    for (uint32_t t = 0; t < typed->n_types; t++) {
        used += (size_t)snprintf(*out + used, bytes - used, "%s,%u,%u\n", typed->types[t].name, typed->types[t].n,
                                 typed->features[t].n_columns);
    }
    return SL_OK;
}

static enum sl_status read_features(const char *where, struct typed *typed, struct sl_raw *raw)
{
    SL_CHECK(sl_alloc_zero(typed->n_types, sizeof *typed->features, "features of types", &typed->features));
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const struct type *type = &typed->types[t];
        typed->features[t].n_rows = type->n;
        if (type->tables[FEATURES] != NULL) {
            SL_CHECK(sl_raw_read_features(type->tables[FEATURES], type->n, &typed->features[t]));
        }
    }
    SL_CHECK(describe_types(typed, &raw->data.types));
    return sl_features_join(where, typed->n_types, typed->features, &raw->data.features);
}

static enum sl_status read_all(const struct sl_raw_files *files, struct sl_raw *out)
{
    const char *where = files->paths[SL_RAW_EDGES];
    SL_OWNED(free_typed) struct typed typed = {0};
    SL_OWNED(sl_raw_free) struct sl_raw raw = {0};
    const struct type *target = NULL;
    const bool links = files->need == SL_RAW_FOR_LINKS;
    *out = (struct sl_raw){0};
    snprintf(raw.data.split, sizeof raw.data.split, "%s", files->split);
    SL_CHECK(open_typed(files, &typed));
    for (uint32_t r = 0; r < typed.n_relations; r++) {
        typed.reads_edge_features |= files->edge_features && !links && typed.relations[r].tables[EDGE_FEATURES] != NULL;
    }
    SL_CHECK(check_sizes(files, &typed));
    SL_CHECK(read_graph(&typed, &raw));
    if (links) {
        SL_CHECK(read_links(files, &typed, &raw));
    } else {
        SL_CHECK(find_target(where, &typed, &target));
    }
    SL_CHECK(read_targets(files, &typed, target, &raw));
    for (int i = 0; i < SL_N_LISTS; i++) {
        const enum sl_raw_file table = (enum sl_raw_file)(SL_RAW_TRAIN + i);
        SL_CHECK(read_ids(files->paths[table], table, target, &raw.data.lists[i]));
    }
    if (!files->no_features) {
        SL_CHECK(read_features(where, &typed, &raw));
    }
    SL_CHECK(sl_raw_settle(files, where, &raw));
    *out = SL_TAKE(raw);
    return SL_OK;
}

static enum sl_status name_relations(const struct typed *typed, char **out)
{
    size_t n_bytes = 1;
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        n_bytes += strlen(typed->relations[r].name);
    }
    SL_CHECK(sl_alloc_zero(n_bytes, 1, "names of relations", out));
    char *end = *out;
    for (uint32_t r = 0; r < typed->n_relations; r++) {
        end = stpcpy(end, typed->relations[r].name);
    }
    return SL_OK;
}

static enum sl_status describe_relations(const struct sl_raw_files *files, char **names, struct sl_link_ends **ends)
{
    SL_OWNED(free_typed) struct typed typed = {0};
    SL_CHECK(open_typed(files, &typed));
    SL_CHECK(name_relations(&typed, names));
    return list_ends(&typed, ends);
}

const struct sl_reader sl_reader_typed = {
    .name = "a typed dataset in OGB's layout",
    .recognise = recognise,
    .find = find,
    .read = read_all,
    .describe_relations = describe_relations,
};
