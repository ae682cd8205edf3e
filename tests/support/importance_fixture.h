/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One hop of a group, sampled by importance by direct calls of the kernels (codelets/sampling/importance.h). */
#ifndef SL_TESTS_IMPORTANCE_FIXTURE_H
#define SL_TESTS_IMPORTANCE_FIXTURE_H

#include "codelets/sampling/importance.h"
#include "tests/support/group_fixture.h"

#define MOST_PARTS 8

/* How to sample a hop. */
struct hop_shape {
    uint32_t fanout, n_rounds;
    bool converges, normalised;
    bool by_weight;          /* weighted LABOR */
    bool decided;            /* costs are of codelets/sampling/ladies.h */
    const uint32_t *fanouts; /* by relation; NULL: over all */
    uint32_t kappa;          /* 0: 1 */
    uint64_t seed, step;
    uint32_t hop;
};

struct hop_pe {
    uint32_t n_part, n_rows, n_edges;
    sl_vertex *frontier;
    struct sl_candidates candidates;
    uint32_t *most, *room, *state;
    float *bounds;
    struct sl_costs *costs;
    uint32_t n_room;    /* for edges */
    uint32_t n_sources; /* room for candidates */
    uint32_t n_bounds;
    struct group_block block;
};

struct hop {
    const struct sl_partition *partition;
    struct hop_shape shape;
    uint32_t n_parts;
    bool weighted; /* the dataset's weights are factors */
    struct sl_excluded excluded;
    struct hop_pe pe[MOST_PARTS];
    const uint32_t *list[MOST_PARTS], *most[MOST_PARTS]; /* of the PEs */
};

static MAYBE_UNUSED struct sl_destinations destinations_of(const struct hop *hop, uint32_t p)
{
    const struct hop_pe *pe = &hop->pe[p];
    struct sl_destinations to = {.part = part_of(hop->partition, p),
                                 .max_rows = pe->n_rows,
                                 .n_rows = &pe->n_rows,
                                 .frontier = pe->frontier,
                                 .state = pe->state,
                                 .bounds = pe->bounds};
    to.part.excluded = hop->excluded;
    to.part.fanouts = hop->shape.fanouts;
    if (!hop->weighted) {
        to.part.weights = NULL;
    }
    return to;
}

static MAYBE_UNUSED struct sl_raising raising_of(const struct hop *hop, uint32_t owner, bool begins)
{
    return (struct sl_raising){.n_lists = hop->n_parts,
                               .n_parts = hop->n_parts,
                               .owner = owner,
                               .first = hop->partition->first[owner],
                               .n_part = hop->pe[owner].n_part,
                               .begins = begins,
                               .list = hop->list,
                               .most = hop->most};
}

static MAYBE_UNUSED struct sl_solve_rule solve_rule_of(const struct hop *hop, uint32_t round)
{
    return (struct sl_solve_rule){.fanout = hop->shape.fanout,
                                  .begins = round == 0,
                                  .checks = hop->shape.converges && round > 1,
                                  .weighted = hop->shape.by_weight};
}

static MAYBE_UNUSED struct sl_poisson_rule poisson_rule_of(const struct hop_shape *shape)
{
    return (struct sl_poisson_rule){
        .sample = {.method = SL_SAMPLE_LABOR, .fanout = shape->fanout, .kappa = shape->kappa > 0 ? shape->kappa : 1},
        .normalised = shape->normalised,
        .weighted = shape->by_weight,
        .by_edge = shape->by_weight && shape->n_rounds == 0 && !shape->decided,
        .decided = shape->decided};
}

static MAYBE_UNUSED struct sl_draw draw_of(const struct hop_shape *shape)
{
    return (struct sl_draw){.seed = shape->seed, .step = shape->step, .purpose = SL_FOR_SAMPLING, .hop = shape->hop};
}

static MAYBE_UNUSED uint32_t shape_bounds(const struct hop_shape *shape, uint32_t n_part, uint64_t n_edges)
{
    return shape->fanouts != NULL && n_edges > n_part ? (uint32_t)n_edges : n_part;
}

/* Buffers as large as the contracts ask, and the PE's destinations: the seeds (dataset ids) that it owns. */
static MAYBE_UNUSED void open_hop_pe(struct hop *hop, uint32_t p, uint32_t n_seeds, const sl_vertex *seeds)
{
    const struct sl_partition *partition = hop->partition;
    const uint32_t n_vertices = partition->first[hop->n_parts];
    const uint32_t first = partition->first[p];
    struct hop_pe *pe = &hop->pe[p];
    size_t n_words = ((size_t)n_vertices + 63) / 64;
    pe->n_part = partition->first[p + 1] - first;
    pe->frontier = need(pe->n_part, sizeof *pe->frontier);
    for (uint32_t i = 0; i < n_seeds; i++) {
        sl_vertex id = partition->new_ids[seeds[i]];
        if (id >= first && id < first + pe->n_part) {
            pe->frontier[pe->n_rows++] = id;
            pe->n_room += (uint32_t)(partition->graph.offsets[id + 1] - partition->graph.offsets[id]);
        }
    }
    uint32_t n_sources = pe->n_room < n_vertices ? pe->n_room : n_vertices;
    pe->n_sources = n_sources;
    pe->candidates = (struct sl_candidates){.n_vertices = n_vertices,
                                            .words = need(1, sl_candidates_bytes(n_vertices, n_sources)),
                                            .list = need((size_t)hop->n_parts + 1 + n_sources, 4)};
    pe->candidates.ranks = (uint32_t *)(void *)(pe->candidates.words + n_words);
    pe->candidates.costs = (float *)(void *)(pe->candidates.ranks + n_words);
    pe->most = need((size_t)hop->n_parts + 1 + n_sources, 4);
    hop->list[p] = pe->candidates.list;
    hop->most[p] = pe->most;
    pe->room = need(pe->n_part, 4);
    const uint64_t *offsets = partition->graph.offsets + first;
    pe->n_bounds = shape_bounds(&hop->shape, pe->n_part, offsets[pe->n_part] - offsets[0]);
    pe->state = need((size_t)pe->n_bounds + 1, 4);
    pe->bounds = (float *)(void *)(pe->state + 1);
    pe->costs = need(1, sl_costs_bytes(pe->n_part));
    pe->block = make_block(pe->n_rows, pe->n_room, n_sources, hop->n_parts, true, partition->graph.relations != NULL);
    pe->block.edge_rows = partition->graph.rows != NULL ? need(pe->n_room, 4) : NULL;
}

static MAYBE_UNUSED void hop_free(struct hop *hop)
{
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct hop_pe *pe = &hop->pe[p];
        free(pe->frontier);
        free(pe->candidates.words);
        free(pe->candidates.list);
        free(pe->most);
        free(pe->room);
        free(pe->state);
        free(pe->costs);
        free_block(&pe->block);
    }
}

static MAYBE_UNUSED void hop_open(const struct sl_partition *partition, const struct hop_shape *shape, uint32_t n_seeds,
                                  const sl_vertex *seeds, struct hop *out)
{
    *out = (struct hop){.partition = partition, .shape = *shape, .n_parts = partition->n_parts};
    assert_true(out->n_parts <= MOST_PARTS);
    for (uint32_t p = 0; p < out->n_parts; p++) {
        open_hop_pe(out, p, n_seeds, seeds);
    }
}

static MAYBE_UNUSED void hop_solve(struct hop *hop, uint32_t round, bool last)
{
    const struct sl_solve_rule rule = solve_rule_of(hop, round);
    const struct sl_costs *costs[MOST_PARTS];
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        costs[p] = hop->pe[p].costs;
    }
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct sl_destinations to = destinations_of(hop, p);
        sl_solve_cpu(&to, &rule, costs, &hop->pe[p].candidates, last ? NULL : hop->pe[p].most);
    }
}

/* Candidates, rounds, and the last bounds. */
static MAYBE_UNUSED void hop_bounds(struct hop *hop)
{
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct sl_destinations to = destinations_of(hop, p);
        sl_candidates_cpu(&to, &hop->pe[p].candidates);
    }
    for (uint32_t round = 0; round < hop->shape.n_rounds; round++) {
        hop_solve(hop, round, false);
        for (uint32_t q = 0; q < hop->n_parts; q++) {
            struct sl_raising raising = raising_of(hop, q, round == 0);
            sl_raise_cpu(&raising, hop->pe[q].room, hop->pe[q].costs);
            for (uint32_t v = 0; v < hop->pe[q].n_part; v++) {
                assert_int_equal(hop->pe[q].room[v], 0);
            }
        }
    }
    hop_solve(hop, hop->shape.n_rounds, true);
}

/* Draw the edges of one more step. */
static MAYBE_UNUSED void hop_draw(struct hop *hop, uint64_t step)
{
    const uint32_t n_vertices = hop->partition->first[hop->n_parts];
    const struct sl_poisson_rule rule = poisson_rule_of(&hop->shape);
    hop->shape.step = step;
    const struct sl_draw draw = draw_of(&hop->shape);
    for (uint32_t p = 0; p < hop->n_parts; p++) {
        struct hop_pe *pe = &hop->pe[p];
        struct sl_sample_marks marks = make_marks(n_vertices, 0);
        struct sl_destinations to = destinations_of(hop, p);
        struct sl_sample_block block = arrays_of(&pe->block, pe->n_rows);
        const struct sl_sample_sizes sizes = {.n_edges = &pe->n_edges};
        sl_poisson_cpu(&to, &rule, &draw, &pe->candidates, &marks, &sizes, &block);
        assert_true(pe->n_edges <= pe->n_room);
        assert_int_equal(pe->block.edge_offsets[pe->n_rows], pe->n_edges);
        pe->block.n_edges = pe->n_edges;
        pe->block.n_sources = pe->block.request[hop->n_parts];
        free_marks(&marks, n_vertices);
    }
}

static MAYBE_UNUSED void hop_sample(const struct sl_partition *partition, const struct hop_shape *shape,
                                    uint32_t n_seeds, const sl_vertex *seeds, struct hop *out)
{
    hop_open(partition, shape, n_seeds, seeds, out);
    hop_bounds(out);
    hop_draw(out, shape->step);
}

/* The cost of a source of PE p. */
static MAYBE_UNUSED float cost_of(const struct hop *hop, uint32_t p, sl_vertex id)
{
    const struct sl_candidates *c = &hop->pe[p].candidates;
    uint32_t n = c->list[hop->n_parts];
    const sl_vertex *ids = sl_list_entries(c->list, hop->n_parts);
    uint32_t low = 0;
    while (n > 1) { /* the last candidate that is not larger */
        uint32_t half = n / 2;
        low += ids[low + half] <= id ? half : 0;
        n -= half;
    }
    assert_int_equal(ids[low], id);
    return c->costs[low];
}

#endif
