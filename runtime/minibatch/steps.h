/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the minibatches of a run share: the ring of slots, rows and partial gradients, and the step in hand.
 *
 * Level l of a PE is its frontier S_p^l: level 0 the seeds, level L the input rows; layer i of the model takes level L - i to level
 * L - i - 1, hop l joins level l + 1 to level l.
 */
#ifndef SL_RUNTIME_MINIBATCH_STEPS_H
#define SL_RUNTIME_MINIBATCH_STEPS_H

#include "codelets/sample.h"
#include "runtime/exchange/transport.h"
#include "runtime/model/pass.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/schedule.h"
#include "runtime/store/feature_cache.h"
#include "runtime/store/slot.h"
#include "runtime/sync/replicas.h"

/* Fewest rows of a chunk, as a power of two: smaller tasks cost more than they do. */
#define SL_MIN_CHUNK_SHIFT 6

/* What one PE exchanges in a step; its rows are the pass'. */
struct sl_step_pe {
    uint32_t *counts; /* the host's copy (codelets/sample.h); zero of PEs whose replica this rank does not train */
    /* [hop][G], NULL where none, of the first PE of a team: the team's rows from each team of owners, row gradients to each; the
     * slot's */
    starpu_data_handle_t *packed, *sent;
    /* [hop][G]: the rows of those where this PE's from, and to, each owner begin */
    uint32_t *packed_row, *sent_row;
};

/* What all steps of a run share. */
struct sl_steps {
    const struct sl_settings *settings; /* borrowed, down to the transport */
    const struct sl_plan *plan;
    struct sl_run *run;
    struct sl_shards *shards;
    struct sl_model *model; /* the plan's replicas of it (runtime/sync/replicas.h); shapes are read off the first */
    struct sl_transport *transport;
    struct sl_feature_cache cache; /* empty, or opened and closed by who opens the steps */
    struct sl_rows *tables; /* the features of each PE's part as rows of one chunk, whose handles are the shards' */
    uint32_t max_fanout;    /* of any hop */
    uint64_t n_sampled;     /* steps whose sampling phase has been submitted */
    struct sl_slot *slot;   /* depth of them; step i samples into slot i mod depth */
    sl_vertex *order[2];    /* training ids of even and odd epochs, in their order */
    starpu_data_handle_t order_handle[2];
    starpu_data_handle_t keys;    /* scratch of the permutation */
    uint64_t n_ordered;           /* epochs whose order has been submitted */
    struct sl_step_pe *slot_pe;   /* [slot][PE]: what compute phases use */
    struct sl_pass_pe *slot_rows; /* [slot][PE] */
    struct sl_step_pe *pe;        /* those of the step in hand */
    struct sl_pass pass;          /* of the step in hand */
    struct sl_partials
        *gradients;              /* [layer][replica][parameter][list of the transport]: of a replica's PEs and chunks */
    struct sl_partials losses;   /* of all PEs and chunks */
    struct sl_replicas replicas; /* its rounds are those of the step in hand */
    struct sl_parcel *parcels;   /* of one group: at most G^2 */
    uint32_t team; /* PEs of a team: neighbours in a group that live together, and whose rows travel together. Buffers
                                      are for pairs of teams, of which there are few, so that what a step costs grows with P and not
                                      with its square. The last team may have fewer */
};

/* PEs of a team: rows of PEs that live together are in one memory, that of this process, where no PE is bound to one of several places.
 * Two teams a worker, so that all have work; 1: each PE by itself. */
uint32_t sl_steps_team(const struct sl_plan *plan, const struct sl_run *run);

/* Prepare the ring for the steps from first_step on. source: of blocks. SL_ENOMEM, SL_EINVAL. On failure *out is empty. */
enum sl_status sl_steps_open(const struct sl_work *work, const struct sl_block_source *source, uint64_t first_step,
                             struct sl_steps *out);

/* Wait for the tasks, release. An empty struct is allowed. */
void sl_steps_close(struct sl_steps *steps);

/* Bytes of all slots' buffers. */
uint64_t sl_steps_slot_bytes(const struct sl_steps *steps);

/* Keep the rows that are left for the slot's next step, and begin the lists of partials anew, after success or failure. */
void sl_step_drop(struct sl_steps *steps);

/* The head of a task's arguments. */
static inline struct sl_task_args sl_step_head(const struct sl_steps *steps, uint64_t step, uint32_t pe, uint32_t hop)
{
    return (struct sl_task_args){.run = steps->run, .step = step, .pe = pe, .hop = hop};
}

/* Whether PE p's first layer, and who asks PE p for rows of it, read features in the part's table: a mean of sampled in-neighbours reads
 * few rows more than once, which are not worth a copy. Then those of the destinations alone are gathered. Not where features are dropped
 * on the way, or come out of a cache. The same for all steps. */
bool sl_step_in_place(const struct sl_steps *steps, uint32_t p);

/* How hop is sampled: hop 0, at the seeds, uses the last entry of --fanout. */
struct sl_sample_rule sl_step_rule(const struct sl_steps *steps, uint32_t hop);

/* The part PE p holds; its share of the step's slot. */
static inline struct sl_shard *sl_step_shard(const struct sl_steps *steps, uint32_t p)
{
    return &steps->shards->part[sl_plan_part(steps->plan, p)];
}
static inline struct sl_slot_pe *sl_step_slot(const struct sl_steps *steps, uint64_t step, uint32_t p)
{
    return &steps->slot[step % steps->settings->depth].pe[p];
}

/* The partial gradients of a parameter of layer i and a replica: the transport's n_sums lists. */
static inline struct sl_partials *sl_step_partials(const struct sl_steps *steps, uint32_t i, uint32_t replica,
                                                   int parameter)
{
    uint32_t k = (i * steps->plan->n_replicas + replica) * SL_N_PARAMETERS + (uint32_t)parameter;
    return &steps->gradients[(size_t)k * steps->transport->n_sums];
}

#endif
