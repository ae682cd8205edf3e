/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A thread that sees whether anything moves: tasks that are submitted or end, messages that are sent or come. Where a worker, or another
 * rank, has stopped for good nothing does, and this process would wait without end. One at a time in a process.
 */
#ifndef SL_RUNTIME_MACHINE_WATCHDOG_H
#define SL_RUNTIME_MACHINE_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "codelets/task.h"
#include "support/status.h"

/* Watch, until the end: where nothing has moved for so many seconds, >= 1, call `lost` in the watching thread, whose sl_message says
 * what was seen, and what tasks the run's workers are at. One rank alone waits for none but its own tasks: where there are none, all is
 * well. in_step: ranks wait for each other in each step; of several then one that has seen SIGTERM (sl_signals_seen), and whose workers are
 * at no task, waits for 8 s at most. StarPU is up. SL_ENOMEM: no thread. */
enum sl_status sl_watchdog_start(uint32_t seconds, bool in_step, const struct sl_run *run, void (*lost)(void));

/* Look away while other ranks may be at work for long of which this one sees nothing, and watch again. */
void sl_watchdog_suspend(bool rests);

/* Harmless where it was not started. */
void sl_watchdog_end(void);

#endif
