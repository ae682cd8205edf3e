/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The first report wins. */
#include "support/failure.h"

#include <stdio.h>

void sl_failure_set(struct sl_failure *failure, enum sl_status status)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&failure->state, &none, 1)) {
        failure->status = status;
        snprintf(failure->message, sizeof failure->message, "%s", sl_message());
        atomic_store_explicit(&failure->state, 2, memory_order_release);
        if (failure->hook != NULL) {
            failure->hook();
        }
    }
}

enum sl_status sl_failure_status(const struct sl_failure *failure)
{
    int state = atomic_load_explicit(&failure->state, memory_order_acquire);
    while (state == 1) {
        state = atomic_load_explicit(&failure->state, memory_order_acquire);
    }
    SL_FAIL_IF(state != 0, failure->status, "%s", failure->message);
    return SL_OK;
}
