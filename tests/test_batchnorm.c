/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/batchnorm.h: moments, their merger whatever the chunks, running statistics, submissions. */
#include "codelets/batchnorm.h"

#include "codelets/activate.h"
#include "tests/starpu_fixture.h"

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

/* ---- submissions ---- */

enum { CHUNKS = 12, ROWS = 5, F = 6 }; /* more chunks than StarPU has fixed buffers */

struct data {
    sl_real *z;
    double moments[CHUNKS][2 * F];
    uint32_t counts[CHUNKS];
    sl_real statistics[2 * F], running[2 * F], fixed[2 * F];
    double unbiased[2][2 * F];
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
}

static void with_starpu(struct data *d)
{
    starpu_data_handle_t moments[CHUNKS];
    starpu_data_handle_t z[CHUNKS];
    starpu_data_handle_t h[] = {rows_of(d->statistics, 2, F), rows_of(d->running, 2, F), rows_of(d->fixed, 2, F)};
    starpu_data_handle_t groups[] = {matrix_of(d->unbiased[0], 2, F, 8), matrix_of(d->unbiased[1], 2, F, 8)};
    for (int i = 0; i < CHUNKS; i++) {
        z[i] = rows_of(d->z + (size_t)i * ROWS * F, d->counts[i], F);
        moments[i] = matrix_of(d->moments[i], 2, F, sizeof(double));
        expect_ok(sl_batchnorm_moments_submit(&head, z[i], moments[i]));
    }
    expect_ok(sl_batchnorm_merge_submit(&head, CHUNKS, moments, d->counts, h[0], groups[0]));
    expect_ok(sl_batchnorm_running_submit(&head, 2, groups, h[1]));
    expect_ok(sl_batchnorm_fixed_submit(&head, h[1], h[2]));
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
        free(got->z);
        free(got);
    }
    free(wanted->z);
    free(wanted);
}

static void test_refusals_and_failure(void **state)
{
    (void)state;
    struct data *d = make_data();
    struct data *before = make_data();
    const uint32_t empty[] = {3, 0};
    fixture_start(1);
    starpu_data_handle_t z = rows_of(d->z, ROWS, F);
    starpu_data_handle_t m[] = {matrix_of(d->moments[0], 2, F, 8), matrix_of(d->moments[1], 2, F - 1, 8)};
    starpu_data_handle_t narrow = matrix_of(d->moments[2], 1, F, 8);
    starpu_data_handle_t s = rows_of(d->statistics, 2, F);
    starpu_data_handle_t u = matrix_of(d->unbiased[0], 2, F, 8);
    starpu_data_handle_t half = matrix_of(d->unbiased[1], 2, F, 2);
    assert_int_equal(sl_batchnorm_moments_submit(&head, z, narrow), SL_EINVAL);
    expect_message(sl_message(), "[1 x 6]", "[2 x 6]");
    assert_int_equal(sl_batchnorm_moments_submit(&head, z, half), SL_EINVAL);
    expect_message(sl_message(), "2 bytes", "8 bytes");
    assert_int_equal(sl_batchnorm_merge_submit(&head, 2, m, d->counts, s, u), SL_EINVAL);
    expect_message(sl_message(), "[2 x 5]", "[2 x 6]");
    assert_int_equal(sl_batchnorm_merge_submit(&head, 0, m, d->counts, s, u), SL_EINVAL);
    assert_int_equal(sl_batchnorm_running_submit(&head, 0, &u, s), SL_EINVAL);
    assert_int_equal(sl_batchnorm_running_submit(&head, 1, &half, s), SL_EINVAL);
    assert_int_equal(sl_batchnorm_fixed_submit(&head, s, half), SL_EINVAL);
    starpu_data_unregister(m[1]);
    m[1] = matrix_of(d->moments[1], 2, F, 8);
    assert_int_equal(sl_batchnorm_merge_submit(&head, 2, m, empty, s, u), SL_EINVAL);
    sl_memory_ration(0);
    assert_int_equal(sl_batchnorm_merge_submit(&head, 2, m, d->counts, s, u), SL_ENOMEM);
    sl_memory_ration(-1);
    const starpu_data_handle_t all[] = {z, m[0], m[1], narrow, s, u, half};
    UNREGISTER(all);
    fixture_fail();
    with_starpu(d);
    fixture_stop();
    expect_same("moments", CHUNKS * 2 * F, sizeof(double), d->moments, before->moments);
    expect_same("statistics", 2 * F, sizeof(sl_real), d->statistics, before->statistics);
    expect_same("running", 2 * F, sizeof(sl_real), d->running, before->running);
    expect_same("fixed", 2 * F, sizeof(sl_real), d->fixed, before->fixed);
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
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_refusals_and_failure),
        cmocka_unit_test(test_task_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
