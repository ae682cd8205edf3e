/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Packing of a part's rows for another rank. */
#include "codelets/sampling/halo.h"

#include <assert.h>
#include <string.h>

#include "support/minmax.h"

#define AHEAD 16 /* rows prefetched ahead of the row being copied */

/* ---- kernels, CPU ---- */

/* A row from a column on. */
static const char *piece(const struct sl_halo_rows *rows, uint32_t row, uint32_t column)
{
    const size_t in_chunk = row & ((1u << rows->shift) - 1);
    return (const char *)rows->chunk[row >> rows->shift] +
           sl_dtype_bytes(rows->dtype, in_chunk * rows->n_columns + column);
}

void sl_halo_pack_cpu(const struct sl_halo_rows *rows, uint32_t column, uint32_t n, uint32_t width,
                      const uint32_t *list, void *packed_out)
{
    const size_t bytes = sl_dtype_bytes(rows->dtype, width);
    const size_t taken = sl_dtype_bytes(rows->dtype, sl_min_u32(rows->n_columns - column, width));
    char *out = packed_out;
    for (uint32_t i = 0; i < n; i++, out += bytes) {
        if (i + AHEAD < n) {
            sl_row_fetch(piece(rows, list[i + AHEAD], column), taken);
        }
        memcpy(out, piece(rows, list[i], column), taken);
        memset(out + taken, 0, bytes - taken);
    }
}

/* ---- operations ---- */

struct pack {
    struct sl_task_args head;
    struct sl_matrix list, packed;
    struct sl_matrices rows;
    uint32_t shift, n_columns; /* of the rows */
    uint32_t column;
};

static enum sl_status pack(const void *view, const void *stream)
{
    const struct pack *v = view;
    const struct sl_halo_rows rows = {v->rows.n, v->shift, v->n_columns, v->packed.dtype,
                                      (const void *const *)v->rows.data};
    return SL_RUN(stream, sl_halo_pack, &rows, v->column, v->packed.n_rows, v->packed.n_columns, v->list.data,
                  v->packed.data);
}

static struct sl_operation pack_op = {
    SL_OPERATION(pack_op, "sl_halo_pack", SL_STAGE_EXCHANGE),
    SL_BODY(pack, struct pack),
    .role = {{"list", STARPU_R, offsetof(struct pack, list), "D", SL_INTS_32},
             {"packed", STARPU_W, offsetof(struct pack, packed), "D x ?", SL_ANY},
             {"rows", STARPU_R | SL_REPEATED, offsetof(struct pack, rows), "? x F", SL_ANY}},
};

/* ---- submissions ---- */

enum sl_status sl_halo_pack_submit(const struct sl_task_args *head, const struct sl_rows *rows, uint32_t column,
                                   starpu_data_handle_t list, uint32_t i0, starpu_data_handle_t packed)
{
    struct pack v = {.head = *head,
                     .packed = sl_matrix_of(packed),
                     .rows = {.n = rows->split.n_chunks, .handles = rows->chunk},
                     .shift = rows->split.shift,
                     .n_columns = rows->n_columns,
                     .column = column};
    v.list = sl_matrix_rows(list, i0, v.packed.n_rows);
    assert(column < rows->n_columns);
    assert(v.rows.n == 0 || sl_handle_dtype(rows->chunk[0]) == v.packed.dtype);
    v.head.work = 2 * sl_dtype_bytes(v.packed.dtype, sl_matrix_entries(&v.packed));
    return sl_view_submit(&pack_op, &v, SL_PRIORITY_SEND);
}
