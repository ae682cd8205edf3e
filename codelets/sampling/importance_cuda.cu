/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Candidates, bounds and Poisson sampling: one warp per destination. Maxima and counts are atomics on integers, so
 * their order is free. */
#include "codelets/sampling/marks.cuh"

#include "codelets/sampling/importance.h"

#define MOST_STEPS 64

static inline __device__ struct sl_neighbours neighbours_of(const struct sl_destinations &to, uint64_t d)
{
    return sl_neighbours_of(&to.part, to.frontier[d]);
}

static inline __device__ uint32_t position_of(const struct sl_candidates &c, sl_vertex id)
{
    return c.ranks[id / 64] + (uint32_t)__popcll(c.words[id / 64] & ((UINT64_C(1) << id % 64) - 1));
}

/* ---- candidates ---- */

static __global__ void mark_candidates(struct sl_destinations to, struct sl_candidates c)
{
    for (uint64_t d = sl_warp(); d < *to.n_rows; d += sl_n_warps()) {
        const struct sl_neighbours from = neighbours_of(to, d);
        for (uint32_t i = sl_lane(); i < from.degree; i += SL_WARP) {
            sl_mark(c.words, from.ids[i]);
        }
    }
}

static __global__ void place_owners(struct sl_destinations to, uint32_t n_words, struct sl_candidates c)
{
    for (uint64_t q = sl_thread(); q <= to.part.n_parts; q += sl_n_threads()) {
        c.list[q] = sl_rank_of(n_words, c.words, c.ranks, to.part.first[q]);
    }
}

enum sl_status sl_candidates_cuda(cudaStream_t stream, const struct sl_destinations *to, const struct sl_candidates *c)
{
    const char *name = "sl_candidates";
    const uint32_t n_words = sl_n_words(c->n_vertices);
    SL_CHECK(sl_cuda_status(cudaMemsetAsync(c->words, 0, n_words * sizeof *c->words, stream), name));
    SL_CHECK(sl_start(name, stream, sl_few_blocks((uint64_t)to->max_rows * SL_WARP), mark_candidates, *to, *c));
    SL_CHECK(sl_list_marked(name, stream, n_words, c->words, to->part.n_parts, c->ranks, c->list));
    return sl_start(name, stream, sl_blocks((uint64_t)to->part.n_parts + 1), place_owners, *to, n_words, *c);
}

/* ---- solve ---- */

/* The costs of owner q's candidates, unless the bounds are final. One thread adds the owner's shares to the totals. */
static __global__ void take_costs(struct sl_destinations to, struct sl_candidates c, uint32_t q, bool begins,
                                  const struct sl_costs *costs, uint64_t *totals)
{
    const uint32_t *ids = sl_list_entries(c.list, to.part.n_parts);
    if (!begins && sl_thread() == 0) {
        totals[0] += costs->before;
        totals[1] += costs->now;
    }
    if (!begins && *to.state != SL_SOLVE_GOES_ON) {
        return;
    }
    for (uint64_t i = c.list[q] + sl_thread(); i < c.list[q + 1]; i += sl_n_threads()) {
        c.costs[i] = begins ? 1 : costs->cost[ids[i] - to.part.first[q]];
    }
}

/* Write the state, and the positions of the list of largest bounds. most: NULL: not wanted. */
static __global__ void find_state(struct sl_destinations to, struct sl_candidates c, struct sl_solve_rule rule,
                                  const uint64_t *totals, uint32_t *most)
{
    const uint32_t state = sl_solve_next(*to.state, &rule, totals[0], totals[1]);
    __syncthreads();
    if (threadIdx.x == 0) {
        *to.state = state;
    }
    for (uint32_t q = threadIdx.x; most != nullptr && q <= to.part.n_parts; q += blockDim.x) {
        most[q] = state == SL_SOLVE_GOES_ON ? c.list[q] : 0;
    }
}

static __global__ void clear_most(struct sl_destinations to, uint32_t *most)
{
    uint32_t *entries = sl_list_entries(most, to.part.n_parts);
    for (uint64_t i = sl_thread(); i < most[to.part.n_parts]; i += sl_n_threads()) {
        entries[i] = 0;
    }
}

/* The bound of a destination with more than k in-neighbours, in all lanes. weights: NULL: all are 1. */
static inline __device__ float solve_one(const struct sl_candidates &c, const struct sl_neighbours &from,
                                         const float *weights, double target, float bound)
{
    double x = bound;
    uint32_t n_last = UINT32_MAX;
    for (int step = 0; step < MOST_STEPS; step++) {
        double sum = 0;
        double whole = 0;
        uint32_t n_whole = 0;
        for (uint32_t i = sl_lane(); i < from.degree; i += SL_WARP) {
            const double w = weights != nullptr ? weights[i] : 1;
            const double cost = c.costs[position_of(c, from.ids[i])];
            sum += w > 0 && cost > x ? w * w * cost : 0;
            whole += cost <= x ? w * w : 0;
            n_whole += w > 0 && cost <= x;
        }
        n_whole = sl_warp_sum(n_whole);
        x = sl_importance_step(target, sl_warp_sum(whole), sl_warp_sum(sum));
        if (n_whole == n_last) {
            break;
        }
        n_last = n_whole;
    }
    return (float)x;
}

/* The bound of a list after the bound `last`, in all lanes. k: its fanout. */
static inline __device__ float bound_of(const struct sl_candidates &c, const struct sl_solve_rule &rule, uint32_t k,
                                        const struct sl_neighbours &from, const float *weights, float last)
{
    double sum = 0;
    double squares = 0;
    if (weights == nullptr) {
        if (from.degree <= k) {
            return 1;
        }
        return rule.begins ? (float)((double)k / from.degree)
                           : solve_one(c, from, nullptr, sl_importance_target(from.degree, k), last);
    }
    for (uint32_t i = sl_lane(); i < from.degree; i += SL_WARP) {
        const double w = weights[i];
        sum += w;
        squares += w * w;
    }
    sum = sl_warp_sum(sum);
    squares = sl_warp_sum(squares);
    if (rule.begins) {
        return sl_importance_bound(from.degree, k, sum);
    }
    if (from.degree <= k || !(sum > 0)) {
        return 1;
    }
    return solve_one(c, from, weights, sl_importance_weighted_target(from.degree, k, sum, squares), last);
}

/* The largest bounds of the list's candidates. */
static inline __device__ void raise_most(const struct sl_candidates &c, bool begins, uint32_t k,
                                         const struct sl_neighbours &from, const float *weights, float bound,
                                         uint32_t *entries)
{
    for (uint32_t i = sl_lane(); i < from.degree; i += SL_WARP) {
        float value = bound;
        if (weights != nullptr) {
            const float asked = sl_importance_asked(from.degree, k, bound, weights[i]);
            value = begins || asked == 0 ? asked : bound;
        }
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (value > 0) {
            atomicMax(entries + position_of(c, from.ids[i]), bits);
        }
    }
}

/* alone: the first bounds are the last, and there are no candidates. */
static __global__ void solve(struct sl_destinations to, struct sl_candidates c, struct sl_solve_rule rule, bool alone,
                             uint32_t *most)
{
    if (!alone && *to.state == SL_SOLVE_ENDED) {
        return;
    }
    uint32_t *entries =
        most != nullptr && *to.state == SL_SOLVE_GOES_ON ? sl_list_entries(most, to.part.n_parts) : nullptr;
    for (uint64_t d = sl_warp(); d < *to.n_rows; d += sl_n_warps()) {
        const struct sl_neighbours list = neighbours_of(to, d);
        for (struct sl_edge_run run = {0, 0, 0}; sl_next_run(&to.part, &list, &run);) {
            const struct sl_neighbours from = sl_neighbours_in(&list, &run);
            const float *weights = rule.weighted ? to.part.weights + from.first : nullptr;
            const uint32_t k = to.part.fanouts == nullptr ? rule.fanout : to.part.fanouts[run.relation];
            float *place = to.bounds + sl_bound_place(&to.part, d, from.first);
            const float bound = bound_of(c, rule, k, from, weights, *place);
            __syncwarp();
            if (sl_lane() == 0) {
                *place = bound;
            }
            if (entries != nullptr) {
                raise_most(c, rule.begins, k, from, weights, bound, entries);
            }
        }
    }
    if (alone && sl_thread() == 0) {
        *to.state = SL_SOLVE_ENDED;
    }
}

enum sl_status sl_solve_cuda(cudaStream_t stream, const struct sl_destinations *to, const struct sl_solve_rule *rule,
                             const struct sl_costs *const *costs, const struct sl_candidates *c, uint32_t *most_out)
{
    const char *name = "sl_solve";
    const unsigned n_blocks = sl_few_blocks(c->n_vertices);
    const unsigned row_blocks = sl_few_blocks((uint64_t)to->max_rows * SL_WARP);
    sl_scratch totals(stream);
    if (rule->weighted && rule->begins && most_out == nullptr) {
        return sl_start(name, stream, row_blocks, solve, *to, *c, *rule, true, most_out);
    }
    SL_CHECK(totals.take(2 * sizeof(uint64_t), name));
    SL_CHECK(sl_cuda_status(cudaMemsetAsync(totals.as<uint64_t>(), 0, 2 * sizeof(uint64_t), stream), name));
    for (uint32_t q = 0; q < to->part.n_parts; q++) {
        SL_CHECK(sl_start(name, stream, n_blocks, take_costs, *to, *c, q, rule->begins,
                          rule->begins ? nullptr : costs[q], totals.as<uint64_t>()));
    }
    SL_CHECK(sl_start(name, stream, 1, find_state, *to, *c, *rule, totals.as<uint64_t>(), most_out));
    if (most_out != nullptr) {
        SL_CHECK(sl_start(name, stream, n_blocks, clear_most, *to, most_out));
    }
    return sl_start(name, stream, row_blocks, solve, *to, *c, *rule, false, most_out);
}

/* ---- raise ---- */

static __global__ void take_most(uint32_t n_parts, uint32_t owner, uint32_t first, const uint32_t *list,
                                 const uint32_t *most, uint32_t *room)
{
    const uint32_t *ids = sl_list_of(list, n_parts, owner);
    const uint32_t *bits = sl_list_of(most, n_parts, owner);
    for (uint64_t i = sl_thread(); i < sl_list_count(most, owner); i += sl_n_threads()) {
        atomicMax(room + (ids[i] - first), bits[i]);
    }
}

/* Move the sum of the last round back, before a round with entries of this PE adds to an empty one. moved: whether that
 * is done. */
static __global__ void begin_round(uint32_t owner, const uint32_t *most, bool begins, uint32_t *moved,
                                   struct sl_costs *costs)
{
    if (sl_thread() == 0 && *moved == 0 && (begins || sl_list_count(most, owner) > 0)) {
        costs->before = begins ? 0 : costs->now;
        costs->now = 0;
        *moved = 1;
    }
}

/* One of the threads with the same vertex finds its largest bound. */
static __global__ void raise_costs(uint32_t n_parts, uint32_t owner, uint32_t first, const uint32_t *list,
                                   const uint32_t *most, bool begins, uint32_t *room, struct sl_costs *costs)
{
    const uint32_t *ids = sl_list_of(list, n_parts, owner);
    for (uint64_t i = sl_thread(); i < sl_list_count(most, owner); i += sl_n_threads()) {
        const uint32_t local = ids[i] - first;
        const uint32_t bits = atomicExch(room + local, 0u);
        if (bits != 0) {
            float largest;
            memcpy(&largest, &bits, sizeof largest);
            costs->cost[local] = begins ? 1 / largest : costs->cost[local] / largest;
            atomicAdd((unsigned long long *)(void *)&costs->now,
                      (unsigned long long)sl_importance_share(costs->cost[local]));
        }
    }
}

enum sl_status sl_raise_cuda(cudaStream_t stream, const struct sl_raising *r, uint32_t *room, struct sl_costs *costs)
{
    const char *name = "sl_raise";
    const unsigned n_blocks = sl_few_blocks(r->n_part);
    sl_scratch moved(stream);
    SL_CHECK(moved.take(sizeof(uint32_t), name));
    SL_CHECK(sl_cuda_status(cudaMemsetAsync(moved.as<uint32_t>(), 0, sizeof(uint32_t), stream), name));
    for (uint32_t p = 0; p < r->n_lists; p++) {
        SL_CHECK(
            sl_start(name, stream, n_blocks, take_most, r->n_parts, r->owner, r->first, r->list[p], r->most[p], room));
        SL_CHECK(sl_start(name, stream, 1, begin_round, r->owner, r->most[p], r->begins, moved.as<uint32_t>(), costs));
    }
    for (uint32_t p = 0; p < r->n_lists; p++) {
        SL_CHECK(sl_start(name, stream, n_blocks, raise_costs, r->n_parts, r->owner, r->first, r->list[p], r->most[p],
                          r->begins, room, costs));
    }
    return SL_OK;
}

/* ---- draw ---- */

/* The candidates, if costs are theirs; how edges are drawn. */
struct costs_of {
    struct sl_candidates c;
    uint64_t weighted; /* true or false; a whole word, because tools check kernel arguments word by word */
    uint64_t decided;  /* the same: struct sl_poisson_rule */
};

/* The bound of a list of destination d: its edges of one relation. */
static inline __device__ float drawn_bound(const struct sl_destinations &to, uint64_t d,
                                           const struct sl_neighbours &from)
{
    return to.bounds[sl_bound_place(&to.part, d, from.first)];
}

/* The cost of in-neighbour i. */
static inline __device__ float cost_of(const struct sl_destinations &to, const struct costs_of &costs,
                                       const struct sl_neighbours &from, uint32_t i)
{
    const struct sl_candidates &c = costs.c;
    const float weight = costs.weighted ? to.part.weights[from.first + i] : 1;
    if (c.words == nullptr || !(weight > 0)) {
        return sl_importance_cost(weight);
    }
    return c.costs[position_of(c, from.ids[i])];
}

/* Whether in-neighbour i of destination d is sampled. */
static inline __device__ bool is_drawn(const struct sl_destinations &to, const struct sl_labor_turn &turn,
                                       const struct costs_of &c, uint64_t d, const struct sl_neighbours &from,
                                       uint32_t i)
{
    const sl_vertex id = from.ids[i];
    const float cost = cost_of(to, c, from, i);
    const bool drawn = c.decided ? cost < INFINITY
                                 : sl_importance_drawn(&turn, to.part.dataset_ids[id], drawn_bound(to, d, from), cost);
    return drawn && (to.part.excluded.table == nullptr || !sl_is_excluded(&to.part.excluded, id, to.frontier[d]));
}

/* Number of edges of each destination; 0 for entries past the last destination. */
static __global__ void count_drawn(struct sl_destinations to, struct sl_labor_turn turn, struct costs_of c,
                                   uint32_t *n_edges_out)
{
    for (uint64_t d = sl_warp(); d <= to.max_rows; d += sl_n_warps()) {
        uint32_t n = 0;
        const struct sl_neighbours list = d < *to.n_rows ? neighbours_of(to, d) : sl_neighbours{};
        for (struct sl_edge_run run = {0, 0, 0}; sl_next_run(&to.part, &list, &run);) {
            const struct sl_neighbours from = sl_neighbours_in(&list, &run);
            for (uint32_t i = sl_lane(); i < from.degree; i += SL_WARP) {
                n += is_drawn(to, turn, c, d, from, i);
            }
        }
        n = sl_warp_sum(n);
        if (sl_lane() == 0) {
            n_edges_out[d] = n;
        }
    }
}

/* Edge e of the block is in-neighbour i of a list. Its weight is not scaled yet. */
static inline __device__ void write_edge(const struct sl_sample_part &part, const struct sl_neighbours &from,
                                         uint32_t i, double inverse, const struct sl_sample_block &block, uint32_t e)
{
    const uint64_t edge = from.first + i;
    block.edge_sources[e] = from.ids[i];
    block.edge_weights[e] = (float)((part.weights != nullptr ? part.weights[edge] : 1) * inverse);
    if (block.edge_relations != nullptr) {
        block.edge_relations[e] = part.relations[edge];
    }
    if (block.edge_rows != nullptr) {
        block.edge_rows[e] = part.rows[edge];
    }
}

static __global__ void write_drawn(struct sl_destinations to, struct sl_labor_turn turn, struct costs_of c,
                                   struct sl_sample_block block)
{
    for (uint64_t d = sl_warp(); d < *to.n_rows; d += sl_n_warps()) {
        const struct sl_neighbours list = neighbours_of(to, d);
        uint32_t n = block.edge_offsets[d];
        for (struct sl_edge_run run = {0, 0, 0}; sl_next_run(&to.part, &list, &run);) {
            const struct sl_neighbours from = sl_neighbours_in(&list, &run);
            for (uint32_t base = 0; base < from.degree; base += SL_WARP) {
                const uint32_t i = base + sl_lane();
                const bool drawn = i < from.degree && is_drawn(to, turn, c, d, from, i);
                const unsigned flags = __ballot_sync(SL_ALL_LANES, drawn);
                if (drawn) {
                    const uint32_t e = n + (uint32_t)__popc(flags & ((1u << sl_lane()) - 1));
                    write_edge(to.part, from, i,
                               sl_importance_inverse(drawn_bound(to, d, from), cost_of(to, c, from, i)), block, e);
                }
                n += (uint32_t)__popc(flags);
            }
        }
    }
}

/* Scale the weights of a list's edges, from edge e on, up to `end` or the end of the relation. Returns their end. */
static inline __device__ uint32_t scale_list(const struct sl_candidates &c, bool normalised, float bound,
                                             const struct sl_neighbours &from, uint32_t relation,
                                             const struct sl_sample_block &block, uint32_t e, uint32_t end)
{
    const uint32_t begin = e;
    double sum = 0;
    for (; e < end && (block.edge_relations == nullptr || block.edge_relations[e] == relation); e++) {
        if (normalised) {
            sum += sl_importance_inverse(bound, c.costs[position_of(c, block.edge_sources[e])]);
        }
    }
    const double scale = (e - begin) / (normalised ? sum : from.degree);
    for (uint32_t i = begin; i < e; i++) {
        block.edge_weights[i] = (float)(block.edge_weights[i] * scale);
    }
    return e;
}

/* One thread per destination, so that the sum has the order of the edges. */
static __global__ void scale_drawn(struct sl_destinations to, struct sl_candidates c, bool normalised,
                                   struct sl_sample_block block)
{
    for (uint64_t d = sl_thread(); d < *to.n_rows; d += sl_n_threads()) {
        const struct sl_neighbours list = neighbours_of(to, d);
        uint32_t e = block.edge_offsets[d];
        for (struct sl_edge_run run = {0, 0, 0}; sl_next_relation(to.part.relations, &list, &run);) {
            const struct sl_neighbours from = sl_neighbours_in(&list, &run);
            e = scale_list(c, normalised, drawn_bound(to, d, from), from, run.relation, block, e,
                           block.edge_offsets[d + 1]);
        }
    }
}

enum sl_status sl_poisson_cuda(cudaStream_t stream, const struct sl_destinations *to,
                               const struct sl_poisson_rule *rule, const struct sl_draw *draw,
                               const struct sl_candidates *candidates, const struct sl_sample_marks *marks,
                               const struct sl_sample_sizes *sizes, const struct sl_sample_block *block)
{
    const char *name = "sl_poisson";
    const struct sl_labor_turn turn = sl_labor_turn(draw->seed, draw->step, draw->hop, &rule->sample);
    const unsigned n_blocks = sl_few_blocks(((uint64_t)to->max_rows + 1) * SL_WARP);
    const struct costs_of c = {rule->by_edge ? sl_candidates{} : *candidates, rule->weighted, rule->decided};
    uint32_t n_edges = 0;
    SL_CHECK(sl_start(name, stream, n_blocks, count_drawn, *to, turn, c, block->edge_offsets));
    SL_CHECK(sl_exclusive_sum(stream, to->max_rows + 1, block->edge_offsets));
    SL_CHECK(sl_read_size(name, stream, block->edge_offsets + to->max_rows, &n_edges));
    SL_CHECK(sl_start(name, stream, n_blocks, write_drawn, *to, turn, c, *block));
    SL_CHECK(sl_start(name, stream, sl_blocks(to->max_rows), scale_drawn, *to, c.c, rule->normalised, *block));
    return sl_block_close_cuda(stream, &to->part, to->max_rows, n_edges, marks, sizes, block);
}
