/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sampling/importance.h: bounds and costs against the definitions, which edges are drawn and how often,
 * unbiased sums, fewer vertices with more rounds, every partition, and the submissions. */
#include "tests/support/importance_fixture.h"

#include "codelets/sums/aggregate.h"
#include "support/minmax.h"
#include "tests/support/phase_fixture.h"

#define SEED 4242
#define N_RELATIONS 3

static const uint32_t part_counts[] = {1, 2, 3, 4, 8};
#define N_PART_COUNTS (sizeof part_counts / sizeof part_counts[0])

static const struct graph_shape power_law = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 900, .hub_degree = 700, .self_loops = true, .directed = true, .seed = 21};

static struct hop_shape shape_of(uint32_t fanout, uint32_t n_rounds)
{
    return (struct hop_shape){.fanout = fanout, .n_rounds = n_rounds, .seed = SEED, .normalised = true};
}

/* Weighted LABOR. */
static struct hop_shape by_weight(uint32_t fanout, uint32_t n_rounds)
{
    return (struct hop_shape){.fanout = fanout, .n_rounds = n_rounds, .seed = SEED, .by_weight = true};
}

static struct hop_shape converging(uint32_t fanout)
{
    struct hop_shape shape = shape_of(fanout, SL_IMPORTANCE_ROUNDS);
    shape.converges = true;
    return shape;
}

/* Every `step`-th vertex. Returns how many. */
static uint32_t list_seeds(uint32_t n_vertices, uint32_t step, sl_vertex *seeds_out)
{
    uint32_t n = 0;
    for (sl_vertex v = 0; v < n_vertices; v += step) {
        seeds_out[n++] = v;
    }
    return n;
}

/* ---- bounds and costs ---- */

/* A plain reference: importances and bounds of destinations `seeds` in double, each bound by bisection. */
struct plain {
    const struct sl_graph *graph;
    bool weighted; /* weighted LABOR; otherwise each weight is 1 */
    uint32_t n_seeds, k;
    const sl_vertex *seeds;
    double *importance; /* by vertex */
    double *bound;      /* by seed */
};

static double weight_of(const struct plain *plain, uint64_t e)
{
    return plain->weighted ? (double)plain->graph->weights[e] : 1;
}

/* Sum, and sum of squares, of the weights of v's in-edges. */
static void sum_plain(const struct plain *plain, sl_vertex v, double *sum_out, double *squares_out)
{
    *sum_out = *squares_out = 0;
    for (uint64_t e = plain->graph->offsets[v]; e < plain->graph->offsets[v + 1]; e++) {
        *sum_out += weight_of(plain, e);
        *squares_out += weight_of(plain, e) * weight_of(plain, e);
    }
}

static double sum_of_inverses(const struct plain *plain, sl_vertex v, double bound)
{
    double sum = 0;
    for (uint64_t e = plain->graph->offsets[v]; e < plain->graph->offsets[v + 1]; e++) {
        const double w = weight_of(plain, e);
        sum += w > 0 ? w * w / fmin(1, bound * plain->importance[plain->graph->sources[e]]) : 0;
    }
    return sum;
}

static double target_of(const struct plain *plain, sl_vertex v)
{
    const double degree = (double)(plain->graph->offsets[v + 1] - plain->graph->offsets[v]);
    double sum, squares;
    sum_plain(plain, v, &sum, &squares);
    return degree <= plain->k ? squares : sum * sum * (1.0 / plain->k - 1 / degree) + squares;
}

static double bisect(const struct plain *plain, sl_vertex v)
{
    const double target = target_of(plain, v);
    double low = 1e-12;
    double high = 1e12;
    for (int i = 0; i < 200; i++) {
        const double middle = sqrt(low * high);
        if (sum_of_inverses(plain, v, middle) > target) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* One round after the bounds are known: each source takes the largest bound of its destinations, in the first round
 * times the edge's weight. Returns the expected number of distinct sources with the old importances. */
static double raise_plain(const struct plain *plain, bool begins)
{
    const struct sl_graph *graph = plain->graph;
    FREED double *most = need(graph->n_vertices, sizeof *most);
    double expected = 0;
    for (uint32_t i = 0; i < plain->n_seeds; i++) {
        const sl_vertex v = plain->seeds[i];
        const bool whole = graph->offsets[v + 1] - graph->offsets[v] <= plain->k;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            const double w = weight_of(plain, e);
            const double asked = whole ? 1 : plain->bound[i] * (begins ? w : 1);
            most[graph->sources[e]] = fmax(most[graph->sources[e]], w > 0 ? asked : 0);
        }
    }
    for (sl_vertex t = 0; t < graph->n_vertices; t++) {
        plain->importance[t] = begins ? most[t] : plain->importance[t] * most[t];
        expected += fmin(1, plain->importance[t]);
    }
    return expected;
}

/* The rounds that the reference takes until it converges. */
static uint32_t run_plain(const struct plain *plain, uint32_t n_rounds, bool converges)
{
    double before = INFINITY;
    for (sl_vertex t = 0; t < plain->graph->n_vertices; t++) {
        plain->importance[t] = 1;
    }
    for (uint32_t i = 0; i < plain->n_seeds; i++) {
        double sum, squares;
        sum_plain(plain, plain->seeds[i], &sum, &squares);
        plain->bound[i] = sum > 0 ? plain->k / sum : 0;
    }
    for (uint32_t round = 0; round < n_rounds; round++) {
        const double now = raise_plain(plain, round == 0);
        for (uint32_t i = 0; i < plain->n_seeds; i++) {
            plain->bound[i] = bisect(plain, plain->seeds[i]);
        }
        if (converges && round > 0 && now >= (1 - SL_IMPORTANCE_TOLERANCE) * before) {
            return round + 1;
        }
        before = now;
    }
    return n_rounds;
}

/* Probabilities are those of the reference, and each destination's solve its equation: the variance of k draws without
 * replacement. */
static void expect_bounds(const struct sl_graph *graph, const struct hop_shape *shape)
{
    const double tolerance = shape->by_weight ? 5e-5 : 2e-5;
    OWNED(sl_partition_free) struct sl_partition partition = one_part(graph);
    FREED sl_vertex *seeds = need(graph->n_vertices, sizeof *seeds);
    FREED double *importance = need(graph->n_vertices, sizeof *importance);
    FREED double *bound = need(graph->n_vertices, sizeof *bound);
    const struct plain plain = {.graph = graph,
                                .weighted = shape->by_weight,
                                .n_seeds = list_seeds(graph->n_vertices, 2, seeds),
                                .k = shape->fanout,
                                .seeds = seeds,
                                .importance = importance,
                                .bound = bound};
    OWNED(hop_free) struct hop hop;
    const uint32_t n_rounds = run_plain(&plain, shape->n_rounds, shape->converges);
    hop_open(&partition, shape, plain.n_seeds, seeds, &hop);
    hop.weighted = shape->by_weight;
    hop_bounds(&hop);
    if (shape->converges) {
        assert_true(n_rounds > 2 && n_rounds < SL_IMPORTANCE_ROUNDS);
        assert_int_equal(*hop.pe[0].state, SL_SOLVE_ENDED);
    }
    for (uint32_t i = 0; i < plain.n_seeds; i++) {
        const sl_vertex v = seeds[i];
        const double wanted = target_of(&plain, v);
        double sum = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            const double w = weight_of(&plain, e);
            if (w > 0) {
                const double p = fmin(1, bound[i] * importance[graph->sources[e]]);
                const double inverse = sl_importance_inverse(hop.pe[0].bounds[i], cost_of(&hop, 0, graph->sources[e]));
                expect_near_at("1 / p of an edge", e, inverse, 1 / p, tolerance / p);
                sum += w * w * inverse;
            }
        }
        expect_near_at("sum of A^2 / p", v, sum, wanted, (shape->by_weight ? 2e-6 : 1e-6) * wanted);
    }
}

TEST(test_bounds)
{
    struct graph_shape of = power_law;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    of.weighted = true;
    make_dataset(&of, &dataset);
    for (uint32_t n_rounds = 0; n_rounds <= 5; n_rounds++) {
        const struct hop_shape shapes[] = {shape_of(3, n_rounds), shape_of(40, n_rounds), by_weight(3, n_rounds),
                                           by_weight(40, n_rounds)};
        for (int i = 0; i < (n_rounds == 0 || n_rounds == 5 ? 2 : 4); i++) {
            expect_bounds(&dataset.graph, &shapes[i]);
        }
    }
    struct hop_shape all = converging(3);
    expect_bounds(&dataset.graph, &all);
}

/* ---- frequencies and sums ---- */

#define DRAWS 4000

/* Estimates of sums over many draws. */
struct moments {
    double sum, squares;
};

/* What a source's row is in a sum. */
static double row_of(sl_vertex t)
{
    return sin(1.7 * t) + 0.5;
}

/* The mean over a destination's block as aggregate computes it, times `factor`. row: NULL: all rows are 1. */
static double estimate_of(const struct hop *hop, uint32_t d, double factor, double (*row)(sl_vertex))
{
    const struct group_block *b = &hop->pe[0].block;
    uint32_t n = b->edge_offsets[d + 1] - b->edge_offsets[d];
    double sum = 0;
    for (uint32_t e = b->edge_offsets[d]; e < b->edge_offsets[d + 1]; e++) {
        sum += b->edge_weights[e] * (row == NULL ? 1 : row(source_id(b, b->edge_sources[e])));
    }
    return n == 0 ? 0 : factor * sum / n;
}

/* Draw many times and see that the estimates have the exact value as their mean. A sum that is not normalised has no
 * bias. A normalised mean has a bias of order 1 / k, and gives constants exactly. */
static void expect_unbiased(const struct sl_dataset *dataset, const struct hop_shape *shape, uint32_t *n_checked)
{
    const struct sl_graph *graph = &dataset->graph;
    OWNED(sl_partition_free) struct sl_partition partition;
    FREED sl_vertex *seeds = need(graph->n_vertices, sizeof *seeds);
    uint32_t n_seeds = list_seeds(graph->n_vertices, 9, seeds);
    FREED struct moments *moments = need(n_seeds, sizeof *moments);
    OWNED(hop_free) struct hop hop;
    partition = one_part(graph);
    hop_open(&partition, shape, n_seeds, seeds, &hop);
    hop_bounds(&hop);
    for (uint64_t step = 0; step < DRAWS; step++) {
        hop_draw(&hop, step);
        for (uint32_t d = 0; d < n_seeds; d++) {
            uint32_t n = hop.pe[0].block.edge_offsets[d + 1] - hop.pe[0].block.edge_offsets[d];
            double x = estimate_of(&hop, d, 1, row_of);
            moments[d].sum += x;
            moments[d].squares += x * x;
            if (shape->normalised && n > 0) {
                expect_near_at("the mean of ones", d, estimate_of(&hop, d, 1, NULL), 1, 1e-5);
            }
        }
    }
    for (uint32_t d = 0; d < n_seeds; d++) {
        uint64_t begin = graph->offsets[seeds[d]];
        uint64_t end = graph->offsets[seeds[d] + 1];
        double exact = 0;
        double bias = 0;
        for (uint64_t e = begin; e < end; e++) {
            exact += row_of(graph->sources[e]) / (double)(end - begin);
        }
        for (uint64_t e = begin; e < end && shape->normalised; e++) {
            double inverse = sl_importance_inverse(hop.pe[0].bounds[d], cost_of(&hop, 0, graph->sources[e]));
            double share = (inverse - 1) / ((double)(end - begin) * (double)(end - begin));
            bias += fabs(row_of(graph->sources[e]) - exact) * share;
        }
        double mean = moments[d].sum / DRAWS;
        double variance = moments[d].squares / DRAWS - mean * mean;
        expect_near_at("the mean of the estimates", seeds[d], mean, exact,
                       5 * sqrt(fmax(variance, 0) / DRAWS) + bias + 1e-6);
        *n_checked += variance > 1e-6;
    }
}

TEST(test_sums_are_unbiased)
{
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    uint32_t n_checked = 0;
    make_dataset(&power_law, &dataset);
    for (uint32_t n_rounds = 0; n_rounds <= 2; n_rounds++) {
        struct hop_shape shape = shape_of(4, n_rounds);
        shape.normalised = false;
        expect_unbiased(&dataset, &shape, &n_checked);
        shape.kappa = 3;
        expect_unbiased(&dataset, &shape, &n_checked);
    }
    struct hop_shape mean = shape_of(12, 2);
    expect_unbiased(&dataset, &mean, &n_checked);
    struct hop_shape all = converging(4);
    all.normalised = false;
    expect_unbiased(&dataset, &all, &n_checked);
    assert_true(n_checked > 100);
}

/* Draws of a hop, with weights as factors: the mean of each destination's estimates, their variance, and the mean
 * number of its edges. */
struct tried {
    double mean, variance, n_edges;
    double n_sources; /* of the first: distinct sources of all */
};

static struct tried *try_weighted(const struct sl_dataset *dataset, struct hop_shape shape, uint32_t n_seeds,
                                  const sl_vertex *seeds)
{
    struct tried *tried = need(n_seeds, sizeof *tried);
    OWNED(sl_partition_free) struct sl_partition partition;
    OWNED(hop_free) struct hop hop;
    partition = one_part(&dataset->graph);
    hop_open(&partition, &shape, n_seeds, seeds, &hop);
    hop.weighted = true;
    hop_bounds(&hop);
    for (uint64_t step = 0; step < DRAWS; step++) {
        hop_draw(&hop, step);
        tried->n_sources += hop.pe[0].block.n_sources / (double)DRAWS;
        for (uint32_t d = 0; d < n_seeds; d++) {
            double x = estimate_of(&hop, d, 1, row_of);
            tried[d].mean += x / DRAWS;
            tried[d].variance += x * x / DRAWS;
            tried[d].n_edges += (hop.pe[0].block.edge_offsets[d + 1] - hop.pe[0].block.edge_offsets[d]) / (double)DRAWS;
        }
    }
    for (uint32_t d = 0; d < n_seeds; d++) {
        tried[d].variance = fmax(0, tried[d].variance - tried[d].mean * tried[d].mean);
    }
    return tried;
}

/* Weighted LABOR: an edge is drawn with probability min(1, k A / sum of A), all edges with a weight are if there are k
 * in-neighbours or fewer, and sums of weighted rows have no bias. They vary less than those of LABOR-0. */
static void expect_weighted(uint32_t k, uint32_t kappa, double *variance_out)
{
    struct graph_shape of = power_law;
    struct hop_shape weighted = by_weight(k, 0);
    struct hop_shape plain = shape_of(k, 0);
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    sl_vertex seeds[900];
    uint32_t n_varying = 0;
    of.weighted = true;
    weighted.kappa = kappa;
    plain.normalised = false;
    make_dataset(&of, &dataset);
    const struct sl_graph *graph = &dataset.graph;
    const uint32_t n_seeds = list_seeds(900, 9, seeds);
    FREED struct tried *tried = try_weighted(&dataset, weighted, n_seeds, seeds);
    FREED struct tried *beside = try_weighted(&dataset, plain, n_seeds, seeds);
    for (uint32_t d = 0; d < n_seeds; d++) {
        const uint64_t begin = graph->offsets[seeds[d]];
        const uint64_t end = graph->offsets[seeds[d] + 1];
        const float *weights = graph->weights;
        double sum = 0, exact = 0, n_edges = 0;
        for (uint64_t e = begin; e < end; e++) {
            sum += weights[e];
            exact += weights[e] * row_of(graph->sources[e]) / (double)(end - begin);
        }
        for (uint64_t e = begin; e < end; e++) {
            n_edges += end - begin > k ? fmin(1, k * weights[e] / sum) : weights[e] > 0;
        }
        expect_near_at("edges", seeds[d], tried[d].n_edges, n_edges, 5 * sqrt(n_edges / DRAWS) + 1e-6);
        expect_near_at("the mean of the estimates", seeds[d], tried[d].mean, exact,
                       5 * sqrt(tried[d].variance / DRAWS) + 1e-6);
        n_varying += tried[d].variance > 1e-6;
        variance_out[0] += tried[d].variance;
        variance_out[1] += beside[d].variance;
    }
    assert_true(n_varying > 5);
}

TEST(test_weighted)
{
    double variance[2] = {0};
    expect_weighted(4, 1, variance);
    expect_weighted(9, 3, variance);
    print_message("variance %g, of LABOR-0 %g\n", variance[0], variance[1]);
    assert_true(variance[0] < 0.8 * variance[1]);
}

/* Sums of weighted rows have no bias after rounds, edges without a weight are not drawn, and each round reaches fewer
 * sources. */
TEST(test_weighted_rounds)
{
    struct graph_shape of = power_law;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    sl_vertex seeds[900];
    double n_sources = INFINITY;
    uint32_t n_varying = 0;
    of.weighted = true;
    make_dataset(&of, &dataset);
    const struct sl_graph *graph = &dataset.graph;
    const uint32_t n_seeds = list_seeds(900, 9, seeds);
    for (uint32_t n_rounds = 0; n_rounds <= 3; n_rounds++) {
        struct hop_shape shape = by_weight(4, n_rounds);
        shape.kappa = n_rounds;
        FREED struct tried *tried = try_weighted(&dataset, shape, n_seeds, seeds);
        for (uint32_t d = 0; d < n_seeds; d++) {
            const uint64_t begin = graph->offsets[seeds[d]];
            const uint64_t end = graph->offsets[seeds[d] + 1];
            double exact = 0;
            double n_weighted = 0;
            for (uint64_t e = begin; e < end; e++) {
                exact += graph->weights[e] * row_of(graph->sources[e]) / (double)(end - begin);
                n_weighted += graph->weights[e] > 0;
            }
            expect_near_at("the mean of the estimates", seeds[d], tried[d].mean, exact,
                           6 * sqrt(tried[d].variance / DRAWS) + 1e-6);
            assert_true(tried[d].n_edges <= n_weighted + 1e-6);
            n_varying += tried[d].variance > 1e-6;
        }
        print_message("%u rounds: %g sources\n", n_rounds, tried->n_sources);
        assert_true(tried->n_sources < n_sources);
        n_sources = tried->n_sources;
    }
    assert_true(n_varying > 20);
}

/* Destinations that have the same in-neighbours draw the same sources: the hub and its twin. */
TEST(test_equal_lists_share)
{
    OWNED(free_edges) struct edge_list edges = {.n_vertices = 52};
    OWNED(sl_graph_free) struct sl_graph graph;
    OWNED(sl_partition_free) struct sl_partition partition;
    struct hop_shape shape = shape_of(5, 2);
    const sl_vertex seeds[2] = {50, 51};
    OWNED(hop_free) struct hop hop;
    for (sl_vertex t = 0; t < 50; t++) {
        add_edge(&edges, t, 50);
        add_edge(&edges, t, 51);
    }
    expect_ok(sl_graph_build(edges.n_vertices, edges.n, edges.from, edges.to, NULL, false, &graph));
    partition = one_part(&graph);
    hop_sample(&partition, &shape, 2, seeds, &hop);
    const struct group_block *b = &hop.pe[0].block;
    assert_true(b->n_edges > 0);
    assert_int_equal(b->n_edges, 2 * b->n_sources);
}

/* ---- fewer vertices ---- */

struct sizes {
    double vertices, edges;
};

/* Distinct sources and edges of one hop, averaged over steps. n_rounds < 0: codelets/sampling/sample.h's method. */
static struct sizes count_sizes(const struct sl_partition *partition, const struct hop_shape *shape,
                                enum sl_sample_method method, uint32_t n_seeds, const sl_vertex *seeds)
{
    enum { STEPS = 20 };
    struct sizes sizes = {0, 0};
    struct hop hop;
    hop_open(partition, shape, n_seeds, seeds, &hop);
    hop_bounds(&hop);
    for (uint64_t step = 0; step < STEPS; step++) {
        if (method == SL_SAMPLE_FULL) {
            hop_draw(&hop, step);
            sizes.vertices += hop.pe[0].block.n_sources;
            sizes.edges += hop.pe[0].n_edges;
        } else {
            struct sl_sample_part part = part_of(partition, 0);
            struct sl_sample_rule rule = {.method = method, .fanout = shape->fanout, .kappa = 1};
            OWNED(free_block) struct group_block block;
            sample_block(&part, &rule, SEED, step, 0, n_seeds, hop.pe[0].frontier, &block);
            sizes.vertices += block.n_sources;
            sizes.edges += block.n_edges;
        }
    }
    hop_free(&hop);
    return (struct sizes){sizes.vertices / STEPS, sizes.edges / STEPS};
}

/* Neighbor, LABOR-0, LABOR-1, LABOR-2 and LABOR-* of one graph. */
static void list_sizes(const struct sl_graph *graph, uint32_t k, uint32_t seed_step, struct sizes out[5])
{
    OWNED(sl_partition_free) struct sl_partition partition;
    FREED sl_vertex *seeds = need(graph->n_vertices, sizeof *seeds);
    uint32_t n_seeds = list_seeds(graph->n_vertices, seed_step, seeds);
    const struct hop_shape one = shape_of(k, 1);
    const struct hop_shape two = shape_of(k, 2);
    const struct hop_shape all = converging(k);
    partition = one_part(graph);
    out[0] = count_sizes(&partition, &one, SL_SAMPLE_NEIGHBOR, n_seeds, seeds);
    out[1] = count_sizes(&partition, &one, SL_SAMPLE_LABOR, n_seeds, seeds);
    out[2] = count_sizes(&partition, &one, SL_SAMPLE_FULL, n_seeds, seeds);
    out[3] = count_sizes(&partition, &two, SL_SAMPLE_FULL, n_seeds, seeds);
    out[4] = count_sizes(&partition, &all, SL_SAMPLE_FULL, n_seeds, seeds);
}

TEST(test_more_rounds_fewer_vertices)
{
    static const struct graph_shape shapes[] = {
        {.kind = GRAPH_POWER_LAW, .n_vertices = 2000, .hub_degree = 1500, .seed = 5},
        {.kind = GRAPH_TWO_CLIQUES, .n_vertices = 200, .seed = 6},
        {.kind = GRAPH_POWER_LAW, .n_vertices = 600, .self_loops = true, .hub_degree = 400, .seed = 7}};
    for (size_t g = 0; g < sizeof shapes / sizeof *shapes; g++) {
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        struct sizes sizes[5];
        make_dataset(&shapes[g], &dataset);
        list_sizes(&dataset.graph, 3, 5, sizes);
        for (int i = 0; i + 1 < 5; i++) { /* cliques: every source is like every other, so all rounds are equal */
            if (!(sizes[i].vertices >= 0.995 * sizes[i + 1].vertices)) {
                fail_msg("graph %zu: method %d reaches %g vertices, the next %g", g, i, sizes[i].vertices,
                         sizes[i + 1].vertices);
            }
        }
        assert_true(sizes[0].vertices > 1.05 * sizes[4].vertices);
    }
}

/* 4,000 vertices, and 400 seeds with fanout 10: neighbor, LABOR-0, LABOR-1, LABOR-2, LABOR-*. The figures were measured
 * with another implementation on another graph with skewed degrees, so they agree only roughly. */
TEST(test_toy_figures)
{
    enum { N = 4000, EDGES = 160000 };
    static const double vertices[5] = {2040, 1156, 914, 882, 821};
    static const double n_edges[5] = {3924, 3806, 5837, 6892, 8642};
    const struct graph_shape shape = {.seed = 3};
    OWNED(free_edges) struct edge_list edges = {.n_vertices = N};
    OWNED(sl_graph_free) struct sl_graph graph;
    struct sizes sizes[5];
    for (uint32_t i = 0; i < EDGES; i++) { /* an end is vertex v with a probability of about (v + 1)^-0.8 */
        sl_vertex ends[2];
        for (uint32_t j = 0; j < 2; j++) {
            double root = 1 + graph_unit(&shape, 1, i, j) * (pow(N + 1, 0.2) - 1);
            ends[j] = (sl_vertex)fmin(pow(root, 5) - 1, N - 1);
        }
        add_edge(&edges, ends[0], ends[1]);
    }
    expect_ok(sl_graph_build(N, edges.n, edges.from, edges.to, NULL, true, &graph));
    list_sizes(&graph, 10, 10, sizes);
    for (int i = 0; i < 5; i++) {
        expect_near_at("distinct vertices", (size_t)i, sizes[i].vertices, vertices[i], 0.25 * vertices[i]);
        expect_near_at("edges", (size_t)i, sizes[i].edges, n_edges[i], 0.25 * n_edges[i]);
        assert_true(i == 0 || sizes[i].vertices < sizes[i - 1].vertices);
        assert_true(i < 2 || sizes[i].edges > sizes[i - 1].edges);
    }
}

/* ---- the partition is invisible ---- */

/* An edge with its weight, by dataset ids. */
struct known_edge {
    sl_vertex to, from;
    float weight;
};

static int compare_edges(const void *a, const void *b)
{
    const struct known_edge *x = a;
    const struct known_edge *y = b;
    if (x->to != y->to) {
        return x->to < y->to ? -1 : 1;
    }
    return (x->from > y->from) - (x->from < y->from);
}

/* The edges of all PEs, sorted; free() them. Checks that both layouts of each block have the same edges. */
static struct known_edge *list_edges(const struct hop *hop, uint32_t *n_out)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        n += hop->pe[p].n_edges;
    }
    struct known_edge *edges = need(n, sizeof *edges);
    struct known_edge *back = need(n, sizeof *back);
    uint32_t i = 0;
    uint32_t j = 0;
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        const struct group_block *b = &hop->pe[p].block;
        const sl_vertex *ids = hop->partition->dataset_ids;
        for (uint32_t d = 0; d < hop->pe[p].n_rows; d++) {
            for (uint32_t e = b->edge_offsets[d]; e < b->edge_offsets[d + 1]; e++) {
                edges[i++] = (struct known_edge){ids[hop->pe[p].frontier[d]], ids[source_id(b, b->edge_sources[e])],
                                                 b->edge_weights[e]};
            }
        }
        for (uint32_t t = 0; t < b->n_sources; t++) {
            for (uint32_t e = b->back_offsets[t]; e < b->back_offsets[t + 1]; e++) {
                back[j++] = (struct known_edge){ids[hop->pe[p].frontier[b->back_rows[e]]], ids[source_id(b, t)],
                                                b->back_weights[e]};
            }
        }
    }
    assert_int_equal(i, n);
    assert_int_equal(j, n);
    qsort(edges, n, sizeof *edges, compare_edges);
    qsort(back, n, sizeof *back, compare_edges);
    expect_same("edges by source", n, sizeof *edges, back, edges);
    free(back);
    *n_out = n;
    return edges;
}

static void expect_same_edges(const struct sl_dataset *dataset, const struct hop_shape *shape)
{
    FREED sl_vertex *seeds = need(dataset->graph.n_vertices, sizeof *seeds);
    uint32_t n_seeds = list_seeds(dataset->graph.n_vertices, 3, seeds);
    FREED struct known_edge *wanted = NULL;
    uint32_t n_wanted = 0;
    for (size_t i = 0; i < N_PART_COUNTS; i++) {
        for (int split = SPLIT_METIS; split < N_SPLITS; split++) {
            OWNED(sl_partition_free) struct sl_partition partition;
            OWNED(hop_free) struct hop hop;
            uint32_t n;
            make_split_of(dataset, split, part_counts[i], &partition);
            hop_open(&partition, shape, n_seeds, seeds, &hop);
            hop.weighted = dataset->graph.weights != NULL;
            hop_bounds(&hop);
            hop_draw(&hop, 17);
            struct known_edge *edges = list_edges(&hop, &n);
            if (wanted == NULL) {
                wanted = edges;
                n_wanted = n;
            } else {
                assert_int_equal(n, n_wanted);
                expect_same("edges", n, sizeof *edges, edges, wanted);
                free(edges);
            }
        }
    }
}

TEST(test_partition_is_invisible)
{
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape of = {.kind = graph, .n_vertices = 130 + graph, .hub_degree = 90, .weighted = true};
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        of.hub_degree = graph == GRAPH_POWER_LAW ? 90 : 0;
        make_dataset(&of, &dataset);
        for (uint32_t n_rounds = 0; n_rounds <= 3; n_rounds++) {
            struct hop_shape shape = shape_of(2, n_rounds);
            shape.kappa = n_rounds;
            expect_same_edges(&dataset, &shape);
        }
        struct hop_shape all = converging(3);
        expect_same_edges(&dataset, &all);
        for (uint32_t n_rounds = 0; n_rounds <= 2; n_rounds++) {
            struct hop_shape weighted = by_weight(2, n_rounds);
            expect_same_edges(&dataset, &weighted);
        }
    }
}

/* ---- relations ---- */

static const uint32_t fanouts[N_RELATIONS] = {2, UINT32_MAX, 5};
static const uint32_t same_fanouts[N_RELATIONS] = {3, 3, 3};

/* A typed graph with weights. */
static struct graph_shape typed(uint32_t n_vertices)
{
    struct graph_shape of = power_law;
    of.n_vertices = n_vertices;
    of.hub_degree = n_vertices / 2;
    of.weighted = true;
    of.n_relations = N_RELATIONS;
    return of;
}

/* Each vertex v and relation r is a vertex n + R v + r of a plain graph, whose in-edges are v's of relation r. */
static void unroll(const struct sl_graph *graph, struct sl_graph *out)
{
    const uint32_t n = graph->n_vertices;
    OWNED(free_edges) struct edge_list edges = {.n_vertices = n * (N_RELATIONS + 1)};
    for (sl_vertex v = 0; v < n; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            add_edge(&edges, graph->sources[e], n + N_RELATIONS * v + graph->relations[e]);
        }
    }
    expect_ok(sl_graph_build(edges.n_vertices, edges.n, edges.from, edges.to, NULL, false, out));
    assert_int_equal(out->n_edges, graph->n_edges); /* both lists have the order of (v, r, source) */
    out->weights = need_owned(graph->n_edges, sizeof *out->weights);
    memcpy(out->weights, graph->weights, graph->n_edges * sizeof *out->weights);
}

/* Fanouts by relation draw as if each relation of a destination was a destination of its own, to the bit. Each edge has
 * its row. */
TEST(test_fanouts_by_relation)
{
    const struct graph_shape of = typed(300);
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_graph_free) struct sl_graph unrolled = {0};
    OWNED(sl_partition_free) struct sl_partition partition, plain_partition;
    FREED sl_vertex *seeds = need(of.n_vertices, sizeof *seeds);
    FREED sl_vertex *plain_seeds = need(of.n_vertices * N_RELATIONS, sizeof *plain_seeds);
    make_dataset(&of, &dataset);
    unroll(&dataset.graph, &unrolled);
    dataset.graph.rows = need_owned(dataset.graph.n_edges, sizeof *dataset.graph.rows);
    for (uint64_t e = 0; e < dataset.graph.n_edges; e++) {
        dataset.graph.rows[e] = N_RELATIONS * dataset.graph.sources[e] + dataset.graph.relations[e];
    }
    partition = one_part(&dataset.graph);
    plain_partition = one_part(&unrolled);
    const uint32_t n_seeds = list_seeds(of.n_vertices, 2, seeds);
    for (uint32_t i = 0; i < n_seeds * N_RELATIONS; i++) {
        plain_seeds[i] = of.n_vertices + N_RELATIONS * seeds[i / N_RELATIONS] + i % N_RELATIONS;
    }
    for (uint32_t kind = 0; kind < 7; kind++) {
        OWNED(hop_free) struct hop hop, plain;
        struct hop_shape shape = kind < 3 ? shape_of(3, kind) : by_weight(3, kind - 3);
        shape.normalised = kind < 2;
        hop_open(&plain_partition, &shape, n_seeds * N_RELATIONS, plain_seeds, &plain);
        shape.fanouts = same_fanouts;
        hop_open(&partition, &shape, n_seeds, seeds, &hop);
        hop.weighted = plain.weighted = kind > 0;
        hop_bounds(&hop);
        hop_bounds(&plain);
        hop_draw(&hop, 3);
        hop_draw(&plain, 3);
        const struct group_block *b = &hop.pe[0].block, *wanted = &plain.pe[0].block;
        assert_true(b->n_edges == wanted->n_edges && b->n_edges > n_seeds);
        expect_same("edge sources", b->n_edges, 4, b->edge_sources, wanted->edge_sources);
        expect_same("edge weights", b->n_edges, 4, b->edge_weights, wanted->edge_weights);
        for (uint32_t i = 0; i < n_seeds * N_RELATIONS; i++) {
            for (uint32_t e = wanted->edge_offsets[i]; e < wanted->edge_offsets[i + 1]; e++) {
                assert_int_equal(b->edge_relations[e], i % N_RELATIONS);
                assert_int_equal(b->edge_rows[e], N_RELATIONS * source_id(b, b->edge_sources[e]) + i % N_RELATIONS);
            }
            if (i % N_RELATIONS == 0) {
                assert_int_equal(b->edge_offsets[i / N_RELATIONS], wanted->edge_offsets[i]);
            }
        }
    }
}

/* The mean of each relation that codelets/sums/relate.h computes is right on average, and gives constants exactly if
 * weights are normalised. Each relation's bound solves the equation of its own fanout. */
TEST(test_means_by_relation)
{
    const struct graph_shape of = typed(120);
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    sl_vertex seeds[120];
    make_dataset(&of, &dataset);
    partition = one_part(&dataset.graph);
    const struct sl_graph *graph = &dataset.graph;
    const uint32_t n_seeds = list_seeds(of.n_vertices, 4, seeds);
    for (uint32_t kind = 0; kind < 6; kind++) {
        OWNED(hop_free) struct hop hop;
        struct moments moments[N_RELATIONS][120] = {0};
        struct hop_shape shape = kind < 4 ? shape_of(6, 2) : by_weight(6, kind % 2);
        shape.fanouts = kind % 2 == 0 ? fanouts : NULL;
        shape.normalised = kind >= 2 && kind < 4;
        hop_open(&partition, &shape, n_seeds, seeds, &hop);
        hop.weighted = kind >= 4;
        hop_bounds(&hop);
        for (uint64_t step = 0; step < DRAWS; step++) {
            hop_draw(&hop, step);
            const struct group_block *b = &hop.pe[0].block;
            for (uint32_t d = 0; d < n_seeds; d++) {
                struct sl_edge_run part = {0};
                for (uint32_t e = b->edge_offsets[d]; e < b->edge_offsets[d + 1]; e = part.end) {
                    double sum = 0;
                    double ones = 0;
                    part = sl_run_at(b->edge_relations, e, b->edge_offsets[d + 1]);
                    for (uint32_t i = e; i < part.end; i++) {
                        sum += b->edge_weights[i] * row_of(source_id(b, b->edge_sources[i]));
                        ones += b->edge_weights[i];
                    }
                    sum /= part.end - part.begin;
                    moments[part.relation][d].sum += sum;
                    moments[part.relation][d].squares += sum * sum;
                    assert_true(!shape.normalised || fabs(ones - (part.end - part.begin)) < 1e-4);
                }
            }
        }
        for (uint32_t d = 0; d < n_seeds && !shape.normalised; d++) {
            struct sl_edge_run part = {0};
            const struct sl_destinations to = destinations_of(&hop, 0);
            const struct sl_neighbours from = sl_neighbours_of(&to.part, seeds[d]);
            while (sl_next_relation(graph->relations, &from, &part)) {
                const double degree = part.end - part.begin;
                const float bound = hop.pe[0].bounds[sl_bound_place(&to.part, d, from.first + part.begin)];
                double exact = 0;
                double inverses = 0;
                for (uint64_t e = from.first + part.begin; e < from.first + part.end; e++) {
                    exact += (hop.weighted ? graph->weights[e] : 1) * row_of(graph->sources[e]) / degree;
                    inverses += kind == 0 ? sl_importance_inverse(bound, cost_of(&hop, 0, graph->sources[e])) : 0;
                }
                if (kind == 0) {
                    const double wanted = degree * fmax(1, degree / fanouts[part.relation]);
                    expect_near_at("sum of 1 / p of a relation", d, inverses, wanted, 1e-5 * wanted);
                }
                const struct moments *m = &moments[part.relation][d];
                const double mean = m->sum / DRAWS;
                const double variance = fmax(0, m->squares / DRAWS - mean * mean);
                expect_near_at("mean of a relation", d, mean, exact, 5.5 * sqrt(variance / DRAWS) + 1e-4);
            }
        }
    }
}

TEST(test_partition_of_relations_is_invisible)
{
    const struct graph_shape of = typed(150);
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&of, &dataset);
    for (uint32_t n_rounds = 0; n_rounds <= 2; n_rounds++) {
        struct hop_shape shapes[] = {shape_of(4, n_rounds), by_weight(4, n_rounds), shape_of(5, n_rounds),
                                     by_weight(5, n_rounds)};
        shapes[2].fanouts = shapes[3].fanouts = fanouts;
        for (int i = 0; i < 4; i++) {
            expect_same_edges(&dataset, &shapes[i]);
        }
    }
}

/* ---- excluded edges, adjoint, extremes ---- */

/* Edges u -> v of the table, as renumbered ids, are never drawn; the others are drawn as ever. */
TEST(test_excluded)
{
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    OWNED(hop_free) struct hop hop;
    sl_vertex seeds[900];
    uint64_t table[64];
    struct hop_shape shape = shape_of(4, 2);
    uint32_t n_all, n_left;
    make_dataset(&power_law, &dataset);
    partition = one_part(&dataset.graph);
    hop_sample(&partition, &shape, list_seeds(900, 3, seeds), seeds, &hop);
    FREED struct known_edge *all = list_edges(&hop, &n_all);
    memset(table, 0xff, sizeof table);
    for (uint32_t i = 0; i < n_all && i < 10; i++) {
        uint64_t key = sl_edge_key(all[i].from, all[i].to);
        uint32_t entry = sl_edge_entry(key, 63);
        while (table[entry] != SL_NO_EDGE) {
            entry = (entry + 1) & 63;
        }
        table[entry] = key;
    }
    hop.excluded = (struct sl_excluded){.table = table, .mask = 63};
    hop_draw(&hop, shape.step);
    FREED struct known_edge *left = list_edges(&hop, &n_left);
    assert_int_equal(n_left, n_all - 10);
    for (uint32_t i = 0; i < n_left; i++) {
        assert_int_equal(left[i].from, all[i + 10].from);
        assert_int_equal(left[i].to, all[i + 10].to);
    }
}

/* <A x, y> = <x, A^T y> for the mean over the block with its weights. */
TEST(test_adjoint)
{
    enum { COLUMNS = 3 };
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    OWNED(hop_free) struct hop hop;
    sl_vertex seeds[900];
    struct hop_shape shape = shape_of(4, 2);
    make_dataset(&power_law, &dataset);
    partition = one_part(&dataset.graph);
    hop_sample(&partition, &shape, list_seeds(900, 3, seeds), seeds, &hop);
    const struct group_block *b = &hop.pe[0].block;
    const uint32_t n_rows = hop.pe[0].n_rows;
    FREED uint32_t *inverse = need(2 + b->n_sources, sizeof *inverse); /* position p is row p */
    for (uint32_t i = 0; i < b->n_sources; i++) {
        inverse[2 + i] = i;
    }
    FREED sl_real *x = noisy((size_t)b->n_sources * COLUMNS, 1);
    FREED sl_real *y = noisy((size_t)n_rows * COLUMNS, 2);
    FREED sl_real *forward = poisoned((size_t)n_rows * COLUMNS);
    FREED sl_real *back = poisoned((size_t)b->n_sources * COLUMNS);
    const uint32_t zero = 0;
    void *no_rows = NULL;
    void *returned = back;
    const struct sl_chunks gm = {.each = {.n = 1, .data = (void *[]){y}}, .shift = 31};
    const struct sl_sources sources = {.inverse = {.data = inverse},
                                       .rows = {.each = {.n = 1, .data = (void *[]){x}}, .shift = 31},
                                       .packed = {.n = 1, .numbers = &zero, .data = &no_rows},
                                       .dtype = SL_DTYPE_REAL};
    const struct sl_edges edges = {.n_rows = n_rows,
                                   .offsets = b->edge_offsets,
                                   .sources = b->edge_sources,
                                   .edge_weights = b->edge_weights,
                                   .x = &sources};
    const struct sl_transposed transposed = {.back_offsets = b->back_offsets,
                                             .back_rows = b->back_rows,
                                             .edge_offsets = b->edge_offsets,
                                             .back_weights = b->back_weights};
    expect_ok(sl_aggregate_forward_cpu(&edges, COLUMNS, 0, COLUMNS, SL_DTYPE_REAL, forward));
    expect_ok(sl_aggregate_backward_cpu(&transposed, &gm, COLUMNS, 1, &zero, &b->n_sources, SL_DTYPE_REAL, &returned));
    double there = inner((size_t)n_rows * COLUMNS, forward, y);
    double here = inner((size_t)b->n_sources * COLUMNS, x, back);
    expect_near("adjoint", there, here, rounding(b->n_edges, 30));
}

/* A destination of 13,000 in-neighbours among others, and one without any. Edges have weights of 0 to 9. */
static void make_hub(bool with_relations, struct sl_partition *out)
{
    enum { HUB = 13000 };
    OWNED(free_edges) struct edge_list edges = {.n_vertices = HUB + 40};
    OWNED(sl_graph_free) struct sl_graph graph;
    FREED uint32_t *parts = need(edges.n_vertices, sizeof *parts);
    for (sl_vertex t = 0; t < HUB; t++) {
        add_edge(&edges, t, HUB);
        add_edge(&edges, t, HUB + 1 + t % 37);
    }
    expect_ok(sl_graph_build(edges.n_vertices, edges.n, edges.from, edges.to, NULL, false, &graph));
    graph.weights = need_owned(graph.n_edges, sizeof *graph.weights);
    for (uint64_t e = 0; e < graph.n_edges; e++) {
        graph.weights[e] = (float)(e * 7 % 10);
    }
    if (with_relations) {
        graph.n_relations = N_RELATIONS;
        graph.relations = need_owned(graph.n_edges, sizeof *graph.relations);
        for (sl_vertex v = 0; v < graph.n_vertices; v++) { /* half of the edges have relation 2 */
            const uint64_t n = graph.offsets[v + 1] - graph.offsets[v];
            for (uint64_t i = 0; i < n; i++) {
                graph.relations[graph.offsets[v] + i] = (uint16_t)sl_min_u64(4 * i / n, 2);
            }
        }
    }
    for (uint32_t v = 0; v < edges.n_vertices; v++) {
        parts[v] = v % 3 == 0 ? 0 : 2; /* PE 1 has nothing */
    }
    make_partition(&graph, 3, parts, out);
}

TEST(test_many_neighbours)
{
    OWNED(sl_partition_free) struct sl_partition partition;
    sl_vertex seeds[40];
    OWNED(hop_free) struct hop hop;
    make_hub(false, &partition);
    for (uint32_t i = 0; i < 40; i++) {
        seeds[i] = 13000 + i;
    }
    for (uint32_t fanout = 5; fanout <= 13000; fanout += 6490) {
        struct hop_shape shape = shape_of(fanout, 3);
        hop_sample(&partition, &shape, 40, seeds, &hop);
        assert_int_equal(hop.pe[1].n_rows, 0);
        assert_int_equal(hop.pe[1].n_edges, 0);
        uint32_t n_edges = hop.pe[0].n_edges + hop.pe[2].n_edges;
        if (fanout == 5) { /* a hub's edges: at least those of a draw without replacement, on average */
            assert_true(n_edges > 130 && n_edges < 2000);
        } else {
            assert_true(n_edges > 13000);
        }
        hop_free(&hop);
    }
    struct hop_shape shape = by_weight(50, 0);
    hop_open(&partition, &shape, 40, seeds, &hop);
    hop.weighted = true;
    hop_bounds(&hop);
    double n_edges = 0;
    for (uint64_t step = 0; step < 20; step++) {
        hop_draw(&hop, step);
        n_edges += hop.pe[0].n_edges + hop.pe[2].n_edges;
    }
    expect_near("edges", n_edges / 20, 38 * 50,
                5 * sqrt(38 * 50 / 20.0) * 6); /* the draws of destinations go together */
}

/* Without destinations there is nothing; the costs of the hop before stay. */
TEST(test_empty)
{
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    struct hop_shape shape = converging(3);
    OWNED(hop_free) struct hop hop;
    make_dataset(&power_law, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, 3, &partition);
    hop_sample(&partition, &shape, 0, NULL, &hop);
    for (uint32_t p = 0; p < 3; p++) {
        assert_int_equal(hop.pe[p].n_edges, 0);
        assert_int_equal(hop.pe[p].block.n_sources, 0);
    }
}

/* ---- tasks ---- */

/* Handles over a hop's own arrays. */
struct hop_phase {
    struct phase phase;
    struct sl_importance_handles own;
    struct sl_block block;
};

static void open_hop_phase(struct hop *hop, uint32_t p, struct hop_phase *out)
{
    struct hop_pe *pe = &hop->pe[p];
    struct phase *phase = &out->phase;
    const uint32_t n_vertices = hop->partition->first[hop->n_parts];
    const size_t n_list = (size_t)hop->n_parts + 1 + pe->n_sources;
    const struct sl_sample_part part = destinations_of(hop, p).part;
    open_phase(&part, 1, 0, part.fanouts != NULL ? N_RELATIONS : 0, phase);
    memcpy(phase->ids, pe->frontier, pe->n_rows * sizeof *pe->frontier);
    phase->counts[sl_counts_rows(0)] = pe->n_rows;
    out->own = (struct sl_importance_handles){
        .list = phase_vector(phase, pe->candidates.list, n_list, 4),
        .most = phase_vector(phase, pe->most, n_list, 4),
        .candidates = phase_vector(phase, pe->candidates.words, sl_candidates_bytes(n_vertices, pe->n_sources), 1),
        .bounds = phase_vector(phase, pe->state, (size_t)pe->n_bounds + 1, 4),
        .costs = phase_vector(phase, pe->costs, sl_costs_bytes(pe->n_part), 1),
        .room = phase_vector(phase, pe->room, pe->n_part, 4),
        .n_vertices = n_vertices};
    out->block = phase_block(phase, &pe->block, pe->n_rows, pe->n_room, pe->n_sources);
}

static struct sl_task_args args_of(uint64_t step, uint32_t p)
{
    return (struct sl_task_args){.run = &run, .step = step, .pe = p};
}

static void submit_solve(const struct hop *hop, uint32_t round, bool last, const struct hop_phase *phases)
{
    const struct sl_solve_rule rule = solve_rule_of(hop, round);
    starpu_data_handle_t costs[MOST_PARTS];
    for (uint32_t q = 0; q < hop->n_parts; q++) {
        costs[q] = phases[q].own.costs;
    }
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct sl_task_args args = args_of(hop->shape.step, p);
        const struct phase *phase = &phases[p].phase;
        expect_ok(sl_solve_submit(&args, &phase->part, &phase->frontier, &rule, last, costs, &phases[p].own));
    }
}

static void submit_hop(const struct hop *hop, const struct hop_phase *phases)
{
    const struct sl_poisson_rule rule = poisson_rule_of(&hop->shape);
    starpu_data_handle_t list[MOST_PARTS];
    starpu_data_handle_t most[MOST_PARTS];
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct sl_task_args args = args_of(hop->shape.step, p);
        const struct phase *phase = &phases[p].phase;
        expect_ok(sl_candidates_submit(&args, &phase->part, &phase->frontier, &phases[p].own));
        list[p] = phases[p].own.list;
        most[p] = phases[p].own.most;
    }
    for (uint32_t round = 0; round < hop->shape.n_rounds; round++) {
        submit_solve(hop, round, false, phases);
        for (uint32_t q = 0; q < hop->n_parts; q++) {
            struct sl_task_args args = args_of(hop->shape.step, q);
            struct sl_raising raising = raising_of(hop, q, round == 0);
            expect_ok(sl_raise_submit(&args, &raising, list, most, &phases[q].own));
        }
    }
    submit_solve(hop, hop->shape.n_rounds, true, phases);
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct sl_task_args args = args_of(hop->shape.step, p);
        const struct phase *phase = &phases[p].phase;
        expect_ok(sl_poisson_submit(&args, &phase->part, &rule, hop->shape.seed, &phase->frontier, &phase->marks,
                                    &phases[p].own, &phases[p].block));
    }
}

/* Tasks draw the kernels' edges, with the same weights and bounds. */
static void check_tasks(const struct sl_partition *partition, const struct hop_shape *shape, bool weighted,
                        uint32_t n_seeds, const sl_vertex *seeds)
{
    OWNED(hop_free) struct hop by_kernels, by_tasks;
    struct hop_phase phases[MOST_PARTS];
    hop_open(partition, shape, n_seeds, seeds, &by_kernels);
    hop_open(partition, shape, n_seeds, seeds, &by_tasks);
    by_kernels.weighted = by_tasks.weighted = weighted;
    hop_bounds(&by_kernels);
    hop_draw(&by_kernels, shape->step);
    for (uint32_t p = 0; p < by_tasks.n_parts; p++) {
        open_hop_phase(&by_tasks, p, &phases[p]);
    }
    submit_hop(&by_tasks, phases);
    starpu_task_wait_for_all();
    expect_no_failure();
    for (uint32_t p = 0; p < by_tasks.n_parts; p++) {
        const struct hop_pe *pe = &by_tasks.pe[p], *wanted = &by_kernels.pe[p];
        const uint32_t n_head = by_tasks.n_parts + 1;
        struct phase *phase = &phases[p].phase;
        bring_home(phase->n, phase->all);
        assert_int_equal(phase->counts[sl_counts_edges(1, 0)], wanted->n_edges);
        expect_same("positions", n_head, 4, phase->counts + sl_counts_request(1, by_tasks.n_parts, 0),
                    wanted->block.request);
        expect_same("candidates", n_head + wanted->candidates.list[n_head - 1], 4, pe->candidates.list,
                    wanted->candidates.list);
        expect_same("room", pe->n_part, 4, pe->room, wanted->room);
        expect_same("state", 1, 4, pe->state, wanted->state);
        expect_same("bounds", shape->fanouts != NULL ? pe->n_bounds : pe->n_rows, 4, pe->bounds, wanted->bounds);
        expect_same_block(&pe->block, &wanted->block, pe->n_rows);
        close_phase(phase);
    }
}

TEST(test_tasks)
{
    struct graph_shape of = power_law;
    sl_vertex seeds[900];
    of.n_vertices = 400;
    of.hub_degree = 300;
    of.weighted = true;
    for (int split = SPLIT_RANDOM; split < N_SPLITS; split++) {
        FIXTURE(worker_counts[split % N_WORKER_COUNTS]);
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        OWNED(sl_partition_free) struct sl_partition partition;
        make_dataset(&of, &dataset);
        make_split_of(&dataset, split, 1 + 2 * (uint32_t)split, &partition);
        const uint32_t n_seeds = list_seeds(of.n_vertices, 3, seeds);
        for (uint32_t n_rounds = 0; n_rounds <= 3; n_rounds++) {
            struct hop_shape shape = n_rounds == 3 ? converging(3) : shape_of(3, n_rounds);
            shape.normalised = n_rounds % 2 == 0;
            shape.kappa = n_rounds;
            shape.step = 5;
            check_tasks(&partition, &shape, n_rounds > 0, n_seeds, seeds);
            shape = by_weight(3, n_rounds);
            shape.converges = n_rounds == 3;
            shape.kappa = n_rounds;
            shape.step = 5;
            check_tasks(&partition, &shape, true, n_seeds, seeds);
        }
    }
}

TEST(test_tasks_of_relations)
{
    FIXTURE(2);
    struct graph_shape of = typed(400);
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    sl_vertex seeds[400];
    of.n_edge_columns = 1;
    make_dataset(&of, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, 3, &partition);
    const uint32_t n_seeds = list_seeds(of.n_vertices, 3, seeds);
    for (uint32_t kind = 0; kind < 8; kind++) {
        struct hop_shape shape = kind % 2 == 0 ? shape_of(5, kind / 4 + 1) : by_weight(5, kind / 4);
        shape.fanouts = kind % 4 < 2 ? NULL : fanouts;
        check_tasks(&partition, &shape, true, n_seeds, seeds);
    }
}

TEST(test_tasks_many_neighbours)
{
    FIXTURE(1);
    OWNED(sl_partition_free) struct sl_partition partition;
    sl_vertex seeds[40];
    make_hub(false, &partition);
    for (uint32_t i = 0; i < 40; i++) {
        seeds[i] = 13000 + i;
    }
    struct hop_shape shape = shape_of(9, 2);
    check_tasks(&partition, &shape, false, 40, seeds);
    for (uint32_t n_rounds = 0; n_rounds <= 2; n_rounds += 2) {
        shape = by_weight(50, n_rounds);
        check_tasks(&partition, &shape, true, 40, seeds);
    }
    sl_partition_free(&partition);
    make_hub(true, &partition);
    for (uint32_t n_rounds = 0; n_rounds <= 2; n_rounds += 2) {
        shape = by_weight(50, n_rounds);
        check_tasks(&partition, &shape, true, 40, seeds);
        shape.fanouts = fanouts;
        check_tasks(&partition, &shape, true, 40, seeds);
    }
}

TEST_MAIN(NULL, NULL)
