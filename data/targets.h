/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Targets: the column of a dataset that a model learns to answer. A row of targets belongs to a vertex.
 *
 * An entry has four bytes, whatever its type. Four bytes with all bits set are an unknown entry of either type: class
 * -1, and the number nan.
 */
#ifndef SL_DATA_TARGETS_H
#define SL_DATA_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "support/status.h"

#define SL_MAX_CLASSES 65536 /* the limit of --hidden; a larger label is more likely another number than a class */
#define SL_TARGET_BYTES 4    /* of an entry */
#define SL_UNKNOWN_CLASS (-1)
#define SL_IGNORED_CLASS (-100) /* PyTorch's losses ignore it. In files and arrays it is unknown, too */

enum sl_target_type {
    SL_TARGET_CLASS, /* int32: a class, or -1 if unknown. The width is 1 */
    SL_TARGET_NUMBER /* float: a finite number, or nan if unknown */
};

struct sl_targets {
    enum sl_target_type type;
    uint32_t n_rows, width; /* row-major */
    uint32_t n_classes;     /* of type CLASS: 1 + the largest class, or more; at most SL_MAX_CLASSES in files */
    union {
        void *data;
        int32_t *classes;
        float *numbers;
    };
};

/* The type that a command wants. */
enum sl_target_choice {
    SL_TARGETS_ANY,     /* a single column of whole numbers has classes: -100, -1 .. SL_MAX_CLASSES - 1 */
    SL_TARGETS_CLASSES, /* anything but classes is refused */
    SL_TARGETS_NUMBERS  /* numbers, also if all are whole */
};

/* The number of outputs of a model that answers the targets: a score of each class, or a number of each column. */
static inline uint32_t sl_targets_outputs(const struct sl_targets *targets)
{
    return targets->type == SL_TARGET_CLASS ? targets->n_classes : targets->width;
}

/* Bytes of the table. */
static inline uint64_t sl_targets_bytes(const struct sl_targets *targets)
{
    return (uint64_t)targets->n_rows * targets->width * SL_TARGET_BYTES;
}

/* Whether some target of row v is known. */
bool sl_targets_known(const struct sl_targets *targets, uint32_t v);

/* Whether all known numbers are 0 or 1. */
bool sl_targets_are_labels(const struct sl_targets *targets);

/* Make targets of n_rows unknown classes. SL_ENOMEM. */
enum sl_status sl_targets_make_unknown(uint32_t n_rows, struct sl_targets *out);

/* Take over n_rows classes. */
struct sl_targets sl_targets_take_classes(int32_t *classes, uint32_t n_rows);

/* Whether an entry of a table is a class, or a finite number; nan is both. */
bool sl_target_is_class(float x);
bool sl_target_is_number(float x);

/* Take over a table of numbers [n_rows x width], also on failure. Unless `choice` is NUMBERS, a single column of
 * classes becomes classes in place. `where` (a file) begins the message. SL_EFILE: a single column of whole numbers
 * that are not all classes; with CLASSES, any other table. */
enum sl_status sl_targets_take(const char *where, float *numbers, uint32_t n_rows, uint32_t width,
                               enum sl_target_choice choice, struct sl_targets *out);

/* Give notice that the labels of `where`, written as floats, became classes. Numbers: no notice. */
void sl_targets_tell_whole(const char *where, const struct sl_targets *targets);

/* Make the rows `first` and on of a table of n_rows; all others are unknown. SL_ENOMEM: the table is unchanged. */
enum sl_status sl_targets_place(uint32_t first, uint32_t n_rows, struct sl_targets *targets);

/* Widen the range of classes to n at least. Targets that are numbers stay. */
void sl_targets_widen(struct sl_targets *targets, uint32_t n);

/* 1 + the largest class. */
uint32_t sl_targets_count_classes(const struct sl_targets *targets);

/* Free the table and empty the struct. An empty struct is allowed. */
void sl_targets_free(struct sl_targets *targets);

#endif
