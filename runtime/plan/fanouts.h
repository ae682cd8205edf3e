/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Fanouts by relation (--relation-fanout). A run of in-edges of one relation then has a fanout of its own
 * (codelets/sampling/sample.h), as in DGL's and PyG's samplers of typed graphs.
 *
 *   each                            the numbers of --fanout hold for each relation
 *   RELATION:N,N,../RELATION:N,N,..   the same, but these relations have these numbers
 *
 * A RELATION is its number, its name, or SOURCE___NAME___DESTINATION with the types of its ends. A name stands for all
 * relations of the name. The reverse of NAME is rev_NAME, with the types in the other order.
 */
#ifndef SL_RUNTIME_PLAN_FANOUTS_H
#define SL_RUNTIME_PLAN_FANOUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "support/status.h"

#define SL_MAX_LAYERS 256
#define SL_FANOUT_ALL UINT32_MAX
#define SL_MAX_SCORE_FANOUT 1024 /* or all */

struct sl_dataset; /* data/dataset.h */

/* The option, and what it stands beside. */
struct sl_fanouts {
    const char *text; /* NULL: fanouts are over all relations */
    uint32_t n_layers;
    const uint32_t *fanout; /* [n_layers], input side first: --fanout */
    bool replace;           /* --replace */
};

/* Check the option's text. SL_EINVAL. */
enum sl_status sl_fanouts_check(const struct sl_fanouts *fanouts);

/* *out: [n_layers x n_relations of the graph], each >= 1, SL_FANOUT_ALL: all; sl_free. NULL if there is no text. The
 * text is checked. SL_EINVAL: the dataset has no such relation. SL_ENOMEM. */
enum sl_status sl_fanouts_read(const struct sl_fanouts *fanouts, const struct sl_dataset *dataset, uint32_t **out);

#endif
