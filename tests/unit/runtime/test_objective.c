/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * runtime/objective: losses and gradients against PyTorch, scores against scikit-learn (tests/reference/objectives.py);
 * what must not matter (PEs, groups, chunks); class weights, smoothing, unknown and degenerate targets; the choice.
 */
#include "tests/support/floats.h"
#include "tests/support/reference_fixture.h"
#include "tests/support/sage_fixture.h"
#include "tests/support/scores.h"

#include "codelets/ends/loss.h"
#include "runtime/objective/collect.h"

#ifdef SL_REAL_DOUBLE
#define SAME 1e-12
#else
#define SAME 1e-5
#endif

/* ---- the reference ---- */

enum { N = 40, C = 5 }; /* rows and columns of the reference */

static sl_vertex rows[N];

/* A table of the reference; null: nan. */
static void table_of(json_t *root, const char *name, float *out)
{
    json_t *table = member(root, name);
    for (size_t i = 0; i < N * C; i++) {
        json_t *value = json_array_get(json_array_get(table, i / C), i % C);
        out[i] = json_is_null(value) ? NAN : (float)json_number_value(value);
    }
}

static void expect_loss(json_t *root, const char *name, double loss, const sl_real *gz)
{
    json_t *wanted = member(member(root, "losses"), name);
    json_t *gradient = member(wanted, "gradient");
    expect_near(name, loss, json_number_value(member(wanted, "loss")), SAME);
    for (size_t i = 0; i < N * C; i++) {
        expect_near_at(name, i, (double)gz[i], number(json_array_get(gradient, i / C), i % C), SAME);
    }
}

TEST(test_class_losses)
{
    static const char *const names[] = {"class", "class weights", "class smooth", "class weights smooth"};
    OWNED(json_decref_it) json_t *root = case_of("objectives");
    float outputs[N * C];
    float weights[C];
    int32_t labels[N];
    sl_real z[N * C];
    table_of(root, "outputs", outputs);
    for (uint32_t i = 0; i < N * C; i++) {
        z[i] = (sl_real)number(json_array_get(member(root, "outputs"), i / C), i % C);
    }
    for (uint32_t c = 0; c < C; c++) {
        weights[c] = (float)number(member(root, "weights"), c);
    }
    for (uint32_t v = 0; v < N; v++) {
        rows[v] = v;
        labels[v] = (int32_t)number(member(root, "classes"), v);
    }
    for (int k = 0; k < 4; k++) {
        const struct sl_loss_rows all = {
            .labels = labels, .ids = rows, .weights = k % 2 == 1 ? weights : NULL, .smoothing = k >= 2 ? 0.2 : 0};
        sl_real gz[N * C];
        double loss;
        double mass = 0;
        for (uint32_t v = 0; v < N; v++) {
            mass += k % 2 == 1 ? (double)weights[labels[v]] : 1;
        }
        sl_loss_cpu(N, C, z, &all, 1 / mass, gz, &loss);
        expect_loss(root, names[k], loss, gz);
    }
}

TEST(test_entry_losses)
{
    static const struct {
        const char *name, *targets;
        enum sl_row_loss kind;
        bool weighs;
    } cases[] = {{"labels", "labels", SL_ROW_SIGMOID, false},
                 {"labels weights", "labels", SL_ROW_SIGMOID, true},
                 {"squared", "holes", SL_ROW_SQUARED, false},
                 {"absolute", "holes", SL_ROW_ABSOLUTE, false}};
    OWNED(json_decref_it) json_t *root = case_of("objectives");
    float weights[C];
    sl_real z[N * C];
    for (uint32_t i = 0; i < N * C; i++) {
        z[i] = (sl_real)number(json_array_get(member(root, "outputs"), i / C), i % C);
        rows[i % N] = i % N;
        weights[i % C] = (float)number(member(root, "weights"), i % C);
    }
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        float targets[N * C];
        sl_real gz[N * C];
        double loss;
        double n = 0;
        table_of(root, cases[k].targets, targets);
        if (cases[k].kind != SL_ROW_SIGMOID) { /* rounded as targets are: equal numbers stay equal */
            float outputs[N * C];
            table_of(root, "outputs", outputs);
            for (uint32_t i = 0; i < N * C; i++) {
                z[i] = (sl_real)outputs[i];
            }
        }
        for (uint32_t i = 0; i < N * C; i++) {
            n += !isnan(targets[i]);
        }
        const struct sl_loss_rows all = {
            .kind = cases[k].kind, .numbers = targets, .ids = rows, .weights = cases[k].weighs ? weights : NULL};
        sl_loss_cpu(N, C, z, &all, 1 / n, gz, &loss);
        /* targets are float: a number such as 0.1 is rounded */
        json_t *wanted = member(member(root, "losses"), cases[k].name);
        json_t *gradient = member(wanted, "gradient");
        double tolerance = cases[k].kind == SL_ROW_SIGMOID ? SAME : 1e-6;
        expect_near(cases[k].name, loss, json_number_value(member(wanted, "loss")), tolerance);
        for (size_t i = 0; i < N * C; i++) {
            expect_near_at(cases[k].name, i, (double)gz[i], number(json_array_get(gradient, i / C), i % C), tolerance);
        }
    }
}

/* ---- scores of outputs by hand: one layer, W_self = 1, W_neigh = 0 ---- */

/* All rows are in the set `set`; other sets are empty. */
static void hand_dataset(const float *outputs, const float *targets, bool test_set, struct sl_dataset *out)
{
    sl_vertex ends[2] = {0, 1};
    struct sl_ids *ids = test_set ? &out->test : &out->valid;
    *out = (struct sl_dataset){.name = "hand", .split = "hand"};
    expect_ok(sl_graph_build(N, 1, ends, ends + 1, NULL, true, &out->graph));
    out->features = (struct sl_features){.n_rows = N, .n_columns = C};
    out->features.dense = sl_column_take(SL_DTYPE_F32, N, C, need_owned(N * C, sizeof(float)));
    memcpy(out->features.dense.data, outputs, N * C * sizeof(float));
    out->targets = (struct sl_targets){.type = SL_TARGET_NUMBER, .n_rows = N, .width = C};
    out->targets.numbers = need_owned(N * C, sizeof(float));
    memcpy(out->targets.numbers, targets, N * C * sizeof(float));
    ids->ids = need_owned(N, sizeof *ids->ids);
    out->train.ids = need_owned(1, sizeof *ids->ids);
    for (sl_vertex v = 0; v < N; v++) {
        ids->ids[ids->n++] = v;
    }
}

static struct sl_scores scores_by_hand(const struct sl_dataset *d, int objective_name, uint32_t pes)
{
    struct sl_objective objective;
    struct sl_settings settings;
    struct sl_scores scores;
    struct world w;
    settings_with("layers=1 batch-size=1 partition=random", &settings);
    settings.pes = pes;
    settings.objective = objective_name;
    expect_ok(sl_objective_open(&settings, d, &objective));
    world_open(d, &settings, 1, &w);
    expect_ok(sl_objective_place(&objective, w.partition));
    w.shards.objective = &objective;
    for (uint32_t i = 0; i < C * C; i++) {
        w.model.layer[0].parameter[SAGE_SELF].value[i] = i % (C + 1) == 0;
        w.model.layer[0].parameter[SAGE_NEIGH].value[i] = 0;
    }
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &scores));
    world_close(&w);
    sl_objective_close(&objective);
    sl_settings_free(&settings);
    forget_partitions();
    return scores;
}

static void expect_scores(json_t *wanted, const struct sl_scores *scores, bool test_set)
{
    const char *name;
    json_t *value;
    json_object_foreach(wanted, name, value)
    {
        struct sl_score score = score_of(scores, name);
        /* outputs and targets are float */
        expect_near(name, test_set ? score.test : score.valid, json_number_value(value), 1e-6);
        assert_true(isnan(test_set ? score.valid : score.test)); /* an empty set */
    }
    assert_int_equal(isnan(scores->valid_loss), test_set);
}

TEST(test_scores)
{
    static const struct {
        const char *scores, *targets;
        int objective;
        bool fill; /* nan counts as 0 */
    } cases[] = {{"labels", "labels", SL_OBJECTIVE_LABELS, true},
                 {"labels with holes", "labels", SL_OBJECTIVE_AUTO, false},
                 {"numbers", "numbers", SL_OBJECTIVE_AUTO, false}};
    OWNED(json_decref_it) json_t *root = case_of("objectives");
    float outputs[N * C];
    table_of(root, "outputs", outputs);
    for (uint32_t k = 0; k < 3 * 2 * 2; k++) {
        bool test_set = k % 2 == 1;
        uint32_t pes = k / 2 % 2 == 1 ? 7 : 1;
        float targets[N * C];
        OWNED(sl_dataset_free) struct sl_dataset d;
        table_of(root, cases[k / 4].targets, targets);
        for (size_t i = 0; i < N * C; i++) {
            targets[i] = cases[k / 4].fill && isnan(targets[i]) ? 0 : targets[i];
        }
        hand_dataset(outputs, targets, test_set, &d);
        struct sl_scores scores = scores_by_hand(&d, cases[k / 4].objective, pes);
        expect_scores(member(member(root, "scores"), cases[k / 4].scores), &scores, test_set);
    }
}

/* The first half of the vertices is answered with all labels, the other half with none. */
static void expect_label_scores(const float *targets, const double wanted[4])
{
    static const char *const names[] = {"ap", "auc", "f1_micro", "f1"};
    float outputs[N * C];
    for (uint32_t i = 0; i < N * C; i++) {
        outputs[i] = i / C < N / 2 ? 1 : -1;
    }
    for (uint32_t k = 0; k < 2 * 2; k++) {
        bool test_set = k % 2 == 1;
        OWNED(sl_dataset_free) struct sl_dataset d;
        hand_dataset(outputs, targets, test_set, &d);
        struct sl_scores scores = scores_by_hand(&d, SL_OBJECTIVE_LABELS, k < 2 ? 1 : 7);
        for (uint32_t i = 0; i < 4; i++) {
            struct sl_score score = score_of(&scores, names[i]);
            double got = test_set ? score.test : score.valid;
            assert_true(isnan(wanted[i]) ? isnan(got) : fabs(got - wanted[i]) < 1e-12);
            assert_true(isnan(test_set ? score.valid : score.test)); /* an empty set */
        }
        assert_int_equal(isnan(scores.valid_loss), test_set);
    }
}

/* A label that no vertex has, a vertex with all labels, and labels that all vertices have. */
TEST(test_degenerate)
{
    const double half = N / 2.0;
    float targets[N * C];
    for (uint32_t i = 0; i < N * C; i++) {
        targets[i] = i % C > 0 && i / C < N / 2;
    }
    /* without positives a label has no ap and no auc, and its F1 is 0 */
    expect_label_scores(targets, (const double[]){1, 1, 2 * (C - 1) / (2.0 * (C - 1) + 1), (C - 1.0) / C});
    for (uint32_t i = 0; i < N * C; i++) {
        targets[i] = i / C == 0;
    }
    /* its outputs are tied with those of `half - 1` others */
    expect_label_scores(targets,
                        (const double[]){1 / half, (half + (half - 1) / 2) / (N - 1), 2 / (half + 1), 2 / (half + 1)});
    for (uint32_t i = 0; i < N * C; i++) {
        targets[i] = 1;
    }
    expect_label_scores(targets, (const double[]){NAN, NAN, 2 / 3.0, 2 / 3.0});
}

/* A nan output makes scores nan: they do not rise by what is left out. */
TEST(test_nan_outputs)
{
    static const char *const names[2][3] = {{"ap", "auc", "ap"}, {"mse", "mae", "r2"}};
    OWNED(json_decref_it) json_t *root = case_of("objectives");
    float outputs[N * C];
    table_of(root, "outputs", outputs);
    for (uint32_t k = 0; k < 2; k++) {
        float targets[N * C];
        OWNED(sl_dataset_free) struct sl_dataset d;
        table_of(root, k == 0 ? "labels" : "numbers", targets);
        hand_dataset(outputs, targets, false, &d);
        for (uint32_t c = 0; c < C; c++) {
            floats_of(&d.features)[3 * C + c] = NAN;
        }
        struct sl_scores scores = scores_by_hand(&d, SL_OBJECTIVE_AUTO, 1);
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(isnan(score_of(&scores, names[k][i]).valid));
        }
    }
}

TEST(test_pairs)
{
    struct sl_pair pairs[] = {{3, 1}, {1, 0}, {2, 1}, {0, 0}};
    assert_true(sl_pairs_area(pairs, 4) == 1 && sl_pairs_precision(pairs, 4) == 1);
    assert_true(isnan(sl_pairs_area(pairs, 2)) && isnan(sl_pairs_precision(pairs, 2))); /* negatives alone */
    struct sl_pair ranked[] = {{5, 1}, {4, 0}, {3, 1}, {3, 0}, {2, 0}, {1, 0}, {0, 1}}; /* ranks 1, 2.5 and 5 */
    struct sl_pair_ranks ranks = sl_pairs_ranks(ranked, 7);
    struct sl_pair many[104];
    assert_true(fabs(ranks.score[0] - (1 + 1 / 2.5 + 1 / 5.0) / 3) < 1e-15);
    assert_true(ranks.score[1] == 1 / 3.0 && ranks.score[2] == 2 / 3.0 && ranks.score[3] == 1);
    assert_true(isnan(sl_pairs_ranks(ranked, 1).score[0]) && isnan(sl_pairs_ranks(pairs, 0).score[1]));
    pairs[2].z = (sl_real)NAN;
    assert_true(isnan(sl_pairs_ranks(pairs, 4).score[3]));
    for (uint32_t i = 0; i < 104; i++) { /* ranks 10, 20, 50 and 101, and 100 negatives */
        many[i] = (struct sl_pair){-(sl_real)i, i == 9 || i == 20 || i == 51 || i == 103};
    }
    ranks = sl_pairs_ranks(many, 104);
    for (int i = 1; i < SL_N_PAIR_RANKS; i++) {
        const double expected[] = {0, 0, 0, 0.25, 0.5, 0.75, 0.75};
        assert_true(ranks.score[i] == expected[i]);
    }
    assert_true(isnan(sl_pairs_area(pairs, 4)) && isnan(sl_pairs_precision(pairs, 4)));
}

/* The rank of a triple's end among all ends of its relation that make no other known triple, by the definition. */
static double rank_by_hand(const struct sl_triple_scorer *by, const struct sl_links *all, uint32_t n_all, int end,
                           const sl_vertex triple[3])
{
    const struct sl_link_ends *ends = &by->ends[triple[1]];
    const sl_real *r = by->decoder->array[SL_DISTMULT_R] + (size_t)triple[1] * by->decoder->n_columns;
    double wanted = 0, n_better = 0, n_equal = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (sl_vertex v = ends->first[end]; v < ends->first[end] + ends->n[end]; v++) {
            const sl_vertex from = end == 0 ? v : triple[0];
            const sl_vertex tail = end == 0 ? triple[2] : v;
            bool known = false;
            double score = 0;
            for (uint32_t i = 0; i < n_all; i++) {
                known |= all->from[i] == from && all->to[i] == tail && all->relation[i] == triple[1];
            }
            for (uint32_t c = 0; c < by->decoder->n_columns; c++) {
                score += (double)(by->rows[from * by->decoder->n_columns + c] * r[c] *
                                  by->rows[tail * by->decoder->n_columns + c]);
            }
            bool self = from == triple[0] && tail == triple[2];
            if (pass == 0 && self) {
                wanted = score;
            } else if (pass == 1 && !known) {
                n_better += score > wanted;
                n_equal += score == wanted;
            }
        }
    }
    return 1 + n_better + n_equal / 2;
}

/* 100 triples, 60 of them to rank, some twice; small whole numbers, so that many scores are equal and all are exact. */
TEST(test_triples)
{
    enum { N_VERTICES = 40, ALL = 100, RANKED = 60, R = 3, COLUMNS = 4 };
    sl_vertex from[ALL], to[ALL], ids[N_VERTICES];
    uint32_t relation[ALL];
    sl_real outputs[N_VERTICES * COLUMNS], weights[R * COLUMNS];
    const struct sl_link_ends ends[R] = {
        {{0, 0}, {N_VERTICES, N_VERTICES}}, {{0, 15}, {15, N_VERTICES - 15}}, {{15, 15}, {5, 5}}};
    const struct sl_draw draw = {.seed = 5, .purpose = SL_FOR_SCORES};
    const struct sl_decoder decoder = {SL_DECODER_DISTMULT, COLUMNS, R, {weights}};
    const struct sl_triple_scorer by = {&decoder, outputs, ends, ids};
    struct sl_links all = {ALL, from, to, relation};
    struct sl_links ranked = {RANKED, from, to, relation};
    struct sl_pair_ranks got, wanted = {{0}};
    OWNED(sl_triples_close) struct sl_triples triples;
    uint32_t bits[4];
    for (uint32_t i = 0; i < ALL; i++) {
        sl_random4(&draw, i, 0, bits);
        relation[i] = i / 7 % R;
        from[i] = ends[relation[i]].first[0] + sl_random_below(bits[0], ends[relation[i]].n[0]);
        to[i] = ends[relation[i]].first[1] + sl_random_below(bits[1], ends[relation[i]].n[1]);
    }
    for (uint32_t i = 0; i < N_VERTICES * COLUMNS; i++) {
        sl_random4(&draw, i, 1, bits);
        outputs[i] = (sl_real)sl_random_below(bits[0], 3) - 1;
        weights[i % (R * COLUMNS)] = (sl_real)sl_random_below(bits[1], 4) - 1;
        ids[i % N_VERTICES] = i % N_VERTICES;
    }
    for (uint32_t i = 0; i < 2 * RANKED; i++) {
        const sl_vertex triple[] = {from[i / 2], relation[i / 2], to[i / 2]};
        double rank = rank_by_hand(&by, &all, ALL, (int)(i % 2), triple);
        wanted.score[0] += 1 / rank;
        for (int k = 1; k < SL_N_PAIR_RANKS; k++) {
            wanted.score[k] += rank <= (double[]){0, 1, 3, 10, 20, 50, 100}[k];
        }
    }
    const struct sl_links *const lists[] = {&all, &ranked};
    expect_ok(sl_triples_open(2, lists, ids, &triples));
    expect_ok(sl_triples_rank(&triples, &by, &ranked, &got));
    assert_true(fabs(got.score[0] - wanted.score[0] / (2 * RANKED)) < 1e-12);
    assert_true(got.score[0] > 0.05 && got.score[0] < 0.95);
    for (int k = 1; k < SL_N_PAIR_RANKS; k++) {
        assert_true(got.score[k] == wanted.score[k] / (2 * RANKED));
        assert_true(k == 1 || got.score[k] >= got.score[k - 1]);
    }
    assert_true(got.score[3] > got.score[1]);
    outputs[from[3] * COLUMNS] = (sl_real)NAN;
    expect_ok(sl_triples_rank(&triples, &by, &ranked, &got));
    assert_true(isnan(got.score[0]) && isnan(got.score[1]));
    ranked.n = 0;
    expect_ok(sl_triples_rank(&triples, &by, &ranked, &got));
    assert_true(isnan(got.score[0]) && isnan(got.score[3]));
}

/* Any number is better than nan. */
TEST(test_better)
{
    for (int larger = 0; larger < 2; larger++) {
        struct sl_scores two = {.n = 1, .score = {{.valid = 2, .larger_is_better = larger == 1}}};
        struct sl_scores three = {.n = 1, .score = {{.valid = 3, .larger_is_better = larger == 1}}};
        struct sl_scores none = {.n = 1, .score = {{.valid = NAN, .larger_is_better = larger == 1}}};
        assert_int_equal(sl_scores_better(&three, &two), larger == 1);
        assert_int_equal(sl_scores_better(&two, &three), larger == 0);
        assert_true(sl_scores_better(&two, &none));
        assert_false(sl_scores_better(&none, &two));
        assert_false(sl_scores_better(&none, &none) || sl_scores_better(&two, &two));
    }
}

/* ---- steps ---- */

/* Targets of a generated graph: labels or numbers. Some entries of some vertices are unknown, never all; column 0 has
 * no 1; vertex 0 has all other labels. */
static void put_targets(const struct graph_shape *shape, bool labels, uint32_t n_columns, bool holes,
                        struct sl_dataset *dataset)
{
    uint32_t n = dataset->graph.n_vertices;
    sl_targets_free(&dataset->targets);
    dataset->targets = (struct sl_targets){.type = SL_TARGET_NUMBER, .n_rows = n, .width = n_columns};
    dataset->targets.numbers = need_owned((size_t)n * n_columns, sizeof(float));
    for (uint32_t v = 0; v < n; v++) {
        for (uint32_t c = 0; c < n_columns; c++) {
            float y = (float)graph_unit(shape, 6, v, c);
            if (labels) {
                y = c == 0 ? 0 : (float)(v == 0 || y < 0.4F);
            }
            bool hole = holes && c > 0 && v > 0 && graph_unit(shape, 7, v, c) < 0.3;
            dataset->targets.numbers[(size_t)v * n_columns + c] = hole ? NAN : y;
        }
    }
}

/* Options of a run. */
struct variant {
    uint32_t pes, group_size, chunks;
    int objective, loss, precision;
    const char *weights;
    double smoothing;
};

#define STEPS 3

/* The losses of the first steps, and of an evaluation. */
static void run_variant(const struct sl_dataset *dataset, const struct variant *v, double losses[STEPS + 1])
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_objective_close) struct sl_objective objective;
    struct sl_scores scores;
    struct outcome outcome;
    OWNED(world_close) struct world w;
    settings_with("layers=2 hidden=8 dropout=0.5 partition=random", &settings);
    settings.pes = v->pes;
    settings.group_size = v->group_size;
    settings.chunks = v->chunks;
    settings.batch_size = (84 + v->pes - 1) / v->pes; /* 84 = 3 x 4 x 7 */
    settings.objective = v->objective;
    settings.loss = v->loss;
    settings.precision = v->precision;
    settings.label_smoothing = v->smoothing;
    if (v->weights != NULL) {
        expect_ok(sl_option_set(sl_settings_table_of(&settings), "class-weights", v->weights, &settings));
    }
    expect_ok(sl_objective_open(&settings, dataset, &objective));
    world_open(dataset, &settings, STEPS, &w);
    expect_ok(sl_objective_place(&objective, w.partition));
    w.shards.objective = &objective;
    world_run(&w, STEPS, &outcome);
    memcpy(losses, outcome.loss, STEPS * sizeof *losses);
    outcome_free(&outcome);
    expect_ok(sl_evaluate(&w.run, &w.shards, &w.model, &(struct sl_inference){0}, &scores));
    losses[STEPS] = scores.valid_loss;
    for (uint32_t i = 0; i < scores.n; i++) {
        assert_true(isfinite(scores.score[i].valid) && isfinite(scores.score[i].test));
    }
    forget_partitions();
}

static const struct graph_shape small = {
    .kind = GRAPH_POWER_LAW, .n_vertices = 301, .n_columns = 12, .n_classes = 4, .seed = 21};

/* The number of PEs, of groups and of chunks does not matter. Seven PEs of one group: some have no seed in a step. */
static void check_invisible(const struct sl_dataset *dataset, struct variant v, double tolerance)
{
    static const uint32_t spreads[][3] = {{3, 3, 1}, {4, 2, 2}, {7, 7, 1}};
    double wanted[STEPS + 1];
    double got[STEPS + 1];
    v.pes = v.group_size = v.chunks = 1;
    run_variant(dataset, &v, wanted);
    for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
        v.pes = spreads[k][0];
        v.group_size = spreads[k][1];
        v.chunks = spreads[k][2];
        run_variant(dataset, &v, got);
        for (uint32_t i = 0; i <= STEPS; i++) {
            expect_near_at("loss", i, got[i], wanted[i], tolerance * (1 + fabs(wanted[i])));
        }
    }
}

TEST(test_invisible)
{
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&small, &dataset);
    check_invisible(&dataset, (struct variant){.weights = "balanced", .smoothing = 0.1}, SAME);
    put_targets(&small, true, 6, true, &dataset);
    check_invisible(&dataset, (struct variant){0}, SAME);
    check_invisible(&dataset, (struct variant){.weights = "balanced"}, SAME);
    put_targets(&small, false, 3, true, &dataset);
    check_invisible(&dataset, (struct variant){.loss = SL_LOSS_SQUARED}, SAME);
    check_invisible(&dataset, (struct variant){.loss = SL_LOSS_ABSOLUTE}, SAME);
}

/* Rows of bf16 have 8 bits: the first loss is off by little. */
TEST(test_bf16)
{
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&small, &dataset);
    for (int labels = 0; labels < 2; labels++) {
        struct variant v = {.pes = 3, .group_size = 3, .chunks = 1};
        double wanted[STEPS + 1];
        double got[STEPS + 1];
        put_targets(&small, labels == 1, 6, true, &dataset);
        run_variant(&dataset, &v, wanted);
        v.precision = SL_PRECISION_BF16;
        run_variant(&dataset, &v, got);
        for (uint32_t i = 0; i <= STEPS; i++) {
            expect_near_at("loss", i, got[i], wanted[i], 0.02 * (1 + fabs(wanted[i])));
        }
    }
}

/* The loss is the mean over the known entries of the step: with equal outputs (no weight) it can be counted. */
TEST(test_mean_over_known)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_objective_close) struct sl_objective objective;
    OWNED(outcome_free) struct outcome outcome;
    OWNED(world_close) struct world w;
    make_dataset(&small, &dataset);
    put_targets(&small, true, 6, true, &dataset);
    settings_with("layers=1 pes=3 chunks=1 batch-size=10", &settings);
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    assert_non_null(objective.mass);
    world_open(&dataset, &settings, STEPS, &w);
    expect_ok(sl_objective_place(&objective, w.partition));
    w.shards.objective = &objective;
    for (int k = 0; k < SL_MAX_PARAMETERS; k++) {
        struct sl_parameter *p = &w.model.layer[0].parameter[k];
        if (p->value != NULL) {
            memset(p->value, 0, (size_t)p->n_rows * p->n_columns * sizeof *p->value);
        }
    }
    settings.lr = 0;
    world_run(&w, STEPS, &outcome);
    for (uint32_t i = 0; i < STEPS; i++) {
        expect_near_at("loss", i, outcome.loss[i], log(2), 30 * 0x1p-43 + 1e-12);
    }
    forget_partitions();
}

/* ---- the choice ---- */

/* Without known targets and epochs any objective is allowed. */
TEST(test_no_targets)
{
    static const char *const options[][2] = {
        {"objective", "regression"}, {"objective", "labels"}, {"loss", "absolute"}, {"best-by", "mse"}};
    struct sl_objective objective;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&small, &dataset);
    memset(dataset.targets.data, 0xff, sl_targets_bytes(&dataset.targets));
    dataset.train.n = dataset.valid.n = dataset.test.n = 0;
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        OWNED(sl_settings_free) struct sl_settings settings;
        expect_ok(sl_settings_init(&settings));
        settings.epochs = 0;
        expect_ok(sl_option_set(sl_settings_table_of(&settings), options[k][0], options[k][1], &settings));
        expect_ok(sl_objective_open(&settings, &dataset, &objective));
        assert_true(objective.unknown && objective.n_outputs == 4 && objective.best_by == 0);
        sl_objective_close(&objective);
    }
}

static void expect_refused(const struct sl_dataset *dataset, const char *option, const char *value, const char *part)
{
    struct sl_objective objective;
    OWNED(sl_settings_free) struct sl_settings settings;
    expect_ok(sl_settings_init(&settings));
    expect_ok(sl_option_set(sl_settings_table_of(&settings), option, value, &settings));
    enum sl_status st = sl_objective_open(&settings, dataset, &objective);
    assert_true(st == SL_EINVAL || st == SL_EFILE || st == SL_EIO);
    expect_message(sl_message(), part, part);
    assert_null(objective.kind);
}

static const struct sl_objective_kind *chosen(const struct sl_dataset *dataset)
{
    struct sl_objective objective;
    struct sl_settings settings;
    expect_ok(sl_settings_init(&settings));
    expect_ok(sl_objective_open(&settings, dataset, &objective));
    const struct sl_objective_kind *kind = objective.kind;
    sl_objective_close(&objective);
    sl_settings_free(&settings);
    return kind;
}

TEST(test_choice)
{
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    make_dataset(&small, &dataset);
    assert_ptr_equal(chosen(&dataset), &sl_classify);
    expect_refused(&dataset, "objective", "labels", "classes");
    expect_refused(&dataset, "objective", "regression", "classes");
    expect_refused(&dataset, "loss", "absolute", "--loss");
    expect_refused(&dataset, "best-by", "r2", "acc, f1");
    expect_refused(&dataset, "class-weights", "/nowhere", "/nowhere");
    put_targets(&small, true, 3, true, &dataset);
    assert_ptr_equal(chosen(&dataset), &sl_label_sets);
    expect_refused(&dataset, "objective", "class", "columns");
    expect_refused(&dataset, "label-smoothing", "0.1", "--label-smoothing");
    expect_refused(&dataset, "best-by", "acc", "ap, auc, f1_micro, f1");
    put_targets(&small, false, 3, true, &dataset);
    assert_ptr_equal(chosen(&dataset), &sl_regression);
    expect_refused(&dataset, "objective", "labels", "other numbers");
    expect_refused(&dataset, "class-weights", "balanced", "--class-weights");
}

/* A file without a name, which goes when it is closed; `path` leads to it. */
static int open_nameless(char path[32])
{
    char name[] = "/tmp/starling-weights-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

TEST(test_weights)
{
    struct sl_objective objective;
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    char path[32];
    int fd = open_nameless(path);
    double sum = 0;
    double n[4] = {0};
    make_dataset(&small, &dataset);
    expect_ok(sl_settings_init(&settings));
    expect_ok(sl_option_set(sl_settings_table_of(&settings), "class-weights", "balanced", &settings));
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    for (uint32_t i = 0; i < dataset.train.n; i++) {
        n[dataset.targets.classes[dataset.train.ids[i]]]++;
    }
    for (uint32_t c = 0; c < 4; c++) {
        expect_near_at("weight", c, (double)objective.weights[c], dataset.train.n / (4 * n[c]), 1e-6);
        sum += (double)objective.weights[c] * n[c];
    }
    expect_near("mass", objective.mass_all, sum, 1e-6 * sum);
    sl_objective_close(&objective);
    static const char *const bad[] = {"0.5,1\n1,1\n1,1\n1,1\n", "1\n2\n-1\n4\n", "1\n2\nnan\n4\n", "1\n2\n3\n",
                                      "1\ninf\n3\n4\n"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, bad[k], strlen(bad[k]), 0), (ssize_t)strlen(bad[k]));
        expect_refused(&dataset, "class-weights", path, k == 0 ? "found 2 numbers a line" : path);
    }
    expect_refused(&dataset, "class-weights", "1,2,3", "found 3 numbers, expected 4");
    expect_refused(&dataset, "class-weights", "1,2,3,4,5", "found 5 numbers, expected 4");
    expect_refused(&dataset, "class-weights", "1,2,-3,4", "found -3, expected numbers of 0 or more");
    expect_refused(&dataset, "class-weights", "0,0,0,0", "found only zeros, expected a number above 0");
    expect_refused(&dataset, "class-weights", "1,2,nan,4", "found nan, expected numbers of 0 or more");
    expect_refused(&dataset, "class-weights", "1,2,3,", "1,2,3,: ");
    expect_ok(sl_option_set(sl_settings_table_of(&settings), "class-weights", "0.5,2,3e1,0", &settings));
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    assert_true(objective.weights[0] == 0.5F && objective.weights[2] == 30 && objective.weights[3] == 0);
    sl_objective_close(&objective);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "0\n0\n0\n0\n", 8, 0), 8); /* no mass at all: no loss, no step */
    expect_ok(sl_option_set(sl_settings_table_of(&settings), "class-weights", path, &settings));
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    assert_true(objective.mass_all == 0 && sl_objective_scale(&objective, 1, dataset.train.ids) == 0);
    sl_objective_close(&objective);
    close(fd);
}

/* The loss over the training vertices of an answer q that is the same for all. */
static double loss_of_constant(const struct sl_dataset *d, const struct sl_objective *o, const double *q)
{
    double loss = 0;
    double mass = 0;
    for (uint32_t i = 0; i < d->train.n; i++) {
        int32_t y = d->targets.classes[d->train.ids[i]];
        mass += (double)o->weights[y];
        loss -= (1 - o->smoothing) * (double)o->weights[y] * log(q[y]);
        for (uint32_t c = 0; c < o->n_outputs; c++) {
            loss -= o->smoothing / o->n_outputs * (double)o->weights[c] * log(q[c]);
        }
    }
    return loss / mass;
}

/* With weights and smoothing: no answer is better than the guess, and the best answer is as good. */
TEST(test_weighted_guess)
{
    struct sl_objective objective;
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    char path[32];
    int fd = open_nameless(path);
    double least = INFINITY;
    make_dataset(&small, &dataset);
    expect_ok(sl_settings_init(&settings));
    settings.label_smoothing = 0.5;
    assert_int_equal(pwrite(fd, "1\n2\n3\n9\n", 8, 0), 8);
    expect_ok(sl_option_set(sl_settings_table_of(&settings), "class-weights", path, &settings));
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    for (int a = 1; a < 98; a++) {
        for (int b = 1; a + b < 99; b++) {
            for (int c = 1; a + b + c < 100; c++) {
                double q[4] = {a / 100.0, b / 100.0, c / 100.0, (100 - a - b - c) / 100.0};
                least = fmin(least, loss_of_constant(&dataset, &objective, q));
            }
        }
    }
    assert_true(objective.guess <= least + 1e-6);
    expect_near("guess", objective.guess, least, 2e-3);
    sl_objective_close(&objective);
    close(fd);
}

TEST(test_guesses)
{
    OWNED(sl_settings_free) struct sl_settings settings;
    OWNED(sl_dataset_free) struct sl_dataset dataset;
    OWNED(sl_objective_close) struct sl_objective objective;
    make_dataset(&small, &dataset);
    expect_ok(sl_settings_init(&settings));
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    assert_true(objective.guess > 0.8 * log(4) && objective.guess <= log(4));
    sl_objective_close(&objective);
    put_targets(&small, true, 1, false, &dataset); /* one label that no vertex has */
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    assert_true(objective.guess == 0 && objective.n_empty == 1 && objective.mass == NULL && objective.mass_each == 1);
    sl_objective_close(&objective);
    put_targets(&small, false, 2, false, &dataset); /* uniform in 0 .. 1: variance 1/12, deviation 1/4 */
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    expect_near("variance", objective.guess, 1.0 / 12, 0.02);
    sl_objective_close(&objective);
    settings.loss = SL_LOSS_ABSOLUTE;
    expect_ok(sl_objective_open(&settings, &dataset, &objective));
    expect_near("deviation", objective.guess, 0.25, 0.03);
}

TEST_MAIN(group_up, group_down)
