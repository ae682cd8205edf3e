/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The plan: how a run's work is divided. A plan is made once, before the first task. Only a vertex budget changes it,
 * and only the seeds of a step, between epochs.
 *
 * A run has P PEs in P/G groups. PE p owns part p mod G of the graph and works together with the PEs of group p / G.
 * A run has one replica of the model, or with gossip one per group.
 *
 * With R ranks (tasks/ranks.h), PE p belongs to rank floor(p R / P). So a rank owns consecutive PEs. A group or a
 * replica may span several ranks.
 *
 * Full-graph training (runtime/pipe/epoch.h) has a PE for each graph chunk, in the order of the ways. A crew is a
 * set of ranks that compute the same consecutive stages. S stages give min(R, S) crews. Each crew has a group of PEs.
 * If R > S, the ranks of a crew share its ways. Otherwise a crew is one rank, and this rank has all ways. So the stages
 * of a rank are consecutive, and so are its ways.
 */
#ifndef SL_RUNTIME_PLAN_PLAN_H
#define SL_RUNTIME_PLAN_PLAN_H

#include "runtime/plan/settings.h"
#include "tasks/home.h"
#include "tasks/ranks.h"

struct sl_plan {
    uint32_t n_pes;    /* P */
    uint32_t n_parts;  /* G: parts of the graph, and PEs of a group */
    uint32_t n_groups; /* P / G */
    uint32_t n_replicas;
    uint32_t n_ranks;          /* R */
    uint32_t rank;             /* of this process */
    uint32_t first_pe, end_pe; /* this process owns PEs first_pe .. end_pe - 1 */
    /* full-graph training only: W, the ways; 0 with minibatches */
    uint32_t n_ways;
    /* full-graph training only: min(R, S) */
    uint32_t n_crews;
    /* full-graph training only: the crew that owns PE 0 of this plan. 0, except in a crew's own plan
     * (sl_plan_of_crew). */
    uint32_t first_crew;
    uint32_t n_layers;    /* L: hops of a minibatch (sl_settings_hops) */
    uint32_t first_hop;   /* the first hop that samples: 0, or 1 if seeds are links */
    uint32_t n_train;     /* vertices or links: seeds of an epoch, unless the last step is dropped */
    bool drop_last;       /* --drop-last */
    uint64_t batch;       /* seeds of a step: P B with minibatches, otherwise n_train */
    uint32_t n_per_epoch; /* steps of an epoch */
    uint64_t n_steps;     /* steps of the run */
    /* A vertex budget may change `batch` after an epoch (sl_plan_set_batch). Epochs from epoch0 on have this batch, and
     * the first of their steps is step0. No step of a later epoch is sampled before the epoch in hand is complete. */
    bool adapts;
    uint64_t epoch0, step0;
    /* whether seeds move around a ring of groups (sl_plan_share); otherwise every epoch has its own order */
    bool ring;
    /* the homes of the PEs of this process */
    struct sl_homes homes;
};

/* The number of replicas: 1 with all-reduce, one per group with gossip. settings: pes and group_size are decided. */
uint32_t sl_plan_replicas(const struct sl_settings *settings);

/* Make the plan of a run. StarPU is up. settings: pes (P >= R), group_size and epochs are decided. n_train: number of
 * training vertices, >= 1. */
struct sl_plan sl_plan_make(const struct sl_settings *settings, uint32_t n_train);

/* The plan of a pass over whole parts: one PE per part, one group, one replica, one rank. */
struct sl_plan sl_plan_of_parts(uint32_t n_parts);

/* The crew of a stage, and the crew of this rank. n_stages: S. */
static inline uint32_t sl_plan_crew_of_stage(const struct sl_plan *plan, uint32_t stage, uint32_t n_stages)
{
    return sl_spread(stage, n_stages, plan->n_crews);
}
static inline uint32_t sl_plan_crew(const struct sl_plan *plan)
{
    return sl_spread(plan->rank, plan->n_ranks, plan->n_crews);
}

/* Full-graph training: the plan of this rank's crew alone. It has one group, with PEs 0 .. K - 1 for the K graph
 * chunks. Ranks keep their numbers. */
struct sl_plan sl_plan_of_crew(const struct sl_plan *plan);

/* The size of the largest crew if R ranks compute S stages. */
uint32_t sl_plan_largest_crew(uint32_t n_ranks, uint32_t n_stages);

/* The part of PE p, equal to its number in the group; the group of PE p; PE number `peer` of the same group. */
static inline uint32_t sl_plan_part(const struct sl_plan *plan, uint32_t p)
{
    return p % plan->n_parts;
}
static inline uint32_t sl_plan_group(const struct sl_plan *plan, uint32_t p)
{
    return p / plan->n_parts;
}
static inline uint32_t sl_plan_peer(const struct sl_plan *plan, uint32_t p, uint32_t peer)
{
    return p - p % plan->n_parts + peer;
}

/* The number of PEs per replica; the replica of PE p; the first PE of a replica. */
static inline uint32_t sl_plan_replica_pes(const struct sl_plan *plan)
{
    return plan->n_pes / plan->n_replicas;
}
static inline uint32_t sl_plan_replica(const struct sl_plan *plan, uint32_t p)
{
    return p / sl_plan_replica_pes(plan);
}
static inline uint32_t sl_plan_first_of(const struct sl_plan *plan, uint32_t replica)
{
    return replica * sl_plan_replica_pes(plan);
}

/* Whether some crew has several ranks. Its ranks then share its ways. */
bool sl_plan_shares_ways(const struct sl_plan *plan);

/* The owner rank of PE p; whether this rank is the owner. */
uint32_t sl_plan_rank(const struct sl_plan *plan, uint32_t p);
static inline bool sl_plan_here(const struct sl_plan *plan, uint32_t p)
{
    return p >= plan->first_pe && p < plan->end_pe;
}
/* Whether PE p's group has a PE of this rank. */
static inline bool sl_plan_near(const struct sl_plan *plan, uint32_t p)
{
    const uint32_t first = sl_plan_peer(plan, p, 0);
    return first < plan->end_pe && first + plan->n_parts > plan->first_pe;
}
/* The first PE of a rank; P for rank R. In a crew's plan: 0 for earlier ranks, P for later ones. */
uint32_t sl_plan_first_pe(const struct sl_plan *plan, uint32_t rank);

/* Whether a PE of this rank owns part q. */
bool sl_plan_holds(const struct sl_plan *plan, uint32_t q);

/* The evaluating rank of part q, an owner of the part. Ascending in q. */
uint32_t sl_plan_scorer(const struct sl_plan *plan, uint32_t q);

/* The owner ranks of PEs first .. first + n - 1: begin .. end - 1. */
struct sl_rank_range {
    uint32_t begin, end;
};
static inline struct sl_rank_range sl_plan_ranks(const struct sl_plan *plan, uint32_t first, uint32_t n)
{
    return (struct sl_rank_range){sl_plan_rank(plan, first), sl_plan_rank(plan, first + n - 1) + 1};
}

/* The ranks of a crew. */
struct sl_rank_range sl_plan_crew_ranks(const struct sl_plan *plan, uint32_t crew);

/* The ranks training a replica, each on its own copy; whether this rank is among the ranks. */
static inline struct sl_rank_range sl_plan_trainers(const struct sl_plan *plan, uint32_t replica)
{
    return sl_plan_ranks(plan, sl_plan_first_of(plan, replica), sl_plan_replica_pes(plan));
}
static inline bool sl_plan_trains(const struct sl_plan *plan, uint32_t replica)
{
    struct sl_rank_range ranks = sl_plan_trainers(plan, replica);
    return plan->rank >= ranks.begin && plan->rank < ranks.end;
}

/* Whether ranks are decoupled: several ranks with several replicas. No step has an operation over all ranks, so a
 * late rank delays only its gossip partners. Losses and counts are exchanged at the end of the epoch. */
static inline bool sl_plan_decoupled(const struct sl_plan *plan)
{
    return plan->n_ranks > 1 && plan->n_replicas > 1;
}

/* A slice of an epoch's order of the training vertices: entries first .. first + n - 1. */
struct sl_seeds {
    uint64_t epoch;
    uint32_t first, n;
};

/* The epoch of a step, counted from 0; the number of the step in its epoch; the first step of an epoch. With a vertex
 * budget: of epochs from epoch0 on. */
static inline uint64_t sl_plan_epoch(const struct sl_plan *plan, uint64_t step)
{
    return plan->epoch0 + (step - plan->step0) / plan->n_per_epoch;
}
static inline uint32_t sl_plan_number(const struct sl_plan *plan, uint64_t step)
{
    return (uint32_t)((step - plan->step0) % plan->n_per_epoch);
}
static inline uint64_t sl_plan_first_step(const struct sl_plan *plan, uint64_t epoch)
{
    return plan->step0 + (epoch - plan->epoch0) * plan->n_per_epoch;
}

/* The end of the steps that may be sampled while `step` is trained. */
static inline uint64_t sl_plan_horizon(const struct sl_plan *plan, uint64_t step)
{
    return plan->adapts ? sl_plan_first_step(plan, sl_plan_epoch(plan, step) + 1) : plan->n_steps;
}

/* Give `batch` seeds to each step from `step` on, the first step of `epoch`, which is one of n_epochs of the run. */
void sl_plan_set_batch(struct sl_plan *plan, uint64_t epoch, uint64_t step, uint64_t batch, uint32_t n_epochs);

/* The slice that a step trains on. */
struct sl_seeds sl_plan_seeds(const struct sl_plan *plan, uint64_t step);

/* The share of this slice that group r trains on. On a ring all epochs use the first epoch's order, and after each
 * epoch every share moves to the next group: in epoch e, group r trains on the first share of group r - e (mod
 * groups). */
struct sl_seeds sl_plan_share(const struct sl_plan *plan, uint64_t step, uint32_t r);

#endif
