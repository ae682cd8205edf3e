/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Scale rows, and store or add them. */
#include "codelets/blend.h"

#include <string.h>

/* ---- kernels, CPU ---- */

SL_CLONES void sl_blend_cpu(size_t n, double a, const sl_real *x, int beta, sl_real *out)
{
    const sl_real scale = (sl_real)a;
    const sl_real *restrict from = x;
    sl_real *restrict to = out;
    if (beta == 0) {
        for (size_t i = 0; i < n; i++) {
            to[i] = scale * from[i];
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        to[i] += scale * from[i];
    }
}

SL_CLONES void sl_blend_bf16_cpu(size_t n, double a, const sl_bf16 *x, int beta, sl_bf16 *out)
{
    const sl_real scale = (sl_real)a;
    const sl_bf16 *restrict from = x;
    sl_bf16 *restrict to = out;
    if (beta == 0) {
        for (size_t i = 0; i < n; i++) {
            to[i] = sl_bf16_of(scale * sl_bf16_real(from[i]));
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        to[i] = sl_bf16_of(sl_bf16_real(to[i]) + scale * sl_bf16_real(from[i]));
    }
}

SL_CLONES void sl_blend_rounded_cpu(size_t n, double a, const sl_real *x, int beta, sl_bf16 *out)
{
    const sl_real scale = (sl_real)a;
    const sl_real *restrict from = x;
    sl_bf16 *restrict to = out;
    if (beta == 0) {
        for (size_t i = 0; i < n; i++) {
            to[i] = sl_bf16_of(scale * from[i]);
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        to[i] = sl_bf16_of(sl_bf16_real(to[i]) + scale * from[i]);
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

/* The rows of a buffer from row0 on. */
static void *rows_from(void *buffer, uint32_t row0)
{
    size_t element = (sl_buffer_dtype(buffer) == SL_DTYPE_BF16) ? sizeof(sl_bf16) : sizeof(sl_real);
    return (char *)sl_buffer_data(buffer) + (size_t)row0 * sl_buffer_columns(buffer) * element;
}

static size_t n_entries(void *buffer, uint32_t n_rows)
{
    return (size_t)n_rows * sl_buffer_columns(buffer);
}

static enum sl_status blend_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct blend_args *args = cl_arg;
    size_t n = n_entries(buffers[X], args->n_rows);
    const void *x = rows_from(buffers[X], args->x_row0);
    void *out = rows_from(buffers[OUT], args->out_row0);
    if (sl_buffer_dtype(buffers[X]) == SL_DTYPE_BF16) {
        sl_blend_bf16_cpu(n, args->a, x, args->beta, out);
    } else if (sl_buffer_dtype(buffers[OUT]) == SL_DTYPE_BF16) {
        sl_blend_rounded_cpu(n, args->a, x, args->beta, out);
    } else {
        sl_blend_cpu(n, args->a, x, args->beta, out);
    }
    return SL_OK;
}

static enum sl_status clear_cpu_task(void *buffers[], const void *cl_arg)
{
    (void)cl_arg;
    memset(sl_buffer_data(buffers[CLEARED]), 0,
           n_entries(buffers[CLEARED], sl_buffer_rows(buffers[CLEARED])) * sizeof(sl_real));
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status blend_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct blend_args *args = cl_arg;
    return sl_blend_cuda(stream, sl_buffer_dtype(buffers[X]), sl_buffer_dtype(buffers[OUT]),
                         n_entries(buffers[X], args->n_rows), args->a, rows_from(buffers[X], args->x_row0), args->beta,
                         rows_from(buffers[OUT], args->out_row0));
}

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
    .cpu = blend_cpu_task,
    SL_CUDA_FUNC(blend_cuda_task),
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

static enum sl_status check_rows(uint32_t n_rows, struct sl_blend_rows x, struct sl_blend_rows out)
{
    if (x.handle != out.handle && sl_handle_columns(x.handle) == sl_handle_columns(out.handle) && has_rows(x, n_rows) &&
        has_rows(out, n_rows)) {
        return SL_OK;
    }
    return sl_fail(SL_EINVAL, "sl_blend: %u rows of X [%u x %u] from row %u and of OUT [%u x %u] from row %u%s", n_rows,
                   sl_handle_rows(x.handle), sl_handle_columns(x.handle), x.row0, sl_handle_rows(out.handle),
                   sl_handle_columns(out.handle), out.row0,
                   x.handle == out.handle ? " are of one matrix; expected two" : " do not fit together");
}

enum sl_status sl_blend_submit(const struct sl_task_args *head, enum sl_stage stage, uint32_t n_rows, double a,
                               struct sl_blend_rows x, int beta, struct sl_blend_rows out)
{
    struct blend_args args = {
        .head = *head, .a = a, .n_rows = n_rows, .x_row0 = x.row0, .out_row0 = out.row0, .beta = beta};
    struct sl_task task;
    enum sl_status st = check_rows(n_rows, x, out);
    if (st != SL_OK) {
        return st;
    }
    size_t element = sl_handle_element(out.handle);
    if ((sl_handle_dtype(x.handle) == SL_DTYPE_BF16) && !(sl_handle_dtype(out.handle) == SL_DTYPE_BF16)) {
        return sl_fail(SL_EINVAL, "sl_blend: X in bf16, OUT of numbers of %zu bytes; expected OUT in bf16, too",
                       element);
    }
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
