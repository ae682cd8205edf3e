/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The graph the other way round, of which the way back reads the lists: the out-neighbours of each vertex, in ascending order of their ids.
 */
#ifndef SL_RUNTIME_PIPE_TRANSPOSE_H
#define SL_RUNTIME_PIPE_TRANSPOSE_H

#include "runtime/plan/plan.h"
#include "runtime/store/shards.h"

/* Of all vertices; where ranks share ways (sl_plan_shares_ways) of this one's own, whose edges to vertices of others these tell it. *out is
 * empty where the lists of the graph itself are the same. Collective, as sl_ranks_broadcast. SL_EIO, SL_ENOMEM, SL_EINVAL: 2^30 edges for
 * one rank; then *out is empty. */
enum sl_status sl_pipe_transpose(const struct sl_plan *plan, const struct sl_shards *shards, struct sl_graph *out);

#endif
