/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * What messages from other ranks (codelets/ranks.h) cost this one in time, by the clock. A message takes its time from when
 * both sides are ready, its sender having written it and its receiver having asked for it, until the receiver has it; so that
 * neither a rank that is late counts as a message, nor what a rank has sent, for which nobody waits there. What is kept, until
 * it is taken:
 *
 *   of each message that was asked for here: when, and when it came; and of its sender: when it was written
 *   when workers were busy, in a task
 *
 * message_s is the time with messages on their way, however many; hidden_s the part of it in which a worker was busy, so that
 * it cost nothing; waited_s the time, summed over the workers, that they were not busy while messages were asked for and had
 * not come: for the messages' time, and for ranks that were slower.
 *
 * Thread safe; but sl_waits_list and sl_waits_take are for when every message of a ticket has been written, and has come. Times are sl_clock_s's, or a test's own.
 */
#ifndef SL_CODELETS_WAITS_H
#define SL_CODELETS_WAITS_H

#include <stdint.h>

#include "support/status.h"

/* Seconds. */
struct sl_waits {
    double message_s, hidden_s, waited_s;
};

/* Count from now on; with 0 workers, as in the beginning, not at all, and nothing is kept. No task is running, no message is on
 * its way. */
void sl_waits_open(uint32_t n_workers, double now_s);

/* One more busy worker, or one less. */
void sl_waits_busy(int by, double now_s);

#define SL_WAITS_NO_TICKET 0 /* nothing is counted */

/* A message is to be sent, or asked for. Messages between two ranks with one tag come in this order on both sides. Returns a
 * ticket, by which it is called when it was written, or has come. */
uint64_t sl_waits_send(uint32_t to, int64_t tag);
uint64_t sl_waits_ask(uint32_t from, int64_t tag, double now_s);
void sl_waits_written(uint64_t ticket, double now_s);
void sl_waits_come(uint64_t ticket, double now_s);

/* What the others are to know: of what was sent to each rank r a list of n_to[r] numbers, list after list, which the caller
 * frees (sl_free). ahead_s: what to add to this rank's clock for one that all have. SL_ENOMEM. */
enum sl_status sl_waits_list(double ahead_s, uint32_t n_ranks, uint32_t *n_to, uint32_t **list_out);

/* What there was since the last call, or sl_waits_open, with what the others have listed. SL_ENOMEM, also where there was no
 * memory to keep something. */
struct sl_waits_lists {
    uint32_t n_ranks;
    const uint32_t *n_from, *from;
    double ahead_s;
};
enum sl_status sl_waits_take(double now_s, const struct sl_waits_lists *lists, struct sl_waits *out);

/* Forget what there was. */
void sl_waits_drop(double now_s);

#endif
