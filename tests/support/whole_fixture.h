/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Whole runs through the public interface, for tests that make something fail on the way: both programs on a small
 * dataset in a folder of the test's own. To be included first.
 *
 * SL_LONG=1 (`make check-long`): all there is to fail; else every so many-th.
 */
#ifndef SL_TESTS_WHOLE_FIXTURE_H
#define SL_TESTS_WHOLE_FIXTURE_H

#include "tests/support/data_fixture.h"

#include <signal.h>
#include <starpu.h>

#include "data/load.h"
#include "data/raw.h"
#include "runtime/starling.h"
#include "tests/support/graph_fixture.h"
#include "tests/support/starpu_fixture.h"
#include "tests/support/written_fixture.h"

#define RUN_LIMIT_S 300 /* a run takes a tenth of a second: one that has not ended by then waits without end */

/* One after the other, `usual` at a time unless all are wanted. */
static MAYBE_UNUSED long stride(long usual)
{
    return getenv("SL_LONG") != NULL ? 1 : usual;
}

/* Write the datasets "small", "sparse", "links" and "typed" into the test's folder. */
static MAYBE_UNUSED void put_whole_dataset(void)
{
    struct graph_shape shape = {.kind = GRAPH_POWER_LAW, .n_vertices = 61, .n_columns = 5, .n_classes = 3, .seed = 31};
    struct sl_dataset dataset;
    make_dataset(&shape, &dataset);
    assert_ok(write_dataset(&dataset, false, in_folder("small")));
    sl_dataset_free(&dataset);
    shape.n_columns = 40;
    shape.sparse = true;
    make_dataset(&shape, &dataset);
    assert_ok(write_dataset(&dataset, false, in_folder("sparse")));
    sl_dataset_free(&dataset);
    put_text("links/raw/num-node-list.csv", "40\n");
    char train[600] = "";
    for (int v = 0; v < 39; v++) {
        snprintf(train + strlen(train), sizeof train - strlen(train), "%d,%d\n", v, v + 1);
    }
    put_text("links/split/only/train.csv", train);
    put_text("links/split/only/valid.csv", "3,7\n20,35\n");
    put_text("links/split/only/test.csv", "0,9\n11,30\n");
    const char *const tables[][2] = {
        {"edged/raw/edge.csv", "0,1\n1,2\n2,3\n3,0\n0,2\n"},
        {"edged/raw/edge-feat.csv", "0.5,1\n2,0\n1,3\n0,1\n1,1\n"},
        {"edged/raw/node-feat.csv", "0.5,0\n2,3\n1,1\n0,4\n"},
        {"edged/raw/node-label.csv", "1\n0\n1\n0\n"},
        {"edged/split/any/train.csv", "0\n1\n"},
        {"edged/split/any/valid.csv", "2\n"},
        {"edged/split/any/test.csv", "3\n"},
        {"typed/raw/num-node-dict.csv", "item,user\n4,3\n"},
        {"typed/raw/triplet-type-list.csv", "user,buys,item\n"},
        {"typed/raw/relations/user___buys___item/edge.csv", "0,0\n0,1\n0,2\n1,0\n1,1\n1,3\n2,0\n2,2\n2,3\n"},
        {"typed/raw/node-feat/item/node-feat.csv", "0.5,0\n2,3\n1,1\n0,4\n"},
        {"typed/raw/node-label/item/node-label.csv", "1\n0\n1\n0\n"},
        {"typed/split/any/item/train.csv", "0\n1\n"},
        {"typed/split/any/item/valid.csv", "2\n"},
        {"typed/split/any/item/test.csv", "3\n"}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        put_text(tables[i][0], tables[i][1]);
    }
}

/* What a run is and what it has come to. */
struct whole {
    bool pipe;           /* pipe_gnn, else coop_sage */
    const char *options; /* "name=value", one a word; % stands for the test's folder and a slash */
    struct sl_scores scores;
};

static enum sl_status set_words(struct sl_settings *settings, const char *options)
{
    char text[2048];
    char value[600];
    char *rest;
    enum sl_status st = SL_OK;
    snprintf(text, sizeof text, "dataset=%%small %s", options);
    for (char *word = strtok_r(text, " ", &rest); word != NULL && st == SL_OK; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        if (equals == NULL) {
            st = sl_settings_set(settings, word, NULL);
            continue;
        }
        *equals++ = '\0';
        snprintf(value, sizeof value, "%s%s%s", *equals == '%' ? folder : "", *equals == '%' ? "/" : "",
                 *equals == '%' ? equals + 1 : equals);
        st = sl_settings_set(settings, word, value);
    }
    return st;
}

/* Settings, open, train, evaluate, close. */
static MAYBE_UNUSED enum sl_status run_whole(struct whole *whole)
{
    struct sl_settings *settings = NULL;
    struct sl_session *session = NULL;
    enum sl_status st;
    sl_fail(SL_OK, "%s", "");
    alarm(RUN_LIMIT_S);
    SL_TRY(st, (whole->pipe ? sl_settings_new_pipe : sl_settings_new)(&settings), done);
    SL_TRY(st, set_words(settings, whole->options), done);
    SL_TRY(st, sl_session_open(settings, NULL, &session), done);
    SL_TRY(st, sl_session_train(session, NULL), done);
    st = sl_session_evaluate(session, &whole->scores, NULL, NULL);
done:
    sl_session_close(session);
    sl_settings_delete(settings);
    alarm(0);
    return st;
}

/* In a child process: a fault ends it, where CMocka's handlers would go on with the parent's tests. StarPU's
 * converter of traces ends so at a trace that it cannot read. */
static MAYBE_UNUSED void leave_cmocka(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        signal(faults[i], SIG_DFL);
    }
}

/* No temporary file has stayed in the folder or below. */
static int refuse_temporary(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    if (strstr(path, ".tmp-") != NULL) {
        fail_msg("%s has stayed", path);
    }
    return 0;
}

static MAYBE_UNUSED void expect_no_temporaries(void)
{
    assert_int_equal(nftw(folder, refuse_temporary, 16, FTW_PHYS), 0);
}

#endif
