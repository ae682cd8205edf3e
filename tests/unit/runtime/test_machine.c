/* gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/machine/machine: StarPU's workers and scheduler, what is refused, and that a process can do it again.
 */
#include "tests/support/run_fixture.h"

#include <cblas.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "runtime/machine/environment.h"
#include "runtime/machine/gpus.h"
#include "runtime/machine/limits.h"
#include "runtime/machine/pool.h"

#define NOBODY_ELSE 54321 /* a user without processes */
#define SKIPPED 77

static struct sl_machine started;

static enum sl_status start(uint32_t n_cpus, const char *sched)
{
    struct sl_settings settings = {.cpus = n_cpus, .sched = (char *)(uintptr_t)sched};
    return sl_machine_start(&settings, &started);
}

TEST(test_workers)
{
    char name[32];
    for (uint32_t n = 1; n <= 3 && n <= STARPU_MAXCPUS; n++) {
        expect_ok(start(n, NULL));
        assert_true(started.started);
        assert_int_equal(started.n_workers, n);
        assert_int_equal(starpu_cpu_worker_get_count(), n);
        assert_true(started.topology.n_cores >= 1 && started.topology.memory_bytes > 0);
        sl_machine_worker_name(n - 1, name, sizeof name);
        assert_non_null(strstr(name, "CPU"));
        sl_machine_stop(&started);
        assert_false(started.started);
        assert_false(starpu_is_initialized());
    }
    sl_machine_stop(&started); /* an empty one */
}

/* 0: one per core of the cpuset, or as many as processors are granted. */
TEST(test_all_cores)
{
    struct sl_topology topology;
    expect_ok(sl_topology_read(&topology));
    if (topology.n_workers > STARPU_MAXCPUS) {
        skip();
    }
    expect_ok(start(0, NULL));
    assert_int_equal(started.n_workers, topology.n_workers);
    sl_machine_stop(&started);
}

/* One thread for each product: workers are as many as cores already. */
TEST(test_one_blas_thread)
{
    openblas_set_num_threads(2);
    expect_ok(start(2 <= STARPU_MAXCPUS ? 2 : 1, NULL));
    assert_int_equal(openblas_get_num_threads(), 1);
    sl_machine_stop(&started);
}

static cpu_set_t allowed;
static atomic_int n_inside, n_outside;

/* On each worker: may it run on anything but what is allowed? */
static void look_at_worker(void *argument)
{
    cpu_set_t mine;
    cpu_set_t both;
    (void)argument;
    int known = sched_getaffinity(0, sizeof mine, &mine) == 0;
    CPU_AND(&both, &mine, &allowed);
    atomic_fetch_add(known && CPU_EQUAL(&both, &mine) ? &n_inside : &n_outside, 1);
}

/* In a process that is bound to one hardware thread: 0 where as many workers as were asked for stay on it, 77 where
 * it cannot be bound. */
static int start_bound(void)
{
    int cpu = CPU_SETSIZE - 1; /* the last one allowed: the first is where unasked workers begin */
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return 77;
    }
    while (!CPU_ISSET(cpu, &allowed)) {
        cpu--;
    }
    CPU_ZERO(&allowed);
    CPU_SET(cpu, &allowed);
    if (sched_setaffinity(0, sizeof allowed, &allowed) != 0) {
        return 77;
    }
    unsetenv("STARPU_WORKERS_NOBIND");
    if (start(0, NULL) != SL_OK || started.n_workers != 1) {
        return 1;
    }
    starpu_execute_on_each_worker(look_at_worker, NULL, STARPU_CPU);
    sl_machine_stop(&started);
    return atomic_load(&n_inside) == 1 && atomic_load(&n_outside) == 0 ? 0 : 2;
}

TEST(test_stays_on_its_cores)
{
    int status;
#ifdef __SANITIZE_THREAD__
    skip(); /* it allows no threads in a forked process */
#endif
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(start_bound());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(test_too_many)
{
    char most[16];
    snprintf(most, sizeof most, "%d", STARPU_MAXCPUS);
    assert_int_equal(start(STARPU_MAXCPUS + 1, NULL), SL_EINVAL);
    expect_message(sl_message(), "--cpus", most);
    assert_false(started.started || starpu_is_initialized());
}

TEST(test_unknown_scheduler)
{
    assert_int_equal(start(1, "fastest"), SL_EINVAL);
    expect_message(sl_message(), "fastest", "--sched");
    expect_message(sl_message(), " near", " lws");
    expect_message(sl_message(), " eager", " dmdas");
    expect_message(sl_message(), " prio", " dmda");
    assert_null(strchr(sl_message(), '\n'));
    assert_int_equal(start(1, "darts"), SL_EINVAL);
    assert_null(strstr(sl_message(), " darts,"));
    assert_false(started.started || starpu_is_initialized());
}

/* More GPUs than there are: refused in a line that says what to do, whether for want of devices or of CUDA. */
TEST(test_too_many_gpus)
{
    struct sl_settings settings = {.cpus = 1, .gpus = sl_gpus_count() + 1};
    enum sl_status st = sl_machine_start(&settings, &started);
    assert_int_equal(st, sl_gpus_built() ? SL_ENODEV : SL_ENOTSUP);
    expect_message(sl_message(), "--gpus", sl_gpus_built() ? "nvidia-smi" : "--with-cuda");
    assert_null(strchr(sl_message(), '\n'));
    assert_false(started.started || starpu_is_initialized());
    settings.gpus = 4096;
    assert_int_equal(sl_machine_start(&settings, &started), st);
    assert_false(started.started || starpu_is_initialized());
}

/* All there are, one CPU worker beside them unless more are asked for, their scheduler; none: a run on CPUs. */
TEST(test_all_gpus)
{
    struct sl_settings settings = {.gpus = SL_GPUS_ALL};
    uint32_t n = sl_gpus_count();
    unsetenv("STARPU_SCHED");
    expect_ok(sl_machine_start(&settings, &started));
    assert_int_equal(started.n_gpus, n);
    const uint32_t of_gpus = (uint32_t)starpu_worker_get_count_by_type(STARPU_CUDA_WORKER);
    assert_true(of_gpus == n || (n == 1 && of_gpus == 2)); /* two where there are processors for them */
    assert_int_equal(started.gpus_first, n > 0);
    assert_int_equal(started.n_workers, n > 0 ? of_gpus + 1 : started.topology.n_workers);
    assert_string_equal(started.sched, n > 0 ? "dmdas" : "near");
    sl_machine_stop(&started);
    settings.cpus = 2 <= STARPU_MAXCPUS ? 2 : 1;
    expect_ok(sl_machine_start(&settings, &started));
    assert_int_equal(started.n_workers, n + settings.cpus);
    assert_false(started.gpus_first);
    sl_machine_stop(&started);
    if (n > 0) { /* it is for CPUs */
        static char near[] = SL_NEAR;
        settings.sched = near;
        assert_int_equal(sl_machine_start(&settings, &started), SL_EINVAL);
        expect_message(sl_message(), "near", "--gpus 0");
        settings.sched = NULL;
    }
    settings.gpus = 0;
    expect_ok(sl_machine_start(&settings, &started));
    assert_int_equal(started.n_gpus, 0);
    assert_int_equal(started.n_workers, settings.cpus);
    sl_machine_stop(&started);
}

/* Two workers of one GPU: it is one GPU to all that count them, and the first worker is its home. */
TEST(test_two_workers_of_a_gpu)
{
    struct sl_settings settings = {.gpus = 1};
    struct sl_homes homes;
    struct sl_run made;
    int devices[STARPU_MAXCUDADEVS + 1];
    int nodes[STARPU_MAXCUDADEVS + 1];
    if (sl_gpus_count() == 0) {
        skip();
    }
    setenv("STARPU_NWORKER_PER_CUDA", "2", 1);
    expect_ok(sl_machine_start(&settings, &started));
    unsetenv("STARPU_NWORKER_PER_CUDA");
    assert_int_equal(starpu_worker_get_count_by_type(STARPU_CUDA_WORKER), 2);
    assert_int_equal(started.n_gpus, 1);
    assert_int_equal(started.n_workers, 3);
    assert_int_equal(sl_gpus_list(devices, nodes), 1);
    sl_homes_find(4, &homes);
    assert_int_equal(homes.n, 1);
    assert_int_equal(starpu_worker_get_type(sl_home_worker(&homes, 3)), STARPU_CUDA_WORKER);
    assert_int_equal(sl_home_worker(&homes, 0), sl_home_worker(&homes, 3));
    expect_ok(sl_run_init(&made));
    assert_int_equal(made.n_gpus, 1);
    sl_run_free(&made);
    sl_machine_stop(&started);
}

static void expect_sched(const char *asked, const char *found)
{
    const char *before = getenv("STARPU_SCHED");
    char kept[64];
    snprintf(kept, sizeof kept, "%s", before != NULL ? before : "none");
    expect_ok(start(1, asked));
    assert_string_equal(started.sched, found);
#if STARPU_MAJOR_VERSION > 1 || STARPU_MINOR_VERSION >= 4 /* 1.3 does not tell */
    assert_string_equal(starpu_sched_get_sched_policy()->policy_name, found);
#endif
    sl_machine_stop(&started);
    before = getenv("STARPU_SCHED");
    assert_string_equal(before != NULL ? before : "none", kept);
}

/* The option beats the environment, which beats the default; a run leaves the environment to the next one. */
TEST(test_scheduler)
{
    unsetenv("STARPU_SCHED");
    expect_sched(NULL, "near");
    expect_sched("eager", "eager");
    expect_sched("near", "near");
    expect_sched(NULL, "near");
    setenv("STARPU_SCHED", "prio", 1);
    expect_sched(NULL, "prio");
    expect_sched("dmda", "dmda");
    expect_sched("near", "near");
    setenv("STARPU_SCHED", "near", 1);
    expect_sched(NULL, "near");
    expect_sched("lws", "lws");
    setenv("STARPU_SCHED", "", 1);
    expect_sched(NULL, "near");
    setenv("STARPU_SCHED", "nonsense", 1);
    assert_int_equal(start(1, NULL), SL_EINVAL);
    expect_message(sl_message(), "nonsense", "lws");
    unsetenv("STARPU_SCHED");
}

static void expect_loading(uint32_t gpus, int transport, const char *wanted)
{
    struct sl_settings settings = {.cpus = 1, .gpus = gpus, .transport = transport};
    expect_ok(sl_machine_start(&settings, &started));
    sl_machine_stop(&started);
    const char *found = getenv("CUDA_MODULE_LOADING");
    assert_string_equal(found != NULL ? found : "unset", wanted);
}

/* With NCCL CUDA loads all kernels at its start, unless the user says how. */
TEST(test_kernels_loaded_early)
{
    unsetenv("CUDA_MODULE_LOADING");
    expect_loading(SL_GPUS_ALL, SL_TRANSPORT_STARPU, "unset");
    expect_loading(0, SL_TRANSPORT_NCCL, "unset");
    expect_loading(SL_GPUS_ALL, SL_TRANSPORT_NCCL, "EAGER");
    setenv("CUDA_MODULE_LOADING", "LAZY", 1);
    expect_loading(SL_GPUS_ALL, SL_TRANSPORT_NCCL, "LAZY");
    unsetenv("CUDA_MODULE_LOADING");
}

/* StarPU's buffers come from the pool while a machine is up, and none is left behind. */
TEST(test_pool_goes)
{
    starpu_data_handle_t handle;
    expect_ok(start(1, NULL));
    starpu_vector_data_register(&handle, -1, 0, 1000, 4);
    assert_int_equal(starpu_data_acquire(handle, STARPU_W), 0);
    starpu_data_release(handle);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* builds with those have no pool */
    assert_true(sl_pool_blocks() >= 1 && sl_pool_bytes() >= 4000);
#endif
    starpu_data_unregister_no_coherency(handle);
    sl_machine_stop(&started);
    assert_int_equal(sl_pool_blocks(), 0);
    assert_int_equal(sl_pool_bytes(), 0);
}

/* In a process of a user without any other: the limit counts a user's threads, and does not hold for root. */
static void start_with_threads(rlim_t n)
{
    const struct rlimit limit = {n, n};
    const struct sl_settings settings = {.cpus = 4};
    if ((geteuid() == 0 && setresuid(NOBODY_ELSE, NOBODY_ELSE, NOBODY_ELSE) != 0) ||
        setrlimit(RLIMIT_NPROC, &limit) != 0) {
        _exit(SKIPPED);
    }
    unsigned found = sl_limits_threads(4);
    enum sl_status st = sl_machine_start(&settings, &started);
    char expected[100];
    snprintf(expected, sizeof expected, "gives this process %u more threads, expected 4 for its workers", found);
    _exit(found < 4 && st == SL_ENODEV && strstr(sl_message(), expected) != NULL ? 0 : 1);
}

/* Too few threads are a line instead of StarPU's abort. */
TEST(test_few_threads)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        start_with_threads(3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        skip();
    }
    assert_int_equal(status, 0);
    assert_int_equal(sl_limits_threads(3), 3);
}

static int environment(void **state)
{
    (void)state;
    fixture_environment();
    unsetenv("STARPU_SCHED");
    return 0;
}

/* Where StarPU can write nothing, the line names the variable. */
TEST(test_home_is_writable)
{
    static const char *const names[] = {"XDG_CACHE_HOME", "STARPU_HOME", "HOME"};
    char *kept[3];
    expect_ok(sl_environment_check_home());
    for (int i = 0; i < 3; i++) {
        kept[i] = getenv(names[i]) != NULL ? strdup(getenv(names[i])) : NULL;
        setenv(names[i], "/dev/null", 1);
    }
    for (int i = 0; i < 3; i++) {
        char expected[160];
        snprintf(expected, sizeof expected, "$%s: found '/dev/null', expected a folder in which StarPU can write: Not",
                 names[i]);
        assert_int_equal(sl_environment_check_home(), SL_EIO);
        assert_memory_equal(sl_message(), expected, strlen(expected));
        unsetenv(names[i]);
    }
    for (int i = 0; i < 3; i++) {
        if (kept[i] != NULL) {
            setenv(names[i], kept[i], 1);
            free(kept[i]);
        }
    }
}

TEST_MAIN(environment, NULL)
