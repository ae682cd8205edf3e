/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows of one PE at one level, split into chunks. Each chunk is a StarPU handle, so several workers can serve one
 * PE.
 *
 * Level l of a PE is its frontier S_p^l. Level 0 has the seeds, level L the input rows. Every frontier begins with
 * the frontier before it, row by row: row r of level l and row r of level l + 1 are the same vertex. The
 * destinations of a block are therefore the first rows of its sources. The number of rows in a chunk is a power of
 * two that never shrinks from one level to the next. All rows of a chunk of level l therefore lie in one chunk of
 * level l + 1.
 */
#ifndef SL_TASKS_ROWS_H
#define SL_TASKS_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "support/bf16.h"
#include "support/convert.h"
#include "support/dtype.h"
#include "support/real.h"
#include "support/status.h"
#include "tasks/handle.h"

/* A split of n_rows: chunk c has rows c << shift .. min(n_rows, (c + 1) << shift) - 1. Without rows there is no
 * chunk. */
struct sl_split {
    uint32_t n_rows;
    uint32_t shift;
    uint32_t n_chunks;
};

/* Split n_rows into at most max_chunks >= 1 chunks of at least 2^min_shift rows each; the last chunk may be shorter.
 * A chunk never has more than 2^31 rows, even if max_chunks must be exceeded. */
struct sl_split sl_split_rows(uint32_t n_rows, uint32_t max_chunks, uint32_t min_shift);

/* Number of rows in chunk c. */
static inline uint32_t sl_split_size(const struct sl_split *split, uint32_t c)
{
    uint32_t begin = c << split->shift;
    uint32_t rest = split->n_rows - begin;
    return rest < (1u << split->shift) ? rest : 1u << split->shift;
}

/* A split of only the first n_rows rows, with the same chunk boundaries. The split has at least n_rows rows. */
static inline struct sl_split sl_split_first(const struct sl_split *split, uint32_t n_rows)
{
    uint64_t n_chunks = ((uint64_t)n_rows + (1u << split->shift) - 1) >> split->shift;
    return (struct sl_split){n_rows, split->shift, (uint32_t)n_chunks};
}

/* A matrix of n_rows x n_columns elements, one matrix handle per chunk (row-major, leading dimension n_columns). */
struct sl_rows {
    struct sl_split split;
    uint32_t n_columns;
    uint32_t room; /* capacity of `chunk` */
    /* split.n_chunks handles are in use; later entries are NULL or kept for sl_rows_reshape */
    starpu_data_handle_t *chunk;
};

/* Register one uninitialised matrix handle per chunk. StarPU allocates memory when a task writes the chunk, rounded
 * up to a size class of an eighth of a power of two. The last of several chunks gets as much memory as the others,
 * so that every step uses blocks of the same sizes. Gates are SL_DTYPE_U8. SL_EINVAL: a chunk has 0, 2^32 or more
 * elements. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_rows_register(const struct sl_split *split, uint32_t n_columns, enum sl_dtype dtype,
                                struct sl_rows *out);

/* The same over existing rows: memory [n_rows x n_columns] in main memory, which must outlive the handles. */
enum sl_status sl_rows_register_over(const struct sl_split *split, uint32_t n_columns, enum sl_dtype dtype,
                                     void *memory, struct sl_rows *out);

/* Unregister all chunks, kept chunks too, and empty the struct. Does not wait: each chunk goes when the tasks
 * submitted so far have finished. An empty struct is allowed. */
void sl_rows_drop(struct sl_rows *rows);

/* Register one uninitialised matrix handle [n_rows x n_columns], its memory rounded up to a size class. SL_EINVAL as
 * above. */
enum sl_status sl_matrix_register(uint32_t n_rows, uint32_t n_columns, enum sl_dtype dtype, starpu_data_handle_t *out);

/* ---- reuse of matrices whose number of rows changes from step to step ----
 *
 * To register and unregister a matrix costs StarPU about twenty allocations and two or three tasks, more than it takes
 * to fill a small matrix. */

/* Larger matrices are not kept. A kept large matrix has left the processor's cache, whereas a block fresh from the
 * pool was just in use. */
#define SL_KEPT_BYTES ((size_t)640 << 10)

/* Give *handle n_rows rows; its columns stay as they were and its contents are lost. No task may use the handle.
 * NULL: register a new handle. If its memory is too small, the handle is registered anew, with an eighth to spare if
 * the result may be kept. SL_EINVAL as above; *handle is then NULL. */
enum sl_status sl_matrix_reshape(uint32_t n_rows, uint32_t n_columns, enum sl_dtype dtype,
                                 starpu_data_handle_t *handle);

/* Keep *handle for the next sl_matrix_reshape; the caller must first wait for the tasks submitted so far. A handle
 * with more than SL_KEPT_BYTES of memory is dropped instead. NULL is allowed. */
void sl_matrix_keep(starpu_data_handle_t *handle);

/* The same for rows, which are empty or were left by sl_rows_keep. n_columns and dtype must not change. Waits for
 * tasks that use a kept chunk. SL_EINVAL as above, SL_ENOMEM, SL_ESTARPU; on failure no chunk is in use. */
enum sl_status sl_rows_reshape(const struct sl_split *split, uint32_t n_columns, enum sl_dtype dtype,
                               struct sl_rows *rows);

/* Keep the chunks for the next sl_rows_reshape; chunks of more than SL_KEPT_BYTES are dropped. Empty rows are
 * allowed. */
void sl_rows_keep(struct sl_rows *rows);

/* Register a matrix over existing memory, which must outlive the handle. NULL: StarPU allocates it where tasks write.
 * The matrix has at least one entry. StarPU counts elements in 32 bits, so an element of a matrix with more entries is
 * a row. sl_handle_columns tells the entries of a row, and tasks can read and write the matrix. */
starpu_data_handle_t sl_matrix_over(const void *memory, uint32_t n_rows, uint32_t n_columns, enum sl_dtype dtype);

/* Register a read-only vector of n elements. The memory must outlive the handle. An empty vector is registered with a
 * single element, which nobody reads. */
starpu_data_handle_t sl_vector_readable(const void *memory, uint64_t n, size_t element);

/* Unregister *handle without waiting and set it to NULL. NULL is allowed. */
void sl_handle_drop(starpu_data_handle_t *handle);

#ifndef SL_KERNELS_ONLY
struct sl_failure;

/* Acquire a handle for the host, as starpu_data_acquire_on_node, until starpu_data_release_on_node. Waits for the
 * submitted tasks that write the handle and, with STARPU_W, for the tasks that read it. If there is nothing to wait
 * for, StarPU gets no task. SL_ESTARPU. */
enum sl_status sl_handle_acquire(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);

/* Acquire a chunk of rows for the host, until starpu_data_release. Waits for the chunk's tasks. If the run has
 * failed, returns the status of the failure and does not acquire: the rows may then have no memory
 * (runtime/machine/pool.h). SL_ESTARPU. */
enum sl_status sl_chunk_acquire(const struct sl_failure *failure, starpu_data_handle_t chunk,
                                enum starpu_data_access_mode mode);
#endif

/* Submit the tasks that are held back and use the handle (tasks/bundle.h). Call it before the host waits for a
 * handle's tasks or unregisters the handle. The functions of this header call it themselves. NULL is allowed. */
void sl_handle_let_go(starpu_data_handle_t handle);

/* Wait for the tasks that use a handle, then unregister it without fetching its data. NULL is allowed. */
void sl_handle_close(starpu_data_handle_t handle);

/* ---- shapes: a variable is [1 x 1], a vector [1 x n], a matrix [ny x nx]: StarPU's x runs along a row ---- */

/* Shape of a handle, at submission. */
uint32_t sl_handle_rows(starpu_data_handle_t handle);
uint32_t sl_handle_columns(starpu_data_handle_t handle);

/* Bytes of one element. */
size_t sl_handle_element(starpu_data_handle_t handle);

/* dtype of an entry, at submission. The functions above set it for rows and matrices. SL_N_DTYPES: nobody has set it;
 * lists of ids and structs need none. */
enum sl_dtype sl_handle_dtype(starpu_data_handle_t handle);
void sl_handle_set_dtype(starpu_data_handle_t handle, enum sl_dtype dtype);

/* Data, a row, bytes of an element, and the numbers of rows and columns of a buffer, inside a task. */
void *sl_buffer_data(void *buffer);
void *sl_buffer_row(void *buffer, uint32_t row);
size_t sl_buffer_element(void *buffer);
uint32_t sl_buffer_rows(void *buffer);
uint32_t sl_buffer_columns(void *buffer);

/* ---- rows inside a task ---- */

/* The rows of one buffer, or of several chunks, inside a task. */
struct sl_view {
    const sl_real *const *chunk; /* base address of each chunk */
    uint32_t shift;              /* row r is row (r & mask) of chunk r >> shift; 31 for a single buffer */
    const uint32_t *index;       /* item i is row index[i]; NULL: item i is row i */
};

/* Item i of a view whose rows have n_columns elements. */
static inline const sl_real *sl_view_row(const struct sl_view *view, uint32_t i, uint32_t n_columns)
{
    uint32_t r = view->index == NULL ? i : view->index[i];
    return view->chunk[r >> view->shift] + (size_t)(r & ((1u << view->shift) - 1)) * n_columns;
}

/* The same for any dtype of the chunks. */
SL_INLINE const void *sl_view_row_of(enum sl_dtype dtype, const struct sl_view *view, uint32_t i, uint32_t n_columns)
{
    uint32_t r = view->index == NULL ? i : view->index[i];
    const char *chunk = (const char *)view->chunk[r >> view->shift];
    return chunk + sl_dtype_bytes(dtype, (size_t)(r & ((1u << view->shift) - 1)) * n_columns);
}

/* Prefetch a row into the second-level cache. The second level accepts many more outstanding lines than the first. */
SL_INLINE void sl_row_fetch(const void *row, size_t bytes)
{
    for (size_t offset = 0; offset < bytes; offset += 64) {
        __builtin_prefetch((const char *)row + offset, 0, 2);
    }
}

/* ---- touched rows: an int8 for each row of a gradient, not 0 if a step touched it ---- */

/* The first touched row from r on; n: there is none before row n. Most eights of rows have none. */
SL_INLINE uint32_t sl_next_touched(const int8_t *touched, uint32_t r, uint32_t n)
{
    for (uint64_t eight = 0; r + 8 <= n; r += 8) {
        memcpy(&eight, touched + r, sizeof eight);
        if (eight != 0) {
            break;
        }
    }
    while (r < n && touched[r] == 0) {
        r++;
    }
    return r;
}

/* ---- inner products ---- */

/* Partial sums, for speed. The number is the same on every machine, which fixes the order of the sum. */
#define SL_DOT_LANES 16

/* The sum of x[c] * y[c]. */
SL_INLINE sl_real sl_row_dot(uint32_t n, const sl_real *x, const sl_real *y)
{
    sl_real lane[SL_DOT_LANES] = {0};
    uint32_t c = 0;
    for (; c + SL_DOT_LANES <= n; c += SL_DOT_LANES) {
        for (uint32_t l = 0; l < SL_DOT_LANES; l++) {
            lane[l] += x[c + l] * y[c + l];
        }
    }
    for (uint32_t l = 0; c < n; c++, l++) {
        lane[l] += x[c] * y[c];
    }
    for (uint32_t half = SL_DOT_LANES / 2; half > 0; half /= 2) {
        for (uint32_t l = 0; l < half; l++) {
            lane[l] += lane[l + half];
        }
    }
    return lane[0];
}

/* ---- dtypes of rows: SL_DTYPE_REAL or SL_DTYPE_BF16 ---- */

/* Call an SL_INLINE kernel(dtype, ...) with the dtype as a constant, so that the kernel is compiled for each dtype. */
#define SL_BY_DTYPE(dtype, kernel, ...)                                                                                \
    do {                                                                                                               \
        if ((dtype) == SL_DTYPE_BF16) {                                                                                \
            kernel(SL_DTYPE_BF16, __VA_ARGS__);                                                                        \
        } else {                                                                                                       \
            kernel(SL_DTYPE_REAL, __VA_ARGS__);                                                                        \
        }                                                                                                              \
    } while (0)

/* The same for kernels that also read float16 features in place. */
#define SL_BY_DTYPE_READ(dtype, kernel, ...)                                                                           \
    do {                                                                                                               \
        if ((dtype) == SL_DTYPE_F16) {                                                                                 \
            kernel(SL_DTYPE_F16, __VA_ARGS__);                                                                         \
        } else {                                                                                                       \
            SL_BY_DTYPE(dtype, kernel, __VA_ARGS__);                                                                   \
        }                                                                                                              \
    } while (0)

/* An entry of rows, or of float16 features. The dtype is a constant (SL_BY_DTYPE). */
SL_INLINE sl_real sl_entry(enum sl_dtype dtype, const void *rows, size_t i)
{
    if (dtype == SL_DTYPE_F16) {
        return (sl_real)sl_f16_float(((const sl_f16 *)rows)[i]);
    }
    return dtype == SL_DTYPE_BF16 ? sl_bf16_real(((const sl_bf16 *)rows)[i]) : ((const sl_real *)rows)[i];
}

/* Set an entry, rounded to the dtype. */
SL_INLINE void sl_entry_set(enum sl_dtype dtype, void *rows, size_t i, sl_real x)
{
    if (dtype == SL_DTYPE_BF16) {
        ((sl_bf16 *)rows)[i] = sl_bf16_of(x);
    } else {
        ((sl_real *)rows)[i] = x;
    }
}

/* n entries of rows, as sl_real, into `to`. */
void sl_entries_widen(enum sl_dtype dtype, size_t n, const void *rows, sl_real *to);

#endif
