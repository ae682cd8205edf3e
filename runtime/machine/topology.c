/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The only file that includes hwloc. */
#include "runtime/machine/topology.h"

#include "support/minmax.h"

#include <hwloc.h>
#include <unistd.h>

/* Memory of the allowed nodes. The system's count includes memory added after the start, but ignores cpusets. */
static uint64_t machine_memory(hwloc_topology_t topology)
{
    uint64_t nodes = hwloc_get_root_obj(topology)->total_memory;
    if (!hwloc_bitmap_isequal(hwloc_topology_get_allowed_nodeset(topology),
                              hwloc_topology_get_complete_nodeset(topology))) {
        return nodes;
    }
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t system = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    return sl_max_u64(nodes, system);
}

static uint32_t count_inside(hwloc_topology_t topology, hwloc_const_cpuset_t set, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_inside_cpuset_by_type(topology, set, type);
    return n < 1 ? 1 : (uint32_t)n;
}

/* The next NUMA node after `node` (NULL: the first) with at least one hardware thread of the set; NULL: no further
 * node. */
static hwloc_obj_t next_numa(hwloc_topology_t topology, hwloc_const_cpuset_t set, hwloc_obj_t node)
{
    do {
        node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node);
    } while (node != NULL && (node->cpuset == NULL || !hwloc_bitmap_intersects(node->cpuset, set)));
    return node;
}

static uint32_t count_numa(hwloc_topology_t topology, hwloc_const_cpuset_t set)
{
    uint32_t n = 0;
    for (hwloc_obj_t node = NULL; (node = next_numa(topology, set, node)) != NULL;) {
        n++;
    }
    return n == 0 ? 1 : n;
}

/* Open hwloc's view of the machine, and the set of this process's hardware threads: bound and allowed. */
static enum sl_status open_machine(hwloc_topology_t *topology_out, hwloc_cpuset_t *set_out)
{
    hwloc_topology_t topology;
    SL_FAIL_IF(hwloc_topology_init(&topology) != 0, SL_EINTERNAL, "hwloc cannot start; is the machine out of memory?");
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return sl_fail(SL_EINTERNAL, "hwloc cannot read this machine; does lstopo work?");
    }
    hwloc_const_cpuset_t allowed = hwloc_topology_get_allowed_cpuset(topology);
    hwloc_cpuset_t set = hwloc_bitmap_alloc();
    if (set == NULL || hwloc_get_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0 || hwloc_bitmap_iszero(set)) {
        hwloc_bitmap_free(set);
        set = hwloc_bitmap_dup(allowed);
    }
    hwloc_bitmap_and(set, set, allowed);
    *topology_out = topology;
    *set_out = set;
    return SL_OK;
}

static void close_machine(hwloc_topology_t topology, hwloc_cpuset_t set)
{
    hwloc_bitmap_free(set);
    hwloc_topology_destroy(topology);
}

/* One worker per core, because idle workers spin. Fewer under a quota of processor time. */
static uint32_t count_workers(const struct sl_topology *t)
{
    double granted = t->limits.processors < 1 ? 1 : t->limits.processors;
    return granted < t->n_cores ? (uint32_t)granted : t->n_cores;
}

enum sl_status sl_topology_read(struct sl_topology *out)
{
    hwloc_topology_t topology;
    hwloc_cpuset_t set;
    SL_CHECK(open_machine(&topology, &set));
    uint64_t memory = machine_memory(topology);
    sl_limits_read(&out->limits);
    out->n_cores = count_inside(topology, set, HWLOC_OBJ_CORE);
    out->n_pus = count_inside(topology, set, HWLOC_OBJ_PU);
    out->n_numa = count_numa(topology, set);
    out->n_workers = count_workers(out);
    out->memory_bytes = sl_min_u64(out->limits.memory_bytes, memory);
    close_machine(topology, set);
    return SL_OK;
}

/* ---- cores ---- */

/* The core of the hardware thread, or itself if hwloc knows of no cores. */
static hwloc_obj_t core_of(hwloc_obj_t pu)
{
    hwloc_obj_t object = pu;
    while (object != NULL && object->type != HWLOC_OBJ_CORE) {
        object = object->parent;
    }
    return object != NULL ? object : pu;
}

enum sl_status sl_topology_cores(uint32_t room, struct sl_core *cores_out, uint32_t *n_out)
{
    hwloc_topology_t topology;
    hwloc_cpuset_t set;
    hwloc_obj_t last = NULL;
    uint32_t n = 0;
    SL_CHECK(open_machine(&topology, &set));
    for (hwloc_obj_t pu = NULL; (pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) != NULL && n < room;) {
        hwloc_obj_t core = core_of(pu);
        if (hwloc_bitmap_isset(set, pu->os_index) && core != last) {
            int first = hwloc_bitmap_first(core->complete_cpuset);
            cores_out[n++] =
                (struct sl_core){.number = first >= 0 ? (uint32_t)first : pu->os_index, .pu = pu->logical_index};
            last = core;
        }
    }
    *n_out = n;
    close_machine(topology, set);
    return SL_OK;
}

/* ---- placement ---- */

/* Node number `wanted` of the cpuset, or all nodes. */
static void choose_nodes(hwloc_topology_t topology, hwloc_const_cpuset_t set, uint32_t wanted, hwloc_nodeset_t out)
{
    uint32_t i = 0;
    hwloc_bitmap_zero(out);
    for (hwloc_obj_t node = NULL; (node = next_numa(topology, set, node)) != NULL; i++) {
        if (wanted == SL_NUMA_ALL || wanted == i) {
            hwloc_bitmap_or(out, out, node->nodeset);
        }
    }
}

static int place(hwloc_topology_t topology, const struct sl_memory_range *range, hwloc_const_nodeset_t nodes)
{
    hwloc_membind_policy_t policy = range->node == SL_NUMA_ALL ? HWLOC_MEMBIND_INTERLEAVE : HWLOC_MEMBIND_BIND;
    return !hwloc_bitmap_iszero(nodes) && hwloc_set_area_membind(topology, range->memory, range->bytes, nodes, policy,
                                                                 HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_MIGRATE) == 0;
}

uint32_t sl_topology_place(const struct sl_memory_range *ranges, uint32_t n)
{
    hwloc_topology_t topology;
    hwloc_cpuset_t set;
    uint32_t n_granted = 0;
    if (open_machine(&topology, &set) != SL_OK) {
        return 0;
    }
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
    n = nodes != NULL ? n : 0;
    for (uint32_t i = 0; i < n; i++) {
        choose_nodes(topology, set, ranges[i].node, nodes);
        n_granted += ranges[i].bytes == 0 || place(topology, &ranges[i], nodes);
    }
    hwloc_bitmap_free(nodes);
    close_machine(topology, set);
    return n_granted;
}
