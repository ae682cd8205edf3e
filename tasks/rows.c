/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Registration of rows; shapes of handles and buffers. */
#include "tasks/rows.h"

#include <stdbool.h>
#include <string.h>

#include "support/failure.h"
#include "support/memory.h"
#include "support/minmax.h"

#define MAX_SHIFT 31

/* ---- splitting ---- */

static uint32_t chunks_of(uint32_t n_rows, uint32_t shift)
{
    uint64_t size = UINT64_C(1) << shift;
    return (uint32_t)((n_rows + size - 1) >> shift);
}

struct sl_split sl_split_rows(uint32_t n_rows, uint32_t max_chunks, uint32_t min_shift)
{
    uint32_t shift = sl_min_u32(min_shift, MAX_SHIFT);
    while (shift < MAX_SHIFT && chunks_of(n_rows, shift) > max_chunks) {
        shift++;
    }
    return (struct sl_split){.n_rows = n_rows, .shift = shift, .n_chunks = chunks_of(n_rows, shift)};
}

/* ---- registration ---- */

/* Round up to the next eighth of a power of two, so that few block sizes are in use. */
static size_t size_class(size_t bytes)
{
    size_t grain = 1;
    while (grain * 16 <= bytes) {
        grain *= 2;
    }
    return (bytes + grain - 1) / grain * grain;
}

static enum sl_status check_matrix(uint32_t n_rows, uint32_t n_columns)
{
    uint64_t n = (uint64_t)n_rows * n_columns;
    SL_FAIL_IF(n == 0 || n > UINT32_MAX, SL_EINVAL,
               "a buffer of %u x %u elements: StarPU takes 1 to 2^32 - 1; use more chunks, or a smaller batch", n_rows,
               n_columns);
    return SL_OK;
}

/* A matrix of n_rows rows, in memory for room_rows >= n_rows rows. */
static enum sl_status register_matrix(uint32_t n_rows, uint64_t room_rows, uint32_t n_columns, enum sl_dtype dtype,
                                      starpu_data_handle_t *out)
{
    SL_CHECK(check_matrix(n_rows, n_columns));
    size_t bytes = sl_dtype_bytes(dtype, room_rows * n_columns);
    starpu_matrix_data_register_allocsize(out, -1, 0, n_columns, n_columns, n_rows, sl_dtype_size(dtype),
                                          size_class(bytes));
    sl_handle_set_dtype(*out, dtype);
    return SL_OK;
}

enum sl_status sl_matrix_register(uint32_t n_rows, uint32_t n_columns, enum sl_dtype dtype, starpu_data_handle_t *out)
{
    return register_matrix(n_rows, n_rows, n_columns, dtype, out);
}

/* Each memory node has its own copy of the handle's shape (the interface). StarPU itself changes ny like this when
 * it unpacks a matrix. */
static void set_rows(starpu_data_handle_t handle, uint32_t n_rows)
{
    for (unsigned node = 0; node < starpu_memory_nodes_get_count(); node++) {
        struct starpu_matrix_interface *matrix = starpu_data_get_interface_on_node(handle, node);
        matrix->ny = n_rows;
    }
}

/* Rows to allocate for n_rows: an eighth to spare, if the matrix is still small enough to be kept. */
static uint64_t rows_with_spare(uint32_t n_rows, size_t row_bytes)
{
    uint64_t n = n_rows + (uint64_t)n_rows / 8 + 1;
    return size_class(n * row_bytes) <= SL_KEPT_BYTES ? n : n_rows;
}

static bool fits(starpu_data_handle_t handle, uint32_t n_rows, size_t row_bytes)
{
    return handle != NULL && n_rows * row_bytes <= starpu_matrix_get_allocsize(handle);
}

enum sl_status sl_matrix_reshape(uint32_t n_rows, uint32_t n_columns, enum sl_dtype dtype, starpu_data_handle_t *handle)
{
    size_t row_bytes = sl_dtype_bytes(dtype, n_columns);
    enum sl_status st = check_matrix(n_rows, n_columns);
    if (st == SL_OK && fits(*handle, n_rows, row_bytes)) {
        set_rows(*handle, n_rows);
        return SL_OK;
    }
    sl_handle_close(*handle);
    *handle = NULL;
    if (st == SL_OK) {
        st = register_matrix(n_rows, rows_with_spare(n_rows, row_bytes), n_columns, dtype, handle);
    }
    return st;
}

starpu_data_handle_t sl_matrix_over(const void *memory, uint32_t n_rows, uint32_t n_columns, enum sl_dtype dtype)
{
    starpu_data_handle_t handle;
    const bool counts = (uint64_t)n_rows * n_columns <= UINT32_MAX;
    const uint32_t width = counts ? n_columns : 1; /* else an element of StarPU's is a row */
    const int home = memory != NULL ? STARPU_MAIN_RAM : -1;
    starpu_matrix_data_register(&handle, home, (uintptr_t)memory, width, width, n_rows,
                                sl_dtype_bytes(dtype, n_columns / width));
    sl_handle_set_dtype(handle, dtype);
    return handle;
}

starpu_data_handle_t sl_vector_readable(const void *memory, uint64_t n, size_t element)
{
    starpu_data_handle_t handle;
    starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)memory, n == 0 ? 1 : (uint32_t)n, element);
    starpu_data_set_sequential_consistency_flag(handle, 0);
    return handle;
}

void sl_matrix_keep(starpu_data_handle_t *handle)
{
    if (*handle != NULL && starpu_matrix_get_allocsize(*handle) > SL_KEPT_BYTES) {
        const struct sl_hold *hold = starpu_data_get_user_data(*handle);
        if (hold == NULL || !hold->kept) {
            sl_handle_drop(handle);
        }
    }
}

void sl_handle_let_go(starpu_data_handle_t handle)
{
    if (handle == NULL) {
        return;
    }
    const struct sl_hold *hold = starpu_data_get_user_data(handle);
    if (hold != NULL && hold->let_go != NULL) {
        hold->let_go(hold);
    }
}

void sl_handle_drop(starpu_data_handle_t *handle)
{
    if (*handle != NULL) {
        sl_handle_let_go(*handle);
        starpu_data_unregister_submit(*handle);
        *handle = NULL;
    }
}

enum sl_status sl_handle_acquire(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode)
{
    sl_handle_let_go(handle);
    if (starpu_data_acquire_on_node_try(handle, node, mode) == 0 ||
        starpu_data_acquire_on_node(handle, node, mode) == 0) {
        return SL_OK;
    }
    return sl_fail(SL_ESTARPU, "StarPU refused to hand out a buffer");
}

enum sl_status sl_chunk_acquire(const struct sl_failure *failure, starpu_data_handle_t chunk,
                                enum starpu_data_access_mode mode)
{
    sl_handle_let_go(chunk);
    SL_FAIL_IF(starpu_data_acquire(chunk, mode) != 0, SL_ESTARPU, "StarPU refused to hand out a chunk of rows");
    enum sl_status st = sl_failure_status(failure);
    if (st != SL_OK) {
        starpu_data_release(chunk);
    }
    return st;
}

void sl_handle_close(starpu_data_handle_t handle)
{
    if (handle != NULL) {
        sl_handle_let_go(handle);
        starpu_data_unregister_no_coherency(handle);
    }
}

/* Rows that each chunk has memory for. The last of several chunks gets as much as the others. */
static uint32_t chunk_room(const struct sl_split *split)
{
    return split->n_chunks > 1 ? 1u << split->shift : split->n_rows;
}

/* Register chunks over `memory`, or uninitialised chunks if memory is NULL. */
static enum sl_status register_rows(const struct sl_split *split, uint32_t n_columns, enum sl_dtype dtype, char *memory,
                                    struct sl_rows *out)
{
    SL_OWNED(sl_rows_drop) struct sl_rows rows = {.split = *split, .n_columns = n_columns};
    memset(out, 0, sizeof *out);
    SL_CHECK(sl_alloc_zero(split->n_chunks, sizeof *rows.chunk, "handles of chunks", &rows.chunk));
    rows.room = split->n_chunks;
    for (uint32_t c = 0; c < split->n_chunks; c++) {
        uint32_t n = sl_split_size(split, c);
        if (memory == NULL) {
            SL_CHECK(register_matrix(n, chunk_room(split), n_columns, dtype, &rows.chunk[c]));
        } else {
            const char *first = memory + sl_dtype_bytes(dtype, ((size_t)c << split->shift) * n_columns);
            SL_CHECK(check_matrix(n, n_columns));
            rows.chunk[c] = sl_matrix_over(first, n, n_columns, dtype);
        }
    }
    *out = SL_TAKE(rows);
    return SL_OK;
}

enum sl_status sl_rows_register(const struct sl_split *split, uint32_t n_columns, enum sl_dtype dtype,
                                struct sl_rows *out)
{
    return register_rows(split, n_columns, dtype, NULL, out);
}

enum sl_status sl_rows_register_over(const struct sl_split *split, uint32_t n_columns, enum sl_dtype dtype,
                                     void *memory, struct sl_rows *out)
{
    return register_rows(split, n_columns, dtype, memory, out);
}

void sl_rows_drop(struct sl_rows *rows)
{
    for (uint32_t c = 0; c < rows->room; c++) {
        sl_handle_drop(&rows->chunk[c]);
    }
    sl_free(rows->chunk);
    memset(rows, 0, sizeof *rows);
}

/* ---- rows that come again ---- */

static enum sl_status make_room(struct sl_rows *rows, uint32_t n_chunks)
{
    if (n_chunks <= rows->room) {
        return SL_OK;
    }
    SL_CHECK(sl_realloc(&rows->chunk, n_chunks, sizeof *rows->chunk, "handles of chunks"));
    memset(rows->chunk + rows->room, 0, (n_chunks - rows->room) * sizeof *rows->chunk);
    rows->room = n_chunks;
    return SL_OK;
}

/* Reshape a chunk to n_rows rows. A new matrix gets memory for room_rows rows. */
static enum sl_status reshape_chunk(uint32_t n_rows, uint64_t room_rows, uint32_t n_columns, enum sl_dtype dtype,
                                    starpu_data_handle_t *chunk)
{
    SL_CHECK(check_matrix(n_rows, n_columns));
    if (fits(*chunk, n_rows, sl_dtype_bytes(dtype, n_columns))) {
        SL_CHECK(sl_handle_acquire(*chunk, STARPU_ACQUIRE_NO_NODE, STARPU_W));
        set_rows(*chunk, n_rows);
        starpu_data_release_on_node(*chunk, STARPU_ACQUIRE_NO_NODE);
    } else {
        sl_handle_drop(chunk);
        return register_matrix(n_rows, room_rows, n_columns, dtype, chunk);
    }
    return SL_OK;
}

enum sl_status sl_rows_reshape(const struct sl_split *split, uint32_t n_columns, enum sl_dtype dtype,
                               struct sl_rows *rows)
{
    uint64_t room_rows = chunk_room(split);
    enum sl_status st = make_room(rows, split->n_chunks);
    if (split->n_chunks == 1) {
        room_rows = rows_with_spare(split->n_rows, sl_dtype_bytes(dtype, n_columns));
    }
    for (uint32_t c = 0; st == SL_OK && c < split->n_chunks; c++) {
        st = reshape_chunk(sl_split_size(split, c), room_rows, n_columns, dtype, &rows->chunk[c]);
    }
    if (st == SL_OK) {
        rows->split = *split;
        rows->n_columns = n_columns;
    }
    return st;
}

void sl_rows_keep(struct sl_rows *rows)
{
    for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
        sl_matrix_keep(&rows->chunk[c]);
    }
    rows->split = (struct sl_split){0};
}

/* ---- shapes ---- */

/* Every interface struct begins with its id. */
static int buffer_kind(const void *buffer)
{
    return (int)*(const enum starpu_data_interface_id *)buffer;
}

/* Uses the handle's id, which never changes. A worker that allocates the handle rewrites its whole interface
 * meanwhile. A handle that is neither matrix nor variable is a vector. Lists (tasks/list.h) are vectors with
 * another id. */
uint32_t sl_handle_rows(starpu_data_handle_t handle)
{
    return starpu_data_get_interface_id(handle) == STARPU_MATRIX_INTERFACE_ID ? starpu_matrix_get_ny(handle) : 1;
}

uint32_t sl_handle_columns(starpu_data_handle_t handle)
{
    switch ((int)starpu_data_get_interface_id(handle)) {
    case STARPU_MATRIX_INTERFACE_ID:
        return (uint32_t)(starpu_matrix_get_nx(handle) *
                          (starpu_matrix_get_elemsize(handle) / sl_handle_element(handle)));
    case STARPU_VARIABLE_INTERFACE_ID: return 1;
    default: return starpu_vector_get_nx(handle);
    }
}

size_t sl_handle_element(starpu_data_handle_t handle)
{
    const enum sl_dtype dtype = sl_handle_dtype(handle);
    switch ((int)starpu_data_get_interface_id(handle)) {
    case STARPU_MATRIX_INTERFACE_ID:
        return dtype != SL_N_DTYPES ? sl_dtype_size(dtype) : starpu_matrix_get_elemsize(handle);
    case STARPU_VARIABLE_INTERFACE_ID: return starpu_variable_get_elemsize(handle);
    default: return starpu_vector_get_elemsize(handle);
    }
}

enum sl_dtype sl_handle_dtype(starpu_data_handle_t handle)
{
    const struct sl_hold *hold = starpu_data_get_user_data(handle);
    return hold != NULL ? hold->dtype : SL_N_DTYPES;
}

void sl_handle_set_dtype(starpu_data_handle_t handle, enum sl_dtype dtype)
{
    static struct sl_hold of_dtype[SL_N_DTYPES + 1] = {
        {.dtype = SL_DTYPE_F32}, {.dtype = SL_DTYPE_F64}, {.dtype = SL_DTYPE_F16}, {.dtype = SL_DTYPE_BF16},
        {.dtype = SL_DTYPE_I8},  {.dtype = SL_DTYPE_U8},  {.dtype = SL_DTYPE_U16}, {.dtype = SL_DTYPE_I32},
        {.dtype = SL_DTYPE_U32}, {.dtype = SL_DTYPE_I64}, {.dtype = SL_DTYPE_U64}, {.dtype = SL_DTYPE_BOOL},
        {.dtype = SL_DTYPE_I16}, {.dtype = SL_N_DTYPES},
    };
    starpu_data_set_user_data(handle, &of_dtype[dtype]);
}

size_t sl_buffer_element(void *buffer)
{
    switch (buffer_kind(buffer)) {
    case STARPU_MATRIX_INTERFACE_ID: return STARPU_MATRIX_GET_ELEMSIZE(buffer);
    case STARPU_VECTOR_INTERFACE_ID: return STARPU_VECTOR_GET_ELEMSIZE(buffer);
    default: return STARPU_VARIABLE_GET_ELEMSIZE(buffer);
    }
}

void sl_entries_widen(enum sl_dtype dtype, size_t n, const void *rows, sl_real *to)
{
    if (dtype == SL_DTYPE_BF16) {
        sl_bf16_widen(n, rows, to);
    } else {
        memcpy(to, rows, n * sizeof *to);
    }
}

void *sl_buffer_data(void *buffer)
{
    switch (buffer_kind(buffer)) {
    case STARPU_MATRIX_INTERFACE_ID: return (void *)STARPU_MATRIX_GET_PTR(buffer);
    case STARPU_VECTOR_INTERFACE_ID: return (void *)STARPU_VECTOR_GET_PTR(buffer);
    default: return (void *)STARPU_VARIABLE_GET_PTR(buffer);
    }
}

uint32_t sl_buffer_rows(void *buffer)
{
    return buffer_kind(buffer) == STARPU_MATRIX_INTERFACE_ID ? (uint32_t)STARPU_MATRIX_GET_NY(buffer) : 1;
}

uint32_t sl_buffer_columns(void *buffer)
{
    switch (buffer_kind(buffer)) {
    case STARPU_MATRIX_INTERFACE_ID: return (uint32_t)STARPU_MATRIX_GET_NX(buffer);
    case STARPU_VECTOR_INTERFACE_ID: return (uint32_t)STARPU_VECTOR_GET_NX(buffer);
    default: return 1;
    }
}

void *sl_buffer_row(void *buffer, uint32_t row)
{
    return (char *)sl_buffer_data(buffer) + (size_t)row * sl_buffer_columns(buffer) * sl_buffer_element(buffer);
}
