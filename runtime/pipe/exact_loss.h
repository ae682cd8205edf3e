/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The exact loss: the loss of an epoch if all its rows were fresh, with the same weights and dropout masks. History
 * is not touched.
 */
#ifndef SL_RUNTIME_PIPE_EXACT_LOSS_H
#define SL_RUNTIME_PIPE_EXACT_LOSS_H

#include "runtime/pipe/pipe.h"

/* Submit the exact loss. Call after sl_layer_derive of all layers and before their update. loss: one double.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_exact_loss(const struct sl_pipe *pipe, uint64_t epoch, double dropout,
                                  starpu_data_handle_t loss);

/* Submit, for the chunks in hand and with the last layer as lp: partial losses of the training vertices, and GZ.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_loss(struct sl_pipe *pipe, const struct sl_layer_pass *lp);

#endif
