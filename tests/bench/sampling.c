/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * make bench-sampling: one PE's sampling of a hop on one thread, by each sampler, as Markdown: time a task, and a
 * time for each in-edge looked at. neighbor looks at the in-edges that it draws, labor at all in-edges of its
 * destinations.
 *
 * usage: sampling DATASET [FEATURES]
 *
 * The destinations are 1024 training vertices and what neighbor draws for them, as at the second hop of a
 * minibatch. */
#include <stdio.h>
#include <string.h>

#include "codelets/sample.h"
#include "data/load.h"
#include "partition/partition.h"
#include "support/memory.h"
#include "tests/bench/clock.h"

/* A mean is of so many steps, and the best of so many counts. */
enum { N_SEEDS = 1024, N_STEPS = 20, N_MEANS = 7, MAX_FANOUT = 15 };

struct sampler {
    const char *name;
    struct sl_sample_rule rule;
};

static const struct sampler samplers[] = {
    {"neighbor", {.method = SL_SAMPLE_NEIGHBOR, .kappa = 1}},
    {"labor", {.method = SL_SAMPLE_LABOR, .kappa = 1}},
    {"labor --layer-dependency", {.method = SL_SAMPLE_LABOR, .layer_dependency = true, .kappa = 1}},
    {"labor --kappa 32", {.method = SL_SAMPLE_LABOR, .kappa = 32}},
};
#define N_SAMPLERS (sizeof samplers / sizeof *samplers)

static const uint32_t fanouts[] = {4, 10, MAX_FANOUT};

/* Everything that a call of the kernel works on. */
struct work {
    struct sl_sample_part part;
    struct sl_sample_marks marks;
    struct sl_sample_block block;
    uint32_t n_rows;
    sl_vertex *frontier;
};

static enum sl_status open_work(const struct sl_partition *partition, struct work *w)
{
    const uint32_t n = partition->graph.n_vertices;
    const size_t n_edges = (size_t)n * MAX_FANOUT;
    enum sl_status st;
    w->part = (struct sl_sample_part){.offsets = partition->graph.offsets,
                                      .sources = partition->graph.sources,
                                      .dataset_ids = partition->dataset_ids,
                                      .first = partition->first,
                                      .n_parts = 1};
    w->marks.n_vertices = n;
    SL_TRY(st, sl_alloc_zero(n / 64 + 1, sizeof *w->marks.words, "marks", &w->marks.words), done);
    SL_TRY(st, sl_alloc_zero(n / 4096 + 1, sizeof *w->marks.touched, "marks of marks", &w->marks.touched), done);
    SL_TRY(st, sl_alloc(n / 64 + 1, sizeof *w->marks.ranks, "ranks", &w->marks.ranks), done);
    SL_TRY(st, sl_alloc(MAX_FANOUT, sizeof *w->marks.heap, "a heap", &w->marks.heap), done);
    SL_TRY(st, sl_alloc(n, sizeof *w->frontier, "a frontier", &w->frontier), done);
    SL_TRY(st, sl_alloc(n + 1, 4, "edge offsets", &w->block.edge_offsets), done);
    SL_TRY(st, sl_alloc(n_edges, 4, "edges", &w->block.edge_sources), done);
    SL_TRY(st, sl_alloc(n + 1, 4, "back offsets", &w->block.back_offsets), done);
    SL_TRY(st, sl_alloc(n_edges, 4, "transposed edges", &w->block.back_rows), done);
    SL_TRY(st, sl_alloc(n + 2, 4, "a request", &w->block.request), done);
done:
    return st;
}

static void close_work(struct work *w)
{
    sl_free(w->marks.words);
    sl_free(w->marks.touched);
    sl_free(w->marks.ranks);
    sl_free(w->marks.heap);
    sl_free(w->frontier);
    sl_free(w->block.edge_offsets);
    sl_free(w->block.edge_sources);
    sl_free(w->block.back_offsets);
    sl_free(w->block.back_rows);
    sl_free(w->block.request);
}

static uint32_t sample(const struct work *w, struct sl_sample_rule rule, uint32_t fanout, uint64_t step)
{
    const struct sl_draw draw = {.seed = 1, .step = step, .purpose = SL_FOR_SAMPLING, .hop = 1};
    rule.fanout = fanout;
    return sl_sample_cpu(&w->part, &rule, &draw, w->n_rows, w->frontier, &w->marks, &w->block);
}

/* The frontier of the second hop: the seeds and, behind them, the sources that are none of them. */
static void find_frontier(const struct sl_partition *partition, const struct sl_ids *train, uint32_t fanout,
                          struct work *w)
{
    w->n_rows = train->n < N_SEEDS ? train->n : N_SEEDS;
    for (uint32_t i = 0; i < w->n_rows; i++) {
        uint64_t among = (uint64_t)i * train->n / w->n_rows;
        w->frontier[i] = partition->new_ids[train->ids[among]];
    }
    sample(w, samplers[0].rule, fanout, 0);
    const uint32_t n_sources = sl_list_count(w->block.request, 0);
    for (uint32_t i = 0; i < w->n_rows; i++) {
        w->marks.words[w->frontier[i] / 64] |= UINT64_C(1) << w->frontier[i] % 64;
    }
    for (uint32_t i = 0; i < n_sources; i++) {
        sl_vertex id = sl_list_entries(w->block.request, 1)[i];
        if ((w->marks.words[id / 64] >> id % 64 & 1) == 0) {
            w->frontier[w->n_rows++] = id;
        }
    }
    memset(w->marks.words, 0, (w->marks.n_vertices / 64 + 1) * sizeof *w->marks.words);
}

/* In-edges that a call looks at. */
static uint64_t edges_of(const struct work *w, const struct sl_sample_rule *rule, uint32_t fanout)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < w->n_rows; i++) {
        uint64_t degree = w->part.offsets[w->frontier[i] + 1] - w->part.offsets[w->frontier[i]];
        n += rule->method == SL_SAMPLE_LABOR || degree < fanout ? degree : fanout;
    }
    return n;
}

static double best_s(const struct work *w, const struct sl_sample_rule *rule, uint32_t fanout)
{
    double best = 1e9;
    for (int mean = 0; mean < N_MEANS; mean++) {
        double start = bench_thread_s();
        for (uint64_t step = 1; step <= N_STEPS; step++) {
            sample(w, *rule, fanout, step);
        }
        double s = (bench_thread_s() - start) / N_STEPS;
        best = s < best ? s : best;
    }
    return best;
}

static void measure(const struct work *w, uint32_t fanout)
{
    double first_ns = 0;
    for (size_t i = 0; i < N_SAMPLERS; i++) {
        double s = best_s(w, &samplers[i].rule, fanout);
        uint64_t n = edges_of(w, &samplers[i].rule, fanout);
        double ns = 1e9 * s / (double)n;
        first_ns = i == 0 ? ns : first_ns;
        printf("| %s | %u | %u | %llu | %.0f | %.2f | %.2f |\n", samplers[i].name, fanout, w->n_rows,
               (unsigned long long)n, 1e6 * s, ns, ns / first_ns);
    }
}

int main(int argc, char **argv)
{
    struct sl_dataset_options options = {.dataset = argv[argc > 1], .features = argc > 2 ? argv[2] : NULL};
    struct sl_dataset dataset = {0};
    struct sl_partition partition = {0};
    struct work w = {0};
    enum sl_status st;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: sampling DATASET [FEATURES]\n");
        return 2;
    }
    SL_TRY(st, sl_dataset_load(&options, &dataset), done);
    SL_TRY(st, sl_partition_make(&dataset, SL_PARTITION_NONE, 1, 1, NULL, &partition), done);
    SL_TRY(st, open_work(&partition, &w), done);
    printf("| sampler | fanout | destinations | in-edges looked at | us a task | ns an in-edge | of neighbor's |\n");
    printf("| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof fanouts / sizeof *fanouts; i++) {
        find_frontier(&partition, &dataset.train, fanouts[i], &w);
        measure(&w, fanouts[i]);
    }
done:
    if (st != SL_OK) {
        fprintf(stderr, "sampling: %s\n", sl_message());
    }
    close_work(&w);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
    return st == SL_OK ? 0 : 1;
}
