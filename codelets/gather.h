/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Stage 5, gather: the feature rows of a PE's last frontier, read from the part's table by their owner and nobody else.
 *   before: codelets/exchange.h (merge) gives the frontier      after: pack, aggregate, dense of the first layer
 *
 *   X[i] = table[frontier[row0 + i] - first] * mask, input dropout's mask of (step, hop = L, vertex, column), if any
 *
 * With a cache of hot rows (codelets/hotrows.h) the table stays in main memory, and rows are taken from the cache where it holds
 * them.
 *
 * Sparse features are not gathered: codelets/dense.h reads them where they are.
 */
#ifndef SL_CODELETS_GATHER_H
#define SL_CODELETS_GATHER_H

#include "codelets/hotrows.h"
#include "codelets/task.h"
#include "support/random.h"
#include "support/real.h"

/* table: the part's rows of n_columns numbers, row 0 is id `first`. ids: n_rows renumbered ids of the part. threshold: input
 * dropout (codelets/dropout.h), 0: none, and then draw and dataset_ids are not read. hot: NULL, or the part's cache.
 * x_out [n_rows x n_columns]. */
void sl_gather_cpu(uint32_t n_rows, uint32_t n_columns, const sl_real *table, uint32_t first, const sl_vertex *ids,
                   uint32_t threshold, const struct sl_draw *draw, const sl_vertex *dataset_ids,
                   const struct sl_hotrows *hot, sl_real *x_out);

#ifdef SL_CUDA
/* The same on the stream's device, pointers to its memory but for draw and hot, and but for the table where there is a cache:
 * that is then pinned main memory. SL_ECUDA. */
SL_EXTERN_C enum sl_status sl_gather_cuda(cudaStream_t stream, uint32_t n_rows, uint32_t n_columns,
                                          const sl_real *table, uint32_t first, const sl_vertex *ids,
                                          uint32_t threshold, const struct sl_draw *draw, const sl_vertex *dataset_ids,
                                          const struct sl_hotrows *hot, sl_real *x_out);
#endif

/* frontier: ids, at least row0 + rows of x; table: matrix of the part; dataset_ids: of all vertices; hot: NULL, or
 * the part's cache; x: chunk.
 * head->hop is L. Local, one thread submits; SL_EINVAL on shapes, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_gather_submit(const struct sl_task_args *head, starpu_data_handle_t frontier, uint32_t row0,
                                starpu_data_handle_t table, uint32_t first, double dropout, uint64_t seed,
                                starpu_data_handle_t dataset_ids, const struct sl_hotrows_handles *hot,
                                starpu_data_handle_t x);

#endif
