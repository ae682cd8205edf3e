/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sums/pull.h over whole partitions: sums have the bits of the plain sum along the list, whatever the dtypes
 * of rows and sums; as a pipeline uses them, they are each other's adjoints. */
#include "codelets/sums/pull.h"
#include "data/load.h"

#include "tests/support/hop_fixture.h"

#define SCALE 0.8

/* ---- a partition, its lists and what its vertices weigh ---- */

enum direction { IN, OUT, N_DIRECTIONS };

struct graph {
    struct world world;
    uint32_t n;                          /* vertices */
    const sl_vertex *first;              /* of each part */
    struct sl_graph lists[N_DIRECTIONS]; /* by renumbered id: in-neighbours, out-neighbours */
    uint16_t *part_of;
    sl_real *factors;
};

/* Whether sums multiply by the weights of edges. */
static bool weighted;

/* The edges of a graph the other way. */
static void reverse(const struct sl_graph *graph, struct sl_graph *out)
{
    FREED sl_vertex *from = need(graph->n_edges, sizeof *from);
    for (sl_vertex v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            from[e] = v;
        }
    }
    expect_ok(sl_graph_build(graph->n_vertices, graph->n_edges, from, graph->sources, graph->weights, false, out));
}

static void make_graph(struct graph_shape shape, int split, uint32_t n_parts, struct graph *g)
{
    shape.weighted = true;
    make_world(&shape, split, n_parts, &g->world);
    g->n = shape.n_vertices;
    g->first = g->world.partition.first;
    g->lists[IN] = g->world.partition.graph;
    reverse(&g->lists[IN], &g->lists[OUT]);
    g->factors = make_factors(&g->lists[IN]);
    g->part_of = need(g->n, sizeof *g->part_of);
    for (uint32_t q = 0; q < n_parts; q++) {
        for (sl_vertex v = g->first[q]; v < g->first[q + 1]; v++) {
            g->part_of[v] = (uint16_t)q;
        }
    }
}

static void free_graph(struct graph *g)
{
    free(g->part_of);
    free(g->factors);
    sl_graph_free(&g->lists[OUT]);
    free_world(&g->world);
}

static uint32_t size_of(const struct graph *g, uint32_t q)
{
    return g->first[q + 1] - g->first[q];
}

/* ---- rows by part ---- */

/* Parts are blocks of their own, so that a step over a part's border is seen. */
struct table {
    const struct graph *g;
    enum sl_dtype dtype; /* SL_DTYPE_REAL or SL_DTYPE_BF16 */
    uint32_t n_columns;
    void *part[SL_MAX_PARTS];
};

static struct table make_table(const struct graph *g, enum sl_dtype dtype, uint32_t n_columns)
{
    struct table table = {.g = g, .dtype = dtype, .n_columns = n_columns};
    for (uint32_t q = 0; q < g->world.partition.n_parts; q++) {
        size_t bytes = sl_dtype_bytes(dtype, (size_t)size_of(g, q) * n_columns);
        table.part[q] = memset(need(bytes, 1), 0xff, bytes); /* not a number */
    }
    return table;
}

static void free_table(struct table *table)
{
    for (uint32_t q = 0; q < table->g->world.partition.n_parts; q++) {
        free(table->part[q]);
    }
}

/* The address of an entry; its value. */
static void *at(const struct table *table, sl_vertex v, uint32_t j)
{
    uint32_t q = table->g->part_of[v];
    size_t i = (size_t)(v - table->g->first[q]) * table->n_columns + j;
    return (char *)table->part[q] + sl_dtype_bytes(table->dtype, i);
}

static sl_real value_at(const struct table *table, sl_vertex v, uint32_t j)
{
    const void *entry = at(table, v, j);
    return table->dtype == SL_DTYPE_BF16 ? sl_bf16_real(*(const sl_bf16 *)entry) : *(const sl_real *)entry;
}

/* A vertex has the same numbers whatever the partition and the dtype: noise in bf16. */
static void fill_table(const struct table *table, uint64_t seed)
{
    for (sl_vertex v = 0; v < table->g->n; v++) {
        for (uint32_t j = 0; j < table->n_columns; j++) {
            size_t i = (size_t)table->g->world.partition.dataset_ids[v] * table->n_columns + j;
            sl_bf16 x = sl_bf16_of((sl_real)noise(seed, i));
            if (table->dtype == SL_DTYPE_BF16) {
                *(sl_bf16 *)at(table, v, j) = x;
            } else {
                *(sl_real *)at(table, v, j) = sl_bf16_real(x);
            }
        }
    }
}

static double inner_tables(const struct table *a, const struct table *b)
{
    double sum = 0;
    for (uint32_t q = 0; q < a->g->world.partition.n_parts; q++) {
        sum += inner((size_t)size_of(a->g, q) * a->n_columns, a->part[q], b->part[q]);
    }
    return sum;
}

/* ---- one sum over all parts ---- */

/* Factors of a part in the sums of another part. */
enum factors {
    ALL_ONES,
    ALL_KINDS, /* 0, 1, 2, and another one in the sums of each part */
    ALL_ZEROS,
    SOME_TINY, /* in float the first is 0 */
    /* A pipeline's slots of parts, one after the other: */
    FRESH,    /* there already */
    STALE,    /* of an earlier epoch */
    FORWARD,  /* what <y, P x> has of the part, where later slots' gradients have gradient_factor */
    BACKWARD, /* the adjoint's */
};

#define N_SLOTS 3

static double gradient_factor;

static uint32_t slot_of(uint32_t part)
{
    return (part * 5 + 1) % N_SLOTS;
}

static double factor_of(enum factors factors, uint32_t part, uint32_t of)
{
    const bool fresh = slot_of(part) <= slot_of(of);
    switch (factors) {
    case ALL_KINDS: return (part + of) % 3;
    case ALL_ZEROS: return 0;
    case SOME_TINY: return part == 0 ? 1e-60 : 1;
    case FRESH: return fresh;
    case STALE: return !fresh;
    case FORWARD: return slot_of(part) == slot_of(of) ? 1 : fresh * gradient_factor;
    case BACKWARD: return factor_of(FORWARD, of, part);
    default: return 1;
    }
}

/* What is summed: a list's direction, its weights, and the factors of parts. */
struct sum {
    enum direction direction;
    enum sl_pull_weights weights;
    enum factors factors;
};

static starpu_data_handle_t wrap_part(struct handles *h, const struct table *table, uint32_t p)
{
    return wrap(h, sl_matrix_over(table->part[p], size_of(table->g, p), table->n_columns, table->dtype));
}

/* The lists of part p. */
static struct sl_pull lists_of(struct handles *h, const struct graph *g, const struct sum *sum, uint32_t p)
{
    const struct sl_graph *lists = &g->lists[sum->direction];
    const uint32_t n = size_of(g, p);
    const uint64_t *offsets = lists->offsets + g->first[p];
    const uint32_t n_edges = (uint32_t)(offsets[n] - offsets[0]);
    const float *edge_weights = weighted ? lists->weights + offsets[0] : NULL;
    return (struct sl_pull){.head = head,
                            .offsets = sl_matrix_of(wrap_offsets(h, offsets, n)),
                            .vertices =
                                sl_matrix_of(wrap_vector(h, lists->sources + offsets[0], n_edges, sizeof(sl_vertex))),
                            .edge_weights = sl_matrix_of(wrap_vector(h, edge_weights, n_edges, sizeof(float))),
                            .weights = sum->weights,
                            .scale = SCALE,
                            .first_id = g->first[p],
                            .n_parts = g->world.partition.n_parts};
}

static void pull(const struct sum *sum, const struct table *x, int beta, const struct table *out)
{
    const struct graph *g = x->g;
    const uint32_t n_parts = g->world.partition.n_parts;
    struct handles *h = need(1, sizeof *h);
    starpu_data_handle_t part_of = wrap(h, vector_of(g->part_of, g->n, sizeof *g->part_of));
    starpu_data_handle_t first = wrap(h, vector_of(g->first, n_parts + 1, sizeof(sl_vertex)));
    starpu_data_handle_t factors = wrap(h, rows_of(g->factors, g->n, 2));
    starpu_data_handle_t parts[SL_MAX_PARTS];
    for (uint32_t q = 0; q < n_parts; q++) {
        parts[q] = wrap_part(h, x, q);
    }
    for (uint32_t p = 0; p < n_parts; p++) {
        double factor[SL_MAX_PARTS];
        starpu_data_handle_t rows[SL_MAX_PARTS];
        struct sl_pull task = lists_of(h, g, sum, p);
        for (uint32_t q = 0; q < n_parts; q++) {
            factor[q] = factor_of(sum->factors, q, p);
            rows[q] = factor[q] == 0 ? NULL : parts[q];
        }
        task.part_of = sl_matrix_of(part_of);
        task.first = sl_matrix_of(first);
        task.factors = sl_matrix_of(sum->weights == SL_PULL_MEAN ? NULL : factors);
        expect_ok(sl_pull_submit(&task, 100, rows, factor, beta, wrap_part(h, out, p)));
    }
    unwrap(h);
}

/* out += the sum of vertex d along its list in sl_real, as codelets/sums/pull.h says it. */
static void plain_sum(const struct sum *sum, const struct table *x, sl_vertex d, sl_real *out)
{
    const struct graph *g = x->g;
    const struct sl_graph *lists = &g->lists[sum->direction];
    const uint64_t *offsets = lists->offsets;
    bool symmetric = sum->weights == SL_PULL_SYMMETRIC;
    sl_real share = symmetric ? (sl_real)SCALE * g->factors[2 * d] : 1 / (sl_real)(offsets[d + 1] - offsets[d]);
    sl_real k = (sl_real)factor_of(sum->factors, g->part_of[d], g->part_of[d]);
    for (uint32_t j = 0; symmetric && k != 0 && j < x->n_columns; j++) {
        out[j] += k * (share * g->factors[2 * d]) * value_at(x, d, j);
    }
    for (uint64_t e = offsets[d]; e < offsets[d + 1]; e++) {
        sl_vertex u = lists->sources[e];
        k = (sl_real)factor_of(sum->factors, g->part_of[u], g->part_of[d]);
        sl_real weight = sum->weights == SL_PULL_MEAN        ? k * share
                         : sum->weights == SL_PULL_MEAN_BACK ? k / g->factors[2 * u + 1]
                         : u == d                            ? 0
                                                             : k * (share * g->factors[2 * u]);
        weight *= weighted ? (sl_real)lists->weights[e] : 1;
        for (uint32_t j = 0; k != 0 && j < x->n_columns; j++) {
            out[j] += weight * value_at(x, u, j);
        }
    }
}

/* ---- tests ---- */

/* Onto what is there, or reading nothing of it; a sum in bf16 is rounded once. */
static void check_pull(const struct sum *sum, const struct table *x, enum sl_dtype out_dtype, int beta)
{
    struct table got = make_table(x->g, out_dtype, x->n_columns);
    OWNED(free_table) struct table before = make_table(x->g, SL_DTYPE_REAL, x->n_columns);
    FREED sl_real *row = need(x->n_columns, sizeof *row);
    fill_table(&before, SEED + 2);
    if (beta) {
        fill_table(&got, SEED + 2);
    }
    pull(sum, x, beta, &got);
    for (sl_vertex d = 0; d < x->g->n; d++) {
        for (uint32_t j = 0; j < x->n_columns; j++) {
            row[j] = beta ? value_at(&before, d, j) : 0;
        }
        plain_sum(sum, x, d, row);
        for (uint32_t j = 0; j < x->n_columns; j++) {
            sl_real wanted = out_dtype == SL_DTYPE_BF16 ? sl_bf16_real(sl_bf16_of(row[j])) : row[j];
            expect_near_at("sum", (size_t)d * x->n_columns + j, (double)value_at(&got, d, j), (double)wanted, 0);
        }
    }
    free_table(&got);
}

/* Means over in-neighbours, their adjoint over out-neighbours, symmetric weights both ways; in dtypes that may meet.
 * Each `stride`-th of all combinations, others at the next call. */
static void check_sums(const struct graph *g, uint32_t n_columns, uint32_t stride)
{
    static const struct sum sums[] = {
        {IN, SL_PULL_MEAN, ALL_KINDS},      {OUT, SL_PULL_MEAN_BACK, ALL_KINDS}, {IN, SL_PULL_SYMMETRIC, ALL_KINDS},
        {OUT, SL_PULL_SYMMETRIC, ALL_ONES}, {IN, SL_PULL_MEAN, SOME_TINY},       {IN, SL_PULL_SYMMETRIC, ALL_ZEROS},
    };
    static uint32_t first;
#ifdef __SANITIZE_ADDRESS__
    stride *= slow_stride(3); /* the sanitizer makes slow kernels slower */
#endif
    struct table x[] = {make_table(g, SL_DTYPE_REAL, n_columns), make_table(g, SL_DTYPE_BF16, n_columns)};
    fill_table(&x[0], SEED);
    fill_table(&x[1], SEED);
    for (uint32_t i = first++ % stride; i < 12 * sizeof sums / sizeof *sums; i += stride) {
        const uint32_t dtypes = i / 4 % 3; /* of rows and sums */
        weighted = i / 2 % 2;
        check_pull(&sums[i / 12], &x[dtypes > 0], dtypes == 2 ? SL_DTYPE_BF16 : SL_DTYPE_REAL, i % 2);
    }
    weighted = false;
    free_table(&x[0]);
    free_table(&x[1]);
}

/* At 7 there are parts without vertices. */
TEST(test_graphs)
{
    const uint32_t part_counts[] = {1, 2, 4, 7};
    FIXTURE(1);
    fixture_watch();
    for (int i = 0; i < 4 * N_GRAPHS; i++) {
        OWNED(free_graph) struct graph g;
        make_graph(
            (struct graph_shape){
                .kind = i / 4, .n_vertices = 90, .self_loops = true, .directed = i / 4 == GRAPH_POWER_LAW},
            SPLIT_UNEVEN, part_counts[i % 4], &g);
        check_sums(&g, 7, 5);
    }
}

static void make_hub(uint32_t n_vertices, uint32_t hub_degree, int split, uint32_t n_parts, struct graph *out)
{
    struct graph_shape shape = power_law(n_vertices, hub_degree, 0, true);
    shape.self_loops = shape.directed = true;
    make_graph(shape, split, n_parts, out);
}

/* Around a vector of floats, 16, two of them, and a stretch, 128; two and three stretches. */
TEST(test_widths)
{
    const uint32_t widths[] = {1, 3, 15, 16, 17, 31, 32, 33, 100, 128, 129, 256, 300};
    FIXTURE(3);
    OWNED(free_graph) struct graph g;
    make_hub(150, 100, SPLIT_METIS, 4, &g);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_sums(&g, widths[i], 5);
    }
}

/* 13,000 in-neighbours, in one part and in four, and none, and itself alone. */
TEST(test_many_neighbours)
{
    FIXTURE(1);
    for (uint32_t n_parts = 1; n_parts <= 4; n_parts += 3) {
        OWNED(free_graph) struct graph g;
        make_hub(14000, 13000, SPLIT_RANDOM, n_parts, &g);
        check_sums(&g, 3, 11);
    }
}

/* As many parts as there may be, some of them without vertices. */
TEST(test_many_parts)
{
    const uint32_t part_counts[] = {66, 130, SL_MAX_PARTS};
    FIXTURE(3);
    for (size_t i = 0; i < sizeof part_counts / sizeof *part_counts; i++) {
        OWNED(free_graph) struct graph g;
        make_hub(400, 140, SPLIT_UNEVEN, part_counts[i], &g);
        check_sums(&g, 5, 7);
    }
}

/* ---- as a pipeline uses it ---- */

/* <y, P x> = <P' y, x>. */
static void check_adjoint(const struct sum *forward, const struct sum *backward, const struct table *x,
                          const struct table *y)
{
    struct table m = make_table(x->g, SL_DTYPE_REAL, x->n_columns);
    OWNED(free_table) struct table g = make_table(x->g, SL_DTYPE_REAL, x->n_columns);
    pull(forward, x, 0, &m);
    pull(backward, y, 0, &g);
    double scale = sqrt(inner_tables(y, y) * inner_tables(&m, &m)) + 1;
    expect_near("<y, P x> = <P' y, x>", inner_tables(y, &m), inner_tables(&g, x), 8 * EPSILON * scale);
    assert_true(inner_tables(&m, &m) > 0);
    free_table(&m);
}

/* Fresh rows and stale ones are all rows. */
static void check_parts_of_a_sum(const struct table *x)
{
    OWNED(free_table) struct table m = make_table(x->g, SL_DTYPE_REAL, x->n_columns);
    pull(&(struct sum){IN, SL_PULL_MEAN, FRESH}, x, 0, &m);
    pull(&(struct sum){IN, SL_PULL_MEAN, STALE}, x, 1, &m);
    for (sl_vertex d = 0; d < x->g->n; d++) {
        sl_real row[9] = {0};
        plain_sum(&(struct sum){IN, SL_PULL_MEAN, ALL_ONES}, x, d, row);
        for (uint32_t j = 0; j < 9; j++) {
            expect_near_at("fresh + stale", d, (double)value_at(&m, d, j), (double)row[j], rounding(140, 4));
        }
    }
}

TEST(test_adjoint)
{
    static const double gradient_factors[] = {1, 0.5, 0};
    const struct sum mean = {IN, SL_PULL_MEAN, FORWARD}, mean_back = {OUT, SL_PULL_MEAN_BACK, BACKWARD};
    const struct sum symmetric = {IN, SL_PULL_SYMMETRIC, FORWARD};
    const struct sum symmetric_back = {OUT, SL_PULL_SYMMETRIC, BACKWARD};
    FIXTURE(1);
    for (uint32_t n_parts = 1; n_parts <= 16; n_parts += 5) {
        OWNED(free_graph) struct graph g;
        make_hub(300, 140, n_parts == 16 ? SPLIT_UNEVEN : SPLIT_RANDOM, n_parts, &g);
        OWNED(free_table) struct table x = make_table(&g, SL_DTYPE_REAL, 9);
        OWNED(free_table) struct table y = make_table(&g, SL_DTYPE_REAL, 9);
        fill_table(&x, SEED);
        fill_table(&y, SEED + 1);
        for (size_t i = 0; i < 2 * sizeof gradient_factors / sizeof *gradient_factors; i++) {
            gradient_factor = gradient_factors[i / 2];
            weighted = i % 2;
            check_adjoint(&mean, &mean_back, &x, &y);
            check_adjoint(&symmetric, &symmetric_back, &x, &y);
        }
        weighted = false;
        gradient_factor = 1; /* then it is the adjoint of what is fresh */
        check_adjoint(&(struct sum){IN, SL_PULL_MEAN, FRESH}, &mean_back, &x, &y);
        check_adjoint(&(struct sum){IN, SL_PULL_SYMMETRIC, FRESH}, &symmetric_back, &x, &y);
        check_parts_of_a_sum(&x);
    }
}

/* The time counts as the head says: aggregation, backward, evaluation. */
TEST(test_stages)
{
    static const enum sl_stage stages[][2] = {{SL_STAGE_SAMPLE, SL_STAGE_AGGREGATE},
                                              {SL_STAGE_BACKWARD, SL_STAGE_BACKWARD},
                                              {SL_STAGE_EVALUATE, SL_STAGE_EVALUATE}};
    FIXTURE(1);
    OWNED(free_graph) struct graph g;
    make_graph((struct graph_shape){.kind = GRAPH_PATH, .n_vertices = 30}, SPLIT_NONE, 1, &g);
    OWNED(free_table) struct table x = make_table(&g, SL_DTYPE_REAL, 5);
    fill_table(&x, SEED);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        double seconds[SL_N_STAGES];
        double all = 0;
        sl_run_log_reset(&run);
        head.stage = stages[i][0];
        check_pull(&(struct sum){IN, SL_PULL_MEAN, ALL_ONES}, &x, SL_DTYPE_REAL, 0);
        starpu_task_wait_for_all();
        sl_run_stage_seconds(&run, seconds);
        for (int k = 0; k < SL_N_STAGES; k++) {
            all += seconds[k];
        }
        assert_true(seconds[stages[i][1]] > 0 && all == seconds[stages[i][1]]);
    }
}

TEST_MAIN(NULL, NULL)
