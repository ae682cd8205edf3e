/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The counts of a run on simulated GPUs. Tasks are counted in front of StarPU: a program that has the function offers
 * it in place of libstarpu's. */
#include "tests/simgpu/counts.h"

#include <dlfcn.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>

namespace
{

const char *const names[SL_N_COUNTED] = {"tasks",
                                         "kernels",
                                         "cub",
                                         "cublas",
                                         "cusparse",
                                         "nccl",
                                         "pool_calls",
                                         "allocations",
                                         "clears",
                                         "copies_to_gpu",
                                         "bytes_to_gpu",
                                         "copies_to_host",
                                         "bytes_to_host",
                                         "copies_within_gpu",
                                         "bytes_within_gpu",
                                         "copies_between_gpus",
                                         "bytes_between_gpus",
                                         "pageable_copies",
                                         "waits",
                                         "events"};

std::atomic<size_t> counts[SL_N_COUNTED];

__attribute__((destructor)) void write_counts()
{
    const char *path = getenv("SL_SIMGPU_COUNTS");
    if (path == nullptr) {
        return;
    }
    FILE *file = fopen(path, "w");
    bool good = file != nullptr;
    for (int i = 0; good && i < SL_N_COUNTED; i++) {
        good = fprintf(file, "%s\"%s\": %zu", i == 0 ? "{" : ", ", names[i], counts[i].load()) > 0;
    }
    if (!good || fprintf(file, "}\n") < 0 || fclose(file) != 0) {
        perror(path);
        _exit(1);
    }
}

} // namespace

void sl_count(enum sl_counted what)
{
    counts[what]++;
}

void sl_count_copy(enum sl_counted direction, size_t bytes, bool pageable)
{
    counts[direction]++;
    counts[direction + 1] += bytes;
    counts[SL_COUNTED_PAGEABLE] += pageable;
}

/* StarPU's own tasks, such as those that release data, have no codelet. */
extern "C" int(starpu_task_submit)(struct starpu_task *task)
{
    typedef int submit(struct starpu_task *);
    static submit *const starpus = (submit *)dlsym(RTLD_NEXT, "starpu_task_submit");
    counts[SL_COUNTED_TASKS] += task->cl != nullptr;
    return starpus(task);
}
