/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sums/aggregate.h over whole groups: means and sums by symmetric weights, their adjoints and the sums at
 * owners, with the exchange between them, have the bits of plain loops along the lists. */
#include "codelets/sums/aggregate.h"
#include "data/load.h"

#include <sys/mman.h>

#include "tests/support/hop_fixture.h"

/* ---- weights ---- */

#define SCALE 0.8

/* What everything below weighs by: two numbers of each renumbered id. NULL: the mean. */
static sl_real *factors;

/* The last two: with the weights of edges. */
enum weighing { MEAN, SYMMETRIC, MEAN_OF_EDGES, SYMMETRIC_OF_EDGES, N_WEIGHINGS };

static bool weighs_edges;

/* How large a term may be. */
static double largest_weight(void)
{
    return weighs_edges ? 4 : 1;
}

static void weigh(const struct sl_graph *graph, enum weighing weighing)
{
    free(factors);
    weighs_edges = weighing >= MEAN_OF_EDGES;
    bool mean = weighing == MEAN || weighing == MEAN_OF_EDGES;
    factors = mean ? NULL : need(2 * (size_t)graph->n_vertices, sizeof *factors);
    for (sl_vertex v = 0; !mean && v < graph->n_vertices; v++) {
        double others = 0;
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            others += graph->sources[e] != v;
        }
        factors[2 * v] = (sl_real)(1 / sqrt(others + 1));
        factors[2 * v + 1] = (sl_real)(graph->offsets[v + 1] - graph->offsets[v]);
    }
}

/* ---- plain loops along the lists ---- */

static void add_row(uint32_t n_columns, sl_real weight, const sl_real *x, sl_real *out)
{
    for (uint32_t j = 0; j < n_columns; j++) {
        out[j] += weight * x[j];
    }
}

/* The weight of a vertex' own row. */
static sl_real weight_of_self(sl_vertex id)
{
    return (sl_real)SCALE * factors[2 * id] * factors[2 * id];
}

/* The weight of an edge of the destination d; edge_weight: the edge's own. */
static sl_real weight_of(const struct group *group, uint32_t hop, uint32_t p, uint32_t d, uint32_t position,
                         const float *edge_weight)
{
    const struct group_block *block = &group->pe[p].block[hop];
    const sl_vertex to = group->pe[p].frontier[d], from = source_id(block, position);
    const sl_real degree = (sl_real)(block->edge_offsets[d + 1] - block->edge_offsets[d]);
    sl_real weight = 1 / degree;
    if (factors != NULL) {
        weight = (sl_real)SCALE * factors[2 * to] * (factors[2 * to + 1] / degree) * factors[2 * from];
        weight = from == to ? 0 : weight;
    }
    return weighs_edges ? weight * (sl_real)*edge_weight : weight;
}

/* m (+)= A x. Frontiers nest: row d of the destinations is row d of x. */
static void plain_forward(const struct group *group, uint32_t hop, const struct level *x, int beta, struct level *m)
{
    const uint32_t n_columns = x->pe[0].n_columns;
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        for (uint32_t d = 0; d < group->pe[p].n_rows[hop]; d++) {
            sl_real *out = row_at(&m->pe[p], d);
            for (uint32_t j = 0; !beta && j < n_columns; j++) {
                out[j] = 0;
            }
            if (factors != NULL) {
                add_row(n_columns, weight_of_self(group->pe[p].frontier[d]), row_at(&x->pe[p], d), out);
            }
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                const uint32_t t = block->edge_sources[e];
                const sl_real weight = weight_of(group, hop, p, d, t, block->edge_weights + e);
                add_row(n_columns, weight, source_row(group, hop, p, t, x), out);
            }
        }
    }
}

/* out += the terms of p's source at a position. */
static void add_back(const struct group *group, uint32_t hop, uint32_t p, uint32_t position, const struct level *gm,
                     sl_real *out)
{
    const struct group_block *block = &group->pe[p].block[hop];
    for (uint32_t e = block->back_offsets[position]; e < block->back_offsets[position + 1]; e++) {
        const uint32_t d = block->back_rows[e];
        const sl_real weight = weight_of(group, hop, p, d, position, block->back_weights + e);
        add_row(gm->pe[p].n_columns, weight, row_at(&gm->pe[p], d), out);
    }
}

/* g = A^T gm: a vertex' own term, then what the PEs send, in their order, each summed before it is sent. */
static void plain_backward(const struct group *group, uint32_t hop, const struct level *gm, struct level *g)
{
    const uint32_t n_columns = gm->pe[0].n_columns;
    FREED sl_real *sent = need(n_columns, sizeof *sent);
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const uint32_t *inverse = group->pe[q].block[hop].inverse;
        for (uint32_t r = 0; r < g->pe[q].split.n_rows; r++) {
            memset(row_at(&g->pe[q], r), 0, n_columns * sizeof *sent);
            if (factors != NULL && r < group->pe[q].n_rows[hop]) {
                add_row(n_columns, weight_of_self(group->pe[q].frontier[r]), row_at(&gm->pe[q], r),
                        row_at(&g->pe[q], r));
            }
        }
        for (uint32_t p = 0; p < group->n_parts; p++) {
            const uint32_t *rows = sl_list_of(inverse, group->n_parts, p);
            for (uint32_t i = 0; i < sl_list_count(inverse, p); i++) {
                sl_real *out = row_at(&g->pe[q], rows[i]);
                memset(sent, 0, n_columns * sizeof *sent);
                add_back(group, hop, p, group->pe[p].block[hop].request[q] + i, gm, p == q ? out : sent);
                add_row(n_columns, 1, sent, out);
            }
        }
    }
}

/* ---- tasks ---- */

/* What is said of the number of edges, for performance models, and of the room of their handles; 0: no more than they
 * are. */
static uint64_t said_edges = 100;
static uint32_t edge_room;

/* The factors of p's block. */
static struct sl_vertex_factors factors_of(struct handles *h, starpu_data_handle_t all, uint32_t p)
{
    const struct group_pe *pe = &h->group->pe[p];
    return (struct sl_vertex_factors){.factors = all,
                                      .frontier = wrap_vector(h, pe->frontier, pe->n_rows[h->hop], 4),
                                      .request = h->block[p].request,
                                      .n_parts = h->group->n_parts,
                                      .scale = SCALE};
}

/* The factors, all PEs'. */
static starpu_data_handle_t wrap_factors(struct handles *h)
{
    return factors == NULL ? NULL : wrap(h, rows_of(factors, h->group->partition->graph.n_vertices, 2));
}

/* The block of PE p, with weights if edges are weighed. */
static struct sl_block block_of(const struct handles *h, uint32_t p)
{
    struct sl_block block = h->block[p];
    if (!weighs_edges) {
        block.edge_weights = block.back_weights = NULL;
    }
    return block;
}

static void submit_forward(const struct group *group, uint32_t hop, const struct level *x, int beta, struct level *m)
{
    struct handles *h = wrap_hop(group, hop);
    const struct sl_rows *rows = wrap_level(h, 0, x);
    const struct sl_rows *out = wrap_level(h, 1, m);
    starpu_data_handle_t all = wrap_factors(h);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct sl_block block = block_of(h, p);
        struct sl_slice packed[MAX_PARTS];
        const struct sl_vertex_factors weights = factors_of(h, all, p);
        const struct sl_source_handles sources = {.n_owners = group->n_parts,
                                                  .own = p,
                                                  .first = group->pe[p].block[hop].request,
                                                  .rows = &rows[p],
                                                  .inverse = block.inverse,
                                                  .packed = packed,
                                                  .weights = factors == NULL ? NULL : &weights};
        if (edge_room > 0) {
            block.edge_sources = wrap_vector(h, group->pe[p].block[hop].edge_sources, edge_room, 4);
        }
        submit_packs(h, rows, p, packed);
        for (uint32_t c = 0; c < out[p].split.n_chunks; c++) {
            expect_ok(sl_aggregate_forward_submit(&head, &block, c << out[p].split.shift, said_edges, &sources, beta,
                                                  out[p].chunk[c]));
        }
    }
    unwrap(h);
}

/* What p sends back, by owner. */
static void submit_returned(struct handles *h, const struct sl_rows *gm, uint32_t p,
                            const struct sl_vertex_factors *weights, struct sl_slice sent[MAX_PARTS])
{
    const struct sl_block block = block_of(h, p);
    uint32_t t0[MAX_PARTS];
    struct sl_slice packed[MAX_PARTS];
    uint32_t n = 0;
    wrap_packed(h, p, gm[p].n_columns, sent);
    for (uint32_t q = 0; q < h->group->n_parts; q++) {
        if (sent[q].n_rows > 0) {
            t0[n] = h->group->pe[p].block[h->hop].request[q];
            packed[n++] = sent[q];
        }
    }
    if (n > 0) {
        expect_ok(
            sl_aggregate_backward_submit(&head, &block, &gm[p], factors == NULL ? NULL : weights, 100, n, t0, packed));
    }
}

static void submit_backward(const struct group *group, uint32_t hop, const struct level *gm, struct level *g)
{
    struct handles *h = wrap_hop(group, hop);
    const struct sl_rows *rows = wrap_level(h, 0, gm);
    const struct sl_rows *out = wrap_level(h, 1, g);
    starpu_data_handle_t all = wrap_factors(h);
    struct sl_vertex_factors weights[MAX_PARTS];
    struct sl_slice sent[MAX_PARTS][MAX_PARTS];
    for (uint32_t p = 0; p < group->n_parts; p++) {
        weights[p] = factors_of(h, all, p);
        submit_returned(h, rows, p, &weights[p], sent[p]);
    }
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const uint32_t *first = group->pe[q].block[hop].request;
        struct sl_slice to_q[MAX_PARTS];
        for (uint32_t p = 0; p < group->n_parts; p++) {
            to_q[p] = sent[p][q];
        }
        const struct sl_block block = block_of(h, q);
        const struct sl_accumulate shares = {.block = &block,
                                             .from = {.t0 = first[q],
                                                      .n_own = sl_list_count(first, q),
                                                      .n_peers = group->n_parts,
                                                      .own = q,
                                                      .sent = to_q},
                                             .gm = &rows[q],
                                             .weights = factors == NULL ? NULL : &weights[q]};
        for (uint32_t c = 0; c < out[q].split.n_chunks; c++) {
            expect_ok(sl_accumulate_submit(&head, &shares, c << out[q].split.shift, out[q].chunk[c]));
        }
    }
    unwrap(h);
}

/* ---- tests ---- */

/* On a GPU a list of over 256 terms is added in slices: sums may then differ. */
static double if_sliced(size_t longest, double tolerance)
{
#ifdef SL_CUDA
    return longest > 256 ? largest_weight() * tolerance : 0;
#else
    (void)longest, (void)tolerance;
    return 0;
#endif
}

/* Partial sums by weights reach about 1. */
static double tolerance_of_sum(void)
{
    return factors == NULL ? 16 * EPSILON : rounding(40, 1);
}

/* Sums onto what is there and onto nothing, the adjoint, and <A x, y> = <x, A^T y>. */
static void check_sums(const struct group *group, uint32_t hop, uint32_t n_columns, uint32_t shift_in,
                       uint32_t shift_out, size_t longest)
{
    struct level x = make_level(group, hop + 1, n_columns, shift_in);
    struct level y = make_level(group, hop, n_columns, shift_out);
    struct level m[2], g[2];
    for (int i = 0; i < 2; i++) {
        m[i] = make_level(group, hop, n_columns, shift_out);
        g[i] = make_level(group, hop + 1, n_columns, shift_in);
        fill_level(group, SEED + 2, &m[i]);
    }
    fill_level(group, SEED, &x);
    fill_level(group, SEED + 1, &y);
    for (int beta = 1; beta >= 0; beta--) {
        plain_forward(group, hop, &x, beta, &m[0]);
        submit_forward(group, hop, &x, beta, &m[1]);
        expect_levels("sum", group, &m[1], &m[0],
                      if_sliced(longest, (1 + 8 * beta) * tolerance_of_sum())); /* onto numbers up to 1 */
    }
    plain_backward(group, hop, &y, &g[0]);
    submit_backward(group, hop, &y, &g[1]);
    expect_levels("adjoint", group, &g[1], &g[0], if_sliced(longest, rounding(600, 1)));
    double scale = sqrt(inner_levels(group, &y, &y) * inner_levels(group, &m[1], &m[1])) + 1;
    expect_near("<A x, y> = <x, A' y>", inner_levels(group, &m[1], &y), inner_levels(group, &x, &g[1]),
                8 * EPSILON * scale * largest_weight());
    struct level *all[] = {&x, &y, &m[0], &m[1], &g[0], &g[1]};
    for (int i = 0; i < 6; i++) {
        free_level(group, all[i]);
    }
}

static void check_hop(const struct group *group, uint32_t hop, uint32_t n_columns, uint32_t shift_in,
                      uint32_t shift_out, size_t longest)
{
    for (int weighing = N_WEIGHINGS - 1; weighing >= MEAN; weighing--) {
        weigh(&group->partition->graph, weighing);
        check_sums(group, hop, n_columns, shift_in, shift_out, longest);
    }
}

/* In seven parts some PEs have no rows. */
TEST(test_graphs)
{
    const uint32_t part_counts[] = {1, 4, 7};
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {.kind = graph,
                                    .n_vertices = 90,
                                    .self_loops = true,
                                    .directed = graph == GRAPH_POWER_LAW,
                                    .weighted = true};
        struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        fixture_start(worker_counts[graph % N_WORKER_COUNTS]);
        for (int i = 0; i < 3; i++) {
            struct sl_partition partition;
            struct group group;
            make_group(&dataset, SPLIT_UNEVEN, part_counts[i], 20, &partition, &group);
            check_hop(&group, 0, 7, 31, 31, 90);
            check_hop(&group, 1, 7, 3, 2, 90);
            drop_group(&partition, &group);
        }
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

TEST(test_widths_and_chunks)
{
    const uint32_t widths[] = {1, 8, 33, 40, 132, 256};
    const uint32_t shifts[][2] = {{31, 31}, {4, 4}, {3, 1}};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .weighted = true};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_METIS, 4, 40, &partition, &group);
    fixture_start(1);
    fixture_watch();
    for (int w = 0; w < 6; w++) {
        for (uint32_t i = (uint32_t)w % slow_stride(3); i < 3; i += slow_stride(3)) {
            check_hop(&group, 1, widths[w], shifts[i][0], shifts[i][1], 140);
        }
    }
    drop_group(&partition, &group);
    sl_dataset_free(&dataset);
    fixture_stop();
}

/* A hub, most of whose neighbours are destinations, so that as a source it has many of them; destinations without an
 * edge and with one from themselves alone. */
static void check_hub(uint32_t hub_degree, uint32_t parts, uint32_t n_columns, uint32_t shift_in)
{
    enum { SEEDS = 400 };
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = hub_degree + 100,
                                .hub_degree = hub_degree,
                                .self_loops = true,
                                .weighted = true};
    sl_vertex seeds[SEEDS] = {shape.n_vertices - 1, shape.n_vertices - 2};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, parts, &partition);
    for (sl_vertex i = 2; i < SEEDS; i++) {
        seeds[i] = shape.n_vertices / 2 + i - 2;
    }
    group_sample(&partition, 1, &full, SEED, 0, SEEDS, seeds, &group);
    check_hop(&group, 0, n_columns, shift_in, 8, hub_degree);
    drop_group(&partition, &group);
}

TEST(test_many_neighbours)
{
    fixture_start(1);
    check_hub(13000, 1, 40, 31);
    check_hub(13000, 4, 3, 31);
    check_hub(1500, 2, 132, 9);
    check_hub(1500, 3, 3, 10);
    fixture_stop();
}

/* A hub with sources of more owners than a launch serves. */
TEST(many_owners)
{
    const struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 600, .hub_degree = 500, .weighted = true};
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    const sl_vertex hub = 300;
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, MAX_PARTS, &partition);
    group_sample(&partition, 1, &full, SEED, 0, 1, &hub, &group);
    fixture_start(1);
    check_hop(&group, 0, 4, 31, 31, 500);
    drop_group(&partition, &group);
    sl_dataset_free(&dataset);
    fixture_stop();
}

/* Samples of three of a list: their sums, on average over many steps, are those of whole lists. */
TEST(test_unbiased)
{
    enum { STEPS = 3000, WIDTH = 2, SEEDS = 12, N = 60 };
    const struct sl_sample_rule rules[] = {{.method = SL_SAMPLE_FULL}, {SL_SAMPLE_NEIGHBOR, 3, false, 1}};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = N, .hub_degree = 40, .self_loops = true};
    double sum[N * WIDTH] = {0};
    double squares[N * WIDTH] = {0};
    FREED double *exact = NULL;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_partition_free) struct sl_partition partition;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, 3, &partition);
    weigh(&partition.graph, SYMMETRIC);
    for (uint64_t step = 0; step <= STEPS; step++) {
        OWNED(group_free) struct group group;
        group_sample(&partition, 1, &rules[step > 0], SEED, step, SEEDS, dataset.train.ids, &group);
        struct level x = make_level(&group, 1, WIDTH, 31);
        struct level m = make_level(&group, 0, WIDTH, 31);
        fill_level(&group, SEED, &x);
        plain_forward(&group, 0, &x, 0, &m);
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
    }
    for (size_t i = 0; i < N * WIDTH; i++) {
        expect_near_at("average", i, sum[i] / STEPS, 0, 4 * sqrt(squares[i]) / STEPS + 8 * EPSILON);
    }
    weigh(&partition.graph, MEAN);
}

#ifdef SL_TESTS_CUSPARSE_H
/* Make the handles of edges so long that cuSPARSE cannot count them; most of their memory is never touched. */
static void lengthen_edges(struct group *group, size_t bytes)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct group_block *block = &group->pe[p].block[0];
        uint32_t *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(room != MAP_FAILED);
        memcpy(room, block->edge_sources, block->n_edges * sizeof *room);
        free(block->edge_sources);
        block->edge_sources = room;
    }
    edge_room = (uint32_t)(bytes / 4);
}

/* Sums of one group, again and again, said to be of several sizes, so that a scheduler with models learns what each
 * implementation costs. gpu_bytes: what is said of the GPU. Returns how many were by cuSPARSE. */
static unsigned products_of(enum weighing weighing, uint64_t gpu_bytes, size_t edge_bytes)
{
    const unsigned before = sl_emulated_products;
    const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 60, .hub_degree = 40, .self_loops = true, .weighted = true};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_RANDOM, 2, 20, &partition, &group);
    struct level x = make_level(&group, 1, 2, 3);
    struct level m[2] = {make_level(&group, 0, 2, 2), make_level(&group, 0, 2, 2)};
    if (edge_bytes > 0) {
        lengthen_edges(&group, edge_bytes);
    }
    fixture_start(1);
    weigh(&partition.graph, weighing);
    run.fastest_means = gpu_bytes > 0;
    run.gpu_bytes = gpu_bytes;
    fill_level(&group, SEED, &x);
    for (int i = 0; i < 60; i++) {
        said_edges = UINT64_C(10) << i % 8;
        fill_level(&group, SEED + 1, &m[0]);
        fill_level(&group, SEED + 1, &m[1]);
        plain_forward(&group, 0, &x, i % 2, &m[0]);
        submit_forward(&group, 0, &x, i % 2, &m[1]);
        expect_levels("mean", &group, &m[1], &m[0], 16 * EPSILON);
    }
    said_edges = 100;
    for (uint32_t p = 0; edge_bytes > 0 && p < group.n_parts; p++) {
        munmap(group.pe[p].block[0].edge_sources, edge_bytes);
        group.pe[p].block[0].edge_sources = NULL;
    }
    edge_room = 0;
    free_level(&group, &x);
    free_level(&group, &m[0]);
    free_level(&group, &m[1]);
    drop_group(&partition, &group);
    sl_dataset_free(&dataset);
    fixture_stop();
    return sl_emulated_products - before;
}

/* Both implementations run as tasks where that is wanted, and cuSPARSE is not asked for other weights, for edges that
 * it cannot count, nor where its copy of the rows is more than a 64th of the GPU. */
TEST(test_second_implementation)
{
    const uint64_t large = UINT64_C(1) << 36;
    setenv("STARPU_SCHED", "dmda", 1);
    setenv("STARPU_CALIBRATE", "2", 1);
    assert_true(products_of(MEAN, large, 0) > 0);
    assert_int_equal(products_of(MEAN, 0, 0), 0);
    assert_int_equal(products_of(MEAN, 64, 0), 0);
    assert_int_equal(products_of(SYMMETRIC, large, 0), 0);
    assert_int_equal(products_of(MEAN_OF_EDGES, large, 0), 0);
    assert_int_equal(products_of(MEAN, large, (size_t)4 << 31), 0);
    unsetenv("STARPU_SCHED");
    setenv("STARPU_CALIBRATE", "0", 1);
}
#endif

/* ---- evaluation ---- */

/* Columns first .. first + n - 1 of rows that have them alone, as they come from another rank, and what is no
 * number behind them. */
static struct level columns_of(const struct group *group, const struct level *x, uint32_t first, uint32_t n,
                               uint32_t width)
{
    struct level some = make_level(group, 0, width, x->pe[0].split.shift);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < x->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < width; j++) {
                row_at(&some.pe[p], r)[j] = j < n ? row_at(&x->pe[p], r)[first + j] : (sl_real)NAN;
            }
        }
    }
    return some;
}

/* The lists of all parts. Offsets begin beyond 2^32. */
struct lists {
    uint64_t *offsets[MAX_PARTS];
    struct sl_full_sources of[MAX_PARTS];
    struct sl_vertex_factors weights;
};

static void wrap_lists(struct handles *h, const struct sl_partition *partition, struct lists *out)
{
    starpu_data_handle_t first = wrap_vector(h, partition->first, partition->n_parts + 1, 4);
    out->weights = (struct sl_vertex_factors){.factors = wrap_factors(h), .scale = SCALE};
    for (uint32_t p = 0; p < partition->n_parts; p++) {
        const struct sl_sample_part part = part_of(partition, p);
        const uint32_t n = partition->first[p + 1] - partition->first[p];
        const uint32_t n_edges = (uint32_t)(part.offsets[n] - part.offsets[0]);
        out->offsets[p] = need(n + 1, sizeof(uint64_t));
        for (uint32_t i = 0; i <= n; i++) {
            out->offsets[p][i] = part.offsets[i] + (UINT64_C(5) << 32);
        }
        out->of[p] =
            (struct sl_full_sources){.offsets = wrap_vector(h, out->offsets[p], n + 1, 8),
                                     .sources = wrap_vector(h, part.sources, n_edges, 4),
                                     .first = first,
                                     .n_parts = partition->n_parts,
                                     .n_edges = 100,
                                     .first_id = partition->first[p],
                                     .weights = factors == NULL ? NULL : &out->weights,
                                     .edge_weights = weighs_edges ? wrap_vector(h, part.weights, n_edges, 4) : NULL};
    }
}

/* The sums over all in-neighbours of whole parts are those of blocks that hold all edges. at_once: columns, of which
 * every second part's rows have no others. */
static void compare_full(const struct sl_dataset *dataset, const struct sl_partition *partition,
                         const struct group *group, uint32_t width, uint32_t at_once, uint32_t shift_in,
                         uint32_t shift_out, int beta)
{
    struct handles *h = need(1, sizeof *h);
    FREED struct lists *lists = need(1, sizeof *lists);
    struct level x = make_level(group, 0, width, shift_in);
    struct level m[2] = {make_level(group, 0, width, shift_out), make_level(group, 0, width, shift_out)};
    struct level some[MAX_SLOTS];
    int n_some = 0;
    h->group = group;
    fill_level(group, SEED, &x);
    fill_level(group, SEED + 1, &m[0]);
    fill_level(group, SEED + 1, &m[1]);
    const struct sl_rows *rows = wrap_level(h, 0, &x);
    const struct sl_rows *out = wrap_level(h, 1, &m[1]);
    wrap_lists(h, partition, lists);
    for (uint32_t j = 0; j < width; j += at_once, n_some++) {
        const uint32_t n = width - j < at_once ? width - j : at_once;
        uint32_t start[MAX_PARTS];
        struct sl_rows from[MAX_PARTS];
        some[n_some] = columns_of(group, &x, j, n, at_once);
        const struct sl_rows *narrow = wrap_level(h, 2 + n_some, &some[n_some]);
        for (uint32_t q = 0; q < group->n_parts; q++) {
            start[q] = q % 2 == 0 ? j : 0;
            from[q] = q % 2 == 0 ? rows[q] : narrow[q];
        }
        for (uint32_t p = 0; p < group->n_parts; p++) {
            lists->of[p].rows = from;
            lists->of[p].columns = (struct sl_full_columns){j, n, start};
            for (uint32_t c = 0; c < out[p].split.n_chunks; c++) {
                expect_ok(
                    sl_aggregate_full_submit(&head, &lists->of[p], c << out[p].split.shift, beta, out[p].chunk[c]));
            }
        }
    }
    unwrap(h);
    plain_forward(group, 0, &x, beta, &m[0]);
    expect_levels("sum of all", group, &m[1], &m[0], if_sliced(2 * dataset->graph.n_vertices, tolerance_of_sum()));
    for (int i = 0; i < n_some; i++) {
        free_level(group, &some[i]);
    }
    free_level(group, &x);
    free_level(group, &m[0]);
    free_level(group, &m[1]);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        free(lists->offsets[p]);
    }
}

/* By each weighing; where kernels are slow, by one of the two kinds. */
static void check_full(const struct sl_dataset *dataset, int split, uint32_t n_parts, uint32_t width, uint32_t at_once,
                       uint32_t shift_in, uint32_t shift_out)
{
    struct sl_partition partition;
    struct group group;
    make_whole_group(dataset, split, n_parts, &partition, &group);
    for (uint32_t i = (n_parts + width) % slow_stride(2); i < N_WEIGHINGS; i += slow_stride(2)) {
        weigh(&partition.graph, N_WEIGHINGS - 1 - i);
        compare_full(dataset, &partition, &group, width, at_once, shift_in, shift_out, (n_parts + i) % 2);
    }
    weigh(&partition.graph, MEAN);
    drop_group(&partition, &group);
}

TEST(test_full)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 300,
                                .hub_degree = 280,
                                .self_loops = true,
                                .directed = true,
                                .weighted = true};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        fixture_start(worker_counts[w]);
        check_full(&dataset, SPLIT_NONE, 1, 5, 5, 31, 31);
        check_full(&dataset, SPLIT_RANDOM, 3, 5, 2, 4, 4);
        check_full(&dataset, SPLIT_METIS, 4, 5, 2, 5, 5);
        check_full(&dataset, SPLIT_UNEVEN, 7, 4, 1, 3, 3);
        check_full(&dataset, SPLIT_RANDOM, 7, 12, 4, 0, 3); /* more chunks than a launch has parameters for */
        check_full(&dataset, SPLIT_RANDOM, 7, 70, 35, 0, 3);
        check_full(&dataset, SPLIT_RANDOM, 7, 128, 64, 0, 3);
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

/* Widths that differ are refused. */
TEST(test_refusals)
{
    sl_real data[4 * 6] = {0};
    uint32_t index[4] = {0};
    const uint32_t first[2] = {0, 4};
    fixture_start(1);
    starpu_data_handle_t v = vector_of(index, 4, 4);
    starpu_data_handle_t wide = rows_of(data, 4, 6);
    starpu_data_handle_t narrow = rows_of(data, 4, 5);
    const struct sl_block block = {v, v, v, v, v, v, NULL, NULL, NULL, NULL};
    const struct sl_rows rows = {.split = sl_split_rows(4, 1, 2), .n_columns = 5, .chunk = &narrow};
    const struct sl_slice none = {0};
    const struct sl_slice packed = slice_of(wide);
    const struct sl_source_handles sources = {1, 0, first, &rows, v, &none, NULL};
    const struct sl_accumulate shares = {.block = &block, .gm = &rows, .from.n_peers = 1, .from.sent = &none};
    assert_int_equal(sl_aggregate_forward_submit(&head, &block, 0, 1, &sources, 0, wide), SL_EINTERNAL);
    expect_message(sl_message(), "'own rows' is [4 x 5]", "F = 6");
    assert_int_equal(sl_aggregate_backward_submit(&head, &block, &rows, NULL, 1, 1, first, &packed), SL_EINTERNAL);
    expect_message(sl_message(), "'packed' is [4 x 6]", "F = 5");
    assert_int_equal(sl_accumulate_submit(&head, &shares, 0, wide), SL_EINTERNAL);
    expect_message(sl_message(), "'gradient' is [4 x 6]", "F = 5");
    unregister(3, (starpu_data_handle_t[]){v, wide, narrow});
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
