/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Copy feature rows from the part's table, and apply input dropout on the way. */
#include "codelets/gather.h"

#include <assert.h>

#include "codelets/dropout.h"
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
    uint32_t slot = from->cache == NULL ? SL_NONE : from->cache->slot_of[vertex];
    size_t bytes = sl_dtype_bytes(from->dtype, from->n_columns);
    return slot == SL_NONE ? (const char *)from->table + vertex * bytes
                           : (const char *)from->cache->rows + slot * bytes;
}

/* n entries of requested row i from column c, as sl_real. Entries of another dtype are converted into `block`. */
SL_INLINE const sl_real *reals_of(const struct sl_feature_rows *from, uint32_t i, uint32_t c, uint32_t n,
                                  sl_real *block)
{
    const char *row = row_of(from, i);
    if (from->dtype == SL_DTYPE_REAL) {
        return (const sl_real *)(const void *)row + c;
    }
    sl_convert_to_reals(from->dtype, from->scale, n, row + sl_dtype_bytes(from->dtype, c), block);
    return block;
}

/* The same as bf16. */
static inline const sl_bf16 *bf16s_of(const struct sl_feature_rows *from, uint32_t i, uint32_t c, uint32_t n,
                                      sl_bf16 *block)
{
    const char *row = row_of(from, i);
    if (from->dtype == SL_DTYPE_BF16) {
        return (const sl_bf16 *)(const void *)row + c;
    }
    sl_convert_to_bf16(from->dtype, from->scale, n, row + sl_dtype_bytes(from->dtype, c), block);
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
SL_INLINE void mask_rows(const struct sl_feature_rows *from, uint32_t i0, uint32_t n_rows, sl_real *x_out)
{
    _Alignas(64) uint8_t keep[SL_DROPOUT_BLOCK];
    sl_vertex vertices[SL_DROPOUT_ROWS];
    sl_real block[SL_DROPOUT_BLOCK];
    sl_real scale = (sl_real)sl_dropout_scale(from->threshold);
    for (uint32_t r = 0; r < n_rows; r++) {
        vertices[r] = from->dataset_ids[from->ids[i0 + r]];
    }
    for (uint32_t c = 0; c < from->n_columns; c += SL_DROPOUT_BLOCK) {
        uint32_t n = block_size(from->n_columns, c);
        sl_dropout_keep(&from->draw, n_rows, vertices, from->threshold, c, n, keep);
        for (uint32_t r = 0; r < n_rows; r++) {
            mask_row(n, reals_of(from, i0 + r, c, n, block), keep + r * sl_dropout_stride(n), scale,
                     x_out + (size_t)(i0 + r) * from->n_columns + c);
        }
    }
}

/* As mask_rows. */
static inline void mask_bf16_rows(const struct sl_feature_rows *from, uint32_t i0, uint32_t n_rows, sl_bf16 *x_out)
{
    _Alignas(64) uint8_t keep[SL_DROPOUT_BLOCK];
    sl_vertex vertices[SL_DROPOUT_ROWS];
    sl_real wide[SL_DROPOUT_BLOCK];
    sl_bf16 block[SL_DROPOUT_BLOCK];
    sl_real scale = (sl_real)sl_dropout_scale(from->threshold);
    for (uint32_t r = 0; r < n_rows; r++) {
        vertices[r] = from->dataset_ids[from->ids[i0 + r]];
    }
    for (uint32_t c = 0; c < from->n_columns; c += SL_DROPOUT_BLOCK) {
        uint32_t n = block_size(from->n_columns, c);
        sl_dropout_keep(&from->draw, n_rows, vertices, from->threshold, c, n, keep);
        for (uint32_t r = 0; r < n_rows; r++) {
            sl_bf16_widen(n, bf16s_of(from, i0 + r, c, n, block), wide);
            for (uint32_t k = 0; k < n; k++) {
                wide[k] *= (sl_real)keep[r * sl_dropout_stride(n) + k] * scale;
            }
            sl_bf16_round(n, wide, x_out + (size_t)(i0 + r) * from->n_columns + c);
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

void sl_gather_bf16_cpu(const struct sl_feature_rows *rows, uint32_t n_rows, sl_bf16 *x_out)
{
    const uint32_t n_columns = rows->n_columns;
    uint32_t together = rows_at_once(rows);
    for (uint32_t i = 0; i < n_rows; i += together) {
        uint32_t n = sl_min_u32(n_rows - i, together);
        fetch_ahead(rows, n_rows, i, n);
        if (rows->threshold > 0) {
            mask_bf16_rows(rows, i, n, x_out);
        } else {
            sl_convert_to_bf16(rows->dtype, rows->scale, n_columns, row_of(rows, i), x_out + (size_t)i * n_columns);
        }
    }
}

SL_CLONES void sl_gather_cpu(const struct sl_feature_rows *rows, uint32_t n_rows, sl_real *x_out)
{
    const uint32_t n_columns = rows->n_columns;
    uint32_t together = rows_at_once(rows);
    for (uint32_t i = 0; i < n_rows; i += together) {
        sl_real *x = x_out + (size_t)i * n_columns;
        uint32_t n = sl_min_u32(n_rows - i, together);
        fetch_ahead(rows, n_rows, i, n);
        if (rows->threshold > 0) {
            mask_rows(rows, i, n, x_out);
        } else if (rows->dtype == SL_DTYPE_REAL) {
            copy_row(n_columns, row_of(rows, i), x);
        } else {
            sl_convert_to_reals(rows->dtype, rows->scale, n_columns, row_of(rows, i), x);
        }
    }
}

/* ---- arguments ---- */

struct gather_args {
    struct sl_task_args head;
    struct sl_draw draw;
    uint32_t threshold;
    uint32_t row0;
    uint32_t first;
    bool is_cached;
    enum sl_dtype dtype; /* of the table */
    float scale;
};

/* ---- implementations ---- */

enum { FRONTIER, TABLE, X, DATASET_IDS };
enum { SLOT_OF = 4, CACHED_ROWS };

/* The input of a task. cache: memory for the struct of the part's cache. */
static struct sl_feature_rows task_rows(void *buffers[], const struct gather_args *args, struct sl_row_cache *cache)
{
    void **next = buffers + DATASET_IDS;
    struct sl_feature_rows rows = {.n_columns = sl_buffer_columns(buffers[X]),
                                   .dtype = args->dtype,
                                   .scale = args->scale,
                                   .table = sl_buffer_data(buffers[TABLE]),
                                   .first = args->first,
                                   .ids = (const sl_vertex *)sl_buffer_data(buffers[FRONTIER]) + args->row0,
                                   .threshold = args->threshold,
                                   .draw = args->draw};
    rows.dataset_ids = args->threshold > 0 ? sl_buffer_data(*next++) : NULL;
    if (args->is_cached) {
        *cache = (struct sl_row_cache){.n_slots = sl_buffer_rows(next[1]),
                                       .n_columns = sl_buffer_columns(next[1]),
                                       .slot_of = sl_buffer_data(next[0]),
                                       .rows = sl_buffer_data(next[1])};
        rows.cache = cache;
    }
    return rows;
}

static enum sl_status gather_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct gather_args *args = cl_arg;
    struct sl_row_cache cache;
    struct sl_feature_rows rows = task_rows(buffers, args, &cache);
    if (sl_buffer_dtype(buffers[X]) == SL_DTYPE_BF16) {
        sl_gather_bf16_cpu(&rows, sl_buffer_rows(buffers[X]), sl_buffer_data(buffers[X]));
    } else {
        sl_gather_cpu(&rows, sl_buffer_rows(buffers[X]), sl_buffer_data(buffers[X]));
    }
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status gather_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct gather_args *args = cl_arg;
    struct sl_row_cache cache;
    struct sl_feature_rows rows = task_rows(buffers, args, &cache);
    return sl_gather_cuda(stream, &rows, sl_buffer_rows(buffers[X]), sl_buffer_dtype(buffers[X]),
                          sl_buffer_data(buffers[X]));
}
#endif

/* ---- operations ---- */

static struct sl_operation gather_op = {
    SL_OPERATION(gather_op, "sl_gather", SL_STAGE_GATHER),
    .cpu = gather_cpu_task,
    SL_CUDA_FUNC(gather_cuda_task),
    .role = {{"frontier", STARPU_R}, {"table", STARPU_R}, {"x", STARPU_W}, {"dataset ids", STARPU_R | SL_OPTIONAL}},
};

/* With a row cache: the same buffers, then R slot_of and rows. The table is read in main memory. */
static struct sl_operation gather_cached_op = {
    SL_OPERATION(gather_cached_op, "sl_gather_cached", SL_STAGE_GATHER),
    .cpu = gather_cpu_task,
    SL_CUDA_FUNC(gather_cuda_task),
    .codelet.specific_nodes = 1,
    .codelet.nodes = {STARPU_SPECIFIC_NODE_LOCAL, STARPU_SPECIFIC_NODE_CPU, STARPU_SPECIFIC_NODE_LOCAL,
                      STARPU_SPECIFIC_NODE_LOCAL, STARPU_SPECIFIC_NODE_LOCAL, STARPU_SPECIFIC_NODE_LOCAL},
    .role = {{"frontier", STARPU_R},
             {"table", STARPU_R},
             {"x", STARPU_W},
             {"dataset ids", STARPU_R | SL_OPTIONAL},
             {"slot of", STARPU_R},
             {"rows", STARPU_R}},
};

/* ---- submissions ---- */

enum sl_status sl_gather_submit(const struct sl_task_args *head, const struct sl_feature_handles *features,
                                uint32_t row0, starpu_data_handle_t x)
{
    const struct sl_row_cache_handles *cache = features->cache;
    starpu_data_handle_t table = features->table;
    starpu_data_handle_t frontier = features->frontier;
    struct gather_args args = {.head = *head,
                               .row0 = row0,
                               .first = features->first,
                               .is_cached = cache != NULL,
                               .dtype = features->dtype,
                               .scale = features->scale};
    size_t element = sl_dtype_size(features->dtype);
    struct sl_task task;
    uint32_t n_rows = sl_handle_rows(x);
    uint32_t n_columns = sl_handle_columns(x);
    assert(sl_handle_columns(table) == n_columns);
    assert((uint64_t)row0 + n_rows <= sl_handle_columns(frontier));
    assert(cache == NULL ||
           (sl_handle_columns(cache->slot_of) == sl_handle_rows(table) && sl_handle_columns(cache->rows) == n_columns));
    assert(sl_handle_element(table) == element);
    assert(cache == NULL || sl_handle_element(cache->rows) == element);
    args.threshold = sl_dropout_threshold(features->dropout);
    args.draw =
        (struct sl_draw){.seed = features->seed, .step = head->step, .purpose = SL_FOR_DROPOUT, .hop = head->hop};
    args.head.work = (uint64_t)n_rows * n_columns * (element + sl_handle_element(x));
    sl_task_begin(&task, cache == NULL ? &gather_op : &gather_cached_op);
    sl_task_add(&task, FRONTIER, frontier, STARPU_R);
    sl_task_add(&task, TABLE, table, STARPU_R);
    sl_task_add(&task, X, x, STARPU_W);
    if (args.threshold > 0) {
        sl_task_add(&task, DATASET_IDS, features->dataset_ids, STARPU_R);
    }
    if (cache != NULL) {
        sl_task_add(&task, SLOT_OF, cache->slot_of, STARPU_R);
        sl_task_add(&task, CACHED_ROWS, cache->rows, STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
