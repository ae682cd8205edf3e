/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Tables of numbers: parsing the blocks of lines from line_reader.c. */
#include "data/csv.h"

#include <ctype.h>
#include <math.h>
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
#include "support/text.h"

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
    SL_CHECK(sl_lines_read(path, n_lines, body, context, &found));
    SL_FAIL_IF(found != n_lines, SL_EFILE, "%s:%llu: expected %llu lines, found %llu", path,
               (unsigned long long)found + 1, (unsigned long long)n_lines, (unsigned long long)found);
    return SL_OK;
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

/* Read n lines. relations_out: NULL: pairs. */
static enum sl_status read_edges(const char *path, uint32_t n_vertices, uint64_t n, sl_vertex **from_out,
                                 uint32_t **relations_out, sl_vertex **to_out)
{
    SL_FREED sl_vertex *from = NULL;
    SL_FREED sl_vertex *to = NULL;
    SL_FREED uint32_t *relations = NULL;
    char block[NAME_BYTES];
    name_block(path, relations_out != NULL ? "links" : "edges", block);
    SL_CHECK(check_length(path, n, relations_out != NULL ? sizeof "0,0,1\n" - 1 : sizeof "0,1\n" - 1));
    SL_CHECK(sl_alloc(n, sizeof *from, block, &from));
    SL_CHECK(sl_alloc(n, sizeof *to, block, &to));
    if (relations_out != NULL) {
        SL_CHECK(sl_alloc(n, sizeof *relations, block, &relations));
    }
    struct edge_table table = {.n_vertices = n_vertices, .from = from, .to = to, .relations = relations};
    SL_CHECK(read_exactly(path, n, edge_lines, &table));
    *from_out = SL_TAKE(from);
    *to_out = SL_TAKE(to);
    if (relations_out != NULL) {
        *relations_out = SL_TAKE(relations);
    }
    return SL_OK;
}

enum sl_status sl_csv_read_edges(const char *path, uint32_t n_vertices, uint64_t n_edges, sl_vertex **from_out,
                                 sl_vertex **to_out)
{
    return read_edges(path, n_vertices, n_edges, from_out, NULL, to_out);
}

enum sl_status sl_csv_read_links(const char *path, uint32_t n_vertices, uint64_t n, sl_vertex **from_out,
                                 uint32_t **relations_out, sl_vertex **to_out)
{
    SL_OWNED(sl_lines_free) struct sl_text text = {0};
    uint32_t n_commas = 0;
    *relations_out = NULL;
    SL_CHECK(sl_lines_read_text(path, true, &text));
    for (const char *p = text.p; p < text.end && *p != '\n'; p++) {
        n_commas += *p == ',';
    }
    if (n_commas < 2) {
        return sl_csv_read_edges(path, n_vertices, n, from_out, to_out);
    }
    return read_edges(path, n_vertices, n, from_out, relations_out, to_out);
}

/* The non-zeros of one block of lines. */
struct piece {
    struct piece *next;
    uint64_t first_line;
    uint64_t n;
    uint64_t room;
    uint32_t *columns;
    float *values;
};

/* A table of numbers. The first block of lines sets the width. It also decides whether rows go to `numbers`, or their
 * non-zeros to pieces. */
struct number_table {
    const char *path;
    const char *content;  /* "targets" */
    const char *expected; /* in a single column; NULL: as in several columns */
    bool (*is_good)(float x);
    uint64_t n_rows;
    uint32_t width, most; /* columns */
    bool features;        /* finite, and maybe sparse */
    float *numbers;       /* NULL: sparse */
    uint32_t *counts;     /* of a sparse table, by row: the non-zeros */
    _Atomic(struct piece *) pieces;
    atomic_bool points, whole; /* some number has a decimal point, or none */
};

static bool is_finite(float x)
{
    return isfinite(x);
}

/* Read the number at `p`, up to a comma or the end; nan if the place is empty, quoted or not, or says so. NULL:
 * something else. */
static inline const char *read_number(const char *p, const char *end, float *out)
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

/* Read a line. Returns the start of the first number that is wrong, or has no place or no end. NULL: all are good. */
static const char *read_row(const struct number_table *table, const char *p, const char *end, float *row)
{
    for (uint32_t c = 0; c < table->width; c++) {
        const bool last = c + 1 == table->width;
        if (!last && end - p >= 2 && p[0] == '0' && p[1] == ',') { /* the common case in a bag of words */
            row[c] = 0;
            p += 2;
            continue;
        }
        const char *start = p;
        p = read_number(p, end, &row[c]);
        if (p == NULL || (p == end) != last || !table->is_good(row[c])) {
            return start;
        }
        p += !last;
    }
    return NULL;
}

static enum sl_status start_numbers(struct number_table *table, const struct sl_lines *lines)
{
    char name[NAME_BYTES];
    const char *start = lines->text;
    const char *next;
    const char *end = sl_lines_end(lines, start, &next);
    uint64_t width = 1;
    uint64_t n_zeros = 0;
    for (const char *p = start; p < end && table->most > 1; p++) {
        n_zeros += *p == '0' && (p == start || p[-1] == ',') && (p + 1 == end || p[1] == ',');
        width += *p == ',';
    }
    SL_FAIL_IF(width > table->most, SL_EFILE, "%s:1: expected at most %u %s, found %llu", table->path, table->most,
               table->content, (unsigned long long)width);
    table->width = (uint32_t)width;
    name_block(table->path, table->content, name);
    SL_CHECK(check_length(table->path, table->n_rows, table->features ? 2 * width : width));
    if (table->features && sl_features_sparse(width - n_zeros, 1, table->width)) {
        return sl_alloc(table->n_rows, sizeof *table->counts, name, &table->counts);
    }
    return sl_alloc((size_t)table->n_rows * width, sizeof *table->numbers, name, &table->numbers);
}

static enum sl_status bad_numbers(const struct number_table *table, const struct sl_lines *lines, uint64_t line,
                                  const char *start, const char *end)
{
    char several[64];
    snprintf(several, sizeof several, "%u finite numbers%s separated by commas", table->width,
             table->features ? "" : " or nan,");
    return bad_line(lines, line, start, end, table->width > 1 ? several : sl_text_or(table->expected, several));
}

static enum sl_status add_piece(struct number_table *table, uint64_t first_line, struct piece **out)
{
    struct piece *piece;
    SL_CHECK(sl_alloc_zero(1, sizeof *piece, "feature rows", &piece));
    piece->first_line = first_line;
    piece->next = atomic_load(&table->pieces);
    while (!atomic_compare_exchange_weak(&table->pieces, &piece->next, piece)) {
    }
    *out = piece;
    return SL_OK;
}

/* Append the non-zeros of row r. */
static enum sl_status append_row(const struct number_table *table, const float *row, uint64_t r, struct piece *piece)
{
    const uint64_t before = piece->n;
    for (uint32_t c = 0; c < table->width; c++) {
        if (row[c] == 0) {
            continue;
        }
        if (piece->n == piece->room) {
            const uint64_t room = piece->room == 0 ? 4096 : piece->room * 2;
            SL_CHECK(sl_realloc(&piece->columns, room, sizeof *piece->columns, "feature columns"));
            SL_CHECK(sl_realloc(&piece->values, room, sizeof *piece->values, "feature values"));
            piece->room = room;
        }
        piece->columns[piece->n] = c;
        piece->values[piece->n++] = row[c];
    }
    table->counts[r] = (uint32_t)(piece->n - before);
    return SL_OK;
}

static enum sl_status number_lines(void *context, const struct sl_lines *lines)
{
    struct number_table *table = context;
    struct piece *piece = NULL;
    SL_FREED float *room = NULL; /* a row of a sparse table */
    const char *p = lines->text;
    const char *next;
    bool points = false;
    bool whole = false;
    if (lines->n_lines > 0 && table->numbers == NULL && table->counts == NULL) {
        SL_CHECK(start_numbers(table, lines));
    }
    if (table->counts != NULL) {
        SL_CHECK(add_piece(table, lines->first_line, &piece));
        SL_CHECK(sl_alloc(table->width, sizeof *room, "a row of features", &room));
    }
    for (uint64_t i = 0; i < lines->n_lines; i++, p = next) {
        const char *end = sl_lines_end(lines, p, &next);
        const uint64_t r = lines->first_line + i;
        float *row = room != NULL ? room : table->numbers + r * table->width;
        const char *wrong = read_row(table, p, end, row);
        if (wrong != NULL) {
            return bad_numbers(table, lines, i, table->features ? wrong : p, end);
        }
        const bool point = memchr(p, '.', (size_t)(end - p)) != NULL;
        points |= point;
        whole |= !point && !isnan(row[0]);
        if (piece != NULL) {
            SL_CHECK(append_row(table, row, r, piece));
        }
    }
    table->points |= points;
    table->whole |= whole;
    return SL_OK;
}

static void free_numbers(struct number_table *table)
{
    for (struct piece *piece = atomic_load(&table->pieces), *next; piece != NULL; piece = next) {
        next = piece->next;
        sl_free(piece->columns);
        sl_free(piece->values);
        sl_free(piece);
    }
    sl_free(table->counts);
    sl_free(table->numbers);
}

/* The caller frees *table, also on failure. */
static enum sl_status read_table(struct number_table *table)
{
    SL_CHECK(read_exactly(table->path, table->n_rows, number_lines, table));
    if (table->numbers == NULL && table->counts == NULL) { /* no rows */
        SL_CHECK(sl_alloc(0, sizeof *table->numbers, table->content, &table->numbers));
    }
    return SL_OK;
}

enum sl_status sl_csv_read_weights(const char *path, uint64_t n_edges, float **out)
{
    SL_OWNED(free_numbers)
    struct number_table table = {.path = path,
                                 .content = "edge weights",
                                 .expected = SL_WEIGHT_EXPECTED,
                                 .is_good = sl_weight_is_valid,
                                 .n_rows = n_edges,
                                 .width = 1,
                                 .most = 1};
    SL_CHECK(read_table(&table));
    *out = SL_TAKE(table.numbers);
    return SL_OK;
}

/* ---- Labels as text ---------------------------------------------------------------------------------------------- */

/* Read labels, one a line, as names of classes, if they are names (*are_names). If they are not, the message stays. */
static enum sl_status read_names(const char *path, uint32_t n_rows, bool *are_names, struct sl_targets *out,
                                 char **names)
{
    struct sl_label_kinds kinds = {0};
    SL_FREED struct sl_text_cell *labels = NULL;
    SL_OWNED(sl_lines_free) struct sl_text text = {0};
    const char *p;
    const char *stop;
    atomic_ullong n_full = 0;
    uint64_t n = 0;
    bool wide = false; /* some line has several cells */
    SL_CHECK(sl_lines_read_text(path, false, &text));
    SL_CHECK(check_length(path, n_rows, 1));
    SL_CHECK(sl_alloc(n_rows, sizeof *labels, "labels", &labels));
    for (; sl_text_next(&text, &p, &stop); n++) {
        const struct sl_text_cell label = sl_names_take(&p, stop, ',');
        wide |= p != NULL;
        sl_label_kinds_count(&kinds, label, n);
        if (n < n_rows) {
            labels[n] = label;
        }
    }
    const bool header = kinds.n_texts == 1 && kinds.n_numbers > 0 && kinds.text == 0;
    *are_names = !wide && !header && kinds.n_texts > 0 && !kinds.fractions;
    if (*are_names && n != n_rows) { /* blank lines at the end are harmless */
        SL_CHECK(read_exactly(path, n_rows, count_full_lines, &n_full));
    }
    if (*are_names) {
        SL_CHECK(sl_label_classes(path, &kinds, labels, n_rows, out, names));
    }
    return SL_OK;
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
    SL_OWNED(free_numbers)
    struct number_table table = {.path = path,
                                 .content = "targets",
                                 .expected = expected[choice],
                                 .is_good = classes ? sl_target_is_class : sl_target_is_number,
                                 .n_rows = n_rows,
                                 .width = 1,
                                 .most = classes ? 1 : SL_MAX_CLASSES};
    SL_CHECK(read_table(&table));
    SL_CHECK(sl_targets_take(path, SL_TAKE(table.numbers), n_rows, table.width, choice, out));
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
    SL_FREED sl_vertex *ids = NULL;
    uint64_t n = 0;
    /* No id may come twice, so there are at most n_vertices. */
    SL_CHECK(sl_alloc(n_vertices, sizeof *ids, "split", &ids));
    SL_CHECK(sl_lines_read(path, n_vertices, id_lines, &(struct id_table){n_vertices, ids}, &n));
    return sl_ids_take(path, n_vertices, false, n, SL_TAKE(ids), out);
}

/* ---- Features ---------------------------------------------------------------------------------------------------- */

/* Concatenate the pieces in the order of their lines. */
static enum sl_status join_pieces(const struct number_table *table, struct sl_features *out)
{
    uint64_t n = 0;
    for (uint64_t r = 0; r < table->n_rows; r++) {
        n += table->counts[r];
    }
    SL_CHECK(sl_features_start_csr((uint32_t)table->n_rows, table->width, n, out));
    for (uint64_t r = 0; r < table->n_rows; r++) {
        out->offsets[r + 1] = out->offsets[r] + table->counts[r];
    }
    for (const struct piece *piece = atomic_load(&table->pieces); piece != NULL; piece = piece->next) {
        const uint64_t to = out->offsets[piece->first_line];
        if (piece->n > 0) {
            memcpy(out->columns + to, piece->columns, piece->n * sizeof *piece->columns);
            memcpy(out->values + to, piece->values, piece->n * sizeof *piece->values);
        }
    }
    return SL_OK;
}

enum sl_status sl_csv_read_features(const char *path, uint32_t n_rows, struct sl_features *out)
{
    SL_OWNED(free_numbers)
    struct number_table table = {.path = path,
                                 .content = "features",
                                 .is_good = is_finite,
                                 .n_rows = n_rows,
                                 .most = MAX_COLUMNS,
                                 .features = true};
    SL_OWNED(sl_features_free) struct sl_features features = {.n_rows = n_rows};
    *out = (struct sl_features){0};
    SL_CHECK(read_table(&table));
    if (table.counts != NULL) {
        SL_CHECK(join_pieces(&table, &features));
    } else {
        features.n_columns = table.width;
        features.dense = sl_column_take(SL_DTYPE_F32, n_rows, table.width, SL_TAKE(table.numbers));
    }
    SL_CHECK(sl_features_settle(&features));
    *out = SL_TAKE(features);
    return SL_OK;
}
