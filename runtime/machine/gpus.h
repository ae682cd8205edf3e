/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The GPUs that this process may use, as CUDA counts them; none where StarPU or Starling was built without CUDA. What StarPU is to
 * make of them is told to it here, before it starts.
 */
#ifndef SL_RUNTIME_MACHINE_GPUS_H
#define SL_RUNTIME_MACHINE_GPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/plan/settings.h"
#include "support/status.h"

/* One of them. */
struct sl_gpu {
    uint32_t device; /* CUDA's number */
    char name[64];
    uint64_t bytes;      /* of memory */
    uint64_t free_bytes; /* of them that nobody has taken, this process's CUDA included */
    bool has_pools;      /* of memory in the order of streams, which launchers take theirs from */
    bool has_tensors;    /* units that multiply in TF32 and of bf16: compute capability 8 */
    bool limited;        /* sl_gpus_limit has set its variable */
};

/* This build can use GPUs. */
bool sl_gpus_built(void);

/* How many there are, no more than StarPU was built for; 0 where there is no driver. Starts CUDA, which takes a moment. */
uint32_t sl_gpus_count(void);

/* A number that tells GPU number `gpu` from others of this machine, in whatever order a process sees them; 0 where CUDA does not say. */
uint64_t sl_gpus_name(uint32_t gpu);

/* Of `there` GPUs that this rank sees, those that are its own: the ranks that see the same ones share them evenly (codelets/ranks.h,
 * sl_ranks_share), each those next to the last one's. All are where $STARPU_WORKERS_CUDAID names those to use. One rank has all.
 * Collective. SL_ENODEV: there are fewer than ranks that share them. */
enum sl_status sl_gpus_share(uint32_t there, uint32_t *first_out, uint32_t *n_out);

/* What GPU number `gpu` is, into `out`: "NVIDIA H100 80GB HBM3, 79.2 GiB". Empty where CUDA does not say. */
void sl_gpus_describe(uint32_t gpu, char *out, size_t bytes);

/* StarPU's GPUs: CUDA's number of each, and StarPU's memory node. StarPU is up. devices, nodes: room for as many as
 * sl_gpus_count() says. Returns how many. */
uint32_t sl_gpus_list(int *devices, int *nodes);

/* Ask CUDA about GPU number `gpu`, and start it there, as StarPU will: only then the free memory is known. The calling thread's
 * device stays what it is. SL_ECUDA. */
enum sl_status sl_gpus_read(uint32_t gpu, struct sl_gpu *out);

/* SL_ENOTSUP: a GPU, number `index`, whose driver has no pools of memory, or that is to multiply otherwise than in float, in TF32 or
 * of bf16 as --precision has it, and cannot. */
enum sl_status sl_gpus_check(uint32_t index, const struct sl_gpu *gpu, enum sl_precision precision);

/* $STARPU_NWORKER_PER_CUDA: homes of PEs, times of stages and working memory count on one worker, and so one stream, for each GPU.
 * SL_EINVAL: it asks for another number. */
enum sl_status sl_gpus_check_workers(void);

/* Bytes of its memory that StarPU may fill with data. The rest is for what launchers take for the time of a task
 * (codelets/kernel.cuh, sl_scratch), which StarPU does not know of and cannot make room for, and for the libraries' code and
 * buffers; with_nccl: NCCL's, too. */
uint64_t sl_gpus_data_bytes(const struct sl_gpu *gpu, bool with_nccl);

/* Let StarPU, which is not up yet, fill no more than that: sets $STARPU_LIMIT_CUDA_i_MEM, i being its device, for each of n GPUs, unless the user has
 * set that or $STARPU_LIMIT_CUDA_MEM. sl_gpus_unlimit puts the environment back once StarPU has read it. SL_ENOMEM. */
enum sl_status sl_gpus_limit(uint32_t n, struct sl_gpu *gpus, bool with_nccl);
void sl_gpus_unlimit(uint32_t n, const struct sl_gpu *gpus);

/* Whether GPUs can read main memory at this address, which StarPU said it has locked: $STARPU_DISABLE_PINNING makes it say so of
 * memory that is not. True in a build without CUDA. */
bool sl_gpus_reach(const void *memory);

/* Make cuBLAS, cuSPARSE and the devices' pools of memory ready on StarPU's GPUs, and release the libraries. StarPU is up, and has GPUs. */
void sl_gpus_open_libraries(void);
void sl_gpus_close_libraries(void);

#endif
