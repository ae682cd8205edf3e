/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What runs have shown, read back from the files of --metrics: what an epoch counted and what it took. The projection
 * (runtime/report/projection.h) is made of nothing else.
 */
#ifndef SL_RUNTIME_REPORT_MEASURED_H
#define SL_RUNTIME_REPORT_MEASURED_H

#include "codelets/task.h"
#include "runtime/plan/settings.h"
#include "support/status.h"

#define SL_MAX_MEASURED 64

/* One run: all of one epoch, sums over its steps and PEs. */
struct sl_measured {
    double n_vertices, n_edges; /* of the graph */
    uint32_t features, classes, hidden, layers;
    uint32_t n_parameters;  /* arrays that are trained */
    double parameter_bytes; /* of all of them */
    uint32_t pes, group_size, batch_size;
    uint32_t n_workers; /* of this process; all of the run's where n_ranks is 1 */
    uint32_t n_ranks;
    double seconds;
    double vertices[SL_MAX_LAYERS + 1]; /* [0] the seeds, [layers] the input rows */
    double edges[SL_MAX_LAYERS];        /* [0] the seeds' in-edges */
    double id_bytes, row_bytes, row_gradient_bytes;
    double stage_s[SL_N_STAGES];
};

/* Read n >= 1 files, of which each says what its last run did in the epoch whose time is the median of all that trained but the
 * first, which warms up, where there are others. SL_EIO: a file cannot be read. SL_EFILE: it is not one of --metrics, is of
 * full-graph training or of an older version, or has no trained epoch. SL_EINVAL: it is not of the first one's dataset, model
 * and sampler (message: what differs). SL_ENOMEM. */
enum sl_status sl_measured_read(const char *const *paths, uint32_t n, struct sl_measured *out);

/* Steps of the run's epoch. */
double sl_measured_steps(const struct sl_measured *run);

#endif
