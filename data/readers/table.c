/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of folders of text with ids of any kind: edges.csv with the columns src, dst and perhaps weight, and
 * perhaps nodes.csv with the columns id, label, split and features. Both are plain or gzip, and have a header. Tabs,
 * commas or semicolons separate cells.
 *
 * An id is a text. Vertices are numbered in the order of nodes.csv, or else as they first appear in edges.csv, line by
 * line, from left to right. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "data/features.h"
#include "data/line_reader.h"
#include "data/names.h"
#include "data/reader.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/number.h"
#include "support/text.h"

#define MAX_COLUMNS (1 << 24)

/* ---- Lines and cells --------------------------------------------------------------------------------------------- */

static bool cell_is(struct sl_text_cell cell, const char *word)
{
    return cell.n == strlen(word) && memcmp(cell.p, word, cell.n) == 0;
}

/* The next line that is not blank, without its line end and blanks at its start. */
static bool next_line(struct sl_text *text, const char **start, const char **stop)
{
    while (sl_text_next(text, start, stop)) {
        if (*stop > *start && (*stop)[-1] == '\r') {
            --*stop;
        }
        while (*start < *stop && **start == ' ') {
            ++*start;
        }
        if (sl_text_skip_blanks(*start, *stop) < *stop) {
            return true;
        }
    }
    return false;
}

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

/* The role of a column, of the edges (EDGES), of the vertices (NODES), or of both. */
enum role { ROLE_UNUSED, ROLE_SOURCE, ROLE_DESTINATION, ROLE_WEIGHT, ROLE_ID, ROLE_LABEL, ROLE_SPLIT, ROLE_FEATURE };

enum kind { EDGES, NODES };

/* Our names, and the names of DGL's CSV datasets, networkx, PyG and SNAP. */
static const struct {
    enum kind kind;
    const char *name;
    enum role role;
} columns[] = {
    {EDGES, "src", ROLE_SOURCE},
    {EDGES, "src_id", ROLE_SOURCE},
    {EDGES, "source", ROLE_SOURCE},
    {EDGES, "from", ROLE_SOURCE},
    {EDGES, "FromNodeId", ROLE_SOURCE},
    {EDGES, "dst", ROLE_DESTINATION},
    {EDGES, "dst_id", ROLE_DESTINATION},
    {EDGES, "target", ROLE_DESTINATION},
    {EDGES, "to", ROLE_DESTINATION},
    {EDGES, "ToNodeId", ROLE_DESTINATION},
    {EDGES, "weight", ROLE_WEIGHT},
    {EDGES, "edge_weight", ROLE_WEIGHT},
    {NODES, "id", ROLE_ID},
    {NODES, "node_id", ROLE_ID},
    {NODES, "label", ROLE_LABEL},
    {NODES, "y", ROLE_LABEL},
    {NODES, "split", ROLE_SPLIT},
};

#define LABEL_BYTES 6

/* Whether a column is one label of several, "label_a". */
static bool is_named_label(struct sl_text_cell name)
{
    return name.n > LABEL_BYTES && memcmp(name.p, "label_", LABEL_BYTES) == 0;
}

static enum role role_of(enum kind kind, struct sl_text_cell name)
{
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (columns[i].kind == kind && cell_is(name, columns[i].name)) {
            return columns[i].role;
        }
    }
    if (kind == EDGES) {
        return ROLE_UNUSED;
    }
    return is_named_label(name) ? ROLE_LABEL : ROLE_FEATURE;
}

struct column {
    struct sl_text_cell name;
    enum role role;
};

/* The first line of a table. */
struct header {
    enum kind kind;
    char separator;
    uint32_t n;
    struct column *columns; /* n */
};

/* The separator of a line: the first of these that it has. */
static char separator_of(const char *start, const char *stop)
{
    static const char separators[] = "\t,;";
    for (const char *s = separators; *s != '\0'; s++) {
        if (memchr(start, *s, (size_t)(stop - start)) != NULL) {
            return *s;
        }
    }
    return ',';
}

static enum sl_status split_header(const struct sl_text *text, const char *start, const char *stop,
                                   struct header *header)
{
    size_t most = 1;
    header->separator = separator_of(start, stop);
    for (const char *p = start; p < stop; p++) {
        most += *p == header->separator;
    }
    if (most > MAX_COLUMNS) {
        return sl_text_refuse(text, "at most 2^24 columns");
    }
    SL_CHECK(sl_alloc(most, sizeof *header->columns, "columns", &header->columns));
    for (const char *p = start; p != NULL; header->n++) {
        const struct sl_text_cell name = sl_names_take(&p, stop, header->separator);
        header->columns[header->n] = (struct column){name, role_of(header->kind, name)};
    }
    return SL_OK;
}

/* The number of columns of a role. */
static uint32_t count_role(const struct header *header, enum role role)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < header->n; c++) {
        n += header->columns[c].role == role;
    }
    return n;
}

static bool fits(const struct header *header)
{
    if (header->kind == NODES) {
        return count_role(header, ROLE_ID) == 1 && count_role(header, ROLE_SPLIT) <= 1;
    }
    return count_role(header, ROLE_SOURCE) == 1 && count_role(header, ROLE_DESTINATION) == 1 &&
           count_role(header, ROLE_WEIGHT) <= 1;
}

static bool read_real(struct sl_text_cell cell, double *out)
{
    const char *end = cell.p + cell.n;
    return cell.n > 0 && sl_number_real(cell.p, end, out) == end;
}

static bool is_mask(struct sl_text_cell name)
{
    static const char *const masks[] = {"train_mask", "val_mask", "valid_mask", "test_mask"};
    bool found = false;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        found |= cell_is(name, masks[i]);
    }
    return found;
}

/* Whether a name would be that of a label or split in small letters. Y may be a coordinate. */
static bool is_misspelt(struct sl_text_cell name)
{
    return role_of(NODES, name) == ROLE_FEATURE && name.n == 5 &&
           (strncasecmp(name.p, "label", 5) == 0 || strncasecmp(name.p, "split", 5) == 0);
}

/* Each column has a name, and a name of its own if it is no feature. */
static enum sl_status check_names(const char *path, uint64_t line, const struct header *header)
{
    static const char index[] = "Unnamed: ";
    bool label = false;
    for (uint32_t c = 0; c < header->n; c++) {
        const struct sl_text_cell name = header->columns[c].name;
        bool again = header->kind == NODES && (cell_is(name, "label") || cell_is(name, "y"));
        if (name.n == 0 || (name.n >= sizeof index - 1 && memcmp(name.p, index, sizeof index - 1) == 0)) {
            return sl_fail(SL_EFILE,
                           "%.300s:%llu: column %u has no name%s; name it or leave it out (the row number of pandas: "
                           "to_csv(.., index=False))",
                           path, (unsigned long long)line, c + 1, name.n > 0 ? " of its own" : "");
        }
        SL_FAIL_IF(again && label, SL_EFILE,
                   "%.300s:%llu: column %u: found a second column of labels; several targets are label, "
                   "label_a, label_b",
                   path, (unsigned long long)line, c + 1);
        label |= again;
        SL_FAIL_IF(header->kind == NODES && (is_mask(name) || is_misspelt(name)), SL_EFILE,
                   "%.300s:%llu: column %u: found '%.*s', which is no feature; expected %s", path,
                   (unsigned long long)line, c + 1, (int)name.n, name.p,
                   is_mask(name) ? "a column split of train, valid and test" : "small letters");
    }
    return SL_OK;
}

static enum sl_status check_repeats(const char *path, uint64_t line, const struct header *header)
{
    SL_OWNED(sl_names_free) struct sl_names names = {0};
    for (uint32_t c = 0, column; c < header->n; c++) {
        const struct sl_text_cell name = header->columns[c].name;
        SL_FAIL_IF(sl_names_find(&names, name) != SL_NONE, SL_EFILE,
                   "%.300s:%llu: column '%.*s' is there twice; expected each name once", path, (unsigned long long)line,
                   (int)sl_min_u64(name.n, 100), name.p);
        SL_CHECK(sl_names_add(&names, name, &column));
    }
    return SL_OK;
}

static void free_header(struct header *header)
{
    sl_free(header->columns);
}

/* Read the header. The caller frees *out, also on failure. SL_EFILE: it does not fit. */
static enum sl_status read_header(enum kind kind, struct sl_text *text, struct header *out)
{
    const char *start = "";
    const char *stop = start;
    *out = (struct header){.kind = kind};
    if (next_line(text, &start, &stop)) {
        SL_CHECK(split_header(text, start, stop, out));
    }
    SL_FAIL_IF(!fits(out), SL_EFILE,
               "%.300s:%llu: expected %s, found '%.*s'; of other headers make a dataset: starling convert", text->path,
               (unsigned long long)text->line,
               kind == NODES ? "a header with one column id, and at most one column split: 'id,label,split'"
                             : "a header with the columns src and dst, and perhaps weight: 'src,dst'",
               (int)sl_min_u64((uint64_t)(stop - start), 80), start);
    SL_CHECK(check_names(text->path, text->line, out));
    return check_repeats(text->path, text->line, out);
}

/* ---- Finding the files ------------------------------------------------------------------------------------------- */

static const char *const endings[] = {".csv", ".csv.gz"};

#define N_ENDINGS (int)(sizeof endings / sizeof *endings)

static bool recognise(const char *path)
{
    return sl_raw_has_file(path, "edges", N_ENDINGS, endings);
}

/* Note the columns that are not read. */
static void note_unused(const char *path, const struct header *header, struct sl_raw_files *files)
{
    for (uint32_t c = 0; c < header->n; c++) {
        const struct sl_text_cell name = header->columns[c].name;
        if (header->columns[c].role == ROLE_UNUSED) {
            sl_raw_note_unused(files, "%.200s: column '%.*s'", path, (int)(name.n < 40 ? name.n : 40), name.p);
        }
    }
}

/* Read the header of a table, and note its columns. */
static enum sl_status look_at(enum kind kind, const char *path, struct sl_reader_tables *tables,
                              struct sl_raw_files *files)
{
    SL_OWNED(free_header) struct header header = {.kind = kind};
    SL_OWNED(sl_lines_free) struct sl_text text = {0};
    if (path == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_lines_read_text(path, true, &text));
    SL_CHECK(read_header(kind, &text, &header));
    if (kind == NODES) {
        tables->labels = count_role(&header, ROLE_LABEL) > 0;
        tables->split = count_role(&header, ROLE_SPLIT) > 0;
        tables->features = count_role(&header, ROLE_FEATURE) > 0;
    }
    note_unused(path, &header, files);
    return SL_OK;
}

static enum sl_status find(const struct sl_dataset_options *request, struct sl_raw_files *out)
{
    struct sl_reader_tables tables = {.place = "add columns label and split to a nodes.csv beside edges.csv"};
    SL_OWNED(sl_raw_files_free) struct sl_raw_files found = {0};
    char **edges = &found.paths[SL_RAW_EDGES];
    char **nodes = &found.paths[SL_RAW_FEATURES];
    *out = (struct sl_raw_files){0};
    SL_CHECK(sl_raw_find_file(request->dataset, "edges", N_ENDINGS, endings, edges));
    SL_CHECK(sl_raw_find_file(request->dataset, "nodes", N_ENDINGS, endings, nodes));
    /* it was there a moment ago */
    SL_FAIL_IF(*edges == NULL, SL_EFILE, "%.300s: expected a file edges.csv", request->dataset);
    SL_CHECK(look_at(EDGES, *edges, &tables, &found));
    SL_CHECK(look_at(NODES, *nodes, &tables, &found));
    SL_CHECK(sl_reader_start(sl_reader_table.name, request, &tables, &found));
    *out = SL_TAKE(found);
    return SL_OK;
}

/* ---- Ids --------------------------------------------------------------------------------------------------------- */

/* Whether each id is the vertex's number. */
static bool are_numbers(const struct sl_names *names)
{
    char number[16];
    for (uint32_t v = 0; v < names->n; v++) {
        if ((size_t)snprintf(number, sizeof number, "%u", v) != names->texts[v].n ||
            memcmp(number, names->texts[v].p, names->texts[v].n) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

/* A table being read, behind its header. */
struct table {
    struct sl_text text;
    struct header header;
    uint64_t n_lines; /* that are not blank */
};

static enum sl_status refuse(const struct table *table, uint32_t column, struct sl_text_cell found,
                             const char *expected)
{
    const struct sl_text_cell name = table->header.columns[column].name;
    return sl_fail(SL_EFILE, "%.300s:%llu: column '%.*s': expected %s, found '%.*s'", table->text.path,
                   (unsigned long long)table->text.line, (int)(name.n < 40 ? name.n : 40), name.p, expected,
                   (int)(found.n < 40 ? found.n : 40), found.p);
}

/* The first column of a role that is there. */
static uint32_t column_of(const struct table *table, enum role role)
{
    uint32_t c = 0;
    while (table->header.columns[c].role != role) {
        c++;
    }
    return c;
}

/* Read the header, and count the lines behind it. */
static enum sl_status open_table(enum kind kind, struct table *table)
{
    const char *start;
    const char *stop;
    SL_CHECK(read_header(kind, &table->text, &table->header));
    struct sl_text rest = table->text;
    while (next_line(&rest, &start, &stop)) {
        table->n_lines++;
    }
    return SL_OK;
}

/* Call `body` for each cell of each line. */
static enum sl_status read_lines(struct table *table, void *context,
                                 enum sl_status (*body)(void *context, uint64_t line, uint32_t column,
                                                        struct sl_text_cell cell))
{
    const char *p;
    const char *stop;
    for (uint64_t line = 0; next_line(&table->text, &p, &stop); line++) {
        uint32_t c = 0;
        for (; p != NULL && c < table->header.n; c++) {
            SL_CHECK(body(context, line, c, sl_names_take(&p, stop, table->header.separator)));
        }
        if (p != NULL || c < table->header.n) {
            return sl_text_refuse(&table->text, "as many columns as the header has");
        }
    }
    return SL_OK;
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

struct nodes {
    struct table table;
    struct sl_names *names;
    uint32_t n_labels, n_features; /* columns */
    uint64_t next_label, next_feature;
    float *labels, *features;
    struct sl_text_cell *texts; /* one column of labels that may be names of classes; else NULL */
    uint64_t text_line;         /* of the first label that is no number */
    bool points, whole;         /* some label has a decimal point, or none */
    struct sl_label_kinds kinds;
    unsigned char *set_of; /* 0, or the number of a set of the split. NULL: the split is not read */
};

static enum sl_status read_set(const struct nodes *nodes, uint32_t column, struct sl_text_cell cell, unsigned char *out)
{
    static const struct {
        const char *word;
        unsigned char set;
    } words[] = {{"", 0}, {"none", 0}, {"train", 1}, {"valid", 2}, {"val", 2}, {"validation", 2}, {"test", 3}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (cell_is(cell, words[i].word)) {
            *out = words[i].set;
            return SL_OK;
        }
    }
    return refuse(&nodes->table, column, cell, "train, valid, test or nothing");
}

static enum sl_status read_label(struct nodes *nodes, uint32_t column, struct sl_text_cell cell)
{
    double value = NAN;
    bool text = cell.n > 0 && !read_real(cell, &value);
    if ((text && nodes->texts == NULL) || isinf((float)value)) {
        return refuse(&nodes->table, column, cell, "a class from 0 to 65535, another finite number, or nothing");
    }
    if (nodes->texts != NULL) {
        nodes->text_line = text && nodes->kinds.n_texts == 0 ? nodes->table.text.line : nodes->text_line;
        nodes->texts[nodes->next_label] = cell;
        sl_label_kinds_count(&nodes->kinds, cell, nodes->next_label);
    }
    nodes->points |= memchr(cell.p, '.', cell.n) != NULL;
    nodes->whole |= !isnan(value) && memchr(cell.p, '.', cell.n) == NULL;
    nodes->labels[nodes->next_label++] = (float)value;
    return SL_OK;
}

static enum sl_status read_feature(struct nodes *nodes, uint32_t column, struct sl_text_cell cell)
{
    double value = NAN;
    if (!read_real(cell, &value) || !isfinite((float)value)) {
        return refuse(&nodes->table, column, cell, "a finite number, a feature; leave other columns out");
    }
    nodes->features[nodes->next_feature++] = (float)value;
    return SL_OK;
}

static enum sl_status read_id(struct nodes *nodes, uint32_t column, struct sl_text_cell cell)
{
    sl_vertex vertex;
    if (cell.n == 0 || sl_names_find(nodes->names, cell) != SL_NONE) {
        return refuse(&nodes->table, column, cell, "an id that no other line has");
    }
    return sl_names_add(nodes->names, cell, &vertex);
}

static enum sl_status node_cell(void *context, uint64_t line, uint32_t column, struct sl_text_cell cell)
{
    struct nodes *nodes = context;
    switch (nodes->table.header.columns[column].role) {
    case ROLE_ID: return read_id(nodes, column, cell);
    case ROLE_LABEL: return read_label(nodes, column, cell);
    case ROLE_SPLIT: return nodes->set_of != NULL ? read_set(nodes, column, cell, &nodes->set_of[line]) : SL_OK;
    case ROLE_FEATURE: return nodes->features != NULL ? read_feature(nodes, column, cell) : SL_OK;
    default: return SL_OK;
    }
}

static enum sl_status alloc_nodes(struct nodes *nodes, const struct sl_raw_files *files)
{
    uint64_t n = nodes->table.n_lines;
    const struct header *header = &nodes->table.header;
    nodes->n_labels = count_role(header, ROLE_LABEL);
    nodes->n_features = count_role(header, ROLE_FEATURE);
    SL_FAIL_IF(n >= SL_NONE || nodes->n_labels > SL_MAX_CLASSES, SL_EFILE,
               "%.300s: expected less than 2^32 - 1 vertices and at most %d labels", nodes->table.text.path,
               SL_MAX_CLASSES);
    if (files->split[0] != '\0') {
        SL_CHECK(sl_alloc_zero(n, 1, "a split", &nodes->set_of));
    }
    SL_CHECK(sl_alloc(n * nodes->n_labels, sizeof *nodes->labels, "targets", &nodes->labels));
    if (nodes->n_labels == 1 && files->targets != SL_TARGETS_NUMBERS) {
        SL_CHECK(sl_alloc(n, sizeof *nodes->texts, "labels", &nodes->texts));
    }
    if (nodes->n_features > 0 && !files->no_features) {
        return sl_alloc(n * nodes->n_features, sizeof *nodes->features, "features", &nodes->features);
    }
    return SL_OK;
}

static enum sl_status give_targets(struct nodes *nodes, const struct sl_raw_files *files, struct sl_raw *out)
{
    const char *path = nodes->table.text.path;
    if (nodes->n_labels == 0) {
        return sl_targets_make_unknown(out->n_vertices, &out->data.targets);
    }
    SL_CHECK(sl_targets_take(path, SL_TAKE(nodes->labels), out->n_vertices, nodes->n_labels, files->targets,
                             &out->data.targets));
    if (nodes->points && !nodes->whole && files->targets == SL_TARGETS_ANY) {
        sl_targets_tell_whole(path, &out->data.targets);
    }
    return SL_OK;
}

/* The names of the columns of a role, a line each: of labels without "label_". */
static enum sl_status name_columns(const struct nodes *nodes, enum role role, char **out)
{
    const struct header *header = &nodes->table.header;
    SL_OWNED(sl_names_free) struct sl_names names = {0};
    for (uint32_t c = 0, i; c < header->n; c++) {
        struct sl_text_cell name = header->columns[c].name;
        if (header->columns[c].role != role) {
            continue;
        }
        if (role == ROLE_LABEL && is_named_label(name)) {
            name.p += LABEL_BYTES;
            name.n -= LABEL_BYTES;
        }
        SL_CHECK(sl_names_add(&names, name, &i));
    }
    SL_CHECK(sl_names_list(&names, out));
    if (!sl_text_is_utf8(*out, strlen(*out))) { /* no names, rather than names that no model's file has */
        sl_free(*out);
        *out = NULL;
    }
    return SL_OK;
}

/* Move what was read into the raw tables. */
static enum sl_status give_nodes(struct nodes *nodes, const struct sl_raw_files *files, struct sl_raw *out)
{
    out->n_vertices = nodes->names->n;
    if (nodes->kinds.n_texts > 0) {
        if (nodes->kinds.fractions) {
            nodes->table.text.line = nodes->text_line;
            return refuse(&nodes->table, column_of(&nodes->table, ROLE_LABEL), nodes->texts[nodes->kinds.text],
                          "a number, as other labels are fractions");
        }
        SL_CHECK(sl_label_classes(nodes->table.text.path, &nodes->kinds, nodes->texts, out->n_vertices,
                                  &out->data.targets, &out->data.class_names));
    } else {
        SL_CHECK(give_targets(nodes, files, out));
        if (nodes->n_labels > 1) {
            SL_CHECK(name_columns(nodes, ROLE_LABEL, &out->data.class_names));
        }
    }
    if (nodes->features != NULL) {
        out->data.features = (struct sl_features){.n_rows = out->n_vertices, .n_columns = nodes->n_features};
        out->data.features.dense =
            sl_column_take(SL_DTYPE_F32, out->n_vertices, nodes->n_features, SL_TAKE(nodes->features));
        SL_CHECK(sl_features_settle(&out->data.features));
        SL_CHECK(name_columns(nodes, ROLE_FEATURE, &out->data.feature_names));
    }
    for (int i = 0; i < SL_N_LISTS && nodes->set_of != NULL; i++) {
        SL_CHECK(sl_ids_list(nodes->set_of, out->n_vertices, (unsigned char)(i + 1), &out->data.lists[i]));
    }
    return SL_OK;
}

static void free_nodes(struct nodes *nodes)
{
    sl_free(nodes->texts);
    free_header(&nodes->table.header);
    sl_free(nodes->labels);
    sl_free(nodes->features);
    sl_free(nodes->set_of);
}

static enum sl_status read_nodes(const struct sl_raw_files *files, struct sl_text text, struct sl_names *names,
                                 struct sl_raw *out)
{
    SL_OWNED(free_nodes) struct nodes nodes = {.table = {.text = text}, .names = names};
    SL_CHECK(open_table(NODES, &nodes.table));
    SL_CHECK(alloc_nodes(&nodes, files));
    SL_CHECK(read_lines(&nodes.table, &nodes, node_cell));
    return give_nodes(&nodes, files, out);
}

/* ---- Edges ------------------------------------------------------------------------------------------------------- */

struct edges {
    struct table table;
    struct sl_names *names;
    bool closed; /* nodes.csv has all ids */
    struct sl_raw *out;
};

static void free_edges(struct edges *edges)
{
    free_header(&edges->table.header);
}

static enum sl_status read_end(struct edges *edges, uint32_t column, struct sl_text_cell cell, sl_vertex *out)
{
    *out = sl_names_find(edges->names, cell);
    if (*out != SL_NONE) {
        return SL_OK;
    }
    if (edges->closed || cell.n == 0) {
        return refuse(&edges->table, column, cell, edges->closed ? "an id of nodes.csv" : "an id");
    }
    return sl_names_add(edges->names, cell, out);
}

static enum sl_status edge_cell(void *context, uint64_t line, uint32_t column, struct sl_text_cell cell)
{
    struct edges *edges = context;
    double value = -1;
    switch (edges->table.header.columns[column].role) {
    case ROLE_SOURCE: return read_end(edges, column, cell, &edges->out->from[line]);
    case ROLE_DESTINATION: return read_end(edges, column, cell, &edges->out->to[line]);
    case ROLE_WEIGHT:
        if (!read_real(cell, &value) || !sl_weight_is_valid((float)value)) {
            return refuse(&edges->table, column, cell, SL_WEIGHT_EXPECTED);
        }
        edges->out->weights[line] = (float)value;
        return SL_OK;
    default: return SL_OK;
    }
}

static enum sl_status read_edges(struct sl_text text, bool closed, struct sl_names *names, struct sl_raw *out)
{
    SL_OWNED(free_edges) struct edges edges = {.table = {.text = text}, .names = names, .closed = closed, .out = out};
    SL_CHECK(open_table(EDGES, &edges.table));
    uint64_t n = edges.table.n_lines;
    SL_CHECK(sl_alloc(n, sizeof(sl_vertex), "edges", &out->from));
    SL_CHECK(sl_alloc(n, sizeof(sl_vertex), "edges", &out->to));
    if (count_role(&edges.table.header, ROLE_WEIGHT) > 0) {
        SL_CHECK(sl_alloc(n, sizeof *out->weights, "edge weights", &out->weights));
    }
    SL_CHECK(read_lines(&edges.table, &edges, edge_cell));
    out->n_edges = n;
    return SL_OK;
}

/* ---- The dataset ------------------------------------------------------------------------------------------------- */

static enum sl_status read_all(const struct sl_raw_files *files, struct sl_text edges, struct sl_text nodes,
                               struct sl_raw *out)
{
    SL_OWNED(sl_names_free) struct sl_names names = {.n = 0};
    bool has_nodes = nodes.path != NULL;
    snprintf(out->data.split, sizeof out->data.split, "%s", files->split);
    if (has_nodes) {
        SL_CHECK(read_nodes(files, nodes, &names, out));
    }
    SL_CHECK(read_edges(edges, has_nodes, &names, out));
    if (!has_nodes) {
        out->n_vertices = names.n;
        SL_CHECK(sl_targets_make_unknown(names.n, &out->data.targets));
        out->numbered = true;
    }
    if (!are_numbers(&names)) {
        SL_CHECK(sl_names_list(&names, &out->data.vertex_names));
    }
    return sl_raw_settle(files, nodes.path, out);
}

static enum sl_status read_dataset(const struct sl_raw_files *files, struct sl_raw *out)
{
    const char *node_path = files->paths[SL_RAW_FEATURES];
    SL_OWNED(sl_lines_free) struct sl_text edges = {0};
    SL_OWNED(sl_lines_free) struct sl_text nodes = {0};
    SL_OWNED(sl_raw_free) struct sl_raw raw = {0};
    *out = (struct sl_raw){0};
    SL_CHECK(sl_lines_read_text(files->paths[SL_RAW_EDGES], false, &edges));
    if (node_path != NULL) {
        SL_CHECK(sl_lines_read_text(node_path, false, &nodes));
    }
    SL_CHECK(read_all(files, edges, nodes, &raw));
    *out = SL_TAKE(raw);
    return SL_OK;
}

const struct sl_reader sl_reader_table = {
    .name = "a folder of edges.csv", .recognise = recognise, .find = find, .read = read_dataset};
