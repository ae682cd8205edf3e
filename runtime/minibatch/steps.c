/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The ring of slots and all state of minibatches: opened, emptied after a step, closed. */
#include "runtime/minibatch/steps.h"

#include <string.h>

#include "codelets/sampling/link_seeds.h"
#include "runtime/model/sums.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "tasks/bundle.h"

/* ---- rules ---- */

struct sl_sample_rule sl_sample_rule_by(const struct sl_settings *settings, uint32_t fanout)
{
    static const enum sl_sample_method methods[] = {[SL_SAMPLER_NEIGHBOR] = SL_SAMPLE_NEIGHBOR,
                                                    [SL_SAMPLER_LABOR] = SL_SAMPLE_LABOR,
                                                    [SL_SAMPLER_FULL] = SL_SAMPLE_FULL,
                                                    [SL_SAMPLER_LADIES] = SL_SAMPLE_FULL,
                                                    [SL_SAMPLER_PLADIES] = SL_SAMPLE_FULL};
    enum sl_sample_method method = methods[settings->sampler];
    if (fanout == SL_FANOUT_ALL) {
        method = SL_SAMPLE_FULL;
    }
    if (method == SL_SAMPLE_NEIGHBOR && settings->replace) {
        method = SL_SAMPLE_REPLACED;
    }
    if (method == SL_SAMPLE_NEIGHBOR && settings->kappa != 1) {
        method = SL_SAMPLE_SLOW;
    }
    if (settings->edge_weights == SL_EDGE_WEIGHTS_PROBABILITY) {
        method = SL_SAMPLE_WEIGHTED; /* also of all in-neighbours: edges of weight 0 are never drawn */
    }
    return (struct sl_sample_rule){
        .method = method, .fanout = fanout, .layer_dependency = settings->layer_dependency, .kappa = settings->kappa};
}

/* Read the fanouts of a hop off those of its layer. */
static void open_hop(const struct sl_steps *s, uint32_t hop, struct sl_step_hop *out)
{
    const uint32_t n = s->shards->partition->graph.n_relations;
    const uint32_t layer = s->plan->n_layers - 1 - hop;
    uint32_t largest = s->settings->fanout[layer];
    uint64_t sum = largest;
    if (s->shards->fanouts != NULL) {
        const uint32_t *fanout = s->shards->fanout_of + (size_t)layer * n;
        bool all = false;
        sum = largest = 0;
        for (uint32_t r = 0; r < n; r++) {
            all = all || fanout[r] == SL_FANOUT_ALL;
            largest = fanout[r] == SL_FANOUT_ALL ? largest : sl_max_u32(largest, fanout[r]);
            sum += fanout[r];
        }
        largest = largest == 0 ? SL_FANOUT_ALL : largest;
        sum = all ? SL_FANOUT_ALL : sl_min_u64(sum, SL_FANOUT_ALL - 1);
        out->fanouts = s->shards->fanouts[layer];
    }
    out->rule = sl_sample_rule_by(s->settings, largest);
    out->most_edges = (uint32_t)sum;
}

struct sl_frontier_handles sl_step_frontier(const struct sl_steps *s, const struct sl_slot *slot, uint32_t p)
{
    const struct sl_shard *part = sl_step_shard(s, p);
    return (struct sl_frontier_handles){.ids = slot->pe[p].frontier,
                                        .index = slot->pe[p].index,
                                        .counts = slot->pe[p].counts,
                                        .n_hops = s->plan->n_layers,
                                        .first = part->first,
                                        .end = part->end};
}

struct sl_marks_handles sl_step_marks(const struct sl_steps *s, const struct sl_slot *slot, uint32_t p)
{
    return (struct sl_marks_handles){
        .bytes = slot->pe[p].marks, .n_vertices = s->shards->n_vertices, .max_fanout = s->max_fanout};
}

const struct sl_layer *sl_step_layer(const struct sl_steps *s, uint32_t hop)
{
    const struct sl_layer *layer = s->model->layer;
    while (layer->level != hop || layer->from == hop) {
        layer++;
    }
    return layer;
}

bool sl_step_normalises(const struct sl_steps *s, uint32_t hop)
{
    return sl_step_layer(s, hop)->kind->sum->factor == NULL;
}

bool sl_step_in_place(const struct sl_steps *s, uint32_t p)
{
    return s->model->layer[0].training.in_place && sl_feature_source_in_place(&s->shards->features) &&
           sl_feature_cache_of(&s->cache, p) == NULL;
}

enum sl_dtype sl_step_travelling_dtype(const struct sl_steps *s, uint32_t i, uint32_t p, bool back)
{
    if (i >= s->model->n_vertex_layers) {
        return SL_DTYPE_REAL; /* outputs are never rounded */
    }
    return !back && i == 0 && sl_step_in_place(s, p) ? s->shards->features.dtype : s->shards->row_dtype;
}

/* ---- clearing up ---- */

/* Number of lists of partial gradients. */
static uint32_t n_gradients(const struct sl_steps *s)
{
    return s->model->n_layers * s->plan->n_replicas * SL_MAX_PARAMETERS * s->transport->n_sums;
}

/* Call `end` (sl_rows_keep or sl_rows_drop) for all rows of a PE. */
static void end_rows(struct sl_pass_pe *pe, uint32_t n_layers, void (*end)(struct sl_rows *))
{
    end(&pe->features);
    sl_pass_end_rows(pe, n_layers, end);
}

void sl_step_drop(struct sl_steps *s)
{
    size_t n_pairs = (size_t)s->plan->n_layers * s->plan->n_parts;
    if (s->pe != NULL) {
        for (uint32_t p = 0; p < s->plan->n_pes; p++) {
            end_rows(&s->pass.pe[p], s->model->n_layers, sl_rows_keep);
            memset(s->pe[p].packed, 0, n_pairs * sizeof *s->pe->packed);
            memset(s->pe[p].sent, 0, n_pairs * sizeof *s->pe->sent);
        }
    }
    for (uint32_t k = 0; k < n_gradients(s); k++) {
        s->gradients[k].n = 0;
    }
    s->losses[0].n = s->losses[1].n = 0;
}

/* ---- partials ---- */

static enum sl_status open_partials(struct sl_steps *s)
{
    uint32_t n_lists = n_gradients(s);
    uint32_t n = s->plan->n_pes * s->settings->chunks;
    SL_CHECK(sl_alloc_zero(n_lists, sizeof *s->gradients, "partial gradients", &s->gradients));
    for (uint32_t k = 0; k < n_lists; k++) {
        SL_CHECK(sl_partials_open(n / s->plan->n_replicas, &s->gradients[k]));
    }
    SL_CHECK(sl_partials_open(n, &s->losses[0]));
    SL_CHECK(sl_partials_open(n, &s->losses[1]));
    SL_CHECK(sl_partials_open(n, &s->pass.batch.moments));
    SL_CHECK(sl_partials_open(n, &s->pass.batch.sums));
    SL_CHECK(sl_partials_open(s->plan->n_groups, &s->pass.batch.unbiased));
    SL_CHECK(sl_alloc_zero((size_t)s->model->n_layers * s->plan->n_groups, sizeof *s->pass.batch.group_sums,
                           "sums of groups", &s->pass.batch.group_sums));
    return sl_alloc_zero(n, sizeof *s->pass.batch.chunk_rows, "chunk sizes", &s->pass.batch.chunk_rows);
}

static void close_partials(struct sl_steps *s)
{
    if (s->gradients != NULL) {
        for (uint32_t k = 0; k < n_gradients(s); k++) {
            sl_partials_close(&s->gradients[k]);
        }
    }
    sl_free(s->gradients);
    sl_partials_close(&s->losses[0]);
    sl_partials_close(&s->losses[1]);
    sl_partials_close(&s->pass.batch.moments);
    sl_partials_close(&s->pass.batch.sums);
    sl_partials_close(&s->pass.batch.unbiased);
    sl_free(s->pass.batch.chunk_rows);
    for (size_t k = 0; s->pass.batch.group_sums != NULL && k < (size_t)s->model->n_layers * s->plan->n_groups; k++) {
        sl_handle_close(s->pass.batch.group_sums[k]);
    }
    sl_free(s->pass.batch.group_sums);
}

static void close_group(struct sl_pass_group *group)
{
    for (uint32_t i = 0; i < SL_MAX_MODEL_LAYERS; i++) {
        sl_handle_close(group->statistics[i]);
    }
}

/* ---- open, close ---- */

static enum sl_status open_orders(struct sl_steps *s)
{
    uint32_t n = s->shards->n_train;
    for (int i = 0; i < 2; i++) {
        SL_CHECK(sl_alloc(n, sizeof *s->order[i], "the epoch's order", &s->order[i]));
        starpu_vector_data_register(&s->order_handle[i], STARPU_MAIN_RAM, (uintptr_t)s->order[i], n, sizeof **s->order);
    }
    starpu_vector_data_register(&s->keys, -1, 0, n, sizeof(struct sl_permute_key));
    return SL_OK;
}

static enum sl_status open_pe(const struct sl_steps *s, struct sl_step_pe *pe)
{
    uint32_t n_parts = s->plan->n_parts;
    size_t n_pairs = (size_t)s->plan->n_layers * n_parts;
    SL_CHECK(sl_alloc_zero(sl_counts_size(s->plan->n_layers, n_parts), sizeof *pe->counts, "counts", &pe->counts));
    SL_CHECK(sl_alloc_zero(n_pairs, sizeof *pe->packed, "packed rows", &pe->packed));
    SL_CHECK(sl_alloc_zero(n_pairs, sizeof *pe->sent, "packed gradients", &pe->sent));
    SL_CHECK(sl_alloc_zero(n_pairs, sizeof *pe->packed_row, "places of rows", &pe->packed_row));
    return sl_alloc_zero(n_pairs, sizeof *pe->sent_row, "places of gradients", &pe->sent_row);
}

static enum sl_status open_pes(struct sl_steps *s)
{
    uint32_t n = s->settings->depth * s->plan->n_pes;
    SL_CHECK(sl_alloc_zero(n, sizeof *s->slot_pe, "PEs", &s->slot_pe));
    SL_CHECK(sl_alloc_zero(n, sizeof *s->slot_rows, "rows of the PEs", &s->slot_rows));
    for (uint32_t i = 0; i < n; i++) {
        SL_CHECK(open_pe(s, &s->slot_pe[i]));
    }
    return SL_OK;
}

static void close_pes(struct sl_steps *s)
{
    if (s->slot_pe != NULL) {
        for (uint32_t i = 0; i < s->settings->depth * s->plan->n_pes; i++) {
            struct sl_step_pe *pe = &s->slot_pe[i];
            sl_free(pe->counts);
            sl_free(pe->packed);
            sl_free(pe->sent);
            sl_free(pe->packed_row);
            sl_free(pe->sent_row);
        }
    }
    sl_free(s->slot_pe);
    if (s->slot_rows != NULL) {
        for (uint32_t i = 0; i < s->settings->depth * s->plan->n_pes; i++) {
            end_rows(&s->slot_rows[i], s->model->n_layers, sl_rows_drop);
        }
    }
    sl_free(s->slot_rows);
}

static enum sl_status open_tables(struct sl_steps *s)
{
    SL_CHECK(sl_alloc_zero(s->plan->n_pes, sizeof *s->tables, "tables of features", &s->tables));
    for (uint32_t p = s->plan->first_pe; p < s->plan->end_pe; p++) {
        struct sl_shard *part = sl_step_shard(s, p);
        s->tables[p] = (struct sl_rows){.split = {.n_rows = part->end - part->first, .shift = 31, .n_chunks = 1},
                                        .n_columns = s->shards->n_features,
                                        .room = 1,
                                        .chunk = &part->features};
    }
    return SL_OK;
}

static enum sl_status open_slots(struct sl_steps *s)
{
    struct sl_slot_shape shape = {.plan = s->plan, .shards = s->shards};
    uint64_t most = s->plan->adapts ? s->shards->n_train : s->plan->batch; /* a slot is no larger in a later epoch */
    uint64_t n_seeds = most / s->plan->n_groups + 1;
    shape.n_seeds = n_seeds < s->shards->n_train ? (uint32_t)n_seeds : s->shards->n_train;
    shape.full = s->settings->sampler == SL_SAMPLER_FULL;
    shape.max_fanout = s->max_fanout;
    shape.replaced = s->settings->replace;
    shape.importance = sl_step_important(s);
    shape.layers = sl_settings_by_layers(s->settings);
    shape.attends = sl_step_layer(s, s->plan->n_layers - 1)->kind->sum->sides != NULL;
    if (s->plan->first_hop > 0) {
        shape.link_rows = sl_settings_link_ends(s->settings);
        if (s->settings->link_exclude != SL_LINK_EXCLUDE_NONE) {
            shape.n_excluded = sl_excluded_entries(2 * sl_min_u64(s->plan->batch, s->shards->n_train));
        }
    }
    shape.lock = SL_SLOT_LOCK_NONE;
    if (s->run->has_cuda) {
        shape.lock = s->run->gpus_first ? SL_SLOT_LOCK_READ : SL_SLOT_LOCK_ALL;
    }
    for (uint32_t hop = s->plan->first_hop; hop < s->plan->n_layers; hop++) {
        shape.fanout[hop] = s->hop[hop].most_edges;
    }
    for (uint32_t hop = 0; hop < s->plan->n_layers; hop++) {
        shape.returns[hop] = sl_step_layer(s, hop)->returns;
    }
    SL_CHECK(sl_alloc_zero(s->settings->depth, sizeof *s->slot, "the ring", &s->slot));
    for (uint32_t i = 0; i < s->settings->depth; i++) {
        SL_CHECK(sl_slot_open(&shape, &s->slot[i]));
    }
    return SL_OK;
}

static void close_slots(struct sl_steps *s)
{
    if (s->slot != NULL) {
        for (uint32_t i = 0; i < s->settings->depth; i++) {
            sl_slot_close(&s->slot[i]);
        }
    }
    sl_free(s->slot);
    s->slot = NULL;
}

enum sl_status sl_steps_resize(struct sl_steps *s)
{
    close_slots(s);
    return open_slots(s);
}

uint64_t sl_steps_slot_bytes(const struct sl_steps *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->settings->depth; i++) {
        bytes += s->slot[i].n_bytes;
    }
    return bytes;
}

#define TEAMS_OF_A_WORKER 2 /* with fewer teams workers wait; with more, StarPU's cost per task exceeds the gain */

/* The number of PEs in a team. PEs form teams if one process has all rows in one memory and no PE is bound to a
 * worker or GPU. There are two teams per worker, so that all workers have tasks. Otherwise 1: each PE is a team of
 * its own. */
static uint32_t team_size(const struct sl_plan *plan, const struct sl_run *run)
{
    const uint32_t most = TEAMS_OF_A_WORKER * run->n_workers;
    const bool together = plan->n_ranks == 1 && run->n_gpus <= 1 && run->homes == NULL;
    return together ? (plan->n_parts + most - 1) / most : 1;
}

/* A bundle holds back the tasks of several PEs and submits them as one. A bundle consists of whole teams, and there
 * are at most as many bundles as a group may have teams. Runs with several ranks, homes or GPUs, and traced runs,
 * need each task by itself. */
static enum sl_status open_bundles(const struct sl_steps *s)
{
    const uint32_t most = TEAMS_OF_A_WORKER * s->run->n_workers;
    const uint32_t n = (s->plan->n_pes + most - 1) / most;
    const bool together = s->plan->n_ranks == 1 && s->run->homes == NULL && !s->run->has_cuda && !s->run->traced;
    if (together && n > 1) {
        return sl_bundles_open(s->run, s->plan->n_pes, (n + s->team - 1) / s->team * s->team);
    }
    return SL_OK;
}

static void open_pass(struct sl_steps *s, const struct sl_block_source *source)
{
    s->pass = (struct sl_pass){.plan = s->plan,
                               .run = s->run,
                               .shards = s->shards,
                               .model = s->model,
                               .training = true,
                               .keeps = true,
                               .dropout = s->settings->dropout,
                               .input_dropout = s->settings->input_dropout,
                               .seed = s->settings->seed,
                               .source = source,
                               .owner = s};
}

enum sl_status sl_steps_open(const struct sl_work *work, const struct sl_block_source *source, uint64_t first_step,
                             struct sl_steps *out)
{
    const struct sl_plan *plan = work->plan;
    const bool by_keys = work->settings->sampler == SL_SAMPLER_LABOR || work->settings->kappa != 1 ||
                         work->settings->edge_weights == SL_EDGE_WEIGHTS_PROBABILITY;
    enum sl_status st;
    *out = (struct sl_steps){.settings = work->settings, .plan = plan, .run = work->run, .shards = work->shards};
    out->model = work->model;
    out->transport = work->transport;
    out->team = team_size(plan, work->run);
    out->replicas = (struct sl_replicas){.settings = work->settings,
                                         .plan = plan,
                                         .run = work->run,
                                         .replica = work->model,
                                         .transport = work->transport};
    out->n_sampled = first_step;
    out->n_ordered = sl_plan_epoch(plan, first_step);
    for (uint32_t hop = plan->first_hop; hop < plan->n_layers; hop++) {
        open_hop(out, hop, &out->hop[hop]);
        const uint32_t fanout = out->hop[hop].rule.fanout;
        if (by_keys && fanout != SL_FANOUT_ALL) {
            out->max_fanout = sl_max_u32(out->max_fanout, fanout);
        }
    }
    open_pass(out, source);
    SL_TRY(st, open_bundles(out), undo);
    SL_TRY(st, open_partials(out), undo);
    SL_TRY(st, sl_alloc_zero(plan->n_groups, sizeof *out->pass.group, "groups", &out->pass.group), undo);
    SL_TRY(st, sl_alloc((size_t)plan->n_parts * plan->n_parts, sizeof *out->parcels, "parcels", &out->parcels), undo);
    SL_TRY(st, open_pes(out), undo);
    SL_TRY(st, open_tables(out), undo);
    SL_TRY(st, open_orders(out), undo);
    SL_TRY(st, open_slots(out), undo);
    SL_TRY(st, sl_alloc(work->settings->depth, sizeof *out->scale, "factors of the losses", &out->scale), undo);
    SL_TRY(st, sl_replicas_open(&out->replicas), undo);
    return SL_OK;
undo:
    sl_steps_close(out);
    return st;
}

void sl_steps_close(struct sl_steps *steps)
{
    sl_feature_cache_close(&steps->cache);
    close_slots(steps);
    sl_free(steps->scale);
    for (int i = 0; i < 2; i++) {
        sl_handle_close(steps->order_handle[i]);
        sl_free(steps->order[i]);
    }
    sl_handle_close(steps->keys);
    close_pes(steps);
    sl_free(steps->tables);
    close_partials(steps);
    if (steps->pass.group != NULL) {
        for (uint32_t r = 0; r < steps->plan->n_groups; r++) {
            close_group(&steps->pass.group[r]);
        }
    }
    sl_free(steps->pass.group);
    sl_free(steps->parcels);
    sl_replicas_close(&steps->replicas);
    if (steps->run != NULL) {
        sl_bundles_close(steps->run);
    }
    *steps = (struct sl_steps){0};
}
