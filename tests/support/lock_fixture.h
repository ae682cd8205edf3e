/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * In front of StarPU's locking of memory: what is locked, and a system that refuses some wishes.
 */
#ifndef SL_TESTS_LOCK_FIXTURE_H
#define SL_TESTS_LOCK_FIXTURE_H

#include "tests/support/starpu_fixture.h"

static struct {
    const char *memory;
    size_t bytes;
} locked[256];
static uint32_t n_wishes, n_locked;
static bool (*refuses)(uint32_t wish); /* counted from 1; NULL: none */

int starpu_memory_pin(void *memory, size_t bytes)
{
    n_wishes++;
    if (refuses != NULL && refuses(n_wishes)) {
        return -1;
    }
    assert_true(n_locked < sizeof locked / sizeof *locked);
    assert_int_equal((uintptr_t)memory % 4096, 0); /* pages that are nobody else's */
    locked[n_locked].memory = memory;
    locked[n_locked++].bytes = bytes;
    return 0;
}

int starpu_memory_unpin(void *memory, size_t bytes)
{
    for (uint32_t i = 0; i < n_locked; i++) {
        if (locked[i].memory == memory) {
            assert_int_equal(locked[i].bytes, bytes);
            locked[i] = locked[--n_locked];
            return 0;
        }
    }
    fail_msg("%zu bytes are unlocked that were not locked", bytes);
    return -1;
}

/* A group of tests with StarPU and one worker. */
__attribute__((unused)) static int lock_up(void **state)
{
    (void)state;
    fixture_start(1);
    return 0;
}

__attribute__((unused)) static int lock_down(void **state)
{
    (void)state;
    fixture_stop();
    return sl_memory_live() == 0 ? 0 : -1;
}

#endif
