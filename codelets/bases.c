/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Matrices of relations from shared matrices, row by row. */
#include "codelets/bases.h"

#include <string.h>

#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

SL_INLINE void add_row(uint32_t n, sl_real weight, const sl_real *restrict from, sl_real *restrict to)
{
    for (uint32_t j = 0; j < n; j++) {
        to[j] += weight * from[j];
    }
}

SL_INLINE sl_real dot(uint32_t n, const sl_real *a, const sl_real *b)
{
    sl_real sum = 0;
    for (uint32_t j = 0; j < n; j++) {
        sum += a[j] * b[j];
    }
    return sum;
}

SL_CLONES void sl_bases_cpu(const struct sl_bases *bases, sl_real *w_out)
{
    const uint32_t n_bases = bases->n_bases;
    for (uint32_t r = 0; r < bases->n_relations; r++) {
        for (uint32_t i = 0; i < bases->n_in; i++) {
            sl_real *to = w_out + sl_bases_row(bases, bases->n_relations, r, i);
            memset(to, 0, bases->n_out * sizeof *to);
            for (uint32_t b = 0; b < n_bases; b++) {
                add_row(bases->n_out, bases->c[(size_t)r * n_bases + b], bases->v + sl_bases_row(bases, n_bases, b, i),
                        to);
            }
        }
    }
}

SL_CLONES void sl_bases_backward_cpu(const struct sl_bases *bases, const sl_real *gw, sl_real *gv_out, sl_real *gc_out)
{
    const uint32_t n_bases = bases->n_bases;
    for (uint32_t b = 0; b < n_bases; b++) {
        for (uint32_t i = 0; i < bases->n_in; i++) {
            sl_real *to = gv_out + sl_bases_row(bases, n_bases, b, i);
            memset(to, 0, bases->n_out * sizeof *to);
            for (uint32_t r = 0; r < bases->n_relations; r++) {
                add_row(bases->n_out, bases->c[(size_t)r * n_bases + b],
                        gw + sl_bases_row(bases, bases->n_relations, r, i), to);
            }
        }
    }
    for (uint32_t k = 0; k < bases->n_relations * n_bases; k++) {
        double sum = 0;
        for (uint32_t i = 0; i < bases->n_in; i++) {
            sum += (double)dot(bases->n_out, gw + sl_bases_row(bases, bases->n_relations, k / n_bases, i),
                               bases->v + sl_bases_row(bases, n_bases, k % n_bases, i));
        }
        gc_out[k] = (sl_real)sum;
    }
}

/* ---- arguments ---- */

struct bases_args {
    struct sl_task_args head;
    bool side_by_side;
};

/* ---- implementations ---- */

enum { V, C, W };
enum { BACK_GW = W, BACK_GV, BACK_GC };

static struct sl_bases bases_of(const struct bases_args *args, void *buffers[])
{
    const uint32_t n_bases = sl_buffer_columns(buffers[C]);
    return (struct sl_bases){.n_in = sl_buffer_rows(buffers[V]) / (args->side_by_side ? 1 : n_bases),
                             .n_out = sl_buffer_columns(buffers[V]) / (args->side_by_side ? n_bases : 1),
                             .n_relations = sl_buffer_rows(buffers[C]),
                             .n_bases = n_bases,
                             .side_by_side = args->side_by_side,
                             .v = sl_buffer_data(buffers[V]),
                             .c = sl_buffer_data(buffers[C])};
}

static enum sl_status bases_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct sl_bases bases = bases_of(cl_arg, buffers);
    sl_bases_cpu(&bases, sl_buffer_data(buffers[W]));
    return SL_OK;
}

static enum sl_status backward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct sl_bases bases = bases_of(cl_arg, buffers);
    sl_bases_backward_cpu(&bases, sl_buffer_data(buffers[BACK_GW]), sl_buffer_data(buffers[BACK_GV]),
                          sl_buffer_data(buffers[BACK_GC]));
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status bases_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct sl_bases bases = bases_of(cl_arg, buffers);
    return sl_bases_cuda(stream, &bases, sl_buffer_data(buffers[W]));
}

static enum sl_status backward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct sl_bases bases = bases_of(cl_arg, buffers);
    return sl_bases_backward_cuda(stream, &bases, sl_buffer_data(buffers[BACK_GW]), sl_buffer_data(buffers[BACK_GV]),
                                  sl_buffer_data(buffers[BACK_GC]));
}
#endif

/* ---- operations ---- */

static struct sl_operation bases_op = {
    SL_OPERATION(bases_op, "sl_bases", SL_STAGE_DENSE),
    .cpu = bases_cpu_task,
    SL_CUDA_FUNC(bases_cuda_task),
    .role = {{"bases", STARPU_R}, {"components", STARPU_R}, {"matrices", STARPU_W}},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_bases_backward", SL_STAGE_SYNC),
    .cpu = backward_cpu_task,
    SL_CUDA_FUNC(backward_cuda_task),
    .role = {{"bases", STARPU_R},
             {"components", STARPU_R},
             {"gradient of matrices", STARPU_R},
             {"gradient of bases", STARPU_W},
             {"gradient of components", STARPU_W}},
};

/* ---- submissions ---- */

static enum sl_status check_shape(const char *name, starpu_data_handle_t handle, uint32_t n_rows, uint32_t n_columns)
{
    if (sl_handle_rows(handle) == n_rows && sl_handle_columns(handle) == n_columns) {
        return SL_OK;
    }
    return sl_fail(SL_EINVAL, "%s: found a matrix [%u x %u], expected [%u x %u]", name, sl_handle_rows(handle),
                   sl_handle_columns(handle), n_rows, n_columns);
}

/* Check the matrices of all relations, and begin a task with the parameters. */
static enum sl_status begin(const char *name, const struct sl_bases_layer *layer, starpu_data_handle_t w,
                            struct sl_operation *operation, struct sl_task *task)
{
    const uint32_t n_relations = sl_handle_rows(layer->c);
    const uint32_t n_bases = sl_handle_columns(layer->c);
    const uint32_t rows = sl_handle_rows(layer->v);
    const uint32_t columns = sl_handle_columns(layer->v);
    enum sl_status st;
    if (n_bases == 0 || (layer->side_by_side ? columns : rows) % n_bases != 0) {
        return sl_fail(SL_EINVAL, "%s: %u bases in a matrix [%u x %u], expected a divisor", name, n_bases, rows,
                       columns);
    }
    if (layer->side_by_side) {
        st = check_shape(name, w, rows, columns / n_bases * n_relations);
    } else {
        st = check_shape(name, w, rows / n_bases * n_relations, columns);
    }
    sl_task_begin(task, operation);
    sl_task_add(task, V, layer->v, STARPU_R);
    sl_task_add(task, C, layer->c, STARPU_R);
    return st;
}

static uint64_t work_of(const struct sl_bases_layer *layer)
{
    return 2 * (uint64_t)sl_handle_rows(layer->v) * sl_handle_columns(layer->v) * sl_handle_rows(layer->c);
}

enum sl_status sl_bases_submit(const struct sl_task_args *head, const struct sl_bases_layer *layer,
                               starpu_data_handle_t w)
{
    struct bases_args args = {.head = *head, .side_by_side = layer->side_by_side};
    struct sl_task task;
    enum sl_status st = begin("sl_bases", layer, w, &bases_op, &task);
    if (st != SL_OK) {
        return st;
    }
    args.head.work = work_of(layer);
    sl_task_add(&task, W, w, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_bases_backward_submit(const struct sl_task_args *head, const struct sl_bases_layer *layer,
                                        starpu_data_handle_t gw, starpu_data_handle_t gv, starpu_data_handle_t gc)
{
    const char *name = "sl_bases_backward";
    struct bases_args args = {.head = *head, .side_by_side = layer->side_by_side};
    struct sl_task task;
    enum sl_status st;
    SL_TRY(st, begin(name, layer, gw, &backward_op, &task), failed);
    SL_TRY(st, check_shape(name, gv, sl_handle_rows(layer->v), sl_handle_columns(layer->v)), failed);
    SL_TRY(st, check_shape(name, gc, sl_handle_rows(layer->c), sl_handle_columns(layer->c)), failed);
    args.head.work = 2 * work_of(layer);
    sl_task_add(&task, BACK_GW, gw, STARPU_R);
    sl_task_add(&task, BACK_GV, gv, STARPU_W);
    sl_task_add(&task, BACK_GC, gc, STARPU_W);
    st = sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
failed:
    return st;
}
