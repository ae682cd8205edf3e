/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * --feature-cache: for each PE a cache of hot feature rows (codelets/hotrows.h), in StarPU's hands. Caches begin cold, also in a
 * run that goes on from a checkpoint.
 */
#ifndef SL_RUNTIME_FEATURE_CACHE_H
#define SL_RUNTIME_FEATURE_CACHE_H

#include "codelets/hotrows.h"
#include "runtime/settings.h"
#include "runtime/shards.h"

struct sl_feature_cache {
    uint32_t n_pes; /* 0: there is none */
    enum sl_hotrows_policy policy;
    struct sl_hotrows_handles *pe;
    struct sl_hot_tally *tally; /* of each PE, behind the handles */
    uint32_t **vertices;        /* of each PE, those put there at the start; NULL: none */
};

/* Prepare the caches of all PEs where the settings ask for them; submits their filling. The shards must outlive it.
 * SL_EINVAL: the features are sparse. SL_ENOMEM, SL_ESTARPU. On failure *out is empty. */
enum sl_status sl_feature_cache_open(const struct sl_settings *settings, struct sl_run *run,
                                     const struct sl_shards *shards, struct sl_feature_cache *out);

/* Wait for the tasks, release. An empty struct is allowed. */
void sl_feature_cache_close(struct sl_feature_cache *cache);

/* A PE's cache; NULL: it has none. */
static inline const struct sl_hotrows_handles *sl_feature_cache_of(const struct sl_feature_cache *cache, uint32_t pe)
{
    return pe < cache->n_pes && cache->pe[pe].rows != NULL ? &cache->pe[pe] : NULL;
}

/* The tallies of all PEs since the last call, added up; waits for the tasks submitted so far. SL_ESTARPU. */
enum sl_status sl_feature_cache_tally(struct sl_feature_cache *cache, struct sl_hot_tally *out);

#endif
