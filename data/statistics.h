/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Figures of a dataset.
 */
#ifndef SL_DATA_STATISTICS_H
#define SL_DATA_STATISTICS_H

#include <stdint.h>

#include "data/dataset.h"

struct sl_statistics {
    uint64_t max_in_degree;
    uint32_t n_isolated; /* vertices without in-edges other than self loops */
    uint64_t n_self_loops;
    /* Fraction of the edges between two labelled vertices whose labels agree, without self loops. 0 if there is no such
     * edge. */
    double homophily;
    uint64_t n_nonzeros; /* of the features */
    uint32_t n_labelled; /* vertices with a label */
    uint32_t n_classes;  /* classes with a vertex */
    /* Labelled vertices of the smallest and of the largest class, empty classes left out. */
    uint32_t smallest_class;
    uint32_t largest_class;
};

/* Compute all figures. SL_ENOMEM. */
enum sl_status sl_statistics_count(const struct sl_dataset *dataset, struct sl_statistics *out);

#endif
