/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The graph convolution's sum (Kipf, Welling 2017): in-neighbour u of v has the weight f_u f_v, v itself f_v^2. */
#include <math.h>

#include "runtime/model/sums.h"

static double factor(double in_degree)
{
    return 1 / sqrt(in_degree + 1);
}

const struct sl_sum_kind sl_sum_symmetric = {
    .name = "symmetric",
    .factor = factor,
    .pull = SL_PULL_SYMMETRIC,
    .pull_back = SL_PULL_SYMMETRIC,
    .forward = sl_aggregate_block,
    .backward = sl_aggregate_back,
    .accumulate = sl_aggregate_shares,
    .full = sl_aggregate_part,
};
