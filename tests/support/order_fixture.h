/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Did a submission name its outputs as written? A task that only reads such an output must wait for it; were the output
 * submitted as read, the two could run in any order, which shows on few machines and seldom. Here it always shows: the
 * inputs are held back, and on a single worker a reader that could run would do so before the witness that follows it.
 */
#ifndef SL_TESTS_ORDER_FIXTURE_H
#define SL_TESTS_ORDER_FIXTURE_H

#include "tests/support/starpu_fixture.h"

static atomic_int readers_run;

static void reader_cpu(void *buffers[], void *arg)
{
    (void)buffers;
    (void)arg;
    atomic_fetch_add(&readers_run, 1);
}

static void witness_cpu(void *buffers[], void *arg)
{
    (void)buffers;
    (void)arg;
}

static struct starpu_codelet reader_cl = {.cpu_funcs = {reader_cpu}, .nbuffers = 1, .modes = {STARPU_R}};
static struct starpu_codelet witness_cl = {.cpu_funcs = {witness_cpu}, .nbuffers = 0};

/* Keep all tasks from the data until `release` of the same handle. StarPU has one CPU worker. */
static MAYBE_UNUSED void hold(starpu_data_handle_t handle)
{
    assert_int_equal(starpu_worker_get_count_by_type(STARPU_CPU_WORKER), 1);
    assert_int_equal(starpu_data_acquire(handle, STARPU_RW), 0);
}

/* `held` is an input of the task submitted last: none of what it writes can be read before the
 * release, all of it can thereafter. Waits for all tasks. */
static MAYBE_UNUSED void release(starpu_data_handle_t held, unsigned n, const starpu_data_handle_t *written)
{
    atomic_store(&readers_run, 0);
    for (unsigned i = 0; i < n; i++) {
        struct starpu_task *reader = starpu_task_create();
        reader->cl = &reader_cl;
        reader->handles[0] = written[i];
        reader->priority = starpu_sched_get_max_priority();
        assert_int_equal(starpu_task_submit(reader), 0);
    }
    struct starpu_task *witness = starpu_task_create();
    witness->cl = &witness_cl;
    witness->priority = starpu_sched_get_min_priority();
    witness->synchronous = 1;
    assert_int_equal(starpu_task_submit(witness), 0);
    int early = atomic_load(&readers_run);
    starpu_data_release(held);
    starpu_task_wait_for_all();
    assert_int_equal(early, 0);
    assert_int_equal(atomic_load(&readers_run), n);
}

#endif
