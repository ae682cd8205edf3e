/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The loss that an epoch would have if all its rows were fresh: the same weights, the same dropout masks, no history touched.
 */
#ifndef SL_RUNTIME_PIPE_EXACT_H
#define SL_RUNTIME_PIPE_EXACT_H

#include "runtime/pipe/pipe.h"

/* Submit, after sl_layer_derive of all layers and before their update. loss: one double. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_exact_loss(const struct sl_pipe *pipe, uint64_t epoch, double dropout,
                                  starpu_data_handle_t loss);

/* Of the chunks in hand, at the last layer: partial losses of their training vertices, and GZ. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_loss(struct sl_pipe *pipe, const struct sl_layer_pass *lp);

#endif
