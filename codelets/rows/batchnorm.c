/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Moments of chunks on a CPU; their merger and the running statistics: one thread per column. Kernels take AT_ONCE
 * chunks or groups, and go on from the results so far. */
#include "codelets/rows/batchnorm.h"

/* ---- kernels ---- */

#define AT_ONCE 256

/* Chunks: moments and row counts, or sums. Groups: statistics or sums. */
struct parts {
    const double *pair[AT_ONCE];
    uint32_t counts[AT_ONCE];
};

/* The next chunks or groups, from `first` on. Returns their number. */
static inline uint32_t next_parts(uint32_t n, uint32_t first, const double *const *pairs, struct parts *out)
{
    const uint32_t now = n - first < AT_ONCE ? n - first : AT_ONCE;
    for (uint32_t i = 0; i < now; i++) {
        out->pair[i] = pairs[first + i];
    }
    return now;
}

/* Join n more chunks to the moments in `unbiased`, of `before` rows. last: write the statistics. */
SL_KERNEL merge_chunks(uint32_t n, uint32_t n_columns, struct parts parts, double before, bool last,
                       sl_real *restrict statistics_out, double *restrict unbiased)
{
    for (uint64_t c = sl_thread(); c < n_columns; c += sl_n_threads()) {
        struct sl_moments all = {before, 0, 0};
        if (before > 0) {
            all.mean = unbiased[c];
            all.m2 = unbiased[n_columns + c];
        }
        for (uint32_t i = 0; i < n; i++) {
            const struct sl_moments next = {(double)parts.counts[i], parts.pair[i][c], parts.pair[i][n_columns + c]};
            all = sl_moments_join(all, next);
        }
        if (last) {
            statistics_out[c] = (sl_real)all.mean;
            statistics_out[n_columns + c] = sl_batchnorm_rstd(all.m2 / all.count);
        }
        unbiased[c] = all.mean;
        unbiased[n_columns + c] = last ? sl_moments_unbiased(all) : all.m2;
    }
}

SL_LAUNCHER(sl_batchnorm_merge, uint32_t n, uint32_t n_columns, const double *const *moments, const uint32_t *counts,
            sl_real *statistics_out, double *unbiased_out)
{
    double before = 0;
    for (uint32_t first = 0, now = 0; first < n; first += now) {
        struct parts parts = {{0}, {0}};
        double rows = 0;
        now = next_parts(n, first, moments, &parts);
        for (uint32_t i = 0; i < now; i++) {
            parts.counts[i] = counts[first + i];
            rows += counts[first + i];
        }
        SL_CHECK(SL_LAUNCH("sl_batchnorm_merge", sl_blocks(n_columns), merge_chunks, now, n_columns, parts, before,
                           first + now == n, statistics_out, unbiased_out));
        before += rows;
    }
    return SL_OK;
}

/* Add the sums of n more chunks or groups to sum_out (more), or store them (first launch). */
SL_KERNEL add_sums(uint32_t n, uint32_t n_columns, struct parts parts, bool more, double *restrict sum_out)
{
    for (uint64_t c = sl_thread(); c < 2 * (uint64_t)n_columns; c += sl_n_threads()) {
        double sum = more ? sum_out[c] : 0;
        for (uint32_t i = 0; i < n; i++) {
            sum += parts.pair[i][c];
        }
        sum_out[c] = sum;
    }
}

SL_LAUNCHER(sl_batchnorm_sum, uint32_t n, uint32_t n_columns, const double *const *sums, double *sum_out)
{
    uint32_t first = 0;
    do {
        struct parts parts = {{0}, {0}};
        const uint32_t now = next_parts(n, first, sums, &parts);
        SL_CHECK(SL_LAUNCH("sl_batchnorm_sum", sl_blocks(2 * (uint64_t)n_columns), add_sums, now, n_columns, parts,
                           first > 0, sum_out));
        first += now;
    } while (first < n);
    return SL_OK;
}

/* more: as add_sums. */
SL_KERNEL add_gradients(uint32_t n, uint32_t n_columns, struct parts sums, bool more, sl_real *restrict gw,
                        sl_real *restrict gb)
{
    for (uint64_t c = sl_thread(); c < n_columns; c += sl_n_threads()) {
        sl_real slope = more ? gw[c] : 0;
        sl_real offset = more ? gb[c] : 0;
        for (uint32_t i = 0; i < n; i++) {
            slope += (sl_real)sums.pair[i][c];
            offset += (sl_real)sums.pair[i][n_columns + c];
        }
        gw[c] = slope;
        gb[c] = offset;
    }
}

SL_LAUNCHER(sl_batchnorm_gradient, uint32_t n, uint32_t n_columns, const double *const *sums, sl_real *gw_out,
            sl_real *gb_out)
{
    uint32_t first = 0;
    do {
        struct parts parts = {{0}, {0}};
        const uint32_t now = next_parts(n, first, sums, &parts);
        SL_CHECK(SL_LAUNCH("sl_batchnorm_gradient", sl_blocks(n_columns), add_gradients, now, n_columns, parts,
                           first > 0, gw_out, gb_out));
        first += now;
    } while (first < n);
    return SL_OK;
}

SL_KERNEL fix_statistics(uint32_t n_columns, const sl_real *restrict running, sl_real *restrict statistics)
{
    for (uint64_t c = sl_thread(); c < n_columns; c += sl_n_threads()) {
        statistics[c] = running[c];
        statistics[n_columns + c] = sl_batchnorm_rstd((double)running[n_columns + c]);
    }
}

SL_LAUNCHER(sl_batchnorm_fixed, uint32_t n_columns, const sl_real *running, sl_real *statistics_out)
{
    return SL_LAUNCH("sl_batchnorm_fixed", sl_blocks(n_columns), fix_statistics, n_columns, running, statistics_out);
}

#ifndef SL_KERNELS_ONLY
#include <assert.h>

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

/* ---- operations ---- */

/* One view for all operations: each has some of the operands. Statistics, sums and moments are two rows. */
struct batchnorm {
    struct sl_task_args head;
    struct sl_matrix z, moments, statistics, unbiased, running, sum, gw, gb;
    struct sl_matrices parts; /* of chunks or groups. Their numbers: the rows of each chunk */
};

static enum sl_status moments(const void *view, const void *stream)
{
    const struct batchnorm *v = view;
    return SL_RUN(stream, sl_batchnorm_moments, v->z.n_rows, v->z.n_columns, v->z.data, v->moments.data);
}

static struct sl_operation moments_op = {
    SL_OPERATION(moments_op, "sl_batchnorm_moments", SL_STAGE_DENSE),
    SL_BODY(moments, struct batchnorm),
    .role = {{"z", STARPU_R, offsetof(struct batchnorm, z), "D x H"},
             {"moments", STARPU_W, offsetof(struct batchnorm, moments), "2 x H", SL_DOUBLES}},
};

static enum sl_status merge(const void *view, const void *stream)
{
    const struct batchnorm *v = view;
    return SL_RUN(stream, sl_batchnorm_merge, v->parts.n, v->statistics.n_columns, (const double *const *)v->parts.data,
                  v->parts.numbers, v->statistics.data, v->unbiased.data);
}

static struct sl_operation merge_op = {
    SL_OPERATION(merge_op, "sl_batchnorm_merge", SL_STAGE_DENSE),
    SL_BODY(merge, struct batchnorm),
    .role = {{"statistics", STARPU_W, offsetof(struct batchnorm, statistics), "2 x H"},
             {"unbiased statistics", STARPU_W, offsetof(struct batchnorm, unbiased), "2 x H", SL_DOUBLES},
             {"moments", STARPU_R | SL_REPEATED, offsetof(struct batchnorm, parts), "2 x H", SL_DOUBLES}},
};

static enum sl_status running(const void *view, const void *stream)
{
    const struct batchnorm *v = view;
    return SL_RUN(stream, sl_batchnorm_running, v->parts.n, v->running.n_columns, (const double *const *)v->parts.data,
                  v->running.data);
}

static struct sl_operation running_op = {
    SL_OPERATION(running_op, "sl_batchnorm_running", SL_STAGE_SYNC),
    SL_BODY(running, struct batchnorm),
    .role = {{"running statistics", STARPU_RW, offsetof(struct batchnorm, running), "2 x H"},
             {"unbiased statistics", STARPU_R | SL_REPEATED, offsetof(struct batchnorm, parts), "2 x H", SL_DOUBLES}},
};

static enum sl_status fixed(const void *view, const void *stream)
{
    const struct batchnorm *v = view;
    return SL_RUN(stream, sl_batchnorm_fixed, v->running.n_columns, v->running.data, v->statistics.data);
}

static struct sl_operation fixed_op = {
    SL_OPERATION(fixed_op, "sl_batchnorm_fixed", SL_STAGE_DENSE),
    SL_BODY(fixed, struct batchnorm),
    .role = {{"running statistics", STARPU_R, offsetof(struct batchnorm, running), "2 x H"},
             {"statistics", STARPU_W, offsetof(struct batchnorm, statistics), "2 x H"}},
};

static enum sl_status sum(const void *view, const void *stream)
{
    const struct batchnorm *v = view;
    return SL_RUN(stream, sl_batchnorm_sum, v->parts.n, v->sum.n_columns, (const double *const *)v->parts.data,
                  v->sum.data);
}

static struct sl_operation sum_op = {
    SL_OPERATION(sum_op, "sl_batchnorm_sum", SL_STAGE_SYNC),
    SL_BODY(sum, struct batchnorm),
    .role = {{"sum", STARPU_W, offsetof(struct batchnorm, sum), "2 x H", SL_DOUBLES},
             {"sums", STARPU_R | SL_REPEATED, offsetof(struct batchnorm, parts), "2 x H", SL_DOUBLES}},
};

static enum sl_status gradient(const void *view, const void *stream)
{
    const struct batchnorm *v = view;
    return SL_RUN(stream, sl_batchnorm_gradient, v->parts.n, v->gw.n_columns, (const double *const *)v->parts.data,
                  v->gw.data, v->gb.data);
}

static struct sl_operation gradient_op = {
    SL_OPERATION(gradient_op, "sl_batchnorm_gradient", SL_STAGE_SYNC),
    SL_BODY(gradient, struct batchnorm),
    .role = {{"gw", STARPU_W, offsetof(struct batchnorm, gw), "1 x H"},
             {"gb", STARPU_W, offsetof(struct batchnorm, gb), "1 x H"},
             {"sums", STARPU_R | SL_REPEATED, offsetof(struct batchnorm, parts), "2 x H", SL_DOUBLES}},
};

/* ---- submissions ---- */

enum sl_status sl_batchnorm_moments_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                                           starpu_data_handle_t moments)
{
    struct batchnorm v = {.head = *head, .z = sl_matrix_of(z), .moments = sl_matrix_of(moments)};
    return sl_view_submit(&moments_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_merge_submit(const struct sl_task_args *head, uint32_t n,
                                         const starpu_data_handle_t *moments, const uint32_t *counts,
                                         starpu_data_handle_t statistics, starpu_data_handle_t unbiased)
{
    struct batchnorm v = {.head = *head,
                          .statistics = sl_matrix_of(statistics),
                          .unbiased = sl_matrix_of(unbiased),
                          .parts = {.n = n, .handles = moments, .numbers = counts}};
    assert(n != 0);
    for (uint32_t i = 0; i < n; i++) {
        assert(counts[i] != 0);
    }
    return sl_view_submit(&merge_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_running_submit(const struct sl_task_args *head, uint32_t n,
                                           const starpu_data_handle_t *unbiased, starpu_data_handle_t running)
{
    struct batchnorm v = {.head = *head, .running = sl_matrix_of(running), .parts = {.n = n, .handles = unbiased}};
    assert(n != 0);
    return sl_view_submit(&running_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_fixed_submit(const struct sl_task_args *head, starpu_data_handle_t running,
                                         starpu_data_handle_t statistics)
{
    struct batchnorm v = {.head = *head, .running = sl_matrix_of(running), .statistics = sl_matrix_of(statistics)};
    return sl_view_submit(&fixed_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *sums,
                                       starpu_data_handle_t sum)
{
    struct batchnorm v = {.head = *head, .sum = sl_matrix_of(sum), .parts = {.n = n, .handles = sums}};
    return sl_view_submit(&sum_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_batchnorm_gradient_submit(const struct sl_task_args *head, uint32_t n,
                                            const starpu_data_handle_t *sums, starpu_data_handle_t gw,
                                            starpu_data_handle_t gb)
{
    struct batchnorm v = {
        .head = *head, .gw = sl_matrix_of(gw), .gb = sl_matrix_of(gb), .parts = {.n = n, .handles = sums}};
    return sl_view_submit(&gradient_op, &v, SL_PRIORITY_COMPUTE);
}

#endif
