/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --edge-weights and GIN, whole runs: the partition is invisible, in double nearly to the bit; rows of bf16 are close
 * to float; the same run twice is the same to the bit; all weights may be zero. / */
#include "tests/support/sets_fixture.h"

#ifdef SL_REAL_DOUBLE
#define SAME 1e-12
#else
#define SAME 1e-5
#endif
#define BF16_SAME 1e-2 /* rows of bf16 have 8 bits */
#define STEPS 3
#define SEEDS 84 /* of a step: 3 x 4 x 7 */

/* A model: rgcn with n bases. */
#define BASES(n) ((n) << 8)

struct variant {
    const char *name;
    int model, sampler, edge_weights;
    uint32_t hidden; /* above the 12 features: the first layer sums first */
    int norm;
    bool sparse;
};

static const struct variant variants[] = {
    {"sage, factor", SL_MODEL_SAGE, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_FACTOR, 24, SL_NORM_LAYER, false},
    {"sage, factor, projected", SL_MODEL_SAGE, SL_SAMPLER_LABOR, SL_EDGE_WEIGHTS_FACTOR, 8, SL_NORM_NONE, false},
    {"sage, probability", SL_MODEL_SAGE, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_PROBABILITY, 8, SL_NORM_NONE, true},
    {"sage, both", SL_MODEL_SAGE, SL_SAMPLER_LABOR, SL_EDGE_WEIGHTS_BOTH, 24, SL_NORM_NONE, false},
    {"gcn, factor", SL_MODEL_GCN, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_FACTOR, 24, SL_NORM_BATCH, false},
    {"gcn, factor, projected", SL_MODEL_GCN, SL_SAMPLER_FULL, SL_EDGE_WEIGHTS_FACTOR, 8, SL_NORM_NONE, true},
    {"gcn, probability", SL_MODEL_GCN, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_PROBABILITY, 8, SL_NORM_NONE, false},
    {"gcn, both", SL_MODEL_GCN, SL_SAMPLER_LABOR, SL_EDGE_WEIGHTS_BOTH, 8, SL_NORM_LAYER, false},
    {"gcnii, factor", SL_MODEL_GCNII, SL_SAMPLER_LABOR, SL_EDGE_WEIGHTS_FACTOR, 16, SL_NORM_NONE, false},
    {"resgcn, factor", SL_MODEL_RESGCN, SL_SAMPLER_FULL, SL_EDGE_WEIGHTS_FACTOR, 16, SL_NORM_NONE, false},
    {"gin, factor", SL_MODEL_GIN, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_FACTOR, 24, SL_NORM_LAYER, false},
    {"gin, both", SL_MODEL_GIN, SL_SAMPLER_LABOR, SL_EDGE_WEIGHTS_BOTH, 8, SL_NORM_NONE, false},
    {"gin", SL_MODEL_GIN, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_NONE, 24, SL_NORM_NONE, false},
    {"gin, projected", SL_MODEL_GIN, SL_SAMPLER_FULL, SL_EDGE_WEIGHTS_NONE, 8, SL_NORM_BATCH, true},
    {"rgcn, factor", SL_MODEL_RGCN, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_FACTOR, 24, SL_NORM_LAYER, false},
    {"rgcn, factor, projected", SL_MODEL_RGCN, SL_SAMPLER_LABOR, SL_EDGE_WEIGHTS_FACTOR, 8, SL_NORM_NONE, true},
    {"rgcn, probability", SL_MODEL_RGCN, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_PROBABILITY, 8, SL_NORM_NONE, false},
    {"rgcn, bases", SL_MODEL_RGCN | BASES(2), SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_FACTOR, 24, SL_NORM_NONE, false},
    {"rgcn, bases, projected", SL_MODEL_RGCN | BASES(2), SL_SAMPLER_FULL, SL_EDGE_WEIGHTS_FACTOR, 8, SL_NORM_NONE,
     false},
    {"rgat, factor", SL_MODEL_RGAT, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_FACTOR, 24, SL_NORM_NONE, false},
    {"rgat, factor, full", SL_MODEL_RGAT, SL_SAMPLER_FULL, SL_EDGE_WEIGHTS_FACTOR, 8, SL_NORM_LAYER, true},
    {"rgat, probability", SL_MODEL_RGAT, SL_SAMPLER_NEIGHBOR, SL_EDGE_WEIGHTS_PROBABILITY, 8, SL_NORM_NONE, false},
};
#define N_VARIANTS (sizeof variants / sizeof *variants)

/* The losses of the first steps and of an evaluation, and the parameters. */
struct result {
    double loss[STEPS + 1];
    struct outcome outcome;
};

static void run_variant(const struct variant *v, uint32_t pes, int precision, struct result *out)
{
    const struct sl_dataset *dataset = set_of(v->model & 0xff, v->sparse);
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_scores scores;
    OWNED(world_close) struct world w;
    settings_with("layers=2 fanout=4,5 dropout=0.5", &settings);
    settings.model = v->model & 0xff;
    settings.sampler = v->sampler;
    settings.edge_weights = v->edge_weights;
    settings.norm = v->norm;
    settings.learn_epsilon = v->model == SL_MODEL_GIN;
    settings.precision = precision;
    settings.hidden = v->hidden;
    settings.bases = (uint32_t)v->model >> 8;
    settings.pes = settings.group_size = pes;
    settings.batch_size = SEEDS / pes;
    settings.chunks = 1 + pes % 3;
    settings.partition = pes % 2 == 0 ? SL_PARTITION_METIS : SL_PARTITION_RANDOM;
    world_open(dataset, &settings, STEPS, &w);
    world_run(&w, STEPS, &out->outcome);
    memcpy(out->loss, out->outcome.loss, STEPS * sizeof *out->loss);
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &scores));
    out->loss[STEPS] = scores.valid_loss;
}

static void expect_close(const struct variant *v, uint32_t pes, const struct result *got, const struct result *wanted,
                         double tolerance)
{
    for (uint32_t i = 0; i <= STEPS; i++) {
        double off = fabs(got->loss[i] - wanted->loss[i]);
        if (!(off <= tolerance * (1 + fabs(wanted->loss[i])))) {
            fail_msg("%s, P = %u: loss %u is %.15g, expected %.15g, off by %.2g", v->name, pes, i, got->loss[i],
                     wanted->loss[i], off);
        }
    }
}

/* One variant of so many, if kernels are slow. */
static size_t variant_stride(void)
{
    return slow_kernels() ? 4 : 1;
}

static void check_invisible(int precision, double tolerance)
{
    static const uint32_t spreads[] = {3, 4, 7};
    for (size_t i = 0; i < N_VARIANTS; i += variant_stride()) {
        struct result wanted;
        run_variant(&variants[i], 1, precision, &wanted);
        for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
            struct result got;
            run_variant(&variants[i], spreads[k], precision, &got);
            expect_close(&variants[i], spreads[k], &got, &wanted, tolerance);
            outcome_free(&got.outcome);
        }
        outcome_free(&wanted.outcome);
    }
}

TEST(test_invisible)
{
    check_invisible(SL_PRECISION_FLOAT, SAME);
}

TEST(test_invisible_bf16)
{
    needs_bf16();
    check_invisible(SL_PRECISION_BF16, BF16_SAME);
}

/* Rows are rounded, so the first loss is off, by little. */
TEST(test_beside_float)
{
    needs_bf16();
    for (size_t i = 1; i < N_VARIANTS; i += variant_stride()) {
        struct result exact;
        struct result rounded;
        run_variant(&variants[i], 3, SL_PRECISION_FLOAT, &exact);
        run_variant(&variants[i], 3, SL_PRECISION_BF16, &rounded);
        expect_close(&variants[i], 3, &rounded, &exact, 2 * BF16_SAME);
        assert_true(fabs(rounded.loss[0] - exact.loss[0]) > 1e-6 * exact.loss[0]);
        outcome_free(&exact.outcome);
        outcome_free(&rounded.outcome);
    }
}

TEST(test_same_bits)
{
    needs_bf16();
    for (size_t i = 2; i < N_VARIANTS; i += variant_stride()) {
        for (int precision = SL_PRECISION_FLOAT; precision <= SL_PRECISION_BF16; precision++) {
            struct result first;
            struct result second;
            run_variant(&variants[i], 4, precision, &first);
            run_variant(&variants[i], 4, precision, &second);
            expect_same("losses", STEPS + 1, sizeof *first.loss, first.loss, second.loss);
            expect_same("parameters", first.outcome.n_entries, sizeof *first.outcome.parameters,
                        first.outcome.parameters, second.outcome.parameters);
            outcome_free(&first.outcome);
            outcome_free(&second.outcome);
        }
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
    for (size_t i = 0; i < N_VARIANTS; i += variant_stride()) {
        struct result one;
        struct result many;
        run_variant(&variants[i], 1, SL_PRECISION_FLOAT, &one);
        run_variant(&variants[i], 3, SL_PRECISION_FLOAT, &many);
        assert_true(isfinite(one.loss[STEPS]));
        expect_close(&variants[i], 3, &many, &one, SAME);
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
