/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Distinct texts with numbers: the ids of vertices, and the names of classes.
 */
#ifndef SL_DATA_NAMES_H
#define SL_DATA_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/status.h"

struct sl_text_cell {
    const char *p; /* without a NUL at the end */
    size_t n;
};

/* The texts in the order of their first appearance, and a hash table over them with open addressing. An empty struct
 * has no texts. */
struct sl_names {
    struct sl_text_cell *texts; /* n */
    uint32_t n;
    uint32_t *slots; /* a number or SL_NONE. At most half of them are in use */
    uint64_t n_slots;
};

/* The number of a text, or SL_NONE. */
uint32_t sl_names_find(const struct sl_names *names, struct sl_text_cell text);

/* Add a text that is not there yet. The text stays the caller's. SL_EFILE: 2^32 - 2 texts are there. SL_ENOMEM. */
enum sl_status sl_names_add(struct sl_names *names, struct sl_text_cell text, uint32_t *out);

/* Add the lines of a list, which stays the caller's. On failure some are there. Equal lines: the last is found.
 * SL_ENOMEM. */
enum sl_status sl_names_read(const char *lines, struct sl_names *names);

/* List the texts, a line each; sl_free. SL_ENOMEM. */
enum sl_status sl_names_list(const struct sl_names *names, char **out);

/* Whether the first line of a file begins with one of the texts. SL_EIO, SL_ENOMEM. */
enum sl_status sl_names_begin(const char *path, const struct sl_names *names, bool *out);

struct sl_writer;

/* Take the next cell of a line of CSV that ends at `stop`, without quotes and blanks around it. *p becomes NULL after
 * the last. The text is the caller's to change: two quotes in a quoted cell become one, in place. */
struct sl_text_cell sl_names_take(const char **p, const char *stop, char separator);

/* Write a text as a cell of CSV, in quotes if it could be read as something else. SL_EIO. */
enum sl_status sl_names_put(struct sl_writer *writer, struct sl_text_cell text);

/* Release the memory and empty the struct. */
void sl_names_free(struct sl_names *names);

/* What the labels of a column are. The rule of all files: in a column with any text that is no number, each label is
 * the name of a class. Such a column has no fractions. */
struct sl_label_kinds {
    uint64_t n_numbers;    /* labels that are finite numbers */
    uint64_t n_texts;      /* labels that are no numbers */
    bool fractions;        /* some number is not whole */
    uint64_t text, number; /* the first row with a text, and with a number */
};

/* Count the label of a row. */
void sl_label_kinds_count(struct sl_label_kinds *kinds, struct sl_text_cell label, uint64_t row);

struct sl_targets;

/* Make classes of the labels of n rows, which are names: classes in the order of the names' bytes, -1 for a label that
 * is empty or nan. *names: a line for each class (sl_free). Gives notice if some names are numbers. `where` (a file)
 * begins the messages. SL_EFILE: more than SL_MAX_CLASSES names, or a name with an end of line or a NUL, or not in
 * UTF-8. SL_ENOMEM. */
enum sl_status sl_label_classes(const char *where, const struct sl_label_kinds *kinds,
                                const struct sl_text_cell *labels, uint32_t n, struct sl_targets *out, char **names);

#endif
