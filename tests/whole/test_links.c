/* double, simulated */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Training on links: blocks of links and their negatives, edges that a step does not sample, the loss of pairs, whole
 * steps against PyTorch (tests/reference/links.py) and for every number of PEs, and lists of links that are refused. */
#include "tests/support/reference_fixture.h"

#include "codelets/ends/pairs.h"
#include "codelets/sampling/link_seeds.h"
#include "tests/support/group_fixture.h"
#ifdef SL_CUDA
#include <cublas_v2.h>

#include "tests/support/cuda_fixture.h"
#endif

#define SEED 99

static const struct graph_shape shape_of_links = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 301, .n_columns = 6, .hub_degree = 120, .seed = 41};

/* ---- a dataset of links ---- */

/* Each pair of opposite edges is a training link. Every link to find is a pair of vertices far apart. */
static void add_links(struct sl_dataset *dataset)
{
    struct sl_links *links = dataset->links.list;
    uint64_t n;
    expect_ok(sl_graph_list_edges(&dataset->graph, true, &n, &links[SL_LINKS_TRAIN].from, &links[SL_LINKS_TRAIN].to));
    links[SL_LINKS_TRAIN].n = (uint32_t)n;
    for (int list = SL_LINKS_VALID; list <= SL_LINKS_TEST; list++) {
        links[list] = (struct sl_links){10, need_owned(10, sizeof(sl_vertex)), need_owned(10, sizeof(sl_vertex)), NULL};
        for (uint32_t i = 0; i < 10; i++) {
            links[list].from[i] = i;
            links[list].to[i] = dataset->graph.n_vertices - 1;
        }
    }
    sl_free(dataset->train.ids);
    sl_free(dataset->valid.ids);
    sl_free(dataset->test.ids);
    dataset->train = dataset->valid = dataset->test = (struct sl_ids){0};
}

static void make_links(const struct graph_shape *shape, struct sl_dataset *out)
{
    make_dataset(shape, out);
    add_links(out);
}

enum { N_TRIPLE_RELATIONS = 3, N_HEADS = 150 };

/* The links become triples. Relation 1 leads from the first vertices to the others; relations 0 and 2 join all. */
static void make_triples(const struct graph_shape *shape, struct sl_dataset *out)
{
    make_links(shape, out);
    const uint32_t n = out->graph.n_vertices;
    struct sl_links *train = &out->links.list[SL_LINKS_TRAIN];
    FREED uint16_t *relations = need(train->n, sizeof *relations);
    for (int list = 0; list <= SL_LINKS_TEST; list++) {
        struct sl_links *links = &out->links.list[list];
        links->relation = need_owned(links->n, sizeof *links->relation);
        for (uint32_t i = 0; i < links->n; i++) {
            bool crosses = links->from[i] < N_HEADS && links->to[i] >= N_HEADS;
            links->relation[i] = crosses ? 1 : i % 2 * 2;
        }
    }
    for (uint32_t i = 0; i < train->n; i++) {
        relations[i] = (uint16_t)train->relation[i];
    }
    expect_ok(sl_links_set_ends(&out->links, n, "triples"));
    assert_int_equal(out->links.n_relations, N_TRIPLE_RELATIONS);
    out->links.ends[1] = (struct sl_link_ends){{0, N_HEADS}, {N_HEADS, n - N_HEADS}};
    sl_graph_free(&out->graph);
    expect_ok(build_typed(n, train->n, train->from, train->to, relations, N_TRIPLE_RELATIONS, true, &out->graph));
}

/* The links in new ids; free_links frees the arrays. */
static struct sl_step_links renumbered(const struct sl_dataset *dataset, const struct sl_partition *partition)
{
    const struct sl_links *links = &dataset->links.list[SL_LINKS_TRAIN];
    sl_vertex *from = need(links->n, sizeof *from);
    sl_vertex *to = need(links->n, sizeof *to);
    for (uint32_t i = 0; i < links->n; i++) {
        from[i] = partition->new_ids[links->from[i]];
        to[i] = partition->new_ids[links->to[i]];
    }
    struct sl_step_links out = {.from = from, .to = to, .new_ids = partition->new_ids, .relation = links->relation};
    if (dataset->links.n_relations > 0) {
        uint32_t *ends = need((size_t)dataset->links.n_relations * SL_ENDS, sizeof *ends);
        for (uint32_t r = 0; r < dataset->links.n_relations; r++) {
            memcpy(ends + (size_t)r * SL_ENDS, dataset->links.ends[r].first, 2 * sizeof *ends);
            memcpy(ends + (size_t)r * SL_ENDS + 2, dataset->links.ends[r].n, 2 * sizeof *ends);
        }
        out.ends = ends;
    }
    return out;
}

static void free_links(struct sl_step_links *links)
{
    free((void *)(uintptr_t)links->from);
    free((void *)(uintptr_t)links->to);
    free((void *)(uintptr_t)links->ends);
}

/* ---- blocks ---- */

static struct sl_link_rule rule_of(uint32_t n_negatives, bool both_ways, uint64_t epoch)
{
    return (struct sl_link_rule){n_negatives, both_ways, {.seed = SEED, .step = epoch, .purpose = SL_FOR_NEGATIVES}};
}

/* The dataset ids of a link's rows, by the definition. */
static void rows_by_hand(const struct sl_dataset *dataset, const struct sl_link_rule *rule, uint32_t link,
                         sl_vertex *out)
{
    const struct sl_links *links = &dataset->links.list[SL_LINKS_TRAIN];
    uint32_t bits[4];
    sl_random4(&rule->draw, link, 0, bits);
    const bool triple = links->relation != NULL;
    bool turned = rule->both_ways && bits[0] % 2 == 1 && !triple;
    out[0] = turned ? links->to[link] : links->from[link];
    out[1] = turned ? links->from[link] : links->to[link];
    for (uint32_t j = 0; j < rule->n_negatives; j++) {
        sl_random4(&rule->draw, link, 1 + j / 4, bits);
        sl_vertex first = 0;
        uint32_t n = dataset->graph.n_vertices;
        if (triple && links->relation[link] == 1) { /* the last half, rounded down, are heads */
            bool is_head = j + rule->n_negatives / 2 >= rule->n_negatives;
            first = is_head ? 0 : N_HEADS;
            n = is_head ? N_HEADS : n - N_HEADS;
        }
        out[2 + j] = first + (sl_vertex)((double)bits[j % 4] * 0x1p-32 * n);
    }
}

/* Sources ascend, each once, and have the owners of the list; the transposed block has each edge once. */
static void check_layout(const struct sl_partition *partition, const struct group_block *b, uint32_t n_rows)
{
    uint32_t n_sources = b->request[b->n_parts];
    const sl_vertex *ids = b->request + b->n_parts + 1;
    for (uint32_t t = 0; t < n_sources; t++) {
        uint32_t owner = sl_partition_owner(partition->first, b->n_parts, ids[t]);
        assert_true(t == 0 || ids[t] > ids[t - 1]);
        assert_true(t >= b->request[owner] && t < b->request[owner + 1]);
        assert_true(b->back_offsets[t + 1] > b->back_offsets[t]);
        for (uint32_t e = b->back_offsets[t]; e < b->back_offsets[t + 1]; e++) {
            assert_int_equal(b->edge_sources[b->back_rows[e]], t);
            assert_true(e == b->back_offsets[t] || b->back_rows[e] > b->back_rows[e - 1]);
        }
    }
    for (uint32_t d = 0; d <= n_rows; d++) {
        assert_int_equal(b->edge_offsets[d], d);
    }
    assert_int_equal(b->back_offsets[n_sources], n_rows);
}

#ifdef SL_CUDA
/* The launcher writes the same words. */
static void check_seed_launcher(const struct sl_sample_part *part, const struct sl_step_links *links, uint32_t n_links,
                                const struct sl_link_rule *rule, const struct group_block *wanted, uint32_t n_rows,
                                const uint32_t *relations)
{
    enum { HOPS = 2 };
    const uint32_t n_vertices = part->first[part->n_parts];
    const uint32_t max_rows = links->n * sl_link_rows(rule);
    const size_t n_words = ((size_t)n_vertices + 63) / 64;
    const uint32_t n_sources = wanted->request[part->n_parts];
    uint32_t n_counts = sl_counts_size(HOPS, part->n_parts);
    struct sl_sample_part there = {
        .first = on_device(part->first, ((size_t)part->n_parts + 1) * 4), .n_parts = part->n_parts, .part = part->part};
    struct sl_step_links table = {.n = links->n,
                                  .order = on_device(links->order, links->n * 4),
                                  .from = on_device(links->from, n_links * 4),
                                  .to = on_device(links->to, n_links * 4),
                                  .new_ids = on_device(links->new_ids, n_vertices * 4)};
    uint32_t *relations_there = device_room((size_t)links->n * 4 + 4);
    if (links->relation != NULL) {
        table.relation = on_device(links->relation, n_links * 4);
        table.ends = on_device(links->ends, N_TRIPLE_RELATIONS * SL_ENDS * 4);
    }
    struct sl_sample_marks marks = {
        .n_vertices = n_vertices, .words = device_room(n_words * 8), .ranks = device_room(n_words * 4)};
    struct sl_sample_block block = {.edge_offsets = device_room(((size_t)max_rows + 1) * 4),
                                    .edge_sources = device_room(max_rows * 4),
                                    .back_offsets = device_room(((size_t)max_rows + 1) * 4),
                                    .back_rows = device_room(max_rows * 4),
                                    .request = device_room(((size_t)part->n_parts + 1 + max_rows) * 4),
                                    .max_rows = max_rows};
    uint32_t *counts = device_room(n_counts * 4);
    FREED uint32_t *got = need(n_counts, 4);
    assert_int_equal(cudaMemset(marks.words, 0, n_words * 8), cudaSuccess);
    const struct sl_sample_sizes sizes = sl_sizes_in(counts, HOPS, part->n_parts, 0);
    expect_launched(sl_link_seed_cuda(NULL, &there, &table, rule, &marks, &sizes, &block, relations_there));
    from_device(got, counts, n_counts * 4);
    assert_int_equal(got[sl_counts_edges(HOPS, 0)], n_rows);
    expect_same("positions", part->n_parts + 1, 4, got + sl_counts_request(HOPS, part->n_parts, 0), wanted->request);
    expect_on_device("offsets", block.edge_offsets, n_rows + 1, 4, wanted->edge_offsets);
    expect_on_device("sources", block.edge_sources, n_rows, 4, wanted->edge_sources);
    expect_on_device("back offsets", block.back_offsets, n_sources + 1, 4, wanted->back_offsets);
    expect_on_device("back rows", block.back_rows, n_rows, 4, wanted->back_rows);
    expect_on_device("request", block.request, part->n_parts + 1 + n_sources, 4, wanted->request);
    FREED uint64_t *zero = need(n_words, 8);
    expect_on_device("marks", marks.words, n_words, 8, zero);
    cudaFree((void *)(uintptr_t)there.first);
    cudaFree((void *)(uintptr_t)table.order);
    cudaFree((void *)(uintptr_t)table.from);
    cudaFree((void *)(uintptr_t)table.to);
    cudaFree((void *)(uintptr_t)table.new_ids);
    if (links->relation != NULL) {
        expect_on_device("relations", relations_there, n_rows / sl_link_rows(rule), 4, relations);
    } else {
        cudaFree(relations_there);
    }
    cudaFree((void *)(uintptr_t)table.relation);
    cudaFree((void *)(uintptr_t)table.ends);
    cudaFree(marks.ranks);
}
#endif

/* The blocks of all parts hold each link's rows once, at the owner of the first end, in the order of the links. */
static void check_blocks(const struct sl_dataset *dataset, const struct sl_partition *partition, uint32_t n,
                         const uint32_t *order, const struct sl_link_rule *rule)
{
    const uint32_t n_each = sl_link_rows(rule);
    const uint32_t n_vertices = dataset->graph.n_vertices;
    OWNED(free_links) struct sl_step_links links = renumbered(dataset, partition);
    FREED sl_vertex *wanted = need(n_each, sizeof *wanted);
    uint32_t n_found = 0;
    links.n = n;
    links.order = order;
    for (uint32_t q = 0; q < partition->n_parts; q++) {
        struct sl_sample_part part = part_of(partition, q);
        struct sl_sample_marks marks = make_marks(n_vertices, 0);
        struct group_block block;
        uint32_t row = 0;
        uint32_t n_own = 0;
        block = make_block(n * n_each, n * n_each, n * n_each, partition->n_parts, false, false);
        struct sl_sample_block arrays = arrays_of(&block, n * n_each);
        FREED uint32_t *relations = need(n, sizeof *relations);
        FREED uint32_t *counts = need(sl_counts_size(1, partition->n_parts), sizeof *counts);
        const struct sl_sample_sizes sizes = sl_sizes_in(counts, 1, part.n_parts, 0);
        sl_link_seed_cpu(&part, &links, rule, &marks, &sizes, &arrays, relations);
        const uint32_t n_rows = counts[sl_counts_edges(1, 0)];
        check_layout(partition, &block, n_rows);
        for (uint32_t i = 0; i < n; i++) {
            rows_by_hand(dataset, rule, order[i], wanted);
            if (sl_partition_owner(partition->first, partition->n_parts, partition->new_ids[wanted[0]]) == q) {
                for (uint32_t j = 0; j < n_each; j++, row++) {
                    assert_int_equal(partition->dataset_ids[source_id(&block, block.edge_sources[row])], wanted[j]);
                }
                assert_true(links.relation == NULL || relations[n_own++] == links.relation[order[i]]);
                n_found++;
            }
        }
        assert_int_equal(row, n_rows);
#ifdef SL_CUDA
        check_seed_launcher(&part, &links, dataset->links.list[SL_LINKS_TRAIN].n, rule, &block, n_rows, relations);
#endif
        free_block(&block);
        free_marks(&marks, n_vertices);
    }
    assert_int_equal(n_found, n);
}

static void check_all_blocks(void (*make)(const struct graph_shape *, struct sl_dataset *))
{
    static const uint32_t part_counts[] = {1, 2, 5, 8};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make(&shape_of_links, &dataset);
    uint32_t n = dataset.links.list[SL_LINKS_TRAIN].n;
    FREED uint32_t *order = need(n, sizeof *order);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = (i * 7 + 3) % n; /* 7 does not divide n */
    }
    assert_true(n % 7 != 0);
    for (size_t k = 0; k < sizeof part_counts / sizeof *part_counts; k++) {
        OWNED(sl_partition_free) struct sl_partition partition;
        make_uneven_partition(&dataset.graph, part_counts[k], 3, 5, &partition); /* part 2 is empty */
        struct sl_link_rule rules[] = {rule_of(1, true, 0), rule_of(9, true, 3), rule_of(4, false, 1)};
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
            check_blocks(&dataset, &partition, 60, order, &rules[r]);
            check_blocks(&dataset, &partition, n, order, &rules[r]);
            check_blocks(&dataset, &partition, 0, order, &rules[r]);
        }
    }
}

TEST(test_blocks)
{
#ifdef SL_CUDA
    need_device();
#endif
    check_all_blocks(make_links);
    check_all_blocks(make_triples);
}

/* Negatives are uniform, and both ends are replaced equally often. */
TEST(test_negatives_are_uniform)
{
    enum { BINS = 20, N = 40000 };
    uint32_t counts[BINS] = {0};
    uint32_t n_turned = 0;
    double chi = 0;
    for (uint32_t link = 0; link < N / 8; link++) {
        struct sl_link_rule rule = rule_of(8, true, link % 3);
        n_turned += sl_link_turns(&rule, link);
        for (uint32_t j = 0; j < 8; j++) {
            counts[sl_link_negative(&rule, link, j, BINS)]++;
        }
    }
    for (int i = 0; i < BINS; i++) {
        chi += (counts[i] - (double)N / BINS) * (counts[i] - (double)N / BINS) / ((double)N / BINS);
    }
    assert_true(chi > 2.3 && chi < 62); /* 19 degrees of freedom: one in a million on either side */
    expect_near("ends that change places", n_turned, N / 16.0, 5 * sqrt(N / 32.0));
}

/* ---- excluded edges ---- */

static void check_table(const struct sl_step_links *links, bool reverse, const uint64_t *table, uint32_t n_entries,
                        uint32_t n_vertices)
{
    const struct sl_excluded excluded = {.table = table, .mask = n_entries - 1};
    for (sl_vertex u = 0; u < n_vertices; u++) {
        for (sl_vertex v = 0; v < n_vertices; v++) {
            bool wanted = false;
            for (uint32_t i = 0; i < links->n; i++) {
                uint32_t link = links->order[i];
                wanted |= links->from[link] == u && links->to[link] == v;
                wanted |= reverse && links->from[link] == v && links->to[link] == u;
            }
            assert_true(sl_is_excluded(&excluded, u, v) == wanted);
        }
    }
}

/* 40 links among 23 vertices, some twice, one from a vertex to itself. */
TEST(test_table)
{
    enum { N = 40, VERTICES = 23 };
    sl_vertex from[N], to[N];
    uint32_t order[N];
    for (uint32_t i = 0; i < N; i++) {
        from[i] = i * 5 % VERTICES;
        to[i] = i * 11 % 13;
        order[i] = (i + 6) % N;
    }
    for (uint32_t n = 0; n <= N; n += 20) {
        for (int reverse = 0; reverse < 2; reverse++) {
            struct sl_step_links links = {.n = n, .order = order, .from = from, .to = to};
            uint32_t n_entries = sl_excluded_entries((uint64_t)n * (reverse ? 2 : 1));
            FREED uint64_t *table = need(n_entries, sizeof *table);
            sl_exclude_cpu(&links, reverse, n_entries, table);
            check_table(&links, reverse, table, n_entries, VERTICES);
#ifdef SL_CUDA
            need_device();
            struct sl_step_links there = {.n = n,
                                          .order = on_device(order, sizeof order),
                                          .from = on_device(from, sizeof from),
                                          .to = on_device(to, sizeof to)};
            uint64_t *room = device_room(n_entries * sizeof *room);
            expect_launched(sl_exclude_cuda(NULL, &there, reverse, n_entries, room));
            from_device(table, room, n_entries * sizeof *table);
            check_table(&links, reverse, table, n_entries, VERTICES);
            cudaFree((void *)(uintptr_t)there.order);
            cudaFree((void *)(uintptr_t)there.from);
            cudaFree((void *)(uintptr_t)there.to);
#endif
        }
    }
}

/* A block with excluded edges is the block without them, less these edges, or with self loops in their place. */
static void expect_less(const struct sl_sample_part *part, const struct sl_sample_rule *rule,
                        const struct sl_excluded *excluded, uint32_t n_rows, const sl_vertex *frontier)
{
    struct sl_sample_part less = *part;
    OWNED(free_block) struct group_block all;
    OWNED(free_block) struct group_block some;
    uint32_t n = 0;
    less.excluded = *excluded;
    sample_block(part, rule, SEED, 3, 1, n_rows, frontier, &all);
    sample_block(&less, rule, SEED, 3, 1, n_rows, frontier, &some);
    for (uint32_t d = 0; d < n_rows; d++) {
        assert_int_equal(some.edge_offsets[d], n);
        for (uint32_t e = all.edge_offsets[d]; e < all.edge_offsets[d + 1]; e++) {
            sl_vertex source = source_id(&all, all.edge_sources[e]);
            const bool gone = sl_is_excluded(excluded, source, frontier[d]);
            if (!gone || excluded->loops != 0) {
                assert_int_equal(source_id(&some, some.edge_sources[n]), gone ? frontier[d] : source);
                assert_true(all.edge_weights == NULL || all.edge_weights[e] == some.edge_weights[n]);
                n++;
            }
        }
    }
    assert_true(some.n_edges == n && some.edge_offsets[n_rows] == n);
    assert_true(n_rows == 0 || (n < all.n_edges) == (excluded->loops == 0));
    for (uint32_t t = 0; t < some.n_sources; t++) { /* no source is without an edge */
        assert_true(some.back_offsets[t + 1] > some.back_offsets[t]);
        for (uint32_t i = some.back_offsets[t]; i < some.back_offsets[t + 1]; i++) {
            uint32_t d = some.back_rows[i];
            bool found = false;
            for (uint32_t e = some.edge_offsets[d]; e < some.edge_offsets[d + 1]; e++) {
                found |= some.edge_sources[e] == t &&
                         (some.edge_weights == NULL || some.edge_weights[e] == some.back_weights[i]);
            }
            assert_true(found);
        }
    }
}

#ifdef SL_CUDA
/* The launcher makes the CPU's block. */
static void check_sample_launcher(const struct sl_partition *partition, const struct sl_sample_rule *rule,
                                  const struct sl_excluded *excluded)
{
    enum { HOPS = 2, HOP = 1 };
    const struct sl_graph *graph = &partition->graph;
    const uint32_t n = graph->n_vertices;
    const size_t n_words = ((size_t)n + 63) / 64;
    struct sl_sample_part part = part_of(partition, 0);
    OWNED(free_block) struct group_block wanted;
    const struct sl_draw draw = {.seed = SEED, .purpose = SL_FOR_SAMPLING, .step = 3, .hop = HOP};
    part.excluded = *excluded;
    FREED sl_vertex *frontier = need(n, sizeof *frontier);
    for (uint32_t v = 0; v < n; v++) {
        frontier[v] = n - 1 - v;
    }
    sample_block(&part, rule, SEED, 3, HOP, n, frontier, &wanted);
    uint32_t n_counts = sl_counts_size(HOPS, 1);
    FREED uint32_t *counts = need(n_counts, 4);
    counts[sl_counts_rows(HOP)] = n;
    const size_t n_edges = graph->n_edges;
    const size_t n_drawn = n_edges + (size_t)n * rule->fanout;
    struct sl_sample_part there = {
        .offsets = on_device(part.offsets, ((size_t)n + 1) * 8),
        .sources = on_device(part.sources, n_edges * 4),
        .dataset_ids = on_device(part.dataset_ids, n * 4),
        .first = on_device(part.first, 2 * 4),
        .n_parts = 1,
        .weights = on_device(part.weights, n_edges * 4),
        .excluded = {on_device(excluded->table, ((size_t)excluded->mask + 1) * 8), excluded->mask, excluded->loops}};
    struct sl_sample_marks marks = {
        .n_vertices = n, .words = device_room(n_words * 8), .ranks = device_room(n_words * 4)};
    struct sl_sample_block block = {.edge_offsets = device_room(((size_t)n + 1) * 4),
                                    .edge_sources = device_room(n_drawn * 4),
                                    .back_offsets = device_room(((size_t)n + 1) * 4),
                                    .back_rows = device_room(n_drawn * 4),
                                    .request = device_room((2 + (size_t)n) * 4),
                                    .max_rows = n,
                                    .max_edges = (uint32_t)n_drawn,
                                    .edge_weights = device_room(n_drawn * 4),
                                    .back_weights = device_room(n_drawn * 4)};
    uint32_t *counts_there = on_device(counts, n_counts * 4);
    sl_vertex *frontier_there = on_device(frontier, n * 4);
    assert_int_equal(cudaMemset(marks.words, 0, n_words * 8), cudaSuccess);
    const struct sl_sample_sizes sizes = sl_sizes_in(counts_there, HOPS, 1, HOP);
    expect_launched(sl_sample_cuda(NULL, &there, rule, &draw, frontier_there, &marks, &sizes, &block));
    from_device(counts, counts_there, n_counts * 4);
    assert_int_equal(counts[sl_counts_edges(HOPS, HOP)], wanted.n_edges);
    expect_on_device("offsets", block.edge_offsets, n + 1, 4, wanted.edge_offsets);
    expect_on_device("sources", block.edge_sources, wanted.n_edges, 4, wanted.edge_sources);
    expect_on_device("back offsets", block.back_offsets, wanted.n_sources + 1, 4, wanted.back_offsets);
    expect_on_device("back rows", block.back_rows, wanted.n_edges, 4, wanted.back_rows);
    expect_on_device("request", block.request, 2 + wanted.n_sources, 4, wanted.request);
    expect_on_device("weights", block.edge_weights, wanted.n_edges, 4, wanted.edge_weights);
    expect_on_device("back weights", block.back_weights, wanted.n_edges, 4, wanted.back_weights);
    const void *rest[] = {there.offsets, there.sources,        there.dataset_ids, there.first,   there.weights,
                          marks.words,   there.excluded.table, marks.ranks,       frontier_there};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        cudaFree((void *)(uintptr_t)rest[i]);
    }
}
#endif

/* Every third in-edge of each vertex is excluded, and all of some. */
static void check_exclusion(const struct sl_partition *partition, enum sl_sample_method method, uint32_t fanout,
                            bool loops)
{
    const struct sl_graph *graph = &partition->graph;
    struct sl_sample_rule rule = {.method = method, .fanout = fanout, .kappa = method == SL_SAMPLE_SLOW ? 4 : 1};
    uint32_t n_links = 0;
    FREED sl_vertex *from = need(graph->n_edges, sizeof *from);
    FREED sl_vertex *to = need(graph->n_edges, sizeof *to);
    FREED uint32_t *order = need(graph->n_edges, sizeof *order);
    for (sl_vertex v = 0; v < graph->n_vertices; v++) {
        for (uint64_t e = graph->offsets[v]; e < graph->offsets[v + 1]; e++) {
            if (e % 3 == 0 || v % 5 == 1) {
                from[n_links] = graph->sources[e];
                to[n_links] = v;
                order[n_links] = n_links;
                n_links++;
            }
        }
    }
    struct sl_step_links links = {.n = n_links, .order = order, .from = from, .to = to};
    uint32_t n_entries = sl_excluded_entries(n_links);
    FREED uint64_t *table = need(n_entries, sizeof *table);
    sl_exclude_cpu(&links, false, n_entries, table);
    const struct sl_excluded excluded = {table, n_entries - 1, loops};
    for (uint32_t q = 0; q < partition->n_parts; q++) {
        struct sl_sample_part part = part_of(partition, q);
        uint32_t n_rows = partition->first[q + 1] - partition->first[q];
        FREED sl_vertex *frontier = need(n_rows, sizeof *frontier);
        for (uint32_t i = 0; i < n_rows; i++) {
            frontier[i] = partition->first[q + 1] - 1 - i;
        }
        expect_less(&part, &rule, &excluded, n_rows, frontier);
        expect_less(&part, &rule, &excluded, 0, frontier);
    }
#ifdef SL_CUDA
    if (partition->n_parts == 1) {
        need_device();
        check_sample_launcher(partition, &rule, &excluded);
    }
#endif
}

/* Every sampler; a vertex with 13,000 in-neighbours; parts without a vertex. */
TEST(test_exclusion)
{
    static const enum sl_sample_method methods[] = {SL_SAMPLE_NEIGHBOR, SL_SAMPLE_LABOR,    SL_SAMPLE_FULL,
                                                    SL_SAMPLE_WEIGHTED, SL_SAMPLE_REPLACED, SL_SAMPLE_SLOW};
    struct graph_shape shape = shape_of_links;
    shape.weighted = true;
    for (int large = 0; large < 2; large++) {
        OWNED(sl_dataset_free) struct sl_dataset dataset;
        shape.n_vertices = large ? 13100 : 301;
        shape.hub_degree = large ? 13000 : 120;
        make_dataset(&shape, &dataset);
        for (uint32_t n_parts = 1; n_parts <= (large ? 1U : 4U); n_parts += 3) {
            OWNED(sl_partition_free) struct sl_partition partition;
            make_uneven_partition(&dataset.graph, n_parts, 0, 5, &partition);
            for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
                check_exclusion(&partition, methods[m], 7, false);
                check_exclusion(&partition, methods[m], 7, true);
            }
        }
    }
}

/* ---- the loss of pairs ---- */

/* All numbers of a case, in long double: the rows, then the decoder's arrays. */
struct plain {
    size_t n;
    size_t first[1 + SL_DECODER_ARRAYS]; /* of the rows and of each array */
    size_t size[1 + SL_DECODER_ARRAYS];
    long double *x;
};

static long double plain_score(const struct sl_pairs *p, const struct plain *all, uint32_t link, const long double *a,
                               const long double *b)
{
    const uint32_t h = p->n_columns;
    const long double *array[SL_DECODER_ARRAYS];
    long double sum = 0;
    for (int k = 0; k < SL_DECODER_ARRAYS; k++) {
        array[k] = all->x + all->first[1 + k];
    }
    if (p->decoder.name != SL_DECODER_MLP) {
        const size_t relation = p->relations == NULL ? 0 : p->relations[link];
        for (uint32_t c = 0; c < h; c++) {
            sum += a[c] * b[c] * (p->decoder.name == SL_DECODER_DOT ? 1 : array[SL_DISTMULT_R][relation * h + c]);
        }
        return sum;
    }
    for (uint32_t k = 0; k < h; k++) {
        long double t = array[SL_MLP_B][k];
        for (uint32_t c = 0; c < h; c++) {
            t += a[c] * b[c] * array[SL_MLP_W][(size_t)c * h + k];
        }
        sum += (t > 0 ? t : 0) * array[SL_MLP_V][k];
    }
    return sum + array[SL_MLP_C][0];
}

static long double plain_loss(const struct sl_pairs *p, const struct plain *all)
{
    const uint32_t n = p->n_negatives + 1;
    const uint32_t n_second = p->both_ends ? n - p->n_negatives / 2 : n; /* from here on the first end is replaced */
    long double loss = 0;
    for (uint32_t i = 0; i < p->n_links; i++) {
        const long double *row = all->x + (size_t)i * (n + 1) * p->n_columns;
        long double sum = 0, link = 0;
        for (uint32_t j = 0; j < n; j++) {
            const long double *beside = j < n_second ? row : row + p->n_columns;
            long double s = plain_score(p, all, i, beside, row + (size_t)(j + 1) * p->n_columns);
            link = j == 0 ? s : link;
            sum += p->loss == SL_PAIRS_SOFTMAX ? expl(s) : log1pl(expl(j == 0 ? -s : s));
        }
        loss += p->loss == SL_PAIRS_SOFTMAX ? logl(sum) - link : sum;
    }
    return loss;
}

/* The sizes of a case. Arrays of the decoder are columns wide. */
static void shape_plain(const struct sl_pairs *p, struct plain *out)
{
    const size_t h = p->n_columns;
    const size_t mlp[] = {h * h, h, h, 1};
    *out = (struct plain){.size = {(size_t)p->n_links * (p->n_negatives + 2) * h}};
    for (uint32_t k = 0; k < sl_decoder_arrays(p->decoder.name); k++) {
        out->size[1 + k] = p->decoder.name == SL_DECODER_MLP ? mlp[k] : p->decoder.n_relations * h;
    }
    for (int k = 0; k <= SL_DECODER_ARRAYS; k++) {
        out->first[k] = out->n;
        out->n += out->size[k];
    }
    out->x = need(out->n, sizeof *out->x);
}

/* Every gradient is the central difference of the plain loss. x: all numbers; g: all gradients. */
static void expect_slopes(const struct sl_pairs *p, double scale, struct plain *all, const sl_real *g)
{
    const long double step = 1e-5L;
    const double tolerance = (double)(2048 * EPSILON * p->n_negatives) + 1e-9;
    for (size_t e = 0; e < all->n; e += 1 + all->n / 400) {
        const long double middle = all->x[e];
        all->x[e] = middle + step;
        long double slope = plain_loss(p, all);
        all->x[e] = middle - step;
        slope = (slope - plain_loss(p, all)) / (2 * step);
        all->x[e] = middle;
        expect_near_at("gradient", e, (double)g[e], scale * (double)slope, tolerance * (1 + fabs((double)slope)));
    }
}

#ifdef SL_CUDA
/* The launcher gives the same loss and gradients. */
static void check_pairs_launcher(const struct sl_pairs *p, const struct plain *all, const sl_real *x, double scale,
                                 double loss, const sl_real *g)
{
    double loss_there;
    need_device();
    sl_real *x_there = on_device(x, all->n * sizeof *x);
    sl_real *g_there = device_room(all->n * sizeof *x);
    FREED sl_real *got = need(all->n, sizeof *got);
    double *loss_device = device_room(sizeof loss);
    struct sl_pairs there = *p;
    struct sl_pairs_out out = {.gz = g_there, .loss = loss_device};
    there.relations = p->relations == NULL ? NULL : on_device(p->relations, p->n_links * sizeof *p->relations);
    for (int k = 0; k < SL_DECODER_ARRAYS; k++) {
        there.decoder.array[k] = x_there + all->first[1 + k];
        out.gradient[k] = g_there + all->first[1 + k];
    }
    cublasHandle_t cublas;
    assert_int_equal(cublasCreate(&cublas), CUBLAS_STATUS_SUCCESS);
    const struct sl_queue blas = {NULL, cublas, false};
    expect_launched(sl_pairs_cuda(blas, &there, x_there, scale, &out));
    from_device(got, g_there, all->n * sizeof *got);
    from_device(&loss_there, loss_device, sizeof loss);
    expect_near("loss", loss_there, loss,
                (1e-12 + (p->decoder.name == SL_DECODER_MLP ? 16 * EPSILON : 0)) * (1 + fabs(loss)));
    expect_agreement("gradients", all->n, got, g, 512 * EPSILON * (p->n_negatives + 1));
    cublasDestroy(cublas);
    cudaFree(x_there);
    cudaFree((void *)(uintptr_t)there.relations);
}
#endif

static void check_pairs(struct sl_pairs p)
{
    const double scale = 1.0 / 7;
    struct plain all;
    double loss = -1;
    p.decoder.n_columns = p.n_columns;
    shape_plain(&p, &all);
    sl_real *x = noisy(all.n, 3);
    FREED sl_real *g = poisoned(all.n);
    struct sl_pairs_out out = {.gz = g, .loss = &loss};
    for (size_t e = 0; e < all.n; e++) {
        all.x[e] = (long double)x[e];
    }
    for (int k = 0; k < SL_DECODER_ARRAYS; k++) {
        p.decoder.array[k] = x + all.first[1 + k];
        out.gradient[k] = g + all.first[1 + k];
    }
    expect_ok(sl_pairs_cpu(&p, x, scale, &out));
    const double wanted = scale * (double)plain_loss(&p, &all);
    expect_near("loss", loss, wanted, (p.decoder.name == SL_DECODER_MLP ? 64 * EPSILON : 1e-12) * (1 + fabs(wanted)));
    expect_slopes(&p, scale, &all, g);
#ifdef SL_CUDA
    check_pairs_launcher(&p, &all, x, scale, loss, g);
#endif
    free(x);
    free(all.x);
}

/* No link; one link; a tile of links and a few more; the most negatives. Relations without a link have no gradient.
 * Where kernels are slow, half of all combinations, so that of three choices every two come together. */
TEST(test_pairs)
{
    static const struct {
        uint32_t n_links, n_negatives, n_columns;
    } shapes[] = {{0, 1, 4}, {1, 1, 1}, {9, 1, 33}, {20, 5, 16}, {230, 4, 3}, {2, SL_MAX_NEGATIVES, 3}};
    uint32_t relations[230];
    for (uint32_t i = 0; i < 230; i++) {
        relations[i] = i * 7 % 11; /* of 13 */
    }
    for (uint32_t k = 0; k < 3 * 2 * 2; k++) {
        for (uint32_t i = (k + k / 2 + k / 4 + slow_first(2)) % slow_stride(2); i < sizeof shapes / sizeof *shapes;
             i += slow_stride(2)) {
            struct sl_pairs pairs = {.n_links = shapes[i].n_links,
                                     .n_negatives = shapes[i].n_negatives,
                                     .n_columns = shapes[i].n_columns,
                                     .loss = k % 2 == 0 ? SL_PAIRS_BINARY : SL_PAIRS_SOFTMAX,
                                     .both_ends = k / 2 % 2 == 1,
                                     .relations = k / 2 % 2 == 1 ? relations : NULL,
                                     .decoder = {.name = (enum sl_decoder_name)(k / 4)}};
            pairs.decoder.n_relations = pairs.relations == NULL ? 1 : 13;
            check_pairs(pairs);
        }
    }
}

/* Scores of pairs, and of a row with many rows: the same numbers, as a link alone has in training. */
TEST(test_decoders)
{
    enum { N = 1500, H = 5, RELATIONS_OF_TEST = 4 };
    FREED sl_real *x = noisy((N + 2) * H, 8);
    FREED sl_real *arrays = noisy(H * H + 2 * H + 1 + RELATIONS_OF_TEST * H, 9);
    const sl_real **a = need(N, sizeof *a);
    const sl_real **b = need(N, sizeof *b);
    FREED uint32_t *relations = need(N, sizeof *relations);
    FREED double *scores = need(N, sizeof *scores);
    FREED sl_real *compared = need(2 * N, sizeof *compared);
    for (int name = SL_DECODER_DOT; name <= SL_DECODER_MLP; name++) {
        struct sl_decoder d = {.name = (enum sl_decoder_name)name, .n_columns = H, .n_relations = RELATIONS_OF_TEST};
        const sl_real *queries[] = {x, x + H};
        const uint32_t query_relations[] = {3, 1};
        struct sl_pairs one = {.n_columns = H, .decoder = d};
        struct plain all = {.n = 0};
        d.array[0] = arrays;
        for (int k = 1; k < SL_DECODER_ARRAYS; k++) {
            d.array[k] = arrays + H * H + (k - 1) * H;
        }
        all.x = need(H * H + 2 * H + 1 + RELATIONS_OF_TEST * H, sizeof *all.x);
        for (int k = 0; k < SL_DECODER_ARRAYS; k++) {
            all.first[1 + k] = (size_t)(d.array[k] - arrays);
        }
        for (size_t e = 0; e < H * H + 2 * H + 1 + RELATIONS_OF_TEST * H; e++) {
            all.x[e] = (long double)arrays[e];
        }
        for (uint32_t i = 0; i < N; i++) {
            a[i] = x + (size_t)(i % 2) * H;
            b[i] = x + (size_t)(2 + i) * H;
            relations[i] = query_relations[i % 2];
        }
        one.relations = relations;
        expect_ok(sl_decoder_scores(&d, N, relations, a, b, scores));
        expect_ok(sl_decoder_compare(&d, &(struct sl_queries){2, queries, query_relations}, N, x + 2 * H, compared));
        for (uint32_t i = 0; i < N; i++) {
            long double left[H], right[H];
            for (int c = 0; c < H; c++) {
                left[c] = (long double)a[i][c];
                right[c] = (long double)b[i][c];
            }
            const double wanted = (double)plain_score(&one, &all, i, left, right);
            expect_near_at("score", i, scores[i], wanted, 64 * EPSILON);
            expect_near_at("compared", i, (double)compared[(i % 2) * N + i], wanted, 64 * EPSILON);
        }
        free(all.x);
    }
    free(a);
    free(b);
}

/* Scores whose exponential overflows, and a row that is no number. */
TEST(test_extreme_pairs)
{
    const sl_real z[] = {200, -200, 200}; /* the link has the score -40000, its negative 40000 */
    sl_real gz[3];
    double loss;
    const struct sl_pairs_out out = {.gz = gz, .loss = &loss};
    struct sl_pairs pairs = {.n_links = 1, .n_negatives = 1, .n_columns = 1, .decoder = {.n_columns = 1}};
    expect_ok(sl_pairs_cpu(&pairs, z, 1, &out));
    expect_near("binary", loss, 80000, 1e-6);
    assert_true(gz[0] == 400 && gz[1] == -200 && gz[2] == 200);
    pairs.loss = SL_PAIRS_SOFTMAX;
    expect_ok(sl_pairs_cpu(&pairs, z, 1, &out));
    expect_near("softmax", loss, 80000, 1e-6);
    assert_true(gz[0] == 400 && gz[1] == -200 && gz[2] == 200);
    for (int kind = SL_PAIRS_BINARY; kind <= SL_PAIRS_SOFTMAX; kind++) {
        const sl_real bad[] = {1, NAN, 1};
        pairs.loss = (enum sl_pairs_loss)kind;
        expect_ok(sl_pairs_cpu(&pairs, bad, 1, &out));
        assert_true(isnan(loss));
    }
    expect_near("a link", sl_pairs_loss_of(2, true), log1p(exp(-2)), 1e-15);
    expect_near("no link", sl_pairs_loss_of(2, false), log1p(exp(2)), 1e-15);
}

/* ---- whole steps ---- */

static void options_of(const char *const *options, struct sl_settings *out)
{
    expect_ok(sl_settings_init(out));
    expect_ok(sl_option_set(sl_settings_table_of(out), "objective", "link", out));
    for (; options != NULL && options[0] != NULL; options += 2) {
        expect_ok(sl_option_set(sl_settings_table_of(out), options[0], options[1], out));
    }
}

/* Open a world with its objective. */
static void open_world(const struct sl_dataset *dataset, struct sl_settings *settings, uint32_t n_steps,
                       struct world *w, struct sl_objective *objective)
{
    world_open(dataset, settings, n_steps, w);
    expect_ok(sl_objective_open(settings, dataset, objective));
    expect_ok(sl_objective_place(objective, w->partition));
    w->shards.objective = objective;
}

static void close_world(struct world *w, struct sl_objective *objective)
{
    world_close(w);
    sl_objective_close(objective);
}

/* The pairs of a case, or its triples, as training links and as the graph. */
static void links_of_case(json_t *root, bool triples, struct sl_dataset *out)
{
    json_t *list = member(root, triples ? "triples" : "links");
    uint32_t n = (uint32_t)json_integer_value(member(root, "vertices"));
    uint32_t n_links = (uint32_t)json_array_size(list);
    FREED uint16_t *relations = need(n_links, sizeof *relations);
    struct sl_links links = {n_links, need_owned(n_links, 4), need_owned(n_links, 4), NULL};
    if (triples) {
        links.relation = need_owned(n_links, 4);
    }
    for (uint32_t i = 0; i < n_links; i++) {
        json_t *link = json_array_get(list, i);
        links.from[i] = (sl_vertex)number(link, 0);
        links.to[i] = (sl_vertex)number(link, json_array_size(link) - 1);
        if (triples) {
            links.relation[i] = (uint32_t)number(link, 1);
            relations[i] = (uint16_t)links.relation[i];
        }
    }
    out->links.list[SL_LINKS_TRAIN] = links;
    if (triples) {
        uint32_t n_relations = (uint32_t)json_integer_value(member(root, "relations"));
        expect_ok(sl_links_set_ends(&out->links, n, "triples"));
        assert_int_equal(out->links.n_relations, n_relations);
        expect_ok(build_typed(n, n_links, links.from, links.to, relations, n_relations, true, &out->graph));
    } else {
        expect_ok(sl_graph_build(n, n_links, links.from, links.to, NULL, true, &out->graph));
    }
}

static void dataset_of_case(json_t *root, bool triples, struct sl_dataset *out)
{
    uint32_t n = (uint32_t)json_integer_value(member(root, "vertices"));
    uint32_t n_columns = (uint32_t)json_array_size(json_array_get(member(root, "features"), 0));
    float *x = need_owned((size_t)n * n_columns, sizeof *x);
    *out = (struct sl_dataset){.name = "links", .split = "all", .features = {.n_rows = n, .n_columns = n_columns}};
    links_of_case(root, triples, out);
    for (size_t e = 0; e < (size_t)n * n_columns; e++) {
        x[e] = (float)number(json_array_get(member(root, "features"), e / n_columns), e % n_columns);
    }
    out->features.dense = sl_column_take(SL_DTYPE_F32, n, n_columns, x);
    expect_ok(sl_targets_make_unknown(n, &out->targets));
}

/* The gradients of step 0; then the losses of the steps, at a rate of 0. Every sampler takes all in-neighbours, if its
 * fanout is larger than all degrees. */
static void check_case(json_t *root, json_t *wanted, const struct sl_dataset *dataset, uint32_t pes)
{
    static const char *const samplers[] = {"full", "neighbor", "labor", "labor"};
    const uint32_t k = pes < 8 ? pes - 1 : 3;
    const char *const choices[] = {"link-loss",
                                   json_string_value(member(wanted, "loss")),
                                   "decoder",
                                   json_string_value(member(wanted, "decoder")),
                                   "model",
                                   json_string_value(member(wanted, "model")),
                                   "sampler",
                                   samplers[k],
                                   "fanout",
                                   "64,64",
                                   "labor-iterations",
                                   k == 3 ? "1" : "0",
                                   NULL};
    uint32_t n_steps = (uint32_t)json_array_size(member(wanted, "losses"));
    OWNED(sl_settings_free) struct sl_settings settings;
    struct sl_objective objective;
    struct outcome outcome;
    struct world w;
    options_of(choices, &settings);
    settings.layers = 2;
    settings.hidden = (uint32_t)json_integer_value(member(root, "hidden"));
    settings.learn_epsilon = settings.model == SL_MODEL_GIN;
    settings.dropout = 0;
    settings.lr = 0;
    settings.negatives = (uint32_t)json_integer_value(member(root, "negatives"));
    settings.seed = (uint64_t)json_integer_value(member(root, "seed"));
    settings.pes = pes;
    settings.batch_size = (uint32_t)json_integer_value(member(root, "batch")) / pes;
    settings.partition = pes == 3 ? SL_PARTITION_RANDOM : SL_PARTITION_METIS;
    settings.chunks = 2;
    for (int all = 0; all < 2; all++) {
        open_world(dataset, &settings, all ? n_steps : 1, &w, &objective);
        put_parameters(wanted, &w.model);
        world_run(&w, all ? n_steps : 1, &outcome);
        for (uint32_t i = 0; i < (all ? n_steps : 1); i++) {
            double should = number(member(wanted, "losses"), i);
            /* LABOR-1 has weights in float. */
            expect_near_at("loss", i, outcome.loss[i], should, (k == 3 ? 1e-5 : fmin(TOLERANCE, 1e-5)) * should);
        }
        if (!all && k < 3) {
            expect_tensors("gradient", member(wanted, "gradients"), &w.model, true);
        }
        outcome_free(&outcome);
        close_world(&w, &objective);
    }
}

static void check_reference(json_t *root, bool triples)
{
    static const uint32_t pes[] = {1, 2, 3, 8};
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    dataset_of_case(root, triples, &dataset);
    for (size_t k = 0; k < sizeof pes / sizeof *pes; k++) {
        const char *name;
        json_t *wanted;
        json_object_foreach(member(root, "cases"), name, wanted)
        {
            if (json_is_true(member(wanted, "triples")) == triples) {
                json_object_update_missing(member(wanted, "parameters"), member(root, "parameters"));
                check_case(root, wanted, &dataset, pes[k]);
            }
        }
    }
    forget_partitions();
}

/* In float to 1e-5 of the loss, or of a tensor's largest entry. */
static void test_reference(void **state)
{
    OWNED(json_decref_it) json_t *root = case_of("links");
    (void)state;
    allowed[GRADIENTS] = fmin(TOLERANCE, 1e-5);
    check_reference(root, false);
    check_reference(root, true);
}

/* How the work is divided. */
struct division {
    uint32_t pes, group_size, chunks, depth;
    int partition;
};

#define N_STEPS 4

static void run_divided(const struct sl_dataset *dataset, struct sl_settings *settings, const struct division *d,
                        struct outcome *out)
{
    struct sl_objective objective;
    struct world w;
    settings->pes = d->pes;
    settings->group_size = d->group_size;
    settings->chunks = d->chunks;
    settings->depth = d->depth;
    settings->partition = d->partition;
    settings->batch_size = 96 / d->pes;
    open_world(dataset, settings, N_STEPS, &w, &objective);
    scramble_model(&w.model);
    world_run(&w, N_STEPS, out);
    close_world(&w, &objective);
}

/* Losses and final weights are the same for PEs, groups, chunks, partitions and depths: in double to 1e-9. Slow kernels
 * try one division of each case, in turn. */
static void check_divisions(const struct sl_dataset *dataset, const char *const *options, size_t turn)
{
    static const struct division divisions[] = {{1, 1, 1, 1, SL_PARTITION_NONE},   {2, 2, 1, 2, SL_PARTITION_METIS},
                                                {3, 3, 2, 2, SL_PARTITION_RANDOM}, {4, 2, 3, 3, SL_PARTITION_METIS},
                                                {4, 1, 1, 2, SL_PARTITION_NONE},   {8, 8, 2, 1, SL_PARTITION_RANDOM}};
    const double tolerance = sizeof(sl_real) == sizeof(double) ? 1e-9 : 2e-4;
    const size_t n = sizeof divisions / sizeof *divisions;
    OWNED(outcome_free) struct outcome first;
    for (size_t k = 0; k < n; k++) {
        if (slow_kernels() && k > 0 && k != 1 + turn % (n - 1)) {
            continue;
        }
        struct sl_settings settings;
        struct outcome outcome;
        options_of(options, &settings);
        settings.lr = 0.01;
        settings.hidden = 8;
        settings.negatives = 3;
        run_divided(dataset, &settings, &divisions[k], k == 0 ? &first : &outcome);
        sl_settings_free(&settings);
        if (k == 0) {
            continue;
        }
        for (uint32_t i = 0; i < N_STEPS; i++) {
            expect_near_at("loss", i, outcome.loss[i], first.loss[i], tolerance * fabs(first.loss[i]));
        }
        for (size_t e = 0; sizeof(sl_real) == sizeof(double) && e < first.n_entries; e++) {
            expect_near_at("weight", e, (double)outcome.parameters[e], (double)first.parameters[e], 1e-7);
        }
        outcome_free(&outcome);
    }
}

static void test_divisions(void **state)
{
    static const char *const cases[][9] = {
        {"model", "sage", "fanout", "3,4", NULL},
        {"model", "gcn", "fanout", "4,3", "sampler", "labor", NULL},
        {"model", "gat", "fanout", "3,3", "heads", "2", NULL},
        {"model", "gcnii", "fanout", "3,3", NULL},
        {"model", "resgcn", "fanout", "3,3", "link-loss", "softmax", NULL},
        {"model", "gin", "fanout", "3,3", "norm", "layer", NULL},
        {"model", "sage", "fanout", "3", "link-exclude", "self", NULL},
        {"model", "sage", "sampler", "full", "layers", "2", "link-loss", "softmax", NULL},
        {"model", "sage", "fanout", "3,4", "decoder", "distmult", NULL},
        {"model", "gcn", "fanout", "3,3", "decoder", "mlp", NULL},
    };
    static const char *const triples[][9] = {
        {"model", "rgcn", "fanout", "3,4", "decoder", "distmult", NULL},
        {"model", "rgcn", "fanout", "4,3", "decoder", "distmult", "bases", "2", NULL},
        {"model", "sage", "fanout", "3,3", "decoder", "distmult", "link-loss", "softmax", NULL},
        {"model", "rgcn", "fanout", "3", "decoder", "mlp", NULL},
        {"model", "rgat", "fanout", "3,3", "heads", "2", "decoder", "distmult", NULL},
        {"model", "rgcn", "sampler", "full", "layers", "2", NULL},
    };
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    (void)state;
    make_links(&shape_of_links, &dataset);
    for (size_t k = slow_first(2); k < sizeof cases / sizeof *cases; k += slow_stride(2)) {
        check_divisions(&dataset, cases[k], k);
    }
    forget_partitions();
    sl_dataset_free(&dataset);
    make_triples(&shape_of_links, &dataset);
    for (size_t k = slow_first(2); k < sizeof triples / sizeof *triples; k += slow_stride(2)) {
        check_divisions(&dataset, triples[k], k);
    }
    forget_partitions();
}

/* No hop of a step has an edge of the step's links, nor a reverse; with --link-exclude none some hop has one. */
static uint32_t count_leaks(struct world *w, const struct sl_dataset *dataset, uint64_t step)
{
    struct sl_seeds seeds = sl_plan_seeds(&w->plan, step);
    const struct sl_links *links = &dataset->links.list[SL_LINKS_TRAIN];
    const uint32_t *order = w->steps->order[seeds.epoch % 2] + seeds.first;
    uint32_t n_leaks = 0;
    for (uint32_t p = 0; p < w->plan.n_pes; p++) {
        for (uint32_t hop = 1; hop < w->plan.n_layers; hop++) {
            const struct sl_block *block = &sl_step_slot(w->steps, step, p)->block[hop];
            starpu_data_handle_t handles[] = {block->edge_offsets, block->edge_sources, block->request,
                                              w->steps->order_handle[seeds.epoch % 2]};
            uint32_t n_rows;
            FREED sl_vertex *rows = frontier_of(w, step, p, hop, &n_rows);
            bring_home(4, handles);
            const uint32_t *offsets = starpu_data_get_local_ptr(handles[0]);
            const uint32_t *sources = starpu_data_get_local_ptr(handles[1]);
            const uint32_t *request = starpu_data_get_local_ptr(handles[2]);
            for (uint32_t d = 0; d < n_rows; d++) {
                for (uint32_t e = offsets[d]; e < offsets[d + 1]; e++) {
                    sl_vertex source = w->partition->dataset_ids[request[w->plan.n_parts + 1 + sources[e]]];
                    for (uint32_t i = 0; i < seeds.n; i++) {
                        sl_vertex u = links->from[order[i]];
                        sl_vertex v = links->to[order[i]];
                        n_leaks += (u == source && v == rows[d]) || (v == source && u == rows[d]);
                    }
                }
            }
        }
    }
    return n_leaks;
}

static void check_leaks(void (*make)(const struct graph_shape *, struct sl_dataset *), int model)
{
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make(&shape_of_links, &dataset);
    for (int exclude = SL_LINK_EXCLUDE_REVERSE; exclude <= SL_LINK_EXCLUDE_NONE; exclude++) {
        uint32_t n_leaks = 0;
        OWNED(sl_settings_free) struct sl_settings settings;
        struct sl_objective objective;
        struct world w;
        options_of(NULL, &settings);
        settings.model = model;
        settings.layers = 3;
        settings.hidden = 4;
        settings.sampler = SL_SAMPLER_FULL;
        settings.pes = 4;
        settings.group_size = 2;
        settings.batch_size = 20;
        settings.link_exclude = exclude;
        open_world(&dataset, &settings, 4, &w, &objective);
        for (uint64_t step = 0; step < 4; step++) {
            expect_ok(sl_step_sample(w.steps, step));
            starpu_task_wait_for_all();
            world_healthy(&w);
            n_leaks += count_leaks(&w, &dataset, step);
        }
        assert_true((n_leaks == 0) == (exclude == SL_LINK_EXCLUDE_REVERSE));
        close_world(&w, &objective);
    }
    forget_partitions();
}

/* ---- sums of a step with excluded links ---- */

/* In-edges of a vertex in a block: dataset ids of their sources, weights, 1 without weights, and relations or 0. */
struct drawn {
    uint32_t n;
    sl_vertex *source;
    double *weight;
    uint32_t *relation;
};

/* The edges of vertex v, in the block of a hop of PE p. */
static struct drawn drawn_of(struct world *w, uint64_t step, uint32_t p, uint32_t hop, sl_vertex v)
{
    const struct sl_block *block = &sl_step_slot(w->steps, step, p)->block[hop];
    starpu_data_handle_t handles[] = {block->edge_offsets, block->edge_sources, block->request};
    starpu_data_handle_t values[] = {block->edge_weights, block->edge_relations};
    struct drawn out = {0};
    uint32_t n_rows;
    uint32_t d = 0;
    sl_vertex *rows = frontier_of(w, step, p, hop, &n_rows);
    while (d < n_rows && rows[d] != v) {
        d++;
    }
    assert_true(d < n_rows);
    free(rows);
    bring_home(3, handles);
    for (int i = 0; i < 2; i++) {
        bring_home(values[i] != NULL, &values[i]);
    }
    const uint32_t *offsets = starpu_data_get_local_ptr(handles[0]);
    const uint32_t *sources = starpu_data_get_local_ptr(handles[1]);
    const uint32_t *request = starpu_data_get_local_ptr(handles[2]);
    const float *weights = values[0] != NULL ? starpu_data_get_local_ptr(values[0]) : NULL;
    const uint16_t *relations = values[1] != NULL ? starpu_data_get_local_ptr(values[1]) : NULL;
    out.n = offsets[d + 1] - offsets[d];
    out.source = need(out.n, sizeof *out.source);
    out.weight = need(out.n, sizeof *out.weight);
    out.relation = need(out.n, sizeof *out.relation);
    for (uint32_t i = 0; i < out.n; i++) {
        const uint32_t e = offsets[d] + i;
        out.source[i] = w->partition->dataset_ids[request[w->plan.n_parts + 1 + sources[e]]];
        out.weight[i] = weights != NULL ? (double)weights[e] : 1;
        out.relation[i] = relations != NULL ? relations[e] : 0;
    }
    return out;
}

static void free_drawn(struct drawn *drawn)
{
    free(drawn->source);
    free(drawn->weight);
    free(drawn->relation);
}

/* Whether u -> v, or its reverse, is a link of the step. */
static bool of_step(const struct world *w, const struct sl_links *links, uint64_t step, sl_vertex u, sl_vertex v)
{
    const struct sl_seeds seeds = sl_plan_seeds(&w->plan, step);
    const uint32_t *order = w->steps->order[seeds.epoch % 2] + seeds.first;
    bool found = false;
    for (uint32_t i = 0; i < seeds.n; i++) {
        found |= links->from[order[i]] == u && links->to[order[i]] == v;
        found |= links->from[order[i]] == v && links->to[order[i]] == u;
    }
    return found;
}

/* Leave the links of the step out of `all`, the edges that were drawn for v, and compare with `left`, the block's. A
 * sum with vertex factors gives an edge weight / n of a factor that v has in the whole graph: the same as before. A
 * mean gives it weight / n, too, and these make 1 in all. Attention, and means by relation, see the edges that are left
 * with their relations. Returns the number of edges that were left out. */
static uint32_t expect_sum(const struct world *w, const struct sl_links *links, uint64_t step, sl_vertex v,
                           const struct drawn *all, const struct drawn *left)
{
    const struct sl_sum_kind *kind = sl_model_kind(w->settings->model)->layer->sum;
    const bool factors = kind->factor != NULL;
    double total = 0;
    uint32_t n_gone = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const bool gone = of_step(w, links, step, all->source[i], v);
        total += gone ? 0 : all->weight[i];
        n_gone += gone;
    }
    for (uint32_t i = 0; i < all->n; i++) {
        if (of_step(w, links, step, all->source[i], v) || (factors && all->source[i] == v)) {
            continue;
        }
        while (factors && at < left->n && left->source[at] == v) {
            at++;
        }
        assert_true(at < left->n);
        assert_int_equal(left->source[at], all->source[i]);
        assert_int_equal(left->relation[at], all->relation[i]);
        const double wanted = kind->by_relation ? all->weight[i] : all->weight[i] / (factors ? all->n : total);
        expect_near("share of an edge", kind->by_relation ? left->weight[at] : left->weight[at] / left->n, wanted,
                    2e-6 * wanted);
        at++;
    }
    for (; at < left->n; at++) {
        assert_true(factors && left->source[at] == v);
    }
    return n_gone;
}

/* The same steps with and without excluded links. */
static void check_sums(const struct sl_dataset *dataset, const char *model, const char *const *sampler)
{
    const struct sl_links *links = &dataset->links.list[SL_LINKS_TRAIN];
    struct sl_settings settings[2];
    struct sl_objective objective[2];
    struct world w[2];
    uint32_t n_gone = 0;
    for (int k = 0; k < 2; k++) {
        options_of(sampler, &settings[k]);
        expect_ok(sl_option_set(sl_settings_table_of(&settings[k]), "model", model, &settings[k]));
        settings[k].layers = 2;
        settings[k].hidden = 8;
        settings[k].pes = 4;
        settings[k].group_size = 2;
        settings[k].batch_size = 20;
        settings[k].link_exclude = k == 0 ? SL_LINK_EXCLUDE_NONE : SL_LINK_EXCLUDE_REVERSE;
        open_world(dataset, &settings[k], 2, &w[k], &objective[k]);
        for (uint64_t step = 0; step < 2; step++) {
            expect_ok(sl_step_sample(w[k].steps, step));
            starpu_task_wait_for_all();
            world_healthy(&w[k]);
        }
        bring_home(1, w[k].steps->order_handle); /* of epoch 0, which of_step reads */
    }
    for (uint32_t i = 0; i < 2 * w[1].plan.n_pes * (w[1].plan.n_layers - 1); i++) {
        const uint64_t step = i % 2;
        const uint32_t p = i / 2 % w[1].plan.n_pes;
        const uint32_t hop = 1 + i / 2 / w[1].plan.n_pes;
        uint32_t n_rows;
        FREED sl_vertex *rows = frontier_of(&w[1], step, p, hop, &n_rows);
        for (uint32_t d = 0; d < n_rows; d++) {
            struct drawn all = drawn_of(&w[0], step, p, hop, rows[d]);
            OWNED(free_drawn) struct drawn left = drawn_of(&w[1], step, p, hop, rows[d]);
            n_gone += expect_sum(&w[1], links, step, rows[d], &all, &left);
            free_drawn(&all);
        }
    }
    assert_true(n_gone > 20);
    for (int k = 0; k < 2; k++) {
        close_world(&w[k], &objective[k]);
        sl_settings_free(&settings[k]);
    }
}

/* An excluded edge adds nothing to a sum and changes no other weight. A mean is over the edges that are left. For every
 * model and sampler; the draws are those of a step that excludes nothing. */
static void test_sums(void **state)
{
    static const char *const models[] = {"sage", "gcn", "gcnii", "resgcn", "gin", "gat", "rgcn", "rgat"};
    enum { GAT = 5, RGCN = 6, END = 8 };
    static const struct {
        const char *options[9];
        uint32_t first, end; /* models */
    } samplers[] = {
        {{"sampler", "full", NULL}, 0, END},
        {{"fanout", "4,9", NULL}, 0, END},
        {{"fanout", "5,5", "kappa", "4", NULL}, 0, END},
        {{"fanout", "5,5", "replace", "yes", NULL}, 0, END},
        {{"sampler", "labor", "fanout", "5,9", NULL}, 0, END},
        {{"sampler", "labor", "fanout", "5,5", "kappa", "4", "layer-dependency", "yes", NULL}, 0, END},
        {{"sampler", "labor", "fanout", "5,9", "labor-iterations", "1", NULL}, 0, GAT},
        {{"sampler", "labor", "fanout", "9,-1", "labor-iterations", "converge", NULL}, 0, GAT},
        {{"fanout", "2,2", "relation-fanout", "each", NULL}, RGCN, END},
        {{"fanout", "2,2", "relation-fanout", "each", "replace", "yes", NULL}, RGCN, END},
        {{"sampler", "labor", "fanout", "3,3", "relation-fanout", "1:1,2", NULL}, RGCN, END},
    };
    OWNED(sl_dataset_free) struct sl_dataset plain;
    OWNED(sl_dataset_free) struct sl_dataset typed;
    uint32_t turn = 0;
    (void)state;
    make_links(&shape_of_links, &plain);
    make_triples(&shape_of_links, &typed);
    for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++) {
        for (uint32_t m = samplers[i].first; m < samplers[i].end; m++, turn++) {
            if (turn % slow_stride(5) == slow_first(5)) {
                check_sums(m < RGCN ? &plain : &typed, models[m], samplers[i].options);
            }
        }
    }
    check_sums(&typed, "gin", samplers[0].options);
    forget_partitions();
}

/* An edge of a triple's ends, or a reverse, is no in-edge of the step, whatever its relation. */
static void test_no_leak(void **state)
{
    (void)state;
    check_leaks(make_links, SL_MODEL_SAGE);
    check_leaks(make_triples, SL_MODEL_RGCN);
}

/* ---- lists of links ---- */

static void set_list(struct sl_link_split *split, enum sl_link_list list, uint32_t n, const sl_vertex *pairs)
{
    split->list[list] = (struct sl_links){n, need_owned(n, 4), need_owned(n, 4), NULL};
    for (uint32_t i = 0; i < n; i++) {
        split->list[list].from[i] = pairs[2 * i];
        split->list[list].to[i] = pairs[2 * i + 1];
    }
}

static void expect_wrong(struct sl_link_split *split, bool directed, const char *part)
{
    split->directed = directed;
    assert_int_equal(sl_links_check(split, "d"), part == NULL ? SL_OK : SL_EFILE);
    if (part != NULL) {
        expect_message(sl_message(), "d: ", part);
    }
}

TEST(test_lists)
{
    const sl_vertex train[] = {0, 1, 1, 2, 0, 1};
    OWNED(sl_link_split_free) struct sl_link_split split = {0};
    struct sl_links drawn;
    set_list(&split, SL_LINKS_TRAIN, 3, train);
    set_list(&split, SL_LINKS_TEST, 1, (const sl_vertex[]){2, 1});
    expect_wrong(&split, false, "test has the link 2,1 (line 1), which is in train");
    expect_wrong(&split, true, NULL);
    sl_links_free(&split.list[SL_LINKS_TEST]);
    set_list(&split, SL_LINKS_TEST, 2, (const sl_vertex[]){3, 1, 3, 1});
    expect_wrong(&split, false, "in test, too");
    sl_links_free(&split.list[SL_LINKS_TEST]);
    set_list(&split, SL_LINKS_VALID, 1, (const sl_vertex[]){3, 1});
    set_list(&split, SL_LINKS_VALID_NEGATIVE, 2, (const sl_vertex[]){3, 0, 1, 0});
    expect_wrong(&split, false, "valid_neg has the pair 1,0 (line 2), which is a link of train");
    sl_links_free(&split.list[SL_LINKS_VALID_NEGATIVE]);
    set_list(&split, SL_LINKS_VALID_NEGATIVE, 3, (const sl_vertex[]){3, 0, 2, 0, 2, 0});
    expect_wrong(&split, false, NULL);
    /* Of four vertices only 0 - 2, 0 - 3 and 2 - 3 are no links. */
    OWNED(sl_graph_free) struct sl_graph graph;
    expect_ok(sl_graph_build(4, 0, NULL, NULL, NULL, true, &graph));
    expect_ok(sl_links_draw_negatives(&split, SL_LINKS_VALID, &graph, &drawn));
    assert_true(drawn.n == 1 && drawn.from[0] != drawn.to[0] && drawn.from[0] != 1 && drawn.to[0] != 1);
    sl_links_free(&drawn);
    sl_graph_free(&graph);
    /* Nor is an edge without a list: only 2 - 3 is left. */
    expect_ok(sl_graph_build(4, 2, (const sl_vertex[]){0, 0}, (const sl_vertex[]){2, 3}, NULL, true, &graph));
    expect_ok(sl_links_draw_negatives(&split, SL_LINKS_VALID, &graph, &drawn));
    assert_int_equal(drawn.from[0] + drawn.to[0], 5);
    sl_links_free(&drawn);
    sl_graph_free(&graph);
    expect_ok(sl_graph_build(1, 0, NULL, NULL, NULL, true, &graph));
    assert_int_equal(sl_links_draw_negatives(&split, SL_LINKS_VALID, &graph, &drawn), SL_EINVAL);
    uint64_t hash = sl_links_hash(&split);
    split.list[SL_LINKS_VALID_NEGATIVE].to[1] = 3;
    assert_true(hash != sl_links_hash(&split));
}

static void set_relations(struct sl_link_split *split, enum sl_link_list list, const uint32_t *relations)
{
    struct sl_links *links = &split->list[list];
    links->relation = need_owned(links->n, 4);
    memcpy(links->relation, relations, links->n * sizeof *relations);
}

TEST(test_triple_lists)
{
    OWNED(sl_link_split_free) struct sl_link_split split = {0};
    struct sl_links drawn;
    set_list(&split, SL_LINKS_TRAIN, 3, (const sl_vertex[]){0, 1, 1, 2, 0, 1});
    set_relations(&split, SL_LINKS_TRAIN, (const uint32_t[]){0, 1, 2});
    set_list(&split, SL_LINKS_VALID, 2, (const sl_vertex[]){1, 0, 1, 2});
    set_relations(&split, SL_LINKS_VALID, (const uint32_t[]){0, 2});
    expect_ok(sl_links_set_ends(&split, 4, "t"));
    expect_wrong(&split, false, NULL); /* a reverse is another triple, and so is another relation */
    set_list(&split, SL_LINKS_VALID_NEGATIVE, 1, (const sl_vertex[]){1, 2});
    set_relations(&split, SL_LINKS_VALID_NEGATIVE, (const uint32_t[]){2});
    expect_wrong(&split, false, "valid_neg has the pair 1,2 (line 1), which is a link of valid");
    split.list[SL_LINKS_VALID_NEGATIVE].relation[0] = 0;
    expect_wrong(&split, false, NULL);
    split.list[SL_LINKS_TRAIN].relation[2] = 0;
    expect_wrong(&split, false, "relation 2 has no training link");
    split.own_ids = true;
    expect_wrong(&split, false, "relation 2 of valid (line 2) has no training link");
    split.list[SL_LINKS_TRAIN].relation[2] = 2;
    /* Relation 0 leads to vertices 2 and 3, relation 2 from vertex 3. */
    split.ends[0] = (struct sl_link_ends){{0, 2}, {4, 2}};
    split.ends[2] = (struct sl_link_ends){{3, 0}, {1, 4}};
    const struct sl_links *links = &split.list[SL_LINKS_VALID];
    OWNED(sl_graph_free) struct sl_graph graph;
    expect_ok(build_typed(4, 0, NULL, NULL, NULL, 3, false, &graph));
    expect_ok(sl_links_draw_negatives(&split, SL_LINKS_VALID, &graph, &drawn));
    for (uint32_t i = 0; i < drawn.n; i++) {
        assert_int_equal(drawn.relation[i], links->relation[i]);
        bool new_head = drawn.from[i] != links->from[i];
        bool new_tail = drawn.to[i] != links->to[i];
        assert_true(new_head != new_tail);
        assert_true(drawn.relation[i] != 0 || !new_tail || drawn.to[i] >= 2);
        assert_true(drawn.relation[i] != 2 || !new_head || drawn.from[i] == 3);
    }
    sl_links_free(&drawn);
    /* Ids within types. */
    set_list(&split, SL_LINKS_TEST, 1, (const sl_vertex[]){0, 1});
    set_relations(&split, SL_LINKS_TEST, (const uint32_t[]){2});
    expect_ok(sl_links_place(&split, "p", &split.list[SL_LINKS_TEST]));
    assert_true(split.list[SL_LINKS_TEST].from[0] == 3 && split.list[SL_LINKS_TEST].to[0] == 1);
    assert_int_equal(sl_links_place(&split, "p", &split.list[SL_LINKS_TEST]), SL_EFILE);
    expect_message(sl_message(), "p:1: ", "expected a head of relation 2, an id below 1, found 3");
    split.list[SL_LINKS_TEST].relation[0] = 3;
    assert_int_equal(sl_links_place(&split, "p", &split.list[SL_LINKS_TEST]), SL_EFILE);
    expect_message(sl_message(), "p:1: ", "expected a relation below 3, found 3");
    split.list[SL_LINKS_TRAIN].relation[0] = SL_MAX_RELATIONS;
    sl_free(split.ends);
    assert_int_equal(sl_links_set_ends(&split, 4, "t"), SL_EFILE);
    expect_message(sl_message(), "t: ", "found relation 65535, expected at most 65535 relations");
    split.ends = NULL;
}

int main(void)
{
    const struct CMUnitTest steps[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_divisions),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_no_leak),
    };
    int failed = run_listed_tests(NULL, NULL);
    return cmocka_run_group_tests_name("steps", steps, group_up, group_down) + failed;
}
