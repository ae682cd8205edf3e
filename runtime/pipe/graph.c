/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Tables over the shards' graph. */
#include "runtime/pipe/graph.h"

#include "codelets/rows.h"
#include "codelets/score.h"
#include "support/memory.h"

starpu_data_handle_t sl_pipe_readable(const void *memory, uint64_t n, size_t element)
{
    starpu_data_handle_t handle;
    starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)memory, n == 0 ? 1 : (uint32_t)n, element);
    starpu_data_set_sequential_consistency_flag(handle, 0);
    return handle;
}

/* ---- the other way round ---- */

static enum sl_status transpose(const struct sl_graph *graph, struct sl_graph *out)
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
    st = sl_graph_build(graph->n_vertices, n, to, from, false, out);
done:
    sl_free(from);
    sl_free(to);
    return st;
}

/* ---- tables ---- */

static enum sl_status fill_tables(const struct sl_shards *shards, struct sl_pipe_graph *g)
{
    const struct sl_graph *graph = &shards->partition->graph;
    enum sl_status st;
    SL_TRY(st, sl_alloc((size_t)shards->n_vertices + 1, sizeof *g->part_of, "chunks of the vertices", &g->part_of),
           done);
    SL_TRY(st, sl_alloc((size_t)shards->n_vertices + 1, sizeof *g->train_labels, "training labels", &g->train_labels),
           done);
    SL_TRY(st, sl_alloc_zero((size_t)g->n_chunks * g->n_chunks, sizeof *g->meets, "which chunks meet", &g->meets),
           done);
    for (uint32_t q = 0; q < g->n_chunks; q++) {
        for (uint32_t v = shards->part[q].first; v < shards->part[q].end; v++) {
            g->part_of[v] = (uint16_t)q;
            g->train_labels[v] = shards->set_of[v] == SL_SET_TRAIN ? shards->label_of[v] : -1;
        }
    }
    for (uint32_t v = 0; v < shards->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            g->meets[(size_t)g->part_of[v] * g->n_chunks + g->part_of[graph->sources[e]]] = true;
        }
    }
done:
    return st;
}

static struct sl_pipe_lists out_lists(const struct sl_graph *graph, uint32_t first, uint32_t end)
{
    uint64_t begin = graph->offsets[first];
    uint64_t n = graph->offsets[end] - begin;
    return (struct sl_pipe_lists){sl_pipe_readable(graph->offsets + first, (uint64_t)(end - first) + 1, 8),
                                  sl_pipe_readable(graph->sources + begin, n, 4), n};
}

static void open_chunk(const struct sl_shards *shards, uint32_t q, struct sl_pipe_graph *g)
{
    const struct sl_shard *part = &shards->part[q];
    const uint64_t *offsets = shards->partition->graph.offsets;
    struct sl_pipe_chunk *chunk = &g->chunk[q];
    chunk->in =
        (struct sl_pipe_lists){part->graph.offsets, part->graph.sources, offsets[part->end] - offsets[part->first]};
    chunk->out = g->transposed.offsets == NULL ? chunk->in : out_lists(&g->transposed, part->first, part->end);
    chunk->labels = sl_pipe_readable(g->train_labels + part->first, part->end - part->first, sizeof *g->train_labels);
}

enum sl_status sl_pipe_graph_open(const struct sl_shards *shards, struct sl_pipe_graph *out)
{
    enum sl_status st;
    *out = (struct sl_pipe_graph){.n_chunks = shards->n_parts};
    SL_TRY(st, transpose(&shards->partition->graph, &out->transposed), done);
    SL_TRY(st, fill_tables(shards, out), done);
    SL_TRY(st, sl_alloc_zero(out->n_chunks, sizeof *out->chunk, "chunks", &out->chunk), done);
    out->parts = sl_pipe_readable(out->part_of, shards->n_vertices, sizeof *out->part_of);
    for (uint32_t q = 0; q < out->n_chunks; q++) {
        open_chunk(shards, q, out);
    }
done:
    return st;
}

void sl_pipe_graph_close(struct sl_pipe_graph *g)
{
    for (uint32_t q = 0; g->chunk != NULL && q < g->n_chunks; q++) {
        sl_handle_close(g->chunk[q].labels);
        if (g->transposed.offsets != NULL) {
            sl_handle_close(g->chunk[q].out.offsets);
            sl_handle_close(g->chunk[q].out.vertices);
        }
    }
    sl_handle_close(g->parts);
    sl_graph_free(&g->transposed);
    sl_free(g->chunk);
    sl_free(g->part_of);
    sl_free(g->train_labels);
    sl_free(g->meets);
    *g = (struct sl_pipe_graph){0};
}
