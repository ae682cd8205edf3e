/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The small graphs that tests use everywhere, as datasets and partitions in memory: features, labels and splits are
 * functions of (seed, vertex), so that each is the same at every run. All of it belongs to support/memory.h: give it
 * back with sl_dataset_free and sl_partition_free. */
#ifndef SL_TESTS_GRAPH_FIXTURE_H
#define SL_TESTS_GRAPH_FIXTURE_H

#include <stdio.h>

#include "data/dataset.h"
#include "partition/partition.h"
#include "support/memory.h"
#include "tests/support/kernel.h"

/* Each graph's edges, from -> to. Lists are given to free_edges. */
struct edge_list {
    uint32_t n_vertices;
    uint64_t n, room;
    sl_vertex *from;
    sl_vertex *to;
};

enum graph_kind {
    GRAPH_PATH,        /* 0 - 1 - 2 - .. */
    GRAPH_STAR,        /* all others -> n / 2 */
    GRAPH_TWO_CLIQUES, /* all pairs within 0 .. n/2 - 1, and within the rest */
    GRAPH_LONELY,      /* a path, but the last vertex has no edge and the one before it a self loop alone */
    GRAPH_POWER_LAW,   /* see add_power_law; n >= 8 */
    N_GRAPHS
};

static MAYBE_UNUSED const char *const graph_names[N_GRAPHS] = {"path", "star", "two cliques", "lonely", "power law"};

/* What to make of a graph. Zero means the default in brackets. */
struct graph_shape {
    enum graph_kind kind;
    uint32_t n_vertices;
    uint32_t hub_degree;     /* power law: in-neighbours of the hub, below n - 2 [n / 3] */
    bool self_loops;         /* power law: every third vertex has one */
    bool directed;           /* leave the edges as they are; else each edge's reverse is added */
    uint32_t n_columns;      /* of the features [5] */
    uint32_t n_classes;      /* [3] */
    bool sparse;             /* features as CSR, about a twelfth of them non-zero */
    bool weighted;           /* edges have weights, a quarter of them zero */
    uint32_t n_edge_columns; /* features of edges, a row for every two edges far apart. 0: none */
    uint32_t n_relations;    /* a typed graph: each edge has a relation, and every fifth edge a second one. 0: none */
    uint64_t seed;
};

/* A random 64-bit number; `what` keeps the uses apart. */
static MAYBE_UNUSED uint64_t graph_random(const struct graph_shape *shape, uint32_t purpose, uint32_t i, uint32_t j)
{
    struct sl_draw draw = {.seed = shape->seed, .purpose = SL_FOR_GENERATOR, .step = purpose};
    return sl_random_u64(&draw, i, j);
}

static MAYBE_UNUSED double graph_unit(const struct graph_shape *shape, uint32_t purpose, uint32_t i, uint32_t j)
{
    return (double)(graph_random(shape, purpose, i, j) >> 11) * 0x1p-53;
}

static MAYBE_UNUSED void add_edge(struct edge_list *edges, sl_vertex from, sl_vertex to)
{
    if (edges->n == edges->room) {
        edges->room = 2 * edges->room + 64;
        edges->from = realloc(edges->from, edges->room * sizeof *edges->from);
        edges->to = realloc(edges->to, edges->room * sizeof *edges->to);
        assert_true(edges->from != NULL && edges->to != NULL);
    }
    edges->from[edges->n] = from;
    edges->to[edges->n++] = to;
}

static MAYBE_UNUSED void free_edges(struct edge_list *edges)
{
    free(edges->from);
    free(edges->to);
    *edges = (struct edge_list){0};
}

static MAYBE_UNUSED void add_clique(struct edge_list *edges, sl_vertex first, sl_vertex end)
{
    for (sl_vertex u = first; u < end; u++) {
        for (sl_vertex v = first; v < end; v++) {
            if (u != v) {
                add_edge(edges, u, v);
            }
        }
    }
}

/* Three random edges per vertex towards a skewed choice of destinations (density falls with the cube root of the
 * id), and the hub, n / 2, with its in-neighbours. Vertex n - 1 has no edge, n - 2 a self loop alone. Edges may
 * repeat. */
static MAYBE_UNUSED void add_power_law(const struct graph_shape *shape, struct edge_list *edges)
{
    uint32_t n = shape->n_vertices - 2;
    uint32_t hub = shape->n_vertices / 2;
    uint32_t hub_degree = shape->hub_degree > 0 ? shape->hub_degree : shape->n_vertices / 3;
    assert_true(hub_degree < n);
    for (uint32_t v = 0; v < n; v++) {
        for (uint32_t i = 0; i < 3; i++) {
            double u = graph_unit(shape, 1, v, i);
            sl_vertex to = (sl_vertex)(n * u * u * u);
            if (to != hub && v != hub) {
                add_edge(edges, v, to);
            }
        }
        if (shape->self_loops && v % 3 == 0) {
            add_edge(edges, v, v);
        }
    }
    for (uint32_t i = 0, v = 0; i < hub_degree; v++) {
        if (v != hub) {
            add_edge(edges, v, hub);
            i++;
        }
    }
    add_edge(edges, n, n);
}

static MAYBE_UNUSED struct edge_list make_edges(const struct graph_shape *shape)
{
    uint32_t n = shape->n_vertices;
    struct edge_list edges = {.n_vertices = n};
    switch (shape->kind) {
    case GRAPH_PATH:
        for (sl_vertex v = 0; v + 1 < n; v++) {
            add_edge(&edges, v, v + 1);
        }
        break;
    case GRAPH_STAR:
        for (sl_vertex v = 0; v < n; v++) {
            if (v != n / 2) {
                add_edge(&edges, v, n / 2);
            }
        }
        break;
    case GRAPH_TWO_CLIQUES:
        add_clique(&edges, 0, n / 2);
        add_clique(&edges, n / 2, n);
        break;
    case GRAPH_LONELY:
        for (sl_vertex v = 0; v + 3 < n; v++) {
            add_edge(&edges, v, v + 1);
        }
        add_edge(&edges, n - 2, n - 2);
        break;
    case GRAPH_POWER_LAW: add_power_law(shape, &edges); break;
    default: fail_msg("no such graph: %d", (int)shape->kind);
    }
    return edges;
}

/* An allocation that a test may well die of not having, released by the struct's own free function. */
static MAYBE_UNUSED void *need_owned(size_t count, size_t size)
{
    void *block = NULL;
    assert_int_equal(sl_alloc_zero(count, size, "a test's dataset", &block), SL_OK);
    return block;
}

/* Entry (v, j): noise, and one more where j is the label's. */
static MAYBE_UNUSED float feature_of(const struct graph_shape *shape, const struct sl_dataset *dataset, uint32_t v,
                                     uint32_t j)
{
    int32_t label = dataset->targets.classes[v];
    return (float)(2 * graph_unit(shape, 2, v, j) - 1 +
                   (label >= 0 && j % dataset->targets.n_classes == (uint32_t)label));
}

static MAYBE_UNUSED void make_dense_features(const struct graph_shape *shape, struct sl_dataset *dataset)
{
    struct sl_features *x = &dataset->features;
    float *dense = need_owned((size_t)x->n_rows * x->n_columns, sizeof *dense);
    x->dense = sl_column_take(SL_DTYPE_F32, x->n_rows, x->n_columns, dense);
    for (uint32_t v = 0; v < x->n_rows; v++) {
        for (uint32_t j = 0; j < x->n_columns; j++) {
            dense[(size_t)v * x->n_columns + j] = feature_of(shape, dataset, v, j);
        }
    }
}

static MAYBE_UNUSED void make_sparse_features(const struct graph_shape *shape, struct sl_dataset *dataset)
{
    struct sl_features *x = &dataset->features;
    size_t room = (size_t)x->n_rows * x->n_columns;
    x->offsets = need_owned((size_t)x->n_rows + 1, sizeof *x->offsets);
    x->columns = need_owned(room, sizeof *x->columns);
    x->values = need_owned(room, sizeof *x->values);
    uint64_t n = 0;
    for (uint32_t v = 0; v < x->n_rows; v++) {
        for (uint32_t j = 0; j < x->n_columns; j++) {
            if (graph_random(shape, 3, v, j) % 12 == 0) {
                x->columns[n] = j;
                x->values[n++] = feature_of(shape, dataset, v, j);
            }
        }
        x->offsets[v + 1] = n;
    }
}

static MAYBE_UNUSED void add_id(struct sl_ids *ids, sl_vertex v)
{
    ids->ids[ids->n++] = v;
}

/* Half the vertices train, a fifth each validate and test, the rest has no label; 0, 1, 2 are one of each. */
static MAYBE_UNUSED void make_split(const struct graph_shape *shape, struct sl_dataset *dataset)
{
    uint32_t n = dataset->graph.n_vertices;
    dataset->targets.n_rows = n;
    dataset->targets.classes = need_owned(n, sizeof *dataset->targets.classes);
    dataset->train.ids = need_owned(n, sizeof(sl_vertex));
    dataset->valid.ids = need_owned(n, sizeof(sl_vertex));
    dataset->test.ids = need_owned(n, sizeof(sl_vertex));
    for (sl_vertex v = 0; v < n; v++) {
        static const uint32_t first_draws[3] = {0, 5, 7};
        uint32_t draw = v < 3 ? first_draws[v] : (uint32_t)(graph_random(shape, 4, v, 0) % 10);
        dataset->targets.classes[v] =
            draw < 9 ? (int32_t)(graph_random(shape, 5, v, 0) % dataset->targets.n_classes) : -1;
        if (draw < 9) {
            add_id(draw < 5 ? &dataset->train : draw < 7 ? &dataset->valid : &dataset->test, v);
        }
    }
}

/* Weights of the edges u -> v: zero, or between 0 and 4. */
static MAYBE_UNUSED void make_weights(const struct graph_shape *shape, struct sl_graph *graph)
{
    graph->weights = need_owned(graph->n_edges, sizeof *graph->weights);
    for (sl_vertex v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            double u = graph_unit(shape, 7, v, graph->sources[e]);
            graph->weights[e] = u < 0.25 ? 0 : (float)(u * u * 4);
        }
    }
}

static MAYBE_UNUSED void make_edge_features(const struct graph_shape *shape, struct sl_dataset *dataset)
{
    struct sl_edge_features *table = &dataset->edge_features;
    *table = (struct sl_edge_features){dataset->graph.n_edges / 2 + 1, shape->n_edge_columns, NULL};
    table->values = need_owned(table->n_rows * table->n_columns, sizeof *table->values);
    dataset->graph.rows = need_owned(dataset->graph.n_edges, sizeof *dataset->graph.rows);
    for (uint64_t i = 0; i < table->n_rows * table->n_columns; i++) {
        table->values[i] = (float)(2 * graph_unit(shape, 9, (sl_vertex)i, 0) - 1);
    }
    for (uint64_t e = 0; e < dataset->graph.n_edges; e++) {
        dataset->graph.rows[e] = (uint32_t)(e % table->n_rows);
    }
}

/* A typed graph of a list of edges. */
static MAYBE_UNUSED enum sl_status build_typed(uint32_t n_vertices, uint64_t n, const sl_vertex *from,
                                               const sl_vertex *to, const uint16_t *relations, uint32_t n_relations,
                                               bool reverse, struct sl_graph *out)
{
    const struct sl_edge_list list = {n_vertices, n, from, to, NULL, relations, n_relations, reverse, NULL, 0};
    return sl_graph_build_list(&list, out);
}

/* Give the edges relations. */
static MAYBE_UNUSED void make_typed(const struct graph_shape *shape, struct sl_graph *graph)
{
    struct sl_graph plain = *graph;
    sl_vertex *from = need(2 * plain.n_edges, sizeof *from);
    sl_vertex *to = need(2 * plain.n_edges, sizeof *to);
    uint16_t *relations = need(2 * plain.n_edges, sizeof *relations);
    uint64_t n = 0;
    for (sl_vertex v = 0; v < plain.n_vertices; v++) {
        for (uint64_t e = plain.offsets[v]; e < plain.offsets[v + 1]; e++) {
            const uint64_t random = graph_random(shape, 8, v, plain.sources[e]);
            const uint32_t n_same = random % 5 == 0 && shape->n_relations > 1 ? 2 : 1;
            for (uint32_t k = 0; k < n_same; k++) {
                from[n] = plain.sources[e];
                to[n] = v;
                relations[n++] = (uint16_t)((random / 5 + k) % shape->n_relations);
            }
        }
    }
    assert_int_equal(build_typed(plain.n_vertices, n, from, to, relations, shape->n_relations, false, graph), SL_OK);
    assert_int_equal(graph->n_edges, n);
    sl_graph_free(&plain);
    free(from);
    free(to);
    free(relations);
}

static MAYBE_UNUSED void make_dataset(const struct graph_shape *shape, struct sl_dataset *out)
{
    struct edge_list edges = make_edges(shape);
    *out = (struct sl_dataset){.targets = {.width = 1, .n_classes = shape->n_classes > 0 ? shape->n_classes : 3}};
    assert_int_equal(
        sl_graph_build(edges.n_vertices, edges.n, edges.from, edges.to, NULL, !shape->directed, &out->graph), SL_OK);
    free_edges(&edges);
    if (shape->n_relations > 0) {
        make_typed(shape, &out->graph);
    }
    if (shape->weighted) {
        make_weights(shape, &out->graph);
    }
    if (shape->n_edge_columns > 0) {
        make_edge_features(shape, out);
    }
    snprintf(out->name, sizeof out->name, "test %s", graph_names[shape->kind]);
    snprintf(out->split, sizeof out->split, "only");
    out->features.n_rows = shape->n_vertices;
    out->features.n_columns = shape->n_columns > 0 ? shape->n_columns : 5;
    make_split(shape, out);
    if (shape->sparse) {
        make_sparse_features(shape, out);
    } else {
        make_dense_features(shape, out);
    }
}

/* A partition by a list of each vertex's part, written plainly and apart from partition/partition.c; parts may be
 * empty. Its n_cut and balance stay zero. */
static MAYBE_UNUSED void make_partition(const struct sl_graph *graph, uint32_t n_parts, const uint32_t *parts,
                                        struct sl_partition *out)
{
    uint32_t n = graph->n_vertices;
    *out = (struct sl_partition){.n_parts = n_parts};
    out->first = need_owned((size_t)n_parts + 1, sizeof *out->first);
    out->dataset_ids = need_owned(n, sizeof *out->dataset_ids);
    out->new_ids = need_owned(n, sizeof *out->new_ids);
    uint32_t id = 0;
    for (uint32_t q = 0; q < n_parts; q++) {
        for (sl_vertex v = 0; v < n; v++) {
            if (parts[v] == q) {
                out->dataset_ids[id] = v;
                out->new_ids[v] = id++;
            }
        }
        out->first[q + 1] = id;
    }
    assert_int_equal(id, n);
    out->graph = (struct sl_graph){.n_vertices = n, .n_edges = graph->n_edges};
    out->graph.offsets = need_owned((size_t)n + 1, sizeof *out->graph.offsets);
    out->graph.n_relations = graph->n_relations;
    assert_int_equal(sl_graph_alloc_edges(graph->n_edges, graph, &out->graph), SL_OK);
    uint64_t e = 0;
    for (id = 0; id < n; id++) {
        sl_vertex v = out->dataset_ids[id];
        for (uint64_t i = graph->offsets[v]; i < graph->offsets[v + 1]; i++) {
            sl_graph_copy_edges(graph, i, 1, &out->graph, e);
            out->graph.sources[e++] = out->new_ids[graph->sources[i]];
        }
        out->graph.offsets[id + 1] = e;
    }
}

/* Parts chosen by hash, without any balance: every `empty`-th part (1-based; 0: none) gets no vertex at all. */
static MAYBE_UNUSED void make_uneven_partition(const struct sl_graph *graph, uint32_t n_parts, uint32_t empty,
                                               uint64_t seed, struct sl_partition *out)
{
    struct graph_shape shape = {.seed = seed};
    uint32_t *parts = need(graph->n_vertices, sizeof *parts);
    for (sl_vertex v = 0; v < graph->n_vertices; v++) {
        uint32_t j = 0;
        do {
            double u = graph_unit(&shape, 6, v, j++);
            parts[v] = (uint32_t)(n_parts * u * u);
        } while (empty > 0 && (parts[v] + 1) % empty == 0 && empty <= n_parts && j < 1000);
    }
    make_partition(graph, n_parts, parts, out);
    free(parts);
}

#endif
