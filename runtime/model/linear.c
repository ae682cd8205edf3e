/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * First and last layers of a model, which do not aggregate: z = h W + b for every row. The layer is linear, or ends
 * in an activation, or applies layer norm, ReLU and dropout to its input first. */
#include "codelets/dense.h"
#include "runtime/model/activation.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"

enum { WEIGHT, BIAS, N_PARAMETERS };

/* ---- on the input rows as they are ---- */

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        const struct sl_rows *z = sl_layer_pass_rows(lp, p, sl_layer_pass_result(lp));
        starpu_data_handle_t bias = sl_layer_pass_value(lp, p, BIAS);
        SL_TRY(st, sl_layer_pass_shape(lp, p, sl_layer_pass_result(lp)), done);
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            uint32_t row = sl_layer_pass_chunk_row(lp, p, lp->level, c);
            SL_TRY(st, sl_multiply(lp, p, row, WEIGHT, bias, 0, z->chunk[c]), done);
        }
    }
done:
    return st;
}

static enum sl_status backward_rows(const struct sl_layer_pass *lp, uint32_t p)
{
    const struct sl_rows *gz = sl_layer_pass_rows(lp, p, sl_layer_pass_result_gradient(lp));
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    enum sl_status st = SL_OK;
    if (lp->i > 0) {
        SL_TRY(st, sl_layer_pass_shape(lp, p, SL_ROWS_GINPUT), done);
    }
    for (uint32_t c = 0; c < gz->split.n_chunks; c++) {
        uint32_t row = sl_layer_pass_chunk_row(lp, p, lp->level, c);
        SL_TRY(st, sl_multiply_back(lp, p, row, WEIGHT, BIAS, gz->chunk[c]), done);
        if (lp->i > 0) {
            SL_TRY(st,
                   sl_dense_backward_input_submit(&head, gz->chunk[c], sl_layer_pass_value(lp, p, WEIGHT), 0,
                                                  sl_layer_pass_input_gradient(lp, p)->chunk[c], 0),
                   done);
        }
    }
done:
    return st;
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0, p = 0; st == SL_OK && sl_layer_pass_pe(lp, k, &p); k++) {
        st = backward_rows(lp, p);
    }
    return st;
}

/* Names of PyTorch's Linear, which both libraries use. */
#define PARAMETERS(end)                                                                                                \
    .parameter = {[WEIGHT] = {SL_SHAPE_MATRIX, {{end ".weight", true}, {end ".weight", true}}, .key = 1},              \
                  [BIAS] = {SL_SHAPE_VECTOR, {{end ".bias", 0}, {end ".bias", 0}}, .key = 2, .is_output_bias = true}}, \
    .n_parameters = N_PARAMETERS

const struct sl_layer_kind sl_linear_out = {.name = "out", PARAMETERS("out"), .forward = forward, .backward = backward};

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

/* ---- on the input rows after layer norm, ReLU and dropout ---- */

static enum sl_status forward_normed(const struct sl_layer_pass *lp)
{
    enum sl_status st;
    SL_TRY(st, sl_activate_input(lp), done);
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        const struct sl_rows *z = sl_layer_pass_rows(lp, p, SL_ROWS_Z);
        struct sl_task_args head = sl_layer_pass_head(lp, p);
        SL_TRY(st, sl_layer_pass_shape(lp, p, SL_ROWS_Z), done);
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            SL_TRY(st,
                   sl_dense_forward_submit(&head, sl_layer_pass_rows(lp, p, SL_ROWS_BEFORE)->chunk[c], 0,
                                           sl_layer_pass_value(lp, p, WEIGHT), sl_layer_pass_value(lp, p, BIAS), 0,
                                           z->chunk[c]),
                   done);
        }
    }
done:
    return st;
}

static enum sl_status backward_normed_chunk(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    starpu_data_handle_t gz = sl_layer_pass_rows(lp, p, SL_ROWS_GZ)->chunk[c];
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    enum sl_status st;
    SL_TRY(st, sl_weight_gradient(lp, p, c, SL_ROWS_BEFORE, SL_ROWS_GZ, WEIGHT, BIAS), done);
    st = sl_dense_backward_input_submit(&head, gz, sl_layer_pass_value(lp, p, WEIGHT), 0,
                                        sl_layer_pass_rows(lp, p, SL_ROWS_GBEFORE)->chunk[c], 0);
done:
    return st;
}

static enum sl_status backward_normed(const struct sl_layer_pass *lp)
{
    enum sl_status st = SL_OK;
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_TRY(st, sl_layer_pass_shape(lp, p, SL_ROWS_GBEFORE), done);
        for (uint32_t c = 0; c < lp->pass->pe[p].split[lp->level].n_chunks; c++) {
            SL_TRY(st, backward_normed_chunk(lp, p, c), done);
        }
    }
    st = sl_deactivate_input(lp);
done:
    return st;
}

const struct sl_layer_kind sl_normed_out = {
    .name = "out", PARAMETERS("out"), .norms_input = true, .forward = forward_normed, .backward = backward_normed};
