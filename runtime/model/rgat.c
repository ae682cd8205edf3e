/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * R-GAT: graph attention (gat.c) for each relation, and a matrix for the vertex itself. z = h_self W_0 + b + sum over
 * relations r of attention_r(h W_r). A relation's attention is over its in-edges, not over the vertex itself. A
 * relation without in-edges adds nothing. The passes are GraphSAGE's (sage.h), projecting first:
 *
 *   derive    W' has a slab [W_r | W_r attn_src_r | W_r attn_dst_r] for each relation
 *   forward   U = h W' travels; z = h_self W_0 + b + attention of U (codelets/attend.h)
 *   backward  the gradients of U travel back; gh = gU W'^T, then += gz W_0^T on the self rows */
#include "runtime/model/gat.h"
#include "runtime/model/kinds.h"
#include "runtime/model/sage.h"
#include "runtime/model/sums.h"

enum { DERIVED = SL_SAGE_NEIGH, WEIGHT = SL_SAGE_PARAMETERS, SOURCE, TARGET, N_PARAMETERS };

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    enum sl_status st = sl_layer_pass_shape_all(lp, SL_ROWS_SCALES);
    return st == SL_OK ? sl_sage_forward(lp) : st;
}

/* Names as in rgcn.c, attention vectors as in gat.c. An array of all relations is a stack of those of GATConv. */
const struct sl_layer_kind sl_rgat = {
    .name = "rgat",
    .parameter =
        {[SL_SAGE_SELF] = {SL_SHAPE_MATRIX, {{"layers.#.loop_weight", false}, {"convs.#.root", false}}, .key = 0},
         [DERIVED] = {.shape = SL_SHAPE_DERIVED},
         [SL_SAGE_BIAS] =
             {SL_SHAPE_VECTOR, {{"layers.#.h_bias", false}, {"convs.#.bias", false}}, .key = 2, .is_output_bias = true},
         [WEIGHT] = {SL_SHAPE_RELATIONS,
                     {{"layers.#.linear_r.W", false}, {"convs.#.weight", false}},
                     .key = 1,
                     .by_derived = true},
         [SOURCE] =
             {SL_SHAPE_HEADS, {{"layers.#.attn_l", false}, {"convs.#.att_src", false}}, .key = 5, .by_derived = true},
         [TARGET] =
             {SL_SHAPE_HEADS, {{"layers.#.attn_r", false}, {"convs.#.att_dst", false}}, .key = 6, .by_derived = true}},
    .n_parameters = N_PARAMETERS,
    .derived = DERIVED,
    .sum = &sl_sum_attention_by_relation,
    .reads_narrow = true,
    .rows = sl_attention_rows,
    .shape = sl_attention_shape,
    .forward = forward,
    .backward = sl_sage_backward,
    .derive = sl_attention_derive,
    .derive_back = sl_attention_derive_back,
};
