/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sampling/ladies.h: the level against its definition, sizes of layers, draws in proportion, unbiased sums,
 * every partition, and the submissions. */
#include "codelets/sampling/ladies.h"
#include "tests/support/importance_fixture.h"
#include "tests/support/phase_fixture.h"

#define SEED 4242
#define DRAWS 4000

static const struct graph_shape power_law = {.kind = GRAPH_POWER_LAW,
                                             .n_vertices = 900,
                                             .hub_degree = 700,
                                             .self_loops = true,
                                             .directed = true,
                                             .weighted = true,
                                             .seed = 21};

/* A hop of a group, and the buffers of its layer. */
struct layer {
    struct hop hop;
    struct sl_ladies_rule rule;
    uint32_t *shares[MOST_PARTS];
    struct sl_pool *pool[MOST_PARTS];
    struct sl_level level;
};

static struct sl_ladies_rule rule_of(uint32_t size, bool poisson, bool weighted)
{
    return (struct sl_ladies_rule){.sample = {.method = SL_SAMPLE_FULL, .kappa = 1},
                                   .seed = SEED,
                                   .size = size,
                                   .poisson = poisson,
                                   .weighted = weighted};
}

static void layer_free(struct layer *layer)
{
    for (uint32_t p = 0; p < layer->hop.n_parts; p++) {
        free(layer->shares[p]);
        free(layer->pool[p]);
    }
    hop_free(&layer->hop);
}

/* The seeds are every `every`-th vertex. */
static void layer_open(const struct sl_partition *partition, const struct sl_ladies_rule *rule, uint32_t every,
                       struct layer *out)
{
    const struct hop_shape shape = {.seed = SEED, .by_weight = rule->weighted, .decided = true};
    const uint32_t n_vertices = partition->first[partition->n_parts];
    FREED sl_vertex *seeds = need(n_vertices, sizeof *seeds);
    uint32_t n = 0;
    for (sl_vertex v = 0; v < n_vertices && every > 0; v += every) {
        seeds[n++] = v;
    }
    *out = (struct layer){.rule = *rule};
    hop_open(partition, &shape, n, seeds, &out->hop);
    out->hop.weighted = rule->weighted;
    for (uint32_t p = 0; p < partition->n_parts; p++) {
        out->shares[p] = need((size_t)partition->n_parts + 2 + 2 * out->hop.pe[p].n_sources, 4);
        out->pool[p] = need(sl_pool_words(out->hop.pe[p].n_part), 8);
    }
}

/* The costs of a step's candidates, by direct calls. */
static void find_costs(struct layer *layer, uint64_t step)
{
    struct hop *hop = &layer->hop;
    const struct sl_labor_turn turn = sl_labor_turn(SEED, step, 0, &layer->rule.sample);
    const struct sl_pool *pools[MOST_PARTS];
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        const struct sl_destinations to = destinations_of(hop, p);
        sl_candidates_cpu(&to, &hop->pe[p].candidates);
        expect_ok(sl_ladies_shares_cpu(&to, &hop->pe[p].candidates, layer->rule.weighted, layer->shares[p]));
        hop->most[p] = layer->shares[p];
        pools[p] = layer->pool[p];
    }
    for (uint32_t q = 0; q < hop->n_parts; q++) {
        const struct sl_raising raising = raising_of(hop, q, true);
        expect_ok(sl_ladies_pool_cpu(&raising, &layer->rule, &turn, hop->partition->dataset_ids, layer->pool[q]));
    }
    expect_ok(sl_ladies_level_cpu(&layer->rule, hop->n_parts, 0, pools, &layer->level));
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        const struct sl_destinations to = destinations_of(hop, p);
        expect_ok(sl_ladies_take_cpu(&to, &hop->pe[p].candidates, &layer->rule, &turn, pools, &layer->level));
    }
}

/* The costs by dataset id; 0: no candidate. PEs with the same candidate agree. Returns the number of drawn sources. */
static uint32_t list_costs(const struct hop *hop, float *costs_out)
{
    const uint32_t n_vertices = hop->partition->first[hop->n_parts];
    uint32_t n = 0;
    memset(costs_out, 0, n_vertices * sizeof *costs_out);
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        const struct sl_candidates *c = &hop->pe[p].candidates;
        for (uint32_t i = 0; i < c->list[hop->n_parts]; i++) {
            float *cost = &costs_out[hop->partition->dataset_ids[c->list[hop->n_parts + 1 + i]]];
            assert_true(*cost == 0 || *cost == c->costs[i]);
            n += *cost == 0 && c->costs[i] < INFINITY;
            *cost = c->costs[i];
        }
    }
    return n;
}

/* pi of each vertex by its definition. */
static double *importances(const struct sl_graph *graph, uint32_t every, bool weighted)
{
    double *pi = need(graph->n_vertices, sizeof *pi);
    for (sl_vertex v = 0; v < graph->n_vertices; v += every) {
        double sum = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            sum += weighted ? (double)graph->weights[e] : 1;
        }
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1] && sum > 0; e++) {
            pi[graph->sources[e]] += pow((weighted ? (double)graph->weights[e] : 1) / sum, 2);
        }
    }
    return pi;
}

static int compare_doubles(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* c of pladies by bisection, or the key after the `size` smallest. */
static double plain_level(const struct sl_ladies_rule *rule, uint32_t n, const double *pi)
{
    const struct sl_labor_turn turn = sl_labor_turn(SEED, 3, 0, &rule->sample);
    FREED double *keys = need(n, sizeof *keys);
    double low = 0;
    double high = 1e12;
    for (uint32_t v = 0; v < n; v++) {
        keys[v] = pi[v] > 0 ? -log(sl_labor_key(&turn, v)) / pi[v] : INFINITY;
    }
    qsort(keys, n, sizeof *keys, compare_doubles);
    for (int i = 0; i < 200 && rule->poisson; i++) {
        double sum = 0;
        for (uint32_t v = 0; v < n; v++) {
            sum += fmin(1, (low + high) / 2 * pi[v]);
        }
        *(sum < rule->size ? &low : &high) = (low + high) / 2;
    }
    return rule->poisson ? low : keys[rule->size];
}

TEST(test_level)
{
    static const uint32_t sizes[] = {1, 20, 300, 899, 0}; /* 0: as many as there are sources */
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&power_law, &dataset);
    const uint32_t n_vertices = dataset.graph.n_vertices;
    FREED float *costs = need(n_vertices, sizeof *costs);
    for (int i = 0; i < 20; i++) {
        struct sl_ladies_rule rule = rule_of(sizes[i / 4], i % 2, i / 2 % 2);
        OWNED(sl_partition_free) struct sl_partition partition = one_part(&dataset.graph);
        OWNED(layer_free) struct layer layer;
        FREED double *pi = importances(&dataset.graph, 9, rule.weighted);
        uint32_t n_positive = 0;
        for (uint32_t v = 0; v < n_vertices; v++) {
            n_positive += pi[v] > 0;
        }
        if (rule.size == 0) {
            rule.size = n_positive;
        }
        layer_open(&partition, &rule, 9, &layer);
        find_costs(&layer, 3);
        const uint32_t n = list_costs(&layer.hop, costs);
        if (n_positive <= rule.size) {
            assert_true(isinf(layer.level.level) && n == n_positive);
            continue;
        }
        const double wanted = plain_level(&rule, n_vertices, pi);
        expect_near_at("level", (uint64_t)i, layer.level.level * sl_ladies_unit(n_vertices), wanted, 1e-7 * wanted);
        assert_true(rule.poisson || n == rule.size);
        for (uint32_t v = 0; v < n_vertices; v++) {
            const double p = rule.poisson ? fmin(1, wanted * pi[v]) : 1 - exp(-wanted * pi[v]);
            if (costs[v] > 0 && costs[v] < INFINITY) {
                expect_near_at("p", v, 1 / (double)costs[v], p, 1e-6 * p);
            }
        }
    }
}

/* What a source's row is in a sum. */
static double row_of(sl_vertex t)
{
    return sin(1.7 * t) + 0.5;
}

/* Over many draws: the size of the layer, sums of destinations, and with one source how often each is drawn. */
TEST(test_draws)
{
    static const struct {
        uint32_t size;
        bool poisson, weighted;
    } cases[] = {{60, true, false}, {60, true, true}, {60, false, false}, {60, false, true}, {1, false, false}};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&power_law, &dataset);
    const struct sl_graph *graph = &dataset.graph;
    FREED float *costs = need(graph->n_vertices, sizeof *costs);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct sl_ladies_rule rule = rule_of(cases[i].size, cases[i].poisson, cases[i].weighted);
        OWNED(sl_partition_free) struct sl_partition partition = one_part(graph);
        OWNED(layer_free) struct layer layer;
        FREED double *pi = importances(graph, 9, rule.weighted);
        FREED double *sums = need(graph->n_vertices, sizeof *sums);
        FREED double *squares = need(graph->n_vertices, sizeof *squares);
        FREED double *times = need(graph->n_vertices, sizeof *times);
        double n_drawn = 0;
        double all = 0;
        layer_open(&partition, &rule, 9, &layer);
        const struct hop_pe *pe = &layer.hop.pe[0];
        for (uint64_t step = 0; step < DRAWS; step++) {
            find_costs(&layer, step);
            n_drawn += list_costs(&layer.hop, costs);
            hop_draw(&layer.hop, step);
            for (uint32_t d = 0; d < pe->n_rows; d++) {
                const struct group_block *b = &pe->block;
                double x = 0;
                for (uint32_t e = b->edge_offsets[d]; e < b->edge_offsets[d + 1]; e++) {
                    x += b->edge_weights[e] * row_of(source_id(b, b->edge_sources[e])) /
                         (b->edge_offsets[d + 1] - b->edge_offsets[d]);
                }
                sums[d] += x / DRAWS;
                squares[d] += x * x / DRAWS;
            }
            for (uint32_t v = 0; v < graph->n_vertices; v++) {
                times[v] += costs[v] > 0 && costs[v] < INFINITY;
            }
        }
        expect_near("sources of a layer", n_drawn / DRAWS, rule.size,
                    rule.poisson ? 5 * sqrt(rule.size / (double)DRAWS) : 0);
        for (uint32_t d = 0; d < pe->n_rows && rule.size > 1; d++) {
            const uint64_t begin = graph->offsets[9 * d], end = graph->offsets[9 * d + 1];
            double exact = 0;
            for (uint64_t e = begin; e < end; e++) {
                exact += (rule.weighted ? (double)graph->weights[e] : 1) * row_of(graph->sources[e]) / (end - begin);
            }
            const double variance = fmax(0, squares[d] - sums[d] * sums[d]);
            expect_near_at("the mean of the estimates", d, sums[d], exact, 5 * sqrt(variance / DRAWS) + 1e-5);
        }
        for (uint32_t v = 0; v < graph->n_vertices; v++) {
            all += pi[v];
        }
        for (uint32_t v = 0; v < graph->n_vertices && rule.size == 1; v++) {
            const double p = pi[v] / all;
            expect_near_at("draws of a source", v, times[v], p * DRAWS, 5 * sqrt(p * DRAWS) + 3 * (p > 0));
        }
    }
}

/* 13,000 in-neighbours of one destination, a PE with nothing, no destinations at all: the same costs everywhere. */
TEST(test_partition_is_invisible)
{
    struct graph_shape of = power_law;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    of.n_vertices = 14000;
    of.hub_degree = 13000;
    make_dataset(&of, &dataset);
    FREED float *wanted = need(of.n_vertices, sizeof *wanted);
    FREED float *costs = need(of.n_vertices, sizeof *costs);
    FREED uint32_t *parts = need(of.n_vertices, sizeof *parts);
    for (int i = 0; i < 4; i++) {
        const struct sl_ladies_rule rule = rule_of(500, i % 2, i / 2);
        for (uint32_t n_parts = 1; n_parts <= 8; n_parts += n_parts == 1 ? 2 : 1) {
            OWNED(sl_partition_free) struct sl_partition partition;
            OWNED(layer_free) struct layer layer;
            for (uint32_t v = 0; v < of.n_vertices; v++) {
                const uint32_t q = v * 7 % n_parts;
                parts[v] = q == 1 ? 0 : q;
            }
            make_partition(&dataset.graph, n_parts, parts, &partition);
            layer_open(&partition, &rule, 5, &layer);
            find_costs(&layer, 2);
            list_costs(&layer.hop, n_parts == 1 ? wanted : costs);
            if (n_parts > 1) {
                expect_same("costs", of.n_vertices, sizeof *costs, costs, wanted);
            }
            layer_free(&layer);
            layer_open(&partition, &rule, 0, &layer);
            find_costs(&layer, 2);
            assert_int_equal(list_costs(&layer.hop, costs), 0);
        }
    }
}

/* ---- tasks ---- */

static void submit(struct layer *layer, uint64_t step, struct phase *phases, struct sl_importance_handles *own,
                   const struct sl_block *blocks)
{
    const uint32_t n = layer->hop.n_parts;
    const struct sl_poisson_rule rule = poisson_rule_of(&layer->hop.shape);
    starpu_data_handle_t list[MOST_PARTS], shares[MOST_PARTS], pools[MOST_PARTS];
    for (uint32_t p = 0; p < n; p++) {
        const struct sl_task_args args = {.run = &run, .step = step, .pe = p};
        list[p] = own[p].list;
        shares[p] = own[p].most;
        pools[p] = own[p].room;
        expect_ok(sl_candidates_submit(&args, &phases[p].part, &phases[p].frontier, &own[p]));
        expect_ok(sl_ladies_shares_submit(&args, &phases[p].part, &phases[p].frontier, &layer->rule, &own[p]));
    }
    for (uint32_t q = 0; q < n; q++) {
        const struct sl_task_args args = {.run = &run, .step = step, .pe = q};
        const struct sl_raising raising = raising_of(&layer->hop, q, true);
        expect_ok(
            sl_ladies_pool_submit(&args, &raising, phases[q].part.dataset_ids, &layer->rule, list, shares, &own[q]));
    }
    for (uint32_t p = 0; p < n; p++) {
        const struct sl_task_args args = {.run = &run, .step = step, .pe = p};
        if (p == 0) {
            expect_ok(sl_ladies_level_submit(&args, &layer->rule, n, pools, own[0].level));
        }
        expect_ok(sl_ladies_take_submit(&args, &phases[p].part, &phases[p].frontier, &layer->rule, pools, own[0].level,
                                        &own[p]));
        expect_ok(sl_poisson_submit(&args, &phases[p].part, &rule, SEED, &phases[p].frontier, &phases[p].marks, &own[p],
                                    &blocks[p]));
    }
}

/* Two steps of tasks draw what the kernels draw. */
static void check_tasks(const struct sl_partition *partition, const struct sl_ladies_rule *rule)
{
    OWNED(layer_free) struct layer by_kernels, by_tasks;
    struct phase phases[MOST_PARTS];
    struct sl_importance_handles own[MOST_PARTS];
    struct sl_block blocks[MOST_PARTS];
    layer_open(partition, rule, 3, &by_kernels);
    layer_open(partition, rule, 3, &by_tasks);
    find_costs(&by_kernels, 6);
    hop_draw(&by_kernels.hop, 6);
    for (uint32_t p = 0; p < partition->n_parts; p++) {
        struct hop_pe *pe = &by_tasks.hop.pe[p];
        const struct sl_sample_part part = destinations_of(&by_tasks.hop, p).part;
        const size_t n_list = (size_t)partition->n_parts + 1 + pe->n_sources;
        struct phase *phase = &phases[p];
        open_phase(&part, 1, 0, 0, phase);
        memcpy(phase->ids, pe->frontier, pe->n_rows * sizeof *pe->frontier);
        phase->counts[sl_counts_rows(0)] = pe->n_rows;
        own[p] = (struct sl_importance_handles){
            .list = phase_vector(phase, pe->candidates.list, n_list, 4),
            .most = phase_vector(phase, by_tasks.shares[p], n_list + pe->n_sources + 1, 4),
            .candidates = phase_vector(phase, pe->candidates.words,
                                       sl_candidates_bytes(pe->candidates.n_vertices, pe->n_sources), 1),
            .bounds = phase_vector(phase, pe->state, (size_t)pe->n_part + 1, 4),
            .room = phase_vector(phase, by_tasks.pool[p], sl_pool_words(pe->n_part), 8),
            .level = p == 0 ? phase_vector(phase, &by_tasks.level, sizeof by_tasks.level, 1) : NULL,
            .n_vertices = pe->candidates.n_vertices};
        blocks[p] = phase_block(phase, &pe->block, pe->n_rows, pe->n_room, pe->n_sources);
    }
    submit(&by_tasks, 5, phases, own, blocks);
    submit(&by_tasks, 6, phases, own, blocks);
    starpu_task_wait_for_all();
    expect_no_failure();
    for (uint32_t p = 0; p < partition->n_parts; p++) {
        const struct hop_pe *wanted = &by_kernels.hop.pe[p];
        bring_home(phases[p].n, phases[p].all);
        assert_int_equal(phases[p].counts[sl_counts_edges(1, 0)], wanted->n_edges);
        expect_same("costs", wanted->candidates.list[partition->n_parts], 4, by_tasks.hop.pe[p].candidates.costs,
                    wanted->candidates.costs);
        expect_same_block(&by_tasks.hop.pe[p].block, &wanted->block, wanted->n_rows);
        close_phase(&phases[p]);
    }
}

TEST(test_tasks)
{
    FIXTURE(2);
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&power_law, &dataset);
    for (int i = 0; i < 12; i++) {
        const struct sl_ladies_rule rule = rule_of(i < 8 ? 50 : 5000, i % 2, i / 2 % 2);
        OWNED(sl_partition_free) struct sl_partition partition;
        make_split_of(&dataset, SPLIT_RANDOM, 1 + (uint32_t)i % 5, &partition);
        check_tasks(&partition, &rule);
    }
}

TEST_MAIN(NULL, NULL)
