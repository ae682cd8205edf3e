/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Where the time of a trace went: arithmetic over sl_trace_data (rules for advice: advice.h).
 *
 * Time is counted once. Each worker's makespan is cut into busy, StarPU, transfers and idle. The time between two
 * tasks counts for the time category of the later task, because the worker waited for the later task. The time after a
 * worker's last task is the tail. So over all workers
 *
 *   sum over categories of (busy + StarPU + transfers + idle) + tail = workers x makespan.
 */
#ifndef SL_APPS_REPORT_ANALYSIS_H
#define SL_APPS_REPORT_ANALYSIS_H

#include "apps/report/trace_read.h"

#define SL_TINY_TASK_S 20e-6 /* below, StarPU's own work per task is no longer small compared with the task */
#define SL_MAX_ADVICE 3
#define SL_ADVICE_BYTES 400

/* Seconds by enum sl_trace_kind. */
struct sl_shares {
    double s[SL_TRACE_N_KINDS];
};

static inline double sl_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* One time category, over all workers. */
struct sl_stage_time {
    uint64_t n_tasks;
    uint64_t n_tiny;       /* under SL_TINY_TASK_S */
    struct sl_shares time; /* busy: in the category's tasks; other kinds: before them */
    /* The part of `time` that was StarPU's work before tiny tasks. */
    double tiny_starpu_s;
    double path_s; /* its tasks on the critical path */
    /* Busy time during which some worker was in a compute task (aggregate .. optimise). */
    double beside_s;
};

/* One piece of advice. */
struct sl_advice {
    double gain_s; /* upper bound, seconds of the makespan */
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
    double overlap; /* as `overlap` of the metrics; NAN: no step is known */
    /* Fraction of sampling and gathering with compute beside it. NAN: there was none. */
    double hidden_sampling;
    double hidden_exchange; /* the same for packing and exchanging rows */
    /* The longest chain of dependent tasks, without the waits between them. */
    double path_s;
    size_t n_path;
    /* The chain's tasks that ran: positions in data->task, in order. */
    uint32_t *path;
    uint32_t n_advice;
    struct sl_advice advice[SL_MAX_ADVICE]; /* largest gain first; by sl_analysis_advise (advice.h) */
};

/* Analyse a trace. `data` must outlive *out. The caller frees *out (sl_analysis_free). SL_EFILE: the dependencies
 * have a cycle. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_analysis_make(const struct sl_trace_data *data, struct sl_analysis *out);

void sl_analysis_free(struct sl_analysis *analysis);

#endif
