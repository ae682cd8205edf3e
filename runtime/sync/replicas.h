/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Replicas of the model, and stage 11 with gossip: how they come together.
 *
 * With all-reduce there is one replica. With gossip each group of PEs has its own: parameters, Adam's moments, batch norm's
 * running statistics. Inside a group gradients are summed exactly; between groups, a layer at a time, as soon as the layer's
 * backward has been submitted (runtime/plan/gossip.h says who is whose partner, codelets/gossip.h computes):
 *
 *   --gossip-what grad     a replica's gradient becomes the mean over its own seeds and its partner's: with as many seeds each
 *                          0.5 (own + received), else weighted by their numbers. Where it is idle, its own mean
 *   --gossip-what weight   Adam takes the mean over the replica's own seeds; then w <- 0.5 (own + received). Moments stay local
 *   --gossip-local-size    nodes of that many replicas: summed (weights: averaged) inside, exchanged between the nodes' first
 *                          replicas, and the result given to all of the node
 *   --gossip-average-every after every so many steps all weights become the average of all replicas; moments stay local
 *
 * Running statistics are never mixed: they are linear in the batches' statistics, so that their average over the replicas, with
 * which inference runs, is what one replica would have kept (a replica without a seed in a step keeps its own in that step, though,
 * where all-reduce averages over the groups that have rows). One replica does none of this and is exactly all-reduce.
 */
#ifndef SL_RUNTIME_SYNC_REPLICAS_H
#define SL_RUNTIME_SYNC_REPLICAS_H

#include "codelets/task.h"
#include "runtime/exchange/transport.h"
#include "runtime/model/model.h"
#include "runtime/plan/gossip.h"
#include "runtime/plan/plan.h"

/* Make n >= 2 equal models as sl_model_init does, with room to mix them and names of their own in files. (*out)[r] is replica r.
 * SL_ENOMEM, SL_EINVAL. On failure *out is NULL. */
enum sl_status sl_replicas_init(const struct sl_settings *settings, uint32_t n, uint32_t n_features, uint32_t n_classes,
                                bool sparse, struct sl_model **out);

/* Wait for the tasks, release; NULL is allowed. */
void sl_replicas_free(struct sl_model *replicas, uint32_t n);

/* Give all replicas the values and running statistics of a model. No task is running. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_replicas_spread(struct sl_model *replicas, uint32_t n, const struct sl_model *model);

/* Rank 0 gets the state of all replicas that other ranks train: values and running statistics, or all that a checkpoint has. All ranks
 * call; submissions. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_replicas_gather(struct sl_transport *transport, struct sl_model *replicas, bool moments);

/* Submit: values and running statistics of `model` become the average over the replicas, which stay as they are.
 * SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_replicas_average(struct sl_run *run, const struct sl_model *replicas, uint32_t n,
                                   struct sl_model *model);

/* One exchange between nodes of `local` replicas each: every replica's array becomes
 *   scale[b] (inner sum over node b + inner sum over node from[b]), the latter only where from[b] is not b itself. */
struct sl_round {
    uint32_t local;
    double inner;
    uint32_t from[SL_MAX_NODES]; /* by node */
    double scale[SL_MAX_NODES];  /* by node */
};

/* What a step exchanges. */
struct sl_rounds {
    struct sl_round gradient, weight;
    bool average; /* then the average of all weights */
};

/* Replicas and how they come together; all but the rounds is borrowed. */
struct sl_replicas {
    const struct sl_settings *settings;
    const struct sl_plan *plan;
    struct sl_run *run;
    struct sl_model *replica;
    struct sl_transport *transport;
    struct sl_rounds rounds; /* of the step in hand */
    starpu_data_handle_t
        *mirror; /* several ranks: what came last of replicas that others train, [topic][layer][parameter][replica] */
};

/* Make room for what other ranks send, once the rest is set. SL_ENOMEM. */
enum sl_status sl_replicas_open(struct sl_replicas *replicas);
void sl_replicas_close(struct sl_replicas *replicas);

/* Decide the rounds of a step. SL_EINVAL as sl_gossip_check. */
enum sl_status sl_replicas_plan(struct sl_replicas *replicas, uint64_t step);

/* Submit the planned rounds of one parameter of a layer: of the gradients between reduce and optimise, of the weights after it.
 * With one replica nothing. One thread, in order. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_replicas_mix_gradients(struct sl_replicas *replicas, uint64_t step, uint32_t layer, int parameter);
enum sl_status sl_replicas_mix_weights(struct sl_replicas *replicas, uint64_t step, uint32_t layer, int parameter);

/* Models that travel between PEs in the planned step, all PEs together: a sum over n PEs or replicas, given back to all, counts
 * 2 (n - 1), as a ring all-reduce sends; an exchange one a receiver. */
uint64_t sl_replicas_traffic(const struct sl_replicas *replicas);

#endif
