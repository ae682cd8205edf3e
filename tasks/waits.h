/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Time cost of messages from other ranks (tasks/ranks.h), by the wall clock. A message is in transit from the
 * moment both sides are ready (the sender has written it, the receiver has requested it) until the receiver has it.
 * A late rank therefore does not count as message time, nor does a message for which the receiver does not wait yet.
 * Recorded until sl_waits_take:
 *
 *   for each message requested here: time of request and time of arrival; at the sender: time of writing
 *   when workers were busy in a task
 *
 *   message_s  time with at least one message in transit
 *   hidden_s   part of message_s during which a worker was busy, so that the message cost nothing
 *   waited_s   worker time spent idle while requested messages had not arrived: time of messages and of slower ranks
 *
 * Thread safe. sl_waits_list and sl_waits_take may be called only after all messages have been written and have
 * arrived. Times come from sl_clock_s, or from a clock of a test.
 */
#ifndef SL_TASKS_WAITS_H
#define SL_TASKS_WAITS_H

#include <stdint.h>

#include "support/status.h"

struct sl_waits {
    double message_s, hidden_s, waited_s;
};

/* Begin to count. 0 workers, the initial state: count nothing and free all records. No task is running and no
 * message is in transit. */
void sl_waits_open(uint32_t n_workers, double now_s);

/* Change the number of busy workers by 1 or -1. */
void sl_waits_busy(int by, double now_s);

#define SL_WAITS_NO_TICKET 0 /* the message is not counted */

/* Announce a message to be sent, or to be received. Messages between two ranks with one tag must be announced in the
 * same order on both sides. Returns a ticket for sl_waits_written (the sender has written the message) or
 * sl_waits_come (the message has arrived). */
uint64_t sl_waits_send(uint32_t to, int64_t tag);
uint64_t sl_waits_ask(uint32_t from, int64_t tag, double now_s);
void sl_waits_written(uint64_t ticket, double now_s);
void sl_waits_come(uint64_t ticket, double now_s);

/* Make the lists of sent messages for the other ranks: n_to[r] numbers for each rank r, list after list, in *list_out.
 * The caller frees *list_out (sl_free). ahead_s: offset of this rank's clock to the common clock, in seconds.
 * SL_ENOMEM. */
enum sl_status sl_waits_list(double ahead_s, uint32_t n_ranks, uint32_t *n_to, uint32_t **list_out);

/* Evaluate the time since the last call or sl_waits_open, then forget it. lists: the lists of the other ranks for
 * this rank. SL_ENOMEM, also if memory for a record was missing earlier. */
struct sl_waits_lists {
    uint32_t n_ranks;
    const uint32_t *n_from, *from;
    double ahead_s;
};
enum sl_status sl_waits_take(double now_s, const struct sl_waits_lists *lists, struct sl_waits *out);

/* Forget all records. */
void sl_waits_drop(double now_s);

#endif
