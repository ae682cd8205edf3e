/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * LABOR's picks by sorting: what its kernels are compared with.
 */
#ifndef SL_TESTS_KEYED_H
#define SL_TESTS_KEYED_H

#include <stdint.h>
#include <stdlib.h>

struct keyed {
    double key;
    uint32_t position;
};

static int compare_position(const void *a, const void *b)
{
    uint32_t x = ((const struct keyed *)a)->position;
    uint32_t y = ((const struct keyed *)b)->position;
    return (x > y) - (x < y);
}

static int compare_keyed(const void *a, const void *b)
{
    double x = ((const struct keyed *)a)->key;
    double y = ((const struct keyed *)b)->key;
    return x == y ? compare_position(a, b) : (x > y) - (x < y);
}

/* The k smallest of n come first, by their positions; of equal keys those of lower positions are the smaller. */
static inline void sort_smallest(struct keyed *all, uint32_t n, uint32_t k)
{
    qsort(all, n, sizeof *all, compare_keyed);
    qsort(all, k, sizeof *all, compare_position);
}

#endif
