/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * tasks/bundle.h: tasks that are handed to StarPU together leave what they would have left one by one: made-up
 * tasks over numbers, and whole steps of many PEs, to the bit.
 */
#include "tests/support/run_fixture.h"

#include "data/load.h"
#include "support/random.h"

#define N_NUMBERS 24
#define N_PES 8
#define LOT_SIZE 3 /* lots of 3, 3 and 2 */
#define MOST_BUFFERS 20

/* ---- tasks over numbers: each that is written becomes a function of the task and of all that it reads ---- */

struct mix_args {
    struct sl_task_args head;
    uint64_t salt;
    uint32_t n;
    enum starpu_data_access_mode mode[MOST_BUFFERS];
    bool fails;
};

static _Atomic uint32_t n_run;          /* of StarPU's tasks */
static _Atomic uint32_t n_names;        /* buffers of the last of them */
static const void *_Atomic last_of_all; /* StarPU's task that the last mix was part of */

static uint64_t mixed(uint64_t state, uint64_t x)
{
    return (state ^ x) * UINT64_C(0x9e3779b97f4a7c15) + (state >> 29);
}

static void mix(const struct mix_args *args, uint64_t *const *number)
{
    uint64_t state = args->salt;
    for (uint32_t i = 0; i < args->n; i++) {
        state = args->mode[i] & STARPU_R ? mixed(state, *number[i]) : state;
    }
    for (uint32_t i = 0; i < args->n; i++) {
        if (args->mode[i] & STARPU_W) {
            *number[i] = mixed(state, i);
        }
    }
}

static enum sl_status mix_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct mix_args *args = cl_arg;
    uint64_t *number[MOST_BUFFERS];
    const struct starpu_task *task = starpu_task_get_current();
    n_run += task != last_of_all;
    last_of_all = task;
    n_names = (uint32_t)STARPU_TASK_GET_NBUFFERS(task);
    for (uint32_t i = 0; i < args->n; i++) {
        number[i] = sl_buffer_data(buffers[i]);
    }
    mix(args, number);
    return args->fails ? sl_fail(SL_EIO, "as it was told") : SL_OK;
}

enum { READ, WRITTEN };

static struct sl_operation mix_op = {
    SL_PLAIN_OPERATION("sl_test_mix", SL_N_STAGES),
    .cpu = mix_cpu_task,
    .role = {{"read", STARPU_R | SL_OR_RW | SL_REPEATED}, {"written", STARPU_W | SL_REPEATED}},
};

static uint64_t number[N_NUMBERS], wanted[N_NUMBERS];
static starpu_data_handle_t handle[N_NUMBERS];

static void numbers_up(unsigned n_workers, bool bundled)
{
    fixture_start(n_workers);
    for (uint32_t i = 0; i < N_NUMBERS; i++) {
        number[i] = wanted[i] = i;
        handle[i] = vector_of(&number[i], 1, sizeof number[i]);
    }
    expect_ok(bundled ? sl_bundles_open(&run, N_PES, LOT_SIZE) : SL_OK);
    n_run = 0;
    last_of_all = NULL;
}

static void numbers_down(void)
{
    expect_ok(sl_bundles_settle(&run));
    unregister(N_NUMBERS, handle);
    sl_bundles_close(&run);
    fixture_stop();
}

static enum sl_status submit_mix(struct mix_args *args, const uint32_t *which)
{
    struct sl_task task;
    sl_task_begin(&task, &mix_op);
    for (uint32_t i = 0; i < args->n; i++) {
        sl_task_add(&task, args->mode[i] & STARPU_R ? READ : WRITTEN, handle[which[i]], args->mode[i]);
    }
    return sl_task_submit(&task, args, sizeof *args, SL_PRIORITY_NORMAL);
}

/* The same at once, on what is wanted. */
static void mix_wanted(const struct mix_args *args, const uint32_t *which)
{
    uint64_t *of[MOST_BUFFERS];
    for (uint32_t i = 0; i < args->n; i++) {
        of[i] = &wanted[which[i]];
    }
    mix(args, of);
}

/* Task number t: a PE, and up to six numbers, each once: a third of them of all PEs, the others of the PE's lot.
 * Now and then a task that is of no lot, or with more buffers than StarPU keeps in a task. */
static struct mix_args made_up(uint64_t seed, uint32_t t, uint32_t which[MOST_BUFFERS])
{
    static const enum starpu_data_access_mode modes[] = {STARPU_R, STARPU_R, STARPU_W, STARPU_RW};
    const struct sl_draw draw = {.seed = seed, .purpose = SL_FOR_GENERATOR, .step = t};
    struct mix_args args = {.head = head, .salt = sl_random_u64(&draw, 0, 0), .n = 0};
    bool taken[N_NUMBERS] = {false};
    args.head.pe = (uint32_t)(sl_random_u64(&draw, 1, 0) % N_PES);
    args.head.stage = sl_random_u64(&draw, 2, 0) % 16 == 0 ? SL_STAGE_SYNC : SL_STAGE_DENSE;
    uint32_t n = sl_random_u64(&draw, 3, 0) % 32 == 0 ? MOST_BUFFERS : 1 + (uint32_t)(sl_random_u64(&draw, 4, 0) % 6);
    for (uint32_t i = 0; args.n < n; i++) {
        uint64_t x = sl_random_u64(&draw, 5, i);
        uint32_t k = n == MOST_BUFFERS || x % 3 == 0 ? (uint32_t)(x / 8 % N_NUMBERS)
                                                     : 8 * (args.head.pe / LOT_SIZE) + (uint32_t)(x / 8 % 8);
        if (!taken[k]) {
            taken[k] = true;
            which[args.n] = k;
            args.mode[args.n++] = modes[x / 1024 % 4];
        }
    }
    return args;
}

/* What the host does between tasks: reads a number, or ends a handle and begins another over the same. */
static void disturb(uint64_t seed, uint32_t t)
{
    const struct sl_draw draw = {.seed = seed, .purpose = SL_FOR_GENERATOR, .step = t};
    uint64_t x = sl_random_u64(&draw, 6, 0);
    uint32_t k = (uint32_t)(x / 64 % N_NUMBERS);
    if (x % 8 == 0) {
        expect_ok(sl_handle_acquire(handle[k], STARPU_MAIN_RAM, STARPU_R));
        assert_true(number[k] == wanted[k]);
        starpu_data_release_on_node(handle[k], STARPU_MAIN_RAM);
    } else if (x % 16 == 1) {
        sl_handle_close(handle[k]);
        number[k] = wanted[k] = x;
        handle[k] = vector_of(&number[k], 1, sizeof number[k]);
    } else if (x % 32 == 3) {
        sl_handle_drop(&handle[k]);
        starpu_task_wait_for_all();
        assert_true(number[k] == wanted[k]);
        handle[k] = vector_of(&number[k], 1, sizeof number[k]);
    } else if (x % 32 == 5) {
        expect_ok(sl_bundles_settle(&run));
    }
}

/* A wrong order, a buffer of another task, or a mode that is too weak leaves other numbers. */
TEST(test_any_tasks)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint32_t which[MOST_BUFFERS];
        numbers_up(worker_counts[seed % N_WORKER_COUNTS], true);
        for (uint32_t t = 0; t < 400; t++) {
            struct mix_args args = made_up(seed, t, which);
            expect_ok(submit_mix(&args, which));
            mix_wanted(&args, which);
            if (seed % 3 == 0) {
                disturb(seed, t);
            }
        }
        numbers_down();
        assert_true(n_run < 380);
        expect_same("numbers", N_NUMBERS, sizeof *number, number, wanted);
    }
}

/* ---- how many of StarPU's they become ---- */

static struct mix_args task_of(uint32_t pe, uint32_t n, const enum starpu_data_access_mode *mode)
{
    struct mix_args args = {.head = head, .salt = pe, .n = n};
    args.head.pe = pe;
    memcpy(args.mode, mode, n * sizeof *mode);
    return args;
}

/* Chains of two lots, over numbers of their own and one that all read: one task each, which names a number once.
 * What is of no lot and waits for nothing goes by itself, before them; what waits for one lot hands over both. */
TEST(test_how_many)
{
    const enum starpu_data_access_mode modes[] = {STARPU_R, STARPU_R, STARPU_W};
    numbers_up(1, true);
    for (uint32_t pe = 0; pe < 2 * LOT_SIZE; pe++) {
        for (uint32_t i = 0; i < 3; i++) {
            struct mix_args args = task_of(pe, 3, modes);
            expect_ok(submit_mix(&args, (uint32_t[]){0, 1 + 3 * pe + i, 1 + 3 * pe + (i + 1) % 3}));
        }
    }
    starpu_task_wait_for_all();
    assert_int_equal(n_run, 0); /* all wait */
    struct mix_args alone = task_of(0, 3, modes);
    alone.head.stage = SL_STAGE_OPTIMISE;
    expect_ok(submit_mix(&alone, (uint32_t[]){0, 20, 21}));
    starpu_task_wait_for_all();
    assert_int_equal(n_run, 1);
    expect_ok(submit_mix(&alone, (uint32_t[]){0, 20, 2})); /* a number of the first lot */
    starpu_task_wait_for_all();
    assert_int_equal(n_run, 4);
    numbers_down();
    numbers_up(1, true);
    for (uint32_t i = 0; i < 4; i++) {
        struct mix_args args = task_of(i % LOT_SIZE, 3, modes);
        expect_ok(submit_mix(&args, (uint32_t[]){0, 1 + i, 2 + i}));
    }
    expect_ok(sl_bundles_settle(&run));
    starpu_task_wait_for_all();
    assert_int_equal(n_run, 1);
    assert_int_equal(n_names, 6);
    numbers_down();
}

/* ---- what goes wrong ---- */

/* The task that failed is named, not its bundle; those behind it do nothing. */
TEST(test_failure)
{
    const enum starpu_data_access_mode writes = STARPU_W;
    numbers_up(1, true);
    for (uint32_t pe = 0; pe < LOT_SIZE; pe++) {
        struct mix_args args = task_of(pe, 1, &writes);
        args.fails = pe == 1;
        expect_ok(submit_mix(&args, &pe));
        mix_wanted(&args, &pe);
    }
    expect_ok(sl_bundles_settle(&run));
    starpu_task_wait_for_all();
    assert_int_equal(sl_failure_status(&run.failure), SL_EIO);
    expect_message(sl_message(), "sl_test_mix, PE 1, step 7", "as it was told");
    numbers_down();
    assert_true(number[0] == wanted[0] && number[1] == wanted[1]);
    assert_true(number[2] == 2);
}

/* Whatever allocation fails, what was held before can be handed over, and nothing is left. */
TEST(test_out_of_memory)
{
    int failures = 0;
    for (long allow = 0, ended = 0; !ended; allow++) {
        uint32_t which[MOST_BUFFERS];
        numbers_up(1, true);
        sl_memory_ration(allow);
        enum sl_status st = SL_OK;
        for (uint32_t t = 0; t < 60 && st == SL_OK; t++) {
            struct mix_args args = made_up(5, t, which);
            st = submit_mix(&args, which);
        }
        enum sl_status settled = sl_bundles_settle(&run);
        sl_memory_ration(-1);
        st = st == SL_OK ? settled : st;
        assert_true(st == SL_OK || st == SL_ENOMEM);
        failures += st != SL_OK;
        ended = st == SL_OK;
        numbers_down();
    }
    assert_true(failures >= 20);
}

/* ---- whole steps ---- */

/* Every model, norm, sampler and way to sum, of dense and sparse features; groups that are no multiple of a lot,
 * and one PE each. */
TEST(test_steps)
{
    static const char *const scheds[] = {NULL, "dmdas"};
    static const struct {
        uint32_t pes, group_size, chunks;
    } spreads[] = {{16, 16, 1}, {9, 9, 2}, {14, 7, 1}, {12, 1, 1}};
    for (int i = 0; i < 16; i++) {
        struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                    .n_vertices = 400,
                                    .n_columns = i % 3 == 1 ? 60 : 12,
                                    .sparse = i % 3 == 1,
                                    .seed = 11};
        struct sl_dataset d;
        struct sl_settings settings;
        machine_up(scheds[i % 5 == 4], 2);
        expect_ok(sl_settings_init(&settings));
        settings.hidden = 16;
        settings.batch_size = 6;
        settings.pes = spreads[i % 4].pes;
        settings.group_size = spreads[i % 4].group_size;
        settings.chunks = spreads[i % 4].chunks;
        settings.model = i % n_models();
        shape.n_relations = is_typed(settings.model) ? 3 : 0;
        make_dataset(&shape, &d);
        settings.heads = attends(settings.model) ? 4 : settings.heads;
        settings.norm = settings.model == SL_MODEL_RESGCN ? SL_NORM_NONE : i % 3;
        settings.sampler = i % 3 == 2 ? SL_SAMPLER_LABOR : SL_SAMPLER_NEIGHBOR;
        settings.sync = spreads[i % 4].group_size == 1 && i >= 8 ? SL_SYNC_DISSEMINATION : SL_SYNC_ALLREDUCE;
        settings.precision = i % 7 == 3 ? SL_PRECISION_BF16 : SL_PRECISION_FLOAT;
        expect_same_bundled(&d, &settings, 4);
        sl_settings_free(&settings);
        forget_partitions();
        sl_dataset_free(&d);
        machine_down();
    }
}

TEST_MAIN(NULL, NULL)
