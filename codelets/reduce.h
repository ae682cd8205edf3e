/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 11, synchronise: the all-reduce of a gradient, as the ordered sum of the partials that PEs and chunks have left.
 *   before: backward, codelets/dense.h and codelets/activate.h      after: codelets/optimize.h
 *
 *   out = partial_0 + partial_1 + .. + partial_(n-1), entry by entry, in this order whatever the scheduler does. Where rows are in runs
 *   (struct sl_runs), a handle has several partials, one below the other.
 */
#ifndef SL_CODELETS_REDUCE_H
#define SL_CODELETS_REDUCE_H

#include <stddef.h>

#include "codelets/task.h"
#include "support/real.h"
#include "support/status.h"

/* n >= 1 partials of n_entries each. */
void sl_reduce_cpu(uint32_t n, size_t n_entries, const sl_real *const *partials, sl_real *out);

#ifdef SL_CUDA
/* The same bits on the stream's device, n >= 0 (none: out is cleared). partials: an array of the host, read before this returns,
 * of addresses on the device. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_reduce_cuda(cudaStream_t stream, uint32_t n, size_t n_entries,
                                          const sl_real *const *partials, sl_real *out);
#endif

/* Handles of partials, each of one or more matrices of the sum's shape. n may be 0: out is cleared. Local, one thread submits; SL_EINVAL on shapes,
 * SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_reduce_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *partials,
                                starpu_data_handle_t out);

#endif
