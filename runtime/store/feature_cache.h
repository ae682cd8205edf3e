/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --feature-cache: for each PE a cache of hot feature rows (codelets/hotrows.h), in StarPU's hands, where the user asks for it
 * or GPUs have no room for their parts' features. Caches begin cold, also in a run that goes on from a checkpoint. A cache is
 * of the PE that owns the rows, before they go to others: of several ranks each has those of its own PEs.
 */
#ifndef SL_RUNTIME_STORE_FEATURE_CACHE_H
#define SL_RUNTIME_STORE_FEATURE_CACHE_H

#include "codelets/hotrows.h"
#include "runtime/plan/plan.h"
#include "runtime/store/shards.h"

/* What decides where the features are kept: one GPU's memory and what wants to be there. */
struct sl_feature_room {
    uint64_t device_bytes; /* that data may take */
    uint64_t other_bytes;  /* that everything but features takes at the most */
    uint32_t n_pes;        /* whose tasks run there */
    uint32_t n_parts;      /* G: with more PEs than that, some have the same part */
    uint32_t part_rows;    /* vertices of the largest part */
    uint64_t row_bytes;    /* of a row of features */
};

/* Bytes of the features of all that GPU's parts. */
uint64_t sl_feature_room_wanted(const struct sl_feature_room *room);

/* 0: they fit, and the GPU holds them. Otherwise they stay in main memory, and this is the rows of each PE's cache: as many as
 * there is room left for, with what an LRU cache needs to find its oldest rows; at least one, fewer than part_rows. */
uint32_t sl_feature_room_rows(const struct sl_feature_room *room);

struct sl_feature_cache {
    uint32_t n_pes;  /* of all ranks; 0: there is none */
    uint32_t n_rows; /* of each PE, of a smaller part fewer */
    bool chosen;     /* not by the user, but by `room` */
    struct sl_feature_room room;
    enum sl_hotrows_policy policy;
    struct sl_hotrows_handles *pe;
    struct sl_hot_tally *tally; /* of each PE, behind the handles */
    uint32_t **vertices;        /* of each PE, those put there at the start; NULL: none */
};

/* Prepare the caches of all PEs of this rank where the settings ask for them, or leave it open and the run's GPUs have no room
 * for the features; submits their filling. The shards must outlive it. other_bytes: of one GPU, as in struct sl_feature_room.
 * All ranks call, while no message is on its way. SL_EINVAL: the features are sparse, and caches were asked for. SL_ENOTSUP:
 * GPUs are to read the table in main memory, and the system did not lock it there. SL_EIO. SL_ENOMEM (also: a GPU cannot hold
 * the rows that the settings ask for), SL_ESTARPU. On failure *out is empty. */
enum sl_status sl_feature_cache_open(const struct sl_settings *settings, const struct sl_plan *plan, struct sl_run *run,
                                     const struct sl_shards *shards, uint64_t other_bytes,
                                     struct sl_feature_cache *out);

/* Wait for the tasks, release. An empty struct is allowed. */
void sl_feature_cache_close(struct sl_feature_cache *cache);

/* A PE's cache; NULL: it has none here. */
static inline const struct sl_hotrows_handles *sl_feature_cache_of(const struct sl_feature_cache *cache, uint32_t pe)
{
    return pe < cache->n_pes && cache->pe[pe].rows != NULL ? &cache->pe[pe] : NULL;
}

/* The tallies of this rank's PEs since the last call, added up; waits for the tasks submitted so far. SL_ESTARPU. */
enum sl_status sl_feature_cache_tally(struct sl_feature_cache *cache, struct sl_hot_tally *out);

#endif
