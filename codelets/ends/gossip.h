/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Gossip: combine arrays of several replicas into one.
 *   before: reduce.h (gradients) or optimize.h (weights)        after: optimize.h, the next
 *   step
 *
 *   out = scale (source_0 + source_1 + .. + source_(n-1)), entry by entry, summed in double in this order
 *
 * GossipGraD (Daily et al. 2018, arXiv 1803.05880) needs no other formula. Two sources: mix with a partner. One source:
 * a copy, or a change of scale. All replicas: the full average. The sum of two has the same bits in both orders, so
 * partners that mix with each other end with the same bits. The sum of n equal floats divided by n is that float.
 */
#ifndef SL_CODELETS_GOSSIP_H
#define SL_CODELETS_GOSSIP_H

#include <stddef.h>

#include "support/real.h"
#include "support/status.h"
#include "tasks/task.h"

/* n >= 1 sources of n_entries each. out is not a source. The same bits on both devices. */
SL_DECLARE_LAUNCHER(void, sl_gossip_mix, uint32_t n, size_t n_entries, const sl_real *const *sources, double scale,
                    sl_real *out);

/* All handles are matrices of one shape; n >= 1. Local, one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_gossip_mix_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *sources,
                                    double scale, starpu_data_handle_t out);

#endif
