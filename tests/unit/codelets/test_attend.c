/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sums/attend.h over whole groups: attention and its adjoint, with the exchange between them, against plain
 * loops in double, whose gradients are those of central differences. */
#include "codelets/sums/attend.h"
#include "data/load.h"

#include "tests/support/hop_fixture.h"

/* Graphs with so many relations have weights of edges, up to 4: those of a dataset, or of a sample. */
#define WEIGHTED 3
#define SAMPLED 4

/* Columns of the features of edges; 0: none. The table has TABLE rows. in_messages: messages have them, too. */
static uint32_t n_features;
static bool in_messages;
#define TABLE 50

/* The row of the edge from u to v. */
static uint32_t edge_row(size_t u, size_t v)
{
    return (uint32_t)((7 * u + 3 * v) % TABLE);
}

/* ---- rows of a hop ---- */

/* All that is computed in a hop of a group. */
struct state {
    const struct group *group;
    uint32_t hop;
    bool of_sample;                 /* weights are in the softmax */
    struct sl_heads heads;          /* R is the graph's */
    struct level u, gu;             /* of sources */
    struct level z, lse, gz, sides; /* of destinations */
    struct level gv, s, gs;         /* of destinations; one column without features */
    sl_real *table, *v;             /* NULL without features */
    uint32_t *edges[MAX_PARTS], *back[MAX_PARTS];
};

/* A sample has no weights of 0. */
static void lift_weights(const struct group *group, uint32_t hop)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        for (uint32_t e = 0; e < block->n_edges; e++) {
            block->edge_weights[e] = fmaxf(block->edge_weights[e], 0.125F);
            block->back_weights[e] = fmaxf(block->back_weights[e], 0.125F);
        }
    }
}

/* The features of the edges of the blocks. */
static void make_features(struct state *s)
{
    const struct group *group = s->group;
    s->table = noisy((size_t)TABLE * n_features, 5);
    s->v = noisy((size_t)sl_heads_scores(s->heads) * n_features, 6);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[s->hop];
        s->edges[p] = need(block->n_edges, sizeof *s->edges[p]);
        s->back[p] = need(block->n_edges, sizeof *s->back[p]);
        for (uint32_t d = 0; d < group->pe[p].n_rows[s->hop]; d++) {
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                const uint32_t u = group->partition->dataset_ids[source_id(block, block->edge_sources[e])];
                s->edges[p][e] = edge_row(u, dataset_id(group, p, d));
            }
        }
        for (uint32_t t = 0; t < block->n_sources; t++) {
            for (uint32_t e = block->back_offsets[t]; e < block->back_offsets[t + 1]; e++) {
                s->back[p][e] = edge_row(group->partition->dataset_ids[source_id(block, t)],
                                         dataset_id(group, p, block->back_rows[e]));
            }
        }
    }
}

/* Noise of size 1, and of score_size in the columns of scores. */
static struct state *make_state(const struct group *group, uint32_t hop, struct sl_heads heads, uint32_t shift_in,
                                uint32_t shift_out, double score_size)
{
    struct state *s = need(1, sizeof *s);
    heads.n_relations = group->partition->graph.n_relations;
    const uint32_t n_scores = sl_heads_scores(heads);
    *s = (struct state){.group = group,
                        .hop = hop,
                        .of_sample = heads.n_relations == SAMPLED,
                        .heads = heads,
                        .u = make_level(group, hop + 1, sl_heads_row(heads), shift_in),
                        .gu = make_level(group, hop + 1, sl_heads_row(heads), shift_in),
                        .z = make_level(group, hop, heads.n_columns, shift_out),
                        .gz = make_level(group, hop, heads.n_columns, shift_out),
                        .lse = make_level(group, hop, n_scores, shift_out),
                        .sides = make_level(group, hop, 4 * n_scores, shift_out),
                        .gv = make_level(group, hop, n_features > 0 ? n_scores * n_features : 1, shift_out),
                        .s = make_level(group, hop, n_features > 0 ? n_scores * n_features : 1, shift_out),
                        .gs = make_level(group, hop, n_features > 0 ? n_scores * n_features : 1, shift_out)};
    if (s->of_sample) {
        lift_weights(group, hop);
    }
    if (n_features > 0) {
        make_features(s);
    }
    fill_level(group, SEED, &s->u);
    fill_level(group, SEED + 1, &s->gz);
    fill_level(group, SEED + 3, &s->s); /* overwritten */
    fill_level(group, SEED + 4, &s->gs);
    for (struct entry e = {0}; next_entry(group, &s->u, &e);) {
        *e.x *= e.j % sl_heads_slab(heads) < heads.n_columns ? 1 : (sl_real)score_size;
    }
    return s;
}

static void free_state(struct state **s)
{
    struct level *const all[] = {&(*s)->u,     &(*s)->gu, &(*s)->z, &(*s)->lse, &(*s)->gz,
                                 &(*s)->sides, &(*s)->gv, &(*s)->s, &(*s)->gs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free_level((*s)->group, all[i]);
    }
    for (uint32_t p = 0; p < MAX_PARTS; p++) {
        free((*s)->edges[p]);
        free((*s)->back[p]);
    }
    free((*s)->table);
    free((*s)->v);
    free(*s);
}

/* ---- one hop ---- */

enum { U, GU, Z, LSE, GZ, SIDES, GV, S, GS };

static struct sl_edge_score_handles of_edges; /* of the hop in hand */

static struct handles *open_hop(const struct state *s)
{
    struct handles *h = wrap_hop(s->group, s->hop);
    for (uint32_t p = 0; p < s->group->n_parts; p++) {
        h->block[p].of_sample = s->of_sample;
    }
    const struct level *levels[] = {&s->u, &s->gu, &s->z, &s->lse, &s->gz, &s->sides, &s->gv, &s->s, &s->gs};
    for (int slot = U; slot <= GS; slot++) {
        wrap_level(h, slot, levels[slot]);
    }
    of_edges = (struct sl_edge_score_handles){NULL, NULL, NULL};
    if (s->table != NULL) {
        of_edges.table = wrap(h, rows_of(s->table, TABLE, n_features));
        of_edges.v = wrap(h, rows_of(s->v, 1, sl_heads_scores(s->heads) * n_features));
    }
    for (uint32_t p = 0; p < s->group->n_parts; p++) {
        const uint32_t n = s->group->pe[p].block[s->hop].n_edges;
        h->block[p].edge_rows = wrap_vector(h, s->edges[p], n, 4);
        h->block[p].back_edges = wrap_vector(h, s->back[p], n, 4);
    }
    return h;
}

/* The chunk of a slot that begins with row0. */
static starpu_data_handle_t chunk_at(const struct handles *h, int slot, uint32_t p, uint32_t row0)
{
    return h->rows[slot][p].chunk[row0 >> h->rows[slot][p].split.shift];
}

/* The same of S or GS, if messages have features. */
static starpu_data_handle_t features_at(const struct handles *h, int slot, uint32_t p, uint32_t row0)
{
    return in_messages ? chunk_at(h, slot, p, row0) : NULL;
}

static struct sl_attend_gradients gradients_at(struct handles *h, uint32_t p)
{
    return (struct sl_attend_gradients){&h->rows[GZ][p], &h->rows[SIDES][p], in_messages ? &h->rows[GS][p] : NULL, NULL,
                                        of_edges};
}

static void submit_z(struct handles *h, uint32_t p, uint32_t row0, const struct sl_source_handles *sources,
                     starpu_data_handle_t z)
{
    const struct sl_attend_targets to = {
        &h->block[p], row0, 100, sources, {NULL, NULL, of_edges, features_at(h, S, p, row0)}};
    expect_ok(sl_attend_forward_submit(&head, &to, h->beta, z, chunk_at(h, LSE, p, row0)));
}

static void forward(int beta, struct state *s)
{
    struct handles *h = open_hop(s);
    h->beta = beta;
    each_destination(h, U, Z, submit_z);
    unwrap(h);
}

static void submit_sides(struct handles *h, uint32_t p, uint32_t row0, const struct sl_source_handles *sources,
                         starpu_data_handle_t gz)
{
    const struct sl_attend_targets to = {
        &h->block[p], row0, 100, sources, {NULL, NULL, of_edges, features_at(h, GS, p, row0)}};
    const struct sl_attend_sides out = {.sides = chunk_at(h, SIDES, p, row0),
                                        .gv = of_edges.v != NULL ? chunk_at(h, GV, p, row0) : NULL};
    expect_ok(sl_attend_sides_submit(&head, &to, gz, chunk_at(h, LSE, p, row0), &out));
}

static void send(struct handles *h, uint32_t p, uint32_t n, const uint32_t *t0, const struct sl_slice *packed)
{
    const struct sl_attend_gradients gradients = gradients_at(h, p);
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
    const struct sl_attend_shares shares = {.block = &h->block[q], .gradients = gradients_at(h, q), .from = *from};
    expect_ok(sl_attend_accumulate_submit(&head, &shares, row0, chunk_at(h, U, q, row0), gu));
}

static void backward(struct state *s)
{
    struct handles *h = open_hop(s);
    each_destination(h, U, GZ, submit_sides);
    each_source(h, GU, send, accumulate);
    unwrap(h);
}

/* ---- the same in plain loops, by vertex ---- */

/* Tables and the lists of a hop by dataset id. A destination has one list, which begins with itself, or one for each
 * relation. */
struct plain {
    bool of_sample;
    struct sl_heads heads;
    uint32_t n_vertices, n_lists;
    uint32_t *destination;
    uint32_t *relation;
    uint32_t *offsets;
    uint32_t *source;
    double *weight;       /* of the edge; 1 without weights */
    double *share;        /* of the edge in a sample */
    double *a, *da;       /* of an edge, of the head in hand */
    double *u, *gz;       /* given */
    double *z, *lse, *gu; /* computed */
    double *v, *gv;       /* of features; gv by destination */
    double *s, *gs;       /* by destination; gs is given, 0 if messages have no features */
    const sl_real *table;
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
        g->weight[n_edges] = g->share[n_edges] = 1;
        g->source[n_edges++] = id;
    }
    for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
        const uint32_t source = group->partition->dataset_ids[source_id(block, block->edge_sources[e])];
        if (g->heads.n_relations == 0 ? source != id : block->edge_relations[e] == r) {
            const double weight = block->edge_weights == NULL ? 1 : (double)block->edge_weights[e];
            g->weight[n_edges] = g->of_sample ? 1 : weight;
            g->share[n_edges] = g->of_sample ? weight : 1;
            g->source[n_edges++] = source;
        }
    }
    g->offsets[g->n_lists] = n_edges;
}

/* The lists, with u and gz of the state. */
static struct plain make_plain(const struct state *s)
{
    const uint32_t n_slabs = sl_heads_slabs(s->heads);
    const uint32_t n_vertices = s->group->partition->graph.n_vertices;
    uint32_t n = n_vertices;
    for (uint32_t p = 0; p < s->group->n_parts; p++) {
        n += s->group->pe[p].block[s->hop].n_edges;
    }
    struct plain g = {.of_sample = s->of_sample,
                      .heads = s->heads,
                      .n_vertices = n_vertices,
                      .destination = need((size_t)n_slabs * n_vertices, sizeof *g.destination),
                      .relation = need((size_t)n_slabs * n_vertices, sizeof *g.relation),
                      .offsets = need((size_t)n_slabs * n_vertices + 1, sizeof *g.offsets),
                      .source = need(n, sizeof *g.source),
                      .weight = need(n, sizeof *g.weight),
                      .share = need(n, sizeof *g.share),
                      .a = need(n, sizeof *g.a),
                      .da = need(n, sizeof *g.da),
                      .u = table_of(s->group, &s->u),
                      .gz = table_of(s->group, &s->gz),
                      .z = table_of(s->group, &s->gz),
                      .lse = table_of(s->group, &s->lse),
                      .gu = table_of(s->group, &s->u),
                      .v = need((size_t)sl_heads_scores(s->heads) * n_features + 1, sizeof *g.v),
                      .gv = table_of(s->group, &s->gv),
                      .s = table_of(s->group, &s->s),
                      .gs = table_of(s->group, &s->gs),
                      .table = s->table};
    for (uint32_t i = 0; i < sl_heads_scores(s->heads) * n_features; i++) {
        g.v[i] = (double)s->v[i];
    }
    for (size_t i = 0; !in_messages && i < (size_t)n_vertices * sl_heads_scores(s->heads) * n_features; i++) {
        g.gs[i] = 0;
    }
    for (uint32_t p = 0; p < s->group->n_parts; p++) {
        const struct group_block *block = &s->group->pe[p].block[s->hop];
        for (uint32_t i = 0; i < s->group->pe[p].n_rows[s->hop] * n_slabs; i++) {
            add_list(&g, s->group, block, p, i / n_slabs, i % n_slabs);
        }
    }
    return g;
}

static void free_plain(struct plain *g)
{
    void *const all[] = {g->destination, g->relation, g->offsets, g->source, g->weight, g->share, g->a, g->da, g->u,
                         g->gz,          g->z,        g->lse,     g->gu,     g->v,      g->gv,    g->s, g->gs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

/* The slab of vertex v that list i reads. */
static size_t slab_at(const struct plain *g, uint32_t i, uint32_t v)
{
    return (size_t)v * sl_heads_row(g->heads) + (size_t)g->relation[i] * sl_heads_slab(g->heads);
}

/* The features of entry e of list i. NULL: none, as of the destination itself. */
static const sl_real *features_of(const struct plain *g, uint32_t i, uint32_t e)
{
    const uint32_t from = g->source[e];
    const uint32_t to = g->destination[i];
    const bool own = g->heads.n_relations == 0 && from == to;
    return g->table == NULL || own ? NULL : g->table + (size_t)edge_row(from, to) * n_features;
}

/* x of entry e of list i, and head k. */
static double x_of(const struct plain *g, uint32_t i, uint32_t e, uint32_t k)
{
    const struct sl_heads heads = g->heads;
    const sl_real *f = features_of(g, i, e);
    double score = 0;
    for (uint32_t c = 0; f != NULL && c < n_features; c++) {
        score += g->v[(g->relation[i] * heads.n_heads + k) * n_features + c] * (double)f[c];
    }
    return g->u[slab_at(g, i, g->destination[i]) + heads.n_columns + heads.n_heads + k] +
           g->u[slab_at(g, i, g->source[e]) + heads.n_columns + k] + score;
}

static double e_of(const struct plain *g, uint32_t i, uint32_t e, uint32_t k)
{
    const double x = x_of(g, i, e, k);
    return x > 0 ? x : 0.2 * x;
}

/* An empty list has 0. */
static double reference_lse(const struct plain *g, uint32_t i, uint32_t k)
{
    double top = -INFINITY;
    double sum = 0;
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        top = fmax(top, e_of(g, i, e, k));
    }
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        sum += g->share[e] * exp(e_of(g, i, e, k) - top);
    }
    return sum > 0 ? top + log(sum) : 0;
}

/* What list i adds to z and gu for head k; its lse. */
static void add_list_and_head(struct plain *g, uint32_t i, uint32_t k)
{
    const struct sl_heads heads = g->heads;
    const uint32_t width = heads.n_columns / heads.n_heads;
    const double *gz = g->gz + (size_t)g->destination[i] * heads.n_columns + k * width;
    double *z = g->z + (size_t)g->destination[i] * heads.n_columns + k * width;
    const uint32_t row = g->relation[i] * heads.n_heads + k; /* of V */
    const double lse = reference_lse(g, i, k);
    const size_t at = (size_t)g->destination[i] * sl_heads_scores(heads) + row;
    double c = 0;
    g->lse[at] = lse;
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        const double *u = g->u + slab_at(g, i, g->source[e]) + k * width;
        g->a[e] = g->share[e] * exp(e_of(g, i, e, k) - lse);
        g->da[e] = 0;
        for (uint32_t j = 0; j < width; j++) {
            z[j] += g->weight[e] * g->a[e] * u[j];
            g->da[e] += g->weight[e] * gz[j] * u[j];
        }
        const sl_real *f = features_of(g, i, e);
        for (uint32_t j = 0; f != NULL && j < n_features; j++) {
            g->s[at * n_features + j] += g->weight[e] * g->a[e] * (double)f[j];
            g->da[e] += g->weight[e] * g->gs[at * n_features + j] * (double)f[j];
        }
        c += g->a[e] * g->da[e];
    }
    double *gu_own = g->gu + slab_at(g, i, g->destination[i]);
    for (uint32_t e = g->offsets[i]; e < g->offsets[i + 1]; e++) {
        const double gx = g->a[e] * (g->da[e] - c) * (x_of(g, i, e, k) > 0 ? 1 : 0.2);
        double *gu = g->gu + slab_at(g, i, g->source[e]);
        gu[heads.n_columns + k] += gx;
        gu_own[heads.n_columns + heads.n_heads + k] += gx;
        const sl_real *f = features_of(g, i, e);
        for (uint32_t j = 0; f != NULL && j < n_features; j++) {
            g->gv[at * n_features + j] += gx * (double)f[j];
        }
        for (uint32_t j = 0; j < width; j++) {
            gu[k * width + j] += g->weight[e] * g->a[e] * gz[j];
        }
    }
}

/* z, lse, s and gu of the given u, gz and gs. Returns <gz, z> + <gs, s>, whose gradient for u is gu. */
static double evaluate(struct plain *g)
{
    const size_t n_z = (size_t)g->n_vertices * g->heads.n_columns;
    double loss = 0;
    memset(g->z, 0, n_z * sizeof *g->z);
    memset(g->gu, 0, (size_t)g->n_vertices * sl_heads_row(g->heads) * sizeof *g->gu);
    const size_t n_s = (size_t)g->n_vertices * sl_heads_scores(g->heads) * n_features;
    memset(g->gv, 0, n_s * sizeof *g->gv);
    memset(g->s, 0, n_s * sizeof *g->s);
    for (uint32_t i = 0; i < g->n_lists * g->heads.n_heads; i++) {
        add_list_and_head(g, i / g->heads.n_heads, i % g->heads.n_heads);
    }
    for (size_t i = 0; i < n_z; i++) {
        loss += g->gz[i] * g->z[i];
    }
    for (size_t i = 0; i < n_s; i++) {
        loss += g->gs[i] * g->s[i];
    }
    return loss;
}

/* ---- tests ---- */

/* What rounding does to a weight, and so to sums of weights 1 in all: lse, of up to score_size + ln of the terms,
 * is off by an epsilon of itself, and the sums it is made of and makes by their lengths. */
static double tolerance_of(const struct group *group, double score_size)
{
    const size_t length = group->partition->graph.n_vertices; /* of the longest list, at most */
    const double largest = group->partition->graph.weights != NULL ? 4 : 1;
    return largest * (rounding(length, 1) + 8 * EPSILON * (2 * score_size + 10));
}

/* Attention, its sum onto 3, and the adjoint against the loops. */
static void check_hop(const struct group *group, uint32_t hop, struct sl_heads heads, uint32_t shift_in,
                      uint32_t shift_out, double score_size)
{
    const double length = group->partition->graph.n_vertices;
    OWNED(free_state) struct state *s = make_state(group, hop, heads, shift_in, shift_out, score_size);
    struct plain g = make_plain(s);
    double close = tolerance_of(group, score_size) * sl_heads_slabs(s->heads);
    double width = heads.n_columns / heads.n_heads;
    evaluate(&g);
    forward(0, s);
    expect_table("z", group, &s->z, g.z, 0, close);
    expect_table("lse", group, &s->lse, g.lse, 0, close);
    backward(s);
    /* products of `width` numbers, up to that size, which up to all destinations add up */
    expect_table("gradient", group, &s->gu, g.gu, 0, close * sqrt(width) * sqrt(length));
    if (n_features > 0) {
        expect_table("gradient of V", group, &s->gv, g.gv, 0, close * sqrt(width) * sqrt(length));
    }
    if (in_messages) {
        expect_table("s", group, &s->s, g.s, 0, close * sqrt(length));
    }
    set_level(group, 3, &s->z);
    forward(1, s);
    expect_table("3 + z", group, &s->z, g.z, 3, close + 4 * EPSILON * sqrt(length));
    free_plain(&g);
}

static void make_two_hops(const struct graph_shape *shape, int split, uint32_t n_parts, uint32_t n_seeds,
                          struct world *out)
{
    make_world(shape, split, n_parts, out);
    sample_train(out, 2, SL_SAMPLE_NEIGHBOR, n_seeds);
}

static const uint32_t relation_counts[] = {0, 1, WEIGHTED, SAMPLED};

TEST(test_graphs)
{
    const uint32_t part_counts[] = {1, 4, 7};
    FIXTURE(3);
    for (int graph = 0; graph < 4 * N_GRAPHS; graph++) {
        struct graph_shape shape = power_law(90, 0, relation_counts[graph % 4], graph % 4 > 1);
        shape.kind = graph / 4;
        shape.directed = graph / 4 == GRAPH_POWER_LAW;
        shape.self_loops = graph % 4 > 0;
        OWNED(free_world) struct world w;
        make_two_hops(&shape, SPLIT_UNEVEN, part_counts[graph % 3], 20, &w);
        check_hop(&w.group, 0, (struct sl_heads){6, 3, 0}, 31, 31, 1);
        check_hop(&w.group, 1, (struct sl_heads){6, 2, 0}, 3, 2, 1);
    }
}

static const struct sl_heads some_heads[] = {{1, 1, 0},  {7, 1, 0},   {40, 5, 0}, {64, 64, 0},
                                             {64, 8, 0}, {33, 11, 0}, {96, 3, 0}, {256, 4, 0}};
#define N_HEADS (sizeof some_heads / sizeof some_heads[0])

/* Where kernels are slow: half of the heads, typed graphs with the other half. */
static void check_heads(uint32_t n_relations)
{
    const uint32_t stride = slow_stride(2);
    const struct graph_shape shape = power_law(200 / stride, 140 / stride, n_relations, n_relations >= WEIGHTED);
    OWNED(free_world) struct world w, many;
    make_two_hops(&shape, SPLIT_METIS, 4, 40 / stride, &w);
    for (uint32_t i = ((n_relations > 0) + slow_first(2)) % stride; i < N_HEADS; i += stride) {
        check_hop(&w.group, 1, some_heads[i], i % 3 ? 4 : 31, i % 3 ? (i % 2 ? 4 : 1) : 31, 1);
    }
    make_two_hops(&shape, SPLIT_RANDOM, 40, 10, &many);
    check_hop(&many.group, 1, (struct sl_heads){4, 2, 0}, 31, 31, 1);
}

TEST(test_heads_and_chunks)
{
    FIXTURE(1);
    fixture_watch();
    check_heads(0);
    check_heads(WEIGHTED);
    check_heads(SAMPLED);
}

static void check_large_scores(uint32_t n_relations)
{
    const struct graph_shape shape = power_law(200, 140, n_relations, n_relations >= WEIGHTED);
    OWNED(free_world) struct world w;
    make_two_hops(&shape, SPLIT_RANDOM, 3, 40, &w);
    check_hop(&w.group, 1, (struct sl_heads){12, 4, 0}, 31, 31, 80);
    check_hop(&w.group, 0, (struct sl_heads){12, 1, 0}, 4, 3, 80);
}

/* Scores up to 160 either way, whose exponentials are no floats: one source has nearly all the weight. */
TEST(test_large_scores)
{
    FIXTURE(1);
    check_large_scores(0);
    check_large_scores(2);
    check_large_scores(SAMPLED);
}

static void check_central_differences(uint32_t n_relations)
{
    const double step = 1e-5;
    struct graph_shape shape = power_law(40, 20, n_relations, n_relations >= WEIGHTED);
    shape.directed = true;
    OWNED(free_world) struct world w;
    make_two_hops(&shape, SPLIT_NONE, 1, 15, &w);
    OWNED(free_state) struct state *s = make_state(&w.group, 1, (struct sl_heads){6, 2, 0}, 31, 31, 1);
    struct plain g = make_plain(s);
    evaluate(&g);
    const size_t n = (size_t)40 * sl_heads_row(s->heads);
    FREED double *gu = memcpy(need(n, sizeof *gu), g.gu, n * sizeof *gu);
    for (size_t i = 0; i < n; i++) {
        const double at_u = g.u[i];
        g.u[i] = at_u + step;
        const double above = evaluate(&g);
        g.u[i] = at_u - step;
        const double below = evaluate(&g);
        g.u[i] = at_u;
        expect_near_at("difference", i, (above - below) / (2 * step), gu[i], 1e-8);
    }
    free_plain(&g);
}

/* The loops' gradients are the slopes of their loss. Differences of a step of 1e-5 are off by 1e-10 of third
 * derivatives, by 1e-11 of rounding, and by more only where x is within the step of 0. */
TEST(test_central_differences)
{
    check_central_differences(0);
    check_central_differences(WEIGHTED);
    check_central_differences(SAMPLED);
}

/* The same of V. */
static void check_differences_of_v(uint32_t n_relations)
{
    const double step = 1e-5;
    const struct graph_shape shape = power_law(40, 20, n_relations, n_relations >= WEIGHTED);
    OWNED(free_world) struct world w;
    make_two_hops(&shape, SPLIT_NONE, 1, 15, &w);
    OWNED(free_state) struct state *s = make_state(&w.group, 1, (struct sl_heads){6, 2, 0}, 31, 31, 1);
    struct plain g = make_plain(s);
    const uint32_t n_v = sl_heads_scores(s->heads) * n_features;
    for (uint32_t i = 0; i < n_v; i++) {
        const double at = g.v[i];
        double sum = 0;
        evaluate(&g);
        for (uint32_t v = 0; v < 40; v++) {
            sum += g.gv[v * n_v + i];
        }
        g.v[i] = at + step;
        const double above = evaluate(&g);
        g.v[i] = at - step;
        const double below = evaluate(&g);
        g.v[i] = at;
        expect_near_at("difference of V", i, (above - below) / (2 * step), sum, 4e-8);
    }
    free_plain(&g);
}

static void check_chunks(uint32_t n_relations)
{
    const struct graph_shape shape = power_law(300, 140, n_relations, n_relations >= WEIGHTED);
    OWNED(free_world) struct world w;
    make_two_hops(&shape, SPLIT_RANDOM, 4, 40, &w);
    struct state *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = make_state(&w.group, 1, (struct sl_heads){9, 3, 0}, i == 0 ? 31 : 3, i == 0 ? 31 : 2, 1);
        forward(0, s[i]);
        backward(s[i]);
    }
    expect_levels("z", &w.group, &s[1]->z, &s[0]->z, 0);
    expect_levels("lse", &w.group, &s[1]->lse, &s[0]->lse, 0);
    expect_levels("sides", &w.group, &s[1]->sides, &s[0]->sides, 0);
    expect_levels("gradient", &w.group, &s[1]->gu, &s[0]->gu, 0);
    expect_levels("gradient of V", &w.group, &s[1]->gv, &s[0]->gv, 0);
    free_state(&s[0]);
    free_state(&s[1]);
}

/* The chunks are invisible, to the bit: one and many give the same sums. */
TEST(test_chunks_are_invisible)
{
    FIXTURE(1);
    check_chunks(0);
    check_chunks(SAMPLED);
}

/* A destination that has no edge, or but one from itself, is what it was: z = u, and nothing depends on its scores. */
static void check_alone(const struct state *s, sl_vertex id)
{
    for (struct entry e = {0}; next_entry(s->group, &s->u, &e);) {
        if (e.r < s->group->pe[e.p].n_rows[s->hop] && dataset_id(s->group, e.p, e.r) == id) {
            const bool scores = e.j >= s->heads.n_columns;
            assert_true(scores || row_at(&s->z.pe[e.p], e.r)[e.j] == *e.x);
            assert_true(row_at(&s->gu.pe[e.p], e.r)[e.j] == (scores ? 0 : row_at(&s->gz.pe[e.p], e.r)[e.j]));
        }
    }
}

static void check_many_neighbours(uint32_t n_relations)
{
    struct graph_shape shape = power_law(14000, 13000, n_relations, n_relations >= WEIGHTED);
    double hub[2];
    shape.directed = true;
    for (int i = 0; i < 2; i++) {
        OWNED(free_world) struct world w;
        make_world(&shape, SPLIT_RANDOM, i == 0 ? 1 : 4, &w);
        sample_hub(&w, 4);
        check_hop(&w.group, 0, (struct sl_heads){4, 2, 0}, 31, 31, 1);
        OWNED(free_state) struct state *s = make_state(&w.group, 0, (struct sl_heads){4, 2, 0}, 31, 31, 1);
        forward(0, s);
        backward(s);
        if (n_relations == 0) {
            check_alone(s, 13999); /* no neighbours */
            check_alone(s, 13998); /* itself */
        }
        FREED double *z = table_of(&w.group, &s->z);
        hub[i] = z[7000 * 4];
    }
    assert_true(hub[0] == hub[1]);
}

/* 13,000 in-neighbours, in one part and in four. Sums run along the list's order, so that the parts do not change a
 * bit. */
TEST(test_many_neighbours)
{
    FIXTURE(1);
    check_many_neighbours(0);
    check_many_neighbours(2);
    check_many_neighbours(WEIGHTED);
    check_many_neighbours(SAMPLED);
}

/* Lists that are cut into slices, and short ones beside them: the hub, whose neighbours most of the other
 * destinations are, so that as a source it has many. */
static void check_hub(uint32_t hub_degree, uint32_t parts, uint32_t n_relations, struct sl_heads heads)
{
    const struct graph_shape shape = power_law(hub_degree + 100, hub_degree, n_relations, n_relations >= WEIGHTED);
    OWNED(free_world) struct world w;
    make_world(&shape, SPLIT_RANDOM, parts, &w);
    sample_hub(&w, 400 / slow_stride(2)); /* more of them than a slice has terms are the hub's */
    check_hop(&w.group, 0, heads, 31, 8, 1);
}

TEST(test_hubs)
{
    FIXTURE(1);
    check_hub(13000, 1, 0, (struct sl_heads){10, 1, 0});
    check_hub(1500, 2, 0, (struct sl_heads){40, 2, 0});
    check_hub(1500, 3, 0, (struct sl_heads){3, 3, 0});
    check_hub(13000, 1, 2, (struct sl_heads){10, 1, 0});
    check_hub(1500, 3, 3, (struct sl_heads){3, 3, 0});
    check_hub(1500, 3, SAMPLED, (struct sl_heads){10, 2, 0});
    check_hub(800, 1, 0, (struct sl_heads){134, 1, 0}); /* heads that a group takes in several tiles */
    check_hub(800, 2, 2, (struct sl_heads){512, 2, 0});
}

/* Evaluation: attention over all in-neighbours of whole parts. */
static void check_full(const struct graph_shape *shape, int split, uint32_t n_parts, uint32_t shift, int beta)
{
    struct sl_full_sources lists[MAX_PARTS];
    OWNED(free_world) struct world w;
    make_world(shape, split, n_parts, &w);
    sample_all(&w);
    struct state *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = make_state(&w.group, 0, (struct sl_heads){6, 2, 0}, shift, shift, 1);
        fill_level(&w.group, SEED + 2, &s[i]->z);
    }
    struct handles *h = open_hop(s[1]);
    wrap_lists(h, lists);
    for (uint32_t p = 0; p < n_parts; p++) {
        const struct sl_rows *z = &h->rows[Z][p];
        struct sl_attend_operands operands = {
            NULL, NULL, {of_edges.table, of_edges.v, h->block[p].edge_rows}, NULL}; /* a block of all in-edges */
        lists[p].rows = h->rows[U];
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            operands.s = features_at(h, S, p, c << z->split.shift);
            expect_ok(sl_attend_full_submit(&head, &lists[p], p, c << z->split.shift, sl_heads_scores(s[1]->heads),
                                            &operands, beta, z->chunk[c]));
        }
    }
    unwrap(h);
    forward(beta, s[0]);
    expect_levels("z of all", &w.group, &s[1]->z, &s[0]->z, tolerance_of(&w.group, 1));
    if (in_messages) {
        expect_levels("s of all", &w.group, &s[1]->s, &s[0]->s, 4 * tolerance_of(&w.group, 1));
    }
    free_state(&s[0]);
    free_state(&s[1]);
}

TEST(test_full)
{
    for (size_t w = 0; w < 2 * N_WORKER_COUNTS; w += slow_stride(3)) {
        struct graph_shape shape = power_law(300, 280, w % 2 * WEIGHTED, w % 2 == 1);
        shape.directed = true;
        FIXTURE(worker_counts[w / 2]);
        check_full(&shape, SPLIT_NONE, 1, 31, 0);
        check_full(&shape, SPLIT_RANDOM, 3, 4, 0);
        check_full(&shape, SPLIT_METIS, 4, 5, 1);
        check_full(&shape, SPLIT_UNEVEN, 7, 3, 0);
        check_full(&shape, SPLIT_RANDOM, 7, 0, 0); /* more chunks than a launch has parameters for */
    }
}

/* With features of edges: one column, several, and more than a group of lanes takes at a time. */
TEST(test_features)
{
    const struct sl_heads few = {6, 2, 0};
    const uint32_t widths[] = {1, 8, 5, 150};
    FIXTURE(3);
    for (uint32_t i = 0; i < 16; i += slow_stride(5)) {
        const uint32_t n_relations = relation_counts[i / 4];
        struct graph_shape shape = power_law(200, 140, n_relations, n_relations >= WEIGHTED);
        shape.self_loops = true;
        n_features = widths[i % 4];
        in_messages = (i + i / 4) % 2 == 0;
        OWNED(free_world) struct world w;
        make_two_hops(&shape, i % 2 ? SPLIT_METIS : SPLIT_UNEVEN, 4 + 3 * (i % 2), 20, &w);
        check_hop(&w.group, 0, few, 31, 31, 1);
        check_hop(&w.group, 1, (struct sl_heads){32, 4, 0}, 4, 2, 1);
        check_hub(i == 0 ? 13000 : 800, 1 + i % 3, n_relations, few);
        shape.directed = true;
        if (n_relations != SAMPLED) { /* evaluation takes all in-neighbours */
            check_full(&shape, SPLIT_RANDOM, 3, 4, 0);
        }
    }
    n_features = 5;
    for (uint32_t i = 0; i < 4; i += 3 * slow_stride(2)) {
        in_messages = i > 0 || slow_stride(2) > 1;
        check_many_neighbours(relation_counts[i]);
        check_chunks(relation_counts[i]);
        check_differences_of_v(relation_counts[i]);
    }
    check_differences_of_v(WEIGHTED);
    check_central_differences(0);
    check_central_differences(WEIGHTED);
    check_large_scores(2);
    n_features = 0;
    in_messages = false;
}

TEST_MAIN(NULL, NULL)
