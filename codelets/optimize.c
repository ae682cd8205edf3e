/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Adam. */
#include "codelets/optimize.h"

#include <assert.h>

#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

#define AHEAD 8 /* touched rows that are fetched ahead */

SL_INLINE void update(const struct sl_adam_step *step, size_t n, const sl_real *restrict gradient, sl_real *restrict w,
                      sl_real *restrict m, sl_real *restrict v)
{
    for (size_t i = 0; i < n; i++) {
        sl_adam_entry(step, gradient[i], &w[i], &m[i], &v[i]);
    }
}

SL_CLONES void sl_optimize_cpu(const struct sl_adam *adam, size_t n_entries, const sl_real *gradient, sl_real *w,
                               sl_real *m, sl_real *v)
{
    const struct sl_adam_step step = sl_adam_step(adam);
    update(&step, n_entries, gradient, w, m, v);
}

SL_INLINE bool is_zero(uint32_t n, const sl_real *row)
{
    int found = 0; /* a bool would keep the loop from being vectorised */
    for (uint32_t j = 0; j < n; j++) {
        found |= row[j] != 0;
    }
    return found == 0;
}

SL_INLINE uint32_t next_row(const int8_t *touched, uint32_t r, uint32_t n_rows)
{
    return touched == NULL ? r : sl_next_touched(touched, r, n_rows);
}

SL_CLONES void sl_optimize_rows_cpu(const struct sl_adam *adam, uint32_t n_rows, uint32_t n_columns,
                                    const sl_real *gradient, const int8_t *touched, sl_real *w, sl_real *m, sl_real *v)
{
    const struct sl_adam_step step = sl_adam_step(adam);
    const size_t bytes = n_columns * sizeof *w;
    uint32_t ahead = next_row(touched, 0, n_rows), n_ahead = 0;
    for (uint32_t r = ahead; r < n_rows; r = next_row(touched, r + 1, n_rows)) {
        for (; n_ahead < AHEAD && ahead < n_rows; n_ahead++) {
            const size_t first = (size_t)ahead * n_columns;
            sl_row_fetch(gradient + first, bytes);
            sl_row_fetch(w + first, bytes);
            sl_row_fetch(m + first, bytes);
            sl_row_fetch(v + first, bytes);
            ahead = next_row(touched, ahead + 1, n_rows);
        }
        n_ahead--;
        const size_t first = (size_t)r * n_columns;
        if (!is_zero(n_columns, gradient + first)) {
            update(&step, n_columns, gradient + first, w + first, m + first, v + first);
        }
    }
}

/* ---- arguments ---- */

struct optimize_args {
    struct sl_task_args head;
    struct sl_adam adam;
    bool by_rows;
    bool noted; /* there is a buffer of touched rows */
};

/* ---- implementations ---- */

enum { GRADIENT, W, M, V, TOUCHED };

static enum sl_status optimize_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct optimize_args *args = cl_arg;
    const uint32_t n_rows = sl_buffer_rows(buffers[GRADIENT]);
    const uint32_t n_columns = sl_buffer_columns(buffers[GRADIENT]);
    if (args->by_rows) {
        const int8_t *touched = args->noted ? sl_buffer_data(buffers[TOUCHED]) : NULL;
        sl_optimize_rows_cpu(&args->adam, n_rows, n_columns, sl_buffer_data(buffers[GRADIENT]), touched,
                             sl_buffer_data(buffers[W]), sl_buffer_data(buffers[M]), sl_buffer_data(buffers[V]));
        return SL_OK;
    }
    sl_optimize_cpu(&args->adam, (size_t)n_rows * n_columns, sl_buffer_data(buffers[GRADIENT]),
                    sl_buffer_data(buffers[W]), sl_buffer_data(buffers[M]), sl_buffer_data(buffers[V]));
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status optimize_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct optimize_args *args = cl_arg;
    const uint32_t n_rows = sl_buffer_rows(buffers[GRADIENT]);
    const uint32_t n_columns = sl_buffer_columns(buffers[GRADIENT]);
    if (args->by_rows) {
        const int8_t *touched = args->noted ? sl_buffer_data(buffers[TOUCHED]) : NULL;
        return sl_optimize_rows_cuda(stream, &args->adam, n_rows, n_columns, sl_buffer_data(buffers[GRADIENT]), touched,
                                     sl_buffer_data(buffers[W]), sl_buffer_data(buffers[M]),
                                     sl_buffer_data(buffers[V]));
    }
    return sl_optimize_cuda(stream, &args->adam, (size_t)n_rows * n_columns, sl_buffer_data(buffers[GRADIENT]),
                            sl_buffer_data(buffers[W]), sl_buffer_data(buffers[M]), sl_buffer_data(buffers[V]));
}
#endif

/* ---- operations ---- */

static struct sl_operation optimize_op = {
    SL_OPERATION(optimize_op, "sl_optimize", SL_STAGE_OPTIMISE),
    .cpu = optimize_cpu_task,
    SL_CUDA_FUNC(optimize_cuda_task),
    .role = {{"gradient", STARPU_R},
             {"w", STARPU_RW},
             {"m", STARPU_RW},
             {"v", STARPU_RW},
             {"touched rows", STARPU_R | SL_OPTIONAL}},
};

/* ---- submissions ---- */

static void check_same(starpu_data_handle_t handle, starpu_data_handle_t w)
{
    assert(sl_handle_rows(handle) == sl_handle_rows(w));
    assert(sl_handle_columns(handle) == sl_handle_columns(w));
}

/* touched: NULL, or the rows of the gradient that may be other than zero. */
static enum sl_status submit(struct optimize_args args, starpu_data_handle_t gradient, starpu_data_handle_t touched,
                             starpu_data_handle_t w, starpu_data_handle_t m, starpu_data_handle_t v)
{
    struct sl_task task;
    check_same(gradient, w);
    check_same(m, w);
    check_same(v, w);
    assert(!args.noted || sl_handle_columns(touched) == sl_handle_rows(w));
    assert(args.adam.t != 0);
    args.head.work = 7 * (uint64_t)sl_handle_rows(w) * sl_handle_columns(w) * sizeof(sl_real);
    sl_task_begin(&task, &optimize_op);
    sl_task_add(&task, GRADIENT, gradient, STARPU_R);
    sl_task_add(&task, W, w, STARPU_RW);
    sl_task_add(&task, M, m, STARPU_RW);
    sl_task_add(&task, V, v, STARPU_RW);
    sl_task_add_optional(&task, TOUCHED, touched, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_optimize_submit(const struct sl_task_args *head, const struct sl_adam *adam,
                                  starpu_data_handle_t gradient, starpu_data_handle_t w, starpu_data_handle_t m,
                                  starpu_data_handle_t v)
{
    return submit((struct optimize_args){.head = *head, .adam = *adam}, gradient, NULL, w, m, v);
}

enum sl_status sl_optimize_rows_submit(const struct sl_task_args *head, const struct sl_adam *adam,
                                       starpu_data_handle_t gradient, starpu_data_handle_t touched,
                                       starpu_data_handle_t w, starpu_data_handle_t m, starpu_data_handle_t v)
{
    const struct optimize_args args = {.head = *head, .adam = *adam, .by_rows = true, .noted = touched != NULL};
    return submit(args, gradient, touched, w, m, v);
}
