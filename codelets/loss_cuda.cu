/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Softmax cross entropy, and losses entry by entry, with one warp per row. One block then adds the losses of the rows.
 */
#include "codelets/kernel.cuh"

#include <math.h>

#include "codelets/loss.h"
#include "support/exp.h"

/* The row's largest logit; all lanes get it. */
static __device__ sl_real largest(uint32_t n, const sl_real *z)
{
    sl_real top = -INFINITY;
    for (uint32_t c = sl_lane(); c < n; c += SL_WARP) {
        top = z[c] > top ? z[c] : top;
    }
    return sl_warp_max(top);
}

/* Write gz of one row. All lanes get the row's unscaled loss. A lane reads and writes only its own columns of gz. */
static __device__ double loss_row(uint32_t n_classes, const sl_real *__restrict__ z, uint32_t label, double scale,
                                  sl_real *__restrict__ gz)
{
    sl_real top = largest(n_classes, z);
    double sum = 0;
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        gz[c] = sl_exp_nonpositive(z[c] - top);
        sum += (double)gz[c];
    }
    sum = sl_warp_sum(sum);
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        gz[c] = c == label ? (sl_real)(scale * ((double)gz[c] / sum - 1)) : gz[c] * (sl_real)(scale / sum);
    }
    return log(sum) + (double)top - (double)z[label];
}

static __device__ double weight_of(const struct sl_labels *labels, uint32_t c)
{
    return labels->weights != NULL ? (double)labels->weights[c] : 1;
}

/* The same with class weights and smoothing. */
static __device__ double weighed_row(uint32_t n_classes, const sl_real *__restrict__ z, uint32_t label,
                                     const struct sl_labels *labels, double scale, sl_real *__restrict__ gz)
{
    sl_real top = largest(n_classes, z);
    double own = (1 - labels->smoothing) * weight_of(labels, label);
    double each = labels->smoothing / n_classes;
    double sum = 0;
    double all = 0;
    double rest = 0; /* sum over c of weight times (top - z) */
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        double weight = each * weight_of(labels, c);
        gz[c] = sl_exp_nonpositive(z[c] - top);
        sum += (double)gz[c];
        all += weight;
        rest += weight * ((double)top - (double)z[c]);
    }
    sum = sl_warp_sum(sum);
    all = sl_warp_sum(all);
    rest = sl_warp_sum(rest);
    for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
        double target = each * weight_of(labels, c) + (c == label ? own : 0);
        gz[c] = (sl_real)(scale * ((all + own) * ((double)gz[c] / sum) - target));
    }
    return (all + own) * log(sum) + rest + own * ((double)top - (double)z[label]);
}

static __global__ void lose_classes(uint32_t n_rows, uint32_t n_classes, const sl_real *z, struct sl_labels labels,
                                    double scale, sl_real *gz, double *losses)
{
    bool plain = labels.weights == NULL && labels.smoothing == 0;
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        int32_t label = labels.part_labels[labels.ids[i] - labels.first];
        double loss = 0;
        if (label >= 0 && !plain) {
            loss = weighed_row(n_classes, z + i * n_classes, (uint32_t)label, &labels, scale, gz + i * n_classes);
        } else if (label >= 0) {
            loss = loss_row(n_classes, z + i * n_classes, (uint32_t)label, scale, gz + i * n_classes);
        } else {
            for (uint32_t c = sl_lane(); c < n_classes; c += SL_WARP) {
                gz[i * n_classes + c] = 0;
            }
        }
        if (sl_lane() == 0) {
            losses[i] = loss;
        }
    }
}

/* l of one entry; *slope_out gets dl/dz. */
static __device__ double lose_entry(enum sl_entry_loss kind, double z, double y, double weight, double *slope_out)
{
    double off = z - y;
    if (kind == SL_ENTRY_SQUARED) {
        *slope_out = 2 * off;
        return off * off;
    }
    if (kind == SL_ENTRY_ABSOLUTE) {
        *slope_out = off != off ? off : (double)((off > 0) - (off < 0));
        return fabs(off);
    }
    double t = exp(-fabs(z));
    double log_part = log1p(t);
    double large = 1 / (1 + t); /* the larger of sigmoid(z) and sigmoid(-z) */
    double small = t * large;
    double yes = weight * y;
    double no = 1 - y;
    *slope_out = no * (z >= 0 ? large : small) - yes * (z >= 0 ? small : large);
    return yes * (fmax(-z, 0.0) + log_part) + no * (fmax(z, 0.0) + log_part);
}

static __global__ void lose_entries(uint32_t n_rows, uint32_t n_columns, const sl_real *z, struct sl_entries entries,
                                    double scale, sl_real *gz, double *losses)
{
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        const float *y = entries.part_targets + (uint64_t)(entries.ids[i] - entries.first) * n_columns;
        double loss = 0;
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            double slope = 0;
            if (y[c] == y[c]) {
                double weight = entries.weights != NULL ? (double)entries.weights[c] : 1;
                loss += lose_entry(entries.kind, (double)z[i * n_columns + c], (double)y[c], weight, &slope);
            }
            gz[i * n_columns + c] = (sl_real)(scale * slope);
        }
        loss = sl_warp_sum(loss);
        if (sl_lane() == 0) {
            losses[i] = loss;
        }
    }
}

/* Launched with one block. Each thread adds some rows, then the threads add pairwise; exactly (codelets/loss.h). */
static __global__ void sum_losses(uint32_t n_rows, const double *losses, double scale, double *sum_out)
{
    __shared__ double sums[SL_THREADS];
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < n_rows; i += SL_THREADS) {
        sum += sl_loss_share(scale * losses[i]);
    }
    sums[threadIdx.x] = sum;
    for (uint32_t half = SL_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        *sum_out = sums[0];
    }
}

enum sl_status sl_loss_add_up_cuda(cudaStream_t stream, uint32_t n_rows, const double *losses, double scale,
                                   double *loss_out)
{
    return sl_start("sl_loss", stream, 1, sum_losses, n_rows, losses, scale, loss_out);
}

/* Start `lose_rows`, which writes a loss of each row, then add up. */
template <typename Start>
static enum sl_status lose(cudaStream_t stream, uint32_t n_rows, double scale, double *loss_out, Start lose_rows)
{
    sl_scratch losses(stream);
    enum sl_status st = losses.take((size_t)n_rows * sizeof(double), "the rows' losses");
    if (st == SL_OK) {
        st = lose_rows(losses.as<double>());
    }
    if (st == SL_OK) {
        st = sl_loss_add_up_cuda(stream, n_rows, losses.as<double>(), scale, loss_out);
    }
    return st;
}

enum sl_status sl_loss_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_classes, const sl_real *z,
                            const struct sl_labels *labels, double scale, sl_real *gz_out, double *loss_out)
{
    return lose(stream, n_rows, scale, loss_out, [&](double *losses) {
        return sl_start("sl_loss", stream, sl_warp_blocks(n_rows), lose_classes, n_rows, n_classes, z, *labels, scale,
                        gz_out, losses);
    });
}

enum sl_status sl_entryloss_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, const sl_real *z,
                                 const struct sl_entries *entries, double scale, sl_real *gz_out, double *loss_out)
{
    return lose(stream, n_rows, scale, loss_out, [&](double *losses) {
        return sl_start("sl_entryloss", stream, sl_warp_blocks(n_rows), lose_entries, n_rows, n_columns, z, *entries,
                        scale, gz_out, losses);
    });
}
