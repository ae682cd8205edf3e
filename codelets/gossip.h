/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 11, synchronise by gossip: arrays of several replicas of the model come together in one.
 *   before: codelets/reduce.h (gradients) or codelets/optimize.h (weights)        after: codelets/optimize.h, the next step
 *
 *   out = scale (source_0 + source_1 + .. + source_(n-1)), entry by entry, summed in double in this order.
 *
 * This one formula is all that GossipGraD (Daily et al. 2018, arXiv 1803.05880) computes: with two sources the mixing with a
 * partner, with one a copy or a change of scale, with all replicas the full average. Because the sum of two is the same in both
 * orders, partners that mix with each other hold the same numbers to the bit afterwards; the sum of n equal floats divided by n
 * is that float.
 */
#ifndef SL_CODELETS_GOSSIP_H
#define SL_CODELETS_GOSSIP_H

#include <stddef.h>

#include "codelets/task.h"
#include "support/real.h"
#include "support/status.h"

/* n >= 1 sources of n_entries each; out is none of them. */
void sl_gossip_mix_cpu(uint32_t n, size_t n_entries, const sl_real *const *sources, double scale, sl_real *out);

#ifdef SL_CUDA
#define SL_GOSSIP_MOST 256 /* sources that a GPU takes; a run has no more nodes (runtime/plan/gossip.h) */

/* The same bits on the stream's device. sources: an array of the host, read before this returns, of addresses on the device.
 * SL_EINVAL: more than SL_GOSSIP_MOST. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_gossip_mix_cuda(cudaStream_t stream, uint32_t n, size_t n_entries,
                                              const sl_real *const *sources, double scale, sl_real *out);
#endif

/* All handles are matrices of one shape; n >= 1. Local, one thread submits; SL_EINVAL on shapes and without sources,
 * SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_gossip_mix_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *sources,
                                    double scale, starpu_data_handle_t out);

#endif
