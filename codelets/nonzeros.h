/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The end of the sampling phase where features are sparse: how many nonzeros the rows of a PE's last frontier have, which dense
 * rows need no task for. The number travels to the host with the other sizes of the sample; the frontier stays where it is.
 *   before: codelets/exchange.h (merge) gives the last frontier      after: the host reads the counts
 *
 *   n = sum over i < |S_p^L| of offsets[v_i + 1] - offsets[v_i], v_i = frontier[i] - first: the row in the part's CSR features
 *
 * The sum is of uint64, and the same whatever the order.
 */
#ifndef SL_CODELETS_NONZEROS_H
#define SL_CODELETS_NONZEROS_H

#include "codelets/task.h"
#include "support/real.h"
#include "support/status.h"

/* offsets: of the part's rows, whose first is id `first`. ids: n_rows renumbered ids of the part. */
uint64_t sl_nonzeros_cpu(uint32_t n_rows, const sl_vertex *ids, uint32_t first, const uint64_t *offsets);

#ifdef SL_CUDA
/* The same on the stream's device, whose memory all pointers are of. n_rows: at most max_rows, which the launch is cut for. n_out is
 * eight bytes aligned. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_nonzeros_cuda(cudaStream_t stream, uint32_t max_rows, const uint32_t *n_rows,
                                            const sl_vertex *ids, uint32_t first, const uint64_t *offsets,
                                            uint64_t *n_out);
#endif

/* Writes the nonzeros among the counts (codelets/sample.h) of a sample of n_hops hops in a group of n_parts. frontier: ids of the
 * part, as many as the counts say for level L = n_hops, and head->hop is L; offsets: uint64, of the part. Sampling phase; local, one
 * thread submits; SL_EINVAL on shapes, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_nonzeros_submit(const struct sl_task_args *head, uint32_t n_parts, starpu_data_handle_t frontier,
                                  uint32_t first, starpu_data_handle_t offsets, starpu_data_handle_t counts);

#endif
