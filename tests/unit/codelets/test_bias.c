/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/bias.h: rows repeated, to the bit; sums of columns, plain and weighted, against sums in double, and the
 * very bits of codelets/dense.h; submissions against kernels. */
#include "codelets/bias.h"

#include "codelets/dense.h"
#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

/* Rows and columns: none, one, more rows than are added up at a time, more columns than a tile, quads and not. */
static const uint32_t shapes[][2] = {{0, 5}, {1, 1}, {1, 8}, {7, 3}, {64, 12}, {65, 700}, {300, 33}, {3000, 36}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

static void check_forward(uint32_t rows, uint32_t columns, int with_bias)
{
    size_t n = (size_t)rows * columns;
    sl_real *b = noisy(columns, 1);
    sl_real *z = poisoned(n + 1);
    sl_bias_forward_cpu(rows, columns, with_bias ? b : NULL, z);
    for (size_t i = 0; i < n; i++) {
        assert_true(z[i] == (with_bias ? b[i % columns] : 0));
    }
    assert_true(z[n] == (sl_real)-12345.5);
    free(b);
    free(z);
}

static void test_forward(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        check_forward(shapes[s][0], shapes[s][1], 0);
        check_forward(shapes[s][0], shapes[s][1], 1);
    }
}

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
    sl_real *sums = noisy(columns, 6);
    double *wanted = sum_plainly(&s, beta, sums);
    for (uint32_t c = 0; beta == 0 && c < columns; c++) {
        sums[c] = (sl_real)NAN;
    }
    sl_column_sums_cpu(&s, beta, sums);
    expect_rows("sum", columns, sums, wanted, tolerance_of(rows));
    free_sums(&s);
    free(sums);
    free(wanted);
}

static const uint32_t widths[] = {0, 1, 3, 300, 1000}; /* 0: no weights */
#define N_WIDTHS (sizeof widths / sizeof widths[0])

static void test_sums(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        for (size_t w = 0; w < N_WIDTHS; w++) {
            check_sums(shapes[s][0], shapes[s][1], widths[w], 0);
            check_sums(shapes[s][0], shapes[s][1], widths[w], 1);
        }
    }
}

/* The gradient of a bias is what codelets/dense.h computes beside that of its weights. */
static void test_as_dense(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        uint32_t rows = shapes[s][0], columns = shapes[s][1];
        sl_real *x = noisy(rows, 1);
        sl_real *gz = noisy((size_t)rows * columns, 2);
        sl_real *gw = poisoned(columns);
        sl_real *gb = poisoned(columns);
        sl_real *wanted = poisoned(columns);
        expect_ok(sl_dense_backward_weight_cpu(rows, 1, columns, x, gz, gw, wanted));
        sl_bias_backward_cpu(rows, columns, gz, 0, gb);
        expect_same("GB", columns, sizeof *gb, gb, wanted);
        free(x);
        free(gz);
        free(gw);
        free(gb);
        free(wanted);
    }
}

/* <1 b, Y> = <b, sums of Y's columns>. */
static void test_adjoint(void **state)
{
    (void)state;
    enum { ROWS = 97, COLUMNS = 41 };
    sl_real *b = noisy(COLUMNS, 1);
    sl_real *y = noisy(ROWS * COLUMNS, 2);
    sl_real *z = poisoned(ROWS * COLUMNS);
    sl_real *gb = poisoned(COLUMNS);
    sl_bias_forward_cpu(ROWS, COLUMNS, b, z);
    sl_bias_backward_cpu(ROWS, COLUMNS, y, 0, gb);
    expect_near("<b, GB>", inner(COLUMNS, b, gb), inner(ROWS * COLUMNS, z, y), rounding(ROWS * COLUMNS, 1));
    free(b);
    free(y);
    free(z);
    free(gb);
}

#ifdef SL_CUDA
/* The bits of the CPU; `shift`: entries by which the addresses miss 16 bytes. */
static void check_forward_launcher(uint32_t rows, uint32_t columns, size_t shift, int with_bias)
{
    size_t n = (size_t)rows * columns + shift;
    sl_real *b = noisy(columns + shift, 1);
    sl_real *wanted = poisoned(n);
    sl_real *b_device = on_device(b, (columns + shift) * sizeof *b);
    sl_real *z_device = on_device(wanted, n * sizeof *wanted);
    sl_bias_forward_cpu(rows, columns, with_bias ? b + shift : NULL, wanted + shift);
    expect_launched(sl_bias_forward_cuda(NULL, rows, columns, with_bias ? b_device + shift : NULL, z_device + shift));
    expect_on_device("Z", z_device, n, sizeof *wanted, wanted);
    cudaFree(b_device);
    free(b);
    free(wanted);
}

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
    sl_real *wanted = noisy(columns, 6);
    sl_real *got = noisy(columns, 6);
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
    free(wanted);
    free(got);
}

static void check_backward_launcher(uint32_t rows, uint32_t columns)
{
    sl_real *gz = noisy((size_t)rows * columns, 1);
    sl_real *wanted = poisoned(columns);
    sl_real *got = poisoned(columns);
    sl_real *gz_device = on_device(gz, (size_t)rows * columns * sizeof *gz);
    sl_real *gb_device = device_room(columns * sizeof *got);
    sl_bias_backward_cpu(rows, columns, gz, 0, wanted);
    expect_launched(sl_bias_backward_cuda(NULL, rows, columns, gz_device, 0, gb_device));
    from_device(got, gb_device, columns * sizeof *got);
    expect_sums(rows, columns, got, wanted);
    cudaFree(gz_device);
    free(gz);
    free(wanted);
    free(got);
}

static void test_launchers(void **state)
{
    (void)state;
    need_device();
    for (size_t s = 0; s < N_SHAPES; s++) {
        check_forward_launcher(shapes[s][0], shapes[s][1], 0, 1);
        check_forward_launcher(shapes[s][0], shapes[s][1], 1, 1);
        check_forward_launcher(shapes[s][0], shapes[s][1], 0, 0);
        check_backward_launcher(shapes[s][0], shapes[s][1]);
        for (size_t w = 0; w < N_WIDTHS; w++) {
            check_sums_launcher(shapes[s][0], shapes[s][1], widths[w], (int)w % 2);
        }
    }
}
#endif

/* ---- submissions ---- */

enum { D = 61, H = 19 };

static void check_submissions(void)
{
    sl_real *b = noisy(H, 1);
    sl_real *z = poisoned(D * H);
    sl_real *gb = poisoned(H);
    sl_real *z_wanted = poisoned(D * H);
    sl_real *gb_wanted = poisoned(H);
    sl_real *gz = noisy(D * H, 2);
    starpu_data_handle_t handles[] = {rows_of(b, 1, H), rows_of(z, D, H), rows_of(gz, D, H), rows_of(gb, 1, H)};
    expect_ok(sl_bias_forward_submit(&head, handles[0], handles[1]));
    expect_ok(sl_bias_backward_submit(&head, handles[2], handles[3]));
    UNREGISTER(handles);
    sl_bias_forward_cpu(D, H, b, z_wanted);
    sl_bias_backward_cpu(D, H, gz, 0, gb_wanted);
    expect_same("Z", D * H, sizeof *z, z, z_wanted);
    expect_same("GB", H, sizeof *gb, gb, gb_wanted);
    free(b);
    free(z);
    free(gb);
    free(z_wanted);
    free(gb_wanted);
    free(gz);
}

static void test_submissions(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        check_submissions();
        expect_no_failure();
        fixture_stop();
    }
}

static void test_failure_drains(void **state)
{
    (void)state;
    sl_real *z = poisoned(D * H);
    sl_real *b = poisoned(H);
    sl_real *gb = poisoned(H);
    b[0] = 1;
    fixture_start(1);
    starpu_data_handle_t h[] = {rows_of(b, 1, H), rows_of(z, D, H), rows_of(gb, 1, H)};
    fixture_fail();
    expect_ok(sl_bias_forward_submit(&head, h[0], h[1]));
    expect_ok(sl_bias_backward_submit(&head, h[1], h[2]));
    UNREGISTER(h);
    fixture_stop();
    expect_still(z[0], (sl_real)-12345.5);
    expect_still(gb[0], (sl_real)-12345.5);
    free(z);
    free(b);
    free(gb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),     cmocka_unit_test(test_sums),
        cmocka_unit_test(test_as_dense),    cmocka_unit_test(test_adjoint),
#ifdef SL_CUDA
        cmocka_unit_test(test_launchers),
#endif
        cmocka_unit_test(test_submissions), cmocka_unit_test(test_failure_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
