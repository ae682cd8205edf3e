/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Rows times a learned number. */
#include "codelets/epsilon.h"

/* ---- kernels, CPU ---- */

SL_INLINE sl_real entry(enum sl_dtype dtype, const void *x, size_t i)
{
    return dtype == SL_DTYPE_BF16 ? sl_bf16_real(((const sl_bf16 *)x)[i]) : ((const sl_real *)x)[i];
}

SL_INLINE void multiply(size_t n, sl_real e, enum sl_dtype x_dtype, const void *restrict x, int beta,
                        sl_real *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (beta ? out[i] : 0) + e * entry(x_dtype, x, i);
    }
}

SL_INLINE void multiply_rounded(size_t n, sl_real e, const sl_bf16 *restrict x, int beta, sl_bf16 *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = sl_bf16_of((beta ? sl_bf16_real(out[i]) : 0) + e * sl_bf16_real(x[i]));
    }
}

SL_CLONES void sl_epsilon_forward_cpu(size_t n, sl_real e, enum sl_dtype x_dtype, const void *x, int beta,
                                      enum sl_dtype out_dtype, void *out)
{
    if (out_dtype == SL_DTYPE_BF16) {
        multiply_rounded(n, e, x, beta, out);
    } else if (x_dtype == SL_DTYPE_BF16) {
        multiply(n, e, SL_DTYPE_BF16, x, beta, out);
    } else {
        multiply(n, e, SL_DTYPE_REAL, x, beta, out);
    }
}

SL_INLINE sl_real row_product(uint32_t n, enum sl_dtype x_dtype, const sl_real *restrict g, const void *restrict x,
                              size_t first)
{
    sl_real sum = 0;
    for (uint32_t j = 0; j < n; j++) {
        sum += g[first + j] * entry(x_dtype, x, first + j);
    }
    return sum;
}

SL_CLONES sl_real sl_epsilon_gradient_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *g, enum sl_dtype x_dtype,
                                          const void *x)
{
    double sum = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        size_t first = (size_t)r * n_columns;
        sum += (double)(x_dtype == SL_DTYPE_BF16 ? row_product(n_columns, SL_DTYPE_BF16, g, x, first)
                                                 : row_product(n_columns, SL_DTYPE_REAL, g, x, first));
    }
    return (sl_real)sum;
}

/* ---- arguments ---- */

struct epsilon_args {
    struct sl_task_args head;
    uint32_t row0; /* first row of X or GX */
    int beta;
};

/* ---- task wrappers ---- */

/* Row `row` of a buffer. */
static void *row_of(void *buffer, uint32_t row)
{
    return (char *)sl_buffer_data(buffer) + sl_dtype_bytes(sl_buffer_dtype(buffer), sl_buffer_columns(buffer)) * row;
}

static size_t n_entries(void *buffer)
{
    return (size_t)sl_buffer_rows(buffer) * sl_buffer_columns(buffer);
}

static void forward_cpu_task(void *buffers[], void *cl_arg)
{
    const struct epsilon_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    const sl_real *e = sl_buffer_data(buffers[0]);
    sl_epsilon_forward_cpu(n_entries(buffers[2]), *e, sl_buffer_dtype(buffers[1]), row_of(buffers[1], args->row0),
                           args->beta, sl_buffer_dtype(buffers[2]), sl_buffer_data(buffers[2]));
    sl_task_leave(&args->head, start_s);
}

static void gradient_cpu_task(void *buffers[], void *cl_arg)
{
    const struct epsilon_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    sl_real *ge = sl_buffer_data(buffers[2]);
    for (uint32_t k = 0; k < sl_task_n_runs(&args->head); k++) {
        uint32_t row = sl_task_run(&args->head, sl_buffer_rows(buffers[0]), k);
        uint32_t end = sl_task_run(&args->head, sl_buffer_rows(buffers[0]), k + 1);
        ge[k] = sl_epsilon_gradient_cpu(end - row, sl_buffer_columns(buffers[0]), row_of(buffers[0], row),
                                        sl_buffer_dtype(buffers[1]), row_of(buffers[1], args->row0 + row));
    }
    sl_task_leave(&args->head, start_s);
}

static void backward_cpu_task(void *buffers[], void *cl_arg)
{
    const struct epsilon_args *args = cl_arg;
    double start_s;
    if (sl_task_enter(&args->head, &start_s)) {
        return;
    }
    const sl_real *e = sl_buffer_data(buffers[0]);
    sl_epsilon_forward_cpu(n_entries(buffers[1]), *e, SL_DTYPE_REAL, sl_buffer_data(buffers[1]), 1, SL_DTYPE_REAL,
                           row_of(buffers[2], args->row0));
    sl_task_leave(&args->head, start_s);
}

#ifdef SL_CUDA
static void forward_cuda_task(void *buffers[], void *cl_arg)
{
    struct epsilon_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    enum sl_status st = sl_epsilon_forward_cuda(
        starpu_cuda_get_local_stream(), n_entries(buffers[2]), sl_buffer_data(buffers[0]), sl_buffer_dtype(buffers[1]),
        row_of(buffers[1], args->row0), args->beta, sl_buffer_dtype(buffers[2]), sl_buffer_data(buffers[2]));
    sl_task_leave_cuda(&args->head, st);
}

static void gradient_cuda_task(void *buffers[], void *cl_arg)
{
    struct epsilon_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    sl_real *ge = sl_buffer_data(buffers[2]);
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        uint32_t row = sl_task_run(&args->head, sl_buffer_rows(buffers[0]), k);
        uint32_t end = sl_task_run(&args->head, sl_buffer_rows(buffers[0]), k + 1);
        st = sl_epsilon_gradient_cuda(starpu_cuda_get_local_stream(), end - row, sl_buffer_columns(buffers[0]),
                                      row_of(buffers[0], row), sl_buffer_dtype(buffers[1]),
                                      row_of(buffers[1], args->row0 + row), ge + k);
    }
    sl_task_leave_cuda(&args->head, st);
}

static void backward_cuda_task(void *buffers[], void *cl_arg)
{
    struct epsilon_args *args = cl_arg;
    if (sl_task_enter_cuda(&args->head)) {
        return;
    }
    enum sl_status st = sl_epsilon_forward_cuda(starpu_cuda_get_local_stream(), n_entries(buffers[1]),
                                                sl_buffer_data(buffers[0]), SL_DTYPE_REAL, sl_buffer_data(buffers[1]),
                                                1, SL_DTYPE_REAL, row_of(buffers[2], args->row0));
    sl_task_leave_cuda(&args->head, st);
}
#endif

/* ---- codelets ---- */

static struct starpu_perfmodel forward_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_epsilon_forward", .size_base = sl_task_size_base};
static struct starpu_perfmodel gradient_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_epsilon_gradient", .size_base = sl_task_size_base};
static struct starpu_perfmodel backward_model = {
    .type = STARPU_REGRESSION_BASED, .symbol = "sl_epsilon_backward", .size_base = sl_task_size_base};

static struct starpu_codelet forward_cl = {
    .name = "sl_epsilon_forward",
    .cpu_funcs = {forward_cpu_task},
    SL_CUDA_FUNC(forward_cuda_task),
    .nbuffers = 3, /* e, x, out */
    .modes = {STARPU_R, STARPU_R, STARPU_W},
    .model = &forward_model,
};

static struct starpu_codelet forward_add_cl = {
    .name = "sl_epsilon_forward_add",
    .cpu_funcs = {forward_cpu_task},
    SL_CUDA_FUNC(forward_cuda_task),
    .nbuffers = 3, /* e, x, out */
    .modes = {STARPU_R, STARPU_R, STARPU_RW},
    .model = &forward_model,
};

static struct starpu_codelet gradient_cl = {
    .name = "sl_epsilon_gradient",
    .cpu_funcs = {gradient_cpu_task},
    SL_CUDA_FUNC(gradient_cuda_task),
    .nbuffers = 3, /* g, x, ge */
    .modes = {STARPU_R, STARPU_R, STARPU_W},
    .model = &gradient_model,
};

static struct starpu_codelet backward_cl = {
    .name = "sl_epsilon_backward",
    .cpu_funcs = {backward_cpu_task},
    SL_CUDA_FUNC(backward_cuda_task),
    .nbuffers = 3, /* e, g, gx */
    .modes = {STARPU_R, STARPU_R, STARPU_RW},
    .model = &backward_model,
};

/* ---- submissions ---- */

/* Check that `part`'s rows are rows of `whole` from row0 on. */
static enum sl_status check_rows(const char *name, starpu_data_handle_t part, starpu_data_handle_t whole, uint32_t row0)
{
    bool fits = (uint64_t)row0 + sl_handle_rows(part) <= sl_handle_rows(whole);
    if (!fits || sl_handle_columns(part) != sl_handle_columns(whole)) {
        return sl_fail(SL_EINVAL, "%s: rows [%u x %u] from row %u of [%u x %u]", name, sl_handle_rows(part),
                       sl_handle_columns(part), row0, sl_handle_rows(whole), sl_handle_columns(whole));
    }
    return SL_OK;
}

static enum sl_status submit(struct epsilon_args *args, struct starpu_codelet *codelet,
                             starpu_data_handle_t const handles[3], starpu_data_handle_t rows)
{
    struct sl_task task;
    args->head.work = 3 * (uint64_t)sl_handle_rows(rows) * sl_handle_columns(rows) * sizeof(sl_real);
    sl_task_begin(&task, codelet);
    for (int i = 0; i < 3; i++) {
        sl_task_add(&task, handles[i], codelet->modes[i]);
    }
    return sl_task_submit(&task, args, sizeof *args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_epsilon_forward_submit(const struct sl_task_args *head, starpu_data_handle_t e,
                                         starpu_data_handle_t x, uint32_t x_row0, int beta, starpu_data_handle_t out)
{
    struct epsilon_args args = {.head = *head, .row0 = x_row0, .beta = beta};
    enum sl_status st = check_rows("sl_epsilon_forward", out, x, x_row0);
    if (st == SL_OK && sl_handle_is_bf16(out) && !sl_handle_is_bf16(x)) {
        st = sl_fail(SL_EINVAL, "sl_epsilon_forward: OUT in bf16 from wider X; expected X in bf16, too");
    }
    if (st != SL_OK) {
        return st;
    }
    args.head.stage = sl_task_stage(head, SL_STAGE_AGGREGATE);
    return submit(&args, beta == 0 ? &forward_cl : &forward_add_cl, (starpu_data_handle_t[]){e, x, out}, out);
}

enum sl_status sl_epsilon_gradient_submit(const struct sl_task_args *head, starpu_data_handle_t g,
                                          starpu_data_handle_t x, uint32_t x_row0, starpu_data_handle_t ge)
{
    struct epsilon_args args = {.head = *head, .row0 = x_row0};
    enum sl_status st = check_rows("sl_epsilon_gradient", g, x, x_row0);
    if (st == SL_OK) {
        st = sl_task_check_runs("sl_epsilon_gradient", head, sl_handle_rows(g), ge, 1, 1);
    }
    if (st != SL_OK) {
        return st;
    }
    args.head.stage = sl_task_stage(head, SL_STAGE_BACKWARD);
    return submit(&args, &gradient_cl, (starpu_data_handle_t[]){g, x, ge}, g);
}

enum sl_status sl_epsilon_backward_submit(const struct sl_task_args *head, starpu_data_handle_t e,
                                          starpu_data_handle_t g, starpu_data_handle_t gx, uint32_t gx_row0)
{
    struct epsilon_args args = {.head = *head, .row0 = gx_row0};
    enum sl_status st = check_rows("sl_epsilon_backward", g, gx, gx_row0);
    if (st != SL_OK) {
        return st;
    }
    args.head.stage = sl_task_stage(head, SL_STAGE_BACKWARD);
    return submit(&args, &backward_cl, (starpu_data_handle_t[]){e, g, gx}, g);
}
