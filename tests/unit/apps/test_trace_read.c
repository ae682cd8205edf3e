/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * apps/report/trace_read.h and runtime/report/trace_name.h: names, a made-up trace, and files that are no traces.
 */
#include "tests/support/trace_fixture.h"

/* ---- names ---- */

static void names_come_back(void **state)
{
    (void)state;
    static const char *const operations[SL_N_STAGES] = {
        "sl_merge",    "sl_pack",           "sl_gather", "sl_aggregate_forward", "sl_activate_forward",
        "sl_loss_sum", "sl_dense_backward", "sl_reduce", "sl_optimize",          "sl_dense_forward"};
    for (int s = 0; s < SL_N_STAGES; s++) {
        char text[SL_TASK_NAME_BYTES];
        struct sl_trace_name name;
        struct sl_task_args args = {.step = UINT64_MAX - (uint64_t)s, .pe = 255, .hop = 15, .stage = (enum sl_stage)s};
        sl_task_name(&args, operations[s], text);
        assert_true(sl_trace_name_parse(text, strlen(text), &name));
        assert_true(name.stage == args.stage && name.pe == 255 && name.hop == 15 && name.step == args.step);
        assert_null(strpbrk(text, " \t\""));
        assert_null(strstr(text, "sl_"));
        assert_null(strstr(text, "_forward"));
    }
}

static void names_say_the_direction(void **state)
{
    (void)state;
    char text[SL_TASK_NAME_BYTES];
    struct sl_task_args args = {.step = 12, .pe = 1, .hop = 2, .stage = SL_STAGE_BACKWARD};
    sl_task_name(&args, "sl_dense_backward_weight", text);
    assert_string_equal(text, "backward.bwd.dense_weight.hop2.pe1.step12");
    args.stage = SL_STAGE_AGGREGATE;
    sl_task_name(&args, "sl_aggregate_forward", text);
    assert_string_equal(text, "aggregate.fwd.aggregate.hop2.pe1.step12");
    args.stage = SL_STAGE_SYNC;
    sl_task_name(&args, "sl_reduce", text);
    assert_string_equal(text, "sync.upd.reduce.hop2.pe1.step12");
}

static void other_names_are_not_ours(void **state)
{
    (void)state;
    static const char *const others[] = {"",
                                         "sl_sample",
                                         "sample.fwd.sample.hop0.pe0.step",
                                         "sample.fwd.sample.hop0.pe0.step1x",
                                         "sample.fwd.sample.hop0.pe0.step1.",
                                         "sample.fwd.sample.hop0.pe0",
                                         "sample.up.sample.hop0.pe0.step0",
                                         "samples.fwd.sample.hop0.pe0.step0",
                                         "sample.fwd.sample.hop-1.pe0.step0",
                                         "sample.fwd.sample.hop0.pe99999999999.step0",
                                         "sample.fwd.sample"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct sl_trace_name name;
        if (sl_trace_name_parse(others[i], strlen(others[i]), &name)) {
            fail_msg("'%s' was taken for one of ours", others[i]);
        }
    }
}

/* ---- a whole trace ---- */

static void a_trace_is_read(void **state)
{
    (void)state;
    struct sl_trace_data data;
    make_small_trace();
    assert_ok(sl_trace_read(folder, &data));
    assert_int_equal(data.n_workers, 2);
    assert_int_equal(data.n_tasks, 8);
    assert_int_equal(data.n_stages, SL_N_STAGES);
    assert_near(data.makespan_s, 0.010);
    const struct sl_trace_task *t = &data.task[2]; /* by job */
    assert_true(t->job == 3 && t->ran && t->ours && t->stage == SL_STAGE_EXCHANGE && t->hop == 1 && t->pe == 1);
    assert_near(t->start_s, 0.002);
    assert_near(t->end_s, 0.005);
    assert_int_equal(t->n_deps, 1); /* 77 is not in the trace */
    assert_int_equal(data.dep[t->first_dep], 0);
    assert_true(data.task[7].job == 90 && !data.task[7].ran && data.task[7].n_deps == 2);
    for (size_t i = 0; i < data.n_states; i++) { /* each worker's states fill the makespan */
        const struct sl_trace_state *s = &data.state[i];
        bool first = i == 0 || s->worker != s[-1].worker;
        bool last = i + 1 == data.n_states || s->worker != s[1].worker;
        assert_near(s->start_s, first ? 0 : s[-1].end_s);
        assert_true(!last || s->end_s == data.makespan_s);
        assert_true(!first || s->kind != SL_TRACE_STARPU); /* "Initializing" was before */
    }
    sl_trace_data_free(&data);
}

static void marked_tasks_have_their_codelets_times(void **state)
{
    (void)state;
    static const double start_s[] = {0.0015, 0.00425, 0.00989};
    static const double end_s[] = {0.00375, 0.008, 0.0099};
    static const enum sl_trace_kind kinds[] = {SL_TRACE_IDLE,   SL_TRACE_STARPU, SL_TRACE_BUSY, SL_TRACE_STARPU,
                                               SL_TRACE_STARPU, SL_TRACE_BUSY,   SL_TRACE_IDLE, SL_TRACE_STARPU,
                                               SL_TRACE_BUSY,   SL_TRACE_STARPU};
    struct sl_trace_data data;
    make_marked_trace();
    assert_ok(sl_trace_read(folder, &data));
    assert_near(data.makespan_s, 0.010);
    for (size_t i = 0; i < 3; i++) {
        assert_near(data.task[i].start_s, start_s[i]);
        assert_near(data.task[i].end_s, end_s[i]);
    }
    assert_int_equal(data.n_states, sizeof kinds / sizeof *kinds);
    for (size_t i = 0; i < data.n_states; i++) {
        assert_int_equal(data.state[i].kind, kinds[i]);
        assert_near(data.state[i].start_s, i == 0 ? 0 : data.state[i - 1].end_s);
    }
    sl_trace_data_free(&data);
}

static void ranks_are_told_apart(void **state)
{
    (void)state;
    static const uint32_t rank[] = {0, 0, 1};
    static const uint32_t number[] = {0, 1, 0};
    static const char *const names[] = {"rank 0: 0", "rank 0: 1", "rank 1: 0"};
    static const uint32_t workers[] = {0, 0, 1, 2, 2}; /* of the tasks, by rank and job */
    struct sl_trace_data data;
    struct sl_analysis analysis;
    double busy_s[3] = {0};
    make_ranks_trace();
    assert_ok(sl_trace_read(folder, &data));
    assert_int_equal(data.n_ranks, 2);
    assert_int_equal(data.n_workers, 3);
    assert_int_equal(data.n_tasks, 5);
    for (uint32_t w = 0; w < 3; w++) {
        char name[SL_TRACE_WORKER_BYTES];
        sl_trace_worker_name(&data, w, name);
        assert_true(data.worker[w].rank == rank[w] && data.worker[w].number == number[w]);
        assert_string_equal(name, names[w]);
    }
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(data.task[i].worker, workers[i]);
        assert_int_equal(data.task[i].rank, rank[workers[i]]);
        assert_int_equal(data.task[i].pe, data.task[i].rank);
    }
    assert_int_equal(data.task[1].n_deps, 2); /* of its rank: 0_1, 0_3 */
    assert_int_equal(data.dep[data.task[1].first_dep + 1], 2);
    assert_int_equal(data.dep[data.task[4].first_dep], 3);
    assert_near(data.task[3].start_s, 0.002); /* no earlier, for all its mark says */
    for (size_t i = 0; i < data.n_states; i++) {
        busy_s[data.state[i].worker] +=
            data.state[i].kind == SL_TRACE_BUSY ? data.state[i].end_s - data.state[i].start_s : 0;
    }
    assert_near(busy_s[0], 0.005);
    assert_near(busy_s[1], 0.002);
    assert_near(busy_s[2], 0.003);
    assert_int_equal(data.n_messages, 2);
    assert_true(data.message[0].from == 0 && data.message[0].to == 1 && data.message[0].bytes == 400);
    assert_near(data.message[0].start_s, 0.002);
    assert_near(data.message[0].end_s, 0.0025);
    assert_near(data.message[1].start_s, 0.004);
    assert_near(data.message[1].end_s, 0.004);
    assert_ok(sl_analysis_make(&data, &analysis));
    assert_near(analysis.worker[2].s[SL_TRACE_IDLE] + analysis.worker[2].s[SL_TRACE_STARPU], 0.007);
    sl_analysis_free(&analysis);
    sl_trace_data_free(&data);
    assert_int_equal(unlink(in_folder("comms.rec")), 0);
    assert_int_equal(sl_trace_read(folder, &data), SL_EIO);
}

static void foreign_tasks_have_stages_by_name(void **state)
{
    (void)state;
    struct sl_trace_data data;
    trace_begin();
    task(1, "potrf(0,0)", NULL, 0, 0, 0, 1);
    task(2, "gemm 1", "1", 0, 0, 1, 2);
    task(3, "potrf(1,1)", "2", 0, 0, 2, 3);
    task(4, "<script>", "2", 0, 0, 3, 4);
    trace_end();
    assert_ok(sl_trace_read(folder, &data));
    assert_int_equal(data.n_stages, SL_N_STAGES + 3);
    assert_string_equal(data.stage[SL_N_STAGES].name, "potrf");
    assert_string_equal(data.stage[SL_N_STAGES + 1].name, "gemm_");
    assert_true(data.task[0].stage == data.task[2].stage && !data.task[0].ours);
    sl_trace_data_free(&data);
    trace_begin();
    for (unsigned i = 0; i < 300; i++) { /* more names than stages */
        char name[] = {(char)('a' + i / 26), (char)('a' + i % 26), '\0'};
        task(i + 1, name, NULL, 0, 0, i, i + 1);
    }
    trace_end();
    assert_ok(sl_trace_read(folder, &data));
    assert_int_equal(data.n_stages, SL_TRACE_MAX_STAGES);
    assert_string_equal(data.stage[SL_TRACE_MAX_STAGES - 1].name, "others");
    sl_trace_data_free(&data);
}

/* ---- files that are none ---- */

static void refused(const char *name, const char *text, enum sl_status status, const char *words)
{
    struct sl_trace_data data;
    make_small_trace();
    put_text(name, text);
    assert_refused(sl_trace_read(folder, &data), status, words);
    assert_null(data.task);
    assert_int_equal(sl_memory_live(), 0);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    struct sl_trace_data data;
    assert_refused(sl_trace_read(folder, &data), SL_EIO, "tasks.rec");
    make_small_trace();
    assert_int_equal(unlink(in_folder("trace.rec")), 0);
    assert_refused(sl_trace_read(folder, &data), SL_EIO, "trace.rec");
#define RAN "\nWorkerId: 0\nStartTime: 1\nEndTime: 2\n"
    refused("tasks.rec", "", SL_EFILE, "no task ran");
    refused("tasks.rec", "JobId: 1\n", SL_EFILE, "no task ran");
    refused("tasks.rec", "Name: x" RAN, SL_EFILE, "JobId");
    refused("tasks.rec", "JobId: one" RAN, SL_EFILE, "line 1: expected a whole number, found 'one'");
    refused("tasks.rec", "JobId: 99999999999999999999" RAN, SL_EFILE, "line 1");
    refused("tasks.rec", "JobId: 1" RAN "\nJobId: 1" RAN, SL_EFILE, "two tasks");
    refused("tasks.rec", "JobId: 1\nDependsOn: 2,3" RAN, SL_EFILE, "line 2: expected tasks' numbers");
    refused("tasks.rec", "JobId: 1\nWorkerId: 0\nStartTime: 2\nEndTime: 1\n", SL_EFILE, "EndTime");
    refused("tasks.rec", "JobId: 1\nWorkerId: 0\nStartTime: nan\nEndTime: 1\n", SL_EFILE, "line 3");
    refused("tasks.rec", "JobId: 1\nWorkerId: 0\nStartTime: 0\nEndTime: 1e300\n", SL_EFILE, "line 4");
    refused("tasks.rec", "JobId: 1\nWorkerId: 0\nStartTime: 1\nEndTime: 1\n\n", SL_EFILE, "no worker"); /* no time */
    refused("trace.rec", "", SL_EFILE, "no worker");
    refused("trace.rec", "E: SetState\nN: x\nC: Task\nW: 5000\nS: 1\n", SL_EFILE, "worker below 4096");
    refused("trace.rec", "E: SetState\nN: x\nC: Task\nW: 18446744073709551615\nS: 1\n", SL_EFILE, "worker below");
    refused("trace.rec", "E: SetState\nC: Task\nW: 0\nS: 1\n", SL_EFILE, "a name");
    refused("trace.rec", "E: SetState\nN: x\nC: Task\nW: 0\n", SL_EFILE, "a time");
#define MARK(text, time) "E: ProgEvent\nN: " text "\nC: Program\nW: -1\nS: " time "\n"
#define IN_TASK_2 "E: SetState\nN: gather\nC: Task\nW: 1\nS: 1\n\n"
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.2", "2"), SL_EFILE, "line 11: expected a mark");
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.2.x", "2"), SL_EFILE, "found 'sl_codelet.2.x'");
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.2.5.", "2"), SL_EFILE, "a mark");
    refused("trace.rec", IN_TASK_2 "E: ProgEvent\nN: sl_codelet.2.5\n", SL_EFILE, "a time");
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.78.5", "2"), SL_EFILE,
            "a task that ran for that time");                                               /* no such task */
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.90.5", "2"), SL_EFILE, "ran for that"); /* did not run */
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.1.5", "1"), SL_EFILE, "ran for that");  /* on an idle worker */
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.2.5", "3.1"), SL_EFILE, "ran for that");
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.2.1000001", "2"), SL_EFILE, "ran for that");
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.2.5", "0.9"), SL_EFILE, "ran for that");
    refused("trace.rec", IN_TASK_2 MARK("sl_codelet.2.5", "2") "\n" MARK("sl_codelet.2.5", "2"), SL_EFILE, "line 17");
    refused("trace.rec", MARK("sl_codelet.2.5", "2"), SL_EFILE, "ran for that"); /* of no worker */
    char deep[4096] = "";
    for (int i = 0; i < 20; i++) {
        strcat(deep, "E: PushState\nN: x\nC: Runtime\nW: 0\nS: 1\n\n");
    }
    refused("trace.rec", deep, SL_EFILE, "pushed");
}

/* A trace that was cut short, also where no record is half told, gives no figures. */
static void cut_files_are_refused(void **state)
{
    static const char *const names[] = {"tasks.rec", "trace.rec"};
    (void)state;
    for (int f = 0; f < 2; f++) {
        struct sl_trace_data data;
        char *whole;
        size_t bytes;
        make_small_trace();
        assert_ok(sl_file_read(in_folder(names[f]), SIZE_MAX - 1, &whole, &bytes));
        whole[bytes - 1] = '\0'; /* the last empty line */
        put_text(names[f], whole);
        assert_refused(sl_trace_read(folder, &data), SL_EFILE, "cut short");
        char *record = f == 1 ? strstr(whole, "E: SetState\nN: optimise") : NULL; /* whole ones, up to 9.5 of 10 ms */
        if (record != NULL) {
            *record = '\0';
            put_text(names[f], whole);
            assert_refused(sl_trace_read(folder, &data), SL_EFILE, "0.500 ms before it");
        }
        sl_free(whole);
    }
}

/* What StarPU left of a trace may be whole records: ours have a mark at their end. */
static void a_window_without_end_is_refused(void **state)
{
    (void)state;
    struct sl_trace_data data;
    char *whole;
    size_t bytes;
    make_marked_trace();
    assert_ok(sl_file_read(in_folder("trace.rec"), SIZE_MAX - 1, &whole, &bytes));
    *strstr(whole, "E: ProgEvent\nN: end") = '\0';
    put_text("trace.rec", whole);
    sl_free(whole);
    assert_refused(sl_trace_read(folder, &data), SL_EFILE, "expected the mark 'end' behind those of its steps");
}

/* Cut short anywhere, or with some bytes changed: a status, or numbers that still fit together; sanitizers watch. */
static void damage_files(int n_files)
{
    static const char *const names[] = {"tasks.rec", "trace.rec", "comms.rec"};
    for (int f = 0; f < n_files; f++) {
        char *whole;
        size_t bytes;
        assert_ok(sl_file_read(in_folder(names[f]), SIZE_MAX - 1, &whole, &bytes));
        char *text = malloc(bytes);
        assert_non_null(text);
        for (uint32_t i = 0; i < 3 * bytes; i++) {
            struct sl_trace_data data;
            struct sl_analysis analysis;
            size_t n = i < bytes ? i : bytes;
            memcpy(text, whole, bytes);
            for (int k = 0; i >= bytes && k < 3; k++) {
                uint64_t word = (i * 2654435761u + (uint32_t)k) * 0x9e3779b97f4a7c15u;
                text[(word >> 20) % bytes] = (char)(word >> 8);
            }
            put_bytes(names[f], text, n);
            if (sl_trace_read(folder, &data) == SL_OK) {
                if (sl_analysis_make(&data, &analysis) == SL_OK) {
                    sl_analysis_free(&analysis);
                }
                sl_trace_data_free(&data);
            }
            assert_int_equal(sl_memory_live(), 1);
        }
        put_bytes(names[f], whole, bytes);
        free(text);
        sl_free(whole);
    }
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    make_small_trace();
    damage_files(2);
    make_marked_trace();
    damage_files(2);
    make_ranks_trace();
    damage_files(3);
}

static void no_memory_is_a_status(void **state)
{
    (void)state;
    struct sl_trace_data data;
    make_marked_trace();
    assert_survives_no_memory(sl_trace_read(folder, &data));
    sl_trace_data_free(&data);
    make_ranks_trace();
    assert_survives_no_memory(sl_trace_read(folder, &data));
    sl_trace_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_come_back),
        cmocka_unit_test(names_say_the_direction),
        cmocka_unit_test(other_names_are_not_ours),
        with_folder(a_trace_is_read),
        with_folder(marked_tasks_have_their_codelets_times),
        with_folder(ranks_are_told_apart),
        with_folder(foreign_tasks_have_stages_by_name),
        with_folder(bad_files_are_refused),
        with_folder(cut_files_are_refused),
        with_folder(a_window_without_end_is_refused),
        with_folder(damaged_files_do_no_harm),
        with_folder(no_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
