/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A guard that GNNPipe's authors lack: history may mislead training until the stale loss S, which falls, says nothing of the exact loss
 * E any more (their 32-layer GCNII on ogbn-arxiv ended at 0.14 instead of 0.68). Every max(R, 10) epochs both are taken with the same weights
 * and the same dropout masks, H the entropy of the training labels, B the least of H and the E of earlier checks. The guard fires where
 *   S or E is no finite number, or
 *   E - S > 0.2 H and E > 0.9 B, or
 *   E > 0.95 H, from epoch max(50, 3 R) on.
 * The threshold 0.2 was fitted to runs of 8 layers: healthy ones had at most 0.11, collapses 0.28 and more at their first check.
 *
 * Training then goes on exactly. A shorter history first (R = 1) was tried on cora with random chunks, where exact runs reach 78 %: one of
 * four seeds stayed at 43 %, with a stale loss so near the exact one that no check could tell; without a guard R = 5 ends at 42 %,
 * eight ways at 60 to 76 %.
 */
#ifndef SL_RUNTIME_PIPE_GUARD_H
#define SL_RUNTIME_PIPE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct sl_guard {
    double entropy; /* H, in nats */
    double least;   /* B */
};

/* Of n classes with so many training vertices each. */
struct sl_guard sl_guard_of(uint32_t n_classes, const double *counts);

/* Whether an epoch, from 0, is checked. */
bool sl_guard_due(uint64_t epoch, uint32_t history_every);

/* One check; true: it fires. */
bool sl_guard_check(struct sl_guard *guard, uint64_t epoch, uint32_t history_every, double stale, double exact);

/* Whether weights of that exact loss are worth going back to: E < 0.9 H. */
bool sl_guard_good(const struct sl_guard *guard, double exact);

#endif
