/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What the system leaves to this process of the machine's memory and processors, beside its cpuset: control groups of version 1
 * and 2, as containers and Slurm set them up, and `ulimit`.
 */
#ifndef SL_RUNTIME_MACHINE_LIMITS_H
#define SL_RUNTIME_MACHINE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

struct sl_limits {
    uint64_t memory_bytes; /* UINT64_MAX: no limit */
    double processors;     /* processor seconds a second; infinity: no limit */
};

/* The smallest limits of the control groups that the file `groups` lists (/proc/self/cgroup: "N:CONTROLLERS:GROUP" a line, and
 * "0::GROUP" for version 2) and of those above them, which lie under the folder `root` (/sys/fs/cgroup): memory.max, memory.high
 * and cpu.max, or memory/memory.limit_in_bytes and cpu/cpu.cfs_quota_us over cpu.cfs_period_us. Files that are not there or hold
 * no number are no limit. */
void sl_limits_of_groups(const char *groups, const char *root, struct sl_limits *out);

/* Those of this process: of its control groups, and of `ulimit -v` and `-d` for memory. */
void sl_limits_read(struct sl_limits *out);

/* Bytes of memory that this process may use: the machine's, or its own limit if that is smaller. UINT64_MAX: not known. */
uint64_t sl_limits_memory(void);

/* Whether `ulimit -v` and `-d` leave this process so many more bytes of address space; true where there is no such limit. Counted is
 * what is mapped, touched or not. */
bool sl_limits_have_room(uint64_t bytes);

/* How many more threads, `wanted` at most, the system gives this process now (`ulimit -u`, a control group's pids.max): as many are
 * begun, and have ended on return. StarPU aborts at a worker that gets none. */
unsigned sl_limits_threads(unsigned wanted);

#endif
