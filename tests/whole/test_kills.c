/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Kill -9 at any moment: what is on the disk changes by system calls alone, so that a process killed before each of
 * them, and in the middle of each write, has been killed at every moment that another process could tell apart. The
 * run gone on with afterwards ends with the files of one that was never stopped, to the bit, and with its metrics;
 * with and without another process in the same cache.
 */
#include "tests/support/whole_fixture.h"

#include <sys/wait.h>

#include "tests/support/disk_fixture.h"

static bool watched; /* the system hands over its calls */

/* ---- runs in processes of their own ---- */

static int alive[2]; /* a pipe whose end for writing runs have open, and whatever processes they begin */

static pid_t begin(const struct whole *whole, bool traced)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct whole mine = *whole;
        leave_cmocka();
        enum sl_status st = run_whole(&mine);
        st = st == SL_OK && traced ? sl_trace_finish(in_folder("traced")) : st;
        if (st != SL_OK) {
            fprintf(stderr, "%s: %s\n", sl_status_name(st), sl_message());
        }
        _exit(st == SL_ENOTSUP ? 77 : st != SL_OK);
    }
    return child;
}

/* From now on the run that makes the folder's n-th call is killed there; 0: none is. */
static void arm(long n)
{
    disk_arm(folder, DISK_KILLED, n);
}

static int end(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Nothing of runs that have ended goes on. */
static void expect_nobody(void)
{
    char none;
    close(alive[1]);
    alarm(RUN_LIMIT_S);
    assert_int_equal(read(alive[0], &none, 1), 0);
    alarm(0);
    close(alive[0]);
    assert_int_equal(pipe(alive), 0);
}

static bool was_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* A run that nothing kills ends as ever; n: the call at which one before it was killed. */
static void expect_good(const struct whole *whole, bool traced, long n)
{
    arm(0);
    int status = end(begin(whole, traced));
    if (status != 0) {
        fail_msg("after the kill at call %ld a run ended with status %d", n, status);
    }
}

/* ---- what runs leave ---- */

static const char *const kept[] = {"m.safetensors", "p.npy", "e.npy"};
#define N_KEPT (sizeof kept / sizeof *kept)

static struct {
    char *bytes[N_KEPT];
    size_t n[N_KEPT];
    char *epochs;
} unstopped;

/* The lines of the epochs in the metrics, each up to its times: the epoch's number and all scores. */
static char *epochs_of(const char *name)
{
    static const char event[] = "{\"event\":\"epoch\"";
    char *text;
    char *rest;
    size_t bytes;
    size_t used = 0;
    assert_ok(sl_file_read(in_folder(name), (size_t)1 << 24, &text, &bytes));
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const char *times = strstr(line, "\"seconds\"");
        if (strncmp(line, event, sizeof event - 1) == 0) {
            assert_non_null(times);
            size_t n = (size_t)(times - line);
            memmove(text + used, line, n);
            used += n;
        }
    }
    text[used] = '\0';
    return text;
}

static void keep_unstopped(void)
{
    for (size_t i = 0; i < N_KEPT; i++) {
        assert_ok(sl_file_read(in_folder(kept[i]), SIZE_MAX - 1, &unstopped.bytes[i], &unstopped.n[i]));
    }
    unstopped.epochs = epochs_of("x.jsonl");
    assert_non_null(strstr(unstopped.epochs, "\"epoch\":3"));
}

static void forget_unstopped(void)
{
    for (size_t i = 0; i < N_KEPT; i++) {
        sl_free(unstopped.bytes[i]);
    }
    sl_free(unstopped.epochs);
}

static void expect_unstopped(long n, const char *killed)
{
    for (size_t i = 0; i < N_KEPT; i++) {
        OWNED(sl_free_it) char *bytes;
        size_t found;
        assert_ok(sl_file_read(in_folder(kept[i]), SIZE_MAX - 1, &bytes, &found));
        if (found != unstopped.n[i] || memcmp(bytes, unstopped.bytes[i], found) != 0) {
            fail_msg("killed at call %ld, on %s: %s is another", n, killed, kept[i]);
        }
    }
    OWNED(sl_free_it) char *epochs = epochs_of("x.jsonl");
    if (strcmp(epochs, unstopped.epochs) != 0) {
        fail_msg("killed at call %ld, on %s: expected the epochs\n%s\nfound\n%s", n, killed, unstopped.epochs, epochs);
    }
}

static void clear(void)
{
    static const char *const names[] = {"cache", "kept", "traced", "m.safetensors", "p.npy", "e.npy", "x.jsonl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        nftw(in_folder(names[i]), remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

/* ---- one process ---- */

#define FILES "cache=%cache checkpoint=%kept save=%m.safetensors predict=%p.npy embed=%e.npy metrics=%x.jsonl cpus=2 "
#define SAMPLED FILES "layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 epochs=3 dropout=0.3 "
#define WHOLE_GRAPH FILES "layers=2 hidden=4 stages=2 ways=1 chunks=4 epochs=3 dropout=0.3 "

/* Kill a run at each of many calls, and go on with it. */
static void kill_each(bool pipe, const char *options, long usual)
{
    const struct whole whole = {.pipe = pipe, .options = options};
    long n_killed = 0;
    if (!watched) {
        skip();
    }
    put_whole_dataset();
    expect_good(&whole, false, 0);
    long n_calls = disk_disarm();
    keep_unstopped();
    for (long n = 1; n <= n_calls; n += stride(usual)) {
        clear();
        arm(n);
        int status = end(begin(&whole, false));
        assert_true(was_killed(status) || status == 0); /* the last calls come or not, as StarPU's threads end */
        n_killed += was_killed(status);
        expect_good(&whole, false, n);
        disk_disarm();
        expect_unstopped(n, disk->failed);
    }
    print_message("%ld calls, %ld kills\n", n_calls, n_killed);
    assert_true(n_killed > 0);
    forget_unstopped();
}

TEST_IN_FOLDER(test_minibatches)
{
    kill_each(false, SAMPLED "resume=auto", 17);
}

TEST_IN_FOLDER(test_full_graph)
{
    kill_each(true, WHOLE_GRAPH "resume=auto", 17);
}

/* ---- two processes and one cache ---- */

#define SHARED "cache=%cache cpus=1 layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 epochs=3 dropout=0.3 "

/* The n-th of both runs' calls, counted together, kills its own; the other ends as ever, and so does a third. */
TEST_IN_FOLDER(test_shared_cache)
{
    const struct whole first = {.options = SHARED "save=%a.safetensors"};
    const struct whole second = {.options = SHARED "save=%m.safetensors predict=%p.npy embed=%e.npy metrics=%x.jsonl"};
    long n_killed[2] = {0};
    if (!watched) {
        skip();
    }
    put_whole_dataset();
    expect_good(&second, false, 0);
    long n_calls = disk_disarm();
    keep_unstopped();
    for (long n = 1; n <= n_calls; n += stride(13)) {
        clear();
        arm(n);
        const pid_t runs[] = {begin(&first, false), begin(&second, false)};
        const int ends[] = {end(runs[0]), end(runs[1])};
        const int victim = was_killed(ends[0]) ? 0 : 1;
        if (!was_killed(ends[victim]) || ends[1 - victim] != 0) {
            fail_msg("expected one of two runs to be killed at call %ld, found status %d and %d", n, ends[0], ends[1]);
        }
        n_killed[victim]++;
        if (ends[1] == 0) {
            expect_unstopped(n, disk->failed);
        }
        expect_good(&second, false, n);
        disk_disarm();
        expect_unstopped(n, disk->failed);
    }
    print_message("%ld calls, %ld and %ld kills\n", n_calls, n_killed[0], n_killed[1]);
    forget_unstopped();
}

/* ---- traces ---- */

/* The lists of StarPU's converter end with a whole record; `needed`: both are there. */
static void expect_ended(bool needed)
{
    static const char *const names[] = {"traced/tasks.rec", "traced/trace.rec"};
    for (int f = 0; f < 2; f++) {
        char *text;
        size_t bytes;
        if (!needed && !sl_file_exists(in_folder(names[f]))) {
            continue;
        }
        assert_ok(sl_file_read(in_folder(names[f]), SIZE_MAX - 1, &text, &bytes));
        assert_true(bytes > 2 && strcmp(text + bytes - 2, "\n\n") == 0);
        assert_true(f == 0 || strstr(text, "\nN: end\n") != NULL);
        sl_free(text);
    }
}

/* What a killed run left of its trace is in nobody's way, and is not taken for a trace. */
TEST_IN_FOLDER(test_traces)
{
    const struct whole whole = {.options = SHARED "trace=%traced trace-steps=0:0"};
    long n_killed = 0;
    if (!watched) {
        skip();
    }
    put_whole_dataset();
    arm(0);
    int status = end(begin(&whole, true));
    long n_calls = disk_disarm();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(status, 0);
    for (long n = 1; n <= n_calls; n += stride(45)) {
        clear();
        arm(n);
        n_killed += was_killed(end(begin(&whole, true)));
        expect_nobody();
        disk_disarm();
        expect_ended(false);
        expect_good(&whole, true, n);
        disk_disarm();
        expect_ended(true);
    }
    print_message("%ld calls, %ld kills\n", n_calls, n_killed);
    assert_true(n_killed > 0);
}

/* An argument: the test to run alone. */
int main(int argc, char **argv)
{
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    watched = pipe(alive) == 0 && disk_watch();
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return run_listed_tests(NULL, NULL);
}
