/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/batchnorm.h: moments, their merger whatever the chunks, running statistics, submissions. */
#include "codelets/batchnorm.h"

#include "codelets/activate.h"
#include "tests/support/starpu_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

/* Numbers far from zero, so that a sum of squares without its mean would lose all digits. */
static sl_real *offset_noise(size_t n, uint64_t seed)
{
    sl_real *z = noisy(n, seed);
    for (size_t i = 0; i < n; i++) {
        z[i] += 1000;
    }
    return z;
}

/* Two passes in long double over column c. */
static void column(uint32_t n_rows, uint32_t n_columns, const sl_real *z, uint32_t c, double *mean_out, double *m2_out)
{
    long double mean = 0;
    long double m2 = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        mean += (long double)z[(size_t)i * n_columns + c];
    }
    mean /= n_rows;
    for (uint32_t i = 0; i < n_rows; i++) {
        long double deviation = (long double)z[(size_t)i * n_columns + c] - mean;
        m2 += deviation * deviation;
    }
    *mean_out = (double)mean;
    *m2_out = (double)m2;
}

static void check_moments(uint32_t n_rows, uint32_t n_columns)
{
    sl_real *z = offset_noise((size_t)n_rows * n_columns, 1);
    double *moments = need(2 * (size_t)n_columns, sizeof *moments);
    sl_batchnorm_moments_cpu(n_rows, n_columns, z, moments);
    for (uint32_t c = 0; c < n_columns; c++) {
        double mean, m2;
        column(n_rows, n_columns, z, c, &mean, &m2);
        expect_near_at("mean", c, moments[c], mean, 1e-12 * 1000 * n_rows);
        expect_near_at("M2", c, moments[n_columns + c], m2, 1e-12 * 1000 * n_rows);
    }
    free(z);
    free(moments);
}

static void test_moments(void **state)
{
    (void)state;
    check_moments(1, 1);
    check_moments(1, 9);
    check_moments(50, 1);
    check_moments(33, 70);
}

/* Chunks of any sizes give the statistics of the whole. */
static void check_merge(uint32_t n, const uint32_t *counts)
{
    enum { F = 11 };
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        n_rows += counts[i];
    }
    sl_real *z = offset_noise((size_t)n_rows * F, 2);
    double *moments = need(2 * (size_t)n * F, sizeof *moments);
    const double **parts = need(n, sizeof *parts);
    sl_real statistics[2 * F];
    double unbiased[2 * F];
    uint32_t row = 0;
    for (uint32_t i = 0; i < n; i++) {
        sl_batchnorm_moments_cpu(counts[i], F, z + (size_t)row * F, moments + 2 * (size_t)i * F);
        parts[i] = moments + 2 * (size_t)i * F;
        row += counts[i];
    }
    sl_batchnorm_merge_cpu(n, F, parts, counts, statistics, unbiased);
    for (uint32_t c = 0; c < F; c++) {
        double mean, m2;
        column(n_rows, F, z, c, &mean, &m2);
        double rstd = 1 / sqrt(m2 / n_rows + 1e-5);
        expect_near_at("mean", c, (double)statistics[c], mean, 1000 * EPSILON + 1e-9);
        expect_near_at("rstd", c, (double)statistics[F + c], rstd, rstd * (2 * EPSILON + 1e-8));
        expect_near_at("unbiased mean", c, unbiased[c], mean, 1e-9);
        expect_near_at("unbiased variance", c, unbiased[F + c], m2 / (n_rows > 1 ? n_rows - 1 : 1), 1e-9);
    }
    free(z);
    free(moments);
    free(parts);
}

static void test_merge(void **state)
{
    (void)state;
    const uint32_t one[] = {1}, whole[] = {40}, even[] = {10, 10, 10, 10}, odd[] = {1, 37, 2, 1, 9};
    check_merge(1, one);
    check_merge(1, whole);
    check_merge(4, even);
    check_merge(5, odd);
}

static void test_running(void **state)
{
    (void)state;
    const double first[] = {1, 2, 10, 20}, second[] = {3, 6, 30, 40};
    const double *groups[] = {first, second};
    sl_real running[] = {0, 1, 1, 5}, statistics[4];
    const double wanted[] = {0.2, 0.9 + 0.4, 0.9 + 2, 4.5 + 3};
    sl_batchnorm_running_cpu(2, 2, groups, running);
    expect_rows("running", 4, running, wanted, 16 * EPSILON);
    sl_batchnorm_fixed_cpu(2, running, statistics);
    for (int c = 0; c < 2; c++) {
        double rstd = 1 / sqrt((double)running[2 + c] + SL_NORM_EPSILON);
        assert_true(statistics[c] == running[c]);
        expect_near("rstd of evaluation", (double)statistics[2 + c], rstd, 2 * EPSILON);
    }
}

/* A group's sums of its chunks': a one that float would lose beside a large number. The gradients: of rounded
 * numbers. */
static void test_sums(void **state)
{
    (void)state;
    const double first[] = {1e9, 1, 2, 3}, second[] = {1, 10, 20, 30}, third[] = {-1e9, 0, 0, 0.5};
    const double *all[] = {first, second, third};
    const double wanted[] = {1, 11, 22, 33.5};
    sl_real lost = (sl_real)1e9;
    lost += 1;
    lost -= (sl_real)1e9;
    double sum[4];
    sl_real gw[2], gb[2];
    sl_batchnorm_sum_cpu(3, 2, all, sum);
    sl_batchnorm_gradient_cpu(3, 2, all, gw, gb);
    for (int k = 0; k < 4; k++) {
        assert_true(sum[k] == wanted[k]);
        assert_true((double)(k < 2 ? gw[k] : gb[k - 2]) == (k == 0 ? (double)lost : wanted[k]));
    }
    sl_batchnorm_sum_cpu(0, 2, NULL, sum);
    assert_true(sum[0] == 0 && sum[3] == 0);
}

#ifdef SL_CUDA
static void check_moments_launcher(uint32_t n_rows, uint32_t n_columns)
{
    size_t f = 2 * (size_t)n_columns;
    sl_real *z = offset_noise((size_t)n_rows * n_columns, 6);
    double *wanted = need(f, sizeof *wanted);
    double *got = need(f, sizeof *got);
    double *again = need(f, sizeof *again);
    sl_real *z_device = on_device(z, (size_t)n_rows * n_columns * sizeof *z);
    double *first = device_room(f * sizeof *first);
    double *second = device_room(f * sizeof *second);
    sl_batchnorm_moments_cpu(n_rows, n_columns, z, wanted);
    expect_launched(sl_batchnorm_moments_cuda(NULL, n_rows, n_columns, z_device, first));
    expect_launched(sl_batchnorm_moments_cuda(NULL, n_rows, n_columns, z_device, second));
    from_device(got, first, f * sizeof *got);
    from_device(again, second, f * sizeof *again);
    for (size_t k = 0; k < f; k++) {
        expect_near_at(k < n_columns ? "mean" : "M2", k, got[k], wanted[k], 1e-12 * 1000 * n_rows);
    }
    expect_same("moments again", f, sizeof *got, again, got);
    cudaFree(z_device);
    free(z);
    free(wanted);
    free(got);
    free(again);
}

static void test_moments_launcher(void **state)
{
    (void)state;
    const uint32_t shapes[][2] = {{1, 1}, {1, 9}, {50, 1}, {32, 32}, {33, 70}, {257, 40}, {2500, 5}, {5000, 33}};
    need_device();
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        check_moments_launcher(shapes[s][0], shapes[s][1]);
    }
}

/* The launchers of what is small, over n chunks and n groups: the bits of the CPU. */
static void check_small_launchers(uint32_t n, uint32_t n_columns)
{
    size_t f = 2 * (size_t)n_columns;
    const double **moments = need(n, sizeof *moments);
    const double **moments_device = need(n, sizeof *moments_device);
    uint32_t *counts = need(n, sizeof *counts);
    double *all = need(n * f, sizeof *all);
    sl_real *wanted = noisy(4 * f, 8); /* statistics, running, gw and gb, evaluation's statistics */
    sl_real *got = noisy(4 * f, 8);
    double *unbiased = need(2 * f, sizeof *unbiased);
    double *sum = need(2 * f, sizeof *sum);
    double *all_device = device_room(n * f * sizeof *all);
    sl_real *d = on_device(got, 4 * f * sizeof *d);
    double *unbiased_device = device_room(f * sizeof *unbiased);
    double *sum_device = device_room(f * sizeof *sum);
    for (size_t k = 0; k < n * f; k++) {
        all[k] = noise(9, k) + 2;
    }
    for (uint32_t i = 0; i < n; i++) {
        counts[i] = 1 + i % 5;
        moments[i] = all + i * f;
        moments_device[i] = all_device + i * f;
    }
    for (size_t k = n_columns; k < f; k++) { /* running variances */
        wanted[f + k] += 1;
    }
    assert_int_equal(cudaMemcpy(all_device, all, n * f * sizeof *all, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(cudaMemcpy(d, wanted, 4 * f * sizeof *d, cudaMemcpyHostToDevice), cudaSuccess);
    sl_batchnorm_merge_cpu(n, n_columns, moments, counts, wanted, unbiased);
    sl_batchnorm_running_cpu(n, n_columns, moments, wanted + f);
    sl_batchnorm_sum_cpu(n, n_columns, moments, sum);
    sl_batchnorm_gradient_cpu(n, n_columns, moments, wanted + 2 * f, wanted + 2 * f + n_columns);
    sl_batchnorm_fixed_cpu(n_columns, wanted + f, wanted + 3 * f);
    expect_launched(sl_batchnorm_merge_cuda(NULL, n, n_columns, moments_device, counts, d, unbiased_device));
    expect_launched(sl_batchnorm_running_cuda(NULL, n, n_columns, moments_device, d + f));
    expect_launched(sl_batchnorm_sum_cuda(NULL, n, n_columns, moments_device, sum_device));
    expect_launched(sl_batchnorm_gradient_cuda(NULL, n, n_columns, moments_device, d + 2 * f, d + 2 * f + n_columns));
    expect_launched(sl_batchnorm_fixed_cuda(NULL, n_columns, d + f, d + 3 * f));
    from_device(got, d, 4 * f * sizeof *got);
    from_device(unbiased + f, unbiased_device, f * sizeof *unbiased);
    expect_same("statistics, running, gradients, fixed", 4 * f, sizeof *got, got, wanted);
    from_device(sum + f, sum_device, f * sizeof *sum);
    expect_same("unbiased", f, sizeof *unbiased, unbiased + f, unbiased);
    expect_same("the group's sums", f, sizeof *sum, sum + f, sum);
    cudaFree(all_device);
    void *blocks[] = {moments, moments_device, counts, all, wanted, got, unbiased, sum};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        free(blocks[i]);
    }
}

static void test_small_launchers(void **state)
{
    (void)state;
    need_device();
    check_small_launchers(1, 1);
    check_small_launchers(3, 300);
    check_small_launchers(256, 7);
    check_small_launchers(600, 40);
}

/* No group at all, or no chunk: gradients and sums are cleared. */
static void test_gradient_of_no_group(void **state)
{
    (void)state;
    sl_real got[6] = {0};
    double sum[6] = {0};
    sl_real *d = NULL;
    double *sum_device = NULL;
    need_device();
    sum_device = device_room(sizeof sum);
    expect_launched(sl_batchnorm_sum_cuda(NULL, 0, 3, NULL, sum_device));
    sum[0] = 1;
    from_device(sum, sum_device, sizeof sum);
    d = device_room(sizeof got);
    expect_launched(sl_batchnorm_gradient_cuda(NULL, 0, 3, NULL, d, d + 3));
    got[0] = 1;
    from_device(got, d, sizeof got);
    for (int k = 0; k < 6; k++) {
        assert_true(got[k] == 0 && sum[k] == 0);
    }
}
#endif

/* ---- submissions ---- */

enum { CHUNKS = 12, ROWS = 5, F = 6 }; /* more chunks than StarPU has fixed buffers */

struct data {
    sl_real *z;
    double moments[CHUNKS][2 * F];
    uint32_t counts[CHUNKS];
    sl_real statistics[2 * F], running[2 * F], fixed[2 * F], gradients[2 * F];
    double unbiased[2][2 * F], sum[2 * F];
};

static struct data *make_data(void)
{
    struct data *d = need(1, sizeof *d);
    d->z = offset_noise((size_t)CHUNKS * ROWS * F, 3);
    for (int i = 0; i < CHUNKS; i++) {
        d->counts[i] = i == CHUNKS - 1 ? 2 : ROWS;
    }
    fill(2 * F, 4, d->running);
    for (int c = 0; c < 2 * F; c++) {
        d->running[c] += 2;
        d->unbiased[1][c] = noise(5, (size_t)c) + 3;
    }
    return d;
}

static void with_kernels(struct data *d)
{
    const double *parts[CHUNKS];
    const double *groups[] = {d->unbiased[0], d->unbiased[1]};
    for (int i = 0; i < CHUNKS; i++) {
        sl_batchnorm_moments_cpu(d->counts[i], F, d->z + (size_t)i * ROWS * F, d->moments[i]);
        parts[i] = d->moments[i];
    }
    sl_batchnorm_merge_cpu(CHUNKS, F, parts, d->counts, d->statistics, d->unbiased[0]);
    sl_batchnorm_running_cpu(2, F, groups, d->running);
    sl_batchnorm_fixed_cpu(F, d->running, d->fixed);
    sl_batchnorm_sum_cpu(CHUNKS, F, parts, d->sum);
    sl_batchnorm_gradient_cpu(2, F, groups, d->gradients, d->gradients + F);
}

static void with_starpu(struct data *d)
{
    starpu_data_handle_t moments[CHUNKS];
    starpu_data_handle_t z[CHUNKS];
    starpu_data_handle_t h[] = {rows_of(d->statistics, 2, F), rows_of(d->running, 2, F), rows_of(d->fixed, 2, F)};
    starpu_data_handle_t groups[] = {matrix_of(d->unbiased[0], 2, F, 8), matrix_of(d->unbiased[1], 2, F, 8)};
    starpu_data_handle_t sums[] = {matrix_of(d->sum, 2, F, 8), rows_of(d->gradients, 1, F),
                                   rows_of(d->gradients + F, 1, F)};
    for (int i = 0; i < CHUNKS; i++) {
        z[i] = rows_of(d->z + (size_t)i * ROWS * F, d->counts[i], F);
        moments[i] = matrix_of(d->moments[i], 2, F, sizeof(double));
        expect_ok(sl_batchnorm_moments_submit(&head, z[i], moments[i]));
    }
    expect_ok(sl_batchnorm_merge_submit(&head, CHUNKS, moments, d->counts, h[0], groups[0]));
    expect_ok(sl_batchnorm_running_submit(&head, 2, groups, h[1]));
    expect_ok(sl_batchnorm_fixed_submit(&head, h[1], h[2]));
    expect_ok(sl_batchnorm_sum_submit(&head, CHUNKS, moments, sums[0]));
    expect_ok(sl_batchnorm_gradient_submit(&head, 2, groups, sums[1], sums[2]));
    UNREGISTER(sums);
    UNREGISTER(z);
    UNREGISTER(moments);
    UNREGISTER(groups);
    UNREGISTER(h);
}

static void test_submissions(void **state)
{
    (void)state;
    struct data *wanted = make_data();
    with_kernels(wanted);
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct data *got = make_data();
        fixture_start(worker_counts[w]);
        with_starpu(got);
        expect_no_failure();
        fixture_stop();
        expect_same("moments", CHUNKS * 2 * F, sizeof(double), got->moments, wanted->moments);
        expect_same("statistics", 2 * F, sizeof(sl_real), got->statistics, wanted->statistics);
        expect_same("unbiased", 4 * F, sizeof(double), got->unbiased, wanted->unbiased);
        expect_same("running", 2 * F, sizeof(sl_real), got->running, wanted->running);
        expect_same("fixed", 2 * F, sizeof(sl_real), got->fixed, wanted->fixed);
        expect_same("sum", 2 * F, sizeof(double), got->sum, wanted->sum);
        expect_same("gradients", 2 * F, sizeof(sl_real), got->gradients, wanted->gradients);
        free(got->z);
        free(got);
    }
    free(wanted->z);
    free(wanted);
}

static void test_failure(void **state)
{
    (void)state;
    struct data *d = make_data();
    struct data *before = make_data();
    fixture_start(1);
    starpu_data_handle_t h[] = {matrix_of(d->moments[0], 2, F, 8), matrix_of(d->moments[1], 2, F, 8),
                                rows_of(d->statistics, 2, F), matrix_of(d->unbiased[0], 2, F, 8)};
    sl_memory_ration(0);
    assert_int_equal(sl_batchnorm_merge_submit(&head, 2, h, d->counts, h[2], h[3]), SL_ENOMEM);
    sl_memory_ration(-1);
    UNREGISTER(h);
    fixture_fail();
    with_starpu(d);
    fixture_stop();
    expect_unwritten("moments", CHUNKS * 2 * F, sizeof(double), d->moments, before->moments);
    expect_unwritten("statistics", 2 * F, sizeof(sl_real), d->statistics, before->statistics);
    expect_unwritten("running", 2 * F, sizeof(sl_real), d->running, before->running);
    expect_unwritten("fixed", 2 * F, sizeof(sl_real), d->fixed, before->fixed);
    expect_unwritten("sum", 2 * F, sizeof(double), d->sum, before->sum);
    expect_unwritten("gradients", 2 * F, sizeof(sl_real), d->gradients, before->gradients);
    free(d->z);
    free(d);
    free(before->z);
    free(before);
}

/* A task that cannot have its memory fails the run. */
static void test_task_without_memory(void **state)
{
    (void)state;
    sl_real running[2 * F] = {0};
    double unbiased[2 * F] = {0};
    fixture_start(1);
    starpu_data_handle_t h[] = {rows_of(running, 2, F), matrix_of(unbiased, 2, F, 8)};
    sl_memory_ration(0);
    expect_ok(sl_batchnorm_running_submit(&head, 1, &h[1], h[0]));
    UNREGISTER(h);
    sl_memory_ration(-1);
    assert_int_equal(sl_failure_status(&run.failure), SL_ENOMEM);
    fixture_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_running),
        cmocka_unit_test(test_sums),
#ifdef SL_CUDA
        cmocka_unit_test(test_moments_launcher),
        cmocka_unit_test(test_small_launchers),
        cmocka_unit_test(test_gradient_of_no_group),
#endif
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_task_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
