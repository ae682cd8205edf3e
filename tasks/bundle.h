/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Bundles: several tasks that StarPU gets as one.
 *
 * With many PEs on few workers, tasks are short, and StarPU needs more time to schedule a task than the task takes. A
 * lot is a few neighbouring PEs. A bundle collects the tasks of one lot, and holds them back. A bundle runs its tasks
 * in submission order, and names each buffer once.
 *
 * On a GPU, StarPU starts a task only after the host has seen the end of the tasks that it depends on. The tasks of a
 * bundle follow each other on the stream, without the host. If one GPU does all it can (sl_run.gpus_first), it has the
 * only lot, also for sums and updates. Its buffers are in GPU memory at the same time. Its time counts as that of its
 * last compute task, or of its first task if none computes.
 *
 * A task may touch a buffer of held tasks of another lot. If one of the two writes it, all bundles go to StarPU
 * first. So StarPU keeps every order that it would have kept without bundles. Tasks outside all lots, such as sums over
 * all PEs and weight updates, go to StarPU alone, after the tasks they depend on.
 *
 * Before the host uses a handle that a bundle names, all bundles go to StarPU (sl_handle_let_go). Before the host waits
 * for tasks, it calls sl_bundles_settle. Bundles are for one process whose workers are not bound to PEs, and for runs
 * without a trace: a trace shows single tasks.
 */
#ifndef SL_TASKS_BUNDLE_H
#define SL_TASKS_BUNDLE_H

#include "tasks/task.h"

/* From now on, bundle the tasks of the run. Each lot_size neighbours of n_pes PEs form a lot; the last lot may be
 * smaller. SL_ENOMEM. */
enum sl_status sl_bundles_open(struct sl_run *run, uint32_t n_pes, uint32_t lot_size);

/* No task may be held. The run may have no bundles. */
void sl_bundles_close(struct sl_run *run);

/* Hand all held tasks to StarPU. On failure, too, no task stays held. Without bundles: SL_OK. One thread submits.
 * SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_bundles_settle(struct sl_run *run);

#endif
