/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Seeds and sampled blocks. Distinct sources are found by marking their ids in a bitmap and ranking its bits. This
 * also sorts the sources. */
#include "codelets/sampling/sample.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/compare.h"
#include "support/minmax.h"
#include "support/philox.h"
#include "tasks/rows.h"

/* ---- kernels, CPU ---- */

struct sl_labor_turn sl_labor_turn(uint64_t seed, uint64_t step, uint32_t hop, const struct sl_sample_rule *rule)
{
    uint64_t group = rule->kappa == 0 ? 0 : step / rule->kappa;
    double share = rule->kappa == 0 ? 0 : (double)(step % rule->kappa) / rule->kappa;
    struct sl_labor_turn turn = {.cosine = cos(share * M_PI_2), .sine = share == 0 ? 0 : sin(share * M_PI_2)};
    turn.first = (struct sl_draw){.seed = seed, .purpose = SL_FOR_KAPPA, .step = group};
    turn.first.hop = rule->layer_dependency ? 0 : hop;
    turn.second = turn.first;
    turn.second.step = group + 1;
    return turn;
}

/* Destinations are drawn in batches. While the in-neighbours of one batch are fetched from memory, the next batch is
 * picked. The list bounds are prefetched some batches ahead. */
#define BATCH SL_PHILOX_LANES
#define AHEAD (4 * BATCH)

/* The in-neighbours of one destination, and its edges in the block. */
struct drawn {
    const sl_vertex *ids;
    uint32_t n; /* number of edges */
    uint32_t first_edge;
};

struct batch {
    uint32_t n_some, n_whole;
    /* Lists from which some in-neighbours are picked: their edges hold positions. */
    struct drawn some[BATCH];
    /* Lists taken whole: their edges are not filled yet. */
    struct drawn whole[BATCH];
    uint32_t vertices[BATCH]; /* dataset ids of `some` */
    uint32_t degrees[BATCH];
};

/* Prefetch the list bounds of destinations begin .. end - 1. */
SL_INLINE void fetch_bounds(const struct sl_sample_part *part, uint32_t begin, uint32_t end, const sl_vertex *frontier)
{
    for (uint32_t d = begin; d < end; d++) {
        __builtin_prefetch(part->offsets + (frontier[d] - part->first[part->part]));
        __builtin_prefetch(part->dataset_ids + frontier[d]);
    }
}

/* Sort n destinations into the batch and assign their edges. Without a branch, since it is random which destinations
 * have long lists. Returns the number of edges so far. */
SL_INLINE uint32_t list_batch(const struct sl_sample_part *part, uint32_t fanout, uint32_t n, const sl_vertex *frontier,
                              uint32_t n_edges, uint32_t *offsets_out, struct batch *batch)
{
    uint32_t n_some = 0;
    uint32_t n_whole = 0;
    for (uint32_t d = 0; d < n; d++) {
        const struct sl_neighbours from = sl_neighbours_of(part, frontier[d]);
        const uint32_t degree = from.degree;
        const struct drawn drawn = {from.ids, sl_min_u32(degree, fanout), n_edges};
        batch->some[n_some] = drawn;
        batch->vertices[n_some] = part->dataset_ids[frontier[d]];
        batch->degrees[n_some] = degree;
        batch->whole[n_whole] = drawn;
        n_some += degree > fanout;
        n_whole += degree <= fanout;
        n_edges += drawn.n;
        offsets_out[d + 1] = n_edges;
    }
    batch->n_some = n_some;
    batch->n_whole = n_whole;
    return n_edges;
}

/* ---- neighbor: Floyd's selection for a batch; each lane does the work of one sl_pick_neighbor ----
 *
 * The picks of a lane are kept sorted. Each new pick is compared with the picks before it; the smaller value stays,
 * and the larger moves on. For few picks, this network without branches is faster than a search with branches. */

#define MOST_SIDE_BY_SIDE 64 /* picks per lane */

/* With more picks, or with few lanes in use, one destination after the other is as fast or faster. */
SL_INLINE bool pays_side_by_side(uint32_t k, uint32_t n_lanes)
{
    return k <= MOST_SIDE_BY_SIDE && n_lanes > k / 12;
}

/* In each lane, keep the smaller value in `row` and put the larger into `pick`. */
SL_INLINE void rise(uint32_t *restrict row, uint32_t *restrict pick)
{
    for (uint32_t l = 0; l < BATCH; l++) {
        uint32_t smaller = sl_min_u32(row[l], pick[l]);
        pick[l] = sl_max_u32(row[l], pick[l]);
        row[l] = smaller;
    }
}

SL_INLINE void find_equal(const uint32_t *restrict row, const uint32_t *restrict pick, uint32_t *restrict taken)
{
    for (uint32_t l = 0; l < BATCH; l++) {
        taken[l] |= row[l] == pick[l] ? UINT32_MAX : 0;
    }
}

/* Add one pick to each lane, which has n of k. bits: random words. */
SL_INLINE void pick_one(uint32_t n, uint32_t k, const uint32_t *restrict degrees, const uint32_t *restrict bits,
                        uint32_t (*restrict picked)[BATCH])
{
    uint32_t pick[BATCH], taken[BATCH];
    for (uint32_t l = 0; l < BATCH; l++) {
        pick[l] = sl_random_below(bits[l], degrees[l] - k + n + 1);
        taken[l] = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        find_equal(picked[i], pick, taken);
    }
    for (uint32_t l = 0; l < BATCH; l++) {
        uint32_t last = degrees[l] - k + n;
        pick[l] = (pick[l] & ~taken[l]) | (last & taken[l]);
    }
    for (uint32_t i = 0; i < n; i++) {
        rise(picked[i], pick);
    }
    for (uint32_t l = 0; l < BATCH; l++) {
        picked[n][l] = pick[l];
    }
}

/* Add up to four picks to each lane, from one draw of four words. */
SL_INLINE void pick_four(uint32_t n, uint32_t k, const uint32_t *degrees, uint32_t words[4][BATCH],
                         uint32_t (*picked)[BATCH])
{
    for (uint32_t i = 0; i < 4 && n + i < k; i++) {
        pick_one(n + i, k, degrees, words[i], picked);
    }
}

/* Unused lanes compute picks that are ignored. */
SL_INLINE void pick_side_by_side(const struct sl_draw *draw, uint32_t k, const struct batch *batch, uint32_t *edges_out)
{
    uint32_t picked[MOST_SIDE_BY_SIDE][BATCH];
    for (uint32_t n = 0; n < k; n += 4) {
        uint32_t words[4][BATCH];
        sl_random4_lanes(draw, batch->vertices, n / 4, words);
        pick_four(n, k, batch->degrees, words, picked);
    }
    for (uint32_t l = 0; l < batch->n_some; l++) {
        for (uint32_t i = 0; i < k; i++) {
            edges_out[batch->some[l].first_edge + i] = picked[i][l];
        }
    }
}

/* ---- blocks ---- */

/* neighbor: pick positions in the lists of a batch without reading the lists. Prefetches the picked entries. */
SL_INLINE void pick_neighbor(const struct sl_draw *draw, uint32_t k, const struct batch *batch, uint32_t *edges_out)
{
    if (pays_side_by_side(k, batch->n_some)) {
        pick_side_by_side(draw, k, batch, edges_out);
    } else {
        for (uint32_t l = 0; l < batch->n_some; l++) {
            sl_pick_neighbor(draw, batch->vertices[l], batch->degrees[l], k, 1, edges_out + batch->some[l].first_edge);
        }
    }
    for (uint32_t l = 0; l < batch->n_some; l++) {
        for (uint32_t i = 0; i < k; i++) {
            __builtin_prefetch(batch->some[l].ids + edges_out[batch->some[l].first_edge + i]);
        }
    }
}

/* labor, slow: pick positions in the lists of a batch. Reads the lists. */
SL_INLINE void pick_labor(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                          const struct sl_labor_turn *turn, const struct batch *batch, struct sl_labor_pick *heap,
                          uint32_t *edges_out)
{
    struct sl_labor_list lists[BATCH];
    for (uint32_t l = 0; l < batch->n_some; l++) {
        lists[l] = (struct sl_labor_list){batch->some[l].ids, batch->degrees[l], edges_out + batch->some[l].first_edge};
    }
    for (uint32_t l = 0; l < batch->n_some && rule->method == SL_SAMPLE_SLOW; l++) {
        const struct sl_labor_turn own = sl_labor_turn_of(turn, rule, batch->vertices[l]);
        sl_labor_pick_cpu(&own, part->dataset_ids, rule->fanout, 1, &lists[l], heap);
    }
    if (rule->method == SL_SAMPLE_LABOR) {
        sl_labor_pick_cpu(turn, part->dataset_ids, rule->fanout, batch->n_some, lists, heap);
    }
}

/* Prefetch the first cache lines of lists that will be read. */
SL_INLINE void fetch_lists(uint32_t n, const struct drawn *lists)
{
    for (uint32_t l = 0; l < n; l++) {
        __builtin_prefetch(lists[l].ids);
        __builtin_prefetch(lists[l].ids + 16);
    }
}

/* Replace positions by ids, and mark the ids. */
SL_INLINE void read_batch(uint32_t k, const struct batch *batch, uint64_t *words, sl_vertex *edges_out)
{
    for (uint32_t l = 0; l < batch->n_some; l++) {
        uint32_t *edge = edges_out + batch->some[l].first_edge;
        for (uint32_t i = 0; i < k; i++) {
            edge[i] = batch->some[l].ids[edge[i]];
            sl_mark_cpu(words, edge[i]);
        }
    }
    for (uint32_t l = 0; l < batch->n_whole; l++) {
        uint32_t *edge = edges_out + batch->whole[l].first_edge;
        for (uint32_t i = 0; i < batch->whole[l].n; i++) {
            edge[i] = batch->whole[l].ids[i];
            sl_mark_cpu(words, edge[i]);
        }
    }
}

/* Copy the weight, relation and row of an edge of the part to edge e of the block. */
SL_INLINE void take_values(const struct sl_sample_part *part, uint64_t edge, const struct sl_sample_block *block,
                           uint32_t e)
{
    if (block->edge_weights != NULL) {
        block->edge_weights[e] = part->weights[edge];
    }
    if (block->edge_relations != NULL) {
        block->edge_relations[e] = part->relations[edge];
    }
    if (block->edge_rows != NULL) {
        block->edge_rows[e] = part->rows[edge];
    }
}

/* The same for a batch's edges. The edges of picked lists are positions. */
SL_INLINE void read_values(const struct sl_sample_part *part, uint32_t k, const struct batch *batch,
                           const struct sl_sample_block *block)
{
    for (uint32_t l = 0; l < batch->n_some; l++) {
        const struct drawn *drawn = &batch->some[l];
        const uint64_t first = (uint64_t)(drawn->ids - part->sources);
        for (uint32_t e = drawn->first_edge; e < drawn->first_edge + k; e++) {
            take_values(part, first + block->edge_sources[e], block, e);
        }
    }
    for (uint32_t l = 0; l < batch->n_whole; l++) {
        const struct drawn *drawn = &batch->whole[l];
        const uint64_t first = (uint64_t)(drawn->ids - part->sources);
        for (uint32_t i = 0; i < drawn->n; i++) {
            take_values(part, first + i, block, drawn->first_edge + i);
        }
    }
}

/* Second half of the work on a batch, after its lists have been fetched. */
SL_INLINE void finish_batch(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                            const struct sl_labor_turn *turn, const struct batch *batch,
                            const struct sl_sample_marks *marks, const struct sl_sample_block *out)
{
    if (sl_sample_by_keys(rule) && batch->n_some > 0) {
        pick_labor(part, rule, turn, batch, marks->heap, out->edge_sources);
    }
    if (out->edge_weights != NULL || out->edge_relations != NULL || out->edge_rows != NULL) {
        read_values(part, rule->fanout, batch, out);
    }
    read_batch(rule->fanout, batch, marks->words, out->edge_sources);
}

/* Draw the edges of all destinations and mark their sources. out->edge_sources gets ids, in the order of the
 * in-neighbour lists. */
SL_INLINE uint32_t draw_edges(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                              const struct sl_draw *draw, uint32_t n_rows, const sl_vertex *frontier,
                              const struct sl_sample_marks *marks, const struct sl_sample_block *out)
{
    uint32_t *const offsets_out = out->edge_offsets;
    sl_vertex *const edges_out = out->edge_sources;
    const struct sl_labor_turn turn = sl_labor_turn(draw->seed, draw->step, draw->hop, rule);
    const uint32_t fanout = rule->method == SL_SAMPLE_FULL ? UINT32_MAX : rule->fanout;
    struct batch batches[2];
    uint32_t n_edges = 0;
    uint32_t n_fetched = 0;
    offsets_out[0] = 0;
    for (uint32_t d = 0, b = 0; d < n_rows; d += BATCH, b ^= 1) {
        uint32_t n = sl_min_u32(n_rows - d, BATCH);
        uint32_t n_wanted = d + sl_min_u32(n_rows - d, AHEAD + BATCH);
        fetch_bounds(part, n_fetched, n_wanted, frontier);
        n_fetched = n_wanted;
        n_edges = list_batch(part, fanout, n, frontier + d, n_edges, offsets_out + d, &batches[b]);
        if (rule->method == SL_SAMPLE_NEIGHBOR) {
            pick_neighbor(draw, fanout, &batches[b], edges_out);
        } else {
            fetch_lists(batches[b].n_some, batches[b].some);
        }
        fetch_lists(batches[b].n_whole, batches[b].whole);
        if (d > 0) {
            finish_batch(part, rule, &turn, &batches[b ^ 1], marks, out);
        }
    }
    if (n_rows > 0) {
        finish_batch(part, rule, &turn, &batches[(n_rows - 1) / BATCH % 2], marks, out);
    }
    return n_edges;
}

/* Pick positions in a list by the rule, which is not `weighted`. k < the list's length, or the rule is `replaced`. */
SL_INLINE void pick_positions(const struct sl_sample_rule *rule, const struct sl_draw *draw,
                              const struct sl_labor_turn *turn, const struct sl_sample_part *part, uint32_t vertex,
                              const struct sl_labor_list *list, struct sl_labor_pick *heap)
{
    if (sl_sample_by_keys(rule)) {
        const struct sl_labor_turn own = sl_labor_turn_of(turn, rule, vertex);
        sl_labor_pick_cpu(&own, part->dataset_ids, rule->fanout, 1, list, heap);
    } else if (rule->method == SL_SAMPLE_REPLACED) {
        sl_pick_replaced(draw, vertex, list->degree, rule->fanout, list->picked_out);
    } else {
        sl_pick_neighbor(draw, vertex, list->degree, rule->fanout, 1, list->picked_out);
    }
}

/* Draw positions in a list. Returns their number. */
SL_INLINE uint32_t draw_list(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                             const struct sl_draw *draw, const struct sl_labor_turn *turn, uint32_t vertex,
                             const struct sl_labor_list *list, struct sl_labor_pick *heap)
{
    const bool replaced = rule->method == SL_SAMPLE_REPLACED && rule->fanout != UINT32_MAX;
    const uint32_t n = sl_sample_count(rule, list->degree);
    if (rule->method == SL_SAMPLE_WEIGHTED) {
        const uint64_t first = (uint64_t)(list->ids - part->sources);
        const uint16_t *relations = NULL; /* with fanouts by relation the draw is of the list's relation */
        if (part->relations != NULL && part->fanouts == NULL) {
            relations = part->relations + first;
        }
        return sl_weighted_pick_cpu(draw, vertex, part->dataset_ids, rule->fanout, list, part->weights + first,
                                    relations, heap);
    }
    if (n > 0 && (replaced || n < list->degree)) {
        pick_positions(rule, draw, turn, part, vertex, list, heap);
        return n;
    }
    for (uint32_t i = 0; i < n; i++) {
        list->picked_out[i] = i;
    }
    return n;
}

/* The same by weights, with replacement, or with fanouts by relation: one destination after the other. */
SL_INLINE uint32_t draw_one_by_one(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                                   const struct sl_draw *draw, uint32_t n_rows, const sl_vertex *frontier,
                                   const struct sl_sample_marks *marks, const struct sl_sample_block *out)
{
    const struct sl_labor_turn turn = sl_labor_turn(draw->seed, draw->step, draw->hop, rule);
    uint32_t n_edges = 0;
    out->edge_offsets[0] = 0;
    for (uint32_t d = 0; d < n_rows; d++) {
        const struct sl_neighbours from = sl_neighbours_of(part, frontier[d]);
        fetch_bounds(part, sl_min_u32(d + AHEAD, n_rows), sl_min_u32(d + AHEAD + 1, n_rows), frontier);
        for (struct sl_edge_run run = {0}; sl_next_run(part, &from, &run);) {
            const struct sl_sample_rule own = sl_rule_of_run(part, rule, &run);
            const struct sl_draw own_draw = sl_sample_draw_of(draw, run.relation);
            const struct sl_labor_list list = {from.ids + run.begin, run.end - run.begin, out->edge_sources + n_edges};
            uint32_t n = draw_list(part, &own, &own_draw, &turn, part->dataset_ids[frontier[d]], &list, marks->heap);
            for (; n > 0; n--, n_edges++) {
                const uint64_t entry = from.first + run.begin + out->edge_sources[n_edges];
                take_values(part, entry, out, n_edges);
                out->edge_sources[n_edges] = part->sources[entry];
                sl_mark_cpu(marks->words, out->edge_sources[n_edges]);
            }
        }
        out->edge_offsets[d + 1] = n_edges;
    }
    return n_edges;
}

SL_INLINE uint32_t rank_words(uint32_t n_words, const uint64_t *words, uint32_t *ranks)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < n_words; w++) {
        ranks[w] = n;
        n += (uint32_t)__builtin_popcountll(words[w]);
    }
    return n;
}

/* List the marked ids of a word in ascending order, eight at a time. Entries written past the last id are
 * overwritten by the next word. */
SL_INLINE void list_word(uint64_t bits, uint32_t base, uint32_t n, uint32_t *ids_out)
{
    for (uint32_t i = 0; i < n; i += 8) {
        for (uint32_t j = i; j < i + 8; j++) {
            ids_out[j] = base + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
            bits &= bits - 1;
        }
    }
}

SL_CLONES uint32_t sl_list_marked_cpu(const struct sl_sample_part *part, const uint64_t *words, uint32_t *ranks,
                                      uint32_t *list_out)
{
    const uint32_t n_parts = part->n_parts;
    const uint32_t n_words = (uint32_t)(((uint64_t)part->first[n_parts] + 63) / 64);
    uint32_t *ids = sl_list_entries(list_out, n_parts);
    const uint32_t n = rank_words(n_words, words, ranks);
    for (uint32_t q = 0; q <= n_parts; q++) {
        const uint32_t first = part->first[q];
        list_out[q] = first < 64 * (uint64_t)n_words ? sl_rank_cpu(words, ranks, first) : n;
    }
    for (uint32_t w = 0; w < n_words; w++) {
        const uint32_t rank = ranks[w];
        const uint32_t n_here = (w + 1 < n_words ? ranks[w + 1] : n) - rank;
        if (n - rank >= (n_here + 7) / 8 * 8) {
            list_word(words[w], 64 * w, n_here, ids + rank);
            continue;
        }
        uint64_t bits = words[w];
        for (uint32_t i = 0; i < n_here; i++, bits &= bits - 1) {
            ids[rank + i] = 64 * w + (uint32_t)__builtin_ctzll(bits);
        }
    }
    return n;
}

/* The same if few ids are marked. A second bitmap marks the words with marks, so that empty words are not visited. */
SL_INLINE uint32_t list_few(const uint32_t *first, uint32_t n_parts, uint32_t n_edges, const uint32_t *edges,
                            const struct sl_sample_marks *marks, uint32_t *request_out)
{
    const uint32_t n_groups = (uint32_t)(((uint64_t)first[n_parts] + 4095) / 4096);
    uint32_t *ids = sl_list_entries(request_out, n_parts);
    uint32_t n = 0;
    uint32_t q = 0;
    for (uint32_t e = 0; e < n_edges; e++) {
        sl_mark_cpu(marks->touched, edges[e] / 64);
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        for (uint64_t group = marks->touched[g]; group != 0; group &= group - 1) {
            const uint32_t w = 64 * g + (uint32_t)__builtin_ctzll(group);
            marks->ranks[w] = n;
            for (; q < n_parts && first[q] / 64 <= w; q++) {
                request_out[q] = first[q] / 64 < w ? n : sl_rank_cpu(marks->words, marks->ranks, first[q]);
            }
            for (uint64_t bits = marks->words[w]; bits != 0; bits &= bits - 1) {
                ids[n++] = 64 * w + (uint32_t)__builtin_ctzll(bits);
            }
        }
        marks->touched[g] = 0;
    }
    for (; q <= n_parts; q++) {
        request_out[q] = n;
    }
    return n;
}

/* Replace ids by positions among the sources. Counts the edges of source t in back_offsets[t + 1]; NULL: does not. */
SL_INLINE void renumber(uint32_t n_edges, const struct sl_sample_marks *marks, uint32_t *edges, uint32_t *back_offsets)
{
    for (uint32_t e = 0; e < n_edges; e++) {
        edges[e] = sl_rank_cpu(marks->words, marks->ranks, edges[e]);
        if (back_offsets != NULL) {
            back_offsets[edges[e] + 1]++;
        }
    }
}

/* Transpose the block: a stable counting sort of the edges by source. A source's count becomes the offset of its
 * first edge; placing its edges moves the offset to its end. weighted, typed, featured: edges have weights, relations,
 * rows. */
SL_INLINE void transpose(uint32_t n_rows, uint32_t n_sources, bool weighted, bool typed, bool featured,
                         const struct sl_sample_block *block)
{
    const uint32_t *offsets = block->edge_offsets;
    const uint32_t *sources = block->edge_sources;
    uint32_t *back_offsets = block->back_offsets;
    uint32_t n = 0;
    for (uint32_t t = 1; t <= n_sources; t++) {
        uint32_t count = back_offsets[t];
        back_offsets[t] = n;
        n += count;
    }
    for (uint32_t d = 0; d < n_rows; d++) {
        for (uint32_t e = offsets[d]; e < offsets[d + 1]; e++) {
            const uint32_t place = back_offsets[sources[e] + 1]++;
            block->back_rows[place] = d;
            if (weighted) {
                block->back_weights[place] = block->edge_weights[e];
            }
            if (typed) {
                block->back_relations[place] = block->edge_relations[e];
            }
            if (featured) {
                block->back_edges[place] = block->edge_rows[e];
            }
        }
    }
}

/* Clear the words of the sources if there are few, otherwise all words. */
SL_INLINE void clear_words(bool few, uint32_t n_words, uint32_t n_sources, const uint32_t *sources, uint64_t *words)
{
    if (!few) {
        memset(words, 0, n_words * sizeof *words);
        return;
    }
    for (uint32_t t = 0; t < n_sources; t++) {
        words[sources[t] / 64] = 0;
    }
}

/* Drop the excluded edges, or make them self loops, and mark the sources anew. Returns the number of edges left. */
SL_INLINE uint32_t drop_excluded(const struct sl_sample_part *part, uint32_t n_rows, const sl_vertex *frontier,
                                 uint64_t *words, const struct sl_sample_block *block)
{
    sl_vertex *edges = block->edge_sources;
    uint32_t begin = 0;
    uint32_t n = 0;
    for (uint32_t e = 0; e < block->edge_offsets[n_rows]; e++) {
        words[edges[e] / 64] = 0;
    }
    for (uint32_t d = 0; d < n_rows; d++) {
        const uint32_t end = block->edge_offsets[d + 1];
        for (uint32_t e = begin; e < end; e++) {
            const bool gone = sl_is_excluded(&part->excluded, edges[e], frontier[d]);
            if (gone && part->excluded.loops == 0) {
                continue;
            }
            if (block->edge_weights != NULL) {
                block->edge_weights[n] = block->edge_weights[e];
            }
            if (block->edge_relations != NULL) {
                block->edge_relations[n] = block->edge_relations[e];
            }
            if (block->edge_rows != NULL) {
                block->edge_rows[n] = block->edge_rows[e];
            }
            edges[n] = gone ? frontier[d] : edges[e];
            sl_mark_cpu(words, edges[n++]);
        }
        begin = end;
        block->edge_offsets[d + 1] = n;
    }
    return n;
}

/* Words per edge above which marks count as few. */
#define WORDS_OF_FEW 4

SL_INLINE void close_block(const struct sl_sample_part *part, uint32_t n_rows, uint32_t n_edges,
                           const struct sl_sample_marks *marks, const struct sl_sample_sizes *sizes,
                           const struct sl_sample_block *block)
{
    const uint32_t n_words = (uint32_t)(((uint64_t)part->first[part->n_parts] + 63) / 64);
    const bool few = n_edges < n_words / WORDS_OF_FEW;
    uint32_t n_sources;
    if (few) {
        n_sources = list_few(part->first, part->n_parts, n_edges, block->edge_sources, marks, block->request);
    } else {
        n_sources = sl_list_marked_cpu(part, marks->words, marks->ranks, block->request);
    }
    *sizes->n_edges = n_edges;
    if (sizes->positions != NULL) {
        memcpy(sizes->positions, block->request, ((size_t)part->n_parts + 1) * sizeof *block->request);
    }
    if (block->back_offsets != NULL) {
        memset(block->back_offsets, 0, ((size_t)n_sources + 1) * sizeof *block->back_offsets);
    }
    renumber(n_edges, marks, block->edge_sources, block->back_offsets);
    clear_words(few, n_words, n_sources, sl_list_entries(block->request, part->n_parts), marks->words);
    if (block->back_offsets == NULL) {
        return;
    }
    if (block->edge_weights == NULL && block->edge_relations == NULL && block->back_edges == NULL) {
        transpose(n_rows, n_sources, false, false, false, block);
    } else {
        transpose(n_rows, n_sources, block->edge_weights != NULL, block->edge_relations != NULL,
                  block->back_edges != NULL, block);
    }
}

SL_CLONES void sl_block_close_cpu(const struct sl_sample_part *part, uint32_t n_rows, uint32_t n_edges,
                                  const struct sl_sample_marks *marks, const struct sl_sample_sizes *sizes,
                                  const struct sl_sample_block *block)
{
    close_block(part, n_rows, n_edges, marks, sizes, block);
}

SL_CLONES void sl_sample_cpu(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                             const struct sl_draw *draw, const sl_vertex *frontier, const struct sl_sample_marks *marks,
                             const struct sl_sample_sizes *sizes, const struct sl_sample_block *block)
{
    const uint32_t n_rows = *sizes->n_rows;
    const bool one_by_one =
        part->fanouts != NULL || rule->method == SL_SAMPLE_WEIGHTED || rule->method == SL_SAMPLE_REPLACED;
    uint32_t n_edges;
    if (one_by_one) {
        n_edges = draw_one_by_one(part, rule, draw, n_rows, frontier, marks, block);
    } else {
        n_edges = draw_edges(part, rule, draw, n_rows, frontier, marks, block);
    }
    if (part->excluded.table != NULL) {
        n_edges = drop_excluded(part, n_rows, frontier, marks->words, block);
    }
    close_block(part, n_rows, n_edges, marks, sizes, block);
}

static int compare_keys(const void *a, const void *b)
{
    const struct sl_permute_key *x = a;
    const struct sl_permute_key *y = b;
    return sl_order(x->hash, y->hash, x->dataset_id, y->dataset_id);
}

#define PERMUTE_BITS 14 /* keys are sorted inside 2^PERMUTE_BITS ranges of their hash */
#define PERMUTE_RANGE (64 - PERMUTE_BITS)
#define PERMUTE_SMALL 64 /* up to this many keys, a range is sorted by insertion */

/* A range has few keys, unless there are millions of training vertices. */
static void sort_range(uint32_t n, struct sl_permute_key *keys)
{
    if (n > PERMUTE_SMALL) {
        qsort(keys, n, sizeof *keys, compare_keys);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        const struct sl_permute_key key = keys[i];
        uint32_t k = i;
        for (; k > 0 && compare_keys(&key, &keys[k - 1]) < 0; k--) {
            keys[k] = keys[k - 1];
        }
        keys[k] = key;
    }
}

/* Hash the first n vertices, at most one for each lane. Returns the number of hashes. */
static uint32_t hash_some(const struct sl_draw *draw, uint32_t n, const sl_vertex *dataset_ids,
                          uint64_t hash_out[SL_PHILOX_LANES])
{
    sl_vertex some[SL_PHILOX_LANES] = {0};
    uint32_t words[4][SL_PHILOX_LANES];
    n = sl_min_u32(n, SL_PHILOX_LANES);
    memcpy(some, dataset_ids, n * sizeof *some);
    sl_random4_lanes(draw, some, 0, words);
    for (uint32_t l = 0; l < n; l++) {
        hash_out[l] = (uint64_t)words[0][l] << 32 | words[1][l]; /* as sl_random_u64 */
    }
    return n;
}

/* Computes each hash twice, to count the ranges and to fill them. This is cheaper than storing the hashes. */
void sl_permute_cpu(uint64_t seed, uint64_t epoch, uint32_t n, const sl_vertex *train_dataset_ids,
                    const sl_vertex *new_ids, struct sl_permute_key *keys, sl_vertex *order_out)
{
    struct sl_draw draw = {.seed = seed, .step = epoch, .purpose = SL_FOR_PERMUTATION};
    uint64_t hash[SL_PHILOX_LANES];
    uint32_t end[1 << PERMUTE_BITS] = {0};
    uint32_t begin = 0;
    for (uint32_t i = 0, some = 0; i < n; i += some) {
        some = hash_some(&draw, n - i, train_dataset_ids + i, hash);
        for (uint32_t l = 0; l < some; l++) {
            end[hash[l] >> PERMUTE_RANGE]++;
        }
    }
    for (uint32_t r = 0, sum = 0; r < 1 << PERMUTE_BITS; r++) {
        uint32_t count = end[r];
        end[r] = sum;
        sum += count;
    }
    for (uint32_t i = 0, some = 0; i < n; i += some) {
        some = hash_some(&draw, n - i, train_dataset_ids + i, hash);
        for (uint32_t l = 0; l < some; l++) {
            sl_vertex id = train_dataset_ids[i + l];
            keys[end[hash[l] >> PERMUTE_RANGE]++] = (struct sl_permute_key){hash[l], id, new_ids[id]};
        }
    }
    for (uint32_t r = 0; r < 1 << PERMUTE_BITS; begin = end[r++]) {
        sort_range(end[r] - begin, keys + begin);
    }
    for (uint32_t i = 0; i < n; i++) {
        order_out[i] = keys[i].id;
    }
}

void sl_seed_cpu(uint32_t n, const sl_vertex *order, uint32_t n_hops, bool stop, uint32_t *counts,
                 const struct sl_frontier *frontier)
{
    const uint32_t first = frontier->first;
    for (uint32_t r = 0; r < counts[sl_counts_rows(n_hops)]; r++) {
        frontier->row_of[frontier->ids[r] - first] = SL_NONE;
    }
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (order[i] >= first && order[i] < first + frontier->n_part) {
            frontier->row_of[order[i] - first] = n_rows;
            frontier->ids[n_rows++] = order[i];
        }
    }
    counts[sl_counts_rows(0)] = n_rows;
    counts[sl_counts_stop(n_hops)] = stop;
}

/* ---- shared operands ---- */

struct sl_hop sl_hop_of(const struct sl_task_args *head, uint64_t seed, const struct sl_part_handles *part,
                        const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                        const struct sl_block *block)
{
    static const struct sl_marks_handles no_marks;
    static const struct sl_block no_block;
    marks = marks != NULL ? marks : &no_marks;
    block = block != NULL ? block : &no_block;
    assert(part->n_parts <= SL_MAX_GROUP);
    return (struct sl_hop){.head = *head,
                           .offsets = sl_matrix_of(part->offsets),
                           .sources = sl_matrix_of(part->sources),
                           .dataset_ids = sl_matrix_of(part->dataset_ids),
                           .first = sl_matrix_of(part->first),
                           .weights = sl_matrix_of(part->weights),
                           .relations = sl_matrix_of(part->relations),
                           .rows = sl_matrix_of(part->rows),
                           .fanouts = sl_matrix_of(part->fanouts),
                           .excluded = sl_matrix_of(part->excluded),
                           .frontier = sl_matrix_of(frontier->ids),
                           .counts = sl_matrix_of(frontier->counts),
                           .marks = sl_matrix_of(marks->bytes),
                           .edge_offsets = sl_matrix_of(block->edge_offsets),
                           .edge_sources = sl_matrix_of(block->edge_sources),
                           .back_offsets = sl_matrix_of(block->back_offsets),
                           .back_rows = sl_matrix_of(block->back_rows),
                           .request = sl_matrix_of(block->request),
                           .edge_weights = sl_matrix_of(block->edge_weights),
                           .back_weights = sl_matrix_of(block->back_weights),
                           .edge_relations = sl_matrix_of(block->edge_relations),
                           .back_relations = sl_matrix_of(block->back_relations),
                           .edge_rows = sl_matrix_of(block->edge_rows),
                           .back_edges = sl_matrix_of(block->back_edges),
                           .draw = {.seed = seed, .step = head->step, .purpose = SL_FOR_SAMPLING, .hop = head->hop},
                           .n_hops = frontier->n_hops,
                           .n_parts = part->n_parts,
                           .part = part->part,
                           .n_vertices = marks->n_vertices,
                           .max_fanout = marks->max_fanout,
                           .loops = part->loops};
}

struct sl_sample_part sl_hop_part(const struct sl_hop *hop)
{
    return (struct sl_sample_part){.offsets = hop->offsets.data,
                                   .sources = hop->sources.data,
                                   .dataset_ids = hop->dataset_ids.data,
                                   .first = hop->first.data,
                                   .n_parts = hop->n_parts,
                                   .part = hop->part,
                                   .weights = hop->weights.data,
                                   .relations = hop->relations.data,
                                   .rows = hop->rows.data,
                                   .fanouts = hop->fanouts.data,
                                   .excluded = {hop->excluded.data, hop->excluded.n_rows - 1, hop->loops}};
}

struct sl_sample_block sl_hop_block(const struct sl_hop *hop)
{
    return (struct sl_sample_block){.edge_offsets = hop->edge_offsets.data,
                                    .edge_sources = hop->edge_sources.data,
                                    .back_offsets = hop->back_offsets.data,
                                    .back_rows = hop->back_rows.data,
                                    .request = hop->request.data,
                                    .max_rows = hop->edge_offsets.n_rows - 1,
                                    .max_edges = hop->edge_sources.n_rows,
                                    .edge_weights = hop->edge_weights.data,
                                    .back_weights = hop->back_weights.data,
                                    .edge_relations = hop->edge_relations.data,
                                    .back_relations = hop->back_relations.data,
                                    .edge_rows = hop->edge_rows.data,
                                    .back_edges = hop->back_edges.data};
}

struct sl_sample_sizes sl_hop_sizes(const struct sl_hop *hop)
{
    return sl_sizes_in(hop->counts.data, hop->n_hops, hop->n_parts, hop->head.hop);
}

/* ---- operations ---- */

struct permute {
    struct sl_task_args head;
    struct sl_matrix train_ids, new_ids, keys, order;
    uint64_t seed, epoch;
};

static enum sl_status permute(const void *view, const void *stream)
{
    const struct permute *v = view;
    return SL_RUN(stream, sl_permute, v->seed, v->epoch, v->order.n_rows, v->train_ids.data, v->new_ids.data,
                  v->keys.data, v->order.data);
}

static struct sl_operation permute_op = {
    SL_OPERATION(permute_op, "sl_permute", SL_STAGE_SAMPLE),
    SL_BODY(permute, struct permute),
    .role = {{"train dataset ids", STARPU_R, offsetof(struct permute, train_ids), "?", SL_INTS_32},
             {"new ids", STARPU_R, offsetof(struct permute, new_ids), "?", SL_INTS_32},
             {"keys", STARPU_W, offsetof(struct permute, keys), "?", SL_ANY},
             {"order", STARPU_W, offsetof(struct permute, order), "?", SL_INTS_32}},
};

struct seed {
    struct sl_task_args head;
    struct sl_matrix order, frontier, index, counts;
    uint32_t n_hops, first, end;
    bool stop;
};

static enum sl_status seed(const void *view, const void *stream)
{
    const struct seed *v = view;
    const struct sl_frontier frontier = {
        .first = v->first, .n_part = v->end - v->first, .ids = v->frontier.data, .row_of = v->index.data};
    return SL_RUN(stream, sl_seed, v->order.n_rows, v->order.data, v->n_hops, v->stop, v->counts.data, &frontier);
}

static struct sl_operation seed_op = {
    SL_OPERATION(seed_op, "sl_seed", SL_STAGE_SAMPLE),
    SL_BODY(seed, struct seed),
    .role = {{"order", STARPU_R, offsetof(struct seed, order), "?", SL_INTS_32},
             {"frontier", STARPU_RW, offsetof(struct seed, frontier), "?", SL_INTS_32},
             {"index", STARPU_RW, offsetof(struct seed, index), "?", SL_INTS_8},
             {"counts", STARPU_RW, offsetof(struct seed, counts), "?", SL_INTS_32}},
};

struct sample {
    struct sl_hop hop;
    struct sl_sample_rule rule;
};

static enum sl_status sample(const void *view, const void *stream)
{
    const struct sample *v = view;
    const struct sl_sample_part part = sl_hop_part(&v->hop);
    const struct sl_sample_marks marks = sl_marks_in(v->hop.marks.data, v->hop.n_vertices, v->hop.max_fanout);
    const struct sl_sample_sizes sizes = sl_hop_sizes(&v->hop);
    const struct sl_sample_block block = sl_hop_block(&v->hop);
    return SL_RUN(stream, sl_sample, &part, &v->rule, &v->hop.draw, v->hop.frontier.data, &marks, &sizes, &block);
}

static struct sl_operation sample_op = {
    SL_OPERATION(sample_op, "sl_sample", SL_STAGE_SAMPLE),
    SL_BODY(sample, struct sample),
    .role = {{"offsets", STARPU_R, offsetof(struct sample, hop.offsets), "?", SL_INTS_64},
             {"sources", STARPU_R, offsetof(struct sample, hop.sources), "?", SL_INTS_32},
             {"dataset ids", STARPU_R, offsetof(struct sample, hop.dataset_ids), "?", SL_INTS_32},
             {"first", STARPU_R, offsetof(struct sample, hop.first), "?", SL_INTS_32},
             {"frontier", STARPU_R, offsetof(struct sample, hop.frontier), "?", SL_INTS_32},
             {"marks", STARPU_RW, offsetof(struct sample, hop.marks), "?", SL_INTS_8},
             {"counts", STARPU_RW, offsetof(struct sample, hop.counts), "?", SL_INTS_32},
             SL_BLOCK_ROLES(struct sample),
             {"edge weights", STARPU_W | SL_OPTIONAL, offsetof(struct sample, hop.edge_weights), "?", SL_FLOATS},
             {"back weights", STARPU_W | SL_OPTIONAL, offsetof(struct sample, hop.back_weights), "?", SL_FLOATS},
             SL_DRAWN_ROLES(struct sample)},
};

/* ---- submissions ---- */

enum sl_status sl_permute_submit(const struct sl_task_args *head, uint64_t seed, uint64_t epoch, uint32_t n,
                                 starpu_data_handle_t train_dataset_ids, starpu_data_handle_t new_ids,
                                 starpu_data_handle_t keys, starpu_data_handle_t order)
{
    struct permute v = {.head = *head,
                        .train_ids = sl_matrix_of(train_dataset_ids),
                        .new_ids = sl_matrix_of(new_ids),
                        .keys = sl_matrix_of(keys),
                        .order = sl_matrix_of(order),
                        .seed = seed,
                        .epoch = epoch};
    assert(v.order.n_rows >= n && v.keys.n_rows >= n);
    v.order.n_rows = n;
    v.head.work = (uint64_t)n * sizeof(struct sl_permute_key);
    return sl_view_submit(&permute_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_seed_submit(const struct sl_task_args *head, starpu_data_handle_t order, uint32_t begin, uint32_t end,
                              const struct sl_frontier_handles *frontier)
{
    struct seed v = {.head = *head,
                     .order = sl_matrix_rows(order, begin, end - begin),
                     .frontier = sl_matrix_of(frontier->ids),
                     .index = sl_matrix_of(frontier->index),
                     .counts = sl_matrix_of(frontier->counts),
                     .n_hops = frontier->n_hops,
                     .first = frontier->first,
                     .end = frontier->end,
                     .stop = head->run->stop_wanted};
    v.head.work = 4 * (uint64_t)(end - begin);
    return sl_view_submit(&seed_op, &v, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_sample_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                const struct sl_sample_rule *rule, uint64_t seed,
                                const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                                const struct sl_block *block)
{
    struct sample v = {.hop = sl_hop_of(head, seed, part, frontier, marks, block), .rule = *rule};
    assert(v.hop.marks.n_rows >= sl_marks_bytes(marks->n_vertices, marks->max_fanout));
    assert(rule->fanout <= marks->max_fanout || rule->fanout == UINT32_MAX ||
           !(sl_sample_by_keys(rule) || rule->method == SL_SAMPLE_WEIGHTED));
    assert((block->edge_weights == NULL && rule->method != SL_SAMPLE_WEIGHTED) || part->weights != NULL);
    assert((block->edge_relations == NULL && part->fanouts == NULL) || part->relations != NULL);
    assert(block->edge_rows == NULL || part->rows != NULL);
    v.hop.head.work = 64 * (uint64_t)v.hop.edge_sources.n_rows;
    return sl_view_submit(&sample_op, &v, SL_PRIORITY_SAMPLE);
}
