/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The output of `starling_data project`: an epoch's time by number of devices and by mode.
 */
#ifndef SL_APPS_REPORT_SCALING_H
#define SL_APPS_REPORT_SCALING_H

#include <stdio.h>

#include "apps/report/projection.h"

/* Print a line for each of devices[n], in order: by mode, the seconds of an epoch and the name of the largest part.
 * ">" marks counts outside the range of the runs, "-" a mode unknown to the runs. Then print, for each mode, the
 * number of devices with the shortest epoch, and the largest part at the next larger number. The mode "machine" is
 * left out if a machine has one device. On an error of a projection nothing is printed. Statuses of
 * sl_projection_epoch; SL_EIO, SL_ENOMEM. */
enum sl_status sl_scaling_print(const struct sl_projection *projection, const struct sl_cluster *cluster,
                                const uint32_t *devices, uint32_t n, FILE *stream);

#endif
