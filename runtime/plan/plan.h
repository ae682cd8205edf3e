/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Who does what in a run: decided once, before its first task, and never changed.
 *
 * P PEs in P/G groups; PE p holds part p mod G of the graph and cooperates with the PEs of group p / G. A run has one replica of the
 * model, or with gossip one for each group.
 *
 * With R ranks (codelets/ranks.h) PE p is rank floor(p R / P)'s, so that each has a block of them; groups and replicas may be of several.
 *
 * Full-graph training (runtime/pipe/epoch.h) has a PE for each chunk of the graph, one after the other as the ways have them, and a group
 * of these PEs for each crew: the ranks that share some neighbouring stages. There are min(R, S) crews. Where there are more ranks than
 * stages, those of a crew share its ways; else a crew is one rank, which has all ways. So a rank has stages and ways without a gap, and a
 * stage's ways are together where they fit.
 */
#ifndef SL_RUNTIME_PLAN_PLAN_H
#define SL_RUNTIME_PLAN_PLAN_H

#include "codelets/home.h"
#include "codelets/ranks.h"
#include "runtime/plan/settings.h"

struct sl_plan {
    uint32_t n_pes;    /* P */
    uint32_t n_parts;  /* G: parts of the graph, PEs of a group */
    uint32_t n_groups; /* P / G */
    uint32_t n_replicas;
    uint32_t n_ranks, rank;    /* R, and this process's */
    uint32_t first_pe, end_pe; /* of this process */
    uint32_t n_ways;           /* W of full-graph training, where the next two mean something; else 0 */
    uint32_t n_crews;          /* min(R, S) */
    uint32_t first_crew;       /* whose PEs these begin with: 0, but of a crew's own plan (sl_plan_of_crew) */
    uint32_t n_layers;         /* L: hops of a minibatch */
    uint32_t n_train;          /* seeds of an epoch */
    uint64_t batch;            /* seeds of a step: P B, or all */
    uint32_t n_per_epoch;      /* steps */
    uint64_t n_steps;          /* of the whole run */
    bool ring;                 /* seeds move on a ring; else every epoch has an order of its own */
    struct sl_homes homes;     /* where PEs live */
};

/* Replicas of the model: 1 with all-reduce, else one per group. pes and group_size are decided. */
uint32_t sl_plan_replicas(const struct sl_settings *settings);

/* The plan of a run, P >= R; pes, group_size and epochs are decided, StarPU is up. n_train: training vertices, >= 1. */
struct sl_plan sl_plan_make(const struct sl_settings *settings, uint32_t n_train);

/* The plan of a pass over whole parts: a PE for each, in one group with one replica, all of this process. */
struct sl_plan sl_plan_of_parts(uint32_t n_parts);

/* The crew of a stage of S, and that of a rank. */
static inline uint32_t sl_plan_crew_of_stage(const struct sl_plan *plan, uint32_t stage, uint32_t n_stages)
{
    return sl_spread(stage, n_stages, plan->n_crews);
}
static inline uint32_t sl_plan_crew(const struct sl_plan *plan)
{
    return sl_spread(plan->rank, plan->n_ranks, plan->n_crews);
}

/* Of full-graph training the PEs of this rank's crew alone, a group of chunks 0 .. K - 1; ranks keep their numbers. */
struct sl_plan sl_plan_of_crew(const struct sl_plan *plan);

/* The most ranks that are of one crew, R over S stages. */
uint32_t sl_plan_largest_crew(uint32_t n_ranks, uint32_t n_stages);

/* The part that PE p holds, which is its number in its group; the group; the PE that is number `peer` of p's group. */
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

/* PEs that train one replica; the replica that PE p trains; the first PE of a replica. */
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

/* Whether ranks of a crew, of one at the least, share its ways. */
bool sl_plan_shares_ways(const struct sl_plan *plan);

/* The rank that PE p is of; whether it is this one's. */
uint32_t sl_plan_rank(const struct sl_plan *plan, uint32_t p);
static inline bool sl_plan_here(const struct sl_plan *plan, uint32_t p)
{
    return p >= plan->first_pe && p < plan->end_pe;
}
/* The first PE of a rank; P after the last, and in a crew's plan after its last, 0 before its first. */
uint32_t sl_plan_first_pe(const struct sl_plan *plan, uint32_t rank);

/* Whether a PE of this rank holds part q. */
bool sl_plan_holds(const struct sl_plan *plan, uint32_t q);

/* The rank that evaluates part q: one that holds it. Ascends with q. */
uint32_t sl_plan_scorer(const struct sl_plan *plan, uint32_t q);

/* The ranks that PEs first .. first + n - 1 are of: begin .. end - 1, without a gap. */
struct sl_rank_range {
    uint32_t begin, end;
};
static inline struct sl_rank_range sl_plan_ranks(const struct sl_plan *plan, uint32_t first, uint32_t n)
{
    return (struct sl_rank_range){sl_plan_rank(plan, first), sl_plan_rank(plan, first + n - 1) + 1};
}

/* The ranks of a crew. */
struct sl_rank_range sl_plan_crew_ranks(const struct sl_plan *plan, uint32_t crew);

/* The ranks that train a replica, each on a copy of its own; whether this one does. */
static inline struct sl_rank_range sl_plan_trainers(const struct sl_plan *plan, uint32_t replica)
{
    return sl_plan_ranks(plan, sl_plan_first_of(plan, replica), sl_plan_replica_pes(plan));
}
static inline bool sl_plan_trains(const struct sl_plan *plan, uint32_t replica)
{
    struct sl_rank_range ranks = sl_plan_trainers(plan, replica);
    return plan->rank >= ranks.begin && plan->rank < ranks.end;
}

/* Several ranks, and replicas that mix: in a step nothing goes to all ranks, so that one which is late holds up those alone that mix
 * with it. What all are to know of the steps they are told at the epoch's end. */
static inline bool sl_plan_decoupled(const struct sl_plan *plan)
{
    return plan->n_ranks > 1 && plan->n_replicas > 1;
}

/* The slice of an epoch's order that a step trains on. */
struct sl_seeds {
    uint64_t epoch;
    uint32_t first, n;
};
struct sl_seeds sl_plan_seeds(const struct sl_plan *plan, uint64_t step);

/* The share of that slice that group r trains on. On a ring the slices of the first epoch's order stay, and each share
 * moves to the next group after use: in epoch e group r has what group r - e began with. */
struct sl_seeds sl_plan_share(const struct sl_plan *plan, uint64_t step, uint32_t r);

#endif
