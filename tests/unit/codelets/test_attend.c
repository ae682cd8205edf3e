/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sums/attend.h over whole groups: attention and its adjoint, with the exchange between them, against plain
 * loops in double, whose gradients are those of central differences. */
#include "codelets/sums/attend.h"
#include "data/load.h"

#include "tests/support/hop_fixture.h"

#define WEIGHTED 3 /* graphs with so many relations have weights of edges, up to 4 */

/* ---- rows of a hop ---- */

/* A hop of a group, and what H, K and R are. */
struct at {
    const struct group *group;
    uint32_t hop;
    struct sl_heads heads;
};

/* R is the graph's. */
static struct at at_hop(const struct group *group, uint32_t hop, struct sl_heads heads)
{
    heads.n_relations = group->partition->graph.n_relations;
    return (struct at){group, hop, heads};
}

/* All that is computed in a hop. */
struct state {
    struct level u, gu;             /* of sources */
    struct level z, lse, gz, sides; /* of destinations */
};

/* A vertex has the same numbers whatever the partition and its row: noise of size 1, and of score_size from column `u`
 * of a slab on. */
static void fill_rows(const struct at *at, uint64_t seed, struct level *level, uint32_t u, double score_size)
{
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        struct rows *rows = &level->pe[p];
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            for (uint32_t j = 0; j < rows->n_columns; j++) {
                double x = noise(seed, dataset_id(at->group, p, r) * 4096 + j);
                row_at(rows, r)[j] = (sl_real)(j % sl_heads_slab(at->heads) < u ? x : score_size * x);
            }
        }
    }
}

static struct state *make_state(const struct at *at, uint32_t shift_in, uint32_t shift_out, double score_size)
{
    struct state *s = need(1, sizeof *s);
    uint32_t n_columns = at->heads.n_columns;
    uint32_t n_scores = sl_heads_scores(at->heads);
    s->u = make_level(at->group, at->hop + 1, sl_heads_row(at->heads), shift_in);
    s->gu = make_level(at->group, at->hop + 1, sl_heads_row(at->heads), shift_in);
    s->z = make_level(at->group, at->hop, n_columns, shift_out);
    s->gz = make_level(at->group, at->hop, n_columns, shift_out);
    s->lse = make_level(at->group, at->hop, n_scores, shift_out);
    s->sides = make_level(at->group, at->hop, 4 * n_scores, shift_out);
    fill_rows(at, SEED, &s->u, n_columns, score_size);
    fill_rows(at, SEED + 1, &s->gz, n_columns, 1);
    return s;
}

static void free_state(const struct at *at, struct state *s)
{
    free_level(at->group, &s->u);
    free_level(at->group, &s->gu);
    free_level(at->group, &s->z);
    free_level(at->group, &s->gz);
    free_level(at->group, &s->lse);
    free_level(at->group, &s->sides);
    free(s);
}

/* ---- one hop ---- */

enum { U, GU, Z, LSE, GZ, SIDES };

/* A hop's handles, and what PEs send each other. */
struct exchange {
    struct handles *h;
    struct sl_source_handles sources[MAX_PARTS];
    struct sl_slice u[MAX_PARTS][MAX_PARTS];  /* what owners packed, by requester */
    struct sl_slice gu[MAX_PARTS][MAX_PARTS]; /* what goes back to them */
};

static struct exchange *open_exchange(const struct at *at, const struct state *s)
{
    struct exchange *x = need(1, sizeof *x);
    struct handles *h = x->h = wrap_hop(at->group, at->hop);
    const struct level *levels[] = {&s->u, &s->gu, &s->z, &s->lse, &s->gz, &s->sides};
    for (int slot = U; slot <= SIDES; slot++) {
        wrap_level(h, slot, levels[slot]);
    }
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        submit_packs(h, h->rows[U], p, x->u[p]);
        x->sources[p] = (struct sl_source_handles){.n_owners = at->group->n_parts,
                                                   .own = p,
                                                   .first = at->group->pe[p].block[at->hop].request,
                                                   .rows = &h->rows[U][p],
                                                   .inverse = h->block[p].inverse,
                                                   .packed = x->u[p]};
    }
    return x;
}

static void close_exchange(struct exchange *x)
{
    unwrap(x->h);
    free(x);
}

static void forward(const struct at *at, int beta, struct state *s)
{
    struct exchange *x = open_exchange(at, s);
    struct handles *h = x->h;
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        const struct sl_rows *z = &h->rows[Z][p];
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            expect_ok(sl_attend_forward_submit(&head, &h->block[p], c << z->split.shift, 100, &x->sources[p], beta,
                                               z->chunk[c], h->rows[LSE][p].chunk[c]));
        }
    }
    close_exchange(x);
}

/* What p sends back to each owner. */
static void send_back(const struct at *at, struct exchange *x, uint32_t p)
{
    struct handles *h = x->h;
    const struct sl_rows *gz = &h->rows[GZ][p];
    struct sl_attend_gradients gradients = {gz, &h->rows[SIDES][p]};
    struct sl_slice u[MAX_PARTS];
    struct sl_slice gu[MAX_PARTS];
    uint32_t t0[MAX_PARTS];
    uint32_t n = 0;
    wrap_packed(h, p, h->rows[U][p].n_columns, x->gu[p]);
    for (uint32_t c = 0; c < gz->split.n_chunks; c++) {
        expect_ok(sl_attend_sides_submit(&head, &h->block[p], c << gz->split.shift, 100, &x->sources[p], gz->chunk[c],
                                         h->rows[LSE][p].chunk[c], h->rows[SIDES][p].chunk[c]));
    }
    for (uint32_t q = 0; q < at->group->n_parts; q++) {
        if (x->gu[p][q].n_rows > 0) {
            t0[n] = x->sources[p].first[q];
            u[n] = x->u[p][q];
            gu[n++] = x->gu[p][q];
        }
    }
    if (n > 0) {
        expect_ok(sl_attend_backward_submit(&head, &h->block[p], &gradients, 100, n, t0, u, gu));
    }
}

static void backward(const struct at *at, struct state *s)
{
    struct exchange *x = open_exchange(at, s);
    struct handles *h = x->h;
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        send_back(at, x, p);
    }
    for (uint32_t q = 0; q < at->group->n_parts; q++) {
        const uint32_t *first = x->sources[q].first;
        const struct sl_rows *gu = &h->rows[GU][q];
        struct sl_slice sent[MAX_PARTS];
        for (uint32_t p = 0; p < at->group->n_parts; p++) {
            sent[p] = x->gu[p][q];
        }
        const struct sl_attend_shares shares = {.block = &h->block[q],
                                                .gradients = {&h->rows[GZ][q], &h->rows[SIDES][q]},
                                                .from = {.t0 = first[q],
                                                         .n_own = sl_list_count(first, q),
                                                         .n_peers = at->group->n_parts,
                                                         .own = q,
                                                         .sent = sent}};
        for (uint32_t c = 0; c < gu->split.n_chunks; c++) {
            expect_ok(sl_attend_accumulate_submit(&head, &shares, c << gu->split.shift, h->rows[U][q].chunk[c],
                                                  gu->chunk[c]));
        }
    }
    close_exchange(x);
}

/* ---- the same in plain loops, by vertex ---- */

/* The lists of a hop by dataset id. A destination has one, which begins with itself, or one for each relation. */
struct plain {
    struct sl_heads heads;
    uint32_t n_lists;
    uint32_t *destination;
    uint32_t *relation;
    uint32_t *offsets;
    uint32_t *source;
    double *weight; /* of the edge; 1 without weights */
};

/* The list of a destination and of relation r; without relations r is 0. */
static void add_list(struct plain *g, const struct group *group, const struct group_block *block, uint32_t p,
                     uint32_t d, uint32_t r)
{
    const uint32_t id = (uint32_t)dataset_id(group, p, d);
    uint32_t n_edges = g->offsets[g->n_lists];
    g->destination[g->n_lists] = id;
    g->relation[g->n_lists++] = r;
    if (g->heads.n_relations == 0) {
        g->weight[n_edges] = 1;
        g->source[n_edges++] = id;
    }
    for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
        const uint32_t source = group->partition->dataset_ids[source_id(block, block->edge_sources[e])];
        if (g->heads.n_relations == 0 ? source != id : block->edge_relations[e] == r) {
            g->weight[n_edges] = block->edge_weights == NULL ? 1 : (double)block->edge_weights[e];
            g->source[n_edges++] = source;
        }
    }
    g->offsets[g->n_lists] = n_edges;
}

static struct plain make_plain(const struct at *at)
{
    struct plain g = {.heads = at->heads};
    uint32_t n_vertices = at->group->partition->graph.n_vertices;
    uint32_t n_slabs = sl_heads_slabs(at->heads);
    uint32_t n = n_vertices;
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        n += at->group->pe[p].block[at->hop].n_edges;
    }
    g.destination = need((size_t)n_slabs * n_vertices, sizeof *g.destination);
    g.relation = need((size_t)n_slabs * n_vertices, sizeof *g.relation);
    g.offsets = need((size_t)n_slabs * n_vertices + 1, sizeof *g.offsets);
    g.source = need(n, sizeof *g.source);
    g.weight = need(n, sizeof *g.weight);
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        const struct group_block *block = &at->group->pe[p].block[at->hop];
        for (uint32_t i = 0; i < at->group->pe[p].n_rows[at->hop] * n_slabs; i++) {
            add_list(&g, at->group, block, p, i / n_slabs, i % n_slabs);
        }
    }
    return g;
}

static void free_plain(struct plain *g)
{
    free(g->destination);
    free(g->relation);
    free(g->offsets);
    free(g->source);
    free(g->weight);
}

/* The slab of vertex v that list i reads. */
static size_t slab_at(const struct plain *g, uint32_t i, uint32_t v)
{
    return (size_t)v * sl_heads_row(g->heads) + (size_t)g->relation[i] * sl_heads_slab(g->heads);
}

/* x of one edge, from s, and head. */
static double x_of(const struct plain *g, const double *u, uint32_t i, uint32_t s, uint32_t k)
{
    const struct sl_heads heads = g->heads;
    return u[slab_at(g, i, g->destination[i]) + heads.n_columns + heads.n_heads + k] +
           u[slab_at(g, i, s) + heads.n_columns + k];
}

static double e_of(const struct plain *g, const double *u, uint32_t i, uint32_t s, uint32_t k)
{
    double x = x_of(g, u, i, s, k);
    return x > 0 ? x : 0.2 * x;
}

/* An empty list has 0. */
static double reference_lse(const struct plain *g, const double *u, uint32_t i, uint32_t k)
{
    double top = -INFINITY;
    double sum = 0;
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        top = fmax(top, e_of(g, u, i, g->source[e], k));
    }
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        sum += exp(e_of(g, u, i, g->source[e], k) - top);
    }
    return sum > 0 ? top + log(sum) : 0;
}

/* z and lse of all destinations. */
static void reference_forward(const struct plain *g, const double *u, double *z, double *lse)
{
    uint32_t width = g->heads.n_columns / g->heads.n_heads;
    for (uint32_t i = 0; i < g->n_lists; i++) {
        uint32_t d = g->destination[i];
        for (uint32_t k = 0; k < g->heads.n_heads; k++) {
            double own = reference_lse(g, u, i, k);
            lse[(size_t)d * sl_heads_scores(g->heads) + g->relation[i] * g->heads.n_heads + k] = own;
            for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
                double a = g->weight[e] * exp(e_of(g, u, i, g->source[e], k) - own);
                for (uint32_t j = k * width; j < (k + 1) * width; j++) {
                    z[(size_t)d * g->heads.n_columns + j] += a * u[slab_at(g, i, g->source[e]) + j];
                }
            }
        }
    }
}

/* Of one edge and head: a, and da. */
static void reference_edge(const struct plain *g, const double *u, const double *gz, uint32_t i, uint32_t e, uint32_t k,
                           double lse, double out[2])
{
    uint32_t width = g->heads.n_columns / g->heads.n_heads;
    uint32_t s = g->source[e];
    out[0] = exp(e_of(g, u, i, s, k) - lse);
    out[1] = 0;
    for (uint32_t j = k * width; j < (k + 1) * width; j++) {
        out[1] += g->weight[e] * gz[(size_t)g->destination[i] * g->heads.n_columns + j] * u[slab_at(g, i, s) + j];
    }
}

/* gu += one list's and head's gradients. */
static void reference_back(const struct plain *g, const double *u, const double *gz, uint32_t i, uint32_t k, double *gu)
{
    uint32_t width = g->heads.n_columns / g->heads.n_heads;
    uint32_t d = g->destination[i];
    double lse = reference_lse(g, u, i, k);
    double c = 0;
    double a[2];
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        reference_edge(g, u, gz, i, e, k, lse, a);
        c += a[0] * a[1];
    }
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        uint32_t s = g->source[e];
        reference_edge(g, u, gz, i, e, k, lse, a);
        double gx = a[0] * (a[1] - c) * (x_of(g, u, i, s, k) > 0 ? 1 : 0.2);
        gu[slab_at(g, i, s) + g->heads.n_columns + k] += gx;
        gu[slab_at(g, i, d) + g->heads.n_columns + g->heads.n_heads + k] += gx;
        for (uint32_t j = k * width; j < (k + 1) * width; j++) {
            gu[slab_at(g, i, s) + j] += g->weight[e] * a[0] * gz[(size_t)d * g->heads.n_columns + j];
        }
    }
}

static double *reference_backward(const struct at *at, const struct plain *g, const double *u, const double *gz)
{
    double *gu = need((size_t)at->group->partition->graph.n_vertices * sl_heads_row(g->heads), sizeof *gu);
    for (uint32_t i = 0; i < g->n_lists; i++) {
        for (uint32_t k = 0; k < g->heads.n_heads; k++) {
            reference_back(g, u, gz, i, k, gu);
        }
    }
    return gu;
}

/* <gz, z>, whose gradient for u backward is. */
static double reference_loss(const struct at *at, const struct plain *g, const double *u, const double *gz)
{
    size_t n = at->group->partition->graph.n_vertices;
    double *z = need(n * g->heads.n_columns, sizeof *z);
    double *lse = need(n * sl_heads_scores(g->heads), sizeof *lse);
    double loss = 0;
    reference_forward(g, u, z, lse);
    for (size_t i = 0; i < n * g->heads.n_columns; i++) {
        loss += gz[i] * z[i];
    }
    free(z);
    free(lse);
    return loss;
}

static void set_level(const struct at *at, struct level *level, sl_real x)
{
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        for (uint32_t r = 0; r < level->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < level->pe[p].n_columns; j++) {
                row_at(&level->pe[p], r)[j] = x;
            }
        }
    }
}

/* ---- tests ---- */

/* What rounding does to a weight, and so to sums of weights 1 in all: lse, of up to score_size + ln of the terms,
 * is off by an epsilon of itself, and the sums it is made of and makes by their lengths. */
static double tolerance_of(const struct group *group, size_t length, double score_size)
{
    const double largest = group->partition->graph.weights.data != NULL ? 4 : 1;
    return largest * (rounding(length, 1) + 8 * EPSILON * (2 * score_size + 10));
}

/* Attention, its sum onto 3, and the adjoint against the loops. length: of the longest list. */
static void check_hop(const struct group *group, uint32_t hop, struct sl_heads heads, uint32_t shift_in,
                      uint32_t shift_out, size_t length, double score_size)
{
    struct at at = at_hop(group, hop, heads);
    struct state *s = make_state(&at, shift_in, shift_out, score_size);
    struct plain g = make_plain(&at);
    size_t n = group->partition->graph.n_vertices;
    FREED double *u = table_of(at.group, &s->u);
    FREED double *gz = table_of(at.group, &s->gz);
    FREED double *z = need(n * heads.n_columns, sizeof *z);
    FREED double *lse = need(n * sl_heads_scores(at.heads), sizeof *lse);
    FREED double *gu = reference_backward(&at, &g, u, gz);
    double close = tolerance_of(group, length, score_size) * sl_heads_slabs(at.heads);
    double width = heads.n_columns / heads.n_heads;
    reference_forward(&g, u, z, lse);
    forward(&at, 0, s);
    expect_table("z", at.group, &s->z, z, 0, close);
    expect_table("lse", at.group, &s->lse, lse, 0, close);
    backward(&at, s);
    /* products of `width` numbers, up to that size, which up to `length` destinations add up */
    expect_table("gradient", at.group, &s->gu, gu, 0, close * sqrt(width) * sqrt((double)length));
    set_level(&at, &s->z, 3);
    forward(&at, 1, s);
    expect_table("3 + z", at.group, &s->z, z, 3, close + 4 * EPSILON * sqrt((double)length));
    free_plain(&g);
    free_state(&at, s);
}

static const uint32_t relation_counts[] = {0, 1, WEIGHTED, 4};

TEST(test_graphs)
{
    fixture_start(3);
    const uint32_t part_counts[] = {1, 4, 7};
    for (int graph = 0; graph < 4 * N_GRAPHS; graph++) {
        struct graph_shape shape = {.kind = graph / 4,
                                    .n_vertices = 90,
                                    .directed = graph / 4 == GRAPH_POWER_LAW,
                                    .self_loops = graph % 4 > 0,
                                    .n_relations = relation_counts[graph % 4],
                                    .weighted = relation_counts[graph % 4] == WEIGHTED};
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        struct sl_partition partition;
        struct group group;
        make_group(&dataset, SPLIT_UNEVEN, part_counts[graph % 3], 20, &partition, &group);
        check_hop(&group, 0, (struct sl_heads){6, 3, 0}, 31, 31, 90, 1);
        check_hop(&group, 1, (struct sl_heads){6, 2, 0}, 3, 2, 90, 1);
        drop_group(&partition, &group);
    }
    fixture_stop();
}

static const struct sl_heads some_heads[] = {{1, 1, 0},  {7, 1, 0},   {40, 5, 0}, {64, 64, 0},
                                             {64, 8, 0}, {33, 11, 0}, {96, 3, 0}, {256, 4, 0}};
#define N_HEADS (sizeof some_heads / sizeof some_heads[0])

/* Where kernels are slow: half of the heads, typed graphs with the other half. */
static void check_heads(uint32_t n_relations)
{
    const uint32_t stride = slow_stride(2);
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 200 / stride,
                                .hub_degree = 140 / stride,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_METIS, 4, 40 / stride, &partition, &group);
    for (uint32_t i = ((n_relations > 0) + slow_first(2)) % stride; i < N_HEADS; i += stride) {
        check_hop(&group, 1, some_heads[i], i % 3 ? 4 : 31, i % 3 ? (i % 2 ? 4 : 1) : 31, 140, 1);
    }
    drop_group(&partition, &group);
    make_group(&dataset, SPLIT_RANDOM, 40, 10, &partition, &group);
    check_hop(&group, 1, (struct sl_heads){4, 2, 0}, 31, 31, 140, 1);
    drop_group(&partition, &group);
}

TEST(test_heads_and_chunks)
{
    fixture_start(1);
    fixture_watch();
    check_heads(0);
    check_heads(WEIGHTED);
    fixture_stop();
}

static void check_large_scores(uint32_t n_relations)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 200,
                                .hub_degree = 140,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_RANDOM, 3, 40, &partition, &group);
    check_hop(&group, 1, (struct sl_heads){12, 4, 0}, 31, 31, 140, 80);
    check_hop(&group, 0, (struct sl_heads){12, 1, 0}, 4, 3, 140, 80);
    drop_group(&partition, &group);
}

/* Scores up to 160 either way, whose exponentials are no floats: one source has nearly all the weight. */
TEST(test_large_scores)
{
    fixture_start(1);
    check_large_scores(0);
    check_large_scores(2);
    fixture_stop();
}

static void check_central_differences(uint32_t n_relations)
{
    const double step = 1e-5;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 40,
                                .hub_degree = 20,
                                .directed = true,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_NONE, 1, 15, &partition, &group);
    struct at at = at_hop(&group, 1, (struct sl_heads){6, 2, 0});
    struct state *s = make_state(&at, 31, 31, 1);
    struct plain g = make_plain(&at);
    FREED double *u = table_of(at.group, &s->u);
    FREED double *gz = table_of(at.group, &s->gz);
    FREED double *gu = reference_backward(&at, &g, u, gz);
    for (size_t i = 0; i < (size_t)40 * sl_heads_row(at.heads); i++) {
        double at_u = u[i];
        u[i] = at_u + step;
        double above = reference_loss(&at, &g, u, gz);
        u[i] = at_u - step;
        double below = reference_loss(&at, &g, u, gz);
        u[i] = at_u;
        expect_near_at("difference", i, (above - below) / (2 * step), gu[i], 1e-8);
    }
    free_plain(&g);
    free_state(&at, s);
    drop_group(&partition, &group);
}

/* The loops' gradients are the slopes of their loss. Differences of a step of 1e-5 are off by 1e-10 of third
 * derivatives, by 1e-11 of rounding, and by more only where x is within the step of 0. */
TEST(test_central_differences)
{
    check_central_differences(0);
    check_central_differences(3);
}

static void check_chunks(uint32_t n_relations)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 300,
                                .hub_degree = 140,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_RANDOM, 4, 40, &partition, &group);
    struct at at = at_hop(&group, 1, (struct sl_heads){9, 3, 0});
    struct state *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = make_state(&at, i == 0 ? 31 : 3, i == 0 ? 31 : 2, 1);
        forward(&at, 0, s[i]);
        backward(&at, s[i]);
    }
    expect_levels("z", &group, &s[1]->z, &s[0]->z, 0);
    expect_levels("lse", &group, &s[1]->lse, &s[0]->lse, 0);
    expect_levels("sides", &group, &s[1]->sides, &s[0]->sides, 0);
    expect_levels("gradient", &group, &s[1]->gu, &s[0]->gu, 0);
    free_state(&at, s[0]);
    free_state(&at, s[1]);
    drop_group(&partition, &group);
}

/* The chunks are invisible, to the bit: one and many give the same sums. */
TEST(test_chunks_are_invisible)
{
    fixture_start(1);
    check_chunks(0);
    check_chunks(3);
    fixture_stop();
}

/* A destination that has no edge, or but one from itself, is what it was: z = u, and nothing depends on its scores. */
static void check_alone(const struct at *at, const struct state *s, sl_vertex id)
{
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        for (uint32_t r = 0; r < at->group->pe[p].n_rows[at->hop]; r++) {
            for (uint32_t j = 0; j < sl_heads_row(at->heads) && dataset_id(at->group, p, r) == id; j++) {
                bool scores = j >= at->heads.n_columns;
                assert_true(scores || row_at(&s->z.pe[p], r)[j] == row_at(&s->u.pe[p], r)[j]);
                assert_true(row_at(&s->gu.pe[p], r)[j] == (scores ? 0 : row_at(&s->gz.pe[p], r)[j]));
            }
        }
    }
}

static void check_many_neighbours(uint32_t n_relations)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 14000,
                                .hub_degree = 13000,
                                .directed = true,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    const sl_vertex seeds[] = {7000, 13999, 13998, 0};
    double hub[2];
    make_dataset(&shape, &dataset);
    for (int i = 0; i < 2; i++) {
        struct sl_partition partition;
        struct group group;
        make_split_of(&dataset, SPLIT_RANDOM, i == 0 ? 1 : 4, &partition);
        group_sample(&partition, 1, &full, SEED, 0, 4, seeds, &group);
        check_hop(&group, 0, (struct sl_heads){4, 2, 0}, 31, 31, 13000, 1);
        struct at at = at_hop(&group, 0, (struct sl_heads){4, 2, 0});
        struct state *s = make_state(&at, 31, 31, 1);
        forward(&at, 0, s);
        backward(&at, s);
        if (n_relations == 0) {
            check_alone(&at, s, 13999); /* no neighbours */
            check_alone(&at, s, 13998); /* itself */
        }
        FREED double *z = table_of(at.group, &s->z);
        hub[i] = z[7000 * 4];
        free_state(&at, s);
        drop_group(&partition, &group);
    }
    assert_true(hub[0] == hub[1]);
}

/* 13,000 in-neighbours, in one part and in four. Sums run along the list's order, so that the parts do not change a
 * bit. */
TEST(test_many_neighbours)
{
    fixture_start(1);
    check_many_neighbours(0);
    check_many_neighbours(2);
    check_many_neighbours(WEIGHTED);
    fixture_stop();
}

/* Lists that are cut into slices, and short ones beside them: the hub, whose neighbours most of the other
 * destinations are, so that as a source it has many. */
static void check_hub(uint32_t hub_degree, uint32_t parts, uint32_t n_relations, struct sl_heads heads)
{
    enum { SEEDS = 400 };
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = hub_degree + 100,
                                .hub_degree = hub_degree,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    const uint32_t n_seeds = SEEDS / slow_stride(2); /* more of them than a slice has terms are the hub's */
    sl_vertex seeds[SEEDS];
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, parts, &partition);
    for (sl_vertex i = 0; i < n_seeds; i++) {
        seeds[i] = shape.n_vertices / 2 + i;
    }
    group_sample(&partition, 1, &full, SEED, 0, n_seeds, seeds, &group);
    check_hop(&group, 0, heads, 31, 8, hub_degree, 1);
    drop_group(&partition, &group);
}

TEST(test_hubs)
{
    fixture_start(1);
    check_hub(13000, 1, 0, (struct sl_heads){10, 1, 0});
    check_hub(1500, 2, 0, (struct sl_heads){40, 2, 0});
    check_hub(1500, 3, 0, (struct sl_heads){3, 3, 0});
    check_hub(13000, 1, 2, (struct sl_heads){10, 1, 0});
    check_hub(1500, 3, 3, (struct sl_heads){3, 3, 0});
    check_hub(800, 1, 0, (struct sl_heads){134, 1, 0}); /* heads that a group takes in several tiles */
    check_hub(800, 2, 2, (struct sl_heads){512, 2, 0});
    fixture_stop();
}

/* Evaluation: attention over all in-neighbours of whole parts. */
static void check_full(const struct sl_dataset *dataset, int split, uint32_t n_parts, uint32_t shift, int beta)
{
    struct handles *h = need(1, sizeof *h);
    struct sl_partition partition;
    struct group group;
    make_whole_group(dataset, split, n_parts, &partition, &group);
    struct at at = at_hop(&group, 0, (struct sl_heads){6, 2, 0});
    struct state *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = make_state(&at, shift, shift, 1);
        fill_rows(&at, SEED + 2, &s[i]->z, 6, 1);
    }
    h->group = &group;
    starpu_data_handle_t first = wrap_vector(h, partition.first, n_parts + 1, 4);
    wrap_level(h, U, &s[1]->u);
    wrap_level(h, Z, &s[1]->z);
    for (uint32_t p = 0; p < n_parts; p++) {
        struct sl_sample_part of = part_of(&partition, p);
        uint32_t n_part = group.pe[p].n_part;
        const uint32_t n_edges = (uint32_t)(of.offsets[n_part] - of.offsets[0]);
        const struct sl_full_sources part = {.offsets = wrap_vector(h, of.offsets, n_part + 1, 8),
                                             .sources = wrap_vector(h, of.sources, n_edges, 4),
                                             .first = first,
                                             .n_parts = n_parts,
                                             .rows = h->rows[U],
                                             .n_edges = 100,
                                             .edge_weights = wrap_vector(h, of.weights, n_edges, 4),
                                             .edge_relations = wrap_vector(h, of.relations, n_edges, 2)};
        const struct sl_rows *z = &h->rows[Z][p];
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            expect_ok(sl_attend_full_submit(&head, &part, p, c << z->split.shift, sl_heads_scores(at.heads), beta,
                                            z->chunk[c]));
        }
    }
    unwrap(h);
    forward(&at, beta, s[0]);
    expect_levels("z of all", &group, &s[1]->z, &s[0]->z, tolerance_of(&group, 280, 1));
    free_state(&at, s[0]);
    free_state(&at, s[1]);
    drop_group(&partition, &group);
}

TEST(test_full)
{
    for (size_t w = 0; w < 2 * N_WORKER_COUNTS; w += slow_stride(3)) {
        const struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                          .n_vertices = 300,
                                          .hub_degree = 280,
                                          .directed = true,
                                          .n_relations = w % 2 == 1 ? WEIGHTED : 0,
                                          .weighted = w % 2 == 1};
        struct sl_dataset dataset;
        fixture_start(worker_counts[w / 2]);
        make_dataset(&shape, &dataset);
        check_full(&dataset, SPLIT_NONE, 1, 31, 0);
        check_full(&dataset, SPLIT_RANDOM, 3, 4, 0);
        check_full(&dataset, SPLIT_METIS, 4, 5, 1);
        check_full(&dataset, SPLIT_UNEVEN, 7, 3, 0);
        check_full(&dataset, SPLIT_RANDOM, 7, 0, 0); /* more chunks than a launch has parameters for */
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

TEST_MAIN(NULL, NULL)
