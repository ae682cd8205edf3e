/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/importance.h: bounds and costs against the definitions, which edges are drawn and how often, unbiased sums,
 * fewer vertices with more rounds, every partition, and the submissions. */
#include "tests/support/importance_fixture.h"

#include "codelets/aggregate.h"
#include "tests/support/starpu_fixture.h"

#define SEED 4242

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

/* The whole graph as one part, not renumbered. */
static void make_one_part(const struct sl_graph *graph, struct sl_partition *out)
{
    uint32_t *parts = need(graph->n_vertices, sizeof *parts);
    make_partition(graph, 1, parts, out);
    free(parts);
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
    uint32_t n_seeds, k;
    const sl_vertex *seeds;
    double *importance; /* by vertex */
    double *bound;      /* by seed */
};

static double sum_of_inverses(const struct plain *plain, sl_vertex v, double bound)
{
    double sum = 0;
    for (uint64_t e = plain->graph->offsets[v]; e < plain->graph->offsets[v + 1]; e++) {
        sum += 1 / fmin(1, bound * plain->importance[plain->graph->sources[e]]);
    }
    return sum;
}

static double bisect(const struct plain *plain, sl_vertex v)
{
    double degree = (double)(plain->graph->offsets[v + 1] - plain->graph->offsets[v]);
    double low = 1e-12;
    double high = 1e12;
    if (degree <= plain->k) {
        return 1;
    }
    for (int i = 0; i < 200; i++) {
        double middle = sqrt(low * high);
        if (sum_of_inverses(plain, v, middle) > degree * degree / plain->k) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* One round after the bounds are known. Returns the expected number of distinct sources with the old importances. */
static double raise_plain(const struct plain *plain)
{
    uint32_t n = plain->graph->n_vertices;
    double *most = need(n, sizeof *most);
    double expected = 0;
    for (uint32_t i = 0; i < plain->n_seeds; i++) {
        sl_vertex v = plain->seeds[i];
        for (uint64_t e = plain->graph->offsets[v]; e < plain->graph->offsets[v + 1]; e++) {
            most[plain->graph->sources[e]] = fmax(most[plain->graph->sources[e]], plain->bound[i]);
        }
    }
    for (sl_vertex t = 0; t < n; t++) {
        if (most[t] > 0) {
            plain->importance[t] *= most[t];
            expected += fmin(1, plain->importance[t]);
        }
    }
    free(most);
    return expected;
}

static void solve_plain(const struct plain *plain)
{
    for (uint32_t i = 0; i < plain->n_seeds; i++) {
        plain->bound[i] = bisect(plain, plain->seeds[i]);
    }
}

/* The rounds that the reference takes until it converges. */
static uint32_t run_plain(const struct plain *plain, uint32_t n_rounds, bool converges)
{
    double before = INFINITY;
    for (sl_vertex t = 0; t < plain->graph->n_vertices; t++) {
        plain->importance[t] = 1;
    }
    solve_plain(plain);
    for (uint32_t round = 0; round < n_rounds; round++) {
        double now = raise_plain(plain);
        solve_plain(plain);
        if (converges && round > 0 && now >= (1 - SL_IMPORTANCE_TOLERANCE) * before) {
            return round + 1;
        }
        before = now;
    }
    return n_rounds;
}

static void expect_bounds(const struct sl_graph *graph, const struct hop_shape *shape)
{
    struct sl_partition partition;
    sl_vertex *seeds = need(graph->n_vertices, sizeof *seeds);
    struct plain plain = {.graph = graph,
                          .n_seeds = list_seeds(graph->n_vertices, 2, seeds),
                          .k = shape->fanout,
                          .seeds = seeds,
                          .importance = need(graph->n_vertices, sizeof(double)),
                          .bound = need(graph->n_vertices, sizeof(double))};
    struct hop hop;
    make_one_part(graph, &partition);
    uint32_t n_rounds = run_plain(&plain, shape->n_rounds, shape->converges);
    hop_open(&partition, shape, plain.n_seeds, seeds, &hop);
    hop_bounds(&hop);
    if (shape->converges) {
        assert_true(n_rounds > 2 && n_rounds < SL_IMPORTANCE_ROUNDS);
        assert_int_equal(*hop.pe[0].state, SL_SOLVE_ENDED);
    }
    for (uint32_t i = 0; i < plain.n_seeds; i++) {
        sl_vertex v = seeds[i];
        double degree = (double)(graph->offsets[v + 1] - graph->offsets[v]);
        double sum = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            float cost = cost_of(&hop, 0, graph->sources[e]);
            double p = fmin(1, plain.bound[i] * plain.importance[graph->sources[e]]);
            double inverse = sl_importance_inverse(hop.pe[0].bounds[i], cost);
            expect_near_at("1 / p of an edge", e, inverse, 1 / p, 2e-5 / p);
            sum += inverse;
        }
        if (degree > 0) { /* the variance of k draws without replacement */
            double wanted = degree * degree / fmin(degree, shape->fanout);
            expect_near_at("sum of 1 / p", v, sum, wanted, 1e-6 * wanted);
        }
    }
    hop_free(&hop);
    sl_partition_free(&partition);
    free(plain.importance);
    free(plain.bound);
    free(seeds);
}

TEST(test_bounds)
{
    struct sl_dataset dataset;
    make_dataset(&power_law, &dataset);
    for (uint32_t n_rounds = 0; n_rounds <= 5; n_rounds++) {
        struct hop_shape few = shape_of(3, n_rounds);
        struct hop_shape many = shape_of(40, n_rounds);
        expect_bounds(&dataset.graph, &few);
        expect_bounds(&dataset.graph, &many);
    }
    struct hop_shape all = converging(3);
    expect_bounds(&dataset.graph, &all);
    sl_dataset_free(&dataset);
}

/* The same with weights. */

/* Sum, and sum of squares, of the weights of v's in-edges. */
static void sum_plain(const struct sl_graph *graph, sl_vertex v, double *sum_out, double *squares_out)
{
    *sum_out = *squares_out = 0;
    for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
        const double w = sl_graph_weights(graph)[e];
        *sum_out += w;
        *squares_out += w * w;
    }
}

static double weighed_inverses(const struct plain *plain, sl_vertex v, double bound)
{
    double sum = 0;
    for (uint64_t e = plain->graph->offsets[v]; e < plain->graph->offsets[v + 1]; e++) {
        const double w = sl_graph_weights(plain->graph)[e];
        sum += w > 0 ? w * w / fmin(1, bound * plain->importance[plain->graph->sources[e]]) : 0;
    }
    return sum;
}

static double weighed_target(const struct plain *plain, sl_vertex v)
{
    const double degree = (double)(plain->graph->offsets[v + 1] - plain->graph->offsets[v]);
    double sum, squares;
    sum_plain(plain->graph, v, &sum, &squares);
    return degree <= plain->k ? squares : sum * sum * (1.0 / plain->k - 1 / degree) + squares;
}

static double bisect_weighed(const struct plain *plain, sl_vertex v)
{
    double low = 1e-12;
    double high = 1e12;
    for (int i = 0; i < 200; i++) {
        const double middle = sqrt(low * high);
        if (weighed_inverses(plain, v, middle) > weighed_target(plain, v)) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The largest bound times weight, or bound, of each source's destinations. */
static void raise_weighed(const struct plain *plain, bool begins)
{
    const struct sl_graph *graph = plain->graph;
    double *most = need(graph->n_vertices, sizeof *most);
    for (uint32_t i = 0; i < plain->n_seeds; i++) {
        const sl_vertex v = plain->seeds[i];
        const bool whole = graph->offsets[v + 1] - graph->offsets[v] <= plain->k;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            const double w = sl_graph_weights(graph)[e];
            const double asked = whole ? 1 : plain->bound[i] * (begins ? w : 1);
            most[graph->sources[e]] = fmax(most[graph->sources[e]], w > 0 ? asked : 0);
        }
    }
    for (sl_vertex t = 0; t < graph->n_vertices; t++) {
        plain->importance[t] = begins ? most[t] : plain->importance[t] * most[t];
    }
    free(most);
}

/* Probabilities are those of the reference, and each destination's solve its equation. */
static void expect_weighed_bounds(const struct sl_graph *graph, uint32_t fanout, uint32_t n_rounds)
{
    const struct hop_shape shape = by_weight(fanout, n_rounds);
    struct sl_partition partition;
    sl_vertex *seeds = need(graph->n_vertices, sizeof *seeds);
    struct plain plain = {.graph = graph,
                          .n_seeds = list_seeds(graph->n_vertices, 2, seeds),
                          .k = fanout,
                          .seeds = seeds,
                          .importance = need(graph->n_vertices, sizeof(double)),
                          .bound = need(graph->n_vertices, sizeof(double))};
    struct hop hop;
    make_one_part(graph, &partition);
    hop_open(&partition, &shape, plain.n_seeds, seeds, &hop);
    hop.weighted = true;
    hop_bounds(&hop);
    for (uint32_t i = 0; i < plain.n_seeds; i++) {
        double sum, squares;
        sum_plain(graph, seeds[i], &sum, &squares);
        plain.bound[i] = sum > 0 ? fanout / sum : 0;
    }
    for (uint32_t round = 0; round < n_rounds; round++) {
        raise_weighed(&plain, round == 0);
        for (uint32_t i = 0; i < plain.n_seeds; i++) {
            plain.bound[i] = bisect_weighed(&plain, seeds[i]);
        }
    }
    for (uint32_t i = 0; i < plain.n_seeds; i++) {
        const sl_vertex v = seeds[i];
        const double wanted = weighed_target(&plain, v);
        double sum = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            const double w = sl_graph_weights(graph)[e];
            if (w > 0) {
                const double p = fmin(1, plain.bound[i] * plain.importance[graph->sources[e]]);
                const double inverse = sl_importance_inverse(hop.pe[0].bounds[i], cost_of(&hop, 0, graph->sources[e]));
                expect_near_at("1 / p of an edge", e, inverse, 1 / p, 5e-5 / p);
                sum += w * w * inverse;
            }
        }
        expect_near_at("sum of A^2 / p", v, sum, wanted, 2e-6 * wanted);
    }
    hop_free(&hop);
    sl_partition_free(&partition);
    free(plain.importance);
    free(plain.bound);
    free(seeds);
}

TEST(test_weighed_bounds)
{
    struct graph_shape of = power_law;
    struct sl_dataset dataset;
    of.weighted = true;
    make_dataset(&of, &dataset);
    for (uint32_t n_rounds = 1; n_rounds <= 4; n_rounds++) {
        expect_weighed_bounds(&dataset.graph, 3, n_rounds);
        expect_weighed_bounds(&dataset.graph, 40, n_rounds);
    }
    sl_dataset_free(&dataset);
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
    struct sl_partition partition;
    sl_vertex *seeds = need(graph->n_vertices, sizeof *seeds);
    uint32_t n_seeds = list_seeds(graph->n_vertices, 9, seeds);
    struct moments *moments = need(n_seeds, sizeof *moments);
    struct hop hop;
    make_one_part(graph, &partition);
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
    hop_free(&hop);
    sl_partition_free(&partition);
    free(moments);
    free(seeds);
}

TEST(test_sums_are_unbiased)
{
    struct sl_dataset dataset;
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
    sl_dataset_free(&dataset);
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
    struct sl_partition partition;
    struct hop hop;
    make_one_part(&dataset->graph, &partition);
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
    hop_free(&hop);
    sl_partition_free(&partition);
    return tried;
}

/* Weighted LABOR: an edge is drawn with probability min(1, k A / sum of A), all edges with a weight are if there are k
 * in-neighbours or fewer, and sums of weighted rows have no bias. They vary less than those of LABOR-0. */
static void expect_weighted(uint32_t k, uint32_t kappa, double *variance_out)
{
    struct graph_shape of = power_law;
    struct hop_shape weighted = by_weight(k, 0);
    struct hop_shape plain = shape_of(k, 0);
    struct sl_dataset dataset;
    sl_vertex seeds[900];
    uint32_t n_varying = 0;
    of.weighted = true;
    weighted.kappa = kappa;
    plain.normalised = false;
    make_dataset(&of, &dataset);
    const struct sl_graph *graph = &dataset.graph;
    const uint32_t n_seeds = list_seeds(900, 9, seeds);
    struct tried *tried = try_weighted(&dataset, weighted, n_seeds, seeds);
    struct tried *beside = try_weighted(&dataset, plain, n_seeds, seeds);
    for (uint32_t d = 0; d < n_seeds; d++) {
        const uint64_t begin = graph->offsets[seeds[d]];
        const uint64_t end = graph->offsets[seeds[d] + 1];
        const float *weights = sl_graph_weights(graph);
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
    free(tried);
    free(beside);
    sl_dataset_free(&dataset);
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
    struct sl_dataset dataset;
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
        struct tried *tried = try_weighted(&dataset, shape, n_seeds, seeds);
        for (uint32_t d = 0; d < n_seeds; d++) {
            const uint64_t begin = graph->offsets[seeds[d]];
            const uint64_t end = graph->offsets[seeds[d] + 1];
            double exact = 0;
            double n_weighted = 0;
            for (uint64_t e = begin; e < end; e++) {
                exact += sl_graph_weights(graph)[e] * row_of(graph->sources[e]) / (double)(end - begin);
                n_weighted += sl_graph_weights(graph)[e] > 0;
            }
            expect_near_at("the mean of the estimates", seeds[d], tried[d].mean, exact,
                           6 * sqrt(tried[d].variance / DRAWS) + 1e-6);
            assert_true(tried[d].n_edges <= n_weighted + 1e-6);
            n_varying += tried[d].variance > 1e-6;
        }
        print_message("%u rounds: %g sources\n", n_rounds, tried->n_sources);
        assert_true(tried->n_sources < n_sources);
        n_sources = tried->n_sources;
        free(tried);
    }
    assert_true(n_varying > 20);
    sl_dataset_free(&dataset);
}

/* Destinations that have the same in-neighbours draw the same sources: the hub and its twin. */
TEST(test_equal_lists_share)
{
    struct edge_list edges = {.n_vertices = 52};
    struct sl_graph graph;
    struct sl_partition partition;
    struct hop_shape shape = shape_of(5, 2);
    const sl_vertex seeds[2] = {50, 51};
    struct hop hop;
    for (sl_vertex t = 0; t < 50; t++) {
        add_edge(&edges, t, 50);
        add_edge(&edges, t, 51);
    }
    expect_ok(sl_graph_build(edges.n_vertices, edges.n, edges.from, edges.to, false, &graph));
    make_one_part(&graph, &partition);
    hop_sample(&partition, &shape, 2, seeds, &hop);
    const struct group_block *b = &hop.pe[0].block;
    assert_true(b->n_edges > 0);
    assert_int_equal(b->n_edges, 2 * b->n_sources);
    hop_free(&hop);
    sl_partition_free(&partition);
    sl_graph_free(&graph);
    free_edges(&edges);
}

/* ---- fewer vertices ---- */

struct sizes {
    double vertices, edges;
};

/* Distinct sources and edges of one hop, averaged over steps. n_rounds < 0: codelets/sample.h's method. */
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
            struct group_block block;
            sample_block(&part, &rule, SEED, step, 0, n_seeds, hop.pe[0].frontier, &block);
            sizes.vertices += block.n_sources;
            sizes.edges += block.n_edges;
            free_block(&block);
        }
    }
    hop_free(&hop);
    return (struct sizes){sizes.vertices / STEPS, sizes.edges / STEPS};
}

/* Neighbor, LABOR-0, LABOR-1, LABOR-2 and LABOR-* of one graph. */
static void list_sizes(const struct sl_graph *graph, uint32_t k, uint32_t seed_step, struct sizes out[5])
{
    struct sl_partition partition;
    sl_vertex *seeds = need(graph->n_vertices, sizeof *seeds);
    uint32_t n_seeds = list_seeds(graph->n_vertices, seed_step, seeds);
    const struct hop_shape one = shape_of(k, 1);
    const struct hop_shape two = shape_of(k, 2);
    const struct hop_shape all = converging(k);
    make_one_part(graph, &partition);
    out[0] = count_sizes(&partition, &one, SL_SAMPLE_NEIGHBOR, n_seeds, seeds);
    out[1] = count_sizes(&partition, &one, SL_SAMPLE_LABOR, n_seeds, seeds);
    out[2] = count_sizes(&partition, &one, SL_SAMPLE_FULL, n_seeds, seeds);
    out[3] = count_sizes(&partition, &two, SL_SAMPLE_FULL, n_seeds, seeds);
    out[4] = count_sizes(&partition, &all, SL_SAMPLE_FULL, n_seeds, seeds);
    sl_partition_free(&partition);
    free(seeds);
}

TEST(test_more_rounds_fewer_vertices)
{
    static const struct graph_shape shapes[] = {
        {.kind = GRAPH_POWER_LAW, .n_vertices = 2000, .hub_degree = 1500, .seed = 5},
        {.kind = GRAPH_TWO_CLIQUES, .n_vertices = 200, .seed = 6},
        {.kind = GRAPH_POWER_LAW, .n_vertices = 600, .self_loops = true, .hub_degree = 400, .seed = 7}};
    for (size_t g = 0; g < sizeof shapes / sizeof *shapes; g++) {
        struct sl_dataset dataset;
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
        sl_dataset_free(&dataset);
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
    struct edge_list edges = {.n_vertices = N};
    struct sl_graph graph;
    struct sizes sizes[5];
    for (uint32_t i = 0; i < EDGES; i++) { /* an end is vertex v with a probability of about (v + 1)^-0.8 */
        sl_vertex ends[2];
        for (uint32_t j = 0; j < 2; j++) {
            double root = 1 + graph_unit(&shape, 1, i, j) * (pow(N + 1, 0.2) - 1);
            ends[j] = (sl_vertex)fmin(pow(root, 5) - 1, N - 1);
        }
        add_edge(&edges, ends[0], ends[1]);
    }
    expect_ok(sl_graph_build(N, edges.n, edges.from, edges.to, true, &graph));
    list_sizes(&graph, 10, 10, sizes);
    for (int i = 0; i < 5; i++) {
        expect_near_at("distinct vertices", (size_t)i, sizes[i].vertices, vertices[i], 0.25 * vertices[i]);
        expect_near_at("edges", (size_t)i, sizes[i].edges, n_edges[i], 0.25 * n_edges[i]);
        assert_true(i == 0 || sizes[i].vertices < sizes[i - 1].vertices);
        assert_true(i < 2 || sizes[i].edges > sizes[i - 1].edges);
    }
    sl_graph_free(&graph);
    free_edges(&edges);
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
    sl_vertex *seeds = need(dataset->graph.n_vertices, sizeof *seeds);
    uint32_t n_seeds = list_seeds(dataset->graph.n_vertices, 3, seeds);
    struct known_edge *wanted = NULL;
    uint32_t n_wanted = 0;
    for (size_t i = 0; i < N_PART_COUNTS; i++) {
        for (int split = SPLIT_METIS; split < N_SPLITS; split++) {
            struct sl_partition partition;
            struct hop hop;
            uint32_t n;
            make_split_of(dataset, split, part_counts[i], &partition);
            hop_open(&partition, shape, n_seeds, seeds, &hop);
            hop.weighted = dataset->graph.weights.data != NULL;
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
            hop_free(&hop);
            sl_partition_free(&partition);
        }
    }
    free(wanted);
    free(seeds);
}

TEST(test_partition_is_invisible)
{
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape of = {.kind = graph, .n_vertices = 130 + graph, .hub_degree = 90, .weighted = true};
        struct sl_dataset dataset;
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
        sl_dataset_free(&dataset);
    }
}

/* ---- excluded edges, adjoint, extremes ---- */

/* Edges u -> v of the table, as renumbered ids, are never drawn; the others are drawn as ever. */
TEST(test_excluded)
{
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct hop hop;
    sl_vertex seeds[900];
    uint64_t table[64];
    struct hop_shape shape = shape_of(4, 2);
    uint32_t n_all, n_left;
    make_dataset(&power_law, &dataset);
    make_one_part(&dataset.graph, &partition);
    hop_sample(&partition, &shape, list_seeds(900, 3, seeds), seeds, &hop);
    struct known_edge *all = list_edges(&hop, &n_all);
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
    struct known_edge *left = list_edges(&hop, &n_left);
    assert_int_equal(n_left, n_all - 10);
    for (uint32_t i = 0; i < n_left; i++) {
        assert_int_equal(left[i].from, all[i + 10].from);
        assert_int_equal(left[i].to, all[i + 10].to);
    }
    free(all);
    free(left);
    hop_free(&hop);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* <A x, y> = <x, A^T y> for the mean over the block with its weights. */
TEST(test_adjoint)
{
    enum { COLUMNS = 3 };
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct hop hop;
    sl_vertex seeds[900];
    struct hop_shape shape = shape_of(4, 2);
    make_dataset(&power_law, &dataset);
    make_one_part(&dataset.graph, &partition);
    hop_sample(&partition, &shape, list_seeds(900, 3, seeds), seeds, &hop);
    const struct group_block *b = &hop.pe[0].block;
    const uint32_t n_rows = hop.pe[0].n_rows;
    uint32_t *inverse = need(2 + b->n_sources, sizeof *inverse); /* position p is row p */
    for (uint32_t i = 0; i < b->n_sources; i++) {
        inverse[2 + i] = i;
    }
    sl_real *x = noisy((size_t)b->n_sources * COLUMNS, 1);
    sl_real *y = noisy((size_t)n_rows * COLUMNS, 2);
    sl_real *forward = poisoned((size_t)n_rows * COLUMNS);
    sl_real *back = poisoned((size_t)b->n_sources * COLUMNS);
    const uint32_t zero = 0;
    void *no_rows = NULL;
    void *returned = back;
    const struct sl_chunks gm = {.each = {.n = 1, .data = (void *[]){y}}, .shift = 31};
    const struct sl_sources sources = {.inverse = {.data = inverse},
                                       .rows = {.each = {.n = 1, .data = (void *[]){x}}, .shift = 31},
                                       .packed = {.n = 1, .numbers = &zero, .data = &no_rows},
                                       .dtype = SL_DTYPE_REAL};
    const struct sl_edges edges = {
        .n_rows = n_rows, .offsets = b->edge_offsets, .sources = b->edge_sources, .edge_weights = b->edge_weights};
    const struct sl_transposed transposed = {.back_offsets = b->back_offsets,
                                             .back_rows = b->back_rows,
                                             .edge_offsets = b->edge_offsets,
                                             .back_weights = b->back_weights};
    expect_ok(sl_aggregate_forward_cpu(&edges, COLUMNS, &sources, 0, SL_DTYPE_REAL, forward));
    expect_ok(sl_aggregate_backward_cpu(&transposed, &gm, COLUMNS, 1, &zero, &b->n_sources, SL_DTYPE_REAL, &returned));
    double there = inner((size_t)n_rows * COLUMNS, forward, y);
    double here = inner((size_t)b->n_sources * COLUMNS, x, back);
    expect_near("adjoint", there, here, rounding(b->n_edges, 30));
    free(inverse);
    free(x);
    free(y);
    free(forward);
    free(back);
    hop_free(&hop);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* A destination of 13,000 in-neighbours among others, and one without any. Edges have weights of 0 to 9. */
static void make_hub(struct sl_partition *out)
{
    enum { HUB = 13000 };
    struct edge_list edges = {.n_vertices = HUB + 40};
    struct sl_graph graph;
    uint32_t *parts = need(edges.n_vertices, sizeof *parts);
    for (sl_vertex t = 0; t < HUB; t++) {
        add_edge(&edges, t, HUB);
        add_edge(&edges, t, HUB + 1 + t % 37);
    }
    expect_ok(sl_graph_build(edges.n_vertices, edges.n, edges.from, edges.to, false, &graph));
    float *weights = need_owned(graph.n_edges, sizeof *weights);
    for (uint64_t e = 0; e < graph.n_edges; e++) {
        weights[e] = (float)(e * 7 % 10);
    }
    graph.weights = sl_column_take(SL_DTYPE_F32, graph.n_edges, 1, weights);
    for (uint32_t v = 0; v < edges.n_vertices; v++) {
        parts[v] = v % 3 == 0 ? 0 : 2; /* PE 1 has nothing */
    }
    make_partition(&graph, 3, parts, out);
    free(parts);
    sl_graph_free(&graph);
    free_edges(&edges);
}

TEST(test_many_neighbours)
{
    struct sl_partition partition;
    sl_vertex seeds[40];
    struct hop hop;
    make_hub(&partition);
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
    hop_free(&hop);
    sl_partition_free(&partition);
}

/* Without destinations there is nothing; the costs of the hop before stay. */
TEST(test_empty)
{
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct hop_shape shape = converging(3);
    struct hop hop;
    make_dataset(&power_law, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, 3, &partition);
    hop_sample(&partition, &shape, 0, NULL, &hop);
    for (uint32_t p = 0; p < 3; p++) {
        assert_int_equal(hop.pe[p].n_edges, 0);
        assert_int_equal(hop.pe[p].block.n_sources, 0);
    }
    hop_free(&hop);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* ---- tasks ---- */

/* Handles over a hop's own arrays. */
struct phase {
    struct sl_part_handles part;
    struct sl_frontier_handles frontier;
    struct sl_marks_handles marks;
    struct sl_importance_handles own;
    struct sl_block block;
    uint32_t *counts;
    void *marks_data;
    starpu_data_handle_t all[32];
    unsigned n;
};

static starpu_data_handle_t handle_of(struct phase *phase, const void *data, size_t n, size_t size)
{
    assert_true(phase->n < 32);
    return phase->all[phase->n++] = vector_of(data, (uint32_t)n, size);
}

static void open_phase(struct hop *hop, uint32_t p, struct phase *phase)
{
    struct hop_pe *pe = &hop->pe[p];
    struct group_block *b = &pe->block;
    const uint32_t n_vertices = hop->partition->first[hop->n_parts];
    const struct sl_sample_part part = part_of(hop->partition, p);
    const size_t n_list = (size_t)hop->n_parts + 1 + pe->n_sources;
    const size_t n_edges = part.offsets[pe->n_part] - part.offsets[0];
    memset(phase, 0, sizeof *phase);
    phase->counts = need(sl_counts_size(1, hop->n_parts), 4);
    phase->counts[sl_counts_rows(0)] = pe->n_rows;
    phase->marks_data = need(1, sl_marks_bytes(n_vertices, 0));
    phase->part = (struct sl_part_handles){.offsets = handle_of(phase, part.offsets, (size_t)pe->n_part + 1, 8),
                                           .sources = handle_of(phase, part.sources, n_edges, 4),
                                           .dataset_ids = handle_of(phase, part.dataset_ids, n_vertices, 4),
                                           .first = handle_of(phase, part.first, (size_t)hop->n_parts + 1, 4),
                                           .weights = hop->weighted ? handle_of(phase, part.weights, n_edges, 4) : NULL,
                                           .n_parts = hop->n_parts,
                                           .part = p};
    phase->frontier =
        (struct sl_frontier_handles){.ids = handle_of(phase, pe->frontier, pe->n_part, 4),
                                     .counts = handle_of(phase, phase->counts, sl_counts_size(1, hop->n_parts), 4),
                                     .n_hops = 1,
                                     .first = hop->partition->first[p],
                                     .end = hop->partition->first[p + 1]};
    phase->marks = (struct sl_marks_handles){
        .bytes = handle_of(phase, phase->marks_data, sl_marks_bytes(n_vertices, 0), 1), .n_vertices = n_vertices};
    phase->own = (struct sl_importance_handles){
        .list = handle_of(phase, pe->candidates.list, n_list, 4),
        .most = handle_of(phase, pe->most, n_list, 4),
        .candidates = handle_of(phase, pe->candidates.words, sl_candidates_bytes(n_vertices, pe->n_sources), 1),
        .bounds = handle_of(phase, pe->state, (size_t)pe->n_part + 1, 4),
        .costs = handle_of(phase, pe->costs, sl_costs_bytes(pe->n_part), 1),
        .room = handle_of(phase, pe->room, pe->n_part, 4),
        .n_vertices = n_vertices};
    phase->block = (struct sl_block){.edge_offsets = handle_of(phase, b->edge_offsets, (size_t)pe->n_rows + 1, 4),
                                     .edge_sources = handle_of(phase, b->edge_sources, pe->n_room, 4),
                                     .back_offsets = handle_of(phase, b->back_offsets, (size_t)pe->n_sources + 1, 4),
                                     .back_rows = handle_of(phase, b->back_rows, pe->n_room, 4),
                                     .request = handle_of(phase, b->request, n_list, 4),
                                     .edge_weights = handle_of(phase, b->edge_weights, pe->n_room, 4),
                                     .back_weights = handle_of(phase, b->back_weights, pe->n_room, 4)};
}

static void close_phase(struct phase *phase)
{
    unregister(phase->n, phase->all);
    free(phase->counts);
    free(phase->marks_data);
}

static struct sl_task_args args_of(uint64_t step, uint32_t p)
{
    return (struct sl_task_args){.run = &run, .step = step, .pe = p};
}

static void submit_solve(const struct hop *hop, uint32_t round, bool last, const struct phase *phase)
{
    const struct sl_solve_rule rule = solve_rule_of(hop, round);
    starpu_data_handle_t costs[MOST_PARTS];
    for (uint32_t q = 0; q < hop->n_parts; q++) {
        costs[q] = phase[q].own.costs;
    }
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct sl_task_args args = args_of(hop->shape.step, p);
        expect_ok(sl_solve_submit(&args, &phase[p].part, &phase[p].frontier, &rule, last, costs, &phase[p].own));
    }
}

static void submit_hop(const struct hop *hop, const struct phase *phase)
{
    const struct sl_poisson_rule rule = poisson_rule_of(&hop->shape);
    starpu_data_handle_t list[MOST_PARTS];
    starpu_data_handle_t most[MOST_PARTS];
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct sl_task_args args = args_of(hop->shape.step, p);
        expect_ok(sl_candidates_submit(&args, &phase[p].part, &phase[p].frontier, &phase[p].own));
        list[p] = phase[p].own.list;
        most[p] = phase[p].own.most;
    }
    for (uint32_t round = 0; round < hop->shape.n_rounds; round++) {
        submit_solve(hop, round, false, phase);
        for (uint32_t q = 0; q < hop->n_parts; q++) {
            struct sl_task_args args = args_of(hop->shape.step, q);
            struct sl_raising raising = raising_of(hop, q, round == 0);
            expect_ok(sl_raise_submit(&args, &raising, list, most, &phase[q].own));
        }
    }
    submit_solve(hop, hop->shape.n_rounds, true, phase);
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct sl_task_args args = args_of(hop->shape.step, p);
        expect_ok(sl_poisson_submit(&args, &phase[p].part, &rule, hop->shape.seed, &phase[p].frontier, &phase[p].marks,
                                    &phase[p].own, &phase[p].block));
    }
}

/* Tasks draw the kernels' edges, with the same weights and bounds. */
static void check_tasks(const struct sl_partition *partition, const struct hop_shape *shape, bool weighted,
                        uint32_t n_seeds, const sl_vertex *seeds)
{
    struct hop by_kernels, by_tasks;
    struct phase phase[MOST_PARTS];
    hop_open(partition, shape, n_seeds, seeds, &by_kernels);
    hop_open(partition, shape, n_seeds, seeds, &by_tasks);
    by_kernels.weighted = by_tasks.weighted = weighted;
    hop_bounds(&by_kernels);
    hop_draw(&by_kernels, shape->step);
    for (uint32_t p = 0; p < by_tasks.n_parts; p++) {
        open_phase(&by_tasks, p, &phase[p]);
    }
    submit_hop(&by_tasks, phase);
    starpu_task_wait_for_all();
    expect_no_failure();
    for (uint32_t p = 0; p < by_tasks.n_parts; p++) {
        const struct hop_pe *pe = &by_tasks.pe[p], *wanted = &by_kernels.pe[p];
        const struct group_block *b = &pe->block, *w = &wanted->block;
        const uint32_t n_head = by_tasks.n_parts + 1;
        bring_home(phase[p].n, phase[p].all);
        assert_int_equal(phase[p].counts[sl_counts_edges(1, 0)], w->n_edges);
        expect_same("positions", n_head, 4, phase[p].counts + sl_counts_request(1, by_tasks.n_parts, 0), w->request);
        expect_same("candidates", n_head + wanted->candidates.list[n_head - 1], 4, pe->candidates.list,
                    wanted->candidates.list);
        expect_same("room", pe->n_part, 4, pe->room, wanted->room);
        expect_same("state", 1, 4, pe->state, wanted->state);
        expect_same("bounds", pe->n_rows, 4, pe->bounds, wanted->bounds);
        expect_same("request", n_head + w->n_sources, 4, b->request, w->request);
        expect_same("edge offsets", (size_t)pe->n_rows + 1, 4, b->edge_offsets, w->edge_offsets);
        expect_same("edge sources", w->n_edges, 4, b->edge_sources, w->edge_sources);
        expect_same("back offsets", (size_t)w->n_sources + 1, 4, b->back_offsets, w->back_offsets);
        expect_same("back rows", w->n_edges, 4, b->back_rows, w->back_rows);
        expect_same("edge weights", w->n_edges, 4, b->edge_weights, w->edge_weights);
        expect_same("back weights", w->n_edges, 4, b->back_weights, w->back_weights);
        close_phase(&phase[p]);
    }
    hop_free(&by_kernels);
    hop_free(&by_tasks);
}

TEST(test_tasks)
{
    struct graph_shape of = power_law;
    sl_vertex seeds[900];
    of.n_vertices = 400;
    of.hub_degree = 300;
    of.weighted = true;
    for (int split = SPLIT_RANDOM; split < N_SPLITS; split++) {
        struct sl_dataset dataset;
        struct sl_partition partition;
        fixture_start(worker_counts[split % N_WORKER_COUNTS]);
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
        sl_partition_free(&partition);
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

TEST(test_tasks_many_neighbours)
{
    struct sl_partition partition;
    sl_vertex seeds[40];
    fixture_start(1);
    make_hub(&partition);
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
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
