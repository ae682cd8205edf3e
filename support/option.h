/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Option tables. A program, or a command of a program, has one table. The table drives parsing, environment
 * variables, --help, the man page and the completion. It also has the rules of each option: on resume, between ranks,
 * for the data, for the model.
 *
 * The option `--batch-size` corresponds to the environment variable STARLING_BATCH_SIZE and to the field batch_size
 * of the program's settings. The command line overrides the environment, and the environment overrides the default.
 * Every program also has -h, --help, --help-all and --version, and two hidden options for the build: --print-man and
 * --print-completion.
 *
 * Typical use:
 * 1. sl_option_defaults.
 * 2. sl_option_parse. If the action is not SL_OPTION_RUN: sl_option_print it and stop.
 * 3. sl_option_check, if a program may have filled the settings by itself. Then the program's own check of several
 * options together. 4. At the end sl_option_free.
 */
#ifndef SL_SUPPORT_OPTION_H
#define SL_SUPPORT_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "support/nearest.h"
#include "support/status.h"

#define SL_MAX_OPTION_LIST 64 /* entries of one list */

/* How an option's text is read, and the type of its field. */
enum sl_option_kind {
    SL_OPTION_FLAG,     /* bool: --name, --no-name, --name=yes|no */
    SL_OPTION_U32,      /* uint32_t: decimal digits only */
    SL_OPTION_U64,      /* uint64_t: decimal digits only */
    SL_OPTION_REAL,     /* double, finite */
    SL_OPTION_STRING,   /* char *, owned by the settings; NULL: not given. An empty text counts as not given. */
    SL_OPTION_CHOICE,   /* int: the position in `choices` */
    SL_OPTION_U32_LIST, /* uint32_t[capacity] and a uint32_t count: numbers or the word, separated by commas */
};

/* When a run resumes from a checkpoint. A checkpoint stores the values of all options but the free options. */
enum sl_option_change {
    SL_CHANGE_NEVER,  /* the run would go on differently. An open value comes from the checkpoint. */
    SL_CHANGE_DATA,   /* may change, if the data stay the same: their contents are compared (data/identity.h) */
    SL_CHANGE_LONGER, /* may change, unless --lr-schedule depends on the number of epochs */
    SL_CHANGE_FREELY, /* no influence on the rest of the training */
};

/* Between ranks. */
enum sl_option_spread {
    SL_SPREAD_EQUAL, /* the same value on all ranks */
    SL_SPREAD_PATH,  /* on all ranks or on none. The paths may differ; files that ranks read have equal contents */
    SL_SPREAD_OWN,   /* a matter of one rank: its processors, where its data are, what rank 0 prints */
};

/* An option. Members that do not apply stay zero. A row of a new option is complete without `change` and `spread`:
 * their zeros are the strict rules. */
struct sl_option {
    const char *name;  /* "batch-size", without the dashes */
    const char *group; /* heading in the help; options of a group are adjacent in the table */
    enum sl_option_kind kind;
    size_t offset;       /* of the field in the settings struct */
    size_t offset_n;     /* list: offset of its uint32_t count */
    uint32_t capacity;   /* list: most entries, at most SL_MAX_OPTION_LIST */
    const char *initial; /* the default, read as if typed; NULL: false, 0, NULL, empty, the first choice */
    const char *shown;   /* the default as shown in the help; NULL: `initial` */
    const char *choices; /* "none,layer,batch": the enum's names in the order of its values */
    const char *bare;    /* choice: the value of `--name` alone; other values need `--name=value` */
    double min;          /* numbers and list entries: smallest allowed value, >= 0 */
    double max;          /* numbers and list entries: largest allowed value; 0: the largest of the type */
    bool below;          /* real: max itself is not allowed */
    const char *word;    /* U32 and entries of lists: a word for UINT32_MAX ("all"); NULL: none */
    /* the value's name in the help, "N", "FILE"; NULL: the choices. If it contains FILE or DIR, completion offers
     * paths. */
    const char *argument;
    const char *hint;  /* added to the message about a wrong value; NULL: none */
    const char *unit;  /* of the value, in the plural: "vertices"; NULL: none */
    const char *help;  /* sentences without a final full stop */
    const char *brief; /* the text in --help; NULL: `help` */

    /* Properties. support/option.c reads `programs` and `common`. Other files of a program read the rest. */
    unsigned programs; /* bits of the programs that have the option; 0: all (sl_option_select) */
    enum sl_option_change change;
    enum sl_option_spread spread;
    bool leads;        /* other options follow from it: compared before them */
    bool of_data;      /* selects the dataset. A program that brings its own data keeps the default. */
    bool of_model;     /* changes a model's scores. --save stores it, --load takes it and refuses another value. */
    bool kept;         /* --save stores it, --load takes it unless another value is given */
    bool written;      /* path of a file or folder that the run writes */
    const char *needs; /* "sync=dissemination,cube": an option and its values; with other values, the default stays */
    bool common;       /* --help shows it; --help-all shows all */
    const char *synonyms; /* choice: other words for its values, "graphsage=sage,fp32=float" */
};

/* Names that users of other programs type. */
struct sl_option_alias {
    const char *answer; /* the option, "cpus"; or a sentence without a final full stop */
    const char *names;  /* separated by commas: "workers,threads" */
};

/* An entry of a section of the man page. */
struct sl_option_note {
    const char *entry; /* in bold: a command or a path */
    const char *text;  /* with a final full stop */
};

/* The options of a program or of one of its commands. */
struct sl_option_table {
    const char *program;     /* "coop_sage" */
    const char *command;     /* "convert" for `starling_data convert`; NULL: the program itself */
    const char *summary;     /* its purpose in a few words, without a final full stop */
    const char *description; /* man page: paragraphs separated by an empty line; NULL: the summary */
    const char *arguments;   /* positional arguments in the usage line, "DIR [FILE]"; NULL: none */
    int min_arguments;
    int max_arguments;
    const char *stray;      /* the option that an argument too many was most likely meant for; NULL: none */
    const char *env_prefix; /* "STARLING_"; NULL: no environment variables */
    /* man page: sections EXAMPLES and FILES, and the pages of SEE ALSO, "pipe_gnn(1), starling_data(1)"; NULL: none */
    const struct sl_option_note *examples; /* text: what the command does; entry: the command */
    size_t n_examples;
    const struct sl_option_note *files; /* entry: the path; text: its contents */
    size_t n_files;
    const char *see_also;
    const struct sl_option *options;
    size_t n_options;
    const struct sl_option_alias *aliases; /* for messages; those of options that the table lacks do not count */
    size_t n_aliases;
    const struct sl_option_table *sibling; /* a program that may have an option that this one lacks; NULL: none */
    /* the tables of a program's commands, in its overview table; otherwise NULL */
    const struct sl_option_table *commands;
    size_t n_commands;
};

/* The request of a command line. */
enum sl_option_action {
    SL_OPTION_RUN,
    SL_OPTION_HELP,       /* -h, --help */
    SL_OPTION_HELP_ALL,   /* --help-all */
    SL_OPTION_VERSION,    /* --version */
    SL_OPTION_MAN,        /* --print-man */
    SL_OPTION_COMPLETION, /* --print-completion */
};

/* Origin of an option's value, lowest priority first. */
enum sl_option_source { SL_FROM_DEFAULT, SL_FROM_ENVIRONMENT, SL_FROM_COMMAND_LINE };

/* Results of sl_option_parse besides the values. */
struct sl_option_parse {
    enum sl_option_action action;
    int n_arguments;                /* positional arguments: argv[1] .. argv[n_arguments] after parsing */
    enum sl_option_source *sources; /* by position in the table. Release it with sl_free. */
};

/* Copy the options of a program, a bit of `programs`, to `out`, in their order. Returns their number. out: room for n
 * options. */
size_t sl_option_select(const struct sl_option *options, size_t n, unsigned program, struct sl_option *out);

/* Fill the fields of all options with the defaults. Earlier strings are not released.
 * SL_EINVAL: a default in the table is invalid. SL_ENOMEM. On failure all strings are NULL. */
enum sl_status sl_option_defaults(const struct sl_option_table *table, void *settings);

/* Read the command line and the environment into settings with defaults or other valid values.
 *
 * Options and positional arguments may be mixed; after "--" all arguments are positional. The last of repeated
 * options counts. Positional arguments are moved to argv[1] and on. Parsing stops after --help, --version or a print
 * option. An environment variable is ignored if it is empty or if its option is on the command line.
 *
 * SL_EINVAL: an unknown option (the message suggests the nearest); a missing, unreadable or out-of-range value; a
 * wrong number of positional arguments. The message has the found and the expected value. SL_ENOMEM. On failure the
 * settings stay valid, and out->sources is NULL. */
enum sl_status sl_option_parse(const struct sl_option_table *table, int argc, char **argv, void *settings,
                               struct sl_option_parse *out);

/* Set one option by name, as the command line would. text NULL: the option without a value. SL_EINVAL, SL_ENOMEM. */
enum sl_status sl_option_set(const struct sl_option_table *table, const char *name, const char *text, void *settings);

/* Check settings that a program has filled by itself. Refused are values that the command line would not accept: a
 * number out of range, a choice without a name, a list that is too long. 0 and an empty list are allowed if they are
 * the default. Flags and strings are not checked. SL_EINVAL: with the message of the command line. SL_ENOMEM. */
enum sl_status sl_option_check(const struct sl_option_table *table, const void *settings);

/* Check `needs` of all options: an option whose need is not met keeps its default. SL_EINVAL. SL_ENOMEM. */
enum sl_status sl_option_check_needs(const struct sl_option_table *table, const void *settings);

/* Whether an option is left open: a number of 0 that has no default. */
bool sl_option_is_open(const struct sl_option *option, const void *settings);

/* *out: whether the option has its default value. SL_ENOMEM. */
enum sl_status sl_option_is_default(const struct sl_option *option, const void *settings, bool *out);

/* The key of an option in metrics: "batch_size". */
void sl_option_key(const struct sl_option *option, char *out, size_t bytes);

/* The environment variable of an option, "STARLING_BATCH_SIZE". The table has a prefix. */
void sl_option_variable(const struct sl_option_table *table, const char *name, char *out, size_t bytes);

/* The option at position i of the order of comparison: options that lead come first, each kind in the table's order.
 * NULL: i is too large. */
const struct sl_option *sl_option_in_order(const struct sl_option_table *table, size_t i);

/* The option of this name; NULL: none. */
const struct sl_option *sl_option_find(const struct sl_option_table *table, const char *name);

/* Offer the names of all options, and the aliases. The answer is the name of an option, or a sentence. */
void sl_option_offer(const struct sl_option_table *table, struct sl_nearest *nearest);

/* Print the answer to `action`: the help in 80 columns (of common options, or of all), "PROGRAM VERSION", the man page
 * (section 1) or the bash completion. Man page and completion include all commands. SL_OPTION_RUN prints nothing.
 * SL_EIO: writing failed. */
enum sl_status sl_option_print(const struct sl_option_table *table, enum sl_option_action action, const char *version,
                               FILE *stream);

/* An option's value as text, in the form for sl_option_set; "": not given. Release it with sl_free. SL_ENOMEM. */
enum sl_status sl_option_text(const struct sl_option *option, const void *settings, char **out);

/* The same by name. SL_EINVAL: no option has this name (the message suggests the nearest). SL_ENOMEM. */
enum sl_status sl_option_get(const struct sl_option_table *table, const char *name, const void *settings, char **out);

/* Print every option with its value and origin, one per line: "batch-size 512 (environment)". sources: as in struct
 * sl_option_parse, or NULL. SL_ENOMEM, SL_EIO. */
enum sl_status sl_option_print_values(const struct sl_option_table *table, const void *settings,
                                      const enum sl_option_source *sources, FILE *stream);

/* Copy the name of a choice ("layer") to `out`, by its position; "": no such position. */
void sl_option_choice_name(const struct sl_option *option, int position, char *out, size_t bytes);

/* Release the strings and set them to NULL. */
void sl_option_free(const struct sl_option_table *table, void *settings);

#endif
