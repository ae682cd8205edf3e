/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What of the machine this process may use: cores, NUMA nodes, memory; by hwloc and the control group, so that Slurm's cpusets
 * and a container's limits count, not the machine's size.
 */
#ifndef SL_RUNTIME_TOPOLOGY_H
#define SL_RUNTIME_TOPOLOGY_H

#include <stdint.h>

#include "support/status.h"

struct sl_topology {
    uint32_t n_cores;      /* physical cores in the process's cpuset, at least 1 */
    uint32_t n_pus;        /* hardware threads in it, at least 1 */
    uint32_t n_numa;       /* NUMA nodes with a core of the cpuset, at least 1 */
    uint64_t memory_bytes; /* what may be used: the machine's, or the control group's limit where that is smaller */
};

/* Ask the machine. SL_EINTERNAL: hwloc cannot read it. */
enum sl_status sl_topology_read(struct sl_topology *out);

#endif
