/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Pairs: the loss of links and their negatives, and its gradient.
 *   before: the rows of the links' ends are there, k + 2 rows for each link (codelets/links.h)
 *   after:  the gradients of the ends go back to their owners, as those of any sum over a block
 *
 * A link has the rows a, b_0, .. b_k: its first end, its second end, and k negatives. The scores are s_j = a . b_j.
 *
 *   binary    loss = scale * sum over links of (log(1 + exp(-s_0)) + sum over j > 0 of log(1 + exp(s_j)))
 *   softmax   loss = scale * sum over links of (log sum over j of exp(s_j) - s_0)
 *
 * with slopes d_j = d loss / d s_j: GB_j = d_j a, GA = sum over j of d_j b_j. Scores and slopes are in double.
 */
#ifndef SL_CODELETS_PAIRS_H
#define SL_CODELETS_PAIRS_H

#include "support/real.h"
#include "support/status.h"
#include "tasks/task.h"

#define SL_MAX_NEGATIVES 4096

enum sl_pairs_loss { SL_PAIRS_BINARY, SL_PAIRS_SOFTMAX };

/* The score of a pair of rows. */
double sl_pairs_score(uint32_t n_columns, const sl_real *a, const sl_real *b);

/* The binary loss of a pair with this score: a link, or not. */
double sl_pairs_loss_of(double score, bool is_link);

/* Links and the shape of their rows. */
struct sl_pairs {
    uint32_t n_links;
    uint32_t n_negatives; /* k */
    uint32_t n_columns;
    enum sl_pairs_loss loss;
};

/* z, gz_out: [n_links (k + 2) x n_columns]. gz_out and *loss_out are overwritten. */
void sl_pairs_cpu(const struct sl_pairs *pairs, const sl_real *z, double scale, sl_real *gz_out, double *loss_out);

#ifdef SL_CUDA
/* The same on the stream's device. z, gz_out and loss_out are in device memory. Sums run in another order than on the
 * CPU, but always in the same one. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_pairs_cuda(cudaStream_t stream, const struct sl_pairs *pairs, const sl_real *z,
                                         double scale, sl_real *gz_out, double *loss_out);
#endif

/* z, gz: matrices of sl_real with k + 2 rows for each link; gz is overwritten. loss: one double, overwritten. Local;
 * one thread submits. SL_EINVAL: shapes do not fit, or more than SL_MAX_NEGATIVES negatives. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pairs_submit(const struct sl_task_args *head, starpu_data_handle_t z, uint32_t n_negatives,
                               enum sl_pairs_loss kind, double scale, starpu_data_handle_t gz,
                               starpu_data_handle_t loss);

#endif
