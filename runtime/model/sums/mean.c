/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The mean over in-neighbours. */
#include "runtime/model/sums.h"

const struct sl_sum_kind sl_sum_mean = {
    .name = "mean",
    .pull = SL_PULL_MEAN,
    .pull_back = SL_PULL_MEAN_BACK,
    .in_place = true,
    .forward = sl_aggregate_block,
    .backward = sl_aggregate_back,
    .accumulate = sl_aggregate_shares,
    .full = sl_aggregate_part,
};
