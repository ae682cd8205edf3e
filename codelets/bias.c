/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A repeated row, and column sums. Sums take a tile of columns at a time, and in the tile a slab of rows at a time. */
#include "codelets/bias.h"

#include <assert.h>
#include <string.h>

#include "support/minmax.h"
#include "tasks/rows.h"

#define SUM_COLUMNS 256 /* columns of one tile */
#define SUM_ROWS 64     /* rows summed in sl_real before the sum goes to the double */

/* ---- kernels, CPU ---- */

void sl_bias_forward_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *b, sl_real *z_out)
{
    if (b == NULL) {
        memset(z_out, 0, (size_t)n_rows * n_columns * sizeof *z_out);
        return;
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        memcpy(z_out + (size_t)i * n_columns, b, n_columns * sizeof *z_out);
    }
}

/* Sums over rows r0 .. end - 1 of columns c0 .. c0 + n - 1, which share a weight. */
SL_INLINE void sum_block(const struct sl_column_sums *s, uint32_t c0, uint32_t n, uint32_t r0, uint32_t end,
                         sl_real part[SUM_COLUMNS])
{
    memset(part, 0, SUM_COLUMNS * sizeof *part);
    for (uint32_t r = r0; r < end; r++) {
        const sl_real *restrict row = s->g + r * s->stride + c0;
        for (uint32_t c = 0; c < n; c++) {
            part[c] += row[c];
        }
    }
}

SL_INLINE void sum_weighted_block(const struct sl_column_sums *s, uint32_t c0, uint32_t n, uint32_t r0, uint32_t end,
                                  sl_real part[SUM_COLUMNS])
{
    memset(part, 0, SUM_COLUMNS * sizeof *part);
    for (uint32_t r = r0; r < end; r++) {
        const sl_real *restrict row = s->g + r * s->stride + c0;
        const sl_real weight = s->weight[r * s->weight_stride + c0 / s->width];
        for (uint32_t c = 0; c < n; c++) {
            part[c] += weight * row[c];
        }
    }
}

SL_INLINE void sum_tile(const struct sl_column_sums *s, uint32_t c0, uint32_t n, double total[SUM_COLUMNS])
{
    sl_real part[SUM_COLUMNS];
    memset(total, 0, SUM_COLUMNS * sizeof *total);
    for (uint32_t r0 = 0; r0 < s->n_rows; r0 += SUM_ROWS) {
        uint32_t end = s->n_rows - r0 < SUM_ROWS ? s->n_rows : r0 + SUM_ROWS;
        if (s->weight == NULL) {
            sum_block(s, c0, n, r0, end, part);
        } else {
            sum_weighted_block(s, c0, n, r0, end, part);
        }
        for (uint32_t c = 0; c < n; c++) {
            total[c] += (double)part[c];
        }
    }
}

/* Columns of the tile that begins at c0. */
static inline uint32_t tile_columns(const struct sl_column_sums *s, uint32_t c0)
{
    uint32_t n = s->n_columns - c0;
    if (s->weight != NULL && s->width - c0 % s->width < n) {
        n = s->width - c0 % s->width;
    }
    return sl_min_u32(n, SUM_COLUMNS);
}

SL_CLONES void sl_column_sums_cpu(const struct sl_column_sums *s, int beta, sl_real *sums_out)
{
    double total[SUM_COLUMNS];
    for (uint32_t c0 = 0, n; c0 < s->n_columns; c0 += n) {
        n = tile_columns(s, c0);
        sum_tile(s, c0, n, total);
        for (uint32_t c = 0; c < n; c++) {
            sums_out[c0 + c] = (sl_real)(total[c] + (beta == 0 ? 0 : (double)sums_out[c0 + c]));
        }
    }
}

void sl_bias_backward_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *gz, int beta, sl_real *gb_out)
{
    struct sl_column_sums s = {.n_rows = n_rows, .n_columns = n_columns, .g = gz, .stride = n_columns};
    sl_column_sums_cpu(&s, beta, gb_out);
}

/* ---- arguments ---- */

struct bias_args {
    struct sl_task_args head;
};

/* ---- implementations ---- */

enum { B, Z };
enum { GZ, GB };

static enum sl_status forward_task(void *buffers[], const void *cl_arg, const void *stream)
{
    (void)cl_arg;
    return SL_RUN(stream, sl_bias_forward, sl_buffer_rows(buffers[Z]), sl_buffer_columns(buffers[Z]),
                  sl_buffer_data(buffers[B]), sl_buffer_data(buffers[Z]));
}

static enum sl_status backward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct bias_args *args = cl_arg;
    const uint32_t n_columns = sl_buffer_columns(buffers[GZ]);
    const sl_real *gz = sl_buffer_data(buffers[GZ]);
    sl_real *gb = sl_buffer_data(buffers[GB]);
    for (uint32_t k = 0; k < sl_task_n_runs(&args->head); k++) {
        uint32_t row = sl_task_run(&args->head, sl_buffer_rows(buffers[GZ]), k);
        uint32_t end = sl_task_run(&args->head, sl_buffer_rows(buffers[GZ]), k + 1);
        sl_bias_backward_cpu(end - row, n_columns, gz + (size_t)row * n_columns, 0, gb + (size_t)k * n_columns);
    }
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status backward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct bias_args *args = cl_arg;
    const uint32_t n_columns = sl_buffer_columns(buffers[GZ]);
    const sl_real *gz = sl_buffer_data(buffers[GZ]);
    sl_real *gb = sl_buffer_data(buffers[GB]);
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        uint32_t row = sl_task_run(&args->head, sl_buffer_rows(buffers[GZ]), k);
        uint32_t end = sl_task_run(&args->head, sl_buffer_rows(buffers[GZ]), k + 1);
        st = sl_bias_backward_cuda(stream, end - row, n_columns, gz + (size_t)row * n_columns, 0,
                                   gb + (size_t)k * n_columns);
    }
    return st;
}
#endif

/* ---- operations ---- */

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_bias_forward", SL_STAGE_DENSE),
    SL_BOTH(forward_task),
    .role = {{"b", STARPU_R}, {"z", STARPU_W}},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_bias_backward", SL_STAGE_BACKWARD),
    .cpu = backward_cpu_task,
    SL_CUDA_FUNC(backward_cuda_task),
    .role = {{"gz", STARPU_R}, {"gb", STARPU_W}},
};

/* ---- submissions ---- */

/* from, to: the buffers of roles 0 and 1. rows: the larger of the two. */
static enum sl_status submit(struct bias_args *args, struct sl_operation *operation, starpu_data_handle_t from,
                             starpu_data_handle_t to, starpu_data_handle_t rows)
{
    struct sl_task task;
    args->head.work = ((uint64_t)sl_handle_rows(rows) + 1) * sl_handle_columns(rows) * sizeof(sl_real);
    sl_task_begin(&task, operation);
    sl_task_add(&task, 0, from, STARPU_R);
    sl_task_add(&task, 1, to, STARPU_W);
    return sl_task_submit(&task, args, sizeof *args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_bias_forward_submit(const struct sl_task_args *head, starpu_data_handle_t b, starpu_data_handle_t z)
{
    struct bias_args args = {.head = *head};
    assert(sl_handle_rows(b) == 1);
    assert(sl_handle_columns(b) == sl_handle_columns(z));
    return submit(&args, &forward_op, b, z, z);
}

enum sl_status sl_bias_backward_submit(const struct sl_task_args *head, starpu_data_handle_t gz,
                                       starpu_data_handle_t gb)
{
    struct bias_args args = {.head = *head};
    sl_task_check_runs(head, sl_handle_rows(gz), gb, 1, sl_handle_columns(gz));
    return submit(&args, &backward_op, gz, gb, gz);
}
