/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What `starling_data project` prints: an epoch's time by devices and by way to train.
 */
#ifndef SL_RUNTIME_REPORT_SCALING_H
#define SL_RUNTIME_REPORT_SCALING_H

#include <stdio.h>

#include "runtime/report/projection.h"

/* A line for each of `devices`, in their order: seconds of an epoch, what the largest part of them is, and ">" in front where
 * counts are beyond the measured ones; "-" for what no run tells anything of. Then, for each way, of how many of them an epoch
 * is the shortest, and what most time goes to at the next larger number. Cooperation inside machines is left out where a
 * machine has one device. As sl_projection_epoch; SL_EIO. Nothing is printed if a line would fail. */
enum sl_status sl_scaling_print(const struct sl_projection *projection, const struct sl_cluster *cluster,
                                const uint32_t *devices, uint32_t n, FILE *stream);

#endif
