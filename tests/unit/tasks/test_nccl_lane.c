/* simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * tasks/nccl.h and tasks/nccl_lane.h: messages and sums between GPUs, by themselves and as tasks; and how
 * they fail. Over the stand-in for NCCL there are several GPUs; on a machine with one GPU, a communicator of one
 * rank that sends to itself. */
#include "tasks/nccl_lane.h"

#include "tests/support/starpu_fixture.h"

#ifdef SL_NCCL
#include "tests/support/cuda_fixture.h"

#define TIMEOUT_S 20
#define MOST 5 /* GPUs */

#ifdef SL_EMULATED
#include <nccl.h>
#endif

/* How many GPUs to try with, as far as there are so many. */
static const uint32_t gpu_counts[] = {1, 2, 3, MOST};

static bool are_there(uint32_t n_gpus)
{
#ifdef SL_EMULATED
    return n_gpus <= MOST;
#else
    return n_gpus <= sl_gpus_count();
#endif
}

/* The stand-in knows whether a communicator was forgotten. */
static void expect_none_alive(void)
{
#ifdef SL_EMULATED
    assert_int_equal(sl_nccl_alive, 0);
#endif
}
#define N_GPU_COUNTS (sizeof gpu_counts / sizeof gpu_counts[0])

static const int devices[MOST] = {0, 1, 2, 3, 4};

static struct sl_nccl *opened(uint32_t n, double timeout_s)
{
    struct sl_nccl *nccl;
    need_device();
    expect_ok(sl_nccl_open(n, devices, timeout_s, &nccl));
    return nccl;
}

/* ---- NCCL itself ---- */

/* Every GPU sends every GPU, itself too, messages of several sizes, two to the same; what arrives is what was sent. */
static void check_moves(uint32_t n)
{
    const size_t sizes[] = {0, 1, 7, 5000};
    enum { ROUNDS = 2, SIZES = 4 };
    struct sl_nccl_message messages[MOST * MOST * ROUNDS * SIZES];
    sl_real *sent[MOST * MOST * ROUNDS * SIZES];
    struct sl_nccl *nccl = opened(n, TIMEOUT_S);
    uint32_t count = 0;
    for (uint32_t pair = 0; pair < n * n * ROUNDS * SIZES; pair++) {
        size_t size = sizes[pair % SIZES];
        size_t bytes = size * (pair / SIZES % 2 == 0 ? sizeof(sl_real) : sizeof(sl_bf16));
        sent[count] = noisy(size, pair + 1);
        messages[count] =
            (struct sl_nccl_message){.from = pair / SIZES % n, .to = pair / SIZES / n % n, .bytes = bytes};
        cudaSetDevice((int)messages[count].from);
        messages[count].source = on_device(sent[count], bytes);
        cudaSetDevice((int)messages[count].to);
        messages[count].target = device_room(bytes);
        count++;
    }
    cudaSetDevice(0);
    expect_ok(sl_nccl_move(nccl, count, messages));
    expect_ok(sl_nccl_move(nccl, 0, NULL));
    for (uint32_t k = 0; k < count; k++) {
        expect_on_device("message", messages[k].target, messages[k].bytes, 1, sent[k]);
        cudaFree((void *)(uintptr_t)messages[k].source);
        free(sent[k]);
    }
    sl_nccl_close(nccl);
}

TEST(test_moves)
{
    for (size_t i = 0; i < N_GPU_COUNTS && (i == 0 || are_there(gpu_counts[i])); i++) {
        check_moves(gpu_counts[i]);
    }
    assert_int_equal(sl_memory_live(), 0);
}

static void check_sum(uint32_t n, size_t n_entries)
{
    struct sl_nccl *nccl = opened(n, TIMEOUT_S);
    const sl_real *source[MOST];
    FREED sl_real *wanted = need(n_entries, sizeof *wanted);
    FREED sl_real *got = need(n_entries, sizeof *got);
    sl_real *target = device_room(n_entries * sizeof(sl_real));
    memset(wanted, 0, n_entries * sizeof *wanted);
    for (uint32_t i = 0; i < n; i++) {
        FREED sl_real *x = noisy(n_entries, i + 1);
        for (size_t e = 0; e < n_entries; e++) {
            wanted[e] += x[e];
        }
        cudaSetDevice((int)i);
        source[i] = on_device(x, n_entries * sizeof *x);
    }
    cudaSetDevice(0);
    expect_ok(sl_nccl_sum(nccl, n_entries, source, target));
    from_device(got, target, n_entries * sizeof *got);
    for (size_t e = 0; e < n_entries; e++) {
        assert_true(fabs(got[e] - wanted[e]) <= 1e-6 * (1 + fabs(wanted[e])));
    }
    for (uint32_t i = 0; i < n; i++) {
        cudaFree((void *)(uintptr_t)source[i]);
    }
    sl_nccl_close(nccl);
}

TEST(test_sums)
{
    for (size_t i = 0; i < N_GPU_COUNTS && (i == 0 || are_there(gpu_counts[i])); i++) {
        check_sum(gpu_counts[i], 1);
        check_sum(gpu_counts[i], 4097);
    }
    assert_int_equal(sl_memory_live(), 0);
}

static void expect_status(enum sl_status got, enum sl_status wanted, const char *words)
{
    assert_int_equal(got, wanted);
    if (strstr(sl_message(), words) == NULL) {
        fail_msg("'%s' does not say '%s'", sl_message(), words);
    }
}

TEST(test_refused)
{
    const int twice[] = {0, 1, 0};
    struct sl_nccl *nccl;
    expect_status(sl_nccl_open(0, devices, 1, &nccl), SL_EINVAL, "found 0 GPUs");
    assert_null(nccl);
    expect_status(sl_nccl_open(SL_NCCL_MAX_GPUS + 1, devices, 1, &nccl), SL_EINVAL, "expected 1 to 64");
    expect_status(sl_nccl_open(3, twice, 1, &nccl), SL_EINVAL, "GPU 0 twice");
    sl_nccl_close(NULL);
    assert_int_equal(sl_memory_live(), 0);
}

/* ---- failures, which only the stand-in can be made to have ---- */

#ifdef SL_EMULATED
#define SHORT_S 2 /* enough on a busy machine for all that does not get stuck */

static void check_failure(const struct sl_nccl_fault *fault, const char *words)
{
    struct sl_nccl *nccl = opened(4, SHORT_S);
    sl_real x[2] = {1, 2};
    struct sl_nccl_message message = {.from = 1, .to = 2, .bytes = sizeof x[0], .source = &x[0], .target = &x[1]};
    const sl_real *source[] = {x, x, x, x};
    sl_nccl_fault = *fault;
    expect_status(sl_nccl_move(nccl, 1, &message), SL_ENCCL, words);
    assert_int_equal(sl_nccl_alive, 0);
    sl_nccl_fault = (struct sl_nccl_fault){0};
    expect_status(sl_nccl_move(nccl, 1, &message), SL_ENCCL, "before this one");
    expect_status(sl_nccl_sum(nccl, 1, source, x), SL_ENCCL, "before this one");
    sl_nccl_close(nccl);
    assert_int_equal(sl_memory_live(), 0);
}

/* Once it is open, no operation has to connect GPUs. */
TEST(test_connected)
{
    for (uint32_t n = 1; n <= MOST; n++) {
        sl_real x[2] = {1, 2};
        const sl_real *source[] = {x, x, x, x, x};
        int before = sl_nccl_connections;
        struct sl_nccl *nccl = opened(n, TIMEOUT_S);
        int opened_with = sl_nccl_connections;
        assert_int_equal(opened_with - before, n > 1 ? n * (n - 1) + 1 : 0);
        for (uint32_t pair = 0; pair < n * n; pair++) {
            struct sl_nccl_message message = {pair / n, pair % n, sizeof x[0], &x[0], &x[1]};
            expect_ok(sl_nccl_move(nccl, 1, &message));
        }
        expect_ok(sl_nccl_sum(nccl, 1, source, &x[1]));
        assert_int_equal(sl_nccl_connections, opened_with);
        sl_nccl_close(nccl);
    }
    assert_int_equal(sl_memory_live(), 0);
}

/* A GPU that does not answer, or reports an error, is a status within the time, that names it; the others' work is
 * given up. */
TEST(test_failures)
{
    struct sl_nccl *nccl;
    check_failure(&(struct sl_nccl_fault){SL_NCCL_STUCK, 1}, "on GPU 1, 2 of 4");
    check_failure(&(struct sl_nccl_fault){SL_NCCL_STUCK, 3}, "on GPU 3 of 4");
    check_failure(&(struct sl_nccl_fault){SL_NCCL_REPORTS, 2}, "GPU 2 reports: unhandled system error: the last error");
    sl_nccl_fault = (struct sl_nccl_fault){SL_NCCL_STUCK, 2};
    expect_status(sl_nccl_open(3, devices, SHORT_S, &nccl), SL_ENCCL, "a communicator of all GPUs: not done");
    assert_null(nccl);
    assert_int_equal(sl_nccl_alive, 0);
    sl_nccl_fault = (struct sl_nccl_fault){0};
    assert_int_equal(sl_memory_live(), 0);
}
#endif

/* ---- as tasks ---- */

static int nodes_of[MOST];

/* The fixture's StarPU, and a transport between n GPUs. */
static void start(uint32_t n, struct sl_nccl_lane *out)
{
    int known[SL_NCCL_MAX_GPUS];
#ifndef SL_EMULATED
    if (!wants_gpu()) {
        skip();
    }
    fixture_n_gpus = (int)n;
#endif
    fixture_start(3);
    assert_int_equal(sl_gpus_list(known, nodes_of), fixture_on_gpu ? n : 0);
    expect_ok(sl_nccl_lane_open(n, devices, nodes_of, TIMEOUT_S, out));
}

static void stop(struct sl_nccl_lane *lane)
{
    sl_nccl_lane_close(lane);
    fixture_stop();
    expect_none_alive();
}

enum { ROWS = 9, COLUMNS = 33 };

/* Numbers of a dtype go once round all GPUs, twice, each move a task that waits for the one before; beside it
 * one that goes nowhere. */
static void check_round(uint32_t n, enum sl_dtype dtype)
{
    const size_t element = sl_dtype_size(dtype);
    struct sl_nccl_lane lane;
    FREED sl_real *first = noisy((size_t)ROWS * COLUMNS, 7);
    FREED sl_real *last = poisoned((size_t)ROWS * COLUMNS);
    starpu_data_handle_t handle[2 * MOST + 1];
    start(n, &lane);
    handle[0] = sl_matrix_over(first, ROWS, COLUMNS, dtype);
    handle[2 * n] = sl_matrix_over(last, ROWS, COLUMNS, dtype);
    for (uint32_t k = 1; k < 2 * n; k++) {
        expect_ok(sl_matrix_register(ROWS, COLUMNS, dtype, &handle[k]));
    }
    for (uint32_t k = 0; k < 2 * n; k++) {
        struct sl_nccl_lane_move move = {k % n, (k + 1) % n, handle[k], handle[k + 1]};
        expect_ok(sl_nccl_lane_move_submit(&head, &lane, SL_STAGE_EXCHANGE, 1, &move));
    }
    for (uint32_t k = 0; k <= 2 * n; k++) {
        starpu_data_unregister(handle[k]);
    }
    starpu_task_wait_for_all();
    expect_no_failure();
    expect_same("rows", (size_t)ROWS * COLUMNS, element, last, first);
    assert_true(element == sizeof *last || last[ROWS * COLUMNS - 1] == (sl_real)-12345.5); /* no more bytes than that */
    double seconds[SL_N_STAGES];
    sl_run_stage_seconds(&run, seconds);
    assert_true(seconds[SL_STAGE_EXCHANGE] > 0 && seconds[SL_STAGE_BACKWARD] == 0);
    stop(&lane);
}

/* All to all in one task. */
static void check_all_to_all(uint32_t n)
{
    struct sl_nccl_lane lane;
    struct sl_nccl_lane_move moves[MOST * MOST];
    sl_real *sent[MOST * MOST];
    sl_real *got[MOST * MOST];
    start(n, &lane);
    for (uint32_t k = 0; k < n * n; k++) {
        uint32_t rows = 1 + k % 4 * 100;
        sent[k] = noisy((size_t)rows * COLUMNS, k + 1);
        got[k] = poisoned((size_t)rows * COLUMNS);
        moves[k] =
            (struct sl_nccl_lane_move){k / n, k % n, rows_of(sent[k], rows, COLUMNS), rows_of(got[k], rows, COLUMNS)};
    }
    expect_ok(sl_nccl_lane_move_submit(&head, &lane, SL_STAGE_BACKWARD, n * n, moves));
    for (uint32_t k = 0; k < n * n; k++) {
        size_t entries = (size_t)(1 + k % 4 * 100) * COLUMNS;
        starpu_data_unregister(moves[k].source);
        starpu_data_unregister(moves[k].target);
        expect_same("rows", entries, sizeof(sl_real), got[k], sent[k]);
        free(sent[k]);
        free(got[k]);
    }
    expect_no_failure();
    stop(&lane);
}

static void check_sum_task(uint32_t n)
{
    struct sl_nccl_lane lane;
    sl_real *x[MOST];
    FREED sl_real *out = poisoned((size_t)ROWS * COLUMNS);
    starpu_data_handle_t share[MOST];
    start(n, &lane);
    starpu_data_handle_t sum = rows_of(out, ROWS, COLUMNS);
    for (uint32_t i = 0; i < n; i++) {
        x[i] = noisy((size_t)ROWS * COLUMNS, i + 1);
        share[i] = rows_of(x[i], ROWS, COLUMNS);
    }
    expect_ok(sl_nccl_lane_sum_submit(&head, &lane, share, sum));
    starpu_data_unregister(sum);
    unregister(n, share);
    expect_no_failure();
    for (size_t e = 0; e < (size_t)ROWS * COLUMNS; e++) {
        sl_real wanted = 0;
        for (uint32_t i = 0; i < n; i++) {
            wanted += x[i][e];
        }
        assert_true(fabs(out[e] - wanted) <= 1e-6 * (1 + fabs(wanted)));
    }
    for (uint32_t i = 0; i < n; i++) {
        free(x[i]);
    }
    stop(&lane);
}

TEST(test_tasks)
{
    for (size_t i = 0; i < N_GPU_COUNTS && (i == 0 || are_there(gpu_counts[i])); i++) {
        check_round(gpu_counts[i], SL_DTYPE_REAL);
        check_round(gpu_counts[i], SL_DTYPE_BF16);
        check_all_to_all(gpu_counts[i]);
        check_sum_task(gpu_counts[i]);
    }
}

/* Tasks that could run side by side do not: NCCL is called by one thread at a time, in the order of submission. */
TEST(test_lane)
{
    enum { MANY = 60 };
    struct sl_nccl_lane lane;
    uint32_t n = are_there(MOST) ? MOST : are_there(2) ? 2 : 1;
    FREED sl_real *first = noisy(COLUMNS, 7);
    sl_real *got[MANY];
    starpu_data_handle_t target[MANY];
    start(n, &lane);
    starpu_data_handle_t source = rows_of(first, 1, COLUMNS);
    for (uint32_t k = 0; k < MANY; k++) {
        got[k] = poisoned(COLUMNS);
        target[k] = rows_of(got[k], 1, COLUMNS);
        struct sl_nccl_lane_move move = {0, k % n, source, target[k]};
        expect_ok(sl_nccl_lane_move_submit(&head, &lane, SL_STAGE_EXCHANGE, 1, &move));
    }
    unregister(MANY, target);
    starpu_data_unregister(source);
    expect_no_failure();
    for (uint32_t k = 0; k < MANY; k++) {
        expect_same("rows", COLUMNS, sizeof *first, got[k], first);
        free(got[k]);
    }
    stop(&lane);
}

#ifdef SL_EMULATED
/* A run whose exchange gets stuck ends with the status; what depends on it does nothing. */
TEST(test_stuck_run)
{
    struct sl_nccl_lane lane;
    sl_real x[4] = {1, 2, 3, 4};
    fixture_start(2);
    expect_ok(sl_nccl_lane_open(2, devices, nodes_of, SHORT_S, &lane));
    starpu_data_handle_t a = rows_of(x, 1, 2);
    starpu_data_handle_t b = rows_of(x + 2, 1, 2);
    struct sl_nccl_lane_move there = {0, 1, a, b};
    struct sl_nccl_lane_move back = {1, 0, b, a};
    sl_nccl_fault = (struct sl_nccl_fault){SL_NCCL_STUCK, 1};
    expect_ok(sl_nccl_lane_move_submit(&head, &lane, SL_STAGE_EXCHANGE, 1, &there));
    expect_ok(sl_nccl_lane_move_submit(&head, &lane, SL_STAGE_EXCHANGE, 1, &back));
    starpu_data_unregister(a);
    starpu_data_unregister(b);
    sl_nccl_fault = (struct sl_nccl_fault){0};
    expect_status(sl_failure_status(&run.failure), SL_ENCCL, "not done within 2 s on GPU 0, 1 of 2");
    assert_true(x[0] == 1 && x[2] == 3);
    stop(&lane);
}
#endif

#else

TEST(test_absent)
{
    OWNED(sl_nccl_lane_close) struct sl_nccl_lane lane;
    int zero = 0;
    assert_int_equal(sl_nccl_lane_open(1, &zero, &zero, 1, &lane), SL_ENOTSUP);
    assert_non_null(strstr(sl_message(), "--with-nccl"));
    assert_null(lane.nccl);
}

#endif

TEST_MAIN(NULL, NULL)
