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

/* Parameters of one replica: W and both vectors, of all relations side by side, and the derived matrix
 * (codelets/derive.h). */
struct sl_attention {
    const struct sl_parameter *weight, *source, *target, *derived;
};

/* Submit the derived matrix; the gradients of the parameters from its gradient. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_attention_derive(const struct sl_layer_pass *lp, uint32_t replica, const struct sl_attention *at);
enum sl_status sl_attention_derive_back(const struct sl_layer_pass *lp, uint32_t replica,
                                        const struct sl_attention *at);

#endif
