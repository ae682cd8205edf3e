/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The resources of this process: cores, NUMA nodes, memory. They come from hwloc, control groups and ulimit, so
 * cpusets of Slurm and limits of a container count instead of the machine's size. Also the placement of large
 * tables on NUMA nodes.
 */
#ifndef SL_RUNTIME_MACHINE_TOPOLOGY_H
#define SL_RUNTIME_MACHINE_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/machine/limits.h"
#include "support/status.h"

struct sl_topology {
    uint32_t n_cores; /* physical cores in the process's cpuset, at least 1 */
    uint32_t n_pus;   /* hardware threads in the cpuset, at least 1 */
    uint32_t n_numa;  /* NUMA nodes with a core of the cpuset, at least 1 */
    /* CPU workers worth starting: one per core, at most the whole processors granted by a control group; at least
     * 1 */
    uint32_t n_workers;
    /* memory of the allowed NUMA nodes, or a smaller limit */
    uint64_t memory_bytes;
    /* limits besides the cpuset */
    struct sl_limits limits;
};

/* Read the machine. SL_EINTERNAL: hwloc fails. */
enum sl_status sl_topology_read(struct sl_topology *out);

/* A core of this process. */
struct sl_core {
    uint32_t number; /* the system's number of its first hardware thread: the same in every process */
    uint32_t pu;     /* hwloc's number of its first hardware thread in the cpuset, as StarPU binds to */
};

/* The cores of which at least one hardware thread is in the process's cpuset, in hwloc's order; `room` at most.
 * SL_EINTERNAL. */
enum sl_status sl_topology_cores(uint32_t room, struct sl_core *cores_out, uint32_t *n_out);

#define SL_NUMA_ALL UINT32_MAX

/* A range of memory and its NUMA node: 0 .. n_numa - 1, in the order of the cpuset. SL_NUMA_ALL: interleave the pages
 * over all nodes. */
struct sl_memory_range {
    const void *memory;
    size_t bytes;
    uint32_t node;
};

/* Ask the system to put n ranges on their nodes; existing pages move. If ranges share a page, the later range wins.
 * Returns the number of granted ranges. A container may forbid placement. Placement affects speed only, not results. */
uint32_t sl_topology_place(const struct sl_memory_range *ranges, uint32_t n);

#endif
