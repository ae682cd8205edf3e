/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Whole runs in which each thing that can fail fails once: every allocation of ours, every call that hands StarPU a
 * task or takes a handle from it, every codelet. Each time one line says why, all tasks end, nothing stays in
 * memory, no file is half written, and the next run is none the worse.
 */
#include "tests/support/whole_fixture.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "support/clock.h"
#include "tasks/task.h"

#define SECONDS_TO_DRAIN 120 /* a run that waits without end ends after RUN_LIMIT_S */

/* ---- in front of the C library, StarPU and the tasks: the n-th call of a kind fails ---- */

struct fault {
    atomic_long seen; /* calls since it was armed */
    long first, last; /* those that fail, from 1; 0: none */
};

static struct fault allocations, buffers, submissions, acquisitions;

static bool fails(struct fault *fault)
{
    long n = atomic_fetch_add(&fault->seen, 1) + 1;
    return n >= fault->first && n <= fault->last;
}

static void arm(struct fault *fault, long first, long last)
{
    fault->first = first;
    fault->last = last;
    atomic_store(&fault->seen, 0);
}

static long disarm(struct fault *fault)
{
    fault->first = fault->last = 0;
    return atomic_load(&fault->seen);
}

/* Visible: the linker refuses hidden ones where another library, such as StarPU-MPI's, calls what is wrapped. */
#pragma GCC visibility push(default)

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return fails(&allocations) ? NULL : __real_malloc(bytes);
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    return fails(&allocations) ? NULL : __real_calloc(n, bytes);
}

/* Of StarPU's buffers alone: the pool takes its blocks here, many at once where it may. While one is to fail it may
 * not, and takes each by itself. */
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    if (buffers.first > 0 && alignment > 4096) {
        return ENOMEM;
    }
    return fails(&buffers) ? ENOMEM : __real_posix_memalign(out, alignment, bytes);
}

int __real_starpu_task_submit(struct starpu_task *task);
int __wrap_starpu_task_submit(struct starpu_task *task);
int __wrap_starpu_task_submit(struct starpu_task *task)
{
    return fails(&submissions) ? -ENOMEM : __real_starpu_task_submit(task);
}

int __real_starpu_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire(starpu_data_handle_t handle, enum starpu_data_access_mode mode)
{
    return fails(&acquisitions) ? -ENOMEM : __real_starpu_data_acquire(handle, mode);
}

int __real_starpu_data_acquire_on_node(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire_on_node(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode);
int __wrap_starpu_data_acquire_on_node(starpu_data_handle_t handle, int node, enum starpu_data_access_mode mode)
{
    return fails(&acquisitions) ? -ENOMEM : __real_starpu_data_acquire_on_node(handle, node, mode);
}

#pragma GCC visibility pop

/* ---- in front of the tasks: those of one codelet fail ---- */

#define MOST_KINDS 200

/* What tasks of a run there are: each codelet by stage. */
static struct kind {
    const char *name;
    enum sl_stage stage;
    long seen;
} kinds[MOST_KINDS];
static int n_kinds;

static struct {
    const struct kind *kind; /* whose tasks fail; NULL: none */
    long first, last;        /* which of them, from 1 */
    char told[200];          /* what the first of them is to be reported as */
} failing;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct kind *kind_of(const char *name, enum sl_stage stage)
{
    int i = 0;
    while (i < n_kinds && (kinds[i].stage != stage || strcmp(kinds[i].name, name) != 0)) {
        i++;
    }
    if (i == n_kinds && n_kinds < MOST_KINDS) {
        kinds[n_kinds++] = (struct kind){.name = name, .stage = stage};
    }
    return i < MOST_KINDS ? &kinds[i] : NULL;
}

static void begin_task(const struct sl_task_args *args)
{
    const char *name = starpu_task_get_current()->cl->name;
    pthread_mutex_lock(&lock);
    struct kind *kind = kind_of(name, args->stage);
    long n = kind != NULL ? ++kind->seen : 0;
    if (kind != NULL && kind == failing.kind && n >= failing.first && n <= failing.last) {
        char when[40] = "evaluation";
        if (args->stage != SL_STAGE_EVALUATE) {
            snprintf(when, sizeof when, "step %llu", (unsigned long long)args->step);
        }
        if (n == failing.first) {
            snprintf(failing.told, sizeof failing.told, "%s, PE %u, %s: task %ld fails", name, args->pe, when, n);
        }
        sl_task_fail(args, sl_fail(SL_ECUDA, "task %ld fails", n));
    }
    pthread_mutex_unlock(&lock);
}

int __real_sl_task_enter(const struct sl_task_args *args, double *start_s_out);
int __wrap_sl_task_enter(const struct sl_task_args *args, double *start_s_out);
int __wrap_sl_task_enter(const struct sl_task_args *args, double *start_s_out)
{
    begin_task(args);
    return __real_sl_task_enter(args, start_s_out);
}

int __real_sl_task_enter_cuda(struct sl_task_args *args);
int __wrap_sl_task_enter_cuda(struct sl_task_args *args);
int __wrap_sl_task_enter_cuda(struct sl_task_args *args)
{
    begin_task(args);
    return __real_sl_task_enter_cuda(args);
}

/* ---- the runs ---- */

#define FILES "cache=%cache checkpoint=%kept save=%m.safetensors predict=%p.npy embed=%e.npy metrics=%x.jsonl "

static const struct {
    bool pipe;
    const char *options;
} runs[] = {
    {false, FILES "layers=2 hidden=4 fanout=3,3 batch-size=8 pes=2 chunks=2 epochs=1 cpus=1 norm=batch dropout=0.3"},
    {true, FILES "layers=2 hidden=4 stages=2 ways=1 chunks=4 epochs=1 cpus=1"},
    {false, "cache=none layers=2 hidden=8 fanout=3,3 batch-size=8 pes=2 group-size=1 sync=cube chunks=2 epochs=3 "
            "cpus=1 gpus=0 "
            "partition=random checkpoint=%kept precision=bf16"},
#ifndef SL_EMULATED /* GPUs do not take pipe_gnn's rows in bf16 */
    {true, "cache=none checkpoint=%kept layers=2 hidden=4 stages=2 ways=1 chunks=4 epochs=2 history-every=1 recompute "
           "cpus=1 gpus=0 precision=bf16"},
#endif
};

static void make_all_files_go(void)
{
    static const char *const names[] = {"cache", "kept", "m.safetensors", "p.npy", "e.npy", "x.jsonl"};
    char kept[sizeof folder];
    memcpy(kept, folder, sizeof folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(folder, sizeof folder, "%.40s/%s", kept, names[i]);
        remove_folder(NULL);
        memcpy(folder, kept, sizeof folder);
    }
}

/* One call in so many may be one that a run does without: most write the cache file, whose JSON header takes many
 * small allocations. With a sanitizer there is no pool, and a buffer that the
 * C library has no memory for StarPU asks for again. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_WITHOUT 3
#else
#define MOST_WITHOUT 4
#endif

/* A run without this one call ends as well as any. */
static void expect_same_scores(const struct sl_scores *a, const struct sl_scores *b, long n)
{
    if (memcmp(a, b, sizeof *a) != 0) {
        fail_msg("call %ld: a run that did without has other scores", n);
    }
}

/* Run with the n-th call of a kind failing, for many n until none fails. What is there to save time only, a cache,
 * may be left out: then the run ends well. */
static void fail_each(struct fault *fault, enum sl_status expected, long usual, bool later_too)
{
    put_whole_dataset();
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        struct whole unharmed = {.pipe = runs[r].pipe, .options = runs[r].options};
        struct whole whole = unharmed;
        long live = sl_memory_live();
        long n_failed = 0;
        long n_done_without = 0;
        arm(fault, 0, 0);
        assert_ok(run_whole(&unharmed));
        long n_calls = disarm(fault);
        for (long n = 1; n <= n_calls; n += stride(usual)) {
            make_all_files_go();
            arm(fault, n, later_too ? 0 : n);
            sl_memory_ration(later_too ? n - 1 : -1); /* not StarPU's buffers, for which it would wait */
            enum sl_status st = run_whole(&whole);
            sl_memory_ration(-1);
            if (later_too && st == SL_OK) {
                break; /* all of them were allowed */
            }
            long n_seen = disarm(fault);
            if (!later_too && n_seen < n) {
                assert_ok(st); /* workers' calls vary in number */
            } else if (st == SL_OK) {
                expect_same_scores(&whole.scores, &unharmed.scores, n);
                n_done_without++;
            } else if (st != expected || sl_message()[0] == '\0') {
                fail_msg("run %zu, call %ld: expected '%s', found '%s': %s", r, n, sl_status_name(expected),
                         sl_status_name(st), sl_message());
            }
            expect_no_temporaries();
            assert_int_equal(sl_memory_live(), live);
            assert_int_equal(starpu_is_initialized(), 0);
            n_failed++;
        }
        print_message("run %zu: %ld of %ld calls failed, %ld times the run did without\n", r, n_failed, n_calls,
                      n_done_without);
        assert_true(n_failed > 5 && n_done_without <= 1 + n_failed / MOST_WITHOUT);
    }
}

TEST_IN_FOLDER(test_allocations)
{
    fail_each(&allocations, SL_ENOMEM, 83, false);
}

TEST_IN_FOLDER(test_allocations_from_then_on)
{
    fail_each(&allocations, SL_ENOMEM, 79, true);
}

/* From the n-th on there is none: nobody waits for it without end. What fails may be a block of the pool's reserve,
 * without which a run does. */
TEST_IN_FOLDER(test_buffers)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* there is no pool */
#endif
    put_whole_dataset();
    for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
        struct whole whole = {.pipe = runs[r].pipe, .options = runs[r].options};
        long live = sl_memory_live();
        long n_failed = 0;
        long n = 1;
        for (bool all_given = false; !all_given; n += stride(23)) {
            make_all_files_go();
            arm(&buffers, n, LONG_MAX);
            enum sl_status st = run_whole(&whole);
            all_given = disarm(&buffers) < n;
            if (st != SL_OK && (st != SL_ENOMEM || strstr(sl_message(), "no memory for a buffer of ") == NULL)) {
                fail_msg("run %zu, buffer %ld: found '%s': %s", r, n, sl_status_name(st), sl_message());
            }
            assert_true(!all_given || st == SL_OK);
            n_failed += st != SL_OK;
            expect_no_temporaries();
            assert_int_equal(sl_memory_live(), live);
            assert_int_equal(starpu_is_initialized(), 0);
        }
        print_message("run %zu: %ld times no memory for a buffer, of %ld\n", r, n_failed, n);
        assert_true(n_failed > 2);
    }
}

TEST_IN_FOLDER(test_submissions)
{
    fail_each(&submissions, SL_ESTARPU, 29, false);
}

TEST_IN_FOLDER(test_acquisitions)
{
    fail_each(&acquisitions, SL_ESTARPU, 13, false);
}

/* ---- codelets ---- */

#define SMALL "cache=none layers=2 hidden=4 epochs=1 "
#ifdef SL_EMULATED
#define CACHED "" /* these need features locked in memory */
#define HOT_DEGREE ""
#else
#define CACHED "feature-cache=8 "
#define HOT_DEGREE "feature-cache=8 feature-cache-policy=degree "
#endif

/* Together they have tasks of every codelet. */
static const struct {
    bool pipe;
    const char *options;
} mixed[] = {
    {false, SMALL "fanout=3,3 batch-size=8 pes=2 chunks=2 norm=layer dropout=0.3 residual"},
    {false, SMALL CACHED "fanout=3,3 batch-size=8 pes=2 norm=batch model=gat heads=2"},
    {false, SMALL HOT_DEGREE "fanout=3,3 batch-size=8 pes=2 model=gcnii sampler=labor"},
    {false, SMALL "fanout=3,3 batch-size=8 pes=4 group-size=2 model=gcn sync=dissemination dataset=%sparse"},
    {false, SMALL "fanout=3,3 batch-size=8 pes=2 model=gin learn-epsilon objective=regression"},
    {false, SMALL "fanout=3,3 batch-size=8 pes=2 objective=link negatives=2 decoder=mlp dataset=%links "
                  "features=random:4"},
    {false, SMALL "fanout=3,3 batch-size=8 pes=2 group-size=1 sampler=labor labor-iterations=2"},
    {false, SMALL "fanout=3,3 batch-size=8 pes=2 input-layer dataset=%sparse"},
    {false, SMALL "fanout=3,3 batch-size=1 pes=2 partition=random model=rgcn bases=2 input-layer dataset=%typed"},
    {false, SMALL "fanout=3,3 batch-size=1 pes=2 partition=random model=rgat heads=2 dataset=%typed"},
    {false, SMALL "fanout=3,3 batch-size=1 pes=2 partition=random model=gat heads=2 edge-features=add dataset=%edged"},
    {false, SMALL "fanout=3,3 batch-size=1 pes=2 partition=random edge-features=add dataset=%edged"},
    {true, SMALL "chunks=4 stages=2 ways=2 model=resgcn dropout=0.3"},
    {true, SMALL "chunks=4 stages=1 ways=1 model=gcnii recompute epochs=2 history-every=1"},
};

/* The run fails by the tasks of one kind from `first` to `last`, and says so of the first. */
static void fail_tasks(struct whole *whole, struct kind *kind, long first, long last)
{
    long live = sl_memory_live();
    for (int k = 0; k < n_kinds; k++) {
        kinds[k].seen = 0;
    }
    failing.kind = kind;
    failing.first = first;
    failing.last = last;
    failing.told[0] = '\0';
    double start_s = sl_clock_s();
    enum sl_status st = run_whole(whole);
    failing.kind = NULL;
    if (failing.told[0] == '\0') {
        fail_msg("%s: there were %ld tasks, not %ld", kind->name, kind->seen, first);
    }
    if (st != SL_ECUDA || strcmp(sl_message(), failing.told) != 0) {
        fail_msg("expected '%s', found '%s'", failing.told, sl_message());
    }
    assert_true(sl_clock_s() - start_s < SECONDS_TO_DRAIN);
    assert_int_equal(sl_memory_live(), live);
    assert_int_equal(starpu_is_initialized(), 0);
}

static bool is_left_out(const char *name)
{
    return CACHED[0] == '\0' &&
           (strncmp(name, "sl_row_cache", strlen("sl_row_cache")) == 0 || strcmp(name, "sl_gather_cached") == 0);
}

/* Every codelet of the sources has failed. NCCL's move needs GPUs, halo.c's need several ranks. */
static void expect_all_codelets(bool (*failed)(const char *name))
{
    static const char *const files[] = {
        "rows/activate",     "sums/aggregate",  "sums/attend",         "rows/batchnorm",      "rows/bias",
        "rows/blend",        "rows/dense",      "rows/derive",         "sampling/exchange",   "rows/gather",
        "ends/gossip",       "rows/row_cache",  "sampling/importance", "sampling/link_seeds", "ends/loss",
        "sampling/nonzeros", "ends/optimize",   "ends/pairs",          "sums/pull",           "ends/reduce",
        "sums/relate",       "sampling/sample", "ends/score"};
    char path[600];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        OWNED(sl_free_it) char *text;
        size_t bytes;
        snprintf(path, sizeof path, "%s/codelets/%s.c", getenv("top_srcdir"), files[i]);
        assert_ok(sl_file_read(path, (size_t)1 << 20, &text, &bytes));
        for (char *at = strstr(text, "OPERATION("); at != NULL; at = strstr(at, "OPERATION(")) {
            at = strchr(at, '"') + 1;
            char *end = strchr(at, '"');
            *end = '\0';
            if (!failed(at) && !is_left_out(at)) {
                fail_msg("%s: no run has a task of '%s'", path, at);
            }
            at = end + 1;
        }
    }
}

static char names_failed[MOST_KINDS][64];
static int n_names_failed;

static bool has_failed(const char *name)
{
    for (int i = 0; i < n_names_failed; i++) {
        if (strcmp(names_failed[i], name) == 0) {
            return true;
        }
    }
    return false;
}

TEST_IN_FOLDER(test_codelets)
{
    put_whole_dataset();
    int n_runs = 0;
    for (size_t r = 0; r < sizeof mixed / sizeof *mixed; r++) {
        struct whole whole = {.pipe = mixed[r].pipe, .options = mixed[r].options};
        struct kind found[MOST_KINDS];
        n_kinds = 0;
        assert_ok(run_whole(&whole));
        int n = n_kinds;
        assert_true(n < MOST_KINDS);
        memcpy(found, kinds, sizeof found);
        for (int k = 0; k < n; k++) {
            bool is_new = !has_failed(found[k].name);
            if (!is_new && (k + (int)r) % stride(7) != 0) {
                continue;
            }
            fail_tasks(&whole, &kinds[k], 1, 1);
            if (found[k].seen > 1) {
                fail_tasks(&whole, &kinds[k], found[k].seen / 2 + 1, LONG_MAX);
            }
            n_runs += 1 + (found[k].seen > 1);
            snprintf(names_failed[n_names_failed], sizeof names_failed[0], "%s", found[k].name);
            n_names_failed += is_new;
        }
    }
    print_message("%d codelets, %d runs\n", n_names_failed, n_runs);
    expect_all_codelets(has_failed);
}

/* An argument: the test to run alone. */
int main(int argc, char **argv)
{
    fixture_environment();
    unsetenv("STARPU_FXT_TRACE");
    json_set_alloc_funcs(malloc, free);
    const char *filter = argc > 1 ? argv[1] : NULL;
    /* Of GPUs' tasks only the codelets are others. */
    bool on_gpus =
        slow_kernels() || (getenv("SL_TEST_DEVICE") != NULL && strcmp(getenv("SL_TEST_DEVICE"), "cuda") == 0);
    cmocka_set_test_filter(on_gpus ? "test_codelets" : filter);
    return run_listed_tests(NULL, NULL);
}
