/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The parameters of GATv2 (gatv2.c) that its sum reads (sums/attention.c).
 */
#ifndef SL_RUNTIME_MODEL_GATV2_H
#define SL_RUNTIME_MODEL_GATV2_H

/* The biases are last: without an output bias, the last parameter tells the number of outputs (model.h). */
enum {
    SL_GATV2_SOURCE,
    SL_GATV2_TARGET,
    SL_GATV2_ATTENTION,
    SL_GATV2_SKIP,
    SL_GATV2_SOURCE_BIAS,
    SL_GATV2_TARGET_BIAS,
    SL_GATV2_PARAMETERS
};

#endif
