/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The cost of messages, described for a cluster or measured between ranks.
 */
#ifndef SL_RUNTIME_MACHINE_MESSAGES_H
#define SL_RUNTIME_MACHINE_MESSAGES_H

#include "support/status.h"

struct sl_link {
    /* for a small message: time from the end of the writing task to the start of the reading task */
    double latency_s;
    /* time between two small messages in a burst */
    double message_s;
    /* bandwidth of long messages; 0: bytes take no time */
    double bytes_per_s;
};

/* Measure with the messages of tasks/ranks.h and one CPU worker per rank. Ranks 2 k and 2 k + 1 form pairs, and
 * all pairs measure at once. With an odd number of ranks the last rank is idle. Rank 0 gets the average over the
 * pairs; the output of other ranks is undefined. Takes about a second. Collective, after sl_ranks_open. StarPU is
 * down before and after.
 * SL_EINVAL: a single rank. SL_ESTARPU, SL_EIO, and the statuses of sl_machine_start. */
enum sl_status sl_messages_measure(struct sl_link *out);

#endif
