/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The rules of the report: an upper bound on the gain of each, and an option to try. */
#include "apps/report/advice.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LEAST_SHARE 1e-3 /* of the makespan: a rule with a smaller gain is silent */
#define LARGE_SHARE 0.05 /* of the workers' time: below, StarPU and transfers are not worth a line */
#define KERNEL_SHARE 0.1 /* of a category: a plausible gain from work on its kernels */

static void say(struct sl_advice *out, double gain_s, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(struct sl_advice *out, double gain_s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    out->gain_s = gain_s;
    vsnprintf(out->text, sizeof out->text, format, arguments);
    va_end(arguments);
}

static double workers_s(const struct sl_analysis *a)
{
    return a->data->n_workers * a->data->makespan_s;
}

static uint32_t largest(const struct sl_analysis *a, enum sl_trace_kind kind)
{
    uint32_t best = 0;
    for (uint32_t s = 1; s < a->data->n_stages; s++) {
        if (a->stage[s].time.s[kind] > a->stage[best].time.s[kind]) {
            best = s;
        }
    }
    return best;
}

/* Advice that makes more tasks of a category ready at a time. */
static const char *remedy(uint32_t stage)
{
    switch (stage) {
    case SL_STAGE_SAMPLE:
    case SL_STAGE_GATHER: return "raise --depth, so that more minibatches are sampled ahead";
    case SL_STAGE_SYNC:
    case SL_STAGE_OPTIMISE: return "they wait for all gradients; raise --depth to have other work meanwhile";
    default: break;
    }
    return stage < SL_N_STAGES ? "raise --chunks, for more and smaller tasks, or --depth, for other work meanwhile"
                               : "split the work before them into more tasks";
}

static void waiting(const struct sl_analysis *a, struct sl_advice *out)
{
    uint32_t s = largest(a, SL_TRACE_IDLE);
    double idle_s = a->stage[s].time.s[SL_TRACE_IDLE];
    say(out, idle_s / a->data->n_workers,
        "waiting: workers were idle for %.3f s (%.1f %% of their time) until a task of '%s' was ready; %s", idle_s,
        sl_percent(idle_s, workers_s(a)), a->data->stage[s].name, remedy(s));
}

static void tail(const struct sl_analysis *a, struct sl_advice *out)
{
    double idle_s = a->tail.s[SL_TRACE_IDLE];
    say(out, idle_s / a->data->n_workers,
        "tail: workers were idle for %.3f s (%.1f %%) after their last task; in a window of few steps that is its "
        "edge, in a whole "
        "epoch raise --chunks",
        idle_s, sl_percent(idle_s, workers_s(a)));
}

static void sampling(const struct sl_analysis *a, struct sl_advice *out)
{
    const struct sl_stage_time *sample = &a->stage[SL_STAGE_SAMPLE];
    const struct sl_stage_time *gather = &a->stage[SL_STAGE_GATHER];
    double busy_s = sample->time.s[SL_TRACE_BUSY] + gather->time.s[SL_TRACE_BUSY];
    double open_s = busy_s - sample->beside_s - gather->beside_s;
    say(out, open_s / a->data->n_workers,
        "sampling: %.3f s of sampling and gathering (%.1f %% of them) had no compute beside them; raise --depth",
        open_s, sl_percent(open_s, busy_s));
}

static void exchange(const struct sl_analysis *a, struct sl_advice *out)
{
    const struct sl_stage_time *stage = &a->stage[SL_STAGE_EXCHANGE];
    double open_s = stage->time.s[SL_TRACE_BUSY] - stage->beside_s;
    say(out, open_s / a->data->n_workers,
        "exchange: %.3f s of the row exchange (%.1f %% of it) had no compute beside it; raise --chunks, or lower the "
        "cross-edge "
        "ratio (--partition metis)",
        open_s, sl_percent(open_s, stage->time.s[SL_TRACE_BUSY]));
}

static double tiny_starpu_s(const struct sl_analysis *a)
{
    double sum_s = 0;
    for (uint32_t s = 0; s < a->data->n_stages; s++) {
        sum_s += a->stage[s].tiny_starpu_s;
    }
    return sum_s;
}

static void tiny(const struct sl_analysis *a, struct sl_advice *out)
{
    double sum_s = tiny_starpu_s(a);
    say(out, sum_s / a->data->n_workers,
        "tiny: %llu of %llu tasks took under 20 microseconds, and StarPU %.3f s to hand them out; lower --chunks, or "
        "raise "
        "--batch-size",
        (unsigned long long)a->n_tiny, (unsigned long long)a->n_tasks, sum_s);
}

static void starpu(const struct sl_analysis *a, struct sl_advice *out)
{
    double sum_s = a->total.s[SL_TRACE_STARPU] - tiny_starpu_s(a);
    if (sum_s > LARGE_SHARE * workers_s(a)) {
        say(out, sum_s / a->data->n_workers,
            "starpu: workers were in StarPU for %.3f s (%.1f %%); make fewer and larger tasks (--chunks, "
            "--batch-size), or try "
            "another --sched",
            sum_s, sl_percent(sum_s, workers_s(a)));
    }
}

static void transfers(const struct sl_analysis *a, struct sl_advice *out)
{
    double sum_s = a->total.s[SL_TRACE_TRANSFER];
    if (sum_s > LARGE_SHARE * workers_s(a)) {
        uint32_t s = largest(a, SL_TRACE_TRANSFER);
        say(out, sum_s / a->data->n_workers,
            "transfers: workers waited %.3f s (%.1f %%) for data, most of it before '%s'; try --sched dmdas or "
            "--placement "
            "home",
            sum_s, sl_percent(sum_s, workers_s(a)), a->data->stage[s].name);
    }
}

static void path(const struct sl_analysis *a, struct sl_advice *out)
{
    double share_s = a->total.s[SL_TRACE_BUSY] / a->data->n_workers;
    uint32_t s = 0;
    for (uint32_t i = 1; i < a->data->n_stages; i++) {
        if (a->stage[i].path_s > a->stage[s].path_s) {
            s = i;
        }
    }
    say(out, a->path_s - share_s,
        "path: the critical path takes %.3f s and the work, shared among %u workers, %.3f s: more workers would not "
        "help; most "
        "of the path is '%s', split it (--chunks)",
        a->path_s, a->data->n_workers, share_s, a->data->stage[s].name);
}

static void kernel(const struct sl_analysis *a, struct sl_advice *out)
{
    uint32_t s = largest(a, SL_TRACE_BUSY);
    double busy_s = a->stage[s].time.s[SL_TRACE_BUSY];
    double gain_s = KERNEL_SHARE * busy_s / a->data->n_workers;
    say(out, gain_s,
        "kernel: '%s' is the largest time category, %.3f s of %.3f s busy (%.1f %%); each tenth off its kernels saves "
        "%.3f s",
        a->data->stage[s].name, busy_s, a->total.s[SL_TRACE_BUSY], sl_percent(busy_s, a->total.s[SL_TRACE_BUSY]),
        gain_s);
}

/* Insert by gain, largest first. If the list is full, the smallest gain is dropped. */
static void insert(struct sl_analysis *a, const struct sl_advice *advice)
{
    uint32_t position = a->n_advice;
    while (position > 0 && a->advice[position - 1].gain_s < advice->gain_s) {
        position--;
    }
    if (position == SL_MAX_ADVICE) {
        return;
    }
    a->n_advice += a->n_advice < SL_MAX_ADVICE;
    memmove(&a->advice[position + 1], &a->advice[position], (a->n_advice - position - 1) * sizeof *advice);
    a->advice[position] = *advice;
}

void sl_analysis_advise(struct sl_analysis *a)
{
    static void (*const rules[])(const struct sl_analysis *, struct sl_advice *) = {
        waiting, tail, sampling, exchange, tiny, starpu, transfers, path, kernel};
    a->n_advice = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct sl_advice advice = {0};
        rules[i](a, &advice);
        if (advice.gain_s >= LEAST_SHARE * a->data->makespan_s) {
            insert(a, &advice);
        }
    }
}
