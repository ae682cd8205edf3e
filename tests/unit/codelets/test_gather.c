/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/gather.h: rows by id, input dropout, and the submission. */
#include "codelets/gather.h"

#include "codelets/dropout.h"
#include "support/convert.h"
#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

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

static void reference(const struct case_ *c, uint32_t threshold, const struct sl_draw *draw, double *x)
{
    for (uint32_t i = 0; i < c->n_rows; i++) {
        for (uint32_t k = 0; k < c->n_columns; k++) {
            uint16_t bits[8];
            sl_dropout_bits(draw, c->dataset_ids[c->ids[i]], k / 8, bits);
            double factor = bits[k % 8] >= threshold ? sl_dropout_scale(threshold) : 0;
            x[i * c->n_columns + k] = (double)c->table[(c->ids[i] - FIRST) * c->n_columns + k] * factor;
        }
    }
}

/* The case's rows from row0 on. */
static struct sl_feature_rows rows_from(const struct case_ *c, uint32_t row0, uint32_t threshold,
                                        const struct sl_draw *draw)
{
    return (struct sl_feature_rows){.n_columns = c->n_columns,
                                    .dtype = SL_DTYPE_REAL,
                                    .table = c->table,
                                    .first = FIRST,
                                    .ids = c->ids + row0,
                                    .threshold = threshold,
                                    .draw = *draw,
                                    .dataset_ids = threshold > 0 ? c->dataset_ids : NULL};
}

static void check_kernel(uint32_t n_rows, uint32_t n_columns, double dropout)
{
    struct case_ c = make_case(n_rows, n_columns);
    struct sl_draw draw = {.seed = SEED, .step = 7, .purpose = SL_FOR_DROPOUT, .hop = 3};
    uint32_t threshold = sl_dropout_threshold(dropout);
    sl_real *x = poisoned((size_t)n_rows * n_columns + 1);
    double *wanted = need((size_t)n_rows * n_columns, sizeof *wanted);
    reference(&c, threshold, &draw, wanted);
    struct sl_feature_rows rows = rows_from(&c, 0, threshold, &draw);
    sl_gather_cpu(&rows, n_rows, x);
    expect_rows("X", (size_t)n_rows * n_columns, x, wanted, threshold > 0 ? 4 * EPSILON : 0);
    assert_true(x[(size_t)n_rows * n_columns] == (sl_real)-12345.5); /* nothing behind the end */
    free(x);
    free(wanted);
    free_case(&c);
}

static void test_kernel(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 9, 64, 255, 256, 257, 600};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        for (uint32_t n = 0; n < 4; n++) {
            check_kernel(n * n * 4, widths[w], 0);
            check_kernel(n * n * 4, widths[w], 0.4);
        }
    }
}

static const enum sl_dtype table_dtypes[] = {SL_DTYPE_REAL, SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};
static const float int8_scale = 0.03f;

/* The case's numbers in another dtype. bf16 of sl_real are rounded; all other narrow numbers are made up. */
static void narrow_table(struct case_ *c, enum sl_dtype dtype)
{
    size_t n = (size_t)PART * c->n_columns;
    void *narrow = need(n, sizeof(sl_real));
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
    free(narrow);
}

/* As narrow_table, but as numbers of X's dtype. */
static void widen_table(struct case_ *c, enum sl_dtype dtype, enum sl_dtype x_dtype)
{
    size_t n = (size_t)PART * c->n_columns;
    void *wide = need(n, sizeof(sl_real));
    narrow_table(c, dtype);
    if (x_dtype == SL_DTYPE_BF16) {
        for (size_t i = 0; i < n && dtype == SL_DTYPE_REAL; i++) {
            ((sl_bf16 *)wide)[i] = sl_bf16_of(c->table[i]);
        }
        if (dtype != SL_DTYPE_REAL) {
            sl_convert_to_bf16(dtype, int8_scale, n, c->table, wide);
        }
    } else if (dtype == SL_DTYPE_REAL) {
        memcpy(wide, c->table, n * sizeof(sl_real));
    } else {
        sl_convert_to_reals(dtype, int8_scale, n, c->table, wide);
    }
    memcpy(c->table, wide, n * sl_dtype_size(x_dtype));
    free(wide);
}

static void gather_on_cpu(const struct sl_feature_rows *rows, enum sl_dtype x_dtype, uint32_t n_rows, void *x)
{
    if (x_dtype == SL_DTYPE_BF16) {
        sl_gather_bf16_cpu(rows, n_rows, x);
    } else {
        sl_gather_cpu(rows, n_rows, x);
    }
}

/* A narrow table gives the bits of the same table in X's dtype. */
static void check_narrow(enum sl_dtype dtype, enum sl_dtype x_dtype, uint32_t n_rows, uint32_t n_columns,
                         double dropout)
{
    struct case_ narrow = make_case(n_rows, n_columns);
    struct case_ wide = make_case(n_rows, n_columns);
    struct sl_draw draw = {.seed = SEED, .step = 7, .purpose = SL_FOR_DROPOUT, .hop = 3};
    uint32_t threshold = sl_dropout_threshold(dropout);
    size_t bytes = n_rows * sl_dtype_bytes(x_dtype, n_columns);
    void *x = need(bytes + 1, 1);
    void *wanted = need(bytes + 1, 1);
    narrow_table(&narrow, dtype);
    widen_table(&wide, dtype, x_dtype);
    struct sl_feature_rows rows = rows_from(&narrow, 0, threshold, &draw);
    rows.dtype = dtype;
    rows.scale = int8_scale;
    gather_on_cpu(&rows, x_dtype, n_rows, x);
    rows.table = wide.table;
    rows.dtype = x_dtype;
    gather_on_cpu(&rows, x_dtype, n_rows, wanted);
    assert_true(bytes == 0 || memcmp(x, wanted, bytes) == 0);
    free(x);
    free(wanted);
    free_case(&narrow);
    free_case(&wide);
}

static void test_narrow(void **state)
{
    const uint32_t widths[] = {1, 7, 8, 64, 255, 257, 600};
    (void)state;
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        for (size_t d = 1; d < sizeof table_dtypes / sizeof *table_dtypes; d++) {
            for (int bf16 = 0; bf16 < 2; bf16++) {
                check_narrow(table_dtypes[d], bf16 ? SL_DTYPE_BF16 : SL_DTYPE_REAL, 16, widths[w], 0);
                check_narrow(table_dtypes[d], bf16 ? SL_DTYPE_BF16 : SL_DTYPE_REAL, 16, widths[w], 0.4);
            }
        }
    }
}

#ifdef SL_CUDA
static void check_launcher(enum sl_dtype dtype, enum sl_dtype x_dtype, uint32_t n_rows, uint32_t n_columns,
                           double dropout)
{
    struct case_ c = make_case(n_rows, n_columns);
    struct sl_draw draw = {.seed = SEED, .step = 7, .purpose = SL_FOR_DROPOUT, .hop = 3};
    uint32_t threshold = sl_dropout_threshold(dropout);
    size_t row_bytes = sl_dtype_bytes(x_dtype, n_columns);
    void *wanted = need(n_rows, row_bytes);
    narrow_table(&c, dtype);
    void *table = on_device(c.table, PART * sl_dtype_bytes(dtype, n_columns));
    sl_vertex *ids = on_device(c.ids, n_rows * sizeof *ids);
    sl_vertex *dataset_ids = on_device(c.dataset_ids, (FIRST + PART) * sizeof *dataset_ids);
    void *x_device = device_room(n_rows * row_bytes);
    struct sl_feature_rows rows = rows_from(&c, 0, threshold, &draw);
    rows.dtype = dtype;
    rows.scale = int8_scale;
    gather_on_cpu(&rows, x_dtype, n_rows, wanted);
    rows.table = table;
    rows.ids = ids;
    rows.dataset_ids = dataset_ids;
    expect_launched(sl_gather_cuda(NULL, &rows, n_rows, x_dtype, x_device));
    expect_on_device("X", x_device, n_rows, row_bytes, wanted);
    cudaFree(table);
    cudaFree(ids);
    cudaFree(dataset_ids);
    free(wanted);
    free_case(&c);
}

static void test_launcher(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 9, 64, 128, 255, 256, 257, 600};
    need_device();
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        for (uint32_t n = 0; n < 4; n++) {
            for (size_t d = 0; d < sizeof table_dtypes / sizeof *table_dtypes; d++) {
                check_launcher(table_dtypes[d], SL_DTYPE_REAL, n * n * 4, widths[w], 0);
                check_launcher(table_dtypes[d], SL_DTYPE_REAL, n * n * 4, widths[w], 0.4);
                if (table_dtypes[d] != SL_DTYPE_REAL) {
                    check_launcher(table_dtypes[d], SL_DTYPE_BF16, n * n * 4, widths[w], 0);
                    check_launcher(table_dtypes[d], SL_DTYPE_BF16, n * n * 4, widths[w], 0.4);
                }
            }
        }
    }
}
#endif

/* frontier, table, dataset ids. */
static struct sl_feature_handles features_of(const starpu_data_handle_t handles[3], double dropout)
{
    return (struct sl_feature_handles){.table = handles[1],
                                       .dtype = SL_DTYPE_REAL,
                                       .first = FIRST,
                                       .frontier = handles[0],
                                       .dropout = dropout,
                                       .seed = SEED,
                                       .dataset_ids = handles[2]};
}

static enum sl_status submit(const struct case_ *c, uint32_t row0, double dropout, sl_real *x, uint32_t n_rows)
{
    starpu_data_handle_t handles[] = {
        vector_of(c->ids, c->n_rows, sizeof *c->ids),
        matrix_of(c->table, PART, c->n_columns, sizeof(sl_real)),
        vector_of(c->dataset_ids, FIRST + PART, sizeof *c->dataset_ids),
        rows_of(x, n_rows, c->n_columns),
    };
    struct sl_feature_handles features = features_of(handles, dropout);
    enum sl_status st = sl_gather_submit(&head, &features, row0, handles[3]);
    UNREGISTER(handles);
    return st;
}

static void check_submission(double dropout)
{
    struct case_ c = make_case(19, 37);
    struct sl_draw draw = {.seed = SEED, .step = head.step, .purpose = SL_FOR_DROPOUT, .hop = head.hop};
    sl_real *wanted = poisoned(12 * 37);
    sl_real *x = poisoned(12 * 37);
    struct sl_feature_rows rows = rows_from(&c, 5, sl_dropout_threshold(dropout), &draw);
    sl_gather_cpu(&rows, 12, wanted);
    expect_ok(submit(&c, 5, dropout, x, 12));
    expect_no_failure();
    expect_same("X", 12 * 37, sizeof *x, x, wanted);
    free(x);
    free(wanted);
    free_case(&c);
}

static void test_submission(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        check_submission(0);
        check_submission(0.25);
        fixture_stop();
    }
}

static void test_failure(void **state)
{
    (void)state;
    struct case_ c = make_case(10, 6);
    sl_real *x = poisoned(10 * 6);
    fixture_start(1);
    fixture_fail();
    expect_ok(submit(&c, 0, 0.5, x, 10));
    expect_still(x[0], (sl_real)-12345.5);
    fixture_stop();
    free(x);
    free_case(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),     cmocka_unit_test(test_narrow),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),
#endif
        cmocka_unit_test(test_submission), cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
