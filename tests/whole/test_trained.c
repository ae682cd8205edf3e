/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Answers of trained models (runtime/starling.h): a model's file needs a dataset and nothing else. */
#include "tests/support/data_fixture.h"

#include <math.h>
#include <time.h>

#include "runtime/starling.h"

#define N 120 /* vertices */
#define E 480
#define F 5
#define C 3
#define N_TRAIN 60
#define MOST_COLUMNS 16

static uint32_t sources[E], destinations[E], ids[N];
static int32_t labels[N];
static float features[N * F], weights[E], numbers[N * 2], label_sets[N * 2];

static int make_data(void **state)
{
    for (uint32_t v = 0; v < N; v++) {
        ids[v] = v;
        labels[v] = (int32_t)(v % C);
        numbers[2 * v] = (float)(v % C) - 0.7f;
        numbers[2 * v + 1] = (float)(v % 5) * 1.5f;
        label_sets[2 * v] = v % C == 0;
        label_sets[2 * v + 1] = v % 2 == 0;
        for (uint32_t c = 0; c < F; c++) {
            features[v * F + c] =
                (float)((v * 7919 + c * 104729) % 1000) / 400 - 1 + (v % C == c ? 1.5f : 0) + 3.0f * (float)c;
        }
    }
    for (uint32_t e = 0; e < E; e++) {
        sources[e] = e % N;
        destinations[e] = (e * 31 + e / N * C) % N;
        weights[e] = (float)(1 + e % 7) / 3;
    }
    return make_folder(state);
}

static struct sl_arrays arrays(void)
{
    return (struct sl_arrays){.size = sizeof(struct sl_arrays),
                              .name = "crowds",
                              .n_vertices = N,
                              .n_edges = E,
                              .sources = sources,
                              .destinations = destinations,
                              .n_features = F,
                              .features = features,
                              .n_classes = C,
                              .labels = labels,
                              .n_train = N_TRAIN,
                              .n_valid = 30,
                              .n_test = 30,
                              .train = ids,
                              .valid = ids + N_TRAIN,
                              .test = ids + N_TRAIN + 30};
}

/* The same vertices without labels and split. */
static struct sl_arrays unlabelled(void)
{
    struct sl_arrays a = arrays();
    a.labels = NULL;
    a.n_classes = 0;
    a.n_train = a.n_valid = a.n_test = 0;
    a.train = a.valid = a.test = NULL;
    return a;
}

static struct sl_dataset *dataset_of(struct sl_arrays a)
{
    struct sl_dataset *dataset;
    assert_ok(sl_dataset_new(&a, &dataset));
    return dataset;
}

/* Set options "name=value" or "flag", one a word. */
static void set_options(struct sl_settings *settings, const char *options)
{
    char words[512];
    char *rest;
    snprintf(words, sizeof words, "%s", options);
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        if (equals != NULL) {
            *equals++ = '\0';
        }
        assert_ok(sl_settings_set(settings, word, equals));
    }
}

/* Train, save in the folder, and give the outputs. */
static void train(const struct sl_dataset *dataset, const char *options, float *logits)
{
    struct sl_settings *settings;
    struct sl_session *session;
    assert_ok(sl_settings_new(&settings));
    set_options(settings, "cache=none hidden=8 batch-size=20 pes=2 epochs=3 lr=0.02 cpus=2 layers=2 fanout=4,4");
    set_options(settings, options);
    assert_ok(sl_settings_set(settings, "save", in_folder("m.safetensors")));
    assert_ok(sl_session_open(settings, dataset, &session));
    assert_ok(sl_session_train(session, NULL));
    assert_ok(sl_session_evaluate(session, NULL, logits, NULL));
    sl_session_close(session);
    sl_settings_delete(settings);
}

static struct sl_trained *loaded(void)
{
    struct sl_trained *model;
    assert_ok(sl_model_load(in_folder("m.safetensors"), &model));
    assert_ok(sl_model_set(model, "cpus", "2"));
    return model;
}

/* ---- every model, objective and normalization ---- */

static void all_models_answer(void **state)
{
    static const char *const options[] = {"model=sage",
                                          "model=gcn",
                                          "model=gat heads=2",
                                          "model=gcnii alpha=0.2",
                                          "model=resgcn",
                                          "model=gin",
                                          "norm=layer",
                                          "norm=batch residual layers=3 fanout=4,4,4",
                                          "input-layer",
                                          "precision=bf16",
                                          "edge-weights=factor",
                                          "normalize-features=row",
                                          "normalize-features=column"};
    static float logits[N * MOST_COLUMNS], found[N * MOST_COLUMNS];
    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        for (int targets = 0; targets < 3; targets++) {
            struct sl_arrays a = arrays(), b = unlabelled();
            const uint32_t n_columns = targets == 0 ? C : 2;
            const uint32_t some[] = {7, 3, N - 1};
            float rows[3 * MOST_COLUMNS];
            a.edge_weights = b.edge_weights = strstr(options[i], "edge-weights") != NULL ? weights : NULL;
            if (targets > 0) {
                a.labels = NULL;
                a.n_classes = 0;
                a.n_targets = 2;
                a.targets = targets == 1 ? label_sets : numbers;
            }
            struct sl_dataset *dataset = dataset_of(a), *new = dataset_of(b);
            train(dataset, options[i], logits);
            struct sl_trained *model = loaded();
            assert_ok(sl_model_predict(model, dataset, N, NULL, found));
            assert_memory_equal(found, logits, N * n_columns * sizeof *found);
            memset(found, 0, sizeof found);
            assert_ok(sl_model_predict(model, new, N, NULL, found));
            assert_memory_equal(found, logits, N * n_columns * sizeof *found);
            assert_ok(sl_model_predict(model, new, 3, some, rows));
            for (int k = 0; k < 3; k++) {
                assert_memory_equal(rows + k * n_columns, logits + some[k] * n_columns, n_columns * sizeof *rows);
            }
            sl_model_delete(model);
            sl_dataset_delete(new);
            sl_dataset_delete(dataset);
        }
    }
}

/* ---- the calls ---- */

static void models_describe_themselves(void **state)
{
    static float logits[N * C], hidden[N * 8], again[N * C];
    struct sl_arrays a = arrays();
    struct sl_model_facts facts = {.size = sizeof facts};
    struct sl_model_facts none = {.size = 0};
    struct sl_scores scores;
    char text[32];
    (void)state;
    a.class_names = "red\ngreen\nblue\n";
    struct sl_dataset *dataset = dataset_of(a);
    train(dataset, "normalize-features=column", logits);
    struct sl_trained *model = loaded();
    assert_ok(sl_model_describe(model, &facts));
    assert_string_equal(facts.model, "sage");
    assert_string_equal(facts.objective, "class");
    assert_string_equal(facts.dataset, "crowds");
    assert_string_equal(facts.class_names, "red\ngreen\nblue\n");
    assert_true(facts.version == 1 && facts.n_features == F && facts.n_outputs == C && facts.n_embeddings == 8);
    assert_refused(sl_model_describe(model, &none), SL_EINVAL, "a size of 0");
    assert_ok(sl_model_get(model, "normalize-features", text, sizeof text));
    assert_string_equal(text, "column");
    assert_refused(sl_model_set(model, "hidden", "9"), SL_EINVAL, "hidden: found '9', expected '8'");
    assert_ok(sl_model_evaluate(model, dataset, &scores));
    assert_true(scores.n > 0 && scores.score[0].valid >= 0);
    assert_ok(sl_model_embed(model, dataset, N, NULL, hidden));
    assert_true(hidden[0] != 0 || hidden[1] != 0 || hidden[2] != 0);
    assert_refused(sl_model_predict(model, dataset, N - 1, NULL, again), SL_EINVAL, "found 119 rows, expected 120");
    assert_refused(sl_model_predict(model, dataset, 1, (const uint32_t[]){N}, again), SL_EINVAL, "vertices[0] is 120");
    assert_refused(sl_model_score_links(model, dataset, &(struct sl_array_links){0}, again), SL_EINVAL, "of links");
    assert_ok(sl_model_save(model, in_folder("copy.safetensors")));
    sl_model_delete(model);
    assert_ok(sl_model_load(in_folder("copy.safetensors"), &model));
    assert_ok(sl_model_predict(model, dataset, N, NULL, again));
    assert_memory_equal(again, logits, N * C * sizeof *logits);
    sl_model_delete(model);
    sl_dataset_delete(dataset);
}

/* A dataset's memory may come back as another dataset's; a session of the program's own closes the kept one. */
static void calls_follow_each_other(void **state)
{
    static float logits[N * C], found[N * C], other[N * C];
    struct sl_dataset *dataset = dataset_of(arrays());
    (void)state;
    train(dataset, "", logits);
    struct sl_trained *model = loaded();
    assert_ok(sl_model_predict(model, dataset, N, NULL, found));
    sl_dataset_delete(dataset);
    struct sl_arrays a = unlabelled();
    a.n_edges = E / 2;
    dataset = dataset_of(a);
    assert_ok(sl_model_predict(model, dataset, N, NULL, other));
    assert_true(memcmp(found, other, sizeof found) != 0);
    sl_dataset_delete(dataset);
    dataset = dataset_of(arrays());
    train(dataset, "", logits); /* opens a session of its own */
    assert_ok(sl_model_predict(model, dataset, N, NULL, found));
    assert_memory_equal(found, logits, N * C * sizeof *logits);
    sl_model_rest();
    sl_model_delete(model);
    sl_model_delete(NULL);
    sl_dataset_delete(dataset);
}

/* A model of a session: during it, and when it has ended. */
static void sessions_give_models(void **state)
{
    static float logits[N * C], found[N * C];
    struct sl_dataset *dataset = dataset_of(arrays());
    struct sl_settings *settings;
    struct sl_session *session;
    struct sl_trained *model;
    (void)state;
    assert_ok(sl_settings_new(&settings));
    set_options(settings, "cache=none hidden=8 batch-size=10 pes=2 epochs=2 cpus=2 layers=2 sync=dissemination");
    assert_ok(sl_session_open(settings, dataset, &session));
    assert_ok(sl_session_train(session, NULL));
    assert_ok(sl_session_evaluate(session, NULL, logits, NULL));
    assert_ok(sl_session_model(session, &model));
    assert_refused(sl_model_predict(model, dataset, N, NULL, found), SL_EINVAL, "StarPU is up already");
    sl_session_close(session);
    sl_settings_delete(settings);
    assert_ok(sl_model_predict(model, dataset, N, NULL, found));
    assert_memory_equal(found, logits, N * C * sizeof *logits);
    sl_model_delete(model);
    sl_dataset_delete(dataset);
}

static void other_features_are_refused(void **state)
{
    static float logits[N * C], wide[N * (F + 1)];
    struct sl_dataset *dataset = dataset_of(arrays());
    struct sl_arrays a = unlabelled();
    (void)state;
    a.features = wide;
    a.n_features = F + 1;
    struct sl_dataset *other = dataset_of(a);
    train(dataset, "", logits);
    struct sl_trained *model = loaded();
    assert_refused(sl_model_predict(model, other, N, NULL, logits), SL_EINVAL, "features: found 6 columns");
    sl_model_delete(model);
    assert_refused(sl_model_load(in_folder("none"), &model), SL_EIO, "none");
    assert_null(model);
    sl_dataset_delete(other);
    sl_dataset_delete(dataset);
}

/* Files are opened with the direction of the model's edges. */
static void files_are_read_as_the_model_says(void **state)
{
    static float logits[N * C], found[N * C];
    struct sl_arrays a = arrays();
    struct sl_settings *settings;
    struct sl_dataset *dataset;
    (void)state;
    a.directed = true;
    dataset = dataset_of(a);
    train(dataset, "", logits);
    sl_dataset_delete(dataset);
    struct sl_trained *model = loaded();
    FILE *nodes = fopen(in_folder("nodes.csv"), "w");
    FILE *edges = fopen(in_folder("edges.csv"), "w");
    assert_true(nodes != NULL && edges != NULL);
    fputs("id,a,b,c,d,e\n", nodes);
    for (uint32_t v = 0; v < N; v++) {
        fprintf(nodes, "v%u", v);
        for (uint32_t c = 0; c < F; c++) {
            fprintf(nodes, ",%.9g", (double)features[v * F + c]);
        }
        fputs("\n", nodes);
    }
    fputs("src,dst\n", edges);
    for (uint32_t e = 0; e < E; e++) {
        fprintf(edges, "v%u,v%u\n", sources[e], destinations[e]);
    }
    assert_true(fclose(nodes) == 0 && fclose(edges) == 0);
    assert_ok(sl_settings_new(&settings));
    assert_ok(sl_settings_set(settings, "dataset", in_folder("")));
    assert_ok(sl_settings_set(settings, "cache", "none"));
    assert_ok(sl_settings_set(settings, "epochs", "0"));
    assert_ok(sl_model_open_dataset(model, settings, &dataset));
    assert_ok(sl_model_predict(model, dataset, N, NULL, found));
    assert_memory_equal(found, logits, N * C * sizeof *logits);
    sl_dataset_delete(dataset);
    assert_ok(sl_settings_set(settings, "features", "degree"));
    assert_refused(sl_model_open_dataset(model, settings, &dataset), SL_EINVAL, "--features: found 'degree'");
    assert_ok(sl_settings_set(settings, "load", "m.safetensors"));
    assert_refused(sl_model_open_dataset(model, settings, &dataset), SL_EINVAL, "expected none: the model is given");
    assert_null(dataset);
    sl_settings_delete(settings);
    sl_model_delete(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_models_answer),          cmocka_unit_test(models_describe_themselves),
        cmocka_unit_test(calls_follow_each_other),    cmocka_unit_test(sessions_give_models),
        cmocka_unit_test(other_features_are_refused), cmocka_unit_test(files_are_read_as_the_model_says),
    };
    return cmocka_run_group_tests(tests, make_data, remove_folder);
}
