/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What steps stand on: the ring of slots, its sizes, and the clearing up. */
#include "runtime/minibatch/ring.h"

#include <string.h>

#include "codelets/exchange.h"
#include "runtime/minibatch/sampled.h"
#include "runtime/plan/plan.h"
#include "support/memory.h"

/* ---- sizes ---- */

static void split_levels(const struct sl_steps *s, uint32_t p)
{
    struct sl_pass_pe *pe = &s->pass.pe[p];
    uint32_t shift = SL_MIN_CHUNK_SHIFT;
    for (uint32_t level = 0; level <= s->n_hops; level++) {
        pe->split[level] = sl_split_rows(s->pe[p].counts[sl_counts_rows(level)], s->settings->chunks, shift);
        shift = pe->split[level].shift;
    }
}

/* The layer that aggregates over a hop's edges. */
static const struct sl_layer *layer_of_hop(const struct sl_steps *s, uint32_t hop)
{
    const struct sl_layer *layer = s->model->layer;
    while (layer->level != hop || layer->from == hop) {
        layer++;
    }
    return layer;
}

/* Bytes of the feature rows that PE p reads: dense rows, or the sparse rows' columns and values. */
static uint64_t feature_bytes(const struct sl_steps *s, uint32_t p)
{
    const uint32_t *counts = s->pe[p].counts;
    uint64_t n;
    if (!s->shards->is_sparse) {
        return (uint64_t)counts[sl_counts_rows(s->n_hops)] * s->shards->n_features * sizeof(float);
    }
    memcpy(&n, counts + sl_counts_nonzeros(s->n_hops, s->shards->n_parts), sizeof n);
    return n * (sizeof(float) + sizeof(uint32_t));
}

static void add_sizes(const struct sl_steps *s, uint32_t p, struct sl_step_sizes *sizes)
{
    const uint32_t *counts = s->pe[p].counts;
    uint32_t n_parts = s->shards->n_parts;
    for (uint32_t level = 0; level <= s->n_hops; level++) {
        sizes->vertices[level] += counts[sl_counts_rows(level)];
    }
    for (uint32_t hop = 0; hop < s->n_hops; hop++) {
        const struct sl_layer *layer = layer_of_hop(s, hop);
        uint64_t row = sizeof(sl_real) * layer->travels;
        const uint32_t *first = counts + sl_counts_request(s->n_hops, n_parts, hop);
        uint64_t n_ids = first[n_parts] - sl_list_count(first, p % n_parts);
        sizes->edges[hop] += counts[sl_counts_edges(s->n_hops, hop)];
        sizes->id_bytes += n_ids * sizeof(sl_vertex);
        sizes->row_bytes += n_ids * row;
        sizes->row_gradient_bytes += layer != s->model->layer || layer->project_first ? n_ids * row : 0;
    }
    sizes->feature_bytes += feature_bytes(s, p);
}

static uint64_t model_bytes(const struct sl_steps *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->model->n_layers; i++) {
        for (int k = 0; k < SL_N_PARAMETERS; k++) {
            const struct sl_parameter *parameter = &s->model->layer[i].parameter[k];
            n += sl_parameter_trained(parameter) ? (uint64_t)parameter->n_rows * parameter->n_columns : 0;
        }
    }
    return n * sizeof(sl_real);
}

void sl_step_take(struct sl_steps *s, uint64_t step)
{
    uint64_t first = step % s->settings->depth * s->n_pes;
    s->pe = s->slot_pe + first;
    s->pass.pe = s->slot_rows + first;
    s->pass.step = step;
}

enum sl_status sl_step_sizes(struct sl_steps *s, uint64_t step, struct sl_step_sizes *sizes_out)
{
    size_t bytes = sl_counts_size(s->n_hops, s->shards->n_parts) * sizeof(uint32_t);
    struct sl_step_sizes sizes = {.n_seeds = sl_step_seeds(s, step).n};
    sizes.weight_bytes = sl_replicas_traffic(s) * model_bytes(s);
    sizes.id_bytes = sl_step_ring(s) ? sizes.n_seeds * sizeof(sl_vertex) : 0;
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; p < s->n_pes; p++) {
        starpu_data_handle_t handle = sl_step_slot(s, step, p)->counts;
        SL_TRY(st, sl_handle_acquire(handle, STARPU_MAIN_RAM, STARPU_R), done);
        memcpy(s->pe[p].counts, starpu_data_get_local_ptr(handle), bytes);
        starpu_data_release(handle);
        SL_TRY(st, sl_failure_status(&s->run->failure), done);
        split_levels(s, p);
        add_sizes(s, p, &sizes);
    }
    *sizes_out = sizes;
done:
    return st;
}

/* ---- clearing up ---- */

/* Lists of partial gradients. */
static uint32_t n_gradients(const struct sl_steps *s)
{
    return s->model->n_layers * s->n_replicas * s->crossing.n_sums * SL_N_PARAMETERS;
}

/* Call `end` for all rows of a PE. */
static void end_rows(struct sl_pass_pe *pe, void (*end)(struct sl_rows *))
{
    end(&pe->features);
    for (uint32_t i = 0; i < SL_MAX_MODEL_LAYERS; i++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            end(&pe->layer[i][role]);
        }
    }
}

void sl_step_drop(struct sl_steps *s)
{
    for (uint32_t p = 0; s->pe != NULL && p < s->n_pes; p++) {
        end_rows(&s->pass.pe[p], sl_rows_keep);
        memset(s->pe[p].packed, 0, s->shards->n_parts * sizeof *s->pe->packed);
        memset(s->pe[p].sent, 0, s->shards->n_parts * sizeof *s->pe->sent);
    }
    for (uint32_t k = 0; k < n_gradients(s); k++) {
        s->gradients[k].n = 0;
    }
    s->losses.n = 0;
}

/* ---- partials ---- */

static enum sl_status open_partials(struct sl_steps *s)
{
    uint32_t n_lists = n_gradients(s);
    uint32_t n = s->n_pes * s->settings->chunks;
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero(n_lists, sizeof *s->gradients, "partial gradients", &s->gradients), done);
    for (uint32_t k = 0; k < n_lists; k++) {
        SL_TRY(st, sl_partials_open(n / s->n_replicas, &s->gradients[k]), done);
    }
    SL_TRY(st, sl_partials_open(n, &s->losses), done);
    SL_TRY(st, sl_partials_open(n, &s->pass.batch.moments), done);
    SL_TRY(st, sl_partials_open(n, &s->pass.batch.sums), done);
    SL_TRY(st, sl_partials_open(s->n_groups, &s->pass.batch.unbiased), done);
    st = sl_alloc_zero(n, sizeof *s->pass.batch.chunk_rows, "chunk sizes", &s->pass.batch.chunk_rows);
done:
    return st;
}

static void close_partials(struct sl_steps *s)
{
    for (uint32_t k = 0; s->gradients != NULL && k < n_gradients(s); k++) {
        sl_partials_close(&s->gradients[k]);
    }
    sl_free(s->gradients);
    sl_partials_close(&s->losses);
    sl_partials_close(&s->pass.batch.moments);
    sl_partials_close(&s->pass.batch.sums);
    sl_partials_close(&s->pass.batch.unbiased);
    sl_free(s->pass.batch.chunk_rows);
}

static void close_group(struct sl_pass_group *group)
{
    for (uint32_t i = 0; i < SL_MAX_MODEL_LAYERS; i++) {
        sl_handle_close(group->statistics[i]);
        sl_handle_close(group->sums[i]);
    }
}

/* ---- open, close ---- */

static enum sl_status open_orders(struct sl_steps *s)
{
    uint32_t n = s->shards->n_train;
    enum sl_status st = SL_OK;
    for (int i = 0; i < 2; i++) {
        SL_TRY(st, sl_alloc(n, sizeof *s->order[i], "the epoch's order", &s->order[i]), done);
        starpu_vector_data_register(&s->order_handle[i], STARPU_MAIN_RAM, (uintptr_t)s->order[i], n, sizeof **s->order);
    }
    starpu_vector_data_register(&s->keys, -1, 0, n, sizeof(struct sl_permute_key));
done:
    return st;
}

static enum sl_status open_pe(const struct sl_steps *s, struct sl_step_pe *pe)
{
    uint32_t n_parts = s->shards->n_parts;
    enum sl_status st;
    SL_TRY(st, sl_alloc(sl_counts_size(s->n_hops, n_parts), sizeof *pe->counts, "counts", &pe->counts), done);
    SL_TRY(st, sl_alloc_zero(n_parts, sizeof *pe->packed, "packed rows", &pe->packed), done);
    SL_TRY(st, sl_alloc_zero(n_parts, sizeof *pe->sent, "packed gradients", &pe->sent), done);
done:
    return st;
}

static enum sl_status open_pes(struct sl_steps *s)
{
    uint32_t n = s->settings->depth * s->n_pes;
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero(n, sizeof *s->slot_pe, "PEs", &s->slot_pe), done);
    SL_TRY(st, sl_alloc_zero(n, sizeof *s->slot_rows, "rows of the PEs", &s->slot_rows), done);
    for (uint32_t i = 0; i < n; i++) {
        SL_TRY(st, open_pe(s, &s->slot_pe[i]), done);
    }
done:
    return st;
}

static void close_pes(struct sl_steps *s)
{
    for (uint32_t i = 0; s->slot_pe != NULL && i < s->settings->depth * s->n_pes; i++) {
        struct sl_step_pe *pe = &s->slot_pe[i];
        sl_free(pe->counts);
        sl_free(pe->packed);
        sl_free(pe->sent);
    }
    sl_free(s->slot_pe);
    for (uint32_t i = 0; s->slot_rows != NULL && i < s->settings->depth * s->n_pes; i++) {
        end_rows(&s->slot_rows[i], sl_rows_drop);
    }
    sl_free(s->slot_rows);
}

static enum sl_status open_slots(struct sl_steps *s)
{
    struct sl_slot_shape shape = {.shards = s->shards, .n_pes = s->n_pes, .n_hops = s->n_hops};
    uint64_t n_seeds = (uint64_t)s->settings->batch_size * s->n_pes / s->n_groups + 1;
    enum sl_status st;
    shape.n_seeds = n_seeds < s->shards->n_train ? (uint32_t)n_seeds : s->shards->n_train;
    shape.full = s->settings->sampler == SL_SAMPLER_FULL;
    shape.max_fanout = s->max_fanout;
    shape.lock = !s->run->has_cuda ? SL_SLOT_LOCK_NONE : s->run->gpus_first ? SL_SLOT_LOCK_READ : SL_SLOT_LOCK_ALL;
    for (uint32_t hop = 0; hop < s->n_hops; hop++) {
        shape.fanout[hop] = sl_step_rule(s, hop).fanout;
    }
    SL_TRY(st, sl_alloc_zero(s->settings->depth, sizeof *s->slot, "the ring", &s->slot), done);
    for (uint32_t i = 0; i < s->settings->depth; i++) {
        SL_TRY(st, sl_slot_open(&shape, &s->slot[i]), done);
    }
done:
    return st;
}

/* All slots' buffers. */
static uint64_t slot_bytes(const struct sl_steps *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->settings->depth; i++) {
        bytes += s->slot[i].n_bytes;
    }
    return bytes;
}

static void open_pass(struct sl_steps *s)
{
    s->pass = (struct sl_pass){.run = s->run,
                               .shards = s->shards,
                               .model = s->model,
                               .n_replicas = s->n_replicas,
                               .n_pes = s->n_pes,
                               .n_groups = s->n_groups,
                               .training = true,
                               .dropout = s->settings->dropout,
                               .input_dropout = s->settings->input_dropout,
                               .seed = s->settings->seed,
                               .source = &sl_sampled,
                               .owner = s};
}

enum sl_status sl_steps_open(const struct sl_settings *settings, struct sl_run *run, struct sl_shards *shards,
                             struct sl_model *model, uint64_t first_step, uint64_t n_steps, struct sl_steps *out)
{
    enum sl_status st;
    uint64_t batch = (uint64_t)settings->pes * settings->batch_size;
    *out = (struct sl_steps){.settings = settings, .run = run, .shards = shards, .model = model};
    out->n_pes = settings->pes;
    out->n_replicas = sl_replicas_count(settings);
    out->n_groups = settings->pes / shards->n_parts;
    out->n_hops = settings->layers;
    out->n_per_epoch = (uint32_t)((shards->n_train + batch - 1) / batch);
    out->n_steps = n_steps;
    out->n_sampled = first_step;
    out->n_ordered = first_step / (out->n_per_epoch == 0 ? 1 : out->n_per_epoch);
    for (uint32_t hop = 0; settings->sampler == SL_SAMPLER_LABOR && hop < out->n_hops; hop++) {
        out->max_fanout = settings->fanout[hop] > out->max_fanout ? settings->fanout[hop] : out->max_fanout;
    }
    open_pass(out);
    SL_TRY(st, sl_crossing_open(out), undo);
    SL_TRY(st, open_partials(out), undo);
    SL_TRY(st, sl_alloc_zero(out->n_groups, sizeof *out->pass.group, "groups", &out->pass.group), undo);
    SL_TRY(st, open_pes(out), undo);
    SL_TRY(st, open_orders(out), undo);
    SL_TRY(st, open_slots(out), undo);
    SL_TRY(st, sl_feature_cache_open(settings, run, shards, slot_bytes(out), &out->cache), undo);
    return SL_OK;
undo:
    sl_steps_close(out);
    return st;
}

void sl_steps_close(struct sl_steps *steps)
{
    sl_feature_cache_close(&steps->cache);
    for (uint32_t i = 0; steps->slot != NULL && i < steps->settings->depth; i++) {
        sl_slot_close(&steps->slot[i]);
    }
    sl_free(steps->slot);
    for (int i = 0; i < 2; i++) {
        sl_handle_close(steps->order_handle[i]);
        sl_free(steps->order[i]);
    }
    sl_handle_close(steps->keys);
    close_pes(steps);
    close_partials(steps);
    sl_crossing_close(steps);
    for (uint32_t r = 0; steps->pass.group != NULL && r < steps->n_groups; r++) {
        close_group(&steps->pass.group[r]);
    }
    sl_free(steps->pass.group);
    *steps = (struct sl_steps){0};
}
