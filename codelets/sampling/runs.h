/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Runs of in-edges: the lists of a typed graph are ordered by relation (data/graph.h), so the in-edges of one
 * relation follow each other. Host and device.
 */
#ifndef SL_CODELETS_RUNS_H
#define SL_CODELETS_RUNS_H

#include <stdint.h>

#include "support/real.h" /* SL_HOST_DEVICE */

/* The first of the entries begin .. end - 1 that is `relation` or more; `end` if there is none. The entries ascend. */
static inline SL_HOST_DEVICE uint64_t sl_relation_from(const uint16_t *relations, uint64_t begin, uint64_t end,
                                                       uint32_t relation)
{
    while (begin < end) {
        const uint64_t middle = begin + (end - begin) / 2;
        if (relations[middle] < relation) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* The in-edges of one relation: entries begin .. end - 1 of a destination's list. */
struct sl_edge_run {
    uint32_t begin, end;
    uint32_t relation;
};

/* The run that begins at entry `begin` < degree. relations: of the list. */
static inline SL_HOST_DEVICE struct sl_edge_run sl_run_at(const uint16_t *relations, uint32_t begin, uint32_t degree)
{
    const uint32_t relation = relations[begin];
    const struct sl_edge_run run = {begin, (uint32_t)sl_relation_from(relations, begin, degree, relation + 1),
                                    relation};
    return run;
}

#endif
