/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Metrics: one JSON object a line, for machines. What people read is in progress.h.
 *
 * Numbers are written so that they read back as the same double. What is not a finite number is written as null. Each line is
 * flushed, so that a run can be followed and one that is killed leaves whole lines.
 * The functions are for one thread, the one that submits.
 */
#ifndef SL_RUNTIME_REPORT_METRICS_H
#define SL_RUNTIME_REPORT_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "codelets/waits.h"
#include "runtime/plan/settings.h"
#include "support/status.h"

/* Where the lines go: to a file, to a stream, to both or to none. */
struct sl_metrics {
    FILE *file;   /* ours; NULL: none */
    FILE *stream; /* the caller's; NULL: none */
    bool appends; /* the file is gone on with */
};

/* Event "config": once, before training. Strings and arrays stay the caller's. */
struct sl_metrics_config {
    const char *version; /* PACKAGE_VERSION */
    const char *dataset; /* "ogbn-arxiv", "arxiv-synthetic" */
    bool synthetic;
    uint32_t vertices;          /* N */
    uint64_t edges;             /* E: directed edges, after reversing and removing duplicates */
    uint32_t features, classes; /* columns of the features, and of the scores */
    uint32_t pes;               /* P */
    uint32_t group_size;        /* G */
    const char *const *devices; /* n_devices names, one per worker */
    uint32_t n_devices;
    const struct sl_settings *options; /* written with all options, names with _ for - */
    uint64_t edge_cut;                 /* edges whose ends lie in different parts */
    uint32_t parameters;               /* arrays of the model that are trained */
    uint64_t parameter_bytes;          /* of all of them */
};

/* Bytes that went between PEs in an epoch, all PEs together; weights: gradients and weights (runtime/sync/replicas.h); features: of
 * the samples' input rows. Seeds on a ring count as ids. */
struct sl_metrics_bytes {
    uint64_t ids;
    uint64_t rows;
    uint64_t row_gradients;
    uint64_t weights;
    uint64_t features;
    uint64_t stages;        /* rows and gradients between stages of a pipeline (runtime/pipe/traffic.h) */
    uint64_t between_ranks; /* all messages */
};

/* What the PEs' feature caches were asked for in an epoch, and what they had. */
struct sl_metrics_cache {
    uint64_t rows;
    uint64_t hits;
};

/* Seconds of task time in an epoch, summed over the workers. */
struct sl_metrics_stages {
    double sample;
    double exchange;
    double gather;
    double aggregate;
    double dense;
    double loss;
    double backward;
    double sync;
    double optimise;
};

/* Fractions of right answers and F1 (macro), 0 .. 1. */
struct sl_metrics_scores {
    double valid_loss; /* mean cross entropy */
    double valid_acc;
    double test_acc;
    double valid_f1;
    double test_f1;
    double valid_auc; /* two classes only */
    double test_auc;  /* two classes only */
};

/* Event "epoch". */
struct sl_metrics_epoch {
    uint32_t epoch;    /* 1 .. epochs; 0: evaluation without training */
    double train_loss; /* mean over the epoch's seeds; NaN where nothing was trained */
    bool evaluated;    /* else the scores are written as null */
    bool two_classes;  /* write valid_auc and test_auc, too */
    struct sl_metrics_scores scores;
    double seconds; /* training only */
    double eval_seconds;
    double overlap;  /* share of sampling and gathering time during which an earlier batch computed, 0 .. 1 */
    uint32_t layers; /* L */
    uint64_t vertices[SL_MAX_LAYERS + 1]; /* L + 1 sums over steps and PEs; [0] the seeds, [L] the input rows */
    uint64_t edges[SL_MAX_LAYERS];        /* L sums; [0] the seeds' in-edges */
    struct sl_metrics_bytes bytes;
    uint32_t n_ranks;             /* more than one: write bytes.between_ranks, and "messages": */
    const struct sl_waits *waits; /* of each rank, in training */
    struct sl_metrics_stages stages;
    bool staged;  /* write bytes.stages */
    bool checked; /* write "exact_loss": of the full graph with all rows fresh (runtime/pipe/guard.h) */
    double exact_loss;
    bool guard_fired; /* write "guard": training goes on from earlier weights, exactly */
    bool cached;      /* write "feature_cache" */
    struct sl_metrics_cache cache;
};

/* Event "summary": once, at the end. */
struct sl_metrics_summary {
    bool evaluated; /* else accuracies and best_epoch are written as null */
    double best_valid_acc;
    double test_acc_at_best;
    uint32_t best_epoch;     /* the earliest of equal ones */
    double seconds;          /* training, all epochs */
    uint64_t peak_rss_bytes; /* of this process; with several ranks, of the one that had most */
    uint32_t n_ranks;
    struct sl_waits waits; /* of all ranks, since this session began; for people only */
};

/* Start writing to the file `path` (NULL: none) and to `stream` (NULL: none; stays the caller's and open). An existing file is
 * emptied, or, with `append`, gone on with: a last line that was cut short is removed first.
 * SL_EIO. On failure *out is empty, and an empty one writes nowhere. */
enum sl_status sl_metrics_open(const char *path, FILE *stream, bool append, struct sl_metrics *out);

/* Cut a file that is gone on with back to a checkpoint of the run that it ends with, `n_steps` steps and `n_epochs` whole epochs
 * from its start: what a run that was killed has written since its checkpoint, or what one that was interrupted has written at
 * its end, would be there twice. Everything from the first "step", "epoch" or "summary" beyond the checkpoint goes; earlier
 * runs in the file, and lines that are not ours before it, stay. The stream is left alone, as is what is no regular file.
 * SL_EIO: it cannot be read or cut. SL_ENOMEM. */
enum sl_status sl_metrics_rewind(struct sl_metrics *metrics, uint64_t n_epochs, uint64_t n_steps);

/* Write one line. SL_EIO: it cannot be written. SL_ENOMEM. */
enum sl_status sl_metrics_config(struct sl_metrics *metrics, const struct sl_metrics_config *config);
enum sl_status sl_metrics_step(struct sl_metrics *metrics, uint32_t epoch, uint64_t step, double loss);
enum sl_status sl_metrics_epoch(struct sl_metrics *metrics, const struct sl_metrics_epoch *epoch);
enum sl_status sl_metrics_summary(struct sl_metrics *metrics, const struct sl_metrics_summary *summary);

/* Close the file and empty the struct. SL_EIO: the system reports a write that failed. An empty struct is allowed. */
enum sl_status sl_metrics_close(struct sl_metrics *metrics);

/* The largest resident set this process has had, bytes. */
uint64_t sl_metrics_peak_rss_bytes(void);

#endif
