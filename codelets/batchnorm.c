/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Moments of chunks, their merger, and the running statistics. */
#include "codelets/batchnorm.h"

#include <assert.h>
#include <string.h>

/* ---- kernels, CPU ---- */

SL_CLONES void sl_batchnorm_moments_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *z, double *moments_out)
{
    double *restrict mean = moments_out;
    double *restrict m2 = moments_out + n_columns;
    memset(moments_out, 0, 2 * (size_t)n_columns * sizeof *moments_out);
    for (uint32_t i = 0; i < n_rows; i++) {
        const sl_real *row = z + (size_t)i * n_columns;
        for (uint32_t c = 0; c < n_columns; c++) {
            mean[c] += (double)row[c];
        }
    }
    for (uint32_t c = 0; c < n_columns; c++) {
        mean[c] /= n_rows;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        const sl_real *row = z + (size_t)i * n_columns;
        for (uint32_t c = 0; c < n_columns; c++) {
            double deviation = (double)row[c] - mean[c];
            m2[c] += deviation * deviation;
        }
    }
}

void sl_batchnorm_merge_cpu(uint32_t n, uint32_t n_columns, const double *const *moments, const uint32_t *counts,
                            sl_real *statistics_out, double *unbiased_out)
{
    for (uint32_t c = 0; c < n_columns; c++) {
        struct sl_moments all = {0, 0, 0};
        for (uint32_t i = 0; i < n; i++) {
            all = sl_moments_join(all, (struct sl_moments){counts[i], moments[i][c], moments[i][n_columns + c]});
        }
        statistics_out[c] = (sl_real)all.mean;
        statistics_out[n_columns + c] = sl_batchnorm_rstd(all.m2 / all.count);
        unbiased_out[c] = all.mean;
        unbiased_out[n_columns + c] = sl_moments_unbiased(all);
    }
}

void sl_batchnorm_running_cpu(uint32_t n, uint32_t n_columns, const double *const *unbiased, sl_real *running)
{
    for (uint32_t c = 0; c < 2 * n_columns; c++) {
        double sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            sum += unbiased[i][c];
        }
        running[c] = sl_batchnorm_move(running[c], sum, n);
    }
}

void sl_batchnorm_fixed_cpu(uint32_t n_columns, const sl_real *running, sl_real *statistics_out)
{
    for (uint32_t c = 0; c < n_columns; c++) {
        statistics_out[c] = running[c];
        statistics_out[n_columns + c] = sl_batchnorm_rstd((double)running[n_columns + c]);
    }
}

void sl_batchnorm_sum_cpu(uint32_t n, uint32_t n_columns, const double *const *sums, double *sum_out)
{
    memset(sum_out, 0, 2 * (size_t)n_columns * sizeof *sum_out);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t c = 0; c < 2 * n_columns; c++) {
            sum_out[c] += sums[i][c];
        }
    }
}

void sl_batchnorm_gradient_cpu(uint32_t n, uint32_t n_columns, const double *const *sums, sl_real *gw_out,
                               sl_real *gb_out)
{
    for (uint32_t c = 0; c < n_columns; c++) {
        gw_out[c] = 0;
        gb_out[c] = 0;
        for (uint32_t i = 0; i < n; i++) {
            gw_out[c] += (sl_real)sums[i][c];
            gb_out[c] += (sl_real)sums[i][n_columns + c];
        }
    }
}

/* ---- operations ---- */

/* Statistics, sums and moments are two rows. */

struct moments {
    struct sl_task_args head;
    struct sl_matrix z, moments;
};

static enum sl_status moments(const void *view, const void *stream)
{
    const struct moments *v = view;
    return SL_RUN(stream, sl_batchnorm_moments, v->z.n_rows, v->z.n_columns, v->z.data, v->moments.data);
}

static struct sl_operation moments_op = {
    SL_OPERATION(moments_op, "sl_batchnorm_moments", SL_STAGE_DENSE),
    SL_BODY(moments, struct moments),
    .role = {{"z", STARPU_R, offsetof(struct moments, z), "D x H"},
             {"moments", STARPU_W, offsetof(struct moments, moments), "2 x H", SL_DOUBLES}},
};

struct merge {
    struct sl_task_args head;
    struct sl_matrix statistics, unbiased;
    struct sl_matrices moments; /* their numbers: the rows of each chunk */
};

static enum sl_status merge(const void *view, const void *stream)
{
    const struct merge *v = view;
    return SL_RUN(stream, sl_batchnorm_merge, v->moments.n, v->statistics.n_columns,
                  (const double *const *)v->moments.data, v->moments.numbers, v->statistics.data, v->unbiased.data);
}

static struct sl_operation merge_op = {
    SL_OPERATION(merge_op, "sl_batchnorm_merge", SL_STAGE_DENSE),
    SL_BODY(merge, struct merge),
    .role = {{"statistics", STARPU_W, offsetof(struct merge, statistics), "2 x H"},
             {"unbiased statistics", STARPU_W, offsetof(struct merge, unbiased), "2 x H", SL_DOUBLES},
             {"moments", STARPU_R | SL_REPEATED, offsetof(struct merge, moments), "2 x H", SL_DOUBLES}},
};

struct running {
    struct sl_task_args head;
    struct sl_matrix running;
    struct sl_matrices unbiased;
};

static enum sl_status running(const void *view, const void *stream)
{
    const struct running *v = view;
    return SL_RUN(stream, sl_batchnorm_running, v->unbiased.n, v->running.n_columns,
                  (const double *const *)v->unbiased.data, v->running.data);
}

static struct sl_operation running_op = {
    SL_OPERATION(running_op, "sl_batchnorm_running", SL_STAGE_SYNC),
    SL_BODY(running, struct running),
    .role = {{"running statistics", STARPU_RW, offsetof(struct running, running), "2 x H"},
             {"unbiased statistics", STARPU_R | SL_REPEATED, offsetof(struct running, unbiased), "2 x H", SL_DOUBLES}},
};

struct fixed {
    struct sl_task_args head;
    struct sl_matrix running, statistics;
};

static enum sl_status fixed(const void *view, const void *stream)
{
    const struct fixed *v = view;
    return SL_RUN(stream, sl_batchnorm_fixed, v->running.n_columns, v->running.data, v->statistics.data);
}

static struct sl_operation fixed_op = {
    SL_OPERATION(fixed_op, "sl_batchnorm_fixed", SL_STAGE_DENSE),
    SL_BODY(fixed, struct fixed),
    .role = {{"running statistics", STARPU_R, offsetof(struct fixed, running), "2 x H"},
             {"statistics", STARPU_W, offsetof(struct fixed, statistics), "2 x H"}},
};

struct sum {
    struct sl_task_args head;
    struct sl_matrix sum;
    struct sl_matrices sums;
};

static enum sl_status sum(const void *view, const void *stream)
{
    const struct sum *v = view;
    return SL_RUN(stream, sl_batchnorm_sum, v->sums.n, v->sum.n_columns, (const double *const *)v->sums.data,
                  v->sum.data);
}

static struct sl_operation sum_op = {
    SL_OPERATION(sum_op, "sl_batchnorm_sum", SL_STAGE_SYNC),
    SL_BODY(sum, struct sum),
    .role = {{"sum", STARPU_W, offsetof(struct sum, sum), "2 x H", SL_DOUBLES},
             {"sums", STARPU_R | SL_REPEATED, offsetof(struct sum, sums), "2 x H", SL_DOUBLES}},
};

struct gradient {
    struct sl_task_args head;
    struct sl_matrix gw, gb;
    struct sl_matrices sums;
};

static enum sl_status gradient(const void *view, const void *stream)
{
    const struct gradient *v = view;
    return SL_RUN(stream, sl_batchnorm_gradient, v->sums.n, v->gw.n_columns, (const double *const *)v->sums.data,
                  v->gw.data, v->gb.data);
}

static struct sl_operation gradient_op = {
    SL_OPERATION(gradient_op, "sl_batchnorm_gradient", SL_STAGE_SYNC),
    SL_BODY(gradient, struct gradient),
    .role = {{"gw", STARPU_W, offsetof(struct gradient, gw), "1 x H"},
             {"gb", STARPU_W, offsetof(struct gradient, gb), "1 x H"},
             {"sums", STARPU_R | SL_REPEATED, offsetof(struct gradient, sums), "2 x H", SL_DOUBLES}},
};

/* ---- submissions ---- */

enum sl_status sl_batchnorm_moments_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                                           starpu_data_handle_t moments)
{
    struct moments v = {.head = *head, .z = sl_matrix_of(z), .moments = sl_matrix_of(moments)};
    return sl_view_submit(&moments_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_merge_submit(const struct sl_task_args *head, uint32_t n,
                                         const starpu_data_handle_t *moments, const uint32_t *counts,
                                         starpu_data_handle_t statistics, starpu_data_handle_t unbiased)
{
    struct merge v = {.head = *head,
                      .statistics = sl_matrix_of(statistics),
                      .unbiased = sl_matrix_of(unbiased),
                      .moments = {.n = n, .handles = moments, .numbers = counts}};
    assert(n != 0);
    for (uint32_t i = 0; i < n; i++) {
        assert(counts[i] != 0);
    }
    return sl_view_submit(&merge_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_running_submit(const struct sl_task_args *head, uint32_t n,
                                           const starpu_data_handle_t *unbiased, starpu_data_handle_t running)
{
    struct running v = {.head = *head, .running = sl_matrix_of(running), .unbiased = {.n = n, .handles = unbiased}};
    assert(n != 0);
    return sl_view_submit(&running_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_fixed_submit(const struct sl_task_args *head, starpu_data_handle_t running,
                                         starpu_data_handle_t statistics)
{
    struct fixed v = {.head = *head, .running = sl_matrix_of(running), .statistics = sl_matrix_of(statistics)};
    return sl_view_submit(&fixed_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *sums,
                                       starpu_data_handle_t sum)
{
    struct sum v = {.head = *head, .sum = sl_matrix_of(sum), .sums = {.n = n, .handles = sums}};
    return sl_view_submit(&sum_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_gradient_submit(const struct sl_task_args *head, uint32_t n,
                                            const starpu_data_handle_t *sums, starpu_data_handle_t gw,
                                            starpu_data_handle_t gb)
{
    struct gradient v = {
        .head = *head, .gw = sl_matrix_of(gw), .gb = sl_matrix_of(gb), .sums = {.n = n, .handles = sums}};
    return sl_view_submit(&gradient_op, &v, SL_PRIORITY_COMPUTE);
}
