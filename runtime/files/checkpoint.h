/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Checkpoints: all that a run needs to go on exactly, in one safetensors file DIR/checkpoint.safetensors.
 *
 * What the tensors and metadata are is the trainer's business (parameters, Adam moments, running statistics; step, epoch, best
 * score, settings); this file stores and finds them. A new checkpoint replaces the old one atomically, so that a run killed at
 * any moment leaves a whole one.
 */
#ifndef SL_RUNTIME_FILES_CHECKPOINT_H
#define SL_RUNTIME_FILES_CHECKPOINT_H

#include <stdbool.h>

#include "runtime/files/safetensors.h"
#include "support/status.h"

/* Save to the folder `dir`, which is made where it is missing. The keys "starling_checkpoint" and "starling_checksum" are added
 * to the metadata, and must not be in it. SL_EINVAL, SL_EIO, SL_ENOMEM: the old checkpoint is then still there. */
enum sl_status sl_checkpoint_save(const char *dir, const struct sl_tensor *tensors, uint32_t n,
                                  const struct sl_metadata *metadata, uint32_t n_metadata);

/* Load from the folder `dir`. SL_ENOTFOUND: there is none (with --resume=auto: start afresh). SL_EFILE: it is no checkpoint,
 * of another version, or damaged. SL_EIO, SL_ENOMEM. On failure *out is empty; else sl_tensors_free it. */
enum sl_status sl_checkpoint_load(const char *dir, struct sl_tensors *out);

/* A folder that no other process is to save into. */
struct sl_checkpoint_lock {
    bool held;
    int file;
    char *path;
};

/* Take the folder `dir`, which is there, for this process, by a file DIR/lock; the system gives it free when the process ends, however
 * that comes. Where no such file can be made, or the file system knows no locks, the folder is nobody's: SL_OK with out->held false.
 * SL_EINVAL: another process has it (message: which). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_checkpoint_acquire(const char *dir, struct sl_checkpoint_lock *out);

/* Give it free and remove the file; one that is not held, or empty, is allowed. */
void sl_checkpoint_release(struct sl_checkpoint_lock *lock);

/* Whether a safetensors file that was read is a checkpoint, of whatever version. */
bool sl_is_checkpoint(const struct sl_tensors *tensors);

/* A metadata value as a number: the whole decimal or real number that sl_checkpoint_save's caller wrote.
 * SL_EFILE: it is missing, or no such number. */
enum sl_status sl_checkpoint_whole(const struct sl_tensors *checkpoint, const char *key, uint64_t *out);
enum sl_status sl_checkpoint_real(const struct sl_tensors *checkpoint, const char *key, double *out);

#endif
