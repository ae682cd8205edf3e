/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Residual graph convolutions (Li et al. 2020's res+ blocks): h' = h + P x W + b, x = dropout(ReLU(layer norm(h))), P as in gcn.c.
 *
 *   forward   x travels; s = P x; h' = s W + b + h on the self rows
 *   backward  gs = gh' W^T travels back; gx = P^T gs; gh from gx, then += gh' on the self rows */
#include "codelets/blend.h"
#include "codelets/dense.h"
#include "runtime/model/activation.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"

static enum sl_status combine(const struct sl_at *at, uint32_t p, uint32_t c)
{
    struct sl_task_args head = sl_at_head(at, p);
    struct sl_at_place place = sl_at_place(at, p, sl_at_chunk_row(at, p, at->level, c));
    starpu_data_handle_t sum = sl_at_rows(at, p, SL_ROWS_SUM)->chunk[c];
    starpu_data_handle_t h = sl_at_rows(at, p, SL_ROWS_H)->chunk[c];
    struct sl_blend_rows from = {sl_at_rows(at, p, SL_ROWS_INPUT)->chunk[place.chunk], place.row};
    struct sl_blend_rows to = {h, 0};
    enum sl_status st;
    SL_TRY(st, at->pass->source->sum(at, p, c, 0, sum), done);
    if (!sl_at_ends(at)) {
        return SL_OK;
    }
    SL_TRY(st, sl_dense_forward_submit(&head, sum, 0, sl_at_value(at, p, SL_NEIGH), sl_at_value(at, p, SL_BIAS), 0, h),
           done);
    st = sl_blend_submit(&head, SL_STAGE_DENSE, sl_handle_rows(h), 1, from, 1, to);
done:
    return st;
}

static enum sl_status forward(const struct sl_at *at)
{
    enum sl_status st;
    SL_TRY(st, sl_activate_input(at), done);
    st = sl_sum_chunks(at, SL_ROWS_H, NULL, combine);
done:
    return st;
}

static enum sl_status backward(const struct sl_at *at)
{
    enum sl_status st;
    SL_TRY(st, sl_sum_back(at, SL_NEIGH), done);
    SL_TRY(st, at->pass->source->send_back(at), done);
    SL_TRY(st, sl_sum_gradient(at, SL_NEIGH, true), done);
    for (uint32_t k = 0, p = 0; sl_at_pe(at, k, &p); k++) {
        SL_TRY(st, at->pass->source->sum_back(at, p, sl_at_rows(at, p, SL_ROWS_GBEFORE)), done);
    }
    SL_TRY(st, sl_deactivate_input(at), done);
    for (uint32_t k = 0, p = 0; sl_at_pe(at, k, &p); k++) {
        SL_TRY(st, sl_residual_back(at, p), done);
    }
done:
    return st;
}

const struct sl_layer_kind sl_resgcn = {
    .name = "resgcn",
    .parameter = {[SL_NEIGH] = {SL_SHAPE_MATRIX, {{"layers.#.weight", 0}, {"convs.#.lin.weight", true}}, 0},
                  [SL_BIAS] = {SL_SHAPE_VECTOR, {{"layers.#.bias", 0}, {"convs.#.bias", 0}}, 0}},
    .weigh = SL_WEIGH_SYMMETRIC,
    .linear = true,
    .norms_input = true,
    .forward = forward,
    .backward = backward,
};
