/* double only */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Gradients of every model that --model names against central differences, in double: the loss of one step as a
 * function of its parameters, with the sample and the dropout masks of that step.
 */
#include "tests/support/run_fixture.h"
#include "tests/support/sets_fixture.h"

#include "data/load.h"

static const struct graph_shape dense_shape = {.kind = GRAPH_POWER_LAW,
                                               .n_vertices = 601,
                                               .n_columns = 8,
                                               .n_classes = 4,
                                               .weighted = true,
                                               .n_edge_columns = 3,
                                               .seed = 21};
static const struct graph_shape sparse_shape = {.kind = GRAPH_POWER_LAW,
                                                .n_vertices = 601,
                                                .n_columns = 40,
                                                .n_classes = 4,
                                                .weighted = true,
                                                .n_edge_columns = 5,
                                                .sparse = true,
                                                .seed = 22};

#define STEP 1
#define MIN_GRADIENT 1e-3 /* which the tolerances are small beside */

/* Derivatives looked at, and those where a kink was in the way. */
struct tally {
    size_t n, n_kinks;
};

static const char *parameter_name(const struct sl_layer *layer, int k)
{
    if (k >= SL_NORM_WEIGHT) {
        return k == SL_NORM_WEIGHT ? "the norm's weight" : "the norm's bias";
    }
    return layer->kind->parameter[k].name[SL_NAMES_DGL].text;
}

/* Every model takes all of them, but for a norm or a residual where it has its own. */
struct variant {
    const char *name;
    uint32_t hidden; /* below 8 the first layer may multiply first; the last one may where it is above 4 */
    uint32_t heads;  /* gat's */
    int sampler;
    int norm;
    uint32_t pes, group_size, chunks;
    int partition;
    double dropout, input_dropout;
    bool residual, sparse, dependent;
};

/* A sampler: LABOR with n rounds (--labor-iterations). gat takes none. */
#define LABOR_ROUNDS(n) (SL_SAMPLER_LABOR | (int)(n) << 8)

static const struct variant variants[] = {
    {"neighbor", 6, 3, SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 1, 1, 1, SL_PARTITION_NONE, 0.3, 0, false, false, false},
    {"widening", 12, 4, SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 2, 2, 3, SL_PARTITION_METIS, 0.3, 0.2, false, false, false},
    {"never multiplying first", 4, 1, SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 3, 3, 2, SL_PARTITION_RANDOM, 0, 0, false,
     false, false},
    {"residual", 8, 4, SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 4, 2, 2, SL_PARTITION_METIS, 0.2, 0.1, true, false, false},
    {"layer norm", 6, 1, SL_SAMPLER_LABOR, SL_NORM_LAYER, 4, 4, 2, SL_PARTITION_METIS, 0.3, 0, false, false, false},
    {"layer norm, residual", 8, 2, SL_SAMPLER_LABOR, SL_NORM_LAYER, 2, 2, 3, SL_PARTITION_RANDOM, 0.3, 0, true, false,
     true},
    {"batch norm", 6, 1, SL_SAMPLER_NEIGHBOR, SL_NORM_BATCH, 2, 2, 3, SL_PARTITION_METIS, 0.3, 0, false, false, false},
    {"batch norm, two groups", 8, 4, SL_SAMPLER_NEIGHBOR, SL_NORM_BATCH, 4, 2, 2, SL_PARTITION_RANDOM, 0.2, 0, true,
     false, false},
    {"full", 6, 1, SL_SAMPLER_FULL, SL_NORM_NONE, 3, 3, 3, SL_PARTITION_METIS, 0.3, 0, false, false, false},
    {"full, widening, layer norm", 12, 4, SL_SAMPLER_FULL, SL_NORM_LAYER, 4, 2, 2, SL_PARTITION_RANDOM, 0.3, 0.2, false,
     false, false},
    {"sparse", 6, 1, SL_SAMPLER_NEIGHBOR, SL_NORM_NONE, 2, 2, 3, SL_PARTITION_METIS, 0.3, 0.2, false, true, false},
    {"sparse, narrower than the model", 44, 4, SL_SAMPLER_LABOR, SL_NORM_LAYER, 2, 1, 2, SL_PARTITION_NONE, 0.3, 0,
     true, true, true},
    {"labor, two rounds", 6, 1, LABOR_ROUNDS(2), SL_NORM_NONE, 3, 3, 2, SL_PARTITION_RANDOM, 0.3, 0, false, false,
     false},
};
#define N_VARIANTS (sizeof variants / sizeof variants[0])

static bool takes(int model, int norm, bool residual)
{
    struct sl_settings settings;
    expect_ok(sl_settings_init(&settings));
    settings.model = model;
    settings.norm = norm;
    settings.residual = residual;
    bool taken = sl_settings_check(&settings) == SL_OK;
    sl_settings_free(&settings);
    return taken;
}

static void settings_of(int model, const struct variant *v, struct sl_settings *out)
{
    settings_with("layers=3 fanout=3,4,5 lr=0", out); /* the step leaves the parameters alone */
    out->model = model;
    out->heads = attends(model) || model == SL_MODEL_RGAT ? v->heads : out->heads;
    out->alpha = model == SL_MODEL_GCNII ? 0.3 : out->alpha;
    out->learn_epsilon = model == SL_MODEL_GIN;
    out->skip = attends(model) && v->chunks == 3;
    out->lambda = model == SL_MODEL_GCNII ? 1.5 : out->lambda;
    out->hidden = v->hidden;
    out->sampler = v->sampler & 0xff;
    bool rounds = !attends(model);
    out->labor_iterations = rounds ? (uint32_t)v->sampler >> 8 : 0;
    bool weighs = is_typed(model) ? v->hidden != 6 : !attends(model) && v->chunks == 3 && v->norm != SL_NORM_BATCH;
    out->edge_weights = weighs ? SL_EDGE_WEIGHTS_FACTOR : SL_EDGE_WEIGHTS_NONE;
    out->norm = takes(model, v->norm, false) ? v->norm : SL_NORM_NONE;
    out->residual = v->residual && takes(model, SL_NORM_NONE, true);
    out->kappa = v->dependent ? 8 : 1;
    out->layer_dependency = v->dependent;
    out->input_layer = is_typed(model) && (v->hidden == 44 || (v->hidden == 12 && v->norm == SL_NORM_LAYER));
    out->bases = model == SL_MODEL_RGCN && v->chunks == 3 ? 2 : 0;
    const bool ends = model == SL_MODEL_GCNII || model == SL_MODEL_RESGCN; /* in a dense layer of its own */
    out->output_layers = ends ? 0 : (uint32_t)(v - variants + 2) % 3;
    const bool reads_edges = model == SL_MODEL_SAGE || is_typed(model) || (model == SL_MODEL_GAT && v->heads > 1);
    if (reads_edges && v->chunks != 3 && out->labor_iterations == 0) {
        out->edge_features = SL_EDGE_FEATURES_CONCAT;
    } else if (model == SL_MODEL_SAGE || model == SL_MODEL_GAT || (is_typed(model) && out->bases == 0)) {
        out->edge_features = SL_EDGE_FEATURES_ADD;
    }
    out->activation = (int)((v - variants) % 4); /* enum sl_activate_kind */
    out->dropout = v->dropout;
    out->input_dropout = v->input_dropout;
    out->pes = v->pes;
    out->group_size = v->group_size;
    out->batch_size = 168 / v->pes; /* more than two chunks' worth of rows on one PE */
    out->chunks = v->chunks;
    out->partition = v->partition;
}

/* ---- the loss as a function ---- */

static double loss_of(struct world *w)
{
    double loss = world_step(w, STEP);
    assert_true(isfinite(loss));
    return loss;
}

/* ---- its derivatives ---- */

/* A parameter, its values and gradient where it is, and a direction from there. */
struct probe {
    struct sl_parameter *parameter;
    size_t n;
    sl_real *value, *gradient;
    double *direction;
    double size; /* of the largest entry of the gradient */
    char label[128];
};

static void probe_open(struct world *w, const char *variant, uint32_t layer, int k, struct probe *out)
{
    struct sl_parameter *p = &w->model.layer[layer].parameter[k];
    size_t n = (size_t)p->n_rows * p->n_columns;
    *out = (struct probe){.parameter = p, .n = n};
    out->value = need(n, sizeof *out->value);
    out->gradient = need(n, sizeof *out->gradient);
    out->direction = need(n, sizeof *out->direction);
    snprintf(out->label, sizeof out->label, "%s, %s, layer %u, %s", model_name(w->settings->model), variant, layer,
             parameter_name(&w->model.layer[layer], k));
    loss_of(w);
    starpu_data_acquire(p->value_handle, STARPU_R);
    memcpy(out->value, p->value, n * sizeof *p->value);
    starpu_data_release(p->value_handle);
    starpu_data_acquire(p->gradient_handle, STARPU_R);
    memcpy(out->gradient, p->gradient, n * sizeof *p->gradient);
    starpu_data_release(p->gradient_handle);
    for (size_t e = 0; e < n; e++) {
        out->size = fmax(out->size, fabs((double)out->gradient[e]));
    }
}

static void probe_close(struct probe *probe)
{
    free(probe->value);
    free(probe->gradient);
    free(probe->direction);
}

/* L(w + h d) */
static double loss_at(struct world *w, const struct probe *probe, double h)
{
    starpu_data_acquire(probe->parameter->value_handle, STARPU_RW);
    for (size_t e = 0; e < probe->n; e++) {
        probe->parameter->value[e] = probe->value[e] + (sl_real)(h * probe->direction[e]);
    }
    starpu_data_release(probe->parameter->value_handle);
    return h != 0 ? loss_of(w) : 0;
}

/* The derivative along the direction is <gradient, direction>, and (L(w + h d) - L(w - h d)) / 2h nearly. A ReLU's
 * kink between the two points spoils the difference for one h; a wrong gradient is wrong for all. The tolerance:
 * truncation is h^2, rounding 1e-16 / h, of losses near 1. */
static void expect_derivative(struct world *w, const struct probe *probe, struct tally *tally)
{
    static const double steps[] = {1e-5, 1e-6, 1e-7};
    double tolerance = 1e-6 * probe->size + 1e-8;
    double should = 0;
    double got = NAN;
    for (size_t e = 0; e < probe->n; e++) {
        should += (double)probe->gradient[e] * probe->direction[e];
    }
    tally->n++;
    for (int i = 0; i < 3 && !(fabs(got - should) <= tolerance); i++) {
        got = (loss_at(w, probe, steps[i]) - loss_at(w, probe, -steps[i])) / (2 * steps[i]);
        tally->n_kinks += i == 1;
    }
    loss_at(w, probe, 0);
    if (!(fabs(got - should) <= tolerance)) {
        fail_msg("%s: the gradient says %.12g, differences say %.12g, off by %.3g, allowed %.3g", probe->label, should,
                 got, fabs(got - should), tolerance);
    }
}

/* A random direction of length 1, in which every entry counts. */
static void point_anywhere(uint64_t seed, struct probe *probe)
{
    double square = 0;
    for (size_t e = 0; e < probe->n; e++) {
        probe->direction[e] = noise(seed, e);
        square += probe->direction[e] * probe->direction[e];
    }
    for (size_t e = 0; e < probe->n; e++) {
        probe->direction[e] /= sqrt(square);
    }
}

/* One parameter: along a random direction, in which a wrong entry shows wherever it is. */
static void check_parameter(struct world *w, const char *variant, uint32_t layer, int k, struct tally *tally)
{
    bool vanishes = w->model.layer[layer].bias_vanishes && k < SL_MAX_OWN_PARAMETERS &&
                    w->model.layer[layer].kind->parameter[k].is_output_bias;
    OWNED(probe_close) struct probe probe;
    probe_open(w, variant, layer, k, &probe);
    if (vanishes ? probe.size != 0 : probe.size < MIN_GRADIENT) {
        fail_msg("%s: the largest entry of the gradient is %g", probe.label, probe.size);
    }
    point_anywhere(seed_of(&w->model, layer, k), &probe);
    expect_derivative(w, &probe, tally);
}

static void check_variant(int model, const struct variant *v, struct tally *tally)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    settings_of(model, v, &settings);
    world_open(set_of(model, v->sparse), &settings, STEP + 1, &w);
    assert_int_equal(w.shards.is_sparse, v->sparse);
    scramble_model(&w.model);
    expect_ok(sl_step_sample(w.steps, 0));
    expect_ok(sl_step_sample(w.steps, STEP));
    double before = loss_of(&w);
    for (uint32_t layer = 0; layer < w.model.n_layers; layer++) {
        for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
            if (sl_parameter_trained(&w.model.layer[layer].parameter[k])) {
                check_parameter(&w, v->name, layer, k, tally);
            }
        }
    }
    double after = loss_of(&w); /* of the same sample and masks all the while */
    assert_memory_equal(&before, &after, sizeof before);
    world_healthy(&w);
}

static void check_model(int model)
{
    struct tally tally = {0, 0};
    machine_up(NULL, 2);
    for (size_t i = 0; i < N_VARIANTS; i++) {
        check_variant(model, &variants[i], &tally);
    }
    machine_down();
    print_message("%s: %zu derivatives, %zu of them at a kink\n", model_name(model), tally.n, tally.n_kinks);
    assert_true(tally.n_kinks * 20 < tally.n);
}

TEST(test_models)
{
    for (int model = 0; model < n_models(); model++) {
        check_model(model);
    }
}

/* A third of the vertices have more in-neighbours than any fanout. */
static void expect_sampled(const struct sl_graph *graph)
{
    uint32_t n_over = 0;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        n_over += graph->offsets[v + 1] - graph->offsets[v] > 5;
    }
    assert_true(n_over > graph->n_vertices / 3);
}

static int up(void **state)
{
    (void)state;
    make_sets(dense_shape, sparse_shape);
    expect_sampled(&dense_set.graph);
    expect_sampled(&sparse_set.graph);
    return 0;
}

TEST_MAIN(up, sets_down)
