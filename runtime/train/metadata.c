/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Metadata of models. */
#include "runtime/train/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/model/kinds.h"
#include "runtime/plan/model_file.h"
#include "support/decimal.h"
#include "support/memory.h"
#include "support/minmax.h"
#include "support/text.h"

#define NUMBER_BYTES 32

enum sl_status sl_labels_add(struct sl_labels *labels, const char *key, const char *value)
{
    SL_FREED char *owned_key = NULL;
    char *owned_value = NULL;
    if (labels->n == labels->capacity) {
        const uint32_t capacity = 2 * labels->capacity + 32;
        SL_CHECK(sl_realloc(&labels->entry, capacity, sizeof *labels->entry, "metadata of a model"));
        labels->capacity = capacity;
    }
    SL_CHECK(sl_strdup(key, &owned_key));
    SL_CHECK(sl_strdup(value, &owned_value));
    labels->entry[labels->n++] = (struct sl_metadata){owned_key, owned_value};
    owned_key = NULL;
    return SL_OK;
}

void sl_labels_free(struct sl_labels *labels)
{
    for (uint32_t i = 0; i < labels->n; i++) {
        sl_free((char *)(uintptr_t)labels->entry[i].key);
        sl_free((char *)(uintptr_t)labels->entry[i].value);
    }
    sl_free(labels->entry);
    *labels = (struct sl_labels){0};
}

enum sl_status sl_labels_add_whole(struct sl_labels *labels, const char *key, uint64_t value)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return sl_labels_add(labels, key, text);
}

/* Numbers with all their digits, separated by spaces. */
static enum sl_status add_numbers(struct sl_labels *labels, const char *key, uint32_t n, const double *numbers)
{
    SL_FREED char *text = NULL;
    size_t used = 0;
    SL_CHECK(sl_alloc((size_t)n + 1, NUMBER_BYTES, "numbers of metadata", &text));
    text[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0) {
            text[used++] = ' ';
        }
        sl_decimal_write(numbers[i], 17, text + used, NUMBER_BYTES);
        used += strlen(text + used);
    }
    return sl_labels_add(labels, key, text);
}

enum sl_status sl_labels_add_real(struct sl_labels *labels, const char *key, double value)
{
    return add_numbers(labels, key, 1, &value);
}

/* The names of a list; NULL: none. */
static enum sl_status add_names(struct sl_labels *labels, const char *key, const char *names)
{
    return names != NULL ? sl_labels_add(labels, key, names) : SL_OK;
}

/* Options that are a matter of the dataset have the values with which it was made: arrays say them themselves. *out:
 * NULL for other options. */
static enum sl_status text_of_dataset(const struct sl_option *option, const struct sl_dataset *facts, char **out)
{
    static const char *const normalize[] = {"none", "row", "column"};
    *out = NULL;
    if (strcmp(option->name, "directed") == 0) {
        return sl_strdup(facts->directed ? "yes" : "no", out);
    }
    if (strcmp(option->name, "normalize-features") == 0) {
        return sl_strdup(normalize[facts->normalized], out);
    }
    if (strcmp(option->name, "features") == 0) {
        return sl_strdup(facts->feature_words != NULL ? facts->feature_words : "", out);
    }
    return SL_OK;
}

static enum sl_status add_options(struct sl_labels *labels, const struct sl_session *t)
{
    const struct sl_option_table *table = sl_settings_table_of(t->settings);
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        char key[64];
        SL_FREED char *value = NULL;
        if (!option->of_model && !option->kept) {
            continue;
        }
        SL_CHECK(text_of_dataset(option, &t->facts, &value));
        if (value == NULL) {
            SL_CHECK(sl_option_text(option, t->settings, &value));
        }
        snprintf(key, sizeof key, SL_KEY_OPTION "%s", option->name);
        SL_CHECK(sl_labels_add(labels, key, value));
    }
    return SL_OK;
}

enum sl_status sl_labels_add_model(struct sl_labels *labels, const struct sl_session *t, bool with_options)
{
    const struct sl_dataset *facts = &t->facts;
    SL_CHECK(sl_labels_add_whole(labels, SL_KEY_VERSION, SL_MODEL_VERSION));
    SL_CHECK(sl_labels_add(labels, SL_KEY_PROGRAM, sl_settings_table_of(t->settings)->program));
    SL_CHECK(sl_labels_add(labels, "model", sl_model_kind(t->settings->model)->name));
    if (!t->objective.unknown || t->settings->objective != SL_OBJECTIVE_AUTO) {
        SL_CHECK(sl_labels_add(labels, SL_KEY_OBJECTIVE, t->objective.kind->name));
    }
    SL_CHECK(sl_labels_add_whole(labels, SL_KEY_FEATURES, t->shards.n_features));
    SL_CHECK(sl_labels_add_whole(labels, SL_KEY_OUTPUTS, t->shards.n_outputs));
    SL_CHECK(sl_labels_add_whole(labels, SL_KEY_RELATION_COUNT, t->partition.graph.n_relations));
    const char *words = sl_text_or(facts->feature_words, "");
    if (strncmp(words, "random:", strlen("random:")) == 0 || strcmp(words, "onehot") == 0) {
        SL_CHECK(sl_labels_add_whole(labels, SL_KEY_SEED, facts->feature_seed));
    }
    if (facts->scaling.n > 0) {
        SL_CHECK(add_numbers(labels, SL_KEY_MEAN, facts->scaling.n, facts->scaling.mean));
        SL_CHECK(add_numbers(labels, SL_KEY_SCALE, facts->scaling.n, facts->scaling.scale));
    }
    SL_CHECK(add_names(labels, SL_KEY_CLASSES, facts->class_names));
    SL_CHECK(add_names(labels, SL_KEY_RELATIONS, facts->relations));
    SL_CHECK(add_names(labels, SL_KEY_TYPES, facts->types));
    SL_CHECK(add_names(labels, SL_KEY_FEATURE_NAMES, words[0] == '\0' ? facts->feature_names : NULL));
    if (with_options) {
        return add_options(labels, t);
    }
    return SL_OK;
}
