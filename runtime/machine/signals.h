/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Interrupts: the first SIGINT, SIGTERM or SIGUSR1 asks the run to finish its step and save; the second ends it at once.
 *
 * The trainer asks sl_signals_seen after each step. Slurm's --signal=USR1@60 gives a job a minute to save.
 */
#ifndef SL_RUNTIME_SIGNALS_H
#define SL_RUNTIME_SIGNALS_H

#include "support/status.h"

/* Catch the three signals and forget one seen earlier. A signal that is ignored stays ignored (nohup, background jobs).
 * Install after starpu_init, which has handlers of its own. One at a time in a process; not thread safe.
 * SL_EINVAL: installed already. SL_EIO: the system refuses. */
enum sl_status sl_signals_install(void);

/* The number of the signal that asked to stop; 0: none. Any thread may ask, at any time. */
int sl_signals_seen(void);

/* Give the signals back what they had before sl_signals_install; harmless where nothing is installed. What was seen stays. */
void sl_signals_restore(void);

#endif
