/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Lists of partial sums, which grow to the size that the largest step needs. */
#include "runtime/store/partials.h"

#include "support/memory.h"
#include "tasks/rows.h"

enum sl_status sl_partials_next(struct sl_partials *partials, uint32_t n_rows, uint32_t n_columns, enum sl_dtype dtype,
                                starpu_data_handle_t *out)
{
    enum sl_status st = SL_OK;
    if (partials->n == partials->room) {
        return sl_fail(SL_EINTERNAL, "a step has more than the %u partials that there is room for", partials->room);
    }
    starpu_data_handle_t *handle = &partials->handle[partials->n];
    if (*handle == NULL) {
        SL_TRY(st, sl_matrix_register(n_rows, n_columns, dtype, handle), done);
    }
    *out = *handle;
    partials->n++;
done:
    return st;
}

enum sl_status sl_partials_open(uint32_t room, struct sl_partials *out)
{
    out->room = room;
    return sl_alloc_zero(room, sizeof *out->handle, "partials", &out->handle);
}

void sl_partials_close(struct sl_partials *partials)
{
    if (partials->handle != NULL) {
        for (uint32_t i = 0; i < partials->room; i++) {
            sl_handle_close(partials->handle[i]);
        }
    }
    sl_free(partials->handle);
    *partials = (struct sl_partials){0};
}
