/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Scale rows, and store or add them. */
#include "codelets/blend.h"

#include <assert.h>
#include <string.h>

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

SL_INLINE void blend_alike(enum sl_dtype dtype, size_t n, sl_real a, const void *x, int beta, void *out)
{
    blend_by_beta(dtype, dtype, n, a, x, beta, out);
}

SL_CLONES void sl_blend_cpu(enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n, double a, const void *x, int beta,
                            void *out)
{
    if (x_dtype == out_dtype) {
        SL_BY_DTYPE(x_dtype, blend_alike, n, (sl_real)a, x, beta, out);
    } else {
        SL_BY_DTYPE(out_dtype, blend_by_beta, SL_DTYPE_REAL, n, (sl_real)a, x, beta, out);
    }
}

/* ---- arguments ---- */

struct blend_args {
    struct sl_task_args head;
    double a;
    uint32_t n_rows;
    uint32_t x_row0;
    uint32_t out_row0;
    int beta;
};

struct clear_args {
    struct sl_task_args head;
};

/* ---- implementations ---- */

enum { X, OUT };
enum { CLEARED };

static size_t n_entries(void *buffer, uint32_t n_rows)
{
    return (size_t)n_rows * sl_buffer_columns(buffer);
}

static enum sl_status blend_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct blend_args *args = cl_arg;
    return SL_RUN(stream, sl_blend, sl_buffer_dtype(buffers[X]), sl_buffer_dtype(buffers[OUT]),
                  n_entries(buffers[X], args->n_rows), args->a, sl_buffer_row(buffers[X], args->x_row0), args->beta,
                  sl_buffer_row(buffers[OUT], args->out_row0));
}

static enum sl_status clear_cpu_task(void *buffers[], const void *cl_arg)
{
    (void)cl_arg;
    memset(sl_buffer_data(buffers[CLEARED]), 0,
           n_entries(buffers[CLEARED], sl_buffer_rows(buffers[CLEARED])) * sizeof(sl_real));
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status clear_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    (void)cl_arg;
    return sl_blend_clear_cuda(stream, n_entries(buffers[CLEARED], sl_buffer_rows(buffers[CLEARED])),
                               sl_buffer_data(buffers[CLEARED]));
}
#endif

/* ---- operations ---- */

static struct sl_operation blend_op = {
    SL_OPERATION(blend_op, "sl_blend", SL_N_STAGES),
    SL_BOTH(blend_task),
    .role = {{"x", STARPU_R}, {"out", STARPU_W | SL_OR_RW}},
};

static struct sl_operation clear_op = {
    SL_OPERATION(clear_op, "sl_blend_clear", SL_N_STAGES),
    .cpu = clear_cpu_task,
    SL_CUDA_FUNC(clear_cuda_task),
    .role = {{"out", STARPU_W}},
};

/* ---- submissions ---- */

static int has_rows(struct sl_blend_rows rows, uint32_t n_rows)
{
    return (uint64_t)rows.row0 + n_rows <= sl_handle_rows(rows.handle);
}

static void check_rows(uint32_t n_rows, struct sl_blend_rows x, struct sl_blend_rows out)
{
    assert(x.handle != out.handle);
    assert(sl_handle_columns(x.handle) == sl_handle_columns(out.handle));
    assert(has_rows(x, n_rows));
    assert(has_rows(out, n_rows));
}

enum sl_status sl_blend_submit(const struct sl_task_args *head, enum sl_stage stage, uint32_t n_rows, double a,
                               struct sl_blend_rows x, int beta, struct sl_blend_rows out)
{
    struct blend_args args = {
        .head = *head, .a = a, .n_rows = n_rows, .x_row0 = x.row0, .out_row0 = out.row0, .beta = beta};
    struct sl_task task;
    check_rows(n_rows, x, out);
    size_t element = sl_handle_element(out.handle);
    assert(sl_dtype_follows(sl_handle_dtype(x.handle), sl_handle_dtype(out.handle)));
    int overwrites = beta == 0 && n_rows == sl_handle_rows(out.handle);
    args.head.stage = sl_task_stage(head, stage);
    args.head.work = (beta == 0 ? 2 : 3) * (uint64_t)n_rows * sl_handle_columns(x.handle) * element;
    sl_task_begin(&task, &blend_op);
    sl_task_add(&task, X, x.handle, STARPU_R);
    sl_task_add(&task, OUT, out.handle, overwrites ? STARPU_W : STARPU_RW);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_blend_clear_submit(const struct sl_task_args *head, enum sl_stage stage, starpu_data_handle_t out)
{
    struct clear_args args = {.head = *head};
    struct sl_task task;
    args.head.stage = sl_task_stage(head, stage);
    args.head.work = (uint64_t)sl_handle_rows(out) * sl_handle_columns(out) * sizeof(sl_real);
    sl_task_begin(&task, &clear_op);
    sl_task_add(&task, CLEARED, out, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
