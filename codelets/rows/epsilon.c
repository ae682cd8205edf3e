/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows times a learned number: a blend. */
#include "codelets/rows/epsilon.h"

#include "codelets/rows/blend.h"
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

/* OUT = e X + beta OUT: the forward, and the backward, whose X and OUT are G and GX. */
struct product {
    struct sl_task_args head;
    struct sl_matrix e, x, out;
    int beta;
};

static enum sl_status product(const void *view, const void *stream)
{
    const struct product *v = view;
    return SL_RUN(stream, sl_blend, v->x.dtype, v->out.dtype, sl_matrix_entries(&v->out), 0, v->e.data, v->x.data,
                  v->beta, v->out.data);
}

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_epsilon_forward", SL_STAGE_AGGREGATE),
    SL_BODY(product, struct product),
    .role = {{"e", STARPU_R, offsetof(struct product, e), "1 x 1"},
             {"x", STARPU_R, offsetof(struct product, x), "D x F", SL_ROWS},
             {"out", STARPU_W | SL_OR_RW, offsetof(struct product, out), "D x F", SL_ROWS_OR_REALS}},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_epsilon_backward", SL_STAGE_BACKWARD),
    SL_BODY(product, struct product),
    .role = {{"e", STARPU_R, offsetof(struct product, e), "1 x 1"},
             {"g", STARPU_R, offsetof(struct product, x), "D x F"},
             {"gx", STARPU_RW, offsetof(struct product, out), "D x F"}},
};

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

enum sl_status sl_epsilon_forward_submit(const struct sl_task_args *head, starpu_data_handle_t e,
                                         starpu_data_handle_t x, uint32_t x_row0, int beta, starpu_data_handle_t out)
{
    struct product v = {.head = *head, .e = sl_matrix_of(e), .out = sl_matrix_of(out), .beta = beta};
    v.x = sl_matrix_rows(x, x_row0, v.out.n_rows);
    v.out.is_kept = beta != 0;
    return sl_view_submit(&forward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_epsilon_gradient_submit(const struct sl_task_args *head, starpu_data_handle_t g,
                                          starpu_data_handle_t x, uint32_t x_row0, starpu_data_handle_t ge)
{
    struct gradient v = {.head = *head, .g = sl_matrix_of(g), .ge = sl_matrix_of(ge)};
    v.x = sl_matrix_rows(x, x_row0, v.g.n_rows);
    return sl_view_submit(&gradient_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_epsilon_backward_submit(const struct sl_task_args *head, starpu_data_handle_t e,
                                          starpu_data_handle_t g, starpu_data_handle_t gx, uint32_t gx_row0)
{
    struct product v = {.head = *head, .e = sl_matrix_of(e), .x = sl_matrix_of(g), .beta = 1};
    v.out = sl_matrix_rows(gx, gx_row0, v.x.n_rows);
    return sl_view_submit(&backward_op, &v, SL_PRIORITY_COMPUTE);
}
