/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Options from a model's file. */
#include "runtime/plan/model_file.h"
#include "runtime/plan/settings.h"

#include <stdio.h>
#include <string.h>

#include "data/made_features.h"
#include "support/memory.h"
#include "support/text.h"

/* Set an option to a value of the file. */
static enum sl_status set_from_file(const struct sl_model_file *file, const struct sl_option_table *table,
                                    const char *name, const char *value, void *settings)
{
    char why[SL_MESSAGE_BYTES];
    enum sl_status st = sl_option_set(table, name, value, settings);
    if (st == SL_EINVAL) {
        snprintf(why, sizeof why, "%s", sl_message());
        st = sl_fail(SL_EFILE, "%.300s: the options of the model: %.400s", file->tensors.path, why);
    }
    return st;
}

/* The value of the file in the form of sl_option_text; sl_free. */
static enum sl_status canonical(const struct sl_model_file *file, const struct sl_option_table *table,
                                const struct sl_option *option, const char *value, char **out)
{
    struct sl_settings scratch = {.schedule = SL_SCHEDULE_MINIBATCH};
    enum sl_status st = SL_OK;
    SL_CHECK(sl_option_defaults(table, &scratch));
    st = set_from_file(file, table, option->name, value, &scratch);
    if (st == SL_OK) {
        st = sl_option_text(option, &scratch, out);
    }
    sl_option_free(table, &scratch);
    return st;
}

static enum sl_status refuse(const struct sl_model_file *file, const char *name, const char *now, const char *then)
{
    char found[SL_QUOTED_BYTES], expected[SL_QUOTED_BYTES];
    return sl_fail(SL_EINVAL, "--%s: found %s, expected %s, with which the model in %.300s was trained; leave --%s out",
                   name, sl_text_quoted(now, found), sl_text_quoted(then, expected), file->tensors.path, name);
}

static bool are_made(const char *words)
{
    struct sl_made_features made;
    return sl_made_features_parse(words, &made) == SL_OK && made.kind != SL_MADE_NOT;
}

/* Whether the user's value may stand beside the file's. A file of features may be another, as the dataset may be. */
static bool agree(const char *name, const char *now, const char *then)
{
    if (strcmp(name, "features") == 0 && !are_made(now) && !are_made(then)) {
        return true;
    }
    return strcmp(now, then) == 0;
}

/* Take option i from the file, or compare it. */
static enum sl_status take_option(struct sl_settings *settings, size_t i, const char *value)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    const struct sl_option *option = &table->options[i];
    const struct sl_model_file *file = settings->model_file;
    SL_FREED char *now = NULL;
    SL_FREED char *then = NULL;
    bool is_default;
    SL_CHECK(canonical(file, table, option, value, &then));
    SL_CHECK(sl_option_text(option, settings, &now));
    SL_CHECK(sl_option_is_default(option, settings, &is_default));
    const bool open = strcmp(option->name, "objective") == 0 && strcmp(now, "auto") == 0;
    if (!open && (settings->given[i] || (!is_default && !settings->adopted[i]))) {
        if (option->kept || agree(option->name, now, then)) {
            return SL_OK;
        }
        return refuse(file, option->name, now, then);
    }
    SL_CHECK(set_from_file(file, table, option->name, value, settings));
    settings->adopted[i] = true;
    return SL_OK;
}

/* An option of the other program that this program lacks must have its default. */
static enum sl_status check_foreign(const struct sl_settings *settings, const char *name, const char *value)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    const struct sl_option *option = sl_option_find(table->sibling, name);
    SL_FREED char *then = NULL;
    SL_FREED char *usual = NULL;
    struct sl_settings scratch = {.schedule = SL_SCHEDULE_MINIBATCH};
    enum sl_status st;
    if (sl_option_find(table, name) != NULL || option == NULL || !option->of_model) {
        return SL_OK;
    }
    SL_CHECK(sl_option_defaults(table->sibling, &scratch));
    SL_TRY(st, sl_option_text(option, &scratch, &usual), free_scratch);
    SL_TRY(st, canonical(settings->model_file, table->sibling, option, value, &then), free_scratch);
    if (strcmp(usual, then) != 0) {
        st = sl_fail(SL_EINVAL, "%.300s: the model was trained with --%s %.100s, which %s does not have; use %s",
                     settings->model_file->tensors.path, name, then, table->program, table->sibling->program);
    }
free_scratch:
    sl_option_free(table->sibling, &scratch);
    return st;
}

/* Options of the file before take effect no more. */
static enum sl_status forget_adopted(struct sl_settings *settings)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    struct sl_settings scratch = {.schedule = settings->schedule};
    enum sl_status st = sl_option_defaults(table, &scratch);
    for (size_t i = 0; i < table->n_options && st == SL_OK; i++) {
        SL_FREED char *usual = NULL;
        if (settings->adopted[i]) {
            st = sl_option_text(&table->options[i], &scratch, &usual);
        }
        if (usual != NULL) {
            st = sl_option_set(table, table->options[i].name, usual, settings);
            settings->adopted[i] = false;
        }
    }
    sl_option_free(table, &scratch);
    return st;
}

static enum sl_status take_options(struct sl_settings *settings)
{
    const struct sl_option_table *table = sl_settings_table_of(settings);
    const struct sl_model_file *file = settings->model_file;
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        const char *value = sl_model_file_option(file, option->name);
        if (strcmp(option->name, "objective") == 0) {
            value = sl_model_file_text(file, SL_KEY_OBJECTIVE);
        } else if (!option->of_model && !option->kept) {
            value = NULL;
        }
        if (value != NULL) {
            SL_CHECK(take_option(settings, i, value));
        }
    }
    for (uint32_t i = 0; i < file->tensors.n_metadata; i++) {
        const struct sl_metadata *entry = &file->tensors.metadata[i];
        if (strncmp(entry->key, SL_KEY_OPTION, strlen(SL_KEY_OPTION)) == 0) {
            SL_CHECK(check_foreign(settings, entry->key + strlen(SL_KEY_OPTION), entry->value));
        }
    }
    return SL_OK;
}

enum sl_status sl_settings_adopt_file(struct sl_settings *settings, struct sl_model_file *file)
{
    if (settings->model_file != NULL) {
        sl_model_file_free(settings->model_file);
        sl_free(settings->model_file);
    }
    settings->model_file = file;
    SL_CHECK(forget_adopted(settings));
    return take_options(settings);
}

enum sl_status sl_settings_adopt(struct sl_settings *settings)
{
    struct sl_model_file *known = settings->model_file;
    SL_FREED struct sl_model_file *file = NULL;
    if (settings->load == NULL) {
        return SL_OK;
    }
    if (known != NULL && strcmp(known->tensors.path, settings->load) == 0 && sl_model_file_has_data(known)) {
        return take_options(settings);
    }
    SL_CHECK(sl_alloc_zero(1, sizeof *file, "a model's file", &file));
    SL_CHECK(sl_model_file_read(settings->load, file));
    sl_model_file_warn(file);
    known = file;
    file = NULL;
    return sl_settings_adopt_file(settings, known);
}
