/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Parameters: created, named, read and written. Matrices are [n_in x n_out] in memory; files may have them
 * transposed. */
#include "runtime/model/model.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "runtime/files/checkpoint.h"
#include "runtime/model/kinds.h"
#include "runtime/model/sums.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/random.h"
#include "support/text.h"

/* ---- making ---- */

static enum sl_status open_array(uint32_t n_rows, uint32_t n_columns, const char *name, sl_real **array_out,
                                 starpu_data_handle_t *handle_out)
{
    SL_CHECK(sl_alloc_zero((size_t)n_rows * n_columns, sizeof **array_out, name, array_out));
    *handle_out = sl_matrix_over(*array_out, n_rows, n_columns, SL_DTYPE_REAL);
    return SL_OK;
}

/* Allocate and register a parameter's arrays; its shape is set. A parameter that is not trained has no moments. */
static enum sl_status open_parameter(bool trained, struct sl_parameter *p)
{
    uint32_t n_rows = p->n_rows;
    uint32_t n_columns = p->n_columns;
    SL_FAIL_IF((uint64_t)n_rows * n_columns >= UINT32_MAX, SL_EINVAL,
               "a weight matrix of %u x %u is too large for StarPU: use a smaller --hidden", n_rows, n_columns);
    SL_CHECK(open_array(n_rows, n_columns, "a parameter", &p->value, &p->value_handle));
    SL_CHECK(open_array(n_rows, n_columns, "a gradient", &p->gradient, &p->gradient_handle));
    if (!trained) {
        return SL_OK;
    }
    SL_CHECK(open_array(n_rows, n_columns, "a first moment", &p->moment1, &p->moment1_handle));
    return open_array(n_rows, n_columns, "a second moment", &p->moment2, &p->moment2_handle);
}

/* Xavier uniform with ReLU's gain: U(-a, a), a = sqrt(2) sqrt(6 / (in + out)). The parameter is one matrix n_in x n_out
 * or several, one above the other or side by side. Matrix k has the draws of rows k n_in and on. */
static void initialise_matrices(const struct sl_draw *draw, uint32_t n_in, uint32_t n_out, struct sl_parameter *p)
{
    const double bound = sqrt(2.0) * sqrt(6.0 / ((double)n_in + n_out));
    for (uint32_t r = 0; r < p->n_rows; r++) {
        for (uint32_t c = 0; c < p->n_columns; c++) {
            const double u = sl_random_unit(draw, r + c / n_out * n_in, c % n_out);
            p->value[(size_t)r * p->n_columns + c] = (sl_real)(bound * (2 * u - 1));
        }
    }
}

/* Attention vectors, n_heads heads side by side: Xavier uniform of a [head width x 1] matrix. */
static void initialise_heads(const struct sl_draw *draw, uint32_t n_heads, struct sl_parameter *p)
{
    double bound = sqrt(2.0) * sqrt(6.0 / (p->n_columns / n_heads + 1.0));
    for (uint32_t c = 0; c < p->n_columns; c++) {
        p->value[c] = (sl_real)(bound * (2 * sl_random_unit(draw, 0, c) - 1));
    }
}

static enum sl_status open_norm(struct sl_layer *layer)
{
    uint32_t width = layer->parameter[SL_NORM_WEIGHT].n_columns;
    SL_CHECK(open_parameter(true, &layer->parameter[SL_NORM_WEIGHT]));
    SL_CHECK(open_parameter(true, &layer->parameter[SL_NORM_BIAS]));
    for (uint32_t c = 0; c < width; c++) {
        layer->parameter[SL_NORM_WEIGHT].value[c] = 1;
    }
    if (layer->norm == SL_NORM_BATCH) {
        SL_CHECK(open_array(2, layer->n_out, "running statistics", &layer->running, &layer->running_handle));
        for (uint32_t c = 0; c < layer->n_out; c++) {
            layer->running[layer->n_out + c] = 1;
        }
    }
    return SL_OK;
}

static enum sl_status open_own(uint64_t seed, uint32_t i, uint32_t k, struct sl_layer *layer)
{
    const struct sl_parameter_kind *kind = &layer->kind->parameter[k];
    struct sl_parameter *p = &layer->parameter[k];
    const struct sl_draw draw = {.seed = seed, .step = i, .purpose = SL_FOR_INITIALISATION, .hop = kind->key};
    bool fixed = kind->shape == SL_SHAPE_NUMBER && !layer->learns_epsilon;
    if (p->n_rows == 0) {
        return SL_OK;
    }
    SL_CHECK(open_parameter(!sl_shape_is_derived(kind->shape) && !fixed, p));
    if (kind->shape == SL_SHAPE_MATRIX || kind->shape == SL_SHAPE_SKIP || kind->shape == SL_SHAPE_SQUARE ||
        kind->shape == SL_SHAPE_COMPONENTS || kind->shape == SL_SHAPE_RELATION_ROWS) {
        initialise_matrices(&draw, p->n_rows, p->n_columns, p);
    }
    if (kind->shape == SL_SHAPE_EDGES || kind->shape == SL_SHAPE_EDGE_RELATIONS || kind->shape == SL_SHAPE_EDGE_SLABS) {
        initialise_matrices(&draw, layer->n_edge_features, layer->n_out, p);
    }
    if (kind->shape == SL_SHAPE_EDGE_ENCODERS) {
        initialise_matrices(&draw, layer->n_edge_features, layer->n_in, p);
    }
    if (kind->shape == SL_SHAPE_RELATIONS || kind->shape == SL_SHAPE_BASES) {
        initialise_matrices(&draw, layer->n_in, layer->n_out, p);
    }
    if (kind->shape == SL_SHAPE_HEADS || kind->shape == SL_SHAPE_EDGE_HEADS) {
        initialise_heads(&draw, layer->n_heads, p);
    }
    if (kind->shape == SL_SHAPE_ROW) {
        initialise_heads(&draw, 1, p);
    }
    return SL_OK;
}

static struct sl_layer_order order_of(const struct sl_layer *layer, bool project_first)
{
    return (struct sl_layer_order){.project_first = project_first,
                                   .travels = project_first ? layer->n_out : layer->n_in};
}

/* Choose the order of product and sum. A layer that narrows sums fewer numbers if it multiplies first. But then it
 * multiplies the source rows instead of the destination rows. Over all vertices the two numbers are equal. In a
 * sample, sources are several times as many, and the product takes most of the time, so only features, the widest
 * rows, are multiplied first. Sparse features are never summed. */
static void order_layer(const struct sl_settings *settings, bool first, bool sparse, struct sl_layer *layer)
{
    bool narrows = layer->n_in > layer->n_out || (first && sparse);
    bool pipe = settings->schedule == SL_SCHEDULE_PIPE; /* all travelling rows have the hidden width */
    layer->training = order_of(layer, first && (narrows || pipe));
    layer->training.in_place = first && !layer->training.project_first && layer->kind->sum != NULL &&
                               layer->kind->sum->in_place && settings->input_dropout == 0;
    layer->evaluation = pipe ? layer->training : order_of(layer, narrows);
}

/* The kind of the layers that aggregate. */
static const struct sl_layer_kind *aggregating(const struct sl_settings *settings)
{
    if (settings->edge_features == SL_EDGE_FEATURES_ADD) {
        return sl_model_kind(settings->model)->adding;
    }
    return settings->bases > 0 ? &sl_rgcn_bases : sl_model_kind(settings->model)->layer;
}

/* Describe layer i, except for its parameters. */
static void shape_layer(const struct sl_settings *settings, uint32_t i, const struct sl_model_data *data,
                        struct sl_layer *layer)
{
    const struct sl_model_kind *model = sl_model_kind(settings->model);
    const struct sl_layer_kind *first = sl_model_first(settings);
    uint32_t before = first != NULL; /* layers that do not aggregate */
    uint32_t n_layers = sl_model_layers(settings) - sl_settings_trains_links(settings); /* without `ends` */
    bool aggregates = i >= before && i < before + settings->layers;
    layer->first = i == 0;
    layer->last = i + 1 >= n_layers;
    layer->kind = model->last;
    layer->number = i - before;
    layer->from = sl_settings_hops(settings) - layer->number;
    layer->level = layer->from;
    if (i < before) {
        layer->kind = first;
        layer->number = 0;
        layer->from = layer->level = sl_settings_hops(settings);
    } else if (aggregates) {
        layer->kind = aggregating(settings);
        layer->level = layer->from - 1;
    } else if (i == n_layers) {
        layer->kind = sl_ends(settings->decoder);
        layer->from = 1;
        layer->level = 0;
    } else if (settings->output_layers > 0) {
        layer->kind = &sl_dense_out;
        layer->number -= settings->layers;
        layer->from = layer->level = sl_settings_hops(settings) - settings->layers;
    }
    layer->n_in = i == 0 ? data->n_features : settings->hidden;
    layer->n_out = layer->last ? data->n_outputs : settings->hidden;
    layer->hidden = !layer->last && !layer->kind->linear;
    layer->norm = SL_NORM_NONE;
    if (layer->kind->norms_input) {
        layer->norm = SL_NORM_LAYER;
    } else if (layer->hidden && i >= before) {
        layer->norm = settings->norm;
    }
    layer->activation = (enum sl_activate_kind)settings->activation;
    layer->bias_vanishes = layer->norm == SL_NORM_BATCH;
    layer->residual = settings->residual && layer->hidden && aggregates && layer->n_in == layer->n_out;
    order_layer(settings, i == 0, data->sparse, layer);
    layer->row_dtype = sl_settings_row_dtype(settings);
    layer->n_heads = 1;
    layer->n_relations = sl_max_u32(data->n_relations, 1);
    if (i == n_layers) {
        layer->n_relations = sl_max_u32(data->n_link_relations, 1);
    }
    layer->n_bases = settings->bases;
    layer->n_edge_features = aggregates && settings->edge_features != SL_EDGE_FEATURES_NONE ? data->n_edge_features : 0;
    layer->adds_edges = layer->n_edge_features > 0 && settings->edge_features == SL_EDGE_FEATURES_ADD;
    layer->scale = 1;
    layer->activates_input = layer->kind->norms_input;
    layer->keeps = i < before && model->layer->reads_first;
    if (layer->kind->shape != NULL) {
        layer->kind->shape(settings, layer);
    }
    layer->returns = i > 0 || layer->training.project_first;
    sl_layer_declare_rows(layer, &layer->training);
    sl_layer_declare_rows(layer, &layer->evaluation);
}

/* n matrices. If the layer projects first, one product gives all slabs of a row. */
static void shape_stack(const struct sl_layer *layer, uint32_t n, struct sl_parameter *p)
{
    const bool project_first = layer->training.project_first;
    p->n_rows = layer->n_in * (project_first ? 1 : n);
    p->n_columns = layer->n_out * (project_first ? n : 1);
}

static void shape_derived(const struct sl_layer *layer, struct sl_parameter *p)
{
    p->n_rows = layer->n_in;
    if (layer->training.project_first) {
        p->n_columns = layer->training.travels;
    } else {
        p->n_rows *= sl_layer_slabs(layer);
    }
}

static void shape_parameters(struct sl_layer *layer)
{
    for (uint32_t k = 0; k < layer->kind->n_parameters; k++) {
        struct sl_parameter *p = &layer->parameter[k];
        p->n_rows = 1;
        p->n_columns = layer->n_out;
        switch (layer->kind->parameter[k].shape) {
        case SL_SHAPE_MATRIX: p->n_rows = layer->n_in; break;
        case SL_SHAPE_SKIP: p->n_rows = layer->skips ? layer->n_in : 0; break;
        case SL_SHAPE_SQUARE: p->n_rows = layer->n_out; break;
        case SL_SHAPE_RELATIONS: shape_stack(layer, layer->n_relations, p); break;
        case SL_SHAPE_BASES: shape_stack(layer, layer->n_bases, p); break;
        case SL_SHAPE_EDGES: p->n_rows = layer->n_edge_features; break;
        case SL_SHAPE_EDGE_RELATIONS:
        case SL_SHAPE_EDGE_PRODUCTS: p->n_rows = layer->n_edge_features * sl_layer_slabs(layer); break;
        case SL_SHAPE_EDGE_MESSAGES: p->n_rows = layer->adds_edges ? layer->n_edge_features * layer->n_heads : 0; break;
        case SL_SHAPE_EDGE_ENCODERS:
            p->n_rows = layer->n_edge_features * sl_layer_slabs(layer);
            p->n_columns = layer->n_in;
            break;
        case SL_SHAPE_EDGE_SLABS:
            p->n_rows = layer->n_edge_features;
            p->n_columns *= layer->n_relations;
            break;
        case SL_SHAPE_COMPONENTS:
            p->n_rows = layer->n_relations;
            p->n_columns = layer->n_bases;
            break;
        case SL_SHAPE_HEADS: p->n_columns *= sl_layer_slabs(layer); break;
        case SL_SHAPE_EDGE_HEADS:
            p->n_rows = layer->n_edge_features > 0;
            p->n_columns *= sl_layer_slabs(layer);
            break;
        case SL_SHAPE_EDGE_SCORES:
            p->n_rows = layer->n_edge_features > 0;
            p->n_columns = layer->n_heads * layer->n_edge_features;
            break;
        case SL_SHAPE_RELATION_ROWS: p->n_rows = layer->n_relations; break;
        case SL_SHAPE_SCALAR:
        case SL_SHAPE_NUMBER: p->n_columns = 1; break;
        case SL_SHAPE_DERIVED: shape_derived(layer, p); break;
        default: break;
        }
    }
    for (int k = SL_NORM_WEIGHT; layer->norm != SL_NORM_NONE && k <= SL_NORM_BIAS; k++) {
        layer->parameter[k].n_rows = 1;
        layer->parameter[k].n_columns = layer->kind->norms_input ? layer->n_in : layer->n_out;
    }
}

void sl_model_shape(const struct sl_settings *settings, const struct sl_model_data *data, struct sl_model *out)
{
    memset(out, 0, offsetof(struct sl_model, layer)); /* not the layers beyond the last: 0.4 MB */
    out->n_layers = sl_model_layers(settings);
    out->norm = settings->norm;
    out->n_vertex_layers = out->n_layers - sl_settings_trains_links(settings);
    for (uint32_t i = 0; i < out->n_layers; i++) {
        out->layer[i] = (struct sl_layer){0};
        shape_layer(settings, i, data, &out->layer[i]);
        shape_parameters(&out->layer[i]);
    }
}

static enum sl_status open_layer(const struct sl_settings *settings, uint32_t i, struct sl_layer *layer)
{
    for (uint32_t k = 0; k < layer->kind->n_parameters; k++) {
        SL_CHECK(open_own(settings->seed, i, k, layer));
    }
    if (layer->norm != SL_NORM_NONE) {
        return open_norm(layer);
    }
    return SL_OK;
}

enum sl_status sl_model_init(const struct sl_settings *settings, const struct sl_model_data *data, struct sl_model *out)
{
    enum sl_status st = SL_OK;
    sl_model_shape(settings, data, out);
    for (uint32_t i = 0; i < out->n_layers; i++) {
        SL_TRY(st, open_layer(settings, i, &out->layer[i]), undo);
    }
    return SL_OK;
undo:
    sl_model_free(out);
    return st;
}

enum sl_status sl_model_make_replica(struct sl_model *model, uint32_t replica)
{
    model->is_replica = true;
    model->replica = replica;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            struct sl_parameter *p = &model->layer[i].parameter[k];
            if (sl_parameter_trained(p)) {
                SL_CHECK(open_array(p->n_rows, p->n_columns, "a spare array", &p->spare, &p->spare_handle));
            }
        }
    }
    return SL_OK;
}

static void close_array(sl_real *array, starpu_data_handle_t handle)
{
    if (handle != NULL) {
        starpu_data_unregister(handle);
    }
    sl_free(array);
}

void sl_model_free(struct sl_model *model)
{
    for (uint32_t i = 0; i < model->n_layers; i++) {
        struct sl_layer *layer = &model->layer[i];
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            struct sl_parameter *p = &layer->parameter[k];
            close_array(p->value, p->value_handle);
            close_array(p->gradient, p->gradient_handle);
            close_array(p->moment1, p->moment1_handle);
            close_array(p->moment2, p->moment2_handle);
            close_array(p->spare, p->spare_handle);
        }
        close_array(layer->running, layer->running_handle);
    }
    *model = (struct sl_model){0};
}

/* ---- every array of a model, one after the other ---- */

/* An array in a file: values or moments of a parameter, or running statistics. */
struct item {
    char name[SL_TENSOR_NAME_BYTES];
    sl_real *array;
    uint32_t n_rows, n_columns;      /* in memory */
    const struct sl_layer *needless; /* the layer, if this is its needless bias, which has no array. Else NULL */
    /* In the file. FRAMED_HEADS have a leading axis: n_frames vectors. RELATIONS are n_matrices matrices. */
    enum layout { VECTOR, MATRIX, TRANSPOSED, HEADS, FRAMED_HEADS, RELATIONS } layout;
    uint32_t n_heads, n_frames;
    uint32_t n_matrices;
    bool side_by_side; /* RELATIONS in memory; else one above the other, as in the file */
};

/* Build an item's name: the prefixes of replica and kind, the table's name with the layer's number for #, the suffix of
 * the state. */
static void name_item(const struct sl_model *model, struct item *item, const char *name, const struct sl_layer *layer,
                      const char *state)
{
    const char *prefix = sl_text_or(layer->kind->prefix, "");
    char replica[32] = "";
    const char *mark = strchr(name, '#');
    int before = mark != NULL ? (int)(mark - name) : (int)strlen(name);
    if (model->is_replica) {
        snprintf(replica, sizeof replica, "replica.%u.", model->replica);
    }
    if (mark != NULL) {
        snprintf(item->name, sizeof item->name, "%s%s%.*s%u%s%s", replica, prefix, before, name, layer->number,
                 mark + 1, state);
    } else {
        snprintf(item->name, sizeof item->name, "%s%s%s%s", replica, prefix, name, state);
    }
}

static const struct sl_parameter_kind *kind_of(const struct sl_layer *layer, int k)
{
    static const struct sl_parameter_kind norms[] = {
        {SL_SHAPE_VECTOR, {{"norms.#.weight", 0}, {"norms.#.weight", 0}}, .key = 3},
        {SL_SHAPE_VECTOR, {{"norms.#.bias", 0}, {"norms.#.bias", 0}}, .key = 4}};
    return k >= SL_NORM_WEIGHT ? &norms[k - SL_NORM_WEIGHT] : &layer->kind->parameter[k];
}

static enum layout layout_of(const struct sl_parameter_kind *kind, enum sl_save_names names, bool state)
{
    switch (kind->shape) {
    case SL_SHAPE_SQUARE:
    case SL_SHAPE_SKIP:
    case SL_SHAPE_EDGES:
    case SL_SHAPE_MATRIX: return kind->name[names].transposed ? TRANSPOSED : MATRIX;
    case SL_SHAPE_EDGE_ENCODERS: return kind->name[names].transposed ? TRANSPOSED : RELATIONS;
    case SL_SHAPE_EDGE_HEADS:
    case SL_SHAPE_HEADS: return state ? HEADS : FRAMED_HEADS;
    case SL_SHAPE_RELATION_ROWS:
    case SL_SHAPE_ROW:
    case SL_SHAPE_COMPONENTS: return MATRIX;
    case SL_SHAPE_BASES:
    case SL_SHAPE_EDGE_RELATIONS:
    case SL_SHAPE_EDGE_SLABS:
    case SL_SHAPE_RELATIONS: return RELATIONS;
    default: return VECTOR;
    }
}

static uint32_t list_parameter(const struct sl_model *model, uint32_t i, int k, enum sl_tensors_for purpose,
                               struct item *out)
{
    const struct sl_parameter *p = &model->layer[i].parameter[k];
    const struct sl_parameter_kind *kind = kind_of(&model->layer[i], k);
    bool state = purpose == SL_TENSORS_FOR_CHECKPOINT;
    enum sl_save_names names = purpose == SL_TENSORS_FOR_PYG ? SL_NAMES_PYG : SL_NAMES_DGL;
    sl_real *const arrays[] = {p->value, p->moment1, p->moment2};
    static const char *const states[] = {"", ".moment1", ".moment2"};
    uint32_t n = state && sl_parameter_trained(p) ? 3 : 1;
    if (p->n_rows == 0 || sl_shape_is_derived(kind->shape)) {
        return 0;
    }
    for (uint32_t j = 0; j < n; j++) {
        out[j] = (struct item){.array = arrays[j], .n_rows = p->n_rows, .n_columns = p->n_columns};
        out[j].layout = layout_of(kind, names, state);
        out[j].n_heads = model->layer[i].n_heads;
        out[j].n_frames = sl_layer_slabs(&model->layer[i]);
        out[j].n_matrices = kind->shape == SL_SHAPE_BASES ? model->layer[i].n_bases : model->layer[i].n_relations;
        out[j].side_by_side = model->layer[i].training.project_first && kind->shape != SL_SHAPE_EDGE_RELATIONS &&
                              kind->shape != SL_SHAPE_EDGE_ENCODERS;
        name_item(model, &out[j], kind->name[names].text, &model->layer[i], states[j]);
    }
    return n;
}

/* The needless bias of layer i, which has one. */
static struct item needless_item(const struct sl_model *model, uint32_t i)
{
    const struct sl_layer *layer = &model->layer[i];
    struct item item = {.n_rows = 1, .n_columns = layer->n_out, .needless = layer};
    name_item(model, &item, layer->kind->needless_bias, layer, "");
    return item;
}

/* The biases that stand for a needless one take over its values. */
static void take_over(const struct sl_layer *layer, const sl_real *values)
{
    for (uint32_t c = 0; c < layer->n_out; c++) {
        layer->parameter[layer->kind->instead[0]].value[c] += values[c];
        layer->parameter[layer->kind->instead[1]].value[c] -= values[c];
    }
}

#define LAYER_ITEMS (3 * SL_MAX_PARAMETERS + 2)

/* The items of layer i, at most LAYER_ITEMS. */
static uint32_t list_layer(const struct sl_model *model, uint32_t i, enum sl_tensors_for purpose, struct item *out)
{
    const struct sl_layer *layer = &model->layer[i];
    uint32_t n = 0;
    for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
        n += list_parameter(model, i, k, purpose, out + n);
    }
    if (purpose == SL_TENSORS_FOR_PYG && layer->kind->needless_bias != NULL) {
        out[n++] = needless_item(model, i);
    }
    if (layer->running != NULL) {
        for (uint32_t row = 0; row < 2; row++) {
            out[n] = (struct item){.array = layer->running + (size_t)row * layer->n_out, .n_rows = 1};
            out[n].n_columns = layer->n_out;
            name_item(model, &out[n++], row == 0 ? "norms.#.running_mean" : "norms.#.running_var", layer, "");
        }
    }
    return n;
}

/* All items, at most SL_MODEL_TENSORS: too many for a small stack. */
static uint32_t list_items(const struct sl_model *model, enum sl_tensors_for purpose, struct item *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        n += list_layer(model, i, purpose, out + n);
    }
    return n;
}

static size_t entries_of(const struct item *item)
{
    return (size_t)item->n_rows * item->n_columns;
}

/* in: [n_rows x n_columns]. */
static void transpose(uint32_t n_rows, uint32_t n_columns, const sl_real *in, sl_real *out)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        for (uint32_t c = 0; c < n_columns; c++) {
            out[(size_t)c * n_rows + r] = in[(size_t)r * n_columns + c];
        }
    }
}

/* Matrices n_in x n_out that stand side by side in one array, and one above the other in the other. `apart`: to the
 * latter. */
static void restack(const struct item *item, bool apart, const sl_real *in, sl_real *out)
{
    const uint32_t n_in = item->n_rows;
    const uint32_t n_out = item->n_columns / item->n_matrices;
    for (uint32_t k = 0; k < item->n_matrices; k++) {
        for (uint32_t r = 0; r < n_in; r++) {
            const size_t above = ((size_t)k * n_in + r) * n_out;
            const size_t beside = (size_t)r * item->n_columns + (size_t)k * n_out;
            memcpy(out + (apart ? above : beside), in + (apart ? beside : above), n_out * sizeof *out);
        }
    }
}

/* ---- files ---- */

/* Split the first axis into n_frames of equal length. */
static struct sl_tensor framed(struct sl_tensor t, uint32_t n_frames)
{
    t.shape[2] = t.shape[1];
    t.shape[1] = t.shape[0] / n_frames;
    t.shape[0] = n_frames;
    t.n_dims = 3;
    return t;
}

/* The item as a tensor of a file. */
static struct sl_tensor tensor_of(const struct item *item, const sl_real *data)
{
    if (item->layout == HEADS || item->layout == FRAMED_HEADS) {
        struct sl_tensor heads =
            sl_tensor_make(item->name, SL_DTYPE_REAL, item->n_heads, item->n_columns / item->n_heads, data);
        return item->layout == HEADS ? heads : framed(heads, item->n_frames);
    }
    if (item->layout == RELATIONS) {
        struct sl_tensor t = sl_tensor_make(item->name, SL_DTYPE_REAL, item->n_matrices, 0, data);
        t.n_dims = 3;
        t.shape[1] = item->n_rows / (item->side_by_side ? 1 : item->n_matrices);
        t.shape[2] = item->n_columns / (item->side_by_side ? item->n_matrices : 1);
        return t;
    }
    if (item->layout == VECTOR) {
        return sl_tensor_make(item->name, SL_DTYPE_REAL, item->n_columns, 0, data);
    }
    if (item->layout == TRANSPOSED) {
        return sl_tensor_make(item->name, SL_DTYPE_REAL, item->n_columns, item->n_rows, data);
    }
    return sl_tensor_make(item->name, SL_DTYPE_REAL, item->n_rows, item->n_columns, data);
}

static enum sl_status copy_item(const struct item *item, struct sl_tensor *out)
{
    sl_real *data;
    size_t n = (size_t)item->n_rows * item->n_columns;
    SL_CHECK(sl_alloc(n, sizeof *data, "a tensor", &data));
    if (item->layout == TRANSPOSED) {
        transpose(item->n_rows, item->n_columns, item->array, data);
    } else if (item->layout == RELATIONS && item->side_by_side) {
        restack(item, true, item->array, data);
    } else if (item->needless != NULL) {
        memset(data, 0, n * sizeof *data);
    } else {
        memcpy(data, item->array, n * sizeof *data);
    }
    *out = tensor_of(item, data);
    return SL_OK;
}

enum sl_status sl_model_tensors(const struct sl_model *model, enum sl_tensors_for purpose,
                                struct sl_tensor *tensors_out, uint32_t *n_out)
{
    struct item items[LAYER_ITEMS];
    uint32_t n = 0;
    enum sl_status st = SL_OK;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        uint32_t n_items = list_layer(model, i, purpose, items);
        for (uint32_t k = 0; k < n_items; k++) {
            SL_TRY(st, copy_item(&items[k], &tensors_out[n]), undo);
            n++;
        }
    }
    *n_out = n;
    return SL_OK;
undo:
    sl_model_tensors_free(tensors_out, n);
    return st;
}

uint32_t sl_model_count_tensors(const struct sl_model *model, enum sl_tensors_for purpose)
{
    struct item items[LAYER_ITEMS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        n += list_layer(model, i, purpose, items);
    }
    return n;
}

void sl_model_tensors_free(struct sl_tensor *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        sl_free((void *)(uintptr_t)tensors[i].data);
    }
}

/* Adapt an item to the file: take the alternative if the file has only this name, and HEADS if it lacks the first
 * axis. */
static void match_item(const struct sl_tensors *tensors, const struct item *other, struct item *item)
{
    const struct sl_tensor *found = sl_tensors_find(tensors, item->name);
    if (found == NULL && sl_tensors_find(tensors, other->name) != NULL) {
        *item = *other;
    }
    if (found != NULL && item->layout == FRAMED_HEADS && found->n_dims == 2) {
        item->layout = HEADS;
    }
}

/* Adapt n items to the file; others: under PyTorch Geometric's names. Returns their number with the needless biases
 * that the file has. */
static uint32_t match_items(const struct sl_tensors *tensors, uint32_t n, const struct item *others, uint32_t n_others,
                            struct item *items)
{
    uint32_t end = n;
    for (uint32_t i = 0, j = 0; j < n_others; j++) {
        if (others[j].needless == NULL) {
            match_item(tensors, &others[j], &items[i++]);
        } else if (sl_tensors_find(tensors, others[j].name) != NULL) {
            items[end++] = others[j];
        }
    }
    return end;
}

static enum sl_status list_from_file(const struct sl_model *model, bool state, const struct sl_tensors *tensors,
                                     struct item *items, uint32_t *n_out)
{
    SL_FREED struct item *others = NULL;
    *n_out = list_items(model, state ? SL_TENSORS_FOR_CHECKPOINT : SL_TENSORS_FOR_DGL, items);
    if (state) {
        return SL_OK;
    }
    SL_CHECK(sl_alloc(SL_MODEL_TENSORS, sizeof *others, "names of tensors", &others));
    const uint32_t n_others = list_items(model, SL_TENSORS_FOR_PYG, others);
    *n_out = match_items(tensors, *n_out, others, n_others, items);
    return SL_OK;
}

/* Length of the name without the suffix `end`. A name without this suffix: its full length. */
static size_t bytes_before(const char *name, const char *end)
{
    size_t n = strlen(name);
    size_t m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0 ? n - m : n;
}

/* Whether a name belongs to the model: it is an item's name, or stands beside one. Checkpoints have Adam's moments
 * beside parameters. State dicts of PyTorch have a count of batches beside batch norms. */
static bool belongs(const char *name, const struct item *items, uint32_t n)
{
    size_t counted = bytes_before(name, ".num_batches_tracked");
    size_t whole = bytes_before(name, ".moment1");
    if (name[whole] == '\0') {
        whole = bytes_before(name, ".moment2");
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *own = items[i].name;
        size_t norm = bytes_before(own, ".running_mean");
        bool of_norm = own[norm] != '\0' && name[counted] != '\0' && norm == counted;
        if ((strlen(own) == whole && memcmp(own, name, whole) == 0) || (of_norm && memcmp(own, name, norm) == 0)) {
            return true;
        }
    }
    return false;
}

/* Check that the file has no tensor beyond the model's. A surplus tensor shows that the file is of another model,
 * with different scores. */
static enum sl_status check_surplus(const struct sl_tensors *tensors, const struct item *items, uint32_t n)
{
    for (uint32_t i = 0; i < tensors->n; i++) {
        const char *name = tensors->tensors[i].name;
        SL_FAIL_IF(!belongs(name, items, n), SL_EFILE,
                   "%s: found a tensor '%s', expected only what this model has; was it saved with another "
                   "--model, --layers or --norm?",
                   tensors->path, name);
    }
    return SL_OK;
}

static enum sl_status check_finite(const struct sl_tensors *tensors, const char *name, const sl_real *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        SL_FAIL_IF(!isfinite(values[i]), SL_EFILE,
                   "%s: tensor '%s': found %f as entry %zu of %zu, expected finite numbers", tensors->path, name,
                   (double)values[i], i, n);
    }
    return SL_OK;
}

/* Read all arrays into one block first, so that a bad file leaves the model unchanged. */
static enum sl_status read_items(const struct item *items, uint32_t n, const struct sl_tensors *tensors, sl_real *all)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct item *item = &items[i];
        size_t n_entries = (size_t)item->n_rows * item->n_columns;
        struct sl_tensor wanted = tensor_of(item, NULL);
        SL_CHECK(sl_tensors_get(tensors, &wanted, all));
        SL_CHECK(check_finite(tensors, item->name, all, n_entries));
        all += n_entries;
    }
    return SL_OK;
}

enum sl_status sl_model_set_tensors(struct sl_model *model, bool state, const struct sl_tensors *tensors)
{
    SL_FREED struct item *items = NULL;
    uint32_t n = 0;
    size_t n_entries = 0;
    SL_FREED sl_real *all = NULL;
    SL_CHECK(sl_alloc(SL_MODEL_TENSORS, sizeof *items, "a model's tensors", &items));
    SL_CHECK(list_from_file(model, state, tensors, items, &n));
    if (!state && !sl_is_checkpoint(tensors)) {
        SL_CHECK(check_surplus(tensors, items, n));
    }
    for (uint32_t i = 0; i < n; i++) {
        n_entries += entries_of(&items[i]);
    }
    SL_CHECK(sl_alloc(n_entries, sizeof *all, "a model to load", &all));
    SL_CHECK(read_items(items, n, tensors, all));
    const sl_real *from = all;
    for (uint32_t i = 0; i < n; i++) {
        size_t count = (size_t)items[i].n_rows * items[i].n_columns;
        if (items[i].layout == TRANSPOSED) {
            transpose(items[i].n_columns, items[i].n_rows, from, items[i].array);
        } else if (items[i].layout == RELATIONS && items[i].side_by_side) {
            restack(&items[i], false, from, items[i].array);
        } else if (items[i].needless != NULL) { /* behind its layer's parameters */
            take_over(items[i].needless, from);
        } else {
            memcpy(items[i].array, from, count * sizeof *from);
        }
        from += count;
    }
    return SL_OK;
}

uint32_t sl_model_outputs_in(const struct sl_settings *settings, const struct sl_tensors *tensors)
{
    const struct sl_model_data smallest = {.n_features = 1, .n_outputs = 1};
    struct sl_model model;
    sl_model_shape(settings, &smallest, &model);
    const struct sl_layer *last = &model.layer[model.n_vertex_layers - 1];
    uint32_t k = 0;
    while (k + 1 < last->kind->n_parameters && !last->kind->parameter[k].is_output_bias) {
        k++;
    }
    for (int names = 0; names < SL_N_NAMES; names++) {
        struct item item;
        name_item(&model, &item, last->kind->parameter[k].name[names].text, last, "");
        const struct sl_tensor *bias = sl_tensors_find(tensors, item.name);
        if (bias != NULL && bias->n_dims == 1 && bias->shape[0] <= SL_MAX_CLASSES) {
            return (uint32_t)bias->shape[0];
        }
    }
    return 0;
}

/* ---- host access ---- */

#define PARAMETER_HANDLES 4
#define LAYER_HANDLES (SL_MAX_PARAMETERS * PARAMETER_HANDLES + 1)

/* The model's i-th handle. NULL if the model has no such array. */
static starpu_data_handle_t handle_of(const struct sl_model *model, uint32_t i)
{
    const struct sl_layer *layer = &model->layer[i / LAYER_HANDLES];
    uint32_t k = i % LAYER_HANDLES;
    if (k == LAYER_HANDLES - 1) {
        return layer->running_handle;
    }
    const struct sl_parameter *p = &layer->parameter[k / PARAMETER_HANDLES];
    switch (k % PARAMETER_HANDLES) {
    case 0: return p->value_handle;
    case 1: return p->gradient_handle;
    case 2: return p->moment1_handle;
    default: return p->moment2_handle;
    }
}

static void release_first(const struct sl_model *model, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        starpu_data_handle_t handle = handle_of(model, i);
        if (handle != NULL) {
            starpu_data_release(handle);
        }
    }
}

enum sl_status sl_model_acquire(struct sl_model *model, enum starpu_data_access_mode mode)
{
    for (uint32_t i = 0; i < model->n_layers * LAYER_HANDLES; i++) {
        starpu_data_handle_t handle = handle_of(model, i);
        if (handle != NULL && starpu_data_acquire(handle, mode) != 0) {
            release_first(model, i);
            return sl_fail(SL_ESTARPU, "StarPU refused to hand out a parameter");
        }
    }
    return SL_OK;
}

void sl_model_release(struct sl_model *model)
{
    release_first(model, model->n_layers * LAYER_HANDLES);
}

uint64_t sl_model_trained_bytes(const struct sl_model *model)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            const struct sl_parameter *parameter = &model->layer[i].parameter[k];
            if (sl_parameter_trained(parameter)) {
                n += (uint64_t)parameter->n_rows * parameter->n_columns;
            }
        }
    }
    return n * sizeof(sl_real);
}

uint32_t sl_model_trained_arrays(const struct sl_model *model)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            n += sl_parameter_trained(&model->layer[i].parameter[k]);
        }
    }
    return n;
}

size_t sl_model_entries(const struct sl_model *model)
{
    struct item items[LAYER_ITEMS];
    size_t n_entries = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        uint32_t n = list_layer(model, i, SL_TENSORS_FOR_DGL, items);
        for (uint32_t k = 0; k < n; k++) {
            n_entries += entries_of(&items[k]);
        }
    }
    return n_entries;
}

void sl_model_read(const struct sl_model *model, sl_real *values_out)
{
    struct item items[LAYER_ITEMS];
    for (uint32_t i = 0; i < model->n_layers; i++) {
        uint32_t n = list_layer(model, i, SL_TENSORS_FOR_DGL, items);
        for (uint32_t k = 0; k < n; k++) {
            size_t count = entries_of(&items[k]);
            memcpy(values_out, items[k].array, count * sizeof *values_out);
            values_out += count;
        }
    }
}

void sl_model_write(struct sl_model *model, const sl_real *values)
{
    struct item items[LAYER_ITEMS];
    for (uint32_t i = 0; i < model->n_layers; i++) {
        uint32_t n = list_layer(model, i, SL_TENSORS_FOR_DGL, items);
        for (uint32_t k = 0; k < n; k++) {
            size_t count = entries_of(&items[k]);
            memcpy(items[k].array, values, count * sizeof *values);
            values += count;
        }
    }
}
