/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One hop of a group for tests of sums over blocks: rows that are the same for each partition, and the group's blocks
 * and rows as handles, with the exchange between PEs.
 */
#ifndef SL_TESTS_HOP_FIXTURE_H
#define SL_TESTS_HOP_FIXTURE_H

#include "codelets/sums/sources.h"
#include "tests/support/level_fixture.h"
#include "tests/support/starpu_fixture.h"

#define SEED 31

/* Two hops from the first n_seeds training vertices: five neighbours, then all. */
static MAYBE_UNUSED void make_group(const struct sl_dataset *dataset, int split, uint32_t n_parts, uint32_t n_seeds,
                                    struct sl_partition *partition, struct group *group)
{
    const struct sl_sample_rule rules[2] = {{SL_SAMPLE_NEIGHBOR, 5, false, 1}, {SL_SAMPLE_FULL, 0, false, 1}};
    make_split_of(dataset, split, n_parts, partition);
    group_sample(partition, 2, rules, SEED, 3, n_seeds, dataset->train.ids, group);
}

/* One hop from all vertices to all their neighbours. Frontiers are in the order of ids: row i is id first + i. */
static MAYBE_UNUSED void make_whole_group(const struct sl_dataset *dataset, int split, uint32_t n_parts,
                                          struct sl_partition *partition, struct group *group)
{
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    make_split_of(dataset, split, n_parts, partition);
    group_sample(partition, 1, &full, SEED, 0, dataset->graph.n_vertices, partition->dataset_ids, group);
}

static MAYBE_UNUSED void drop_group(struct sl_partition *partition, struct group *group)
{
    group_free(group);
    sl_partition_free(partition);
}

/* ---- rows ---- */

/* A vertex has the same noise whatever the partition and its row. */
static MAYBE_UNUSED void fill_level(const struct group *group, uint64_t seed, struct level *level)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct rows *rows = &level->pe[p];
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            for (uint32_t j = 0; j < rows->n_columns; j++) {
                row_at(rows, r)[j] = (sl_real)noise(seed, dataset_id(group, p, r) * 4096 + j);
            }
        }
    }
}

static MAYBE_UNUSED double inner_levels(const struct group *group, const struct level *a, const struct level *b)
{
    double sum = 0;
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < a->pe[p].split.n_rows; r++) {
            sum += inner(a->pe[p].n_columns, row_at(&a->pe[p], r), row_at(&b->pe[p], r));
        }
    }
    return sum;
}

/* Tolerance 0: the same numbers. */
static MAYBE_UNUSED void expect_levels(const char *label, const struct group *group, const struct level *got,
                                       const struct level *wanted, double tolerance)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < got->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < got->pe[p].n_columns; j++) {
                expect_near_at(label, (size_t)r * got->pe[p].n_columns + j, (double)row_at(&got->pe[p], r)[j],
                               (double)row_at(&wanted->pe[p], r)[j], tolerance);
            }
        }
    }
}

/* The row of the source at a position of p's block, at its owner. */
static MAYBE_UNUSED sl_real *source_row(const struct group *group, uint32_t hop, uint32_t p, uint32_t position,
                                        const struct level *x)
{
    const uint32_t *request = group->pe[p].block[hop].request;
    uint32_t q = 0;
    while (position >= request[q + 1]) {
        q++;
    }
    const uint32_t *rows = sl_list_of(group->pe[q].block[hop].inverse, group->n_parts, p);
    return row_at(&x->pe[q], rows[position - request[q]]);
}

/* ---- handles ---- */

#define MAX_SLOTS 6

struct handles {
    const struct group *group;
    uint32_t hop;
    struct sl_block block[MAX_PARTS];
    struct sl_rows rows[MAX_SLOTS][MAX_PARTS];
    starpu_data_handle_t chunk[MAX_SLOTS][MAX_PARTS][MAX_CHUNKS];
    sl_real *memory[2 * MAX_PARTS];
    unsigned n_memory;
    unsigned n;
    starpu_data_handle_t all[16384];
};

static MAYBE_UNUSED starpu_data_handle_t wrap(struct handles *h, starpu_data_handle_t handle)
{
    assert_true(h->n < sizeof h->all / sizeof h->all[0]);
    return h->all[h->n++] = handle;
}

/* NULL without data; at least one element, as in a run. */
static MAYBE_UNUSED starpu_data_handle_t wrap_vector(struct handles *h, const void *data, uint32_t n, size_t element)
{
    return data == NULL ? NULL : wrap(h, vector_of(data, n > 0 ? n : 1, element));
}

/* The group's blocks. */
static MAYBE_UNUSED struct handles *wrap_hop(const struct group *group, uint32_t hop)
{
    struct handles *h = need(1, sizeof *h);
    h->group = group;
    h->hop = hop;
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        const uint32_t n = block->n_edges;
        h->block[p] = (struct sl_block){
            .edge_offsets = wrap_vector(h, block->edge_offsets, group->pe[p].n_rows[hop] + 1, 4),
            .edge_sources = wrap_vector(h, block->edge_sources, n, 4),
            .back_offsets = wrap_vector(h, block->back_offsets, block->n_sources + 1, 4),
            .back_rows = wrap_vector(h, block->back_rows, n, 4),
            .request = wrap_vector(h, block->request, group->n_parts + 1 + block->n_sources, 4),
            .inverse = wrap_vector(h, block->inverse, group->n_parts + 1 + block->inverse[group->n_parts], 4),
            .edge_weights = wrap_vector(h, block->edge_weights, n, sizeof(float)),
            .back_weights = wrap_vector(h, block->back_weights, n, sizeof(float)),
            .edge_relations = wrap_vector(h, block->edge_relations, n, sizeof(uint16_t)),
            .back_relations = wrap_vector(h, block->back_relations, n, sizeof(uint16_t))};
    }
    return h;
}

/* The rows of all PEs at one level. */
static MAYBE_UNUSED const struct sl_rows *wrap_level(struct handles *h, int slot, const struct level *level)
{
    for (uint32_t p = 0; p < h->group->n_parts; p++) {
        const struct rows *rows = &level->pe[p];
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            h->chunk[slot][p][c] = wrap(h, rows_of(rows->base[c], sl_split_size(&rows->split, c), rows->n_columns));
        }
        h->rows[slot][p] =
            (struct sl_rows){.split = rows->split, .n_columns = rows->n_columns, .chunk = h->chunk[slot][p]};
    }
    return h->rows[slot];
}

/* A matrix between p and all owners, rows as p asks of each, side by side; no slice for p. */
static MAYBE_UNUSED void wrap_packed(struct handles *h, uint32_t p, uint32_t n_columns, struct sl_slice *slices_out)
{
    const uint32_t *request = h->group->pe[p].block[h->hop].request;
    uint32_t n = request[h->group->n_parts] - sl_list_count(request, p);
    sl_real *data = h->memory[h->n_memory++] = poisoned((size_t)n * n_columns);
    starpu_data_handle_t all = n == 0 ? NULL : wrap(h, rows_of(data, n, n_columns));
    for (uint32_t q = 0, row = 0; q < h->group->n_parts; q++) {
        uint32_t n_rows = p == q ? 0 : sl_list_count(request, q);
        slices_out[q] = (struct sl_slice){n_rows == 0 ? NULL : all, row, n_rows};
        row += n_rows;
    }
}

/* The owners pack the rows that p asks for. */
static MAYBE_UNUSED void submit_packs(struct handles *h, const struct sl_rows *rows, uint32_t p,
                                      struct sl_slice *slices_out)
{
    wrap_packed(h, p, rows[p].n_columns, slices_out);
    for (uint32_t q = 0; q < h->group->n_parts; q++) {
        if (slices_out[q].n_rows > 0) {
            expect_ok(sl_pack_submit(&head, &rows[q], h->group->n_parts, h->block[q].inverse, 1, &p, &slices_out[q]));
        }
    }
}

/* Wait for all tasks. */
static MAYBE_UNUSED void unwrap(struct handles *h)
{
    unregister(h->n, h->all);
    while (h->n_memory > 0) {
        free(h->memory[--h->n_memory]);
    }
    free(h);
    expect_no_failure();
}

#endif
