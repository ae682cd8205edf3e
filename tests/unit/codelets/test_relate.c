/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sums/relate.h over whole groups: means by relation, their adjoint and the sums at owners, with the exchange
 * between them, with and without components and weights of edges, against plain loops in double; with one relation
 * against codelets/sums/aggregate.h, bit for bit. */
#include "codelets/sums/relate.h"
#include "data/load.h"

#include "tests/support/hop_fixture.h"

/* ---- one hop of a group ---- */

/* The relations, or the mean of codelets/sums/aggregate.h. COMPONENTS: forward adds GC to mix.gc. */
enum sums { RELATE, AGGREGATE, COMPONENTS };

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

static starpu_data_handle_t wrap_components(struct handles *h)
{
    return mix.c == NULL ? NULL : wrap(h, rows_of(mix.c, mix.n_relations, mix.n_bases));
}

/* Add GC of a chunk of p's destinations to mix.gc. */
static void add_components(struct handles *h, uint32_t p, uint32_t row0, const struct sl_source_handles *sources,
                           starpu_data_handle_t gm)
{
    FREED sl_real *gc = poisoned((size_t)mix.n_relations * mix.n_bases);
    starpu_data_handle_t handle = rows_of(gc, mix.n_relations, mix.n_bases);
    expect_ok(sl_relate_components_submit(&head, &h->block[p], row0, 100, sources, gm, handle));
    unregister(1, &handle);
    for (uint32_t k = 0; k < mix.n_relations * mix.n_bases; k++) {
        mix.gc[k] += (double)gc[k];
    }
}

/* m (+)= A x. */
static void forward(enum sums sums, const struct group *group, const struct level *x, int beta, struct level *m)
{
    struct handles *h = wrap_hop(group, 0);
    const struct sl_rows *rows = wrap_level(h, 0, x);
    const struct sl_rows *out = wrap_level(h, 1, m);
    starpu_data_handle_t components = wrap_components(h);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct sl_block *block = &h->block[p];
        struct sl_slice packed[MAX_PARTS];
        const struct sl_source_handles sources = {.n_owners = group->n_parts,
                                                  .own = p,
                                                  .first = group->pe[p].block[0].request,
                                                  .rows = &rows[p],
                                                  .inverse = block->inverse,
                                                  .packed = packed};
        submit_packs(h, rows, p, packed);
        for (uint32_t c = 0; c < out[p].split.n_chunks; c++) {
            const uint32_t row0 = c << out[p].split.shift;
            if (sums == RELATE) {
                expect_ok(
                    sl_relate_forward_submit(&head, block, row0, 100, &sources, components, beta, out[p].chunk[c]));
            } else if (sums == COMPONENTS) {
                add_components(h, p, row0, &sources, out[p].chunk[c]);
            } else {
                expect_ok(sl_aggregate_forward_submit(&head, block, row0, 100, &sources, beta, out[p].chunk[c]));
            }
        }
    }
    unwrap(h);
}

/* What p sends back, by owner. */
static void send_back(enum sums sums, struct handles *h, const struct sl_rows *gm, uint32_t p,
                      starpu_data_handle_t components, uint32_t x_width, struct sl_slice sent[MAX_PARTS])
{
    const struct sl_block *block = &h->block[p];
    uint32_t t0[MAX_PARTS];
    struct sl_slice packed[MAX_PARTS];
    uint32_t n = 0;
    wrap_packed(h, p, x_width, sent);
    for (uint32_t q = 0; q < h->group->n_parts; q++) {
        if (sent[q].n_rows > 0) {
            t0[n] = h->group->pe[p].block[0].request[q];
            packed[n++] = sent[q];
        }
    }
    if (n > 0 && sums == RELATE) {
        expect_ok(sl_relate_backward_submit(&head, block, &gm[p], components, 100, n, t0, packed));
    } else if (n > 0) {
        expect_ok(sl_aggregate_backward_submit(&head, block, &gm[p], NULL, 100, n, t0, packed));
    }
}

/* g = A^T gm. */
static void backward(enum sums sums, const struct group *group, const struct level *gm, struct level *g)
{
    struct handles *h = wrap_hop(group, 0);
    const struct sl_rows *rows = wrap_level(h, 0, gm);
    const struct sl_rows *out = wrap_level(h, 1, g);
    starpu_data_handle_t components = wrap_components(h);
    struct sl_slice sent[MAX_PARTS][MAX_PARTS];
    for (uint32_t p = 0; p < group->n_parts; p++) {
        send_back(sums, h, rows, p, components, g->pe[p].n_columns, sent[p]);
    }
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const struct sl_block *block = &h->block[q];
        const uint32_t *first = group->pe[q].block[0].request;
        struct sl_slice to_q[MAX_PARTS];
        for (uint32_t p = 0; p < group->n_parts; p++) {
            to_q[p] = sent[p][q];
        }
        const struct sl_share_sources from = {
            .t0 = first[q], .n_own = sl_list_count(first, q), .n_peers = group->n_parts, .own = q, .sent = to_q};
        const struct sl_relate_shares shares = {.block = block, .from = from, .gm = &rows[q], .c = components};
        const struct sl_accumulate plain = {.block = block, .from = from, .gm = &rows[q]};
        for (uint32_t c = 0; c < out[q].split.n_chunks; c++) {
            const uint32_t row0 = c << out[q].split.shift;
            if (sums == RELATE) {
                expect_ok(sl_relate_accumulate_submit(&head, &shares, row0, out[q].chunk[c]));
            } else {
                expect_ok(sl_accumulate_submit(&head, &plain, row0, out[q].chunk[c]));
            }
        }
    }
    unwrap(h);
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

/* ---- tests ---- */

/* GC of rows x and gradients y against the loops. m: the sums of x. <C, GC> = <m, y>. */
static void check_components(const struct group *group, uint32_t n, uint32_t x_slabs, uint32_t m_slabs,
                             const struct level *x, struct level *y, const struct level *m)
{
    const size_t n_components = (size_t)mix.n_relations * mix.n_bases;
    FREED double *x_table = table_of(group, x);
    FREED double *y_table = table_of(group, y);
    FREED double *wanted = reference_components(group, x_table, y_table, n, x_slabs, m_slabs);
    double product = 0;
    double scale = 1;
    memset(mix.gc, 0, n_components * sizeof *mix.gc);
    forward(COMPONENTS, group, x, 0, y);
    for (size_t k = 0; k < n_components; k++) {
        expect_near_at("GC", k, mix.gc[k], wanted[k], rounding(40, n + fabs(wanted[k])));
        product += (double)mix.c[k] * mix.gc[k];
        scale += fabs((double)mix.c[k] * mix.gc[k]);
    }
    scale += sqrt(inner_levels(group, m, m) * inner_levels(group, y, y));
    expect_near("<C, GC> = <sums, y>", product, inner_levels(group, m, y), 16 * EPSILON * scale);
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
    FREED double *x_table = table_of(group, &x);
    FREED double *y_table = table_of(group, &y);
    FREED double *mean = reference(group, x_table, n, x_slabs, m_slabs, false);
    FREED double *adjoint = reference(group, y_table, n, x_slabs, m_slabs, true);
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

TEST(graphs)
{
    fixture_start(3);
    const uint32_t part_counts[] = {1, 4, 7};
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        for (uint32_t kind = 0; kind < 3; kind++) {
            const struct graph_shape shape = {.kind = graph,
                                              .n_vertices = 90,
                                              .self_loops = true,
                                              .n_relations = kind == 0 ? 1 : 4,
                                              .weighted = kind == 2};
            OWNED(sl_dataset_free) struct sl_dataset dataset;
            make_dataset(&shape, &dataset);
            struct sl_partition partition;
            struct group group;
            sample_group(&dataset, SPLIT_UNEVEN, part_counts[((uint32_t)graph + kind) % 3],
                         kind == 1 ? SL_SAMPLE_LABOR : SL_SAMPLE_NEIGHBOR, &partition, &group);
            check_both_sides(&group, 7, 31);
            check_both_sides(&group, 3, 2);
            drop_group(&partition, &group);
        }
    }
    fixture_stop();
}

/* More columns than are summed at a time. */
TEST(wide_rows)
{
    fixture_start(1);
    fixture_watch();
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
    fixture_stop();
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
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    for (int i = 0; i < 2; i++) {
        OWNED(sl_partition_free) struct sl_partition partition;
        OWNED(group_free) struct group group;
        make_split_of(&dataset, SPLIT_RANDOM, i == 0 ? 1 : 4, &partition);
        group_sample(&partition, 1, &full, SEED, 0, 4, seeds, &group);
        struct level x = make_level(&group, 1, 2, 31);
        struct level m = make_level(&group, 0, n, 31);
        fill_level(&group, SEED, &x);
        forward(RELATE, &group, &x, 0, &m);
        FREED double *x_table = table_of(&group, &x);
        FREED double *wanted = reference(&group, x_table, 2, 1, m_slabs, false);
        FREED double *got = table_of(&group, &m);
        for (uint32_t j = 0; j < n; j++) {
            expect_near_at("means of the hub", j, got[7000 * n + j], wanted[7000 * n + j], 13000 * EPSILON / 2);
            hub[i][j] = got[7000 * n + j];
        }
        free_level(&group, &x);
        free_level(&group, &m);
    }
    assert_memory_equal(hub[0], hub[1], n * sizeof *hub[0]);
}

TEST(many_neighbours)
{
    fixture_start(1);
    check_hub(3, false);
    check_hub(3, true);
    begin_mix(3, 2);
    check_hub(2, false);
    check_hub(2, true);
    end_mix();
    fixture_stop();
}

/* A GPU weighs terms one by one, and cuts long lists. */
#ifdef SL_CUDA
#define EXACT rounding(140, 4)
#else
#define EXACT 0
#endif

/* With one relation the sums are those of the mean, on a CPU to the bit. */
TEST(one_relation)
{
    fixture_start(1);
    for (uint32_t i = 0; i < 4; i++) {
        const struct graph_shape shape = {
            .kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140, .n_relations = 1, .weighted = i % 2 == 1};
        const uint32_t n_parts = i < 2 ? 1 : 4;
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        OWNED(sl_partition_free) struct sl_partition partition;
        OWNED(group_free) struct group group;
        struct level m[2], g[2];
        make_dataset(&shape, &dataset);
        sample_group(&dataset, SPLIT_RANDOM, n_parts, SL_SAMPLE_FULL, &partition, &group);
        struct level x = make_level(&group, 1, 9, 31);
        fill_level(&group, SEED, &x);
        for (int k = RELATE; k <= AGGREGATE; k++) {
            m[k] = make_level(&group, 0, 9, 3);
            g[k] = make_level(&group, 1, 9, 3);
            forward((enum sums)k, &group, &x, 0, &m[k]);
            backward((enum sums)k, &group, &m[k], &g[k]);
        }
        expect_levels("means of one relation", &group, &m[0], &m[1], EXACT);
        expect_levels("adjoint of one relation", &group, &g[0], &g[1], EXACT);
        for (int k = 0; k < 2; k++) {
            free_level(&group, &m[k]);
            free_level(&group, &g[k]);
        }
        free_level(&group, &x);
    }
    fixture_stop();
}

/* A hub with 500 edges each way, which the warps of a block share. */
TEST(hub)
{
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    sl_vertex seeds[600];
    fixture_start(1);
    for (uint32_t i = 0; i < 600; i++) {
        seeds[i] = i;
    }
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t n_relations = i < 2 ? 1 : 3;
        const struct graph_shape shape = {.kind = GRAPH_POWER_LAW,
                                          .n_vertices = 600,
                                          .hub_degree = 500,
                                          .n_relations = n_relations,
                                          .weighted = i % 2 == 1};
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        struct sl_partition partition;
        struct group group;
        make_dataset(&shape, &dataset);
        make_split_of(&dataset, SPLIT_NONE, 1, &partition);
        group_sample(&partition, 1, &full, SEED, 0, 600, seeds, &group);
        for (uint32_t n = 5; n <= 40; n += 35) { /* columns read one by one, four at a time */
            check_sums(&group, n, 1, n_relations, 31);
            check_sums(&group, n, n_relations, 1, 31);
            begin_mix(n_relations, 2);
            check_sums(&group, n, 1, 2, 31);
            check_sums(&group, n, 2, 1, 31);
            end_mix();
        }
        drop_group(&partition, &group);
    }
    fixture_stop();
}

TEST_MAIN(NULL, NULL)
