/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The order of numbers, for sorting and searching.
 */
#ifndef SL_SUPPORT_COMPARE_H
#define SL_SUPPORT_COMPARE_H

#include <stddef.h>
#include <stdint.h>

/* Compare a with b; if they are equal, next_a with next_b. For qsort: -1, 0 or 1. */
static inline int sl_order(uint64_t a, uint64_t b, uint64_t next_a, uint64_t next_b)
{
    if (a == b) {
        a = next_a;
        b = next_b;
    }
    return (a > b) - (a < b);
}

/* The order of uint32_t, for qsort. */
static inline int sl_order_u32(const void *a, const void *b)
{
    return sl_order(*(const uint32_t *)a, *(const uint32_t *)b, 0, 0);
}

/* An item with a random number, for shuffling within groups: sorted by group, then by the number. */
struct sl_ticket {
    uint64_t key;
    uint32_t group, item;
};

/* The order of tickets, for qsort. */
static inline int sl_order_tickets(const void *a, const void *b)
{
    const struct sl_ticket *x = (const struct sl_ticket *)a;
    const struct sl_ticket *y = (const struct sl_ticket *)b;
    const int order = sl_order(x->group, y->group, x->key, y->key);
    return order != 0 ? order : sl_order(x->item, y->item, 0, 0);
}

/* The range of x, by binary search: the largest i < n with first[i] <= x, or 0. first: n + 1 ascending numbers. */
static inline uint32_t sl_range_of(const uint32_t *first, uint32_t n, uint32_t x)
{
    uint32_t low = 0;
    uint32_t high = n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (first[middle] <= x) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The first of n items, of `size` bytes, whose key is at least `key`; n: none. Items begin with their key, a uint64_t,
 * and ascend by it. */
static inline size_t sl_first_from(const void *items, size_t n, size_t size, uint64_t key)
{
    size_t low = 0;
    size_t high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (*(const uint64_t *)(const void *)((const char *)items + middle * size) < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

#endif
