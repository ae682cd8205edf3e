/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Filling and submitting tasks; clocks of the time categories and of the overlap. */
#include "tasks/task.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/clock.h"
#include "support/compare.h"
#include "support/memory.h"
#include "tasks/near.h"
#include "tasks/perfmodel.h"
#include "tasks/rows.h"
#include "tasks/waits.h"

_Static_assert(SL_NEAR_LOWEST == SL_PRIORITY_SAMPLE && SL_NEAR_HIGHEST == SL_PRIORITY_SEND, "enum sl_priority");

#define FIRST_SPANS 256 /* initial capacity of a log */
/* Search a step's span among the last few only, since older steps have ended. */
#define NEAR_STEPS 8

/* ---- stages ---- */

/* Neighbours in a timeline have different colours, also for colour-blind readers (after Okabe and Ito). */
static const struct {
    const char *name;
    unsigned colour;
} stages[SL_N_STAGES] = {
    [SL_STAGE_SAMPLE] = {"sample", 0x56b4e9},     [SL_STAGE_EXCHANGE] = {"exchange", 0xd55e00},
    [SL_STAGE_GATHER] = {"gather", 0xf0e442},     [SL_STAGE_AGGREGATE] = {"aggregate", 0x009e73},
    [SL_STAGE_DENSE] = {"dense", 0x0072b2},       [SL_STAGE_LOSS] = {"loss", 0x000000},
    [SL_STAGE_BACKWARD] = {"backward", 0xcc79a7}, [SL_STAGE_SYNC] = {"sync", 0x8c564b},
    [SL_STAGE_OPTIMISE] = {"optimise", 0xe69f00}, [SL_STAGE_EVALUATE] = {"evaluate", 0x7f6fb0},
};

const char *sl_stage_name(enum sl_stage stage)
{
    return stages[stage].name;
}

unsigned sl_stage_colour(enum sl_stage stage)
{
    return stages[stage].colour;
}

/* ---- one run ---- */

static void find_gpu_bytes(struct sl_run *run)
{
    struct sl_homes gpus;
    sl_homes_find(run->n_gpus, &gpus);
    for (unsigned i = 0; i < run->n_gpus; i++) {
        starpu_ssize_t bytes = starpu_memory_get_total(starpu_worker_get_memory_node(gpus.first_worker + i));
        if (bytes > 0 && (run->gpu_bytes == 0 || (uint64_t)bytes < run->gpu_bytes)) {
            run->gpu_bytes = (uint64_t)bytes;
        }
    }
}

enum sl_status sl_run_init(struct sl_run *run)
{
    memset(run, 0, sizeof *run);
    atomic_init(&run->failure.state, 0);
    run->n_workers = starpu_worker_get_count();
    run->n_gpus = sl_homes_count_gpus();
    run->has_cuda = starpu_cuda_worker_get_count() > 0;
    run->row_dtype = SL_DTYPE_REAL;
    find_gpu_bytes(run);
    run->min_priority = starpu_sched_get_min_priority();
    run->max_priority = starpu_sched_get_max_priority();
    return sl_alloc_zero(run->n_workers, sizeof *run->logs, "the workers' logs", &run->logs);
}

void sl_run_free(struct sl_run *run)
{
    if (run->logs == NULL) {
        return;
    }
    for (unsigned w = 0; w < run->n_workers; w++) {
        sl_free(run->logs[w].hidden);
        sl_free(run->logs[w].compute);
    }
    sl_free(run->logs);
    run->logs = NULL;
}

void sl_run_log_reset(struct sl_run *run)
{
    for (unsigned w = 0; w < run->n_workers; w++) {
        struct sl_worker_log *log = &run->logs[w];
        memset(log->stage_s, 0, sizeof log->stage_s);
        log->n_hidden = 0;
        log->n_compute = 0;
    }
}

void sl_run_stage_seconds(const struct sl_run *run, double seconds_out[SL_N_STAGES])
{
    for (int s = 0; s < SL_N_STAGES; s++) {
        seconds_out[s] = 0;
        for (unsigned w = 0; w < run->n_workers; w++) {
            seconds_out[s] += run->logs[w].stage_s[s];
        }
    }
}

/* ---- the clock of a task ---- */

static enum sl_status span_append(struct sl_span **spans, size_t *n, size_t *capacity, struct sl_span span)
{
    if (*n == *capacity) {
        size_t wanted = *capacity == 0 ? FIRST_SPANS : 2 * *capacity;
        SL_CHECK(sl_realloc(spans, wanted, sizeof **spans, "a worker's log"));
        *capacity = wanted;
    }
    (*spans)[(*n)++] = span;
    return SL_OK;
}

/* Extend the step's compute span by this span. */
static enum sl_status span_extend(struct sl_worker_log *log, struct sl_span span)
{
    size_t oldest = log->n_compute > NEAR_STEPS ? log->n_compute - NEAR_STEPS : 0;
    for (size_t i = log->n_compute; i > oldest; i--) {
        struct sl_span *known = &log->compute[i - 1];
        if (known->step == span.step) {
            known->start_s = fmin(known->start_s, span.start_s);
            known->end_s = fmax(known->end_s, span.end_s);
            return SL_OK;
        }
    }
    return span_append(&log->compute, &log->n_compute, &log->compute_capacity, span);
}

/* Write the task's mark. StarPU drops it if FxT does not record. */
static void mark_task(const struct sl_span *span)
{
    char mark[64];
    unsigned long job = starpu_task_get_job_id(starpu_task_get_current());
    snprintf(mark, sizeof mark, SL_TASK_MARK "%lu.%ld", job, lrint(1e9 * (span->end_s - span->start_s)));
    starpu_fxt_trace_user_event_string(mark);
}

/* This worker's log; NULL on other threads. */
static struct sl_worker_log *own_log(const struct sl_run *run)
{
    int worker = starpu_worker_get_id();
    return worker < 0 || (unsigned)worker >= run->n_workers ? NULL : &run->logs[worker];
}

static void set_current(struct sl_current_task *current, const struct sl_task_args *args)
{
    atomic_store_explicit(&current->step, args->step, memory_order_relaxed);
    atomic_store_explicit(&current->pe, args->pe, memory_order_relaxed);
    atomic_store_explicit(&current->stage, (uint32_t)args->stage, memory_order_relaxed);
    atomic_store_explicit(&current->args, args, memory_order_relaxed);
    atomic_store_explicit(&current->name, args->operation->codelet.name, memory_order_release);
}

static void begin_work(const struct sl_task_args *args)
{
    struct sl_worker_log *log = own_log(args->run);
    if (log != NULL) {
        set_current(&log->current, args);
    }
}

/* Clear the current task, unless the worker (of a GPU) has started another meanwhile. */
static void end_work(struct sl_worker_log *log, const struct sl_task_args *args)
{
    if (atomic_load_explicit(&log->current.args, memory_order_relaxed) == args) {
        atomic_store_explicit(&log->current.name, NULL, memory_order_relaxed);
    }
}

/* "PE 0, step 3". */
static void print_place(uint32_t pe, uint64_t step, enum sl_stage stage, char *out, size_t bytes)
{
    if (stage == SL_STAGE_EVALUATE) {
        snprintf(out, bytes, "PE %u, evaluation", pe);
    } else {
        snprintf(out, bytes, "PE %u, step %llu", pe, (unsigned long long)step);
    }
}

/* Put the codelet, the PE and the step before this thread's last message. */
static enum sl_status with_place(const struct sl_operation *operation, const struct sl_task_args *args,
                                 enum sl_status st)
{
    char place[48];
    print_place(args->pe, args->step, args->stage, place, sizeof place);
    return sl_fail(st, "%s, %s: %s", operation->codelet.name, place, sl_message());
}

bool sl_run_at_work(const struct sl_run *run, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (unsigned w = 0; w < run->n_workers; w++) {
        const struct sl_current_task *current = &run->logs[w].current;
        const char *name = atomic_load_explicit(&current->name, memory_order_acquire);
        char place[48];
        char worker[32];
        if (name == NULL || used >= bytes) {
            continue;
        }
        print_place(current->pe, current->step, (enum sl_stage)current->stage, place, sizeof place);
        starpu_worker_get_name((int)w, worker, sizeof worker);
        used +=
            (size_t)snprintf(out + used, bytes - used, "%s%s, %s, on %s", used > 0 ? "; " : "", name, place, worker);
    }
    return out[0] != '\0';
}

int sl_task_enter(const struct sl_task_args *args, double *start_s_out)
{
    *start_s_out = sl_clock_s();
    if (sl_failure_seen(&args->run->failure)) {
        return 1;
    }
    begin_work(args);
    sl_waits_busy(1, *start_s_out);
    return 0;
}

void sl_task_fail(const struct sl_task_args *args, enum sl_status st)
{
    struct sl_worker_log *log = own_log(args->run);
    if (log != NULL) {
        end_work(log, args);
    }
    sl_failure_set(&args->run->failure, with_place(args->operation, args, st));
}

static void count_span(const struct sl_task_args *args, struct sl_worker_log *log, struct sl_span span)
{
    enum sl_status st = SL_OK;
    log->stage_s[args->stage] += span.end_s - span.start_s;
    if (args->stage == SL_STAGE_SAMPLE || args->stage == SL_STAGE_GATHER) {
        st = span_append(&log->hidden, &log->n_hidden, &log->hidden_capacity, span);
    } else if (sl_stage_is_compute(args->stage)) {
        st = span_extend(log, span);
    }
    if (st != SL_OK) {
        sl_task_fail(args, st);
    }
}

void sl_task_leave(const struct sl_task_args *args, double start_s)
{
    struct sl_worker_log *log = own_log(args->run);
    if (log == NULL) {
        return;
    }
    struct sl_span span = {args->step, start_s, sl_clock_s()};
    end_work(log, args);
    if (args->run->traced) {
        mark_task(&span);
    }
    count_span(args, log, span);
    sl_waits_busy(-1, span.end_s);
}

/* A GPU worker is busy from the start of a task until no started task is left. */
static void count_on_device(const struct sl_run *run, int by, double now_s)
{
    struct sl_worker_log *log = own_log(run);
    if (log != NULL) {
        log->n_on_device += by;
        if (log->n_on_device == (by > 0 ? 1 : 0)) {
            sl_waits_busy(by, now_s);
        }
    }
}

int sl_task_enter_cuda(struct sl_task_args *args)
{
    args->device_start_s = sl_clock_s();
    begin_work(args);
    count_on_device(args->run, 1, args->device_start_s);
    return sl_failure_seen(&args->run->failure);
}

/* Callback of StarPU, on the worker that ran the task, after its end. */
static void count_cuda_task(void *task_args)
{
    const struct sl_task_args *args = task_args;
    struct sl_worker_log *log = own_log(args->run);
    if (log != NULL && args->device_start_s > 0) {
        double end_s = sl_clock_s();
        count_span(args, log, (struct sl_span){args->step, fmax(args->device_start_s, log->device_end_s), end_s});
        log->device_end_s = end_s;
        end_work(log, args);
        count_on_device(args->run, -1, end_s);
    }
}

/* ---- the overlap ---- */

static int compare_steps(const void *a, const void *b)
{
    return sl_order(((const struct sl_span *)a)->step, ((const struct sl_span *)b)->step, 0, 0);
}

/* All workers' compute spans, ordered by step. Each span is extended by the spans of all earlier steps. */
static enum sl_status collect_compute(const struct sl_run *run, struct sl_span **out, size_t *n_out)
{
    size_t n = 0;
    for (unsigned w = 0; w < run->n_workers; w++) {
        n += run->logs[w].n_compute;
    }
    struct sl_span *spans;
    SL_CHECK(sl_alloc(n, sizeof *spans, "the compute spans", &spans));
    n = 0;
    for (unsigned w = 0; w < run->n_workers; w++) {
        const struct sl_worker_log *log = &run->logs[w];
        if (log->n_compute > 0) {
            memcpy(spans + n, log->compute, log->n_compute * sizeof *spans);
            n += log->n_compute;
        }
    }
    qsort(spans, n, sizeof *spans, compare_steps);
    for (size_t i = 1; i < n; i++) {
        spans[i].start_s = fmin(spans[i].start_s, spans[i - 1].start_s);
        spans[i].end_s = fmax(spans[i].end_s, spans[i - 1].end_s);
    }
    *out = spans;
    *n_out = n;
    return SL_OK;
}

/* The time in `hidden` during which an earlier step was computing. */
static double covered_s(const struct sl_span *hidden, const struct sl_span *compute, size_t n)
{
    const size_t n_earlier = sl_first_from(compute, n, sizeof *compute, hidden->step);
    if (n_earlier == 0) {
        return 0;
    }
    double start_s = fmax(hidden->start_s, compute[n_earlier - 1].start_s);
    double end_s = fmin(hidden->end_s, compute[n_earlier - 1].end_s);
    return fmax(0, end_s - start_s);
}

enum sl_status sl_run_overlap(const struct sl_run *run, double *share_out)
{
    SL_FREED struct sl_span *compute = NULL;
    size_t n;
    SL_CHECK(collect_compute(run, &compute, &n));
    double total = 0;
    double covered = 0;
    for (unsigned w = 0; w < run->n_workers; w++) {
        const struct sl_worker_log *log = &run->logs[w];
        for (size_t i = 0; i < log->n_hidden; i++) {
            total += log->hidden[i].end_s - log->hidden[i].start_s;
            covered += covered_s(&log->hidden[i], compute, n);
        }
    }
    *share_out = total > 0 ? covered / total : 0;
    return SL_OK;
}

/* ---- performance models ---- */

size_t sl_task_size_base(struct starpu_task *task, unsigned n_implementation)
{
    (void)n_implementation;
    uint64_t work = ((const struct sl_task_args *)task->cl_arg)->work;
    return work > 0 ? work : 1; /* the regression takes the logarithm */
}

uint32_t sl_task_footprint(struct starpu_task *task)
{
    uint64_t work = ((const struct sl_task_args *)task->cl_arg)->work;
    uint32_t power = 0;
    while (work >> power >= 16) {
        power++;
    }
    return power * 16 + (uint32_t)(work >> power); /* power of two and leading four bits */
}

/* ---- filling a task ---- */

static bool is_fixed(const struct sl_buffer_role *role)
{
    return role->name != NULL && (role->mode & (SL_OPTIONAL | SL_REPEATED)) == 0;
}

void sl_task_begin(struct sl_task *task, struct sl_operation *operation)
{
    task->operation = operation;
    task->n_fixed = 0;
    assert(operation->role[SL_MAX_ROLES].name == NULL);
    while (task->n_fixed < SL_MAX_ROLES && is_fixed(&operation->role[task->n_fixed])) {
        task->n_fixed++;
    }
    task->given = 0;
    task->n_buffers = 0;
    task->capacity = SL_TASK_INLINE;
    task->status = SL_OK;
    task->handles = task->inline_handles;
    task->modes = task->inline_modes;
}

static void release_lists(struct sl_task *task)
{
    if (task->handles != task->inline_handles) {
        sl_free(task->handles); /* the modes are behind them */
    }
    task->handles = task->inline_handles;
    task->modes = task->inline_modes;
}

/* Double the capacity for buffers. */
static enum sl_status grow_lists(struct sl_task *task)
{
    starpu_data_handle_t *handles;
    SL_CHECK(sl_alloc(2 * (size_t)task->capacity, sizeof *handles + sizeof *task->modes, "a task's handles", &handles));
    enum starpu_data_access_mode *modes = (void *)(handles + 2 * (size_t)task->capacity);
    memcpy(handles, task->handles, task->n_buffers * sizeof *handles);
    memcpy(modes, task->modes, task->n_buffers * sizeof *modes);
    release_lists(task);
    task->handles = handles;
    task->modes = modes;
    task->capacity *= 2;
    return SL_OK;
}

static const char *mode_name(unsigned mode)
{
    static const char *const names[] = {"no access", "R", "W", "RW"};
    return names[mode & STARPU_RW];
}

static bool allows(const struct sl_buffer_role *role, enum starpu_data_access_mode mode)
{
    return mode == (role->mode & ~(SL_OPTIONAL | SL_REPEATED | SL_OR_RW)) ||
           (role->mode & SL_OR_RW && mode == STARPU_RW);
}

/* Check the next buffer against the operation. */
static enum sl_status check_buffer(const struct sl_task *task, unsigned number, starpu_data_handle_t handle,
                                   enum starpu_data_access_mode mode)
{
    const struct sl_buffer_role *role = &task->operation->role[number];
    SL_FAIL_IF(number >= SL_MAX_ROLES || role->name == NULL, SL_EINTERNAL,
               "buffer %u has role %u, which the codelet lacks", task->n_buffers, number);
    SL_FAIL_IF(handle == NULL, SL_EINTERNAL, "buffer '%s' has no handle", role->name);
    SL_FAIL_IF(!allows(role, mode), SL_EINTERNAL, "buffer '%s' was added with mode %s; expected %s%s", role->name,
               mode_name(mode), mode_name(role->mode), role->mode & SL_OR_RW ? " or RW" : "");
    SL_FAIL_IF(task->given >> number & 1 && (role->mode & SL_REPEATED) == 0, SL_EINTERNAL,
               "buffer '%s' was added twice", role->name);
    SL_FAIL_IF(number < task->n_fixed && number != task->n_buffers, SL_EINTERNAL,
               "buffer '%s' was added as buffer %u; expected %u", role->name, task->n_buffers, number);
    return SL_OK;
}

void sl_task_add(struct sl_task *task, unsigned role, starpu_data_handle_t handle, enum starpu_data_access_mode mode)
{
    if (task->status == SL_OK) {
        task->status = check_buffer(task, role, handle, mode);
    }
    if (task->status == SL_OK && task->n_buffers == task->capacity) {
        task->status = grow_lists(task);
    }
    if (task->status != SL_OK) {
        return;
    }
    task->handles[task->n_buffers] = handle;
    task->modes[task->n_buffers] = mode;
    task->given |= 1u << role;
    task->n_buffers++;
}

void sl_task_add_each(struct sl_task *task, unsigned role, uint32_t n, const starpu_data_handle_t *handles,
                      enum starpu_data_access_mode mode)
{
    for (uint32_t i = 0; i < n; i++) {
        sl_task_add(task, role, handles[i], mode);
    }
}

/* ---- submitting it ---- */

/* Each buffer that is neither optional nor repeated must be there. */
static enum sl_status check_buffers(const struct sl_task *task)
{
    const struct sl_buffer_role *role = task->operation->role;
    for (unsigned i = 0; i < SL_MAX_ROLES && role[i].name != NULL; i++) {
        SL_FAIL_IF((task->given >> i & 1) == 0 && (role[i].mode & (SL_OPTIONAL | SL_REPEATED)) == 0, SL_EINTERNAL,
                   "buffer '%s' is missing", role[i].name);
    }
    return SL_OK;
}

/* A copy that StarPU will free with free(). */
static void *copy_for_starpu(const void *data, size_t bytes)
{
    void *copy = malloc(bytes);
    if (copy != NULL) {
        memcpy(copy, data, bytes);
    }
    return copy;
}

/* Put the buffers into the task itself if they fit, otherwise into lists that StarPU frees with the task. */
static int set_buffers(struct starpu_task *out, const struct sl_task *task)
{
    unsigned n = task->n_buffers;
    out->nbuffers = (int)n;
    if (n <= STARPU_NMAXBUFS) {
        memcpy(out->handles, task->handles, n * sizeof *task->handles);
        memcpy(out->modes, task->modes, n * sizeof *task->modes);
        return 1;
    }
    out->dyn_handles = copy_for_starpu(task->handles, n * sizeof *task->handles);
    out->dyn_modes = copy_for_starpu(task->modes, n * sizeof *task->modes);
    return out->dyn_handles != NULL && out->dyn_modes != NULL;
}

/* With several ranks, sampling comes first. Its messages then travel while earlier steps compute, and not after
 * them. */
static int wished(const struct sl_run *run, enum sl_priority priority)
{
    return priority == SL_PRIORITY_SAMPLE && run->sample_first ? SL_PRIORITY_SEND : (int)priority;
}

static void set_options(struct starpu_task *out, const struct sl_task_args *args, enum sl_priority priority)
{
    const struct sl_run *run = args->run;
    int wish = wished(run, priority);
    out->priority = wish < run->min_priority ? run->min_priority : wish;
    if (out->priority > run->max_priority) {
        out->priority = run->max_priority;
    }
    bool for_gpus = out->cl->cuda_funcs[0] != NULL;
    /* A GPU codelet with specific memory nodes uses a cache of feature rows (codelets/rows/row_cache.h). If a CPU
     * worker took such a task, the cache would move to main memory and back. */
    bool for_gpus_only = for_gpus && (run->gpus_first || (run->has_cuda && out->cl->specific_nodes));
    bool anywhere = run->evaluate_anywhere && args->stage == SL_STAGE_EVALUATE;
    if (run->evaluate_on_cpus && args->stage == SL_STAGE_EVALUATE) {
        out->where = STARPU_CPU;
    } else if (run->homes != NULL && !anywhere && (for_gpus || !run->homes->gpus)) {
        out->execute_on_a_specific_worker = 1;
        out->workerid = (unsigned)sl_home_worker(run->homes, args->pe);
    } else if (for_gpus_only) {
        out->where = STARPU_CUDA;
    }
    if (run->near != NULL && !anywhere) {
        out->sched_data = sl_near_place(run->near, args->pe);
    }
    if (run->has_cuda) {
        out->callback_func = count_cuda_task;
        out->callback_arg = out->cl_arg;
    }
    if (out->cl->model != NULL && out->cl->model->type == STARPU_HISTORY_BASED) {
        out->flops = (double)args->work;
    }
}

static const char *direction_of(enum sl_stage stage)
{
    switch (stage) {
    case SL_STAGE_BACKWARD: return "bwd";
    case SL_STAGE_SYNC:
    case SL_STAGE_OPTIMISE: return "upd";
    default: return "fwd";
    }
}

void sl_task_name(const struct sl_task_args *args, const char *codelet_name, char out[SL_TASK_NAME_BYTES])
{
    static const char *const words[] = {"sl_", "_forward", "_backward"};
    char operation[SL_TASK_NAME_BYTES];
    snprintf(operation, sizeof operation, "%s", codelet_name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char *word = strstr(operation, words[i]);
        if (word != NULL) {
            memmove(word, word + strlen(words[i]), strlen(word + strlen(words[i])) + 1);
        }
    }
    snprintf(out, SL_TASK_NAME_BYTES, "%s.%s.%.40s.hop%u.pe%u.step%llu", stages[args->stage].name,
             direction_of(args->stage), operation, args->hop, args->pe, (unsigned long long)args->step);
}

/* Copy the arguments. The name is stored behind them, so that StarPU frees both with the task. */
static void set_arguments(struct starpu_task *out, const void *args, size_t args_bytes)
{
    const char *name = out->cl->name;
    const struct sl_task_args *head = args;
    size_t name_bytes = head->run->traced ? SL_TASK_NAME_BYTES : 0;
    char *copy = malloc(args_bytes + name_bytes);
    out->name = name;
    out->cl_arg = copy;
    out->cl_arg_size = args_bytes;
    out->cl_arg_free = 1;
    if (copy == NULL) {
        return;
    }
    memcpy(copy, args, args_bytes);
    if (name_bytes > 0) {
        sl_task_name(head, name, copy + args_bytes);
        out->name = copy + args_bytes;
        out->color = sl_stage_colour(head->stage);
    }
}

static enum sl_status try_to_submit(const struct sl_task *task, const void *args, size_t args_bytes,
                                    enum sl_priority priority, struct starpu_task *out)
{
    out->cl = &task->operation->codelet;
    set_arguments(out, args, args_bytes);
    SL_FAIL_IF(!set_buffers(out, task) || out->cl_arg == NULL, SL_ENOMEM, "no memory for a task of %u buffers",
               task->n_buffers);
    set_options(out, args, priority);
    SL_CHECK(sl_perfmodel_check(out->cl->model));
    int error = starpu_task_submit(out);
    SL_FAIL_IF(error == -ENODEV, SL_ENODEV, "no worker can run this task; give StarPU at least one CPU worker");
    SL_FAIL_IF(error != 0, SL_ESTARPU, "StarPU refused the task: %s", strerror(-error));
    return SL_OK;
}

static enum sl_status submit(const struct sl_task *task, const void *args, size_t args_bytes, enum sl_priority priority)
{
    struct starpu_task *out = starpu_task_create();
    enum sl_status st = try_to_submit(task, args, args_bytes, priority, out);
    if (st != SL_OK) {
        out->destroy = 0;
        starpu_task_destroy(out);
        st = with_place(task->operation, args, st);
    }
    return st;
}

enum sl_status sl_task_submit(struct sl_task *task, void *args, size_t args_bytes, enum sl_priority priority)
{
    assert(args_bytes >= sizeof(struct sl_task_args));
    struct sl_task_args *head = args;
    const struct sl_run *run = head->run;
    enum sl_status st = task->status;
    head->operation = task->operation;
    if (task->operation->stage != SL_N_STAGES) {
        head->stage = sl_task_stage(head, task->operation->stage);
    }
    if (st == SL_OK) {
        st = check_buffers(task);
    }
    if (st != SL_OK) {
        st = with_place(task->operation, args, st);
    } else if (run->holder == NULL) {
        st = submit(task, args, args_bytes, priority);
    } else {
        st = run->holder->hold(run->holder, task, args, args_bytes, priority);
    }
    release_lists(task);
    return st;
}

/* Append the operands of a view. Slices of one matrix are one buffer. */
static void add_operands(struct sl_task *task, const void *view)
{
    for (unsigned i = 0; task->operation->role[i].name != NULL; i++) {
        const struct sl_buffer_role *role = &task->operation->role[i];
        const uint32_t n = sl_operand_count(role, view);
        struct sl_matrix room;
        for (uint32_t k = 0; k < n; k++) {
            const struct sl_matrix *m = sl_operand_at(role, view, k, &room);
            if (!m->is_again && (m->handle != NULL || (role->mode & SL_OPTIONAL) == 0)) {
                sl_task_add(task, i, m->handle, sl_operand_mode(role, m));
            }
        }
    }
}

enum sl_status sl_view_submit(struct sl_operation *operation, void *view, enum sl_priority priority)
{
    const struct sl_buffer_role *roles = operation->role;
    const size_t lists = sl_operands_list_bytes(roles, view);
    struct sl_task_args *head = view;
    struct sl_task task;
    char *copy = NULL;
    sl_task_begin(&task, operation);
    add_operands(&task, view);
    if (task.status == SL_OK) {
        task.status = sl_operands_check(roles, head->runs, view);
    }
    if (head->work == 0 && task.status == SL_OK) {
        head->work = sl_operands_bytes(roles, view);
    }
    if (task.status == SL_OK && lists > 0) {
        task.status = sl_alloc(1, operation->bytes + lists, "a task's arguments", &copy);
    }
    if (copy == NULL) {
        return sl_task_submit(&task, view, operation->bytes, priority);
    }
    sl_operands_copy(roles, operation->bytes, view, copy);
    enum sl_status st = sl_task_submit(&task, copy, operation->bytes + lists, priority);
    sl_free(copy);
    return st;
}

enum sl_status sl_task_hand_over(struct sl_task *task, const void *args, size_t args_bytes, enum sl_priority priority)
{
    enum sl_status st = task->status;
    if (st == SL_OK) {
        st = submit(task, args, args_bytes, priority);
    }
    release_lists(task);
    return st;
}
