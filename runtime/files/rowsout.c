/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows of numbers as .npy, a header of two 64-byte lines and rows as float, and as CSV. */
#include "runtime/files/rowsout.h"

#include <stdio.h>
#include <string.h>

#include "data/names.h"
#include "data/npy.h"
#include "support/decimal.h"
#include "support/file.h"
#include "support/memory.h"
#include "support/minmax.h"

#define BLOCK_FLOATS 256 /* of a row, to convert at a time */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rows are written as they lie in memory");

/* ---- .npy ---- */

static enum sl_status put_npy_header(struct sl_writer *writer, uint64_t n_rows, uint32_t n_columns)
{
    char header[SL_NPY_HEADER_BYTES];
    sl_npy_header(SL_DTYPE_F32, n_rows, n_columns, header);
    return sl_writer_put(writer, header, sizeof header);
}

static enum sl_status put_npy_row(struct sl_writer *writer, const sl_real *row, uint32_t n_columns)
{
    float block[BLOCK_FLOATS];
    for (uint32_t j = 0, n; j < n_columns; j += n) {
        n = sl_min_u32(n_columns - j, BLOCK_FLOATS);
        for (uint32_t k = 0; k < n; k++) {
            block[k] = (float)row[j + k];
        }
        SL_CHECK(sl_writer_put(writer, block, n * sizeof *block));
    }
    return SL_OK;
}

/* ---- CSV ---- */

/* Where the lines of a list of names begin, to find line i at once. */
struct lines {
    const char *names; /* NULL: none */
    uint64_t n;
    uint64_t *start;
};

static enum sl_status find_lines(const char *names, uint64_t n, struct lines *out)
{
    *out = (struct lines){.names = names, .n = names != NULL ? n : 0};
    if (names == NULL) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc((size_t)n + 1, sizeof *out->start, "names", &out->start));
    const char *p = names;
    for (uint64_t i = 0; i < n; i++) {
        out->start[i] = (uint64_t)(p - names);
        p += strcspn(p, "\n");
        p += *p != '\0';
    }
    return SL_OK;
}

static void free_lines(struct lines *lines)
{
    sl_free(lines->start);
}

/* Line i, or without lines `word` and the number i. */
static enum sl_status put_line(struct sl_writer *writer, const struct lines *lines, const char *word, uint64_t i)
{
    char text[64];
    if (i < lines->n) {
        const char *name = lines->names + lines->start[i];
        return sl_names_put(writer, (struct sl_text_cell){name, strcspn(name, "\n")});
    }
    int n = snprintf(text, sizeof text, "%s%llu", word, (unsigned long long)i);
    return sl_writer_put(writer, text, (size_t)n);
}

static enum sl_status put_text(struct sl_writer *writer, const char *text)
{
    return sl_writer_put(writer, text, strlen(text));
}

static enum sl_status put_header(struct sl_writer *writer, const struct sl_csvout *form, const struct lines *columns,
                                 uint32_t n_columns)
{
    if (form->from != NULL) {
        return put_text(writer, form->relation != NULL ? "source,target,relation,score\n" : "source,target,score\n");
    }
    SL_CHECK(put_text(writer, form->best ? "id,class" : "id"));
    for (uint32_t c = 0; c < n_columns; c++) {
        SL_CHECK(put_text(writer, ","));
        SL_CHECK(put_line(writer, columns, form->word, c));
    }
    return put_text(writer, "\n");
}

/* What stands before the numbers of row i. */
static enum sl_status put_front(struct sl_writer *writer, const struct sl_csvout *form, const struct lines *ids,
                                uint64_t i)
{
    char text[32];
    if (form->from == NULL) {
        return put_line(writer, ids, "", form->vertices != NULL ? form->vertices[i] : i);
    }
    SL_CHECK(put_line(writer, ids, "", form->from[i]));
    SL_CHECK(put_text(writer, ","));
    SL_CHECK(put_line(writer, ids, "", form->to[i]));
    if (form->relation != NULL) {
        snprintf(text, sizeof text, ",%u", form->relation[i]);
        return put_text(writer, text);
    }
    return SL_OK;
}

static uint32_t largest(const sl_real *row, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < n; c++) {
        best = row[c] > row[best] ? c : best;
    }
    return best;
}

static enum sl_status put_row(struct sl_writer *writer, const struct sl_csvout *form, const struct lines *columns,
                              const sl_real *row, uint32_t n_columns)
{
    char text[40];
    if (form->best) {
        SL_CHECK(put_text(writer, ","));
        SL_CHECK(put_line(writer, columns, "", largest(row, n_columns)));
    }
    for (uint32_t c = 0; c < n_columns; c++) {
        text[0] = ',';
        sl_decimal_write((float)row[c], 9, text + 1, sizeof text - 1);
        SL_CHECK(put_text(writer, text));
    }
    return put_text(writer, "\n");
}

/* ---- files ---- */

enum sl_status sl_rows_write(const char *path, const struct sl_csvout *form, uint64_t n_rows, uint32_t n_columns,
                             const sl_real *(*fetch)(void *context, uint64_t row), void *context)
{
    SL_OWNED(sl_writer_abort) struct sl_writer writer = {0};
    SL_OWNED(free_lines) struct lines ids = {0};
    SL_OWNED(free_lines) struct lines columns = {0};
    if (form != NULL) {
        SL_CHECK(find_lines(form->vertex_names, form->n_vertices, &ids));
        SL_CHECK(find_lines(form->names, n_columns, &columns));
    }
    SL_CHECK(sl_writer_open(path, &writer));
    if (form != NULL) {
        SL_CHECK(put_header(&writer, form, &columns, n_columns));
    } else {
        SL_CHECK(put_npy_header(&writer, n_rows, n_columns));
    }
    for (uint64_t i = 0; i < n_rows; i++) {
        const sl_real *row = fetch(context, i);
        if (row == NULL) {
            return SL_EIO;
        }
        if (form == NULL) {
            SL_CHECK(put_npy_row(&writer, row, n_columns));
        } else {
            SL_CHECK(put_front(&writer, form, &ids, i));
            SL_CHECK(put_row(&writer, form, &columns, row, n_columns));
        }
    }
    return sl_writer_close(&writer);
}
