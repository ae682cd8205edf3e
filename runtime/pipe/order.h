/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * GNNPipe's slots: way w of W owns chunks w K/W .. (w + 1) K/W - 1 of K and takes them one after the other, in an order of its own that is
 * drawn anew in each epoch (technique 1; Chen, Chen, Qian 2023), or as they are. Slot t of the epoch is the t-th chunk of every way.
 */
#ifndef SL_RUNTIME_PIPE_ORDER_H
#define SL_RUNTIME_PIPE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct sl_pipe_order {
    uint32_t n_chunks; /* K, a multiple of W */
    uint32_t n_ways;   /* W */
    uint32_t n_slots;  /* K / W */
    uint32_t *chunk;   /* [slot][way]; the caller's */
    uint32_t *slot_of; /* by chunk; the caller's */
};

/* The order of an epoch, a function of (seed, epoch, way) alone. */
void sl_pipe_order_draw(struct sl_pipe_order *order, bool shuffle, uint64_t seed, uint64_t epoch);

/* The slots of the chunks, where `chunk` has been filled otherwise. */
void sl_pipe_order_invert(struct sl_pipe_order *order);

#endif
