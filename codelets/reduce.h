/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * All-reduce of a gradient, as the ordered sum of the partial gradients of PEs and chunks.
 *   before: backward, codelets/dense.h and codelets/activate.h      after: codelets/optimize.h
 *
 *   out = partial_0 + partial_1 + .. + partial_(n-1), entry by entry, always in this order
 *
 * If rows are in segments (struct sl_runs), one handle has several partials, one below the other.
 */
#ifndef SL_CODELETS_REDUCE_H
#define SL_CODELETS_REDUCE_H

#include <stddef.h>

#include "support/real.h"
#include "support/status.h"
#include "tasks/task.h"

/* Sum n >= 1 partials of n_entries each into out. */
void sl_reduce_cpu(uint32_t n, size_t n_entries, const sl_real *const *partials, sl_real *out);

#ifdef SL_CUDA
/* The same bits on the stream's device. n may be 0: out is cleared. partials: host array of device addresses, read
 * before the call returns. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_reduce_cuda(cudaStream_t stream, uint32_t n, size_t n_entries,
                                          const sl_real *const *partials, sl_real *out);
#endif

/* Submit the sum of all partials of n handles. Each handle has one or more matrices of out's shape. n may be 0:
 * out is cleared. Local; one thread submits. SL_EINVAL: wrong shapes. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_reduce_submit(const struct sl_task_args *head, uint32_t n, const starpu_data_handle_t *partials,
                                starpu_data_handle_t out);

#endif
