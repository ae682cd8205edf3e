/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Made-up traces: tasks.rec and trace.rec of a few lines, whose times are worked out by hand. Times are milliseconds.
 */
#ifndef SL_TESTS_TRACE_FIXTURE_H
#define SL_TESTS_TRACE_FIXTURE_H

#include "tests/support/data_fixture.h"

#include <math.h>

#include "apps/report/analysis.h"

/* The files being made up. */
static FILE *tasks_file;
static FILE *states_file;
static int of_rank = -1; /* whose tasks they are */

__attribute__((unused)) static void trace_begin(void)
{
    tasks_file = fopen(in_folder("tasks.rec"), "w");
    states_file = fopen(in_folder("trace.rec"), "w");
    assert_true(tasks_file != NULL && states_file != NULL);
    fputs("#\n# E: Event type\n#\n\n", states_file); /* as StarPU begins it */
}

__attribute__((unused)) static void trace_end(void)
{
    assert_int_equal(fclose(tasks_file), 0);
    assert_int_equal(fclose(states_file), 0);
}

/* A worker's state from now on. */
__attribute__((unused)) static void event(const char *type, const char *name, const char *category, int worker,
                                          double ms)
{
    fprintf(states_file, "E: %s\nN: %s\nC: %s\nW: %d\nT: -1\nS: %f\n\n", type, name, category, worker, ms);
}

__attribute__((unused)) static void pop(int worker, double ms)
{
    fprintf(states_file, "E: PopState\nW: %d\nT: 17\nS: %f\n\n", worker, ms);
}

/* A user event. */
__attribute__((unused)) static void mark(const char *text, double ms)
{
    fprintf(states_file, "E: ProgEvent\nN: %s\nC: Program\nW: -1\nT: 0\nS: %f\n\n", text, ms);
}

/* A task that has begun, in both files. deps: "1 2", or NULL. */
__attribute__((unused)) static void begin_task(unsigned job, const char *name, const char *deps, int worker,
                                               double submit_ms, double start_ms, double end_ms)
{
    fprintf(tasks_file, "Name: %s\nModel: sl_some\nJobId: ", name);
    if (of_rank >= 0) {
        fprintf(tasks_file, "%d_", of_rank);
    }
    fprintf(tasks_file, "%u\n", job);
    if (deps != NULL) {
        fprintf(tasks_file, "DependsOn: %s\n", deps);
    }
    fprintf(tasks_file, "WorkerId: %d\nSubmitTime: %f\nStartTime: %f\nEndTime: %f\nMPIRank: %d\n\n", worker, submit_ms,
            start_ms, end_ms, of_rank);
    event("SetState", name, "Task", worker, start_ms);
}

/* A task that ran; afterwards its worker sleeps. */
__attribute__((unused)) static void task(unsigned job, const char *name, const char *deps, int worker, double submit_ms,
                                         double start_ms, double end_ms)
{
    begin_task(job, name, deps, worker, submit_ms, start_ms, end_ms);
    event("SetState", "Sleeping", "Other", worker, end_ms);
}

/* One of StarPU's own, which takes no time. */
__attribute__((unused)) static void ghost(unsigned job, const char *deps)
{
    fprintf(tasks_file, "Name: _starpu_sync_task\nJobId: %u\nDependsOn: %s\nSubmitTime: 0\n\n", job, deps);
}

/* Two workers, ten milliseconds, two steps; with a dependency through one of StarPU's own tasks (job 90) and one on
 * a task outside the trace (77). The longest chain is 1 -> 3 -> 90 -> 4 -> 6: 2 + 3 + 2 + 1 = 8 ms.
 *
 *           0     1     2     3     4     5     6     7     8     9     10
 * worker 0  [1 sample 0  ][3 exchange 0   ][4 aggregate 0 ][      ][6 loss 0]      (4 runs 5 .. 7, 6 runs 8 .. 9)
 * worker 1        [2 gather 0 ]      [5 sample 1    ]               [7 tiny]       (2: 1 .. 3, 5: 4 .. 6.5, 7: 9.99
 * .. 10)
 */
__attribute__((unused)) static void make_small_trace(void)
{
    trace_begin();
    event("SetState", "Initializing", "Runtime", 0, -100);
    event("SetState", "Initializing", "Runtime", 1, -100);
    task(1, "sample.fwd.sample.hop0.pe0.step0", NULL, 0, 0, 0, 2);
    task(2, "gather.fwd.gather.hop2.pe0.step0", NULL, 1, 0.5, 1, 3);
    event("SetState", "Scheduling", "Runtime", 1, 3);
    event("SetState", "FetchingInput", "Runtime", 1, 3.5);
    event("SetState", "Sleeping", "Other", 1, 3.75);
    task(3, "exchange.fwd.pack.hop1.pe1.step0", "1 77", 0, 0, 2, 5);
    task(4, "aggregate.fwd.aggregate.hop1.pe1.step0", "90 2", 0, 0, 5, 7);
    task(5, "sample.fwd.merge.hop1.pe0.step1", "1", 1, 0, 4, 6.5);
    ghost(90, "3 3");
    task(6, "loss.fwd.loss.hop0.pe0.step0", "4", 0, 0, 8, 9);
    event("PushState", "Callback", "Runtime", 0, 9.25);
    pop(0, 9.5);
    event("SetState", "Submitting task", "User", -1, 3);
    task(7, "optimise.upd.optimize.hop0.pe0.step0", "2", 1, 0, 9.99, 10);
    event("SetState", "Deinitializing", "Runtime", 0, 200);
    trace_end();
}

/* One worker, ten milliseconds. StarPU's times of the tasks are 1 .. 4, 4 .. 8 and 9.5 .. 10; their marks say that
 * the codelets of the first two ran 1.5 .. 3.75 and 4.25 .. 8, and the third's for 10 microseconds; step marks mean
 * nothing.
 */
__attribute__((unused)) static void make_marked_trace(void)
{
    trace_begin();
    mark("step0", 0.5);
    begin_task(1, "sample.fwd.sample.hop0.pe0.step0", NULL, 0, 0, 1, 4);
    mark("sl_codelet.1.2250000", 3.75);
    begin_task(2, "dense.fwd.dense.hop0.pe0.step0", "1", 0, 0, 4, 8);
    mark("sl_codelet.2.3750000", 8);
    event("SetState", "Sleeping", "Other", 0, 8);
    begin_task(3, "optimise.upd.optimize.hop0.pe0.step0", "2", 0, 0, 9.5, 10);
    mark("sl_codelet.3.10000", 9.9);
    event("SetState", "Sleeping", "Other", 0, 10);
    mark("end", 11);
    trace_end();
}

/* Ranks 0 and 1, of two workers and one, ten milliseconds; and two messages, of which the second was received
 * before it was sent, by clocks that are not quite the same. Rank 1's mark is longer than its task, whose times
 * StarPU has moved. What is outside the windows counts nowhere.
 *
 * rank 0: 0  [1 sample: 0 .. 2]          [2 dense: 5 .. 8] rank 0: 1       [3 gather: 1 .. 3] rank 1: 0
 * [1 sample: 2 .. 4]           [2 dense: 9 .. 10]
 */
__attribute__((unused)) static void make_ranks_trace(void)
{
    FILE *messages = fopen(in_folder("comms.rec"), "w");
    assert_non_null(messages);
    trace_begin();
    event("SetState", "Overhead", "Other", 0, -3);
    mark("rank0", -2);
    mark("step0", -1);
    of_rank = 0;
    task(1, "sample.fwd.sample.hop0.pe0.step0", NULL, 0, 0, 0, 2);
    task(3, "gather.fwd.gather.hop2.pe0.step0", "0_1", 1, 0.5, 1, 3);
    task(2, "dense.fwd.dense.hop0.pe0.step0", "0_1 0_3", 0, 0, 5, 8);
    mark("end", 11);
    event("SetState", "Deinitializing", "Runtime", 0, 4); /* rank 1's */
    mark("rank1", 1);
    of_rank = 1;
    begin_task(1, "sample.fwd.sample.hop0.pe1.step0", NULL, 0, 0, 2, 4);
    mark("sl_codelet.1.2500000", 4);
    event("SetState", "Sleeping", "Other", 0, 4);
    task(2, "dense.fwd.dense.hop0.pe1.step0", "1_1", 0, 0, 9, 10);
    mark("end", 11);
    of_rank = -1;
    trace_end();
    fputs("Src: 0\nDst: 1\nTag: 7\nSendTime: 2\nRecvTime: 2.5\nSendHandle: 7f\nSize: 400\nType: PointToPoint\n\n",
          messages);
    fputs("Src: 1\nDst: 0\nTag: 8\nSendTime: 4\nRecvTime: 3.75\nSendHandle: 7f\nSize: 40\nType: PointToPoint\n\n",
          messages);
    assert_int_equal(fclose(messages), 0);
}

static inline void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-9)) {
        fail_msg("found %.12g, expected %.12g", found, expected);
    }
}

#endif
