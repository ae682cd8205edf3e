/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Normalise, gate and scale rows, one block of columns at a time; and the adjoint. */
#include "codelets/activate.h"

#include <assert.h>
#include <string.h>

#include "codelets/dropout.h"
#include "support/memory.h"
#include "support/minmax.h"

#define BLOCK SL_DROPOUT_BLOCK

/* Partial sums of a reduction along a row are a vector, for speed. Its width is the same for every instruction set, so
 * that the order of the additions is fixed. */
#define LANES (64 / sizeof(sl_real))
#define VECTOR __attribute__((vector_size(64)))

/* ---- kernels, CPU ---- */

/* The sum of the lanes, by halving. */
SL_INLINE sl_real add_lanes(const sl_real VECTOR *lane)
{
    sl_real part[LANES];
    memcpy(part, lane, sizeof part);
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t l = 0; l < half; l++) {
            part[l] += part[l + half];
        }
    }
    return part[0];
}

/* Clear all lanes but the last n_new. The last vector of a row overlaps the vector before it. */
SL_INLINE void keep_new(size_t n_new, sl_real VECTOR *lane)
{
    for (size_t l = 0; l < LANES; l++) {
        (*lane)[l] = l >= LANES - n_new ? (*lane)[l] : 0;
    }
}

/* The sum of (x[c] - x0) * (y[c] - y0). */
SL_INLINE sl_real dot(uint32_t n, const sl_real *x, sl_real x0, const sl_real *y, sl_real y0)
{
    sl_real VECTOR lane = {0};
    sl_real VECTOR a;
    sl_real VECTOR b;
    uint32_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        memcpy(&a, x + c, sizeof a);
        memcpy(&b, y + c, sizeof b);
        lane += (a - x0) * (b - y0);
    }
    if (c > 0 && c < n) {
        memcpy(&a, x + n - LANES, sizeof a);
        memcpy(&b, y + n - LANES, sizeof b);
        a = (a - x0) * (b - y0);
        keep_new(n - c, &a);
        lane += a;
    }
    if (c == 0) {
        for (uint32_t l = 0; l < n; l++) {
            lane[l] += (x[l] - x0) * (y[l] - y0);
        }
    }
    return add_lanes(&lane);
}

/* The sum of x[c]. */
SL_INLINE sl_real sum(uint32_t n, const sl_real *x)
{
    sl_real VECTOR lane = {0};
    sl_real VECTOR a;
    uint32_t c = 0;
    for (; c + LANES <= n; c += LANES) {
        memcpy(&a, x + c, sizeof a);
        lane += a;
    }
    if (c > 0 && c < n) {
        memcpy(&a, x + n - LANES, sizeof a);
        keep_new(n - c, &a);
        lane += a;
    }
    if (c == 0) {
        for (uint32_t l = 0; l < n; l++) {
            lane[l] += x[l];
        }
    }
    return add_lanes(&lane);
}

SL_INLINE struct sl_activate_row row_norm(uint32_t n, const sl_real *z)
{
    sl_real mean = sum(n, z) / (sl_real)n;
    return sl_activate_row(mean, dot(n, z, mean, z, mean) / (sl_real)n);
}

SL_INLINE void normalise_by_row(uint32_t n, struct sl_activate_row norm, const sl_real *restrict z,
                                const sl_real *restrict weight, const sl_real *restrict bias, sl_real *restrict y)
{
    for (uint32_t c = 0; c < n; c++) {
        y[c] = sl_activate_normalise(z[c], norm.mean, norm.rstd, weight[c], bias[c]);
    }
}

SL_INLINE void normalise_by_column(uint32_t n, const sl_real *restrict mean, const sl_real *restrict rstd,
                                   const sl_real *restrict z, const sl_real *restrict weight,
                                   const sl_real *restrict bias, sl_real *restrict y)
{
    for (uint32_t c = 0; c < n; c++) {
        y[c] = sl_activate_normalise(z[c], mean[c], rstd[c], weight[c], bias[c]);
    }
}

/* h = gate * scale * y + r. */
SL_INLINE void gate_block(uint32_t n, sl_real scale, const sl_real *restrict y, const uint8_t *restrict keep,
                          const sl_real *restrict residual, uint8_t *restrict gate, sl_real *restrict h)
{
    for (uint32_t c = 0; c < n; c++) {
        gate[c] = sl_activate_gate(keep[c], y[c]);
    }
    if (residual == NULL) {
        for (uint32_t c = 0; c < n; c++) {
            h[c] = sl_activate_pass(gate[c], scale, y[c]) + 0; /* no negative zero */
        }
        return;
    }
    for (uint32_t c = 0; c < n; c++) {
        h[c] = sl_activate_pass(gate[c], scale, y[c]) + residual[c];
    }
}

SL_INLINE uint32_t block_size(uint32_t n_columns, uint32_t c0)
{
    return sl_min_u32(n_columns - c0, BLOCK);
}

/* y of columns c0 .. c0 + n - 1 of one row: z itself, or its normalisation in `room`. */
SL_INLINE const sl_real *normalise_block(const struct sl_activate *a, struct sl_activate_row norm, uint32_t c0,
                                         uint32_t n, const sl_real *z, sl_real room[BLOCK])
{
    switch (a->norm) {
    case SL_ACTIVATE_LAYER: normalise_by_row(n, norm, z, a->weight + c0, a->bias + c0, room); return room;
    case SL_ACTIVATE_BATCH:
        normalise_by_column(n, a->mean + c0, a->rstd + c0, z, a->weight + c0, a->bias + c0, room);
        return room;
    default: return z;
    }
}

/* Forward of rows i0 .. i0 + n_rows - 1; their masks are drawn together. keep: all 1 without dropout. */
SL_INLINE void forward_rows(const struct sl_activate *a, uint32_t i0, uint32_t n_rows, const sl_real *z,
                            const sl_real *residual, uint8_t keep[BLOCK], uint8_t *gate_out, sl_real *h_out)
{
    const sl_real scale = (sl_real)sl_dropout_scale(a->threshold);
    struct sl_activate_row norm[SL_DROPOUT_ROWS];
    sl_vertex vertices[SL_DROPOUT_ROWS];
    sl_real room[BLOCK];
    for (uint32_t r = 0; r < n_rows; r++) {
        norm[r] = (struct sl_activate_row){0, 1};
        if (a->norm == SL_ACTIVATE_LAYER) {
            norm[r] = row_norm(a->n_columns, z + (size_t)(i0 + r) * a->n_columns);
        }
        vertices[r] = a->threshold > 0 ? a->dataset_ids[a->ids[i0 + r]] : 0;
    }
    for (uint32_t c0 = 0; c0 < a->n_columns; c0 += BLOCK) {
        uint32_t n = block_size(a->n_columns, c0);
        if (a->threshold > 0) {
            sl_dropout_keep(&a->draw, n_rows, vertices, a->threshold, c0, n, keep);
        }
        for (uint32_t r = 0; r < n_rows; r++) {
            size_t base = (size_t)(i0 + r) * a->n_columns + c0;
            const sl_real *y = normalise_block(a, norm[r], c0, n, z + base, room);
            gate_block(n, scale, y, keep + r * sl_dropout_stride(n), residual == NULL ? NULL : residual + base,
                       gate_out + base, h_out + base);
        }
    }
}

SL_CLONES void sl_activate_forward_cpu(const struct sl_activate *a, const sl_real *z, const sl_real *residual,
                                       uint8_t *gate_out, sl_real *h_out)
{
    _Alignas(64) uint8_t keep[BLOCK];
    uint32_t together = a->n_columns > 0 ? sl_dropout_rows(a->n_columns) : 1;
    memset(keep, 1, sizeof keep);
    for (uint32_t i = 0; i < a->n_rows; i += together) {
        uint32_t n_rows = sl_min_u32(a->n_rows - i, together);
        forward_rows(a, i, n_rows, z, residual, keep, gate_out, h_out);
    }
}

/* GZ of a row without a norm: GY. */
SL_INLINE void backward_plain(uint32_t n, sl_real scale, const uint8_t *restrict gate, const sl_real *restrict gh,
                              sl_real *restrict gz)
{
    for (uint32_t c = 0; c < n; c++) {
        gz[c] = sl_activate_pass(gate[c], scale, gh[c]);
    }
}

/* One row of layer norm. With a = w GY: GZ = rstd * (a - mean(a) - zhat * mean(a * zhat)). Adds to GW and GB. */
SL_INLINE void backward_layer(const struct sl_activate *a, sl_real scale, const sl_real *restrict z,
                              const uint8_t *restrict gate, const sl_real *restrict gh, sl_real *restrict gz,
                              sl_real *restrict gw, sl_real *restrict gb)
{
    const uint32_t n = a->n_columns;
    const sl_real *restrict weight = a->weight;
    const struct sl_activate_row norm = row_norm(n, z);
    for (uint32_t c = 0; c < n; c++) {
        sl_real gy = sl_activate_pass(gate[c], scale, gh[c]);
        gw[c] += gy * sl_activate_zhat(z[c], norm.mean, norm.rstd);
        gb[c] += gy;
        gz[c] = gy * weight[c];
    }
    sl_real mean = sum(n, gz) / (sl_real)n;
    sl_real slope = dot(n, gz, 0, z, norm.mean) * norm.rstd / (sl_real)n;
    for (uint32_t c = 0; c < n; c++) {
        gz[c] = sl_activate_layer_gz(norm, z[c], gz[c], mean, slope);
    }
}

/* Batch norm, all rows, the block of columns from c0 on. means: the group's means of GY * zhat and of GY. */
SL_INLINE void backward_batch_block(const struct sl_activate *a, uint32_t c0, const sl_real means[2][BLOCK],
                                    const sl_real *restrict z, const uint8_t *restrict gate, const sl_real *restrict gh,
                                    sl_real *restrict gz)
{
    const uint32_t n = block_size(a->n_columns, c0);
    const sl_real scale = (sl_real)sl_dropout_scale(a->threshold);
    const sl_real *restrict slope = means[0];
    const sl_real *restrict offset = means[1];
    const sl_real *restrict weight = a->weight + c0;
    const sl_real *restrict mean = a->mean + c0;
    const sl_real *restrict rstd = a->rstd + c0;
    for (uint32_t i = 0; i < a->n_rows; i++) {
        size_t base = (size_t)i * a->n_columns + c0;
        for (uint32_t c = 0; c < n; c++) {
            sl_real gy = sl_activate_pass(gate[base + c], scale, gh[base + c]);
            sl_real zhat = sl_activate_zhat(z[base + c], mean[c], rstd[c]);
            gz[base + c] = sl_activate_batch_gz(weight[c], rstd[c], gy, zhat, slope[c], offset[c]);
        }
    }
}

SL_INLINE void backward_batch(const struct sl_activate *a, const sl_real *z, const uint8_t *gate, const sl_real *gh,
                              const struct sl_activate_sums *sums, sl_real *gz_out)
{
    sl_real means[2][BLOCK];
    for (uint32_t c0 = 0; c0 < a->n_columns; c0 += BLOCK) {
        uint32_t n = block_size(a->n_columns, c0);
        for (uint32_t c = 0; c < n; c++) {
            means[0][c] = sl_activate_batch_mean(sums->group[c0 + c], sums->n_group);
            means[1][c] = sl_activate_batch_mean(sums->group[a->n_columns + c0 + c], sums->n_group);
        }
        backward_batch_block(a, c0, (const sl_real(*)[BLOCK])means, z, gate, gh, gz_out);
    }
}

SL_CLONES void sl_activate_backward_cpu(const struct sl_activate *a, const sl_real *z, const uint8_t *gate,
                                        const sl_real *gh, const struct sl_activate_sums *sums, sl_real *gz_out)
{
    uint32_t n = a->n_columns;
    sl_real scale = (sl_real)sl_dropout_scale(a->threshold);
    if (a->norm == SL_ACTIVATE_BATCH) {
        backward_batch(a, z, gate, gh, sums, gz_out);
        return;
    }
    if (a->norm == SL_ACTIVATE_LAYER) {
        memset(sums->gw, 0, n * sizeof *sums->gw);
        memset(sums->gb, 0, n * sizeof *sums->gb);
    }
    for (uint32_t i = 0; i < a->n_rows; i++) {
        size_t row = (size_t)i * n;
        if (a->norm == SL_ACTIVATE_LAYER) {
            backward_layer(a, scale, z + row, gate + row, gh + row, gz_out + row, sums->gw, sums->gb);
        } else {
            backward_plain(n, scale, gate + row, gh + row, gz_out + row);
        }
    }
}

/* Sums over all rows of n columns from c0 on: of GY * zhat, and of GY. */
SL_INLINE void batch_sums_block(const struct sl_activate *a, uint32_t c0, uint32_t n, const sl_real *restrict z,
                                const uint8_t *restrict gate, const sl_real *restrict gh, double *restrict slope,
                                double *restrict offset)
{
    const sl_real *restrict mean = a->mean + c0;
    const sl_real *restrict rstd = a->rstd + c0;
    const sl_real scale = (sl_real)sl_dropout_scale(a->threshold);
    memset(slope, 0, n * sizeof *slope);
    memset(offset, 0, n * sizeof *offset);
    for (uint32_t i = 0; i < a->n_rows; i++) {
        size_t base = (size_t)i * a->n_columns + c0;
        for (uint32_t c = 0; c < n; c++) {
            double gy = (double)sl_activate_pass(gate[base + c], scale, gh[base + c]);
            slope[c] += gy * (double)sl_activate_zhat(z[base + c], mean[c], rstd[c]);
            offset[c] += gy;
        }
    }
}

SL_CLONES void sl_activate_batch_sums_cpu(const struct sl_activate *a, const sl_real *z, const uint8_t *gate,
                                          const sl_real *gh, double *sums_out)
{
    for (uint32_t c0 = 0; c0 < a->n_columns; c0 += BLOCK) {
        batch_sums_block(a, c0, block_size(a->n_columns, c0), z, gate, gh, sums_out + c0, sums_out + a->n_columns + c0);
    }
}

SL_CLONES void sl_activate_residual_backward_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *gh, sl_real *gr)
{
    size_t n = (size_t)n_rows * n_columns;
    const sl_real *restrict from = gh;
    sl_real *restrict to = gr;
    for (size_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

/* ---- arguments ---- */

struct activate_args {
    struct sl_task_args head;
    struct sl_draw draw;
    uint64_t n_group;
    enum sl_activate_norm norm;
    uint32_t threshold;
    uint32_t row0;
    uint32_t residual_row0;
    int has_residual;
};

/* ---- implementations ---- */

enum {
    FORWARD_Z,
    FORWARD_GATE,
    FORWARD_H,
    FORWARD_WEIGHT,
    FORWARD_BIAS,
    FORWARD_STATISTICS,
    FORWARD_RESIDUAL,
    FORWARD_FRONTIER,
    FORWARD_IDS
};
enum {
    BACKWARD_GATE,
    BACKWARD_GH,
    BACKWARD_GZ,
    BACKWARD_Z,
    BACKWARD_WEIGHT,
    BACKWARD_GW,
    BACKWARD_GB,
    BACKWARD_STATISTICS,
    BACKWARD_SUMS
};
enum { SUMS_Z, SUMS_GATE, SUMS_GH, SUMS_STATISTICS, SUMS_OUT };
enum { RESIDUAL_GH, RESIDUAL_GR };

/* Two rows of F: mean and 1 / standard deviation. */
static void set_statistics(struct sl_activate *a, void *buffer)
{
    a->mean = sl_buffer_data(buffer);
    a->rstd = a->mean + a->n_columns;
}

/* The operands that both directions share. rows: a buffer with the chunk's shape. */
static struct sl_activate operands(const struct activate_args *args, void *rows)
{
    return (struct sl_activate){
        .n_rows = sl_buffer_rows(rows),
        .n_columns = sl_buffer_columns(rows),
        .norm = args->norm,
        .threshold = args->threshold,
        .draw = args->draw,
    };
}

/* Fills *a for forward. Returns the rows of the residual, or NULL. */
static const void *forward_operands(const struct activate_args *args, void *buffers[], struct sl_activate *a)
{
    const void *residual = NULL;
    void **next = buffers + FORWARD_WEIGHT;
    *a = operands(args, buffers[FORWARD_Z]);
    if (a->norm != SL_ACTIVATE_PLAIN) {
        a->weight = sl_buffer_data(*next++);
        a->bias = sl_buffer_data(*next++);
    }
    if (a->norm == SL_ACTIVATE_BATCH) {
        set_statistics(a, *next++);
    }
    if (args->has_residual) {
        residual = sl_buffer_row(*next++, args->residual_row0);
    }
    if (a->threshold > 0) {
        a->ids = (const sl_vertex *)sl_buffer_data(*next++) + args->row0;
        a->dataset_ids = sl_buffer_data(*next++);
    }
    return residual;
}

/* Fills *a for backward, and *z if there is a norm. Returns the sums of the norm. */
static struct sl_activate_sums backward_operands(const struct activate_args *args, void *buffers[],
                                                 struct sl_activate *a, const sl_real **z)
{
    struct sl_activate_sums sums = {.n_group = args->n_group};
    *a = operands(args, buffers[BACKWARD_GATE]);
    *z = NULL;
    if (a->norm != SL_ACTIVATE_PLAIN) {
        *z = sl_buffer_data(buffers[BACKWARD_Z]);
        a->weight = sl_buffer_data(buffers[BACKWARD_WEIGHT]);
    }
    if (a->norm == SL_ACTIVATE_LAYER) {
        sums.gw = sl_buffer_data(buffers[BACKWARD_GW]);
        sums.gb = sl_buffer_data(buffers[BACKWARD_GB]);
    }
    if (a->norm == SL_ACTIVATE_BATCH) {
        set_statistics(a, buffers[BACKWARD_WEIGHT + 1]);
        sums.group = sl_buffer_data(buffers[BACKWARD_WEIGHT + 2]);
    }
    return sums;
}

/* Backward of one row range of a chunk. Pointers are to its first row and to its row of sums. */
struct backward_run {
    struct sl_activate a;
    struct sl_activate_sums sums;
    const sl_real *z; /* NULL without a norm */
    const uint8_t *gate;
    const sl_real *gh;
    sl_real *gz;
};

static struct backward_run backward_run(const struct activate_args *args, void *buffers[], uint32_t k)
{
    struct backward_run run;
    run.sums = backward_operands(args, buffers, &run.a, &run.z);
    const uint32_t row = sl_task_run(&args->head, run.a.n_rows, k);
    const uint32_t end = sl_task_run(&args->head, run.a.n_rows, k + 1);
    const size_t base = (size_t)row * run.a.n_columns;
    run.a.n_rows = end - row;
    run.z = run.z == NULL ? NULL : run.z + base;
    run.gate = (const uint8_t *)sl_buffer_data(buffers[BACKWARD_GATE]) + base;
    run.gh = (const sl_real *)sl_buffer_data(buffers[BACKWARD_GH]) + base;
    run.gz = (sl_real *)sl_buffer_data(buffers[BACKWARD_GZ]) + base;
    if (args->norm == SL_ACTIVATE_LAYER) {
        run.sums.gw += (size_t)k * run.a.n_columns;
        run.sums.gb += (size_t)k * run.a.n_columns;
    }
    return run;
}

#define ROUNDED_ROWS 64 /* rows computed in float before they are rounded */

/* Input rows, z or the residual. */
struct rows_read {
    const void *rows; /* or NULL */
    enum sl_dtype dtype;
};

/* n numbers from `base` on. Numbers of another dtype are widened into `room`. */
static const sl_real *as_real(struct rows_read from, size_t base, size_t n, sl_real *room)
{
    if (from.rows == NULL || from.dtype == SL_DTYPE_REAL) {
        return from.rows == NULL ? NULL : (const sl_real *)from.rows + base;
    }
    sl_entries_widen(from.dtype, n, (const char *)from.rows + sl_dtype_bytes(from.dtype, base), room);
    return room;
}

/* Forward into bf16 H. z and the residual may be bf16. Computes ROUNDED_ROWS rows at a time in
 * float, then rounds H. */
static enum sl_status forward_rounded(struct sl_activate a, struct rows_read z, struct rows_read residual,
                                      uint8_t *gate_out, sl_bf16 *h_out)
{
    const uint32_t n_rows = a.n_rows;
    const size_t stretch = (size_t)ROUNDED_ROWS * a.n_columns;
    sl_real *h;
    SL_CHECK(sl_alloc(3 * stretch, sizeof *h, "rows before they are rounded", &h));
    for (uint32_t i = 0; i < n_rows; i += ROUNDED_ROWS) {
        size_t base = (size_t)i * a.n_columns;
        a.n_rows = sl_min_u32(n_rows - i, ROUNDED_ROWS);
        size_t n = (size_t)a.n_rows * a.n_columns;
        sl_activate_forward_cpu(&a, as_real(z, base, n, h + stretch), as_real(residual, base, n, h + 2 * stretch),
                                gate_out + base, h);
        sl_bf16_round(n, h, h_out + base);
        if (a.threshold > 0) {
            a.ids += a.n_rows;
        }
    }
    sl_free(h);
    return SL_OK;
}

static enum sl_status forward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct activate_args *args = cl_arg;
    struct sl_activate a;
    enum sl_status st = SL_OK;
    const void *residual = forward_operands(args, buffers, &a);
    void *z = sl_buffer_data(buffers[FORWARD_Z]);
    const enum sl_dtype dtype = sl_buffer_dtype(buffers[FORWARD_H]);
    if (dtype != SL_DTYPE_REAL) {
        st = forward_rounded(a, (struct rows_read){z, sl_buffer_dtype(buffers[FORWARD_Z])},
                             (struct rows_read){residual, dtype}, sl_buffer_data(buffers[FORWARD_GATE]),
                             sl_buffer_data(buffers[FORWARD_H]));
    } else {
        sl_activate_forward_cpu(&a, z, residual, sl_buffer_data(buffers[FORWARD_GATE]),
                                sl_buffer_data(buffers[FORWARD_H]));
    }
    return st;
}

static enum sl_status backward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct activate_args *args = cl_arg;
    for (uint32_t k = 0; k < sl_task_n_runs(&args->head); k++) {
        struct backward_run run = backward_run(args, buffers, k);
        sl_activate_backward_cpu(&run.a, run.z, run.gate, run.gh, &run.sums, run.gz);
    }
    return SL_OK;
}

static enum sl_status batch_sums_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct activate_args *args = cl_arg;
    struct sl_activate a = operands(args, buffers[SUMS_Z]);
    set_statistics(&a, buffers[SUMS_STATISTICS]);
    return SL_RUN(stream, sl_activate_batch_sums, &a, sl_buffer_data(buffers[SUMS_Z]),
                  sl_buffer_data(buffers[SUMS_GATE]), sl_buffer_data(buffers[SUMS_GH]),
                  sl_buffer_data(buffers[SUMS_OUT]));
}

static enum sl_status residual_backward_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct activate_args *args = cl_arg;
    uint32_t n_columns = sl_buffer_columns(buffers[RESIDUAL_GH]);
    return SL_RUN(stream, sl_activate_residual_backward, sl_buffer_rows(buffers[RESIDUAL_GH]), n_columns,
                  sl_buffer_data(buffers[RESIDUAL_GH]),
                  (sl_real *)sl_buffer_data(buffers[RESIDUAL_GR]) + (size_t)args->row0 * n_columns);
}

#ifdef SL_CUDA
static enum sl_status forward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct activate_args *args = cl_arg;
    struct sl_activate a;
    const void *residual = forward_operands(args, buffers, &a);
    return sl_activate_forward_cuda(stream, &a, sl_buffer_dtype(buffers[FORWARD_Z]), sl_buffer_data(buffers[FORWARD_Z]),
                                    residual, sl_buffer_data(buffers[FORWARD_GATE]),
                                    sl_buffer_dtype(buffers[FORWARD_H]), sl_buffer_data(buffers[FORWARD_H]));
}

static enum sl_status backward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct activate_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        struct backward_run run = backward_run(args, buffers, k);
        st = sl_activate_backward_cuda(stream, &run.a, run.z, run.gate, run.gh, &run.sums, run.gz);
    }
    return st;
}
#endif

/* ---- operations ---- */

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_activate_forward", SL_STAGE_DENSE),
    .cpu = forward_cpu_task,
    SL_CUDA_FUNC(forward_cuda_task),
    .role = {{"z", STARPU_R},
             {"gate", STARPU_W},
             {"h", STARPU_W},
             {"weight", STARPU_R | SL_OPTIONAL},
             {"bias", STARPU_R | SL_OPTIONAL},
             {"statistics", STARPU_R | SL_OPTIONAL},
             {"residual", STARPU_R | SL_OPTIONAL},
             {"frontier", STARPU_R | SL_OPTIONAL},
             {"dataset ids", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_activate_backward", SL_STAGE_BACKWARD),
    .cpu = backward_cpu_task,
    SL_CUDA_FUNC(backward_cuda_task),
    .role = {{"gate", STARPU_R},
             {"gh", STARPU_R},
             {"gz", STARPU_W},
             {"z", STARPU_R | SL_OPTIONAL},
             {"weight", STARPU_R | SL_OPTIONAL},
             {"gw", STARPU_W | SL_OPTIONAL},
             {"gb", STARPU_W | SL_OPTIONAL},
             {"statistics", STARPU_R | SL_OPTIONAL},
             {"sums", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation batch_sums_op = {
    SL_OPERATION(batch_sums_op, "sl_activate_batch_sums", SL_STAGE_BACKWARD),
    SL_BOTH(batch_sums_task),
    .role = {{"z", STARPU_R}, {"gate", STARPU_R}, {"gh", STARPU_R}, {"statistics", STARPU_R}, {"sums", STARPU_W}},
};

static struct sl_operation residual_backward_op = {
    SL_OPERATION(residual_backward_op, "sl_activate_residual_backward", SL_STAGE_BACKWARD),
    SL_BOTH(residual_backward_task),
    .role = {{"gh", STARPU_R}, {"gr", STARPU_RW}},
};

/* ---- submissions ---- */

/* Whether `handle` is [n_rows x n_columns]. */
static void check_matrix(starpu_data_handle_t handle, uint32_t n_rows, uint32_t n_columns)
{
    assert(handle != NULL);
    assert(sl_handle_rows(handle) == n_rows);
    assert(sl_handle_columns(handle) == n_columns);
}

/* Whether `handle` has rows row0 .. row0 + n_rows - 1 and n_columns columns. */
static void check_rows(starpu_data_handle_t handle, uint32_t row0, uint32_t n_rows, uint32_t n_columns)
{
    assert((uint64_t)row0 + n_rows <= sl_handle_rows(handle));
    assert(sl_handle_columns(handle) == n_columns);
}

/* Fill *args, and check the handles that norm and dropout need. */
static void prepare(const struct sl_task_args *head, const struct sl_activate_layer *layer, starpu_data_handle_t z,
                    struct activate_args *args)
{
    uint32_t n_columns = sl_handle_columns(z);
    *args = (struct activate_args){.head = *head, .norm = layer->norm};
    args->draw = (struct sl_draw){.seed = layer->seed, .step = head->step, .purpose = SL_FOR_DROPOUT, .hop = head->hop};
    args->threshold = sl_dropout_threshold(layer->dropout);
    if (layer->norm != SL_ACTIVATE_PLAIN) {
        check_matrix(layer->weight, 1, n_columns);
        check_matrix(layer->bias, 1, n_columns);
    }
    if (layer->norm == SL_ACTIVATE_BATCH) {
        check_matrix(layer->statistics, 2, n_columns);
    }
}

/* Batch norm sums of a group or a chunk: two rows of doubles. */
static void check_sums(starpu_data_handle_t sums, uint32_t n_columns)
{
    check_matrix(sums, 2, n_columns);
    assert(sl_handle_element(sums) == sizeof(double));
}

/* Bytes moved: for each entry of z, n_reals numbers and one byte of gate. */
static uint64_t bytes_of(starpu_data_handle_t z, uint32_t n_reals)
{
    return (uint64_t)sl_handle_rows(z) * sl_handle_columns(z) * (n_reals * sizeof(sl_real) + 1);
}

static void check_forward(const struct activate_args *args, const struct sl_activate_layer *layer,
                          starpu_data_handle_t z, starpu_data_handle_t residual, starpu_data_handle_t gate,
                          starpu_data_handle_t h)
{
    uint32_t n_rows = sl_handle_rows(z);
    uint32_t n_columns = sl_handle_columns(z);
    check_matrix(gate, n_rows, n_columns);
    check_matrix(h, n_rows, n_columns);
    if (residual != NULL) {
        check_rows(residual, args->residual_row0, n_rows, n_columns);
    }
    assert(residual == NULL || sl_handle_dtype(residual) == sl_handle_dtype(h));
    assert(sl_handle_dtype(z) == SL_DTYPE_REAL ||
           (sl_handle_dtype(h) == sl_handle_dtype(z) && layer->norm == SL_ACTIVATE_PLAIN));
    assert(args->threshold <= 0 || (uint64_t)args->row0 + n_rows <= sl_handle_columns(layer->frontier));
}

enum sl_status sl_activate_forward_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                          uint32_t row0, starpu_data_handle_t z, starpu_data_handle_t residual,
                                          uint32_t residual_row0, starpu_data_handle_t gate, starpu_data_handle_t h)
{
    struct activate_args args;
    struct sl_task task;
    prepare(head, layer, z, &args);
    args.row0 = row0;
    args.residual_row0 = residual_row0;
    args.has_residual = residual != NULL;
    check_forward(&args, layer, z, residual, gate, h);
    args.head.work = bytes_of(z, residual == NULL ? 2 : 3);
    sl_task_begin(&task, &forward_op);
    sl_task_add(&task, FORWARD_Z, z, STARPU_R);
    sl_task_add(&task, FORWARD_GATE, gate, STARPU_W);
    sl_task_add(&task, FORWARD_H, h, STARPU_W);
    if (layer->norm != SL_ACTIVATE_PLAIN) {
        sl_task_add(&task, FORWARD_WEIGHT, layer->weight, STARPU_R);
        sl_task_add(&task, FORWARD_BIAS, layer->bias, STARPU_R);
    }
    if (layer->norm == SL_ACTIVATE_BATCH) {
        sl_task_add(&task, FORWARD_STATISTICS, layer->statistics, STARPU_R);
    }
    sl_task_add_optional(&task, FORWARD_RESIDUAL, residual, STARPU_R);
    if (args.threshold > 0) {
        sl_task_add(&task, FORWARD_FRONTIER, layer->frontier, STARPU_R);
        sl_task_add(&task, FORWARD_IDS, layer->dataset_ids, STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

static void check_backward(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                           starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                           const struct sl_activate_sums_handles *sums, starpu_data_handle_t gz)
{
    uint32_t n_rows = sl_handle_rows(gh);
    uint32_t n_columns = sl_handle_columns(gh);
    check_matrix(gate, n_rows, n_columns);
    if (layer->norm != SL_ACTIVATE_PLAIN) {
        check_matrix(z, n_rows, n_columns);
    }
    check_matrix(gz, n_rows, n_columns);
    sl_task_check_runs(head, n_rows, NULL, 0, 0);
    if (layer->norm == SL_ACTIVATE_LAYER) {
        check_matrix(sums->gw, sl_task_n_runs(head), n_columns);
        check_matrix(sums->gb, sl_task_n_runs(head), n_columns);
    }
    if (layer->norm == SL_ACTIVATE_BATCH) {
        check_sums(sums->group, n_columns);
        assert(sums->n_group >= n_rows);
    }
}

enum sl_status sl_activate_backward_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                           starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                                           const struct sl_activate_sums_handles *sums, starpu_data_handle_t gz)
{
    struct activate_args args;
    struct sl_task task;
    prepare(head, layer, gh, &args);
    check_backward(head, layer, z, gate, gh, sums, gz);
    args.n_group = sums->n_group;
    args.head.work = bytes_of(gh, layer->norm == SL_ACTIVATE_PLAIN ? 2 : 3);
    sl_task_begin(&task, &backward_op);
    sl_task_add(&task, BACKWARD_GATE, gate, STARPU_R);
    sl_task_add(&task, BACKWARD_GH, gh, STARPU_R);
    sl_task_add(&task, BACKWARD_GZ, gz, STARPU_W);
    if (layer->norm != SL_ACTIVATE_PLAIN) {
        sl_task_add(&task, BACKWARD_Z, z, STARPU_R);
        sl_task_add(&task, BACKWARD_WEIGHT, layer->weight, STARPU_R);
    }
    if (layer->norm == SL_ACTIVATE_LAYER) {
        sl_task_add(&task, BACKWARD_GW, sums->gw, STARPU_W);
        sl_task_add(&task, BACKWARD_GB, sums->gb, STARPU_W);
    }
    if (layer->norm == SL_ACTIVATE_BATCH) {
        sl_task_add(&task, BACKWARD_STATISTICS, layer->statistics, STARPU_R);
        sl_task_add(&task, BACKWARD_SUMS, sums->group, STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_activate_batch_sums_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                             starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                                             starpu_data_handle_t sums)
{
    uint32_t n_rows = sl_handle_rows(z);
    uint32_t n_columns = sl_handle_columns(z);
    struct activate_args args;
    struct sl_task task;
    assert(layer->norm == SL_ACTIVATE_BATCH);
    prepare(head, layer, z, &args);
    check_matrix(gate, n_rows, n_columns);
    check_matrix(gh, n_rows, n_columns);
    check_sums(sums, n_columns);
    args.head.work = bytes_of(z, 2);
    sl_task_begin(&task, &batch_sums_op);
    sl_task_add(&task, SUMS_Z, z, STARPU_R);
    sl_task_add(&task, SUMS_GATE, gate, STARPU_R);
    sl_task_add(&task, SUMS_GH, gh, STARPU_R);
    sl_task_add(&task, SUMS_STATISTICS, layer->statistics, STARPU_R);
    sl_task_add(&task, SUMS_OUT, sums, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_activate_residual_backward_submit(const struct sl_task_args *head, starpu_data_handle_t gh,
                                                    starpu_data_handle_t gr, uint32_t row0)
{
    struct activate_args args = {.head = *head, .row0 = row0};
    struct sl_task task;
    check_rows(gr, row0, sl_handle_rows(gh), sl_handle_columns(gh));
    args.head.work = bytes_of(gh, 3);
    sl_task_begin(&task, &residual_backward_op);
    sl_task_add(&task, RESIDUAL_GH, gh, STARPU_R);
    sl_task_add(&task, RESIDUAL_GR, gr, STARPU_RW);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}
