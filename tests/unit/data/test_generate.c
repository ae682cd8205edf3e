/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/generate/generate.h: sizes, laws and repeatability of generated datasets. */
#include "tests/support/data_fixture.h"

#include <math.h>

#include "data/features.h"
#include "data/generate/generate.h"
#include "data/load.h"
#include "data/statistics.h"
#include "support/parallel.h"
#include "tests/support/floats.h"

static const struct sl_recipe tiny = {.name = "tiny",
                                      .split = "random",
                                      .n_vertices = 2000,
                                      .n_edges = 14000,
                                      .n_features = 24,
                                      .n_classes = 6,
                                      .homophily = 0.65,
                                      .n_train = 1000,
                                      .n_valid = 300,
                                      .n_test = 600,
                                      .seed = 7};

static int compare_pairs(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All edges lead from a vertex to another one, and no two are the same. */
static void assert_edges_differ(const struct sl_raw *raw)
{
    FREED uint64_t *pairs = malloc((raw->n_edges + 1) * sizeof *pairs);
    for (uint64_t e = 0; e < raw->n_edges; e++) {
        assert_true(raw->from[e] < raw->n_vertices && raw->to[e] < raw->n_vertices && raw->from[e] != raw->to[e]);
        pairs[e] = (uint64_t)raw->from[e] << 32 | raw->to[e];
    }
    qsort(pairs, raw->n_edges, sizeof *pairs, compare_pairs);
    for (uint64_t e = 1; e < raw->n_edges; e++) {
        assert_true(pairs[e] != pairs[e - 1]);
    }
}

static void assert_same(const struct sl_raw *a, const struct sl_raw *b)
{
    assert_memory_equal(a->from, b->from, a->n_edges * sizeof *a->from);
    assert_memory_equal(a->to, b->to, a->n_edges * sizeof *a->to);
    assert_memory_equal(a->data.targets.classes, b->data.targets.classes,
                        a->n_vertices * sizeof *a->data.targets.classes);
    assert_memory_equal(a->data.train.ids, b->data.train.ids, a->data.train.n * sizeof(sl_vertex));
    assert_memory_equal(a->data.test.ids, b->data.test.ids, a->data.test.n * sizeof(sl_vertex));
    if (a->data.features.dense.data != NULL) {
        assert_memory_equal(a->data.features.dense.data, b->data.features.dense.data,
                            (size_t)a->n_vertices * a->data.features.n_columns * sizeof(float));
    } else {
        assert_memory_equal(a->data.features.columns, b->data.features.columns,
                            a->data.features.offsets[a->n_vertices] * sizeof(uint32_t));
    }
}

/* Features of all vertices, and lists as after reading. */
static void expect_rules(struct sl_raw *raw)
{
    const struct sl_raw_files files = {.need = SL_RAW_FOR_TRAINING};
    assert_int_equal(raw->data.features.n_rows, raw->n_vertices);
    assert_ok(sl_raw_settle(&files, "generated", raw));
}

/* Equal seeds, equal data, whatever the threads; another seed, another dataset. */
TEST(depends_on_the_seed_alone)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        struct sl_recipe recipe = tiny;
        OWNED(sl_raw_free) struct sl_raw a;
        OWNED(sl_raw_free) struct sl_raw b;
        recipe.sparse = sparse;
        recipe.n_features = sparse ? 600 : 24;
        assert_ok(sl_generate(&recipe, &a));
        expect_rules(&a);
        assert_int_equal(a.data.features.offsets != NULL, sparse);
        for (unsigned threads = 1; threads < 4; threads++) {
            sl_parallel_limit(threads);
            assert_ok(sl_generate(&recipe, &b));
            assert_same(&a, &b);
            sl_raw_free(&b);
        }
        sl_parallel_limit(0);
        recipe.seed++;
        assert_ok(sl_generate(&recipe, &b));
        assert_memory_not_equal(a.to, b.to, a.n_edges * sizeof *a.to);
        assert_memory_not_equal(a.data.targets.classes, b.data.targets.classes,
                                a.n_vertices * sizeof *a.data.targets.classes);
    }
}

TEST(keeps_the_recipe)
{
    for (int i = 0; i < 5; i++) {
        struct sl_raw raw;
        OWNED(sl_dataset_free) struct sl_dataset d;
        struct sl_statistics s;
        struct sl_recipe recipe = tiny;
        recipe.homophily = 0.3 + 0.1 * i;
        recipe.n_classes = (uint32_t)(4 + 6 * i);
        assert_ok(sl_generate(&recipe, &raw));
        assert_int_equal(raw.n_vertices, 2000);
        assert_int_equal(raw.n_edges, 14000);
        assert_int_equal(raw.data.train.n, 1000);
        assert_int_equal(raw.data.valid.n, 300);
        assert_int_equal(raw.data.test.n, 600);
        assert_edges_differ(&raw);
        assert_ok(sl_dataset_make("tiny", &raw, false, SL_NORMALIZE_NONE, NULL, &d));
        assert_null(raw.data.targets.data);
        assert_ok(sl_statistics_count(&d, &s));
        if (fabs(s.homophily - recipe.homophily) > 0.06) {
            fail_msg("homophily: expected about %g, found %g", recipe.homophily, s.homophily);
        }
        assert_int_equal(d.targets.n_classes, recipe.n_classes);
        assert_true(s.smallest_class >= 1 && s.largest_class > 2000 / recipe.n_classes);
        assert_int_equal(s.n_isolated, 0);
    }
}

/* Rows of different vertices differ by two noises of variance 1, and a little for their centres. */
TEST(noise_is_each_vertex_s_own)
{
    OWNED(sl_raw_free) struct sl_raw raw;
    double sum = 0;
    assert_ok(sl_generate(&tiny, &raw));
    size_t n = (size_t)(tiny.n_vertices - 1) * tiny.n_features;
    for (size_t i = 0; i < n; i++) {
        double difference = floats_of(&raw.data.features)[i + tiny.n_features] - floats_of(&raw.data.features)[i];
        sum += difference * difference;
    }
    assert_true(sum / (double)n > 1.9 && sum / (double)n < 2.6);
}

/* The smallest and densest that are allowed, and no edges at all. */
TEST(makes_odd_sizes)
{
#define RECIPE(...)                                                                                                    \
    {                                                                                                                  \
        .name = "odd", .split = "s", __VA_ARGS__                                                                       \
    }
    const struct sl_recipe recipes[] = {
        RECIPE(.n_vertices = 2, .n_features = 1, .n_classes = 1, .homophily = 1),
        RECIPE(.n_vertices = 17, .n_edges = 34, .n_features = 3, .n_classes = 8, .n_train = 17),
        RECIPE(.n_vertices = 101, .n_edges = 1262, .n_features = 5, .n_classes = 1, .homophily = 1, .n_test = 9),
        RECIPE(.n_vertices = 40, .n_edges = 10, .n_features = 300, .n_classes = 20, .homophily = 0.5, .sparse = true),
    };
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        OWNED(sl_raw_free) struct sl_raw raw;
        assert_ok(sl_generate(&recipes[i], &raw));
        assert_int_equal(raw.n_edges, recipes[i].n_edges);
        assert_edges_differ(&raw);
        expect_rules(&raw);
    }
}

TEST(refuses_contradictions)
{
    struct sl_raw raw;
#define ASSERT_REFUSED(field, value, words)                                                                            \
    do {                                                                                                               \
        struct sl_recipe recipe = tiny;                                                                                \
        recipe.field = (value);                                                                                        \
        assert_refused(sl_generate(&recipe, &raw), SL_EINVAL, words);                                                  \
    } while (0)
    ASSERT_REFUSED(n_classes, 0, "classes");
    ASSERT_REFUSED(n_classes, 1001, "classes");
    ASSERT_REFUSED(n_vertices, 0, "classes");
    ASSERT_REFUSED(n_edges, 499751, "expected at most 499750 edges");
    ASSERT_REFUSED(n_features, 0, "features");
    ASSERT_REFUSED(homophily, 1.5, "homophily");
    ASSERT_REFUSED(homophily, NAN, "homophily");
    ASSERT_REFUSED(n_train, 1101, "1101 + 300 + 600 vertices");
}

/* mag-synthetic with 2000 papers. */
static struct sl_recipe small_mag(void)
{
    struct sl_recipe recipe;
    assert_true(sl_recipe_find("mag", &recipe));
    sl_recipe_scale(&recipe, 2000);
    recipe.n_classes = 10;
    recipe.n_features = 24;
    return recipe;
}

/* The full recipe has the sizes of ogbn-mag. */
TEST(knows_the_sizes_of_mag)
{
    struct sl_recipe recipe;
    uint64_t n_vertices;
    uint64_t n_edges;
    assert_true(sl_recipe_find("mag-synthetic", &recipe));
    sl_recipe_total(&recipe, &n_vertices, &n_edges);
    assert_int_equal(n_vertices, 1939743);
    assert_int_equal(n_edges, 21111007);
    assert_ok(sl_recipe_check(&recipe));
}

/* Relations connect their types, an edge comes once in a relation, and all edges are there. */
static void expect_relations(const struct sl_recipe *recipe, const struct sl_raw *raw)
{
    const uint32_t first[] = {0, 3081, 3243, 3266, 5266}; /* authors, fields, institutions, papers */
    const uint32_t ends[][2] = {{0, 2}, {0, 3}, {3, 1}, {3, 3}};
    const uint16_t *relations = raw->relations;
    uint64_t n[4] = {0};
    FREED uint64_t *pairs = malloc((raw->n_edges + 1) * sizeof *pairs);
    for (uint64_t e = 0; e < raw->n_edges; e++) {
        const uint32_t r = relations[e];
        assert_true(r < 4);
        n[r]++;
        assert_true(raw->from[e] >= first[ends[r][0]] && raw->from[e] < first[ends[r][0] + 1]);
        assert_true(raw->to[e] >= first[ends[r][1]] && raw->to[e] < first[ends[r][1] + 1]);
        pairs[e] = (uint64_t)raw->from[e] << 32 | raw->to[e];
    }
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(n[r], recipe->between[r].n_edges);
    }
    assert_int_equal(n[3], recipe->n_edges);
    qsort(pairs, raw->n_edges, sizeof *pairs, compare_pairs);
    for (uint64_t e = 1; e < raw->n_edges; e++) {
        assert_true(pairs[e] != pairs[e - 1]); /* no two relations have the same pair of types */
    }
}

/* Only papers have classes and a split; each other vertex has a column of its own. */
static void expect_tables(const struct sl_raw *raw)
{
    const struct sl_features *features = &raw->data.features;
    assert_int_equal(features->n_columns, 3266 + 24);
    assert_non_null(features->offsets);
    for (uint32_t v = 0; v < raw->n_vertices; v++) {
        assert_int_equal(raw->data.targets.classes[v] >= 0, v >= 3266);
        if (v < 3266) {
            assert_int_equal(features->offsets[v + 1] - features->offsets[v], 1);
            assert_int_equal(features->columns[features->offsets[v]], v);
        } else {
            assert_true(features->columns[features->offsets[v]] >= 3266);
        }
    }
    for (uint32_t i = 0; i < raw->data.train.n; i++) {
        assert_true(raw->data.train.ids[i] >= 3266);
    }
}

TEST(keeps_a_typed_recipe)
{
    const struct sl_recipe recipe = small_mag();
    OWNED(sl_raw_free) struct sl_raw a;
    assert_ok(sl_generate(&recipe, &a));
    expect_rules(&a);
    assert_int_equal(a.n_vertices, 5266);
    assert_int_equal(a.n_relations, 4);
    expect_relations(&recipe, &a);
    expect_tables(&a);
    for (unsigned threads = 1; threads < 4; threads++) {
        OWNED(sl_raw_free) struct sl_raw b;
        sl_parallel_limit(threads);
        assert_ok(sl_generate(&recipe, &b));
        assert_same(&a, &b);
    }
    sl_parallel_limit(0);
}

/* In-degrees are skewed: the largest field has more than five times the mean. Two papers of one author share a class
 * more often than by chance. */
TEST(typed_edges_have_structure)
{
    const struct sl_recipe recipe = small_mag();
    OWNED(sl_raw_free) struct sl_raw raw;
    uint64_t degree[162] = {0}; /* of fields */
    uint64_t largest = 0;
    uint64_t n_same = 0;
    uint64_t n_pairs = 0;
    assert_ok(sl_generate(&recipe, &raw));
    for (uint64_t e = 0; e < raw.n_edges; e++) {
        const uint16_t *relations = raw.relations;
        if (relations[e] == 2) {
            largest = ++degree[raw.to[e] - 3081] > largest ? degree[raw.to[e] - 3081] : largest;
        }
        /* two papers of one author */
        if (relations[e] == 1 && e > 0 && relations[e - 1] == 1 && raw.from[e] == raw.from[e - 1]) {
            n_pairs++;
            n_same += raw.data.targets.classes[raw.to[e]] == raw.data.targets.classes[raw.to[e - 1]];
        }
    }
    assert_true(largest * 162 > 5 * recipe.between[2].n_edges);
    assert_true(n_pairs > 1000 && n_same * 100 > 20 * n_pairs); /* 10 to 13 in 100 by chance */
}

/* The folder of a typed recipe reads back with the same bits, dense and sparse. */
TEST_IN_FOLDER(typed_folders_read_back)
{
    const uint32_t features[] = {24, 1300}; /* with 1300 columns more than a tenth is not zero */
    for (int i = 0; i < 2; i++) {
        struct sl_recipe recipe = small_mag();
        struct sl_raw raw;
        OWNED(sl_dataset_free) struct sl_dataset d;
        OWNED(sl_dataset_free) struct sl_dataset back;
        recipe.n_features = features[i];
        const char *written = in_folder(i == 0 ? "few" : "many");
        const struct sl_dataset_options options = {.dataset = written, .cache = "none"};
        assert_ok(sl_generate(&recipe, &raw));
        assert_ok(sl_recipe_write(&recipe, &raw, written));
        assert_ok(sl_dataset_make("typed", &raw, false, SL_NORMALIZE_NONE, NULL, &d));
        assert_ok(sl_dataset_load(&options, &back));
        assert_int_equal(d.features.dense.data != NULL, i);
        assert_int_equal(back.graph.n_relations, 8);
        assert_int_equal(back.graph.n_edges, d.graph.n_edges);
        assert_memory_equal(back.graph.sources, d.graph.sources, d.graph.n_edges * sizeof *d.graph.sources);
        assert_memory_equal(back.graph.relations, d.graph.relations, d.graph.n_edges * sizeof *d.graph.relations);
        assert_memory_equal(back.targets.classes, d.targets.classes, 5266 * sizeof *d.targets.classes);
        assert_memory_equal(back.test.ids, d.test.ids, d.test.n * sizeof *d.test.ids);
        if (i == 0) {
            assert_memory_equal(back.features.values, d.features.values, d.features.offsets[5266] * sizeof(float));
            assert_memory_equal(back.features.columns, d.features.columns, d.features.offsets[5266] * sizeof(uint32_t));
        } else {
            assert_memory_equal(back.features.dense.data, d.features.dense.data,
                                (size_t)5266 * d.features.n_columns * sizeof(float));
        }
    }
}

TEST(typed_contradictions)
{
    struct sl_raw raw;
    struct sl_recipe recipe = small_mag();
    recipe.sparse = true;
    assert_refused(sl_generate(&recipe, &raw), SL_EINVAL, "dense features");
    recipe = small_mag();
    recipe.between[2].n_edges = 2000 * 162 / 8 + 1;
    assert_refused(sl_generate(&recipe, &raw), SL_EINVAL, "has_topic: expected 1 to 40500 edges");
    sl_recipe_scale(&recipe, 80);
    assert_refused(sl_generate(&recipe, &raw), SL_EINVAL, "type institution, found 0; try more vertices");
    recipe.other[0].n = SL_NONE - 50;
    assert_refused(sl_generate(&recipe, &raw), SL_EINVAL, "vertices of all types");
}

TEST(typed_survives_no_memory)
{
    struct sl_recipe recipe = small_mag();
    OWNED(sl_raw_free) struct sl_raw raw;
    recipe.n_features = 4;
    assert_survives_no_memory(sl_generate(&recipe, &raw));
}

TEST(survives_no_memory)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        struct sl_recipe recipe = tiny;
        OWNED(sl_raw_free) struct sl_raw raw;
        recipe.n_vertices = 100;
        recipe.n_edges = 300;
        recipe.n_train = recipe.n_valid = recipe.n_test = 10;
        recipe.sparse = sparse;
        recipe.n_features = sparse ? 300 : 4;
        assert_survives_no_memory(sl_generate(&recipe, &raw));
    }
}

TEST(knows_names)
{
    struct sl_recipe recipe;
    const char *names[] = {"arxiv", "arxiv-synthetic"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_true(sl_recipe_find(names[i], &recipe));
        assert_string_equal(recipe.name, "arxiv-synthetic");
    }
    assert_true(sl_recipe_find("products", &recipe));
    assert_int_equal(recipe.n_vertices, 2449029);
    assert_false(sl_recipe_find("arx", &recipe));
    assert_false(sl_recipe_find("", &recipe));
    assert_false(sl_recipe_find("cora", &recipe));
    assert_false(sl_recipe_find("ogbn-arxiv", &recipe)); /* always a real dataset */
}

/* How well the nearest class centre, learnt from the training vertices, classifies the test vertices by rows[N x F]. */
static double nearest_centre_accuracy(const struct sl_dataset *d, const float *rows)
{
    size_t n = d->features.n_columns;
    double *centres = calloc(d->targets.n_classes * n, sizeof *centres);
    double *counts = calloc(d->targets.n_classes, sizeof *counts);
    uint32_t n_right = 0;
    for (uint32_t i = 0; i < d->train.n; i++) {
        sl_vertex v = d->train.ids[i];
        counts[d->targets.classes[v]]++;
        for (size_t c = 0; c < n; c++) {
            centres[(size_t)d->targets.classes[v] * n + c] += rows[v * n + c];
        }
    }
    for (uint32_t i = 0; i < d->test.n; i += 16) {
        sl_vertex v = d->test.ids[i];
        double best = INFINITY;
        uint32_t best_class = 0;
        for (uint32_t k = 0; k < d->targets.n_classes; k++) {
            double distance = 0;
            for (size_t c = 0; c < n && counts[k] > 0; c++) {
                double difference = rows[v * n + c] - centres[k * n + c] / counts[k];
                distance += difference * difference;
            }
            if (counts[k] > 0 && distance < best) {
                best = distance;
                best_class = k;
            }
        }
        n_right += best_class == (uint32_t)d->targets.classes[v];
    }
    free(centres);
    free(counts);
    return n_right / ceil(d->test.n / 16.0);
}

/* The arxiv stand-in: arxiv's figures, a heavy tail, unequal classes, and features of which the mean over a vertex and
 * its neighbours says clearly more than its own. */
TEST(arxiv_is_honest_work)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    struct sl_statistics s;
    struct sl_dataset_options options = {.dataset = "arxiv", .data_path = "/nowhere", .cache = "none", .seed = 1};
    assert_ok(sl_dataset_load(&options, &d));
    assert_true(d.synthetic);
    assert_string_equal(d.name, "arxiv-synthetic");
    assert_string_equal(d.split, "time");
    assert_int_equal(d.graph.n_vertices, 169343);
    assert_in_range(d.graph.n_edges, 2 * 1166243 - 40000, 2 * 1166243);
    assert_int_equal(d.features.n_columns, 128);
    assert_int_equal(d.targets.n_classes, 40);
    assert_int_equal(d.train.n, 90941);
    assert_int_equal(d.valid.n, 29799);
    assert_int_equal(d.test.n, 48603);
    assert_ok(sl_statistics_count(&d, &s));
    assert_in_range(s.max_in_degree, 2000, 20000);
    assert_true(s.homophily > 0.63 && s.homophily < 0.68);
    assert_in_range(s.smallest_class, 20, 200);
    assert_in_range(s.largest_class, 20000, 30000);
    assert_int_equal(s.n_isolated, 0);
    size_t n = d.features.n_columns;
    FREED float *means = malloc((size_t)d.graph.n_vertices * n * sizeof *means);
    for (size_t v = 0; v < d.graph.n_vertices; v++) {
        uint64_t first = d.graph.offsets[v];
        uint64_t end = d.graph.offsets[v + 1];
        memcpy(means + v * n, floats_of(&d.features) + v * n, n * sizeof *means);
        for (uint64_t e = first; e < end; e++) {
            for (size_t c = 0; c < n; c++) {
                means[v * n + c] += floats_of(&d.features)[d.graph.sources[e] * n + c];
            }
        }
        for (size_t c = 0; c < n; c++) {
            means[v * n + c] /= (float)(end - first + 1);
        }
    }
    double alone = nearest_centre_accuracy(&d, floats_of(&d.features));
    double together = nearest_centre_accuracy(&d, means);
    print_message("nearest centre: %.3f by a vertex's own features, %.3f by their mean with its neighbours'\n", alone,
                  together);
    assert_true(alone > 0.2 && alone < 0.6);
    assert_true(together > alone + 0.12 && together < 0.85);
}

TEST_MAIN(NULL, nothing_left)
