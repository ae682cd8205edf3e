/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Estimates of a run's memory, made before the run allocates.
 */
#ifndef SL_RUNTIME_TRAIN_MEMORY_NEED_H
#define SL_RUNTIME_TRAIN_MEMORY_NEED_H

#include "partition/dataset.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/settings.h"
#include "runtime/store/shards.h"
#include "runtime/train/reach.h"

/* Inputs of an estimate besides settings and dataset. */
struct sl_memory_run {
    struct sl_reach reach;
    uint32_t team; /* PEs of a team (sl_steps_team) */
    uint32_t n_workers;
    bool converts; /* with GPUs or several ranks, no layer reads narrow features in place */
    /* fraction of the vertices on a boundary of chunks (runtime/pipe/boundary.h); 0 before chunks are made */
    double boundary;
};

/* Estimates in bytes, derived from the model's layers. Rows are counted by walks over the layers (runtime/model/walk.h)
 * for the expected size of a step (reach.h). */
struct sl_memory_terms {
    /* the dataset as loaded; freed before training begins */
    uint64_t loaded;
    /* the dataset in part order, with vertex weights and feature caches */
    uint64_t data;
    /* lists of links, their numbers and orders; all of them at every rank */
    uint64_t links;
    /* weights, optimiser state and copies */
    uint64_t model;
    /* partial sums of gradients, losses and batch norm */
    uint64_t partials;
    /* buffers for exchanging rows between PEs */
    uint64_t exchange;
    /* sampled blocks of `depth` minibatches */
    uint64_t samples;
    /* buffers of all CPU workers: for rounding and widening factors of bf16 products, and for the floats of narrow
     * features that a product reads in place */
    uint64_t factors;
    /* Rows of one training step, plus a margin. Small chunks keep their handles: their rows count `depth` times. */
    uint64_t rows;
    /* the part of `rows` that an evaluation finds in use */
    uint64_t history;
    /* rows of all vertices in an evaluation */
    uint64_t evaluation;
    /* StarPU's records of an evaluation's tasks, all submitted at once */
    uint64_t records;
    /* numbers and outputs of the ends of links in an evaluation, at rank 0 */
    uint64_t ends;
    /* the part of `evaluation` not served by blocks from training */
    uint64_t beside;
};
struct sl_memory_terms sl_memory_terms(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                       const struct sl_memory_run *run);

/* Estimated peak memory in bytes of a run with one rank. It is the sum of data, links, model, partials, exchange,
 * factors, the process itself, and the larger of two phases: the dataset as loaded, and the work. The work is training
 * with `beside`, `records` and `ends`. If the pool returns training's blocks to the system before an evaluation, the
 * work is the larger of training and evaluation.
 *
 * In the runs of tests/test_memory_peak.c the estimate is 0.95 to 1.17 times the peak (doc/results.md). Buffers for
 * reading a dataset's text are freed earlier and not counted. */
uint64_t sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset,
                        const struct sl_memory_run *run);

struct sl_rank_need {
    /* estimated peak memory in bytes */
    uint64_t memory;
    /* Mapped but never touched bytes: tables are as long as for all parts. */
    uint64_t untouched;
};

/* The estimate for one rank of several: its share, the tables of all vertices, and the halo of its evaluation
 * (runtime/full/halo.h). A dataset from a cache file is read piece by piece; all others are loaded whole.
 * partition: gives the rank's share. NULL before parts are made: then a part is assumed to be a quarter larger
 * than the average. Parts made without constraints (SL_PARTITION_NONE) may be larger. */
struct sl_rank_need sl_memory_need_rank(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                        const struct sl_plan *plan, const struct sl_partition *partition,
                                        uint32_t n_workers);

/* StarPU allocates small buffers in pieces of 32 MiB and has at least two pieces. */
#define SL_GPU_PIECES_BYTES ((uint64_t)64 << 20)

/* Most bytes of StarPU's data on a GPU, without the dense features of its parts and without the ring slots.
 * Sizes are rounded up to StarPU's size classes. Both include SL_GPU_PIECES_BYTES. */
struct sl_gpu_need {
    /* parts, sampled blocks, the rows of one step, weights and gradients */
    uint64_t training;
    /* parts, the input rows of all vertices at the widest layer, its output, and working rows of the chunks in
     * progress */
    uint64_t evaluation;
};

/* The estimate for one GPU. n_gpus: the GPUs of all ranks; they share the PEs evenly. */
struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_shards *shards,
                                      uint32_t n_gpus);

/* The larger of both needs, without `evaluation` if CPUs evaluate. All ranks have the same number of GPUs. 0: the run
 * has no GPU. */
uint64_t sl_memory_need_gpu_work(const struct sl_settings *settings, const struct sl_shards *shards,
                                 const struct sl_run *run);

#endif
