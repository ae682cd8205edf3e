/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Packing of a part's rows for another rank. */
#include "codelets/halo.h"

#include <assert.h>
#include <string.h>

#include "codelets/aggregate.h"

struct halo_args {
    struct sl_task_args head;
    uint32_t n_chunks, shift;
    uint32_t n_columns; /* of the rows */
    uint32_t column;
    uint32_t i0;
};

#define AHEAD 16 /* rows prefetched ahead of the row being copied */

/* Byte sizes of a copy; the elements may have any dtype. */
struct pieces {
    /* Bytes: of a whole row, skipped before the copied columns, of the copied columns, and of a packed row. */
    size_t row, skipped, taken, packed;
};

static const char *piece(const struct sl_view *rows, const struct pieces *pieces, uint32_t i)
{
    uint32_t r = rows->index[i];
    const char *chunk = (const char *)rows->chunk[r >> rows->shift];
    return chunk + (size_t)(r & ((1u << rows->shift) - 1)) * pieces->row + pieces->skipped;
}

static void pack(const struct sl_view *rows, const struct pieces *pieces, uint32_t n, char *out)
{
    for (uint32_t i = 0; i < n; i++, out += pieces->packed) {
        if (i + AHEAD < n) {
            sl_row_fetch(piece(rows, pieces, i + AHEAD), pieces->taken);
        }
        memcpy(out, piece(rows, pieces, i), pieces->taken);
        memset(out + pieces->taken, 0, pieces->packed - pieces->taken);
    }
}

enum { LIST, PACKED, ROWS };

static enum sl_status pack_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct halo_args *args = cl_arg;
    const sl_real *chunk[SL_MAX_FULL_CHUNKS];
    sl_chunks_data(buffers + ROWS, args->n_chunks, chunk);
    const uint32_t *list = sl_buffer_data(buffers[LIST]);
    struct sl_view rows = {chunk, args->shift, list + args->i0};
    const size_t bytes = sl_dtype_bytes(sl_buffer_dtype(buffers[PACKED]), 1);
    const uint32_t width = sl_buffer_columns(buffers[PACKED]);
    const uint32_t rest = args->n_columns - args->column;
    struct pieces pieces = {.row = args->n_columns * bytes,
                            .skipped = args->column * bytes,
                            .taken = (rest < width ? rest : width) * bytes,
                            .packed = width * bytes};
    pack(&rows, &pieces, sl_buffer_rows(buffers[PACKED]), sl_buffer_data(buffers[PACKED]));
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status pack_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct halo_args *args = cl_arg;
    const sl_real *chunk[SL_MAX_FULL_CHUNKS];
    sl_chunks_data(buffers + ROWS, args->n_chunks, chunk);
    const uint32_t *list = sl_buffer_data(buffers[LIST]);
    const struct sl_halo_rows rows = {args->n_chunks, args->shift, args->n_columns, sl_buffer_dtype(buffers[PACKED]),
                                      (const void *const *)chunk};
    return sl_halo_pack_cuda(stream, &rows, args->column, sl_buffer_rows(buffers[PACKED]),
                             sl_buffer_columns(buffers[PACKED]), list + args->i0, sl_buffer_data(buffers[PACKED]));
}
#endif

static struct sl_operation halo_op = {
    SL_OPERATION(halo_op, "sl_halo_pack", SL_STAGE_EXCHANGE),
    .cpu = pack_cpu_task,
    SL_CUDA_FUNC(pack_cuda_task),
    .role = {{"list", STARPU_R}, {"packed", STARPU_W}, {"rows", STARPU_R | SL_REPEATED}},
};

enum sl_status sl_halo_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t column,
                                   starpu_data_handle_t list, uint32_t i0, starpu_data_handle_t packed)
{
    struct halo_args args = {.head = *head,
                             .n_chunks = rows->split.n_chunks,
                             .shift = rows->split.shift,
                             .n_columns = rows->n_columns,
                             .column = column,
                             .i0 = i0};
    struct sl_task task;
    uint32_t n = sl_handle_rows(packed);
    uint64_t end = (uint64_t)i0 + n;
    assert(end <= starpu_vector_get_nx(list));
    assert(column < rows->n_columns);
    assert(rows->split.n_chunks <= SL_MAX_FULL_CHUNKS);
    args.head.work = 2 * sl_handle_element(packed) * (uint64_t)n * sl_handle_columns(packed);
    sl_task_begin(&task, &halo_op);
    sl_task_add(&task, LIST, list, STARPU_R);
    sl_task_add(&task, PACKED, packed, STARPU_W);
    sl_task_add_each(&task, ROWS, args.n_chunks, rows->chunk, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SEND);
}
