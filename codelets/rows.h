/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows of one PE at one level, split into chunks that are StarPU handles of their own, so that several workers serve one PE.
 *
 * Level l of a PE is its frontier S_p^l; level 0 are the seeds, level L the input rows. Every frontier starts with the one
 * before it, row by row, so that row r of level l and row r of level l + 1 are the same vertex: the destinations of a block are
 * the first rows among its sources. Chunks hold a power of two of rows that never shrinks from a level to the next; the rows of
 * a chunk of level l therefore lie within one chunk of level l + 1.
 */
#ifndef SL_CODELETS_ROWS_H
#define SL_CODELETS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codelets/handle.h"
#include "support/bf16.h"
#include "support/real.h"
#include "support/status.h"

/* How n_rows are split: chunk c holds rows c << shift .. min(n_rows, (c + 1) << shift) - 1; no rows: no chunk. */
struct sl_split {
    uint32_t n_rows;
    uint32_t shift;
    uint32_t n_chunks;
};

/* Split n_rows into at most max_chunks (>= 1) chunks of at least 2^min_shift rows each (the last may be shorter). A chunk has
 * at most 2^31 rows, whatever max_chunks. */
struct sl_split sl_split_rows(uint32_t n_rows, uint32_t max_chunks, uint32_t min_shift);

/* Rows of chunk c. */
static inline uint32_t sl_split_size(const struct sl_split *split, uint32_t c)
{
    uint32_t begin = c << split->shift;
    uint32_t rest = split->n_rows - begin;
    return rest < (1u << split->shift) ? rest : 1u << split->shift;
}

/* The first n_rows of a split, which has as many or more, cut at the same rows. */
static inline struct sl_split sl_split_first(const struct sl_split *split, uint32_t n_rows)
{
    uint64_t n_chunks = ((uint64_t)n_rows + (1u << split->shift) - 1) >> split->shift;
    return (struct sl_split){n_rows, split->shift, (uint32_t)n_chunks};
}

/* n_rows x n_columns of `element` bytes, one matrix handle per chunk (row major, leading dimension n_columns). */
struct sl_rows {
    struct sl_split split;
    uint32_t n_columns;
    uint32_t room;               /* of chunk */
    starpu_data_handle_t *chunk; /* split.n_chunks are in use; the others are NULL, or kept for sl_rows_reshape */
};

/* Register one uninitialised matrix handle per chunk; StarPU allocates when a task writes it, in a size class of an eighth of a
 * power of two; the last of several chunks gets as much as the others, so that every step takes blocks of the same sizes.
 * element: bytes of an element (sizeof(sl_real), sizeof(sl_bf16), or 1 for gates).
 * SL_EINVAL: a chunk has 2^32 elements or more. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_rows_register(const struct sl_split *split, uint32_t n_columns, size_t element, struct sl_rows *out);

/* The same over rows that are there: memory[n_rows x n_columns] in main memory, which must outlive them. */
enum sl_status sl_rows_register_over(const struct sl_split *split, uint32_t n_columns, size_t element, void *memory,
                                     struct sl_rows *out);

/* Unregister, kept chunks too, once the tasks submitted so far are done with them, without waiting; empties the struct. An empty one
 * is allowed. */
void sl_rows_drop(struct sl_rows *rows);

/* A single uninitialised matrix handle [n_rows x n_columns], allocation rounded to a size class. SL_EINVAL as above. */
enum sl_status sl_matrix_register(uint32_t n_rows, uint32_t n_columns, size_t element, starpu_data_handle_t *out);

/* ---- matrices that come again with other numbers of rows are kept: to register and to unregister one costs StarPU some twenty
 * blocks of memory and two tasks or three, more than it takes to fill a small one. ---- */

/* Larger ones are not kept: they come again out of the cache, while blocks fresh from the pool were just in use. */
#define SL_KEPT_BYTES ((size_t)640 << 10)

/* Give *handle, which no task uses (NULL: there is none yet), n_rows rows of what it had columns of; its contents are lost. It is
 * registered anew where it has no room, with an eighth to spare if it then may be kept. SL_EINVAL as above; then *handle is NULL. */
enum sl_status sl_matrix_reshape(uint32_t n_rows, uint32_t n_columns, size_t element, starpu_data_handle_t *handle);

/* Keep *handle for the next sl_matrix_reshape, which must wait for the tasks submitted so far; NULL is allowed. Where it has
 * more than SL_KEPT_BYTES of memory it is dropped instead. */
void sl_matrix_keep(starpu_data_handle_t *handle);

/* The same for rows, empty ones or as sl_rows_keep left them; n_columns and element are the same each time. Waits for the tasks
 * that use a chunk which is kept. SL_EINVAL as above, SL_ENOMEM, SL_ESTARPU; then none is in use. */
enum sl_status sl_rows_reshape(const struct sl_split *split, uint32_t n_columns, size_t element, struct sl_rows *rows);

/* Keep the chunks for the next sl_rows_reshape; those of more than SL_KEPT_BYTES are dropped. Empty rows are allowed. */
void sl_rows_keep(struct sl_rows *rows);

/* Asynchronous unregistration of *handle, which becomes NULL; NULL is allowed. */
void sl_handle_drop(starpu_data_handle_t *handle);

#ifndef SL_KERNELS_ONLY
struct sl_failure;

/* starpu_data_acquire_on_node for the host, until starpu_data_release_on_node: waits for the tasks submitted so far that write it
 * and, with STARPU_W, for those that read it. Where there are none to wait for StarPU is handed no task. SL_ESTARPU. */
enum sl_status sl_handle_acquire(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);

/* A chunk of rows for the host, until starpu_data_release: waits for its tasks. What made the run fail is the status, since then its rows
 * may be nowhere (runtime/machine/pool.h). */
enum sl_status sl_chunk_acquire(const struct sl_failure *failure, starpu_data_handle_t chunk,
                                enum starpu_data_access_mode mode);
#endif

/* The host is about to wait for a handle's tasks, or to end it, as the functions of this header do by themselves: those that are held back
 * from StarPU (codelets/bundle.h) go to it first. NULL is allowed. */
void sl_handle_let_go(starpu_data_handle_t handle);

/* Wait for the tasks that use a handle and unregister it, without bringing its data back; NULL is allowed. */
void sl_handle_close(starpu_data_handle_t handle);

/* ---- shapes: whatever interface a handle was registered with, a variable is [1 x 1], a vector of n [1 x n], a matrix
 * [ny x nx] (StarPU's x runs along a row). ---- */

/* Of a handle, at submission. */
uint32_t sl_handle_rows(starpu_data_handle_t handle);
uint32_t sl_handle_columns(starpu_data_handle_t handle);

/* Bytes of one element. */
size_t sl_handle_element(starpu_data_handle_t handle);

/* Whether its elements, or inside a task wrapper a buffer's, are bf16 (support/bf16.h). */
bool sl_handle_is_bf16(starpu_data_handle_t handle);
bool sl_buffer_is_bf16(void *buffer);

/* Of a buffer, inside a task wrapper: its data, rows and columns. */
void *sl_buffer_data(void *buffer);
uint32_t sl_buffer_rows(void *buffer);
uint32_t sl_buffer_columns(void *buffer);

/* The first row of a slice, inside a task wrapper; NULL where it has none. */
void *sl_slice_data(void *const *buffers, const struct sl_slice_args *slice);

/* The data of n buffers, for kernels that take an array of pointers; to be given to sl_free. Thread safe. SL_ENOMEM. */
enum sl_status sl_buffers_data(void *const *buffers, uint32_t n, void ***out);

/* ---- rows inside a task ---- */

/* Where the rows of one buffer or several chunks are, inside a task. */
struct sl_view {
    const sl_real *const *chunk; /* base of each chunk */
    uint32_t shift;              /* row r is row (r & mask) of chunk r >> shift; 31 for a single buffer */
    const uint32_t *index;       /* NULL, or: item i is row index[i] */
};

/* Item i of a view with rows of n_columns elements. */
static inline const sl_real *sl_view_row(const struct sl_view *view, uint32_t i, uint32_t n_columns)
{
    uint32_t r = view->index == NULL ? i : view->index[i];
    return view->chunk[r >> view->shift] + (size_t)(r & ((1u << view->shift) - 1)) * n_columns;
}

/* The same where the chunks are of bf16, which kernels say by their names. */
static inline const sl_bf16 *sl_view_row_bf16(const struct sl_view *view, uint32_t i, uint32_t n_columns)
{
    uint32_t r = view->index == NULL ? i : view->index[i];
    const void *chunk = view->chunk[r >> view->shift];
    return (const sl_bf16 *)chunk + (size_t)(r & ((1u << view->shift) - 1)) * n_columns;
}

/* Ask for a row that will be read soon, into the second-level cache: many more lines may be on their way there than into the first. */
SL_INLINE void sl_row_fetch(const void *row, size_t bytes)
{
    for (size_t offset = 0; offset < bytes; offset += 64) {
        __builtin_prefetch((const char *)row + offset, 0, 2);
    }
}

/* Of which numbers rows are. Kernels of both are written once, over one of these that their callers know as a constant. */
enum sl_dtype { SL_DTYPE_REAL, SL_DTYPE_BF16 };

SL_INLINE sl_real sl_entry(enum sl_dtype dtype, const void *row, uint32_t j)
{
    return dtype == SL_DTYPE_BF16 ? sl_bf16_real(((const sl_bf16 *)row)[j]) : ((const sl_real *)row)[j];
}

SL_INLINE const void *sl_view_row_of(enum sl_dtype dtype, const struct sl_view *view, uint32_t i, uint32_t n_columns)
{
    if (dtype == SL_DTYPE_BF16) {
        return sl_view_row_bf16(view, i, n_columns);
    }
    return sl_view_row(view, i, n_columns);
}

SL_INLINE size_t sl_dtype_bytes(enum sl_dtype dtype, size_t n)
{
    return n * (dtype == SL_DTYPE_BF16 ? sizeof(sl_bf16) : sizeof(sl_real));
}

/* Of a buffer of rows, inside a task wrapper. */
static inline enum sl_dtype sl_buffer_dtype(void *buffer)
{
    return sl_buffer_is_bf16(buffer) ? SL_DTYPE_BF16 : SL_DTYPE_REAL;
}

#endif
