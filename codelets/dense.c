/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Products of rows with weights: a library for dense rows, row updates for sparse rows. */
#include "codelets/dense.h"

#ifdef SL_CUDA
#include <assert.h>
#include <starpu_cublas_v2.h>
#endif

#include <string.h>

#include "codelets/bias.h"
#include "codelets/dropout.h"
#include "codelets/gemm.h"
#include "codelets/reduce.h"
#include "codelets/rounded.h"
#include "support/convert.h"
#include "support/memory.h"

/* ---- kernels, CPU ---- */

enum sl_status sl_dense_forward_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x, const sl_real *w,
                                    const sl_real *bias, int beta, sl_real *z_out)
{
    if (n_rows == 0 || n_out == 0) {
        return SL_OK;
    }
    if (beta == 0 && (bias != NULL || n_in == 0)) {
        sl_bias_forward_cpu(n_rows, n_out, bias, z_out);
        beta = 1;
    }
    if (n_in == 0) {
        return SL_OK;
    }
    return sl_gemm(n_rows, n_out, n_in, (struct sl_factor){x, n_in, 0}, (struct sl_factor){w, n_out, 0}, beta, z_out);
}

enum sl_status sl_dense_backward_input_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *gz,
                                           const sl_real *w, int beta, sl_real *gx_out)
{
    if (n_rows == 0 || n_in == 0) {
        return SL_OK;
    }
    if (n_out > 0) {
        return sl_gemm(n_rows, n_in, n_out, (struct sl_factor){gz, n_out, 0}, (struct sl_factor){w, n_out, 1}, beta,
                       gx_out);
    }
    if (beta == 0) {
        sl_bias_forward_cpu(n_rows, n_in, NULL, gx_out);
    }
    return SL_OK;
}

enum sl_status sl_dense_backward_weight_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x,
                                            const sl_real *gz, sl_real *gw_out, sl_real *gb_out)
{
    if (gb_out != NULL) {
        sl_bias_backward_cpu(n_rows, n_out, gz, 0, gb_out);
    }
    if (n_rows > 0 && n_in > 0 && n_out > 0) {
        return sl_gemm(n_in, n_out, n_rows, (struct sl_factor){x, n_in, 1}, (struct sl_factor){gz, n_out, 0}, 0,
                       gw_out);
    }
    sl_bias_forward_cpu(n_in, n_out, NULL, gw_out);
    return SL_OK;
}

/* A factor rounded to bf16. Free *out with sl_free. */
static enum sl_status round_factor(uint32_t n_rows, uint32_t n_columns, const sl_real *from, sl_bf16 **out)
{
    size_t n = (size_t)n_rows * n_columns;
    SL_CHECK(sl_alloc(n, sizeof **out, "a factor in bf16", out));
    sl_bf16_round(n, from, *out);
    return SL_OK;
}

enum sl_status sl_dense_forward_bf16_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x,
                                         const sl_real *w, const sl_real *bias, int beta, sl_real *z_out)
{
    sl_bf16 *rounded = NULL;
    enum sl_status st;
    if (n_rows == 0 || n_out == 0 || n_in == 0) {
        return sl_dense_forward_cpu(n_rows, n_in, n_out, NULL, w, bias, beta, z_out);
    }
    if (beta == 0 && bias != NULL) {
        sl_bias_forward_cpu(n_rows, n_out, bias, z_out);
        beta = 1;
    }
    SL_TRY(st, round_factor(n_in, n_out, w, &rounded), done);
    st = sl_gemm_bf16(n_rows, n_out, n_in, (struct sl_factor_bf16){x, n_in, 0},
                      (struct sl_factor_bf16){rounded, n_out, 0}, beta, z_out);
done:
    sl_free(rounded);
    return st;
}

enum sl_status sl_dense_backward_input_bf16_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *gz,
                                                const sl_real *w, int beta, sl_real *gx_out)
{
    sl_bf16 *rounded_gz = NULL;
    sl_bf16 *rounded_w = NULL;
    enum sl_status st;
    if (n_rows == 0 || n_out == 0 || n_in == 0) {
        return sl_dense_backward_input_cpu(n_rows, n_in, n_out, gz, w, beta, gx_out);
    }
    SL_TRY(st, round_factor(n_rows, n_out, gz, &rounded_gz), done);
    SL_TRY(st, round_factor(n_in, n_out, w, &rounded_w), done);
    st = sl_gemm_bf16(n_rows, n_in, n_out, (struct sl_factor_bf16){rounded_gz, n_out, 0},
                      (struct sl_factor_bf16){rounded_w, n_out, 1}, beta, gx_out);
done:
    sl_free(rounded_gz);
    sl_free(rounded_w);
    return st;
}

enum sl_status sl_dense_backward_weight_bf16_cpu(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x,
                                                 const sl_real *gz, sl_real *gw_out, sl_real *gb_out)
{
    sl_bf16 *rounded = NULL;
    enum sl_status st;
    if (n_rows == 0 || n_out == 0 || n_in == 0) {
        return sl_dense_backward_weight_cpu(n_rows, n_in, n_out, NULL, gz, gw_out, gb_out);
    }
    if (gb_out != NULL) {
        sl_bias_backward_cpu(n_rows, n_out, gz, 0, gb_out);
    }
    SL_TRY(st, round_factor(n_rows, n_out, gz, &rounded), done);
    st = sl_gemm_bf16(n_in, n_out, n_rows, (struct sl_factor_bf16){x, n_in, 1},
                      (struct sl_factor_bf16){rounded, n_out, 0}, 0, gw_out);
done:
    sl_free(rounded);
    return st;
}

/* y += a x */
static inline void add_scaled(uint32_t n, sl_real a, const sl_real *restrict x, sl_real *restrict y)
{
    for (uint32_t c = 0; c < n; c++) {
        y[c] += a * x[c];
    }
}

/* Dropout of the entries of one row. Columns ascend, so the bits of a group of columns are drawn once. */
struct entry_mask {
    const struct sl_draw *draw;
    uint32_t vertex; /* dataset id */
    uint32_t threshold;
    uint32_t group; /* of `bits`; SL_NONE: no bits yet */
    sl_real scale;
    uint16_t bits[8];
};

static void mask_start(const struct sl_sparse_rows *x, uint32_t i, struct entry_mask *mask)
{
    mask->draw = &x->draw;
    mask->threshold = sl_dropout_threshold(x->dropout);
    mask->scale = (sl_real)sl_dropout_scale(mask->threshold);
    mask->vertex = mask->threshold > 0 ? x->dataset_ids[x->ids[i]] : 0;
    mask->group = SL_NONE;
}

/* Factor of an entry: 0 or the scale. */
static inline sl_real mask_factor(struct entry_mask *mask, uint32_t column)
{
    if (mask->threshold == 0) {
        return 1;
    }
    if (mask->group != column / 8) {
        mask->group = column / 8;
        sl_dropout_bits(mask->draw, mask->vertex, mask->group, mask->bits);
    }
    return mask->bits[column % 8] >= mask->threshold ? mask->scale : 0;
}

/* 64 bytes of entries, in one register or several. A product takes SPAN such vectors of a row at once. */
typedef sl_real vector __attribute__((vector_size(64), aligned(sizeof(sl_real)), may_alias));
#define LANES (64 / sizeof(sl_real))
#define SPAN 4
#define BLOCK ((uint32_t)(SPAN * LANES))
#define AHEAD 8     /* rows prefetched ahead */
#define AT_ONCE 4   /* rows of a product that share a read of W */
#define LONG_RUN 16 /* columns side by side that are worth keeping a row back for */

struct row_range {
    uint64_t begin, end;
};

SL_INLINE struct row_range range_of(const struct sl_sparse_rows *x, uint32_t i)
{
    const uint64_t *range = x->offsets + (x->ids[i] - x->first);
    return (struct row_range){range[0], range[1]};
}

/* The columns of the range are all from its first on. */
SL_INLINE bool is_long_run(const struct sl_sparse_rows *x, struct row_range range)
{
    const uint64_t n = range.end - range.begin;
    return n >= LONG_RUN && x->columns[range.end - 1] - x->columns[range.begin] == n - 1;
}

/* Fetch the ends of the columns of row i, which is some rows ahead. */
SL_INLINE void fetch_columns(const struct sl_sparse_rows *x, uint32_t i, uint32_t n_rows)
{
    if (i + AHEAD < n_rows) {
        __builtin_prefetch(x->offsets + (x->ids[i + AHEAD] - x->first));
    }
    if (i < n_rows) {
        const struct row_range range = range_of(x, i);
        __builtin_prefetch(x->columns + range.begin);
        if (range.end - range.begin >= LONG_RUN) {
            __builtin_prefetch(x->columns + range.end - 1);
        }
    }
}

/* Fetch the values of a row to come, and the row of `matrix` that its first entry selects. */
SL_INLINE void fetch_ahead(const struct sl_sparse_rows *x, uint32_t i, uint32_t n_rows, uint32_t n_out,
                           const sl_real *matrix)
{
    fetch_columns(x, i + 2 * AHEAD, n_rows);
    if (i + AHEAD < n_rows) {
        const struct row_range range = range_of(x, i + AHEAD);
        if (range.begin < range.end) {
            sl_row_fetch(matrix + (size_t)x->columns[range.begin] * n_out, n_out * sizeof *matrix);
            sl_row_fetch(x->values + range.begin, (range.end - range.begin) * sizeof *x->values);
        }
    }
}

/* Rows with entries in the same columns, all of column .. column + n - 1. A row of the matrix is read, or read and
 * written, once for all of them. Zeros among their entries are multiplied too: they are few. */
struct alike {
    uint32_t column, n;
    uint32_t n_rows;
    const float *values[AHEAD];
    uint32_t row[AHEAD]; /* of Z or GZ */
};

/* Is the long run one more of them? */
SL_INLINE bool is_alike(const struct alike *alike, const struct sl_sparse_rows *x, struct row_range range)
{
    return alike->n_rows > 0 && x->columns[range.begin] == alike->column && range.end - range.begin == alike->n;
}

/* Take row i, a long run. Returns whether there is no room for one more. */
SL_INLINE bool take(struct alike *alike, const struct sl_sparse_rows *x, struct row_range range, uint32_t i)
{
    alike->column = x->columns[range.begin];
    alike->n = (uint32_t)(range.end - range.begin);
    alike->values[alike->n_rows] = x->values + range.begin;
    alike->row[alike->n_rows++] = i;
    return alike->n_rows == AHEAD;
}

/* z += x W of one row without dropout. A block of z stays in registers. */
SL_INLINE void multiply_row(const struct sl_sparse_rows *x, struct row_range range, uint32_t n_out, const sl_real *w,
                            sl_real *z)
{
    uint32_t c = 0;
    for (; c + BLOCK <= n_out; c += BLOCK) {
        vector *to = (vector *)(z + c);
        vector sum[SPAN] = {to[0], to[1], to[2], to[3]};
        for (uint64_t e = range.begin; e < range.end; e++) {
            const sl_real value = (sl_real)x->values[e];
            const vector *row = (const vector *)(w + (size_t)x->columns[e] * n_out + c);
            if (value != 0) {
                for (int k = 0; k < SPAN; k++) {
                    sum[k] += value * row[k];
                }
            }
        }
        for (int k = 0; k < SPAN; k++) {
            to[k] = sum[k];
        }
    }
    for (uint64_t e = range.begin; c < n_out && e < range.end; e++) {
        if (x->values[e] != 0) {
            add_scaled(n_out - c, (sl_real)x->values[e], w + (size_t)x->columns[e] * n_out + c, z + c);
        }
    }
}

/* z += x W of n rows from the i-th on. A vector of each stays in a register, and W is read once for them. */
SL_INLINE void multiply_alike(const struct alike *alike, uint32_t i, const uint32_t n, uint32_t n_out, const sl_real *w,
                              sl_real *z)
{
    uint32_t c = 0;
    w += (size_t)alike->column * n_out;
    for (; c + LANES <= n_out; c += LANES) {
        vector sum[AT_ONCE];
        for (uint32_t k = 0; k < n; k++) {
            sum[k] = *(const vector *)(z + (size_t)alike->row[i + k] * n_out + c);
        }
        for (uint32_t j = 0; j < alike->n; j++) {
            const vector row = *(const vector *)(w + (size_t)j * n_out + c);
            for (uint32_t k = 0; k < n; k++) {
                sum[k] += (sl_real)alike->values[i + k][j] * row;
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            *(vector *)(z + (size_t)alike->row[i + k] * n_out + c) = sum[k];
        }
    }
    for (uint32_t j = 0; c < n_out && j < alike->n; j++) {
        for (uint32_t k = 0; k < n; k++) {
            add_scaled(n_out - c, (sl_real)alike->values[i + k][j], w + (size_t)j * n_out + c,
                       z + (size_t)alike->row[i + k] * n_out + c);
        }
    }
}

SL_INLINE void multiply_all(struct alike *alike, uint32_t n_out, const sl_real *w, sl_real *z)
{
    uint32_t i = 0;
    for (; i + AT_ONCE <= alike->n_rows; i += AT_ONCE) {
        multiply_alike(alike, i, AT_ONCE, n_out, w, z);
    }
    for (; i < alike->n_rows; i++) {
        multiply_alike(alike, i, 1, n_out, w, z);
    }
    alike->n_rows = 0;
}

/* z += the product of one row without dropout, now or with the next rows that are like it. */
SL_INLINE void multiply(const struct sl_sparse_rows *x, struct row_range range, uint32_t i, uint32_t n_out,
                        const sl_real *w, struct alike *alike, sl_real *z)
{
    if (!is_long_run(x, range)) {
        multiply_row(x, range, n_out, w, z + (size_t)i * n_out);
        return;
    }
    if (!is_alike(alike, x, range)) {
        multiply_all(alike, n_out, w, z);
    }
    if (take(alike, x, range, i)) {
        multiply_all(alike, n_out, w, z);
    }
}

SL_CLONES void sl_dense_sparse_forward_cpu(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_out,
                                           const sl_real *w, const sl_real *bias, int beta, sl_real *z_out)
{
    struct alike alike = {.n_rows = 0};
    struct entry_mask mask;
    if (beta == 0) {
        sl_bias_forward_cpu(n_rows, n_out, bias, z_out);
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct row_range range = range_of(x, i);
        fetch_ahead(x, i, n_rows, n_out, w);
        mask_start(x, i, &mask);
        if (mask.threshold == 0) {
            multiply(x, range, i, n_out, w, &alike, z_out);
            continue;
        }
        for (uint64_t e = range.begin; e < range.end; e++) {
            sl_real value = (sl_real)x->values[e] * mask_factor(&mask, x->columns[e]);
            if (value != 0) {
                add_scaled(n_out, value, w + (size_t)x->columns[e] * n_out, z_out + (size_t)i * n_out);
            }
        }
    }
    multiply_all(&alike, n_out, w, z_out);
}

/* GW += the terms of n rows from the i-th on. A vector of each row of GZ stays in a register, and GW is read and
 * written once for them. */
SL_INLINE void add_some(const struct alike *alike, uint32_t i, const uint32_t n, uint32_t n_out, const sl_real *gz,
                        sl_real *gw)
{
    uint32_t c = 0;
    gw += (size_t)alike->column * n_out;
    for (; c + LANES <= n_out; c += LANES) {
        vector from[AHEAD];
        for (uint32_t k = 0; k < n; k++) {
            from[k] = *(const vector *)(gz + (size_t)alike->row[i + k] * n_out + c);
        }
        for (uint32_t j = 0; j < alike->n; j++) {
            vector sum = *(const vector *)(gw + (size_t)j * n_out + c);
            for (uint32_t k = 0; k < n; k++) {
                sum += (sl_real)alike->values[i + k][j] * from[k];
            }
            *(vector *)(gw + (size_t)j * n_out + c) = sum;
        }
    }
    for (uint32_t j = 0; c < n_out && j < alike->n; j++) {
        for (uint32_t k = 0; k < n; k++) {
            add_scaled(n_out - c, (sl_real)alike->values[i + k][j], gz + (size_t)alike->row[i + k] * n_out + c,
                       gw + (size_t)j * n_out + c);
        }
    }
}

SL_INLINE void add_alike(uint32_t n_out, struct alike *alike, const sl_real *gz, sl_real *gw)
{
    if (alike->n_rows == AHEAD) {
        add_some(alike, 0, AHEAD, n_out, gz, gw);
    } else {
        for (uint32_t i = 0; i < alike->n_rows; i++) {
            add_some(alike, i, 1, n_out, gz, gw);
        }
    }
    alike->n_rows = 0;
}

/* GW += the term of one row without dropout, now or with the next rows that are like it. An entry of GW keeps the
 * order of its terms. */
SL_INLINE void add_row(const struct sl_sparse_rows *x, struct row_range range, uint32_t i, uint32_t n_out,
                       const sl_real *gz, struct alike *alike, sl_real *gw)
{
    if (range.begin == range.end) {
        return;
    }
    const bool is_run = is_long_run(x, range);
    const bool is_apart = alike->n_rows == 0 || x->columns[range.end - 1] < alike->column ||
                          x->columns[range.begin] >= alike->column + alike->n;
    if (is_run ? !is_alike(alike, x, range) : !is_apart) {
        add_alike(n_out, alike, gz, gw);
    }
    if (is_run) {
        if (take(alike, x, range, i)) {
            add_alike(n_out, alike, gz, gw);
        }
        return;
    }
    for (uint64_t e = range.begin; e < range.end; e++) {
        if (x->values[e] != 0) {
            add_scaled(n_out, (sl_real)x->values[e], gz + (size_t)i * n_out, gw + (size_t)x->columns[e] * n_out);
        }
    }
}

SL_CLONES void sl_dense_sparse_backward_weight_cpu(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_in,
                                                   uint32_t n_out, const sl_real *gz, int beta, sl_real *gw_out,
                                                   sl_real *gb_out)
{
    struct alike alike = {.n_rows = 0};
    struct entry_mask mask;
    if (beta == 0) {
        sl_bias_forward_cpu(n_in, n_out, NULL, gw_out);
    }
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct row_range range = range_of(x, i);
        fetch_ahead(x, i, n_rows, n_out, gw_out);
        mask_start(x, i, &mask);
        if (mask.threshold == 0) {
            add_row(x, range, i, n_out, gz, &alike, gw_out);
            continue;
        }
        for (uint64_t e = range.begin; e < range.end; e++) {
            sl_real value = (sl_real)x->values[e] * mask_factor(&mask, x->columns[e]);
            if (value != 0) {
                add_scaled(n_out, value, gz + (size_t)i * n_out, gw_out + (size_t)x->columns[e] * n_out);
            }
        }
    }
    add_alike(n_out, &alike, gz, gw_out);
    if (gb_out != NULL) {
        sl_bias_backward_cpu(n_rows, n_out, gz, beta, gb_out);
    }
}

void sl_dense_clear_touched_cpu(uint32_t n_in, uint32_t n_out, int8_t *touched, sl_real *gw)
{
    for (uint32_t r = sl_next_touched(touched, 0, n_in); r < n_in; r = sl_next_touched(touched, r + 1, n_in)) {
        memset(gw + (size_t)r * n_out, 0, n_out * sizeof *gw);
        touched[r] = 0;
    }
}

void sl_dense_touch_cpu(const struct sl_sparse_rows *x, uint32_t n_rows, int8_t *touched)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct row_range range = range_of(x, i);
        const uint64_t n = range.end - range.begin;
        fetch_columns(x, i + AHEAD, n_rows);
        if (n > 0 && x->columns[range.end - 1] - x->columns[range.begin] == n - 1) {
            memset(touched + x->columns[range.begin], 1, n);
            continue;
        }
        for (uint64_t e = range.begin; e < range.end; e++) {
            touched[x->columns[e]] = 1;
        }
    }
}

/* ---- arguments ---- */

struct dense_args {
    struct sl_task_args head;
    uint32_t row0;
    int beta;
    int has_bias; /* or its gradient */
};

struct sparse_args {
    struct sl_task_args head;
    struct sl_draw draw;
    double dropout;
    uint32_t row0;
    uint32_t first;
    uint32_t max_row;
    int beta;
    int has_bias; /* or its gradient */
    bool notes;   /* the last buffer has the touched rows */
    bool fresh;   /* they have not been written */
};

/* ---- implementations ---- */

enum { FORWARD_X, FORWARD_W, FORWARD_Z, FORWARD_BIAS };
enum { INPUT_GZ, INPUT_W, INPUT_GX };
enum { WEIGHT_X, WEIGHT_GZ, WEIGHT_GW, WEIGHT_GB };
enum { SPARSE_OFFSETS, SPARSE_COLUMNS, SPARSE_VALUES, SPARSE_FRONTIER, SPARSE_W, SPARSE_Z, SPARSE_BIAS, SPARSE_IDS };
enum { SPARSE_GZ = SPARSE_W, SPARSE_GW, SPARSE_GB, SPARSE_TOUCHED = SPARSE_IDS + 1 };

/* The products of rows of a dtype. */
struct products {
    enum sl_status (*forward)(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x, const sl_real *w,
                              const sl_real *bias, int beta, sl_real *z_out);
    enum sl_status (*backward_input)(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const sl_real *gz,
                                     const sl_real *w, int beta, sl_real *gx_out);
    enum sl_status (*backward_weight)(uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x, const sl_real *gz,
                                      sl_real *gw_out, sl_real *gb_out);
};

static const struct products products[SL_N_DTYPES] = {
    [SL_DTYPE_REAL] = {sl_dense_forward_cpu, sl_dense_backward_input_cpu, sl_dense_backward_weight_cpu},
    [SL_DTYPE_BF16] = {sl_dense_forward_bf16_cpu, sl_dense_backward_input_bf16_cpu, sl_dense_backward_weight_bf16_cpu},
};

/* Each row range of a task has a product of its own: the last bits of a row may differ with the number of rows beside
 * it (codelets/gemm.h). */
struct run {
    uint32_t row, n_rows;
};

/* Row range k of a buffer. */
static struct run run_of(const struct sl_task_args *head, void *buffer, uint32_t k)
{
    uint32_t row = sl_task_run(head, sl_buffer_rows(buffer), k);
    return (struct run){row, sl_task_run(head, sl_buffer_rows(buffer), k + 1) - row};
}

#define ROUNDED_ROWS 1024 /* rows computed in float before they are rounded */

static const sl_real *bias_of(int has_bias, void *const *buffer)
{
    return has_bias ? sl_buffer_data(*buffer) : NULL;
}

/* bf16 Z from bf16 rows, a slab of rows at a time in float. */
static enum sl_status forward_rounded(const struct dense_args *args, void *buffers[], struct run run,
                                      const sl_real *bias)
{
    const sl_bf16 *x = sl_buffer_row(buffers[FORWARD_X], args->row0 + run.row);
    const uint32_t n_in = sl_buffer_columns(buffers[FORWARD_X]);
    const uint32_t n_out = sl_buffer_columns(buffers[FORWARD_Z]);
    struct sl_rounded slab = sl_rounded_begin("rows before they are rounded", ROUNDED_ROWS, run.n_rows, n_out,
                                              sl_buffer_row(buffers[FORWARD_Z], run.row));
    enum sl_status st;
    while (sl_rounded_next(&slab, &st)) {
        st = sl_dense_forward_bf16_cpu(slab.n, n_in, n_out, x + (size_t)slab.first * n_in,
                                       sl_buffer_data(buffers[FORWARD_W]), bias, 0, slab.room);
    }
    return st;
}

/* Z from features that are read in place in a narrow dtype. The product is the product of their floats. */
static enum sl_status forward_narrow(const struct dense_args *args, void *buffers[], struct run run,
                                     const sl_real *bias)
{
    const uint32_t n_in = sl_buffer_columns(buffers[FORWARD_X]);
    const size_t n = (size_t)run.n_rows * n_in;
    sl_real *room;
    enum sl_status st = sl_alloc(n, sizeof *room, "features", &room);
    if (st == SL_OK) {
        sl_convert_to_reals(args->head.run->narrow, 1, n, sl_buffer_row(buffers[FORWARD_X], args->row0 + run.row),
                            room);
        st = products[SL_DTYPE_REAL].forward(run.n_rows, n_in, sl_buffer_columns(buffers[FORWARD_Z]), room,
                                             sl_buffer_data(buffers[FORWARD_W]), bias, args->beta,
                                             sl_buffer_row(buffers[FORWARD_Z], run.row));
        sl_free(room);
    }
    return st;
}

static enum sl_status forward_cpu(const struct dense_args *args, void *buffers[], struct run run)
{
    const sl_real *bias = bias_of(args->has_bias, buffers + FORWARD_BIAS);
    void *x = buffers[FORWARD_X];
    if (sl_buffer_dtype(buffers[FORWARD_Z]) != SL_DTYPE_REAL) {
        return forward_rounded(args, buffers, run, bias);
    }
    if (sl_buffer_dtype(x) != SL_DTYPE_REAL && args->head.run->narrow != SL_DTYPE_F32) {
        return forward_narrow(args, buffers, run, bias);
    }
    return products[sl_buffer_dtype(x)].forward(
        run.n_rows, sl_buffer_columns(x), sl_buffer_columns(buffers[FORWARD_Z]), sl_buffer_row(x, args->row0 + run.row),
        sl_buffer_data(buffers[FORWARD_W]), bias, args->beta, sl_buffer_row(buffers[FORWARD_Z], run.row));
}

static enum sl_status forward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct dense_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        st = forward_cpu(args, buffers, run_of(&args->head, buffers[FORWARD_Z], k));
    }
    return st;
}

static enum sl_status backward_input_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct dense_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        struct run run = run_of(&args->head, buffers[INPUT_GZ], k);
        st = products[args->head.run->row_dtype].backward_input(
            run.n_rows, sl_buffer_columns(buffers[INPUT_GX]), sl_buffer_columns(buffers[INPUT_GZ]),
            sl_buffer_row(buffers[INPUT_GZ], run.row), sl_buffer_data(buffers[INPUT_W]), args->beta,
            sl_buffer_row(buffers[INPUT_GX], args->row0 + run.row));
    }
    return st;
}

/* A row range, and its gradients. */
struct weight_run {
    struct run rows;
    const sl_real *gz;
    sl_real *gw, *gb; /* gb: NULL if not wanted */
};

/* Buffers: GZ, GW and, with a bias, GB. */
static struct weight_run weight_run(const struct sl_task_args *head, void *buffers[], int has_bias, uint32_t k)
{
    const uint32_t n_out = sl_buffer_columns(buffers[0]);
    const struct run rows = run_of(head, buffers[0], k);
    const size_t each = (size_t)(sl_buffer_rows(buffers[1]) / sl_task_n_runs(head)) * n_out;
    sl_real *gb = has_bias ? sl_buffer_data(buffers[2]) : NULL;
    return (struct weight_run){.rows = rows,
                               .gz = sl_buffer_row(buffers[0], rows.row),
                               .gw = (sl_real *)sl_buffer_data(buffers[1]) + k * each,
                               .gb = gb == NULL ? NULL : gb + (size_t)k * n_out};
}

static enum sl_status backward_weight_cpu(const struct dense_args *args, void *buffers[], uint32_t k)
{
    const struct weight_run run = weight_run(&args->head, buffers + WEIGHT_GZ, args->has_bias, k);
    void *x = buffers[WEIGHT_X];
    return products[sl_buffer_dtype(x)].backward_weight(
        run.rows.n_rows, sl_buffer_columns(x), sl_buffer_columns(buffers[WEIGHT_GZ]),
        sl_buffer_row(x, args->row0 + run.rows.row), run.gz, run.gw, run.gb);
}

static enum sl_status backward_weight_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct dense_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        st = backward_weight_cpu(args, buffers, k);
    }
    return st;
}

/* Buffers 0 .. 3 and, with dropout, the dataset ids: buffer 6, or 7 behind a bias. */
static struct sl_sparse_rows sparse_rows(void *buffers[], const struct sparse_args *args)
{
    const unsigned ids_at = args->has_bias ? 7 : 6;
    const sl_vertex *frontier = sl_buffer_data(buffers[SPARSE_FRONTIER]);
    return (struct sl_sparse_rows){
        .offsets = sl_buffer_data(buffers[SPARSE_OFFSETS]),
        .columns = sl_buffer_data(buffers[SPARSE_COLUMNS]),
        .values = sl_buffer_data(buffers[SPARSE_VALUES]),
        .ids = frontier + args->row0,
        .dataset_ids = args->dropout > 0 ? sl_buffer_data(buffers[ids_at]) : NULL,
        .first = args->first,
        .max_row = args->max_row,
        .dropout = args->dropout,
        .draw = args->draw,
    };
}

/* bf16 Z, a slab of rows at a time in float. */
static enum sl_status sparse_forward_rounded(struct sl_sparse_rows x, void *z, const sl_real *w, const sl_real *bias)
{
    const uint32_t n_out = sl_buffer_columns(z);
    struct sl_rounded slab =
        sl_rounded_begin("rows before they are rounded", ROUNDED_ROWS, sl_buffer_rows(z), n_out, sl_buffer_data(z));
    enum sl_status st;
    while (sl_rounded_next(&slab, &st)) {
        sl_dense_sparse_forward_cpu(&x, slab.n, n_out, w, bias, 0, slab.room);
        x.ids += slab.n;
    }
    return st;
}

static enum sl_status sparse_forward_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct sparse_args *args = cl_arg;
    struct sl_sparse_rows x = sparse_rows(buffers, args);
    const sl_real *bias = bias_of(args->has_bias, buffers + SPARSE_BIAS);
    enum sl_status st = SL_OK;
    if (sl_buffer_dtype(buffers[SPARSE_Z]) != SL_DTYPE_REAL) {
        st = sparse_forward_rounded(x, buffers[SPARSE_Z], sl_buffer_data(buffers[SPARSE_W]), bias);
    } else {
        sl_dense_sparse_forward_cpu(&x, sl_buffer_rows(buffers[SPARSE_Z]), sl_buffer_columns(buffers[SPARSE_Z]),
                                    sl_buffer_data(buffers[SPARSE_W]), bias, args->beta,
                                    sl_buffer_data(buffers[SPARSE_Z]));
    }
    return st;
}

/* The touched rows: the buffer behind the bias's gradient and the dataset ids, if there are such. */
static void *touched_of(void *buffers[], const struct sparse_args *args)
{
    return buffers[SPARSE_GB + (args->has_bias != 0) + (args->dropout > 0)];
}

static enum sl_status backward_touched_cpu(const struct sparse_args *args, void *buffers[],
                                           const struct sl_sparse_rows *x)
{
    void *gw = buffers[SPARSE_GW];
    void *gz = buffers[SPARSE_GZ];
    const uint32_t n_in = sl_buffer_rows(gw);
    const uint32_t n_out = sl_buffer_columns(gw);
    const uint32_t n_rows = sl_buffer_rows(gz);
    int8_t *touched = sl_buffer_data(touched_of(buffers, args));
    if (args->fresh) {
        memset(touched, 0, n_in);
        sl_bias_forward_cpu(n_in, n_out, NULL, sl_buffer_data(gw));
    } else if (args->beta == 0) {
        sl_dense_clear_touched_cpu(n_in, n_out, touched, sl_buffer_data(gw));
    }
    sl_dense_touch_cpu(x, n_rows, touched);
    sl_dense_sparse_backward_weight_cpu(x, n_rows, n_in, n_out, sl_buffer_data(gz), 1, sl_buffer_data(gw), NULL);
    if (args->has_bias) {
        sl_bias_backward_cpu(n_rows, n_out, sl_buffer_data(gz), args->beta, sl_buffer_data(buffers[SPARSE_GB]));
    }
    return SL_OK;
}

static enum sl_status sparse_backward_weight_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct sparse_args *args = cl_arg;
    struct sl_sparse_rows x = sparse_rows(buffers, args);
    const uint32_t n_runs = sl_task_n_runs(&args->head);
    if (args->notes) {
        return backward_touched_cpu(args, buffers, &x);
    }
    for (uint32_t k = 0; k < n_runs; k++) {
        struct weight_run run = weight_run(&args->head, buffers + SPARSE_GZ, args->has_bias, k);
        sl_dense_sparse_backward_weight_cpu(&x, run.rows.n_rows, sl_buffer_rows(buffers[SPARSE_GW]) / n_runs,
                                            sl_buffer_columns(buffers[SPARSE_GZ]), run.gz, args->beta, run.gw, run.gb);
        x.ids += run.rows.n_rows;
    }
    return SL_OK;
}

#ifdef SL_CUDA
struct cuda_products {
    enum sl_status (*forward)(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x,
                              const sl_real *w, const sl_real *bias, int beta, enum sl_dtype z_dtype, void *z_out);
    enum sl_status (*backward_input)(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                     const sl_real *gz, const sl_real *w, int beta, sl_real *gx_out);
    enum sl_status (*backward_weight)(struct sl_dense_cuda blas, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                      const void *x, const sl_real *gz, sl_real *gw_out, sl_real *gb_out);
};

static const struct cuda_products cuda_products[SL_N_DTYPES] = {
    [SL_DTYPE_REAL] = {sl_dense_forward_cuda, sl_dense_backward_input_cuda, sl_dense_backward_weight_cuda},
    [SL_DTYPE_BF16] = {sl_dense_forward_bf16_cuda, sl_dense_backward_input_bf16_cuda,
                       sl_dense_backward_weight_bf16_cuda},
};

/* The stream, with the cuBLAS handle of this worker. */
static struct sl_dense_cuda on_stream(const struct sl_task_args *head, cudaStream_t stream)
{
    return (struct sl_dense_cuda){stream, starpu_cublas_get_local_handle(), head->run->tf32};
}

static enum sl_status forward_cuda(const struct dense_args *args, void *buffers[], cudaStream_t stream, struct run run)
{
    const sl_real *bias = bias_of(args->has_bias, buffers + FORWARD_BIAS);
    void *x = buffers[FORWARD_X];
    void *z = buffers[FORWARD_Z];
    return cuda_products[sl_buffer_dtype(x)].forward(on_stream(&args->head, stream), run.n_rows, sl_buffer_columns(x),
                                                     sl_buffer_columns(z), sl_buffer_row(x, args->row0 + run.row),
                                                     sl_buffer_data(buffers[FORWARD_W]), bias, args->beta,
                                                     sl_buffer_dtype(z), sl_buffer_row(z, run.row));
}

static enum sl_status forward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct dense_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        st = forward_cuda(args, buffers, stream, run_of(&args->head, buffers[FORWARD_Z], k));
    }
    return st;
}

static enum sl_status backward_input_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct dense_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        struct run run = run_of(&args->head, buffers[INPUT_GZ], k);
        st = cuda_products[args->head.run->row_dtype].backward_input(
            on_stream(&args->head, stream), run.n_rows, sl_buffer_columns(buffers[INPUT_GX]),
            sl_buffer_columns(buffers[INPUT_GZ]), sl_buffer_row(buffers[INPUT_GZ], run.row),
            sl_buffer_data(buffers[INPUT_W]), args->beta, sl_buffer_row(buffers[INPUT_GX], args->row0 + run.row));
    }
    return st;
}

static enum sl_status backward_weight_cuda(const struct dense_args *args, void *buffers[], cudaStream_t stream,
                                           uint32_t k)
{
    const struct weight_run run = weight_run(&args->head, buffers + WEIGHT_GZ, args->has_bias, k);
    void *x = buffers[WEIGHT_X];
    return cuda_products[sl_buffer_dtype(x)].backward_weight(
        on_stream(&args->head, stream), run.rows.n_rows, sl_buffer_columns(x), sl_buffer_columns(buffers[WEIGHT_GZ]),
        sl_buffer_row(x, args->row0 + run.rows.row), run.gz, run.gw, run.gb);
}

static enum sl_status backward_weight_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct dense_args *args = cl_arg;
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < sl_task_n_runs(&args->head); k++) {
        st = backward_weight_cuda(args, buffers, stream, k);
    }
    return st;
}

static enum sl_status sparse_forward_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct sparse_args *args = cl_arg;
    struct sl_sparse_rows x = sparse_rows(buffers, args);
    const sl_real *bias = bias_of(args->has_bias, buffers + SPARSE_BIAS);
    void *z = buffers[SPARSE_Z];
    return sl_dense_sparse_forward_cuda(stream, &x, sl_buffer_rows(z), sl_buffer_columns(z),
                                        sl_buffer_data(buffers[SPARSE_W]), bias, args->beta, sl_buffer_dtype(z),
                                        sl_buffer_data(z));
}

static enum sl_status sparse_backward_weight_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct sparse_args *args = cl_arg;
    struct sl_sparse_rows x = sparse_rows(buffers, args);
    const uint32_t n_runs = sl_task_n_runs(&args->head);
    enum sl_status st = SL_OK;
    for (uint32_t k = 0; st == SL_OK && k < n_runs; k++) {
        struct weight_run run = weight_run(&args->head, buffers + SPARSE_GZ, args->has_bias, k);
        st = sl_dense_sparse_backward_weight_cuda(
            stream, &x, run.rows.n_rows, sl_buffer_rows(buffers[SPARSE_GW]) / n_runs,
            sl_buffer_columns(buffers[SPARSE_GZ]), run.gz, args->beta, run.gw, run.gb);
        x.ids += run.rows.n_rows;
    }
    if (st == SL_OK && args->notes) { /* all rows are written anew */
        st = sl_note_all_cuda(stream, sl_buffer_rows(buffers[SPARSE_GW]), sl_buffer_data(touched_of(buffers, args)));
    }
    return st;
}
#endif

/* ---- operations ---- */

static struct sl_operation forward_op = {
    SL_HISTORY_OPERATION(forward_op, "sl_dense_forward", SL_STAGE_DENSE),
    .cpu = forward_cpu_task,
    SL_CUDA_FUNC(forward_cuda_task),
    .role = {{"x", STARPU_R}, {"w", STARPU_R}, {"z", STARPU_W | SL_OR_RW}, {"bias", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation backward_input_op = {
    SL_HISTORY_OPERATION(backward_input_op, "sl_dense_backward_input", SL_STAGE_BACKWARD),
    .cpu = backward_input_cpu_task,
    SL_CUDA_FUNC(backward_input_cuda_task),
    .role = {{"gz", STARPU_R}, {"w", STARPU_R}, {"gx", STARPU_W | SL_OR_RW}},
};

static struct sl_operation backward_weight_op = {
    SL_HISTORY_OPERATION(backward_weight_op, "sl_dense_backward_weight", SL_STAGE_BACKWARD),
    .cpu = backward_weight_cpu_task,
    SL_CUDA_FUNC(backward_weight_cuda_task),
    .role = {{"x", STARPU_R}, {"gz", STARPU_R}, {"gw", STARPU_W}, {"gb", STARPU_W | SL_OPTIONAL}},
};

static struct sl_operation sparse_forward_op = {
    SL_OPERATION(sparse_forward_op, "sl_dense_sparse_forward", SL_STAGE_DENSE),
    .cpu = sparse_forward_cpu_task,
    SL_CUDA_FUNC(sparse_forward_cuda_task),
    .role = {{"offsets", STARPU_R},
             {"columns", STARPU_R},
             {"values", STARPU_R},
             {"frontier", STARPU_R},
             {"w", STARPU_R},
             {"z", STARPU_W | SL_OR_RW},
             {"bias", STARPU_R | SL_OPTIONAL},
             {"dataset ids", STARPU_R | SL_OPTIONAL}},
};

static struct sl_operation sparse_backward_weight_op = {
    SL_OPERATION(sparse_backward_weight_op, "sl_dense_sparse_backward_weight", SL_STAGE_BACKWARD),
    .cpu = sparse_backward_weight_cpu_task,
    SL_CUDA_FUNC(sparse_backward_weight_cuda_task),
    .role = {{"offsets", STARPU_R},
             {"columns", STARPU_R},
             {"values", STARPU_R},
             {"frontier", STARPU_R},
             {"gz", STARPU_R},
             {"gw", STARPU_W | SL_OR_RW},
             {"gb", STARPU_W | SL_OR_RW | SL_OPTIONAL},
             {"dataset ids", STARPU_R | SL_OPTIONAL},
             {"touched rows", STARPU_W | SL_OR_RW | SL_OPTIONAL}},
};

/* ---- submissions ---- */

/* Shapes of one product. */
struct shape {
    uint32_t x_rows, x_columns, row0; /* rows row0 .. row0 + z_rows - 1 of X give Z */
    uint32_t w_rows, w_columns;
    uint32_t z_rows, z_columns;
};

static struct shape shape_of(starpu_data_handle_t x, uint32_t row0, starpu_data_handle_t w, starpu_data_handle_t z)
{
    return (struct shape){sl_handle_rows(x), sl_handle_columns(x), row0, sl_handle_rows(w), sl_handle_columns(w),
                          sl_handle_rows(z), sl_handle_columns(z)};
}

/* SL_ENOTSUP: over 2^31 - 1 rows or columns. */
static enum sl_status check_shape(const struct shape *s)
{
    assert(s->x_columns == s->w_rows && s->w_columns == s->z_columns && (uint64_t)s->row0 + s->z_rows <= s->x_rows);
    if ((s->x_rows | s->w_rows | s->w_columns) <= INT32_MAX) {
        return SL_OK;
    }
    return sl_fail(SL_ENOTSUP, "a product of [%u x %u] and [%u x %u]: expected at most %d rows and columns", s->x_rows,
                   s->x_columns, s->w_rows, s->w_columns, INT32_MAX);
}

/* bias is NULL or [1 x n_out]. */
static void check_bias(starpu_data_handle_t bias, uint32_t n_out)
{
    assert(bias == NULL || (sl_handle_rows(bias) == 1 && sl_handle_columns(bias) == n_out));
}

/* Check GW, n_in rows for each row range of GZ, and GB. */
static void check_gradients(const struct sl_task_args *head, starpu_data_handle_t gz, uint32_t n_in,
                            starpu_data_handle_t gw, starpu_data_handle_t gb)
{
    sl_task_check_runs(head, sl_handle_rows(gz), gw, n_in, sl_handle_columns(gz));
    sl_task_check_runs(head, sl_handle_rows(gz), gb, 1, sl_handle_columns(gz));
}

static uint64_t flops_of(const struct shape *s)
{
    return 2 * (uint64_t)s->z_rows * s->w_rows * s->w_columns;
}

enum sl_status sl_dense_forward_submit(const struct sl_task_args *head, starpu_data_handle_t x, uint32_t row0,
                                       starpu_data_handle_t w, starpu_data_handle_t bias, int beta,
                                       starpu_data_handle_t z)
{
    struct dense_args args = {.head = *head, .row0 = row0, .beta = beta, .has_bias = bias != NULL};
    struct shape shape = shape_of(x, row0, w, z);
    struct sl_task task;
    SL_CHECK(check_shape(&shape));
    sl_task_check_runs(head, shape.z_rows, NULL, 0, 0);
    check_bias(bias, shape.z_columns);
    assert(beta == 0 || bias == NULL);
    assert(sl_handle_dtype(z) == SL_DTYPE_REAL || (beta == 0 && sl_handle_dtype(x) == sl_handle_dtype(z)));
    args.head.work = flops_of(&shape);
    sl_task_begin(&task, &forward_op);
    sl_task_add(&task, FORWARD_X, x, STARPU_R);
    sl_task_add(&task, FORWARD_W, w, STARPU_R);
    sl_task_add(&task, FORWARD_Z, z, beta == 0 ? STARPU_W : STARPU_RW);
    sl_task_add_optional(&task, FORWARD_BIAS, bias, STARPU_R);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_dense_backward_input_submit(const struct sl_task_args *head, starpu_data_handle_t gz,
                                              starpu_data_handle_t w, int beta, starpu_data_handle_t gx, uint32_t row0)
{
    struct dense_args args = {.head = *head, .row0 = row0, .beta = beta};
    struct shape shape = shape_of(gx, row0, w, gz);
    struct sl_task task;
    SL_CHECK(check_shape(&shape));
    sl_task_check_runs(head, shape.z_rows, NULL, 0, 0);
    assert(beta != 0 || shape.x_rows == shape.z_rows);
    args.head.work = flops_of(&shape);
    sl_task_begin(&task, &backward_input_op);
    sl_task_add(&task, INPUT_GZ, gz, STARPU_R);
    sl_task_add(&task, INPUT_W, w, STARPU_R);
    sl_task_add(&task, INPUT_GX, gx, beta == 0 ? STARPU_W : STARPU_RW);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_dense_backward_weight_submit(const struct sl_task_args *head, starpu_data_handle_t x, uint32_t row0,
                                               starpu_data_handle_t gz, starpu_data_handle_t gw,
                                               starpu_data_handle_t gb)
{
    struct dense_args args = {.head = *head, .row0 = row0, .has_bias = gb != NULL};
    struct shape shape = shape_of(x, row0, gw, gz);
    struct sl_task task;
    shape.w_rows /= sl_task_n_runs(head);
    SL_CHECK(check_shape(&shape));
    check_gradients(head, gz, shape.w_rows, gw, gb);
    args.head.work = flops_of(&shape);
    sl_task_begin(&task, &backward_weight_op);
    sl_task_add(&task, WEIGHT_X, x, STARPU_R);
    sl_task_add(&task, WEIGHT_GZ, gz, STARPU_R);
    sl_task_add(&task, WEIGHT_GW, gw, STARPU_W);
    sl_task_add_optional(&task, WEIGHT_GB, gb, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

/* Checks and arguments that the two sparse products share. w: W or GW; z: Z or GZ. */
static void sparse_prepare(const struct sl_sparse *x, uint32_t row0, starpu_data_handle_t w, starpu_data_handle_t bias,
                           starpu_data_handle_t z, struct sparse_args *args)
{
    uint32_t n_rows = sl_handle_rows(z);
    uint32_t n_part = sl_handle_columns(x->offsets) - 1;
    assert(sl_handle_columns(w) == sl_handle_columns(z));
    assert((uint64_t)row0 + n_rows <= sl_handle_columns(x->frontier));
    args->draw =
        (struct sl_draw){.seed = x->seed, .step = args->head.step, .purpose = SL_FOR_DROPOUT, .hop = args->head.hop};
    args->dropout = sl_dropout_threshold(x->dropout) > 0 ? x->dropout : 0;
    args->row0 = row0;
    args->first = x->first;
    args->max_row = x->max_row;
    args->has_bias = bias != NULL;
    /* Flops of an average row of the part: the host does not know the lengths of these rows. */
    args->head.work =
        2 * (uint64_t)sl_handle_columns(x->columns) * n_rows / (n_part > 0 ? n_part : 1) * sl_handle_columns(z);
}

static void add_sparse(struct sl_task *task, const struct sl_sparse *x)
{
    sl_task_add(task, SPARSE_OFFSETS, x->offsets, STARPU_R);
    sl_task_add(task, SPARSE_COLUMNS, x->columns, STARPU_R);
    sl_task_add(task, SPARSE_VALUES, x->values, STARPU_R);
    sl_task_add(task, SPARSE_FRONTIER, x->frontier, STARPU_R);
}

enum sl_status sl_dense_sparse_forward_submit(const struct sl_task_args *head, const struct sl_sparse *x, uint32_t row0,
                                              starpu_data_handle_t w, starpu_data_handle_t bias, int beta,
                                              starpu_data_handle_t z)
{
    struct sparse_args args = {.head = *head, .beta = beta};
    struct sl_task task;
    sparse_prepare(x, row0, w, bias, z, &args);
    check_bias(bias, sl_handle_columns(z));
    assert(beta == 0 || bias == NULL);
    assert(beta == 0 || sl_handle_dtype(z) == SL_DTYPE_REAL);
    sl_task_begin(&task, &sparse_forward_op);
    add_sparse(&task, x);
    sl_task_add(&task, SPARSE_W, w, STARPU_R);
    sl_task_add(&task, SPARSE_Z, z, beta == 0 ? STARPU_W : STARPU_RW);
    sl_task_add_optional(&task, SPARSE_BIAS, bias, STARPU_R);
    if (args.dropout > 0) {
        sl_task_add(&task, SPARSE_IDS, x->dataset_ids, STARPU_R);
    }
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

/* gradient->touched: NULL, or as for sl_dense_sparse_backward_touched_submit. */
static enum sl_status submit_sparse_backward(const struct sl_task_args *head, const struct sl_sparse *x, uint32_t row0,
                                             starpu_data_handle_t gz, int beta,
                                             const struct sl_touched_gradient *gradient, starpu_data_handle_t gb)
{
    starpu_data_handle_t gw = gradient->gw;
    struct sparse_args args = {
        .head = *head, .beta = beta, .notes = gradient->touched != NULL, .fresh = gradient->fresh};
    enum starpu_data_access_mode mode = beta == 0 ? STARPU_W : STARPU_RW;
    enum starpu_data_access_mode kept = args.notes && !args.fresh ? STARPU_RW : mode;
    struct sl_task task;
    sparse_prepare(x, row0, gw, gb, gz, &args);
    check_gradients(head, gz, sl_handle_rows(gw) / sl_task_n_runs(head), gw, gb);
    sl_task_begin(&task, &sparse_backward_weight_op);
    add_sparse(&task, x);
    sl_task_add(&task, SPARSE_GZ, gz, STARPU_R);
    sl_task_add(&task, SPARSE_GW, gw, kept);
    sl_task_add_optional(&task, SPARSE_GB, gb, mode);
    if (args.dropout > 0) {
        sl_task_add(&task, SPARSE_IDS, x->dataset_ids, STARPU_R);
    }
    sl_task_add_optional(&task, SPARSE_TOUCHED, gradient->touched, kept);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_dense_sparse_backward_weight_submit(const struct sl_task_args *head, const struct sl_sparse *x,
                                                      uint32_t row0, starpu_data_handle_t gz, int beta,
                                                      starpu_data_handle_t gw, starpu_data_handle_t gb)
{
    const struct sl_touched_gradient gradient = {.gw = gw};
    return submit_sparse_backward(head, x, row0, gz, beta, &gradient, gb);
}

enum sl_status sl_dense_sparse_backward_touched_submit(const struct sl_task_args *head, const struct sl_sparse *x,
                                                       uint32_t row0, starpu_data_handle_t gz, int beta,
                                                       const struct sl_touched_gradient *gradient,
                                                       starpu_data_handle_t gb)
{
    assert(sl_task_n_runs(head) == 1);
    assert(sl_handle_columns(gradient->touched) == sl_handle_rows(gradient->gw));
    return submit_sparse_backward(head, x, row0, gz, beta, gradient, gb);
}
