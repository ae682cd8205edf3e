/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The transposed graph, which the backward pass reads: the out-neighbours of each vertex, in ascending order of ids.
 */
#ifndef SL_RUNTIME_PIPE_TRANSPOSE_H
#define SL_RUNTIME_PIPE_TRANSPOSE_H

#include "runtime/plan/plan.h"
#include "runtime/store/shards.h"

/* Transpose the graph. If ranks share the ways (sl_plan_shares_ways), a rank gets the lists of its own vertices, and
 * remote ranks send it the edges into their vertices. Otherwise a rank gets all lists. *out is empty if the graph is
 * symmetric, and on failure. Collective, as sl_ranks_broadcast. SL_EINVAL: 2^30 or more edges for one rank. SL_EIO,
 * SL_ENOMEM. */
enum sl_status sl_pipe_transpose(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_graph *out);

#endif
