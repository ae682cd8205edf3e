/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/optimize.h: some steps of Adam against the formula in double, and the submission. */
#include "codelets/optimize.h"

#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

enum { ROWS = 13, COLUMNS = 11, N = ROWS * COLUMNS, STEPS = 5 };

static const struct sl_adam adam0 = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0};

/* The textbook's order of operations. */
static void step_in_double(const struct sl_adam *adam, const sl_real *gradient, double *w, double *m, double *v)
{
    for (size_t i = 0; i < N; i++) {
        double g = (double)gradient[i] + adam->decay * w[i];
        m[i] = adam->beta1 * m[i] + (1 - adam->beta1) * g;
        v[i] = adam->beta2 * v[i] + (1 - adam->beta2) * g * g;
        double m_hat = m[i] / (1 - pow(adam->beta1, (double)adam->t));
        double v_hat = v[i] / (1 - pow(adam->beta2, (double)adam->t));
        w[i] -= adam->lr * m_hat / (sqrt(v_hat) + adam->eps);
    }
}

/* Some gradients are zero, one is tiny: eps then decides. */
static void make_gradient(int t, sl_real *gradient)
{
    fill(N, 100 + (uint64_t)t, gradient);
    for (size_t i = 0; i < N; i += 9) {
        gradient[i] = 0;
    }
    gradient[1] = (sl_real)1e-9;
}

static void check_steps(double decay)
{
    struct sl_adam adam = adam0;
    sl_real *w = noisy(N, 1);
    sl_real *m = need(N, sizeof *m);
    sl_real *v = need(N, sizeof *v);
    sl_real *gradient = need(N, sizeof *gradient);
    double w_wanted[N], m_wanted[N] = {0}, v_wanted[N] = {0};
    for (size_t i = 0; i < N; i++) {
        w_wanted[i] = (double)w[i];
    }
    adam.decay = decay;
    for (int t = 1; t <= STEPS; t++) {
        adam.t = (uint64_t)t;
        adam.lr = 0.01 / t;
        make_gradient(t, gradient);
        sl_optimize_cpu(&adam, N, gradient, w, m, v);
        step_in_double(&adam, gradient, w_wanted, m_wanted, v_wanted);
    }
    /* Each step rounds a few times; an update is at most about lr. */
    expect_rows("W", N, w, w_wanted, 16 * STEPS * EPSILON);
    expect_rows("M", N, m, m_wanted, 16 * STEPS * EPSILON);
    expect_rows("V", N, v, v_wanted, 16 * STEPS * EPSILON);
    free(w);
    free(m);
    free(v);
    free(gradient);
}

static void test_steps(void **state)
{
    (void)state;
    check_steps(0);
    check_steps(0.05);
}

/* Far into a run the corrections vanish, and must not overflow or lose the step. */
static void test_late_step(void **state)
{
    (void)state;
    struct sl_adam adam = adam0;
    sl_real g = 2, w = 1, m = 2, v = 4;
    adam.t = 10000000;
    sl_optimize_cpu(&adam, 1, &g, &w, &m, &v);
    expect_near("w", (double)w, 1 - 0.01 * 2 / (2 + 1e-8), 4 * EPSILON);
}

#ifdef SL_CUDA
/* The bits of the CPU. */
static void check_launcher(size_t n)
{
    struct sl_adam adam = adam0;
    size_t bytes = n * sizeof(sl_real);
    sl_real *host[] = {noisy(n, 1), noisy(n, 2), noisy(n, 3), noisy(n, 4)};
    sl_real *device[4];
    sl_real *got = need(n, sizeof *got);
    adam.t = 3;
    adam.decay = 0.1;
    for (size_t i = 0; i < n; i++) {
        host[3][i] *= host[3][i];
    }
    for (int i = 0; i < 4; i++) {
        device[i] = on_device(host[i], bytes);
    }
    expect_launched(sl_optimize_cuda(NULL, &adam, n, device[0], device[1], device[2], device[3]));
    sl_optimize_cpu(&adam, n, host[0], host[1], host[2], host[3]);
    for (int i = 0; i < 4; i++) {
        from_device(got, device[i], bytes);
        expect_same("gradient, W, M, V", n, sizeof *got, got, host[i]);
        free(host[i]);
    }
    free(got);
}

static void test_launcher(void **state)
{
    (void)state;
    need_device();
    check_launcher(0);
    check_launcher(1);
    check_launcher(255);
    check_launcher(70001);
}
#endif

static void with_starpu(const struct sl_adam *adam, sl_real *g, sl_real *w, sl_real *m, sl_real *v)
{
    starpu_data_handle_t h[] = {rows_of(g, ROWS, COLUMNS), rows_of(w, ROWS, COLUMNS), rows_of(m, ROWS, COLUMNS),
                                rows_of(v, ROWS, COLUMNS)};
    expect_ok(sl_optimize_submit(&head, adam, h[0], h[1], h[2], h[3]));
    UNREGISTER(h);
}

static void check_submission(void)
{
    struct sl_adam adam = adam0;
    sl_real *g = noisy(N, 1);
    sl_real *got[] = {noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    sl_real *wanted[] = {noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    adam.t = 3;
    adam.decay = 0.1;
    for (size_t i = 0; i < N; i++) { /* second moments are not negative */
        got[2][i] = wanted[2][i] = wanted[2][i] * wanted[2][i];
    }
    with_starpu(&adam, g, got[0], got[1], got[2]);
    sl_optimize_cpu(&adam, N, g, wanted[0], wanted[1], wanted[2]);
    for (int i = 0; i < 3; i++) {
        expect_same("W, M, V", N, sizeof(sl_real), got[i], wanted[i]);
        free(got[i]);
        free(wanted[i]);
    }
    free(g);
}

/* By rows: every third row has no gradient, and stays as it is with its moments. The others are as ever. */
static void check_rows(bool submitted)
{
    struct sl_adam adam = adam0;
    sl_real *g = noisy(N, 1);
    sl_real *got[] = {noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    sl_real *wanted[] = {noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    adam.t = 3;
    adam.decay = 0.1;
    for (size_t i = 0; i < N; i++) {
        got[2][i] = wanted[2][i] = wanted[2][i] * wanted[2][i];
        g[i] = i / COLUMNS % 3 == 0 ? 0 : g[i];
    }
    g[1 * COLUMNS] = 0; /* alone in its row */
    if (submitted) {
        starpu_data_handle_t h[] = {rows_of(g, ROWS, COLUMNS), rows_of(got[0], ROWS, COLUMNS),
                                    rows_of(got[1], ROWS, COLUMNS), rows_of(got[2], ROWS, COLUMNS)};
        expect_ok(sl_optimize_rows_submit(&head, &adam, h[0], NULL, h[1], h[2], h[3]));
        UNREGISTER(h);
    } else {
        sl_optimize_rows_cpu(&adam, ROWS, COLUMNS, g, NULL, got[0], got[1], got[2]);
    }
    for (size_t r = 0; r < ROWS; r++) {
        const size_t first = r * COLUMNS;
        sl_optimize_cpu(&adam, r % 3 == 0 ? 0 : COLUMNS, g + first, wanted[0] + first, wanted[1] + first,
                        wanted[2] + first);
    }
    for (int i = 0; i < 3; i++) {
        expect_same("W, M, V by rows", N, sizeof(sl_real), got[i], wanted[i]);
        free(got[i]);
        free(wanted[i]);
    }
    free(g);
}

/* Rows that are not noted as touched stay, whatever their gradient. */
static void check_touched(bool submitted)
{
    struct sl_adam adam = adam0;
    sl_real *g = noisy(N, 1);
    sl_real *got[] = {noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    sl_real *wanted[] = {noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    int8_t touched[ROWS];
    adam.t = 3;
    for (size_t i = 0; i < N; i++) {
        got[2][i] = wanted[2][i] = wanted[2][i] * wanted[2][i];
    }
    for (size_t r = 0; r < ROWS; r++) {
        touched[r] = r % 3 == 1;
    }
    if (submitted) {
        starpu_data_handle_t h[] = {rows_of(g, ROWS, COLUMNS), rows_of(got[0], ROWS, COLUMNS),
                                    rows_of(got[1], ROWS, COLUMNS), rows_of(got[2], ROWS, COLUMNS), NULL};
        starpu_matrix_data_register(&h[4], STARPU_MAIN_RAM, (uintptr_t)touched, ROWS, ROWS, 1, sizeof *touched);
        expect_ok(sl_optimize_rows_submit(&head, &adam, h[0], h[4], h[1], h[2], h[3]));
        UNREGISTER(h);
    } else {
        sl_optimize_rows_cpu(&adam, ROWS, COLUMNS, g, touched, got[0], got[1], got[2]);
    }
    for (size_t r = 0; r < ROWS; r++) {
        const size_t first = r * COLUMNS;
        sl_optimize_cpu(&adam, touched[r] ? COLUMNS : 0, g + first, wanted[0] + first, wanted[1] + first,
                        wanted[2] + first);
    }
    for (int i = 0; i < 3; i++) {
        expect_same("W, M, V of touched rows", N, sizeof(sl_real), got[i], wanted[i]);
        free(got[i]);
        free(wanted[i]);
    }
    free(g);
}

static void test_rows(void **state)
{
    (void)state;
    check_rows(false);
    check_touched(false);
    fixture_start(1);
    check_rows(true);
    check_touched(true);
    expect_no_failure();
    fixture_stop();
}

#ifdef SL_CUDA
static void test_rows_launcher(void **state)
{
    (void)state;
    need_device();
    struct sl_adam adam = adam0;
    sl_real *host[] = {noisy(N, 1), noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    sl_real *device[4];
    sl_real *got = need(N, sizeof *got);
    adam.t = 3;
    for (size_t i = 0; i < N; i++) {
        host[0][i] = i / COLUMNS % 3 == 0 ? 0 : host[0][i];
        host[3][i] *= host[3][i];
    }
    for (int i = 0; i < 4; i++) {
        device[i] = on_device(host[i], N * sizeof *got);
    }
    expect_launched(
        sl_optimize_rows_cuda(NULL, &adam, ROWS, COLUMNS, device[0], NULL, device[1], device[2], device[3]));
    sl_optimize_rows_cpu(&adam, ROWS, COLUMNS, host[0], NULL, host[1], host[2], host[3]);
    for (int i = 0; i < 4; i++) {
        from_device(got, device[i], N * sizeof *got);
        expect_same("gradient, W, M, V by rows", N, sizeof *got, got, host[i]);
        free(host[i]);
    }
    free(got);
}
#endif

static void test_submission(void **state)
{
    (void)state;
    for (size_t n = 0; n < N_WORKER_COUNTS; n++) {
        fixture_start(worker_counts[n]);
        check_submission();
        expect_no_failure();
        fixture_stop();
    }
}

static void test_failure(void **state)
{
    (void)state;
    struct sl_adam adam = adam0;
    sl_real *x[] = {noisy(N, 1), noisy(N, 2), noisy(N, 3), noisy(N, 4)};
    sl_real *before = noisy(N, 2);
    fixture_start(1);
    fixture_fail();
    adam.t = 1;
    with_starpu(&adam, x[0], x[1], x[2], x[3]);
    fixture_stop();
    expect_same("W", N, sizeof(sl_real), x[1], before);
    for (int i = 0; i < 4; i++) {
        free(x[i]);
    }
    free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),      cmocka_unit_test(test_late_step),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),   cmocka_unit_test(test_rows_launcher),
#endif
        cmocka_unit_test(test_submission), cmocka_unit_test(test_failure),       cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
