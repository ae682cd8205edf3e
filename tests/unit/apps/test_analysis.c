/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * apps/report/analysis.h: the arithmetic on made-up traces worked out by hand, and each rule of the advice.
 */
#include "tests/support/trace_fixture.h"

#include "apps/report/advice.h"

static struct sl_trace_data data;
static struct sl_analysis a;

static void analyse(void)
{
    assert_ok(sl_trace_read(folder, &data));
    assert_ok(sl_analysis_make(&data, &a));
    sl_analysis_advise(&a);
}

static int forget(void **state)
{
    sl_analysis_free(&a);
    sl_trace_data_free(&data);
    assert_int_equal(sl_memory_live(), 0);
    return remove_folder(state);
}

static double sum_of(const struct sl_shares *shares)
{
    return shares->s[SL_TRACE_BUSY] + shares->s[SL_TRACE_STARPU] + shares->s[SL_TRACE_TRANSFER] +
           shares->s[SL_TRACE_IDLE];
}

/* ---- sums ---- */

static void times_add_up(void **state)
{
    (void)state;
    make_small_trace();
    analyse();
    double sum_s = sum_of(&a.tail);
    for (uint32_t w = 0; w < 2; w++) {
        assert_near(sum_of(&a.worker[w]), 0.010);
    }
    for (uint32_t s = 0; s < data.n_stages; s++) {
        double busy_s = a.worker_stage_s[s] + a.worker_stage_s[data.n_stages + s];
        assert_near(busy_s, a.stage[s].time.s[SL_TRACE_BUSY]);
        sum_s += sum_of(&a.stage[s].time);
    }
    assert_near(sum_s, 2 * 0.010);
    assert_near(sum_of(&a.total), 2 * 0.010);
}

static void times_are_those_worked_out_by_hand(void **state)
{
    (void)state;
    make_small_trace();
    analyse();
    assert_near(a.stage[SL_STAGE_SAMPLE].time.s[SL_TRACE_BUSY], 0.0045);
    assert_int_equal(a.stage[SL_STAGE_SAMPLE].n_tasks, 2);
    assert_near(a.stage[SL_STAGE_GATHER].time.s[SL_TRACE_IDLE], 0.001);
    assert_near(a.stage[SL_STAGE_SAMPLE].time.s[SL_TRACE_STARPU], 0.0005); /* worker 1, 3 .. 3.5 */
    assert_near(a.stage[SL_STAGE_SAMPLE].time.s[SL_TRACE_TRANSFER], 0.00025);
    assert_near(a.stage[SL_STAGE_SAMPLE].time.s[SL_TRACE_IDLE], 0.00025);
    assert_near(a.stage[SL_STAGE_LOSS].time.s[SL_TRACE_IDLE], 0.001);
    assert_near(a.stage[SL_STAGE_OPTIMISE].time.s[SL_TRACE_IDLE], 0.00349);
    assert_near(a.tail.s[SL_TRACE_IDLE], 0.00075);
    assert_near(a.tail.s[SL_TRACE_STARPU], 0.00025); /* the callback that was pushed and popped */
    assert_near(a.worker[0].s[SL_TRACE_BUSY], 0.008);
    assert_near(a.worker[1].s[SL_TRACE_BUSY], 0.00451);
    assert_int_equal(a.n_tasks, 7);
    assert_int_equal(a.n_tiny, 1);
    assert_int_equal(a.stage[SL_STAGE_OPTIMISE].n_tiny, 1);
}

/* Busy is what the codelets took, StarPU what it recorded around them; a task is tiny by its codelet. */
static void marks_part_codelets_from_starpu(void **state)
{
    (void)state;
    make_marked_trace();
    analyse();
    assert_near(data.makespan_s, 0.010);
    assert_near(sum_of(&a.worker[0]), 0.010);
    assert_near(a.stage[SL_STAGE_SAMPLE].time.s[SL_TRACE_BUSY], 0.00225);
    assert_near(a.stage[SL_STAGE_SAMPLE].time.s[SL_TRACE_IDLE], 0.001);
    assert_near(a.stage[SL_STAGE_SAMPLE].time.s[SL_TRACE_STARPU], 0.0005);
    assert_near(a.stage[SL_STAGE_DENSE].time.s[SL_TRACE_BUSY], 0.00375);
    assert_near(a.stage[SL_STAGE_DENSE].time.s[SL_TRACE_STARPU], 0.0005); /* 3.75 .. 4.25 */
    assert_near(a.stage[SL_STAGE_OPTIMISE].time.s[SL_TRACE_BUSY], 0.00001);
    assert_near(a.stage[SL_STAGE_OPTIMISE].time.s[SL_TRACE_STARPU], 0.00039);
    assert_near(a.tail.s[SL_TRACE_STARPU], 0.0001);
    assert_near(a.path_s, 0.00225 + 0.00375 + 0.00001);
    assert_int_equal(a.n_tasks, 3);
    assert_int_equal(a.n_tiny, 1);
}

/* A task that another state interrupts is one task. */
static void an_interrupted_task_is_one(void **state)
{
    (void)state;
    trace_begin();
    fputs("Name: loss.fwd.loss.hop0.pe0.step0\nJobId: 1\nWorkerId: 0\nStartTime: 0\nEndTime: 3\n\n", tasks_file);
    event("SetState", "loss.fwd.loss.hop0.pe0.step0", "Task", 0, 0);
    event("PushState", "Scheduling", "Runtime", 0, 1);
    pop(0, 2);
    event("SetState", "Sleeping", "Other", 0, 3);
    trace_end();
    analyse();
    assert_int_equal(a.n_tasks, 1);
    assert_near(a.total.s[SL_TRACE_BUSY], 0.002);
    assert_near(a.total.s[SL_TRACE_STARPU], 0.001);
}

/* ---- what was hidden ---- */

/* Compute tasks: aggregate 5 .. 7, loss 8 .. 9, optimise 9.99 .. 10. Of the samples only 5 .. 6.5 of step 1's lies
 * beside one. */
static void hidden_shares(void **state)
{
    (void)state;
    make_small_trace();
    analyse();
    assert_near(a.hidden_sampling, 0.0015 / 0.0065);
    assert_near(a.hidden_exchange, 0);
    /* Step 1's sampling runs 4 .. 6.5, step 0 computes 5 .. 10; step 0 has none before it. */
    assert_near(a.overlap, 0.0015 / 0.0065);
}

/* The overlap counts the whole span of the earlier steps' compute, also its holes; what is hidden does not. */
static void overlap_spans_holes(void **state)
{
    (void)state;
    trace_begin();
    task(1, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 0, 1);
    task(2, "dense.fwd.dense.hop0.pe0.step1", NULL, 0, 0, 3, 4);
    task(3, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 5, 6);
    task(4, "sample.fwd.sample.hop0.pe0.step2", NULL, 1, 0, 0, 4);
    task(5, "sample.fwd.sample.hop0.pe0.step1", NULL, 1, 0, 5.5, 7.5);
    task(6, "exchange.fwd.pack.hop0.pe0.step2", NULL, 2, 0, 0.5, 2.5);
    task(7, "gather.fwd.gather.hop0.pe0.step0", NULL, 3, 0, 3, 4); /* beside compute, but no earlier step's */
    trace_end();
    analyse();
    assert_near(a.overlap, (4 + 0.5) / 7);
    assert_near(a.hidden_sampling, (1 + 1 + 0.5 + 1) / 7);
    assert_near(a.hidden_exchange, 0.5 / 2);
}

static void shares_of_nothing_are_none(void **state)
{
    (void)state;
    trace_begin();
    task(1, "gemm", NULL, 0, 0, 0, 1);
    trace_end();
    analyse();
    assert_true(isnan(a.overlap) && isnan(a.hidden_sampling) && isnan(a.hidden_exchange));
}

/* ---- the critical path ---- */

static void the_path_is_the_one_found_by_hand(void **state)
{
    (void)state;
    static const uint64_t jobs[] = {1, 3, 4, 6}; /* through 90, which takes no time */
    make_small_trace();
    analyse();
    assert_near(a.path_s, 0.008);
    assert_int_equal(a.n_path, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(data.task[a.path[i]].job, jobs[i]);
    }
    assert_near(a.stage[SL_STAGE_EXCHANGE].path_s, 0.003);
    assert_near(a.stage[SL_STAGE_GATHER].path_s, 0);
}

/* A longer chain of short tasks against a shorter one of long tasks, and numbers that do not follow the
 * dependencies. */
static void the_path_is_longest_in_time(void **state)
{
    (void)state;
    trace_begin();
    task(9, "a", NULL, 0, 0, 0, 1);
    task(8, "b", "9", 0, 0, 1, 2);
    task(7, "c", "8", 0, 0, 2, 3);
    task(6, "d", "7 2", 0, 0, 11, 12);
    task(1, "e", NULL, 1, 0, 0, 5);
    task(2, "f", "1", 1, 0, 5, 10);
    trace_end();
    analyse();
    assert_near(a.path_s, 0.011);
    assert_int_equal(a.n_path, 3);
    assert_true(data.task[a.path[0]].job == 1 && data.task[a.path[1]].job == 2 && data.task[a.path[2]].job == 6);
}

static void a_circle_is_refused(void **state)
{
    (void)state;
    trace_begin();
    task(1, "a", "3", 0, 0, 0, 1);
    task(2, "b", "1", 0, 0, 1, 2);
    task(3, "c", "2", 0, 0, 2, 3);
    trace_end();
    assert_ok(sl_trace_read(folder, &data));
    assert_refused(sl_analysis_make(&data, &a), SL_EFILE, "circle");
}

/* ---- the advice: one trace for each rule, in which it is the first ---- */

static void expect_first(const char *rule, double gain_s, const char *words)
{
    analyse();
    if (a.n_advice == 0 || strncmp(a.advice[0].text, rule, strlen(rule)) != 0 ||
        strstr(a.advice[0].text, words) == NULL) {
        fail_msg("expected '%s .. %s', found '%s'", rule, words, a.n_advice > 0 ? a.advice[0].text : "nothing");
    }
    assert_near(a.advice[0].gain_s, gain_s);
    for (uint32_t i = 1; i < a.n_advice; i++) {
        assert_true(a.advice[i].gain_s <= a.advice[i - 1].gain_s);
        assert_true(a.advice[i].gain_s >= 1e-3 * data.makespan_s);
    }
}

static void advice_waiting(void **state)
{
    (void)state;
    trace_begin();
    task(1, "sample.fwd.sample.hop0.pe0.step0", NULL, 0, 0, 0, 1);
    task(2, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 1, 2);
    task(3, "gather.fwd.gather.hop0.pe0.step1", NULL, 0, 0, 8, 10);
    task(4, "dense.fwd.dense.hop0.pe0.step1", NULL, 1, 0, 0, 10);
    trace_end();
    expect_first("waiting:", 0.006 / 2, "'gather' was ready; raise --depth");
}

static void advice_tail(void **state)
{
    (void)state;
    trace_begin();
    task(1, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 0, 10);
    task(2, "dense.fwd.dense.hop0.pe0.step0", NULL, 1, 0, 0, 3);
    trace_end();
    expect_first("tail:", 0.007 / 2, "35.0 %");
}

static void advice_sampling(void **state)
{
    (void)state;
    trace_begin();
    task(1, "sample.fwd.sample.hop0.pe0.step0", NULL, 0, 0, 0, 6);
    task(2, "sample.fwd.sample.hop0.pe1.step0", NULL, 1, 0, 0, 6);
    task(3, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 6, 10);
    task(4, "sample.fwd.sample.hop0.pe0.step1", NULL, 1, 0, 6, 10);
    trace_end();
    expect_first("sampling:", 0.012 / 2, "raise --depth");
}

static void advice_exchange(void **state)
{
    (void)state;
    trace_begin();
    task(1, "exchange.fwd.pack.hop0.pe0.step0", NULL, 0, 0, 0, 6);
    task(2, "exchange.fwd.pack.hop0.pe1.step0", NULL, 1, 0, 0, 6);
    task(3, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 6, 10);
    task(4, "dense.fwd.dense.hop0.pe1.step0", NULL, 1, 0, 6, 10);
    trace_end();
    expect_first("exchange:", 0.012 / 2, "raise --chunks");
}

/* A thousand tasks of 10 microseconds, each after 30 in StarPU. */
static void advice_tiny(void **state)
{
    (void)state;
    trace_begin();
    for (unsigned i = 0; i < 1000; i++) {
        event("SetState", "Scheduling", "Runtime", 0, 0.040 * i);
        task(i + 1, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 0.040 * i + 0.030, 0.040 * i + 0.040);
    }
    trace_end();
    expect_first("tiny:", 0.030 - 0.000030, "1000 of 1000 tasks"); /* the first's came before anything: idle */
}

static void advice_starpu(void **state)
{
    (void)state;
    trace_begin();
    for (unsigned i = 0; i < 10; i++) {
        event("SetState", "Scheduling", "Runtime", 0, 10 * i + 1e-3);
        task(i + 1, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 10 * i + 2, 10 * i + 10);
    }
    trace_end();
    expect_first("starpu:", 10 * 0.001999, "fewer and larger tasks");
}

static void advice_transfers(void **state)
{
    (void)state;
    trace_begin();
    task(1, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 0, 1);
    event("SetState", "FetchingInput", "Runtime", 0, 1);
    task(2, "aggregate.fwd.aggregate.hop0.pe0.step0", "1", 0, 0, 6, 10);
    trace_end();
    expect_first("transfers:", 0.005, "before 'aggregate'");
}

static void advice_path(void **state)
{
    (void)state;
    trace_begin();
    task(1, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 0, 4);
    task(2, "backward.bwd.dense.hop0.pe0.step0", "1", 0, 0, 4, 10);
    for (unsigned i = 0; i < 3; i++) { /* four workers, three of them with little; their waits differ in stage */
        static const char *const names[] = {"loss.fwd.loss.hop0.pe0.step0", "sync.upd.reduce.hop0.pe0.step0",
                                            "optimise.upd.optimize.hop0.pe0.step0"};
        task(10 + i, names[i], NULL, (int)i + 1, 0, 9.9, 10);
    }
    trace_end();
    expect_first("path:", 0.010 - (0.010 + 3 * 0.0001) / 4, "most of the path is 'backward'");
}

static void advice_kernel(void **state)
{
    (void)state;
    trace_begin();
    task(1, "dense.fwd.dense.hop0.pe0.step0", NULL, 0, 0, 0, 6);
    task(2, "aggregate.fwd.aggregate.hop0.pe0.step0", NULL, 0, 0, 6, 10);
    trace_end();
    expect_first("kernel:", 0.0006, "'dense' is the largest time category");
    assert_int_equal(a.n_advice, 1); /* nothing else is worth a word */
}

static void no_memory_is_a_status(void **state)
{
    (void)state;
    make_small_trace();
    assert_ok(sl_trace_read(folder, &data));
    assert_survives_no_memory(sl_analysis_make(&data, &a));
}

int main(void)
{
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, forget)
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(times_add_up),
        WITH_FOLDER(times_are_those_worked_out_by_hand),
        WITH_FOLDER(marks_part_codelets_from_starpu),
        WITH_FOLDER(an_interrupted_task_is_one),
        WITH_FOLDER(hidden_shares),
        WITH_FOLDER(overlap_spans_holes),
        WITH_FOLDER(shares_of_nothing_are_none),
        WITH_FOLDER(the_path_is_the_one_found_by_hand),
        WITH_FOLDER(the_path_is_longest_in_time),
        WITH_FOLDER(a_circle_is_refused),
        WITH_FOLDER(advice_waiting),
        WITH_FOLDER(advice_tail),
        WITH_FOLDER(advice_sampling),
        WITH_FOLDER(advice_exchange),
        WITH_FOLDER(advice_tiny),
        WITH_FOLDER(advice_starpu),
        WITH_FOLDER(advice_transfers),
        WITH_FOLDER(advice_path),
        WITH_FOLDER(advice_kernel),
        WITH_FOLDER(no_memory_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
