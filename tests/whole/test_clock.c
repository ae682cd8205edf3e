/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The machine's clock is set back during a run, further at each look: weights are the same to the bit, no time in
 * the metrics is negative or of that order. The watchdog sees a stop when it is due, and none before, be the clock
 * set back or ahead. The clock is that of this program alone: it has the C library's functions, for all its
 * libraries.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/support/whole_fixture.h"

#include <jansson.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "runtime/machine/watchdog.h"

POINTER_OWNER(json_decref, json_t)

#define STEP_S 3600

static atomic_int direction; /* -1: back, 1: ahead, 0: the clock is let be */
static atomic_long n_looks;  /* at the clock that is set */
static atomic_long n_asked;  /* for any clock: who asks has these functions, and would see that one set */

static long off_s(void)
{
    int way = atomic_load(&direction);
    return way != 0 ? way * STEP_S * (atomic_fetch_add(&n_looks, 1) + 1) : 0;
}

SL_API int clock_gettime(clockid_t clock, struct timespec *out)
{
    int error = (int)syscall(SYS_clock_gettime, clock, out);
    atomic_fetch_add(&n_asked, 1);
    if (error == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        out->tv_sec += off_s();
    }
    return error;
}

SL_API int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

SL_API time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}

/* All that a run of ours, two epochs, evaluated, kept, measures in seconds lies between nothing and the step. */
static void expect_times(const char *key, json_t *value)
{
    const char *name;
    json_t *member;
    if (json_is_object(value)) {
        json_object_foreach(value, name, member)
        {
            expect_times(strstr(key, "seconds") != NULL ? key : name, member);
        }
    } else if (strstr(key, "seconds") != NULL) {
        double s = json_number_value(value);
        if (!json_is_number(value) || !(s >= 0 && s < STEP_S)) {
            fail_msg("%s is %g", key, s);
        }
    }
}

static void expect_metrics(void)
{
    size_t n = 0;
    char line[16384];
    FILE *stream = fopen(in_folder("m.jsonl"), "r");
    assert_non_null(stream);
    while (fgets(line, sizeof line, stream) != NULL) {
        OWNED(json_decref_it) json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        expect_times("", object);
        n += json_object_get(object, "seconds") != NULL;
    }
    fclose(stream);
    assert_true(n >= 2);
}

#define OPTIONS                                                                                                        \
    "cache=none metrics=%m.jsonl metrics-steps layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 epochs=2 cpus=2 "

static void expect_the_same(bool pipe, const char *steady, const char *set_back)
{
    struct whole whole = {.pipe = pipe, .options = steady};
    put_whole_dataset();
    assert_ok(run_whole(&whole));
    whole.options = set_back;
    long before = atomic_load(&n_asked);
    atomic_store(&direction, -1);
    enum sl_status st = run_whole(&whole);
    atomic_store(&direction, 0);
    assert_ok(st);
    assert_true(atomic_load(&n_asked) > before);
    expect_metrics();
    expect_same_file("steady.safetensors", "back.safetensors");
}

TEST_IN_FOLDER(test_minibatches)
{
    expect_the_same(false, OPTIONS "save=%steady.safetensors", OPTIONS "save=%back.safetensors");
}

#define PIPE_OPTIONS "cache=none metrics=%m.jsonl layers=2 hidden=4 stages=2 ways=1 chunks=4 epochs=2 cpus=2 "

TEST_IN_FOLDER(test_full_graph)
{
    expect_the_same(true, PIPE_OPTIONS "save=%steady.safetensors",
                    PIPE_OPTIONS "save=%back.safetensors checkpoint=%kept");
}

/* A task that does not end until it may. */
static atomic_bool may_end;

static enum sl_status hang_cpu_task(void *buffers[], const void *args)
{
    (void)buffers;
    (void)args;
    while (!atomic_load(&may_end)) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return SL_OK;
}

static struct sl_operation hang_op = {SL_PLAIN_OPERATION("sl_test_hang", SL_N_STAGES), .cpu = hang_cpu_task};

/* Nothing moves: the watchdog sees it after its second, which is none of this clock, and names the task. */
static atomic_bool seen;
static char what_was_seen[SL_MESSAGE_BYTES];

static void see(void)
{
    snprintf(what_was_seen, sizeof what_was_seen, "%s", sl_message());
    atomic_store(&seen, true);
}

/* The system's own, for the library's may be what is wrong. */
static double steady_s(void)
{
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_until_seen(int way, uint32_t seconds, double limit_s)
{
    double start = steady_s();
    atomic_store(&seen, false);
    atomic_store(&direction, way);
    assert_ok(sl_watchdog_start(seconds, true, &run, see));
    while (!atomic_load(&seen) && steady_s() - start < limit_s) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    double took = steady_s() - start;
    sl_watchdog_end();
    atomic_store(&direction, 0);
    return took;
}

TEST(test_watchdog)
{
    struct sl_task task;
    char said[2][SL_MESSAGE_BYTES];
    double took[2];
    fixture_start(1);
    assert_true(seconds_until_seen(0, 1, 2) >= 2); /* no task is awaited */
    atomic_store(&may_end, false);
    sl_task_begin(&task, &hang_op);
    expect_ok(sl_task_submit(&task, &head, sizeof head, SL_PRIORITY_NORMAL));
    for (int i = 0; i < 2; i++) {
        took[i] = seconds_until_seen(2 * i - 1, 1, RUN_LIMIT_S);
        memcpy(said[i], what_was_seen, sizeof said[i]);
    }
    atomic_store(&may_end, true);
    starpu_task_wait_for_all();
    for (int i = 0; i < 2; i++) {
        if (took[i] < 1 || took[i] >= RUN_LIMIT_S) {
            fail_msg("expected the stop to be seen after 1 s, found %g s", took[i]);
        }
        if (strstr(said[i], "ended for 1 s: sl_test_hang, PE 0, step 7, on CPU ") == NULL) {
            fail_msg("expected the task to be named, found '%s'", said[i]);
        }
    }
    char at_work[80];
    assert_false(sl_run_at_work(&run, at_work, sizeof at_work));
    fixture_stop();
}

int main(void)
{
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    return run_listed_tests(NULL, NULL);
}
