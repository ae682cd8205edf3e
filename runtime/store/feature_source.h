/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The feature source: dense feature rows in memory, in part order. A part's rows are consecutive.
 *
 * This is the only place that computes a row's address from its vertex. The address is an address in main memory, of
 * F entries of `dtype`. Everyone else asks for a row, for a part's table, or for StarPU handles over a part's table.
 * Kernels get the base address of a table that a handle carries, and add local rows: no vertex of another part, and no
 * memory of the source, is known there.
 */
#ifndef SL_RUNTIME_STORE_FEATURE_SOURCE_H
#define SL_RUNTIME_STORE_FEATURE_SOURCE_H

#include "data/dataset.h"
#include "partition/partition.h"
#include "tasks/rows.h"

/* Empty if features are sparse. */
struct sl_feature_source {
    enum sl_dtype dtype;     /* of the stored entries */
    enum sl_dtype row_dtype; /* of the rows that layers read: SL_DTYPE_REAL or SL_DTYPE_BF16 */
    float scale;             /* of stored int8: a feature is scale * entry */
    bool reads_narrow;       /* the first layer can read this narrow dtype: see sl_feature_source_in_place */
    uint32_t n_columns;      /* F */
    uint32_t n_parts;
    uint32_t n_rows;       /* of all parts */
    const uint32_t *first; /* borrowed, n_parts + 1: a part's first new id */
    bool pinned;           /* locked in memory: see sl_feature_source_pin */
    void *memory;          /* private: [n_rows x F], by new id */
};

/* The dtype of stored entries, for the arguments of sl_feature_source_open. */
enum sl_dtype sl_feature_source_dtype(const struct sl_features *from, enum sl_dtype row_dtype, bool narrow);

/* Copy the dataset's features in part order. row_dtype: of the rows that layers read. The entries are stored in
 * this dtype, to which they are rounded. narrow: if the dataset's dtype takes fewer bytes, store its entries as
 * they are; a gather converts them (codelets/rows/gather.h). held: NULL, or only the parts q with held[q] are copied;
 * the memory of all other parts is never touched. The partition must outlive the source; the dataset need not.
 * SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_feature_source_open(const struct sl_dataset *dataset, const struct sl_partition *partition,
                                      enum sl_dtype row_dtype, bool narrow, const bool *held,
                                      struct sl_feature_source *out);

/* Free. An empty struct is allowed. */
void sl_feature_source_close(struct sl_feature_source *source);

static inline bool sl_feature_source_empty(const struct sl_feature_source *source)
{
    return source->memory == NULL;
}

/* Whether layers can read stored rows in place. False: rows must be gathered, which converts them. Rows of the layers'
 * dtype can be read by all. Rows of float16 and bfloat16 can be read by the sums and products of CPU workers, if a
 * session has set reads_narrow. */
static inline bool sl_feature_source_in_place(const struct sl_feature_source *source)
{
    return source->dtype == source->row_dtype || source->reads_narrow;
}

/* Bytes of a row, and of all rows. */
static inline size_t sl_feature_row_bytes(const struct sl_feature_source *source)
{
    return sl_dtype_bytes(source->dtype, source->n_columns);
}
static inline size_t sl_feature_source_bytes(const struct sl_feature_source *source)
{
    return source->n_rows * sl_feature_row_bytes(source);
}

/* The address of the row of a vertex, by new id. The vertex's part is held. */
static inline void *sl_feature_row(const struct sl_feature_source *source, sl_vertex id)
{
    return (char *)source->memory + id * sl_feature_row_bytes(source);
}

/* The address of a part's table. Row i of the table belongs to the part's i-th vertex. */
static inline void *sl_feature_table(const struct sl_feature_source *source, uint32_t part)
{
    return sl_feature_row(source, source->first[part]);
}

/* Register a part's table as one matrix [n x F]. An empty table is registered with a single row, which nobody reads.
 * The entries may be more than 2^32. */
starpu_data_handle_t sl_feature_table_register(const struct sl_feature_source *source, uint32_t part);

/* Register a part's table as chunks, which read the rows in place. sl_feature_source_in_place holds. SL_EINVAL,
 * SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_feature_rows_register(const struct sl_feature_source *source, uint32_t part,
                                        const struct sl_split *split, struct sl_rows *out);

/* Lock the rows in memory, so that GPUs read single rows cheaply. No task may be reading. False: the system refused.
 * Nothing happens to an empty source. */
bool sl_feature_source_pin(struct sl_feature_source *source);

/* Whether GPUs can read single rows in main memory: the rows are locked, and CUDA knows the lock. */
bool sl_feature_source_reached(const struct sl_feature_source *source);

#endif
