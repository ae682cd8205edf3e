/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * tasks/waits.h, at times of the test's own. The other rank is this process, too: what it lists is what it takes. */
#include "tasks/waits.h"

#include <math.h>

#include "support/memory.h"
#include "tests/support/test.h"

static void expect_seconds(const char *label, double found, double expected)
{
    if (fabs(found - expected) > 1e-9) {
        fail_msg("%s: %g s, expected %g", label, found, expected);
    }
}

/* ahead_s: what the sender's clock is behind. */
static void expect_waits(double now_s, double ahead_s, const struct sl_waits *expected)
{
    struct sl_waits found;
    uint32_t n;
    OWNED(sl_free_it) uint32_t *list;
    assert_int_equal(sl_waits_list(ahead_s, 1, &n, &list), SL_OK);
    assert_int_equal(sl_waits_take(now_s, &(struct sl_waits_lists){1, &n, list, 0}, &found), SL_OK);
    expect_seconds("on their way", found.message_s, expected->message_s);
    expect_seconds("hidden", found.hidden_s, expected->hidden_s);
    expect_seconds("waited", found.waited_s, expected->waited_s);
}

/* A message: asked for, written and come at these times, in this order or not. */
static void message(int64_t tag, double asked_s, double written_s, double come_s)
{
    uint64_t sent = sl_waits_send(0, tag);
    uint64_t asked = sl_waits_ask(0, tag, asked_s);
    sl_waits_written(sent, written_s);
    sl_waits_come(asked, come_s);
}

static void work(double begin_s, double end_s)
{
    sl_waits_busy(1, begin_s);
    sl_waits_busy(-1, end_s);
}

/* Two workers: one works from 2 to 5, the other from 4 to 5. A message is asked for at 1, written at 3 and there at
 * 6; another is asked for and written at 4, and there at 8. */
TEST(test_counts_as_defined)
{
    sl_waits_open(2, 0);
    uint64_t sent = sl_waits_send(0, 7);
    uint64_t first = sl_waits_ask(0, 7, 1);
    sl_waits_busy(1, 2);
    sl_waits_written(sent, 3);
    sl_waits_busy(1, 4);
    sent = sl_waits_send(0, 8);
    sl_waits_written(sent, 4);
    uint64_t second = sl_waits_ask(0, 8, 4);
    sl_waits_busy(-1, 5);
    sl_waits_busy(-1, 5);
    sl_waits_come(first, 6);
    sl_waits_come(second, 8);
    expect_waits(10, 0, &(struct sl_waits){5, 2, 2 + 2 * 1 + 2 * 3});
    sl_waits_open(0, 0);
}

/* The other rank is late: it writes at 7 what was asked for at 1, and then that takes 2 s, of which the only worker
 * works half. */
TEST(test_a_late_rank_is_no_message)
{
    sl_waits_open(1, 0);
    message(1, 1, 7, 9);
    work(8, 10);
    expect_waits(10, 0, &(struct sl_waits){2, 1, 8});
    sl_waits_open(0, 0);
}

/* Nor is it one that this rank asks for late, nor what it sends itself and another asks for. */
TEST(test_nobody_waits)
{
    sl_waits_open(1, 0);
    message(1, 7, 1, 8);
    sl_waits_written(sl_waits_send(0, 2), 3);
    expect_waits(10, 0, &(struct sl_waits){1, 0, 1});
    sl_waits_open(0, 0);
}

/* Messages of one tag come in their order; of different ones as they like. */
TEST(test_pairs)
{
    sl_waits_open(1, 0);
    uint64_t sent[3];
    const int64_t sent_tags[] = {5, 3, 5};
    const int64_t asked_tags[] = {3, 5, 5};
    const double come_s[] = {25, 12, 42};
    for (int i = 0; i < 3; i++) {
        sent[i] = sl_waits_send(0, sent_tags[i]);
    }
    sl_waits_written(sent[2], 40);
    sl_waits_written(sent[1], 20);
    sl_waits_written(sent[0], 10);
    for (int i = 0; i < 3; i++) {
        sl_waits_come(sl_waits_ask(0, asked_tags[i], 0), come_s[i]);
    }
    expect_waits(50, 0, &(struct sl_waits){2 + 5 + 2, 0, 42});
    sl_waits_open(0, 0);
}

/* The sender's clock is 100 s behind this one. */
TEST(test_clocks)
{
    sl_waits_open(1, 100);
    message(1, 101, 3, 105);
    expect_waits(106, 100, &(struct sl_waits){2, 0, 4});
    sl_waits_open(0, 0);
}

/* What is on when it is asked for goes on, and counts once; what was forgotten does not come back. */
TEST(test_goes_on)
{
    sl_waits_open(1, 100);
    sl_waits_busy(1, 100);
    message(1, 100, 100, 101);
    expect_waits(101, 0, &(struct sl_waits){1, 1, 0});
    message(1, 101, 101, 102);
    expect_waits(103, 0, &(struct sl_waits){1, 1, 0});
    expect_waits(104, 0, &(struct sl_waits){0});
    uint64_t sent = sl_waits_send(0, 1);
    uint64_t asked = sl_waits_ask(0, 1, 104);
    sl_waits_busy(-1, 105);
    sl_waits_drop(106);
    sl_waits_written(sent, 107);
    sl_waits_come(asked, 108);
    expect_waits(109, 0, &(struct sl_waits){0, 0, 2});
    sl_waits_open(0, 0);
}

TEST(test_without_workers_nothing_counts)
{
    sl_waits_open(0, 0);
    assert_int_equal(sl_waits_send(0, 1), SL_WAITS_NO_TICKET);
    message(1, 1, 1, 2);
    work(1, 2);
    expect_waits(3, 0, &(struct sl_waits){0});
    sl_waits_open(3, 10);
    expect_waits(20, 0, &(struct sl_waits){0});
    sl_waits_open(0, 0);
    assert_int_equal(sl_memory_live(), 0);
}

TEST_MAIN(NULL, NULL)
