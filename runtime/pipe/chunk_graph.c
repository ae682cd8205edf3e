/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lists and tables of full-graph training, built from the shards' graph. */
#include "runtime/pipe/chunk_graph.h"

#include <string.h>

#include "codelets/score.h"
#include "runtime/pipe/transpose.h"
#include "support/memory.h"
#include "tasks/rows.h"

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
    enum sl_status st = SL_OK;
    if (plan->n_crews > 1) {
        st = number_edges(plan, shards, g);
        *out = &g->in_halo;
    } else {
        sl_halo_stay(shards->halo, &shards->partition->graph);
        *out = shards->halo;
    }
    return st;
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
    } else {
        g->out = g->in;
        g->out.part_of = NULL;
    }
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
                                  weighted ? sl_vector_readable(sl_graph_weights(graph) + begin, n, 4) : NULL};
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
    SL_CHECK(sl_pipe_transpose(plan, shards, &out->transposed));
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
