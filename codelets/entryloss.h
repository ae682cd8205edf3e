/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Loss of targets that are numbers: a sum over the known entries of the seeds' outputs, and its gradient.
 *   before: codelets/dense.h of the last layer      after: backward, codelets/dense.h
 *
 *   loss = scale * sum of l(z_ic, y_ic) over the known entries (i, c);  GZ = scale * dl/dz, 0 at unknown entries
 *
 *   sigmoid    l = w_c y log(1 + exp(-z)) + (1 - y) log(1 + exp(z)), cross entropy of the probability sigmoid(z)
 *   squared    l = (z - y)^2
 *   absolute   l = |z - y|; its derivative at z = y is 0
 *
 * An unknown entry is nan. The weight w_c of the entries with y = 1 (PyTorch: pos_weight) is for sigmoid only. Sums
 * are in double, row by row.
 */
#ifndef SL_CODELETS_ENTRYLOSS_H
#define SL_CODELETS_ENTRYLOSS_H

#include "support/real.h"
#include "support/status.h"
#include "tasks/task.h"

enum sl_entry_loss { SL_ENTRY_SIGMOID, SL_ENTRY_SQUARED, SL_ENTRY_ABSOLUTE };

/* Targets of D rows: row i has part_targets[(ids[i] - first) * L ..]. */
struct sl_entries {
    enum sl_entry_loss kind;
    const float *part_targets; /* [n_part x L], of the part whose first id is `first` */
    uint32_t first;
    const sl_vertex *ids; /* [D] */
    const float *weights; /* [L]; NULL: all 1 */
};

/* Compute loss and gradient of n_rows (D) rows. z [D x L]; gz_out [D x L] and *loss_out are overwritten. */
void sl_entryloss_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *z, const struct sl_entries *entries,
                      double scale, sl_real *gz_out, double *loss_out);

/* l(z, y), without a weight. y is known. */
double sl_entryloss_of_entry(enum sl_entry_loss kind, sl_real z, float y);

#ifdef SL_CUDA
/* The same on the stream's device. The arrays of `entries` and loss_out are in device memory. The double sums run in
 * another order than on the CPU, but always in the same one. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_entryloss_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, const sl_real *z,
                                             const struct sl_entries *entries, double scale, sl_real *gz_out,
                                             double *loss_out);
#endif

struct sl_entries_handles {
    enum sl_entry_loss kind;
    starpu_data_handle_t part_targets; /* float [n_part x L] as a vector, of the part whose first id is `first` */
    uint32_t first;
    starpu_data_handle_t frontier; /* vector of ids */
    starpu_data_handle_t weights;  /* float [L]; NULL: all 1 */
};

/* z, gz: a chunk [D x L], rows row0 .. of the frontier; gz is overwritten. loss: one double, overwritten; if the task
 * has row segments (struct sl_runs), one double for each segment. Local; one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_entryloss_submit(const struct sl_task_args *head, starpu_data_handle_t z,
                                   const struct sl_entries_handles *entries, uint32_t row0, double scale,
                                   starpu_data_handle_t gz, starpu_data_handle_t loss);

#endif
