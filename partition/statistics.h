/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * Figures that describe a dataset.
 */
#ifndef SL_PARTITION_STATISTICS_H
#define SL_PARTITION_STATISTICS_H

#include <stdint.h>

#include "partition/dataset.h"

struct sl_statistics {
    uint64_t max_in_degree;
    uint32_t n_isolated; /* vertices without any in-edge but self loops */
    uint64_t n_self_loops;
    double homophily;    /* share of the edges between two labelled vertices whose labels agree, without self loops; 0
                                where there is none */
    uint64_t n_nonzeros; /* of the features */
    uint32_t n_labelled; /* vertices with a label */
    uint32_t n_classes;  /* that a vertex has */
    uint32_t smallest_class; /* labelled vertices of the smallest and of the largest class that has any */
    uint32_t largest_class;
};

/* Count the figures of labels alone. SL_ENOMEM. */
enum sl_status sl_statistics_count_labels(const struct sl_dataset *dataset, struct sl_statistics *out);

/* Count all. SL_ENOMEM. */
enum sl_status sl_statistics_count(const struct sl_dataset *dataset, struct sl_statistics *out);

#endif
