/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * tasks/near.h. On four workers, one of them released at a time: the queues that tasks join, and the order in which
 * a worker takes tasks. On 4 to 64 workers: no task is lost if the system stops workers, and idle workers yield.
 * SL_LONG=1: longer chains of tasks. */
#include "tasks/near.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/run_fixture.h"

#define N_WORKERS 4
#define MOST 32

/* ---- workers held, and what they do once they are not ---- */

static atomic_int held[N_WORKERS]; /* 1: its task is to wait; 2: it waits */
static atomic_int n_done;
static char done[MOST + 1]; /* names of tasks in the order in which they ran */

static void hold_task(void *buffers[], void *cl_arg)
{
    atomic_int *mine = &held[starpu_worker_get_id()];
    (void)buffers;
    (void)cl_arg;
    atomic_store(mine, 2);
    while (atomic_load(mine) != 0) {
        sched_yield();
    }
}

static void note_task(void *buffers[], void *cl_arg)
{
    (void)buffers;
    int n = atomic_load(&n_done); /* one worker at a time is let go on */
    done[n % MOST] = *(const char *)cl_arg;
    atomic_store(&n_done, n + 1);
}

static struct starpu_codelet hold_cl = {.name = "sl_test_hold", .cpu_funcs = {hold_task}};
static struct starpu_codelet note_cl = {
    .name = "sl_test_note", .cpu_funcs = {note_task}, .nbuffers = STARPU_VARIABLE_NBUFFERS};

static void hold_all(void)
{
    for (int w = 0; w < N_WORKERS; w++) {
        struct starpu_task *task = starpu_task_create();
        atomic_store(&held[w], 1);
        task->cl = &hold_cl;
        task->execute_on_a_specific_worker = 1;
        task->workerid = (unsigned)w;
        task->priority = SL_PRIORITY_SEND; /* at 0 StarPU leaks a little with each start */
        assert_int_equal(starpu_task_submit(task), 0);
    }
    for (int w = 0; w < N_WORKERS; w++) {
        while (atomic_load(&held[w]) != 2) {
            sched_yield();
        }
    }
    memset(done, 0, sizeof done);
    atomic_store(&n_done, 0);
}

/* A task by the name of *name; place NULL: nobody's. handle NULL: of no data. */
static void submit(const char *name, void *place, int priority, starpu_data_handle_t handle)
{
    struct starpu_task *task = starpu_task_create();
    task->cl = &note_cl;
    task->cl_arg = (void *)(uintptr_t)name;
    task->cl_arg_size = 1;
    task->priority = priority;
    task->sched_data = place;
    if (handle != NULL) {
        task->nbuffers = 1;
        task->handles[0] = handle;
        task->modes[0] = STARPU_RW;
    } else {
        task->nbuffers = 0;
    }
    assert_int_equal(starpu_task_submit(task), 0);
}

/* What one worker does of n tasks, or of more, while the others are held. */
static void expect_order(unsigned worker, const char *wanted)
{
    atomic_store(&held[worker], 0);
    while (atomic_load(&n_done) < (int)strlen(wanted)) {
        sched_yield();
    }
    assert_string_equal(done, wanted);
}

static void let_go(void)
{
    for (int w = 0; w < N_WORKERS; w++) {
        atomic_store(&held[w], 0);
    }
    starpu_task_wait_for_all();
}

/* After a failure, too. */
static int down(void **state)
{
    (void)state;
    if (machine.started) {
        let_go();
        machine_down();
    }
    return 0;
}

static void up(void)
{
    if (wants_gpu() || N_WORKERS > STARPU_MAXCPUS) {
        skip();
    }
    machine_up(SL_NEAR, N_WORKERS);
}

/* ---- tests ---- */

/* Workers that PEs have to themselves, and homes that PEs share. */
TEST(test_ranges)
{
    for (uint32_t n = 1; n <= 9; n++) {
        for (uint32_t n_pes = 1; n_pes <= 9; n_pes++) {
            const struct sl_homes homes = {.n_pes = n_pes, .first_pe = 5, .n = n};
            uint32_t next = 0;
            for (uint32_t p = 5; p < 5 + n_pes; p++) {
                struct sl_home_range range = sl_home_range(&homes, p);
                assert_int_equal(range.first, sl_home_of(&homes, p));
                if (n_pes >= n) {
                    assert_int_equal(range.n, 1);
                } else {
                    assert_int_equal(range.first, next);
                    assert_in_range(range.n, n / n_pes, (n + n_pes - 1) / n_pes);
                }
                next = range.first + range.n;
            }
            assert_int_equal(next, n);
            assert_int_equal(sl_home_range(&homes, 4 + n_pes).first, sl_home_range(&homes, 99).first);
            assert_int_equal(sl_home_range(&homes, 5).first, sl_home_range(&homes, 0).first);
            assert_int_equal(sl_home_range(&homes, 5).n, sl_home_range(&homes, 0).n);
            assert_int_equal(sl_home_range(&homes, 4 + n_pes).n, sl_home_range(&homes, 99).n);
        }
    }
}

/* Its own line first, by priority and in turn; then those of others, the next one's last task first. */
TEST_WITH(test_order, NULL, down)
{
    up();
    struct sl_homes homes;
    sl_homes_find(N_WORKERS, &homes);
    void *place[N_WORKERS];
    for (uint32_t p = 0; p < N_WORKERS; p++) {
        place[p] = sl_near_place(&homes, p);
    }
    hold_all();
    submit("a", place[0], SL_PRIORITY_NORMAL, NULL);
    submit("b", place[0], SL_PRIORITY_NORMAL, NULL);
    submit("c", place[3], SL_PRIORITY_SEND, NULL);
    submit("d", place[2], SL_PRIORITY_SAMPLE, NULL);
    submit("e", place[2], SL_PRIORITY_NORMAL, NULL);
    submit("f", place[2], SL_PRIORITY_NORMAL, NULL);
    submit("g", place[1], SL_PRIORITY_COMPUTE, NULL);
    submit("h", place[2], SL_PRIORITY_SEND, NULL);
    expect_order(2, "hefdcba" /* 3 is next to 2, then 0 */ "g");
    let_go();
    hold_all();
    submit("a", place[0], SL_PRIORITY_NORMAL, NULL);
    submit("c", place[2], SL_PRIORITY_NORMAL, NULL);
    submit("d", place[3], SL_PRIORITY_NORMAL, NULL);
    expect_order(1, "adc"); /* 0 is next to 1, then 3, then 2 */
    let_go();
}

/* The workers of a PE with several take turns. */
TEST_WITH(test_turns, NULL, down)
{
    struct sl_homes homes;
    up();
    sl_homes_find(2, &homes); /* of two workers each */
    void *second = sl_near_place(&homes, 1);
    hold_all();
    submit("a", second, SL_PRIORITY_NORMAL, NULL);
    submit("b", second, SL_PRIORITY_NORMAL, NULL);
    submit("c", second, SL_PRIORITY_NORMAL, NULL);
    submit("d", second, SL_PRIORITY_NORMAL, NULL);
    submit("e", sl_near_place(&homes, 0), SL_PRIORITY_NORMAL, NULL);
    expect_order(2, "acdbe"); /* its own in turn, of the next one's the last before the first */
    let_go();
}

/* Task b becomes ready on worker 2, once a is done there, of which another worker's line has d. Where does b go? */
static void expect_second(void *place, const char *wanted)
{
    char data = 0;
    starpu_data_handle_t handle;
    struct sl_homes homes;
    sl_homes_find(N_WORKERS, &homes);
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)&data, sizeof data);
    hold_all();
    submit("a", sl_near_place(&homes, 2), SL_PRIORITY_SEND, handle);
    submit("b", place, SL_PRIORITY_NORMAL, handle);
    submit("d", sl_near_place(&homes, 3), SL_PRIORITY_NORMAL, NULL);
    expect_order(2, wanted);
    let_go();
    starpu_data_unregister(handle);
}

/* What a PE's worker makes ready stays with it, and so does what is nobody's; what is another's goes there. */
TEST_WITH(test_made_ready, NULL, down)
{
    struct sl_homes homes;
    struct sl_homes four;
    up();
    sl_homes_find(2, &homes);
    sl_homes_find(N_WORKERS, &four);
    for (int turn = 0; turn < 2; turn++) { /* whichever worker's turn it is */
        expect_second(sl_near_place(&homes, 1), "abd");
        expect_second(sl_near_place(&homes, 0), "adb");
        expect_second(NULL, "abd");
        expect_second(sl_near_place(&four, 0), "adb");
        expect_second(sl_near_place(&four, 2), "abd");
    }
}

/* ---- many tasks ---- */

#define N_CHAINS 24
#define MAX_LENGTH 4000
#define TOO_LONG_S 300 /* SIGALRM then ends the program: a live-lock */

static void nap(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static unsigned numbers[MAX_LENGTH]; /* element i is i; written before StarPU starts */

/* A task that finds another count than its own number spoils the count for good. Some tasks block their worker. */
static void count_task(void *buffers[], void *cl_arg)
{
    unsigned *count = (unsigned *)STARPU_VARIABLE_GET_PTR(buffers[0]);
    const unsigned *wanted = cl_arg;
    *count = *count == *wanted ? *count + 1 : UINT32_MAX / 2;
    if (*wanted % 101 == 100) {
        nap(1000000);
    }
}

/* Chains of tasks for n_pes PEs, with all priorities. No task may be lost or overtake another of its chain. */
static void run_chains(uint32_t n_pes, unsigned length)
{
    static struct starpu_codelet count_cl = {
        .name = "sl_test_count", .cpu_funcs = {count_task}, .nbuffers = 1, .modes = {STARPU_RW}};
    unsigned counts[N_CHAINS] = {0};
    starpu_data_handle_t handle[N_CHAINS];
    struct sl_homes homes;
    sl_homes_find(n_pes, &homes);
    for (int k = 0; k < N_CHAINS; k++) {
        starpu_variable_data_register(&handle[k], STARPU_MAIN_RAM, (uintptr_t)&counts[k], sizeof counts[k]);
    }
    for (unsigned i = 0; i < length * N_CHAINS; i++) {
        struct starpu_task *task = starpu_task_create();
        task->cl = &count_cl;
        task->cl_arg = &numbers[i / N_CHAINS];
        task->cl_arg_size = sizeof *numbers;
        task->handles[0] = handle[i % N_CHAINS];
        task->sched_data = i % 11 == 0 ? NULL : sl_near_place(&homes, i % n_pes);
        task->priority = (int)(i % 9) - 3; /* beyond both ends */
        assert_int_equal(starpu_task_submit(task), 0);
    }
    for (int k = 0; k < N_CHAINS; k++) {
        starpu_data_unregister(handle[k]);
        assert_int_equal(counts[k], length);
    }
}

/* ---- workers that the system stops ---- */

static struct {
    pthread_t worker[STARPU_NMAXWORKERS], self;
    unsigned n_workers;
    atomic_uint n_known, n_stopped;
    atomic_bool ends;
} stopper;

static void stop_here(int number)
{
    (void)number;
    atomic_fetch_add(&stopper.n_stopped, 1);
    nap(3000000);
}

static void name_task(void *buffers[], void *cl_arg)
{
    (void)buffers;
    (void)cl_arg;
    stopper.worker[starpu_worker_get_id()] = pthread_self();
    atomic_fetch_add(&stopper.n_known, 1);
}

/* Stop a worker every millisecond, at any place: in a task, in push or pop, or with a lock held. */
static void *stop_workers(void *unused)
{
    for (unsigned i = 0; !atomic_load(&stopper.ends); i++) {
        pthread_kill(stopper.worker[i * 7 % stopper.n_workers], SIGUSR1);
        nap(1000000);
    }
    return unused;
}

static void stopper_start(unsigned n_workers)
{
    static struct starpu_codelet name_cl = {.name = "sl_test_name", .cpu_funcs = {name_task}};
    struct sigaction action = {.sa_handler = stop_here, .sa_flags = SA_RESTART};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    stopper.n_workers = n_workers;
    atomic_store(&stopper.n_known, 0);
    atomic_store(&stopper.n_stopped, 0);
    atomic_store(&stopper.ends, false);
    for (unsigned w = 0; w < n_workers; w++) {
        struct starpu_task *task = starpu_task_create();
        task->cl = &name_cl;
        task->execute_on_a_specific_worker = 1;
        task->workerid = w;
        task->priority = SL_PRIORITY_SEND;
        assert_int_equal(starpu_task_submit(task), 0);
    }
    starpu_task_wait_for_all();
    assert_int_equal(atomic_load(&stopper.n_known), n_workers);
    assert_int_equal(pthread_create(&stopper.self, NULL, stop_workers, NULL), 0);
    while (atomic_load(&stopper.n_stopped) == 0) { /* the thread may be late on a loaded machine */
        nap(100000);
    }
}

static void stopper_end(void)
{
    atomic_store(&stopper.ends, true);
    pthread_join(stopper.self, NULL);
}

/* Homes of several workers, homes of one worker, and homes that PEs share. */
TEST_WITH(test_many, NULL, down)
{
    static const unsigned n_workers[] = {4, 8, 16, 64};
    unsigned length = getenv("SL_LONG") != NULL ? MAX_LENGTH : 150;
    if (wants_gpu()) {
        skip();
    }
    for (unsigned i = 0; i < MAX_LENGTH; i++) {
        numbers[i] = i;
    }
    alarm(TOO_LONG_S);
    for (size_t i = 0; i < sizeof n_workers / sizeof n_workers[0] && n_workers[i] <= STARPU_MAXCPUS; i++) {
        machine_up(SL_NEAR, n_workers[i]);
        run_chains(n_workers[i] / 4, length);
        stopper_start(n_workers[i]);
        run_chains(n_workers[i] / 4, length);
        run_chains(n_workers[i], length);
        run_chains(2 * n_workers[i] + 1, length);
        stopper_end();
        machine_down();
    }
    alarm(0);
}

/* ---- idle workers ---- */

static atomic_uint n_yields;

/* Replaces the function of libc. */
int sched_yield(void)
{
    atomic_fetch_add(&n_yields, 1);
    return (int)syscall(SYS_sched_yield);
}

TEST_WITH(test_yields, NULL, down)
{
    up();
    starpu_task_wait_for_all();
    atomic_store(&n_yields, 0);
    for (int i = 0; atomic_load(&n_yields) < 100; i++) {
        assert_true(i < 10000);
        nap(1000000);
    }
}

TEST_MAIN(NULL, NULL)
