/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Metrics: one JSON object per line, for programs. progress.h is for people.
 *
 * A number reads back as the same double. A number is null if not finite. Each line is flushed: other programs can
 * follow a run, and a killed run leaves whole lines. Only the submitting thread may call the functions below.
 */
#ifndef SL_RUNTIME_REPORT_METRICS_H
#define SL_RUNTIME_REPORT_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/plan/settings.h"
#include "runtime/starling.h"
#include "support/status.h"
#include "tasks/task.h"
#include "tasks/waits.h"

/* The destinations of the lines: a file, a stream and a callback, or some of them, or none. */
struct sl_metrics {
    FILE *file;   /* owned; NULL: none */
    FILE *stream; /* borrowed; NULL: none */
    bool appends; /* opened with `append` */
    /* Set after sl_metrics_open; NULL: none. Not 0 sets `refused`. */
    int (*line)(void *context, const char *json);
    void *context;
    bool refused;
};

/* Event "config": once, before training. Strings and arrays are borrowed. */
struct sl_metrics_config {
    const char *version; /* PACKAGE_VERSION */
    const char *dataset; /* "ogbn-arxiv", "arxiv-synthetic" */
    bool synthetic;
    uint32_t vertices;          /* N */
    uint64_t edges;             /* E: directed edges, with reverse edges, without duplicates */
    uint32_t features, outputs; /* columns of the features and of the last layer; `outputs` is written as "classes" */
    uint32_t pes;               /* P */
    uint32_t group_size;        /* G */
    const char *const *devices; /* n_devices names, one per worker */
    uint32_t n_devices;
    /* All options are written, with _ for - in their names. */
    const struct sl_settings *options;
    uint64_t edge_cut;        /* edges between different parts */
    uint32_t parameters;      /* trained arrays of the model */
    uint64_t parameter_bytes; /* of all trained arrays */
};

/* Bytes between PEs in an epoch, summed over the PEs. `weights` counts gradients and weights
 * (runtime/sync/replicas.h). `features` counts input rows of the samples. Seeds on a ring count as ids. */
struct sl_metrics_bytes {
    uint64_t ids;
    uint64_t rows;
    uint64_t row_gradients;
    uint64_t weights;
    uint64_t features;
    /* Rows and gradients between stages of a pipeline (runtime/pipe/traffic.c). */
    uint64_t stages;
    uint64_t between_ranks; /* all messages between ranks */
};

/* Rows requested from the PEs' feature caches in an epoch, and hits. */
struct sl_metrics_cache {
    uint64_t rows;
    uint64_t hits;
};

/* Event "epoch". */
struct sl_metrics_epoch {
    uint32_t epoch;    /* 1 .. epochs; 0: evaluation without training */
    double train_loss; /* mean over the epoch's seeds; NaN without training */
    bool evaluated;    /* false: the scores are written as null */
    bool sampled;      /* write "sampled": scores are of samples (--score-fanout) */
    bool best;         /* the best epoch so far. Only progress.h prints it. */
    struct sl_scores scores;
    double seconds; /* training only */
    double eval_seconds;
    /* Fraction of sampling and gathering time during which an earlier minibatch computed, 0 .. 1. */
    double overlap;
    uint32_t layers; /* L */
    /* L + 1 sums over steps and PEs. [0]: the seeds, [L]: the input rows. */
    uint64_t vertices[SL_MAX_LAYERS + 1];
    uint64_t edges[SL_MAX_LAYERS]; /* L sums; [0]: the seeds' in-edges */
    /* Write "batch": the seeds of a step. 0: every epoch has the same, and it is not written. */
    uint64_t batch;
    struct sl_metrics_bytes bytes;
    /* If over 1: bytes.between_ranks and "messages" are written, the latter from `waits` (n_ranks, training only). */
    uint32_t n_ranks;
    const struct sl_waits *waits;
    double stage_s[SL_N_STAGES]; /* seconds of task time, summed over the workers */
    bool staged;                 /* write bytes.stages */
    /* Write "exact_loss": the loss on the full graph with all rows fresh (runtime/pipe/exact_loss.h). */
    bool checked;
    double exact_loss;
    /* Write "guard": training goes on from earlier weights, with all rows fresh. */
    bool guard_fired;
    bool cached; /* write "feature_cache" */
    struct sl_metrics_cache cache;
};

/* Event "summary": once, at the end. */
struct sl_metrics_summary {
    /* False: scores and best_epoch are written as null. */
    bool evaluated;
    bool sampled;            /* write "sampled": scores are of samples (--score-fanout) */
    struct sl_scores best;   /* of the best epoch */
    uint32_t best_epoch;     /* the earliest if several are equal */
    double seconds;          /* training only, all epochs */
    double epochs;           /* trained since the first start. Only progress.h prints it. */
    uint64_t peak_rss_bytes; /* of this process; with several ranks: the largest */
    const char *held;        /* who had reserved most (sl_memory_list), or "". Only progress.h prints it. */
    uint32_t n_ranks;
    /* Sum over all ranks since the session began. Only progress.h prints it. */
    struct sl_waits waits;
};

/* Start writing to the file `path` (NULL: none) and to `stream` (NULL: none; borrowed, and left open). Without
 * `append` an existing file is emptied. With `append` an unfinished last line is removed, and new lines follow.
 * SL_EIO. On failure *out is empty. An empty struct writes nowhere. */
enum sl_status sl_metrics_open(const char *path, FILE *stream, bool append, struct sl_metrics *out);

/* Cut a file opened with `append` back to a checkpoint of its last run: `n_steps` steps and `n_epochs` whole epochs
 * from the run's start. The resumed run would otherwise repeat lines of the interrupted run. The cut is before the
 * first "step", "epoch" or "summary" beyond the checkpoint. Earlier runs, and foreign lines before the cut, stay.
 * The stream is unchanged. Only a regular file is cut. SL_EIO: the file cannot be read or cut. SL_ENOMEM. */
enum sl_status sl_metrics_rewind(struct sl_metrics *metrics, uint64_t n_epochs, uint64_t n_steps);

/* Write one line. SL_EIO: the write failed. SL_ENOMEM. */
enum sl_status sl_metrics_config(struct sl_metrics *metrics, const struct sl_metrics_config *config);
enum sl_status sl_metrics_step(struct sl_metrics *metrics, uint32_t epoch, uint64_t step, double loss);
enum sl_status sl_metrics_epoch(struct sl_metrics *metrics, const struct sl_metrics_epoch *epoch);
enum sl_status sl_metrics_summary(struct sl_metrics *metrics, const struct sl_metrics_summary *summary);

/* Close the file and empty the struct. An empty struct is allowed. SL_EIO: a write had failed. */
enum sl_status sl_metrics_close(struct sl_metrics *metrics);

/* The largest resident set of this process so far, in bytes. */
uint64_t sl_metrics_peak_rss_bytes(void);

#endif
