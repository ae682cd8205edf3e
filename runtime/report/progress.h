/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The progress of a run, for people. On a terminal: a bar per epoch with loss, score and time left. On a
 * terminal and elsewhere: one line of fixed form at the end of each epoch.
 *
 * Output goes to the given stream only. Only the submitting thread may call the functions. metrics.h is for
 * programs.
 */
#ifndef SL_RUNTIME_REPORT_PROGRESS_H
#define SL_RUNTIME_REPORT_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "runtime/report/metrics.h"

enum sl_progress_mode {
    SL_PROGRESS_NONE, /* no output: --quiet, --json */
    SL_PROGRESS_LINES,
    SL_PROGRESS_BAR
};

struct sl_progress {
    FILE *stream;
    enum sl_progress_mode mode;
    uint32_t epochs;
    uint32_t steps_per_epoch;
    double start_s;        /* time of sl_progress_open */
    double drawn_s;        /* time of the last drawing; 0: never drawn */
    uint64_t steps_done;   /* since sl_progress_open, for the time left */
    struct sl_score score; /* of the last evaluation, the score that selects; NaN: none yet */
    int bar_shown;         /* a bar is on the terminal's current line */
};

/* The mode for a stream: BAR on a terminal with a movable cursor, else LINES. With several ranks: LINES, because
 * mpirun may forward a terminal to a file. */
enum sl_progress_mode sl_progress_mode_of(FILE *stream);

/* Start. `steps_per_epoch` may be 0 if nothing is trained. The stream is borrowed. */
void sl_progress_open(FILE *stream, enum sl_progress_mode mode, uint32_t epochs, uint32_t steps_per_epoch,
                      struct sl_progress *out);

/* Report the end of step `step` (1 .. steps_per_epoch) of epoch `epoch` (1 .. epochs). Call this after every step;
 * drawing happens at most ten times a second. */
void sl_progress_step(struct sl_progress *progress, uint32_t epoch, uint32_t step, double loss);

/* Report the end of an epoch: replace the bar by the line "epoch  3/10 loss 1.2345 valid 67.12 % test 66.01 % time
 * 1.234 s eval 0.123 s *", of at most 80 columns up to 9999 epochs. "-" stands for a missing score. A star marks the
 * best epoch so far. Scores of samples have "sampled" in place of "eval", three columns more. */
void sl_progress_epoch(struct sl_progress *progress, const struct sl_metrics_epoch *epoch);

/* Report the end of the run:
 *
 *     best epoch 7  valid 67.12 %  test 66.01 %  time 12.345 s
 *     score       valid      test
 *     acc       67.12 %   66.01 %
 *     f1        60.00 %   59.12 %
 *     time      10 epochs, 1.235 s each
 *     memory    0.12 GB at most
 *     reserved  features in part order 0.05 GB, compute buffers 0.02 GB
 *
 * The scores are of the best epoch. A run without evaluation has the last three lines alone; below
 * 0.25 GB there is no last line. Reserved pages that nobody touched take no memory. With several ranks, before
 * the lines, the time of messages (tasks/waits.h): "messages  3.210 s, 91.23 % of it hidden; workers waited 0.123 s
 * for them". */
void sl_progress_summary(struct sl_progress *progress, const struct sl_metrics_summary *summary);

/* Remove the bar, before other output on the terminal. */
void sl_progress_clear(struct sl_progress *progress);

#endif
