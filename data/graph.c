/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Edge list to CSC. Bucket the edges by source. Then walk the sources upwards and append each to the lists of its
 * destinations. The lists come out sorted by source; a list of a typed graph is then sorted by relation. Weights and
 * relations travel with the edges. The sign bit marks the weight of an added reverse of a graph without relations; a
 * bit marks the row of every added reverse. */
#include "data/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/memory.h"
#include "support/minmax.h"

#define REVERSED (1u << 31) /* in the row of an added reverse */

static bool is_typed(const struct sl_edge_list *edges)
{
    return edges->n_relations > 0;
}

/* Relations with those of added reverses. */
static uint64_t count_relations(const struct sl_edge_list *edges)
{
    return edges->n_relations * (edges->reverse ? 2ULL : 1ULL);
}

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
    SL_FAIL_IF(edges->features != NULL && edges->n >= REVERSED, SL_EINVAL,
               "graph: found %llu edges with features, expected at most 2^31 - 1", (unsigned long long)edges->n);
    for (uint64_t i = 0; edges->weights != NULL && i < edges->n; i++) {
        SL_FAIL_IF(!sl_weight_is_valid(edges->weights[i]), SL_EINVAL,
                   "graph: edge %llu, %u -> %u, has weight %g; expected a finite number, 0 or more",
                   (unsigned long long)i, edges->from[i], edges->to[i], (double)edges->weights[i]);
    }
    SL_FAIL_IF(count_relations(edges) > SL_MAX_RELATIONS, SL_EINVAL, "graph: found %u relations%s, expected at most %d",
               edges->n_relations, edges->reverse ? " and their reverses" : "", SL_MAX_RELATIONS);
    for (uint64_t i = 0; is_typed(edges) && i < edges->n; i++) {
        SL_FAIL_IF(edges->relations[i] >= edges->n_relations, SL_EINVAL,
                   "graph: edge %llu, %u -> %u, has relation %u; expected a relation below %u", (unsigned long long)i,
                   edges->from[i], edges->to[i], edges->relations[i], edges->n_relations);
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

/* True if the edge also counts backwards. A self loop is its own reverse, but in a typed graph of another relation. */
static inline bool doubled(const struct sl_edge_list *edges, uint64_t i)
{
    return edges->reverse && (edges->from[i] != edges->to[i] || is_typed(edges));
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

enum sl_status sl_graph_alloc_edges(uint64_t n, const struct sl_graph *like, struct sl_graph *graph)
{
    SL_CHECK(sl_realloc(&graph->sources, n, sizeof *graph->sources, "graph edges"));
    if (like->weights != NULL) {
        SL_CHECK(sl_realloc(&graph->weights, n, sizeof *graph->weights, "edge weights"));
    }
    if (like->rows != NULL) {
        SL_CHECK(sl_realloc(&graph->rows, n, sizeof *graph->rows, "rows of edges"));
    }
    if (like->relations != NULL) {
        SL_CHECK(sl_realloc(&graph->relations, n, sizeof *graph->relations, "relations of edges"));
    }
    return SL_OK;
}

static inline void put(const struct sl_edge_list *edges, uint64_t i, bool reverse, uint64_t place,
                       const struct sl_graph *out)
{
    out->sources[place] = reverse ? edges->from[i] : edges->to[i];
    if (out->weights != NULL) {
        const float w = fabsf(edges->weights[i]); /* -0 is 0 */
        out->weights[place] = reverse && out->relations == NULL ? -w : w;
    }
    if (out->relations != NULL) {
        out->relations[place] = (uint16_t)(edges->relations[i] + (reverse ? edges->n_relations : 0));
    }
    if (out->rows != NULL) {
        out->rows[place] = (uint32_t)i | (reverse ? REVERSED : 0);
    }
}

/* Write each edge's destination into its source's bucket. `next` starts as the offsets of the buckets and ends as
 * the offsets of the buckets after them. */
static void bucket(const struct sl_edge_list *edges, uint64_t *next, const struct sl_graph *reversed)
{
    for (uint64_t i = 0; i < edges->n; i++) {
        put(edges, i, false, next[edges->from[i]]++, reversed);
        if (doubled(edges, i)) {
            put(edges, i, true, next[edges->to[i]]++, reversed);
        }
    }
}

/* Copy the weight, the relation and the row of an edge, if there are some. */
static inline void copy_facts(const struct sl_graph *from, uint64_t e, const struct sl_graph *to, uint64_t place)
{
    if (to->weights != NULL) {
        to->weights[place] = from->weights[e];
    }
    if (to->relations != NULL) {
        to->relations[place] = from->relations[e];
    }
    if (to->rows != NULL) {
        to->rows[place] = from->rows[e];
    }
}

void sl_graph_copy_edges(const struct sl_graph *from, uint64_t first, uint64_t n, const struct sl_graph *to,
                         uint64_t place)
{
    for (uint64_t i = 0; i < n; i++) {
        copy_facts(from, first + i, to, place + i);
    }
}

/* Append the sources, in ascending order, to the lists of their destinations. `ends[u]` is the end of bucket u.
 * `next` is as in bucket(). */
static void append(uint32_t n_vertices, const uint64_t *ends, const struct sl_graph *reversed, uint64_t *next,
                   const struct sl_graph *made)
{
    uint64_t e = 0;
    for (uint32_t u = 0; u < n_vertices; u++) {
        for (; e < ends[u]; e++) {
            const uint64_t place = next[reversed->sources[e]]++;
            made->sources[place] = u;
            copy_facts(reversed, e, made, place);
        }
    }
}

/* ---- Lists of a typed graph -------------------------------------------------------------------------------------- */

/* An edge of a list, and its place there. */
struct typed_edge {
    uint64_t place;
    uint32_t relation;
    sl_vertex source;
    float weight;
    uint32_t row;
};

static int compare_typed(const void *a, const void *b)
{
    const struct typed_edge *x = a;
    const struct typed_edge *y = b;
    return sl_order(x->relation, y->relation, x->place, y->place);
}

static void sort_list(const struct sl_graph *lists, uint64_t begin, uint64_t end, struct typed_edge *room)
{
    bool ascends = true;
    for (uint64_t e = begin; e < end; e++) {
        ascends &= e == begin || lists->relations[e - 1] <= lists->relations[e];
        room[e - begin] = (struct typed_edge){e, lists->relations[e], lists->sources[e],
                                              lists->weights != NULL ? lists->weights[e] : 0,
                                              lists->rows != NULL ? lists->rows[e] : 0};
    }
    if (ascends) {
        return;
    }
    qsort(room, end - begin, sizeof *room, compare_typed);
    for (uint64_t e = begin; e < end; e++, room++) {
        lists->relations[e] = (uint16_t)room->relation;
        lists->sources[e] = room->source;
        if (lists->weights != NULL) {
            lists->weights[e] = room->weight;
        }
        if (lists->rows != NULL) {
            lists->rows[e] = room->row;
        }
    }
}

/* Sort the lists by relation, then by source. `ends[v]` is the end of list v. */
static enum sl_status sort_lists(uint32_t n_vertices, const uint64_t *ends, const struct sl_graph *lists)
{
    SL_FREED struct typed_edge *room = NULL;
    uint64_t longest = 0;
    for (uint32_t v = 0; v < n_vertices; v++) {
        longest = sl_max_u64(longest, ends[v] - (v > 0 ? ends[v - 1] : 0));
    }
    SL_CHECK(sl_alloc(longest, sizeof *room, "edges of a vertex", &room));
    for (uint32_t v = 0; v < n_vertices; v++) {
        sort_list(lists, v > 0 ? ends[v - 1] : 0, ends[v], room);
    }
    return SL_OK;
}

/* ---- Duplicates -------------------------------------------------------------------------------------------------- */

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

/* Find the row of one edge, from its `n` entries: the first listed row gets the sum of the listed rows. If all are
 * reverses: the row of the first, where their edges have their sum. False: a sum is not finite. */
static bool sum_rows(const struct sl_edge_list *edges, const uint32_t *rows, uint64_t n, uint32_t *out)
{
    float *sum = NULL;
    bool finite = true;
    *out = rows[0] & ~REVERSED;
    for (uint64_t i = 0; i < n; i++) {
        const float *row = edges->features + (size_t)(rows[i] & ~REVERSED) * edges->n_columns;
        if ((rows[i] & REVERSED) != 0) {
            continue;
        }
        if (sum == NULL) {
            *out = rows[i];
            sum = edges->features + (size_t)rows[i] * edges->n_columns;
            continue;
        }
        for (uint32_t c = 0; c < edges->n_columns; c++) {
            sum[c] += row[c];
            finite &= isfinite(sum[c]) != 0;
        }
    }
    return finite;
}

/* Make one edge of entries first .. end - 1 of v's list, in place `kept`. */
static enum sl_status merge(const struct sl_edge_list *edges, const struct sl_graph *lists, sl_vertex v, uint64_t first,
                            uint64_t end, uint64_t kept)
{
    lists->sources[kept] = lists->sources[first];
    if (lists->relations != NULL) {
        lists->relations[kept] = lists->relations[first];
    }
    if (lists->weights != NULL) {
        const float sum = (float)sum_duplicates(lists->weights + first, end - first);
        SL_FAIL_IF(!sl_weight_is_valid(sum), SL_EINVAL,
                   "graph: the weights of %u -> %u, listed %llu times, add up to no float", lists->sources[kept], v,
                   (unsigned long long)(end - first));
        lists->weights[kept] = sum;
    }
    SL_FAIL_IF(lists->rows != NULL && !sum_rows(edges, lists->rows + first, end - first, &lists->rows[kept]), SL_EINVAL,
               "graph: the features of %u -> %u, listed %llu times, add up to numbers that are not finite",
               lists->sources[kept], v, (unsigned long long)(end - first));
    return SL_OK;
}

/* Merge equal edges. `ends[v]` is the end of list v; the graph gets its offsets. */
static enum sl_status squeeze(const struct sl_edge_list *edges, const uint64_t *ends, struct sl_graph *graph)
{
    const uint16_t *relations = graph->relations;
    uint64_t e = 0;
    uint64_t kept = 0;
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        graph->offsets[v] = kept;
        while (e < ends[v]) {
            const uint64_t first = e++;
            while (e < ends[v] && graph->sources[e] == graph->sources[first] &&
                   (relations == NULL || relations[e] == relations[first])) {
                e++;
            }
            SL_CHECK(merge(edges, graph, v, first, e, kept++));
        }
    }
    graph->offsets[graph->n_vertices] = graph->n_edges = kept;
    return SL_OK;
}

/* ---- Building ---------------------------------------------------------------------------------------------------- */

enum sl_status sl_graph_build_list(const struct sl_edge_list *edges, struct sl_graph *out)
{
    const uint32_t n_vertices = edges->n_vertices;
    const size_t n_offsets = (size_t)n_vertices + 1;
    SL_FREED uint64_t *by_source = NULL;                    /* the offsets of the buckets, then their ends */
    SL_FREED uint64_t *by_destination = NULL;               /* the offsets of the lists, then their ends */
    SL_OWNED(sl_graph_free) struct sl_graph reversed = {0}; /* the buckets */
    SL_OWNED(sl_graph_free) struct sl_graph made = {.n_vertices = n_vertices};
    /* tells which arrays there are; is not read */
    const struct sl_graph like = {.weights = (float *)(uintptr_t)edges->weights,
                                  .relations = is_typed(edges) ? (uint16_t *)(uintptr_t)edges->relations : NULL,
                                  .rows = (uint32_t *)(void *)edges->features};
    *out = (struct sl_graph){0};
    SL_CHECK(check(edges));
    SL_CHECK(sl_alloc_zero(n_offsets, sizeof *by_source, "graph offsets", &by_source));
    SL_CHECK(sl_alloc_zero(n_offsets, sizeof *by_destination, "graph offsets", &by_destination));
    SL_CHECK(sl_alloc(n_offsets, sizeof *made.offsets, "graph offsets", &made.offsets));
    count(edges, by_source, by_destination);
    const uint64_t total = by_source[n_vertices];
    SL_CHECK(sl_graph_alloc_edges(total, &like, &reversed));
    bucket(edges, by_source, &reversed);
    SL_CHECK(sl_graph_alloc_edges(total, &like, &made));
    append(n_vertices, by_source, &reversed, by_destination, &made);
    sl_graph_free(&reversed);
    if (is_typed(edges)) {
        SL_CHECK(sort_lists(n_vertices, by_destination, &made));
    }
    SL_CHECK(squeeze(edges, by_destination, &made));
    if (made.n_edges < total) {
        SL_CHECK(sl_graph_alloc_edges(made.n_edges, &made, &made)); /* give back the memory of merged edges */
    }
    made.n_relations = (uint32_t)count_relations(edges);
    *out = SL_TAKE(made);
    return SL_OK;
}

enum sl_status sl_graph_build(uint32_t n_vertices, uint64_t n, const sl_vertex *from, const sl_vertex *to,
                              const float *weights, bool reverse, struct sl_graph *out)
{
    const struct sl_edge_list edges = {
        .n_vertices = n_vertices, .n = n, .from = from, .to = to, .weights = weights, .reverse = reverse};
    return sl_graph_build_list(&edges, out);
}

/* Walk the destinations upwards. The graph is symmetric if each destination v is the next unseen source in the list
 * of each of its sources. */
static bool walk_is_symmetric(const struct sl_graph *graph, uint64_t *next)
{
    const float *weights = graph->weights;
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
    SL_FREED uint64_t *next = NULL;
    SL_CHECK(sl_alloc(graph->n_vertices, sizeof *next, "graph offsets", &next));
    for (uint64_t v = 0; v < graph->n_vertices; v++) {
        next[v] = graph->offsets[v];
    }
    *out = walk_is_symmetric(graph, next);
    return SL_OK;
}

enum sl_status sl_graph_list_edges(const struct sl_graph *graph, bool once, uint64_t *n_out, sl_vertex **from_out,
                                   sl_vertex **to_out)
{
    SL_FREED sl_vertex *from = NULL;
    SL_FREED sl_vertex *to = NULL;
    uint64_t n = 0;
    SL_CHECK(sl_alloc(graph->n_edges, sizeof *from, "edge list", &from));
    SL_CHECK(sl_alloc(graph->n_edges, sizeof *to, "edge list", &to));
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
    *from_out = SL_TAKE(from);
    *to_out = SL_TAKE(to);
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
    SL_OWNED(sl_graph_free) struct sl_graph rest = {.n_vertices = graph->n_vertices, .n_relations = graph->n_relations};
    uint64_t n = 0;
    *out = (struct sl_graph){0};
    SL_CHECK(sl_alloc((size_t)graph->n_vertices + 1, sizeof *rest.offsets, "graph offsets", &rest.offsets));
    SL_CHECK(sl_graph_alloc_edges(graph->n_edges, graph, &rest));
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        rest.offsets[v] = n;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            if (dropped[e] != 0) {
                continue;
            }
            rest.sources[n] = graph->sources[e];
            copy_facts(graph, e, &rest, n++);
        }
    }
    rest.offsets[graph->n_vertices] = rest.n_edges = n;
    *out = SL_TAKE(rest);
    return SL_OK;
}

void sl_graph_free(struct sl_graph *graph)
{
    sl_free(graph->offsets);
    sl_free(graph->sources);
    sl_free(graph->relations);
    sl_free(graph->weights);
    sl_free(graph->rows);
    *graph = (struct sl_graph){0};
}
