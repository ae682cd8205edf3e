/* double, gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/full/evaluate: inference over all in-neighbours against a plain loop in double, and scores against
 * figures made by hand.
 */
#include "tests/support/floats.h"
#include "tests/support/run_fixture.h"
#include "tests/support/sage_fixture.h"
#include "tests/support/scores.h"

#include "data/load.h"

#include "codelets/sums/aggregate.h"
#include "runtime/full/evaluate.h"

/* ---- the plain loop ---- */

/* Rows of all vertices by dataset id. */
struct table {
    uint32_t n, width;
    double *x;
};

static struct table make_table(uint32_t n, uint32_t width)
{
    return (struct table){n, width, need((size_t)n * width, sizeof(double))};
}

static struct table features_of(const struct sl_dataset *d)
{
    const struct sl_features *f = &d->features;
    struct table t = make_table(f->n_rows, f->n_columns);
    for (size_t i = 0; f->dense.data != NULL && i < (size_t)t.n * t.width; i++) {
        t.x[i] = (double)floats_of(f)[i];
    }
    for (uint32_t v = 0; f->dense.data == NULL && v < t.n; v++) {
        for (uint64_t e = f->offsets[v]; e < f->offsets[v + 1]; e++) {
            t.x[(size_t)v * t.width + f->columns[e]] = (double)f->values[e];
        }
    }
    return t;
}

/* x W_self + mean(x) W_neigh + b of one vertex. */
static void combine(const struct sl_graph *g, const struct sl_layer *layer, const struct table *x, uint32_t v,
                    double *z)
{
    uint64_t degree = g->offsets[v + 1] - g->offsets[v];
    for (uint32_t c = 0; c < layer->n_out; c++) {
        z[c] = (double)layer->parameter[SAGE_BIAS].value[c];
    }
    for (uint32_t f = 0; f < layer->n_in; f++) {
        double sum = 0;
        for (uint64_t e = g->offsets[v]; e < g->offsets[v + 1]; e++) {
            sum += x->x[(size_t)g->sources[e] * x->width + f];
        }
        for (uint32_t c = 0; c < layer->n_out; c++) {
            size_t w = (size_t)f * layer->n_out + c;
            z[c] += x->x[(size_t)v * x->width + f] * (double)layer->parameter[SAGE_SELF].value[w];
            z[c] += degree > 0 ? sum / (double)degree * (double)layer->parameter[SAGE_NEIGH].value[w] : 0;
        }
    }
}

/* ReLU(norm(z)) + residual, in place. */
static void activate(const struct sl_layer *layer, int norm, const double *residual, double *z)
{
    double mean = 0;
    double variance = 0;
    for (uint32_t c = 0; c < layer->n_out; c++) {
        mean += z[c] / layer->n_out;
    }
    for (uint32_t c = 0; c < layer->n_out; c++) {
        variance += (z[c] - mean) * (z[c] - mean) / layer->n_out;
    }
    for (uint32_t c = 0; c < layer->n_out; c++) {
        if (norm == SL_NORM_BATCH) {
            mean = (double)layer->running[c];
            variance = (double)layer->running[layer->n_out + c];
        }
        if (norm != SL_NORM_NONE) {
            z[c] = (z[c] - mean) / sqrt(variance + 1e-5) * (double)layer->parameter[SL_NORM_WEIGHT].value[c] +
                   (double)layer->parameter[SL_NORM_BIAS].value[c];
        }
        z[c] = fmax(z[c], 0) + (layer->residual ? residual[c] : 0);
    }
}

/* Logits, and the rows of the last hidden layer. */
static void infer(const struct sl_dataset *d, const struct sl_model *model, struct table *hidden_out,
                  struct table *logits_out)
{
    struct table x = features_of(d);
    *hidden_out = (struct table){0};
    for (uint32_t i = 0; i < model->n_layers; i++) {
        const struct sl_layer *layer = &model->layer[i];
        struct table z = make_table(x.n, layer->n_out);
        for (uint32_t v = 0; v < x.n; v++) {
            combine(&d->graph, layer, &x, v, z.x + (size_t)v * z.width);
            if (layer->hidden) {
                activate(layer, model->norm, x.x + (size_t)v * x.width, z.x + (size_t)v * z.width);
            }
        }
        if (i + 1 == model->n_layers && i > 0) {
            *hidden_out = x;
        } else {
            free(x.x);
        }
        x = z;
    }
    *logits_out = x;
}

/* ---- inference ---- */

static void scramble_norms(struct sl_model *m)
{
    for (uint32_t i = 0; i < m->n_layers; i++) {
        struct sl_layer *layer = &m->layer[i];
        for (uint32_t c = 0; c < layer->n_out; c++) {
            layer->parameter[SAGE_BIAS].value[c] = (sl_real)(0.3 * noise(i, c));
        }
        for (uint32_t c = 0; layer->parameter[SL_NORM_WEIGHT].n_rows > 0 && c < layer->n_out; c++) {
            layer->parameter[SL_NORM_WEIGHT].value[c] = (sl_real)(1 + 0.5 * noise(10 + i, c));
            layer->parameter[SL_NORM_BIAS].value[c] = (sl_real)(0.5 * noise(20 + i, c));
        }
        for (uint32_t c = 0; layer->running != NULL && c < layer->n_out; c++) {
            layer->running[c] = (sl_real)(0.5 * noise(30 + i, c));
            layer->running[layer->n_out + c] = (sl_real)(1 + 0.5 * noise(40 + i, c));
        }
    }
}

static double size_of(const struct table *t)
{
    double size = 0;
    for (size_t i = 0; i < (size_t)t->n * t->width; i++) {
        size = fmax(size, fabs(t->x[i]));
    }
    return size;
}

/* Rounding: each layer's sums over its inputs and over the largest in-degree, relative to the largest entry; eight
 * times an epsilon for each of the four layers, and the root of the longest sum (200). */
static void expect_table(const char *label, const struct table *wanted, const sl_real *got,
                         const struct sl_partition *p)
{
    double tolerance = 4 * 8 * EPSILON * sqrt(200) * size_of(wanted);
    for (uint32_t v = 0; v < wanted->n; v++) {
        for (uint32_t c = 0; c < wanted->width; c++) {
            size_t i = (size_t)v * wanted->width + c;
            expect_near_at(label, i, (double)got[(size_t)p->new_ids[v] * wanted->width + c], wanted->x[i], tolerance);
        }
    }
}

static void check_inference(const struct sl_dataset *d, struct sl_settings *settings)
{
    OWNED(world_close) struct world w;
    struct table hidden;
    struct table logits;
    struct sl_scores scores;
    world_open(d, settings, 1, &w);
    scramble_norms(&w.model);
    infer(d, &w.model, &hidden, &logits);
    struct sl_inference wanted = {.scores = need((size_t)logits.n * logits.width, sizeof *wanted.scores)};
    wanted.hidden = hidden.x != NULL ? need((size_t)hidden.n * hidden.width, sizeof *wanted.hidden) : NULL;
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &wanted, &scores));
    expect_table("logits", &logits, wanted.scores, w.partition);
    if (hidden.x != NULL) {
        expect_table("hidden", &hidden, wanted.hidden, w.partition);
    }
    free(wanted.scores);
    free(wanted.hidden);
    free(hidden.x);
    free(logits.x);
}

TEST(test_inference)
{
    static const int methods[] = {SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE};
    static const uint32_t widths[] = {5, 4, 9, 16};
    for (int k = 0; k < 3 * N_GRAPHS * 2; k++) {
        struct graph_shape shape = {
            .kind = (enum graph_kind)(k % N_GRAPHS), .n_vertices = 40, .n_columns = 5, .n_classes = 3, .seed = 3};
        OWNED(sl_settings_free) struct sl_settings settings;
        OWNED(sl_dataset_free) struct sl_dataset d;
        shape.directed = k % 2 == 1;
        shape.sparse = k >= 2 * N_GRAPHS;
        shape.n_columns = shape.sparse ? 30 : 5;
        shape.n_vertices = shape.kind == GRAPH_POWER_LAW ? 600 : 40;
        make_dataset(&shape, &d);
        expect_ok(sl_settings_init(&settings));
        settings.layers = 1 + (uint32_t)k % 4;
        settings.hidden = shape.sparse && k % 3 == 0 ? 30 : widths[k % 4];
        settings.norm = k % 3;
        settings.residual = k % 4 < 2;
        settings.pes = 1 + (uint32_t)(k % 5);
        settings.partition = methods[k % 3];
        settings.batch_size = 8;
        check_inference(&d, &settings);
        forget_partitions();
    }
}

/* Chunks are small where CPUs take some, large where GPUs alone do, and never too many. */
TEST(test_chunks)
{
    struct sl_run on = {0};
    assert_int_equal(sl_evaluate_split(&on, 1, 2048 * 100).n_chunks, 100);
    on.has_cuda = true; /* whose work CPUs share */
    assert_int_equal(sl_evaluate_split(&on, 1, 2048 * 100).n_chunks, 100);
    on.gpus_first = true;
    assert_int_equal(sl_evaluate_split(&on, 1, 32768 * 10 + 1).n_chunks, 11);
    assert_int_equal(sl_evaluate_split(&on, 1, 2048 * 3).n_chunks, 1);
    on.evaluate_on_cpus = true;
    assert_int_equal(sl_evaluate_split(&on, 1, 2048 * 100).n_chunks, 100);
    for (int k = 0; k < 2; k++) {
        on.evaluate_on_cpus = k == 0;
        for (uint32_t n_parts = 1; n_parts <= SL_MAX_PARTS; n_parts *= 2) {
            uint32_t n = sl_evaluate_split(&on, n_parts, 500000000).n_chunks;
            assert_true(n * n_parts > SL_MAX_FULL_CHUNKS / 4 && n * n_parts <= SL_MAX_FULL_CHUNKS);
        }
    }
}

/* Parts of more than one chunk (2048 rows), on a GPU too: CPUs are said to share its work. */
TEST(test_many_chunks)
{
    bool gpus_first = machine.gpus_first;
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 6000, .hub_degree = 100, .n_columns = 6, .n_classes = 3, .seed = 4};
    OWNED(sl_dataset_free) struct sl_dataset d;
    machine.gpus_first = false;
    make_dataset(&shape, &d);
    for (uint32_t pes = 1; pes <= 2; pes++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        settings_with("layers=2 norm=layer partition=random batch-size=8", &settings);
        settings.hidden = pes == 1 ? 4 : 8; /* projecting first, and not */
        settings.pes = pes;
        check_inference(&d, &settings);
    }
    forget_partitions();
    machine.gpus_first = gpus_first;
}

/* ---- scores ---- */

/* Vertices whose logits are their features: one layer, W_self = 1, W_neigh = 0. */
struct hand {
    uint32_t n, n_classes;
    const float *logits;
    const int32_t *labels;
    const char *sets; /* 'v', 't', 'r' (training) or ' ' */
};

static void fill_ids(const struct hand *h, char set, struct sl_ids *out)
{
    out->ids = need_owned(h->n, sizeof *out->ids);
    for (uint32_t v = 0; v < h->n; v++) {
        if (h->sets[v] == set) {
            out->ids[out->n++] = v;
        }
    }
}

static struct sl_scores scores_of(const struct hand *h, uint32_t pes)
{
    sl_vertex ends[2] = {0, 1};
    struct sl_dataset d = {.name = "hand", .split = "hand"};
    struct sl_scores scores;
    struct sl_settings settings;
    struct world w;
    expect_ok(sl_graph_build(h->n, 1, ends, ends + 1, NULL, true, &d.graph));
    d.features = (struct sl_features){.n_rows = h->n, .n_columns = h->n_classes};
    float *logits = need_owned((size_t)h->n * h->n_classes, sizeof *logits);
    d.features.dense = sl_column_take(SL_DTYPE_F32, h->n, h->n_classes, logits);
    memcpy(logits, h->logits, (size_t)h->n * h->n_classes * sizeof(float));
    d.targets = (struct sl_targets){.n_rows = h->n, .width = 1, .n_classes = h->n_classes};
    d.targets.classes = need_owned(h->n, sizeof *d.targets.classes);
    memcpy(d.targets.classes, h->labels, h->n * sizeof *d.targets.classes);
    fill_ids(h, 'r', &d.train);
    fill_ids(h, 'v', &d.valid);
    fill_ids(h, 't', &d.test);
    settings_with("layers=1 batch-size=1 partition=random", &settings);
    settings.pes = pes;
    world_open(&d, &settings, 1, &w);
    for (uint32_t i = 0; i < h->n_classes * h->n_classes; i++) {
        w.model.layer[0].parameter[SAGE_SELF].value[i] = i % (h->n_classes + 1) == 0;
        w.model.layer[0].parameter[SAGE_NEIGH].value[i] = 0;
    }
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &scores));
    world_close(&w);
    sl_settings_free(&settings);
    forget_partitions();
    sl_dataset_free(&d);
    return scores;
}

/* Answers 0, 1, 1, 1 of labels 0, 0, 1, 2: F1 is 2/3 of class 0, 2/4 of class 1, 0 of class 2; class 3 does not
 * occur, in this set. Equal logits answer with the first class. */
TEST(test_f1)
{
    static const float logits[] = {2, 1, 0, 0, 0, 3, 1, 2, -5, 4, 3, 4, 0, 9, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0};
    static const int32_t labels[] = {0, 0, 1, 2, 3, 3};
    const struct hand h = {6, 4, logits, labels, "ttttvr"};
    for (uint32_t pes = 1; pes <= 3; pes++) {
        struct sl_scores s = scores_of(&h, pes);
        expect_near("accuracy", test_score(&s, "acc"), 0.5, 1e-15);
        expect_near("F1", test_score(&s, "f1"), (2.0 / 3 + 0.5 + 0) / 3, 1e-15);
        expect_near("accuracy of one", valid_score(&s, "acc"), 1, 1e-15);
        expect_near("F1 of one", valid_score(&s, "f1"), 1, 1e-15);
        expect_near("loss of one", s.valid_loss, log(3 + exp(1)) - 1, 1e-14);
        assert_true(isnan(valid_score(&s, "auc")) && isnan(test_score(&s, "auc"))); /* more than two classes */
    }
}

/* Margins 2 and 1 of class 1; 1, 0 and 3 of class 0: of the six pairs 2 + 0 and 1.5 are won, the tie counting half. */
TEST(test_auc)
{
    static const float logits[] = {1, 3, 0, 1, 1, 2, 5, 5, -1, 2, 0, 1, 2, 9, 0, 0};
    static const int32_t labels[] = {1, 1, 0, 0, 0, 1, 1, 0};
    const struct hand h = {8, 2, logits, labels, "tttttvvr"};
    for (uint32_t pes = 1; pes <= 3; pes++) {
        struct sl_scores s = scores_of(&h, pes);
        expect_near("AUC", test_score(&s, "auc"), 3.5 / 6, 1e-15);
        expect_near("accuracy", test_score(&s, "acc"), 3.0 / 5, 1e-15);
        assert_true(isnan(valid_score(&s, "auc"))); /* of one class only */
        expect_near("accuracy of one class", valid_score(&s, "acc"), 1, 1e-15);
        expect_near("loss of two", s.valid_loss, (log1p(exp(-1)) + log1p(exp(-7))) / 2, 1e-14);
    }
}

TEST(test_empty_set)
{
    static const float logits[] = {1, 3, 0, 1, 1, 2};
    static const int32_t labels[] = {1, 0, -1};
    const struct hand h = {3, 2, logits, labels, "tr "};
    struct sl_scores s = scores_of(&h, 2);
    assert_true(isnan(valid_score(&s, "acc")) && isnan(valid_score(&s, "f1")) && isnan(valid_score(&s, "auc")) &&
                isnan(s.valid_loss));
    expect_near("accuracy", test_score(&s, "acc"), 1, 1e-15);
}

/* ---- failures ---- */

TEST(test_failures)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 100, .n_classes = 2, .seed = 5};
    struct sl_scores scores;
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_dataset_free) struct sl_dataset d;
    OWNED(world_close) struct world w;
    enum sl_status st = SL_ENOMEM;
    make_dataset(&shape, &d);
    settings_with("layers=2 norm=batch hidden=4 pes=2 batch-size=8", &settings);
    world_open(&d, &settings, 1, &w);
    long live = sl_memory_live();
    for (long allow = 0; st != SL_OK; allow++) {
        sl_memory_ration(allow);
        st = sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &scores);
        sl_memory_ration(-1);
        starpu_task_wait_for_all();
        assert_true(st == SL_OK || st == SL_ENOMEM);
        assert_int_equal(sl_memory_live(), live);
        assert_true(allow < 10000);
    }
    world_healthy(&w);
    sl_failure_set(&w.run.failure, sl_fail(SL_EIO, "the test says so"));
    assert_int_equal(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &scores), SL_EIO);
    expect_message(sl_message(), "the test", "says so");
    forget_partitions();
}

TEST_MAIN(group_up, group_down)
