/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Limits of this process on memory and processors, besides its cpuset: control groups (versions 1 and 2, as
 * containers and Slurm use them) and `ulimit`.
 */
#ifndef SL_RUNTIME_MACHINE_LIMITS_H
#define SL_RUNTIME_MACHINE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sl_limits {
    uint64_t memory_bytes; /* UINT64_MAX: no limit */
    double processors;     /* processor time per wall time; infinity: no limit */
};

/* Read the smallest limits of control groups and of all groups above them.
 * groups: a file like /proc/self/cgroup, with a line "N:CONTROLLERS:GROUP" per group; "0::GROUP" for version 2.
 * root: the folder of the groups, like /sys/fs/cgroup. Version 2 has memory.max, memory.high and cpu.max. Version 1
 * has memory/memory.limit_in_bytes, and cpu/cpu.cfs_quota_us over cpu.cfs_period_us.
 * A missing file, or one without a number, sets no limit. */
void sl_limits_of_groups(const char *groups, const char *root, struct sl_limits *out);

/* Read the limits of this process: its control groups, and `ulimit -v` and `-d` for memory. */
void sl_limits_read(struct sl_limits *out);

/* Bytes of memory that this process may use: the machine's, or the process's limit if it is smaller. UINT64_MAX:
 * unknown. */
uint64_t sl_limits_memory(void);

/* Whether `ulimit -v` and `-d` allow this process to map so many more bytes; true without such a limit. */
bool sl_limits_have_room(uint64_t bytes);

/* How many more threads this process can start, at most `wanted` (`ulimit -u`, pids.max of a control group). The
 * function starts the threads and ends them again. StarPU aborts if a worker gets no thread. */
unsigned sl_limits_threads(unsigned wanted);

/* The stack size of new threads: `ulimit -s`, or what the program has set. */
size_t sl_limits_stack(void);

#endif
