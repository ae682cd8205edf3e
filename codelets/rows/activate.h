/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Activate: H = dropout(f(norm(Z))) (+ residual), chunk by chunk, and its adjoint. f is an activation, as PyTorch's.
 *   before: dense.h gives Z        after: the layer above (pack, aggregate, dense), or codelets/ends/loss.h
 *
 *   none      y = z.
 *   layer     y = w * (z - mean) / sqrt(var + eps) + b. Mean and biased variance of the row. eps 1e-5 (Ba et al. 2016).
 *   batch     the same formula. Mean and variance of the column, from batchnorm.h (Ioffe, Szegedy 2015).
 *
 *   ReLU      f(y) = y if y > 0, else 0.
 *   ELU       f(y) = y if y > 0, else exp(y) - 1 (Clevert et al. 2016).
 *   GELU      f(y) = y Phi(y). Phi is the normal distribution function (Hendrycks, Gimpel 2016).
 *   leaky     f(y) = y if y > 0, else y / 100 (Maas et al. 2013).
 *   identity  f(y) = y. For rows that are activated already.
 *
 *   all       h = keep * scale * f(y). keep is 1 if dropout keeps the entry, else 0. dropout.h gives scale.
 *             gate = keep * f'(y).
 *   residual  h += r. r is the input row of the layer for the same vertex.
 *
 *   backward  GY = GH * gate * scale. GZ is the adjoint of the norm. The norm's GW is the column sums of GY * zhat, and
 *             its GB those of GY.
 *   residual  GR += GH, a blend (blend.h).
 *
 * Batch norm sums in double from the first addition on. In sl_real the digits of the sums would depend on the cut into
 * chunks. This matters for a row that dropout cleared, because its gradient comes from these sums alone.
 *
 * Rows are [D x F], row-major, and the gate, too: forward writes it, backward reads it. Of ReLU and the identity it has
 * one byte per entry, of the other activations an sl_real.
 */
#ifndef SL_CODELETS_ACTIVATE_H
#define SL_CODELETS_ACTIVATE_H

#include <math.h>

#include "support/dtype.h"
#include "support/exp.h"
#include "support/random.h"
#include "support/real.h"
#include "tasks/rows.h"
#include "tasks/task.h"

#define SL_NORM_EPSILON 1e-5

enum sl_activate_norm { SL_ACTIVATE_PLAIN, SL_ACTIVATE_LAYER, SL_ACTIVATE_BATCH };

/* In the order of the choices of --activation; the identity is none of them. */
enum sl_activate_kind {
    SL_ACTIVATE_RELU,
    SL_ACTIVATE_ELU,
    SL_ACTIVATE_GELU,
    SL_ACTIVATE_LEAKY_RELU,
    SL_ACTIVATE_IDENTITY
};

/* The dtype of the gate. */
static inline enum sl_dtype sl_activate_gate_dtype(enum sl_activate_kind kind)
{
    return kind == SL_ACTIVATE_RELU || kind == SL_ACTIVATE_IDENTITY ? SL_DTYPE_U8 : SL_DTYPE_REAL;
}

/* ---- arithmetic of one entry, host and device ---- */

/* Mean and 1 / standard deviation of a row (layer norm). */
struct sl_activate_row {
    sl_real mean, rstd;
};

static inline SL_HOST_DEVICE struct sl_activate_row sl_activate_row(sl_real mean, sl_real variance)
{
    struct sl_activate_row row = {mean, 1 / (sl_real)sqrt((double)variance + SL_NORM_EPSILON)};
    return row;
}

static inline SL_HOST_DEVICE sl_real sl_activate_zhat(sl_real z, sl_real mean, sl_real rstd)
{
    return (z - mean) * rstd;
}

/* y of layer and batch norm. */
static inline SL_HOST_DEVICE sl_real sl_activate_normalise(sl_real z, sl_real mean, sl_real rstd, sl_real weight,
                                                           sl_real bias)
{
    return weight * sl_activate_zhat(z, mean, rstd) + bias;
}

/* A gate of one byte. keep: 1 or 0. open: 1 for the identity, else 0. */
static inline SL_HOST_DEVICE uint8_t sl_activate_gate(uint8_t keep, uint8_t open, sl_real y)
{
    return keep & ((y > 0) | open);
}

/* gate * scale * x; x is an entry of GH, or of Y or f(Y). A product, not a choice: if x is NaN the loss shows it. */
static inline SL_HOST_DEVICE sl_real sl_activate_pass(sl_real gate, sl_real scale, sl_real x)
{
    return gate * scale * x;
}

/* Phi(y). In float to 2e-7, by a fraction (Press et al., "Numerical Recipes", 1992) that compilers can vectorise. */
static inline SL_HOST_DEVICE sl_real sl_activate_normal(sl_real y)
{
#ifdef SL_REAL_DOUBLE
    return 0.5 * erfc(-y * 0.70710678118654752);
#else
    const float z = fabsf(y) * 0.70710678f;
    const float t = 1 / (1 + 0.5f * z);
    float p = 0.17087277f;
    p = p * t - 0.82215223f;
    p = p * t + 1.48851587f;
    p = p * t - 1.13520398f;
    p = p * t + 0.27886807f;
    p = p * t - 0.18628806f;
    p = p * t + 0.09678418f;
    p = p * t + 0.37409196f;
    p = p * t + 1.00002368f;
    p = p * t - 1.26551223f;
    p -= z * z;
    const float tail = 0.5f * t * sl_exp_nonpositive(p > 0 ? 0 : p);
    return y > 0 ? 1 - tail : tail;
#endif
}

/* f(y) and f'(y) of an activation whose gate is an sl_real. Like PyTorch, f'(0) is that of y < 0. */
struct sl_activate_curve {
    sl_real value, slope;
};

static inline SL_HOST_DEVICE struct sl_activate_curve sl_activate_curve(enum sl_activate_kind kind, sl_real y)
{
    struct sl_activate_curve curve = {y, 1};
    if (kind == SL_ACTIVATE_GELU) {
        const sl_real below = sl_activate_normal(y);
        curve.value = y * below;
        curve.slope = below + y * (sl_real)0.39894228040143268 * sl_exp_nonpositive(y * y * (sl_real)-0.5);
    } else if (kind == SL_ACTIVATE_ELU) {
        const sl_real exponential = sl_exp_nonpositive(y > 0 ? 0 : y);
        curve.value = y > 0 ? y : exponential - 1;
        curve.slope = exponential;
    } else {
        curve.slope = y > 0 ? 1 : (sl_real)0.01;
        curve.value = y * curve.slope;
    }
    return curve;
}

/* GZ of layer norm. a = w GY; mean is the row mean of a, slope the row mean of a * zhat. */
static inline SL_HOST_DEVICE sl_real sl_activate_layer_gz(struct sl_activate_row row, sl_real z, sl_real a,
                                                          sl_real mean, sl_real slope)
{
    return row.rstd * (a - mean - sl_activate_zhat(z, row.mean, row.rstd) * slope);
}

/* GZ of batch norm. slope and offset are the group's means of GY * zhat and of GY. */
static inline SL_HOST_DEVICE sl_real sl_activate_batch_gz(sl_real weight, sl_real rstd, sl_real gy, sl_real zhat,
                                                          sl_real slope, sl_real offset)
{
    return weight * rstd * (gy - offset - zhat * slope);
}

/* The mean of n rows, from their sum. */
static inline SL_HOST_DEVICE sl_real sl_activate_batch_mean(double sum, uint64_t n)
{
    return (sl_real)(sum / (double)n);
}

/* ---- kernels. Row and column sums have a fixed order, on a GPU another than on a CPU ---- */

/* Operands of one chunk [D x F]. A pointer is NULL if the norm does not need it. */
struct sl_activate {
    uint32_t n_rows, n_columns;
    enum sl_activate_norm norm;
    enum sl_activate_kind kind;
    const sl_real *weight, *bias; /* F each; layer and batch */
    const sl_real *mean, *rstd;   /* F each; batch */
    uint32_t threshold;           /* dropout; 0: none */
    struct sl_draw draw;          /* SL_FOR_DROPOUT, step, hop = level of the rows */
    const sl_vertex *ids;         /* D renumbered ids; read if threshold > 0 */
    const sl_vertex *dataset_ids; /* by renumbered id, all vertices; read if threshold > 0 */
};

/* Writes gate and h. residual: [D x F], or NULL. */
void sl_activate_forward_cpu(const struct sl_activate *a, const sl_real *z, const sl_real *residual, void *gate_out,
                             sl_real *h_out);

/* The same for rows of other dtypes. h_dtype: of H and of the residual. z may be bf16 if h is bf16 and there is no
 * norm. SL_ENOMEM. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_activate_forward_rows, const struct sl_activate *a, enum sl_dtype z_dtype,
                    const void *z, const void *residual, void *gate_out, enum sl_dtype h_dtype, void *h_out);

/* Column sums of GY * zhat and of GY. LAYER writes the chunk's sums, its partial GW and GB. BATCH reads the group's
 * sums. A pointer is NULL if the norm does not need it. */
struct sl_activate_sums {
    sl_real *gw, *gb;    /* F each; layer */
    const double *group; /* 2 F, [sum GY * zhat | sum GY]; batch */
    uint64_t n_group;    /* rows of the group; batch */
};

/* GZ from GH. PLAIN reads no z. BATCH, with n = n_group: GZ = w * rstd * (GY - sum(GY) / n - zhat * sum(GY * zhat) /
 * n). */
SL_DECLARE_LAUNCHER(void, sl_activate_backward, const struct sl_activate *a, const sl_real *z, const void *gate,
                    const sl_real *gh, const struct sl_activate_sums *sums, sl_real *gz_out);

/* BATCH: overwrites sums_out, 2 F, with the chunk's part of [sum GY * zhat | sum GY]. */
SL_DECLARE_LAUNCHER(void, sl_activate_batch_sums, const struct sl_activate *a, const sl_real *z, const void *gate,
                    const sl_real *gh, double *sums_out);

/* ---- submissions: local, one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* Constants and read-only handles of a layer. A handle is NULL if the layer does not need it. */
struct sl_activate_layer {
    enum sl_activate_norm norm;
    enum sl_activate_kind kind;
    double dropout;
    uint64_t seed;
    starpu_data_handle_t weight, bias; /* 1 x F */
    starpu_data_handle_t statistics;   /* 2 x F: mean row, rstd row; batch */
    starpu_data_handle_t frontier;     /* ids of the PE; dropout */
    starpu_data_handle_t dataset_ids;  /* dropout */
};

/* Local. z and h are chunks [D x F], gate a chunk [D x F] of sl_activate_gate_dtype. The chunk begins at row row0 of
 * the frontier; head->hop is its level. residual: NULL, or a chunk of the level above, whose row residual_row0 + i is
 * the vertex of row i. h and the residual are both sl_real or both bf16. If they are bf16 and there is no norm, z may
 * be bf16 too. */
enum sl_status sl_activate_forward_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                          uint32_t row0, starpu_data_handle_t z, starpu_data_handle_t residual,
                                          uint32_t residual_row0, starpu_data_handle_t gate, starpu_data_handle_t h);

/* struct sl_activate_sums as handles. */
struct sl_activate_sums_handles {
    starpu_data_handle_t gw, gb; /* 1 x F for each segment of head->runs, written; layer */
    starpu_data_handle_t group;  /* 2 x F doubles; batch */
    uint64_t n_group;            /* rows of the group; batch */
};

/* z may be NULL if there is no norm. */
enum sl_status sl_activate_backward_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                           starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                                           const struct sl_activate_sums_handles *sums, starpu_data_handle_t gz);

enum sl_status sl_activate_batch_sums_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                             starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                                             starpu_data_handle_t sums);

#endif
