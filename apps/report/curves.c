/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Runs as curves. */
#include "apps/report/curves.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/report/jsonl.h"
#include "runtime/plan/settings.h"
#include "support/file.h"
#include "support/memory.h"

#define LARGEST 1e30 /* numbers beyond count as not finite: an axis could not show them */

struct sl_curves_score sl_curves_score(const char *name)
{
    static const struct sl_curves_score known[] = {
        {"acc", "Accuracy", true, true},
        {"f1", "Macro F1", true, true},
        {"f1_micro", "Micro F1", true, true},
        {"auc", "Area under the ROC curve", true, true},
        {"ap", "Average precision", true, true},
        {"mrr", "Mean reciprocal rank", true, true},
        {"hits1", "Links ranked first", true, true},
        {"hits3", "Links among the first 3", true, true},
        {"hits10", "Links among the first 10", true, true},
        {"mse", "Mean squared error", false, false},
        {"mae", "Mean absolute error", false, false},
        {"r2", "Coefficient of determination", false, true},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) {
            return known[i];
        }
    }
    return (struct sl_curves_score){name, name, false, true};
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static double number_in(const json_t *line, const char *name)
{
    const json_t *value = json_object_get(line, name);
    double number = json_number_value(value);
    if (!json_is_number(value) || !(fabs(number) < LARGEST)) {
        return NAN;
    }
    return number;
}

/* Learn the scores from the names in an epoch's line: valid_NAME, except the loss. */
static void take_score_names(struct sl_curves_run *run, json_t *line)
{
    const char *key;
    json_t *value;
    run->n_scores = 0;
    json_object_foreach(line, key, value)
    {
        bool is_score = strncmp(key, "valid_", 6) == 0 && strcmp(key, "valid_loss") != 0;
        if (is_score && strlen(key + 6) < sizeof run->score[0] && run->n_scores < SL_MAX_SCORES) {
            snprintf(run->score[run->n_scores++], sizeof run->score[0], "%s", key + 6);
        }
    }
}

static void read_scores(const struct sl_curves_run *run, const json_t *line, struct sl_curves_epoch *out)
{
    for (uint32_t i = 0; i < run->n_scores; i++) {
        char key[32];
        snprintf(key, sizeof key, "valid_%s", run->score[i]);
        out->valid[i] = number_in(line, key);
        snprintf(key, sizeof key, "test_%s", run->score[i]);
        out->test[i] = number_in(line, key);
    }
}

static enum sl_status take_epoch(struct sl_curves_run *run, json_t *line)
{
    const json_t *stages = json_object_get(line, "stage_seconds");
    struct sl_curves_epoch epoch = {.epoch = number_in(line, "epoch"),
                                    .train_loss = number_in(line, "train_loss"),
                                    .valid_loss = number_in(line, "valid_loss"),
                                    .seconds = number_in(line, "seconds")};
    double before_s = 0;
    if (isnan(epoch.epoch) || (epoch.epoch == 0 && run->n_epochs > 0)) { /* 0: an evaluation after training */
        return SL_OK;
    }
    if (run->n_epochs > 0 && epoch.epoch <= run->epoch[run->n_epochs - 1].epoch) {
        run->n_epochs = 0; /* another run begins */
    }
    if (run->n_epochs == 0) {
        take_score_names(run, line);
    } else {
        before_s = run->epoch[run->n_epochs - 1].end_s;
    }
    if (run->n_epochs == run->capacity) {
        size_t capacity = 2 * run->capacity + 64;
        enum sl_status st = sl_realloc(&run->epoch, capacity, sizeof *run->epoch, "epochs");
        if (st != SL_OK) {
            return st;
        }
        run->capacity = capacity;
    }
    epoch.end_s = before_s + fmax(0, epoch.seconds); /* fmax: 0 if there is no number */
    read_scores(run, line, &epoch);
    for (int s = 0; s < SL_N_STAGES; s++) {
        epoch.stage_s[s] = fmax(0, number_in(stages, sl_stage_name((enum sl_stage)s)));
    }
    run->epoch[run->n_epochs++] = epoch;
    return SL_OK;
}

static enum sl_status take_line(void *context, json_t *line)
{
    struct sl_curves_run *run = context;
    if (sl_jsonl_is(line, "config")) {
        json_decref(run->config);
        run->config = json_incref(line);
        run->ended = false;
        run->peak_bytes = NAN;
    } else if (run->config != NULL && sl_jsonl_is(line, "epoch")) {
        return take_epoch(run, line);
    } else if (run->config != NULL && sl_jsonl_is(line, "summary")) {
        run->ended = true;
        run->peak_bytes = number_in(line, "peak_rss_bytes");
    }
    return SL_OK;
}

/* The score of --best-by, or the first score. */
static void find_best_by(struct sl_curves_run *run)
{
    const char *name = json_string_value(json_object_get(json_object_get(run->config, "options"), "best_by"));
    run->best_by = 0;
    for (uint32_t i = 0; name != NULL && i < run->n_scores; i++) {
        if (strcmp(run->score[i], name) == 0) {
            run->best_by = i;
        }
    }
}

/* The earliest of equals, as in training. */
static void find_best(struct sl_curves_run *run)
{
    double sign = -1;
    double best = -INFINITY;
    run->best = run->n_epochs;
    if (run->n_scores == 0) {
        return;
    }
    find_best_by(run);
    if (sl_curves_score(run->score[run->best_by]).larger_is_better) {
        sign = 1;
    }
    for (size_t i = 0; i < run->n_epochs; i++) {
        double value = sign * run->epoch[i].valid[run->best_by];
        if (value > best) {
            best = value;
            run->best = i;
        }
    }
}

static enum sl_status read_run(struct sl_curves_run *run)
{
    enum sl_status st;
    run->peak_bytes = NAN;
    SL_TRY(st, sl_jsonl_read(run->path, take_line, run), done);
    if (run->config == NULL) {
        st = sl_fail(SL_EFILE,
                     "%.150s: expected a file that coop_sage --metrics or pipe_gnn --metrics has written, found no "
                     "line of a run",
                     run->path);
    } else if (run->n_epochs == 0) {
        st =
            sl_fail(SL_EFILE, "%.150s: found no whole epoch, expected one or more; has the run just begun?", run->path);
    } else {
        find_best(run);
    }
done:
    return st;
}

/* ---- files and names --------------------------------------------------------------------------------------------- */

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

/* The metrics file in a folder. */
static enum sl_status find_file(const char *folder, char **out)
{
    char found[300] = "";
    uint32_t n = 0;
    DIR *dir = opendir(folder);
    if (dir == NULL) {
        return sl_fail(SL_EIO, "%.150s: cannot list this folder", folder);
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, "metrics.jsonl") == 0) {
            snprintf(found, sizeof found, "%s", entry->d_name);
            n = 1;
            break;
        }
        if (ends_in(entry->d_name, ".jsonl")) {
            snprintf(found, sizeof found, "%s", entry->d_name);
            n++;
        }
    }
    closedir(dir);
    if (n != 1) {
        return sl_fail(SL_EFILE,
                       "%.150s: expected one file of --metrics in this folder (metrics.jsonl, or one *.jsonl), found "
                       "%u; name the file",
                       folder, n);
    }
    return sl_path_join(folder, found, out);
}

/* The last part of a path, without the suffixes of JSON; `whole`: all of the path. */
static enum sl_status name_of(const char *path, bool whole, char **out)
{
    static const char *const suffixes[] = {".jsonl", ".json"};
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') {
        end--;
    }
    size_t start = end;
    while (!whole && start > 0 && path[start - 1] != '/') {
        start--;
    }
    if (whole || start == end) {
        start = 0;
    }
    enum sl_status st = sl_format(out, "%.*s", (int)(end - start), path + start);
    for (size_t i = 0; st == SL_OK && i < sizeof suffixes / sizeof *suffixes; i++) {
        if (ends_in(*out, suffixes[i])) {
            (*out)[strlen(*out) - strlen(suffixes[i])] = '\0';
            break;
        }
    }
    return st;
}

/* Name the runs. If two files have the same name, all names are paths. */
static enum sl_status name_runs(const char *const *paths, struct sl_curves *c)
{
    enum sl_status st = SL_OK;
    bool unique = true;
    for (uint32_t i = 0; i < c->n; i++) {
        SL_TRY(st, name_of(paths[i], false, &c->run[i].name), done);
        for (uint32_t k = 0; k < i; k++) {
            unique = unique && strcmp(c->run[k].name, c->run[i].name) != 0;
        }
    }
    for (uint32_t i = 0; !unique && i < c->n; i++) {
        sl_free(c->run[i].name);
        c->run[i].name = NULL;
        SL_TRY(st, name_of(paths[i], true, &c->run[i].name), done);
    }
done:
    return st;
}

/* ---- options that differ ----------------------------------------------------------------------------------------- */

/* Options about files and printing. The picture of a run does not depend on them. */
static bool is_about_output(const char *key)
{
    static const enum sl_schedule_name programs[] = {SL_SCHEDULE_MINIBATCH, SL_SCHEDULE_PIPE};
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        const struct sl_option_table *table = sl_settings_table(programs[p]);
        for (size_t i = 0; i < table->n_options; i++) {
            char name[64];
            sl_option_key(&table->options[i], name, sizeof name);
            if (strcmp(name, key) == 0) {
                bool folder = strcmp(key, "cache") == 0 || strcmp(key, "data_path") == 0;
                return folder || strcmp(table->options[i].group, "output") == 0;
            }
        }
    }
    return false;
}

static void put_value(FILE *stream, const json_t *value)
{
    if (json_is_string(value)) {
        fputs(json_string_value(value), stream);
    } else if (json_is_integer(value)) {
        fprintf(stream, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_real(value)) {
        fprintf(stream, "%g", json_real_value(value));
    } else if (json_is_boolean(value)) {
        fputs(json_is_true(value) ? "on" : "off", stream);
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            fputs(i > 0 ? "," : "", stream);
            put_value(stream, json_array_get(value, i));
        }
    } else {
        fputs("none", stream);
    }
}

/* True if all runs have this member and two runs differ in it. */
static bool differs(const struct sl_curves *c, const char *object, const char *key)
{
    bool same = true;
    const json_t *first = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        const json_t *from = c->run[i].config;
        if (object != NULL) {
            from = json_object_get(from, object);
        }
        const json_t *value = json_object_get(from, key);
        if (value == NULL) {
            return false;
        }
        if (i == 0) {
            first = value;
        }
        same = same && json_equal(value, first);
    }
    return !same;
}

static void put_difference(FILE *stream, const char *key, const json_t *value)
{
    if (ftell(stream) > 0) {
        fputs(", ", stream);
    }
    for (const char *c = key; *c != '\0'; c++) {
        char letter = *c;
        if (letter == '_') {
            letter = '-';
        }
        fputc(letter, stream);
    }
    fputc(' ', stream);
    put_value(stream, value);
}

static enum sl_status describe(const struct sl_curves *c, struct sl_curves_run *run)
{
    json_t *options = json_object_get(run->config, "options");
    const char *key;
    json_t *value;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (stream == NULL) {
        return sl_fail(SL_ENOMEM, "no memory for the options of a run");
    }
    if (differs(c, NULL, "version")) {
        put_difference(stream, "version", json_object_get(run->config, "version"));
    }
    json_object_foreach(options, key, value)
    {
        if (differs(c, "options", key) && !is_about_output(key)) {
            put_difference(stream, key, value);
        }
    }
    bool lost = ferror(stream) != 0;
    enum sl_status st = SL_OK;
    if (fclose(stream) != 0 || lost) {
        st = sl_fail(SL_ENOMEM, "no memory for the options of a run");
    } else {
        st = sl_format(&run->difference, "%s", text);
    }
    free(text);
    return st;
}

/* ---- all runs ---------------------------------------------------------------------------------------------------- */

enum sl_status sl_curves_read(const char *const *paths, uint32_t n, struct sl_curves *out)
{
    enum sl_status st = SL_OK;
    *out = (struct sl_curves){.n = n};
    for (uint32_t i = 0; i < n; i++) {
        if (sl_folder_exists(paths[i])) {
            SL_TRY(st, find_file(paths[i], &out->run[i].path), done);
        } else {
            SL_TRY(st, sl_format(&out->run[i].path, "%s", paths[i]), done);
        }
        SL_TRY(st, read_run(&out->run[i]), done);
    }
    SL_TRY(st, name_runs(paths, out), done);
    for (uint32_t i = 0; i < n; i++) {
        SL_TRY(st, describe(out, &out->run[i]), done);
    }
done:
    return st;
}

void sl_curves_free(struct sl_curves *curves)
{
    for (uint32_t i = 0; i < curves->n; i++) {
        struct sl_curves_run *run = &curves->run[i];
        sl_free(run->path);
        sl_free(run->name);
        sl_free(run->difference);
        sl_free(run->epoch);
        json_decref(run->config);
    }
    *curves = (struct sl_curves){0};
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double sl_curves_epoch_s(const struct sl_curves_run *run)
{
    double *sorted;
    double median = NAN;
    size_t n = 0;
    if (sl_alloc(run->n_epochs, sizeof *sorted, "epochs", &sorted) != SL_OK) {
        return NAN;
    }
    for (size_t i = 0; i < run->n_epochs; i++) {
        if (isfinite(run->epoch[i].seconds)) {
            sorted[n++] = run->epoch[i].seconds;
        }
    }
    if (n > 0) {
        qsort(sorted, n, sizeof *sorted, compare_numbers);
        median = sorted[(n - 1) / 2];
    }
    sl_free(sorted);
    return median;
}
