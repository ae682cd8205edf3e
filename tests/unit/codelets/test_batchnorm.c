/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/rows/batchnorm.h: moments, their merger whatever the chunks, running statistics; tasks against kernels. */
#include "codelets/rows/batchnorm.h"

#include "codelets/rows/activate.h"
#include "tests/support/starpu_fixture.h"

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

/* Chunks of any sizes give the statistics of the whole. */
static void check_merge(uint32_t n, const uint32_t *counts)
{
    enum { F = 11 };
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        n_rows += counts[i];
    }
    FREED sl_real *z = offset_noise((size_t)n_rows * F, 2);
    FREED double *moments = need(2 * (size_t)n * F, sizeof *moments);
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
    free(parts);
}

TEST(merge)
{
    const uint32_t one[] = {1}, whole[] = {40}, even[] = {10, 10, 10, 10}, odd[] = {1, 37, 2, 1, 9};
    check_merge(1, one);
    check_merge(1, whole);
    check_merge(4, even);
    check_merge(5, odd);
}

TEST(running)
{
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
TEST(sums)
{
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

/* ---- submissions ---- */

/* n chunks, which also stand for n groups, of up to `rows` rows of f columns. */
struct data {
    uint32_t n, rows, f;
    sl_real *z;
    double *moments, *unbiased, *sum;
    uint32_t *counts;
    sl_real *statistics, *running, *fixed, *gw, *gb;
};

static struct data make_data(uint32_t n, uint32_t rows, uint32_t f)
{
    struct data d = {.n = n,
                     .rows = rows,
                     .f = f,
                     .z = offset_noise((size_t)n * rows * f, 3),
                     .moments = need((size_t)n * 2 * f, sizeof(double)),
                     .unbiased = need(2 * (size_t)f, sizeof(double)),
                     .sum = need(2 * (size_t)f, sizeof(double)),
                     .counts = need(n, sizeof(uint32_t)),
                     .statistics = poisoned(2 * (size_t)f),
                     .running = noisy(2 * (size_t)f, 4),
                     .fixed = poisoned(2 * (size_t)f),
                     .gw = poisoned(f),
                     .gb = poisoned(f)};
    for (uint32_t i = 0; i < n; i++) {
        d.counts[i] = i == n - 1 ? 1 : rows - i % 2;
    }
    for (uint32_t c = 0; c < 2 * f; c++) {
        d.running[c] += 2;
    }
    return d;
}

static void free_data(struct data *d)
{
    void *all[] = {d->z, d->moments, d->unbiased, d->sum, d->counts, d->statistics, d->running, d->fixed, d->gw, d->gb};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

/* From the moments that the tasks computed. */
static void with_kernels(struct data *d)
{
    const double **parts = need(d->n, sizeof *parts);
    for (uint32_t i = 0; i < d->n; i++) {
        parts[i] = d->moments + (size_t)i * 2 * d->f;
    }
    sl_batchnorm_merge_cpu(d->n, d->f, parts, d->counts, d->statistics, d->unbiased);
    sl_batchnorm_running_cpu(d->n, d->f, parts, d->running);
    sl_batchnorm_fixed_cpu(d->f, d->running, d->fixed);
    sl_batchnorm_sum_cpu(d->n, d->f, parts, d->sum);
    sl_batchnorm_gradient_cpu(d->n, d->f, parts, d->gw, d->gb);
    free(parts);
}

static void with_tasks(struct data *d)
{
    const uint32_t n = d->n, f = d->f;
    FREED starpu_data_handle_t *moments = need(n, sizeof *moments);
    FREED starpu_data_handle_t *z = need(n, sizeof *z);
    starpu_data_handle_t h[] = {rows_of(d->statistics, 2, f),
                                rows_of(d->running, 2, f),
                                rows_of(d->fixed, 2, f),
                                sl_matrix_over(d->unbiased, 2, f, SL_DTYPE_F64),
                                sl_matrix_over(d->sum, 2, f, SL_DTYPE_F64),
                                rows_of(d->gw, 1, f),
                                rows_of(d->gb, 1, f)};
    for (uint32_t i = 0; i < n; i++) {
        z[i] = rows_of(d->z + (size_t)i * d->rows * f, d->counts[i], f);
        moments[i] = sl_matrix_over(d->moments + (size_t)i * 2 * f, 2, f, SL_DTYPE_F64);
        expect_ok(sl_batchnorm_moments_submit(&head, z[i], moments[i]));
    }
    expect_ok(sl_batchnorm_merge_submit(&head, n, moments, d->counts, h[0], h[3]));
    expect_ok(sl_batchnorm_running_submit(&head, n, moments, h[1]));
    expect_ok(sl_batchnorm_fixed_submit(&head, h[1], h[2]));
    expect_ok(sl_batchnorm_sum_submit(&head, n, moments, h[4]));
    expect_ok(sl_batchnorm_gradient_submit(&head, n, moments, h[5], h[6]));
    unregister(n, z);
    unregister(n, moments);
    UNREGISTER(h);
    expect_no_failure();
}

/* Moments against sums in long double; what is made of them has the bits of the kernels. */
static void check_tasks(uint32_t n, uint32_t rows, uint32_t f)
{
    struct data got = make_data(n, rows, f);
    OWNED(free_data) struct data wanted = make_data(n, rows, f);
    with_tasks(&got);
    for (size_t k = 0; k < (size_t)n * f; k++) {
        const size_t i = k / f, c = k % f;
        double mean, m2;
        column(got.counts[i], f, got.z + i * rows * f, (uint32_t)c, &mean, &m2);
        expect_near_at("mean", k, got.moments[i * 2 * f + c], mean, 1e-12 * 1000 * rows);
        expect_near_at("M2", k, got.moments[i * 2 * f + f + c], m2, 1e-12 * 1000 * rows);
    }
    memcpy(wanted.moments, got.moments, (size_t)n * 2 * f * sizeof(double));
    with_kernels(&wanted);
    expect_same("statistics", 2 * f, sizeof(sl_real), got.statistics, wanted.statistics);
    expect_same("unbiased", 2 * f, sizeof(double), got.unbiased, wanted.unbiased);
    expect_same("running", 2 * f, sizeof(sl_real), got.running, wanted.running);
    expect_same("fixed", 2 * f, sizeof(sl_real), got.fixed, wanted.fixed);
    expect_same("sum", 2 * f, sizeof(double), got.sum, wanted.sum);
    expect_same("GW", f, sizeof(sl_real), got.gw, wanted.gw);
    expect_same("GB", f, sizeof(sl_real), got.gb, wanted.gb);
    free_data(&got);
}

TEST(tasks)
{
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        fixture_start(worker_counts[w]);
        if (w == 0) {
            fixture_watch();
        }
        check_tasks(1, 1, 1);
        check_tasks(2, 33, 70);
        check_tasks(3, 257, 40);
        check_tasks(2, 5000, 33);
        check_tasks(12, 5, 6); /* more chunks than StarPU has fixed buffers */
        check_tasks(3, 2, 300);
        check_tasks(600, 2, 40); /* more than one launch takes */
        fixture_stop();
    }
}

/* No group at all, or no chunk: gradients and sums are cleared. */
TEST(no_group)
{
    sl_real gw[3] = {1, 1, 1}, gb[3] = {1, 1, 1};
    double sum[6] = {1, 1, 1, 1, 1, 1};
    fixture_start(1);
    starpu_data_handle_t h[] = {rows_of(gw, 1, 3), rows_of(gb, 1, 3), sl_matrix_over(sum, 2, 3, SL_DTYPE_F64)};
    expect_ok(sl_batchnorm_gradient_submit(&head, 0, NULL, h[0], h[1]));
    expect_ok(sl_batchnorm_sum_submit(&head, 0, NULL, h[2]));
    UNREGISTER(h);
    expect_no_failure();
    fixture_stop();
    for (int k = 0; k < 6; k++) {
        assert_true(sum[k] == 0 && gw[k % 3] == 0 && gb[k % 3] == 0);
    }
}

/* A submission or a task that cannot have its memory fails. */
TEST(no_memory)
{
    fixture_start(1);
    struct data d = make_data(1, 3, 6);
    starpu_data_handle_t h[] = {rows_of(d.statistics, 2, 6), rows_of(d.running, 2, 6),
                                sl_matrix_over(d.unbiased, 2, 6, SL_DTYPE_F64),
                                sl_matrix_over(d.moments, 2, 6, SL_DTYPE_F64)};
    sl_memory_ration(0);
    assert_int_equal(sl_batchnorm_merge_submit(&head, 1, &h[3], d.counts, h[0], h[2]), SL_ENOMEM);
    assert_int_equal(sl_batchnorm_running_submit(&head, 1, &h[3], h[1]), SL_ENOMEM);
    sl_memory_ration(-1);
    UNREGISTER(h);
    expect_no_failure();
    free_data(&d);
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
