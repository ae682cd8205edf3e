/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What is measured of a training run from outside: the library is as it is, and four of its functions are wrapped
 * by the linker (--wrap in tests/bench/local.am), as its own files call them: sl_task_enter and sl_task_leave at
 * the ends of each task, sl_step_sizes once a step, sl_metrics_epoch at the end of each epoch.
 *
 * Tasks are timed twice: by the clock, and by the worker's own processor time, which leaves out what other programs
 * took of the machine. On a machine left alone the two agree.
 *
 * Epochs: one to warm up, in which destinations that have more in-neighbours than they draw are counted; n_repeats
 * that are timed; n_repeats with StarPU's profiling switched on, which costs a little; one that is not looked at,
 * since it has no later batches to sample and is followed by the evaluation.
 *
 * One probe in a process. The host's functions are for the thread that trains.
 */
#ifndef SL_TESTS_BENCH_PROBE_H
#define SL_TESTS_BENCH_PROBE_H

#include <stdint.h>

#include "runtime/train/session.h"
#include "tests/bench/floor.h"

#define PROBE_MAX_REPEATS 100
#define PROBE_MAX_CODELETS 64

/* Tasks of one codelet, over all timed epochs. */
struct probe_codelet {
    const char *name;
    uint64_t n_tasks;
    double seconds;     /* inside the codelet, all workers */
    double cpu_seconds; /* the same in processor time */
};

struct probe {
    uint32_t n_repeats;
    uint32_t n_epochs; /* seen so far, the one that warms up included */
    /* timed epochs */
    double seconds[PROBE_MAX_REPEATS];
    double overlap[PROBE_MAX_REPEATS];
    double outside[PROBE_MAX_REPEATS]; /* share of the workers' time that is not inside a codelet */
    double cores[PROBE_MAX_REPEATS];   /* processor time of the process per second */
    uint32_t n_codelets;
    struct probe_codelet codelet[PROBE_MAX_CODELETS]; /* the longest first */
    struct bench_shape shape;                         /* sums over the timed epochs, until probe_result divides them */
    /* profiled epochs: shares of the workers' time by StarPU's own account */
    double idle[PROBE_MAX_REPEATS];       /* sleeping: no task was ready */
    double scheduling[PROBE_MAX_REPEATS]; /* all else that is not executing */
    /* memory */
    uint64_t first_blocks; /* of the pool, taken in the first epoch */
    uint64_t later_blocks; /* and after it */
    uint64_t pool_bytes;
    uint64_t peak_rss_bytes; /* before the evaluation */
};

/* Epochs that a run with so many repeats trains. */
uint32_t probe_epochs(uint32_t n_repeats);

/* Watch the training that follows. n_repeats: 1 .. PROBE_MAX_REPEATS. */
void probe_start(uint32_t n_repeats);

/* What was seen, once it has ended: sizes and task counts of a mean epoch. */
const struct probe *probe_result(struct sl_session *session);

#endif
