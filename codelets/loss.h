/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 9, loss: softmax cross entropy of the seeds' logits and its gradient.
 *   before: codelets/dense.h of the last layer      after: backward, codelets/dense.h
 *
 *   loss = scale * sum_i (log sum_c exp(z_ic) - z_i,label(i));  GZ = scale * (softmax(z_i) - onehot(label(i)))
 * with scale = 1 / m, m the seeds of all PEs of this step. Sums in double, row by row.
 */
#ifndef SL_CODELETS_LOSS_H
#define SL_CODELETS_LOSS_H

#include "codelets/task.h"
#include "support/real.h"
#include "support/status.h"

/* The labels of the D rows: part_labels[ids[i] - first], 0 .. C - 1; -1: the row has no loss, and its gradient is zero. */
struct sl_labels {
    const int32_t *part_labels; /* of the part, whose first id is `first` */
    uint32_t first;
    const sl_vertex *ids; /* D */
};

/* z [D x C]; gz_out [D x C]; *loss_out overwritten. */
void sl_loss_cpu(uint32_t n_rows, uint32_t n_classes, const sl_real *z, const struct sl_labels *labels, double scale,
                 sl_real *gz_out, double *loss_out);

#ifdef SL_CUDA
/* The same on the stream's device, where the labels' arrays and loss_out are, too. Its sums in double take another order than the
 * CPU's, a fixed one. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_loss_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_classes, const sl_real *z,
                                        const struct sl_labels *labels, double scale, sl_real *gz_out,
                                        double *loss_out);
#endif

/* The labels of a frontier. */
struct sl_labels_handles {
    starpu_data_handle_t part_labels; /* int32, of the part, whose first id is `first` */
    uint32_t first;
    starpu_data_handle_t frontier; /* ids */
};

/* z, gz: chunk [D x C] at rows row0 .. of the frontier; loss: one double, overwritten.
 * Local, one thread submits; SL_EINVAL on shapes, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_loss_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                              const struct sl_labels_handles *labels, uint32_t row0, double scale,
                              starpu_data_handle_t gz, starpu_data_handle_t loss);

/* total = sum of n partial losses in order; unless somebody watches over it, the run fails with SL_ENUMERIC where it is not finite. For
 * CPU workers only: the host has to look at the sum, and the partial losses are eight bytes each. */
enum sl_status sl_loss_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *losses,
                                  bool watched, starpu_data_handle_t total);

/* The same of a run that nobody watches over; once the task has run, parts[i] of the host is losses[i]. */
enum sl_status sl_loss_parts_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *losses,
                                    double *parts, starpu_data_handle_t total);

#endif
