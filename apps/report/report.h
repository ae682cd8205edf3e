/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The report on a trace, in words: report.txt and report.html, with pictures beside them.
 */
#ifndef SL_APPS_REPORT_REPORT_H
#define SL_APPS_REPORT_REPORT_H

#include "support/status.h"

/* Read a traced folder (sl_trace_read) and write into it
 *   report.txt, report.html    the report; the page needs no other file
 *   timeline.svg, dag.dot      pictures (apps/report/timeline.h)
 *   vite.svg                   ViTE's drawing, if ViTE is installed and paje.trace is there
 * If ViTE fails or takes over half a minute, vite.svg is left out. Files are replaced atomically. Returns the
 * statuses of sl_trace_read and sl_analysis_make. SL_EIO: a file cannot be written. */
enum sl_status sl_report_write(const char *folder);

/* Convert the raw trace of a run that has ended (sl_trace_finish), and report on it. Collective: process 0 does the
 * work. SL_EFILE: the raw trace is incomplete, and the files converted from it are removed. Further statuses are those
 * of sl_trace_finish and sl_report_write. */
enum sl_status sl_report_finish(const char *folder);

#endif
