/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/aggregate.h over whole groups: means and sums by symmetric weights, their adjoints and the sums at
 * owners, with the exchange between them, against plain loops in double; and the submissions against the kernels,
 * bit for bit. */
#include "codelets/aggregate.h"
#include "data/load.h"

#include <sys/mman.h>

#include "tests/support/level_fixture.h"
#include "tests/support/order_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

#define SEED 31
#define POISON ((sl_real)-12345.5)

/* ---- rows in chunks ---- */

static sl_real *entry(const struct rows *rows, uint32_t r, uint32_t j)
{
    return row_at(rows, r) + j;
}

/* A vertex has the same numbers whatever the partition and its row: noise, or all ones where seed is 0. */
static void fill_level(const struct group *group, uint64_t seed, struct level *level)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct rows *rows = &level->pe[p];
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            size_t id = group->partition->dataset_ids[group->pe[p].frontier[r]];
            for (uint32_t j = 0; j < rows->n_columns; j++) {
                *entry(rows, r, j) = seed == 0 ? 1 : (sl_real)noise(seed, id * 1024 + j);
            }
        }
    }
}

static double inner_levels(const struct group *group, const struct level *a, const struct level *b)
{
    double sum = 0;
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t c = 0; c < a->pe[p].split.n_chunks; c++) {
            size_t n = (size_t)sl_split_size(&a->pe[p].split, c) * a->pe[p].n_columns;
            sum += inner(n, a->pe[p].base[c], b->pe[p].base[c]);
        }
    }
    return sum;
}

static void expect_same_levels(const char *label, const struct group *group, const struct level *a,
                               const struct level *b)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < a->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < a->pe[p].n_columns; j++) {
                expect_same(label, 1, sizeof(sl_real), entry(&a->pe[p], r, j), entry(&b->pe[p], r, j));
            }
        }
    }
}

/* ---- weights ---- */

#define SCALE 0.8

/* What everything below weighs by: two numbers of each renumbered id, and the first of them in double. NULL: the
 * mean. */
static sl_real *factors;
static double *exact_f;

/* The last two: with the weights of edges. */
enum weighing { MEAN, SYMMETRIC, MEAN_OF_EDGES, SYMMETRIC_OF_EDGES, N_WEIGHINGS };

static bool weighs_edges;

/* The weights of a block's edges, or NULL. */
static const float *if_weighed(const float *weights)
{
    assert_true(!weighs_edges || weights != NULL);
    return weighs_edges ? weights : NULL;
}

/* How large a term may be. */
static double largest_weight(void)
{
    return weighs_edges ? 4 : 1;
}

static void weigh(const struct sl_graph *graph, enum weighing weighing)
{
    free(factors);
    free(exact_f);
    weighs_edges = weighing >= MEAN_OF_EDGES;
    bool mean = weighing == MEAN || weighing == MEAN_OF_EDGES;
    factors = mean ? NULL : need(2 * (size_t)graph->n_vertices, sizeof *factors);
    exact_f = mean ? NULL : need(graph->n_vertices, sizeof *exact_f);
    for (sl_vertex v = 0; !mean && v < graph->n_vertices; v++) {
        double others = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            others += graph->sources[e] != v;
        }
        exact_f[v] = 1 / sqrt(others + 1);
        factors[2 * v] = (sl_real)exact_f[v];
        factors[2 * v + 1] = (sl_real)(graph->offsets[v + 1] - graph->offsets[v]);
    }
}

/* A PE's block as kernels take it; its weights are in *room. */
static const struct sl_weights *weights_of(const struct group *group, uint32_t hop, uint32_t p, struct sl_weights *room)
{
    *room = (struct sl_weights){.factors = factors,
                                .destinations = group->pe[p].frontier,
                                .sources = sl_list_of(group->pe[p].block[hop].request, group->n_parts, 0),
                                .scale = (sl_real)SCALE};
    return factors == NULL ? NULL : room;
}

static struct sl_transposed transposed_of(const struct group *group, uint32_t hop, uint32_t p, struct sl_weights *room)
{
    const struct group_block *block = &group->pe[p].block[hop];
    return (struct sl_transposed){.back_offsets = block->back_offsets,
                                  .back_rows = block->back_rows,
                                  .edge_offsets = block->edge_offsets,
                                  .weights = weights_of(group, hop, p, room),
                                  .back_weights = if_weighed(block->back_weights)};
}

/* ---- one hop of a group by the kernels ---- */

/* What q packs for p. */
static sl_real *pack_for(const struct group *group, uint32_t hop, uint32_t q, uint32_t p, const struct level *x)
{
    uint32_t n = sl_list_count(group->pe[p].block[hop].request, q);
    uint32_t n_columns = x->pe[q].n_columns;
    struct sl_view rows = view_of(&x->pe[q], sl_list_of(group->pe[q].block[hop].inverse, group->n_parts, p));
    sl_real *packed = poisoned((size_t)n * n_columns);
    sl_pack_cpu(SL_DTYPE_REAL, n, n_columns, &rows, packed);
    return packed;
}

/* m (+)= A x. */
static void forward(const struct group *group, uint32_t hop, const struct level *x, int beta, struct level *m)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        struct rows *out = &m->pe[p];
        sl_real *packed[MAX_PARTS];
        struct sl_view view[MAX_PARTS];
        for (uint32_t q = 0; q < group->n_parts; q++) {
            packed[q] = q == p ? NULL : pack_for(group, hop, q, p, x);
            view[q] = (struct sl_view){(const sl_real *const *)&packed[q], 31, NULL};
        }
        view[p] = view_of(&x->pe[p], sl_list_of(block->inverse, group->n_parts, p));
        struct sl_view own = view_of(&x->pe[p], NULL);
        struct sl_sources sources = {group->n_parts, block->request, view, &own};
        struct sl_weights room;
        for (uint32_t c = 0; c < out->split.n_chunks; c++) {
            struct sl_edges edges = {.row0 = c << out->split.shift,
                                     .n_rows = sl_split_size(&out->split, c),
                                     .offsets = block->edge_offsets,
                                     .sources = block->edge_sources,
                                     .weights = weights_of(group, hop, p, &room),
                                     .edge_weights = if_weighed(block->edge_weights)};
            sl_aggregate_forward_cpu(SL_DTYPE_REAL, &edges, out->n_columns, &sources, beta, out->base[c]);
        }
        for (uint32_t q = 0; q < group->n_parts; q++) {
            free(packed[q]);
        }
    }
}

/* What p sends back to q. */
static sl_real *send_back(const struct group *group, uint32_t hop, uint32_t p, uint32_t q, const struct level *gm)
{
    const struct group_block *block = &group->pe[p].block[hop];
    uint32_t n = sl_list_count(block->request, q);
    uint32_t n_columns = gm->pe[p].n_columns;
    struct sl_view view = view_of(&gm->pe[p], NULL);
    struct sl_weights room;
    struct sl_transposed transposed = transposed_of(group, hop, p, &room);
    sl_real *sent = poisoned((size_t)n * n_columns);
    sl_aggregate_backward_cpu(&transposed, block->request[q], n, n_columns, &view, sent);
    return sent;
}

/* Add p's share to a chunk of q. */
static void add_share(const struct group *group, uint32_t hop, uint32_t p, uint32_t q, const struct level *gm,
                      const sl_real *sent, const struct sl_gradient *g)
{
    const struct group_block *block = &group->pe[q].block[hop];
    uint32_t n = sl_list_count(block->inverse, p);
    const uint32_t *rows = sl_list_of(block->inverse, group->n_parts, p);
    if (p == q) {
        struct sl_view view = view_of(&gm->pe[q], NULL);
        struct sl_weights room;
        struct sl_transposed transposed = transposed_of(group, hop, q, &room);
        sl_accumulate_own_cpu(&transposed, block->request[q], n, rows, &view, g);
    } else {
        sl_accumulate_sent_cpu(SL_DTYPE_REAL, n, rows, sent, g);
    }
}

static struct sl_gradient chunk_of(const struct rows *rows, uint32_t c)
{
    return (struct sl_gradient){c << rows->split.shift, sl_split_size(&rows->split, c), rows->n_columns, rows->base[c],
                                NULL};
}

/* Zeros, at once or row by row as terms come, and the own terms of q's destinations. */
static void begin_chunk(const struct group *group, uint32_t hop, uint32_t q, const struct level *gm,
                        const struct sl_gradient *g)
{
    struct sl_view view = view_of(&gm->pe[q], NULL);
    struct sl_weights room;
    const struct sl_weights *weights = weights_of(group, hop, q, &room);
    for (size_t i = 0; i < (size_t)g->n_rows * g->n_columns; i++) {
        g->rows[i] = g->begun == NULL ? 0 : POISON;
    }
    if (weights != NULL) {
        sl_accumulate_self_cpu(weights, gm->pe[q].split.n_rows, &view, g);
    }
}

/* g = A^T gm. */
static void backward(const struct group *group, uint32_t hop, const struct level *gm, struct level *g)
{
    for (uint32_t q = 0; q < group->n_parts; q++) {
        struct rows *out = &g->pe[q];
        struct sl_gradient chunk[SL_MAX_CHUNKS];
        for (uint32_t c = 0; c < out->split.n_chunks; c++) {
            chunk[c] = chunk_of(out, c);
            chunk[c].begun = (c + q) % 2 == 0 ? need(chunk[c].n_rows / 64 + 1, sizeof *chunk[c].begun) : NULL;
            begin_chunk(group, hop, q, gm, &chunk[c]);
        }
        for (uint32_t p = 0; p < group->n_parts; p++) {
            sl_real *sent = p == q ? NULL : send_back(group, hop, p, q, gm);
            for (uint32_t c = 0; c < out->split.n_chunks; c++) {
                add_share(group, hop, p, q, gm, sent, &chunk[c]);
            }
            free(sent);
        }
        for (uint32_t c = 0; c < out->split.n_chunks; c++) {
            sl_accumulate_end_cpu(&chunk[c]);
            free(chunk[c].begun);
        }
    }
}

/* ---- the same in plain loops, by vertex ---- */

/* The weight of an edge between renumbered ids, to a destination that has so many in the block. */
static double weight_of(const struct sl_graph *graph, sl_vertex source, sl_vertex destination, double degree)
{
    double list = (double)(graph->offsets[destination + 1] - graph->offsets[destination]);
    return factors == NULL         ? 1 / degree
           : source == destination ? 0
                                   : SCALE * exact_f[destination] * exact_f[source] * list / degree;
}

static void add_row(uint32_t n_columns, double weight, const double *x, size_t from, double *out, size_t to)
{
    for (uint32_t j = 0; j < n_columns; j++) {
        out[to * n_columns + j] += weight * x[from * n_columns + j];
    }
}

/* For every edge source -> destination of a hop: out[destination] += weight x[source], or the other way round; and the
 * destinations' own terms. */
static double *reference(const struct group *group, uint32_t hop, const double *x, uint32_t n_columns, bool transposed)
{
    const sl_vertex *dataset_ids = group->partition->dataset_ids;
    double *out = need((size_t)group->partition->graph.n_vertices * n_columns, sizeof *out);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        for (uint32_t d = 0; d < group->pe[p].n_rows[hop]; d++) {
            sl_vertex id = group->pe[p].frontier[d];
            double degree = block->edge_offsets[d + 1] - block->edge_offsets[d];
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                sl_vertex source = source_id(block, block->edge_sources[e]);
                double weight = weight_of(&group->partition->graph, source, id, degree);
                weight *= weighs_edges ? (double)block->edge_weights[e] : 1;
                add_row(n_columns, weight, x, dataset_ids[transposed ? id : source], out,
                        dataset_ids[transposed ? source : id]);
            }
            if (factors != NULL) {
                add_row(n_columns, SCALE * exact_f[id] * exact_f[id], x, dataset_ids[id], out, dataset_ids[id]);
            }
        }
    }
    return out;
}

/* ---- kernels ---- */

/* Means, their sum onto 3, the adjoint against the loops, and <A x, y> = <x, A^T y>. A mean of n numbers of random
 * signs and size 1 has partial sums up to about 1 / sqrt(n), so that rounding, too, keeps below some epsilons,
 * whatever n; sums by weights reach about 4. */
static void check_sums(const struct group *group, uint32_t hop, uint32_t n_columns, uint32_t shift_in,
                       uint32_t shift_out)
{
    double tolerance = largest_weight() * (factors == NULL ? 8 * EPSILON : rounding(40, 4));
    struct level x = make_level(group, hop + 1, n_columns, shift_in);
    struct level g = make_level(group, hop + 1, n_columns, shift_in);
    struct level m = make_level(group, hop, n_columns, shift_out);
    struct level y = make_level(group, hop, n_columns, shift_out);
    fill_level(group, SEED, &x);
    fill_level(group, SEED + 1, &y);
    double *x_table = table_of(group, &x);
    double *y_table = table_of(group, &y);
    double *mean = reference(group, hop, x_table, n_columns, false);
    double *adjoint = reference(group, hop, y_table, n_columns, true);
    forward(group, hop, &x, 0, &m);
    expect_table("mean", group, &m, mean, 0, tolerance);
    backward(group, hop, &y, &g);
    expect_table("adjoint", group, &g, adjoint, 0, largest_weight() * rounding(40, factors == NULL ? 1 : 4));
    double scale = sqrt(inner_levels(group, &y, &y) * inner_levels(group, &m, &m)) + 1;
    expect_near("<A x, y> = <x, A' y>", inner_levels(group, &m, &y), inner_levels(group, &x, &g),
                8 * EPSILON * scale * largest_weight());
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < m.pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < n_columns; j++) {
                *entry(&m.pe[p], r, j) = 3;
            }
        }
    }
    forward(group, hop, &x, 1, &m);
    expect_table("3 + mean", group, &m, mean, 3, largest_weight() * rounding(factors == NULL ? 8 : 40, 4));
    free(x_table);
    free(y_table);
    free(mean);
    free(adjoint);
    free_level(group, &x);
    free_level(group, &g);
    free_level(group, &m);
    free_level(group, &y);
}

static void check_hop(const struct group *group, uint32_t hop, uint32_t n_columns, uint32_t shift_in,
                      uint32_t shift_out)
{
    for (int weighing = N_WEIGHINGS - 1; weighing >= MEAN; weighing--) {
        weigh(&group->partition->graph, weighing);
        check_sums(group, hop, n_columns, shift_in, shift_out);
    }
}

static void make_group(const struct sl_dataset *dataset, int split, uint32_t n_parts, uint32_t n_seeds,
                       struct sl_partition *partition, struct group *group)
{
    const struct sl_sample_rule rules[2] = {{SL_SAMPLE_NEIGHBOR, 5, false, 1}, {SL_SAMPLE_FULL, 0, false, 1}};
    make_split_of(dataset, split, n_parts, partition);
    group_sample(partition, 2, rules, SEED, 3, n_seeds, dataset->train.ids, group);
}

static void test_graphs(void **state)
{
    (void)state;
    const uint32_t part_counts[] = {1, 4, 7};
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {.kind = graph,
                                    .n_vertices = 90,
                                    .self_loops = true,
                                    .directed = graph == GRAPH_POWER_LAW,
                                    .weighted = true};
        struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        for (int i = 0; i < 3; i++) {
            struct sl_partition partition;
            struct group group;
            make_group(&dataset, SPLIT_UNEVEN, part_counts[i], 20, &partition, &group);
            check_hop(&group, 0, 7, 31, 31);
            check_hop(&group, 1, 7, 3, 2);
            group_free(&group);
            sl_partition_free(&partition);
        }
        sl_dataset_free(&dataset);
    }
}

static void test_widths_and_chunks(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 33, 256};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .weighted = true};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_METIS, 4, 40, &partition, &group);
    for (int w = 0; w < 5; w++) {
        check_hop(&group, 1, widths[w], 31, 31);
        check_hop(&group, 1, widths[w], 4, 4);
        check_hop(&group, 1, widths[w], 3, 1);
    }
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* The chunks are invisible, to the bit: one and many give the same sums. */
static void check_chunks(const struct group *group)
{
    struct level x[2];
    struct level m[2];
    struct level g[2];
    for (int i = 0; i < 2; i++) {
        x[i] = make_level(group, 2, 9, i == 0 ? 31 : 3);
        g[i] = make_level(group, 2, 9, i == 0 ? 31 : 3);
        m[i] = make_level(group, 1, 9, i == 0 ? 31 : 2);
        fill_level(group, SEED, &x[i]);
        forward(group, 1, &x[i], 0, &m[i]);
        backward(group, 1, &m[i], &g[i]);
    }
    expect_same_levels("mean", group, &m[0], &m[1]);
    expect_same_levels("adjoint", group, &g[0], &g[1]);
    for (int i = 0; i < 2; i++) {
        free_level(group, &x[i]);
        free_level(group, &m[i]);
        free_level(group, &g[i]);
    }
}

/* The means of one PE, and the way back, are the plain sums along the list in sl_real, as they always were. */
static void check_order(const struct group *group)
{
    const struct group_block *block = &group->pe[0].block[1];
    struct level x = make_level(group, 2, 5, 31);
    struct level g = make_level(group, 2, 5, 31);
    struct level m = make_level(group, 1, 5, 31);
    fill_level(group, SEED, &x);
    forward(group, 1, &x, 0, &m);
    backward(group, 1, &m, &g);
    for (uint32_t d = 0; d < group->pe[0].n_rows[1]; d++) {
        sl_real weight = 1 / (sl_real)(block->edge_offsets[d + 1] - block->edge_offsets[d]);
        sl_real sum[5] = {0};
        for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
            uint32_t row = sl_list_of(block->inverse, 1, 0)[block->edge_sources[e]];
            for (uint32_t j = 0; j < 5; j++) {
                sum[j] += weight * *entry(&x.pe[0], row, j);
            }
        }
        expect_same("mean", 5, sizeof(sl_real), entry(&m.pe[0], d, 0), sum);
    }
    for (uint32_t t = 0; t < block->n_sources; t++) {
        sl_real sum[5] = {0};
        for (uint32_t e = block->back_offsets[t]; e < block->back_offsets[t + 1]; e++) {
            uint32_t d = block->back_rows[e];
            sl_real weight = 1 / (sl_real)(block->edge_offsets[d + 1] - block->edge_offsets[d]);
            for (uint32_t j = 0; j < 5; j++) {
                sum[j] += weight * *entry(&m.pe[0], d, j);
            }
        }
        expect_same("adjoint", 5, sizeof(sl_real), entry(&g.pe[0], sl_list_of(block->inverse, 1, 0)[t], 0), sum);
    }
    free_level(group, &x);
    free_level(group, &g);
    free_level(group, &m);
}

static void test_bits(void **state)
{
    (void)state;
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .self_loops = true, .weighted = true};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    for (uint32_t n_parts = 1; n_parts <= 4; n_parts += 3) {
        make_group(&dataset, SPLIT_RANDOM, n_parts, 40, &partition, &group);
        for (int weighing = N_WEIGHINGS - 1; weighing >= MEAN; weighing--) {
            weigh(&partition.graph, weighing);
            check_chunks(&group);
        }
        if (n_parts == 1) {
            check_order(&group);
        }
        group_free(&group);
        sl_partition_free(&partition);
    }
    sl_dataset_free(&dataset);
}

/* 13,000 in-neighbours, in one part and in four. The worst case for rounding are equal signs: a mean of ones may
 * lose half an epsilon per addition. Both sums run along the list's order, so that the parts do not change a bit of
 * the mean. */
static void test_many_neighbours(void **state)
{
    (void)state;
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 14000, .hub_degree = 13000, .directed = true, .weighted = true};
    struct sl_dataset dataset;
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    const sl_vertex seeds[] = {7000, 13999, 13998, 0};
    double hub[2];
    make_dataset(&shape, &dataset);
    for (int i = 0; i < 2; i++) {
        struct sl_partition partition;
        struct group group;
        make_split_of(&dataset, SPLIT_RANDOM, i == 0 ? 1 : 4, &partition);
        group_sample(&partition, 1, &full, SEED, 0, 4, seeds, &group);
        check_hop(&group, 0, 3, 31, 31);
        struct level x = make_level(&group, 1, 1, 31);
        struct level m = make_level(&group, 0, 1, 31);
        fill_level(&group, 0, &x);
        forward(&group, 0, &x, 0, &m);
        double *mean = table_of(&group, &m);
        expect_near("a mean of ones", mean[7000], 1, 13000 * EPSILON / 2);
        expect_near("no neighbours", mean[13999], 0, 0);
        expect_near("itself", mean[13998], 1, 0);
        weigh(&partition.graph, SYMMETRIC);
        forward(&group, 0, &x, 0, &m);
        free(mean);
        mean = table_of(&group, &m);
        expect_near("no neighbours, by weights", mean[13999], SCALE, EPSILON);
        expect_near("itself, by weights", mean[13998], SCALE, EPSILON);
        weigh(&partition.graph, MEAN);
        fill_level(&group, SEED, &x);
        forward(&group, 0, &x, 0, &m);
        free(mean);
        mean = table_of(&group, &m);
        hub[i] = mean[7000];
        free(mean);
        free_level(&group, &x);
        free_level(&group, &m);
        group_free(&group);
        sl_partition_free(&partition);
    }
    assert_true(hub[0] == hub[1]);
    sl_dataset_free(&dataset);
}

/* No destination at all, and destinations without an edge. */
static void test_empty_blocks(void **state)
{
    (void)state;
    const uint32_t offsets[] = {0, 0, 0, 0};
    const uint32_t first[] = {0, 0};
    struct sl_sources none = {1, first, NULL, NULL};
    struct sl_view gm = {NULL, 31, NULL};
    struct sl_edges no_rows = {.offsets = offsets};
    struct sl_edges no_edges = {.n_rows = 3, .offsets = offsets};
    struct sl_transposed block = {.back_offsets = offsets, .edge_offsets = offsets};
    sl_real m[3 * 5];
    struct sl_gradient g = {.n_rows = 3, .n_columns = 5, .rows = m};
    for (int i = 0; i < 15; i++) {
        m[i] = POISON;
    }
    sl_aggregate_forward_cpu(SL_DTYPE_REAL, &no_rows, 5, &none, 0, m);
    sl_aggregate_backward_cpu(&block, 0, 0, 5, &gm, m);
    sl_accumulate_sent_cpu(SL_DTYPE_REAL, 0, NULL, NULL, &g);
    sl_accumulate_own_cpu(&block, 0, 0, NULL, &gm, &g);
    sl_aggregate_forward_cpu(SL_DTYPE_REAL, &no_edges, 5, &none, 1, m);
    for (int i = 0; i < 15; i++) {
        assert_true(m[i] == POISON);
    }
    sl_aggregate_forward_cpu(SL_DTYPE_REAL, &no_edges, 5, &none, 0, m);
    for (int i = 0; i < 15; i++) {
        assert_true(m[i] == 0);
    }
}

/* By weights a destination without an edge has its own term alone, 3 f^2 of the row it is in the frontier, both
 * ways. */
static void test_own_terms(void **state)
{
    (void)state;
    const uint32_t offsets[] = {0, 0, 0, 0};
    const uint32_t first[] = {0, 0};
    const sl_real row[] = {1, 2, 4};
    const sl_real *base = row;
    const sl_real of[] = {9, 9, 2, 0, (sl_real)0.5, 0, 1, 0};
    const sl_vertex ids[] = {3, 1, 2};
    const sl_real wanted[] = {3 * 1 * 1, 3 * 4 * 2, (sl_real)0.75 * 4};
    struct sl_view own = {&base, 31, NULL};
    struct sl_sources x = {1, first, NULL, &own};
    struct sl_weights weights = {.factors = of, .destinations = ids, .sources = ids, .scale = 3};
    struct sl_edges edges = {.row0 = 1, .n_rows = 2, .offsets = offsets, .weights = &weights};
    sl_real m[2] = {POISON, POISON};
    for (int beta = 0; beta < 2; beta++) {
        sl_aggregate_forward_cpu(SL_DTYPE_REAL, &edges, 1, &x, beta, m);
        assert_true(m[0] == (beta + 1) * wanted[1] && m[1] == (beta + 1) * wanted[2]);
    }
    edges.n_rows = 0;
    sl_aggregate_forward_cpu(SL_DTYPE_REAL, &edges, 1, &x, 0, m);
    for (uint32_t row0 = 0; row0 < 4; row0++) {
        sl_real g[2] = {1, 1};
        sl_accumulate_self_cpu(&weights, 2, &own, &(struct sl_gradient){row0, 2, 1, g, NULL});
        assert_true(g[0] == (row0 < 2 ? 1 + wanted[row0] : 1) && g[1] == (row0 < 1 ? 1 + wanted[row0 + 1] : 1));
    }
}

/* Samples of three of a list: their sums, on average over many steps, are those of whole lists. */
static void test_unbiased(void **state)
{
    (void)state;
    enum { STEPS = 3000, WIDTH = 2, SEEDS = 12, N = 60 };
    const struct sl_sample_rule rules[] = {{.method = SL_SAMPLE_FULL}, {SL_SAMPLE_NEIGHBOR, 3, false, 1}};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = N, .hub_degree = 40, .self_loops = true};
    double sum[N * WIDTH] = {0};
    double squares[N * WIDTH] = {0};
    double *exact = NULL;
    struct sl_dataset dataset;
    struct sl_partition partition;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, 3, &partition);
    weigh(&partition.graph, SYMMETRIC);
    for (uint64_t step = 0; step <= STEPS; step++) {
        struct group group;
        group_sample(&partition, 1, &rules[step > 0], SEED, step, SEEDS, dataset.train.ids, &group);
        struct level x = make_level(&group, 1, WIDTH, 31);
        struct level m = make_level(&group, 0, WIDTH, 31);
        fill_level(&group, SEED, &x);
        forward(&group, 0, &x, 0, &m);
        double *table = table_of(&group, &m);
        for (size_t i = 0; step > 0 && i < N * WIDTH; i++) {
            sum[i] += table[i] - exact[i];
            squares[i] += (table[i] - exact[i]) * (table[i] - exact[i]);
        }
        if (step == 0) {
            exact = table;
        } else {
            free(table);
        }
        free_level(&group, &x);
        free_level(&group, &m);
        group_free(&group);
    }
    for (size_t i = 0; i < N * WIDTH; i++) {
        expect_near_at("average", i, sum[i] / STEPS, 0, 4 * sqrt(squares[i]) / STEPS + 8 * EPSILON);
    }
    free(exact);
    weigh(&partition.graph, MEAN);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* ---- launchers ---- */

#ifdef SL_CUDA

static void expect_near_levels(const char *label, const struct group *group, const struct level *got,
                               const struct level *wanted, double tolerance)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < got->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < got->pe[p].n_columns; j++) {
                expect_near_at(label, j, (double)*entry(&got->pe[p], r, j), (double)*entry(&wanted->pe[p], r, j),
                               tolerance);
            }
        }
    }
}

static size_t chunk_bytes(const struct rows *rows, uint32_t c)
{
    return (size_t)sl_split_size(&rows->split, c) * rows->n_columns * sizeof(sl_real);
}

static struct sl_device_rows rows_on_device(const struct rows *rows)
{
    struct sl_device_rows copy = {.n_chunks = rows->split.n_chunks, .shift = rows->split.shift};
    for (uint32_t c = 0; c < copy.n_chunks; c++) {
        copy.chunk[c] = on_device(rows->base[c], chunk_bytes(rows, c));
    }
    return copy;
}

static void free_device_rows(const struct sl_device_rows *rows)
{
    for (uint32_t c = 0; c < rows->n_chunks; c++) {
        cudaFree((void *)rows->chunk[c]);
    }
}

/* A block on the device. */
struct device_block {
    uint32_t *edge_offsets, *edge_sources, *back_offsets, *back_rows, *inverse;
    float *edge_weights, *back_weights;
    struct sl_weights weights;
};

/* The weights of a block on the device. */
static struct sl_weights weights_on_device(const struct group *group, uint32_t hop, uint32_t p)
{
    const struct group_block *block = &group->pe[p].block[hop];
    struct sl_weights copy = {.scale = (sl_real)SCALE};
    if (factors != NULL) {
        copy.factors = on_device(factors, 2 * (size_t)group->partition->graph.n_vertices * sizeof *factors);
        copy.destinations = on_device(group->pe[p].frontier, 4 * (size_t)group->pe[p].n_rows[hop]);
        copy.sources = on_device(sl_list_of(block->request, group->n_parts, 0), 4 * (size_t)block->n_sources);
    }
    return copy;
}

static const struct sl_weights *weights_if(const struct sl_weights *weights)
{
    return factors != NULL ? weights : NULL;
}

static struct sl_transposed transposed_on_device(const struct device_block *block)
{
    return (struct sl_transposed){.back_offsets = block->back_offsets,
                                  .back_rows = block->back_rows,
                                  .edge_offsets = block->edge_offsets,
                                  .weights = weights_if(&block->weights),
                                  .back_weights = block->back_weights};
}

static struct device_block block_on_device(const struct group *group, uint32_t hop, uint32_t p)
{
    const struct group_block *block = &group->pe[p].block[hop];
    struct device_block copy = {
        .edge_offsets = on_device(block->edge_offsets, 4 * ((size_t)group->pe[p].n_rows[hop] + 1)),
        .edge_sources = on_device(block->edge_sources, 4 * (size_t)block->n_edges),
        .back_offsets = on_device(block->back_offsets, 4 * ((size_t)block->n_sources + 1)),
        .back_rows = on_device(block->back_rows, 4 * (size_t)block->n_edges),
        .inverse = on_device(block->inverse, 4 * ((size_t)group->n_parts + 1 + block->inverse[group->n_parts])),
        .weights = weights_on_device(group, hop, p),
    };
    if (weighs_edges) {
        copy.edge_weights = on_device(block->edge_weights, 4 * (size_t)block->n_edges);
        copy.back_weights = on_device(block->back_weights, 4 * (size_t)block->n_edges);
    }
    return copy;
}

static void free_device_block(const struct device_block *block)
{
    cudaFree(block->edge_offsets);
    cudaFree(block->edge_sources);
    cudaFree(block->back_offsets);
    cudaFree(block->back_rows);
    cudaFree(block->inverse);
    cudaFree(block->edge_weights);
    cudaFree(block->back_weights);
    cudaFree((void *)block->weights.factors);
    cudaFree((void *)block->weights.destinations);
    cudaFree((void *)block->weights.sources);
}

enum forward_launcher { BY_KERNEL, BY_CUSPARSE };

/* Not a number, so that a product that reads what it is to overwrite is seen. */
static void spoil(struct rows *rows)
{
    for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
        memset(rows->base[c], 0xff, chunk_bytes(rows, c));
    }
}

/* One PE's chunks of m; `shifted`: they begin at addresses that are no multiples of 16. */
static void launch_means(enum forward_launcher launcher, const struct device_block *block,
                         const struct sl_device_sources *x, int beta, bool shifted, struct rows *m)
{
    cusparseHandle_t handle;
    assert_int_equal(cusparseCreate(&handle), CUSPARSE_STATUS_SUCCESS);
    for (uint32_t c = 0; c < m->split.n_chunks; c++) {
        sl_real *room = device_room(chunk_bytes(m, c) + sizeof *room);
        sl_real *out = room + shifted;
        sl_real *filled = on_device(m->base[c], chunk_bytes(m, c));
        struct sl_edges edges = {.row0 = c << m->split.shift,
                                 .n_rows = sl_split_size(&m->split, c),
                                 .offsets = block->edge_offsets,
                                 .sources = block->edge_sources,
                                 .weights = weights_if(&block->weights),
                                 .edge_weights = block->edge_weights};
        assert_int_equal(cudaMemcpy(out, filled, chunk_bytes(m, c), cudaMemcpyDeviceToDevice), cudaSuccess);
        cudaFree(filled);
        expect_launched(launcher == BY_KERNEL
                            ? sl_aggregate_forward_cuda(NULL, &edges, m->n_columns, x, beta, SL_DTYPE_REAL, out)
                            : sl_aggregate_forward_cusparse(NULL, handle, &edges, m->n_columns, x, beta, out));
        assert_int_equal(cudaMemcpy(m->base[c], out, chunk_bytes(m, c), cudaMemcpyDeviceToHost), cudaSuccess);
        cudaFree(room);
    }
    cusparseDestroy(handle);
}

static void launch_forward(enum forward_launcher launcher, const struct group *group, uint32_t hop,
                           const struct level *x, int beta, bool shifted, struct level *m)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *hosts = &group->pe[p].block[hop];
        struct device_block block = block_on_device(group, hop, p);
        struct sl_device_sources sources = {
            .n_owners = group->n_parts, .own = p, .inverse = block.inverse, .rows = rows_on_device(&x->pe[p])};
        for (uint32_t q = 0; q < group->n_parts; q++) {
            uint32_t n = sl_list_count(hosts->request, q);
            sources.first[q + 1] = hosts->request[q + 1];
            if (q != p && n > 0) {
                sl_real *packed = pack_for(group, hop, q, p, x);
                sources.packed[q] = on_device(packed, (size_t)n * x->pe[q].n_columns * sizeof *packed);
                free(packed);
            }
        }
        launch_means(launcher, &block, &sources, beta, shifted, &m->pe[p]);
        for (uint32_t q = 0; q < group->n_parts; q++) {
            cudaFree((void *)sources.packed[q]);
        }
        free_device_rows(&sources.rows);
        free_device_block(&block);
    }
}

/* What p sends back, by owner; NULL where own or empty. */
static void launch_back(const struct group *group, uint32_t hop, uint32_t p, const struct device_block *block,
                        const struct sl_device_rows *gm, uint32_t n_columns, sl_real *sent[MAX_PARTS])
{
    uint32_t n[MAX_PARTS];
    uint32_t t0[MAX_PARTS];
    sl_real *packed[MAX_PARTS];
    uint32_t n_owners = 0;
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const struct group_block *hosts = &group->pe[p].block[hop];
        sent[q] = NULL;
        if (q != p && sl_list_count(hosts->request, q) > 0) {
            n[n_owners] = sl_list_count(hosts->request, q);
            t0[n_owners] = hosts->request[q];
            sent[q] = device_room((size_t)n[n_owners] * n_columns * sizeof *sent[q]);
            packed[n_owners++] = sent[q];
        }
    }
    struct sl_transposed transposed = transposed_on_device(block);
    expect_launched(
        sl_aggregate_backward_cuda(NULL, &transposed, gm, n_columns, n_owners, t0, n, SL_DTYPE_REAL, packed));
}

/* q's chunk c of g: the shares of all PEs, sent[p] by PE p. */
static void launch_accumulate(const struct group *group, uint32_t hop, uint32_t q, const struct device_block *block,
                              const struct sl_device_rows *gm, sl_real *const *sent, uint32_t c, struct rows *g)
{
    const struct group_block *hosts = &group->pe[q].block[hop];
    struct sl_transposed transposed = transposed_on_device(block);
    struct sl_gradient out = chunk_of(g, c);
    int beta = factors != NULL;
    out.rows = device_room(chunk_bytes(g, c));
    expect_launched(sl_accumulate_clear_cuda(NULL, out.n_rows, g->n_columns, out.rows));
    if (factors != NULL) {
        expect_launched(sl_accumulate_self_cuda(NULL, &block->weights, group->pe[q].n_rows[hop], gm, &out));
    }
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct sl_asked asked = {block->inverse, group->n_parts, p};
        uint32_t n = sl_list_count(hosts->inverse, p);
        if (p == q) {
            expect_launched(sl_accumulate_own_cuda(NULL, &transposed, hosts->request[q], n, &asked, gm, beta, &out));
        } else if (sent[p] != NULL) {
            expect_launched(sl_accumulate_sent_cuda(NULL, n, &asked, SL_DTYPE_REAL, sent[p], beta, &out));
        }
        beta = beta || p == q || sent[p] != NULL;
    }
    from_device(g->base[c], out.rows, chunk_bytes(g, c));
}

static void launch_backward(const struct group *group, uint32_t hop, const struct level *gm, struct level *g)
{
    struct device_block block[MAX_PARTS];
    struct sl_device_rows rows[MAX_PARTS];
    sl_real *sent[MAX_PARTS][MAX_PARTS]; /* by owner, requester */
    for (uint32_t p = 0; p < group->n_parts; p++) {
        sl_real *of[MAX_PARTS];
        block[p] = block_on_device(group, hop, p);
        rows[p] = rows_on_device(&gm->pe[p]);
        launch_back(group, hop, p, &block[p], &rows[p], gm->pe[p].n_columns, of);
        for (uint32_t q = 0; q < group->n_parts; q++) {
            sent[q][p] = of[q];
        }
    }
    for (uint32_t q = 0; q < group->n_parts; q++) {
        for (uint32_t c = 0; c < g->pe[q].split.n_chunks; c++) {
            launch_accumulate(group, hop, q, &block[q], &rows[q], sent[q], c, &g->pe[q]);
        }
    }
    for (uint32_t q = 0; q < group->n_parts; q++) {
        for (uint32_t p = 0; p < group->n_parts; p++) {
            cudaFree(sent[q][p]);
        }
        free_device_rows(&rows[q]);
        free_device_block(&block[q]);
    }
}

/* What lists that are added in slices may differ by: partial sums by weights reach about 1. */
static double sliced(void)
{
    return largest_weight() * (factors == NULL ? 16 * EPSILON : rounding(40, 1));
}

/* The forward launchers against the kernel, onto nothing and onto what is there. exact: no list is so long that it
 * is added in slices, and bits agree. */
static void check_forward_launchers(const struct group *group, uint32_t hop, uint32_t n_columns, uint32_t shift_in,
                                    uint32_t shift_out, bool shifted, bool exact)
{
    struct level x = make_level(group, hop + 1, n_columns, shift_in);
    struct level m[3];
    fill_level(group, SEED, &x);
    for (int i = 0; i < 3; i++) {
        m[i] = make_level(group, hop, n_columns, shift_out);
        for (uint32_t p = 0; p < group->n_parts; p++) {
            spoil(&m[i].pe[p]);
        }
    }
    for (int beta = 0; beta < 2; beta++) {
        forward(group, hop, &x, beta, &m[0]);
        launch_forward(BY_KERNEL, group, hop, &x, beta, shifted, &m[1]);
        expect_near_levels("mean", group, &m[1], &m[0], exact ? 0 : sliced());
        if (factors == NULL && !weighs_edges) {
            launch_forward(BY_CUSPARSE, group, hop, &x, beta, shifted, &m[2]);
            expect_near_levels("mean by cuSPARSE", group, &m[2], &m[0], 16 * EPSILON);
        }
    }
    for (int i = 0; i < 3; i++) {
        free_level(group, &m[i]);
    }
    free_level(group, &x);
}

/* The same for the way back. */
static void check_backward_launchers(const struct group *group, uint32_t hop, uint32_t n_columns, uint32_t shift_in,
                                     uint32_t shift_out, bool exact)
{
    struct level gm = make_level(group, hop, n_columns, shift_out);
    struct level g[2];
    fill_level(group, SEED, &gm);
    for (int i = 0; i < 2; i++) {
        g[i] = make_level(group, hop + 1, n_columns, shift_in);
    }
    backward(group, hop, &gm, &g[0]);
    launch_backward(group, hop, &gm, &g[1]);
    expect_near_levels("adjoint", group, &g[1], &g[0], exact ? 0 : largest_weight() * rounding(600, 1));
    for (int i = 0; i < 2; i++) {
        free_level(group, &g[i]);
    }
    free_level(group, &gm);
}

static void test_launchers(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 33, 40, 132};
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 60, .hub_degree = 40, .self_loops = true, .weighted = true};
    struct sl_dataset dataset;
    need_device();
    make_dataset(&shape, &dataset);
    for (uint32_t parts = 1; parts <= 7; parts += 3) {
        struct sl_partition partition;
        struct group group;
        make_group(&dataset, SPLIT_UNEVEN, parts, 9, &partition, &group); /* at 7 there are PEs without rows */
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            bool other = (parts + w) % 2;
            uint32_t hop = (parts + w) / 2 % 2;
            for (int weighing = N_WEIGHINGS - 1; weighing >= MEAN; weighing--) {
                weigh(&partition.graph, weighing);
                check_forward_launchers(&group, hop, widths[w], other ? 31 : 4, other ? 31 : 3, !other, true);
                check_backward_launchers(&group, hop, widths[w], other ? 31 : 4, other ? 31 : 3, true);
            }
        }
        group_free(&group);
        sl_partition_free(&partition);
    }
    sl_dataset_free(&dataset);
}

/* Lists that a block adds, and short ones beside them: the hub, whose neighbours most of the other destinations
 * are, so that as a source it has many. */
static void check_hub(uint32_t hub_degree, uint32_t parts, uint32_t n_columns, uint32_t shift_in, bool and_back)
{
    enum { SEEDS = 400 };
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = hub_degree + 100,
                                .hub_degree = hub_degree,
                                .self_loops = true,
                                .weighted = true};
    sl_vertex seeds[SEEDS] = {shape.n_vertices / 2};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, parts, &partition);
    for (sl_vertex i = 1; i < SEEDS; i++) {
        seeds[i] = shape.n_vertices / 2 + i;
    }
    group_sample(&partition, 1, &full, SEED, 0, SEEDS, seeds, &group);
    for (int weighing = N_WEIGHINGS - 1; weighing >= MEAN; weighing--) {
        weigh(&partition.graph, weighing);
        check_forward_launchers(&group, 0, n_columns, shift_in, 8, false, false);
        if (and_back) {
            check_backward_launchers(&group, 0, n_columns, shift_in, 8, false);
        }
    }
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

static void test_launchers_many_neighbours(void **state)
{
    (void)state;
    need_device();
    check_hub(13000, 1, 40, 31, false);
    check_hub(1500, 2, 132, 9, true);
    check_hub(1500, 3, 3, 10, true);
}

/* As many owners as there may be, each with two sources, and the block transposed for all of them but one. */
static void test_launchers_many_owners(void **state)
{
    (void)state;
    enum { OWNERS = SL_MAX_GROUP, SOURCES = 2 * OWNERS, ROWS = 5, DEGREE = 80, EDGES = ROWS * DEGREE, WIDTH = 12 };
    uint32_t offsets[ROWS + 1];
    uint32_t edge_sources[EDGES];
    uint32_t back_offsets[SOURCES + 1] = {0};
    uint32_t back_rows[EDGES];
    uint32_t first[OWNERS + 1];
    uint32_t inverse[OWNERS + 1 + 5] = {0}; /* of the own requests: three entries of others, then rows 1 and 0 */
    sl_real *data = noisy(SOURCES * WIDTH, SEED);
    sl_real *gm = noisy(ROWS * WIDTH, SEED + 1);
    const sl_real *base[OWNERS];
    struct sl_view view[OWNERS];
    struct sl_sources sources = {OWNERS, first, view, NULL};
    struct sl_device_sources x = {.n_owners = OWNERS, .own = 200};
    uint32_t n[OWNERS];
    uint32_t t0[OWNERS];
    sl_real *sent[OWNERS];
    sl_real m[2][ROWS * WIDTH];
    need_device();
    for (uint32_t e = 0, t = 0; t < SOURCES;
         t++) { /* source t goes to the rows d with (t + d) % 7 == 0, up to DEGREE each */
        back_offsets[t] = e;
        for (uint32_t d = 0; d < ROWS && e < EDGES; d++) {
            if ((t + d) % 7 == 0) {
                back_rows[e++] = d;
            }
        }
        back_offsets[t + 1] = e;
    }
    for (uint32_t q = 1; q <= OWNERS; q++) {
        inverse[q] = q <= x.own ? 3 : 5;
    }
    memcpy(inverse + OWNERS + 1, (uint32_t[]){9, 9, 9, 1, 0}, 5 * sizeof *inverse);
    uint32_t n_edges = 0;
    for (uint32_t d = 0; d < ROWS; d++) {
        offsets[d] = n_edges;
        for (uint32_t t = 0; t < SOURCES; t++) {
            for (uint32_t e = back_offsets[t]; e < back_offsets[t + 1]; e++) {
                if (back_rows[e] == d) {
                    edge_sources[n_edges++] = t;
                }
            }
        }
    }
    offsets[ROWS] = n_edges;
    assert_int_equal(n_edges, back_offsets[SOURCES]);
    assert_true(n_edges > 300);
    for (uint32_t q = 0; q < OWNERS; q++) {
        first[q] = x.first[q] = 2 * q;
        base[q] = data + 2 * q * WIDTH;
        view[q] = (struct sl_view){&base[q], 31, q == x.own ? sl_list_of(inverse, OWNERS, q) : NULL};
        x.packed[q] = on_device(base[q], 2 * WIDTH * sizeof *data);
        t0[q] = 2 * q;
        n[q] = 2;
        sent[q] = device_room(2 * WIDTH * sizeof *data);
    }
    first[OWNERS] = x.first[OWNERS] = SOURCES;
    x.rows = (struct sl_device_rows){.n_chunks = 1, .shift = 31, .chunk = {x.packed[x.own]}};
    x.inverse = on_device(inverse, sizeof inverse);
    struct device_block block = {.edge_offsets = on_device(offsets, sizeof offsets),
                                 .edge_sources = on_device(edge_sources, sizeof edge_sources),
                                 .back_offsets = on_device(back_offsets, sizeof back_offsets),
                                 .back_rows = on_device(back_rows, sizeof back_rows),
                                 .inverse = (uint32_t *)x.inverse};
    struct sl_edges edges = {.n_rows = ROWS, .offsets = offsets, .sources = edge_sources};
    struct sl_edges edges_device = {.n_rows = ROWS, .offsets = block.edge_offsets, .sources = block.edge_sources};
    struct sl_transposed transposed = {.back_offsets = back_offsets, .back_rows = back_rows, .edge_offsets = offsets};
    struct sl_transposed transposed_device = transposed_on_device(&block);
    sl_real *m_device = device_room(sizeof m[1]);
    sl_aggregate_forward_cpu(SL_DTYPE_REAL, &edges, WIDTH, &sources, 0, m[0]);
    expect_launched(sl_aggregate_forward_cuda(NULL, &edges_device, WIDTH, &x, 0, SL_DTYPE_REAL, m_device));
    from_device(m[1], m_device, sizeof m[1]);
    expect_same("mean", ROWS * WIDTH, sizeof(sl_real), m[1], m[0]);
    struct sl_device_rows gm_device = {.n_chunks = 1, .shift = 31, .chunk = {on_device(gm, ROWS * WIDTH * sizeof *gm)}};
    const sl_real *gm_base = gm;
    struct sl_view gm_view = {&gm_base, 31, NULL};
    expect_launched(
        sl_aggregate_backward_cuda(NULL, &transposed_device, &gm_device, WIDTH, OWNERS, t0, n, SL_DTYPE_REAL, sent));
    for (uint32_t q = 0; q < OWNERS; q++) {
        sl_real wanted[2 * WIDTH];
        sl_real got[2 * WIDTH];
        sl_aggregate_backward_cpu(&transposed, t0[q], 2, WIDTH, &gm_view, wanted);
        from_device(got, sent[q], sizeof got);
        expect_same("sent", 2 * WIDTH, sizeof(sl_real), got, wanted);
        cudaFree((void *)x.packed[q]);
    }
    free_device_rows(&gm_device);
    free_device_block(&block);
    free(data);
    free(gm);
}

/* Launchers over nothing: no rows, no columns' worth of sources, rows without edges. */
static void test_launchers_empty(void **state)
{
    (void)state;
    const uint32_t offsets[] = {0, 0, 0, 0};
    const struct sl_device_sources none = {.n_owners = 1};
    const struct sl_device_rows no_rows = {.shift = 31};
    cusparseHandle_t handle;
    sl_real m[15];
    need_device();
    assert_int_equal(cusparseCreate(&handle), CUSPARSE_STATUS_SUCCESS);
    uint32_t *zeros = on_device(offsets, sizeof offsets);
    for (int i = 0; i < 15; i++) {
        m[i] = POISON;
    }
    sl_real *out = on_device(m, sizeof m);
    struct sl_edges nothing = {.offsets = zeros, .sources = zeros};
    struct sl_edges no_edges = {.n_rows = 3, .offsets = zeros, .sources = zeros};
    struct sl_transposed block = {.back_offsets = zeros, .back_rows = zeros, .edge_offsets = zeros};
    struct sl_asked asked = {zeros, 1, 0};
    struct sl_gradient g = {.n_rows = 3, .n_columns = 5, .rows = out};
    struct sl_weights weights = {.factors = out, .destinations = zeros, .sources = zeros};
    expect_launched(sl_aggregate_forward_cuda(NULL, &nothing, 5, &none, 0, SL_DTYPE_REAL, out));
    expect_launched(sl_aggregate_forward_cuda(NULL, &no_edges, 5, &none, 1, SL_DTYPE_REAL, out));
    expect_launched(sl_aggregate_forward_cusparse(NULL, handle, &no_edges, 5, &none, 1, out));
    expect_launched(sl_aggregate_backward_cuda(NULL, &block, &no_rows, 5, 0, NULL, NULL, SL_DTYPE_REAL, NULL));
    expect_launched(sl_accumulate_self_cuda(NULL, &weights, 0, &no_rows, &g));
    expect_launched(sl_accumulate_sent_cuda(NULL, 0, &asked, SL_DTYPE_REAL, out, 1, &g));
    expect_launched(sl_accumulate_own_cuda(NULL, &block, 0, 0, &asked, &no_rows, 1, &g));
    from_device(m, out, sizeof m);
    for (int i = 0; i < 15; i++) {
        assert_true(m[i] == POISON);
    }
    for (int launcher = BY_KERNEL; launcher <= BY_CUSPARSE; launcher++) {
        out = device_room(sizeof m);
        expect_launched(launcher == BY_KERNEL
                            ? sl_aggregate_forward_cuda(NULL, &no_edges, 5, &none, 0, SL_DTYPE_REAL, out)
                            : sl_aggregate_forward_cusparse(NULL, handle, &no_edges, 5, &none, 0, out));
        from_device(m, out, sizeof m);
        for (int i = 0; i < 15; i++) {
            assert_true(m[i] == 0);
        }
    }
    cusparseDestroy(handle);
    cudaFree(zeros);
}

/* Evaluation with more chunks than one launch has parameters for, and offsets beyond 2^32; at once, and the first
 * columns before the others, which is to give the same bits. */
static void check_launcher_full(enum weighing weighing, uint32_t width, uint32_t n_first)
{
    enum { PARTS = 7, N = 300 };
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = N,
                                .hub_degree = 280,
                                .self_loops = true,
                                .directed = true,
                                .weighted = true};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    struct sl_device_rows rows[PARTS];
    struct sl_device_rows columns[2][PARTS];
    struct sl_device_part parts[2][PARTS];
    sl_vertex everyone[N];
    uint32_t n_chunks = 0;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, PARTS, &partition);
    weigh(&partition.graph, weighing);
    for (sl_vertex v = 0; v < N; v++) {
        everyone[v] = partition.dataset_ids[v]; /* frontiers in order of new ids: row i is id first + i */
    }
    group_sample(&partition, 1, &full, SEED, 0, N, everyone, &group);
    struct level x = make_level(&group, 0, width, 0);
    struct level m[3] = {make_level(&group, 0, width, 3), make_level(&group, 0, width, 3),
                         make_level(&group, 0, width, 3)};
    fill_level(&group, SEED, &x);
    forward(&group, 0, &x, 0, &m[0]);
    sl_vertex *first = on_device(partition.first, (PARTS + 1) * sizeof *first);
    sl_real *factors_device = on_device(factors, factors == NULL ? 0 : 2 * N * sizeof *factors);
    for (uint32_t p = 0; p < PARTS; p++) {
        rows[p] = rows_on_device(&x.pe[p]);
        n_chunks += rows[p].n_chunks;
        for (int half = 0; half < 2; half++) {
            columns[half][p] = rows[p];
            for (uint32_t c = 0; c < rows[p].n_chunks; c++) {
                columns[half][p].chunk[c] += half * n_first;
            }
            parts[half][p] = (struct sl_device_part){rows[p].n_chunks, rows[p].shift, width, columns[half][p].chunk};
        }
    }
    assert_true(n_chunks > 256);
    for (uint32_t p = 0; p < PARTS; p++) {
        struct sl_sample_part part = part_of(&partition, p);
        uint32_t n_part = group.pe[p].n_part;
        uint64_t *far = need(n_part + 1, sizeof *far);
        for (uint32_t i = 0; i <= n_part; i++) {
            far[i] = part.offsets[i] + (UINT64_C(5) << 32);
        }
        uint64_t *offsets = on_device(far, (n_part + 1) * sizeof *far);
        sl_vertex *sources = on_device(part.sources, (part.offsets[n_part] - part.offsets[0]) * sizeof *sources);
        float *edge_weights = NULL;
        if (weighs_edges) {
            edge_weights = on_device(part.weights, (part.offsets[n_part] - part.offsets[0]) * sizeof *edge_weights);
        }
        struct sl_weights weights = {.factors = factors_device, .first = partition.first[p], .scale = (sl_real)SCALE};
        for (uint32_t c = 0; c < m[1].pe[p].split.n_chunks; c++) {
            struct rows *out = &m[1].pe[p];
            sl_real *room = device_room(chunk_bytes(out, c));
            struct sl_full_edges edges = {.row0 = c << 3,
                                          .n_rows = sl_split_size(&out->split, c),
                                          .offsets = offsets,
                                          .sources = sources,
                                          .n_parts = PARTS,
                                          .first = first,
                                          .weights = weights_if(&weights),
                                          .edge_weights = edge_weights};
            expect_launched(
                sl_aggregate_full_cuda(NULL, &edges, width, SL_DTYPE_REAL, parts[0], 0, width, SL_DTYPE_REAL, room));
            from_device(out->base[c], room, chunk_bytes(out, c));
            room = device_room(chunk_bytes(out, c));
            expect_launched(
                sl_aggregate_full_cuda(NULL, &edges, n_first, SL_DTYPE_REAL, parts[0], 0, width, SL_DTYPE_REAL, room));
            expect_launched(sl_aggregate_full_cuda(NULL, &edges, width - n_first, SL_DTYPE_REAL, parts[1], 0, width,
                                                   SL_DTYPE_REAL, room + n_first));
            from_device(m[2].pe[p].base[c], room, chunk_bytes(out, c));
        }
        cudaFree(offsets);
        cudaFree(sources);
        cudaFree(edge_weights);
        free(far);
    }
    expect_near_levels("mean of all", &group, &m[1], &m[0], sliced());
    expect_same_levels("the same in two parts", &group, &m[2], &m[1]);
    cudaFree(first);
    cudaFree(factors_device);
    for (uint32_t p = 0; p < PARTS; p++) {
        free_device_rows(&rows[p]);
    }
    free_level(&group, &x);
    free_level(&group, &m[0]);
    free_level(&group, &m[1]);
    free_level(&group, &m[2]);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

static void test_launcher_full(void **state)
{
    (void)state;
    need_device();
    check_launcher_full(SYMMETRIC, 12, 4);
    check_launcher_full(MEAN, 12, 6);
    check_launcher_full(SYMMETRIC, 70, 35);
    check_launcher_full(MEAN, 128, 64);
    check_launcher_full(SYMMETRIC_OF_EDGES, 12, 4);
    check_launcher_full(MEAN_OF_EDGES, 70, 35);
}

#endif

/* ---- submissions ---- */

static starpu_data_handle_t wrap(starpu_data_handle_t handle, unsigned *n, starpu_data_handle_t *all)
{
    assert_true(*n < 1024);
    return all[(*n)++] = handle;
}

/* A group's hop as handles; everything that was registered is in all[]. */
struct handles {
    struct group_handles {
        starpu_data_handle_t edge_offsets, edge_sources, back_offsets, back_rows;
        starpu_data_handle_t edge_weights, back_weights; /* NULL: none */
        starpu_data_handle_t inverse;
        struct sl_slice packed[MAX_PARTS]; /* of one matrix; none where own or empty */
        const uint32_t *first;
        struct sl_vertex_factors by;
        const struct sl_vertex_factors *weights; /* these, or NULL */
    } pe[MAX_PARTS];
    starpu_data_handle_t chunk[4][MAX_PARTS][MAX_CHUNKS];
    sl_real *memory[MAX_PARTS * MAX_PARTS];
    unsigned n_memory;
    unsigned n;
    starpu_data_handle_t all[1024];
};

static starpu_data_handle_t wrap_vector(struct handles *h, const void *data, uint32_t n)
{
    return wrap(vector_of(data, n > 0 ? n : 1, 4), &h->n, h->all);
}

/* The chunks of one PE's rows; slot: which of the four sets. */
static struct sl_rows wrap_rows(struct handles *h, uint32_t slot, uint32_t p, const struct rows *rows)
{
    for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
        h->chunk[slot][p][c] =
            wrap(rows_of(rows->base[c], sl_split_size(&rows->split, c), rows->n_columns), &h->n, h->all);
    }
    return (struct sl_rows){.split = rows->split, .n_columns = rows->n_columns, .chunk = h->chunk[slot][p]};
}

/* The factors, all PEs'. */
static starpu_data_handle_t wrap_factors(struct handles *h, const struct group *group)
{
    return factors == NULL ? NULL : wrap(rows_of(factors, group->partition->graph.n_vertices, 2), &h->n, h->all);
}

static struct handles *wrap_group(const struct group *group, uint32_t hop)
{
    struct handles *h = need(1, sizeof *h);
    starpu_data_handle_t factors_handle = wrap_factors(h, group);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        struct group_handles *pe = &h->pe[p];
        pe->edge_offsets = wrap_vector(h, block->edge_offsets, group->pe[p].n_rows[hop] + 1);
        pe->edge_sources = wrap_vector(h, block->edge_sources, block->n_edges);
        pe->back_offsets = wrap_vector(h, block->back_offsets, block->n_sources + 1);
        pe->back_rows = wrap_vector(h, block->back_rows, block->n_edges);
        pe->inverse = wrap_vector(h, block->inverse, group->n_parts + 1 + block->inverse[group->n_parts]);
        if (weighs_edges) {
            pe->edge_weights = wrap_vector(h, block->edge_weights, block->n_edges);
            pe->back_weights = wrap_vector(h, block->back_weights, block->n_edges);
        }
        pe->first = block->request;
        pe->by =
            (struct sl_vertex_factors){.factors = factors_handle,
                                       .frontier = wrap_vector(h, group->pe[p].frontier, group->pe[p].n_rows[hop]),
                                       .request = wrap_vector(h, block->request, group->n_parts + 1 + block->n_sources),
                                       .scale = SCALE};
        pe->weights = factors == NULL ? NULL : &pe->by;
    }
    return h;
}

/* A matrix between p and all owners, rows as p asks of each, side by side. */
static void wrap_packed(struct handles *h, const struct group *group, uint32_t hop, uint32_t p, uint32_t n_columns)
{
    const uint32_t *request = group->pe[p].block[hop].request;
    uint32_t n = request[group->n_parts] - sl_list_count(request, p);
    uint32_t row = 0;
    if (n == 0) {
        return;
    }
    sl_real *data = h->memory[h->n_memory++] = poisoned((size_t)n * n_columns);
    starpu_data_handle_t all = wrap(rows_of(data, n, n_columns), &h->n, h->all);
    for (uint32_t q = 0; q < group->n_parts; q++) {
        uint32_t n_rows = p == q ? 0 : sl_list_count(request, q);
        h->pe[p].packed[q] = (struct sl_slice){n_rows == 0 ? NULL : all, row, n_rows};
        row += n_rows;
    }
}

static void unwrap(struct handles *h)
{
    unregister(h->n, h->all);
    while (h->n_memory > 0) {
        free(h->memory[--h->n_memory]);
    }
    free(h);
}

static void submit_forward(const struct group *group, uint32_t hop, const struct level *x, int beta, struct level *m)
{
    struct handles *h = wrap_group(group, hop);
    struct sl_rows rows[MAX_PARTS];
    for (uint32_t p = 0; p < group->n_parts; p++) {
        rows[p] = wrap_rows(h, 0, p, &x->pe[p]);
    }
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct group_handles *pe = &h->pe[p];
        struct sl_source_handles sources = {group->n_parts, p,          pe->first,   &rows[p],
                                            pe->inverse,    pe->packed, pe->weights, pe->edge_weights};
        struct sl_rows out = wrap_rows(h, 1, p, &m->pe[p]);
        wrap_packed(h, group, hop, p, out.n_columns);
        for (uint32_t q = 0; q < group->n_parts; q++) {
            if (pe->packed[q].n_rows > 0) {
                expect_ok(sl_pack_submit(&head, &rows[q], group->n_parts, h->pe[q].inverse, 1, &p, &pe->packed[q]));
            }
        }
        for (uint32_t c = 0; c < out.split.n_chunks; c++) {
            expect_ok(sl_aggregate_forward_submit(&head, pe->edge_offsets, pe->edge_sources, c << out.split.shift, 100,
                                                  &sources, beta, out.chunk[c]));
        }
    }
    unwrap(h);
}

static void submit_backward(const struct group *group, uint32_t hop, const struct level *gm, struct level *g)
{
    struct handles *h = wrap_group(group, hop);
    struct sl_rows rows[MAX_PARTS];
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct group_handles *pe = &h->pe[p];
        uint32_t t0[MAX_PARTS];
        struct sl_slice packed[MAX_PARTS];
        uint32_t n = 0;
        rows[p] = wrap_rows(h, 2, p, &gm->pe[p]);
        wrap_packed(h, group, hop, p, rows[p].n_columns);
        for (uint32_t q = 0; q < group->n_parts; q++) {
            if (pe->packed[q].n_rows > 0) {
                t0[n] = pe->first[q];
                packed[n++] = pe->packed[q];
            }
        }
        if (n > 0) {
            struct sl_returned returned = {.edge_offsets = pe->edge_offsets,
                                           .back_offsets = pe->back_offsets,
                                           .back_rows = pe->back_rows,
                                           .gm = &rows[p],
                                           .n_edges = 100,
                                           .n_parts = group->n_parts,
                                           .weights = pe->weights,
                                           .back_weights = pe->back_weights};
            expect_ok(sl_aggregate_backward_submit(&head, &returned, n, t0, packed));
        }
    }
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const struct group_handles *pe = &h->pe[q];
        struct sl_slice sent[MAX_PARTS];
        for (uint32_t p = 0; p < group->n_parts; p++) {
            sent[p] = h->pe[p].packed[q];
        }
        struct sl_accumulate shares = {.edge_offsets = pe->edge_offsets,
                                       .back_offsets = pe->back_offsets,
                                       .back_rows = pe->back_rows,
                                       .from.t0 = pe->first[q],
                                       .from.n_own = pe->first[q + 1] - pe->first[q],
                                       .gm = &rows[q],
                                       .from.n_peers = group->n_parts,
                                       .from.own = q,
                                       .inverse = pe->inverse,
                                       .from.sent = sent,
                                       .weights = pe->weights,
                                       .back_weights = pe->back_weights};
        struct sl_rows out = wrap_rows(h, 3, q, &g->pe[q]);
        for (uint32_t c = 0; c < out.split.n_chunks; c++) {
            expect_ok(sl_accumulate_submit(&head, &shares, c << out.split.shift, out.chunk[c]));
        }
    }
    unwrap(h);
}

static void compare_submissions(const struct group *group, uint32_t hop, uint32_t shift_in, uint32_t shift_out)
{
    struct level x = make_level(group, hop + 1, 6, shift_in);
    struct level g[2];
    struct level m[2];
    fill_level(group, SEED, &x);
    for (int i = 0; i < 2; i++) {
        g[i] = make_level(group, hop + 1, 6, shift_in);
        m[i] = make_level(group, hop, 6, shift_out);
    }
    forward(group, hop, &x, 0, &m[0]);
    submit_forward(group, hop, &x, 0, &m[1]);
    expect_no_failure();
    expect_same_levels("mean", group, &m[1], &m[0]);
    forward(group, hop, &x, 1, &m[0]);
    submit_forward(group, hop, &x, 1, &m[1]);
    expect_same_levels("mean added", group, &m[1], &m[0]);
    backward(group, hop, &m[0], &g[0]);
    submit_backward(group, hop, &m[0], &g[1]);
    expect_no_failure();
    expect_same_levels("adjoint", group, &g[1], &g[0]);
    submit_forward(group, hop, &x, 0, &m[1]);
    double scale = sqrt(inner_levels(group, &m[0], &m[0]) * inner_levels(group, &m[1], &m[1])) + 1;
    expect_near("<A x, y> = <x, A' y>", inner_levels(group, &m[1], &m[0]), inner_levels(group, &x, &g[1]),
                8 * EPSILON * scale * largest_weight());
    free_level(group, &x);
    for (int i = 0; i < 2; i++) {
        free_level(group, &g[i]);
        free_level(group, &m[i]);
    }
}

static void check_submissions(const struct group *group, uint32_t hop, uint32_t shift_in, uint32_t shift_out)
{
    for (int weighing = N_WEIGHINGS - 1; weighing >= MEAN; weighing--) {
        weigh(&group->partition->graph, weighing);
        compare_submissions(group, hop, shift_in, shift_out);
    }
}

static void test_submissions(void **state)
{
    (void)state;
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .self_loops = true, .weighted = true};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct sl_dataset dataset;
        struct sl_partition partition;
        struct group group;
        make_dataset(&shape, &dataset);
        fixture_start(worker_counts[w]);
        make_group(&dataset, SPLIT_METIS, 4, 40, &partition, &group);
        check_submissions(&group, 0, 31, 31);
        check_submissions(&group, 1, 4, 3);
        group_free(&group);
        sl_partition_free(&partition);
        make_group(&dataset, SPLIT_UNEVEN, 7, 3, &partition, &group); /* PEs without rows */
        check_submissions(&group, 0, 2, 1);
        check_submissions(&group, 1, 4, 31);
        group_free(&group);
        sl_partition_free(&partition);
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

#ifdef SL_TESTS_CUSPARSE_H
/* Means of one block, again and again, said to be of several sizes, so that a scheduler with models learns what
 * each implementation costs. n_edges: what the handle of edges has room for; gpu_bytes: what is said of the GPU.
 * Returns how many were by cuSPARSE. */
static unsigned products_of(uint32_t n_edges, uint64_t gpu_bytes, bool wanted_at_all, bool weighted)
{
    enum { RUNS = 60 };
    uint32_t offsets[] = {0, 2, 2, 5};
    uint32_t inverse[] = {0, 4, 3, 2, 1, 0};
    uint32_t first[] = {0, 4};
    sl_real rows[] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint32_t request[] = {0, 4, 10, 11, 12, 13};
    uint32_t frontier[] = {0, 1, 2};
    sl_real ones[14 * 2] = {1, 2,        1,        0,        1,
                            3, [20] = 1, [22] = 1, [24] = 1, [26] = 1}; /* list is the degree: every weight is 1 */
    const sl_real wanted[] = {4, 5, 0, 0, 3, 4};
    const sl_real wanted_weighted[] = {9, 12, 3, 4, 14, 18}; /* these sums, and the own rows */
    const struct sl_slice none = {0};
    unsigned before = sl_emulated_products;
    size_t bytes = 4 * (size_t)n_edges; /* the handle's, most of them never touched */
    uint32_t *edge_sources =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(edge_sources != MAP_FAILED);
    memcpy(edge_sources, (uint32_t[]){3, 0, 1, 2, 3}, 5 * sizeof *edge_sources);
    fixture_start(1);
    run.fastest_means = wanted_at_all;
    run.gpu_bytes = gpu_bytes;
    for (int i = 0; i < RUNS; i++) {
        sl_real m[6];
        starpu_data_handle_t h[] = {vector_of(offsets, 4, 4),  vector_of(edge_sources, n_edges, 4),
                                    vector_of(inverse, 6, 4),  rows_of(rows, 4, 2),
                                    rows_of(m, 3, 2),          vector_of(request, 6, 4),
                                    vector_of(frontier, 3, 4), rows_of(ones, 14, 2)};
        struct sl_rows x = {.split = sl_split_rows(4, 1, 2), .n_columns = 2, .chunk = &h[3]};
        struct sl_vertex_factors weights = {.factors = h[7], .frontier = h[6], .request = h[5], .scale = 1};
        struct sl_source_handles sources = {1, 0, first, &x, h[2], &none, weighted ? &weights : NULL, NULL};
        expect_ok(sl_aggregate_forward_submit(&head, h[0], h[1], 0, UINT64_C(10) << i % 8, &sources, 0, h[4]));
        UNREGISTER(h);
        for (int j = 0; j < 6; j++) {
            double right = (double)(weighted ? wanted_weighted[j] : wanted[j]);
            expect_near_at("mean", (size_t)j, (double)m[j], right, 8 * EPSILON * (1 + right));
        }
    }
    expect_no_failure();
    fixture_stop();
    munmap(edge_sources, bytes);
    return sl_emulated_products - before;
}

/* Both implementations run as tasks where that is wanted, and cuSPARSE is not asked for other weights, for what it
 * cannot count, nor where its copy of the rows, 32 bytes here, is more than a 64th of the GPU. */
static void test_second_implementation(void **state)
{
    (void)state;
    setenv("STARPU_SCHED", "dmda", 1);
    setenv("STARPU_CALIBRATE", "2", 1);
    unsigned some = products_of(5, 32 * 64, true, false);
    unsigned none = products_of(5, UINT64_C(1) << 36, false, false) +
                    products_of(UINT32_C(1) << 31, UINT64_C(1) << 36, true, false) +
                    products_of(5, 32 * 64 - 1, true, false) + products_of(5, 32 * 64, true, true);
    unsetenv("STARPU_SCHED");
    setenv("STARPU_CALIBRATE", "0", 1);
    assert_true(some > 0);
    assert_int_equal(none, 0);
}
#endif

/* Columns first .. first + n - 1 of rows that have them alone, as they come from another rank, and what is no
 * number behind them. */
static struct level columns_of(const struct group *group, const struct level *x, uint32_t first, uint32_t n,
                               uint32_t width)
{
    struct level some = make_level(group, 0, width, x->pe[0].split.shift);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < x->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < width; j++) {
                *entry(&some.pe[p], r, j) = j < n ? *entry(&x->pe[p], r, first + j) : (sl_real)NAN;
            }
        }
    }
    return some;
}

/* Evaluation: the sums over all in-neighbours of whole parts are those of blocks that hold all edges. at_once:
 * columns, of which every second part's rows have no others. */
static void compare_full(enum weighing weighing, const struct sl_dataset *dataset, int split, uint32_t n_parts,
                         uint32_t shift, int beta, uint32_t at_once)
{
    enum { WIDTH = 5 };
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    struct handles *h = need(1, sizeof *h);
    struct sl_partition partition;
    struct sl_rows rows[MAX_PARTS];
    struct group group;
    uint32_t n = dataset->graph.n_vertices;
    sl_vertex *everyone = need(n, sizeof *everyone);
    make_split_of(dataset, split, n_parts, &partition);
    for (sl_vertex v = 0; v < n; v++) {
        everyone[v] = partition.dataset_ids[v]; /* frontiers in order of new ids: row i is id first + i */
    }
    group_sample(&partition, 1, &full, SEED, 0, n, everyone, &group);
    weigh(&partition.graph, weighing);
    struct level x = make_level(&group, 0, WIDTH, shift);
    struct level some[WIDTH];
    struct level m[2];
    starpu_data_handle_t first = wrap_vector(h, partition.first, n_parts + 1);
    struct sl_vertex_factors weights = {.factors = wrap_factors(h, &group), .scale = SCALE};
    fill_level(&group, SEED, &x);
    for (int i = 0; i < 2; i++) {
        m[i] = make_level(&group, 0, WIDTH, shift);
        fill_level(&group, SEED + 1, &m[i]);
    }
    for (uint32_t j = 0; j < WIDTH; j += at_once) {
        some[j] = columns_of(&group, &x, j, WIDTH - j < at_once ? WIDTH - j : at_once, at_once);
    }
    for (uint32_t p = 0; p < n_parts; p++) {
        struct sl_sample_part part = part_of(&partition, p);
        uint32_t n_part = group.pe[p].n_part;
        starpu_data_handle_t offsets = wrap(vector_of(part.offsets, n_part + 1, 8), &h->n, h->all);
        starpu_data_handle_t sources = wrap_vector(h, part.sources, (uint32_t)(part.offsets[n_part] - part.offsets[0]));
        starpu_data_handle_t edge_weights = NULL;
        if (weighs_edges) {
            edge_weights = wrap_vector(h, part.weights, (uint32_t)(part.offsets[n_part] - part.offsets[0]));
        }
        struct sl_rows out = wrap_rows(h, 1, p, &m[1].pe[p]);
        for (uint32_t j = 0; j < WIDTH; j += at_once) {
            uint32_t at[MAX_PARTS];
            struct sl_full_columns columns = {j, WIDTH - j < at_once ? WIDTH - j : at_once, at};
            struct sl_full_sources table = {.offsets = offsets,
                                            .sources = sources,
                                            .first = first,
                                            .n_parts = n_parts,
                                            .rows = rows,
                                            .n_edges = 100,
                                            .first_id = partition.first[p],
                                            .weights = factors == NULL ? NULL : &weights,
                                            .edge_weights = edge_weights,
                                            .columns = columns};
            for (uint32_t q = 0; q < n_parts; q++) {
                bool all = q % 2 == 0;
                at[q] = all ? j : 0;
                rows[q] = wrap_rows(h, all ? 0 : 2, q, all ? &x.pe[q] : &some[j].pe[q]);
            }
            for (uint32_t c = 0; c < out.split.n_chunks; c++) {
                expect_ok(sl_aggregate_full_submit(&head, &table, c << shift, beta, out.chunk[c]));
            }
        }
        starpu_task_wait_for_all();
    }
    unwrap(h);
    expect_no_failure();
    forward(&group, 0, &x, beta, &m[0]);
    expect_same_levels("mean of all", &group, &m[1], &m[0]);
    for (uint32_t j = 0; j < WIDTH; j += at_once) {
        free_level(&group, &some[j]);
    }
    free_level(&group, &x);
    free_level(&group, &m[0]);
    free_level(&group, &m[1]);
    free(everyone);
    group_free(&group);
    sl_partition_free(&partition);
}

/* Where kernels are slow: each weighing with one of the three, which one turns with the parts. */
static void check_full(const struct sl_dataset *dataset, int split, uint32_t n_parts, uint32_t shift, int beta)
{
    static const uint32_t at_once[] = {5, 2, 1};
    const int stride = (int)slow_stride(3);
    for (int i = 0; i < 3; i++) {
        for (int weighing = N_WEIGHINGS - 1; weighing >= MEAN; weighing--) {
            if ((weighing + i + (int)n_parts) % stride != 0) {
                continue;
            }
            compare_full((enum weighing)weighing, dataset, split, n_parts, shift, beta, at_once[i]);
        }
    }
}

static void test_full(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 200,
                                .hub_degree = 140,
                                .self_loops = true,
                                .directed = true,
                                .weighted = true};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct sl_dataset dataset;
        fixture_start(worker_counts[w]);
        make_dataset(&shape, &dataset);
        check_full(&dataset, SPLIT_NONE, 1, 31, 0);
        check_full(&dataset, SPLIT_RANDOM, 3, 4, 0);
        check_full(&dataset, SPLIT_METIS, 4, 5, 1);
        check_full(&dataset, SPLIT_UNEVEN, 7, 3, 0);
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

/* One destination with four sources, all of one PE. */
static void test_outputs_are_written(void **state)
{
    (void)state;
    uint32_t offsets[] = {0, 4};
    uint64_t offsets64[] = {0, 4};
    uint32_t sources[] = {0, 1, 2, 3};
    uint32_t back_offsets[] = {0, 1, 2, 3, 4};
    uint32_t back_rows[4] = {0};
    uint32_t inverse[] = {0, 4, 0, 1, 2, 3};
    sl_real data[5][4 * 6] = {{0}};
    const struct sl_slice none = {0};
    fixture_start(1);
    enum { OFFSETS, OFFSETS64, SOURCES, BACK_OFFSETS, BACK_ROWS, X, GM, M, PACKED, G, INVERSE, N };
    starpu_data_handle_t h[N] = {vector_of(offsets, 2, 4),      vector_of(offsets64, 2, 8), vector_of(sources, 4, 4),
                                 vector_of(back_offsets, 5, 4), vector_of(back_rows, 4, 4), rows_of(data[0], 4, 6),
                                 rows_of(data[1], 1, 6),        rows_of(data[2], 1, 6),     rows_of(data[3], 4, 6),
                                 rows_of(data[4], 4, 6),        vector_of(inverse, 6, 4)};
    struct sl_rows x = {.split = sl_split_rows(4, 1, 2), .n_columns = 6, .chunk = &h[X]};
    struct sl_rows gm = {.split = sl_split_rows(1, 1, 2), .n_columns = 6, .chunk = &h[GM]};
    struct sl_source_handles all = {1, 0, offsets, &x, h[INVERSE], &none, NULL, NULL};
    struct sl_full_sources whole = {.offsets = h[OFFSETS64],
                                    .sources = h[SOURCES],
                                    .first = h[OFFSETS],
                                    .n_parts = 1,
                                    .rows = &x,
                                    .n_edges = 4,
                                    .columns = {0, 6, &(uint32_t){0}}};
    struct sl_returned returned = {.edge_offsets = h[OFFSETS],
                                   .back_offsets = h[BACK_OFFSETS],
                                   .back_rows = h[BACK_ROWS],
                                   .gm = &gm,
                                   .n_edges = 4};
    struct sl_accumulate shares = {.edge_offsets = h[OFFSETS],
                                   .back_offsets = h[BACK_OFFSETS],
                                   .back_rows = h[BACK_ROWS],
                                   .from.n_own = 4,
                                   .gm = &gm,
                                   .from.n_peers = 1,
                                   .inverse = h[INVERSE],
                                   .from.sent = &none};
    for (int beta = 0; beta < 2; beta++) {
        hold(h[X]);
        expect_ok(sl_aggregate_forward_submit(&head, h[OFFSETS], h[SOURCES], 0, 4, &all, beta, h[M]));
        release(h[X], 1, &h[M]);
        hold(h[X]);
        expect_ok(sl_aggregate_full_submit(&head, &whole, 0, beta, h[M]));
        release(h[X], 1, &h[M]);
    }
    const struct sl_slice packed = slice_of(h[PACKED]);
    hold(h[GM]);
    expect_ok(sl_aggregate_backward_submit(&head, &returned, 1, &(uint32_t){0}, &packed));
    release(h[GM], 1, &h[PACKED]);
    hold(h[GM]);
    expect_ok(sl_accumulate_submit(&head, &shares, 0, h[G]));
    release(h[GM], 1, &h[G]);
    hold(h[X]);
    expect_ok(sl_pack_submit(&head, &x, 1, h[INVERSE], 1, &(uint32_t){0}, &packed));
    release(h[X], 1, &h[PACKED]);
    unregister(N, h);
    expect_no_failure();
    fixture_stop();
}

/* Widths that differ, too many PEs and chunks are refused, with their numbers. */
static void test_refusals(void **state)
{
    (void)state;
    sl_real data[4 * 6] = {0};
    uint32_t index[4] = {0};
    uint32_t first[2] = {0, 4};
    fixture_start(1);
    starpu_data_handle_t handles[2] = {vector_of(index, 4, 4), rows_of(data, 4, 6)};
    struct sl_rows rows = {.split = sl_split_rows(4, 1, 2), .n_columns = 5, .chunk = &handles[1]};
    const struct sl_slice none = {0};
    struct sl_source_handles sources = {1, 0, first, &rows, handles[0], &none, NULL, NULL};
    struct sl_accumulate shares = {.gm = &rows, .from.n_peers = 1, .inverse = handles[0], .from.sent = &none};
    starpu_data_handle_t v = handles[0];
    const struct sl_slice packed = slice_of(handles[1]);
    struct sl_returned returned = {.edge_offsets = v, .back_offsets = v, .back_rows = v, .gm = &rows, .n_edges = 1};
    uint32_t no_columns[SL_MAX_GROUP + 1] = {0};
    const struct sl_full_columns columns = {0, 6, no_columns};
    struct sl_full_sources whole = {
        .offsets = v, .sources = v, .first = v, .n_parts = 1, .rows = &rows, .n_edges = 1, .columns = columns};
    assert_int_equal(sl_aggregate_forward_submit(&head, v, v, 0, 1, &sources, 0, handles[1]), SL_EINVAL);
    expect_message(sl_message(), "width 6", "width 5");
    assert_int_equal(sl_aggregate_backward_submit(&head, &returned, 1, first, &packed), SL_EINVAL);
    expect_message(sl_message(), "width 6", "width 5");
    assert_int_equal(sl_accumulate_submit(&head, &shares, 0, handles[1]), SL_EINVAL);
    expect_message(sl_message(), "width 6", "width 5");
    assert_int_equal(sl_aggregate_full_submit(&head, &whole, 0, 0, handles[1]), SL_EINVAL);
    expect_message(sl_message(), "width 6", "width 5");
    const struct sl_full_columns wrong[] = {{5, 2, &(uint32_t){0}}, {0, 4, &(uint32_t){2}}};
    for (int i = 0; i < 2; i++) {
        whole.columns = wrong[i];
        assert_int_equal(sl_aggregate_full_submit(&head, &whole, 0, 0, handles[1]), SL_EINVAL);
    }
    expect_message(sl_message(), "columns 0 + 4 of width 6", "column 2 of part 0's rows of width 5");
    whole.columns = columns;
    rows.n_columns = 6;
    rows.split.n_chunks = SL_MAX_CHUNKS + 1;
    assert_int_equal(sl_aggregate_forward_submit(&head, v, v, 0, 1, &sources, 0, handles[1]), SL_EINVAL);
    expect_message(sl_message(), "65 chunks", "sl_aggregate_forward");
    assert_int_equal(sl_aggregate_backward_submit(&head, &returned, 1, first, &packed), SL_EINVAL);
    assert_int_equal(sl_accumulate_submit(&head, &shares, 0, handles[1]), SL_EINVAL);
    rows.split.n_chunks = SL_MAX_FULL_CHUNKS + 1;
    assert_int_equal(sl_aggregate_full_submit(&head, &whole, 0, 0, handles[1]), SL_EINVAL);
    rows.split.n_chunks = 1;
    sources.n_owners = shares.from.n_peers = SL_MAX_GROUP + 1;
    assert_int_equal(sl_aggregate_forward_submit(&head, v, v, 0, 1, &sources, 0, handles[1]), SL_EINVAL);
    assert_int_equal(sl_accumulate_submit(&head, &shares, 0, handles[1]), SL_EINVAL);
    whole.n_parts = SL_MAX_GROUP + 1;
    assert_int_equal(sl_aggregate_full_submit(&head, &whole, 0, 0, handles[1]), SL_EINVAL);
    unregister(2, handles);
    fixture_stop();
}

/* What evaluation submits is counted as evaluation, both ways. */
static void test_stages(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_PATH, .n_vertices = 30};
    double seconds[SL_N_STAGES];
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_RANDOM, 2, 5, &partition, &group);
    struct level x = make_level(&group, 1, 6, 31);
    struct level m = make_level(&group, 0, 6, 31);
    struct level g = make_level(&group, 1, 6, 31);
    fill_level(&group, SEED, &x);
    fixture_start(1);
    head.stage = SL_STAGE_EVALUATE;
    submit_forward(&group, 0, &x, 0, &m);
    submit_backward(&group, 0, &m, &g);
    head.stage = SL_STAGE_SAMPLE;
    expect_no_failure();
    sl_run_stage_seconds(&run, seconds);
    assert_true(seconds[SL_STAGE_EVALUATE] > 0);
    assert_true(seconds[SL_STAGE_AGGREGATE] == 0 && seconds[SL_STAGE_BACKWARD] == 0);
    free_level(&group, &x);
    free_level(&group, &m);
    free_level(&group, &g);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
    fixture_stop();
}

/* After a failure the graph drains and writes nothing. */
static void test_failure_drains(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_PATH, .n_vertices = 30};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_RANDOM, 2, 5, &partition, &group);
    struct level x = make_level(&group, 1, 6, 31);
    struct level m = make_level(&group, 0, 6, 31);
    struct level g = make_level(&group, 1, 6, 31);
    fixture_start(3);
    fixture_fail();
    submit_forward(&group, 0, &x, 0, &m);
    submit_backward(&group, 0, &m, &g);
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t r = 0; r < g.pe[p].split.n_rows; r++) {
            expect_still(*entry(&g.pe[p], r, 0), POISON);
        }
        for (uint32_t r = 0; r < m.pe[p].split.n_rows; r++) {
            expect_still(*entry(&m.pe[p], r, 0), POISON);
        }
    }
    free_level(&group, &x);
    free_level(&group, &m);
    free_level(&group, &g);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
    fixture_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_widths_and_chunks),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_many_neighbours),
        cmocka_unit_test(test_empty_blocks),
        cmocka_unit_test(test_own_terms),
        cmocka_unit_test(test_unbiased),
#ifdef SL_CUDA
        cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_launchers_many_neighbours),
        cmocka_unit_test(test_launchers_many_owners),
        cmocka_unit_test(test_launchers_empty),
        cmocka_unit_test(test_launcher_full),
#endif
        cmocka_unit_test(test_submissions),
#ifdef SL_TESTS_CUSPARSE_H
        cmocka_unit_test(test_second_implementation),
#endif
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_outputs_are_written),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_failure_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
