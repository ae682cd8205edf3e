/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * GCNII (Chen et al. 2020): s = (1 - alpha) P h + alpha h0 and z = (1 - beta) s + beta s W = s W'. For layer l = 1,
 * 2, .., beta = ln(lambda / l + 1). P is as in gcn.c. h0 is the output of the model's first layer, without dropout;
 * the first GCNII layer applies dropout to its input h = h0 itself.
 *
 *   derive    W' = (1 - beta) I + beta W, once a step
 *   forward   h travels; s = alpha h0 on the self rows, += (1 - alpha) P h; z = s W'
 *   backward  gs = gz W'^T travels back; gh = (1 - alpha) P^T gs; gh0 += alpha gs on the self rows */
#include <math.h>

#include "codelets/rows/blend.h"
#include "codelets/rows/derive.h"
#include "runtime/model/activation.h"
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

enum { WEIGHT, DERIVED, N_PARAMETERS };

static double alpha_of(const struct sl_layer_pass *lp)
{
    return 1 - lp->layer->scale;
}

/* The rows of h0, or of its gradient, for the vertices of chunk c. */
static struct sl_blend_rows initial_rows(const struct sl_layer_pass *lp, uint32_t p, uint32_t c, enum sl_role role)
{
    const struct sl_rows *rows = &lp->pass->pe[p].layer[0][role];
    uint32_t row = sl_layer_pass_chunk_row(lp, p, lp->level, c);
    uint32_t shift = rows->split.shift;
    return (struct sl_blend_rows){rows->chunk[row >> shift], row & ((1u << shift) - 1)};
}

/* ---- W' ---- */

static enum sl_status derive(const struct sl_layer_pass *lp, uint32_t replica)
{
    const struct sl_parameter *p = lp->pass->model[replica].layer[lp->i].parameter;
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, replica));
    return sl_derive_identity_submit(&head, 1 - lp->layer->identity, lp->layer->identity, p[WEIGHT].value_handle,
                                     p[DERIVED].value_handle);
}

static enum sl_status derive_back(const struct sl_layer_pass *lp, uint32_t replica)
{
    const struct sl_parameter *p = lp->pass->model[replica].layer[lp->i].parameter;
    struct sl_task_args head = sl_layer_pass_head(lp, sl_plan_first_of(lp->pass->plan, replica));
    return sl_blend_submit(&head, SL_STAGE_SYNC, p[WEIGHT].n_rows, lp->layer->identity,
                           (struct sl_blend_rows){p[DERIVED].gradient_handle, 0}, 0,
                           (struct sl_blend_rows){p[WEIGHT].gradient_handle, 0});
}

/* ---- forward ---- */

static enum sl_status begin(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    struct sl_blend_rows to = {sl_layer_pass_rows(lp, p, SL_ROWS_SUM)->chunk[c], 0};
    return sl_blend_submit(&head, SL_STAGE_AGGREGATE, sl_handle_rows(to.handle), alpha_of(lp),
                           initial_rows(lp, p, c, SL_ROWS_H), 0, to);
}

static enum sl_status combine(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    SL_CHECK(lp->pass->source->sum(lp, p, c, 1, sl_layer_pass_rows(lp, p, SL_ROWS_SUM)->chunk[c]));
    if (sl_layer_pass_ends(lp)) {
        return sl_product(lp, p, c, SL_ROWS_SUM, DERIVED, SL_NO_PARAMETER, 0, SL_ROWS_Z);
    }
    return SL_OK;
}

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    if (lp->layer->activates_input) {
        SL_CHECK(sl_activate_input(lp));
    }
    return sl_sum_chunks(lp, SL_ROWS_Z, begin, combine);
}

/* ---- backward ---- */

/* Clear the sum of h0's gradients over all layers. The last layer, which runs backward first, calls this. */
static enum sl_status open_initial(const struct sl_layer_pass *lp, uint32_t p)
{
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    struct sl_pass_pe *pe = &lp->pass->pe[p];
    struct sl_rows *g = &pe->layer[0][SL_ROWS_GINITIAL];
    uint32_t level = lp->pass->model->layer[0].level;
    SL_CHECK(sl_rows_reshape(&pe->split[level], lp->layer->n_in, SL_DTYPE_REAL, g));
    for (uint32_t c = 0; c < g->split.n_chunks; c++) {
        SL_CHECK(sl_blend_clear_submit(&head, SL_STAGE_BACKWARD, g->chunk[c]));
    }
    return SL_OK;
}

/* Add this layer's gradient of h0. */
static enum sl_status return_initial(const struct sl_layer_pass *lp, uint32_t p)
{
    const struct sl_rows *ga = sl_layer_pass_rows(lp, p, SL_ROWS_GA);
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    if (lp->pass->model->layer[lp->i + 1].last) {
        SL_CHECK(open_initial(lp, p));
    }
    for (uint32_t c = 0; c < ga->split.n_chunks; c++) {
        struct sl_blend_rows from = {ga->chunk[c], 0};
        SL_CHECK(sl_blend_submit(&head, SL_STAGE_BACKWARD, sl_split_size(&ga->split, c), alpha_of(lp), from, 1,
                                 initial_rows(lp, p, c, SL_ROWS_GINITIAL)));
    }
    return SL_OK;
}

/* The first GCNII layer adds the summed gradient of h0 to the gradient of its input, which is h0 too. */
static enum sl_status hand_down(const struct sl_layer_pass *lp, uint32_t p)
{
    struct sl_rows *g = &lp->pass->pe[p].layer[0][SL_ROWS_GINITIAL];
    struct sl_task_args head = sl_layer_pass_head(lp, p);
    if (lp->i == 1) {
        for (uint32_t c = 0; c < g->split.n_chunks; c++) {
            struct sl_blend_rows from = {g->chunk[c], 0};
            struct sl_blend_rows to = {sl_layer_pass_rows(lp, p, SL_ROWS_GINPUT)->chunk[c], 0};
            SL_CHECK(sl_blend_submit(&head, SL_STAGE_BACKWARD, sl_split_size(&g->split, c), 1, from, 1, to));
        }
    }
    return SL_OK;
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    SL_CHECK(sl_convolve_gradients(lp, DERIVED, SL_NO_PARAMETER));
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(return_initial(lp, p));
    }
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        struct sl_rows *g = lp->layer->activates_input ? sl_layer_pass_rows(lp, p, SL_ROWS_GBEFORE)
                                                       : sl_layer_pass_rows(lp, p, SL_ROWS_GINPUT);
        SL_CHECK(lp->pass->source->sum_back(lp, p, g));
    }
    if (lp->layer->activates_input) {
        SL_CHECK(sl_deactivate_input(lp));
    }
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(hand_down(lp, p));
    }
    return SL_OK;
}

static void shape(const struct sl_settings *settings, struct sl_layer *layer)
{
    layer->activates_input = layer->number == 0; /* h0 has no dropout */
    layer->scale = 1 - settings->alpha;
    layer->identity = log(settings->lambda / (layer->number + 1) + 1);
}

/* Names and shapes as in GCN2Conv of both libraries with shared weights. Its matrices are [n_in x n_out]. */
const struct sl_layer_kind sl_gcnii = {
    .name = "gcnii",
    .parameter =
        {[WEIGHT] = {SL_SHAPE_MATRIX, {{"layers.#.weight1", 0}, {"convs.#.weight1", 0}}, .key = 1, .by_derived = true},
         [DERIVED] = {.shape = SL_SHAPE_DERIVED}},
    .n_parameters = N_PARAMETERS,
    .sum = &sl_sum_symmetric,
    .reads_first = true,
    .shape = shape,
    .rows = sl_declare_sum,
    .forward = forward,
    .backward = backward,
    .derive = derive,
    .derive_back = derive_back,
};
