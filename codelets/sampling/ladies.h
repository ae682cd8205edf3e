/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * LADIES (Zou et al., NeurIPS 2019, "Layer-Dependent Importance Sampling") and PLADIES (Balin, Catalyurek, NeurIPS
 * 2023): a hop draws a number of sources for all destinations together. Its block has all edges from the drawn sources.
 *   before: candidates (codelets/sampling/importance.h)      after: poisson of the same file
 *
 * The importance of a source t is pi_t, the sum over its edges t -> s of w_ts^2. w_ts is 1 / d_s, or the edge's share
 * of the weights of s's in-edges. N sources are wanted.
 *
 *   pladies  t is drawn with the probability p_t = min(1, c pi_t), if r_t <= p_t. c is the solution of sum p_t = N.
 *   ladies   exactly N sources are drawn without replacement in proportion to pi_t: the sources with the smallest keys
 *            -ln(r_t) / pi_t (Efraimidis, Spirakis 2006). c is the key that follows the keys of the drawn sources, and
 *            p_t = 1 - exp(-c pi_t) is the probability of t's key to be smaller. With these p_t sums have no bias
 *            (Cohen, Kaplan 2007, "Summarizing data using bottom-k sketches").
 *
 * Sources with pi_t = 0 are never drawn. If at most N are left, all are drawn, and c is infinite. r_t is LABOR's number
 * of the source (codelets/sampling/labor.h).
 *
 * A layer belongs to one minibatch, so each group of PEs draws N sources of its own. A hop has these steps.
 *
 *   shares   each PE sums the w_ts^2 of its own destinations, for each candidate.
 *   pool     each owner adds the sums of its vertices over the PEs of its group.
 *   level    one task finds c from the pools of all owners. If ranks share a group, each finds the same c.
 *   take     each PE writes the costs 1 / p_t of its candidates, infinity if not drawn. All bounds are 1.
 *
 * All sums are sums of integers: pi_t is in units of 2^(b - 63), with N <= 2^b vertices in the graph. So the order of
 * additions is free, and all partitions, groups and processors draw the same sources.
 */
#ifndef SL_CODELETS_LADIES_H
#define SL_CODELETS_LADIES_H

#include "codelets/sampling/importance.h"

/* How to draw the sources of a hop. */
struct sl_ladies_rule {
    struct sl_sample_rule sample; /* of r_t: layer_dependency is read, and kappa is 1 */
    uint64_t seed;
    uint32_t size; /* N, >= 1 */
    bool poisson;  /* pladies */
    bool weighted; /* w_ts is of the part's weights */
};

/* The part of pi_t that an edge adds. unit: sl_ladies_unit. An edge of a positive weight counts, however small. */
static inline SL_HOST_DEVICE uint64_t sl_ladies_share(double w, double unit)
{
    return w > 0 ? (uint64_t)fmax(1.0, w * w * unit) : 0;
}
static inline double sl_ladies_unit(uint32_t n_vertices)
{
    double unit = 0x1p63;
    for (uint64_t n = 1; n < n_vertices; n *= 2) {
        unit /= 2;
    }
    return unit;
}

/* The key of a source (a dataset id) of ladies. */
static inline SL_HOST_DEVICE double sl_ladies_key(const struct sl_labor_turn *turn, uint32_t source, uint64_t share)
{
    return -sl_ln(sl_labor_key(turn, source)) / (double)share;
}

/* The cost of a source: 1 / p if it is drawn, otherwise infinity. */
static inline SL_HOST_DEVICE float sl_ladies_cost(bool poisson, const struct sl_labor_turn *turn, uint32_t source,
                                                  uint64_t share, double level)
{
    if (share == 0) {
        return INFINITY;
    }
    const double x = (double)share * level;
    if (poisson) {
        const float cost = x >= 1 ? 1 : (float)(1 / x);
        return sl_importance_drawn(turn, source, 1, cost) ? cost : INFINITY;
    }
    return sl_ladies_key(turn, source, share) < level ? (float)(-1 / expm1(-x)) : INFINITY;
}

/* The sources of one owner: the first n entries of `value` and of sl_pool_ids have those with pi_t > 0, in any order.
 * All shares are zero before the first use. */
struct sl_pool {
    uint64_t n;
    struct sl_pool_entry {
        uint64_t share; /* pi_t of local id i */
        uint64_t value; /* pi_t, or the bits of the key, of source i of n */
    } entry[];          /* [n_part], then uint32 local ids [n_part] */
};
static inline size_t sl_pool_words(uint32_t n_part)
{
    return 1 + 2 * (size_t)n_part + ((size_t)n_part + 1) / 2;
}
static inline SL_HOST_DEVICE uint32_t *sl_pool_ids(struct sl_pool *pool, uint32_t n_part)
{
    return (uint32_t *)(void *)(pool->entry + n_part);
}

/* c, and the working memory of its search. */
struct sl_level {
    double level;
    uint64_t ended, wanted, prefix, last;
    uint64_t whole, low, high; /* sources with p = 1; the sum of the other pi_t, in two halves */
    uint64_t count[256];       /* keys by their next byte */
};

/* ---- kernels ---- */

/* Write a list by owner of two entries for each candidate, a share as uint64. A position counts uint32, and the first
 * aligns the shares. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_ladies_shares, const struct sl_destinations *to,
                    const struct sl_candidates *candidates, bool weighted, uint32_t *shares_out);

/* Add the shares of an owner's vertices. from->most: lists of shares. dataset_ids: [N], of all vertices. turn: by
 * sl_labor_turn. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_ladies_pool, const struct sl_raising *from, const struct sl_ladies_rule *rule,
                    const struct sl_labor_turn *turn, const sl_vertex *dataset_ids, struct sl_pool *pool);

/* pools: [n_pools], addresses: host memory. most: upper bound of the sources of one pool; read on a GPU only. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_ladies_level, const struct sl_ladies_rule *rule, uint32_t n_pools, uint32_t most,
                    const struct sl_pool *const *pools, struct sl_level *level);

/* Write the candidates' costs, and the bounds. pools: of all owners. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_ladies_take, const struct sl_destinations *to,
                    const struct sl_candidates *candidates, const struct sl_ladies_rule *rule,
                    const struct sl_labor_turn *turn, const struct sl_pool *const *pools, const struct sl_level *level);

/* ---- submissions: sampling phase; local; one thread submits. SL_ESTARPU, SL_ENOMEM. ----
 *
 * Of struct sl_importance_handles, `most` is the list of shares, `room` the pool (uint64), and `costs` is not used. */

enum sl_status sl_ladies_shares_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                       const struct sl_frontier_handles *frontier, const struct sl_ladies_rule *rule,
                                       const struct sl_importance_handles *own);

/* list, most: raising->n_lists handles each. raising: without its lists. own: of the owner. */
enum sl_status sl_ladies_pool_submit(const struct sl_task_args *head, const struct sl_raising *raising,
                                     starpu_data_handle_t dataset_ids, const struct sl_ladies_rule *rule,
                                     const starpu_data_handle_t *list, const starpu_data_handle_t *most,
                                     const struct sl_importance_handles *own);

/* pools: of the n_parts PEs of a group. level: sizeof(struct sl_level) bytes. */
enum sl_status sl_ladies_level_submit(const struct sl_task_args *head, const struct sl_ladies_rule *rule,
                                      uint32_t n_parts, const starpu_data_handle_t *pools, starpu_data_handle_t level);

enum sl_status sl_ladies_take_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                     const struct sl_frontier_handles *frontier, const struct sl_ladies_rule *rule,
                                     const starpu_data_handle_t *pools, starpu_data_handle_t level,
                                     const struct sl_importance_handles *own);

#endif
