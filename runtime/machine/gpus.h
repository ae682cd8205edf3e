/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The GPUs of this process, with CUDA's numbers; none if StarPU or Starling was built without CUDA. Also StarPU's
 * settings for GPUs, made before StarPU starts.
 */
#ifndef SL_RUNTIME_MACHINE_GPUS_H
#define SL_RUNTIME_MACHINE_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/plan/settings.h"
#include "support/status.h"

struct sl_gpu {
    uint32_t device; /* CUDA's number */
    char name[64];
    uint64_t bytes; /* memory */
    /* free memory, after CUDA has started on the GPU in this process */
    uint64_t free_bytes;
    /* stream-ordered memory pools (cudaMallocAsync), required by launchers */
    bool has_pools;
    /* TF32 and bf16 products: compute capability 8 */
    bool has_tensors;
    /* whether sl_gpus_limit has set this GPU's variable */
    bool limited;
};

/* Whether this build can use GPUs. */
bool sl_gpus_built(void);

/* The number of GPUs, at most as many as StarPU was built for; 0 without a driver. Starts CUDA: takes a moment. */
uint32_t sl_gpus_count(void);

/* A hash to identify GPU number `gpu` among the GPUs of the machine, independent of a process's numbering. 0:
 * CUDA gives no identity. */
uint64_t sl_gpus_name(uint32_t gpu);

/* Divide GPUs between ranks. `there`: the number of GPUs visible to this rank. Ranks with the same visible GPUs
 * share evenly; each gets consecutive GPUs (tasks/ranks.h, sl_ranks_share). A single rank, or a rank with
 * $STARPU_WORKERS_CUDAID set, gets all. Collective. SL_ENODEV: fewer GPUs than ranks. */
enum sl_status sl_gpus_share(uint32_t there, uint32_t *first_out, uint32_t *n_out);

/* Describe GPU number `gpu`: "NVIDIA H100 80GB HBM3, 79.2 GiB". Empty if CUDA gives no properties. */
void sl_gpus_describe(uint32_t gpu, char *out, size_t bytes);

/* List StarPU's GPUs: CUDA's number and StarPU's memory node. devices, nodes: room for sl_gpus_count() entries.
 * Returns the number of GPUs. StarPU is up. */
uint32_t sl_gpus_list(int *devices, int *nodes);

/* Read the properties of GPU number `gpu`. Starts CUDA on the GPU, because the free memory is only known then. The
 * calling thread's current device does not change. SL_ECUDA. */
enum sl_status sl_gpus_read(uint32_t gpu, struct sl_gpu *out);

/* Check a GPU, number `index`. SL_ENOTSUP: the driver has no memory pools, or the GPU does not support --precision. */
enum sl_status sl_gpus_check(uint32_t index, const struct sl_gpu *gpu, enum sl_precision precision);

/* The number of workers of a GPU. With two workers, one samples a step while the other computes the step before. Each
 * has a thread and a stream. The home of a PE is the first worker of its GPU.
 * alone: the process is the only one, it samples, and CPUs leave all they can to its only GPU. Otherwise 1.
 * room: each worker and the main thread can have a processor. If not, 1.
 * $STARPU_NWORKER_PER_CUDA, 1 or 2, decides instead of `room`. SL_EINVAL: the environment asks for what cannot be. */
enum sl_status sl_gpus_workers(bool alone, bool room, uint32_t *n_out);

/* Around StarPU's start: set the variables for this number of workers of a GPU, unless the user has set them, and take
 * them back. SL_ENOMEM. */
struct sl_gpus_variables {
    unsigned set; /* a bit for each variable */
};
enum sl_status sl_gpus_set_workers(uint32_t n_workers, struct sl_gpus_variables *out);
void sl_gpus_unset_workers(const struct sl_gpus_variables *variables);

/* The bytes of GPU memory available to StarPU's data. The rest is for launchers' scratch memory
 * (codelets/kernel.cuh, sl_scratch), not known to StarPU, and for code and buffers of libraries.
 * with_nccl: also for NCCL. */
uint64_t sl_gpus_data_bytes(const struct sl_gpu *gpu, bool with_nccl);

/* Before StarPU starts: limit StarPU to sl_gpus_data_bytes on each of n GPUs. Sets $STARPU_LIMIT_CUDA_i_MEM, i
 * being the device, unless the user has set this variable or $STARPU_LIMIT_CUDA_MEM. SL_ENOMEM. */
enum sl_status sl_gpus_limit(uint32_t n, struct sl_gpu *gpus, bool with_nccl);

/* Restore the environment, after StarPU's start. */
void sl_gpus_unlimit(uint32_t n, const struct sl_gpu *gpus);

/* Whether GPUs can read main memory at this address. With $STARPU_DISABLE_PINNING StarPU reports memory as locked
 * although it is not; this asks CUDA. True in a build without CUDA. */
bool sl_gpus_reach(const void *memory);

/* Set up cuBLAS, cuSPARSE and the memory pools on StarPU's GPUs; release the libraries. StarPU is up and has GPUs. */
void sl_gpus_open_libraries(void);
void sl_gpus_close_libraries(void);

#endif
