/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sources: the rows of in-neighbours that the destinations of a block, or of a whole part, read; for
 * codelets/aggregate.h and codelets/attend.h.
 *
 * A position is an index into the block's T distinct sources, ordered by owner (codelets/sample.h). The PE's own
 * sources are rows of its next frontier or of its part's table; the inverse that merge wrote maps a position to the
 * row. Sources of another owner are the rows of the buffer that this owner packed.
 */
#ifndef SL_CODELETS_SOURCES_H
#define SL_CODELETS_SOURCES_H

#include "codelets/runs.h"
#include "support/random.h" /* SL_HOST_DEVICE */
#include "tasks/rows.h"
#include "tasks/task.h"

/* Most chunks of all parts together, in evaluation. */
#define SL_MAX_FULL_CHUNKS 1024

/* ---- for kernels and launchers ---- */

/* Sources of a block by position. Positions first[q] .. first[q + 1] - 1 are the items of view[q], in order. */
struct sl_sources {
    uint32_t n_owners;
    const uint32_t *first; /* n_owners + 1 */
    const struct sl_view *view;
    /* Own rows, by row, for the self terms of symmetric sums. NULL: the self term of a destination is the source with
     * the same id. */
    const struct sl_view *own;
};

/* The row of the source at a position. widths: row width of each owner; NULL: all are n_columns wide. */
SL_INLINE const char *sl_source_row(enum sl_dtype dtype, const struct sl_sources *x, const uint32_t *widths,
                                    uint32_t position, uint32_t n_columns)
{
    uint32_t q = 0;
    for (uint32_t n = x->n_owners; n > 1; n -= n / 2) {
        q += position >= x->first[q + n / 2] ? n / 2 : 0;
    }
    const uint32_t width = widths == NULL ? n_columns : widths[q];
    return (const char *)sl_view_row_of(dtype, &x->view[q], position - x->first[q], width);
}

/* Rows in chunks, as a kernel parameter. */
struct sl_device_rows {
    uint32_t n_chunks;
    uint32_t shift; /* row r is row (r & mask) of chunk r >> shift */
    const sl_real *chunk[SL_MAX_CHUNKS];
};

/* Sources of a block by position. Positions first[q] .. first[q + 1] - 1 are the rows of packed[q], in order. For q =
 * own, position first[own] + i is a row of `rows`: entry i of requester own in the own inverse. */
struct sl_device_sources {
    uint32_t n_owners, own;
    const uint32_t *inverse; /* a list by PE (codelets/sample.h) */
    struct sl_device_rows rows;
    const sl_real *packed[SL_MAX_GROUP]; /* NULL for own and for empty ranges */
    uint32_t first[SL_MAX_GROUP + 1];
    enum sl_dtype dtype; /* of all rows */
};

/* The rows of one part of the graph. */
struct sl_device_part {
    uint32_t n_chunks, shift;
    uint32_t width; /* columns of a row */
    /* A host array: device addresses of the current columns of each chunk. */
    const sl_real *const *chunk;
};

/* ---- for submissions ---- */

struct sl_vertex_factors; /* codelets/aggregate.h */

/* Sources of one PE's block as handles. */
struct sl_source_handles {
    uint32_t n_owners;     /* G */
    uint32_t own;          /* index of this PE among the owners */
    const uint32_t *first; /* G + 1 positions */
    /* Own rows, all chunks: the next level, or the part. */
    const struct sl_rows *rows;
    /* Own inverse: the row of position p is entry p - first[own] of requester own. */
    starpu_data_handle_t inverse;
    /* G slices; empty for own, and for an owner without sources. */
    const struct sl_slice *packed;
    const struct sl_vertex_factors *weights; /* NULL: the mean */
    /* float, by edge of the block (codelets/aggregate.h). NULL: 1. */
    starpu_data_handle_t edge_weights;
};

/* The terms that an owner adds to the gradients of its sources: from its own block, and from the other PEs of the
 * group. */
struct sl_share_sources {
    uint32_t t0, n_own;          /* own sources: positions t0 .. t0 + n_own - 1 */
    uint32_t n_peers;            /* G */
    uint32_t own;                /* index of this PE among the peers */
    const struct sl_slice *sent; /* G slices of gradients; empty for own, and for a PE that requested nothing */
};

/* The dtype of all rows that a sum over sources, or over whole parts, reads. SL_DTYPE_REAL if there are no rows.
 * SL_EINVAL: the rows have several dtypes. */
enum sl_status sl_sources_dtype(const char *name, const struct sl_source_handles *x, enum sl_dtype *dtype);
enum sl_status sl_parts_dtype(const char *name, uint32_t n_parts, const struct sl_rows *rows, enum sl_dtype *dtype);

/* The dtype in which a task reads rows of this dtype. StarPU knows only the bytes of an entry: two bytes in a run
 * without bf16 rows are features read in place. */
enum sl_dtype sl_dtype_read(const struct sl_task_args *head, enum sl_dtype dtype);

/* The same in place, for sums m of the rows. SL_EINVAL: the sums are bf16, the rows are not. */
enum sl_status sl_sums_dtype(const char *name, const struct sl_task_args *head, starpu_data_handle_t m,
                             enum sl_dtype *dtype);

/* Bytes moved by a sum of n_terms rows into n_rows rows. */
static inline uint64_t sl_sum_bytes(uint64_t n_terms, uint32_t n_rows, uint32_t n_columns)
{
    return (n_terms + n_rows) * n_columns * sizeof(sl_real);
}

/* ---- arguments of tasks. Sources and shares end in an array: they are the last member of a task's arguments, which
 * are submitted up to their last entry. ---- */

/* The sources of a block. Buffers: the chunks of the own rows, then the packed rows. */
struct sl_source_args {
    uint32_t n_owners;
    uint32_t own;
    uint32_t n_chunks, shift; /* of the own rows */
    enum sl_dtype dtype;
    uint32_t first[SL_MAX_GROUP + 1];
    struct sl_slice_args packed[SL_MAX_GROUP]; /* n_owners */
};

/* Fill all members but `packed`. SL_EINVAL: too many owners or chunks, or several dtypes. */
enum sl_status sl_source_args_fill(const char *name, const struct sl_source_handles *sources,
                                   struct sl_source_args *out);

/* Append the buffers. role: of the own rows; the next role is that of the packed rows. */
void sl_source_args_add(struct sl_task *task, unsigned role, const struct sl_source_handles *sources,
                        struct sl_source_args *args);

/* Inside a task: the sources, with the arrays that they point to. chunks: the buffers of the own rows. */
struct sl_source_views {
    const sl_real *own[SL_MAX_CHUNKS];
    const sl_real *packed[SL_MAX_GROUP];
    struct sl_view view[SL_MAX_GROUP];
    struct sl_view rows;
    struct sl_sources x;
};
void sl_sources_view(const struct sl_source_args *args, void *buffers[], void *inverse, void *chunks[],
                     struct sl_source_views *out);

/* struct sl_share_sources. Buffers: the gradients that other PEs have sent. */
struct sl_share_args {
    uint32_t row0;
    uint32_t n_destinations; /* of the PE */
    uint32_t t0, n_own;
    uint32_t n_chunks, shift; /* of the gradients of the destinations */
    uint32_t n_peers, own;
    struct sl_slice_args sent[SL_MAX_GROUP]; /* n_peers */
};

/* Fill all members but `sent`. gradients: of the destinations. */
void sl_share_args_fill(uint32_t row0, const struct sl_split *gradients, const struct sl_share_sources *from,
                        struct sl_share_args *out);

/* Append the buffers. Returns the number of terms. */
uint64_t sl_share_args_add(struct sl_task *task, unsigned role, const struct sl_share_sources *from,
                           struct sl_share_args *args);

/* The rows of all parts, in evaluation. Buffers: the chunks of all parts. */
struct sl_part_args {
    uint32_t n_parts;
    enum sl_dtype dtype;
    uint32_t chunks[SL_MAX_GROUP]; /* of each part */
    uint32_t shift[SL_MAX_GROUP];
    uint32_t width[SL_MAX_GROUP];
    uint32_t column[SL_MAX_GROUP]; /* the first column to read */
};

/* Fill all members. column: NULL: all 0. SL_EINVAL: too many parts or chunks, or several dtypes. */
enum sl_status sl_part_args_fill(const char *name, uint32_t n_parts, const struct sl_rows *rows, const uint32_t *column,
                                 struct sl_part_args *out);

/* Append the buffers. */
void sl_part_args_add(struct sl_task *task, unsigned role, uint32_t n_parts, const struct sl_rows *rows);

/* Inside a task: the parts' rows from their first column on, with the addresses that they point to. */
struct sl_part_views {
    const sl_real *chunk[SL_MAX_FULL_CHUNKS];
    struct sl_view view[SL_MAX_GROUP];
};
void sl_parts_view(const struct sl_part_args *args, void *chunks[], struct sl_part_views *out);

#ifdef SL_CUDA
/* The same for launchers. */
struct sl_device_rows sl_device_rows_of(void *chunks[], uint32_t n_chunks, uint32_t shift);
struct sl_device_sources sl_device_sources_of(const struct sl_source_args *args, void *buffers[], void *inverse,
                                              void *chunks[]);
void sl_device_parts_of(const struct sl_part_args *args, const struct sl_part_views *views,
                        struct sl_device_part parts_out[SL_MAX_GROUP]);
#endif

#endif
