/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/parallel.h: every item once, in ranges of the grain. */
#include "support/parallel.h"

#include <stdatomic.h>
#include <string.h>

#include "tests/support/test.h"

#define N 1003

static atomic_int visits[N];
static atomic_int bad_ranges;

static void visit(void *context, uint64_t begin, uint64_t end)
{
    uint64_t grain = *(const uint64_t *)context;
    if (begin % grain != 0 || end <= begin || end - begin > grain) {
        atomic_fetch_add(&bad_ranges, 1);
    }
    for (uint64_t i = begin; i < end; i++) {
        atomic_fetch_add(&visits[i], 1);
    }
}

TEST(covers_every_item_once)
{
    const uint64_t grains[] = {1, 7, 100, N - 1, N, N + 1, 1 << 20};
    for (unsigned threads = 0; threads < 4; threads++) {
        sl_parallel_limit(threads);
        for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++) {
            uint64_t grain = grains[g];
            for (uint64_t n = 0; n <= N; n += 59) {
                memset(visits, 0, sizeof visits);
                sl_parallel_for(n, grain, visit, &grain);
                for (uint64_t i = 0; i < N; i++) {
                    assert_int_equal(atomic_load(&visits[i]), i < n);
                }
            }
        }
    }
    assert_int_equal(atomic_load(&bad_ranges), 0);
    sl_parallel_limit(0);
}

TEST(limit_lowers)
{
    unsigned all = sl_parallel_threads();
    assert_in_range(all, 1, 64);
    sl_parallel_limit(1);
    assert_int_equal(sl_parallel_threads(), 1);
    sl_parallel_limit(1000);
    assert_int_equal(sl_parallel_threads(), all);
    sl_parallel_limit(0);
}

TEST_MAIN(NULL, NULL)
