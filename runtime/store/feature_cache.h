/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --feature-cache: each PE has a cache of feature rows (codelets/rows/row_cache.h) with StarPU handles. The user asks
 * for caches, or Starling chooses caches because the features do not fit the GPUs. Caches start cold, also after
 * --resume. The owner of the rows reads its cache when it gathers rows, before rows are sent. A rank has the caches
 * of its own PEs.
 */
#ifndef SL_RUNTIME_STORE_FEATURE_CACHE_H
#define SL_RUNTIME_STORE_FEATURE_CACHE_H

#include "codelets/rows/row_cache.h"
#include "runtime/plan/plan.h"
#include "runtime/store/shards.h"

/* One GPU's memory and its uses. Decides where the features are kept. */
struct sl_feature_room {
    /* Bytes that data may take. */
    uint64_t device_bytes;
    /* Most bytes that everything except features takes. */
    uint64_t other_bytes;
    /* PEs with their tasks on this GPU. */
    uint32_t n_pes;
    /* G. If there are more PEs than parts, some PEs have the same part. */
    uint32_t n_parts;
    /* Vertices of the largest part. */
    uint32_t part_rows;
    /* Bytes of a row of features. */
    uint64_t row_bytes;
};

/* Bytes of the features of all parts of this GPU. */
uint64_t sl_feature_room_wanted(const struct sl_feature_room *room);

/* Return 0 if the features fit the GPU, which then stores all of them. Otherwise features stay in main memory, and the
 * result is the number of rows of each PE's cache. This is as many as fit, including the memory that a cache
 * needs to find the rows that give way: at least 1, fewer than part_rows. */
uint32_t sl_feature_room_rows(const struct sl_feature_room *room);

struct sl_feature_cache {
    /* PEs of all ranks. 0: there is no cache. */
    uint32_t n_pes;
    /* Rows of each cache. A smaller part has fewer. */
    uint32_t n_rows;
    /* `room` chose the caches, not the user. */
    bool chosen;
    struct sl_feature_room room;
    enum sl_row_cache_policy policy;
    struct sl_row_cache_handles *pe;
    /* By PE, the memory behind the handles. */
    struct sl_row_cache_tally *tally;
    /* By PE: the vertices that the cache starts with. NULL: none. */
    uint32_t **vertices;
};

/* Prepare the caches of this rank's PEs if the settings ask for caches, or if the settings leave the choice open and
 * the features do not fit the run's GPUs. Submits the filling of the caches. The shards must outlive the caches.
 * other_bytes: of one GPU, as in struct sl_feature_room. Collective, while no message is in flight. On failure *out
 * is empty. SL_EINVAL: caches were asked for, but the features are sparse. SL_ENOTSUP: GPUs must read the table in
 * main memory, but the system did not lock it. SL_ENOMEM, also if a GPU has no room for the rows that the settings ask
 * for. SL_EIO, SL_ESTARPU. */
enum sl_status sl_feature_cache_open(const struct sl_settings *settings, const struct sl_plan *plan, struct sl_run *run,
                                     const struct sl_shards *shards, uint64_t other_bytes,
                                     struct sl_feature_cache *out);

/* Wait for the tasks, free everything. An empty struct is allowed. */
void sl_feature_cache_close(struct sl_feature_cache *cache);

/* A PE's cache. NULL if the PE has none on this rank. */
static inline const struct sl_row_cache_handles *sl_feature_cache_of(const struct sl_feature_cache *cache, uint32_t pe)
{
    return pe < cache->n_pes && cache->pe[pe].rows != NULL ? &cache->pe[pe] : NULL;
}

/* Sum the tallies of this rank's PEs since the last call. Waits for the tasks submitted so far. SL_ESTARPU. */
enum sl_status sl_feature_cache_tally(struct sl_feature_cache *cache, struct sl_row_cache_tally *out);

#endif
