/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Losses of links, with one warp per link. One block then adds the losses of the links. */
#include "codelets/kernel.cuh"

#include <math.h>

#include "codelets/loss.h"
#include "codelets/pairs.h"

/* Score j of the warp's link. All lanes get it. */
static __device__ double score_of(uint32_t n_columns, const sl_real *z, uint32_t j)
{
    const sl_real *b = z + (uint64_t)(j + 1) * n_columns;
    double sum = 0;
    for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
        sum += (double)z[c] * (double)b[c];
    }
    return sl_warp_sum(sum);
}

/* The binary loss of n scores, the first of a link. Scores become slopes. All lanes get the loss. */
static __device__ double lose_binary(uint32_t n, double *scores)
{
    double loss = 0;
    for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
        double s = scores[j];
        double t = exp(-fabs(s));
        double large = 1 / (1 + t); /* the larger of sigmoid(s) and sigmoid(-s) */
        double p = s >= 0 ? large : t * large;
        double q = s >= 0 ? t * large : large;
        loss += fmax(j == 0 ? -s : s, 0.0) + log1p(t);
        scores[j] = j == 0 ? -q : p;
    }
    return sl_warp_sum(loss);
}

static __device__ double lose_softmax(uint32_t n, double *scores)
{
    const double link = scores[0];
    double top = link;
    double sum = 0;
    for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
        top = scores[j] > top ? scores[j] : top;
    }
    top = sl_warp_max(top);
    for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
        sum += exp(scores[j] - top);
    }
    sum = sl_warp_sum(sum);
    for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
        scores[j] = exp(scores[j] - top) / sum - (j == 0 ? 1.0 : 0.0);
    }
    return log(sum) + top - link;
}

/* scores: [n_links x (k + 1)]. */
static __global__ void lose_links(struct sl_pairs pairs, const sl_real *z_all, double scale, double *scores_all,
                                  sl_real *gz_all, double *losses)
{
    const uint32_t n = pairs.n_negatives + 1;
    const uint32_t n_columns = pairs.n_columns;
    for (uint64_t i = sl_warp(); i < pairs.n_links; i += sl_n_warps()) {
        const sl_real *z = z_all + i * (n + 1) * n_columns;
        sl_real *gz = gz_all + i * (n + 1) * n_columns;
        double *scores = scores_all + i * n;
        for (uint32_t j = 0; j < n; j++) {
            double s = score_of(n_columns, z, j);
            if (sl_lane() == 0) {
                scores[j] = s;
            }
        }
        __syncwarp();
        double loss = pairs.loss == SL_PAIRS_BINARY ? lose_binary(n, scores) : lose_softmax(n, scores);
        __syncwarp();
        if (sl_lane() == 0) {
            losses[i] = loss;
        }
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            double sum = 0;
            for (uint32_t j = 0; j < n; j++) {
                const uint64_t at = (uint64_t)(j + 1) * n_columns + c;
                double slope = scale * scores[j];
                sum += slope * (double)z[at];
                gz[at] = (sl_real)(slope * (double)z[c]);
            }
            gz[c] = (sl_real)sum;
        }
    }
}

enum sl_status sl_pairs_cuda(cudaStream_t stream, const struct sl_pairs *pairs, const sl_real *z, double scale,
                             sl_real *gz_out, double *loss_out)
{
    const char *name = "sl_pairs";
    const size_t n_scores = (size_t)pairs->n_links * (pairs->n_negatives + 1);
    sl_scratch room(stream);
    enum sl_status st = room.take((n_scores + pairs->n_links) * sizeof(double), "scores of links");
    if (st == SL_OK) {
        st = sl_start(name, stream, sl_warp_blocks(pairs->n_links), lose_links, *pairs, z, scale, room.as<double>(),
                      gz_out, room.as<double>() + n_scores);
    }
    if (st == SL_OK) {
        st = sl_loss_add_up_cuda(stream, pairs->n_links, room.as<double>() + n_scores, scale, loss_out);
    }
    return st;
}
