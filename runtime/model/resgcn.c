/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Residual graph convolutions (the res+ blocks of Li et al. 2020): h' = h + P x W + b with x = dropout(f(layer
 * norm(h))). P is as in gcn.c.
 *
 *   forward   x travels; s = P x; h' = s W + b + h on the self rows
 *   backward  gs = gh' W^T travels back; gx = P^T gs; gh from gx, then += gh' on the self rows */
#include "codelets/rows/blend.h"
#include "runtime/model/activation.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

enum { WEIGHT, BIAS, N_PARAMETERS };

static enum sl_status combine(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    struct sl_layer_pass_place place = sl_layer_pass_self(lp, p, c);
    starpu_data_handle_t h = sl_layer_pass_rows(lp, p, SL_ROWS_H)->chunk[c];
    struct sl_blend_rows from = {sl_layer_pass_rows(lp, p, SL_ROWS_INPUT)->chunk[place.chunk], place.row};
    struct sl_blend_rows to = {h, 0};
    SL_CHECK(lp->pass->source->sum(lp, p, c, 0, sl_layer_pass_rows(lp, p, SL_ROWS_SUM)->chunk[c]));
    if (!sl_layer_pass_ends(lp)) {
        return SL_OK;
    }
    SL_CHECK(sl_product(lp, p, c, SL_ROWS_SUM, WEIGHT, BIAS, 0, SL_ROWS_H));
    return sl_blend_submit(&head, SL_STAGE_DENSE, sl_handle_rows(h), 1, from, 1, to);
}

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_activate_input(lp));
    return sl_sum_chunks(lp, SL_ROWS_H, NULL, combine);
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_convolve_gradients(lp, WEIGHT, BIAS));
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(lp->pass->source->sum_back(lp, p, sl_layer_pass_rows(lp, p, SL_ROWS_GBEFORE)));
    }
    SL_CHECK(sl_deactivate_input(lp));
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(sl_residual_back(lp, p));
    }
    return SL_OK;
}

const struct sl_layer_kind sl_resgcn = {
    .name = "resgcn",
    .parameter =
        {[WEIGHT] = {SL_SHAPE_MATRIX, {{"layers.#.weight", 0}, {"convs.#.lin.weight", true}}, .key = 1},
         [BIAS] = {SL_SHAPE_VECTOR, {{"layers.#.bias", 0}, {"convs.#.bias", 0}}, .key = 2, .is_output_bias = true}},
    .n_parameters = N_PARAMETERS,
    .sum = &sl_sum_symmetric,
    .linear = true,
    .norms_input = true,
    .rows = sl_declare_sum,
    .forward = forward,
    .backward = backward,
};
