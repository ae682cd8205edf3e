/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 8, batch norm statistics: mean and variance of each column over the distinct rows of a group's frontier.
 *   before: codelets/dense.h gives Z        after: codelets/activate.h normalises with them
 *
 * Each chunk gives its count, means and sums of squared deviations; one task per group merges them in a fixed order (Chan,
 * Golub, LeVeque 1979), so that the result depends neither on the scheduler nor on the number of workers:
 *   delta = mean_b - mean_a; mean = mean_a + delta n_b / n; M2 = M2_a + M2_b + delta^2 n_a n_b / n
 * Running statistics: r <- 0.9 r + 0.1 s, s the mean over groups of the mean and of the unbiased variance (n - 1; the biased
 * one where n = 1). All in double inside; the statistics handle holds sl_real.
 */
#ifndef SL_CODELETS_BATCHNORM_H
#define SL_CODELETS_BATCHNORM_H

#include "codelets/task.h"

#define SL_BATCHNORM_MOMENTUM 0.1

/* moments_out: 2 F doubles, means then M2. n_rows >= 1. */
void sl_batchnorm_moments_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *z, double *moments_out);

/* Merge n partials (counts[i] >= 1 rows each) in order. statistics_out: 2 F, mean row then 1 / sqrt(var + eps) row.
 * unbiased_out: 2 F doubles, mean and unbiased variance, for the running statistics. */
void sl_batchnorm_merge_cpu(uint32_t n, uint32_t n_columns, const double *const *moments, const uint32_t *counts,
                            sl_real *statistics_out, double *unbiased_out);

/* running [2 F]: mean and variance, moved towards the mean over n groups' unbiased statistics. */
void sl_batchnorm_running_cpu(uint32_t n, uint32_t n_columns, const double *const *unbiased, sl_real *running);

/* Submissions: local, one thread submits; SL_EINVAL on shapes, SL_ESTARPU, SL_ENOMEM.
 * z: chunk [D x F]; moments, unbiased: matrix [2 x F] of doubles; statistics, running: matrix [2 x F] of sl_real. */
enum sl_status sl_batchnorm_moments_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                                           starpu_data_handle_t moments);
enum sl_status sl_batchnorm_merge_submit(const struct sl_task_args *head, uint32_t n,
                                         const starpu_data_handle_t *moments, const uint32_t *counts,
                                         starpu_data_handle_t statistics, starpu_data_handle_t unbiased);
enum sl_status sl_batchnorm_running_submit(const struct sl_task_args *head, uint32_t n,
                                           const starpu_data_handle_t *unbiased, starpu_data_handle_t running);

/* Gradients of the norm's weight and bias: the ordered sum of n groups' [sum GY * zhat | sum GY] (codelets/activate.h). n may be
 * 0: both are cleared. sums: 2 F each; gw_out, gb_out: F. Submission: sums [2 x F], gw, gb [1 x F], written. */
void sl_batchnorm_gradient_cpu(uint32_t n, uint32_t n_columns, const sl_real *const *sums, sl_real *gw_out,
                               sl_real *gb_out);
enum sl_status sl_batchnorm_gradient_submit(const struct sl_task_args *head, uint32_t n,
                                            const starpu_data_handle_t *sums, starpu_data_handle_t gw,
                                            starpu_data_handle_t gb);

/* Evaluation: statistics from the running ones: mean, 1 / sqrt(var + eps). */
void sl_batchnorm_fixed_cpu(uint32_t n_columns, const sl_real *running, sl_real *statistics_out);
enum sl_status sl_batchnorm_fixed_submit(const struct sl_task_args *head, starpu_data_handle_t running,
                                         starpu_data_handle_t statistics);

#endif
