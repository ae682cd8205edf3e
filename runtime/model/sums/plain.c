/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The sum over in-neighbours and the vertex itself: all weights are 1. A self loop of the dataset adds nothing. */
#include "runtime/model/sums.h"

static double factor(double in_degree)
{
    (void)in_degree;
    return 1;
}

const struct sl_sum_kind sl_sum_plain = {
    .name = "plain",
    .factor = factor,
    .pull = SL_PULL_SYMMETRIC,
    .pull_back = SL_PULL_SYMMETRIC,
    .forward = sl_aggregate_block,
    .backward = sl_aggregate_back,
    .accumulate = sl_aggregate_shares,
    .full = sl_aggregate_part,
};
