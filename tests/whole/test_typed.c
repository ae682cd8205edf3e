/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Whole steps on typed graphs: the losses of rgcn and rgat against plain loops, rgcn with one relation has the bits of
 * sage, and losses that do not depend on the partition. Typed graphs themselves: their lists, and what is refused. */
#include "tests/support/run_fixture.h"

#include "data/load.h"
#include "runtime/model/sage.h"
#include "runtime/starling.h"

#define N_RELATIONS 3
#define SEEDS 240 /* of a step; divisible by 1, 2, 3, 4 and 8 */

static const struct graph_shape dense_shape = {.kind = GRAPH_POWER_LAW,
                                               .n_vertices = 901,
                                               .n_columns = 12,
                                               .n_classes = 4,
                                               .n_relations = N_RELATIONS,
                                               .seed = 31};
static const struct graph_shape sparse_shape = {.kind = GRAPH_POWER_LAW,
                                                .n_vertices = 901,
                                                .n_columns = 60,
                                                .n_classes = 4,
                                                .sparse = true,
                                                .n_relations = N_RELATIONS,
                                                .seed = 32};

static void settings_of(int model, uint32_t hidden, struct sl_settings *out)
{
    static const uint32_t fanout[] = {4, 5};
    expect_ok(sl_settings_init(out));
    out->model = model;
    out->layers = out->n_fanout = 2;
    memcpy(out->fanout, fanout, sizeof fanout);
    out->hidden = hidden;
    out->dropout = 0.3;
    out->pes = out->group_size = 1;
    out->batch_size = SEEDS;
}

/* ---- one relation ---- */

static void expect_equal_outcomes(const struct outcome *a, const struct outcome *b, uint32_t n_steps)
{
    assert_memory_equal(a->loss, b->loss, n_steps * sizeof *a->loss);
    assert_int_equal(a->n_entries, b->n_entries);
    expect_same("parameters of rgcn and sage", a->n_entries, sizeof *a->parameters, a->parameters, b->parameters);
}

TEST(test_one_relation)
{
    for (int i = 0; i < 8; i++) {
        struct graph_shape shape = i % 2 == 0 ? dense_shape : sparse_shape;
        struct sl_dataset dataset;
        struct outcome got[2];
        const int models[] = {SL_MODEL_SAGE, SL_MODEL_RGCN};
        shape.n_relations = 1;
        make_dataset(&shape, &dataset);
        for (int k = 0; k < 2; k++) {
            struct sl_settings settings;
            machine_up(NULL, 2);
            settings_of(models[k], i < 4 ? 8 : 24, &settings);
            settings.pes = settings.group_size = i % 4 < 2 ? 1 : 4;
            settings.batch_size = SEEDS / settings.pes;
            settings.chunks = 2;
            settings.precision = i >= 6 ? SL_PRECISION_BF16 : SL_PRECISION_FLOAT;
            settings.norm = i % 3;
            run_steps(&dataset, &settings, 3, &got[k]);
            sl_settings_free(&settings);
            machine_down();
        }
        expect_equal_outcomes(&got[0], &got[1], 3);
        outcome_free(&got[0]);
        outcome_free(&got[1]);
        forget_partitions();
        sl_dataset_free(&dataset);
    }
}

/* Fanouts by relation of a graph with one relation: the bits of fanouts over all. */
TEST(test_one_relation_by_relation)
{
    for (int i = 0; i < 4; i++) {
        struct graph_shape shape = dense_shape;
        struct sl_dataset dataset;
        struct outcome got[2];
        shape.n_relations = 1;
        make_dataset(&shape, &dataset);
        for (int k = 0; k < 2; k++) {
            struct sl_settings settings;
            machine_up(NULL, 2);
            settings_of(SL_MODEL_RGCN, 16, &settings);
            settings.sampler = i % 2 == 0 ? SL_SAMPLER_NEIGHBOR : SL_SAMPLER_LABOR;
            settings.replace = i == 2;
            settings.pes = settings.group_size = 2;
            settings.batch_size = SEEDS / 2;
            settings.chunks = 2;
            if (k == 1) {
                expect_ok(sl_settings_set(&settings, "relation-fanout", i == 3 ? "0:4,5" : "each"));
            }
            run_steps(&dataset, &settings, 3, &got[k]);
            sl_settings_free(&settings);
            machine_down();
        }
        expect_equal_outcomes(&got[0], &got[1], 3);
        outcome_free(&got[0]);
        outcome_free(&got[1]);
        forget_partitions();
        sl_dataset_free(&dataset);
    }
}

/* ---- partitions ---- */

TEST(test_partitions)
{
    static const uint32_t pes[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 4}, {8, 8}, {4, 2}, {8, 1}};
    static const int methods[] = {SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE};
    const double tolerance = sizeof(sl_real) == sizeof(double) ? 1e-9 : 1e-5;
    for (int k = 0; k < 8; k++) {
        struct sl_dataset dataset;
        struct outcome wanted = {0};
        make_dataset(k % 2 == 1 ? &sparse_shape : &dense_shape, &dataset);
        machine_up(NULL, 2);
        for (size_t i = 0; i < sizeof pes / sizeof *pes; i++) {
            struct sl_settings settings;
            struct outcome got;
            settings_of(k < 4 ? SL_MODEL_RGCN : SL_MODEL_RGAT, 16, &settings);
            settings.pes = pes[i][0];
            settings.group_size = pes[i][1];
            settings.batch_size = SEEDS / settings.pes;
            settings.chunks = 1 + (uint32_t)i % 3;
            settings.partition = methods[i % 3];
            settings.input_layer = k % 4 >= 2;
            settings.bases = k == 1 || k == 2 ? 2 : 0;
            settings.sampler = k % 3 == 2 ? SL_SAMPLER_LABOR : SL_SAMPLER_NEIGHBOR;
            settings.replace = k % 3 == 1;
            if (k % 2 == 0) {
                expect_ok(sl_settings_set(&settings, "relation-fanout", k == 4 ? "each" : "1:2,3/2:3,1"));
            }
            run_steps(&dataset, &settings, 5, i == 0 ? &wanted : &got);
            for (uint32_t s = 0; i > 0 && s < 5; s++) {
                expect_near_at("loss", s, got.loss[s], wanted.loss[s], tolerance * wanted.loss[s]);
            }
            if (i > 0) {
                outcome_free(&got);
            }
            sl_settings_free(&settings);
        }
        outcome_free(&wanted);
        machine_down();
        forget_partitions();
        sl_dataset_free(&dataset);
    }
}

/* ---- plain loops ---- */

/* The parameters of rgat after those of sage. */
enum { WEIGHT = SL_SAGE_PARAMETERS, SOURCE, TARGET };

/* The matrix of relation r, entry (i, j), as the layer's memory has it. */
static double weight(const struct sl_layer *layer, uint32_t r, uint32_t i, uint32_t j)
{
    const struct sl_parameter *w = &layer->parameter[layer->kind == &sl_rgat ? WEIGHT : SL_SAGE_NEIGH];
    const size_t entry = layer->training.project_first ? (size_t)i * w->n_columns + (size_t)r * layer->n_out + j
                                                       : ((size_t)r * layer->n_in + i) * w->n_columns + j;
    return (double)w->value[entry];
}

/* z += the mean over the in-neighbours of v by relation r, times the matrix of r. */
static void add_mean(const struct sl_layer *layer, const struct sl_graph *graph, sl_vertex v, uint32_t r,
                     const double *in, double *z)
{
    const uint16_t *relations = graph->relations;
    double *mean = need(layer->n_in, sizeof *mean);
    uint32_t n = 0;
    for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
        n += relations[e] == r;
        for (uint32_t i = 0; relations[e] == r && i < layer->n_in; i++) {
            mean[i] += in[(size_t)graph->sources[e] * layer->n_in + i];
        }
    }
    for (uint32_t j = 0; n > 0 && j < layer->n_out; j++) {
        for (uint32_t i = 0; i < layer->n_in; i++) {
            z[j] += mean[i] / n * weight(layer, r, i, j);
        }
    }
    free(mean);
}

/* Column j of the row of v times the matrix of relation r. */
static double product(const struct sl_layer *layer, sl_vertex v, uint32_t r, uint32_t j, const double *in)
{
    double sum = 0;
    for (uint32_t i = 0; i < layer->n_in; i++) {
        sum += in[(size_t)v * layer->n_in + i] * weight(layer, r, i, j);
    }
    return sum;
}

/* The product of v's row of relation r and an attention vector, over columns j0 .. j0 + width - 1 of one head. */
static double score(const struct sl_layer *layer, int vector, sl_vertex v, uint32_t r, const uint32_t columns[2],
                    const double *in)
{
    double sum = 0;
    for (uint32_t j = columns[0]; j < columns[1]; j++) {
        sum += product(layer, v, r, j, in) * (double)layer->parameter[vector].value[r * layer->n_out + j];
    }
    return sum;
}

/* z += the attention over the in-neighbours of v by relation r. */
static void add_attention(const struct sl_layer *layer, const struct sl_graph *graph, sl_vertex v, uint32_t r,
                          const double *in, double *z)
{
    const uint16_t *relations = graph->relations;
    const uint32_t n_heads = layer->n_heads / layer->n_relations;
    const uint32_t width = layer->n_out / n_heads;
    double *out = need(layer->n_out, sizeof *out);
    for (uint32_t k = 0; k < n_heads; k++) {
        const uint32_t columns[] = {k * width, (k + 1) * width};
        const double own = score(layer, TARGET, v, r, columns, in);
        double all = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            if (relations[e] == r) {
                const double x = own + score(layer, SOURCE, graph->sources[e], r, columns, in);
                const double a = exp(x > 0 ? x : 0.2 * x);
                all += a;
                for (uint32_t j = columns[0]; j < columns[1]; j++) {
                    out[j] += a * product(layer, graph->sources[e], r, j, in);
                }
            }
        }
        for (uint32_t j = columns[0]; all > 0 && j < columns[1]; j++) {
            z[j] += out[j] / all;
        }
    }
    free(out);
}

/* z of one vertex. in: [N x n_in]. */
static void one_vertex(const struct sl_layer *layer, const struct sl_graph *graph, sl_vertex v, const double *in,
                       double *z)
{
    const sl_real *self = layer->parameter[SL_SAGE_SELF].value;
    for (uint32_t j = 0; j < layer->n_out; j++) {
        z[j] = (double)layer->parameter[SL_SAGE_BIAS].value[j];
        for (uint32_t i = 0; i < layer->n_in; i++) {
            z[j] += in[(size_t)v * layer->n_in + i] * (double)self[(size_t)i * layer->n_out + j];
        }
    }
    for (uint32_t r = 0; r < layer->n_relations; r++) {
        if (layer->kind == &sl_rgat) {
            add_attention(layer, graph, v, r, in, z);
        } else {
            add_mean(layer, graph, v, r, in, z);
        }
    }
}

/* The outputs of a layer for all vertices. */
static double *layer_of(const struct sl_layer *layer, const struct sl_graph *graph, const double *in)
{
    double *out = need((size_t)graph->n_vertices * layer->n_out, sizeof *out);
    for (sl_vertex v = 0; v < graph->n_vertices; v++) {
        one_vertex(layer, graph, v, in, out + (size_t)v * layer->n_out);
    }
    for (size_t i = 0; layer->hidden && i < (size_t)graph->n_vertices * layer->n_out; i++) {
        out[i] = out[i] > 0 ? out[i] : 0;
    }
    return out;
}

static double *features_of(const struct sl_dataset *dataset)
{
    const struct sl_features *f = &dataset->features;
    double *x = need((size_t)f->n_rows * f->n_columns, sizeof *x);
    for (uint32_t v = 0; v < f->n_rows; v++) {
        for (uint32_t j = 0; f->offsets == NULL && j < f->n_columns; j++) {
            x[(size_t)v * f->n_columns + j] = (double)sl_features_floats(f)[(size_t)v * f->n_columns + j];
        }
        for (uint64_t k = f->offsets == NULL ? 0 : f->offsets[v]; f->offsets != NULL && k < f->offsets[v + 1]; k++) {
            x[(size_t)v * f->n_columns + f->columns[k]] = (double)f->values[k];
        }
    }
    return x;
}

/* The mean cross entropy over all training vertices. */
static double plain_loss(const struct sl_dataset *dataset, const struct sl_model *model)
{
    double *x = features_of(dataset);
    double loss = 0;
    for (uint32_t i = 0; i < model->n_layers; i++) {
        double *next = layer_of(&model->layer[i], &dataset->graph, x);
        free(x);
        x = next;
    }
    for (uint32_t k = 0; k < dataset->train.n; k++) {
        const sl_vertex v = dataset->train.ids[k];
        const double *z = x + (size_t)v * dataset->targets.n_classes;
        double sum = 0;
        for (uint32_t j = 0; j < dataset->targets.n_classes; j++) {
            sum += exp(z[j]);
        }
        loss += log(sum) - z[dataset->targets.classes[v]];
    }
    free(x);
    return loss / dataset->train.n;
}

/* All in-edges, all training vertices in one step; a first layer that sums first and one that multiplies first; rgat,
 * also with one relation. */
TEST(test_plain_loops)
{
    for (int i = 0; i < 7; i++) {
        struct graph_shape shape = i % 2 == 0 ? dense_shape : sparse_shape;
        struct sl_dataset dataset;
        struct sl_settings settings;
        struct outcome got;
        struct world w;
        shape.n_relations = i == 6 ? 1 : N_RELATIONS;
        make_dataset(&shape, &dataset);
        machine_up(NULL, 2);
        settings_of(i < 4 ? SL_MODEL_RGCN : SL_MODEL_RGAT, i < 2 || i >= 4 ? 16 : 5, &settings);
        settings.heads = i > 4 ? 4 : settings.heads;
        settings.sampler = SL_SAMPLER_FULL;
        settings.dropout = 0;
        settings.batch_size = dataset.train.n;
        settings.chunks = 2;
        world_open(&dataset, &settings, 1, &w);
        assert_true(w.model.layer[0].training.project_first == (i > 0));
        scramble_model(&w.model);
        const double wanted = plain_loss(&dataset, &w.model);
        world_run(&w, 1, &got);
        expect_near("the loss", got.loss[0], wanted, (sizeof(sl_real) == sizeof(double) ? 1e-9 : 1e-5) * wanted);
        outcome_free(&got);
        world_close(&w);
        machine_down();
        sl_settings_free(&settings);
        forget_partitions();
        sl_dataset_free(&dataset);
    }
}

/* ---- typed graphs ---- */

/* Lists are ordered by relation, then by source; equal edges are one; reverses have numbers of their own. */
TEST(test_lists)
{
    const sl_vertex from[] = {2, 1, 0, 2, 2, 3};
    const sl_vertex to[] = {0, 0, 0, 0, 0, 3};
    const uint16_t relations[] = {1, 0, 1, 0, 1, 0};
    const sl_vertex sources[] = {1, 2, 0, 2, 0, 0, 0, 0, 3, 3};
    const uint16_t wanted[] = {0, 0, 1, 1, 3, 2, 2, 3, 0, 2};
    const uint64_t offsets[] = {0, 5, 6, 8, 10};
    struct sl_graph graph;
    expect_ok(build_typed(4, 6, from, to, relations, 2, true, &graph));
    assert_int_equal(graph.n_relations, 4);
    assert_int_equal(graph.n_edges, 10);
    assert_memory_equal(graph.offsets, offsets, sizeof offsets);
    assert_memory_equal(graph.sources, sources, sizeof sources);
    assert_memory_equal(graph.relations, wanted, sizeof wanted);
    sl_graph_free(&graph);
}

TEST(test_refused)
{
    const sl_vertex ends[] = {0, 1};
    const uint16_t relations[] = {0, 1};
    struct sl_graph graph;
    assert_int_equal(build_typed(2, 2, ends, ends, relations, 1, true, &graph), SL_EINVAL);
    expect_message(sl_message(), "has relation 1", "below 1");
    assert_int_equal(build_typed(2, 2, ends, ends, relations, 40000, true, &graph), SL_EINVAL);
    expect_message(sl_message(), "40000 relations", "65535");
    assert_int_equal(build_typed(1, 2, ends, ends, relations, 2, true, &graph), SL_EINVAL);
    expect_message(sl_message(), "1 -> 1", "ids below 1");
}

TEST_MAIN(NULL, NULL)
