/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * First and last layers of a model, which do not aggregate: z = h W + b for every row. The layer is linear, or ends
 * in an activation, or applies layer norm, activation and dropout to its input first. */
#include "runtime/model/activation.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"

enum { WEIGHT, BIAS, N_PARAMETERS };

/* ---- on the input rows as they are ---- */

static enum sl_status forward_chunk(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    starpu_data_handle_t z = sl_layer_pass_rows(lp, p, sl_layer_pass_result(lp))->chunk[c];
    uint32_t row = sl_layer_pass_chunk_row(lp, p, lp->level, c);
    return sl_multiply(lp, p, row, WEIGHT, sl_layer_pass_value(lp, p, BIAS), 0, z);
}

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_layer_pass_shape_all(lp, sl_layer_pass_result(lp)));
    return sl_each_chunk(lp, forward_chunk);
}

static enum sl_status backward_chunk(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    enum sl_role gz = sl_layer_pass_result_gradient(lp);
    uint32_t row = sl_layer_pass_chunk_row(lp, p, lp->level, c);
    SL_CHECK(sl_multiply_back(lp, p, row, WEIGHT, BIAS, sl_layer_pass_rows(lp, p, gz)->chunk[c]));
    if (lp->i > 0) {
        return sl_product_back(lp, p, c, gz, WEIGHT, SL_ROWS_GINPUT);
    }
    return SL_OK;
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    if (lp->i > 0) {
        SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GINPUT));
    }
    return sl_each_chunk(lp, backward_chunk);
}

/* Names of PyTorch's Linear, which both libraries use. */
#define PARAMETERS(end)                                                                                                \
    .parameter = {[WEIGHT] = {SL_SHAPE_MATRIX, {{end ".weight", true}, {end ".weight", true}}, .key = 1},              \
                  [BIAS] = {SL_SHAPE_VECTOR, {{end ".bias", 0}, {end ".bias", 0}}, .key = 2, .is_output_bias = true}}, \
    .n_parameters = N_PARAMETERS

const struct sl_layer_kind sl_linear_out = {.name = "out", PARAMETERS("out"), .forward = forward, .backward = backward};

/* Names of PyTorch Geometric's MLP, called `out`. */
const struct sl_layer_kind sl_dense_out = {
    .name = "dense", .prefix = "out.", PARAMETERS("lins.#"), .forward = forward, .backward = backward};

const struct sl_layer_kind sl_activated_in = {.name = "in", PARAMETERS("in"), .forward = forward, .backward = backward};

const struct sl_layer_kind sl_linear_in = {
    .name = "in", PARAMETERS("in"), .linear = true, .forward = forward, .backward = backward};

/* --input-layer. With one column for a vertex, a row of the matrix is the vertex's trained vector. */
const struct sl_layer_kind sl_vectors_in = {
    .name = "in",
    .parameter = {[WEIGHT] = {SL_SHAPE_MATRIX, {{"in.weight", true}, {"in.weight", true}}, .key = 1, .by_rows = true},
                  [BIAS] = {SL_SHAPE_VECTOR, {{"in.bias", 0}, {"in.bias", 0}}, .key = 2, .is_output_bias = true}},
    .n_parameters = N_PARAMETERS,
    .forward = forward,
    .backward = backward};

/* ---- on the input rows after layer norm, activation and dropout ---- */

static enum sl_status forward_normed_chunk(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    return sl_product(lp, p, c, SL_ROWS_BEFORE, WEIGHT, BIAS, 0, SL_ROWS_Z);
}

static enum sl_status forward_normed(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_activate_input(lp));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_Z));
    return sl_each_chunk(lp, forward_normed_chunk);
}

static enum sl_status backward_normed_chunk(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    SL_CHECK(sl_weight_gradient(lp, p, c, SL_ROWS_BEFORE, SL_ROWS_GZ, WEIGHT, BIAS));
    return sl_product_back(lp, p, c, SL_ROWS_GZ, WEIGHT, SL_ROWS_GBEFORE);
}

static enum sl_status backward_normed(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GBEFORE));
    SL_CHECK(sl_each_chunk(lp, backward_normed_chunk));
    return sl_deactivate_input(lp);
}

const struct sl_layer_kind sl_normed_out = {
    .name = "out", PARAMETERS("out"), .norms_input = true, .forward = forward_normed, .backward = backward_normed};
