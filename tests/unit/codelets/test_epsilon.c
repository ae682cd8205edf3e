/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/epsilon.h: products to the bit, the gradient against a sum in long double, the adjoint, submissions against
 * kernels.
 */
#include "codelets/epsilon.h"

#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

#define E ((sl_real)0.3)

static const uint32_t shapes[][2] = {{0, 5}, {1, 1}, {7, 3}, {64, 12}, {65, 700}, {300, 33}, {3000, 36}};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])

static sl_bf16 *rounded(size_t n, unsigned seed)
{
    sl_real *wide = noisy(n, seed);
    sl_bf16 *x = need(n + 1, sizeof *x);
    sl_bf16_round(n, wide, x);
    free(wide);
    return x;
}

/* dtypes: the kernels read X, then OUT where they add, and write OUT. */
static void check_forward(size_t n, int beta, bool x_bf16, bool out_bf16)
{
    sl_real *x = noisy(n, 1);
    sl_bf16 *x16 = rounded(n, 1);
    sl_real *out = noisy(n, 2);
    sl_bf16 *out16 = rounded(n, 2);
    const sl_real e = E;
    sl_epsilon_forward_cpu(n, &e, x_bf16 ? SL_DTYPE_BF16 : SL_DTYPE_REAL, x_bf16 ? (void *)x16 : x, beta,
                           out_bf16 ? SL_DTYPE_BF16 : SL_DTYPE_REAL, out_bf16 ? (void *)out16 : out);
    sl_bf16 *before16 = rounded(n, 2);
    sl_real *before = noisy(n, 2);
    for (size_t i = 0; i < n; i++) {
        sl_real product = E * (x_bf16 ? sl_bf16_real(x16[i]) : x[i]);
        if (out_bf16) {
            assert_true(out16[i] == sl_bf16_of(beta ? sl_bf16_real(before16[i]) + product : product));
        } else {
            assert_true(out[i] == (beta ? before[i] + product : product));
        }
    }
    free(x);
    free(x16);
    free(out);
    free(out16);
    free(before);
    free(before16);
}

static void test_forward(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        size_t n = (size_t)shapes[s][0] * shapes[s][1];
        for (int beta = 0; beta < 2; beta++) {
            check_forward(n, beta, false, false);
            check_forward(n, beta, true, false);
            check_forward(n, beta, true, true);
        }
    }
}

static sl_real gradient_of(uint32_t n_rows, uint32_t n_columns, const sl_real *g, enum sl_dtype x_dtype, const void *x)
{
    sl_real ge = 0;
    sl_epsilon_gradient_cpu(n_rows, n_columns, g, x_dtype, x, &ge);
    return ge;
}

static double product_of(size_t n, const sl_real *g, const sl_real *x, double *size)
{
    long double sum = 0;
    *size = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (long double)g[i] * (long double)x[i];
        *size += fabs((double)g[i] * (double)x[i]);
    }
    return (double)sum;
}

static void test_gradient(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SHAPES; s++) {
        size_t n = (size_t)shapes[s][0] * shapes[s][1];
        sl_real *g = noisy(n, 3);
        sl_real *x = noisy(n, 4);
        sl_bf16 *x16 = rounded(n, 4);
        double size;
        double wanted = product_of(n, g, x, &size);
        double got = (double)gradient_of(shapes[s][0], shapes[s][1], g, SL_DTYPE_REAL, x);
        expect_near("GE", got, wanted, rounding(shapes[s][1], size));
        for (size_t i = 0; i < n; i++) {
            x[i] = sl_bf16_real(x16[i]);
        }
        wanted = product_of(n, g, x, &size);
        got = (double)gradient_of(shapes[s][0], shapes[s][1], g, SL_DTYPE_BF16, x16);
        expect_near("GE of bf16 rows", got, wanted, rounding(shapes[s][1], size));
        free(g);
        free(x);
        free(x16);
    }
}

#ifdef SL_CUDA
static void check_launcher(uint32_t rows, uint32_t columns, int beta)
{
    size_t n = (size_t)rows * columns;
    sl_real e = E;
    sl_real *g = noisy(n, 3);
    sl_real *x = noisy(n, 4);
    sl_real *out = noisy(n, 2);
    sl_real ge = 0;
    double size;
    sl_real *e_device = on_device(&e, sizeof e);
    sl_real *g_device = on_device(g, n * sizeof *g);
    sl_real *x_device = on_device(x, n * sizeof *x);
    sl_real *out_device = on_device(out, n * sizeof *out);
    sl_real *ge_device = on_device(&ge, sizeof ge);
    expect_launched(
        sl_epsilon_forward_cuda(NULL, n, e_device, SL_DTYPE_REAL, x_device, beta, SL_DTYPE_REAL, out_device));
    sl_epsilon_forward_cpu(n, &e, SL_DTYPE_REAL, x, beta, SL_DTYPE_REAL, out);
    expect_on_device("OUT", out_device, n, sizeof *out, out);
    expect_launched(sl_epsilon_gradient_cuda(NULL, rows, columns, g_device, SL_DTYPE_REAL, x_device, ge_device));
    assert_int_equal(cudaMemcpy(&ge, ge_device, sizeof ge, cudaMemcpyDeviceToHost), cudaSuccess);
    double wanted = product_of(n, g, x, &size);
    expect_near("GE", (double)ge, wanted, rounding(columns, size));
    cudaFree(e_device);
    cudaFree(g_device);
    cudaFree(x_device);
    cudaFree(ge_device);
    free(g);
    free(x);
    free(out);
}

static void test_launcher(void **state)
{
    (void)state;
    need_device();
    for (size_t s = 0; s < N_SHAPES; s++) {
        check_launcher(shapes[s][0], shapes[s][1], 0);
        check_launcher(shapes[s][0], shapes[s][1], 1);
    }
}
#endif

/* ---- submissions ---- */

enum { X_ROWS = 12, ROWS = 9, ROW0 = 2, F = 7 };

static void test_submissions(void **state)
{
    (void)state;
    sl_real e = E;
    sl_real *x = noisy(X_ROWS * F, 1);
    sl_real *out = noisy(ROWS * F, 2);
    sl_real *wanted = noisy(ROWS * F, 2);
    sl_real *gx = noisy(X_ROWS * F, 1);
    sl_real ge[2] = {0, 0};
    const uint32_t ends[] = {0, 4, ROWS};
    struct sl_runs runs = {2, ends};
    struct sl_task_args in_runs;
    fixture_start(2);
    starpu_data_handle_t handles[] = {rows_of(&e, 1, 1), rows_of(x, X_ROWS, F), rows_of(out, ROWS, F),
                                      rows_of(gx, X_ROWS, F), rows_of(ge, 2, 1)};
    in_runs = head;
    in_runs.runs = &runs;
    expect_ok(sl_epsilon_forward_submit(&head, handles[0], handles[1], ROW0, 1, handles[2]));
    expect_ok(sl_epsilon_gradient_submit(&in_runs, handles[2], handles[1], ROW0, handles[4]));
    expect_ok(sl_epsilon_backward_submit(&head, handles[0], handles[2], handles[3], ROW0));
    UNREGISTER(handles);
    sl_epsilon_forward_cpu(ROWS * F, &e, SL_DTYPE_REAL, x + ROW0 * F, 1, SL_DTYPE_REAL, wanted);
    expect_same("OUT", ROWS * F, sizeof *out, out, wanted);
    assert_true(ge[0] == gradient_of(4, F, out, SL_DTYPE_REAL, x + ROW0 * F));
    assert_true(ge[1] == gradient_of(ROWS - 4, F, out + 4 * F, SL_DTYPE_REAL, x + (ROW0 + 4) * F));
    sl_epsilon_forward_cpu(ROWS * F, &e, SL_DTYPE_REAL, out, 1, SL_DTYPE_REAL, x + ROW0 * F);
    expect_same("GX", X_ROWS * F, sizeof *gx, gx, x);
    expect_no_failure();
    fixture_stop();
    free(x);
    free(out);
    free(wanted);
    free(gx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_gradient),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),
#endif
        cmocka_unit_test(test_submissions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
