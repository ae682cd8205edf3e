/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Decoders and losses of links. exp(-|s|) never overflows. */
#include "codelets/ends/pairs.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "codelets/ends/loss.h"
#include "codelets/rows/gemm.h"
#include "support/memory.h"
#include "support/minmax.h"

#define TILE_ROWS 1024 /* products that mlp multiplies at a time */

/* ---- decoders ---- */

uint32_t sl_decoder_arrays(enum sl_decoder_name name)
{
    static const uint32_t n_arrays[] = {0, SL_DISTMULT_ARRAYS, SL_MLP_ARRAYS};
    return n_arrays[name];
}

static void multiply(uint32_t n, const sl_real *restrict a, const sl_real *restrict b, sl_real *restrict out)
{
    for (uint32_t c = 0; c < n; c++) {
        out[c] = a[c] * b[c];
    }
}

/* Scores of n products x [n x H]; t [n x H] becomes relu(x W + b). */
static enum sl_status mlp_scores(const struct sl_decoder *d, uint32_t n, const sl_real *x, sl_real *t, double *scores)
{
    const uint32_t h = d->n_columns;
    const sl_real *v = d->array[SL_MLP_V];
    enum sl_status st =
        sl_gemm(n, h, h, (struct sl_factor){x, h, 0, false}, (struct sl_factor){d->array[SL_MLP_W], h, 0, false}, 0, t);
    for (uint32_t i = 0; st == SL_OK && i < n; i++) {
        sl_real *row = t + (size_t)i * h;
        double sum = (double)d->array[SL_MLP_C][0];
        for (uint32_t c = 0; c < h; c++) {
            const sl_real z = row[c] + d->array[SL_MLP_B][c];
            row[c] = z <= 0 ? 0 : z; /* a nan stays */
            sum += (double)row[c] * (double)v[c];
        }
        scores[i] = sum;
    }
    return st;
}

static enum sl_status mlp_pairs(const struct sl_decoder *d, uint32_t n, const sl_real *const *a,
                                const sl_real *const *b, double *scores)
{
    const uint32_t h = d->n_columns;
    const uint32_t tile = sl_min_u32(n, TILE_ROWS);
    SL_FREED sl_real *x = NULL;
    SL_CHECK(sl_alloc(2 * (size_t)tile * h, sizeof *x, "products of rows", &x));
    for (uint32_t i = 0; i < n; i += tile) {
        const uint32_t m = sl_min_u32(tile, n - i);
        for (uint32_t k = 0; k < m; k++) {
            multiply(h, a[i + k], b[i + k], x + (size_t)k * h);
        }
        SL_CHECK(mlp_scores(d, m, x, x + (size_t)tile * h, scores + i));
    }
    return SL_OK;
}

enum sl_status sl_decoder_scores(const struct sl_decoder *d, uint32_t n, const uint32_t *relations,
                                 const sl_real *const *a, const sl_real *const *b, double *scores_out)
{
    if (d->name == SL_DECODER_MLP) {
        return mlp_pairs(d, n, a, b, scores_out);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t relation = relations == NULL ? 0 : relations[i];
        scores_out[i] = sl_link_score(d->n_columns, sl_decoder_row(d, relation), a[i], b[i]);
    }
    return SL_OK;
}

static enum sl_status mlp_compare(const struct sl_decoder *d, const sl_real *row, uint32_t n, const sl_real *rows,
                                  sl_real *scores)
{
    const sl_real *one[TILE_ROWS];
    const sl_real *others[TILE_ROWS];
    double found[TILE_ROWS];
    for (uint32_t i = 0; i < n; i += TILE_ROWS) {
        const uint32_t m = sl_min_u32(TILE_ROWS, n - i);
        for (uint32_t k = 0; k < m; k++) {
            one[k] = row;
            others[k] = rows + (size_t)(i + k) * d->n_columns;
        }
        SL_CHECK(mlp_pairs(d, m, one, others, found));
        for (uint32_t k = 0; k < m; k++) {
            scores[i + k] = (sl_real)found[k];
        }
    }
    return SL_OK;
}

enum sl_status sl_decoder_compare(const struct sl_decoder *d, const struct sl_queries *queries, uint32_t n,
                                  const sl_real *rows, sl_real *scores_out)
{
    const uint32_t h = d->n_columns;
    SL_FREED sl_real *q = NULL;
    if (n == 0 || queries->n == 0) {
        return SL_OK;
    }
    if (d->name == SL_DECODER_MLP) {
        for (uint32_t i = 0; i < queries->n; i++) {
            SL_CHECK(mlp_compare(d, queries->row[i], n, rows, scores_out + (size_t)i * n));
        }
        return SL_OK;
    }
    SL_CHECK(sl_alloc((size_t)queries->n * h, sizeof *q, "rows to compare", &q));
    for (uint32_t i = 0; i < queries->n; i++) {
        const sl_real *weights = sl_decoder_row(d, queries->relation == NULL ? 0 : queries->relation[i]);
        if (weights == NULL) {
            memcpy(q + (size_t)i * h, queries->row[i], h * sizeof *q);
        } else {
            multiply(h, weights, queries->row[i], q + (size_t)i * h);
        }
    }
    return sl_gemm(queries->n, n, h, (struct sl_factor){q, h, 0, false}, (struct sl_factor){rows, h, 1, false}, 0,
                   scores_out);
}

/* ---- losses ---- */

double sl_pairs_loss_of(double score, bool is_link)
{
    double wrong = is_link ? -score : score;
    return fmax(wrong, 0) + log1p(exp(-fabs(score)));
}

/* ---- the kernel, CPU ---- */

/* A pass over all links. Sums over links are in double. */
struct tile {
    double *scores;  /* [n_links_each (k + 1)]: scores, then scaled slopes */
    sl_real *x, *t;  /* mlp, rows of the scores: products, and relu(x W + b) */
    sl_real *gx;     /* mlp: gradient of the products */
    double *sums[2]; /* distmult: R. mlp: b, then v */
    double c;        /* mlp */
};

static enum sl_status open_tile(const struct sl_pairs *pairs, uint32_t n_links, struct tile *out)
{
    const size_t n = (size_t)n_links * (pairs->n_negatives + 1);
    const uint32_t h = pairs->n_columns;
    *out = (struct tile){0};
    SL_CHECK(sl_alloc(n, sizeof *out->scores, "scores of links", &out->scores));
    if (pairs->decoder.name == SL_DECODER_DISTMULT) {
        SL_CHECK(sl_alloc_zero((size_t)pairs->decoder.n_relations * h, sizeof **out->sums, "gradient of relations",
                               &out->sums[0]));
    }
    if (pairs->decoder.name == SL_DECODER_MLP) {
        SL_CHECK(sl_alloc(n * h, sizeof *out->x, "products of rows", &out->x));
        SL_CHECK(sl_alloc(n * h, sizeof *out->t, "hidden rows", &out->t));
        SL_CHECK(sl_alloc(n * h, sizeof *out->gx, "gradient of products", &out->gx));
        SL_CHECK(sl_alloc_zero(h, sizeof **out->sums, "gradient of a bias", &out->sums[0]));
        return sl_alloc_zero(h, sizeof **out->sums, "gradient of a row", &out->sums[1]);
    }
    return SL_OK;
}

static void free_tile(struct tile *tile)
{
    sl_free(tile->scores);
    sl_free(tile->x);
    sl_free(tile->t);
    sl_free(tile->gx);
    sl_free(tile->sums[0]);
    sl_free(tile->sums[1]);
}

/* The scores of links i .. i + n - 1. z: the rows of link i. */
static enum sl_status score_links(const struct sl_pairs *pairs, uint32_t i, uint32_t n, const sl_real *z,
                                  struct tile *tile)
{
    const uint32_t h = pairs->n_columns;
    const uint32_t n_each = pairs->n_negatives + 1;
    for (uint32_t l = 0; l < n; l++, z += (size_t)(n_each + 1) * h) {
        for (uint32_t j = 0; j < n_each; j++) {
            const size_t at = (size_t)l * n_each + j;
            const sl_real *a = z + (size_t)sl_pairs_beside(pairs, j) * h;
            const sl_real *b = z + (size_t)(j + 1) * h;
            if (tile->x != NULL) {
                multiply(h, a, b, tile->x + at * h);
            } else {
                tile->scores[at] = sl_link_score(h, sl_link_weights(pairs, i + l), a, b);
            }
        }
    }
    return tile->x == NULL ? SL_OK : mlp_scores(&pairs->decoder, n * n_each, tile->x, tile->t, tile->scores);
}

/* The gradients of mlp's arrays, and of the products. first: this is the first tile. */
static enum sl_status mlp_back(const struct sl_pairs *pairs, uint32_t n, bool first, struct tile *tile, sl_real *gw)
{
    const uint32_t h = pairs->n_columns;
    const sl_real *v = pairs->decoder.array[SL_MLP_V];
    const struct sl_factor gt = {tile->t, h, 0, false};
    for (uint32_t i = 0; i < n; i++) {
        sl_real *t = tile->t + (size_t)i * h;
        const double slope = tile->scores[i];
        tile->c += slope;
        for (uint32_t c = 0; c < h; c++) {
            tile->sums[1][c] += slope * (double)t[c];
            t[c] = t[c] == 0 ? 0 : (sl_real)(slope * (double)v[c]);
            tile->sums[0][c] += (double)t[c];
        }
    }
    SL_CHECK(sl_gemm(h, h, n, (struct sl_factor){tile->x, h, 1, false}, gt, !first, gw));
    return sl_gemm(n, h, h, gt, (struct sl_factor){pairs->decoder.array[SL_MLP_W], h, 1, false}, 0, tile->gx);
}

static void spread_links(const struct sl_pairs *pairs, uint32_t i, uint32_t n, const sl_real *z, struct tile *tile,
                         sl_real *gz)
{
    const uint32_t h = pairs->n_columns;
    const uint32_t n_each = pairs->n_negatives + 1;
    const bool distmult = pairs->decoder.name == SL_DECODER_DISTMULT;
    for (uint32_t l = 0; l < n; l++) {
        const size_t row = (size_t)l * (n_each + 1) * h;
        const sl_real *weights = sl_link_weights(pairs, i + l);
        const sl_real *gx = tile->gx == NULL ? NULL : tile->gx + (size_t)l * n_each * h;
        double *sums = distmult ? tile->sums[0] + (weights - pairs->decoder.array[SL_DISTMULT_R]) : NULL;
        sl_link_spread(pairs, z + row, tile->scores + (size_t)l * n_each, weights, gx, gz + row, sums, true);
    }
}

static double lose_tile(const struct sl_pairs *pairs, uint32_t n, double scale, double *scores)
{
    const uint32_t n_each = pairs->n_negatives + 1;
    double loss = 0;
    for (uint32_t l = 0; l < n; l++, scores += n_each) {
        const double own =
            pairs->loss == SL_PAIRS_BINARY ? sl_link_binary(n_each, scores) : sl_link_softmax(n_each, scores);
        loss += sl_loss_share(scale * own);
        for (uint32_t j = 0; j < n_each; j++) {
            scores[j] *= scale;
        }
    }
    return loss;
}

static void round_sums(size_t n, const double *sums, sl_real *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (sl_real)sums[i];
    }
}

/* Write the sums over all links. */
static void put_gradients(const struct sl_pairs *pairs, const struct tile *tile, const struct sl_pairs_out *out)
{
    const uint32_t h = pairs->n_columns;
    if (pairs->decoder.name == SL_DECODER_DISTMULT) {
        round_sums((size_t)pairs->decoder.n_relations * h, tile->sums[0], out->gradient[SL_DISTMULT_R]);
    }
    if (pairs->decoder.name == SL_DECODER_MLP) {
        round_sums(h, tile->sums[0], out->gradient[SL_MLP_B]);
        round_sums(h, tile->sums[1], out->gradient[SL_MLP_V]);
        round_sums(1, &tile->c, out->gradient[SL_MLP_C]);
        if (pairs->n_links == 0) {
            memset(out->gradient[SL_MLP_W], 0, (size_t)h * h * sizeof(sl_real));
        }
    }
}

enum sl_status sl_pairs_cpu(const struct sl_pairs *pairs, const sl_real *z, double scale,
                            const struct sl_pairs_out *out)
{
    const uint32_t n_each = pairs->n_negatives + 1;
    const size_t step = (size_t)(n_each + 1) * pairs->n_columns;
    const uint32_t n_tile = sl_min_u32(sl_max_u32(TILE_ROWS / n_each, 1), sl_max_u32(pairs->n_links, 1));
    SL_OWNED(free_tile) struct tile tile = {0};
    double loss = 0;
    SL_CHECK(open_tile(pairs, n_tile, &tile));
    for (uint32_t i = 0; i < pairs->n_links; i += n_tile) {
        const uint32_t n = sl_min_u32(n_tile, pairs->n_links - i);
        SL_CHECK(score_links(pairs, i, n, z + i * step, &tile));
        loss += lose_tile(pairs, n, scale, tile.scores);
        if (tile.x != NULL) {
            SL_CHECK(mlp_back(pairs, n * n_each, i == 0, &tile, out->gradient[SL_MLP_W]));
        }
        spread_links(pairs, i, n, z + i * step, &tile, out->gz + i * step);
    }
    put_gradients(pairs, &tile, out);
    *out->loss = loss;
    return SL_OK;
}

/* ---- operation ---- */

struct pairs {
    struct sl_task_args head;
    struct sl_matrix z, gz, loss, relations;
    struct sl_matrices decoder, gradients; /* its arrays */
    struct sl_pairs rule;                  /* without sizes and addresses */
    double scale;
};

static enum sl_status pairs(const void *view, const void *stream)
{
    const struct pairs *v = view;
    struct sl_pairs pairs = v->rule;
    struct sl_pairs_out out = {.gz = v->gz.data, .loss = v->loss.data};
    pairs.n_links = v->z.n_rows / (pairs.n_negatives + 2);
    pairs.n_columns = pairs.decoder.n_columns = v->z.n_columns;
    pairs.relations = v->relations.data;
    if (pairs.decoder.name == SL_DECODER_DISTMULT) {
        pairs.decoder.n_relations = v->decoder.n_rows[SL_DISTMULT_R];
    }
    for (uint32_t k = 0; k < v->decoder.n; k++) {
        pairs.decoder.array[k] = v->decoder.data[k];
        out.gradient[k] = v->gradients.data[k];
    }
    return SL_CALL_QUEUE(stream, sl_pairs, &pairs, v->z.data, v->scale, &out);
}

static struct sl_operation pairs_op = {
    SL_OPERATION(pairs_op, "sl_pairs", SL_STAGE_LOSS),
    SL_BODY(pairs, struct pairs),
    .role = {{"z", STARPU_R, offsetof(struct pairs, z), "D x H"},
             {"gz", STARPU_W, offsetof(struct pairs, gz), "D x H"},
             {"loss", STARPU_W, offsetof(struct pairs, loss), "1 x 1", SL_DOUBLES},
             {"relations", STARPU_R | SL_OPTIONAL, offsetof(struct pairs, relations), "?", SL_INTS_32},
             {"decoder", STARPU_R | SL_REPEATED, offsetof(struct pairs, decoder), "? x ?"},
             {"decoder's gradients", STARPU_W | SL_REPEATED, offsetof(struct pairs, gradients), "? x ?"}},
};

/* ---- submission ---- */

static void check_decoder(enum sl_decoder_name decoder, const struct sl_pairs_handles *h)
{
    const uint32_t n_columns = sl_handle_columns(h->z);
    for (uint32_t k = 0; k < sl_decoder_arrays(decoder); k++) {
        const uint32_t wanted = decoder == SL_DECODER_MLP && k == SL_MLP_C ? 1 : n_columns;
        assert(sl_handle_columns(h->value[k]) == wanted && sl_handle_columns(h->gradient[k]) == wanted);
        assert(sl_handle_rows(h->value[k]) == sl_handle_rows(h->gradient[k]));
    }
}

enum sl_status sl_pairs_submit(const struct sl_task_args *head, const struct sl_pairs *rule, double scale,
                               const struct sl_pairs_handles *h)
{
    const uint32_t n_arrays = sl_decoder_arrays(rule->decoder.name);
    struct pairs v = {.head = *head,
                      .z = sl_matrix_of(h->z),
                      .gz = sl_matrix_of(h->gz),
                      .loss = sl_matrix_of(h->loss),
                      .relations = sl_matrix_of(h->relations),
                      .decoder = {.n = n_arrays, .handles = h->value},
                      .gradients = {.n = n_arrays, .handles = h->gradient},
                      .rule = *rule,
                      .scale = scale};
    check_decoder(rule->decoder.name, h);
    assert(head->runs == NULL);
    assert(rule->n_negatives >= 1 && rule->n_negatives <= SL_MAX_NEGATIVES);
    assert(v.z.n_rows % (rule->n_negatives + 2) == 0);
    v.head.work = 3 * sl_matrix_entries(&v.z) * sizeof(sl_real);
    if (rule->decoder.name == SL_DECODER_MLP) {
        v.head.work *= v.z.n_columns;
    }
    return sl_view_submit(&pairs_op, &v, SL_PRIORITY_COMPUTE);
}
