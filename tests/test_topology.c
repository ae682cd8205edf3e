/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/topology: what this process may use, which is less where its cpuset is smaller.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <sched.h>
#include <unistd.h>

#include "runtime/topology.h"
#include "tests/kernel.h"

static void test_read(void **state)
{
    struct sl_topology t;
    cpu_set_t set;
    (void)state;
    assert_int_equal(sl_topology_read(&t), SL_OK);
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_true(t.n_cores >= 1 && t.n_pus >= t.n_cores && t.n_numa >= 1);
    assert_true(t.n_pus <= (uint32_t)CPU_COUNT(&set));
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(t.memory_bytes > (uint64_t)1 << 24 && t.memory_bytes <= memory + memory / 4);
}

/* Bound to one hardware thread, there is one of everything. */
static void test_bound(void **state)
{
    struct sl_topology t;
    cpu_set_t before;
    cpu_set_t one;
    int cpu = 0;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET(cpu, &before)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) {
        skip();
    }
    enum sl_status st = sl_topology_read(&t);
    sched_setaffinity(0, sizeof before, &before);
    assert_int_equal(st, SL_OK);
    assert_int_equal(t.n_pus, 1);
    assert_int_equal(t.n_cores, 1);
    assert_int_equal(t.n_numa, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
