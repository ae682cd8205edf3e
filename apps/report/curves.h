/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The curves of runs, read back from files of --metrics: loss, scores and stage times of every epoch.
 */
#ifndef SL_APPS_REPORT_CURVES_H
#define SL_APPS_REPORT_CURVES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/starling.h"
#include "tasks/task.h"

#define SL_MAX_CURVES 8 /* runs in one picture: one colour each */

/* One epoch. NaN: the file has no number. */
struct sl_curves_epoch {
    double epoch;
    double end_s;   /* training time from the run's start to the end of this epoch */
    double seconds; /* training time of this epoch */
    double train_loss, valid_loss;
    double valid[SL_MAX_SCORES], test[SL_MAX_SCORES];
    double stage_s[SL_N_STAGES];
};

struct sl_curves_run {
    char *path; /* of the file */
    char *name; /* for people, unique among the runs */
    /* The options that differ between the runs, with this run's values: "lr 0.01, seed 2". "": none differs. */
    char *difference;
    json_t *config;
    struct sl_curves_epoch *epoch;
    size_t n_epochs; /* 1 or more */
    size_t capacity;
    uint32_t n_scores;
    char score[SL_MAX_SCORES][16]; /* names */
    uint32_t best_by;              /* the score that selects the best epoch */
    size_t best;                   /* the best epoch, an index; n_epochs: no epoch was evaluated */
    double peak_bytes;             /* largest resident set; NaN: the run has not ended */
    bool ended;                    /* the file has the run's summary */
};

struct sl_curves {
    uint32_t n;
    struct sl_curves_run run[SL_MAX_CURVES];
};

/* A score's name for people ("Accuracy"), whether it is a fraction, and whether larger is better. A score of another
 * version: its own name, no fraction, larger is better. */
struct sl_curves_score {
    const char *name, *title;
    bool is_fraction, larger_is_better;
};
struct sl_curves_score sl_curves_score(const char *name);

/* Read n (1 .. SL_MAX_CURVES) runs. A path is a file of --metrics, or a folder with one such file (metrics.jsonl,
 * or the only file that ends in .jsonl). The last run of a file counts. A resumed run continues the lines before
 * it. SL_EIO: a file cannot be read. SL_EFILE: a file is not of --metrics, or has no epoch yet. SL_ENOMEM. Release
 * *out with sl_curves_free, on failure too. */
enum sl_status sl_curves_read(const char *const *paths, uint32_t n, struct sl_curves *out);

void sl_curves_free(struct sl_curves *curves);

/* The median training time of an epoch; NaN: the file has no time. */
double sl_curves_epoch_s(const struct sl_curves_run *run);

#endif
