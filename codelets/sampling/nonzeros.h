/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * End of the sampling phase if features are sparse: count the nonzeros in the feature rows of a PE's last frontier.
 * Dense features need no such task. The host gets the count together with the other sizes of the sample. The
 * frontier itself stays on the device.
 *   before: codelets/sampling/exchange.h (merge) produces the last frontier      after: the host reads the counts
 *
 *   n = sum over i < |S_p^L| of offsets[v_i + 1] - offsets[v_i]
 *   v_i = frontier[i] - first: the row of vertex i in the part's CSR features
 *
 * n is a uint64; the order of the additions does not matter.
 */
#ifndef SL_CODELETS_NONZEROS_H
#define SL_CODELETS_NONZEROS_H

#include "codelets/grid.h"
#include "tasks/task.h"

/* *n_out = number of nonzeros in *n_rows rows, at most max_rows. ids: [n_rows] renumbered ids of the part. first: the
 * part's first id. offsets: [n_part + 1], of the part's rows. On a GPU max_rows sizes the launch. */
SL_DECLARE_LAUNCHER(enum sl_status, sl_nonzeros, uint32_t max_rows, const uint32_t *n_rows, const sl_vertex *ids,
                    uint32_t first, const uint64_t *offsets, uint64_t *n_out);

/* Submit: write the number of nonzeros into the counts (codelets/sampling/sample.h) of a sample of n_hops hops in a
 * group of n_parts parts. head->hop is L = n_hops. frontier: ids of the part, as many as the counts have for level L.
 * offsets: uint64 [n_part + 1]. Sampling phase; local; one thread submits. SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_nonzeros_submit(const struct sl_task_args *head, uint32_t n_parts, starpu_data_handle_t frontier,
                                  uint32_t first, starpu_data_handle_t offsets, starpu_data_handle_t counts);

#endif
