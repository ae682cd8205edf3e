/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Option tables: one table per program (or command of a program) drives parsing, environment variables, --help, the man page
 * and the completion, so that they cannot drift apart.
 *
 * An option `--batch-size` is the environment variable STARLING_BATCH_SIZE and the field batch_size of the program's settings.
 * Order of strength: command line, environment, default. Every program also has -h, --help, --version, and, not shown in the
 * help, --print-man and --print-completion, from which the build makes the files to install.
 *
 * Typical use: sl_option_defaults; sl_option_parse; if the action is not SL_OPTION_RUN, sl_option_print it and stop; the
 * program's own check of what options mean together, which begins with sl_option_check where settings may come from elsewhere;
 * at the end sl_option_free.
 * What options mean together is not checked here.
 */
#ifndef SL_SUPPORT_OPTION_H
#define SL_SUPPORT_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "support/status.h"

#define SL_MAX_OPTIONS 64     /* in one table */
#define SL_MAX_OPTION_LIST 64 /* entries of one list */

/* How an option's text is read, and the type of its field. */
enum sl_option_kind {
    SL_OPTION_FLAG,     /* bool: --name, --no-name, --name=yes|no */
    SL_OPTION_U32,      /* uint32_t: decimal digits only */
    SL_OPTION_U64,      /* uint64_t: decimal digits only */
    SL_OPTION_REAL,     /* double, finite */
    SL_OPTION_STRING,   /* char *, owned by the settings; NULL: not given. An empty text is "not given" too */
    SL_OPTION_CHOICE,   /* int: the position in `choices` */
    SL_OPTION_U32_LIST, /* uint32_t[capacity] and a uint32_t count: numbers separated by commas, at least one */
};

/* One option. Members that do not apply stay zero. */
struct sl_option {
    const char *name;  /* "batch-size", without the dashes */
    const char *group; /* heading in the help; options of one group stand together in the table */
    enum sl_option_kind kind;
    size_t offset;       /* of the field in the settings struct */
    size_t offset_n;     /* list: of its uint32_t count */
    uint32_t capacity;   /* list: entries the field holds, at most SL_MAX_OPTION_LIST */
    const char *initial; /* the default, read as if typed; NULL: false, 0, NULL, empty, the first choice */
    const char *shown;   /* what the help says the default is; NULL: `initial` */
    const char *choices; /* "none,layer,batch": the enum's names in the order of its values */
    const char *bare;    /* choice: what `--name` alone stands for; a value is then given by `--name=value` only */
    double min;          /* numbers and list entries: smallest allowed value, >= 0 */
    double max;          /* numbers and list entries: largest allowed value; 0: as large as the type goes */
    bool below;          /* real: max itself is not allowed */
    const char *word;    /* U32: a word that stands for UINT32_MAX ("all"), beside the numbers; NULL: none */
    const char *
        argument; /* the value's name in the help, "N", "FILE"; NULL: the choices. With FILE or DIR in it the completion
                             offers paths */
    const char *hint; /* added to the message about a wrong value; NULL: none */
    const char *unit; /* of the value, plural: "vertices"; NULL: none */
    const char *help; /* one or two sentences without a final full stop */
};

/* The options of a program or of one of its commands. */
struct sl_option_table {
    const char *program;     /* "coop_sage" */
    const char *command;     /* "convert" for `starling_data convert`; NULL: the program itself */
    const char *summary;     /* what it does, in a few words without a final full stop */
    const char *description; /* man page: paragraphs separated by an empty line; NULL: the summary */
    const char *arguments;   /* positional arguments as the usage line shows them, "DIR [FILE]"; NULL: none */
    int min_arguments;
    int max_arguments;
    const char *env_prefix; /* "STARLING_"; NULL: no environment variables */
    const struct sl_option *options;
    size_t n_options;                       /* at most SL_MAX_OPTIONS */
    const struct sl_option_table *commands; /* the overview table of a program with commands: theirs; else NULL */
    size_t n_commands;
};

/* What the command line asks for. */
enum sl_option_action {
    SL_OPTION_RUN,
    SL_OPTION_HELP,       /* -h, --help */
    SL_OPTION_VERSION,    /* --version */
    SL_OPTION_MAN,        /* --print-man */
    SL_OPTION_COMPLETION, /* --print-completion */
};

/* Where an option's value came from, the weakest first. */
enum sl_option_source { SL_FROM_DEFAULT, SL_FROM_ENVIRONMENT, SL_FROM_COMMAND_LINE };

/* What sl_option_parse found besides the values. */
struct sl_option_parse {
    enum sl_option_action action;
    int n_arguments; /* positional arguments: argv[1] .. argv[n_arguments] after parsing */
    enum sl_option_source sources[SL_MAX_OPTIONS]; /* of the option at the same place in the table */
};

/* Fill the fields of all options with the defaults. What the fields held is not released.
 * SL_ENOMEM; SL_EINVAL: a default in the table is not a value of its option. On failure all strings are NULL. */
enum sl_status sl_option_defaults(const struct sl_option_table *table, void *settings);

/* Read the command line and the environment into settings that hold the defaults (or any valid values). Options and
 * positional arguments may be mixed; after "--" all is positional. The last one of a repeated option counts. Positional
 * arguments are moved to argv[1] and on. After --help, --version or a print option nothing more is looked at. An environment
 * variable that is empty, or whose option is on the command line, is not looked at.
 * SL_EINVAL: unknown option (with the nearest name), value missing, not readable, or out of range, number of positional
 * arguments; the message says what was found and what is expected. SL_ENOMEM. The settings stay valid on failure. */
enum sl_status sl_option_parse(const struct sl_option_table *table, int argc, char **argv, void *settings,
                               struct sl_option_parse *out);

/* Set one option by name, as the command line would (`text` NULL: bare). SL_EINVAL, SL_ENOMEM. */
enum sl_status sl_option_set(const struct sl_option_table *table, const char *name, const char *text, void *settings);

/* Refuse fields that the command line would not have set: a number out of range, a choice without a name, a list that is too
 * long. For settings that a program fills by itself; the fields of flags and texts may hold anything. 0 and an empty list are
 * allowed where they are the default. SL_EINVAL: the message is the command line's. SL_ENOMEM. */
enum sl_status sl_option_check(const struct sl_option_table *table, const void *settings);

/* The environment variable of an option: "STARLING_BATCH_SIZE". Empty if the table has no prefix. */
void sl_option_variable(const struct sl_option_table *table, const struct sl_option *option, char *out, size_t bytes);

/* The option of that name; NULL: none. */
const struct sl_option *sl_option_find(const struct sl_option_table *table, const char *name);

/* Print what `action` asks for: the help, "PROGRAM VERSION", the man page (section 1) or the bash completion, the latter two
 * with all commands. SL_OPTION_RUN prints nothing. SL_EIO: the stream has an error. */
enum sl_status sl_option_print(const struct sl_option_table *table, enum sl_option_action action, const char *version,
                               FILE *stream);

/* An option's current value as text that sl_option_set would read back (not given: ""), to be given to sl_free. SL_ENOMEM. */
enum sl_status sl_option_text(const struct sl_option *option, const void *settings, char **out);

/* The same by the option's name. SL_EINVAL: there is none of that name (message: the nearest). SL_ENOMEM. */
enum sl_status sl_option_get(const struct sl_option_table *table, const char *name, const void *settings, char **out);

/* Print every option with its value and where that came from, one a line: "batch-size 512 (environment)". `sources` as in
 * struct sl_option_parse, or NULL. SL_ENOMEM, SL_EIO. */
enum sl_status sl_option_print_values(const struct sl_option_table *table, const void *settings,
                                      const enum sl_option_source *sources, FILE *stream);

/* A choice's name by its position ("layer"), copied to `out`; "" where there is none. */
void sl_option_choice_name(const struct sl_option *option, int position, char *out, size_t bytes);

/* "default", "environment", "command line". */
const char *sl_option_source_name(enum sl_option_source source);

/* Release the strings and set them to NULL. */
void sl_option_free(const struct sl_option_table *table, void *settings);

#endif
