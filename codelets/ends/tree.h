/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The order of a sum over PEs: a tree whose leaves are numbered, such as the PEs of a run. A leaf is the sum of its own
 * terms, in the order of a list. The sums of two leaves meet at the highest bit in which their numbers differ:
 *
 *   leaf  0   1   2   3   4   5   6
 *         '-+-'   '-+-'   '-+-'   |
 *           '---+---'       '--+--'
 *               '-------+------'
 *
 * A leaf without terms is zero. The sum of a subtree may stand for the subtree's first leaf. So any ranks may add what
 * they have, and send one matrix for each subtree: the bits stay. No sum is -0, so that zeros change nothing.
 */
#ifndef SL_CODELETS_TREE_H
#define SL_CODELETS_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "support/real.h"

#define SL_TREE_DEPTH 24 /* bits of a leaf's number */

/* The sums that wait for the sum on their right. Sum k meets the next one at bit at[k], counted from 1. */
struct sl_tree {
    uint32_t n;
    uint8_t at[SL_TREE_DEPTH];
};

/* Whether term i of n terms is the first of its leaf. leaf: of each term, ascending. */
SL_INLINE bool sl_tree_begins(const uint32_t *leaf, uint32_t i)
{
    return i == 0 || leaf[i] != leaf[i - 1];
}

/* The bit at which two leaves meet, counted from 1; 0: a leaf and itself. */
SL_INLINE uint32_t sl_tree_meets(uint32_t a, uint32_t b)
{
    return a == b ? 0 : 32 - (uint32_t)__builtin_clz(a ^ b);
}

/* After term i: the number of waiting sums that are added to the sum in hand, the last one first. It then waits, unless
 * its leaf goes on or i is the last term. tree->n is 0 before the first term. */
SL_INLINE uint32_t sl_tree_meet(struct sl_tree *tree, uint32_t n, const uint32_t *leaf, uint32_t i)
{
    const uint32_t n_waiting = tree->n;
    uint8_t bit = SL_TREE_DEPTH + 1; /* behind the last term all meet */
    if (i + 1 < n) {
        if (leaf[i + 1] == leaf[i]) {
            return 0;
        }
        bit = (uint8_t)sl_tree_meets(leaf[i], leaf[i + 1]);
    }
    while (tree->n > 0 && tree->at[tree->n - 1] < bit) {
        tree->n--;
    }
    const uint32_t n_met = n_waiting - tree->n;
    if (i + 1 < n) {
        tree->at[tree->n++] = bit;
    }
    return n_met;
}

/* The sum of n numbers. */
static inline double sl_tree_sum(uint32_t n, const uint32_t *leaf, const double *terms)
{
    double sum[SL_TREE_DEPTH + 1] = {0}; /* those that wait, and the one in hand */
    struct sl_tree tree;
    tree.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = tree.n;
        if (sl_tree_begins(leaf, i)) {
            sum[at] = 0;
        }
        sum[at] += terms[i];
        for (uint32_t n_met = sl_tree_meet(&tree, n, leaf, i); n_met > 0; n_met--, at--) {
            sum[at - 1] += sum[at];
        }
    }
    return sum[0];
}

/* Make room for a term of a leaf behind the n terms with this leaf or an earlier one. Returns its place. */
static inline uint32_t sl_tree_place(uint32_t n, uint32_t *leaf, uint32_t of)
{
    uint32_t place = n;
    for (; place > 0 && leaf[place - 1] > of; place--) {
        leaf[place] = leaf[place - 1];
    }
    leaf[place] = of;
    return place;
}

#endif
