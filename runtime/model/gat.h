/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the layers with attention share: gat.c and rgat.c.
 */
#ifndef SL_RUNTIME_MODEL_GAT_H
#define SL_RUNTIME_MODEL_GAT_H

#include "runtime/model/pass.h"

/* For the kind's table (runtime/model/layer.h). The last layer has one head. */
void sl_attention_rows(const struct sl_layer *layer, struct sl_layer_order *order);
void sl_attention_shape(const struct sl_settings *settings, struct sl_layer *layer);

/* The derived matrix (codelets/derive.h) is computed from the parameters that the kind marks by_derived: W and both
 * vectors, in this order, of all relations side by side. */
enum sl_status sl_attention_derive(const struct sl_layer_pass *lp, uint32_t replica);
enum sl_status sl_attention_derive_back(const struct sl_layer_pass *lp, uint32_t replica);

#endif
