/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Graph isomorphism network (Xu et al. 2019): s = (1 + e) h + sum of h over in-neighbours, t = s W1 + b1,
 * z = f(t) W2 + b2. f is the activation. e is a number of the layer, learned or fixed. A sample gives an unbiased
 * estimate of s (codelets/sums/aggregate.h).
 *
 *   summing first      forward: h travels; s = e h_self, += sum of h with h_self; t = s W1 + b1
 *                      backward: gs = gt W1^T travels back; gh = adjoint of the sum, += e gs on the self rows
 *   projecting first   forward: y = h W1 travels; t = b1 + e y_self, += sum of y with y_self
 *                      backward: gt travels back; gy = adjoint of the sum, += e gt on the self rows; gh = gy W1^T
 *
 *   ge = sum of gs h_self, or of gt y_self. gt = f'(t) gz W2^T. */
#include "codelets/rows/activate.h"
#include "codelets/rows/blend.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

enum { EPSILON, W1, B1, W2, B2, N_PARAMETERS };

/* The activation, without norm and dropout. */
static struct sl_activate_layer plain(const struct sl_layer_pass *lp)
{
    return (struct sl_activate_layer){.norm = SL_ACTIVATE_PLAIN, .kind = lp->layer->activation};
}

/* ---- forward ---- */

/* The start of the sum: e h_self, or b1 + e y_self. */
static enum sl_status begin(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    bool project_first = sl_layer_pass_order(lp)->project_first;
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    struct sl_layer_pass_place place = sl_layer_pass_self(lp, p, c);
    starpu_data_handle_t self = sl_layer_pass_travels(lp, p)->chunk[place.chunk];
    starpu_data_handle_t out = sl_layer_pass_rows(lp, p, project_first ? SL_ROWS_T : SL_ROWS_SUM)->chunk[c];
    if (project_first) {
        SL_CHECK(sl_bias(lp, p, B1, out));
    }
    return sl_blend_learned_submit(&head, SL_STAGE_AGGREGATE, sl_handle_rows(out), sl_layer_pass_value(lp, p, EPSILON),
                                   (struct sl_blend_rows){self, place.row}, project_first,
                                   (struct sl_blend_rows){out, 0});
}

/* z from t. */
static enum sl_status finish(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    const struct sl_activate_layer f = plain(lp);
    SL_CHECK(sl_activate_forward_submit(&head, &f, 0, sl_layer_pass_rows(lp, p, SL_ROWS_T)->chunk[c], NULL, 0,
                                        sl_layer_pass_rows(lp, p, SL_ROWS_GATE_INNER)->chunk[c],
                                        sl_layer_pass_rows(lp, p, SL_ROWS_INNER)->chunk[c]));
    return sl_product(lp, p, c, SL_ROWS_INNER, W2, B2, 0, SL_ROWS_Z);
}

static enum sl_status combine(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    bool project_first = sl_layer_pass_order(lp)->project_first;
    enum sl_role sum = project_first ? SL_ROWS_T : SL_ROWS_SUM;
    SL_CHECK(lp->pass->source->sum(lp, p, c, 1, sl_layer_pass_rows(lp, p, sum)->chunk[c]));
    if (!sl_layer_pass_ends(lp)) {
        return SL_OK;
    }
    if (!project_first) {
        SL_CHECK(sl_product(lp, p, c, SL_ROWS_SUM, W1, B1, 0, SL_ROWS_T));
    }
    return finish(lp, p, c);
}

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_T));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GATE_INNER));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_INNER));
    SL_CHECK(sl_convolve(lp, W1, begin, combine));
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        sl_layer_pass_done(lp, p, SL_ROWS_T); /* backward reads the gate only */
    }
    return SL_OK;
}

/* ---- backward ---- */

/* gt of one chunk. */
static enum sl_status inner_back(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    const struct sl_activate_layer f = plain(lp);
    const struct sl_activate_sums_handles no_sums = {0};
    starpu_data_handle_t g = sl_layer_pass_rows(lp, p, SL_ROWS_GINNER)->chunk[c];
    SL_CHECK(sl_product_back(lp, p, c, SL_ROWS_GZ, W2, SL_ROWS_GINNER));
    return sl_activate_backward_submit(&head, &f, NULL, sl_layer_pass_rows(lp, p, SL_ROWS_GATE_INNER)->chunk[c], g,
                                       &no_sums, sl_layer_pass_rows(lp, p, SL_ROWS_GT)->chunk[c]);
}

/* The gradients of W2, b2, and e. */
static enum sl_status own_gradients(const struct sl_layer_pass *lp, uint32_t p)
{
    const struct sl_layer_order *order = sl_layer_pass_order(lp);
    enum sl_role summed = order->project_first ? SL_ROWS_GT : SL_ROWS_GA;
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    starpu_data_handle_t ge;
    for (uint32_t c = 0; c < lp->pass->pe[p].split[lp->level].n_chunks; c++) {
        struct sl_layer_pass_place place = sl_layer_pass_self(lp, p, c);
        SL_CHECK(sl_weight_gradient(lp, p, c, SL_ROWS_INNER, SL_ROWS_GZ, W2, B2));
        if (lp->layer->learns_epsilon) {
            SL_CHECK(sl_layer_pass_partial(lp, p, EPSILON, &ge));
            SL_CHECK(sl_blend_gradient_submit(
                &head, sl_layer_pass_rows(lp, p, summed)->chunk[c],
                (struct sl_blend_rows){sl_layer_pass_travels(lp, p)->chunk[place.chunk], place.row}, ge));
        }
    }
    return SL_OK;
}

/* On the self rows of the summed rows' gradient: += e gs, or += e gt. */
static enum sl_status self_rows(const struct sl_layer_pass *lp, uint32_t p, const struct sl_rows *to)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    const struct sl_rows *from = sl_layer_pass_returns(lp, p);
    for (uint32_t c = 0; c < from->split.n_chunks; c++) {
        struct sl_layer_pass_place place = sl_layer_pass_self(lp, p, c);
        SL_CHECK(sl_blend_learned_submit(&head, SL_STAGE_BACKWARD, sl_split_size(&from->split, c),
                                         sl_layer_pass_value(lp, p, EPSILON), (struct sl_blend_rows){from->chunk[c], 0},
                                         1, (struct sl_blend_rows){to->chunk[place.chunk], place.row}));
    }
    return SL_OK;
}

static enum sl_status input_back(const struct sl_layer_pass *lp, uint32_t p)
{
    bool project_first = sl_layer_pass_order(lp)->project_first;
    struct sl_rows *to =
        project_first ? sl_layer_pass_rows(lp, p, SL_ROWS_GY) : sl_layer_pass_rows(lp, p, SL_ROWS_GINPUT);
    SL_CHECK(lp->pass->source->sum_back(lp, p, to));
    SL_CHECK(self_rows(lp, p, to));
    if (project_first) {
        SL_CHECK(sl_project_back(lp, p, W1, SL_NO_PARAMETER));
    }
    if (lp->layer->residual && lp->i > 0) {
        return sl_residual_back(lp, p);
    }
    return SL_OK;
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GINNER));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_GT));
    SL_CHECK(sl_each_chunk(lp, inner_back));
    SL_CHECK(sl_convolve_gradients(lp, W1, B1));
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(own_gradients(lp, p));
        if (lp->layer->returns) {
            SL_CHECK(input_back(lp, p));
        }
    }
    return SL_OK;
}

/* ---- the table ---- */

static void rows(const struct sl_layer *layer, struct sl_layer_order *order)
{
    const uint32_t level = layer->level;
    const uint32_t n = layer->n_out;
    order->product = SL_ROWS_GT;
    sl_declare_convolution(layer, order);
    order->row[SL_ROWS_T] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_FORWARD};
    order->row[SL_ROWS_GATE_INNER] =
        (struct sl_layer_row){level, n, sl_activate_gate_dtype(layer->activation), SL_UNTIL_BACKWARD};
    order->row[SL_ROWS_INNER] = (struct sl_layer_row){level, n, layer->row_dtype, SL_UNTIL_BACKWARD};
    order->row[SL_ROWS_GINNER] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_CHUNK};
    order->row[SL_ROWS_GT] = (struct sl_layer_row){level, n, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    if (layer->learns_epsilon && order->project_first) {
        order->row[SL_ROWS_PROJECTED].end = SL_UNTIL_BACKWARD;
    } else if (layer->learns_epsilon) {
        order->row[SL_ROWS_GA] = (struct sl_layer_row){level, layer->n_in, SL_DTYPE_REAL, SL_UNTIL_BACKWARD};
    }
}

static void shape(const struct sl_settings *settings, struct sl_layer *layer)
{
    layer->learns_epsilon = settings->learn_epsilon;
}

/* Names and shapes as in GINConv of both libraries, around Sequential(Linear, ReLU, Linear). */
const struct sl_layer_kind sl_gin = {
    .name = "gin",
    .parameter =
        {[EPSILON] = {SL_SHAPE_NUMBER, {{"layers.#.eps", 0}, {"convs.#.eps", 0}}, .key = 0},
         [W1] = {SL_SHAPE_MATRIX, {{"layers.#.apply_func.0.weight", true}, {"convs.#.nn.0.weight", true}}, .key = 1},
         [B1] = {SL_SHAPE_VECTOR, {{"layers.#.apply_func.0.bias", 0}, {"convs.#.nn.0.bias", 0}}, .key = 2},
         [W2] = {SL_SHAPE_SQUARE, {{"layers.#.apply_func.2.weight", true}, {"convs.#.nn.2.weight", true}}, .key = 5},
         [B2] = {SL_SHAPE_VECTOR,
                 {{"layers.#.apply_func.2.bias", 0}, {"convs.#.nn.2.bias", 0}},
                 .key = 6,
                 .is_output_bias = true}},
    .n_parameters = N_PARAMETERS,
    .sum = &sl_sum_plain,
    .rows = rows,
    .shape = shape,
    .forward = forward,
    .backward = backward,
};
