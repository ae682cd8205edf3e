/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Pictures of runs: loss and scores by epoch and by training time, and stage times.
 */
#ifndef SL_APPS_REPORT_PLOT_H
#define SL_APPS_REPORT_PLOT_H

#include <stdio.h>

#include "apps/report/curves.h"

/* Draw the runs over each other as one SVG, 800 pixels wide. A ring marks the best epoch of each run. A point's <title>
 * has its values: browsers show them under the mouse pointer. SL_ENOMEM. The caller checks the stream for errors. */
enum sl_status sl_plot_svg(const struct sl_curves *curves, FILE *stream);

/* Write one HTML page: the same drawing and a table of the runs. The page needs no other file. SL_ENOMEM. */
enum sl_status sl_plot_page(const struct sl_curves *curves, FILE *stream);

#endif
