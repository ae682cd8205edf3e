/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Sessions as a program has them: options in words, whole runs, and what these report. */
#ifndef SL_TESTS_SESSION_FIXTURE_H
#define SL_TESTS_SESSION_FIXTURE_H

#include "tests/support/data_fixture.h" /* first: it chooses features of the C library */

#include "runtime/starling.h"

POINTER_OWNER(sl_dataset_delete, struct sl_dataset)
POINTER_OWNER(sl_model_delete, struct sl_trained)
POINTER_OWNER(sl_session_close, struct sl_session)
POINTER_OWNER(sl_settings_delete, struct sl_settings)

#define MOST_EPOCHS 40

/* Set options "name=value" or "flag", one a word; "%" in front of a file stands for the test's folder. */
__attribute__((unused)) static void set_options(struct sl_settings *settings, const char *options)
{
    char *words = strdup(options);
    char *rest;
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        if (value != NULL) {
            *value++ = '\0';
        }
        assert_ok(sl_settings_set(settings, word, value != NULL && *value == '%' ? in_folder(value + 1) : value));
    }
    free(words);
}

/* What the epochs of a run have reported, from 1. */
struct reports {
    uint32_t n;
    double loss[MOST_EPOCHS + 1], valid[MOST_EPOCHS + 1]; /* valid: the loss over the validation set */
    struct sl_scores scores;                              /* the last */
};

__attribute__((unused)) static int take_report(void *context, const struct sl_epoch_news *news)
{
    struct reports *reports = context;
    assert_true(news->epoch <= MOST_EPOCHS);
    reports->loss[news->epoch] = news->loss;
    reports->valid[news->epoch] = news->scores.valid_loss;
    reports->scores = news->scores;
    reports->n = news->epoch;
    return 0;
}

/* A run of coop_sage's or pipe_gnn's session over a dataset; NULL: over the files that the options name. */
__attribute__((unused)) static enum sl_status run_session(bool pipe, const char *options,
                                                          const struct sl_dataset *dataset, struct reports *out)
{
    const struct sl_report report = {.size = sizeof report, .context = out, .epoch = take_report};
    struct sl_settings *settings;
    struct sl_session *session = NULL;
    memset(out, 0, sizeof *out);
    assert_ok(pipe ? sl_settings_new_pipe(&settings) : sl_settings_new(&settings));
    set_options(settings, options);
    enum sl_status st = sl_session_open(settings, dataset, &session);
    if (st == SL_OK) {
        st = sl_session_train(session, &report);
    }
    sl_session_close(session);
    sl_settings_delete(settings);
    return st;
}

#endif
