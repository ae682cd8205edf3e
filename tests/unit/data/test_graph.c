/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/graph.h: edge list to CSC. */
#include "tests/support/data_fixture.h"

#include <math.h>

#include "data/graph.h"

static void assert_list(const struct sl_graph *graph, sl_vertex v, uint32_t n, const sl_vertex *expected)
{
    assert_int_equal(graph->offsets[v + 1] - graph->offsets[v], n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(graph->sources[graph->offsets[v] + i], expected[i]);
    }
}

#define LIST(...)                                                                                                      \
    sizeof((sl_vertex[]){__VA_ARGS__}) / sizeof(sl_vertex), (const sl_vertex[])                                        \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

/* Sources come out ascending, whatever the order of the edges; duplicates once; a self loop once. */
TEST(sorts_and_removes_duplicates)
{
    const sl_vertex from[] = {3, 0, 3, 2, 1, 3, 1};
    const sl_vertex to[] = {1, 1, 1, 2, 0, 1, 3};
    OWNED(sl_graph_free) struct sl_graph graph;
    assert_ok(sl_graph_build(5, 7, from, to, NULL, false, &graph));
    assert_int_equal(graph.n_vertices, 5);
    assert_int_equal(graph.n_edges, 5);
    assert_list(&graph, 0, LIST(1));
    assert_list(&graph, 1, LIST(0, 3));
    assert_list(&graph, 2, LIST(2));
    assert_list(&graph, 3, LIST(1));
    assert_int_equal(graph.offsets[4], graph.offsets[5]); /* vertex 4 is isolated */
    sl_graph_free(&graph);
    assert_ok(sl_graph_build(5, 7, from, to, NULL, true, &graph));
    assert_int_equal(graph.n_edges, 5); /* 0-1 and 1-3 both ways, 2-2 once */
    assert_list(&graph, 0, LIST(1));
    assert_list(&graph, 1, LIST(0, 3));
    assert_list(&graph, 2, LIST(2));
    assert_list(&graph, 3, LIST(1));
    sl_graph_free(&graph);
    assert_null(graph.offsets);
}

/* The direction: sources of v are those that point at it. */
TEST(keeps_direction)
{
    OWNED(sl_graph_free) struct sl_graph graph;
    bool symmetric;
    assert_ok(sl_graph_build(2, 1, (sl_vertex[]){0}, (sl_vertex[]){1}, NULL, false, &graph));
    assert_int_equal(graph.offsets[1], 0);
    assert_list(&graph, 1, LIST(0));
    assert_ok(sl_graph_is_symmetric(&graph, &symmetric));
    assert_false(symmetric);
}

TEST(builds_nothing_from_nothing)
{
    OWNED(sl_graph_free) struct sl_graph graph;
    bool symmetric;
    assert_ok(sl_graph_build(0, 0, NULL, NULL, NULL, true, &graph));
    assert_int_equal(graph.n_edges, 0);
    assert_int_equal(graph.offsets[0], 0);
    assert_ok(sl_graph_is_symmetric(&graph, &symmetric));
    assert_true(symmetric);
    sl_graph_free(&graph);
    assert_ok(sl_graph_build(3, 0, NULL, NULL, NULL, false, &graph));
    assert_int_equal(graph.offsets[3], 0);
}

TEST(refuses_bad_ids)
{
    struct sl_graph graph;
    const sl_vertex good[] = {0, 1, 2};
    const sl_vertex bad[] = {0, 3, 2};
    assert_refused(sl_graph_build(3, 3, good, bad, NULL, true, &graph), SL_EINVAL,
                   "edge 1 is 1 -> 3, expected ids below 3");
    assert_refused(sl_graph_build(3, 3, bad, good, NULL, false, &graph), SL_EINVAL, "edge 1 is 3 -> 1");
    assert_null(graph.sources);
    assert_int_equal(sl_graph_build(SL_NONE, 0, NULL, NULL, NULL, false, &graph), SL_EINVAL);
    assert_int_equal(sl_graph_build(3, UINT64_MAX, good, good, NULL, false, &graph), SL_ENOMEM);
}

#define N 60
#define M 400

/* Against a matrix of who points at whom. */
TEST(agrees_with_a_matrix)
{
    for (int round = 0; round < 40; round++) {
        bool reverse = round % 2 == 0;
        bool matrix[N][N] = {{false}};
        sl_vertex from[M];
        sl_vertex to[M];
        OWNED(sl_graph_free) struct sl_graph graph;
        uint64_t n_edges = 0;
        for (int i = 0; i < M; i++) {
            from[i] = next_random() % N;
            to[i] = next_random() % N;
            matrix[to[i]][from[i]] = true;
            matrix[from[i]][to[i]] |= reverse;
        }
        assert_ok(sl_graph_build(N, M, from, to, NULL, reverse, &graph));
        for (sl_vertex v = 0; v < N; v++) {
            uint64_t e = graph.offsets[v];
            for (sl_vertex u = 0; u < N; u++) {
                if (matrix[v][u]) {
                    assert_true(e < graph.offsets[v + 1]);
                    assert_int_equal(graph.sources[e++], u);
                    n_edges++;
                }
            }
            assert_int_equal(e, graph.offsets[v + 1]);
        }
        assert_int_equal(graph.n_edges, n_edges);
        bool symmetric;
        bool expected = true;
        for (int v = 0; v < N * N; v++) {
            expected &= matrix[v / N][v % N] == matrix[v % N][v / N];
        }
        assert_ok(sl_graph_is_symmetric(&graph, &symmetric));
        assert_int_equal(symmetric, expected);
    }
}

/* Listing the edges and building from the list gives the same graph. */
TEST(lists_edges)
{
    const sl_vertex from[] = {3, 0, 2, 1, 1};
    const sl_vertex to[] = {1, 1, 2, 0, 4};
    for (int once = 0; once < 2; once++) {
        OWNED(sl_graph_free) struct sl_graph graph;
        OWNED(sl_graph_free) struct sl_graph again;
        OWNED(sl_free_it) sl_vertex *listed_from;
        OWNED(sl_free_it) sl_vertex *listed_to;
        uint64_t n;
        assert_ok(sl_graph_build(5, 5, from, to, NULL, once, &graph));
        assert_survives_no_memory(sl_graph_list_edges(&graph, once, &n, &listed_from, &listed_to));
        assert_int_equal(n, once ? 4 : 5);
        for (uint64_t i = 0; i < n && once; i++) {
            assert_true(listed_from[i] <= listed_to[i]);
        }
        assert_ok(sl_graph_build(5, n, listed_from, listed_to, NULL, once, &again));
        assert_int_equal(again.n_edges, graph.n_edges);
        assert_memory_equal(again.offsets, graph.offsets, 6 * sizeof *graph.offsets);
        assert_memory_equal(again.sources, graph.sources, graph.n_edges * sizeof *graph.sources);
    }
}

static float weight_of(const struct sl_graph *graph, sl_vertex u, sl_vertex v)
{
    for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
        if (graph->sources[e] == u) {
            return graph->weights[e];
        }
    }
    return -1;
}

/* Features that follow the weights: w and 10 w, last column first. */
static void put_features(uint64_t n, const float *weights, float *out)
{
    for (uint64_t i = 0; i < n; i++) {
        out[2 * i] = 10 * weights[i];
        out[2 * i + 1] = weights[i];
    }
}

/* Duplicates add. A reverse takes the weight and features of its edge, and is no duplicate of a listed edge. */
TEST(adds_weights_and_features)
{
    /* 3 -> 1 three times; 0 -> 1 alone; 2 - 4 from both ends, with two weights; 2 -> 2; 4 -> 0 with weight -0. */
    const sl_vertex from[] = {3, 0, 3, 2, 4, 3, 2, 4};
    const sl_vertex to[] = {1, 1, 1, 4, 2, 1, 2, 0};
    const float weights[] = {1, 0.5f, 2, 8, 16, 4, 3, -0.0f};
    float features[2 * 8];
    struct sl_edge_list edges = {5, 8, from, to, weights, NULL, 0, false, features, 2};
    struct sl_graph graph;
    put_features(8, weights, features);
    assert_ok(sl_graph_build_list(&edges, &graph));
    assert_int_equal(graph.n_edges, 6);
    assert_true(weight_of(&graph, 3, 1) == 7 && weight_of(&graph, 0, 1) == 0.5f && weight_of(&graph, 2, 4) == 8);
    assert_true(weight_of(&graph, 4, 2) == 16 && weight_of(&graph, 2, 2) == 3 && weight_of(&graph, 4, 0) == 0);
    sl_graph_free(&graph);
    edges.reverse = true;
    put_features(8, weights, features);
    assert_ok(sl_graph_build_list(&edges, &graph));
    assert_int_equal(graph.n_edges, 9);
    assert_true(weight_of(&graph, 3, 1) == 7 && weight_of(&graph, 1, 3) == 7 && weight_of(&graph, 1, 0) == 0.5f);
    assert_true(weight_of(&graph, 2, 4) == 8 && weight_of(&graph, 4, 2) == 16 && weight_of(&graph, 2, 2) == 3);
    assert_true(weight_of(&graph, 0, 4) == 0 && weight_of(&graph, 4, 0) == 0);
    for (uint64_t e = 0; e < graph.n_edges; e++) {
        assert_false(signbit(graph.weights[e]));
        assert_true(features[2 * graph.rows[e]] == 10 * graph.weights[e]);
        assert_true(features[2 * graph.rows[e] + 1] == graph.weights[e]);
    }
    bool symmetric;
    assert_ok(sl_graph_is_symmetric(&graph, &symmetric));
    assert_false(symmetric); /* 2 - 4 has two weights */
    sl_graph_free(&graph);
    assert_null(graph.weights);
}

TEST(refuses_bad_weights)
{
    const sl_vertex from[] = {0, 1};
    const sl_vertex to[] = {1, 2};
    const float bad[] = {-1, INFINITY, NAN, -INFINITY, -1e-30f};
    struct sl_graph graph;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const float weights[] = {1, bad[i]};
        assert_refused(sl_graph_build(3, 2, from, to, weights, true, &graph), SL_EINVAL, "edge 1, 1 -> 2, has weight");
        assert_null(graph.sources);
    }
    const float large[] = {3e38f, 3e38f};
    assert_refused(sl_graph_build(3, 2, (sl_vertex[]){1, 1}, (sl_vertex[]){2, 3}, large, false, &graph), SL_EINVAL,
                   "edge 1 is 1 -> 3, expected ids below 3");
    assert_refused(sl_graph_build(3, 2, (sl_vertex[]){1, 1}, (sl_vertex[]){2, 2}, large, false, &graph), SL_EINVAL,
                   "the weights of 1 -> 2, listed 2 times, add up to no float");
    float features[] = {0, 3e38f, 0, 3e38f};
    const struct sl_edge_list edges = {
        3, 2, (sl_vertex[]){1, 1}, (sl_vertex[]){2, 2}, .features = features, .n_columns = 2};
    assert_refused(sl_graph_build_list(&edges, &graph), SL_EINVAL,
                   "the features of 1 -> 2, listed 2 times, add up to numbers that are not finite");
}

TEST(survives_no_memory)
{
    const sl_vertex from[] = {3, 0, 3};
    const sl_vertex to[] = {1, 1, 1};
    OWNED(sl_graph_free) struct sl_graph graph;
    bool symmetric;
    assert_survives_no_memory(sl_graph_build(5, 3, from, to, NULL, true, &graph));
    assert_survives_no_memory(sl_graph_is_symmetric(&graph, &symmetric));
}

TEST_MAIN(NULL, NULL)
