/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Where the time of a trace went: arithmetic over sl_trace_data, and rules that turn it into advice.
 *
 * Time is counted once. Each worker's makespan is cut into busy, StarPU, transfers and idle; what a worker did between two
 * tasks is counted for the stage of the later one, as what that stage had to be waited for; what came after its last task is
 * counted as the tail. So over all workers
 *
 *   sum over stages of (busy + starpu + transfer + idle) + tail = workers x makespan.
 */
#ifndef SL_RUNTIME_REPORT_ANALYSIS_H
#define SL_RUNTIME_REPORT_ANALYSIS_H

#include "runtime/report/trace_read.h"

#define SL_TINY_TASK_S 20e-6 /* below, StarPU's own work for a task is no longer small beside it */
#define SL_MAX_ADVICE 3
#define SL_ADVICE_BYTES 400

/* Seconds by enum sl_trace_kind. */
struct sl_shares {
    double s[SL_TRACE_N_KINDS];
};

/* One stage, over all workers. */
struct sl_stage_time {
    uint64_t n_tasks;
    uint64_t n_tiny;       /* under SL_TINY_TASK_S */
    struct sl_shares time; /* busy: in its tasks; the others: before them */
    double tiny_starpu_s;  /* the StarPU part of it before tiny tasks */
    double path_s;         /* its tasks on the critical path */
    double beside_s;       /* busy while some worker was in a compute task (aggregate .. optimise) */
};

/* One thing to change. */
struct sl_advice {
    double gain_s; /* at most this much of the makespan */
    char text[SL_ADVICE_BYTES];
};

struct sl_analysis {
    const struct sl_trace_data *data; /* borrowed */
    struct sl_stage_time stage[SL_TRACE_MAX_STAGES];
    struct sl_shares tail;    /* after each worker's last task; never busy */
    struct sl_shares *worker; /* n_workers */
    double *worker_stage_s;   /* n_workers x n_stages: busy */
    struct sl_shares total;   /* over all workers */
    uint64_t n_tasks, n_tiny;
    double overlap;         /* as the metrics' overlap; NAN: no step is known */
    double hidden_sampling; /* share of sampling and gathering with compute beside it; NAN: there was none */
    double hidden_exchange; /* the same of packing and exchanging rows */
    double path_s;          /* longest chain of dependent tasks, without waits between them */
    size_t n_path;
    uint32_t *path; /* positions in data->task, in order; those that ran */
    uint32_t n_advice;
    struct sl_advice advice[SL_MAX_ADVICE]; /* largest gain first */
};

/* SL_EFILE: the dependencies go round in a circle. SL_ENOMEM. On failure *out is empty. `data` must outlive it. */
enum sl_status sl_analysis_make(const struct sl_trace_data *data, struct sl_analysis *out);

void sl_analysis_free(struct sl_analysis *analysis);

/* Fill in the advice from the rest (sl_analysis_make calls it; here for tests of the rules). Each rule names a cause and puts a
 * bound on what its removal would gain:
 *   waiting    workers idle before a stage's tasks: the largest such stage, divided among the workers
 *   tail       idle after the last task
 *   sampling   sampling and gathering without compute beside it; exchange: the same of the row exchange
 *   tiny       StarPU's work before tasks under 20 microseconds
 *   starpu     StarPU's work before all other tasks, where it is over 5 % of the time
 *   transfers  where they are over 5 %
 *   path       by how much the critical path is longer than the work divided among the workers
 *   kernel     a tenth of the busiest stage, as a measure of what work on its kernels is worth
 * A rule whose bound is under a thousandth of the makespan says nothing. */
void sl_analysis_advise(struct sl_analysis *analysis);

#endif
