/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Reading StarPU's recutils files. Every number is checked before use. */
#include "apps/report/trace_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/report/svg.h"
#include "data/number.h"
#include "support/file.h"
#include "support/memory.h"

#define MAX_FILE ((size_t)4 << 30) /* bytes; an epoch's files have about ten million */
#define MAX_TIME_MS 1e12           /* thirty years */
#define MAX_NESTED 16              /* depth of a worker's pushed states */
#define FIRST_ROOM 1024
#define SLACK_MS 1e-3 /* the files have nanoseconds */
#define RANK_SHIFT 48 /* position of the rank in a job's number */

/* ---- time categories ---- */

/* The category of a foreign task: its name up to the first digit or bracket. */
static uint32_t foreign_stage(struct sl_trace_data *data, const char *text, size_t n)
{
    char name[SL_TRACE_STAGE_BYTES];
    size_t used = 0;
    while (used < n && used + 1 < sizeof name && (text[used] < '0' || text[used] > '9') && text[used] != '(') {
        name[used] = text[used] > ' ' && text[used] != '\x7f' ? text[used] : '_'; /* the report prints it */
        used++;
    }
    name[used] = '\0';
    if (used == 0) {
        snprintf(name, sizeof name, "unnamed");
    }
    for (uint32_t s = SL_N_STAGES; s < data->n_stages; s++) {
        if (strcmp(data->stage[s].name, name) == 0) {
            return s;
        }
    }
    if (data->n_stages == SL_TRACE_MAX_STAGES) {
        return SL_TRACE_MAX_STAGES - 1;
    }
    struct sl_trace_stage *stage = &data->stage[data->n_stages];
    stage->colour = sl_svg_colour(data->n_stages);
    snprintf(stage->name, sizeof stage->name, "%s", data->n_stages == SL_TRACE_MAX_STAGES - 1 ? "others" : name);
    return data->n_stages++;
}

/* ---- lines ---- */

struct lines {
    const char *path;
    const char *p;
    const char *end;
    uint64_t number; /* number of the current line */
};

/* The next line. False at the end. */
static bool next_line(struct lines *lines, const char **line, const char **line_end)
{
    if (lines->p >= lines->end) {
        return false;
    }
    const char *newline = memchr(lines->p, '\n', (size_t)(lines->end - lines->p));
    *line = lines->p;
    *line_end = newline == NULL ? lines->end : newline;
    lines->p = *line_end + 1;
    lines->number++;
    return true;
}

/* StarPU's files end with the empty line after a record. */
static enum sl_status check_end(const char *path, const char *text, size_t bytes)
{
    if (bytes > 1 && text[bytes - 1] == '\n' && text[bytes - 2] == '\n') {
        return SL_OK;
    }
    return sl_fail(
        SL_EFILE,
        "%s: expected an empty line behind its last record, found the file's end after %zu bytes; it was cut "
        "short: was a disk full?",
        path, bytes);
}

/* The value after "Key: ". NULL: the line has another key. */
static const char *value_of(const char *line, const char *end, const char *key)
{
    if (!sl_trace_skip(&line, end, key) || !sl_trace_skip(&line, end, ": ")) {
        return NULL;
    }
    return line;
}

static enum sl_status unexpected(const struct lines *lines, const char *expected, const char *found, const char *end)
{
    int n = end - found > 60 ? 60 : (int)(end - found);
    return sl_fail(SL_EFILE, "%s, line %llu: expected %s, found '%.*s'", lines->path, (unsigned long long)lines->number,
                   expected, n, found);
}

static enum sl_status read_u64(const struct lines *lines, const char *p, const char *end, uint64_t *out)
{
    if (sl_number_u64(p, end, out) != end) {
        return unexpected(lines, "a whole number", p, end);
    }
    return SL_OK;
}

/* Read a time in milliseconds. */
static enum sl_status read_time(const struct lines *lines, const char *p, const char *end, double *out)
{
    if (sl_number_real(p, end, out) != end || !(fabs(*out) <= MAX_TIME_MS)) {
        return unexpected(lines, "a time in milliseconds", p, end);
    }
    return SL_OK;
}

/* Read "7", or with several ranks "1_7". NULL: neither. */
static const char *read_job(const char *p, const char *end, uint64_t *out)
{
    uint64_t rank = 0;
    const char *next = sl_number_u64(p, end, out);
    if (next != NULL && next < end && *next == '_') {
        rank = *out;
        next = sl_number_u64(next + 1, end, out);
    }
    if (next == NULL || rank >= SL_TRACE_MAX_WORKERS || *out >> RANK_SHIFT > 0) {
        return NULL;
    }
    *out |= rank << RANK_SHIFT;
    return next;
}

/* Make room for one more element. */
static enum sl_status make_room(void *block, size_t n, size_t *capacity, size_t size, const char *purpose)
{
    if (n < *capacity) {
        return SL_OK;
    }
    size_t wanted = *capacity == 0 ? FIRST_ROOM : 2 * *capacity;
    enum sl_status st = sl_realloc(block, wanted, size, purpose);
    if (st == SL_OK) {
        *capacity = wanted;
    }
    return st;
}

/* ---- tasks.rec ---- */

/* The state while tasks.rec is read. Times are still StarPU's. */
struct tasks {
    struct sl_trace_data *data;
    struct sl_trace_task now; /* the current record */
    bool has_job, has_worker, has_start, has_end, has_submit;
    double submit_ms;
    double begin_ms; /* start of the trace */
    size_t task_room, dep_room;
    uint64_t *dep_job; /* data->n_deps */
};

static enum sl_status read_deps(const struct lines *lines, const char *p, const char *end, struct tasks *t)
{
    enum sl_status st = SL_OK;
    while (p < end) {
        uint64_t job;
        const char *next = read_job(p, end, &job);
        if (next == NULL || (next < end && *next != ' ') || t->now.n_deps == UINT32_MAX) {
            return unexpected(lines, "tasks' numbers", p, end);
        }
        SL_TRY(st, make_room(&t->dep_job, t->data->n_deps, &t->dep_room, sizeof *t->dep_job, "dependencies"), done);
        t->dep_job[t->data->n_deps++] = job;
        t->now.n_deps++;
        p = next < end ? next + 1 : end;
    }
done:
    return st;
}

/* -1 stands for a process without other ranks. */
static enum sl_status read_rank(const struct lines *lines, const char *p, const char *end, uint32_t n_ranks,
                                uint32_t *out)
{
    uint64_t rank = 0;
    if (p == end || (*p != '-' && (sl_number_u64(p, end, &rank) != end || rank >= n_ranks))) {
        return unexpected(lines, "a rank", p, end);
    }
    *out = (uint32_t)rank;
    return SL_OK;
}

static enum sl_status read_field(const struct lines *lines, const char *line, const char *end, struct tasks *t)
{
    const char *v;
    uint64_t n = 0;
    enum sl_status st = SL_OK;
    if ((v = value_of(line, end, "Name")) != NULL) {
        t->now.name = v;
        t->now.n_name = end - v > UINT32_MAX ? 0 : (uint32_t)(end - v);
    } else if ((v = value_of(line, end, "JobId")) != NULL) {
        t->has_job = true;
        if (read_job(v, end, &t->now.job) != end) {
            st = unexpected(lines, "a whole number", v, end);
        }
    } else if ((v = value_of(line, end, "MPIRank")) != NULL) {
        st = read_rank(lines, v, end, SL_TRACE_MAX_WORKERS, &t->now.rank);
    } else if ((v = value_of(line, end, "DependsOn")) != NULL) {
        st = read_deps(lines, v, end, t);
    } else if ((v = value_of(line, end, "WorkerId")) != NULL) {
        t->has_worker = true;
        st = read_u64(lines, v, end, &n);
        if (st == SL_OK && n >= SL_TRACE_MAX_WORKERS) {
            st = unexpected(lines, "a WorkerId of a worker that can be", v, end);
        }
        t->now.worker = (uint32_t)n;
    } else if ((v = value_of(line, end, "SubmitTime")) != NULL) {
        t->has_submit = true;
        st = read_time(lines, v, end, &t->submit_ms);
    } else if ((v = value_of(line, end, "StartTime")) != NULL) {
        t->has_start = true;
        st = read_time(lines, v, end, &t->now.start_s);
    } else if ((v = value_of(line, end, "EndTime")) != NULL) {
        t->has_end = true;
        st = read_time(lines, v, end, &t->now.end_s);
    }
    return st;
}

/* Keep the task of a complete record. */
static enum sl_status end_task(const struct lines *lines, struct tasks *t)
{
    struct sl_trace_data *data = t->data;
    struct sl_trace_name name = {0};
    enum sl_status st = SL_OK;
    if (!t->has_job && t->now.n_name == 0 && t->now.n_deps == 0) {
        goto done; /* a comment, or two empty lines */
    }
    if (!t->has_job) {
        return unexpected(lines, "a JobId in the record that ends here", "", "");
    }
    t->now.ran = t->has_worker && t->has_start && t->has_end;
    if (t->now.ran && t->now.end_s < t->now.start_s) {
        return unexpected(lines, "an EndTime behind the StartTime in the record that ends here", "", "");
    }
    if (t->now.ran) {
        t->now.ours = sl_trace_name_parse(t->now.name, t->now.n_name, &name);
        t->begin_ms = fmin(t->begin_ms, t->now.start_s);
        if (t->has_submit) {
            t->begin_ms = fmin(t->begin_ms, t->submit_ms);
        }
        data->makespan_s = fmax(data->makespan_s, t->now.end_s);
        data->n_ranks = t->now.rank >= data->n_ranks ? t->now.rank + 1 : data->n_ranks;
    }
    if (t->now.ran && !t->now.ours) {
        t->now.stage = foreign_stage(data, t->now.name, t->now.n_name);
    }
    if (t->now.ours) {
        t->now.stage = (uint32_t)name.stage;
        t->now.hop = name.hop;
        t->now.pe = name.pe;
        t->now.step = name.step;
    }
    SL_TRY(st, make_room(&data->task, data->n_tasks, &t->task_room, sizeof *data->task, "tasks"), done);
    data->task[data->n_tasks++] = t->now;
done:
    t->now = (struct sl_trace_task){.name = "", .first_dep = data->n_deps};
    t->has_job = t->has_worker = t->has_start = t->has_end = t->has_submit = false;
    return st;
}

static int compare_jobs(const void *a, const void *b)
{
    uint64_t x = ((const struct sl_trace_task *)a)->job;
    uint64_t y = ((const struct sl_trace_task *)b)->job;
    return (x > y) - (x < y);
}

static struct sl_trace_task *find_job(const struct sl_trace_data *data, uint64_t job)
{
    struct sl_trace_task key = {.job = job};
    return bsearch(&key, data->task, data->n_tasks, sizeof key, compare_jobs);
}

/* Convert the dependencies from job numbers to positions. Jobs outside the trace are dropped. */
static enum sl_status resolve_deps(struct sl_trace_data *data, const uint64_t *dep_job)
{
    enum sl_status st;
    size_t n = 0;
    SL_TRY(st, sl_alloc(data->n_deps, sizeof *data->dep, "dependencies", &data->dep), done);
    for (size_t i = 0; i < data->n_tasks; i++) {
        struct sl_trace_task *task = &data->task[i];
        size_t first = n;
        for (uint32_t d = 0; d < task->n_deps; d++) {
            const struct sl_trace_task *dep = find_job(data, dep_job[task->first_dep + d]);
            if (dep != NULL) {
                data->dep[n++] = (uint32_t)(dep - data->task);
            }
        }
        task->first_dep = first;
        task->n_deps = (uint32_t)(n - first);
    }
    data->n_deps = n;
done:
    return st;
}

static enum sl_status order_tasks(const struct lines *lines, struct tasks *t)
{
    struct sl_trace_data *data = t->data;
    if (isinf(t->begin_ms)) {
        return sl_fail(SL_EFILE, "%s: no task ran in it; expected the trace of some steps", lines->path);
    }
    if (data->n_tasks > UINT32_MAX) {
        return sl_fail(SL_ENOTSUP, "%s: over 2^32 tasks; trace fewer steps", lines->path);
    }
    qsort(data->task, data->n_tasks, sizeof *data->task, compare_jobs);
    data->makespan_s = (data->makespan_s - t->begin_ms) / 1e3;
    for (size_t i = 0; i < data->n_tasks; i++) {
        struct sl_trace_task *task = &data->task[i];
        if (i > 0 && task->job == task[-1].job) {
            return sl_fail(SL_EFILE, "%s: two tasks with the JobId %llu; expected one process's tasks", lines->path,
                           (unsigned long long)task->job);
        }
        task->start_s = task->ran ? (task->start_s - t->begin_ms) / 1e3 : 0;
        task->end_s = task->ran ? (task->end_s - t->begin_ms) / 1e3 : 0;
    }
    return resolve_deps(data, t->dep_job);
}

static enum sl_status read_tasks(const char *path, struct sl_trace_data *data, double *begin_ms_out)
{
    struct tasks t = {.data = data, .now.name = "", .begin_ms = INFINITY};
    const char *line;
    const char *end;
    char *text = NULL;
    size_t bytes;
    enum sl_status st;
    data->makespan_s = -INFINITY;
    SL_TRY(st, sl_file_read(path, MAX_FILE, &text, &bytes), done);
    data->file[0] = text;
    struct lines lines = {.path = path, .p = text, .end = text + bytes};
    while (next_line(&lines, &line, &end)) {
        if (line == end) {
            SL_TRY(st, end_task(&lines, &t), done);
        } else {
            SL_TRY(st, read_field(&lines, line, end, &t), done);
        }
    }
    SL_TRY(st, end_task(&lines, &t), done);
    SL_TRY(st, order_tasks(&lines, &t), done);
    st = check_end(path, text, bytes);
    *begin_ms_out = t.begin_ms;
done:
    sl_free(t.dep_job);
    return st;
}

/* ---- trace.rec ---- */

/* The activity of a worker's state. */
struct activity {
    enum sl_trace_kind kind;
    uint32_t stage;
    bool ours;
    uint64_t step;
};

/* A worker while trace.rec is read: its current state, and the states below. */
struct worker {
    struct activity nested[MAX_NESTED];
    uint32_t depth; /* nested[depth] is the current state */
    bool resumed;
    double since_s;
};

/* The current event. Values point into the file. */
struct event {
    char type; /* S(et), P(ush), O: pop, M: a mark or another user event; 0: other */
    const char *name, *name_end;
    const char *category, *category_end;
    bool has_worker, has_time;
    uint64_t worker;
    double time_ms;
};

struct states {
    struct sl_trace_data *data;
    struct worker *worker; /* data->n_workers */
    size_t worker_room, state_room;
    double begin_ms;
    double last_ms;   /* of the latest event */
    bool has_step;    /* a step of ours began, so that a mark "end" must follow */
    uint32_t n_ended; /* marks "end" so far; one per rank */
    uint32_t rank;    /* rank of the current events */
    uint32_t stride;  /* several ranks: room for each rank's workers; 0: one rank */
    bool outside;     /* the current events lie outside their rank's window */
};

static bool is(const char *text, const char *end, const char *word)
{
    return text != NULL && (size_t)(end - text) == strlen(word) && memcmp(text, word, strlen(word)) == 0;
}

static struct activity activity_of(struct sl_trace_data *data, const struct event *event)
{
    struct activity activity = {.kind = SL_TRACE_IDLE};
    struct sl_trace_name name;
    if (is(event->category, event->category_end, "Task")) {
        activity.kind = SL_TRACE_BUSY;
        size_t n = (size_t)(event->name_end - event->name);
        activity.ours = sl_trace_name_parse(event->name, n, &name);
        if (activity.ours) {
            activity.stage = (uint32_t)name.stage;
            activity.step = name.step;
        } else {
            activity.stage = foreign_stage(data, event->name, n);
        }
    } else if (is(event->category, event->category_end, "Runtime")) {
        bool moves =
            is(event->name, event->name_end, "FetchingInput") || is(event->name, event->name_end, "PushingOutput");
        activity.kind = moves ? SL_TRACE_TRANSFER : SL_TRACE_STARPU;
    }
    return activity;
}

/* Append the worker's state until `now_s`, cut to the makespan. Before its first event in the window a worker
 * outside a task has no work yet. That time is idle, whatever the worker's state before the trace was. */
static enum sl_status close_state(struct states *s, uint32_t w, double now_s)
{
    struct sl_trace_data *data = s->data;
    struct worker *worker = &s->worker[w];
    const struct activity *activity = &worker->nested[worker->depth];
    double start_s = fmax(worker->since_s, 0);
    double end_s = fmin(now_s, data->makespan_s);
    bool early = worker->since_s <= 0 && activity->kind != SL_TRACE_BUSY;
    enum sl_status st = SL_OK;
    worker->since_s = fmax(now_s, worker->since_s);
    if (end_s <= start_s) {
        return SL_OK;
    }
    SL_TRY(st, make_room(&data->state, data->n_states, &s->state_room, sizeof *data->state, "states"), done);
    data->state[data->n_states++] = (struct sl_trace_state){.worker = w,
                                                            .kind = early ? SL_TRACE_IDLE : activity->kind,
                                                            .stage = activity->stage,
                                                            .ours = activity->ours,
                                                            .resumed = worker->resumed,
                                                            .step = activity->step,
                                                            .start_s = start_s,
                                                            .end_s = end_s};
done:
    return st;
}

static enum sl_status add_workers(struct states *s, uint32_t n)
{
    enum sl_status st = SL_OK;
    while (s->data->n_workers < n) {
        SL_TRY(st, make_room(&s->worker, s->data->n_workers, &s->worker_room, sizeof *s->worker, "workers"), done);
        s->worker[s->data->n_workers++] = (struct worker){.since_s = -INFINITY};
    }
done:
    return st;
}

/* The task with a codelet running from *start_s to `end_s`. NULL: no such run, or its worker is in no task. With
 * several ranks StarPU has stretched the times to rank 0's clock, but not the duration in the mark. So *start_s is
 * cut to the task. */
static struct sl_trace_task *marked_task(const struct states *s, uint64_t job, double *start_s, double end_s)
{
    struct sl_trace_task *task = find_job(s->data, job);
    if (task == NULL || !task->ran || task->worker >= s->data->n_workers || end_s < task->start_s ||
        end_s > task->end_s) {
        return NULL;
    }
    *start_s = s->stride > 0 ? fmax(*start_s, task->start_s) : *start_s;
    if (*start_s < task->start_s) {
        return NULL;
    }
    const struct worker *worker = &s->worker[task->worker];
    return worker->nested[worker->depth].kind == SL_TRACE_BUSY ? task : NULL;
}

/* Cut the task, and its worker's busy state, to the time of its codelet. The rest counts as StarPU. */
static enum sl_status cut_task(struct states *s, struct sl_trace_task *task, double start_s, double end_s)
{
    static const struct activity starpu = {.kind = SL_TRACE_STARPU};
    struct worker *worker = &s->worker[task->worker];
    struct activity *now = &worker->nested[worker->depth];
    struct activity busy = *now;
    enum sl_status st;
    task->start_s = start_s;
    task->end_s = end_s;
    *now = starpu;
    SL_TRY(st, close_state(s, task->worker, start_s), done);
    *now = busy;
    SL_TRY(st, close_state(s, task->worker, end_s), done);
    *now = starpu;
done:
    return st;
}

/* Handle a user event: a task's mark, a step's mark, or a window's last mark. Others are ignored. */
static enum sl_status end_mark(const struct lines *lines, struct states *s, const struct event *event)
{
    const char *p = event->name;
    const char *step = event->name;
    const char *rank = event->name;
    const char *end = event->name_end;
    uint64_t job;
    uint64_t ns;
    s->has_step |= step != NULL && sl_trace_skip_number(&step, end, "step", &job);
    if (is(p, end, "end")) {
        s->n_ended++;
        s->outside = s->stride > 0;
    }
    if (s->stride > 0 && rank != NULL && sl_trace_skip_number(&rank, end, "rank", &job) && job < s->data->n_ranks) {
        s->rank = (uint32_t)job;
        s->outside = false;
    }
    if (p == NULL || !sl_trace_skip(&p, end, SL_TASK_MARK)) {
        return SL_OK;
    }
    if (!sl_trace_skip_number(&p, end, "", &job) || !sl_trace_skip_number(&p, end, ".", &ns) || p != end ||
        !event->has_time) {
        return unexpected(lines, "a mark " SL_TASK_MARK "JOB.NANOSECONDS and a time", event->name, end);
    }
    double end_s = (event->time_ms - s->begin_ms) / 1e3;
    double start_s = end_s - 1e-9 * (double)ns;
    struct sl_trace_task *task = marked_task(s, job | (uint64_t)s->rank << RANK_SHIFT, &start_s, end_s);
    if (task == NULL) {
        return unexpected(lines, "the mark of a task that ran for that time", event->name, end);
    }
    return cut_task(s, task, start_s, end_s);
}

/* Handle a complete record: the state of a worker changes. */
static enum sl_status end_event(const struct lines *lines, struct states *s, const struct event *event)
{
    enum sl_status st;
    if (event->type == 'M') {
        return end_mark(lines, s, event);
    }
    if (event->type == 0 || !event->has_worker) {
        return SL_OK;
    }
    if (!event->has_time || event->worker >= SL_TRACE_MAX_WORKERS || (event->type != 'O' && event->name == NULL)) {
        return unexpected(lines, "a worker below 4096, a name and a time in the record that ends here", "", "");
    }
    if (s->outside) {
        return SL_OK;
    }
    uint32_t w = (uint32_t)event->worker + s->rank * s->stride;
    SL_TRY(st, add_workers(s, w + 1), done);
    struct worker *worker = &s->worker[w];
    SL_TRY(st, close_state(s, w, (event->time_ms - s->begin_ms) / 1e3), done);
    if (event->type == 'P' && worker->depth + 1 == MAX_NESTED) {
        return unexpected(lines, "fewer states pushed on one another", "", "");
    }
    worker->resumed = event->type == 'O';
    if (event->type == 'O') { /* a push before the trace began left no state below */
        worker->depth -= worker->depth > 0;
    } else {
        worker->depth = event->type == 'P' ? worker->depth + 1 : 0;
        worker->nested[worker->depth] = activity_of(s->data, event);
    }
done:
    return st;
}

/* The letter for an event's name; 0: other. */
static char event_type(const char *name, const char *end)
{
    static const struct {
        const char *name;
        char type;
    } types[] = {{"SetState", 'S'}, {"PushState", 'P'}, {"PopState", 'O'}, {"ProgEvent", 'M'}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (is(name, end, types[i].name)) {
            return types[i].type;
        }
    }
    return '\0';
}

static enum sl_status read_event(const struct lines *lines, const char *line, const char *end, struct event *event)
{
    const char *v;
    enum sl_status st = SL_OK;
    if ((v = value_of(line, end, "E")) != NULL) {
        event->type = event_type(v, end);
    } else if ((v = value_of(line, end, "N")) != NULL) {
        event->name = v;
        event->name_end = end;
    } else if ((v = value_of(line, end, "C")) != NULL) {
        event->category = v;
        event->category_end = end;
    } else if ((v = value_of(line, end, "W")) != NULL) {
        event->has_worker = v < end && *v != '-'; /* -1: a thread of the program */
        if (event->has_worker) {
            st = read_u64(lines, v, end, &event->worker);
        }
    } else if ((v = value_of(line, end, "S")) != NULL) {
        event->has_time = true;
        st = read_time(lines, v, end, &event->time_ms);
    }
    return st;
}

static int compare_states(const void *a, const void *b)
{
    const struct sl_trace_state *x = a;
    const struct sl_trace_state *y = b;
    if (x->worker != y->worker) {
        return (x->worker > y->worker) - (x->worker < y->worker);
    }
    return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

/* Several ranks: set the stride to the largest number of workers of a rank. */
static void set_stride(struct lines lines, struct states *s)
{
    const struct sl_trace_data *data = s->data;
    const char *line;
    const char *end;
    uint64_t w;
    if (data->n_ranks <= 1) {
        return;
    }
    while (next_line(&lines, &line, &end)) {
        const char *v = value_of(line, end, "W");
        if (v != NULL && sl_number_u64(v, end, &w) == end && w < SL_TRACE_MAX_WORKERS && w >= s->stride) {
            s->stride = (uint32_t)w + 1;
        }
    }
    for (size_t i = 0; i < data->n_tasks; i++) {
        const struct sl_trace_task *task = &data->task[i];
        if (task->ran && task->worker >= s->stride) {
            s->stride = task->worker + 1;
        }
    }
}

/* Several ranks: number the workers of all ranks, `stride` numbers per rank. */
static enum sl_status number_workers(struct lines lines, struct states *s)
{
    struct sl_trace_data *data = s->data;
    set_stride(lines, s);
    if ((uint64_t)s->stride * data->n_ranks > SL_TRACE_MAX_WORKERS) {
        return sl_fail(SL_ENOTSUP, "%s: found %u ranks of up to %u workers, expected at most %d workers in all",
                       lines.path, data->n_ranks, s->stride, SL_TRACE_MAX_WORKERS);
    }
    for (size_t i = 0; i < data->n_tasks; i++) {
        struct sl_trace_task *task = &data->task[i];
        task->worker = task->ran ? task->worker + task->rank * s->stride : 0;
    }
    s->outside = s->stride > 0;
    return SL_OK;
}

/* Several ranks: renumber the workers without the unused numbers of ranks with fewer workers. */
static enum sl_status name_workers(const struct states *s)
{
    struct sl_trace_data *data = s->data;
    uint32_t n = s->stride * data->n_ranks;
    uint32_t *new_number = NULL; /* 1 + the new number; 0: no worker */
    uint32_t n_left = 0;
    enum sl_status st;
    SL_TRY(st, sl_alloc_zero(n, sizeof *new_number, "workers", &new_number), done);
    SL_TRY(st, sl_alloc(n, sizeof *data->worker, "workers", &data->worker), done);
    for (size_t i = 0; i < data->n_tasks; i++) {
        new_number[data->task[i].worker] |= data->task[i].ran;
    }
    for (size_t i = 0; i < data->n_states; i++) {
        new_number[data->state[i].worker] = 1;
    }
    for (uint32_t w = 0; w < n; w++) {
        if (new_number[w] > 0) {
            data->worker[n_left++] = (struct sl_trace_worker){w / s->stride, w % s->stride};
            new_number[w] = n_left;
        }
    }
    for (size_t i = 0; i < data->n_tasks; i++) {
        uint32_t w = new_number[data->task[i].worker];
        data->task[i].worker = w > 0 ? w - 1 : 0;
    }
    for (size_t i = 0; i < data->n_states; i++) {
        data->state[i].worker = new_number[data->state[i].worker] - 1;
    }
    data->n_workers = n_left;
done:
    sl_free(new_number);
    return st;
}

void sl_trace_worker_name(const struct sl_trace_data *data, uint32_t worker, char out[SL_TRACE_WORKER_BYTES])
{
    if (data->n_ranks > 1) {
        snprintf(out, SL_TRACE_WORKER_BYTES, "rank %u: %u", data->worker[worker].rank, data->worker[worker].number);
    } else {
        snprintf(out, SL_TRACE_WORKER_BYTES, "worker %u", worker);
    }
}

static enum sl_status read_states(const char *path, double begin_ms, struct sl_trace_data *data)
{
    struct states s = {.data = data, .begin_ms = begin_ms, .last_ms = begin_ms};
    struct event event = {0};
    const char *line;
    const char *end;
    char *text = NULL;
    size_t bytes;
    enum sl_status st;
    SL_TRY(st, sl_file_read(path, MAX_FILE, &text, &bytes), done);
    data->file[1] = text;
    struct lines lines = {.path = path, .p = text, .end = text + bytes};
    SL_TRY(st, number_workers(lines, &s), done);
    while (next_line(&lines, &line, &end)) {
        if (line == end) {
            SL_TRY(st, end_event(&lines, &s, &event), done);
            if (event.has_time) {
                s.last_ms = fmax(s.last_ms, event.time_ms);
            }
            event = (struct event){0};
        } else {
            SL_TRY(st, read_event(&lines, line, end, &event), done);
        }
    }
    SL_TRY(st, end_event(&lines, &s, &event), done);
    for (uint32_t w = 0; w < data->n_workers; w++) {
        SL_TRY(st, close_state(&s, w, INFINITY), done);
    }
    if (data->n_workers == 0 || data->n_states == 0) {
        st = sl_fail(SL_EFILE, "%s: no worker in any state; expected the trace of some steps", path);
        goto done;
    }
    SL_TRY(st, check_end(path, text, bytes), done);
    if (s.has_step && s.n_ended < (data->n_ranks > 1 ? data->n_ranks : 1)) {
        st = sl_fail(
            SL_EFILE,
            "%s: expected the mark 'end' behind those of its steps, found none; it was cut short: was a disk full?",
            path);
        goto done;
    }
    if (1e3 * data->makespan_s - (s.last_ms - begin_ms) > SLACK_MS) {
        st = sl_fail(SL_EFILE,
                     "%s: expected events until the last task's end, found the last one %.3f ms before it; it was cut "
                     "short: was a disk full?",
                     path, 1e3 * data->makespan_s - (s.last_ms - begin_ms));
        goto done;
    }
    qsort(data->state, data->n_states, sizeof *data->state, compare_states);
    if (s.stride > 0) {
        st = name_workers(&s);
    }
done:
    sl_free(s.worker);
    return st;
}

/* ---- comms.rec ---- */

/* The current record. */
struct message {
    struct sl_trace_message now;
    double send_ms, receive_ms;
    uint32_t n_fields; /* of the five needed */
};

static enum sl_status read_message_field(const struct lines *lines, const char *line, const char *end,
                                         const struct sl_trace_data *data, struct message *m)
{
    const char *v;
    enum sl_status st = SL_OK;
    if ((v = value_of(line, end, "Src")) != NULL) {
        st = read_rank(lines, v, end, data->n_ranks, &m->now.from);
    } else if ((v = value_of(line, end, "Dst")) != NULL) {
        st = read_rank(lines, v, end, data->n_ranks, &m->now.to);
    } else if ((v = value_of(line, end, "SendTime")) != NULL) {
        st = read_time(lines, v, end, &m->send_ms);
    } else if ((v = value_of(line, end, "RecvTime")) != NULL) {
        st = read_time(lines, v, end, &m->receive_ms);
    } else if ((v = value_of(line, end, "Size")) != NULL) {
        st = read_u64(lines, v, end, &m->now.bytes);
    }
    m->n_fields += v != NULL;
    return st;
}

/* Keep the message of a complete record. The ranks' clocks differ by microseconds, so a receipt before the sending
 * is moved to the sending. */
static enum sl_status end_message(const struct lines *lines, double begin_ms, struct message *m, size_t *room,
                                  struct sl_trace_data *data)
{
    enum sl_status st = SL_OK;
    if (m->n_fields > 0 && m->n_fields < 5) {
        return unexpected(lines, "Src, Dst, SendTime, RecvTime and Size in the record that ends here", "", "");
    }
    if (m->n_fields > 0) {
        m->now.start_s = (m->send_ms - begin_ms) / 1e3;
        m->now.end_s = (fmax(m->send_ms, m->receive_ms) - begin_ms) / 1e3;
        SL_TRY(st, make_room(&data->message, data->n_messages, room, sizeof *data->message, "messages"), done);
        data->message[data->n_messages++] = m->now;
    }
    *m = (struct message){0};
done:
    return st;
}

static enum sl_status read_messages(const char *path, double begin_ms, struct sl_trace_data *data)
{
    struct message m = {0};
    const char *line;
    const char *end;
    char *text = NULL;
    size_t room = 0;
    size_t bytes;
    enum sl_status st;
    SL_TRY(st, sl_file_read(path, MAX_FILE, &text, &bytes), done);
    struct lines lines = {.path = path, .p = text, .end = text + bytes};
    while (next_line(&lines, &line, &end)) {
        if (line == end) {
            SL_TRY(st, end_message(&lines, begin_ms, &m, &room, data), done);
        } else {
            SL_TRY(st, read_message_field(&lines, line, end, data, &m), done);
        }
    }
    SL_TRY(st, end_message(&lines, begin_ms, &m, &room, data), done);
    if (bytes > 0) { /* an empty file: no messages between the ranks */
        st = check_end(path, text, bytes);
    }
done:
    sl_free(text);
    return st;
}

/* ---- the folder ---- */

enum sl_status sl_trace_read(const char *folder, struct sl_trace_data *out)
{
    char *tasks = NULL;
    char *states = NULL;
    char *messages = NULL;
    double begin_ms;
    enum sl_status st;
    *out = (struct sl_trace_data){.n_stages = SL_N_STAGES};
    for (int s = 0; s < SL_N_STAGES; s++) {
        snprintf(out->stage[s].name, sizeof out->stage[s].name, "%s", sl_stage_name((enum sl_stage)s));
        out->stage[s].colour = sl_stage_colour((enum sl_stage)s);
    }
    SL_TRY(st, sl_path_join(folder, "tasks.rec", &tasks), done);
    SL_TRY(st, sl_path_join(folder, "trace.rec", &states), done);
    SL_TRY(st, sl_path_join(folder, "comms.rec", &messages), done);
    SL_TRY(st, read_tasks(tasks, out, &begin_ms), done);
    SL_TRY(st, read_states(states, begin_ms, out), done);
    if (out->n_ranks > 1) {
        st = read_messages(messages, begin_ms, out);
    }
done:
    sl_free(messages);
    sl_free(states);
    sl_free(tasks);
    if (st != SL_OK) {
        sl_trace_data_free(out);
    }
    return st;
}

void sl_trace_data_free(struct sl_trace_data *data)
{
    sl_free(data->task);
    sl_free(data->dep);
    sl_free(data->state);
    sl_free(data->worker);
    sl_free(data->message);
    sl_free(data->file[0]);
    sl_free(data->file[1]);
    *data = (struct sl_trace_data){0};
}
