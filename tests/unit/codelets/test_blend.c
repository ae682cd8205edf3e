/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/blend.h: entries to the bit, the adjoint, and submissions: which rows are written, which are left, and
 * which need not have been there. */
#include "codelets/blend.h"

#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

static const double factors[] = {0, 1, -0.3, 1e6};
#define N_FACTORS (sizeof factors / sizeof factors[0])

static void blend_plainly(size_t n, double a, const sl_real *x, int beta, sl_real *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = beta == 0 ? (sl_real)a * x[i] : out[i] + (sl_real)a * x[i];
    }
}

/* What OUT holds before: numbers where they are added to, else what must not be read. */
static sl_real *before(size_t n, int beta)
{
    sl_real *out = noisy(n, 2);
    for (size_t i = 0; beta == 0 && i < n; i++) {
        out[i] = (sl_real)NAN;
    }
    return out;
}

static void check_kernel(size_t n, double a, int beta)
{
    sl_real *x = noisy(n, 1);
    sl_real *got = before(n, beta);
    sl_real *wanted = before(n, beta);
    blend_plainly(n, a, x, beta, wanted);
    sl_blend_cpu(SL_DTYPE_REAL, SL_DTYPE_REAL, n, a, x, beta, got);
    expect_same("OUT", n, sizeof *got, got, wanted);
    for (size_t i = 0; i < n; i++) {
        double exact = a * (double)x[i] + (beta == 0 ? 0 : noise(2, i));
        expect_near_at("OUT", i, (double)got[i], exact, 4 * EPSILON * (1 + fabs(a)));
    }
    free(x);
    free(got);
    free(wanted);
}

static void test_kernel(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 7, 64, 1001};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t f = 0; f < N_FACTORS; f++) {
            check_kernel(sizes[s], factors[f], 0);
            check_kernel(sizes[s], factors[f], 1);
        }
    }
}

/* <a X, Y> = <X, a Y>: a blend is its own adjoint. */
static void test_adjoint(void **state)
{
    (void)state;
    enum { N = 301 };
    sl_real *x = noisy(N, 1);
    sl_real *y = noisy(N, 2);
    sl_real *ax = poisoned(N);
    sl_real *ay = need(N, sizeof *ay);
    sl_blend_cpu(SL_DTYPE_REAL, SL_DTYPE_REAL, N, 0.7, x, 0, ax);
    sl_blend_cpu(SL_DTYPE_REAL, SL_DTYPE_REAL, N, 0.7, y, 1, ay);
    expect_near("<X, A^T Y>", inner(N, x, ay), inner(N, ax, y), rounding(N, 1));
    free(x);
    free(y);
    free(ax);
    free(ay);
}

#ifdef SL_CUDA
/* The bits of the CPU; `shift`: entries by which the addresses are off their alignment. */
static void check_launcher(size_t n, size_t shift, double a, int beta)
{
    size_t bytes = (n + shift) * sizeof(sl_real);
    sl_real *x = noisy(n + shift, 1);
    sl_real *wanted = before(n + shift, beta);
    sl_real *x_device = on_device(x, bytes);
    sl_real *out = on_device(wanted, bytes);
    blend_plainly(n, a, x + shift, beta, wanted + shift);
    expect_launched(sl_blend_cuda(NULL, SL_DTYPE_REAL, SL_DTYPE_REAL, n, a, x_device + shift, beta, out + shift));
    expect_on_device("OUT", out, n + shift, sizeof *wanted, wanted);
    cudaFree(x_device);
    free(x);
    free(wanted);
}

static void check_bf16_launcher(size_t n, size_t shift, double a, int beta)
{
    size_t bytes = (n + shift) * sizeof(sl_bf16);
    sl_real *wide = noisy(n + shift, 1);
    sl_bf16 *x = need(n + shift, sizeof *x);
    sl_bf16 *wanted = need(n + shift, sizeof *wanted);
    sl_bf16_round(n + shift, wide, x);
    fill(n + shift, 2, wide);
    sl_bf16_round(n + shift, wide, wanted);
    sl_bf16 *x_device = on_device(x, bytes);
    sl_bf16 *out = on_device(wanted, bytes);
    sl_blend_cpu(SL_DTYPE_BF16, SL_DTYPE_BF16, n, a, x + shift, beta, wanted + shift);
    expect_launched(sl_blend_cuda(NULL, SL_DTYPE_BF16, SL_DTYPE_BF16, n, a, x_device + shift, beta, out + shift));
    expect_on_device("OUT", out, n + shift, sizeof *wanted, wanted);
    cudaFree(x_device);
    free(wide);
    free(x);
    free(wanted);
}

static void test_launcher(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 7, 8, 5001, 1024};
    need_device();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t f = 0; f < N_FACTORS; f++) {
            check_launcher(sizes[s], 0, factors[f], (int)f % 2);
            check_launcher(sizes[s], 1, factors[f], 1 - (int)f % 2);
            check_bf16_launcher(sizes[s], 0, factors[f], (int)f % 2);
            check_bf16_launcher(sizes[s], 1, factors[f], 1 - (int)f % 2);
        }
    }
}
#endif

/* ---- submissions ---- */

enum { X_ROWS = 12, OUT_ROWS = 9, F = 7 };

static void check_submission(uint32_t n_rows, uint32_t x_row0, int beta, uint32_t out_row0)
{
    sl_real *x = noisy(X_ROWS * F, 1);
    sl_real *got = noisy(OUT_ROWS * F, 2);
    sl_real *wanted = noisy(OUT_ROWS * F, 2);
    starpu_data_handle_t handles[] = {rows_of(x, X_ROWS, F), rows_of(got, OUT_ROWS, F)};
    expect_ok(sl_blend_submit(&head, SL_STAGE_AGGREGATE, n_rows, 0.6, (struct sl_blend_rows){handles[0], x_row0}, beta,
                              (struct sl_blend_rows){handles[1], out_row0}));
    UNREGISTER(handles);
    sl_blend_cpu(SL_DTYPE_REAL, SL_DTYPE_REAL, (size_t)n_rows * F, 0.6, x + x_row0 * F, beta, wanted + out_row0 * F);
    expect_same("OUT", OUT_ROWS * F, sizeof *got, got, wanted);
    free(x);
    free(got);
    free(wanted);
}

/* OUT has no memory yet: StarPU refuses whoever would read it. */
static void check_unwritten(void)
{
    sl_real *x = noisy(OUT_ROWS * F, 1);
    sl_real *got = poisoned(OUT_ROWS * F);
    sl_real *wanted = noisy(OUT_ROWS * F, 1);
    starpu_data_handle_t handles[] = {rows_of(x, OUT_ROWS, F), rows_of(got, OUT_ROWS, F)};
    starpu_data_handle_t fresh;
    expect_ok(sl_matrix_register(OUT_ROWS, F, SL_DTYPE_REAL, &fresh));
    expect_ok(sl_blend_submit(&head, SL_STAGE_DENSE, OUT_ROWS, 1, (struct sl_blend_rows){handles[0], 0}, 0,
                              (struct sl_blend_rows){fresh, 0}));
    expect_ok(sl_blend_clear_submit(&head, SL_STAGE_DENSE, handles[1]));
    expect_ok(sl_blend_submit(&head, SL_STAGE_DENSE, OUT_ROWS, 1, (struct sl_blend_rows){fresh, 0}, 1,
                              (struct sl_blend_rows){handles[1], 0}));
    sl_handle_drop(&fresh);
    expect_ok(sl_matrix_register(OUT_ROWS, F, SL_DTYPE_REAL, &fresh));
    expect_ok(sl_blend_clear_submit(&head, SL_STAGE_DENSE, fresh));
    expect_ok(sl_blend_submit(&head, SL_STAGE_DENSE, OUT_ROWS, 1, (struct sl_blend_rows){fresh, 0}, 1,
                              (struct sl_blend_rows){handles[1], 0}));
    sl_handle_drop(&fresh);
    UNREGISTER(handles);
    expect_same("OUT", OUT_ROWS * F, sizeof *got, got, wanted);
    free(x);
    free(got);
    free(wanted);
}

/* The time goes to the stage that the caller names; evaluation's stays evaluation's. */
static void check_stage(void)
{
    sl_real *x = noisy(X_ROWS * F, 1);
    sl_real *out = noisy(X_ROWS * F, 2);
    double seconds[SL_N_STAGES];
    struct sl_task_args evaluation = head;
    evaluation.stage = SL_STAGE_EVALUATE;
    starpu_task_wait_for_all();
    sl_run_log_reset(&run);
    starpu_data_handle_t handles[] = {rows_of(x, X_ROWS, F), rows_of(out, X_ROWS, F)};
    struct sl_blend_rows from = {handles[0], 0};
    struct sl_blend_rows to = {handles[1], 0};
    expect_ok(sl_blend_submit(&head, SL_STAGE_BACKWARD, X_ROWS, 1, from, 1, to));
    expect_ok(sl_blend_clear_submit(&head, SL_STAGE_SYNC, handles[1]));
    expect_ok(sl_blend_submit(&evaluation, SL_STAGE_DENSE, X_ROWS, 1, from, 1, to));
    UNREGISTER(handles);
    starpu_task_wait_for_all();
    sl_run_stage_seconds(&run, seconds);
    assert_true(seconds[SL_STAGE_BACKWARD] > 0 && seconds[SL_STAGE_SYNC] > 0 && seconds[SL_STAGE_EVALUATE] > 0);
    assert_true(seconds[SL_STAGE_DENSE] == 0);
    free(x);
    free(out);
}

static void test_submissions(void **state)
{
    (void)state;
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        for (int beta = 0; beta < 2; beta++) {
            check_submission(OUT_ROWS, 0, beta, 0);
            check_submission(OUT_ROWS, 3, beta, 0);
            check_submission(4, 8, beta, 5);
            check_submission(1, 11, beta, 8);
            check_submission(0, 12, beta, 9);
        }
        check_unwritten();
        check_stage();
        expect_no_failure();
        fixture_stop();
    }
}

/* Rows in bf16, or OUT alone: what the kernel makes of the same rows in float, rounded; the rows around them stay. */
static void check_bf16(bool both, uint32_t n_rows, uint32_t x_row0, int beta, uint32_t out_row0)
{
    sl_real *wide_x = noisy(X_ROWS * F, 1);
    sl_real *wide = noisy(OUT_ROWS * F, 2);
    sl_bf16 x[X_ROWS * F];
    sl_bf16 got[OUT_ROWS * F];
    sl_bf16 wanted[OUT_ROWS * F];
    sl_bf16_round(X_ROWS * F, wide_x, x);
    sl_bf16_widen(both ? X_ROWS * F : 0, x, wide_x);
    sl_bf16_round(OUT_ROWS * F, wide, got);
    sl_bf16_widen(OUT_ROWS * F, got, wide);
    starpu_data_handle_t handles[] = {both ? matrix_of(x, X_ROWS, F, sizeof *x) : rows_of(wide_x, X_ROWS, F),
                                      matrix_of(got, OUT_ROWS, F, sizeof *got)};
    expect_ok(sl_blend_submit(&head, SL_STAGE_AGGREGATE, n_rows, 0.6, (struct sl_blend_rows){handles[0], x_row0}, beta,
                              (struct sl_blend_rows){handles[1], out_row0}));
    UNREGISTER(handles);
    sl_blend_cpu(SL_DTYPE_REAL, SL_DTYPE_REAL, (size_t)n_rows * F, 0.6, wide_x + x_row0 * F, beta, wide + out_row0 * F);
    sl_bf16_round(OUT_ROWS * F, wide, wanted);
    expect_same("OUT", OUT_ROWS * F, sizeof *got, got, wanted);
    free(wide_x);
    free(wide);
}

static void test_bf16(void **state)
{
    (void)state;
    fixture_start(2);
    for (int beta = 0; beta < 2; beta++) {
        for (int both = 0; both < 2; both++) {
            check_bf16(both, OUT_ROWS, 3, beta, 0);
            check_bf16(both, 4, 8, beta, 5);
        }
    }
    expect_no_failure();
    fixture_stop();
}

static void test_failure_drains(void **state)
{
    (void)state;
    sl_real *x = noisy(OUT_ROWS * F, 1);
    sl_real *out = poisoned(OUT_ROWS * F);
    fixture_start(1);
    starpu_data_handle_t h[] = {rows_of(x, OUT_ROWS, F), rows_of(out, OUT_ROWS, F)};
    fixture_fail();
    expect_ok(sl_blend_submit(&head, SL_STAGE_DENSE, OUT_ROWS, 1, (struct sl_blend_rows){h[0], 0}, 0,
                              (struct sl_blend_rows){h[1], 0}));
    expect_ok(sl_blend_clear_submit(&head, SL_STAGE_DENSE, h[1]));
    UNREGISTER(h);
    fixture_stop();
    expect_still(out[0], (sl_real)-12345.5);
    free(x);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),      cmocka_unit_test(test_adjoint),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),
#endif
        cmocka_unit_test(test_submissions), cmocka_unit_test(test_bf16),    cmocka_unit_test(test_failure_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
