/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Copies the features in part order. */
#include "runtime/store/feature_source.h"

#include <string.h>

#include "runtime/machine/gpus.h"
#include "support/convert.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/parallel.h"

#define COPY_GRAIN 1024           /* rows that one thread copies at a time */
#define STRETCH (16 * COPY_GRAIN) /* rows between two calls of sl_dataset_drop_pages */

/* ---- the copy ---- */

/* Rows by new id while they are filled. The memory is zero at first. */
struct copy {
    const struct sl_features *from;
    const struct sl_partition *partition;
    const struct sl_feature_source *to;
    uint64_t first; /* new id */
};

enum sl_dtype sl_feature_source_dtype(const struct sl_features *from, enum sl_dtype row_dtype, bool narrow)
{
    enum sl_dtype dtype = sl_features_dtype(from);
    bool is_narrow = dtype != SL_DTYPE_F32 && sl_dtype_size(dtype) < sl_dtype_size(row_dtype);
    return narrow && is_narrow ? dtype : row_dtype;
}

static void copy_dense_row(const struct sl_column *from, uint32_t id, enum sl_dtype dtype, void *to)
{
    const void *row = sl_column_row(from, id);
    if (dtype == from->dtype) {
        memcpy(to, row, sl_column_bytes_of(from, 1));
    } else if (dtype == SL_DTYPE_BF16) {
        sl_convert_to_bf16(from->dtype, from->scale, from->width, row, to);
    } else {
        sl_convert_to_reals(from->dtype, from->scale, from->width, row, to);
    }
}

static void copy_rows(void *context, uint64_t begin, uint64_t end)
{
    const struct copy *copy = context;
    const struct sl_features *from = copy->from;
    for (uint64_t v = copy->first + begin; v < copy->first + end; v++) {
        uint32_t id = copy->partition->dataset_ids[v];
        void *row = sl_feature_row(copy->to, (sl_vertex)v);
        if (from->dense.data != NULL) {
            copy_dense_row(&from->dense, id, copy->to->dtype, row);
            continue;
        }
        for (uint64_t e = from->offsets[id]; e < from->offsets[id + 1]; e++) {
            sl_entry_set(copy->to->dtype, row, from->columns[e], from->values[e]);
        }
    }
}

static void copy_part(const struct sl_dataset *dataset, const struct sl_partition *partition, uint32_t q,
                      const struct sl_feature_source *to)
{
    struct copy copy = {.from = &dataset->features, .partition = partition, .to = to};
    uint64_t end = partition->first[q + 1];
    for (copy.first = partition->first[q]; copy.first < end; copy.first += STRETCH) {
        uint64_t n = sl_min_u64(end - copy.first, STRETCH);
        sl_parallel_for(n, COPY_GRAIN, copy_rows, &copy);
        sl_dataset_drop_pages(dataset);
    }
}

enum sl_status sl_feature_source_open(const struct sl_dataset *dataset, const struct sl_partition *partition,
                                      enum sl_dtype row_dtype, bool narrow, const bool *held,
                                      struct sl_feature_source *out)
{
    struct sl_feature_source source = {.dtype = sl_feature_source_dtype(&dataset->features, row_dtype, narrow),
                                       .row_dtype = row_dtype,
                                       .scale = dataset->features.dense.scale,
                                       .n_columns = dataset->features.n_columns,
                                       .n_parts = partition->n_parts,
                                       .n_rows = dataset->features.n_rows,
                                       .first = partition->first};
    size_t n = (size_t)source.n_rows * source.n_columns + 1;
    size_t element = sl_dtype_size(source.dtype);
    /* enough for lockable pages of its own; untouched pages cost nothing */
    size_t least = SL_OWN_PAGES_BYTES / element;
    *out = (struct sl_feature_source){0};
    SL_CHECK(sl_alloc_zero(sl_max_u64(n, least), element, "features in part order", &source.memory));
    for (uint32_t q = 0; q < source.n_parts; q++) {
        if (held == NULL || held[q]) {
            copy_part(dataset, partition, q, &source);
        }
    }
    *out = source;
    return SL_OK;
}

void sl_feature_source_close(struct sl_feature_source *source)
{
    if (source->pinned) {
        starpu_memory_unpin(source->memory, sl_feature_source_bytes(source));
    }
    sl_free(source->memory);
    *source = (struct sl_feature_source){0};
}

/* ---- handles ---- */

starpu_data_handle_t sl_feature_table_register(const struct sl_feature_source *source, uint32_t part)
{
    const uint32_t n = source->first[part + 1] - source->first[part];
    starpu_data_handle_t table =
        sl_matrix_over(sl_feature_table(source, part), sl_max_u32(n, 1), source->n_columns, source->dtype);
    starpu_data_set_sequential_consistency_flag(table, 0);
    return table;
}

enum sl_status sl_feature_rows_register(const struct sl_feature_source *source, uint32_t part,
                                        const struct sl_split *split, struct sl_rows *out)
{
    return sl_rows_register_over(split, source->n_columns, source->dtype, sl_feature_table(source, part), out);
}

/* ---- locked in memory ---- */

bool sl_feature_source_pin(struct sl_feature_source *source)
{
    size_t bytes = sl_feature_source_bytes(source);
    if (sl_feature_source_empty(source) || bytes == 0) {
        return true;
    }
    source->pinned = starpu_memory_pin(source->memory, bytes) == 0;
    return source->pinned;
}

bool sl_feature_source_reached(const struct sl_feature_source *source)
{
    return source->pinned && sl_gpus_reach(source->memory);
}
