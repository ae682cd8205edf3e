/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A test program: each TEST(name) { .. } is a CMocka test of its own, and TEST_MAIN runs all of them, in the order of
 * the file. */
#ifndef SL_TESTS_TEST_H
#define SL_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/owned.h"

static struct {
    struct CMUnitTest tests[64];
    size_t n;
} listed_tests;

__attribute__((unused)) static void list_test(const char *name, CMUnitTestFunction run, CMFixtureFunction up,
                                              CMFixtureFunction down)
{
    if (listed_tests.n == sizeof listed_tests.tests / sizeof *listed_tests.tests) {
        abort();
    }
    listed_tests.tests[listed_tests.n++] =
        (struct CMUnitTest){.name = name, .test_func = run, .setup_func = up, .teardown_func = down};
}

/* With functions to call before and after the test. */
#define TEST_WITH(name, up, down)                                                                                      \
    static void name(void **state);                                                                                    \
    __attribute__((constructor)) static void list_##name(void)                                                         \
    {                                                                                                                  \
        list_test(#name, name, up, down);                                                                              \
    }                                                                                                                  \
    static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Returns the number of failures. */
__attribute__((unused)) static int run_listed_tests(CMFixtureFunction group_up, CMFixtureFunction group_down)
{
    return _cmocka_run_group_tests("tests", listed_tests.tests, listed_tests.n, group_up, group_down);
}

#define TEST_MAIN(group_up, group_down)                                                                                \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return run_listed_tests(group_up, group_down);                                                                 \
    }

#endif
