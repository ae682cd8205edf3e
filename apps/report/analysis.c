/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sums over states, spans of steps, and the longest path. */
#include "apps/report/analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

/* Stages of foreign tasks count as compute. */
static bool is_compute(uint32_t stage)
{
    return sl_stage_is_compute(stage) || stage >= SL_N_STAGES;
}

/* ---- time by category and worker ---- */

static void add(struct sl_shares *to, const struct sl_shares *from)
{
    for (int k = 0; k < SL_TRACE_N_KINDS; k++) {
        to->s[k] += from->s[k];
    }
}

static void count_task(struct sl_analysis *a, const struct sl_trace_state *state, const struct sl_shares *before)
{
    struct sl_stage_time *stage = &a->stage[state->stage];
    double busy_s = state->end_s - state->start_s;
    bool tiny = busy_s < SL_TINY_TASK_S && !state->resumed;
    stage->n_tasks += !state->resumed;
    stage->n_tiny += tiny;
    if (tiny) {
        stage->tiny_starpu_s += before->s[SL_TRACE_STARPU];
    }
    stage->time.s[SL_TRACE_BUSY] += busy_s;
    add(&stage->time, before);
    a->worker_stage_s[(size_t)state->worker * a->data->n_stages + state->stage] += busy_s;
}

static void count_states(struct sl_analysis *a)
{
    const struct sl_trace_data *data = a->data;
    struct sl_shares before = {{0}}; /* since the worker's last task */
    for (size_t i = 0; i < data->n_states; i++) {
        const struct sl_trace_state *state = &data->state[i];
        double seconds = state->end_s - state->start_s;
        if (i > 0 && state->worker != state[-1].worker) {
            add(&a->tail, &before);
            before = (struct sl_shares){{0}};
        }
        a->worker[state->worker].s[state->kind] += seconds;
        if (state->kind == SL_TRACE_BUSY) {
            count_task(a, state, &before);
            before = (struct sl_shares){{0}};
        } else {
            before.s[state->kind] += seconds;
        }
    }
    add(&a->tail, &before);
    for (uint32_t w = 0; w < data->n_workers; w++) {
        add(&a->total, &a->worker[w]);
    }
    for (uint32_t s = 0; s < data->n_stages; s++) {
        a->n_tasks += a->stage[s].n_tasks;
        a->n_tiny += a->stage[s].n_tiny;
    }
}

/* ---- overlap with compute ---- */

struct span {
    double start_s, end_s;
    uint64_t step;
};

static int compare_starts(const void *a, const void *b)
{
    double x = ((const struct span *)a)->start_s;
    double y = ((const struct span *)b)->start_s;
    return (x > y) - (x < y);
}

static int compare_steps(const void *a, const void *b)
{
    uint64_t x = ((const struct span *)a)->step;
    uint64_t y = ((const struct span *)b)->step;
    return (x > y) - (x < y);
}

/* The spans of all workers' compute tasks. `known`: only tasks whose step is known. */
static enum sl_status compute_spans(const struct sl_trace_data *data, bool known, struct span **out, size_t *n_out)
{
    struct span *span;
    size_t n = 0;
    enum sl_status st = sl_alloc(data->n_states, sizeof *span, "spans of compute", &span);
    if (st != SL_OK) {
        return st;
    }
    for (size_t i = 0; i < data->n_states; i++) {
        const struct sl_trace_state *state = &data->state[i];
        if (state->kind == SL_TRACE_BUSY && is_compute(state->stage) && (state->ours || !known)) {
            span[n++] = (struct span){state->start_s, state->end_s, state->step};
        }
    }
    *out = span;
    *n_out = n;
    return SL_OK;
}

/* Sort by start and join overlapping spans. Returns the number left. */
static size_t join_spans(struct span *span, size_t n)
{
    size_t last = 0;
    qsort(span, n, sizeof *span, compare_starts);
    for (size_t i = 1; i < n; i++) {
        if (span[i].start_s <= span[last].end_s) {
            span[last].end_s = fmax(span[last].end_s, span[i].end_s);
        } else {
            span[++last] = span[i];
        }
    }
    return n == 0 ? 0 : last + 1;
}

/* The part of a state inside joined spans. */
static double inside_s(const struct sl_trace_state *state, const struct span *span, size_t n)
{
    size_t low = 0; /* the first span that ends after the state's start */
    size_t high = n;
    double sum_s = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (span[middle].end_s <= state->start_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < n && span[low].start_s < state->end_s; low++) {
        sum_s += fmin(span[low].end_s, state->end_s) - fmax(span[low].start_s, state->start_s);
    }
    return sum_s;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

static enum sl_status count_hidden(struct sl_analysis *a)
{
    const struct sl_trace_data *data = a->data;
    struct span *span;
    size_t n;
    enum sl_status st = compute_spans(data, false, &span, &n);
    if (st != SL_OK) {
        return st;
    }
    n = join_spans(span, n);
    for (size_t i = 0; i < data->n_states; i++) {
        const struct sl_trace_state *state = &data->state[i];
        if (state->kind == SL_TRACE_BUSY) {
            a->stage[state->stage].beside_s += inside_s(state, span, n);
        }
    }
    sl_free(span);
    const struct sl_stage_time *sample = &a->stage[SL_STAGE_SAMPLE];
    const struct sl_stage_time *gather = &a->stage[SL_STAGE_GATHER];
    const struct sl_stage_time *exchange = &a->stage[SL_STAGE_EXCHANGE];
    a->hidden_sampling =
        share(sample->beside_s + gather->beside_s, sample->time.s[SL_TRACE_BUSY] + gather->time.s[SL_TRACE_BUSY]);
    a->hidden_exchange = share(exchange->beside_s, exchange->time.s[SL_TRACE_BUSY]);
    return SL_OK;
}

/* Join the spans of each step, and widen each by the spans of the steps before it, as sl_run_overlap does. */
static size_t join_steps(struct span *span, size_t n)
{
    size_t last = 0;
    qsort(span, n, sizeof *span, compare_steps);
    for (size_t i = 1; i < n; i++) {
        bool same = span[i].step == span[last].step;
        struct span wide = {fmin(span[last].start_s, span[i].start_s), fmax(span[last].end_s, span[i].end_s),
                            span[i].step};
        last += !same;
        span[last] = wide;
    }
    return n == 0 ? 0 : last + 1;
}

/* The part of a state during which an earlier step was computing. */
static double covered_s(const struct sl_trace_state *state, const struct span *span, size_t n)
{
    size_t low = 0; /* the first span that is not of an earlier step */
    size_t high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (span[middle].step < state->step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return 0;
    }
    return inside_s(state, &span[low - 1], 1);
}

static enum sl_status count_overlap(struct sl_analysis *a)
{
    const struct sl_trace_data *data = a->data;
    double total_s = 0;
    double covered = 0;
    struct span *span;
    size_t n;
    enum sl_status st = compute_spans(data, true, &span, &n);
    if (st != SL_OK) {
        return st;
    }
    n = join_steps(span, n);
    for (size_t i = 0; i < data->n_states; i++) {
        const struct sl_trace_state *state = &data->state[i];
        bool wanted = state->stage == SL_STAGE_SAMPLE || state->stage == SL_STAGE_GATHER;
        if (state->kind == SL_TRACE_BUSY && state->ours && wanted) {
            total_s += state->end_s - state->start_s;
            covered += covered_s(state, span, n);
        }
    }
    sl_free(span);
    a->overlap = share(covered, total_s);
    return SL_OK;
}

/* ---- the critical path ---- */

#define NO_TASK UINT32_MAX

/* The search for the longest path. By task: the length of the longest path up to its end, its predecessor on the
 * path, and Kahn's counts. */
struct path {
    double *end_s;
    uint32_t *before;
    uint32_t *n_open;   /* dependencies not yet visited */
    size_t *first_next; /* n_tasks + 1: start of each task's dependents in `next` */
    uint32_t *next;     /* n_deps */
    uint32_t *order;
};

static void path_free(struct path *p)
{
    sl_free(p->end_s);
    sl_free(p->before);
    sl_free(p->n_open);
    sl_free(p->first_next);
    sl_free(p->next);
    sl_free(p->order);
}

static enum sl_status path_alloc(const struct sl_trace_data *data, struct path *p)
{
    size_t n = data->n_tasks;
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero(n, sizeof *p->end_s, "path lengths", &p->end_s), done);
    SL_TRY(st, sl_alloc(n, sizeof *p->before, "the path", &p->before), done);
    SL_TRY(st, sl_alloc_zero(n, sizeof *p->n_open, "dependency counts", &p->n_open), done);
    SL_TRY(st, sl_alloc_zero(n + 2, sizeof *p->first_next, "dependents", &p->first_next), done);
    SL_TRY(st, sl_alloc(data->n_deps, sizeof *p->next, "dependents", &p->next), done);
    SL_TRY(st, sl_alloc(n, sizeof *p->order, "the order of tasks", &p->order), done);
done:
    return st;
}

/* Invert the dependencies: list the dependents of each task. */
static void turn_round(const struct sl_trace_data *data, struct path *p)
{
    for (size_t i = 0; i < data->n_tasks; i++) {
        p->n_open[i] = data->task[i].n_deps;
        for (uint32_t d = 0; d < data->task[i].n_deps; d++) {
            p->first_next[data->dep[data->task[i].first_dep + d] + 2]++;
        }
    }
    for (size_t i = 2; i < data->n_tasks + 2; i++) {
        p->first_next[i] += p->first_next[i - 1];
    }
    for (size_t i = 0; i < data->n_tasks; i++) { /* first_next[j + 1] advances to the start of j + 1's dependents */
        for (uint32_t d = 0; d < data->task[i].n_deps; d++) {
            p->next[p->first_next[data->dep[data->task[i].first_dep + d] + 1]++] = (uint32_t)i;
        }
    }
}

/* Visit each task after all its dependencies. */
static enum sl_status find_longest(const struct sl_trace_data *data, struct path *p, uint32_t *last_out)
{
    size_t n = 0;
    uint32_t last = NO_TASK;
    for (size_t i = 0; i < data->n_tasks; i++) {
        p->before[i] = NO_TASK;
        if (p->n_open[i] == 0) {
            p->order[n++] = (uint32_t)i;
        }
    }
    for (size_t done = 0; done < n; done++) {
        uint32_t i = p->order[done];
        p->end_s[i] += data->task[i].end_s - data->task[i].start_s; /* until here: the longest path to a dependency */
        if (last == NO_TASK || p->end_s[i] > p->end_s[last]) {
            last = i;
        }
        for (size_t k = p->first_next[i]; k < p->first_next[i + 1]; k++) {
            uint32_t next = p->next[k];
            if (p->before[next] == NO_TASK || p->end_s[i] > p->end_s[next]) {
                p->end_s[next] = p->end_s[i];
                p->before[next] = i;
            }
            if (--p->n_open[next] == 0) {
                p->order[n++] = next;
            }
        }
    }
    *last_out = last;
    if (n < data->n_tasks) {
        return sl_fail(SL_EFILE, "the trace's dependencies go round in a circle; expected one process's tasks.rec");
    }
    return SL_OK;
}

static enum sl_status count_path(struct sl_analysis *a)
{
    const struct sl_trace_data *data = a->data;
    struct path p = {0};
    uint32_t last;
    enum sl_status st;
    SL_TRY(st, path_alloc(data, &p), done);
    turn_round(data, &p);
    SL_TRY(st, find_longest(data, &p, &last), done);
    a->path_s = p.end_s[last];
    for (uint32_t i = last; i != NO_TASK; i = p.before[i]) {
        a->n_path += data->task[i].ran;
    }
    SL_TRY(st, sl_alloc(a->n_path, sizeof *a->path, "the critical path", &a->path), done);
    size_t position = a->n_path;
    for (uint32_t i = last; i != NO_TASK; i = p.before[i]) {
        const struct sl_trace_task *task = &data->task[i];
        if (task->ran) {
            a->path[--position] = i;
            a->stage[task->stage].path_s += task->end_s - task->start_s;
        }
    }
done:
    path_free(&p);
    return st;
}

/* ---- the analysis ---- */

enum sl_status sl_analysis_make(const struct sl_trace_data *data, struct sl_analysis *out)
{
    struct sl_analysis *a = out;
    enum sl_status st;
    *a = (struct sl_analysis){.data = data};
    SL_TRY(st, sl_alloc_zero(data->n_workers, sizeof *a->worker, "workers' times", &a->worker), failed);
    SL_TRY(st,
           sl_alloc_zero((size_t)data->n_workers * data->n_stages, sizeof *a->worker_stage_s, "workers' times",
                         &a->worker_stage_s),
           failed);
    count_states(a);
    SL_TRY(st, count_hidden(a), failed);
    SL_TRY(st, count_overlap(a), failed);
    SL_TRY(st, count_path(a), failed);
    return SL_OK;
failed:
    sl_analysis_free(a);
    return st;
}

void sl_analysis_free(struct sl_analysis *analysis)
{
    sl_free(analysis->worker);
    sl_free(analysis->worker_stage_s);
    sl_free(analysis->path);
    *analysis = (struct sl_analysis){0};
}
