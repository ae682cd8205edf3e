/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * The exact loss: the loss of an epoch if all its rows were fresh, with the same weights and dropout masks. History
 * is not touched. A guard compares it with the loss of training.
 */
#ifndef SL_RUNTIME_PIPE_EXACT_LOSS_H
#define SL_RUNTIME_PIPE_EXACT_LOSS_H

#include "runtime/pipe/pipe.h"

/* Submit the exact loss. Call after sl_layer_derive of all layers and before their update. loss: one double.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_exact_loss(const struct sl_pipe *pipe, uint64_t epoch, double dropout,
                                  starpu_data_handle_t loss);

/* Submit, for the chunks in hand and with the last layer as lp: partial losses of the training vertices, and GZ.
 * SL_EINVAL, SL_ESTARPU, SL_ENOMEM. */
enum sl_status sl_pipe_loss(struct sl_pipe *pipe, const struct sl_layer_pass *lp);

/* A guard against misleading history, beyond the method of GNNPipe. History may mislead training: the stale loss S
 * falls, and the exact loss E does not. For example, the 32-layer GCNII of GNNPipe's authors on ogbn-arxiv ended at an
 * accuracy of 0.14 instead of 0.68.
 *
 * Every max(R, 10) epochs the guard compares S and E, computed with the same weights and dropout masks. H is the
 * loss of the best answer that is the same for all training vertices: with classes, their entropy. B is the least of H
 * and the E of earlier checks. The guard fires if
 *   S or E is not finite, or
 *   E - S > 0.2 H and E > 0.9 B, or
 *   E > 0.95 H, from epoch max(50, 3 R) on.
 * Equal targets have H = 0. Then only the first condition counts.
 * The threshold 0.2 was fitted to runs of 8 layers: E - S was at most 0.11 H in healthy runs, and at least 0.28 H at
 * the first check after a collapse.
 *
 * After the guard has fired, training continues in exact mode. A more recent history (R = 1) is no substitute: on
 * cora with random chunks, exact runs reach 78 %. With R = 1, one of four seeds stayed at 43 %, with a stale loss so
 * close to the exact loss that no check could tell. Without a guard, R = 5 ends at 42 %, and eight ways at 60 to 76 %.
 */
struct sl_guard {
    double guess; /* H */
    double least; /* B */
};

/* A guard before its first check. guess: H. */
struct sl_guard sl_guard_of(double guess);

/* Whether an epoch (counted from 0) is checked. */
bool sl_guard_due(uint64_t epoch, uint32_t history_every);

/* Check an epoch, and update B. Returns true if the guard fires. */
bool sl_guard_check(struct sl_guard *guard, uint64_t epoch, uint32_t history_every, double stale, double exact);

/* Whether weights with this exact loss are worth returning to: E < 0.9 H. */
bool sl_guard_good(const struct sl_guard *guard, double exact);

#endif
