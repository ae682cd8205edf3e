/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/pull.h over whole partitions: sums and their adjoints against plain loops in double, to the bit against
 * the plain sum along the list, and against each other; of rows in bf16 to the bit against those of the same rows
 * in float; launchers and submissions against the kernel. */
#include "codelets/pull.h"
#include "data/load.h"

#include "tests/support/group_fixture.h"
#include "tests/support/order_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

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
    sl_real *factors; /* f, list */
    double *exact_f;
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
    uint64_t *next = need((size_t)w->n + 1, sizeof *next);
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
    free(next);
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
    w->exact_f = need(w->n, sizeof *w->exact_f);
    for (sl_vertex v = 0; v < w->n; v++) {
        uint32_t others = 0;
        for (uint64_t e = w->offsets[IN][v]; e < w->offsets[IN][v + 1]; e++) {
            others += w->vertices[IN][e] != v;
        }
        w->exact_f[v] = 1 / sqrt(others + 1.0);
        w->factors[2 * v] = (sl_real)w->exact_f[v];
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
    free(w->exact_f);
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
    uint32_t n_columns;
    sl_real *part[SL_MAX_GROUP];
};

/* All not a number. */
static struct table make_table(const struct world *w, uint32_t n_columns)
{
    struct table table = {.w = w, .n_columns = n_columns};
    for (uint32_t q = 0; q < w->n_parts; q++) {
        size_t n = (size_t)size_of(w, q) * n_columns;
        table.part[q] = need(n, sizeof(sl_real));
        memset(table.part[q], 0xff, n * sizeof(sl_real));
    }
    return table;
}

static void free_table(struct table *table)
{
    for (uint32_t q = 0; q < table->w->n_parts; q++) {
        free(table->part[q]);
    }
}

static sl_real *row_at(const struct table *table, sl_vertex v)
{
    uint32_t q = table->w->part_of[v];
    return table->part[q] + (size_t)(v - table->w->partition.first[q]) * table->n_columns;
}

/* A vertex has the same numbers whatever the partition: noise, or all ones where seed is 0. */
static void fill_table(const struct table *table, uint64_t seed)
{
    for (sl_vertex v = 0; v < table->w->n; v++) {
        for (uint32_t j = 0; j < table->n_columns; j++) {
            size_t i = (size_t)table->w->partition.dataset_ids[v] * table->n_columns + j;
            row_at(table, v)[j] = seed == 0 ? 1 : (sl_real)noise(seed, i);
        }
    }
}

static void set_table(const struct table *table, sl_real x)
{
    for (uint32_t q = 0; q < table->w->n_parts; q++) {
        for (size_t i = 0; i < (size_t)size_of(table->w, q) * table->n_columns; i++) {
            table->part[q][i] = x;
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

static void expect_same_tables(const char *label, const struct table *got, const struct table *wanted)
{
    for (uint32_t q = 0; q < got->w->n_parts; q++) {
        expect_same(label, (size_t)size_of(got->w, q) * got->n_columns, sizeof(sl_real), got->part[q], wanted->part[q]);
    }
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

static struct sl_pull_lists lists_of(const struct world *w, const struct sum *sum, uint32_t p)
{
    uint32_t first = w->partition.first[p];
    const uint64_t *offsets = w->offsets[sum->direction] + first;
    return (struct sl_pull_lists){.n_rows = size_of(w, p),
                                  .first_id = first,
                                  .offsets = offsets,
                                  .vertices = w->vertices[sum->direction] + offsets[0],
                                  .part_of = w->part_of,
                                  .first = w->partition.first,
                                  .factors = sum->weights == SL_PULL_MEAN ? NULL : w->factors,
                                  .edge_weights = weighted ? w->edge_weights[sum->direction] + offsets[0] : NULL,
                                  .weights = sum->weights,
                                  .scale = (sl_real)SCALE};
}

static struct sl_pull_parts parts_of(const struct table *x, const struct sum *sum, uint32_t p)
{
    struct sl_pull_parts parts = {0};
    for (uint32_t q = 0; q < x->w->n_parts; q++) {
        parts.factor[q] = (sl_real)sum->factor(x->w, q, p);
        parts.rows[q] = parts.factor[q] == 0 ? NULL : x->part[q];
    }
    return parts;
}

static void pull(const struct sum *sum, const struct table *x, int beta, const struct table *out)
{
    for (uint32_t p = 0; p < x->w->n_parts; p++) {
        struct sl_pull_lists lists = lists_of(x->w, sum, p);
        struct sl_pull_parts parts = parts_of(x, sum, p);
        sl_pull_cpu(SL_DTYPE_REAL, &lists, &parts, x->n_columns, beta, SL_DTYPE_REAL, out->part[p]);
    }
}

/* ---- the same in plain loops ---- */

/* The weight of x[u] in the sum of d, but for factors of parts; of d's own term where u is d and `own`. */
static double weight_of(const struct world *w, const struct sum *sum, sl_vertex d, sl_vertex u, bool own)
{
    const uint64_t *offsets = w->offsets[IN];
    switch (sum->weights) {
    case SL_PULL_MEAN: return 1 / (double)(w->offsets[sum->direction][d + 1] - w->offsets[sum->direction][d]);
    case SL_PULL_MEAN_BACK: return 1 / (double)(offsets[u + 1] - offsets[u]);
    case SL_PULL_SYMMETRIC: break;
    }
    return u == d && !own ? 0 : SCALE * w->exact_f[d] * w->exact_f[u];
}

static void add_to(const struct table *x, double weight, sl_vertex u, double *out)
{
    for (uint32_t j = 0; weight != 0 && j < x->n_columns; j++) {
        out[j] += weight * (double)row_at(x, u)[j];
    }
}

static double *reference(const struct sum *sum, const struct table *x)
{
    const struct world *w = x->w;
    double *out = need((size_t)w->n * x->n_columns, sizeof *out);
    for (sl_vertex d = 0; d < w->n; d++) {
        double *row = out + (size_t)d * x->n_columns;
        uint32_t p = w->part_of[d];
        for (uint64_t e = w->offsets[sum->direction][d]; e < w->offsets[sum->direction][d + 1]; e++) {
            sl_vertex u = w->vertices[sum->direction][e];
            double edge = weighted ? (double)w->edge_weights[sum->direction][e] : 1;
            add_to(x, edge * sum->factor(w, w->part_of[u], p) * weight_of(w, sum, d, u, false), u, row);
        }
        if (sum->weights == SL_PULL_SYMMETRIC) {
            add_to(x, sum->factor(w, p, p) * weight_of(w, sum, d, d, true), d, row);
        }
    }
    return out;
}

static void expect_table(const char *label, const struct table *got, const double *wanted, double added,
                         double tolerance)
{
    for (sl_vertex v = 0; v < got->w->n; v++) {
        for (uint32_t j = 0; j < got->n_columns; j++) {
            size_t at = (size_t)v * got->n_columns + j;
            expect_near_at(label, at, (double)row_at(got, v)[j], wanted[at] + added, tolerance);
        }
    }
}

/* ---- kernels ---- */

/* Onto nothing, where there were no numbers, and onto 3. Of the mean and of symmetric weights partial sums keep
 * below about 4, whatever the number of neighbours; of the adjoint it is the out-neighbours that decide. */
static void check_sum(const struct sum *sum, const struct table *x, size_t longest)
{
    double tolerance = sum->weights == SL_PULL_MEAN ? rounding(8, 2) : rounding(longest, 4);
    struct table out = make_table(x->w, x->n_columns);
    double *wanted = reference(sum, x);
    pull(sum, x, 0, &out);
    expect_table("sum", &out, wanted, 0, tolerance);
    set_table(&out, 3);
    pull(sum, x, 1, &out);
    expect_table("3 + sum", &out, wanted, 3, tolerance + rounding(longest, 3));
    free(wanted);
    free_table(&out);
}

/* By all weights: means over in-neighbours, their adjoint over out-neighbours, and symmetric ones both ways. */
static void check_sums(const struct world *w, uint32_t n_columns, size_t longest)
{
    static const struct sum sums[] = {
        {IN, SL_PULL_MEAN, all_kinds},      {OUT, SL_PULL_MEAN_BACK, all_kinds}, {IN, SL_PULL_SYMMETRIC, all_kinds},
        {OUT, SL_PULL_SYMMETRIC, all_ones}, {IN, SL_PULL_MEAN, all_ones},
    };
    struct table x = make_table(w, n_columns);
    fill_table(&x, SEED);
    for (size_t i = 0; i < 2 * sizeof sums / sizeof *sums; i++) {
        weighted = i % 2;
        check_sum(&sums[i / 2], &x, longest);
    }
    weighted = false;
    free_table(&x);
}

static void test_graphs(void **state)
{
    (void)state;
    const uint32_t part_counts[] = {1, 2, 4, 7};
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {
            .kind = graph, .n_vertices = 90, .self_loops = true, .directed = graph == GRAPH_POWER_LAW};
        for (size_t i = 0; i < sizeof part_counts / sizeof *part_counts; i++) {
            struct world *w =
                make_world(&shape, SPLIT_UNEVEN, part_counts[i]); /* at 7 there are parts without vertices */
            check_sums(w, 7, 90);
            free_world(w);
        }
    }
}

/* Around a vector of floats, 16, two of them, and a stretch, 128; two and three stretches. */
static const uint32_t widths[] = {1, 3, 15, 16, 17, 31, 32, 33, 100, 128, 129, 256, 300};

static void test_widths(void **state)
{
    (void)state;
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .self_loops = true, .directed = true};
    struct world *w = make_world(&shape, SPLIT_METIS, 4);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        check_sums(w, widths[i], 140);
    }
    free_world(w);
}

/* Ones, where each term weighs 1: every sum counts its terms, exactly, a vertex' own once. */
static void check_counts(struct world *w)
{
    struct table x = make_table(w, 2);
    struct table out = make_table(w, 2);
    fill_table(&x, 0);
    for (sl_vertex v = 0; v < 2 * w->n; v++) {
        w->factors[v] = 1;
    }
    for (int weights = SL_PULL_MEAN_BACK; weights <= SL_PULL_SYMMETRIC; weights++) {
        for (enum direction direction = IN; direction < N_DIRECTIONS; direction++) {
            struct sum sum = {direction, weights, all_kinds};
            for (uint32_t p = 0; p < w->n_parts; p++) {
                struct sl_pull_lists lists = lists_of(w, &sum, p);
                struct sl_pull_parts parts = parts_of(&x, &sum, p);
                lists.scale = 1;
                sl_pull_cpu(SL_DTYPE_REAL, &lists, &parts, 2, 0, SL_DTYPE_REAL, out.part[p]);
            }
            for (sl_vertex d = 0; d < w->n; d++) {
                bool symmetric = weights == SL_PULL_SYMMETRIC;
                double n = symmetric ? all_kinds(w, w->part_of[d], w->part_of[d]) : 0;
                for (uint64_t e = w->offsets[direction][d]; e < w->offsets[direction][d + 1]; e++) {
                    sl_vertex u = w->vertices[direction][e];
                    n += symmetric && u == d ? 0 : all_kinds(w, w->part_of[u], w->part_of[d]);
                }
                expect_near_at("count", d, (double)row_at(&out, d)[1], n, 0);
            }
        }
    }
    free_table(&x);
    free_table(&out);
}

static void test_counts(void **state)
{
    (void)state;
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {.kind = graph, .n_vertices = 90, .self_loops = true, .directed = true};
        for (uint32_t n_parts = 1; n_parts <= 7; n_parts += 3) {
            struct world *w = make_world(&shape, SPLIT_UNEVEN, n_parts);
            check_counts(w);
            free_world(w);
        }
    }
}

/* 13,000 in-neighbours, in one part and in four, and none, and itself alone. */
static void test_many_neighbours(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 14000, .hub_degree = 13000, .directed = true};
    for (uint32_t n_parts = 1; n_parts <= 4; n_parts += 3) {
        struct world *w = make_world(&shape, SPLIT_RANDOM, n_parts);
        const sl_vertex *ids = w->partition.new_ids;
        struct sum mean = {IN, SL_PULL_MEAN, all_ones};
        struct table x = make_table(w, 1);
        struct table out = make_table(w, 1);
        check_sums(w, 3, 13000);
        fill_table(&x, 0);
        pull(&mean, &x, 0, &out);
        expect_near("a mean of ones", (double)*row_at(&out, ids[7000]), 1, 13000 * EPSILON / 2);
        expect_near("no neighbours", (double)*row_at(&out, ids[13999]), 0, 0);
        expect_near("itself", (double)*row_at(&out, ids[13998]), 1, 0);
        free_table(&x);
        free_table(&out);
        check_counts(w);
        free_world(w);
    }
}

/* The sum of vertex d along its list in sl_real, as codelets/pull.h says it. */
static void plain_sum(const struct sum *sum, const struct table *x, sl_vertex d, sl_real *out)
{
    const struct world *w = x->w;
    const uint64_t *offsets = w->offsets[sum->direction];
    bool symmetric = sum->weights == SL_PULL_SYMMETRIC;
    sl_real share = symmetric ? (sl_real)SCALE * w->factors[2 * d] : 1 / (sl_real)(offsets[d + 1] - offsets[d]);
    sl_real k = (sl_real)sum->factor(w, w->part_of[d], w->part_of[d]);
    memset(out, 0, x->n_columns * sizeof *out);
    for (uint32_t j = 0; symmetric && k != 0 && j < x->n_columns; j++) {
        out[j] += k * (share * w->factors[2 * d]) * row_at(x, d)[j];
    }
    for (uint64_t e = offsets[d]; e < offsets[d + 1]; e++) {
        sl_vertex u = w->vertices[sum->direction][e];
        k = (sl_real)sum->factor(w, w->part_of[u], w->part_of[d]);
        sl_real weight = sum->weights == SL_PULL_MEAN        ? k * share
                         : sum->weights == SL_PULL_MEAN_BACK ? k / w->factors[2 * u + 1]
                         : u == d                            ? 0
                                                             : k * (share * w->factors[2 * u]);
        for (uint32_t j = 0; k != 0 && j < x->n_columns; j++) {
            out[j] += weight * row_at(x, u)[j];
        }
    }
}

/* The bits are those of the plain sum, each time. */
static void test_bits(void **state)
{
    (void)state;
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .self_loops = true, .directed = true};
    const struct sum sums[] = {
        {IN, SL_PULL_MEAN, all_kinds}, {OUT, SL_PULL_MEAN_BACK, all_kinds}, {IN, SL_PULL_SYMMETRIC, all_kinds}};
    for (uint32_t n_parts = 1; n_parts <= 4; n_parts += 3) {
        struct world *w = make_world(&shape, SPLIT_RANDOM, n_parts);
        struct table x = make_table(w, 5);
        struct table out[2] = {make_table(w, 5), make_table(w, 5)};
        fill_table(&x, SEED);
        for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
            pull(&sums[i], &x, 0, &out[0]);
            pull(&sums[i], &x, 0, &out[1]);
            expect_same_tables("again", &out[1], &out[0]);
            for (sl_vertex d = 0; d < w->n; d++) {
                sl_real row[5];
                plain_sum(&sums[i], &x, d, row);
                expect_same("in order", 5, sizeof *row, row_at(&out[0], d), row);
            }
        }
        free_table(&x);
        free_table(&out[0]);
        free_table(&out[1]);
        free_world(w);
    }
}

/* ---- rows of bf16 ---- */

/* The same in bf16, where there are sl_real otherwise; `table` becomes what it says. */
static struct table round_table(const struct table *table)
{
    struct table rounded = {.w = table->w, .n_columns = table->n_columns};
    for (uint32_t q = 0; q < table->w->n_parts; q++) {
        size_t n = (size_t)size_of(table->w, q) * table->n_columns;
        sl_bf16 *rows = need(n, sizeof *rows);
        sl_bf16_round(n, table->part[q], rows);
        sl_bf16_widen(n, rows, table->part[q]);
        rounded.part[q] = (sl_real *)(void *)rows;
    }
    return rounded;
}

/* Sums of all parts' rows of bf16, in float and rounded. */
typedef void sums_of_bf16(const struct sum *sum, const struct table *rounded, int beta, const struct table *out,
                          const struct table *rounded_out);

static void pull_bf16(const struct sum *sum, const struct table *rounded, int beta, const struct table *out,
                      const struct table *rounded_out)
{
    for (uint32_t p = 0; p < rounded->w->n_parts; p++) {
        struct sl_pull_lists lists = lists_of(rounded->w, sum, p);
        struct sl_pull_parts parts = parts_of(rounded, sum, p);
        sl_pull_cpu(SL_DTYPE_BF16, &lists, &parts, rounded->n_columns, beta, SL_DTYPE_REAL, out->part[p]);
        sl_pull_cpu(SL_DTYPE_BF16, &lists, &parts, rounded->n_columns, beta, SL_DTYPE_BF16, rounded_out->part[p]);
    }
}

/* Sums of rows of bf16 are those of the same rows in float, and rounded once where they go into such; they are onto
 * what was there, or read nothing of it. */
static void check_bf16(sums_of_bf16 *add_up, const struct sum *sum, const struct table *x, const struct table *rounded,
                       int beta)
{
    const struct world *w = x->w;
    struct table wanted = make_table(w, x->n_columns);
    struct table got = make_table(w, x->n_columns);
    if (beta) {
        fill_table(&wanted, SEED + 2);
        fill_table(&got, SEED + 2);
    }
    struct table got_rounded = round_table(&got);
    struct table before = round_table(&wanted);
    pull(sum, x, beta, &wanted);
    add_up(sum, rounded, beta, &got, &got_rounded);
    expect_same_tables("of bf16", &got, &wanted);
    struct table wanted_rounded = round_table(&wanted);
    for (uint32_t q = 0; q < w->n_parts; q++) {
        expect_same("rounded", (size_t)size_of(w, q) * x->n_columns, sizeof(sl_bf16), got_rounded.part[q],
                    wanted_rounded.part[q]);
    }
    free_table(&wanted);
    free_table(&got);
    free_table(&before);
    free_table(&got_rounded);
    free_table(&wanted_rounded);
}

static void test_bf16(void **state)
{
    (void)state;
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 150, .hub_degree = 100, .self_loops = true, .directed = true};
    const struct sum sums[] = {
        {IN, SL_PULL_MEAN, all_kinds}, {OUT, SL_PULL_MEAN_BACK, all_kinds}, {IN, SL_PULL_SYMMETRIC, all_kinds}};
    for (uint32_t n_parts = 1; n_parts <= 7; n_parts += 3) {
        struct world *w = make_world(&shape, SPLIT_UNEVEN, n_parts); /* at 7 there are parts without vertices */
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            struct table x = make_table(w, widths[i]);
            fill_table(&x, SEED);
            struct table rounded = round_table(&x);
            for (size_t k = 0; k < 2 * sizeof sums / sizeof *sums; k++) {
                check_bf16(pull_bf16, &sums[k / 2], &x, &rounded, k % 2);
            }
            free_table(&x);
            free_table(&rounded);
        }
        free_world(w);
    }
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
    struct table m = make_table(x->w, x->n_columns);
    struct table g = make_table(x->w, x->n_columns);
    pull(forward, x, 0, &m);
    pull(backward, y, 0, &g);
    double scale = sqrt(inner_tables(y, y) * inner_tables(&m, &m)) + 1;
    expect_near("<y, P x> = <P' y, x>", inner_tables(y, &m), inner_tables(&g, x), 8 * EPSILON * scale);
    assert_true(inner_tables(&m, &m) > 0);
    free_table(&m);
    free_table(&g);
}

/* Fresh rows and stale ones are all rows. */
static void check_parts_of_a_sum(enum sl_pull_weights weights, const struct table *x)
{
    const struct sum some = {IN, weights, fresh};
    const struct sum rest = {IN, weights, stale};
    const struct sum all = {IN, weights, all_ones};
    struct table m = make_table(x->w, x->n_columns);
    double *wanted = reference(&all, x);
    pull(&some, x, 0, &m);
    pull(&rest, x, 1, &m);
    expect_table("fresh + stale", &m, wanted, 0, rounding(140, 4));
    free(wanted);
    free_table(&m);
}

static void test_adjoint(void **state)
{
    (void)state;
    static const double gradient_factors[] = {1, 0.5, 0};
    for (uint32_t n_parts = 1; n_parts <= 16; n_parts += 5) {
        struct graph_shape shape = {
            .kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .self_loops = true, .directed = true};
        struct world *w = make_world(&shape, n_parts == 16 ? SPLIT_UNEVEN : SPLIT_RANDOM, n_parts);
        struct table x = make_table(w, 9);
        struct table y = make_table(w, 9);
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
        check_parts_of_a_sum(SL_PULL_MEAN, &x);
        free_table(&x);
        free_table(&y);
        free_world(w);
    }
}

/* As many parts as there may be, some of them without vertices. */
static void test_many_parts(void **state)
{
    (void)state;
    const uint32_t part_counts[] = {66, 130, SL_MAX_GROUP};
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 400, .hub_degree = 140, .self_loops = true, .directed = true};
    for (size_t i = 0; i < sizeof part_counts / sizeof *part_counts; i++) {
        struct world *w = make_world(&shape, SPLIT_UNEVEN, part_counts[i]);
        check_sums(w, 5, 140);
        free_world(w);
    }
}

/* ---- launchers ---- */

#ifdef SL_CUDA

/* A part's lists on the device, offsets beyond 2^32. */
static struct sl_pull_lists lists_on_device(const struct world *w, const struct sum *sum, uint32_t p)
{
    struct sl_pull_lists lists = lists_of(w, sum, p);
    size_t n = (size_t)lists.n_rows + 1;
    uint64_t *far = need(n, sizeof *far);
    for (size_t i = 0; i < n; i++) {
        far[i] = lists.offsets[i] + (UINT64_C(5) << 32);
    }
    if (lists.edge_weights != NULL) {
        lists.edge_weights = on_device(lists.edge_weights,
                                       (lists.offsets[lists.n_rows] - lists.offsets[0]) * sizeof *lists.edge_weights);
    }
    lists.vertices =
        on_device(lists.vertices, (lists.offsets[lists.n_rows] - lists.offsets[0]) * sizeof *lists.vertices);
    lists.offsets = on_device(far, n * sizeof *far);
    lists.part_of = on_device(w->part_of, w->n * sizeof *w->part_of);
    lists.first = on_device(w->partition.first, ((size_t)w->n_parts + 1) * sizeof *lists.first);
    if (lists.factors != NULL) {
        lists.factors = on_device(w->factors, 2 * (size_t)w->n * sizeof *w->factors);
    }
    free(far);
    return lists;
}

static void free_device_lists(const struct sl_pull_lists *lists)
{
    cudaFree((void *)lists->vertices);
    cudaFree((void *)lists->offsets);
    cudaFree((void *)lists->part_of);
    cudaFree((void *)lists->first);
    cudaFree((void *)lists->factors);
    cudaFree((void *)lists->edge_weights);
}

/* Rows and sums of such numbers. */
static void launch(const struct sum *sum, enum sl_dtype of, const struct table *x, int beta, enum sl_dtype out_of,
                   const struct table *out)
{
    const struct world *w = x->w;
    struct table rows = {.w = w, .n_columns = x->n_columns};
    for (uint32_t q = 0; q < w->n_parts; q++) {
        rows.part[q] = on_device(x->part[q], size_of(w, q) * sl_dtype_bytes(of, x->n_columns));
    }
    for (uint32_t p = 0; p < w->n_parts; p++) {
        struct sl_pull_lists lists = lists_on_device(w, sum, p);
        struct sl_pull_parts parts = parts_of(&rows, sum, p);
        size_t bytes = lists.n_rows * sl_dtype_bytes(out_of, x->n_columns);
        void *to = on_device(out->part[p], bytes);
        expect_launched(sl_pull_cuda(NULL, &lists, &parts, w->n_parts, of, x->n_columns, beta, out_of, to));
        from_device(out->part[p], to, bytes);
        free_device_lists(&lists);
    }
    for (uint32_t q = 0; q < w->n_parts; q++) {
        cudaFree(rows.part[q]);
    }
}

static void launch_bf16(const struct sum *sum, const struct table *rounded, int beta, const struct table *out,
                        const struct table *rounded_out)
{
    launch(sum, SL_DTYPE_BF16, rounded, beta, SL_DTYPE_REAL, out);
    launch(sum, SL_DTYPE_BF16, rounded, beta, SL_DTYPE_BF16, rounded_out);
}

/* The launcher's bits are the kernel's. */
static void check_launched(const struct sum *sum, const struct table *x, int beta)
{
    struct table wanted = make_table(x->w, x->n_columns);
    struct table got = make_table(x->w, x->n_columns);
    if (beta) {
        fill_table(&wanted, SEED + 2);
        fill_table(&got, SEED + 2);
    }
    pull(sum, x, beta, &wanted);
    launch(sum, SL_DTYPE_REAL, x, beta, SL_DTYPE_REAL, &got);
    expect_same_tables("launched", &got, &wanted);
    free_table(&wanted);
    free_table(&got);
}

/* Each `stride`-th of the sums. */
static void check_launcher(const struct world *w, uint32_t n_columns, size_t stride)
{
    const struct sum sums[] = {
        {IN, SL_PULL_MEAN, all_kinds}, {OUT, SL_PULL_MEAN_BACK, all_kinds}, {IN, SL_PULL_SYMMETRIC, all_kinds}};
    struct table x = make_table(w, n_columns);
    fill_table(&x, SEED);
    struct table rounded = round_table(&x);
    for (size_t i = 0; i < 4 * sizeof sums / sizeof *sums; i += stride) {
        weighted = i / 2 % 2;
        check_launched(&sums[i / 4], &x, i % 2);
        check_bf16(launch_bf16, &sums[i / 4], &x, &rounded, i % 2);
    }
    weighted = false;
    free_table(&x);
    free_table(&rounded);
}

static void test_launcher(void **state)
{
    (void)state;
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 60, .hub_degree = 40, .self_loops = true, .directed = true};
    need_device();
    for (uint32_t n_parts = 1; n_parts <= 7; n_parts += 3) {
        struct world *w = make_world(&shape, SPLIT_UNEVEN, n_parts); /* at 7 there are parts without vertices */
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            check_launcher(w, widths[i], 1);
        }
        free_world(w);
    }
}

static void test_launcher_many(void **state)
{
    (void)state;
    struct graph_shape many_parts = {.kind = GRAPH_POWER_LAW, .n_vertices = 80, .hub_degree = 40, .self_loops = true};
    struct graph_shape many_neighbours = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 13100, .hub_degree = 13000, .self_loops = true, .directed = true};
    const size_t stride = slow_kernels() ? 5 : 1; /* one in five: all three sums */
    need_device();
    struct world *w = make_world(&many_parts, SPLIT_UNEVEN, SL_MAX_GROUP);
    check_launcher(w, 5, stride);
    free_world(w);
    w = make_world(&many_neighbours, SPLIT_RANDOM, 2);
    check_launcher(w, 3, stride);
    free_world(w);
}

#endif

/* ---- submissions ---- */

/* A world's tables as handles, and a sum's rows by part. */
struct handles {
    unsigned n;
    starpu_data_handle_t all[5 * SL_MAX_GROUP + 3];
    starpu_data_handle_t part_of, first, factors;
    starpu_data_handle_t x[SL_MAX_GROUP], out[SL_MAX_GROUP];
    starpu_data_handle_t offsets[SL_MAX_GROUP], vertices[SL_MAX_GROUP];
    starpu_data_handle_t edge_weights[SL_MAX_GROUP]; /* NULL: 1 */
};

static starpu_data_handle_t wrap(struct handles *h, starpu_data_handle_t handle)
{
    return h->all[h->n++] = handle;
}

static struct handles *wrap_all(const struct sum *sum, const struct table *x, const struct table *out)
{
    const struct world *w = x->w;
    struct handles *h = need(1, sizeof *h);
    h->part_of = wrap(h, vector_of(w->part_of, w->n, sizeof *w->part_of));
    h->first = wrap(h, vector_of(w->partition.first, w->n_parts + 1, sizeof(sl_vertex)));
    h->factors = wrap(h, rows_of(w->factors, w->n, 2));
    for (uint32_t p = 0; p < w->n_parts; p++) {
        struct sl_pull_lists lists = lists_of(w, sum, p);
        uint32_t n_edges = (uint32_t)(lists.offsets[lists.n_rows] - lists.offsets[0]);
        h->offsets[p] = wrap(h, vector_of(lists.offsets, lists.n_rows + 1, sizeof *lists.offsets));
        h->vertices[p] = wrap(h, vector_of(lists.vertices, n_edges, sizeof *lists.vertices));
        if (weighted) {
            h->edge_weights[p] = wrap(h, vector_of(lists.edge_weights, n_edges, sizeof *lists.edge_weights));
        }
        h->x[p] = wrap(h, rows_of(x->part[p], lists.n_rows, x->n_columns));
        h->out[p] = wrap(h, rows_of(out->part[p], lists.n_rows, x->n_columns));
    }
    return h;
}

static void unwrap(struct handles *h)
{
    unregister(h->n, h->all);
    free(h);
}

/* What part p of a sum takes; the lists by part are in factor and rows, of n_parts. */
static struct sl_pull pull_of(const struct world *w, const struct sum *sum, const struct handles *h, uint32_t p,
                              double *factor, starpu_data_handle_t *rows)
{
    for (uint32_t q = 0; q < w->n_parts; q++) {
        factor[q] = sum->factor(w, q, p);
        rows[q] = factor[q] == 0 ? NULL : h->x[q];
    }
    return (struct sl_pull){.offsets = h->offsets[p],
                            .vertices = h->vertices[p],
                            .part_of = h->part_of,
                            .first = h->first,
                            .factors = sum->weights == SL_PULL_MEAN ? NULL : h->factors,
                            .edge_weights = h->edge_weights[p],
                            .weights = sum->weights,
                            .scale = SCALE,
                            .first_id = w->partition.first[p],
                            .n_edges = 100,
                            .n_parts = w->n_parts,
                            .rows = rows,
                            .factor = factor};
}

static void submit(const struct sum *sum, const struct table *x, int beta, const struct table *out)
{
    struct handles *h = wrap_all(sum, x, out);
    for (uint32_t p = 0; p < x->w->n_parts; p++) {
        double factor[SL_MAX_GROUP];
        starpu_data_handle_t rows[SL_MAX_GROUP];
        struct sl_pull pull = pull_of(x->w, sum, h, p, factor, rows);
        expect_ok(sl_pull_submit(&head, &pull, beta, h->out[p]));
    }
    unwrap(h);
}

/* Tasks have the kernel's bits, and have them twice. */
static void check_submissions(const struct world *w, uint32_t n_columns)
{
    const struct sum sums[] = {
        {IN, SL_PULL_MEAN, all_kinds}, {OUT, SL_PULL_MEAN_BACK, all_kinds}, {IN, SL_PULL_SYMMETRIC, all_kinds}};
    struct table x = make_table(w, n_columns);
    struct table out[3] = {make_table(w, n_columns), make_table(w, n_columns), make_table(w, n_columns)};
    fill_table(&x, SEED);
    for (size_t i = 0; i < 2 * sizeof sums / sizeof *sums; i++) {
        weighted = i % 2;
        for (int beta = 0; beta < 2; beta++) {
            pull(&sums[i / 2], &x, beta, &out[0]);
            submit(&sums[i / 2], &x, beta, &out[1]);
            submit(&sums[i / 2], &x, beta, &out[2]);
            expect_no_failure();
            expect_same_tables("submitted", &out[1], &out[0]);
            expect_same_tables("submitted again", &out[2], &out[0]);
        }
    }
    weighted = false;
    free_table(&x);
    for (int i = 0; i < 3; i++) {
        free_table(&out[i]);
    }
}

static void test_submissions(void **state)
{
    (void)state;
    const uint32_t part_counts[] = {1, 4, 7, 66, SL_MAX_GROUP}; /* from 7 on there are parts without vertices */
    struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = 120, .hub_degree = 90, .self_loops = true, .directed = true};
    for (size_t i = 0; i < N_WORKER_COUNTS; i++) {
        fixture_start(worker_counts[i]);
        for (size_t k = 0; k < sizeof part_counts / sizeof *part_counts; k++) {
            struct world *w = make_world(&shape, SPLIT_UNEVEN, part_counts[k]);
            check_submissions(w, 6);
            free_world(w);
        }
        fixture_stop();
    }
}

/* One vertex with four in-neighbours, the first of which is itself, in three parts, of which the last has no vertex. */
struct small {
    uint64_t offsets[2];
    sl_vertex vertices[4], first[4];
    uint16_t part_of[4];
    sl_real factors[8], rows[2][2 * 6], out[6];
    double factor[3];
    starpu_data_handle_t h[8], of_parts[3];
    struct sl_pull pull;
};

enum { OFFSETS, VERTICES, PART_OF, FIRST, FACTORS, ROWS, MORE_ROWS, SUM, N_HANDLES };

static struct small *make_small(void)
{
    struct small *s = need(1, sizeof *s);
    *s = (struct small){.offsets = {7, 11},
                        .vertices = {0, 1, 2, 3},
                        .first = {0, 2, 4, 4},
                        .part_of = {0, 0, 1, 1},
                        .factors = {1, 1, 1, 1, 1, 1, 1, 1},
                        .factor = {1, 2, 0}};
    fill(2 * 6, SEED, s->rows[0]);
    fill(2 * 6, SEED + 1, s->rows[1]);
    s->h[OFFSETS] = vector_of(s->offsets, 2, sizeof *s->offsets);
    s->h[VERTICES] = vector_of(s->vertices, 4, sizeof *s->vertices);
    s->h[PART_OF] = vector_of(s->part_of, 4, sizeof *s->part_of);
    s->h[FIRST] = vector_of(s->first, 4, sizeof *s->first);
    s->h[FACTORS] = rows_of(s->factors, 4, 2);
    s->h[ROWS] = rows_of(s->rows[0], 2, 6);
    s->h[MORE_ROWS] = rows_of(s->rows[1], 2, 6);
    s->h[SUM] = rows_of(s->out, 1, 6);
    s->of_parts[0] = s->h[ROWS];
    s->of_parts[1] = s->h[MORE_ROWS];
    s->pull = (struct sl_pull){.offsets = s->h[OFFSETS],
                               .vertices = s->h[VERTICES],
                               .part_of = s->h[PART_OF],
                               .first = s->h[FIRST],
                               .weights = SL_PULL_MEAN,
                               .scale = 1,
                               .n_edges = 4,
                               .n_parts = 3,
                               .rows = s->of_parts,
                               .factor = s->factor};
    return s;
}

/* Wait for its tasks. */
static void settle(struct small *s)
{
    UNREGISTER(s->h);
}

static void test_outputs_are_written(void **state)
{
    (void)state;
    fixture_start(1);
    struct small *s = make_small();
    for (int beta = 0; beta < 2; beta++) {
        hold(s->h[ROWS]);
        expect_ok(sl_pull_submit(&head, &s->pull, beta, s->h[SUM]));
        release(s->h[ROWS], 1, &s->h[SUM]);
    }
    settle(s);
    free(s);
    expect_no_failure();
    fixture_stop();
}

/* Where all factors are 0 there are zeros, of bf16 where the sums are, and nothing behind them. */
static void expect_no_rows(void)
{
    struct small *s = make_small();
    sl_bf16 rounded[2 * 6];
    memset(rounded, 0xff, sizeof rounded);
    starpu_data_handle_t h[] = {matrix_of(rounded, 1, 6, sizeof *rounded)};
    s->factor[0] = s->factor[1] = 0;
    expect_ok(sl_pull_submit(&head, &s->pull, 0, h[0]));
    UNREGISTER(h);
    settle(s);
    for (int i = 0; i < 2 * 6; i++) {
        assert_int_equal(rounded[i], i < 6 ? 0 : 0xffff);
    }
    free(s);
}

/* Rows in bf16, of which sums are in float or in bf16. */
static void test_bf16_submissions(void **state)
{
    (void)state;
    fixture_start(2);
    struct small *s = make_small();
    sl_bf16 rows[2][2 * 6];
    sl_real out[6];
    sl_bf16 rounded[6];
    sl_bf16 wanted[6];
    for (int q = 0; q < 2; q++) {
        sl_bf16_round(2 * 6, s->rows[q], rows[q]);
        sl_bf16_widen(2 * 6, rows[q], s->rows[q]);
    }
    starpu_data_handle_t h[] = {matrix_of(rows[0], 2, 6, sizeof **rows), matrix_of(rows[1], 2, 6, sizeof **rows),
                                rows_of(out, 1, 6), matrix_of(rounded, 1, 6, sizeof *rounded)};
    expect_ok(sl_pull_submit(&head, &s->pull, 0, s->h[SUM]));
    s->pull.rows = h;
    expect_ok(sl_pull_submit(&head, &s->pull, 0, h[2]));
    expect_ok(sl_pull_submit(&head, &s->pull, 0, h[3]));
    UNREGISTER(h);
    settle(s);
    sl_bf16_round(6, s->out, wanted);
    expect_same("of bf16", 6, sizeof *out, out, s->out);
    expect_same("rounded", 6, sizeof *rounded, rounded, wanted);
    expect_no_rows();
    free(s);
    expect_no_failure();
    fixture_stop();
}

/* A factor that is too small for a float is 0 there, and the parts behind keep their rows. */
static void test_tiny_factors(void **state)
{
    (void)state;
    fixture_start(1);
    struct small *s = make_small();
    s->factor[0] = 1e-60;
    expect_ok(sl_pull_submit(&head, &s->pull, 0, s->h[SUM]));
    settle(s);
    for (int j = 0; j < 6; j++) {
        double wanted = (double)s->rows[1][j] * 0.5 + (double)s->rows[1][6 + j] * 0.5;
        expect_near_at("half of the second part", (size_t)j, (double)s->out[j], wanted, 4 * EPSILON);
    }
    free(s);
    expect_no_failure();
    fixture_stop();
}

/* The time counts as the head says: aggregation, backward, evaluation. */
static void test_stages(void **state)
{
    (void)state;
    static const enum sl_stage stages[][2] = {{SL_STAGE_SAMPLE, SL_STAGE_AGGREGATE},
                                              {SL_STAGE_BACKWARD, SL_STAGE_BACKWARD},
                                              {SL_STAGE_EVALUATE, SL_STAGE_EVALUATE}};
    fixture_start(1);
    struct small *s = make_small();
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        double seconds[SL_N_STAGES];
        double all = 0;
        sl_run_log_reset(&run);
        head.stage = stages[i][0];
        expect_ok(sl_pull_submit(&head, &s->pull, 0, s->h[SUM]));
        starpu_task_wait_for_all();
        sl_run_stage_seconds(&run, seconds);
        for (int k = 0; k < SL_N_STAGES; k++) {
            all += seconds[k];
        }
        assert_true(seconds[stages[i][1]] > 0 && all == seconds[stages[i][1]]);
    }
    settle(s);
    free(s);
    expect_no_failure();
    fixture_stop();
}

/* After a failure nothing is written. */
static void test_failure_drains(void **state)
{
    (void)state;
    fixture_start(3);
    struct small *s = make_small();
    for (int j = 0; j < 6; j++) {
        s->out[j] = 17;
    }
    fixture_fail();
    expect_ok(sl_pull_submit(&head, &s->pull, 0, s->h[SUM]));
    expect_ok(sl_pull_submit(&head, &s->pull, 1, s->h[SUM]));
    settle(s);
    for (int j = 0; j < 6; j++) {
        expect_still(s->out[j], 17);
    }
    free(s);
    fixture_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),         cmocka_unit_test(test_widths),
        cmocka_unit_test(test_counts),         cmocka_unit_test(test_many_neighbours),
        cmocka_unit_test(test_bits),           cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_adjoint),        cmocka_unit_test(test_many_parts),
#ifdef SL_CUDA
        cmocka_unit_test(test_launcher),       cmocka_unit_test(test_launcher_many),
#endif
        cmocka_unit_test(test_submissions),    cmocka_unit_test(test_outputs_are_written),
        cmocka_unit_test(test_tiny_factors),   cmocka_unit_test(test_stages),
        cmocka_unit_test(test_failure_drains), cmocka_unit_test(test_bf16_submissions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
