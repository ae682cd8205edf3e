/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * All kinds of layers, and the models made of them. Each kind is a table in a file of its own.
 */
#ifndef SL_RUNTIME_MODEL_KINDS_H
#define SL_RUNTIME_MODEL_KINDS_H

#include "codelets/ends/pairs.h"
#include "runtime/model/layer.h"
#include "runtime/model/sums.h"

/* Number of layers of the model that the settings describe, with the layer `ends` if it is trained on links. */
uint32_t sl_model_layers(const struct sl_settings *settings);

/* Whether the model's sums read vertex factors (sl_shards_weigh). The pipeline reads them with every sum. */
bool sl_model_reads_factors(const struct sl_settings *settings);

/* Whether the model's sums read the relations of edges. */
bool sl_model_reads_relations(const struct sl_settings *settings);

/* Whether a residual connection adds the features to the first layer's output. */
bool sl_model_adds_features(const struct sl_settings *settings, uint32_t n_features);

/* Whether the first layer's kernels on CPUs can read dense features of a dtype narrower than the rows' in place.
 * False: the features must be converted into rows. */
bool sl_model_reads_narrow(const struct sl_settings *settings, uint32_t n_features, enum sl_dtype dtype);

/* The first layer, if it does not aggregate: the model's, or that of --input-layer. Else NULL. */
const struct sl_layer_kind *sl_model_first(const struct sl_settings *settings);

/* The model kind for a value of settings->model. */
const struct sl_model_kind *sl_model_kind(int model);

/* Layers that aggregate. */
extern const struct sl_layer_kind sl_sage;        /* Hamilton et al. 2017, mean aggregator */
extern const struct sl_layer_kind sl_gcn;         /* Kipf, Welling 2017 */
extern const struct sl_layer_kind sl_gat;         /* Velickovic et al. 2018 */
extern const struct sl_layer_kind sl_gatv2;       /* Brody et al. 2022 */
extern const struct sl_layer_kind sl_gcnii;       /* Chen et al. 2020 */
extern const struct sl_layer_kind sl_gin;         /* Xu et al. 2019 */
extern const struct sl_layer_kind sl_rgcn;        /* Schlichtkrull et al. 2018 */
extern const struct sl_layer_kind sl_rgcn_bases;  /* the same with --bases */
extern const struct sl_layer_kind sl_sage_adding; /* --edge-features add */
extern const struct sl_layer_kind sl_rgcn_adding; /* the same by relation */
extern const struct sl_layer_kind sl_rgat;        /* sl_gat for each relation */
extern const struct sl_layer_kind sl_resgcn;      /* Li et al. 2020, with graph convolutions */

/* First and last layers, which do not aggregate: z = h W + b for every row. sl_linear_in and sl_linear_out are linear.
 * sl_activated_in and sl_dense_out end in an activation, except in a last layer. sl_normed_out first applies layer
 * norm, activation and dropout to its input. */
extern const struct sl_layer_kind sl_linear_in;
extern const struct sl_layer_kind sl_activated_in;
extern const struct sl_layer_kind sl_vectors_in; /* as sl_activated_in, for --input-layer */
extern const struct sl_layer_kind sl_linear_out;
extern const struct sl_layer_kind sl_dense_out; /* each of --output-layers */
extern const struct sl_layer_kind sl_normed_out;

/* After the last layer, if links are trained: the rows of the links' ends, and the parameters of the decoder
 * (enum sl_decoder_name). */
const struct sl_layer_kind *sl_ends(int decoder);

/* The decoder of a model that is trained on links. Its arrays are in main memory, as sl_model_acquire gives them. */
struct sl_decoder sl_model_decoder(const struct sl_model *model);

/* ---- declarations of rows: they tell a pass when to shape and release rows (pass.h); the memory estimate counts them
 * (runtime/train/memory_need.h) ---- */

/* Fill order->row, product, travelling and returning. All other members of the layer and of the order are set. */
void sl_layer_declare_rows(const struct sl_layer *layer, struct sl_layer_order *order);

/* For sl_layer_kind.rows, which may set order->product before. Rows of a layer that sums its input rows, then
 * multiplies: the sum and its gradient. */
void sl_declare_sum(const struct sl_layer *layer, struct sl_layer_order *order);

/* Rows of a layer that multiplies first: y, which dies at `end`, and its gradient. */
void sl_declare_projected(const struct sl_layer *layer, enum sl_row_end end, struct sl_layer_order *order);

/* sl_declare_sum or, if the order says so, sl_declare_projected. */
void sl_declare_convolution(const struct sl_layer *layer, struct sl_layer_order *order);

/* Whether the layer sums over in-neighbours. */
static inline bool sl_layer_aggregates(const struct sl_layer *layer)
{
    return layer->kind->sum != NULL;
}

/* The activation of the input rows, if the layer activates them. Rows that no layer norm changes are activated already:
 * they only get dropout. */
static inline enum sl_activate_kind sl_layer_input_activation(const struct sl_layer *layer)
{
    return layer->kind->norms_input ? layer->activation : SL_ACTIVATE_IDENTITY;
}

/* The layer's parameter of a derived shape, which its kind has once. */
static inline int sl_layer_derived(const struct sl_layer *layer, enum sl_parameter_shape shape)
{
    int k = 0;
    while (layer->kind->parameter[k].shape != shape) {
        k++;
    }
    return k;
}

/* The number of matrices that the layer has side by side or one above the other: one, or one for each relation. */
static inline uint32_t sl_layer_slabs(const struct sl_layer *layer)
{
    return sl_layer_aggregates(layer) && layer->kind->sum->by_relation ? layer->n_relations : 1;
}

#endif
