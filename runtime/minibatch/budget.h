/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A vertex budget: steps have as many seeds as make N input vertices in a minibatch, on average. Samplers that reach
 * fewer vertices then train on more seeds a step (Balin and Catalyurek, NeurIPS 2023, arXiv 2210.13339, compare
 * samplers so; DGL's example of LABOR changes its batch after an epoch, too).
 *
 * The input vertices of a step grow with its seeds, but not faster than in proportion. So batch N / mean is on the same
 * side of the right batch as `batch`, and nearer.
 */
#ifndef SL_RUNTIME_MINIBATCH_BUDGET_H
#define SL_RUNTIME_MINIBATCH_BUDGET_H

#include <stdint.h>

/* The steps since the batch changed: their number, the mean of their input vertices, and the sum of the squares of the
 * deviations from the mean. Doubles only: a checkpoint has them as one array. */
struct sl_budget {
    double n, mean, squares;
};

/* Count a step, whose minibatches have this many input vertices each, on average. */
void sl_budget_add(struct sl_budget *budget, double n_inputs);

/* The seeds of the next steps: batch N / mean, from 1 to n_train, if the mean is wrong by more than 3 standard errors;
 * otherwise `batch`. Fewer than two steps say nothing. */
uint64_t sl_budget_batch(const struct sl_budget *budget, uint32_t n_wanted, uint64_t batch, uint32_t n_train);

#endif
