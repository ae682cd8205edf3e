/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Gossip partners: the schedule of GossipGraD (Daily et al. 2018, arXiv 1803.05880) as a pure function.
 *
 * n nodes have positions in a virtual topology, a permutation T of the nodes: T[pos] is the node at position pos. The
 * period is R = max(1, ceil(log2 n)), and j = step mod R:
 *
 *   dissemination   send to T[(pos + 2^j) mod n], receive from T[(pos - 2^j) mod n]; any n
 *   cube            exchange with T[pos xor 2^j]; idle in this step if pos xor 2^j >= n; n is even, or 1
 *
 * There are n permutations. Each is shuffled from the previous one, the first from 0, 1, .., n - 1. All nodes compute
 * the same permutations from the common seed. Every R steps the next permutation is used, cyclically. In a step every
 * node that is not idle sends to one node and receives from one node. A single node is its own partner.
 */
#ifndef SL_RUNTIME_PLAN_PARTNERS_H
#define SL_RUNTIME_PLAN_PARTNERS_H

#include <stdint.h>

#include "runtime/plan/settings.h"
#include "support/status.h"

/* A node's partners in a step. An idle node is its own partner. */
struct sl_partners {
    uint32_t to, from;
};

/* SL_EINVAL: n is 0; or, on a cube, odd and not 1. */
enum sl_status sl_gossip_check(enum sl_sync topology, uint32_t n);

/* R: steps on one permutation. With dissemination every node has by then received from all nodes, directly or
 * indirectly. */
uint32_t sl_gossip_period(uint32_t n);

/* The permutation drawn last, number n_drawn - 1. n_drawn is 0 if none is drawn yet. */
struct sl_permutation {
    uint32_t n_drawn;
    uint32_t *node; /* [n], by position */
};

/* Make *permutation number `index` mod n. The permutations in between are drawn, so calls are quick if `index` grows in
 * small steps. n >= 1. All calls have the same n and seed. */
void sl_gossip_permute(uint32_t n, uint64_t index, uint64_t seed, struct sl_permutation *permutation);

/* The partners of all nodes on a permutation, j < R. partners_out: n entries, by node. */
void sl_gossip_partners(enum sl_sync topology, uint32_t n, const uint32_t *permutation, uint32_t j,
                        struct sl_partners *partners_out);

/* The partners of all nodes in step `step` of a run. permutation: as in sl_gossip_permute. SL_EINVAL as in
 * sl_gossip_check. */
enum sl_status sl_gossip_schedule(enum sl_sync topology, uint32_t n, uint64_t step, uint64_t seed,
                                  struct sl_permutation *permutation, struct sl_partners *partners_out);

#endif
