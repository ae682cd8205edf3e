/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/machine/topology: what this process may use, which is less where its cpuset is smaller; and where memory
 * is put.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <hwloc.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/machine/topology.h"
#include "tests/support/kernel.h"

TEST(test_read)
{
    struct sl_topology t;
    cpu_set_t set;
    assert_int_equal(sl_topology_read(&t), SL_OK);
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_true(t.n_cores >= 1 && t.n_pus >= t.n_cores && t.n_numa >= 1);
    assert_true(t.n_pus <= (uint32_t)CPU_COUNT(&set));
    assert_true(t.n_workers >= 1 && t.n_workers <= t.n_cores);
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(t.memory_bytes > (uint64_t)1 << 24 && t.memory_bytes <= memory + memory / 4);
}

/* A machine that is not this one, in a process of its own: 0 where it is seen as it was described. */
static int read_synthetic(void)
{
    struct sl_topology t;
    unsetenv("HWLOC_COMPONENTS"); /* it would count more */
    if (setenv("HWLOC_SYNTHETIC", "numa:4 core:3 pu:2", 1) != 0 || sl_topology_read(&t) != SL_OK) {
        return 1;
    }
    if (t.n_numa != 4 || t.n_cores != 12 || t.n_pus != 24) {
        return 2;
    }
    /* A quota of processors may leave fewer workers than cores, here as anywhere. */
    uint32_t granted = t.limits.processors < 12 ? (uint32_t)fmax(1, t.limits.processors) : 12;
    return t.n_workers != granted ? 3 : 0;
}

/* The exit code of `run` in a process of its own. */
static int apart(int (*run)(void))
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(run());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(test_synthetic)
{
    assert_int_equal(apart(read_synthetic), 0);
}

/* Where the system says a range is bound to; 0 where it will not tell. */
static int bound_to(hwloc_topology_t topology, const void *memory, size_t bytes, hwloc_membind_policy_t *policy_out)
{
    hwloc_nodeset_t nodes = hwloc_bitmap_alloc();
    int told = hwloc_get_area_membind(topology, memory, bytes, nodes, policy_out, HWLOC_MEMBIND_BYNODESET) == 0 &&
               !hwloc_bitmap_iszero(nodes);
    hwloc_bitmap_free(nodes);
    return told;
}

/* Placed memory keeps what is in it, and the system knows of the wish; a node that is not there is refused. */
TEST(test_place)
{
    size_t bytes = (size_t)1 << 20;
    struct sl_topology t;
    hwloc_topology_t topology;
    hwloc_membind_policy_t policy;
    assert_int_equal(sl_topology_read(&t), SL_OK);
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    memset(memory, 5, bytes);
    const struct sl_memory_range missing[] = {{memory, bytes, t.n_numa}, {memory, bytes, t.n_numa + 7}};
    assert_int_equal(sl_topology_place(missing, 2), 0);
    const struct sl_memory_range last = {memory, bytes, t.n_numa - 1};
    if (sl_topology_place(&last, 1) == 0) {
        munmap(memory, bytes);
        skip(); /* a container that forbids it */
    }
    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    assert_true(bound_to(topology, memory, bytes, &policy));
    assert_int_equal(policy, HWLOC_MEMBIND_BIND);
    const struct sl_memory_range spread[] = {{memory, bytes, SL_NUMA_ALL},
                                             {memory, 0, 0}}; /* and nothing, which is there */
    assert_int_equal(sl_topology_place(spread, 2), 2);
    assert_true(bound_to(topology, memory, bytes, &policy));
    assert_int_equal(policy, HWLOC_MEMBIND_INTERLEAVE);
    for (size_t i = 0; i < bytes; i++) {
        assert_int_equal(memory[i], 5);
    }
    hwloc_topology_destroy(topology);
    munmap(memory, bytes);
}

/* In a process of one thread that is bound to one hardware thread: 0 where there is one of everything, 1 where not,
 * 77 where it cannot be bound. (Libraries may have started threads in this one, which keep the cpuset they have.) */
static int read_bound(void)
{
    struct sl_topology t;
    cpu_set_t set;
    int cpu = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return 77;
    }
    while (!CPU_ISSET(cpu, &set)) {
        cpu++;
    }
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        return 77;
    }
    return sl_topology_read(&t) != SL_OK || t.n_pus != 1 || t.n_cores != 1 || t.n_numa != 1;
}

TEST(test_bound)
{
    int code = apart(read_bound);
    if (code == 77) {
        skip();
    }
    assert_int_equal(code, 0);
}

TEST_MAIN(NULL, NULL)
