/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Arithmetic on P, G, R and the training vertices. */
#include "runtime/plan/plan.h"

#include "support/minmax.h"

uint32_t sl_plan_replicas(const struct sl_settings *settings)
{
    return settings->sync == SL_SYNC_ALLREDUCE ? 1 : settings->pes / settings->group_size;
}

/* The inverse of sl_spread: the smallest k with floor(k n_among / n) >= i. */
static uint32_t first_of(uint32_t i, uint32_t n, uint32_t n_among)
{
    return (uint32_t)(((uint64_t)i * n + n_among - 1) / n_among);
}

/* ---- crews ---- */

static uint32_t first_rank(const struct sl_plan *plan, uint32_t crew)
{
    return first_of(crew, plan->n_ranks, plan->n_crews);
}

static uint32_t crew_size(const struct sl_plan *plan, uint32_t crew)
{
    return first_rank(plan, crew + 1) - first_rank(plan, crew);
}

/* The rank of a crew's chunk q: ranks split the crew's ways evenly. */
static uint32_t rank_of_chunk(const struct sl_plan *plan, uint32_t crew, uint32_t q)
{
    uint32_t way = sl_spread(q, plan->n_parts, plan->n_ways);
    return first_rank(plan, crew) + sl_spread(way, plan->n_ways, crew_size(plan, crew));
}

/* The rank's first PE, counted over all crews. */
static uint32_t first_chunk(const struct sl_plan *plan, uint32_t rank)
{
    uint32_t crew = sl_spread(rank, plan->n_ranks, plan->n_crews);
    uint32_t way =
        rank == plan->n_ranks ? 0 : first_of(rank - first_rank(plan, crew), plan->n_ways, crew_size(plan, crew));
    return crew * plan->n_parts + way * (plan->n_parts / plan->n_ways);
}

static uint32_t clamp(uint32_t i, uint32_t begin, uint32_t n)
{
    uint32_t from = i < begin ? 0 : i - begin;
    return from < n ? from : n;
}

uint32_t sl_plan_largest_crew(uint32_t n_ranks, uint32_t n_stages)
{
    return (n_ranks + n_stages - 1) / n_stages;
}

struct sl_rank_range sl_plan_crew_ranks(const struct sl_plan *plan, uint32_t crew)
{
    return (struct sl_rank_range){first_rank(plan, crew), first_rank(plan, crew + 1)};
}

bool sl_plan_shares_ways(const struct sl_plan *plan)
{
    return plan->n_ranks > plan->n_crews;
}

struct sl_plan sl_plan_of_crew(const struct sl_plan *plan)
{
    struct sl_plan own = *plan;
    own.first_crew = sl_plan_crew(plan);
    own.n_groups = 1;
    own.n_pes = plan->n_parts;
    own.first_pe = sl_plan_first_pe(&own, plan->rank);
    own.end_pe = sl_plan_first_pe(&own, plan->rank + 1);
    return own;
}

/* ---- PEs and ranks ---- */

uint32_t sl_plan_rank(const struct sl_plan *plan, uint32_t p)
{
    if (plan->n_ways == 0) {
        return sl_spread(p, plan->n_pes, plan->n_ranks);
    }
    return rank_of_chunk(plan, plan->first_crew + p / plan->n_parts, p % plan->n_parts);
}

uint32_t sl_plan_first_pe(const struct sl_plan *plan, uint32_t rank)
{
    if (plan->n_ways == 0) {
        return first_of(rank, plan->n_pes, plan->n_ranks);
    }
    return clamp(first_chunk(plan, rank), plan->first_crew * plan->n_parts, plan->n_pes);
}

bool sl_plan_holds(const struct sl_plan *plan, uint32_t q)
{
    bool holds = false;
    for (uint32_t p = plan->first_pe; p < plan->end_pe; p++) {
        holds |= sl_plan_part(plan, p) == q;
    }
    return holds;
}

/* Every group owns all parts. The groups take turns, so no group evaluates all parts. */
uint32_t sl_plan_scorer(const struct sl_plan *plan, uint32_t q)
{
    return sl_plan_rank(plan, sl_spread(q, plan->n_parts, plan->n_groups) * plan->n_parts + q);
}

/* A group for each crew. The homes of this rank are for its pairs of stage and way. */
static void plan_crews(const struct sl_settings *settings, struct sl_plan *plan)
{
    uint32_t crew;
    plan->n_ways = settings->ways;
    plan->n_crews = sl_min_u32(plan->n_ranks, settings->stages);
    plan->n_groups = plan->n_crews;
    plan->n_pes = plan->n_groups * plan->n_parts;
    crew = sl_plan_crew(plan);
    plan->first_pe = sl_plan_first_pe(plan, plan->rank);
    plan->end_pe = sl_plan_first_pe(plan, plan->rank + 1);
    uint32_t n_of_way = plan->n_parts / plan->n_ways;
    uint32_t first = first_of(crew, settings->stages, plan->n_crews) * plan->n_ways +
                     (plan->first_pe - crew * plan->n_parts) / n_of_way;
    uint32_t end = (first_of(crew + 1, settings->stages, plan->n_crews) - 1) * plan->n_ways +
                   (plan->end_pe - crew * plan->n_parts) / n_of_way;
    sl_homes_find(end - first, &plan->homes);
    plan->homes.first_pe = first;
}

struct sl_plan sl_plan_make(const struct sl_settings *settings, uint32_t n_train)
{
    struct sl_plan plan = {.n_pes = settings->pes, .n_parts = settings->group_size, .n_train = n_train};
    const bool whole_graph = settings->schedule == SL_SCHEDULE_PIPE; /* an epoch is one step */
    plan.n_groups = plan.n_pes / plan.n_parts;
    plan.n_replicas = sl_plan_replicas(settings);
    plan.n_ranks = sl_n_ranks();
    plan.rank = sl_rank();
    plan.first_pe = sl_plan_first_pe(&plan, plan.rank);
    plan.end_pe = sl_plan_first_pe(&plan, plan.rank + 1);
    plan.n_layers = sl_settings_hops(settings);
    plan.first_hop = plan.n_layers - settings->layers;
    plan.drop_last = settings->drop_last && settings->epochs > 0;
    uint64_t batch = whole_graph ? n_train : (uint64_t)plan.n_pes * settings->batch_size;
    if (settings->vertex_budget > 0 && n_train > 0) { /* a step of all seeds is a whole one */
        batch = sl_min_u64(batch, n_train);
    }
    sl_plan_set_batch(&plan, 0, 0, batch, settings->epochs);
    plan.adapts = settings->vertex_budget > 0;
    plan.ring = settings->gossip_ring && plan.n_groups > 1;
    if (whole_graph) {
        plan_crews(settings, &plan);
    } else {
        sl_homes_find(plan.end_pe - plan.first_pe, &plan.homes);
        plan.homes.first_pe = plan.first_pe;
    }
    return plan;
}

struct sl_plan sl_plan_of_parts(uint32_t n_parts)
{
    return (struct sl_plan){.n_pes = n_parts,
                            .n_parts = n_parts,
                            .n_groups = 1,
                            .n_replicas = 1,
                            .n_ranks = 1,
                            .end_pe = n_parts,
                            .n_ways = 1,
                            .n_crews = 1};
}

void sl_plan_set_batch(struct sl_plan *plan, uint64_t epoch, uint64_t step, uint64_t batch, uint32_t n_epochs)
{
    plan->epoch0 = epoch;
    plan->step0 = step;
    plan->batch = batch;
    plan->n_per_epoch = 1; /* inference alone may have no training vertices, and then no epoch either */
    if (plan->n_train > 0) {
        plan->n_per_epoch = (uint32_t)((plan->n_train + (plan->drop_last ? 0 : batch - 1)) / batch);
    }
    plan->n_steps = n_epochs > epoch ? sl_plan_first_step(plan, n_epochs) : step;
}

struct sl_seeds sl_plan_seeds(const struct sl_plan *plan, uint64_t step)
{
    uint64_t first = sl_plan_number(plan, step) * plan->batch;
    uint64_t rest = plan->n_train - first;
    return (struct sl_seeds){sl_plan_epoch(plan, step), (uint32_t)first, (uint32_t)sl_min_u64(rest, plan->batch)};
}

struct sl_seeds sl_plan_share(const struct sl_plan *plan, uint64_t step, uint32_t r)
{
    struct sl_seeds all = sl_plan_seeds(plan, step);
    uint64_t share = plan->ring ? (r + plan->n_groups - all.epoch % plan->n_groups) % plan->n_groups : r;
    uint32_t begin = (uint32_t)(share * all.n / plan->n_groups);
    uint32_t end = (uint32_t)((share + 1) * all.n / plan->n_groups);
    return (struct sl_seeds){all.epoch, all.first + begin, end - begin};
}
