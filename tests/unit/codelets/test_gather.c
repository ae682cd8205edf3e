/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/gather.h: rows by id, from tables of each dtype, and input dropout. */
#include "codelets/rows/gather.h"

#include <sys/mman.h>

#include "codelets/rows/dropout.h"
#include "support/convert.h"
#include "tests/support/starpu_fixture.h"

#define PART 23    /* vertices of the part */
#define FIRST 1000 /* its first id */
#define SEED 99

/* A part's table, ids in any order and the dataset ids of all vertices. */
struct case_ {
    uint32_t n_rows, n_columns;
    sl_real *table;
    sl_vertex *ids;
    sl_vertex *dataset_ids;
};

static struct case_ make_case(uint32_t n_rows, uint32_t n_columns)
{
    struct case_ c = {.n_rows = n_rows, .n_columns = n_columns};
    c.table = need((size_t)PART * n_columns, sizeof *c.table);
    c.ids = need(n_rows, sizeof *c.ids);
    c.dataset_ids = need(FIRST + PART, sizeof *c.dataset_ids);
    for (size_t i = 0; i < (size_t)PART * n_columns; i++) {
        c.table[i] = (sl_real)noise(5, i);
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        c.ids[i] = FIRST + (i * 7 + 3) % PART;
    }
    for (uint32_t v = 0; v < FIRST + PART; v++) {
        c.dataset_ids[v] = (v * 7919 + 13) % (FIRST + PART);
    }
    return c;
}

static void free_case(struct case_ *c)
{
    free(c->table);
    free(c->ids);
    free(c->dataset_ids);
}

static const enum sl_dtype table_dtypes[] = {SL_DTYPE_REAL, SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};
static const float int8_scale = 0.03f;

/* The case's numbers in another dtype. bf16 of sl_real are rounded; all other narrow numbers are made up. */
static void narrow_table(struct case_ *c, enum sl_dtype dtype)
{
    size_t n = (size_t)PART * c->n_columns;
    FREED void *narrow = need(n, sizeof(sl_real));
    for (size_t i = 0; i < n; i++) {
        if (dtype == SL_DTYPE_I8) {
            ((int8_t *)narrow)[i] = (int8_t)(i * 37 % 256);
        } else if (dtype == SL_DTYPE_F16) {
            ((sl_f16 *)narrow)[i] = (sl_f16)(i * 7919 % 31744 | (i % 2) << 15);
        } else if (dtype == SL_DTYPE_BF16) {
            ((sl_bf16 *)narrow)[i] = sl_bf16_of(c->table[i]);
        } else {
            ((sl_real *)narrow)[i] = c->table[i];
        }
    }
    memcpy(c->table, narrow, n * sl_dtype_size(dtype));
}

/* The table's numbers in the dtype of X. */
static sl_real *widen_table(const struct case_ *c, enum sl_dtype dtype, enum sl_dtype x_dtype)
{
    const size_t n = (size_t)PART * c->n_columns;
    sl_real *wide = need(n, sizeof *wide);
    if (dtype == SL_DTYPE_REAL) {
        memcpy(wide, c->table, n * sizeof *wide);
    } else {
        sl_convert_to_reals(dtype, int8_scale, n, c->table, wide);
    }
    for (size_t i = 0; x_dtype == SL_DTYPE_BF16 && i < n; i++) {
        wide[i] = sl_bf16_real(sl_bf16_of(wide[i]));
    }
    return wide;
}

/* 0, or the scale of dropout. */
static sl_real kept(const struct case_ *c, uint32_t row, uint32_t column, double dropout)
{
    const struct sl_draw draw = {.seed = SEED, .step = head.step, .purpose = SL_FOR_DROPOUT, .hop = head.hop};
    const uint32_t threshold = sl_dropout_threshold(dropout);
    uint16_t bits[8];
    sl_dropout_bits(&draw, c->dataset_ids[c->ids[row]], column / 8, bits);
    return bits[column % 8] >= threshold ? (sl_real)sl_dropout_scale(threshold) : 0;
}

/* Rows ROW0 .. of the frontier. */
static void check(enum sl_dtype dtype, enum sl_dtype x_dtype, uint32_t n_rows, uint32_t n_columns, double dropout)
{
    enum { ROW0 = 5 };
    OWNED(free_case) struct case_ c = make_case(ROW0 + n_rows, n_columns);
    FREED void *x = poisoned((size_t)n_rows * n_columns);
    narrow_table(&c, dtype);
    starpu_data_handle_t h[] = {
        vector_of(c.ids, c.n_rows, sizeof *c.ids), sl_matrix_over(c.table, PART, n_columns, dtype),
        vector_of(c.dataset_ids, FIRST + PART, sizeof *c.dataset_ids), sl_matrix_over(x, n_rows, n_columns, x_dtype)};
    const struct sl_feature_handles features = {.table = h[1],
                                                .scale = int8_scale,
                                                .first = FIRST,
                                                .frontier = h[0],
                                                .dropout = dropout,
                                                .seed = SEED,
                                                .dataset_ids = h[2]};
    expect_ok(sl_gather_submit(&head, &features, ROW0, h[3]));
    UNREGISTER(h);
    expect_no_failure();
    FREED sl_real *wide = widen_table(&c, dtype, x_dtype);
    for (uint32_t i = 0; i < n_rows; i++) {
        for (uint32_t k = 0; k < n_columns; k++) {
            const size_t at = (size_t)i * n_columns + k;
            sl_real wanted = wide[(c.ids[ROW0 + i] - FIRST) * n_columns + k];
            wanted *= dropout > 0 ? kept(&c, ROW0 + i, k, dropout) : 1;
            if (x_dtype == SL_DTYPE_BF16) {
                assert_int_equal(((sl_bf16 *)x)[at], sl_bf16_of(wanted));
            } else {
                expect_near_at("X", at, (double)((sl_real *)x)[at], (double)wanted, 0);
            }
        }
    }
}

TEST(rows_by_id)
{
    const uint32_t widths[] = {1, 7, 8, 9, 64, 128, 255, 256, 257, 600};
    for (size_t n = 0; n < N_WORKER_COUNTS; n++) {
        fixture_start(worker_counts[n]);
        if (n == 0) {
            fixture_watch();
        }
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            for (uint32_t i = 0; i < 4 * sizeof table_dtypes / sizeof *table_dtypes; i++) {
                const enum sl_dtype dtype = table_dtypes[i / 4];
                const enum sl_dtype x_dtype = i % 2 ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
                if (dtype != SL_DTYPE_REAL || x_dtype == SL_DTYPE_REAL) {
                    check(dtype, x_dtype, 4, widths[w], i / 2 % 2 * 0.4);
                    check(dtype, x_dtype, 36, widths[w], i / 2 % 2 * 0.4);
                }
            }
        }
        fixture_stop();
    }
}

/* More entries than StarPU counts, of which few pages are touched. */
TEST(large_table)
{
    enum { N = 67000, F = 65536 };
    const sl_vertex ids[] = {0, 65534, 65535, 65536, N - 1};
    const uint32_t n_rows = sizeof ids / sizeof *ids;
    if (getenv("SL_TEST_DEVICE") != NULL) { /* all of it would go to the GPU */
        skip();
    }
    int8_t *table =
        mmap(NULL, (size_t)N * F, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        skip();
    }
    FIXTURE(1);
    sl_real *x = need((size_t)n_rows * F, sizeof *x);
    for (uint32_t i = 0; i < n_rows; i++) {
        table[(size_t)ids[i] * F] = (int8_t)(i + 1);
        table[(size_t)ids[i] * F + F - 1] = (int8_t)-i;
    }
    starpu_data_handle_t h[] = {vector_of(ids, n_rows, sizeof *ids), sl_matrix_over(table, N, F, SL_DTYPE_I8),
                                sl_matrix_over(x, n_rows, F, SL_DTYPE_REAL)};
    const struct sl_matrix m = sl_matrix_of(h[1]);
    assert_int_equal(m.n_rows, N);
    assert_int_equal(m.n_columns, F);
    assert_int_equal(m.element, 1);
    assert_int_equal(starpu_data_get_size(h[1]), (size_t)N * F);
    const struct sl_feature_handles features = {.table = h[1], .scale = 1, .frontier = h[0]};
    expect_ok(sl_gather_submit(&head, &features, 0, h[2]));
    UNREGISTER(h);
    expect_no_failure();
    for (uint32_t i = 0; i < n_rows; i++) {
        assert_true(x[(size_t)i * F] == (sl_real)(i + 1) && x[(size_t)i * F + F - 1] == -(sl_real)i);
        assert_true(x[(size_t)i * F + 1] == 0);
    }
    free(x);
    munmap(table, (size_t)N * F);
}

TEST_MAIN(NULL, NULL)
