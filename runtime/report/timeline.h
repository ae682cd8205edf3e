/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Pictures of a trace: the timeline as SVG, and the tasks of one step as a graph for Graphviz. Stages have the colours of
 * sl_trace_data.stage in both.
 */
#ifndef SL_RUNTIME_REPORT_TIMELINE_H
#define SL_RUNTIME_REPORT_TIMELINE_H

#include <stdio.h>

#include "runtime/report/analysis.h"

/* Draw the trace, 1600 pixels wide: above, how all workers shared their time among the stages over the whole makespan; below,
 * for the steps in its middle, what each worker did, task by task, of several ranks with an arrow for each message between
 * them, with the beginnings of the steps' compute phases, and when each step was sampled and when it computed. No XML header,
 * so that it can stand inside a page. SL_ENOMEM. Errors of the stream are the caller's to see. */
enum sl_status sl_timeline_write(const struct sl_analysis *analysis, FILE *stream);

/* Write the middle step's tasks and the dependencies among them as a Graphviz graph; those on the trace's critical path have a
 * red border. Of a trace without steps, the first SL_DAG_MAX_TASKS tasks. SL_ENOMEM. */
#define SL_DAG_MAX_TASKS 500
enum sl_status sl_dag_write(const struct sl_analysis *analysis, FILE *stream);

/* Write text with XML's special characters escaped. */
void sl_xml_put(FILE *stream, const char *text, size_t n);

#endif
