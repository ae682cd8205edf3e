/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lists and tables of full-graph training, built from the shards' graph. */
#include "runtime/pipe/chunk_graph.h"

#include <string.h>

#include "codelets/ends/score.h"
#include "support/memory.h"
#include "support/random.h"
#include "tasks/ranks.h"
#include "tasks/rows.h"

/* ---- the transposed graph ---- */

static enum sl_status transpose_all(const struct sl_graph *graph, struct sl_graph *out)
{
    uint64_t n = 0;
    SL_FREED sl_vertex *from = NULL;
    SL_FREED sl_vertex *to = NULL;
    bool symmetric = false;
    SL_CHECK(sl_graph_is_symmetric(graph, &symmetric));
    if (symmetric) {
        return SL_OK;
    }
    SL_CHECK(sl_graph_list_edges(graph, false, &n, &from, &to));
    /* Without `once` the list has the order of the graph. */
    return sl_graph_build(graph->n_vertices, n, to, from, graph->weights, false, out);
}

/* With several ranks each edge goes to the rank of its source first. */

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

static void close_message(struct edge_message *message)
{
    sl_free(message->n);
    sl_free(message->numbers);
}

static uint32_t edge_numbers(const struct sl_graph *graph)
{
    return graph->weights != NULL ? 3 : 2;
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

static void close_own_graph(struct own_graph *own_graph)
{
    sl_free(own_graph->first);
}

static uint32_t rank_of(const struct own_graph *own_graph, sl_vertex id)
{
    return sl_partition_owner(own_graph->first, own_graph->n_ranks, id);
}

/* List own edges by the rank of their source, and for each rank in ascending order of destinations. */
static enum sl_status list_edges(const struct own_graph *own_graph, struct edge_message *out)
{
    const struct sl_graph *graph = own_graph->graph;
    SL_FREED uint64_t *position = NULL; /* [R + 1] */
    const float *weights = graph->weights;
    uint32_t per_edge = edge_numbers(graph);
    uint64_t begin = graph->offsets[own_graph->own];
    uint64_t end = graph->offsets[own_graph->own_end];
    SL_CHECK(sl_alloc_zero((size_t)own_graph->n_ranks + 1, sizeof *position, "edges for other ranks", &position));
    SL_CHECK(sl_alloc(per_edge * (end - begin) + 1, sizeof *out->numbers, "edges for other ranks", &out->numbers));
    for (uint64_t e = begin; e < end; e++) {
        position[rank_of(own_graph, graph->sources[e]) + 1] += per_edge;
    }
    for (uint32_t r = 0; r < own_graph->n_ranks; r++) {
        SL_FAIL_IF(position[r + 1] > INT32_MAX, SL_EINVAL,
                   "%llu edges for rank %u, expected at most %u from one rank; use more processes",
                   (unsigned long long)position[r + 1] / per_edge, r, INT32_MAX / per_edge);
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
    return SL_OK;
}

/* Build the lists of own vertices. Edges arrive in ascending order of destinations, so each list ascends. */
static enum sl_status build(const struct own_graph *own_graph, uint64_t n, const uint32_t *numbers,
                            struct sl_graph *out)
{
    uint32_t per_edge = edge_numbers(own_graph->graph);
    *out = (struct sl_graph){.n_vertices = own_graph->graph->n_vertices, .n_edges = n / per_edge};
    SL_CHECK(sl_alloc_zero((size_t)out->n_vertices + 2, sizeof *out->offsets, "graph offsets", &out->offsets));
    SL_CHECK(sl_graph_alloc_edges(out->n_edges, own_graph->graph, out));
    for (uint64_t i = 0; i < n; i += per_edge) {
        out->offsets[numbers[i] + 2]++;
    }
    for (sl_vertex v = own_graph->own; v < own_graph->own_end; v++) {
        out->offsets[v + 2] += out->offsets[v + 1];
    }
    for (uint64_t i = 0; i < n; i += per_edge) { /* advances a list's offset to the list's end */
        uint64_t e = out->offsets[numbers[i] + 1]++;
        out->sources[e] = numbers[i + 1];
        if (out->weights != NULL) {
            memcpy(&out->weights[e], &numbers[i + 2], sizeof out->weights[e]);
        }
    }
    return SL_OK;
}

static enum sl_status transpose_held(const struct own_graph *own_graph, struct sl_graph *out)
{
    SL_OWNED(close_message) struct edge_message to = {NULL, NULL};
    SL_OWNED(close_message) struct edge_message from = {NULL, NULL};
    uint64_t n = 0;
    SL_CHECK(sl_alloc(own_graph->n_ranks, sizeof *to.n, "edges for other ranks", &to.n));
    SL_CHECK(sl_alloc(own_graph->n_ranks, sizeof *from.n, "edges of other ranks", &from.n));
    SL_CHECK(list_edges(own_graph, &to));
    SL_CHECK(sl_ranks_swap(to.n, to.numbers, from.n, &from.numbers));
    for (uint32_t r = 0; r < own_graph->n_ranks; r++) {
        n += from.n[r];
    }
    return build(own_graph, n, from.numbers, out);
}

/* The transposed graph, which the backward pass reads: the out-neighbours of each vertex, in ascending order of ids.
 * If ranks share the ways (sl_plan_shares_ways), a rank gets the lists of its own vertices, and
 * remote ranks send it the edges into their vertices. Otherwise a rank gets all lists. *out is empty if the graph is
 * symmetric. Collective, as sl_ranks_broadcast. SL_EINVAL: 2^30 or more edges for one rank. SL_EIO,
 * SL_ENOMEM. */
static enum sl_status transpose(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_graph *out)
{
    if (!sl_plan_shares_ways(plan)) {
        return transpose_all(&shards->partition->graph, out);
    }
    SL_OWNED(close_own_graph) struct own_graph own_graph = {0};
    SL_CHECK(open_own_graph(plan, shards, &own_graph));
    return transpose_held(&own_graph, out);
}

/* ---- tables ---- */

/* The chunk of each number. */
static enum sl_status fill_parts(uint32_t n_chunks, struct sl_pipe_side *side)
{
    uint32_t n = side->first_of[n_chunks];
    SL_CHECK(sl_alloc((size_t)n + 1, sizeof *side->part_of, "chunks of the vertices", &side->part_of));
    for (uint32_t q = 0; q < n_chunks; q++) {
        for (uint32_t v = side->first_of[q]; v < side->first_of[q + 1]; v++) {
            side->part_of[v] = (uint16_t)q;
        }
    }
    side->parts = sl_vector_readable(side->part_of, n, sizeof *side->part_of);
    return SL_OK;
}

static void fill_side(const struct sl_shards *shards, const struct sl_halo *halo, struct sl_pipe_side *out)
{
    *out =
        (struct sl_pipe_side){.first_of = shards->partition->first, .first = shards->first, .factors = shards->factors};
    if (halo != NULL) {
        *out = (struct sl_pipe_side){
            .halo = halo, .first_of = halo->first, .first = halo->first_handle, .factors = halo->factors};
    }
}

/* Copy the in-edges of own chunks and number them. Evaluation numbers the shards' edges differently. */
static enum sl_status number_edges(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_pipe_graph *g)
{
    const struct sl_graph *graph = &shards->partition->graph;
    SL_CHECK(sl_halo_open(plan, shards, graph, &g->in_halo));
    uint64_t begin = graph->offsets[g->in_halo.ids.own];
    uint64_t n = graph->offsets[g->in_halo.ids.own_end] - begin;
    SL_CHECK(sl_alloc(n + 1, sizeof *g->sources, "edges of the chunks", &g->sources));
    memcpy(g->sources, graph->sources + begin, n * sizeof *g->sources);
    g->numbered.sources = g->sources - begin;
    sl_halo_stay(&g->in_halo, &g->numbered);
    return SL_OK;
}

/* The halo of in-edges: a halo of this crew, or the shards' halo if this is the only crew. */
static enum sl_status open_in_halo(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_pipe_graph *g,
                                   const struct sl_halo **out)
{
    if (plan->n_crews > 1) {
        *out = &g->in_halo;
        return number_edges(plan, shards, g);
    }
    sl_halo_stay(shards->halo, &shards->partition->graph);
    *out = shards->halo;
    return SL_OK;
}

static enum sl_status open_sides(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_pipe_graph *g)
{
    bool several = sl_plan_shares_ways(plan);
    const struct sl_halo *in = NULL;
    if (several) {
        SL_CHECK(sl_halo_open(plan, shards, &g->transposed, &g->halo));
        SL_CHECK(open_in_halo(plan, shards, g, &in));
    }
    fill_side(shards, in, &g->in);
    SL_CHECK(fill_parts(g->n_chunks, &g->in));
    if (several) {
        sl_halo_stay(&g->halo, &g->transposed);
        fill_side(shards, &g->halo, &g->out);
        return fill_parts(g->n_chunks, &g->out);
    }
    g->out = g->in;
    g->out.part_of = NULL;
    return SL_OK;
}

static void *train_row(const struct sl_shards *shards, const struct sl_pipe_graph *g, sl_vertex v)
{
    return (char *)g->train_targets + (size_t)v * shards->targets.width * SL_TARGET_BYTES;
}

static enum sl_status fill_targets(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_pipe_graph *g)
{
    size_t row_bytes = (size_t)shards->targets.width * SL_TARGET_BYTES;
    SL_CHECK(sl_alloc((size_t)shards->n_vertices + 1, row_bytes, "training targets", &g->train_targets));
    for (uint32_t v = shards->part[plan->first_pe].first; v < shards->part[plan->end_pe - 1].end; v++) {
        if (shards->set_of[v] == SL_SET_TRAIN) {
            memcpy(train_row(shards, g, v), sl_shards_targets(shards, v), row_bytes);
        } else {
            memset(train_row(shards, g, v), 0xff, row_bytes); /* unknown */
        }
    }
    return SL_OK;
}

/* Mark each chunk s that has a neighbour of own chunk q's vertices, at marks[s * stride]. */
static void mark_meeting(const struct sl_shards *shards, const struct sl_graph *graph, const uint16_t *part_of,
                         uint32_t q, bool *marks, size_t stride)
{
    const struct sl_shard *part = &shards->part[q];
    for (uint64_t e = graph->offsets[part->first]; e < graph->offsets[part->end]; e++) {
        marks[part_of[graph->sources[e]] * stride] = true;
    }
}

static enum sl_status fill_meets(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_pipe_graph *g)
{
    uint32_t n = g->n_chunks;
    SL_CHECK(sl_alloc_zero((size_t)n * n, sizeof *g->meets, "which chunks meet", &g->meets));
    for (uint32_t q = plan->first_pe; q < plan->end_pe; q++) {
        mark_meeting(shards, &g->numbered, g->in.part_of, q, g->meets + (size_t)q * n, 1);
        if (g->out.halo != NULL) {
            mark_meeting(shards, &g->transposed, g->out.part_of, q, g->meets + q, n);
        }
    }
    return SL_OK;
}

static struct sl_pipe_lists out_lists(const struct sl_graph *graph, uint32_t first, uint32_t end, bool weighted)
{
    uint64_t begin = graph->offsets[first];
    uint64_t n = graph->offsets[end] - begin;
    return (struct sl_pipe_lists){sl_vector_readable(graph->offsets + first, (uint64_t)(end - first) + 1, 8),
                                  sl_vector_readable(graph->sources + begin, n, 4), n,
                                  weighted ? sl_vector_readable(graph->weights + begin, n, 4) : NULL};
}

static void open_chunk(const struct sl_shards *shards, uint32_t q, struct sl_pipe_graph *g)
{
    const struct sl_shard *part = &shards->part[q];
    const uint64_t *offsets = shards->partition->graph.offsets;
    struct sl_pipe_chunk *chunk = &g->chunk[q];
    uint64_t n = offsets[part->end] - offsets[part->first];
    chunk->in = (struct sl_pipe_lists){part->graph.offsets, part->graph.sources, n,
                                       shards->weighs_edges ? part->graph.weights : NULL};
    if (g->sources != NULL) {
        chunk->in.vertices = sl_vector_readable(g->numbered.sources + offsets[part->first], n, sizeof *g->sources);
    }
    chunk->out = g->transposed.offsets == NULL
                     ? chunk->in
                     : out_lists(&g->transposed, part->first, part->end, shards->weighs_edges);
    chunk->targets = sl_vector_readable(train_row(shards, g, part->first),
                                        (uint64_t)(part->end - part->first) * shards->targets.width, SL_TARGET_BYTES);
}

enum sl_status sl_pipe_graph_open(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_pipe_graph *out)
{
    *out = (struct sl_pipe_graph){.n_chunks = shards->n_parts, .numbered = shards->partition->graph};
    SL_CHECK(transpose(plan, shards, &out->transposed));
    SL_CHECK(open_sides(plan, shards, out));
    SL_CHECK(fill_targets(plan, shards, out));
    SL_CHECK(fill_meets(plan, shards, out));
    SL_CHECK(sl_alloc_zero(out->n_chunks, sizeof *out->chunk, "chunks", &out->chunk));
    for (uint32_t q = plan->first_pe; q < plan->end_pe; q++) {
        open_chunk(shards, q, out);
    }
    return SL_OK;
}

static void close_side(struct sl_pipe_side *side)
{
    if (side->part_of != NULL) {
        sl_handle_close(side->parts);
        sl_free(side->part_of);
    }
}

void sl_pipe_graph_close(struct sl_pipe_graph *g)
{
    if (g->chunk != NULL) {
        for (uint32_t q = 0; q < g->n_chunks; q++) {
            sl_handle_close(g->chunk[q].targets);
            if (g->sources != NULL) {
                sl_handle_close(g->chunk[q].in.vertices);
            }
            if (g->transposed.offsets != NULL) {
                sl_handle_close(g->chunk[q].out.offsets);
                sl_handle_close(g->chunk[q].out.vertices);
                sl_handle_close(g->chunk[q].out.weights);
            }
        }
    }
    close_side(&g->in);
    close_side(&g->out);
    sl_halo_close(&g->halo);
    sl_halo_close(&g->in_halo);
    sl_free(g->sources);
    sl_graph_free(&g->transposed);
    sl_free(g->chunk);
    sl_free(g->train_targets);
    sl_free(g->meets);
    *g = (struct sl_pipe_graph){0};
}

/* ---- the order of chunks: a Fisher-Yates shuffle in each way ---- */

void sl_pipe_order_invert(struct sl_pipe_order *o)
{
    for (uint32_t i = 0; i < o->n_chunks; i++) {
        o->slot_of[o->chunk[i]] = i / o->n_ways;
    }
}

void sl_pipe_order_draw(struct sl_pipe_order *o, bool shuffle, uint64_t seed, uint64_t epoch)
{
    const struct sl_draw where = {.seed = seed, .step = epoch, .purpose = SL_FOR_CHUNKS};
    for (uint32_t way = 0; way < o->n_ways; way++) {
        for (uint32_t t = 0; t < o->n_slots; t++) {
            o->chunk[t * o->n_ways + way] = way * o->n_slots + t;
        }
        for (uint32_t t = o->n_slots; shuffle && t > 1; t--) {
            uint32_t other = (uint32_t)(sl_random_u64(&where, way, t) % t);
            uint32_t last = o->chunk[(t - 1) * o->n_ways + way];
            o->chunk[(t - 1) * o->n_ways + way] = o->chunk[other * o->n_ways + way];
            o->chunk[other * o->n_ways + way] = last;
        }
    }
    sl_pipe_order_invert(o);
}
