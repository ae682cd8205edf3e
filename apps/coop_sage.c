/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * coop_sage: train GraphSAGE by cooperative minibatches. Options in, exit code out; the work is runtime/train/trainer.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "runtime/machine/signals.h"
#include "runtime/report/trace.h"
#include "runtime/train/trainer.h"

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static int complain(int code)
{
    fprintf(stderr, "coop_sage: %s\n", sl_message());
    return code;
}

/* Make the trace's files, or, where the run failed or ended before the steps to trace, leave none. */
static enum sl_status finish_trace(const char *folder, enum sl_status st, bool traced, bool talk)
{
    if (st != SL_OK || !traced) {
        sl_trace_discard(folder);
        if (st == SL_OK && talk) {
            printf("trace     none: the run ended before the steps to trace\n");
        }
        return st;
    }
    st = sl_trace_finish(folder);
    if (st == SL_OK && talk) {
        printf("trace     %s/report.html, report.txt, timeline.svg, paje.trace\n", folder);
    }
    return st;
}

/* Open the trainer and what it reports to, and train. */
static enum sl_status run(struct sl_settings *settings)
{
    struct sl_trainer *trainer = NULL;
    struct sl_metrics metrics = {0};
    struct sl_progress progress;
    bool talk = !settings->quiet && !settings->json;
    enum sl_status st;
    SL_TRY(st, sl_trainer_open(settings, &trainer), done);
    SL_TRY(
        st,
        sl_metrics_open(settings->metrics, settings->json ? stdout : NULL, settings->resume != SL_RESUME_NO, &metrics),
        done);
    SL_TRY(st, talk ? sl_trainer_describe(trainer, stdout) : SL_OK, done);
    sl_progress_open(stdout, talk ? sl_progress_mode_of(stdout) : SL_PROGRESS_NONE, settings->epochs,
                     sl_trainer_steps_per_epoch(trainer), &progress);
    SL_TRY(st, sl_signals_install(), done);
    struct sl_report report = {&metrics, &progress};
    st = sl_trainer_train(trainer, &report);
    sl_progress_clear(&progress);
    if (st == SL_OK && sl_signals_seen() && talk) {
        printf("interrupted by signal %d: the step was finished%s\n", sl_signals_seen(),
               settings->checkpoint != NULL ? " and saved" : "");
    }
done:
    sl_signals_restore();
    bool traced = sl_trainer_traced(trainer);
    sl_trainer_close(trainer);
    if (settings->trace != NULL) {
        st = finish_trace(settings->trace, st, traced, talk);
    }
    if (st == SL_OK) {
        st = sl_metrics_close(&metrics);
    } else {
        char message[SL_MESSAGE_BYTES];
        snprintf(message, sizeof message, "%s", sl_message());
        sl_metrics_close(&metrics);
        sl_fail(st, "%s", message);
    }
    return st;
}

int main(int argc, char **argv)
{
    struct sl_settings settings;
    struct sl_option_parse parse;
    int code = EXIT_GOOD;
    if (sl_settings_init(&settings) != SL_OK) {
        return complain(EXIT_FAILED);
    }
    if (sl_option_parse(&sl_settings_table, argc, argv, &settings, &parse) != SL_OK) {
        code = complain(EXIT_USAGE);
    } else if (parse.action != SL_OPTION_RUN) {
        code = sl_option_print(&sl_settings_table, parse.action, PACKAGE_VERSION, stdout) == SL_OK
                   ? EXIT_GOOD
                   : complain(EXIT_FAILED);
    } else if (sl_settings_check(&settings) != SL_OK) {
        code = complain(EXIT_USAGE);
    } else if (run(&settings) != SL_OK) {
        code = complain(EXIT_FAILED);
    }
    sl_settings_free(&settings);
    return code;
}
