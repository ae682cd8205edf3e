/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/features.h: non-zeros, form, largest magnitudes and normalisation of each dtype are the float32 table's.
 */
#include "tests/support/data_fixture.h"

#include <math.h>

#include "data/features.h"
#include "support/convert.h"
#include "support/parallel.h"
#include "tests/support/floats.h"

enum { ROWS = 7, COLUMNS = 300 };

static const enum sl_dtype dtypes[] = {SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};
static const float scale = 0.3f;

static void *copy_of(const void *from, size_t bytes)
{
    void *data;
    assert_ok(sl_alloc(bytes, 1, "a table", &data));
    memcpy(data, from, bytes);
    return data;
}

/* A table of the dtype, and the same numbers in float32. every: one entry in so many is not zero. */
static void make(enum sl_dtype dtype, uint32_t every, struct sl_features *narrow, struct sl_features *wide)
{
    static uint16_t entries[ROWS * COLUMNS];
    static float floats[ROWS * COLUMNS];
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
        bool some = i % every == 0;
        if (dtype == SL_DTYPE_I8) {
            ((int8_t *)entries)[i] = (int8_t)(some ? i * 37 % 101 + 1 : 0);
        } else {
            entries[i] = (uint16_t)(some ? 0x3c00 + i * 7 % 256 : 0x8000 * (i % 2)); /* -0 is zero */
        }
    }
    sl_convert_to_floats(dtype, scale, ROWS * COLUMNS, entries, floats);
    *narrow = *wide = (struct sl_features){.n_rows = ROWS, .n_columns = COLUMNS};
    narrow->dense =
        sl_column_take(dtype, ROWS, COLUMNS, copy_of(entries, sl_dtype_bytes(dtype, (size_t)ROWS * COLUMNS)));
    narrow->dense.scale = scale;
    wide->dense = sl_column_take(SL_DTYPE_F32, ROWS, COLUMNS, copy_of(floats, sizeof floats));
}

static void assert_same_csr(const struct sl_features *a, const struct sl_features *b)
{
    uint64_t n = b->offsets[ROWS];
    assert_memory_equal(a->offsets, b->offsets, (ROWS + 1) * sizeof *a->offsets);
    assert_memory_equal(a->columns, b->columns, n * sizeof *a->columns);
    assert_memory_equal(a->values, b->values, n * sizeof *a->values);
}

TEST(agrees)
{
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (uint32_t every = 2; every <= 20; every += 18) {
            struct sl_features narrow, wide;
            struct sl_feature_range a, b;
            make(dtypes[d], every, &narrow, &wide);
            assert_int_equal(sl_features_dtype(&narrow), dtypes[d]);
            assert_null(floats_of(&narrow));
            assert_int_equal(sl_features_nonzeros(&narrow), sl_features_nonzeros(&wide));
            assert_ok(sl_features_measure(&narrow, &a));
            assert_ok(sl_features_measure(&wide, &b));
            assert_true(a.column == b.column && a.largest[0] == b.largest[0] && a.largest[1] == b.largest[1]);
            assert_ok(sl_features_settle(&narrow));
            assert_ok(sl_features_settle(&wide));
            if (every == 20) {
                assert_same_csr(&narrow, &wide);
                assert_int_equal(sl_features_dtype(&narrow), SL_DTYPE_F32);
            } else {
                assert_int_equal(narrow.dense.dtype, dtypes[d]);
            }
            assert_ok(sl_features_normalize(&narrow, SL_NORMALIZE_ROW, &(struct sl_scaling){0}));
            assert_ok(sl_features_normalize(&wide, SL_NORMALIZE_ROW, &(struct sl_scaling){0}));
            if (every == 20) {
                assert_same_csr(&narrow, &wide);
            } else {
                assert_memory_equal(floats_of(&narrow), wide.dense.data,
                                    sl_column_bytes_of(&wide.dense, wide.dense.n_rows));
            }
            sl_features_free(&narrow);
            sl_features_free(&wide);
        }
    }
}

/* A borrowed table is never written. */
TEST(borrowed)
{
    float table[ROWS * 2], before[ROWS * 2];
    for (int i = 0; i < ROWS * 2; i++) {
        table[i] = before[i] = (float)i;
    }
    OWNED(sl_features_free) struct sl_features features = {.n_rows = ROWS, .n_columns = 2};
    features.dense = sl_column_take(SL_DTYPE_F32, ROWS, 2, table);
    features.dense.hold = SL_HOLD_BORROWED;
    assert_survives_no_memory(sl_features_normalize(&features, SL_NORMALIZE_ROW, &(struct sl_scaling){0}));
    assert_true(floats_of(&features) != table && features.dense.hold == SL_HOLD_OWNED);
    assert_memory_equal(table, before, sizeof table);
    assert_true(fabsf(floats_of(&features)[2] - 0.4f) < 1e-6f);
}

/* Mean 0 and deviation 1 in each column but a constant one, dense or CSR, the same bits with any number of threads. */
TEST(columns)
{
    struct sl_features dense, csr, narrow, again;
    struct sl_scaling by_csr = {0}, by_dense = {0};
    make(SL_DTYPE_I8, 20, &narrow, &dense);
    sl_features_free(&narrow);
    for (uint32_t r = 0; r < ROWS; r++) {
        ((float *)dense.dense.data)[r * COLUMNS + 1] = 1;
    }
    csr = dense;
    csr.dense.data = copy_of(dense.dense.data, sl_column_bytes_of(&dense.dense, dense.dense.n_rows));
    assert_ok(sl_features_settle(&csr));
    assert_non_null(csr.offsets);
    sl_parallel_limit(1);
    assert_survives_no_memory(sl_features_normalize(&csr, SL_NORMALIZE_COLUMN, &by_csr));
    sl_parallel_limit(0);
    again = (struct sl_features){.n_rows = ROWS / 2, .n_columns = COLUMNS}; /* a part of the rows */
    again.dense = sl_column_take(SL_DTYPE_F32, ROWS / 2, COLUMNS, dense.dense.data);
    again.dense.data = copy_of(dense.dense.data, sl_column_bytes_of(&again.dense, again.dense.n_rows));
    assert_ok(sl_features_normalize(&dense, SL_NORMALIZE_COLUMN, &by_dense));
    assert_true(by_dense.n == COLUMNS && sl_scaling_equal(&by_csr, &by_dense));
    assert_ok(sl_features_normalize(&again, SL_NORMALIZE_COLUMN, &by_dense)); /* with the statistics of all rows */
    assert_memory_equal(again.dense.data, dense.dense.data, sl_column_bytes_of(&again.dense, again.dense.n_rows));
    again.n_columns--;
    assert_int_equal(sl_features_normalize(&again, SL_NORMALIZE_COLUMN, &by_dense), SL_EINVAL);
    sl_features_free(&again);
    assert_memory_equal(csr.dense.data, dense.dense.data, sl_column_bytes_of(&dense.dense, dense.dense.n_rows));
    const float *x = dense.dense.data;
    int n_constant = 0;
    for (uint32_t c = 0; c < COLUMNS; c++) {
        double sum = 0, squares = 0;
        for (uint32_t r = 0; r < ROWS; r++) {
            sum += x[r * COLUMNS + c];
            squares += (double)x[r * COLUMNS + c] * x[r * COLUMNS + c];
        }
        assert_true(fabs(sum) < 1e-5);
        assert_true(squares == 0 || fabs(squares / ROWS - 1) < 1e-5);
        n_constant += squares == 0;
    }
    assert_in_range(n_constant, 1, COLUMNS - 1);
    assert_true(x[1] == 0);
    sl_features_free(&dense);
    sl_features_free(&csr);
    sl_scaling_free(&by_csr);
    sl_scaling_free(&by_dense);
}

/* The first entry that is not finite, by any thread. */
TEST(infinite)
{
    static sl_f16 table[1000 * 100];
    struct sl_column column = sl_column_take(SL_DTYPE_F16, 1000, 100, table);
    assert_int_equal(sl_column_first_infinite(&column), 100000);
    table[99999] = 0x7c01;
    assert_int_equal(sl_column_first_infinite(&column), 99999);
    table[70001] = 0xfc00;
    assert_int_equal(sl_column_first_infinite(&column), 70001);
}

TEST_MAIN(NULL, nothing_left)
