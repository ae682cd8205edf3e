/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The cores that a run binds its workers to. Runs on one machine, of any user, take different cores. A run holds a
 * lock for each of its cores, on an empty file in /dev/shm. The system releases the locks when the process ends.
 */
#ifndef SL_RUNTIME_MACHINE_CORES_H
#define SL_RUNTIME_MACHINE_CORES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/machine/topology.h"

struct sl_cores {
    uint32_t n;           /* cores held by this run */
    struct sl_core *core; /* n of them */
    int *lock;            /* file descriptor of each core's lock */
    uint32_t n_there;     /* cores of this process's cpuset */
    uint32_t n_of_others; /* cores found locked by other runs */
};

/* Take the first `wanted` free cores; SL_CORES_ALL: every free core. Takes no core if fewer than
 * min(wanted, n_there) are free. folder: the folder of the lock files; NULL: /dev/shm. If lock files cannot be used
 * there, takes no core, and n_of_others is 0. SL_ENOMEM, SL_EINTERNAL. */
#define SL_CORES_ALL UINT32_MAX
enum sl_status sl_cores_take(const char *folder, uint32_t wanted, struct sl_cores *out);

/* Release core[i]; later cores move up. */
void sl_cores_drop(struct sl_cores *cores, uint32_t i);

/* Release all cores. An empty struct is allowed. */
void sl_cores_give(struct sl_cores *cores);

#endif
