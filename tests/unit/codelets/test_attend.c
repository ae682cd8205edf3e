/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/attend.h over whole groups: attention and its adjoint, with the exchange between them, against plain
 * loops in double, whose gradients are those of central differences; and the submissions, which may run CUDA code,
 * against the kernels. */
#include "codelets/attend.h"
#include "data/load.h"

#include "tests/support/level_fixture.h"
#include "tests/support/order_fixture.h"

#define SEED 31
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
static void fill_level(const struct at *at, uint64_t seed, struct level *level, uint32_t u, double score_size)
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
    fill_level(at, SEED, &s->u, n_columns, score_size);
    fill_level(at, SEED + 1, &s->gz, n_columns, 1);
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

/* ---- one hop by the kernels ---- */

/* One PE's sources: own rows, and what the others pack for it. */
struct pe_sources {
    sl_real *packed[MAX_PARTS];
    struct sl_view view[MAX_PARTS];
    struct sl_sources x;
};

static struct pe_sources *pack_all(const struct at *at, uint32_t p, const struct level *u)
{
    struct pe_sources *s = need(1, sizeof *s);
    const struct group_block *block = &at->group->pe[p].block[at->hop];
    uint32_t n_parts = at->group->n_parts;
    uint32_t n_columns = sl_heads_row(at->heads);
    for (uint32_t q = 0; q < n_parts; q++) {
        uint32_t n = q == p ? 0 : sl_list_count(block->request, q);
        struct sl_view rows = view_of(&u->pe[q], sl_list_of(at->group->pe[q].block[at->hop].inverse, n_parts, p));
        s->packed[q] = poisoned((size_t)n * n_columns);
        sl_pack_cpu(SL_DTYPE_REAL, n, n_columns, &rows, s->packed[q]);
        s->view[q] = (struct sl_view){(const sl_real *const *)&s->packed[q], 31, NULL};
    }
    s->view[p] = view_of(&u->pe[p], sl_list_of(block->inverse, n_parts, p));
    s->x = (struct sl_sources){.n_owners = n_parts, .first = block->request, .view = s->view};
    return s;
}

static void free_packed(const struct at *at, struct pe_sources *s)
{
    for (uint32_t q = 0; q < at->group->n_parts; q++) {
        free(s->packed[q]);
    }
    free(s);
}

/* Chunk c of PE p's destinations. */
static struct sl_attend_rows rows_of_chunk(const struct at *at, uint32_t p, uint32_t c, const struct state *s,
                                           const struct pe_sources *sources)
{
    const struct group_block *block = &at->group->pe[p].block[at->hop];
    uint32_t row0 = c << s->z.pe[p].split.shift;
    return (struct sl_attend_rows){.heads = at->heads,
                                   .n_rows = sl_split_size(&s->z.pe[p].split, c),
                                   .offsets = block->edge_offsets + row0,
                                   .sources = block->edge_sources,
                                   .x = &sources->x,
                                   .self = row_at(&s->u.pe[p], row0),
                                   .relations = block->edge_relations,
                                   .weights = block->edge_weights};
}

static void forward(const struct at *at, int beta, struct state *s)
{
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        struct pe_sources *sources = pack_all(at, p, &s->u);
        for (uint32_t c = 0; c < s->z.pe[p].split.n_chunks; c++) {
            struct sl_attend_rows rows = rows_of_chunk(at, p, c, s, sources);
            sl_attend_forward_cpu(SL_DTYPE_REAL, &rows, beta, s->z.pe[p].base[c], s->lse.pe[p].base[c]);
        }
        free_packed(at, sources);
    }
}

static struct sl_attend_back back_of(const struct at *at, uint32_t p, const struct state *s)
{
    const struct group_block *block = &at->group->pe[p].block[at->hop];
    return (struct sl_attend_back){.heads = at->heads,
                                   .offsets = block->back_offsets,
                                   .rows = block->back_rows,
                                   .gz = view_of(&s->gz.pe[p], NULL),
                                   .sides = view_of(&s->sides.pe[p], NULL),
                                   .relations = block->back_relations,
                                   .weights = block->back_weights};
}

/* What p sends back to each q. */
static void send_back(const struct at *at, uint32_t p, const struct state *s, sl_real *sent_out[MAX_PARTS])
{
    const struct group_block *hosts = &at->group->pe[p].block[at->hop];
    struct sl_attend_back block = back_of(at, p, s);
    struct pe_sources *sources = pack_all(at, p, &s->u);
    for (uint32_t q = 0; q < at->group->n_parts; q++) {
        uint32_t n = q == p ? 0 : sl_list_count(hosts->request, q);
        sent_out[q] = poisoned((size_t)n * sl_heads_row(at->heads));
        sl_attend_backward_cpu(SL_DTYPE_REAL, &block, n, hosts->request[q], sources->packed[q], sent_out[q]);
    }
    free_packed(at, sources);
}

/* Chunk c of q's gradients. */
static void accumulate(const struct at *at, uint32_t q, uint32_t c, sl_real *sent[MAX_PARTS][MAX_PARTS],
                       struct state *s)
{
    const struct group_block *hosts = &at->group->pe[q].block[at->hop];
    struct sl_attend_back block = back_of(at, q, s);
    struct rows *out = &s->gu.pe[q];
    uint32_t n_parts = at->group->n_parts;
    uint32_t row0 = c << out->split.shift;
    uint32_t n_rows = sl_split_size(&out->split, c);
    uint32_t n_destinations = at->group->pe[q].n_rows[at->hop];
    uint32_t n_self = n_destinations <= row0 ? 0 : n_destinations < row0 + n_rows ? n_destinations - row0 : n_rows;
    memset(out->base[c], 0, (size_t)n_rows * out->n_columns * sizeof(sl_real));
    sl_attend_self_cpu(SL_DTYPE_REAL, &block, row0, n_self, s->u.pe[q].base[c], out->base[c]);
    for (uint32_t p = 0; p < n_parts; p++) {
        const uint32_t *rows = sl_list_of(hosts->inverse, n_parts, p);
        uint32_t n = sl_list_count(hosts->inverse, p);
        if (p == q) {
            sl_attend_own_cpu(SL_DTYPE_REAL, &block, n, hosts->request[q], rows, row0, n_rows, s->u.pe[q].base[c],
                              out->base[c]);
        } else {
            struct sl_gradient gradient = {row0, n_rows, out->n_columns, out->base[c], NULL};
            sl_accumulate_sent_cpu(SL_DTYPE_REAL, n, rows, sent[p][q], &gradient);
        }
    }
}

static void backward(const struct at *at, struct state *s)
{
    static sl_real *sent[MAX_PARTS][MAX_PARTS]; /* by requester, owner */
    uint32_t n_parts = at->group->n_parts;
    for (uint32_t p = 0; p < n_parts; p++) {
        struct pe_sources *sources = pack_all(at, p, &s->u);
        for (uint32_t c = 0; c < s->z.pe[p].split.n_chunks; c++) {
            struct sl_attend_rows rows = rows_of_chunk(at, p, c, s, sources);
            sl_attend_sides_cpu(SL_DTYPE_REAL, &rows, s->gz.pe[p].base[c], s->lse.pe[p].base[c],
                                s->sides.pe[p].base[c]);
        }
        free_packed(at, sources);
        send_back(at, p, s, sent[p]);
    }
    for (uint32_t q = 0; q < n_parts; q++) {
        for (uint32_t c = 0; c < s->gu.pe[q].split.n_chunks; c++) {
            accumulate(at, q, c, sent, s);
        }
    }
    for (uint32_t i = 0; i < n_parts * n_parts; i++) {
        free(sent[i / n_parts][i % n_parts]);
    }
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

/* ---- kernels ---- */

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
    double *u = table_of(at.group, &s->u);
    double *gz = table_of(at.group, &s->gz);
    double *z = need(n * heads.n_columns, sizeof *z);
    double *lse = need(n * sl_heads_scores(at.heads), sizeof *lse);
    double *gu = reference_backward(&at, &g, u, gz);
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
    free(u);
    free(gz);
    free(z);
    free(lse);
    free(gu);
    free_plain(&g);
    free_state(&at, s);
}

static void make_group(const struct sl_dataset *dataset, int split, uint32_t n_parts, uint32_t n_seeds,
                       struct sl_partition *partition, struct group *group)
{
    const struct sl_sample_rule rules[2] = {{SL_SAMPLE_NEIGHBOR, 5, false, 1}, {SL_SAMPLE_FULL, 0, false, 1}};
    make_split_of(dataset, split, n_parts, partition);
    group_sample(partition, 2, rules, SEED, 3, n_seeds, dataset->train.ids, group);
}

static const uint32_t relation_counts[] = {0, 1, WEIGHTED, 4};

static void test_graphs(void **state)
{
    (void)state;
    const uint32_t part_counts[] = {1, 4, 7};
    for (int graph = 0; graph < 4 * N_GRAPHS; graph++) {
        struct graph_shape shape = {.kind = graph / 4,
                                    .n_vertices = 90,
                                    .directed = graph / 4 == GRAPH_POWER_LAW,
                                    .self_loops = graph % 4 > 0,
                                    .n_relations = relation_counts[graph % 4],
                                    .weighted = relation_counts[graph % 4] == WEIGHTED};
        struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        for (int i = 0; i < 3; i++) {
            struct sl_partition partition;
            struct group group;
            make_group(&dataset, SPLIT_UNEVEN, part_counts[i], 20, &partition, &group);
            check_hop(&group, 0, (struct sl_heads){6, 3, 0}, 31, 31, 90, 1);
            check_hop(&group, 1, (struct sl_heads){6, 2, 0}, 3, 2, 90, 1);
            group_free(&group);
            sl_partition_free(&partition);
        }
        sl_dataset_free(&dataset);
    }
}

static const struct sl_heads some_heads[] = {{1, 1, 0},  {7, 1, 0},   {40, 5, 0}, {64, 64, 0},
                                             {64, 8, 0}, {33, 11, 0}, {96, 3, 0}, {256, 4, 0}};
#define N_HEADS (sizeof some_heads / sizeof some_heads[0])

static void check_heads(uint32_t n_relations)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 200,
                                .hub_degree = 140,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_METIS, 4, 40, &partition, &group);
    for (size_t i = 0; i < N_HEADS; i++) {
        check_hop(&group, 1, some_heads[i], 31, 31, 140, 1);
        check_hop(&group, 1, some_heads[i], 4, i % 2 ? 4 : 1, 140, 1);
    }
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

static void test_heads_and_chunks(void **state)
{
    (void)state;
    check_heads(0);
    check_heads(3);
}

static void check_large_scores(uint32_t n_relations)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 200,
                                .hub_degree = 140,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_RANDOM, 3, 40, &partition, &group);
    check_hop(&group, 1, (struct sl_heads){12, 4, 0}, 31, 31, 140, 80);
    check_hop(&group, 0, (struct sl_heads){12, 1, 0}, 4, 3, 140, 80);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* Scores up to 160 either way, whose exponentials are no floats: one source has nearly all the weight. */
static void test_large_scores(void **state)
{
    (void)state;
    check_large_scores(0);
    check_large_scores(2);
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
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_NONE, 1, 15, &partition, &group);
    struct at at = at_hop(&group, 1, (struct sl_heads){6, 2, 0});
    struct state *s = make_state(&at, 31, 31, 1);
    struct plain g = make_plain(&at);
    double *u = table_of(at.group, &s->u);
    double *gz = table_of(at.group, &s->gz);
    double *gu = reference_backward(&at, &g, u, gz);
    for (size_t i = 0; i < (size_t)40 * sl_heads_row(at.heads); i++) {
        double at_u = u[i];
        u[i] = at_u + step;
        double above = reference_loss(&at, &g, u, gz);
        u[i] = at_u - step;
        double below = reference_loss(&at, &g, u, gz);
        u[i] = at_u;
        expect_near_at("difference", i, (above - below) / (2 * step), gu[i], 1e-8);
    }
    free(u);
    free(gz);
    free(gu);
    free_plain(&g);
    free_state(&at, s);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* The loops' gradients are the slopes of their loss. Differences of a step of 1e-5 are off by 1e-10 of third
 * derivatives, by 1e-11 of rounding, and by more only where x is within the step of 0. */
static void test_central_differences(void **state)
{
    (void)state;
    check_central_differences(0);
    check_central_differences(3);
}

/* Tolerance 0: to the bit. */
static void expect_levels(const char *label, const struct at *at, const struct level *got, const struct level *wanted,
                          double tolerance)
{
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        for (uint32_t r = 0; r < got->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < got->pe[p].n_columns; j++) {
                expect_near_at(label, (size_t)r * got->pe[p].n_columns + j, (double)row_at(&got->pe[p], r)[j],
                               (double)row_at(&wanted->pe[p], r)[j], tolerance);
            }
        }
    }
}

static void check_chunks(uint32_t n_relations)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 300,
                                .hub_degree = 140,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    struct sl_dataset dataset;
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
    expect_levels("z", &at, &s[1]->z, &s[0]->z, 0);
    expect_levels("lse", &at, &s[1]->lse, &s[0]->lse, 0);
    expect_levels("sides", &at, &s[1]->sides, &s[0]->sides, 0);
    expect_levels("gradient", &at, &s[1]->gu, &s[0]->gu, 0);
    free_state(&at, s[0]);
    free_state(&at, s[1]);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* The chunks are invisible, to the bit: one and many give the same sums. */
static void test_chunks_are_invisible(void **state)
{
    (void)state;
    check_chunks(0);
    check_chunks(3);
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
        check_hop(&group, 0, (struct sl_heads){4, 2, 0}, 31, 31, 13000, 1);
        struct at at = at_hop(&group, 0, (struct sl_heads){4, 2, 0});
        struct state *s = make_state(&at, 31, 31, 1);
        forward(&at, 0, s);
        backward(&at, s);
        if (n_relations == 0) {
            check_alone(&at, s, 13999); /* no neighbours */
            check_alone(&at, s, 13998); /* itself */
        }
        double *z = table_of(at.group, &s->z);
        hub[i] = z[7000 * 4];
        free(z);
        free_state(&at, s);
        group_free(&group);
        sl_partition_free(&partition);
    }
    assert_true(hub[0] == hub[1]);
    sl_dataset_free(&dataset);
}

/* 13,000 in-neighbours, in one part and in four. Sums run along the list's order, so that the parts do not change a
 * bit. */
static void test_many_neighbours(void **state)
{
    (void)state;
    check_many_neighbours(0);
    check_many_neighbours(2);
    check_many_neighbours(WEIGHTED);
}

/* No destination at all, no source, and destinations without an edge. */
static void test_empty_blocks(void **state)
{
    (void)state;
    const uint32_t offsets[] = {0, 0, 0, 0};
    const uint32_t first[] = {0, 0};
    struct sl_sources none = {.n_owners = 1, .first = first};
    sl_real u[3 * 6];
    sl_real z[3 * 4];
    sl_real lse[3];
    struct sl_attend_rows rows = {.heads = {4, 1, 0}, .offsets = offsets, .x = &none, .self = u};
    struct sl_attend_back block = {.heads = {4, 1, 0}, .offsets = offsets};
    fill(18, SEED, u);
    fill(12, SEED + 1, z);
    sl_attend_forward_cpu(SL_DTYPE_REAL, &rows, 0, z, lse);
    sl_attend_sides_cpu(SL_DTYPE_REAL, &rows, z, lse, z);
    sl_attend_backward_cpu(SL_DTYPE_REAL, &block, 0, 0, u, z);
    sl_attend_self_cpu(SL_DTYPE_REAL, &block, 0, 0, u, z);
    sl_attend_own_cpu(SL_DTYPE_REAL, &block, 0, 0, NULL, 0, 3, u, z);
    for (size_t i = 0; i < 12; i++) {
        assert_true(z[i] == (sl_real)noise(SEED + 1, i));
    }
    rows.n_rows = 3;
    sl_attend_forward_cpu(SL_DTYPE_REAL, &rows, 0, z, lse);
    for (uint32_t d = 0; d < 3; d++) {
        sl_real x = u[d * 6 + 4] + u[d * 6 + 5];
        assert_true(lse[d] == sl_attend_score(x));
        expect_same("z", 4, sizeof *z, z + 4 * d, u + 6 * d);
    }
    /* With relations, nothing to attend to: z is cleared or stays. */
    rows.heads.n_relations = 1;
    sl_attend_forward_cpu(SL_DTYPE_REAL, &rows, 1, z, lse);
    expect_same("z of before", 4, sizeof *z, z + 8, u + 12);
    sl_attend_forward_cpu(SL_DTYPE_REAL, &rows, 0, z, lse);
    for (uint32_t d = 0; d < 3; d++) {
        assert_true(lse[d] == 0 && z[4 * d] == 0 && z[4 * d + 3] == 0);
    }
}

/* ---- submissions ---- */

/* A group's hop as handles; everything that was registered is in all[]. */
struct handles {
    struct group_handles {
        struct sl_block block;
        struct sl_slice u[MAX_PARTS];  /* what owners packed, in one matrix; none where own or empty */
        struct sl_slice gu[MAX_PARTS]; /* what goes back to them */
        const uint32_t *first;
    } pe[MAX_PARTS];
    struct sl_rows rows[6][MAX_PARTS];
    starpu_data_handle_t chunk[6][MAX_PARTS][MAX_CHUNKS];
    sl_real *memory[2 * MAX_PARTS * MAX_PARTS];
    unsigned n_memory;
    unsigned n;
    starpu_data_handle_t all[16384];
};

enum { U, GU, Z, LSE, GZ, SIDES };

static starpu_data_handle_t wrap(struct handles *h, starpu_data_handle_t handle)
{
    assert_true(h->n < sizeof h->all / sizeof h->all[0]);
    return h->all[h->n++] = handle;
}

static starpu_data_handle_t wrap_vector(struct handles *h, const void *data, uint32_t n)
{
    return wrap(h, vector_of(data, n > 0 ? n : 1, 4));
}

static starpu_data_handle_t wrap_relations(struct handles *h, const uint16_t *data, uint32_t n)
{
    return wrap(h, vector_of(data, n > 0 ? n : 1, 2));
}

static void wrap_level(struct handles *h, int slot, const struct group *group, const struct level *level)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct rows *rows = &level->pe[p];
        for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
            h->chunk[slot][p][c] = wrap(h, rows_of(rows->base[c], sl_split_size(&rows->split, c), rows->n_columns));
        }
        h->rows[slot][p] =
            (struct sl_rows){.split = rows->split, .n_columns = rows->n_columns, .chunk = h->chunk[slot][p]};
    }
}

/* A matrix between p and all owners, rows as p asks of each, side by side. */
static void wrap_packed(struct handles *h, const struct at *at, uint32_t p, struct sl_slice *slices_out)
{
    const uint32_t *request = at->group->pe[p].block[at->hop].request;
    uint32_t n_columns = sl_heads_row(at->heads);
    uint32_t n = request[at->group->n_parts] - sl_list_count(request, p);
    uint32_t row = 0;
    if (n == 0) {
        return;
    }
    sl_real *data = h->memory[h->n_memory++] = poisoned((size_t)n * n_columns);
    starpu_data_handle_t all = wrap(h, rows_of(data, n, n_columns));
    for (uint32_t q = 0; q < at->group->n_parts; q++) {
        uint32_t n_rows = p == q ? 0 : sl_list_count(request, q);
        slices_out[q] = (struct sl_slice){n_rows == 0 ? NULL : all, row, n_rows};
        row += n_rows;
    }
}

static struct handles *wrap_hop(const struct at *at, const struct state *s)
{
    struct handles *h = need(1, sizeof *h);
    const struct group *group = at->group;
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[at->hop];
        struct group_handles *pe = &h->pe[p];
        pe->block = (struct sl_block){
            .edge_offsets = wrap_vector(h, block->edge_offsets, group->pe[p].n_rows[at->hop] + 1),
            .edge_sources = wrap_vector(h, block->edge_sources, block->n_edges),
            .back_offsets = wrap_vector(h, block->back_offsets, block->n_sources + 1),
            .back_rows = wrap_vector(h, block->back_rows, block->n_edges),
            .inverse = wrap_vector(h, block->inverse, group->n_parts + 1 + block->inverse[group->n_parts])};
        if (at->heads.n_relations > 0) {
            pe->block.edge_relations = wrap_relations(h, block->edge_relations, block->n_edges);
            pe->block.back_relations = wrap_relations(h, block->back_relations, block->n_edges);
        }
        if (block->edge_weights != NULL) {
            pe->block.edge_weights = wrap_vector(h, block->edge_weights, block->n_edges);
            pe->block.back_weights = wrap_vector(h, block->back_weights, block->n_edges);
        }
        pe->first = block->request;
        wrap_packed(h, at, p, pe->u);
        wrap_packed(h, at, p, pe->gu);
    }
    wrap_level(h, U, group, &s->u);
    wrap_level(h, GU, group, &s->gu);
    wrap_level(h, Z, group, &s->z);
    wrap_level(h, LSE, group, &s->lse);
    wrap_level(h, GZ, group, &s->gz);
    wrap_level(h, SIDES, group, &s->sides);
    return h;
}

static void unwrap(struct handles *h)
{
    unregister(h->n, h->all);
    while (h->n_memory > 0) {
        free(h->memory[--h->n_memory]);
    }
    free(h);
}

static struct sl_source_handles sources_of(const struct at *at, struct handles *h, uint32_t p)
{
    struct group_handles *pe = &h->pe[p];
    return (struct sl_source_handles){.n_owners = at->group->n_parts,
                                      .own = p,
                                      .first = pe->first,
                                      .rows = &h->rows[U][p],
                                      .inverse = pe->block.inverse,
                                      .packed = pe->u};
}

static void submit_pack(const struct at *at, struct handles *h)
{
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        for (uint32_t q = 0; q < at->group->n_parts; q++) {
            if (h->pe[p].u[q].n_rows > 0) {
                expect_ok(sl_pack_submit(&head, &h->rows[U][q], at->group->n_parts, h->pe[q].block.inverse, 1, &p,
                                         &h->pe[p].u[q]));
            }
        }
    }
}

static void submit_forward(const struct at *at, struct handles *h, int beta)
{
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        struct sl_source_handles sources = sources_of(at, h, p);
        const struct sl_rows *z = &h->rows[Z][p];
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            expect_ok(sl_attend_forward_submit(&head, &h->pe[p].block, c << z->split.shift, 100, &sources, beta,
                                               z->chunk[c], h->rows[LSE][p].chunk[c]));
        }
    }
}

static void submit_back(const struct at *at, struct handles *h, uint32_t p)
{
    struct sl_source_handles sources = sources_of(at, h, p);
    struct sl_attend_gradients gradients = {&h->rows[GZ][p], &h->rows[SIDES][p]};
    struct sl_slice u[MAX_PARTS];
    struct sl_slice gu[MAX_PARTS];
    uint32_t t0[MAX_PARTS];
    uint32_t n = 0;
    for (uint32_t c = 0; c < h->rows[GZ][p].split.n_chunks; c++) {
        expect_ok(sl_attend_sides_submit(&head, &h->pe[p].block, c << h->rows[GZ][p].split.shift, 100, &sources,
                                         h->rows[GZ][p].chunk[c], h->rows[LSE][p].chunk[c],
                                         h->rows[SIDES][p].chunk[c]));
    }
    for (uint32_t q = 0; q < at->group->n_parts; q++) {
        if (h->pe[p].gu[q].n_rows > 0) {
            t0[n] = h->pe[p].first[q];
            u[n] = h->pe[p].u[q];
            gu[n++] = h->pe[p].gu[q];
        }
    }
    if (n > 0) {
        expect_ok(sl_attend_backward_submit(&head, &h->pe[p].block, &gradients, 100, n, t0, u, gu));
    }
}

static void submit_accumulate(const struct at *at, struct handles *h, uint32_t q)
{
    struct sl_slice sent[MAX_PARTS];
    const struct sl_rows *gu = &h->rows[GU][q];
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        sent[p] = h->pe[p].gu[q];
    }
    struct sl_attend_shares shares = {.block = &h->pe[q].block,
                                      .gradients = {&h->rows[GZ][q], &h->rows[SIDES][q]},
                                      .from.t0 = h->pe[q].first[q],
                                      .from.n_own = h->pe[q].first[q + 1] - h->pe[q].first[q],
                                      .from.n_peers = at->group->n_parts,
                                      .from.own = q,
                                      .from.sent = sent};
    for (uint32_t c = 0; c < gu->split.n_chunks; c++) {
        expect_ok(
            sl_attend_accumulate_submit(&head, &shares, c << gu->split.shift, h->rows[U][q].chunk[c], gu->chunk[c]));
    }
}

/* All of a hop. */
static void submit_hop(const struct at *at, int beta, struct state *s)
{
    struct handles *h = wrap_hop(at, s);
    submit_pack(at, h);
    submit_forward(at, h, beta);
    for (uint32_t p = 0; p < at->group->n_parts; p++) {
        submit_back(at, h, p);
    }
    for (uint32_t q = 0; q < at->group->n_parts; q++) {
        submit_accumulate(at, h, q);
    }
    unwrap(h);
}

/* Kernels and tasks agree: to the bit or, where tasks may run CUDA code, by what rounding may do. */
static void check_submissions(const struct group *group, uint32_t hop, struct sl_heads heads, uint32_t shift_in,
                              uint32_t shift_out, size_t length)
{
    struct at at = at_hop(group, hop, heads);
    struct state *s[2];
#ifdef SL_CUDA
    double close = tolerance_of(group, length, 1);
#else
    double close = 0;
#endif
    double width = heads.n_columns / heads.n_heads;
    for (int i = 0; i < 2; i++) {
        s[i] = make_state(&at, shift_in, shift_out, 1);
    }
    for (int beta = 0; beta < 2; beta++) {
        forward(&at, beta, s[0]);
        backward(&at, s[0]);
        submit_hop(&at, beta, s[1]);
        expect_no_failure();
        expect_levels("z", &at, &s[1]->z, &s[0]->z, close);
        expect_levels("lse", &at, &s[1]->lse, &s[0]->lse, close);
        expect_levels("sides", &at, &s[1]->sides, &s[0]->sides, close * sqrt(width));
        expect_levels("gradient", &at, &s[1]->gu, &s[0]->gu, close * sqrt(width) * sqrt((double)length));
    }
    free_state(&at, s[0]);
    free_state(&at, s[1]);
}

/* Where kernels are slow: with one number of workers, typed graphs with another one than the others. */
static void check_all_submissions(uint32_t n_relations)
{
    const size_t stride = slow_stride(N_WORKER_COUNTS);
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 200,
                                .hub_degree = 140,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    for (size_t w = ((n_relations > 0) + slow_first(2)) % stride; w < N_WORKER_COUNTS; w += stride) {
        struct sl_dataset dataset;
        struct sl_partition partition;
        struct group group;
        make_dataset(&shape, &dataset);
        fixture_start(worker_counts[w]);
        make_group(&dataset, SPLIT_METIS, 4, 20, &partition, &group);
        check_submissions(&group, 0, (struct sl_heads){6, 2, 0}, 31, 31, 140);
        check_submissions(&group, 1, (struct sl_heads){9, 3, 0}, 4, 3, 140);
        group_free(&group);
        sl_partition_free(&partition);
        make_group(&dataset, SPLIT_UNEVEN, 7, 3, &partition, &group); /* PEs without rows */
        check_submissions(&group, 0, (struct sl_heads){6, 1, 0}, 2, 1, 140);
        check_submissions(&group, 1, (struct sl_heads){6, 6, 0}, 31, 3, 140);
        group_free(&group);
        sl_partition_free(&partition);
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

static void test_submissions(void **state)
{
    (void)state;
    check_all_submissions(0);
    check_all_submissions(3);
}

/* Where kernels are slow: half of the heads, typed graphs with the other half. */
static void check_submissions_of_heads(uint32_t n_relations)
{
    const uint32_t stride = slow_stride(2);
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                .n_vertices = 120,
                                .hub_degree = 60,
                                .n_relations = n_relations,
                                .weighted = n_relations == WEIGHTED};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    fixture_start(1);
    make_group(&dataset, SPLIT_RANDOM, 2, 6, &partition, &group);
    for (uint32_t i = ((n_relations > 0) + slow_first(2)) % stride; i < N_HEADS; i += stride) {
        check_submissions(&group, i / 2 % 2, some_heads[i], i % 3 ? 5 : 31, i % 3 ? 3 : 31, 60);
    }
    group_free(&group);
    sl_partition_free(&partition);
    make_group(&dataset, SPLIT_RANDOM, 40, 10, &partition, &group);
    check_submissions(&group, 1, (struct sl_heads){4, 2, 0}, 31, 31, 60);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
    fixture_stop();
}

/* All kinds of heads, and more owners than a launch serves. */
static void test_submissions_of_heads(void **state)
{
    (void)state;
    check_submissions_of_heads(0);
    check_submissions_of_heads(2);
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
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_split_of(&dataset, SPLIT_RANDOM, parts, &partition);
    for (sl_vertex i = 0; i < n_seeds; i++) {
        seeds[i] = shape.n_vertices / 2 + i;
    }
    group_sample(&partition, 1, &full, SEED, 0, n_seeds, seeds, &group);
    check_submissions(&group, 0, heads, 31, 8, hub_degree);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

static void test_submissions_many_neighbours(void **state)
{
    (void)state;
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
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    struct handles *h = need(1, sizeof *h);
    struct sl_partition partition;
    struct group group;
    uint32_t n = dataset->graph.n_vertices;
    sl_vertex *everyone = need(n, sizeof *everyone);
    make_split_of(dataset, split, n_parts, &partition);
    for (sl_vertex v = 0; v < n; v++) {
        everyone[v] = partition.dataset_ids[v]; /* frontiers in order of new ids: row i is id first + i */
    }
    group_sample(&partition, 1, &full, SEED, 0, n, everyone, &group);
    struct at at = at_hop(&group, 0, (struct sl_heads){6, 2, 0});
    struct state *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = make_state(&at, shift, shift, 1);
        fill_level(&at, SEED + 2, &s[i]->z, 6, 1);
    }
    starpu_data_handle_t first = wrap_vector(h, partition.first, n_parts + 1);
    wrap_level(h, U, &group, &s[1]->u);
    wrap_level(h, Z, &group, &s[1]->z);
    for (uint32_t p = 0; p < n_parts; p++) {
        struct sl_sample_part of = part_of(&partition, p);
        uint32_t n_part = group.pe[p].n_part;
        struct sl_attend_part part = {.offsets = wrap(h, vector_of(of.offsets, n_part + 1, 8)),
                                      .sources =
                                          wrap_vector(h, of.sources, (uint32_t)(of.offsets[n_part] - of.offsets[0])),
                                      .first = first,
                                      .n_parts = n_parts,
                                      .part = p};
        const struct sl_rows *z = &h->rows[Z][p];
        if (at.heads.n_relations > 0) {
            part.relations = wrap_relations(h, of.relations, (uint32_t)(of.offsets[n_part] - of.offsets[0]));
        }
        if (of.weights != NULL) {
            part.weights = wrap_vector(h, of.weights, (uint32_t)(of.offsets[n_part] - of.offsets[0]));
        }
        for (uint32_t c = 0; c < z->split.n_chunks; c++) {
            expect_ok(sl_attend_full_submit(&head, &part, c << z->split.shift, 100, sl_heads_scores(at.heads),
                                            h->rows[U], beta, z->chunk[c]));
        }
    }
    unwrap(h);
    expect_no_failure();
    forward(&at, beta, s[0]);
    expect_levels("z of all", &at, &s[1]->z, &s[0]->z, tolerance_of(&group, 280, 1));
    free_state(&at, s[0]);
    free_state(&at, s[1]);
    free(everyone);
    group_free(&group);
    sl_partition_free(&partition);
}

static void test_full(void **state)
{
    (void)state;
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

/* One destination, which is the first of its four sources; all of one PE. */
static void test_outputs_are_written(void **state)
{
    (void)state;
    uint32_t offsets[] = {0, 4};
    uint64_t offsets64[] = {0, 4};
    uint32_t sources[] = {0, 1, 2, 3};
    uint32_t back_offsets[] = {0, 1, 2, 3, 4};
    uint32_t back_rows[4] = {0};
    uint32_t inverse[] = {0, 4, 0, 1, 2, 3};
    sl_real data[8][4 * 8] = {{0}};
    const struct sl_slice none = {0};
    fixture_start(1);
    enum {
        OFFSETS,
        OFFSETS64,
        SOURCES,
        BACK_OFFSETS,
        BACK_ROWS,
        INVERSE,
        ROWS,
        SENT,
        GRADS,
        OUT,
        OUT_LSE,
        GOUT,
        SIDE,
        N
    };
    starpu_data_handle_t h[N] = {vector_of(offsets, 2, 4),      vector_of(offsets64, 2, 8), vector_of(sources, 4, 4),
                                 vector_of(back_offsets, 5, 4), vector_of(back_rows, 4, 4), vector_of(inverse, 6, 4),
                                 rows_of(data[0], 4, 8),        rows_of(data[1], 4, 8),     rows_of(data[2], 4, 8),
                                 rows_of(data[3], 1, 6),        rows_of(data[4], 1, 1),     rows_of(data[5], 1, 6),
                                 rows_of(data[6], 1, 4)};
    struct sl_block block = {h[OFFSETS], h[SOURCES], h[BACK_OFFSETS], h[BACK_ROWS], NULL, h[INVERSE], NULL, NULL,
                             NULL,       NULL};
    struct sl_rows u = {.split = sl_split_rows(4, 1, 2), .n_columns = 8, .chunk = &h[ROWS]};
    struct sl_rows gz = {.split = sl_split_rows(1, 1, 2), .n_columns = 6, .chunk = &h[GOUT]};
    struct sl_rows sides = {.split = sl_split_rows(1, 1, 2), .n_columns = 4, .chunk = &h[SIDE]};
    struct sl_source_handles all = {
        .n_owners = 1, .first = offsets, .rows = &u, .inverse = h[INVERSE], .packed = &none};
    struct sl_attend_gradients gradients = {&gz, &sides};
    struct sl_attend_shares shares = {
        .block = &block, .gradients = gradients, .from.n_own = 4, .from.n_peers = 1, .from.sent = &none};
    struct sl_attend_part part = {h[OFFSETS64], h[SOURCES], h[OFFSETS], 1, 0, NULL, NULL};
    for (int beta = 0; beta < 2; beta++) {
        hold(h[ROWS]);
        expect_ok(sl_attend_forward_submit(&head, &block, 0, 4, &all, beta, h[OUT], h[OUT_LSE]));
        release(h[ROWS], 2, &h[OUT]);
        hold(h[ROWS]);
        expect_ok(sl_attend_full_submit(&head, &part, 0, 4, 1, &u, beta, h[OUT]));
        release(h[ROWS], 1, &h[OUT]);
    }
    hold(h[GOUT]);
    expect_ok(sl_attend_sides_submit(&head, &block, 0, 4, &all, h[GOUT], h[OUT_LSE], h[SIDE]));
    release(h[GOUT], 1, &h[SIDE]);
    hold(h[GOUT]);
    const struct sl_slice rows = slice_of(h[ROWS]);
    const struct sl_slice sent = slice_of(h[SENT]);
    expect_ok(sl_attend_backward_submit(&head, &block, &gradients, 4, 1, &(uint32_t){0}, &rows, &sent));
    release(h[GOUT], 1, &h[SENT]);
    hold(h[GOUT]);
    expect_ok(sl_attend_accumulate_submit(&head, &shares, 0, h[ROWS], h[GRADS]));
    release(h[GOUT], 1, &h[GRADS]);
    unregister(N, h);
    expect_no_failure();
    fixture_stop();
}

/* What must not be submitted, one thing wrong at a time. */
static void test_refusals(void **state)
{
    (void)state;
    sl_real data[4 * 16] = {0};
    uint32_t first[2] = {0, 4};
    fixture_start(1);
    const struct sl_slice none = {0};
    starpu_data_handle_t h[] = {rows_of(data, 4, 8), rows_of(data, 2, 6), rows_of(data, 2, 1),
                                rows_of(data, 2, 4), rows_of(data, 4, 7), vector_of(first, 2, 4)};
    enum { ROWS, OUT, OUT_LSE, SIDE, NARROW, VECTOR };
    starpu_data_handle_t v = h[VECTOR];
    const struct sl_slice rows = slice_of(h[ROWS]);
    const struct sl_slice narrow = slice_of(h[NARROW]);
    struct sl_block block = {v, v, v, v, v, v, NULL, NULL, NULL, NULL};
    struct sl_rows u = {.split = sl_split_rows(4, 1, 2), .n_columns = 8, .chunk = &h[ROWS]};
    struct sl_rows gz = {.split = sl_split_rows(2, 1, 2), .n_columns = 6, .chunk = &h[OUT]};
    struct sl_rows sides = {.split = sl_split_rows(2, 1, 2), .n_columns = 4, .chunk = &h[SIDE]};
    struct sl_source_handles all = {.n_owners = 1, .first = first, .rows = &u, .inverse = v, .packed = &none};
    struct sl_attend_gradients gradients = {&gz, &sides};
    struct sl_attend_shares shares = {.block = &block, .gradients = gradients, .from.n_peers = 1, .from.sent = &none};
    struct sl_attend_part part = {v, v, v, 1, 0, NULL, NULL};
    assert_int_equal(sl_attend_forward_submit(&head, &block, 0, 1, &all, 0, h[OUT], h[SIDE]), SL_EINVAL);
    expect_message(sl_message(), "width 8", "4 heads");
    assert_int_equal(sl_attend_forward_submit(&head, &block, 3, 1, &all, 0, h[OUT], h[OUT_LSE]), SL_EINVAL);
    expect_message(sl_message(), "rows 3 to 5", "of 4");
    assert_int_equal(sl_attend_sides_submit(&head, &block, 0, 1, &all, h[OUT], h[OUT_LSE], h[OUT_LSE]), SL_EINVAL);
    expect_message(sl_message(), "1 heads", "[2 x 1]");
    assert_int_equal(sl_attend_backward_submit(&head, &block, &gradients, 1, 1, first, &rows, &narrow), SL_EINVAL);
    expect_message(sl_message(), "width 7", "width 6");
    assert_int_equal(sl_attend_backward_submit(&head, &block, &gradients, 1, 1, first, &narrow, &rows), SL_EINVAL);
    expect_message(sl_message(), "[4 x 8]", "[4 x 7]");
    assert_int_equal(sl_attend_accumulate_submit(&head, &shares, 0, h[ROWS], h[NARROW]), SL_EINVAL);
    assert_int_equal(sl_attend_accumulate_submit(&head, &shares, 0, h[NARROW], h[ROWS]), SL_EINVAL);
    assert_int_equal(sl_attend_full_submit(&head, &part, 0, 1, 0, &u, 0, h[OUT]), SL_EINVAL);
    assert_int_equal(sl_attend_full_submit(&head, &part, 0, 1, 2, &u, 0, h[OUT]), SL_EINVAL);
    expect_message(sl_message(), "2 heads", "width 8");
    assert_int_equal(sl_attend_full_submit(&head, &part, 3, 1, 1, &u, 0, h[OUT]), SL_EINVAL);
    u.split = (struct sl_split){4, 0, 4}; /* destinations in two chunks of U */
    assert_int_equal(sl_attend_forward_submit(&head, &block, 1, 1, &all, 0, h[OUT], h[OUT_LSE]), SL_EINVAL);
    expect_message(sl_message(), "rows 1 to 3", "chunks of 1");
    u.split.n_chunks = SL_MAX_CHUNKS + 1;
    assert_int_equal(sl_attend_forward_submit(&head, &block, 0, 1, &all, 0, h[OUT], h[OUT_LSE]), SL_EINVAL);
    u.split.n_chunks = SL_MAX_FULL_CHUNKS + 1;
    assert_int_equal(sl_attend_full_submit(&head, &part, 0, 1, 1, &u, 0, h[OUT]), SL_EINVAL);
    u.split = sl_split_rows(4, 1, 2);
    gz.split.n_rows = 1;
    assert_int_equal(sl_attend_accumulate_submit(&head, &shares, 0, h[ROWS], h[ROWS]), SL_EINVAL);
    gz.split.n_rows = 2;
    all.n_owners = shares.from.n_peers = part.n_parts = SL_MAX_GROUP + 1;
    assert_int_equal(sl_attend_forward_submit(&head, &block, 0, 1, &all, 0, h[OUT], h[OUT_LSE]), SL_EINVAL);
    assert_int_equal(sl_attend_backward_submit(&head, &block, &gradients, 1, SL_MAX_GROUP + 1, first, NULL, NULL),
                     SL_EINVAL);
    assert_int_equal(sl_attend_accumulate_submit(&head, &shares, 0, h[ROWS], h[ROWS]), SL_EINVAL);
    assert_int_equal(sl_attend_full_submit(&head, &part, 0, 1, 1, &u, 0, h[OUT]), SL_EINVAL);
    UNREGISTER(h);
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
    struct at at = {&group, 0, {6, 2, 0}};
    struct state *s = make_state(&at, 31, 31, 1);
    sl_real *before = poisoned(1);
    fixture_start(3);
    fixture_fail();
    submit_hop(&at, 0, s);
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t r = 0; r < s->gu.pe[p].split.n_rows; r++) {
            expect_still(*row_at(&s->gu.pe[p], r), *before);
        }
        for (uint32_t r = 0; r < s->z.pe[p].split.n_rows; r++) {
            expect_still(*row_at(&s->z.pe[p], r), *before);
            expect_still(*row_at(&s->lse.pe[p], r), *before);
            expect_still(*row_at(&s->sides.pe[p], r), *before);
        }
    }
    free(before);
    free_state(&at, s);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
    fixture_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_central_differences),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_heads_and_chunks),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_chunks_are_invisible),
        cmocka_unit_test(test_many_neighbours),
        cmocka_unit_test(test_empty_blocks),
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_submissions_of_heads),
        cmocka_unit_test(test_submissions_many_neighbours),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_outputs_are_written),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_failure_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
