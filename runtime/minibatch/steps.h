/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * State shared by the minibatches of a run: the ring slots, rows, partial gradients, and the step in hand.
 *
 * Level l of a PE is its frontier S_p^l. Level 0 has the seeds, level L the input rows. Aggregating layer i turns
 * level L - i into level L - i - 1. The edges of hop l lead from level l + 1 to level l.
 *
 * If links are trained, level 0 has the rows of the links' ends (codelets/sampling/link_seeds.h), which are no
 * frontier. Level 1 has the distinct ends. Hop 0 and the layer `ends` lead from one to the other.
 */
#ifndef SL_RUNTIME_MINIBATCH_STEPS_H
#define SL_RUNTIME_MINIBATCH_STEPS_H

#include "codelets/sampling/sample.h"
#include "runtime/exchange/transport.h"
#include "runtime/model/pass.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/schedule.h"
#include "runtime/store/feature_cache.h"
#include "runtime/store/slot.h"
#include "runtime/sync/replicas.h"

/* Fewest rows of a chunk, as a power of two: a smaller task takes less time than StarPU needs to run it. */
#define SL_MIN_CHUNK_SHIFT 6

/* The exchange of one PE in a step. (Its rows belong to the pass.) */
struct sl_step_pe {
    /* The host's copy (codelets/sampling/sample.h). Zero if this rank does not train the PE's replica. */
    uint32_t *counts;
    /* [hop][G], used in the first PE of a team: rows that the team gets from each team of owners, and row gradients
     * that it returns to each. NULL if nothing is exchanged. The slot owns the handles. */
    starpu_data_handle_t *packed, *sent;
    /* [hop][G]: in these matrices, the first row from, or to, each owner that is this PE's. */
    uint32_t *packed_row, *sent_row;
};

/* How a hop is sampled. The last entry of --fanout is for hop 0, at the seeds. If seeds are links, hop 0 leads from
 * the links to their ends, and the entry is for hop 1. */
struct sl_step_hop {
    struct sl_sample_rule rule;
    /* By relation; NULL: the rule's fanout is over all relations. The shards own the handle. */
    starpu_data_handle_t fanouts;
    /* Most edges of a vertex by fanouts; SL_FANOUT_ALL: any number. */
    uint32_t most_edges;
};

struct sl_steps {
    /* Borrowed, as are all members down to `transport`. */
    const struct sl_settings *settings;
    const struct sl_plan *plan;
    struct sl_run *run;
    struct sl_shards *shards;
    /* The plan's replicas (runtime/sync/replicas.h). Shapes are read off the first replica. */
    struct sl_model *model;
    struct sl_transport *transport;
    /* Empty, or opened by the caller of sl_steps_open. */
    struct sl_feature_cache cache;
    /* The feature table of each PE's part as rows of one chunk. The shards own the handles. */
    struct sl_rows *tables;
    struct sl_step_hop hop[SL_MAX_LAYERS];
    /* Largest fanout of any hop that picks by keys (codelets/sampling/labor.h); otherwise 0. */
    uint32_t max_fanout;
    /* Number of steps with a submitted sampling phase. */
    uint64_t n_sampled;
    /* `depth` slots. Step i samples into slot i mod depth. */
    struct sl_slot *slot;
    /* [slot]: the factor of the step's loss (runtime/objective/objective.h). */
    double *scale;
    /* Permuted training ids of even and of odd epochs. */
    sl_vertex *order[2];
    starpu_data_handle_t order_handle[2];
    /* Scratch of the permutation. */
    starpu_data_handle_t keys;
    /* Number of epochs with a submitted permutation. */
    uint64_t n_ordered;
    /* [slot][PE]: exchange and rows of the compute phase. */
    struct sl_step_pe *slot_pe;
    struct sl_pass_pe *slot_rows;
    /* The step in hand: its entries of slot_pe, and its pass. */
    struct sl_step_pe *pe;
    struct sl_pass pass;
    /* [layer][replica][parameter][list of the transport]: partial gradients of the replica's PEs and chunks. */
    struct sl_partials *gradients;
    /* Partial losses of all PEs and chunks, of even and of odd steps: a step's are summed while the next step writes
     * its own. */
    struct sl_partials losses[2];
    /* The replicas, and how they mix in the step in hand. */
    struct sl_replicas replicas;
    /* Room for the parcels of one group: at most G^2. */
    struct sl_parcel *parcels;
    /* The number of PEs in a team. A team is a few neighbouring PEs of a group, in one memory. Their rows travel
     * together, in one buffer per pair of teams. Teams are few, so the cost of a step grows with P and not with P^2.
     * The last team may be smaller. */
    uint32_t team;
};

/* Prepare the ring for the steps from first_step on. SL_EINVAL, SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_steps_open(const struct sl_work *work, const struct sl_block_source *source, uint64_t first_step,
                             struct sl_steps *out);

/* Make the slots anew for the plan's batch. No task is running, and no step is sampled. SL_EINVAL, SL_ENOMEM. */
enum sl_status sl_steps_resize(struct sl_steps *steps);

/* Wait for the tasks, free everything. An empty struct is allowed. */
void sl_steps_close(struct sl_steps *steps);

/* Bytes of all slots' buffers. */
uint64_t sl_steps_slot_bytes(const struct sl_steps *steps);

/* End the step in hand, after success or failure: keep its remaining rows for the slot's next step, empty the lists
 * of partials. */
void sl_step_drop(struct sl_steps *steps);

/* Common arguments of a task. */
static inline struct sl_task_args sl_step_head(const struct sl_steps *steps, uint64_t step, uint32_t pe, uint32_t hop)
{
    return (struct sl_task_args){.run = steps->run, .step = step, .pe = pe, .hop = hop};
}

/* Whether the first layer reads the features of PE p's part in place, in the part's table. A mean over sampled
 * in-neighbours reads most rows once, so a copy does not pay. PE p then gathers the destinations' rows only.
 * Features are not read in place if they have dropout, come out of a cache or are narrower than rows. The answer is
 * the same for all steps. */
bool sl_step_in_place(const struct sl_steps *steps, uint32_t p);

/* The layer that aggregates over the edges of a hop. */
const struct sl_layer *sl_step_layer(const struct sl_steps *steps, uint32_t hop);

/* The dtype of the rows of layer i that PE p requests, or of their gradients (`back`): of features, if the first layer
 * reads them in place; of outputs, if they are the rows of links' ends. */
enum sl_dtype sl_step_travelling_dtype(const struct sl_steps *steps, uint32_t i, uint32_t p, bool back);

/* The sampling rule of the options, with this fanout. */
struct sl_sample_rule sl_sample_rule_by(const struct sl_settings *settings, uint32_t fanout);

/* Whether a hop is sampled by importance (codelets/sampling/importance.h): LABOR-1 and further, weighted LABOR,
 * LADIES and PLADIES. All in-neighbours of a layer (--fanout -1) are then taken by it too, since all blocks have
 * weights. */
static inline bool sl_step_important(const struct sl_steps *steps)
{
    return sl_settings_by_importance(steps->settings);
}

/* Whether the sum over a hop is a mean, whose weights are normalised (codelets/sampling/importance.h). */
bool sl_step_normalises(const struct sl_steps *steps, uint32_t hop);

/* The handles of PE p's frontier and of its marks, for tasks that sample. */
struct sl_frontier_handles sl_step_frontier(const struct sl_steps *steps, const struct sl_slot *slot, uint32_t p);
struct sl_marks_handles sl_step_marks(const struct sl_steps *steps, const struct sl_slot *slot, uint32_t p);

/* PE p's part; PE p's buffers in the step's slot. */
static inline struct sl_shard *sl_step_shard(const struct sl_steps *steps, uint32_t p)
{
    return &steps->shards->part[sl_plan_part(steps->plan, p)];
}
static inline struct sl_slot_pe *sl_step_slot(const struct sl_steps *steps, uint64_t step, uint32_t p)
{
    return &steps->slot[step % steps->settings->depth].pe[p];
}

/* The partial gradients of a replica's parameter in layer i: the first of n_sums lists (struct sl_transport). */
static inline struct sl_partials *sl_step_partials(const struct sl_steps *steps, uint32_t i, uint32_t replica,
                                                   int parameter)
{
    uint32_t k = (i * steps->plan->n_replicas + replica) * SL_MAX_PARAMETERS + (uint32_t)parameter;
    return &steps->gradients[(size_t)k * steps->transport->n_sums];
}

/* The block source (runtime/model/pass.h) of a sampled minibatch. Owners pack the requested rows for the PEs of their
 * group. The transport (runtime/exchange/transport.h) carries the rows. The requesting PEs aggregate them over the
 * sampled edges. The pass' owner is a struct sl_steps. */
extern const struct sl_block_source sl_sampled;

/* Sampling by importance (codelets/sampling/importance.h, ladies.h), in place of `sample` in step.c. Submit
 * the sampling of a hop. The blocks of all PEs of this rank are then closed. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_step_sample_important(struct sl_steps *steps, uint64_t step, uint32_t hop, struct sl_slot *slot);

#endif
