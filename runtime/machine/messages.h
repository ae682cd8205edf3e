/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What messages take: of a cluster that is described, or measured between the ranks that are there.
 */
#ifndef SL_RUNTIME_MACHINE_MESSAGES_H
#define SL_RUNTIME_MACHINE_MESSAGES_H

#include "support/status.h"

struct sl_link {
    double latency_s;   /* from the task that has written a small message to the one that reads it */
    double message_s;   /* between two small ones that leave one after the other */
    double bytes_per_s; /* of long ones; 0: bytes take no time */
};

/* Measure, with one CPU worker a rank, by messages of the kind that runs send (codelets/ranks.h), in all pairs of ranks 2 k and
 * 2 k + 1 at once; the last of an odd number looks on. Rank 0 gets the average over the pairs, the others what means nothing.
 * Takes a second or so. All ranks call, after sl_ranks_open; StarPU is down, before and after. SL_EINVAL: there is one rank.
 * The statuses of sl_machine_start; SL_ESTARPU, SL_EIO. */
enum sl_status sl_messages_measure(struct sl_link *out);

#endif
