/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The failure slot of a run: how a task, which can return nothing, reports that it failed.
 *
 * One slot lives as long as the run. The first task that fails writes it; all tasks look at it before they work and return at
 * once when it is set, so that the graph drains; the thread that submits looks at it and stops.
 */
#ifndef SL_SUPPORT_FAILURE_H
#define SL_SUPPORT_FAILURE_H

#include <stdatomic.h>

#include "support/status.h"

struct sl_failure {
    atomic_int state;               /* 0 none, 1 being written, 2 written */
    enum sl_status status;          /* valid in state 2 */
    char message[SL_MESSAGE_BYTES]; /* valid in state 2 */
    void (*hook)(void); /* NULL, or called by the thread that reports the first; its sl_message tells which */
};

/* Report the calling thread's last sl_fail as the run's failure; a later report than the first changes nothing. Thread safe. */
void sl_failure_set(struct sl_failure *failure, enum sl_status status);

/* Nonzero once a failure has been reported. Thread safe, cheap. */
static inline int sl_failure_seen(const struct sl_failure *failure)
{
    return atomic_load_explicit(&failure->state, memory_order_relaxed) != 0;
}

/* The run's status, with its message copied to the calling thread's; SL_OK while there is no failure. Thread safe. */
enum sl_status sl_failure_status(const struct sl_failure *failure);

#endif
