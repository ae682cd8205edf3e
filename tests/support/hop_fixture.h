/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One hop of a group for tests of sums over blocks: rows that are the same for each partition, and the group's blocks
 * and rows as handles, with the exchange between PEs.
 */
#ifndef SL_TESTS_HOP_FIXTURE_H
#define SL_TESTS_HOP_FIXTURE_H

#include "codelets/sums/aggregate.h"
#include "tests/support/level_fixture.h"
#include "tests/support/starpu_fixture.h"

#define SEED 31

/* A power law with a hub, of so many relations. */
static MAYBE_UNUSED struct graph_shape power_law(uint32_t n_vertices, uint32_t hub_degree, uint32_t n_relations,
                                                 bool weighted)
{
    return (struct graph_shape){.kind = GRAPH_POWER_LAW,
                                .n_vertices = n_vertices,
                                .hub_degree = hub_degree,
                                .n_relations = n_relations,
                                .weighted = weighted};
}

/* A graph, its parts, and blocks over it. */
struct world {
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
};

/* The group refers to the partition: *out must stay where it is. */
static MAYBE_UNUSED void make_world(const struct graph_shape *shape, int split, uint32_t n_parts, struct world *out)
{
    *out = (struct world){0};
    make_dataset(shape, &out->dataset);
    make_split_of(&out->dataset, split, n_parts, &out->partition);
}

static MAYBE_UNUSED void free_world(struct world *w)
{
    group_free(&w->group);
    sl_partition_free(&w->partition);
    sl_dataset_free(&w->dataset);
}

/* From the first n_seeds training vertices: five neighbours by this method, then all. */
static MAYBE_UNUSED void sample_train(struct world *w, uint32_t n_hops, int method, uint32_t n_seeds)
{
    const struct sl_sample_rule rules[2] = {{method, 5, false, 1}, {SL_SAMPLE_FULL, 0, false, 1}};
    group_sample(&w->partition, n_hops, rules, SEED, 3, n_seeds, w->dataset.train.ids, &w->group);
}

/* One hop to all neighbours of n_seeds vertices of a power law: of the hub, of the last two, which have no edge and one
 * from themselves alone, of 0, which many know, then of those behind the hub. */
static MAYBE_UNUSED void sample_hub(struct world *w, uint32_t n_seeds)
{
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    const sl_vertex n = w->partition.graph.n_vertices;
    const sl_vertex special[4] = {n / 2, n - 1, n - 2, 0};
    FREED sl_vertex *seeds = need(n_seeds, sizeof *seeds);
    for (uint32_t i = 0; i < n_seeds; i++) {
        seeds[i] = i < 4 ? special[i] : n / 2 + i - 3;
    }
    group_sample(&w->partition, 1, &full, SEED, 0, n_seeds, seeds, &w->group);
}

/* One hop from all vertices to all their neighbours. Frontiers are in the order of ids: row i is id first + i. */
static MAYBE_UNUSED void sample_all(struct world *w)
{
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    group_sample(&w->partition, 1, &full, SEED, 0, w->dataset.graph.n_vertices, w->partition.dataset_ids, &w->group);
}

/* Of each vertex f and list (codelets/sums/aggregate.h), to be given to free(). */
static MAYBE_UNUSED sl_real *make_factors(const struct sl_graph *graph)
{
    sl_real *factors = need(2 * (size_t)graph->n_vertices, sizeof *factors);
    for (sl_vertex v = 0; v < graph->n_vertices; v++) {
        double others = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            others += graph->sources[e] != v;
        }
        factors[2 * v] = (sl_real)(1 / sqrt(others + 1));
        factors[2 * v + 1] = (sl_real)(graph->offsets[v + 1] - graph->offsets[v]);
    }
    return factors;
}

/* ---- rows ---- */

/* A vertex has the same noise whatever the partition and its row. */
static MAYBE_UNUSED void fill_level(const struct group *group, uint64_t seed, struct level *level)
{
    for (struct entry e = {0}; next_entry(group, level, &e);) {
        *e.x = (sl_real)noise(seed, dataset_id(group, e.p, e.r) * 4096 + e.j);
    }
}

static MAYBE_UNUSED void set_level(const struct group *group, sl_real x, struct level *level)
{
    for (struct entry e = {0}; next_entry(group, level, &e);) {
        *e.x = x;
    }
}

static MAYBE_UNUSED double inner_levels(const struct group *group, const struct level *a, const struct level *b)
{
    double sum = 0;
    for (struct entry e = {0}; next_entry(group, a, &e);) {
        sum += (double)*e.x * (double)row_at(&b->pe[e.p], e.r)[e.j];
    }
    return sum;
}

/* Tolerance 0: the same numbers. */
static MAYBE_UNUSED void expect_levels(const char *label, const struct group *group, const struct level *got,
                                       const struct level *wanted, double tolerance)
{
    for (struct entry e = {0}; next_entry(group, got, &e);) {
        expect_near_at(label, e.i, (double)*e.x, (double)row_at(&wanted->pe[e.p], e.r)[e.j], tolerance);
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

#define MAX_SLOTS 9

struct handles {
    const struct group *group;
    uint32_t hop;
    struct sl_block block[MAX_PARTS];
    struct sl_rows rows[MAX_SLOTS][MAX_PARTS];
    starpu_data_handle_t chunk[MAX_SLOTS][MAX_PARTS][MAX_CHUNKS];
    struct sl_slice packed[MAX_PARTS][MAX_PARTS]; /* by requester and owner: the rows of the last each_destination */
    int beta;                                     /* for tasks that take it */
    starpu_data_handle_t parameter;               /* the operation's, if it has one */
    void *memory[SL_MAX_PARTS];                   /* and at least 4 * MAX_PARTS */
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

/* n + 1 offsets of lists, moved to beyond 2^32. */
static MAYBE_UNUSED starpu_data_handle_t wrap_offsets(struct handles *h, const uint64_t *offsets, uint32_t n)
{
    uint64_t *moved = h->memory[h->n_memory++] = need((size_t)n + 1, sizeof *moved);
    for (uint32_t i = 0; i <= n; i++) {
        moved[i] = offsets[i] + (UINT64_C(5) << 32);
    }
    return wrap_vector(h, moved, n + 1, sizeof *moved);
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
    sl_real *data = poisoned((size_t)n * n_columns);
    starpu_data_handle_t all = n == 0 ? NULL : wrap(h, rows_of(data, n, n_columns));
    h->memory[h->n_memory++] = data;
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

/* The lists of all parts. */
static MAYBE_UNUSED void wrap_lists(struct handles *h, struct sl_full_sources out[MAX_PARTS])
{
    const struct sl_partition *partition = h->group->partition;
    starpu_data_handle_t first = wrap_vector(h, partition->first, partition->n_parts + 1, 4);
    for (uint32_t p = 0; p < partition->n_parts; p++) {
        const struct sl_sample_part part = part_of(partition, p);
        const uint32_t n = h->group->pe[p].n_part;
        const uint32_t n_edges = (uint32_t)(part.offsets[n] - part.offsets[0]);
        out[p] = (struct sl_full_sources){.offsets = wrap_offsets(h, part.offsets, n),
                                          .sources = wrap_vector(h, part.sources, n_edges, 4),
                                          .first = first,
                                          .n_parts = partition->n_parts,
                                          .n_edges = 100,
                                          .first_id = partition->first[p],
                                          .edge_weights = wrap_vector(h, part.weights, n_edges, 4),
                                          .edge_relations = wrap_vector(h, part.relations, n_edges, 2)};
    }
}

/* ---- tasks of a hop ---- */

/* On a chunk: p's destinations row0 and following. */
typedef void destination_task(struct handles *h, uint32_t p, uint32_t row0, const struct sl_source_handles *sources,
                              starpu_data_handle_t chunk);

/* Submit for each chunk of slot `out`, with the sources in slot `in`, which owners pack. */
static MAYBE_UNUSED void each_destination(struct handles *h, int in, int out, destination_task *submit)
{
    for (uint32_t p = 0; p < h->group->n_parts; p++) {
        const struct sl_rows *rows = &h->rows[out][p];
        const struct sl_source_handles sources = {.n_owners = h->group->n_parts,
                                                  .own = p,
                                                  .first = h->group->pe[p].block[h->hop].request,
                                                  .rows = &h->rows[in][p],
                                                  .inverse = h->block[p].inverse,
                                                  .packed = h->packed[p]};
        submit_packs(h, h->rows[in], p, h->packed[p]);
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            submit(h, p, c << rows->split.shift, &sources, rows->chunk[c]);
        }
    }
}

/* The gradients that p sends to the n owners of its sources, in their order: packed[k], of positions t0[k] and on. */
typedef void returned_task(struct handles *h, uint32_t p, uint32_t n, const uint32_t *t0,
                           const struct sl_slice *packed);

/* On a chunk: q's sources row0 and following. */
typedef void source_task(struct handles *h, uint32_t q, uint32_t row0, const struct sl_share_sources *from,
                         starpu_data_handle_t chunk);

/* Submit what each PE sends back, then for each chunk of slot `out`. */
static MAYBE_UNUSED void each_source(struct handles *h, int out, returned_task *send, source_task *submit)
{
    const uint32_t n_parts = h->group->n_parts;
    FREED struct sl_slice(*sent)[MAX_PARTS] = need(MAX_PARTS, sizeof *sent); /* by owner and sender */
    for (uint32_t p = 0; p < n_parts; p++) {
        struct sl_slice all[MAX_PARTS], packed[MAX_PARTS];
        uint32_t t0[MAX_PARTS];
        uint32_t n = 0;
        wrap_packed(h, p, h->rows[out][p].n_columns, all);
        for (uint32_t q = 0; q < n_parts; q++) {
            sent[q][p] = all[q];
            if (all[q].n_rows > 0) {
                t0[n] = h->group->pe[p].block[h->hop].request[q];
                packed[n++] = all[q];
            }
        }
        if (n > 0) {
            send(h, p, n, t0, packed);
        }
    }
    for (uint32_t q = 0; q < n_parts; q++) {
        const struct sl_rows *rows = &h->rows[out][q];
        const uint32_t *first = h->group->pe[q].block[h->hop].request;
        const struct sl_share_sources from = {
            .t0 = first[q], .n_own = sl_list_count(first, q), .n_peers = n_parts, .own = q, .sent = sent[q]};
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            submit(h, q, c << rows->split.shift, &from, rows->chunk[c]);
        }
    }
}

/* ---- weighted sums A x, by tasks and by plain loops along the lists ---- */

/* An edge of PE p, from the source at position t to destination d. */
struct hop_edge {
    const struct group_block *block;
    uint32_t d;
    sl_vertex from, to; /* ids */
    uint32_t relation;  /* 0 if the graph has none */
    sl_real weight;     /* 1 if the graph has none */
};

/* out += the edge's term of a row x: A's, or A^T's. */
typedef void edge_term(const struct hop_edge *edge, bool transposed, const sl_real *x, sl_real *out);

enum { SLOT_SOURCES, SLOT_DESTINATIONS };

struct hop_sum {
    edge_term *edge;
    sl_real (*self)(sl_vertex id);   /* the weight of a destination's own row; NULL: 0 */
    void (*open)(struct handles *h); /* before the tasks */
    destination_task *forward;
    returned_task *send;
    source_task *accumulate;
};

static MAYBE_UNUSED void add_row(uint32_t n_columns, sl_real weight, const sl_real *x, sl_real *out)
{
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] += weight * x[j];
    }
}

/* The self term of row r, if it is a destination. */
static MAYBE_UNUSED void plain_self(const struct hop_sum *sum, const struct group *group, uint32_t hop, uint32_t p,
                                    uint32_t r, const struct level *x, sl_real *out)
{
    if (sum->self != NULL && r < group->pe[p].n_rows[hop]) {
        add_row(x->pe[p].n_columns, sum->self(group->pe[p].frontier[r]), row_at(&x->pe[p], r), out);
    }
}

/* The edge between d and position t; e: its entry among these weights and relations. */
static MAYBE_UNUSED struct hop_edge edge_at(const struct group *group, uint32_t hop, uint32_t p, uint32_t d, uint32_t t,
                                            uint32_t e, const float *weights, const uint16_t *relations)
{
    const struct group_block *block = &group->pe[p].block[hop];
    return (struct hop_edge){.block = block,
                             .d = d,
                             .from = source_id(block, t),
                             .to = group->pe[p].frontier[d],
                             .relation = relations == NULL ? 0 : relations[e],
                             .weight = weights == NULL ? 1 : (sl_real)weights[e]};
}

/* m (+)= A x. Frontiers nest: row d of the destinations is row d of x. */
static MAYBE_UNUSED void plain_forward(const struct hop_sum *sum, const struct group *group, uint32_t hop,
                                       const struct level *x, int beta, struct level *m)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        for (uint32_t d = 0; d < group->pe[p].n_rows[hop]; d++) {
            sl_real *out = row_at(&m->pe[p], d);
            memset(out, 0, beta ? 0 : m->pe[p].n_columns * sizeof *out);
            plain_self(sum, group, hop, p, d, x, out);
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                const uint32_t t = block->edge_sources[e];
                const struct hop_edge edge =
                    edge_at(group, hop, p, d, t, e, block->edge_weights, block->edge_relations);
                sum->edge(&edge, false, source_row(group, hop, p, t, x), out);
            }
        }
    }
}

/* g = A^T gm: a vertex' own term, then what the PEs send, in their order, each summed before it is sent. */
static MAYBE_UNUSED void plain_backward(const struct hop_sum *sum, const struct group *group, uint32_t hop,
                                        const struct level *gm, struct level *g)
{
    const uint32_t n_columns = g->pe[0].n_columns;
    FREED sl_real *sent = need(n_columns, sizeof *sent);
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const uint32_t *inverse = group->pe[q].block[hop].inverse;
        for (uint32_t r = 0; r < g->pe[q].split.n_rows; r++) {
            memset(row_at(&g->pe[q], r), 0, n_columns * sizeof *sent);
            plain_self(sum, group, hop, q, r, gm, row_at(&g->pe[q], r));
        }
        for (uint32_t p = 0; p < group->n_parts; p++) {
            const struct group_block *block = &group->pe[p].block[hop];
            for (uint32_t i = 0; i < sl_list_count(inverse, p); i++) {
                const uint32_t t = block->request[q] + i;
                sl_real *out = row_at(&g->pe[q], sl_list_of(inverse, group->n_parts, p)[i]);
                memset(sent, 0, n_columns * sizeof *sent);
                for (uint32_t e = block->back_offsets[t]; e < block->back_offsets[t + 1]; e++) {
                    const struct hop_edge edge =
                        edge_at(group, hop, p, block->back_rows[e], t, e, block->back_weights, block->back_relations);
                    sum->edge(&edge, true, row_at(&gm->pe[p], edge.d), p == q ? out : sent);
                }
                add_row(n_columns, 1, sent, out);
            }
        }
    }
}

/* A hop, of rows of sources and rows of destinations, for the tasks of a sum. */
static MAYBE_UNUSED struct handles *wrap_sum(const struct hop_sum *sum, const struct group *group, uint32_t hop,
                                             const struct level *sources, const struct level *destinations)
{
    struct handles *h = wrap_hop(group, hop);
    wrap_level(h, SLOT_SOURCES, sources);
    wrap_level(h, SLOT_DESTINATIONS, destinations);
    sum->open(h);
    return h;
}

static MAYBE_UNUSED void submit_forward(const struct hop_sum *sum, const struct group *group, uint32_t hop,
                                        const struct level *x, int beta, struct level *m)
{
    struct handles *h = wrap_sum(sum, group, hop, x, m);
    h->beta = beta;
    each_destination(h, SLOT_SOURCES, SLOT_DESTINATIONS, sum->forward);
    unwrap(h);
}

static MAYBE_UNUSED void submit_backward(const struct hop_sum *sum, const struct group *group, uint32_t hop,
                                         const struct level *gm, struct level *g)
{
    struct handles *h = wrap_sum(sum, group, hop, g, gm);
    each_source(h, SLOT_SOURCES, sum->send, sum->accumulate);
    unwrap(h);
}

/* Rows of a hop: n_in columns of sources, n_out of destinations. [0]: by plain loops, [1]: by tasks. */
struct sum_levels {
    const struct group *group;
    struct level x, y, m[2], g[2];
};

static MAYBE_UNUSED void free_sum_levels(struct sum_levels *l)
{
    struct level *all[] = {&l->x, &l->y, &l->m[0], &l->m[1], &l->g[0], &l->g[1]};
    for (int i = 0; i < 6; i++) {
        free_level(l->group, all[i]);
    }
}

/* x and y are noise. */
static MAYBE_UNUSED struct sum_levels make_sum_levels(const struct group *group, uint32_t hop, uint32_t n_in,
                                                      uint32_t n_out, uint32_t shift_in, uint32_t shift_out)
{
    struct sum_levels l = {
        .group = group, .x = make_level(group, hop + 1, n_in, shift_in), .y = make_level(group, hop, n_out, shift_out)};
    for (int i = 0; i < 2; i++) {
        l.m[i] = make_level(group, hop, n_out, shift_out);
        l.g[i] = make_level(group, hop + 1, n_in, shift_in);
    }
    fill_level(group, SEED, &l.x);
    fill_level(group, SEED + 1, &l.y);
    return l;
}

/* What may differ between tasks and loops. */
struct sum_tolerance {
    double forward; /* onto nothing */
    double back;
    double largest_weight; /* of a term */
};

/* Sums onto what is there and onto nothing, the adjoint, and <A x, y> = <x, A^T y>. l: from make_sum_levels. */
static MAYBE_UNUSED void check_sum(const struct hop_sum *sum, uint32_t hop, struct sum_tolerance tolerance,
                                   struct sum_levels *l)
{
    const struct group *group = l->group;
    fill_level(group, SEED + 2, &l->m[0]);
    fill_level(group, SEED + 2, &l->m[1]);
    for (int beta = 1; beta >= 0; beta--) {
        plain_forward(sum, group, hop, &l->x, beta, &l->m[0]);
        submit_forward(sum, group, hop, &l->x, beta, &l->m[1]);
        expect_levels("sum", group, &l->m[1], &l->m[0], (1 + 3 * beta) * tolerance.forward); /* onto up to 1 */
    }
    plain_backward(sum, group, hop, &l->y, &l->g[0]);
    submit_backward(sum, group, hop, &l->y, &l->g[1]);
    expect_levels("adjoint", group, &l->g[1], &l->g[0], tolerance.back);
    const double scale = sqrt(inner_levels(group, &l->y, &l->y) * inner_levels(group, &l->m[1], &l->m[1])) + 1;
    expect_near("<A x, y> = <x, A' y>", inner_levels(group, &l->m[1], &l->y), inner_levels(group, &l->x, &l->g[1]),
                8 * EPSILON * scale * tolerance.largest_weight);
}

#endif
