/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The whole model against figures that PyTorch's automatic differentiation made in double (tests/reference): logits, losses,
 * gradients, three steps of Adam. Float runs agree to 1e-4 of a tensor's largest entry, double runs to 1e-9.
 */
#include <jansson.h>

#include "tests/run_fixture.h"

#include "partition/load.h"

#ifdef SL_REAL_DOUBLE
#define TOLERANCE 1e-9
#else
#define TOLERANCE 1e-4
#endif

/* What the files call a parameter: where there is one matrix only, it is "w". */
static const char *parameter_name(const struct sl_layer *layer, int k)
{
    static const char *const names[SL_N_PARAMETERS] = {"w_self",    "w_neigh",  "bias",     "norm_weight",
                                                       "norm_bias", "attn_src", "attn_dst", NULL};
    return k == SL_NEIGH && layer->kind != &sl_sage ? "w" : names[k];
}

/* ---- the files ---- */

static json_t *case_of(const char *name)
{
    const char *top = getenv("top_srcdir");
    char path[4096];
    json_error_t error;
    snprintf(path, sizeof path, "%s/tests/reference/%s.json", top != NULL ? top : ".", name);
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        fail_msg("%s: %s", path, error.text);
    }
    return root;
}

static json_t *member(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (value == NULL) {
        fail_msg("the case has no '%s'", key);
    }
    return value;
}

static double number(json_t *array, size_t i)
{
    json_t *value = json_array_get(array, i);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* Entry (r, c) of the array [out][in] or [out] that stands for our parameter of n_rows inputs and n_columns outputs. */
static double entry(json_t *array, const struct sl_parameter *p, uint32_t r, uint32_t c)
{
    json_t *one = json_array_get(array, 0);
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

static uint32_t width(json_t *root, size_t i)
{
    return (uint32_t)number(member(member(root, "options"), "widths"), i);
}

/* ---- the dataset ---- */

static void graph_of(json_t *root, uint32_t n, struct sl_graph *out)
{
    json_t *edges = member(root, "edges_src_dst");
    size_t n_edges = json_array_size(edges);
    sl_vertex *from = need(n_edges, sizeof *from);
    sl_vertex *to = need(n_edges, sizeof *to);
    for (size_t e = 0; e < n_edges; e++) {
        from[e] = (sl_vertex)number(json_array_get(edges, e), 0);
        to[e] = (sl_vertex)number(json_array_get(edges, e), 1);
    }
    expect_ok(sl_graph_build(n, n_edges, from, to, false, out));
    assert_int_equal(out->n_edges, n_edges);
    free(from);
    free(to);
}

static void dataset_of(json_t *root, struct sl_dataset *out)
{
    uint32_t n = (uint32_t)json_integer_value(member(root, "vertices"));
    uint32_t n_features = width(root, 0);
    json_t *train = member(root, "train");
    *out = (struct sl_dataset){.name = "reference", .split = "all"};
    graph_of(root, n, &out->graph);
    out->features = (struct sl_features){.n_rows = n, .n_columns = n_features};
    out->features.dense = need_owned((size_t)n * n_features, sizeof(float));
    out->labels = need_owned(n, sizeof *out->labels);
    for (uint32_t v = 0; v < n; v++) {
        out->labels[v] = (int32_t)number(member(root, "labels"), v);
    }
    out->n_classes = width(root, json_array_size(member(member(root, "options"), "widths")) - 1);
    out->train.n = (uint32_t)json_array_size(train);
    out->train.ids = need_owned(out->train.n, sizeof *out->train.ids);
    for (uint32_t i = 0; i < out->train.n; i++) {
        out->train.ids[i] = (sl_vertex)number(train, i);
    }
}

/* The features at the table's own precision, which a dataset (float always) does not have. */
static void put_features(json_t *root, struct world *w)
{
    for (uint32_t v = 0; v < w->shards.n_vertices; v++) {
        for (uint32_t c = 0; c < w->shards.n_features; c++) {
            w->shards.table[(size_t)w->partition->new_ids[v] * w->shards.n_features + c] =
                (sl_real)number(json_array_get(member(root, "features"), v), c);
        }
    }
}

/* ---- the model ---- */

static json_t *tensor(json_t *tensors, const struct sl_model *model, uint32_t i, int k)
{
    char key[64];
    const struct sl_layer *layer = &model->layer[i];
    const char *name = parameter_name(layer, k);
    if (layer->from != layer->level) {
        snprintf(key, sizeof key, "%u.%s", layer->number, name);
    } else {
        snprintf(key, sizeof key, "%s.%s", layer->last ? "out" : "in", name);
    }
    return member(tensors, key);
}

static void put_parameters(json_t *root, struct sl_model *model)
{
    expect_ok(sl_model_acquire(model, STARPU_RW));
    for (uint32_t i = 0; i < model->n_layers; i++) {
        for (int k = 0; k < SL_N_PARAMETERS; k++) {
            struct sl_parameter *p = &model->layer[i].parameter[k];
            json_t *from = sl_parameter_trained(p) ? tensor(member(root, "parameters"), model, i, k) : NULL;
            for (size_t e = 0; from != NULL && e < (size_t)p->n_rows * p->n_columns; e++) {
                p->value[e] = (sl_real)entry(from, p, (uint32_t)(e / p->n_columns), (uint32_t)(e % p->n_columns));
            }
        }
    }
    sl_model_release(model);
}

static double largest(json_t *array)
{
    double size = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        json_t *item = json_array_get(array, i);
        double here = json_is_array(item) ? largest(item) : fabs(json_number_value(item));
        size = here > size ? here : size;
    }
    return size;
}

/* Compare values (or gradients) of all parameters with `wanted`. Where a tensor of the reference is zero but for rounding (the
 * bias under batch norm), its terms are of the size of the neighbouring tensors'. */
static void expect_tensors(const char *what, json_t *wanted, struct sl_model *model, bool gradients)
{
    expect_ok(sl_model_acquire(model, STARPU_R));
    for (uint32_t i = 0; i < model->n_layers; i++) {
        double size = largest(tensor(wanted, model, i, SL_NEIGH));
        for (int k = 0; k < SL_N_PARAMETERS; k++) {
            const struct sl_parameter *p = &model->layer[i].parameter[k];
            const sl_real *got = gradients ? p->gradient : p->value;
            json_t *from = sl_parameter_trained(p) ? tensor(wanted, model, i, k) : NULL;
            double here = from != NULL && largest(from) > 1e-12 ? largest(from) : size;
            char name[128];
            snprintf(name, sizeof name, "%s of layer %u, %s", what, i, parameter_name(&model->layer[i], k));
            for (size_t e = 0; from != NULL && e < (size_t)p->n_rows * p->n_columns; e++) {
                double should = entry(from, p, (uint32_t)(e / p->n_columns), (uint32_t)(e % p->n_columns));
                expect_near_at(name, e, (double)got[e], should, TOLERANCE * here);
            }
        }
    }
    sl_model_release(model);
}

/* ---- what layer 0 of the batch norm case works on ---- */

/* z = x W_self + mean(x) W_neigh + b of vertex v and column c, in double from the file. */
static double first_z(json_t *root, uint32_t v, uint32_t c)
{
    json_t *edges = member(root, "edges_src_dst");
    json_t *self = member(member(root, "parameters"), "0.w_self");
    json_t *neigh = member(member(root, "parameters"), "0.w_neigh");
    double z = number(member(member(root, "parameters"), "0.bias"), c);
    for (uint32_t f = 0; f < width(root, 0); f++) {
        double sum = 0;
        double n = 0;
        for (size_t e = 0; e < json_array_size(edges); e++) {
            json_t *edge = json_array_get(edges, e);
            if (number(edge, 1) == v) {
                sum += number(json_array_get(member(root, "features"), (size_t)number(edge, 0)), f);
                n++;
            }
        }
        z += number(json_array_get(member(root, "features"), v), f) * number(json_array_get(self, c), f);
        z += n > 0 ? sum / n * number(json_array_get(neigh, c), f) : 0;
    }
    return z;
}

/* Mean and sum of squared deviations of column c. */
static void moments(json_t *root, uint32_t n, uint32_t c, double *mean_out, double *squares_out)
{
    double mean = 0;
    double squares = 0;
    for (uint32_t v = 0; v < n; v++) {
        mean += first_z(root, v, c) / n;
    }
    for (uint32_t v = 0; v < n; v++) {
        double d = first_z(root, v, c) - mean;
        squares += d * d;
    }
    *mean_out = mean;
    *squares_out = squares;
}

/* Put the batch's own statistics where evaluation reads them, so that it computes what training does. */
static void put_statistics(json_t *root, struct world *w)
{
    struct sl_layer *layer = &w->model.layer[0];
    expect_ok(sl_model_acquire(&w->model, STARPU_RW));
    for (uint32_t c = 0; layer->running != NULL && c < layer->n_out; c++) {
        double mean;
        double squares;
        moments(root, w->shards.n_vertices, c, &mean, &squares);
        layer->running[c] = (sl_real)mean;
        layer->running[layer->n_out + c] = (sl_real)(squares / w->shards.n_vertices);
    }
    sl_model_release(&w->model);
}

/* After one step from (0, 1): momentum 0.1, unbiased variance. */
static void expect_running(json_t *root, struct world *w)
{
    struct sl_layer *layer = &w->model.layer[0];
    uint32_t n = w->shards.n_vertices;
    expect_ok(sl_model_acquire(&w->model, STARPU_R));
    for (uint32_t c = 0; layer->running != NULL && c < layer->n_out; c++) {
        double mean;
        double squares;
        moments(root, n, c, &mean, &squares);
        expect_near_at("running mean", c, (double)layer->running[c], 0.1 * mean, TOLERANCE);
        expect_near_at("running variance", c, (double)layer->running[layer->n_out + c], 0.9 + 0.1 * squares / (n - 1),
                       TOLERANCE);
    }
    sl_model_release(&w->model);
}

/* ---- the cases ---- */

/* A number among the options, where there is one. */
static void option_of(json_t *options, const char *key, double *value)
{
    json_t *found = json_object_get(options, key);
    *value = found == NULL ? *value : json_number_value(found);
}

static void settings_of(json_t *root, const char *name, struct sl_settings *out)
{
    json_t *options = member(root, "options");
    json_t *norm = json_object_get(options, "norm");
    double depth = 0;
    double heads;
    expect_ok(sl_settings_init(out));
    heads = out->heads;
    expect_ok(sl_option_set(&sl_settings_table, "model", name, out));
    out->layers = (uint32_t)json_array_size(member(options, "widths")) - 1;
    out->hidden = width(root, 1);
    option_of(options, "depth", &depth);
    if (depth > 0) {
        out->layers = (uint32_t)depth;
    }
    option_of(options, "heads", &heads);
    out->heads = (uint32_t)heads;
    option_of(options, "alpha", &out->alpha);
    option_of(options, "lam", &out->lambda);
    out->norm = norm == NULL                                    ? SL_NORM_NONE
                : strcmp(json_string_value(norm), "layer") == 0 ? SL_NORM_LAYER
                                                                : SL_NORM_BATCH;
    out->residual = json_is_true(json_object_get(options, "residual"));
    out->dropout = 0;
    out->sampler = SL_SAMPLER_FULL;
    out->lr = json_number_value(member(member(root, "adam"), "lr"));
    out->weight_decay = json_number_value(member(member(root, "adam"), "weight_decay_l2"));
}

static void expect_logits(json_t *root, struct world *w)
{
    uint32_t n = w->shards.n_vertices;
    uint32_t n_classes = w->shards.n_classes;
    struct sl_inference wanted = {.scores = need((size_t)n * n_classes, sizeof *wanted.scores)};
    struct sl_metrics_scores scores;
    json_t *logits = member(root, "logits");
    expect_ok(sl_evaluate(&w->run, &w->shards, &w->model, &wanted, &scores));
    for (uint32_t v = 0; v < n; v++) {
        const sl_real *row = wanted.scores + (size_t)w->partition->new_ids[v] * n_classes;
        for (uint32_t c = 0; c < n_classes; c++) {
            expect_near_at("logit", (size_t)v * n_classes + c, (double)row[c], number(json_array_get(logits, v), c),
                           TOLERANCE * largest(logits));
        }
    }
    free(wanted.scores);
}

/* One step; gives its loss. */
static double one_step(struct world *w, uint64_t step)
{
    struct sl_adam adam = adam_of(w->settings, step);
    struct sl_step_sizes sizes;
    starpu_data_handle_t handle;
    double loss = NAN;
    starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&loss, 1, 1, 1, sizeof loss);
    expect_ok(sl_step_submit(w->steps, step, &adam, handle, &sizes));
    starpu_data_unregister(handle);
    starpu_task_wait_for_all();
    world_healthy(w);
    return loss;
}

static void open_case(json_t *root, const struct sl_dataset *dataset, struct sl_settings *settings, struct world *w)
{
    settings->batch_size = (dataset->train.n + settings->pes - 1) / settings->pes;
    world_open(dataset, settings, 3, w);
    put_features(root, w);
    put_parameters(root, &w->model);
}

static void check_case(json_t *root, const struct sl_dataset *dataset, struct sl_settings *settings)
{
    struct world w;
    json_t *adam = member(root, "adam");
    open_case(root, dataset, settings, &w);
    put_statistics(root, &w);
    expect_logits(root, &w);
    world_close(&w);

    open_case(root, dataset, settings, &w);
    for (uint32_t step = 0; step < 3; step++) {
        double wanted = number(member(root, "losses"), step);
        expect_near_at("loss", step, one_step(&w, step), wanted, TOLERANCE * fabs(wanted));
        if (step == 0) {
            expect_tensors("gradient", member(root, "gradients"), &w.model, true);
            expect_tensors("value after a step", member(adam, "after_1_step"), &w.model, false);
            expect_running(root, &w);
        }
    }
    expect_tensors("value after three steps", member(adam, "after_3_steps"), &w.model, false);
    world_close(&w);
}

/* One, two and three PEs that cooperate, and, unless statistics are per group, as many that do not. */
static void check_file(const char *model, const char *name)
{
    static const int methods[] = {SL_PARTITION_NONE, SL_PARTITION_RANDOM, SL_PARTITION_METIS};
    json_t *root = case_of(name);
    struct sl_dataset dataset;
    struct sl_settings settings;
    forget_partitions(); /* of a test that has failed */
    dataset_of(root, &dataset);
    for (uint32_t pes = 1; pes <= 3; pes++) {
        for (uint32_t group_size = 1; group_size <= pes; group_size += pes > 1 ? pes - 1 : 1) {
            settings_of(root, model, &settings);
            settings.pes = pes;
            settings.group_size = group_size;
            settings.chunks = pes;
            settings.partition = methods[pes % 3];
            if (settings.norm != SL_NORM_BATCH || group_size == pes) {
                check_case(root, &dataset, &settings);
            }
            sl_settings_free(&settings);
        }
    }
    forget_partitions();
    sl_dataset_free(&dataset);
    json_decref(root);
}

static void test_plain(void **state)
{
    (void)state;
    check_file("sage", "sage2");
}

static void test_batch_norm(void **state)
{
    (void)state;
    check_file("sage", "sage2_batchnorm");
}

static void test_layer_norm_residual(void **state)
{
    (void)state;
    check_file("sage", "sage3_layernorm_residual");
}

static void test_gcn(void **state)
{
    (void)state;
    check_file("gcn", "gcn3");
}

static void test_gcnii(void **state)
{
    (void)state;
    check_file("gcnii", "gcnii6");
}

static void test_resgcn(void **state)
{
    (void)state;
    check_file("resgcn", "resgcn6");
}

static void test_gat(void **state)
{
    (void)state;
    check_file("gat", "gat2");
}

static void test_gat_layer_norm(void **state)
{
    (void)state;
    check_file("gat", "gat3_layernorm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_batch_norm),     cmocka_unit_test(test_layer_norm_residual),
        cmocka_unit_test(test_gcn),   cmocka_unit_test(test_gcnii),          cmocka_unit_test(test_resgcn),
        cmocka_unit_test(test_gat),   cmocka_unit_test(test_gat_layer_norm),
    };
    return cmocka_run_group_tests(tests, group_up, group_down);
}
