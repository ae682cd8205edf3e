/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 12, optimise: one Adam step of one parameter (Kingma, Ba 2015), weight decay as L2 in the gradient.
 *   before: codelets/reduce.h        after: the next step's dense
 *
 *   g = grad + decay * w;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
 *   w -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps),  t = 1, 2, ..
 */
#ifndef SL_CODELETS_OPTIMIZE_H
#define SL_CODELETS_OPTIMIZE_H

#include "codelets/task.h"

struct sl_adam {
    double lr;    /* of this step */
    double beta1; /* 0.9 */
    double beta2; /* 0.999 */
    double eps;   /* 1e-8 */
    double decay; /* 0: none */
    uint64_t t;   /* 1 at the first step */
};

void sl_optimize_cpu(const struct sl_adam *adam, size_t n_entries, const sl_real *gradient, sl_real *w, sl_real *m,
                     sl_real *v);

/* All four are matrices of one shape; the last three are updated. Local, one thread submits; SL_EINVAL on shapes,
 * SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_optimize_submit(const struct sl_task_args *head, const struct sl_adam *adam,
                                  starpu_data_handle_t gradient, starpu_data_handle_t w, starpu_data_handle_t m,
                                  starpu_data_handle_t v);

#endif
