/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Importance: LABOR-1, LABOR-2, .. and LABOR-* (Balin, Catalyurek, NeurIPS 2023, "Layer-Neighbor Sampling"). They take
 * the place of sample (codelets/sampling/sample.h) in a hop, and reach fewer vertices over more edges.
 *   before: seeds, or merge of the previous hop      after: codelets/sampling/exchange.h merges the requests
 *
 * Each source t has an importance pi_t, and each destination s of degree d has a bound c_s. The edge t -> s has the
 * probability p = min(1, c_s pi_t), and is sampled if r_t <= p. r_t is LABOR's number of the source
 * (codelets/sampling/labor.h), so destinations share their sources. With fanout k, c_s is the solution of
 *
 *   sum over in-neighbours t of s of 1 / min(1, c_s pi_t) = d^2 / k.
 *
 * The sum over s's sample then has the variance of k in-neighbours drawn without replacement. If d <= k, c_s = 1: all
 * edges are sampled. First pi_t = 1, so c_s = k / d. A round multiplies pi_t by the largest c_s of all destinations of
 * t, and solves for all c_s anew. Each round lowers the expected number of distinct sources, the sum over t of
 * min(1, pi_t max c_s). LABOR-i has i rounds. LABOR-* ends when a round lowers this number by less than
 * SL_IMPORTANCE_TOLERANCE, or after SL_IMPORTANCE_ROUNDS.
 *
 * The destinations of a source belong to several PEs. A hop has these steps.
 *
 *   candidates  each PE lists the distinct in-neighbours of its destinations, by owner.
 *   solve       each PE takes the costs of its candidates from their owners, and solves for the c_s of its
 *               destinations. It writes the largest c_s of each candidate.
 *   raise       each owner takes the largest c_s of its vertices over all PEs, also of other groups. It updates the
 *               costs of its vertices.
 *   ..          solve and raise again, once for each round. At the end a last solve.
 *   poisson     each PE draws its edges, and closes the block (codelets/sampling/sample.h).
 *
 * Everything that PEs exchange is a maximum, or a sum of integers. The sum over a list of in-neighbours has a fixed
 * order. So all partitions, groups and processors sample the same edges. Each group has costs of its own, which are
 * equal.
 *
 * A cost is 1 / pi_t, so that sums need no divisions: 1 / p = max(1, cost / c).
 *
 * Weighted LABOR-0 has an importance for each edge: its weight A_ts. A_s is the sum of the weights of s's in-edges.
 * c_s = k / A_s, so p = min(1, k A_ts / A_s). If d <= k, all edges with a positive weight are sampled. Without rounds
 * there are neither candidates nor costs: a hop is solve, and poisson.
 *
 * Weighted LABOR-1 and further: the first round sets pi_t to the largest c_s A_ts of all destinations of t. If d <= k
 * for one of the destinations, c_s A_ts counts as 1 there. From then on pi_t belongs to the source. c_s is the
 * solution of
 *
 *   sum over in-neighbours t of s of A_ts^2 / min(1, c_s pi_t) = A_s^2 (1 / k - 1 / d) + sum of A_ts^2.
 *
 * The weighted sum again has the variance of k in-neighbours drawn without replacement. If all weights are 1, these
 * are the equations above. Edges of weight 0 are never sampled.
 *
 * The weight of an edge in the block (struct sl_block, edge_weights) makes sums unbiased. n is the number of sampled
 * edges of s.
 *
 *   normalised  n / p, divided by the sum of 1 / p over the sampled edges. The mean over the block estimates the mean
 *               of all in-neighbours (Hajek). The paper and DGL use this estimator. It has no error if all rows are
 *               equal.
 *   otherwise   n / (p d). The estimate of a sum has no bias at all (Horvitz, Thompson). codelets/sums/aggregate.h
 *               multiplies it by d / n.
 *
 * The weight of the dataset's edge, if sums use it, is a factor of both.
 *
 * In a typed graph sums are by relation (codelets/sums/relate.h). n, d and the sum of 1 / p then count s's edges of one
 * relation. So the mean of each relation is estimated as above. With fanouts by relation, s has a bound for each
 * relation. The equations then have the relation's in-neighbours and its fanout. A source has one pi_t and one r_t for
 * all relations, and rounds count it once. DGL has one r_t, too, but solves relation by relation, with a pi_t for each.
 */
#ifndef SL_CODELETS_IMPORTANCE_H
#define SL_CODELETS_IMPORTANCE_H

#include <float.h>
#include <math.h>

#include "codelets/sampling/sample.h"

#define SL_IMPORTANCE_ROUNDS 20
#define SL_IMPORTANCE_TOLERANCE 1e-4
#define SL_IMPORTANCE_LANES 32     /* partial sums over a list */
#define SL_IMPORTANCE_LEAST 1e-30f /* importance of a source of weighted LABOR */

/* ---- arithmetic of one item, host and device ---- */

/* 1 / p of an edge. */
static inline SL_HOST_DEVICE double sl_importance_inverse(float bound, float cost)
{
    return cost <= bound ? 1 : (double)cost / (double)bound;
}

/* The cost of an edge of weighted LABOR. An edge of weight 0 costs more than any bound. */
static inline SL_HOST_DEVICE float sl_importance_cost(float weight)
{
    return weight > 0 ? 1 / weight : INFINITY;
}

/* The bound of a destination of weighted LABOR, whose weights have this sum. */
static inline SL_HOST_DEVICE float sl_importance_bound(uint32_t degree, uint32_t k, double sum)
{
    return degree <= k || sum <= 0 ? FLT_MAX : (float)fmin((double)FLT_MAX, k / sum);
}

/* The importance that an edge of weighted LABOR asks for in the first round; 0: none. */
static inline SL_HOST_DEVICE float sl_importance_asked(uint32_t degree, uint32_t k, float bound, float weight)
{
    if (!(weight > 0)) {
        return 0;
    }
    return degree <= k ? 1 : fmaxf(SL_IMPORTANCE_LEAST, bound * weight);
}

/* Whether the edge from `source` (a dataset id) is sampled. */
static inline SL_HOST_DEVICE bool sl_importance_drawn(const struct sl_labor_turn *turn, uint32_t source, float bound,
                                                      float cost)
{
    if (cost <= bound) {
        return true;
    }
    const double p = (double)bound / (double)cost;
    return sl_labor_key(turn, source) <= (turn->sine == 0 ? p : sl_normal_quantile(p));
}

/* A source's part of the expected number of distinct sources, in units of 2^-31: an integer, so that the order of
 * additions is free. */
static inline SL_HOST_DEVICE uint64_t sl_importance_share(float cost)
{
    return cost <= 1 ? UINT64_C(1) << 31 : (uint64_t)(0x1p31 / (double)cost);
}

/* Newton's method for c. In-neighbours with costs up to c are whole. A step takes their number, and the sum of the
 * other costs. The function, the sum of max(c, cost) minus c d^2 / k, is convex, and linear between costs. If a step
 * leaves the number of whole ones as it was, c is exact.
 * With weights, each cost is multiplied by the square of its weight. target: the right side of the equation. whole: the
 * sum of the squares of the weights with costs up to c. Without weights, all squares are 1. */
static inline SL_HOST_DEVICE double sl_importance_target(double degree, double k)
{
    return degree * degree / k;
}
static inline SL_HOST_DEVICE double sl_importance_weighted_target(double degree, double k, double sum, double squares)
{
    return sum * sum * (1 / k - 1 / degree) + squares;
}
static inline SL_HOST_DEVICE double sl_importance_step(double target, double whole, double sum)
{
    return sum / (target - whole);
}

/* ---- kernels, CPU ---- */

/* Working memory of one PE, for the candidates of a hop. W = ceil(N / 64). */
struct sl_candidates {
    uint32_t n_vertices; /* N */
    uint64_t *words;     /* [W], a bit for each candidate */
    uint32_t *ranks;     /* [W] */
    uint32_t *list;      /* list by owner: the candidates' ids, ascending */
    float *costs;        /* by position in the list */
};

/* Bytes of words, ranks and costs, in this order, with room for n_candidates. */
static inline size_t sl_candidates_bytes(uint32_t n_vertices, uint32_t n_candidates)
{
    return 12 * (((size_t)n_vertices + 63) / 64) + sizeof(float) * (size_t)n_candidates;
}

/* The costs of an owner's vertices, in one buffer of sl_costs_bytes bytes. */
struct sl_costs {
    /* Shares of the owner's vertices that are candidates, summed: in the round before, in the last round. */
    uint64_t before, now;
    float cost[]; /* [n_part] */
};
static inline size_t sl_costs_bytes(uint32_t n_part)
{
    return sizeof(struct sl_costs) + sizeof(float) * (size_t)n_part;
}

/* The state of a PE in a hop: rounds go on; the next bounds are the last; the bounds are final. */
enum sl_solve_state { SL_SOLVE_GOES_ON, SL_SOLVE_ENDS, SL_SOLVE_ENDED };

/* How to solve. */
struct sl_solve_rule {
    uint32_t fanout; /* the part's, if it has fanouts by relation */
    bool begins;     /* the first bounds of the hop */
    bool checks;     /* LABOR-*, after two rounds: rounds may end */
    bool weighted;   /* weighted LABOR. Of LABOR-0 the first bounds are the last */
};

/* The state of the next solve. before, now: of all owners, summed. */
static inline SL_HOST_DEVICE uint32_t sl_solve_next(uint32_t state, const struct sl_solve_rule *rule, uint64_t before,
                                                    uint64_t now)
{
    if (rule->begins) {
        return SL_SOLVE_GOES_ON;
    }
    if (state != SL_SOLVE_GOES_ON) {
        return SL_SOLVE_ENDED;
    }
    const bool settled = (double)now >= (1 - SL_IMPORTANCE_TOLERANCE) * (double)before;
    return rule->checks && settled ? SL_SOLVE_ENDS : SL_SOLVE_GOES_ON;
}

/* A PE's destinations in a hop. All arrays are in the memory of the processor. */
struct sl_destinations {
    struct sl_sample_part part;
    uint32_t max_rows;      /* upper bound of *n_rows; read by launchers only */
    const uint32_t *n_rows; /* their number */
    const sl_vertex *frontier;
    uint32_t *state; /* enum sl_solve_state */
    float *bounds;   /* c_s, at sl_bound_place. [*n_rows]; with fanouts by relation [edges of the part] */
};

/* The place of the bound of destination d, or of its run that begins with this edge of the part. */
static inline SL_HOST_DEVICE uint64_t sl_bound_place(const struct sl_sample_part *part, uint64_t d, uint64_t edge)
{
    return part->fanouts == NULL ? d : edge;
}

/* List the distinct in-neighbours of the destinations. */
SL_DECLARE_LAUNCHER(void, sl_candidates, const struct sl_destinations *to, const struct sl_candidates *candidates);

/* Take the candidates' costs and solve for the bounds of the destinations. costs: of all owners; not read if the
 * rule begins, as all costs are 1. A weighted rule reads the part's weights. If it begins and most_out is NULL, it
 * reads no candidates.
 * most_out: a list by owner, the largest bound of each candidate as the bits of a float. It has no entries once rounds
 * end. NULL: not wanted. */
SL_DECLARE_LAUNCHER(void, sl_solve, const struct sl_destinations *to, const struct sl_solve_rule *rule,
                    const struct sl_costs *const *costs, const struct sl_candidates *candidates, uint32_t *most_out);

/* An owner, and the lists of n_lists PEs: their candidates, and the largest bounds of these. The PEs may belong to
 * several groups. */
struct sl_raising {
    uint32_t n_lists;
    uint32_t n_parts, owner;
    uint32_t first, n_part;                    /* ids of the owner: first .. first + n_part - 1 */
    bool begins;                               /* the costs so far are 1 */
    const uint32_t *const *list, *const *most; /* [n_lists], addresses: host memory */
};

/* Update the costs of an owner's vertices. No change if no PE has an entry for the owner. room: [n_part], zero before
 * and after. */
SL_DECLARE_LAUNCHER(void, sl_raise, const struct sl_raising *raising, uint32_t *room, struct sl_costs *costs);

/* How to draw. */
struct sl_poisson_rule {
    struct sl_sample_rule sample; /* layer_dependency and kappa are read */
    bool normalised;
    bool weighted; /* weighted LABOR: sums are not normalised */
    bool by_edge;  /* weighted LABOR-0: costs are of the part's weights, not of candidates */
    bool decided;  /* a source is drawn if its cost is finite (codelets/sampling/ladies.h) */
};

/* Draw the edges of all destinations and close the block, with its weights. The part's weights are factors of these. If
 * the part has relations, sums are by relation. marks: heap is not used. On a GPU: waits once for the stream, as
 * sl_sample_cuda. */
SL_DECLARE_LAUNCHER(void, sl_poisson, const struct sl_destinations *to, const struct sl_poisson_rule *rule,
                    const struct sl_draw *draw, const struct sl_candidates *candidates,
                    const struct sl_sample_marks *marks, const struct sl_sample_sizes *sizes,
                    const struct sl_sample_block *block);

#ifndef SL_KERNELS_ONLY

/* ---- the operands that tasks of this folder share; a view has a struct sl_hop, and sl_matrix candidates ---- */

/* The first roles. */
#define SL_IMPORTANCE_ROLES(view, counts_mode, candidates_mode)                                                        \
    {"offsets", STARPU_R, offsetof(view, hop.offsets), "?", SL_INTS_64},                                               \
        {"sources", STARPU_R, offsetof(view, hop.sources), "?", SL_INTS_32},                                           \
        {"first", STARPU_R, offsetof(view, hop.first), "?", SL_INTS_32},                                               \
        {"frontier", STARPU_R, offsetof(view, hop.frontier), "?", SL_INTS_32},                                         \
        {"counts", counts_mode, offsetof(view, hop.counts), "?", SL_INTS_32},                                          \
    {                                                                                                                  \
        "candidates", candidates_mode, offsetof(view, candidates), "?", SL_INTS_8                                      \
    }

/* Inside a task. bounds: the state, then the bounds; NULL: none. bytes: sl_candidates_bytes. */
struct sl_destinations sl_hop_destinations(const struct sl_hop *hop, void *bounds);
struct sl_candidates sl_candidates_in(void *bytes, uint32_t n_vertices, uint32_t *list);

#endif /* SL_KERNELS_ONLY */

/* ---- submissions: sampling phase; local; one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* The buffers of one PE in a ring slot. All hops use them in turn. */
struct sl_importance_handles {
    starpu_data_handle_t list;       /* list by owner at capacity */
    starpu_data_handle_t most;       /* the same */
    starpu_data_handle_t candidates; /* sl_candidates_bytes bytes */
    starpu_data_handle_t bounds;     /* uint32: the state, then room for bounds of all vertices of the part
                                      * and, with fanouts by relation, of all its edges */
    starpu_data_handle_t costs;      /* sl_costs_bytes bytes: of the vertices that the PE owns */
    starpu_data_handle_t room;       /* uint32 [n_part], cleared once before the first use */
    starpu_data_handle_t level;      /* codelets/sampling/ladies.h, of a group's first PE */
    uint32_t n_vertices;             /* N */
};

enum sl_status sl_candidates_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                    const struct sl_frontier_handles *frontier,
                                    const struct sl_importance_handles *own);

/* costs: of the n_parts PEs of the group. The last solve of a hop does not write `most`. If the rule is weighted, the
 * part has weights. */
enum sl_status sl_solve_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                               const struct sl_frontier_handles *frontier, const struct sl_solve_rule *rule, bool last,
                               const starpu_data_handle_t *costs, const struct sl_importance_handles *own);

/* list, most: n_lists handles each. raising: without its lists. own: of the owner. */
enum sl_status sl_raise_submit(const struct sl_task_args *head, const struct sl_raising *raising,
                               const starpu_data_handle_t *list, const starpu_data_handle_t *most,
                               const struct sl_importance_handles *own);

/* Submit the draw of hop head->hop. The block has edge weights. */
enum sl_status sl_poisson_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                 const struct sl_poisson_rule *rule, uint64_t seed,
                                 const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                                 const struct sl_importance_handles *own, const struct sl_block *block);

#endif
