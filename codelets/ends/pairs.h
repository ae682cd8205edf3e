/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Pairs: the loss of links and their negatives, and its gradient.
 *   before: the rows of the links' ends are there, k + 2 rows for each link (codelets/sampling/link_seeds.h)
 *   after:  the gradients of the ends go back to their owners, as those of any sum over a block
 *
 * A link has the rows e_0, e_1, .. e_(k + 1): its first end, its second end, and k negatives. Score 0 is of both ends.
 * Score j > 0 is of a negative and the end beside it. s_j = f(e_m o e_(j + 1)). m is 1 if the negative replaces the
 * first end, else 0. With `both_ends` the last k / 2 negatives of a link replace the first end.
 *
 *   binary    loss = scale * sum over links of (log(1 + exp(-s_0)) + sum over j > 0 of log(1 + exp(s_j))).
 *   softmax   loss = scale * sum over links of (log sum over j of exp(s_j) - s_0).
 *
 * The slopes are d_j = d loss / d s_j. Scores and slopes are in double. A decoder makes a score of the product p of two
 * rows, entry by entry.
 *
 *   dot       f(p) = sum of p.
 *   distmult  f(p) = sum of R[r] o p. r is the link's relation (Yang et al. 2015).
 *   mlp       f(p) = relu(p W + b) . v + c. The predictor of OGB's examples (LinkPredictor), with two layers.
 */
#ifndef SL_CODELETS_PAIRS_H
#define SL_CODELETS_PAIRS_H

#include <math.h>

#include "codelets/grid.h"
#include "codelets/rows/dense.h"
#include "tasks/task.h"

#define SL_MAX_NEGATIVES 4096

enum sl_pairs_loss { SL_PAIRS_BINARY, SL_PAIRS_SOFTMAX };                     /* as --link-loss lists */
enum sl_decoder_name { SL_DECODER_DOT, SL_DECODER_DISTMULT, SL_DECODER_MLP }; /* as --decoder lists */

/* The arrays of a decoder, all row-major. H: columns of the rows. */
enum { SL_DISTMULT_R /* [relations x H] */, SL_DISTMULT_ARRAYS };
enum { SL_MLP_W /* [H x H] */, SL_MLP_B /* [H] */, SL_MLP_V /* [H] */, SL_MLP_C /* [1] */, SL_MLP_ARRAYS };
#define SL_DECODER_ARRAYS SL_MLP_ARRAYS

/* A decoder for rows of n_columns. */
struct sl_decoder {
    enum sl_decoder_name name;
    uint32_t n_columns;
    uint32_t n_relations; /* distmult */
    const sl_real *array[SL_DECODER_ARRAYS];
};

/* The number of a decoder's arrays. */
uint32_t sl_decoder_arrays(enum sl_decoder_name name);

/* The weight of each entry of the product. NULL: all are 1. Not for mlp. */
static inline SL_HOST_DEVICE const sl_real *sl_decoder_row(const struct sl_decoder *decoder, uint32_t relation)
{
    return decoder->name == SL_DECODER_DISTMULT
               ? decoder->array[SL_DISTMULT_R] + (uint64_t)relation * decoder->n_columns
               : NULL;
}

/* The scores of n pairs a[i], b[i], each of n_columns; relations[i] is the pair's relation, NULL: 0. SL_ENOMEM. */
enum sl_status sl_decoder_scores(const struct sl_decoder *decoder, uint32_t n, const uint32_t *relations,
                                 const sl_real *const *a, const sl_real *const *b, double *scores_out);

/* Rows to compare with other rows, each with the relation of the pairs; NULL: 0. */
struct sl_queries {
    uint32_t n;
    const sl_real *const *row;
    const uint32_t *relation;
};

/* The scores of each query with each of n rows: [queries x n]. SL_ENOMEM. */
enum sl_status sl_decoder_compare(const struct sl_decoder *decoder, const struct sl_queries *queries, uint32_t n,
                                  const sl_real *rows, sl_real *scores_out);

/* The binary loss of a pair with this score: a link, or not. */
double sl_pairs_loss_of(double score, bool is_link);

/* Links, the shape of their rows, and the decoder. */
struct sl_pairs {
    uint32_t n_links;
    uint32_t n_negatives; /* k */
    uint32_t n_columns;   /* = decoder.n_columns */
    enum sl_pairs_loss loss;
    uint32_t both_ends;        /* bool, without padding: half of the negatives replace the first end */
    const uint32_t *relations; /* [n_links]; NULL: all 0. Read by distmult */
    struct sl_decoder decoder;
};

/* The row of the end beside the row j + 1, j = 0 .. k. */
static inline SL_HOST_DEVICE uint32_t sl_pairs_beside(const struct sl_pairs *pairs, uint32_t j)
{
    return pairs->both_ends && j > pairs->n_negatives - pairs->n_negatives / 2;
}

/* ---- what both devices compute for one link; on a GPU, a warp does ---- */

/* The weights of link i, or NULL. */
static inline SL_HOST_DEVICE const sl_real *sl_link_weights(const struct sl_pairs *pairs, uint64_t i)
{
    return sl_decoder_row(&pairs->decoder, pairs->relations == NULL ? 0 : pairs->relations[i]);
}

/* The score of two rows by dot (weights NULL) or distmult. All lanes get it. */
SL_DEVICE double sl_link_score(uint32_t n_columns, const sl_real *weights, const sl_real *a, const sl_real *b)
{
    double sum = 0;
    for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
        const double product = (double)a[c] * (double)b[c];
        sum += weights == NULL ? product : (double)weights[c] * product;
    }
    return sl_warp_sum(sum);
}

/* The binary loss of n scores, the first of a link. Scores become slopes. All lanes get the loss. */
SL_DEVICE double sl_link_binary(uint32_t n, double *scores)
{
    double loss = 0;
    for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
        const double s = scores[j];
        const double t = exp(-fabs(s));
        const double large = 1 / (1 + t); /* the larger of sigmoid(s) and sigmoid(-s) */
        const double p = s >= 0 ? large : t * large;
        const double q = s >= 0 ? t * large : large;
        loss += fmax(j == 0 ? -s : s, 0.0) + log1p(t);
        scores[j] = j == 0 ? -q : p;
    }
    return sl_warp_sum(loss);
}

SL_DEVICE double sl_link_softmax(uint32_t n, double *scores)
{
    const double link = scores[0];
    double top = link;
    double sum = 0;
    for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
        top = scores[j] > top ? scores[j] : top;
    }
    top = sl_warp_max(top);
    for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
        scores[j] = exp(scores[j] - top);
        sum += scores[j];
    }
    sum = sl_warp_sum(sum);
    for (uint32_t j = sl_lane(); j < n; j += SL_WARP) {
        scores[j] = scores[j] / sum - (j == 0 ? 1.0 : 0.0);
    }
    return log(sum) + top - link;
}

/* The gradients of a link's rows z. slopes: already scaled. weights: as sl_link_weights. gx: mlp's gradients of the
 * products, else NULL. sums: the gradient of the weights, or NULL. adds: add to sums, otherwise overwrite it. */
SL_DEVICE void sl_link_spread(const struct sl_pairs *pairs, const sl_real *z, const double *slopes,
                              const sl_real *weights, const sl_real *gx, sl_real *gz, double *sums, bool adds)
{
    const uint32_t n_columns = pairs->n_columns;
    for (uint32_t c = sl_lane(); c < n_columns; c += SL_WARP) {
        double ends[2] = {0, 0};
        double sum = adds && sums != NULL ? sums[c] : 0;
        for (uint32_t j = 0; j <= pairs->n_negatives; j++) {
            const uint32_t m = sl_pairs_beside(pairs, j);
            const size_t at = (size_t)(j + 1) * n_columns + c;
            const double a = (double)sl_load(z + (size_t)m * n_columns + c);
            const double b = (double)sl_load(z + at);
            double slope = sl_load(slopes + j);
            sum += slope * (a * b);
            if (gx != NULL) {
                slope = (double)gx[(size_t)j * n_columns + c];
            } else if (weights != NULL) {
                slope *= (double)weights[c];
            }
            ends[m] += slope * b;
            if (j == 0) {
                ends[1] += slope * a;
            } else {
                gz[at] = (sl_real)(slope * a);
            }
        }
        gz[c] = (sl_real)ends[0];
        gz[n_columns + c] = (sl_real)ends[1];
        if (sums != NULL) {
            sums[c] = sum;
        }
    }
}

/* ---- all links ---- */

/* Results, all overwritten. gz: [n_links (k + 2) x n_columns]. gradient: as the decoder's arrays. */
struct sl_pairs_out {
    sl_real *gz;
    double *loss;
    sl_real *gradient[SL_DECODER_ARRAYS];
};

/* z: as gz. SL_ENOMEM. */
enum sl_status sl_pairs_cpu(const struct sl_pairs *pairs, const sl_real *z, double scale,
                            const struct sl_pairs_out *out);

/* The same on the stream's device. Arrays are in device memory, structs in host memory. Sums run in another order than
 * on the CPU, but always in the same one. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_pairs_cuda(struct sl_queue blas, const struct sl_pairs *pairs, const sl_real *z,
                                         double scale, const struct sl_pairs_out *out);

/* z, gz: matrices of sl_real with k + 2 rows for each link. relations: uint32, one for each link. NULL: all 0. value,
 * gradient: the decoder's arrays. loss: one double. gz, loss and gradients are overwritten. */
struct sl_pairs_handles {
    starpu_data_handle_t z, gz, loss, relations;
    starpu_data_handle_t value[SL_DECODER_ARRAYS], gradient[SL_DECODER_ARRAYS];
};

/* rule: n_negatives, loss, both_ends, and the decoder's name. Local; one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pairs_submit(const struct sl_task_args *head, const struct sl_pairs *rule, double scale,
                               const struct sl_pairs_handles *handles);

#endif
