/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * support/status.h: each thread's message, and the names of the codes. */
#include "support/status.h"

#include <pthread.h>
#include <string.h>

#include "tests/support/test.h"

TEST(test_fail_writes_the_message)
{
    assert_int_equal(sl_fail(SL_EFILE, "line %d: expected %s", 7, "a number"), SL_EFILE);
    assert_string_equal(sl_message(), "line 7: expected a number");
    assert_int_equal(sl_fail(SL_EIO, "other"), SL_EIO);
    assert_string_equal(sl_message(), "other");
}

/* The old message may be part of the new one. */
TEST(test_a_message_may_be_quoted)
{
    sl_fail(SL_EIO, "disk full");
    sl_fail(SL_EIO, "checkpoint: %s", sl_message());
    assert_string_equal(sl_message(), "checkpoint: disk full");
}

TEST(test_long_messages_are_cut)
{
    char text[3 * SL_MESSAGE_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    sl_fail(SL_EINVAL, "%s", text);
    assert_int_equal(strlen(sl_message()), SL_MESSAGE_BYTES - 1);
    assert_memory_equal(sl_message(), text, SL_MESSAGE_BYTES - 1);
}

/* A folder's name may hold a newline, or what a terminal acts on. */
TEST(test_messages_are_one_line)
{
    sl_fail(SL_EIO, "%s: no file, \xc3\xa9", "a\nb\x1b[2J\tc\x7f");
    assert_string_equal(sl_message(), "a?b?[2J?c?: no file, \xc3\xa9");
}

static void *other_thread(void *seen)
{
    *(int *)seen = sl_message()[0] == 0; /* no failure here yet */
    sl_fail(SL_ENOMEM, "the other's");
    return NULL;
}

TEST(test_each_thread_has_its_own)
{
    pthread_t thread;
    int empty = 0;
    sl_fail(SL_EINVAL, "mine");
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(empty);
    assert_string_equal(sl_message(), "mine");
}

/* Every code has a name of its own, and a code that does not exist has one too. */
TEST(test_names)
{
    assert_string_equal(sl_status_name(SL_OK), "success");
    assert_string_equal(sl_status_name(SL_ENOMEM), "out of memory");
    for (int a = SL_ENCCL; a <= SL_OK; a++) {
        assert_string_not_equal(sl_status_name((enum sl_status)a), "unknown status");
        for (int b = a + 1; b <= SL_OK; b++) {
            assert_string_not_equal(sl_status_name((enum sl_status)a), sl_status_name((enum sl_status)b));
        }
    }
    assert_string_equal(sl_status_name((enum sl_status)(SL_ENCCL - 1)), "unknown status");
    assert_string_equal(sl_status_name((enum sl_status)1), "unknown status");
}

/* SL_TRY keeps the status and jumps at the first failure only. */
static enum sl_status try_calls(enum sl_status first, enum sl_status second, int *reached_out)
{
    enum sl_status st;
    *reached_out = 0;
    SL_TRY(st, first, done);
    *reached_out = 1;
    SL_TRY(st, second, done);
    *reached_out = 2;
done:
    return st;
}

TEST(test_try)
{
    int reached;
    assert_int_equal(try_calls(SL_OK, SL_OK, &reached), SL_OK);
    assert_int_equal(reached, 2);
    assert_int_equal(try_calls(SL_OK, SL_EIO, &reached), SL_EIO);
    assert_int_equal(reached, 1);
    assert_int_equal(try_calls(SL_EFILE, SL_EIO, &reached), SL_EFILE);
    assert_int_equal(reached, 0);
}

static enum sl_notice last_kind;
static char last_line[SL_MESSAGE_BYTES];

static void keep(enum sl_notice kind, const char *line)
{
    last_kind = kind;
    strncpy(last_line, line, sizeof last_line - 1);
}

TEST(test_notices)
{
    sl_fail(SL_EIO, "as it was");
    sl_notify(SL_NOTICE_WARNING, "to nobody");
    sl_on_notice(keep);
    sl_notify(SL_NOTICE_PROGRESS, "reading %s", "a\nb");
    assert_int_equal(last_kind, SL_NOTICE_PROGRESS);
    assert_string_equal(last_line, "reading a?b");
    sl_on_notice(NULL);
    sl_notify(SL_NOTICE_WARNING, "to nobody");
    assert_string_equal(last_line, "reading a?b");
    assert_string_equal(sl_message(), "as it was");
}

TEST_MAIN(NULL, NULL)
