/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/topology: what this process may use, which is less where its cpuset is smaller.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_setaffinity */
#endif
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
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

/* In a process of one thread that is bound to one hardware thread: 0 where there is one of everything, 1 where not, 77 where it
 * cannot be bound. (Libraries may have started threads in this one, which keep the cpuset they have.) */
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

static void test_bound(void **state)
{
    int status;
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(read_bound());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read), cmocka_unit_test(test_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
