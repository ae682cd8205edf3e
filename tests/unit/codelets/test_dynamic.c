/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sums/dynamic.h over whole groups: dynamic attention and its adjoint, with the exchange between them, against
 * plain loops in double, whose gradients are those of central differences. */
#include "codelets/sums/dynamic.h"
#include "data/load.h"

#include "tests/support/hop_fixture.h"

/* ---- rows of a hop ---- */

/* Rows of sources: U, GU. Rows of destinations: the others. */
enum { U, GU, R, Z, GZ, LSE, SIDES, GR, GA, N_LEVELS };

struct state {
    const struct group *group;
    uint32_t hop;
    struct sl_heads heads;
    struct level level[N_LEVELS];
    sl_real *a; /* [H] */
};

/* Noise of size 1; A of size a_size. */
static struct state *make_state(const struct group *group, uint32_t hop, struct sl_heads heads, uint32_t shift_in,
                                uint32_t shift_out, double a_size)
{
    const uint32_t widths[N_LEVELS] = {[LSE] = heads.n_heads, [SIDES] = sl_attend_side(heads, true)};
    struct state *s = need(1, sizeof *s);
    *s = (struct state){group, hop, heads, .a = need(heads.n_columns, sizeof *s->a)};
    for (int i = 0; i < N_LEVELS; i++) {
        const uint32_t width = widths[i] > 0 ? widths[i] : heads.n_columns;
        s->level[i] = make_level(group, hop + (i <= GU), width, i <= GU ? shift_in : shift_out);
    }
    fill_level(group, SEED, &s->level[U]);
    fill_level(group, SEED + 1, &s->level[GZ]);
    fill_level(group, SEED + 2, &s->level[R]);
    for (uint32_t c = 0; c < heads.n_columns; c++) {
        s->a[c] = (sl_real)(a_size * noise(SEED + 3, c));
    }
    return s;
}

static void free_state(struct state **s)
{
    for (int i = 0; i < N_LEVELS; i++) {
        free_level((*s)->group, &(*s)->level[i]);
    }
    free((*s)->a);
    free(*s);
}

/* ---- one hop ---- */

static struct handles *open_hop(const struct state *s)
{
    struct handles *h = wrap_hop(s->group, s->hop);
    for (int i = 0; i < N_LEVELS; i++) {
        wrap_level(h, i, &s->level[i]);
    }
    h->parameter = wrap(h, rows_of(s->a, 1, s->heads.n_columns));
    return h;
}

/* The chunk of a slot that begins with row0. */
static starpu_data_handle_t chunk_at(const struct handles *h, int slot, uint32_t p, uint32_t row0)
{
    return h->rows[slot][p].chunk[row0 >> h->rows[slot][p].split.shift];
}

static struct sl_attend_targets targets_at(const struct handles *h, uint32_t p, uint32_t row0,
                                           const struct sl_source_handles *sources)
{
    return (struct sl_attend_targets){
        &h->block[p], row0, 100, sources, {chunk_at(h, R, p, row0), h->parameter, {NULL, NULL, NULL}, NULL}};
}

static void submit_z(struct handles *h, uint32_t p, uint32_t row0, const struct sl_source_handles *sources,
                     starpu_data_handle_t z)
{
    const struct sl_attend_targets to = targets_at(h, p, row0, sources);
    expect_ok(sl_attend_forward_submit(&head, &to, 0, z, chunk_at(h, LSE, p, row0)));
}

static void submit_sides(struct handles *h, uint32_t p, uint32_t row0, const struct sl_source_handles *sources,
                         starpu_data_handle_t gz)
{
    const struct sl_attend_sides out = {chunk_at(h, SIDES, p, row0), chunk_at(h, GR, p, row0), chunk_at(h, GA, p, row0),
                                        NULL};
    const struct sl_attend_targets to = targets_at(h, p, row0, sources);
    expect_ok(sl_attend_sides_submit(&head, &to, gz, chunk_at(h, LSE, p, row0), &out));
}

static void send(struct handles *h, uint32_t p, uint32_t n, const uint32_t *t0, const struct sl_slice *packed)
{
    const struct sl_attend_gradients gradients = {
        &h->rows[GZ][p], &h->rows[SIDES][p], NULL, h->parameter, {NULL, NULL, NULL}};
    struct sl_slice u[MAX_PARTS];
    for (uint32_t q = 0, k = 0; k < n; q++) {
        u[k] = h->packed[p][q];
        k += u[k].n_rows > 0;
    }
    expect_ok(sl_attend_backward_submit(&head, &h->block[p], &gradients, 100, n, t0, u, packed));
}

static void accumulate(struct handles *h, uint32_t q, uint32_t row0, const struct sl_share_sources *from,
                       starpu_data_handle_t gu)
{
    const struct sl_attend_shares shares = {
        .block = &h->block[q],
        .gradients = {&h->rows[GZ][q], &h->rows[SIDES][q], NULL, h->parameter, {NULL, NULL, NULL}},
        .from = *from};
    expect_ok(sl_attend_accumulate_submit(&head, &shares, row0, chunk_at(h, U, q, row0), gu));
}

static void forward_and_back(struct state *s)
{
    struct handles *h = open_hop(s);
    each_destination(h, U, Z, submit_z);
    each_destination(h, U, GZ, submit_sides);
    each_source(h, GU, send, accumulate);
    unwrap(h);
}

/* ---- the same in plain loops, by vertex ---- */

/* Tables by dataset id, and the lists of a hop: a destination's begins with itself. */
struct plain {
    struct sl_heads heads;
    uint32_t n_vertices, n_lists;
    uint32_t *destination, *offsets, *source;
    double *share, *da; /* of an edge, of the head in hand */
    double *a;
    double *table[N_LEVELS];
};

static struct plain make_plain(const struct state *s)
{
    const struct group *group = s->group;
    uint32_t n = group->partition->graph.n_vertices;
    struct plain g = {.heads = s->heads, .n_vertices = n, .a = need(s->heads.n_columns, sizeof *g.a)};
    g.destination = need(n, sizeof *g.destination);
    g.offsets = need((size_t)n + 1, sizeof *g.offsets);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        n += group->pe[p].block[s->hop].n_edges;
    }
    g.source = need(n, sizeof *g.source);
    g.share = need(n, sizeof *g.share);
    g.da = need(n, sizeof *g.da);
    for (int i = 0; i < N_LEVELS; i++) {
        g.table[i] = table_of(group, &s->level[i]);
    }
    for (uint32_t c = 0; c < s->heads.n_columns; c++) {
        g.a[c] = (double)s->a[c];
    }
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[s->hop];
        for (uint32_t d = 0; d < group->pe[p].n_rows[s->hop]; d++) {
            const uint32_t id = (uint32_t)dataset_id(group, p, d);
            uint32_t end = g.offsets[g.n_lists];
            g.destination[g.n_lists] = g.source[end++] = id;
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                const uint32_t source = group->partition->dataset_ids[source_id(block, block->edge_sources[e])];
                g.source[end] = source;
                end += source != id;
            }
            g.offsets[++g.n_lists] = end;
        }
    }
    return g;
}

static void free_plain(struct plain *g)
{
    void *const all[] = {g->destination, g->offsets, g->source, g->share, g->da, g->a};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
    for (int i = 0; i < N_LEVELS; i++) {
        free(g->table[i]);
    }
}

/* The row of vertex v in a table, from column c on. */
static double *row_in(const struct plain *g, int table, uint32_t v, uint32_t c)
{
    return g->table[table] + (size_t)v * g->heads.n_columns + c;
}

/* y of vertex s for destination d and column c; *slope: dy / dx. */
static double y_of(const struct plain *g, uint32_t d, uint32_t s, uint32_t c, double *slope)
{
    const double x = *row_in(g, U, s, c) + *row_in(g, R, d, c);
    *slope = x > 0 ? 1 : 0.2;
    return *slope * x;
}

/* What list i adds to z, lse and the gradients for head k. */
static void add_list_and_head(struct plain *g, uint32_t i, uint32_t k)
{
    const uint32_t width = g->heads.n_columns / g->heads.n_heads;
    const uint32_t d = g->destination[i];
    double top = -INFINITY, sum = 0, c = 0, slope;
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        g->share[e] = g->da[e] = 0;
        for (uint32_t j = k * width; j < (k + 1) * width; j++) {
            g->share[e] += g->a[j] * y_of(g, d, g->source[e], j, &slope);
            g->da[e] += *row_in(g, GZ, d, j) * *row_in(g, U, g->source[e], j);
        }
        top = fmax(top, g->share[e]);
    }
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        sum += exp(g->share[e] - top);
    }
    g->table[LSE][(size_t)d * g->heads.n_heads + k] = top + log(sum);
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        g->share[e] = exp(g->share[e] - top) / sum;
        c += g->share[e] * g->da[e];
    }
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        const double ge = g->share[e] * (g->da[e] - c);
        for (uint32_t j = k * width; j < (k + 1) * width; j++) {
            *row_in(g, GA, d, j) += ge * y_of(g, d, g->source[e], j, &slope);
            *row_in(g, Z, d, j) += g->share[e] * *row_in(g, U, g->source[e], j);
            *row_in(g, GR, d, j) += ge * g->a[j] * slope;
            *row_in(g, GU, g->source[e], j) += g->share[e] * *row_in(g, GZ, d, j) + ge * g->a[j] * slope;
        }
    }
}

/* All tables from U, R, GZ and A. Returns <gz, z>, whose gradients the others are. */
static double evaluate(struct plain *g)
{
    static const int sums[] = {Z, GU, GR, GA};
    const size_t n = (size_t)g->n_vertices * g->heads.n_columns;
    double loss = 0;
    for (int i = 0; i < 4; i++) {
        memset(g->table[sums[i]], 0, n * sizeof(double));
    }
    for (uint32_t i = 0; i < g->n_lists * g->heads.n_heads; i++) {
        add_list_and_head(g, i / g->heads.n_heads, i % g->heads.n_heads);
    }
    for (size_t i = 0; i < n; i++) {
        loss += g->table[GZ][i] * g->table[Z][i];
    }
    return loss;
}

/* ---- tests ---- */

/* What rounding does to a weight, and so to sums of weights 1 in all: a score is a sum of `width` products up to
 * a_size times 2. */
static double tolerance_of(const struct group *group, struct sl_heads heads, double a_size)
{
    const double width = heads.n_columns / heads.n_heads;
    return rounding(group->partition->graph.n_vertices, 1) + 8 * EPSILON * (2 * a_size * width + 10);
}

static void check_hop(const struct group *group, uint32_t hop, struct sl_heads heads, uint32_t shift_in,
                      uint32_t shift_out, double a_size)
{
    OWNED(free_state) struct state *s = make_state(group, hop, heads, shift_in, shift_out, a_size);
    struct plain g = make_plain(s);
    const double close = tolerance_of(group, heads, a_size);
    /* products of `width` numbers, that up to all destinations add up */
    const double far = close * sqrt(heads.n_columns / heads.n_heads) * fmax(a_size, 1);
    const double length = sqrt(group->partition->graph.n_vertices);
    evaluate(&g);
    forward_and_back(s);
    expect_table("z", group, &s->level[Z], g.table[Z], 0, close);
    expect_table("lse", group, &s->level[LSE], g.table[LSE], 0, close);
    expect_table("gradient of u", group, &s->level[GU], g.table[GU], 0, far * length);
    expect_table("gradient of r", group, &s->level[GR], g.table[GR], 0, far);
    expect_table("gradient of a", group, &s->level[GA], g.table[GA], 0, far);
    free_plain(&g);
}

static void make_two_hops(const struct graph_shape *shape, int split, uint32_t n_parts, uint32_t n_seeds,
                          struct world *out)
{
    make_world(shape, split, n_parts, out);
    sample_train(out, 2, SL_SAMPLE_NEIGHBOR, n_seeds);
}

TEST(test_graphs)
{
    static const uint32_t part_counts[] = {1, 4, 7};
    FIXTURE(3);
    for (int i = 0; i < 3 * N_GRAPHS; i++) {
        struct graph_shape shape = power_law(90, 0, i % 2, false); /* relations are not read */
        shape.kind = i / 3;
        shape.directed = i / 3 == GRAPH_POWER_LAW;
        shape.self_loops = i % 3 > 0;
        OWNED(free_world) struct world w;
        make_two_hops(&shape, SPLIT_UNEVEN, part_counts[i % 3], 20, &w);
        check_hop(&w.group, 0, (struct sl_heads){6, 3, 0}, 31, 31, 1);
        check_hop(&w.group, 1, (struct sl_heads){6, 2, 0}, 3, 2, 1);
    }
}

TEST(test_heads_and_chunks)
{
    static const struct sl_heads heads[] = {{1, 1, 0},  {7, 1, 0},   {40, 5, 0}, {64, 64, 0},
                                            {64, 8, 0}, {33, 11, 0}, {96, 3, 0}, {256, 4, 0}};
    const uint32_t stride = slow_stride(2);
    const struct graph_shape shape = power_law(200 / stride, 140 / stride, 0, false);
    FIXTURE(1);
    fixture_watch();
    OWNED(free_world) struct world w, many;
    make_two_hops(&shape, SPLIT_METIS, 4, 40 / stride, &w);
    for (uint32_t i = slow_first(2) % stride; i < sizeof heads / sizeof *heads; i += stride) {
        check_hop(&w.group, 1, heads[i], i % 3 ? 4 : 31, i % 3 ? (i % 2 ? 4 : 1) : 31, 1);
    }
    make_two_hops(&shape, SPLIT_RANDOM, 40, 10, &many);
    check_hop(&many.group, 1, (struct sl_heads){4, 2, 0}, 31, 31, 1);
}

/* Scores up to 300 either way, whose exponentials are no floats: one source has nearly all the weight. */
TEST(test_large_scores)
{
    const struct graph_shape shape = power_law(200, 140, 0, false);
    FIXTURE(1);
    OWNED(free_world) struct world w;
    make_two_hops(&shape, SPLIT_RANDOM, 3, 40, &w);
    check_hop(&w.group, 1, (struct sl_heads){12, 4, 0}, 31, 31, 50);
    check_hop(&w.group, 0, (struct sl_heads){12, 1, 0}, 4, 3, 12);
}

/* The slope of the loss along number i of `values`. */
static void check_slope(struct plain *g, const char *name, double *values, size_t i, double should)
{
    const double step = 1e-5;
    const double at = values[i];
    values[i] = at + step;
    const double above = evaluate(g);
    values[i] = at - step;
    const double below = evaluate(g);
    values[i] = at;
    expect_near_at(name, i, (above - below) / (2 * step), should, 1e-8);
}

/* The loops' gradients are the slopes of their loss. Differences of a step of 1e-5 are off by 1e-10 of third
 * derivatives, by 1e-11 of rounding, and by more only where x is within the step of 0. */
TEST(test_central_differences)
{
    struct graph_shape shape = power_law(40, 20, 0, false);
    shape.directed = true;
    OWNED(free_world) struct world w;
    make_two_hops(&shape, SPLIT_NONE, 1, 15, &w);
    OWNED(free_state) struct state *s = make_state(&w.group, 1, (struct sl_heads){6, 2, 0}, 31, 31, 1);
    struct plain g = make_plain(s);
    evaluate(&g);
    const size_t n = 40 * 6;
    FREED double *gu = memcpy(need(n, sizeof *gu), g.table[GU], n * sizeof *gu);
    FREED double *gr = memcpy(need(n, sizeof *gr), g.table[GR], n * sizeof *gr);
    double ga[6] = {0};
    for (size_t i = 0; i < n; i++) {
        ga[i % 6] += g.table[GA][i];
    }
    for (size_t i = 0; i < n; i++) {
        check_slope(&g, "u", g.table[U], i, gu[i]);
        check_slope(&g, "r", g.table[R], i, gr[i]);
    }
    for (size_t i = 0; i < 6; i++) {
        check_slope(&g, "a", g.a, i, ga[i]);
    }
    free_plain(&g);
}

/* The chunks are invisible, to the bit: one and many give the same sums. */
TEST(test_chunks_are_invisible)
{
    const struct graph_shape shape = power_law(300, 140, 0, false);
    FIXTURE(1);
    OWNED(free_world) struct world w;
    make_two_hops(&shape, SPLIT_RANDOM, 4, 40, &w);
    struct state *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = make_state(&w.group, 1, (struct sl_heads){9, 3, 0}, i == 0 ? 31 : 3, i == 0 ? 31 : 2, 1);
        forward_and_back(s[i]);
    }
    for (int i = 0; i < N_LEVELS; i++) {
        expect_levels("rows", &w.group, &s[1]->level[i], &s[0]->level[i], 0);
    }
    free_state(&s[0]);
    free_state(&s[1]);
}

/* A destination that has no edge, or but one from itself: z = u, and nothing depends on its score. */
static void check_alone(const struct state *s, sl_vertex id)
{
    for (struct entry e = {0}; next_entry(s->group, &s->level[U], &e);) {
        if (e.r < s->group->pe[e.p].n_rows[s->hop] && dataset_id(s->group, e.p, e.r) == id) {
            assert_true(row_at(&s->level[Z].pe[e.p], e.r)[e.j] == *e.x);
            assert_true(row_at(&s->level[GU].pe[e.p], e.r)[e.j] == row_at(&s->level[GZ].pe[e.p], e.r)[e.j]);
            assert_true(row_at(&s->level[GR].pe[e.p], e.r)[e.j] == 0);
            assert_true(row_at(&s->level[GA].pe[e.p], e.r)[e.j] == 0);
        }
    }
}

/* 13,000 in-neighbours, in one part and in four. Sums run along the list's order, so that the parts do not change a
 * bit. */
TEST(test_many_neighbours)
{
    struct graph_shape shape = power_law(14000, 13000, 0, false);
    double hub[2];
    shape.directed = true;
    FIXTURE(1);
    for (int i = 0; i < 2; i++) {
        OWNED(free_world) struct world w;
        make_world(&shape, SPLIT_RANDOM, i == 0 ? 1 : 4, &w);
        sample_hub(&w, 4);
        check_hop(&w.group, 0, (struct sl_heads){4, 2, 0}, 31, 31, 1);
        OWNED(free_state) struct state *s = make_state(&w.group, 0, (struct sl_heads){4, 2, 0}, 31, 31, 1);
        forward_and_back(s);
        check_alone(s, 13999); /* no neighbours */
        check_alone(s, 13998); /* itself */
        FREED double *z = table_of(&w.group, &s->level[Z]);
        hub[i] = z[7000 * 4];
    }
    assert_true(hub[0] == hub[1]);
}

/* Lists that are cut into slices, and short ones beside them: the hub, whose neighbours most of the other
 * destinations are, so that as a source it has many. */
static void check_hub(uint32_t hub_degree, uint32_t parts, struct sl_heads heads)
{
    const struct graph_shape shape = power_law(hub_degree + 100, hub_degree, 0, false);
    OWNED(free_world) struct world w;
    make_world(&shape, SPLIT_RANDOM, parts, &w);
    sample_hub(&w, 400 / slow_stride(2)); /* more of them than a list that a group adds alone are the hub's */
    check_hop(&w.group, 0, heads, 31, 8, 1);
}

TEST(test_hubs)
{
    FIXTURE(1);
    check_hub(13000, 1, (struct sl_heads){10, 1, 0});
    check_hub(1500, 2, (struct sl_heads){40, 2, 0});
    check_hub(1500, 3, (struct sl_heads){3, 3, 0});
    check_hub(800, 1, (struct sl_heads){134, 1, 0}); /* heads that a group takes in several tiles */
}

/* Evaluation: attention over all in-neighbours of whole parts. */
static void check_full(const struct graph_shape *shape, int split, uint32_t n_parts, uint32_t shift)
{
    const struct sl_heads heads = {6, 2, 0};
    struct sl_full_sources lists[MAX_PARTS];
    OWNED(free_world) struct world w;
    make_world(shape, split, n_parts, &w);
    sample_all(&w);
    struct state *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = make_state(&w.group, 0, heads, shift, shift, 1);
    }
    struct handles *h = open_hop(s[1]);
    wrap_lists(h, lists);
    for (uint32_t p = 0; p < n_parts; p++) {
        const struct sl_rows *z = &h->rows[Z][p];
        lists[p].rows = h->rows[U];
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            const struct sl_attend_operands dynamic = {h->rows[R][p].chunk[c], h->parameter, {NULL, NULL, NULL}, NULL};
            expect_ok(sl_attend_full_submit(&head, &lists[p], p, c << z->split.shift, heads.n_heads, &dynamic, 0,
                                            z->chunk[c]));
        }
    }
    unwrap(h);
    forward_and_back(s[0]);
    expect_levels("z of all", &w.group, &s[1]->level[Z], &s[0]->level[Z], tolerance_of(&w.group, heads, 1));
    free_state(&s[0]);
    free_state(&s[1]);
}

TEST(test_full)
{
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct graph_shape shape = power_law(300, 280, 0, false);
        shape.directed = true;
        FIXTURE(worker_counts[w]);
        check_full(&shape, SPLIT_NONE, 1, 31);
        check_full(&shape, SPLIT_RANDOM, 3, 4);
        check_full(&shape, SPLIT_UNEVEN, 7, 3);
        check_full(&shape, SPLIT_RANDOM, 7, 0); /* more chunks than a launch has parameters for */
    }
}

TEST_MAIN(NULL, NULL)
