/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * All kinds of layers, each a table in a file of its own, and the models made of them.
 */
#ifndef SL_RUNTIME_MODEL_KINDS_H
#define SL_RUNTIME_MODEL_KINDS_H

#include "runtime/model/layer.h"

/* Layers of the model that the settings describe. */
uint32_t sl_model_layers(const struct sl_settings *settings);

/* By the value of settings->model, in the order of its choices. */
const struct sl_model_kind *sl_model_kind(int model);

/* Layers that aggregate. */
extern const struct sl_layer_kind sl_sage;   /* Hamilton et al. 2017, mean aggregator */
extern const struct sl_layer_kind sl_gcn;    /* Kipf, Welling 2017 */
extern const struct sl_layer_kind sl_gat;    /* Velickovic et al. 2018 */
extern const struct sl_layer_kind sl_gcnii;  /* Chen et al. 2020 */
extern const struct sl_layer_kind sl_resgcn; /* Li et al. 2020, with graph convolutions */

/* Layers at the ends of a model, h W + b of every row: linear, or with an activation after it or, with layer norm, before it. */
extern const struct sl_layer_kind sl_linear_in;
extern const struct sl_layer_kind sl_activated_in;
extern const struct sl_layer_kind sl_linear_out;
extern const struct sl_layer_kind sl_normed_out;

#endif
