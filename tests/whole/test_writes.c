/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Whole runs on a disk that fails once: each call that makes, writes, flushes or renames a file finds the disk
 * full, or broken, or is torn. One line says so; every file is the old one or the new one, never a mixture; and the
 * run gone on with afterwards ends with the files of one that was never stopped, its metrics with each epoch once.
 */
#include "tests/support/whole_fixture.h"

#include <glob.h>
#include <jansson.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/files/checkpoint.h"
#include "tests/support/disk_fixture.h"

POINTER_OWNER(json_decref, json_t)

#define CHECKPOINT "kept/checkpoint.safetensors"
#define METRICS "x.jsonl"
#define MOST_FILES 12

static bool watched; /* the system hands over its calls */

/* A file's contents at one time; bytes NULL: it was not there. */
struct content {
    char *bytes;
    size_t n;
};

static struct content content_of(const char *path)
{
    struct content c = {0};
    if (sl_file_exists(path)) {
        assert_ok(sl_file_read(path, (size_t)1 << 24, &c.bytes, &c.n));
    }
    return c;
}

static bool same(const struct content *a, const struct content *b)
{
    return (a->bytes == NULL) == (b->bytes == NULL) && a->n == b->n &&
           (a->n == 0 || memcmp(a->bytes, b->bytes, a->n) == 0);
}

/* The files of a run: before, after one epoch, and after a second that nothing disturbs. */
struct file {
    char path[600];
    struct content before, after;
};

static struct file files[MOST_FILES];
static size_t n_files;

static void list_files(void)
{
    static const char *const patterns[] = {CHECKPOINT, METRICS, "*.safetensors", "*.npy", "cache/*"};
    glob_t found = {0};
    n_files = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        assert_int_equal(glob(in_folder(patterns[i]), 0, NULL, &found), 0);
        for (size_t k = 0; k < found.gl_pathc; k++) {
            assert_true(n_files < MOST_FILES);
            snprintf(files[n_files++].path, sizeof files[0].path, "%s", found.gl_pathv[k]);
        }
        globfree(&found);
    }
}

static void put_back(void)
{
    for (size_t i = 0; i < n_files; i++) {
        const struct file *f = &files[i];
        remove(f->path);
        if (f->before.bytes != NULL) {
            put_bytes(f->path + strlen(folder) + 1, f->before.bytes, f->before.n);
        }
    }
}

static void forget_files(void)
{
    for (size_t i = 0; i < n_files; i++) {
        sl_free(files[i].before.bytes);
        sl_free(files[i].after.bytes);
        files[i] = (struct file){0};
    }
    n_files = 0;
}

/* Checkpoints and metrics hold times, which no two runs share. */
static bool has_times(const struct file *f)
{
    return strstr(f->path, CHECKPOINT) != NULL || strstr(f->path, METRICS) != NULL;
}

static void expect_old_or_new(long n)
{
    OWNED(sl_tensors_free) struct sl_tensors checkpoint;
    for (size_t i = 0; i < n_files; i++) {
        struct content now = content_of(files[i].path);
        if (!has_times(&files[i]) && !same(&now, &files[i].before) && !same(&now, &files[i].after)) {
            fail_msg("call %ld: %s, %zu bytes, is neither the old nor the new one", n, files[i].path, now.n);
        }
        sl_free(now.bytes);
    }
    assert_ok(sl_checkpoint_load(in_folder("kept"), &checkpoint)); /* which has a checksum */
}

static void expect_new(long n)
{
    for (size_t i = 0; i < n_files; i++) {
        struct content now = content_of(files[i].path);
        if (!has_times(&files[i]) && !same(&now, &files[i].after)) {
            fail_msg("call %ld: %s, gone on with, is another", n, files[i].path);
        }
        sl_free(now.bytes);
    }
}

/* Each line is an object, and the two epochs are there once each, in order. */
static void expect_epochs_once(long n)
{
    OWNED(sl_free_it) char *text;
    char *rest;
    size_t bytes;
    json_int_t last = 0;
    assert_ok(sl_file_read(in_folder(METRICS), (size_t)1 << 24, &text, &bytes));
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        OWNED(json_decref_it) json_t *object = json_loads(line, 0, NULL);
        if (object == NULL) {
            fail_msg("call %ld: a line of the metrics is '%s'", n, line);
        }
        const char *event = json_string_value(json_object_get(object, "event"));
        if (event != NULL && strcmp(event, "epoch") == 0) {
            json_int_t epoch = json_integer_value(json_object_get(object, "epoch"));
            if (epoch != last + 1) {
                fail_msg("call %ld: epoch %lld comes after epoch %lld", n, (long long)epoch, (long long)last);
            }
            last = epoch;
        }
    }
    assert_int_equal(last, 2);
}

#define FILES                                                                                                          \
    "cache=%cache checkpoint=%kept save=%m.safetensors predict=%p.npy embed=%e.npy metrics=%" METRICS " cpus=1 "

/* Caches save time, and a lock keeps others away: without them a run goes on; a folder that is there need not be
 * made. */
static bool may_be_missed(const char *path)
{
    return strstr(path, "/cache") != NULL || strstr(path, "/lock") != NULL || sl_folder_exists(path);
}

static void fail_each(bool pipe, const char *first, const char *second, long usual)
{
    struct whole whole = {.pipe = pipe, .options = first};
    long counts[N_DISK_FAULTS] = {0};
    long n_done_without = 0;
    if (!watched) {
        skip();
    }
    put_whole_dataset();
    assert_ok(run_whole(&whole));
    list_files();
    for (size_t i = 0; i < n_files; i++) {
        files[i].before = strstr(files[i].path, "/cache/") == NULL ? content_of(files[i].path) : (struct content){0};
    }
    put_back();
    whole.options = second;
    disk_arm(folder, DISK_FULL, 0);
    assert_ok(run_whole(&whole));
    long n_calls = disk_disarm();
    for (size_t i = 0; i < n_files; i++) {
        files[i].after = content_of(files[i].path);
        assert_non_null(files[i].after.bytes);
    }
    for (long n = 1; n <= n_calls; n += stride(usual)) {
        for (int fault = (int)(n % stride(N_DISK_FAULTS)); fault < N_DISK_FAULTS; fault += (int)stride(N_DISK_FAULTS)) {
            put_back();
            disk_arm(folder, (enum disk_fault)fault, n);
            enum sl_status st = run_whole(&whole);
            disk_disarm();
            if (st == SL_OK && !may_be_missed(disk->failed)) {
                fail_msg("call %ld, fault %d, on %s: the run says nothing of it", n, fault, disk->failed);
            }
            if (st != SL_OK && (st != SL_EIO || sl_message()[0] == '\0')) {
                fail_msg("call %ld, fault %d: found '%s': %s", n, fault, sl_status_name(st), sl_message());
            }
            expect_no_temporaries();
            expect_old_or_new(n);
            counts[fault]++;
            n_done_without += st == SL_OK;
            assert_ok(run_whole(&whole));
            expect_new(n);
            expect_epochs_once(n);
        }
    }
    print_message("%ld calls; full %ld, broken %ld, torn %ld times; %ld times the run did without\n", n_calls,
                  counts[DISK_FULL], counts[DISK_BROKEN], counts[DISK_TORN], n_done_without);
    forget_files();
}

TEST_IN_FOLDER(test_minibatches)
{
    fail_each(false, FILES "layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 chunks=2 epochs=1",
              FILES "layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 chunks=2 epochs=2 resume=auto", 2);
}

TEST_IN_FOLDER(test_full_graph)
{
    fail_each(true, FILES "layers=2 hidden=4 stages=2 ways=1 chunks=4 epochs=1",
              FILES "layers=2 hidden=4 stages=2 ways=1 chunks=4 epochs=2 resume=auto", 2);
}

/* ---- single writers, over files of "old" ---- */

static void list_written(const char *const *patterns)
{
    glob_t found = {0};
    n_files = 0;
    for (; *patterns != NULL; patterns++) {
        if (glob(in_folder(*patterns), 0, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc; k++) {
                assert_true(n_files < MOST_FILES);
                struct file *f = &files[n_files++];
                snprintf(f->path, sizeof f->path, "%s", found.gl_pathv[k]);
                f->after = content_of(f->path);
                assert_ok(sl_strdup("old", &f->before.bytes));
                f->before.n = strlen("old");
            }
        }
        globfree(&found);
    }
    assert_true(n_files > 0);
}

/* The writer's n-th call fails, for many n: each file stays old or is new. prepare: before each time; may be NULL. */
static void fail_writer(enum sl_status (*write)(void), void (*prepare)(void), const char *const *patterns, long usual)
{
    long n_failed = 0;
    disk_arm(folder, DISK_FULL, 0);
    assert_ok(write());
    long n_calls = disk_disarm();
    list_written(patterns);
    for (long n = 1; n <= n_calls; n += stride(usual)) {
        for (int fault = (int)(n % stride(N_DISK_FAULTS)); fault < N_DISK_FAULTS; fault += (int)stride(N_DISK_FAULTS)) {
            put_back();
            if (prepare != NULL) {
                prepare();
            }
            disk_arm(folder, (enum disk_fault)fault, n);
            enum sl_status st = write();
            disk_disarm();
            if (st == SL_OK ? !may_be_missed(disk->failed) : sl_message()[0] == '\0') {
                fail_msg("call %ld, fault %d, on %s: found '%s'", n, fault, disk->failed, sl_status_name(st));
            }
            expect_no_temporaries();
            for (size_t i = 0; i < n_files; i++) {
                struct content now = content_of(files[i].path);
                if (!same(&now, &files[i].before) && !same(&now, &files[i].after)) {
                    fail_msg("call %ld, fault %d: %s, %zu bytes, is neither the old nor the new one", n, fault,
                             files[i].path, now.n);
                }
                sl_free(now.bytes);
            }
            n_failed += st != SL_OK;
        }
    }
    print_message("%zu files, %ld calls, %ld failures\n", n_files, n_calls, n_failed);
    assert_true(n_failed > 0);
    forget_files();
}

static struct sl_dataset dataset;

static enum sl_status write_raw(void)
{
    return write_dataset(&dataset, false, in_folder("raw"));
}

TEST_IN_FOLDER(test_datasets)
{
    static const char *const raw[] = {"raw/raw/*", "raw/split/*/*", NULL};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 61, .n_columns = 5, .n_classes = 3, .seed = 31};
    if (!watched) {
        skip();
    }
    make_dataset(&shape, &dataset);
    fail_writer(write_raw, NULL, raw, 2);
    sl_dataset_free(&dataset);
}

/* ---- traces ---- */

/* A file of a trace, how it ends when it is whole, and a word that it has as often in each run ("": there is none). */
static const struct traced {
    const char *name, *end, *word;
} traced[] = {
    {"tasks.rec", "\n\n", ".step"}, {"trace.rec", "\n\n", ".step"}, {"data.rec", "\n\n", ""},
    {"paje.trace", "\n", ".step"},  {"dag.dot", "}\n", ""},
};
#define NO_MESSAGE 100 /* an exit status: the run failed and said nothing */
#define N_TRACED (sizeof traced / sizeof *traced)

/* As the programs do it. */
static enum sl_status run_traced(struct whole *whole)
{
    enum sl_status st = run_whole(whole);
    if (st != SL_OK) {
        sl_trace_discard(in_folder("traced"));
        return st;
    }
    return sl_trace_finish(in_folder("traced"));
}

/* In a process of its own, which FxT ends where it cannot open its file or move in it. */
static enum sl_status run_traced_apart(struct whole *whole)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        leave_cmocka();
        enum sl_status st = run_traced(whole);
        _exit(st != SL_OK && sl_message()[0] == '\0' ? NO_MESSAGE : -(int)st);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) == NO_MESSAGE) {
        fail_msg("call %ld, fault %d, on %s: the process ended with status %d", disk->fails_at, (int)disk->fault,
                 disk->failed, status);
    }
    return (enum sl_status) - WEXITSTATUS(status);
}

/* How often a file of the trace has its word (at most once where that is empty); -1: it is not there, or not whole. */
static long count_words(const struct traced *file)
{
    char path[64];
    long n = 0;
    snprintf(path, sizeof path, "traced/%s", file->name);
    struct content now = content_of(in_folder(path));
    size_t end = strlen(file->end);
    bool whole = now.bytes != NULL && now.n > end && strcmp(now.bytes + now.n - end, file->end) == 0;
    for (const char *at = whole ? strstr(now.bytes, file->word) : NULL; at != NULL;
         at = file->word[0] != '\0' ? strstr(at + 1, file->word) : NULL) {
        n++;
    }
    sl_free(now.bytes);
    return whole ? n : -1;
}

/* After a failure each file is whole or not there; without one all are, and tell of all tasks. */
static void expect_traced(long n, int fault, enum sl_status st, const long *expected)
{
    for (size_t i = 0; i < N_TRACED; i++) {
        char path[64];
        snprintf(path, sizeof path, "traced/%s", traced[i].name);
        long found = count_words(&traced[i]);
        if (st != SL_OK && !sl_file_exists(in_folder(path))) {
            continue;
        }
        if (found != expected[i]) {
            fail_msg("call %ld, fault %d, on %s, status '%s': %s has %ld times '%s', expected %ld", n, fault,
                     disk->failed, sl_status_name(st), traced[i].name, found, traced[i].word, expected[i]);
        }
    }
}

static void remove_traced(void)
{
    nftw(in_folder("traced"), remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* StarPU writes its trace and converts it without a look at what became of its writes: we look. */
TEST_IN_FOLDER(test_traces)
{
    long expected[N_TRACED];
    long n_failed = 0;
    struct whole whole = {.options = "layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 epochs=1 cpus=1 cache=none "
                                     "trace=%traced trace-steps=0:0"};
    if (!watched) {
        skip();
    }
    put_whole_dataset();
    disk_arm(folder, DISK_FULL, 0);
    enum sl_status st = run_traced_apart(&whole);
    long n_calls = disk_disarm();
    if (st == SL_ENOTSUP) {
        skip();
    }
    assert_int_equal(st, SL_OK);
    for (size_t i = 0; i < N_TRACED; i++) {
        expected[i] = count_words(&traced[i]);
        assert_true(expected[i] > 0);
    }
    for (long n = 1; n <= n_calls; n += stride(16)) {
        for (int fault = (int)(n % stride(N_DISK_FAULTS)); fault < N_DISK_FAULTS; fault += (int)stride(N_DISK_FAULTS)) {
            remove_traced();
            disk_arm(folder, (enum disk_fault)fault, n);
            st = run_traced_apart(&whole);
            disk_disarm();
            expect_traced(n, fault, st, expected);
            n_failed += st != SL_OK;
        }
    }
    print_message("%ld calls, %ld failures\n", n_calls, n_failed);
    assert_true(n_failed > 0);
}

/* StarPU converts what it finds of a trace that was cut; nothing of that is left. */
TEST_IN_FOLDER(test_cut_trace)
{
    struct whole whole = {.options = "layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 epochs=1 cpus=1 cache=none "
                                     "trace=%cut trace-steps=0:0"};
    struct stat raw;
    put_whole_dataset();
    enum sl_status st = run_whole(&whole);
    if (st == SL_ENOTSUP) {
        skip();
    }
    assert_ok(st);
    assert_int_equal(stat(in_folder("cut/trace.fxt_0"), &raw), 0);
    assert_int_equal(truncate(in_folder("cut/trace.fxt_0"), raw.st_size * 2 / 3), 0);
    st = sl_trace_finish(in_folder("cut"));
    assert_true(st == SL_EFILE || st == SL_ESTARPU);
    for (size_t i = 0; i < N_TRACED; i++) {
        char path[64];
        snprintf(path, sizeof path, "cut/%s", traced[i].name);
        if (sl_file_exists(in_folder(path))) {
            fail_msg("%s is left of a trace that was cut (%s)", path, sl_message());
        }
    }
}

/* An argument: the test to run alone. */
int main(int argc, char **argv)
{
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    watched = disk_watch();
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return run_listed_tests(NULL, NULL);
}
