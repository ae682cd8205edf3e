/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors */
#include "tests/bench/calls.h"

#include <cuda_runtime_api.h>
#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>

#include "codelets/ends/optimize.h"

enum { CALLS = 100, MAX_REPEATS = 1000 };

static cudaStream_t stream, other;
static cudaEvent_t event;
static uint32_t *on_gpu, *pinned, pageable, shared;

/* ---- calls; false: it failed ---- */

/* A block of threads that find nothing to do. */
static bool launch(void)
{
    const struct sl_adam adam = {.lr = 0.003, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .t = 1};
    return sl_optimize_cuda(stream, &adam, 0, NULL) == SL_OK;
}

static bool copy_pinned(void)
{
    return cudaMemcpyAsync(pinned, on_gpu, sizeof *pinned, cudaMemcpyDeviceToHost, stream) == cudaSuccess;
}

static bool copy_pageable(void)
{
    return cudaMemcpyAsync(&pageable, on_gpu, sizeof pageable, cudaMemcpyDeviceToHost, stream) == cudaSuccess;
}

static bool clear(void)
{
    return cudaMemsetAsync(on_gpu, 0, sizeof *on_gpu, stream) == cudaSuccess;
}

static bool use_pool(void)
{
    void *data;
    return cudaMallocAsync(&data, 4096, stream) == cudaSuccess && cudaFreeAsync(data, stream) == cudaSuccess;
}

static bool record(void)
{
    return cudaEventRecord(event, stream) == cudaSuccess;
}

static bool record_and_wait(void)
{
    return record() && cudaStreamWaitEvent(other, event, 0) == cudaSuccess;
}

static bool query(void)
{
    cudaError_t error = cudaEventQuery(event);
    return error == cudaSuccess || error == cudaErrorNotReady;
}

static bool synchronize(void)
{
    return cudaStreamSynchronize(stream) == cudaSuccess;
}

/* ---- tasks ---- */

static void do_nothing(void *buffers[], void *arguments)
{
    (void)buffers;
    (void)arguments;
}

static struct starpu_codelet nothing = {
    .cuda_funcs = {do_nothing}, .cuda_flags = {STARPU_CUDA_ASYNC}, .name = "nothing"};
static struct starpu_codelet link_of_chain = {
    .cuda_funcs = {do_nothing}, .cuda_flags = {STARPU_CUDA_ASYNC}, .nbuffers = 1, .modes = {STARPU_RW}, .name = "link"};
static starpu_data_handle_t handle;

static bool submit(void)
{
    return starpu_task_insert(&nothing, 0) == 0;
}

static bool submit_link(void)
{
    return starpu_task_insert(&link_of_chain, STARPU_RW, handle, 0) == 0;
}

/* ---- timing ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, compare);
    return list[n / 2];
}

static bool wait_for_all(void)
{
    return starpu_task_wait_for_all() == 0 && cudaStreamSynchronize(stream) == cudaSuccess &&
           cudaStreamSynchronize(other) == cudaSuccess;
}

/* A line of the table: the host's time for a call of CALLS in a row; the same until all have ended; a single call until
 * it has ended. */
static bool measure(const char *name, bool (*call)(void), int n_repeats)
{
    double host[MAX_REPEATS], many[MAX_REPEATS], one[MAX_REPEATS];
    for (int i = 0; i < n_repeats + 3; i++) { /* three to warm up */
        const int at = i < 3 ? 0 : i - 3;
        double begin = starpu_timing_now();
        for (int c = 0; c < CALLS; c++) {
            if (!call()) {
                return false;
            }
        }
        host[at] = (starpu_timing_now() - begin) / CALLS;
        if (!wait_for_all()) {
            return false;
        }
        many[at] = (starpu_timing_now() - begin) / CALLS;
        begin = starpu_timing_now();
        if (!call() || !wait_for_all()) {
            return false;
        }
        one[at] = starpu_timing_now() - begin;
    }
    return printf("| %s | %.2f | %.2f | %.2f |\n", name, median(host, n_repeats), median(many, n_repeats),
                  median(one, n_repeats)) > 0;
}

static const struct {
    const char *name;
    bool (*call)(void);
} lines[] = {
    {"launch of an empty kernel", launch},
    {"copy of 4 bytes to pinned memory", copy_pinned},
    {"copy of 4 bytes to pageable memory", copy_pageable},
    {"clear of 4 bytes", clear},
    {"cudaMallocAsync and cudaFreeAsync", use_pool},
    {"record of an event", record},
    {"record, and another stream's wait for it", record_and_wait},
    {"query of an event", query},
    {"cudaStreamSynchronize of an idle stream", synchronize},
    {"empty StarPU task", submit},
    {"empty StarPU task, each after the one before", submit_link},
};

static bool open_all(void)
{
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = 0;
    conf.ncuda = 1;
    if (starpu_init(&conf) != 0) {
        fprintf(stderr, "bench_gpu: StarPU did not start\n");
        return false;
    }
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&shared, sizeof shared);
    return cudaStreamCreate(&stream) == cudaSuccess && cudaStreamCreate(&other) == cudaSuccess &&
           cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess &&
           cudaMalloc((void **)&on_gpu, sizeof *on_gpu) == cudaSuccess &&
           cudaHostAlloc((void **)&pinned, sizeof *pinned, cudaHostAllocDefault) == cudaSuccess && clear() && record();
}

static void close_all(void)
{
    cudaFree(on_gpu);
    cudaFreeHost(pinned);
    cudaEventDestroy(event);
    cudaStreamDestroy(other);
    cudaStreamDestroy(stream);
    starpu_data_unregister(handle);
    starpu_shutdown();
}

int bench_calls(int n_repeats)
{
    bool good = open_all();
    printf("| us | host | of %d, until their end | alone, until its end |\n| --- | --- | --- | --- |\n", CALLS);
    for (size_t i = 0; good && i < sizeof lines / sizeof *lines; i++) {
        good = measure(lines[i].name, lines[i].call, n_repeats);
        if (!good) {
            fprintf(stderr, "bench_gpu: %s: %s\n", lines[i].name, cudaGetErrorString(cudaGetLastError()));
        }
    }
    if (!good) {
        return 1; /* the process ends as it is */
    }
    close_all();
    return 0;
}
