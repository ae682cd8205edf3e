/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Answers of trained models (runtime/starling.h): a model's file needs a dataset and nothing else. */
#include "tests/support/session_fixture.h"

#include <math.h>
#include <sys/wait.h>

#include "runtime/starling.h"
#include "support/real.h"

#define N 120 /* vertices, of which the first HALF and the others have no edge in common */
#define HALF 60
#define E 480
#define F 5
#define C 3
#define R 3 /* relations */
#define N_TRAIN 60
#define N_LINKS 40
#define H 8 /* columns of embeddings */

static uint32_t sources[E], destinations[E], ids[N];
static uint16_t relations[E];
static int32_t labels[N];
static float features[N * F], weights[E], numbers[N * 2], label_sets[N * 2];

static int fill_data(void **state)
{
    (void)state;
    for (uint32_t v = 0; v < N; v++) {
        ids[v] = v * 7 % N;
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
        destinations[e] = (e * 31 + e / N * C) % HALF + sources[e] / HALF * HALF;
        relations[e] = (uint16_t)(e * 7 / 5 % R);
        weights[e] = (float)(1 + e % 7) / 3;
    }
    return 0;
}

static int make_data(void **state)
{
    return fill_data(state) != 0 || make_folder(state) != 0;
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

/* Train and save. Outputs, embeddings and scores of pairs may be NULL. */
static void train_all(const struct sl_dataset *dataset, const char *options, const char *file, float *logits,
                      float *embeddings, const struct sl_array_links *pairs, float *scores)
{
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    OWNED(sl_session_close_it) struct sl_session *session;
    assert_ok(sl_settings_new(&settings));
    set_options(settings, "cache=none hidden=8 batch-size=20 pes=2 epochs=3 lr=0.02 cpus=2 layers=2 fanout=4,4");
    set_options(settings, options);
    assert_ok(sl_settings_set(settings, "save", in_folder(file)));
    assert_ok(sl_session_open(settings, dataset, &session));
    assert_ok(sl_session_train(session, NULL));
    assert_ok(sl_session_evaluate(session, NULL, logits, embeddings));
    if (pairs != NULL) {
        assert_ok(sl_session_score_links(session, pairs, scores));
    }
}

/* Train, save in the folder, and give the outputs. */
static void train(const struct sl_dataset *dataset, const char *options, float *logits)
{
    train_all(dataset, options, "m.safetensors", logits, NULL, NULL, NULL);
}

static struct sl_trained *load_file(const char *file)
{
    struct sl_trained *model;
    assert_ok(sl_model_load(in_folder(file), &model));
    assert_ok(sl_model_set(model, "cpus", "2"));
    return model;
}

static struct sl_trained *loaded(void)
{
    return load_file("m.safetensors");
}

/* ---- every model, objective and normalization ---- */

/* A model is asked for scores of the graph that it was trained on; of the same vertices, edges, types and relations in
 * another order; of the first half of the graph. None of them has targets. */
enum { SAME, TURNED, PART, N_QUESTIONS };

struct question {
    struct sl_arrays arrays;
    uint32_t sources[E], destinations[E], place[N]; /* place: of each vertex of training; N: none */
    uint16_t relations[E];
    float features[N * F], weights[E];
};

static const uint32_t of_type[] = {HALF, HALF}, columns[] = {F, F};

static void add_types(struct sl_arrays *a)
{
    a->edge_relations = relations;
    a->n_relations = R;
    a->relation_names = "ant,likes,ant\n,sees,\nbee,near,\n";
    a->n_types = 2;
    a->type_names = "ant\nbee\n";
    a->type_vertices = of_type;
    a->type_columns = columns;
}

static void make_question(int which, bool typed, bool weighted, struct question *q)
{
    uint64_t n_edges = 0;
    q->arrays = unlabelled();
    q->arrays.n_vertices = which == PART ? HALF : N;
    if (typed) {
        add_types(&q->arrays);
    }
    for (uint32_t v = 0; v < N; v++) { /* the other order has the other half, and type, first */
        q->place[v] = which != TURNED ? v : N - 1 - (v / HALF * HALF + v % HALF * 7 % HALF);
        q->place[v] = q->place[v] < q->arrays.n_vertices ? q->place[v] : N;
        if (q->place[v] < N) {
            memcpy(q->features + q->place[v] * F, features + v * F, F * sizeof *features);
        }
    }
    for (uint32_t i = 0; i < E; i++) {
        const uint32_t e = which == SAME ? i : E - 1 - i;
        if (q->place[sources[e]] < N) {
            q->sources[n_edges] = q->place[sources[e]];
            q->destinations[n_edges] = q->place[destinations[e]];
            q->relations[n_edges] = which == TURNED ? (uint16_t)((relations[e] + 1) % R) : relations[e];
            q->weights[n_edges++] = weights[e];
        }
    }
    q->arrays.n_edges = n_edges;
    q->arrays.sources = q->sources;
    q->arrays.destinations = q->destinations;
    q->arrays.features = q->features;
    q->arrays.edge_weights = weighted ? q->weights : NULL;
    if (typed) {
        q->arrays.edge_relations = q->relations;
        if (which == TURNED) {
            q->arrays.relation_names = "bee,near,\nant,likes,ant\n,sees,\n";
            q->arrays.type_names = "bee\nant\n";
        }
        q->arrays.n_types = which == PART ? 1 : 2;
        q->arrays.type_names = which == PART ? "ant\n" : q->arrays.type_names;
    }
}

enum { CLASSES, LABEL_SETS, NUMBERS, LINKS, N_OBJECTIVES };

static const uint32_t n_outputs[] = {C, 2, 2, H};

/* Pairs of the first half that are no edges. */
static uint32_t make_pairs(uint32_t n, uint32_t *from, uint32_t *to, uint16_t *relation)
{
    uint32_t n_made = 0;
    for (uint32_t i = 0; i < HALF * HALF && n_made < n; i += 17) {
        bool is_edge = i / HALF >= i % HALF;
        for (uint32_t e = 0; e < E && !is_edge; e++) {
            is_edge = (sources[e] == i / HALF && destinations[e] == i % HALF) ||
                      (destinations[e] == i / HALF && sources[e] == i % HALF);
        }
        if (!is_edge) {
            from[n_made] = i / HALF;
            to[n_made] = i % HALF;
            relation[n_made] = (uint16_t)(n_made % R);
            n_made++;
        }
    }
    return n_made;
}

static uint32_t pair_from[N_LINKS], pair_to[N_LINKS];
static uint16_t pair_relation[N_LINKS];

static void set_objective(int objective, bool typed, struct sl_arrays *a)
{
    const uint16_t *of_pairs = typed ? pair_relation : NULL;
    const uint32_t n = N_LINKS / 2;
    if (objective == CLASSES) {
        return;
    }
    a->labels = NULL;
    a->n_classes = 0;
    if (objective == LINKS) {
        assert_int_equal(make_pairs(N_LINKS, pair_from, pair_to, pair_relation), N_LINKS);
        a->n_train = a->n_valid = a->n_test = 0;
        a->train = a->valid = a->test = NULL;
        a->valid_links = (struct sl_array_links){n, pair_from, pair_to, of_pairs};
        a->test_links = (struct sl_array_links){n, pair_from + n, pair_to + n, typed ? pair_relation + n : NULL};
        return;
    }
    a->n_targets = 2;
    a->targets = objective == LABEL_SETS ? label_sets : numbers;
}

/* The largest difference of rows of the first half, over the largest number. */
static double distance(const struct question *q, uint32_t n_columns, const float *found, const float *expected)
{
    double most = 0, size = 1;
    for (uint32_t v = 0; v < N; v++) {
        for (uint32_t c = 0; c < n_columns && q->place[v] < N; c++) {
            const double x = expected[v * n_columns + c];
            most = fmax(most, fabs(found[q->place[v] * n_columns + c] - x));
            size = fmax(size, fabs(x));
        }
    }
    return most / size;
}

/* Ask for scores, embeddings and, of a model of links, pairs. Gives the largest distance. */
static double ask(struct sl_trained *model, const struct question *q, int objective, const float *rows,
                  const float *hidden, const float *scores)
{
    static float found[N * H], few[3 * H];
    const uint32_t n = q->arrays.n_vertices;
    const uint32_t some[] = {7, 3, n - 1};
    struct sl_dataset *dataset = dataset_of(q->arrays);
    double most = 0;
    if (objective != LINKS) {
        assert_ok(sl_model_predict(model, dataset, n, NULL, found));
        most = distance(q, n_outputs[objective], found, rows);
        assert_ok(sl_model_predict(model, dataset, 3, some, few));
        for (int k = 0; k < 3; k++) {
            assert_memory_equal(few + k * n_outputs[objective], found + some[k] * n_outputs[objective],
                                n_outputs[objective] * sizeof *found);
        }
    } else {
        uint32_t from[N_LINKS], to[N_LINKS];
        uint16_t relation[N_LINKS];
        double size = 1;
        for (int i = 0; i < N_LINKS; i++) {
            from[i] = q->place[pair_from[i]];
            to[i] = q->place[pair_to[i]];
            relation[i] = (uint16_t)((pair_relation[i] + (q->place[0] != 0)) % R);
        }
        struct sl_array_links pairs = {N_LINKS, from, to, q->arrays.n_relations > 0 ? relation : NULL};
        assert_ok(sl_model_score_links(model, dataset, &pairs, found));
        for (int i = 0; i < N_LINKS; i++) {
            size = fmax(size, fabs((double)scores[i]));
        }
        for (int i = 0; i < N_LINKS; i++) {
            most = fmax(most, fabs((double)(found[i] - scores[i])) / size);
        }
    }
    assert_ok(sl_model_embed(model, dataset, n, NULL, found));
    most = fmax(most, distance(q, H, found, hidden));
    sl_dataset_delete(dataset);
    return most;
}

/* A model, and what it was asked when it had been trained. */
struct trained {
    char options[120];
    int objective;
    float rows[N * H], hidden[N * H], scores[N_LINKS];
};

/* Model i of all: each of the first ones with each objective, and with each normalization. False: there are no more. */
static bool choose(int i, struct trained *out)
{
    static const char *const kinds[] = {"model=sage",
                                        "model=gcn",
                                        "model=gat heads=2",
                                        "model=gcnii alpha=0.2",
                                        "model=resgcn",
                                        "model=gin",
                                        "model=rgcn bases=2",
                                        "model=rgat heads=2",
                                        "norm=layer",
                                        "norm=batch residual layers=3 fanout=4,4,4",
                                        "model=gat heads=2 norm=batch",
                                        "input-layer output-layers=2",
                                        "precision=bf16",
                                        "edge-weights=factor",
                                        "model=rgcn edge-weights=factor",
                                        "model=rgat heads=2 edge-weights=factor"};
    static const char *const norms[] = {"none", "row", "column"};
    const int n_kinds = sizeof kinds / sizeof *kinds;
    const int kind = i / N_OBJECTIVES;
    *out = (struct trained){.objective = i % N_OBJECTIVES};
    if (kind >= n_kinds) {
        return false;
    }
    const char *norm = norms[(kind + out->objective) % 3];
    const bool typed = strstr(kinds[kind], "rg") != NULL;
    const bool weighted = strcmp(kinds[kind], "edge-weights=factor") == 0; /* links take it in a typed graph alone */
    snprintf(out->options, sizeof out->options, "%s normalize-features=%s",
             weighted && out->objective == LINKS ? "decoder=mlp" : kinds[kind],
             typed && strcmp(norm, "column") == 0 ? "none" : norm);
    return true;
}

/* In a process of its own: train all models. Files I.safetensors and I. */
static void train_models(void **state)
{
    static struct trained t;
    char name[40];
    (void)state;
    for (int i = 0; choose(i, &t); i++) {
        const bool typed = strstr(t.options, "rg") != NULL;
        struct sl_arrays a = arrays();
        struct sl_array_links pairs = {N_LINKS, pair_from, pair_to, typed ? pair_relation : NULL};
        a.edge_weights = strstr(t.options, "edge-weights") != NULL ? weights : NULL;
        if (typed) {
            add_types(&a);
        }
        set_objective(t.objective, typed, &a);
        OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = dataset_of(a);
        snprintf(name, sizeof name, "%d.safetensors", i);
        const bool links = t.objective == LINKS;
        train_all(dataset, t.options, name, links ? NULL : t.rows, t.hidden, links ? &pairs : NULL, t.scores);
        snprintf(name, sizeof name, "%d", i);
        FILE *file = fopen(in_folder(name), "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(&t, sizeof t, 1, file), 1);
        assert_int_equal(fclose(file), 0);
    }
}

/* The most that scores in another order may differ, over the largest score. In double the scores are rounded to float.
 * In float, sums over the neighbours are rounded in another order, and a bf16 row may round to its other neighbour. */
static double bound(const char *options)
{
    if (sizeof(sl_real) == sizeof(double)) {
        return 1.2e-7;
    }
    return strstr(options, "bf16") != NULL ? 0.02 : 1e-6;
}

TEST(all_models_answer)
{
    static struct trained t;
    static struct question q;
    char name[40];
    int status;
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test_trained", folder, (char *)NULL);
        _exit(127);
    }
    assert_true(waitpid(child, &status, 0) == child && status == 0);
    assert_int_equal(make_pairs(N_LINKS, pair_from, pair_to, pair_relation), N_LINKS);
    for (int i = 0; choose(i, &t); i++) {
        snprintf(name, sizeof name, "%d", i);
        FILE *file = fopen(in_folder(name), "rb");
        assert_non_null(file);
        assert_int_equal(fread(&t, sizeof t, 1, file), 1);
        assert_int_equal(fclose(file), 0);
        snprintf(name, sizeof name, "%d.safetensors", i);
        OWNED(sl_model_delete_it) struct sl_trained *model = load_file(name);
        for (int which = 0; which < N_QUESTIONS; which++) {
            make_question(which, strstr(t.options, "rg") != NULL, strstr(t.options, "edge-weights") != NULL, &q);
            const double most = ask(model, &q, t.objective, t.rows, t.hidden, t.scores);
            if (most > (which == TURNED ? bound(t.options) : 0)) {
                fail_msg("%s, objective %d, question %d: scores differ by %g of the largest", t.options, t.objective,
                         which, most);
            }
        }
    }
}

/* ---- the calls ---- */

TEST(models_describe_themselves)
{
    static float logits[N * C], hidden[N * 8], again[N * C];
    struct sl_arrays a = arrays();
    struct sl_model_facts facts = {.size = sizeof facts};
    struct sl_model_facts none = {.size = 0};
    struct sl_scores scores;
    char text[32];
    a.class_names = "red\ngreen\nblue\n";
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = dataset_of(a);
    train(dataset, "normalize-features=column", logits);
    OWNED(sl_model_delete_it) struct sl_trained *model = loaded();
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
    assert_refused(sl_model_set(model, "dataset", "x"), SL_EINVAL,
                   "dataset: found 'x', expected options of the answers");
    assert_refused(sl_model_set(model, "save", "x"), SL_EINVAL, "save: found 'x', expected options of the answers");
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
}

/* A dataset's memory may come back as another dataset's; a session of the program's own closes the kept one. */
TEST(calls_follow_each_other)
{
    static float logits[N * C], found[N * C], other[N * C];
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = dataset_of(arrays());
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
}

/* A model of a session: during it, and when it has ended. */
TEST(sessions_give_models)
{
    static float logits[N * C], found[N * C];
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = dataset_of(arrays());
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    struct sl_session *session;
    OWNED(sl_model_delete_it) struct sl_trained *model;
    assert_ok(sl_settings_new(&settings));
    set_options(settings, "cache=none hidden=8 batch-size=10 pes=2 epochs=2 cpus=2 layers=2 sync=dissemination");
    assert_ok(sl_session_open(settings, dataset, &session));
    assert_ok(sl_session_train(session, NULL));
    assert_ok(sl_session_evaluate(session, NULL, logits, NULL));
    assert_ok(sl_session_model(session, &model));
    assert_refused(sl_model_predict(model, dataset, N, NULL, found), SL_EINVAL, "StarPU is up already");
    sl_session_close(session);
    assert_ok(sl_model_predict(model, dataset, N, NULL, found));
    assert_memory_equal(found, logits, N * C * sizeof *logits);
}

TEST(other_features_are_refused)
{
    static float logits[N * C], wide[N * (F + 1)];
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = dataset_of(arrays());
    struct sl_arrays a = unlabelled();
    a.features = wide;
    a.n_features = F + 1;
    OWNED(sl_dataset_delete_it) struct sl_dataset *other = dataset_of(a);
    train(dataset, "", logits);
    struct sl_trained *model = loaded();
    assert_refused(sl_model_predict(model, other, N, NULL, logits), SL_EINVAL, "features: found 6 columns");
    sl_model_delete(model);
    assert_refused(sl_model_load(in_folder("none"), &model), SL_EIO, "none");
    assert_null(model);
}

/* Files are opened with the direction of the model's edges. */
TEST(files_are_read_as_the_model_says)
{
    static float logits[N * C], found[N * C];
    struct sl_arrays a = arrays();
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    struct sl_dataset *dataset;
    a.directed = true;
    dataset = dataset_of(a);
    train(dataset, "", logits);
    sl_dataset_delete(dataset);
    OWNED(sl_model_delete_it) struct sl_trained *model = loaded();
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
    assert_refused(sl_model_open_dataset(model, settings, &dataset), SL_EINVAL, "cannot be used with a loaded model");
    assert_null(dataset);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest training[] = {cmocka_unit_test(train_models)};
    if (argc > 1) {
        snprintf(folder, sizeof folder, "%s", argv[1]);
        return freopen("/dev/null", "w", stdout) == NULL || cmocka_run_group_tests(training, fill_data, NULL);
    }
    return run_listed_tests(make_data, remove_folder);
}
