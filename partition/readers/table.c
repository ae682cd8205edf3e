/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of edge lists with a header and ids of any kind: edges.csv with the columns src, dst and perhaps weight, and
 * perhaps nodes.csv with the columns id, label, split and features. Both are text, plain or gzip, separated by commas or
 * tabs.
 *
 * An id is a text. Vertices are numbered in the order of nodes.csv, or else as they first appear in edges.csv, line by
 * line, from left to right. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie */
#endif
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "partition/features.h"
#include "partition/number.h"
#include "partition/reader.h"
#include "partition/text.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/text.h"

#define MAX_BYTES ((size_t)1 << 40)
#define BLOCK_BYTES ((size_t)1 << 20) /* inflated at a time */
#define MAX_COLUMNS (1 << 24)
#define LEAST_SLOTS 1024

/* ---- Text --------------------------------------------------------------------------------------------------------- */

/* Text of a file, plain or gzip, as it grows. */
struct inflated {
    const char *path;
    gzFile file;
    char *data; /* sl_free */
    size_t bytes, room;
    bool ended;
};

/* Read a block more. */
static enum sl_status inflate_more(struct inflated *text)
{
    int code = Z_OK;
    if (text->room - text->bytes < BLOCK_BYTES) {
        size_t room = 2 * text->room + BLOCK_BYTES;
        enum sl_status st = sl_realloc(&text->data, room, 1, text->path);
        if (st != SL_OK) {
            return st;
        }
        text->room = room;
    }
    int n = gzread(text->file, text->data + text->bytes, (unsigned)BLOCK_BYTES);
    const char *why = n < (int)BLOCK_BYTES ? gzerror(text->file, &code) : "";
    if (n < 0 && code == Z_ERRNO) {
        return sl_fail(SL_EIO, "%s: cannot read: %s", text->path, strerror(errno));
    }
    if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
        return sl_fail(SL_EFILE, "%s: damaged or cut short: %s; fetch it again", text->path, why);
    }
    text->ended = n < (int)BLOCK_BYTES;
    text->bytes += (size_t)n;
    return SL_OK;
}

/* Read a file, plain or gzip. On failure nothing is left open, and out->data is NULL. */
static enum sl_status inflate_file(const char *path, struct inflated *out)
{
    enum sl_status st = SL_OK;
    *out = (struct inflated){.path = path, .file = gzopen(path, "rbe")};
    if (out->file == NULL) {
        return sl_fail(SL_EIO, "%s: cannot open: %s", path, strerror(errno));
    }
    while (st == SL_OK && !out->ended) {
        st = inflate_more(out);
    }
    gzclose(out->file);
    if (st != SL_OK) {
        sl_free(out->data);
        out->data = NULL;
    }
    return st;
}

static ssize_t read_cookie(void *file, char *to, size_t bytes)
{
    return gzread(file, to, (unsigned)bytes);
}

static int close_cookie(void *file)
{
    return gzclose(file) == Z_OK ? 0 : EOF;
}

/* A file as a stream, plain or gzip. NULL: it cannot be opened. */
static FILE *open_stream(const char *path)
{
    gzFile file = gzopen(path, "rbe");
    const cookie_io_functions_t functions = {.read = read_cookie, .close = close_cookie};
    FILE *stream = file != NULL ? fopencookie(file, "r", functions) : NULL;
    if (stream == NULL && file != NULL) {
        gzclose(file);
    }
    return stream;
}

/* ---- Lines and cells --------------------------------------------------------------------------------------------- */

struct cell {
    const char *p;
    size_t n;
    bool quoted;
};

static bool cell_is(struct cell cell, const char *word)
{
    return cell.n == strlen(word) && memcmp(cell.p, word, cell.n) == 0;
}

/* The closing quote of a quoted cell. NULL: the cell is not quoted as a whole. A quote inside is written twice. */
static const char *closing_quote(const char *p, const char *stop, char separator)
{
    for (p++; p < stop; p++) {
        if (*p == '"' && (p + 1 == stop || p[1] == separator)) {
            return p;
        }
        p += *p == '"' && p[1] == '"';
    }
    return NULL;
}

/* The next cell of a line, without quotes and blanks around it. *p becomes NULL after the last cell. */
static struct cell next_cell(const char **p, const char *stop, char separator)
{
    const char *start = *p;
    const char *quote = start < stop && *start == '"' ? closing_quote(start, stop, separator) : NULL;
    const char *end = quote != NULL ? quote + 1 : start;
    while (end < stop && *end != separator) {
        end++;
    }
    *p = end < stop ? end + 1 : NULL;
    if (quote != NULL) {
        return (struct cell){start + 1, (size_t)(quote - start - 1), true};
    }
    while (start < end && *start == ' ') {
        start++;
    }
    while (end > start && end[-1] == ' ') {
        end--;
    }
    return (struct cell){start, (size_t)(end - start), false};
}

/* Make one quote of two in a quoted cell, in place. */
static void undouble_quotes(struct cell *cell)
{
    char *p = (char *)(uintptr_t)cell->p; /* the text is the reader's own */
    size_t n = 0;
    for (size_t i = 0; i < cell->n; i++) {
        p[n++] = p[i];
        i += p[i] == '"' && i + 1 < cell->n && p[i + 1] == '"';
    }
    cell->n = n;
}

/* The next line that is not blank, without its line end. A byte order mark before the first line is left out. */
static bool next_line(struct sl_text *text, const char **start, const char **stop)
{
    while (sl_text_next(text, start, stop)) {
        if (text->line == 1 && *stop - *start >= 3 && memcmp(*start, "\xef\xbb\xbf", 3) == 0) {
            *start += 3;
        }
        if (*stop > *start && (*stop)[-1] == '\r') {
            --*stop;
        }
        if (sl_text_skip_blanks(*start, *stop) < *stop) {
            return true;
        }
    }
    return false;
}

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

enum role { ROLE_OTHER, ROLE_SOURCE, ROLE_DESTINATION, ROLE_WEIGHT, ROLE_ID, ROLE_LABEL, ROLE_SPLIT };

/* Our names, and the names of DGL's CSV datasets, networkx and PyG. */
static const struct {
    const char *name;
    enum role role;
} columns[] = {
    {"src", ROLE_SOURCE},      {"src_id", ROLE_SOURCE},      {"source", ROLE_SOURCE},
    {"dst", ROLE_DESTINATION}, {"dst_id", ROLE_DESTINATION}, {"target", ROLE_DESTINATION},
    {"weight", ROLE_WEIGHT},   {"edge_weight", ROLE_WEIGHT}, {"id", ROLE_ID},
    {"node_id", ROLE_ID},      {"label", ROLE_LABEL},        {"y", ROLE_LABEL},
    {"split", ROLE_SPLIT},
};

static enum role role_of(struct cell name)
{
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (cell_is(name, columns[i].name)) {
            return columns[i].role;
        }
    }
    return name.n > 6 && memcmp(name.p, "label_", 6) == 0 ? ROLE_LABEL : ROLE_OTHER;
}

/* The first line of a table. */
struct header {
    const char *start, *stop;
    char separator;
};

static struct header header_of(const char *start, const char *stop)
{
    bool tabs = memchr(start, '\t', (size_t)(stop - start)) != NULL;
    return (struct header){.start = start, .stop = stop, .separator = tabs ? '\t' : ','};
}

/* The number of columns of a role. */
static uint32_t count_role(const struct header *header, enum role role)
{
    uint32_t n = 0;
    for (const char *p = header->start; p != NULL;) {
        n += role_of(next_cell(&p, header->stop, header->separator)) == role;
    }
    return n;
}

static bool is_edge_header(const struct header *header)
{
    return count_role(header, ROLE_SOURCE) == 1 && count_role(header, ROLE_DESTINATION) == 1 &&
           count_role(header, ROLE_WEIGHT) <= 1;
}

static bool is_node_header(const struct header *header)
{
    return count_role(header, ROLE_ID) == 1 && count_role(header, ROLE_SPLIT) <= 1;
}

/* Read the first line of a file; *line (free) holds its text. False: there is none. */
static bool read_header(const char *path, char **line, struct header *out)
{
    size_t room = 0;
    FILE *stream = open_stream(path);
    *line = NULL;
    ssize_t n = stream != NULL ? getline(line, &room, stream) : -1;
    if (stream != NULL) {
        fclose(stream);
    }
    struct sl_text text = {.path = path, .p = *line, .end = n > 0 ? *line + n : *line};
    const char *start;
    const char *stop;
    if (n <= 0 || !next_line(&text, &start, &stop)) {
        free(*line);
        *line = NULL;
        return false;
    }
    *out = header_of(start, stop);
    return true;
}

/* ---- Finding the files ------------------------------------------------------------------------------------------- */

static const char *const endings[] = {".csv", ".tsv", ".csv.gz", ".tsv.gz"};

#define N_ENDINGS (int)(sizeof endings / sizeof *endings)

static bool recognise(const char *path)
{
    struct header header;
    char *line;
    char file[4096];
    bool is_folder = sl_folder_exists(path);
    bool fits = false;
    for (int i = 0; i < N_ENDINGS && !fits; i++) {
        if (is_folder) {
            fits = (size_t)snprintf(file, sizeof file, "%s/edges%s", path, endings[i]) < sizeof file &&
                   sl_file_exists(file);
        } else {
            fits = sl_reader_ends_in(path, endings[i]);
        }
    }
    if (is_folder || !fits) {
        return fits;
    }
    bool is_table = read_header(path, &line, &header) && is_edge_header(&header);
    free(line);
    return is_table;
}

/* Note a column of the edges that is not read. */
static void note_unused(const char *path, struct sl_raw_files *files)
{
    struct header header;
    char *line;
    if (!read_header(path, &line, &header)) {
        return;
    }
    for (const char *p = header.start; p != NULL;) {
        struct cell name = next_cell(&p, header.stop, header.separator);
        if (role_of(name) == ROLE_OTHER) {
            snprintf(files->unused, sizeof files->unused, "%.300s: column '%.*s'", path,
                     (int)(name.n < 40 ? name.n : 40), name.p);
        }
    }
    free(line);
}

static void look_at_nodes(const char *path, struct sl_reader_tables *out)
{
    struct header header;
    char *line;
    if (path != NULL && read_header(path, &line, &header)) {
        out->labels = count_role(&header, ROLE_LABEL) > 0;
        out->split = count_role(&header, ROLE_SPLIT) > 0;
        out->features = count_role(&header, ROLE_OTHER) > 0;
        free(line);
    }
}

static enum sl_status find(const struct sl_request *request, struct sl_raw_files *out)
{
    struct sl_reader_tables tables = {.place = "add columns label and split to nodes.csv, in a folder with edges.csv"};
    char *edges = NULL;
    char *nodes = NULL;
    enum sl_status st;
    *out = (struct sl_raw_files){0};
    if (sl_folder_exists(request->path)) {
        SL_TRY(st, sl_reader_find_file(request->path, "edges", N_ENDINGS, endings, &edges), fail);
        SL_TRY(st, sl_reader_find_file(request->path, "nodes", N_ENDINGS, endings, &nodes), fail);
    } else {
        SL_TRY(st, sl_strdup(request->path, &edges), fail);
    }
    if (edges == NULL) { /* it was there a moment ago */
        st = sl_fail(SL_EFILE, "%.300s: expected a file edges.csv", request->path);
        goto fail;
    }
    look_at_nodes(nodes, &tables);
    SL_TRY(st, sl_reader_start(sl_reader_table.name, request, &tables, out), fail);
    note_unused(edges, out);
    out->paths[SL_RAW_EDGES] = edges;
    out->paths[SL_RAW_FEATURES] = nodes;
    return SL_OK;
fail:
    sl_free(edges);
    sl_free(nodes);
    return st;
}

/* ---- Ids --------------------------------------------------------------------------------------------------------- */

/* The ids of the vertices, and a hash table over them with open addressing. */
struct names {
    struct cell *ids; /* n */
    uint32_t n;
    uint32_t *slots; /* a vertex or SL_NONE. At most half of them are in use */
    uint64_t n_slots;
};

/* The slot of an id, or the free slot for it. */
static uint64_t slot_of(const struct names *names, struct cell id)
{
    uint64_t slot = sl_checksum(0, id.p, id.n) % names->n_slots;
    for (;; slot = (slot + 1) % names->n_slots) {
        uint32_t v = names->slots[slot];
        if (v == SL_NONE || (names->ids[v].n == id.n && memcmp(names->ids[v].p, id.p, id.n) == 0)) {
            return slot;
        }
    }
}

/* Double the table. */
static enum sl_status grow(struct names *names)
{
    struct names larger = *names;
    enum sl_status st;
    larger.n_slots = names->n_slots > 0 ? 2 * names->n_slots : LEAST_SLOTS;
    SL_TRY(st, sl_realloc(&names->ids, larger.n_slots / 2, sizeof *names->ids, "vertex ids"), done);
    larger.ids = names->ids;
    SL_TRY(st, sl_alloc(larger.n_slots, sizeof *larger.slots, "vertex ids", &larger.slots), done);
    memset(larger.slots, 0xff, larger.n_slots * sizeof *larger.slots);
    for (uint32_t v = 0; v < larger.n; v++) {
        larger.slots[slot_of(&larger, larger.ids[v])] = v;
    }
    sl_free(names->slots);
    *names = larger;
done:
    return st;
}

/* Add an id. It is not there yet. */
static enum sl_status add_name(struct names *names, struct cell id, sl_vertex *out)
{
    if (names->n == SL_NONE - 1) {
        return sl_fail(SL_EFILE, "expected at most %u vertices, found more", SL_NONE - 1);
    }
    if (names->n == names->n_slots / 2) {
        enum sl_status st = grow(names);
        if (st != SL_OK) {
            return st;
        }
    }
    *out = names->n;
    names->slots[slot_of(names, id)] = names->n;
    names->ids[names->n++] = id;
    return SL_OK;
}

static sl_vertex find_name(const struct names *names, struct cell id)
{
    return names->n > 0 ? names->slots[slot_of(names, id)] : SL_NONE;
}

/* Whether each id is the vertex's number. */
static bool are_numbers(const struct names *names)
{
    char number[16];
    for (uint32_t v = 0; v < names->n; v++) {
        if ((size_t)snprintf(number, sizeof number, "%u", v) != names->ids[v].n ||
            memcmp(number, names->ids[v].p, names->ids[v].n) != 0) {
            return false;
        }
    }
    return true;
}

/* List the ids, a line each. NULL: they are 0 .. N-1. */
static enum sl_status list_names(const struct names *names, char **out)
{
    size_t room = 1;
    if (are_numbers(names)) {
        return SL_OK;
    }
    for (uint32_t v = 0; v < names->n; v++) {
        room += names->ids[v].n + 1;
    }
    enum sl_status st = sl_alloc(room, 1, "vertex ids", out);
    if (st != SL_OK) {
        return st;
    }
    char *p = *out;
    for (uint32_t v = 0; v < names->n; v++) {
        p = (char *)memcpy(p, names->ids[v].p, names->ids[v].n) + names->ids[v].n;
        *p++ = '\n';
    }
    *p = '\0';
    return SL_OK;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

/* A table being read, behind its header. */
struct table {
    struct sl_text text;
    struct header header;
    uint32_t n_columns;
    unsigned char *roles; /* enum role of each column */
    uint64_t n_lines;     /* that are not blank */
};

static enum sl_status refuse(const struct table *table, uint32_t column, struct cell found, const char *expected)
{
    const char *p = table->header.start;
    struct cell name = {.n = 0};
    for (uint32_t c = 0; c <= column && p != NULL; c++) {
        name = next_cell(&p, table->header.stop, table->header.separator);
    }
    return sl_fail(SL_EFILE, "%.300s:%llu: column '%.*s': expected %s, found '%.*s'", table->text.path,
                   (unsigned long long)table->text.line, (int)(name.n < 40 ? name.n : 40), name.p, expected,
                   (int)(found.n < 40 ? found.n : 40), found.p);
}

/* Read the header, and count the lines behind it. */
static enum sl_status open_table(struct table *table, bool (*fits)(const struct header *header), const char *expected)
{
    const char *start;
    const char *stop;
    enum sl_status st;
    if (!next_line(&table->text, &start, &stop)) {
        return sl_text_refuse(&table->text, expected);
    }
    table->header = header_of(start, stop);
    if (!fits(&table->header)) {
        return sl_text_refuse(&table->text, expected);
    }
    for (const char *p = start; p != NULL; table->n_columns++) {
        next_cell(&p, stop, table->header.separator);
    }
    if (table->n_columns > MAX_COLUMNS) {
        return sl_text_refuse(&table->text, "at most 2^24 columns");
    }
    SL_TRY(st, sl_alloc(table->n_columns, 1, "columns", &table->roles), done);
    uint32_t c = 0;
    for (const char *p = start; p != NULL; c++) {
        table->roles[c] = (unsigned char)role_of(next_cell(&p, stop, table->header.separator));
    }
    struct sl_text rest = table->text;
    while (next_line(&rest, &start, &stop)) {
        table->n_lines++;
    }
done:
    return st;
}

/* Call `body` for each cell of each line. */
static enum sl_status read_lines(struct table *table, void *context,
                                 enum sl_status (*body)(void *context, uint64_t line, uint32_t column,
                                                        struct cell cell))
{
    const char *p;
    const char *stop;
    enum sl_status st = SL_OK;
    for (uint64_t line = 0; st == SL_OK && next_line(&table->text, &p, &stop); line++) {
        uint32_t c = 0;
        for (; st == SL_OK && p != NULL && c < table->n_columns; c++) {
            struct cell cell = next_cell(&p, stop, table->header.separator);
            if (cell.quoted) {
                undouble_quotes(&cell);
            }
            st = body(context, line, c, cell);
        }
        if (st == SL_OK && (p != NULL || c < table->n_columns)) {
            st = sl_text_refuse(&table->text, "as many columns as the header has");
        }
    }
    return st;
}

static bool read_real(struct cell cell, double *out)
{
    const char *end = cell.p + cell.n;
    return cell.n > 0 && sl_number_real(cell.p, end, out) == end;
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

struct nodes {
    struct table table;
    struct names *names;
    uint32_t n_labels, n_features; /* columns */
    uint64_t next_label, next_feature;
    float *labels, *features;
    unsigned char *set_of; /* 0, or the number of a set of the split. NULL: the split is not read */
};

static enum sl_status read_set(const struct nodes *nodes, uint32_t column, struct cell cell, unsigned char *out)
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

static enum sl_status read_label(struct nodes *nodes, uint32_t column, struct cell cell)
{
    double value = NAN;
    if (cell.n > 0 && (!read_real(cell, &value) || isinf((float)value))) {
        return refuse(&nodes->table, column, cell, "a class from 0 to 65535, another finite number, or nothing");
    }
    nodes->labels[nodes->next_label++] = (float)value;
    return SL_OK;
}

static enum sl_status read_feature(struct nodes *nodes, uint32_t column, struct cell cell)
{
    double value = NAN;
    if (!read_real(cell, &value) || !isfinite((float)value)) {
        return refuse(&nodes->table, column, cell, "a finite number, a feature; leave other columns out");
    }
    nodes->features[nodes->next_feature++] = (float)value;
    return SL_OK;
}

static enum sl_status read_id(struct nodes *nodes, uint32_t column, struct cell cell)
{
    sl_vertex vertex;
    if (cell.n == 0 || find_name(nodes->names, cell) != SL_NONE) {
        return refuse(&nodes->table, column, cell, "an id that no other line has");
    }
    return add_name(nodes->names, cell, &vertex);
}

static enum sl_status node_cell(void *context, uint64_t line, uint32_t column, struct cell cell)
{
    struct nodes *nodes = context;
    switch ((enum role)nodes->table.roles[column]) {
    case ROLE_ID: return read_id(nodes, column, cell);
    case ROLE_LABEL: return read_label(nodes, column, cell);
    case ROLE_SPLIT: return nodes->set_of != NULL ? read_set(nodes, column, cell, &nodes->set_of[line]) : SL_OK;
    default: return nodes->features != NULL ? read_feature(nodes, column, cell) : SL_OK;
    }
}

static enum sl_status alloc_nodes(struct nodes *nodes, const struct sl_raw_files *files)
{
    uint64_t n = nodes->table.n_lines;
    const struct header *header = &nodes->table.header;
    enum sl_status st;
    nodes->n_labels = count_role(header, ROLE_LABEL);
    nodes->n_features = nodes->table.n_columns - nodes->n_labels - count_role(header, ROLE_SPLIT) - 1;
    if (n >= SL_NONE || nodes->n_labels > SL_MAX_CLASSES) {
        return sl_fail(SL_EFILE, "%.300s: expected less than 2^32 - 1 vertices and at most %d labels",
                       nodes->table.text.path, SL_MAX_CLASSES);
    }
    if (files->split[0] != '\0') {
        SL_TRY(st, sl_alloc_zero(n, 1, "a split", &nodes->set_of), done);
    }
    SL_TRY(st, sl_alloc(n * nodes->n_labels, sizeof *nodes->labels, "targets", &nodes->labels), done);
    if (nodes->n_features > 0 && !files->no_features) {
        st = sl_alloc(n * nodes->n_features, sizeof *nodes->features, "features", &nodes->features);
    }
done:
    return st;
}

static enum sl_status give_targets(struct nodes *nodes, const struct sl_raw_files *files, struct sl_raw *out)
{
    float *labels = nodes->labels;
    const char *path = nodes->table.text.path;
    enum sl_target_choice choice = files->targets;
    nodes->labels = NULL;
    if (nodes->n_labels == 0) {
        sl_free(labels);
        return sl_targets_make_unknown(out->n_vertices, &out->targets);
    }
    if (choice == SL_TARGETS_CLASSES) {
        choice = SL_TARGETS_ANY;
    }
    enum sl_status st = sl_targets_take(path, labels, out->n_vertices, nodes->n_labels, choice, &out->targets);
    if (st == SL_OK && files->targets == SL_TARGETS_CLASSES && out->targets.type != SL_TARGET_CLASS) {
        st = sl_fail(SL_EFILE, "%.300s: expected one column of classes from 0 to 65535, found other numbers", path);
    }
    return st;
}

/* Move what was read into the raw tables. */
static enum sl_status give_nodes(struct nodes *nodes, const struct sl_raw_files *files, struct sl_raw *out)
{
    struct sl_ids *lists[] = {&out->train, &out->valid, &out->test};
    enum sl_status st;
    out->n_vertices = nodes->names->n;
    SL_TRY(st, give_targets(nodes, files, out), done);
    if (nodes->features != NULL) {
        out->features = (struct sl_features){.n_rows = out->n_vertices, .n_columns = nodes->n_features};
        out->features.dense = sl_column_take(SL_DTYPE_F32, out->n_vertices, nodes->n_features, nodes->features);
        nodes->features = NULL;
        SL_TRY(st, sl_features_settle(&out->features), done);
    }
    for (int i = 0; i < 3 && nodes->set_of != NULL; i++) {
        SL_TRY(st, sl_ids_list(nodes->set_of, out->n_vertices, (unsigned char)(i + 1), lists[i]), done);
    }
done:
    return st;
}

static enum sl_status read_nodes(const struct sl_raw_files *files, struct sl_text text, struct names *names,
                                 struct sl_raw *out)
{
    struct nodes nodes = {.table = {.text = text}, .names = names};
    enum sl_status st;
    SL_TRY(st, open_table(&nodes.table, is_node_header, "a header with one column id, and at most one column split"),
           done);
    SL_TRY(st, alloc_nodes(&nodes, files), done);
    SL_TRY(st, read_lines(&nodes.table, &nodes, node_cell), done);
    st = give_nodes(&nodes, files, out);
done:
    sl_free(nodes.table.roles);
    sl_free(nodes.labels);
    sl_free(nodes.features);
    sl_free(nodes.set_of);
    return st;
}

/* ---- Edges ------------------------------------------------------------------------------------------------------- */

struct edges {
    struct table table;
    struct names *names;
    bool closed; /* nodes.csv has all ids */
    sl_vertex *ends[2];
    float *weights;
};

static enum sl_status read_end(struct edges *edges, uint32_t column, struct cell cell, sl_vertex *out)
{
    *out = find_name(edges->names, cell);
    if (*out != SL_NONE) {
        return SL_OK;
    }
    if (edges->closed || cell.n == 0) {
        return refuse(&edges->table, column, cell, edges->closed ? "an id of nodes.csv" : "an id");
    }
    return add_name(edges->names, cell, out);
}

static enum sl_status edge_cell(void *context, uint64_t line, uint32_t column, struct cell cell)
{
    struct edges *edges = context;
    double value = -1;
    switch ((enum role)edges->table.roles[column]) {
    case ROLE_SOURCE: return read_end(edges, column, cell, &edges->ends[0][line]);
    case ROLE_DESTINATION: return read_end(edges, column, cell, &edges->ends[1][line]);
    case ROLE_WEIGHT:
        if (!read_real(cell, &value) || !sl_weight_is_valid((float)value)) {
            return refuse(&edges->table, column, cell, "the weight of an edge, a finite number of 0 or more");
        }
        edges->weights[line] = (float)value;
        return SL_OK;
    default: return SL_OK;
    }
}

static enum sl_status read_edges(struct sl_text text, bool closed, struct names *names, struct sl_raw *out)
{
    struct edges edges = {.table = {.text = text}, .names = names, .closed = closed};
    enum sl_status st;
    SL_TRY(st,
           open_table(&edges.table, is_edge_header,
                      "a header with the columns src and dst, and perhaps weight: 'src,dst'"),
           done);
    uint64_t n = edges.table.n_lines;
    SL_TRY(st, sl_alloc(n, sizeof(sl_vertex), "edges", &out->from), done);
    SL_TRY(st, sl_alloc(n, sizeof(sl_vertex), "edges", &out->to), done);
    edges.ends[0] = out->from;
    edges.ends[1] = out->to;
    if (count_role(&edges.table.header, ROLE_WEIGHT) > 0) {
        SL_TRY(st, sl_alloc(n, sizeof *edges.weights, "edge weights", &edges.weights), done);
        out->weights = sl_column_take(SL_DTYPE_F32, n, 1, edges.weights);
    }
    SL_TRY(st, read_lines(&edges.table, &edges, edge_cell), done);
    out->n_edges = n;
done:
    sl_free(edges.table.roles);
    return st;
}

/* ---- The dataset ------------------------------------------------------------------------------------------------- */

static enum sl_status read_all(const struct sl_raw_files *files, struct sl_text edges, struct sl_text nodes,
                               struct sl_raw *out)
{
    struct names names = {.n = 0};
    bool has_nodes = nodes.path != NULL;
    enum sl_status st;
    snprintf(out->split, sizeof out->split, "%s", files->split);
    if (has_nodes) {
        SL_TRY(st, read_nodes(files, nodes, &names, out), done);
    }
    SL_TRY(st, read_edges(edges, has_nodes, &names, out), done);
    if (!has_nodes) {
        out->n_vertices = names.n;
        SL_TRY(st, sl_targets_make_unknown(names.n, &out->targets), done);
        out->numbered = true;
    }
    SL_TRY(st, list_names(&names, &out->vertex_names), done);
    st = sl_raw_settle(files, nodes.path, out);
done:
    sl_free(names.ids);
    sl_free(names.slots);
    return st;
}

static enum sl_status read_text(const char *path, char **data, struct sl_text *out)
{
    struct inflated all = {.path = path};
    enum sl_status st = sl_reader_ends_in(path, ".gz") ? inflate_file(path, &all)
                                                       : sl_file_read(path, MAX_BYTES, &all.data, &all.bytes);
    if (st == SL_OK) {
        *data = all.data;
        *out = (struct sl_text){.path = path, .p = all.data, .end = all.data + all.bytes};
    }
    return st;
}

static enum sl_status read_dataset(const struct sl_raw_files *files, struct sl_raw *out)
{
    const char *node_path = files->paths[SL_RAW_FEATURES];
    struct sl_text edges = {0};
    struct sl_text nodes = {0};
    char *edge_data = NULL;
    char *node_data = NULL;
    enum sl_status st;
    *out = (struct sl_raw){0};
    SL_TRY(st, read_text(files->paths[SL_RAW_EDGES], &edge_data, &edges), done);
    if (node_path != NULL) {
        SL_TRY(st, read_text(node_path, &node_data, &nodes), done);
    }
    st = read_all(files, edges, nodes, out);
done:
    sl_free(edge_data);
    sl_free(node_data);
    if (st != SL_OK) {
        sl_raw_free(out);
    }
    return st;
}

const struct sl_reader sl_reader_table = {
    .name = "an edge list with a header", .recognise = recognise, .find = find, .read = read_dataset};
