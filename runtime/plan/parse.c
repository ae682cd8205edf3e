/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The command line and the environment of coop_sage and pipe_gnn. */
#include <string.h>

#include "config.h"
#include "runtime/plan/adopt.h"
#include "runtime/starling.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/nearest.h"

extern char **environ;

/* Variables that are no options of coop_sage or pipe_gnn: of the library, of starling_data, of the Python package, and
 * of the tests. */
static const char *const other_variables[] = {"STARLING_DATA",   "STARLING_OUT",    "STARLING_TO",
                                              "STARLING_PARTS",  "STARLING_METHOD", "STARLING_DATA_PROGRAM",
                                              "STARLING_LIBRARY"};

/* Keep `known` in `near` if it is nearer to `typed` than *distance: true. Only equal names have distance 0. */
static bool compare(const char *typed, const char *known, char *near, size_t bytes, size_t *distance)
{
    size_t d = sl_name_distance(typed + strlen(SL_ENVIRONMENT_PREFIX), known + strlen(SL_ENVIRONMENT_PREFIX));
    if (strcmp(typed, known) == 0) {
        d = 0;
    } else if (d == 0) {
        d = 1; /* the case of letters counts */
    }
    if (d < *distance) {
        *distance = d;
        snprintf(near, bytes, "%s", known);
        return true;
    }
    return false;
}

/* The option, and its variable, that `name`, a variable, names in other programs: STARLING_EPOCHS for
 * STARLING_NUM_EPOCHS. NULL: none. */
static const struct sl_option *find_peer(const struct sl_option_table *table, const char *name, char *out, size_t bytes)
{
    char usual[96];
    snprintf(usual, sizeof usual, "%s", name + strlen(SL_ENVIRONMENT_PREFIX));
    for (char *c = usual; *c != '\0'; c++) {
        *c = *c == '_' ? '-' : (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    }
    const struct sl_option *option = sl_option_find_peer(table, usual);
    if (option != NULL) {
        sl_option_variable(table, option, out, bytes);
    }
    return option;
}

/* `entry`: NAME=VALUE of the environment. */
static void check_variable(const char *entry, bool options_are_read)
{
    const struct sl_option_table *const both[] = {sl_settings_table(SL_SCHEDULE_MINIBATCH),
                                                  sl_settings_table(SL_SCHEDULE_PIPE)};
    char name[96];
    char known[96];
    char near[96] = "";
    const struct sl_option *option = NULL;
    size_t distance = SIZE_MAX;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
    for (size_t t = 0; t < sizeof both / sizeof *both; t++) {
        for (size_t i = 0; i < both[t]->n_options; i++) {
            sl_option_variable(both[t], &both[t]->options[i], known, sizeof known);
            if (compare(name, known, near, sizeof near, &distance)) {
                option = &both[t]->options[i];
            }
        }
    }
    for (size_t i = 0; i < sizeof other_variables / sizeof *other_variables; i++) {
        if (compare(name, other_variables[i], near, sizeof near, &distance)) {
            option = NULL;
        }
    }
    for (size_t t = 0; t < sizeof both / sizeof *both && distance > 0; t++) {
        const struct sl_option *peer = find_peer(both[t], name, near, sizeof near);
        if (peer != NULL) {
            option = peer;
            break;
        }
    }
    if (option != NULL && !options_are_read) {
        sl_notify(SL_NOTICE_WARNING, "%s is set, but only programs take options from the environment; set --%s here",
                  name, option->name);
    } else if (distance > 0) {
        sl_notify(SL_NOTICE_WARNING, "%s is set, but no program of Starling reads it%s%s%s", name,
                  near[0] != '\0' ? "; did you mean " : "", near, near[0] != '\0' ? "?" : "");
    }
}

void sl_settings_check_environment(bool options_are_read)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        if (strncmp(*entry, SL_ENVIRONMENT_PREFIX, strlen(SL_ENVIRONMENT_PREFIX)) == 0 && equals != NULL &&
            equals[1] != '\0') {
            check_variable(*entry, options_are_read);
        }
    }
}

enum sl_status sl_settings_parse(struct sl_settings *settings, int argc, char **argv, FILE *stream, bool *run)
{
    SL_IN_C_LOCALE;
    const struct sl_option_table *table = sl_settings_table_of(settings);
    struct sl_option_parse parse;
    enum sl_status st;
    SL_TRY(st, sl_option_parse(table, argc, argv, settings, &parse), done);
    for (size_t i = 0; i < table->n_options; i++) {
        settings->given[i] = settings->given[i] || parse.sources[i] != SL_FROM_DEFAULT;
    }
    sl_free(parse.sources);
    *run = parse.action == SL_OPTION_RUN;
    if (*run && settings->save_names != SL_NAMES_DGL &&
        settings->save == NULL) { /* a program may want weights by name */
        return sl_fail(SL_EINVAL, "--save-names: expected --save FILE with it, the file whose names they are");
    }
    if (*run) {
        sl_settings_check_environment(true);
        SL_TRY(st, sl_settings_adopt(settings), done);
    }
    st = *run ? sl_settings_check(settings) : sl_option_print(table, parse.action, PACKAGE_VERSION, stream);
done:
    return st;
}
