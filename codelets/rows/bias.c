/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A repeated row, one warp per row. Column sums on a CPU: a tile of columns at a time, and in the tile a slab of rows
 * at a time. */
#include "codelets/rows/bias.h"

/* ---- kernels ---- */

SL_KERNEL repeat_row(uint32_t n_rows, uint32_t n_columns, const sl_real *restrict row, sl_real *restrict z)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            z[i * n_columns + c] = row[c];
        }
    }
}

SL_LAUNCHER(sl_bias_forward, uint32_t n_rows, uint32_t n_columns, const sl_real *b, sl_real *z_out)
{
    if (b == NULL) {
        return SL_CLEAR("sl_bias_forward", z_out, (size_t)n_rows * n_columns * sizeof *z_out);
    }
    return SL_LAUNCH("sl_bias_forward", sl_warp_blocks(n_rows), repeat_row, n_rows, n_columns, b, z_out);
}

SL_LAUNCHER(sl_bias_backward, uint32_t n_rows, uint32_t n_columns, const sl_real *gz, int beta, sl_real *gb_out)
{
    const struct sl_column_sums s = {n_rows, n_columns, gz, n_columns, NULL, 0, 1};
    return SL_LAUNCH_ALSO(sl_column_sums, &s, beta, gb_out);
}

#ifndef SL_KERNELS_ONLY
#include "support/minmax.h"

#define SUM_COLUMNS 256 /* columns of one tile */
#define SUM_ROWS 64     /* rows summed in sl_real before the sum goes to the double */

/* Sums over rows r0 .. end - 1 of columns c0 .. c0 + n - 1, which share a weight. */
SL_INLINE void sum_block(const struct sl_column_sums *s, uint32_t c0, uint32_t n, uint32_t r0, uint32_t end,
                         sl_real part[SUM_COLUMNS])
{
    memset(part, 0, SUM_COLUMNS * sizeof *part);
    for (uint32_t r = r0; r < end; r++) {
        const sl_real *restrict row = s->g + r * s->stride + c0;
        const sl_real weight = s->weight == NULL ? 1 : s->weight[r * s->weight_stride + c0 / s->width];
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
        uint32_t end = r0 + sl_min_u32(s->n_rows - r0, SUM_ROWS);
        sum_block(s, c0, n, r0, end, part);
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

SL_CLONES enum sl_status sl_column_sums_cpu(const struct sl_column_sums *s, int beta, sl_real *sums_out)
{
    double total[SUM_COLUMNS];
    for (uint32_t c0 = 0, n; c0 < s->n_columns; c0 += n) {
        n = tile_columns(s, c0);
        sum_tile(s, c0, n, total);
        for (uint32_t c = 0; c < n; c++) {
            sums_out[c0 + c] = (sl_real)(total[c] + (beta == 0 ? 0 : (double)sums_out[c0 + c]));
        }
    }
    return SL_OK;
}

/* ---- operations ---- */

struct forward {
    struct sl_task_args head;
    struct sl_matrix b, z;
};

static enum sl_status forward(const void *view, const void *stream)
{
    const struct forward *v = view;
    return SL_RUN(stream, sl_bias_forward, v->z.n_rows, v->z.n_columns, v->b.data, v->z.data);
}

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_bias_forward", SL_STAGE_DENSE),
    SL_BODY(forward, struct forward),
    .role = {{"b", STARPU_R, offsetof(struct forward, b), "1 x H"},
             {"z", STARPU_W, offsetof(struct forward, z), "D x H"}},
};

struct backward {
    struct sl_task_args head;
    struct sl_matrix gz, gb;
};

static enum sl_status backward(const void *view, const void *stream)
{
    const struct backward *v = view;
    return SL_RUN(stream, sl_bias_backward, v->gz.n_rows, v->gz.n_columns, v->gz.data, 0, v->gb.data);
}

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_bias_backward", SL_STAGE_BACKWARD),
    SL_BODY(backward, struct backward),
    .role = {{"gz", STARPU_R, offsetof(struct backward, gz), "R x H"},
             {"gb", STARPU_W, offsetof(struct backward, gb), "K x H"}},
};

/* ---- submissions ---- */

enum sl_status sl_bias_forward_submit(const struct sl_task_args *head, starpu_data_handle_t b, starpu_data_handle_t z)
{
    struct forward v = {.head = *head, .b = sl_matrix_of(b), .z = sl_matrix_of(z)};
    return sl_view_submit(&forward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_bias_backward_submit(const struct sl_task_args *head, starpu_data_handle_t gz,
                                       starpu_data_handle_t gb)
{
    struct backward v = {.head = *head, .gz = sl_matrix_of(gz), .gb = sl_matrix_of(gb)};
    return sl_view_submit(&backward_op, &v, SL_PRIORITY_COMPUTE);
}

#endif
