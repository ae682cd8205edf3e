/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The last layer of a model that is trained on links: the rows of the links' ends (codelets/sampling/link_seeds.h).
 * Each row of the output has one edge, so that the mean over its edges is the row of its vertex. The layer runs in
 * training only. Its parameters are those of the decoder: the objective reads them, and makes their gradients
 * (codelets/ends/pairs.h).
 *
 *   forward   H of the ends travels; z = the row of each end
 *   backward  gz travels back; gh = the sum of gz over all rows of a vertex */
#include "runtime/model/kinds.h"
#include "runtime/model/pass.h"
#include "runtime/model/sums.h"

static enum sl_status sum_chunk(const struct sl_layer_pass *lp, uint32_t p, uint32_t c)
{
    return lp->pass->source->sum(lp, p, c, 0, sl_layer_pass_rows(lp, p, SL_ROWS_Z)->chunk[c]);
}

static enum sl_status forward(const struct sl_layer_pass *lp)
{
    SL_CHECK(lp->pass->source->send(lp));
    SL_CHECK(sl_layer_pass_shape_all(lp, SL_ROWS_Z));
    SL_CHECK(sl_each_chunk(lp, sum_chunk));
    lp->pass->source->arrived(lp);
    return SL_OK;
}

static enum sl_status backward(const struct sl_layer_pass *lp)
{
    SL_CHECK(lp->pass->source->send_back(lp));
    for (uint32_t k = 0, p = 0; sl_layer_pass_pe(lp, k, &p); k++) {
        SL_CHECK(lp->pass->source->sum_back(lp, p, sl_layer_pass_rows(lp, p, SL_ROWS_GINPUT)));
    }
    return SL_OK;
}

static void rows(const struct sl_layer *layer, struct sl_layer_order *order)
{
    (void)layer;
    order->returning = SL_ROWS_GZ;
}

#define ENDS .name = "ends", .sum = &sl_sum_mean, .rows = rows, .forward = forward, .backward = backward

/* By decoder. Its arrays are the layer's parameters. DistMult's name is that of DGL's example (link.py of rgcn) and of
 * PyTorch Geometric's; mlp's are those of OGB's LinkPredictor. */
static const struct sl_layer_kind kinds[] = {
    [SL_DECODER_DOT] = {ENDS},
    [SL_DECODER_DISTMULT] = {ENDS,
                             .parameter = {[SL_DISTMULT_R] = {SL_SHAPE_RELATION_ROWS,
                                                              {{"w_relation", false}, {"decoder.rel_emb", false}},
                                                              .key = 0}},
                             .n_parameters = SL_DISTMULT_ARRAYS},
    [SL_DECODER_MLP] =
        {ENDS,
         .parameter = {[SL_MLP_W] = {SL_SHAPE_MATRIX,
                                     {{"predictor.lins.0.weight", true}, {"predictor.lins.0.weight", true}},
                                     .key = 0},
                       [SL_MLP_B] = {SL_SHAPE_VECTOR,
                                     {{"predictor.lins.0.bias", false}, {"predictor.lins.0.bias", false}},
                                     .key = 1},
                       [SL_MLP_V] = {SL_SHAPE_ROW,
                                     {{"predictor.lins.1.weight", false}, {"predictor.lins.1.weight", false}},
                                     .key = 2},
                       [SL_MLP_C] = {SL_SHAPE_SCALAR,
                                     {{"predictor.lins.1.bias", false}, {"predictor.lins.1.bias", false}},
                                     .key = 3}},
         .n_parameters = SL_MLP_ARRAYS},
};

const struct sl_layer_kind *sl_ends(int decoder)
{
    return &kinds[decoder];
}

struct sl_decoder sl_model_decoder(const struct sl_model *model)
{
    const struct sl_layer *layer = &model->layer[model->n_vertex_layers];
    struct sl_decoder out = {.name = (enum sl_decoder_name)(layer->kind - kinds), .n_columns = layer->n_in};
    out.n_relations = layer->n_relations;
    for (uint32_t k = 0; k < layer->kind->n_parameters; k++) {
        out.array[k] = layer->parameter[k].value;
    }
    return out;
}
