/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Mean and deviation by Welford's recurrence. */
#include "runtime/minibatch/budget.h"

#include <math.h>

#include "support/minmax.h"

#define STANDARD_ERRORS 3

void sl_budget_add(struct sl_budget *b, double n_inputs)
{
    double before = n_inputs - b->mean;
    b->n++;
    b->mean += before / b->n;
    b->squares += before * (n_inputs - b->mean);
}

uint64_t sl_budget_batch(const struct sl_budget *b, uint32_t n_wanted, uint64_t batch, uint32_t n_train)
{
    if (n_wanted == 0 || b->n < 2 || !(b->mean > 0)) {
        return batch;
    }
    double error = sqrt(b->squares / (b->n - 1) / b->n);
    double wanted = floor((double)batch * n_wanted / b->mean);
    if (fabs(n_wanted - b->mean) <= STANDARD_ERRORS * error) {
        return batch;
    }
    return sl_max_u64(1, (uint64_t)fmin(wanted, n_train));
}
