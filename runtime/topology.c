/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The only file that includes hwloc. */
#include "runtime/topology.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The number in a file, or UINT64_MAX where there is none ("max" is no limit). */
static uint64_t number_in(const char *path)
{
    unsigned long long value;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return UINT64_MAX;
    }
    int n = fscanf(file, "%llu", &value);
    fclose(file);
    return n == 1 ? value : UINT64_MAX;
}

/* The smallest limit from a group up to the root of its hierarchy. Cuts the name shorter and shorter. */
static uint64_t smallest_limit(const char *root, char *group, const char *file)
{
    uint64_t limit = UINT64_MAX;
    for (;;) {
        char path[4352];
        snprintf(path, sizeof path, "%s%s/%s", root, group, file);
        uint64_t here = number_in(path);
        limit = here < limit ? here : limit;
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return limit;
        }
        *slash = '\0';
    }
}

/* The control group's memory limit by version 1 ("N:memory:GROUP") or 2 ("0::GROUP"); UINT64_MAX: none. */
static uint64_t group_limit(void)
{
    char line[4096];
    uint64_t limit = UINT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        uint64_t here = UINT64_MAX;
        char *memory = strstr(line, ":memory:");
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0) {
            here = smallest_limit("/sys/fs/cgroup", line + 3, "memory.max");
        } else if (memory != NULL) {
            here = smallest_limit("/sys/fs/cgroup/memory", memory + 8, "memory.limit_in_bytes");
        }
        limit = here < limit ? here : limit;
    }
    if (file != NULL) {
        fclose(file);
    }
    return limit;
}

/* The machine's memory: hwloc's count of the nodes, or the system's where memory was added later. */
static uint64_t machine_memory(hwloc_topology_t topology)
{
    uint64_t nodes = hwloc_get_root_obj(topology)->total_memory;
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t system = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    return nodes > system ? nodes : system;
}

static uint32_t count_inside(hwloc_topology_t topology, hwloc_const_cpuset_t set, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, set, type);
    return n < 1 ? 1 : (uint32_t)n;
}

/* NUMA nodes that have at least one hardware thread of the set. */
static uint32_t count_numa(hwloc_topology_t topology, hwloc_const_cpuset_t set)
{
    uint32_t n = 0;
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL) {
        n += node->cpuset != NULL && hwloc_bitmap_intersects(node->cpuset, set);
    }
    return n == 0 ? 1 : n;
}

enum sl_status sl_topology_read(struct sl_topology *out)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) {
        return sl_fail(SL_EINTERNAL, "hwloc cannot start; is the machine out of memory?");
    }
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return sl_fail(SL_EINTERNAL, "hwloc cannot read this machine; does lstopo work?");
    }
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    if (set == NULL || hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0 || hwloc_bitmap_iszero(set)) {
        hwloc_bitmap_free(set);
        set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology));
    }
    hwloc_bitmap_and(set, set, hwloc_topology_get_allowed_cpuset(topology));
    uint64_t memory = machine_memory(topology);
    uint64_t limit = group_limit();
    out->n_cores = count_inside(topology, set, HWLOC_OBJ_CORE);
    out->n_pus = count_inside(topology, set, HWLOC_OBJ_PU);
    out->n_numa = count_numa(topology, set);
    out->memory_bytes = limit < memory ? limit : memory;
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
    return SL_OK;
}
