/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The command line and the environment of coop_sage and pipe_gnn. */
#include <string.h>

#include "config.h"
#include "runtime/plan/model_file.h"
#include "runtime/plan/settings.h"
#include "runtime/starling.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/text.h"

extern char **environ;

/* Variables that are no options of coop_sage or pipe_gnn, named as if they were: of the library, of starling_data, of
 * the Python package, and of the tests. */
static const char *const other_variables[] = {"data", "out", "to", "parts", "method", "data-program", "library"};

/* `entry`: NAME=VALUE of the environment. */
static void check_variable(const char *entry, bool options_are_read)
{
    const struct sl_option_table *table = sl_settings_table(SL_SCHEDULE_MINIBATCH);
    char name[96];
    char known[96] = "";
    struct sl_nearest near = {.typed = name + strlen(SL_ENVIRONMENT_PREFIX), .distance = SIZE_MAX};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="), entry);
    for (size_t i = 0; i < sizeof other_variables / sizeof *other_variables; i++) {
        sl_nearest_offer(&near, other_variables[i], other_variables[i]);
    }
    sl_option_offer(table, &near);
    sl_option_offer(table->sibling, &near);
    if (near.answer != NULL && strchr(near.answer, ' ') == NULL) {
        sl_option_variable(table, near.answer, known, sizeof known);
    }
    const char *answer = sl_text_or(near.answer, "");
    if (!options_are_read &&
        (sl_option_find(table, answer) != NULL || sl_option_find(table->sibling, answer) != NULL)) {
        sl_notify(SL_NOTICE_WARNING, "%s is set, but only programs take options from the environment; set --%s here",
                  name, answer);
    } else if (strcmp(name, known) != 0) {
        sl_notify(SL_NOTICE_WARNING, "%s is set, but no program of Starling reads it%s%s%s", name,
                  known[0] != '\0' ? "; did you mean " : "", known, known[0] != '\0' ? "?" : "");
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
    SL_CHECK(sl_option_parse(table, argc, argv, settings, &parse));
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
        SL_CHECK(sl_settings_adopt(settings));
    }
    return *run ? sl_settings_check(settings) : sl_option_print(table, parse.action, PACKAGE_VERSION, stream);
}
