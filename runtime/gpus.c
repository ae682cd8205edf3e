/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * CUDA's own answers. */
#include "runtime/gpus.h"

#include <starpu.h>
#include <stdio.h>

#if defined(SL_CUDA) && STARPU_MAXCUDADEVS > 0

#include <starpu_cublas_v2.h>
#include <starpu_cusparse.h>

bool sl_gpus_built(void)
{
    return true;
}

uint32_t sl_gpus_count(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n < 0) {
        cudaGetLastError(); /* nobody else is to find this error */
        return 0;
    }
    return n < STARPU_MAXCUDADEVS ? (uint32_t)n : STARPU_MAXCUDADEVS;
}

void sl_gpus_describe(uint32_t gpu, char *out, size_t bytes)
{
    struct cudaDeviceProp properties;
    out[0] = '\0';
    if (cudaGetDeviceProperties(&properties, (int)gpu) == cudaSuccess) {
        snprintf(out, bytes, "%.64s, %.1f GiB", properties.name, (double)properties.totalGlobalMem / (1 << 30));
    }
}

uint32_t sl_gpus_list(int *devices, int *nodes)
{
    uint32_t n = 0;
    for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
        int device = starpu_worker_get_type((int)w) == STARPU_CUDA_WORKER ? starpu_worker_get_devid((int)w) : -1;
        bool known = device < 0;
        for (uint32_t i = 0; i < n; i++) {
            known = known || devices[i] == device;
        }
        if (!known) {
            devices[n] = device;
            nodes[n++] = (int)starpu_worker_get_memory_node(w);
        }
    }
    return n;
}

#define SCRATCH_SHARE 32 /* of a device's memory, one part */

/* What launchers take and give back for each task (codelets/kernel.cuh, sl_scratch) stays with the device's pool, up to a share
 * that StarPU does not count on: by itself the pool returns all of it to the driver whenever the device is waited for. */
static void keep_scratch_memory(void)
{
    int n = 0;
    cudaGetDeviceCount(&n);
    for (int gpu = 0; gpu < n; gpu++) {
        cudaMemPool_t pool;
        struct cudaDeviceProp properties;
        if (cudaDeviceGetDefaultMemPool(&pool, gpu) == cudaSuccess &&
            cudaGetDeviceProperties(&properties, gpu) == cudaSuccess) {
            uint64_t kept = properties.totalGlobalMem / SCRATCH_SHARE;
            cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept);
        }
    }
}

void sl_gpus_open_libraries(void)
{
    starpu_cublas_init();
    starpu_cusparse_init();
    keep_scratch_memory();
}

void sl_gpus_close_libraries(void)
{
    starpu_cusparse_shutdown();
    starpu_cublas_shutdown();
}

#else

bool sl_gpus_built(void)
{
    return false;
}

uint32_t sl_gpus_count(void)
{
    return 0;
}

void sl_gpus_describe(uint32_t gpu, char *out, size_t bytes)
{
    (void)gpu;
    (void)bytes;
    out[0] = '\0';
}

uint32_t sl_gpus_list(int *devices, int *nodes)
{
    (void)devices;
    (void)nodes;
    return 0;
}

void sl_gpus_open_libraries(void)
{
}

void sl_gpus_close_libraries(void)
{
}

#endif
