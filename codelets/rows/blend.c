/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Scale rows, and store or add them; the gradient of the scale. For each pair of dtypes a loop of its own; so for CUDA
 * in blend_cuda.cu. */
#include "codelets/rows/blend.h"

#include <assert.h>

#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

SL_INLINE void blend(enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n, sl_real a, const void *restrict x,
                     int beta, void *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        sl_real term = a * sl_entry(x_dtype, x, i);
        sl_entry_set(out_dtype, out, i, beta ? sl_entry(out_dtype, out, i) + term : term);
    }
}

/* beta as a constant. */
SL_INLINE void blend_by_beta(enum sl_dtype out_dtype, enum sl_dtype x_dtype, size_t n, sl_real a, const void *x,
                             int beta, void *out)
{
    if (beta == 0) {
        blend(x_dtype, out_dtype, n, a, x, 0, out);
    } else {
        blend(x_dtype, out_dtype, n, a, x, 1, out);
    }
}

SL_INLINE void blend_by_out(enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n, sl_real a, const void *x,
                            int beta, void *out)
{
    SL_BY_DTYPE(out_dtype, blend_by_beta, x_dtype, n, a, x, beta, out);
}

SL_CLONES void sl_blend_cpu(enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n, double a, const sl_real *factor,
                            const void *x, int beta, void *out)
{
    const sl_real scale = factor == NULL ? (sl_real)a : *factor;
    SL_BY_DTYPE(x_dtype, blend_by_out, out_dtype, n, scale, x, beta, out);
}

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

SL_CLONES void sl_blend_gradient_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *g, enum sl_dtype x_dtype,
                                     const void *x, sl_real *ge_out)
{
    double sum = 0;
    SL_BY_DTYPE(x_dtype, add_products, n_rows, n_columns, g, x, &sum);
    *ge_out = (sl_real)sum;
}

/* ---- operations ---- */

struct blend {
    struct sl_task_args head;
    struct sl_matrix x, out;
    struct sl_matrix e; /* optional: in place of a */
    double a;
    int beta;
};

static enum sl_status blend_rows(const void *view, const void *stream)
{
    const struct blend *v = view;
    return SL_RUN(stream, sl_blend, v->x.dtype, v->out.dtype, sl_matrix_entries(&v->x), v->a, v->e.data, v->x.data,
                  v->beta, v->out.data);
}

static struct sl_operation blend_op = {
    SL_OPERATION(blend_op, "sl_blend", SL_N_STAGES),
    SL_BODY(blend_rows, struct blend),
    .role = {{"x", STARPU_R, offsetof(struct blend, x), "D x F", SL_ROWS_OR_REALS},
             {"out", STARPU_W | SL_OR_RW, offsetof(struct blend, out), "D x F", SL_ROWS_OR_REALS},
             {"e", STARPU_R | SL_OPTIONAL, offsetof(struct blend, e), "1 x 1"}},
};

struct clear {
    struct sl_task_args head;
    struct sl_matrix out;
};

static enum sl_status clear(const void *view, const void *stream)
{
    const struct clear *v = view;
    return sl_fill(stream, 0, sl_dtype_bytes(v->out.dtype, sl_matrix_entries(&v->out)), v->out.data);
}

static struct sl_operation clear_op = {
    SL_OPERATION(clear_op, "sl_blend_clear", SL_N_STAGES),
    SL_BODY(clear, struct clear),
    .role = {{"out", STARPU_W, offsetof(struct clear, out), "D x F"}},
};

struct gradient {
    struct sl_task_args head;
    struct sl_matrix g, x, ge;
};

static enum sl_status gradient(const void *view, const void *stream)
{
    const struct gradient *v = view;
    return SL_RUN(stream, sl_blend_gradient, v->g.n_rows, v->g.n_columns, v->g.data, v->x.dtype, v->x.data, v->ge.data);
}

static struct sl_operation gradient_op = {
    SL_OPERATION(gradient_op, "sl_blend_gradient", SL_STAGE_BACKWARD),
    SL_BODY(gradient, struct gradient),
    .role = {{"g", STARPU_R, offsetof(struct gradient, g), "R x F"},
             {"x", STARPU_R, offsetof(struct gradient, x), "R x F", SL_ROWS},
             {"ge", STARPU_W, offsetof(struct gradient, ge), "K x 1"}},
};

/* ---- submissions ---- */

static enum sl_status submit(const struct sl_task_args *head, enum sl_stage stage, uint32_t n_rows, struct blend v,
                             struct sl_blend_rows x, struct sl_blend_rows out)
{
    assert(x.handle != out.handle);
    v.head = *head;
    v.head.stage = sl_task_stage(head, stage);
    v.x = sl_matrix_rows(x.handle, x.row0, n_rows);
    v.out = sl_matrix_rows(out.handle, out.row0, n_rows);
    v.out.is_kept = v.out.is_kept || v.beta != 0;
    return sl_view_submit(&blend_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_blend_submit(const struct sl_task_args *head, enum sl_stage stage, uint32_t n_rows, double a,
                               struct sl_blend_rows x, int beta, struct sl_blend_rows out)
{
    return submit(head, stage, n_rows, (struct blend){.a = a, .beta = beta}, x, out);
}

enum sl_status sl_blend_learned_submit(const struct sl_task_args *head, enum sl_stage stage, uint32_t n_rows,
                                       starpu_data_handle_t e, struct sl_blend_rows x, int beta,
                                       struct sl_blend_rows out)
{
    return submit(head, stage, n_rows, (struct blend){.e = sl_matrix_of(e), .beta = beta}, x, out);
}

enum sl_status sl_blend_clear_submit(const struct sl_task_args *head, enum sl_stage stage, starpu_data_handle_t out)
{
    struct clear v = {.head = *head, .out = sl_matrix_of(out)};
    v.head.stage = sl_task_stage(head, stage);
    return sl_view_submit(&clear_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_blend_gradient_submit(const struct sl_task_args *head, starpu_data_handle_t g, struct sl_blend_rows x,
                                        starpu_data_handle_t ge)
{
    struct gradient v = {.head = *head, .g = sl_matrix_of(g), .ge = sl_matrix_of(ge)};
    v.x = sl_matrix_rows(x.handle, x.row0, v.g.n_rows);
    return sl_view_submit(&gradient_op, &v, SL_PRIORITY_COMPUTE);
}
