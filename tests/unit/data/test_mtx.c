/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/readers/mtx.c: Matrix Market files. */
#include "tests/support/data_fixture.h"

#include "data/reader.h"

#define HEAD "%%MatrixMarket matrix coordinate "

static enum sl_status read_matrix(const char *path, struct sl_raw *out)
{
    struct sl_raw_files files = {.paths = {[SL_RAW_EDGES] = (char *)(uintptr_t)path}};
    return sl_reader_mtx.read(&files, out);
}

static void reads_matrices(void **state)
{
    (void)state;
    struct sl_raw raw;
    const char *path = put_text("a.mtx", HEAD "real general\n% x\n\n3 3 3\n1 2 0.5\n 3 1\t2e0 \r\n2 2 0\n\n");
    assert_ptr_equal(sl_reader_of(path), &sl_reader_mtx);
    assert_ok(read_matrix(path, &raw));
    assert_int_equal(raw.n_vertices, 3);
    assert_int_equal(raw.n_edges, 3);
    assert_memory_equal(raw.from, ((const sl_vertex[]){0, 2, 1}), 3 * sizeof(sl_vertex));
    assert_memory_equal(raw.to, ((const sl_vertex[]){1, 0, 1}), 3 * sizeof(sl_vertex));
    assert_memory_equal(raw.weights.data, ((const float[]){0.5F, 2, 0}), 3 * sizeof(float));
    sl_raw_free(&raw);
    assert_survives_no_memory(read_matrix(path, &raw));
    sl_raw_free(&raw);
    assert_ok(read_matrix(put_text("b.mtx", HEAD "Pattern Symmetric\n3 3 2\n2 1\n3 3"), &raw));
    assert_int_equal(raw.n_edges, 3);
    assert_memory_equal(raw.from, ((const sl_vertex[]){1, 0, 2}), 3 * sizeof(sl_vertex));
    assert_memory_equal(raw.to, ((const sl_vertex[]){0, 1, 2}), 3 * sizeof(sl_vertex));
    assert_null(raw.weights.data);
    sl_raw_free(&raw);
}

static void refuses_bad_matrices(void **state)
{
    (void)state;
    const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"", "bad.mtx:0: expected '%%MatrixMarket"},
        {"3 3 1\n1 2\n", "bad.mtx:1: expected '%%MatrixMarket"},
        {"%%MatrixMarket matrix array real general\n", "bad.mtx:1: expected '%%MatrixMarket"},
        {HEAD "complex general\n", "then pattern, real or integer"},
        {HEAD "real hermitian\n", "then general or symmetric"},
        {HEAD "real general\n", "bad.mtx:1: expected a line 'rows columns entries'"},
        {HEAD "real general\n3 3\n", "bad.mtx:2: expected a line 'rows columns entries'"},
        {HEAD "real general\n3 4 1\n1 1 1\n", "bad.mtx:2: expected a square matrix"},
        {HEAD "real general\n3 3 99999999999\n1 1 1\n", "bad.mtx:2: expected a number of entries that fits"},
        {HEAD "real general\n3 3 2\n1 1 1\n", "expected 2 entries, found 1"},
        {HEAD "real general\n3 3 1\n1 1 1\n1 2 1\n", "bad.mtx:4: expected no more entries"},
        {HEAD "real general\n3 3 1\n0 1 1\n", "bad.mtx:3: expected a row and a column"},
        {HEAD "real general\n3 3 1\n1 4 1\n", "bad.mtx:3: expected a row and a column"},
        {HEAD "real general\n3 3 1\n1 2\n", "bad.mtx:3: expected a value"},
        {HEAD "real general\n3 3 1\n1 2 -1\n", "finite and not negative"},
        {HEAD "real general\n3 3 1\n1 2 nan\n", "bad.mtx:3: expected a value that is finite and not negative"},
        {HEAD "real general\n3 3 2\n1 1 1\n1 2 inf\n", "bad.mtx:4: expected a value that is finite"},
        {HEAD "real general\n3 3 1\n1 2 1e99\n", "finite and not negative"},
        {HEAD "pattern general\n3 3 1\n1 2 1\n", "bad.mtx:3: expected nothing more on the line"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sl_raw raw;
        assert_refused(read_matrix(put_text("bad.mtx", cases[i].text), &raw), SL_EFILE, cases[i].message);
        assert_null(raw.from);
    }
}

/* Every prefix, and every byte replaced: no crash, and nothing left. */
static void survives_mutations(void **state)
{
    (void)state;
    static const char whole[] = HEAD "real symmetric\n3 3 3\n1 1 0.5\n3 1 2e0\n3 2 1\n";
    static const char bytes[] = "\n -9x%\0";
    for (size_t i = 0; i < sizeof whole - 1; i++) {
        for (size_t b = 0; b < sizeof bytes; b++) {
            char text[sizeof whole];
            struct sl_raw raw;
            memcpy(text, whole, sizeof whole);
            text[i] = bytes[b];
            if (read_matrix(put_text("m.mtx", text), &raw) == SL_OK) {
                sl_raw_free(&raw);
            }
        }
    }
}

static int nothing_left(void **state)
{
    (void)state;
    return sl_memory_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_folder(reads_matrices), with_folder(refuses_bad_matrices),
                                       with_folder(survives_mutations)};
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
