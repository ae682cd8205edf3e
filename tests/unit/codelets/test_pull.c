/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sums/pull.h over whole partitions: sums have the bits of the plain sum along the list, whatever the dtypes
 * of rows and sums; as a pipeline uses them, they are each other's adjoints. */
#include "codelets/sums/pull.h"
#include "data/load.h"

#include "tests/support/group_fixture.h"
#include "tests/support/starpu_fixture.h"

#define SEED 47
#define SCALE 0.8

/* ---- a partition, its lists and what its vertices weigh ---- */

enum direction { IN, OUT, N_DIRECTIONS };

struct world {
    struct sl_dataset dataset;
    struct sl_partition partition;
    uint32_t n, n_parts;
    uint64_t *offsets[N_DIRECTIONS];   /* n + 1 */
    sl_vertex *vertices[N_DIRECTIONS]; /* in-neighbours, out-neighbours, by renumbered id */
    uint16_t *part_of;
    sl_real *factors;                  /* f, list */
    float *edge_weights[N_DIRECTIONS]; /* of each list's edges */
};

/* Whether sums multiply by the weights of edges. */
static bool weighted;

/* 0, or an eighth to seven eighths. */
static float weight_between(sl_vertex from, sl_vertex to)
{
    return (float)((from * 2654435761U + to * 40503U) >> 7 & 7) / 8;
}

/* Which vertices have v in their lists, in order. */
static void transpose(struct world *w)
{
    const uint64_t *offsets = w->offsets[IN];
    uint64_t n_edges = offsets[w->n];
    FREED uint64_t *next = need((size_t)w->n + 1, sizeof *next);
    w->offsets[OUT] = need((size_t)w->n + 1, sizeof *next);
    w->vertices[OUT] = need(n_edges, sizeof **w->vertices);
    for (uint64_t e = 0; e < n_edges; e++) {
        w->offsets[OUT][w->vertices[IN][e] + 1]++;
    }
    for (sl_vertex v = 0; v < w->n; v++) {
        w->offsets[OUT][v + 1] += w->offsets[OUT][v];
    }
    memcpy(next, w->offsets[OUT], w->n * sizeof *next);
    for (sl_vertex d = 0; d < w->n; d++) {
        for (uint64_t e = offsets[d]; e < offsets[d + 1]; e++) {
            w->vertices[OUT][next[w->vertices[IN][e]]++] = d;
        }
    }
}

static void weigh_edges(struct world *w)
{
    for (int way = IN; way < N_DIRECTIONS; way++) {
        const uint64_t *offsets = w->offsets[way];
        w->edge_weights[way] = need(offsets[w->n], sizeof(float));
        for (sl_vertex v = 0; v < w->n; v++) {
            for (uint64_t e = offsets[v]; e < offsets[v + 1]; e++) {
                sl_vertex u = w->vertices[way][e];
                w->edge_weights[way][e] = way == IN ? weight_between(u, v) : weight_between(v, u);
            }
        }
    }
}

static void weigh(struct world *w)
{
    w->factors = need(2 * (size_t)w->n, sizeof *w->factors);
    for (sl_vertex v = 0; v < w->n; v++) {
        uint32_t others = 0;
        for (uint64_t e = w->offsets[IN][v]; e < w->offsets[IN][v + 1]; e++) {
            others += w->vertices[IN][e] != v;
        }
        w->factors[2 * v] = (sl_real)(1 / sqrt(others + 1.0));
        w->factors[2 * v + 1] = (sl_real)(w->offsets[IN][v + 1] - w->offsets[IN][v]);
    }
}

static struct world *make_world(const struct graph_shape *shape, int split, uint32_t n_parts)
{
    struct world *w = need(1, sizeof *w);
    make_dataset(shape, &w->dataset);
    make_split_of(&w->dataset, split, n_parts, &w->partition);
    w->n = w->partition.graph.n_vertices;
    w->n_parts = n_parts;
    w->offsets[IN] = w->partition.graph.offsets;
    w->vertices[IN] = w->partition.graph.sources;
    transpose(w);
    weigh(w);
    weigh_edges(w);
    w->part_of = need(w->n, sizeof *w->part_of);
    for (uint32_t q = 0; q < n_parts; q++) {
        for (sl_vertex v = w->partition.first[q]; v < w->partition.first[q + 1]; v++) {
            w->part_of[v] = (uint16_t)q;
        }
    }
    return w;
}

static void free_world(struct world *w)
{
    free(w->offsets[OUT]);
    free(w->vertices[OUT]);
    free(w->part_of);
    free(w->factors);
    free(w->edge_weights[IN]);
    free(w->edge_weights[OUT]);
    sl_partition_free(&w->partition);
    sl_dataset_free(&w->dataset);
    free(w);
}

static uint32_t size_of(const struct world *w, uint32_t q)
{
    return w->partition.first[q + 1] - w->partition.first[q];
}

/* ---- rows by part ---- */

/* Parts are blocks of their own, so that a step over a part's border is seen. */
struct table {
    const struct world *w;
    enum sl_dtype dtype; /* SL_DTYPE_REAL or SL_DTYPE_BF16 */
    uint32_t n_columns;
    void *part[SL_MAX_GROUP];
};

static struct table make_table(const struct world *w, enum sl_dtype dtype, uint32_t n_columns)
{
    struct table table = {.w = w, .dtype = dtype, .n_columns = n_columns};
    for (uint32_t q = 0; q < w->n_parts; q++) {
        size_t bytes = sl_dtype_bytes(dtype, (size_t)size_of(w, q) * n_columns);
        table.part[q] = memset(need(bytes, 1), 0xff, bytes); /* not a number */
    }
    return table;
}

static void free_table(struct table *table)
{
    for (uint32_t q = 0; q < table->w->n_parts; q++) {
        free(table->part[q]);
    }
}

/* The address of an entry; its value. */
static void *at(const struct table *table, sl_vertex v, uint32_t j)
{
    uint32_t q = table->w->part_of[v];
    size_t i = (size_t)(v - table->w->partition.first[q]) * table->n_columns + j;
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
    for (sl_vertex v = 0; v < table->w->n; v++) {
        for (uint32_t j = 0; j < table->n_columns; j++) {
            size_t i = (size_t)table->w->partition.dataset_ids[v] * table->n_columns + j;
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
    for (uint32_t q = 0; q < a->w->n_parts; q++) {
        sum += inner((size_t)size_of(a->w, q) * a->n_columns, a->part[q], b->part[q]);
    }
    return sum;
}

/* ---- one sum over all parts ---- */

/* What is summed: a list's direction, its weights, and which factor each part has in the sums of each. */
struct sum {
    enum direction direction;
    enum sl_pull_weights weights;
    double (*factor)(const struct world *w, uint32_t part, uint32_t of);
};

static double all_ones(const struct world *w, uint32_t part, uint32_t of)
{
    (void)w, (void)part, (void)of;
    return 1;
}

/* 0, 1, 2, and another one in the sums of each part. */
static double all_kinds(const struct world *w, uint32_t part, uint32_t of)
{
    (void)w;
    return (part + of) % 3;
}

static double all_zeros(const struct world *w, uint32_t part, uint32_t of)
{
    (void)w, (void)part, (void)of;
    return 0;
}

/* In float the first is 0. */
static double some_tiny(const struct world *w, uint32_t part, uint32_t of)
{
    (void)w, (void)of;
    return part == 0 ? 1e-60 : 1;
}

/* A world's tables and lists as handles. */
struct handles {
    unsigned n;
    starpu_data_handle_t all[5 * SL_MAX_GROUP + 3];
    uint64_t *offsets[SL_MAX_GROUP];
};

static starpu_data_handle_t wrap(struct handles *h, starpu_data_handle_t handle)
{
    return h->all[h->n++] = handle;
}

static starpu_data_handle_t wrap_part(struct handles *h, const struct table *table, uint32_t p)
{
    return wrap(h, sl_matrix_over(table->part[p], size_of(table->w, p), table->n_columns, table->dtype));
}

/* The lists of part p; offsets begin beyond 2^32. */
static struct sl_pull lists_of(struct handles *h, const struct world *w, const struct sum *sum, uint32_t p)
{
    const uint32_t first = w->partition.first[p];
    const uint32_t n = size_of(w, p);
    const uint64_t *offsets = w->offsets[sum->direction] + first;
    const uint32_t n_edges = (uint32_t)(offsets[n] - offsets[0]);
    h->offsets[p] = need(n + 1, sizeof(uint64_t));
    for (uint32_t i = 0; i <= n; i++) {
        h->offsets[p][i] = offsets[i] + (UINT64_C(5) << 32);
    }
    const float *edge_weights = w->edge_weights[sum->direction] + offsets[0];
    return (struct sl_pull){
        .offsets = wrap(h, vector_of(h->offsets[p], n + 1, sizeof *offsets)),
        .vertices = wrap(h, vector_of(w->vertices[sum->direction] + offsets[0], n_edges, sizeof(sl_vertex))),
        .edge_weights = weighted ? wrap(h, vector_of(edge_weights, n_edges, sizeof(float))) : NULL,
        .weights = sum->weights,
        .scale = SCALE,
        .first_id = first,
        .n_edges = 100,
        .n_parts = w->n_parts};
}

static void pull(const struct sum *sum, const struct table *x, int beta, const struct table *out)
{
    const struct world *w = x->w;
    FREED struct handles *h = need(1, sizeof *h);
    starpu_data_handle_t part_of = wrap(h, vector_of(w->part_of, w->n, sizeof *w->part_of));
    starpu_data_handle_t first = wrap(h, vector_of(w->partition.first, w->n_parts + 1, sizeof(sl_vertex)));
    starpu_data_handle_t factors = wrap(h, rows_of(w->factors, w->n, 2));
    starpu_data_handle_t parts[SL_MAX_GROUP];
    for (uint32_t q = 0; q < w->n_parts; q++) {
        parts[q] = wrap_part(h, x, q);
    }
    for (uint32_t p = 0; p < w->n_parts; p++) {
        double factor[SL_MAX_GROUP];
        starpu_data_handle_t rows[SL_MAX_GROUP];
        struct sl_pull task = lists_of(h, w, sum, p);
        for (uint32_t q = 0; q < w->n_parts; q++) {
            factor[q] = sum->factor(w, q, p);
            rows[q] = factor[q] == 0 ? NULL : parts[q];
        }
        task.part_of = part_of;
        task.first = first;
        task.factors = sum->weights == SL_PULL_MEAN ? NULL : factors;
        task.rows = rows;
        task.factor = factor;
        expect_ok(sl_pull_submit(&head, &task, beta, wrap_part(h, out, p)));
    }
    unregister(h->n, h->all);
    for (uint32_t p = 0; p < w->n_parts; p++) {
        free(h->offsets[p]);
    }
    expect_no_failure();
}

/* out += the sum of vertex d along its list in sl_real, as codelets/sums/pull.h says it. */
static void plain_sum(const struct sum *sum, const struct table *x, sl_vertex d, sl_real *out)
{
    const struct world *w = x->w;
    const uint64_t *offsets = w->offsets[sum->direction];
    bool symmetric = sum->weights == SL_PULL_SYMMETRIC;
    sl_real share = symmetric ? (sl_real)SCALE * w->factors[2 * d] : 1 / (sl_real)(offsets[d + 1] - offsets[d]);
    sl_real k = (sl_real)sum->factor(w, w->part_of[d], w->part_of[d]);
    for (uint32_t j = 0; symmetric && k != 0 && j < x->n_columns; j++) {
        out[j] += k * (share * w->factors[2 * d]) * value_at(x, d, j);
    }
    for (uint64_t e = offsets[d]; e < offsets[d + 1]; e++) {
        sl_vertex u = w->vertices[sum->direction][e];
        k = (sl_real)sum->factor(w, w->part_of[u], w->part_of[d]);
        sl_real weight = sum->weights == SL_PULL_MEAN        ? k * share
                         : sum->weights == SL_PULL_MEAN_BACK ? k / w->factors[2 * u + 1]
                         : u == d                            ? 0
                                                             : k * (share * w->factors[2 * u]);
        weight *= weighted ? (sl_real)w->edge_weights[sum->direction][e] : 1;
        for (uint32_t j = 0; k != 0 && j < x->n_columns; j++) {
            out[j] += weight * value_at(x, u, j);
        }
    }
}

/* ---- tests ---- */

/* Onto what is there, or reading nothing of it; a sum in bf16 is rounded once. */
static void check_sum(const struct sum *sum, const struct table *x, enum sl_dtype out_dtype, int beta)
{
    struct table got = make_table(x->w, out_dtype, x->n_columns);
    OWNED(free_table) struct table before = make_table(x->w, SL_DTYPE_REAL, x->n_columns);
    FREED sl_real *row = need(x->n_columns, sizeof *row);
    fill_table(&before, SEED + 2);
    if (beta) {
        fill_table(&got, SEED + 2);
    }
    pull(sum, x, beta, &got);
    for (sl_vertex d = 0; d < x->w->n; d++) {
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
static void check_sums(const struct world *w, uint32_t n_columns, uint32_t stride)
{
    static const struct sum sums[] = {
        {IN, SL_PULL_MEAN, all_kinds},      {OUT, SL_PULL_MEAN_BACK, all_kinds}, {IN, SL_PULL_SYMMETRIC, all_kinds},
        {OUT, SL_PULL_SYMMETRIC, all_ones}, {IN, SL_PULL_MEAN, some_tiny},       {IN, SL_PULL_SYMMETRIC, all_zeros},
    };
    static uint32_t first;
    struct table x[] = {make_table(w, SL_DTYPE_REAL, n_columns), make_table(w, SL_DTYPE_BF16, n_columns)};
    fill_table(&x[0], SEED);
    fill_table(&x[1], SEED);
    for (uint32_t i = first++ % stride; i < 12 * sizeof sums / sizeof *sums; i += stride) {
        const uint32_t dtypes = i / 4 % 3; /* of rows and sums */
        weighted = i / 2 % 2;
        check_sum(&sums[i / 12], &x[dtypes > 0], dtypes == 2 ? SL_DTYPE_BF16 : SL_DTYPE_REAL, i % 2);
    }
    weighted = false;
    free_table(&x[0]);
    free_table(&x[1]);
}

/* At 7 there are parts without vertices. */
TEST(test_graphs)
{
    const uint32_t part_counts[] = {1, 2, 4, 7};
    fixture_start(1);
    fixture_watch();
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {
            .kind = graph, .n_vertices = 90, .self_loops = true, .directed = graph == GRAPH_POWER_LAW};
        for (size_t i = 0; i < sizeof part_counts / sizeof *part_counts; i++) {
            struct world *w = make_world(&shape, SPLIT_UNEVEN, part_counts[i]);
            check_sums(w, 7, 5);
            free_world(w);
        }
    }
    fixture_stop();
}

/* Around a vector of floats, 16, two of them, and a stretch, 128; two and three stretches. */
TEST(test_widths)
{
    const uint32_t widths[] = {1, 3, 15, 16, 17, 31, 32, 33, 100, 128, 129, 256, 300};
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 150, .hub_degree = 100, .self_loops = true, .directed = true};
    fixture_start(3);
    struct world *w = make_world(&shape, SPLIT_METIS, 4);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_sums(w, widths[i], 5);
    }
    free_world(w);
    fixture_stop();
}

/* 13,000 in-neighbours, in one part and in four, and none, and itself alone. */
TEST(test_many_neighbours)
{
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 14000, .hub_degree = 13000, .self_loops = true, .directed = true};
    fixture_start(1);
    for (uint32_t n_parts = 1; n_parts <= 4; n_parts += 3) {
        struct world *w = make_world(&shape, SPLIT_RANDOM, n_parts);
        check_sums(w, 3, 11);
        free_world(w);
    }
    fixture_stop();
}

/* As many parts as there may be, some of them without vertices. */
TEST(test_many_parts)
{
    const uint32_t part_counts[] = {66, 130, SL_MAX_GROUP};
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 400, .hub_degree = 140, .self_loops = true, .directed = true};
    fixture_start(3);
    for (size_t i = 0; i < sizeof part_counts / sizeof *part_counts; i++) {
        struct world *w = make_world(&shape, SPLIT_UNEVEN, part_counts[i]);
        check_sums(w, 5, 7);
        free_world(w);
    }
    fixture_stop();
}

/* ---- as a pipeline uses it: slots of parts, one after the other ---- */

#define N_SLOTS 3

static double gradient_factor;

static uint32_t slot_of(uint32_t part)
{
    return (part * 5 + 1) % N_SLOTS;
}

/* Of u's part in a sum of d's: there already. */
static double fresh(const struct world *w, uint32_t u, uint32_t d)
{
    (void)w;
    return slot_of(u) <= slot_of(d);
}

/* Of an earlier epoch. */
static double stale(const struct world *w, uint32_t u, uint32_t d)
{
    return 1 - fresh(w, u, d);
}

/* What <y, P x> has of u's part, where later slots' gradients have their factor. */
static double forward_factor(const struct world *w, uint32_t u, uint32_t d)
{
    return slot_of(u) == slot_of(d) ? 1 : fresh(w, u, d) * gradient_factor;
}

/* Of d's part in a gradient of u's. */
static double backward_factor(const struct world *w, uint32_t d, uint32_t u)
{
    return forward_factor(w, u, d);
}

/* <y, P x> = <P' y, x>. */
static void check_adjoint(const struct sum *forward, const struct sum *backward, const struct table *x,
                          const struct table *y)
{
    struct table m = make_table(x->w, SL_DTYPE_REAL, x->n_columns);
    OWNED(free_table) struct table g = make_table(x->w, SL_DTYPE_REAL, x->n_columns);
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
    OWNED(free_table) struct table m = make_table(x->w, SL_DTYPE_REAL, x->n_columns);
    pull(&(struct sum){IN, SL_PULL_MEAN, fresh}, x, 0, &m);
    pull(&(struct sum){IN, SL_PULL_MEAN, stale}, x, 1, &m);
    for (sl_vertex d = 0; d < x->w->n; d++) {
        sl_real row[9] = {0};
        plain_sum(&(struct sum){IN, SL_PULL_MEAN, all_ones}, x, d, row);
        for (uint32_t j = 0; j < 9; j++) {
            expect_near_at("fresh + stale", d, (double)value_at(&m, d, j), (double)row[j], rounding(140, 4));
        }
    }
}

TEST(test_adjoint)
{
    static const double gradient_factors[] = {1, 0.5, 0};
    fixture_start(1);
    for (uint32_t n_parts = 1; n_parts <= 16; n_parts += 5) {
        struct graph_shape shape = {
            .kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .self_loops = true, .directed = true};
        struct world *w = make_world(&shape, n_parts == 16 ? SPLIT_UNEVEN : SPLIT_RANDOM, n_parts);
        struct table x = make_table(w, SL_DTYPE_REAL, 9);
        struct table y = make_table(w, SL_DTYPE_REAL, 9);
        fill_table(&x, SEED);
        fill_table(&y, SEED + 1);
        for (size_t i = 0; i < 2 * sizeof gradient_factors / sizeof *gradient_factors; i++) {
            gradient_factor = gradient_factors[i / 2];
            weighted = i % 2;
            check_adjoint(&(struct sum){IN, SL_PULL_MEAN, forward_factor},
                          &(struct sum){OUT, SL_PULL_MEAN_BACK, backward_factor}, &x, &y);
            check_adjoint(&(struct sum){IN, SL_PULL_SYMMETRIC, forward_factor},
                          &(struct sum){OUT, SL_PULL_SYMMETRIC, backward_factor}, &x, &y);
        }
        weighted = false;
        gradient_factor = 1; /* then it is the adjoint of what is fresh */
        check_adjoint(&(struct sum){IN, SL_PULL_MEAN, fresh}, &(struct sum){OUT, SL_PULL_MEAN_BACK, backward_factor},
                      &x, &y);
        check_adjoint(&(struct sum){IN, SL_PULL_SYMMETRIC, fresh},
                      &(struct sum){OUT, SL_PULL_SYMMETRIC, backward_factor}, &x, &y);
        check_parts_of_a_sum(&x);
        free_table(&x);
        free_table(&y);
        free_world(w);
    }
    fixture_stop();
}

/* The time counts as the head says: aggregation, backward, evaluation. */
TEST(test_stages)
{
    static const enum sl_stage stages[][2] = {{SL_STAGE_SAMPLE, SL_STAGE_AGGREGATE},
                                              {SL_STAGE_BACKWARD, SL_STAGE_BACKWARD},
                                              {SL_STAGE_EVALUATE, SL_STAGE_EVALUATE}};
    const struct graph_shape shape = {.kind = GRAPH_PATH, .n_vertices = 30};
    fixture_start(1);
    struct world *w = make_world(&shape, SPLIT_NONE, 1);
    struct table x = make_table(w, SL_DTYPE_REAL, 5);
    fill_table(&x, SEED);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        double seconds[SL_N_STAGES];
        double all = 0;
        sl_run_log_reset(&run);
        head.stage = stages[i][0];
        check_sum(&(struct sum){IN, SL_PULL_MEAN, all_ones}, &x, SL_DTYPE_REAL, 0);
        starpu_task_wait_for_all();
        sl_run_stage_seconds(&run, seconds);
        for (int k = 0; k < SL_N_STAGES; k++) {
            all += seconds[k];
        }
        assert_true(seconds[stages[i][1]] > 0 && all == seconds[stages[i][1]]);
    }
    free_table(&x);
    free_world(w);
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
