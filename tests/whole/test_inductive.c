/* double */
/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Scores of new vertices (sl_model_predict_new) have the bits of the scores that these vertices get in a graph which
 * has them from the start: every model, form of features, and kind of edges. */
#include "tests/support/session_fixture.h"

#include <math.h>

#include "runtime/machine/gpus.h"
#include "runtime/starling.h"
#include "runtime/train/session.h"
#include "support/memory.h"

#define OLD 400 /* vertices of the loaded graph */
#define NEW 9
#define N (OLD + NEW)
#define E 3000 /* edges of the loaded graph */
#define E_NEW 60
#define F 40
#define C 3
#define R 3 /* relations */
#define D 2 /* features of an edge */
#define H 8

/* The whole graph: the loaded graph's edges come first. */
static uint32_t sources[E + E_NEW], destinations[E + E_NEW], ids[OLD];
static uint16_t relations[E + E_NEW];
static int32_t labels[N];
static float features[N * F], weights[E + E_NEW], edge_features[(E + E_NEW) * D];
static uint16_t halves[N * F];
static int8_t bytes[N * F];
static uint64_t sparse_offsets[N + 1], no_offset[N + 1];
static uint32_t sparse_columns[N * F];
static float sparse_values[N * F];

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % n);
}

/* Vertex 0 is a hub. The last new vertex has no edge, the one before it an edge from itself. */
static void make_edges(void)
{
    for (uint32_t e = 0; e < E; e++) {
        sources[e] = random_below(OLD);
        destinations[e] = e % 8 == 0 ? 0 : random_below(OLD);
    }
    for (uint32_t e = E; e < E + E_NEW; e++) {
        const uint32_t v = OLD + random_below(NEW - 2);
        const uint32_t other = e % 5 == 0 ? OLD + random_below(NEW - 2) : random_below(e % 3 == 0 ? 5 : OLD);
        sources[e] = e % 2 == 0 ? v : other;
        destinations[e] = e % 2 == 0 ? other : v;
    }
    sources[E] = destinations[E] = N - 2;
    sources[E + 2] = sources[E + 1]; /* twice */
    destinations[E + 2] = destinations[E + 1];
    for (uint32_t e = 0; e < E + E_NEW; e++) {
        relations[e] = (uint16_t)random_below(R);
        weights[e] = (float)(1 + random_below(9)) / 4;
        edge_features[e * D] = (float)random_below(100) / 50 - 1;
        edge_features[e * D + 1] = (float)random_below(100) / 30;
    }
}

static int make_data(void **state)
{
    make_edges();
    for (uint32_t v = 0; v < N; v++) {
        labels[v] = (int32_t)(v % C);
        for (uint32_t c = 0; c < F; c++) {
            const uint32_t i = v * F + c;
            bytes[i] = (int8_t)((int)random_below(200) - 100 + (v % C == c ? 27 : 0));
            features[i] = (float)bytes[i] / 64;
            halves[i] = (uint16_t)(random_below(2) << 15 | (13 + random_below(3)) << 10 | random_below(1024));
            if (c % 16 == v % 16) {
                sparse_columns[sparse_offsets[v + 1]] = c;
                sparse_values[sparse_offsets[v + 1]++] = features[i];
            }
        }
        sparse_offsets[v + 1 + (v + 1 < N)] = sparse_offsets[v + 1];
    }
    for (uint32_t v = 0; v < OLD; v++) {
        ids[v] = v;
    }
    return make_folder(state);
}

enum form { FLOATS, HALVES, BYTES, SPARSE };

struct kind {
    const char *options; /* of training; "pipe ..": of pipe_gnn */
    enum form form;
    bool typed, weighted, edges, directed, links;
};

/* n vertices from `first` on. */
static void set_features(enum form form, uint32_t first, uint32_t n, struct sl_arrays *a)
{
    a->n_vertices = n;
    a->n_features = F;
    if (form == SPARSE) {
        for (uint32_t v = 0; v <= n; v++) {
            no_offset[v] = sparse_offsets[first + v] - sparse_offsets[first];
        }
        a->feature_offsets = no_offset;
        a->feature_columns = sparse_columns + sparse_offsets[first];
        a->feature_values = sparse_values + sparse_offsets[first];
    } else if (form == HALVES) {
        a->features = halves + (size_t)first * F;
        a->feature_dtype = "float16";
    } else if (form == BYTES) {
        a->features = bytes + (size_t)first * F;
        a->feature_dtype = "int8";
        a->feature_scale = 0.0625f;
    } else {
        a->features = features + (size_t)first * F;
    }
}

/* n edges from `first` on. */
static void set_edges(const struct kind *kind, uint32_t first, uint32_t n, struct sl_arrays *a)
{
    a->n_edges = n;
    a->sources = sources + first;
    a->destinations = destinations + first;
    a->directed = kind->directed;
    if (kind->typed) {
        a->edge_relations = relations + first;
        a->n_relations = R;
        a->relation_names = "ant,likes,ant\n,sees,\nbee,near,\n";
    }
    if (kind->weighted) {
        a->edge_weights = weights + first;
    }
    if (kind->edges) {
        a->n_edge_features = D;
        a->edge_features = edge_features + (size_t)first * D;
    }
}

static struct sl_arrays arrays_of(const struct kind *kind, uint32_t first, uint32_t n, uint32_t first_edge,
                                  uint32_t n_edges)
{
    struct sl_arrays a = {.size = sizeof a};
    set_features(kind->form, first, n, &a);
    set_edges(kind, first_edge, n_edges, &a);
    return a;
}

static struct sl_dataset *dataset_of(const struct sl_arrays *a)
{
    struct sl_dataset *dataset;
    assert_ok(sl_dataset_new(a, &dataset));
    return dataset;
}

/* Train on a graph of OLD vertices. */
static struct sl_trained *train_on(const struct kind *kind, struct sl_arrays a)
{
    const bool pipe = strncmp(kind->options, "pipe ", 5) == 0;
    OWNED(sl_settings_delete_it) struct sl_settings *settings;
    OWNED(sl_session_close_it) struct sl_session *session;
    struct sl_trained *model;
    if (kind->links) {
        a.train_links = (struct sl_array_links){.n = E, .from = sources, .to = destinations};
    } else {
        a.labels = labels;
        a.n_classes = C;
        a.n_train = OLD / 2;
        a.train = ids;
    }
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset = dataset_of(&a);
    assert_ok(pipe ? sl_settings_new_pipe(&settings) : sl_settings_new(&settings));
    set_options(settings, "cache=none hidden=8 epochs=1 lr=0.05 cpus=2 gpus=0 partition=random eval-every=0");
    set_options(settings, kind->options + (pipe ? 5 : 0));
    assert_ok(sl_session_open(settings, dataset, &session));
    assert_ok(sl_session_train(session, NULL));
    assert_ok(sl_session_model(session, &model));
    return model;
}

static struct sl_trained *train(const struct kind *kind)
{
    return train_on(kind, arrays_of(kind, 0, OLD, 0, E));
}

/* The new vertices' rows are those of the whole graph: to the bit, or nearly. */
static void expect_rows(const float *found, const float *expected, size_t n, double tolerance)
{
    double size = 1;
    if (tolerance == 0) {
        assert_memory_equal(found, expected, n * sizeof *found);
    }
    for (size_t i = 0; i < n; i++) {
        size = fmax(size, fabs((double)expected[i]));
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(fabs((double)(found[i] - expected[i])) <= tolerance * size);
    }
}

static void ask(struct sl_trained *model, const struct kind *kind, double tolerance)
{
    static float expected[N * H], hidden[N * H], found[NEW * H], found_hidden[NEW * H];
    const struct sl_arrays all = arrays_of(kind, 0, N, 0, E + E_NEW);
    OWNED(sl_dataset_delete_it) struct sl_dataset *whole = dataset_of(&all);
    const struct sl_arrays old = arrays_of(kind, 0, OLD, 0, E);
    OWNED(sl_dataset_delete_it) struct sl_dataset *loaded = dataset_of(&old);
    const struct sl_arrays added = arrays_of(kind, OLD, NEW, E, E_NEW);
    float *scores = kind->links ? NULL : found;
    if (!kind->links) {
        assert_ok(sl_model_predict(model, whole, N, NULL, expected));
    }
    assert_ok(sl_model_embed(model, whole, N, NULL, hidden));
    for (int twice = 0; twice < 2; twice++) { /* nothing stays of the first call */
        memset(found, 0xff, sizeof found);
        memset(found_hidden, 0xff, sizeof found_hidden);
        assert_ok(sl_model_predict_new(model, loaded, &added, scores, found_hidden));
        if (!kind->links) {
            expect_rows(found, expected + (size_t)OLD * C, (size_t)NEW * C, tolerance);
        }
        expect_rows(found_hidden, hidden + (size_t)OLD * H, (size_t)NEW * H, tolerance);
    }
}

/* A GPU's product of a row depends on the rows beside it. */
static void check(const struct kind *kind)
{
    const bool narrow = strstr(kind->options, "bf16") != NULL;
    OWNED(sl_model_delete_it) struct sl_trained *model = train(kind);
    assert_ok(sl_model_set(model, "cpus", "2"));
    if (strncmp(kind->options, "pipe ", 5) != 0) {
        assert_ok(sl_model_set(model, "pes", "3"));
    }
    assert_ok(sl_model_set(model, "gpus", "0"));
    ask(model, kind, 0);
    if (sl_gpus_count() > 0) {
        assert_ok(sl_model_set(model, "gpus", "all"));
        ask(model, kind, narrow ? 2e-2 : 1e-4);
    }
}

static const struct kind kinds[] = {
    {.options = "model=sage layers=2"},
    {.options = "model=sage layers=3 normalize-features=column", .directed = true},
    {.options = "model=sage layers=2 edge-weights=factor normalize-features=row", .weighted = true},
    {.options = "model=sage layers=2 edge-features=concat", .edges = true},
    {.options = "model=sage layers=2 precision=bf16"},
    {.options = "model=sage layers=2", .form = HALVES},
    {.options = "model=sage layers=2", .form = BYTES},
    {.options = "model=sage layers=2", .form = SPARSE},
    {.options = "model=sage layers=2 objective=link", .links = true},
    {.options = "model=gcn layers=2"},
    {.options = "model=gcn layers=3 edge-weights=factor", .weighted = true, .form = SPARSE},
    {.options = "model=gcn layers=2", .directed = true},
    {.options = "model=gcn layers=2 edge-weights=factor", .weighted = true, .directed = true},
    {.options = "model=gat layers=2 heads=2 edge-features=add", .edges = true},
    {.options = "model=gatv2 layers=2 heads=2"},
    {.options = "model=gin layers=2"},
    {.options = "model=rgcn layers=2", .typed = true},
    {.options = "model=rgcn layers=2 edge-features=add", .typed = true, .edges = true, .form = SPARSE},
    {.options = "model=rgat layers=2 heads=2 edge-weights=factor", .typed = true, .weighted = true, .directed = true},
    {.options = "pipe model=gcnii layers=4"},
    {.options = "pipe model=resgcn layers=3"},
};

TEST(new_vertices_have_their_scores_in_the_whole_graph)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        check(&kinds[k]);
    }
}

/* New vertices without edges; more new vertices than there are old ones; relations by the dataset's numbers. */
TEST(any_number_of_new_vertices)
{
    static float found[N * C], expected[N * C];
    const struct kind kind = {.options = "model=sage layers=2"};
    const struct sl_arrays old = arrays_of(&kind, 0, OLD, 0, E);
    const struct sl_arrays whole = arrays_of(&kind, 0, OLD, 0, 0);
    struct sl_arrays added = arrays_of(&kind, 0, OLD, 0, 0);
    added.sources = added.destinations = NULL;
    OWNED(sl_dataset_delete_it) struct sl_dataset *loaded = dataset_of(&old);
    OWNED(sl_dataset_delete_it) struct sl_dataset *alone = dataset_of(&whole);
    OWNED(sl_model_delete_it) struct sl_trained *model = train(&kind);
    assert_ok(sl_model_set(model, "gpus", "0"));
    assert_ok(sl_model_predict(model, alone, OLD, NULL, expected));
    assert_ok(sl_model_predict_new(model, loaded, &added, found, NULL));
    assert_memory_equal(found, expected, (size_t)OLD * C * sizeof *found);
    assert_ok(sl_model_predict_new(model, loaded, &added, NULL, NULL));
}

static void refused(struct sl_trained *model, const struct sl_dataset *loaded, const struct sl_arrays *added,
                    const char *message)
{
    static float found[N * H];
    memset(found, 0x5a, sizeof found);
    assert_refused(sl_model_predict_new(model, loaded, added, found, NULL), SL_EINVAL, message);
    for (size_t i = 0; i < sizeof found; i++) {
        assert_int_equal(((const char *)found)[i], 0x5a);
    }
}

/* A model of links is asked for nothing, and for scores; samples are not for answers. */
TEST(odd_questions)
{
    const struct kind linked = {.options = "model=sage layers=2 objective=link", .links = true};
    const struct sl_arrays old = arrays_of(&linked, 0, OLD, 0, E);
    const struct sl_arrays added = arrays_of(&linked, OLD, NEW, E, E_NEW);
    OWNED(sl_dataset_delete_it) struct sl_dataset *loaded = dataset_of(&old);
    struct sl_trained *model = train(&linked);
    assert_ok(sl_model_predict_new(model, loaded, &added, NULL, NULL));
    refused(model, loaded, &added, "found a model of links");
    assert_refused(sl_model_set(model, "score-fanout", "3"), SL_EINVAL, "expected options of the answers");
    sl_model_delete(model);
}

/* The columns of types are moved to where the model has them, but not those of new vertices. */
TEST(types_in_another_order)
{
    enum { FEW = 10, HALF = OLD / 2 };
    static const uint32_t vertices[] = {HALF, HALF}, columns[] = {F - FEW, FEW}, turned[] = {FEW, F - FEW};
    static float found[NEW * C], own[OLD * F], own_turned[OLD * F];
    for (uint32_t v = 0; v < OLD; v++) {
        for (uint32_t c = 0; c < F; c++) {
            own[v * F + c] = (c < F - FEW) == (v < HALF) ? features[v * F + c] : 0;
            own_turned[v * F + c] = (c < FEW) == (v < HALF) ? features[v * F + c] : 0;
        }
    }
    const struct kind kind = {.options = "model=rgcn layers=2", .typed = true};
    struct sl_arrays old = arrays_of(&kind, 0, OLD, 0, E);
    const struct sl_arrays added = arrays_of(&kind, OLD, NEW, E, E_NEW);
    old.n_types = 2;
    old.type_names = "ant\nbee\n";
    old.type_vertices = vertices;
    old.type_columns = columns;
    old.features = own;
    OWNED(sl_dataset_delete_it) struct sl_dataset *same = dataset_of(&old);
    OWNED(sl_model_delete_it) struct sl_trained *model = train_on(&kind, old);
    old.type_names = "bee\nant\n";
    old.type_columns = turned;
    OWNED(sl_dataset_delete_it) struct sl_dataset *mixed = dataset_of(&old);
    old.features = own_turned;
    OWNED(sl_dataset_delete_it) struct sl_dataset *other = dataset_of(&old);
    assert_ok(sl_model_predict_new(model, same, &added, found, NULL));
    refused(model, other, &added, "found types of vertices in another order");
    refused(model, mixed, &added, "found vertex 0 of type 'bee' with features in columns of other types");
}

/* A session whose task has failed is opened again. */
TEST(a_failure_is_forgotten)
{
    static float found[NEW * C], expected[NEW * C];
    const struct kind kind = {.options = "model=sage layers=2"};
    const struct sl_arrays old = arrays_of(&kind, 0, OLD, 0, E);
    const struct sl_arrays added = arrays_of(&kind, OLD, NEW, E, E_NEW);
    OWNED(sl_dataset_delete_it) struct sl_dataset *loaded = dataset_of(&old);
    OWNED(sl_model_delete_it) struct sl_trained *model = train(&kind);
    assert_ok(sl_model_predict_new(model, loaded, &added, expected, NULL));
    sl_failure_set(&sl_kept_session()->run.failure, sl_fail(SL_ENOMEM, "a buffer"));
    assert_ok(sl_model_predict_new(model, loaded, &added, found, NULL));
    assert_memory_equal(found, expected, sizeof found);
}

TEST(wrong_arrays_are_refused)
{
    static uint32_t wrong[E_NEW];
    static uint16_t few[E_NEW];
    static float unused[NEW * C];
    const struct kind kind = {.options = "model=rgcn layers=2 edge-features=add edge-weights=factor",
                              .typed = true,
                              .weighted = true,
                              .edges = true};
    const struct sl_arrays old = arrays_of(&kind, 0, OLD, 0, E);
    const struct sl_arrays right = arrays_of(&kind, OLD, NEW, E, E_NEW);
    struct sl_arrays a = right;
    OWNED(sl_dataset_delete_it) struct sl_dataset *loaded = dataset_of(&old);
    OWNED(sl_model_delete_it) struct sl_trained *model = train(&kind);
    memcpy(wrong, sources + E, sizeof wrong);
    wrong[3] = N;
    a.sources = wrong;
    refused(model, loaded, &a, "edge 3 is 409 -> ");
    memcpy(wrong, destinations + E, sizeof wrong);
    wrong[1] = 7;
    a.sources = wrong;
    a.destinations = wrong;
    refused(model, loaded, &a, "edge 1 is 7 -> 7, both of the graph");
    a = right;
    a.destinations = NULL;
    refused(model, loaded, &a, "found NULL, expected edges as sources and destinations");
    a = right;
    a.features = NULL;
    refused(model, loaded, &a, "features is NULL");
    a = right;
    a.n_vertices = 0;
    refused(model, loaded, &a, "expected ids below 400");
    a = right;
    a.n_features = F - 1;
    refused(model, loaded, &a, "found 39 columns");
    a = right;
    a.edge_weights = NULL;
    refused(model, loaded, &a, "edges without weights");
    a = right;
    a.n_edge_features = 0;
    a.edge_features = NULL;
    refused(model, loaded, &a, "edges with 0 features, expected 2");
    a = right;
    a.edge_relations = NULL;
    a.n_relations = 0;
    a.relation_names = NULL;
    refused(model, loaded, &a, "found edges without relations, expected them with");
    a = right;
    a.n_relations = 2;
    a.relation_names = "ant,likes,ant\n,sees,\n";
    memset(few, 0, sizeof few);
    a.edge_relations = few;
    assert_ok(sl_model_predict_new(model, loaded, &a, unused, NULL)); /* fewer relations, by name */
    a = right;
    a.directed = true;
    refused(model, loaded, &a, "found edges without their reverse ones added, expected them with");
    a = right;
    a.relation_names = "ant,likes,ant\n,sees,\nbee,far,\n";
    refused(model, loaded, &a, "found 'bee,far,'");
    a = right;
    a.size = 8;
    refused(model, loaded, &a, "size is 8");
    a = right;
    a.relation_names = NULL; /* the dataset's */
    static float found[NEW * C], expected[NEW * C];
    assert_ok(sl_model_predict_new(model, loaded, &right, expected, NULL));
    assert_ok(sl_model_predict_new(model, loaded, &a, found, NULL));
    assert_memory_equal(found, expected, sizeof found);
}

/* Without memory a call fails, frees what it made, and the next one has the same scores. */
static void run_without_memory(const struct kind *kind)
{
    static float found[NEW * C], expected[NEW * C];
    const struct sl_arrays old = arrays_of(kind, 0, OLD, 0, E);
    OWNED(sl_dataset_delete_it) struct sl_dataset *loaded = dataset_of(&old);
    OWNED(sl_model_delete_it) struct sl_trained *model = train(kind);
    const struct sl_arrays added = arrays_of(kind, OLD, NEW, E, E_NEW);
    assert_ok(sl_model_predict_new(model, loaded, &added, expected, NULL));
    const long live = sl_memory_live();
    enum sl_status st = SL_ENOMEM;
    for (long allow = 0; st != SL_OK; allow++) {
        sl_memory_ration(allow);
        st = sl_model_predict_new(model, loaded, &added, found, NULL);
        sl_memory_ration(-1);
        assert_true(st == SL_OK || st == SL_ENOMEM);
        assert_int_equal(sl_memory_live(), live);
        assert_true(allow < 10000);
    }
    assert_memory_equal(found, expected, sizeof found);
}

TEST(memory_ends)
{
    const struct kind typed = {
        .options = "model=rgcn layers=2 edge-features=add", .typed = true, .edges = true, .form = SPARSE};
    run_without_memory(&(struct kind){.options = "model=gcn layers=2 normalize-features=column"});
    run_without_memory(&typed);
}

TEST_MAIN(make_data, remove_folder)
