/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A layer of any kind, as its table says.
 */
#ifndef SL_RUNTIME_MODEL_RUN_H
#define SL_RUNTIME_MODEL_RUN_H

#include "runtime/model/pass.h"

/* Once a step, before the layer runs: what is computed from its parameters alone. */
enum sl_status sl_layer_derive(const struct sl_layer_pass *lp);

/* A layer with its activation, where it has one: Z and H from the input rows; from GH, or of the last layer GZ, all
 * gradients. Submissions: one thread, in order. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_layer_run(const struct sl_layer_pass *lp);
enum sl_status sl_layer_run_back(const struct sl_layer_pass *lp);

#endif
