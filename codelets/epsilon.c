/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows times a learned number. */
#include "codelets/epsilon.h"

#include <assert.h>

/* ---- kernels, CPU ---- */

SL_INLINE void multiply(enum sl_dtype x_dtype, enum sl_dtype out_dtype, size_t n, sl_real e, const void *restrict x,
                        int beta, void *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        sl_entry_set(out_dtype, out, i, (beta ? sl_entry(out_dtype, out, i) : 0) + e * sl_entry(x_dtype, x, i));
    }
}

SL_INLINE void multiply_alike(enum sl_dtype dtype, size_t n, sl_real e, const void *x, int beta, void *out)
{
    multiply(dtype, dtype, n, e, x, beta, out);
}

SL_CLONES void sl_epsilon_forward_cpu(size_t n, sl_real e, enum sl_dtype x_dtype, const void *x, int beta,
                                      enum sl_dtype out_dtype, void *out)
{
    if (out_dtype == x_dtype) {
        SL_BY_DTYPE(x_dtype, multiply_alike, n, e, x, beta, out);
    } else {
        SL_BY_DTYPE(x_dtype, multiply, SL_DTYPE_REAL, n, e, x, beta, out);
    }
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

SL_CLONES sl_real sl_epsilon_gradient_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *g, enum sl_dtype x_dtype,
                                          const void *x)
{
    double sum = 0;
    SL_BY_DTYPE(x_dtype, add_products, n_rows, n_columns, g, x, &sum);
    return (sl_real)sum;
}

/* ---- arguments ---- */

struct epsilon_args {
    struct sl_task_args head;
    uint32_t row0; /* first row of X or GX */
    int beta;
};

/* ---- implementations ---- */

static size_t n_entries(void *buffer)
{
    return (size_t)sl_buffer_rows(buffer) * sl_buffer_columns(buffer);
}

enum { E, X, OUT };
enum { G_OF, X_OF, GE };
enum { E_BACK, G_BACK, GX };

static enum sl_status forward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct epsilon_args *args = cl_arg;
    const sl_real *e = sl_buffer_data(buffers[E]);
    sl_epsilon_forward_cpu(n_entries(buffers[OUT]), *e, sl_buffer_dtype(buffers[X]),
                           sl_buffer_row(buffers[X], args->row0), args->beta, sl_buffer_dtype(buffers[OUT]),
                           sl_buffer_data(buffers[OUT]));
    return SL_OK;
}

static enum sl_status gradient_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct epsilon_args *args = cl_arg;
    sl_real *ge = sl_buffer_data(buffers[GE]);
    for (uint32_t k = 0; k < sl_task_n_runs(&args->head); k++) {
        uint32_t row = sl_task_run(&args->head, sl_buffer_rows(buffers[G_OF]), k);
        uint32_t end = sl_task_run(&args->head, sl_buffer_rows(buffers[G_OF]), k + 1);
        ge[k] = sl_epsilon_gradient_cpu(end - row, sl_buffer_columns(buffers[G_OF]), sl_buffer_row(buffers[G_OF], row),
                                        sl_buffer_dtype(buffers[X_OF]), sl_buffer_row(buffers[X_OF], args->row0 + row));
    }
    return SL_OK;
}

static enum sl_status backward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct epsilon_args *args = cl_arg;
    const sl_real *e = sl_buffer_data(buffers[E_BACK]);
    sl_epsilon_forward_cpu(n_entries(buffers[G_BACK]), *e, SL_DTYPE_REAL, sl_buffer_data(buffers[G_BACK]), 1,
                           SL_DTYPE_REAL, sl_buffer_row(buffers[GX], args->row0));
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status forward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct epsilon_args *args = cl_arg;
    return sl_epsilon_forward_cuda(stream, n_entries(buffers[OUT]), sl_buffer_data(buffers[E]),
                                   sl_buffer_dtype(buffers[X]), sl_buffer_row(buffers[X], args->row0), args->beta,
                                   sl_buffer_dtype(buffers[OUT]), sl_buffer_data(buffers[OUT]));
}

static enum sl_status gradient_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct epsilon_args *args = cl_arg;
    sl_real *ge = sl_buffer_data(buffers[GE]);
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        uint32_t row = sl_task_run(&args->head, sl_buffer_rows(buffers[G_OF]), k);
        uint32_t end = sl_task_run(&args->head, sl_buffer_rows(buffers[G_OF]), k + 1);
        st = sl_epsilon_gradient_cuda(stream, end - row, sl_buffer_columns(buffers[G_OF]),
                                      sl_buffer_row(buffers[G_OF], row), sl_buffer_dtype(buffers[X_OF]),
                                      sl_buffer_row(buffers[X_OF], args->row0 + row), ge + k);
    }
    return st;
}

static enum sl_status backward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct epsilon_args *args = cl_arg;
    return sl_epsilon_forward_cuda(stream, n_entries(buffers[G_BACK]), sl_buffer_data(buffers[E_BACK]), SL_DTYPE_REAL,
                                   sl_buffer_data(buffers[G_BACK]), 1, SL_DTYPE_REAL,
                                   sl_buffer_row(buffers[GX], args->row0));
}
#endif

/* ---- operations ---- */

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_epsilon_forward", SL_STAGE_AGGREGATE),
    .cpu = forward_cpu_task,
    SL_CUDA_FUNC(forward_cuda_task),
    .role = {{"e", STARPU_R}, {"x", STARPU_R}, {"out", STARPU_W}},
};

static struct sl_operation forward_add_op = {
    SL_OPERATION(forward_add_op, "sl_epsilon_forward_add", SL_STAGE_AGGREGATE),
    .cpu = forward_cpu_task,
    SL_CUDA_FUNC(forward_cuda_task),
    .role = {{"e", STARPU_R}, {"x", STARPU_R}, {"out", STARPU_RW}},
};

static struct sl_operation gradient_op = {
    SL_OPERATION(gradient_op, "sl_epsilon_gradient", SL_STAGE_BACKWARD),
    .cpu = gradient_cpu_task,
    SL_CUDA_FUNC(gradient_cuda_task),
    .role = {{"g", STARPU_R}, {"x", STARPU_R}, {"ge", STARPU_W}},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_epsilon_backward", SL_STAGE_BACKWARD),
    .cpu = backward_cpu_task,
    SL_CUDA_FUNC(backward_cuda_task),
    .role = {{"e", STARPU_R}, {"g", STARPU_R}, {"gx", STARPU_RW}},
};

/* ---- submissions ---- */

/* Check that `part`'s rows are rows of `whole` from row0 on. */
static void check_rows(starpu_data_handle_t part, starpu_data_handle_t whole, uint32_t row0)
{
    assert((uint64_t)row0 + sl_handle_rows(part) <= sl_handle_rows(whole));
    assert(sl_handle_columns(part) == sl_handle_columns(whole));
}

static enum sl_status submit(struct epsilon_args *args, struct sl_operation *operation,
                             starpu_data_handle_t const handles[3], starpu_data_handle_t rows)
{
    struct sl_task task;
    args->head.work = 3 * (uint64_t)sl_handle_rows(rows) * sl_handle_columns(rows) * sizeof(sl_real);
    sl_task_begin(&task, operation);
    for (int i = 0; i < 3; i++) {
        sl_task_add(&task, (uint32_t)i, handles[i], operation->role[i].mode);
    }
    return sl_task_submit(&task, args, sizeof *args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_epsilon_forward_submit(const struct sl_task_args *head, starpu_data_handle_t e,
                                         starpu_data_handle_t x, uint32_t x_row0, int beta, starpu_data_handle_t out)
{
    struct epsilon_args args = {.head = *head, .row0 = x_row0, .beta = beta};
    check_rows(out, x, x_row0);
    assert(sl_dtype_follows(sl_handle_dtype(out), sl_handle_dtype(x)));
    return submit(&args, beta == 0 ? &forward_op : &forward_add_op, (starpu_data_handle_t[]){e, x, out}, out);
}

enum sl_status sl_epsilon_gradient_submit(const struct sl_task_args *head, starpu_data_handle_t g,
                                          starpu_data_handle_t x, uint32_t x_row0, starpu_data_handle_t ge)
{
    struct epsilon_args args = {.head = *head, .row0 = x_row0};
    check_rows(g, x, x_row0);
    sl_task_check_runs(head, sl_handle_rows(g), ge, 1, 1);
    return submit(&args, &gradient_op, (starpu_data_handle_t[]){g, x, ge}, g);
}

enum sl_status sl_epsilon_backward_submit(const struct sl_task_args *head, starpu_data_handle_t e,
                                          starpu_data_handle_t g, starpu_data_handle_t gx, uint32_t gx_row0)
{
    struct epsilon_args args = {.head = *head, .row0 = gx_row0};
    check_rows(g, gx, gx_row0);
    return submit(&args, &backward_op, (starpu_data_handle_t[]){e, g, gx}, g);
}
