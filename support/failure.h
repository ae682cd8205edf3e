/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The failure record of a run. Tasks return no status: they report failures here.
 *
 * A run has one record. The first failing task writes it. Every task reads the record first, and returns at once after
 * a failure, so the task graph drains. The submitting thread reads the record and stops.
 */
#ifndef SL_SUPPORT_FAILURE_H
#define SL_SUPPORT_FAILURE_H

#include <stdatomic.h>

#include "support/status.h"

struct sl_failure {
    atomic_int state;               /* 0 none, 1 being written, 2 written */
    enum sl_status status;          /* valid in state 2 */
    char message[SL_MESSAGE_BYTES]; /* valid in state 2 */
    /* NULL, or called after the first failure, by the reporting thread. sl_message() has the failure. */
    void (*hook)(void);
};

/* Report the calling thread's last sl_fail as the run's failure. Only the first report counts. Thread safe. */
void sl_failure_set(struct sl_failure *failure, enum sl_status status);

/* Nonzero once a failure has been reported. Thread safe, cheap. */
static inline int sl_failure_seen(const struct sl_failure *failure)
{
    return atomic_load_explicit(&failure->state, memory_order_relaxed) != 0;
}

/* The run's status; SL_OK without a failure. Copies the failure's message to the calling thread. Thread safe. */
enum sl_status sl_failure_status(const struct sl_failure *failure);

#endif
