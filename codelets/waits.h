/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What messages to and from other ranks (codelets/ranks.h) cost this one in time, by the clock, while three numbers are watched:
 *
 *   messages on their way: that MPI was given to send, or has announced here, and that have not left, or come, yet
 *   messages awaited: receives that were submitted and have not come, on their way or not yet sent
 *   busy workers: in a task
 *
 * message_s is the time with messages on their way, however many; hidden_s the part of it in which a worker was busy, so that it cost
 * nothing; waited_s the time, summed over the workers, that they were not busy while messages were awaited: for the messages' time,
 * and for ranks that were slower. What a message takes from the task that has written it to MPI, and from MPI to the task that reads it, is
 * waited for only, and so is a short one, which MPI takes at once, on its way at the sender. Thread safe; times are sl_clock_s's.
 */
#ifndef SL_CODELETS_WAITS_H
#define SL_CODELETS_WAITS_H

#include <stdint.h>

/* Seconds. */
struct sl_waits {
    double message_s, hidden_s, waited_s;
};

enum sl_waits_of { SL_WAITS_ON_THEIR_WAY, SL_WAITS_AWAITED, SL_WAITS_BUSY, SL_WAITS_N };

/* Count from now on; with 0 workers, as in the beginning, not at all. No task is running, no message is on its way. */
void sl_waits_open(uint32_t n_workers, double now_s);

/* One more, or one less. */
void sl_waits_change(enum sl_waits_of what, int by, double now_s);

/* What there was since the last call, or sl_waits_open. */
void sl_waits_take(double now_s, struct sl_waits *out);

#endif
