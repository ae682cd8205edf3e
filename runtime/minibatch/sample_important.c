/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The tasks of a hop that is sampled by importance, in the order of codelets/sampling/importance.h or ladies.h. */
#include "runtime/minibatch/steps.h"

#include "codelets/sampling/ladies.h"
#include "support/minmax.h"

/* Send each PE's list, its candidates or their largest bounds, to the ranks that train its replica. Layers of sources
 * are drawn by group: then to the ranks of its group. All hops use the same handles, so messages have hop 0. */
static enum sl_status send_lists(struct sl_steps *s, uint64_t step, enum sl_topic topic, const struct sl_slot *slot)
{
    struct sl_shared list = {.topic = topic, .of_slot = true};
    struct sl_task_args head = sl_step_head(s, step, s->plan->first_pe, 0);
    for (list.from = 0; list.from < s->plan->n_pes; list.from++) {
        const struct sl_importance_handles *own = &slot->pe[list.from].importance;
        list.handle = topic == SL_TOPIC_CANDIDATES ? own->list : own->most;
        list.to = sl_plan_trainers(s->plan, sl_plan_replica(s->plan, list.from));
        if (sl_settings_by_layers(s->settings)) {
            list.to = sl_plan_ranks(s->plan, sl_plan_peer(s->plan, list.from, 0), s->plan->n_parts);
        }
        SL_CHECK(sl_transport_share(s->transport, &head, &list));
    }
    return SL_OK;
}

/* Each PE solves for the bounds of its destinations. */
static enum sl_status solve(struct sl_steps *s, uint64_t step, uint32_t hop, uint32_t round, bool last,
                            struct sl_slot *slot)
{
    const struct sl_solve_rule rule = {.fanout = s->hop[hop].rule.fanout,
                                       .begins = round == 0,
                                       .checks = round > 1 && s->settings->labor_iterations == SL_LABOR_CONVERGE,
                                       .weighted = sl_settings_weighted_labor(s->settings)};
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_frontier_handles frontier = sl_step_frontier(s, slot, p);
        struct sl_task_args head = sl_step_head(s, step, p, hop);
        struct sl_part_handles part = sl_step_shard(s, p)->graph;
        starpu_data_handle_t costs[SL_MAX_GROUP];
        part.fanouts = s->hop[hop].fanouts;
        for (uint32_t peer = 0; peer < s->plan->n_parts; peer++) {
            costs[peer] = slot->pe[sl_plan_peer(s->plan, p, peer)].importance.costs;
        }
        SL_CHECK(sl_solve_submit(&head, &part, &frontier, &rule, last, costs, &slot->pe[p].importance));
    }
    return SL_OK;
}

/* The costs of all owners in the groups of this rank, from the lists of all PEs that train the same replica. So groups
 * change no figure. Each rank of a group computes the same costs, which need not travel. */
static enum sl_status raise(struct sl_steps *s, uint64_t step, uint32_t hop, uint32_t round, struct sl_slot *slot)
{
    const uint32_t n_parts = s->plan->n_parts;
    for (uint32_t p = 0; p < s->plan->n_pes; p++) {
        const uint32_t begin = sl_plan_first_of(s->plan, sl_plan_replica(s->plan, p));
        if (!sl_plan_near(s->plan, p)) {
            continue;
        }
        const struct sl_shard *part = sl_step_shard(s, p);
        const struct sl_raising raising = {.n_lists = sl_plan_replica_pes(s->plan),
                                           .n_parts = n_parts,
                                           .owner = sl_plan_part(s->plan, p),
                                           .first = part->first,
                                           .n_part = part->end - part->first,
                                           .begins = round == 0};
        const bool here = sl_plan_here(s->plan, p);
        struct sl_task_args head = sl_step_head(s, step, here ? p : s->plan->first_pe, hop);
        const starpu_data_handle_t *list = slot->lists + begin;
        SL_CHECK(sl_raise_submit(&head, &raising, list, list + s->plan->n_pes, &slot->pe[p].importance));
    }
    return SL_OK;
}

/* Draw the edges and close the blocks. */
static enum sl_status draw(struct sl_steps *s, uint64_t step, uint32_t hop, uint32_t n_rounds, struct sl_slot *slot)
{
    const bool weighted = sl_settings_weighted_labor(s->settings);
    const struct sl_poisson_rule rule = {.sample = s->hop[hop].rule,
                                         .normalised = sl_step_normalises(s, hop) && !weighted,
                                         .weighted = weighted,
                                         .by_edge = weighted && n_rounds == 0,
                                         .decided = sl_settings_by_layers(s->settings)};
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_frontier_handles frontier = sl_step_frontier(s, slot, p);
        struct sl_marks_handles marks = sl_step_marks(s, slot, p);
        struct sl_part_handles part = sl_step_shard(s, p)->graph;
        struct sl_task_args head = sl_step_head(s, step, p, hop);
        part.fanouts = s->hop[hop].fanouts;
        part.excluded = slot->excluded;
        if (!s->shards->weighs_edges) {
            part.weights = NULL;
        }
        SL_CHECK(sl_poisson_submit(&head, &part, &rule, s->settings->seed, &frontier, &marks, &slot->pe[p].importance,
                                   &slot->pe[p].block[hop]));
    }
    return SL_OK;
}

/* ---- layers of sources ---- */

/* The pools of all owners in the groups of this rank, and then the level of each group. Each rank of a group computes
 * the same. */
static enum sl_status find_levels(struct sl_steps *s, uint64_t step, uint32_t hop, const struct sl_ladies_rule *rule,
                                  struct sl_slot *slot)
{
    const uint32_t n_parts = s->plan->n_parts;
    starpu_data_handle_t pools[SL_MAX_GROUP];
    for (uint32_t p = 0; p < s->plan->n_pes; p++) {
        const uint32_t first = sl_plan_peer(s->plan, p, 0);
        const struct sl_shard *part = sl_step_shard(s, p);
        const struct sl_raising raising = {.n_lists = n_parts,
                                           .n_parts = n_parts,
                                           .owner = sl_plan_part(s->plan, p),
                                           .first = part->first,
                                           .n_part = part->end - part->first};
        const starpu_data_handle_t *list = slot->lists + first;
        struct sl_task_args head = sl_step_head(s, step, sl_plan_here(s->plan, p) ? p : s->plan->first_pe, hop);
        if (!sl_plan_near(s->plan, p)) {
            continue;
        }
        SL_CHECK(sl_ladies_pool_submit(&head, &raising, part->graph.dataset_ids, rule, list, list + s->plan->n_pes,
                                       &slot->pe[p].importance));
        pools[raising.owner] = slot->pe[p].importance.room;
        if (raising.owner + 1 == n_parts) {
            SL_CHECK(sl_ladies_level_submit(&head, rule, n_parts, pools, slot->pe[first].importance.level));
        }
    }
    return SL_OK;
}

/* The PEs of a group draw a layer of sources for their destinations. */
static enum sl_status draw_layer(struct sl_steps *s, uint64_t step, uint32_t hop, struct sl_slot *slot)
{
    const struct sl_ladies_rule rule = {.sample = s->hop[hop].rule,
                                        .seed = s->settings->seed,
                                        .size = s->settings->layer_size[s->plan->n_layers - 1 - hop],
                                        .poisson = s->settings->sampler == SL_SAMPLER_PLADIES,
                                        .weighted = sl_settings_weighted_labor(s->settings)};
    struct sl_task_args head;
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_frontier_handles frontier = sl_step_frontier(s, slot, p);
        head = sl_step_head(s, step, p, hop);
        SL_CHECK(
            sl_ladies_shares_submit(&head, &sl_step_shard(s, p)->graph, &frontier, &rule, &slot->pe[p].importance));
    }
    SL_CHECK(send_lists(s, step, SL_TOPIC_BOUNDS, slot));
    SL_CHECK(find_levels(s, step, hop, &rule, slot));
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_frontier_handles frontier = sl_step_frontier(s, slot, p);
        const struct sl_slot_pe *peers = &slot->pe[sl_plan_peer(s->plan, p, 0)];
        starpu_data_handle_t pools[SL_MAX_GROUP];
        for (uint32_t q = 0; q < s->plan->n_parts; q++) {
            pools[q] = peers[q].importance.room;
        }
        head = sl_step_head(s, step, p, hop);
        SL_CHECK(sl_ladies_take_submit(&head, &sl_step_shard(s, p)->graph, &frontier, &rule, pools,
                                       peers->importance.level, &slot->pe[p].importance));
    }
    return draw(s, step, hop, 1, slot);
}

enum sl_status sl_step_sample_important(struct sl_steps *s, uint64_t step, uint32_t hop, struct sl_slot *slot)
{
    const bool whole = s->hop[hop].rule.method == SL_SAMPLE_FULL;
    const uint32_t n_rounds = whole ? 0 : sl_min_u32(s->settings->labor_iterations, SL_IMPORTANCE_ROUNDS);
    const bool by_layers = sl_settings_by_layers(s->settings);
    if (sl_settings_weighted_labor(s->settings) && n_rounds == 0 && !by_layers) {
        SL_CHECK(solve(s, step, hop, 0, true, slot));
        return draw(s, step, hop, n_rounds, slot);
    }
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_frontier_handles frontier = sl_step_frontier(s, slot, p);
        struct sl_task_args head = sl_step_head(s, step, p, hop);
        SL_CHECK(sl_candidates_submit(&head, &sl_step_shard(s, p)->graph, &frontier, &slot->pe[p].importance));
    }
    SL_CHECK(send_lists(s, step, SL_TOPIC_CANDIDATES, slot));
    if (by_layers) {
        return draw_layer(s, step, hop, slot);
    }
    for (uint32_t round = 0; round < n_rounds; round++) {
        SL_CHECK(solve(s, step, hop, round, false, slot));
        SL_CHECK(send_lists(s, step, SL_TOPIC_BOUNDS, slot));
        SL_CHECK(raise(s, step, hop, round, slot));
    }
    SL_CHECK(solve(s, step, hop, n_rounds, true, slot));
    return draw(s, step, hop, n_rounds, slot);
}
