/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A StarPU scheduler for CPU workers: a task runs near the rows of its PE.
 *
 * Reading a word that another core wrote last can take ten times as long as reading a word of the own core. StarPU's
 * lws leaves a ready task with the worker that released it. This is often the worker of another PE, because rows arrive
 * from other PEs.
 *
 * Each worker has a queue ("line") of ready tasks. A task joins the queue of its PE's home. If the PE has several
 * workers to itself and one of them released the task, the task joins that worker's queue; otherwise the PE's
 * workers take turns.
 *
 * A worker takes the oldest task of the highest priority from its own queue. If its queue is empty, the worker
 * steals the newest task of the highest priority from another queue, near workers before far workers. The choice of
 * worker never changes a result.
 *
 * Invariants:
 *
 * - Locks. Each queue has a lock. A thread holds at most one queue's lock, and takes no other lock meanwhile, so the
 *   locks cannot deadlock. Under the lock a thread only links or unlinks one task. A thread that waits for a lock
 *   sleeps, so a holder that the system has preempted gets the core.
 * - Visibility. A ready task is in exactly one queue. Every worker can take the task once push has released the queue's
 *   lock. From then on push must not touch the task: it may have run.
 * - No task is lost. A worker unlinks a task under the lock and runs it. A worker reads a queue's number of tasks
 *   without the lock. It may read an old zero and miss a task, but only for this call of pop.
 * - No worker sleeps while a task waits. An idle worker of StarPU polls: it calls pop again and again, so no wake-up
 *   can be lost. If StarPU was built with --enable-blocking-drivers, a worker sleeps after an empty pop. push then
 *   wakes all workers, after it has released the queue's lock. StarPU notes the wake-up under a lock of the worker.
 *   Under the same lock the worker looks for the note before it sleeps, and polls once more if it finds the note.
 * - Idle workers make way. After PATIENCE empty calls in a row, a worker yields its core in each further empty call.
 *   Without this, an idle worker spins until its time slice of some milliseconds ends. If a core has several threads,
 *   a thread with a task then waits for all of them: 64 workers on two cores took 20 to 40 times as long.
 * - A worker yields only if it is relaxed (starpu_worker_relax_on). StarPU lets other threads have the lock of a worker
 *   only if the worker is relaxed or outside pop and push. StarPU takes this lock for a task that names its worker
 *   (--placement home). If workers yielded unrelaxed, the thread that submits such a task could wait for minutes.
 * - Stealing is bounded. A call of pop looks at each queue once and takes at most one task. A stolen task joins no
 * other queue, so workers cannot pass a task around.
 * - Priorities are strict: a task waits for all tasks of higher priority in its queue. The wait is
 *   finite, because the task graph is.
 * - Start and end. StarPU calls init before its workers poll, and deinit after its workers have ended.
 */
#ifndef SL_TASKS_NEAR_H
#define SL_TASKS_NEAR_H

#include <starpu.h>
#include <starpu_scheduler.h>

#include "tasks/home.h"

#define SL_NEAR "near" /* name for STARPU_SCHED and --sched */

/* Range of priorities. A priority outside the range counts as the nearest bound. */
#define SL_NEAR_LOWEST (-1)
#define SL_NEAR_HIGHEST 2

/* For starpu_conf.sched_policy; all workers must be CPU workers. StarPU does not modify the struct. The queues are
 * static, so a process can run one instance. */
extern struct starpu_sched_policy sl_near;

/* The value of starpu_task.sched_data for the tasks of `pe`. A task with sched_data NULL belongs to no PE and stays
 * with the worker that released it. */
void *sl_near_place(const struct sl_homes *homes, uint32_t pe);

#endif
