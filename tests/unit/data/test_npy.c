/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/npy.h: arrays, right, wrong and lying. */
#include "tests/support/data_fixture.h"

#include <math.h>

#include "data/features.h"
#include "data/npy.h"
#include "data/raw.h"
#include "tests/support/floats.h"
#include "tests/support/npy_fixture.h"

/* ---- Making files ------------------------------------------------------------------------------------------------ */

static unsigned char buffer[1 << 16];

static const char *put_npy(const char *name, const char *dictionary, const void *items, size_t bytes)
{
    return put_bytes(name, buffer, make_npy(buffer, 1, dictionary, items, bytes));
}

/* ---- Arrays ------------------------------------------------------------------------------------------------------ */

#define ASSERT_ITEMS(type_name, type, ...)                                                                             \
    do {                                                                                                               \
        const type items[] = {__VA_ARGS__};                                                                            \
        struct sl_npy array;                                                                                           \
        assert_ok(sl_npy_read(put_npy("a.npy", "{'descr': '" type_name "', 'fortran_order': False, 'shape': (3,), }",  \
                                      items, sizeof items),                                                            \
                              "", &array));                                                                            \
        assert_int_equal(array.n_items, 3);                                                                            \
        for (int i = 0; i < 3; i++) {                                                                                  \
            assert_true(sl_npy_real(&array, (uint64_t)i) == (double)items[i]);                                         \
            assert_true(sl_npy_whole(&array, (uint64_t)i, 1000) ==                                                     \
                        ((double)items[i] >= 0 && (double)items[i] < 1000 ? (uint64_t)items[i] : 1000));               \
        }                                                                                                              \
        sl_npy_free(&array);                                                                                           \
    } while (0)

TEST_IN_FOLDER(reads_every_type)
{
    ASSERT_ITEMS("|i1", int8_t, 1, -2, 127);
    ASSERT_ITEMS("|u1", uint8_t, 1, 2, 255);
    ASSERT_ITEMS("<i2", int16_t, 1, -2, 32767);
    ASSERT_ITEMS("<u2", uint16_t, 1, 2, 65535);
    ASSERT_ITEMS("<i4", int32_t, 1, -2, INT32_MIN);
    ASSERT_ITEMS("<u4", uint32_t, 1, 2, UINT32_MAX);
    ASSERT_ITEMS("<i8", int64_t, 1, -2, (int64_t)1 << 52);
    ASSERT_ITEMS("<u8", uint64_t, 1, 2, (uint64_t)1 << 52);
    ASSERT_ITEMS("<f4", float, 1, -2, 1e30f);
    ASSERT_ITEMS("<f8", double, 1, -2, 1e300);
    ASSERT_ITEMS("=i4", int32_t, 5, 6, 7);
}

TEST_IN_FOLDER(reads_odd_types)
{
    OWNED(sl_npy_free) struct sl_npy array;
    const uint16_t halves[] = {0x3c00, 0xc100, 0x0001, 0x7bff, 0x7c00, 0x7e00, 0x8000};
    assert_ok(sl_npy_read(
        put_npy("h.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (7,), }", halves, sizeof halves), "",
        &array));
    assert_true(sl_npy_real(&array, 0) == 1 && sl_npy_real(&array, 1) == -2.5 && sl_npy_real(&array, 2) == 0x1p-24);
    assert_true(sl_npy_real(&array, 3) == 65504 && isinf(sl_npy_real(&array, 4)) && isnan(sl_npy_real(&array, 5)));
    assert_int_equal(sl_npy_whole(&array, 1, 10), 10);
    assert_int_equal(sl_npy_whole(&array, 5, 10), 10);
    sl_npy_free(&array);
    assert_ok(sl_npy_read(put_npy("b.npy", "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", "\1\0", 2), "",
                          &array));
    assert_true(sl_npy_real(&array, 0) == 1 && sl_npy_real(&array, 1) == 0);
}

TEST_IN_FOLDER(reads_every_shape)
{
    const struct {
        const char *shape;
        uint32_t n_dimensions;
        uint64_t n_items;
    } cases[] = {{"()", 0, 1},          {"(4,)", 1, 4},   {"(2, 3)", 2, 6},
                 {"(2,3 , 4,)", 3, 24}, {"(0, 7)", 2, 0}, {"( 5 , )", 1, 5}};
    static const unsigned char zeros[64];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int version = 1; version <= 3; version++) {
            char dictionary[128];
            OWNED(sl_npy_free) struct sl_npy array;
            snprintf(dictionary, sizeof dictionary, "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }   ",
                     cases[i].shape);
            size_t n = make_npy(buffer, version, dictionary, zeros, cases[i].n_items);
            assert_ok(sl_npy_read(put_bytes("s.npy", buffer, n), "", &array));
            assert_int_equal(array.n_dimensions, cases[i].n_dimensions);
            assert_int_equal(array.n_items, cases[i].n_items);
        }
    }
    struct sl_npy array; /* one dimension has no order */
    assert_ok(
        sl_npy_read(put_npy("f.npy", "{'descr': '|u1', 'fortran_order': True, 'shape': (2,), }", "ab", 2), "", &array));
    sl_npy_free(&array);
}

TEST_IN_FOLDER(refuses_lying_headers)
{
    const struct {
        const char *dictionary;
        const char *message;
    } cases[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "integers or floats of"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", "integers or floats of"},
        {"{'descr': '<f1', 'fortran_order': False, 'shape': (4,), }", "integers or floats of"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "integers or floats of"},
        {"{'fortran_order': False, 'shape': (1,), }", "integers or floats of"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "expected C order"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "numpy.ascontiguousarray"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "little-endian"},
        {"{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", "starling convert"},
        {"{'descr': '<f4', 'shape': (1,), }", "expected C order"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, }", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", "shape"},
        {"{'descr': '<f4', 'fortran_order': False }", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905,), }", "items of 4 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
         "expected 2 items of 4 bytes behind the header, found 4"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), ", NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", "expected 0 items"},
        {"", "integers or floats of"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sl_npy array;
        const char *path = put_npy("lie.npy", cases[i].dictionary, "\0\0\0\0", 4);
        if (cases[i].message == NULL) {
            assert_ok(sl_npy_read(path, "", &array));
            sl_npy_free(&array);
        } else {
            assert_refused(sl_npy_read(path, "", &array), SL_EFILE, cases[i].message);
            assert_refused(sl_npy_read(path, "", &array), SL_EFILE, "lie.npy: ");
        }
    }
    /* A header that claims to be longer than the file, and a file cut short anywhere. */
    size_t n = make_npy(buffer, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "\0\0\0\0", 4);
    for (size_t cut = 0; cut < n; cut++) {
        struct sl_npy array;
        assert_int_equal(sl_npy_read(put_bytes("cut.npy", buffer, cut), "", &array), SL_EFILE);
    }
    buffer[9] = 255;
    struct sl_npy array;
    assert_refused(sl_npy_read(put_bytes("long.npy", buffer, n), "", &array), SL_EFILE, "expected a header of at most");
    assert_int_equal(sl_npy_read(in_folder("none.npy"), "", &array), SL_EIO);
}

static enum sl_status read_labels(const char *path, const char *name, uint32_t n, int32_t **out)
{
    struct sl_targets targets = {.n_rows = 0};
    enum sl_status st = sl_npy_read_targets(path, name, n, SL_TARGETS_CLASSES, &targets);
    *out = targets.classes;
    return st;
}

/* ---- Tables ------------------------------------------------------------------------------------------------------ */

TEST_IN_FOLDER(features_and_labels)
{
    struct sl_features features;
    int32_t *labels;
    const double values[] = {1, 2, -0.5, 4, 0, 6};
    const char *path =
        put_npy("f.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", values, sizeof values);
    assert_ok(sl_npy_read_features(path, "node_feat", 2, &features));
    assert_int_equal(features.n_columns, 3);
    const float expected[] = {1, 2, -0.5f, 4, 0, 6};
    assert_memory_equal(features.dense.data, expected, sizeof expected);
    sl_features_free(&features);
    assert_survives_no_memory(sl_npy_read_features(path, "node_feat", 2, &features));
    sl_features_free(&features);
    assert_refused(sl_npy_read_features(path, "node_feat", 3, &features), SL_EFILE, "expected the shape (3, 1 to");
    const float words[40] = {[39] = 2};
    path = put_npy("w.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 20), }", words, sizeof words);
    assert_ok(sl_npy_read_features(path, "node_feat", 2, &features));
    assert_null(features.dense.data);
    assert_int_equal(features.offsets[2], 1);
    assert_int_equal(features.columns[0], 19);
    sl_features_free(&features);
    const float infinite[] = {0, INFINITY};
    path = put_npy("i.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", infinite, sizeof infinite);
    assert_refused(sl_npy_read_features(path, "node_feat", 1, &features), SL_EFILE,
                   "item 1: expected a finite number, found inf");
    const float classes[] = {2, NAN, 0, -1};
    path = put_npy("l.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1), }", classes, sizeof classes);
    assert_ok(read_labels(path, "node_label", 4, &labels));
    assert_memory_equal(labels, ((const int32_t[]){2, -1, 0, -1}), 4 * sizeof *labels);
    sl_free(labels);
    assert_survives_no_memory(read_labels(path, "node_label", 4, &labels));
    sl_free(labels);
    assert_refused(read_labels(path, "node_label", 2, &labels), SL_EFILE, "expected the shape (2,)");
    const float large[] = {65536};
    path = put_npy("l.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", large, sizeof large);
    assert_refused(read_labels(path, "node_label", 1, &labels), SL_EFILE, "item 0: expected a class from 0 to 65535");
    const float half_class[] = {2.5};
    path = put_npy("l.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", half_class, sizeof half_class);
    assert_refused(read_labels(path, "node_label", 1, &labels), SL_EFILE, "item 0: expected a class");
}

/* Three edges of four vertices, in either shape. */
TEST_IN_FOLDER(edges_of_either_shape)
{
    static const unsigned char items[2][6] = {{0, 3, 1, 3, 2, 1}, {0, 1, 2, 3, 3, 1}};
    static const char *const shapes[] = {"(3, 2)", "(2, 3)"};
    for (int i = 0; i < 2; i++) {
        uint32_t n_vertices = i == 0 ? 4 : SL_NONE;
        uint64_t n_edges;
        sl_vertex *from;
        sl_vertex *to;
        const char *path = put_npy_array("edge.npy", "|u1", shapes[i], items[i], sizeof items[i]);
        assert_survives_no_memory(sl_raw_read_edges(path, NULL, &n_vertices, &n_edges, &from, &to));
        assert_true(n_edges == 3 && n_vertices == 4);
        assert_memory_equal(from, ((const sl_vertex[]){0, 1, 2}), 3 * sizeof *from);
        assert_memory_equal(to, ((const sl_vertex[]){3, 3, 1}), 3 * sizeof *to);
        sl_free(from);
        sl_free(to);
        assert_refused(sl_npy_read_edges(path, "edge", 3, &n_edges, &from, &to), SL_EFILE,
                       "expected an id below 3, found 3");
    }
    uint64_t n_edges;
    OWNED(sl_free_it) sl_vertex *from;
    OWNED(sl_free_it) sl_vertex *to;
    const char *path =
        put_npy("three.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 3), }", "aaaaaaaaa", 9);
    assert_refused(sl_npy_read_edges(path, "edge", 3, &n_edges, &from, &to), SL_EFILE,
                   "expected the shape (2, edges) or (edges, 2), found 2 dimensions and 9 items");
    path = put_npy("none.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 0), }", "", 0);
    uint32_t n_vertices = SL_NONE;
    assert_ok(sl_raw_read_edges(path, NULL, &n_vertices, &n_edges, &from, &to));
    assert_true(n_vertices == 0 && n_edges == 0);
}

TEST_IN_FOLDER(features_need_columns)
{
    struct sl_features features;
    const char *path;
    path = put_npy("e.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (34, 0), }", "", 0);
    assert_refused(sl_npy_read_features(path, "node_feat", 34, &features), SL_EFILE,
                   "--features degree, onehot or random:64");
}

/* float16 and int8 keep their dtype; all other types become float32. */
TEST_IN_FOLDER(features_keep_their_dtype)
{
    struct sl_features features;
    const uint16_t halves[] = {0x3c00, 0xc000, 1, 0x7bff};
    const int8_t whole[] = {1, -2, 127, -128};
    const char *path =
        put_npy("h.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 2), }", halves, sizeof halves);
    assert_survives_no_memory(sl_npy_read_features(path, "node_feat", 2, &features));
    assert_int_equal(features.dense.dtype, SL_DTYPE_F16);
    assert_memory_equal(features.dense.data, halves, sizeof halves);
    sl_features_free(&features);
    path = put_npy("i.npy", "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 2), }", whole, sizeof whole);
    assert_ok(sl_npy_read_features(path, "node_feat", 2, &features));
    assert_true(features.dense.dtype == SL_DTYPE_I8 && features.dense.scale == 1);
    assert_memory_equal(features.dense.data, whole, sizeof whole);
    sl_features_free(&features);
    path = put_npy("u.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }", whole, sizeof whole);
    assert_ok(sl_npy_read_features(path, "node_feat", 2, &features));
    assert_true(floats_of(&features)[1] == 254);
    sl_features_free(&features);
    path = put_npy("n.npy", "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 2), }", "\0\0\0\0\0\x7c\0\0", 8);
    assert_refused(sl_npy_read_features(path, "node_feat", 2, &features), SL_EFILE,
                   "item 2: expected a finite number, found inf");
}

TEST_IN_FOLDER(lists_of_a_split)
{
    struct sl_ids ids;
    const char *path = put_npy("ids.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 1), }", "\5\0\3", 3);
    assert_survives_no_memory(sl_npy_read_ids(path, "ids", 6, &ids));
    assert_int_equal(ids.n, 3);
    assert_memory_equal(ids.ids, ((const sl_vertex[]){0, 3, 5}), 3 * sizeof *ids.ids);
    sl_free(ids.ids);
    assert_refused(sl_npy_read_ids(path, "ids", 5, &ids), SL_EFILE,
                   "ids.npy: ids: item 0: expected an id below 5, found 5");
    path = put_npy("twice.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\1\1", 2);
    assert_refused(sl_npy_read_ids(path, "ids", 6, &ids), SL_EFILE, "vertex 1 is listed twice");
    path = put_npy("mask.npy", "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }", "\0\1\0\1", 4);
    assert_survives_no_memory(sl_npy_read_ids(path, "ids", 4, &ids));
    assert_int_equal(ids.n, 2);
    assert_memory_equal(ids.ids, ((const sl_vertex[]){1, 3}), 2 * sizeof *ids.ids);
    sl_free(ids.ids);
    assert_refused(sl_npy_read_ids(path, "ids", 5, &ids), SL_EFILE, "or a mask of 5 booleans, found 4 items");
    for (int i = 0; i < 2; i++) { /* numbers 0 and 1 alone are a mask of so many vertices */
        path = i == 0 ? put_npy("01.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "\1\0\1", 3)
                      : put_npy("01.npy", "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 1), }", "\1\0\0\0\1\0",
                                6);
        assert_ok(sl_npy_read_ids(path, "ids", 3, &ids));
        assert_int_equal(ids.n, 2);
        assert_memory_equal(ids.ids, ((const sl_vertex[]){0, 2}), 2 * sizeof *ids.ids);
        sl_free(ids.ids);
        assert_refused(sl_npy_read_ids(path, "ids", 4, &ids), SL_EFILE,
                       "expected each id once, or a mask of 4 vertices");
    }
    path = put_npy("two.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\1\0", 2);
    assert_ok(sl_npy_read_ids(path, "ids", 2, &ids)); /* both ids of a graph of two vertices */
    assert_int_equal(ids.n, 2);
    sl_free(ids.ids);
}

/* Whatever is in a file, a reader gives an array within it, or a message. */
TEST_IN_FOLDER(survives_mutations)
{
    const float values[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 4000; i++) {
        static unsigned char data[4096];
        size_t n = make_npy(data, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", values, 24);
        const char *path = put_bytes("mutant", data, mutate(data, n, sizeof data));
        struct sl_npy array;
        OWNED(sl_features_free) struct sl_features features;
        sl_vertex *from;
        sl_vertex *to;
        uint32_t n_vertices = i % 2 == 0 ? SL_NONE : 4;
        uint64_t n_edges;
        double sum = 0;
        if (sl_npy_read(path, "edge_index", &array) == SL_OK) {
            for (uint64_t k = 0; k < array.n_items; k++) {
                sum += sl_npy_real(&array, k);
            }
            assert_true(array.n_items < sizeof data || sum == 0);
            sl_npy_free(&array);
        }
        if (sl_npy_read_edges(path, "edge_index", n_vertices, &n_edges, &from, &to) == SL_OK) {
            assert_true(n_edges < sizeof data);
            for (uint64_t e = 0; e < n_edges; e++) {
                assert_true(from[e] < n_vertices && to[e] < n_vertices);
            }
            sl_free(from);
            sl_free(to);
        }
        sl_npy_read_features(path, "edge_index", 2, &features);
    }
}

TEST_MAIN(NULL, nothing_left)
