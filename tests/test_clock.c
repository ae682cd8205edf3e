/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The machine's clock is set back during a run, further at each look: weights are the same to the bit, no time in the metrics is negative
 * or of that order, and the watchdog sees no stop. The clock is that of this program alone: it has the C library's functions, for
 * all its libraries.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tests/whole_fixture.h"

#include <jansson.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define STEP_S 3600

static atomic_bool stepping;
static atomic_long n_looks;

static long back_s(void)
{
    return atomic_load(&stepping) ? STEP_S * (atomic_fetch_add(&n_looks, 1) + 1) : 0;
}

SL_API int clock_gettime(clockid_t clock, struct timespec *out)
{
    int error = (int)syscall(SYS_clock_gettime, clock, out);
    if (error == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        out->tv_sec -= back_s();
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
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        expect_times("", object);
        n += json_object_get(object, "seconds") != NULL;
        json_decref(object);
    }
    fclose(stream);
    assert_true(n >= 2);
}

#define OPTIONS                                                                                                        \
    "cache=none metrics=%m.jsonl metrics-steps layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 epochs=2 cpus=2 "

static void expect_the_same(bool pipe, const char *steady, const char *set_back)
{
    struct whole whole = {.pipe = pipe, .options = steady};
    char *weights[2];
    size_t bytes[2];
    put_whole_dataset();
    assert_ok(run_whole(&whole));
    whole.options = set_back;
    atomic_store(&stepping, true);
    time_t before = time(NULL);
    enum sl_status st = run_whole(&whole);
    assert_true(time(NULL) < before);
    atomic_store(&stepping, false);
    assert_ok(st);
    expect_metrics();
    assert_ok(sl_file_read(in_folder("steady.safetensors"), SIZE_MAX - 1, &weights[0], &bytes[0]));
    assert_ok(sl_file_read(in_folder("back.safetensors"), SIZE_MAX - 1, &weights[1], &bytes[1]));
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(weights[0], weights[1], bytes[0]);
    sl_free(weights[0]);
    sl_free(weights[1]);
}

static void test_minibatches(void **state)
{
    (void)state;
    expect_the_same(false, OPTIONS "save=%steady.safetensors", OPTIONS "save=%back.safetensors watchdog=5");
}

#define PIPE_OPTIONS "cache=none metrics=%m.jsonl layers=2 hidden=4 stages=2 ways=1 chunks=4 epochs=2 cpus=2 "

static void test_full_graph(void **state)
{
    (void)state;
    expect_the_same(true, PIPE_OPTIONS "save=%steady.safetensors",
                    PIPE_OPTIONS "save=%back.safetensors checkpoint=%kept");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_folder(test_minibatches),
        with_folder(test_full_graph),
    };
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
