/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Features for a graph without features of its own: --features none, degree, onehot or random:N.
 */
#ifndef SL_DATA_MADE_FEATURES_H
#define SL_DATA_MADE_FEATURES_H

#include "data/features.h"
#include "data/graph.h"

enum sl_made_kind {
    SL_MADE_NOT,    /* the features are in a file */
    SL_MADE_NONE,   /* no features at all */
    SL_MADE_DEGREE, /* one column: ln(1 + number of in-neighbours) */
    SL_MADE_ONEHOT, /* the identity matrix */
    SL_MADE_RANDOM  /* standard normal numbers: of a seed, the vertex and the column */
};

struct sl_made_features {
    enum sl_made_kind kind;
    uint32_t n_columns; /* of random features */
};

/* The choices for a message. */
#define SL_FEATURE_WORDS "degree, onehot or random:64"

/* Parse the value of --features. NULL, or any text other than the four words: SL_MADE_NOT. A file named like a word has
 * the name ./none. SL_EINVAL: random without a number of columns. On failure *out is unchanged. */
enum sl_status sl_made_features_parse(const char *text, struct sl_made_features *out);

/* Make the features of a graph. The ids are the dataset's own, so no partition changes a feature. names: a line for
 * each vertex, or NULL: random features then depend on the name, not on the vertex's place. out: empty.
 * SL_EINVAL: onehot, and the graph has too many vertices. SL_ENOMEM. On failure *out is empty. */
enum sl_status sl_made_features_make(const struct sl_made_features *made, const struct sl_graph *graph,
                                     const char *names, uint64_t seed, struct sl_features *out);

#endif
