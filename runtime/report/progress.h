/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What people see of a run: on a terminal a bar per epoch with loss, accuracy and time left; everywhere else, and behind each
 * finished bar, one stable line per epoch.
 *
 * Writes to the stream it is given and nowhere else. For one thread, the one that submits. What machines read is in metrics.h.
 */
#ifndef SL_RUNTIME_REPORT_PROGRESS_H
#define SL_RUNTIME_REPORT_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "runtime/report/metrics.h"

enum sl_progress_mode {
    SL_PROGRESS_NONE, /* print nothing: --quiet, --json */
    SL_PROGRESS_LINES,
    SL_PROGRESS_BAR
};

struct sl_progress {
    FILE *stream;
    enum sl_progress_mode mode;
    uint32_t epochs;
    uint32_t steps_per_epoch;
    double start_s;      /* when it was opened */
    double drawn_s;      /* when the bar was last drawn; 0: never */
    uint64_t steps_done; /* since it was opened, for the time left */
    double valid_acc;    /* of the last evaluation; NaN: none yet */
    int bar_shown;       /* a bar is on the terminal's current line */
};

/* BAR where the stream is a terminal that can move its cursor, else LINES; so with several ranks, as mpirun makes a terminal of whatever
 * its output goes to. */
enum sl_progress_mode sl_progress_mode_of(FILE *stream);

/* Start. `steps_per_epoch` may be 0 where nothing is trained. The stream stays the caller's. */
void sl_progress_open(FILE *stream, enum sl_progress_mode mode, uint32_t epochs, uint32_t steps_per_epoch,
                      struct sl_progress *out);

/* Step `step` (1 .. steps_per_epoch) of epoch `epoch` (1 .. epochs) is done, with that loss. Draws at most ten times a
 * second, so call it after every step. */
void sl_progress_step(struct sl_progress *progress, uint32_t epoch, uint32_t step, double loss);

/* An epoch is done: replace the bar by the epoch's line,
 * "epoch  3/10  loss  1.2345  valid  67.12 %  test  66.01 %  time    1.234 s  eval   0.123 s"; "-" stands for what was not
 * evaluated. */
void sl_progress_epoch(struct sl_progress *progress, const struct sl_metrics_epoch *epoch);

/* The run is done: "best epoch 7  valid 67.12 %  test 66.01 %  time 12.345 s"; of several ranks, before it, what messages took
 * (codelets/waits.h): "messages  3.210 s, 91.23 % of it hidden; workers waited 0.123 s for them". */
void sl_progress_summary(struct sl_progress *progress, const struct sl_metrics_summary *summary);

/* Remove the bar, before something else is printed on the terminal. */
void sl_progress_clear(struct sl_progress *progress);

#endif
