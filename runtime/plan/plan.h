/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a step is made of: which seeds, how a hop is sampled, and whose part, peers, replica and slot a PE has. Answers about a
 * run's steps, which change nothing.
 */
#ifndef SL_RUNTIME_PLAN_H
#define SL_RUNTIME_PLAN_H

#include "runtime/minibatch/step.h"

/* The slice of an epoch's order that a step trains on. */
struct sl_seeds {
    uint64_t epoch;
    uint32_t first, n;
};
struct sl_seeds sl_step_seeds(const struct sl_steps *steps, uint64_t step);

/* Whether seeds move on a ring, or every epoch has an order of its own. */
static inline bool sl_step_ring(const struct sl_steps *steps)
{
    return steps->settings->gossip_ring && steps->n_groups > 1;
}

/* The share of that slice that group r trains on. On a ring the slices of the first epoch's order stay, and each share
 * moves to the next group after use: in epoch e group r has what group r - e began with. */
struct sl_seeds sl_step_share(const struct sl_steps *steps, uint64_t step, uint32_t r);

/* The head of a task's arguments. */
struct sl_task_args sl_step_head(const struct sl_steps *steps, uint64_t step, uint32_t pe, uint32_t hop);

/* How hop is sampled: hop 0, at the seeds, uses the last entry of --fanout. */
struct sl_sample_rule sl_step_rule(const struct sl_steps *steps, uint32_t hop);

/* The part PE p holds; its share of the step's slot; the PE that is number `peer` in p's group. */
static inline struct sl_shard *sl_step_shard(const struct sl_steps *steps, uint32_t p)
{
    return &steps->shards->part[p % steps->shards->n_parts];
}
static inline struct sl_slot_pe *sl_step_slot(const struct sl_steps *steps, uint64_t step, uint32_t p)
{
    return &steps->slot[step % steps->settings->depth].pe[p];
}
static inline uint32_t sl_step_peer(const struct sl_steps *steps, uint32_t p, uint32_t peer)
{
    return p - p % steps->shards->n_parts + peer;
}

/* The partial gradients of a parameter of layer i: the sum-th list (runtime/exchange/crossing.h) of a replica. */
static inline struct sl_partials *sl_step_partials(const struct sl_steps *steps, uint32_t i, uint32_t replica,
                                                   uint32_t sum, int parameter)
{
    uint32_t list = (i * steps->n_replicas + replica) * steps->crossing.n_sums + sum;
    return &steps->gradients[list * SL_N_PARAMETERS + (uint32_t)parameter];
}

/* The replica of the model that PE p trains. */
static inline uint32_t sl_step_replica(const struct sl_steps *steps, uint32_t p)
{
    return p / (steps->n_pes / steps->n_replicas);
}

#endif
