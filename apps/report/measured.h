/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Runs read back from files of --metrics: counts and times of one epoch. The projection has no further input
 * (apps/report/projection.h).
 */
#ifndef SL_APPS_REPORT_MEASURED_H
#define SL_APPS_REPORT_MEASURED_H

#include "runtime/plan/settings.h"
#include "support/status.h"
#include "tasks/task.h"

#define SL_MAX_MEASURED 64

/* One epoch of a run. Counts are sums over its steps and PEs. */
struct sl_measured {
    double n_vertices, n_edges; /* of the graph */
    uint32_t features, classes, hidden, layers;
    uint32_t n_parameters;  /* trained arrays */
    double parameter_bytes; /* of all trained arrays */
    uint32_t pes, group_size, batch_size;
    uint32_t n_workers; /* of rank 0 */
    uint32_t n_ranks;
    double seconds;
    double vertices[SL_MAX_LAYERS + 1]; /* [0] the seeds, [layers] the input rows */
    double edges[SL_MAX_LAYERS];        /* [0] the seeds' in-edges */
    double id_bytes, row_bytes, row_gradient_bytes;
    double stage_s[SL_N_STAGES];
};

/* Read n >= 1 files into out[n]. From the last run of each file, take the epoch of median time. The first epoch
 * warms up, and counts only if no second follows. SL_EIO: a file cannot be read. SL_EFILE: a file is not of
 * --metrics, is from full-graph training or an older version, or has no epoch with training. SL_EINVAL: dataset,
 * model or sampler differ from the first file's (message: the difference). SL_ENOMEM. */
enum sl_status sl_measured_read(const char *const *paths, uint32_t n, struct sl_measured *out);

/* The number of steps in the run's epoch. */
double sl_measured_steps(const struct sl_measured *run);

#endif
