/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Normalise, gate and scale rows, one block of columns at a time; and the adjoint. */
#include "codelets/rows/activate.h"

#include <assert.h>
#include <string.h>

#include "codelets/rows/dropout.h"
#include "codelets/rows/rounded.h"
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

/* step: 1, or 0 for one mean of all columns; a constant. */
SL_INLINE void normalise(uint32_t n, const uint32_t step, const sl_real *restrict mean, const sl_real *restrict rstd,
                         const sl_real *restrict z, const sl_real *restrict weight, const sl_real *restrict bias,
                         sl_real *restrict y)
{
    for (uint32_t c = 0; c < n; c++) {
        y[c] = sl_activate_normalise(z[c], mean[c * step], rstd[c * step], weight[c], bias[c]);
    }
}

/* h = gate * scale * y + r: ReLU and the identity. */
SL_INLINE void gate_block(uint32_t n, uint8_t open, sl_real scale, const sl_real *restrict y,
                          const uint8_t *restrict keep, const sl_real *restrict residual, uint8_t *restrict gate,
                          sl_real *restrict h)
{
    for (uint32_t c = 0; c < n; c++) {
        gate[c] = sl_activate_gate(keep[c], open, y[c]);
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

/* h = keep * scale * f(y) + r: the other activations. */
SL_INLINE void curve_block(uint32_t n, enum sl_activate_kind kind, sl_real scale, const sl_real *restrict y,
                           const uint8_t *restrict keep, const sl_real *restrict residual, sl_real *restrict gate,
                           sl_real *restrict h)
{
    for (uint32_t c = 0; c < n; c++) {
        struct sl_activate_curve curve = sl_activate_curve(kind, y[c]);
        gate[c] = (sl_real)keep[c] * curve.slope;
        h[c] = sl_activate_pass((sl_real)keep[c], scale, curve.value) + 0;
    }
    for (uint32_t c = 0; residual != NULL && c < n; c++) {
        h[c] += residual[c];
    }
}

/* h and the gate of n entries from entry `base` on. residual: NULL, or the whole matrix. */
SL_INLINE void activate_block(const struct sl_activate *a, size_t base, uint32_t n, const sl_real *y,
                              const uint8_t *keep, const sl_real *residual, void *gate_out, sl_real *h_out)
{
    const sl_real scale = (sl_real)sl_dropout_scale(a->threshold);
    const sl_real *r = residual == NULL ? NULL : residual + base;
    sl_real *slopes = (sl_real *)gate_out + base;
    switch (a->kind) { /* a constant, so that compilers see one activation in a loop */
    case SL_ACTIVATE_ELU: curve_block(n, SL_ACTIVATE_ELU, scale, y, keep, r, slopes, h_out + base); break;
    case SL_ACTIVATE_GELU: curve_block(n, SL_ACTIVATE_GELU, scale, y, keep, r, slopes, h_out + base); break;
    case SL_ACTIVATE_LEAKY_RELU: curve_block(n, SL_ACTIVATE_LEAKY_RELU, scale, y, keep, r, slopes, h_out + base); break;
    default:
        gate_block(n, a->kind == SL_ACTIVATE_IDENTITY, scale, y, keep, r, (uint8_t *)gate_out + base, h_out + base);
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
    case SL_ACTIVATE_LAYER: normalise(n, 0, &norm.mean, &norm.rstd, z, a->weight + c0, a->bias + c0, room); return room;
    case SL_ACTIVATE_BATCH:
        normalise(n, 1, a->mean + c0, a->rstd + c0, z, a->weight + c0, a->bias + c0, room);
        return room;
    default: return z;
    }
}

/* Forward of rows i0 .. i0 + n_rows - 1; their masks are drawn together. keep: all 1 without dropout. */
SL_INLINE void forward_rows(const struct sl_activate *a, uint32_t i0, uint32_t n_rows, const sl_real *z,
                            const sl_real *residual, uint8_t keep[BLOCK], void *gate_out, sl_real *h_out)
{
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
            activate_block(a, base, n, y, keep + r * sl_dropout_stride(n), residual, gate_out, h_out);
        }
    }
}

SL_CLONES void sl_activate_forward_cpu(const struct sl_activate *a, const sl_real *z, const sl_real *residual,
                                       void *gate_out, sl_real *h_out)
{
    _Alignas(64) uint8_t keep[BLOCK];
    uint32_t together = a->n_columns > 0 ? sl_dropout_rows(a->n_columns) : 1;
    memset(keep, 1, sizeof keep);
    for (uint32_t i = 0; i < a->n_rows; i += together) {
        uint32_t n_rows = sl_min_u32(a->n_rows - i, together);
        forward_rows(a, i, n_rows, z, residual, keep, gate_out, h_out);
    }
}

/* A gate as backward reads it: of bytes or of sl_reals. */
struct gate {
    bool is_bytes; /* a constant, so that compilers see one dtype in a loop */
    const void *data;
    sl_real scale; /* of dropout */
};

SL_INLINE struct gate gate_of(const struct sl_activate *a, bool is_bytes, const void *gate)
{
    return (struct gate){is_bytes, gate, (sl_real)sl_dropout_scale(a->threshold)};
}

/* Entry i of GY. */
SL_INLINE sl_real pass(struct gate gate, const sl_real *restrict gh, size_t i)
{
    const uint8_t *restrict bytes = gate.data;
    const sl_real *restrict slopes = gate.data;
    return sl_activate_pass(gate.is_bytes ? (sl_real)bytes[i] : slopes[i], gate.scale, gh[i]);
}

/* The row of layer norm that begins at entry `base`. With a = w GY: GZ = rstd * (a - mean(a) - zhat * mean(a * zhat)).
 * Adds to GW and GB. */
SL_INLINE void backward_layer(const struct sl_activate *a, struct gate gate, size_t base, const sl_real *restrict z,
                              const sl_real *restrict gh, sl_real *restrict gz, const struct sl_activate_sums *sums)
{
    const uint32_t n = a->n_columns;
    const sl_real *restrict weight = a->weight;
    sl_real *restrict gw = sums->gw;
    sl_real *restrict gb = sums->gb;
    z += base;
    gz += base;
    const struct sl_activate_row norm = row_norm(n, z);
    for (uint32_t c = 0; c < n; c++) {
        sl_real gy = pass(gate, gh, base + c);
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
SL_INLINE void backward_batch_block(const struct sl_activate *a, struct gate gate, uint32_t c0,
                                    const sl_real means[2][BLOCK], const sl_real *restrict z,
                                    const sl_real *restrict gh, sl_real *restrict gz)
{
    const uint32_t n = block_size(a->n_columns, c0);
    const sl_real *restrict slope = means[0];
    const sl_real *restrict offset = means[1];
    const sl_real *restrict weight = a->weight + c0;
    const sl_real *restrict mean = a->mean + c0;
    const sl_real *restrict rstd = a->rstd + c0;
    for (uint32_t i = 0; i < a->n_rows; i++) {
        size_t base = (size_t)i * a->n_columns + c0;
        for (uint32_t c = 0; c < n; c++) {
            sl_real gy = pass(gate, gh, base + c);
            sl_real zhat = sl_activate_zhat(z[base + c], mean[c], rstd[c]);
            gz[base + c] = sl_activate_batch_gz(weight[c], rstd[c], gy, zhat, slope[c], offset[c]);
        }
    }
}

SL_INLINE void backward_batch(const struct sl_activate *a, struct gate gate, const sl_real *z, const sl_real *gh,
                              const struct sl_activate_sums *sums, sl_real *gz_out)
{
    sl_real means[2][BLOCK];
    for (uint32_t c0 = 0; c0 < a->n_columns; c0 += BLOCK) {
        uint32_t n = block_size(a->n_columns, c0);
        for (uint32_t c = 0; c < n; c++) {
            means[0][c] = sl_activate_batch_mean(sums->group[c0 + c], sums->n_group);
            means[1][c] = sl_activate_batch_mean(sums->group[a->n_columns + c0 + c], sums->n_group);
        }
        backward_batch_block(a, gate, c0, (const sl_real(*)[BLOCK])means, z, gh, gz_out);
    }
}

/* Without a norm GZ is GY. */
SL_INLINE void backward_plain(size_t n, struct gate gate, const sl_real *restrict gh, sl_real *restrict gz)
{
    for (size_t i = 0; i < n; i++) {
        gz[i] = pass(gate, gh, i);
    }
}

SL_INLINE void backward_rows(const struct sl_activate *a, struct gate gate, const sl_real *z, const sl_real *gh,
                             const struct sl_activate_sums *sums, sl_real *gz_out)
{
    const size_t n = a->n_columns;
    switch (a->norm) {
    case SL_ACTIVATE_BATCH: backward_batch(a, gate, z, gh, sums, gz_out); break;
    case SL_ACTIVATE_LAYER:
        memset(sums->gw, 0, n * sizeof *sums->gw);
        memset(sums->gb, 0, n * sizeof *sums->gb);
        for (uint32_t i = 0; i < a->n_rows; i++) {
            backward_layer(a, gate, i * n, z, gh, gz_out, sums);
        }
        break;
    default: backward_plain(a->n_rows * n, gate, gh, gz_out);
    }
}

SL_CLONES void sl_activate_backward_cpu(const struct sl_activate *a, const sl_real *z, const void *gate,
                                        const sl_real *gh, const struct sl_activate_sums *sums, sl_real *gz_out)
{
    if (sl_activate_gate_dtype(a->kind) == SL_DTYPE_U8) {
        backward_rows(a, gate_of(a, true, gate), z, gh, sums, gz_out);
    } else {
        backward_rows(a, gate_of(a, false, gate), z, gh, sums, gz_out);
    }
}

/* Sums over all rows of n columns from c0 on: of GY * zhat, and of GY. */
SL_INLINE void batch_sums_block(const struct sl_activate *a, struct gate gate, uint32_t c0, const sl_real *restrict z,
                                const sl_real *restrict gh, double *restrict slope, double *restrict offset)
{
    const uint32_t n = block_size(a->n_columns, c0);
    const sl_real *restrict mean = a->mean + c0;
    const sl_real *restrict rstd = a->rstd + c0;
    memset(slope, 0, n * sizeof *slope);
    memset(offset, 0, n * sizeof *offset);
    for (uint32_t i = 0; i < a->n_rows; i++) {
        size_t base = (size_t)i * a->n_columns + c0;
        for (uint32_t c = 0; c < n; c++) {
            double gy = (double)pass(gate, gh, base + c);
            slope[c] += gy * (double)sl_activate_zhat(z[base + c], mean[c], rstd[c]);
            offset[c] += gy;
        }
    }
}

SL_CLONES void sl_activate_batch_sums_cpu(const struct sl_activate *a, const sl_real *z, const void *gate,
                                          const sl_real *gh, double *sums_out)
{
    const bool is_bytes = sl_activate_gate_dtype(a->kind) == SL_DTYPE_U8;
    for (uint32_t c0 = 0; c0 < a->n_columns; c0 += BLOCK) {
        double *slope = sums_out + c0;
        double *offset = slope + a->n_columns;
        if (is_bytes) {
            batch_sums_block(a, gate_of(a, true, gate), c0, z, gh, slope, offset);
        } else {
            batch_sums_block(a, gate_of(a, false, gate), c0, z, gh, slope, offset);
        }
    }
}

#define ROUNDED_ROWS 64 /* rows computed in float before they are rounded */

/* n numbers of rows, from `base` on. Those of another dtype are widened into `room`. */
static const sl_real *as_real(enum sl_dtype dtype, const void *rows, size_t base, size_t n, sl_real *room)
{
    if (rows == NULL) {
        return NULL;
    }
    if (dtype == SL_DTYPE_REAL) {
        return (const sl_real *)rows + base;
    }
    sl_entries_widen(dtype, n, (const char *)rows + sl_dtype_bytes(dtype, base), room);
    return room;
}

enum sl_status sl_activate_forward_rows_cpu(const struct sl_activate *a, enum sl_dtype z_dtype, const void *z,
                                            const void *residual, void *gate_out, enum sl_dtype h_dtype, void *h_out)
{
    struct sl_rounded slab =
        sl_rounded_begin("rows before they are rounded", ROUNDED_ROWS, h_dtype, a->n_rows, a->n_columns, h_out);
    const size_t stretch = (size_t)ROUNDED_ROWS * a->n_columns;
    const size_t gate_bytes = sl_dtype_size(sl_activate_gate_dtype(a->kind)); /* of an entry */
    struct sl_activate some = *a;
    sl_real *room[2] = {NULL, NULL}; /* of z and of the residual, widened */
    enum sl_status st;
    if (h_dtype != SL_DTYPE_REAL) {
        SL_CHECK(sl_alloc(2 * stretch, sizeof **room, "rows before they are rounded", &room[0]));
        room[1] = room[0] + stretch;
    }
    while (sl_rounded_next(&slab, &st)) {
        const size_t base = (size_t)slab.first * a->n_columns;
        const size_t n = (size_t)slab.n * a->n_columns;
        some.n_rows = slab.n;
        const sl_real *y = as_real(z_dtype, z, base, n, room[0]);
        const sl_real *r = as_real(h_dtype, residual, base, n, room[1]);
        sl_activate_forward_cpu(&some, y, r, (char *)gate_out + base * gate_bytes, slab.room);
        if (a->threshold > 0) {
            some.ids += slab.n;
        }
    }
    sl_free(room[0]);
    return st;
}

/* ---- operations ---- */

/* One view for all operations: each has some of the operands. */
struct activate {
    struct sl_task_args head;
    struct sl_matrix z, gate, h, gh, gz;
    struct sl_matrix weight, bias, statistics; /* of a norm */
    struct sl_matrix gw, gb, sums;             /* sums over rows, or the group's */
    struct sl_matrix residual, frontier, dataset_ids;
    enum sl_activate_norm norm;
    enum sl_activate_kind kind;
    uint32_t threshold;
    struct sl_draw draw;
    uint64_t n_group;
};

/* rows: an operand with the chunk's shape. */
static struct sl_activate kernel_view(const struct activate *v, const struct sl_matrix *rows)
{
    const sl_real *statistics = v->statistics.data; /* two rows: mean and 1 / standard deviation */
    return (struct sl_activate){.n_rows = rows->n_rows,
                                .n_columns = rows->n_columns,
                                .norm = v->norm,
                                .kind = v->kind,
                                .weight = v->weight.data,
                                .bias = v->bias.data,
                                .mean = statistics,
                                .rstd = statistics == NULL ? NULL : statistics + rows->n_columns,
                                .threshold = v->threshold,
                                .draw = v->draw,
                                .ids = v->frontier.data,
                                .dataset_ids = v->dataset_ids.data};
}

static enum sl_status forward(const void *view, const void *stream)
{
    const struct activate *v = view;
    const struct sl_activate a = kernel_view(v, &v->z);
    return SL_CALL(stream, sl_activate_forward_rows, &a, v->z.dtype, v->z.data, v->residual.data, v->gate.data,
                   v->h.dtype, v->h.data);
}

static struct sl_operation forward_op = {
    SL_OPERATION(forward_op, "sl_activate_forward", SL_STAGE_DENSE),
    SL_BODY(forward, struct activate),
    .role = {{"z", STARPU_R, offsetof(struct activate, z), "D x F", SL_ROWS_OR_REALS},
             {"gate", STARPU_W, offsetof(struct activate, gate), "D x F", SL_ANY},
             {"h", STARPU_W, offsetof(struct activate, h), "D x F", SL_ROWS},
             {"weight", STARPU_R | SL_OPTIONAL, offsetof(struct activate, weight), "1 x F"},
             {"bias", STARPU_R | SL_OPTIONAL, offsetof(struct activate, bias), "1 x F"},
             {"statistics", STARPU_R | SL_OPTIONAL, offsetof(struct activate, statistics), "2 x F"},
             {"residual", STARPU_R | SL_OPTIONAL, offsetof(struct activate, residual), "D x F", SL_ROWS},
             {"frontier", STARPU_R | SL_OPTIONAL, offsetof(struct activate, frontier), "D", SL_INTS_32},
             {"dataset ids", STARPU_R | SL_OPTIONAL, offsetof(struct activate, dataset_ids), "?", SL_INTS_32}},
};

static enum sl_status backward(const void *view, const void *stream)
{
    const struct activate *v = view;
    const struct sl_activate a = kernel_view(v, &v->gh);
    const struct sl_activate_sums sums = {v->gw.data, v->gb.data, v->sums.data, v->n_group};
    return SL_RUN(stream, sl_activate_backward, &a, v->z.data, v->gate.data, v->gh.data, &sums, v->gz.data);
}

static struct sl_operation backward_op = {
    SL_OPERATION(backward_op, "sl_activate_backward", SL_STAGE_BACKWARD),
    SL_BODY(backward, struct activate),
    .role = {{"gate", STARPU_R, offsetof(struct activate, gate), "R x F", SL_ANY},
             {"gh", STARPU_R, offsetof(struct activate, gh), "R x F"},
             {"gz", STARPU_W, offsetof(struct activate, gz), "R x F"},
             {"z", STARPU_R | SL_OPTIONAL, offsetof(struct activate, z), "R x F"},
             {"weight", STARPU_R | SL_OPTIONAL, offsetof(struct activate, weight), "1 x F"},
             {"gw", STARPU_W | SL_OPTIONAL, offsetof(struct activate, gw), "K x F"},
             {"gb", STARPU_W | SL_OPTIONAL, offsetof(struct activate, gb), "K x F"},
             {"statistics", STARPU_R | SL_OPTIONAL, offsetof(struct activate, statistics), "2 x F"},
             {"sums", STARPU_R | SL_OPTIONAL, offsetof(struct activate, sums), "2 x F", SL_DOUBLES}},
};

static enum sl_status batch_sums(const void *view, const void *stream)
{
    const struct activate *v = view;
    const struct sl_activate a = kernel_view(v, &v->z);
    return SL_RUN(stream, sl_activate_batch_sums, &a, v->z.data, v->gate.data, v->gh.data, v->sums.data);
}

static struct sl_operation batch_sums_op = {
    SL_OPERATION(batch_sums_op, "sl_activate_batch_sums", SL_STAGE_BACKWARD),
    SL_BODY(batch_sums, struct activate),
    .role = {{"z", STARPU_R, offsetof(struct activate, z), "D x F"},
             {"gate", STARPU_R, offsetof(struct activate, gate), "D x F", SL_ANY},
             {"gh", STARPU_R, offsetof(struct activate, gh), "D x F"},
             {"statistics", STARPU_R, offsetof(struct activate, statistics), "2 x F"},
             {"sums", STARPU_W, offsetof(struct activate, sums), "2 x F", SL_DOUBLES}},
};

/* ---- submissions ---- */

static struct activate view_of(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                               starpu_data_handle_t gate)
{
    struct activate v = {.head = *head, .norm = layer->norm, .kind = layer->kind, .gate = sl_matrix_of(gate)};
    assert(v.gate.element == sl_dtype_size(sl_activate_gate_dtype(layer->kind)));
    v.draw = (struct sl_draw){.seed = layer->seed, .step = head->step, .purpose = SL_FOR_DROPOUT, .hop = head->hop};
    v.threshold = sl_dropout_threshold(layer->dropout);
    if (layer->norm != SL_ACTIVATE_PLAIN) {
        assert(layer->weight != NULL && layer->bias != NULL);
        v.weight = sl_matrix_of(layer->weight);
    }
    if (layer->norm == SL_ACTIVATE_BATCH) {
        assert(layer->statistics != NULL);
        v.statistics = sl_matrix_of(layer->statistics);
    }
    return v;
}

enum sl_status sl_activate_forward_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                          uint32_t row0, starpu_data_handle_t z, starpu_data_handle_t residual,
                                          uint32_t residual_row0, starpu_data_handle_t gate, starpu_data_handle_t h)
{
    struct activate v = view_of(head, layer, gate);
    v.z = sl_matrix_of(z);
    v.h = sl_matrix_of(h);
    assert(v.z.dtype == SL_DTYPE_REAL || layer->norm == SL_ACTIVATE_PLAIN);
    if (layer->norm != SL_ACTIVATE_PLAIN) {
        v.bias = sl_matrix_of(layer->bias);
    }
    if (residual != NULL) {
        v.residual = sl_matrix_rows(residual, residual_row0, v.z.n_rows);
    }
    if (v.threshold > 0) {
        v.frontier = sl_matrix_rows(layer->frontier, row0, v.z.n_rows);
        v.dataset_ids = sl_matrix_of(layer->dataset_ids);
    }
    return sl_view_submit(&forward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_activate_backward_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                           starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                                           const struct sl_activate_sums_handles *sums, starpu_data_handle_t gz)
{
    struct activate v = view_of(head, layer, gate);
    v.gh = sl_matrix_of(gh);
    v.gz = sl_matrix_of(gz);
    v.n_group = sums->n_group;
    if (layer->norm != SL_ACTIVATE_PLAIN) {
        v.z = sl_matrix_of(z);
    }
    if (layer->norm == SL_ACTIVATE_LAYER) {
        v.gw = sl_matrix_of(sums->gw);
        v.gb = sl_matrix_of(sums->gb);
    }
    if (layer->norm == SL_ACTIVATE_BATCH) {
        v.sums = sl_matrix_of(sums->group);
        assert(sums->n_group >= v.gh.n_rows);
    }
    return sl_view_submit(&backward_op, &v, SL_PRIORITY_COMPUTE);
}

enum sl_status sl_activate_batch_sums_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                             starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                                             starpu_data_handle_t sums)
{
    struct activate v = view_of(head, layer, gate);
    v.z = sl_matrix_of(z);
    v.gh = sl_matrix_of(gh);
    v.sums = sl_matrix_of(sums);
    return sl_view_submit(&batch_sums_op, &v, SL_PRIORITY_COMPUTE);
}
