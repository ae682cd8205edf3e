/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Who gossips with whom: the schedule of GossipGraD (Daily et al. 2018, arXiv 1803.05880) as a pure function.
 *
 * n nodes stand on a virtual topology, a permutation T of them; pos is where a node stands. Period R = max(1, ceil(log2 n)), and
 * j = step mod R:
 *
 *   dissemination   to T[(pos + 2^j) mod n], from T[(pos - 2^j) mod n]; any n
 *   cube            to and from T[pos xor 2^j]; where that is n or more the node is idle in this step; n even, or 1
 *
 * There are n permutations, each shuffled from the one before (the first from 0, 1, .., n - 1), which all nodes know from the
 * common seed. They are used in turn, for ever: every R steps the next one, once a step however many arrays a model has. A node
 * alone is its own partner. In every step each node that is not idle sends to one and receives from one.
 */
#ifndef SL_RUNTIME_PLAN_GOSSIP_H
#define SL_RUNTIME_PLAN_GOSSIP_H

#include <stdint.h>

#include "support/status.h"

#define SL_MAX_NODES 256

enum sl_gossip_topology { SL_GOSSIP_DISSEMINATION, SL_GOSSIP_CUBE };

/* A node's partners in a step; both are the node itself where it is idle. */
struct sl_partners {
    uint32_t to, from;
};

/* SL_EINVAL: no node or more than SL_MAX_NODES, or an odd number of them, other than 1, on a cube. */
enum sl_status sl_gossip_check(enum sl_gossip_topology topology, uint32_t n);

/* R: steps on one permutation, after which each node has been reached by all (dissemination). */
uint32_t sl_gossip_period(uint32_t n);

/* Permutation number `index` (mod n), for 1 <= n <= SL_MAX_NODES. permutation_out: n entries. */
void sl_gossip_permutation(uint32_t n, uint64_t index, uint64_t seed, uint32_t *permutation_out);

/* All nodes' partners on a permutation, j < R. partners_out: n entries, by node. */
void sl_gossip_partners(enum sl_gossip_topology topology, uint32_t n, const uint32_t *permutation, uint32_t j,
                        struct sl_partners *partners_out);

/* All nodes' partners in a step of a run. SL_EINVAL as sl_gossip_check. */
enum sl_status sl_gossip_schedule(enum sl_gossip_topology topology, uint32_t n, uint64_t step, uint64_t seed,
                                  struct sl_partners *partners_out);

#endif
