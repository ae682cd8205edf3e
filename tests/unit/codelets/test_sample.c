/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sampling/sample.h: which edges are drawn and how often, that nothing but the vertex, hop and step decides
 * it, the layout of the blocks, the epoch's order and its seeds, and the submissions. */
#include "codelets/sampling/sample.h"
#include "data/load.h"

#include "tests/support/keyed.h"
#include "tests/support/phase_fixture.h"

#define SEED 4242

static const uint32_t part_counts[] = {1, 2, 4, 7};
#define N_PART_COUNTS (sizeof part_counts / sizeof part_counts[0])

static struct sl_sample_rule rule_of(enum sl_sample_method method, uint32_t fanout)
{
    return (struct sl_sample_rule){.method = method, .fanout = fanout, .kappa = 1};
}

/* 0, 1/2, 1 or 3/2. */
static float fan_weight(sl_vertex source)
{
    return (float)(source % 4) / 2;
}

/* Sources 0 .. degree - 1 -> vertex degree, and n_twins more vertices with the same in-neighbours. */
static struct sl_partition make_fan(uint32_t degree, uint32_t n_twins)
{
    OWNED(free_edges) struct edge_list edges = {.n_vertices = degree + 1 + n_twins};
    OWNED(sl_graph_free) struct sl_graph graph;
    for (sl_vertex to = degree; to < edges.n_vertices; to++) {
        for (sl_vertex from = 0; from < degree; from++) {
            add_edge(&edges, from, to);
        }
    }
    assert_int_equal(sl_graph_build(edges.n_vertices, edges.n, edges.from, edges.to, NULL, false, &graph), SL_OK);
    graph.weights = need_owned(graph.n_edges, sizeof *graph.weights);
    for (uint64_t e = 0; e < graph.n_edges; e++) {
        graph.weights[e] = fan_weight(graph.sources[e]);
    }
    struct sl_partition partition = one_part(&graph);
    return partition;
}

/* The sources drawn for one vertex of an unrenumbered graph, into picks[fanout]. Returns how many. */
static uint32_t draw_one(const struct sl_partition *partition, const struct sl_sample_rule *rule, uint64_t step,
                         uint32_t hop, sl_vertex v, sl_vertex *picks)
{
    struct sl_sample_part part = part_of(partition, 0);
    OWNED(free_block) struct group_block block;
    sample_block(&part, rule, SEED, step, hop, 1, &v, &block);
    uint32_t n = block.n_edges;
    for (uint32_t e = 0; e < n; e++) {
        picks[e] = source_id(&block, block.edge_sources[e]);
    }
    return n;
}

/* ---- which edges: frequencies ---- */

#define FAN 20
#define PICKS 5
#define DRAWS 20000

/* Count over many steps how often each source, and each pair of sources, is drawn. */
static void count_picks(const struct sl_sample_rule *rule, uint32_t single[FAN], uint32_t pair[FAN][FAN])
{
    OWNED(sl_partition_free) struct sl_partition fan = make_fan(FAN, 0);
    for (uint64_t step = 0; step < DRAWS; step++) {
        sl_vertex picks[PICKS];
        assert_int_equal(draw_one(&fan, rule, step, 0, FAN, picks), PICKS);
        for (int i = 0; i < PICKS; i++) {
            single[picks[i]]++;
            for (int j = 0; j < i; j++) {
                assert_true(picks[j] < picks[i]); /* distinct, and in order */
                pair[picks[j]][picks[i]]++;
            }
        }
    }
}

/* Every source with probability k / d, every pair with k (k - 1) / (d (d - 1)). */
static void expect_frequencies(enum sl_sample_method method)
{
    struct sl_sample_rule rule = rule_of(method, PICKS);
    uint32_t single[FAN] = {0};
    uint32_t pair[FAN][FAN] = {{0}};
    double p = (double)PICKS / FAN;
    double chi = 0;
    count_picks(&rule, single, pair);
    for (int i = 0; i < FAN; i++) {
        chi += (single[i] - DRAWS * p) * (single[i] - DRAWS * p) / (DRAWS * p * (1 - p)) * (FAN - 1) / FAN;
        for (int j = i + 1; j < FAN; j++) {
            double q = p * (PICKS - 1) / (FAN - 1);
            expect_near("a pair's frequency", pair[i][j], DRAWS * q, 5 * sqrt(DRAWS * q * (1 - q)));
        }
    }
    if (!(chi > 2.3 && chi < 62)) { /* 19 degrees of freedom: one in a million on either side */
        fail_msg("method %d: chi-square of the frequencies is %g", (int)method, chi);
    }
}

TEST(test_neighbor_is_uniform)
{
    expect_frequencies(SL_SAMPLE_NEIGHBOR);
}

/* Each draw is uniform, and independent of the others: both figures of PICKS draws of FAN sources. */
TEST(test_replaced_is_uniform)
{
    OWNED(sl_partition_free) struct sl_partition fan = make_fan(FAN, 0);
    struct sl_sample_rule rule = rule_of(SL_SAMPLE_REPLACED, PICKS);
    double n_drawn[FAN] = {0};
    double n_equal = 0;
    const double n = (double)DRAWS * PICKS;
    const double pairs = DRAWS * PICKS * (PICKS - 1) / 2.0;
    for (uint64_t step = 0; step < DRAWS; step++) {
        sl_vertex picks[PICKS];
        assert_int_equal(draw_one(&fan, &rule, step, 0, FAN, picks), PICKS);
        for (int i = 0; i < PICKS; i++) {
            n_drawn[picks[i]]++;
            for (int j = 0; j < i; j++) {
                assert_true(picks[j] <= picks[i]);
                n_equal += picks[j] == picks[i];
            }
        }
    }
    for (size_t t = 0; t < FAN; t++) {
        expect_near_at("draws of a source", t, n_drawn[t], n / FAN, 5 * sqrt(n / FAN));
    }
    expect_near("equal pairs", n_equal, pairs / FAN, 5 * sqrt(pairs / FAN));
}

TEST(test_labor_is_uniform)
{
    expect_frequencies(SL_SAMPLE_LABOR);
    expect_frequencies(SL_SAMPLE_SLOW);
}

/* ---- in proportion to weights ---- */

#define FEW 6

/* The probability that k draws in proportion to the weights left over pick exactly the sources in `set`, by all orders
 * of the draws. */
static double probability_of(const double weights[FEW], double left, unsigned set, unsigned k)
{
    double p = 0;
    for (unsigned i = 0; k > 0 && i < FEW; i++) {
        if ((set >> i & 1) != 0) {
            p += weights[i] / left * probability_of(weights, left - weights[i], set & ~(1u << i), k - 1);
        }
    }
    return k == 0 ? 1 : p;
}

/* Every set of k sources has its probability; the chi-square counts the sets. Sources of weight 0 never come. */
TEST(test_weighted_probabilities)
{
    const double weights[FEW] = {fan_weight(0) + 0.0, fan_weight(1), fan_weight(2),
                                 fan_weight(3),       fan_weight(4), fan_weight(5)};
    double all = 0;
    OWNED(sl_partition_free) struct sl_partition fan = make_fan(FEW, 0);
    for (int i = 0; i < FEW; i++) {
        all += weights[i];
    }
    for (uint32_t k = 1; k <= 3; k++) {
        struct sl_sample_rule rule = rule_of(SL_SAMPLE_WEIGHTED, k);
        uint32_t n_of[1 << FEW] = {0};
        double chi = 0;
        int n_sets = 0;
        for (uint64_t step = 0; step < DRAWS; step++) {
            sl_vertex picks[FEW];
            unsigned set = 0;
            assert_int_equal(draw_one(&fan, &rule, step, 1, FEW, picks), k);
            for (uint32_t i = 0; i < k; i++) {
                set |= 1u << picks[i];
            }
            n_of[set]++;
        }
        for (unsigned set = 0; set < 1 << FEW; set++) {
            double p = (unsigned)__builtin_popcount(set) == k ? probability_of(weights, all, set, k) : 0;
            if (p == 0) {
                assert_int_equal(n_of[set], 0);
            } else {
                chi += (n_of[set] - DRAWS * p) * (n_of[set] - DRAWS * p) / (DRAWS * p);
                n_sets++;
            }
        }
        assert_int_equal(n_sets, k == 2 ? 6 : 4);  /* of four sources with a positive weight */
        assert_true(chi < (k == 2 ? 35.9 : 30.7)); /* 5 and 3 degrees of freedom: one in a million */
    }
    /* All positive weights if they are not more than the fanout. */
    struct sl_sample_rule rule = rule_of(SL_SAMPLE_WEIGHTED, 4);
    sl_vertex picks[FEW];
    assert_int_equal(draw_one(&fan, &rule, 0, 0, FEW, picks), 4);
    assert_true(picks[0] == 1 && picks[1] == 2 && picks[2] == 3 && picks[3] == 5);
}

/* How many of n sets of picks are equal to the first. */
static uint32_t count_equal(uint32_t n, uint32_t k, const sl_vertex *picks)
{
    uint32_t equal = 0;
    for (uint32_t i = 1; i < n; i++) {
        equal += memcmp(picks, picks + (size_t)i * k, k * sizeof *picks) == 0;
    }
    return equal;
}

/* Another step, hop or, for neighbor, vertex draws afresh: of 60 sets of 5 out of 200, none is the first again.
 * LABOR's twins pick identical sets, and so do its hops under layer dependency. */
static void expect_fresh(enum sl_sample_method method, bool dependency)
{
    OWNED(sl_partition_free) struct sl_partition fan = make_fan(200, 60);
    struct sl_sample_rule rule = rule_of(method, 5);
    sl_vertex picks[60 * 5];
    rule.layer_dependency = dependency;
    for (uint32_t i = 0; i < 60; i++) {
        draw_one(&fan, &rule, i, 0, 200, picks + i * 5);
    }
    assert_int_equal(count_equal(60, 5, picks), 0);
    for (uint32_t i = 0; i < 60; i++) {
        draw_one(&fan, &rule, 3, i, 200, picks + i * 5);
    }
    assert_int_equal(count_equal(60, 5, picks), dependency ? 59 : 0);
    for (uint32_t i = 0; i < 60; i++) {
        draw_one(&fan, &rule, 3, 1, 200 + i, picks + i * 5);
    }
    assert_int_equal(count_equal(60, 5, picks), method == SL_SAMPLE_LABOR ? 59 : 0);
}

TEST(test_draws_are_fresh)
{
    expect_fresh(SL_SAMPLE_NEIGHBOR, false);
    expect_fresh(SL_SAMPLE_LABOR, false);
    expect_fresh(SL_SAMPLE_SLOW, false);
    expect_fresh(SL_SAMPLE_LABOR, true);
}

/* A draw changes with the seed, and a step beyond 2^32 is not the step below it. */
TEST(test_seed_and_large_steps)
{
    OWNED(sl_partition_free) struct sl_partition fan = make_fan(1000, 0);
    struct sl_sample_part part = part_of(&fan, 0);
    const sl_vertex v = 1000;
    const enum sl_sample_method methods[] = {SL_SAMPLE_NEIGHBOR, SL_SAMPLE_LABOR};
    for (int m = 0; m < 2; m++) {
        struct sl_sample_rule rule = rule_of(methods[m], 20);
        struct group_block block[3];
        sample_block(&part, &rule, SEED, 1, 0, 1, &v, &block[0]);
        sample_block(&part, &rule, SEED + (UINT64_C(1) << 32), 1, 0, 1, &v, &block[1]);
        sample_block(&part, &rule, SEED, 1 + (UINT64_C(1) << 32), 0, 1, &v, &block[2]);
        assert_memory_not_equal(block[0].request, block[1].request, 22 * 4);
        assert_memory_not_equal(block[0].request, block[2].request, 22 * 4);
        for (int i = 0; i < 3; i++) {
            free_block(&block[i]);
        }
    }
}

/* ---- LABOR ---- */

/* n_t or r_t, from the formula. draw: 0: of sources alone; otherwise 1 + the destination. */
static double variate(const struct sl_sample_rule *rule, uint64_t step, uint32_t hop, sl_vertex t, uint32_t draw)
{
    uint64_t group = rule->kappa == 0 ? 0 : step / rule->kappa;
    uint64_t turned = rule->kappa == 0 ? 0 : step % rule->kappa;
    struct sl_draw first = {
        .seed = SEED, .purpose = SL_FOR_KAPPA, .step = group, .hop = rule->layer_dependency ? 0 : hop};
    struct sl_draw second = first;
    double angle = rule->kappa == 0 ? 0 : (double)turned / rule->kappa * M_PI_2;
    second.step++;
    if (turned == 0) {
        return sl_random_open(&first, t, draw);
    }
    return cos(angle) * sl_normal_quantile(sl_random_open(&first, t, draw)) +
           sin(angle) * sl_normal_quantile(sl_random_open(&second, t, draw));
}

/* The k smallest of 0 .. degree - 1, the in-neighbours of vertex `degree`, by sorting them all. */
static void smallest(const struct sl_sample_rule *rule, uint64_t step, uint32_t hop, uint32_t degree, struct keyed *all)
{
    for (uint32_t t = 0; t < degree; t++) {
        all[t] = (struct keyed){variate(rule, step, hop, t, rule->method == SL_SAMPLE_SLOW ? degree + 1 : 0), t};
    }
    sort_smallest(all, degree, rule->fanout);
}

TEST(test_labor_picks_the_smallest)
{
    const uint32_t degrees[] = {2, 5, 63, 64, 65, 300, 13000};
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        OWNED(sl_partition_free) struct sl_partition fan = make_fan(degrees[i], 0);
        FREED struct keyed *all = need(degrees[i], sizeof *all);
        FREED sl_vertex *picks = need(degrees[i], sizeof *picks);
        const uint32_t fanouts[] = {1, 2, 3, 7, 10, 62, 299, 12999};
        for (uint32_t j = 0; j < 8 && fanouts[j] < degrees[i]; j++) {
            for (uint32_t i_rule = 0; i_rule < 8; i_rule++) {
                const uint32_t kappa = i_rule / 2 * 3;
                const enum sl_sample_method method = i_rule % 2 == 0 ? SL_SAMPLE_LABOR : SL_SAMPLE_SLOW;
                struct sl_sample_rule rule = {method, fanouts[j], kappa == 6, kappa};
                smallest(&rule, 17, 2, degrees[i], all);
                assert_int_equal(draw_one(&fan, &rule, 17, 2, degrees[i], picks), fanouts[j]);
                for (uint32_t k = 0; k < fanouts[j]; k++) {
                    assert_int_equal(picks[k], all[k].position);
                }
            }
        }
    }
}

/* Distinct source rows of three hops from 400 seeds of a power-law graph. */
static uint32_t distinct_rows(const struct sl_partition *partition, struct sl_sample_rule rule, uint64_t step,
                              uint32_t n_hops, const sl_vertex *seeds)
{
    const struct sl_sample_rule rules[] = {rule, rule, rule};
    OWNED(group_free) struct group group;
    group_sample(partition, n_hops, rules, SEED, step, 400, seeds, &group);
    uint32_t n = group.pe[0].n_rows[n_hops];
    return n;
}

/* Their mean over 20 steps. */
static double mean_rows(const struct sl_dataset *dataset, struct sl_sample_rule rule, uint32_t n_hops)
{
    OWNED(sl_partition_free) struct sl_partition partition = one_part(&dataset->graph);
    double sum = 0;
    for (uint64_t step = 0; step < 20; step++) {
        sum += distinct_rows(&partition, rule, step, n_hops, dataset->train.ids) / 20.;
    }
    return sum;
}

/* In the mean, neighbour sampling reaches more vertices than LABOR-0, and that more than LABOR-0 with its hops in
 * step. */
TEST(test_labor_reaches_fewer_vertices)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 4000, .hub_degree = 1500};
    struct sl_sample_rule dependent = rule_of(SL_SAMPLE_LABOR, 3);
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    dependent.layer_dependency = true;
    make_dataset(&shape, &dataset);
    for (uint32_t n_hops = 1; n_hops <= 3; n_hops += 2) {
        double neighbor = mean_rows(&dataset, rule_of(SL_SAMPLE_NEIGHBOR, 3), n_hops);
        double labor = mean_rows(&dataset, rule_of(SL_SAMPLE_LABOR, 3), n_hops);
        assert_true(labor < 0.93 * neighbor);
        assert_true(n_hops == 1 || mean_rows(&dataset, dependent, n_hops) < 0.93 * labor);
    }
}

/* ---- kappa ---- */

#define VARIATES 40000

/* n_t of a step, as a normal variate whether or not the key is one. */
static void turned_variates(uint32_t kappa, uint64_t step, uint32_t hop, bool dependency, double *n_out)
{
    struct sl_sample_rule rule = {SL_SAMPLE_LABOR, 1, dependency, kappa};
    struct sl_labor_turn turn = sl_labor_turn(SEED, step, hop, &rule);
    expect_near("unit variance", turn.cosine * turn.cosine + turn.sine * turn.sine, 1, 1e-15);
    for (uint32_t t = 0; t < VARIATES; t++) {
        double key = sl_labor_key(&turn, t);
        n_out[t] = turn.sine == 0 ? sl_normal_quantile(key) : key;
    }
}

static double correlation(const double *x, const double *y)
{
    double sum = 0;
    for (uint32_t t = 0; t < VARIATES; t++) {
        sum += x[t] * y[t];
    }
    return sum / VARIATES;
}

/* The marginal law: a chi-square of Phi(n_t) in 20 bins, mean 0, variance 1. */
static void expect_normal(const double *n)
{
    uint32_t bins[20] = {0};
    double mean = 0;
    double chi = 0;
    for (uint32_t t = 0; t < VARIATES; t++) {
        bins[(int)(20 * erfc(-n[t] / sqrt(2)) / 2)]++;
        mean += n[t] / VARIATES;
    }
    for (int i = 0; i < 20; i++) {
        chi += (bins[i] - VARIATES / 20.) * (bins[i] - VARIATES / 20.) / (VARIATES / 20.);
    }
    expect_near("mean", mean, 0, 5 / sqrt(VARIATES));
    expect_near("variance", correlation(n, n), 1, 5 * sqrt(2. / VARIATES));
    assert_true(chi > 2.3 && chi < 62);
}

/* Successive steps correlate as cos(pi / (2 kappa)), also where one group of kappa steps ends and the next begins. The
 * product's deviation over VARIATES pairs is at most sqrt(1 + r^2) / sqrt(VARIATES). */
TEST(test_kappa_correlation)
{
    const uint32_t kappas[] = {1, 2, 3, 8, 100};
    FREED double *last = need(VARIATES, sizeof *last);
    FREED double *n = need(VARIATES, sizeof *n);
    for (size_t i = 0; i < sizeof kappas / sizeof kappas[0]; i++) {
        uint64_t begin = 2 * kappas[i] - 2;
        turned_variates(kappas[i], begin, 0, false, last);
        for (uint64_t step = begin + 1; step < begin + 5; step++) {
            turned_variates(kappas[i], step, 0, false, n);
            expect_normal(n);
            expect_near("correlation", correlation(last, n), cos(M_PI_2 / kappas[i]), 5 * sqrt(2. / VARIATES));
            double *swapped = last;
            last = n;
            n = swapped;
        }
    }
}

/* What half of this group of steps turns to is where the next one starts; kappa steps later nothing is left. */
TEST(test_kappa_is_continuous)
{
    struct sl_sample_rule rule = {SL_SAMPLE_LABOR, 1, false, 8};
    struct sl_labor_turn before = sl_labor_turn(SEED, 15, 1, &rule);
    struct sl_labor_turn after = sl_labor_turn(SEED, 16, 1, &rule);
    assert_true(after.sine == 0 && after.cosine == 1);
    for (uint32_t t = 0; t < 1000; t++) {
        assert_true(sl_random_u64(&before.second, t, 0) == sl_random_u64(&after.first, t, 0));
    }
    FREED double *n = need(VARIATES, sizeof *n);
    FREED double *later = need(VARIATES, sizeof *later);
    turned_variates(8, 3, 0, false, n);
    turned_variates(8, 3 + 16, 0, false, later);
    expect_near("two groups on", correlation(n, later), 0, 5 / sqrt(VARIATES));
    turned_variates(8, 3, 1, false, later);
    expect_near("another hop", correlation(n, later), 0, 5 / sqrt(VARIATES));
    turned_variates(8, 3, 1, true, n);
    turned_variates(8, 3, 0, true, later);
    assert_memory_equal(n, later, VARIATES * sizeof *n);
}

/* kappa 0: the same for ever. kappa 1 is nothing but a fresh uniform number per step. */
TEST(test_kappa_zero_and_one)
{
    struct sl_sample_rule never = {SL_SAMPLE_LABOR, 1, false, 0};
    struct sl_sample_rule each = {SL_SAMPLE_LABOR, 1, false, 1};
    struct sl_labor_turn start = sl_labor_turn(SEED, 0, 1, &never);
    for (uint64_t step = 1; step < 300; step += 37) {
        struct sl_labor_turn kept = sl_labor_turn(SEED, step, 1, &never);
        struct sl_labor_turn fresh = sl_labor_turn(SEED, step, 1, &each);
        struct sl_draw draw = {.seed = SEED, .step = step, .purpose = SL_FOR_KAPPA, .hop = 1};
        for (uint32_t t = 0; t < 100; t++) {
            assert_true(sl_labor_key(&kept, t) == sl_labor_key(&start, t));
            assert_true(sl_labor_key(&fresh, t) == sl_random_open(&draw, t, 0));
        }
    }
}

/* ---- the layout of a block ---- */

/* The edges of destination d: as many as asked for, from its list, in the list's order. */
static void check_destination(const struct sl_partition *partition, const struct sl_sample_rule *rule,
                              const struct group_block *block, uint32_t d, sl_vertex id)
{
    const struct sl_graph *graph = &partition->graph;
    uint64_t degree = graph->offsets[id + 1] - graph->offsets[id];
    const float *weights = graph->weights;
    for (uint64_t e = graph->offsets[id]; rule->method == SL_SAMPLE_WEIGHTED && e < graph->offsets[id + 1]; e++) {
        degree -= weights[e] == 0;
    }
    uint64_t k = rule->method == SL_SAMPLE_FULL || degree < rule->fanout ? degree : rule->fanout;
    if (rule->method == SL_SAMPLE_REPLACED) {
        k = degree == 0 ? 0 : rule->fanout;
    }
    assert_int_equal(block->edge_offsets[d + 1] - block->edge_offsets[d], k);
    uint64_t i = graph->offsets[id];
    for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
        assert_true(block->edge_sources[e] < block->n_sources);
        sl_vertex source = source_id(block, block->edge_sources[e]);
        while (i < graph->offsets[id + 1] && graph->sources[i] != source) {
            i++;
        }
        assert_true(i < graph->offsets[id + 1]); /* in the list, behind the edge before it */
        if (weights != NULL) {
            assert_true(block->edge_weights[e] == weights[i]);
            assert_true(weights[i] > 0 || rule->method != SL_SAMPLE_WEIGHTED);
        }
        i += rule->method != SL_SAMPLE_REPLACED;
    }
}

/* Each owner's ids ascending and its own; each asked for by some edge. */
static void check_requests(const struct sl_partition *partition, const struct group_block *block)
{
    uint32_t position = 0;
    for (uint32_t q = 0; q < partition->n_parts; q++) {
        const uint32_t *ids = sl_list_of(block->request, partition->n_parts, q);
        assert_int_equal(block->request[q], position);
        for (uint32_t i = 0; i < sl_list_count(block->request, q); i++, position++) {
            assert_true(ids[i] >= partition->first[q] && ids[i] < partition->first[q + 1]);
            assert_true(i == 0 || ids[i - 1] < ids[i]);
            assert_true(block->back_offsets[position] < block->back_offsets[position + 1]);
        }
    }
    assert_int_equal(position, block->request[partition->n_parts]);
}

/* The transposed block lists each source's destinations, ascending. */
static void check_transposed(const struct group_block *block, uint32_t n_rows)
{
    FREED uint32_t *seen = need(block->n_sources, sizeof *seen);
    assert_int_equal(block->back_offsets[0], 0);
    assert_int_equal(block->back_offsets[block->n_sources], block->n_edges);
    for (uint32_t d = 0; d < n_rows; d++) {
        for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
            uint32_t t = block->edge_sources[e];
            uint32_t at = block->back_offsets[t] + seen[t]++;
            assert_true(at < block->back_offsets[t + 1]);
            assert_int_equal(block->back_rows[at], d);
            if (block->edge_weights != NULL) {
                assert_true(block->back_weights[at] == block->edge_weights[e]);
            }
            if (block->edge_relations != NULL) {
                assert_int_equal(block->back_relations[at], block->edge_relations[e]);
            }
        }
    }
}

static void check_group(const struct group *group, const struct sl_sample_rule *rules)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_pe *pe = &group->pe[p];
        for (uint32_t hop = 0; hop < group->n_hops; hop++) {
            const struct group_block *block = &pe->block[hop];
            assert_int_equal(block->edge_offsets[0], 0);
            assert_int_equal(block->edge_offsets[pe->n_rows[hop]], block->n_edges);
            for (uint32_t d = 0; d < pe->n_rows[hop]; d++) {
                check_destination(group->partition, &rules[hop], block, d, pe->frontier[d]);
            }
            check_requests(group->partition, block);
            check_transposed(block, pe->n_rows[hop]);
        }
    }
}

#define N_RULES 8

/* Three rules with different fanouts, so that a swap of hops is seen. */
static void make_rules(int kind, struct sl_sample_rule rules[3])
{
    static const uint32_t fanouts[3] = {2, 3, 7};
    for (int hop = 0; hop < 3; hop++) {
        static const enum sl_sample_method methods[N_RULES] = {SL_SAMPLE_NEIGHBOR, SL_SAMPLE_LABOR, SL_SAMPLE_FULL,
                                                               SL_SAMPLE_LABOR,    SL_SAMPLE_LABOR, SL_SAMPLE_WEIGHTED,
                                                               SL_SAMPLE_REPLACED, SL_SAMPLE_SLOW};
        rules[hop] = rule_of(methods[kind], fanouts[hop]);
        rules[hop].layer_dependency = kind == 4;
        rules[hop].kappa = kind == 3 || kind == 7 ? 8 : 1;
    }
}
static void check_blocks(const struct sl_dataset *dataset, int split, uint32_t n_parts)
{
    OWNED(sl_partition_free) struct sl_partition partition;
    make_split_of(dataset, split, n_parts, &partition);
    for (int kind = 0; kind < N_RULES; kind++) {
        struct sl_sample_rule rules[3];
        OWNED(group_free) struct group group;
        make_rules(kind, rules);
        group_sample(&partition, 3, rules, SEED, 11, dataset->train.n, dataset->train.ids, &group);
        check_group(&group, rules);
    }
}

TEST(test_blocks)
{
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {
            .kind = graph, .n_vertices = 150, .directed = graph == GRAPH_POWER_LAW, .weighted = true};
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        for (int split = 0; split < N_SPLITS; split++) {
            for (size_t i = 0; i < N_PART_COUNTS; i++) {
                check_blocks(&dataset, split, part_counts[i]);
            }
        }
    }
}

/* So few sources among so many vertices that the words without any are not looked at; a hop later they are. */
TEST(test_few_sources)
{
    static const sl_vertex seeds[] = {0, 63, 64, 4095, 4096, 15000, 29999};
    static const int graphs[] = {GRAPH_PATH, GRAPH_POWER_LAW};
    for (int graph = 0; graph < 2; graph++) {
        struct graph_shape shape = {
            .kind = graphs[graph], .n_vertices = 30000, .directed = graph == 1, .weighted = true};
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        dataset.train.n = sizeof seeds / sizeof *seeds;
        memcpy(dataset.train.ids, seeds, sizeof seeds);
        for (int split = 0; split < N_SPLITS; split++) {
            check_blocks(&dataset, split, split == SPLIT_RANDOM ? 61 : 7);
        }
    }
}

TEST(test_many_neighbours)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 16000, .hub_degree = 13000, .weighted = true};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, 4, &partition);
    const sl_vertex seeds[] = {8000, 15999, 15998}; /* the hub, one without edges, one with a self loop */
    for (int kind = 0; kind < N_RULES; kind++) {
        struct sl_sample_rule rules[3];
        OWNED(group_free) struct group group;
        make_rules(kind, rules);
        rules[0].fanout = 12999;
        group_sample(&partition, 1, rules, SEED, 11, 3, seeds, &group);
        check_group(&group, rules);
        uint32_t owner = sl_partition_owner(partition.first, 4, partition.new_ids[8000]);
        assert_true(group.pe[owner].block[0].n_edges >= (kind == 5 ? 9000 : kind == 2 ? 13000 : 12999));
    }
}

/* ---- fanouts by relation ---- */

#define N_RELATIONS 4
#define HUB 8000

static const struct graph_shape typed_shape = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 16000, .hub_degree = 13000, .n_relations = N_RELATIONS, .weighted = true};

/* Of a typed graph, the edges of one relation as a graph without relations. */
static struct sl_partition relation_alone(const struct sl_graph *graph, uint32_t relation)
{
    OWNED(free_edges) struct edge_list edges = {.n_vertices = graph->n_vertices};
    FREED float *weights = need(graph->n_edges, sizeof *weights);
    OWNED(sl_graph_free) struct sl_graph alone;
    for (sl_vertex v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            if (graph->relations[e] == relation) {
                weights[edges.n] = graph->weights[e];
                add_edge(&edges, graph->sources[e], v);
            }
        }
    }
    expect_ok(sl_graph_build(edges.n_vertices, edges.n, edges.from, edges.to, weights, false, &alone));
    struct sl_partition partition = one_part(&alone);
    return partition;
}

static const struct sl_sample_rule relation_rules[] = {{.method = SL_SAMPLE_NEIGHBOR, .fanout = 3000, .kappa = 1},
                                                       {.method = SL_SAMPLE_REPLACED, .fanout = 3000, .kappa = 1},
                                                       {.method = SL_SAMPLE_LABOR, .fanout = 3000, .kappa = 1},
                                                       {.method = SL_SAMPLE_LABOR, .fanout = 3000, .kappa = 8},
                                                       {.method = SL_SAMPLE_SLOW, .fanout = 3000, .kappa = 8},
                                                       {.method = SL_SAMPLE_WEIGHTED, .fanout = 3000, .kappa = 1}};
#define N_RELATION_RULES (sizeof relation_rules / sizeof *relation_rules)
/* Fanouts: few, one, all, many; and many, more than any list. */
static const uint32_t relation_fanouts[2][N_RELATIONS] = {{4, 1, UINT32_MAX, 3000}, {33, 2, 40, UINT32_MAX}};

/* The edges of a destination are those that each relation, as a graph of its own, draws with the relation's seed. */
static void check_by_relation(const struct sl_partition *partition, const struct sl_partition alone[N_RELATIONS],
                              const struct sl_sample_rule *rule, const uint32_t *fanouts, uint32_t n_rows,
                              const sl_vertex *frontier)
{
    struct sl_sample_part part = part_of(partition, 0);
    OWNED(free_block) struct group_block block;
    struct group_block own[N_RELATIONS];
    part.fanouts = fanouts;
    sample_block(&part, rule, SEED, 21, 1, n_rows, frontier, &block);
    for (uint32_t r = 0; r < N_RELATIONS; r++) {
        const struct sl_sample_part own_part = part_of(&alone[r], 0);
        struct sl_sample_rule own_rule = *rule;
        own_rule.fanout = fanouts[r];
        if (fanouts[r] == UINT32_MAX && rule->method == SL_SAMPLE_WEIGHTED) {
            own_rule.fanout = typed_shape.n_vertices;
        } else if (fanouts[r] == UINT32_MAX) {
            own_rule = rule_of(SL_SAMPLE_FULL, 1);
        }
        const bool shared = sl_sample_by_keys(rule);
        const uint64_t seed = shared ? SEED : SEED + r * UINT64_C(0x9e3779b97f4a7c15);
        sample_block(&own_part, &own_rule, seed, 21, 1, n_rows, frontier, &own[r]);
    }
    for (uint32_t d = 0; d < n_rows; d++) {
        uint32_t e = block.edge_offsets[d];
        for (uint32_t r = 0; r < N_RELATIONS; r++) {
            for (uint32_t i = own[r].edge_offsets[d]; i < own[r].edge_offsets[d + 1]; i++, e++) {
                assert_true(e < block.edge_offsets[d + 1]);
                assert_int_equal(source_id(&block, block.edge_sources[e]), source_id(&own[r], own[r].edge_sources[i]));
                assert_true(block.edge_relations[e] == r);
            }
        }
        assert_int_equal(e, block.edge_offsets[d + 1]);
    }
    check_transposed(&block, n_rows);
    check_requests(partition, &block);
    for (uint32_t r = 0; r < N_RELATIONS; r++) {
        free_block(&own[r]);
    }
}

TEST(test_by_relation)
{
    static sl_vertex frontier[600];
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_partition alone[N_RELATIONS];
    make_dataset(&typed_shape, &dataset);
    OWNED(sl_partition_free) struct sl_partition partition = one_part(&dataset.graph);
    for (uint32_t r = 0; r < N_RELATIONS; r++) {
        alone[r] = relation_alone(&dataset.graph, r);
    }
    for (uint32_t d = 0; d < 600; d++) {
        frontier[d] = HUB + d * 13 % 8000; /* the hub, vertices with few in-edges, and vertices with none */
    }
    for (size_t i = 0; i < 2 * N_RELATION_RULES; i++) {
        const struct sl_sample_rule *rule = &relation_rules[i / 2];
        check_by_relation(&partition, alone, rule, relation_fanouts[i % 2], 600, frontier);
        check_by_relation(&partition, alone, rule, relation_fanouts[i % 2], 0, frontier);
    }
    for (uint32_t r = 0; r < N_RELATIONS; r++) {
        sl_partition_free(&alone[r]);
    }
}

/* The mean of a relation over the sample has the mean over all of its in-neighbours as expectation, also of a relation
 * with few edges beside one with many: 20 sources of relation 0 and 3 of relation 1, two of each. */
TEST(test_relation_means)
{
    static const uint32_t fanouts[] = {2, 2};
    static const uint32_t n_of[] = {20, 3};
    static const enum sl_sample_method methods[] = {SL_SAMPLE_NEIGHBOR, SL_SAMPLE_REPLACED, SL_SAMPLE_LABOR};
    sl_vertex from[23];
    sl_vertex to[23];
    uint16_t relations[23];
    OWNED(sl_graph_free) struct sl_graph graph;
    for (uint32_t i = 0; i < 23; i++) {
        from[i] = i;
        to[i] = 23;
        relations[i] = i < 20 ? 0 : 1;
    }
    expect_ok(build_typed(24, 23, from, to, relations, 2, false, &graph));
    OWNED(sl_partition_free) struct sl_partition partition = one_part(&graph);
    for (int m = 0; m < 3; m++) {
        const struct sl_sample_rule rule = rule_of(methods[m], 2);
        uint32_t n_drawn[23] = {0};
        for (uint64_t step = 0; step < DRAWS; step++) {
            struct sl_sample_part part = part_of(&partition, 0);
            OWNED(free_block) struct group_block block;
            const sl_vertex v = 23;
            part.fanouts = fanouts;
            sample_block(&part, &rule, SEED, step, 0, 1, &v, &block);
            assert_int_equal(block.n_edges, 4);
            for (uint32_t e = 0; e < 4; e++) {
                n_drawn[source_id(&block, block.edge_sources[e])]++;
            }
        }
        for (size_t t = 0; t < 23; t++) {
            const double wanted = 2. * DRAWS / n_of[t >= 20];
            expect_near_at("draws of a source", t, n_drawn[t], wanted, 5 * sqrt(wanted));
        }
    }
}

/* Edges from one source by several relations have draws of their own: each comes in proportion to its weight. */
TEST(test_weighted_parallel_edges)
{
    static const sl_vertex from[] = {0, 0, 0}, to[] = {1, 1, 1};
    static const uint16_t relations[] = {0, 1, 2};
    static const float weights[] = {1, 3, 2};
    const struct sl_edge_list list = {2, 3, from, to, weights, relations, 3, false, NULL, 0};
    const struct sl_sample_rule rule = rule_of(SL_SAMPLE_WEIGHTED, 1);
    uint32_t n_drawn[3] = {0};
    OWNED(sl_graph_free) struct sl_graph graph;
    expect_ok(sl_graph_build_list(&list, &graph));
    OWNED(sl_partition_free) struct sl_partition partition = one_part(&graph);
    for (uint64_t step = 0; step < DRAWS; step++) {
        const struct sl_sample_part part = part_of(&partition, 0);
        const sl_vertex v = 1;
        OWNED(free_block) struct group_block block;
        sample_block(&part, &rule, SEED, step, 0, 1, &v, &block);
        assert_int_equal(block.n_edges, 1);
        assert_true(block.edge_weights[0] == weights[block.edge_relations[0]]);
        n_drawn[block.edge_relations[0]]++;
    }
    for (size_t r = 0; r < 3; r++) {
        const double wanted = (double)weights[r] / 6 * DRAWS;
        expect_near_at("draws of a relation", r, n_drawn[r], wanted, 5 * sqrt(wanted));
    }
}

/* Every destination's edges, drawn among others, are those that it draws alone. */
static void check_picks(const struct sl_sample_part *part, uint32_t fanout, uint32_t n_rows, const sl_vertex *frontier)
{
    const struct sl_sample_rule rule = rule_of(SL_SAMPLE_NEIGHBOR, fanout);
    const struct sl_draw draw = {.seed = SEED, .step = 5, .purpose = SL_FOR_SAMPLING, .hop = 3};
    const uint32_t first = part->first[part->part];
    OWNED(free_block) struct group_block block;
    FREED uint32_t *picked = need(fanout, sizeof *picked);
    sample_block(part, &rule, SEED, 5, 3, n_rows, frontier, &block);
    for (uint32_t d = 0; d < n_rows; d++) {
        const uint64_t *bounds = part->offsets + (frontier[d] - first);
        const uint32_t degree = (uint32_t)(bounds[1] - bounds[0]);
        const uint32_t n = degree < fanout ? degree : fanout;
        const uint32_t *edges = block.edge_sources + block.edge_offsets[d];
        assert_int_equal(block.edge_offsets[d + 1] - block.edge_offsets[d], n);
        if (degree > fanout) {
            sl_pick_neighbor(&draw, part->dataset_ids[frontier[d]], degree, fanout, 1, picked);
        }
        for (uint32_t i = 0; i < n; i++) {
            uint32_t position = degree > fanout ? picked[i] : i;
            assert_int_equal(source_id(&block, edges[i]), part->sources[bounds[0] - part->offsets[0] + position]);
        }
    }
    check_transposed(&block, n_rows);
}

/* Frontiers that end within, at and behind the destinations that are drawn together, and fanouts on both sides of
 * what is picked for them side by side. */
TEST(test_picks_are_each_vertex_s_own)
{
    const uint32_t fanouts[] = {1, 4, 5, 63, 64, 65, 200};
    const uint32_t sizes[] = {1, 31, 32, 33, 63, 64, 65, 96, 300, 1500};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 3000, .hub_degree = 2500};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, 2, &partition);
    for (uint32_t p = 0; p < 2; p++) {
        struct sl_sample_part part = part_of(&partition, p);
        sl_vertex frontier[1500];
        for (uint32_t d = 0; d < 1500; d++) {
            frontier[d] = partition.first[p] + d * 7 % (partition.first[p + 1] - partition.first[p]);
        }
        for (size_t f = 0; f < sizeof fanouts / sizeof *fanouts; f++) {
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                check_picks(&part, fanouts[f], sizes[s], frontier);
            }
        }
    }
}

/* Ids on both sides of the words of the bitmap, the last id, and parts that begin there. */
static void check_word_border(uint32_t n, uint32_t border)
{
    struct graph_shape shape = {.kind = GRAPH_TWO_CLIQUES, .n_vertices = n};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    FREED uint32_t *parts = need(n, sizeof *parts);
    make_dataset(&shape, &dataset);
    for (sl_vertex v = 0; v < n; v++) {
        parts[v] = v < border ? 0 : v + 1 < n ? 1 : 3; /* the last id alone in the last part; part 2 empty */
    }
    make_partition(&dataset.graph, 4, parts, &partition);
    struct sl_sample_rule rules[3];
    OWNED(group_free) struct group group;
    make_rules(2, rules);
    group_sample(&partition, 1, rules, SEED, 0, dataset.train.n, dataset.train.ids, &group);
    check_group(&group, rules);
    uint32_t n_rows = 0;
    for (uint32_t p = 0; p < 4; p++) {
        n_rows += group.pe[p].n_rows[1];
    }
    assert_int_equal(n_rows, n); /* all vertices are someone's in-neighbour */
    assert_int_equal(group.pe[3].n_rows[1], 1);
    assert_int_equal(group.pe[3].frontier[0], n - 1);
}

TEST(test_word_borders)
{
    const uint32_t sizes[] = {63, 64, 65, 66, 127, 128, 129, 192, 193};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_word_border(sizes[i], 62);
        for (uint32_t border = 63; border <= 66 && border < sizes[i]; border++) {
            check_word_border(sizes[i], border);
        }
    }
}

TEST(test_empty_frontier)
{
    OWNED(sl_partition_free) struct sl_partition fan = make_fan(70, 0);
    struct sl_sample_part part = part_of(&fan, 0);
    for (int kind = 0; kind < N_RULES; kind++) {
        struct sl_sample_rule rules[3];
        OWNED(free_block) struct group_block block;
        const sl_vertex leaf = 3; /* no in-neighbours */
        make_rules(kind, rules);
        sample_block(&part, &rules[0], SEED, 0, 0, 0, NULL, &block);
        assert_true(block.n_edges == 0 && block.n_sources == 0 && block.edge_offsets[0] == 0);
        free_block(&block);
        sample_block(&part, &rules[0], SEED, 0, 0, 1, &leaf, &block);
        assert_true(block.n_edges == 0 && block.n_sources == 0 && block.edge_offsets[1] == 0);
        assert_int_equal(block.back_offsets[0], 0);
    }
}

/* ---- the partition, the batch and the order of rows are invisible ---- */

/* The dataset ids drawn for each vertex and hop: sets[v], NULL where v is not in the frontier. */
struct drawn {
    uint32_t n;
    sl_vertex *ids;
};

static struct drawn *collect(const struct group *group, uint32_t hop)
{
    const struct sl_partition *partition = group->partition;
    struct drawn *sets = need(partition->graph.n_vertices, sizeof *sets);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        for (uint32_t d = 0; d < group->pe[p].n_rows[hop]; d++) {
            struct drawn *set = &sets[partition->dataset_ids[group->pe[p].frontier[d]]];
            assert_null(set->ids);
            set->n = block->edge_offsets[d + 1] - block->edge_offsets[d];
            set->ids = need(set->n, sizeof *set->ids);
            for (uint32_t i = 0; i < set->n; i++) {
                sl_vertex id = source_id(block, block->edge_sources[block->edge_offsets[d] + i]);
                set->ids[i] = partition->dataset_ids[id];
                assert_true(i == 0 || set->ids[i - 1] <= set->ids[i]); /* equal if drawn with replacement */
            }
        }
    }
    return sets;
}

static void free_drawn(struct drawn *sets, uint32_t n)
{
    for (uint32_t v = 0; v < n; v++) {
        free(sets[v].ids);
    }
    free(sets);
}

/* Where both have drawn (or, with `all`, everywhere) they have drawn the same. */
static void expect_same_draws(const struct group *one, const struct group *other, bool all)
{
    uint32_t n = one->partition->graph.n_vertices;
    for (uint32_t hop = 0; hop < one->n_hops; hop++) {
        struct drawn *a = collect(one, hop);
        struct drawn *b = collect(other, hop);
        for (uint32_t v = 0; v < n; v++) {
            assert_true(!all || (a[v].ids == NULL) == (b[v].ids == NULL));
            if (a[v].ids != NULL && b[v].ids != NULL) {
                assert_int_equal(a[v].n, b[v].n);
                assert_memory_equal(a[v].ids, b[v].ids, a[v].n * sizeof(sl_vertex));
            }
        }
        free_drawn(a, n);
        free_drawn(b, n);
    }
}

static void check_invisible(const struct sl_dataset *dataset, const struct sl_partition *whole, int kind)
{
    struct sl_sample_rule rules[3];
    OWNED(group_free) struct group reference;
    make_rules(kind, rules);
    group_sample(whole, 3, rules, SEED, 29, 60, dataset->train.ids, &reference);
    for (int split = 0; split < N_SPLITS; split++) {
        for (size_t i = 0; i < N_PART_COUNTS; i++) {
            OWNED(sl_partition_free) struct sl_partition partition;
            OWNED(group_free) struct group group;
            make_split_of(dataset, split, part_counts[i], &partition);
            group_sample(&partition, 3, rules, SEED, 29, 60, dataset->train.ids, &group);
            expect_same_draws(&reference, &group, true);
        }
    }
}

TEST(test_partition_is_invisible)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 400, .weighted = true};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    OWNED(sl_partition_free) struct sl_partition whole = one_part(&dataset.graph);
    for (int kind = 0; kind < N_RULES; kind++) {
        check_invisible(&dataset, &whole, kind);
    }
}

/* The same seeds backwards, and half of them, draw the same edges. */
TEST(test_batch_is_invisible)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 400, .weighted = true};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    OWNED(sl_partition_free) struct sl_partition whole = one_part(&dataset.graph);
    FREED sl_vertex *backwards = need(60, sizeof *backwards);
    for (uint32_t i = 0; i < 60; i++) {
        backwards[i] = dataset.train.ids[59 - i];
    }
    for (int kind = 0; kind < N_RULES; kind++) {
        struct sl_sample_rule rules[3];
        OWNED(group_free) struct group all;
        OWNED(group_free) struct group turned;
        OWNED(group_free) struct group half;
        make_rules(kind, rules);
        group_sample(&whole, 3, rules, SEED, 29, 60, dataset.train.ids, &all);
        group_sample(&whole, 3, rules, SEED, 29, 60, backwards, &turned);
        group_sample(&whole, 3, rules, SEED, 29, 30, backwards, &half);
        assert_memory_not_equal(all.pe[0].frontier, turned.pe[0].frontier, 60 * sizeof(sl_vertex));
        expect_same_draws(&all, &turned, true);
        expect_same_draws(&all, &half, false);
    }
}

/* ---- the epoch's order and its seeds ---- */

static uint64_t order_hash(uint64_t epoch, sl_vertex dataset_id)
{
    struct sl_draw draw = {.seed = SEED, .step = epoch, .purpose = SL_FOR_PERMUTATION};
    return sl_random_u64(&draw, dataset_id, 0);
}

static void permute_ids(uint64_t epoch, uint32_t n, const sl_vertex *ids, uint32_t n_vertices, const sl_vertex *new_ids,
                        sl_vertex *order)
{
    starpu_data_handle_t h[] = {vector_of(ids, n, 4), vector_of(new_ids, n_vertices, 4), NULL, vector_of(order, n, 4)};
    starpu_vector_data_register(&h[2], -1, 0, n, sizeof(struct sl_permute_key));
    expect_ok(sl_permute_submit(&head, SEED, epoch, n, h[0], h[1], h[2], h[3]));
    UNREGISTER(h);
    expect_no_failure();
}

static void permute(const struct sl_dataset *dataset, const struct sl_partition *partition, uint64_t epoch,
                    sl_vertex *order)
{
    permute_ids(epoch, dataset->train.n, dataset->train.ids, dataset->graph.n_vertices, partition->new_ids, order);
    for (uint32_t i = 0; i < dataset->train.n; i++) {
        order[i] = partition->dataset_ids[order[i]];
    }
}

/* In order of their hashes, each once. */
static void check_permutation(uint32_t n)
{
    FREED sl_vertex *ids = need(n, sizeof *ids);
    FREED sl_vertex *new_ids = need(3 * (size_t)n, sizeof *new_ids);
    FREED sl_vertex *order = need(n, sizeof *order);
    FREED uint8_t *seen = need(3 * (size_t)n, 1);
    for (uint32_t i = 0; i < 3 * n; i++) {
        ids[i / 3] = i;
        new_ids[i] = 3 * n - 1 - i;
    }
    permute_ids(3, n, ids, 3 * n, new_ids, order);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(order[i] < 3 * n && order[i] % 3 == 0 && !seen[order[i]]++);
        assert_true(i == 0 || order_hash(3, new_ids[order[i - 1]]) < order_hash(3, new_ids[order[i]]));
    }
}

/* In the largest a range of hashes has a hundred keys. */
TEST(test_permutation_of_many)
{
    FIXTURE(1);
    const uint32_t sizes[] = {1, 2, 255, 256, 3000, 1600001};
    for (size_t i = 0; i < (slow_kernels() ? 5 : 6); i++) {
        check_permutation(sizes[i]);
    }
}

static bool contains(uint32_t n, const sl_vertex *ids, sl_vertex id)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

TEST(test_permutation)
{
    FIXTURE(1);
    struct graph_shape shape = {.kind = GRAPH_PATH, .n_vertices = 500};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_partition partition[2];
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, 4, &partition[0]);
    make_split_of(&dataset, SPLIT_NONE, 3, &partition[1]);
    uint32_t n = dataset.train.n;
    FREED sl_vertex *order = need(n, sizeof *order);
    FREED sl_vertex *other = need(n, sizeof *other);
    FREED uint8_t *seen = need(500, 1);
    permute(&dataset, &partition[0], 3, order);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(i == 0 || order_hash(3, order[i - 1]) < order_hash(3, order[i]));
        assert_true(contains(n, dataset.train.ids, order[i]) && !seen[order[i]]++);
    }
    permute(&dataset, &partition[1], 3, other);
    assert_memory_equal(order, other, n * sizeof *order);
    permute(&dataset, &partition[0], 4, other);
    assert_memory_not_equal(order, other, n * sizeof *order);
    sl_partition_free(&partition[0]);
    sl_partition_free(&partition[1]);
}

TEST(test_seeds)
{
    const sl_vertex order[] = {12, 9, 3, 10, 20, 19, 11, 0};
    sl_vertex frontier[10];
    uint32_t row_of[10];
    const struct sl_frontier all = {.first = 10, .n_part = 10, .ids = frontier, .row_of = row_of};
    memset(row_of, 0xff, sizeof row_of);
    assert_int_equal(seed_frontier(8, order, 0, &all), 4);
    const sl_vertex wanted[] = {12, 10, 19, 11};
    assert_memory_equal(frontier, wanted, sizeof wanted);
    for (uint32_t r = 0; r < 4; r++) {
        assert_int_equal(row_of[wanted[r] - 10], r);
    }
    frontier[4] = 15; /* a hop has added a row */
    row_of[5] = 4;
    assert_int_equal(seed_frontier(2, order + 5, 5, &all), 2);
    for (uint32_t v = 0; v < 10; v++) {
        assert_int_equal(row_of[v], v == 9 ? 0 : v == 1 ? 1 : SL_NONE);
    }
    assert_int_equal(seed_frontier(1, order, 2, &all), 1);
    assert_int_equal(seed_frontier(0, NULL, 1, &all), 0);
    for (uint32_t v = 0; v < 10; v++) {
        assert_int_equal(row_of[v], SL_NONE);
    }
}

/* ---- counts ---- */

/* Rows of L + 1 levels, edges of L hops, L x (G + 1) positions and, at an even place, a number of two elements fill
 * a counts vector, each in a place of its own. */
TEST(test_counts_layout)
{
    const uint32_t shapes[][2] = {{1, 1}, {3, 1}, {2, 5}, {4, 7}};
    for (int s = 0; s < 4; s++) {
        uint32_t n_hops = shapes[s][0];
        uint32_t n_parts = shapes[s][1];
        uint32_t n = sl_counts_size(n_hops, n_parts);
        FREED uint8_t *taken = need(n, 1);
        uint32_t n_before = 2 * n_hops + 2 + n_hops * (n_parts + 1);
        assert_int_equal(n, n_before + n_before % 2 + 2);
        assert_int_equal(sl_counts_nonzeros(n_hops, n_parts) % 2, 0);
        taken[sl_counts_nonzeros(n_hops, n_parts)]++;
        taken[sl_counts_nonzeros(n_hops, n_parts) + 1]++;
        taken[n_before] += n_before % 2; /* left free */
        taken[sl_counts_rows(n_hops)]++;
        taken[sl_counts_stop(n_hops)]++;
        for (uint32_t hop = 0; hop < n_hops; hop++) {
            taken[sl_counts_rows(hop)]++;
            taken[sl_counts_edges(n_hops, hop)]++;
            for (uint32_t q = 0; q <= n_parts; q++) {
                taken[sl_counts_request(n_hops, n_parts, hop) + q]++;
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(taken[i], 1);
        }
    }
}

/* ---- tasks ---- */

#define HOPS 3
#define SPARE 3 /* rows that a block has room for beyond the frontier's */

/* A task's block is the kernel's, and nothing else is counted. */
static void check_sample_of(bool transposed, const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                            uint32_t hop, uint32_t n_rows, const sl_vertex *frontier)
{
    const uint32_t n_counts = sl_counts_size(HOPS, part->n_parts), n_head = part->n_parts + 1;
    const uint32_t n_vertices = part->first[part->n_parts];
    FREED uint32_t *counts = need(n_counts, sizeof *counts);
    struct sl_task_args here = head;
    OWNED(free_block) struct group_block wanted;
    here.hop = hop;
    sample_block(part, rule, SEED, here.step, hop, n_rows, frontier, &wanted);
    const uint32_t room = wanted.n_edges + 1;
    OWNED(free_block)
    struct group_block got =
        make_block(n_rows + SPARE, room, n_vertices, part->n_parts, part->weights != NULL, part->relations != NULL);
    if (!transposed) {
        without_transpose(&got);
    }
    OWNED(close_phase) struct phase phase; /* before the memory of `got` goes */
    open_phase(part, HOPS, rule->fanout, N_RELATIONS, &phase);
    const struct sl_block block = phase_block(&phase, &got, n_rows + SPARE, room, n_vertices);
    memcpy(phase.ids, frontier, n_rows * sizeof *frontier);
    for (uint32_t i = 0; i < n_counts; i++) {
        counts[i] = 1000 + i;
    }
    counts[sl_counts_rows(hop)] = n_rows;
    memcpy(phase.counts, counts, n_counts * sizeof *counts);
    expect_ok(sl_sample_submit(&here, &phase.part, rule, SEED, &phase.frontier, &phase.marks, &block));
    starpu_task_wait_for_all();
    expect_no_failure();
    bring_home(phase.n, phase.all);
    counts[sl_counts_edges(HOPS, hop)] = wanted.n_edges;
    memcpy(counts + sl_counts_request(HOPS, part->n_parts, hop), wanted.request, n_head * sizeof *counts);
    expect_same("counts", n_counts, 4, phase.counts, counts);
    expect_same_block(&got, &wanted, n_rows);
}

static void check_sample(const struct sl_sample_part *part, const struct sl_sample_rule *rule, uint32_t hop,
                         uint32_t n_rows, const sl_vertex *frontier)
{
    struct sl_sample_part plain = *part; /* its edges carry nothing: a GPU draws, reads and marks them in one launch */
    plain.weights = NULL;
    plain.relations = NULL;
    check_sample_of(true, part, rule, hop, n_rows, frontier);
    check_sample_of(false, part, rule, hop, n_rows, frontier);
    if (rule->method == SL_SAMPLE_NEIGHBOR && part->fanouts == NULL) {
        check_sample_of(true, &plain, rule, hop, n_rows, frontier);
        check_sample_of(false, &plain, rule, hop, n_rows, frontier);
    }
}

/* All rules for each part, whose every other vertex is in the frontier, the last id first; of part 1 none is. */
static void check_parts(const struct sl_partition *partition)
{
    for (uint32_t p = 0; p < partition->n_parts; p++) {
        struct sl_sample_part part = part_of(partition, p);
        uint32_t n_rows = (part.first[p + 1] - part.first[p]) / 2;
        FREED sl_vertex *frontier = need(n_rows, sizeof *frontier);
        for (uint32_t d = 0; d < n_rows; d++) {
            frontier[d] = part.first[p + 1] - 1 - 2 * d;
        }
        for (int kind = 0; kind < N_RULES; kind++) {
            struct sl_sample_rule rules[HOPS];
            uint32_t hop = (p + (uint32_t)kind) % HOPS;
            make_rules(kind, rules);
            check_sample(&part, &rules[hop], hop, p == 1 ? 0 : n_rows, frontier);
        }
    }
}

TEST(test_tasks)
{
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        FIXTURE(worker_counts[graph % N_WORKER_COUNTS]);
        struct graph_shape shape = {.kind = graph,
                                    .n_vertices = 128 + (uint32_t)graph,
                                    .directed = graph == GRAPH_POWER_LAW,
                                    .weighted = true,
                                    .n_relations = graph == GRAPH_TWO_CLIQUES ? 3 : 0};
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        if (graph % N_WORKER_COUNTS == 0) {
            fixture_watch();
        }
        make_dataset(&shape, &dataset);
        for (int split = SPLIT_RANDOM; split < N_SPLITS; split++) {
            OWNED(sl_partition_free) struct sl_partition partition;
            make_split_of(&dataset, split, 1 + 2 * (uint32_t)split, &partition); /* the last kind has empty parts */
            check_parts(&partition);
        }
    }
}

/* Runs of a hub that blocks draw, runs that warps draw, and runs that are taken whole; no destinations. */
TEST(test_tasks_by_relation)
{
    FIXTURE(1);
    sl_vertex frontier[100];
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&typed_shape, &dataset);
    OWNED(sl_partition_free) struct sl_partition partition = one_part(&dataset.graph);
    struct sl_sample_part part = part_of(&partition, 0);
    for (uint32_t d = 0; d < 100; d++) {
        frontier[d] = HUB + d * 79 % 8000;
    }
    for (size_t i = 0; i < 2 * N_RELATION_RULES; i++) {
        part.fanouts = relation_fanouts[i % 2];
        check_sample(&part, &relation_rules[i / 2], 1, 100, frontier);
        check_sample(&part, &relation_rules[i / 2], 1, 0, frontier);
    }
}

/* Fanouts and lists on both sides of what the kernels keep where it is fast; three destinations with the same list,
 * and one without. */
static void check_fan(const struct sl_partition *fan, uint32_t degree, uint32_t fanout, const sl_vertex *dataset_ids)
{
    const sl_vertex frontier[] = {degree + 1, degree, 0, degree + 2};
    struct sl_sample_part part = part_of(fan, 0);
    part.dataset_ids = dataset_ids;
    for (int kind = 0; kind < N_RULES; kind++) {
        struct sl_sample_rule rules[HOPS];
        make_rules(kind, rules);
        rules[2].fanout = fanout;
        if (rules[2].method != SL_SAMPLE_FULL || fanout == degree - 1) { /* full knows none */
            check_sample(&part, &rules[2], 2, 4, frontier);
        }
    }
}

TEST(test_tasks_many_neighbours)
{
    FIXTURE(1);
    const uint32_t degrees[] = {33, 127, 128, 129, 511, 512, 1024, 1025, 13000};
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        const uint32_t fanouts[] = {degrees[i] - 1, degrees[i], 10, 32, 33, degrees[i] + 1};
        const size_t n_fanouts = degrees[i] == 13000 ? 1 : sizeof fanouts / sizeof fanouts[0];
        OWNED(sl_partition_free) struct sl_partition fan = make_fan(degrees[i], 2);
        for (size_t j = 0; j < n_fanouts; j++) {
            check_fan(&fan, degrees[i], fanouts[j], fan.dataset_ids);
        }
    }
}

/* Vertices of one dataset id, which no graph has, have equal keys: the first in the list are picked. */
TEST(test_tasks_equal_keys)
{
    FIXTURE(1);
    const uint32_t degrees[] = {40, 700};
    for (int i = 0; i < 2; i++) {
        for (uint32_t n_ids = 1; n_ids < 20; n_ids += 9) {
            OWNED(sl_partition_free) struct sl_partition fan = make_fan(degrees[i], 2);
            FREED sl_vertex *dataset_ids = need(degrees[i] + 3, sizeof *dataset_ids);
            for (uint32_t v = 0; v < degrees[i] + 3; v++) {
                dataset_ids[v] = v * 7 % n_ids;
            }
            for (uint32_t fanout = 1; fanout < degrees[i]; fanout += degrees[i] / 3) {
                check_fan(&fan, degrees[i], fanout, dataset_ids);
            }
        }
    }
}

/* Batches of an order one after the other, each of which must find the index as the last one left it. */
TEST(test_seed_tasks)
{
    FIXTURE(1);
    enum { FIRST = 300, END = 900 };
    const uint32_t batches[] = {700, 0, 1, 256, 43};
    sl_vertex order[1000], frontier[END - FIRST];
    uint32_t counts[16] = {0}, begin = 0;
    FREED char *index = need(sl_index_bytes(END - FIRST), 1);
    FREED uint32_t *row_of = need(END - FIRST, sizeof *row_of);
    struct sl_task_args here = head;
    for (uint32_t i = 0; i < 1000; i++) {
        order[i] = (i * 337 + 5) % 1000;
    }
    memset(index, 0xff, sizeof *row_of * (END - FIRST));
    here = head;
    here.hop = 0;
    for (int b = 0; b < 5; b++) {
        starpu_data_handle_t h[] = {vector_of(order, 1000, 4), vector_of(frontier, END - FIRST, 4),
                                    vector_of(index, (uint32_t)sl_index_bytes(END - FIRST), 1),
                                    vector_of(counts, sl_counts_size(1, 1), 4)};
        const struct sl_frontier_handles all = {
            .ids = h[1], .index = h[2], .counts = h[3], .n_hops = 1, .first = FIRST, .end = END};
        run.stop_wanted = b % 2 == 1;
        assert_int_equal(sl_seed_submit(&here, h[0], 1, 1001, &all), SL_EINTERNAL);
        expect_message(sl_message(), "sl_seed", "'order': rows 1 to 1001; expected at most 1000");
        assert_int_equal(sl_seed_submit(&here, h[0], 1, 0, &all), SL_EINTERNAL);
        expect_ok(sl_seed_submit(&here, h[0], begin, begin + batches[b], &all));
        UNREGISTER(h);
        expect_no_failure();
        uint32_t n = 0;
        memset(row_of, 0xff, sizeof *row_of * (END - FIRST));
        for (uint32_t i = begin; i < begin + batches[b]; i++) {
            if (order[i] >= FIRST && order[i] < END) {
                assert_int_equal(frontier[n], order[i]);
                row_of[order[i] - FIRST] = n++;
            }
        }
        assert_int_equal(counts[sl_counts_rows(0)], n);
        assert_int_equal(counts[sl_counts_stop(1)] != 0, b % 2 == 1);
        expect_same("row of", END - FIRST, 4, index, row_of);
        counts[sl_counts_rows(1)] = n; /* no hop adds a row */
        begin += batches[b];
    }
}

TEST_MAIN(NULL, NULL)
