/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/arrays.h: what is refused, and that what is taken is the dataset that the arrays say. */
#include "tests/support/data_fixture.h"

#include <math.h>

#include "data/arrays.h"
#include "data/dataset.h"
#include "tests/support/floats.h"

POINTER_OWNER(sl_dataset_delete, struct sl_dataset)

#define N 6
#define E 7
#define F 2

/* A path 0-1-2-3 with 1 -> 2 twice, vertex 4 with a self loop and no label, vertex 5 alone. Each test has a copy to
 * spoil. */
struct world {
    struct sl_arrays arrays;
    uint32_t sources[E], destinations[E];
    uint64_t offsets[N + 1];
    float features[N * F];
    int32_t labels[N];
    uint32_t train[2], valid[1], test[2];
};

static void use(struct world *w)
{
    w->arrays.sources = w->sources;
    w->arrays.destinations = w->destinations;
    w->arrays.features = w->features;
    w->arrays.labels = w->labels;
    w->arrays.train = w->train;
    w->arrays.valid = w->valid;
    w->arrays.test = w->test;
}

static struct world *fresh(struct world *w)
{
    *w = (struct world){.arrays = {.size = sizeof(struct sl_arrays),
                                   .name = "six",
                                   .n_vertices = N,
                                   .n_edges = E,
                                   .n_features = F,
                                   .n_train = 2,
                                   .n_valid = 1,
                                   .n_test = 2},
                        .sources = {0, 1, 1, 3, 4, 2, 0},
                        .destinations = {1, 2, 2, 2, 4, 3, 1},
                        .features = {1, 2, 0.5f, -1, 3, 4.25f, 1e-3f, 7, 0, 0, -2, 2},
                        .labels = {0, 1, 2, 0, -1, 1},
                        .train = {3, 0},
                        .valid = {1},
                        .test = {5, 2}};
    use(w);
    return w;
}

/* The same edges as rows, by destination. */
static struct world *fresh_rows(struct world *w)
{
    static const uint32_t sources[E] = {0, 0, 3, 1, 1, 2, 4};
    fresh(w);
    memcpy(w->sources, sources, sizeof sources);
    memcpy(w->offsets, ((const uint64_t[]){0, 0, 2, 5, 6, 7, 7}), sizeof w->offsets);
    w->arrays.destinations = NULL;
    w->arrays.offsets = w->offsets;
    return w;
}

static struct sl_dataset *make(const struct world *w)
{
    struct sl_dataset *dataset;
    assert_ok(sl_dataset_new(&w->arrays, &dataset));
    return dataset;
}

/* ---- what is refused ---- */

static void refused(const struct world *w, const char *words)
{
    struct sl_dataset *dataset = (struct sl_dataset *)(uintptr_t)w;
    long live = sl_memory_live();
    assert_refused(sl_dataset_new(&w->arrays, &dataset), SL_EINVAL, words);
    assert_null(dataset);
    assert_int_equal(sl_memory_live(), live);
}

/* Spoil a fresh world by a statement, and be refused. */
#define spoiled(statement, words)                                                                                      \
    do {                                                                                                               \
        struct world w;                                                                                                \
        fresh(&w);                                                                                                     \
        statement;                                                                                                     \
        refused(&w, (words));                                                                                          \
    } while (0)
#define spoiled_rows(statement, words)                                                                                 \
    do {                                                                                                               \
        struct world w;                                                                                                \
        fresh_rows(&w);                                                                                                \
        statement;                                                                                                     \
        refused(&w, (words));                                                                                          \
    } while (0)

TEST(refuses_numbers)
{
    static char name[65];
    memset(name, 'x', 64);
    spoiled(w.arrays.n_vertices = 0, "found 0 vertices");
    spoiled(w.arrays.n_features = 0, "0 features");
    spoiled(w.arrays.name = name, "name has 64 bytes; expected at most 63");
    spoiled(w.arrays.n_classes = (uint32_t)INT32_MAX + 1, "n_classes is 2147483648");
}

TEST(refuses_what_is_missing)
{
    spoiled(w.arrays.destinations = NULL, "found none of offsets and destinations");
    spoiled(w.arrays.offsets = w.offsets, "found both of offsets and destinations");
    spoiled(w.arrays.sources = NULL, "sources is NULL");
    spoiled(w.arrays.features = NULL, "features is NULL");
    spoiled(w.arrays.labels = NULL, "train[0] is vertex");
    spoiled(w.arrays.train = NULL, "train is NULL");
    spoiled(w.arrays.valid = NULL, "valid is NULL");
    spoiled(w.arrays.test = NULL, "test is NULL");
}

TEST(refuses_edges)
{
    spoiled(w.sources[3] = N, "edge 3 is 6 -> 2, expected ids below 6");
    spoiled(w.destinations[6] = UINT32_MAX, "edge 6 is 0 -> 4294967295");
    spoiled_rows(w.sources[6] = N, "edge 6 is 6 -> 4");
    spoiled_rows(w.offsets[0] = 1, "offsets[0] is 1");
    spoiled_rows(w.offsets[3] = 1, "offsets[2] is 2 and offsets[3] 1; expected 0 first, ascending");
    spoiled_rows(w.offsets[N] = 6, "offsets[5] is 7 and offsets[6] 6");
    spoiled_rows(w.offsets[N] = 8, "offsets end at 8; expected 7");
    spoiled_rows(w.offsets[2] = UINT64_MAX, "offsets[2] is 18446744073709551615");
}

TEST(refuses_values)
{
    spoiled(w.arrays.class_names = "a\nb\n", "labels[2] is 2; expected -1 (unknown), or a class of 0 to 1");
    spoiled(w.arrays.n_types = 2, "n_types is 2; expected type_names, type_vertices and type_columns");
    static const uint32_t of_types[] = {1, 2};
    spoiled((w.arrays.n_types = 2, w.arrays.type_names = "a\nb\n", w.arrays.type_vertices = of_types,
             w.arrays.type_columns = of_types),
            "types have 3 vertices and 3 columns; expected");
    spoiled((w.arrays.class_names = "a\nb\n", w.arrays.n_classes = 3),
            "class_names has 2 lines; expected 3, a line for");
    spoiled(w.arrays.class_names = "a\nb\na\n", "class_names has 'a' twice; expected each name once");
    spoiled(w.arrays.class_names = "a\nb\nc\nd", "class_names ends in 'd'; expected an end of line");
    spoiled(w.arrays.feature_names = "a\nb\nc\nd\ne\n", "feature_names has 5 lines; expected");
    spoiled(w.arrays.feature_names = "a", "feature_names has");
    spoiled(w.features[7] = NAN, "feature 1 of vertex 3 is nan");
    spoiled(w.features[0] = INFINITY, "feature 0 of vertex 0 is inf");
    spoiled(w.labels[5] = -2, "labels[5] is -2; expected -1 (unknown), or a class of 0 to");
    spoiled((w.arrays.n_classes = 2), "labels[2] is 2; expected -1 (unknown), or a class of 0 to 1");
    spoiled(w.labels[2] = INT32_MAX, "labels[2] is 2147483647");
}

TEST(refuses_splits)
{
    spoiled(w.train[1] = N, "train[1] is vertex 6, which is not there");
    spoiled(w.train[1] = 3, "train[1] is vertex 3, which the split has already");
    spoiled(w.valid[0] = 3, "valid[0] is vertex 3, which the split has already");
    spoiled(w.test[1] = 1, "test[1] is vertex 1, which the split has already");
    spoiled(w.test[1] = 4, "test[1] is vertex 4, which has no label");
}

/* ---- what is taken ---- */

static void expect_edges(const struct sl_dataset *d, const uint64_t *offsets, const sl_vertex *sources)
{
    assert_int_equal(d->graph.n_vertices, N);
    assert_int_equal(d->graph.n_edges, offsets[N]);
    assert_memory_equal(d->graph.offsets, offsets, (N + 1) * sizeof *offsets);
    assert_memory_equal(d->graph.sources, sources, offsets[N] * sizeof *sources);
}

/* A list and rows are one graph, directed or not; what is there twice counts once. */
TEST(takes_lists_and_rows)
{
    for (int rows = 0; rows < 2; rows++) {
        struct world w;
        rows ? fresh_rows(&w) : fresh(&w);
        OWNED(sl_dataset_delete_it) struct sl_dataset *d = make(&w);
        expect_edges(d, (const uint64_t[]){0, 1, 3, 5, 6, 7, 7}, (const sl_vertex[]){1, 0, 2, 1, 3, 2, 4});
        sl_dataset_delete(d);
        w.arrays.directed = true;
        d = make(&w);
        expect_edges(d, (const uint64_t[]){0, 0, 1, 3, 4, 5, 5}, (const sl_vertex[]){0, 1, 3, 2, 4});
    }
}

TEST(takes_no_edges)
{
    static const uint64_t nowhere[N + 1];
    struct world w;
    fresh(&w)->arrays.n_edges = 0;
    w.arrays.sources = NULL;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d = make(&w);
    expect_edges(d, nowhere, w.sources);
    sl_dataset_delete(d);
    w.arrays.destinations = NULL;
    w.arrays.offsets = nowhere;
    d = make(&w);
    expect_edges(d, nowhere, w.sources);
}

/* Lists come in ascending order; valid and test may be empty. */
TEST(takes_splits)
{
    struct world w;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d = make(fresh(&w));
    assert_int_equal(d->train.n, 2);
    assert_memory_equal(d->train.ids, ((const sl_vertex[]){0, 3}), 2 * sizeof(sl_vertex));
    assert_int_equal(d->valid.n, 1);
    assert_int_equal(d->valid.ids[0], 1);
    assert_int_equal(d->test.n, 2);
    assert_memory_equal(d->test.ids, ((const sl_vertex[]){2, 5}), 2 * sizeof(sl_vertex));
    sl_dataset_delete(d);
    w.arrays.n_valid = w.arrays.n_test = 0;
    w.arrays.valid = w.arrays.test = NULL;
    d = make(&w);
    assert_int_equal(d->valid.n + d->test.n, 0);
}

TEST(takes_names_and_classes)
{
    struct world w;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d = make(fresh(&w));
    assert_string_equal(d->name, "six");
    assert_false(d->synthetic);
    assert_int_equal(d->targets.n_classes, 3);
    assert_memory_equal(d->targets.classes, w.labels, sizeof w.labels);
    sl_dataset_delete(d);
    w.labels[4] = -100; /* as PyTorch's losses ignore it */
    d = make(&w);
    assert_int_equal(d->targets.classes[4], -1);
    sl_dataset_delete(d);
    w.arrays.name = NULL;
    w.arrays.n_classes = 9;
    d = make(&w);
    assert_string_equal(d->name, "arrays");
    assert_int_equal(d->targets.n_classes, 9);
    assert_null(d->class_names);
    sl_dataset_delete(d);
    w.arrays.n_classes = 0; /* the names tell */
    w.arrays.class_names = "a\n\nc\nd\n";
    d = make(&w);
    assert_int_equal(d->targets.n_classes, 4);
    assert_string_equal(d->class_names, w.arrays.class_names);
    sl_dataset_delete(NULL);
}

/* Dense features are read where they are; what is mostly zero is held in rows of the rest. Either way the caller's
 * stay. */
TEST(takes_features)
{
    struct world w;
    float sparse[N * 20] = {0};
    float before[N * 20];
    struct sl_dataset *d = make(fresh(&w));
    assert_ptr_equal(d->features.dense.data, w.features);
    assert_null(d->features.offsets);
    sl_dataset_delete(d);
    sparse[3] = 1.5f;
    sparse[5 * 20 + 19] = -2;
    memcpy(before, sparse, sizeof sparse);
    w.arrays.features = sparse;
    w.arrays.n_features = 20;
    d = make(&w);
    assert_null(d->features.dense.data);
    assert_memory_equal(d->features.offsets, ((const uint64_t[]){0, 1, 1, 1, 1, 1, 2}), 7 * sizeof(uint64_t));
    assert_int_equal(d->features.columns[0], 3);
    assert_int_equal(d->features.columns[1], 19);
    assert_true(d->features.values[0] == 1.5f && d->features.values[1] == -2);
    sl_dataset_delete(d);
    assert_memory_equal(sparse, before, sizeof sparse);
}

TEST(refuses_sizes)
{
    spoiled(w.arrays.size = 0, "size is 0; expected");
    spoiled(w.arrays.size = sizeof w.arrays + 1, "sizeof(struct sl_arrays) of this library");
}

TEST(refuses_features)
{
    static const uint64_t rows[N + 1] = {0, 1, 1, 1, 3, 3, 4};
    static const uint64_t falling[N + 1] = {0, 1, 0, 1, 3, 3, 4};
    static const uint32_t columns[4] = {1, 0, 1, 0};
    static const uint32_t twice[4] = {1, 0, 0, 0};
    static const uint32_t wide[4] = {1, 0, 2, 0};
    static const float values[4] = {1, 2, 3, INFINITY};
    static const uint16_t halves[N * F] = {[7] = 0x7c00};
    static const uint16_t brains[N * F] = {[3] = 0xffc0};
    static const int8_t whole[N * F] = {[2] = 127};
    static const double large[N * F] = {[3] = 1e300};
    spoiled(w.arrays.feature_dtype = "complex64", "feature_dtype is 'complex64'; expected float32, float16, bfloat16,");
    spoiled((w.arrays.feature_dtype = "float64", w.arrays.features = large), "feature 1 of vertex 1 is inf");
    spoiled((w.arrays.feature_dtype = "float16", w.arrays.features = halves), "feature 1 of vertex 3 is inf");
    spoiled((w.arrays.feature_dtype = "bfloat16", w.arrays.features = brains), "feature 1 of vertex 1 is -nan");
    spoiled((w.arrays.feature_dtype = "int8", w.arrays.features = whole, w.arrays.feature_scale = 1e38f),
            "feature 0 of vertex 1 is inf");
    spoiled(w.arrays.feature_offsets = rows, "feature_columns is NULL");
    spoiled((w.arrays.feature_offsets = rows, w.arrays.feature_columns = columns, w.arrays.feature_values = values),
            "both of features and feature_offsets");
#define SPOILED_CSR(rows, columns, words)                                                                              \
    spoiled((w.arrays.features = NULL, w.arrays.feature_offsets = (rows), w.arrays.feature_columns = (columns),        \
             w.arrays.feature_values = values),                                                                        \
            words)
    SPOILED_CSR(rows, columns, "feature 0 of vertex 5 is inf");
    SPOILED_CSR(falling, columns, "feature_offsets[1] is 1 and feature_offsets[2] 0");
    SPOILED_CSR(rows, twice, "feature_columns[2] of vertex 3 is 0; expected ascending, below 2");
    SPOILED_CSR(rows, wide, "feature_columns[2] of vertex 3 is 2; expected ascending, below 2");
}

/* A narrow table stays where it is, in its dtype. */
TEST(takes_narrow_features)
{
    static const uint16_t halves[N * F] = {0x3c00, 0xc000, 1, 0x7bff, 5, 6, 7, 8, 9, 10, 11, 12};
    static const int8_t whole[N * F] = {1, -2, 3, 127, -128, 6, 7, 8, 9, 10, 11, 12};
    struct world w;
    float block[SL_COLUMN_BLOCK];
    fresh(&w);
    w.arrays.features = halves;
    w.arrays.feature_dtype = "float16";
    OWNED(sl_dataset_delete_it) struct sl_dataset *d = make(&w);
    assert_ptr_equal(d->features.dense.data, halves);
    assert_int_equal(d->features.dense.dtype, SL_DTYPE_F16);
    assert_true(d->range.largest[0] == 65504 && d->range.column == 1);
    const float *x = sl_column_floats(&d->features.dense, 0, 4, block);
    assert_true(x[0] == 1 && x[1] == -2 && x[2] == 0x1p-24f && x[3] == 65504);
    sl_dataset_delete(d);
    w.arrays.features = whole;
    w.arrays.feature_dtype = "int8";
    w.arrays.feature_scale = 0.5f;
    d = make(&w);
    x = sl_column_floats(&d->features.dense, 3, 2, block);
    assert_true(x[0] == 63.5f && x[1] == -64);
    assert_true(d->range.largest[0] == 64 && d->range.column == 0);
}

/* Any other dtype becomes float32, and the caller's array may go. */
TEST(widens_features)
{
    static const float wanted[N * F] = {1, 0, 3, 1, 250, 6, 7, 8, 9, 10, 11, 12};
    static const struct {
        const char *name;
        size_t size;
    } dtypes[] = {{"float64", 8}, {"uint8", 1},  {"bool", 1},  {"int16", 2}, {"uint16", 2},
                  {"int32", 4},   {"uint32", 4}, {"int64", 8}, {"uint64", 8}};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        union {
            double f64[N * F];
            uint8_t u8[N * F];
            uint16_t u16[N * F];
            uint32_t u32[N * F];
            uint64_t u64[N * F];
        } given;
        struct world w;
        for (int i = 0; i < N * F; i++) {
            switch (dtypes[k].size) {
            case 1: given.u8[i] = (uint8_t)wanted[i]; break;
            case 2: given.u16[i] = (uint16_t)wanted[i]; break;
            case 4: given.u32[i] = (uint32_t)wanted[i]; break;
            default: given.u64[i] = (uint64_t)wanted[i]; break;
            }
            if (k == 0) {
                given.f64[i] = wanted[i];
            }
        }
        fresh(&w);
        w.arrays.features = &given;
        w.arrays.feature_dtype = dtypes[k].name;
        OWNED(sl_dataset_delete_it) struct sl_dataset *d = make(&w);
        memset(&given, 0xff, sizeof given);
        assert_memory_equal(floats_of(&d->features), wanted, sizeof wanted);
    }
}

/* CSR stays where it is, unless it is full. */
TEST(takes_sparse_features)
{
    static const uint64_t rows[N + 1] = {0, 1, 1, 1, 1, 1, 2};
    static const uint32_t columns[2] = {3, 19};
    static const float values[2] = {1.5f, -2};
    static const uint64_t more[N + 1] = {0, 1, 2, 3, 3, 3, 3};
    static const uint32_t ends[3] = {3, 0, 2};
    static const float three[3] = {1, 2, 3};
    struct world w;
    fresh(&w);
    w.arrays.features = NULL;
    w.arrays.n_features = 20;
    w.arrays.feature_offsets = rows;
    w.arrays.feature_columns = columns;
    w.arrays.feature_values = values;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d = make(&w);
    assert_ptr_equal(d->features.values, values);
    assert_true(d->range.largest[0] == 2 && d->range.column == 19);
    sl_dataset_delete(d);
    w.arrays.n_features = 4;
    w.arrays.feature_offsets = more;
    w.arrays.feature_columns = ends;
    w.arrays.feature_values = three;
    d = make(&w);
    assert_null(d->features.offsets);
    assert_true(floats_of(&d->features)[3] == 1 && floats_of(&d->features)[4] == 2);
}

TEST(survives_no_memory)
{
    struct world w;
    float sparse[N * 20] = {0};
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    fresh_rows(&w);
    assert_survives_no_memory(sl_dataset_new(&w.arrays, &d));
    sl_dataset_delete(d);
    w.arrays.features = sparse;
    w.arrays.n_features = 20;
    assert_survives_no_memory(sl_dataset_new(&w.arrays, &d));
    sl_dataset_delete(d);
    w.arrays.feature_dtype = "int32"; /* converted, then CSR */
    assert_survives_no_memory(sl_dataset_new(&w.arrays, &d));
}

/* Weights in both forms of the edges, duplicates added; bad weights are refused with the edge. */
TEST(takes_weights)
{
    struct world w;
    struct sl_dataset *d;
    struct sl_arrays *a = &fresh(&w)->arrays;
    float weights[E] = {0};
    weights[0] = 0.25f;
    a->edge_weights = weights;
    a->directed = true;
    assert_ok(sl_dataset_new(a, &d));
    assert_non_null(d->graph.weights);
    for (uint64_t e = d->graph.offsets[w.destinations[0]]; e < d->graph.offsets[w.destinations[0] + 1]; e++) {
        assert_true(d->graph.weights[e] == (d->graph.sources[e] == w.sources[0] ? 0.25f : 0));
    }
    sl_dataset_delete(d);
    weights[E - 1] = NAN;
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "has weight nan; expected a finite number, 0 or more");
    static const float bad[] = {-1, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weights[E - 1] = bad[i];
        assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "graph: edge 6, ");
    }
}

/* Relations make a typed graph. Both 0 -> 1, once of each relation, stay. */
TEST(takes_relations)
{
    struct world w;
    struct sl_dataset *d;
    struct sl_arrays *a = &fresh(&w)->arrays;
    uint16_t relations[E] = {1, 0, 0, 1, 0, 0, 0};
    a->edge_relations = relations;
    a->n_relations = 2;
    a->directed = true;
    assert_ok(sl_dataset_new(a, &d));
    assert_int_equal(d->graph.n_relations, 2);
    assert_int_equal(d->graph.n_edges, E - 1); /* 1 -> 2 comes twice with relation 0 */
    assert_int_equal(d->graph.offsets[2] - d->graph.offsets[1], 2);
    assert_int_equal(d->graph.relations[d->graph.offsets[1]], 0);
    assert_int_equal(d->graph.relations[d->graph.offsets[1] + 1], 1);
    sl_dataset_delete(d);
    a->directed = false;
    assert_ok(sl_dataset_new(a, &d));
    assert_int_equal(d->graph.n_relations, 4);
    sl_dataset_delete(d);
    relations[3] = 2;
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "edge 3, 3 -> 2, has relation 2; expected a relation below 2");
}

/* Weights of a typed graph: 1 -> 2 comes twice with relation 0, so its weights add up. Reverses have the same. */
TEST(takes_weights_of_relations)
{
    struct world w;
    struct sl_dataset *d;
    struct sl_arrays *a = &fresh(&w)->arrays;
    uint16_t relations[E] = {1, 0, 0, 1, 0, 0, 0};
    float weights[E];
    for (uint32_t e = 0; e < E; e++) {
        weights[e] = (float)(1U << e);
    }
    a->edge_relations = relations;
    a->n_relations = 2;
    a->edge_weights = weights;
    a->directed = false;
    assert_ok(sl_dataset_new(a, &d));
    assert_int_equal(d->graph.n_edges, 2 * (E - 1));
    assert_non_null(d->graph.weights);
    for (uint32_t e = 0; e < E; e++) {
        float sum = 0;
        for (uint32_t i = 0; i < E; i++) {
            const bool same = w.sources[i] == w.sources[e] && w.destinations[i] == w.destinations[e];
            sum += same && relations[i] == relations[e] ? weights[i] : 0;
        }
        const uint64_t there = sl_graph_find_edge(&d->graph, w.sources[e], w.destinations[e], relations[e]);
        const uint64_t back = sl_graph_find_edge(&d->graph, w.destinations[e], w.sources[e], relations[e] + 2U);
        assert_true(there != SL_NO_EDGE && back != SL_NO_EDGE);
        assert_true(d->graph.weights[there] == sum && d->graph.weights[back] == sum);
    }
    sl_dataset_delete(d);
    assert_survives_no_memory(sl_dataset_new(a, &d));
    sl_dataset_delete(d);
    weights[1] = weights[2] = 3e38f;
    a->directed = true;
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "the weights of 1 -> 2, listed 2 times, add up to no float");
    weights[6] = -1;
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "graph: edge 6, ");
}

/* Names of relations are kept; each has a line with two commas. */
TEST(takes_names_of_relations)
{
    struct world w;
    struct sl_dataset *d;
    struct sl_arrays *a = &fresh(&w)->arrays;
    uint16_t relations[E] = {1, 0, 0, 1, 0, 0, 0};
    a->relation_names = "user,likes,item\n,buys,\n";
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "relation_names has 2 lines; expected 0");
    a->edge_relations = relations;
    a->n_relations = 2;
    d = make(&w);
    assert_string_equal(d->relations, a->relation_names);
    sl_dataset_delete(d);
    a->n_relations = 3;
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "relation_names has 2 lines; expected 3");
    a->relation_names = "user,likes,item\nbuys\n";
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "line 1 of relation_names is 'buys'; expected SOURCE,NAME,DEST");
    a->relation_names = "user,likes,item";
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "line 0 of relation_names is 'user,likes,item'");
}

/* A world of links, without labels and split. Edges 0 - 1, 1 - 2, 2 - 3. */
static struct sl_arrays *fresh_links(struct world *w)
{
    static const uint32_t from[] = {4, 5};
    static const uint32_t to[] = {5, 0};
    struct sl_arrays *a = &fresh(w)->arrays;
    a->labels = NULL;
    a->train = a->valid = a->test = NULL;
    a->n_train = a->n_valid = a->n_test = 0;
    a->valid_links = (struct sl_array_links){1, from, to, NULL};
    a->test_links = (struct sl_array_links){1, from + 1, to + 1, NULL};
    return a;
}

/* Without training links the edges are; without edges the training links are. */
TEST(takes_links)
{
    const float weight_of_none[] = {-1};
    struct world w;
    struct sl_arrays *a = fresh_links(&w);
    OWNED(sl_dataset_delete_it) struct sl_dataset *d = make(&w);
    OWNED(sl_dataset_delete_it) struct sl_dataset *links;
    const struct sl_links *train = &d->links.list[SL_LINKS_TRAIN];
    assert_true(train->n == E && train->relation == NULL && d->links.ends == NULL && !d->links.directed);
    assert_memory_equal(train->from, w.sources, sizeof w.sources);
    assert_memory_equal(train->to, w.destinations, sizeof w.destinations);
    assert_true(d->links.list[SL_LINKS_VALID].from[0] == 4 && d->links.list[SL_LINKS_TEST].to[0] == 0);
    assert_int_equal(d->graph.n_edges, 7); /* 0-1, 1-2, 2-3 in both directions, 4-4 */
    assert_true(d->targets.n_rows == N && !sl_targets_known(&d->targets, N - 1));
    assert_survives_no_memory(sl_dataset_new(a, &links));
    sl_dataset_delete(links);
    a->train_links = (struct sl_array_links){E, w.sources, w.destinations, NULL};
    a->n_edges = 0;
    a->directed = true;
    a->sources = a->destinations = NULL;
    a->edge_weights = weight_of_none;
    links = make(&w);
    assert_true(links->links.directed && links->graph.n_edges == 5 && links->graph.weights == NULL);
    assert_int_equal(links->links.list[SL_LINKS_TRAIN].n, E);
    sl_dataset_delete(links);
    fresh_rows(&w);
    a->labels = NULL;
    a->train = a->valid = a->test = NULL;
    a->n_train = a->n_valid = a->n_test = 0;
    a->valid_links = (struct sl_array_links){2, (const uint32_t[]){4, 5}, (const uint32_t[]){5, 0}, NULL};
    a->valid_negatives = (struct sl_array_links){1, (const uint32_t[]){4}, (const uint32_t[]){0}, NULL};
    links = make(&w);
    assert_true(links->links.list[SL_LINKS_TRAIN].n == E && links->links.list[SL_LINKS_VALID_NEGATIVE].n == 1);
    assert_int_equal(links->links.list[SL_LINKS_TRAIN].to[2], 2);
    sl_dataset_delete(links);
    a->valid_each = 1;
    refused(&w, "found 1 valid_negatives with valid_each 1; expected 2 for 2 links, or twice as many");
    a->valid_negatives =
        (struct sl_array_links){4, (const uint32_t[]){3, 4, 3, 5}, (const uint32_t[]){5, 3, 0, 3}, NULL};
    links = make(&w);
    assert_int_equal(links->links.n_each[SL_LINKS_VALID_NEGATIVE], 1);
    a->test_each = 3;
    refused(&w, "found 0 test_negatives with test_each 3; expected 0 for 0 links");
}

/* Links of relations: edges may have relations that no link has, and ends have bounds. */
TEST(takes_triples)
{
    struct world w;
    struct sl_dataset *d;
    struct sl_arrays *a = fresh_links(&w);
    const uint16_t relations[E] = {1, 0, 0, 1, 0, 0, 0};
    const uint16_t one = 1;
    const uint16_t none = 2;
    uint32_t ends[] = {0, 0, N, N, 0, 1, 6, 5, 0, 0, 1, 1};
    a->edge_relations = relations;
    a->n_relations = 3;
    a->test_links.n = 0;
    assert_refused(sl_dataset_new(a, &d), SL_EINVAL, "valid_links without relations; expected as the edges, with");
    a->valid_links.relations = &one;
    a->relation_ends = ends;
    a->relation_names = "a,x,b\na,y,b\na,z,b\n";
    assert_survives_no_memory(sl_dataset_new(a, &d));
    assert_true(d->links.n_relations == 3 && d->links.ends[1].first[1] == 1 && d->links.ends[1].n[0] == 6);
    assert_true(d->links.list[SL_LINKS_VALID].relation[0] == 1 && d->graph.n_relations == 6);
    assert_int_equal(d->links.list[SL_LINKS_TRAIN].relation[3], 1);
    sl_dataset_delete(d);
    ends[6] = 3;
    refused(&w, "train_links.from[3] is 3; expected an id of 0 .. 2");
    ends[6] = 7;
    refused(&w, "relation_ends has 7 ids from 0 on for relation 1; expected ids of 0 .. 5");
    ends[6] = 6;
    ends[5] = UINT32_MAX;
    refused(&w, "relation_ends has 5 ids from 4294967295 on");
    a->relation_ends = NULL;
    a->train_links = (struct sl_array_links){E, w.sources, w.destinations, NULL};
    refused(&w, "train_links without relations; expected as the edges, with");
    a->train_links.n = 0;
    a->valid_links.relations = &none;
    refused(&w, "relation 2 of valid (line 1) has no training link");
    a->n_relations = 2;
    a->relation_names = NULL;
    refused(&w, "valid_links.relations[0] is 2; expected a relation below 2");
}

TEST(refuses_links)
{
    static const uint32_t zero = 0;
    static const uint32_t one = 1;
    static const uint32_t six = 6;
#define spoiled_links(statement, words)                                                                                \
    do {                                                                                                               \
        struct world w;                                                                                                \
        struct sl_arrays *a = fresh_links(&w);                                                                         \
        statement;                                                                                                     \
        refused(&w, (words));                                                                                          \
    } while (0)
    spoiled_links(a->n_edges = 0, "found no training links and 0 edges");
    spoiled_links(a->valid_links.from = NULL, "valid_links.from is NULL");
    spoiled_links((a->n_edges = 0, a->train_links.n = 1), "train_links.from is NULL");
    spoiled_links(a->valid_links.relations = (const uint16_t[]){0},
                  "valid_links with relations; expected as the edges");
    spoiled_links(a->test_links.to = NULL, "test_links.to is NULL");
    spoiled_links(a->valid_links.from = &six, "valid_links.from[0] is 6; expected an id of 0 .. 5");
    spoiled_links(a->test_links.to = &six, "test_links.to[0] is 6");
    spoiled_links((a->valid_links.from = &one, a->valid_links.to = &zero),
                  "valid has the link 1,0 (line 1), which is in train, too");
    spoiled_links((a->train = w.train, a->n_train = 2, a->labels = w.labels), "found 2 training vertices and links");
    spoiled_links(a->test_negatives = (struct sl_array_links){.n = 1}, "test_negatives.from is NULL");
    spoiled_links((a->test_negatives = (struct sl_array_links){.n = 1, .from = &zero, .to = &one}),
                  "test_neg has the pair 0,1 (line 1), which is a link of train");
}

/* "random:..": of the vertices with labels, or without labels of the edges. */
TEST(draws_splits)
{
    struct world w;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    struct sl_arrays *a = &fresh(&w)->arrays;
    a->split = "random:60,20,20";
    refused(&w, "found a split 'random:60,20,20', and vertices or links of a split");
    a->n_train = a->n_valid = a->n_test = 0;
    assert_survives_no_memory(sl_dataset_new(a, &d));
    assert_true(d->train.n == 3 && d->valid.n == 1 && d->test.n == 1 && !sl_dataset_has_links(d));
    assert_string_equal(d->split, "random:60,20,20");
    sl_dataset_delete(d);
    a->split = "60,20,20";
    refused(&w, "split is '60,20,20'; expected random:TRAIN,VALID,TEST");
    a->split = "random:60,20,2";
    refused(&w, "percentages above 0 that sum to 100");
    a->split = "random:34,33,33";
    a->labels = NULL;
    assert_survives_no_memory(sl_dataset_new(a, &d));
    for (int list = 0; list < 3; list++) {
        assert_int_equal(d->links.list[list].n, 1); /* 0 - 1, 1 - 2, 2 - 3; 4 - 4 is none */
    }
    assert_true(d->graph.n_edges == 3 && d->train.n == 0);
}

/* Links to find that are edges, or in two lists. */
TEST(finds_leaks)
{
    static const uint32_t from[] = {2, 4, 4}, to[] = {3, 5, 5};
    struct world w;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    struct sl_arrays *a = fresh_links(&w);
    a->train_links = (struct sl_array_links){2, w.sources, w.destinations, NULL};
    a->valid_links = (struct sl_array_links){3, from, to, NULL};
    a->test_links = (struct sl_array_links){1, (const uint32_t[]){5}, (const uint32_t[]){0}, NULL};
    a->test_negatives = (struct sl_array_links){2, (const uint32_t[]){5, 3}, (const uint32_t[]){4, 0}, NULL};
    refused(&w, "valid has the link 4,5 (line 3), which is in valid, too");
    a->drop_leaks = true;
    assert_survives_no_memory(sl_dataset_new(a, &d));
    assert_true(d->links.list[SL_LINKS_VALID].n == 2 && d->links.list[SL_LINKS_TEST_NEGATIVE].n == 1);
    assert_true(d->links.list[SL_LINKS_TRAIN].n == 2 && d->links.list[SL_LINKS_TEST_NEGATIVE].from[0] == 3);
    assert_int_equal(d->graph.n_edges, 5); /* not 2 - 3 */
    sl_dataset_delete(d);
    a->drop_leaks = false;
    a->valid_links.n = 2;
    a->test_negatives.n = 0;
    refused(&w, "1 links to find are edges of the graph, in one direction or the other; the first is 2,3 of valid");
    a->valid_links.from = to; /* the other direction */
    a->valid_links.to = from;
    refused(&w, "the first is 3,2 of valid");
    a->train_links.n = 0; /* all edges are links to train on */
    refused(&w, "valid has the link 3,2 (line 1), which is in train, too");
    a->drop_leaks = true;
    d = make(&w);
    assert_true(d->links.list[SL_LINKS_TRAIN].n == E - 2 && d->graph.n_edges == 5); /* listed twice */
}

/* A reverse leaks only if the graph has, but for links to find, the reverses of all edges. */
TEST(finds_leaks_of_one_direction)
{
    static const uint32_t sources[] = {0, 1, 1, 2, 2, 3}, destinations[] = {1, 0, 2, 1, 3, 4};
    static const uint32_t from[] = {3, 4}, to[] = {2, 3};
    struct world w;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    struct sl_arrays *a = fresh_links(&w);
    a->sources = sources;
    a->destinations = destinations;
    a->n_edges = 6;
    a->directed = true;
    a->valid_links = (struct sl_array_links){1, from, to, NULL};
    a->test_links = (struct sl_array_links){1, (const uint32_t[]){5}, (const uint32_t[]){0}, NULL};
    d = make(&w); /* 3 -> 4 has no reverse */
    assert_true(d->links.directed);
    sl_dataset_delete(d);
    a->valid_links.n = 2;
    refused(&w, "2 links to find are edges of the graph");
    a->train_links = (struct sl_array_links){4, sources, destinations, NULL};
    refused(&w, "2 links to find are edges of the graph");
    a->drop_leaks = true;
    d = make(&w);
    assert_true(d->graph.n_edges == 4 && !d->links.directed);
}

/* In its relation, in an added reverse, and in a relation that has but reverses. */
TEST(finds_leaks_of_relations)
{
    static const uint16_t relations[] = {0, 0, 0, 1, 1, 1, 2}, none[] = {0, 0};
    static const uint32_t sources[] = {0, 1, 2, 3, 4, 5, 4}, destinations[] = {3, 4, 5, 0, 1, 2, 1};
    struct world w;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    struct sl_arrays *a = fresh_links(&w);
    a->sources = sources;
    a->destinations = destinations;
    a->n_edges = 7;
    a->edge_relations = relations;
    a->n_relations = 3;
    a->directed = true;
    a->train_links = (struct sl_array_links){2, sources, destinations, none};
    a->valid_links = (struct sl_array_links){1, sources + 2, destinations + 2, none};
    a->test_links.n = 0;
    refused(&w, "1 links to find are edges of the graph");
    a->drop_leaks = true;
    assert_survives_no_memory(sl_dataset_new(a, &d)); /* 2 -> 5, and 5 -> 2 of relation 1 */
    assert_true(d->graph.n_edges == 5 && sl_graph_find_edge(&d->graph, 5, 2, 1) == SL_NO_EDGE);
    sl_dataset_delete(d);
    a->drop_leaks = false;
    a->sources = sources + 3; /* without relation 0 */
    a->destinations = destinations + 3;
    a->edge_relations = relations + 3;
    a->n_edges = 4;
    refused(&w, "1 links to find are edges of the graph");
    a->valid_links.from = (const uint32_t[]){0}; /* 0 -> 5: relation 1 then has more than reverses of relation 0 */
    d = make(&w);
}

TEST_MAIN(NULL, nothing_left)
