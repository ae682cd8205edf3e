/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Pictures of a trace: the timeline as SVG, and the tasks of one step as a graph for Graphviz. In both, a time
 * category has its colour of sl_trace_data.stage.
 */
#ifndef SL_APPS_REPORT_TIMELINE_H
#define SL_APPS_REPORT_TIMELINE_H

#include <stdio.h>

#include "apps/report/analysis.h"

/* Draw the trace, 1600 pixels wide. The upper part shows how all workers divided their time among the categories, over
 * the whole makespan. The lower part shows the steps in the middle task by task, a lane per worker. Marks show when
 * each step was sampled, when it computed, and when its compute phase began. With several ranks each message has an
 * arrow. The picture can stand inside a page, as no XML header is written. SL_ENOMEM. The caller checks the stream
 * for errors. */
enum sl_status sl_timeline_write(const struct sl_analysis *analysis, FILE *stream);

/* Write the tasks of the middle step with a loss, and their dependencies, as a Graphviz graph. Tasks on the trace's
 * critical path have a red border. A trace without steps shows its first SL_DAG_MAX_TASKS tasks. SL_ENOMEM. */
#define SL_DAG_MAX_TASKS 500
enum sl_status sl_dag_write(const struct sl_analysis *analysis, FILE *stream);

#endif
