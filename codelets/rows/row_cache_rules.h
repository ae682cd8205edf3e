/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The policies of a row cache (codelets/rows/row_cache.h), slot by slot, for both devices. A device cannot keep a list,
 * so a policy gives each slot a key. The k slots with the smallest keys give way to k missing rows, which take them in
 * the order of the slots. Then each slot that stays notes what the policy did to it, and the hand moves.
 *
 * A policy here is the published policy, over the whole cache of a PE, with a step's rows as one request:
 *
 *   1. The rows of the frontier are looked up, in cache and ghost queue. Hits are counted.
 *   2. Rows give way, as many as the missing rows need. Rows of the frontier stay; the hand passes them.
 *   3. The missing rows enter in the frontier's order, until no slot is left.
 *
 *   clock    the slots are the circle. A row enters with its reference bit set, since it is referenced.
 *   sieve    `wanted` numbers the rows in the order of their entry. The hand is the number at which it stopped.
 *   s3-fifo  the small queue has a tenth of the slots, rounded up. Rows leave it while it is full, else they leave the
 *            main queue. In the small queue, `wanted` numbers the rows. The hand is the first number in the queue, and
 *            `end` the next one. In the main queue, `wanted` is the time at which a row entered or returned to the
 *            head: the step, then the slot. A row of the frontier at the tail of the small queue moves to the main
 *            queue. Rows that join the main or the ghost queue in one step do so in the order of their slots.
 *
 * The ghost queue has as many vertices as the main queue has slots. A vertex in it has a number, by departure from the
 * small queue. Its slot_of is n_slots + this number, modulo SL_NONE - n_slots. So a vertex may be taken for a ghost
 * again after some 2^32 departures.
 */
#ifndef SL_CODELETS_ROW_CACHE_RULES_H
#define SL_CODELETS_ROW_CACHE_RULES_H

#include <stdbool.h>

#include "support/random.h" /* SL_HOST_DEVICE */
#include "support/real.h"

/* In the order of the choices of --feature-cache-policy. */
enum sl_row_cache_policy {
    SL_ROW_CACHE_LRU,
    SL_ROW_CACHE_DEGREE,
    SL_ROW_CACHE_S3_FIFO,
    SL_ROW_CACHE_SIEVE,
    SL_ROW_CACHE_CLOCK,
    SL_N_ROW_CACHE_POLICIES
};

/* An entry. With lru, `wanted` is the time of last use, (step + 1) << 32 | row of the frontier. In an unused entry,
 * `wanted` is the index of the entry. */
struct sl_row_cache_slot {
    uint64_t wanted;
    uint32_t vertex; /* local id; SL_NONE: empty */
    uint32_t use;    /* bits */
};

/* Where the queues of a policy are; zero to begin with. */
struct sl_row_cache_queue {
    uint64_t hand;
    uint64_t end;      /* rows that entered; s3-fifo: the small queue */
    uint64_t n_ghosts; /* rows that left the small queue */
};

/* Bits of a slot's `use`. */
#define SL_CACHE_HITS 3u   /* hits of s3-fifo, up to 3; of others 1 if visited */
#define SL_CACHE_PINNED 4u /* a row of this step's frontier */
#define SL_CACHE_MAIN 8u   /* in the main queue of s3-fifo */

/* A key: two bits of its class, then the order in the class. lru has keys of its own: the times of use. */
#define SL_CACHE_ORDER ((UINT64_C(1) << 62) - 1)
#define SL_CACHE_TIME ((UINT64_C(1) << 60) - 1) /* s3-fifo's main queue: two bits of hits, then the time */
enum {
    SL_CACHE_EMPTY,  /* before all others, by index */
    SL_CACHE_FIRST,  /* the hand's first round; s3-fifo: rows that leave the small queue */
    SL_CACHE_SECOND, /* the second round, over bits that the first cleared; s3-fifo: the main queue */
    SL_CACHE_LAST    /* s3-fifo: other rows of the small queue; and rows of the frontier, which stay */
};

/* A step of a cache. */
struct sl_row_cache_turn {
    enum sl_row_cache_policy policy;
    uint32_t n_slots;
    uint64_t now;                           /* (step + 1) << 32; s3-fifo needs fewer than 2^28 steps */
    const struct sl_row_cache_queue *queue; /* before the step */
};

static inline SL_HOST_DEVICE unsigned sl_row_cache_class(uint64_t key)
{
    return (unsigned)(key >> 62);
}

/* A tenth of the slots: from so many rows on, the small queue gives way before the main queue. */
static inline SL_HOST_DEVICE uint32_t sl_row_cache_tenth(uint32_t n_slots)
{
    return n_slots / 10 + (n_slots % 10 > 0);
}

/* The first number that stays in the small queue if the main queue, too, has to give way. */
static inline SL_HOST_DEVICE uint64_t sl_row_cache_small_end(const struct sl_row_cache_turn *turn)
{
    const uint64_t least = sl_row_cache_tenth(turn->n_slots);
    const bool full = turn->queue->end - turn->queue->hand >= least;
    return full ? turn->queue->end - least + 1 : turn->queue->hand;
}

/* ---- 1. looking up ---- */

/* A hit of row i of the frontier. */
static inline SL_HOST_DEVICE void sl_row_cache_touch(const struct sl_row_cache_turn *turn, uint64_t i,
                                                     struct sl_row_cache_slot *slot)
{
    const uint32_t most = turn->policy == SL_ROW_CACHE_S3_FIFO ? SL_CACHE_HITS : 1;
    if (turn->policy == SL_ROW_CACHE_LRU) {
        slot->wanted = turn->now | i;
        return;
    }
    slot->use += (slot->use & SL_CACHE_HITS) < most;
    slot->use |= SL_CACHE_PINNED;
}

/* slot_of of the vertex that left the small queue as the number-th. */
static inline SL_HOST_DEVICE uint32_t sl_row_cache_ghost(const struct sl_row_cache_turn *turn, uint64_t number)
{
    return turn->n_slots + (uint32_t)(number % (SL_NONE - turn->n_slots));
}

/* Whether a vertex without a slot is in the ghost queue. */
static inline SL_HOST_DEVICE bool sl_row_cache_is_ghost(const struct sl_row_cache_turn *turn, uint32_t slot)
{
    const uint64_t modulus = SL_NONE - turn->n_slots;
    if (slot == SL_NONE) {
        return false;
    }
    const uint64_t next = turn->queue->n_ghosts % modulus;
    const uint64_t age = (next + modulus - (slot - turn->n_slots)) % modulus;
    return age > 0 && age <= turn->n_slots - sl_row_cache_tenth(turn->n_slots);
}

/* ---- 2. giving way ---- */

/* A slot's place in the order of the hand: clock and sieve. */
static inline SL_HOST_DEVICE uint64_t sl_row_cache_order(const struct sl_row_cache_turn *turn, uint32_t s,
                                                         const struct sl_row_cache_slot *slot)
{
    const uint64_t hand = turn->queue->hand;
    if (turn->policy == SL_ROW_CACHE_SIEVE) {
        return (slot->wanted - hand) & SL_CACHE_ORDER;
    }
    return s >= hand ? s - hand : s + turn->n_slots - hand;
}

static inline SL_HOST_DEVICE uint64_t sl_row_cache_s3_key(const struct sl_row_cache_turn *turn, uint32_t s,
                                                          const struct sl_row_cache_slot *slot)
{
    const uint64_t hits = slot->use & SL_CACHE_HITS;
    if ((slot->use & SL_CACHE_MAIN) != 0) {
        return (uint64_t)SL_CACHE_SECOND << 62 | hits << 60 | slot->wanted;
    }
    if (slot->wanted >= sl_row_cache_small_end(turn)) {
        return (uint64_t)SL_CACHE_LAST << 62 | slot->wanted;
    }
    if (hits > 1) {
        return (uint64_t)SL_CACHE_SECOND << 62 | turn->now | s; /* at the head of the main queue, without hits */
    }
    return (uint64_t)SL_CACHE_FIRST << 62 | slot->wanted;
}

/* The key of slot s. No two slots that may give way have the same. */
static inline SL_HOST_DEVICE uint64_t sl_row_cache_key(const struct sl_row_cache_turn *turn, uint32_t s,
                                                       const struct sl_row_cache_slot *slot)
{
    if (turn->policy == SL_ROW_CACHE_LRU || slot->vertex == SL_NONE) {
        return slot->wanted;
    }
    if ((slot->use & SL_CACHE_PINNED) != 0) {
        return UINT64_MAX;
    }
    if (turn->policy == SL_ROW_CACHE_S3_FIFO) {
        return sl_row_cache_s3_key(turn, s, slot);
    }
    return (uint64_t)(SL_CACHE_FIRST + (slot->use & SL_CACHE_HITS)) << 62 | sl_row_cache_order(turn, s, slot);
}

/* The hand after the slots up to the key `latest` gave way. sieve: if no row that stays has this number or a later
 * one, the hand begins again at the oldest row, 0. */
static inline SL_HOST_DEVICE uint64_t sl_row_cache_hand(const struct sl_row_cache_turn *turn, uint64_t latest)
{
    const uint64_t hand = turn->queue->hand;
    const uint64_t order = latest & SL_CACHE_ORDER;
    if (sl_row_cache_class(latest) == SL_CACHE_EMPTY) {
        return hand;
    }
    switch (turn->policy) {
    case SL_ROW_CACHE_CLOCK: return (hand + order + 1) % turn->n_slots;
    case SL_ROW_CACHE_SIEVE: return ((hand + order) & SL_CACHE_ORDER) + 1;
    case SL_ROW_CACHE_S3_FIFO:
        return sl_row_cache_class(latest) == SL_CACHE_SECOND ? sl_row_cache_small_end(turn) : order + 1;
    default: return hand; /* lru and degree have no hand */
    }
}

/* Slot s stays while the slots up to the key `latest` give way. */
static inline SL_HOST_DEVICE void sl_row_cache_stay(const struct sl_row_cache_turn *turn, uint64_t latest, uint32_t s,
                                                    struct sl_row_cache_slot *slot)
{
    const unsigned class_ = sl_row_cache_class(latest);
    const bool main = (slot->use & SL_CACHE_MAIN) != 0;
    if (turn->policy == SL_ROW_CACHE_LRU) {
        return;
    }
    slot->use &= ~SL_CACHE_PINNED;
    if (class_ == SL_CACHE_EMPTY || slot->vertex == SL_NONE) {
        return;
    }
    if (turn->policy != SL_ROW_CACHE_S3_FIFO) {
        if (class_ > SL_CACHE_FIRST || sl_row_cache_order(turn, s, slot) <= (latest & SL_CACHE_ORDER)) {
            slot->use = 0;
        }
    } else if (!main && slot->wanted < sl_row_cache_hand(turn, latest)) {
        slot->use = SL_CACHE_MAIN;
        slot->wanted = turn->now | s;
    } else if (main && class_ > SL_CACHE_FIRST) {
        const uint32_t hits = slot->use & SL_CACHE_HITS;
        uint32_t n_rounds = (uint32_t)(latest >> 60 & 3) + (slot->wanted <= (latest & SL_CACHE_TIME));
        n_rounds = class_ == SL_CACHE_LAST ? SL_CACHE_HITS + 1 : n_rounds;
        slot->use = SL_CACHE_MAIN | (hits > n_rounds ? hits - n_rounds : 0);
        slot->wanted = n_rounds > 0 ? turn->now | s : slot->wanted;
    }
}

/* ---- 3. entering ---- */

/* Slot s of a vertex that enters: row i of the frontier, the rank-th of the step's entering rows that are no ghosts. */
static inline SL_HOST_DEVICE struct sl_row_cache_slot sl_row_cache_enter(const struct sl_row_cache_turn *turn,
                                                                         uint32_t s, uint32_t vertex, uint64_t i,
                                                                         uint64_t rank, bool ghost)
{
    struct sl_row_cache_slot slot = {turn->now | i, vertex, 0};
    if (turn->policy == SL_ROW_CACHE_SIEVE || turn->policy == SL_ROW_CACHE_S3_FIFO) {
        slot.wanted = turn->queue->end + rank;
    } else if (turn->policy == SL_ROW_CACHE_CLOCK) {
        slot.wanted = 0;
        slot.use = 1;
    }
    if (ghost) {
        slot.wanted = turn->now | s;
        slot.use = SL_CACHE_MAIN;
    }
    return slot;
}

#endif
