/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The exact cases of tests/reference: graphs, models and figures made in double by PyTorch's automatic
 * differentiation, and comparison with them. To be included first.
 */
#ifndef SL_TESTS_REFERENCE_FIXTURE_H
#define SL_TESTS_REFERENCE_FIXTURE_H

#include "tests/support/run_fixture.h"

#include <jansson.h>

#include "data/load.h"

POINTER_OWNER(json_decref, json_t)

#ifdef SL_REAL_DOUBLE
#define TOLERANCE 1e-9
#else
#define TOLERANCE 1e-4
#endif

/* The kinds of figures that are compared. An error is a share of the tensor's largest entry; a loss's, of the loss. */
enum figure { LOGITS, LOSS, GRADIENTS, HISTORY, VALUES, N_FIGURES };

static MAYBE_UNUSED const char *const figure_names[] = {"logits", "loss", "gradients", "history", "values"};

static MAYBE_UNUSED double allowed[N_FIGURES] = {TOLERANCE, TOLERANCE, TOLERANCE, TOLERANCE, TOLERANCE};
static MAYBE_UNUSED double worst[N_FIGURES]; /* the largest errors since the last clear_worst */

static MAYBE_UNUSED void expect_figure(enum figure figure, const char *label, size_t i, double got, double wanted,
                                       double size)
{
    double error = fabs(got - wanted) / size;
    worst[figure] = !(error <= worst[figure]) ? error : worst[figure];
    expect_near_at(label, i, got, wanted, allowed[figure] * size);
}

static MAYBE_UNUSED void clear_worst(void)
{
    memset(worst, 0, sizeof worst);
}

static MAYBE_UNUSED void print_worst(const char *name, const char *spread)
{
    for (int k = 0; k < N_FIGURES; k++) {
        print_message("# error %s %s %s %.3g\n", name, spread, figure_names[k], worst[k]);
    }
}

/* What the files call a parameter; NULL: the layer has no such parameter. */
static MAYBE_UNUSED const char *parameter_name(const struct sl_layer *layer, int k)
{
    static const char *const sage[SL_MAX_PARAMETERS] = {"w_self", "w_neigh", "bias", "w_edge"};
    static const char *const adding[SL_MAX_PARAMETERS] = {"w_self", "w_neigh", "bias", "", "encoder"};
    static const char *const gin[SL_MAX_PARAMETERS] = {"eps", "w1", "b1", "w2", "b2"};
    static const char *const rgcn[SL_MAX_PARAMETERS] = {"w_self", "w_neigh", "bias", "w_edge"};
    static const char *const bases[SL_MAX_PARAMETERS] = {"w_self", "bases", "bias", "components"};
    static const char *const rgat[SL_MAX_PARAMETERS] = {"w_self",   "",         "bias",   "",         "w_relations",
                                                        "attn_src", "attn_dst", "w_edge", "attn_edge"};
    static const char *const others[SL_MAX_PARAMETERS] = {"w",      "bias", "attn_src", "attn_dst",
                                                          "w_skip", "",     "w_edge",   "attn_edge"};
    static const char *const gatv2[SL_MAX_PARAMETERS] = {"w_l", "w_r", "attn", "w_skip", "b_l", "b_r"};
    if (k >= SL_NORM_WEIGHT) {
        return k == SL_NORM_WEIGHT ? "norm_weight" : "norm_bias";
    }
    if (layer->kind == &sl_sage_adding || layer->kind == &sl_rgcn_adding) {
        return adding[k];
    }
    if (layer->kind->sum != NULL && layer->kind->sum->by_relation) {
        return layer->kind == &sl_rgat ? rgat[k] : layer->kind == &sl_rgcn_bases ? bases[k] : rgcn[k];
    }
    if (layer->kind == &sl_gatv2) {
        return gatv2[k];
    }
    return layer->kind == &sl_sage ? sage[k] : layer->kind == &sl_gin ? gin[k] : others[k];
}

/* The last weight matrix of a layer; -1: it has none. */
static MAYBE_UNUSED int last_matrix(const struct sl_layer *layer)
{
    int k = (int)layer->kind->n_parameters - 1;
    while (k >= 0 && layer->kind->parameter[k].shape != SL_SHAPE_MATRIX &&
           layer->kind->parameter[k].shape != SL_SHAPE_SQUARE) {
        k--;
    }
    return k;
}

/* ---- the files ---- */

/* name: a file, or "FILE/PART", the file with the members of its object PART in place of its own. */
static MAYBE_UNUSED json_t *case_of(const char *name)
{
    const char *top = getenv("top_srcdir");
    const char *slash = strchr(name, '/');
    const int n = slash != NULL ? (int)(slash - name) : (int)strlen(name);
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/tests/reference/%.*s.json", top != NULL ? top : ".", n, name);
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        fail_msg("%s: %s", path, error.text);
    }
    if (slash != NULL) {
        assert_int_equal(json_object_update(root, json_object_get(root, slash + 1)), 0);
    }
    return root;
}

static MAYBE_UNUSED json_t *member(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (value == NULL) {
        fail_msg("the case has no '%s'", key);
    }
    return value;
}

static MAYBE_UNUSED double number(json_t *array, size_t i)
{
    json_t *value = json_array_get(array, i);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* Entry (r, c) of a stack [relation][in][out], or of the attention vectors [relation][head][column], as our parameter
 * has them: one above the other, or side by side. */
static MAYBE_UNUSED double stacked_entry(json_t *array, const struct sl_parameter *p, uint32_t r, uint32_t c)
{
    const size_t n_in = json_array_size(json_array_get(array, 0));
    const size_t n_out = json_array_size(json_array_get(json_array_get(array, 0), 0));
    const size_t n = json_array_size(array);
    assert_int_equal(n * n_in * n_out, (size_t)p->n_rows * p->n_columns);
    size_t k = r / n_in;
    size_t row = r % n_in;
    if (p->n_rows == 1) {
        k = c / (n_in * n_out);
        row = c / n_out % n_in;
    } else if (p->n_rows == n_in) {
        k = c / n_out;
    }
    return number(json_array_get(json_array_get(array, k), row), c % n_out);
}

/* Entry (r, c) of the array [out][in] or [out] that stands for our parameter of n_rows inputs and n_columns outputs. */
static MAYBE_UNUSED double entry(json_t *array, const struct sl_parameter *p, uint32_t r, uint32_t c)
{
    json_t *one = json_array_get(array, 0);
    if (json_is_array(json_array_get(one, 0))) {
        return stacked_entry(array, p, r, c);
    }
    if (p->n_rows == 1 && json_is_array(one)) { /* of attention: [heads][columns of a head] */
        size_t n = json_array_size(one);
        assert_int_equal(json_array_size(array) * n, p->n_columns);
        return number(json_array_get(array, c / n), c % n);
    }
    assert_int_equal(json_array_size(array), p->n_columns);
    json_t *row = json_array_get(array, c);
    if (!json_is_array(row)) {
        return number(array, c);
    }
    assert_int_equal(json_array_size(row), p->n_rows);
    return number(row, r);
}

static MAYBE_UNUSED uint32_t width(json_t *root, size_t i)
{
    return (uint32_t)number(member(member(root, "options"), "widths"), i);
}

/* ---- the dataset ---- */

static MAYBE_UNUSED void graph_of(json_t *root, uint32_t n, const struct sl_edge_features *table, struct sl_graph *out)
{
    json_t *edges = member(root, "edges_src_dst");
    size_t n_edges = json_array_size(edges);
    sl_vertex *from = need(n_edges, sizeof *from);
    sl_vertex *to = need(n_edges, sizeof *to);
    for (size_t e = 0; e < n_edges; e++) {
        from[e] = (sl_vertex)number(json_array_get(edges, e), 0);
        to[e] = (sl_vertex)number(json_array_get(edges, e), 1);
    }
    json_t *relations = json_object_get(root, "edge_relations");
    json_t *listed = json_object_get(root, "edge_weights");
    float *weights = need(n_edges, sizeof *weights);
    uint16_t *types = need(n_edges, sizeof *types);
    for (size_t e = 0; e < n_edges; e++) {
        weights[e] = listed == NULL ? 0 : (float)number(listed, e);
        types[e] = relations == NULL ? 0 : (uint16_t)number(relations, e);
    }
    struct sl_edge_list list = {.n_vertices = n, .n = n_edges, .from = from, .to = to};
    list.weights = listed == NULL ? NULL : weights;
    if (relations != NULL) {
        list.relations = types;
        list.n_relations = (uint32_t)json_integer_value(member(root, "relations"));
    }
    list.features = table->values;
    list.n_columns = table->n_columns;
    expect_ok(sl_graph_build_list(&list, out));
    free(weights);
    free(types);
    assert_int_equal(out->n_edges, n_edges);
    free(from);
    free(to);
}

static MAYBE_UNUSED void edge_features_of(json_t *rows, struct sl_edge_features *out)
{
    if (rows != NULL) {
        *out =
            (struct sl_edge_features){json_array_size(rows), (uint32_t)json_array_size(json_array_get(rows, 0)), NULL};
        out->values = need_owned(out->n_rows * out->n_columns, sizeof *out->values);
    }
    for (size_t i = 0; i < out->n_rows * out->n_columns; i++) {
        out->values[i] = (float)number(json_array_get(rows, i / out->n_columns), i % out->n_columns);
    }
}

static MAYBE_UNUSED void dataset_of(json_t *root, struct sl_dataset *out)
{
    uint32_t n = (uint32_t)json_integer_value(member(root, "vertices"));
    uint32_t n_features = (uint32_t)json_array_size(json_array_get(member(root, "features"), 0));
    json_t *train = member(root, "train");
    json_t *epochs = json_object_get(root, "epochs");
    json_t *logits = member(epochs == NULL ? root : json_array_get(epochs, 0), "logits");
    *out = (struct sl_dataset){.name = "reference", .split = "all"};
    edge_features_of(json_object_get(root, "edge_features"), &out->edge_features);
    graph_of(root, n, &out->edge_features, &out->graph);
    out->features = (struct sl_features){.n_rows = n, .n_columns = n_features};
    out->features.dense =
        sl_column_take(SL_DTYPE_F32, n, n_features, need_owned((size_t)n * n_features, sizeof(float)));
    out->targets = (struct sl_targets){.n_rows = n, .width = 1};
    out->targets.classes = need_owned(n, sizeof *out->targets.classes);
    for (uint32_t v = 0; v < n; v++) {
        out->targets.classes[v] = (int32_t)number(member(root, "labels"), v);
    }
    out->targets.n_classes = (uint32_t)json_array_size(json_array_get(logits, 0));
    out->train.n = (uint32_t)json_array_size(train);
    out->train.ids = need_owned(out->train.n, sizeof *out->train.ids);
    for (uint32_t i = 0; i < out->train.n; i++) {
        out->train.ids[i] = (sl_vertex)number(train, i);
    }
}

/* The features at the table's own precision, which a dataset (float always) does not have. */
static MAYBE_UNUSED void put_features(json_t *root, const struct sl_partition *partition, struct sl_shards *shards)
{
    for (uint32_t v = 0; !shards->is_sparse && v < shards->n_vertices; v++) {
        for (uint32_t c = 0; c < shards->n_features; c++) {
            void *row = sl_feature_row(&shards->features, partition->new_ids[v]);
            sl_real value = (sl_real)number(json_array_get(member(root, "features"), v), c);
            if (shards->features.dtype == SL_DTYPE_BF16) {
                ((sl_bf16 *)row)[c] = sl_bf16_of(value);
            } else {
                ((sl_real *)row)[c] = value;
            }
        }
    }
}

/* ---- the settings ---- */

/* A number among the options, if there is one. */
static MAYBE_UNUSED void option_of(json_t *options, const char *key, double *value)
{
    json_t *found = json_object_get(options, key);
    *value = found == NULL ? *value : json_number_value(found);
}

/* The settings of a case that all schedules have. */
static MAYBE_UNUSED void case_settings(json_t *root, struct sl_settings *out)
{
    json_t *options = member(root, "options");
    json_t *adam = member(root, "adam");
    expect_ok(sl_settings_init(out));
    expect_ok(sl_option_set(sl_settings_table(SL_SCHEDULE_MINIBATCH), "model", json_string_value(member(root, "model")),
                            out));
    option_of(options, "alpha", &out->alpha);
    option_of(options, "lam", &out->lambda);
    out->output_layers = (uint32_t)json_integer_value(json_object_get(options, "output_layers"));
    out->learn_epsilon = json_object_get(options, "learn_epsilon") != NULL;
    if (json_object_get(root, "edge_weights") != NULL) {
        out->edge_weights = SL_EDGE_WEIGHTS_FACTOR;
    }
    if (json_object_get(root, "edge_features") != NULL) {
        const bool add = json_object_get(options, "edge_features") != NULL;
        out->edge_features = add ? SL_EDGE_FEATURES_ADD : SL_EDGE_FEATURES_CONCAT;
    }
    static const char *const texts[] = {"optimizer", "lr-schedule", "lr-warmup", "epochs"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *value = json_object_get(options, texts[i]);
        if (value != NULL) {
            expect_ok(sl_settings_set(out, texts[i], json_string_value(value)));
        }
    }
    out->dropout = 0;
    out->lr = json_number_value(member(adam, "lr"));
    out->weight_decay = json_number_value(json_object_get(adam, "weight_decay_l2")); /* 0 if it is not there */
}

static MAYBE_UNUSED void check_files(size_t n, const char *const *names, void (*check)(const char *name))
{
    for (size_t i = 0; i < n; i++) {
        print_message("%s\n", names[i]);
        check(names[i]);
    }
}

/* ---- the model ---- */

static MAYBE_UNUSED json_t *tensor(json_t *tensors, const struct sl_model *model, uint32_t i, int k)
{
    char key[64];
    const struct sl_layer *layer = &model->layer[i];
    const char *name = parameter_name(layer, k);
    if (i >= model->n_vertex_layers) {
        snprintf(key, sizeof key, "decoder.%d", k);
    } else if (layer->kind == &sl_dense_out) {
        snprintf(key, sizeof key, "out.%u.%s", layer->number, name);
    } else if (layer->from != layer->level) {
        snprintf(key, sizeof key, "%u.%s", layer->number, name);
    } else {
        snprintf(key, sizeof key, "%s.%s", layer->last ? "out" : "in", name);
    }
    return member(tensors, key);
}

static MAYBE_UNUSED void put_parameters(json_t *root, struct sl_model *model)
{
    expect_ok(sl_model_acquire(model, STARPU_RW));
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            struct sl_parameter *p = &model->layer[i].parameter[k];
            json_t *from = sl_parameter_trained(p) ? tensor(member(root, "parameters"), model, i, k) : NULL;
            for (size_t e = 0; from != NULL && e < (size_t)p->n_rows * p->n_columns; e++) {
                p->value[e] = (sl_real)entry(from, p, (uint32_t)(e / p->n_columns), (uint32_t)(e % p->n_columns));
            }
        }
    }
    sl_model_release(model);
}

static MAYBE_UNUSED double largest(json_t *array)
{
    double size = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_t *item = json_array_get(array, i);
        double here = json_is_array(item) ? largest(item) : fabs(json_number_value(item));
        size = here > size ? here : size;
    }
    return size;
}

/* Compare values (or gradients) of all parameters with `wanted`. Where a tensor of the reference is zero but for
 * rounding (the bias under batch norm, a decoder's last bias under softmax), its terms are of the size of the
 * neighbouring tensors'. */
static MAYBE_UNUSED void expect_tensors(const char *label, json_t *wanted, struct sl_model *model, bool gradients)
{
    expect_ok(sl_model_acquire(model, STARPU_R));
    for (uint32_t i = 0; i < model->n_layers; i++) {
        int last = last_matrix(&model->layer[i]);
        double size = last < 0 ? 0 : largest(tensor(wanted, model, i, last));
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            const struct sl_parameter *p = &model->layer[i].parameter[k];
            const sl_real *got = gradients ? p->gradient : p->value;
            json_t *from = sl_parameter_trained(p) ? tensor(wanted, model, i, k) : NULL;
            double here = from != NULL && largest(from) > 1e-12 ? largest(from) : size;
            char name[128];
            snprintf(name, sizeof name, "%s of layer %u, %s", label, i, parameter_name(&model->layer[i], k));
            for (size_t e = 0; from != NULL && e < (size_t)p->n_rows * p->n_columns; e++) {
                double should = entry(from, p, (uint32_t)(e / p->n_columns), (uint32_t)(e % p->n_columns));
                expect_figure(gradients ? GRADIENTS : VALUES, name, e, (double)got[e], should, here);
            }
        }
    }
    sl_model_release(model);
}

/* ---- rows in bf16 ---- */

/* Allow a case a multiple of the errors of PyTorch's bf16 in it (tests/reference/bf16.json). */
static MAYBE_UNUSED void allow_bf16(const char *name)
{
    json_t *all = case_of("bf16");
    json_t *errors = member(member(all, "cases"), name);
    for (int k = 0; k < N_FIGURES; k++) {
        json_t *error = json_object_get(errors, figure_names[k]);
        allowed[k] = error == NULL ? NAN : json_number_value(member(all, "multiple")) * json_number_value(error);
    }
    json_decref(all);
}

#endif
