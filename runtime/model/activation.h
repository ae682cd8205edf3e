/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The end of a hidden layer, whatever its kind: h = dropout(ReLU(norm(z))) (+ the layer's input), and its adjoint; batch norm's
 * statistics over the groups (codelets/activate.h, batchnorm.h).
 */
#ifndef SL_RUNTIME_MODEL_ACTIVATION_H
#define SL_RUNTIME_MODEL_ACTIVATION_H

#include "runtime/model/pass.h"

/* Submit, for all PEs: H and the gate from Z; GZ from GH. Z of all rows is there, or submitted. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_activate(const struct sl_layer_pass *lp);
enum sl_status sl_deactivate(const struct sl_layer_pass *lp);

/* The same where it comes first, of the rows that a layer takes in: BEFORE from them; their gradient from GBEFORE. */
enum sl_status sl_activate_input(const struct sl_layer_pass *lp);
enum sl_status sl_deactivate_input(const struct sl_layer_pass *lp);

#endif
