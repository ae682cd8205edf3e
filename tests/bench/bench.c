/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * make bench: trains some epochs at one or all of the settings below and prints, as Markdown, the epoch's time
 * beside the floor of tests/bench/floor.h and each codelet's rate beside its ceiling, measured in the same run.
 *
 * usage: bench [--setting tutorial|deep] [--repeats N] [options of coop_sage]
 *
 * A setting stands for the options listed with it, on ogbn-arxiv where $STARLING_DATA has it and on a generated
 * graph of its size otherwise. What is on the command line or in the environment counts more. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "runtime/train/session.h"
#include "support/memory.h"
#include "tests/bench/ceilings.h"
#include "tests/bench/probe.h"
#include "tests/bench/report.h"

enum { EXIT_GOOD = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define ARXIV_FEATURES "derived/node-feat-prone96.csv.gz"

/* ---- options: those of coop_sage and two more ---- */

/* `run` comes first: coop_sage's options address it. */
struct bench_settings {
    struct sl_settings run;
    uint32_t repeats;
    int setting; /* position in `settings`, plus one; 0: all */
};

static const struct sl_option own_options[] = {
    {.name = "setting",
     .group = "bench",
     .kind = SL_OPTION_CHOICE,
     .offset = offsetof(struct bench_settings, setting),
     .choices = "all,tutorial,deep",
     .help = "The model and minibatch to measure; other options change it"},
    {.name = "repeats",
     .group = "bench",
     .kind = SL_OPTION_U32,
     .offset = offsetof(struct bench_settings, repeats),
     .initial = "5",
     .min = 1,
     .max = PROBE_MAX_REPEATS,
     .argument = "N",
     .unit = "epochs",
     .help = "Epochs to time, after one to warm up; as many again are profiled"},
};
#define MAX_OPTIONS 128
#define N_OWN (sizeof own_options / sizeof *own_options)

/* One setting: the options it stands for, as name, value. */
struct setting {
    const char *name;
    const char *option[5][2];
};

static const struct setting settings[] = {
    {"tutorial", {{"layers", "2"}, {"hidden", "128"}, {"fanout", "4,4"}, {"batch-size", "1024"}, {"pes", "2"}}},
    {"deep", {{"layers", "3"}, {"hidden", "256"}, {"fanout", "10,10,10"}, {"batch-size", "1024"}, {"pes", "2"}}},
};
#define N_SETTINGS (sizeof settings / sizeof *settings)

/* coop_sage's table with our options at its end; `options` has room for MAX_OPTIONS. */
static struct sl_option_table make_table(struct sl_option *options)
{
    struct sl_option_table table = *sl_settings_table(SL_SCHEDULE_MINIBATCH);
    memcpy(options, table.options, table.n_options * sizeof *options);
    memcpy(options + table.n_options, own_options, sizeof own_options);
    table.program = "bench";
    table.summary = "measure the training of GraphSAGE against what the machine allows";
    table.options = options;
    table.n_options += N_OWN;
    return table;
}

static enum sl_status apply(const struct sl_option_table *table, const struct setting *setting,
                            struct bench_settings *out)
{
    enum sl_status st = SL_OK;
    for (size_t i = 0; st == SL_OK && i < sizeof setting->option / sizeof *setting->option; i++) {
        st = sl_option_set(table, setting->option[i][0], setting->option[i][1], out);
    }
    return st;
}

/* ogbn-arxiv comes without its features; those derived from its edges are taken where nothing else was asked for. */
static enum sl_status find_features(const struct sl_option_table *table, struct bench_settings *s)
{
    const char *root = getenv("STARLING_DATA");
    char path[4096];
    if (root == NULL || s->run.features != NULL || strstr(s->run.dataset, "arxiv") == NULL) {
        return SL_OK;
    }
    snprintf(path, sizeof path, "%s/ogbn-arxiv/%s", root, ARXIV_FEATURES);
    return access(path, R_OK) == 0 ? sl_option_set(table, "features", ARXIV_FEATURES, s) : SL_OK;
}

/* ---- one setting ---- */

/* The ceilings, on a worker of StarPU as the codelets are. */
struct ceilings_call {
    const struct bench_floor *floor;
    double *rates, *library;
    enum sl_status status;
};

static void measure_ceilings(void *argument)
{
    struct ceilings_call *call = argument;
    call->status = bench_ceilings_measure(call->floor, call->rates, call->library);
}

static enum sl_status report(struct sl_session *t, const char *title)
{
    static struct bench_floor floor;
    static double rates[BENCH_MAX_WORK];
    static double library[BENCH_MAX_WORK];
    struct bench_report r = {
        .title = title, .floor = &floor, .rates = rates, .library = library, .settings = t->settings};
    struct ceilings_call call = {.floor = &floor, .rates = rates, .library = library};
    unsigned first_worker = 0;
    r.peak_rss_bytes = sl_metrics_peak_rss_bytes();
    r.probe = probe_result(t);
    r.dataset = t->name;
    r.n_workers = t->machine.n_workers;
    r.sched = t->machine.sched;
    bench_floor_count(&r.probe->shape, &floor);
    sl_session_wake(t); /* a session at rest has suspended StarPU's workers */
    starpu_execute_on_specific_workers(measure_ceilings, &call, 1, &first_worker, "ceilings");
    return call.status == SL_OK ? bench_report_print(&r, stdout) : call.status;
}

static enum sl_status train(struct bench_settings *s, const char *title)
{
    struct sl_session *session = NULL;
    enum sl_status st;
    s->run.epochs = probe_epochs(s->repeats);
    s->run.eval_every = 0;
    SL_TRY(st, sl_session_open(&s->run, NULL, &session), done);
    probe_start(s->repeats);
    SL_TRY(st, sl_session_train(session, NULL), done);
    st = report(session, title);
done:
    sl_session_close(session);
    return st;
}

/* ---- all of them ---- */

static int complain(int code)
{
    fprintf(stderr, "bench: %s\n", sl_message());
    return code;
}

/* Read the options, over those of a setting (NULL: none). Returns EXIT_GOOD to go on. */
static int read_options(const struct sl_option_table *table, const struct setting *setting, int argc, char **argv,
                        struct bench_settings *out, enum sl_option_action *action)
{
    struct sl_option_parse parse;
    if (sl_option_defaults(table, out) != SL_OK || (setting != NULL && apply(table, setting, out) != SL_OK)) {
        return complain(EXIT_FAILED);
    }
    if (sl_option_parse(table, argc, argv, out, &parse) != SL_OK) {
        return complain(EXIT_USAGE);
    }
    sl_free(parse.sources);
    *action = parse.action;
    return EXIT_GOOD;
}

static int run_setting(const struct sl_option_table *table, const struct setting *setting, int argc, char **argv)
{
    struct bench_settings s = {0};
    enum sl_option_action action;
    int code = read_options(table, setting, argc, argv, &s, &action);
    if (code != EXIT_GOOD) {
        return code;
    }
    if (find_features(table, &s) != SL_OK || sl_settings_check(&s.run) != SL_OK) {
        code = complain(EXIT_USAGE);
    } else if (train(&s, setting->name) != SL_OK) {
        code = complain(EXIT_FAILED);
    }
    sl_option_free(table, &s);
    return code;
}

/* In a process of its own, whose peak memory is that of the setting alone. */
static int run_apart(const struct sl_option_table *table, const struct setting *setting, int argc, char **argv)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        _exit(run_setting(table, setting, argc, argv));
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) {
        perror("bench: fork");
        return EXIT_FAILED;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct sl_option options[MAX_OPTIONS];
    struct sl_option_table table = make_table(options);
    struct bench_settings s = {0};
    enum sl_option_action action;
    int code = read_options(&table, NULL, argc, argv, &s, &action);
    if (code != EXIT_GOOD) {
        return code;
    }
    if (action != SL_OPTION_RUN) {
        code = sl_option_print(&table, action, PACKAGE_VERSION, stdout) == SL_OK ? EXIT_GOOD : complain(EXIT_FAILED);
    }
    for (size_t i = 0; action == SL_OPTION_RUN && code == EXIT_GOOD && i < N_SETTINGS; i++) {
        if (s.setting == 0 || (size_t)s.setting == i + 1) {
            code = run_apart(&table, &settings[i], argc, argv);
        }
    }
    sl_option_free(&table, &s);
    return code;
}
