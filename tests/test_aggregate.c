/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * codelets/aggregate.h over whole groups: means, their adjoint and the sums at owners, with the exchange between
 * them, against plain loops in double; and the submissions against the kernels, bit for bit. */
#include "codelets/aggregate.h"

#include "tests/group_fixture.h"
#include "tests/order_fixture.h"

#define SEED 31
#define MAX_CHUNKS 64
#define MAX_PARTS 7
#define POISON ((sl_real)-12345.5)

/* ---- rows in chunks ---- */

/* Chunks are blocks of their own, so that a step over a chunk's border is seen. */
struct rows {
    struct sl_split split;
    uint32_t n_columns;
    sl_real *base[MAX_CHUNKS];
};

static struct rows make_rows(uint32_t n_rows, uint32_t n_columns, uint32_t shift)
{
    struct rows rows = {.split = sl_split_rows(n_rows, MAX_CHUNKS, shift), .n_columns = n_columns};
    for (uint32_t c = 0; c < rows.split.n_chunks; c++) {
        rows.base[c] = poisoned((size_t)sl_split_size(&rows.split, c) * n_columns);
    }
    return rows;
}

static void free_rows(struct rows *rows)
{
    for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
        free(rows->base[c]);
    }
}

static sl_real *entry(const struct rows *rows, uint32_t r, uint32_t j)
{
    uint32_t size = 1u << rows->split.shift;
    return &rows->base[r / size][(size_t)(r % size) * rows->n_columns + j];
}

static struct sl_view view_of(const struct rows *rows, const uint32_t *index)
{
    return (struct sl_view){(const sl_real *const *)rows->base, rows->split.shift, index};
}

/* Rows of each PE of a group at one level. */
struct level {
    struct rows pe[MAX_PARTS];
};

static struct level make_level(const struct group *group, uint32_t level, uint32_t n_columns, uint32_t shift)
{
    struct level rows = {0};
    for (uint32_t p = 0; p < group->n_parts; p++) {
        rows.pe[p] = make_rows(group->pe[p].n_rows[level], n_columns, shift);
    }
    return rows;
}

static void free_level(const struct group *group, struct level *level)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        free_rows(&level->pe[p]);
    }
}

/* A vertex has the same numbers whatever the partition and its row: noise, or all ones where seed is 0. */
static void fill_level(const struct group *group, uint64_t seed, struct level *level)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct rows *rows = &level->pe[p];
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            size_t id = group->partition->dataset_ids[group->pe[p].frontier[r]];
            for (uint32_t j = 0; j < rows->n_columns; j++) {
                *entry(rows, r, j) = seed == 0 ? 1 : (sl_real)noise(seed, id * 1024 + j);
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

static void expect_same_levels(const char *what, const struct group *group, const struct level *a,
                               const struct level *b)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < a->pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < a->pe[p].n_columns; j++) {
                expect_same(what, 1, sizeof(sl_real), entry(&a->pe[p], r, j), entry(&b->pe[p], r, j));
            }
        }
    }
}

/* ---- one hop of a group by the kernels ---- */

/* What q packs for p. */
static sl_real *pack_for(const struct group *group, uint32_t hop, uint32_t q, uint32_t p, const struct level *x)
{
    uint32_t n = sl_list_count(group->pe[p].block[hop].request, q);
    uint32_t n_columns = x->pe[q].n_columns;
    struct sl_view rows = view_of(&x->pe[q], sl_list_of(group->pe[q].block[hop].inverse, group->n_parts, p));
    sl_real *packed = poisoned((size_t)n * n_columns);
    sl_pack_cpu(n, n_columns, &rows, packed);
    return packed;
}

/* m (+)= A x. */
static void forward(const struct group *group, uint32_t hop, const struct level *x, int beta, struct level *m)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        struct rows *out = &m->pe[p];
        sl_real *packed[MAX_PARTS];
        struct sl_view view[MAX_PARTS];
        for (uint32_t q = 0; q < group->n_parts; q++) {
            packed[q] = q == p ? NULL : pack_for(group, hop, q, p, x);
            view[q] = (struct sl_view){(const sl_real *const *)&packed[q], 31, NULL};
        }
        view[p] = view_of(&x->pe[p], sl_list_of(block->inverse, group->n_parts, p));
        struct sl_sources sources = {group->n_parts, block->request, view};
        for (uint32_t c = 0; c < out->split.n_chunks; c++) {
            sl_aggregate_forward_cpu(sl_split_size(&out->split, c), out->n_columns,
                                     block->edge_offsets + (c << out->split.shift), block->edge_sources, &sources, beta,
                                     out->base[c]);
        }
        for (uint32_t q = 0; q < group->n_parts; q++) {
            free(packed[q]);
        }
    }
}

/* What p sends back to q. */
static sl_real *send_back(const struct group *group, uint32_t hop, uint32_t p, uint32_t q, const struct level *gm)
{
    const struct group_block *block = &group->pe[p].block[hop];
    uint32_t n = sl_list_count(block->request, q);
    uint32_t n_columns = gm->pe[p].n_columns;
    struct sl_view view = view_of(&gm->pe[p], NULL);
    sl_real *sent = poisoned((size_t)n * n_columns);
    sl_aggregate_backward_cpu(n, n_columns, block->request[q], block->back_offsets, block->back_rows,
                              block->edge_offsets, &view, sent);
    return sent;
}

/* Add p's share to rows row0 .. of q. */
static void add_share(const struct group *group, uint32_t hop, uint32_t p, uint32_t q, const struct level *gm,
                      const sl_real *sent, uint32_t row0, uint32_t n_rows, sl_real *g)
{
    const struct group_block *block = &group->pe[q].block[hop];
    uint32_t n_columns = gm->pe[p].n_columns;
    uint32_t n = sl_list_count(block->inverse, p);
    const uint32_t *rows = sl_list_of(block->inverse, group->n_parts, p);
    if (p == q) {
        struct sl_view view = view_of(&gm->pe[q], NULL);
        sl_accumulate_own_cpu(n, n_columns, block->request[q], rows, block->back_offsets, block->back_rows,
                              block->edge_offsets, &view, row0, n_rows, g);
    } else {
        sl_accumulate_sent_cpu(n, n_columns, rows, sent, row0, n_rows, g);
    }
}

/* g = A^T gm. */
static void backward(const struct group *group, uint32_t hop, const struct level *gm, struct level *g)
{
    for (uint32_t q = 0; q < group->n_parts; q++) {
        struct rows *out = &g->pe[q];
        for (uint32_t c = 0; c < out->split.n_chunks; c++) {
            memset(out->base[c], 0, (size_t)sl_split_size(&out->split, c) * out->n_columns * sizeof(sl_real));
        }
        for (uint32_t p = 0; p < group->n_parts; p++) {
            sl_real *sent = p == q ? NULL : send_back(group, hop, p, q, gm);
            for (uint32_t c = 0; c < out->split.n_chunks; c++) {
                add_share(group, hop, p, q, gm, sent, c << out->split.shift, sl_split_size(&out->split, c),
                          out->base[c]);
            }
            free(sent);
        }
    }
}

/* ---- the same in plain loops, by vertex ---- */

/* Numbers per dataset id. */
static double *table_of(const struct group *group, const struct level *level)
{
    uint32_t n_columns = level->pe[0].n_columns;
    double *table = need((size_t)group->partition->graph.n_vertices * n_columns, sizeof *table);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < level->pe[p].split.n_rows; r++) {
            size_t id = group->partition->dataset_ids[group->pe[p].frontier[r]];
            for (uint32_t j = 0; j < n_columns; j++) {
                table[id * n_columns + j] = (double)*entry(&level->pe[p], r, j);
            }
        }
    }
    return table;
}

/* For every edge source -> destination of a hop: out[destination] += x[source] / degree, or the other way round. */
static double *reference(const struct group *group, uint32_t hop, const double *x, uint32_t n_columns, bool transposed)
{
    const sl_vertex *dataset_ids = group->partition->dataset_ids;
    double *out = need((size_t)group->partition->graph.n_vertices * n_columns, sizeof *out);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        for (uint32_t d = 0; d < group->pe[p].n_rows[hop]; d++) {
            size_t destination = dataset_ids[group->pe[p].frontier[d]];
            double degree = block->edge_offsets[d + 1] - block->edge_offsets[d];
            for (uint32_t e = block->edge_offsets[d]; e < block->edge_offsets[d + 1]; e++) {
                size_t source = dataset_ids[source_id(block, block->edge_sources[e])];
                for (uint32_t j = 0; j < n_columns; j++) {
                    size_t from = (transposed ? destination : source) * n_columns + j;
                    out[(transposed ? source : destination) * n_columns + j] += x[from] / degree;
                }
            }
        }
    }
    return out;
}

static void expect_table(const char *what, const struct group *group, const struct level *level, const double *table,
                         double added, double tolerance)
{
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct rows *rows = &level->pe[p];
        for (uint32_t r = 0; r < rows->split.n_rows; r++) {
            size_t id = group->partition->dataset_ids[group->pe[p].frontier[r]];
            for (uint32_t j = 0; j < rows->n_columns; j++) {
                size_t at = id * rows->n_columns + j;
                expect_near_at(what, at, (double)*entry(rows, r, j), table[at] + added, tolerance);
            }
        }
    }
}

/* ---- kernels ---- */

/* Means, their sum onto 3, the adjoint against the loops, and <A x, y> = <x, A^T y>. A mean of n numbers of random
 * signs and size 1 has partial sums up to about 1 / sqrt(n), so that rounding, too, keeps below some epsilons,
 * whatever n. */
static void check_hop(const struct group *group, uint32_t hop, uint32_t n_columns, uint32_t shift_in,
                      uint32_t shift_out)
{
    struct level x = make_level(group, hop + 1, n_columns, shift_in);
    struct level g = make_level(group, hop + 1, n_columns, shift_in);
    struct level m = make_level(group, hop, n_columns, shift_out);
    struct level y = make_level(group, hop, n_columns, shift_out);
    fill_level(group, SEED, &x);
    fill_level(group, SEED + 1, &y);
    double *x_table = table_of(group, &x);
    double *y_table = table_of(group, &y);
    double *mean = reference(group, hop, x_table, n_columns, false);
    double *adjoint = reference(group, hop, y_table, n_columns, true);
    forward(group, hop, &x, 0, &m);
    expect_table("mean", group, &m, mean, 0, 8 * EPSILON);
    backward(group, hop, &y, &g);
    expect_table("adjoint", group, &g, adjoint, 0, rounding(40, 1));
    double scale = sqrt(inner_levels(group, &y, &y) * inner_levels(group, &m, &m)) + 1;
    expect_near("<A x, y> = <x, A' y>", inner_levels(group, &m, &y), inner_levels(group, &x, &g), 8 * EPSILON * scale);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        for (uint32_t r = 0; r < m.pe[p].split.n_rows; r++) {
            for (uint32_t j = 0; j < n_columns; j++) {
                *entry(&m.pe[p], r, j) = 3;
            }
        }
    }
    forward(group, hop, &x, 1, &m);
    expect_table("3 + mean", group, &m, mean, 3, rounding(8, 4));
    free(x_table);
    free(y_table);
    free(mean);
    free(adjoint);
    free_level(group, &x);
    free_level(group, &g);
    free_level(group, &m);
    free_level(group, &y);
}

static void make_group(const struct sl_dataset *dataset, int split, uint32_t n_parts, uint32_t n_seeds,
                       struct sl_partition *partition, struct group *group)
{
    const struct sl_sample_rule rules[2] = {{SL_SAMPLE_NEIGHBOR, 5, false, 1}, {SL_SAMPLE_FULL, 0, false, 1}};
    make_split_of(dataset, split, n_parts, partition);
    group_sample(partition, 2, rules, SEED, 3, n_seeds, dataset->train.ids, group);
}

static void test_graphs(void **state)
{
    (void)state;
    const uint32_t part_counts[] = {1, 4, 7};
    for (int graph = 0; graph < N_GRAPHS; graph++) {
        struct graph_shape shape = {.kind = graph, .n_vertices = 90, .directed = graph == GRAPH_POWER_LAW};
        struct sl_dataset dataset;
        make_dataset(&shape, &dataset);
        for (int i = 0; i < 3; i++) {
            struct sl_partition partition;
            struct group group;
            make_group(&dataset, SPLIT_UNEVEN, part_counts[i], 20, &partition, &group);
            check_hop(&group, 0, 7, 31, 31);
            check_hop(&group, 1, 7, 3, 2);
            group_free(&group);
            sl_partition_free(&partition);
        }
        sl_dataset_free(&dataset);
    }
}

static void test_widths_and_chunks(void **state)
{
    (void)state;
    const uint32_t widths[] = {1, 7, 8, 33, 256};
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_METIS, 4, 40, &partition, &group);
    for (int w = 0; w < 5; w++) {
        check_hop(&group, 1, widths[w], 31, 31);
        check_hop(&group, 1, widths[w], 4, 4);
        check_hop(&group, 1, widths[w], 3, 1);
    }
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* The chunks are invisible, to the bit: one and many give the same sums. */
static void test_chunks_are_invisible(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140};
    struct sl_dataset dataset;
    struct sl_partition partition;
    struct group group;
    make_dataset(&shape, &dataset);
    make_group(&dataset, SPLIT_RANDOM, 4, 40, &partition, &group);
    struct level x[2];
    struct level m[2];
    struct level g[2];
    for (int i = 0; i < 2; i++) {
        x[i] = make_level(&group, 2, 9, i == 0 ? 31 : 3);
        g[i] = make_level(&group, 2, 9, i == 0 ? 31 : 3);
        m[i] = make_level(&group, 1, 9, i == 0 ? 31 : 2);
        fill_level(&group, SEED, &x[i]);
        forward(&group, 1, &x[i], 0, &m[i]);
        backward(&group, 1, &m[i], &g[i]);
    }
    expect_same_levels("mean", &group, &m[0], &m[1]);
    expect_same_levels("adjoint", &group, &g[0], &g[1]);
    for (int i = 0; i < 2; i++) {
        free_level(&group, &x[i]);
        free_level(&group, &m[i]);
        free_level(&group, &g[i]);
    }
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
}

/* 13,000 in-neighbours, in one part and in four. The worst case for rounding are equal signs: a mean of ones may
 * lose half an epsilon per addition. Both sums run along the list's order, so that the parts do not change a bit of
 * the mean. */
static void test_many_neighbours(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 14000, .hub_degree = 13000, .directed = true};
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
        check_hop(&group, 0, 3, 31, 31);
        struct level x = make_level(&group, 1, 1, 31);
        struct level m = make_level(&group, 0, 1, 31);
        fill_level(&group, 0, &x);
        forward(&group, 0, &x, 0, &m);
        double *mean = table_of(&group, &m);
        expect_near("a mean of ones", mean[7000], 1, 13000 * EPSILON / 2);
        expect_near("no neighbours", mean[13999], 0, 0);
        expect_near("itself", mean[13998], 1, 0);
        fill_level(&group, SEED, &x);
        forward(&group, 0, &x, 0, &m);
        free(mean);
        mean = table_of(&group, &m);
        hub[i] = mean[7000];
        free(mean);
        free_level(&group, &x);
        free_level(&group, &m);
        group_free(&group);
        sl_partition_free(&partition);
    }
    assert_true(hub[0] == hub[1]);
    sl_dataset_free(&dataset);
}

/* No destination at all, and destinations without an edge. */
static void test_empty_blocks(void **state)
{
    (void)state;
    const uint32_t offsets[] = {0, 0, 0, 0};
    const uint32_t first[] = {0, 0};
    struct sl_sources none = {1, first, NULL};
    struct sl_view gm = {NULL, 31, NULL};
    sl_real m[3 * 5];
    for (int i = 0; i < 15; i++) {
        m[i] = POISON;
    }
    sl_aggregate_forward_cpu(0, 5, offsets, NULL, &none, 0, m);
    sl_aggregate_backward_cpu(0, 5, 0, offsets, NULL, offsets, &gm, m);
    sl_accumulate_sent_cpu(0, 5, NULL, NULL, 0, 3, m);
    sl_accumulate_own_cpu(0, 5, 0, NULL, offsets, NULL, offsets, &gm, 0, 3, m);
    sl_aggregate_forward_cpu(3, 5, offsets, NULL, &none, 1, m);
    for (int i = 0; i < 15; i++) {
        assert_true(m[i] == POISON);
    }
    sl_aggregate_forward_cpu(3, 5, offsets, NULL, &none, 0, m);
    for (int i = 0; i < 15; i++) {
        assert_true(m[i] == 0);
    }
}

/* ---- submissions ---- */

static starpu_data_handle_t wrap(starpu_data_handle_t handle, unsigned *n, starpu_data_handle_t *all)
{
    assert_true(*n < 1024);
    return all[(*n)++] = handle;
}

/* A group's hop as handles; everything that was registered is in all[]. */
struct handles {
    struct group_handles {
        starpu_data_handle_t edge_offsets, edge_sources, back_offsets, back_rows;
        starpu_data_handle_t inverse;
        starpu_data_handle_t packed[MAX_PARTS]; /* NULL where own or empty */
        const uint32_t *first;
    } pe[MAX_PARTS];
    starpu_data_handle_t chunk[4][MAX_PARTS][MAX_CHUNKS];
    sl_real *memory[MAX_PARTS * MAX_PARTS];
    unsigned n_memory;
    unsigned n;
    starpu_data_handle_t all[1024];
};

static starpu_data_handle_t wrap_vector(struct handles *h, const void *data, uint32_t n)
{
    return wrap(vector_of(data, n > 0 ? n : 1, 4), &h->n, h->all);
}

/* The chunks of one PE's rows; slot: which of the four sets. */
static struct sl_rows wrap_rows(struct handles *h, uint32_t slot, uint32_t p, const struct rows *rows)
{
    for (uint32_t c = 0; c < rows->split.n_chunks; c++) {
        h->chunk[slot][p][c] =
            wrap(rows_of(rows->base[c], sl_split_size(&rows->split, c), rows->n_columns), &h->n, h->all);
    }
    return (struct sl_rows){.split = rows->split, .n_columns = rows->n_columns, .chunk = h->chunk[slot][p]};
}

static struct handles *wrap_group(const struct group *group, uint32_t hop)
{
    struct handles *h = need(1, sizeof *h);
    for (uint32_t p = 0; p < group->n_parts; p++) {
        const struct group_block *block = &group->pe[p].block[hop];
        struct group_handles *pe = &h->pe[p];
        pe->edge_offsets = wrap_vector(h, block->edge_offsets, group->pe[p].n_rows[hop] + 1);
        pe->edge_sources = wrap_vector(h, block->edge_sources, block->n_edges);
        pe->back_offsets = wrap_vector(h, block->back_offsets, block->n_sources + 1);
        pe->back_rows = wrap_vector(h, block->back_rows, block->n_edges);
        pe->inverse = wrap_vector(h, block->inverse, group->n_parts + 1 + block->inverse[group->n_parts]);
        pe->first = block->request;
    }
    return h;
}

/* A buffer between p and q, rows as p asks of q. */
static starpu_data_handle_t wrap_packed(struct handles *h, const struct group *group, uint32_t hop, uint32_t p,
                                        uint32_t q, uint32_t n_columns)
{
    uint32_t n = sl_list_count(group->pe[p].block[hop].request, q);
    if (p == q || n == 0) {
        return NULL;
    }
    sl_real *data = h->memory[h->n_memory++] = poisoned((size_t)n * n_columns);
    return wrap(rows_of(data, n, n_columns), &h->n, h->all);
}

static void unwrap(struct handles *h)
{
    unregister(h->n, h->all);
    while (h->n_memory > 0) {
        free(h->memory[--h->n_memory]);
    }
    free(h);
}

static void submit_forward(const struct group *group, uint32_t hop, const struct level *x, int beta, struct level *m)
{
    struct handles *h = wrap_group(group, hop);
    struct sl_rows rows[MAX_PARTS];
    for (uint32_t p = 0; p < group->n_parts; p++) {
        rows[p] = wrap_rows(h, 0, p, &x->pe[p]);
    }
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct group_handles *pe = &h->pe[p];
        struct sl_source_handles sources = {group->n_parts, p, pe->first, &rows[p], pe->inverse, pe->packed};
        struct sl_rows out = wrap_rows(h, 1, p, &m->pe[p]);
        for (uint32_t q = 0; q < group->n_parts; q++) {
            pe->packed[q] = wrap_packed(h, group, hop, p, q, out.n_columns);
            if (pe->packed[q] != NULL) {
                expect_ok(sl_pack_submit(&head, &rows[q], group->n_parts, h->pe[q].inverse, 1, &p, &pe->packed[q]));
            }
        }
        for (uint32_t c = 0; c < out.split.n_chunks; c++) {
            expect_ok(sl_aggregate_forward_submit(&head, pe->edge_offsets, pe->edge_sources, c << out.split.shift, 100,
                                                  &sources, beta, out.chunk[c]));
        }
    }
    unwrap(h);
}

static void submit_backward(const struct group *group, uint32_t hop, const struct level *gm, struct level *g)
{
    struct handles *h = wrap_group(group, hop);
    struct sl_rows rows[MAX_PARTS];
    for (uint32_t p = 0; p < group->n_parts; p++) {
        struct group_handles *pe = &h->pe[p];
        uint32_t t0[MAX_PARTS];
        starpu_data_handle_t packed[MAX_PARTS];
        uint32_t n = 0;
        rows[p] = wrap_rows(h, 2, p, &gm->pe[p]);
        for (uint32_t q = 0; q < group->n_parts; q++) {
            pe->packed[q] = wrap_packed(h, group, hop, p, q, rows[p].n_columns);
            if (pe->packed[q] != NULL) {
                t0[n] = pe->first[q];
                packed[n++] = pe->packed[q];
            }
        }
        if (n > 0) {
            expect_ok(sl_aggregate_backward_submit(&head, pe->edge_offsets, pe->back_offsets, pe->back_rows, &rows[p],
                                                   100, n, t0, packed));
        }
    }
    for (uint32_t q = 0; q < group->n_parts; q++) {
        const struct group_handles *pe = &h->pe[q];
        starpu_data_handle_t sent[MAX_PARTS];
        for (uint32_t p = 0; p < group->n_parts; p++) {
            sent[p] = h->pe[p].packed[q];
        }
        struct sl_accumulate shares = {.edge_offsets = pe->edge_offsets,
                                       .back_offsets = pe->back_offsets,
                                       .back_rows = pe->back_rows,
                                       .t0 = pe->first[q],
                                       .n_own = pe->first[q + 1] - pe->first[q],
                                       .gm = &rows[q],
                                       .n_peers = group->n_parts,
                                       .own = q,
                                       .inverse = pe->inverse,
                                       .sent = sent};
        struct sl_rows out = wrap_rows(h, 3, q, &g->pe[q]);
        for (uint32_t c = 0; c < out.split.n_chunks; c++) {
            expect_ok(sl_accumulate_submit(&head, &shares, c << out.split.shift, out.chunk[c]));
        }
    }
    unwrap(h);
}

static void check_submissions(const struct group *group, uint32_t hop, uint32_t shift_in, uint32_t shift_out)
{
    struct level x = make_level(group, hop + 1, 6, shift_in);
    struct level g[2];
    struct level m[2];
    fill_level(group, SEED, &x);
    for (int i = 0; i < 2; i++) {
        g[i] = make_level(group, hop + 1, 6, shift_in);
        m[i] = make_level(group, hop, 6, shift_out);
    }
    forward(group, hop, &x, 0, &m[0]);
    submit_forward(group, hop, &x, 0, &m[1]);
    expect_no_failure();
    expect_same_levels("mean", group, &m[1], &m[0]);
    forward(group, hop, &x, 1, &m[0]);
    submit_forward(group, hop, &x, 1, &m[1]);
    expect_same_levels("mean added", group, &m[1], &m[0]);
    backward(group, hop, &m[0], &g[0]);
    submit_backward(group, hop, &m[0], &g[1]);
    expect_no_failure();
    expect_same_levels("adjoint", group, &g[1], &g[0]);
    free_level(group, &x);
    for (int i = 0; i < 2; i++) {
        free_level(group, &g[i]);
        free_level(group, &m[i]);
    }
}

static void test_submissions(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 300, .hub_degree = 140};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct sl_dataset dataset;
        struct sl_partition partition;
        struct group group;
        make_dataset(&shape, &dataset);
        fixture_start(worker_counts[w]);
        make_group(&dataset, SPLIT_METIS, 4, 40, &partition, &group);
        check_submissions(&group, 0, 31, 31);
        check_submissions(&group, 1, 4, 3);
        group_free(&group);
        sl_partition_free(&partition);
        make_group(&dataset, SPLIT_UNEVEN, 7, 3, &partition, &group); /* PEs without rows */
        check_submissions(&group, 0, 2, 1);
        check_submissions(&group, 1, 4, 31);
        group_free(&group);
        sl_partition_free(&partition);
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

/* Evaluation: the mean over all in-neighbours of whole parts. */
static void check_full(const struct sl_dataset *dataset, int split, uint32_t n_parts, uint32_t shift, int beta)
{
    const struct sl_sample_rule full = {.method = SL_SAMPLE_FULL};
    struct handles *h = need(1, sizeof *h);
    struct sl_partition partition;
    struct sl_rows rows[MAX_PARTS];
    struct group group;
    uint32_t n = dataset->graph.n_vertices;
    sl_vertex *everyone = need(n, sizeof *everyone);
    make_split_of(dataset, split, n_parts, &partition);
    for (sl_vertex v = 0; v < n; v++) {
        everyone[v] = partition.dataset_ids[v]; /* frontiers in order of new ids: row i is id first + i */
    }
    group_sample(&partition, 1, &full, SEED, 0, n, everyone, &group);
    struct level x = make_level(&group, 0, 5, shift);
    struct level m[2];
    starpu_data_handle_t first = wrap_vector(h, partition.first, n_parts + 1);
    fill_level(&group, SEED, &x);
    for (int i = 0; i < 2; i++) {
        m[i] = make_level(&group, 0, 5, shift);
        fill_level(&group, SEED + 1, &m[i]);
    }
    for (uint32_t p = 0; p < n_parts; p++) {
        rows[p] = wrap_rows(h, 0, p, &x.pe[p]);
    }
    for (uint32_t p = 0; p < n_parts; p++) {
        struct sl_sample_part part = part_of(&partition, p);
        uint32_t n_part = group.pe[p].n_part;
        starpu_data_handle_t offsets = wrap(vector_of(part.offsets, n_part + 1, 8), &h->n, h->all);
        starpu_data_handle_t sources = wrap_vector(h, part.sources, (uint32_t)(part.offsets[n_part] - part.offsets[0]));
        struct sl_rows out = wrap_rows(h, 1, p, &m[1].pe[p]);
        for (uint32_t c = 0; c < out.split.n_chunks; c++) {
            expect_ok(sl_aggregate_full_submit(&head, offsets, sources, first, n_parts, c << shift, 100, rows, beta,
                                               out.chunk[c]));
        }
    }
    unwrap(h);
    expect_no_failure();
    forward(&group, 0, &x, beta, &m[0]);
    expect_same_levels("mean of all", &group, &m[1], &m[0]);
    free_level(&group, &x);
    free_level(&group, &m[0]);
    free_level(&group, &m[1]);
    free(everyone);
    group_free(&group);
    sl_partition_free(&partition);
}

static void test_full(void **state)
{
    (void)state;
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 200, .hub_degree = 140, .directed = true};
    for (size_t w = 0; w < N_WORKER_COUNTS; w++) {
        struct sl_dataset dataset;
        fixture_start(worker_counts[w]);
        make_dataset(&shape, &dataset);
        check_full(&dataset, SPLIT_NONE, 1, 31, 0);
        check_full(&dataset, SPLIT_RANDOM, 3, 4, 0);
        check_full(&dataset, SPLIT_METIS, 4, 5, 1);
        check_full(&dataset, SPLIT_UNEVEN, 7, 3, 0);
        sl_dataset_free(&dataset);
        fixture_stop();
    }
}

/* One destination with four sources, all of one PE. */
static void test_outputs_are_written(void **state)
{
    (void)state;
    uint32_t offsets[] = {0, 4};
    uint64_t offsets64[] = {0, 4};
    uint32_t sources[] = {0, 1, 2, 3};
    uint32_t back_offsets[] = {0, 1, 2, 3, 4};
    uint32_t back_rows[4] = {0};
    uint32_t inverse[] = {0, 4, 0, 1, 2, 3};
    sl_real data[5][4 * 6] = {{0}};
    starpu_data_handle_t none = NULL;
    fixture_start(1);
    enum { OFFSETS, OFFSETS64, SOURCES, BACK_OFFSETS, BACK_ROWS, X, GM, M, PACKED, G, INVERSE, N };
    starpu_data_handle_t h[N] = {vector_of(offsets, 2, 4),      vector_of(offsets64, 2, 8), vector_of(sources, 4, 4),
                                 vector_of(back_offsets, 5, 4), vector_of(back_rows, 4, 4), rows_of(data[0], 4, 6),
                                 rows_of(data[1], 1, 6),        rows_of(data[2], 1, 6),     rows_of(data[3], 4, 6),
                                 rows_of(data[4], 4, 6),        vector_of(inverse, 6, 4)};
    struct sl_rows x = {.split = sl_split_rows(4, 1, 2), .n_columns = 6, .chunk = &h[X]};
    struct sl_rows gm = {.split = sl_split_rows(1, 1, 2), .n_columns = 6, .chunk = &h[GM]};
    struct sl_source_handles all = {1, 0, offsets, &x, h[INVERSE], &none};
    struct sl_accumulate shares = {.edge_offsets = h[OFFSETS],
                                   .back_offsets = h[BACK_OFFSETS],
                                   .back_rows = h[BACK_ROWS],
                                   .n_own = 4,
                                   .gm = &gm,
                                   .n_peers = 1,
                                   .inverse = h[INVERSE],
                                   .sent = &none};
    for (int beta = 0; beta < 2; beta++) {
        hold(h[X]);
        expect_ok(sl_aggregate_forward_submit(&head, h[OFFSETS], h[SOURCES], 0, 4, &all, beta, h[M]));
        release(h[X], 1, &h[M]);
        hold(h[X]);
        expect_ok(sl_aggregate_full_submit(&head, h[OFFSETS64], h[SOURCES], h[OFFSETS], 1, 0, 4, &x, beta, h[M]));
        release(h[X], 1, &h[M]);
    }
    hold(h[GM]);
    expect_ok(sl_aggregate_backward_submit(&head, h[OFFSETS], h[BACK_OFFSETS], h[BACK_ROWS], &gm, 4, 1, &(uint32_t){0},
                                           &h[PACKED]));
    release(h[GM], 1, &h[PACKED]);
    hold(h[GM]);
    expect_ok(sl_accumulate_submit(&head, &shares, 0, h[G]));
    release(h[GM], 1, &h[G]);
    hold(h[X]);
    expect_ok(sl_pack_submit(&head, &x, 1, h[INVERSE], 1, &(uint32_t){0}, &h[PACKED]));
    release(h[X], 1, &h[PACKED]);
    unregister(N, h);
    expect_no_failure();
    fixture_stop();
}

/* Widths that differ, too many PEs and chunks are refused, with their numbers. */
static void test_refusals(void **state)
{
    (void)state;
    sl_real data[4 * 6] = {0};
    uint32_t index[4] = {0};
    uint32_t first[2] = {0, 4};
    fixture_start(1);
    starpu_data_handle_t handles[2] = {vector_of(index, 4, 4), rows_of(data, 4, 6)};
    struct sl_rows rows = {.split = sl_split_rows(4, 1, 2), .n_columns = 5, .chunk = &handles[1]};
    starpu_data_handle_t none = NULL;
    struct sl_source_handles sources = {1, 0, first, &rows, handles[0], &none};
    struct sl_accumulate shares = {.gm = &rows, .n_peers = 1, .inverse = handles[0], .sent = &none};
    starpu_data_handle_t v = handles[0];
    assert_int_equal(sl_aggregate_forward_submit(&head, v, v, 0, 1, &sources, 0, handles[1]), SL_EINVAL);
    expect_message(sl_message(), "width 6", "width 5");
    assert_int_equal(sl_aggregate_backward_submit(&head, v, v, v, &rows, 1, 1, first, &handles[1]), SL_EINVAL);
    expect_message(sl_message(), "width 6", "width 5");
    assert_int_equal(sl_accumulate_submit(&head, &shares, 0, handles[1]), SL_EINVAL);
    expect_message(sl_message(), "width 6", "width 5");
    assert_int_equal(sl_aggregate_full_submit(&head, v, v, v, 1, 0, 1, &rows, 0, handles[1]), SL_EINVAL);
    expect_message(sl_message(), "width 6", "width 5");
    rows.n_columns = 6;
    rows.split.n_chunks = SL_MAX_CHUNKS + 1;
    assert_int_equal(sl_aggregate_forward_submit(&head, v, v, 0, 1, &sources, 0, handles[1]), SL_EINVAL);
    expect_message(sl_message(), "65 chunks", "sl_aggregate_forward");
    assert_int_equal(sl_aggregate_backward_submit(&head, v, v, v, &rows, 1, 1, first, &handles[1]), SL_EINVAL);
    assert_int_equal(sl_accumulate_submit(&head, &shares, 0, handles[1]), SL_EINVAL);
    rows.split.n_chunks = SL_MAX_FULL_CHUNKS + 1;
    assert_int_equal(sl_aggregate_full_submit(&head, v, v, v, 1, 0, 1, &rows, 0, handles[1]), SL_EINVAL);
    rows.split.n_chunks = 1;
    sources.n_owners = shares.n_peers = SL_MAX_PES + 1;
    assert_int_equal(sl_aggregate_forward_submit(&head, v, v, 0, 1, &sources, 0, handles[1]), SL_EINVAL);
    assert_int_equal(sl_accumulate_submit(&head, &shares, 0, handles[1]), SL_EINVAL);
    assert_int_equal(sl_aggregate_full_submit(&head, v, v, v, SL_MAX_PES + 1, 0, 1, &rows, 0, handles[1]), SL_EINVAL);
    unregister(2, handles);
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
    struct level x = make_level(&group, 1, 6, 31);
    struct level m = make_level(&group, 0, 6, 31);
    struct level g = make_level(&group, 1, 6, 31);
    fixture_start(3);
    fixture_fail();
    submit_forward(&group, 0, &x, 0, &m);
    submit_backward(&group, 0, &m, &g);
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t r = 0; r < g.pe[p].split.n_rows; r++) {
            assert_true(*entry(&g.pe[p], r, 0) == POISON);
        }
        for (uint32_t r = 0; r < m.pe[p].split.n_rows; r++) {
            assert_true(*entry(&m.pe[p], r, 0) == POISON);
        }
    }
    free_level(&group, &x);
    free_level(&group, &m);
    free_level(&group, &g);
    group_free(&group);
    sl_partition_free(&partition);
    sl_dataset_free(&dataset);
    fixture_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_widths_and_chunks),
        cmocka_unit_test(test_chunks_are_invisible),
        cmocka_unit_test(test_many_neighbours),
        cmocka_unit_test(test_empty_blocks),
        cmocka_unit_test(test_submissions),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_outputs_are_written),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_failure_drains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
