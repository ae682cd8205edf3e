/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The outputs of a run, checked and claimed before any work: --metrics, --save, --predict, --embed, --checkpoint,
 * --trace. Only rank 0 has outputs.
 */
#ifndef SL_RUNTIME_TRAIN_CLAIMS_H
#define SL_RUNTIME_TRAIN_CLAIMS_H

#include <stdbool.h>

#include "runtime/plan/settings.h"
#include "support/status.h"

/* The outputs that this process has claimed. The claims end with the process, or with sl_claims_release. */
struct sl_claims {
    bool open;
    int file;
    const char *folder; /* of --trace, the settings' */
    uint32_t n_made;    /* how many folders of it were not there */
};

/* Check that each file can be written, and claim it. No file stays and no file changes. A folder (--checkpoint,
 * --trace) is claimed only; that of --trace is made. Claims hold on this machine. Without a place for claims, outputs
 * are only checked. Pipes, devices and standard output are not claimed. SL_EIO: an output cannot be written.
 * SL_EINVAL: two outputs are one file. Or an output is the file of --pairs, --predict-vertices or --class-weights. Or
 * it is that of --load, which only --save and --checkpoint may replace. Or another process has claimed it (message:
 * its id). SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_claims_take(const struct sl_settings *settings, struct sl_claims *out);

/* A folder that was made goes again if it is empty. Empty claims are allowed. */
void sl_claims_release(struct sl_claims *claims);

/* A file to be written at the end; path NULL: none. */
struct sl_claims_file {
    const char *option;
    const char *path;
    uint64_t bytes;
};

/* Check that the disks have room for the files. Only regular or new files count. SL_EIO. */
enum sl_status sl_claims_check_room(const struct sl_claims_file *files, uint32_t n);

#endif
