/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * LABOR's selection (codelets/sampling/sample.h): each in-neighbour has a random key, and a destination picks the
 * in-neighbours with the smallest keys.
 *
 * The CPU code computes many keys at once. If lists are short, the keys belong to several destinations. The code picks
 * up to SL_LABOR_FEW in-neighbours without a heap. The k-th smallest of d uniform numbers is about k / d, so few keys
 * lie below a bound slightly above k / d. The code ranks these candidates by counting, for each candidate, the smaller
 * keys. If too few keys lie below the bound (one destination in a hundred), all in-neighbours become candidates. The
 * result does not depend on the bound.
 *
 * The same file has the selection in proportion to edge weights. Its key of an edge u -> v is -ln(x) / w, where x is
 * uniform in (0, 1) and w the weight: an exponential variate with rate w. The k edges with the smallest keys are a
 * sample without replacement. Each next edge is drawn in proportion to the weights that are left (Efraimidis, Spirakis
 * 2006, "Weighted random sampling with a reservoir"). Edges of weight 0 are never picked.
 */
#ifndef SL_CODELETS_LABOR_H
#define SL_CODELETS_LABOR_H

#include "support/random.h"
#include "support/real.h"

/* The slowly changing random variate of a step (dependent minibatches, Balin et al. 2023) is n_t = c N(z1, t) +
 * s N(z2, t). c = cos(pi/2 (step mod kappa) / kappa), and s is the sine of the same angle. z_j = hash(seed,
 * floor(step / kappa) + j). The variance of n_t is 1 in every step. */
struct sl_labor_turn {
    double cosine, sine;
    struct sl_draw first, second;
    uint32_t draw; /* 0: of sources alone. Otherwise the destination: each of its edges has a key of its own */
};

/* The key of an in-neighbour; smaller keys are picked first. `vertex` is a dataset id. Equal keys are ordered by id. */
static inline SL_HOST_DEVICE double sl_labor_key(const struct sl_labor_turn *turn, uint32_t vertex)
{
    double u = sl_random_open(&turn->first, vertex, turn->draw);
    if (turn->sine == 0) {
        return u;
    }
    double v = sl_random_open(&turn->second, vertex, turn->draw);
    return turn->cosine * sl_normal_quantile(u) + turn->sine * sl_normal_quantile(v);
}

/* The draws of a relation. Relation 0 has the draws of a graph without relations. */
static inline SL_HOST_DEVICE struct sl_draw sl_sample_draw_of(const struct sl_draw *draw, uint32_t relation)
{
    struct sl_draw own = *draw;
    own.seed += relation * UINT64_C(0x9e3779b97f4a7c15);
    return own;
}

/* The key of the edge from `source` to `vertex` (dataset ids) with weight w > 0. The variate depends on the draw's step
 * and hop, and on both ends; with sl_sample_draw_of also on the relation. */
static inline SL_HOST_DEVICE double sl_weighted_key(const struct sl_draw *draw, uint32_t vertex, uint32_t source,
                                                    double w)
{
    return -sl_ln(sl_random_open(draw, source, vertex)) / w;
}

/* ---- kernels, CPU ---- */

#define SL_LABOR_FEW 32

/* A picked in-neighbour: its key and its position in the list. */
struct sl_labor_pick {
    double key;
    uint32_t position;
};

/* A destination's in-neighbours, ordered by dataset id, and the output of its picks. */
struct sl_labor_list {
    const sl_vertex *ids; /* [degree], renumbered ids */
    uint32_t degree;
    uint32_t *picked_out; /* [k], positions in ids, ascending */
};

/* For each of n lists, pick the k in-neighbours with the smallest keys. Each list has more than k. dataset_ids: [N],
 * of all vertices. heap: k entries of working memory. */
void sl_labor_pick_cpu(const struct sl_labor_turn *turn, const sl_vertex *dataset_ids, uint32_t k, uint32_t n,
                       const struct sl_labor_list *lists, struct sl_labor_pick *heap);

/* Pick up to k in-neighbours of `vertex` (a dataset id) by their weights: [degree], in the order of the list. If at
 * most k have a positive weight: all of these. relations: of the edges, as the weights; a draw depends on the relation,
 * too. NULL: none. Returns the number of picks. heap: k entries of working memory; not used if degree <= k. */
uint32_t sl_weighted_pick_cpu(const struct sl_draw *draw, uint32_t vertex, const sl_vertex *dataset_ids, uint32_t k,
                              const struct sl_labor_list *list, const float *weights, const uint16_t *relations,
                              struct sl_labor_pick *heap);

#endif
