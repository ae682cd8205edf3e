/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Edge list to CSC. Bucket the edges by source. Then walk the sources upwards and append each to the lists of its
 * destinations. The lists come out sorted. Weights travel with the edges. The sign bit marks the weight of an added
 * reverse of a graph without relations. */
#include "data/graph.h"

#include <math.h>
#include <string.h>

#include "support/memory.h"
#include "support/minmax.h"

static enum sl_status check(const struct sl_edge_list *edges)
{
    uint32_t n = edges->n_vertices;
    SL_FAIL_IF(n == SL_NONE, SL_EINVAL, "graph: %u vertices are one more than ids of 32 bits can number", n);
    SL_FAIL_IF(edges->n > UINT64_MAX / 32, SL_ENOMEM, "graph: %llu edges are more than this machine can address",
               (unsigned long long)edges->n);
    for (uint64_t i = 0; i < edges->n; i++) {
        SL_FAIL_IF(edges->from[i] >= n || edges->to[i] >= n, SL_EINVAL,
                   "graph: edge %llu is %u -> %u, expected ids below %u", (unsigned long long)i, edges->from[i],
                   edges->to[i], n);
    }
    for (uint64_t i = 0; edges->weights != NULL && i < edges->n; i++) {
        SL_FAIL_IF(!sl_weight_is_valid(edges->weights[i]), SL_EINVAL,
                   "graph: edge %llu, %u -> %u, has weight %g; expected a finite number, 0 or more",
                   (unsigned long long)i, edges->from[i], edges->to[i], (double)edges->weights[i]);
    }
    return SL_OK;
}

/* Turn counts in a[1 .. n] into offsets in a[0 .. n]. */
static void sum_up(uint64_t *a, uint32_t n)
{
    a[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        a[i + 1] += a[i];
    }
}

/* True if the edge also counts backwards. A self loop is its own reverse. */
static inline bool doubled(const struct sl_edge_list *edges, uint64_t i)
{
    return edges->reverse && edges->from[i] != edges->to[i];
}

static void count(const struct sl_edge_list *edges, uint64_t *by_source, uint64_t *by_destination)
{
    for (uint64_t i = 0; i < edges->n; i++) {
        by_source[edges->from[i] + 1]++;
        by_destination[edges->to[i] + 1]++;
        if (doubled(edges, i)) {
            by_source[edges->to[i] + 1]++;
            by_destination[edges->from[i] + 1]++;
        }
    }
    sum_up(by_source, edges->n_vertices);
    sum_up(by_destination, edges->n_vertices);
}

/* Write each edge's destination into its source's bucket. `next` starts as the offsets of the buckets and ends as
 * the offsets of the buckets after them. */
static void bucket(const struct sl_edge_list *edges, uint64_t *next, sl_vertex *destinations)
{
    for (uint64_t i = 0; i < edges->n; i++) {
        destinations[next[edges->from[i]]++] = edges->to[i];
        if (doubled(edges, i)) {
            destinations[next[edges->to[i]]++] = edges->from[i];
        }
    }
}

/* Append the sources, in ascending order, to the lists of their destinations. `ends[u]` is the end of bucket u.
 * `next` is as in bucket(). */
static void append(uint32_t n_vertices, const uint64_t *ends, const sl_vertex *destinations, uint64_t *next,
                   sl_vertex *sources)
{
    uint64_t e = 0;
    for (uint32_t u = 0; u < n_vertices; u++) {
        for (; e < ends[u]; e++) {
            sources[next[destinations[e]]++] = u;
        }
    }
}

/* Remove repeated sources. `ends[v]` is the end of list v; `offsets` gets the final offsets. Returns the number of
 * edges left. */
static uint64_t squeeze(uint32_t n_vertices, const uint64_t *ends, uint64_t *offsets, sl_vertex *sources)
{
    uint64_t e = 0;
    uint64_t kept = 0;
    for (uint32_t v = 0; v < n_vertices; v++) {
        offsets[v] = kept;
        for (; e < ends[v]; e++) {
            if (kept == offsets[v] || sources[kept - 1] != sources[e]) {
                sources[kept++] = sources[e];
            }
        }
    }
    offsets[n_vertices] = kept;
    return kept;
}

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

/* bucket() of the weights. */
static void bucket_weights(const struct sl_edge_list *edges, uint64_t *next, float *bucketed)
{
    for (uint64_t i = 0; i < edges->n; i++) {
        float w = fabsf(edges->weights[i]); /* -0 is 0 */
        bucketed[next[edges->from[i]]++] = w;
        if (doubled(edges, i)) {
            bucketed[next[edges->to[i]]++] = -w;
        }
    }
}

/* append() of the weights. */
static void append_weights(uint32_t n_vertices, const uint64_t *ends, const sl_vertex *destinations,
                           const float *bucketed, uint64_t *next, float *weights)
{
    uint64_t e = 0;
    for (uint32_t u = 0; u < n_vertices; u++) {
        for (; e < ends[u]; e++) {
            weights[next[destinations[e]]++] = bucketed[e];
        }
    }
}

/* The weight of one edge, from its `n` entries: the sum of the listed weights, or else of the reversed weights. */
static double sum_duplicates(const float *weights, uint64_t n)
{
    double listed = 0;
    double reversed = 0;
    bool any_listed = false;
    for (uint64_t i = 0; i < n; i++) {
        if (signbit(weights[i])) {
            reversed -= (double)weights[i];
        } else {
            listed += (double)weights[i];
            any_listed = true;
        }
    }
    return any_listed ? listed : reversed;
}

static enum sl_status sum_weights(sl_vertex from, sl_vertex to, const float *weights, uint64_t n, float *out)
{
    *out = (float)sum_duplicates(weights, n);
    SL_FAIL_IF(!sl_weight_is_valid(*out), SL_EINVAL,
               "graph: the weights of %u -> %u, listed %llu times, add up to no float", from, to,
               (unsigned long long)n);
    return SL_OK;
}

/* squeeze() of the weights, before squeeze() itself. */
static enum sl_status squeeze_weights(uint32_t n_vertices, const uint64_t *ends, const sl_vertex *sources,
                                      float *weights)
{
    uint64_t e = 0;
    uint64_t kept = 0;
    for (uint32_t v = 0; v < n_vertices; v++) {
        while (e < ends[v]) {
            uint64_t first = e;
            while (e < ends[v] && sources[e] == sources[first]) {
                e++;
            }
            SL_CHECK(sum_weights(sources[first], v, weights + first, e - first, &weights[kept++]));
        }
    }
    return SL_OK;
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

/* The lists before duplicates are removed. */
struct lists {
    uint64_t *by_source;      /* N + 1: the offsets of the buckets, then their ends */
    uint64_t *by_destination; /* N + 1: the offsets of the lists, then their ends */
    sl_vertex *destinations;  /* the buckets */
    float *bucketed;
    sl_vertex *sources;
    float *weights;
};

static void free_lists(struct lists *lists)
{
    sl_free(lists->weights);
    sl_free(lists->sources);
    sl_free(lists->bucketed);
    sl_free(lists->destinations);
    sl_free(lists->by_destination);
    sl_free(lists->by_source);
}

/* Walk the edges twice for weights: the offsets of the buckets and lists are counted anew. */
static enum sl_status list_weights(const struct sl_edge_list *edges, struct lists *lists)
{
    size_t n_offsets = (size_t)edges->n_vertices + 1;
    uint64_t total = lists->by_source[edges->n_vertices];
    SL_CHECK(sl_alloc(total, sizeof *lists->bucketed, "edge weights", &lists->bucketed));
    SL_CHECK(sl_alloc(total, sizeof *lists->weights, "edge weights", &lists->weights));
    memset(lists->by_source, 0, n_offsets * sizeof *lists->by_source);
    memset(lists->by_destination, 0, n_offsets * sizeof *lists->by_destination);
    count(edges, lists->by_source, lists->by_destination);
    bucket_weights(edges, lists->by_source, lists->bucketed);
    append_weights(edges->n_vertices, lists->by_source, lists->destinations, lists->bucketed, lists->by_destination,
                   lists->weights);
    return squeeze_weights(edges->n_vertices, lists->by_destination, lists->sources, lists->weights);
}

static enum sl_status build_plain(const struct sl_edge_list *edges, struct sl_graph *out)
{
    const size_t n_offsets = (size_t)edges->n_vertices + 1;
    const bool weighted = edges->weights != NULL;
    struct lists lists = {0};
    uint64_t *offsets = NULL;
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero(n_offsets, sizeof *lists.by_source, "graph offsets", &lists.by_source), fail);
    SL_TRY(st, sl_alloc_zero(n_offsets, sizeof *lists.by_destination, "graph offsets", &lists.by_destination), fail);
    SL_TRY(st, sl_alloc(n_offsets, sizeof *offsets, "graph offsets", &offsets), fail);
    count(edges, lists.by_source, lists.by_destination);
    const uint64_t total = lists.by_source[edges->n_vertices];
    SL_TRY(st, sl_alloc(total, sizeof *lists.destinations, "graph edges", &lists.destinations), fail);
    bucket(edges, lists.by_source, lists.destinations);
    SL_TRY(st, sl_alloc(total, sizeof *lists.sources, "graph edges", &lists.sources), fail);
    append(edges->n_vertices, lists.by_source, lists.destinations, lists.by_destination, lists.sources);
    if (weighted) {
        SL_TRY(st, list_weights(edges, &lists), fail);
        sl_free(lists.bucketed);
        lists.bucketed = NULL;
    }
    sl_free(lists.destinations);
    lists.destinations = NULL;
    const uint64_t kept = squeeze(edges->n_vertices, lists.by_destination, offsets, lists.sources);
    if (kept < total) {
        SL_TRY(st, sl_realloc(&lists.sources, kept, sizeof *lists.sources, "graph edges"), fail);
    }
    if (kept < total && weighted) {
        SL_TRY(st, sl_realloc(&lists.weights, kept, sizeof *lists.weights, "edge weights"), fail);
    }
    *out = (struct sl_graph){
        .n_vertices = edges->n_vertices, .n_edges = kept, .offsets = offsets, .sources = lists.sources};
    lists.sources = NULL;
    if (weighted) {
        out->weights = sl_column_take(SL_DTYPE_F32, kept, 1, lists.weights);
        lists.weights = NULL;
    }
    free_lists(&lists);
    return SL_OK;
fail:
    sl_free(offsets);
    free_lists(&lists);
    return st;
}

enum sl_status sl_graph_build_weighted(uint32_t n_vertices, uint64_t n, const sl_vertex *from, const sl_vertex *to,
                                       const float *weights, bool reverse, struct sl_graph *out)
{
    const struct sl_edge_list edges = {
        .n_vertices = n_vertices, .n = n, .from = from, .to = to, .weights = weights, .reverse = reverse};
    return sl_graph_build_list(&edges, out);
}

enum sl_status sl_graph_build(uint32_t n_vertices, uint64_t n, const sl_vertex *from, const sl_vertex *to, bool reverse,
                              struct sl_graph *out)
{
    return sl_graph_build_weighted(n_vertices, n, from, to, NULL, reverse, out);
}

/* ---- Typed graphs ------------------------------------------------------------------------------------------------ */

/* An edge of a typed graph. */
struct typed_edge {
    sl_vertex from, to;
    uint32_t relation;
};

enum typed_key { BY_SOURCE, BY_RELATION, BY_DESTINATION };

static uint32_t key_of(const struct typed_edge *edge, enum typed_key key)
{
    if (key == BY_RELATION) {
        return edge->relation;
    }
    return key == BY_SOURCE ? edge->from : edge->to;
}

/* Edges, and their weights. NULL: none. */
struct typed_list {
    struct typed_edge *edges;
    float *weights;
};

static enum sl_status alloc_typed(uint64_t n, bool weighted, struct typed_list *out)
{
    SL_CHECK(sl_alloc(n, sizeof *out->edges, "graph edges", &out->edges));
    return weighted ? sl_alloc(n, sizeof *out->weights, "edge weights", &out->weights) : SL_OK;
}

static void free_typed(struct typed_list *list)
{
    sl_free(list->edges);
    sl_free(list->weights);
    *list = (struct typed_list){0};
}

/* A stable counting sort by one key, below n_keys. next: n_keys + 1 entries. */
static void sort_typed(uint64_t n, const struct typed_list *in, enum typed_key key, uint32_t n_keys, uint64_t *next,
                       const struct typed_list *out)
{
    memset(next, 0, ((size_t)n_keys + 1) * sizeof *next);
    for (uint64_t i = 0; i < n; i++) {
        next[key_of(&in->edges[i], key) + 1]++;
    }
    sum_up(next, n_keys);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t place = next[key_of(&in->edges[i], key)]++;
        out->edges[place] = in->edges[i];
        if (in->weights != NULL) {
            out->weights[place] = in->weights[i];
        }
    }
}

static bool equal_edges(const struct typed_edge *a, const struct typed_edge *b)
{
    return a->from == b->from && a->to == b->to && a->relation == b->relation;
}

/* The lists from edges in their order. */
static enum sl_status list_typed(uint64_t n, const struct typed_list *list, struct sl_graph *graph)
{
    float *weights = graph->weights.data;
    memset(graph->offsets, 0, ((size_t)graph->n_vertices + 1) * sizeof *graph->offsets);
    for (uint64_t i = 0, end; i < n; i = end) {
        const struct typed_edge *edge = &list->edges[i];
        end = i + 1;
        while (end < n && equal_edges(&list->edges[end], edge)) {
            end++;
        }
        if (weights != NULL) {
            SL_CHECK(sum_weights(edge->from, edge->to, list->weights + i, end - i, &weights[graph->n_edges]));
        }
        graph->sources[graph->n_edges] = edge->from;
        graph->relations[graph->n_edges++] = (uint16_t)edge->relation;
        graph->offsets[edge->to + 1]++;
    }
    sum_up(graph->offsets, graph->n_vertices);
    graph->weights.n_rows = weights != NULL ? graph->n_edges : 0;
    return SL_OK;
}

static enum sl_status check_typed(const struct sl_edge_list *edges)
{
    const uint32_t n = edges->n_relations;
    SL_FAIL_IF(n * (edges->reverse ? 2ULL : 1ULL) > SL_MAX_RELATIONS, SL_EINVAL,
               "graph: found %u relations%s, expected at most %d", n, edges->reverse ? " and their reverses" : "",
               SL_MAX_RELATIONS);
    for (uint64_t i = 0; i < edges->n; i++) {
        SL_FAIL_IF(edges->relations[i] >= n, SL_EINVAL,
                   "graph: edge %llu, %u -> %u, has relation %u; expected a relation below %u", (unsigned long long)i,
                   edges->from[i], edges->to[i], edges->relations[i], n);
    }
    return SL_OK;
}

/* All edges, with their reverses. */
static void take_typed(const struct sl_edge_list *edges, const struct typed_list *out)
{
    const uint64_t step = edges->reverse ? 2 : 1;
    for (uint64_t i = 0; i < edges->n; i++) {
        const uint32_t relation = edges->relations[i];
        struct typed_edge *edge = out->edges + step * i;
        edge[0] = (struct typed_edge){edges->from[i], edges->to[i], relation};
        if (edges->reverse) {
            edge[1] = (struct typed_edge){edges->to[i], edges->from[i], relation + edges->n_relations};
        }
        for (uint64_t k = 0; out->weights != NULL && k < step; k++) {
            out->weights[step * i + k] = fabsf(edges->weights[i]); /* -0 is 0 */
        }
    }
}

static enum sl_status build_typed(const struct sl_edge_list *edges, struct sl_graph *out)
{
    const uint32_t n_vertices = edges->n_vertices;
    const uint64_t total = edges->reverse ? 2 * edges->n : edges->n;
    const uint32_t n_all = edges->reverse ? 2 * edges->n_relations : edges->n_relations;
    struct sl_graph graph = {.n_vertices = n_vertices, .n_relations = n_all};
    const bool weighted = edges->weights != NULL;
    struct typed_list a = {0};
    struct typed_list b = {0};
    uint64_t *next = NULL;
    enum sl_status st;
    SL_TRY(st, check_typed(edges), fail);
    SL_TRY(st, alloc_typed(total, weighted, &a), fail);
    SL_TRY(st, alloc_typed(total, weighted, &b), fail);
    SL_TRY(st, sl_alloc((size_t)sl_max_u32(n_vertices, n_all) + 1, sizeof *next, "graph offsets", &next), fail);
    take_typed(edges, &a);
    sort_typed(total, &a, BY_SOURCE, n_vertices, next, &b);
    sort_typed(total, &b, BY_RELATION, n_all, next, &a);
    sort_typed(total, &a, BY_DESTINATION, n_vertices, next, &b);
    free_typed(&a);
    SL_TRY(st, sl_alloc((size_t)n_vertices + 1, sizeof *graph.offsets, "graph offsets", &graph.offsets), fail);
    SL_TRY(st, sl_alloc(total, sizeof *graph.sources, "graph edges", &graph.sources), fail);
    SL_TRY(st, sl_alloc(total, sizeof *graph.relations, "relations of edges", &graph.relations), fail);
    if (weighted) {
        float *weights;
        SL_TRY(st, sl_alloc(total, sizeof *weights, "edge weights", &weights), fail);
        graph.weights = sl_column_take(SL_DTYPE_F32, total, 1, weights);
    }
    SL_TRY(st, list_typed(total, &b, &graph), fail);
    *out = graph;
    graph = (struct sl_graph){0};
fail:
    sl_graph_free(&graph);
    sl_free(next);
    free_typed(&a);
    free_typed(&b);
    return st;
}

enum sl_status sl_graph_build_list(const struct sl_edge_list *edges, struct sl_graph *out)
{
    *out = (struct sl_graph){0};
    SL_CHECK(check(edges));
    return edges->n_relations > 0 ? build_typed(edges, out) : build_plain(edges, out);
}

/* Walk the destinations upwards. The graph is symmetric if each destination v is the next unseen source in the list
 * of each of its sources. */
static bool walk_is_symmetric(const struct sl_graph *graph, uint64_t *next)
{
    const float *weights = sl_graph_weights(graph);
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            sl_vertex u = graph->sources[e];
            if (next[u] == graph->offsets[u + 1] || graph->sources[next[u]] != v) {
                return false;
            }
            if ((weights != NULL && weights[next[u]] != weights[e]) ||
                (graph->relations != NULL && graph->relations[next[u]] != graph->relations[e])) {
                return false;
            }
            next[u]++;
        }
    }
    return true;
}

enum sl_status sl_graph_is_symmetric(const struct sl_graph *graph, bool *out)
{
    uint64_t *next;
    SL_CHECK(sl_alloc(graph->n_vertices, sizeof *next, "graph offsets", &next));
    for (uint64_t v = 0; v < graph->n_vertices; v++) {
        next[v] = graph->offsets[v];
    }
    *out = walk_is_symmetric(graph, next);
    sl_free(next);
    return SL_OK;
}

enum sl_status sl_graph_list_edges(const struct sl_graph *graph, bool once, uint64_t *n_out, sl_vertex **from_out,
                                   sl_vertex **to_out)
{
    sl_vertex *from;
    sl_vertex *to;
    uint64_t n = 0;
    enum sl_status st = SL_OK;
    SL_CHECK(sl_alloc(graph->n_edges, sizeof *from, "edge list", &from));
    st = sl_alloc(graph->n_edges, sizeof *to, "edge list", &to);
    if (st != SL_OK) {
        sl_free(from);
        return st;
    }
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            sl_vertex u = graph->sources[e];
            if (!once || v <= u) {
                from[n] = once ? v : u;
                to[n++] = once ? u : v;
            }
        }
    }
    *n_out = n;
    *from_out = from;
    *to_out = to;
    return SL_OK;
}

uint64_t sl_graph_find_edge(const struct sl_graph *graph, sl_vertex from, sl_vertex to, uint32_t relation)
{
    const uint16_t *relations = graph->relations;
    uint64_t low = graph->offsets[to];
    uint64_t high = graph->offsets[to + 1];
    const uint64_t end = high;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        bool before = graph->sources[middle] < from;
        if (relations != NULL && relations[middle] != relation) {
            before = relations[middle] < relation;
        }
        if (before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = low < end && graph->sources[low] == from && (relations == NULL || relations[low] == relation);
    return found ? low : SL_NO_EDGE;
}

enum sl_status sl_graph_copy_rest(const struct sl_graph *graph, const unsigned char *dropped, struct sl_graph *out)
{
    const float *weights = sl_graph_weights(graph);
    struct sl_graph rest = {.n_vertices = graph->n_vertices, .n_relations = graph->n_relations};
    float *kept = NULL;
    uint64_t n = 0;
    enum sl_status st;
    *out = (struct sl_graph){0};
    SL_TRY(st, sl_alloc((size_t)graph->n_vertices + 1, sizeof *rest.offsets, "graph offsets", &rest.offsets), fail);
    SL_TRY(st, sl_alloc((size_t)graph->n_edges + 1, sizeof *rest.sources, "graph edges", &rest.sources), fail);
    if (weights != NULL) {
        SL_TRY(st, sl_alloc((size_t)graph->n_edges + 1, sizeof *kept, "edge weights", &kept), fail);
        rest.weights = sl_column_take(SL_DTYPE_F32, 0, 1, kept);
    }
    if (graph->relations != NULL) {
        SL_TRY(st, sl_alloc((size_t)graph->n_edges + 1, sizeof *rest.relations, "relations of edges", &rest.relations),
               fail);
    }
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        rest.offsets[v] = n;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            if (dropped[e] != 0) {
                continue;
            }
            rest.sources[n] = graph->sources[e];
            if (weights != NULL) {
                kept[n] = weights[e];
            }
            if (graph->relations != NULL) {
                rest.relations[n] = graph->relations[e];
            }
            n++;
        }
    }
    rest.offsets[graph->n_vertices] = rest.n_edges = n;
    rest.weights.n_rows = weights != NULL ? n : 0;
    *out = rest;
    return SL_OK;
fail:
    sl_graph_free(&rest);
    return st;
}

void sl_graph_free(struct sl_graph *graph)
{
    sl_free(graph->offsets);
    sl_free(graph->sources);
    sl_free(graph->relations);
    sl_column_free(&graph->weights);
    *graph = (struct sl_graph){0};
}
