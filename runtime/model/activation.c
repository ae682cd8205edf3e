/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Activation: submissions over groups, PEs and chunks. */
#include "runtime/model/activation.h"

#include "codelets/rows/activate.h"
#include "codelets/rows/batchnorm.h"
#include "runtime/model/kinds.h"

/* ---- batch norm's sums ---- */

/* The PEs of a group: first .. end - 1. */
struct members {
    uint32_t first, end;
};

static struct members group_of(const struct sl_layer_pass *lp, uint32_t r)
{
    uint32_t n = lp->pass->plan->n_parts;
    return (struct members){r * n, (r + 1) * n};
}

/* Whether this rank trains group r's replica. */
static bool trains_group(const struct sl_layer_pass *lp, uint32_t r)
{
    return sl_plan_trains(lp->pass->plan, sl_plan_replica(lp->pass->plan, group_of(lp, r).first));
}

/* Register a matrix of two rows, which is kept for the run, unless it is registered. */
static enum sl_status keep_pair(const struct sl_layer_pass *lp, enum sl_dtype dtype, starpu_data_handle_t *handle)
{
    if (*handle != NULL) {
        return SL_OK;
    }
    return sl_matrix_register(2, lp->layer->n_out, dtype, handle);
}

/* The split of PE p's rows of the output level. Also known for remote PEs. */
static const struct sl_split *split_of(const struct sl_layer_pass *lp, uint32_t p)
{
    return &lp->pass->pe[p].split[lp->level];
}

/* Index of group r's first partial. It is the same in every rank, since a rank may not know the number of partials in
 * earlier groups. */
static uint32_t place_of(const struct sl_layer_pass *lp, const struct sl_partials *list, uint32_t r)
{
    return r * (list->room / lp->pass->plan->n_groups);
}

/* Send PE p's last partial of the list to all ranks that train p's replica. */
static enum sl_status share(const struct sl_layer_pass *lp, uint32_t p, bool back, const struct sl_partials *list)
{
    const struct sl_block_source *source = lp->pass->source;
    uint32_t last = list->n - 1;
    if (source->share == NULL) {
        return SL_OK;
    }
    return source->share(lp, p, back, last - place_of(lp, list, sl_plan_group(lp->pass->plan, p)), list->handle[last]);
}

/* Mean and variance of z over the rows of group r, and the group's unbiased statistics. A group without rows has
 * neither. */
static enum sl_status group_statistics(const struct sl_layer_pass *lp, uint32_t r)
{
    struct sl_pass_moments *batch = &lp->pass->batch;
    struct sl_pass_group *group = &lp->pass->group[r];
    struct members pes = group_of(lp, r);
    uint32_t first = place_of(lp, &batch->moments, r);
    uint32_t width = lp->layer->n_out;
    starpu_data_handle_t pair;
    struct sl_task_args head;
    group->n_rows[lp->i] = 0;
    batch->moments.n = first;
    for (uint32_t p = pes.first; p < pes.end; p++) {
        const struct sl_split *split = split_of(lp, p);
        head = sl_layer_pass_head(lp, p);
        for (uint32_t c = 0; c < split->n_chunks; c++) {
            batch->chunk_rows[batch->moments.n] = sl_split_size(split, c);
            group->n_rows[lp->i] += batch->chunk_rows[batch->moments.n];
            SL_CHECK(sl_partials_next(&batch->moments, p, 2, width, SL_DTYPE_F64, &pair));
            if (sl_plan_here(lp->pass->plan, p)) {
                SL_CHECK(sl_batchnorm_moments_submit(&head, sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c], pair));
            }
            SL_CHECK(share(lp, p, false, &batch->moments));
        }
    }
    if (batch->moments.n > first && trains_group(lp, r)) {
        head = sl_layer_pass_head(lp, pes.first);
        SL_CHECK(keep_pair(lp, SL_DTYPE_REAL, &group->statistics[lp->i]));
        SL_CHECK(sl_partials_next(&batch->unbiased, pes.first, 2, width, SL_DTYPE_F64, &pair));
        SL_CHECK(sl_batchnorm_merge_submit(&head, batch->moments.n - first, batch->moments.handle + first,
                                           batch->chunk_rows + first, group->statistics[lp->i], pair));
    }
    return SL_OK;
}

/* Statistics of each group; each replica's running statistics over its groups. */
static enum sl_status batch_statistics(const struct sl_layer_pass *lp)
{
    struct sl_partials *unbiased = &lp->pass->batch.unbiased;
    uint32_t n_groups = lp->pass->plan->n_groups / lp->pass->plan->n_replicas;
    unbiased->n = 0;
    for (uint32_t v = 0; v < lp->pass->plan->n_replicas; v++) {
        uint32_t first = unbiased->n;
        starpu_data_handle_t running = lp->pass->model[v].layer[lp->i].running_handle;
        struct sl_task_args head = sl_layer_pass_head(lp, group_of(lp, v * n_groups).first);
        for (uint32_t r = v * n_groups; r < (v + 1) * n_groups; r++) {
            SL_CHECK(group_statistics(lp, r));
        }
        if (unbiased->n > first && sl_plan_trains(lp->pass->plan, v)) {
            SL_CHECK(sl_batchnorm_running_submit(&head, unbiased->n - first, unbiased->handle + first, running));
        }
    }
    return SL_OK;
}

/* Evaluation: the running statistics in place of a batch's. */
static enum sl_status fixed_statistics(const struct sl_layer_pass *lp)
{
    struct sl_task_args head = sl_layer_pass_head(lp, 0);
    starpu_data_handle_t *statistics = &lp->pass->group[0].statistics[lp->i];
    SL_CHECK(keep_pair(lp, SL_DTYPE_REAL, statistics));
    return sl_batchnorm_fixed_submit(&head, lp->layer->running_handle, *statistics);
}

/* ---- forward ---- */

/* The rows of an activation: its roles, and their level. */
struct activation {
    uint32_t level;
    enum sl_role z, h, gate, gh, gz;
    bool residual;
    int norm; /* enum sl_norm */
    enum sl_activate_kind kind;
    double dropout;
    uint32_t hop; /* the key of dropout masks */
};

/* The arguments of the activation codelets, for PE p. */
static struct sl_activate_layer layer_of(const struct sl_layer_pass *lp, const struct activation *activation,
                                         uint32_t p)
{
    static const enum sl_activate_norm norms[] = {
        [SL_NORM_NONE] = SL_ACTIVATE_PLAIN, [SL_NORM_LAYER] = SL_ACTIVATE_LAYER, [SL_NORM_BATCH] = SL_ACTIVATE_BATCH};
    const struct sl_pass *pass = lp->pass;
    struct sl_activate_layer layer = {
        .norm = norms[activation->norm], .kind = activation->kind, .dropout = activation->dropout, .seed = pass->seed};
    layer.frontier = pass->source->ids(pass, p).ids;
    layer.dataset_ids = pass->shards->dataset_ids;
    if (layer.norm != SL_ACTIVATE_PLAIN) {
        layer.weight = sl_layer_pass_value(lp, p, SL_NORM_WEIGHT);
        layer.bias = sl_layer_pass_value(lp, p, SL_NORM_BIAS);
    }
    if (layer.norm == SL_ACTIVATE_BATCH) {
        layer.statistics = pass->group[sl_plan_group(pass->plan, p)].statistics[lp->i];
    }
    return layer;
}

uint32_t sl_layer_mask_hop(const struct sl_model *model, const struct sl_layer *layer, bool own)
{
    const uint32_t beyond = model->layer[0].from + 1;
    if (layer->kind == &sl_dense_out) {
        return beyond + 1 + layer->number;
    }
    return own && layer->from != layer->level ? layer->level : beyond;
}

static struct activation end_of(const struct sl_layer_pass *lp)
{
    return (struct activation){.level = lp->level,
                               .z = SL_ROWS_Z,
                               .h = SL_ROWS_H,
                               .gate = SL_ROWS_GATE,
                               .gh = SL_ROWS_GH,
                               .gz = SL_ROWS_GZ,
                               .residual = lp->layer->residual,
                               .norm = lp->layer->norm,
                               .kind = lp->layer->activation,
                               .dropout = lp->layer->keeps ? 0 : lp->pass->dropout,
                               .hop = sl_layer_mask_hop(lp->pass->model, lp->layer, true)};
}

static struct activation begin_of(const struct sl_layer_pass *lp)
{
    return (struct activation){.level = lp->from,
                               .z = SL_ROWS_INPUT,
                               .h = SL_ROWS_BEFORE,
                               .gate = SL_ROWS_GATE_BEFORE,
                               .gh = SL_ROWS_GBEFORE,
                               .gz = SL_ROWS_GINPUT,
                               .norm = lp->layer->kind->norms_input ? SL_NORM_LAYER : SL_NORM_NONE,
                               .kind = sl_layer_input_activation(lp->layer),
                               .dropout = lp->pass->dropout,
                               .hop = sl_layer_mask_hop(lp->pass->model, lp->layer, !lp->layer->hidden)};
}

static struct sl_task_args head_of(const struct sl_layer_pass *lp, const struct activation *activation, uint32_t p)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    head.hop = activation->hop;
    return head;
}

static enum sl_status activate_chunk(const struct sl_layer_pass *lp, const struct sl_activate_layer *layer,
                                     const struct activation *activation, uint32_t p, uint32_t c)
{
    uint32_t row = sl_layer_pass_chunk_row(lp, p, activation->level, c);
    uint32_t id = row + lp->pass->source->ids(lp->pass, p).base;
    struct sl_layer_pass_place place = sl_layer_pass_place(lp, p, row);
    struct sl_task_args head = head_of(lp, activation, p);
    starpu_data_handle_t residual =
        activation->residual ? sl_layer_pass_rows(lp, p, SL_ROWS_INPUT)->chunk[place.chunk] : NULL;
    return sl_activate_forward_submit(&head, layer, id, sl_layer_pass_rows(lp, p, activation->z)->chunk[c], residual,
                                      place.row, sl_layer_pass_rows(lp, p, activation->gate)->chunk[c],
                                      sl_layer_pass_rows(lp, p, activation->h)->chunk[c]);
}

static enum sl_status activate(const struct sl_layer_pass *lp, const struct activation *activation)
{
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        struct sl_activate_layer layer = layer_of(lp, activation, p);
        SL_CHECK(sl_layer_pass_shape(lp, p, activation->gate));
        SL_CHECK(sl_layer_pass_shape(lp, p, activation->h));
        for (uint32_t c = 0; c < lp->pass->pe[p].split[activation->level].n_chunks; c++) {
            SL_CHECK(activate_chunk(lp, &layer, activation, p, c));
        }
    }
    return SL_OK;
}

static enum sl_status end_forward(const struct sl_layer_pass *lp)
{
    struct activation activation = end_of(lp);
    if (lp->layer->norm == SL_NORM_BATCH) {
        if (lp->pass->training) {
            SL_CHECK(batch_statistics(lp));
        } else {
            SL_CHECK(fixed_statistics(lp));
        }
    }
    SL_CHECK(activate(lp, &activation));
    if (sl_layer_pass_row(lp, SL_ROWS_Z)->end == SL_UNTIL_FORWARD) {
        for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
            sl_layer_pass_done(lp, p, SL_ROWS_Z); /* backward reads the gate only */
        }
    }
    return SL_OK;
}

enum sl_status sl_activate_input(const struct sl_layer_pass *lp)
{
    struct activation activation = begin_of(lp);
    return activate(lp, &activation);
}

/* ---- backward ---- */

/* One chunk's part of [sum GY zhat | sum GY]. */
static enum sl_status chunk_sums(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, starpu_data_handle_t out)
{
    struct activation end = end_of(lp);
    struct sl_activate_layer layer = layer_of(lp, &end, p);
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    return sl_activate_batch_sums_submit(&head, &layer, sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c],
                                         sl_layer_pass_rows(lp, p, SL_ROWS_GATE)->chunk[c],
                                         sl_layer_pass_rows(lp, p, SL_ROWS_GH)->chunk[c], out);
}

/* The sums of group r. The next entries are of the next groups. */
static starpu_data_handle_t *sums_of(const struct sl_layer_pass *lp, uint32_t r)
{
    return &lp->pass->batch.group_sums[(size_t)lp->i * lp->pass->plan->n_groups + r];
}

/* [sum GY zhat | sum GY] of group r. The two sums are also the group's contribution to the gradients of the norm's
 * parameters. */
static enum sl_status group_sums(const struct sl_layer_pass *lp, uint32_t r)
{
    struct sl_partials *sums = &lp->pass->batch.sums;
    struct members pes = group_of(lp, r);
    uint32_t first = place_of(lp, sums, r);
    starpu_data_handle_t *sum = sums_of(lp, r);
    starpu_data_handle_t partial;
    struct sl_task_args head;
    sums->n = first;
    for (uint32_t p = pes.first; p < pes.end; p++) {
        for (uint32_t c = 0; c < split_of(lp, p)->n_chunks; c++) {
            SL_CHECK(sl_partials_next(sums, p, 2, lp->layer->n_out, SL_DTYPE_F64, &partial));
            if (sl_plan_here(lp->pass->plan, p)) {
                SL_CHECK(chunk_sums(lp, p, c, partial));
            }
            SL_CHECK(share(lp, p, true, sums));
        }
    }
    if (!trains_group(lp, r)) {
        return SL_OK;
    }
    head = sl_layer_pass_head(lp, pes.first);
    SL_CHECK(keep_pair(lp, SL_DTYPE_F64, sum));
    return sl_batchnorm_sum_submit(&head, sums->n - first, sums->handle + first, *sum);
}

/* Sums of each group; each replica's gradients of the norm, summed over its groups. */
static enum sl_status batch_sums(const struct sl_layer_pass *lp)
{
    uint32_t n_groups = lp->pass->plan->n_groups / lp->pass->plan->n_replicas;
    for (uint32_t r = 0; r < lp->pass->plan->n_groups; r++) {
        SL_CHECK(group_sums(lp, r));
    }
    for (uint32_t v = 0; v < lp->pass->plan->n_replicas; v++) {
        const struct sl_parameter *parameter = lp->pass->model[v].layer[lp->i].parameter;
        struct sl_task_args head = sl_layer_pass_head(lp, group_of(lp, v * n_groups).first);
        if (sl_plan_trains(lp->pass->plan, v)) {
            SL_CHECK(sl_batchnorm_gradient_submit(&head, n_groups, sums_of(lp, v * n_groups),
                                                  parameter[SL_NORM_WEIGHT].gradient_handle,
                                                  parameter[SL_NORM_BIAS].gradient_handle));
        }
    }
    return SL_OK;
}

static enum sl_status deactivate_chunk(const struct sl_layer_pass *lp, const struct sl_activate_layer *layer,
                                       const struct activation *activation, uint32_t p, uint32_t c)
{
    struct sl_task_args head = head_of(lp, activation, p);
    struct sl_activate_sums_handles sums = {0};
    if (layer->norm == SL_ACTIVATE_BATCH) {
        uint32_t r = sl_plan_group(lp->pass->plan, p);
        sums.group = *sums_of(lp, r);
        sums.n_group = lp->pass->group[r].n_rows[lp->i];
    }
    if (layer->norm == SL_ACTIVATE_LAYER) {
        SL_CHECK(sl_layer_pass_partial(lp, p, SL_NORM_WEIGHT, &sums.gw));
        SL_CHECK(sl_layer_pass_partial(lp, p, SL_NORM_BIAS, &sums.gb));
    }
    return sl_activate_backward_submit(
        &head, layer, layer->norm == SL_ACTIVATE_PLAIN ? NULL : sl_layer_pass_rows(lp, p, activation->z)->chunk[c],
        sl_layer_pass_rows(lp, p, activation->gate)->chunk[c], sl_layer_pass_rows(lp, p, activation->gh)->chunk[c],
        &sums, sl_layer_pass_rows(lp, p, activation->gz)->chunk[c]);
}

static enum sl_status deactivate(const struct sl_layer_pass *lp, const struct activation *activation)
{
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        struct sl_activate_layer layer = layer_of(lp, activation, p);
        SL_CHECK(sl_layer_pass_shape(lp, p, activation->gz));
        for (uint32_t c = 0; c < lp->pass->pe[p].split[activation->level].n_chunks; c++) {
            SL_CHECK(deactivate_chunk(lp, &layer, activation, p, c));
        }
    }
    return SL_OK;
}

static enum sl_status end_backward(const struct sl_layer_pass *lp)
{
    struct activation activation = end_of(lp);
    if (lp->layer->norm == SL_NORM_BATCH) {
        SL_CHECK(batch_sums(lp));
    }
    return deactivate(lp, &activation);
}

enum sl_status sl_deactivate_input(const struct sl_layer_pass *lp)
{
    struct activation activation = begin_of(lp);
    return deactivate(lp, &activation);
}

/* ---- a layer of any kind ---- */

enum sl_status sl_layer_derive(const struct sl_layer_pass *lp)
{
    if (lp->layer->kind->derive != NULL) {
        for (uint32_t v = 0; v < lp->pass->plan->n_replicas; v++) {
            if (sl_plan_trains(lp->pass->plan, v)) {
                SL_CHECK(lp->layer->kind->derive(lp, v));
            }
        }
    }
    return SL_OK;
}

enum sl_status sl_layer_run(const struct sl_layer_pass *lp)
{
    SL_CHECK(lp->layer->kind->forward(lp));
    if (lp->layer->hidden) {
        return end_forward(lp);
    }
    return SL_OK;
}

enum sl_status sl_layer_run_back(const struct sl_layer_pass *lp)
{
    if (lp->layer->hidden) {
        SL_CHECK(end_backward(lp));
    }
    return lp->layer->kind->backward(lp);
}
