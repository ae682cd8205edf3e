/* SPDX-License-Identifier: MIT
 * Copyright (c) 2026 the Starling authors
 *
 * A training run from its settings to its last file: load, partition, start StarPU, train, evaluate, save.
 *
 *   sl_trainer_open(&settings, &trainer); sl_trainer_train(trainer, &report); sl_trainer_close(trainer);
 *
 * One trainer in a process at a time (StarPU is one); one thread drives it.
 */
#ifndef SL_RUNTIME_TRAINER_H
#define SL_RUNTIME_TRAINER_H

#include <stdio.h>

#include "runtime/plan/settings.h"
#include "runtime/report/metrics.h"
#include "runtime/report/progress.h"

struct sl_trainer;

/* Where a run reports to; either may be NULL. They stay the caller's. */
struct sl_report {
    struct sl_metrics *metrics;
    struct sl_progress *progress;
};

/* Everything up to the first step: dataset (from files, cache or generator), StarPU, partition, handles, model, ring, and the
 * checkpoint or weights to start from. `settings` have passed sl_settings_check; they must outlive the trainer, which fills in
 * what they leave open (pes, group_size, chunks, placement).
 * Any status: SL_ENOTFOUND (no such dataset, no checkpoint to resume), SL_EFILE, SL_EINVAL, SL_ENOMEM (also: the run would need
 * more memory than this process may use, or a GPU has), SL_ESTARPU, .. On failure *out is NULL and StarPU is down. */
enum sl_status sl_trainer_open(struct sl_settings *settings, struct sl_trainer **out);

/* Train the epochs that are left, evaluate, and write what the settings ask for (checkpoints on the way; model, predictions and
 * embeddings at the end, from the weights of the best validation score, or the last ones where nothing was evaluated).
 * A signal seen by runtime/machine/signals.h ends it after the step in hand, with everything saved, and SL_OK: ask sl_signals_seen.
 * SL_ENUMERIC: the loss is no longer finite. Otherwise the first failure of a task, a file, or StarPU; the graph is drained. */
enum sl_status sl_trainer_train(struct sl_trainer *trainer, const struct sl_report *report);

/* Stop StarPU and release everything; NULL is allowed. Where --trace was given, sl_trace_finish(DIR) then makes its files. */
void sl_trainer_close(struct sl_trainer *trainer);

/* What was decided, for people: dataset, partition, workers, memory, warnings; a few lines. */
enum sl_status sl_trainer_describe(const struct sl_trainer *trainer, FILE *stream);

/* Steps of an epoch. */
uint32_t sl_trainer_steps_per_epoch(const struct sl_trainer *trainer);

/* Whether the run has come to the steps that --trace records. NULL: no. */
bool sl_trainer_traced(const struct sl_trainer *trainer);

/* Estimate of the most memory the run needs, bytes; an upper bound of what samples can be. */
uint64_t sl_trainer_memory_bytes(const struct sl_trainer *trainer);

#endif
