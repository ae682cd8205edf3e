/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Replicas of the model, and how replicas mix (gossip).
 *
 * With all-reduce there is one replica. With gossip each group of PEs has its own replica: parameters, Adam's
 * moments and batch norm's running statistics. Gradients are summed exactly inside a group. Groups exchange one
 * layer at a time, as soon as the layer's backward pass has been submitted. runtime/plan/partners.h selects the
 * partners, codelets/ends/gossip.h computes:
 *
 *   --gossip-what grad      a replica's gradient becomes the mean over its own seeds and its partner's seeds. With
 *                           equal numbers of seeds this is 0.5 (own + received), otherwise a weighted mean. An idle
 *                           replica uses its own mean
 *   --gossip-what weight    Adam uses the mean over the replica's own seeds, then w <- 0.5 (own + received). Moments
 *                           stay local
 *   --gossip-local-size     nodes of that many replicas: gradients are summed (weights: averaged) inside a node, first
 *                           replicas exchange between nodes, and all replicas of the node get the result
 *   --gossip-average-every  after that many steps all weights become the average over all replicas. Moments stay local
 *
 * Running statistics are never mixed. Inference uses the average of the running statistics over the replicas. This
 * average equals the statistics of a single replica, because running statistics are linear in the statistics of the
 * batches. One exception: a replica without a seed in a step keeps its own statistics, while all-reduce averages over
 * the groups with rows.
 *
 * With one replica nothing mixes: the result is exactly all-reduce.
 */
#ifndef SL_RUNTIME_SYNC_REPLICAS_H
#define SL_RUNTIME_SYNC_REPLICAS_H

#include "codelets/ends/optimize.h"
#include "runtime/exchange/transport.h"
#include "runtime/model/model.h"
#include "runtime/model/pass.h"
#include "runtime/plan/partners.h"
#include "runtime/plan/plan.h"
#include "tasks/task.h"

/* Create n >= 2 equal models as sl_model_init does, with spare arrays for mixing and distinct names in files.
 * (*out)[r] is replica r. SL_ENOMEM, SL_EINVAL. On failure *out is NULL. */
enum sl_status sl_replicas_init(const struct sl_settings *settings, uint32_t n, const struct sl_model_data *data,
                                struct sl_model **out);

/* Wait for the tasks, then release. NULL is allowed. */
void sl_replicas_free(struct sl_model *replicas, uint32_t n);

/* Copy the values and running statistics of a model to all replicas. No task is running. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_replicas_spread(struct sl_model *replicas, uint32_t n, const struct sl_model *model);

/* Send the state of replicas that other ranks train to rank 0: values and running statistics, with `moments` also
 * Adam's moments. All ranks call; submits messages. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_replicas_gather(struct sl_transport *transport, struct sl_model *replicas, bool moments);

/* Submit: values and running statistics of `model` become the average over the replicas. The replicas do not change.
 * SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_replicas_average(struct sl_run *run, const struct sl_model *replicas, uint32_t n,
                                   struct sl_model *model);

/* One exchange between nodes. A node is `local` replicas. The array of each replica of node b becomes
 *   scale[b] (inner (sum over node b) + inner (sum over node from[b]))
 *
 * If from[b] is b, the second term is left out. */
struct sl_round {
    uint32_t local;
    double inner;
    uint32_t *from; /* [node] */
    double *scale;  /* [node] */
};

/* The exchanges of a step. */
struct sl_rounds {
    struct sl_round gradient, weight;
    bool average; /* finally, the average of all weights */
};

/* The replicas of a run and how they mix. The first pointers are borrowed; sl_replicas_open allocates the
 * rest. */
struct sl_replicas {
    const struct sl_settings *settings;
    const struct sl_plan *plan;
    struct sl_run *run;
    struct sl_model *replica;
    struct sl_transport *transport;
    /* Several replicas. */
    struct sl_rounds rounds; /* of the current step */
    struct sl_permutation permutation;
    struct sl_partners *partners; /* [node] */
    /* Of the exchange in hand: the sum of each node, and the arrays of one node. */
    starpu_data_handle_t *sums, *sources;
    uint32_t *sent_to; /* [replica]: the ranks before this one have its array, if they read it */
    /* Several ranks: the last arrays received of replicas that other ranks train,
     * [topic][layer][parameter][replica]. */
    starpu_data_handle_t *mirror;
};

/* Allocate. The caller has set the borrowed pointers and cleared the rest. SL_ENOMEM: call sl_replicas_close. */
enum sl_status sl_replicas_open(struct sl_replicas *replicas);
void sl_replicas_close(struct sl_replicas *replicas);

/* Choose the rounds of a step. SL_EINVAL as sl_gossip_check. */
enum sl_status sl_replicas_plan(struct sl_replicas *replicas, uint64_t step);

/* Submit the planned rounds of one parameter of a layer: for gradients between reduce and optimise, for weights
 * after optimise. Nothing with one replica. All ranks call; one thread, in order. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_replicas_mix_gradients(struct sl_replicas *replicas, uint64_t step, uint32_t layer, int parameter);
enum sl_status sl_replicas_mix_weights(struct sl_replicas *replicas, uint64_t step, uint32_t layer, int parameter);

/* Number of models that travel between PEs in the planned step, over all PEs. A sum over n PEs or replicas whose
 * result all get counts 2 (n - 1), as in a ring all-reduce. An exchange counts one for each receiver. */
uint64_t sl_replicas_traffic(const struct sl_replicas *replicas);

/* ---- update.c ---- */

/* The update of one layer: add the partial gradients, mix them if there are several replicas, and apply Adam. */

/* The path of gradients. All pointers are borrowed. */
struct sl_update {
    struct sl_transport *transport;
    struct sl_replicas *replicas; /* rounds of this step are planned */
};

/* Submit the update of a layer, after all its partial gradients have been submitted. All ranks call; one thread, in
 * order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_update_layer(const struct sl_update *update, const struct sl_layer_pass *lp,
                               const struct sl_adam *adam);

#endif
