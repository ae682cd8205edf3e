/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Permutations and partners. */
#include "runtime/plan/partners.h"

#include "support/random.h"

enum sl_status sl_gossip_check(enum sl_sync topology, uint32_t n)
{
    SL_FAIL_IF(n == 0, SL_EINVAL, "gossip among 0 nodes; expected at least 1");
    SL_FAIL_IF(topology == SL_SYNC_CUBE && n > 1 && n % 2 == 1, SL_EINVAL,
               "gossip on a cube: found %u nodes, expected an even number; use dissemination", n);
    return SL_OK;
}

uint32_t sl_gossip_period(uint32_t n)
{
    uint32_t period = 1;
    while (1ull << period < n) {
        period++;
    }
    return period;
}

/* Fisher-Yates shuffle. */
static void shuffle(uint32_t n, const struct sl_draw *draw, uint32_t *order)
{
    for (uint32_t i = n; i-- > 1;) {
        uint32_t bits[4];
        sl_random4(draw, i, 0, bits);
        uint32_t k = sl_random_below(bits[0], i + 1);
        uint32_t swapped = order[i];
        order[i] = order[k];
        order[k] = swapped;
    }
}

void sl_gossip_permute(uint32_t n, uint64_t index, uint64_t seed, struct sl_permutation *permutation)
{
    struct sl_draw draw = {.seed = seed, .purpose = SL_FOR_GOSSIP};
    if (permutation->n_drawn > index % n + 1) {
        permutation->n_drawn = 0;
    }
    for (uint32_t i = 0; permutation->n_drawn == 0 && i < n; i++) {
        permutation->node[i] = i;
    }
    while (permutation->n_drawn <= index % n) {
        draw.step = permutation->n_drawn++;
        shuffle(n, &draw, permutation->node);
    }
}

void sl_gossip_partners(enum sl_sync topology, uint32_t n, const uint32_t *permutation, uint32_t j,
                        struct sl_partners *partners_out)
{
    uint32_t distance = 1u << j;
    for (uint32_t pos = 0; pos < n; pos++) {
        struct sl_partners *partners = &partners_out[permutation[pos]];
        if (topology == SL_SYNC_DISSEMINATION) {
            partners->to = permutation[(pos + distance) % n];
            partners->from = permutation[(pos + n - distance % n) % n];
        } else {
            uint32_t peer = pos ^ distance;
            partners->to = permutation[peer < n ? peer : pos];
            partners->from = partners->to;
        }
    }
}

enum sl_status sl_gossip_schedule(enum sl_sync topology, uint32_t n, uint64_t step, uint64_t seed,
                                  struct sl_permutation *permutation, struct sl_partners *partners_out)
{
    SL_CHECK(sl_gossip_check(topology, n));
    uint32_t period = sl_gossip_period(n);
    sl_gossip_permute(n, step / period, seed, permutation);
    sl_gossip_partners(topology, n, permutation->node, (uint32_t)(step % period), partners_out);
    return SL_OK;
}
