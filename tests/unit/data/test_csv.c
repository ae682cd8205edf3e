/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/csv.h and data/line_reader.h: tables of numbers, right and wrong ones. */
#include "tests/support/data_fixture.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "data/csv.h"
#include "data/features.h"
#include "data/line_reader.h"
#include "support/parallel.h"
#include "tests/support/floats.h"

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

#define N_LONG 400000

/* Sums the numbers of all lines, and notes each line's number. */
struct tally {
    atomic_ullong sum;
    atomic_ullong lines;
    uint64_t fail_from; /* fail in every block that reaches this line */
};

static enum sl_status tally_lines(void *context, const struct sl_lines *lines)
{
    struct tally *tally = context;
    const char *p = lines->text;
    for (uint64_t i = 0; i < lines->n_lines; i++) {
        char *stop;
        if (lines->first_line + i >= tally->fail_from) {
            return sl_fail(SL_EFILE, "line %llu", (unsigned long long)(lines->first_line + i));
        }
        /* Line k holds k, or k and many blanks. */
        if (strtoull(p, &stop, 10) != lines->first_line + i) {
            return sl_fail(SL_EINTERNAL, "line %llu is in the wrong place",
                           (unsigned long long)(lines->first_line + i));
        }
        stop += strspn(stop, " ");
        if (*stop != '\n') {
            return sl_fail(SL_EINTERNAL, "line %llu has no end", (unsigned long long)(lines->first_line + i));
        }
        atomic_fetch_add(&tally->sum, lines->first_line + i);
        p = stop + 1;
    }
    atomic_fetch_add(&tally->lines, lines->n_lines);
    return p == lines->text + lines->bytes ? SL_OK : sl_fail(SL_EINTERNAL, "more text than lines");
}

/* N_LONG lines, over several blocks; line 1000 alone is longer than two blocks; the last has no newline. */
static const char *put_long_file(void)
{
    const char *path = in_folder("long.csv.gz");
    static char blanks[3 << 20];
    memset(blanks, ' ', sizeof blanks - 1);
    gzFile file = gzopen(path, "wb1");
    for (int k = 0; k < N_LONG; k++) {
        gzprintf(file, k == 0 ? "%d" : "\n%d", k);
        if (k == 1000) {
            gzputs(file, blanks);
        }
    }
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

TEST_IN_FOLDER(hands_out_every_line_once)
{
    const char *path = put_long_file();
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct tally tally = {.fail_from = UINT64_MAX};
        uint64_t n = 0;
        sl_parallel_limit(threads);
        assert_ok(sl_lines_read(path, N_LONG, tally_lines, &tally, &n));
        assert_int_equal(n, N_LONG);
        assert_int_equal(atomic_load(&tally.lines), N_LONG);
        assert_int_equal(atomic_load(&tally.sum), (uint64_t)N_LONG * (N_LONG - 1) / 2);
    }
    sl_parallel_limit(0);
}

/* Several blocks fail at once; the message is that of the first in the file. */
static enum sl_status fail_slowly(void *context, const struct sl_lines *lines)
{
    const uint64_t *fail_from = context;
    if (lines->first_line + lines->n_lines <= *fail_from) {
        return SL_OK;
    }
    if (lines->first_line <= *fail_from) {
        usleep(100000); /* let the blocks behind this one fail before it */
    }
    return sl_fail(SL_EFILE, "block of %llu", (unsigned long long)lines->first_line);
}

TEST_IN_FOLDER(reports_the_first_failure)
{
    const char *path = put_long_file();
    uint64_t fail_from = 300000;
    uint64_t found = 0;
    assert_refused(sl_lines_read(path, N_LONG, fail_slowly, &fail_from, &found), SL_EFILE, "block of ");
    assert_true(strtoull(sl_message() + strlen("block of "), NULL, 10) <= fail_from);
    for (int i = 0; i < 10; i++) {
        struct tally tally = {.fail_from = 200000};
        uint64_t n = 0;
        assert_refused(sl_lines_read(path, N_LONG, tally_lines, &tally, &n), SL_EFILE, "line 200000");
    }
    struct tally tally = {.fail_from = UINT64_MAX};
    uint64_t n = 0;
    assert_refused(sl_lines_read(path, N_LONG - 1, tally_lines, &tally, &n), SL_EFILE,
                   "gz:400000: expected 399999 lines, found more");
    assert_survives_no_memory(sl_lines_read(path, N_LONG, tally_lines, &tally, &n));
}

/* A gzip file cut short anywhere, or with a wrong byte, is refused. */
TEST_IN_FOLDER(refuses_broken_gzip)
{
    OWNED(sl_free_it) char *data;
    size_t bytes;
    assert_ok(sl_file_read(put_gzip("whole.gz", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"), 1 << 20, &data, &bytes));
    for (size_t n = 3; n < bytes; n++) {
        struct tally tally = {.fail_from = UINT64_MAX};
        uint64_t lines = 0;
        assert_refused(sl_lines_read(put_bytes("cut.gz", data, n), 100, tally_lines, &tally, &lines), SL_EFILE,
                       "cut.gz: ");
    }
    struct tally tally = {.fail_from = UINT64_MAX};
    uint64_t lines = 0;
    data[bytes - 6] ^= 1; /* the checksum */
    assert_refused(sl_lines_read(put_bytes("bad.gz", data, bytes), 100, tally_lines, &tally, &lines), SL_EFILE,
                   "damaged");
    assert_refused(sl_lines_read(in_folder("none"), 100, tally_lines, &tally, &lines), SL_EIO, "none: cannot open");
    assert_refused(sl_lines_read(folder, 100, tally_lines, &tally, &lines), SL_EIO, "cannot read");
}

/* ---- Counts, edges, labels, ids ---------------------------------------------------------------------------------- */

TEST_IN_FOLDER(counts)
{
    uint64_t n;
    assert_ok(sl_csv_read_count(put_text("a", "169343\n"), &n));
    assert_int_equal(n, 169343);
    assert_ok(sl_csv_read_count(put_gzip("b", "12.0"), &n));
    assert_int_equal(n, 12);
    assert_refused(sl_csv_read_count(put_text("c", "1\n2\n"), &n), SL_EFILE, "c:2: expected 1 lines, found more");
    assert_refused(sl_csv_read_count(put_text("d", ""), &n), SL_EFILE, "d:1: expected 1 lines, found 0");
    assert_refused(sl_csv_read_count(put_text("e", "-1\n"), &n), SL_EFILE, "e:1: expected a count, found '-1'");
    assert_refused(sl_csv_read_count(put_text("f", "1,2\n"), &n), SL_EFILE, "found '1,2'");
    assert_refused(sl_csv_read_count(put_text("g", "\n"), &n), SL_EFILE, "found ''");
    assert_refused(sl_csv_read_count(put_text("h", "99999999999999999999\n"), &n), SL_EFILE, "expected a count");
}

TEST_IN_FOLDER(edges)
{
    sl_vertex *from;
    sl_vertex *to;
    const char *path = put_gzip("edges", "0,1\r\n4.0,2\n3,3e0");
    assert_ok(sl_csv_read_edges(path, 5, 3, &from, &to));
    assert_memory_equal(from, ((const sl_vertex[]){0, 4, 3}), 3 * sizeof *from);
    assert_memory_equal(to, ((const sl_vertex[]){1, 2, 3}), 3 * sizeof *to);
    sl_free(from);
    sl_free(to);
    assert_refused(sl_csv_read_edges(path, 5, 2, &from, &to), SL_EFILE, "edges:3: expected 2 lines, found more");
    assert_refused(sl_csv_read_edges(path, 5, 4, &from, &to), SL_EFILE, "edges:4: expected 4 lines, found 3");
    assert_refused(sl_csv_read_edges(path, 4, 3, &from, &to), SL_EFILE,
                   "edges:2: expected 'source,destination', two ids below 4, found '4.0,2'");
    assert_refused(sl_csv_read_edges(path, 5, (uint64_t)1 << 40, &from, &to), SL_EFILE, "too short");
    assert_refused(sl_csv_read_edges(path, 5, UINT64_MAX, &from, &to), SL_EFILE, "too short");
    assert_survives_no_memory(sl_csv_read_edges(path, 5, 3, &from, &to));
    sl_free(from);
    sl_free(to);
    const char *bad[] = {"0,1\n1\n",     "0,1\n1,\n",  "0,1\n,1\n",    "0,1\n1,2,3\n",
                         "0,1\n\n",      "0,1\n1 2\n", "0,1\n-1,2\n",  "0,1\n1,4294967296\n",
                         "0,1\n1,2 3\n", "0,1\nx,y\n", "0,1\n1.5,2\n", "0,1\n1;2\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_refused(sl_csv_read_edges(put_text("bad", bad[i]), 5, 2, &from, &to), SL_EFILE, "bad:2: expected");
    }
}

static enum sl_status read_labels(const char *path, uint32_t n, int32_t **out)
{
    struct sl_targets targets = {.n_rows = 0};
    enum sl_status st = sl_csv_read_targets(path, n, SL_TARGETS_CLASSES, &targets, NULL);
    *out = targets.classes;
    return st;
}

TEST_IN_FOLDER(labels)
{
    int32_t *labels;
    const char *path = put_gzip("labels", "3\n0.0\nnan\n-1\n\n\"\"\n1e1\nNaN\n");
    assert_ok(read_labels(path, 8, &labels));
    assert_memory_equal(labels, ((const int32_t[]){3, 0, -1, -1, -1, -1, 10, -1}), 8 * sizeof *labels);
    sl_free(labels);
    assert_survives_no_memory(read_labels(path, 8, &labels));
    sl_free(labels);
    assert_refused(read_labels(path, 4000000000u, &labels), SL_EFILE, "too short");
    const char *bad[] = {"-2\n", "1.5\n", "inf\n", "65536\n", "2000000000\n", "a\n", "1,2\n", "1 2\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_refused(read_labels(put_text("bad", bad[i]), 1, &labels), SL_EFILE, "bad:1: expected one class");
    }
}

TEST_IN_FOLDER(ids)
{
    struct sl_ids ids;
    const char *path = put_gzip("ids", "5\n0\n3.0\n");
    assert_ok(sl_csv_read_ids(path, 6, &ids));
    assert_int_equal(ids.n, 3);
    assert_memory_equal(ids.ids, ((const sl_vertex[]){0, 3, 5}), 3 * sizeof *ids.ids);
    sl_free(ids.ids);
    assert_refused(sl_csv_read_ids(path, 5, &ids), SL_EFILE, "ids:1: expected one id below 5, found '5'");
    assert_refused(sl_csv_read_ids(put_text("twice", "1\n0\n1\n"), 4, &ids), SL_EFILE, "vertex 1 is listed twice");
    assert_refused(sl_csv_read_ids(put_text("more", "0\n1\n0\n"), 2, &ids), SL_EFILE, "found more");
    assert_ok(sl_csv_read_ids(put_text("none", ""), 2, &ids));
    assert_int_equal(ids.n, 0);
    sl_free(ids.ids);
    assert_survives_no_memory(sl_csv_read_ids(path, 6, &ids));
    sl_free(ids.ids);
    assert_ok(sl_csv_read_ids(put_text("mask", "1\n0\n1\n"), 3, &ids)); /* a line for each vertex */
    assert_int_equal(ids.n, 2);
    assert_memory_equal(ids.ids, ((const sl_vertex[]){0, 2}), 2 * sizeof *ids.ids);
    sl_free(ids.ids);
    assert_ok(sl_csv_read_ids(put_text("both", "1\n0\n"), 2, &ids)); /* two ids */
    assert_int_equal(ids.n, 2);
    sl_free(ids.ids);
    assert_ok(sl_csv_read_ids(put_text("all", "2\n0\n1\n"), 3, &ids)); /* three ids: an id of 2 is in no mask */
    assert_int_equal(ids.n, 3);
    sl_free(ids.ids);
}

/* ---- Features ---------------------------------------------------------------------------------------------------- */

static float value(const struct sl_features *features, uint32_t row, uint32_t column)
{
    if (features->dense.data != NULL) {
        return floats_of(features)[(size_t)row * features->n_columns + column];
    }
    for (uint64_t k = features->offsets[row]; k < features->offsets[row + 1]; k++) {
        if (features->columns[k] == column) {
            return features->values[k];
        }
    }
    return 0;
}

TEST_IN_FOLDER(dense_features)
{
    OWNED(sl_features_free) struct sl_features features;
    const char *path = put_gzip("f", "1,-2.5,0.1\r\n0,0,1e-3\n7.00,3,0");
    assert_ok(sl_csv_read_features(path, 3, &features));
    assert_non_null(features.dense.data);
    assert_null(features.offsets);
    assert_int_equal(features.n_rows, 3);
    assert_int_equal(features.n_columns, 3);
    const float expected[] = {1, -2.5f, 0.1f, 0, 0, 1e-3f, 7, 3, 0};
    assert_memory_equal(features.dense.data, expected, sizeof expected);
    sl_features_free(&features);
    assert_survives_no_memory(sl_csv_read_features(path, 3, &features));
    sl_features_free(&features);
    assert_ok(sl_csv_read_features(put_text("empty", ""), 0, &features));
    assert_int_equal(features.n_rows, 0);
}

/* Rows of 20 columns, non-zero at a few; `first` decides what the reader guesses from, `many` what is true. */
static const char *put_rows(const char *name, int n_rows, int n_columns, bool many_first, bool many)
{
    const char *path = in_folder(name);
    FILE *stream = fopen(path, "w");
    for (int r = 0; r < n_rows; r++) {
        bool full = r == 0 ? many_first : many;
        for (int c = 0; c < n_columns; c++) {
            bool set = full || c == r % n_columns;
            fprintf(stream, set ? "%d.5%s" : "0%.0d%s", set ? r + c : 0, c + 1 < n_columns ? "," : "\n");
        }
    }
    fclose(stream);
    return path;
}

/* Whatever the first line looks like, the form follows the whole table, and the values are the same. */
TEST_IN_FOLDER(features_settle)
{
    for (int kind = 0; kind < 4; kind++) {
        bool many_first = kind & 1;
        bool many = kind & 2;
        struct sl_features features;
        const char *path = put_rows("rows", 500, 20, many_first, many);
        assert_ok(sl_csv_read_features(path, 500, &features));
        assert_true(many ? features.dense.data != NULL && features.offsets == NULL
                         : features.dense.data == NULL && features.offsets != NULL);
        for (uint32_t r = 0; r < 500; r++) {
            for (uint32_t c = 0; c < 20; c++) {
                bool set = (r == 0 ? many_first : many) || c == r % 20;
                assert_true(value(&features, r, c) == (set ? (float)(r + c) + 0.5f : 0));
            }
        }
        sl_features_free(&features);
        if (kind != 3) { /* converting, and not */
            assert_survives_no_memory(sl_csv_read_features(path, 500, &features));
            sl_features_free(&features);
        }
    }
}

/* Over several blocks of text, with several threads: rows do not get mixed up, dense or CSR. */
TEST_IN_FOLDER(features_in_blocks)
{
    for (int many = 0; many < 2; many++) {
        OWNED(sl_features_free) struct sl_features features;
        const char *path = put_rows("rows", 12000, 100, many, many);
        assert_ok(sl_csv_read_features(path, 12000, &features));
        for (uint32_t r = 0; r < 12000; r++) {
            assert_true(value(&features, r, r % 100) == (float)(r + r % 100) + 0.5f);
            assert_true(many || features.offsets[r + 1] == r + 1);
        }
    }
}

TEST_IN_FOLDER(refuses_bad_features)
{
    struct sl_features features;
    const char *bad[] = {
        "1,2\n3\n", "1,2\n3,4,5\n", "1,2\n\n", "1,2\n3,nan\n", "1,2\n3,inf\n", "1,2\n3,1e39\n", "1,2\n,3\n",
        "1,2\n3,\n", "1,2\n3,x\n", "1,2\n3, 4\n",
        /* the same for a bag of words */
        "0,0,0,0,0,0,0,0,0,0,0\n0,0,0,0,0,0,0,0,0,0\n", "0,0,0,0,0,0,0,0,0,0,0\n0,0,0,0,0,0,0,0,0,0,0,0\n",
        "0,0,0,0,0,0,0,0,0,0,0\n0,0,0,0,0,0,0,0,0,0,\n", "0,0,0,0,0,0,0,0,0,0,0\n0,0,0,,0,0,0,0,0,0,0\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_refused(sl_csv_read_features(put_text("bad", bad[i]), 2, &features), SL_EFILE, "bad:2: expected");
        assert_null(features.dense.data);
        assert_null(features.offsets);
    }
    assert_refused(sl_csv_read_features(put_text("first", "1,,2\n"), 1, &features), SL_EFILE,
                   "first:1: expected 3 finite numbers");
    assert_refused(sl_csv_read_features(put_text("short", "1,2\n"), 2, &features), SL_EFILE,
                   "short:2: expected 2 lines, found 1");
    assert_refused(sl_csv_read_features(put_text("long", "1\n2\n3\n"), 2, &features), SL_EFILE,
                   "long:3: expected 2 lines, found more");
    assert_refused(sl_csv_read_features(put_text("huge", "1,2\n"), 4000000000u, &features), SL_EFILE, "too short");
}

TEST_IN_FOLDER(normalizes_rows)
{
    OWNED(sl_features_free) struct sl_features features;
    assert_ok(sl_csv_read_features(put_text("d", "1,3\n0,0\n2,-2\n-1,-1\n0.25,0.5\n1.01,-1\n3,-1\n"), 7, &features));
    sl_features_normalize(&features, SL_NORMALIZE_ROW, &(struct sl_scaling){0});
    const float expected[] = {0.25f, 0.75f, 0, 0, 2, -2, -1, -1, 0.25f, 0.5f, 1.01f, -1, 1.5f, -0.5f};
    assert_memory_equal(features.dense.data, expected, sizeof expected);
    sl_features_free(&features);
    assert_ok(sl_csv_read_features(put_text("s", "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"
                                                 "0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,4\n"),
                                   2, &features));
    assert_non_null(features.offsets);
    sl_features_normalize(&features, SL_NORMALIZE_ROW, &(struct sl_scaling){0});
    assert_true(value(&features, 1, 1) == 0.2f && value(&features, 1, 20) == 0.8f);
}

/* ---- What editors and other programs leave in files -------------------------------------------------------------- */

#define MARK "\xef\xbb\xbf" /* of the byte order, as Windows writes it before UTF-8 */

TEST_IN_FOLDER(reads_what_numpy_reads)
{
    static const char *const forms[] = {
        "0,1\n2,3\n",        MARK "0,1\n2,3\n", "0,1\r\n2,3\r\n",          "0,1\n2,3\n\n",
        "0,1\n2,3\n\n \n\n", "0,1\n2,3",        MARK "0,1\r\n2,3\r\n\r\n", "0,1 \n2,3\t\n\n"};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        OWNED(sl_free_it) sl_vertex *from;
        OWNED(sl_free_it) sl_vertex *to;
        uint64_t n = 0;
        OWNED(sl_features_free) struct sl_features features;
        const char *path = i % 2 == 0 ? put_text("form", forms[i]) : put_gzip("form", forms[i]);
        assert_ok(sl_csv_read_edges(path, 4, 2, &from, &to));
        assert_memory_equal(from, ((const sl_vertex[]){0, 2}), 2 * sizeof *from);
        assert_memory_equal(to, ((const sl_vertex[]){1, 3}), 2 * sizeof *to);
        assert_ok(sl_csv_count_lines(path, &n));
        assert_int_equal(n, 2);
        assert_ok(sl_csv_read_features(path, 2, &features));
        assert_true(floats_of(&features)[3] == 3);
    }
    static const char *const lists[] = {"4\n2\n", MARK "4\r\n2\r\n\r\n", "4\n\n2\n\n\n\n\n\n\n", "4\n2"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct sl_ids ids;
        int32_t *labels;
        uint64_t n;
        const char *path = put_text("list", lists[i]);
        assert_ok(sl_csv_read_ids(path, 5, &ids));
        assert_int_equal(ids.n, 2);
        assert_memory_equal(ids.ids, ((const sl_vertex[]){2, 4}), 2 * sizeof *ids.ids);
        sl_free(ids.ids);
        assert_ok(sl_csv_count_lines(path, &n));
        assert_int_equal(n, 2);
        if (i != 2) {
            assert_ok(read_labels(path, 2, &labels));
            assert_memory_equal(labels, ((const int32_t[]){4, 2}), 2 * sizeof *labels);
            sl_free(labels);
        }
    }
    int32_t *labels; /* a blank line within the count is a vertex without a label */
    assert_ok(read_labels(put_text("end", "1\n\n\n\n"), 3, &labels));
    assert_memory_equal(labels, ((const int32_t[]){1, -1, -1}), 3 * sizeof *labels);
    sl_free(labels);
    uint64_t n;
    assert_ok(sl_csv_read_count(put_text("count", MARK "7\r\n\r\n"), &n));
    assert_int_equal(n, 7);
    assert_refused(sl_csv_read_count(put_text("c", "1\n\n2\n"), &n), SL_EFILE, "c:2: expected 1 lines, found more");
}

/* A header line is told by its place and named, however many lines are expected. */
TEST_IN_FOLDER(tells_a_header_line)
{
    sl_vertex *from;
    sl_vertex *to;
    int32_t *labels;
    uint64_t n;
    struct sl_ids ids;
    struct sl_features features;
    for (uint64_t expected = 1; expected < 4; expected++) {
        assert_refused(
            sl_csv_read_edges(put_text("e", "src,dst\n0,1\n1,2\n"), 3, expected, &from, &to), SL_EFILE,
            "e:1: expected 'source,destination', two ids below 3, found 'src,dst'; write it without a header");
        assert_refused(read_labels(put_text("l", "label\n0\n1\n"), (uint32_t)expected, &labels), SL_EFILE,
                       "found 'label'; write it without a header");
        assert_refused(sl_csv_read_features(put_text("f", "f0,f1\n0,1\n1,2\n"), (uint32_t)expected, &features),
                       SL_EFILE, "found 'f0,f1'; write it without a header");
    }
    assert_refused(sl_csv_read_edges(put_text("q", "\"a\",\"b\"\n0,1\n"), 3, 1, &from, &to), SL_EFILE, "header line");
    assert_refused(sl_csv_read_edges(put_text("i", ",src,dst\n0,0,1\n"), 3, 1, &from, &to), SL_EFILE, "header line");
    assert_refused(sl_csv_read_ids(put_text("d", "id\n0\n"), 3, &ids), SL_EFILE,
                   "d:1: expected one id below 3, found 'id'; write");
    assert_refused(sl_csv_read_count(put_text("c", "n\n3\n"), &n), SL_EFILE, "c:1: expected a count, found 'n'; write");
    assert_refused(sl_csv_read_edges(put_text("z", "0,1\n0,1\n1,2\n"), 3, 2, &from, &to), SL_EFILE,
                   "z:3: expected 2 lines, found more; is the count wrong, or line 1 a header?");
}

/* Blank lines and surplus lines in other blocks than the last that counts. */
TEST_IN_FOLDER(ends_over_several_blocks)
{
    int32_t *labels;
    FREED char *text = malloc((size_t)4 << 20);
    assert_non_null(text);
    memset(text, '\n', (size_t)4 << 20);
    text[0] = '7';
    text[((size_t)4 << 20) - 1] = '\0';
    const char *path = put_text("blank", text);
    assert_ok(read_labels(path, 1, &labels));
    assert_int_equal(labels[0], 7);
    sl_free(labels);
    text[(size_t)3 << 20] = '1';
    put_text("blank", text);
    assert_refused(read_labels(path, 1, &labels), SL_EFILE, "blank:2: expected 1 lines, found more");
}

TEST_IN_FOLDER(measures_columns)
{
    OWNED(sl_features_free) struct sl_features features;
    struct sl_feature_range range;
    assert_ok(sl_csv_read_features(put_text("m", "1,-3e9\n-2,0\n"), 2, &features));
    assert_survives_no_memory(sl_features_measure(&features, &range));
    assert_true(range.column == 1 && range.largest[0] == 3e9f && range.largest[1] == 2);
    sl_features_free(&features);
    assert_ok(sl_csv_read_features(put_text("s", "0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"
                                                 "0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,-4\n"),
                                   2, &features));
    assert_non_null(features.offsets);
    assert_ok(sl_features_measure(&features, &range));
    assert_true(range.column == 20 && range.largest[0] == 4 && range.largest[1] == 1);
}

/* ---- Mutated files ----------------------------------------------------------------------------------------------- */

/* Whatever is in a file, a reader gives a table within bounds or a message that names the file. */
TEST_IN_FOLDER(survives_mutations)
{
    const char *seeds[] = {
        "0,1\n1,2\n2,0\n3.0,1\n", "0.5,1\n-1e3,2\n7,0\n0,0.25\n", "0\n1\nnan\n2.0\n",
        "0,0,0,0,0,0,0,0,0,0,1\n0,0,0,0,0,0,0,0,0,0,0\n0,0,2,0,0,0,0,0,0,0,0\n0,0,0,0,0,0,0,0,0,0,0\n"};
    for (int i = 0; i < 2000; i++) {
        unsigned char data[256];
        const char *seed = seeds[i % 4];
        memcpy(data, seed, strlen(seed));
        const char *path = put_bytes("mutant", data, mutate(data, strlen(seed), sizeof data));
        sl_vertex *from;
        sl_vertex *to;
        int32_t *labels;
        struct sl_ids ids;
        OWNED(sl_features_free) struct sl_features features;
        enum sl_status st = sl_csv_read_edges(path, 4, 4, &from, &to);
        for (int e = 0; st == SL_OK && e < 4; e++) {
            assert_true(from[e] < 4 && to[e] < 4);
        }
        if (st == SL_OK) {
            sl_free(from);
            sl_free(to);
        }
        assert_true(st == SL_OK || (st == SL_EFILE && strstr(sl_message(), "mutant") != NULL));
        st = read_labels(path, 4, &labels);
        for (int v = 0; st == SL_OK && v < 4; v++) {
            assert_true(labels[v] >= -1);
        }
        if (st == SL_OK) {
            sl_free(labels);
        }
        st = sl_csv_read_ids(path, 4, &ids);
        if (st == SL_OK) {
            assert_true(ids.n <= 4);
            sl_free(ids.ids);
        }
        st = sl_csv_read_features(path, 4, &features);
        for (uint32_t k = 0; st == SL_OK && k < 4 * features.n_columns; k++) {
            assert_true(isfinite(value(&features, k / features.n_columns, k % features.n_columns)));
        }
    }
}

TEST_MAIN(NULL, nothing_left)
