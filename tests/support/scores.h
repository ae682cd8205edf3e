/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Scores by name: valid_score(&scores, "acc"), and lists of scores by hand. */
#ifndef SL_TESTS_SCORES_H
#define SL_TESTS_SCORES_H

#include <math.h>
#include <string.h>

#include "runtime/starling.h"

/* The score of this name; its values are NaN if the list has none. */
static inline struct sl_score score_of(const struct sl_scores *scores, const char *name)
{
    for (uint32_t i = 0; i < scores->n; i++) {
        if (strcmp(scores->score[i].name, name) == 0) {
            return scores->score[i];
        }
    }
    return (struct sl_score){.valid = NAN, .test = NAN};
}

static inline double valid_score(const struct sl_scores *scores, const char *name)
{
    return score_of(scores, name).valid;
}

static inline double test_score(const struct sl_scores *scores, const char *name)
{
    return score_of(scores, name).test;
}

#endif
