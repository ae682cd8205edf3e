/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Reading options. option_print.c prints them. */
#include "support/option.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/decimal.h"
#include "support/memory.h"
#include "support/number.h"
#include "support/text.h"

#define LABEL_BYTES 96     /* "--name" or an environment variable */
#define EXPECTED_BYTES 320 /* description of the valid values */

/* The field of an option. */
static void *field(const struct sl_option *option, const void *settings)
{
    return (char *)(uintptr_t)settings + option->offset;
}

/* Whether `typed`, in any case, is the word of n letters. */
static bool is_word(const char *typed, const char *word, size_t n)
{
    return strncasecmp(typed, word, n) == 0 && typed[n] == '\0';
}

/* The number of entries of a list. */
static uint32_t *count(const struct sl_option *option, const void *settings)
{
    return (uint32_t *)(void *)((char *)(uintptr_t)settings + option->offset_n);
}

/* ---- Valid values ---- */

static uint64_t largest(const struct sl_option *option)
{
    if (option->max > 0) {
        return (uint64_t)option->max;
    }
    return option->kind == SL_OPTION_U64 ? UINT64_MAX : UINT32_MAX;
}

static void describe_real(const struct sl_option *option, char *out, size_t bytes)
{
    if (option->max > 0) {
        snprintf(out, bytes, "a number from %g to %s%g", option->min, option->below ? "below " : "", option->max);
    } else {
        snprintf(out, bytes, "a number of at least %g", option->min);
    }
}

/* "one of none, layer, batch" */
static void describe_choices(const struct sl_option *option, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "one of ");
    for (const char *c = option->choices; *c != '\0' && used + 3 < bytes; c++) {
        out[used++] = *c;
        if (*c == ',') {
            out[used++] = ' ';
        }
    }
    out[used] = '\0';
}

static void describe(const struct sl_option *option, char *out, size_t bytes)
{
    unsigned long long low = (unsigned long long)option->min;
    unsigned long long high = largest(option);
    switch (option->kind) {
    case SL_OPTION_FLAG: snprintf(out, bytes, "yes or no"); break;
    case SL_OPTION_U32:
    case SL_OPTION_U64:
        snprintf(out, bytes, "%s%sa whole number from %llu to %llu", sl_text_or(option->word, ""),
                 option->word != NULL ? " or " : "", low, high);
        break;
    case SL_OPTION_REAL: describe_real(option, out, bytes); break;
    case SL_OPTION_STRING: snprintf(out, bytes, "%s", sl_text_or(option->argument, "a text")); break;
    case SL_OPTION_CHOICE: describe_choices(option, out, bytes); break;
    case SL_OPTION_U32_LIST:
        snprintf(out, bytes, "1 to %u whole numbers from %llu to %llu%s%s, separated by commas", option->capacity, low,
                 high, option->word != NULL ? " or " : "", sl_text_or(option->word, ""));
        break;
    }
}

static enum sl_status refuse(const struct sl_option *option, const char *label, const char *text)
{
    char expected[EXPECTED_BYTES];
    describe(option, expected, sizeof expected);
    return sl_fail(SL_EINVAL, "%s: found '%.200s', expected %s%s%s", label, text, expected,
                   option->hint != NULL ? "; " : "", sl_text_or(option->hint, ""));
}

/* ---- Reading one value ---- */

static bool set_flag(const char *text, bool *out)
{
    static const char *const words[][2] = {{"yes", "no"}, {"1", "0"}, {"true", "false"}, {"on", "off"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i][0]) == 0 || strcmp(text, words[i][1]) == 0) {
            *out = strcmp(text, words[i][0]) == 0;
            return true;
        }
    }
    return false;
}

/* Read a number or the word, of n letters. */
static bool set_whole(const struct sl_option *option, const char *text, size_t n, void *out)
{
    uint64_t value = UINT32_MAX;
    const bool word = option->word != NULL && n == strlen(option->word) && strncmp(text, option->word, n) == 0;
    if (!word && (sl_number_u64(text, text + n, &value) != text + n || value < (uint64_t)option->min ||
                  value > largest(option))) {
        return false;
    }
    if (option->kind == SL_OPTION_U64) {
        *(uint64_t *)out = value;
    } else {
        *(uint32_t *)out = (uint32_t)value;
    }
    return true;
}

static bool set_real(const struct sl_option *option, const char *text, double *out)
{
    if (text[0] == '\0' || strspn(text, "0123456789.eE+-") != strlen(text)) {
        return false; /* strtod also accepts spaces, hexadecimal digits, nan and inf */
    }
    char *end;
    const double value = sl_decimal_read(text, &end);
    const bool high = option->max > 0 && (value > option->max || (value >= option->max && option->below));
    if (*end != '\0' || !isfinite(value) || value < option->min || high) {
        return false;
    }
    *out = value + 0.0; /* no minus zero */
    return true;
}

/* The position of `text` in a list of words separated by commas, in any case; -1: not there. */
static int find_word(const char *words, const char *text)
{
    int position = 0;
    for (;; position++) {
        size_t n = strcspn(words, ",");
        if (is_word(text, words, n)) {
            return position;
        }
        if (words[n] == '\0') {
            return -1;
        }
        words += n + 1;
    }
}

/* The choice that "fp32=float,float32=float" gives for a word; -1: none. */
static int find_synonym(const struct sl_option *option, const char *text)
{
    const char *pair = sl_text_or(option->synonyms, "");
    while (*pair != '\0') {
        size_t n = strcspn(pair, "=");
        size_t whole = strcspn(pair, ",");
        if (is_word(text, pair, n)) {
            char name[LABEL_BYTES];
            snprintf(name, sizeof name, "%.*s", (int)(whole - n - 1), pair + n + 1);
            return find_word(option->choices, name);
        }
        pair += whole + (pair[whole] == ',');
    }
    return -1;
}

static bool set_choice(const struct sl_option *option, const char *text, int *out)
{
    int position = find_word(option->choices, text);
    if (position < 0) {
        position = find_synonym(option, text);
    }
    if (position >= 0) {
        *out = position;
    }
    return position >= 0;
}

static bool set_list(const struct sl_option *option, const char *text, uint32_t *out, uint32_t *n_out)
{
    uint32_t entries[SL_MAX_OPTION_LIST];
    uint32_t n = 0;
    for (bool last = false; !last; n++) {
        size_t length = strcspn(text, ",");
        if (n == option->capacity || !set_whole(option, text, length, &entries[n])) {
            return false;
        }
        last = text[length] == '\0';
        text += length + 1;
    }
    memcpy(out, entries, n * sizeof *entries);
    *n_out = n;
    return true;
}

/* Read any value but a string. n: of a list. */
static bool read_value(const struct sl_option *option, const char *text, void *out, uint32_t *n)
{
    switch (option->kind) {
    case SL_OPTION_FLAG: return set_flag(text, out);
    case SL_OPTION_U32:
    case SL_OPTION_U64: return set_whole(option, text, strlen(text), out);
    case SL_OPTION_REAL: return set_real(option, text, out);
    case SL_OPTION_CHOICE: return set_choice(option, text, out);
    case SL_OPTION_U32_LIST: return set_list(option, text, out, n);
    case SL_OPTION_STRING: break;
    }
    return false;
}

static enum sl_status set_string(const char *text, char **out)
{
    char *copy = NULL;
    if (text[0] != '\0') {
        SL_CHECK(sl_strdup(text, &copy));
    }
    sl_free(*out);
    *out = copy;
    return SL_OK;
}

/* Read `text` into the option's field. label: the option as the user wrote it. On failure the field is unchanged. */
static enum sl_status set(const struct sl_option *option, const char *label, const char *text, void *settings)
{
    void *out = field(option, settings);
    if (option->kind == SL_OPTION_STRING) {
        return set_string(text, out);
    }
    if (!read_value(option, text, out, count(option, settings))) {
        return refuse(option, label, text);
    }
    return SL_OK;
}

/* The value of the option without an argument; NULL: it needs one. */
static const char *bare_text(const struct sl_option *option)
{
    return option->kind == SL_OPTION_FLAG ? "yes" : option->bare;
}

/* ---- Defaults ---- */

static void clear(const struct sl_option *option, void *settings)
{
    static const size_t bytes[] = {
        [SL_OPTION_FLAG] = sizeof(bool),   [SL_OPTION_U32] = sizeof(uint32_t),  [SL_OPTION_U64] = sizeof(uint64_t),
        [SL_OPTION_REAL] = sizeof(double), [SL_OPTION_STRING] = sizeof(char *), [SL_OPTION_CHOICE] = sizeof(int),
        [SL_OPTION_U32_LIST] = 0};
    memset(field(option, settings), 0, bytes[option->kind]);
    if (option->kind == SL_OPTION_U32_LIST) {
        *count(option, settings) = 0;
    }
}

enum sl_status sl_option_defaults(const struct sl_option_table *table, void *settings)
{
    enum sl_status st = SL_OK;
    for (size_t i = 0; i < table->n_options; i++) {
        clear(&table->options[i], settings);
    }
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        char label[LABEL_BYTES];
        if (option->initial != NULL) {
            snprintf(label, sizeof label, "default of --%s", option->name);
            SL_TRY(st, set(option, label, option->initial, settings), free_strings);
        }
    }
    return SL_OK;

free_strings:
    sl_option_free(table, settings);
    return st;
}

void sl_option_free(const struct sl_option_table *table, void *settings)
{
    for (size_t i = 0; i < table->n_options; i++) {
        if (table->options[i].kind == SL_OPTION_STRING) {
            char **text = field(&table->options[i], settings);
            sl_free(*text);
            *text = NULL;
        }
    }
}

/* ---- Names ---- */

size_t sl_option_select(const struct sl_option *options, size_t n, unsigned program, struct sl_option *out)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        if (options[i].programs == 0 || (options[i].programs & program) != 0) {
            out[n_out++] = options[i];
        }
    }
    return n_out;
}

void sl_option_offer(const struct sl_option_table *table, struct sl_nearest *nearest)
{
    for (size_t i = 0; i < table->n_options; i++) {
        sl_nearest_offer(nearest, table->options[i].name, table->options[i].name);
    }
    for (size_t i = 0; i < table->n_aliases; i++) {
        const struct sl_option_alias *alias = &table->aliases[i];
        if (strchr(alias->answer, ' ') != NULL || sl_option_find(table, alias->answer) != NULL) {
            sl_nearest_offer(nearest, alias->names, alias->answer);
        }
    }
}

static enum sl_status unknown(const struct sl_option_table *table, const char *name)
{
    struct sl_nearest near = {.typed = name, .distance = SIZE_MAX};
    char program[LABEL_BYTES];
    snprintf(program, sizeof program, "%s%s%s", table->program, table->command != NULL ? " " : "",
             sl_text_or(table->command, ""));
    sl_option_offer(table, &near);
    if (table->sibling != NULL) {
        sl_option_offer(table->sibling, &near);
    }
    SL_FAIL_IF(near.answer == NULL, SL_EINVAL, "--%.200s: %s has no such option; %s --help-all lists its options", name,
               program, program);
    SL_FAIL_IF(strchr(near.answer, ' ') != NULL, SL_EINVAL, "--%.200s: %s has no such option; %s", name, program,
               near.answer);
    SL_FAIL_IF(sl_option_find(table, near.answer) == NULL, SL_EINVAL, "--%.200s: %s has no such option; %s has --%s",
               name, program, table->sibling->program, near.answer);
    return sl_fail(SL_EINVAL, "--%.200s: %s has no such option; did you mean --%s?", name, program, near.answer);
}

const struct sl_option *sl_option_find(const struct sl_option_table *table, const char *name)
{
    for (size_t i = 0; i < table->n_options; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    return NULL;
}

const struct sl_option *sl_option_in_order(const struct sl_option_table *table, size_t i)
{
    size_t n = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (size_t k = 0; k < table->n_options; k++) {
            bool now = table->options[k].leads == (turn == 0);
            if (now && n == i) {
                return &table->options[k];
            }
            n += now;
        }
    }
    return NULL;
}

/* ---- The command line ---- */

/* State of sl_option_parse. */
struct reader {
    const struct sl_option_table *table;
    int argc;
    char **argv;
    int position; /* argv[position] is read */
    void *settings;
    struct sl_option_parse *parse;
};

static enum sl_option_action action_of(const char *argument)
{
    static const struct {
        const char *name;
        enum sl_option_action action;
    } actions[] = {
        {"-h", SL_OPTION_HELP},           {"--help", SL_OPTION_HELP},     {"--help-all", SL_OPTION_HELP_ALL},
        {"--version", SL_OPTION_VERSION}, {"--print-man", SL_OPTION_MAN}, {"--print-completion", SL_OPTION_COMPLETION}};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(argument, actions[i].name) == 0) {
            return actions[i].action;
        }
    }
    return SL_OPTION_RUN;
}

/* The value of a long option: after '=', or the next argument unless it looks like a long option. */
static enum sl_status value_of(struct reader *r, const struct sl_option *option, const char *equals, const char **out)
{
    if (equals != NULL) {
        *out = equals + 1;
        return SL_OK;
    }
    if (bare_text(option) != NULL) {
        *out = bare_text(option);
        return SL_OK;
    }
    if (r->position + 1 < r->argc && strncmp(r->argv[r->position + 1], "--", 2) != 0) {
        *out = r->argv[++r->position];
        return SL_OK;
    }
    char expected[EXPECTED_BYTES];
    describe(option, expected, sizeof expected);
    return sl_fail(SL_EINVAL, "--%s: found no value, expected %s", option->name, expected);
}

/* The flag of --no-NAME; NULL: no such flag. */
static const struct sl_option *negated(const struct sl_option_table *table, const char *name)
{
    const struct sl_option *option = strncmp(name, "no-", 3) == 0 ? sl_option_find(table, name + 3) : NULL;
    return option != NULL && option->kind == SL_OPTION_FLAG ? option : NULL;
}

/* Read the long option at r->position, and its value, possibly the next argument. */
static enum sl_status read_long(struct reader *r)
{
    char name[LABEL_BYTES];
    char label[LABEL_BYTES + 2];
    const char *start = r->argv[r->position] + 2;
    const char *equals = strchr(start, '=');
    snprintf(name, sizeof name, "%.*s", equals != NULL ? (int)(equals - start) : (int)strnlen(start, LABEL_BYTES),
             start);
    snprintf(label, sizeof label, "--%s", name);
    const char *text = "no";
    const struct sl_option *option = sl_option_find(r->table, name);
    if (option != NULL) {
        SL_CHECK(value_of(r, option, equals, &text));
    } else {
        option = negated(r->table, name);
        if (option == NULL) {
            return unknown(r->table, name);
        }
        SL_FAIL_IF(equals != NULL, SL_EINVAL, "%s: found a value, expected none", label);
    }
    SL_CHECK(set(option, label, text, r->settings));
    r->parse->sources[option - r->table->options] = SL_FROM_COMMAND_LINE;
    return SL_OK;
}

/* Read argv up to its end or an action. */
static enum sl_status read_arguments(struct reader *r)
{
    bool positional_only = false;
    for (r->position = 1; r->position < r->argc; r->position++) {
        char *argument = r->argv[r->position];
        if (positional_only || argument[0] != '-' || argument[1] == '\0') {
            r->argv[++r->parse->n_arguments] = argument;
        } else if (strcmp(argument, "--") == 0) {
            positional_only = true;
        } else if (action_of(argument) != SL_OPTION_RUN) {
            r->parse->action = action_of(argument);
            return SL_OK;
        } else if (argument[1] != '-') {
            return sl_fail(SL_EINVAL, "%.200s: no such option; options are written --name, see --help", argument);
        } else {
            SL_CHECK(read_long(r));
        }
    }
    return SL_OK;
}

static enum sl_status check_arguments(const struct sl_option_table *table, int n, char **argv)
{
    const char *command = sl_text_or(table->command, "");
    const char *colon = table->command != NULL ? ": " : "";
    SL_FAIL_IF(n > table->max_arguments && table->stray != NULL, SL_EINVAL,
               "found argument '%.200s', expected only options; did you mean --%s %.200s?", argv[1], table->stray,
               argv[1]);
    SL_FAIL_IF(n > table->max_arguments, SL_EINVAL, "%s%sfound argument '%.200s', expected %s%s; see --help", command,
               colon, argv[table->max_arguments + 1], table->max_arguments > 0 ? "no more than " : "only options",
               table->max_arguments > 0 ? table->arguments : "");
    SL_FAIL_IF(n < table->min_arguments, SL_EINVAL, "%s%sfound %d argument%s, expected %s; see --help", command, colon,
               n, n == 1 ? "" : "s", table->arguments);
    return SL_OK;
}

/* ---- The environment ---- */

void sl_option_key(const struct sl_option *option, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", option->name);
    for (char *dash = strchr(out, '-'); dash != NULL; dash = strchr(dash, '-')) {
        *dash = '_';
    }
}

void sl_option_variable(const struct sl_option_table *table, const char *name, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "%s", table->env_prefix);
    for (; *name != '\0' && used + 1 < bytes; name++) {
        out[used++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
    }
    out[used] = '\0';
}

/* An option with a bare form may also be switched on by the words for a flag: STARLING_RESUME=1. */
static enum sl_status read_environment(struct reader *r)
{
    size_t n_options = r->table->env_prefix != NULL ? r->table->n_options : 0;
    for (size_t i = 0; i < n_options; i++) {
        const struct sl_option *option = &r->table->options[i];
        char label[LABEL_BYTES];
        bool on;
        sl_option_variable(r->table, option->name, label, sizeof label);
        const char *text = getenv(label);
        if (text == NULL || text[0] == '\0' || r->parse->sources[i] == SL_FROM_COMMAND_LINE) {
            continue;
        }
        if (option->bare != NULL && set_flag(text, &on) && on) {
            text = option->bare;
        }
        SL_CHECK(set(option, label, text, r->settings));
        r->parse->sources[i] = SL_FROM_ENVIRONMENT;
    }
    return SL_OK;
}

/* ---- All together ---- */

enum sl_status sl_option_parse(const struct sl_option_table *table, int argc, char **argv, void *settings,
                               struct sl_option_parse *out)
{
    struct reader r = {.table = table, .argc = argc, .argv = argv, .settings = settings, .parse = out};
    memset(out, 0, sizeof *out);
    SL_CHECK(sl_alloc_zero(table->n_options, sizeof *out->sources, "sources of options", &out->sources));
    enum sl_status st = read_arguments(&r);
    if (st == SL_OK && out->action == SL_OPTION_RUN) {
        st = check_arguments(table, out->n_arguments, argv);
    }
    if (st == SL_OK && out->action == SL_OPTION_RUN) {
        st = read_environment(&r);
    }
    if (st != SL_OK) {
        sl_free(out->sources);
        out->sources = NULL;
    }
    return st;
}

enum sl_status sl_option_set(const struct sl_option_table *table, const char *name, const char *text, void *settings)
{
    char label[LABEL_BYTES];
    snprintf(label, sizeof label, "--%s", name);
    const struct sl_option *option = sl_option_find(table, name);
    if (option == NULL) {
        return unknown(table, name);
    }
    if (text == NULL) {
        text = bare_text(option);
    }
    return text != NULL ? set(option, label, text, settings) : refuse(option, label, "");
}

/* ---- Values as text ---- */

/* n numbers or words, separated by commas. */
static void list_text(const struct sl_option *option, const uint32_t *entries, uint32_t n, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < n && used < bytes; i++) {
        if (option->word != NULL && entries[i] == UINT32_MAX) {
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", i > 0 ? "," : "", option->word);
        } else {
            used += (size_t)snprintf(out + used, bytes - used, "%s%u", i > 0 ? "," : "", entries[i]);
        }
    }
}

void sl_option_choice_name(const struct sl_option *option, int position, char *out, size_t bytes)
{
    const char *name = option->choices;
    for (int i = 0; i < position && name != NULL; i++) {
        name = strchr(name, ',');
        name = name != NULL ? name + 1 : NULL;
    }
    snprintf(out, bytes, "%.*s", name != NULL && position >= 0 ? (int)strcspn(name, ",") : 0, sl_text_or(name, ""));
}

enum sl_status sl_option_text(const struct sl_option *option, const void *settings, char **out)
{
    char text[12 * SL_MAX_OPTION_LIST];
    const void *value = field(option, settings);
    const char *source = text;
    switch (option->kind) {
    case SL_OPTION_FLAG: source = *(const bool *)value ? "yes" : "no"; break;
    case SL_OPTION_U32: list_text(option, value, 1, text, sizeof text); break;
    case SL_OPTION_U64: snprintf(text, sizeof text, "%llu", (unsigned long long)*(const uint64_t *)value); break;
    case SL_OPTION_REAL: sl_decimal_shortest(*(const double *)value, 1, text, sizeof text); break;
    case SL_OPTION_STRING: source = sl_text_or(*(char *const *)value, ""); break;
    case SL_OPTION_CHOICE: sl_option_choice_name(option, *(const int *)value, text, sizeof text); break;
    case SL_OPTION_U32_LIST: list_text(option, value, *count(option, settings), text, sizeof text); break;
    }
    return sl_strdup(source, out);
}

enum sl_status sl_option_get(const struct sl_option_table *table, const char *name, const void *settings, char **out)
{
    const struct sl_option *option = sl_option_find(table, name);
    return option != NULL ? sl_option_text(option, settings, out) : unknown(table, name);
}

/* ---- Values set by programs ---- */

bool sl_option_is_open(const struct sl_option *option, const void *settings)
{
    return option->kind == SL_OPTION_U32 && option->initial == NULL && *(const uint32_t *)field(option, settings) == 0;
}

/* Read the value as the command line would. A choice without a name is shown as its number, a list that is too long as
 * its length. */
static enum sl_status check_value(const struct sl_option *option, const void *settings)
{
    uint64_t room[SL_MAX_OPTION_LIST]; /* for any value */
    uint32_t n = 0;
    char label[LABEL_BYTES];
    char number[32];
    SL_FREED char *text = NULL;
    snprintf(label, sizeof label, "--%s", option->name);
    if (option->kind == SL_OPTION_U32_LIST && *count(option, settings) > option->capacity) {
        snprintf(number, sizeof number, "%u numbers", *count(option, settings));
        return refuse(option, label, number);
    }
    SL_CHECK(sl_option_text(option, settings, &text));
    const bool none = option->kind == SL_OPTION_U32_LIST && option->initial == NULL && text[0] == '\0';
    if (none || sl_option_is_open(option, settings) || read_value(option, text, room, &n)) {
        return SL_OK;
    }
    if (option->kind == SL_OPTION_CHOICE) {
        snprintf(number, sizeof number, "%d", *(const int *)field(option, settings));
        return refuse(option, label, number);
    }
    return refuse(option, label, text);
}

enum sl_status sl_option_check(const struct sl_option_table *table, const void *settings)
{
    for (size_t i = 0; i < table->n_options; i++) {
        if (table->options[i].kind != SL_OPTION_FLAG && table->options[i].kind != SL_OPTION_STRING) {
            SL_CHECK(check_value(&table->options[i], settings));
        }
    }
    return SL_OK;
}

/* ---- Options that need others ---- */

enum sl_status sl_option_is_default(const struct sl_option *option, const void *settings, bool *out)
{
    static const uint64_t zeros[2]; /* a field that is cleared */
    struct sl_option none = *option;
    SL_FREED char *usual = NULL;
    SL_FREED char *now = NULL;
    none.offset = none.offset_n = 0;
    SL_CHECK(sl_option_text(option, settings, &now));
    SL_CHECK(sl_option_text(&none, zeros, &usual));
    *out = strcmp(now, sl_text_or(option->initial, usual)) == 0;
    return SL_OK;
}

/* "--checkpoint DIR", "--sync dissemination or cube" */
static void describe_need(const struct sl_option *other, const char *values, char *out, size_t bytes)
{
    size_t used = (size_t)snprintf(out, bytes, "--%s ", other->name);
    if (*values == '\0') {
        snprintf(out + used, bytes - used, "%s", sl_text_or(other->argument, ""));
    }
    for (; *values != '\0' && used < bytes; values += *values == ',') {
        int n = (int)strcspn(values, ",");
        used += (size_t)snprintf(out + used, bytes - used, "%.*s%s", n, values, values[n] == ',' ? " or " : "");
        values += n;
    }
}

static enum sl_status check_need(const struct sl_option_table *table, const struct sl_option *option,
                                 const void *settings)
{
    char name[LABEL_BYTES];
    char need[EXPECTED_BYTES];
    SL_FREED char *now = NULL;
    SL_FREED char *others = NULL;
    const char *values = option->needs + strcspn(option->needs, "=");
    snprintf(name, sizeof name, "%.*s", (int)(values - option->needs), option->needs);
    values += *values == '=';
    const struct sl_option *other = sl_option_find(table, name);
    SL_CHECK(sl_option_get(table, name, settings, &others));
    bool met = *values != '\0' ? find_word(values, others) >= 0 : others[0] != '\0';
    if (!met) {
        SL_CHECK(sl_option_is_default(option, settings, &met));
    }
    if (met) {
        return SL_OK;
    }
    SL_CHECK(sl_option_text(option, settings, &now));
    bool number = option->kind == SL_OPTION_U32 || option->kind == SL_OPTION_REAL;
    describe_need(other, values, need, sizeof need);
    return sl_fail(SL_EINVAL, "--%s: expected %s with %s", option->name, need, number ? now : "it");
}

enum sl_status sl_option_check_needs(const struct sl_option_table *table, const void *settings)
{
    for (size_t i = 0; i < table->n_options; i++) {
        if (table->options[i].needs != NULL) {
            SL_CHECK(check_need(table, &table->options[i], settings));
        }
    }
    return SL_OK;
}
