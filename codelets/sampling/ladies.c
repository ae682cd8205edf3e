/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Layers of sources: shares, pools, the level, and the candidates' costs. */
#include "codelets/sampling/ladies.h"

#include "codelets/grid.h"

#define LANES SL_IMPORTANCE_LANES
#define MOST_STEPS 32 /* of pladies; few are needed, as each makes more sources whole */
#define N_BYTES 8     /* of a key */

/* ---- kernels: shares ---- */

/* Number of candidates with a smaller id. */
SL_DEVICE uint32_t position_of(const struct sl_candidates *c, sl_vertex id)
{
    return c->ranks[id / 64] + sl_ones(c->words[id / 64] & ((UINT64_C(1) << id % 64) - 1));
}

/* The first shares are at an even entry of the list. */
SL_DEVICE uint32_t first_share(uint32_t n_parts)
{
    return (n_parts + 1) % 2;
}

SL_DEVICE uint64_t *shares_in(uint32_t *list, uint32_t n_parts)
{
    return (uint64_t *)(void *)(sl_list_entries(list, n_parts) + first_share(n_parts));
}

/* The sum of a list's weights, in the lanes of a warp on both devices. */
SL_DEVICE double sum_weights(uint32_t degree, const float *weights)
{
    double sum[LANES / SL_WARP] = {0};
    for (uint32_t i = sl_lane(); i < degree; i += SL_WARP) {
        sum[i % LANES / SL_WARP] += (double)weights[i];
    }
    for (uint32_t distance = LANES / SL_WARP / 2; distance > 0; distance /= 2) {
        for (uint32_t l = 0; l < distance; l++) {
            sum[l] += sum[l + distance];
        }
    }
    return sl_warp_sum(sum[0]);
}

SL_KERNEL clear_shares(uint32_t n_parts, const uint32_t *list, uint32_t *shares)
{
    uint64_t *entries = shares_in(shares, n_parts);
    for (uint64_t q = sl_thread(); q <= n_parts; q += sl_n_threads()) {
        shares[q] = first_share(n_parts) + 2 * list[q];
    }
    for (uint64_t i = sl_thread(); i < list[n_parts]; i += sl_n_threads()) {
        entries[i] = 0;
    }
}

SL_KERNEL add_shares(struct sl_destinations to, struct sl_candidates c, uint64_t weighted, double unit,
                     uint32_t *shares)
{
    uint64_t *entries = shares_in(shares, to.part.n_parts);
    for (uint64_t d = sl_warp(); d < *to.n_rows; d += sl_n_warps()) {
        const struct sl_neighbours from = sl_neighbours_of(&to.part, to.frontier[d]);
        const float *weights = weighted ? to.part.weights + from.first : NULL;
        const double sum = weighted ? sum_weights(from.degree, weights) : from.degree;
        for (uint32_t i = sl_lane(); i < from.degree; i += SL_WARP) {
            const double w = weighted ? (double)weights[i] : 1;
            const uint64_t share = w > 0 ? sl_ladies_share(w / sum, unit) : 0;
            sl_add_shared(&entries[position_of(&c, from.ids[i])], share);
        }
    }
}

SL_LAUNCHER(sl_ladies_shares, const struct sl_destinations *to, const struct sl_candidates *candidates, bool weighted,
            uint32_t *shares_out)
{
    SL_CHECK(SL_LAUNCH("sl_ladies_shares", sl_few_blocks(candidates->n_vertices), clear_shares, to->part.n_parts,
                       candidates->list, shares_out));
    return SL_LAUNCH("sl_ladies_shares", sl_few_blocks((uint64_t)to->max_rows * SL_WARP), add_shares, *to, *candidates,
                     weighted, sl_ladies_unit(candidates->n_vertices), shares_out);
}

/* ---- kernels: pool ---- */

SL_KERNEL clear_pool(uint32_t n_part, struct sl_pool *pool)
{
    const uint32_t *ids = sl_pool_ids(pool, n_part);
    for (uint64_t i = sl_thread(); i < pool->n; i += sl_n_threads()) {
        pool->entry[ids[i]].share = 0;
    }
}

/* Add a PE's shares. Its candidates are distinct. A sum that is too large stays the largest. */
SL_KERNEL pool_shares(uint32_t n_parts, uint32_t owner, uint32_t first, uint32_t n_part, const uint32_t *list,
                      const uint32_t *shares, struct sl_pool *pool)
{
    uint32_t *pool_ids = sl_pool_ids(pool, n_part);
    const uint32_t *ids = sl_list_of(list, n_parts, owner);
    const uint64_t *more = (const uint64_t *)(const void *)sl_list_of(shares, n_parts, owner);
    for (uint64_t i = sl_thread(); i < sl_list_count(list, owner); i += sl_n_threads()) {
        const uint32_t local = ids[i] - first;
        uint64_t *share = &pool->entry[local].share;
        if (*share == 0 && more[i] > 0) {
            pool_ids[sl_next_shared(&pool->n)] = local;
        }
        *share = more[i] > UINT64_MAX - *share ? UINT64_MAX : *share + more[i];
    }
}

SL_KERNEL find_values(uint32_t first, uint32_t n_part, uint64_t poisson, struct sl_labor_turn turn,
                      const sl_vertex *dataset_ids, struct sl_pool *pool)
{
    const uint32_t *ids = sl_pool_ids(pool, n_part);
    for (uint64_t i = sl_thread(); i < pool->n; i += sl_n_threads()) {
        uint64_t value = pool->entry[ids[i]].share;
        if (!poisson) {
            const double key = sl_ladies_key(&turn, dataset_ids[first + ids[i]], value);
            memcpy(&value, &key, sizeof value);
        }
        pool->entry[i].value = value;
    }
}

SL_LAUNCHER(sl_ladies_pool, const struct sl_raising *from, const struct sl_ladies_rule *rule,
            const struct sl_labor_turn *turn, const sl_vertex *dataset_ids, struct sl_pool *pool)
{
    const uint64_t n_blocks = sl_few_blocks(from->n_part);
    SL_CHECK(SL_LAUNCH("sl_ladies_pool", n_blocks, clear_pool, from->n_part, pool));
    SL_CHECK(SL_CLEAR("sl_ladies_pool", &pool->n, sizeof pool->n));
    for (uint32_t p = 0; p < from->n_lists; p++) {
        SL_CHECK(SL_LAUNCH("sl_ladies_pool", n_blocks, pool_shares, from->n_parts, from->owner, from->first,
                           from->n_part, from->list[p], from->most[p], pool));
    }
    return SL_LAUNCH("sl_ladies_pool", n_blocks, find_values, from->first, from->n_part, rule->poisson, *turn,
                     dataset_ids, pool);
}

/* ---- kernels: level ---- */

struct pools {
    uint64_t n;
    const struct sl_pool *pool[SL_MAX_GROUP];
};

static struct pools pools_of(uint32_t n, const struct sl_pool *const *pool)
{
    struct pools pools = {n, {NULL}};
    for (uint32_t q = 0; q < n; q++) {
        pools.pool[q] = pool[q];
    }
    return pools;
}

/* All other members of the level are zero. */
SL_KERNEL begin_level(struct pools pools, uint64_t size, struct sl_level *level)
{
    uint64_t n = 0;
    for (uint64_t q = 0; q < pools.n && sl_thread() == 0; q++) {
        n += pools.pool[q]->n;
    }
    if (sl_thread() == 0) {
        level->ended = n <= size;
        level->level = n <= size ? INFINITY : 0;
        level->wanted = size;
        level->last = UINT64_MAX;
    }
}

/* Newton's method for c: the terms of a step. The sum of min(1, c pi) is concave, and linear between the sources. */
SL_KERNEL sum_pools(struct pools pools, struct sl_level *level)
{
    uint64_t whole = 0;
    uint64_t low = 0;
    uint64_t high = 0;
    for (uint64_t q = 0; q < pools.n && !level->ended; q++) {
        const struct sl_pool *pool = pools.pool[q];
        for (uint64_t i = sl_thread(); i < pool->n; i += sl_n_threads()) {
            const uint64_t share = pool->entry[i].value;
            const bool is_whole = (double)share * level->level >= 1;
            whole += is_whole;
            low += is_whole ? 0 : share & UINT32_MAX;
            high += is_whole ? 0 : share >> 32;
        }
    }
    whole = sl_warp_sum(whole);
    low = sl_warp_sum(low);
    high = sl_warp_sum(high);
    if (sl_lane() == 0) {
        sl_add_shared(&level->whole, whole);
        sl_add_shared(&level->low, low);
        sl_add_shared(&level->high, high);
    }
}

/* If a step leaves the number of whole sources as it was, c is exact. */
SL_KERNEL step_level(uint64_t size, struct sl_level *level)
{
    if (sl_thread() != 0 || level->ended) {
        return;
    }
    const double sum = (double)level->high * 0x1p32 + (double)level->low;
    level->ended = level->whole == level->last || level->whole >= size || !(sum > 0);
    if (!level->ended) {
        level->level = (double)(size - level->whole) / sum;
    }
    level->last = level->whole;
    level->whole = level->low = level->high = 0;
}

/* Count the keys that begin with the bytes found so far, by their next byte. */
SL_KERNEL count_keys(struct pools pools, uint64_t round, struct sl_level *level)
{
    const uint32_t shift = 8 * (N_BYTES - 1 - (uint32_t)round);
    for (uint64_t q = 0; q < pools.n && !level->ended; q++) {
        const struct sl_pool *pool = pools.pool[q];
        for (uint64_t i = sl_thread(); i < pool->n; i += sl_n_threads()) {
            const uint64_t key = pool->entry[i].value;
            if (round == 0 || key >> shift >> 8 == level->prefix) {
                sl_add_shared(&level->count[key >> shift & 255], 1);
            }
        }
    }
}

/* The next byte of the key that `wanted` keys precede. */
SL_KERNEL find_byte(uint64_t round, struct sl_level *level)
{
    if (sl_thread() != 0 || level->ended) {
        return;
    }
    uint64_t byte = 0;
    while (level->wanted >= level->count[byte]) {
        level->wanted -= level->count[byte++];
    }
    level->prefix = level->prefix << 8 | byte;
    for (uint32_t b = 0; b < 256; b++) {
        level->count[b] = 0;
    }
    if (round == N_BYTES - 1) {
        memcpy(&level->level, &level->prefix, sizeof level->level);
    }
}

SL_LAUNCHER(sl_ladies_level, const struct sl_ladies_rule *rule, uint32_t n_pools, uint32_t most,
            const struct sl_pool *const *pools, struct sl_level *level)
{
    const struct pools all = pools_of(n_pools, pools);
    const uint64_t n_blocks = sl_few_blocks(most);
    SL_CHECK(SL_CLEAR("sl_ladies_level", level, sizeof *level));
    SL_CHECK(SL_LAUNCH("sl_ladies_level", 1, begin_level, all, rule->size, level));
    for (uint64_t round = 0; round < (rule->poisson ? MOST_STEPS : N_BYTES); round++) {
        if (rule->poisson) {
            SL_CHECK(SL_LAUNCH("sl_ladies_level", n_blocks, sum_pools, all, level));
            SL_CHECK(SL_LAUNCH("sl_ladies_level", 1, step_level, rule->size, level));
        } else {
            SL_CHECK(SL_LAUNCH("sl_ladies_level", n_blocks, count_keys, all, round, level));
            SL_CHECK(SL_LAUNCH("sl_ladies_level", 1, find_byte, round, level));
        }
    }
    return SL_OK;
}

/* ---- kernels: take ---- */

SL_KERNEL take_costs(struct sl_destinations to, struct sl_candidates c, struct pools pools, uint64_t poisson,
                     struct sl_labor_turn turn, const struct sl_level *level)
{
    const uint32_t *ids = sl_list_entries(c.list, to.part.n_parts);
    for (uint64_t q = 0; q < pools.n; q++) {
        for (uint64_t i = c.list[q] + sl_thread(); i < c.list[q + 1]; i += sl_n_threads()) {
            const uint64_t share = pools.pool[q]->entry[ids[i] - to.part.first[q]].share;
            c.costs[i] = sl_ladies_cost(poisson, &turn, to.part.dataset_ids[ids[i]], share, level->level);
        }
    }
    for (uint64_t d = sl_thread(); d < *to.n_rows; d += sl_n_threads()) {
        to.bounds[d] = 1;
    }
}

SL_LAUNCHER(sl_ladies_take, const struct sl_destinations *to, const struct sl_candidates *candidates,
            const struct sl_ladies_rule *rule, const struct sl_labor_turn *turn, const struct sl_pool *const *pools,
            const struct sl_level *level)
{
    return SL_LAUNCH("sl_ladies_take", sl_few_blocks(candidates->n_vertices), take_costs, *to, *candidates,
                     pools_of(to->part.n_parts, pools), rule->poisson, *turn, level);
}

#ifndef SL_KERNELS_ONLY
#include <assert.h>

#include "support/minmax.h"
#include "tasks/rows.h"

/* ---- operations ---- */

/* Shares and take. */
struct ladies {
    struct sl_hop hop;
    struct sl_matrix candidates, list, bounds, shares, level;
    struct sl_matrices pools;
    struct sl_ladies_rule rule;
};

static struct sl_labor_turn turn_of(const struct sl_task_args *head, const struct sl_ladies_rule *rule)
{
    return sl_labor_turn(rule->seed, head->step, head->hop, &rule->sample);
}

static enum sl_status find_shares(const void *view, const void *stream)
{
    const struct ladies *v = view;
    const struct sl_destinations to = sl_hop_destinations(&v->hop, v->bounds.data);
    const struct sl_candidates candidates = sl_candidates_in(v->candidates.data, v->hop.n_vertices, v->list.data);
    return SL_CALL(stream, sl_ladies_shares, &to, &candidates, v->rule.weighted, v->shares.data);
}

static enum sl_status take(const void *view, const void *stream)
{
    const struct ladies *v = view;
    const struct sl_destinations to = sl_hop_destinations(&v->hop, v->bounds.data);
    const struct sl_candidates candidates = sl_candidates_in(v->candidates.data, v->hop.n_vertices, v->list.data);
    const struct sl_labor_turn turn = turn_of(&v->hop.head, &v->rule);
    return SL_CALL(stream, sl_ladies_take, &to, &candidates, &v->rule, &turn,
                   (const struct sl_pool *const *)v->pools.data, v->level.data);
}

static struct sl_operation shares_op = {
    SL_OPERATION(shares_op, "sl_ladies_shares", SL_STAGE_SAMPLE),
    SL_BODY(find_shares, struct ladies),
    .role = {SL_IMPORTANCE_ROLES(struct ladies, STARPU_R, STARPU_R),
             {"list", STARPU_R, offsetof(struct ladies, list), "?", SL_INTS_32},
             {"shares", STARPU_W, offsetof(struct ladies, shares), "?", SL_INTS_32},
             {"weights", STARPU_R | SL_OPTIONAL, offsetof(struct ladies, hop.weights), "?", SL_FLOATS}},
};

static struct sl_operation take_op = {
    SL_OPERATION(take_op, "sl_ladies_take", SL_STAGE_SAMPLE),
    SL_BODY(take, struct ladies),
    .role = {SL_IMPORTANCE_ROLES(struct ladies, STARPU_R, STARPU_RW),
             {"list", STARPU_R, offsetof(struct ladies, list), "?", SL_INTS_32},
             {"bounds", STARPU_W, offsetof(struct ladies, bounds), "?", SL_INTS_32},
             {"dataset ids", STARPU_R, offsetof(struct ladies, hop.dataset_ids), "?", SL_INTS_32},
             {"level", STARPU_R, offsetof(struct ladies, level), "?", SL_INTS_8},
             {"pools", STARPU_R | SL_REPEATED, offsetof(struct ladies, pools), "?", SL_INTS_64}},
};

struct pool {
    struct sl_task_args head;
    struct sl_matrix pool, dataset_ids;
    struct sl_matrices list, shares;
    struct sl_raising raising;
    struct sl_ladies_rule rule;
};

static enum sl_status fill_pool(const void *view, const void *stream)
{
    const struct pool *v = view;
    const struct sl_labor_turn turn = turn_of(&v->head, &v->rule);
    struct sl_raising from = v->raising;
    from.list = (const uint32_t *const *)v->list.data;
    from.most = (const uint32_t *const *)v->shares.data;
    return SL_CALL(stream, sl_ladies_pool, &from, &v->rule, &turn, v->dataset_ids.data, v->pool.data);
}

static struct sl_operation pool_op = {
    SL_OPERATION(pool_op, "sl_ladies_pool", SL_STAGE_SAMPLE),
    SL_BODY(fill_pool, struct pool),
    .role = {{"pool", STARPU_RW, offsetof(struct pool, pool), "?", SL_INTS_64},
             {"dataset ids", STARPU_R, offsetof(struct pool, dataset_ids), "?", SL_INTS_32},
             {"list", STARPU_R | SL_REPEATED, offsetof(struct pool, list), "?", SL_INTS_32},
             {"shares", STARPU_R | SL_REPEATED, offsetof(struct pool, shares), "?", SL_INTS_32}},
};

struct level {
    struct sl_task_args head;
    struct sl_matrix level;
    struct sl_matrices pools;
    struct sl_ladies_rule rule;
};

static enum sl_status find_level(const void *view, const void *stream)
{
    const struct level *v = view;
    uint32_t most = 0;
    for (uint32_t q = 0; q < v->pools.n; q++) {
        most = sl_max_u32(most, v->pools.n_rows[q] / 2);
    }
    return SL_CALL(stream, sl_ladies_level, &v->rule, v->pools.n, most, (const struct sl_pool *const *)v->pools.data,
                   v->level.data);
}

static struct sl_operation level_op = {
    SL_OPERATION(level_op, "sl_ladies_level", SL_STAGE_SAMPLE),
    SL_BODY(find_level, struct level),
    .role = {{"level", STARPU_W, offsetof(struct level, level), "?", SL_INTS_8},
             {"pools", STARPU_R | SL_REPEATED, offsetof(struct level, pools), "?", SL_INTS_64}},
};

/* ---- submissions ---- */

static struct ladies view_of(const struct sl_task_args *head, const struct sl_part_handles *part,
                             const struct sl_frontier_handles *frontier, const struct sl_ladies_rule *rule,
                             const struct sl_importance_handles *own)
{
    struct ladies v = {.hop = sl_hop_of(head, rule->seed, part, frontier, NULL, NULL),
                       .candidates = sl_matrix_of(own->candidates),
                       .list = sl_matrix_of(own->list),
                       .bounds = sl_matrix_of(own->bounds),
                       .rule = *rule};
    assert(rule->size > 0 && rule->sample.kappa == 1);
    v.hop.n_vertices = own->n_vertices;
    v.hop.head.work = 32 * (uint64_t)v.list.n_rows;
    return v;
}

enum sl_status sl_ladies_shares_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                       const struct sl_frontier_handles *frontier, const struct sl_ladies_rule *rule,
                                       const struct sl_importance_handles *own)
{
    struct ladies v = view_of(head, part, frontier, rule, own);
    v.shares = sl_matrix_of(own->most);
    if (!rule->weighted) {
        v.hop.weights = sl_matrix_of(NULL);
    }
    assert(v.shares.n_rows >= 2 * v.list.n_rows - part->n_parts - 1 && (!rule->weighted || part->weights != NULL));
    return sl_view_submit(&shares_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_ladies_pool_submit(const struct sl_task_args *head, const struct sl_raising *raising,
                                     starpu_data_handle_t dataset_ids, const struct sl_ladies_rule *rule,
                                     const starpu_data_handle_t *list, const starpu_data_handle_t *most,
                                     const struct sl_importance_handles *own)
{
    struct pool v = {.head = *head,
                     .pool = sl_matrix_of(own->room),
                     .dataset_ids = sl_matrix_of(dataset_ids),
                     .list = {.n = raising->n_lists, .handles = list},
                     .shares = {.n = raising->n_lists, .handles = most},
                     .raising = *raising,
                     .rule = *rule};
    assert(raising->owner < raising->n_parts && v.pool.n_rows >= sl_pool_words(raising->n_part));
    v.head.work = 32 * (uint64_t)raising->n_part;
    return sl_view_submit(&pool_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_ladies_level_submit(const struct sl_task_args *head, const struct sl_ladies_rule *rule,
                                      uint32_t n_parts, const starpu_data_handle_t *pools, starpu_data_handle_t level)
{
    struct level v = {
        .head = *head, .level = sl_matrix_of(level), .pools = {.n = n_parts, .handles = pools}, .rule = *rule};
    assert(v.level.n_rows == sizeof(struct sl_level) && n_parts <= SL_MAX_GROUP);
    return sl_view_submit(&level_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_ladies_take_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                     const struct sl_frontier_handles *frontier, const struct sl_ladies_rule *rule,
                                     const starpu_data_handle_t *pools, starpu_data_handle_t level,
                                     const struct sl_importance_handles *own)
{
    struct ladies v = view_of(head, part, frontier, rule, own);
    v.level = sl_matrix_of(level);
    v.pools = (struct sl_matrices){.n = part->n_parts, .handles = pools};
    return sl_view_submit(&take_op, &v, SL_PRIORITY_SAMPLE);
}
#endif
