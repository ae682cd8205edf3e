/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Estimates of a run's memory in bytes, made before the run allocates. The rows that layers declare
 * (runtime/model/kinds.h) are counted for the expected size of a step.
 */
#ifndef SL_RUNTIME_TRAIN_MEMORY_NEED_H
#define SL_RUNTIME_TRAIN_MEMORY_NEED_H

#include "data/raw.h"
#include "partition/partition.h"
#include "runtime/plan/plan.h"

/* The peak of a process: its tables and model, and the larger of two phases: the dataset as loaded, and training with
 * evaluation. tests/whole/test_memory_peak.c compares it with measured peaks. Buffers for reading a dataset's text are
 * freed earlier and not counted.
 * plan: with several ranks, the estimate is for one. NULL: for one process. cut: the method that cuts the graph in this
 * run; SL_PARTITION_NONE: none does. */
uint64_t sl_memory_need(const struct sl_settings *settings, const struct sl_dataset *dataset,
                        const struct sl_plan *plan, uint32_t n_workers, enum sl_partition_method cut);

/* A lower bound of what a process allocates for a run, before the data are read. It counts the graph twice (as loaded,
 * and in part order), the parameters, and rows of an evaluation. It leaves out features, which may become sparse, and
 * what depends on the split. */
uint64_t sl_memory_least(const struct sl_settings *settings, const struct sl_raw_sizes *sizes);

/* StarPU allocates small buffers in pieces of 32 MiB and has at least two pieces. */
#define SL_GPU_PIECES_BYTES ((uint64_t)64 << 20)

/* Most bytes of StarPU's data on one of n_gpus >= 1 GPUs of all ranks, which share the PEs evenly; without the dense
 * features of its parts and without the ring slots. Both include SL_GPU_PIECES_BYTES. */
struct sl_gpu_need {
    uint64_t training, evaluation;
};
struct sl_gpu_need sl_memory_need_gpu(const struct sl_settings *settings, const struct sl_dataset *dataset,
                                      uint32_t n_gpus);

#endif
