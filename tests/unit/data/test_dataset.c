/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/dataset.h, raw.h and statistics.h: finding, choosing, loading, caching and writing datasets. */
#include "tests/support/data_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "data/identity.h"
#include "data/load.h"
#include "data/raw.h"
#include "data/statistics.h"
#include "partition/partition.h"
#include "support/memory.h"
#include "tests/support/floats.h"
#include "tests/support/npy_fixture.h"
#include "tests/support/written_fixture.h"

static struct sl_dataset_options small_options(void)
{
    return (struct sl_dataset_options){.dataset = "small", .data_path = folder, .cache = "none", .seed = 1};
}

static struct sl_dataset_options options; /* a test begins with small_options() */

static int make_options(void **state)
{
    const int failed = make_folder(state);
    options = small_options();
    return failed;
}

/* With the small dataset in the folder. */
static int make_small(void **state)
{
    const int failed = make_options(state);
    put_small_dataset("small");
    return failed;
}

#define TEST_OF_OPTIONS(name) TEST_WITH(name, make_options, remove_folder)
#define TEST_OF_SMALL(name) TEST_WITH(name, make_small, remove_folder)

/* ---- What is loaded ---------------------------------------------------------------------------------------------- */

TEST_OF_SMALL(loads_the_small_one)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    assert_ok(sl_dataset_load(&options, &d));
    assert_string_equal(d.name, "small");
    assert_string_equal(d.split, "one");
    assert_false(d.synthetic);
    assert_int_equal(d.graph.n_vertices, 6);
    assert_int_equal(d.graph.n_edges, 7); /* three both ways, and the self loop */
    assert_memory_equal(d.graph.offsets, ((const uint64_t[]){0, 1, 3, 5, 6, 7, 7}), 7 * sizeof(uint64_t));
    assert_memory_equal(d.graph.sources, ((const sl_vertex[]){1, 0, 2, 1, 3, 2, 4}), 7 * sizeof(sl_vertex));
    assert_int_equal(d.targets.n_classes, 3);
    assert_memory_equal(d.targets.classes, ((const int32_t[]){0, 1, 2, 0, -1, 1}), 6 * sizeof(int32_t));
    assert_int_equal(d.train.n, 2);
    assert_memory_equal(d.train.ids, ((const sl_vertex[]){0, 3}), 2 * sizeof(sl_vertex));
    assert_int_equal(d.valid.ids[0], 1);
    assert_int_equal(d.test.ids[1], 5);
    assert_true(floats_of(&d.features)[2] == 0.5f && floats_of(&d.features)[11] == 2);
    struct sl_statistics statistics;
    assert_survives_no_memory(sl_statistics_count(&d, &statistics));
    assert_int_equal(statistics.max_in_degree, 2);
    assert_int_equal(statistics.n_isolated, 2);
    assert_int_equal(statistics.n_self_loops, 1);
    assert_int_equal(statistics.n_labelled, 5);
    assert_int_equal(statistics.n_classes, 3);
    assert_int_equal(d.range.column, 1);
    assert_true(d.range.largest[0] == 7 && d.range.largest[1] == 3);
    assert_int_equal(statistics.n_nonzeros, 10);
    assert_int_equal(statistics.smallest_class, 1);
    assert_int_equal(statistics.largest_class, 2);
    assert_true(statistics.homophily == 0);
    sl_dataset_free(&d);
    options.directed = true;
    options.normalize = SL_NORMALIZE_ROW;
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.graph.n_edges, 4);
    assert_memory_equal(d.graph.sources, ((const sl_vertex[]){0, 1, 3, 4}), 4 * sizeof(sl_vertex));
    assert_true(floats_of(&d.features)[0] == (float)(1.0 / 3) && floats_of(&d.features)[8] == 0 &&
                floats_of(&d.features)[10] == -2);
    /* A row of both signs, whose sum is not above 1, stays as it is. */
    assert_true(floats_of(&d.features)[2] == 0.5f && floats_of(&d.features)[3] == -1);
}

TEST_OF_SMALL(survives_no_memory)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    assert_survives_no_memory(sl_dataset_load(&options, &d));
    sl_dataset_free(&d);
    /* With a cache, running out of memory must neither leave blocks behind nor a cache that is wrong. */
    options.cache = in_folder("cache");
    assert_survives_no_memory(sl_dataset_load(&options, &d));
    sl_dataset_free(&d);
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.graph.n_edges, 7);
    OWNED(sl_free_it) char *file;
    assert_survives_no_memory(sl_dataset_cache_file(&options, "x", &file));
}

/* ---- Where it is ------------------------------------------------------------------------------------------------- */

static void assert_found(const struct sl_dataset_options *of, const char *name)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    assert_ok(sl_dataset_load(of, &d));
    assert_string_equal(d.name, name);
    assert_false(d.synthetic);
}

TEST_IN_FOLDER(looks_along_the_path)
{
    char path[300];
    put_small_dataset("one/ogbn-arxiv");
    put_small_dataset("two/ogbn_products");
    put_small_dataset("two/plain");
    assert_ok(sl_folder_make(in_folder("one/plain"))); /* no dataset: it lacks raw */
    snprintf(path, sizeof path, "/nowhere:%s/one::%s/two", folder, folder);
    options = (struct sl_dataset_options){.data_path = path, .cache = "none"};
    assert_found(&options, "ogbn-arxiv"); /* the default */
    options.dataset = "arxiv";
    assert_found(&options, "ogbn-arxiv");
    options.dataset = "ogbn-arxiv";
    assert_found(&options, "ogbn-arxiv");
    options.dataset = "products";
    assert_found(&options, "ogbn_products");
    options.dataset = "ogbn-products";
    assert_found(&options, "ogbn_products");
    options.dataset = "plain";
    assert_found(&options, "plain");
    snprintf(path, sizeof path, "/nowhere");
    char place[300];
    snprintf(place, sizeof place, "%s/two/plain/", folder);
    options.dataset = place;
    assert_found(&options, "plain");
    options.data_path = NULL;
    assert_int_equal(setenv("STARLING_DATA", in_folder("two"), 1), 0);
    options.dataset = "plain";
    assert_found(&options, "plain");
    assert_int_equal(unsetenv("STARLING_DATA"), 0);
}

TEST_OF_OPTIONS(says_where_it_looked)
{
    struct sl_dataset d;
    assert_refused(sl_dataset_load(&options, &d), SL_ENOTFOUND, "dataset 'small' is not in /tmp/starling-test-");
    options.dataset = "./none";
    assert_refused(sl_dataset_load(&options, &d), SL_ENOTFOUND, "dataset './none': no such folder");
    options.dataset = "arxiv";
    options.features = "derived/x.csv.gz";
    assert_refused(sl_dataset_load(&options, &d), SL_ENOTFOUND, "--features derived/x.csv.gz");
    options.features = NULL;
    options.split = "random";
    assert_refused(sl_dataset_load(&options, &d), SL_EINVAL, "no split 'random'; --split can be one of: time");
}

static unsigned n_warnings;
static unsigned n_progress;
static char last_notice[SL_MESSAGE_BYTES];

static void note(enum sl_notice kind, const char *line)
{
    n_warnings += kind == SL_NOTICE_WARNING;
    n_progress += kind == SL_NOTICE_PROGRESS;
    snprintf(last_notice, sizeof last_notice, "%s", line);
}

/* A real dataset's name is never generated, and nothing of that name is passed over. */
TEST_OF_OPTIONS(makes_nothing_up)
{
    struct sl_dataset d;
    put_small_dataset("cora");
    put_small_dataset("citeseer");
    static const char *const real[] = {"ogbn-arxiv", "ogbn_arxiv", "ogbn-products", "papers"};
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        options.dataset = real[i];
        assert_refused(sl_dataset_load(&options, &d), SL_ENOTFOUND, "on the data path: citeseer, cora");
    }
    options.dataset = "Coar";
    assert_refused(sl_dataset_load(&options, &d), SL_ENOTFOUND, "did you mean cora?");
    options.dataset = "arxiv-synthetc";
    assert_refused(sl_dataset_load(&options, &d), SL_ENOTFOUND, "did you mean arxiv-synthetic?");
    assert_ok(sl_folder_make(in_folder("ogbn_arxiv/split")));
    static const char *const half[] = {"ogbn-arxiv", "arxiv"};
    for (size_t i = 0; i < 2; i++) {
        options.dataset = half[i];
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE,
                       "ogbn_arxiv: no dataset: expected a file raw/edge.csv.gz");
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "found split");
    }
    put_text("products.zip", "PK\3\4");
    options.dataset = "products";
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "products.zip: found an archive");
    options.dataset = "ogbn-products";
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "products.zip: found an archive");
}

/* What is no dataset says why by what it is, whatever comes first on the data path: a file, a folder, an archive. */
TEST_OF_OPTIONS(says_what_was_found)
{
    static const char *const found[] = {"c/what: training does not read",
                                        "b/what: no dataset: ", "a/what.zip: found an archive"};
    struct sl_dataset d;
    char searched[3 * 4096];
    char root[3][4096];
    for (int i = 0; i < 3; i++) {
        snprintf(root[i], sizeof root[i], "%s", in_folder((const char *[]){"a", "b", "c"}[i]));
    }
    put_text("a/what.zip", "PK\3\4");
    assert_ok(sl_folder_make(in_folder("b/what")));
    put_text("c/what", "x");
    snprintf(searched, sizeof searched, "%s:%s:%s", root[0], root[1], root[2]);
    options.dataset = "what";
    options.data_path = searched;
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, found[0]);
    assert_int_equal(remove(in_folder("c/what")), 0);
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, found[1]);
    assert_int_equal(remove(in_folder("b/what")), 0);
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, found[2]);
}

/* A stand-in is announced, each time, also if the cache has it. What was asked for by name is not. */
TEST_IN_FOLDER(says_what_is_synthetic)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    options = (struct sl_dataset_options){
        .dataset = "arxiv", .data_path = "/nowhere", .cache = in_folder("cache"), .seed = 1};
    sl_on_notice(note);
    n_warnings = n_progress = 0;
    for (unsigned i = 1; i <= 2; i++) {
        assert_ok(sl_dataset_load(&options, &d));
        assert_true(d.synthetic);
        assert_int_equal(d.mapping != NULL, i == 2);
        sl_dataset_free(&d);
        assert_int_equal(n_warnings, i);
        assert_int_equal(n_progress, 1);
    }
    assert_non_null(strstr(last_notice, "--dataset arxiv"));
    assert_non_null(strstr(last_notice, "SYNTHETIC"));
    options.dataset = "arxiv-synthetic";
    assert_ok(sl_dataset_load(&options, &d));
    assert_true(d.synthetic);
    assert_int_equal(n_warnings, 2);
    sl_on_notice(NULL);
}

TEST_OF_OPTIONS(says_what_a_file_is)
{
    const struct {
        const char *name, *message;
    } cases[] = {{"x.zip", "found an archive, expected a dataset; unpack it"},
                 {"d.tar.gz", "found an archive"},
                 {"model.safetensors", "expected a safetensors file"},
                 {"data.pt", "make a dataset of it: starling convert "},
                 {"cora.npz", "cora.npz --out NAME"},
                 {"graph.bin", "starling convert "},
                 {"g.mtx", "starling convert "},
                 {"g.graph", "starling convert "},
                 {"edges.csv", "starling convert "},
                 {"t.parquet", "starling convert "},
                 {"odd", "starling convert "}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sl_dataset d;
        options.dataset = put_text(cases[i].name, "x");
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE, cases[i].message);
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE, cases[i].name);
    }
    struct sl_dataset d;
    options = small_options();
    assert_ok(sl_folder_make(in_folder("igb/processed")));
    options.dataset = in_folder("igb");
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "igb: no dataset: expected a file raw/edge.csv.gz");
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "found processed");
}

/* A stray file on the data path: refused, unless a later folder of the path has the dataset. */
TEST_OF_OPTIONS(files_named_as_datasets)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    char both[2 * 4096];
    put_text("stray/small", "not a dataset\n");
    put_text("stray/ogbn-arxiv", "");
    put_small_dataset("data/small");
    options.data_path = in_folder("stray");
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "stray/small: training does not read this form");
    options.dataset = "arxiv"; /* not made up */
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "stray/ogbn-arxiv: training does not read");
    size_t n = (size_t)snprintf(both, sizeof both, "%s:", in_folder("stray"));
    snprintf(both + n, sizeof both - n, "%s", in_folder("data"));
    options.data_path = both;
    options.dataset = "small";
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.graph.n_vertices, 6);
}

static void assert_like_small(const struct sl_dataset_options *of)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    assert_ok(sl_dataset_load(of, &d));
    assert_int_equal(d.graph.n_vertices, 6);
    assert_int_equal(d.graph.n_edges, 7);
    assert_memory_equal(d.graph.sources, ((const sl_vertex[]){1, 0, 2, 1, 3, 2, 4}), 7 * sizeof(sl_vertex));
    assert_memory_equal(d.targets.classes, ((const int32_t[]){0, 1, 2, 0, -1, 1}), 6 * sizeof(int32_t));
}

/* Counts that follow from other files; an edge list as an array. */
TEST_OF_SMALL(counts_by_itself)
{
    struct sl_dataset d;
    assert_int_equal(remove(in_folder("small/raw/num-edge-list.csv.gz")), 0);
    assert_like_small(&options);
    assert_int_equal(remove(in_folder("small/raw/num-node-list.csv.gz")), 0);
    assert_like_small(&options);
    assert_survives_no_memory(sl_dataset_load(&options, &d));
    sl_dataset_free(&d);
    assert_int_equal(remove(in_folder("small/raw/node-feat.csv.gz")), 0);
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "--features degree, onehot or random:64");
    options.need = SL_RAW_FOR_LOOKS;
    assert_like_small(&options); /* by the labels */
    assert_int_equal(remove(in_folder("small/raw/node-label.csv.gz")), 0);
    put_gzip("small/split/one/test.csv.gz", "");
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.graph.n_vertices, 5); /* by the edges: the last vertex has none */
    sl_dataset_free(&d);
    put_small_dataset("small");
    options.need = SL_RAW_FOR_TRAINING;
    assert_int_equal(remove(in_folder("small/raw/edge.csv.gz")), 0);
    static const char head[] = "\x93NUMPY\x01\x00\x3b\x00{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2), }";
    char array[sizeof head + 8] = {0};
    memcpy(array, head, sizeof head - 1);
    array[8] = (char)(sizeof head - 11 + 1);
    array[sizeof head - 1] = '\n';
    memcpy(array + sizeof head, "\0\1\1\2\2\3\4\4", 8);
    put_bytes("small/raw/edge.npy", array, sizeof array);
    assert_like_small(&options);
}

/* What inference does without. */
TEST_OF_SMALL(serves_inference)
{
    struct sl_dataset d;
    options.cache = in_folder("cache");
    options.need = SL_RAW_FOR_INFERENCE;
    put_gzip("small/split/one/test.csv.gz", "2\n4\n"); /* 4 has no label */
    sl_on_notice(note);
    n_warnings = 0;
    for (int i = 0; i < 2; i++) { /* not from the cache: training would not take it */
        assert_ok(sl_dataset_load(&options, &d));
        assert_null(d.mapping);
        assert_int_equal(d.test.n, 1);
        assert_int_equal(d.train.n, 2);
        sl_dataset_free(&d);
    }
    assert_int_equal(n_warnings, 2);
    sl_on_notice(NULL);
    options.need = SL_RAW_FOR_TRAINING;
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "vertex 4 of test has no label");
    assert_int_equal(remove(in_folder("small/split/one/test.csv.gz")), 0);
    assert_int_equal(remove(in_folder("small/split/one/train.csv.gz")), 0);
    options.need = SL_RAW_FOR_INFERENCE;
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.train.n + d.test.n, 0);
    assert_int_equal(d.valid.n, 1);
    sl_dataset_free(&d);
    assert_int_equal(remove(in_folder("small/split/one/valid.csv.gz")), 0);
    assert_int_equal(remove(in_folder("small/raw/node-label.csv.gz")), 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(sl_dataset_load(&options, &d));
        assert_int_equal(d.targets.n_classes, 0);
        assert_int_equal(d.targets.classes[0], -1);
        assert_int_equal(d.features.n_rows, 6);
        sl_dataset_free(&d);
    }
    options.split = "two";
    assert_refused(sl_dataset_load(&options, &d), SL_EINVAL, "no split 'two'");
    options.split = NULL;
    options.need = SL_RAW_FOR_TRAINING;
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "expected a file raw/node-label.csv.gz");
}

TEST_OF_OPTIONS(says_what_is_unused)
{
    static const char *const tables[] = {"edge-feat.csv.gz", "edge-feat.npy", "edge_weight.csv", "edge-attr.npy"};
    struct sl_dataset d;
    options.cache = in_folder("cache");
    sl_on_notice(note);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char name[64];
        snprintf(name, sizeof name, "small/raw/%s", tables[i]);
        put_small_dataset("small");
        put_text(name, "0.5\n");
        for (unsigned k = 1; k <= 2; k++) { /* from files, and from the cache */
            n_warnings = 0;
            assert_ok(sl_dataset_load(&options, &d));
            sl_dataset_free(&d);
            assert_int_equal(n_warnings, 1);
            assert_non_null(strstr(last_notice, tables[i]));
        }
        assert_int_equal(remove(in_folder(name)), 0);
    }
    sl_on_notice(NULL);
}

/* edge.csv.gz has 0,1  1,2  3,2  4,4 with weights 0.5, 2, 0.001, 4. The in-edges: 1->0, 0->1, 2->1, 1->2, 3->2, 2->3,
 * 4->4. */
static void assert_weighted(const struct sl_dataset *d, bool directed)
{
    static const float both[] = {0.5f, 0.5f, 2, 2, 1e-3f, 1e-3f, 4};
    static const float one[] = {0.5f, 2, 1e-3f, 4};
    const size_t bytes = directed ? sizeof one : sizeof both;
    assert_int_equal(d->graph.n_edges, bytes / sizeof *both);
    assert_non_null(d->graph.weights);
    assert_memory_equal(d->graph.weights, directed ? one : both, bytes);
}

/* Weights from each kind of file, from the cache, in a partition, and written again. */
TEST_OF_SMALL(reads_weights)
{
    static const char npy[] = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
    static const float weights[4] = {0.5f, 2, 1e-3f, 4};
    char array[128 + sizeof weights];
    OWNED(sl_dataset_free) struct sl_dataset d;
    struct sl_identity plain;
    struct sl_identity weighted;
    assert_ok(sl_dataset_load(&options, &d));
    assert_null(d.graph.weights);
    sl_dataset_identify(&d, &plain);
    sl_dataset_free(&d);
    memset(array, ' ', 128);
    memcpy(array, npy, sizeof npy - 1);
    array[127] = '\n';
    memcpy(array + 128, weights, sizeof weights);
    static const char *const names[] = {"small/raw/edge-weight.npy", "small/raw/edge-weight.csv",
                                        "small/raw/edge-weight.csv.gz"};
    for (int i = 0; i < 3; i++) { /* the later names come first, if there are several */
        if (i == 0) {
            put_bytes(names[i], (const unsigned char *)array, sizeof array);
        } else if (i == 1) {
            put_text(names[i], "0.5\n2\n1e-3\n4\n");
        } else {
            put_gzip(names[i], "0.5\n2.0\n0.001\n4\n\n");
        }
        options.cache = in_folder("weighted-cache");
        for (int k = 0; k < 4; k++) { /* from the files, from the cache, with little memory, and without a cache */
            options.low_memory = k == 2;
            options.cache = k == 3 ? "none" : options.cache;
            n_warnings = 0;
            sl_on_notice(note);
            assert_survives_no_memory(sl_dataset_load(&options, &d));
            sl_on_notice(NULL);
            assert_int_equal(n_warnings, 0);
            assert_weighted(&d, false);
            sl_dataset_identify(&d, &weighted);
            assert_string_not_equal(weighted.text[SL_DATA_GRAPH], plain.text[SL_DATA_GRAPH]);
            sl_dataset_free(&d);
        }
        options.low_memory = false;
        if (i < 2) {
            assert_int_equal(remove(in_folder(names[i])), 0);
        }
    }
    assert_ok(sl_dataset_load(&options, &d));
    OWNED(sl_partition_free) struct sl_partition partition;
    assert_survives_no_memory(sl_partition_make(
        &d, &(struct sl_partition_rule){.method = SL_PARTITION_RANDOM, .n_parts = 3, .seed = 1}, &partition));
    for (sl_vertex v = 0; v < 6; v++) {
        uint64_t from = partition.graph.offsets[partition.new_ids[v]];
        uint64_t n = d.graph.offsets[v + 1] - d.graph.offsets[v];
        assert_memory_equal(partition.graph.weights + from, d.graph.weights + d.graph.offsets[v], n * sizeof(float));
    }
    for (int directed = 0; directed < 2; directed++) {
        assert_ok(write_dataset(&d, directed, in_folder("again")));
        options.dataset = "again";
        options.directed = directed;
        OWNED(sl_dataset_free) struct sl_dataset again;
        assert_ok(sl_dataset_load(&options, &again));
        assert_weighted(&again, false); /* with --directed the file lists both directions */
    }
    sl_dataset_free(&d);
    options = small_options();
    options.directed = true;
    assert_ok(sl_dataset_load(&options, &d));
    assert_weighted(&d, true);
}

TEST_OF_SMALL(refuses_bad_weights)
{
    static const char *const bad[][2] = {
        {"1\n1\n-2\n1\n",
         "edge-weight.csv:3: expected the weight of an edge, a finite number of 0 or more, found '-2'"},
        {"1\nnan\n1\n1\n", ":2: expected the weight of an edge"},
        {"inf\n1\n1\n1\n", ":1: expected the weight of an edge"},
        {"1\n1e39\n1\n1\n", ":2: expected the weight of an edge"},
        {"1\n1\n1\n", "expected 4 lines, found 3"},
        {"1\n1\n1\n1\n1\n", ":5: expected 4 lines, found more"},
        {"1\n1,1\n1\n1\n", ":2: expected the weight of an edge"},
        {"1\n\n1\n1\n", ":2: expected the weight of an edge"},
    };
    struct sl_dataset d;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_text("small/raw/edge-weight.csv", bad[i][0]);
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE, bad[i][1]);
    }
    assert_int_equal(remove(in_folder("small/raw/edge-weight.csv")), 0);
}

/* What a run with the data needs beside reading them. */
static uint64_t least_of(const struct sl_raw_sizes *sizes, const void *gigabytes)
{
    assert_int_equal(sizes->n_vertices, 6);
    assert_int_equal(sizes->n_edges, 4);
    return *(const uint64_t *)gigabytes * 1000000000;
}

/* Before the lists are read: the text of the edges is wrong. */
TEST_OF_SMALL(refuses_what_no_memory_holds)
{
    const uint64_t gigabytes = 5;
    struct sl_dataset d;
    sl_memory_limit(4000000000, "use less");
    put_gzip("small/raw/edge.csv.gz", "0,1\n1,a\n3,4\n4,5\n");
    options.least = least_of;
    options.context = &gigabytes;
    assert_refused(sl_dataset_load(&options, &d), SL_ENOMEM, "edge.csv.gz: 6 vertices: 4 edges: need 5.00 GB");
    options.least = NULL;
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "edge.csv.gz:2: expected");
    put_gzip("small/raw/num-node-list.csv.gz", "400000000\n");
    assert_refused(sl_dataset_load(&options, &d), SL_ENOMEM, "400000000 vertices: 4 edges: need 4.80 GB");
    assert_refused(sl_dataset_load(&options, &d), SL_ENOMEM, "this process may use 4.00 GB");
    put_gzip("small/raw/num-node-list.csv.gz", "6\n");
    put_gzip("small/raw/num-edge-list.csv.gz", "400000000\n");
    assert_refused(sl_dataset_load(&options, &d), SL_ENOMEM, "6 vertices: 400000000 edges: need 4.80 GB");
    sl_memory_limit(UINT64_MAX, "");
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "too short");
}

TEST_OF_SMALL(chooses_the_split)
{
    struct sl_dataset d;
    options.split = "two";
    assert_refused(sl_dataset_load(&options, &d), SL_EINVAL, "no split 'two'; --split can be one of: one");
    put_gzip("small/split/two/train.csv", "5\n");
    put_gzip("small/split/two/valid.csv", "");
    put_gzip("small/split/two/test.csv", "0\n");
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.train.ids[0], 5);
    assert_int_equal(d.valid.n, 0);
    sl_dataset_free(&d);
    options.split = NULL;
    assert_refused(sl_dataset_load(&options, &d), SL_EINVAL,
                   "more than one split; choose with --split one of: one, two");
    options.split = "../small/split/one"; /* a name, not a path */
    assert_int_equal(sl_dataset_load(&options, &d), SL_EINVAL);
}

TEST_OF_SMALL(chooses_the_features)
{
    struct sl_dataset d;
    put_text("small/derived/node-feat-x.csv", "1\n2\n3\n4\n5\n6\n");
    options.features = "derived/node-feat-x.csv";
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.features.n_columns, 1);
    assert_true(floats_of(&d.features)[5] == 6);
    sl_dataset_free(&d);
    options.features = "derived/y.csv";
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "--features is relative to the dataset's folder");
    options.features = NULL;
    assert_int_equal(remove(in_folder("small/raw/node-feat.csv.gz")), 0);
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE,
                   "name another file with --features derived/node-feat-x.csv");
}

TEST_IN_FOLDER(refuses_bad_files)
{
    const struct {
        const char *file;
        const char *text; /* NULL: remove it */
        const char *message;
    } cases[] = {
        {"raw/num-node-list.csv.gz", "7\n", "node-label.csv.gz:7: expected 7 lines, found 6"},
        {"raw/num-node-list.csv.gz", "5\n", "node-label.csv.gz:6: expected 5 lines, found more"},
        {"raw/num-node-list.csv.gz", "3\n", "edge.csv.gz:3: expected 'source,destination', two ids below 3"},
        {"raw/num-node-list.csv.gz", "4294967295\n", "expected at most 4294967294 vertices"},
        {"raw/num-node-list.csv.gz", "4294967294\n", "too short"},
        {"raw/num-edge-list.csv.gz", "5\n", "edge.csv.gz:5: expected 5 lines, found 4"},
        {"raw/num-edge-list.csv.gz", "9000000000000000\n", "expected at most 2^40 edges"},
        {"raw/edge.csv.gz", NULL, "no dataset: expected a file raw/edge.csv.gz (or .csv, .npy), found"},
        {"raw/node-label.csv.gz", NULL, "expected a file raw/node-label.csv.gz"},
        {"raw/node-feat.csv.gz", "1,2\n", "node-feat.csv.gz:2: expected 6 lines, found 1"},
        {"split/one/test.csv.gz", NULL, "expected a file split/one/test.csv.gz"},
        {"split/one/test.csv.gz", "2\n6\n", "test.csv.gz:2: expected one id below 6, found '6'"},
        {"split/one/test.csv.gz", "2\n3\n", "vertex 3 is both in train and in test"},
        {"split/one/valid.csv.gz", "0\n", "vertex 0 is both in train and in valid"},
        {"split/one/train.csv.gz", "4\n", "vertex 4 of train has no label"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[100];
        struct sl_dataset d;
        options = small_options();
        put_small_dataset("small");
        snprintf(name, sizeof name, "small/%s", cases[i].file);
        assert_int_equal(remove(in_folder(name)), 0);
        if (cases[i].text != NULL) {
            put_gzip(name, cases[i].text);
        }
        assert_refused(sl_dataset_load(&options, &d), SL_EFILE, cases[i].message);
        assert_null(d.targets.classes);
    }
}

/* ---- The cache --------------------------------------------------------------------------------------------------- */

static bool from_cache(const struct sl_dataset_options *of)
{
    struct sl_dataset d;
    assert_ok(sl_dataset_load(of, &d));
    assert_int_equal(d.graph.n_vertices, 6);
    bool mapped = d.mapping != NULL;
    sl_dataset_free(&d);
    return mapped;
}

/* Equal files and options hit; a touched file and other options miss, and then hit. */
TEST_OF_SMALL(caches_what_it_read)
{
    char place[300];
    snprintf(place, sizeof place, "%s/cache", folder);
    options.cache = place;
    assert_false(from_cache(&options));
    assert_true(from_cache(&options));
    options.directed = true;
    assert_false(from_cache(&options));
    assert_true(from_cache(&options));
    options.directed = false;
    options.normalize = SL_NORMALIZE_ROW;
    assert_false(from_cache(&options));
    options.normalize = SL_NORMALIZE_NONE;
    assert_true(from_cache(&options));
    options.dataset = in_folder("small"); /* the same by another name */
    assert_true(from_cache(&options));
    options.dataset = "small";
    for (int i = 0; i < 3; i++) { /* another second, another nanosecond */
        struct timespec time = {.tv_sec = 1 + i / 2, .tv_nsec = 5 + (i > 0)};
        assert_int_equal(
            utimensat(AT_FDCWD, in_folder("small/split/one/valid.csv.gz"), (const struct timespec[]){time, time}, 0),
            0);
        assert_false(from_cache(&options));
        assert_true(from_cache(&options));
    }
    put_gzip("small/split/two/train.csv.gz", "");
    put_gzip("small/split/two/valid.csv.gz", "");
    put_gzip("small/split/two/test.csv.gz", "");
    options.split = "two";
    assert_false(from_cache(&options));
    options.split = "one";
    assert_true(from_cache(&options));
    options.cache = "none";
    assert_false(from_cache(&options));
}

TEST_OF_SMALL(damages_cure)
{
    char command[400];
    char place[300];
    snprintf(place, sizeof place, "%s/cache", folder);
    options.cache = place;
    assert_false(from_cache(&options));
    snprintf(command, sizeof command,
             "for f in %s/cache/*.slc; do printf x | dd of=$f bs=1 seek=962 conv=notrunc 2>/dev/null; done", folder);
    assert_int_equal(system(command), 0);
    assert_false(from_cache(&options));
    assert_true(from_cache(&options));
    snprintf(command, sizeof command, "for f in %s/cache/*.slc; do : >$f; done", folder);
    assert_int_equal(system(command), 0);
    assert_false(from_cache(&options));
    assert_true(from_cache(&options));
}

/* The folder: what is given; beside the data where that is writable; else the user's; and without any, no cache. */
TEST_OF_SMALL(places_the_cache)
{
    char expected[300];
    char *file;
    char *old_xdg = getenv("XDG_CACHE_HOME");
    char *old_home = getenv("HOME");
    FREED char *xdg = old_xdg != NULL ? strdup(old_xdg) : NULL;
    FREED char *home = old_home != NULL ? strdup(old_home) : NULL;
    assert_ok(sl_dataset_cache_file(&options, "metis-4", &file));
    assert_null(file);
    options.cache = "/given";
    assert_ok(sl_dataset_cache_file(&options, "metis-4", &file));
    assert_ptr_equal(strstr(file, "/given/small-"), file);
    assert_non_null(strstr(file, "-metis-4.slc"));
    sl_free(file);
    options.cache = NULL;
    assert_ok(sl_dataset_cache_file(&options, "metis-4", &file));
    snprintf(expected, sizeof expected, "%s/small/starling-cache/small-", folder);
    assert_ptr_equal(strstr(file, expected), file);
    sl_free(file);
    assert_int_equal(chmod(in_folder("small"), 0555), 0);
    setenv("XDG_CACHE_HOME", in_folder("xdg"), 1);
    assert_ok(sl_dataset_cache_file(&options, "metis-4", &file));
    snprintf(expected, sizeof expected, "%s/xdg/starling/small-", folder);
    assert_ptr_equal(strstr(file, expected), file);
    sl_free(file);
    assert_false(from_cache(&options));
    assert_true(from_cache(&options));
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", in_folder("home"), 1);
    assert_ok(sl_dataset_cache_file(&options, "metis-4", &file));
    snprintf(expected, sizeof expected, "%s/home/.cache/starling/small-", folder);
    assert_ptr_equal(strstr(file, expected), file);
    sl_free(file);
    unsetenv("HOME");
    assert_ok(sl_dataset_cache_file(&options, "metis-4", &file));
    assert_null(file);
    assert_false(from_cache(&options));
    assert_false(from_cache(&options));
    options.cache = "/proc/nowhere"; /* cannot be made: go on without */
    assert_false(from_cache(&options));
    assert_int_equal(chmod(in_folder("small"), 0755), 0);
    if (home != NULL) {
        setenv("HOME", home, 1);
    }
    if (xdg != NULL) {
        setenv("XDG_CACHE_HOME", xdg, 1);
    }
}

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

/* Values with few decimals, many, none, tiny and huge: all come back to the bit. */
TEST_IN_FOLDER(writes_what_it_reads)
{
    float values[12] = {1000.00006f, -0.0001f, 12345.678f,  3.4e38f,  1e-45f, -7,
                        1.0f / 3,    1e15f,    99999.9999f, 16777216, -0.5f,  0};
    int32_t labels[4] = {2, -1, 0, 1};
    sl_vertex from[3] = {0, 3, 1};
    sl_vertex to[3] = {1, 3, 2};
    sl_vertex ids[3] = {0, 2, 3};
    struct sl_raw raw = {
        .n_vertices = 4,
        .n_edges = 3,
        .from = from,
        .to = to,
        .data = {.features = {.n_rows = 4, .n_columns = 3, .dense = sl_column_take(SL_DTYPE_F32, 4, 3, values)},
                 .targets = {.n_rows = 4, .width = 1, .n_classes = 3, .classes = labels},
                 .split = "s",
                 .train = {1, ids},
                 .valid = {1, ids + 1},
                 .test = {1, ids + 2}}};
    struct sl_raw_files files;
    OWNED(sl_raw_free) struct sl_raw read;
    const struct sl_dataset_options request = {.dataset = in_folder("written")};
    assert_survives_no_memory(sl_raw_write(&raw, in_folder("written")));
    assert_survives_no_memory(sl_raw_find(&request, &files));
    assert_survives_no_memory(sl_raw_read(&files, &read));
    assert_int_equal(read.n_vertices, 4);
    assert_int_equal(read.n_edges, 3);
    assert_memory_equal(read.from, from, sizeof from);
    assert_memory_equal(read.to, to, sizeof to);
    assert_memory_equal(read.data.features.dense.data, values, sizeof values);
    assert_memory_equal(read.data.targets.classes, labels, sizeof labels);
    assert_string_equal(read.data.split, "s");
    assert_int_equal(read.data.test.ids[0], 3);
    assert_null(read.data.class_names);
    sl_raw_files_free(&files);
    put_text("file", "");
    assert_int_equal(sl_raw_write(&raw, in_folder("file")), SL_EIO);
    put_gzip("old/raw/edge.csv.gz", "0,1\n"); /* a reader would find edges twice */
    assert_refused(sl_raw_write(&raw, in_folder("old")), SL_EFILE, "edge.csv.gz: the table is there already");
}

/* Each table may be there once, with whatever ending. */
TEST_OF_OPTIONS(refuses_tables_twice)
{
    static const char *const tables[] = {"raw/edge",          "raw/node-feat",   "raw/node-label",  "raw/num-node-list",
                                         "raw/num-edge-list", "split/one/train", "split/one/valid", "split/one/test"};
    struct sl_dataset d;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (int npy = 0; npy < 2; npy++) {
            char name[64];
            char words[128];
            put_small_dataset("small");
            snprintf(name, sizeof name, "small/%s.%s", tables[i], npy ? "npy" : "csv");
            snprintf(words, sizeof words, "%s.csv.gz: the table is there twice, also as ", tables[i]);
            put_text(name, "1\n");
            options.dataset = in_folder("small");
            assert_refused(sl_dataset_load(&options, &d), SL_EFILE, words);
            remove(in_folder(name));
        }
    }
    put_text("small/raw/edge-weight.csv", "1\n1\n1\n1\n");
    put_text("small/raw/edge-weight.npy", "");
    options.dataset = in_folder("small");
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "raw/edge-weight.npy; expected one of them");
}

/* num-edge-list counts the edges of an array, too. */
TEST_OF_SMALL(compares_counts)
{
    static const int64_t edges[] = {0, 1, 2, 3, 1, 2, 3, 4}; /* (2, 4) */
    struct sl_dataset d;
    remove(in_folder("small/raw/edge.csv.gz"));
    put_npy_array("small/raw/edge.npy", "<i8", "(2, 4)", edges, sizeof edges);
    options.dataset = in_folder("small");
    assert_ok(sl_dataset_load(&options, &d));
    sl_dataset_free(&d);
    put_text("small/raw/num-edge-list.csv.gz", "5\n");
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "num-edge-list.csv.gz: expected 4, the edges of");
}

/* A dataset written and read again is the same dataset, directed or not, dense or CSR. */
TEST_IN_FOLDER(writes_datasets)
{
    for (int directed = 0; directed < 2; directed++) {
        OWNED(sl_dataset_free) struct sl_dataset a;
        OWNED(sl_dataset_free) struct sl_dataset b;
        options = small_options();
        put_small_dataset("small");
        put_text("small/words.csv", "0,0,0,0,0,0,0,0,0,0,0,1\n0,0,0,0,0,0,0,0,0,0,0,0\n0,0,0,0,0,0,0,0,0,0,0,0\n"
                                    "2.5,0,0,0,0,0,0,0,0,0,0,0\n0,0,0,0,0,0,0,0,0,0,0,0\n0,0,0,0,0,0,0,0,0,0,0,0\n");
        options.features = directed ? "words.csv" : NULL;
        options.directed = directed;
        assert_ok(sl_dataset_load(&options, &a));
        assert_ok(write_dataset(&a, directed, in_folder("again")));
        options.dataset = "again";
        options.features = NULL;
        assert_ok(sl_dataset_load(&options, &b));
        assert_int_equal(a.graph.n_edges, b.graph.n_edges);
        assert_memory_equal(a.graph.offsets, b.graph.offsets, 7 * sizeof(uint64_t));
        assert_memory_equal(a.graph.sources, b.graph.sources, a.graph.n_edges * sizeof(sl_vertex));
        assert_int_equal(b.features.offsets != NULL, directed);
        if (directed) {
            assert_int_equal(b.features.offsets[6], 2);
            assert_true(b.features.values[1] == 2.5f && b.features.columns[0] == 11);
        } else {
            assert_memory_equal(a.features.dense.data, b.features.dense.data, 12 * sizeof(float));
        }
        assert_memory_equal(a.targets.classes, b.targets.classes, 6 * sizeof(int32_t));
    }
}

/* ---- Real data --------------------------------------------------------------------------------------------------- */

/* The figures of the datasets' own descriptions. */
TEST(real_datasets)
{
    const struct {
        const char *name, *split, *features;
        uint32_t n_vertices;
        uint64_t n_edges;
        uint32_t n_features, n_classes;
        uint32_t n_train, n_valid, n_test;
        uint32_t n_isolated;
        uint64_t n_nonzeros; /* 0: not told */
        double homophily;    /* 0: not told */
        uint64_t max_in_degree;
        bool sparse;
    } cases[] = {
        {"cora", NULL, NULL, 2708, 2 * 5278, 1433, 7, 140, 500, 1000, 0, 0, 0, 168, true},
        {"citeseer", NULL, NULL, 3327, 2 * 4552, 3703, 6, 120, 500, 1000, 48, 0, 0, 99, true},
        {"amazon-computers", "luo2024-60-20-20", NULL, 13752, 491722, 767, 10, 0, 0, 0, 281, 0, 0.777, 2992, false},
        {"coauthor-cs", "luo2024-60-20-20", NULL, 18333, 163788, 6805, 15, 0, 0, 0, 0, 1092079, 0.808, 0, true},
        {"arxiv", "time", "derived/node-feat-prone96.csv.gz", 169343, 2315598, 96, 40, 90941, 29799, 48603, 0, 0, 0.654,
         0, false},
    };
    const char *path = getenv("STARLING_DATA");
    if (path == NULL) {
        skip();
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sl_dataset d;
        struct sl_statistics s;
        options = (struct sl_dataset_options){
            .dataset = cases[i].name, .split = cases[i].split, .features = cases[i].features, .cache = "none"};
        enum sl_status st = sl_dataset_load(&options, &d);
        if (st == SL_ENOTFOUND) {
            print_message("no %s there\n", cases[i].name);
            continue;
        }
        assert_ok(st);
        assert_ok(sl_statistics_count(&d, &s));
        assert_int_equal(d.graph.n_vertices, cases[i].n_vertices);
        assert_int_equal(d.graph.n_edges, cases[i].n_edges);
        assert_int_equal(d.features.n_columns, cases[i].n_features);
        assert_int_equal(d.features.offsets != NULL, cases[i].sparse);
        assert_int_equal(d.targets.n_classes, cases[i].n_classes);
        assert_int_equal(s.n_isolated, cases[i].n_isolated);
        assert_true(cases[i].n_train == 0 || d.train.n == cases[i].n_train);
        assert_true(cases[i].n_valid == 0 || d.valid.n == cases[i].n_valid);
        assert_true(cases[i].n_test == 0 || d.test.n == cases[i].n_test);
        assert_true(cases[i].n_nonzeros == 0 || s.n_nonzeros == cases[i].n_nonzeros);
        assert_true(cases[i].max_in_degree == 0 || s.max_in_degree == cases[i].max_in_degree);
        assert_true(cases[i].homophily == 0 ||
                    (s.homophily > cases[i].homophily - 0.001 && s.homophily < cases[i].homophily + 0.001));
        sl_dataset_free(&d);
    }
}

TEST_MAIN(NULL, nothing_left)
