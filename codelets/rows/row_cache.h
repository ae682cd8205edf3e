/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A cache of feature rows on the PE's device, before gather, if the feature table stays in main memory.
 *   before: codelets/sampling/exchange.h (merge) produces the frontier
 *   after:  codelets/rows/gather.h reads cached rows from the cache, all other rows from the table
 *
 * A PE's cache has S entries of one row each. slot_of[local id] is the entry of a vertex. slot[s]
 * has the vertex of entry s and what the policy knows of it. There are these policies:
 *
 *   lru     a missing row of the frontier replaces the least recently used row. Rows of the current frontier are never
 *           replaced, so some missing rows may stay uncached. Time of use: the step, then the row of the frontier
 *   degree  the S vertices that are the source of the most edges, cached once (the static cache of PaGraph, Lin et
 *           al., SoCC 2020)
 *   s3-fifo new rows enter a small queue. A row that was wanted twice moves to the main queue. Other rows leave; one
 *           that soon comes back enters the main queue (S3-FIFO, Yang et al., SOSP 2023)
 *   sieve   a hand goes from the oldest row to the newest. The first row that was not wanted since the hand last
 *           passed leaves (SIEVE, Zhang et al., NSDI 2024)
 *   clock   the same over the entries in a circle. A new row takes the entry of the row that left (Corbato, 1968)
 *
 * codelets/rows/row_cache_rules.h has the last three. They, too, never replace a row of the current frontier.
 *
 * The cache changes data movement and no computed value. It works best with --kappa, because samples then change
 * slowly (Balin et al. 2023).
 */
#ifndef SL_CODELETS_ROW_CACHE_H
#define SL_CODELETS_ROW_CACHE_H

#include "codelets/rows/row_cache_rules.h"
#include "support/real.h"
#include "tasks/task.h"

/* One PE's cache as a kernel sees it. */
struct sl_row_cache {
    uint32_t n_slots; /* S, at least 1 */
    uint32_t n_columns;
    uint32_t *slot_of; /* [n_part], by local id: the entry; n_slots or more: not cached */
    struct sl_row_cache_slot *slot;
    sl_real *rows; /* S x F of the table's dtype */
    /* Bytes of an entry of cache and table: rows are only copied here. uint32_t and `unused` avoid padding, because
     * tools check kernel arguments word by word. */
    uint32_t element;
    uint32_t unused;
};

/* Use of a cache so far. */
struct sl_row_cache_tally {
    uint64_t rows; /* rows asked for */
    uint64_t hits; /* rows found in the cache */
    struct sl_row_cache_queue queue;
};

/* ---- kernels. For a GPU, the table is in pinned main memory ---- */

/* Empty the cache of a part of n_part vertices, then load vertices[i] into entry i for i < n_fixed <= S. vertices:
 * local ids. table: the part's rows, [n_part x F]. */
SL_DECLARE_LAUNCHER(void, sl_row_cache_fill, const struct sl_row_cache *cache, uint32_t n_part, uint32_t n_fixed,
                    const uint32_t *vertices, const sl_real *table);

/* Look up the n rows of a frontier and add to the tally. ids: distinct renumbered ids of the part, whose first id is
 * `first`. If the policy is not SL_ROW_CACHE_DEGREE, update what it knows and load missing rows. */
SL_DECLARE_LAUNCHER(void, sl_row_cache_want, const struct sl_row_cache *cache, enum sl_row_cache_policy policy,
                    uint64_t step, uint32_t n, const sl_vertex *ids, uint32_t first, const sl_real *table,
                    struct sl_row_cache_tally *tally);

/* ---- submissions: local, one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* One PE's cache as StarPU handles. */
struct sl_row_cache_handles {
    starpu_data_handle_t slot_of; /* uint32 [n_part] */
    starpu_data_handle_t slots;   /* struct sl_row_cache_slot [S] */
    starpu_data_handle_t rows;    /* matrix [S x F], dtype of the table */
    starpu_data_handle_t tally;   /* one struct sl_row_cache_tally */
};

/* vertices: vector of n_fixed uint32 local ids, or NULL if n_fixed is 0. table: matrix [n_part x F], read in main
 * memory. */
enum sl_status sl_row_cache_fill_submit(const struct sl_task_args *head, const struct sl_row_cache_handles *cache,
                                        uint32_t n_fixed, starpu_data_handle_t vertices, starpu_data_handle_t table);

/* frontier: vector of at least n_rows ids. table: matrix [n_part x F], read in main memory. */
enum sl_status sl_row_cache_want_submit(const struct sl_task_args *head, const struct sl_row_cache_handles *cache,
                                        enum sl_row_cache_policy policy, uint32_t n_rows, starpu_data_handle_t frontier,
                                        uint32_t first, starpu_data_handle_t table);

#endif
