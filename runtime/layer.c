/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Layers as loops of submissions over PEs and chunks. Rows get their shape just before their writer and are kept for a later step
 * just after their last reader. */
#include "runtime/layer.h"

#include <string.h>

#include "codelets/activate.h"
#include "codelets/aggregate.h"
#include "codelets/batchnorm.h"
#include "codelets/exchange.h"
#include "codelets/reduce.h"

/* A layer of a step, as the functions below see it. */
struct at {
    struct sl_steps *s;
    uint64_t step;
    uint32_t i;     /* layer */
    uint32_t from;  /* level of its input */
    uint32_t level; /* level of its output, and its hop */
    struct sl_layer *layer;
};

static struct at at_layer(struct sl_steps *s, uint64_t step, uint32_t i)
{
    uint32_t from = s->n_hops - i;
    return (struct at){s, step, i, from, from - 1, &s->model->layer[i]};
}

static struct sl_task_args head_of(const struct at *a, uint32_t p)
{
    return sl_step_head(a->s, a->step, p, a->level);
}

static struct sl_block *block_of(const struct at *a, uint32_t p)
{
    return &sl_step_slot(a->s, a->step, p)->block[a->level];
}

/* The row where chunk c of the output level begins, which is the same row of the input level. */
static uint32_t chunk_row(const struct sl_step_pe *pe, uint32_t level, uint32_t c)
{
    return c << pe->split[level].shift;
}

/* The positions where each owner's ids begin in PE p's request of this hop, and how many it asks of owner q. */
static const uint32_t *first_source(const struct at *a, uint32_t p)
{
    return a->s->pe[p].counts + sl_counts_request(a->s->n_hops, a->s->shards->n_parts, a->level);
}
static uint32_t n_asked(const struct at *a, uint32_t p, uint32_t q)
{
    return sl_list_count(first_source(a, p), q);
}

/* The slot's handles for the rows that PE p gets from owner q, and for the gradients it returns. */
static starpu_data_handle_t *kept_packed(const struct at *a, uint32_t p, uint32_t q)
{
    return &sl_step_slot(a->s, a->step, p)->packed[a->level * a->s->shards->n_parts + q];
}
static starpu_data_handle_t *kept_sent(const struct at *a, uint32_t p, uint32_t q)
{
    return &sl_step_slot(a->s, a->step, p)->sent[a->level * a->s->shards->n_parts + q];
}

/* A parameter of the replica that PE p trains. */
static starpu_data_handle_t value_of(const struct at *a, uint32_t p, int parameter)
{
    return a->s->model[sl_step_replica(a->s, p)].layer[a->i].parameter[parameter].value_handle;
}

/* The list of its partial gradients. */
static struct sl_partials *partials_of(const struct at *a, uint32_t p, int parameter)
{
    return sl_step_partials(a->s, a->i, sl_step_replica(a->s, p), sl_crossing_sum_of(a->s, p), parameter);
}

static bool sparse_input(const struct at *a)
{
    return a->i == 0 && a->s->shards->is_sparse;
}

static struct sl_sparse sparse_rows(const struct at *a, uint32_t p)
{
    struct sl_sparse x = sl_step_shard(a->s, p)->sparse;
    x.frontier = sl_step_slot(a->s, a->step, p)->frontier;
    return x;
}

/* ---- products with the layer's input rows, dense or sparse ---- */

/* z (a chunk whose first row is `row` of the input level) = or += h W. */
static enum sl_status multiply(const struct at *a, uint32_t p, uint32_t row, int parameter, starpu_data_handle_t bias,
                               starpu_data_handle_t z)
{
    const struct sl_step_pe *pe = &a->s->pe[p];
    struct sl_task_args head = head_of(a, p);
    uint32_t shift = pe->split[a->from].shift;
    if (sparse_input(a)) {
        struct sl_sparse x = sparse_rows(a, p);
        return sl_dense_sparse_forward_submit(&head, &x, row, a->s->settings->input_dropout, a->s->settings->seed,
                                              value_of(a, p, parameter), bias, 0, z);
    }
    return sl_dense_forward_submit(&head, pe->h[a->from].chunk[row >> shift], row & ((1u << shift) - 1),
                                   value_of(a, p, parameter), bias, 0, z);
}

/* A further partial gradient of a parameter. */
static enum sl_status next_partial(const struct at *a, uint32_t p, int parameter, starpu_data_handle_t *out)
{
    const struct sl_parameter *shape = &a->layer->parameter[parameter];
    return sl_partials_next(partials_of(a, p, parameter), shape->n_rows, shape->n_columns, sizeof(sl_real), out);
}

/* GW (and the bias gradient) of one chunk of gz whose rows begin at `row` of the input level. Dense chunks leave a partial
 * each; sparse ones, whose matrices are large, add to one partial per PE, one after the other. */
static enum sl_status weight_gradient(const struct at *a, uint32_t p, uint32_t row, int parameter, bool with_bias,
                                      starpu_data_handle_t gz)
{
    const struct sl_step_pe *pe = &a->s->pe[p];
    struct sl_task_args head = head_of(a, p);
    starpu_data_handle_t gw = NULL;
    starpu_data_handle_t gb = NULL;
    enum sl_status st;
    int beta = sparse_input(a) && row > 0;
    if (beta) {
        const struct sl_partials *weights = partials_of(a, p, parameter);
        const struct sl_partials *biases = partials_of(a, p, SL_BIAS);
        gw = weights->handle[weights->n - 1];
        gb = with_bias ? biases->handle[biases->n - 1] : NULL;
    } else {
        SL_TRY(st, next_partial(a, p, parameter, &gw), done);
        SL_TRY(st, with_bias ? next_partial(a, p, SL_BIAS, &gb) : SL_OK, done);
    }
    if (sparse_input(a)) {
        struct sl_sparse x = sparse_rows(a, p);
        st = sl_dense_sparse_backward_weight_submit(&head, &x, row, a->s->settings->input_dropout, a->s->settings->seed,
                                                    gz, beta, gw, gb);
    } else {
        uint32_t shift = pe->split[a->from].shift;
        st = sl_dense_backward_weight_submit(&head, pe->h[a->from].chunk[row >> shift], row & ((1u << shift) - 1), gz,
                                             gw, gb);
    }
done:
    return st;
}

/* ---- forward ---- */

/* y = h W_neigh, for all rows of the input level. */
static enum sl_status project(const struct at *a)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; p < a->s->n_pes; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        SL_TRY(st, sl_rows_reshape(&pe->split[a->from], a->layer->n_out, sizeof(sl_real), &pe->projected[a->from]),
               done);
        for (uint32_t c = 0; c < pe->split[a->from].n_chunks; c++) {
            SL_TRY(st, multiply(a, p, chunk_row(pe, a->from, c), SL_NEIGH, NULL, pe->projected[a->from].chunk[c]),
                   done);
        }
    }
done:
    return st;
}

/* The rows that travel and are averaged: what the layer takes in, or its projection. */
static const struct sl_rows *exchanged(const struct at *a, uint32_t p)
{
    return a->layer->project_first ? &a->s->pe[p].projected[a->from] : &a->s->pe[p].h[a->from];
}

/* PE `owner` packs the rows that the other PEs of its group asked it for. */
static enum sl_status pack(const struct at *a, uint32_t owner)
{
    uint32_t n_parts = a->s->shards->n_parts;
    uint32_t q = owner % n_parts;
    const struct sl_rows *rows = exchanged(a, owner);
    uint32_t requester[SL_MAX_PES];
    starpu_data_handle_t packed[SL_MAX_PES];
    starpu_data_handle_t *kept;
    uint32_t n = 0;
    struct sl_task_args head = head_of(a, owner);
    enum sl_status st = SL_OK;
    for (uint32_t peer = 0; peer < n_parts; peer++) {
        uint32_t p = sl_step_peer(a->s, owner, peer);
        if (p == owner || n_asked(a, p, q) == 0) {
            continue;
        }
        kept = kept_packed(a, p, q);
        SL_TRY(st, sl_matrix_reshape(n_asked(a, p, q), rows->n_columns, sizeof(sl_real), kept), done);
        requester[n] = peer;
        packed[n++] = a->s->pe[p].packed[q] = *kept;
    }
    if (n > 0) {
        st = sl_pack_submit(&head, rows, n_parts, block_of(a, owner)->inverse, n, requester, packed);
    }
done:
    return st;
}

/* Rows go to the PEs of the group that asked for them. */
static enum sl_status exchange(const struct at *a)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; st == SL_OK && p < a->s->n_pes; p++) {
        st = pack(a, p);
    }
    return st == SL_OK ? sl_crossing_rows(a->s, a->step, a->level, false) : st;
}

/* The mean of each destination's sources, into chunk c of `out`. */
static enum sl_status aggregate(const struct at *a, uint32_t p, uint32_t c, int beta, const struct sl_rows *out)
{
    const struct sl_step_pe *pe = &a->s->pe[p];
    const struct sl_block *block = block_of(a, p);
    uint32_t n_parts = a->s->shards->n_parts;
    struct sl_task_args head = head_of(a, p);
    struct sl_source_handles sources = {.n_owners = n_parts,
                                        .own = p % n_parts,
                                        .first = first_source(a, p),
                                        .rows = exchanged(a, p),
                                        .inverse = block->inverse,
                                        .packed = pe->packed};
    uint64_t n_edges = pe->counts[sl_counts_edges(a->s->n_hops, a->level)];
    n_edges = n_edges * sl_split_size(&pe->split[a->level], c) / pe->split[a->level].n_rows;
    return sl_aggregate_forward_submit(&head, block->edge_offsets, block->edge_sources, chunk_row(pe, a->level, c),
                                       n_edges, &sources, beta, out->chunk[c]);
}

/* z of one chunk, in the order that the layer's widths ask for. */
static enum sl_status combine(const struct at *a, uint32_t p, uint32_t c)
{
    struct sl_step_pe *pe = &a->s->pe[p];
    struct sl_task_args head = head_of(a, p);
    starpu_data_handle_t z = pe->z[a->level].chunk[c];
    enum sl_status st;
    SL_TRY(st, multiply(a, p, chunk_row(pe, a->level, c), SL_SELF, value_of(a, p, SL_BIAS), z), done);
    if (a->layer->project_first) {
        SL_TRY(st, aggregate(a, p, c, 1, &pe->z[a->level]), done);
    } else {
        const struct sl_rows *mean = &pe->mean[a->level];
        SL_TRY(st, aggregate(a, p, c, 0, mean), done);
        SL_TRY(st, sl_dense_forward_submit(&head, mean->chunk[c], 0, value_of(a, p, SL_NEIGH), NULL, 1, z), done);
    }
done:
    return st;
}

/* The handle of a matrix of two rows that is kept for the run. */
static enum sl_status keep_pair(const struct at *a, starpu_data_handle_t *handle)
{
    return *handle != NULL ? SL_OK : sl_matrix_register(2, a->layer->n_out, sizeof(sl_real), handle);
}

/* Mean and variance of z over the rows of group r, and its unbiased statistics where there are rows. */
static enum sl_status group_statistics(const struct at *a, uint32_t r)
{
    struct sl_partials *moments = &a->s->moments;
    uint32_t first = moments->n;
    uint32_t n_parts = a->s->shards->n_parts;
    uint32_t width = a->layer->n_out;
    uint32_t *n_rows = a->s->chunk_rows;
    struct sl_step_group *group = &a->s->group[r];
    starpu_data_handle_t pair;
    struct sl_task_args head;
    enum sl_status st = SL_OK;
    group->n_rows[a->level] = 0;
    for (uint32_t p = r * n_parts; p < (r + 1) * n_parts; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        head = head_of(a, p);
        for (uint32_t c = 0; c < pe->split[a->level].n_chunks; c++) {
            n_rows[moments->n] = sl_split_size(&pe->split[a->level], c);
            group->n_rows[a->level] += n_rows[moments->n];
            SL_TRY(st, sl_partials_next(moments, 2, width, sizeof(double), &pair), done);
            SL_TRY(st, sl_batchnorm_moments_submit(&head, pe->z[a->level].chunk[c], pair), done);
        }
    }
    if (moments->n > first) {
        head = head_of(a, r * n_parts);
        SL_TRY(st, keep_pair(a, &group->statistics[a->level]), done);
        SL_TRY(st, sl_partials_next(&a->s->unbiased, 2, width, sizeof(double), &pair), done);
        SL_TRY(st,
               sl_batchnorm_merge_submit(&head, moments->n - first, moments->handle + first, n_rows + first,
                                         group->statistics[a->level], pair),
               done);
    }
done:
    return st;
}

/* Statistics of every group, and each replica's running ones over its groups. */
static enum sl_status batch_statistics(const struct at *a)
{
    struct sl_partials *unbiased = &a->s->unbiased;
    uint32_t n_groups = a->s->n_groups / a->s->n_replicas;
    enum sl_status st = SL_OK;
    a->s->moments.n = 0;
    unbiased->n = 0;
    for (uint32_t v = 0; v < a->s->n_replicas; v++) {
        uint32_t first = unbiased->n;
        starpu_data_handle_t running = a->s->model[v].layer[a->i].running_handle;
        struct sl_task_args head = head_of(a, v * n_groups * a->s->shards->n_parts);
        for (uint32_t r = v * n_groups; r < (v + 1) * n_groups; r++) {
            SL_TRY(st, group_statistics(a, r), done);
        }
        if (unbiased->n > first) {
            SL_TRY(st, sl_batchnorm_running_submit(&head, unbiased->n - first, unbiased->handle + first, running),
                   done);
        }
    }
done:
    return st;
}

/* What activate needs to know of the layer, for PE p. */
static struct sl_activate_layer activation(const struct at *a, uint32_t p)
{
    static const enum sl_activate_norm norms[] = {
        [SL_NORM_NONE] = SL_ACTIVATE_PLAIN, [SL_NORM_LAYER] = SL_ACTIVATE_LAYER, [SL_NORM_BATCH] = SL_ACTIVATE_BATCH};
    struct sl_activate_layer layer = {.norm = norms[a->s->model->norm], .dropout = a->s->settings->dropout};
    layer.seed = a->s->settings->seed;
    layer.frontier = sl_step_slot(a->s, a->step, p)->frontier;
    layer.dataset_ids = a->s->shards->dataset_ids;
    if (layer.norm != SL_ACTIVATE_PLAIN) {
        layer.weight = value_of(a, p, SL_NORM_WEIGHT);
        layer.bias = value_of(a, p, SL_NORM_BIAS);
    }
    if (layer.norm == SL_ACTIVATE_BATCH) {
        layer.statistics = a->s->group[p / a->s->shards->n_parts].statistics[a->level];
    }
    return layer;
}

/* h = dropout(ReLU(norm(z))) (+ residual). */
static enum sl_status activate(const struct at *a)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; p < a->s->n_pes; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        const struct sl_split *split = &pe->split[a->level];
        struct sl_activate_layer layer = activation(a, p);
        struct sl_task_args head = head_of(a, p);
        uint32_t shift = pe->split[a->from].shift;
        SL_TRY(st, sl_rows_reshape(split, a->layer->n_out, 1, &pe->gate[a->level]), done);
        SL_TRY(st, sl_rows_reshape(split, a->layer->n_out, sizeof(sl_real), &pe->h[a->level]), done);
        for (uint32_t c = 0; c < split->n_chunks; c++) {
            uint32_t row = chunk_row(pe, a->level, c);
            starpu_data_handle_t residual = a->layer->residual ? pe->h[a->from].chunk[row >> shift] : NULL;
            SL_TRY(st,
                   sl_activate_forward_submit(&head, &layer, row, pe->z[a->level].chunk[c], residual,
                                              row & ((1u << shift) - 1), pe->gate[a->level].chunk[c],
                                              pe->h[a->level].chunk[c]),
                   done);
        }
    }
done:
    return st;
}

static void drop_packed(const struct at *a)
{
    for (uint32_t p = 0; p < a->s->n_pes; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        for (uint32_t q = 0; q < a->s->shards->n_parts; q++) {
            pe->packed[q] = NULL;
            sl_matrix_keep(kept_packed(a, p, q));
        }
        sl_rows_keep(&pe->projected[a->from]);
    }
    sl_crossing_keep(a->s, a->step, a->level, false);
}

enum sl_status sl_layer_forward(struct sl_steps *s, uint64_t step, uint32_t i)
{
    struct at a = at_layer(s, step, i);
    enum sl_status st;
    SL_TRY(st, a.layer->project_first ? project(&a) : SL_OK, done);
    SL_TRY(st, exchange(&a), done);
    for (uint32_t p = 0; p < s->n_pes; p++) {
        struct sl_step_pe *pe = &s->pe[p];
        const struct sl_split *split = &pe->split[a.level];
        SL_TRY(st, sl_rows_reshape(split, a.layer->n_out, sizeof(sl_real), &pe->z[a.level]), done);
        if (!a.layer->project_first) {
            SL_TRY(st, sl_rows_reshape(split, a.layer->n_in, sizeof(sl_real), &pe->mean[a.level]), done);
        }
        for (uint32_t c = 0; c < split->n_chunks; c++) {
            SL_TRY(st, combine(&a, p, c), done);
        }
    }
    drop_packed(&a);
    if (a.layer->hidden) {
        SL_TRY(st, s->model->norm == SL_NORM_BATCH ? batch_statistics(&a) : SL_OK, done);
        SL_TRY(st, activate(&a), done);
    }
done:
    return st;
}

/* ---- backward ---- */

/* Batch norm: [sum GY zhat | sum GY] of group r, which are also its share of the norm's gradients. */
static enum sl_status group_sums(const struct at *a, uint32_t r)
{
    struct sl_partials *sums = &a->s->sums;
    uint32_t first = sums->n;
    uint32_t n_parts = a->s->shards->n_parts;
    starpu_data_handle_t *sum = &a->s->group[r].sums[a->level];
    starpu_data_handle_t share;
    struct sl_task_args head;
    enum sl_status st = SL_OK;
    for (uint32_t p = r * n_parts; p < (r + 1) * n_parts; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        struct sl_activate_layer layer = activation(a, p);
        head = head_of(a, p);
        for (uint32_t c = 0; c < pe->split[a->level].n_chunks; c++) {
            SL_TRY(st, sl_partials_next(sums, 2, a->layer->n_out, sizeof(sl_real), &share), done);
            SL_TRY(st,
                   sl_activate_batch_sums_submit(&head, &layer, pe->z[a->level].chunk[c], pe->gate[a->level].chunk[c],
                                                 pe->gh[a->level].chunk[c], share),
                   done);
        }
    }
    head = head_of(a, r * n_parts);
    SL_TRY(st, keep_pair(a, sum), done);
    st = sl_reduce_submit(&head, sums->n - first, sums->handle + first, *sum);
done:
    return st;
}

/* Batch norm: sums of every group, and each replica's gradients of the norm over its groups. */
static enum sl_status batch_sums(const struct at *a)
{
    starpu_data_handle_t of_groups[SL_MAX_PES];
    uint32_t n_groups = a->s->n_groups / a->s->n_replicas;
    enum sl_status st = SL_OK;
    a->s->sums.n = 0;
    for (uint32_t r = 0; r < a->s->n_groups; r++) {
        SL_TRY(st, group_sums(a, r), done);
        of_groups[r] = a->s->group[r].sums[a->level];
    }
    for (uint32_t v = 0; v < a->s->n_replicas; v++) {
        const struct sl_parameter *parameter = a->s->model[v].layer[a->i].parameter;
        struct sl_task_args head = head_of(a, v * n_groups * a->s->shards->n_parts);
        SL_TRY(st,
               sl_batchnorm_gradient_submit(&head, n_groups, of_groups + v * n_groups,
                                            parameter[SL_NORM_WEIGHT].gradient_handle,
                                            parameter[SL_NORM_BIAS].gradient_handle),
               done);
    }
done:
    return st;
}

/* gz from gh, through dropout, ReLU and norm. */
static enum sl_status deactivate(const struct at *a)
{
    bool batch = a->s->model->norm == SL_NORM_BATCH;
    enum sl_status st = SL_OK;
    SL_TRY(st, batch ? batch_sums(a) : SL_OK, done);
    for (uint32_t p = 0; p < a->s->n_pes; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        struct sl_step_group *group = &a->s->group[p / a->s->shards->n_parts];
        struct sl_activate_layer layer = activation(a, p);
        struct sl_task_args head = head_of(a, p);
        SL_TRY(st, sl_rows_reshape(&pe->split[a->level], a->layer->n_out, sizeof(sl_real), &pe->gz[a->level]), done);
        for (uint32_t c = 0; c < pe->split[a->level].n_chunks; c++) {
            starpu_data_handle_t gw = NULL;
            starpu_data_handle_t gb = NULL;
            if (layer.norm == SL_ACTIVATE_LAYER) {
                SL_TRY(st, next_partial(a, p, SL_NORM_WEIGHT, &gw), done);
                SL_TRY(st, next_partial(a, p, SL_NORM_BIAS, &gb), done);
            }
            SL_TRY(st,
                   sl_activate_backward_submit(&head, &layer, pe->z[a->level].chunk[c], pe->gate[a->level].chunk[c],
                                               pe->gh[a->level].chunk[c], batch ? group->sums[a->level] : NULL,
                                               batch ? group->n_rows[a->level] : 0, pe->gz[a->level].chunk[c], gw, gb),
                   done);
        }
    }
done:
    return st;
}

/* Gradients of W_self and the bias, chunk by chunk. */
static enum sl_status self_gradient(const struct at *a)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; p < a->s->n_pes; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        for (uint32_t c = 0; c < pe->split[a->level].n_chunks; c++) {
            SL_TRY(st, weight_gradient(a, p, chunk_row(pe, a->level, c), SL_SELF, true, pe->gz[a->level].chunk[c]),
                   done);
        }
    }
done:
    return st;
}

/* Not projecting first: gradient of W_neigh from the mean, and of the mean unless nothing below wants it. */
static enum sl_status mean_gradient(const struct at *a)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; p < a->s->n_pes; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        struct sl_task_args head = head_of(a, p);
        if (a->i > 0) {
            SL_TRY(st, sl_rows_reshape(&pe->split[a->level], a->layer->n_in, sizeof(sl_real), &pe->ga[a->level]), done);
        }
        for (uint32_t c = 0; c < pe->split[a->level].n_chunks; c++) {
            starpu_data_handle_t gw;
            SL_TRY(st, next_partial(a, p, SL_NEIGH, &gw), done);
            SL_TRY(st,
                   sl_dense_backward_weight_submit(&head, pe->mean[a->level].chunk[c], 0, pe->gz[a->level].chunk[c], gw,
                                                   NULL),
                   done);
            if (a->i > 0) {
                SL_TRY(st,
                       sl_dense_backward_input_submit(&head, pe->gz[a->level].chunk[c], value_of(a, p, SL_NEIGH), 0,
                                                      pe->ga[a->level].chunk[c], 0),
                       done);
            }
        }
    }
done:
    return st;
}

/* The gradient that travels back: of the mean, or of z where the layer projects first. */
static const struct sl_rows *returned(const struct at *a, uint32_t p)
{
    return a->layer->project_first ? &a->s->pe[p].gz[a->level] : &a->s->pe[p].ga[a->level];
}

/* PE p packs, for each other owner, the gradients of the rows it got from there. */
static enum sl_status pack_gradients(const struct at *a, uint32_t p)
{
    struct sl_step_pe *pe = &a->s->pe[p];
    const struct sl_rows *gradient = returned(a, p);
    const struct sl_block *block = block_of(a, p);
    const uint32_t *first = first_source(a, p);
    uint32_t n_parts = a->s->shards->n_parts;
    uint32_t t0[SL_MAX_PES];
    starpu_data_handle_t sent[SL_MAX_PES];
    starpu_data_handle_t *kept;
    uint32_t n = 0;
    uint64_t n_rows = 0;
    struct sl_task_args head = head_of(a, p);
    enum sl_status st = SL_OK;
    for (uint32_t q = 0; q < n_parts; q++) {
        if (q == p % n_parts || n_asked(a, p, q) == 0) {
            continue;
        }
        kept = kept_sent(a, p, q);
        SL_TRY(st, sl_matrix_reshape(n_asked(a, p, q), gradient->n_columns, sizeof(sl_real), kept), done);
        n_rows += n_asked(a, p, q);
        t0[n] = first[q];
        sent[n++] = pe->sent[q] = *kept;
    }
    if (n > 0) {
        uint64_t n_edges = pe->counts[sl_counts_edges(a->s->n_hops, a->level)] * n_rows / first[n_parts];
        struct sl_returned what = {.edge_offsets = block->edge_offsets,
                                   .back_offsets = block->back_offsets,
                                   .back_rows = block->back_rows,
                                   .gm = gradient,
                                   .n_edges = n_edges};
        st = sl_aggregate_backward_submit(&head, &what, n, t0, sent);
    }
done:
    return st;
}

/* The gradients of rows go back to their owners. */
static enum sl_status send_back(const struct at *a)
{
    enum sl_status st = SL_OK;
    for (uint32_t p = 0; st == SL_OK && p < a->s->n_pes; p++) {
        st = pack_gradients(a, p);
    }
    return st == SL_OK ? sl_crossing_rows(a->s, a->step, a->level, true) : st;
}

/* Every owner adds up the gradients of its rows of the input level, into `out` of each PE. */
static enum sl_status accumulate(const struct at *a, uint32_t p, struct sl_rows *out)
{
    uint32_t n_parts = a->s->shards->n_parts;
    uint32_t own = p % n_parts;
    const struct sl_block *block = block_of(a, p);
    struct sl_step_pe *pe = &a->s->pe[p];
    starpu_data_handle_t sent[SL_MAX_PES];
    struct sl_task_args head = head_of(a, p);
    enum sl_status st;
    for (uint32_t peer = 0; peer < n_parts; peer++) {
        sent[peer] = a->s->pe[sl_step_peer(a->s, p, peer)].sent[own];
    }
    struct sl_accumulate shares = {.edge_offsets = block->edge_offsets,
                                   .back_offsets = block->back_offsets,
                                   .back_rows = block->back_rows,
                                   .t0 = first_source(a, p)[own],
                                   .n_own = n_asked(a, p, own),
                                   .gm = returned(a, p),
                                   .n_peers = n_parts,
                                   .own = own,
                                   .inverse = block->inverse,
                                   .sent = sent};
    SL_TRY(st, sl_rows_reshape(&pe->split[a->from], shares.gm->n_columns, sizeof(sl_real), out), done);
    for (uint32_t c = 0; c < pe->split[a->from].n_chunks; c++) {
        SL_TRY(st, sl_accumulate_submit(&head, &shares, chunk_row(pe, a->from, c), out->chunk[c]), done);
    }
done:
    return st;
}

/* Projecting first: gradient of W_neigh from gy, and gh = gy W_neigh^T unless nothing below wants it. */
static enum sl_status projected_gradient(const struct at *a, uint32_t p)
{
    struct sl_step_pe *pe = &a->s->pe[p];
    struct sl_task_args head = head_of(a, p);
    enum sl_status st = SL_OK;
    if (a->i > 0) {
        SL_TRY(st, sl_rows_reshape(&pe->split[a->from], a->layer->n_in, sizeof(sl_real), &pe->gh[a->from]), done);
    }
    for (uint32_t c = 0; c < pe->split[a->from].n_chunks; c++) {
        SL_TRY(st, weight_gradient(a, p, chunk_row(pe, a->from, c), SL_NEIGH, false, pe->gy[a->from].chunk[c]), done);
        if (a->i > 0) {
            SL_TRY(st,
                   sl_dense_backward_input_submit(&head, pe->gy[a->from].chunk[c], value_of(a, p, SL_NEIGH), 0,
                                                  pe->gh[a->from].chunk[c], 0),
                   done);
        }
    }
done:
    return st;
}

/* gh += gz W_self^T (+ gh of the residual) on the self rows, chunk by chunk in order. */
static enum sl_status self_rows(const struct at *a, uint32_t p)
{
    struct sl_step_pe *pe = &a->s->pe[p];
    struct sl_task_args head = head_of(a, p);
    uint32_t shift = pe->split[a->from].shift;
    enum sl_status st = SL_OK;
    for (uint32_t c = 0; c < pe->split[a->level].n_chunks; c++) {
        uint32_t row = chunk_row(pe, a->level, c);
        starpu_data_handle_t gh = pe->gh[a->from].chunk[row >> shift];
        uint32_t row0 = row & ((1u << shift) - 1);
        SL_TRY(st,
               sl_dense_backward_input_submit(&head, pe->gz[a->level].chunk[c], value_of(a, p, SL_SELF), 1, gh, row0),
               done);
        if (a->layer->residual) {
            SL_TRY(st, sl_activate_residual_backward_submit(&head, pe->gh[a->level].chunk[c], gh, row0), done);
        }
    }
done:
    return st;
}

/* All of this layer is done with, but gh of the input level, which is the next layer's output. */
static void step_down(const struct at *a)
{
    for (uint32_t p = 0; p < a->s->n_pes; p++) {
        struct sl_step_pe *pe = &a->s->pe[p];
        sl_rows_keep(&pe->gh[a->level]);
        sl_rows_keep(&pe->gz[a->level]);
        sl_rows_keep(&pe->ga[a->level]);
        sl_rows_keep(&pe->gy[a->from]);
        sl_rows_keep(&pe->z[a->level]);
        sl_rows_keep(&pe->gate[a->level]);
        sl_rows_keep(&pe->mean[a->level]);
        sl_rows_keep(&pe->h[a->from]);
        for (uint32_t q = 0; q < a->s->shards->n_parts; q++) {
            pe->sent[q] = NULL;
            sl_matrix_keep(kept_sent(a, p, q));
        }
    }
    sl_crossing_keep(a->s, a->step, a->level, true);
}

enum sl_status sl_layer_backward(struct sl_steps *s, uint64_t step, uint32_t i)
{
    struct at a = at_layer(s, step, i);
    bool project_first = a.layer->project_first;
    enum sl_status st;
    SL_TRY(st, a.layer->hidden ? deactivate(&a) : SL_OK, done);
    SL_TRY(st, self_gradient(&a), done);
    SL_TRY(st, project_first ? SL_OK : mean_gradient(&a), done);
    if (i > 0 || project_first) {
        SL_TRY(st, send_back(&a), done);
    }
    for (uint32_t p = 0; (i > 0 || project_first) && p < s->n_pes; p++) {
        SL_TRY(st, accumulate(&a, p, project_first ? &s->pe[p].gy[a.from] : &s->pe[p].gh[a.from]), done);
        SL_TRY(st, project_first ? projected_gradient(&a, p) : SL_OK, done);
        SL_TRY(st, i > 0 ? self_rows(&a, p) : SL_OK, done);
    }
    step_down(&a);
done:
    return st;
}

/* ---- synchronise, optimise ---- */

/* Each replica's gradient of parameter k: the sum of its partials, unless batch norm has left it. */
static enum sl_status reduce(const struct at *a, int k)
{
    bool summed = a->s->model->norm == SL_NORM_BATCH && (k == SL_NORM_WEIGHT || k == SL_NORM_BIAS);
    uint32_t n_pes = a->s->n_pes / a->s->n_replicas;
    enum sl_status st = SL_OK;
    if (!summed && a->s->crossing.share != NULL) {
        return sl_crossing_gradient(a->s, a->step, a->i, k);
    }
    for (uint32_t p = 0; !summed && p < a->s->n_pes; p += n_pes) {
        struct sl_partials *partials = partials_of(a, p, k);
        const struct sl_layer *layer = &a->s->model[sl_step_replica(a->s, p)].layer[a->i];
        struct sl_task_args head = sl_step_head(a->s, a->step, p, 0);
        SL_TRY(st, sl_reduce_submit(&head, partials->n, partials->handle, layer->parameter[k].gradient_handle), done);
    }
done:
    return st;
}

static enum sl_status optimise(const struct at *a, int k, const struct sl_adam *adam)
{
    enum sl_status st = SL_OK;
    for (uint32_t r = 0; r < a->s->n_replicas; r++) {
        const struct sl_parameter *parameter = &a->s->model[r].layer[a->i].parameter[k];
        struct sl_task_args head = sl_step_head(a->s, a->step, r * (a->s->n_pes / a->s->n_replicas), 0);
        SL_TRY(st,
               sl_optimize_submit(&head, adam, parameter->gradient_handle, parameter->value_handle,
                                  parameter->moment1_handle, parameter->moment2_handle),
               done);
    }
done:
    return st;
}

enum sl_status sl_layer_update(struct sl_steps *s, uint64_t step, uint32_t i, const struct sl_adam *adam)
{
    struct at a = at_layer(s, step, i);
    enum sl_status st = SL_OK;
    for (int k = 0; k < SL_N_PARAMETERS; k++) {
        if (a.layer->parameter[k].n_rows == 0) {
            continue;
        }
        SL_TRY(st, reduce(&a, k), done);
        SL_TRY(st, sl_replicas_mix_gradients(s, step, i, k), done);
        SL_TRY(st, optimise(&a, k, adam), done);
        SL_TRY(st, sl_replicas_mix_weights(s, step, i, k), done);
    }
done:
    return st;
}
