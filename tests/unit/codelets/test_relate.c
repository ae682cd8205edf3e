/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/sums/relate.h over whole groups: means by relation, their adjoint and the sums at owners, with the exchange
 * between them, with and without components and weights of edges, against plain loops; with one relation, bit for
 * bit. */
#include "codelets/sums/relate.h"
#include "data/load.h"

#include "tests/support/hop_fixture.h"

/* ---- the operation ---- */

/* The components of the sums in hand, and their gradient. c is NULL: slabs are those of relations. */
static struct {
    uint32_t n_relations, n_bases;
    sl_real *c;
    double *gc;
} mix;

/* Slabs of n columns, on one side or on both. */
static struct {
    uint32_t n, n_in, n_out;
} slabs;

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

/* n(d, r). */
static uint32_t n_same(const struct group_block *block, uint32_t d, uint32_t relation)
{
    uint32_t n = 0;
    for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
        n += block->edge_relations[e] == relation;
    }
    return n;
}

/* Slab r of one side += the other side times the edge's weight over n(d, r). With components: slab b += C[r, b] times
 * as much, for every b. */
static void add_edge_term(const struct hop_edge *e, bool transposed, const sl_real *x, sl_real *out)
{
    const sl_real weight = 1 / (sl_real)n_same(e->block, e->d, e->relation) * e->weight;
    const uint32_t n_in = transposed ? slabs.n_out : slabs.n_in;
    const uint32_t n_out = transposed ? slabs.n_in : slabs.n_out;
    for (uint32_t i = 0; i < (mix.c == NULL ? 1 : mix.n_bases); i++) {
        const uint32_t slab = mix.c == NULL ? e->relation : i;
        const sl_real c = mix.c == NULL ? 1 : mix.c[e->relation * mix.n_bases + i];
        add_row(slabs.n, weight * c, x + (n_in > 1 ? slab * slabs.n : 0), out + (n_out > 1 ? slab * slabs.n : 0));
    }
}

static void open_sum(struct handles *h)
{
    h->parameter = mix.c == NULL ? NULL : wrap(h, rows_of(mix.c, mix.n_relations, mix.n_bases));
}

static void forward(struct handles *h, uint32_t p, uint32_t row0, const struct sl_source_handles *sources,
                    starpu_data_handle_t chunk)
{
    expect_ok(sl_relate_forward_submit(&head, &h->block[p], row0, 100, sources, h->parameter, h->beta, chunk));
}

static void send(struct handles *h, uint32_t p, uint32_t n, const uint32_t *t0, const struct sl_slice *packed)
{
    expect_ok(sl_relate_backward_submit(&head, &h->block[p], &h->rows[SLOT_DESTINATIONS][p], h->parameter, 100, n, t0,
                                        packed));
}

static void accumulate(struct handles *h, uint32_t q, uint32_t row0, const struct sl_share_sources *from,
                       starpu_data_handle_t chunk)
{
    const struct sl_relate_shares shares = {
        .block = &h->block[q], .from = *from, .gm = &h->rows[SLOT_DESTINATIONS][q], .c = h->parameter};
    expect_ok(sl_relate_accumulate_submit(&head, &shares, row0, chunk));
}

static const struct hop_sum relate = {add_edge_term, NULL, open_sum, forward, send, accumulate};

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

/* ---- components in plain loops ---- */

/* GC[r, b] = the sum over edges of relation r of weight <slab b of the source, slab b of the destination> / n(d, r). */
static double *plain_components(const struct sum_levels *l)
{
    double *out = need((size_t)mix.n_relations * mix.n_bases, sizeof *out);
    for (uint32_t p = 0; p < l->group->n_parts; p++) {
        const struct group_block *block = &l->group->pe[p].block[0];
        for (uint32_t d = 0; d < l->group->pe[p].n_rows[0]; d++) {
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                const uint32_t r = block->edge_relations[e];
                const double weight = block->edge_weights == NULL ? 1 : (double)block->edge_weights[e];
                const sl_real *from = source_row(l->group, 0, p, block->edge_sources[e], &l->x);
                const sl_real *to = row_at(&l->y.pe[p], d);
                for (uint32_t b = 0; b < mix.n_bases; b++) {
                    out[r * mix.n_bases + b] += weight / n_same(block, d, r) *
                                                inner(slabs.n, from + (slabs.n_in > 1 ? b * slabs.n : 0),
                                                      to + (slabs.n_out > 1 ? b * slabs.n : 0));
                }
            }
        }
    }
    return out;
}

/* ---- tests ---- */

/* GC of rows x and gradients y against the loops. <C, GC> = <m, y>. */
static void check_components(const struct sum_levels *l)
{
    const size_t n_components = (size_t)mix.n_relations * mix.n_bases;
    FREED double *wanted = plain_components(l);
    double product = 0;
    double scale = 1;
    struct handles *h = wrap_sum(&relate, l->group, 0, &l->x, &l->y);
    memset(mix.gc, 0, n_components * sizeof *mix.gc);
    each_destination(h, SLOT_SOURCES, SLOT_DESTINATIONS, add_components);
    unwrap(h);
    for (size_t k = 0; k < n_components; k++) {
        expect_near_at("GC", k, mix.gc[k], wanted[k], rounding(40, slabs.n + fabs(wanted[k])));
        product += (double)mix.c[k] * mix.gc[k];
        scale += fabs((double)mix.c[k] * mix.gc[k]);
    }
    scale += sqrt(inner_levels(l->group, &l->m[1], &l->m[1]) * inner_levels(l->group, &l->y, &l->y));
    expect_near("<C, GC> = <sums, y>", product, inner_levels(l->group, &l->m[1], &l->y), 16 * EPSILON * scale);
}

static void check_sums(const struct group *group, uint32_t n, uint32_t n_in, uint32_t n_out, uint32_t shift)
{
    const double largest = group->partition->graph.weights != NULL ? 4 : 1;
    const double tolerance = rounding(40, largest * 4 * (group->partition->graph.n_relations + mix.n_bases));
    OWNED(free_sum_levels) struct sum_levels l = make_sum_levels(group, 0, n * n_in, n * n_out, shift, shift);
    slabs.n = n;
    slabs.n_in = n_in;
    slabs.n_out = n_out;
    check_sum(&relate, 0, (struct sum_tolerance){tolerance, tolerance, 2 * largest}, &l);
    if (mix.c != NULL) {
        check_components(&l);
    }
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

TEST(graphs)
{
    const uint32_t part_counts[] = {1, 4, 7};
    FIXTURE(3);
    for (uint32_t i = 0; i < 3 * N_GRAPHS; i++) {
        const uint32_t kind = i % 3;
        const struct graph_shape shape = {.kind = i / 3,
                                          .n_vertices = 90,
                                          .self_loops = true,
                                          .n_relations = kind == 0 ? 1 : 4,
                                          .weighted = kind == 2};
        OWNED(free_world) struct world w;
        make_world(&shape, SPLIT_UNEVEN, part_counts[(i / 3 + kind) % 3], &w);
        sample_train(&w, 1, kind == 1 ? SL_SAMPLE_LABOR : SL_SAMPLE_NEIGHBOR, 20);
        check_both_sides(&w.group, 7, 31);
        check_both_sides(&w.group, 3, 2);
    }
}

/* More columns than are summed at a time. */
TEST(wide_rows)
{
    const struct graph_shape shape = power_law(90, 40, 3, false);
    FIXTURE(1);
    fixture_watch();
    OWNED(free_world) struct world w;
    make_world(&shape, SPLIT_RANDOM, 2, &w);
    sample_train(&w, 1, SL_SAMPLE_FULL, 20);
    begin_mix(3, 2);
    check_sums(&w.group, 515, 1, 2, 31);
    check_sums(&w.group, 515, 2, 1, 31);
    end_mix();
}

/* 13,000 in-neighbours, in one part and in four. The parts change no bit of the means. */
static void check_many_neighbours(uint32_t n_out, bool weighted)
{
    struct graph_shape shape = power_law(14000, 13000, 3, weighted);
    double *tables[2];
    shape.directed = true;
    slabs.n = 2;
    slabs.n_in = 1;
    slabs.n_out = n_out;
    for (int i = 0; i < 2; i++) {
        OWNED(free_world) struct world w;
        make_world(&shape, SPLIT_RANDOM, i == 0 ? 1 : 4, &w);
        sample_hub(&w, 4);
        OWNED(free_sum_levels) struct sum_levels l = make_sum_levels(&w.group, 0, 2, 2 * n_out, 31, 31);
        plain_forward(&relate, &w.group, 0, &l.x, 0, &l.m[0]);
        submit_forward(&relate, &w.group, 0, &l.x, 0, &l.m[1]);
        expect_levels("means of the hub", &w.group, &l.m[1], &l.m[0], 13000 * EPSILON / 2);
        tables[i] = table_of(&w.group, &l.m[1]);
    }
    assert_memory_equal(tables[0], tables[1], 14000 * 2 * n_out * sizeof *tables[0]);
    free(tables[0]);
    free(tables[1]);
}

TEST(many_neighbours)
{
    FIXTURE(1);
    check_many_neighbours(3, false);
    check_many_neighbours(3, true);
    begin_mix(3, 2);
    check_many_neighbours(2, false);
    check_many_neighbours(2, true);
    end_mix();
}

/* A GPU weighs terms one by one, and cuts long lists. */
#ifdef SL_CUDA
#define EXACT rounding(140, 4)
#else
#define EXACT 0
#endif

/* With one relation the sums have the bits of the loops, as those of codelets/sums/aggregate.h do. */
TEST(one_relation)
{
    FIXTURE(1);
    slabs.n = 9;
    slabs.n_in = slabs.n_out = 1;
    for (uint32_t i = 0; i < 4; i++) {
        const struct graph_shape shape = power_law(300, 140, 1, i % 2 == 1);
        OWNED(free_world) struct world w;
        make_world(&shape, SPLIT_RANDOM, i < 2 ? 1 : 4, &w);
        sample_train(&w, 1, SL_SAMPLE_FULL, 20);
        OWNED(free_sum_levels) struct sum_levels l = make_sum_levels(&w.group, 0, 9, 9, 3, 3);
        check_sum(&relate, 0, (struct sum_tolerance){EXACT, EXACT, 8}, &l);
    }
}

/* A hub with 500 edges each way, which the warps of a block share. */
TEST(hub)
{
    FIXTURE(1);
    for (uint32_t i = 0; i < 4; i++) {
        const struct graph_shape shape = power_law(600, 500, i < 2 ? 1 : 3, i % 2 == 1);
        OWNED(free_world) struct world w;
        make_world(&shape, SPLIT_NONE, 1, &w);
        sample_all(&w);
        for (uint32_t n = 5; n <= 40; n += 35) { /* columns read one by one, four at a time */
            check_sums(&w.group, n, 1, shape.n_relations, 31);
            check_sums(&w.group, n, shape.n_relations, 1, 31);
            begin_mix(shape.n_relations, 2);
            check_sums(&w.group, n, 1, 2, 31);
            check_sums(&w.group, n, 2, 1, 31);
            end_mix();
        }
    }
}

TEST_MAIN(NULL, NULL)
