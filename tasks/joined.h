/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The ranks that this one has joined: their number, what they share, and counts of their messages. tasks/ranks.h
 * joins them.
 */
#ifndef SL_TASKS_JOINED_H
#define SL_TASKS_JOINED_H

#include <stdbool.h>
#include <stdint.h>

/* Number of processes that the launcher started together, and this process's number among them. Both are from the
 * environment. If the environment names no launcher, 1 and 0. May be called before sl_ranks_open. */
uint32_t sl_ranks_started(void);
uint32_t sl_ranks_number(void);

/* The launcher that started several processes: the variables with their number and this one's. NULL: none. */
struct sl_ranks_launcher {
    const char *n, *number;
};
const struct sl_ranks_launcher *sl_ranks_launcher(void);

struct sl_joined {
    uint32_t rank, n;
    uint32_t n_sharing; /* as sl_ranks_sharing */
    bool far;           /* on another machine than rank 0 */
    uint32_t n_far;     /* at rank 0: number of far ranks */
};
const struct sl_joined *sl_joined(void);
void sl_join(const struct sl_joined *ranks);

/* Number of ranks R, 1 before sl_ranks_open; and the number of this rank. */
uint32_t sl_n_ranks(void);
uint32_t sl_rank(void);

/* Number of ranks on this machine whose processor sets overlap this rank's, this rank included. Valid after
 * sl_ranks_open. */
uint32_t sl_ranks_sharing(void);

/* The ranks of this machine that have a resource in common with this rank. n: their number, this rank included. index:
 * this rank's index among them. */
#define SL_RANKS_MOST_SHARED 64
struct sl_ranks_share {
    uint32_t index, n;
};

/* ---- counts of messages; any thread ---- */

/* Bytes sent by this rank so far. */
uint64_t sl_ranks_sent_bytes(void);

/* A counter that changes whenever a message has left or arrived, collective operations included. */
uint64_t sl_ranks_moves(void);

/* Count a message that has left or arrived; and bytes that were sent. */
void sl_ranks_moved(void);
void sl_ranks_sent(uint64_t bytes);

#endif
