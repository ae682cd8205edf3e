/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/bias.h: rows repeated, to the bit; sums of columns, plain and weighted, against sums in double, and the
 * very bits of codelets/rows/dense.h. */
#include "codelets/rows/bias.h"

#include "codelets/rows/dense.h"
#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

/* Rows and columns: one, more rows than are added up at a time, more columns than a tile, quads and not. */
static const uint32_t shapes[][2] = {{1, 1}, {1, 8}, {7, 3}, {64, 12}, {65, 700}, {300, 33}, {3000, 36}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* Rows of `columns` entries of a longer one and, where width > 0, weights in rows of their own. */
static struct sl_column_sums weighted(uint32_t rows, uint32_t columns, uint32_t width)
{
    struct sl_column_sums s = {.n_rows = rows, .n_columns = columns, .stride = columns + 3};
    s.g = noisy(rows * s.stride, 4);
    if (width > 0) {
        s.width = width;
        s.weight_stride = (columns + width - 1) / width + 2;
        s.weight = noisy(rows * s.weight_stride, 5);
    }
    return s;
}

static void free_sums(struct sl_column_sums *s)
{
    free((void *)(uintptr_t)s->g);
    free((void *)(uintptr_t)s->weight);
}

/* In long double: thousands of additions in double would cost digits that the kernel in double has. */
static double *sum_plainly(const struct sl_column_sums *s, int beta, const sl_real *before)
{
    double *sums = need(s->n_columns, sizeof *sums);
    for (uint32_t c = 0; c < s->n_columns; c++) {
        long double sum = beta == 0 ? 0 : (long double)before[c];
        for (uint32_t i = 0; i < s->n_rows; i++) {
            double weight = s->weight == NULL ? 1 : (double)s->weight[i * s->weight_stride + c / s->width];
            sum += (long double)weight * (long double)s->g[i * s->stride + c];
        }
        sums[c] = (double)sum;
    }
    return sums;
}

/* 64 rows are added up in sl_real; their sums, in double, lose nothing more. */
static double tolerance_of(uint32_t rows)
{
    return rounding(64, 1) * sqrt(rows / 64.0 + 1) + 2 * EPSILON * (1 + sqrt(rows));
}

static void check_sums(uint32_t rows, uint32_t columns, uint32_t width, int beta)
{
    struct sl_column_sums s = weighted(rows, columns, width);
    FREED sl_real *sums = noisy(columns, 6);
    FREED double *wanted = sum_plainly(&s, beta, sums);
    for (uint32_t c = 0; beta == 0 && c < columns; c++) {
        sums[c] = (sl_real)NAN;
    }
    sl_column_sums_cpu(&s, beta, sums);
    expect_rows("sum", columns, sums, wanted, tolerance_of(rows));
    free_sums(&s);
}

static const uint32_t widths[] = {0, 1, 3, 300, 1000}; /* 0: no weights */
#define N_WIDTHS (sizeof widths / sizeof widths[0])

TEST(sums)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (size_t w = 0; w < N_WIDTHS; w++) {
            check_sums(shapes[s][0], shapes[s][1], widths[w], 0);
            check_sums(shapes[s][0], shapes[s][1], widths[w], 1);
        }
    }
}

/* The gradient of a bias is what codelets/rows/dense.h computes beside that of its weights. */
TEST(as_dense)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        uint32_t rows = shapes[s][0], columns = shapes[s][1];
        FREED sl_real *x = noisy(rows, 1);
        FREED sl_real *gz = noisy((size_t)rows * columns, 2);
        FREED sl_real *gw = poisoned(columns);
        FREED sl_real *gb = poisoned(columns);
        FREED sl_real *wanted = poisoned(columns);
        expect_ok(sl_dense_backward_weight_cpu(SL_DTYPE_REAL, rows, 1, columns, x, gz, gw, wanted));
        sl_bias_backward_cpu(rows, columns, gz, 0, gb);
        expect_same("GB", columns, sizeof *gb, gb, wanted);
    }
}

#ifdef SL_CUDA
/* Up to 64 rows the CPU's bits; else the same sums of 64 rows, added in double in another order. */
static void expect_sums(uint32_t rows, uint32_t columns, const sl_real *got, const sl_real *wanted)
{
    if (rows <= 64) {
        expect_same("sum", columns, sizeof *got, got, wanted);
    }
    expect_agreement("sum", columns, got, wanted, 2 * EPSILON * (1 + sqrt(rows)));
}

static void check_sums_launcher(uint32_t rows, uint32_t columns, uint32_t width, int beta)
{
    struct sl_column_sums s = weighted(rows, columns, width);
    struct sl_column_sums on_gpu = s;
    FREED sl_real *wanted = noisy(columns, 6);
    FREED sl_real *got = noisy(columns, 6);
    sl_real *sums = on_device(got, columns * sizeof *got);
    on_gpu.g = on_device(s.g, rows * s.stride * sizeof *s.g);
    on_gpu.weight = width == 0 ? NULL : on_device(s.weight, rows * s.weight_stride * sizeof *s.weight);
    sl_column_sums_cpu(&s, beta, wanted);
    expect_launched(sl_column_sums_cuda(NULL, &on_gpu, beta, sums));
    from_device(got, sums, columns * sizeof *got);
    expect_sums(rows, columns, got, wanted);
    cudaFree((void *)(uintptr_t)on_gpu.g);
    cudaFree((void *)(uintptr_t)on_gpu.weight);
    free_sums(&s);
}

TEST(launchers)
{
    need_device();
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (size_t w = 0; w < N_WIDTHS; w++) {
            check_sums_launcher(shapes[s][0], shapes[s][1], widths[w], (int)w % 2);
        }
    }
}
#endif

/* ---- tasks ---- */

static void check_tasks(uint32_t rows, uint32_t columns, size_t shift)
{
    const size_t n = (size_t)rows * columns;
    FREED sl_real *b = noisy(columns + shift, 1);
    FREED sl_real *z = poisoned(n + shift);
    FREED sl_real *gz = noisy(n, 2);
    FREED sl_real *gb = poisoned(columns);
    const struct sl_column_sums plain = {.n_rows = rows, .n_columns = columns, .g = gz, .stride = columns};
    FREED double *wanted = sum_plainly(&plain, 0, NULL);
    starpu_data_handle_t h[] = {rows_of(b + shift, 1, columns), rows_of(z + shift, rows, columns),
                                rows_of(gz, rows, columns), rows_of(gb, 1, columns)};
    expect_ok(sl_bias_forward_submit(&head, h[0], h[1]));
    expect_ok(sl_bias_backward_submit(&head, h[2], h[3]));
    UNREGISTER(h);
    expect_no_failure();
    for (size_t i = 0; i < n; i++) {
        assert_true(z[shift + i] == b[shift + i % columns]);
    }
    assert_true(shift == 0 || z[0] == (sl_real)-12345.5);
    expect_rows("GB", columns, gb, wanted, tolerance_of(rows));
}

TEST(tasks)
{
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        if (w == 0) {
            fixture_watch();
        }
        for (size_t s = 0; s < N_SHAPES; s++) {
            check_tasks(shapes[s][0], shapes[s][1], 0);
            check_tasks(shapes[s][0], shapes[s][1], 1);
        }
        fixture_stop();
    }
}

TEST_MAIN(NULL, NULL)
