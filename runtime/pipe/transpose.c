/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * In one process: builds a graph from the reversed edges. With several ranks: each edge goes to the rank of its
 * source first. */
#include "runtime/pipe/transpose.h"

#include <string.h>

#include "support/memory.h"
#include "tasks/ranks.h"

static enum sl_status transpose_all(const struct sl_graph *graph, struct sl_graph *out)
{
    uint64_t n = 0;
    sl_vertex *from = NULL;
    sl_vertex *to = NULL;
    bool symmetric = false;
    enum sl_status st;
    SL_TRY(st, sl_graph_is_symmetric(graph, &symmetric), done);
    if (symmetric) {
        return SL_OK;
    }
    SL_TRY(st, sl_graph_list_edges(graph, false, &n, &from, &to), done);
    /* Without `once` the list has the order of the graph. */
    st = sl_graph_build_weighted(graph->n_vertices, n, to, from, sl_graph_weights(graph), false, out);
done:
    sl_free(from);
    sl_free(to);
    return st;
}

/* ---- several ranks ---- */

/* The graph of a rank's own vertices, and the first vertex of each rank. */
struct own_graph {
    const struct sl_graph *graph;
    uint32_t n_ranks;
    sl_vertex *first; /* [R + 1] */
    sl_vertex own, own_end;
};

/* The edges that a rank sends to, or receives from, each rank. An edge is two numbers: source, destination. In a
 * weighted graph the bits of the weight follow. */
struct edge_message {
    uint32_t *n;       /* [R] */
    uint32_t *numbers; /* ordered by rank */
};

static uint32_t edge_numbers(const struct sl_graph *graph)
{
    return sl_graph_weights(graph) != NULL ? 3 : 2;
}

static enum sl_status open_own_graph(const struct sl_plan *plan, const struct sl_shards *shards, struct own_graph *out)
{
    *out = (struct own_graph){.graph = &shards->partition->graph, .n_ranks = plan->n_ranks};
    SL_CHECK(sl_alloc((size_t)plan->n_ranks + 1, sizeof *out->first, "vertices of ranks", &out->first));
    for (uint32_t r = 0; r <= plan->n_ranks; r++) {
        out->first[r] = shards->partition->first[sl_plan_first_pe(plan, r)];
    }
    out->own = out->first[plan->rank];
    out->own_end = out->first[plan->rank + 1];
    return SL_OK;
}

static uint32_t rank_of(const struct own_graph *own_graph, sl_vertex id)
{
    return sl_partition_owner(own_graph->first, own_graph->n_ranks, id);
}

static uint64_t count_of(const struct edge_message *edge_message, uint32_t n_ranks)
{
    uint64_t n = 0;
    for (uint32_t r = 0; r < n_ranks; r++) {
        n += edge_message->n[r];
    }
    return n;
}

/* List own edges by the rank of their source, and for each rank in ascending order of destinations. */
static enum sl_status list_edges(const struct own_graph *own_graph, struct edge_message *out)
{
    const struct sl_graph *graph = own_graph->graph;
    uint64_t *position = NULL; /* [R + 1] */
    const float *weights = sl_graph_weights(graph);
    uint32_t per_edge = edge_numbers(graph);
    uint64_t begin = graph->offsets[own_graph->own];
    uint64_t end = graph->offsets[own_graph->own_end];
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero((size_t)own_graph->n_ranks + 1, sizeof *position, "edges for other ranks", &position),
           done);
    SL_TRY(st, sl_alloc(per_edge * (end - begin) + 1, sizeof *out->numbers, "edges for other ranks", &out->numbers),
           done);
    for (uint64_t e = begin; e < end; e++) {
        position[rank_of(own_graph, graph->sources[e]) + 1] += per_edge;
    }
    for (uint32_t r = 0; r < own_graph->n_ranks; r++) {
        if (position[r + 1] > INT32_MAX) {
            st = sl_fail(SL_EINVAL, "%llu edges for rank %u, expected at most %u from one rank; use more processes",
                         (unsigned long long)position[r + 1] / per_edge, r, INT32_MAX / per_edge);
            goto done;
        }
        out->n[r] = (uint32_t)position[r + 1];
        position[r + 1] += position[r];
    }
    for (sl_vertex v = own_graph->own; v < own_graph->own_end; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            uint64_t *next = &position[rank_of(own_graph, graph->sources[e])];
            out->numbers[(*next)++] = graph->sources[e];
            out->numbers[(*next)++] = v;
            if (weights != NULL) {
                memcpy(&out->numbers[(*next)++], &weights[e], sizeof weights[e]);
            }
        }
    }
done:
    sl_free(position);
    return st;
}

/* Build the lists of own vertices. Edges arrive in ascending order of destinations, so each list ascends. */
static enum sl_status build(const struct own_graph *own_graph, uint64_t n, const uint32_t *numbers,
                            struct sl_graph *out)
{
    uint32_t per_edge = edge_numbers(own_graph->graph);
    float *weights = NULL;
    *out = (struct sl_graph){.n_vertices = own_graph->graph->n_vertices, .n_edges = n / per_edge};
    SL_CHECK(sl_alloc_zero((size_t)out->n_vertices + 2, sizeof *out->offsets, "graph offsets", &out->offsets));
    SL_CHECK(sl_alloc(out->n_edges + 1, sizeof *out->sources, "graph edges", &out->sources));
    if (per_edge == 3) {
        SL_CHECK(sl_alloc(out->n_edges + 1, sizeof *weights, "edge weights", &weights));
        out->weights = sl_column_take(SL_DTYPE_F32, out->n_edges, 1, weights);
    }
    for (uint64_t i = 0; i < n; i += per_edge) {
        out->offsets[numbers[i] + 2]++;
    }
    for (sl_vertex v = own_graph->own; v < own_graph->own_end; v++) {
        out->offsets[v + 2] += out->offsets[v + 1];
    }
    for (uint64_t i = 0; i < n; i += per_edge) { /* advances a list's offset to the list's end */
        uint64_t e = out->offsets[numbers[i] + 1]++;
        out->sources[e] = numbers[i + 1];
        if (weights != NULL) {
            memcpy(&weights[e], &numbers[i + 2], sizeof weights[e]);
        }
    }
    return SL_OK;
}

static enum sl_status transpose_held(const struct own_graph *own_graph, struct sl_graph *out)
{
    struct edge_message to = {NULL, NULL};
    struct edge_message from = {NULL, NULL};
    enum sl_status st;
    SL_TRY(st, sl_alloc(own_graph->n_ranks, sizeof *to.n, "edges for other ranks", &to.n), done);
    SL_TRY(st, sl_alloc(own_graph->n_ranks, sizeof *from.n, "edges of other ranks", &from.n), done);
    SL_TRY(st, list_edges(own_graph, &to), done);
    SL_TRY(st, sl_ranks_swap_counts(to.n, from.n), done);
    SL_TRY(
        st,
        sl_alloc(count_of(&from, own_graph->n_ranks) + 1, sizeof *from.numbers, "edges of other ranks", &from.numbers),
        done);
    SL_TRY(st, sl_ranks_swap(to.n, to.numbers, from.n, from.numbers), done);
    st = build(own_graph, count_of(&from, own_graph->n_ranks), from.numbers, out);
done:
    sl_free(to.n);
    sl_free(from.n);
    sl_free(to.numbers);
    sl_free(from.numbers);
    return st;
}

enum sl_status sl_pipe_transpose(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_graph *out)
{
    enum sl_status st;
    *out = (struct sl_graph){0};
    if (!sl_plan_shares_ways(plan)) {
        st = transpose_all(&shards->partition->graph, out);
    } else {
        struct own_graph own_graph;
        st = open_own_graph(plan, shards, &own_graph);
        st = st == SL_OK ? transpose_held(&own_graph, out) : st;
        sl_free(own_graph.first);
    }
    if (st != SL_OK) {
        sl_graph_free(out);
    }
    return st;
}
