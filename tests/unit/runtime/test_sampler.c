/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/minibatch/sampler.c: neighbourhoods beside the graph, and what is refused. */
#include "tests/support/data_fixture.h"

#include <math.h>

#include "codelets/sampling/labor.h"
#include "data/arrays.h"
#include "data/dataset.h"
#include "runtime/minibatch/steps.h"
#include "runtime/starling.h"

POINTER_OWNER(sl_dataset_delete, struct sl_dataset)

#define N 3000
#define DEGREE 12 /* in-neighbours of a vertex, but vertex 7 has 1000 and vertex 9 has none */
#define HUB 7
#define ALONE 9
#define N_SEEDS 100
#define SEED 5

struct world {
    struct sl_dataset *dataset;
    struct sl_settings *settings;
    uint32_t seeds[N_SEEDS];
};

static void add(struct sl_arrays *a, uint32_t *sources, uint32_t *destinations, uint32_t from, uint32_t to)
{
    sources[a->n_edges] = from;
    destinations[a->n_edges++] = to;
}

/* A directed graph. Features: row v is v, 2 v. Classes: v mod 3, every eleventh is unknown. */
static void make(struct world *w, bool weighted, bool typed)
{
    static uint32_t sources[N * DEGREE + 1000], destinations[N * DEGREE + 1000];
    static float features[2 * N], weights[N * DEGREE + 1000];
    static uint16_t relations[N * DEGREE + 1000];
    static int32_t labels[N];
    struct sl_arrays a = {.size = sizeof a,
                          .n_vertices = N,
                          .sources = sources,
                          .destinations = destinations,
                          .directed = true,
                          .n_features = 2,
                          .features = features,
                          .labels = labels,
                          .n_train = 2,
                          .train = (const uint32_t[]){1, 2}};
    for (uint32_t v = 0; v < N; v++) {
        for (uint32_t i = 1; i <= DEGREE && v != ALONE && v != HUB; i++) {
            add(&a, sources, destinations, (v * 17 + i * i * 5) % N, v);
        }
        for (uint32_t i = 0; i < 1000 && v == HUB; i++) {
            add(&a, sources, destinations, 2 * i, v);
        }
        features[2 * v] = (float)v;
        features[2 * v + 1] = 2 * (float)v;
        labels[v] = v % 11 == 0 ? -1 : (int32_t)(v % 3);
    }
    for (uint64_t e = 0; e < a.n_edges; e++) {
        weights[e] = (float)(sources[e] % 5);
        relations[e] = (uint16_t)(e % 3);
    }
    a.edge_weights = weighted ? weights : NULL;
    a.edge_relations = typed ? relations : NULL;
    a.n_relations = typed ? 3 : 0;
    for (uint32_t i = 0; i < N_SEEDS; i++) {
        w->seeds[i] = (i * 29 + HUB) % N;
    }
    w->seeds[N_SEEDS - 1] = ALONE;
    assert_ok(sl_dataset_new(&a, &w->dataset));
    assert_ok(sl_settings_new(&w->settings));
    assert_ok(sl_settings_set(w->settings, "layers", "2"));
    assert_ok(sl_settings_set(w->settings, "fanout", "4,6"));
    assert_ok(sl_settings_set(w->settings, "seed", "5"));
}

static void drop(struct world *w)
{
    sl_settings_delete(w->settings);
    sl_dataset_delete(w->dataset);
}

/* Whether the graph has the edge; its number is e_out. */
static bool has_edge(const struct sl_graph *graph, uint32_t from, uint32_t to, uint64_t *e_out)
{
    for (uint64_t e = graph->offsets[to]; e < graph->offsets[to + 1]; e++) {
        if (graph->sources[e] == from) {
            *e_out = e;
            return true;
        }
    }
    return false;
}

static uint32_t degree_of(const struct sl_graph *graph, uint32_t v)
{
    return (uint32_t)(graph->offsets[v + 1] - graph->offsets[v]);
}

/* The seeds are first, vertices are distinct, and each hop adds the vertices that its edges reach. */
static void check_vertices(const struct world *w, const struct sl_neighborhood *n)
{
    bool seen[N] = {false};
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n->n_vertices; i++) {
        assert_false(seen[n->vertices[i]]);
        seen[n->vertices[i]] = true;
        assert_true(i >= N_SEEDS || n->vertices[i] == w->seeds[i]);
    }
    for (uint32_t hop = 0; hop <= n->n_hops; hop++) {
        sum += n->hop_vertices[hop];
    }
    assert_int_equal(n->hop_vertices[0], N_SEEDS);
    assert_int_equal(sum, n->n_vertices);
}

/* Each vertex but those of the last hop has min(fanout, degree) distinct in-edges of the graph. fanout: by hop. */
static void check_edges(const struct world *w, const struct sl_neighborhood *n, const uint32_t *fanout, bool distinct)
{
    const struct sl_graph *graph = &w->dataset->graph;
    uint64_t e = 0;
    uint32_t row = 0;
    for (uint32_t hop = 0; hop < n->n_hops; hop++) {
        const uint64_t first = e;
        const uint32_t end = row + n->hop_vertices[hop];
        uint32_t reached = end;
        for (; row < end; row++) {
            const uint32_t degree = degree_of(graph, n->vertices[row]);
            const uint32_t wanted = degree < fanout[hop] ? degree : fanout[hop];
            const uint32_t count = distinct || degree == 0 ? wanted : fanout[hop];
            for (uint32_t i = 0; i < count; i++, e++) {
                uint64_t edge;
                assert_int_equal(n->destinations[e], row);
                assert_true(has_edge(graph, n->vertices[n->sources[e]], n->vertices[row], &edge));
                assert_true(!distinct || i == 0 || n->vertices[n->sources[e]] > n->vertices[n->sources[e - 1]]);
                reached = n->sources[e] >= reached ? n->sources[e] + 1 : reached;
            }
        }
        assert_int_equal(n->hop_edges[hop], e - first);
        assert_int_equal(reached, end + n->hop_vertices[hop + 1]);
    }
    assert_int_equal(e, n->n_edges);
}

static void draw(const struct world *w, struct sl_neighbor_sampler **sampler, struct sl_neighborhood *out)
{
    *out = (struct sl_neighborhood){.size = sizeof *out};
    assert_ok(sl_sampler_open(w->settings, w->dataset, sampler));
    assert_ok(sl_sampler_draw(*sampler, 3, N_SEEDS, w->seeds, out));
}

TEST(draws_in_edges)
{
    static const struct {
        const char *name, *value;
        bool distinct;
    } rule[] = {
        {"sampler", "neighbor", true}, {"sampler", "labor", true}, {"replace", NULL, false}, {"kappa", "4", true}};
    struct sl_neighbor_sampler *sampler;
    struct sl_neighborhood n;
    struct world w;
    for (size_t i = 0; i < sizeof rule / sizeof *rule; i++) {
        make(&w, false, false);
        assert_ok(sl_settings_set(w.settings, rule[i].name, rule[i].value));
        draw(&w, &sampler, &n);
        check_vertices(&w, &n);
        check_edges(&w, &n, (const uint32_t[]){6, 4}, rule[i].distinct);
        assert_null(n.weights);
        sl_sampler_close(sampler);
        drop(&w);
    }
    make(&w, false, false);
    assert_ok(sl_settings_set(w.settings, "sampler", "full"));
    draw(&w, &sampler, &n);
    check_vertices(&w, &n);
    check_edges(&w, &n, (const uint32_t[]){UINT32_MAX, UINT32_MAX}, true);
    sl_sampler_close(sampler);
    drop(&w);
}

/* Labor picks the in-neighbours with the smallest keys: own count of smaller keys for each pick. */
TEST(labor_has_smallest_keys)
{
    struct sl_neighbor_sampler *sampler;
    struct sl_neighborhood n;
    struct world w;
    make(&w, false, false);
    assert_ok(sl_settings_set(w.settings, "sampler", "labor"));
    draw(&w, &sampler, &n);
    const struct sl_graph *graph = &w.dataset->graph;
    const struct sl_labor_turn turn = {.cosine = 1,
                                       .first = {.seed = SEED, .purpose = SL_FOR_KAPPA, .step = 3, .hop = 0}};
    for (uint64_t e = 0; e < n.hop_edges[0]; e++) {
        const uint32_t v = n.vertices[n.destinations[e]];
        const double key = sl_labor_key(&turn, n.vertices[n.sources[e]]);
        uint32_t n_smaller = 0;
        for (uint64_t i = graph->offsets[v]; i < graph->offsets[v + 1]; i++) {
            n_smaller += sl_labor_key(&turn, graph->sources[i]) < key;
        }
        assert_true(n_smaller < 6);
    }
    sl_sampler_close(sampler);
    drop(&w);
}

/* A draw is of the vertex: alone, in another order, and after other draws it is the same. Another step is not. */
TEST(draws_depend_on_the_vertex)
{
    struct sl_neighborhood all = {.size = sizeof all};
    struct sl_neighborhood one = {.size = sizeof one};
    struct sl_neighbor_sampler *a, *b;
    struct world w;
    make(&w, false, false);
    draw(&w, &a, &all);
    assert_ok(sl_sampler_open(w.settings, w.dataset, &b));
    uint64_t e = 0;
    for (uint32_t i = 0; i < N_SEEDS; i++) {
        assert_ok(sl_sampler_draw(b, 3, 1, &w.seeds[i], &one));
        for (uint64_t j = 0; j < one.hop_edges[0]; j++, e++) {
            assert_int_equal(one.vertices[one.sources[j]], all.vertices[all.sources[e]]);
        }
    }
    assert_int_equal(e, all.hop_edges[0]);
    assert_ok(sl_sampler_draw(b, 4, 1, &w.seeds[0], &one)); /* vertex HUB: 6 of 1000 */
    uint32_t n_other = 0;
    for (uint64_t j = 0; j < one.hop_edges[0]; j++) {
        n_other += one.vertices[one.sources[j]] != all.vertices[all.sources[j]];
    }
    assert_true(n_other > 0);
    assert_ok(sl_sampler_draw(b, 3, 0, NULL, &one));
    assert_int_equal(one.n_vertices + one.n_edges, 0);
    sl_sampler_close(a);
    sl_sampler_close(b);
    drop(&w);
}

TEST(gives_weights_and_relations)
{
    struct sl_neighbor_sampler *sampler;
    struct sl_neighborhood n;
    struct world w;
    for (int typed = 0; typed < 2; typed++) {
        make(&w, !typed, typed);
        draw(&w, &sampler, &n);
        assert_true((n.weights == NULL) == typed && (n.relations == NULL) == !typed);
        for (uint64_t e = 0; e < n.n_edges; e++) {
            uint64_t edge = 0;
            const uint32_t from = n.vertices[n.sources[e]];
            assert_true(has_edge(&w.dataset->graph, from, n.vertices[n.destinations[e]], &edge));
            assert_true(typed || n.weights[e] == w.dataset->graph.weights[edge]);
            assert_true(!typed || n.relations[e] == w.dataset->graph.relations[edge]);
        }
        sl_sampler_close(sampler);
        drop(&w);
    }
    make(&w, true, false);
    assert_ok(sl_settings_set(w.settings, "edge-weights", "probability"));
    draw(&w, &sampler, &n);
    for (uint64_t e = 0; e < n.n_edges; e++) {
        assert_true(n.weights[e] > 0); /* edges of weight 0 are never drawn */
    }
    sl_sampler_close(sampler);
    drop(&w);
}

TEST(copies_rows)
{
    static const uint32_t vertices[] = {2999, 0, 22, 22};
    float x[8];
    int32_t y[4];
    const uint32_t *ids;
    uint32_t n;
    struct world w;
    make(&w, false, false);
    assert_ok(sl_dataset_features(w.dataset, 4, vertices, x));
    assert_ok(sl_dataset_targets(w.dataset, 4, vertices, y));
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(x[2 * i] == (float)vertices[i] && x[2 * i + 1] == 2 * (float)vertices[i]);
        assert_int_equal(y[i], vertices[i] % 11 == 0 ? -1 : (int)(vertices[i] % 3));
    }
    assert_ok(sl_dataset_split(w.dataset, SL_SPLIT_TRAIN, &ids, &n));
    assert_true(n == 2 && ids[0] == 1 && ids[1] == 2);
    assert_refused(sl_dataset_split(w.dataset, (enum sl_split_list)3, &ids, &n), SL_EINVAL, "found list 3");
    assert_refused(sl_dataset_features(w.dataset, 1, &(uint32_t){N}, x), SL_EINVAL, "vertices[0] is 3000");
    assert_refused(sl_dataset_targets(w.dataset, 1, &(uint32_t){N}, y), SL_EINVAL, "vertices[0] is 3000");
    drop(&w);
}

/* Sparse and narrow features are the numbers that they stand for. */
TEST(widens_rows)
{
    static float sparse[30 * 20];
    static int8_t narrow[30 * 3];
    float x[20];
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    struct sl_arrays a = {.size = sizeof a,
                          .n_vertices = 30,
                          .n_edges = 1,
                          .sources = (const uint32_t[]){1},
                          .destinations = (const uint32_t[]){0},
                          .labels = (const int32_t[30]){0},
                          .n_train = 1,
                          .train = (const uint32_t[]){1},
                          .n_features = 20,
                          .features = sparse};
    sparse[4 * 20 + 19] = 2.5f;
    assert_ok(sl_dataset_new(&a, &d));
    assert_null(d->features.dense.data);
    assert_ok(sl_dataset_features(d, 1, (const uint32_t[]){4}, x));
    for (uint32_t c = 0; c < 20; c++) {
        assert_true(x[c] == sparse[4 * 20 + c]);
    }
    sl_dataset_delete(d);
    for (int i = 0; i < 90; i++) {
        narrow[i] = (int8_t)(i - 60);
    }
    a.n_features = 3;
    a.features = narrow;
    a.feature_dtype = "int8";
    a.feature_scale = 0.25f;
    assert_ok(sl_dataset_new(&a, &d));
    assert_ok(sl_dataset_features(d, 1, (const uint32_t[]){2}, x));
    assert_true(x[0] == -13.5f && x[1] == -13.25f && x[2] == -13);
}

TEST(refuses)
{
    struct sl_neighbor_sampler *sampler;
    struct sl_neighborhood n = {.size = sizeof n};
    struct world w;
    make(&w, false, false);
    assert_ok(sl_sampler_open(w.settings, w.dataset, &sampler));
    assert_refused(sl_sampler_draw(sampler, 0, 2, (const uint32_t[]){1, N}, &n), SL_EINVAL, "seeds[1] is 3000");
    assert_refused(sl_sampler_draw(sampler, 0, 3, (const uint32_t[]){4, 5, 4}, &n), SL_EINVAL,
                   "seeds[2] is 4, as seeds[0]");
    assert_refused(sl_sampler_draw(sampler, UINT64_C(1) << 48, 1, w.seeds, &n), SL_EINVAL, "2^48");
    n.size = 0;
    assert_refused(sl_sampler_draw(sampler, 0, 1, w.seeds, &n), SL_EINVAL, "size of 0");
    n.size = sizeof n;
    assert_ok(sl_sampler_draw(sampler, 0, 2, (const uint32_t[]){4, 5}, &n)); /* refused seeds leave nothing */
    sl_sampler_close(sampler);
    assert_ok(sl_settings_set(w.settings, "edge-weights", "probability"));
    assert_refused(sl_sampler_open(w.settings, w.dataset, &sampler), SL_EINVAL, "has no weights");
    assert_null(sampler);
    assert_ok(sl_settings_set(w.settings, "edge-weights", "none"));
    assert_ok(sl_settings_set(w.settings, "sampler", "labor"));
    assert_ok(sl_settings_set(w.settings, "labor-iterations", "1"));
    assert_refused(sl_sampler_open(w.settings, w.dataset, &sampler), SL_ENOTSUP, "labor-iterations");
    drop(&w);
    sl_sampler_close(NULL);
}

static enum sl_status open_and_draw(const struct world *w)
{
    struct sl_neighborhood n = {.size = sizeof n};
    struct sl_neighbor_sampler *sampler;
    enum sl_status st = sl_sampler_open(w->settings, w->dataset, &sampler);
    if (st == SL_OK) {
        st = sl_sampler_draw(sampler, 0, N_SEEDS, w->seeds, &n);
        sl_sampler_close(sampler);
    }
    return st;
}

TEST(survives_no_memory)
{
    struct world w;
    make(&w, true, false);
    assert_survives_no_memory(open_and_draw(&w));
    drop(&w);
}

TEST_MAIN(NULL, nothing_left)
