/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A StarPU scheduler for CPU workers: a task runs near the rows of its PE.
 *
 * Reading a word that another core wrote last can take ten times as long as reading a word of the own core. StarPU's
 * lws leaves a ready task with the worker that released it. That is often another PE's worker, because rows arrive
 * from other PEs.
 *
 * Each worker has a queue ("line") of ready tasks. A task joins the queue of its PE's home. If the PE has several
 * workers to itself and one of them released the task, the task joins that worker's queue; otherwise the PE's
 * workers take turns.
 *
 * A worker takes the oldest task of the highest priority from its own queue. If its queue is empty, the worker
 * steals the newest task of the highest priority from another queue, near workers before far workers. The choice of
 * worker never changes a result.
 */
#ifndef SL_CODELETS_NEAR_H
#define SL_CODELETS_NEAR_H

#include <starpu.h>
#include <starpu_scheduler.h>

#include "codelets/home.h"

#define SL_NEAR "near" /* name for STARPU_SCHED and --sched */

/* Range of priorities. A priority outside the range counts as the nearest bound. */
#define SL_NEAR_LOWEST (-1)
#define SL_NEAR_HIGHEST 2

/* For starpu_conf.sched_policy; all workers must be CPU workers. StarPU does not modify the struct. The queues are
 * static, so a process can run one instance. */
extern struct starpu_sched_policy sl_near;

/* The value for starpu_task.sched_data of the PE's tasks. A task with sched_data NULL belongs to no PE and stays
 * with the worker that released it. */
void *sl_near_place(const struct sl_homes *homes, uint32_t pe);

#endif
