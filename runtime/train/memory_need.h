/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Estimates of a run's memory in bytes, made before the run allocates. The rows that layers declare
 * (runtime/model/kinds.h) are counted for the expected size of a step (reach.c).
 */
#ifndef SL_RUNTIME_TRAIN_MEMORY_NEED_H
#define SL_RUNTIME_TRAIN_MEMORY_NEED_H

#include "data/dataset.h"
#include "partition/partition.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/settings.h"

/* ---- an estimate of the vertices and edges in a step of one group ---- */

/* Vertices by level (0: the seeds) and edges by hop. */
struct sl_reach {
    double vertices[SL_MAX_LAYERS + 1];
    double edges[SL_MAX_LAYERS];
};

/* Expected sizes: the maximum over a few trial steps, plus a margin because steps differ. The trials sample as the
 * sampler does, with random numbers of their own. Dependent sampling (--kappa, --layer-dependency) does not reach
 * more vertices. SL_ENOMEM; SL_EINVAL: a wrong --relation-fanout. */
enum sl_status sl_reach_expect(const struct sl_settings *settings, const struct sl_dataset *dataset,
                               struct sl_reach *out);

/* ---- memory ---- */

/* Inputs of an estimate besides settings and dataset. */
struct sl_memory_run {
    struct sl_reach reach; /* of minibatches */
    uint32_t n_workers;
    bool converts; /* with GPUs or several ranks, no layer reads narrow features in place */
    /* With several ranks: the estimate is for one. NULL: one process. */
    const struct sl_plan *plan;
    /* Gives the rank's share. NULL before parts are made: then a part is a quarter larger than the average. */
    const struct sl_partition *partition;
};

/* The estimate for a process: its data and model, the process itself, and the larger of two phases: the dataset as
 * loaded, and the larger of training and evaluation. A rank of several also has tables of all vertices and the rows
 * that other ranks send. In the runs of tests/whole/test_memory_peak.c the estimate is 0.8 to 1.25 times the peak.
 * Buffers for reading a dataset's text are freed earlier and not counted. */
struct sl_memory_need {
    uint64_t memory;    /* peak, in bytes */
    uint64_t untouched; /* mapped but never touched: tables are as long as for all parts */
    /* Of these: the data in part order; rows, exchanged rows and partial gradients of training; rows of an evaluation,
     * and those that stay for later epochs. */
    uint64_t data, training, evaluation;
};
struct sl_memory_need sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                     const struct sl_memory_run *run);

/* StarPU allocates small buffers in pieces of 32 MiB and has at least two pieces. */
#define SL_GPU_PIECES_BYTES ((uint64_t)64 << 20)

/* Most bytes of StarPU's data on a GPU, without the dense features of its parts and without the ring slots. Sizes are
 * rounded up to StarPU's size classes. Both include SL_GPU_PIECES_BYTES. */
struct sl_gpu_need {
    uint64_t training;
    uint64_t evaluation;
};

/* The estimate for one of n_gpus >= 1 GPUs of all ranks, which share the PEs evenly. */
struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                      const struct sl_reach *reach, uint32_t n_gpus);

#endif
