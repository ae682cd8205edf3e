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

static void weigh(const struct sl_graph *graph, enum weighing weighing)
{
    free(factors);
    weighs_edges = weighing >= MEAN_OF_EDGES;
    factors = weighing == MEAN || weighing == MEAN_OF_EDGES ? NULL : make_factors(graph);
}

/* ---- the operation ---- */

/* The weight of a vertex' own row. */
static sl_real weight_of_self(sl_vertex id)
{
    return factors == NULL ? 0 : (sl_real)SCALE * factors[2 * id] * factors[2 * id];
}

static uint32_t width; /* of all rows */

static void add_edge_term(const struct hop_edge *e, bool transposed, const sl_real *x, sl_real *out)
{
    const sl_real degree = (sl_real)(e->block->edge_offsets[e->d + 1] - e->block->edge_offsets[e->d]);
    sl_real weight = 1 / degree;
    (void)transposed;
    if (factors != NULL) {
        weight = (sl_real)SCALE * factors[2 * e->to] * (factors[2 * e->to + 1] / degree) * factors[2 * e->from];
        weight = e->from == e->to ? 0 : weight;
    }
    add_row(width, weighs_edges ? weight * e->weight : weight, x, out);
}

/* What is said of the number of edges, for performance models, and of the room of their handles; 0: no more than they
 * are. */
static uint64_t said_edges = 100;
static uint32_t edge_room;

/* The factors of each PE's block. */
static struct sl_vertex_factors weights[MAX_PARTS];

static const struct sl_vertex_factors *weights_at(uint32_t p)
{
    return factors == NULL ? NULL : &weights[p];
}

/* The factors, all PEs'. */
static starpu_data_handle_t wrap_factors(struct handles *h)
{
    return factors == NULL ? NULL : wrap(h, rows_of(factors, h->group->partition->graph.n_vertices, 2));
}

static void open_sum(struct handles *h)
{
    starpu_data_handle_t all = wrap_factors(h);
    for (uint32_t p = 0; p < h->group->n_parts; p++) {
        const struct group_pe *pe = &h->group->pe[p];
        weights[p] = (struct sl_vertex_factors){.factors = all,
                                                .frontier = wrap_vector(h, pe->frontier, pe->n_rows[h->hop], 4),
                                                .request = h->block[p].request,
                                                .n_parts = h->group->n_parts,
                                                .scale = SCALE};
        if (!weighs_edges) {
            h->block[p].edge_weights = h->block[p].back_weights = NULL;
        }
        if (edge_room > 0) {
            h->block[p].edge_sources = wrap_vector(h, pe->block[h->hop].edge_sources, edge_room, 4);
        }
    }
}

static void forward(struct handles *h, uint32_t p, uint32_t row0, const struct sl_source_handles *sources,
                    starpu_data_handle_t chunk)
{
    struct sl_source_handles weighted = *sources;
    weighted.weights = weights_at(p);
    expect_ok(sl_aggregate_forward_submit(&head, &h->block[p], row0, said_edges, &weighted, h->beta, chunk));
}

static void send(struct handles *h, uint32_t p, uint32_t n, const uint32_t *t0, const struct sl_slice *packed)
{
    expect_ok(sl_aggregate_backward_submit(&head, &h->block[p], &h->rows[SLOT_DESTINATIONS][p], weights_at(p), 100, n,
                                           t0, packed));
}

static void accumulate(struct handles *h, uint32_t q, uint32_t row0, const struct sl_share_sources *from,
                       starpu_data_handle_t chunk)
{
    const struct sl_accumulate shares = {
        .block = &h->block[q], .from = *from, .gm = &h->rows[SLOT_DESTINATIONS][q], .weights = weights_at(q)};
    expect_ok(sl_accumulate_submit(&head, &shares, row0, chunk));
}

static const struct hop_sum aggregate = {add_edge_term, weight_of_self, open_sum, forward, send, accumulate};

/* ---- tests ---- */

/* Terms of a slice. A GPU adds longer lists slice by slice: sums may then differ. */
#ifdef SL_CUDA
#define SLICE 256
#else
#define SLICE UINT32_MAX
#endif

static bool one_is_sliced(uint32_t n, const uint32_t *offsets)
{
    bool is = false;
    for (uint32_t i = 0; i < n; i++) {
        is |= offsets[i + 1] - offsets[i] > SLICE;
    }
    return is;
}

static bool sliced(const struct group *group, uint32_t hop)
{
    bool is = false;
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        is |= one_is_sliced(group->pe[p].n_rows[hop], block->edge_offsets);
        is |= one_is_sliced(block->n_sources, block->back_offsets);
    }
    return is;
}

/* Partial sums by weights reach about 1. */
static double tolerance_of_sum(void)
{
    return factors == NULL ? 16 * EPSILON : rounding(40, 1);
}

/* By each weighing. */
static void check_hop(const struct group *group, uint32_t hop, uint32_t n_columns, uint32_t shift_in,
                      uint32_t shift_out)
{
    OWNED(free_sum_levels)
    struct sum_levels l = make_sum_levels(group, hop, n_columns, n_columns, shift_in, shift_out);
    width = n_columns;
    for (int weighing = N_WEIGHINGS - 1; weighing >= MEAN; weighing--) {
        weigh(&group->partition->graph, weighing);
        const double largest = weighs_edges ? 4 : 1;
        const double slack = sliced(group, hop) ? largest : 0;
        check_sum(&aggregate, hop,
                  (struct sum_tolerance){slack * tolerance_of_sum(), slack * rounding(600, 1), largest}, &l);
    }
}

/* In seven parts some PEs have no rows. */
TEST(test_graphs)
{
    const uint32_t part_counts[] = {1, 4, 7};
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        const struct graph_shape shape = {.kind = graph,
                                          .n_vertices = 90,
                                          .self_loops = true,
                                          .directed = graph == GRAPH_POWER_LAW,
                                          .weighted = true};
        FIXTURE(worker_counts[graph % N_WORKER_COUNTS]);
        for (int i = 0; i < 3; i++) {
            OWNED(free_world) struct world w;
            make_world(&shape, SPLIT_UNEVEN, part_counts[i], &w);
            sample_train(&w, 2, SL_SAMPLE_NEIGHBOR, 20);
            check_hop(&w.group, 0, 7, 31, 31);
            check_hop(&w.group, 1, 7, 3, 2);
        }
    }
}

TEST(test_widths_and_chunks)
{
    const uint32_t widths[] = {1, 8, 33, 40, 132, 256};
    const uint32_t shifts[][2] = {{31, 31}, {4, 4}, {3, 1}};
    const struct graph_shape shape = power_law(300, 140, 0, true);
    FIXTURE(1);
    fixture_watch();
    OWNED(free_world) struct world w;
    make_world(&shape, SPLIT_METIS, 4, &w);
    sample_train(&w, 2, SL_SAMPLE_NEIGHBOR, 40);
    for (uint32_t k = 0; k < 6; k++) {
        for (uint32_t i = k % slow_stride(3); i < 3; i += slow_stride(3)) {
            check_hop(&w.group, 1, widths[k], shifts[i][0], shifts[i][1]);
        }
    }
}

/* A hub, most of whose neighbours are destinations if there are 400, so that as a source it has many of them. */
static void check_hub(uint32_t hub_degree, uint32_t n_parts, uint32_t n_seeds, uint32_t n_columns, uint32_t shift_in)
{
    struct graph_shape shape = power_law(hub_degree + 100, hub_degree, 0, true);
    shape.self_loops = true;
    FIXTURE(1);
    OWNED(free_world) struct world w;
    make_world(&shape, SPLIT_RANDOM, n_parts, &w);
    sample_hub(&w, n_seeds);
    check_hop(&w.group, 0, n_columns, shift_in, 8);
}

TEST(test_many_neighbours)
{
    check_hub(13000, 1, 400, 40, 31);
    check_hub(13000, 4, 400, 3, 31);
    check_hub(1500, 2, 400, 132, 9);
    check_hub(1500, 3, 400, 3, 10);
}

/* A hub with sources of more owners than a launch serves. */
TEST(many_owners)
{
    check_hub(500, MAX_PARTS, 1, 4, 31);
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
    width = WIDTH;
    for (uint64_t step = 0; step <= STEPS; step++) {
        OWNED(group_free) struct group group;
        group_sample(&partition, 1, &rules[step > 0], SEED, step, SEEDS, dataset.train.ids, &group);
        struct level x = make_level(&group, 1, WIDTH, 31);
        struct level m = make_level(&group, 0, WIDTH, 31);
        fill_level(&group, SEED, &x);
        plain_forward(&aggregate, &group, 0, &x, 0, &m);
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
    FIXTURE(1);
    OWNED(free_world) struct world w;
    make_world(&shape, SPLIT_RANDOM, 2, &w);
    sample_train(&w, 2, SL_SAMPLE_NEIGHBOR, 20);
    OWNED(free_sum_levels) struct sum_levels l = make_sum_levels(&w.group, 0, 2, 2, 3, 2);
    width = 2;
    if (edge_bytes > 0) {
        lengthen_edges(&w.group, edge_bytes);
    }
    weigh(&w.partition.graph, weighing);
    run.fastest_means = gpu_bytes > 0;
    run.gpu_bytes = gpu_bytes;
    for (int i = 0; i < 60; i++) {
        said_edges = UINT64_C(10) << i % 8;
        fill_level(&w.group, SEED + 1, &l.m[0]);
        fill_level(&w.group, SEED + 1, &l.m[1]);
        plain_forward(&aggregate, &w.group, 0, &l.x, i % 2, &l.m[0]);
        submit_forward(&aggregate, &w.group, 0, &l.x, i % 2, &l.m[1]);
        expect_levels("mean", &w.group, &l.m[1], &l.m[0], 16 * EPSILON);
    }
    said_edges = 100;
    for (uint32_t p = 0; edge_bytes > 0 && p < w.group.n_parts; p++) {
        munmap(w.group.pe[p].block[0].edge_sources, edge_bytes);
        w.group.pe[p].block[0].edge_sources = NULL;
    }
    edge_room = 0;
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

/* The sums over all in-neighbours of whole parts are those of blocks that hold all edges. at_once: columns, of which
 * every second part's rows have no others, as they come from another rank; what is no number is behind them. */
static void compare_full(const struct group *group, uint32_t at_once, int beta, struct sum_levels *l)
{
    struct handles *h = wrap_sum(&aggregate, group, 0, &l->x, &l->m[1]);
    const struct sl_rows *rows = h->rows[SLOT_SOURCES];
    const struct sl_rows *out = h->rows[SLOT_DESTINATIONS];
    struct sl_full_sources lists[MAX_PARTS];
    struct level some[MAX_SLOTS];
    const struct sl_vertex_factors all = {.factors = wrap_factors(h), .scale = SCALE};
    int n_some = 0;
    fill_level(group, SEED + 1, &l->m[0]);
    fill_level(group, SEED + 1, &l->m[1]);
    wrap_lists(h, lists);
    for (uint32_t j = 0; j < width; j += at_once, n_some++) {
        const uint32_t n = width - j < at_once ? width - j : at_once;
        uint32_t start[MAX_PARTS];
        struct sl_rows from[MAX_PARTS];
        some[n_some] = make_level(group, 0, at_once, l->x.pe[0].split.shift);
        set_level(group, (sl_real)NAN, &some[n_some]);
        const struct sl_rows *narrow = wrap_level(h, 2 + n_some, &some[n_some]);
        for (uint32_t q = 0; q < group->n_parts; q++) {
            for (uint32_t r = 0; r < l->x.pe[q].split.n_rows; r++) {
                memcpy(row_at(&some[n_some].pe[q], r), row_at(&l->x.pe[q], r) + j, n * sizeof(sl_real));
            }
            start[q] = q % 2 == 0 ? j : 0;
            from[q] = q % 2 == 0 ? rows[q] : narrow[q];
        }
        for (uint32_t p = 0; p < group->n_parts; p++) {
            lists[p].rows = from;
            lists[p].columns = (struct sl_full_columns){j, n, start};
            lists[p].weights = factors == NULL ? NULL : &all;
            lists[p].edge_weights = weighs_edges ? lists[p].edge_weights : NULL;
            for (uint32_t c = 0; c < out[p].split.n_chunks; c++) {
                expect_ok(sl_aggregate_full_submit(&head, &lists[p], c << out[p].split.shift, beta, out[p].chunk[c]));
            }
        }
    }
    unwrap(h);
    plain_forward(&aggregate, group, 0, &l->x, beta, &l->m[0]);
    expect_levels("sum of all", group, &l->m[1], &l->m[0],
                  sliced(group, 0) ? (weighs_edges ? 4 : 1) * tolerance_of_sum() : 0);
    for (int i = 0; i < n_some; i++) {
        free_level(group, &some[i]);
    }
}

/* By each weighing; where kernels are slow, by one of the two kinds. */
static void check_full(const struct graph_shape *shape, int split, uint32_t n_parts, uint32_t n_columns,
                       uint32_t at_once, uint32_t shift_in, uint32_t shift_out)
{
    OWNED(free_world) struct world w;
    make_world(shape, split, n_parts, &w);
    sample_all(&w);
    OWNED(free_sum_levels)
    struct sum_levels l = make_sum_levels(&w.group, 0, n_columns, n_columns, shift_in, shift_out);
    width = n_columns;
    for (uint32_t i = (n_parts + width) % slow_stride(2); i < N_WEIGHINGS; i += slow_stride(2)) {
        weigh(&w.partition.graph, N_WEIGHINGS - 1 - i);
        compare_full(&w.group, at_once, (n_parts + i) % 2, &l);
    }
    weigh(&w.partition.graph, MEAN);
}

TEST(test_full)
{
    struct graph_shape shape = power_law(300, 280, 0, true);
    shape.self_loops = shape.directed = true;
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        FIXTURE(worker_counts[w]);
        check_full(&shape, SPLIT_NONE, 1, 5, 5, 31, 31);
        check_full(&shape, SPLIT_RANDOM, 3, 5, 2, 4, 4);
        check_full(&shape, SPLIT_METIS, 4, 5, 2, 5, 5);
        check_full(&shape, SPLIT_UNEVEN, 7, 4, 1, 3, 3);
        check_full(&shape, SPLIT_RANDOM, 7, 12, 4, 0, 3); /* more chunks than a launch has parameters for */
        check_full(&shape, SPLIT_RANDOM, 7, 70, 35, 0, 3);
        check_full(&shape, SPLIT_RANDOM, 7, 128, 64, 0, 3);
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
    const struct sl_block block = {
        .edge_offsets = v, .edge_sources = v, .back_offsets = v, .back_rows = v, .request = v, .inverse = v};
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
