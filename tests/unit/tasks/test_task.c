/* double, gpu */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * tasks/task.h: tasks with few and many buffers, placement and priority, clocks, the overlap, and failures. */
#include "tasks/near.h"
#include "tasks/task.h"

#include <unistd.h>

#include "tests/support/starpu_fixture.h"

/* ---- a codelet that writes down how it was run ---- */

struct note_args {
    struct sl_task_args head;
    uint32_t n; /* buffers */
    uint32_t sleep_us;
    uint32_t value; /* added to what is written */
    int starve;     /* leave without memory for the log */
};

/* Atomic for the thread sanitizer, which does not see that StarPU orders the tasks. */
static struct {
    _Atomic int worker;
    _Atomic int priority;
    _Atomic bool is_pinned;
    void *_Atomic place; /* tasks/near.h */
    const char *_Atomic name;
    _Atomic double flops;
} seen;

static enum sl_status note_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct note_args *args = cl_arg;
    struct starpu_task *task = starpu_task_get_current();
    seen.worker = starpu_worker_get_id();
    seen.priority = task->priority;
    seen.is_pinned = task->execute_on_a_specific_worker;
    seen.place = task->sched_data;
    seen.name = task->name;
    seen.flops = task->flops;
    for (uint32_t i = 0; i < args->n; i++) {
        *(uint32_t *)sl_buffer_data(buffers[i]) = i + args->value;
    }
    if (args->sleep_us > 0) {
        usleep(args->sleep_us);
    }
    return SL_OK;
}

/* A task without memory for the log. */
static void starving_task(void *buffers[], void *args)
{
    sl_memory_ration(0);
    sl_task_cpu(buffers, args);
    sl_memory_ration(-1);
}

enum { FIRST, SECOND, MORE };

static struct sl_operation many_op = {SL_PLAIN_OPERATION("sl_test_many", SL_N_STAGES), .cpu = note_cpu_task,
                                      .role = {{"numbers", STARPU_W | SL_REPEATED}}};
static struct sl_operation pair_op = {SL_HISTORY_OPERATION(pair_op, "sl_test_pair", SL_N_STAGES), .cpu = note_cpu_task,
                                      .role = {{"first", STARPU_W}, {"second", STARPU_W}}};
static struct sl_operation mixed_op = {SL_PLAIN_OPERATION("sl_test_mixed", SL_N_STAGES), .cpu = note_cpu_task,
                                       .role = {{"first", STARPU_W | SL_OR_RW},
                                                {"second", STARPU_W | SL_OPTIONAL},
                                                {"more", STARPU_W | SL_REPEATED},
                                                {"last", STARPU_R}}};
static struct sl_operation none_op = {SL_PLAIN_OPERATION("sl_test_none", SL_N_STAGES), .cpu = note_cpu_task};
static struct sl_operation starving_op = {
    .stage = SL_N_STAGES, .codelet.name = "sl_test_none", .codelet.cpu_funcs = {starving_task}, .cpu = note_cpu_task};
static struct sl_operation nowhere_op = {SL_PLAIN_OPERATION("sl_test_nowhere", SL_N_STAGES),
                                         .codelet.where = STARPU_CUDA, .cpu = note_cpu_task};

#define MOST 70

static enum sl_status submit_many(uint32_t n, starpu_data_handle_t *handles, struct note_args *args)
{
    struct sl_task task;
    sl_task_begin(&task, &many_op);
    for (uint32_t i = 0; i < n; i++) {
        sl_task_add(&task, 0, handles[i], STARPU_W);
    }
    return sl_task_submit(&task, args, sizeof *args, SL_PRIORITY_NORMAL);
}

static enum sl_status submit_none(struct note_args *args, enum sl_priority priority)
{
    struct sl_task task;
    sl_task_begin(&task, args->starve ? &starving_op : &none_op);
    return sl_task_submit(&task, args, sizeof *args, priority);
}

/* Every number of buffers around StarPU's limit of 8, our 16 and the growth behind it: buffer i reaches the task as
 * i. */
TEST(test_buffers)
{
    const uint32_t sizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 32, 33, MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint32_t values[MOST] = {0};
        starpu_data_handle_t handles[MOST];
        struct note_args args = {.head = head, .n = sizes[s], .value = 100};
        for (uint32_t i = 0; i < sizes[s]; i++) {
            handles[i] = vector_of(&values[i], 1, sizeof values[i]);
        }
        expect_ok(submit_many(sizes[s], handles, &args));
        args.n = 0; /* the task has its own copy */
        args.value = 0;
        unregister(sizes[s], handles);
        for (uint32_t i = 0; i < sizes[s]; i++) {
            assert_int_equal(values[i], 100 + i);
        }
    }
}

#define NO_HANDLE (1u << 31)

/* A buffer to add. */
struct added {
    unsigned role; /* or NO_HANDLE, too */
    enum starpu_data_access_mode mode;
};

static enum sl_status submit_added(struct sl_operation *operation, size_t n, const struct added *added,
                                   starpu_data_handle_t *handles, struct note_args *args)
{
    struct sl_task task;
    sl_task_begin(&task, operation);
    for (size_t i = 0; i < n; i++) {
        bool none = (added[i].role & NO_HANDLE) != 0;
        sl_task_add(&task, added[i].role & ~NO_HANDLE, none ? NULL : handles[i], added[i].mode);
    }
    return sl_task_submit(&task, args, sizeof *args, SL_PRIORITY_NORMAL);
}

/* A task with a wrong mode, or without a buffer that it needs, does not run. The message names the codelet, the PE, the
 * step and the buffer. */
TEST(test_buffers_must_fit_the_roles)
{
    static const struct {
        size_t n;
        struct added added[4];
        const char *words;
    } refused[] = {
        {1, {{FIRST, STARPU_W}}, "buffer 'second' is missing"},
        {2, {{FIRST, STARPU_W}, {SECOND, STARPU_R}}, "buffer 'second' was added with mode R; expected W"},
        {2, {{FIRST, STARPU_W}, {SECOND, STARPU_RW}}, "buffer 'second' was added with mode RW; expected W"},
        {2, {{FIRST, STARPU_W}, {SECOND | NO_HANDLE, STARPU_W}}, "buffer 'second' has no handle"},
        {2, {{SECOND, STARPU_W}, {FIRST, STARPU_W}}, "buffer 'second' was added as buffer 0; expected 1"},
        {2, {{FIRST, STARPU_W}, {FIRST, STARPU_W}}, "buffer 'first' was added twice"},
        {3, {{FIRST, STARPU_W}, {SECOND, STARPU_W}, {MORE, STARPU_W}}, "buffer 2 has role 2"},
        {3, {{FIRST, STARPU_W}, {SECOND, STARPU_W}, {1000, STARPU_W}}, "buffer 2 has role 1000"},
    };
    uint32_t values[4] = {0};
    starpu_data_handle_t handles[4];
    struct note_args args = {.head = head, .n = 2, .value = 5};
    for (uint32_t i = 0; i < 4; i++) {
        handles[i] = vector_of(&values[i], 1, sizeof values[i]);
    }
    args.head.pe = 3;
    args.head.step = 41;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        seen.name = NULL;
        assert_int_equal(submit_added(&pair_op, refused[i].n, refused[i].added, handles, &args), SL_EINTERNAL);
        expect_message(sl_message(), "sl_test_pair, PE 3, step 41: ", refused[i].words);
        starpu_task_wait_for_all();
        assert_null(seen.name);
    }
    args.head.stage = SL_STAGE_EVALUATE;
    assert_int_equal(submit_added(&pair_op, 1, refused[0].added, handles, &args), SL_EINTERNAL);
    expect_message(sl_message(), "sl_test_pair, PE 3, evaluation: ", refused[0].words);
    assert_int_equal(sl_failure_status(&run.failure), SL_OK);
    unregister(4, handles);
}

/* Optional and repeated buffers, and a buffer that may be read, too. */
TEST(test_roles_that_vary)
{
    enum { LAST = MORE + 1 };
    static const struct added fewest[] = {{FIRST, STARPU_RW}, {LAST, STARPU_R}};
    static const struct added most[] = {
        {FIRST, STARPU_W}, {SECOND, STARPU_W}, {MORE, STARPU_W}, {MORE, STARPU_W}, {LAST, STARPU_R}};
    static const struct added none_last[] = {{FIRST, STARPU_W}, {MORE, STARPU_W}};
    uint32_t values[5] = {0};
    starpu_data_handle_t handles[5];
    struct note_args args = {.head = head, .n = 1, .value = 5};
    for (uint32_t i = 0; i < 5; i++) {
        handles[i] = vector_of(&values[i], 1, sizeof values[i]);
    }
    expect_ok(submit_added(&mixed_op, 2, fewest, handles, &args));
    args.n = 4;
    expect_ok(submit_added(&mixed_op, 5, most, handles, &args));
    assert_int_equal(submit_added(&mixed_op, 2, none_last, handles, &args), SL_EINTERNAL);
    expect_message(sl_message(), "sl_test_mixed, PE", "'last' is missing");
    unregister(5, handles);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(values[i], 5 + i);
    }
}

TEST(test_history_model)
{
    static const struct added pair[] = {{FIRST, STARPU_W}, {SECOND, STARPU_W}};
    uint32_t values[2] = {0};
    starpu_data_handle_t handles[] = {vector_of(&values[0], 1, 4), vector_of(&values[1], 1, 4)};
    struct note_args args = {.head = head, .n = 2, .value = 5};
    args.head.work = 12345;
    expect_ok(submit_added(&pair_op, 2, pair, handles, &args));
    UNREGISTER(handles);
    assert_int_equal(values[0], 5);
    assert_int_equal(values[1], 6);
    assert_string_equal(seen.name, "sl_test_pair");
    expect_near("flops of a history model", seen.flops, 12345, 0);
}

TEST(test_priority_stays_in_the_range)
{
    struct note_args args = {.head = head};
    const enum sl_priority wishes[] = {SL_PRIORITY_SAMPLE, SL_PRIORITY_NORMAL, SL_PRIORITY_COMPUTE, SL_PRIORITY_SEND};
    const int ranges[][2] = {{-5, 5}, {0, 0}, {0, 99}};
    const int wanted[][4] = {{-1, 0, 1, 2}, {0, 0, 0, 0}, {0, 0, 1, 2}};
    int min = run.min_priority;
    int max = run.max_priority;
    for (int r = 0; r < 3; r++) {
        run.min_priority = ranges[r][0];
        run.max_priority = ranges[r][1];
        for (int w = 0; w < 4; w++) {
            expect_ok(submit_none(&args, wishes[w]));
            starpu_task_wait_for_all();
            assert_int_equal(seen.priority, wanted[r][w]);
        }
    }
    run.min_priority = min;
    run.max_priority = max;
}

/* With fewer parts than homes the evaluation's tasks, which are of parts, have none, and no place; all others do. */
TEST(test_evaluation_anywhere)
{
    struct note_args args = {.head = head};
    if (fixture_on_gpu) {
        skip();
    }
    struct sl_homes homes;
    sl_homes_find(2, &homes);
    run.homes = run.near = &homes;
    args.head.pe = 1;
    for (int i = 0; i < 4; i++) {
        run.evaluate_anywhere = i % 2 == 1;
        args.head.stage = i < 2 ? SL_STAGE_EVALUATE : SL_STAGE_DENSE;
        expect_ok(submit_none(&args, SL_PRIORITY_NORMAL));
        starpu_task_wait_for_all();
        assert_int_equal(seen.is_pinned, i != 1);
        assert_ptr_equal(seen.place, i != 1 ? sl_near_place(&homes, 1) : NULL);
    }
    run.evaluate_anywhere = false;
    run.homes = run.near = NULL;
    expect_ok(submit_none(&args, SL_PRIORITY_NORMAL));
    starpu_task_wait_for_all();
    assert_null(seen.place);
}

/* PEs spread over homes in order, evenly, and each home knows its first PE. */
TEST(test_homes)
{
    for (uint32_t n = 1; n <= 5; n++) {
        for (uint32_t n_pes = 1; n_pes <= 9; n_pes++) {
            struct sl_homes homes = {.n_pes = n_pes, .n = n};
            uint32_t of[5] = {0};
            for (uint32_t p = 0; p < n_pes; p++) {
                assert_true(p == 0 ? sl_home_of(&homes, p) == 0 : sl_home_of(&homes, p) >= sl_home_of(&homes, p - 1));
                of[sl_home_of(&homes, p)]++;
            }
            for (uint32_t home = 0; home < n; home++) {
                uint32_t first = 0; /* by counting */
                while (first < n_pes && sl_home_of(&homes, first) < home) {
                    first++;
                }
                assert_in_range(of[home], n_pes / n, (n_pes + n - 1) / n);
                assert_int_equal(sl_home_first_pe(&homes, home), first < n_pes ? first : n_pes - 1);
            }
        }
    }
}

/* The CPU workers as homes, of which there is one beside a GPU. */
TEST(test_home_placement)
{
    if (fixture_on_gpu) {
        skip();
    }
    struct note_args args = {.head = head};
    const uint32_t wanted[][6] = {{0}, {0, 1}, {0, 1, 2}, {0, 0, 1, 2}, {0, 0, 1, 1, 2}, {0, 0, 1, 1, 2, 2}};
    struct sl_homes homes;
    run.homes = &homes;
    for (uint32_t n_pes = 1; n_pes <= 6; n_pes++) {
        sl_homes_find(n_pes, &homes);
        for (uint32_t i = 0; i < 3 * n_pes; i++) {
            args.head.pe = i / 3; /* three in a row: no scheduler that takes turns passes */
            expect_ok(submit_none(&args, SL_PRIORITY_NORMAL));
            starpu_task_wait_for_all();
            assert_int_equal(seen.worker, (int)wanted[n_pes - 1][args.head.pe]);
        }
    }
    run.homes = NULL;
}

TEST(test_no_worker)
{
    if (fixture_on_gpu) {
        skip(); /* there is one */
    }
    struct note_args args = {.head = head};
    struct sl_task task;
    sl_task_begin(&task, &nowhere_op);
    assert_int_equal(sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL), SL_ENODEV);
    expect_message(sl_message(), "sl_test_nowhere", "worker");
}

/* Evaluation whose rows do not fit a GPU is for CPU workers, whatever its codelets would rather have; nothing else
 * is. */
TEST(test_evaluation_on_cpus)
{
    struct note_args args = {.head = head};
    struct sl_task task;
    args.head.stage = SL_STAGE_EVALUATE;
    if (fixture_on_gpu) {
        skip(); /* what the CPUs do not get, the GPU does */
    }
    run.evaluate_on_cpus = true;
    struct sl_homes homes;
    sl_homes_find(2, &homes);
    for (int pinned = 0; pinned < 2; pinned++) {
        run.homes = pinned ? &homes : NULL;
        seen.worker = -1;
        sl_task_begin(&task, &nowhere_op);
        expect_ok(sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL));
        starpu_task_wait_for_all();
        assert_true(seen.worker >= 0 && starpu_worker_get_type(seen.worker) == STARPU_CPU_WORKER);
    }
    run.homes = NULL;
    args.head.stage = SL_STAGE_DENSE;
    sl_task_begin(&task, &nowhere_op);
    assert_int_equal(sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL), SL_ENODEV);
    run.evaluate_on_cpus = false;
    args.head.stage = SL_STAGE_EVALUATE;
    sl_task_begin(&task, &nowhere_op);
    assert_int_equal(sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_NORMAL), SL_ENODEV);
}

TEST(test_out_of_memory)
{
    uint32_t values[MOST] = {0};
    starpu_data_handle_t handles[MOST];
    struct note_args args = {.head = head, .n = MOST, .value = 1};
    enum sl_status st = SL_ENOMEM;
    long live = sl_memory_live();
    int failures = 0;
    for (uint32_t i = 0; i < MOST; i++) {
        handles[i] = vector_of(&values[i], 1, sizeof values[i]);
    }
    for (long allow = 0; st != SL_OK; allow++) {
        sl_memory_ration(allow);
        st = submit_many(MOST, handles, &args);
        sl_memory_ration(-1);
        assert_true(st == SL_OK || st == SL_ENOMEM);
        assert_int_equal(sl_memory_live(), live);
        failures += st != SL_OK;
    }
    assert_int_equal(failures, 3); /* 16 to 32, 64, 128 */
    unregister(MOST, handles);
    assert_int_equal(values[MOST - 1], MOST);
}

/* ---- clocks ---- */

TEST(test_stage_seconds)
{
    struct note_args args = {.head = head, .sleep_us = 3000};
    double seconds[SL_N_STAGES];
    sl_run_log_reset(&run);
    for (int i = 0; i < 4; i++) {
        args.head.stage = i < 3 ? SL_STAGE_SYNC : SL_STAGE_SAMPLE;
        expect_ok(submit_none(&args, SL_PRIORITY_NORMAL));
    }
    starpu_task_wait_for_all();
    sl_run_stage_seconds(&run, seconds);
    assert_true(seconds[SL_STAGE_SYNC] >= 0.009 && seconds[SL_STAGE_SYNC] < 90);
    assert_true(seconds[SL_STAGE_SAMPLE] >= 0.003 && seconds[SL_STAGE_SAMPLE] < 30);
    expect_near("an idle stage", seconds[SL_STAGE_DENSE], 0, 0);
    sl_run_log_reset(&run);
    sl_run_stage_seconds(&run, seconds);
    expect_near("after the reset", seconds[SL_STAGE_SYNC], 0, 0);
}

/* A compute span per step, a hidden one per task, beyond the log's first capacity. All on one worker. */
TEST(test_spans)
{
    enum { N = 700 };
    struct note_args args = {.head = head};
    const struct sl_worker_log *log = &run.logs[starpu_worker_get_by_type(STARPU_CPU_WORKER, 0)];
    sl_run_log_reset(&run);
    struct sl_homes homes;
    sl_homes_find(1, &homes);
    run.homes = &homes;
    for (uint64_t i = 0; i < N; i++) {
        args.head.step = i / 10;
        args.head.stage = i % 2 == 0 ? SL_STAGE_GATHER : SL_STAGE_BACKWARD;
        expect_ok(submit_none(&args, SL_PRIORITY_NORMAL));
        args.head.stage = i % 2 == 0 ? SL_STAGE_EXCHANGE : SL_STAGE_EVALUATE; /* neither */
        expect_ok(submit_none(&args, SL_PRIORITY_NORMAL));
        if (i % 10 == 9) {
            starpu_task_wait_for_all();
        }
    }
    assert_int_equal(log->n_hidden, N / 2);
    assert_int_equal(log->n_compute, N / 10);
    for (size_t i = 0; i < log->n_compute; i++) {
        assert_int_equal(log->compute[i].step, i);
        assert_true(log->compute[i].start_s < log->compute[i].end_s);
        assert_true(i == 0 || log->compute[i - 1].end_s <= log->compute[i].start_s);
    }
    args.sleep_us = 2000; /* two tasks of the last step: the span reaches from the first's start to the second's end */
    args.head.stage = SL_STAGE_DENSE;
    args.head.step = N;
    for (int i = 0; i < 2; i++) {
        expect_ok(submit_none(&args, SL_PRIORITY_NORMAL));
    }
    starpu_task_wait_for_all();
    run.homes = NULL;
    assert_int_equal(log->n_compute, N / 10 + 1);
    assert_true(log->compute[N / 10].end_s - log->compute[N / 10].start_s >= 0.004);
}

TEST(test_log_without_memory)
{
    struct sl_run small;
    expect_ok(sl_run_init(&small));
    struct note_args args = {.head = {.run = &small, .stage = SL_STAGE_SAMPLE}, .starve = 1};
    expect_ok(submit_none(&args, SL_PRIORITY_NORMAL));
    starpu_task_wait_for_all();
    assert_int_equal(sl_failure_status(&small.failure), SL_ENOMEM);
    sl_run_free(&small);
    sl_memory_ration(0);
    assert_int_equal(sl_run_init(&small), SL_ENOMEM);
    sl_memory_ration(-1);
}

/* ---- the overlap, from logs written by hand ---- */

static void put(struct sl_span **spans, size_t *n, size_t *capacity, uint64_t step, double start_s, double end_s)
{
    *capacity = 8;
    if (*spans == NULL) {
        assert_int_equal(sl_alloc(*capacity, sizeof **spans, "spans", spans), SL_OK);
    }
    (*spans)[(*n)++] = (struct sl_span){step, start_s, end_s};
}

static void put_hidden(struct sl_worker_log *log, uint64_t step, double start_s, double end_s)
{
    put(&log->hidden, &log->n_hidden, &log->hidden_capacity, step, start_s, end_s);
}

static void put_compute(struct sl_worker_log *log, uint64_t step, double start_s, double end_s)
{
    put(&log->compute, &log->n_compute, &log->compute_capacity, step, start_s, end_s);
}

static double overlap_of(const struct sl_run *made)
{
    double share = -1;
    expect_ok(sl_run_overlap(made, &share));
    return share;
}

TEST(test_overlap)
{
    struct sl_worker_log logs[2] = {0};
    struct sl_run made = {.logs = logs, .n_workers = 2};
    double share;
    expect_near("nothing at all", overlap_of(&made), 0, 0);
    put_compute(&logs[1], 10, 1, 3);
    put_compute(&logs[0], 11, 4, 6);
    expect_near("nothing hidden", overlap_of(&made), 0, 0);
    put_hidden(&logs[0], 10, 0, 2); /* no step before it */
    expect_near("the first step", overlap_of(&made), 0, 0);
    put_hidden(&logs[0], 11, 2, 4); /* step 10 computed until 3 */
    expect_near("half of the second", overlap_of(&made), 1. / 4, 1e-12);
    put_hidden(&logs[1], 12, 0, 8); /* steps 10 and 11: from 1 to 6 */
    expect_near("both steps", overlap_of(&made), 6. / 12, 1e-12);
    put_hidden(&logs[1], 13, 7, 9); /* all have ended */
    expect_near("too late", overlap_of(&made), 6. / 14, 1e-12);
    put_compute(&logs[1], 11, 5, 7.5); /* another worker still computes step 11 */
    expect_near("two workers", overlap_of(&made), (1 + 6.5 + 0.5) / 14, 1e-12);
    put_compute(&logs[0], 10, 2, 7.75); /* and the first step goes on for longer still */
    expect_near("a slow first step", overlap_of(&made), (2 + 6.75 + 0.75) / 14, 1e-12);
    sl_memory_ration(0);
    assert_int_equal(sl_run_overlap(&made, &share), SL_ENOMEM);
    sl_memory_ration(-1);
    for (int w = 0; w < 2; w++) {
        sl_free(logs[w].hidden);
        sl_free(logs[w].compute);
    }
}

/* ---- models ---- */

static uint32_t footprint_of(uint64_t work)
{
    struct sl_task_args args = {.work = work};
    struct starpu_task task = {.cl_arg = &args};
    return sl_task_footprint(&task);
}

TEST(test_footprint)
{
    struct sl_task_args args = {.work = 0};
    struct starpu_task task = {.cl_arg = &args};
    assert_int_equal(sl_task_size_base(&task, 0), 1);
    args.work = 1000;
    assert_int_equal(sl_task_size_base(&task, 0), 1000);
    assert_int_equal(footprint_of(1 << 20), footprint_of((1 << 20) + 1000));
    assert_int_equal(footprint_of(UINT64_MAX), footprint_of(UINT64_MAX - 1));
    for (uint64_t work = 1; work < UINT64_MAX / 4; work *= 2) {
        assert_true(footprint_of(work) < footprint_of(2 * work));
        if (work >= 8) {
            assert_true(footprint_of(work) < footprint_of(work + work / 8));
        }
    }
}

TEST(test_stage_of_evaluation)
{
    struct sl_task_args args = {.stage = SL_STAGE_EVALUATE};
    assert_int_equal(sl_task_stage(&args, SL_STAGE_DENSE), SL_STAGE_EVALUATE);
    args.stage = SL_STAGE_SAMPLE;
    assert_int_equal(sl_task_stage(&args, SL_STAGE_DENSE), SL_STAGE_DENSE);
}

/* The last test: the run fails, and tasks no longer work. */
TEST(test_failure_drains)
{
    uint32_t value = 77;
    starpu_data_handle_t handle = vector_of(&value, 1, sizeof value);
    struct note_args args = {.head = head, .n = 1, .value = 1};
    fixture_fail();
    expect_ok(submit_many(1, &handle, &args));
    unregister(1, &handle);
    assert_int_equal(value, 77);
    assert_int_equal(sl_failure_status(&run.failure), SL_EIO);
    assert_string_equal(sl_message(), "the test says so");
}

static int start(void **state)
{
    (void)state;
    fixture_start(3);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fixture_stop();
    return 0;
}

TEST_MAIN(start, stop)
