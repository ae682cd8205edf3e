/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What follows from P, G and the training vertices. */
#include "runtime/plan/plan.h"

uint32_t sl_plan_replicas(const struct sl_settings *settings)
{
    return settings->sync == SL_SYNC_ALLREDUCE ? 1 : settings->pes / settings->group_size;
}

uint32_t sl_plan_first_pe(const struct sl_plan *plan, uint32_t rank)
{
    return (uint32_t)(((uint64_t)rank * plan->n_pes + plan->n_ranks - 1) / plan->n_ranks);
}

bool sl_plan_holds(const struct sl_plan *plan, uint32_t q)
{
    bool holds = false;
    for (uint32_t p = plan->first_pe; p < plan->end_pe; p++) {
        holds |= sl_plan_part(plan, p) == q;
    }
    return holds;
}

/* Every group holds all parts: groups take turns, so that no group's ranks score all. */
uint32_t sl_plan_scorer(const struct sl_plan *plan, uint32_t q)
{
    return sl_plan_rank(plan, sl_spread(q, plan->n_parts, plan->n_groups) * plan->n_parts + q);
}

struct sl_plan sl_plan_make(const struct sl_settings *settings, uint32_t n_train)
{
    struct sl_plan plan = {.n_pes = settings->pes, .n_parts = settings->group_size, .n_train = n_train};
    plan.n_groups = plan.n_pes / plan.n_parts;
    plan.n_replicas = sl_plan_replicas(settings);
    plan.n_ranks = sl_n_ranks();
    plan.rank = sl_rank();
    plan.first_pe = sl_plan_first_pe(&plan, plan.rank);
    plan.end_pe = sl_plan_first_pe(&plan, plan.rank + 1);
    plan.n_layers = settings->layers;
    plan.batch = settings->schedule == SL_SCHEDULE_PIPE ? n_train : (uint64_t)plan.n_pes * settings->batch_size;
    plan.n_per_epoch = (uint32_t)((n_train + plan.batch - 1) / plan.batch);
    plan.n_steps = (uint64_t)settings->epochs * plan.n_per_epoch;
    plan.ring = settings->gossip_ring && plan.n_groups > 1;
    bool staged = settings->schedule == SL_SCHEDULE_PIPE && plan.n_ranks == 1; /* else a way is a PE, as a chunk is */
    sl_homes_find(staged ? settings->stages * settings->ways : plan.end_pe - plan.first_pe, &plan.homes);
    plan.homes.first_pe = plan.first_pe;
    return plan;
}

struct sl_plan sl_plan_of_parts(uint32_t n_parts)
{
    return (struct sl_plan){
        .n_pes = n_parts, .n_parts = n_parts, .n_groups = 1, .n_replicas = 1, .n_ranks = 1, .end_pe = n_parts};
}

struct sl_seeds sl_plan_seeds(const struct sl_plan *plan, uint64_t step)
{
    uint64_t first = step % plan->n_per_epoch * plan->batch;
    uint64_t rest = plan->n_train - first;
    return (struct sl_seeds){step / plan->n_per_epoch, (uint32_t)first,
                             (uint32_t)(rest < plan->batch ? rest : plan->batch)};
}

struct sl_seeds sl_plan_share(const struct sl_plan *plan, uint64_t step, uint32_t r)
{
    struct sl_seeds all = sl_plan_seeds(plan, step);
    uint64_t share = plan->ring ? (r + plan->n_groups - all.epoch % plan->n_groups) % plan->n_groups : r;
    uint32_t begin = (uint32_t)(share * all.n / plan->n_groups);
    uint32_t end = (uint32_t)((share + 1) * all.n / plan->n_groups);
    return (struct sl_seeds){all.epoch, all.first + begin, end - begin};
}
