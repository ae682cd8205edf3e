/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The building blocks of layers: rows by layer and role, products with the input rows, sums over chunks, bias and
 * residual. */
#include "runtime/model/pass.h"

#include "codelets/rows/activate.h"
#include "codelets/rows/bias.h"
#include "codelets/rows/blend.h"
#include "codelets/rows/dense.h"
#include "runtime/model/sums.h"
#include "support/memory.h"
#include "support/minmax.h"

/* ---- a layer in hand ---- */

struct sl_layer_pass sl_pass_layer(struct sl_pass *pass, uint32_t i)
{
    struct sl_layer *layer = &pass->model->layer[i];
    uint32_t n_pes = pass->plan->end_pe - pass->plan->first_pe;
    return (struct sl_layer_pass){pass, i, layer->from, layer->level, layer, n_pes, NULL, {0}};
}

bool sl_layer_pass_ends(const struct sl_layer_pass *lp)
{
    return lp->columns.first + lp->columns.n == sl_layer_pass_order(lp)->travels;
}

struct sl_task_args sl_layer_pass_head(const struct sl_layer_pass *lp, uint32_t p)
{
    const struct sl_pass *pass = lp->pass;
    uint32_t pe = pass->source->worker == NULL ? p : pass->source->worker(lp, p);
    return (struct sl_task_args){.run = pass->run,
                                 .step = pass->step,
                                 .pe = pe,
                                 .hop = lp->level,
                                 .stage = pass->stage,
                                 .runs = pass->runs == NULL ? NULL : &pass->runs[p]};
}

/* The role that the input, or its gradient, has in the layer below. The outputs of a last layer are the input of
 * `ends`. */
static enum sl_role below(const struct sl_layer_pass *lp, enum sl_role role)
{
    bool last = lp->pass->model->layer[lp->i - 1].last;
    if (role == SL_ROWS_INPUT) {
        return last ? SL_ROWS_Z : SL_ROWS_H;
    }
    return last ? SL_ROWS_GZ : SL_ROWS_GH;
}

struct sl_rows *sl_layer_pass_rows(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role)
{
    struct sl_pass_pe *pe = &lp->pass->pe[p];
    if (role == SL_ROWS_INPUT && lp->i == 0) {
        return &pe->features;
    }
    if (role == SL_ROWS_INPUT || role == SL_ROWS_GINPUT) {
        return &pe->layer[lp->i - 1][below(lp, role)];
    }
    return &pe->layer[lp->i][role];
}

enum sl_role sl_layer_pass_result(const struct sl_layer_pass *lp)
{
    return lp->layer->hidden || lp->layer->last ? SL_ROWS_Z : SL_ROWS_H;
}

enum sl_role sl_layer_pass_result_gradient(const struct sl_layer_pass *lp)
{
    return lp->layer->hidden || lp->layer->last ? SL_ROWS_GZ : SL_ROWS_GH;
}

const struct sl_layer_order *sl_layer_pass_order(const struct sl_layer_pass *lp)
{
    return lp->pass->training ? &lp->layer->training : &lp->layer->evaluation;
}

const struct sl_rows *sl_layer_pass_travels(const struct sl_layer_pass *lp, uint32_t p)
{
    return sl_layer_pass_rows(lp, p, sl_layer_pass_order(lp)->travelling);
}

const struct sl_rows *sl_layer_pass_returns(const struct sl_layer_pass *lp, uint32_t p)
{
    return sl_layer_pass_rows(lp, p, sl_layer_pass_order(lp)->returning);
}

const struct sl_layer_row *sl_layer_pass_row(const struct sl_layer_pass *lp, enum sl_role role)
{
    if (role == SL_ROWS_INPUT || role == SL_ROWS_GINPUT) {
        const struct sl_layer_pass before = sl_pass_layer(lp->pass, lp->i - 1);
        return sl_layer_pass_row(&before, below(lp, role));
    }
    return &sl_layer_pass_order(lp)->row[role];
}

enum sl_status sl_layer_pass_shape(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role)
{
    const struct sl_layer_row *row = sl_layer_pass_row(lp, role);
    const struct sl_split *split = &lp->pass->pe[p].split[row->level];
    struct sl_rows *rows = sl_layer_pass_rows(lp, p, role);
    if (lp->pass->keeps) {
        return sl_rows_reshape(split, row->width, row->dtype, rows);
    }
    bool there = rows->chunk != NULL; /* the layer runs again */
    if (there) {
        return SL_OK;
    }
    return sl_rows_register(split, row->width, row->dtype, rows);
}

enum sl_status sl_layer_pass_shape_all(const struct sl_layer_pass *lp, enum sl_role role)
{
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(sl_layer_pass_shape(lp, p, role));
    }
    return SL_OK;
}

void sl_layer_pass_done(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role)
{
    struct sl_rows *rows = sl_layer_pass_rows(lp, p, role);
    if (lp->pass->keeps) {
        sl_rows_keep(rows);
    } else {
        sl_rows_drop(rows);
    }
}

void sl_pass_end_rows(struct sl_pass_pe *pe, uint32_t n_layers, void (*end)(struct sl_rows *rows))
{
    for (uint32_t i = 0; i < n_layers; i++) {
        for (int role = 0; role < SL_N_ROLES; role++) {
            end(&pe->layer[i][role]);
        }
    }
}

uint32_t sl_layer_pass_chunk_row(const struct sl_layer_pass *lp, uint32_t p, uint32_t level, uint32_t c)
{
    return c << lp->pass->pe[p].split[level].shift;
}

struct sl_layer_pass_place sl_layer_pass_place(const struct sl_layer_pass *lp, uint32_t p, uint32_t row)
{
    uint32_t shift = lp->pass->pe[p].split[lp->from].shift;
    return (struct sl_layer_pass_place){row >> shift, row & ((1u << shift) - 1)};
}

struct sl_layer_pass_place sl_layer_pass_self(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    return sl_layer_pass_place(lp, p, sl_layer_pass_chunk_row(lp, p, lp->level, c));
}

starpu_data_handle_t sl_layer_pass_value(const struct sl_layer_pass *lp, uint32_t p, int parameter)
{
    uint32_t replica = sl_plan_replica(lp->pass->plan, p);
    return lp->pass->model[replica].layer[lp->i].parameter[parameter].value_handle;
}

enum sl_status sl_layer_pass_partial(const struct sl_layer_pass *lp, uint32_t p, int parameter,
                                     starpu_data_handle_t *out)
{
    const struct sl_parameter *shape = &lp->layer->parameter[parameter];
    const uint32_t n_runs = lp->pass->runs == NULL ? 1 : lp->pass->runs[p].n;
    return sl_partials_next(lp->pass->source->partials(lp, p, parameter), p * n_runs, n_runs * shape->n_rows,
                            shape->n_columns, SL_DTYPE_REAL, out);
}

/* Whether a bias's gradient is wanted and may be other than zero. */
static bool has_gradient(const struct sl_layer_pass *lp, int bias)
{
    return bias != SL_NO_PARAMETER && !(lp->layer->bias_vanishes && lp->layer->kind->parameter[bias].is_output_bias);
}

/* The next partial of a bias's gradient. NULL: has_gradient is false. */
static enum sl_status bias_partial(const struct sl_layer_pass *lp, uint32_t p, int bias, starpu_data_handle_t *out)
{
    *out = NULL;
    if (has_gradient(lp, bias)) {
        return sl_layer_pass_partial(lp, p, bias, out);
    }
    return SL_OK;
}

/* A bias's value. NULL: none. */
static starpu_data_handle_t bias_value(const struct sl_layer_pass *lp, uint32_t p, int bias)
{
    return bias == SL_NO_PARAMETER ? NULL : sl_layer_pass_value(lp, p, bias);
}

/* ---- products with the layer's input rows, dense or sparse ---- */

static bool sparse_input(const struct sl_layer_pass *lp)
{
    return lp->i == 0 && lp->pass->shards->is_sparse;
}

/* The sparse input rows. *row: in, a row of the input level; out, its entry in the ids. */
static struct sl_sparse sparse_rows(const struct sl_layer_pass *lp, uint32_t p, uint32_t *row)
{
    const struct sl_shards *shards = lp->pass->shards;
    struct sl_sparse x = shards->part[sl_plan_part(lp->pass->plan, p)].sparse;
    struct sl_ids_of rows = lp->pass->source->ids(lp->pass, p);
    x.frontier = rows.ids;
    x.dropout = lp->pass->input_dropout;
    x.seed = lp->pass->seed;
    *row += rows.base;
    return x;
}

enum sl_status sl_multiply(const struct sl_layer_pass *lp, uint32_t p, uint32_t row, int parameter,
                           starpu_data_handle_t bias, int beta, starpu_data_handle_t z)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    struct sl_layer_pass_place place = sl_layer_pass_place(lp, p, row);
    starpu_data_handle_t w = sl_layer_pass_value(lp, p, parameter);
    if (sparse_input(lp)) {
        struct sl_sparse x = sparse_rows(lp, p, &row);
        return sl_dense_sparse_forward_submit(&head, &x, row, w, bias, beta, z);
    }
    return sl_dense_forward_submit(&head, sl_layer_pass_rows(lp, p, SL_ROWS_INPUT)->chunk[place.chunk], place.row, w,
                                   bias, beta, z);
}

/* Whether the gradient of a parameter has few rows other than zero. */
static bool touches_few(const struct sl_layer_pass *lp, int parameter)
{
    return sparse_input(lp) && lp->layer->kind->parameter[parameter].by_rows && lp->pass->runs == NULL;
}

/* Sparse: add the terms of rows `row` and on to the last partial of a parameter, or begin the next. */
enum sl_status sl_multiply_back(const struct sl_layer_pass *lp, uint32_t p, uint32_t row, int parameter, int bias,
                                starpu_data_handle_t gz)
{
    const struct sl_parameter *shape = &lp->layer->parameter[parameter];
    struct sl_partials *weights = lp->pass->source->partials(lp, p, parameter);
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    struct sl_layer_pass_place place = sl_layer_pass_place(lp, p, row);
    struct sl_sparse_gradient gradient = {.fresh = false};
    starpu_data_handle_t gb = NULL;
    int beta = sparse_input(lp) && row > 0;
    if (beta) {
        gradient.gw = weights->handle[weights->n - 1];
        gradient.touched = touches_few(lp, parameter) ? weights->touched[weights->n - 1] : NULL;
        if (has_gradient(lp, bias)) {
            const struct sl_partials *biases = lp->pass->source->partials(lp, p, bias);
            gb = biases->handle[biases->n - 1];
        }
    } else {
        if (touches_few(lp, parameter)) {
            SL_CHECK(sl_partials_next_touched(weights, p, shape->n_rows, shape->n_columns, &gradient.gw,
                                              &gradient.touched, &gradient.fresh));
        } else {
            SL_CHECK(sl_layer_pass_partial(lp, p, parameter, &gradient.gw));
        }
        SL_CHECK(bias_partial(lp, p, bias, &gb));
    }
    if (sparse_input(lp)) {
        struct sl_sparse x = sparse_rows(lp, p, &row);
        return sl_dense_sparse_backward_weight_submit(&head, &x, row, gz, beta, &gradient, gb);
    }
    return sl_dense_backward_weight_submit(&head, sl_layer_pass_rows(lp, p, SL_ROWS_INPUT)->chunk[place.chunk],
                                           place.row, gz, gradient.gw, gb);
}

/* y of one PE. beside: called after each chunk that has rows of the output level, or NULL. */
static enum sl_status project(const struct sl_layer_pass *lp, uint32_t p, int parameter, int bias,
                              sl_chunk_work *beside)
{
    const struct sl_rows *y = sl_layer_pass_rows(lp, p, SL_ROWS_PROJECTED);
    starpu_data_handle_t b = bias_value(lp, p, bias);
    SL_CHECK(sl_layer_pass_shape(lp, p, SL_ROWS_PROJECTED));
    for (uint32_t c = 0; c < y->split.n_chunks; c++) {
        SL_CHECK(sl_multiply(lp, p, sl_layer_pass_chunk_row(lp, p, lp->from, c), parameter, b, 0, y->chunk[c]));
        if (beside != NULL && c < lp->pass->pe[p].split[lp->level].n_chunks) {
            SL_CHECK(beside(lp, p, c));
        }
    }
    return SL_OK;
}

enum sl_status sl_project(const struct sl_layer_pass *lp, int parameter, int bias)
{
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(project(lp, p, parameter, bias, NULL));
    }
    return SL_OK;
}

enum sl_status sl_project_back(const struct sl_layer_pass *lp, uint32_t p, int parameter, int bias)
{
    const struct sl_rows *gy = sl_layer_pass_rows(lp, p, SL_ROWS_GY);
    if (lp->i > 0) {
        SL_CHECK(
            sl_rows_reshape(&gy->split, lp->layer->n_in, SL_DTYPE_REAL, sl_layer_pass_rows(lp, p, SL_ROWS_GINPUT)));
    }
    for (uint32_t c = 0; c < gy->split.n_chunks; c++) {
        SL_CHECK(sl_multiply_back(lp, p, sl_layer_pass_chunk_row(lp, p, lp->from, c), parameter, bias, gy->chunk[c]));
        if (lp->i > 0) {
            SL_CHECK(sl_product_back(lp, p, c, SL_ROWS_GY, parameter, SL_ROWS_GINPUT));
        }
    }
    return SL_OK;
}

void sl_project_done(const struct sl_layer_pass *lp)
{
    bool read_again = lp->pass->training && sl_layer_pass_row(lp, SL_ROWS_PROJECTED)->end != SL_UNTIL_FORWARD;
    for (uint32_t k = 0, p = 0; !read_again && sl_layer_pass_pe(lp, k, &p); k++) {
        sl_layer_pass_done(lp, p, SL_ROWS_PROJECTED);
    }
}

/* ga = gz W^T, if the layer declares ga. */
static enum sl_status sum_back(const struct sl_layer_pass *lp, int parameter)
{
    if (sl_layer_pass_row(lp, SL_ROWS_GA)->width > 0) {
        for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
            SL_CHECK(sl_layer_pass_shape(lp, p, SL_ROWS_GA));
            for (uint32_t c = 0; c < lp->pass->pe[p].split[lp->level].n_chunks; c++) {
                SL_CHECK(sl_product_back(lp, p, c, sl_layer_pass_order(lp)->product, parameter, SL_ROWS_GA));
            }
        }
    }
    return SL_OK;
}

enum sl_status sl_product(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, enum sl_role x, int parameter,
                          int bias, int beta, enum sl_role g)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    return sl_dense_forward_submit(&head, sl_layer_pass_rows(lp, p, x)->chunk[c], 0,
                                   sl_layer_pass_value(lp, p, parameter), bias_value(lp, p, bias), beta,
                                   sl_layer_pass_rows(lp, p, g)->chunk[c]);
}

enum sl_status sl_product_back(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, enum sl_role gradient,
                               int parameter, enum sl_role gx)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    return sl_dense_backward_input_submit(&head, sl_layer_pass_rows(lp, p, gradient)->chunk[c],
                                          sl_layer_pass_value(lp, p, parameter), 0,
                                          sl_layer_pass_rows(lp, p, gx)->chunk[c], 0);
}

enum sl_status sl_weight_gradient(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, enum sl_role input,
                                  enum sl_role gradient, int parameter, int bias)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    starpu_data_handle_t gw = NULL;
    starpu_data_handle_t gb = NULL;
    SL_CHECK(sl_layer_pass_partial(lp, p, parameter, &gw));
    SL_CHECK(bias_partial(lp, p, bias, &gb));
    return sl_dense_backward_weight_submit(&head, sl_layer_pass_rows(lp, p, input)->chunk[c], 0,
                                           sl_layer_pass_rows(lp, p, gradient)->chunk[c], gw, gb);
}

/* The gradients of W and of the bias from the sums and gz. */
static enum sl_status sum_gradient(const struct sl_layer_pass *lp, int parameter, int bias)
{
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        for (uint32_t c = 0; c < lp->pass->pe[p].split[lp->level].n_chunks; c++) {
            SL_CHECK(sl_weight_gradient(lp, p, c, SL_ROWS_SUM, sl_layer_pass_order(lp)->product, parameter, bias));
        }
    }
    return SL_OK;
}

enum sl_status sl_each_chunk(const struct sl_layer_pass *lp, sl_chunk_work *work)
{
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        for (uint32_t c = 0; c < lp->pass->pe[p].split[lp->level].n_chunks; c++) {
            SL_CHECK(work(lp, p, c));
        }
    }
    return SL_OK;
}

/* Take the next slice of the travelling columns in hand. The caller starts with an empty slice. False: no further
 * slice. */
static bool next_slice(struct sl_layer_pass *lp)
{
    uint32_t all = sl_layer_pass_order(lp)->travels;
    uint32_t most = lp->pass->source->columns == NULL ? all : lp->pass->source->columns(lp);
    uint32_t rest;
    lp->columns.first += lp->columns.n;
    rest = all - lp->columns.first;
    lp->columns.n = sl_min_u32(rest, most);
    return lp->columns.n > 0;
}

/* Shape the result, the sums unless the layer projects first, and the sums over edges if there are some. */
static enum sl_status shape_sums(const struct sl_layer_pass *lp, uint32_t p, enum sl_role result)
{
    SL_CHECK(sl_layer_pass_shape(lp, p, result));
    if (!sl_layer_pass_order(lp)->project_first) {
        SL_CHECK(sl_layer_pass_shape(lp, p, SL_ROWS_SUM));
    }
    if (sl_layer_pass_row(lp, SL_ROWS_EDGES)->width > 0) {
        SL_CHECK(sl_layer_pass_shape(lp, p, SL_ROWS_EDGES));
    }
    return SL_OK;
}

/* A layer's work over its chunks. */
struct summation {
    enum sl_role result;
    /* The chunks' rows have their shape, and `begin` has been called. */
    bool begun;
    sl_chunk_work *begin, *combine;
};

static enum sl_status sum_slice(const struct sl_layer_pass *lp, const struct summation *summation)
{
    bool begins = lp->columns.first == 0 && !summation->begun;
    SL_CHECK(lp->pass->source->send(lp));
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        if (begins) {
            SL_CHECK(shape_sums(lp, p, summation->result));
        }
        for (uint32_t c = 0; c < lp->pass->pe[p].split[lp->level].n_chunks; c++) {
            if (begins && summation->begin != NULL) {
                SL_CHECK(summation->begin(lp, p, c));
            }
            SL_CHECK(summation->combine(lp, p, c));
        }
    }
    return SL_OK;
}

static enum sl_status sum_slices(const struct sl_layer_pass *lp, const struct summation *summation)
{
    struct sl_layer_pass slice = *lp;
    while (next_slice(&slice)) {
        SL_CHECK(sum_slice(&slice, summation));
    }
    lp->pass->source->arrived(lp);
    return SL_OK;
}

enum sl_status sl_sum_chunks(const struct sl_layer_pass *lp, enum sl_role result, sl_chunk_work *begin,
                             sl_chunk_work *combine)
{
    struct summation summation = {.result = result, .begin = begin, .combine = combine};
    return sum_slices(lp, &summation);
}

/* Without a backward pass all levels have the same chunk boundaries, and a chunk's input is free once it has been
 * projected and `begin` has read it. So do both chunk by chunk. */
static enum sl_status project_and_begin(const struct sl_layer_pass *lp, int parameter, sl_chunk_work *begin)
{
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(shape_sums(lp, p, SL_ROWS_Z));
        SL_CHECK(project(lp, p, parameter, SL_NO_PARAMETER, begin));
    }
    return SL_OK;
}

enum sl_status sl_convolve(const struct sl_layer_pass *lp, int parameter, sl_chunk_work *begin, sl_chunk_work *combine)
{
    bool project_first = sl_layer_pass_order(lp)->project_first;
    struct summation summation = {SL_ROWS_Z, project_first && !lp->pass->training, begin, combine};
    if (summation.begun) {
        SL_CHECK(project_and_begin(lp, parameter, begin));
    } else if (project_first) {
        SL_CHECK(sl_project(lp, parameter, SL_NO_PARAMETER));
    }
    return sum_slices(lp, &summation);
}

enum sl_status sl_convolve_gradients(const struct sl_layer_pass *lp, int parameter, int bias)
{
    const bool project_first = sl_layer_pass_order(lp)->project_first;
    if (!project_first) {
        SL_CHECK(sum_back(lp, parameter));
    }
    if (lp->layer->returns) {
        SL_CHECK(lp->pass->source->send_back(lp));
    }
    if (lp->layer->kind->sum->gradient != NULL) {
        SL_CHECK(lp->pass->source->sum_gradient(lp));
    }
    if (project_first) {
        return sl_bias_back(lp, bias);
    }
    return sum_gradient(lp, parameter, bias); /* while gradients travel */
}

enum sl_status sl_convolve_back(const struct sl_layer_pass *lp, uint32_t p, int parameter)
{
    if (!sl_layer_pass_order(lp)->project_first) {
        return lp->pass->source->sum_back(lp, p, sl_layer_pass_rows(lp, p, SL_ROWS_GINPUT));
    }
    SL_CHECK(lp->pass->source->sum_back(lp, p, sl_layer_pass_rows(lp, p, SL_ROWS_GY)));
    return sl_project_back(lp, p, parameter, SL_NO_PARAMETER);
}

/* ---- bias and residual ---- */

enum sl_status sl_bias(const struct sl_layer_pass *lp, uint32_t p, int bias, starpu_data_handle_t z)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    return sl_bias_forward_submit(&head, sl_layer_pass_value(lp, p, bias), z);
}

enum sl_status sl_bias_back(const struct sl_layer_pass *lp, int bias)
{
    if (has_gradient(lp, bias)) {
        for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
            const struct sl_rows *gz = sl_layer_pass_rows(lp, p, sl_layer_pass_order(lp)->product);
            struct sl_task_args head = sl_layer_pass_head(lp, p);
            for (uint32_t c = 0; c < gz->split.n_chunks; c++) {
                starpu_data_handle_t gb;
                SL_CHECK(sl_layer_pass_partial(lp, p, bias, &gb));
                SL_CHECK(sl_bias_backward_submit(&head, gz->chunk[c], gb));
            }
        }
    }
    return SL_OK;
}

enum sl_status sl_self_rows_back(const struct sl_layer_pass *lp, uint32_t p, enum sl_role role, int parameter)
{
    const struct sl_rows *g = sl_layer_pass_rows(lp, p, role);
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    for (uint32_t c = 0; c < g->split.n_chunks; c++) {
        struct sl_layer_pass_place place = sl_layer_pass_self(lp, p, c);
        starpu_data_handle_t gh = sl_layer_pass_rows(lp, p, SL_ROWS_GINPUT)->chunk[place.chunk];
        SL_CHECK(sl_dense_backward_input_submit(&head, g->chunk[c], sl_layer_pass_value(lp, p, parameter), 1, gh,
                                                place.row));
    }
    return SL_OK;
}

enum sl_status sl_residual_back(const struct sl_layer_pass *lp, uint32_t p)
{
    const struct sl_rows *gh = sl_layer_pass_rows(lp, p, SL_ROWS_GH);
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    for (uint32_t c = 0; c < gh->split.n_chunks; c++) {
        struct sl_layer_pass_place place = sl_layer_pass_self(lp, p, c);
        starpu_data_handle_t gr = sl_layer_pass_rows(lp, p, SL_ROWS_GINPUT)->chunk[place.chunk];
        SL_CHECK(sl_blend_submit(&head, SL_STAGE_BACKWARD, sl_split_size(&gh->split, c), 1,
                                 (struct sl_blend_rows){gh->chunk[c], 0}, 1, (struct sl_blend_rows){gr, place.row}));
    }
    return SL_OK;
}
