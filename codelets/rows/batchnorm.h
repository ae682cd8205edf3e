/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Batch norm statistics: mean and variance of each column over the distinct rows of a group's frontier.
 *   before: codelets/rows/dense.h gives Z        after: codelets/rows/activate.h normalises
 *
 * Each chunk gives its row count, column means and sums of squared deviations. One task per group merges the chunks in
 * a fixed order (Chan, Golub, LeVeque 1979). The result depends neither on the scheduler nor on the number of workers:
 *   delta = mean_b - mean_a; mean = mean_a + delta n_b / n; M2 = M2_a + M2_b + delta^2 n_a n_b / n
 * Running statistics: r <- 0.9 r + 0.1 s. s is the mean over groups of the mean and of the unbiased variance (divided
 * by n - 1; by n if n = 1). The arithmetic is double; the statistics are sl_real.
 *
 * Backward: codelets/rows/activate.h leaves [sum GY * zhat | sum GY] of each chunk, in double. One task per group adds
 * the chunks in order; the rows' gradients need this sum. One task per replica rounds each group's sum to sl_real and
 * adds the rounded sums, as gossip adds the sums of replicas: the gradients of the norm's weight and bias. A bias added
 * before batch norm has gradient zero; no task computes it (runtime/model/layer.h).
 */
#ifndef SL_CODELETS_BATCHNORM_H
#define SL_CODELETS_BATCHNORM_H

#include "codelets/grid.h"
#include "codelets/rows/activate.h"
#include "tasks/task.h"

#define SL_BATCHNORM_MOMENTUM 0.1

/* ---- arithmetic of one column, host and device ---- */

/* Row count, mean, and sum of squared deviations of one column. */
struct sl_moments {
    double count, mean, m2;
};

/* Moments of both sets of rows together. A count may be 0. */
static inline SL_HOST_DEVICE struct sl_moments sl_moments_join(struct sl_moments a, struct sl_moments b)
{
    if (a.count == 0 || b.count == 0) {
        return a.count == 0 ? b : a;
    }
    double total = a.count + b.count;
    double delta = b.mean - a.mean;
    struct sl_moments both = {total, a.mean + delta * b.count / total,
                              a.m2 + (b.m2 + delta * delta * a.count * b.count / total)};
    return both;
}

static inline SL_HOST_DEVICE double sl_moments_unbiased(struct sl_moments m)
{
    return m.m2 / (m.count > 1 ? m.count - 1 : 1);
}

static inline SL_HOST_DEVICE sl_real sl_batchnorm_rstd(double variance)
{
    return (sl_real)(1 / sqrt(variance + SL_NORM_EPSILON));
}

/* sum: over n groups. */
static inline SL_HOST_DEVICE sl_real sl_batchnorm_move(sl_real running, double sum, uint32_t n)
{
    return (sl_real)((1 - SL_BATCHNORM_MOMENTUM) * (double)running + SL_BATCHNORM_MOMENTUM * sum / n);
}

/* ---- kernels. Lists of pointers and counts are in host memory; the caller may free them when the launcher returns. A
 * GPU computes moments by slabs of rows and joins them in a fixed order. ---- */

/* moments_out: 2 F doubles, means then M2. n_rows >= 1. */
SL_DECLARE_LAUNCHER(void, sl_batchnorm_moments, uint32_t n_rows, uint32_t n_columns, const sl_real *z,
                    double *moments_out);

/* Merge n partials in order; partial i has counts[i] >= 1 rows. statistics_out: 2 F, the mean row then the 1 / sqrt(var
 * + eps) row. unbiased_out: 2 F doubles, mean and unbiased variance, for the running statistics. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_batchnorm_merge, uint32_t n, uint32_t n_columns, const double *const *moments,
                    const uint32_t *counts, sl_real *statistics_out, double *unbiased_out);

/* Move running [2 F], mean and variance, towards the mean of n groups' unbiased statistics. */
SL_DECLARE_LAUNCHER(void, sl_batchnorm_running, uint32_t n, uint32_t n_columns, const double *const *unbiased,
                    sl_real *running);

/* Submissions, here and below: local, one thread submits. SL_ESTARPU, SL_ENOMEM. z: chunk [D x F]. moments, unbiased:
 * [2 x F] of doubles. statistics, running: [2 x F] of sl_real. */
enum sl_status sl_batchnorm_moments_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                                           starpu_data_handle_t moments);
enum sl_status sl_batchnorm_merge_submit(const struct sl_task_args *head, uint32_t n,
                                         const starpu_data_handle_t *moments, const uint32_t *counts,
                                         starpu_data_handle_t statistics, starpu_data_handle_t unbiased);
enum sl_status sl_batchnorm_running_submit(const struct sl_task_args *head, uint32_t n,
                                           const starpu_data_handle_t *unbiased, starpu_data_handle_t running);

/* Sum of the [sum GY * zhat | sum GY] of a group's n chunks, in order; n = 0 clears it. sums, sum_out: 2 F each.
 * Submission: sums and sum are [2 x F] of doubles; sum is overwritten. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_batchnorm_sum, uint32_t n, uint32_t n_columns, const double *const *sums,
                    double *sum_out);
enum sl_status sl_batchnorm_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *sums,
                                       starpu_data_handle_t sum);

/* Gradients of the norm's weight and bias: the sums of n groups, each rounded to sl_real, added in order; n = 0 clears
 * both. sums: 2 F each; gw_out, gb_out: F. Submission: sums [2 x F] of doubles; gw and gb [1 x F], overwritten. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_batchnorm_gradient, uint32_t n, uint32_t n_columns, const double *const *sums,
                    sl_real *gw_out, sl_real *gb_out);
enum sl_status sl_batchnorm_gradient_submit(const struct sl_task_args *head, uint32_t n,
                                            const starpu_data_handle_t *sums, starpu_data_handle_t gw,
                                            starpu_data_handle_t gb);

/* Evaluation: statistics, mean and 1 / sqrt(var + eps), from the running mean and variance. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_batchnorm_fixed, uint32_t n_columns, const sl_real *running,
                    sl_real *statistics_out);
enum sl_status sl_batchnorm_fixed_submit(const struct sl_task_args *head, starpu_data_handle_t running,
                                         starpu_data_handle_t statistics);

#endif
