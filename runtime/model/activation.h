/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The end of a hidden layer of any kind: h = dropout(ReLU(norm(z))) (+ the layer's input), and its adjoint. Batch
 * norm takes its statistics over groups (codelets/activate.h, batchnorm.h).
 */
#ifndef SL_RUNTIME_MODEL_ACTIVATION_H
#define SL_RUNTIME_MODEL_ACTIVATION_H

#include "runtime/model/pass.h"

/* For all PEs in hand. sl_activate: compute H and the gate from Z. sl_deactivate: compute GZ from GH. The writers of
 * all rows of Z have been submitted. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_activate(const struct sl_layer_pass *lp);
enum sl_status sl_deactivate(const struct sl_layer_pass *lp);

/* The same for a layer that activates its input rows first: compute BEFORE from the input, and the gradient
 * of the input from GBEFORE. */
enum sl_status sl_activate_input(const struct sl_layer_pass *lp);
enum sl_status sl_deactivate_input(const struct sl_layer_pass *lp);

#endif
