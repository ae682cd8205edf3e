/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --edge-weights, --edge-features, GIN, and fanouts and bases by relation, whole runs: the partition is invisible, in
 * double nearly to the bit; all weights may be zero. tests/whole/test_precision.c has rows of bf16, and the same run
 * twice. */
#include "tests/support/sets_fixture.h"

#ifdef SL_REAL_DOUBLE
#define SAME 1e-12
#else
#define SAME 1e-5
#endif
#define STEPS 3
#define SEEDS 84 /* of a step: 3 x 4 x 7 */

/* Hidden rows wider than the 12 features: the first layer sums first. */
static const struct variant {
    const char *options;
    bool sparse;
} variants[] = {
    {"model=sage edge-weights=factor hidden=24 norm=layer", false},
    {"model=sage edge-weights=factor hidden=8 sampler=labor", false},
    {"model=sage edge-weights=probability hidden=8", true},
    {"model=sage edge-weights=both hidden=24 sampler=labor", false},
    {"model=gcn edge-weights=factor hidden=24 norm=batch", false},
    {"model=gcn edge-weights=factor hidden=8 sampler=full", true},
    {"model=gcn edge-weights=probability hidden=8", false},
    {"model=gcn edge-weights=both hidden=8 sampler=labor norm=layer", false},
    {"model=gcnii edge-weights=factor hidden=16 sampler=labor", false},
    {"model=resgcn edge-weights=factor hidden=16 sampler=full", false},
    {"model=gin learn-epsilon edge-weights=factor hidden=24 norm=layer", false},
    {"model=gin learn-epsilon edge-weights=both hidden=8 sampler=labor", false},
    {"model=gin learn-epsilon hidden=24", false},
    {"model=gin learn-epsilon hidden=8 sampler=full norm=batch", true},
    {"model=rgcn edge-weights=factor hidden=24 norm=layer", false},
    {"model=rgcn edge-weights=factor hidden=8 sampler=labor", true},
    {"model=rgcn edge-weights=probability hidden=8", false},
    {"model=rgcn bases=2 edge-weights=factor hidden=24", false},
    {"model=rgcn bases=2 edge-weights=factor hidden=8 sampler=full", false},
    {"model=rgat edge-weights=factor hidden=24", false},
    {"model=rgat edge-weights=factor hidden=8 sampler=full norm=layer", true},
    {"model=rgat edge-weights=probability hidden=8", false},
    {"model=rgcn hidden=16 relation-fanout=1:2,3/2:3,1", false},
    {"model=rgcn hidden=16 bases=2 replace", true},
    {"model=rgcn hidden=16 bases=2 input-layer sampler=labor relation-fanout=1:2,3/2:3,1", false},
    {"model=rgcn hidden=16 input-layer", true},
    {"model=sage edge-features=concat hidden=24 norm=layer", false},
    {"model=sage edge-features=concat hidden=8 sampler=labor edge-weights=factor", true},
    {"model=sage edge-features=concat hidden=8 replace", false},
    {"model=sage edge-features=concat hidden=24 sampler=full edge-weights=factor", false},
    {"model=sage edge-features=concat hidden=8 edge-weights=probability", false},
    {"model=gat edge-features=concat hidden=24 heads=4 norm=layer skip", false},
    {"model=gat edge-features=concat hidden=8 heads=2 sampler=full", true},
    {"model=gat edge-features=concat hidden=8 heads=2 replace", false},
    {"model=sage edge-features=add hidden=24 norm=layer", false},
    {"model=sage edge-features=add hidden=8 sampler=full edge-weights=factor", false},
    {"model=rgcn edge-features=add hidden=24 edge-weights=factor", false},
    {"model=rgcn edge-features=add hidden=8 sampler=labor norm=layer", true},
    {"model=gat edge-features=add hidden=24 heads=3 norm=layer", false},
    {"model=rgat edge-features=add hidden=24 heads=4 edge-weights=factor", false},
    {"model=rgat edge-features=add hidden=8 heads=2 sampler=labor labor-iterations=1 norm=layer", true},
    {"model=rgcn edge-features=concat hidden=24 sampler=labor norm=layer", false},
    {"model=rgcn edge-features=concat hidden=8 edge-weights=factor", true},
    {"model=rgcn edge-features=concat hidden=8 relation-fanout=1:2,3/2:3,1", false},
    {"model=rgat edge-features=concat hidden=24 heads=4 norm=layer edge-weights=factor", false},
    {"model=rgat edge-features=concat hidden=8 heads=2 sampler=full", true},
    {"model=rgat edge-features=concat hidden=8 heads=2 sampler=labor relation-fanout=1:2,3/2:3,1", false},
    {"model=rgat edge-features=concat hidden=8 heads=2 sampler=labor labor-iterations=1 residual", false},
    {"model=rgcn hidden=8 sampler=labor labor-iterations=1", true},
    {"model=rgcn edge-weights=both hidden=16 sampler=labor labor-iterations=1 relation-fanout=1:2,3/2:3,1", false},
    {"model=sage edge-features=concat hidden=8 sampler=labor labor-iterations=1", false},
    {"model=rgcn edge-features=concat edge-weights=both hidden=8 sampler=labor", false},
    {"model=rgat hidden=16 replace relation-fanout=each", false},
    {"model=rgat hidden=16 sampler=labor", true},
    {"model=rgat hidden=16 sampler=labor labor-iterations=2 relation-fanout=1:2,3/2:3,1", false},
    {"model=rgat hidden=16 input-layer relation-fanout=1:2,3/2:3,1", false},
    {"model=rgat hidden=16 input-layer replace", true},
};
#define N_VARIANTS (sizeof variants / sizeof *variants)

/* The losses of the first steps and of an evaluation, and the parameters. */
struct result {
    double loss[STEPS + 1];
    struct outcome outcome;
};

static void run_variant(const struct variant *v, uint32_t pes, struct result *out)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_scores scores;
    OWNED(world_close) struct world w;
    settings_with("layers=2 fanout=4,5 dropout=0.5 norm=none", &settings);
    settings_add(v->options, &settings);
    settings.pes = settings.group_size = pes;
    settings.batch_size = SEEDS / pes;
    settings.chunks = 1 + pes % 3;
    settings.partition = pes % 2 == 0 ? SL_PARTITION_METIS : SL_PARTITION_RANDOM;
    world_open(set_of(settings.model, v->sparse), &settings, STEPS, &w);
    world_run(&w, STEPS, &out->outcome);
    memcpy(out->loss, out->outcome.loss, STEPS * sizeof *out->loss);
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &scores));
    out->loss[STEPS] = scores.valid_loss;
}

static void expect_close(const struct variant *v, uint32_t pes, const struct result *got, const struct result *wanted)
{
    for (uint32_t i = 0; i <= STEPS; i++) {
        double off = fabs(got->loss[i] - wanted->loss[i]);
        if (!(off <= SAME * (1 + fabs(wanted->loss[i])))) {
            fail_msg("%s, P = %u: loss %u is %.15g, expected %.15g, off by %.2g", v->options, pes, i, got->loss[i],
                     wanted->loss[i], off);
        }
    }
}

TEST(test_invisible)
{
    static const uint32_t spreads[] = {3, 4, 7};
    for (size_t i = 0; i < N_VARIANTS; i += slow_stride(4)) {
        struct result wanted;
        run_variant(&variants[i], 1, &wanted);
        for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
            struct result got;
            run_variant(&variants[i], spreads[k], &got);
            expect_close(&variants[i], spreads[k], &got, &wanted);
            outcome_free(&got.outcome);
        }
        outcome_free(&wanted.outcome);
    }
}

/* Sums of edges without weight are zero: losses stay finite, and the partition invisible. */
TEST(test_all_zero)
{
    struct sl_dataset *const sets[] = {&dense_set, &sparse_set, &typed_dense_set, &typed_sparse_set};
    for (int k = 0; k < 4; k++) {
        struct sl_graph *graph = &sets[k]->graph;
        memset(graph->weights, 0, graph->n_edges * sizeof(float));
    }
    forget_partitions();
    for (size_t i = 0; i < N_VARIANTS; i += slow_stride(4)) {
        struct result one;
        struct result many;
        run_variant(&variants[i], 1, &one);
        run_variant(&variants[i], 3, &many);
        assert_true(isfinite(one.loss[STEPS]));
        expect_close(&variants[i], 3, &many, &one);
        outcome_free(&one.outcome);
        outcome_free(&many.outcome);
    }
}

static int up(void **state)
{
    struct graph_shape dense = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 301,
                                .n_columns = 12,
                                .n_classes = 4,
                                .weighted = true,
                                .n_edge_columns = 7,
                                .self_loops = true,
                                .seed = 21};
    struct graph_shape sparse = dense;
    sparse.sparse = true;
    make_sets(dense, sparse);
    return group_up(state);
}

static int down(void **state)
{
    free_sets();
    return group_down(state);
}

TEST_MAIN(up, down)
