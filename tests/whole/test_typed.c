/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Whole steps on typed graphs: rgcn with one relation has the bits of sage (tests/whole/test_reference.c has figures,
 * tests/whole/test_weighted.c partitions). Typed graphs themselves: their lists, and what is refused. */
#include "tests/support/run_fixture.h"

#include "data/load.h"
#include "runtime/starling.h"

#define N_RELATIONS 3
#define N_STEPS 3 /* of runs that are equal to the bit */
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
    settings_with("layers=2 fanout=4,5 dropout=0.3 pes=1 group-size=1", out);
    out->model = model;
    out->hidden = hidden;
    out->batch_size = SEEDS;
}

/* ---- one relation ---- */

/* Case i: two runs of a graph with one relation have the same bits. choose() sets the options of run k. */
static void expect_equal_runs(struct graph_shape shape, int i, void (*choose)(int i, int k, struct sl_settings *))
{
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct outcome got[2];
    shape.n_relations = 1;
    make_dataset(&shape, &dataset);
    for (int k = 0; k < 2; k++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        machine_up(NULL, 2);
        choose(i, k, &settings);
        settings.group_size = settings.pes;
        settings.batch_size = SEEDS / settings.pes;
        settings.chunks = 2;
        run_steps(&dataset, &settings, N_STEPS, &got[k]);
        machine_down();
    }
    assert_memory_equal(got[0].loss, got[1].loss, N_STEPS * sizeof *got[0].loss);
    assert_int_equal(got[0].n_entries, got[1].n_entries);
    expect_same("parameters", got[0].n_entries, sizeof *got[0].parameters, got[0].parameters, got[1].parameters);
    outcome_free(&got[0]);
    outcome_free(&got[1]);
    forget_partitions();
}

static void sage_or_rgcn(int i, int k, struct sl_settings *out)
{
    settings_of(k == 0 ? SL_MODEL_SAGE : SL_MODEL_RGCN, i < 4 ? 8 : 24, out);
    out->pes = i % 4 < 2 ? 1 : 4;
    out->precision = i >= 6 ? SL_PRECISION_BF16 : SL_PRECISION_FLOAT;
    out->norm = i % 3;
    if (i >= 8) {
        out->sampler = SL_SAMPLER_LABOR;
        out->labor_iterations = 2;
    }
}

/* Fanouts over all, and by relation. */
static void by_relation(int i, int k, struct sl_settings *out)
{
    settings_of(SL_MODEL_RGCN, 16, out);
    out->sampler = i % 2 == 0 ? SL_SAMPLER_NEIGHBOR : SL_SAMPLER_LABOR;
    out->replace = i == 2;
    out->labor_iterations = i == 5;
    out->pes = 2;
    if (k == 1) {
        expect_ok(sl_settings_set(out, "relation-fanout", i == 3 ? "0:4,5" : "each"));
    }
}

TEST(test_one_relation)
{
    for (int i = 0; i < 10; i++) {
        expect_equal_runs(i % 2 == 0 ? dense_shape : sparse_shape, i, sage_or_rgcn);
    }
    for (int i = 0; i < 6; i++) {
        expect_equal_runs(dense_shape, i, by_relation);
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
    OWNED(sl_graph_free) struct sl_graph graph;
    expect_ok(build_typed(4, 6, from, to, relations, 2, true, &graph));
    assert_int_equal(graph.n_relations, 4);
    assert_int_equal(graph.n_edges, 10);
    assert_memory_equal(graph.offsets, offsets, sizeof offsets);
    assert_memory_equal(graph.sources, sources, sizeof sources);
    assert_memory_equal(graph.relations, wanted, sizeof wanted);
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
