/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Losses entry by entry, with one warp per row. One block then adds the losses of the rows. */
#include "codelets/kernel.cuh"

#include <math.h>

#include "codelets/entryloss.h"
#include "codelets/loss.h"

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

static __global__ void lose_rows(uint32_t n_rows, uint32_t n_columns, const sl_real *z, struct sl_entries entries,
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

enum sl_status sl_entryloss_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns, const sl_real *z,
                                 const struct sl_entries *entries, double scale, sl_real *gz_out, double *loss_out)
{
    const char *name = "sl_entryloss";
    sl_scratch losses(stream);
    enum sl_status st = losses.take((size_t)n_rows * sizeof(double), "the rows' losses");
    if (st == SL_OK) {
        st = sl_start(name, stream, sl_warp_blocks(n_rows), lose_rows, n_rows, n_columns, z, *entries, scale, gz_out,
                      losses.as<double>());
    }
    if (st == SL_OK) {
        st = sl_loss_add_up_cuda(stream, n_rows, losses.as<double>(), scale, loss_out);
    }
    return st;
}
