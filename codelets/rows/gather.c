/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Copy feature rows from the part's table, and apply input dropout on the way. */
#include "codelets/rows/gather.h"

#include <assert.h>

#include "codelets/rows/dropout.h"
#include "support/convert.h"
#include "support/minmax.h"

/* ---- kernels, CPU ---- */

static inline void copy_row(uint32_t n, const sl_real *restrict row, sl_real *restrict x)
{
    for (uint32_t c = 0; c < n; c++) {
        x[c] = row[c];
    }
}

static inline void mask_row(uint32_t n, const sl_real *restrict row, const uint8_t *restrict keep, sl_real scale,
                            sl_real *restrict x)
{
    for (uint32_t c = 0; c < n; c++) {
        x[c] = row[c] * ((sl_real)keep[c] * scale);
    }
}

#define AHEAD 12 /* rows prefetched ahead of the copy */

/* Requested row i in the table's dtype. */
SL_INLINE const void *row_of(const struct sl_feature_rows *from, uint32_t i)
{
    uint32_t vertex = from->ids[i] - from->first;
    size_t bytes = sl_dtype_bytes(from->dtype, from->n_columns);
    if (from->cache != NULL && from->cache->slot_of[vertex] < from->cache->n_slots) {
        return (const char *)from->cache->rows + from->cache->slot_of[vertex] * bytes;
    }
    return (const char *)from->table + vertex * bytes;
}

/* n entries of requested row i from column c, as sl_real. For a bf16 X they are rounded to it first. Converted entries
 * go into `block`. */
SL_INLINE const sl_real *reals_of(const struct sl_feature_rows *from, enum sl_dtype x_dtype, uint32_t i, uint32_t c,
                                  uint32_t n, sl_real *block)
{
    const char *entries = (const char *)row_of(from, i) + sl_dtype_bytes(from->dtype, c);
    if (x_dtype == SL_DTYPE_BF16) {
        sl_bf16 narrow[SL_DROPOUT_BLOCK];
        sl_convert_to_bf16(from->dtype, from->scale, n, entries, narrow);
        sl_bf16_widen(n, narrow, block);
        return block;
    }
    if (from->dtype == SL_DTYPE_REAL) {
        return (const sl_real *)(const void *)entries;
    }
    sl_convert_to_reals(from->dtype, from->scale, n, entries, block);
    return block;
}

/* Columns of the block that begins at column c. */
static inline uint32_t block_size(uint32_t n_columns, uint32_t c)
{
    return sl_min_u32(n_columns - c, SL_DROPOUT_BLOCK);
}

/* Rows with masks drawn in one call. */
static uint32_t rows_at_once(const struct sl_feature_rows *rows)
{
    if (rows->threshold == 0 || rows->n_columns == 0) {
        return 1;
    }
    return sl_dropout_rows(rows->n_columns);
}

/* Rows i0 .. i0 + n_rows - 1 with dropout; one call draws their masks. */
SL_INLINE void mask_rows(enum sl_dtype x_dtype, const struct sl_feature_rows *from, uint32_t i0, uint32_t n_rows,
                         void *x_out)
{
    _Alignas(64) uint8_t keep[SL_DROPOUT_BLOCK];
    sl_vertex vertices[SL_DROPOUT_ROWS];
    sl_real block[SL_DROPOUT_BLOCK];
    sl_real masked[SL_DROPOUT_BLOCK];
    sl_real scale = (sl_real)sl_dropout_scale(from->threshold);
    for (uint32_t r = 0; r < n_rows; r++) {
        vertices[r] = from->dataset_ids[from->ids[i0 + r]];
    }
    for (uint32_t c = 0; c < from->n_columns; c += SL_DROPOUT_BLOCK) {
        uint32_t n = block_size(from->n_columns, c);
        sl_dropout_keep(&from->draw, n_rows, vertices, from->threshold, c, n, keep);
        for (uint32_t r = 0; r < n_rows; r++) {
            const sl_real *row = reals_of(from, x_dtype, i0 + r, c, n, block);
            const size_t place = (size_t)(i0 + r) * from->n_columns + c;
            if (x_dtype == SL_DTYPE_BF16) {
                mask_row(n, row, keep + r * sl_dropout_stride(n), scale, masked);
                sl_bf16_round(n, masked, (sl_bf16 *)x_out + place);
            } else {
                mask_row(n, row, keep + r * sl_dropout_stride(n), scale, (sl_real *)x_out + place);
            }
        }
    }
}

/* Prefetch the rows that follow rows i .. i + n - 1. */
SL_INLINE void fetch_ahead(const struct sl_feature_rows *rows, uint32_t n_rows, uint32_t i, uint32_t n)
{
    size_t bytes = sl_dtype_bytes(rows->dtype, rows->n_columns);
    for (uint32_t a = i + AHEAD; a < i + AHEAD + n && a < n_rows; a++) {
        sl_row_fetch(row_of(rows, a), bytes);
    }
}

SL_INLINE void gather_rows(enum sl_dtype x_dtype, const struct sl_feature_rows *rows, uint32_t n_rows, void *x_out)
{
    const uint32_t n_columns = rows->n_columns;
    uint32_t together = rows_at_once(rows);
    for (uint32_t i = 0; i < n_rows; i += together) {
        const size_t place = (size_t)i * n_columns;
        uint32_t n = sl_min_u32(n_rows - i, together);
        fetch_ahead(rows, n_rows, i, n);
        if (rows->threshold > 0) {
            mask_rows(x_dtype, rows, i, n, x_out);
        } else if (x_dtype == SL_DTYPE_BF16) {
            sl_convert_to_bf16(rows->dtype, rows->scale, n_columns, row_of(rows, i), (sl_bf16 *)x_out + place);
        } else if (rows->dtype == SL_DTYPE_REAL) {
            copy_row(n_columns, row_of(rows, i), (sl_real *)x_out + place);
        } else {
            sl_convert_to_reals(rows->dtype, rows->scale, n_columns, row_of(rows, i), (sl_real *)x_out + place);
        }
    }
}

SL_CLONES void sl_gather_cpu(const struct sl_feature_rows *rows, uint32_t n_rows, enum sl_dtype x_dtype, void *x_out)
{
    SL_BY_DTYPE(x_dtype, gather_rows, rows, n_rows, x_out);
}

/* ---- operations ---- */

struct gather {
    struct sl_task_args head;
    struct sl_matrix frontier, table, x;
    struct sl_matrix dataset_ids;          /* with dropout */
    struct sl_matrix slot_of, cached_rows; /* with a row cache */
    struct sl_draw draw;
    uint32_t threshold, first;
    float scale;
};

static enum sl_status gather(const void *view, const void *stream)
{
    const struct gather *v = view;
    const struct sl_row_cache cache = {.n_slots = v->cached_rows.n_rows,
                                       .n_columns = v->cached_rows.n_columns,
                                       .slot_of = v->slot_of.data,
                                       .rows = v->cached_rows.data};
    struct sl_feature_rows rows = {.n_columns = v->x.n_columns,
                                   .dtype = v->table.dtype,
                                   .scale = v->scale,
                                   .table = v->table.data,
                                   .first = v->first,
                                   .ids = v->frontier.data,
                                   .dataset_ids = v->dataset_ids.data,
                                   .threshold = v->threshold,
                                   .draw = v->draw};
    if (v->slot_of.data != NULL) {
        rows.cache = &cache;
    }
    return SL_RUN(stream, sl_gather, &rows, v->x.n_rows, v->x.dtype, v->x.data);
}

static struct sl_operation gather_op = {
    SL_OPERATION(gather_op, "sl_gather", SL_STAGE_GATHER),
    SL_BODY(gather, struct gather),
    .role = {{"frontier", STARPU_R, offsetof(struct gather, frontier), "D", SL_INTS_32},
             {"table", STARPU_R, offsetof(struct gather, table), "N x F", SL_ANY},
             {"x", STARPU_W, offsetof(struct gather, x), "D x F", SL_ROWS},
             {"dataset ids", STARPU_R | SL_OPTIONAL, offsetof(struct gather, dataset_ids), "?", SL_INTS_32}},
};

/* With a row cache. The table is read in main memory. */
static struct sl_operation gather_cached_op = {
    SL_OPERATION(gather_cached_op, "sl_gather_cached", SL_STAGE_GATHER),
    SL_BODY(gather, struct gather),
    .codelet.specific_nodes = 1,
    .codelet.nodes = {STARPU_SPECIFIC_NODE_LOCAL, STARPU_SPECIFIC_NODE_CPU, STARPU_SPECIFIC_NODE_LOCAL,
                      STARPU_SPECIFIC_NODE_LOCAL, STARPU_SPECIFIC_NODE_LOCAL, STARPU_SPECIFIC_NODE_LOCAL},
    .role = {{"frontier", STARPU_R, offsetof(struct gather, frontier), "D", SL_INTS_32},
             {"table", STARPU_R, offsetof(struct gather, table), "N x F", SL_ANY},
             {"x", STARPU_W, offsetof(struct gather, x), "D x F", SL_ROWS},
             {"dataset ids", STARPU_R | SL_OPTIONAL, offsetof(struct gather, dataset_ids), "?", SL_INTS_32},
             {"slot of", STARPU_R, offsetof(struct gather, slot_of), "N", SL_INTS_32},
             {"rows", STARPU_R, offsetof(struct gather, cached_rows), "? x F", SL_ANY}},
};

/* ---- submissions ---- */

enum sl_status sl_gather_submit(const struct sl_task_args *head, const struct sl_feature_handles *features,
                                uint32_t row0, starpu_data_handle_t x)
{
    const struct sl_row_cache_handles *cache = features->cache;
    struct gather v = {.head = *head,
                       .table = sl_matrix_of(features->table),
                       .x = sl_matrix_of(x),
                       .threshold = sl_dropout_threshold(features->dropout),
                       .first = features->first,
                       .scale = features->scale};
    v.frontier = sl_matrix_rows(features->frontier, row0, v.x.n_rows);
    v.draw = (struct sl_draw){.seed = features->seed, .step = head->step, .purpose = SL_FOR_DROPOUT, .hop = head->hop};
    v.head.work = sl_matrix_entries(&v.x) * (sl_dtype_size(v.table.dtype) + sl_dtype_size(v.x.dtype));
    if (v.threshold > 0) {
        v.dataset_ids = sl_matrix_of(features->dataset_ids);
    }
    if (cache == NULL) {
        return sl_view_submit(&gather_op, &v, SL_PRIORITY_COMPUTE);
    }
    v.slot_of = sl_matrix_of(cache->slot_of);
    v.cached_rows = sl_matrix_of(cache->rows);
    assert(v.cached_rows.dtype == v.table.dtype);
    return sl_view_submit(&gather_cached_op, &v, SL_PRIORITY_COMPUTE);
}
