/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Links: the first hop of a step that trains on links.
 *   before: the epoch's permutation of the link numbers; sl_seed empties the frontier
 *   after:  codelets/exchange.h merges the ends into the frontiers; sample draws the in-edges of the ends
 *
 *   seed     the block of the links whose first end a PE owns
 *   exclude  the table of the edges that the step must not sample (codelets/sample.h)
 *
 * A link takes k + 2 rows of the block: its first end, its second end, and k negatives. A negative replaces the second
 * end. Each row has a single edge, from the vertex of the row. The mean over the row's edges is thus the vertex's own
 * row. Each vertex of the group's links is thus a source once, and its owner gets one request for it.
 *
 * A negative is drawn uniformly from all vertices. It depends on (seed, epoch, link, index) alone. If edges go both
 * ways, so does a link: a draw of (seed, epoch, link) says which end comes first, so that negatives replace either end.
 */
#ifndef SL_CODELETS_LINKS_H
#define SL_CODELETS_LINKS_H

#include "codelets/sample.h"

/* How links become rows. Scalars only. */
struct sl_link_rule {
    uint32_t n_negatives; /* k */
    bool both_ways;       /* a link has no first end of its own */
    struct sl_draw draw;  /* purpose SL_FOR_NEGATIVES, step = epoch */
};

static inline SL_HOST_DEVICE uint32_t sl_link_rows(const struct sl_link_rule *rule)
{
    return rule->n_negatives + 2;
}

/* Whether the link's ends change places. */
static inline SL_HOST_DEVICE bool sl_link_turns(const struct sl_link_rule *rule, uint32_t link)
{
    uint32_t bits[4];
    sl_random4(&rule->draw, link, 0, bits);
    return rule->both_ways && (bits[0] & 1);
}

/* The dataset id of negative j, one of n_vertices. */
static inline SL_HOST_DEVICE sl_vertex sl_link_negative(const struct sl_link_rule *rule, uint32_t link, uint32_t j,
                                                        uint32_t n_vertices)
{
    uint32_t bits[4];
    sl_random4(&rule->draw, link, 1 + j / 4, bits);
    return sl_random_below(bits[j % 4], n_vertices);
}

/* Entries of a table for n edges: a power of two, at least 2 n. */
static inline uint32_t sl_excluded_entries(uint64_t n)
{
    uint32_t entries = 2;
    while (entries < 2 * n && entries < UINT32_C(1) << 31) {
        entries *= 2;
    }
    return entries;
}

/* ---- kernels, CPU ---- */

/* The links order[0 .. n) of a step. */
struct sl_step_links {
    uint32_t n;
    const uint32_t *order;
    const sl_vertex *from, *to; /* renumbered ids, by link */
    const sl_vertex *new_ids;   /* [N], renumbered id of each dataset id */
};

/* Write the block of the links whose first end the part owns, in their order. Of `part` only first,
 * n_parts and part are read. Returns the number of rows, equal to the number of edges. */
uint32_t sl_link_seed_cpu(const struct sl_sample_part *part, const struct sl_step_links *links,
                          const struct sl_link_rule *rule, const struct sl_sample_marks *marks,
                          const struct sl_sample_block *block);

/* Fill a table of n_entries with the edges of the links, and with their reverses if `reverse`. */
void sl_exclude_cpu(const struct sl_step_links *links, bool reverse, uint32_t n_entries, uint64_t *table_out);

#ifdef SL_CUDA
/* ---- launchers: the same on the stream's device. Arrays: device memory; structs: host memory. SL_ECUDA. ---- */

/* Writes the number of edges and the positions of the request of hop 0 into the counts of n_hops levels. Waits once
 * for the stream. */
SL_EXTERN_C enum sl_status sl_link_seed_cuda(cudaStream_t stream, const struct sl_sample_part *part,
                                             const struct sl_step_links *links, const struct sl_link_rule *rule,
                                             const struct sl_sample_marks *marks, uint32_t n_hops, uint32_t *counts,
                                             const struct sl_sample_block *block);

/* Entries may lie in another order than on the CPU. The same edges are found. */
SL_EXTERN_C enum sl_status sl_exclude_cuda(cudaStream_t stream, const struct sl_step_links *links, bool reverse,
                                           uint32_t n_entries, uint64_t *table_out);
#endif

/* ---- submissions: sampling phase; local; one thread submits. SL_EINVAL, SL_ESTARPU, SL_ENOMEM. ---- */

/* The links of a group in a step: entries begin .. end - 1 of the order. */
struct sl_link_range {
    starpu_data_handle_t order;    /* uint32: link numbers */
    starpu_data_handle_t from, to; /* uint32, by link */
    uint32_t begin, end;
};

/* Submit the block of hop 0 for one PE. new_ids: uint32 [N]. */
enum sl_status sl_link_seed_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                   const struct sl_link_range *links, starpu_data_handle_t new_ids,
                                   const struct sl_link_rule *rule, const struct sl_marks_handles *marks,
                                   const struct sl_frontier_handles *frontier, const struct sl_block *block);

/* Submit the table of a group. table: uint64, sl_excluded_entries elements. */
enum sl_status sl_exclude_submit(const struct sl_task_args *head, const struct sl_link_range *links, bool reverse,
                                 starpu_data_handle_t table);

#endif
