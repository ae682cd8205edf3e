/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Losses of links, with one warp per link. One block then adds the losses of the links. mlp multiplies the products of
 * all links at once. */
#include "codelets/kernel.cuh"

#include <math.h>

#include "codelets/loss.h"
#include "codelets/pairs.h"

/* The weights of link i, or NULL. */
static inline __device__ const sl_real *link_weights(const struct sl_pairs &pairs, uint64_t i)
{
    return sl_decoder_row(&pairs.decoder, pairs.relations == NULL ? 0 : pairs.relations[i]);
}

/* The score of two rows. All lanes get it. */
static __device__ double score_of(uint32_t n_columns, const sl_real *weights, const sl_real *a, const sl_real *b)
{
    double sum = 0;
    for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
        const double product = (double)a[c] * (double)b[c];
        sum += weights == NULL ? product : (double)weights[c] * product;
    }
    return sl_warp_sum(sum);
}

/* scores: [n_links x (k + 1)]. */
static __global__ void score_links(struct sl_pairs pairs, const sl_real *z_all, double *scores)
{
    const uint32_t n = pairs.n_negatives + 1;
    const uint32_t n_columns = pairs.n_columns;
    for (uint64_t i = sl_warp(); i < pairs.n_links; i += sl_n_warps()) {
        const sl_real *z = z_all + i * (n + 1) * n_columns;
        for (uint32_t j = 0; j < n; j++) {
            const sl_real *beside = z + (uint64_t)sl_pairs_beside(&pairs, j) * n_columns;
            double s = score_of(n_columns, link_weights(pairs, i), beside, z + (uint64_t)(j + 1) * n_columns);
            if (sl_lane() == 0) {
                scores[i * n + j] = s;
            }
        }
    }
}

/* ---- mlp ---- */

/* x: [n_links (k + 1) x n_columns], the products of each score. */
static __global__ void multiply_rows(struct sl_pairs pairs, const sl_real *z_all, sl_real *x)
{
    const uint32_t n = pairs.n_negatives + 1;
    const uint32_t n_columns = pairs.n_columns;
    for (uint64_t e = sl_thread(); e < (uint64_t)pairs.n_links * n * n_columns; e += sl_n_threads()) {
        const uint64_t row = e / n_columns;
        const uint32_t c = e % n_columns;
        const uint32_t j = row % n;
        const sl_real *z = z_all + row / n * (n + 1) * n_columns;
        x[e] = z[(uint64_t)sl_pairs_beside(&pairs, j) * n_columns + c] * z[(uint64_t)(j + 1) * n_columns + c];
    }
}

/* t: x W + b becomes its positive part. */
static __global__ void score_hidden(struct sl_pairs pairs, uint64_t n_rows, sl_real *t, double *scores)
{
    const uint32_t n_columns = pairs.n_columns;
    for (uint64_t i = sl_warp(); i < n_rows; i += sl_n_warps()) {
        sl_real *row = t + i * n_columns;
        double sum = 0;
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            row[c] = row[c] <= 0 ? 0 : row[c];
            sum += (double)row[c] * (double)pairs.decoder.array[SL_MLP_V][c];
        }
        sum = sl_warp_sum(sum) + (double)pairs.decoder.array[SL_MLP_C][0];
        if (sl_lane() == 0) {
            scores[i] = sum;
        }
    }
}

static __global__ void round_slopes(uint64_t n, const double *slopes, sl_real *out)
{
    for (uint64_t i = sl_thread(); i < n; i += sl_n_threads()) {
        out[i] = (sl_real)slopes[i];
    }
}

/* t becomes the gradient of x W + b. */
static __global__ void back_hidden(struct sl_pairs pairs, uint64_t n_rows, const double *slopes, sl_real *t)
{
    const uint32_t n_columns = pairs.n_columns;
    for (uint64_t e = sl_thread(); e < n_rows * n_columns; e += sl_n_threads()) {
        const double v = (double)pairs.decoder.array[SL_MLP_V][e % n_columns];
        t[e] = t[e] == 0 ? 0 : (sl_real)(slopes[e / n_columns] * v);
    }
}

/* ---- losses ---- */

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

/* Scores become scaled slopes. */
static __global__ void lose_links(struct sl_pairs pairs, double scale, double *scores_all, double *losses)
{
    const uint32_t n = pairs.n_negatives + 1;
    for (uint64_t i = sl_warp(); i < pairs.n_links; i += sl_n_warps()) {
        double *scores = scores_all + i * n;
        double loss = pairs.loss == SL_PAIRS_BINARY ? lose_binary(n, scores) : lose_softmax(n, scores);
        __syncwarp();
        for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
            scores[j] *= scale;
        }
        if (sl_lane() == 0) {
            losses[i] = loss;
        }
    }
}

/* The gradients of the rows. gx: mlp's gradients of the products, else NULL. */
static __global__ void spread_links(struct sl_pairs pairs, const sl_real *z_all, const double *slopes_all,
                                    const sl_real *gx, sl_real *gz_all)
{
    const uint32_t n = pairs.n_negatives + 1;
    const uint32_t n_columns = pairs.n_columns;
    for (uint64_t i = sl_warp(); i < pairs.n_links; i += sl_n_warps()) {
        const sl_real *z = z_all + i * (n + 1) * n_columns;
        const sl_real *weights = gx == NULL ? link_weights(pairs, i) : NULL;
        sl_real *gz = gz_all + i * (n + 1) * n_columns;
        for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
            double ends[2] = {0, 0};
            for (uint32_t j = 0; j < n; j++) {
                const uint32_t m = sl_pairs_beside(&pairs, j);
                const uint64_t at = (uint64_t)(j + 1) * n_columns + c;
                const double a = (double)z[(uint64_t)m * n_columns + c];
                double slope = slopes_all[i * n + j];
                if (gx != NULL) {
                    slope = (double)gx[(i * n + j) * n_columns + c];
                } else if (weights != NULL) {
                    slope *= (double)weights[c];
                }
                ends[m] += slope * (double)z[at];
                if (j == 0) {
                    ends[1] += slope * a;
                } else {
                    gz[at] = (sl_real)(slope * a);
                }
            }
            gz[c] = (sl_real)ends[0];
            gz[n_columns + c] = (sl_real)ends[1];
        }
    }
}

/* The gradient of R, one thread for each entry: it adds the links of its relation in their order. */
static __global__ void gather_relations(struct sl_pairs pairs, const sl_real *z_all, const double *slopes, sl_real *gr)
{
    const uint32_t n = pairs.n_negatives + 1;
    const uint32_t n_columns = pairs.n_columns;
    for (uint64_t e = sl_thread(); e < (uint64_t)pairs.decoder.n_relations * n_columns; e += sl_n_threads()) {
        const uint32_t relation = e / n_columns;
        const uint32_t c = e % n_columns;
        double sum = 0;
        for (uint64_t i = 0; i < pairs.n_links; i++) {
            if (relation != (pairs.relations == NULL ? 0 : pairs.relations[i])) {
                continue;
            }
            const sl_real *z = z_all + i * (n + 1) * n_columns;
            for (uint32_t j = 0; j < n; j++) {
                const double a = (double)z[(uint64_t)sl_pairs_beside(&pairs, j) * n_columns + c];
                sum += slopes[i * n + j] * (a * (double)z[(uint64_t)(j + 1) * n_columns + c]);
            }
        }
        gr[e] = (sl_real)sum;
    }
}

/* mlp: rows x and t of the scores, and gx. */
struct hidden {
    sl_real *x, *t, *gx;
};

static enum sl_status mlp_forward(const struct sl_dense_cuda &blas, const struct sl_pairs &pairs, const sl_real *z,
                                  const struct hidden &rows, double *scores)
{
    const uint32_t h = pairs.n_columns;
    const uint32_t n = pairs.n_links * (pairs.n_negatives + 1);
    const sl_real *const *array = pairs.decoder.array;
    const char *name = "sl_pairs";
    enum sl_status st;
    SL_TRY(st, sl_start(name, blas.stream, sl_blocks((uint64_t)n * h), multiply_rows, pairs, z, rows.x), done);
    SL_TRY(st, sl_dense_forward_cuda(blas, n, h, h, rows.x, array[SL_MLP_W], array[SL_MLP_B], 0, SL_DTYPE_REAL, rows.t),
           done);
    st = sl_start(name, blas.stream, sl_warp_blocks(n), score_hidden, pairs, n, rows.t, scores);
done:
    return st;
}

/* gx holds the slopes first. */
static enum sl_status mlp_back(const struct sl_dense_cuda &blas, const struct sl_pairs &pairs, const double *slopes,
                               const struct hidden &rows, sl_real *const *gradient)
{
    const uint32_t h = pairs.n_columns;
    const uint32_t n = pairs.n_links * (pairs.n_negatives + 1);
    const char *name = "sl_pairs";
    enum sl_status st;
    SL_TRY(st, sl_start(name, blas.stream, sl_blocks(n), round_slopes, n, slopes, rows.gx), done);
    SL_TRY(st, sl_dense_backward_weight_cuda(blas, n, h, 1, rows.t, rows.gx, gradient[SL_MLP_V], gradient[SL_MLP_C]),
           done);
    SL_TRY(st, sl_start(name, blas.stream, sl_blocks((uint64_t)n * h), back_hidden, pairs, n, slopes, rows.t), done);
    SL_TRY(st, sl_dense_backward_weight_cuda(blas, n, h, h, rows.x, rows.t, gradient[SL_MLP_W], gradient[SL_MLP_B]),
           done);
    st = sl_dense_backward_input_cuda(blas, n, h, h, rows.t, pairs.decoder.array[SL_MLP_W], 0, rows.gx);
done:
    return st;
}

enum sl_status sl_pairs_cuda(struct sl_dense_cuda blas, const struct sl_pairs *pairs, const sl_real *z, double scale,
                             const struct sl_pairs_out *out)
{
    const char *name = "sl_pairs";
    const bool mlp = pairs->decoder.name == SL_DECODER_MLP;
    const size_t n_scores = (size_t)pairs->n_links * (pairs->n_negatives + 1);
    const size_t n_entries = mlp ? n_scores * pairs->n_columns : 0;
    struct hidden rows = {NULL, NULL, NULL};
    sl_scratch room(blas.stream);
    sl_scratch hidden(blas.stream);
    enum sl_status st;
    double *scores;
    SL_TRY(st, room.take((n_scores + pairs->n_links) * sizeof(double), "scores of links"), done);
    scores = room.as<double>();
    if (mlp) {
        SL_TRY(st, hidden.take(3 * n_entries * sizeof(sl_real), "hidden rows of links"), done);
        rows = {hidden.as<sl_real>(), hidden.as<sl_real>() + n_entries, hidden.as<sl_real>() + 2 * n_entries};
        SL_TRY(st, mlp_forward(blas, *pairs, z, rows, scores), done);
    } else {
        SL_TRY(st, sl_start(name, blas.stream, sl_warp_blocks(pairs->n_links), score_links, *pairs, z, scores), done);
    }
    SL_TRY(st,
           sl_start(name, blas.stream, sl_warp_blocks(pairs->n_links), lose_links, *pairs, scale, scores,
                    scores + n_scores),
           done);
    SL_TRY(st, sl_loss_add_up_cuda(blas.stream, pairs->n_links, scores + n_scores, scale, out->loss), done);
    if (mlp) {
        SL_TRY(st, mlp_back(blas, *pairs, scores, rows, out->gradient), done);
    }
    if (pairs->decoder.name == SL_DECODER_DISTMULT) {
        SL_TRY(st,
               sl_start(name, blas.stream, sl_blocks((uint64_t)pairs->decoder.n_relations * pairs->n_columns),
                        gather_relations, *pairs, z, scores, out->gradient[SL_DISTMULT_R]),
               done);
    }
    st = sl_start(name, blas.stream, sl_warp_blocks(pairs->n_links), spread_links, *pairs, z, scores, rows.gx, out->gz);
done:
    return st;
}
