/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * LABOR's picks (codelets/sample.h): every in-neighbour has a key, and each destination keeps those with the smallest.
 *
 * On CPUs keys are made for many in-neighbours side by side, of one destination or of several whose lists are short. Up to
 * SL_LABOR_FEW picks are found without a heap: the k-th smallest of d uniform numbers is about k / d, so that few lie below a little
 * more than that, and those are told apart by counting how many are smaller than each. Where too few lie below (one destination in
 * a hundred) all are taken for candidates: what is picked does not depend on the guess.
 */
#ifndef SL_CODELETS_LABOR_H
#define SL_CODELETS_LABOR_H

#include "support/random.h"
#include "support/real.h"

/* Which slowly turning variate a step uses: n_t = c * N(z1, t) + s * N(z2, t), c = cos(pi/2 (step mod kappa) / kappa), s the
 * sine, z_j = hash(seed, floor(step / kappa) + j) (Balin et al. 2023, dependent minibatches). Unit variance for every step. */
struct sl_labor_turn {
    double cosine, sine;
    struct sl_draw first, second;
};

/* The key that orders in-neighbours: smaller is picked first; `vertex` is a dataset id. Ties are broken by the id. */
static inline SL_HOST_DEVICE double sl_labor_key(const struct sl_labor_turn *turn, uint32_t vertex)
{
    double u = sl_random_open(&turn->first, vertex, 0);
    if (turn->sine == 0) {
        return u;
    }
    double v = sl_random_open(&turn->second, vertex, 0);
    return turn->cosine * sl_normal_quantile(u) + turn->sine * sl_normal_quantile(v);
}

/* ---- kernels, CPU ---- */

#define SL_LABOR_FEW 32

/* One in-neighbour that LABOR holds on to: its key and its position in the list. */
struct sl_labor_pick {
    double key;
    uint32_t position;
};

/* A destination's in-neighbours, in order of dataset id, and where the positions of those picked are left, ascending. */
struct sl_labor_list {
    const sl_vertex *ids; /* [degree], renumbered */
    uint32_t degree;
    uint32_t *picked_out; /* [k] */
};

/* The k in-neighbours with the smallest keys, of each of n lists of more than k. dataset_ids: of all vertices. heap: k entries. */
void sl_labor_pick_cpu(const struct sl_labor_turn *turn, const sl_vertex *dataset_ids, uint32_t k, uint32_t n,
                       const struct sl_labor_list *lists, struct sl_labor_pick *heap);

#endif
