/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Runs a layer of any kind through the functions in its kind's table. A hidden layer ends with
 * h = dropout(activation(norm(z))) (+ the layer's input); the backward pass begins with the adjoint. Batch norm takes
 * its statistics over groups (codelets/rows/activate.h, batchnorm.h).
 */
#ifndef SL_RUNTIME_MODEL_ACTIVATION_H
#define SL_RUNTIME_MODEL_ACTIVATION_H

#include "runtime/model/pass.h"

/* Submit once a step, before the layer runs: derived parameters, for each replica that this rank trains. */
enum sl_status sl_layer_derive(const struct sl_layer_pass *lp);

/* Submit a layer with its activation, if it has one. Forward: Z and H from the input rows. Backward: all gradients
 * from GH, or from GZ in the last layer. A single thread submits, in order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_layer_run(const struct sl_layer_pass *lp);
enum sl_status sl_layer_run_back(const struct sl_layer_pass *lp);

/* The hop that keys the dropout masks. `own`: the masks of a layer's output, or of the input of a layer whose output
 * has no masks. In a layer that aggregates they have the layer's level. All other masks have a hop that no level has.
 * Each of --output-layers has one of its own. */
uint32_t sl_layer_mask_hop(const struct sl_model *model, const struct sl_layer *layer, bool own);

/* For a layer that activates its input rows first, all PEs in hand: compute BEFORE from the input, and the gradient of
 * the input from GBEFORE. The writers of the rows have been submitted. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_activate_input(const struct sl_layer_pass *lp);
enum sl_status sl_deactivate_input(const struct sl_layer_pass *lp);

#endif
