/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph attention with dynamic scores (Brody et al. 2022, GATv2). u = h W_l + b_l and r = h_self W_r + b_r, cut into
 * heads. Per head, z = sum of a u over the in-neighbours and the vertex itself; then heads stand side by side. a is the
 * softmax of attn . LeakyReLU(r + u) (codelets/sums/dynamic.h). With --skip, z += h_self W_skip.
 *
 *   forward   U travels; z = attention of U and R, then += h_self W_skip
 *   backward  the gradients of U travel back; gh = gU W_l^T, then += gR W_r^T + gz W_skip^T on the self rows */
#include "runtime/model/gatv2.h"

#include "codelets/rows/bias.h"
#include "codelets/sums/attend.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

enum { SOURCE = SL_GATV2_SOURCE, TARGET = SL_GATV2_TARGET, SKIP = SL_GATV2_SKIP };
enum { SOURCE_BIAS = SL_GATV2_SOURCE_BIAS, TARGET_BIAS = SL_GATV2_TARGET_BIAS };

/* ---- forward ---- */

static enum sl_status begin(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    return sl_multiply(lp, p, sl_layer_pass_chunk_row(lp, p, lp->level, c), TARGET,
                       sl_layer_pass_value(lp, p, TARGET_BIAS), 0, sl_layer_pass_rows(lp, p, SL_ROWS_T)->chunk[c]);
}

static enum sl_status combine(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    starpu_data_handle_t z = sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c];
    SL_CHECK(lp->pass->source->sum(lp, p, c, 0, z));
    if (lp->layer->skips) {
        return sl_multiply(lp, p, sl_layer_pass_chunk_row(lp, p, lp->level, c), SKIP, NULL, 1, z);
    }
    return SL_OK;
}

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_project(lp, SOURCE, SOURCE_BIAS));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_T));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_SCALES));
    SL_CHECK(sl_sum_chunks(lp, SL_ROWS_Z, begin, combine));
    for (uint32_t k = 0, p = 0; !lp->pass->training && sl_layer_pass_pe(lp, k, &p); k++) {
        sl_layer_pass_done(lp, p, SL_ROWS_T);
    }
    return SL_OK;
}

/* ---- backward ---- */

/* The gradients of W_r, b_r, attn and W_skip. */
static enum sl_status gradients(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    const uint32_t row = sl_layer_pass_chunk_row(lp, p, lp->level, c);
    starpu_data_handle_t ga = NULL;
    SL_CHECK(sl_multiply_back(lp, p, row, TARGET, TARGET_BIAS, sl_layer_pass_rows(lp, p, SL_ROWS_GT)->chunk[c]));
    SL_CHECK(sl_layer_pass_partial(lp, p, SL_GATV2_ATTENTION, &ga));
    SL_CHECK(sl_bias_backward_submit(&head, sl_layer_pass_rows(lp, p, SL_ROWS_GINNER)->chunk[c], ga));
    if (lp->layer->skips) {
        return sl_multiply_back(lp, p, row, SKIP, SL_NO_PARAMETER, sl_layer_pass_returns(lp, p)->chunk[c]);
    }
    return SL_OK;
}

static enum sl_status self_rows(const struct sl_layer_pass *lp, uint32_t p)
{
    SL_CHECK(sl_self_rows_back(lp, p, SL_ROWS_GT, TARGET));
    if (lp->layer->skips) {
        SL_CHECK(sl_self_rows_back(lp, p, sl_layer_pass_order(lp)->returning, SKIP));
    }
    if (lp->layer->residual) {
        return sl_residual_back(lp, p);
    }
    return SL_OK;
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GT));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GINNER));
    SL_CHECK(lp->pass->source->send_back(lp));
    SL_CHECK(sl_each_chunk(lp, gradients));
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(lp->pass->source->sum_back(lp, p, sl_layer_pass_rows(lp, p, SL_ROWS_GY)));
        SL_CHECK(sl_project_back(lp, p, SOURCE, SOURCE_BIAS));
        if (lp->i > 0) {
            SL_CHECK(self_rows(lp, p));
        }
    }
    return SL_OK;
}

/* ---- the table ---- */

static void rows(const struct sl_layer *layer, struct sl_layer_order *order)
{
    const uint32_t level = layer->level;
    const uint32_t n = layer->n_out;
    const struct sl_heads heads = {n, layer->n_heads, 0};
    sl_declare_projected(layer, SL_UNTIL_BACKWARD, order);
    order->row[SL_ROWS_T] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    order->row[SL_ROWS_SCALES] = (struct sl_layer_row){level, layer->n_heads, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    order->row[SL_ROWS_SIDES] =
        (struct sl_layer_row){level, sl_attend_side(heads, true), SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    order->row[SL_ROWS_GT] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    order->row[SL_ROWS_GINNER] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
}

static void shape(const struct sl_settings *settings, struct sl_layer *layer)
{
    layer->skips = settings->skip;
    layer->n_heads = layer->last ? 1 : settings->heads;
    layer->training = layer->evaluation = (struct sl_layer_order){.project_first = true, .travels = layer->n_out};
}

/* Names and shapes as in GATv2Conv of both libraries. */
const struct sl_layer_kind sl_gatv2 = {
    .name = "gatv2",
    .parameter =
        {[SOURCE] = {SL_SHAPE_MATRIX, {{"layers.#.fc_src.weight", true}, {"convs.#.lin_l.weight", true}}, .key = 1},
         [TARGET] = {SL_SHAPE_MATRIX, {{"layers.#.fc_dst.weight", true}, {"convs.#.lin_r.weight", true}}, .key = 0},
         [SL_GATV2_ATTENTION] = {SL_SHAPE_HEADS, {{"layers.#.attn", 0}, {"convs.#.att", 0}}, .key = 5},
         [SKIP] = {SL_SHAPE_SKIP, {{"layers.#.res_fc.weight", true}, {"convs.#.res.weight", true}}, .key = 6},
         [SOURCE_BIAS] = {SL_SHAPE_VECTOR, {{"layers.#.fc_src.bias", 0}, {"convs.#.lin_l.bias", 0}}, .key = 2},
         [TARGET_BIAS] = {SL_SHAPE_VECTOR, {{"layers.#.fc_dst.bias", 0}, {"convs.#.lin_r.bias", 0}}, .key = 7}},
    .n_parameters = SL_GATV2_PARAMETERS,
    .needless_bias = "convs.#.bias",
    .instead = {SOURCE_BIAS, TARGET_BIAS},
    .sum = &sl_sum_dynamic,
    .reads_narrow = true,
    .rows = rows,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
