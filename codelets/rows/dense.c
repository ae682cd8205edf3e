/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Products of rows with weights: a library for dense rows, row updates for sparse rows. */
#include "codelets/rows/dense.h"

#include <assert.h>
#include <string.h>

#include "codelets/ends/reduce.h"
#include "codelets/rows/bias.h"
#include "codelets/rows/dropout.h"
#include "codelets/rows/gemm.h"
#include "codelets/rows/rounded.h"
#include "support/convert.h"
#include "support/memory.h"
#include "support/minmax.h"

/* ---- kernels, CPU ---- */

/* C = op(A) op(B) + beta C as sl_gemm. */
static enum sl_status multiply_factors(bool in_bf16, uint32_t m, uint32_t n, uint32_t k, struct sl_factor a,
                                       struct sl_factor b, int beta, sl_real *c)
{
    if (in_bf16) {
        return sl_gemm_bf16(m, n, k, a, b, beta, c);
    }
    return sl_gemm(m, n, k, a, b, beta, c);
}

/* Z = X W + b + beta Z, in sl_real. */
static enum sl_status forward_real(struct sl_factor x, uint32_t n_rows, uint32_t n_out, const sl_real *w,
                                   const sl_real *bias, int beta, sl_real *z_out)
{
    const uint32_t n_in = x.n_columns;
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
    return multiply_factors(x.is_bf16, n_rows, n_out, n_in, x, (struct sl_factor){w, n_out, 0, false}, beta, z_out);
}

#define ROUNDED_ROWS 1024 /* rows computed in float before they are rounded */

enum sl_status sl_dense_forward_cpu(enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in, uint32_t n_out, const void *x,
                                    const sl_real *w, const sl_real *bias, int beta, enum sl_dtype z_dtype, void *z_out)
{
    struct sl_rounded slab =
        sl_rounded_begin("rows before they are rounded", ROUNDED_ROWS, z_dtype, n_rows, n_out, z_out);
    enum sl_status st;
    while (sl_rounded_next(&slab, &st)) {
        const struct sl_factor rows = {(const char *)x + sl_dtype_bytes(dtype, (size_t)slab.first * n_in), n_in, 0,
                                       dtype == SL_DTYPE_BF16};
        st = forward_real(rows, slab.n, n_out, w, bias, beta, slab.room);
    }
    return st;
}

enum sl_status sl_dense_backward_input_cpu(enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                           const sl_real *gz, const sl_real *w, int beta, sl_real *gx_out)
{
    if (n_rows == 0 || n_in == 0) {
        return SL_OK;
    }
    if (n_out > 0) {
        return multiply_factors(dtype == SL_DTYPE_BF16, n_rows, n_in, n_out, (struct sl_factor){gz, n_out, 0, false},
                                (struct sl_factor){w, n_out, 1, false}, beta, gx_out);
    }
    if (beta == 0) {
        sl_bias_forward_cpu(n_rows, n_in, NULL, gx_out);
    }
    return SL_OK;
}

enum sl_status sl_dense_backward_weight_cpu(enum sl_dtype dtype, uint32_t n_rows, uint32_t n_in, uint32_t n_out,
                                            const void *x, const sl_real *gz, sl_real *gw_out, sl_real *gb_out)
{
    if (gb_out != NULL) {
        sl_bias_backward_cpu(n_rows, n_out, gz, 0, gb_out);
    }
    if (n_rows > 0 && n_in > 0 && n_out > 0) {
        return multiply_factors(dtype == SL_DTYPE_BF16, n_in, n_out, n_rows,
                                (struct sl_factor){x, n_in, 1, dtype == SL_DTYPE_BF16},
                                (struct sl_factor){gz, n_out, 0, false}, 0, gw_out);
    }
    sl_bias_forward_cpu(n_in, n_out, NULL, gw_out);
    return SL_OK;
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

/* to += the products of sparse rows: of W in Z or, back, of GZ in GW. */
SL_INLINE void multiply_rows(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_out, const bool is_back,
                             const sl_real *from, sl_real *to)
{
    struct alike alike = {.n_rows = 0};
    struct entry_mask mask;
    for (uint32_t i = 0; i < n_rows; i++) {
        const struct row_range range = range_of(x, i);
        const size_t row = (size_t)i * n_out;
        fetch_ahead(x, i, n_rows, n_out, is_back ? to : from);
        mask_start(x, i, &mask);
        if (mask.threshold == 0 && is_back) {
            add_row(x, range, i, n_out, from, &alike, to);
        } else if (mask.threshold == 0) {
            multiply(x, range, i, n_out, from, &alike, to);
        }
        for (uint64_t e = range.begin; mask.threshold > 0 && e < range.end; e++) {
            const sl_real value = (sl_real)x->values[e] * mask_factor(&mask, x->columns[e]);
            const size_t entry = (size_t)x->columns[e] * n_out;
            if (value != 0) {
                add_scaled(n_out, value, from + (is_back ? row : entry), to + (is_back ? entry : row));
            }
        }
    }
    if (is_back) {
        add_alike(n_out, &alike, from, to);
    } else {
        multiply_all(&alike, n_out, from, to);
    }
}

SL_CLONES static void sparse_forward_real(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_out,
                                          const sl_real *w, const sl_real *bias, int beta, sl_real *z_out)
{
    if (beta == 0) {
        sl_bias_forward_cpu(n_rows, n_out, bias, z_out);
    }
    multiply_rows(x, n_rows, n_out, false, w, z_out);
}

enum sl_status sl_dense_sparse_forward_cpu(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_out,
                                           const sl_real *w, const sl_real *bias, int beta, enum sl_dtype z_dtype,
                                           void *z_out)
{
    struct sl_rounded slab =
        sl_rounded_begin("rows before they are rounded", ROUNDED_ROWS, z_dtype, n_rows, n_out, z_out);
    struct sl_sparse_rows some = *x;
    enum sl_status st;
    while (sl_rounded_next(&slab, &st)) {
        sparse_forward_real(&some, slab.n, n_out, w, bias, beta, slab.room);
        some.ids += slab.n;
    }
    return st;
}

SL_CLONES void sl_dense_sparse_backward_weight_cpu(const struct sl_sparse_rows *x, uint32_t n_rows, uint32_t n_in,
                                                   uint32_t n_out, const sl_real *gz, int beta, sl_real *gw_out,
                                                   sl_real *gb_out)
{
    if (beta == 0) {
        sl_bias_forward_cpu(n_in, n_out, NULL, gw_out);
    }
    multiply_rows(x, n_rows, n_out, true, gz, gw_out);
    if (gb_out != NULL) {
        sl_bias_backward_cpu(n_rows, n_out, gz, beta, gb_out);
    }
}

/* Clear the rows of GW that are touched, and forget them. */
static void clear_touched(uint32_t n_in, uint32_t n_out, int8_t *touched, sl_real *gw)
{
    for (uint32_t r = sl_next_touched(touched, 0, n_in); r < n_in; r = sl_next_touched(touched, r + 1, n_in)) {
        memset(gw + (size_t)r * n_out, 0, n_out * sizeof *gw);
        touched[r] = 0;
    }
}

/* Note the rows of GW that sparse rows touch: the columns of their entries. */
static void touch_rows(const struct sl_sparse_rows *x, uint32_t n_rows, int8_t *touched)
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

/* ---- operations ---- */

/* Each segment of a task's rows has a product of its own: the last bits of a row may differ with the number of rows
 * beside it (codelets/rows/gemm.h). */
struct forward {
    struct sl_task_args head;
    struct sl_matrix x, w, z, bias;
    int beta;
};

/* Z from features that are read in place in a narrow dtype. The product is the product of their floats. */
static enum sl_status forward_narrow(const struct forward *v)
{
    const size_t n = sl_matrix_entries(&v->x);
    sl_real *room;
    SL_CHECK(sl_alloc(n, sizeof *room, "features", &room));
    sl_convert_to_reals(v->x.dtype, 1, n, v->x.data, room);
    enum sl_status st = sl_dense_forward_cpu(SL_DTYPE_REAL, v->z.n_rows, v->x.n_columns, v->z.n_columns, room,
                                             v->w.data, v->bias.data, v->beta, SL_DTYPE_REAL, v->z.data);
    sl_free(room);
    return st;
}

static enum sl_status forward(const void *view, const void *stream)
{
    const struct forward *v = view;
    if (stream == NULL && v->x.dtype != SL_DTYPE_REAL && v->x.dtype != v->head.run->row_dtype) {
        assert(v->z.dtype == SL_DTYPE_REAL);
        return forward_narrow(v);
    }
    return SL_CALL_QUEUE(stream, sl_dense_forward, v->x.dtype, v->z.n_rows, v->x.n_columns, v->z.n_columns, v->x.data,
                         v->w.data, v->bias.data, v->beta, v->z.dtype, v->z.data);
}

static struct sl_operation forward_op = {
    SL_HISTORY_OPERATION(forward_op, "sl_dense_forward", SL_STAGE_DENSE),
    SL_BODY(forward, struct forward),
    .role = {{"x", STARPU_R, offsetof(struct forward, x), "R x F", SL_ROWS},
             {"w", STARPU_R, offsetof(struct forward, w), "F x H"},
             {"z", STARPU_W | SL_OR_RW, offsetof(struct forward, z), "R x H", SL_ROWS_OR_REALS},
             {"bias", STARPU_R | SL_OPTIONAL, offsetof(struct forward, bias), "1 x H"}},
};

struct backward_input {
    struct sl_task_args head;
    struct sl_matrix gz, w, gx;
    int beta;
};

static enum sl_status backward_input(const void *view, const void *stream)
{
    const struct backward_input *v = view;
    return SL_CALL_QUEUE(stream, sl_dense_backward_input, v->head.run->row_dtype, v->gz.n_rows, v->gx.n_columns,
                         v->gz.n_columns, v->gz.data, v->w.data, v->beta, v->gx.data);
}

static struct sl_operation backward_input_op = {
    SL_HISTORY_OPERATION(backward_input_op, "sl_dense_backward_input", SL_STAGE_BACKWARD),
    SL_BODY(backward_input, struct backward_input),
    .role = {{"gz", STARPU_R, offsetof(struct backward_input, gz), "R x H"},
             {"w", STARPU_R, offsetof(struct backward_input, w), "F x H"},
             {"gx", STARPU_W | SL_OR_RW, offsetof(struct backward_input, gx), "R x F"}},
};

struct backward_weight {
    struct sl_task_args head;
    struct sl_matrix x, gz, gw, gb;
};

static enum sl_status backward_weight(const void *view, const void *stream)
{
    const struct backward_weight *v = view;
    return SL_CALL_QUEUE(stream, sl_dense_backward_weight, v->x.dtype, v->gz.n_rows, v->x.n_columns, v->gz.n_columns,
                         v->x.data, v->gz.data, v->gw.data, v->gb.data);
}

static struct sl_operation backward_weight_op = {
    SL_HISTORY_OPERATION(backward_weight_op, "sl_dense_backward_weight", SL_STAGE_BACKWARD),
    SL_BODY(backward_weight, struct backward_weight),
    .role = {{"x", STARPU_R, offsetof(struct backward_weight, x), "R x F", SL_ROWS},
             {"gz", STARPU_R, offsetof(struct backward_weight, gz), "R x H"},
             {"gw", STARPU_W, offsetof(struct backward_weight, gw), "KF x H"},
             {"gb", STARPU_W | SL_OPTIONAL, offsetof(struct backward_weight, gb), "K x H"}},
};

/* One view for both sparse products: of X with W to Z, and of X with Z's gradient to W's. */
struct sparse {
    struct sl_task_args head;
    struct sl_matrix offsets, columns, values, frontier, dataset_ids;
    struct sl_matrix w, z, bias;
    struct sl_matrix touched;
    bool is_fresh; /* the gradient and `touched` have not been written */
    uint32_t first, max_row;
    int beta;
    double dropout;
    struct sl_draw draw;
};

static struct sl_sparse_rows sparse_rows(const struct sparse *v)
{
    return (struct sl_sparse_rows){.offsets = v->offsets.data,
                                   .columns = v->columns.data,
                                   .values = v->values.data,
                                   .ids = v->frontier.data,
                                   .dataset_ids = v->dataset_ids.data,
                                   .first = v->first,
                                   .max_row = v->max_row,
                                   .dropout = v->dropout,
                                   .draw = v->draw};
}

static enum sl_status sparse_forward(const void *view, const void *stream)
{
    const struct sparse *v = view;
    const struct sl_sparse_rows x = sparse_rows(v);
    return SL_CALL(stream, sl_dense_sparse_forward, &x, v->z.n_rows, v->z.n_columns, v->w.data, v->bias.data, v->beta,
                   v->z.dtype, v->z.data);
}

static struct sl_operation sparse_forward_op = {
    SL_OPERATION(sparse_forward_op, "sl_dense_sparse_forward", SL_STAGE_DENSE),
    SL_BODY(sparse_forward, struct sparse),
    .role = {{"offsets", STARPU_R, offsetof(struct sparse, offsets), "?", SL_INTS_64},
             {"columns", STARPU_R, offsetof(struct sparse, columns), "E", SL_INTS_32},
             {"values", STARPU_R, offsetof(struct sparse, values), "E", SL_FLOATS},
             {"frontier", STARPU_R, offsetof(struct sparse, frontier), "D", SL_INTS_32},
             {"w", STARPU_R, offsetof(struct sparse, w), "? x H"},
             {"z", STARPU_W | SL_OR_RW, offsetof(struct sparse, z), "D x H", SL_ROWS},
             {"bias", STARPU_R | SL_OPTIONAL, offsetof(struct sparse, bias), "1 x H"},
             {"dataset ids", STARPU_R | SL_OPTIONAL, offsetof(struct sparse, dataset_ids), "?", SL_INTS_32}},
};

/* Only the rows that were touched before are cleared. */
static void backward_touched_cpu(const struct sparse *v, const struct sl_sparse_rows *x)
{
    const uint32_t n_in = v->w.n_rows;
    const uint32_t n_out = v->w.n_columns;
    if (v->is_fresh) {
        memset(v->touched.data, 0, n_in);
        sl_bias_forward_cpu(n_in, n_out, NULL, v->w.data);
    } else if (v->beta == 0) {
        clear_touched(n_in, n_out, v->touched.data, v->w.data);
    }
    touch_rows(x, v->z.n_rows, v->touched.data);
    sl_dense_sparse_backward_weight_cpu(x, v->z.n_rows, n_in, n_out, v->z.data, 1, v->w.data, NULL);
    if (v->bias.data != NULL) {
        sl_bias_backward_cpu(v->z.n_rows, n_out, v->z.data, v->beta, v->bias.data);
    }
}

static enum sl_status sparse_backward_weight(const void *view, const void *stream)
{
    const struct sparse *v = view;
    const struct sl_sparse_rows x = sparse_rows(v);
    if (v->touched.data != NULL && stream == NULL) {
        backward_touched_cpu(v, &x);
        return SL_OK;
    }
    SL_CHECK(SL_RUN(stream, sl_dense_sparse_backward_weight, &x, v->z.n_rows, v->w.n_rows, v->w.n_columns, v->z.data,
                    v->beta, v->w.data, v->bias.data));
    /* A GPU writes all rows anew. */
    return v->touched.data == NULL ? SL_OK : sl_fill(stream, 1, v->w.n_rows, v->touched.data);
}

static struct sl_operation sparse_backward_weight_op = {
    SL_OPERATION(sparse_backward_weight_op, "sl_dense_sparse_backward_weight", SL_STAGE_BACKWARD),
    SL_BODY(sparse_backward_weight, struct sparse),
    .role = {{"offsets", STARPU_R, offsetof(struct sparse, offsets), "?", SL_INTS_64},
             {"columns", STARPU_R, offsetof(struct sparse, columns), "E", SL_INTS_32},
             {"values", STARPU_R, offsetof(struct sparse, values), "E", SL_FLOATS},
             {"frontier", STARPU_R, offsetof(struct sparse, frontier), "R", SL_INTS_32},
             {"gz", STARPU_R, offsetof(struct sparse, z), "R x H"},
             {"gw", STARPU_W | SL_OR_RW, offsetof(struct sparse, w), "KF x H"},
             {"gb", STARPU_W | SL_OR_RW | SL_OPTIONAL, offsetof(struct sparse, bias), "K x H"},
             {"dataset ids", STARPU_R | SL_OPTIONAL, offsetof(struct sparse, dataset_ids), "?", SL_INTS_32},
             {"touched rows", STARPU_W | SL_OR_RW | SL_OPTIONAL, offsetof(struct sparse, touched), "1 x F", SL_INTS_8}},
};

/* ---- submissions ---- */

/* Set the flops of a product of X and Z, or of their gradients. SL_ENOTSUP: over 2^31 - 1 rows or columns. */
static enum sl_status set_product(struct sl_task_args *head, const struct sl_matrix *x, const struct sl_matrix *z)
{
    const uint32_t x_rows = sl_handle_rows(x->handle);
    head->work = 2 * (uint64_t)z->n_rows * x->n_columns * z->n_columns;
    SL_FAIL_IF((x_rows | x->n_columns | z->n_columns) > INT32_MAX, SL_ENOTSUP,
               "a product of [%u x %u] and [%u x %u]: expected at most %d rows and columns", x_rows, x->n_columns,
               x->n_columns, z->n_columns, INT32_MAX);
    return SL_OK;
}

enum sl_status sl_dense_forward_submit(const struct sl_task_args *head, starpu_data_handle_t x, uint32_t row0,
                                       starpu_data_handle_t w, starpu_data_handle_t bias, int beta,
                                       starpu_data_handle_t z)
{
    struct forward v = {
        .head = *head, .w = sl_matrix_of(w), .z = sl_matrix_of(z), .bias = sl_matrix_of(bias), .beta = beta};
    v.x = sl_matrix_rows(x, row0, v.z.n_rows);
    v.z.is_kept = beta != 0;
    assert(beta == 0 || (bias == NULL && v.z.dtype == SL_DTYPE_REAL));
    SL_CHECK(set_product(&v.head, &v.x, &v.z));
    return sl_view_submit(&forward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_dense_backward_input_submit(const struct sl_task_args *head, starpu_data_handle_t gz,
                                              starpu_data_handle_t w, int beta, starpu_data_handle_t gx, uint32_t row0)
{
    struct backward_input v = {.head = *head, .gz = sl_matrix_of(gz), .w = sl_matrix_of(w), .beta = beta};
    v.gx = sl_matrix_rows(gx, row0, v.gz.n_rows);
    assert(beta != 0 || !v.gx.is_kept);
    v.gx.is_kept = beta != 0;
    SL_CHECK(set_product(&v.head, &v.gx, &v.gz));
    return sl_view_submit(&backward_input_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_dense_backward_weight_submit(const struct sl_task_args *head, starpu_data_handle_t x, uint32_t row0,
                                               starpu_data_handle_t gz, starpu_data_handle_t gw,
                                               starpu_data_handle_t gb)
{
    struct backward_weight v = {.head = *head, .gz = sl_matrix_of(gz), .gw = sl_matrix_of(gw), .gb = sl_matrix_of(gb)};
    v.x = sl_matrix_rows(x, row0, v.gz.n_rows);
    SL_CHECK(set_product(&v.head, &v.x, &v.gz));
    return sl_view_submit(&backward_weight_op, &v, SL_PRIORITY_COMPUTE);
}

/* What the two sparse products share. w: W or GW; z: Z or GZ. */
static struct sparse sparse_view(const struct sl_task_args *head, const struct sl_sparse *x, uint32_t row0,
                                 starpu_data_handle_t w, starpu_data_handle_t bias, starpu_data_handle_t z, int beta)
{
    struct sparse v = {.head = *head,
                       .offsets = sl_matrix_of(x->offsets),
                       .columns = sl_matrix_of(x->columns),
                       .values = sl_matrix_of(x->values),
                       .w = sl_matrix_of(w),
                       .z = sl_matrix_of(z),
                       .bias = sl_matrix_of(bias),
                       .first = x->first,
                       .max_row = x->max_row,
                       .draw = {.seed = x->seed, .step = head->step, .purpose = SL_FOR_DROPOUT, .hop = head->hop},
                       .beta = beta};
    const uint32_t n_part = v.offsets.n_rows - 1;
    v.frontier = sl_matrix_rows(x->frontier, row0, v.z.n_rows);
    if (sl_dropout_threshold(x->dropout) > 0) {
        v.dropout = x->dropout;
        v.dataset_ids = sl_matrix_of(x->dataset_ids);
    }
    /* Flops of an average row of the part: the host does not know the lengths of these rows. */
    v.head.work = 2 * (uint64_t)v.columns.n_rows * v.z.n_rows / sl_max_u32(n_part, 1) * v.z.n_columns;
    return v;
}

enum sl_status sl_dense_sparse_forward_submit(const struct sl_task_args *head, const struct sl_sparse *x, uint32_t row0,
                                              starpu_data_handle_t w, starpu_data_handle_t bias, int beta,
                                              starpu_data_handle_t z)
{
    struct sparse v = sparse_view(head, x, row0, w, bias, z, beta);
    assert(beta == 0 || (bias == NULL && v.z.dtype == SL_DTYPE_REAL));
    v.z.is_kept = beta != 0;
    return sl_view_submit(&sparse_forward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_dense_sparse_backward_weight_submit(const struct sl_task_args *head, const struct sl_sparse *x,
                                                      uint32_t row0, starpu_data_handle_t gz, int beta,
                                                      const struct sl_sparse_gradient *gradient,
                                                      starpu_data_handle_t gb)
{
    struct sparse v = sparse_view(head, x, row0, gradient->gw, gb, gz, beta);
    assert(gradient->touched == NULL || head->runs == NULL || head->runs->n == 1);
    v.touched = sl_matrix_of(gradient->touched);
    v.is_fresh = gradient->fresh;
    v.bias.is_kept = beta != 0;
    v.w.is_kept = v.touched.is_kept = beta != 0 || (gradient->touched != NULL && !gradient->fresh);
    return sl_view_submit(&sparse_backward_weight_op, &v, SL_PRIORITY_COMPUTE);
}
