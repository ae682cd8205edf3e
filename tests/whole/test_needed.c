/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/full/needed: the vertices that the scores need, against a plain search. For every model, scores from these
 * vertices alone have the bits of an evaluation of all vertices.
 */
#include "tests/support/run_fixture.h"
#include "tests/support/sets_fixture.h"

#include "runtime/full/needed.h"

#define N_COLUMNS 20

static uint32_t n_vertices;
static uint32_t n_scored; /* of each set */

/* Vertices with large ids have few in-neighbours. */
static void score_few(struct sl_ids *set)
{
    memmove(set->ids, set->ids + set->n - n_scored, n_scored * sizeof *set->ids);
    set->n = n_scored;
}

static void make_all(uint32_t vertices, uint32_t scored)
{
    n_vertices = vertices;
    n_scored = scored;
    struct sl_dataset *const sets[] = {&dense_set, &sparse_set, &typed_dense_set, &typed_sparse_set};
    const struct graph_shape dense = {.kind = GRAPH_POWER_LAW,
                                      .n_vertices = n_vertices,
                                      .hub_degree = 20,
                                      .self_loops = true,
                                      .directed = true,
                                      .weighted = true,
                                      .n_columns = N_COLUMNS,
                                      .n_classes = 2,
                                      .n_edge_columns = 3,
                                      .seed = 32};
    struct graph_shape sparse = dense;
    sparse.sparse = true;
    sparse.n_columns = 80;
    make_sets(dense, sparse);
    for (int i = 0; i < 4; i++) {
        score_few(&sets[i]->valid);
        score_few(&sets[i]->test);
    }
}

/* ---- the vertices and their lists ---- */

/* The number of hops from each vertex to the scored ones, by dataset id. UINT32_MAX: more than n_hops. free(). */
static uint32_t *search(const struct sl_dataset *d, uint32_t n_hops)
{
    uint32_t *hops = need(d->graph.n_vertices, sizeof *hops);
    memset(hops, 0xff, d->graph.n_vertices * sizeof *hops);
    for (uint32_t i = 0; i < n_scored; i++) {
        hops[d->valid.ids[i]] = hops[d->test.ids[i]] = 0;
    }
    for (uint32_t h = 0; h < n_hops; h++) {
        for (sl_vertex v = 0; v < d->graph.n_vertices; v++) {
            for (uint64_t e = d->graph.offsets[v]; hops[v] == h && e < d->graph.offsets[v + 1]; e++) {
                uint32_t *of = &hops[d->graph.sources[e]];
                *of = *of < h + 1 ? *of : h + 1;
            }
        }
    }
    return hops;
}

/* Every list is the vertex's own if the vertex is within n_hops hops, and otherwise empty. numbered: sources are
 * numbers. */
static void expect_lists(const struct world *w, const struct sl_needed *needed, const struct sl_graph *graph,
                         uint32_t n_hops, bool numbered)
{
    const struct sl_graph *all = &w->partition->graph;
    for (uint32_t q = 0; q < w->shards.n_parts; q++) {
        const struct sl_shard *part = &needed->shards.part[q];
        const uint32_t n_lists = n_hops > 0 ? sl_needed_rows(needed, q, n_hops - 1) : 0;
        for (uint32_t r = part->first; r < part->end; r++) {
            const sl_vertex v = needed->shards.iota[r];
            const uint64_t n = graph->offsets[r + 1] - graph->offsets[r];
            assert_int_equal(n, r < part->first + n_lists ? all->offsets[v + 1] - all->offsets[v] : 0);
            for (uint64_t i = 0; i < n; i++) {
                const sl_vertex source = graph->sources[graph->offsets[r] + i];
                assert_int_equal(numbered ? needed->shards.iota[source] : source, all->sources[all->offsets[v] + i]);
            }
        }
    }
}

static void check_needed(const struct world *w, uint32_t n_layers)
{
    OWNED(sl_needed_close) struct sl_needed needed;
    FREED uint32_t *hops = search(&dense_set, n_layers);
    expect_ok(sl_needed_open(&w->shards, &w->model, NULL, &needed));
    assert_non_null(needed.n_rows);
    const uint32_t n_hops = needed.first_lists != NULL ? n_layers - 1 : n_layers;
    assert_int_equal(needed.n_hops, n_hops);
    for (uint32_t q = 0; q < w->shards.n_parts; q++) {
        for (uint32_t h = 0; h <= n_hops; h++) {
            uint32_t n = 0;
            for (uint32_t v = w->partition->first[q]; v < w->partition->first[q + 1]; v++) {
                n += hops[w->partition->dataset_ids[v]] <= h;
            }
            assert_int_equal(sl_needed_rows(&needed, q, h), n);
            for (uint32_t r = h > 0 ? sl_needed_rows(&needed, q, h - 1) : 0; r < n; r++) {
                const sl_vertex v = needed.shards.iota[needed.partition.first[q] + r];
                assert_int_equal(hops[w->partition->dataset_ids[v]], h);
            }
        }
    }
    expect_lists(w, &needed, &needed.partition.graph, n_hops, true);
    if (needed.first_lists != NULL) {
        expect_lists(w, &needed, &needed.first_graph, n_layers, false);
    }
}

TEST(test_search)
{
    for (uint32_t k = 0; k < 12; k++) {
        const uint32_t n_layers = 1 + k % 3;
        OWNED(sl_settings_free) struct sl_settings settings;
        OWNED(world_close) struct world w;
        settings_with("partition=random batch-size=8", &settings);
        settings.layers = n_layers;
        settings.hidden = k % 2 == 0 ? N_COLUMNS : N_COLUMNS - 4; /* sums features, multiplies first */
        settings.pes = 1 + k % 4;
        world_open(&dense_set, &settings, 1, &w);
        check_needed(&w, n_layers);
    }
}

/* All vertices are evaluated if most lists are needed, or if gathered features take more memory than narrow rows. */
TEST(test_most)
{
    const struct sl_ids valid = dense_set.valid;
    const struct sl_ids train = dense_set.train;
    const struct sl_ids sets[] = {train, {.ids = train.ids + train.n - 100, .n = 100}};
    for (uint32_t k = 0; k < 2; k++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        OWNED(world_close) struct world w;
        struct sl_needed needed;
        settings_with(k == 0 ? "layers=2 batch-size=8 pes=2 hidden=20" : "layers=1 batch-size=8 pes=2", &settings);
        dense_set.valid = sets[k];
        world_open(&dense_set, &settings, 1, &w);
        expect_ok(sl_needed_open(&w.shards, &w.model, NULL, &needed));
        dense_set.valid = valid;
        assert_null(needed.n_rows);
    }
}

/* ---- scores ---- */

static const struct variant {
    const char *options;
    bool sparse;
} variants[] = {
    {"hidden=16", false},
    {"hidden=24 norm=layer", false},
    {"hidden=16", true},
    {"hidden=20 residual", false},
    {"hidden=24 precision=bf16", false},
    {"hidden=24 norm=batch output-layers=2", false},
    {"hidden=24 edge-weights=factor", false},
    {"hidden=24 edge-features=concat", false},
    {"hidden=16 edge-features=add", false},
};
#define N_VARIANTS (sizeof variants / sizeof variants[0])

/* Rows of some vertices, alone, are those of an evaluation of all. */
static void check_rows(struct world *w, const struct sl_inference *all, uint32_t n_hidden)
{
    OWNED(sl_chosen_close) struct sl_chosen scores = {0};
    OWNED(sl_chosen_close) struct sl_chosen hidden = {0};
    const struct sl_inference wanted = {.chosen_scores = &scores,
                                        .chosen_hidden = all->hidden != NULL ? &hidden : NULL};
    const uint32_t *new_ids = w->partition->new_ids;
    const sl_vertex some[] = {new_ids[n_vertices - 1], new_ids[n_vertices - 3], new_ids[n_vertices - 50],
                              new_ids[n_vertices - 7], new_ids[n_vertices - 3]};
    struct sl_needed needed;
    expect_ok(sl_chosen_open(n_vertices, w->shards.n_outputs, &scores));
    expect_ok(sl_chosen_open(n_vertices, n_hidden, &hidden));
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        sl_chosen_add(&scores, some[i]);
        sl_chosen_add(&hidden, some[i]);
    }
    expect_ok(sl_chosen_number(&scores, n_vertices, 0, n_vertices));
    expect_ok(sl_chosen_number(&hidden, n_vertices, 0, n_vertices));
    assert_int_equal(scores.n, 4);
    expect_ok(sl_needed_open(&w->shards, &w->model, &scores, &needed));
    assert_non_null(needed.n_rows);
    uint32_t n_last = 0;
    for (uint32_t q = 0; q < w->shards.n_parts; q++) {
        n_last += sl_needed_rows(&needed, q, 0);
    }
    assert_int_equal(n_last, 4);
    sl_needed_close(&needed);
    expect_ok(sl_evaluate(&w->run, &w->shards, &w->model, &wanted, NULL));
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const size_t n = w->shards.n_outputs;
        assert_memory_equal(scores.rows + scores.row_of[some[i]] * n, all->scores + some[i] * n,
                            n * sizeof *scores.rows);
        if (all->hidden != NULL) {
            assert_memory_equal(hidden.rows + hidden.row_of[some[i]] * (size_t)n_hidden,
                                all->hidden + some[i] * (size_t)n_hidden, n_hidden * sizeof *hidden.rows);
        }
    }
}

static bool checks(int model, const struct variant *v, uint32_t n_layers, uint32_t pes)
{
    const struct sl_dataset *d = set_of(model, v->sparse);
    struct sl_settings settings;
    settings_with("dropout=0 batch-size=8 partition=random", &settings);
    settings_add(v->options, &settings);
    settings.model = model;
    settings.layers = n_layers;
    settings.pes = pes;
    const bool taken = sl_settings_check(&settings) == SL_OK;
    if (taken) {
        OWNED(world_close) struct world w;
        struct sl_needed needed;
        struct sl_scores few;
        struct sl_scores all;
        world_open(d, &settings, 1, &w);
        scramble_model(&w.model);
        expect_ok(sl_needed_open(&w.shards, &w.model, NULL, &needed));
        assert_non_null(needed.n_rows);
        sl_needed_close(&needed);
        FREED sl_real *outputs = need((size_t)n_vertices * w.shards.n_outputs, sizeof *outputs);
        expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &few));
        FREED sl_real *hidden = need((size_t)n_vertices * settings.hidden, sizeof *hidden);
        const struct sl_inference rows = {.scores = outputs, .hidden = w.model.n_layers > 1 ? hidden : NULL};
        expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &rows, &all));
        assert_true(isfinite(all.valid_loss) && all.n == 3);
        assert_memory_equal(&few.valid_loss, &all.valid_loss, sizeof all.valid_loss);
        for (uint32_t i = 0; i < all.n; i++) {
            assert_memory_equal(&few.score[i].valid, &all.score[i].valid, sizeof all.score[i].valid);
            assert_memory_equal(&few.score[i].test, &all.score[i].test, sizeof all.score[i].test);
        }
        check_rows(&w, &rows, settings.hidden);
        world_healthy(&w);
    }
    sl_settings_free(&settings);
    return taken;
}

TEST(test_scores)
{
    for (int model = 0; model < n_models(); model++) {
        for (size_t i = 0; i < N_VARIANTS; i++) {
            const bool taken = checks(model, &variants[i], 1 + (uint32_t)(i + (size_t)model) % 3, 1 + (uint32_t)i % 3);
            assert_true(taken || i > 0);
        }
    }
}

/* Levels of several chunks, the last of which are not whole; one part has most of the vertices. */
TEST(test_chunks)
{
    free_sets();
    make_all(40000, 2500);
    for (int model = 0; model < n_models(); model++) {
        assert_true(checks(model, &variants[0], 2, 1));
    }
    assert_true(checks(SL_MODEL_SAGE, &variants[3], 2, 2));
    free_sets();
    make_all(600, 5);
}

/* ---- failures ---- */

TEST(test_failures)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    enum sl_status st = SL_ENOMEM;
    settings_with("layers=2 pes=2 model=gcn hidden=24 batch-size=8", &settings);
    world_open(&dense_set, &settings, 1, &w);
    const long live = sl_memory_live();
    for (long allow = 0; st != SL_OK; allow++) {
        struct sl_scores scores;
        sl_memory_ration(allow);
        st = sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &scores);
        sl_memory_ration(-1);
        starpu_task_wait_for_all();
        assert_true(st == SL_OK || st == SL_ENOMEM);
        assert_int_equal(sl_memory_live(), live);
        assert_true(allow < 10000);
    }
    world_healthy(&w);
}

static int up(void **state)
{
    const int failed = group_up(state);
    make_all(600, 5);
    return failed;
}

static int down(void **state)
{
    free_sets();
    return group_down(state);
}

TEST_MAIN(up, down)
