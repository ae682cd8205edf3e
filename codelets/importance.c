/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Candidates of a hop, their costs and bounds, and Poisson sampling. */
#include "codelets/importance.h"

#include <string.h>

#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/rows.h"

#define LANES SL_IMPORTANCE_LANES
#define FEW (32 * LANES) /* in-neighbours whose positions and costs are kept; those of longer lists are found anew */
#define MOST_STEPS 64

/* ---- candidates ---- */

struct neighbours {
    const sl_vertex *ids;
    uint32_t degree;
    uint64_t first; /* of the part's edges */
};

SL_INLINE struct neighbours neighbours_of(const struct sl_destinations *to, uint32_t d)
{
    const struct sl_sample_part *part = &to->part;
    const uint64_t *bounds = part->offsets + (to->frontier[d] - part->first[part->part]);
    const uint64_t first = bounds[0] - part->offsets[0];
    return (struct neighbours){part->sources + first, (uint32_t)(bounds[1] - bounds[0]), first};
}

SL_INLINE void mark(uint64_t *words, sl_vertex id)
{
    words[id / 64] |= UINT64_C(1) << id % 64;
}

/* Number of candidates with a smaller id. */
SL_INLINE uint32_t position_of(const struct sl_candidates *c, sl_vertex id)
{
    const uint64_t below = c->words[id / 64] & ((UINT64_C(1) << id % 64) - 1);
    return c->ranks[id / 64] + (uint32_t)__builtin_popcountll(below);
}

SL_CLONES void sl_candidates_cpu(const struct sl_destinations *to, const struct sl_candidates *c)
{
    const uint32_t n_words = (uint32_t)(((uint64_t)c->n_vertices + 63) / 64);
    const uint32_t n_parts = to->part.n_parts;
    uint32_t *ids = sl_list_entries(c->list, n_parts);
    uint32_t n = 0;
    memset(c->words, 0, n_words * sizeof *c->words);
    for (uint32_t d = 0; d < *to->n_rows; d++) {
        const struct neighbours from = neighbours_of(to, d);
        for (uint32_t i = 0; i < from.degree; i++) {
            mark(c->words, from.ids[i]);
        }
    }
    for (uint32_t w = 0; w < n_words; w++) {
        c->ranks[w] = n;
        for (uint64_t bits = c->words[w]; bits != 0; bits &= bits - 1) {
            ids[n++] = 64 * w + (uint32_t)__builtin_ctzll(bits);
        }
    }
    for (uint32_t q = 0; q <= n_parts; q++) {
        const uint32_t first = to->part.first[q];
        c->list[q] = first / 64 < n_words ? position_of(c, first) : n;
    }
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

SL_INLINE uint32_t find_some(const struct sl_candidates *c, const struct neighbours *from, uint32_t first,
                             struct some *out)
{
    const uint32_t n = sl_min_u32(from->degree - first, FEW);
    for (uint32_t i = 0; i < n; i++) {
        out->positions[i] = position_of(c, from->ids[first + i]);
        out->costs[i] = c->costs[out->positions[i]];
    }
    return n;
}

/* The sum of the costs above the bound, and the number of the others. In-neighbour i is added in lane i mod LANES. */
struct above {
    double sum[LANES];
    uint32_t n_whole;
};

SL_INLINE void add_above(uint32_t n, const float *costs, double bound, struct above *above)
{
    for (uint32_t first = 0; first < n; first += LANES) {
        const uint32_t end = sl_min_u32(n - first, LANES);
        for (uint32_t l = 0; l < end; l++) {
            const double cost = costs[first + l];
            above->sum[l] += cost > bound ? cost : 0;
            above->n_whole += cost <= bound;
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

/* The bound of a destination with more than k in-neighbours. some: of a list of up to FEW. */
SL_INLINE float solve_one(const struct sl_candidates *c, const struct neighbours *from, uint32_t k, float bound,
                          struct some *some)
{
    double x = bound;
    uint32_t n_last = UINT32_MAX;
    for (int step = 0; step < MOST_STEPS; step++) {
        struct above above = {{0}, 0};
        for (uint32_t first = 0; first < from->degree; first += FEW) {
            const bool known = from->degree <= FEW && step > 0;
            const uint32_t n = known ? from->degree : find_some(c, from, first, some);
            add_above(n, some->costs, x, &above);
        }
        x = sl_importance_step(from->degree, k, above.n_whole, sum_lanes(above.sum));
        if (above.n_whole == n_last) {
            break;
        }
        n_last = above.n_whole;
    }
    return (float)x;
}

/* The same with weights. */
struct weighed {
    double sum[LANES];   /* of squares times costs above the bound */
    double whole[LANES]; /* of the other squares */
    uint32_t n_whole;
};

SL_INLINE void add_weighed(uint32_t n, const float *costs, const float *weights, double bound, struct weighed *to)
{
    for (uint32_t first = 0; first < n; first += LANES) {
        const uint32_t end = sl_min_u32(n - first, LANES);
        for (uint32_t l = 0; l < end; l++) {
            const double w = weights[first + l];
            const double cost = costs[first + l];
            to->sum[l] += w > 0 && cost > bound ? w * w * cost : 0;
            to->whole[l] += cost <= bound ? w * w : 0;
            to->n_whole += w > 0 && cost <= bound;
        }
    }
}

/* The sum of the weights of a list, in the lanes of a warp. */
SL_INLINE double sum_weights(uint32_t degree, const float *weights)
{
    double sum[LANES] = {0};
    for (uint32_t first = 0; first < degree; first += LANES) {
        const uint32_t end = sl_min_u32(degree - first, LANES);
        for (uint32_t l = 0; l < end; l++) {
            sum[l] += (double)weights[first + l];
        }
    }
    return sum_lanes(sum);
}

/* The sum of the squares of a list's weights, in the lanes of a warp. */
SL_INLINE double sum_squares(uint32_t degree, const float *weights)
{
    double sum[LANES] = {0};
    for (uint32_t first = 0; first < degree; first += LANES) {
        const uint32_t end = sl_min_u32(degree - first, LANES);
        for (uint32_t l = 0; l < end; l++) {
            sum[l] += (double)weights[first + l] * (double)weights[first + l];
        }
    }
    return sum_lanes(sum);
}

/* The bound of a destination with more than k in-neighbours, of which one has a weight. */
SL_INLINE float solve_weighed(const struct sl_candidates *c, const struct neighbours *from, const float *weights,
                              uint32_t k, float bound, struct some *some)
{
    const double target =
        sl_importance_target(from->degree, k, sum_weights(from->degree, weights), sum_squares(from->degree, weights));
    double x = bound;
    uint32_t n_last = UINT32_MAX;
    for (int step = 0; step < MOST_STEPS; step++) {
        struct weighed all = {{0}, {0}, 0};
        for (uint32_t first = 0; first < from->degree; first += FEW) {
            const uint32_t n = find_some(c, from, first, some);
            add_weighed(n, some->costs, weights + first, x, &all);
        }
        x = sl_importance_weighted_step(target, sum_lanes(all.whole), sum_lanes(all.sum));
        if (all.n_whole == n_last) {
            break;
        }
        n_last = all.n_whole;
    }
    return (float)x;
}

SL_INLINE void raise_to(uint32_t *entry, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    *entry = sl_max_u32(*entry, bits);
}

/* Weighted LABOR-1 and further. */
SL_CLONES static void solve_all_weighed(const struct sl_destinations *to, const struct sl_solve_rule *rule,
                                        const struct sl_candidates *c, uint32_t *most)
{
    struct some some;
    for (uint32_t d = 0; d < *to->n_rows; d++) {
        const struct neighbours from = neighbours_of(to, d);
        const float *weights = to->part.weights + from.first;
        const double sum = sum_weights(from.degree, weights);
        float bound = 1;
        if (rule->begins) {
            bound = sl_importance_bound(from.degree, rule->fanout, sum);
        } else if (from.degree > rule->fanout && sum > 0) {
            bound = solve_weighed(c, &from, weights, rule->fanout, to->bounds[d], &some);
        }
        to->bounds[d] = bound;
        for (uint32_t i = 0; most != NULL && i < from.degree; i++) {
            const float asked = sl_importance_asked(from.degree, rule->fanout, bound, weights[i]);
            if (asked > 0) {
                raise_to(&most[position_of(c, from.ids[i])], rule->begins ? asked : bound);
            }
        }
    }
}

/* Bits of positive floats have their order. */
SL_INLINE void raise_most(const struct sl_candidates *c, const struct neighbours *from, float bound,
                          const struct some *some, uint32_t *most)
{
    uint32_t bits;
    memcpy(&bits, &bound, sizeof bits);
    for (uint32_t i = 0; i < from->degree; i++) {
        uint32_t *entry = most + (some != NULL ? some->positions[i] : position_of(c, from->ids[i]));
        *entry = sl_max_u32(*entry, bits);
    }
}

SL_CLONES static void weigh_all(const struct sl_destinations *to, uint32_t k)
{
    for (uint32_t d = 0; d < *to->n_rows; d++) {
        const struct neighbours from = neighbours_of(to, d);
        const double sum = sum_weights(from.degree, to->part.weights + from.first);
        to->bounds[d] = sl_importance_bound(from.degree, k, sum);
    }
    *to->state = SL_SOLVE_ENDED;
}

SL_CLONES static void solve_all(const struct sl_destinations *to, const struct sl_solve_rule *rule,
                                const struct sl_candidates *c, uint32_t *most)
{
    struct some some;
    for (uint32_t d = 0; d < *to->n_rows; d++) {
        const struct neighbours from = neighbours_of(to, d);
        const bool solves = from.degree > rule->fanout && !rule->begins;
        float bound = 1;
        if (solves) {
            bound = solve_one(c, &from, rule->fanout, to->bounds[d], &some);
        } else if (from.degree > rule->fanout) {
            bound = (float)((double)rule->fanout / from.degree);
        }
        to->bounds[d] = bound;
        if (most != NULL) {
            raise_most(c, &from, bound, solves && from.degree <= FEW ? &some : NULL, most);
        }
    }
}

void sl_solve_cpu(const struct sl_destinations *to, const struct sl_solve_rule *rule,
                  const struct sl_costs *const *costs, const struct sl_candidates *c, uint32_t *most_out)
{
    const uint32_t n_parts = to->part.n_parts;
    uint64_t before = 0;
    uint64_t now = 0;
    if (rule->weighted && rule->begins && most_out == NULL) {
        weigh_all(to, rule->fanout);
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
    }
    if (*to->state != SL_SOLVE_ENDED && rule->weighted) {
        solve_all_weighed(to, rule, c, goes_on && most_out != NULL ? sl_list_entries(most_out, n_parts) : NULL);
    } else if (*to->state != SL_SOLVE_ENDED) {
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

/* Draw the edges of destination d: ids, and their raw weights. Returns the number of edges, and the sum of their 1 /
 * p. */
SL_INLINE uint32_t draw_one(const struct sl_destinations *to, const struct sl_poisson_rule *rule,
                            const struct sl_labor_turn *turn, const struct sl_candidates *c, uint32_t d,
                            sl_vertex *edges_out, float *weights_out, double *sum_out)
{
    const struct neighbours list = neighbours_of(to, d);
    const struct neighbours *from = &list;
    const float *weights = to->part.weights != NULL ? to->part.weights + from->first : NULL;
    const struct sl_sample_part *part = &to->part;
    const float bound = to->bounds[d];
    uint32_t n = 0;
    *sum_out = 0;
    for (uint32_t i = 0; i < from->degree; i++) {
        const sl_vertex id = from->ids[i];
        const float weight = weights != NULL ? weights[i] : 1;
        const float cost = cost_of(c, rule->weighted, id, weight);
        if (!sl_importance_drawn(turn, part->dataset_ids[id], bound, cost) ||
            (part->excluded.table != NULL && sl_is_excluded(&part->excluded, id, to->frontier[d]))) {
            continue;
        }
        const double inverse = sl_importance_inverse(bound, cost);
        *sum_out += inverse;
        weights_out[n] = (float)(weight * inverse);
        edges_out[n++] = id;
    }
    return n;
}

SL_CLONES static uint32_t draw_all(const struct sl_destinations *to, const struct sl_poisson_rule *rule,
                                   const struct sl_labor_turn *turn, const struct sl_candidates *c, uint64_t *words,
                                   const struct sl_sample_block *block)
{
    uint32_t n_edges = 0;
    block->edge_offsets[0] = 0;
    for (uint32_t d = 0; d < *to->n_rows; d++) {
        const struct neighbours from = neighbours_of(to, d);
        sl_vertex *edges = block->edge_sources + n_edges;
        float *weights = block->edge_weights + n_edges;
        double sum;
        const uint32_t n = draw_one(to, rule, turn, c, d, edges, weights, &sum);
        const double scale = n / (rule->normalised ? sum : from.degree);
        for (uint32_t i = 0; i < n; i++) {
            weights[i] = (float)(weights[i] * scale);
            mark(words, edges[i]);
        }
        n_edges += n;
        block->edge_offsets[d + 1] = n_edges;
    }
    return n_edges;
}

uint32_t sl_poisson_cpu(const struct sl_destinations *to, const struct sl_poisson_rule *rule,
                        const struct sl_draw *draw, const struct sl_candidates *candidates,
                        const struct sl_sample_marks *marks, const struct sl_sample_block *block)
{
    const struct sl_labor_turn turn = sl_labor_turn(draw->seed, draw->step, draw->hop, &rule->sample);
    const uint32_t n_edges = draw_all(to, rule, &turn, rule->by_edge ? NULL : candidates, marks->words, block);
    sl_block_close_cpu(&to->part, *to->n_rows, n_edges, marks, block);
    return n_edges;
}

/* ---- arguments ---- */

struct importance_args {
    struct sl_task_args head;
    struct sl_solve_rule solve;
    struct sl_poisson_rule poisson;
    struct sl_draw draw;
    uint32_t n_hops;
    uint32_t n_parts, part;
    uint32_t n_vertices;
    uint32_t max_fanout;
    bool last;
    bool has_weights;
    uint32_t excluded; /* index of its buffer; 0: none */
    uint32_t weights;  /* of weighted LABOR, for solve: index of their buffer; 0: none */
};

struct raise_args {
    struct sl_task_args head;
    uint32_t n_lists;
    uint32_t n_parts, owner;
    uint32_t first, n_part;
    bool begins;
};

/* ---- implementations ---- */

/* The first buffers of candidates, solve and poisson. */
enum { OFFSETS, SOURCES, FIRST, FRONTIER, COUNTS, CANDIDATES, N_SHARED };
enum { LIST = N_SHARED, BOUNDS, MOST, COSTS, SOLVE_WEIGHTS };
enum {
    DRAW_BOUNDS = N_SHARED,
    DATASET_IDS,
    MARKS,
    EDGE_OFFSETS,
    EDGE_SOURCES,
    BACK_OFFSETS,
    BACK_ROWS,
    REQUEST,
    EDGE_WEIGHTS,
    BACK_WEIGHTS,
    WEIGHTS,
    EXCLUDED
};
enum { RAISE_COSTS, RAISE_ROOM, RAISE_LIST, RAISE_MOST };

/* bounds: the buffer, or NULL. */
static struct sl_destinations task_destinations(void *buffers[], const struct importance_args *args, void *bounds)
{
    struct sl_destinations to = {.part = {.offsets = sl_buffer_data(buffers[OFFSETS]),
                                          .sources = sl_buffer_data(buffers[SOURCES]),
                                          .first = sl_buffer_data(buffers[FIRST]),
                                          .n_parts = args->n_parts,
                                          .part = args->part},
                                 .max_rows = sl_buffer_columns(buffers[FRONTIER]),
                                 .n_rows =
                                     (const uint32_t *)sl_buffer_data(buffers[COUNTS]) + sl_counts_rows(args->head.hop),
                                 .frontier = sl_buffer_data(buffers[FRONTIER])};
    if (bounds != NULL) {
        to.state = sl_buffer_data(bounds);
        to.bounds = (float *)(void *)(to.state + 1);
    }
    if (args->weights > 0) {
        to.part.weights = sl_buffer_data(buffers[args->weights]);
    }
    return to;
}

/* list: the buffer, or NULL. */
static struct sl_candidates task_candidates(void *buffers[], const struct importance_args *args, void *list)
{
    const uint64_t n_words = ((uint64_t)args->n_vertices + 63) / 64;
    struct sl_candidates c = {.n_vertices = args->n_vertices, .words = sl_buffer_data(buffers[CANDIDATES])};
    c.ranks = (uint32_t *)(void *)(c.words + n_words);
    c.costs = (float *)(void *)(c.ranks + n_words);
    if (list != NULL) {
        c.list = sl_buffer_data(list);
    }
    return c;
}

/* The costs of all owners, and the list to write: NULL after the last solve. */
static uint32_t *task_owners(void *buffers[], const struct importance_args *args, const struct sl_costs *costs_out[])
{
    const uint32_t first = args->last ? MOST : COSTS;
    for (uint32_t q = 0; q < args->n_parts && !args->solve.begins; q++) {
        costs_out[q] = sl_buffer_data(buffers[first + q]);
    }
    return args->last ? NULL : sl_buffer_data(buffers[MOST]);
}

/* The caller frees *lists. */
static enum sl_status task_raising(void *buffers[], const struct raise_args *args, struct sl_raising *out,
                                   void ***lists)
{
    SL_CHECK(sl_buffers_data(buffers + RAISE_LIST, 2 * args->n_lists, lists));
    *out = (struct sl_raising){.n_lists = args->n_lists,
                               .n_parts = args->n_parts,
                               .owner = args->owner,
                               .first = args->first,
                               .n_part = args->n_part,
                               .begins = args->begins,
                               .list = (const uint32_t *const *)*lists,
                               .most = (const uint32_t *const *)*lists + args->n_lists};
    return SL_OK;
}

/* What a draw of either processor works on. */
struct drawing {
    struct sl_destinations to;
    struct sl_candidates candidates;
    struct sl_sample_marks marks;
    struct sl_sample_block block;
    uint32_t *counts;
};

static struct drawing task_drawing(void *buffers[], const struct importance_args *args)
{
    struct drawing drawing = {.to = task_destinations(buffers, args, buffers[DRAW_BOUNDS]),
                              .candidates = task_candidates(buffers, args, NULL),
                              .marks = sl_marks_in(sl_buffer_data(buffers[MARKS]), args->n_vertices, args->max_fanout),
                              .block = sl_block_in(buffers + EDGE_OFFSETS),
                              .counts = sl_buffer_data(buffers[COUNTS])};
    drawing.block.edge_weights = sl_buffer_data(buffers[EDGE_WEIGHTS]);
    drawing.block.back_weights = sl_buffer_data(buffers[BACK_WEIGHTS]);
    drawing.to.max_rows = drawing.block.max_rows;
    drawing.to.part.dataset_ids = sl_buffer_data(buffers[DATASET_IDS]);
    drawing.to.part.excluded = sl_excluded_in(buffers, args->excluded);
    if (args->has_weights) {
        drawing.to.part.weights = sl_buffer_data(buffers[WEIGHTS]);
    }
    return drawing;
}

static enum sl_status candidates_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct importance_args *args = cl_arg;
    const struct sl_destinations to = task_destinations(buffers, args, NULL);
    const struct sl_candidates candidates = task_candidates(buffers, args, buffers[LIST]);
    return SL_RUN(stream, sl_candidates, &to, &candidates);
}

static enum sl_status solve_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct importance_args *args = cl_arg;
    const struct sl_destinations to = task_destinations(buffers, args, buffers[BOUNDS]);
    const struct sl_candidates candidates = task_candidates(buffers, args, buffers[LIST]);
    const struct sl_costs *costs[SL_MAX_GROUP];
    uint32_t *most = task_owners(buffers, args, costs);
    return SL_RUN(stream, sl_solve, &to, &args->solve, costs, &candidates, most);
}

static enum sl_status raise_cpu_task(void *buffers[], const void *cl_arg)
{
    struct sl_raising raising;
    void **lists;
    SL_CHECK(task_raising(buffers, cl_arg, &raising, &lists));
    sl_raise_cpu(&raising, sl_buffer_data(buffers[RAISE_ROOM]), sl_buffer_data(buffers[RAISE_COSTS]));
    sl_free(lists);
    return SL_OK;
}

static enum sl_status poisson_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct importance_args *args = cl_arg;
    struct drawing drawing = task_drawing(buffers, args);
    const uint32_t n_edges =
        sl_poisson_cpu(&drawing.to, &args->poisson, &args->draw, &drawing.candidates, &drawing.marks, &drawing.block);
    sl_block_count(&drawing.block, n_edges, args->n_hops, args->n_parts, args->head.hop, drawing.counts);
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status raise_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    struct sl_raising raising;
    void **lists;
    enum sl_status st = task_raising(buffers, cl_arg, &raising, &lists);
    if (st == SL_OK) {
        st = sl_raise_cuda(stream, &raising, sl_buffer_data(buffers[RAISE_ROOM]), sl_buffer_data(buffers[RAISE_COSTS]));
        sl_free(lists);
    }
    return st;
}

static enum sl_status poisson_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct importance_args *args = cl_arg;
    const struct drawing drawing = task_drawing(buffers, args);
    return sl_poisson_cuda(stream, &drawing.to, &args->poisson, &args->draw, &drawing.candidates, &drawing.marks,
                           args->n_hops, drawing.counts, &drawing.block);
}
#endif

/* ---- operations ---- */

static struct sl_operation candidates_op = {
    SL_OPERATION(candidates_op, "sl_candidates", SL_STAGE_SAMPLE),
    SL_BOTH(candidates_task),
    .role = {{"offsets", STARPU_R},
             {"sources", STARPU_R},
             {"first", STARPU_R},
             {"frontier", STARPU_R},
             {"counts", STARPU_R},
             {"candidates", STARPU_W},
             {"list", STARPU_W}},
};

static struct sl_operation solve_op = {
    SL_OPERATION(solve_op, "sl_solve", SL_STAGE_SAMPLE),
    SL_BOTH(solve_task),
    .role = {{"offsets", STARPU_R},
             {"sources", STARPU_R},
             {"first", STARPU_R},
             {"frontier", STARPU_R},
             {"counts", STARPU_R},
             {"candidates", STARPU_RW},
             {"list", STARPU_R},
             {"bounds", STARPU_RW},
             {"most", STARPU_W | SL_OPTIONAL},
             {"costs", STARPU_R | SL_REPEATED},
             {"weights", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation raise_op = {
    SL_OPERATION(raise_op, "sl_raise", SL_STAGE_SAMPLE),
    .cpu = raise_cpu_task,
    SL_CUDA_FUNC(raise_cuda_task),
    .role = {{"costs", STARPU_RW},
             {"room", STARPU_RW},
             {"list", STARPU_R | SL_REPEATED},
             {"most", STARPU_R | SL_REPEATED}},
};

static struct sl_operation poisson_op = {
    SL_OPERATION(poisson_op, "sl_poisson", SL_STAGE_SAMPLE),
    .cpu = poisson_cpu_task,
    SL_CUDA_FUNC(poisson_cuda_task),
    .role = {{"offsets", STARPU_R},
             {"sources", STARPU_R},
             {"first", STARPU_R},
             {"frontier", STARPU_R},
             {"counts", STARPU_RW},
             {"candidates", STARPU_R},
             {"bounds", STARPU_R},
             {"dataset ids", STARPU_R},
             {"marks", STARPU_RW},
             {"edge offsets", STARPU_W},
             {"edge sources", STARPU_W},
             {"back offsets", STARPU_W},
             {"back rows", STARPU_W},
             {"request", STARPU_W},
             {"edge weights", STARPU_W},
             {"back weights", STARPU_W},
             {"weights", STARPU_R | SL_OPTIONAL},
             {"excluded", STARPU_R | SL_OPTIONAL}},
};

/* ---- submissions ---- */

/* Check the sizes, and fill what all tasks but raise have. */
static enum sl_status fill(const char *name, const struct sl_task_args *head, const struct sl_part_handles *part,
                           const struct sl_frontier_handles *frontier, const struct sl_importance_handles *own,
                           struct importance_args *args)
{
    const uint64_t room = starpu_vector_get_nx(own->list);
    if (part->n_parts > SL_MAX_GROUP || room <= part->n_parts || starpu_vector_get_nx(own->most) < room ||
        starpu_vector_get_nx(own->candidates) <
            sl_candidates_bytes(own->n_vertices, (uint32_t)room - part->n_parts - 1) ||
        starpu_vector_get_nx(own->bounds) <= frontier->end - frontier->first) {
        return sl_fail(SL_EINVAL,
                       "%s: %u parts (at most %d), a list of %llu entries, candidates of %u bytes, %u bounds", name,
                       part->n_parts, SL_MAX_GROUP, (unsigned long long)room, starpu_vector_get_nx(own->candidates),
                       starpu_vector_get_nx(own->bounds));
    }
    *args = (struct importance_args){.head = *head,
                                     .n_hops = frontier->n_hops,
                                     .n_parts = part->n_parts,
                                     .part = part->part,
                                     .n_vertices = own->n_vertices};
    args->head.work = 32 * room;
    return SL_OK;
}

static void begin(struct sl_task *task, struct sl_operation *operation, const struct sl_part_handles *part,
                  const struct sl_frontier_handles *frontier, enum starpu_data_access_mode counts)
{
    sl_task_begin(task, operation);
    sl_task_add(task, OFFSETS, part->offsets, STARPU_R);
    sl_task_add(task, SOURCES, part->sources, STARPU_R);
    sl_task_add(task, FIRST, part->first, STARPU_R);
    sl_task_add(task, FRONTIER, frontier->ids, STARPU_R);
    sl_task_add(task, COUNTS, frontier->counts, counts);
}

enum sl_status sl_candidates_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                    const struct sl_frontier_handles *frontier, const struct sl_importance_handles *own)
{
    struct importance_args args;
    struct sl_task task;
    SL_CHECK(fill("sl_candidates", head, part, frontier, own, &args));
    begin(&task, &candidates_op, part, frontier, STARPU_R);
    sl_task_add(&task, CANDIDATES, own->candidates, STARPU_W);
    sl_task_add(&task, LIST, own->list, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_solve_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                               const struct sl_frontier_handles *frontier, const struct sl_solve_rule *rule, bool last,
                               const starpu_data_handle_t *costs, const struct sl_importance_handles *own)
{
    struct importance_args args;
    struct sl_task task;
    SL_CHECK(fill("sl_solve", head, part, frontier, own, &args));
    SL_FAIL_IF(rule->weighted && part->weights == NULL, SL_EINVAL,
               "sl_solve: found no weights of the part's edges, expected some");
    args.solve = *rule;
    args.last = last;
    begin(&task, &solve_op, part, frontier, STARPU_R);
    sl_task_add(&task, CANDIDATES, own->candidates, STARPU_RW);
    sl_task_add(&task, LIST, own->list, STARPU_R);
    sl_task_add(&task, BOUNDS, own->bounds, STARPU_RW);
    if (!last) {
        sl_task_add(&task, MOST, own->most, STARPU_W);
    }
    if (!rule->begins) {
        sl_task_add_each(&task, COSTS, part->n_parts, costs, STARPU_R);
    }
    if (rule->weighted) {
        args.weights = task.n_buffers;
        sl_task_add(&task, SOLVE_WEIGHTS, part->weights, STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_raise_submit(const struct sl_task_args *head, const struct sl_raising *raising,
                               const starpu_data_handle_t *list, const starpu_data_handle_t *most,
                               const struct sl_importance_handles *own)
{
    struct raise_args args = {.head = *head,
                              .n_lists = raising->n_lists,
                              .n_parts = raising->n_parts,
                              .owner = raising->owner,
                              .first = raising->first,
                              .n_part = raising->n_part,
                              .begins = raising->begins};
    struct sl_task task;
    if (args.owner >= args.n_parts || starpu_vector_get_nx(own->costs) < sl_costs_bytes(args.n_part) ||
        starpu_vector_get_nx(own->room) < args.n_part) {
        return sl_fail(SL_EINVAL, "sl_raise: PE %u of %u, %u vertices, costs of %u bytes, room for %u", args.owner,
                       args.n_parts, args.n_part, starpu_vector_get_nx(own->costs), starpu_vector_get_nx(own->room));
    }
    args.head.work = 16 * (uint64_t)args.n_part;
    sl_task_begin(&task, &raise_op);
    sl_task_add(&task, RAISE_COSTS, own->costs, STARPU_RW);
    sl_task_add(&task, RAISE_ROOM, own->room, STARPU_RW);
    sl_task_add_each(&task, RAISE_LIST, args.n_lists, list, STARPU_R);
    sl_task_add_each(&task, RAISE_MOST, args.n_lists, most, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_poisson_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                 const struct sl_poisson_rule *rule, uint64_t seed,
                                 const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                                 const struct sl_importance_handles *own, const struct sl_block *block)
{
    struct importance_args args;
    struct sl_task task;
    SL_CHECK(fill("sl_poisson", head, part, frontier, own, &args));
    if (block->edge_weights == NULL || marks->n_vertices != own->n_vertices ||
        starpu_vector_get_nx(marks->bytes) < sl_marks_bytes(marks->n_vertices, marks->max_fanout)) {
        return sl_fail(SL_EINVAL, "sl_poisson: expected a block with edge weights, and marks of %u vertices, found %u",
                       own->n_vertices, marks->n_vertices);
    }
    SL_FAIL_IF(rule->weighted && part->weights == NULL, SL_EINVAL,
               "sl_poisson: found no weights of the part's edges, expected some");
    args.poisson = *rule;
    args.draw = (struct sl_draw){.seed = seed, .step = head->step, .purpose = SL_FOR_SAMPLING, .hop = head->hop};
    args.max_fanout = marks->max_fanout;
    args.has_weights = part->weights != NULL;
    begin(&task, &poisson_op, part, frontier, STARPU_RW);
    sl_task_add(&task, CANDIDATES, own->candidates, STARPU_R);
    sl_task_add(&task, DRAW_BOUNDS, own->bounds, STARPU_R);
    sl_task_add(&task, DATASET_IDS, part->dataset_ids, STARPU_R);
    sl_task_add(&task, MARKS, marks->bytes, STARPU_RW);
    sl_block_add(&task, EDGE_OFFSETS, block);
    sl_task_add(&task, EDGE_WEIGHTS, block->edge_weights, STARPU_W);
    sl_task_add(&task, BACK_WEIGHTS, block->back_weights, STARPU_W);
    sl_task_add_optional(&task, WEIGHTS, part->weights, STARPU_R);
    args.excluded = sl_task_add_optional(&task, EXCLUDED, part->excluded, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}
