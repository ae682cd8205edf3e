/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/full/needed: the vertices that the scores need, against a plain search. For every model, scores from these
 * vertices alone have the bits of an evaluation of all vertices, and scores of samples those of the graph of the
 * samples.
 */
#include "tests/support/run_fixture.h"
#include "tests/support/sets_fixture.h"

#include <math.h>

#include "codelets/sampling/sample.h"
#include "runtime/full/needed.h"
#include "runtime/model/kinds.h"
#include "runtime/plan/fanouts.h"

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
    expect_ok(sl_needed_open(&w->shards, &w->model, NULL, NULL, &needed));
    assert_non_null(needed.n_rows);
    const uint32_t n_hops = sl_needed_reads_table(&needed) ? n_layers - 1 : n_layers;
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
    for (uint32_t h = 0; h < n_layers; h++) {
        const bool numbered = h < n_hops;
        expect_lists(w, &needed, &sl_needed_lists_of(&needed, h)->graph, numbered ? n_hops : n_layers, numbered);
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
        expect_ok(sl_needed_open(&w.shards, &w.model, NULL, NULL, &needed));
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
    expect_ok(sl_needed_open(&w->shards, &w->model, &scores, NULL, &needed));
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

static void expect_equal(const struct sl_scores *a, const struct sl_scores *b)
{
    assert_true(isfinite(a->valid_loss) && a->n == 3);
    assert_memory_equal(&a->valid_loss, &b->valid_loss, sizeof a->valid_loss);
    for (uint32_t i = 0; i < a->n; i++) {
        assert_memory_equal(&a->score[i].valid, &b->score[i].valid, sizeof a->score[i].valid);
        assert_memory_equal(&a->score[i].test, &b->score[i].test, sizeof a->score[i].test);
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
        expect_ok(sl_needed_open(&w.shards, &w.model, NULL, NULL, &needed));
        assert_non_null(needed.n_rows);
        sl_needed_close(&needed);
        FREED sl_real *outputs = need((size_t)n_vertices * w.shards.n_outputs, sizeof *outputs);
        expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &few));
        FREED sl_real *hidden = need((size_t)n_vertices * settings.hidden, sizeof *hidden);
        const struct sl_inference rows = {.scores = outputs, .hidden = w.model.n_layers > 1 ? hidden : NULL};
        expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &rows, &all));
        expect_equal(&few, &all);
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

/* ---- samples ---- */

#define SEED 7

/* The in-neighbours that a fanout leaves a vertex, as places in its list. Returns their number. */
static uint32_t places_of(const struct sl_graph *graph, sl_vertex v, sl_vertex dataset_id, uint32_t fanout,
                          uint32_t *out)
{
    const uint32_t degree = (uint32_t)(graph->offsets[v + 1] - graph->offsets[v]);
    const struct sl_draw draw = {.seed = SEED, .purpose = SL_FOR_EVALUATION};
    const uint32_t n = degree < fanout ? degree : fanout;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = i;
    }
    if (n < degree) {
        sl_pick_neighbor(&draw, dataset_id, degree, n, 1, out);
    }
    return n;
}

/* Each hop has the lists of its fanout, of the vertices that it reads. */
TEST(test_sampled_lists)
{
    const uint32_t fanout[] = {2, SL_FANOUT_ALL, 5};
    const struct sl_score_sample sample = {SEED, fanout};
    for (uint32_t k = 0; k < 4; k++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        OWNED(world_close) struct world w;
        OWNED(sl_needed_close) struct sl_needed needed;
        settings_with("partition=random batch-size=8 layers=3", &settings);
        settings.hidden = k % 2 == 0 ? N_COLUMNS : N_COLUMNS - 4;
        settings.pes = 1 + k;
        world_open(&dense_set, &settings, 1, &w);
        expect_ok(sl_needed_open(&w.shards, &w.model, NULL, &sample, &needed));
        assert_int_equal(needed.n_lists, 3);
        assert_int_equal(sl_needed_reads_table(&needed), k % 2 == 0);
        for (uint32_t h = 0; h < 3; h++) {
            const struct sl_graph *all = &w.partition->graph;
            const struct sl_graph *graph = &sl_needed_lists_of(&needed, h)->graph;
            for (uint32_t r = 0; r < graph->n_vertices; r++) {
                const uint32_t q = sl_partition_owner(needed.partition.first, settings.pes, r);
                const bool listed = r < needed.partition.first[q] + sl_needed_rows(&needed, q, h);
                const sl_vertex v = needed.shards.iota[r];
                uint32_t places[600];
                const uint32_t n = places_of(all, v, w.partition->dataset_ids[v], fanout[2 - h], places);
                assert_int_equal(graph->offsets[r + 1] - graph->offsets[r], listed ? n : 0);
                for (uint32_t i = 0; listed && i < n; i++) {
                    const uint32_t source = graph->sources[graph->offsets[r] + i];
                    const bool numbered = h < needed.n_hops;
                    assert_true(!numbered || source < graph->n_vertices);
                    assert_int_equal(numbered ? needed.shards.iota[source] : source,
                                     all->sources[all->offsets[v] + places[i]]);
                }
            }
        }
    }
}

/* The graph with the samples of one fanout in place of its lists. */
static struct sl_graph prune(const struct sl_graph *from, uint32_t fanout)
{
    struct sl_graph to = {.n_vertices = from->n_vertices, .n_relations = from->n_relations};
    expect_ok(sl_alloc_zero((size_t)from->n_vertices + 1, sizeof *to.offsets, "offsets", &to.offsets));
    expect_ok(sl_graph_alloc_edges(from->n_edges, from, &to));
    for (uint32_t v = 0; v < from->n_vertices; v++) {
        uint32_t places[600];
        const uint32_t n = places_of(from, v, v, fanout, places);
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t e = from->offsets[v] + places[i];
            sl_graph_copy_edges(from, e, 1, &to, to.n_edges);
            to.sources[to.n_edges++] = from->sources[e];
        }
        to.offsets[v + 1] = to.n_edges;
    }
    return to;
}

static struct sl_scores scores_of(const struct sl_dataset *d, struct sl_settings *settings,
                                  const struct sl_score_sample *sample)
{
    OWNED(world_close) struct world w;
    struct sl_scores scores;
    world_open(d, settings, 1, &w);
    scramble_model(&w.model);
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){.sample = sample}, &scores));
    world_healthy(&w);
    return scores;
}

/* Samples of all in-neighbours give exact scores. Samples of three give the scores of the graph that has no others, by
 * sums that read no number of a vertex in the whole graph. */
TEST(test_sampled_scores)
{
    const uint32_t whole[] = {SL_FANOUT_ALL, SL_FANOUT_ALL};
    const uint32_t three[] = {3, 3};
    const struct sl_dataset *const sets[] = {&dense_set, &sparse_set, &typed_dense_set, &typed_sparse_set};
    static struct sl_dataset pruned[4]; /* each with an address of its own, as partitions are kept by address */
    uint32_t n_pruned = 0;
    for (int k = 0; k < 4; k++) {
        pruned[k] = *sets[k];
        pruned[k].graph = prune(&sets[k]->graph, 3);
    }
    for (int model = 0; model < n_models(); model++) {
        for (size_t i = 0; i < N_VARIANTS; i++) {
            const struct sl_dataset *d = set_of(model, variants[i].sparse);
            OWNED(sl_settings_free) struct sl_settings settings;
            settings_with("dropout=0 batch-size=8 partition=random layers=2", &settings);
            settings_add(variants[i].options, &settings);
            settings.model = model;
            settings.pes = 1 + (uint32_t)i % 3;
            if (sl_settings_check(&settings) != SL_OK) {
                continue;
            }
            const struct sl_scores exact = scores_of(d, &settings, NULL);
            const struct sl_scores all = scores_of(d, &settings, &(struct sl_score_sample){SEED, whole});
            expect_equal(&all, &exact);
            if (sl_model_kind(model)->layer->sum->factor == NULL) {
                int k = 0;
                while (sets[k] != d) {
                    k++;
                }
                const struct sl_scores few = scores_of(d, &settings, &(struct sl_score_sample){SEED, three});
                const struct sl_scores expected = scores_of(&pruned[k], &settings, NULL);
                expect_equal(&few, &expected);
                assert_true(few.valid_loss != exact.valid_loss);
                n_pruned++;
            }
        }
    }
    assert_true(n_pruned > 10);
    for (int k = 0; k < 4; k++) {
        sl_graph_free(&pruned[k].graph);
    }
}

/* Sums with vertex factors have no bias: over many seeds, the mean output of a hub is the exact one. */
TEST(test_unbiased)
{
    enum { N_SEEDS = 400, MOST = 40 };
    const uint32_t fanout[] = {4};
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    OWNED(sl_chosen_close) struct sl_chosen chosen = {0};
    double sum[MOST] = {0}, square[MOST] = {0}, exact[MOST];
    settings_with("model=gcn dropout=0 batch-size=8 layers=1 pes=2", &settings);
    world_open(&dense_set, &settings, 1, &w);
    scramble_model(&w.model);
    const uint32_t n = w.shards.n_outputs;
    assert_true(n <= MOST);
    expect_ok(sl_chosen_open(n_vertices, n, &chosen));
    sl_chosen_add(&chosen, w.partition->new_ids[0]); /* the hub */
    expect_ok(sl_chosen_number(&chosen, n_vertices, 0, n_vertices));
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){.chosen_scores = &chosen}, NULL));
    for (uint32_t c = 0; c < n; c++) {
        exact[c] = (double)chosen.rows[c];
    }
    for (uint64_t seed = 0; seed < N_SEEDS; seed++) {
        const struct sl_score_sample sample = {seed, fanout};
        const struct sl_inference wanted = {.chosen_scores = &chosen, .sample = &sample};
        expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &wanted, NULL));
        for (uint32_t c = 0; c < n; c++) {
            sum[c] += (double)chosen.rows[c] / N_SEEDS;
            square[c] += (double)chosen.rows[c] * (double)chosen.rows[c] / N_SEEDS;
        }
    }
    for (uint32_t c = 0; c < n; c++) {
        const double deviation = sqrt((square[c] - sum[c] * sum[c]) / N_SEEDS);
        assert_true(deviation > 0 && deviation < fabs(exact[c]));
        assert_true(fabs(sum[c] - exact[c]) < 4 * deviation);
    }
}

/* ---- failures ---- */

TEST(test_failures)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(world_close) struct world w;
    enum sl_status st = SL_ENOMEM;
    settings_with("layers=2 pes=2 model=gcn hidden=24 batch-size=8", &settings);
    world_open(&dense_set, &settings, 1, &w);
    const uint32_t fanout[] = {3, 3};
    const struct sl_score_sample sample = {SEED, fanout};
    for (int k = 0; k < 2; k++, st = SL_ENOMEM) {
        const struct sl_inference wanted = {.sample = k == 0 ? NULL : &sample};
        const long live = sl_memory_live();
        for (long allow = 0; st != SL_OK; allow++) {
            struct sl_scores scores;
            sl_memory_ration(allow);
            st = sl_evaluate(&w.run, &w.shards, &w.model, &wanted, &scores);
            sl_memory_ration(-1);
            starpu_task_wait_for_all();
            assert_true(st == SL_OK || st == SL_ENOMEM);
            assert_int_equal(sl_memory_live(), live);
            assert_true(allow < 10000);
        }
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
