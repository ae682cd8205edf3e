/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Loss: softmax cross entropy of the seeds' logits, or a loss of each entry, and its gradient.
 *   before: codelets/rows/dense.h of the last layer      after: backward, codelets/rows/dense.h
 *
 *   loss = scale * sum_i (log sum_c exp(z_ic) - z_i,label(i));  GZ = scale * (softmax(z_i) - onehot(label(i)))
 *
 * with scale = 1 / m, m the number of seeds of all PEs in this step. A row's share of the loss is in double, and a
 * multiple of 2^-42. So sums below 2^11 are exact: the loss does not depend on how rows are split.
 *
 * With class weights w and smoothing e (Szegedy et al. 2016; PyTorch's definition), and p_ic = -log softmax(z_i)_c:
 *
 *   loss = scale * sum_i ((1 - e) w_y p_iy + e / C sum_c w_c p_ic),  y = label(i)
 *
 * Targets that are numbers have a loss of each known entry (i, c); GZ is 0 at unknown entries:
 *
 *   loss = scale * sum of l(z_ic, y_ic) over the known entries;  GZ = scale * dl/dz
 *
 *   sigmoid    l = w_c y log(1 + exp(-z)) + (1 - y) log(1 + exp(z)), cross entropy of the probability sigmoid(z)
 *   squared    l = (z - y)^2
 *   absolute   l = |z - y|; its derivative at z = y is 0
 *
 * An unknown entry is nan. The weight w_c of the entries with y = 1 (PyTorch: pos_weight) is for sigmoid only. Sums
 * are in double, row by row.
 */
#ifndef SL_CODELETS_LOSS_H
#define SL_CODELETS_LOSS_H

#include "codelets/grid.h"
#include "support/exact.h"
#include "tasks/task.h"

enum sl_row_loss { SL_ROW_SOFTMAX, SL_ROW_SIGMOID, SL_ROW_SQUARED, SL_ROW_ABSOLUTE };

/* The loss of D rows, and their targets in the part whose first id is `first`. Row i is vertex v = ids[i] - first of
 * the part. Softmax: its label is labels[v], 0 .. C - 1. Label -1: the row adds no loss, and its gradient is 0. Other
 * losses: it has the C numbers from numbers[v C] on. */
struct sl_loss_rows {
    enum sl_row_loss kind;
    union {
        const int32_t *labels; /* [n_part] */
        const float *numbers;  /* [n_part x C] */
    };
    uint32_t first;
    const sl_vertex *ids; /* [D] */
    const float *weights; /* [C]; NULL: all 1. Softmax and sigmoid */
    double smoothing;     /* e, below 1. Softmax */
};

/* The scaled loss of a row as a term of exact sums. The double build keeps all digits, for central differences. */
static inline SL_HOST_DEVICE double sl_loss_share(double scaled)
{
#ifdef SL_REAL_DOUBLE
    return scaled;
#else
    return sl_round_to(scaled, 0x1p-42);
#endif
}

/* The cross entropy of a row, -log softmax(z)_label, computed in double: for scores. */
double sl_loss_of_row(uint32_t n_classes, const sl_real *z, uint32_t label);

/* Compute loss and gradient of n_rows (D) rows. z [D x C]; gz_out [D x C] and *loss_out are overwritten. A GPU's double
 * sums have another order than a CPU's, but always the same. */
SL_DECLARE_LAUNCHER(void, sl_loss, uint32_t n_rows, uint32_t n_columns, const sl_real *z,
                    const struct sl_loss_rows *rows, double scale, sl_real *gz_out, double *loss_out);

/* l(z, y), without a weight. y is known, and kind is not softmax. */
double sl_loss_of_entry(enum sl_row_loss kind, sl_real z, float y);

/* *loss_out = scale * sum of n_rows losses, on the stream's device, always in the same order. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_loss_add_up_cuda(cudaStream_t stream, uint32_t n_rows, const double *losses, double scale,
                                               double *loss_out);

/* struct sl_loss_rows as handles. */
struct sl_loss_handles {
    enum sl_row_loss kind;
    starpu_data_handle_t targets; /* vector: int32 [n_part], or float [n_part x C] */
    uint32_t first;
    starpu_data_handle_t frontier; /* vector of ids */
    starpu_data_handle_t weights;  /* float [C]; NULL: all 1 */
    double smoothing;
};

/* z, gz: a chunk [D x C], rows row0 .. of the frontier. loss: one double, or one for each segment if the task has row
 * segments (struct sl_runs). gz and loss are overwritten. Local; one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_loss_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                              const struct sl_loss_handles *rows, uint32_t row0, double scale, starpu_data_handle_t gz,
                              starpu_data_handle_t loss);

/* total = sum of the n partial losses, in a tree (codelets/ends/tree.h). leaf: of each, in any order; segment k of a
 * loss belongs to leaf + k. If the sum is not finite, the run fails with SL_ENUMERIC, unless `watched`: the caller then
 * checks the sum. parts: host memory, [leaf] += each partial loss; or NULL. Runs on CPU workers only, since the host
 * reads the sum and a partial loss has only eight bytes. */
enum sl_status sl_loss_sum_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *losses,
                                  const uint32_t *leaf, bool watched, double *parts, starpu_data_handle_t total);

#endif
