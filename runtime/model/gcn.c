/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph convolution (Kipf, Welling 2017): z = P h W + b with P = D^-1/2 (A + I) D^-1/2. A sample gives an unbiased
 * estimate of P (codelets/sums/aggregate.h).
 *
 *   summing first      forward: h travels; s = P h; z = s W + b
 *                      backward: ga = gz W^T travels back; gh = P^T ga
 *   projecting first   forward: y = h W travels; z = b + P y
 *                      backward: gz travels back; gy = P^T gz; gh = gy W^T */
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

enum { WEIGHT, BIAS, N_PARAMETERS };

static enum sl_status begin(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    if (sl_layer_pass_order(lp)->project_first) {
        return sl_bias(lp, p, BIAS, sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c]);
    }
    return SL_OK;
}

static enum sl_status combine(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    if (sl_layer_pass_order(lp)->project_first) {
        return lp->pass->source->sum(lp, p, c, 1, sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c]);
    }
    SL_CHECK(lp->pass->source->sum(lp, p, c, 0, sl_layer_pass_rows(lp, p, SL_ROWS_SUM)->chunk[c]));
    if (sl_layer_pass_ends(lp)) {
        return sl_product(lp, p, c, SL_ROWS_SUM, WEIGHT, BIAS, 0, SL_ROWS_Z);
    }
    return SL_OK;
}

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    return sl_convolve(lp, WEIGHT, begin, combine);
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_convolve_gradients(lp, WEIGHT, BIAS));
    for (uint32_t k = 0, p = 0; lp->layer->returns && sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(sl_convolve_back(lp, p, WEIGHT));
        if (lp->layer->residual && lp->i > 0) {
            SL_CHECK(sl_residual_back(lp, p));
        }
    }
    return SL_OK;
}

/* Names and shapes as in DGL's GraphConv, with matrices [n_in x n_out], and PyTorch Geometric's GCNConv. */
const struct sl_layer_kind sl_gcn = {
    .name = "gcn",
    .parameter =
        {[WEIGHT] = {SL_SHAPE_MATRIX, {{"layers.#.weight", 0}, {"convs.#.lin.weight", true}}, .key = 1},
         [BIAS] = {SL_SHAPE_VECTOR, {{"layers.#.bias", 0}, {"convs.#.bias", 0}}, .key = 2, .is_output_bias = true}},
    .n_parameters = N_PARAMETERS,
    .sum = &sl_sum_symmetric,
    .reads_narrow = true,
    .rows = sl_declare_convolution,
    .forward = forward,
    .backward = backward,
};
