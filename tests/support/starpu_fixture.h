/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * StarPU for the tests of submissions: started and stopped with some CPU workers, and handles over the test's own
 * memory.
 *
 * With SL_TEST_DEVICE=cuda (`make check-gpu`) the same tests run on one GPU: tasks that have a CUDA implementation
 * run there and nowhere else, the others on one CPU worker.
 */
#ifndef SL_TESTS_STARPU_FIXTURE_H
#define SL_TESTS_STARPU_FIXTURE_H

#include <fts.h>
#include <starpu.h>
#include <stdio.h>

#include "codelets/rows/gemm.h"
#include "runtime/machine/gpus.h"
#include "support/memory.h"
#include "tasks/rows.h"
#include "tasks/task.h"
#include "tests/support/kernel.h"

/* The run of all tasks of a test, and its head; valid between fixture_start and fixture_stop. */
static struct sl_run run;
static struct sl_task_args head;

static MAYBE_UNUSED const unsigned worker_counts[] = {1, 3};
#define N_WORKER_COUNTS (sizeof worker_counts / sizeof worker_counts[0])

/* Whether kernels are emulated on a CPU (tests/simgpu), where they are slow. */
static MAYBE_UNUSED bool slow_kernels(void)
{
#ifdef SL_EMULATED
    return true;
#else
    return getenv("SL_EMULATED_GPUS") != NULL;
#endif
}

/* A sweep takes every case; where kernels are slow, and not all are wanted (SL_LONG=1), every so many-th. */
static MAYBE_UNUSED uint32_t slow_stride(uint32_t usual)
{
    return slow_kernels() && getenv("SL_LONG") == NULL ? usual : 1;
}

/* The first of these: over made-up GPUs others have their turn than in an emulated library. */
static MAYBE_UNUSED uint32_t slow_first(uint32_t usual)
{
    return (getenv("SL_EMULATED_GPUS") != NULL) % slow_stride(usual);
}

/* A test that takes long begins with this: it is skipped where kernels are slow. */
static MAYBE_UNUSED void long_test(void)
{
    if (slow_kernels()) {
        skip();
    }
}

/* One that takes long there only if the address sanitizer watches. */
static MAYBE_UNUSED void long_test_watched(void)
{
#ifdef __SANITIZE_ADDRESS__
    long_test();
#endif
}

/* StarPU's home for a test that is started by hand; removed when the program ends. */
static MAYBE_UNUSED char fixture_home[] = "/tmp/starling-test-XXXXXX";

static MAYBE_UNUSED void remove_home(void)
{
    char *const roots[] = {fixture_home, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *entry = tree == NULL ? NULL : fts_read(tree); entry != NULL; entry = fts_read(tree)) {
        if (entry->fts_info != FTS_D) { /* folders come again when they are empty */
            remove(entry->fts_accpath);
        }
    }
    if (tree != NULL) {
        fts_close(tree);
    }
}

/* build-aux/test-env sets all this; here for a test that is started by hand. */
static MAYBE_UNUSED void fixture_environment(void)
{
    if (getenv("STARPU_HOME") == NULL) {
        assert_non_null(mkdtemp(fixture_home));
        setenv("STARPU_HOME", fixture_home, 1);
        atexit(remove_home);
    }
    setenv("STARPU_HOSTNAME", "test", 0);
    setenv("STARPU_SILENT", "1", 0);
    setenv("STARPU_CALIBRATE", "0", 0);
    setenv("STARPU_FXT_TRACE", "0", 0);
    setenv("STARPU_WORKERS_NOBIND", "1", 0);
    setenv("HWLOC_COMPONENTS", "-pci", 0);
}

/* Whether this test is to run on a GPU; skips it where there is none. */
static MAYBE_UNUSED bool wants_gpu(void)
{
    const char *device = getenv("SL_TEST_DEVICE");
    if (device == NULL || strcmp(device, "cuda") != 0) {
        return false;
    }
    if (sl_gpus_count() == 0) {
        skip();
    }
    return true;
}

/* Rows in bf16 are for CPUs and for GPUs of compute capability 8; on others tests of them are skipped. */
static MAYBE_UNUSED void needs_bf16(void)
{
    struct sl_gpu gpu;
    if (wants_gpu() && (sl_gpus_read(0, &gpu) != SL_OK || !gpu.has_tensors)) {
        skip();
    }
}

static bool fixture_on_gpu;
static int fixture_n_gpus = 1; /* then */

/* Start StarPU with n CPU workers, as far as it was built for so many, or with one GPU. */
static MAYBE_UNUSED void fixture_start(unsigned n_workers)
{
    struct starpu_conf conf;
    fixture_on_gpu = wants_gpu();
    fixture_environment();
    sl_gemm_setup();
    assert_int_equal(starpu_conf_init(&conf), 0);
    conf.precedence_over_environment_variables = 1;
    conf.ncpus = fixture_on_gpu ? 1 : n_workers < STARPU_MAXCPUS ? (int)n_workers : STARPU_MAXCPUS;
    conf.ncuda = fixture_on_gpu ? fixture_n_gpus : 0;
    conf.nopencl = 0;
    conf.catch_signals = 0;
    assert_int_equal(starpu_init(&conf), 0);
    assert_int_equal(starpu_worker_get_count_by_type(STARPU_CUDA_WORKER), conf.ncuda);
    if (fixture_on_gpu) {
        sl_gpus_open_libraries();
    }
    assert_int_equal(sl_run_init(&run), SL_OK);
    run.gpus_first = fixture_on_gpu;
    head = (struct sl_task_args){.run = &run, .step = 7, .hop = 1};
}

static MAYBE_UNUSED void fixture_stop(void)
{
    starpu_task_wait_for_all();
    sl_run_free(&run);
    if (fixture_on_gpu) {
        sl_gpus_close_libraries();
    }
    starpu_shutdown();
    assert_int_equal(sl_memory_live(), 0);
}

static MAYBE_UNUSED void fixture_end(const int *is_open)
{
    (void)is_open;
    fixture_stop();
}

/* StarPU up to the end of the block. Variables declared after it are released before StarPU stops. */
#define FIXTURE(n_workers) OWNED(fixture_end) MAYBE_UNUSED const int fixture_is_open = (fixture_start(n_workers), 1)

/* From now on no task of the run may do its work. */
static MAYBE_UNUSED void fixture_fail(void)
{
    sl_failure_set(&run.failure, sl_fail(SL_EIO, "the test says so"));
}

/* The run ended well; if not, say how. */
static MAYBE_UNUSED void expect_no_failure(void)
{
    enum sl_status st = sl_failure_status(&run.failure);
    if (st != SL_OK) {
        fail_msg("a task failed: %s", sl_message());
    }
}

/* ---- what tasks read and write ---- */

/* Submit a task, and wait for it. What it only reads must stay as it is; what it overwrites is lost before it runs. */
static MAYBE_UNUSED enum sl_status watch_task(struct sl_holder *holder, struct sl_task *task, const void *args,
                                              size_t args_bytes, enum sl_priority priority)
{
    const unsigned n = task->n_buffers;
    starpu_data_handle_t *handles = need(n, sizeof *handles);
    void **before = need(n, sizeof *before);
    (void)holder;
    memcpy(handles, task->handles, n * sizeof *handles);
    for (unsigned i = 0; i < n; i++) {
        const size_t bytes = starpu_data_get_size(handles[i]);
        assert_int_equal(starpu_data_acquire(handles[i], task->modes[i]), 0);
        if (task->modes[i] == STARPU_W) {
            memset(starpu_data_get_local_ptr(handles[i]), 0xff, bytes);
        } else if (task->modes[i] == STARPU_R) {
            before[i] = need(bytes, 1);
            memcpy(before[i], starpu_data_get_local_ptr(handles[i]), bytes);
        }
        starpu_data_release(handles[i]);
    }
    const char *name = task->operation->codelet.name;
    const enum sl_status st = sl_task_hand_over(task, args, args_bytes, priority);
    for (unsigned i = 0; st == SL_OK && i < n; i++) {
        if (before[i] != NULL) {
            assert_int_equal(starpu_data_acquire(handles[i], STARPU_RW), 0); /* after the task, which reads */
            expect_same(name, starpu_data_get_size(handles[i]), 1, starpu_data_get_local_ptr(handles[i]), before[i]);
            starpu_data_release(handles[i]);
        }
        free(before[i]);
    }
    free(before);
    free(handles);
    return st;
}

/* From now on tasks run one by one, and a buffer in the wrong mode is seen. */
static MAYBE_UNUSED void fixture_watch(void)
{
    static struct sl_holder holder = {watch_task};
    run.holder = &holder;
}

/* A submission succeeded. */
static MAYBE_UNUSED void expect_ok(enum sl_status st)
{
    if (st != SL_OK) {
        fail_msg("%s: %s", sl_status_name(st), sl_message());
    }
}

static MAYBE_UNUSED starpu_data_handle_t rows_of(sl_real *data, uint32_t n_rows, uint32_t n_columns)
{
    return sl_matrix_over(data, n_rows, n_columns, SL_DTYPE_REAL);
}

static MAYBE_UNUSED starpu_data_handle_t vector_of(const void *data, uint32_t n, size_t element)
{
    starpu_data_handle_t handle;
    starpu_vector_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)data, n, element);
    return handle;
}

/* All rows of a matrix. */
static MAYBE_UNUSED struct sl_slice slice_of(starpu_data_handle_t handle)
{
    return (struct sl_slice){handle, 0, sl_handle_rows(handle)};
}

/* Wait for the tasks on them and give the memory back to the test. */
static MAYBE_UNUSED void unregister(unsigned n, const starpu_data_handle_t *handles)
{
    for (unsigned i = 0; i < n; i++) {
        starpu_data_unregister(handles[i]);
    }
}

/* See what tasks have written, which may have been a GPU, in main memory. */
static MAYBE_UNUSED void bring_home(unsigned n, const starpu_data_handle_t *handles)
{
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(starpu_data_acquire(handles[i], STARPU_R), 0);
        starpu_data_release(handles[i]);
    }
}

#define UNREGISTER(handles) unregister(sizeof(handles) / sizeof((handles)[0]), (handles))

#endif
