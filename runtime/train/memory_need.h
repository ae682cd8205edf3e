/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * How much memory a run needs, before any of it is taken.
 */
#ifndef SL_RUNTIME_TRAIN_MEMORY_NEED_H
#define SL_RUNTIME_TRAIN_MEMORY_NEED_H

#include "partition/dataset.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/settings.h"
#include "runtime/store/shards.h"
#include "runtime/train/reach.h"

/* Beside settings and dataset. team: PEs of a team (sl_steps_team). */
struct sl_memory_run {
    struct sl_reach reach;
    uint32_t team;
    uint32_t n_workers;
    double boundary; /* of chunks, the share of the vertices (runtime/pipe/boundary.h); 0 before chunks are made */
};

/* Estimates in bytes of what the process holds, read off the model's layers. Rows are counted as blocks of the pool
 * (row_need.h), of steps as they are to be expected (reach.h). */
struct sl_memory_terms {
    uint64_t loaded;   /* the dataset as it is loaded, which goes before the work begins */
    uint64_t data;     /* in part order, with what vertices are weighed by and caches of features */
    uint64_t model;    /* with its optimiser and copies */
    uint64_t partials; /* of gradients, losses and batch norm's sums */
    uint64_t exchange; /* what PEs exchange rows by */
    uint64_t samples;  /* depth sampled blocks */
    uint64_t factors;  /* what all CPU workers' products of bf16 round, or widen, factors in */
    uint64_t rows;     /* of one training step, with some to spare; of small chunks, whose handles are kept, of depth */
    uint64_t history;  /* of them, what is in use during an evaluation, too */
    uint64_t evaluation; /* rows of all vertices */
    uint64_t records;    /* StarPU's, of an evaluation's tasks, which are all submitted at once */
    uint64_t beside;     /* what of these the pool has no blocks for that training left, of what it had to spare, too */
};
struct sl_memory_terms sl_memory_terms(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                       const struct sl_memory_run *run);

/* The most of it at a time: data, model, partials, exchange, the process itself, and the larger of the dataset as it is loaded and of
 * training with what evaluation and its records take beside; or, where the pool gives back what training leaves, of training and
 * evaluation. Of 26 runs none takes more by over a tenth, or less than about four fifths of it (tests/test_memory_peak.c,
 * doc/measurements.md). What reading a dataset's text takes beside is not counted: it is over before. */
uint64_t sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset,
                        const struct sl_memory_run *run);

/* The same of one rank of a plan with several: its share, tables of all vertices, and the halo of its evaluation (runtime/full/halo.h).
 * Of a dataset that is loaded out of a cache little is in memory at a time; other ones are loaded whole. The share is that of the parts
 * of `partition`; while that is NULL, as there are none yet, parts are taken to be a quarter larger than the average, which parts of few
 * constraints (SL_PARTITION_NONE) need not keep to.
 * untouched: address space beside. Tables are as long as all parts', and of those of others nothing is ever touched. */
struct sl_rank_need {
    uint64_t memory;
    uint64_t untouched;
};
struct sl_rank_need sl_memory_need_rank(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                        const struct sl_plan *plan, const struct sl_partition *partition,
                                        uint32_t n_workers);

/* The same of one GPU where n_gpus, of all ranks, share the PEs evenly: what StarPU may have to hold there at a time, without the dense features
 * of its parts, and without the slots of the ring. Everything is rounded up to StarPU's classes of sizes.
 * training: parts, blocks, one step's rows, weights and gradients. evaluation: all vertices' rows at the widest layer, that
 * one's output, what the chunks at work need beside, and parts. Both: the pieces. */
#define SL_GPU_PIECES_BYTES                                                                                            \
    ((uint64_t)64 << 20) /* StarPU takes memory for small buffers by 32 MiB, of which it has two or more */
struct sl_gpu_need {
    uint64_t training;
    uint64_t evaluation;
};
struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_shards *shards,
                                      uint32_t n_gpus);

/* The larger of both for which GPUs are used, each rank having as many; 0: there is no GPU. */
uint64_t sl_memory_need_gpu_work(const struct sl_settings *settings, const struct sl_shards *shards,
                                 const struct sl_run *run);

#endif
