/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The sampling phase of one part through StarPU: its handles, and the memory behind them. */
#ifndef SL_TESTS_PHASE_FIXTURE_H
#define SL_TESTS_PHASE_FIXTURE_H

#include "tests/support/group_fixture.h"
#include "tests/support/starpu_fixture.h"

struct phase {
    struct sl_part_handles part;
    struct sl_frontier_handles frontier;
    struct sl_marks_handles marks;
    sl_vertex *ids;   /* of the frontier */
    uint32_t *counts; /* of n_hops levels */
    starpu_data_handle_t all[64];
    void *memory[16];
    unsigned n, n_memory;
};

/* NULL without data; at least one element, as in a run. */
static MAYBE_UNUSED starpu_data_handle_t phase_vector(struct phase *phase, const void *data, size_t n, size_t element)
{
    if (data == NULL) {
        return NULL;
    }
    assert_true(phase->n < sizeof phase->all / sizeof *phase->all);
    return phase->all[phase->n++] = vector_of(data, n > 0 ? (uint32_t)n : 1, element);
}

static void *phase_memory(struct phase *phase, size_t n, size_t element)
{
    assert_true(phase->n_memory < sizeof phase->memory / sizeof *phase->memory);
    return phase->memory[phase->n_memory++] = need(n, element);
}

/* Handles of the part, of an empty frontier, and of marks. n_fanouts: of the part's. */
static MAYBE_UNUSED void open_phase(const struct sl_sample_part *part, uint32_t n_hops, uint32_t max_fanout,
                                    uint32_t n_fanouts, struct phase *phase)
{
    const uint32_t n = part->first[part->n_parts], first = part->first[part->part], end = part->first[part->part + 1];
    const uint32_t n_part = end - first;
    const size_t n_edges = part->offsets[n_part] - part->offsets[0];
    const size_t n_marks = sl_marks_bytes(n, max_fanout);
    const uint32_t n_counts = sl_counts_size(n_hops, part->n_parts);
    *phase = (struct phase){0};
    phase->part = (struct sl_part_handles){.offsets = phase_vector(phase, part->offsets, (size_t)n_part + 1, 8),
                                           .sources = phase_vector(phase, part->sources, n_edges, 4),
                                           .dataset_ids = phase_vector(phase, part->dataset_ids, n, 4),
                                           .first = phase_vector(phase, part->first, (size_t)part->n_parts + 1, 4),
                                           .weights = phase_vector(phase, part->weights, n_edges, 4),
                                           .relations = phase_vector(phase, part->relations, n_edges, 2),
                                           .rows = phase_vector(phase, part->rows, n_edges, 4),
                                           .fanouts = phase_vector(phase, part->fanouts, n_fanouts, 4),
                                           .n_parts = part->n_parts,
                                           .part = part->part};
    char *index = phase_memory(phase, sl_index_bytes(n_part), 1);
    memset(index, 0xff, 4 * (size_t)n_part);
    phase->ids = phase_memory(phase, n_part, 4);
    phase->counts = phase_memory(phase, n_counts, 4);
    phase->frontier = (struct sl_frontier_handles){.ids = phase_vector(phase, phase->ids, n_part, 4),
                                                   .index = phase_vector(phase, index, sl_index_bytes(n_part), 1),
                                                   .counts = phase_vector(phase, phase->counts, n_counts, 4),
                                                   .n_hops = n_hops,
                                                   .first = first,
                                                   .end = end};
    phase->marks = (struct sl_marks_handles){.bytes = phase_vector(phase, phase_memory(phase, n_marks, 1), n_marks, 1),
                                             .n_vertices = n,
                                             .max_fanout = max_fanout};
}

/* Handles of a block's arrays, which have this room. */
static MAYBE_UNUSED struct sl_block phase_block(struct phase *phase, const struct group_block *b, uint32_t n_rows,
                                                uint32_t n_edges, uint32_t n_sources)
{
    return (struct sl_block){.edge_offsets = phase_vector(phase, b->edge_offsets, (size_t)n_rows + 1, 4),
                             .edge_sources = phase_vector(phase, b->edge_sources, n_edges, 4),
                             .back_offsets = phase_vector(phase, b->back_offsets, (size_t)n_sources + 1, 4),
                             .back_rows = phase_vector(phase, b->back_rows, n_edges, 4),
                             .request = phase_vector(phase, b->request, (size_t)b->n_parts + 1 + n_sources, 4),
                             .edge_weights = phase_vector(phase, b->edge_weights, n_edges, 4),
                             .back_weights = phase_vector(phase, b->back_weights, n_edges, 4),
                             .edge_relations = phase_vector(phase, b->edge_relations, n_edges, 2),
                             .back_relations = phase_vector(phase, b->back_relations, n_edges, 2),
                             .edge_rows = phase_vector(phase, b->edge_rows, n_edges, 4)};
}

static MAYBE_UNUSED void close_phase(struct phase *phase)
{
    unregister(phase->n, phase->all);
    while (phase->n_memory > 0) {
        free(phase->memory[--phase->n_memory]);
    }
}

#endif
