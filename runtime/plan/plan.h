/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Who does what in a run: decided once, before its first task, and never changed.
 *
 * P PEs in P/G groups; PE p holds part p mod G of the graph and cooperates with the PEs of group p / G. A run has one replica of the
 * model, or with gossip one for each group. Full-graph training has a PE for each chunk of the graph here, in one group; they live where
 * their stage and way does.
 */
#ifndef SL_RUNTIME_PLAN_PLAN_H
#define SL_RUNTIME_PLAN_PLAN_H

#include "codelets/home.h"
#include "runtime/plan/settings.h"

struct sl_plan {
    uint32_t n_pes;    /* P */
    uint32_t n_parts;  /* G: parts of the graph, PEs of a group */
    uint32_t n_groups; /* P / G */
    uint32_t n_replicas;
    uint32_t first_pe, end_pe; /* of this process: all of them */
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

/* The plan of a run; pes, group_size and epochs are decided, StarPU is up. n_train: training vertices, >= 1. */
struct sl_plan sl_plan_make(const struct sl_settings *settings, uint32_t n_train);

/* The plan of a pass over whole parts: a PE for each, in one group with one replica. */
struct sl_plan sl_plan_of_parts(uint32_t n_parts);

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
