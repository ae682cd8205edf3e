/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The reader of Matrix Market files: sparse square matrices as text. Entry (i, j) is an edge from i to j, and its value
 * is the edge's weight. A pattern has no values. The lower half of a symmetric matrix stands for both halves. */
#include <float.h>
#include <string.h>
#include <strings.h>

#include "data/number.h"
#include "data/reader.h"
#include "data/text_lines.h"
#include "support/file.h"
#include "support/memory.h"

#define MAX_BYTES ((size_t)1 << 40)
#define N_WORDS 5

struct matrix {
    struct sl_text text;
    bool pattern, symmetric;
    uint64_t n_entries;
};

static bool recognise(const char *path)
{
    return sl_reader_ends_in(path, ".mtx");
}

static enum sl_status find(const struct sl_request *request, struct sl_raw_files *out)
{
    return sl_reader_find_graph(sl_reader_mtx.name, request, out);
}

/* The next line, without blanks at its start. */
static bool next_line(struct matrix *matrix, const char **start, const char **stop)
{
    bool there = sl_text_next(&matrix->text, start, stop);
    if (there) {
        *start = sl_text_skip_blanks(*start, *stop);
    }
    return there;
}

/* The next line that is neither blank nor a comment. */
static bool next_content(struct matrix *matrix, const char **start, const char **stop)
{
    bool there = next_line(matrix, start, stop);
    while (there && (*start == *stop || **start == '%')) {
        there = next_line(matrix, start, stop);
    }
    return there;
}

static bool is_word(const char *p, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(p, word, n) == 0;
}

static enum sl_status read_banner(struct matrix *matrix)
{
    static const char *const expected =
        "'%%MatrixMarket matrix coordinate', then pattern, real or integer, then general or symmetric";
    const char *p = "";
    const char *stop = p;
    const char *words[N_WORDS];
    size_t sizes[N_WORDS];
    int n = 0;
    next_line(matrix, &p, &stop);
    while (n < N_WORDS && p < stop) {
        words[n] = p;
        while (p < stop && !sl_text_is_blank(*p)) {
            p++;
        }
        sizes[n] = (size_t)(p - words[n]);
        n++;
        p = sl_text_skip_blanks(p, stop);
    }
    if (n != N_WORDS || p != stop || !is_word(words[0], sizes[0], "%%MatrixMarket") ||
        !is_word(words[1], sizes[1], "matrix") || !is_word(words[2], sizes[2], "coordinate")) {
        return sl_text_refuse(&matrix->text, expected);
    }
    matrix->pattern = is_word(words[3], sizes[3], "pattern");
    matrix->symmetric = is_word(words[4], sizes[4], "symmetric");
    bool values = is_word(words[3], sizes[3], "real") || is_word(words[3], sizes[3], "integer");
    if (!(matrix->pattern || values) || !(matrix->symmetric || is_word(words[4], sizes[4], "general"))) {
        return sl_text_refuse(&matrix->text, expected);
    }
    return SL_OK;
}

/* Read a number and the blanks after it. NULL: no number is there. */
static const char *read_u64(const char *p, const char *stop, uint64_t *out)
{
    const char *next = sl_number_u64(p, stop, out);
    if (next == NULL || (next < stop && !sl_text_is_blank(*next))) {
        return NULL;
    }
    return sl_text_skip_blanks(next, stop);
}

static enum sl_status read_sizes(struct matrix *matrix, struct sl_raw *raw)
{
    uint64_t numbers[3] = {0};
    const char *p = NULL;
    const char *stop = NULL;
    if (!next_content(matrix, &p, &stop)) {
        return sl_text_refuse(&matrix->text, "a line 'rows columns entries'");
    }
    for (int i = 0; i < 3 && p != NULL; i++) {
        p = read_u64(p, stop, &numbers[i]);
    }
    if (p != stop) {
        return sl_text_refuse(&matrix->text, "a line 'rows columns entries'");
    }
    if (numbers[0] != numbers[1] || numbers[0] >= SL_NONE) {
        return sl_text_refuse(&matrix->text, "a square matrix of less than 2^32 - 1 rows");
    }
    /* An entry takes four characters, so the file's length bounds their number. */
    if (numbers[2] > (uint64_t)(matrix->text.end - matrix->text.p) / 4 + 1) {
        return sl_text_refuse(&matrix->text, "a number of entries that fits the length of the file");
    }
    raw->n_vertices = (uint32_t)numbers[0];
    matrix->n_entries = numbers[2];
    return SL_OK;
}

static enum sl_status read_entry(struct matrix *matrix, const char *p, const char *stop, struct sl_raw *raw)
{
    uint64_t i = 0;
    uint64_t j = 0;
    double value = 1;
    uint64_t e = raw->n_edges;
    float *weights = raw->weights.data;
    p = read_u64(p, stop, &i);
    if (p != NULL) {
        p = read_u64(p, stop, &j);
    }
    if (p == NULL || i == 0 || j == 0 || i > raw->n_vertices || j > raw->n_vertices) {
        return sl_text_refuse(&matrix->text, "a row and a column, from 1 to the size of the matrix");
    }
    if (!matrix->pattern) {
        p = sl_number_real(p, stop, &value);
        if (p == NULL || !(value >= 0 && value <= (double)FLT_MAX)) {
            return sl_text_refuse(
                &matrix->text,
                "a value that is finite and not negative, the edge's weight; a pattern matrix has no values");
        }
        p = sl_text_skip_blanks(p, stop);
    }
    if (p != stop) {
        return sl_text_refuse(&matrix->text, "nothing more on the line");
    }
    for (int half = 0; half < (matrix->symmetric && i != j ? 2 : 1); half++, e++) {
        raw->from[e] = (sl_vertex)(half == 0 ? i : j) - 1;
        raw->to[e] = (sl_vertex)(half == 0 ? j : i) - 1;
        if (weights != NULL) {
            weights[e] = (float)value;
        }
    }
    raw->n_edges = e;
    return SL_OK;
}

static enum sl_status read_entries(struct matrix *matrix, struct sl_raw *raw)
{
    const char *p;
    const char *stop;
    uint64_t n = 0;
    enum sl_status st = SL_OK;
    while (st == SL_OK && next_content(matrix, &p, &stop)) {
        if (n == matrix->n_entries) {
            return sl_text_refuse(&matrix->text, "no more entries than the line of sizes has");
        }
        st = read_entry(matrix, p, stop, raw);
        n++;
    }
    if (st == SL_OK && n < matrix->n_entries) {
        st = sl_fail(SL_EFILE, "%.300s: expected %llu entries, found %llu", matrix->text.path,
                     (unsigned long long)matrix->n_entries, (unsigned long long)n);
    }
    return st;
}

static enum sl_status read_all(struct matrix *matrix, struct sl_raw *raw)
{
    float *weights = NULL;
    enum sl_status st;
    SL_TRY(st, read_banner(matrix), done);
    SL_TRY(st, read_sizes(matrix, raw), done);
    uint64_t n = matrix->n_entries * (matrix->symmetric ? 2 : 1);
    SL_TRY(st, sl_memory_check(raw->n_vertices * (uint64_t)12, matrix->text.path), done);
    SL_TRY(st, sl_alloc(n, sizeof *raw->from, "edge list", &raw->from), done);
    SL_TRY(st, sl_alloc(n, sizeof *raw->to, "edge list", &raw->to), done);
    if (!matrix->pattern) {
        SL_TRY(st, sl_alloc(n, sizeof *weights, "edge weights", &weights), done);
        raw->weights = sl_column_take(SL_DTYPE_F32, n, 1, weights);
    }
    SL_TRY(st, read_entries(matrix, raw), done);
    raw->weights.n_rows = matrix->pattern ? 0 : raw->n_edges;
    st = sl_targets_make_unknown(raw->n_vertices, &raw->targets);
done:
    return st;
}

static enum sl_status read_file(const struct sl_raw_files *files, struct sl_raw *out)
{
    const char *path = files->paths[SL_RAW_EDGES];
    char *text;
    size_t bytes;
    *out = (struct sl_raw){0};
    enum sl_status st = sl_file_read(path, MAX_BYTES, &text, &bytes);
    if (st != SL_OK) {
        return st;
    }
    struct matrix matrix = {.text = {.path = path, .p = text, .end = text + bytes, .line = 0}};
    st = read_all(&matrix, out);
    sl_free(text);
    if (st != SL_OK) {
        sl_raw_free(out);
    }
    return st;
}

const struct sl_reader sl_reader_mtx = {
    .name = "a Matrix Market file", .recognise = recognise, .find = find, .read = read_file};
