/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Which cores of the machine a run binds its workers to: cores that no other run has bound, whoever started it. A
 * run holds a lock for each core, on an empty file of /dev/shm that all runs share. The system gives the locks back
 * when a process ends, however it ends.
 */
#ifndef SL_RUNTIME_MACHINE_CORES_H
#define SL_RUNTIME_MACHINE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/machine/topology.h"

struct sl_cores {
    uint32_t n;           /* held by this run; 0: none, StarPU binds as it likes, or nothing is bound */
    struct sl_core *core; /* n of them */
    int *lock;            /* the file of each */
    uint32_t n_there;     /* cores of this process */
    uint32_t n_of_others; /* of which other runs hold so many */
};

/* Take the first `wanted` cores that are free, or all free ones if those are wanted (SL_CORES_ALL). If fewer than
 * min(wanted, n_there) are free, takes none. folder: where the files are; NULL: /dev/shm. If files cannot be made
 * or locked there, takes none, and n_of_others is 0. SL_ENOMEM, SL_EINTERNAL. */
#define SL_CORES_ALL UINT32_MAX
enum sl_status sl_cores_take(const char *folder, uint32_t wanted, struct sl_cores *out);

/* Give a core back, by its place in `core`: others move up. */
void sl_cores_drop(struct sl_cores *cores, uint32_t i);

/* Give all back. An empty struct is allowed. */
void sl_cores_give(struct sl_cores *cores);

#endif
