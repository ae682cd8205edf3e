/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/relate.h over whole groups: means by relation, their adjoint and the sums at owners, with the exchange
 * between them, with and without components and weights of edges, against plain loops in double; with one relation
 * against codelets/aggregate.h, bit for bit; and the launchers against the kernels. tests/whole/test_gradients.c and
 * tests/whole/test_properties.c run the submissions. */
#include "codelets/exchange.h"
#include "codelets/relate.h"
#include "data/load.h"

#include "tests/support/level_fixture.h"
#ifdef SL_CUDA
#include "tests/support/cuda_fixture.h"
#endif

#define SEED 47
#define POISON ((sl_real)-12345.5)

/* A vertex has the same numbers whatever the partition and its row. */
static void fill_level(const struct group *group, uint64_t seed, struct level *level)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct rows *rows = &level->pe[p];
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            for (uint32_t j = 0; j < rows->n_columns; j++) {
                row_at(rows, r)[j] = (sl_real)noise(seed, dataset_id(group, p, r) * 1024 + j);
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
            expect_same(label, a->pe[p].n_columns, sizeof(sl_real), row_at(&a->pe[p], r), row_at(&b->pe[p], r));
        }
    }
}

/* ---- one hop of a group by the kernels ---- */

/* The relations, or the mean of codelets/aggregate.h. COMPONENTS: forward adds GC to mix.gc. */
enum kernels { RELATE, AGGREGATE, COMPONENTS };

/* The components of the sums in hand, and their gradient. c is NULL: slabs are those of relations. */
static struct {
    uint32_t n_relations, n_bases;
    sl_real *c;
    double *gc;
} mix;

static void begin_mix(uint32_t n_relations, uint32_t n_bases)
{
    mix.n_relations = n_relations;
    mix.n_bases = n_bases;
    mix.c = noisy((size_t)n_relations * n_bases, SEED + 2);
    mix.gc = need((size_t)n_relations * n_bases, sizeof *mix.gc);
}

static void end_mix(void)
{
    free(mix.c);
    free(mix.gc);
    memset(&mix, 0, sizeof mix);
}

static struct sl_slabs slabs_of(uint32_t x_width, uint32_t m_width)
{
    struct sl_slabs slabs = sl_slabs_of(x_width, m_width);
    slabs.c = mix.c;
    slabs.n_bases = mix.n_bases;
    return slabs;
}

/* What q packs for p. */
static sl_real *pack_for(const struct group *group, uint32_t q, uint32_t p, const struct level *x)
{
    uint32_t n = sl_list_count(group->pe[p].block[0].request, q);
    struct sl_view rows = view_of(&x->pe[q], sl_list_of(group->pe[q].block[0].inverse, group->n_parts, p));
    sl_real *packed = poisoned((size_t)n * x->pe[q].n_columns);
    sl_pack_cpu(SL_DTYPE_REAL, n, x->pe[q].n_columns, &rows, packed);
    return packed;
}

static void forward_chunk(enum kernels kernels, const struct group_block *block, const struct sl_sources *x,
                          uint32_t x_width, int beta, struct rows *m, uint32_t c)
{
    const uint32_t row0 = c << m->split.shift;
    const uint32_t n_rows = sl_split_size(&m->split, c);
    const struct sl_slabs slabs = slabs_of(x_width, m->n_columns);
    const struct sl_related related = {
        row0, n_rows, block->edge_offsets, block->edge_sources, block->edge_relations, block->edge_weights};
    const struct sl_edges edges = {.row0 = row0,
                                   .n_rows = n_rows,
                                   .offsets = block->edge_offsets,
                                   .sources = block->edge_sources,
                                   .edge_weights = block->edge_weights};
    if (kernels == RELATE) {
        sl_relate_forward_cpu(SL_DTYPE_REAL, &related, &slabs, x, beta, m->base[c]);
    } else if (kernels == COMPONENTS) {
        sl_relate_components_cpu(SL_DTYPE_REAL, &related, &slabs, x, m->base[c], mix.gc);
    } else {
        sl_aggregate_forward_cpu(SL_DTYPE_REAL, &edges, m->n_columns, x, beta, m->base[c]);
    }
}

/* m (+)= A x. */
static void forward(enum kernels kernels, const struct group *group, const struct level *x, int beta, struct level *m)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[0];
        sl_real *packed[MAX_PARTS];
        struct sl_view view[MAX_PARTS];
        for (uint32_t q = 0; q < group->n_parts; q++) {
            packed[q] = q == p ? NULL : pack_for(group, q, p, x);
            view[q] = (struct sl_view){(const sl_real *const *)&packed[q], 31, NULL};
        }
        view[p] = view_of(&x->pe[p], sl_list_of(block->inverse, group->n_parts, p));
        const struct sl_sources sources = {group->n_parts, block->request, view, NULL};
        for (uint32_t c = 0; c < m->pe[p].split.n_chunks; c++) {
            forward_chunk(kernels, block, &sources, x->pe[p].n_columns, beta, &m->pe[p], c);
        }
        for (uint32_t q = 0; q < group->n_parts; q++) {
            free(packed[q]);
        }
    }
}

static struct sl_related_back back_of(const struct group_block *block)
{
    return (struct sl_related_back){block->back_offsets, block->back_rows,      block->back_relations,
                                    block->edge_offsets, block->edge_relations, block->back_weights};
}

static struct sl_transposed transposed_of(const struct group_block *block)
{
    return (struct sl_transposed){.back_offsets = block->back_offsets,
                                  .back_rows = block->back_rows,
                                  .edge_offsets = block->edge_offsets,
                                  .back_weights = block->back_weights};
}

/* Gradients of p's sources that q owns. */
static sl_real *send_back(enum kernels kernels, const struct group *group, uint32_t p, uint32_t q,
                          const struct level *gm, uint32_t x_width)
{
    const struct group_block *block = &group->pe[p].block[0];
    const uint32_t n = sl_list_count(block->request, q);
    const struct sl_view view = view_of(&gm->pe[p], NULL);
    const struct sl_slabs slabs = slabs_of(x_width, gm->pe[p].n_columns);
    const struct sl_related_back related = back_of(block);
    const struct sl_transposed transposed = transposed_of(block);
    sl_real *sent = poisoned((size_t)n * x_width);
    if (kernels == RELATE) {
        sl_relate_backward_cpu(&related, block->request[q], n, &slabs, &view, sent);
    } else {
        sl_aggregate_backward_cpu(&transposed, block->request[q], n, x_width, &view, sent);
    }
    return sent;
}

/* Add p's share to chunk g of q. */
static void add_share(enum kernels kernels, const struct group *group, uint32_t p, uint32_t q, const struct level *gm,
                      const sl_real *sent, const struct sl_gradient *g)
{
    const struct group_block *block = &group->pe[q].block[0];
    const uint32_t n = sl_list_count(block->inverse, p);
    const uint32_t *rows = sl_list_of(block->inverse, group->n_parts, p);
    const struct sl_view view = view_of(&gm->pe[q], NULL);
    const struct sl_slabs slabs = slabs_of(g->n_columns, gm->pe[q].n_columns);
    const struct sl_related_back related = back_of(block);
    const struct sl_transposed transposed = transposed_of(block);
    if (p != q) {
        sl_accumulate_sent_cpu(SL_DTYPE_REAL, n, rows, sent, g);
    } else if (kernels == RELATE) {
        sl_relate_own_cpu(&related, block->request[q], n, rows, &slabs, &view, g);
    } else {
        sl_accumulate_own_cpu(&transposed, block->request[q], n, rows, &view, g);
    }
}

/* g = A^T gm. */
static void backward(enum kernels kernels, const struct group *group, const struct level *gm, struct level *g)
{
    for (uint32_t q = 0; q < group->n_parts; q++) {
        struct rows *out = &g->pe[q];
        for (uint32_t c = 0; c < out->split.n_chunks; c++) {
            memset(out->base[c], 0, (size_t)sl_split_size(&out->split, c) * out->n_columns * sizeof(sl_real));
        }
        for (uint32_t p = 0; p < group->n_parts; p++) {
            sl_real *sent = p == q ? NULL : send_back(kernels, group, p, q, gm, out->n_columns);
            for (uint32_t c = 0; c < out->split.n_chunks; c++) {
                const struct sl_gradient chunk = {c << out->split.shift, sl_split_size(&out->split, c), out->n_columns,
                                                  out->base[c], NULL};
                add_share(kernels, group, p, q, gm, sent, &chunk);
            }
            free(sent);
        }
    }
}

/* ---- the same in plain loops, by vertex ---- */

static double weight_of(const struct group_block *block, uint32_t e)
{
    return block->edge_weights == NULL ? 1 : (double)block->edge_weights[e];
}

/* For every edge source -> destination of relation r: slab r of one side += the other side times the edge's weight over
 * n(d, r), or the other way round. With components: slab b += C[r, b] times as much, for every b. x, out: tables by
 * dataset id, n columns a slab. */
static double *reference(const struct group *group, const double *x, uint32_t n, uint32_t x_slabs, uint32_t m_slabs,
                         bool transposed)
{
    const sl_vertex *dataset_ids = group->partition->dataset_ids;
    const uint32_t in = n * (transposed ? m_slabs : x_slabs);
    const uint32_t to = n * (transposed ? x_slabs : m_slabs);
    double *out = need((size_t)group->partition->graph.n_vertices * to, sizeof *out);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[0];
        for (uint32_t d = 0; d < group->pe[p].n_rows[0]; d++) {
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                const uint32_t r = block->edge_relations[e];
                const sl_vertex ends[] = {dataset_ids[source_id(block, block->edge_sources[e])],
                                          dataset_ids[group->pe[p].frontier[d]]};
                double n_same = 0;
                for (uint32_t f = block->edge_offsets[d]; f < block->edge_offsets[d + 1]; f++) {
                    n_same += block->edge_relations[f] == r;
                }
                for (uint32_t i = 0; i < (mix.c == NULL ? n : n * mix.n_bases); i++) {
                    const uint32_t j = i % n;
                    const uint32_t slab = mix.c == NULL ? r : i / n;
                    const double factor =
                        weight_of(block, e) * (mix.c == NULL ? 1 : (double)mix.c[r * mix.n_bases + slab]);
                    const uint32_t x_slab = x_slabs > 1 ? slab * n : 0;
                    const uint32_t m_slab = m_slabs > 1 ? slab * n : 0;
                    out[(size_t)ends[!transposed] * to + (transposed ? x_slab : m_slab) + j] +=
                        factor * x[(size_t)ends[transposed] * in + (transposed ? m_slab : x_slab) + j] / n_same;
                }
            }
        }
    }
    return out;
}

/* GC[r, b] = the sum over edges of relation r of weight <slab b of the source, slab b of the destination> / n(d, r). */
static double *reference_components(const struct group *group, const double *x, const double *y, uint32_t n,
                                    uint32_t x_slabs, uint32_t m_slabs)
{
    const sl_vertex *dataset_ids = group->partition->dataset_ids;
    double *out = need((size_t)mix.n_relations * mix.n_bases, sizeof *out);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[0];
        for (uint32_t d = 0; d < group->pe[p].n_rows[0]; d++) {
            const double *to = y + (size_t)dataset_ids[group->pe[p].frontier[d]] * n * m_slabs;
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                const uint32_t r = block->edge_relations[e];
                const double *from = x + (size_t)dataset_ids[source_id(block, block->edge_sources[e])] * n * x_slabs;
                double n_same = 0;
                for (uint32_t f = block->edge_offsets[d]; f < block->edge_offsets[d + 1]; f++) {
                    n_same += block->edge_relations[f] == r;
                }
                for (uint32_t i = 0; i < n * mix.n_bases; i++) {
                    const size_t x_column = x_slabs > 1 ? i : i % n;
                    const size_t m_column = m_slabs > 1 ? i : i % n;
                    out[r * mix.n_bases + i / n] += weight_of(block, e) * from[x_column] * to[m_column] / n_same;
                }
            }
        }
    }
    return out;
}

/* ---- kernels ---- */

/* GC of rows x and gradients y against the loops. m: the sums of x. <C, GC> = <m, y>. */
static void check_components(const struct group *group, uint32_t n, uint32_t x_slabs, uint32_t m_slabs,
                             const struct level *x, struct level *y, const struct level *m)
{
    const size_t n_components = (size_t)mix.n_relations * mix.n_bases;
    double *x_table = table_of(group, x);
    double *y_table = table_of(group, y);
    double *wanted = reference_components(group, x_table, y_table, n, x_slabs, m_slabs);
    double product = 0;
    double scale = 1;
    memset(mix.gc, 0, n_components * sizeof *mix.gc);
    forward(COMPONENTS, group, x, 0, y);
    for (size_t k = 0; k < n_components; k++) {
        expect_near_at("GC", k, mix.gc[k], wanted[k], rounding(40, n));
        product += (double)mix.c[k] * mix.gc[k];
        scale += fabs((double)mix.c[k] * mix.gc[k]);
    }
    scale += sqrt(inner_levels(group, m, m) * inner_levels(group, y, y));
    expect_near("<C, GC> = <sums, y>", product, inner_levels(group, m, y), 16 * EPSILON * scale);
    free(x_table);
    free(y_table);
    free(wanted);
}

/* Means, their sum onto 3, the adjoint against the loops, and <A x, y> = <x, A^T y>. */
static void check_sums(const struct group *group, uint32_t n, uint32_t x_slabs, uint32_t m_slabs, uint32_t shift)
{
    const uint32_t n_relations = group->partition->graph.n_relations;
    const double largest_weight = group->partition->graph.weights.data != NULL ? 4 : 1;
    const double tolerance = rounding(40, largest_weight * 4 * (n_relations + mix.n_bases));
    struct level x = make_level(group, 1, n * x_slabs, 31);
    struct level g = make_level(group, 1, n * x_slabs, shift);
    struct level y = make_level(group, 0, n * m_slabs, shift);
    struct level m = make_level(group, 0, n * m_slabs, shift);
    fill_level(group, SEED, &x);
    fill_level(group, SEED + 1, &y);
    double *x_table = table_of(group, &x);
    double *y_table = table_of(group, &y);
    double *mean = reference(group, x_table, n, x_slabs, m_slabs, false);
    double *adjoint = reference(group, y_table, n, x_slabs, m_slabs, true);
    forward(RELATE, group, &x, 0, &m);
    expect_table("means", group, &m, mean, 0, tolerance);
    backward(RELATE, group, &y, &g);
    expect_table("adjoint", group, &g, adjoint, 0, tolerance);
    struct level x_again = make_level(group, 1, n * x_slabs, shift);
    fill_level(group, SEED, &x_again);
    const double scale = sqrt(inner_levels(group, &y, &y) * inner_levels(group, &m, &m)) + 1;
    expect_near("<A x, y> = <x, A' y>", inner_levels(group, &m, &y), inner_levels(group, &x_again, &g),
                16 * EPSILON * largest_weight * scale);
    if (mix.c != NULL) {
        check_components(group, n, x_slabs, m_slabs, &x, &y, &m);
    }
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < m.pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < n * m_slabs; j++) {
                row_at(&m.pe[p], r)[j] = 3;
            }
        }
    }
    forward(RELATE, group, &x, 1, &m);
    expect_table("3 + means", group, &m, mean, 3, 4 * tolerance);
    free(x_table);
    free(y_table);
    free(mean);
    free(adjoint);
    free_level(group, &x);
    free_level(group, &x_again);
    free_level(group, &g);
    free_level(group, &m);
    free_level(group, &y);
}

static void check_both_sides(const struct group *group, uint32_t n, uint32_t shift)
{
    const uint32_t n_relations = group->partition->graph.n_relations;
    check_sums(group, n, 1, n_relations, shift);
    check_sums(group, n, n_relations, 1, shift);
    for (uint32_t n_bases = 1; n_bases <= 3; n_bases += 2) {
        begin_mix(n_relations, n_bases);
        check_sums(group, n, 1, n_bases, shift);
        check_sums(group, n, n_bases, 1, shift);
        end_mix();
    }
}

static void sample_group(const struct sl_dataset *dataset, int split, uint32_t n_parts, int method,
                         struct sl_partition *partition, struct group *group)
{
    const struct sl_sample_rule rule = {method, 5, false, 1};
    make_split_of(dataset, split, n_parts, partition);
    group_sample(partition, 1, &rule, SEED, 3, 20, dataset->train.ids, group);
}

static void test_graphs(void **state)
{
    (void)state;
    const uint32_t part_counts[] = {1, 4, 7};
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        for (uint32_t kind = 0; kind < 3; kind++) {
            const struct graph_shape shape = {.kind = graph,
                                              .n_vertices = 90,
                                              .self_loops = true,
                                              .n_relations = kind == 0 ? 1 : 4,
                                              .weighted = kind == 2};
            struct sl_dataset dataset;
            make_dataset(&shape, &dataset);
            for (int i = 0; i < 3; i++) {
                struct sl_partition partition;
                struct group group;
                sample_group(&dataset, SPLIT_UNEVEN, part_counts[i], i == 1 ? SL_SAMPLE_LABOR : SL_SAMPLE_NEIGHBOR,
                             &partition, &group);
                check_both_sides(&group, 7, 31);
                check_both_sides(&group, 3, 2);
                group_free(&group);
                sl_partition_free(&partition);
            }
            sl_dataset_free(&dataset);
        }
    }
}

/* More columns than are summed at a time. */
static void test_wide_rows(void **state)
{
    (void)state;
    const struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 90, .hub_degree = 40, .n_relations = 3};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    sample_group(&dataset, SPLIT_RANDOM, 2, SL_SAMPLE_FULL, &partition, &group);
    begin_mix(3, 2);
    check_sums(&group, 515, 1, 2, 31);
    check_sums(&group, 515, 2, 1, 31);
    end_mix();
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* 13,000 in-neighbours, in one part and in four. The parts change no bit of the means. */
static void check_hub(uint32_t m_slabs, bool weighted)
{
    const struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                      .n_vertices = 14000,
                                      .hub_degree = 13000,
                                      .directed = true,
                                      .n_relations = 3,
                                      .weighted = weighted};
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    const sl_vertex seeds[] = {7000, 13999, 13998, 0};
    double hub[2][6];
    const uint32_t n = 2 * m_slabs;
    struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    for (int i = 0; i < 2; i++) {
        struct sl_partition partition;
        struct group group;
        make_split_of(&dataset, SPLIT_RANDOM, i == 0 ? 1 : 4, &partition);
        group_sample(&partition, 1, &full, SEED, 0, 4, seeds, &group);
        struct level x = make_level(&group, 1, 2, 31);
        struct level m = make_level(&group, 0, n, 31);
        fill_level(&group, SEED, &x);
        forward(RELATE, &group, &x, 0, &m);
        double *x_table = table_of(&group, &x);
        double *wanted = reference(&group, x_table, 2, 1, m_slabs, false);
        double *got = table_of(&group, &m);
        for (uint32_t j = 0; j < n; j++) {
            expect_near_at("means of the hub", j, got[7000 * n + j], wanted[7000 * n + j], 13000 * EPSILON / 2);
            hub[i][j] = got[7000 * n + j];
        }
        free(x_table);
        free(wanted);
        free(got);
        free_level(&group, &x);
        free_level(&group, &m);
        group_free(&group);
        sl_partition_free(&partition);
    }
    assert_memory_equal(hub[0], hub[1], n * sizeof *hub[0]);
    sl_dataset_free(&dataset);
}

static void test_many_neighbours(void **state)
{
    (void)state;
    check_hub(3, false);
    check_hub(3, true);
    begin_mix(3, 2);
    check_hub(2, false);
    check_hub(2, true);
    end_mix();
}

/* With one relation the kernels are those of the mean, to the bit. */
static void test_one_relation(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        const struct graph_shape shape = {
            .kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .n_relations = 1, .weighted = i % 2 == 1};
        const uint32_t n_parts = i < 2 ? 1 : 4;
        struct sl_dataset dataset;
        struct sl_partition partition;
        struct group group;
        struct level m[2], g[2];
        make_dataset(&shape, &dataset);
        sample_group(&dataset, SPLIT_RANDOM, n_parts, SL_SAMPLE_FULL, &partition, &group);
        struct level x = make_level(&group, 1, 9, 31);
        fill_level(&group, SEED, &x);
        for (int k = RELATE; k <= AGGREGATE; k++) {
            m[k] = make_level(&group, 0, 9, 3);
            g[k] = make_level(&group, 1, 9, 3);
            forward((enum kernels)k, &group, &x, 0, &m[k]);
            backward((enum kernels)k, &group, &m[k], &g[k]);
        }
        expect_same_levels("means of one relation", &group, &m[0], &m[1]);
        expect_same_levels("adjoint of one relation", &group, &g[0], &g[1]);
        for (int k = 0; k < 2; k++) {
            free_level(&group, &m[k]);
            free_level(&group, &g[k]);
        }
        free_level(&group, &x);
        group_free(&group);
        sl_partition_free(&partition);
        sl_dataset_free(&dataset);
    }
}

/* No destination at all, and destinations without an edge. */
static void test_empty_blocks(void **state)
{
    (void)state;
    const uint32_t offsets[] = {0, 0, 0, 0};
    const uint32_t first[] = {0, 0};
    const struct sl_slabs slabs = sl_slabs_of(5, 15);
    const struct sl_sources none = {1, first, NULL, NULL};
    const struct sl_view gm = {NULL, 31, NULL};
    const struct sl_related no_rows = {.offsets = offsets};
    const struct sl_related no_edges = {.n_rows = 1, .offsets = offsets};
    const struct sl_related_back block = {.back_offsets = offsets, .edge_offsets = offsets};
    const sl_real c[4] = {1, 1, 1, 1};
    const struct sl_slabs mixed = {5, 5, 10, 0, 5, 2, c};
    double gc[4] = {7, 7, 7, 7};
    sl_real m[15];
    const struct sl_gradient g = {.n_rows = 3, .n_columns = 5, .rows = m};
    for (int i = 0; i < 15; i++) {
        m[i] = POISON;
    }
    sl_relate_forward_cpu(SL_DTYPE_REAL, &no_rows, &slabs, &none, 0, m);
    sl_relate_backward_cpu(&block, 0, 0, &slabs, &gm, m);
    sl_relate_own_cpu(&block, 0, 0, NULL, &slabs, &gm, &g);
    sl_relate_forward_cpu(SL_DTYPE_REAL, &no_edges, &slabs, &none, 1, m);
    sl_relate_forward_cpu(SL_DTYPE_REAL, &no_edges, &mixed, &none, 1, m);
    sl_relate_own_cpu(&block, 0, 0, NULL, &mixed, &gm, &g);
    sl_relate_components_cpu(SL_DTYPE_REAL, &no_rows, &mixed, &none, m, gc);
    sl_relate_components_cpu(SL_DTYPE_REAL, &no_edges, &mixed, &none, m, gc);
    for (int i = 0; i < 4; i++) {
        assert_true(gc[i] == 7);
    }
    for (int i = 0; i < 15; i++) {
        assert_true(m[i] == POISON);
    }
    sl_relate_forward_cpu(SL_DTYPE_REAL, &no_edges, &slabs, &none, 0, m);
    for (int i = 0; i < 15; i++) {
        assert_true(m[i] == 0);
    }
}

/* ---- launchers ---- */

#ifdef SL_CUDA

/* A block and its rows on the device; one PE. */
struct on_gpu {
    struct sl_related edges;
    struct sl_related_back back;
    struct sl_device_sources x;
    struct sl_device_rows gm;
    uint32_t *inverse;
};

static struct on_gpu send(const struct group *group, const struct level *x, const struct level *gm)
{
    const struct group_block *block = &group->pe[0].block[0];
    const uint32_t n_rows = group->pe[0].n_rows[0];
    struct on_gpu out = {.edges.n_rows = n_rows};
    out.edges.offsets = on_device(block->edge_offsets, 4 * ((size_t)n_rows + 1));
    out.edges.sources = on_device(block->edge_sources, 4 * (size_t)block->n_edges);
    out.edges.relations = on_device(block->edge_relations, 2 * (size_t)block->n_edges);
    if (block->edge_weights != NULL) {
        out.edges.weights = on_device(block->edge_weights, 4 * (size_t)block->n_edges);
        out.back.back_weights = on_device(block->back_weights, 4 * (size_t)block->n_edges);
    }
    out.back.edge_offsets = out.edges.offsets;
    out.back.relations = out.edges.relations;
    out.back.back_offsets = on_device(block->back_offsets, 4 * ((size_t)block->n_sources + 1));
    out.back.back_rows = on_device(block->back_rows, 4 * (size_t)block->n_edges);
    out.back.back_relations = on_device(block->back_relations, 2 * (size_t)block->n_edges);
    out.inverse = on_device(block->inverse, 4 * (2 + (size_t)block->inverse[1]));
    out.x = (struct sl_device_sources){.n_owners = 1, .inverse = out.inverse};
    out.x.first[1] = block->request[1];
    const struct rows *rows[] = {&x->pe[0], &gm->pe[0]};
    for (int i = 0; i < 2; i++) {
        struct sl_device_rows copy = {.n_chunks = 1, .shift = 31};
        copy.chunk[0] = on_device(rows[i]->base[0], (size_t)rows[i]->split.n_rows * rows[i]->n_columns * 4);
        *(i == 0 ? &out.x.rows : &out.gm) = copy;
    }
    return out;
}

static void give_back(const struct on_gpu *gpu)
{
    void *const all[] = {
        (void *)gpu->edges.offsets,     (void *)gpu->edges.sources,     (void *)gpu->edges.relations,
        (void *)gpu->back.back_offsets, (void *)gpu->back.back_rows,    (void *)gpu->back.back_relations,
        (void *)gpu->edges.weights,     (void *)gpu->back.back_weights, gpu->inverse,
        (void *)gpu->x.rows.chunk[0],   (void *)gpu->gm.chunk[0]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(cudaFree(all[i]), cudaSuccess);
    }
}

/* A matrix in a device's memory against the host's. The launcher weights terms one by one and cuts long lists. */
static void expect_close(const char *label, sl_real *got, const struct rows *wanted)
{
    const size_t n = (size_t)wanted->split.n_rows * wanted->n_columns;
    sl_real *host = need(n, sizeof *host);
    from_device(host, got, n * sizeof *host);
    for (size_t i = 0; i < n; i++) {
        const double sum = (double)wanted->base[0][i];
        expect_near_at(label, i, (double)host[i], sum, rounding(40, 4 + fabs(sum)));
    }
    free(host);
}

/* The gradient of the components. y: the gradients of the sums. */
static void check_components_launcher(const struct group *group, const struct on_gpu *gpu, const struct sl_slabs *slabs,
                                      const struct level *x, struct level *y)
{
    const size_t n = (size_t)mix.n_relations * mix.n_bases;
    sl_real *host = need(n, sizeof *host);
    sl_real *got = device_room(n * sizeof *got);
    memset(mix.gc, 0, n * sizeof *mix.gc);
    forward(COMPONENTS, group, x, 0, y);
    expect_launched(
        sl_relate_components_cuda(NULL, &gpu->edges, slabs, &gpu->x, gpu->gm.chunk[0], mix.n_relations, got));
    from_device(host, got, n * sizeof *host);
    for (size_t k = 0; k < n; k++) {
        expect_near_at("GC", k, (double)host[k], mix.gc[k], rounding(40, slabs->n + fabs(mix.gc[k])));
    }
    /* A block without rows. */
    const struct sl_related none = {.offsets = gpu->edges.offsets};
    got = device_room(n * sizeof *got);
    expect_launched(sl_relate_components_cuda(NULL, &none, slabs, &gpu->x, gpu->gm.chunk[0], mix.n_relations, got));
    from_device(host, got, n * sizeof *host);
    for (size_t k = 0; k < n; k++) {
        assert_true(host[k] == 0);
    }
    free(host);
}

static void check_launchers(const struct group *group, uint32_t x_width, uint32_t m_width)
{
    struct sl_slabs slabs = slabs_of(x_width, m_width);
    const struct group_block *block = &group->pe[0].block[0];
    struct level x = make_level(group, 1, x_width, 31);
    struct level g = make_level(group, 1, x_width, 31);
    struct level m = make_level(group, 0, m_width, 31);
    fill_level(group, SEED, &x);
    forward(RELATE, group, &x, 0, &m);
    backward(RELATE, group, &m, &g);
    struct on_gpu gpu = send(group, &x, &m);
    sl_real *c = NULL;
    if (mix.c != NULL) {
        slabs.c = c = on_device(mix.c, (size_t)mix.n_relations * mix.n_bases * sizeof *c);
        check_components_launcher(group, &gpu, &slabs, &x, &m);
    }
    const size_t m_bytes = (size_t)m.pe[0].split.n_rows * m_width * sizeof(sl_real);
    sl_real *got = device_room(m_bytes);
    expect_launched(sl_relate_forward_cuda(NULL, &gpu.edges, &slabs, &gpu.x, 0, SL_DTYPE_REAL, got));
    expect_close("means", got, &m.pe[0]);
    const size_t g_bytes = (size_t)g.pe[0].split.n_rows * x_width * sizeof(sl_real);
    const struct sl_gradient out = {0, g.pe[0].split.n_rows, x_width, device_room(g_bytes), NULL};
    const struct sl_asked asked = {gpu.inverse, 1, 0};
    expect_launched(sl_accumulate_clear_cuda(NULL, out.n_rows, x_width, out.rows));
    expect_launched(sl_relate_own_cuda(NULL, &gpu.back, &gpu.gm, &slabs, 0, block->n_sources, &asked, &out));
    expect_close("adjoint", out.rows, &g.pe[0]);
    struct rows sent = make_rows(block->n_sources, x_width, 31);
    const struct sl_view view = view_of(&m.pe[0], NULL);
    const struct sl_related_back back = back_of(block);
    const struct sl_slabs here = slabs_of(x_width, m_width);
    sl_relate_backward_cpu(&back, 0, block->n_sources, &here, &view, sent.base[0]);
    got = device_room((size_t)block->n_sources * x_width * sizeof *got);
    expect_launched(sl_relate_backward_cuda(NULL, &gpu.back, &gpu.gm, &slabs, 0, block->n_sources, SL_DTYPE_REAL, got));
    expect_close("gradients that go back", got, &sent);
    free_rows(&sent);
    assert_int_equal(cudaFree(c), cudaSuccess);
    give_back(&gpu);
    free_level(group, &x);
    free_level(group, &g);
    free_level(group, &m);
}

/* A hub with 500 edges each way, which the warps of a block share. */
static void test_launchers(void **state)
{
    (void)state;
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    sl_vertex seeds[600];
    need_device();
    for (uint32_t i = 0; i < 600; i++) {
        seeds[i] = i;
    }
    for (uint32_t kind = 0; kind < 3; kind++) {
        const uint32_t n_relations = kind == 0 ? 1 : 3;
        const struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                          .n_vertices = 600,
                                          .hub_degree = 500,
                                          .n_relations = n_relations,
                                          .weighted = kind == 2};
        struct sl_dataset dataset;
        struct sl_partition partition;
        struct group group;
        make_dataset(&shape, &dataset);
        make_split_of(&dataset, SPLIT_NONE, 1, &partition);
        group_sample(&partition, 1, &full, SEED, 0, 600, seeds, &group);
        for (uint32_t n = 5; n <= 40; n += 35) { /* columns read one by one, four at a time */
            check_launchers(&group, n, n * n_relations);
            check_launchers(&group, n * n_relations, n);
            begin_mix(n_relations, 2);
            check_launchers(&group, n, 2 * n);
            check_launchers(&group, 2 * n, n);
            end_mix();
        }
        group_free(&group);
        sl_partition_free(&partition);
        sl_dataset_free(&dataset);
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),       cmocka_unit_test(test_many_neighbours),
        cmocka_unit_test(test_one_relation), cmocka_unit_test(test_empty_blocks),
        cmocka_unit_test(test_wide_rows),
#ifdef SL_CUDA
        cmocka_unit_test(test_launchers),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
