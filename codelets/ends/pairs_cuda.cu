/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Losses of links, with one warp per link. One block then adds the losses of the links. mlp multiplies the products of
 * all links at once. distmult adds the links' gradients of a relation with one block per relation. */
#include "codelets/kernel.cuh"

#include "codelets/ends/loss.h"
#include "codelets/ends/pairs.h"

/* scores: [n_links x (k + 1)]. */
static __global__ void score_links(struct sl_pairs pairs, const sl_real *z_all, double *scores)
{
    const uint32_t n = pairs.n_negatives + 1;
    const uint32_t n_columns = pairs.n_columns;
    for (uint64_t i = sl_warp(); i < pairs.n_links; i += sl_n_warps()) {
        const sl_real *z = z_all + i * (n + 1) * n_columns;
        for (uint32_t j = 0; j < n; j++) {
            const sl_real *beside = z + (uint64_t)sl_pairs_beside(&pairs, j) * n_columns;
            double s = sl_link_score(n_columns, sl_link_weights(&pairs, i), beside, z + (uint64_t)(j + 1) * n_columns);
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

/* Scores become scaled slopes. */
static __global__ void lose_links(struct sl_pairs pairs, double scale, double *scores_all, double *losses)
{
    const uint32_t n = pairs.n_negatives + 1;
    for (uint64_t i = sl_warp(); i < pairs.n_links; i += sl_n_warps()) {
        double *scores = scores_all + i * n;
        double loss = pairs.loss == SL_PAIRS_BINARY ? sl_link_binary(n, scores) : sl_link_softmax(n, scores);
        __syncwarp();
        for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
            scores[j] *= scale;
        }
        if (sl_lane() == 0) {
            losses[i] = loss;
        }
    }
}

/* The gradients of the rows. gx: mlp's gradients of the products, else NULL. gr [n_links x n_columns]: each link's term
 * of the gradient of R, or NULL. */
static __global__ void spread_links(struct sl_pairs pairs, const sl_real *z, const double *slopes, const sl_real *gx,
                                    sl_real *gz, double *gr)
{
    const uint32_t n = pairs.n_negatives + 1;
    const size_t n_columns = pairs.n_columns;
    for (uint64_t i = sl_warp(); i < pairs.n_links; i += sl_n_warps()) {
        const size_t row = i * (n + 1) * n_columns;
        sl_link_spread(&pairs, z + row, slopes + i * n, gx == NULL ? sl_link_weights(&pairs, i) : NULL,
                       gx == NULL ? NULL : gx + i * n * n_columns, gz + row, gr == NULL ? NULL : gr + i * n_columns,
                       false);
    }
}

/* The sum of column c of the terms of links begin .. end - 1 of a relation, in their order. Lanes look at a link's
 * relation each. */
static __device__ double sum_relation(const struct sl_pairs &pairs, uint32_t relation, uint64_t begin, uint64_t end,
                                      const double *terms, uint32_t c)
{
    double sum = 0;
    for (uint64_t i = begin; i < end; i += SL_WARP) {
        const uint64_t mine = i + sl_lane();
        const bool has = mine < end && relation == (pairs.relations == NULL ? 0 : pairs.relations[mine]);
        for (unsigned found = __ballot_sync(SL_ALL_LANES, has); found != 0; found &= found - 1) {
            const uint64_t link = i + (uint32_t)__ffs((int)found) - 1;
            sum += c < pairs.n_columns ? terms[link * pairs.n_columns + c] : 0;
        }
    }
    return sum;
}

/* The gradient of R from the links' terms. Item i: SL_WARP columns of a relation, one block. Its warps have as many
 * stretches of links, whose sums are added in order. */
static __global__ void gather_relations(struct sl_pairs pairs, const double *terms, sl_real *gr)
{
    __shared__ double part[SL_THREADS];
    const uint32_t n_tiles = sl_tiles(pairs.n_columns);
    const uint64_t n_links = pairs.n_links;
    const uint32_t warp = threadIdx.x / SL_WARP;
    for (uint64_t i = blockIdx.x; i < (uint64_t)pairs.decoder.n_relations * n_tiles; i += gridDim.x) {
        const uint32_t relation = (uint32_t)(i / n_tiles);
        const uint32_t c = (uint32_t)(i % n_tiles) * SL_WARP + sl_lane();
        part[threadIdx.x] =
            sum_relation(pairs, relation, n_links * warp / SL_WARPS, n_links * (warp + 1) / SL_WARPS, terms, c);
        __syncthreads();
        if (warp == 0 && c < pairs.n_columns) {
            double sum = 0;
            for (uint32_t w = 0; w < SL_WARPS; w++) {
                sum += part[w * SL_WARP + sl_lane()];
            }
            gr[(uint64_t)relation * pairs.n_columns + c] = (sl_real)sum;
        }
        __syncthreads();
    }
}

/* mlp: rows x and t of the scores, and gx. */
struct hidden {
    sl_real *x, *t, *gx;
};

static enum sl_status mlp_forward(const struct sl_queue &blas, const struct sl_pairs &pairs, const sl_real *z,
                                  const struct hidden &rows, double *scores)
{
    const uint32_t h = pairs.n_columns;
    const uint32_t n = pairs.n_links * (pairs.n_negatives + 1);
    const sl_real *const *array = pairs.decoder.array;
    const char *name = "sl_pairs";
    SL_CHECK(sl_start(name, blas.stream, sl_blocks((uint64_t)n * h), multiply_rows, pairs, z, rows.x));
    SL_CHECK(sl_dense_forward_cuda(blas, SL_DTYPE_REAL, n, h, h, rows.x, array[SL_MLP_W], array[SL_MLP_B], 0,
                                   SL_DTYPE_REAL, rows.t));
    return sl_start(name, blas.stream, sl_warp_blocks(n), score_hidden, pairs, n, rows.t, scores);
}

/* gx holds the slopes first. */
static enum sl_status mlp_back(const struct sl_queue &blas, const struct sl_pairs &pairs, const double *slopes,
                               const struct hidden &rows, sl_real *const *gradient)
{
    const uint32_t h = pairs.n_columns;
    const uint32_t n = pairs.n_links * (pairs.n_negatives + 1);
    const char *name = "sl_pairs";
    SL_CHECK(sl_start(name, blas.stream, sl_blocks(n), round_slopes, n, slopes, rows.gx));
    SL_CHECK(sl_dense_backward_weight_cuda(blas, SL_DTYPE_REAL, n, h, 1, rows.t, rows.gx, gradient[SL_MLP_V],
                                           gradient[SL_MLP_C]));
    SL_CHECK(sl_start(name, blas.stream, sl_blocks((uint64_t)n * h), back_hidden, pairs, n, slopes, rows.t));
    SL_CHECK(sl_dense_backward_weight_cuda(blas, SL_DTYPE_REAL, n, h, h, rows.x, rows.t, gradient[SL_MLP_W],
                                           gradient[SL_MLP_B]));
    return sl_dense_backward_input_cuda(blas, SL_DTYPE_REAL, n, h, h, rows.t, pairs.decoder.array[SL_MLP_W], 0,
                                        rows.gx);
}

enum sl_status sl_pairs_cuda(struct sl_queue blas, const struct sl_pairs *pairs, const sl_real *z, double scale,
                             const struct sl_pairs_out *out)
{
    const char *name = "sl_pairs";
    const bool mlp = pairs->decoder.name == SL_DECODER_MLP;
    const bool distmult = pairs->decoder.name == SL_DECODER_DISTMULT;
    const size_t n_scores = (size_t)pairs->n_links * (pairs->n_negatives + 1);
    const size_t n_entries = mlp ? n_scores * pairs->n_columns : 0;
    struct hidden rows = {NULL, NULL, NULL};
    sl_scratch room(blas.stream);
    sl_scratch hidden(blas.stream);
    sl_scratch terms(blas.stream);
    SL_CHECK(room.take((n_scores + pairs->n_links) * sizeof(double), "scores of links"));
    double *scores = room.as<double>();
    if (mlp) {
        SL_CHECK(hidden.take(3 * n_entries * sizeof(sl_real), "hidden rows of links"));
        rows = {hidden.as<sl_real>(), hidden.as<sl_real>() + n_entries, hidden.as<sl_real>() + 2 * n_entries};
        SL_CHECK(mlp_forward(blas, *pairs, z, rows, scores));
    } else {
        SL_CHECK(sl_start(name, blas.stream, sl_warp_blocks(pairs->n_links), score_links, *pairs, z, scores));
    }
    SL_CHECK(sl_start(name, blas.stream, sl_warp_blocks(pairs->n_links), lose_links, *pairs, scale, scores,
                      scores + n_scores));
    SL_CHECK(sl_loss_add_up_cuda(blas.stream, pairs->n_links, scores + n_scores, scale, out->loss));
    if (mlp) {
        SL_CHECK(mlp_back(blas, *pairs, scores, rows, out->gradient));
    }
    if (distmult) {
        SL_CHECK(terms.take((size_t)pairs->n_links * pairs->n_columns * sizeof(double), "relations' gradients"));
    }
    SL_CHECK(sl_start(name, blas.stream, sl_warp_blocks(pairs->n_links), spread_links, *pairs, z, scores, rows.gx,
                      out->gz, terms.as<double>()));
    if (!distmult) {
        return SL_OK;
    }
    const uint64_t n_tiles = sl_tiles(pairs->n_columns);
    return sl_start(name, blas.stream, sl_blocks(pairs->decoder.n_relations * n_tiles * SL_THREADS), gather_relations,
                    *pairs, terms.as<double>(), out->gradient[SL_DISTMULT_R]);
}
