/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Gradients of the whole sampled model against central differences, in double: the loss of one step as a function of its
 * parameters, with the sample and the dropout masks of that step.
 */
#include "tests/run_fixture.h"

static const struct graph_shape dense_shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 601, .n_columns = 8, .n_classes = 4, .seed = 21};
static const struct graph_shape sparse_shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 601, .n_columns = 40, .n_classes = 4, .sparse = true, .seed = 22};
static struct sl_dataset dense_set, sparse_set;

#define STEP 1

struct variant {
    const char *name;
    int sampler;
    int norm;
    uint32_t hidden; /* below 8 the first layer projects first; the last one does where it is above 4 */
    uint32_t pes, group_size, chunks;
    int partition;
    double dropout, input_dropout;
    bool residual, sparse, dependent;
};

static const struct variant variants[] = {
    {"neighbor", SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 6, 1, 1, 1, SL_PARTITION_NONE, 0.3, 0, false, false, false},
    {"widening", SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 10, 2, 2, 3, SL_PARTITION_METIS, 0.3, 0.2, false, false, false},
    {"never projecting first", SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 4, 3, 3, 2, SL_PARTITION_RANDOM, 0, 0, false, false,
     false},
    {"residual", SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 8, 4, 2, 2, SL_PARTITION_METIS, 0.2, 0.1, true, false, false},
    {"layer norm", SL_SAMPLER_LABOR, SL_NORM_LAYER, 6, 4, 4, 2, SL_PARTITION_METIS, 0.3, 0, false, false, false},
    {"layer norm, residual", SL_SAMPLER_LABOR, SL_NORM_LAYER, 8, 2, 2, 3, SL_PARTITION_RANDOM, 0.3, 0, true, false,
     true},
    {"batch norm", SL_SAMPLER_NEIGHBOR, SL_NORM_BATCH, 6, 2, 2, 3, SL_PARTITION_METIS, 0.3, 0, false, false, false},
    {"batch norm, two groups", SL_SAMPLER_NEIGHBOR, SL_NORM_BATCH, 8, 4, 2, 2, SL_PARTITION_RANDOM, 0.2, 0, true, false,
     false},
    {"full", SL_SAMPLER_FULL, SL_NORM_NONE, 6, 3, 3, 3, SL_PARTITION_METIS, 0.3, 0, false, false, false},
    {"sparse", SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 6, 2, 2, 3, SL_PARTITION_METIS, 0.3, 0.2, false, true, false},
    {"sparse, narrower than the model", SL_SAMPLER_LABOR, SL_NORM_LAYER, 44, 2, 1, 2, SL_PARTITION_NONE, 0.3, 0, true,
     true, true},
};
#define N_VARIANTS (sizeof variants / sizeof variants[0])

static void settings_of(const struct variant *v, struct sl_settings *out)
{
    static const uint32_t fanout[] = {3, 4, 5};
    expect_ok(sl_settings_init(out));
    out->layers = 3;
    out->hidden = v->hidden;
    out->sampler = v->sampler;
    out->norm = v->norm;
    out->kappa = v->dependent ? 8 : 1;
    out->layer_dependency = v->dependent;
    out->dropout = v->dropout;
    out->input_dropout = v->input_dropout;
    out->residual = v->residual;
    out->n_fanout = 3;
    memcpy(out->fanout, fanout, sizeof fanout);
    out->pes = v->pes;
    out->group_size = v->group_size;
    out->batch_size = 168 / v->pes; /* more than two chunks' worth of rows on one PE */
    out->chunks = v->chunks;
    out->partition = v->partition;
    out->lr = 0; /* the step leaves the parameters alone */
}

/* ---- the loss as a function ---- */

static double loss_of(struct world *w)
{
    struct sl_adam adam = adam_of(w->settings, STEP);
    struct sl_step_sizes sizes;
    starpu_data_handle_t handle;
    double loss = NAN;
    starpu_matrix_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&loss, 1, 1, 1, sizeof loss);
    expect_ok(sl_step_compute(w->steps, STEP, &adam, handle, &sizes));
    starpu_data_unregister(handle);
    assert_true(isfinite(loss));
    return loss;
}

static struct sl_parameter *parameter_of(struct world *w, uint32_t layer, int k)
{
    return &w->model.layer[layer].parameter[k];
}

/* value += h direction */
static void move(struct sl_parameter *p, double h, const double *direction)
{
    starpu_data_acquire(p->value_handle, STARPU_RW);
    for (size_t e = 0; e < (size_t)p->n_rows * p->n_columns; e++) {
        p->value[e] += (sl_real)(h * direction[e]);
    }
    starpu_data_release(p->value_handle);
}

/* (L(w + h d) - L(w - h d)) / 2h */
static double difference(struct world *w, struct sl_parameter *p, double h, const double *direction)
{
    move(p, h, direction);
    double above = loss_of(w);
    move(p, -2 * h, direction);
    double below = loss_of(w);
    move(p, h, direction);
    return (above - below) / (2 * h);
}

/* The derivative along the direction is <gradient, direction>. A ReLU's kink between the two points spoils the difference for one
 * h; a wrong gradient is wrong for all. The tolerance: truncation is h^2, rounding 1e-16 / h, of losses near 1. */
static void expect_derivative(struct world *w, const char *what, struct sl_parameter *p, const sl_real *gradient,
                              double size, const double *direction)
{
    static const double steps[] = {1e-5, 1e-6, 1e-7};
    double should = 0;
    double got = 0;
    double tolerance = 1e-6 * size + 1e-8;
    for (size_t e = 0; e < (size_t)p->n_rows * p->n_columns; e++) {
        should += (double)gradient[e] * direction[e];
    }
    for (int i = 0; i < 3; i++) {
        got = difference(w, p, steps[i], direction);
        if (fabs(got - should) <= tolerance) {
            return;
        }
    }
    fail_msg("%s: the gradient says %.12g, differences say %.12g, off by %.3g, allowed %.3g", what, should, got,
             fabs(got - should), tolerance);
}

/* One parameter: along a random direction, in which every entry counts, and along the entry of the largest gradient. */
static void check_parameter(struct world *w, const struct variant *v, uint32_t layer, int k)
{
    struct sl_parameter *p = parameter_of(w, layer, k);
    size_t n = (size_t)p->n_rows * p->n_columns;
    sl_real *gradient = need(n, sizeof *gradient);
    double *direction = need(n, sizeof *direction);
    char what[128];
    size_t largest = 0;
    double square = 0;
    snprintf(what, sizeof what, "%s, layer %u, parameter %d", v->name, layer, k);
    loss_of(w);
    starpu_data_acquire(p->gradient_handle, STARPU_R);
    memcpy(gradient, p->gradient, n * sizeof *gradient);
    starpu_data_release(p->gradient_handle);
    for (size_t e = 0; e < n; e++) {
        largest = fabs((double)gradient[e]) > fabs((double)gradient[largest]) ? e : largest;
        direction[e] = noise(layer * 10 + (uint64_t)k, e);
        square += direction[e] * direction[e];
    }
    double size = fabs((double)gradient[largest]);
    assert_true(size > 1e-6 || (v->norm == SL_NORM_BATCH && k == SL_BIAS)); /* batch norm takes the bias out again */
    for (size_t e = 0; e < n; e++) {
        direction[e] /= sqrt(square);
    }
    expect_derivative(w, what, p, gradient, size, direction);
    memset(direction, 0, n * sizeof *direction);
    direction[largest] = 1;
    expect_derivative(w, what, p, gradient, size, direction);
    free(gradient);
    free(direction);
}

static void check_variant(const struct variant *v)
{
    struct sl_settings settings;
    struct world w;
    settings_of(v, &settings);
    world_open(v->sparse ? &sparse_set : &dense_set, &settings, STEP + 1, &w);
    assert_int_equal(w.shards.is_sparse, v->sparse);
    expect_ok(sl_step_sample(w.steps, 0));
    expect_ok(sl_step_sample(w.steps, STEP));
    for (uint32_t layer = 0; layer < 3; layer++) {
        for (int k = 0; k < SL_N_PARAMETERS; k++) {
            if (parameter_of(&w, layer, k)->n_rows > 0) {
                check_parameter(&w, v, layer, k);
            }
        }
    }
    world_healthy(&w);
    world_close(&w);
    sl_settings_free(&settings);
}

static void test_gradients(void **state)
{
    (void)state;
    machine_up("lws", 2);
    for (size_t i = 0; i < N_VARIANTS; i++) {
        check_variant(&variants[i]);
    }
    machine_down();
}

static int make_sets(void **state)
{
    (void)state;
    make_dataset(&dense_shape, &dense_set);
    make_dataset(&sparse_shape, &sparse_set);
    return 0;
}

static int free_sets(void **state)
{
    (void)state;
    forget_partitions();
    sl_dataset_free(&dense_set);
    sl_dataset_free(&sparse_set);
    assert_int_equal(sl_memory_live(), 0);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients)};
    return cmocka_run_group_tests(tests, make_sets, free_sets);
}
