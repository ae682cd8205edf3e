/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/failure.h: the first report wins, with its own message, also when many threads report at once. */
#include "support/failure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

TEST(test_no_failure)
{
    struct sl_failure failure = {0};
    sl_fail(SL_EIO, "an old message");
    assert_false(sl_failure_seen(&failure));
    assert_int_equal(sl_failure_status(&failure), SL_OK);
    assert_string_equal(sl_message(), "an old message");
}

TEST(test_the_first_report_wins)
{
    struct sl_failure failure = {0};
    sl_failure_set(&failure, sl_fail(SL_ENUMERIC, "the loss of step 3"));
    assert_true(sl_failure_seen(&failure));
    sl_failure_set(&failure, sl_fail(SL_ENOMEM, "a later one"));
    sl_fail(SL_EINVAL, "something else");
    assert_int_equal(sl_failure_status(&failure), SL_ENUMERIC);
    assert_string_equal(sl_message(), "the loss of step 3");
    assert_int_equal(sl_failure_status(&failure), SL_ENUMERIC); /* and again */
}

#define THREADS 4
#define ROUNDS 500

struct reporter {
    struct sl_failure *failures;
    pthread_barrier_t *start;
    int number;
};

/* Report this thread's number, as status and in a long message. */
static void *report(void *arg)
{
    const struct reporter *reporter = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char text[500];
        memset(text, 'a' + reporter->number, sizeof text - 1);
        text[sizeof text - 1] = 0;
        pthread_barrier_wait(reporter->start);
        sl_failure_set(&reporter->failures[i], sl_fail((enum sl_status)(-1 - reporter->number), "%s", text));
        if (!sl_failure_seen(&reporter->failures[i]) || sl_failure_status(&reporter->failures[i]) == SL_OK) {
            abort();
        }
    }
    return NULL;
}

/* Status and message come from the same thread, whole. */
TEST(test_many_report_at_once)
{
    static struct sl_failure failures[ROUNDS];
    pthread_barrier_t start;
    pthread_t thread[THREADS];
    struct reporter reporters[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        reporters[i] = (struct reporter){failures, &start, i};
        assert_int_equal(pthread_create(&thread[i], NULL, report, &reporters[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        int number = -1 - (int)sl_failure_status(&failures[i]);
        assert_in_range(number, 0, THREADS - 1);
        assert_int_equal(strlen(sl_message()), 499);
        assert_int_equal(strspn(sl_message(), (char[]){(char)('a' + number), 0}), 499);
    }
    pthread_barrier_destroy(&start);
}

TEST_MAIN(NULL, NULL)
