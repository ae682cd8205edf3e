/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What layers are written with: rows by layer and role, products with the input rows, partial sums. */
#include "runtime/model/pass.h"

#include "codelets/activate.h"
#include "codelets/bias.h"
#include "codelets/dense.h"
#include "support/memory.h"

/* ---- a layer in hand ---- */

struct sl_at sl_pass_at(struct sl_pass *pass, uint32_t i)
{
    struct sl_layer *layer = &pass->model->layer[i];
    uint32_t n_pes = pass->plan->end_pe - pass->plan->first_pe;
    return (struct sl_at){pass, i, layer->from, layer->level, layer, n_pes, NULL, {0}};
}

bool sl_at_ends(const struct sl_at *at)
{
    return at->columns.first + at->columns.n == sl_at_order(at)->travels;
}

struct sl_task_args sl_at_head(const struct sl_at *at, uint32_t p)
{
    const struct sl_pass *pass = at->pass;
    uint32_t pe = pass->source->worker == NULL ? p : pass->source->worker(at, p);
    return (struct sl_task_args){.run = pass->run,
                                 .step = pass->step,
                                 .pe = pe,
                                 .hop = at->level,
                                 .stage = pass->stage,
                                 .runs = pass->runs == NULL ? NULL : &pass->runs[p]};
}

struct sl_rows *sl_at_rows(const struct sl_at *at, uint32_t p, enum sl_role role)
{
    struct sl_pass_pe *pe = &at->pass->pe[p];
    if (role == SL_ROWS_INPUT) {
        return at->i == 0 ? &pe->features : &pe->layer[at->i - 1][SL_ROWS_H];
    }
    return role == SL_ROWS_GINPUT ? &pe->layer[at->i - 1][SL_ROWS_GH] : &pe->layer[at->i][role];
}

struct sl_rows *sl_at_input_gradient(const struct sl_at *at, uint32_t p)
{
    return sl_at_rows(at, p, SL_ROWS_GINPUT);
}

enum sl_role sl_at_result(const struct sl_at *at)
{
    return at->layer->hidden || at->layer->last ? SL_ROWS_Z : SL_ROWS_H;
}

enum sl_role sl_at_result_gradient(const struct sl_at *at)
{
    return at->layer->hidden || at->layer->last ? SL_ROWS_GZ : SL_ROWS_GH;
}

const struct sl_layer_order *sl_at_order(const struct sl_at *at)
{
    return at->pass->training ? &at->layer->training : &at->layer->evaluation;
}

const struct sl_rows *sl_at_travels(const struct sl_at *at, uint32_t p)
{
    enum sl_role input = at->layer->activates_input ? SL_ROWS_BEFORE : SL_ROWS_INPUT;
    return sl_at_rows(at, p, sl_at_order(at)->project_first ? SL_ROWS_PROJECTED : input);
}

const struct sl_rows *sl_at_returns(const struct sl_at *at, uint32_t p)
{
    return sl_at_rows(at, p, sl_at_order(at)->project_first ? sl_at_result_gradient(at) : SL_ROWS_GA);
}

/* Rows that products and other PEs read have the precision of the features; what is added up, what an activation is before (so
 * is the output of a layer without one), and gradients but those that chunks read of each other are sl_real. */
static size_t element_of(const struct sl_at *at, enum sl_role role)
{
    switch (role) {
    case SL_ROWS_GATE:
    case SL_ROWS_GATE_BEFORE: return 1;
    case SL_ROWS_H: return sl_layer_element(at->layer, at->pass->shards->row_element);
    case SL_ROWS_BEFORE:
    case SL_ROWS_SUM:
    case SL_ROWS_GBACK:
    case SL_ROWS_PROJECTED: return at->pass->shards->row_element;
    default: return sizeof(sl_real);
    }
}

enum sl_status sl_at_shape(const struct sl_at *at, uint32_t p, enum sl_role role, uint32_t level, uint32_t width)
{
    const struct sl_split *split = &at->pass->pe[p].split[level];
    struct sl_rows *rows = sl_at_rows(at, p, role);
    size_t element = element_of(at, role);
    if (at->pass->keeps) {
        return sl_rows_reshape(split, width, element, rows);
    }
    bool there = rows->chunk != NULL; /* to be computed again */
    return there ? SL_OK : sl_rows_register(split, width, element, rows);
}

void sl_at_done(const struct sl_at *at, uint32_t p, enum sl_role role)
{
    (at->pass->keeps ? sl_rows_keep : sl_rows_drop)(sl_at_rows(at, p, role));
}

uint32_t sl_at_chunk_row(const struct sl_at *at, uint32_t p, uint32_t level, uint32_t c)
{
    return c << at->pass->pe[p].split[level].shift;
}

struct sl_at_place sl_at_place(const struct sl_at *at, uint32_t p, uint32_t row)
{
    uint32_t shift = at->pass->pe[p].split[at->from].shift;
    return (struct sl_at_place){row >> shift, row & ((1u << shift) - 1)};
}

starpu_data_handle_t sl_at_value(const struct sl_at *at, uint32_t p, int parameter)
{
    uint32_t replica = sl_plan_replica(at->pass->plan, p);
    return at->pass->model[replica].layer[at->i].parameter[parameter].value_handle;
}

enum sl_status sl_at_partial(const struct sl_at *at, uint32_t p, int parameter, starpu_data_handle_t *out)
{
    const struct sl_parameter *shape = &at->layer->parameter[parameter];
    const uint32_t n_runs = at->pass->runs == NULL ? 1 : at->pass->runs[p].n;
    return sl_partials_next(at->pass->source->partials(at, p, parameter), n_runs * shape->n_rows, shape->n_columns,
                            sizeof(sl_real), out);
}

/* A further partial of the bias's gradient; NULL where it is not wanted, or zero. */
static enum sl_status bias_partial(const struct sl_at *at, uint32_t p, bool wanted, starpu_data_handle_t *out)
{
    *out = NULL;
    return wanted && !at->layer->bias_vanishes ? sl_at_partial(at, p, SL_BIAS, out) : SL_OK;
}

/* ---- products with the layer's input rows, dense or sparse ---- */

static bool sparse_input(const struct sl_at *at)
{
    return at->i == 0 && at->pass->shards->is_sparse;
}

/* *row: of the input level, becomes an entry of the ids. */
static struct sl_sparse sparse_rows(const struct sl_at *at, uint32_t p, uint32_t *row)
{
    const struct sl_shards *shards = at->pass->shards;
    struct sl_sparse x = shards->part[sl_plan_part(at->pass->plan, p)].sparse;
    struct sl_ids_of rows = at->pass->source->ids(at->pass, p);
    x.frontier = rows.ids;
    x.dropout = at->pass->input_dropout;
    x.seed = at->pass->seed;
    *row += rows.base;
    return x;
}

enum sl_status sl_multiply(const struct sl_at *at, uint32_t p, uint32_t row, int parameter, starpu_data_handle_t bias,
                           int beta, starpu_data_handle_t z)
{
    struct sl_task_args head = sl_at_head(at, p);
    struct sl_at_place place = sl_at_place(at, p, row);
    starpu_data_handle_t w = sl_at_value(at, p, parameter);
    if (sparse_input(at)) {
        struct sl_sparse x = sparse_rows(at, p, &row);
        return sl_dense_sparse_forward_submit(&head, &x, row, w, bias, beta, z);
    }
    return sl_dense_forward_submit(&head, sl_at_rows(at, p, SL_ROWS_INPUT)->chunk[place.chunk], place.row, w, bias,
                                   beta, z);
}

enum sl_status sl_multiply_back(const struct sl_at *at, uint32_t p, uint32_t row, int parameter, bool with_bias,
                                starpu_data_handle_t gz)
{
    struct sl_task_args head = sl_at_head(at, p);
    struct sl_at_place place = sl_at_place(at, p, row);
    starpu_data_handle_t gw = NULL;
    starpu_data_handle_t gb = NULL;
    enum sl_status st;
    int beta = sparse_input(at) && row > 0;
    if (beta) {
        const struct sl_partials *weights = at->pass->source->partials(at, p, parameter);
        const struct sl_partials *biases = at->pass->source->partials(at, p, SL_BIAS);
        gw = weights->handle[weights->n - 1];
        gb = with_bias && !at->layer->bias_vanishes ? biases->handle[biases->n - 1] : NULL;
    } else {
        SL_TRY(st, sl_at_partial(at, p, parameter, &gw), done);
        SL_TRY(st, bias_partial(at, p, with_bias, &gb), done);
    }
    if (sparse_input(at)) {
        struct sl_sparse x = sparse_rows(at, p, &row);
        st = sl_dense_sparse_backward_weight_submit(&head, &x, row, gz, beta, gw, gb);
    } else {
        st = sl_dense_backward_weight_submit(&head, sl_at_rows(at, p, SL_ROWS_INPUT)->chunk[place.chunk], place.row, gz,
                                             gw, gb);
    }
done:
    return st;
}

/* y of one PE, and what may begin of each chunk beside it. */
static enum sl_status project(const struct sl_at *at, uint32_t p, int parameter, sl_chunk_work *beside)
{
    const struct sl_rows *y = sl_at_rows(at, p, SL_ROWS_PROJECTED);
    enum sl_status st;
    SL_TRY(st, sl_at_shape(at, p, SL_ROWS_PROJECTED, at->from, sl_at_order(at)->travels), done);
    for (uint32_t c = 0; c < y->split.n_chunks; c++) {
        SL_TRY(st, sl_multiply(at, p, sl_at_chunk_row(at, p, at->from, c), parameter, NULL, 0, y->chunk[c]), done);
        SL_TRY(st, beside != NULL ? beside(at, p, c) : SL_OK, done);
    }
done:
    return st;
}

enum sl_status sl_project(const struct sl_at *at, int parameter)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0, p = 0; st == SL_OK && sl_at_pe(at, k, &p); k++) {
        st = project(at, p, parameter, NULL);
    }
    return st;
}

enum sl_status sl_project_back(const struct sl_at *at, uint32_t p, int parameter)
{
    const struct sl_rows *gy = sl_at_rows(at, p, SL_ROWS_GY);
    struct sl_task_args head = sl_at_head(at, p);
    enum sl_status st = SL_OK;
    if (at->i > 0) {
        SL_TRY(st, sl_rows_reshape(&gy->split, at->layer->n_in, sizeof(sl_real), sl_at_input_gradient(at, p)), done);
    }
    for (uint32_t c = 0; c < gy->split.n_chunks; c++) {
        SL_TRY(st, sl_multiply_back(at, p, sl_at_chunk_row(at, p, at->from, c), parameter, false, gy->chunk[c]), done);
        if (at->i > 0) {
            SL_TRY(st,
                   sl_dense_backward_input_submit(&head, gy->chunk[c], sl_at_value(at, p, parameter), 0,
                                                  sl_at_input_gradient(at, p)->chunk[c], 0),
                   done);
        }
    }
done:
    return st;
}

void sl_project_done(const struct sl_at *at)
{
    for (uint32_t k = 0, p = 0; sl_at_pe(at, k, &p); k++) {
        sl_at_done(at, p, SL_ROWS_PROJECTED);
    }
}

enum sl_status sl_sum_back(const struct sl_at *at, int parameter)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0, p = 0; at->i > 0 && sl_at_pe(at, k, &p); k++) {
        const struct sl_rows *gz = sl_at_rows(at, p, sl_at_result_gradient(at));
        const struct sl_rows *ga = sl_at_rows(at, p, SL_ROWS_GA);
        struct sl_task_args head = sl_at_head(at, p);
        SL_TRY(st, sl_at_shape(at, p, SL_ROWS_GA, at->level, at->layer->n_in), done);
        for (uint32_t c = 0; c < ga->split.n_chunks; c++) {
            SL_TRY(
                st,
                sl_dense_backward_input_submit(&head, gz->chunk[c], sl_at_value(at, p, parameter), 0, ga->chunk[c], 0),
                done);
        }
    }
done:
    return st;
}

/* One chunk of sl_sum_gradient. */
static enum sl_status sum_gradient(const struct sl_at *at, uint32_t p, uint32_t c, int parameter, bool with_bias)
{
    starpu_data_handle_t gz = sl_at_rows(at, p, sl_at_result_gradient(at))->chunk[c];
    struct sl_task_args head = sl_at_head(at, p);
    starpu_data_handle_t gw = NULL;
    starpu_data_handle_t gb = NULL;
    enum sl_status st;
    SL_TRY(st, sl_at_partial(at, p, parameter, &gw), done);
    SL_TRY(st, bias_partial(at, p, with_bias, &gb), done);
    st = sl_dense_backward_weight_submit(&head, sl_at_rows(at, p, SL_ROWS_SUM)->chunk[c], 0, gz, gw, gb);
done:
    return st;
}

enum sl_status sl_sum_gradient(const struct sl_at *at, int parameter, bool with_bias)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0, p = 0; sl_at_pe(at, k, &p); k++) {
        for (uint32_t c = 0; c < at->pass->pe[p].split[at->level].n_chunks; c++) {
            SL_TRY(st, sum_gradient(at, p, c, parameter, with_bias), done);
        }
    }
done:
    return st;
}

/* The next slice of the columns that travel is in hand, or none. Before the first it is empty. */
static bool next_slice(struct sl_at *at)
{
    uint32_t all = sl_at_order(at)->travels;
    uint32_t most = at->pass->source->columns == NULL ? all : at->pass->source->columns(at);
    uint32_t rest;
    at->columns.first += at->columns.n;
    rest = all - at->columns.first;
    at->columns.n = rest < most ? rest : most;
    return at->columns.n > 0;
}

/* What a layer sums into, and its result. */
static enum sl_status shape_sums(const struct sl_at *at, uint32_t p, enum sl_role result)
{
    enum sl_status st = SL_OK;
    SL_TRY(st, sl_at_shape(at, p, result, at->level, at->layer->n_out), done);
    if (!sl_at_order(at)->project_first) {
        SL_TRY(st, sl_at_shape(at, p, SL_ROWS_SUM, at->level, at->layer->n_in), done);
    }
done:
    return st;
}

/* How a layer goes over its chunks. begun: their rows have their shape, and what comes before the sums is under way. */
struct sums {
    enum sl_role result;
    bool begun;
    sl_chunk_work *begin, *combine;
};

/* The slice of columns in hand. */
static enum sl_status sum_slice(const struct sl_at *at, const struct sums *sums)
{
    bool begins = at->columns.first == 0 && !sums->begun;
    enum sl_status st;
    SL_TRY(st, at->pass->source->send(at), done);
    for (uint32_t k = 0, p = 0; sl_at_pe(at, k, &p); k++) {
        SL_TRY(st, begins ? shape_sums(at, p, sums->result) : SL_OK, done);
        for (uint32_t c = 0; c < at->pass->pe[p].split[at->level].n_chunks; c++) {
            SL_TRY(st, begins && sums->begin != NULL ? sums->begin(at, p, c) : SL_OK, done);
            SL_TRY(st, sums->combine(at, p, c), done);
        }
    }
done:
    return st;
}

static enum sl_status sum_slices(const struct sl_at *at, const struct sums *sums)
{
    struct sl_at slice = *at;
    enum sl_status st = SL_OK;
    while (next_slice(&slice)) {
        SL_TRY(st, sum_slice(&slice, sums), done);
    }
    at->pass->source->arrived(at);
done:
    return st;
}

enum sl_status sl_sum_chunks(const struct sl_at *at, enum sl_role result, sl_chunk_work *begin, sl_chunk_work *combine)
{
    struct sums sums = {.result = result, .begin = begin, .combine = combine};
    return sum_slices(at, &sums);
}

/* With all rows at every level, as they are without a way back, a chunk's input is done with when it has been projected, and what is added
 * to its sums has begun. */
static enum sl_status project_and_begin(const struct sl_at *at, int parameter, sl_chunk_work *begin)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0, p = 0; sl_at_pe(at, k, &p); k++) {
        SL_TRY(st, shape_sums(at, p, SL_ROWS_Z), done);
        SL_TRY(st, project(at, p, parameter, begin), done);
    }
done:
    return st;
}

enum sl_status sl_convolve(const struct sl_at *at, int parameter, sl_chunk_work *begin, sl_chunk_work *combine)
{
    bool project_first = sl_at_order(at)->project_first;
    struct sums sums = {SL_ROWS_Z, project_first && !at->pass->training, begin, combine};
    enum sl_status st = SL_OK;
    if (sums.begun) {
        SL_TRY(st, project_and_begin(at, parameter, begin), done);
    } else {
        SL_TRY(st, project_first ? sl_project(at, parameter) : SL_OK, done);
    }
    st = sum_slices(at, &sums);
done:
    return st;
}

/* ---- bias and residual ---- */

enum sl_status sl_bias(const struct sl_at *at, uint32_t p, starpu_data_handle_t z)
{
    struct sl_task_args head = sl_at_head(at, p);
    return sl_bias_forward_submit(&head, sl_at_value(at, p, SL_BIAS), z);
}

enum sl_status sl_bias_back(const struct sl_at *at)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0, p = 0; !at->layer->bias_vanishes && sl_at_pe(at, k, &p); k++) {
        const struct sl_rows *gz = sl_at_rows(at, p, SL_ROWS_GZ);
        struct sl_task_args head = sl_at_head(at, p);
        for (uint32_t c = 0; c < gz->split.n_chunks; c++) {
            starpu_data_handle_t gb;
            SL_TRY(st, sl_at_partial(at, p, SL_BIAS, &gb), done);
            SL_TRY(st, sl_bias_backward_submit(&head, gz->chunk[c], gb), done);
        }
    }
done:
    return st;
}

enum sl_status sl_residual_back(const struct sl_at *at, uint32_t p)
{
    const struct sl_rows *gh = sl_at_rows(at, p, SL_ROWS_GH);
    struct sl_task_args head = sl_at_head(at, p);
    enum sl_status st = SL_OK;
    for (uint32_t c = 0; c < gh->split.n_chunks; c++) {
        struct sl_at_place place = sl_at_place(at, p, sl_at_chunk_row(at, p, at->level, c));
        SL_TRY(st,
               sl_activate_residual_backward_submit(&head, gh->chunk[c],
                                                    sl_at_input_gradient(at, p)->chunk[place.chunk], place.row),
               done);
    }
done:
    return st;
}
