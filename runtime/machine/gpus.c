/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Queries to CUDA, and StarPU's variables for GPUs. */
#include "runtime/machine/gpus.h"

#include <starpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/file.h"
#include "support/minmax.h"
#include "tasks/ranks.h"

#define SCRATCH_SHARE 16                    /* one of so many parts of free memory is for launchers */
#define LIBRARY_BYTES ((uint64_t)512 << 20) /* code of kernels, cuBLAS, cuSPARSE and their buffers */
#define NCCL_BYTES ((uint64_t)1 << 30)      /* buffers of NCCL's channels */

/* ---- StarPU's settings ---- */

enum sl_status sl_gpus_check(uint32_t index, const struct sl_gpu *gpu, enum sl_precision precision)
{
    SL_FAIL_IF(precision != SL_PRECISION_FLOAT && !gpu->has_tensors, SL_ENOTSUP,
               "--precision: found %s with GPU %u, %.60s, which does not multiply so (compute capability 8 does); "
               "expected float",
               precision == SL_PRECISION_BF16 ? "bf16" : "tf32", index, gpu->name);
    SL_FAIL_IF(!gpu->has_pools, SL_ENOTSUP,
               "GPU %u, %.60s: expected memory pools (cudaMallocAsync), found none; try a newer "
               "driver, other GPUs "
               "($CUDA_VISIBLE_DEVICES), or --gpus 0",
               index, gpu->name);
    return SL_OK;
}

enum sl_status sl_gpus_workers(bool alone, bool room, uint32_t *n_out)
{
    const char *wanted = getenv("STARPU_NWORKER_PER_CUDA");
    const bool by_device = getenv("STARPU_CUDA_THREAD_PER_DEV") != NULL;
    if (wanted == NULL || wanted[0] == '\0') {
        *n_out = alone && room && !by_device ? 2 : 1;
        return SL_OK;
    }
    *n_out = strcmp(wanted, "2") == 0 ? 2 : 1;
    SL_FAIL_IF((*n_out == 2 && !alone) || (*n_out == 1 && strcmp(wanted, "1") != 0), SL_EINVAL,
               "$STARPU_NWORKER_PER_CUDA: found '%.32s', expected 1 worker for each GPU, or 2 in one process of "
               "coop_sage with one GPU that does all it can; unset it",
               wanted);
    SL_FAIL_IF(*n_out == 2 && by_device, SL_EINVAL,
               "$STARPU_CUDA_THREAD_PER_DEV: found with 2 workers of a GPU, expected a thread for each; unset it");
    return SL_OK;
}

/* For two workers of a GPU. */
static const char *const of_two[][2] = {{"STARPU_NWORKER_PER_CUDA", "2"}, {"STARPU_CUDA_THREAD_PER_WORKER", "1"}};
#define N_OF_TWO (sizeof of_two / sizeof of_two[0])

enum sl_status sl_gpus_set_workers(uint32_t n_workers, struct sl_gpus_variables *out)
{
    *out = (struct sl_gpus_variables){0};
    for (size_t i = 0; n_workers == 2 && i < N_OF_TWO; i++) {
        const char *own = getenv(of_two[i][0]);
        if (own == NULL || own[0] == '\0') {
            SL_FAIL_IF(setenv(of_two[i][0], of_two[i][1], 1) != 0, SL_ENOMEM, "no memory to set StarPU's environment");
            out->set |= 1u << i;
        }
    }
    return SL_OK;
}

void sl_gpus_unset_workers(const struct sl_gpus_variables *variables)
{
    for (size_t i = 0; i < N_OF_TWO; i++) {
        if (variables->set & 1u << i) {
            unsetenv(of_two[i][0]);
        }
    }
}

uint64_t sl_gpus_data_bytes(const struct sl_gpu *gpu, bool with_nccl)
{
    uint64_t reserve = gpu->free_bytes / SCRATCH_SHARE + LIBRARY_BYTES + (with_nccl ? NCCL_BYTES : 0);
    return gpu->free_bytes - sl_min_u64(reserve, gpu->free_bytes / 2);
}

#define LIMIT_BYTES 40 /* a variable's name */

static void name_limit(uint32_t gpu, char out[LIMIT_BYTES])
{
    snprintf(out, LIMIT_BYTES, "STARPU_LIMIT_CUDA_%u_MEM", gpu);
}

enum sl_status sl_gpus_limit(uint32_t n, struct sl_gpu *gpus, bool with_nccl)
{
    if (getenv("STARPU_LIMIT_CUDA_MEM") != NULL) {
        return SL_OK;
    }
    for (uint32_t gpu = 0; gpu < n; gpu++) {
        char name[LIMIT_BYTES];
        char megabytes[24];
        name_limit(gpus[gpu].device, name);
        if (getenv(name) != NULL) {
            continue;
        }
        snprintf(megabytes, sizeof megabytes, "%llu",
                 (unsigned long long)(sl_gpus_data_bytes(&gpus[gpu], with_nccl) >> 20));
        if (setenv(name, megabytes, 1) != 0) {
            sl_gpus_unlimit(gpu, gpus);
            return sl_fail(SL_ENOMEM, "no memory to set StarPU's environment");
        }
        gpus[gpu].limited = true;
    }
    return SL_OK;
}

void sl_gpus_unlimit(uint32_t n, const struct sl_gpu *gpus)
{
    for (uint32_t gpu = 0; gpu < n; gpu++) {
        char name[LIMIT_BYTES];
        name_limit(gpus[gpu].device, name);
        if (gpus[gpu].limited) {
            unsetenv(name);
        }
    }
}

/* ---- ranks of one machine ---- */

enum sl_status sl_gpus_share(uint32_t there, uint32_t *first_out, uint32_t *n_out)
{
    uint64_t names[SL_RANKS_MOST_SHARED];
    uint32_t n_names = sl_min_u32(there, SL_RANKS_MOST_SHARED);
    struct sl_ranks_share among = {0, 1};
    for (uint32_t gpu = 0; gpu < n_names; gpu++) {
        names[gpu] = sl_gpus_name(gpu);
    }
    SL_CHECK(sl_ranks_share(n_names, names, &among));
    if (getenv("STARPU_WORKERS_CUDAID") != NULL) {
        among = (struct sl_ranks_share){0, 1};
    }
    *n_out = there / among.n;
    *first_out = among.index * *n_out;
    SL_FAIL_IF(there > 0 && *n_out == 0, SL_ENODEV,
               "--gpus: found %u for %u processes of this machine, expected one for each at the least; start "
               "fewer of them there, or give --gpus 0",
               there, among.n);
    return SL_OK;
}

uint32_t sl_gpus_list(int *devices, int *nodes)
{
    uint32_t n = 0;
    for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
        const int device = starpu_worker_get_devid((int)w);
        if (starpu_worker_get_type((int)w) == STARPU_CUDA_WORKER && (n == 0 || devices[n - 1] != device)) {
            devices[n] = device;
            nodes[n++] = (int)starpu_worker_get_memory_node(w);
        }
    }
    return n;
}

/* ---- CUDA ---- */

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
        cudaGetLastError(); /* clear the error: later checks must not see it */
        return 0;
    }
    return n < STARPU_MAXCUDADEVS ? (uint32_t)n : STARPU_MAXCUDADEVS;
}

uint64_t sl_gpus_name(uint32_t gpu)
{
    struct cudaDeviceProp properties;
    bool told = cudaGetDeviceProperties(&properties, (int)gpu) == cudaSuccess;
    cudaGetLastError();
    return told ? sl_checksum(0, &properties.uuid, sizeof properties.uuid) : 0;
}

void sl_gpus_describe(uint32_t gpu, char *out, size_t bytes)
{
    struct cudaDeviceProp properties;
    out[0] = '\0';
    if (cudaGetDeviceProperties(&properties, (int)gpu) == cudaSuccess) {
        snprintf(out, bytes, "%.64s, %.1f GiB", properties.name, (double)properties.totalGlobalMem / (1 << 30));
    }
}

/* Report a CUDA error, and clear it: later checks must not see it. */
static enum sl_status refused(uint32_t gpu, const char *action, cudaError_t error)
{
    cudaGetLastError();
    return sl_fail(SL_ECUDA, "GPU %u: CUDA failed to %s: %s; is another program using all of it?", gpu, action,
                   cudaGetErrorString(error));
}

enum sl_status sl_gpus_read(uint32_t gpu, struct sl_gpu *out)
{
    struct cudaDeviceProp properties;
    int has_pools = 0;
    int current = 0; /* the caller's device, restored below */
    size_t free_bytes = 0;
    size_t bytes = 0;
    cudaError_t error = cudaGetDeviceProperties(&properties, (int)gpu);
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, (int)gpu);
    }
    if (error != cudaSuccess) {
        return refused(gpu, "tell its properties", error);
    }
    cudaGetDevice(&current);
    error = cudaSetDevice((int)gpu);
    if (error == cudaSuccess) {
        error = cudaMemGetInfo(&free_bytes, &bytes);
    }
    cudaSetDevice(current);
    if (error != cudaSuccess) {
        return refused(gpu, "start there", error);
    }
    *out = (struct sl_gpu){.device = gpu,
                           .bytes = bytes,
                           .free_bytes = free_bytes,
                           .has_pools = has_pools != 0,
                           .has_tensors = properties.major >= 8};
    snprintf(out->name, sizeof out->name, "%.60s", properties.name);
    return SL_OK;
}

bool sl_gpus_reach(const void *memory)
{
    void *mapped;
    bool reached = cudaHostGetDevicePointer(&mapped, (void *)(uintptr_t)memory, 0) == cudaSuccess;
    cudaGetLastError();
    return reached;
}

/* Let each device's pool keep launchers' scratch memory (codelets/kernel.cuh, sl_scratch), up to the fraction
 * reserved from StarPU. By default a pool returns all memory to the driver at every synchronisation. */
static void keep_scratch_memory(void)
{
    int devices[STARPU_MAXCUDADEVS];
    int nodes[STARPU_MAXCUDADEVS];
    uint32_t n = sl_gpus_list(devices, nodes);
    for (uint32_t i = 0; i < n; i++) {
        cudaMemPool_t pool;
        struct sl_gpu gpu;
        if (sl_gpus_read((uint32_t)devices[i], &gpu) == SL_OK &&
            cudaDeviceGetDefaultMemPool(&pool, devices[i]) == cudaSuccess) {
            uint64_t kept = gpu.free_bytes / SCRATCH_SHARE;
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

uint64_t sl_gpus_name(uint32_t gpu)
{
    (void)gpu;
    return 0;
}

void sl_gpus_describe(uint32_t gpu, char *out, size_t bytes)
{
    (void)gpu;
    (void)bytes;
    out[0] = '\0';
}

enum sl_status sl_gpus_read(uint32_t gpu, struct sl_gpu *out)
{
    *out = (struct sl_gpu){0};
    return sl_fail(SL_ENOTSUP, "GPU %u: this build has no CUDA", gpu);
}

bool sl_gpus_reach(const void *memory)
{
    (void)memory;
    return true;
}

void sl_gpus_open_libraries(void)
{
}

void sl_gpus_close_libraries(void)
{
}

#endif
