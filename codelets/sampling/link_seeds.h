/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Links: the first hop of a step that trains on links.
 *   before: the epoch's permutation of the link numbers; sl_seed empties the frontier
 *   after:  codelets/sampling/exchange.h merges the ends into the frontiers; sample draws the in-edges of the ends
 *
 *   seed     the block of the links whose first end a PE owns
 *   exclude  the table of the edges that the step must not sample (codelets/sampling/sample.h)
 *
 * A link takes k + 2 rows of the block: its first end, its second end, and k negatives. A negative replaces the second
 * end. Each row has a single edge, from the vertex of the row. The mean over the row's edges is thus the vertex's own
 * row. Each vertex of the group's links is thus a source once, and its owner gets one request for it.
 *
 * A negative is drawn uniformly from all vertices. It depends on (seed, epoch, link, index) alone. If edges go both
 * ways, so does a link. A draw of (seed, epoch, link) then says which end comes first, so negatives replace either end.
 *
 * A triple (head, relation, tail) never changes its ends' places: its last k / 2 negatives replace the head, the others
 * the tail. They are drawn from the ids that the relation's heads or tails may have.
 */
#ifndef SL_CODELETS_LINK_SEEDS_H
#define SL_CODELETS_LINK_SEEDS_H

#include "codelets/sampling/sample.h"

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

/* Whether negative j of a triple replaces the head; as sl_pairs_beside has it. */
static inline SL_HOST_DEVICE bool sl_link_replaces_head(const struct sl_link_rule *rule, uint32_t j)
{
    return j >= rule->n_negatives - rule->n_negatives / 2;
}

/* The ends of a relation in an array of four numbers each: first head, first tail, heads, tails. */
#define SL_ENDS 4

/* The dataset id of negative j of a triple. ends: of its relation. */
static inline SL_HOST_DEVICE sl_vertex sl_triple_negative(const struct sl_link_rule *rule, uint32_t link, uint32_t j,
                                                          const uint32_t *ends)
{
    const uint32_t end = sl_link_replaces_head(rule, j) ? 0 : 1;
    return ends[end] + sl_link_negative(rule, link, j, ends[2 + end]);
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
    const uint32_t *relation;   /* by link; NULL: links are no triples */
    const uint32_t *ends;       /* [relations x SL_ENDS] */
};

/* Write the block of the links whose first end the part owns, in their order, and its sizes. It has as many edges as
 * rows. Of `part` only first, n_parts and part are read. relations_out: of triples, the relation of each link of the
 * block. On a GPU, the sizes stay there. */
SL_DECLARE_LAUNCHER(void, sl_link_seed, const struct sl_sample_part *part, const struct sl_step_links *links,
                    const struct sl_link_rule *rule, const struct sl_sample_marks *marks,
                    const struct sl_sample_sizes *sizes, const struct sl_sample_block *block, uint32_t *relations_out);

/* Fill a table of n_entries with the edges of the links, and with their reverses if `reverse`. On a GPU, entries may
 * lie in another order. The same edges are found. */
SL_DECLARE_LAUNCHER(void, sl_exclude, const struct sl_step_links *links, bool reverse, uint32_t n_entries,
                    uint64_t *table_out);

/* ---- submissions: sampling phase; local; one thread submits. SL_ESTARPU, SL_ENOMEM. ---- */

/* The links of a group in a step: entries begin .. end - 1 of the order. */
struct sl_link_range {
    starpu_data_handle_t order;    /* uint32: link numbers */
    starpu_data_handle_t from, to; /* uint32, by link */
    uint32_t begin, end;
    starpu_data_handle_t relation, ends; /* uint32, of triples: by link, and as in struct sl_step_links. NULL: none */
    starpu_data_handle_t own_relations;  /* uint32, of triples: written, the relations of the block's links */
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
