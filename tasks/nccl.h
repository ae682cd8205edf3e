/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * NCCL between the GPUs of this process. No other file calls NCCL.
 *
 * One communicator spans n GPUs; rank i is the i-th GPU. Each call below runs all its operations in one NCCL group,
 * from one thread, so that all GPUs start the same operations in the same order. The call returns when the
 * operations have completed. The data must be ready when the call begins.
 *
 * No call waits forever. Communicators are non-blocking. An operation that exceeds the timeout, or that NCCL reports
 * as failed, returns SL_ENCCL, and the message names the GPUs that were still busy. All operations are then aborted,
 * and every later call fails.
 *
 * Not thread safe: one thread at a time. This file does not use StarPU.
 */
#ifndef SL_TASKS_NCCL_H
#define SL_TASKS_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

#define SL_NCCL_MAX_GPUS 64

/* Whether this build has NCCL. */
bool sl_nccl_built(void);

struct sl_nccl;

/* Create the communicator and connect each pair of GPUs. No other thread may allocate or free GPU memory meanwhile.
 * devices: n different CUDA device numbers, 1 <= n <= SL_NCCL_MAX_GPUS. timeout_s: limit of each exchange, in
 * seconds; this call makes three exchanges. SL_ENOTSUP: this build has no NCCL. SL_EINVAL, SL_ENOMEM, SL_ECUDA,
 * SL_ENCCL. On failure *out is NULL. */
enum sl_status sl_nccl_open(uint32_t n, const int *devices, double timeout_s, struct sl_nccl **out);

/* Release the communicator. NULL is allowed. */
void sl_nccl_close(struct sl_nccl *nccl);

/* A copy of `bytes` bytes from `source`, in the memory of rank `from`, to `target`, in the memory of rank `to`. */
struct sl_nccl_message {
    uint32_t from, to;
    size_t bytes;
    const void *source;
    void *target;
};

/* Run n messages as grouped sends and receives. Messages between the same two GPUs arrive in the given order.
 * SL_ENCCL, SL_ECUDA. */
enum sl_status sl_nccl_move(struct sl_nccl *nccl, uint32_t n, const struct sl_nccl_message *messages);

/* target = sum over ranks of source[rank], n_entries each. target is in the memory of rank 0. NCCL chooses the order
 * of the additions, always the same on one machine. SL_ENCCL, SL_ECUDA. */
enum sl_status sl_nccl_sum(struct sl_nccl *nccl, size_t n_entries, const sl_real *const *source, sl_real *target);

#endif
