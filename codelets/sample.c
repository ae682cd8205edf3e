/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Seeds and sampled blocks. Distinct sources are found by marking their ids in a bitmap and ranking its bits. This
 * also sorts the sources. */
#include "codelets/sample.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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
    const uint32_t first = part->first[part->part];
    uint32_t n_some = 0;
    uint32_t n_whole = 0;
    for (uint32_t d = 0; d < n; d++) {
        const uint64_t *bounds = part->offsets + (frontier[d] - first);
        const uint32_t degree = (uint32_t)(bounds[1] - bounds[0]);
        const struct drawn drawn = {part->sources + (bounds[0] - part->offsets[0]), sl_min_u32(degree, fanout),
                                    n_edges};
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

SL_INLINE void mark(uint64_t *words, sl_vertex id)
{
    words[id / 64] |= UINT64_C(1) << id % 64;
}

/* Replace positions by ids, and mark the ids. */
SL_INLINE void read_batch(uint32_t k, const struct batch *batch, uint64_t *words, sl_vertex *edges_out)
{
    for (uint32_t l = 0; l < batch->n_some; l++) {
        uint32_t *edge = edges_out + batch->some[l].first_edge;
        for (uint32_t i = 0; i < k; i++) {
            edge[i] = batch->some[l].ids[edge[i]];
            mark(words, edge[i]);
        }
    }
    for (uint32_t l = 0; l < batch->n_whole; l++) {
        uint32_t *edge = edges_out + batch->whole[l].first_edge;
        for (uint32_t i = 0; i < batch->whole[l].n; i++) {
            edge[i] = batch->whole[l].ids[i];
            mark(words, edge[i]);
        }
    }
}

/* Copy the weight and relation of an edge of the part to edge e of the block. */
SL_INLINE void take_values(const struct sl_sample_part *part, uint64_t edge, const struct sl_sample_block *block,
                           uint32_t e)
{
    if (block->edge_weights != NULL) {
        block->edge_weights[e] = part->weights[edge];
    }
    if (block->edge_relations != NULL) {
        block->edge_relations[e] = part->relations[edge];
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
    if (out->edge_weights != NULL || out->edge_relations != NULL) {
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

/* The same by weights. */
SL_INLINE uint32_t draw_weighted(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                                 const struct sl_draw *draw, uint32_t n_rows, const sl_vertex *frontier,
                                 const struct sl_sample_marks *marks, const struct sl_sample_block *out)
{
    uint32_t *const offsets_out = out->edge_offsets;
    sl_vertex *const edges_out = out->edge_sources;
    uint32_t n_edges = 0;
    offsets_out[0] = 0;
    for (uint32_t d = 0; d < n_rows; d++) {
        const uint64_t *bounds = part->offsets + (frontier[d] - part->first[part->part]);
        const uint64_t begin = bounds[0] - part->offsets[0];
        const float *weights = part->weights + begin;
        const uint16_t *relations = part->relations != NULL ? part->relations + begin : NULL;
        sl_vertex *edge = edges_out + n_edges;
        struct sl_labor_list list = {part->sources + begin, (uint32_t)(bounds[1] - bounds[0]), edge};
        fetch_bounds(part, d + AHEAD < n_rows ? d + AHEAD : n_rows, d + AHEAD < n_rows ? d + AHEAD + 1 : n_rows,
                     frontier);
        const uint32_t n = sl_weighted_pick_cpu(draw, part->dataset_ids[frontier[d]], part->dataset_ids, rule->fanout,
                                                &list, weights, relations, marks->heap);
        for (uint32_t i = 0; i < n; i++) {
            take_values(part, begin + edge[i], out, n_edges + i);
            edge[i] = list.ids[edge[i]];
            mark(marks->words, edge[i]);
        }
        n_edges += n;
        offsets_out[d + 1] = n_edges;
    }
    return n_edges;
}

/* The same with replacement. */
SL_INLINE uint32_t draw_replaced(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                                 const struct sl_draw *draw, uint32_t n_rows, const sl_vertex *frontier,
                                 const struct sl_sample_marks *marks, const struct sl_sample_block *out)
{
    uint32_t n_edges = 0;
    out->edge_offsets[0] = 0;
    for (uint32_t d = 0; d < n_rows; d++) {
        const uint64_t *bounds = part->offsets + (frontier[d] - part->first[part->part]);
        const uint64_t begin = bounds[0] - part->offsets[0];
        const uint32_t degree = (uint32_t)(bounds[1] - bounds[0]);
        const uint32_t n = sl_sample_count(rule, degree);
        sl_vertex *edge = out->edge_sources + n_edges;
        sl_pick_replaced(draw, part->dataset_ids[frontier[d]], degree, n, edge);
        for (uint32_t i = 0; i < n; i++) {
            take_values(part, begin + edge[i], out, n_edges + i);
            edge[i] = part->sources[begin + edge[i]];
            mark(marks->words, edge[i]);
        }
        n_edges += n;
        out->edge_offsets[d + 1] = n_edges;
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

/* Draw positions in one run of a destination's list. Returns their number. */
SL_INLINE uint32_t draw_run(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                            const struct sl_draw *draw, const struct sl_labor_turn *turn, sl_vertex destination,
                            const struct sl_labor_list *list, const struct sl_edge_run *run, struct sl_labor_pick *heap)
{
    const struct sl_sample_rule own = sl_sample_rule_of(rule, part->fanouts[run->relation]);
    const struct sl_draw own_draw = sl_sample_draw_of(draw, run->relation);
    const struct sl_labor_list own_list = {list->ids + run->begin, run->end - run->begin, list->picked_out};
    const bool replaced = own.method == SL_SAMPLE_REPLACED && own.fanout != UINT32_MAX;
    uint32_t n = sl_sample_count(&own, own_list.degree);
    if (own.method == SL_SAMPLE_WEIGHTED) {
        n = sl_weighted_pick_cpu(&own_draw, part->dataset_ids[destination], part->dataset_ids, own.fanout, &own_list,
                                 part->weights + (own_list.ids - part->sources), NULL, heap);
    } else if (replaced || n < own_list.degree) {
        pick_positions(&own, &own_draw, turn, part, part->dataset_ids[destination], &own_list, heap);
    } else {
        for (uint32_t i = 0; i < n; i++) {
            own_list.picked_out[i] = i;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        own_list.picked_out[i] += run->begin;
    }
    return n;
}

/* The same with fanouts by relation. */
SL_INLINE uint32_t draw_by_relation(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                                    const struct sl_draw *draw, uint32_t n_rows, const sl_vertex *frontier,
                                    const struct sl_sample_marks *marks, const struct sl_sample_block *out)
{
    const struct sl_labor_turn turn = sl_labor_turn(draw->seed, draw->step, draw->hop, rule);
    uint32_t n_edges = 0;
    out->edge_offsets[0] = 0;
    for (uint32_t d = 0; d < n_rows; d++) {
        const uint64_t *bounds = part->offsets + (frontier[d] - part->first[part->part]);
        const uint64_t begin = bounds[0] - part->offsets[0];
        const uint32_t degree = (uint32_t)(bounds[1] - bounds[0]);
        const uint32_t first = n_edges;
        struct sl_edge_run run = {0};
        fetch_bounds(part, sl_min_u32(d + AHEAD, n_rows), sl_min_u32(d + AHEAD + 1, n_rows), frontier);
        while (run.end < degree) {
            const struct sl_labor_list list = {part->sources + begin, degree, out->edge_sources + n_edges};
            run = sl_run_at(part->relations + begin, run.end, degree);
            n_edges += draw_run(part, rule, draw, &turn, frontier[d], &list, &run, marks->heap);
        }
        for (uint32_t e = first; e < n_edges; e++) {
            const uint64_t entry = begin + out->edge_sources[e];
            take_values(part, entry, out, e);
            out->edge_sources[e] = part->sources[entry];
            mark(marks->words, out->edge_sources[e]);
        }
        out->edge_offsets[d + 1] = n_edges;
    }
    return n_edges;
}

/* Number of marked ids that are smaller. */
SL_INLINE uint32_t rank_of(const struct sl_sample_marks *marks, sl_vertex id)
{
    uint64_t below = marks->words[id / 64] & ((UINT64_C(1) << id % 64) - 1);
    return marks->ranks[id / 64] + (uint32_t)__builtin_popcountll(below);
}

SL_INLINE uint32_t rank_words(uint32_t n_words, const struct sl_sample_marks *marks)
{
    uint32_t n = 0;
    for (uint32_t w = 0; w < n_words; w++) {
        marks->ranks[w] = n;
        n += (uint32_t)__builtin_popcountll(marks->words[w]);
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

/* List the marked ids by owner, and store for each word the number of marked ids before it. Returns the number of
 * marked ids. */
SL_INLINE uint32_t list_marked(const uint32_t *first, uint32_t n_parts, const struct sl_sample_marks *marks,
                               uint32_t *request_out)
{
    const uint32_t n_words = (uint32_t)(((uint64_t)first[n_parts] + 63) / 64);
    uint32_t *ids = sl_list_entries(request_out, n_parts);
    const uint32_t n = rank_words(n_words, marks);
    for (uint32_t q = 0; q <= n_parts; q++) {
        request_out[q] = first[q] < 64 * (uint64_t)n_words ? rank_of(marks, first[q]) : n;
    }
    for (uint32_t w = 0; w < n_words; w++) {
        const uint32_t rank = marks->ranks[w];
        const uint32_t n_here = (w + 1 < n_words ? marks->ranks[w + 1] : n) - rank;
        if (n - rank >= (n_here + 7) / 8 * 8) {
            list_word(marks->words[w], 64 * w, n_here, ids + rank);
            continue;
        }
        uint64_t bits = marks->words[w];
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
        mark(marks->touched, edges[e] / 64);
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        for (uint64_t group = marks->touched[g]; group != 0; group &= group - 1) {
            const uint32_t w = 64 * g + (uint32_t)__builtin_ctzll(group);
            marks->ranks[w] = n;
            for (; q < n_parts && first[q] / 64 <= w; q++) {
                request_out[q] = first[q] / 64 < w ? n : rank_of(marks, first[q]);
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
        edges[e] = rank_of(marks, edges[e]);
        if (back_offsets != NULL) {
            back_offsets[edges[e] + 1]++;
        }
    }
}

/* Transpose the block: a stable counting sort of the edges by source. A source's count becomes the offset of its
 * first edge; placing its edges moves the offset to its end. weighted, typed: edges have weights, relations. */
SL_INLINE void transpose(uint32_t n_rows, uint32_t n_sources, bool weighted, bool typed,
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
            edges[n] = gone ? frontier[d] : edges[e];
            mark(words, edges[n++]);
        }
        begin = end;
        block->edge_offsets[d + 1] = n;
    }
    return n;
}

/* Words per edge above which marks count as few. */
#define WORDS_OF_FEW 4

SL_INLINE void close_block(const struct sl_sample_part *part, uint32_t n_rows, uint32_t n_edges,
                           const struct sl_sample_marks *marks, const struct sl_sample_block *block)
{
    const uint32_t n_words = (uint32_t)(((uint64_t)part->first[part->n_parts] + 63) / 64);
    const bool few = n_edges < n_words / WORDS_OF_FEW;
    uint32_t n_sources;
    if (few) {
        n_sources = list_few(part->first, part->n_parts, n_edges, block->edge_sources, marks, block->request);
    } else {
        n_sources = list_marked(part->first, part->n_parts, marks, block->request);
    }
    if (block->back_offsets != NULL) {
        memset(block->back_offsets, 0, ((size_t)n_sources + 1) * sizeof *block->back_offsets);
    }
    renumber(n_edges, marks, block->edge_sources, block->back_offsets);
    clear_words(few, n_words, n_sources, sl_list_entries(block->request, part->n_parts), marks->words);
    if (block->back_offsets == NULL) {
        return;
    }
    if (block->edge_weights == NULL && block->edge_relations == NULL) {
        transpose(n_rows, n_sources, false, false, block);
    } else {
        transpose(n_rows, n_sources, block->edge_weights != NULL, block->edge_relations != NULL, block);
    }
}

SL_CLONES void sl_block_close_cpu(const struct sl_sample_part *part, uint32_t n_rows, uint32_t n_edges,
                                  const struct sl_sample_marks *marks, const struct sl_sample_block *block)
{
    close_block(part, n_rows, n_edges, marks, block);
}

SL_CLONES uint32_t sl_sample_cpu(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                                 const struct sl_draw *draw, uint32_t n_rows, const sl_vertex *frontier,
                                 const struct sl_sample_marks *marks, const struct sl_sample_block *block)
{
    uint32_t n_edges;
    if (part->fanouts != NULL) {
        n_edges = draw_by_relation(part, rule, draw, n_rows, frontier, marks, block);
    } else if (rule->method == SL_SAMPLE_WEIGHTED) {
        n_edges = draw_weighted(part, rule, draw, n_rows, frontier, marks, block);
    } else if (rule->method == SL_SAMPLE_REPLACED) {
        n_edges = draw_replaced(part, rule, draw, n_rows, frontier, marks, block);
    } else {
        n_edges = draw_edges(part, rule, draw, n_rows, frontier, marks, block);
    }
    if (part->excluded.table != NULL) {
        n_edges = drop_excluded(part, n_rows, frontier, marks->words, block);
    }
    close_block(part, n_rows, n_edges, marks, block);
    return n_edges;
}

static int compare_keys(const void *a, const void *b)
{
    const struct sl_permute_key *x = a;
    const struct sl_permute_key *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return (x->dataset_id > y->dataset_id) - (x->dataset_id < y->dataset_id);
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

uint32_t sl_seed_cpu(uint32_t n, const sl_vertex *order, uint32_t n_old, const struct sl_frontier *frontier)
{
    const uint32_t first = frontier->first;
    for (uint32_t r = 0; r < n_old; r++) {
        frontier->row_of[frontier->ids[r] - first] = SL_NONE;
    }
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (order[i] >= first && order[i] < first + frontier->n_part) {
            frontier->row_of[order[i] - first] = n_rows;
            frontier->ids[n_rows++] = order[i];
        }
    }
    return n_rows;
}

/* ---- arguments ---- */

struct permute_args {
    struct sl_task_args head;
    uint64_t seed;
    uint64_t epoch;
    uint32_t n;
};

struct seed_args {
    struct sl_task_args head;
    uint32_t n_hops;
    uint32_t begin, end;
    uint32_t part_first, part_end;
    bool stop;
};

struct sample_args {
    struct sl_task_args head;
    struct sl_draw draw;
    struct sl_sample_rule rule;
    uint32_t n_hops;
    uint32_t n_parts, part;
    uint32_t n_vertices;
    uint32_t max_fanout;
    /* Indices of buffers; 0: none. Of the block: edge_.., then back_.. */
    uint32_t weights, relations;
    uint32_t block_weights, block_relations;
    uint32_t fanouts, excluded;
    bool loops;
};

/* ---- implementations ---- */

enum { TRAIN_IDS, NEW_IDS, KEYS, ORDER };
enum { SEED_ORDER, SEED_FRONTIER, SEED_INDEX, SEED_COUNTS };
enum {
    OFFSETS,
    SOURCES,
    DATASET_IDS,
    FIRST,
    FRONTIER,
    MARKS,
    COUNTS,
    EDGE_OFFSETS,
    EDGE_SOURCES,
    BACK_OFFSETS,
    BACK_ROWS,
    REQUEST,
    WEIGHTS,
    EDGE_WEIGHTS,
    BACK_WEIGHTS,
    RELATIONS,
    EDGE_RELATIONS,
    BACK_RELATIONS,
    FANOUTS,
    EXCLUDED
};

static enum sl_status permute_task(void *buffers[], const void *cl_arg, const void *stream)
{
    const struct permute_args *args = cl_arg;
    return SL_RUN(stream, sl_permute, args->seed, args->epoch, args->n, sl_buffer_data(buffers[TRAIN_IDS]),
                  sl_buffer_data(buffers[NEW_IDS]), sl_buffer_data(buffers[KEYS]), sl_buffer_data(buffers[ORDER]));
}

static struct sl_frontier task_frontier(void *buffers[], const struct seed_args *args)
{
    return (struct sl_frontier){.first = args->part_first,
                                .n_part = args->part_end - args->part_first,
                                .ids = sl_buffer_data(buffers[SEED_FRONTIER]),
                                .row_of = sl_buffer_data(buffers[SEED_INDEX])};
}

static enum sl_status seed_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct seed_args *args = cl_arg;
    struct sl_frontier frontier = task_frontier(buffers, args);
    uint32_t *counts = sl_buffer_data(buffers[SEED_COUNTS]);
    const sl_vertex *order = sl_buffer_data(buffers[SEED_ORDER]);
    counts[0] =
        sl_seed_cpu(args->end - args->begin, order + args->begin, counts[sl_counts_rows(args->n_hops)], &frontier);
    counts[sl_counts_stop(args->n_hops)] = args->stop;
    return SL_OK;
}

/* The array in a buffer. index: 0: none. */
static void *array_in(void *buffers[], uint32_t index)
{
    return index == 0 ? NULL : sl_buffer_data(buffers[index]);
}

static struct sl_sample_part task_part(void *buffers[], const struct sample_args *args)
{
    struct sl_sample_part part = {.offsets = sl_buffer_data(buffers[OFFSETS]),
                                  .sources = sl_buffer_data(buffers[SOURCES]),
                                  .dataset_ids = sl_buffer_data(buffers[DATASET_IDS]),
                                  .first = sl_buffer_data(buffers[FIRST]),
                                  .n_parts = args->n_parts,
                                  .part = args->part,
                                  .weights = array_in(buffers, args->weights),
                                  .relations = array_in(buffers, args->relations),
                                  .fanouts = array_in(buffers, args->fanouts)};
    part.excluded = sl_excluded_in(buffers, args->excluded);
    part.excluded.loops = args->loops;
    return part;
}

struct sl_excluded sl_excluded_in(void *buffers[], uint32_t index)
{
    if (index == 0) {
        return (struct sl_excluded){0};
    }
    return (struct sl_excluded){.table = sl_buffer_data(buffers[index]), .mask = sl_buffer_columns(buffers[index]) - 1};
}

struct sl_sample_block sl_block_in(void *buffers[])
{
    return (struct sl_sample_block){.edge_offsets = sl_buffer_data(buffers[0]),
                                    .edge_sources = sl_buffer_data(buffers[1]),
                                    .back_offsets = sl_buffer_data(buffers[2]),
                                    .back_rows = sl_buffer_data(buffers[3]),
                                    .request = sl_buffer_data(buffers[4]),
                                    .max_rows = sl_buffer_columns(buffers[0]) - 1};
}

void sl_block_count(const struct sl_sample_block *block, uint32_t n_edges, uint32_t n_hops, uint32_t n_parts,
                    uint32_t hop, uint32_t *counts)
{
    counts[sl_counts_edges(n_hops, hop)] = n_edges;
    memcpy(counts + sl_counts_request(n_hops, n_parts, hop), block->request,
           ((size_t)n_parts + 1) * sizeof *block->request);
}

static struct sl_sample_block task_block(void *buffers[], const struct sample_args *args)
{
    struct sl_sample_block block = sl_block_in(buffers + EDGE_OFFSETS);
    if (args->block_weights > 0) {
        block.edge_weights = sl_buffer_data(buffers[args->block_weights]);
        block.back_weights = sl_buffer_data(buffers[args->block_weights + 1]);
    }
    if (args->block_relations > 0) {
        block.edge_relations = sl_buffer_data(buffers[args->block_relations]);
        block.back_relations = sl_buffer_data(buffers[args->block_relations + 1]);
    }
    return block;
}

static enum sl_status sample_cpu_task(void *buffers[], const void *cl_arg)
{
    const struct sample_args *args = cl_arg;
    struct sl_sample_part part = task_part(buffers, args);
    struct sl_sample_marks marks = sl_marks_in(sl_buffer_data(buffers[MARKS]), args->n_vertices, args->max_fanout);
    struct sl_sample_block block = task_block(buffers, args);
    uint32_t *counts = sl_buffer_data(buffers[COUNTS]);
    uint32_t n_edges = sl_sample_cpu(&part, &args->rule, &args->draw, counts[sl_counts_rows(args->head.hop)],
                                     sl_buffer_data(buffers[FRONTIER]), &marks, &block);
    sl_block_count(&block, n_edges, args->n_hops, args->n_parts, args->head.hop, counts);
    return SL_OK;
}

#ifdef SL_CUDA
static enum sl_status seed_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct seed_args *args = cl_arg;
    struct sl_frontier frontier = task_frontier(buffers, args);
    const sl_vertex *order = sl_buffer_data(buffers[SEED_ORDER]);
    uint32_t *counts = sl_buffer_data(buffers[SEED_COUNTS]);
    enum sl_status st =
        sl_seed_cuda(stream, args->end - args->begin, order + args->begin, args->n_hops, counts, &frontier);
    if (st == SL_OK &&
        cudaMemsetAsync(counts + sl_counts_stop(args->n_hops), args->stop, sizeof *counts, stream) != cudaSuccess) {
        st = sl_fail(SL_ECUDA, "sl_seed: CUDA does not set a word");
    }
    return st;
}

static enum sl_status sample_cuda_task(void *buffers[], const void *cl_arg, cudaStream_t stream)
{
    const struct sample_args *args = cl_arg;
    struct sl_sample_part part = task_part(buffers, args);
    struct sl_sample_marks marks = sl_marks_in(sl_buffer_data(buffers[MARKS]), args->n_vertices, args->max_fanout);
    struct sl_sample_block block = task_block(buffers, args);
    return sl_sample_cuda(stream, &part, &args->rule, &args->draw, sl_buffer_data(buffers[FRONTIER]), &marks,
                          args->n_hops, sl_buffer_data(buffers[COUNTS]), &block);
}
#endif

/* ---- operations ---- */

static struct sl_operation permute_op = {
    SL_OPERATION(permute_op, "sl_permute", SL_STAGE_SAMPLE),
    SL_BOTH(permute_task),
    .role = {{"train dataset ids", STARPU_R}, {"new ids", STARPU_R}, {"keys", STARPU_W}, {"order", STARPU_W}},
};

static struct sl_operation seed_op = {
    SL_OPERATION(seed_op, "sl_seed", SL_STAGE_SAMPLE),
    .cpu = seed_cpu_task,
    SL_CUDA_FUNC(seed_cuda_task),
    .role = {{"order", STARPU_R}, {"frontier", STARPU_RW}, {"index", STARPU_RW}, {"counts", STARPU_RW}},
};

static struct sl_operation sample_op = {
    SL_OPERATION(sample_op, "sl_sample", SL_STAGE_SAMPLE),
    .cpu = sample_cpu_task,
    SL_CUDA_FUNC(sample_cuda_task),
    .role = {{"offsets", STARPU_R},
             {"sources", STARPU_R},
             {"dataset ids", STARPU_R},
             {"first", STARPU_R},
             {"frontier", STARPU_R},
             {"marks", STARPU_RW},
             {"counts", STARPU_RW},
             {"edge offsets", STARPU_W},
             {"edge sources", STARPU_W},
             {"back offsets", STARPU_W},
             {"back rows", STARPU_W},
             {"request", STARPU_W},
             {"weights", STARPU_R | SL_OPTIONAL},
             {"edge weights", STARPU_W | SL_OPTIONAL},
             {"back weights", STARPU_W | SL_OPTIONAL},
             {"relations", STARPU_R | SL_OPTIONAL},
             {"edge relations", STARPU_W | SL_OPTIONAL},
             {"back relations", STARPU_W | SL_OPTIONAL},
             {"fanouts", STARPU_R | SL_OPTIONAL},
             {"excluded", STARPU_R | SL_OPTIONAL}},
};

/* ---- submissions ---- */

void sl_block_add(struct sl_task *task, unsigned role, const struct sl_block *block)
{
    const starpu_data_handle_t handles[] = {block->edge_offsets, block->edge_sources, block->back_offsets,
                                            block->back_rows, block->request};
    for (unsigned i = 0; i < sizeof handles / sizeof *handles; i++) {
        sl_task_add(task, role + i, handles[i], STARPU_W);
    }
}

enum sl_status sl_permute_submit(const struct sl_task_args *head, uint64_t seed, uint64_t epoch, uint32_t n,
                                 starpu_data_handle_t train_dataset_ids, starpu_data_handle_t new_ids,
                                 starpu_data_handle_t keys, starpu_data_handle_t order)
{
    struct permute_args args = {.head = *head, .seed = seed, .epoch = epoch, .n = n};
    struct sl_task task;
    SL_FAIL_IF(starpu_vector_get_nx(order) < n || starpu_vector_get_nx(keys) < n, SL_EINVAL,
               "sl_permute: %u training ids, but room for %u", n, starpu_vector_get_nx(order));
    args.head.work = (uint64_t)n * sizeof(struct sl_permute_key);
    sl_task_begin(&task, &permute_op);
    sl_task_add(&task, TRAIN_IDS, train_dataset_ids, STARPU_R);
    sl_task_add(&task, NEW_IDS, new_ids, STARPU_R);
    sl_task_add(&task, KEYS, keys, STARPU_W);
    sl_task_add(&task, ORDER, order, STARPU_W);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_seed_submit(const struct sl_task_args *head, starpu_data_handle_t order, uint32_t begin, uint32_t end,
                              const struct sl_frontier_handles *frontier)
{
    struct seed_args args = {.head = *head, .n_hops = frontier->n_hops, .begin = begin, .end = end};
    struct sl_task task;
    SL_FAIL_IF(begin > end || end > starpu_vector_get_nx(order), SL_EINVAL,
               "sl_seed: entries %u to %u of an order of %u", begin, end, starpu_vector_get_nx(order));
    args.part_first = frontier->first;
    args.part_end = frontier->end;
    args.stop = head->run->stop_wanted;
    args.head.work = 4 * (uint64_t)(end - begin);
    sl_task_begin(&task, &seed_op);
    sl_task_add(&task, SEED_ORDER, order, STARPU_R);
    sl_task_add(&task, SEED_FRONTIER, frontier->ids, STARPU_RW);
    sl_task_add(&task, SEED_INDEX, frontier->index, STARPU_RW);
    sl_task_add(&task, SEED_COUNTS, frontier->counts, STARPU_RW);
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}

enum sl_status sl_sample_submit(const struct sl_task_args *head, const struct sl_part_handles *part,
                                const struct sl_sample_rule *rule, uint64_t seed,
                                const struct sl_frontier_handles *frontier, const struct sl_marks_handles *marks,
                                const struct sl_block *block)
{
    struct sample_args args = {.head = *head, .rule = *rule, .n_hops = frontier->n_hops};
    struct sl_task task;
    if (part->n_parts > SL_MAX_GROUP ||
        starpu_vector_get_nx(marks->bytes) < sl_marks_bytes(marks->n_vertices, marks->max_fanout) ||
        ((sl_sample_by_keys(rule) || (rule->method == SL_SAMPLE_WEIGHTED && rule->fanout != UINT32_MAX)) &&
         rule->fanout > marks->max_fanout)) {
        return sl_fail(SL_EINVAL, "sl_sample: %u parts (at most %d), fanout %u (at most %u)", part->n_parts,
                       SL_MAX_GROUP, rule->fanout, marks->max_fanout);
    }
    if ((block->edge_weights != NULL || rule->method == SL_SAMPLE_WEIGHTED) && part->weights == NULL) {
        return sl_fail(SL_EINVAL, "sl_sample: found no weights of the part's edges, expected some");
    }
    if ((block->edge_relations != NULL || part->fanouts != NULL) && part->relations == NULL) {
        return sl_fail(SL_EINVAL, "sl_sample: found no relations of the part's edges, expected some");
    }
    args.draw = (struct sl_draw){.seed = seed, .step = head->step, .purpose = SL_FOR_SAMPLING, .hop = head->hop};
    args.n_parts = part->n_parts;
    args.part = part->part;
    args.n_vertices = marks->n_vertices;
    args.max_fanout = marks->max_fanout;
    args.head.work = 64 * (uint64_t)starpu_vector_get_nx(block->edge_sources);
    sl_task_begin(&task, &sample_op);
    sl_task_add(&task, OFFSETS, part->offsets, STARPU_R);
    sl_task_add(&task, SOURCES, part->sources, STARPU_R);
    sl_task_add(&task, DATASET_IDS, part->dataset_ids, STARPU_R);
    sl_task_add(&task, FIRST, part->first, STARPU_R);
    sl_task_add(&task, FRONTIER, frontier->ids, STARPU_R);
    sl_task_add(&task, MARKS, marks->bytes, STARPU_RW);
    sl_task_add(&task, COUNTS, frontier->counts, STARPU_RW);
    sl_block_add(&task, EDGE_OFFSETS, block);
    args.weights = sl_task_add_optional(&task, WEIGHTS, part->weights, STARPU_R);
    args.block_weights = sl_task_add_optional(&task, EDGE_WEIGHTS, block->edge_weights, STARPU_W);
    sl_task_add_optional(&task, BACK_WEIGHTS, block->back_weights, STARPU_W);
    args.relations = sl_task_add_optional(&task, RELATIONS, part->relations, STARPU_R);
    args.block_relations = sl_task_add_optional(&task, EDGE_RELATIONS, block->edge_relations, STARPU_W);
    sl_task_add_optional(&task, BACK_RELATIONS, block->back_relations, STARPU_W);
    args.fanouts = sl_task_add_optional(&task, FANOUTS, part->fanouts, STARPU_R);
    args.excluded = sl_task_add_optional(&task, EXCLUDED, part->excluded, STARPU_R);
    args.loops = part->loops;
    return sl_task_submit(&task, &args, sizeof args, SL_PRIORITY_SAMPLE);
}
