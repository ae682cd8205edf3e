/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/train/memory_need: what makes a run larger makes the estimate larger, by as much as can be counted by hand.
 * tests/whole/test_memory_peak.c compares estimates with the peaks of runs.
 */
#include "tests/support/run_fixture.h"

#include "runtime/train/memory_need.h"

#define N 20000
#define MB 1e6
#define USUAL "layers=2 fanout=10,10 batch-size=500 chunks=2 pes=1 group-size=1 "

static struct sl_dataset dataset, typed;

/* The estimate for a process of two workers. */
static double need_of(const struct sl_dataset *of, const char *words)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    char all[300];
    snprintf(all, sizeof all, USUAL "%s", words);
    settings_with(all, &settings);
    return (double)sl_memory_need(&settings, of, NULL, 2, SL_PARTITION_NONE);
}

/* Rows of the hidden width: the outputs of an evaluation, at least, are of all vertices. */
TEST(test_rows)
{
    static const char *const models[] = {"sage", "gcn", "gat", "gatv2", "gcnii", "resgcn", "gin", "rgcn", "rgat"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const struct sl_dataset *of = models[i][0] == 'r' && models[i][1] == 'g' ? &typed : &dataset;
        char words[6][100];
        double need[6];
        static const char *const more[] = {"hidden=64",
                                           "hidden=512",
                                           "hidden=512 batch-size=2000",
                                           "hidden=512 batch-size=2000 fanout=20,20",
                                           "hidden=512 layers=3 fanout=10,10,10",
                                           "hidden=512 precision=bf16"};
        for (int k = 0; k < 6; k++) {
            snprintf(words[k], sizeof words[k], "model=%s %s", models[i], more[k]);
            need[k] = need_of(of, words[k]);
        }
        assert_true(need[1] - need[0] > (512 - 64) * sizeof(sl_real) * N);
        assert_true(need[1] - need[0] < 20 * (512 - 64) * sizeof(sl_real) * N);
        assert_true(need[2] > need[1] + 5 * MB && need[3] > need[2] && need[4] > need[1] + 5 * MB);
        assert_true(need[5] < 0.9 * need[1]);
    }
}

/* A step has no more vertices than the graph, and more of them with more PEs. Exchanged rows are added. */
TEST(test_steps)
{
    double one = need_of(&dataset, "hidden=256 pes=1 group-size=1");
    double four = need_of(&dataset, "hidden=256 pes=4 group-size=4");
    double all = need_of(&dataset, "hidden=256 batch-size=20000 fanout=-1,-1");
    double more = need_of(&dataset, "hidden=256 batch-size=100000 fanout=-1,-1");
    assert_true(four > one + 10 * MB && all > one + 10 * MB && all == more);
    assert_true(need_of(&dataset, "hidden=256 pes=4 group-size=4 partition=random") > four);
    assert_true(need_of(&dataset, "hidden=256 vertex-budget=15000") > one + 5 * MB);
    assert_true(need_of(&dataset, "hidden=256 depth=4") > one);
    double cached = need_of(&dataset, "hidden=256 feature-cache=5000") - one;
    assert_true(cached >= 5000.0 * sizeof(sl_real) * 50);
}

/* An evaluation for few vertices, or on samples, has fewer rows; outputs of all vertices have all. */
TEST(test_few_scores)
{
    const char *small = "hidden=1024 batch-size=1 gpus=0 fanout=1,1";
    const double all = need_of(&dataset, "hidden=1024 batch-size=1 gpus=0 fanout=1,1 predict=x.npy");
    struct sl_dataset few = dataset;
    few.valid.n = few.test.n = 100;
    assert_true(need_of(&few, small) < all - 10 * MB);
    assert_true(need_of(&few, "hidden=1024 batch-size=1 gpus=0 fanout=1,1 score-fanout=2,2") < need_of(&few, small));
    assert_true(need_of(&few, "hidden=1024 batch-size=1 gpus=0 fanout=1,1 predict=x.npy") == all);
    assert_true(need_of(&few, "hidden=1024 batch-size=1 gpus=0 fanout=1,1 embed=x.npy") == all);
}

/* Sizes alone: a lower bound of the estimate with the data, which grows with each of them. */
TEST(test_least)
{
    static const char *const models[] = {"sage", "gcn", "gat", "gin", "rgcn", "rgat"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const struct sl_dataset *of = models[i][0] == 'r' ? &typed : &dataset;
        OWNED(sl_settings_free) struct sl_settings settings;
        char words[100];
        snprintf(words, sizeof words, USUAL "model=%s hidden=64", models[i]);
        settings_with(words, &settings);
        struct sl_raw_sizes sizes = {
            .n_vertices = N, .n_edges = of->graph.n_edges, .n_relations = of->graph.n_relations};
        const uint64_t least = sl_memory_least(&settings, &sizes);
        assert_true(least > MB && (double)least < need_of(of, words));
        sizes.n_edges *= 1000;
        const uint64_t edges = sl_memory_least(&settings, &sizes);
        assert_true(edges - least >= 999 * of->graph.n_edges * sizeof(sl_vertex));
        sizes.n_vertices *= 1000;
        assert_true(sl_memory_least(&settings, &sizes) - edges >= (uint64_t)999 * N * sizeof(sl_vertex));
        sizes = (struct sl_raw_sizes){0};
        assert_true(sl_memory_least(&settings, &sizes) < least);
    }
}

/* Before the plan is made, what the user has left open is open. Rows count only where all vertices are evaluated. */
TEST(test_least_of_open_settings)
{
    static const char *const words[] = {"sync=dissemination", "sync=cube group-size=2", "layers=3",
                                        "layers=3 predict=x.npy"};
    const struct sl_raw_sizes sizes = {.n_vertices = N};
    uint64_t least[4];
    for (int i = 0; i < 4; i++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        char all[100];
        snprintf(all, sizeof all, "hidden=64 fanout=10 %s", words[i]);
        settings_with(all, &settings);
        expect_ok(sl_settings_check(&settings));
        assert_true(settings.pes == 0 && settings.gpus != 0);
        least[i] = sl_memory_least(&settings, &sizes);
    }
    assert_true(least[0] < 100 * MB && least[1] < 100 * MB);
    assert_true(least[3] - least[2] > 0.8 * N * 64 * sizeof(sl_real));
}

/* METIS's graphs are there together with the dataset, before training. */
TEST(test_start)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    settings_with("layers=1 fanout=1 hidden=4 batch-size=10 pes=2 group-size=2", &settings);
    double cut = (double)sl_memory_need(&settings, &dataset, NULL, 2, SL_PARTITION_METIS);
    double read = (double)sl_memory_need(&settings, &dataset, NULL, 2, SL_PARTITION_NONE);
    assert_true(cut > read && cut < read + 100.0 * (double)dataset.graph.n_edges);
}

/* A rank has its share of the rows and tables, and what all ranks have. */
TEST(test_ranks)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_plan plan = {
        .n_pes = 4, .n_parts = 4, .n_groups = 1, .n_replicas = 1, .n_ranks = 4, .rank = 1, .first_pe = 1, .end_pe = 2};
    settings_with("layers=2 fanout=10,10 batch-size=500 hidden=1024 pes=4 group-size=4", &settings);
    double one = (double)sl_memory_need(&settings, &dataset, NULL, 2, SL_PARTITION_NONE);
    double rank = (double)sl_memory_need(&settings, &dataset, &plan, 2, SL_PARTITION_NONE);
    assert_true(rank < 0.8 * one && rank > 0.25 * one);
    plan.n_ranks = 1;
    plan.end_pe = 4;
    plan.first_pe = 0;
    assert_true((double)sl_memory_need(&settings, &dataset, &plan, 2, SL_PARTITION_NONE) == one);
}

/* On the whole graph: recomputation and bf16 take less, layers take more. */
TEST(test_pipe)
{
    static const struct {
        uint32_t layers;
        int recompute, precision;
    } runs[] = {{12, 0, SL_PRECISION_FLOAT},
                {12, 1, SL_PRECISION_FLOAT},
                {12, 0, SL_PRECISION_BF16},
                {24, 0, SL_PRECISION_FLOAT}};
    double need[4];
    for (int i = 0; i < 4; i++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        settings_with("layers=2 fanout=10,10 hidden=256", &settings);
        settings.schedule = SL_SCHEDULE_PIPE;
        settings.layers = runs[i].layers;
        settings.recompute = runs[i].recompute;
        settings.precision = runs[i].precision;
        settings.stages = 2;
        settings.ways = 1;
        settings.chunks = 1;
        settings.pes = settings.group_size = 8;
        settings.history_every = 1000;
        need[i] = (double)sl_memory_need(&settings, &dataset, NULL, 2, SL_PARTITION_NONE);
    }
    assert_true(need[1] < 0.9 * need[0] && need[2] < 0.9 * need[0] && need[3] > 1.5 * need[0]);
}

static int open_datasets(MAYBE_UNUSED void **state)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = N, .n_columns = 50, .n_classes = 7, .seed = 5};
    make_dataset(&shape, &dataset);
    make_dataset(&shape, &typed);
    shape.n_relations = 4;
    make_typed(&shape, &typed.graph);
    return 0;
}

static int close_datasets(MAYBE_UNUSED void **state)
{
    sl_dataset_free(&dataset);
    sl_dataset_free(&typed);
    return 0;
}

int main(void)
{
    return wants_gpu() ? 77 : run_listed_tests(open_datasets, close_datasets);
}
