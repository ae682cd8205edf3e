/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a trace says, in words: report.txt and report.html, and the pictures beside them.
 */
#ifndef SL_RUNTIME_REPORT_REPORT_H
#define SL_RUNTIME_REPORT_REPORT_H

#include "support/status.h"

/* Read a traced folder (sl_trace_read) and write into it report.txt, report.html (one page, which needs no other file),
 * timeline.svg and dag.dot (runtime/report/timeline.h); and, where the program ViTE is installed and paje.trace is there, vite.svg,
 * the same trace as ViTE draws it, which is given up quietly where ViTE fails or takes over half a minute.
 * The statuses of sl_trace_read and sl_analysis_make; SL_EIO: a file cannot be written. Files are replaced whole. */
enum sl_status sl_report_write(const char *folder);

#endif
