/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Targets from files, arrays and the cache (data/targets.h), and sessions that learn label sets and numbers:
 * with empty sets, to the bit after a resume, and written by --predict.
 */
#include "tests/support/npy_fixture.h"
#include "tests/support/session_fixture.h"

#include <math.h>

#include "data/arrays.h"
#include "data/cache.h"
#include "data/csv.h"
#include "data/load.h"
#include "data/npy.h"
#include "data/raw.h"
#include "support/memory.h"
#include "tests/support/scores.h"
#include "tests/support/written_fixture.h"

/* ---- files ---- */

TEST_IN_FOLDER(test_csv)
{
    static const float wanted[] = {1, 0, NAN, 0, 1, 1, NAN, NAN, 0};
    struct sl_targets t;
    const char *path = put_text("t.csv", "1,0,nan\n0.0,1,1\r\n,,0\n");
    assert_survives_no_memory(sl_csv_read_targets(path, 3, SL_TARGETS_ANY, &t, NULL));
    assert_true(t.type == SL_TARGET_NUMBER && t.n_rows == 3 && t.width == 3);
    for (int i = 0; i < 9; i++) {
        assert_true(isnan(wanted[i]) ? isnan(t.numbers[i]) : t.numbers[i] == wanted[i]);
    }
    assert_true(sl_targets_are_labels(&t) && sl_targets_known(&t, 2) && sl_targets_outputs(&t) == 3);
    sl_targets_free(&t);
    assert_refused(sl_csv_read_targets(put_text("a.csv", "1,0\n1\n"), 2, SL_TARGETS_ANY, &t, NULL), SL_EFILE,
                   "a.csv:2: expected 2 finite numbers");
    assert_refused(sl_csv_read_targets(put_text("b.csv", "1,0\n1,2,3\n"), 2, SL_TARGETS_ANY, &t, NULL), SL_EFILE,
                   "b.csv:2: expected 2 finite numbers or nan, separated by commas, found '1,2,3'");
    assert_refused(sl_csv_read_targets(put_text("c.csv", "1,inf\n"), 1, SL_TARGETS_ANY, &t, NULL), SL_EFILE, "c.csv:1");
    assert_refused(sl_csv_read_targets(put_text("d.csv", "x\n"), 1, SL_TARGETS_ANY, &t, NULL), SL_EFILE, "one class");
    assert_refused(sl_csv_read_targets(put_text("e.csv", "1,0\n"), 2, SL_TARGETS_ANY, &t, NULL), SL_EFILE, "found 1");
}

/* The type of a single column. */
TEST_IN_FOLDER(test_types)
{
    OWNED(sl_targets_free) struct sl_targets t;
    assert_ok(sl_csv_read_targets(put_text("c.csv", "3\n-1\nnan\n0.0\n\n"), 5, SL_TARGETS_ANY, &t, NULL));
    assert_true(t.type == SL_TARGET_CLASS && t.n_classes == 4);
    assert_memory_equal(t.classes, ((const int32_t[]){3, -1, -1, 0, -1}), 5 * sizeof(int32_t));
    assert_true(sl_targets_known(&t, 3) && !sl_targets_known(&t, 1) && !sl_targets_are_labels(&t));
    sl_targets_free(&t);
    assert_ok(sl_csv_read_targets(put_text("c.csv", "3\n-1\n"), 2, SL_TARGETS_NUMBERS, &t, NULL));
    assert_true(t.type == SL_TARGET_NUMBER && t.width == 1 && t.numbers[1] == -1);
    sl_targets_free(&t);
    static const char *const numbers[] = {"3\n0.5\n", "65536\n1.5\n", "-2\n0.25\n"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_ok(sl_csv_read_targets(put_text("c.csv", numbers[i]), 2, SL_TARGETS_ANY, &t, NULL));
        assert_true(t.type == SL_TARGET_NUMBER && !sl_targets_are_labels(&t));
        sl_targets_free(&t);
    }
    static const char *const whole[] = {"nan\n-101\n", "1\n70000\n"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        const char *path = put_text("c.csv", whole[i]);
        assert_refused(sl_csv_read_targets(path, 2, SL_TARGETS_ANY, &t, NULL), SL_EFILE,
                       i == 0 ? "c.csv: targets are whole numbers, but not classes from 0 to 65535 (vertex 1 has -101)"
                              : "(vertex 1 has 70000); say --objective regression");
        assert_refused(sl_csv_read_targets(path, 2, SL_TARGETS_CLASSES, &t, NULL), SL_EFILE,
                       "c.csv:2: expected one class from 0 to 65535, or nan");
        assert_ok(sl_csv_read_targets(path, 2, SL_TARGETS_NUMBERS, &t, NULL));
        assert_true(t.type == SL_TARGET_NUMBER);
        sl_targets_free(&t);
    }
    assert_refused(sl_csv_read_targets(put_text("c.csv", "1,0\n"), 1, SL_TARGETS_CLASSES, &t, NULL), SL_EFILE,
                   "c.csv:1: expected one class");
    const char *classes = put_text("c.csv", "2\nnan\n");
    assert_survives_no_memory(sl_csv_read_targets(classes, 2, SL_TARGETS_CLASSES, &t, NULL));
    assert_true(t.type == SL_TARGET_CLASS && t.n_classes == 3 && t.width == 1 && t.classes[1] == -1);
    sl_targets_free(&t);
    assert_refused(sl_csv_read_targets(put_text("c.csv", "0.5\nx\n"), 2, SL_TARGETS_ANY, &t, NULL), SL_EFILE,
                   "c.csv:2: expected one class from 0 to 65535, another finite number, or nan");
    assert_refused(sl_csv_read_targets(put_text("c.csv", "0.5\nx\n"), 2, SL_TARGETS_NUMBERS, &t, NULL), SL_EFILE,
                   "c.csv:2: expected one finite number, or nan");
    assert_survives_no_memory(sl_targets_make_unknown(3, &t));
    assert_true(t.type == SL_TARGET_CLASS && t.classes[2] == -1 && t.n_classes == 0);
}

/* ---- labels as text ---- */

static char notice[512];

static void note(enum sl_notice kind, const char *line)
{
    (void)kind;
    snprintf(notice, sizeof notice, "%s", line);
}

/* Names are numbered in the order of their bytes, from files of each kind. */
TEST_IN_FOLDER(test_names)
{
    static const struct {
        const char *text, *names;
        int32_t classes[5];
    } cases[] = {
        {"gold\nSilver\n\ngold\nbronze\n", "Silver\nbronze\ngold\n", {2, 0, -1, 2, 1}},
        {"b\r\n\"a, \"\"x\"\"\"\r\nnan\r\n10\r\n9\r\n", "10\n9\na, \"x\"\nb\n", {3, 2, -1, 0, 1}},
        {"\xc3\xa9\nz\nz\nNaN\nz y\n\n \n", "z\nz y\n\xc3\xa9\n", {2, 0, 0, -1, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int choice = 0; choice < 2; choice++) {
            OWNED(sl_targets_free) struct sl_targets t;
            OWNED(sl_free_it) char *names = NULL;
            const char *path = put_text("n.csv", cases[i].text);
            notice[0] = '\0';
            sl_on_notice(note);
            assert_ok(sl_csv_read_targets(path, 5, choice == 0 ? SL_TARGETS_ANY : SL_TARGETS_CLASSES, &t, &names));
            sl_on_notice(NULL);
            assert_string_equal(names, cases[i].names);
            assert_true(t.type == SL_TARGET_CLASS && t.n_rows == 5);
            assert_memory_equal(t.classes, cases[i].classes, sizeof cases[i].classes);
            assert_true((strstr(notice, "n.csv: labels are text (first in row 1) and numbers (first in row 4)") !=
                         NULL) == (i == 1));
        }
    }
    struct sl_targets t;
    char *names = NULL;
    const char *path = put_text("n.csv", cases[0].text);
    assert_survives_no_memory(sl_csv_read_targets(path, 5, SL_TARGETS_ANY, &t, &names));
    sl_targets_free(&t);
    sl_free(names);
    assert_refused(sl_csv_read_targets(path, 5, SL_TARGETS_NUMBERS, &t, &names), SL_EFILE,
                   "n.csv:1: expected one finite");
    assert_refused(sl_csv_read_targets(path, 4, SL_TARGETS_ANY, &t, &names), SL_EFILE, "n.csv:5: expected 4 lines");
    assert_refused(sl_csv_read_targets(path, 6, SL_TARGETS_ANY, &t, &names), SL_EFILE, "n.csv:6: expected 6 lines");
    static const char *const bad[][2] = {
        {"0.5\nx\n", "b.csv:2: expected one class from 0 to 65535, another finite number, or nan, found 'x'"},
        {"label\n1\n",
         "b.csv:1: expected one class from 0 to 65535, another finite number, or nan, found 'label'; write"},
        {"a,b\nc,d\n", "b.csv:1: expected 2 finite numbers"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_refused(sl_csv_read_targets(put_text("b.csv", bad[i][0]), 2, SL_TARGETS_ANY, &t, &names), SL_EFILE,
                       bad[i][1]);
    }
}

TEST_IN_FOLDER(test_names_in_arrays)
{
    OWNED(sl_targets_free) struct sl_targets t;
    char *names = NULL;
    const char *path = put_npy_array("c.npy", "|u1", "(4,)", "b\na\n", 4);
    assert_survives_no_memory(sl_npy_read_lines(path, "class_names", &names));
    assert_string_equal(names, "b\na\n");
    sl_free(names);
    names = NULL;
    path = put_npy_array("c.npy", "|u1", "(3,)", "b\na", 3);
    assert_refused(sl_npy_read_lines(path, "class_names", &names), SL_EFILE, "expected the bytes of lines");
    /* Whole floats are classes, and that is said. */
    static const double floats[] = {1, NAN, 0, -100};
    sl_on_notice(note);
    path = put_npy_array("d.npy", "<f8", "(4,)", floats, sizeof floats);
    assert_ok(sl_npy_read_targets(path, "y", 4, SL_TARGETS_ANY, &t));
    assert_memory_equal(t.classes, ((const int32_t[]){1, -1, 0, -1}), 16);
    assert_non_null(strstr(notice, "d.npy: labels are floats without fractions: taken as 2 classes"));
    sl_targets_free(&t);
    notice[0] = '\0';
    assert_ok(sl_csv_read_targets(put_text("d.csv", "1.0\n-100.0\n0.0\n"), 3, SL_TARGETS_ANY, &t, &names));
    assert_memory_equal(t.classes, ((const int32_t[]){1, -1, 0}), 12);
    assert_non_null(strstr(notice, "d.csv: labels are floats without fractions: taken as 2 classes"));
    sl_targets_free(&t);
    notice[0] = '\0';
    assert_ok(sl_csv_read_targets(put_text("i.csv", "1\n0\n"), 2, SL_TARGETS_ANY, &t, &names));
    sl_on_notice(NULL);
    assert_string_equal(notice, "");
}

/* ---- datasets of files: 6 vertices, 3 labels ---- */

static void put_label_dataset(const char *name)
{
    char path[300];
    put_small_dataset(name);
    snprintf(path, sizeof path, "%s/raw/node-label.csv.gz", name);
    put_gzip(path, "1,0,0\n0,1,1\n1,1,1\nnan,0,1\nnan,nan,nan\n0,0,\n");
}

TEST_IN_FOLDER(test_dataset)
{
    struct sl_dataset made, again;
    put_label_dataset("sets");
    struct sl_dataset_options options = {.dataset = in_folder("sets"), .cache = in_folder("cache")};
    assert_ok(sl_dataset_load(&options, &made));
    assert_true(made.targets.type == SL_TARGET_NUMBER && made.targets.width == 3 && made.targets.n_rows == 6);
    assert_ok(sl_dataset_load(&options, &again)); /* from the cache */
    assert_non_null(again.mapping);
    assert_int_equal(again.targets.width, 3);
    assert_memory_equal(made.targets.data, again.targets.data, sl_targets_bytes(&made.targets));
    sl_dataset_free(&again);
    assert_ok(write_dataset(&made, false, in_folder("written")));
    options.dataset = in_folder("written");
    options.cache = "none";
    assert_ok(sl_dataset_load(&options, &again));
    for (int i = 0; i < 18; i++) {
        float x = made.targets.numbers[i];
        assert_true(isnan(x) ? isnan(again.targets.numbers[i]) : again.targets.numbers[i] == x);
    }
    sl_dataset_free(&again);
    sl_dataset_free(&made);
    put_text("sets/split/one/valid.csv", "4\n"); /* nothing of vertex 4 is known */
    remove(in_folder("sets/split/one/valid.csv.gz"));
    options.dataset = in_folder("sets");
    assert_refused(sl_dataset_load(&options, &made), SL_EFILE, "vertex 4 of valid has no label");
}

/* A folder's classes as numbers: another dataset, with a cache file of its own. */
TEST_IN_FOLDER(test_classes_as_numbers)
{
    struct sl_dataset d;
    put_small_dataset("small");
    struct sl_dataset_options options = {.dataset = in_folder("small"), .cache = in_folder("cache")};
    for (int again = 0; again < 2; again++) {
        options.targets = SL_TARGETS_ANY;
        assert_ok(sl_dataset_load(&options, &d));
        assert_true(d.targets.type == SL_TARGET_CLASS && d.targets.classes[2] == 2);
        sl_dataset_free(&d);
        options.targets = SL_TARGETS_NUMBERS;
        assert_ok(sl_dataset_load(&options, &d));
        assert_true(d.targets.type == SL_TARGET_NUMBER && d.targets.numbers[2] == 2 && isnan(d.targets.numbers[4]));
        sl_dataset_free(&d);
    }
}

/* ---- sessions over arrays ---- */

enum { N = 120, E = 360, F = 4, L = 3 };

static uint32_t from[E], to[E], ids[N];
static float features[N * F], targets[N * L];

static void fill(bool labels)
{
    for (uint32_t v = 0; v < N; v++) {
        ids[v] = v;
        for (uint32_t k = 0; k < 3; k++) {
            from[3 * v + k] = v;
            to[3 * v + k] = (v * 7 + k * 13 + 1) % N;
        }
        for (uint32_t c = 0; c < F; c++) {
            features[v * F + c] = (float)((v * 7919 + c * 104729) % 1000) / 1000;
        }
        for (uint32_t c = 0; c < L; c++) {
            float y = features[v * F + c] * 2 - 0.7F * features[v * F + F - 1];
            targets[v * L + c] = (v + c) % 9 == 8 ? NAN : labels ? (float)(y > 0.7F) : y;
        }
    }
}

static struct sl_arrays arrays_of(uint32_t n_train, uint32_t n_valid)
{
    return (struct sl_arrays){.size = sizeof(struct sl_arrays),
                              .name = "made",
                              .n_vertices = N,
                              .n_edges = E,
                              .sources = from,
                              .destinations = to,
                              .n_features = F,
                              .features = features,
                              .n_targets = L,
                              .targets = targets,
                              .n_train = n_train,
                              .n_valid = n_valid,
                              .n_test = 0,
                              .train = ids,
                              .valid = ids + n_train};
}

TEST_IN_FOLDER(test_arrays)
{
    static const int32_t labels[N];
    struct sl_dataset *d;
    fill(true);
    struct sl_arrays a = arrays_of(60, 60);
    a.labels = labels;
    assert_refused(sl_dataset_new(&a, &d), SL_EINVAL, "targets with labels");
    a.labels = NULL;
    a.n_targets = 0;
    assert_refused(sl_dataset_new(&a, &d), SL_EINVAL, "n_targets 0");
    a.n_targets = L;
    targets[4] = INFINITY;
    assert_refused(sl_dataset_new(&a, &d), SL_EINVAL, "target 1 of vertex 1 is inf");
    targets[3] = targets[4] = targets[5] = NAN;
    assert_refused(sl_dataset_new(&a, &d), SL_EINVAL, "has no known target; expected vertices with known targets");
    a.targets = NULL;
    assert_refused(sl_dataset_new(&a, &d), SL_EINVAL, "train[0] is vertex 0, which has no label");
}

static enum sl_status run(bool pipe, const char *options, const struct sl_dataset *dataset, struct reports *seen)
{
    char words[3200];
    snprintf(words, sizeof words, "layers=2 hidden=8 cpus=2 lr=0.01 %s%s",
             pipe ? "" : "pes=2 batch-size=10 fanout=3,3 ", options);
    return run_session(pipe, words, dataset, seen);
}

TEST_IN_FOLDER(test_sessions)
{
    struct reports seen;
    struct sl_dataset *d;
    for (int labels = 0; labels < 2; labels++) {
        for (int pipe = 0; pipe < 2; pipe++) {
            fill(labels == 1);
            struct sl_arrays a = arrays_of(60, 60);
            assert_ok(sl_dataset_new(&a, &d));
            assert_ok(run(pipe == 1, "epochs=4", d, &seen));
            assert_true(seen.loss[4] < seen.loss[1]);
            assert_string_equal(seen.scores.score[seen.scores.best_by].name, labels ? "ap" : "mse");
            assert_true(isfinite(seen.scores.valid_loss) && isfinite(seen.scores.score[0].valid));
            assert_true(isnan(seen.scores.score[0].test)); /* no test set */
            assert_ok(run(pipe == 1,
                          labels ? "epochs=2 best-by=f1_micro class-weights=balanced precision=bf16"
                                 : "epochs=2 best-by=r2 loss=absolute",
                          d, &seen));
            assert_string_equal(seen.scores.score[seen.scores.best_by].name, labels ? "f1_micro" : "r2");
            sl_dataset_delete(d);
            a = arrays_of(60, 0); /* nothing to validate by: the last epoch is the best */
            assert_ok(sl_dataset_new(&a, &d));
            assert_ok(run(pipe == 1, "epochs=2", d, &seen));
            assert_true(isnan(seen.scores.valid_loss) && isnan(seen.scores.score[0].valid));
            sl_dataset_delete(d);
        }
    }
}

/* Two epochs and two more are four, to the bit. */
static void expect_resumed(bool pipe, const char *options, const char *name, struct sl_dataset *d)
{
    struct reports whole, first, rest;
    char words[1400];
    snprintf(words, sizeof words, "%s epochs=4", options);
    assert_ok(run(pipe, words, d, &whole));
    snprintf(words, sizeof words, "%s checkpoint=%%%s epochs=2", options, name);
    assert_ok(run(pipe, words, d, &first));
    snprintf(words, sizeof words, "%s checkpoint=%%%s resume=yes epochs=4", options, name);
    assert_ok(run(pipe, words, d, &rest));
    assert_true(first.loss[2] == whole.loss[2] && rest.loss[3] == whole.loss[3] && rest.loss[4] == whole.loss[4]);
    assert_true(rest.scores.score[0].valid == whole.scores.score[0].valid);
}

TEST_IN_FOLDER(test_resume)
{
    static const struct {
        const char *name;
        bool labels, pipe;
        const char *options;
    } cases[] = {
        {"labels", true, false, "model=sage"},
        {"labels-balanced", true, false, "class-weights=balanced precision=bf16"},
        {"labels-pipe", true, true, "model=gcn stages=1"},
        {"numbers", false, false, "model=sage loss=squared"},
        {"numbers-gin", false, false, "model=gin learn-epsilon=yes loss=absolute"},
        {"numbers-pipe", false, true, "model=gin learn-epsilon=yes stages=1"},
    };
    struct reports seen;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWNED(sl_dataset_delete_it) struct sl_dataset *d;
        fill(cases[i].labels);
        struct sl_arrays a = arrays_of(60, 60);
        assert_ok(sl_dataset_new(&a, &d));
        expect_resumed(cases[i].pipe, cases[i].options, cases[i].name, d);
        if (i == 0) {
            assert_refused(run(false, "checkpoint=%labels resume=yes epochs=5 best-by=auc", d, &seen), SL_EINVAL,
                           "--best-by");
        }
    }
}

/* A resumed run has the class weights of the first run, from any file. */
TEST_IN_FOLDER(test_resume_with_weights)
{
    struct reports seen;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    fill(true);
    struct sl_arrays a = arrays_of(60, 60);
    assert_ok(sl_dataset_new(&a, &d));
    put_text("first", "1\n2\n3\n");
    assert_ok(run(false, "checkpoint=%state epochs=1 class-weights=%first", d, &seen));
    put_text("first", "1\n2\n4\n");
    assert_refused(run(false, "checkpoint=%state resume=yes epochs=2 class-weights=%first", d, &seen), SL_EINVAL,
                   "--class-weights: found hash");
    assert_refused(run(false, "checkpoint=%state resume=yes epochs=2", d, &seen), SL_EINVAL,
                   "--class-weights: found no weights, expected hash");
    put_text("second", "1.0\n2\n3\n");
    assert_ok(run(false, "checkpoint=%state resume=yes epochs=2 class-weights=%second", d, &seen));
    assert_true(seen.loss[2] > 0);
}

/* A model of label sets is no model of the same 0 and 1 as numbers. */
TEST_IN_FOLDER(test_load)
{
    struct reports seen;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    fill(true);
    struct sl_arrays a = arrays_of(60, 60);
    assert_ok(sl_dataset_new(&a, &d));
    assert_ok(run(false, "epochs=1 save=%model", d, &seen));
    assert_ok(run(false, "epochs=0 load=%model", d, &seen));
    assert_refused(run(false, "epochs=0 objective=regression load=%model", d, &seen), SL_EINVAL,
                   "--objective: found 'regression', expected 'labels'");
}

/* --predict has the outputs of all columns; those of the loss are the same. */
TEST_IN_FOLDER(test_predict)
{
    struct reports seen;
    OWNED(sl_dataset_delete_it) struct sl_dataset *d;
    OWNED(sl_npy_free) struct sl_npy array;
    double sum = 0;
    double n = 0;
    fill(false);
    struct sl_arrays a = arrays_of(60, 60);
    assert_ok(sl_dataset_new(&a, &d));
    assert_ok(run(false, "epochs=1 predict=%p.npy", d, &seen));
    assert_ok(sl_npy_read(in_folder("p.npy"), "", &array));
    assert_true(array.n_dimensions == 2 && array.shape[0] == N && array.shape[1] == L);
    for (uint32_t i = 60 * L; i < N * L; i++) {
        if (!isnan(targets[i])) {
            double off = sl_npy_real(&array, i) - (double)targets[i];
            sum += off * off;
            n++;
        }
    }
    assert_true(fabs(sum / n - seen.scores.valid_loss) < 1e-6 * (1 + sum / n));
}

TEST_MAIN(NULL, NULL)
