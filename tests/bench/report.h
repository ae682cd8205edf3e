/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The bench's result as Markdown tables, fit for doc/results.md. Rates of codelets are in processor time
 * (tests/bench/probe.h).
 */
#ifndef SL_TESTS_BENCH_REPORT_H
#define SL_TESTS_BENCH_REPORT_H

#include <stdio.h>

#include "tests/bench/probe.h"

/* What a report says. */
struct bench_report {
    const char *title;   /* the setting's name */
    const char *dataset; /* as the run names it */
    unsigned n_workers;
    const char *sched;
    const struct sl_settings *settings;
    const struct probe *probe;
    const struct bench_floor *floor;
    const double *rates;     /* floor->n: the core's */
    const double *library;   /* the same, but of products the library's */
    uint64_t peak_rss_bytes; /* of the whole run, evaluation included */
};

/* Write it: the run, its figures, its codelets, its floor, and what else the codelets' ceilings count. SL_EIO. */
enum sl_status bench_report_print(const struct bench_report *report, FILE *stream);

#endif
