/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/waits.h, at times of the test's own. */
#include "codelets/waits.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void expect_seconds(const char *what, double found, double expected)
{
    if (fabs(found - expected) > 1e-9) {
        fail_msg("%s: %g s, expected %g", what, found, expected);
    }
}

static void expect_waits(double now_s, double message_s, double hidden_s, double waited_s)
{
    struct sl_waits found;
    sl_waits_take(now_s, &found);
    expect_seconds("on their way", found.message_s, message_s);
    expect_seconds("hidden", found.hidden_s, hidden_s);
    expect_seconds("waited", found.waited_s, waited_s);
}

/* Two workers: one works from 2 to 5, the other from 4 to 5. A message is awaited from 1, and on its way from 3 to 6, another is sent
 * from 4 to 8, which nobody waits for. */
static void test_counts_as_defined(void **state)
{
    (void)state;
    sl_waits_open(2, 0);
    sl_waits_change(SL_WAITS_AWAITED, 1, 1);
    sl_waits_change(SL_WAITS_BUSY, 1, 2);
    sl_waits_change(SL_WAITS_ON_THEIR_WAY, 1, 3);
    sl_waits_change(SL_WAITS_BUSY, 1, 4);
    sl_waits_change(SL_WAITS_ON_THEIR_WAY, 1, 4);
    sl_waits_change(SL_WAITS_BUSY, -1, 5);
    sl_waits_change(SL_WAITS_BUSY, -1, 5);
    sl_waits_change(SL_WAITS_ON_THEIR_WAY, -1, 6);
    sl_waits_change(SL_WAITS_AWAITED, -1, 6);
    sl_waits_change(SL_WAITS_ON_THEIR_WAY, -1, 8);
    expect_waits(10, 5, 2, 2 + 2 * 1 + 2);
    sl_waits_open(0, 0);
}

/* What stands goes on after it was asked for, and counts once. */
static void test_goes_on(void **state)
{
    (void)state;
    sl_waits_open(1, 100);
    sl_waits_change(SL_WAITS_ON_THEIR_WAY, 1, 100);
    sl_waits_change(SL_WAITS_AWAITED, 1, 100);
    expect_waits(101, 1, 0, 1);
    sl_waits_change(SL_WAITS_BUSY, 1, 102);
    sl_waits_change(SL_WAITS_ON_THEIR_WAY, -1, 101.5); /* a thread that has read the clock, and was held up */
    expect_waits(104, 1, 0, 1);
    expect_waits(104, 0, 0, 0);
    sl_waits_open(0, 0);
}

static void test_without_workers_nothing_counts(void **state)
{
    (void)state;
    sl_waits_open(0, 0);
    sl_waits_change(SL_WAITS_AWAITED, 1, 1);
    sl_waits_change(SL_WAITS_ON_THEIR_WAY, 1, 1);
    expect_waits(3, 0, 0, 0);
    sl_waits_open(3, 10);
    expect_waits(20, 0, 0, 0);
    sl_waits_open(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_as_defined),
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_without_workers_nothing_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
