/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What a run gives simulated GPUs and StarPU. At its end a program writes the counts to $SL_SIMGPU_COUNTS, if set, as
 * one JSON object. A count of copies has their bytes right behind it.
 *
 * "tasks" are those that the program submits; "cub", "cublas", "cusparse" and "nccl" are calls, of which a real library
 * makes one kernel or more; "pool_calls" are cudaMallocAsync and cudaFreeAsync; "allocations" are all other calls that
 * take, return or pin memory; "pageable_copies" are also in the count of their direction; "waits" are calls that return
 * when a stream, an event or a GPU has ended: no other than a pageable copy. Queries of an event are not counted: their
 * number depends on the time.
 */
#ifndef SL_TESTS_COUNTS_H
#define SL_TESTS_COUNTS_H

#include <stddef.h>

enum sl_counted {
    SL_COUNTED_TASKS,
    SL_COUNTED_KERNELS,
    SL_COUNTED_CUB,
    SL_COUNTED_CUBLAS,
    SL_COUNTED_CUSPARSE,
    SL_COUNTED_NCCL,
    SL_COUNTED_POOL_CALLS,
    SL_COUNTED_ALLOCATIONS,
    SL_COUNTED_CLEARS,
    SL_COUNTED_TO_GPU,
    SL_COUNTED_TO_HOST = SL_COUNTED_TO_GPU + 2,
    SL_COUNTED_WITHIN_GPU = SL_COUNTED_TO_HOST + 2,
    SL_COUNTED_BETWEEN_GPUS = SL_COUNTED_WITHIN_GPU + 2,
    SL_COUNTED_PAGEABLE = SL_COUNTED_BETWEEN_GPUS + 2,
    SL_COUNTED_WAITS,
    SL_COUNTED_EVENTS,
    SL_N_COUNTED
};

/* Any thread may call. */
void sl_count(enum sl_counted what);
void sl_count_copy(enum sl_counted direction, size_t bytes, bool pageable);

#endif
