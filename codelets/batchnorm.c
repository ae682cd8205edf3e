/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Moments of chunks, their merger, and the running statistics. */
#include "codelets/batchnorm.h"

#include <assert.h>
#include <string.h>

#include "support/memory.h"
#include "tasks/rows.h"

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

/* ---- arguments ---- */

struct batchnorm_args {
    struct sl_task_args head;
    uint32_t n;
    uint32_t counts[]; /* merge: n, the rows of each partial */
};

/* ---- implementations ---- */

enum { MOMENTS_Z, MOMENTS_OUT };
enum { MERGE_STATISTICS, MERGE_UNBIASED, MERGE_MOMENTS };
enum { RUNNING, RUNNING_UNBIASED };
enum { FIXED_RUNNING, FIXED_STATISTICS };
enum { SUM, SUM_PARTS };
enum { GRADIENT_GW, GRADIENT_GB, GRADIENT_SUMS };

static enum sl_status moments_task(void *buffers[], const void *cl_arg, const void *stream)
{
    (void)cl_arg;
    return SL_RUN(stream, sl_batchnorm_moments, sl_buffer_rows(buffers[MOMENTS_Z]),
                  sl_buffer_columns(buffers[MOMENTS_Z]), sl_buffer_data(buffers[MOMENTS_Z]),
                  sl_buffer_data(buffers[MOMENTS_OUT]));
}

static enum sl_status merge_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct batchnorm_args *args = cl_arg;
    void **moments;
    SL_CHECK(sl_buffers_data(buffers + MERGE_MOMENTS, args->n, &moments));
    enum sl_status st = SL_RUN(stream, sl_batchnorm_merge, args->n, sl_buffer_columns(buffers[MERGE_STATISTICS]),
                               (const double *const *)moments, args->counts, sl_buffer_data(buffers[MERGE_STATISTICS]),
                               sl_buffer_data(buffers[MERGE_UNBIASED]));
    sl_free(moments);
    return st;
}

static enum sl_status running_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct batchnorm_args *args = cl_arg;
    void **unbiased;
    SL_CHECK(sl_buffers_data(buffers + RUNNING_UNBIASED, args->n, &unbiased));
    enum sl_status st = SL_RUN(stream, sl_batchnorm_running, args->n, sl_buffer_columns(buffers[RUNNING]),
                               (const double *const *)unbiased, sl_buffer_data(buffers[RUNNING]));
    sl_free(unbiased);
    return st;
}

static enum sl_status fixed_task(void *buffers[], const void *cl_arg, const void *stream)
{
    (void)cl_arg;
    return SL_RUN(stream, sl_batchnorm_fixed, sl_buffer_columns(buffers[FIXED_RUNNING]),
                  sl_buffer_data(buffers[FIXED_RUNNING]), sl_buffer_data(buffers[FIXED_STATISTICS]));
}

static enum sl_status sum_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct batchnorm_args *args = cl_arg;
    void **sums;
    SL_CHECK(sl_buffers_data(buffers + SUM_PARTS, args->n, &sums));
    enum sl_status st = SL_RUN(stream, sl_batchnorm_sum, args->n, sl_buffer_columns(buffers[SUM]),
                               (const double *const *)sums, sl_buffer_data(buffers[SUM]));
    sl_free(sums);
    return st;
}

static enum sl_status gradient_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct batchnorm_args *args = cl_arg;
    void **sums;
    SL_CHECK(sl_buffers_data(buffers + GRADIENT_SUMS, args->n, &sums));
    enum sl_status st =
        SL_RUN(stream, sl_batchnorm_gradient, args->n, sl_buffer_columns(buffers[GRADIENT_GW]),
               (const double *const *)sums, sl_buffer_data(buffers[GRADIENT_GW]), sl_buffer_data(buffers[GRADIENT_GB]));
    sl_free(sums);
    return st;
}

/* ---- operations ---- */

static struct sl_operation moments_op = {
    SL_OPERATION(moments_op, "sl_batchnorm_moments", SL_STAGE_DENSE),
    SL_BOTH(moments_task),
    .role = {{"z", STARPU_R}, {"moments", STARPU_W}},
};

static struct sl_operation merge_op = {
    SL_OPERATION(merge_op, "sl_batchnorm_merge", SL_STAGE_DENSE),
    SL_BOTH(merge_task),
    .role = {{"statistics", STARPU_W}, {"unbiased statistics", STARPU_W}, {"moments", STARPU_R | SL_REPEATED}},
};

static struct sl_operation running_op = {
    SL_OPERATION(running_op, "sl_batchnorm_running", SL_STAGE_SYNC),
    SL_BOTH(running_task),
    .role = {{"running statistics", STARPU_RW}, {"unbiased statistics", STARPU_R | SL_REPEATED}},
};

static struct sl_operation fixed_op = {
    SL_OPERATION(fixed_op, "sl_batchnorm_fixed", SL_STAGE_DENSE),
    SL_BOTH(fixed_task),
    .role = {{"running statistics", STARPU_R}, {"statistics", STARPU_W}},
};

static struct sl_operation sum_op = {
    SL_OPERATION(sum_op, "sl_batchnorm_sum", SL_STAGE_SYNC),
    SL_BOTH(sum_task),
    .role = {{"sum", STARPU_W}, {"sums", STARPU_R | SL_REPEATED}},
};

static struct sl_operation gradient_op = {
    SL_OPERATION(gradient_op, "sl_batchnorm_gradient", SL_STAGE_SYNC),
    SL_BOTH(gradient_task),
    .role = {{"gw", STARPU_W}, {"gb", STARPU_W}, {"sums", STARPU_R | SL_REPEATED}},
};

/* ---- submissions ---- */

/* Whether `handle` holds two rows of n_columns elements of `element` bytes. */
static void check_pair(starpu_data_handle_t handle, uint32_t n_columns, size_t element)
{
    assert(sl_handle_rows(handle) == 2);
    assert(sl_handle_columns(handle) == n_columns);
    assert(sl_handle_element(handle) == element);
}

enum sl_status sl_batchnorm_moments_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                                           starpu_data_handle_t moments)
{
    struct batchnorm_args args = {.head = *head};
    struct sl_task task;
    check_pair(moments, sl_handle_columns(z), sizeof(double));
    args.head.work = 2 * (uint64_t)sl_handle_rows(z) * sl_handle_columns(z) * sizeof(sl_real);
    sl_task_begin(&task, &moments_op);
    sl_task_add(&task, MOMENTS_Z, z, STARPU_R);
    sl_task_add(&task, MOMENTS_OUT, moments, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

static void check_merge(uint32_t n, const starpu_data_handle_t *moments, const uint32_t *counts,
                        starpu_data_handle_t statistics, starpu_data_handle_t unbiased)
{
    uint32_t n_columns = sl_handle_columns(statistics);
    check_pair(statistics, n_columns, sizeof(sl_real));
    check_pair(unbiased, n_columns, sizeof(double));
    assert(n != 0);
    for (uint32_t i = 0; i < n; i++) {
        check_pair(moments[i], n_columns, sizeof(double));
        assert(counts[i] != 0);
    }
}

enum sl_status sl_batchnorm_merge_submit(const struct sl_task_args *head, uint32_t n,
                                         const starpu_data_handle_t *moments, const uint32_t *counts,
                                         starpu_data_handle_t statistics, starpu_data_handle_t unbiased)
{
    struct batchnorm_args *args;
    struct sl_task task;
    enum sl_status st = SL_OK;
    size_t bytes = sizeof *args + n * sizeof *counts;
    check_merge(n, moments, counts, statistics, unbiased);
    SL_CHECK(sl_alloc(1, bytes, "a task's arguments", &args));
    args->head = *head;
    args->n = n;
    memcpy(args->counts, counts, n * sizeof *counts);
    args->head.work = 2 * (uint64_t)n * sl_handle_columns(statistics) * sizeof(double);
    sl_task_begin(&task, &merge_op);
    sl_task_add(&task, MERGE_STATISTICS, statistics, STARPU_W);
    sl_task_add(&task, MERGE_UNBIASED, unbiased, STARPU_W);
    sl_task_add_each(&task, MERGE_MOMENTS, n, moments, STARPU_R);
    st = sl_task_submit(&task, args, bytes, SL_PRIORITY_COMPUTE);
    sl_free(args);
    return st;
}

enum sl_status sl_batchnorm_running_submit(const struct sl_task_args *head, uint32_t n,
                                           const starpu_data_handle_t *unbiased, starpu_data_handle_t running)
{
    uint32_t n_columns = sl_handle_columns(running);
    struct batchnorm_args args = {.head = *head, .n = n};
    struct sl_task task;
    assert(n != 0);
    check_pair(running, n_columns, sizeof(sl_real));
    for (uint32_t i = 0; i < n; i++) {
        check_pair(unbiased[i], n_columns, sizeof(double));
    }
    args.head.work = 2 * (uint64_t)n * n_columns * sizeof(double);
    sl_task_begin(&task, &running_op);
    sl_task_add(&task, RUNNING, running, STARPU_RW);
    sl_task_add_each(&task, RUNNING_UNBIASED, n, unbiased, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_fixed_submit(const struct sl_task_args *head, starpu_data_handle_t running,
                                         starpu_data_handle_t statistics)
{
    uint32_t n_columns = sl_handle_columns(running);
    struct batchnorm_args args = {.head = *head};
    struct sl_task task;
    check_pair(running, n_columns, sizeof(sl_real));
    check_pair(statistics, n_columns, sizeof(sl_real));
    args.head.work = 4 * (uint64_t)n_columns * sizeof(sl_real);
    sl_task_begin(&task, &fixed_op);
    sl_task_add(&task, FIXED_RUNNING, running, STARPU_R);
    sl_task_add(&task, FIXED_STATISTICS, statistics, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *sums,
                                       starpu_data_handle_t sum)
{
    uint32_t n_columns = sl_handle_columns(sum);
    struct batchnorm_args args = {.head = *head, .n = n};
    struct sl_task task;
    check_pair(sum, n_columns, sizeof(double));
    for (uint32_t i = 0; i < n; i++) {
        check_pair(sums[i], n_columns, sizeof(double));
    }
    args.head.work = 2 * ((uint64_t)n + 1) * n_columns * sizeof(double);
    sl_task_begin(&task, &sum_op);
    sl_task_add(&task, SUM, sum, STARPU_W);
    sl_task_add_each(&task, SUM_PARTS, n, sums, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_gradient_submit(const struct sl_task_args *head, uint32_t n,
                                            const starpu_data_handle_t *sums, starpu_data_handle_t gw,
                                            starpu_data_handle_t gb)
{
    uint32_t n_columns = sl_handle_columns(gw);
    struct batchnorm_args args = {.head = *head, .n = n};
    struct sl_task task;
    assert(sl_handle_rows(gw) == 1);
    assert(sl_handle_rows(gb) == 1);
    assert(sl_handle_columns(gb) == n_columns);
    for (uint32_t i = 0; i < n; i++) {
        check_pair(sums[i], n_columns, sizeof(double));
    }
    args.head.work = 2 * (uint64_t)n_columns * (n * sizeof(double) + sizeof(sl_real));
    sl_task_begin(&task, &gradient_op);
    sl_task_add(&task, GRADIENT_GW, gw, STARPU_W);
    sl_task_add(&task, GRADIENT_GB, gb, STARPU_W);
    sl_task_add_each(&task, GRADIENT_SUMS, n, sums, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
