/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Pairs: the loss of links and their negatives, and its gradient.
 *   before: the rows of the links' ends are there, k + 2 rows for each link (codelets/link_seeds.h)
 *   after:  the gradients of the ends go back to their owners, as those of any sum over a block
 *
 * A link has the rows e_0, e_1, .. e_(k + 1): its first end, its second end, and k negatives. Score 0 is of both ends,
 * score j > 0 of a negative and the end beside it: s_j = f(e_m o e_(j + 1)), where m is 1 if the negative replaces the
 * first end, else 0. With `both_ends` the last k / 2 negatives of a link replace the first end.
 *
 *   binary    loss = scale * sum over links of (log(1 + exp(-s_0)) + sum over j > 0 of log(1 + exp(s_j)))
 *   softmax   loss = scale * sum over links of (log sum over j of exp(s_j) - s_0)
 *
 * with slopes d_j = d loss / d s_j. Scores and slopes are in double. A decoder makes a score of the product p of two
 * rows, entry by entry:
 *
 *   dot       f(p) = sum of p
 *   distmult  f(p) = sum of R[r] o p, r the link's relation (Yang et al. 2015)
 *   mlp       f(p) = relu(p W + b) . v + c: the predictor of OGB's examples (LinkPredictor), with two layers
 */
#ifndef SL_CODELETS_PAIRS_H
#define SL_CODELETS_PAIRS_H

#include "codelets/dense.h"
#include "support/real.h"
#include "support/status.h"
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

/* Results, all overwritten. gz: [n_links (k + 2) x n_columns]. gradient: as the decoder's arrays. */
struct sl_pairs_out {
    sl_real *gz;
    double *loss;
    sl_real *gradient[SL_DECODER_ARRAYS];
};

/* z: as gz. SL_ENOMEM. */
enum sl_status sl_pairs_cpu(const struct sl_pairs *pairs, const sl_real *z, double scale,
                            const struct sl_pairs_out *out);

#ifdef SL_CUDA
/* The same on the stream's device. Arrays are in device memory, structs in host memory. Sums run in another order than
 * on the CPU, but always in the same one. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_pairs_cuda(struct sl_dense_cuda blas, const struct sl_pairs *pairs, const sl_real *z,
                                         double scale, const struct sl_pairs_out *out);
#endif

struct sl_pairs_rule {
    uint32_t n_negatives;
    enum sl_pairs_loss loss;
    bool both_ends;
    enum sl_decoder_name decoder;
};

/* z, gz: matrices of sl_real with k + 2 rows for each link; gz is overwritten. loss: one double, overwritten.
 * relations: uint32, one for each link; NULL: all 0. value, gradient: the decoder's arrays; gradients are
 * overwritten. */
struct sl_pairs_handles {
    starpu_data_handle_t z, gz, loss, relations;
    starpu_data_handle_t value[SL_DECODER_ARRAYS], gradient[SL_DECODER_ARRAYS];
};

/* Local; one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pairs_submit(const struct sl_task_args *head, const struct sl_pairs_rule *rule, double scale,
                               const struct sl_pairs_handles *handles);

#endif
