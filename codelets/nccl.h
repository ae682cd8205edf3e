/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * NCCL between the GPUs of this process; the only file that calls it.
 *
 * One communicator spans n GPUs, rank i on the i-th. Each call below starts all it has to do in one NCCL group, by one thread, so
 * that all GPUs begin the same operations in the same order, and returns when they have ended: data are ready when it is called
 * and when it is back. Nothing waits for ever: communicators do not block, and an operation that takes longer than the timeout,
 * or of which NCCL reports an error, ends in SL_ENCCL with the GPUs that were still busy in the message. After that all
 * operations are aborted, and every further call is refused.
 *
 * One thread at a time. No StarPU here.
 */
#ifndef SL_CODELETS_NCCL_H
#define SL_CODELETS_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/real.h"
#include "support/status.h"

#define SL_NCCL_MAX_GPUS 64

/* This build has NCCL. */
bool sl_nccl_built(void);

struct sl_nccl;

/* Make the communicator, and connect every GPU with every other: no thread should be taking or giving back GPU memory meanwhile.
 * devices: n (1 .. SL_NCCL_MAX_GPUS) different numbers of CUDA's. timeout_s: of each exchange, in seconds, of which this call makes
 * three. SL_ENOTSUP: this build has no NCCL. SL_EINVAL, SL_ENOMEM, SL_ECUDA, SL_ENCCL. On failure *out is NULL. */
enum sl_status sl_nccl_open(uint32_t n, const int *devices, double timeout_s, struct sl_nccl **out);

/* Release; NULL is allowed. */
void sl_nccl_close(struct sl_nccl *nccl);

/* What goes from one GPU to another: bytes from `source`, in the memory of rank `from`, to `target` in that of rank `to`. */
struct sl_nccl_message {
    uint32_t from, to;
    size_t bytes;
    const void *source;
    void *target;
};

/* Grouped sends and receives. Messages between the same two GPUs arrive in the order given. SL_EINVAL, SL_ENCCL, SL_ECUDA. */
enum sl_status sl_nccl_move(struct sl_nccl *nccl, uint32_t n, const struct sl_nccl_message *messages);

/* target, in the memory of rank 0, becomes the sum over ranks of source[rank], n_entries each; in an order that NCCL chooses, the
 * same in every run on the same machine. SL_ENCCL, SL_ECUDA. */
enum sl_status sl_nccl_sum(struct sl_nccl *nccl, size_t n_entries, const sl_real *const *source, sl_real *target);

#endif
