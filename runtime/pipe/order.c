/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Draws the order of chunks: a Fisher-Yates shuffle in each way. */
#include "runtime/pipe/order.h"

#include "support/random.h"

void sl_pipe_order_invert(struct sl_pipe_order *o)
{
    for (uint32_t i = 0; i < o->n_chunks; i++) {
        o->slot_of[o->chunk[i]] = i / o->n_ways;
    }
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t kept = *a;
    *a = *b;
    *b = kept;
}

void sl_pipe_order_draw(struct sl_pipe_order *o, bool shuffle, uint64_t seed, uint64_t epoch)
{
    const struct sl_draw where = {.seed = seed, .step = epoch, .purpose = SL_FOR_CHUNKS};
    for (uint32_t way = 0; way < o->n_ways; way++) {
        for (uint32_t t = 0; t < o->n_slots; t++) {
            o->chunk[t * o->n_ways + way] = way * o->n_slots + t;
        }
        if (shuffle) {
            for (uint32_t t = o->n_slots; t > 1; t--) {
                uint32_t other = (uint32_t)(sl_random_u64(&where, way, t) % t);
                swap(&o->chunk[(t - 1) * o->n_ways + way], &o->chunk[other * o->n_ways + way]);
            }
        }
    }
    sl_pipe_order_invert(o);
}
