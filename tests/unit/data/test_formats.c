/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * One dataset in all the forms that readers know: each has the same identity, and trains to the same bits. */
#include "tests/support/session_fixture.h"

#include <math.h>

#include "data/arrays.h"
#include "data/identity.h"
#include "data/load.h"
#include "data/reader.h"
#include "support/convert.h"
#include "support/safetensors.h"
#include "tests/support/graph_fixture.h"
#include "tests/support/npy_fixture.h"
#include "tests/support/written_fixture.h"

enum { N = 61, F = 5, MOST_EDGES = 2000, EPOCHS = 2 };

static struct sl_dataset made;
static sl_vertex *from, *to; /* one of each pair of opposite edges */
static uint64_t n_edges;

static int make(void **state)
{
    (void)state;
    const struct graph_shape shape = {
        .kind = GRAPH_POWER_LAW, .n_vertices = N, .n_columns = F, .n_classes = 3, .seed = 31};
    make_dataset(&shape, &made);
    assert_ok(sl_graph_list_edges(&made.graph, true, &n_edges, &from, &to));
    assert_true(n_edges < MOST_EDGES);
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    sl_free(from);
    sl_free(to);
    sl_dataset_free(&made);
    return 0;
}

static float feature(uint32_t v, uint32_t c)
{
    return ((const float *)made.features.dense.data)[v * F + c];
}

/* The set of a vertex: 0 is none. */
static int set_of(sl_vertex v)
{
    const struct sl_ids *lists[] = {&made.train, &made.valid, &made.test};
    for (int i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < lists[i]->n; k++) {
            if (lists[i]->ids[k] == v) {
                return i + 1;
            }
        }
    }
    return 0;
}

/* ---- the forms ---- */

/* OGB's text; odd: with a byte order mark, CR LF and an empty last line, as editors and Windows leave them. */
static const char *put_ogb_text(bool odd)
{
    static const char *const names[] = {"raw/edge",         "raw/node-feat",    "raw/node-label",
                                        "split/only/train", "split/only/valid", "split/only/test"};
    static char text[6][1 << 15];
    size_t n[6] = {0};
    const char *end = odd ? "\r\n" : "\n";
    for (int i = 0; odd && i < 6; i++) {
        n[i] = (size_t)snprintf(text[i], sizeof text[i], "\xef\xbb\xbf");
    }
#define PUT(i, ...) n[i] += (size_t)snprintf(text[i] + n[i], sizeof text[i] - n[i], __VA_ARGS__)
    for (uint64_t e = 0; e < n_edges; e++) {
        PUT(0, "%u,%u%s", from[e], to[e], end);
    }
    for (uint32_t v = 0; v < N; v++) {
        for (uint32_t c = 0; c < F; c++) {
            PUT(1, "%.9g%s", (double)feature(v, c), c + 1 < F ? "," : end);
        }
        PUT(2, "%d%s", made.targets.classes[v], end);
        if (set_of(v) > 0) {
            PUT(2 + set_of(v), "%u%s", v, end);
        }
    }
    for (int i = 0; i < 6; i++) {
        char name[100];
        PUT(i, "%s", odd ? end : "");
        snprintf(name, sizeof name, "%s/%s.csv%s", odd ? "odd-ogb" : "ogb", names[i], odd ? "" : ".gz");
        if (odd) {
            put_bytes(name, text[i], n[i]);
        } else {
            put_gzip(name, text[i]);
        }
    }
#undef PUT
    return in_folder(odd ? "odd-ogb" : "ogb");
}

static const char *put_ogb(void)
{
    return put_ogb_text(false);
}

static const char *put_odd_ogb(void)
{
    return put_ogb_text(true);
}

static const char *put_written(void)
{
    assert_ok(write_dataset(&made, false, in_folder("written")));
    return in_folder("written");
}

static double rows[N * F]; /* the features */
static int64_t pairs[2 * MOST_EDGES];
static int64_t labels[N];
static unsigned char masks[3][N];
static char pairs_shape[32];

static void fill_arrays(void)
{
    memset(masks, 0, sizeof masks);
    for (uint32_t v = 0; v < N; v++) {
        for (uint32_t c = 0; c < F; c++) {
            rows[v * F + c] = (double)feature(v, c);
        }
        labels[v] = made.targets.classes[v];
        if (set_of(v) > 0) {
            masks[set_of(v) - 1][v] = 1;
        }
    }
    for (uint64_t e = 0; e < n_edges; e++) {
        pairs[e] = from[e];
        pairs[n_edges + e] = to[e];
    }
    snprintf(pairs_shape, sizeof pairs_shape, "(2, %llu)", (unsigned long long)n_edges);
}

/* Arrays of other types than those that are kept; sets as masks. */
static const char *put_npy_folder(void)
{
    static const char *const sets[] = {"npy/split/s/train.npy", "npy/split/s/valid.npy", "npy/split/s/test.npy"};
    fill_arrays();
    put_npy_array("npy/raw/edge.npy", "<i8", pairs_shape, pairs, 2 * n_edges * sizeof *pairs);
    put_npy_array("npy/raw/node-feat.npy", "<f8", "(61, 5)", rows, sizeof rows);
    put_npy_array("npy/raw/node-label.npy", "<i8", "(61,)", labels, sizeof labels);
    for (int i = 0; i < 3; i++) {
        put_npy_array(sets[i], "|b1", "(61,)", masks[i], N);
    }
    return in_folder("npy");
}

/* One file with PyG's names, or with OGB's. */
static const char *put_safetensors_named(const char *const names[6])
{
    fill_arrays();
    const struct sl_tensor tensors[] = {sl_tensor_make(names[0], SL_DTYPE_I64, 2, n_edges, pairs),
                                        sl_tensor_make(names[1], SL_DTYPE_F64, N, F, rows),
                                        sl_tensor_make(names[2], SL_DTYPE_I64, N, 0, labels),
                                        sl_tensor_make(names[3], SL_DTYPE_BOOL, N, 0, masks[0]),
                                        sl_tensor_make(names[4], SL_DTYPE_BOOL, N, 0, masks[1]),
                                        sl_tensor_make(names[5], SL_DTYPE_BOOL, N, 0, masks[2])};
    const char *path = in_folder("whole.safetensors");
    assert_ok(sl_safetensors_write(path, tensors, 6, NULL, 0));
    return path;
}

static const char *put_pyg(void)
{
    static const char *const names[] = {"edge_index", "x", "y", "train_mask", "val_mask", "test_mask"};
    return put_safetensors_named(names);
}

static const char *put_ogb_names(void)
{
    static const char *const names[] = {"edge_index", "node_feat", "node_label", "train", "valid", "test"};
    return put_safetensors_named(names);
}

static const char *put_table(bool odd)
{
    static const char *const words[] = {"", "train", "val", "test"};
    static char text[1 << 16];
    const char *end = odd ? "\r\n" : "\n";
    size_t n = (size_t)snprintf(text, sizeof text, "%ssrc%cdst%s", odd ? "\xef\xbb\xbf" : "", odd ? '\t' : ',', end);
    for (uint64_t e = 0; e < n_edges; e++) {
        n += (size_t)snprintf(text + n, sizeof text - n, odd ? "\"v %u\"\t\"v %u\"%s" : "%u,%u%s",
                              from[e] * 1000000007U, to[e] * 1000000007U, end);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "%s", odd ? end : "");
    put_bytes(odd ? "odd/edges.csv" : "table/edges.csv", text, n);
    n = (size_t)snprintf(text, sizeof text, "%sa,b,label,id,c,split,d,e%s", odd ? "\xef\xbb\xbf" : "", end);
    for (uint32_t v = 0; v < N; v++) {
        char label[16] = "";
        if (made.targets.classes[v] >= 0) {
            snprintf(label, sizeof label, "%d", made.targets.classes[v]);
        }
        n += (size_t)snprintf(text + n, sizeof text - n,
                              odd ? "%.9g,%.9g,%s,\"v %u\",%.9g,%s,%.9g,%.9g%s" : "%.9g,%.9g,%s,%u,%.9g,%s,%.9g,%.9g%s",
                              (double)feature(v, 0), (double)feature(v, 1), label, v * 1000000007U,
                              (double)feature(v, 2), words[set_of(v)], (double)feature(v, 3), (double)feature(v, 4),
                              end);
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "%s", odd ? end : "");
    put_bytes(odd ? "odd/nodes.csv" : "table/nodes.csv", text, n);
    return in_folder(odd ? "odd" : "table");
}

static const char *put_plain_table(void)
{
    return put_table(false);
}

static const char *put_odd_table(void)
{
    return put_table(true);
}

/* ---- the same bits ---- */

static void train(const struct sl_dataset *dataset, struct reports *out)
{
    assert_ok(run_session(false, "layers=2 hidden=8 cpus=2 pes=2 lr=0.01 epochs=2 cache=none batch-size=15 fanout=4,4",
                          dataset, out));
    assert_true(isfinite(out->loss[EPOCHS]) && out->loss[EPOCHS] > 0);
}

static void assert_same(const char *form, const struct sl_dataset *dataset)
{
    struct sl_identity found, expected;
    struct reports losses, first;
    sl_dataset_identify(dataset, &found);
    sl_dataset_identify(&made, &expected);
    for (int i = 0; i < SL_N_DATA_PARTS; i++) {
        if (strcmp(found.text[i], expected.text[i]) != 0) {
            fail_msg("%s: %s: found %s, expected %s", form, sl_data_part_names[i], found.text[i], expected.text[i]);
        }
    }
    train(dataset, &losses);
    train(&made, &first);
    if (memcmp(losses.loss, first.loss, sizeof first.loss) != 0 ||
        memcmp(losses.valid, first.valid, sizeof first.valid) != 0) {
        fail_msg("%s: losses %.17g and %.17g, expected %.17g and %.17g", form, losses.loss[1], losses.loss[EPOCHS],
                 first.loss[1], first.loss[EPOCHS]);
    }
}

TEST_IN_FOLDER(files_are_the_same)
{
    static const struct {
        const char *name;
        const char *(*put)(void);
        const struct sl_reader *reader;
    } forms[] = {
        {"OGB's text", put_ogb, &sl_reader_ogb},
        {"OGB's text with odd ends", put_odd_ogb, &sl_reader_ogb},
        {"what we write", put_written, &sl_reader_ogb},
        {".npy files of other types", put_npy_folder, &sl_reader_ogb},
        {".safetensors with PyG's names", put_pyg, &sl_reader_arrays},
        {".safetensors with OGB's names", put_ogb_names, &sl_reader_arrays},
        {"edges.csv and nodes.csv", put_plain_table, &sl_reader_table},
        {"edges.csv with tabs and odd ends", put_odd_table, &sl_reader_table},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        OWNED(sl_dataset_free) struct sl_dataset d;
        char path[300];
        snprintf(path, sizeof path, "%s", forms[i].put());
        const struct sl_dataset_options options = {.dataset = path, .cache = in_folder("cache"), .seed = 1};
        assert_ptr_equal(sl_reader_of(path), forms[i].reader);
        for (int again = 0; again < 2; again++) { /* the second time from the cache */
            assert_ok(sl_dataset_load(&options, &d));
            assert_int_equal(d.mapping != NULL, again);
            assert_same(forms[i].name, &d);
            sl_dataset_free(&d);
        }
        struct sl_dataset_options none = options;
        none.cache = "none";
        assert_survives_no_memory(sl_dataset_load(&none, &d));
    }
}

TEST(arrays_are_the_same)
{
    OWNED(sl_dataset_delete_it) struct sl_dataset *dataset;
    const struct sl_arrays arrays = {.size = sizeof arrays,
                                     .n_vertices = N,
                                     .n_edges = n_edges,
                                     .sources = from,
                                     .destinations = to,
                                     .n_features = F,
                                     .features = made.features.dense.data,
                                     .labels = made.targets.classes,
                                     .n_train = made.train.n,
                                     .n_valid = made.valid.n,
                                     .n_test = made.test.n,
                                     .train = made.train.ids,
                                     .valid = made.valid.ids,
                                     .test = made.test.ids};
    assert_ok(sl_dataset_new(&arrays, &dataset));
    assert_same("arrays in memory", dataset);
}

/* ---- files of arrays ---- */

struct tensor_text {
    const char *name;
    enum sl_dtype dtype;
    uint64_t rows, width;
    const void *data;
};

static const int64_t edges[] = {0, 1, 1, 2};
static const float numbers[] = {1, 2, 3, 4};
static const int64_t classes[] = {0, 1, 0};
static const unsigned char mask[] = {1, 0, 0};

static const char *put_tensors(const struct tensor_text *texts)
{
    struct sl_tensor tensors[10];
    uint32_t n = 0;
    for (; texts[n].name != NULL; n++) {
        tensors[n] = sl_tensor_make(texts[n].name, texts[n].dtype, texts[n].rows, texts[n].width, texts[n].data);
    }
    const char *path = in_folder("t.safetensors");
    assert_ok(sl_safetensors_write(path, tensors, n, NULL, 0));
    return path;
}

#define EDGES                                                                                                          \
    {                                                                                                                  \
        "edge_index", SL_DTYPE_I64, 2, 2, edges                                                                        \
    }
#define ROWS                                                                                                           \
    {                                                                                                                  \
        "x", SL_DTYPE_F32, 3, 1, numbers                                                                               \
    }
#define CLASSES                                                                                                        \
    {                                                                                                                  \
        "y", SL_DTYPE_I64, 3, 0, classes                                                                               \
    }
#define MASK                                                                                                           \
    {                                                                                                                  \
        "train_mask", SL_DTYPE_BOOL, 3, 0, mask                                                                        \
    }

/* float16, bfloat16, int8 with a scale, and the names of classes and vertices come back as they were. */
TEST_IN_FOLDER(narrow_stays_narrow)
{
    static const enum sl_dtype dtypes[] = {SL_DTYPE_F32, SL_DTYPE_F16, SL_DTYPE_BF16, SL_DTYPE_I8};
    static const uint16_t entries[6] = {0x3c01, 0x3c02, 0x3c03, 0x3c04, 0x3c05, 0x3c06};
    static const float scale = 0.25F;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const struct tensor_text texts[] = {EDGES,
                                            {"x", dtypes[i], 3, 1, entries},
                                            {"x_scale", SL_DTYPE_F32, 1, 0, &scale},
                                            CLASSES,
                                            MASK,
                                            {"class_names", SL_DTYPE_U8, 6, 0, "b\na\nc\n"},
                                            {"node_ids", SL_DTYPE_U8, 6, 0, "x\ny\nz\n"},
                                            {NULL}};
        const struct sl_dataset_options request = {.dataset = put_tensors(texts)};
        OWNED(sl_raw_files_free) struct sl_raw_files files;
        OWNED(sl_raw_free) struct sl_raw read;
        assert_survives_no_memory(sl_reader_arrays.find(&request, &files));
        assert_survives_no_memory(sl_reader_arrays.read(&files, &read));
        assert_int_equal(read.data.features.dense.dtype, dtypes[i]);
        assert_memory_equal(read.data.features.dense.data, entries,
                            sl_column_bytes_of(&read.data.features.dense, read.data.features.dense.n_rows));
        assert_true(dtypes[i] != SL_DTYPE_I8 || read.data.features.dense.scale == scale);
        assert_string_equal(read.data.class_names, "b\na\nc\n");
        assert_string_equal(read.data.vertex_names, "x\ny\nz\n");
    }
}

/* The ids that starling convert leaves in a folder. */
TEST_IN_FOLDER(reads_ids_of_a_folder)
{
    static char ids[1000];
    struct sl_dataset d;
    size_t n = 0;
    const struct sl_dataset_options options = {.dataset = put_ogb(), .cache = "none"};
    for (int v = 0; v < N; v++) {
        n += (size_t)snprintf(ids + n, sizeof ids - n, "v, %d\n", v);
    }
    put_text("ogb/raw/node-id.csv", ids);
    assert_survives_no_memory(sl_dataset_load(&options, &d));
    assert_string_equal(d.vertex_names, ids);
    sl_dataset_free(&d);
    put_text("ogb/raw/node-id.csv", ids + 5);
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "expected the ids of 61 vertices, a line each, found 60");
    assert_int_equal(remove(in_folder("ogb/raw/node-id.csv")), 0);
}

static char notices[1024];

static void note(enum sl_notice notice, const char *line)
{
    if (notice == SL_NOTICE_WARNING) {
        snprintf(notices + strlen(notices), sizeof notices - strlen(notices), "%s\n", line);
    }
}

static enum sl_status load_noting(const char *path, struct sl_dataset *out)
{
    const struct sl_dataset_options options = {.dataset = path, .cache = "none", .need = SL_RAW_FOR_LOOKS};
    notices[0] = '\0';
    sl_on_notice(note);
    enum sl_status st = sl_dataset_load(&options, out);
    sl_on_notice(NULL);
    return st;
}

/* Arrays that are not read are named; tables in .npz are refused. */
TEST_IN_FOLDER(names_other_arrays)
{
    static const unsigned char second[] = {0, 1, 0};
    static const struct tensor_text more[] = {EDGES,
                                              ROWS,
                                              CLASSES,
                                              MASK,
                                              {"valid_mask", SL_DTYPE_BOOL, 3, 0, second},
                                              {"node_year", SL_DTYPE_F32, 3, 0, numbers},
                                              {NULL}};
    static const char *const archives[] = {"ogb/raw/data.npz", "ogb/raw/node-label.npz", "ogb/split/only/train.npz"};
    struct sl_dataset d;
    assert_ok(load_noting(put_tensors(more), &d));
    assert_int_equal(d.valid.n, 1);
    sl_dataset_free(&d);
    assert_non_null(strstr(notices, "t.safetensors: array 'node_year': is not used"));
    assert_null(strstr(notices, "valid_mask"));
    const char *path = put_ogb();
    const struct sl_dataset_options options = {.dataset = path, .cache = "none"};
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        put_text(archives[i], "PK");
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE,
                       "training does not read .npz; make a dataset of the folder: ");
        assert_int_equal(remove(in_folder(archives[i])), 0);
    }
}

TEST_IN_FOLDER(refuses_bad_files_of_arrays)
{
    static const float infinite[] = {1, INFINITY, 3};
    static const float negative[] = {1, -0.5F};
    static const float not_numbers[] = {NAN, 1};
    static const struct {
        struct tensor_text tensors[6];
        const char *features, *split;
        enum sl_status status;
        const char *message;
    } cases[] = {
        {{ROWS}, NULL, NULL, SL_EFILE, "t.safetensors: found no array edge_index, expected a dataset; a model"},
        {{EDGES, ROWS}, NULL, NULL, SL_EFILE, "found a file of arrays, expected labels and a split too: add arrays y"},
        {{EDGES, CLASSES, MASK}, NULL, NULL, SL_EFILE, "which has no features; --features can be degree"},
        {{EDGES, ROWS, CLASSES, MASK}, "f.csv", NULL, SL_EINVAL, "no folder for --features f.csv"},
        {{EDGES, ROWS, CLASSES, MASK}, NULL, "time", SL_EINVAL, "has no split 'time'; leave out --split"},
        {{{"edge_index", SL_DTYPE_I64, 4, 0, edges}, ROWS, CLASSES, MASK},
         NULL,
         NULL,
         SL_EFILE,
         "edge_index: expected the shape (2, edges)"},
        {{EDGES, {"x", SL_DTYPE_F32, 4, 1, numbers}, CLASSES, MASK}, NULL, NULL, SL_EFILE, "x: expected the shape (3"},
        {{EDGES, {"x", SL_DTYPE_F32, 3, 1, infinite}, CLASSES, MASK},
         NULL,
         NULL,
         SL_EFILE,
         "x: item 1: expected a fin"},
        {{EDGES, ROWS, CLASSES, {"train_mask", SL_DTYPE_BOOL, 2, 0, mask}}, NULL, NULL, SL_EFILE, "a mask of 3"},
        {{EDGES, ROWS, CLASSES, {"num_nodes", SL_DTYPE_F32, 1, 0, numbers + 1}, MASK},
         NULL,
         NULL,
         SL_EFILE,
         "edge_index: item 3: expected an id below 2"},
        {{EDGES, {"x", SL_DTYPE_I8, 3, 1, numbers}, {"x_scale", SL_DTYPE_F32, 2, 0, numbers}, CLASSES, MASK},
         NULL,
         NULL,
         SL_EFILE,
         "x_scale: expected one finite number"},
        {{EDGES, ROWS, CLASSES, MASK, {"edge_weight", SL_DTYPE_F32, 3, 0, numbers}},
         NULL,
         NULL,
         SL_EFILE,
         "edge_weight: expected the shape (2,)"},
        {{EDGES, ROWS, CLASSES, MASK, {"edge_weight", SL_DTYPE_F32, 2, 0, negative}},
         NULL,
         NULL,
         SL_EFILE,
         "edge_weight: item 1: expected the weight of an edge, a finite number of 0 or more, found -0.5"},
        {{EDGES, ROWS, CLASSES, MASK, {"edge_weight", SL_DTYPE_F32, 2, 0, infinite}},
         NULL,
         NULL,
         SL_EFILE,
         "edge_weight: item 1: expected the weight of an edge"},
        {{EDGES, ROWS, CLASSES, MASK, {"edge_weight", SL_DTYPE_F32, 2, 0, not_numbers}},
         NULL,
         NULL,
         SL_EFILE,
         "edge_weight: item 0: expected the weight of an edge"},
        {{EDGES, ROWS, CLASSES, MASK}, NULL, NULL, SL_OK, ""},
        {{EDGES, CLASSES, MASK}, "degree", NULL, SL_OK, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sl_dataset d;
        const struct sl_dataset_options options = {.dataset = put_tensors(cases[i].tensors),
                                                   .cache = "none",
                                                   .features = cases[i].features,
                                                   .split = cases[i].split};
        if (cases[i].status == SL_OK) {
            assert_ok(sl_dataset_load(&options, &d));
            assert_int_equal(d.train.n, 1);
            sl_dataset_free(&d);
        } else {
            assert_refused(sl_dataset_load(&options, &d), cases[i].status, cases[i].message);
        }
    }
}

TEST_MAIN(make, unmake)
