/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One group's sampling phase by direct calls of the kernels, hop by hop: what the tests of sampling, exchange and
 * aggregation look at, and what submissions are compared with. Buffers are as large as the kernels' contracts ask,
 * and no larger. */
#ifndef SL_TESTS_GROUP_FIXTURE_H
#define SL_TESTS_GROUP_FIXTURE_H

#include "codelets/sampling/exchange.h"
#include "codelets/sampling/sample.h"
#include "tests/support/graph_fixture.h"

#define GROUP_MAX_HOPS 4

struct group_block {
    uint32_t n_edges;   /* E */
    uint32_t n_sources; /* T */
    uint32_t *edge_offsets, *edge_sources, *back_offsets, *back_rows;
    uint32_t n_parts;                   /* G */
    uint32_t *request;                  /* list by owner */
    uint32_t *inverse;                  /* list by requester, of what was asked of this PE */
    float *edge_weights, *back_weights; /* NULL if the graph has no weights */
    uint16_t *edge_relations, *back_relations;
    uint32_t *edge_rows; /* NULL: not wanted */
};

struct group_pe {
    uint32_t n_part;
    sl_vertex *frontier;
    uint32_t *row_of;
    uint64_t *words;
    uint32_t n_rows[GROUP_MAX_HOPS + 1];
    struct group_block block[GROUP_MAX_HOPS];
};

struct group {
    const struct sl_partition *partition;
    uint32_t n_parts, n_hops;
    struct group_pe *pe;
};

/* The whole graph as one part, not renumbered. */
static MAYBE_UNUSED struct sl_partition one_part(const struct sl_graph *graph)
{
    struct sl_partition partition;
    FREED uint32_t *parts = need(graph->n_vertices, sizeof *parts);
    make_partition(graph, 1, parts, &partition);
    return partition;
}

/* The part of a partition, as the sampling kernel takes it. */
static MAYBE_UNUSED struct sl_sample_part part_of(const struct sl_partition *partition, uint32_t q)
{
    const struct sl_graph *graph = &partition->graph;
    uint32_t first = partition->first[q];
    return (struct sl_sample_part){.offsets = graph->offsets + first,
                                   .sources = graph->sources + graph->offsets[first],
                                   .weights = graph->weights == NULL ? NULL : graph->weights + graph->offsets[first],
                                   .relations =
                                       graph->relations == NULL ? NULL : graph->relations + graph->offsets[first],
                                   .rows = graph->rows == NULL ? NULL : graph->rows + graph->offsets[first],
                                   .dataset_ids = partition->dataset_ids,
                                   .first = partition->first,
                                   .n_parts = partition->n_parts,
                                   .part = q};
}

static MAYBE_UNUSED struct sl_sample_marks make_marks(uint32_t n_vertices, uint32_t fanout)
{
    size_t n_words = ((size_t)n_vertices + 63) / 64;
    return (struct sl_sample_marks){.n_vertices = n_vertices,
                                    .words = need(n_words, sizeof(uint64_t)),
                                    .touched = need((n_words + 63) / 64, sizeof(uint64_t)),
                                    .ranks = need(n_words, sizeof(uint32_t)),
                                    .heap = need(fanout, sizeof(struct sl_labor_pick))};
}

/* Give the marks back; they must be as they were. */
static MAYBE_UNUSED void free_marks(struct sl_sample_marks *marks, uint32_t n_vertices)
{
    for (size_t w = 0; w < ((size_t)n_vertices + 63) / 64; w++) {
        assert_true(marks->words[w] == 0);
        assert_true(marks->touched[w / 64] == 0);
    }
    free(marks->words);
    free(marks->touched);
    free(marks->ranks);
    free(marks->heap);
}

/* Room for a block, as much as the kernels' contracts ask. */
static MAYBE_UNUSED struct group_block make_block(uint32_t n_rows, uint32_t n_edges, uint32_t n_sources,
                                                  uint32_t n_parts, bool weighted, bool typed)
{
    struct group_block block = {.edge_offsets = need((size_t)n_rows + 1, 4),
                                .edge_sources = need(n_edges, 4),
                                .back_offsets = need((size_t)n_sources + 1, 4),
                                .back_rows = need(n_edges, 4),
                                .n_parts = n_parts,
                                .request = need((size_t)n_parts + 1 + n_sources, 4)};
    if (weighted) {
        block.edge_weights = need(n_edges, sizeof *block.edge_weights);
        block.back_weights = need(n_edges, sizeof *block.back_weights);
    }
    if (typed) {
        block.edge_relations = need(n_edges, sizeof *block.edge_relations);
        block.back_relations = need(n_edges, sizeof *block.back_relations);
    }
    return block;
}

static MAYBE_UNUSED struct sl_sample_block arrays_of(const struct group_block *b, uint32_t max_rows)
{
    return (struct sl_sample_block){.edge_offsets = b->edge_offsets,
                                    .edge_sources = b->edge_sources,
                                    .back_offsets = b->back_offsets,
                                    .back_rows = b->back_rows,
                                    .request = b->request,
                                    .max_rows = max_rows,
                                    .edge_weights = b->edge_weights,
                                    .back_weights = b->back_weights,
                                    .edge_relations = b->edge_relations,
                                    .back_relations = b->back_relations,
                                    .edge_rows = b->edge_rows};
}

/* The block gets no transpose. */
static MAYBE_UNUSED void without_transpose(struct group_block *block)
{
    free(block->back_offsets);
    free(block->back_rows);
    free(block->back_weights);
    free(block->back_relations);
    block->back_offsets = block->back_rows = NULL;
    block->back_weights = NULL;
    block->back_relations = NULL;
}

/* The arrays of `got` hold the wanted block of n_rows. */
static MAYBE_UNUSED void expect_same_block(const struct group_block *got, const struct group_block *wanted,
                                           uint32_t n_rows)
{
    const uint32_t n = wanted->n_edges;
    expect_same("edge offsets", (size_t)n_rows + 1, 4, got->edge_offsets, wanted->edge_offsets);
    expect_same("edge sources", n, 4, got->edge_sources, wanted->edge_sources);
    expect_same("request", wanted->n_parts + 1 + (size_t)wanted->n_sources, 4, got->request, wanted->request);
    if (wanted->edge_weights != NULL) {
        expect_same("edge weights", n, 4, got->edge_weights, wanted->edge_weights);
    }
    if (wanted->edge_relations != NULL) {
        expect_same("edge relations", n, 2, got->edge_relations, wanted->edge_relations);
    }
    if (wanted->edge_rows != NULL) {
        expect_same("edge rows", n, 4, got->edge_rows, wanted->edge_rows);
    }
    if (got->back_offsets == NULL) {
        return;
    }
    expect_same("back offsets", (size_t)wanted->n_sources + 1, 4, got->back_offsets, wanted->back_offsets);
    expect_same("back rows", n, 4, got->back_rows, wanted->back_rows);
    if (wanted->edge_weights != NULL) {
        expect_same("back weights", n, 4, got->back_weights, wanted->back_weights);
    }
    if (wanted->edge_relations != NULL) {
        expect_same("back relations", n, 2, got->back_relations, wanted->back_relations);
    }
}

/* Edges that fanouts by relation draw for a vertex. first: of its in-edges, among those of the part. */
static MAYBE_UNUSED uint32_t count_by_relation(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                                               uint64_t degree, uint64_t first)
{
    const uint16_t *relations = part->relations + first;
    uint32_t n = 0;
    uint32_t n_here = 0;
    for (uint64_t i = 0; i < degree; i++) {
        const uint32_t fanout = part->fanouts[relations[i]];
        n_here += rule->method != SL_SAMPLE_WEIGHTED || part->weights[first + i] > 0;
        if (i + 1 == degree || relations[i + 1] != relations[i]) {
            const bool replaced = rule->method == SL_SAMPLE_REPLACED && fanout != UINT32_MAX;
            n += replaced || n_here > fanout ? fanout : n_here;
            n_here = 0;
        }
    }
    return n;
}

/* Edges that the rule draws for these destinations. */
static MAYBE_UNUSED uint32_t count_edges(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                                         uint32_t n_rows, const sl_vertex *frontier)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < n_rows; d++) {
        uint32_t local = frontier[d] - part->first[part->part];
        uint64_t degree = part->offsets[local + 1] - part->offsets[local];
        if (part->fanouts != NULL) {
            n += count_by_relation(part, rule, degree, part->offsets[local] - part->offsets[0]);
            continue;
        }
        if (rule->method == SL_SAMPLE_WEIGHTED) {
            const float *weights = part->weights + (part->offsets[local] - part->offsets[0]);
            uint64_t n_all = degree;
            degree = 0;
            for (uint64_t i = 0; i < n_all; i++) {
                degree += weights[i] > 0;
            }
        }
        if (rule->method == SL_SAMPLE_REPLACED) {
            n += degree == 0 ? 0 : rule->fanout;
            continue;
        }
        n += (uint32_t)(rule->method == SL_SAMPLE_FULL || degree <= rule->fanout ? degree : rule->fanout);
    }
    return n;
}

/* The block of these destinations; room for offsets of sources and the request: as if all edges had different
 * sources. */
static MAYBE_UNUSED void sample_block(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                                      uint64_t seed, uint64_t step, uint32_t hop, uint32_t n_rows,
                                      const sl_vertex *frontier, struct group_block *out)
{
    uint32_t n_vertices = part->first[part->n_parts];
    uint32_t n_edges = count_edges(part, rule, n_rows, frontier);
    uint32_t n_sources = n_edges < n_vertices ? n_edges : n_vertices;
    struct sl_sample_marks marks =
        make_marks(n_vertices, sl_sample_by_keys(rule) || rule->method == SL_SAMPLE_WEIGHTED ? rule->fanout : 0);
    *out = make_block(n_rows, n_edges, n_sources, part->n_parts, part->weights != NULL, part->relations != NULL);
    struct sl_draw draw = {.seed = seed, .step = step, .purpose = SL_FOR_SAMPLING, .hop = hop};
    const struct sl_sample_block block = arrays_of(out, n_rows);
    const struct sl_sample_sizes sizes = {.n_rows = &n_rows, .n_edges = &out->n_edges};
    sl_sample_cpu(part, rule, &draw, frontier, &marks, &sizes, &block);
    bool less = part->excluded.table != NULL && out->n_edges <= n_edges;
    assert_true(out->n_edges == n_edges || less);
    out->n_sources = out->request[part->n_parts];
    free_marks(&marks, n_vertices);
}

static MAYBE_UNUSED void free_block(struct group_block *block)
{
    free(block->request);
    free(block->inverse);
    free(block->edge_offsets);
    free(block->edge_sources);
    free(block->back_offsets);
    free(block->back_rows);
    free(block->edge_weights);
    free(block->back_weights);
    free(block->edge_relations);
    free(block->back_relations);
    free(block->edge_rows);
}

/* The id of the source at a position of a block. */
static MAYBE_UNUSED sl_vertex source_id(const struct group_block *block, uint32_t position)
{
    return block->request[block->n_parts + 1 + position];
}

static MAYBE_UNUSED struct sl_frontier group_frontier(const struct group *group, uint32_t p)
{
    const struct group_pe *pe = &group->pe[p];
    return (struct sl_frontier){.first = group->partition->first[p],
                                .n_part = pe->n_part,
                                .ids = pe->frontier,
                                .row_of = pe->row_of,
                                .words = pe->words};
}

/* Seeds of a frontier of n_old rows. Returns its number of rows. */
static MAYBE_UNUSED uint32_t seed_frontier(uint32_t n, const sl_vertex *order, uint32_t n_old,
                                           const struct sl_frontier *frontier)
{
    uint32_t counts[4] = {SL_NONE, n_old, 0, SL_NONE};
    sl_seed_cpu(n, order, 1, false, counts, frontier);
    assert_int_equal(counts[sl_counts_stop(1)], 0);
    return counts[0];
}

/* Merge the hop's requests at every PE. */
static MAYBE_UNUSED void group_merge(struct group *group, uint32_t hop)
{
    for (uint32_t q = 0; q < group->n_parts; q++) {
        struct group_pe *pe = &group->pe[q];
        struct sl_frontier frontier = group_frontier(group, q);
        struct sl_requests requests = {.n_parts = group->n_parts, .owner = q};
        size_t n_asked = 0;
        for (uint32_t p = 0; p < group->n_parts; p++) {
            requests.list[p] = group->pe[p].block[hop].request;
            n_asked += sl_list_count(requests.list[p], q);
        }
        pe->block[hop].inverse = need(group->n_parts + 1 + n_asked, 4);
        sl_merge_cpu(&requests, &pe->n_rows[hop], &frontier, pe->block[hop].inverse, &pe->n_rows[hop + 1]);
    }
}

/* Sample n_hops from these seeds (dataset ids, distinct); rules[hop]. */
static MAYBE_UNUSED void group_sample(const struct sl_partition *partition, uint32_t n_hops,
                                      const struct sl_sample_rule *rules, uint64_t seed, uint64_t step,
                                      uint32_t n_seeds, const sl_vertex *seeds, struct group *out)
{
    uint32_t n_parts = partition->n_parts;
    FREED sl_vertex *order = need(n_seeds, sizeof *order);
    *out = (struct group){.partition = partition, .n_parts = n_parts, .n_hops = n_hops};
    out->pe = need(n_parts, sizeof *out->pe);
    for (uint32_t i = 0; i < n_seeds; i++) {
        order[i] = partition->new_ids[seeds[i]];
    }
    for (uint32_t p = 0; p < n_parts; p++) {
        struct group_pe *pe = &out->pe[p];
        pe->n_part = partition->first[p + 1] - partition->first[p];
        pe->frontier = need(pe->n_part, sizeof *pe->frontier);
        pe->row_of = need(pe->n_part, sizeof *pe->row_of);
        pe->words = need(((size_t)pe->n_part + 63) / 64, sizeof *pe->words);
        memset(pe->row_of, 0xff, pe->n_part * sizeof *pe->row_of);
        struct sl_frontier frontier = group_frontier(out, p);
        pe->n_rows[0] = seed_frontier(n_seeds, order, 0, &frontier);
    }
    for (uint32_t hop = 0; hop < n_hops; hop++) {
        for (uint32_t p = 0; p < n_parts; p++) {
            struct sl_sample_part part = part_of(partition, p);
            sample_block(&part, &rules[hop], seed, step, hop, out->pe[p].n_rows[hop], out->pe[p].frontier,
                         &out->pe[p].block[hop]);
        }
        group_merge(out, hop);
    }
}

static MAYBE_UNUSED void group_free(struct group *group)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t hop = 0; hop < group->n_hops; hop++) {
            free_block(&group->pe[p].block[hop]);
        }
        free(group->pe[p].frontier);
        free(group->pe[p].row_of);
        free(group->pe[p].words);
    }
    free(group->pe);
    *group = (struct group){0};
}

/* ---- partitions of every kind, for loops ---- */

enum { SPLIT_METIS, SPLIT_RANDOM, SPLIT_NONE, SPLIT_UNEVEN, N_SPLITS };

/* A partition of each kind: partition/partition.h's, and an uneven one with parts that have no vertex. */
static MAYBE_UNUSED void make_split_of(const struct sl_dataset *dataset, int kind, uint32_t n_parts,
                                       struct sl_partition *out)
{
    if (kind == SPLIT_UNEVEN) {
        make_uneven_partition(&dataset->graph, n_parts, 2, 5, out);
    } else {
        static const enum sl_partition_method methods[] = {SL_PARTITION_METIS, SL_PARTITION_RANDOM, SL_PARTITION_NONE};
        assert_int_equal(
            sl_partition_make(dataset,
                              &(struct sl_partition_rule){.method = methods[kind], .n_parts = n_parts, .seed = 5}, out),
            SL_OK);
    }
}

#endif
