/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Candidates of a hop, their costs and bounds, and Poisson sampling. */
#include "codelets/sampling/importance.h"

#include <assert.h>
#include <string.h>

#include "support/minmax.h"
#include "tasks/rows.h"

#define LANES SL_IMPORTANCE_LANES
#define FEW (32 * LANES) /* in-neighbours whose positions and costs are kept; those of longer lists are found anew */
#define MOST_STEPS 64

/* ---- candidates ---- */

/* Number of candidates with a smaller id. */
SL_INLINE uint32_t position_of(const struct sl_candidates *c, sl_vertex id)
{
    return sl_rank_cpu(c->words, c->ranks, id);
}

SL_CLONES void sl_candidates_cpu(const struct sl_destinations *to, const struct sl_candidates *c)
{
    memset(c->words, 0, ((size_t)c->n_vertices + 63) / 64 * sizeof *c->words);
    for (uint32_t d = 0; d < *to->n_rows; d++) {
        const struct sl_neighbours from = sl_neighbours_of(&to->part, to->frontier[d]);
        for (uint32_t i = 0; i < from.degree; i++) {
            sl_mark_cpu(c->words, from.ids[i]);
        }
    }
    sl_list_marked_cpu(&to->part, c->words, c->ranks, c->list);
}

/* ---- solve ---- */

static void take_costs(const struct sl_destinations *to, bool begins, const struct sl_costs *const *costs,
                       const struct sl_candidates *c)
{
    const uint32_t n_parts = to->part.n_parts;
    const uint32_t *ids = sl_list_entries(c->list, n_parts);
    for (uint32_t q = 0; q < n_parts; q++) {
        for (uint32_t i = c->list[q]; i < c->list[q + 1]; i++) {
            c->costs[i] = begins ? 1 : costs[q]->cost[ids[i] - to->part.first[q]];
        }
    }
}

/* Positions and costs of up to FEW in-neighbours. */
struct some {
    uint32_t positions[FEW];
    float costs[FEW];
};

SL_INLINE uint32_t find_some(const struct sl_candidates *c, const struct sl_neighbours *from, uint32_t first,
                             struct some *out)
{
    const uint32_t n = sl_min_u32(from->degree - first, FEW);
    for (uint32_t i = 0; i < n; i++) {
        out->positions[i] = position_of(c, from->ids[first + i]);
        out->costs[i] = c->costs[out->positions[i]];
    }
    return n;
}

/* The terms of a step (sl_importance_step). In-neighbour i is added in lane i mod LANES. */
struct terms {
    double sum[LANES], whole[LANES];
    uint32_t n_whole;
};

/* weights NULL: all are 1. */
SL_INLINE void add_terms(uint32_t n, const float *costs, const float *weights, double bound, struct terms *terms)
{
    for (uint32_t first = 0; first < n; first += LANES) {
        const uint32_t end = sl_min_u32(n - first, LANES);
        for (uint32_t l = 0; l < end; l++) {
            const double w = weights != NULL ? weights[first + l] : 1;
            const double cost = costs[first + l];
            terms->sum[l] += w > 0 && cost > bound ? w * w * cost : 0;
            terms->whole[l] += cost <= bound ? w * w : 0;
            terms->n_whole += w > 0 && cost <= bound;
        }
    }
}

/* The sum of all lanes, in the order of sl_warp_sum. */
SL_INLINE double sum_lanes(double *sum)
{
    for (uint32_t distance = LANES / 2; distance > 0; distance /= 2) {
        for (uint32_t l = 0; l < distance; l++) {
            sum[l] += sum[l + distance];
        }
    }
    return sum[0];
}

/* The sums of a list's weights and of their squares, in the lanes of a warp. */
struct weight_sums {
    double sum, squares;
};

SL_INLINE struct weight_sums sum_weights(uint32_t degree, const float *weights)
{
    double sum[LANES] = {0};
    double squares[LANES] = {0};
    for (uint32_t first = 0; first < degree; first += LANES) {
        const uint32_t end = sl_min_u32(degree - first, LANES);
        for (uint32_t l = 0; l < end; l++) {
            const double w = weights[first + l];
            sum[l] += w;
            squares[l] += w * w;
        }
    }
    return (struct weight_sums){sum_lanes(sum), sum_lanes(squares)};
}

/* The bound of a destination with more than k in-neighbours. weights: NULL, or one is positive. some: keeps the costs
 * of a list of up to FEW. */
SL_INLINE float solve_one(const struct sl_candidates *c, const struct sl_neighbours *from, const float *weights,
                          double target, float bound, struct some *some)
{
    double x = bound;
    uint32_t n_last = UINT32_MAX;
    for (int step = 0; step < MOST_STEPS; step++) {
        struct terms terms = {{0}, {0}, 0};
        for (uint32_t first = 0; first < from->degree; first += FEW) {
            const bool known = from->degree <= FEW && step > 0;
            const uint32_t n = known ? from->degree : find_some(c, from, first, some);
            add_terms(n, some->costs, weights != NULL ? weights + first : NULL, x, &terms);
        }
        x = sl_importance_step(target, sum_lanes(terms.whole), sum_lanes(terms.sum));
        if (terms.n_whole == n_last) {
            break;
        }
        n_last = terms.n_whole;
    }
    return (float)x;
}

/* Bits of positive floats have their order. */
SL_INLINE void raise_to(uint32_t *entry, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    *entry = sl_max_u32(*entry, bits);
}

/* The largest bounds of the list's candidates. some: NULL, or the positions. */
SL_INLINE void raise_most(const struct sl_candidates *c, const struct sl_neighbours *from, const float *weights,
                          const struct sl_solve_rule *rule, float bound, const struct some *some, uint32_t *most)
{
    for (uint32_t i = 0; i < from->degree; i++) {
        float value = bound;
        if (weights != NULL) {
            const float asked = sl_importance_asked(from->degree, rule->fanout, bound, weights[i]);
            value = rule->begins || asked == 0 ? asked : bound;
        }
        if (value > 0) {
            raise_to(most + (some != NULL ? some->positions[i] : position_of(c, from->ids[i])), value);
        }
    }
}

/* The bound of one list. most NULL: not wanted. */
SL_INLINE void solve_list(const struct sl_destinations *to, const struct sl_solve_rule *rule,
                          const struct sl_candidates *c, const struct sl_neighbours *from, float *bound, uint32_t *most)
{
    const uint32_t k = rule->fanout;
    const bool weighted = rule->weighted;
    const float *weights = weighted ? to->part.weights + from->first : NULL;
    const struct weight_sums sums = weighted ? sum_weights(from->degree, weights) : (struct weight_sums){1, 1};
    const bool solves = !rule->begins && from->degree > k && sums.sum > 0;
    struct some some;
    if (solves) {
        const double target = weighted ? sl_importance_weighted_target(from->degree, k, sums.sum, sums.squares)
                                       : sl_importance_target(from->degree, k);
        *bound = solve_one(c, from, weights, target, *bound, &some);
    } else if (rule->begins && weighted) {
        *bound = sl_importance_bound(from->degree, k, sums.sum);
    } else {
        *bound = rule->begins && from->degree > k ? (float)((double)k / from->degree) : 1;
    }
    if (most != NULL) {
        raise_most(c, from, weights, rule, *bound, solves && from->degree <= FEW ? &some : NULL, most);
    }
}

/* The bounds of all destinations. */
SL_INLINE void solve_rows(const struct sl_destinations *to, const struct sl_solve_rule *rule,
                          const struct sl_candidates *c, bool weighted, uint32_t *most)
{
    struct sl_solve_rule own = *rule;
    own.weighted = weighted; /* known to the compiler */
    for (uint32_t d = 0; d < *to->n_rows; d++) {
        const struct sl_neighbours list = sl_neighbours_of(&to->part, to->frontier[d]);
        for (struct sl_edge_run run = {0}; sl_next_run(&to->part, &list, &run);) {
            const struct sl_neighbours from = sl_neighbours_in(&list, &run);
            if (to->part.fanouts != NULL) {
                own.fanout = to->part.fanouts[run.relation];
            }
            solve_list(to, &own, c, &from, to->bounds + sl_bound_place(&to->part, d, from.first), most);
        }
    }
}

SL_CLONES static void solve_all(const struct sl_destinations *to, const struct sl_solve_rule *rule,
                                const struct sl_candidates *c, uint32_t *most)
{
    if (rule->weighted) {
        solve_rows(to, rule, c, true, most);
    } else {
        solve_rows(to, rule, c, false, most);
    }
}

void sl_solve_cpu(const struct sl_destinations *to, const struct sl_solve_rule *rule,
                  const struct sl_costs *const *costs, const struct sl_candidates *c, uint32_t *most_out)
{
    const uint32_t n_parts = to->part.n_parts;
    uint64_t before = 0;
    uint64_t now = 0;
    if (rule->weighted && rule->begins && most_out == NULL) {
        *to->state = SL_SOLVE_ENDED;
        solve_all(to, rule, c, NULL);
        return;
    }
    for (uint32_t q = 0; q < n_parts && !rule->begins; q++) {
        before += costs[q]->before;
        now += costs[q]->now;
    }
    *to->state = sl_solve_next(*to->state, rule, before, now);
    const bool goes_on = *to->state == SL_SOLVE_GOES_ON;
    if (most_out != NULL) {
        memset(most_out, 0, ((size_t)n_parts + 1) * sizeof *most_out);
        if (goes_on) {
            memcpy(most_out, c->list, ((size_t)n_parts + 1) * sizeof *most_out);
            memset(sl_list_entries(most_out, n_parts), 0, c->list[n_parts] * sizeof *most_out);
        }
    }
    if (*to->state != SL_SOLVE_ENDED) {
        take_costs(to, rule->begins, costs, c);
        solve_all(to, rule, c, goes_on && most_out != NULL ? sl_list_entries(most_out, n_parts) : NULL);
    }
}

/* ---- raise ---- */

/* The new cost of a vertex whose largest bound has these bits. */
static float raised(bool begins, float cost, uint32_t bits)
{
    float most;
    memcpy(&most, &bits, sizeof most);
    return begins ? 1 / most : cost / most;
}

void sl_raise_cpu(const struct sl_raising *r, uint32_t *room, struct sl_costs *costs)
{
    uint64_t now = 0;
    uint64_t n = 0;
    for (uint32_t p = 0; p < r->n_lists; p++) {
        const uint32_t *ids = sl_list_of(r->list[p], r->n_parts, r->owner);
        const uint32_t *most = sl_list_of(r->most[p], r->n_parts, r->owner);
        for (uint32_t i = 0; i < sl_list_count(r->most[p], r->owner); i++) {
            room[ids[i] - r->first] = sl_max_u32(room[ids[i] - r->first], most[i]);
            n++;
        }
    }
    for (uint32_t p = 0; p < r->n_lists; p++) {
        const uint32_t *ids = sl_list_of(r->list[p], r->n_parts, r->owner);
        for (uint32_t i = 0; i < sl_list_count(r->most[p], r->owner); i++) {
            const uint32_t local = ids[i] - r->first;
            if (room[local] != 0) {
                costs->cost[local] = raised(r->begins, costs->cost[local], room[local]);
                now += sl_importance_share(costs->cost[local]);
                room[local] = 0;
            }
        }
    }
    if (r->begins || n > 0) {
        costs->before = r->begins ? 0 : costs->now;
        costs->now = now;
    }
}

/* ---- draw ---- */

/* The cost of an edge of this weight. c: NULL: costs are of weights. */
SL_INLINE float cost_of(const struct sl_candidates *c, bool weighted, sl_vertex id, float weight)
{
    if (c == NULL || (weighted && !(weight > 0))) {
        return sl_importance_cost(weight);
    }
    return c->costs[position_of(c, id)];
}

/* What a draw reads and writes. */
struct drawing {
    const struct sl_destinations *to;
    const struct sl_poisson_rule *rule;
    struct sl_labor_turn turn;
    const struct sl_candidates *c;
    const struct sl_sample_block *block;
};

/* Draw edges of destination d from a list: ids, raw weights, relations and rows, from edge e of the block on. Returns
 * the end of the edges, and the sum of their 1 / p. */
SL_INLINE uint32_t draw_list(const struct drawing *drawing, uint32_t d, const struct sl_neighbours *from, uint32_t e,
                             double *sum_out)
{
    const struct sl_poisson_rule *rule = drawing->rule;
    const struct sl_sample_block *block = drawing->block;
    const struct sl_sample_part *part = &drawing->to->part;
    const float bound = drawing->to->bounds[sl_bound_place(part, d, from->first)];
    const sl_vertex own = drawing->to->frontier[d];
    *sum_out = 0;
    for (uint32_t i = 0; i < from->degree; i++) {
        const sl_vertex id = from->ids[i];
        const float weight = part->weights != NULL ? part->weights[from->first + i] : 1;
        const float cost = cost_of(drawing->c, rule->weighted, id, weight);
        const bool drawn =
            rule->decided ? cost < INFINITY : sl_importance_drawn(&drawing->turn, part->dataset_ids[id], bound, cost);
        if (!drawn || (part->excluded.table != NULL && sl_is_excluded(&part->excluded, id, own))) {
            continue;
        }
        const double inverse = sl_importance_inverse(bound, cost);
        *sum_out += inverse;
        block->edge_weights[e] = (float)(weight * inverse);
        if (block->edge_relations != NULL) {
            block->edge_relations[e] = part->relations[from->first + i];
        }
        if (block->edge_rows != NULL) {
            block->edge_rows[e] = part->rows[from->first + i];
        }
        block->edge_sources[e++] = id;
    }
    return e;
}

SL_CLONES static uint32_t draw_all(const struct drawing *drawing, uint64_t *words)
{
    const struct sl_destinations *to = drawing->to;
    const struct sl_sample_block *block = drawing->block;
    uint32_t n_edges = 0;
    block->edge_offsets[0] = 0;
    for (uint32_t d = 0; d < *to->n_rows; d++) {
        const struct sl_neighbours list = sl_neighbours_of(&to->part, to->frontier[d]);
        for (struct sl_edge_run run = {0}; sl_next_relation(to->part.relations, &list, &run);) {
            const struct sl_neighbours from = sl_neighbours_in(&list, &run);
            double sum;
            const uint32_t end = draw_list(drawing, d, &from, n_edges, &sum);
            const double scale = (end - n_edges) / (drawing->rule->normalised ? sum : from.degree);
            for (; n_edges < end; n_edges++) {
                block->edge_weights[n_edges] = (float)(block->edge_weights[n_edges] * scale);
                sl_mark_cpu(words, block->edge_sources[n_edges]);
            }
        }
        block->edge_offsets[d + 1] = n_edges;
    }
    return n_edges;
}

void sl_poisson_cpu(const struct sl_destinations *to, const struct sl_poisson_rule *rule, const struct sl_draw *draw,
                    const struct sl_candidates *candidates, const struct sl_sample_marks *marks,
                    const struct sl_sample_sizes *sizes, const struct sl_sample_block *block)
{
    const struct drawing drawing = {.to = to,
                                    .rule = rule,
                                    .turn = sl_labor_turn(draw->seed, draw->step, draw->hop, &rule->sample),
                                    .c = rule->by_edge ? NULL : candidates,
                                    .block = block};
    const uint32_t n_edges = draw_all(&drawing, marks->words);
    sl_block_close_cpu(&to->part, *to->n_rows, n_edges, marks, sizes, block);
}

/* ---- operations ---- */

/* Candidates, solve and poisson. */
struct importance {
    struct sl_hop hop;
    struct sl_matrix candidates, list, bounds, most;
    struct sl_matrices costs;
    struct sl_solve_rule solve;
    struct sl_poisson_rule poisson;
};

struct sl_destinations sl_hop_destinations(const struct sl_hop *hop, void *bounds)
{
    struct sl_destinations to = {.part = sl_hop_part(hop),
                                 .max_rows = hop->frontier.n_rows,
                                 .n_rows = sl_hop_sizes(hop).n_rows,
                                 .frontier = hop->frontier.data,
                                 .state = bounds};
    if (to.state != NULL) {
        to.bounds = (float *)(void *)(to.state + 1);
    }
    return to;
}

struct sl_candidates sl_candidates_in(void *bytes, uint32_t n_vertices, uint32_t *list)
{
    const uint64_t n_words = ((uint64_t)n_vertices + 63) / 64;
    struct sl_candidates c = {.n_vertices = n_vertices, .words = bytes, .list = list};
    c.ranks = (uint32_t *)(void *)(c.words + n_words);
    c.costs = (float *)(void *)(c.ranks + n_words);
    return c;
}

static struct sl_destinations destinations_of(const struct importance *v)
{
    return sl_hop_destinations(&v->hop, v->bounds.data);
}

static struct sl_candidates candidates_of(const struct importance *v)
{
    return sl_candidates_in(v->candidates.data, v->hop.n_vertices, v->list.data);
}

static enum sl_status find_candidates(const void *view, const void *stream)
{
    const struct sl_destinations to = destinations_of(view);
    const struct sl_candidates candidates = candidates_of(view);
    return SL_RUN(stream, sl_candidates, &to, &candidates);
}

static enum sl_status solve(const void *view, const void *stream)
{
    const struct importance *v = view;
    const struct sl_destinations to = destinations_of(v);
    const struct sl_candidates candidates = candidates_of(v);
    return SL_RUN(stream, sl_solve, &to, &v->solve, (const struct sl_costs *const *)v->costs.data, &candidates,
                  v->most.data);
}

static enum sl_status poisson(const void *view, const void *stream)
{
    const struct importance *v = view;
    const struct sl_candidates candidates = candidates_of(v);
    const struct sl_sample_marks marks = sl_marks_in(v->hop.marks.data, v->hop.n_vertices, v->hop.max_fanout);
    const struct sl_sample_block block = sl_hop_block(&v->hop);
    const struct sl_sample_sizes sizes = sl_hop_sizes(&v->hop);
    struct sl_destinations to = destinations_of(v);
    to.max_rows = block.max_rows;
    return SL_RUN(stream, sl_poisson, &to, &v->poisson, &v->hop.draw, &candidates, &marks, &sizes, &block);
}

static struct sl_operation candidates_op = {
    SL_OPERATION(candidates_op, "sl_candidates", SL_STAGE_SAMPLE),
    SL_BODY(find_candidates, struct importance),
    .role = {SL_IMPORTANCE_ROLES(struct importance, STARPU_R, STARPU_W),
             {"list", STARPU_W, offsetof(struct importance, list), "?", SL_INTS_32}},
};

static struct sl_operation solve_op = {
    SL_OPERATION(solve_op, "sl_solve", SL_STAGE_SAMPLE),
    SL_BODY(solve, struct importance),
    .role = {SL_IMPORTANCE_ROLES(struct importance, STARPU_R, STARPU_RW),
             {"list", STARPU_R, offsetof(struct importance, list), "?", SL_INTS_32},
             {"bounds", STARPU_RW, offsetof(struct importance, bounds), "?", SL_INTS_32},
             {"most", STARPU_W | SL_OPTIONAL, offsetof(struct importance, most), "?", SL_INTS_32},
             {"costs", STARPU_R | SL_REPEATED, offsetof(struct importance, costs), "?", SL_INTS_8},
             {"weights", STARPU_R | SL_OPTIONAL, offsetof(struct importance, hop.weights), "?", SL_FLOATS},
             {"relations", STARPU_R | SL_OPTIONAL, offsetof(struct importance, hop.relations), "?", SL_INTS_16},
             {"fanouts", STARPU_R | SL_OPTIONAL, offsetof(struct importance, hop.fanouts), "?", SL_INTS_32}},
};

static struct sl_operation poisson_op = {
    SL_OPERATION(poisson_op, "sl_poisson", SL_STAGE_SAMPLE),
    SL_BODY(poisson, struct importance),
    .role = {SL_IMPORTANCE_ROLES(struct importance, STARPU_RW, STARPU_R),
             {"bounds", STARPU_R, offsetof(struct importance, bounds), "?", SL_INTS_32},
             {"dataset ids", STARPU_R, offsetof(struct importance, hop.dataset_ids), "?", SL_INTS_32},
             {"marks", STARPU_RW, offsetof(struct importance, hop.marks), "?", SL_INTS_8},
             SL_BLOCK_ROLES(struct importance),
             {"edge weights", STARPU_W, offsetof(struct importance, hop.edge_weights), "?", SL_FLOATS},
             {"back weights", STARPU_W | SL_OPTIONAL, offsetof(struct importance, hop.back_weights), "?", SL_FLOATS},
             SL_DRAWN_ROLES(struct importance)},
};

struct raise {
    struct sl_task_args head;
    struct sl_matrix costs, room;
    struct sl_matrices list, most;
    struct sl_raising raising;
};

static enum sl_status raise_costs(const void *view, const void *stream)
{
    const struct raise *v = view;
    struct sl_raising raising = v->raising;
    raising.list = (const uint32_t *const *)v->list.data;
    raising.most = (const uint32_t *const *)v->most.data;
    return SL_RUN(stream, sl_raise, &raising, v->room.data, v->costs.data);
}

static struct sl_operation raise_op = {
    SL_OPERATION(raise_op, "sl_raise", SL_STAGE_SAMPLE),
    SL_BODY(raise_costs, struct raise),
    .role = {{"costs", STARPU_RW, offsetof(struct raise, costs), "?", SL_INTS_8},
             {"room", STARPU_RW, offsetof(struct raise, room), "?", SL_INTS_32},
             {"list", STARPU_R | SL_REPEATED, offsetof(struct raise, list), "?", SL_INTS_32},
             {"most", STARPU_R | SL_REPEATED, offsetof(struct raise, most), "?", SL_INTS_32}},
};

/* ---- submissions ---- */

static struct importance view_of(const struct sl_task_args *head, uint64_t seed, const struct sl_part_handles *part,
                                 const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                                 const struct sl_importance_handles *own, const struct sl_block *block)
{
    struct importance v = {.hop = sl_hop_of(head, seed, part, frontier, marks, block),
                           .candidates = sl_matrix_of(own->candidates),
                           .list = sl_matrix_of(own->list),
                           .bounds = sl_matrix_of(own->bounds)};
    assert(v.list.n_rows > part->n_parts && v.bounds.n_rows > frontier->end - frontier->first);
    assert(part->fanouts == NULL || v.bounds.n_rows >= v.hop.sources.n_rows);
    assert(v.candidates.n_rows >= sl_candidates_bytes(own->n_vertices, v.list.n_rows - part->n_parts - 1));
    v.hop.n_vertices = own->n_vertices;
    v.hop.head.work = 32 * (uint64_t)v.list.n_rows;
    return v;
}

enum sl_status sl_candidates_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                    const struct sl_frontier_handles *frontier, const struct sl_importance_handles *own)
{
    struct importance v = view_of(head, 0, part, frontier, NULL, own, NULL);
    return sl_view_submit(&candidates_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_solve_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                               const struct sl_frontier_handles *frontier, const struct sl_solve_rule *rule, bool last,
                               const starpu_data_handle_t *costs, const struct sl_importance_handles *own)
{
    struct importance v = view_of(head, 0, part, frontier, NULL, own, NULL);
    v.solve = *rule;
    if (!last) {
        v.most = sl_matrix_of(own->most);
    }
    if (!rule->begins) {
        v.costs = (struct sl_matrices){.n = part->n_parts, .handles = costs};
    }
    if (!rule->weighted) {
        v.hop.weights = sl_matrix_of(NULL);
    }
    if (part->fanouts == NULL) {
        v.hop.relations = sl_matrix_of(NULL);
    }
    assert((last || v.most.n_rows >= v.list.n_rows) && (!rule->weighted || part->weights != NULL));
    return sl_view_submit(&solve_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_raise_submit(const struct sl_task_args *head, const struct sl_raising *raising,
                               const starpu_data_handle_t *list, const starpu_data_handle_t *most,
                               const struct sl_importance_handles *own)
{
    struct raise v = {.head = *head,
                      .costs = sl_matrix_of(own->costs),
                      .room = sl_matrix_of(own->room),
                      .list = {.n = raising->n_lists, .handles = list},
                      .most = {.n = raising->n_lists, .handles = most},
                      .raising = *raising};
    assert(raising->owner < raising->n_parts && v.room.n_rows >= raising->n_part);
    assert(v.costs.n_rows >= sl_costs_bytes(raising->n_part));
    v.head.work = 16 * (uint64_t)raising->n_part;
    return sl_view_submit(&raise_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_poisson_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                 const struct sl_poisson_rule *rule, uint64_t seed,
                                 const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                                 const struct sl_importance_handles *own, const struct sl_block *block)
{
    struct importance v = view_of(head, seed, part, frontier, marks, own, block);
    v.poisson = *rule;
    assert((block->edge_relations == NULL && part->fanouts == NULL) || part->relations != NULL);
    assert(marks->n_vertices == own->n_vertices && (!rule->weighted || part->weights != NULL));
    assert(v.hop.marks.n_rows >= sl_marks_bytes(marks->n_vertices, marks->max_fanout));
    return sl_view_submit(&poisson_op, &v, SL_PRIORITY_SAMPLE);
}
