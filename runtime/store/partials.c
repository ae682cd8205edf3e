/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lists of partial sums, which grow to the size that the largest step needs. */
#include "runtime/store/partials.h"

#include "support/memory.h"
#include "tasks/rows.h"

enum sl_status sl_partials_next(struct sl_partials *partials, uint32_t leaf, uint32_t n_rows, uint32_t n_columns,
                                enum sl_dtype dtype, starpu_data_handle_t *out)
{
    SL_FAIL_IF(partials->n == partials->room, SL_EINTERNAL,
               "a step has more than the %u partials that there is room for", partials->room);
    starpu_data_handle_t *handle = &partials->handle[partials->n];
    if (*handle == NULL) {
        SL_CHECK(sl_matrix_register(n_rows, n_columns, dtype, handle));
    }
    *out = *handle;
    partials->leaf[partials->n++] = leaf;
    return SL_OK;
}

enum sl_status sl_partials_next_touched(struct sl_partials *partials, uint32_t leaf, uint32_t n_rows,
                                        uint32_t n_columns, starpu_data_handle_t *out,
                                        starpu_data_handle_t *touched_out, bool *fresh)
{
    const uint32_t i = partials->n;
    SL_CHECK(sl_partials_next(partials, leaf, n_rows, n_columns, SL_DTYPE_REAL, out));
    if (partials->touched == NULL) {
        SL_CHECK(sl_alloc_zero(partials->room, sizeof *partials->touched, "partials", &partials->touched));
        SL_CHECK(sl_matrix_register(1, n_rows, SL_DTYPE_I8, &partials->sum_touched));
    }
    *fresh = partials->touched[i] == NULL;
    if (*fresh) {
        SL_CHECK(sl_matrix_register(1, n_rows, SL_DTYPE_I8, &partials->touched[i]));
    }
    *touched_out = partials->touched[i];
    return SL_OK;
}

enum sl_status sl_partials_open(uint32_t room, struct sl_partials *out)
{
    out->room = room;
    SL_CHECK(sl_alloc(room, sizeof *out->leaf, "partials", &out->leaf));
    return sl_alloc_zero(room, sizeof *out->handle, "partials", &out->handle);
}

void sl_partials_close(struct sl_partials *partials)
{
    if (partials->handle != NULL) {
        for (uint32_t i = 0; i < partials->room; i++) {
            sl_handle_close(partials->handle[i]);
        }
    }
    if (partials->touched != NULL) {
        for (uint32_t i = 0; i < partials->room; i++) {
            sl_handle_close(partials->touched[i]);
        }
        sl_handle_close(partials->sum_touched);
    }
    sl_free(partials->touched);
    sl_free(partials->leaf);
    sl_free(partials->handle);
    *partials = (struct sl_partials){0};
}
