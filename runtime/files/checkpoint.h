/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checkpoints: the state from which a run resumes exactly, in one safetensors file DIR/checkpoint.safetensors.
 *
 * The trainer chooses the tensors (parameters, Adam moments, running statistics) and the metadata (step, epoch, best
 * score, settings). This file writes and reads both. A new checkpoint replaces the old one atomically, so a run
 * killed at any moment leaves a whole checkpoint.
 */
#ifndef SL_RUNTIME_FILES_CHECKPOINT_H
#define SL_RUNTIME_FILES_CHECKPOINT_H

#include <stdbool.h>

#include "support/safetensors.h"
#include "support/status.h"

/* Save to the folder `dir`, and make the folder if missing. `metadata` must not have the keys "starling_checkpoint"
 * and "starling_checksum": the function adds both. SL_EINVAL, SL_EIO, SL_ENOMEM: the old checkpoint is then
 * unchanged. */
enum sl_status sl_checkpoint_save(const char *dir, const struct sl_tensor *tensors, uint32_t n,
                                  const struct sl_metadata *metadata, uint32_t n_metadata);

/* Load from the folder `dir`. The caller frees *out (sl_tensors_free). SL_ENOTFOUND: no checkpoint there
 * (--resume=auto then starts afresh). SL_EFILE: not a checkpoint, of another version, or damaged. SL_EIO, SL_ENOMEM.
 * On failure *out is empty. */
enum sl_status sl_checkpoint_load(const char *dir, struct sl_tensors *out);

/* The checksum of a loaded checkpoint's arrays, as text. */
const char *sl_checkpoint_checksum(const struct sl_tensors *checkpoint);

/* A lock on a checkpoint folder. */
struct sl_checkpoint_lock {
    bool held;
    int file;
    char *path;
};

/* Lock the existing folder `dir` for this process, by a file DIR/lock. If the process ends without
 * sl_checkpoint_release, the system unlocks the folder. If the file cannot be made or the file system has no locks:
 * SL_OK with out->held false. SL_EINVAL: another process holds the lock (message: its id). SL_ENOMEM. On failure
 * *out is empty. */
enum sl_status sl_checkpoint_acquire(const char *dir, struct sl_checkpoint_lock *out);

/* Unlock and remove the file. A lock that is not held, or empty, is allowed. */
void sl_checkpoint_release(struct sl_checkpoint_lock *lock);

/* True if a safetensors file is a checkpoint, of any version. */
bool sl_is_checkpoint(const struct sl_tensors *tensors);

/* A metadata value as a number: a whole decimal or a real number, as given to sl_checkpoint_save. SL_EFILE: the key
 * is missing, or the value is not such a number. */
enum sl_status sl_checkpoint_whole(const struct sl_tensors *checkpoint, const char *key, uint64_t *out);
enum sl_status sl_checkpoint_real(const struct sl_tensors *checkpoint, const char *key, double *out);

#endif
