/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sources: views of submissions, and rows inside tasks. */
#include "codelets/sums/sources.h"

#include <assert.h>
#include <string.h>

#include "codelets/sampling/sample.h"

/* ---- submissions ---- */

struct sl_chunks sl_chunks_of(const struct sl_rows *rows)
{
    assert(rows->split.n_chunks <= SL_MAX_CHUNKS);
    return (struct sl_chunks){.each = {.n = rows->split.n_chunks, .handles = rows->chunk},
                              .shift = rows->split.shift,
                              .n_rows = rows->split.n_rows,
                              .n_columns = rows->n_columns};
}

/* All have one dtype. SL_DTYPE_REAL: all are empty. */
static enum sl_dtype dtype_of_slices(uint32_t n, const struct sl_slice *slices)
{
    for (uint32_t q = 0; q < n; q++) {
        if (slices[q].n_rows > 0) {
            return sl_handle_dtype(slices[q].handle);
        }
    }
    return SL_DTYPE_REAL;
}

struct sl_sources sl_sources_of(const struct sl_source_handles *sources)
{
    struct sl_sources x = {.inverse = sl_matrix_of(sources->inverse),
                           .rows = sl_chunks_of(sources->rows),
                           .packed = {.n = sources->n_owners, .slices = sources->packed, .numbers = sources->first},
                           .own = sources->own,
                           .n_sources = sources->first[sources->n_owners],
                           .dtype = dtype_of_slices(sources->n_owners, sources->packed)};
    assert(sources->n_owners <= SL_MAX_GROUP && sources->packed[sources->own].n_rows == 0);
    if (x.rows.each.n > 0) {
        x.dtype = sl_handle_dtype(sources->rows->chunk[0]);
    }
    return x;
}

struct sl_shares sl_shares_of(const struct sl_share_sources *from, starpu_data_handle_t inverse, uint32_t row0,
                              starpu_data_handle_t g)
{
    assert(from->n_peers <= SL_MAX_GROUP && from->sent[from->own].n_rows == 0);
    return (struct sl_shares){.g = sl_matrix_of(g),
                              .inverse = sl_matrix_of(inverse),
                              .sent = {.n = from->n_peers, .slices = from->sent},
                              .row0 = row0,
                              .t0 = from->t0,
                              .n_own = from->n_own,
                              .own = from->own,
                              .sent_dtype = dtype_of_slices(from->n_peers, from->sent)};
}

uint64_t sl_slices_rows(const struct sl_matrices *slices)
{
    uint64_t n = 0;
    for (uint32_t q = 0; q < slices->n; q++) {
        n += slices->slices[q].n_rows;
    }
    return n;
}

struct sl_parts sl_parts_of(starpu_data_handle_t first, uint32_t n_parts, const struct sl_rows *rows,
                            const uint32_t *column, starpu_data_handle_t chunks[SL_MAX_FULL_CHUNKS])
{
    struct sl_parts parts = {.first = sl_matrix_of(first), .dtype = SL_DTYPE_REAL, .n_parts = n_parts};
    uint32_t n = 0;
    assert(n_parts <= SL_MAX_PARTS);
    for (uint32_t q = 0; q < n_parts; q++) {
        parts.n_chunks[q] = rows[q].split.n_chunks;
        parts.shift[q] = rows[q].split.shift;
        parts.width[q] = rows[q].n_columns;
        parts.column[q] = column == NULL ? 0 : column[q];
        assert(n + rows[q].split.n_chunks <= SL_MAX_FULL_CHUNKS);
        for (uint32_t c = 0; c < rows[q].split.n_chunks; c++) {
            chunks[n++] = rows[q].chunk[c];
        }
    }
    parts.chunks = (struct sl_matrices){.n = n, .handles = chunks};
    if (n > 0) {
        parts.dtype = sl_handle_dtype(chunks[0]);
    }
    return parts;
}

struct sl_edge_operands sl_edges_of_block(const struct sl_block *block, uint32_t row0,
                                          const struct sl_source_handles *sources)
{
    return (struct sl_edge_operands){.offsets = sl_matrix_of(block->edge_offsets),
                                     .sources = sl_matrix_of(block->edge_sources),
                                     .relations = sl_matrix_of(block->edge_relations),
                                     .weights = sl_matrix_of(block->edge_weights),
                                     .row0 = row0,
                                     .x = sl_sources_of(sources)};
}

struct sl_edge_operands sl_edges_of_part(const struct sl_full_sources *sources, uint32_t row0)
{
    return (struct sl_edge_operands){.offsets = sl_matrix_of(sources->offsets),
                                     .sources = sl_matrix_of(sources->sources),
                                     .relations = sl_matrix_of(sources->edge_relations),
                                     .weights = sl_matrix_of(sources->edge_weights),
                                     .row0 = row0};
}

/* ---- inside tasks ---- */

struct sl_edges sl_edges_in(const struct sl_edge_operands *operands, uint32_t n_rows, const struct sl_parts *parts)
{
    struct sl_edges edges = {.row0 = operands->row0,
                             .n_rows = n_rows,
                             .sources = operands->sources.data,
                             .edge_weights = operands->weights.data,
                             .relations = operands->relations.data};
    if (parts != NULL) {
        edges.part_offsets = operands->offsets.data;
        edges.parts = parts;
    } else {
        edges.offsets = operands->offsets.data;
        edges.x = &operands->x;
    }
    return edges;
}

static struct sl_view chunks_view(const struct sl_chunks *rows)
{
    return (struct sl_view){(const sl_real *const *)rows->each.data, rows->shift, NULL};
}

static void sources_rows(const struct sl_sources *sources, struct sl_source_rows *out)
{
    const struct sl_matrices *packed = &sources->packed;
    out->n_owners = packed->n;
    out->first = packed->numbers;
    out->widths = NULL;
    out->own = chunks_view(&sources->rows);
    for (uint32_t q = 0; q < packed->n; q++) {
        out->view[q] = (struct sl_view){(const sl_real *const *)packed->data + q, 31, NULL};
    }
    out->view[sources->own] = out->own;
    out->view[sources->own].index = sl_list_of(sources->inverse.data, packed->n, sources->own);
}

static void parts_rows(const struct sl_parts *parts, struct sl_source_rows *out)
{
    out->n_owners = parts->n_parts;
    out->first = parts->first.data;
    out->widths = parts->width;
    out->own = (struct sl_view){NULL, 0, NULL};
    for (uint32_t q = 0, next = 0; q < parts->n_parts; q++) {
        const size_t skipped = sl_dtype_bytes(parts->dtype, parts->column[q]);
        out->view[q] = (struct sl_view){out->chunk + next, parts->shift[q], NULL};
        for (uint32_t c = 0; c < parts->n_chunks[q]; c++, next++) {
            out->chunk[next] = (const sl_real *)(const void *)((const char *)parts->chunks.data[next] + skipped);
        }
    }
}

enum sl_dtype sl_edges_rows(const struct sl_edges *edges, struct sl_source_rows *out)
{
    if (edges->parts != NULL) {
        parts_rows(edges->parts, out);
        return edges->parts->dtype;
    }
    sources_rows(edges->x, out);
    return edges->x->dtype;
}

const void *sl_edges_own_row(const struct sl_edges *edges, uint32_t n_columns)
{
    struct sl_source_rows rows;
    if (edges->parts == NULL) {
        rows.own = chunks_view(&edges->x->rows);
        return sl_view_row_of(edges->x->dtype, &rows.own, edges->row0, n_columns);
    }
    parts_rows(edges->parts, &rows);
    return sl_view_row_of(edges->parts->dtype, &rows.view[edges->parts->own], edges->row0, n_columns);
}

void sl_chunks_on_device(const struct sl_chunks *rows, struct sl_device_rows *out)
{
    *out = (struct sl_device_rows){.n_chunks = rows->each.n, .shift = rows->shift};
    memcpy(out->chunk, rows->each.data, rows->each.n * sizeof *out->chunk);
}

void sl_sources_on_device(const struct sl_sources *sources, struct sl_device_sources *out)
{
    const struct sl_matrices *packed = &sources->packed;
    *out = (struct sl_device_sources){.n_owners = packed->n,
                                      .own = sources->own,
                                      .n_sources = sources->n_sources,
                                      .inverse = sources->inverse.data,
                                      .dtype = sources->dtype};
    sl_chunks_on_device(&sources->rows, &out->rows);
    memcpy(out->packed, packed->data, packed->n * sizeof *out->packed);
    memcpy(out->first, packed->numbers, packed->n * sizeof *out->first);
}

void sl_parts_on_device(const struct sl_parts *parts, struct sl_part_list *out)
{
    struct sl_source_rows rows;
    parts_rows(parts, &rows);
    out->n_parts = parts->n_parts;
    out->n_chunks = parts->chunks.n;
    out->first = parts->first.data;
    out->dtype = parts->dtype;
    for (uint32_t q = 0; q < parts->n_parts; q++) {
        out->base[q] = (uint16_t)(rows.view[q].chunk - rows.chunk);
        out->shift[q] = (uint8_t)parts->shift[q];
        out->width[q] = parts->width[q];
    }
    memcpy(out->chunk, rows.chunk, parts->chunks.n * sizeof *out->chunk);
}
