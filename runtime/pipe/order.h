/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The pipeline slots of GNNPipe. Way w of W owns chunks w K/W .. (w + 1) K/W - 1 of K. It takes its chunks in a
 * random order, drawn anew for each way and epoch (technique 1; Chen, Chen, Qian 2023), or in ascending order. Slot t
 * consists of the t-th chunk of every way.
 */
#ifndef SL_RUNTIME_PIPE_ORDER_H
#define SL_RUNTIME_PIPE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct sl_pipe_order {
    uint32_t n_chunks; /* K, a multiple of W */
    uint32_t n_ways;   /* W */
    uint32_t n_slots;  /* K / W */
    uint32_t *chunk;   /* [slot][way]; owned by the caller */
    uint32_t *slot_of; /* by chunk; owned by the caller */
};

/* Draw the order of an epoch, a function of (seed, epoch, way) only. shuffle false: ascending order. */
void sl_pipe_order_draw(struct sl_pipe_order *order, bool shuffle, uint64_t seed, uint64_t epoch);

/* Compute slot_of from `chunk`. sl_pipe_order_draw does this itself. */
void sl_pipe_order_invert(struct sl_pipe_order *order);

#endif
