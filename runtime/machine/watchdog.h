/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The watchdog: a thread checks for progress. Progress means: a task is submitted or ends, or a message is sent or
 * arrives. Without a watchdog the process waits forever if a worker or another rank hangs. A process has one
 * watchdog at a time.
 */
#ifndef SL_RUNTIME_MACHINE_WATCHDOG_H
#define SL_RUNTIME_MACHINE_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "support/status.h"
#include "tasks/task.h"

/* Start the watchdog. After `seconds` (>= 1) without progress the watchdog's thread calls `lost`. sl_message() then
 * names the tasks of the workers. A single rank without tasks counts as idle, not as stuck.
 * in_step: the ranks wait for each other in every step. Then, with several ranks, a rank without a running task
 * waits at most 8 s after SIGTERM (sl_signals_seen): a rank has probably died. StarPU is up. SL_ENOMEM: no
 * thread. */
enum sl_status sl_watchdog_start(uint32_t seconds, bool in_step, const struct sl_run *run, void (*lost)(void));

/* true: suspend the watchdog, because ranks may now work for long unseen. false: resume. */
void sl_watchdog_suspend(bool rests);

/* Stop the watchdog, if started. */
void sl_watchdog_end(void);

#endif
