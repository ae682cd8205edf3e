/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A whole minibatch as task submissions, in the order of its operations. The submitting thread waits for the sizes of
 * the sample, and for rows that the slot's previous step still uses.
 *
 *   sampling phase, `depth` steps ahead
 *      3  permute   the training ids, once an epoch
 *         seed      each PE picks the seeds that it owns: frontier S^0. If seeds are links: the block of hop 0
 *      3  sample    for each hop l: draw the in-edges of S^l
 *                   LABOR-1 and further: rounds of solve and raise between the PEs come first (importance.h)
 *      4  exchange  for each hop l: send the sources' ids to their owners, which merge the ids into S^(l+1)
 *         counts    send the sizes to other ranks
 *   compute phase
 *      5  gather    feature rows of the last frontier
 *    6-8  forward   for each layer: exchange rows, aggregate over the sampled edges, dense, activate
 *      9  loss      of the seeds, and the gradient of their logits
 *     10  backward  for each layer, last to first: the adjoints
 *  11-12  update    of this layer: sum the partial gradients, Adam
 *
 * Read from sl_step_submit at the end of the file. Operations 6 to 8 and 10 are in the files of layers (runtime/model),
 * the ring slots are in runtime/minibatch/steps.c. Every function submits tasks for the PEs of this rank, or messages
 * between PEs. */
#include "runtime/minibatch/sizes.h"

#include <string.h>

#include "codelets/rows/gather.h"
#include "codelets/sampling/exchange.h"
#include "codelets/sampling/nonzeros.h"
#include "runtime/minibatch/steps.h"
#include "runtime/model/activation.h"
#include "runtime/objective/objective.h"
#include "runtime/sync/replicas.h"
#include "tasks/bundle.h"

/* ---- sampling phase ---- */

/* Permute the training ids of an epoch: vertices, or numbers of links. A ring has the order of epoch 0 in all
 * epochs. */
static enum sl_status permute(struct sl_steps *s, uint64_t epoch)
{
    struct sl_task_args head = sl_step_head(s, sl_plan_first_step(s->plan, epoch), 0, 0);
    s->n_ordered = epoch + 1;
    starpu_data_handle_t ids = s->plan->first_hop == 0 ? s->shards->new_ids : s->shards->train_ids;
    return sl_permute_submit(&head, s->settings->seed, s->plan->ring ? 0 : epoch, s->shards->n_train,
                             s->shards->train_ids, ids, s->keys, s->order_handle[epoch % 2]);
}

/* The factor of the step's loss. Vertices of unlike mass are counted on the host, which waits for the permutation. */
static enum sl_status find_scale(struct sl_steps *s, uint64_t step)
{
    const struct sl_objective *objective = sl_objective_of(s->shards);
    struct sl_seeds seeds = sl_plan_seeds(s->plan, step);
    double *scale = &s->scale[step % s->settings->depth];
    if (objective->mass == NULL) {
        *scale = sl_objective_scale(objective, seeds.n, NULL);
        return SL_OK;
    }
    SL_CHECK(sl_bundles_settle(s->run));
    SL_CHECK(sl_chunk_acquire(&s->run->failure, s->order_handle[seeds.epoch % 2], STARPU_R));
    *scale = sl_objective_scale(objective, seeds.n, s->order[seeds.epoch % 2] + seeds.first);
    starpu_data_release(s->order_handle[seeds.epoch % 2]);
    return SL_OK;
}

static struct sl_objective_seeds seeds_of(const struct sl_steps *s, uint64_t step, const struct sl_seeds *range)
{
    return (struct sl_objective_seeds){.shards = s->shards,
                                       .order = s->order_handle[range->epoch % 2],
                                       .begin = range->first,
                                       .end = range->first + range->n,
                                       .draw = {.seed = s->settings->seed, .step = sl_plan_epoch(s->plan, step)}};
}

/* A group's seeds are a range of the permutation. Each PE of the group picks the seeds that it owns: frontier S_p^0, or
 * the block of hop 0. */
static enum sl_status seed(struct sl_steps *s, uint64_t step, struct sl_slot *slot)
{
    const struct sl_objective *objective = sl_objective_of(s->shards);
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_seeds share = sl_plan_share(s->plan, step, sl_plan_group(s->plan, p));
        struct sl_objective_seeds seeds = seeds_of(s, step, &share);
        struct sl_task_args head = sl_step_head(s, step, p, 0);
        seeds.frontier = sl_step_frontier(s, slot, p);
        seeds.marks = sl_step_marks(s, slot, p);
        seeds.part = &sl_step_shard(s, p)->graph;
        seeds.block = &slot->pe[p].block[0];
        seeds.relations = slot->pe[p].link_relations;
        SL_CHECK(objective->kind->seed != NULL
                     ? objective->kind->seed(objective, &head, &seeds)
                     : sl_seed_submit(&head, seeds.order, seeds.begin, seeds.end, &seeds.frontier));
    }
    return SL_OK;
}

/* List the edges that the step must not sample. */
static enum sl_status exclude(struct sl_steps *s, uint64_t step, struct sl_slot *slot)
{
    const struct sl_objective *objective = sl_objective_of(s->shards);
    const struct sl_seeds all = sl_plan_seeds(s->plan, step);
    const struct sl_objective_seeds seeds = seeds_of(s, step, &all);
    struct sl_task_args head = sl_step_head(s, step, s->plan->first_pe, 0);
    return objective->kind->exclude(objective, &head, &seeds, slot->excluded);
}

/* Draw the in-edges of each PE's frontier. The result is the block of this hop, with the list of its distinct sources
 * by owner: the PE's request. */
static enum sl_status sample(struct sl_steps *s, uint64_t step, uint32_t hop, struct sl_slot *slot)
{
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_frontier_handles frontier = sl_step_frontier(s, slot, p);
        struct sl_marks_handles marks = sl_step_marks(s, slot, p);
        struct sl_part_handles part = sl_step_shard(s, p)->graph;
        struct sl_task_args head = sl_step_head(s, step, p, hop);
        part.fanouts = s->hop[hop].fanouts;
        part.excluded = slot->excluded;
        part.loops = !sl_step_normalises(s, hop);
        SL_CHECK(sl_sample_submit(&head, &part, &s->hop[hop].rule, s->settings->seed, &frontier, &marks,
                                  &slot->pe[p].block[hop]));
    }
    return SL_OK;
}

/* Send each PE's request to all ranks of its group. The PEs of the group are the owners of the sources. */
static enum sl_status send_requests(struct sl_steps *s, uint64_t step, uint32_t hop, const struct sl_slot *slot)
{
    uint32_t n_parts = s->plan->n_parts;
    for (uint32_t p = 0; p < s->plan->n_pes; p++) {
        struct sl_task_args head = sl_step_head(s, step, p, hop);
        struct sl_shared request = {.topic = SL_TOPIC_REQUEST,
                                    .of_slot = true,
                                    .from = p,
                                    .to = sl_plan_ranks(s->plan, sl_plan_peer(s->plan, p, 0), n_parts),
                                    .handle = slot->pe[p].block[hop].request};
        SL_CHECK(sl_transport_share(s->transport, &head, &request));
    }
    return SL_OK;
}

/* Each owner adds the requested ids to its frontier, S_p^(hop+1), and notes which row answers each request
 * (`inverse`). One task serves a team of owners. If features are read in place, the rows of the last hop are rows of
 * the part (`of_part`). */
static enum sl_status merge(struct sl_steps *s, uint64_t step, uint32_t hop, struct sl_slot *slot)
{
    uint32_t n_parts = s->plan->n_parts;
    for (uint32_t p = s->plan->first_pe, n = 0; p < s->plan->end_pe; p += n) {
        starpu_data_handle_t request[SL_MAX_GROUP];
        struct sl_merging owners[SL_MAX_GROUP];
        struct sl_task_args head = sl_step_head(s, step, p, hop);
        for (uint32_t peer = 0; peer < n_parts; peer++) {
            request[peer] = slot->pe[sl_plan_peer(s->plan, p, peer)].block[hop].request;
        }
        for (n = 0; n < s->team && sl_plan_part(s->plan, p) + n < n_parts; n++) {
            owners[n] = (struct sl_merging){.owner = sl_plan_part(s->plan, p) + n,
                                            .of_part = hop + 1 == s->plan->n_layers && sl_step_in_place(s, p + n),
                                            .frontier = sl_step_frontier(s, slot, p + n),
                                            .inverse = slot->pe[p + n].block[hop].inverse};
        }
        SL_CHECK(sl_merge_submit(&head, n_parts, request, n, owners));
    }
    return SL_OK;
}

/* Count the nonzeros that each owner will read from its sparse features. */
static enum sl_status count_nonzeros(struct sl_steps *s, uint64_t step, struct sl_slot *slot)
{
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        const struct sl_shard *part = sl_step_shard(s, p);
        struct sl_task_args head = sl_step_head(s, step, p, s->plan->n_layers);
        SL_CHECK(sl_nonzeros_submit(&head, s->plan->n_parts, slot->pe[p].frontier, part->first, part->sparse.offsets,
                                    slot->pe[p].counts));
    }
    return SL_OK;
}

/* Send the sizes of each PE's sample to the ranks that train its replica. The counts also say whether the PE's rank
 * was asked to stop. */
static enum sl_status share_counts(struct sl_steps *s, uint64_t step, const struct sl_slot *slot)
{
    struct sl_shared counts = {.topic = SL_TOPIC_COUNTS, .of_slot = true};
    struct sl_task_args head = sl_step_head(s, step, s->plan->first_pe, 0);
    for (counts.from = 0; counts.from < s->plan->n_pes; counts.from++) {
        counts.handle = slot->pe[counts.from].counts;
        counts.to = sl_plan_trainers(s->plan, sl_plan_replica(s->plan, counts.from));
        SL_CHECK(sl_transport_share(s->transport, &head, &counts));
    }
    return SL_OK;
}

/* Submit the tasks that bundles hold back (tasks/bundle.h). st: the status so far, which takes precedence. */
static enum sl_status flush_bundles(const struct sl_steps *s, enum sl_status st)
{
    enum sl_status own = sl_bundles_settle(s->run);
    return st == SL_OK ? own : st;
}

/* Sample a step into its slot. A slot's buffers are written anew once the readers of its previous step are done;
 * StarPU orders this. */
enum sl_status sl_step_sample(struct sl_steps *s, uint64_t step)
{
    struct sl_slot *slot = &s->slot[step % s->settings->depth];
    uint64_t epoch = sl_plan_epoch(s->plan, step);
    enum sl_status st = SL_OK;
    if (epoch >= s->n_ordered) {
        SL_TRY(st, permute(s, epoch), done);
    }
    SL_TRY(st, find_scale(s, step), done);
    if (slot->excluded != NULL) {
        SL_TRY(st, exclude(s, step, slot), done);
    }
    SL_TRY(st, seed(s, step, slot), done);
    for (uint32_t hop = 0; hop < s->plan->n_layers; hop++) {
        if (hop >= s->plan->first_hop) {
            SL_TRY(st, sl_step_important(s) ? sl_step_sample_important(s, step, hop, slot) : sample(s, step, hop, slot),
                   done);
        }
        SL_TRY(st, send_requests(s, step, hop, slot), done);
        SL_TRY(st, merge(s, step, hop, slot), done);
    }
    if (s->shards->is_sparse) {
        SL_TRY(st, count_nonzeros(s, step, slot), done);
    }
    if (s->plan->n_ranks > 1) {
        SL_TRY(st, share_counts(s, step, slot), done);
    }
    s->n_sampled = step + 1;
done:
    return flush_bundles(s, st);
}

/* ---- compute phase ---- */

/* Tell the PE's feature cache which rows this step reads. */
static enum sl_status update_cache(struct sl_steps *s, const struct sl_task_args *head,
                                   const struct sl_row_cache_handles *cache)
{
    const struct sl_shard *part = sl_step_shard(s, head->pe);
    return sl_row_cache_want_submit(head, cache, s->cache.policy, s->pass.pe[head->pe].split[head->hop].n_rows,
                                    sl_step_slot(s, head->step, head->pe)->frontier, part->first, part->features);
}

/* The rows of PE p's last frontier to copy: all rows, or only the destinations' rows, which come first, if the first
 * layer reads features in place. */
static struct sl_split gathered(const struct sl_steps *s, uint32_t p)
{
    const struct sl_split *split = &s->pass.pe[p].split[s->plan->n_layers];
    return sl_step_in_place(s, p) ? sl_split_first(split, split[-1].n_rows) : *split;
}

/* Each owner copies the feature rows of its last frontier from its part's table or from its cache. */
static enum sl_status gather(struct sl_steps *s, uint64_t step)
{
    uint32_t level = s->plan->n_layers;
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_pass_pe *pe = &s->pass.pe[p];
        struct sl_split split = gathered(s, p);
        const struct sl_shard *part = sl_step_shard(s, p);
        struct sl_task_args head = sl_step_head(s, step, p, level);
        const struct sl_row_cache_handles *cache = sl_feature_cache_of(&s->cache, p);
        struct sl_feature_handles features = {.table = part->features,
                                              .scale = s->shards->features.scale,
                                              .first = part->first,
                                              .frontier = sl_step_slot(s, step, p)->frontier,
                                              .cache = cache,
                                              .dropout = s->settings->input_dropout,
                                              .seed = s->settings->seed,
                                              .dataset_ids = s->shards->dataset_ids};
        SL_CHECK(sl_rows_reshape(&split, s->shards->n_features, s->shards->row_dtype, &pe->features));
        if (cache != NULL) {
            SL_CHECK(update_cache(s, &head, cache));
        }
        for (uint32_t c = 0; c < split.n_chunks; c++) {
            SL_CHECK(sl_gather_submit(&head, &features, c << split.shift, pe->features.chunk[c]));
        }
    }
    return SL_OK;
}

/* Each chunk computes the loss of its seeds and the gradient of their logits. */
static enum sl_status loss(struct sl_steps *s, uint64_t step)
{
    const struct sl_objective *objective = sl_objective_of(s->shards);
    const struct sl_layer_pass ends = sl_pass_layer(&s->pass, s->model->n_layers - 1);
    const uint32_t n_arrays = ends.i < s->model->n_vertex_layers ? 0 : ends.layer->kind->n_parameters; /* a decoder's */
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_task_args head = sl_step_head(s, step, p, 0);
        const struct sl_split *split = &s->pass.pe[p].split[0];
        struct sl_rows *last = s->pass.pe[p].layer[s->model->n_layers - 1];
        const struct sl_shard *part = sl_step_shard(s, p);
        struct sl_objective_rows rows = {.targets = part->targets,
                                         .first = part->first,
                                         .frontier = sl_step_slot(s, step, p)->frontier,
                                         .relations = sl_step_slot(s, step, p)->link_relations};
        SL_CHECK(sl_rows_reshape(split, s->shards->n_outputs, SL_DTYPE_REAL, &last[SL_ROWS_GZ]));
        for (uint32_t c = 0; c < split->n_chunks; c++) {
            starpu_data_handle_t share;
            SL_CHECK(sl_partials_next(&s->losses[step % 2], p, 1, 1, SL_DTYPE_F64, &share));
            for (uint32_t k = 0; k < n_arrays; k++) {
                rows.decoder[k] = sl_layer_pass_value(&ends, p, (int)k);
                SL_CHECK(sl_layer_pass_partial(&ends, p, (int)k, &rows.decoder_gradient[k]));
            }
            rows.z = last[SL_ROWS_Z].chunk[c];
            rows.row0 = c << split->shift;
            SL_CHECK(objective->kind->lose(objective, &head, &rows, s->scale[step % s->settings->depth],
                                           last[SL_ROWS_GZ].chunk[c], share));
        }
    }
    return SL_OK;
}

/* The transport sums the partial losses into `total`. */
static enum sl_status sum_losses(struct sl_steps *s, uint64_t step, starpu_data_handle_t total)
{
    struct sl_task_args head = sl_step_head(s, step, 0, 0);
    struct sl_transport_losses losses = {
        .ranks = {0, s->plan->n_ranks}, .partials = &s->losses[step % 2], .total = total};
    return sl_transport_loss(s->transport, &head, &losses);
}

/* ---- layers ---- */

static enum sl_status layer_forward(struct sl_steps *s, uint32_t i)
{
    struct sl_layer_pass lp = sl_pass_layer(&s->pass, i);
    SL_CHECK(sl_layer_derive(&lp));
    return sl_layer_run(&lp);
}

/* Release the layer's rows and its input. The layer above has already released H, as its own input. GH of the input
 * stays: the layer below reads it. */
static void step_down(const struct sl_layer_pass *lp)
{
    for (uint32_t p = lp->pass->plan->first_pe; p < lp->pass->plan->end_pe; p++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            sl_layer_pass_done(lp, p, role == SL_ROWS_H ? SL_ROWS_INPUT : (enum sl_role)role);
        }
    }
    lp->pass->source->returned(lp);
}

/* The backward pass and the update: the gradients of all replicas are exchanged, then Adam. */
static enum sl_status layer_backward(struct sl_steps *s, uint32_t i, const struct sl_adam *adam)
{
    const struct sl_update update = {s->transport, &s->replicas};
    struct sl_layer_pass lp = sl_pass_layer(&s->pass, i);
    SL_CHECK(sl_layer_run_back(&lp));
    step_down(&lp);
    return sl_update_layer(&update, &lp, adam);
}

/* sl_step_sizes waits for the sample's counts: from here on the host knows the shape of every matrix. Backward, a
 * layer's update follows its gradients at once, so that sums travel while earlier layers still compute. The sum of the
 * losses comes last: it is a CPU's, and would cut a GPU's bundle in two. */
enum sl_status sl_step_compute(struct sl_steps *s, uint64_t step, const struct sl_adam *adam,
                               starpu_data_handle_t loss_total, struct sl_step_sizes *sizes_out)
{
    enum sl_status st;
    sl_step_begin(s, step);
    SL_TRY(st, sl_replicas_plan(&s->replicas, step), done);
    SL_TRY(st, sl_step_sizes(s, step, sizes_out), done);
    if (!s->shards->is_sparse) {
        SL_TRY(st, gather(s, step), done);
    }
    for (uint32_t i = 0; i < s->model->n_layers; i++) {
        SL_TRY(st, layer_forward(s, i), done);
    }
    SL_TRY(st, loss(s, step), done);
    for (uint32_t i = s->model->n_layers; i-- > 0;) {
        SL_TRY(st, layer_backward(s, i, adam), done);
    }
    SL_TRY(st, sum_losses(s, step, loss_total), done);
done:
    st = flush_bundles(s, st);
    sl_step_drop(s);
    return st;
}

/* The first call samples `depth` steps ahead. Each later call computes one step and samples the step that takes over
 * its slot. With a vertex budget an epoch begins as the run does. */
enum sl_status sl_step_submit(struct sl_steps *s, uint64_t step, const struct sl_adam *adam,
                              starpu_data_handle_t loss_total, struct sl_step_sizes *sizes_out)
{
    uint64_t ahead = step + s->settings->depth;
    uint64_t end = sl_plan_horizon(s->plan, step);
    while (s->n_sampled < ahead && s->n_sampled < end) {
        SL_CHECK(sl_step_sample(s, s->n_sampled));
    }
    SL_CHECK(sl_step_compute(s, step, adam, loss_total, sizes_out));
    if (s->n_sampled == ahead && ahead < end) {
        SL_CHECK(sl_step_sample(s, ahead));
    }
    return SL_OK;
}
