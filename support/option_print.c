/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Printing option tables: help, values, man page, completion. */
#include <ctype.h>
#include <string.h>

#include "support/memory.h"
#include "support/option.h"
#include "support/text.h"

#define RELEASE_DATE "2026-11-27" /* of the version in configure.ac, on man pages */
#define LINE_COLUMNS 80
#define MAN_COLUMNS 69 /* of a command on a man page: man indents it by 11 */
#define TEXT_COLUMN 26 /* where the help texts start */
#define N_EXAMPLES 4   /* of --help; --help-all has all */

static enum sl_status stream_status(FILE *stream)
{
    SL_FAIL_IF(fflush(stream) != 0 || ferror(stream), SL_EIO, "cannot write the output; is the disk full?");
    return SL_OK;
}

/* "coop_sage" or "starling_data convert". */
static void print_program(const struct sl_option_table *table, FILE *stream)
{
    fprintf(stream, "%s%s%s", table->program, table->command != NULL ? " " : "", sl_text_or(table->command, ""));
}

/* "10 vertices", the default; "": none, or a flag. After 1, a unit in the plural would be wrong. */
static void default_of(const struct sl_option *option, char *out, size_t bytes)
{
    const char *value = sl_text_or(option->shown, option->initial);
    out[0] = '\0';
    if (value == NULL || option->kind == SL_OPTION_FLAG) {
        return;
    }
    if (option->unit != NULL && option->shown == NULL && strcmp(value, "1") != 0) {
        snprintf(out, bytes, "%s %s", value, option->unit);
    } else {
        snprintf(out, bytes, "%s", value);
    }
}

static void print_upper(const char *text, FILE *stream)
{
    for (const char *c = text; *c != '\0'; c++) {
        fputc(toupper((unsigned char)*c), stream);
    }
}

static void print_capitalised(const char *text, FILE *stream)
{
    fputc(toupper((unsigned char)text[0]), stream);
    fputs(text + 1, stream);
}

/* `before`: the group of the option printed before; NULL: none. */
static bool starts_group(const struct sl_option *option, const char *before)
{
    return option->group != NULL && (before == NULL || strcmp(option->group, before) != 0);
}

/* A flag that is on by default: users type --no-NAME. */
static bool flag_is_on(const struct sl_option *option)
{
    return option->kind == SL_OPTION_FLAG && option->initial != NULL && strcmp(option->initial, "yes") == 0;
}

/* The option as typed: "--norm none|layer|batch", "--resume[=auto]", "--no-quiet" if the flag is on by default. */
static void spell(const struct sl_option *option, char *out, size_t bytes)
{
    const char *argument = sl_text_or(option->argument, option->choices);
    if (option->kind == SL_OPTION_FLAG) {
        snprintf(out, bytes, "--%s%s", flag_is_on(option) ? "no-" : "", option->name);
        return;
    }
    bool bare = option->bare != NULL;
    snprintf(out, bytes, "--%s%s%s%s", option->name, bare ? "[=" : " ", sl_text_or(argument, "TEXT"), bare ? "]" : "");
    if (option->argument == NULL && option->choices != NULL) {
        for (char *comma = strchr(out, ','); comma != NULL; comma = strchr(comma, ',')) {
            *comma = '|';
        }
    }
}

/* ---- Help ---- */

/* Length of the first word; of a command also of the values behind an option. */
static size_t word_length(const char *text, bool is_command)
{
    size_t n = strcspn(text, " ");
    while (is_command && text[n] == ' ' && text[n + 1] != '-') {
        n += 1 + strcspn(text + n + 1, " ");
    }
    return n;
}

/* How lines are made. `end` ends each full line of a command; further lines are indented; `put` prints a word. */
struct lines {
    size_t columns, indent;
    const char *end;
    void (*put)(const char *word, size_t n, FILE *stream);
};

static void put_word(const char *word, size_t n, FILE *stream)
{
    fprintf(stream, "%.*s", (int)n, word);
}

/* Print words from `column` on. Returns the last column. */
static size_t wrap_lines(const char *text, size_t column, const struct lines *lines, FILE *stream)
{
    while (*text != '\0') {
        size_t n = word_length(text, *lines->end != '\0');
        if (column + n + 1 + strlen(lines->end) > lines->columns && column > lines->indent) {
            fprintf(stream, "%s\n%*s", lines->end, (int)lines->indent, "");
            column = lines->indent;
        }
        fprintf(stream, "%s", column > lines->indent ? " " : "");
        lines->put(text, n, stream);
        column += n + (column > lines->indent);
        text += n + strspn(text + n, " ");
    }
    return column;
}

static size_t wrap(const char *text, size_t column, size_t indent, FILE *stream)
{
    return wrap_lines(text, column, &(struct lines){LINE_COLUMNS, indent, "", put_word}, stream);
}

/* Print a name and its text. Returns the last column. */
static size_t print_entry(const char *name, const char *text, FILE *stream)
{
    int used = fprintf(stream, "  %s", name);
    if (used + 2 > TEXT_COLUMN) {
        fputc('\n', stream);
        used = 0;
    }
    fprintf(stream, "%*s", TEXT_COLUMN - used, "");
    return wrap(text, TEXT_COLUMN, TEXT_COLUMN, stream);
}

static void print_line(const char *name, const char *text, FILE *stream)
{
    print_entry(name, text, stream);
    fputc('\n', stream);
}

static void print_commands(const struct sl_option_table *table, FILE *stream)
{
    fprintf(stream, "\nCommands:\n");
    for (size_t i = 0; i < table->n_commands; i++) {
        print_line(table->commands[i].command, table->commands[i].summary, stream);
    }
    fprintf(stream, "\n`%s COMMAND --help` explains a command.\n", table->program);
}

static void print_environment(const struct sl_option_table *table, FILE *stream)
{
    if (table->env_prefix == NULL || table->n_options == 0) {
        return;
    }
    char text[256];
    snprintf(
        text, sizeof text,
        "Each option can be set by an environment variable: %s and the option's name in capitals, with _ for -. The "
        "command line wins.",
        table->env_prefix);
    fputc('\n', stream);
    wrap(text, 0, 0, stream);
    fputc('\n', stream);
}

static void print_usage(const struct sl_option_table *table, FILE *stream)
{
    char summary[256];
    fprintf(stream, "Usage: ");
    print_program(table, stream);
    fprintf(stream, "%s%s%s%s\n", table->n_commands > 0 ? " COMMAND" : "", " [OPTION]...",
            table->arguments != NULL ? " " : "", sl_text_or(table->arguments, ""));
    snprintf(summary, sizeof summary, "%c%s.", toupper((unsigned char)table->summary[0]), table->summary + 1);
    wrap(summary, 0, 0, stream);
    fputc('\n', stream);
}

static void print_option(const struct sl_option *option, const char *before, bool brief, FILE *stream)
{
    char name[256];
    char value[256];
    const char *text = brief ? sl_text_or(option->brief, option->help) : option->help;
    if (starts_group(option, before)) {
        fputc('\n', stream);
        print_capitalised(option->group, stream);
        fprintf(stream, ":\n");
    }
    spell(option, name, sizeof name);
    size_t column = print_entry(name, text, stream);
    value[0] = '[';
    default_of(option, value + 1, sizeof value - 2);
    if (value[1] != '\0') {
        wrap(strcat(value, "]"), column, TEXT_COLUMN, stream);
    }
    fputc('\n', stream);
}

/* Commands end in a backslash where they go on in the next line, so that they can be copied. */
static void print_examples(const struct sl_option_table *table, size_t n, FILE *stream)
{
    if (n > 0) {
        fprintf(stream, "\nExamples:\n");
    }
    for (size_t i = 0; i < n; i++) {
        fprintf(stream, "  ");
        wrap(table->examples[i].text, 2, 2, stream);
        fprintf(stream, "\n      ");
        wrap_lines(table->examples[i].entry, 6, &(struct lines){LINE_COLUMNS, 10, " \\", put_word}, stream);
        fputc('\n', stream);
    }
}

static size_t count_common(const struct sl_option_table *table)
{
    size_t n = 0;
    for (size_t i = 0; i < table->n_options; i++) {
        n += table->options[i].common;
    }
    return n;
}

static void print_help(const struct sl_option_table *table, bool all, FILE *stream)
{
    size_t n_common = count_common(table);
    const char *before = NULL;
    all = all || n_common == 0;
    print_usage(table, stream);
    if (table->n_commands > 0) {
        print_commands(table, stream);
    }
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        if (all || option->common) {
            print_option(option, before, !all, stream);
            before = option->group;
        }
    }
    fprintf(stream, "\nOther:\n");
    if (n_common > 0) {
        char text[64];
        snprintf(text, sizeof text, "print all %zu options and exit", table->n_options);
        print_line("-h, --help", "print the common options and exit", stream);
        print_line("--help-all", text, stream);
    } else {
        print_line("-h, --help", "print this help and exit", stream);
    }
    print_line("--version", "print the version and exit", stream);
    print_examples(table, all || table->n_examples < N_EXAMPLES ? table->n_examples : N_EXAMPLES, stream);
    print_environment(table, stream);
}

/* ---- Man page ---- */

/* Print text for roff: commands are escaped, hyphens can be copied, an empty line starts a paragraph. */
static void put_roff(const char *text, size_t n, FILE *stream)
{
    for (const char *c = text; c < text + n; c++) {
        bool line_start = c == text || c[-1] == '\n';
        if (c[0] == '\n' && c[1] == '\n') {
            fprintf(stream, "\n.PP\n");
            c++;
        } else if (*c == '\\') {
            fprintf(stream, "\\e");
        } else if (*c == '-') {
            fprintf(stream, "\\-");
        } else if (line_start && (*c == '.' || *c == '\'')) {
            fprintf(stream, "\\&%c", *c);
        } else {
            fputc(*c, stream);
        }
    }
}

static void roff(const char *text, FILE *stream)
{
    put_roff(text, strlen(text), stream);
}

static void man_option(const struct sl_option *option, FILE *stream)
{
    char text[256];
    spell(option, text, sizeof text);
    fprintf(stream, ".TP\n.B ");
    roff(text, stream);
    fputc('\n', stream);
    roff(option->help, stream);
    default_of(option, text, sizeof text);
    if (text[0] != '\0') {
        fprintf(stream, " (default: ");
        roff(text, stream);
        fputc(')', stream);
    }
    fprintf(stream, ".\n");
}

static void man_options(const struct sl_option_table *table, FILE *stream)
{
    const char *before = NULL;
    for (size_t i = 0; i < table->n_options; i++) {
        bool starts = starts_group(&table->options[i], before);
        before = table->options[i].group;
        if (starts) {
            fprintf(stream, ".SS ");
            print_capitalised(before, stream);
            fputc('\n', stream);
        }
        man_option(&table->options[i], stream);
    }
}

static void man_synopsis(const struct sl_option_table *table, FILE *stream)
{
    fprintf(stream, ".B ");
    print_program(table, stream);
    fprintf(stream, "\n.RI [ OPTION ]...");
    if (table->arguments != NULL) {
        fprintf(stream, "\n.I ");
        roff(table->arguments, stream);
    }
    fputc('\n', stream);
}

static void man_commands(const struct sl_option_table *table, FILE *stream)
{
    for (size_t i = 0; i < table->n_commands; i++) {
        const struct sl_option_table *command = &table->commands[i];
        fprintf(stream, ".SH COMMAND ");
        print_upper(command->command, stream);
        fputc('\n', stream);
        man_synopsis(command, stream);
        fprintf(stream, ".PP\n");
        roff(sl_text_or(command->description, command->summary), stream);
        fprintf(stream, "%s\n", command->description != NULL ? "" : ".");
        man_options(command, stream);
    }
}

static void man_environment(const struct sl_option_table *table, FILE *stream)
{
    if (table->env_prefix == NULL) {
        return;
    }
    fprintf(stream, ".SH ENVIRONMENT\nEach option can be set by a variable: ");
    roff(table->env_prefix, stream);
    fprintf(stream, " and the option's name in capitals, with _ for \\-.\n"
                    "The command line is stronger than the environment, which is stronger than the default.\n"
                    "An empty variable counts as not set.\n");
}

/* Commands stand below their texts, unfilled, so that they can be copied. */
static void man_examples(const struct sl_option_table *table, FILE *stream)
{
    if (table->n_examples > 0) {
        fprintf(stream, ".SH EXAMPLES\n");
    }
    for (size_t i = 0; i < table->n_examples; i++) {
        fprintf(stream, "%s", i > 0 ? ".PP\n" : "");
        roff(table->examples[i].text, stream);
        fprintf(stream, "\n.PP\n.RS 4\n.nf\n");
        wrap_lines(table->examples[i].entry, 0, &(struct lines){MAN_COLUMNS, 4, " \\e", put_roff}, stream);
        fprintf(stream, "\n.fi\n.RE\n");
    }
}

static void man_files(const struct sl_option_table *table, FILE *stream)
{
    if (table->n_files > 0) {
        fprintf(stream, ".SH FILES\n");
    }
    for (size_t i = 0; i < table->n_files; i++) {
        fprintf(stream, ".TP\n.B ");
        roff(table->files[i].entry, stream);
        fputc('\n', stream);
        roff(table->files[i].text, stream);
        fputc('\n', stream);
    }
}

static void man_see_also(const struct sl_option_table *table, FILE *stream)
{
    if (table->see_also != NULL) {
        fprintf(stream, ".SH SEE ALSO\n");
        roff(table->see_also, stream);
        fputc('\n', stream);
    }
}

static void print_man(const struct sl_option_table *table, const char *version, FILE *stream)
{
    fprintf(stream, ".TH ");
    print_upper(table->program, stream);
    fprintf(stream, " 1 \"" RELEASE_DATE "\" \"Starling %s\" \"Starling\"\n.SH NAME\n%s \\- ", version, table->program);
    roff(table->summary, stream);
    fprintf(stream, "\n.SH SYNOPSIS\n");
    if (table->n_commands == 0) {
        man_synopsis(table, stream);
    }
    for (size_t i = 0; i < table->n_commands; i++) {
        fprintf(stream, "%s", i > 0 ? ".br\n" : "");
        man_synopsis(&table->commands[i], stream);
    }
    fprintf(stream, ".SH DESCRIPTION\n");
    roff(sl_text_or(table->description, table->summary), stream);
    fprintf(stream, "%s\n.SH OPTIONS\n", table->description != NULL ? "" : ".");
    man_options(table, stream);
    fprintf(stream, ".SS Other\n.TP\n.B \\-h, \\-\\-help\nPrint the help and exit.\n"
                    ".TP\n.B \\-\\-help\\-all\nPrint the help with all options and exit.\n"
                    ".TP\n.B \\-\\-version\nPrint the version and exit.\n");
    man_commands(table, stream);
    man_environment(table, stream);
    fprintf(stream, ".SH EXIT STATUS\n0: success; 1: failure; 2: the command line or the environment is wrong;\n"
                    "130: stopped by SIGINT, with everything saved.\n");
    man_files(table, stream);
    man_examples(table, stream);
    man_see_also(table, stream);
}

/* ---- Completion ---- */

/* The bash command that lists the valid values of an option. */
static void completion_values(const struct sl_option *option, FILE *stream)
{
    if (option->choices != NULL) {
        fprintf(stream, "words='");
        for (const char *c = option->choices; *c != '\0'; c++) {
            fputc(*c == ',' ? ' ' : *c, stream);
        }
        fputc('\'', stream);
    } else if (option->argument != NULL && strstr(option->argument, "FILE") != NULL) {
        fprintf(stream, "paths=-f");
    } else if (option->argument != NULL && strstr(option->argument, "DIR") != NULL) {
        fprintf(stream, "paths=-d");
    } else {
        fprintf(stream, ":");
    }
}

/* The completion cases of one table: values of options, then the names of all options. */
static void completion_cases(const struct sl_option_table *table, const char *indent, FILE *stream)
{
    fprintf(stream, "%scase \"$previous\" in\n", indent);
    for (size_t i = 0; i < table->n_options; i++) {
        if (table->options[i].kind != SL_OPTION_FLAG) {
            fprintf(stream, "%s--%s) ", indent, table->options[i].name);
            completion_values(&table->options[i], stream);
            fprintf(stream, " ;;\n");
        }
    }
    fprintf(stream, "%s*) words='--help --help-all --version", indent);
    for (size_t i = 0; i < table->n_options; i++) {
        const struct sl_option *option = &table->options[i];
        fprintf(stream, " --%s%s", flag_is_on(option) ? "no-" : "", option->name);
    }
    for (size_t i = 0; i < table->n_commands; i++) {
        fprintf(stream, " %s", table->commands[i].command);
    }
    fprintf(stream, "'%s ;;\n%sesac\n", table->max_arguments > 0 ? "; paths=-f" : "", indent);
}

static void print_completion(const struct sl_option_table *table, FILE *stream)
{
    fprintf(stream, "# bash completion for %s\n_%s()\n{\n", table->program, table->program);
    fprintf(stream, "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} words= paths=\n"
                    "    if [[ $current == = ]]; then\n"
                    "        current=\n"
                    "    elif [[ $previous == = ]]; then\n"
                    "        previous=${COMP_WORDS[COMP_CWORD-2]}\n"
                    "    fi\n"
                    "    case \"${COMP_WORDS[1]}\" in\n");
    for (size_t i = 0; i < table->n_commands; i++) {
        fprintf(stream, "    %s)\n", table->commands[i].command);
        completion_cases(&table->commands[i], "        ", stream);
        fprintf(stream, "        ;;\n");
    }
    fprintf(stream, "    *)\n");
    completion_cases(table, "        ", stream);
    fprintf(stream,
            "        ;;\n    esac\n"
            "    COMPREPLY=()\n"
            "    [[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
            "    if [[ -n $paths ]]; then\n"
            "        mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen \"$paths\" -- \"$current\")\n"
            "        compopt -o filenames 2>/dev/null\n"
            "    fi\n"
            "}\n"
            "complete -F _%s %s\n",
            table->program, table->program);
}

/* ---- Public ---- */

enum sl_status sl_option_print(const struct sl_option_table *table, enum sl_option_action action, const char *version,
                               FILE *stream)
{
    switch (action) {
    case SL_OPTION_RUN: return SL_OK;
    case SL_OPTION_HELP: print_help(table, false, stream); break;
    case SL_OPTION_HELP_ALL: print_help(table, true, stream); break;
    case SL_OPTION_VERSION: fprintf(stream, "%s %s\n", table->program, version); break;
    case SL_OPTION_MAN: print_man(table, version, stream); break;
    case SL_OPTION_COMPLETION: print_completion(table, stream); break;
    }
    return stream_status(stream);
}

enum sl_status sl_option_print_values(const struct sl_option_table *table, const void *settings,
                                      const enum sl_option_source *sources, FILE *stream)
{
    static const char *const source_names[] = {"default", "environment", "command line"};
    for (size_t i = 0; i < table->n_options; i++) {
        SL_FREED char *text = NULL;
        SL_CHECK(sl_option_text(&table->options[i], settings, &text));
        fprintf(stream, "%s %s", table->options[i].name, text[0] != '\0' ? text : "-");
        if (sources != NULL) {
            fprintf(stream, " (%s)", source_names[sources[i]]);
        }
        fputc('\n', stream);
    }
    return stream_status(stream);
}
