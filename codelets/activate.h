/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 8, activate: H = dropout(ReLU(norm(Z))) (+ residual), chunk by chunk, and its adjoint.
 *   before: codelets/dense.h gives Z        after: the layer above (pack, aggregate, dense), or codelets/loss.h
 *
 *   none    y = z
 *   layer   y = w * (z - mean) / sqrt(var + eps) + b, mean and biased variance of the row, eps 1e-5 (Ba et al. 2016)
 *   batch   the same with mean and variance per column, from codelets/batchnorm.h (Ioffe, Szegedy 2015)
 *   h = gate * scale * y, gate = 1 where y > 0 and the entry is kept; scale of codelets/dropout.h;
 *   residual: h += r, r the same vertices' rows of the layer's input
 *
 *   backward: GY = GH * gate * scale; GZ by the norm's adjoint; GW, GB of the norm are column sums of GY * zhat and GY. Batch norm's
 *   are doubles, from the first addition on: rows that dropout has taken get their gradient from them alone, and in sl_real its
 *   digits would depend on how the rows are cut into chunks.
 *   The residual's adjoint, GR += GH, is sl_activate_residual_backward_submit.
 *
 * Rows are [D x F], row major; the gate is one byte an entry, written forward and read backward.
 */
#ifndef SL_CODELETS_ACTIVATE_H
#define SL_CODELETS_ACTIVATE_H

#include <math.h>

#include "codelets/rows.h"
#include "codelets/task.h"
#include "support/random.h"
#include "support/real.h"

#define SL_NORM_EPSILON 1e-5

enum sl_activate_norm { SL_ACTIVATE_PLAIN, SL_ACTIVATE_LAYER, SL_ACTIVATE_BATCH };

/* ---- arithmetic of one entry, host and device ---- */

/* Mean and 1 / deviation of a row (layer). */
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

/* y of layer and batch. */
static inline SL_HOST_DEVICE sl_real sl_activate_normalise(sl_real z, sl_real mean, sl_real rstd, sl_real weight,
                                                           sl_real bias)
{
    return weight * sl_activate_zhat(z, mean, rstd) + bias;
}

/* keep: 1 or 0. */
static inline SL_HOST_DEVICE uint8_t sl_activate_gate(uint8_t keep, sl_real y)
{
    return keep & (y > 0);
}

/* gate * scale * x, of Y and of GH alike. A product rather than a choice, so that an x that is not a number is seen in the
 * loss. */
static inline SL_HOST_DEVICE sl_real sl_activate_pass(uint8_t gate, sl_real scale, sl_real x)
{
    return (sl_real)gate * scale * x;
}

/* GZ of layer norm: a = w GY, mean that of a over the row, slope that of a * zhat. */
static inline SL_HOST_DEVICE sl_real sl_activate_layer_gz(struct sl_activate_row row, sl_real z, sl_real a,
                                                          sl_real mean, sl_real slope)
{
    return row.rstd * (a - mean - sl_activate_zhat(z, row.mean, row.rstd) * slope);
}

/* GZ of batch norm; slope and offset are the group's means of GY * zhat and GY. */
static inline SL_HOST_DEVICE sl_real sl_activate_batch_gz(sl_real weight, sl_real rstd, sl_real gy, sl_real zhat,
                                                          sl_real slope, sl_real offset)
{
    return weight * rstd * (gy - offset - zhat * slope);
}

/* Of a group's sum over n rows the mean. */
static inline SL_HOST_DEVICE sl_real sl_activate_batch_mean(double sum, uint64_t n)
{
    return (sl_real)(sum / (double)n);
}

/* ---- kernels ---- */

/* One chunk's operands. Pointers a norm does not need are NULL. */
struct sl_activate {
    uint32_t n_rows, n_columns;
    enum sl_activate_norm norm;
    const sl_real *weight, *bias; /* F each; layer and batch */
    const sl_real *mean, *rstd;   /* F each; batch */
    uint32_t threshold;           /* dropout, 0: none */
    struct sl_draw draw;          /* SL_FOR_DROPOUT, step, hop = level of these rows */
    const sl_vertex *ids;         /* D renumbered ids; only where threshold > 0 */
    const sl_vertex *dataset_ids; /* of all vertices; only where threshold > 0 */
};

/* residual [D x F] or NULL; h and gate are written. */
void sl_activate_forward_cpu(const struct sl_activate *a, const sl_real *z, const sl_real *residual, uint8_t *gate_out,
                             sl_real *h_out);

/* Column sums of GY * zhat and of GY: LAYER writes the chunk's, its partial GW and GB; BATCH reads the group's. Pointers a norm does
 * not need are NULL. */
struct sl_activate_sums {
    sl_real *gw, *gb;    /* F each; layer */
    const double *group; /* 2 F, [sum GY * zhat | sum GY]; batch */
    uint64_t n_group;    /* rows of the group; batch */
};

/* PLAIN, which reads no z, and LAYER: GZ from GH. BATCH, n = n_group: GZ = w * rstd * (GY - sum(GY) / n - zhat * sum(GY * zhat) / n). */
void sl_activate_backward_cpu(const struct sl_activate *a, const sl_real *z, const uint8_t *gate, const sl_real *gh,
                              const struct sl_activate_sums *sums, sl_real *gz_out);

/* BATCH: this chunk's share of [sum GY * zhat | sum GY], 2 F, overwritten. */
void sl_activate_batch_sums_cpu(const struct sl_activate *a, const sl_real *z, const uint8_t *gate, const sl_real *gh,
                                double *sums_out);

/* GR[row0 + i] += GH[i]. */
void sl_activate_residual_backward_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *gh, sl_real *gr);

#ifdef SL_CUDA
/* The same on the stream's device; all pointers, those in *a and *sums too, are to its memory. Sums along rows and columns are taken
 * in another order than on the CPU, always the same one. h_of: H and the residual; z_of may be bf16 where h_of is and there is no norm.
 * SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_activate_forward_cuda(cudaStream_t stream, const struct sl_activate *a,
                                                    enum sl_dtype z_dtype, const void *z, const void *residual,
                                                    uint8_t *gate_out, enum sl_dtype h_dtype, void *h_out);
SL_EXTERN_C enum sl_status sl_activate_backward_cuda(cudaStream_t stream, const struct sl_activate *a, const sl_real *z,
                                                     const uint8_t *gate, const sl_real *gh,
                                                     const struct sl_activate_sums *sums, sl_real *gz_out);
SL_EXTERN_C enum sl_status sl_activate_batch_sums_cuda(cudaStream_t stream, const struct sl_activate *a,
                                                       const sl_real *z, const uint8_t *gate, const sl_real *gh,
                                                       double *sums_out);
SL_EXTERN_C enum sl_status sl_activate_residual_backward_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                                              const sl_real *gh, sl_real *gr);
#endif

/* ---- submissions: local, one thread submits. SL_EINVAL on shapes, SL_ESTARPU, SL_ENOMEM. ---- */

/* The layer's constants and read-only handles; NULL where not needed. */
struct sl_activate_layer {
    enum sl_activate_norm norm;
    double dropout;
    uint64_t seed;
    starpu_data_handle_t weight, bias; /* 1 x F */
    starpu_data_handle_t statistics;   /* 2 x F: mean row, rstd row; batch */
    starpu_data_handle_t frontier;     /* this PE's ids; dropout */
    starpu_data_handle_t dataset_ids;  /* dropout */
};

/* z, h: chunk [D x F]; gate: chunk [D x F] of bytes; its rows are rows row0 .. of the frontier. residual: chunk of the level
 * above whose rows residual_row0 .. are the same vertices, or NULL; h and the residual may be of bf16, both of them, and then z,
 * too, where there is no norm. head->hop is the level of these rows. */
enum sl_status sl_activate_forward_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                          uint32_t row0, starpu_data_handle_t z, starpu_data_handle_t residual,
                                          uint32_t residual_row0, starpu_data_handle_t gate, starpu_data_handle_t h);

/* struct sl_activate_sums in StarPU's hands. */
struct sl_activate_sums_handles {
    starpu_data_handle_t gw, gb; /* 1 x F, written; layer */
    starpu_data_handle_t group;  /* 2 x F doubles; batch */
    uint64_t n_group;            /* rows of the group; batch */
};

/* z may be NULL where there is no norm. */
enum sl_status sl_activate_backward_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                           starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                                           const struct sl_activate_sums_handles *sums, starpu_data_handle_t gz);

enum sl_status sl_activate_batch_sums_submit(const struct sl_task_args *head, const struct sl_activate_layer *layer,
                                             starpu_data_handle_t z, starpu_data_handle_t gate, starpu_data_handle_t gh,
                                             starpu_data_handle_t sums);

enum sl_status sl_activate_residual_backward_submit(const struct sl_task_args *head, starpu_data_handle_t gh,
                                                    starpu_data_handle_t gr, uint32_t row0);

#endif
