/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Tables of numbers: parsing the blocks of lines from line_reader.c. */
#include "data/csv.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/features.h"
#include "data/line_reader.h"
#include "data/names.h"
#include "data/text_lines.h"
#include "support/memory.h"
#include "support/number.h"

#define MAX_COLUMNS (1 << 24)
#define NAME_BYTES 512
#define MAX_RATIO 1032 /* bytes of text per byte of file: deflate reaches no more */

/* ---- One line ---------------------------------------------------------------------------------------------------- */

/* Whether a line begins with a number; nan and inf are numbers, info is not. */
static bool begins_with_number(const char *start, const char *end)
{
    double number;
    const char *stop = sl_number_real(start, end, &number);
    return stop != NULL && (stop == end || !(isalnum((unsigned char)*stop) || *stop == '_'));
}

/* Report line `n` of the block: expected text, and the text found at `start`. */
static enum sl_status bad_line(const struct sl_lines *lines, uint64_t n, const char *start, const char *end,
                               const char *expected)
{
    char found[41];
    size_t length = 0;
    for (; length < sizeof found - 1 && start + length < end; length++) {
        char c = start[length];
        found[length] = c >= ' ' && c < 127 ? c : '?';
    }
    found[length] = '\0';
    const char *advice = "";
    if (start < end && *start == '#') {
        advice = "; leave out the lines that begin with '#'";
    } else if (lines->first_line + n == 0 && start < end &&
               (isalpha((unsigned char)*start) || strchr("\"'_,", *start) != NULL) && !begins_with_number(start, end)) {
        advice = "; write it without a header line (pandas: to_csv(.., header=False, index=False))";
    }
    return sl_fail(SL_EFILE, "%s:%llu: expected %s, found '%s'%s", lines->path,
                   (unsigned long long)(lines->first_line + n + 1), expected, found, advice);
}

/* Read an id below n at `p`. NULL: none there. */
static inline const char *read_id(const char *p, const char *end, uint32_t n, sl_vertex *out)
{
    uint64_t value = 0;
    p = sl_number_whole(p, end, &value);
    *out = (sl_vertex)value;
    return p != NULL && value < n ? p : NULL;
}

/* Read the lines and check their number: exactly `n_lines`. */
static enum sl_status read_exactly(const char *path, uint64_t n_lines,
                                   enum sl_status (*body)(void *context, const struct sl_lines *lines), void *context)
{
    uint64_t found = 0;
    enum sl_status st = sl_lines_read(path, n_lines, body, context, &found);
    if (st == SL_OK && found != n_lines) {
        st = sl_fail(SL_EFILE, "%s:%llu: expected %llu lines, found %llu", path, (unsigned long long)found + 1,
                     (unsigned long long)n_lines, (unsigned long long)found);
    }
    return st;
}

/* Refuse a number of lines beyond the length of the file, before memory is allocated for so many lines.
 * `line_bytes` is the length of the shortest line, its end included. Only a regular file has a length to check. */
static enum sl_status check_length(const char *path, uint64_t n_lines, uint64_t line_bytes)
{
    struct stat info;
    uint64_t least;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        return SL_OK;
    }
    uint64_t most = (uint64_t)info.st_size > UINT64_MAX / MAX_RATIO ? UINT64_MAX : (uint64_t)info.st_size * MAX_RATIO;
    if (__builtin_mul_overflow(n_lines, line_bytes, &least) || (least > 0 && least - 1 > most)) {
        return sl_fail(SL_EFILE, "%s: too short (%lld bytes) for the expected %llu lines", path,
                       (long long)info.st_size, (unsigned long long)n_lines);
    }
    return SL_OK;
}

/* Name a memory block in messages: its file, and its content. */
static void name_block(const char *path, const char *content, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%.400s: %s", path, content);
}

/* ---- Counts, edges, labels, ids ---------------------------------------------------------------------------------- */

static enum sl_status count_lines(void *context, const struct sl_lines *lines)
{
    const char *next;
    if (lines->n_lines == 0) {
        return SL_OK;
    }
    const char *end = sl_lines_end(lines, lines->text, &next);
    if (sl_number_whole(lines->text, end, context) != end) {
        return bad_line(lines, 0, lines->text, end, "a count");
    }
    return SL_OK;
}

enum sl_status sl_csv_read_count(const char *path, uint64_t *out)
{
    uint64_t count = 0;
    SL_CHECK(read_exactly(path, 1, count_lines, &count));
    *out = count;
    return SL_OK;
}

static enum sl_status count_full_lines(void *context, const struct sl_lines *lines)
{
    atomic_ullong *count = context;
    const char *p = lines->text;
    const char *next;
    uint64_t n = 0;
    for (uint64_t i = 0; i < lines->n_lines; i++, p = next) {
        n += sl_lines_end(lines, p, &next) > p;
    }
    atomic_fetch_add(count, n);
    return SL_OK;
}

enum sl_status sl_csv_count_lines(const char *path, uint64_t *out)
{
    atomic_ullong count = 0;
    uint64_t n_lines;
    SL_CHECK(sl_lines_read(path, UINT64_MAX, count_full_lines, &count, &n_lines));
    *out = atomic_load(&count);
    return SL_OK;
}

/* Pairs of ids or, with relations, triples. */
struct edge_table {
    uint32_t n_vertices;
    sl_vertex *from, *to;
    uint32_t *relations; /* NULL: pairs */
};

/* Read the ids of a line into row `row`. False: it has others. */
static bool read_edge(const struct edge_table *table, const char *p, const char *end, uint64_t row)
{
    p = read_id(p, end, table->n_vertices, &table->from[row]);
    if (table->relations != NULL && p != NULL && p < end) {
        p = *p == ',' ? read_id(p + 1, end, SL_NONE, &table->relations[row]) : NULL;
    }
    return p != NULL && p < end && *p == ',' && read_id(p + 1, end, table->n_vertices, &table->to[row]) == end;
}

static enum sl_status edge_lines(void *context, const struct sl_lines *lines)
{
    const struct edge_table *table = context;
    const char *p = lines->text;
    const char *next;
    for (uint64_t i = 0; i < lines->n_lines; i++, p = next) {
        const char *end = sl_lines_end(lines, p, &next);
        if (!read_edge(table, p, end, lines->first_line + i)) {
            char expected[80];
            snprintf(expected, sizeof expected,
                     table->relations != NULL ? "'head,relation,tail', head and tail two ids below %u"
                                              : "'source,destination', two ids below %u",
                     table->n_vertices);
            return bad_line(lines, i, p, end, expected);
        }
    }
    return SL_OK;
}

/* Read n lines of at least line_bytes bytes. name: of the memory block. relations_out: NULL: pairs. */
static enum sl_status read_edges(const char *path, const char *name, uint32_t n_vertices, uint64_t n,
                                 uint64_t line_bytes, sl_vertex **from_out, uint32_t **relations_out,
                                 sl_vertex **to_out)
{
    struct edge_table table = {.n_vertices = n_vertices};
    char block[NAME_BYTES];
    enum sl_status st;
    name_block(path, name, block);
    SL_TRY(st, check_length(path, n, line_bytes), fail);
    SL_TRY(st, sl_alloc(n, sizeof *table.from, block, &table.from), fail);
    SL_TRY(st, sl_alloc(n, sizeof *table.to, block, &table.to), fail);
    if (relations_out != NULL) {
        SL_TRY(st, sl_alloc(n, sizeof *table.relations, block, &table.relations), fail);
    }
    SL_TRY(st, read_exactly(path, n, edge_lines, &table), fail);
    *from_out = table.from;
    *to_out = table.to;
    if (relations_out != NULL) {
        *relations_out = table.relations;
    }
    return SL_OK;
fail:
    sl_free(table.from);
    sl_free(table.to);
    sl_free(table.relations);
    return st;
}

enum sl_status sl_csv_read_edges(const char *path, uint32_t n_vertices, uint64_t n_edges, sl_vertex **from_out,
                                 sl_vertex **to_out)
{
    return read_edges(path, "edges", n_vertices, n_edges, sizeof "0,1\n" - 1, from_out, NULL, to_out);
}

enum sl_status sl_csv_read_links(const char *path, uint32_t n_vertices, uint64_t n, sl_vertex **from_out,
                                 uint32_t **relations_out, sl_vertex **to_out)
{
    struct sl_text text;
    uint32_t n_commas = 0;
    *relations_out = NULL;
    SL_CHECK(sl_lines_read_text(path, true, &text));
    for (const char *p = text.p; p < text.end && *p != '\n'; p++) {
        n_commas += *p == ',';
    }
    sl_free(text.data);
    if (n_commas < 2) {
        return sl_csv_read_edges(path, n_vertices, n, from_out, to_out);
    }
    return read_edges(path, "links", n_vertices, n, sizeof "0,0,1\n" - 1, from_out, relations_out, to_out);
}

/* A table of numbers. The first block of lines sets the width. */
struct number_table {
    const char *path;
    const char *content; /* "targets" */
    const char *expected;
    bool (*is_good)(float x);
    uint64_t n_rows;
    uint32_t width, most; /* columns */
    float *numbers;
    atomic_bool points, whole; /* some number has a decimal point, or none */
};

/* Read the number at `p`, up to a comma or the end; nan if the place is empty, quoted or not, or says so. NULL:
 * something else. */
static const char *read_number(const char *p, const char *end, float *out)
{
    double value = NAN;
    if (end - p >= 2 && memcmp(p, "\"\"", 2) == 0) {
        p += 2;
    } else if (p < end && *p != ',') {
        p = sl_number_real(p, end, &value);
    }
    *out = (float)value;
    return p == NULL || (p < end && *p != ',') ? NULL : p;
}

static enum sl_status start_numbers(struct number_table *table, const char *p, const char *end)
{
    char name[NAME_BYTES];
    uint64_t width = 1;
    for (; p < end && table->most > 1; p++) {
        width += *p == ',';
    }
    SL_FAIL_IF(width > table->most, SL_EFILE, "%s:1: expected at most %u %s, found %llu", table->path, table->most,
               table->content, (unsigned long long)width);
    table->width = (uint32_t)width;
    name_block(table->path, table->content, name);
    SL_CHECK(check_length(table->path, table->n_rows, width));
    return sl_alloc((size_t)table->n_rows * width, sizeof *table->numbers, name, &table->numbers);
}

static enum sl_status bad_numbers(const struct number_table *table, const struct sl_lines *lines, uint64_t line,
                                  const char *start, const char *end)
{
    char several[64];
    snprintf(several, sizeof several, "%u finite numbers or nan, separated by commas", table->width);
    return bad_line(lines, line, start, end, table->width > 1 ? several : table->expected);
}

static enum sl_status number_lines(void *context, const struct sl_lines *lines)
{
    struct number_table *table = context;
    const char *p = lines->text;
    const char *next;
    enum sl_status st = SL_OK;
    if (lines->n_lines > 0 && table->numbers == NULL) {
        st = start_numbers(table, p, sl_lines_end(lines, p, &next));
    }
    for (uint64_t i = 0; st == SL_OK && i < lines->n_lines; i++, p = next) {
        const char *end = sl_lines_end(lines, p, &next);
        const char *start = p;
        float *row = table->numbers + (lines->first_line + i) * table->width;
        for (uint32_t c = 0; c < table->width && p != NULL; c++) {
            p = read_number(p, end, &row[c]);
            if (p != NULL && !table->is_good(row[c])) {
                p = NULL;
            } else if (p != NULL && c + 1 < table->width) {
                p = p < end ? p + 1 : NULL;
            }
        }
        if (p != end) {
            st = bad_numbers(table, lines, i, start, end);
        } else if (memchr(start, '.', (size_t)(end - start)) != NULL) {
            atomic_store(&table->points, true);
        } else if (!isnan(row[0])) {
            atomic_store(&table->whole, true);
        }
    }
    return st;
}

static enum sl_status read_table(struct number_table *table)
{
    enum sl_status st = read_exactly(table->path, table->n_rows, number_lines, table);
    if (st == SL_OK && table->numbers == NULL) { /* no rows */
        st = sl_alloc(0, sizeof *table->numbers, table->content, &table->numbers);
    }
    if (st != SL_OK) {
        sl_free(table->numbers);
    }
    return st;
}

enum sl_status sl_csv_read_weights(const char *path, uint64_t n_edges, float **out)
{
    struct number_table table = {.path = path,
                                 .content = "edge weights",
                                 .expected = SL_WEIGHT_EXPECTED,
                                 .is_good = sl_weight_is_valid,
                                 .n_rows = n_edges,
                                 .width = 1,
                                 .most = 1};
    SL_CHECK(read_table(&table));
    *out = table.numbers;
    return SL_OK;
}

/* ---- Labels as text ---------------------------------------------------------------------------------------------- */

/* Read labels, one a line, as names of classes, if they are names (*are_names). If they are not, the message stays. */
static enum sl_status read_names(const char *path, uint32_t n_rows, bool *are_names, struct sl_targets *out,
                                 char **names)
{
    struct sl_label_kinds kinds = {0};
    struct sl_text_cell *labels = NULL;
    struct sl_text text;
    const char *p;
    const char *stop;
    atomic_ullong n_full = 0;
    bool wide = false; /* some line has several cells */
    enum sl_status st;
    SL_CHECK(sl_lines_read_text(path, false, &text));
    SL_TRY(st, check_length(path, n_rows, 1), done);
    SL_TRY(st, sl_alloc(n_rows, sizeof *labels, "labels", &labels), done);
    for (uint64_t n = 0; sl_text_next(&text, &p, &stop); n++) {
        bool quoted;
        struct sl_text_cell label = sl_names_take(&p, stop, ',', &quoted);
        label.n = quoted ? sl_text_undouble_quotes(label.p, label.n) : label.n;
        wide |= p != NULL;
        sl_label_kinds_count(&kinds, label, n);
        if (n < n_rows) {
            labels[n] = label;
        }
    }
    const bool header = kinds.n_texts == 1 && kinds.n_numbers > 0 && kinds.text == 0;
    *are_names = !wide && !header && sl_label_kinds_are_names(&kinds);
    if (*are_names) {
        SL_TRY(st, read_exactly(path, n_rows, count_full_lines, &n_full), done);
        st = sl_label_classes(path, &kinds, labels, n_rows, out, names);
    }
done:
    sl_free(labels);
    sl_free(text.data);
    return st;
}

/* ---- Targets ----------------------------------------------------------------------------------------------------- */

static enum sl_status read_numbers(const char *path, uint32_t n_rows, enum sl_target_choice choice,
                                   struct sl_targets *out)
{
    static const char *const expected[] = {
        [SL_TARGETS_ANY] = "one class from 0 to 65535, another finite number, or nan",
        [SL_TARGETS_CLASSES] = "one class from 0 to 65535, or nan",
        [SL_TARGETS_NUMBERS] = "one finite number, or nan",
    };
    const bool classes = choice == SL_TARGETS_CLASSES;
    struct number_table table = {.path = path,
                                 .content = "targets",
                                 .expected = expected[choice],
                                 .is_good = classes ? sl_target_is_class : sl_target_is_number,
                                 .n_rows = n_rows,
                                 .width = 1,
                                 .most = classes ? 1 : SL_MAX_CLASSES};
    SL_CHECK(read_table(&table));
    SL_CHECK(sl_targets_take(path, table.numbers, n_rows, table.width, choice, out));
    if (choice == SL_TARGETS_ANY && atomic_load(&table.points) && !atomic_load(&table.whole)) {
        sl_targets_tell_whole(path, out);
    }
    return SL_OK;
}

enum sl_status sl_csv_read_targets(const char *path, uint32_t n_rows, enum sl_target_choice choice,
                                   struct sl_targets *out, char **names)
{
    bool are_names = false;
    enum sl_status st = read_numbers(path, n_rows, choice, out);
    if (st != SL_EFILE || names == NULL || choice == SL_TARGETS_NUMBERS) {
        return st;
    }
    enum sl_status as_names = read_names(path, n_rows, &are_names, out, names);
    return are_names || as_names != SL_OK ? as_names : st;
}

struct id_table {
    uint32_t n_vertices;
    sl_vertex *ids;
};

static enum sl_status id_lines(void *context, const struct sl_lines *lines)
{
    struct id_table *table = context;
    const char *p = lines->text;
    const char *next;
    for (uint64_t i = 0; i < lines->n_lines; i++, p = next) {
        const char *end = sl_lines_end(lines, p, &next);
        sl_vertex *id = &table->ids[lines->first_line + i];
        if (p == end) {
            *id = SL_NONE; /* sorted to the end, and dropped there */
        } else if (read_id(p, end, table->n_vertices, id) != end) {
            char expected[64];
            snprintf(expected, sizeof expected, "one id below %u", table->n_vertices);
            return bad_line(lines, i, p, end, expected);
        }
    }
    return SL_OK;
}

enum sl_status sl_csv_read_ids(const char *path, uint32_t n_vertices, struct sl_ids *out)
{
    struct id_table table = {.n_vertices = n_vertices};
    uint64_t n = 0;
    enum sl_status st;
    /* No id may come twice, so there are at most n_vertices. */
    SL_TRY(st, sl_alloc(n_vertices, sizeof *table.ids, "split", &table.ids), fail);
    SL_TRY(st, sl_lines_read(path, n_vertices, id_lines, &table, &n), fail);
    return sl_ids_take(path, n_vertices, false, n, table.ids, out);
fail:
    sl_free(table.ids);
    return st;
}

/* ---- Features ---------------------------------------------------------------------------------------------------- */

/* The non-zeros of one block of lines. */
struct piece {
    struct piece *next;
    uint64_t first_line;
    uint64_t n;
    uint64_t room;
    uint32_t *columns;
    float *values;
};

/* The table being read. The first block sets n_columns and chooses dense or CSR; later blocks follow. While CSR is
 * read, offsets[r + 1] holds the number of non-zeros of row r. */
struct feature_table {
    const char *path;
    struct sl_features features;
    bool started;
    pthread_mutex_t mutex; /* guards `pieces` */
    struct piece *pieces;
};

static void free_pieces(struct piece *piece)
{
    while (piece != NULL) {
        struct piece *next = piece->next;
        sl_free(piece->columns);
        sl_free(piece->values);
        sl_free(piece);
        piece = next;
    }
}

static enum sl_status bad_value(const struct feature_table *table, const struct sl_lines *lines, uint64_t i,
                                const char *start, const char *end)
{
    char expected[64];
    snprintf(expected, sizeof expected, "%u finite numbers separated by commas", table->features.n_columns);
    return bad_line(lines, i, start, end, expected);
}

/* Read value `c` of `n` at `p`, and the comma after it. NULL: the text is not a finite number, or the line ends
 * early or late. */
static inline const char *read_value(const char *p, const char *end, uint32_t c, uint32_t n, float *out)
{
    double value;
    p = sl_number_real(p, end, &value);
    float x = (float)value;
    if (p == NULL || !isfinite(x)) {
        return NULL;
    }
    *out = x;
    if (c + 1 == n) {
        return p == end ? p : NULL;
    }
    return p < end && *p == ',' ? p + 1 : NULL;
}

static enum sl_status dense_lines(struct feature_table *table, const struct sl_lines *lines)
{
    uint32_t n = table->features.n_columns;
    const char *p = lines->text;
    const char *next;
    for (uint64_t i = 0; i < lines->n_lines; i++, p = next) {
        float *row = sl_column_row(&table->features.dense, lines->first_line + i);
        const char *end = sl_lines_end(lines, p, &next);
        for (uint32_t c = 0; c < n; c++) {
            const char *start = p;
            p = read_value(p, end, c, n, &row[c]);
            if (p == NULL) {
                return bad_value(table, lines, i, start, end);
            }
        }
    }
    return SL_OK;
}

static enum sl_status grow_piece(struct piece *piece)
{
    uint64_t room = piece->room == 0 ? 4096 : piece->room * 2;
    SL_CHECK(sl_realloc(&piece->columns, room, sizeof *piece->columns, "feature columns"));
    SL_CHECK(sl_realloc(&piece->values, room, sizeof *piece->values, "feature values"));
    piece->room = room;
    return SL_OK;
}

/* Append the non-zeros of the line at `p` to the piece. */
static enum sl_status csr_line(struct feature_table *table, const struct sl_lines *lines, uint64_t i, const char *p,
                               const char *end, struct piece *piece)
{
    uint32_t n = table->features.n_columns;
    for (uint32_t c = 0; c < n; c++) {
        float x;
        const char *start = p;
        if (p + 1 < end && *p == '0' && p[1] == ',' && c + 1 < n) {
            p += 2; /* the common case in a bag of words */
            continue;
        }
        p = read_value(p, end, c, n, &x);
        if (p == NULL) {
            return bad_value(table, lines, i, start, end);
        }
        if (x == 0) {
            continue;
        }
        if (piece->n == piece->room) {
            SL_CHECK(grow_piece(piece));
        }
        piece->columns[piece->n] = c;
        piece->values[piece->n++] = x;
    }
    return SL_OK;
}

static enum sl_status csr_lines(struct feature_table *table, const struct sl_lines *lines)
{
    struct piece *piece;
    enum sl_status st = SL_OK;
    SL_CHECK(sl_alloc_zero(1, sizeof *piece, "feature rows", &piece));
    piece->first_line = lines->first_line;
    pthread_mutex_lock(&table->mutex);
    piece->next = table->pieces;
    table->pieces = piece;
    pthread_mutex_unlock(&table->mutex);
    const char *p = lines->text;
    const char *next;
    for (uint64_t i = 0; i < lines->n_lines && st == SL_OK; i++, p = next) {
        const char *end = sl_lines_end(lines, p, &next);
        uint64_t before = piece->n;
        st = csr_line(table, lines, i, p, end, piece);
        table->features.offsets[lines->first_line + i + 1] = piece->n - before;
    }
    return st;
}

/* Count the values and the zeros of the first line. They decide between dense and CSR. */
static void look_at_line(const char *p, const char *end, uint64_t *n_values, uint64_t *n_zeros)
{
    *n_values = 1;
    *n_zeros = 0;
    for (; p < end; p++) {
        bool starts = *n_values == 1 || p[-1] == ',';
        *n_zeros += *p == '0' && starts && (p + 1 == end || p[1] == ',');
        *n_values += *p == ',';
    }
}

static enum sl_status start_features(struct feature_table *table, const struct sl_lines *lines)
{
    struct sl_features *features = &table->features;
    const char *next;
    const char *end = sl_lines_end(lines, lines->text, &next);
    uint64_t n_values;
    uint64_t n_zeros;
    look_at_line(lines->text, end, &n_values, &n_zeros);
    SL_FAIL_IF(n_values > MAX_COLUMNS, SL_EFILE, "%s:1: expected at most %d values, found %llu", lines->path,
               MAX_COLUMNS, (unsigned long long)n_values);
    features->n_columns = (uint32_t)n_values;
    table->started = true;
    SL_CHECK(check_length(table->path, features->n_rows, 2 * n_values));
    if (sl_features_sparse(n_values - n_zeros, 1, features->n_columns)) {
        return sl_alloc_zero((size_t)features->n_rows + 1, sizeof *features->offsets, "feature offsets",
                             &features->offsets);
    }
    char name[NAME_BYTES];
    float *dense;
    name_block(table->path, "features", name);
    SL_CHECK(sl_alloc((size_t)features->n_rows * features->n_columns, sizeof *dense, name, &dense));
    features->dense = sl_column_take(SL_DTYPE_F32, features->n_rows, features->n_columns, dense);
    return SL_OK;
}

static enum sl_status feature_lines(void *context, const struct sl_lines *lines)
{
    struct feature_table *table = context;
    if (lines->n_lines == 0) {
        return SL_OK;
    }
    if (!table->started) {
        SL_CHECK(start_features(table, lines));
    }
    if (table->features.dense.data != NULL) {
        return dense_lines(table, lines);
    }
    return csr_lines(table, lines);
}

/* Concatenate the pieces in the order of their lines. */
static enum sl_status join_pieces(struct feature_table *table)
{
    struct sl_features *features = &table->features;
    for (uint64_t r = 0; r < features->n_rows; r++) {
        features->offsets[r + 1] += features->offsets[r];
    }
    uint64_t n = features->offsets[features->n_rows];
    enum sl_status st = sl_alloc(n, sizeof *features->columns, "feature columns", &features->columns);
    if (st == SL_OK) {
        st = sl_alloc(n, sizeof *features->values, "feature values", &features->values);
    }
    if (st != SL_OK) {
        return st;
    }
    for (struct piece *piece = table->pieces; piece != NULL; piece = piece->next) {
        uint64_t to = features->offsets[piece->first_line];
        if (piece->n > 0) {
            memcpy(features->columns + to, piece->columns, piece->n * sizeof *piece->columns);
            memcpy(features->values + to, piece->values, piece->n * sizeof *piece->values);
        }
    }
    return SL_OK;
}

static enum sl_status read_features(struct feature_table *table)
{
    enum sl_status st = SL_OK;
    SL_CHECK(read_exactly(table->path, table->features.n_rows, feature_lines, table));
    if (!table->started) { /* no rows: an empty table is dense */
        return sl_alloc(0, sizeof(float), "features", &table->features.dense.data);
    }
    if (table->features.offsets != NULL) {
        st = join_pieces(table);
    }
    if (st == SL_OK) {
        st = sl_features_settle(&table->features);
    }
    return st;
}

enum sl_status sl_csv_read_features(const char *path, uint32_t n_rows, struct sl_features *out)
{
    struct feature_table table = {.path = path, .features = {.n_rows = n_rows}};
    *out = (struct sl_features){0};
    pthread_mutex_init(&table.mutex, NULL);
    enum sl_status st = read_features(&table);
    pthread_mutex_destroy(&table.mutex);
    free_pieces(table.pieces);
    if (st != SL_OK) {
        sl_features_free(&table.features);
        return st;
    }
    *out = table.features;
    return SL_OK;
}
