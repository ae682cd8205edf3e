/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * data/made_features.h: the words of --features, their tables and their cache files; runs that read them, which no
 * partition changes.
 */
#include "tests/support/session_fixture.h"

#include <math.h>

#include "data/load.h"
#include "data/made_features.h"
#include "support/ln.h"

/* ---- words ---- */

TEST(words)
{
    static const char *const files[] = {"./none", "raw/degree", "Degree", "onehot.csv", "randoms", "features.npy"};
    static const char *const wrong[] = {"random", "random:", "random:0", "random:x", "random:64x", "random:65537"};
    struct sl_made_features made;
    assert_ok(sl_made_features_parse(NULL, &made));
    assert_int_equal(made.kind, SL_MADE_NOT);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_ok(sl_made_features_parse(files[i], &made));
        assert_int_equal(made.kind, SL_MADE_NOT);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_refused(sl_made_features_parse(wrong[i], &made), SL_EINVAL, "expected random:N with 1 to 65536 columns");
    }
    assert_ok(sl_made_features_parse("random:64", &made));
    assert_true(made.kind == SL_MADE_RANDOM && made.n_columns == 64);
}

/* ---- tables ---- */

/* The features of a dataset as one dense table. */
static void read_table(const struct sl_dataset *d, float *out)
{
    const struct sl_features *f = &d->features;
    size_t n = f->n_columns;
    memset(out, 0, f->n_rows * n * sizeof *out);
    for (uint32_t v = 0; f->offsets != NULL && v < f->n_rows; v++) {
        for (uint64_t k = f->offsets[v]; k < f->offsets[v + 1]; k++) {
            out[v * n + f->columns[k]] = f->values[k];
        }
    }
    if (f->offsets == NULL) {
        memcpy(out, f->dense.data, f->n_rows * n * sizeof *out);
    }
}

static void load(const char *features, uint64_t seed, const char *cache, struct sl_dataset *out)
{
    struct sl_dataset_options options = {.dataset = in_folder("small"),
                                         .cache = cache != NULL ? in_folder(cache) : "none",
                                         .features = features,
                                         .feature_seed = seed};
    assert_ok(sl_dataset_load(&options, out));
}

TEST_IN_FOLDER(tables)
{
    OWNED(sl_dataset_free) struct sl_dataset d;
    float x[6 * 64], y[6 * 64];
    put_small_dataset("small");
    load("degree", 1, NULL, &d);
    assert_true(d.features.n_columns == 1 && d.features.n_rows == 6);
    read_table(&d, x);
    for (uint32_t v = 0; v < 6; v++) {
        assert_true(x[v] == (float)sl_ln(1 + (double)(d.graph.offsets[v + 1] - d.graph.offsets[v])));
    }
    assert_true(x[5] == 0 && fabsf(x[1] - logf(3)) < 1e-6f && d.range.largest[0] == x[1]);
    sl_dataset_free(&d);
    load("onehot", 1, NULL, &d);
    assert_int_equal(d.features.n_columns, 6);
    read_table(&d, x);
    for (uint32_t i = 0; i < 36; i++) {
        assert_true(x[i] == (float)(i % 7 == 0));
    }
    sl_dataset_free(&d);
    load("random:64", 1, NULL, &d);
    assert_int_equal(d.features.n_columns, 64);
    read_table(&d, x);
    sl_dataset_free(&d);
    load("random:64", 2, NULL, &d);
    read_table(&d, y);
    sl_dataset_free(&d);
    assert_memory_not_equal(x, y, sizeof x);
    load("random:3", 1, NULL, &d); /* the same numbers, whatever the width */
    read_table(&d, y);
    assert_true(y[3] == x[64] && y[17] == x[5 * 64 + 2]);
    double sum = 0, squares = 0;
    for (int i = 0; i < 6 * 64; i++) {
        sum += (double)x[i];
        squares += (double)(x[i] * x[i]);
    }
    assert_true(fabs(sum / 384) < 0.15 && fabs(squares / 384 - 1) < 0.2);
}

/* Each word has a cache file of its own, and comes back equal. */
TEST_IN_FOLDER(caches)
{
    static const char *const values[] = {"degree", "onehot", "random:8", NULL};
    float x[4][64], y[64];
    put_small_dataset("small");
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 4; i++) {
            OWNED(sl_dataset_free) struct sl_dataset d;
            load(values[i], 1, "cache", &d);
            assert_int_equal(d.mapping != NULL, again);
            read_table(&d, again ? y : x[i]);
            assert_true(!again || memcmp(x[i], y, 6 * d.features.n_columns * sizeof(float)) == 0);
        }
    }
    OWNED(sl_dataset_free) struct sl_dataset d;
    load("random:8", 2, "cache", &d);
    assert_null(d.mapping);
    sl_dataset_free(&d);
    load("degree", 2, "cache", &d);
    assert_non_null(d.mapping);
}

TEST_IN_FOLDER(refusals)
{
    struct sl_dataset d;
    put_small_dataset("small");
    struct sl_dataset_options options = {.dataset = in_folder("small"), .cache = "none", .features = "none"};
    assert_refused(sl_dataset_load(&options, &d), SL_EINVAL, "expected features for the model: a file, degree, onehot");
    options.need = SL_RAW_FOR_LOOKS;
    assert_ok(sl_dataset_load(&options, &d));
    assert_int_equal(d.features.n_columns, 0);
    sl_dataset_free(&d);
    options.need = SL_RAW_FOR_TRAINING;
    options.features = "random:none";
    assert_refused(sl_dataset_load(&options, &d), SL_EINVAL, "try random:64");
    options.features = NULL;
    remove(in_folder("small/raw/node-feat.csv.gz"));
    assert_refused(sl_dataset_load(&options, &d), SL_EFILE, "--features degree, onehot or random:64");
    options.features = "degree";
    assert_survives_no_memory(sl_dataset_load(&options, &d));
    sl_dataset_free(&d);
    options.features = "onehot";
    options.normalize = SL_NORMALIZE_ROW;
    assert_survives_no_memory(sl_dataset_load(&options, &d));
    sl_dataset_free(&d);
    options.dataset = "arxiv-synthetic";
    options.features = "x.csv";
    assert_refused(sl_dataset_load(&options, &d), SL_ENOTFOUND, "--features x.csv has no folder to be in");
}

/* ---- runs ---- */

#define N 160
#define EPOCHS 3

static void put_graph(void)
{
    static char edges[N * 64], labels[N * 4], train[N * 8], rest[N * 8];
    size_t n_edges = 0, n_labels = 0, n_train = 0, n_rest = 0;
    for (uint32_t v = 0; v < N; v++) {
        for (uint32_t k = 0; k < 1 + v % 5; k++) {
            n_edges += (size_t)sprintf(edges + n_edges, "%u,%u\n", v, (v * 7 + k * 13 + 1) % N);
        }
        n_labels += (size_t)sprintf(labels + n_labels, "%u\n", v % 5 / 2);
        if (v < N / 2) {
            n_train += (size_t)sprintf(train + n_train, "%u\n", v);
        } else {
            n_rest += (size_t)sprintf(rest + n_rest, "%u\n", v);
        }
    }
    put_text("made/raw/edge.csv", edges);
    put_text("made/raw/node-label.csv", labels);
    put_text("made/split/one/train.csv", train);
    put_text("made/split/one/valid.csv", rest);
    put_text("made/split/one/test.csv", "");
}

static enum sl_status run(bool pipe, const char *features, const char *parts, const char *batch,
                          struct reports *reports)
{
    char words[256];
    snprintf(words, sizeof words, "dataset=%%made cache=none features=%s layers=2 hidden=8 cpus=2 lr=0.01 epochs=%d",
             features, EPOCHS);
    size_t n = strlen(words);
    snprintf(words + n, sizeof words - n, pipe ? " stages=1 chunks=%s ways=%s" : " fanout=3,3 pes=%s batch-size=%s",
             parts, pipe ? parts : batch);
    return run_session(pipe, words, NULL, reports);
}

TEST_IN_FOLDER(runs_agree)
{
    static const char *const values[] = {"degree", "onehot", "random:8"};
    put_graph();
    for (int i = 0; i < 3; i++) {
        for (int pipe = 0; pipe < 2; pipe++) {
            struct reports one, four;
            assert_ok(run(pipe, values[i], "1", "40", &one));
            assert_ok(run(pipe, values[i], "4", "10", &four));
            for (int e = 1; e <= EPOCHS; e++) {
                assert_true(fabs(one.loss[e] - four.loss[e]) < 1e-5 * one.loss[e]);
            }
        }
    }
    struct reports none;
    assert_refused(run(false, "none", "1", "40", &none), SL_EINVAL, "--features: found none");
    assert_refused(run(true, "none", "1", "40", &none), SL_EINVAL, "--features: found none");
    assert_refused(run(false, "random", "1", "40", &none), SL_EINVAL, "try random:64");
}

TEST_MAIN(NULL, NULL)
