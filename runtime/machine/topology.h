/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What of the machine this process may use: cores, NUMA nodes, memory; by hwloc, the control groups and ulimit, so that Slurm's
 * cpusets and a container's limits count, not the machine's size. And where in its memory large tables lie.
 */
#ifndef SL_RUNTIME_MACHINE_TOPOLOGY_H
#define SL_RUNTIME_MACHINE_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/machine/limits.h"
#include "support/status.h"

struct sl_topology {
    uint32_t n_cores; /* physical cores in the process's cpuset, at least 1 */
    uint32_t n_pus;   /* hardware threads in it, at least 1 */
    uint32_t n_numa;  /* NUMA nodes with a core of the cpuset, at least 1 */
    uint32_t
        n_workers; /* worth starting: the cores, or as many whole processors as a control group grants; at least 1 */
    uint64_t memory_bytes;   /* what may be used: that of the allowed NUMA nodes, or the limit where that is smaller */
    struct sl_limits limits; /* beside the cpuset */
};

/* Ask the machine. SL_EINTERNAL: hwloc cannot read it. */
enum sl_status sl_topology_read(struct sl_topology *out);

#define SL_NUMA_ALL UINT32_MAX

/* A range of memory and the NUMA node it should lie on: 0 .. n_numa - 1, in the order of the cpuset; SL_NUMA_ALL: its pages on
 * all of them in turn. */
struct sl_memory_range {
    const void *memory;
    size_t bytes;
    uint32_t node;
};

/* Ask the system to put n ranges where they should be, pages that are there already too. Ranges that share a page: the later
 * one's wish counts. Returns how many were granted: a wish changes speed, not results, and a container may forbid it. */
uint32_t sl_topology_place(const struct sl_memory_range *ranges, uint32_t n);

#endif
