/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/random_split.h: the sizes of drawn splits, what their lists may hold, and the same lists from files, with
 * and without a cache.
 */
#include "tests/support/data_fixture.h"

#include <math.h>
#include <sys/stat.h>

#include "data/identity.h"
#include "data/load.h"
#include "data/random_split.h"
#include "support/memory.h"

static struct sl_random_split rule_of(const char *text, uint64_t seed)
{
    struct sl_random_split rule;
    assert_ok(sl_random_split_parse(text, seed, &rule));
    assert_true(rule.wanted && rule.seed == seed);
    return rule;
}

TEST(words)
{
    static const char *const names[] = {"random", "Random:60,20,20", "time", ""};
    static const char *const wrong[] = {"random:",         "random:60,20",       "random:60,20,10",
                                        "random:100,0,0",  "random:120,-10,-10", "random:60,20,20,0",
                                        "random:a,b,c",    "random:60,20,20 ",   "random:nan,50,50",
                                        "random:60;20;20", "random:inf,1,1",     "random:60,20,20,"};
    struct sl_random_split rule;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_ok(sl_random_split_parse(names[i], 1, &rule));
        assert_false(rule.wanted);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_refused(sl_random_split_parse(wrong[i], 1, &rule), SL_EINVAL, "percentages above 0 that sum to 100");
    }
    rule = rule_of("random:33.3,33.3,33.4", 1);
    assert_true(rule.part[0] == 33300000 && rule.part[2] == 33400000);
    assert_string_equal(rule.name, "random:33.3,33.3,33.4");
}

/* ---- vertices ---- */

/* A dataset of n vertices without edges, whose class is v % m except for every seventh, which has none. Class m is a
 * single vertex. */
static void put_classes(uint32_t n, uint32_t m, struct sl_dataset *out)
{
    int32_t *classes;
    *out = (struct sl_dataset){.name = "classes"};
    assert_ok(sl_alloc(n, sizeof *classes, "classes", &classes));
    for (uint32_t v = 0; v < n; v++) {
        classes[v] = v % 7 == 3 ? -1 : (int32_t)(v * v % m);
    }
    classes[0] = (int32_t)m;
    out->targets = sl_targets_take_classes(classes, n);
    assert_ok(sl_graph_build(n, 0, NULL, NULL, NULL, true, &out->graph));
}

/* The list of each vertex: 1, 2, 3, or 0. */
static void mark(const struct sl_dataset *d, unsigned char *set_of)
{
    const struct sl_ids *lists[] = {&d->train, &d->valid, &d->test};
    memset(set_of, 0, d->targets.n_rows);
    for (int i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < lists[i]->n; k++) {
            sl_vertex v = lists[i]->ids[k];
            assert_true(v < d->targets.n_rows && set_of[v] == 0);
            assert_true(k == 0 || v > lists[i]->ids[k - 1]);
            set_of[v] = (unsigned char)(i + 1);
        }
    }
}

enum { N = 1003 };

TEST(vertices)
{
    static const double part[] = {0.6, 0.2, 0.2};
    struct sl_random_split rule = rule_of("random:60,20,20", 5);
    OWNED(sl_dataset_free) struct sl_dataset d;
    unsigned char set_of[N], again[N];
    put_classes(N, 11, &d);
    assert_survives_no_memory(sl_random_split_vertices(&rule, &d));
    assert_string_equal(d.split, "random:60,20,20");
    mark(&d, set_of);
    uint32_t n[12][4] = {{0}};
    for (uint32_t v = 0; v < N; v++) {
        assert_true((set_of[v] != 0) == (d.targets.classes[v] >= 0));
        n[d.targets.classes[v] >= 0 ? d.targets.classes[v] : 0][set_of[v]] += set_of[v] != 0;
    }
    assert_int_equal(d.train.n + d.valid.n + d.test.n, 860);
    assert_true(d.train.n == 516 && d.valid.n == 172 && d.test.n == 172);
    assert_true(n[11][1] == 1); /* a single vertex goes where its share is largest */
    for (int c = 0; c < 12; c++) {
        const double all = n[c][1] + n[c][2] + n[c][3];
        for (int i = 0; i < 3; i++) { /* rounded up or down */
            assert_true(n[c][i + 1] > all * part[i] - 1 && n[c][i + 1] < all * part[i] + 1);
        }
    }
    /* The same again, another with another seed. */
    assert_ok(sl_random_split_vertices(&rule, &d));
    mark(&d, again);
    assert_memory_equal(set_of, again, N);
    rule.seed = 6;
    assert_ok(sl_random_split_vertices(&rule, &d));
    mark(&d, again);
    assert_memory_not_equal(set_of, again, N);
}

/* Total sizes are exact for any classes, and also when every class leaves two places open. */
TEST(totals)
{
    static const char *const texts[] = {"random:60,20,20", "random:33.4,33.3,33.3", "random:98,1,1", "random:1,1,98",
                                        "random:50,49.9,0.1"};
    for (uint32_t n = 1000; n < 1030; n++) {
        for (uint32_t m = 1; m < 60; m += 7) {
            for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                struct sl_random_split rule = rule_of(texts[i], n);
                OWNED(sl_dataset_free) struct sl_dataset d;
                unsigned char set_of[1030];
                put_classes(n, m, &d);
                assert_ok(sl_random_split_vertices(&rule, &d));
                mark(&d, set_of);
                double all = d.train.n + d.valid.n + d.test.n;
                assert_true(fabs(d.train.n - all * (double)rule.part[0] / 1e8) < 1);
                assert_true(fabs(d.valid.n - all * (double)rule.part[1] / 1e8) < 1);
                assert_true(fabs(d.test.n - all * (double)rule.part[2] / 1e8) < 1);
            }
        }
    }
}

TEST(refusals)
{
    struct sl_random_split rule = rule_of("random:98,1,1", 1);
    OWNED(sl_dataset_free) struct sl_dataset d;
    put_classes(20, 3, &d);
    assert_refused(sl_random_split_vertices(&rule, &d), SL_EINVAL, "leaves no validation vertices");
    memset(d.targets.classes, 0xff, 20 * sizeof *d.targets.classes);
    assert_refused(sl_random_split_vertices(&rule, &d), SL_EINVAL, "of 0 vertices with a label");
    assert_refused(sl_random_split_links(&rule, &d), SL_EINVAL, "of 0 links");
    assert_true(d.split[0] == '\0' && d.train.n == 0);
}

/* Label sets and numbers are split as one group; a vertex with some known entry counts. */
TEST(numbers)
{
    struct sl_random_split rule = rule_of("random:50,25,25", 1);
    OWNED(sl_dataset_free) struct sl_dataset d = {.name = "numbers"};
    float *numbers;
    assert_ok(sl_alloc(200, sizeof *numbers, "numbers", &numbers));
    for (int i = 0; i < 200; i++) {
        numbers[i] = i % 10 < 4 ? NAN : (float)(i % 2);
    }
    assert_ok(sl_targets_take("numbers", numbers, 100, 2, SL_TARGETS_ANY, &d.targets));
    assert_ok(sl_graph_build(100, 0, NULL, NULL, NULL, true, &d.graph));
    assert_ok(sl_random_split_vertices(&rule, &d));
    assert_true(d.train.n == 30 && d.valid.n == 15 && d.test.n == 15);
}

/* ---- links ---- */

enum { M = 300, E = 2400 };

/* Random edges, some of them listed twice, reversed, or self loops. */
static void put_edges(sl_vertex from[E], sl_vertex to[E], uint16_t relations[E])
{
    uint64_t x = 88172645463325252ULL;
    for (int e = 0; e < E; e++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        from[e] = (sl_vertex)(x % M);
        to[e] = (sl_vertex)(x / M % M);
        relations[e] = x >> 40 & 1;
        if (e % 40 == 1) {
            from[e] = from[e - 1];
            to[e] = to[e - 1];
        } else if (e % 10 == 2) {
            from[e] = to[e - 1];
            to[e] = from[e - 1];
        } else if (e % 97 == 0) {
            from[e] = to[e];
        }
    }
}

/* No edge of the graph joins the ends of a link to find, in `n` relations from `first` on. */
static void expect_no_leak(const struct sl_dataset *d, uint32_t first, uint32_t n)
{
    for (int list = SL_LINKS_VALID; list <= SL_LINKS_TEST; list++) {
        const struct sl_links *links = &d->links.list[list];
        for (uint32_t i = 0; i < links->n; i++) {
            for (uint32_t r = first; r < first + n; r++) {
                assert_true(sl_graph_find_edge(&d->graph, links->from[i], links->to[i], r) == SL_NO_EDGE);
                assert_true(sl_graph_find_edge(&d->graph, links->to[i], links->from[i], r) == SL_NO_EDGE);
            }
        }
    }
}

TEST(undirected)
{
    struct sl_random_split rule = rule_of("random:80,10,10", 3);
    OWNED(sl_dataset_free) struct sl_dataset d = {.name = "links"};
    sl_vertex from[E], to[E];
    uint16_t relations[E];
    put_edges(from, to, relations);
    assert_ok(sl_graph_build(M, E, from, to, NULL, true, &d.graph));
    uint64_t n_loops = 0;
    for (sl_vertex v = 0; v < M; v++) {
        n_loops += sl_graph_find_edge(&d.graph, v, v, 0) != SL_NO_EDGE;
    }
    const uint64_t n_pairs = (d.graph.n_edges - n_loops) / 2;
    assert_survives_no_memory(sl_random_split_links(&rule, &d));
    const struct sl_links *links = d.links.list;
    assert_int_equal(links[0].n + links[1].n + links[2].n, n_pairs);
    assert_true(fabs(links[1].n - 0.1 * (double)n_pairs) < 1 && fabs(links[2].n - 0.1 * (double)n_pairs) < 1);
    assert_true(links[0].relation == NULL && !d.links.directed && n_loops > 0);
    assert_int_equal(d.graph.n_edges, 2 * links[0].n + n_loops);
    assert_ok(sl_links_check(&d.links, "drawn"));
    expect_no_leak(&d, 0, 1);
    for (int list = 0; list < 3; list++) {
        for (uint32_t i = 0; i < links[list].n; i++) {
            assert_true(links[list].from[i] < links[list].to[i]);
        }
    }
}

/* One direction of most edges: a reverse that is there goes with its edge. Sizes are exact all the same. */
TEST(directed)
{
    struct sl_random_split rule = rule_of("random:80,10,10", 3);
    OWNED(sl_dataset_free) struct sl_dataset d = {.name = "links", .directed = true};
    sl_vertex from[E], to[E];
    uint16_t relations[E];
    uint32_t n_reversed = 0;
    put_edges(from, to, relations);
    assert_ok(sl_graph_build(M, E, from, to, NULL, false, &d.graph));
    assert_ok(sl_random_split_links(&rule, &d));
    const struct sl_links *links = d.links.list;
    const double n = links[0].n + links[1].n + links[2].n;
    assert_true(d.links.directed);
    assert_true(fabs(links[1].n - 0.1 * n) < 1 && fabs(links[2].n - 0.1 * n) < 1);
    assert_ok(sl_links_check(&d.links, "drawn"));
    expect_no_leak(&d, 0, 1);
    for (uint32_t i = 0; i < links[2].n; i++) {
        for (uint32_t j = 0; j < links[2].n; j++) {
            n_reversed += links[2].from[i] == links[2].to[j] && links[2].to[i] == links[2].from[j];
        }
    }
    assert_true(n_reversed > 0 && n_reversed < links[2].n);
}

/* Relations 0 and 1, of which 2 has the reverses of 0, and perhaps added reverses. */
static void typed(bool reverse)
{
    struct sl_random_split rule = rule_of("random:70,10,20", 3);
    OWNED(sl_dataset_free) struct sl_dataset d = {.name = "links", .directed = !reverse};
    sl_vertex from[2 * E], to[2 * E];
    uint16_t relations[2 * E];
    uint64_t n = E;
    put_edges(from, to, relations);
    for (int e = 0; e < E; e++) {
        if (relations[e] == 0) {
            from[n] = to[e];
            to[n] = from[e];
            relations[n++] = 2;
        }
    }
    const struct sl_edge_list list = {M, n, from, to, NULL, relations, 3, reverse, NULL, 0};
    assert_ok(sl_graph_build_list(&list, &d.graph));
    assert_survives_no_memory(sl_random_split_links(&rule, &d));
    uint32_t n_of[3][3] = {{0}};
    for (int k = 0; k < 3; k++) {
        const struct sl_links *links = &d.links.list[k];
        for (uint32_t i = 0; i < links->n; i++) {
            const uint32_t r = links->relation[i];
            n_of[r][k]++;
            for (uint32_t q = r; k > 0 && q < d.graph.n_relations; q += 3) {
                assert_true(sl_graph_find_edge(&d.graph, links->from[i], links->to[i], q) == SL_NO_EDGE);
                assert_true(sl_graph_find_edge(&d.graph, links->to[i], links->from[i], q) == SL_NO_EDGE);
            }
            for (uint32_t q = 2; k > 0 && r == 0 && q < d.graph.n_relations; q += 3) {
                assert_true(sl_graph_find_edge(&d.graph, links->from[i], links->to[i], q) == SL_NO_EDGE);
                assert_true(sl_graph_find_edge(&d.graph, links->to[i], links->from[i], q) == SL_NO_EDGE);
            }
        }
    }
    assert_int_equal(n_of[2][0] + n_of[2][1] + n_of[2][2], 0);
    for (int r = 0; r < 2; r++) {
        const double all = n_of[r][0] + n_of[r][1] + n_of[r][2];
        assert_true(all > 1000 && fabs(n_of[r][1] - 0.1 * all) < 1.01 && fabs(n_of[r][2] - 0.2 * all) < 1.01);
    }
    assert_ok(sl_links_check(&d.links, "drawn"));
    assert_true(d.links.n_relations == 3 && !d.links.directed);
}

TEST(typed_links)
{
    typed(false);
    typed(true);
}

/* ---- files ---- */

static void write_graph(const char *path, bool split)
{
    sl_vertex from[E], to[E];
    uint16_t relations[E];
    char name[200];
    put_edges(from, to, relations);
    snprintf(name, sizeof name, "%s/edges.csv", path);
    assert_int_equal(mkdir(path, 0777), 0);
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fprintf(file, "src,dst\n");
    for (int e = 0; e < E; e++) {
        fprintf(file, "%u,%u\n", from[e], to[e]);
    }
    assert_int_equal(fclose(file), 0);
    snprintf(name, sizeof name, "%s/nodes.csv", path);
    file = fopen(name, "w");
    assert_non_null(file);
    fprintf(file, "id,label,x%s\n", split ? ",split" : "");
    for (int v = 0; v < M; v++) {
        fprintf(file, "%d,%d,%d%s\n", v, v % 3, v % 11, split ? (v % 2 ? ",train" : ",test") : "");
    }
    assert_int_equal(fclose(file), 0);
}

/* A drawn split from files: with a column split and without, from the cache and not, and with features that count
 * edges. */
TEST_IN_FOLDER(files)
{
    struct sl_dataset_options options = {.split = "random:60,20,20", .split_seed = 4, .need = SL_RAW_FOR_TRAINING};
    struct sl_identity first[2], again;
    char plain[100], split[100], cache[100];
    snprintf(plain, sizeof plain, "%s", in_folder("plain"));
    snprintf(split, sizeof split, "%s", in_folder("split"));
    snprintf(cache, sizeof cache, "%s", in_folder("cache"));
    write_graph(plain, false);
    write_graph(split, true);
    for (int links = 0; links < 2; links++) {
        options.need = links ? SL_RAW_FOR_LINKS : SL_RAW_FOR_TRAINING;
        for (int k = 0; k < 5; k++) { /* the third reads the cache of the second */
            OWNED(sl_dataset_free) struct sl_dataset d;
            options.dataset = k == 4 ? split : plain;
            options.cache = k == 0 || k == 4 ? "none" : cache;
            options.split_seed = k == 3 ? 5 : 4;
            assert_ok(sl_dataset_load(&options, &d));
            assert_string_equal(d.split, "random:60,20,20");
            assert_int_equal(sl_dataset_has_links(&d), links);
            sl_dataset_identify(&d, k == 0 ? &first[links] : &again);
            if (k == 0) { /* on every machine */
                assert_string_equal(first[links].text[SL_DATA_SPLIT],
                                    links ? "1213/405/404 links, hash 1198b217120e3341"
                                          : "180/60/60 vertices, hash f0d1ee60c7827813");
            }
            for (int part = 0; k > 0 && part < SL_N_DATA_PARTS; part++) {
                const bool same = strcmp(first[links].text[part], again.text[part]) == 0;
                const bool depends = part == SL_DATA_SPLIT || (part == SL_DATA_GRAPH && links);
                assert_int_equal(same, k != 3 || !depends);
            }
        }
    }
    /* Degrees count the links to train on. */
    options.features = "degree";
    options.dataset = plain;
    for (int k = 0; k < 2; k++) {
        OWNED(sl_dataset_free) struct sl_dataset d;
        options.cache = k == 0 ? "none" : cache;
        assert_ok(sl_dataset_load(&options, &d));
        for (uint32_t v = 0; v < M; v++) {
            const double degree = (double)(d.graph.offsets[v + 1] - d.graph.offsets[v]);
            assert_true(fabs((double)((const float *)d.features.dense.data)[v] - log1p(degree)) < 1e-5);
        }
    }
    /* Without one the split is missing, and the message tells how to draw it. */
    struct sl_dataset d;
    options = (struct sl_dataset_options){.dataset = plain, .cache = "none", .need = SL_RAW_FOR_TRAINING};
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "--split random:60,20,20");
    options.need = SL_RAW_FOR_LINKS;
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "--split random:80,10,10");
}

TEST_MAIN(NULL, NULL)
