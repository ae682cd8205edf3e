/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One queue for each worker, with one list for each priority. */
#include "tasks/near.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define N_LEVELS (SL_NEAR_HIGHEST - SL_NEAR_LOWEST + 1)
/* bytes between queues: two adjacent cache lines, because a core may prefetch the neighbour of the line it reads */
#define APART 128
/* Calls of pop without a task, about 1 us each, after which a worker begins to yield its core. */
#define PATIENCE 64

struct line {
    _Alignas(APART) pthread_mutex_t lock; /* protects n_tasks (for writing) and level */
    atomic_uint n_tasks;
    /* Turns taken so far among the workers that a PE has to itself; counted at the first of these workers. */
    atomic_uint n_turns;
    struct starpu_task_list level[N_LEVELS];
};

static struct line lines[STARPU_NMAXWORKERS];
static unsigned n_lines;
static unsigned n_steps; /* smallest power of two that is not below n_lines */

/* ---- places ---- */

#define N_BITS 16 /* low bits of a place: the first worker; the bits above: the number of workers */

_Static_assert(STARPU_NMAXWORKERS <= 1 << N_BITS, "a place's first worker");

void *sl_near_place(const struct sl_homes *homes, uint32_t pe)
{
    const struct sl_home_range range = sl_home_range(homes, pe);
    return (void *)((uintptr_t)range.n << N_BITS | (homes->first_worker + range.first));
}

/* Index of the queue that a task joins. */
static unsigned line_of(const struct starpu_task *task)
{
    const uintptr_t packed = (uintptr_t)task->sched_data;
    const unsigned first = packed & ((1u << N_BITS) - 1);
    const unsigned n = packed == 0 ? n_lines : (unsigned)(packed >> N_BITS);
    const unsigned here = (unsigned)starpu_worker_get_id(); /* on a thread that is no worker: a huge number */
    if (n > 1 && here - first >= n) {
        return first + atomic_fetch_add_explicit(&lines[first].n_turns, 1, memory_order_relaxed) % n;
    }
    return n == 1 ? first : here;
}

/* ---- lines ---- */

static unsigned level_of(const struct starpu_task *task)
{
    const int level = task->priority - SL_NEAR_LOWEST;
    if (level < 0) {
        return 0;
    }
    return level < N_LEVELS ? (unsigned)level : N_LEVELS - 1;
}

static struct starpu_task *take(struct line *line, struct starpu_task *pop_one(struct starpu_task_list *))
{
    struct starpu_task *task = NULL;
    if (atomic_load_explicit(&line->n_tasks, memory_order_relaxed) == 0) {
        return NULL;
    }
    pthread_mutex_lock(&line->lock);
    for (unsigned level = N_LEVELS; level-- > 0;) {
        if (!starpu_task_list_empty(&line->level[level])) {
            task = pop_one(&line->level[level]);
            break;
        }
    }
    if (task != NULL) {
        atomic_fetch_sub_explicit(&line->n_tasks, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&line->lock);
    return task;
}

/* ---- what StarPU calls ---- */

static void init(unsigned context)
{
    starpu_sched_ctx_set_min_priority(context, SL_NEAR_LOWEST);
    starpu_sched_ctx_set_max_priority(context, SL_NEAR_HIGHEST);
    n_lines = starpu_worker_get_count();
    for (n_steps = 1; n_steps < n_lines;) {
        n_steps *= 2;
    }
    for (unsigned i = 0; i < n_lines; i++) {
        pthread_mutex_init(&lines[i].lock, NULL);
        atomic_init(&lines[i].n_tasks, 0);
        atomic_init(&lines[i].n_turns, 0);
        for (unsigned level = 0; level < N_LEVELS; level++) {
            starpu_task_list_init(&lines[i].level[level]);
        }
    }
}

static void deinit(unsigned context)
{
    (void)context;
    for (unsigned i = 0; i < n_lines; i++) {
        pthread_mutex_destroy(&lines[i].lock);
    }
}

/* The set of workers never changes during a run. */
static void change_workers(unsigned context, int *workers, unsigned n)
{
    (void)context;
    (void)workers;
    (void)n;
}

static int push(struct starpu_task *task)
{
    const unsigned to = line_of(task);
    unsigned implementation = 0;
    int can = starpu_worker_can_execute_task_first_impl(to, task, &implementation);
    assert(can); /* StarPU has already refused any task that no CPU can run, and all CPU workers are alike */
    (void)can;
    starpu_task_set_implementation(task, implementation);
    pthread_mutex_lock(&lines[to].lock);
    starpu_task_list_push_back(&lines[to].level[level_of(task)], task);
    atomic_fetch_add_explicit(&lines[to].n_tasks, 1, memory_order_relaxed);
    starpu_push_task_end(task);
    pthread_mutex_unlock(&lines[to].lock);
#ifndef STARPU_NON_BLOCKING_DRIVERS /* workers sleep: wake all, since any worker may take the task */
    for (unsigned i = 0; i < n_lines; i++) {
        starpu_wake_worker_relax_light((int)i);
    }
#endif
    return 0;
}

/* Workers whose numbers differ only in low bits are neighbours, so the order own ^ 1, own ^ 2, .. goes from near to
 * far. */
static struct starpu_task *find(unsigned own)
{
    struct starpu_task *task = take(&lines[own], starpu_task_list_pop_front);
    for (unsigned i = 1; task == NULL && i < n_steps; i++) {
        if ((own ^ i) < n_lines) {
            task = take(&lines[own ^ i], starpu_task_list_pop_back);
        }
    }
    return task;
}

/* An idle worker of StarPU polls without a pause. If a core has several threads, an idle worker would use up its time
 * slice while a thread with work waits for the core. StarPU counts a worker as at work inside pop: a thread that needs
 * the worker's lock waits until pop returns, and must then be faster than the next call. Relaxed, the worker gives the
 * lock away. */
static void make_way(void)
{
    starpu_worker_relax_on();
    sched_yield();
    starpu_worker_relax_off();
}

static struct starpu_task *pop(unsigned context)
{
    static _Thread_local unsigned n_empty; /* calls since this worker's last task */
    struct starpu_task *task = find((unsigned)starpu_worker_get_id());
    (void)context;
    if (task != NULL) {
        n_empty = 0;
    } else if (n_empty < PATIENCE) {
        n_empty++;
    } else {
        make_way();
    }
    return task;
}

struct starpu_sched_policy sl_near = {
    .init_sched = init,
    .deinit_sched = deinit,
    .push_task = push,
    .pop_task = pop,
    .add_workers = change_workers,
    .remove_workers = change_workers,
    .policy_name = SL_NEAR,
    .policy_description = "tasks near the rows of their PE",
    .worker_type = STARPU_WORKER_LIST,
};
