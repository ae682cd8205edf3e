/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Finds and lists the boundary vertices, and numbers all neighbours by the rows that a chunk reads. */
#include "runtime/pipe/boundary.h"

#include <string.h>

#include "codelets/sampling/sample.h"
#include "support/memory.h"
#include "tasks/rows.h"

#define NOT_THERE UINT32_MAX

/* ---- which vertices ---- */

/* place[v]: v's index among the boundary vertices, or NOT_THERE. Both ends of an edge between chunks are boundary
 * vertices. Returns the number of boundary vertices. */
static uint32_t find_places(const struct sl_partition *partition, uint32_t *place)
{
    const struct sl_graph *graph = &partition->graph;
    uint32_t n = 0;
    memset(place, 0xff, graph->n_vertices * sizeof *place);
    for (uint32_t q = 0; q < partition->n_parts; q++) {
        const sl_vertex first = partition->first[q];
        const sl_vertex end = partition->first[q + 1];
        for (sl_vertex v = first; v < end; v++) {
            for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
                sl_vertex u = graph->sources[e];
                if (u < first || u >= end) {
                    place[u] = place[v] = 0;
                }
            }
        }
    }
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        if (place[v] != NOT_THERE) {
            place[v] = n++;
        }
    }
    return n;
}

static enum sl_status list_vertices(const struct sl_shards *shards, const uint32_t *place, uint32_t n,
                                    struct sl_pipe_boundary *b)
{
    uint32_t k = 0;
    SL_CHECK(sl_alloc((size_t)n + 1, sizeof *b->vertices, "boundary vertices", &b->vertices));
    SL_CHECK(sl_alloc((size_t)b->n_chunks + 1, sizeof *b->first, "boundary vertices", &b->first));
    for (uint32_t q = 0; q < b->n_chunks; q++) {
        b->first[q] = k;
        for (uint32_t v = shards->part[q].first; v < shards->part[q].end; v++) {
            if (place[v] != NOT_THERE) {
                b->vertices[k++] = v;
            }
        }
    }
    b->first[b->n_chunks] = k;
    return SL_OK;
}

/* ---- tables and lists by number ---- */

static enum sl_status fill_tables(const struct sl_shards *shards, const uint16_t *part_of, struct sl_pipe_boundary *b)
{
    uint32_t n = shards->n_vertices;
    uint32_t n_all = n + b->first[b->n_chunks];
    SL_CHECK(sl_alloc((size_t)n_all + 1, sizeof *b->part_of, "chunks of boundary rows", &b->part_of));
    SL_CHECK(sl_alloc((size_t)n_all + 1, 2 * sizeof *b->factor_of, "weights of boundary rows", &b->factor_of));
    for (uint32_t i = 0; i < n_all; i++) {
        sl_vertex v = i < n ? i : b->vertices[i - n];
        b->part_of[i] = part_of[v];
        memcpy(b->factor_of + 2 * (size_t)i, shards->factor_of + 2 * (size_t)v, 2 * sizeof *b->factor_of);
    }
    b->parts = sl_vector_readable(b->part_of, n_all, sizeof *b->part_of);
    b->factors = sl_vector_readable(b->factor_of, n_all, 2 * sizeof *b->factor_of);
    return SL_OK;
}

/* Copy the graph's neighbour lists with numbers in place of ids. */
static enum sl_status number_neighbours(const struct sl_graph *graph, const uint16_t *part_of, const uint32_t *place,
                                        sl_vertex **out)
{
    SL_CHECK(sl_alloc((size_t)graph->n_edges + 1, sizeof **out, "neighbours of the chunks", out));
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            sl_vertex u = graph->sources[e];
            (*out)[e] = part_of[u] == part_of[v] ? u : graph->n_vertices + place[u];
        }
    }
    return SL_OK;
}

/* In-neighbours of the inner vertices. Boundary vertices get empty lists. */
static enum sl_status list_inner(const struct sl_graph *graph, const float *weights, const uint32_t *place,
                                 struct sl_pipe_boundary *b)
{
    uint64_t n = 0;
    SL_CHECK(sl_alloc((size_t)graph->n_vertices + 1, sizeof *b->inner_offsets, "offsets", &b->inner_offsets));
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        b->inner_offsets[v] = n;
        if (place[v] == NOT_THERE) {
            n += graph->offsets[v + 1] - graph->offsets[v];
        }
    }
    b->inner_offsets[graph->n_vertices] = n;
    SL_CHECK(sl_alloc(n + 1, sizeof *b->inner_sources, "neighbours within chunks", &b->inner_sources));
    if (weights != NULL) {
        SL_CHECK(sl_alloc(n + 1, sizeof *b->inner_weights, "weights within chunks", &b->inner_weights));
    }
    for (uint32_t v = 0; v < graph->n_vertices; v++) {
        if (weights != NULL) {
            memcpy(b->inner_weights + b->inner_offsets[v], weights + graph->offsets[v],
                   (b->inner_offsets[v + 1] - b->inner_offsets[v]) * sizeof *weights);
        }
        memcpy(b->inner_sources + b->inner_offsets[v], graph->sources + graph->offsets[v],
               (b->inner_offsets[v + 1] - b->inner_offsets[v]) * sizeof *b->inner_sources);
    }
    return SL_OK;
}

/* ---- chunks ---- */

static struct sl_pipe_lists renumbered(const struct sl_pipe_lists *lists, const sl_vertex *numbers)
{
    return (struct sl_pipe_lists){lists->offsets, sl_vector_readable(numbers, lists->n_edges, sizeof *numbers),
                                  lists->n_edges, lists->weights};
}

static struct sl_pipe_lists inner_lists(const struct sl_pipe_boundary *b, const struct sl_shard *part)
{
    uint64_t begin = b->inner_offsets[part->first];
    uint64_t n = b->inner_offsets[part->end] - begin;
    return (struct sl_pipe_lists){
        sl_vector_readable(b->inner_offsets + part->first, part->end - part->first + 1, sizeof *b->inner_offsets),
        sl_vector_readable(b->inner_sources + begin, n, sizeof *b->inner_sources), n,
        b->inner_weights != NULL ? sl_vector_readable(b->inner_weights + begin, n, sizeof *b->inner_weights) : NULL};
}

/* Chunk q's boundary rows as a list with one requester: positions 0 and n, then n rows of the chunk. */
static starpu_data_handle_t list_rows(const struct sl_pipe_boundary *b, uint32_t q, sl_vertex first_id)
{
    uint32_t n = sl_pipe_boundary_rows(b, q);
    uint32_t *list = b->lists + b->first[q] + 2 * (size_t)q;
    list[0] = 0;
    list[1] = n;
    for (uint32_t r = 0; r < n; r++) {
        sl_list_entries(list, 1)[r] = b->vertices[b->first[q] + r] - first_id;
    }
    return sl_vector_readable(list, (uint64_t)n + 2, sizeof *list);
}

static void open_chunk(const struct sl_shards *shards, const struct sl_pipe_graph *graph, uint32_t q,
                       struct sl_pipe_boundary *b)
{
    const struct sl_shard *part = &shards->part[q];
    struct sl_pipe_boundary_chunk *chunk = &b->chunk[q];
    uint32_t *first = b->first_of + (size_t)q * b->n_chunks;
    for (uint32_t s = 0; s < b->n_chunks; s++) {
        first[s] = s == q ? part->first : shards->n_vertices + b->first[s];
    }
    chunk->first = sl_vector_readable(first, b->n_chunks, sizeof *first);
    chunk->rows = list_rows(b, q, part->first);
    chunk->inner = inner_lists(b, part);
    chunk->in = renumbered(&graph->chunk[q].in, b->sources + shards->partition->graph.offsets[part->first]);
    chunk->out = b->destinations == NULL
                     ? chunk->in
                     : renumbered(&graph->chunk[q].out, b->destinations + graph->transposed.offsets[part->first]);
}

/* ---- open, close ---- */

static enum sl_status number_all(const struct sl_shards *shards, const struct sl_pipe_graph *graph, uint32_t *place,
                                 struct sl_pipe_boundary *b)
{
    const struct sl_graph *in = &shards->partition->graph;
    const struct sl_graph *out = &graph->transposed;
    uint32_t n = find_places(shards->partition, place);
    SL_FAIL_IF((uint64_t)in->n_vertices + n >= UINT32_MAX, SL_EINVAL,
               "--recompute: found %u vertices, %u of them with a neighbour in another chunk, expected less "
               "than %u of both together; try fewer --chunks",
               in->n_vertices, n, UINT32_MAX);
    SL_CHECK(list_vertices(shards, place, n, b));
    SL_CHECK(fill_tables(shards, graph->in.part_of, b));
    SL_CHECK(number_neighbours(in, graph->in.part_of, place, &b->sources));
    SL_CHECK(list_inner(in, shards->weighs_edges ? in->weights : NULL, place, b));
    if (out->offsets != NULL) {
        return number_neighbours(out, graph->in.part_of, place, &b->destinations);
    }
    return SL_OK;
}

enum sl_status sl_pipe_boundary_open(const struct sl_shards *shards, const struct sl_pipe_graph *graph,
                                     struct sl_pipe_boundary *out)
{
    size_t k = graph->n_chunks;
    SL_FREED uint32_t *place = NULL;
    *out = (struct sl_pipe_boundary){.n_chunks = graph->n_chunks};
    SL_CHECK(sl_alloc((size_t)shards->n_vertices + 1, sizeof *place, "boundary vertices", &place));
    SL_CHECK(number_all(shards, graph, place, out));
    SL_CHECK(sl_alloc(k * k, sizeof *out->first_of, "first rows of the chunks", &out->first_of));
    SL_CHECK(sl_alloc(out->first[k] + 2 * k, sizeof *out->lists, "boundary rows", &out->lists));
    SL_CHECK(sl_alloc_zero(k, sizeof *out->chunk, "chunks", &out->chunk));
    for (uint32_t q = 0; q < k; q++) {
        open_chunk(shards, graph, q, out);
    }
    return SL_OK;
}

void sl_pipe_boundary_close(struct sl_pipe_boundary *b)
{
    if (b->chunk != NULL) {
        for (uint32_t q = 0; q < b->n_chunks; q++) {
            sl_handle_close(b->chunk[q].first);
            sl_handle_close(b->chunk[q].rows);
            sl_handle_close(b->chunk[q].in.vertices);
            sl_handle_close(b->chunk[q].inner.offsets);
            sl_handle_close(b->chunk[q].inner.vertices);
            sl_handle_close(b->chunk[q].inner.weights);
            if (b->destinations != NULL) {
                sl_handle_close(b->chunk[q].out.vertices);
            }
        }
    }
    sl_handle_close(b->parts);
    sl_handle_close(b->factors);
    sl_free(b->chunk);
    sl_free(b->lists);
    sl_free(b->first_of);
    sl_free(b->destinations);
    sl_free(b->sources);
    sl_free(b->inner_sources);
    sl_free(b->inner_weights);
    sl_free(b->inner_offsets);
    sl_free(b->factor_of);
    sl_free(b->part_of);
    sl_free(b->vertices);
    sl_free(b->first);
    *b = (struct sl_pipe_boundary){0};
}
