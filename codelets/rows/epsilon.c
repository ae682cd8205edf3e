/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The gradient of a learned number. */
#include "codelets/rows/epsilon.h"

#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

SL_INLINE void add_products(enum sl_dtype x_dtype, uint32_t n_rows, uint32_t n_columns, const sl_real *restrict g,
                            const void *restrict x, double *total)
{
    for (uint32_t r = 0; r < n_rows; r++) {
        size_t first = (size_t)r * n_columns;
        sl_real sum = 0;
        for (uint32_t j = 0; j < n_columns; j++) {
            sum += g[first + j] * sl_entry(x_dtype, x, first + j);
        }
        *total += (double)sum;
    }
}

SL_CLONES void sl_epsilon_gradient_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *g, enum sl_dtype x_dtype,
                                       const void *x, sl_real *ge_out)
{
    double sum = 0;
    SL_BY_DTYPE(x_dtype, add_products, n_rows, n_columns, g, x, &sum);
    *ge_out = (sl_real)sum;
}

/* ---- operations ---- */

struct gradient {
    struct sl_task_args head;
    struct sl_matrix g, x, ge;
};

static enum sl_status gradient(const void *view, const void *stream)
{
    const struct gradient *v = view;
    return SL_RUN(stream, sl_epsilon_gradient, v->g.n_rows, v->g.n_columns, v->g.data, v->x.dtype, v->x.data,
                  v->ge.data);
}

static struct sl_operation gradient_op = {
    SL_OPERATION(gradient_op, "sl_epsilon_gradient", SL_STAGE_BACKWARD),
    SL_BODY(gradient, struct gradient),
    .role = {{"g", STARPU_R, offsetof(struct gradient, g), "R x F"},
             {"x", STARPU_R, offsetof(struct gradient, x), "R x F", SL_ROWS},
             {"ge", STARPU_W, offsetof(struct gradient, ge), "K x 1"}},
};

/* ---- submissions ---- */

enum sl_status sl_epsilon_gradient_submit(const struct sl_task_args *head, starpu_data_handle_t g,
                                          starpu_data_handle_t x, uint32_t x_row0, starpu_data_handle_t ge)
{
    struct gradient v = {.head = *head, .g = sl_matrix_of(g), .ge = sl_matrix_of(ge)};
    v.x = sl_matrix_rows(x, x_row0, v.g.n_rows);
    return sl_view_submit(&gradient_op, &v, SL_PRIORITY_COMPUTE);
}
